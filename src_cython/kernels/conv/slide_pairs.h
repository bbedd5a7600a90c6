/* Depthwise convolution of BF16 numbers by products of pairs: two rows of taps at once, on the tiles of slide.h.
 *
 * A word holds the numbers of two rows of x, one below the other, and meets the words of all taps of those two rows that it
 * is part of: words of 16 channels are made in one permutation each. Weights are words too: of rows 0 and 1, of 2 and 3 ...,
 * the last of an odd number with zeros. Sums run over pairs of rows in order, then columns, in tiles of every size and place
 * alike; rows and columns outside of x are left out. */
#ifndef POP_CONV_SLIDE_PAIRS_H
#define POP_CONV_SLIDE_PAIRS_H
#include "kernels/conv/slide.h"

enum { POP_PAIRS_BOTH, POP_PAIRS_FIRST, POP_PAIRS_SECOND }; /* which rows of a pair there are */

POP_INLINE __m512bh pop_pairs_word(const char *first, const char *second, int there)
{
    static const int16_t side_by_side[32] = {0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39,
                                             8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    if (there == POP_PAIRS_FIRST)
        return (__m512bh)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)first));
    const __m256i below = _mm256_loadu_si256((const __m256i *)(const void *)second);
    if (there == POP_PAIRS_SECOND) return (__m512bh)_mm512_slli_epi32(_mm512_cvtepu16_epi32(below), 16);
    const __m512i above = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)first));
    return (__m512bh)_mm512_permutex2var_epi16(above, _mm512_loadu_si512(side_by_side), _mm512_castsi256_si512(below));
}

/* Two rows of x times `taps` columns of taps; bit j of `columns` says whether column j is there. */
POP_INLINE void pop_pairs_taps(const char *first, const char *second, int64_t col, uint64_t columns, const char *w, int taps,
                               int cols, int step, int inside, int there, __m512 *sums)
{
    __m512bh weights[7];
#pragma GCC unroll 7
    for (int t = 0; t < taps; t++) weights[t] = (__m512bh)_mm512_loadu_si512(w + 64 * t);
#pragma GCC unroll 19
    for (int j = 0; j < (cols - 1) * step + taps; j++, first += col, second += col) {
        if (!inside && !(columns >> j & 1)) continue;
        const __m512bh word = pop_pairs_word(first, second, there);
#pragma GCC unroll 7
        for (int t = 0; t < taps; t++) {
            const int c = (j - t) / step;
            if (j >= t && (j - t) % step == 0 && c < cols) sums[c] = _mm512_dpbf16_ps(sums[c], word, weights[t]);
        }
    }
}

/* The same of 7 columns that are all there, tap by tap: each of the sums waits for its last product, not for its neighbours'. */
POP_INLINE void pop_pairs_taps_in_turn(const char *first, int64_t row, int64_t col, const char *w, int taps, int step,
                                       int there, __m512 *sums)
{
    __m512bh words[19];
    const char *at = first;
#pragma GCC unroll 7
    for (int t = 0; t < taps; t++) {
        const __m512bh weights = (__m512bh)_mm512_loadu_si512(w + 64 * t);
        if (t == 1 && step == 2) at = first + col;
#pragma GCC unroll 7
        for (int c = 0; c < 7; c++) {
            const int j = c * step + t;
            if (t < step || c == 6) {
                __asm__("" : "+r"(at)); /* GCC would else keep places of all columns */
                words[j] = pop_pairs_word(at, at + row, there);
                at += t + 1 < step || (t < step && c < 6) ? step * col : col;
            }
            sums[c] = _mm512_dpbf16_ps(sums[c], words[j], weights);
        }
    }
}

