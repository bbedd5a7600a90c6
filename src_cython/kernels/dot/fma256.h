/* FP32 products at AVX2 with FMA: 6 x 16 in twelve registers, one FMA chain per element in ascending depth (the bits
 * equal the portable kernel's). Zen 5 peaks at 143 GFLOP/s here. Columns beyond the last are read through a mask and, since masked
 * stores are slow on AMD, written from a small buffer. Few rows have too few sums to hide the latency of a multiply-add, so
 * that "multiply_panels" takes several panels of 16 columns at once. */
#ifndef POP_DOT_FMA256_H
#define POP_DOT_FMA256_H
#include "kernels/dot/dot.h"
#include "kernels/dot/across256.h"
#include "kernels/dot/apart256.h"
#include <immintrin.h>

static const int32_t POP_TAIL[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

/* Vectors lie one after another in a line of B, or two in each of `panels` whose lines are b_col apart. */
POP_INLINE void pop_fma256(const int rows, const int vectors, const int panels, const int whole, const pop_dot_block *t)
{
    __m256 sum[12][8];
    const char *a[12], *b = t->b;
    uintptr_t b_next = (uintptr_t)t->b_next;
    const int64_t a_cell = t->a_cell, b_cell = t->b_cell, panel = t->b_col;
    const int64_t tail = t->cols - 8 * (vectors - 1);
    const __m256i mask = _mm256_loadu_si256((const __m256i *)(POP_TAIL + 8 - tail));
    pop_prefetch_next(t);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        a[r] = t->a + r * t->a_row;
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            const float *c = t->c + r * t->c_row + 8 * v;
            sum[r][v] = !t->accumulate              ? _mm256_setzero_ps()
                        : whole || v + 1 < vectors ? _mm256_loadu_ps(c)
                                                    : _mm256_maskload_ps(c, mask);
        }
    }
    for (int64_t run = 0, at = 0;; run++) {
        for (int64_t k = t->cells, some; k > 0; k -= some) {
            some = t->b_next_lines && k > 16 ? 16 : k;
            pop_prefetch_l2_lines(b_next, 64 * t->b_next_lines);
            b_next += (uintptr_t)(64 * t->b_next_lines);
            for (int64_t n = some; n > 0; n--, at += a_cell, b += b_cell) {
                __m256 line[8];
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++) {
                    const float *from = (const float *)(panels ? b + v / 2 * panel + v % 2 * 32 : b + 32 * v);
                    line[v] = whole || v + 1 < vectors ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, mask);
                }
#pragma GCC unroll 12
                for (int r = 0; r < rows; r++) {
                    __m256 one = _mm256_broadcast_ss((const float *)(a[r] + at));
#pragma GCC unroll 8
                    for (int v = 0; v < vectors; v++) sum[r][v] = _mm256_fmadd_ps(one, line[v], sum[r][v]);
                }
            }
        }
        if (run >= t->more) break;
        at = t->a_at[run], b = t->b + t->b_at[run];
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            float *c = t->c + r * t->c_row + 8 * v, last[8];
            if (whole || v + 1 < vectors) {
                _mm256_storeu_ps(c, sum[r][v]);
            } else {
                _mm256_storeu_ps(last, sum[r][v]);
                memcpy(c, last, (size_t)tail * sizeof(float));
            }
        }
}

#define POP_BODY(R, V) \
    static void pop_fma256_##R##_##V(const pop_dot_block *t) \
    { \
        if (t->cols == 8 * V) pop_fma256(R, V, 0, 1, t); \
        else pop_fma256(R, V, 0, 0, t); \
    }
#define POP_BODIES2(R) POP_BODY(R, 1) POP_BODY(R, 2)
#define POP_BODIES4(R) POP_BODIES2(R) POP_BODY(R, 3) POP_BODY(R, 4)
POP_BODIES4(1) POP_BODIES4(2) POP_BODIES2(3) POP_BODIES2(4) POP_BODIES2(5) POP_BODIES2(6)

/* The bodies by vectors, then rows. */
static void (*const POP_FMA256_BODY[4][6])(const pop_dot_block *) = {
#define POP_ROWS2(V) pop_fma256_1_##V, pop_fma256_2_##V
#define POP_ROWS6(V) POP_ROWS2(V), pop_fma256_3_##V, pop_fma256_4_##V, pop_fma256_5_##V, pop_fma256_6_##V
    {POP_ROWS6(1)}, {POP_ROWS6(2)}, {POP_ROWS2(3)}, {POP_ROWS2(4)},
};

static void pop_multiply_fma256(const pop_dot_block *t)
{
    POP_FMA256_BODY[(t->cols + 7) / 8 - 1][t->rows - 1](t);
}

