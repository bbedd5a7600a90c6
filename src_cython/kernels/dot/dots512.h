/* Products with at most 4 columns: both operands run along the depth, and the lanes are added at the end. Each number of A is
 * loaded once, in long lines, which is all that a matrix-vector product can ask for. Included once for each kind of
 * operands: POP_KIND is its name, POP_LOAD_A(mask, p) gives 16 cells of A, which take POP_A_CELL bytes each, and
 * POP_STEP(sum, a, b) multiplies and adds.
 *
 * One column is bound by reading A. Four rows in step, a vector of each in turn, read 78 GB/s from the third-level cache of
 * Zen 4, with more of a row in turn 55 to 75, for rows that begin off a line the less. Long rows are read one at a time in 8
 * sums, prefetched 4 KiB ahead: on Zen 5 100 GB/s from that cache and 44 from memory (four in step: 90 and 33), on Zen 4 20 %
 * less and as much. */
#include <immintrin.h>

#define POP_NAME(name) POP_JOIN(POP_JOIN(name, _), POP_KIND)
#define POP_AHEAD 4096
#define POP_DOTS_LONG 2048 /* cells of a long row */

/* Multiply-adds of `run` vectors along the depth, the last one masked. */
POP_INLINE void POP_NAME(pop_dots_step)(const int rows, const int cols, const int run, const pop_dot_block *t,
                                        const char *a, const char *b, __mmask16 mask, __m512 sum[4][4][8])
{
    __m512 line[4][8];
#pragma GCC unroll 4
    for (int q = 0; q < cols; q++)
#pragma GCC unroll 8
        for (int u = 0; u < run; u++) line[q][u] = _mm512_maskz_loadu_ps(mask, b + q * t->b_col + 64 * u);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int u = 0; u < run; u++) {
            const char *from = a + r * t->a_row + 16 * POP_A_CELL * u;
            __m512 some = POP_LOAD_A(mask, from);
            if (run == 8 && u * POP_A_CELL % 4 == 0) _mm_prefetch((const void *)((uintptr_t)from + POP_AHEAD), _MM_HINT_T0);
#pragma GCC unroll 4
            for (int q = 0; q < cols; q++) sum[r][q][u] = POP_STEP(sum[r][q][u], some, line[q][u]);
        }
}

/* The sums of the lanes of four vectors, each in the same order: which rows are done together shows in no bits. */
POP_INLINE __m128 POP_NAME(pop_dots_four)(const __m512 lanes[4])
{
    const __m512 a = _mm512_add_ps(_mm512_unpacklo_ps(lanes[0], lanes[1]), _mm512_unpackhi_ps(lanes[0], lanes[1]));
    const __m512 b = _mm512_add_ps(_mm512_unpacklo_ps(lanes[2], lanes[3]), _mm512_unpackhi_ps(lanes[2], lanes[3]));
    const __m512 all = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

POP_INLINE void POP_NAME(pop_dots)(const int rows, const int cols, const int run, const pop_dot_block *t, int64_t first_row)
{
    __m512 sum[4][4][8];
    const char *a = t->a + first_row * t->a_row;
    int64_t k = 0;
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int q = 0; q < cols; q++)
#pragma GCC unroll 8
            for (int u = 0; u < run; u++) sum[r][q][u] = _mm512_setzero_ps();
    for (; k + 16 * run <= t->cells; k += 16 * run)
        POP_NAME(pop_dots_step)(rows, cols, run, t, a + POP_A_CELL * k, t->b + 4 * k, 0xffff, sum);
    if (run > 1)
        for (; k + 16 <= t->cells; k += 16)
            POP_NAME(pop_dots_step)(rows, cols, 1, t, a + POP_A_CELL * k, t->b + 4 * k, 0xffff, sum);
    if (k < t->cells)
        POP_NAME(pop_dots_step)(rows, cols, 1, t, a + POP_A_CELL * k, t->b + 4 * k,
                                (__mmask16)(0xffffu >> (16 - (t->cells - k))), sum);
#pragma GCC unroll 4
    for (int q = 0; q < cols; q++) {
        float *c = t->c + first_row * t->c_row + q, totals[4];
        __m512 lanes[4];
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++) {
            lanes[r] = r < rows ? sum[r][q][0] : _mm512_setzero_ps();
            if (r >= rows) continue;
#pragma GCC unroll 8
            for (int u = 1; u < run; u++) lanes[r] = _mm512_add_ps(lanes[r], sum[r][q][u]);
        }
        _mm_storeu_ps(totals, POP_NAME(pop_dots_four)(lanes));
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) c[r * t->c_row] = t->accumulate ? c[r * t->c_row] + totals[r] : totals[r];
    }
}

#define POP_DOTS(C, RUN) \
    static void POP_NAME(pop_dots_##C)(const pop_dot_block *t, int64_t r) \
    { \
        for (; r + 4 <= t->rows; r += 4) POP_NAME(pop_dots)(4, C, RUN, t, r); \
        for (; r < t->rows; r++) POP_NAME(pop_dots)(1, C, RUN, t, r); \
    }
POP_DOTS(1, 1) POP_DOTS(2, 1) POP_DOTS(3, 1) POP_DOTS(4, 1)

static void POP_NAME(pop_dots_long)(const pop_dot_block *t)
{
    for (int64_t r = 0; r < t->rows; r++) POP_NAME(pop_dots)(1, 1, 8, t, r);
}

static void POP_NAME(pop_multiply_dots)(const pop_dot_block *t)
{
    if (t->cols == 1 && t->cells >= POP_DOTS_LONG) POP_NAME(pop_dots_long)(t);
    else if (t->cols == 1) POP_NAME(pop_dots_1)(t, 0);
    else if (t->cols == 2) POP_NAME(pop_dots_2)(t, 0);
    else if (t->cols == 3) POP_NAME(pop_dots_3)(t, 0);
    else POP_NAME(pop_dots_4)(t, 0);
}

#undef POP_DOTS
#undef POP_DOTS_LONG
#undef POP_AHEAD
#undef POP_NAME
#undef POP_LOAD_A
#undef POP_A_CELL
