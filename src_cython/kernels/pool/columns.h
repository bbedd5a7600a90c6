/* Windows of 2 and 3 by 2 where lanes are positions, at levels of eight lanes: eight results of each row from registers, down all rows of a
 * unit, then the next eight. Where rows and columns begin is the same for all channels, and found once. The bits are those of walk.h. */
#ifndef POP_POOL_COLUMNS_H
#define POP_POOL_COLUMNS_H

#include "kernels/pool/column_tables.h"
#include "kernels/pool/column_codes.h"
#include "kernels/pool/shares.h"

/* What eight results take of rows, joined. What is seen is added up: that is NaN where a number was, at the pace of additions, which
 * maxima have to spare. */
POP_INLINE pop_v_f pop_pool_column_joined(const int sum, const int format, const int count, const char *const *rows, int64_t i, pop_v_f *seen)
{
    pop_v_f a = pop_pool_load(format, rows[0], i, POP_LANES);
    if (!sum) *seen = *seen + a;
    for (int j = 1; j < count; j++) {
        pop_v_f x = pop_pool_load(format, rows[j], i, POP_LANES);
        POP_IN_REGISTER(x); /* else it is loaded for each operation */
        if (!sum) *seen = *seen + x;
        a = sum ? a + x : pop_v_max_f(a, x);
    }
    return a;
}

POP_INLINE pop_v_f pop_pool_column_results(const int sum, const int format, const int taps, const int whole, const int count,
                                           const pop_pool_column *c, const char *const *rows, pop_v_f *seen)
{
    const pop_v_f none = pop_v_splat(sum ? POP_POOL_NONE_sum : POP_POOL_NONE_max);
    pop_v_f v[3];
    for (int i = 0; i < taps; i++) {
        v[i] = pop_pool_column_joined(sum, format, count, rows, c->from[i], seen + i);
        if (!whole) v[i] = _mm256_blendv_ps(none, _mm256_permutevar8x32_ps(v[i], c->order[i]), c->there[i]);
    }
    const pop_v_f even = _mm256_shuffle_ps(v[0], v[1], 0x88), odd = _mm256_shuffle_ps(v[0], v[1], 0xdd);
    pop_v_f z = sum ? even + odd : pop_v_max_f(even, odd);
    if (taps == 3) { /* from two further on */
        const __m256i low = (__m256i)v[0], across = _mm256_permute2x128_si256(low, (__m256i)v[1], 0x21);
        const pop_v_f third = _mm256_shuffle_ps((pop_v_f)_mm256_alignr_epi8(across, low, 8), v[2], 0x88);
        z = sum ? z + third : pop_v_max_f(z, third);
    }
    return pop_pool_in_order(z + pop_v_splat(0.0f));
}

/* Maxima of BF16 need no rounding. */
POP_INLINE void pop_pool_store_column(const int sum, const int format, char *to, pop_v_f x, int64_t n)
{
    if (format != 2 || n < POP_LANES) {
        pop_pool_store_made(format, to, 0, x, n);
        return;
    }
    const __m256i codes = _mm256_srli_epi32(sum ? pop_pool_rounded(x) : (__m256i)x, 16);
    _mm_storeu_si128((__m128i *)(void *)to, _mm_packus_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1)));
}