/* The same of those columns that are there, for two rows of results, the second `down` bytes of x below the first. */
POP_INLINE void pop_pairs_taps_of_two(const char *first, int64_t row, int64_t down, int64_t col, uint64_t columns, const char *w,
                                      int taps, int step, int there, __m512 sums[2][7])
{
    __m512bh weights[7];
#pragma GCC unroll 7
    for (int t = 0; t < taps; t++) weights[t] = (__m512bh)_mm512_loadu_si512(w + 64 * t);
#pragma GCC unroll 19
    for (int j = 0; j < 6 * step + taps; j++, first += col) {
        const char *second = first + down;
        if (!(columns >> j & 1)) continue;
        const __m512bh words[2] = {pop_pairs_word(first, first + row, there), pop_pairs_word(second, second + row, there)};
#pragma GCC unroll 7
        for (int t = 0; t < taps; t++) {
            const int c = (j - t) / step;
            if (j < t || (j - t) % step || c >= 7) continue;
            sums[0][c] = _mm512_dpbf16_ps(sums[0][c], words[0], weights[t]);
            sums[1][c] = _mm512_dpbf16_ps(sums[1][c], words[1], weights[t]);
        }
    }
}

/* The same of all columns of taps: `known` of them, or one at a time. */
POP_INLINE void pop_pairs_rows(const pop_conv_slide *b, const char *first, const char *second, uint64_t columns, const char *w,
                               int cols, int step, int inside, int known, int there, __m512 *sums)
{
    if (known) {
        pop_pairs_taps(first, second, b->x_col, columns, w, known, cols, step, inside, there, sums);
        return;
    }
    for (int64_t tap = 0; tap < b->tap_cols; tap++, first += b->x_col, second += b->x_col, w += 64) {
        columns = pop_slide_there(b->col_low - tap, b->col_high - tap); /* of this tap's */
        pop_pairs_taps(first, second, b->x_col, columns, w, 1, cols, step, 0, there, sums);
    }
}

/* A row of results of a tile: `down` rows of x below the first. */
POP_INLINE void pop_pairs_tile(const pop_conv_slide *b, const char *x, const char *w, char *to, int64_t down, int cols,
                               int step, int inside, int known)
{
    const int64_t row = b->x_row, line = 64 * b->tap_cols, low = b->row_low - down, high = b->row_high - down;
    const uint64_t columns = pop_slide_there(b->col_low, b->col_high);
    __m512 sums[7];
#pragma GCC unroll 7
    for (int c = 0; c < cols; c++) sums[c] = _mm512_setzero_ps();
    for (int64_t plane = 0; plane < b->planes; plane++) {
        const char *weights = w + b->plane_w[plane], *first = x + b->plane_x[plane] + down * row;
        for (int64_t i = 0; i < b->tap_rows; i += 2, first += 2 * row, weights += line) {
            const int above = i >= low && i < high, below = i + 1 < b->tap_rows && i + 1 >= low && i + 1 < high;
#define POP_PAIRS_ROWS(there) pop_pairs_rows(b, first, first + row, columns, weights, cols, step, inside, known, there, sums)
            if (above && below) POP_PAIRS_ROWS(POP_PAIRS_BOTH);
            else if (above) POP_PAIRS_ROWS(POP_PAIRS_FIRST);
            else if (below) POP_PAIRS_ROWS(POP_PAIRS_SECOND);
#undef POP_PAIRS_ROWS
        }
    }
    pop_slide_store(b, to, sums, cols);
}

/* Two rows of taps, or the last, for two rows of results. */
POP_INLINE void pop_pairs_rows_of_two(const pop_conv_slide *b, const char *first, uint64_t columns, const char *w, int step,
                                      int inside, int known, int there, __m512 sums[2][7])
{
    const int64_t row = b->x_row, down = b->row_step * row;
    if (inside) {
        pop_pairs_taps_in_turn(first, row, b->x_col, w, known, step, there, sums[0]);
        pop_pairs_taps_in_turn(first + down, row, b->x_col, w, known, step, there, sums[1]);
        return;
    }
    pop_pairs_taps_of_two(first, row, down, b->x_col, columns, w, known, step, there, sums);
}

