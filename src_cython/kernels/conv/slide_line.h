/* Depthwise convolution along one dimension of BF16 numbers by products of pairs: two neighbouring taps at once.
 *
 * A word holds two neighbours of a line of x; words of 16 channels are made in one permutation each. Those that 14, 7, 4, 2 or
 * 1 sums meet stay in registers and move on by two elements from a pair of taps to the next. Weights are words too: of taps 0
 * and 1, of 2 and 3 ..., the last of an odd number is alone. Sums run over pairs in order, in tiles of every size and place
 * alike; what lies outside of x is read as zeros. */
#ifndef POP_CONV_SLIDE_LINE_H
#define POP_CONV_SLIDE_LINE_H
#include "kernels/conv/slide_pairs.h"

/* Where element j is read. */
POP_INLINE const char *pop_line_at(const pop_slide_line *line, int64_t j, int inside)
{
    static const char zeros[32];
    return inside || (j >= line->low && j < line->high) ? line->at + j * line->col : zeros;
}

/* The words of element `first` on that sums from number `from` up to `to` meet: whole ones, or their first numbers. */
POP_INLINE void pop_line_words(const pop_slide_line *line, int64_t first, int from, int to, int step, int inside, int there,
                               __m512bh *words)
{
#pragma GCC unroll 14
    for (int c = from; c < to; c++) {
        const int64_t j = first + c * step;
        const char *beside = there == POP_PAIRS_BOTH ? pop_line_at(line, j + 1, inside) : NULL;
        words[c] = pop_pairs_word(pop_line_at(line, j, inside), beside, there);
    }
}

POP_INLINE void pop_line_tile(const pop_conv_slide *b, const char *x, const char *w, char *to, int cols, int step, int inside)
{
    const int kept = cols > 2 / step ? cols - 2 / step : 0; /* words from a pair of taps to the next */
    __m512 sums[14];
#pragma GCC unroll 14
    for (int c = 0; c < cols; c++) sums[c] = _mm512_setzero_ps();
    for (int64_t plane = 0; plane < b->planes; plane++) {
        const pop_slide_line line = {x + b->plane_x[plane], b->x_col, b->col_low, b->col_high};
        const char *weights = w + b->plane_w[plane];
        __m512bh words[14];
        int64_t tap = 0;
        pop_line_words(&line, 0, 0, kept, step, inside, POP_PAIRS_BOTH, words);
        for (; tap + 2 <= b->tap_cols; tap += 2, weights += 64) {
            pop_line_words(&line, tap, kept, cols, step, inside, POP_PAIRS_BOTH, words);
#pragma GCC unroll 14
            for (int c = 0; c < cols; c++) sums[c] = _mm512_dpbf16_ps(sums[c], words[c], (__m512bh)_mm512_loadu_si512(weights));
#pragma GCC unroll 14
            for (int c = 0; c < kept; c++) words[c] = words[c + cols - kept];
        }
        if (tap == b->tap_cols) continue;
        pop_line_words(&line, tap, kept, cols, step, inside, POP_PAIRS_FIRST, words);
#pragma GCC unroll 14
        for (int c = 0; c < cols; c++) {
            if (c < kept) words[c] = (__m512bh)_mm512_and_si512((__m512i)words[c], _mm512_set1_epi32(0xffff));
            sums[c] = _mm512_dpbf16_ps(sums[c], words[c], (__m512bh)_mm512_loadu_si512(weights));
        }
    }
    pop_slide_store(b, to, sums, cols);
}

/* A row of results, of all blocks. */
POP_INLINE void pop_line_blocks(const pop_conv_slide *b, int cols, int step, int inside)
{
    for (int64_t k = 0; k < b->blocks; k++) {
        const char *x = b->x + k * b->x_block, *w = b->w + k * b->w_block;
        char *to = b->sums + k * b->sums_block;
        if (b->ahead && b->planes) pop_slide_ahead(b, x + b->plane_x[0], to, 1, cols, step);
        pop_line_tile(b, x, w, to, cols, step, inside);
    }
}

POP_INLINE void pop_line_step(const pop_conv_slide *b, int step)
{
    const int inside = b->col_low <= 0 && b->col_high >= (b->cols - 1) * step + b->tap_cols;
    if (b->cols == 14 && inside) pop_line_blocks(b, 14, 1, 1);
    else if (b->cols == 14) pop_line_blocks(b, 14, 1, 0);
    else if (b->cols == 7 && inside) pop_line_blocks(b, 7, step, 1);
    else if (b->cols == 7) pop_line_blocks(b, 7, step, 0);
    else if (b->cols == 4) pop_line_blocks(b, 4, step, 0);
    else if (b->cols == 2) pop_line_blocks(b, 2, step, 0);
    else pop_line_blocks(b, 1, step, 0);
}

static __attribute__((noinline)) void pop_slide_line_1(const pop_conv_slide *b) { pop_line_step(b, 1); }
static __attribute__((noinline)) void pop_slide_line_2(const pop_conv_slide *b) { pop_line_step(b, 2); }

static void pop_slide_neighbours(const pop_conv_slide *b)
{
    if (b->step == 1) pop_slide_line_1(b);
    else if (b->cols == 14) pop_slide_halves(b, pop_slide_line_2);
    else pop_slide_line_2(b);
}

#define POP_SLIDE_LINE_KERNELS \
    {"slide_line", "bfloat16", "slide_line", POP_FUNCTION(pop_slide_neighbours), {1, 16, 2}, {1, 14, 16}, 0},
#endif