/* Eight results of rows [row, end); returns whether no number of a maximum was NaN, where that is known. */
POP_INLINE int pop_pool_column_down(const int sum, const int format, const int taps, const int whole, const pop_pool_column *column,
                                        const pop_pool_column_row *row, const pop_pool_column_row *end, const int divides, const char *from,
                                        char *to)
{
    const int64_t bytes = format ? 2 : 4, count = column->count;
    pop_pool_column c; /* which nothing that is written may be */
    for (int i = 0; i < taps; i++) c.from[i] = column->from[i], c.order[i] = column->order[i], c.there[i] = column->there[i];
    const __m256 divisors = column->divisors;
    pop_v_f seen[3] = {pop_v_splat(0.0f), pop_v_splat(0.0f), pop_v_splat(0.0f)};
    for (; row < end; row++) {
        const char *const rows[3] = {from + row->at[0] * bytes, from + row->at[1] * bytes, from + row->at[2] * bytes};
        pop_v_f z;
        if (row->count == 3) z = pop_pool_column_results(sum, format, taps, whole, 3, &c, rows, seen);
        else if (row->count == 2) z = pop_pool_column_results(sum, format, taps, whole, 2, &c, rows, seen);
        else z = pop_pool_column_results(sum, format, taps, whole, 1, &c, rows, seen);
        if (divides) z = z / (pop_v_splat(row->divisor) * divisors);
        pop_pool_store_column(sum, format, to + row->made * bytes, z, count);
    }
    const pop_v_f all = seen[0] + seen[1] + seen[2];
    return !pop_v_any(~pop_v_eq_f(all, all));
}

POP_INLINE int pop_pool_columns_down(const pop_pool_unit *u, const pop_pool_columns *columns, const int sum, const int format, const int taps)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const int64_t bytes = format ? 2 : 4;
    const char *from = pop_pool_base(u, s->operands) + g->read * bytes;
    char *to = pop_pool_base(u, s->operands + 3) + g->made * bytes;
    const int divides = s->divisors != NULL;
    int sound = 1;
    for (const pop_pool_column_row *row = columns->near, *last = row + columns->rows, *end; row < last; row = end) {
        end = last - row > columns->some ? row + columns->some : last;
        for (const pop_pool_column *c = columns->column; c < columns->column + columns->count; c++) {
            if (c->whole) sound &= pop_pool_column_down(sum, format, taps, 1, c, row, end, divides, from, to + c->made * bytes);
            else sound &= pop_pool_column_down(sum, format, taps, 0, c, row, end, divides, from, to + c->made * bytes);
        }
    }
    return sound;
}

#define POP_POOL_COLUMN_KIND(sum, format)                                                                             \
    static int pop_pool_columns_##sum##_##format(const pop_pool_unit *u, const pop_pool_columns *columns)             \
    {                                                                                                                 \
        if (u->spec->kernel == 3) return pop_pool_columns_down(u, columns, sum, format, 3);                           \
        return pop_pool_columns_down(u, columns, sum, format, 2);                                                     \
    }
POP_POOL_COLUMN_KIND(0, 0)
POP_POOL_COLUMN_KIND(0, 1)
POP_POOL_COLUMN_KIND(0, 2)
POP_POOL_COLUMN_KIND(1, 0)
POP_POOL_COLUMN_KIND(1, 1)
POP_POOL_COLUMN_KIND(1, 2)
static int (*const pop_pool_columns_of[2][3])(const pop_pool_unit *, const pop_pool_columns *) = {
    {pop_pool_columns_0_0, pop_pool_columns_0_1, pop_pool_columns_0_2}, {pop_pool_columns_1_0, pop_pool_columns_1_1, pop_pool_columns_1_2}};

/* 0 where a unit is not this way's, or has NaN, which a maximum keeps. */
static int pop_pool_by_columns(const pop_pool_unit *u, const pop_pool_reach *r, pop_pool_columns *columns, int sum)
{
    const pop_pool *s = u->spec;
    const int format = pop_pool_direct_format(s->operands->format);
    if (s->operands[0].format < 0 || s->operands[0].format != s->operands[3].format) return 0;
    if (s->backward) return pop_pool_by_shares(u, r, columns, format);
    if (!pop_pool_is_found(u, columns)) {
        pop_pool_find_columns(u, columns);
        if (!sum && format) pop_pool_find_code_columns(u, columns);
    }
    return pop_pool_by_code_columns(u, columns) || (columns->count && pop_pool_columns_of[sum][format](u, columns));
}
#endif
