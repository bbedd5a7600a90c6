/* Convolution of BF16 groups of few channels by products of pairs: words of two input channels, on tiles like those of slide.h.
 *
 * An element of x holds `words` words of each of `together` groups, one after another: a vector at most. It is read once for
 * three columns of taps; each of its words is then repeated, over the lanes of its group, in one permutation for all of them,
 * or is read so where there is one group. Sums run over planes, rows, columns three at a time, words and those columns, in
 * tiles of every size and place alike; columns outside of x are zeros, rows are left out. */
#ifndef POP_CONV_SLIDE_WORDS_H
#define POP_CONV_SLIDE_WORDS_H
#include "kernels/conv/slide.h"

enum { POP_WORDS_TAPS = 3 }; /* columns of taps at once, whose elements and sums registers hold */

/* How an element of x is read: a word for all lanes, 8 words, or fewer or more. */
enum { POP_WORDS_ONE, POP_WORDS_EIGHT, POP_WORDS_SOME };

POP_INLINE __m512bh pop_words_one(const char *at, int there)
{
    int32_t word;
    if (!there) return (__m512bh)_mm512_setzero_si512();
    memcpy(&word, at, sizeof word);
    return (__m512bh)_mm512_set1_epi32(word);
}

/* A row of x times `taps` columns of taps; bit j of `columns` says whether column j is there, or zeros are. */
POP_INLINE void pop_words_taps(const pop_conv_slide *b, const char *x, uint64_t columns, const char *w, __m512i order,
                               int kind, int taps, int cols, int step, int inside, __m512 *sums)
{
    const int reach = (cols - 1) * step + taps;
    const int64_t col = b->x_col, words = b->words;
    const __mmask16 lanes = (__mmask16)((1u << words * b->together) - 1);
    __m512i elements[15];
    const char *at[5];
#pragma GCC unroll 5
    for (int i = 0; i < 5; i++) at[i] = x + 3 * i * col;
#pragma GCC unroll 15
    for (int j = 0; j < reach; j++) {
        elements[j] = _mm512_setzero_si512();
        if (kind == POP_WORDS_ONE || !(inside || (columns >> j & 1))) continue;
        if (kind == POP_WORDS_EIGHT)
            elements[j] = _mm512_zextsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)(x + j * col)));
        else elements[j] = _mm512_maskz_loadu_epi32(lanes, x + j * col);
    }
    for (int64_t k = 0; k < words; k++, w += 64, order = _mm512_add_epi32(order, _mm512_set1_epi32(1))) {
        __m512bh numbers[15];
#pragma GCC unroll 15
        for (int j = 0; j < reach; j++) {
            if (kind == POP_WORDS_ONE) numbers[j] = pop_words_one(at[j / 3] + j % 3 * col, inside || (columns >> j & 1));
            else numbers[j] = (__m512bh)_mm512_permutexvar_epi32(order, elements[j]);
        }
#pragma GCC unroll 3
        for (int t = 0; t < taps; t++) {
            const __m512bh weights = (__m512bh)_mm512_loadu_si512(w + 64 * t * words);
#pragma GCC unroll 7
            for (int c = 0; c < cols; c++) sums[c] = _mm512_dpbf16_ps(sums[c], numbers[c * step + t], weights);
        }
#pragma GCC unroll 5
        for (int i = 0; i < 5; i++) at[i] += 4;
    }
}

/* A row of results of a tile: `down` rows of x below the first. */
POP_INLINE void pop_words_tile(const pop_conv_slide *b, const char *x, const char *w, char *to, int64_t down, int kind, int cols,
                               int step, int inside)
{
    const int64_t number = 64 * b->words, line = number * b->tap_cols;
    const int64_t low = b->row_low > down ? b->row_low - down : 0;
    const int64_t high = b->row_high - down < b->tap_rows ? b->row_high - down : b->tap_rows;
    const __m512i order = _mm512_loadu_si512(b->order);
    __m512 sums[7];
#pragma GCC unroll 7
    for (int c = 0; c < cols; c++) sums[c] = _mm512_setzero_ps();
#define POP_WORDS_TAPS_FROM(tap, taps)                                                                                \
    pop_words_taps(b, first + (tap) * b->x_col, inside ? 0 : pop_slide_there(b->col_low - (tap), b->col_high - (tap)), \
                   weights + (tap) * number, order, kind, taps, cols, step, inside, sums)
    for (int64_t plane = 0; plane < b->planes; plane++) {
        const char *first = x + b->plane_x[plane] + (down + low) * b->x_row, *weights = w + b->plane_w[plane] + low * line;
        for (int64_t i = low; i < high; i++, first += b->x_row, weights += line) {
            int64_t tap = 0;
            for (; tap + POP_WORDS_TAPS <= b->tap_cols; tap += POP_WORDS_TAPS) POP_WORDS_TAPS_FROM(tap, POP_WORDS_TAPS);
            for (; tap < b->tap_cols; tap++) POP_WORDS_TAPS_FROM(tap, 1);
        }
    }
#undef POP_WORDS_TAPS_FROM
    pop_slide_store(b, to, sums, cols);
}

POP_INLINE void pop_words_blocks(const pop_conv_slide *b, int kind, int cols, int step, int inside)
{
    for (int64_t k = 0; k < b->blocks; k++) {
        const char *x = b->x + k * b->x_block, *w = b->w + k * b->w_block;
        char *to = b->sums + k * b->sums_block;
        if (b->ahead && b->planes) pop_slide_ahead(b, x + b->plane_x[0], to, (int)b->rows, cols, step);
        for (int64_t r = 0; r < b->rows; r++)
            pop_words_tile(b, x, w, to + r * b->sums_row, r * b->row_step, kind, cols, step, inside);
    }
}

POP_INLINE void pop_words_seven(const pop_conv_slide *b, int kind, int step)
{
    if (b->col_low <= 0 && b->col_high >= 6 * step + b->tap_cols) pop_words_blocks(b, kind, 7, step, 1);
    else pop_words_blocks(b, kind, 7, step, 0);
}

/* Tiles of 7, 4, 2 or 1 columns. */
POP_INLINE void pop_words_step(const pop_conv_slide *b, int step)
{
    if (b->cols == 7 && b->together == 1) pop_words_seven(b, POP_WORDS_ONE, step);
    else if (b->cols == 7 && b->words * b->together == 8) pop_words_seven(b, POP_WORDS_EIGHT, step);
    else if (b->cols == 7) pop_words_seven(b, POP_WORDS_SOME, step);
    else if (b->cols == 4) pop_words_blocks(b, POP_WORDS_SOME, 4, step, 0);
    else if (b->cols == 2) pop_words_blocks(b, POP_WORDS_SOME, 2, step, 0);
    else pop_words_blocks(b, POP_WORDS_SOME, 1, step, 0);
}

static __attribute__((noinline)) void pop_slide_words_1(const pop_conv_slide *b) { pop_words_step(b, 1); }
static __attribute__((noinline)) void pop_slide_words_2(const pop_conv_slide *b) { pop_words_step(b, 2); }

static void pop_slide_words(const pop_conv_slide *b)
{
    if (b->step == 1) pop_slide_words_1(b);
    else pop_slide_words_2(b);
}

#define POP_SLIDE_WORDS_KERNELS \
    {"slide_words", "bfloat16", "slide_words", POP_FUNCTION(pop_slide_words), {1, 16, 2}, {2, 7, 16}, 0},
#endif