/* One to three rows, and panels of 16 columns: four or two at once, then what is left of them one by one. */
#define POP_PANELS(R, P) \
    static void pop_fma256_panels_##R##_##P(const pop_dot_block *t) { pop_fma256(R, 2 * P, 1, 1, t); }
POP_PANELS(1, 4) POP_PANELS(1, 2) POP_PANELS(2, 2) POP_PANELS(3, 2)

static void pop_multiply_panels_fma256(const pop_dot_block *given)
{
    static void (*const pairs[])(const pop_dot_block *) = {pop_fma256_panels_1_2, pop_fma256_panels_2_2, pop_fma256_panels_3_2};
    pop_dot_block t = *given;
    for (int64_t left = given->cols, taken; left > 0; left -= taken) {
        taken = t.rows == 1 && left >= 64 ? 64 : left >= 32 ? 32 : left < 16 ? left : 16;
        t.cols = taken;
        if (taken == 64) pop_fma256_panels_1_4(&t);
        else if (taken == 32) pairs[t.rows - 1](&t);
        else pop_multiply_fma256(&t);
        t.b += (taken + 15) / 16 * t.b_col;
        t.c += taken;
        t.a_next_rows = 0; /* prefetched once */
    }
}

POP_INLINE float pop_add_lanes(__m256 x)
{
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

POP_INLINE void pop_dots_fma256(const int rows, const pop_dot_block *t, int64_t r0, const char *b, int64_t col)
{
    __m256 sum[8];
    const char *a = t->a + r0 * t->a_row;
    int64_t k = 0;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) sum[r] = _mm256_setzero_ps();
    for (; k + 8 <= t->cells; k += 8) {
        __m256 line = _mm256_loadu_ps((const float *)b + k);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            sum[r] = _mm256_fmadd_ps(_mm256_loadu_ps((const float *)(a + r * t->a_row) + k), line, sum[r]);
    }
    if (k < t->cells) {
        __m256i mask = _mm256_loadu_si256((const __m256i *)(POP_TAIL + 8 - (t->cells - k)));
        __m256 line = _mm256_maskload_ps((const float *)b + k, mask);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            sum[r] = _mm256_fmadd_ps(_mm256_maskload_ps((const float *)(a + r * t->a_row) + k, mask), line, sum[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        float *c = t->c + (r0 + r) * t->c_row + col, total = pop_add_lanes(sum[r]);
        *c = t->accumulate ? *c + total : total;
    }
}

/* Few columns: both operands along the depth, lanes added at the end. */
static void pop_multiply_dots_fma256(const pop_dot_block *t)
{
    for (int64_t q = 0; q < t->cols; q++) {
        int64_t r = 0;
        for (; r + 8 <= t->rows; r += 8) pop_dots_fma256(8, t, r, t->b + q * t->b_col, q);
        for (; r + 4 <= t->rows; r += 4) pop_dots_fma256(4, t, r, t->b + q * t->b_col, q);
        for (; r < t->rows; r++) pop_dots_fma256(1, t, r, t->b + q * t->b_col, q);
    }
}

/* Of few rows with B as it lies, in its own format. */
#define POP_LYING(format, name) \
    {"multiply_across", format, "fma256_across_" #name, POP_FUNCTION(pop_multiply_across_##name), {1, 1, 1}, {4, 32, 1}, POP_CONSISTENT}, \
    {"multiply_apart", format, "fma256_apart_" #name, POP_FUNCTION(pop_multiply_apart_##name), {1, 1, 1}, {4, 64, 1}, POP_CONSISTENT}
static const pop_kernel POP_PRODUCT_KERNELS[] = {
    {"multiply", "float32", "fma256_6x16", POP_FUNCTION(pop_multiply_fma256), {1, 8, 1}, {6, 16, 1}, POP_CONSISTENT},
    {"multiply", "float32", "fma256_2x32", POP_FUNCTION(pop_multiply_fma256), {1, 8, 1}, {2, 32, 1}, POP_CONSISTENT},
    {"multiply_panels", "float32", "fma256_3x16x4", POP_FUNCTION(pop_multiply_panels_fma256), {1, 16, 1}, {3, 64, 1}, POP_CONSISTENT},
    {"multiply_dots", "float32", "fma256_dots", POP_FUNCTION(pop_multiply_dots_fma256), {1, 1, 1}, {8, 4, 8}, 0},
    POP_LYING("float32", f32),
    POP_LYING("float32,float16", f16),
    POP_LYING("float32,bfloat16", bf16),
};
#undef POP_LYING
#endif
