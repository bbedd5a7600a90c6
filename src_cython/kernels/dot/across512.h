/* Products of few rows with columns of B that lie along the depth, `b_col` bytes apart: tokens of keys, say. 16 columns and 16 cells
 * of the depth change places in registers, so that each sum ascends and its bits are those of "multiply"; packed first, which a
 * few rows do not pay back, they would be written and read once more. Columns are prefetched, since
 * the hardware does not foresee 16 of them that are read a line each in turn. */
#ifndef POP_DOT_ACROSS_H
#define POP_DOT_ACROSS_H
#include "kernels/dot/dot.h"
#include "kernels/transpose.h"

#define POP_ACROSS_AHEAD 32 /* columns */

POP_INLINE void pop_across(const int rows, const pop_dot_block *t, const char *a, const char *b, float *c, int64_t cols)
{
    const __mmask16 there = (__mmask16)(0xffffu >> (16 - cols));
    const uintptr_t ahead = (uintptr_t)b + (uintptr_t)(POP_ACROSS_AHEAD * t->b_col);
    __m512 sum[2];
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++) sum[r] = _mm512_maskz_loadu_ps(t->accumulate ? there : 0, c + r * t->c_row);
    for (int64_t k = 0; k < t->cells; k += 16) {
        const int64_t n = t->cells - k < 16 ? t->cells - k : 16;
        const __mmask16 mask = (__mmask16)(0xffffu >> (16 - n));
        __m512i x[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            x[i] = i < cols ? _mm512_maskz_loadu_epi32(mask, b + i * t->b_col + 4 * k) : _mm512_setzero_si512();
            pop_prefetch(ahead + (uintptr_t)(i * t->b_col + 4 * k));
        }
        pop_transpose_16(x);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            if (i >= n) break;
#pragma GCC unroll 2
            for (int r = 0; r < rows; r++) {
                float one;
                memcpy(&one, a + r * t->a_row + (k + i) * t->a_cell, sizeof one);
                sum[r] = _mm512_fmadd_ps(_mm512_set1_ps(one), (__m512)x[i], sum[r]);
            }
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++) _mm512_mask_storeu_ps(c + r * t->c_row, there, sum[r]);
}

static void pop_multiply_across(const pop_dot_block *t)
{
    for (int64_t r = 0; r < t->rows; r += 2)
        for (int64_t j = 0; j < t->cols; j += 16) {
            const char *a = t->a + r * t->a_row, *b = t->b + j * t->b_col;
            float *c = t->c + r * t->c_row + j;
            const int64_t cols = t->cols - j < 16 ? t->cols - j : 16;
            if (r + 1 < t->rows) pop_across(2, t, a, b, c, cols);
            else pop_across(1, t, a, b, c, cols);
        }
}
#endif
