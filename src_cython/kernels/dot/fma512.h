/* FP32 products at AVX-512: C block in registers, one FMA chain per element in ascending depth.
 *
 * Each step loads 1 to 4 vectors of B and broadcasts one number of A per row: 6 x 64 takes 10 loads for 24 FMAs, so the
 * two FMA ports stay full from any layout of A (measured on Zen 5: 285 of 286 GFLOP/s for 6 x 64, 8 x 48 and 14 x 32, rows of
 * A at any pitch). Every chain is fma(a, b, c) from zero upwards, so the bits equal the portable kernel's. */
#ifndef POP_DOT_FMA512_H
#define POP_DOT_FMA512_H
#include "kernels/dot/dot.h"
#include <immintrin.h>

POP_INLINE void pop_fma512(const int rows, const int vectors, const pop_dot_block *t, __mmask16 last)
{
    __m512 sum[14][8];
    const char *a[14], *b = t->b;
    const int64_t a_cell = t->a_cell, b_cell = t->b_cell;
    float *c = t->c;
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) {
        a[r] = t->a + r * t->a_row;
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            sum[r][v] = t->accumulate ? _mm512_maskz_loadu_ps(v + 1 < vectors ? 0xffff : last, c + r * t->c_row + 16 * v)
                                      : _mm512_setzero_ps();
    }
    for (int64_t k = 0; k < t->cells; k++, b += b_cell) {
        __m512 line[8];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            line[v] = _mm512_maskz_loadu_ps(v + 1 < vectors ? 0xffff : last, (const float *)b + 16 * v);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            __m512 one = _mm512_set1_ps(*(const float *)(a[r] + k * a_cell));
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_fmadd_ps(one, line[v], sum[r][v]);
        }
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            _mm512_mask_storeu_ps(c + r * t->c_row + 16 * v, v + 1 < vectors ? 0xffff : last, sum[r][v]);
}

#define POP_BODY(R, V) \
    static void pop_fma512_##R##_##V(const pop_dot_block *t, __mmask16 last) { pop_fma512(R, V, t, last); }
#define POP_BODIES(R) POP_BODY(R, 1) POP_BODY(R, 2)
#define POP_BODIES3(R) POP_BODIES(R) POP_BODY(R, 3)
#define POP_BODIES4(R) POP_BODIES3(R) POP_BODY(R, 4)
#define POP_BODIES8(R) POP_BODIES4(R) POP_BODY(R, 5) POP_BODY(R, 6) POP_BODY(R, 7) POP_BODY(R, 8)
POP_BODIES8(1) POP_BODIES8(2) POP_BODIES4(3) POP_BODIES4(4) POP_BODIES4(5) POP_BODIES4(6) POP_BODIES3(7) POP_BODIES3(8)
POP_BODIES(9) POP_BODIES(10) POP_BODIES(11) POP_BODIES(12) POP_BODIES(13) POP_BODIES(14)

/* The bodies by vectors, then rows. */
static void (*const POP_FMA512_BODY[8][14])(const pop_dot_block *, __mmask16) = {
#define POP_ROWS2(V) pop_fma512_1_##V, pop_fma512_2_##V
#define POP_ROWS6(V) POP_ROWS2(V), pop_fma512_3_##V, pop_fma512_4_##V, pop_fma512_5_##V, pop_fma512_6_##V
#define POP_ROWS8(V) POP_ROWS6(V), pop_fma512_7_##V, pop_fma512_8_##V
#define POP_ROWS14(V) POP_ROWS8(V), pop_fma512_9_##V, pop_fma512_10_##V, pop_fma512_11_##V, pop_fma512_12_##V, \
        pop_fma512_13_##V, pop_fma512_14_##V
    {POP_ROWS14(1)}, {POP_ROWS14(2)}, {POP_ROWS8(3)}, {POP_ROWS6(4)}, {POP_ROWS2(5)}, {POP_ROWS2(6)}, {POP_ROWS2(7)},
    {POP_ROWS2(8)},
};

static void pop_multiply_fma512(const pop_dot_block *t)
{
    int vectors = (int)((t->cols + 15) / 16);
    POP_FMA512_BODY[vectors - 1][t->rows - 1](t, (__mmask16)(0xffffu >> (16 * vectors - t->cols)));
}

static const pop_kernel POP_FMA512_KERNELS[] = {
    {"multiply", "float32", "fma512_6x64", POP_FUNCTION(pop_multiply_fma512), {1, 16, 1}, {6, 64, 1}, POP_CONSISTENT},
    {"multiply", "float32", "fma512_8x48", POP_FUNCTION(pop_multiply_fma512), {1, 16, 1}, {8, 48, 1}, POP_CONSISTENT},
    {"multiply", "float32", "fma512_14x32", POP_FUNCTION(pop_multiply_fma512), {1, 16, 1}, {14, 32, 1}, POP_CONSISTENT},
    {"multiply", "float32", "fma512_2x128", POP_FUNCTION(pop_multiply_fma512), {1, 16, 1}, {2, 128, 1}, POP_CONSISTENT},
};
#endif
