/* Products of BF16 numbers with lines of B that lie as they are, the two of a cell `b_col` bytes apart: they meet in quarters of a
 * vector, whose sums are put in order at the end. A line is read once, so that packing it would cost more. Bits are as of cells. */
#ifndef POP_DOT_APART_H
#define POP_DOT_APART_H
#include "kernels/dot/dot.h"

#define POP_APART 32 /* columns of a vector */

POP_INLINE void pop_apart(const int vectors, const pop_dot_block *t, const char *a, float *c, __mmask32 last)
{
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(4)), second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    const char *b = t->b;
    __m512 sum[4][2];
    __mmask32 there[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        there[v] = v + 1 < vectors ? 0xffffffffu : last;
        const __mmask32 old = t->accumulate ? there[v] : 0;
        const __m512 x = _mm512_maskz_loadu_ps((__mmask16)old, c + POP_APART * v);
        const __m512 y = _mm512_maskz_loadu_ps((__mmask16)(old >> 16), c + POP_APART * v + 16);
        sum[v][0] = _mm512_permutex2var_ps(x, low, y), sum[v][1] = _mm512_permutex2var_ps(x, high, y);
    }
    for (int64_t k = 0; k < t->cells; k++, a += t->a_cell, b += t->b_cell) {
        int32_t cell;
        memcpy(&cell, a, sizeof cell);
        const __m512bh one = (__m512bh)_mm512_set1_epi32(cell);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const __m512i even = _mm512_maskz_loadu_epi16(there[v], b + 2 * POP_APART * v);
            const __m512i odd = _mm512_maskz_loadu_epi16(there[v], b + t->b_col + 2 * POP_APART * v);
            sum[v][0] = _mm512_dpbf16_ps(sum[v][0], one, (__m512bh)_mm512_unpacklo_epi16(even, odd));
            sum[v][1] = _mm512_dpbf16_ps(sum[v][1], one, (__m512bh)_mm512_unpackhi_epi16(even, odd));
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        _mm512_mask_storeu_ps(c + POP_APART * v, (__mmask16)there[v], _mm512_permutex2var_ps(sum[v][0], first, sum[v][1]));
        _mm512_mask_storeu_ps(c + POP_APART * v + 16, (__mmask16)(there[v] >> 16), _mm512_permutex2var_ps(sum[v][0], second, sum[v][1]));
    }
}

static void pop_multiply_apart(const pop_dot_block *t)
{
    const int64_t vectors = (t->cols + POP_APART - 1) / POP_APART;
    const __mmask32 last = 0xffffffffu >> (POP_APART * vectors - t->cols);
    for (int64_t r = 0; r < t->rows; r++) {
        const char *a = t->a + r * t->a_row;
        float *c = t->c + r * t->c_row;
        if (vectors == 1) pop_apart(1, t, a, c, last);
        else if (vectors == 2) pop_apart(2, t, a, c, last);
        else if (vectors == 3) pop_apart(3, t, a, c, last);
        else pop_apart(4, t, a, c, last);
    }
}
#endif