/* Two rows of results of a tile whose rows of x are all there: twice as many sums hide what a product takes. */
POP_INLINE void pop_pairs_two(const pop_conv_slide *b, const char *x, const char *w, char *to, int step, int inside, int known)
{
    const uint64_t columns = pop_slide_there(b->col_low, b->col_high);
    __m512 sums[2][7];
#pragma GCC unroll 7
    for (int c = 0; c < 7; c++) sums[0][c] = sums[1][c] = _mm512_setzero_ps();
    for (int64_t plane = 0; plane < b->planes; plane++) {
        const char *weights = w + b->plane_w[plane], *first = x + b->plane_x[plane];
        int64_t i = 0;
        for (; i + 2 <= b->tap_rows; i += 2, first += 2 * b->x_row, weights += 64 * known)
            pop_pairs_rows_of_two(b, first, columns, weights, step, inside, known, POP_PAIRS_BOTH, sums);
        if (i < b->tap_rows) pop_pairs_rows_of_two(b, first, columns, weights, step, inside, known, POP_PAIRS_FIRST, sums);
    }
    pop_slide_store(b, to, sums[0], 7);
    pop_slide_store(b, to + b->sums_row, sums[1], 7);
}

POP_INLINE void pop_pairs_blocks(const pop_conv_slide *b, int cols, int step, int inside, int known)
{
    for (int64_t k = 0; k < b->blocks; k++) {
        const char *x = b->x + k * b->x_block, *w = b->w + k * b->w_block;
        char *to = b->sums + k * b->sums_block;
        if (b->ahead && b->planes) pop_slide_ahead(b, x + b->plane_x[0], to, (int)b->rows, cols, step);
        if (known && b->rows == 2 && b->row_low <= 0 && b->row_high >= b->tap_rows + b->row_step) {
            pop_pairs_two(b, x, w, to, step, inside, known);
            continue;
        }
        for (int64_t r = 0; r < b->rows; r++)
            pop_pairs_tile(b, x, w, to + r * b->sums_row, r * b->row_step, cols, step, inside, known);
    }
}

POP_INLINE void pop_pairs_seven(const pop_conv_slide *b, int step, int inside)
{
    switch (b->tap_cols) {
    case 1: pop_pairs_blocks(b, 7, step, inside, 1); break;
    case 2: pop_pairs_blocks(b, 7, step, inside, 2); break;
    case 3: pop_pairs_blocks(b, 7, step, inside, 3); break;
    case 5: pop_pairs_blocks(b, 7, step, inside, 5); break;
    case 7: pop_pairs_blocks(b, 7, step, inside, 7); break;
    default: pop_pairs_blocks(b, 7, step, 0, 0);
    }
}

/* Tiles of 7, 4, 2 or 1 columns. */
POP_INLINE void pop_pairs_step(const pop_conv_slide *b, int step)
{
    if (b->cols == 7 && b->col_low <= 0 && b->col_high >= 6 * step + b->tap_cols) pop_pairs_seven(b, step, 1);
    else if (b->cols == 7) pop_pairs_seven(b, step, 0);
    else if (b->cols == 4) pop_pairs_blocks(b, 4, step, 0, 0);
    else if (b->cols == 2) pop_pairs_blocks(b, 2, step, 0, 0);
    else pop_pairs_blocks(b, 1, step, 0, 0);
}

static __attribute__((noinline)) void pop_slide_pairs_1(const pop_conv_slide *b) { pop_pairs_step(b, 1); }
static __attribute__((noinline)) void pop_slide_pairs_2(const pop_conv_slide *b) { pop_pairs_step(b, 2); }

static void pop_slide_pairs(const pop_conv_slide *b)
{
    if (b->step == 1) pop_slide_pairs_1(b);
    else pop_slide_pairs_2(b);
}

#define POP_SLIDE_PAIRS_KERNELS \
    {"slide_pairs", "bfloat16", "slide_pairs", POP_FUNCTION(pop_slide_pairs), {1, 16, 2}, {2, 7, 16}, 0},
#endif
