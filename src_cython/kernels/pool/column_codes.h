/* Maxima of numbers of 16 bits in windows of 2 and 3 by 2 where lanes are positions, at levels of eight lanes: sixteen results of each row
 * from two registers of codes as words (codes.h), down all rows of a
 * unit, then the next. */
#ifndef POP_POOL_COLUMN_CODES_H
#define POP_POOL_COLUMN_CODES_H
#include "kernels/pool/codes.h"

/* Words of a row as the results take them. */
POP_INLINE __m256i pop_pool_code_lanes(const pop_pool_code_column *c, int v, __m256i words)
{
    const __m256i across = _mm256_permute2x128_si256(words, words, 1);
    const __m256i there = _mm256_or_si256(_mm256_shuffle_epi8(words, c->own[v]), _mm256_shuffle_epi8(across, c->other[v]));
    return _mm256_or_si256(there, c->none[v]);
}
/* The greatest of two or three words from each even one of a and then of b on. */
POP_INLINE __m256i pop_pool_code_most(const int taps, __m256i a, __m256i b)
{
    __m256i low = _mm256_max_epi16(a, _mm256_slli_epi32(a, 16)), high = _mm256_max_epi16(b, _mm256_slli_epi32(b, 16));
    if (taps == 3) {
        low = _mm256_max_epi16(low, _mm256_alignr_epi8(_mm256_permute2x128_si256(a, b, 0x21), a, 2));
        high = _mm256_max_epi16(high, _mm256_alignr_epi8(_mm256_permute2x128_si256(b, b, 0x21), b, 2));
    }
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_srai_epi32(low, 16), _mm256_srai_epi32(high, 16)), 0xd8);
}
/* The first eight and the last eight: of three taps of all, of two of those that the second register has. */
POP_INLINE void pop_pool_store_codes(const int taps, const pop_pool_code_column *c, char *to, __m256i codes)
{
    const __m128i low = _mm256_castsi256_si128(codes), high = _mm256_extracti128_si256(codes, 1);
    const __m128i last = _mm_or_si128(_mm_shuffle_epi8(low, c->last[0]), _mm_shuffle_epi8(high, c->last[1]));
    _mm_storeu_si128((__m128i *)(void *)to, low);
    _mm_storeu_si128((__m128i *)(void *)(to + 2 * c->count - 16), taps == 2 ? high : last);
}

/* What a row's results take of `count` rows, of which `last` was read before, and its words. */
typedef struct pop_pool_code_rows {
    const char *last;
    __m256i x, y;
} pop_pool_code_rows;

POP_INLINE void pop_pool_code_row(const pop_pool_code_kind *kind, const int taps, const int whole, const int count, const pop_pool_code_column *c,
                                  const pop_pool_column_row *row, const char *from, char *to, pop_pool_code_rows *r)
{
    __m256i a = r->x, b = r->y;
    for (int j = 0; j < count; j++) {
        const char *read = from + 2 * row->at[j];
        if (j || read != r->last) {
            r->x = pop_pool_code_words(kind, read + 2 * c->from[0]), r->y = pop_pool_code_words(kind, read + 2 * c->from[1]);
            a = j ? _mm256_max_epi16(a, r->x) : r->x, b = j ? _mm256_max_epi16(b, r->y) : r->y;
        }
        r->last = read;
    }
    if (!whole) a = pop_pool_code_lanes(c, 0, a), b = pop_pool_code_lanes(c, 1, b);
    pop_pool_store_codes(taps, c, to + 2 * row->made, pop_pool_of_words(kind, pop_pool_code_most(taps, a, b)));
}

POP_INLINE void pop_pool_code_column_down(const pop_pool_code_kind *kind, const int taps, const int whole, const pop_pool_code_column *column,
                                          const pop_pool_column_row *row, const pop_pool_column_row *end, const char *from, char *to)
{
    const pop_pool_code_column c = *column; /* which nothing that is written may be */
    pop_pool_code_rows r = {NULL, _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (; row < end; row++) {
        if (row->count == 3) pop_pool_code_row(kind, taps, whole, 3, &c, row, from, to, &r);
        else if (row->count == 2) pop_pool_code_row(kind, taps, whole, 2, &c, row, from, to, &r);
        else pop_pool_code_row(kind, taps, whole, 1, &c, row, from, to, &r);
    }
}

POP_INLINE void pop_pool_code_columns_down(const pop_pool_unit *u, const pop_pool_columns *columns, const int taps)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const pop_pool_code_kind kind = pop_pool_code_kind_of(s->operands->format == POP_IS_BF16);
    const char *from = pop_pool_base(u, s->operands) + 2 * g->read;
    char *to = pop_pool_base(u, s->operands + 3) + 2 * g->made;
    for (const pop_pool_column_row *row = columns->near, *last = row + columns->rows, *end; row < last; row = end) {
        end = last - row > columns->some ? row + columns->some : last;
        for (const pop_pool_code_column *c = columns->codes; c < columns->codes + columns->code_count; c++) {
            if (c->whole) pop_pool_code_column_down(&kind, taps, 1, c, row, end, from, to + 2 * c->made);
            else pop_pool_code_column_down(&kind, taps, 0, c, row, end, from, to + 2 * c->made);
        }
    }
}

static int pop_pool_by_code_columns(const pop_pool_unit *u, const pop_pool_columns *columns)
{
    if (columns->code_count == 0) return 0;
    if (u->spec->kernel == 3) pop_pool_code_columns_down(u, columns, 3);
    else pop_pool_code_columns_down(u, columns, 2);
    return 1;
}
#endif
