/* As across512.h at AVX2: products of few rows with columns of B that lie along the depth, here of FP32 or of 16 bits. Eight columns
 * and 16 bytes of each change places in registers, several such groups in step: a sum's chain is longer than what its turning takes. */
#ifndef POP_DOT_ACROSS256_H
#define POP_DOT_ACROSS256_H
#include "kernels/dot/dot.h"
#include "kernels/transpose.h"
#include <immintrin.h>

/* 16 bytes of eight columns, or `bytes` of `cols` with zeros beside them, to four vectors of cells across them. */
POP_INLINE void pop_across_turn(const char *b, int64_t b_col, int64_t cols, int64_t bytes, __m256 x[4])
{
    char room[8][16];
    if (cols < 8 || bytes < 16) {
        memset(room, 0, sizeof room);
        for (int64_t i = 0; i < cols; i++) memcpy(room[i], b + i * b_col, (size_t)bytes);
        b = room[0], b_col = 16;
    }
    pop_transpose_4(b, b_col, x);
}

/* The numbers of a vector of cells, in order of the depth: one, or two of 16 bits. */
POP_INLINE void pop_across_numbers(const int is_f16, const int each, __m256 cells, __m256 x[2])
{
    const __m256i codes = (__m256i)cells;
    if (each == 1) {
        x[0] = cells;
    } else if (is_f16) {
        const __m256i apart = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
                                               0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
        const __m256i both = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(codes, apart), 0xd8);
        x[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(both)), x[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(both, 1));
    } else {
        x[0] = (__m256)_mm256_slli_epi32(codes, 16);
        x[1] = (__m256)_mm256_and_si256(codes, _mm256_set1_epi32((int)0xffff0000));
    }
}

typedef struct pop_across_kind { int each, is_f16; } pop_across_kind; /* numbers of a cell */

/* Multiply-adds of `n` numbers of the depth, 16 bytes of a column at most. */
POP_INLINE void pop_across_step(const pop_across_kind kind, const int rows, const int groups, const pop_dot_block *t, const char *a,
                                const char *b, int64_t cols, int64_t n, __m256 sum[2][4])
{
#pragma GCC unroll 4
    for (int g = 0; g < groups; g++) {
        __m256 x[4];
        pop_across_turn(b + 8 * g * t->b_col, t->b_col, cols, 4 / kind.each * n, x);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            __m256 some[2];
            if (kind.each * i >= n) break;
            pop_across_numbers(kind.is_f16, kind.each, x[i], some);
#pragma GCC unroll 2
            for (int u = 0; u < kind.each; u++) {
                if (kind.each * i + u >= n) break;
#pragma GCC unroll 2
                for (int r = 0; r < rows; r++) {
                    const __m256 one = _mm256_broadcast_ss((const float *)(const void *)(a + r * t->a_row + (kind.each * i + u) * t->a_cell));
                    sum[r][g] = _mm256_fmadd_ps(one, some[u], sum[r][g]);
                }
            }
        }
    }
}

POP_INLINE void pop_across(const pop_across_kind kind, const int rows, const int groups, const pop_dot_block *t, const char *a,
                           const char *b, float *c, int64_t cols)
{
    const int64_t step = 4 * kind.each, bytes = 4 / kind.each;
    const uintptr_t next = (uintptr_t)b + (uintptr_t)(8 * groups * t->b_col);
    __m256 sum[2][4];
    float last[8] = {0};
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++) {
            const float *old = c + r * t->c_row + 8 * g;
            if (cols < 8 && t->accumulate) memcpy(last, old, (size_t)cols * sizeof *old), old = last;
            sum[r][g] = t->accumulate ? _mm256_loadu_ps(old) : _mm256_setzero_ps();
        }
    int64_t k = 0;
    for (; k + step <= t->cells; k += step, a += step * t->a_cell) {
        if (groups > 1) /* a quarter of the next columns' lines each time: the hardware does not foresee that many at once */
#pragma GCC unroll 8
            for (int i = 0; i < 2 * groups; i++)
                pop_prefetch(next + (uintptr_t)((k / step % 4 * 2 * groups + i) * t->b_col + bytes * k));
        pop_across_step(kind, rows, groups, t, a, b + bytes * k, cols, step, sum);
    }
    if (k < t->cells) pop_across_step(kind, rows, groups, t, a, b + bytes * k, cols, t->cells - k, sum);
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int g = 0; g < groups; g++) {
            float *to = c + r * t->c_row + 8 * g;
            _mm256_storeu_ps(cols < 8 ? last : to, sum[r][g]);
            if (cols < 8) memcpy(to, last, (size_t)cols * sizeof *to);
        }
}

POP_INLINE void pop_across_rows(const pop_across_kind kind, const int rows, const int groups, const pop_dot_block *t, int64_t r)
{
    const char *a = t->a + r * t->a_row;
    float *c = t->c + r * t->c_row;
    int64_t j = 0;
    for (; j + 8 * groups <= t->cols; j += 8 * groups) pop_across(kind, rows, groups, t, a, t->b + j * t->b_col, c + j, 8);
    for (; j + 8 <= t->cols; j += 8) pop_across(kind, rows, 1, t, a, t->b + j * t->b_col, c + j, 8);
    if (j < t->cols) pop_across(kind, rows, 1, t, a, t->b + j * t->b_col, c + j, t->cols - j);
}

#define POP_ACROSS(name, each, is_f16) \
    static void pop_multiply_across_##name(const pop_dot_block *t) \
    { \
        const pop_across_kind kind = {each, is_f16}; \
        int64_t r = 0; \
        for (; r + 2 <= t->rows; r += 2) pop_across_rows(kind, 2, 2, t, r); \
        if (r < t->rows) pop_across_rows(kind, 1, 4, t, r); \
    }
POP_ACROSS(f32, 1, 0)
POP_ACROSS(f16, 2, 1)
POP_ACROSS(bf16, 2, 0)
#undef POP_ACROSS
#endif
