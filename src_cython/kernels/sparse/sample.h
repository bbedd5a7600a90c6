/* Dense times dense, sampled at a sparse pattern: dW[r, c] = dY[r, :] . X[c, :] for the elements of the stored blocks only.
 *
 * Each element is a dot product along the columns, so both operands are read with unit stride. A tile of 4 x 4 elements takes
 * 8 loads for 16 FMAs; single elements go 1 x 8, neighbours in the pattern sharing the row of dY, and are bound by the loads
 * of X. Partial sums, one for each lane, are added four elements at a time by unpacks, so that a tile of 16 needs about
 * fifty instructions to come down to its numbers.
 *
 * With BF16 operands VDPBF16PS takes two columns of each lane at a time. */
#ifndef POP_SPARSE_SAMPLE_H
#define POP_SPARSE_SAMPLE_H
#include "kernels/sparse/sample_frame.h"
#include "kernels/sparse/vector.h"

/* Sums of the lanes of four vectors. */
POP_INLINE __m128 four_sums(vec a, vec b, vec c, vec d)
{
#if POP_LEVEL >= POP_LEVEL_AVX512
    const vec ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const vec cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512d p = _mm512_castps_pd(ab), q = _mm512_castps_pd(cd);
    const vec all = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(p, q)), _mm512_castpd_ps(_mm512_unpackhi_pd(p, q)));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
#else
    const vec ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const vec cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256d p = _mm256_castps_pd(ab), q = _mm256_castps_pd(cd);
    const __m256 half = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(p, q)), _mm256_castpd_ps(_mm256_unpackhi_pd(p, q)));
#endif
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

/* One step along the columns: VL of them, or 2 VL where `kind` is POP_X_PAIRS. */
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
typedef __m512i step_vec;
POP_INLINE step_vec step_load(const int kind, const char *p, int64_t n)
{
    if (kind != POP_X_PAIRS) return _mm512_castps_si512(pop_load_some(kind, p, pop_v_first(n)));
    return n >= 32 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi16(pop_columns_left(n), p);
}
POP_INLINE vec step_add(const int kind, step_vec a, step_vec b, vec c)
{
    if (kind == POP_X_PAIRS) return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
    return pop_v_fma(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), c);
}
#define STEP(kind) ((kind) == POP_X_PAIRS ? 32 : VL)
#else
typedef vec step_vec;
POP_INLINE step_vec step_load(const int kind, const char *p, int64_t n)
{
    return n >= VL ? pop_load(kind, p) : pop_load_some(kind, p, pop_v_first(n));
}
POP_INLINE vec step_add(const int kind, step_vec a, step_vec b, vec c) { return pop_v_fma(a, b, c); }
#define STEP(kind) VL
#endif

/* R rows of dY from y against C rows of X at x[0], x[1], ...; sums[i * C + k]. */
POP_INLINE void dot_tile(const int R, const int C, const int kind, const char *y, int64_t y_row, const char *const *x,
                         int64_t columns, float *sums)
{
    const int64_t size = kind == POP_X_FP32 ? 4 : 2;
    vec acc[16];
#pragma GCC unroll 16
    for (int e = 0; e < 16; e++) acc[e] = (vec){0};
    for (int64_t n = 0; n < columns; n += STEP(kind)) {
        step_vec v[8];
#pragma GCC unroll 8
        for (int k = 0; k < C; k++) v[k] = step_load(kind, x[k] + n * size, columns - n);
#pragma GCC unroll 4
        for (int i = 0; i < R; i++) {
            const step_vec u = step_load(kind, y + i * y_row + n * size, columns - n);
#pragma GCC unroll 8
            for (int k = 0; k < C; k++) acc[i * C + k] = step_add(kind, u, v[k], acc[i * C + k]);
        }
    }
#pragma GCC unroll 4
    for (int e = 0; e < R * C; e += 4) {
        float four[4];
        _mm_storeu_ps(four, four_sums(acc[e], acc[e + 1], acc[e + 2], acc[e + 3]));
        for (int i = 0; i < 4 && e + i < R * C; i++) sums[e + i] = four[i];
    }
}

typedef void (*dot_function)(const char *y, int64_t y_row, const char *const *x, int64_t columns, float *sums);
#define DOT_TILES(F, K) F(K, 4, 4) F(K, 4, 2) F(K, 4, 1) F(K, 2, 4) F(K, 2, 2) F(K, 2, 1) F(K, 1, 8) F(K, 1, 4) F(K, 1, 2) F(K, 1, 1)
#define DOT_TILE(K, R, C)                                                                                              \
    static void dot_##K##_##R##x##C(const char *y, int64_t y_row, const char *const *x, int64_t columns, float *sums) \
    {                                                                                                                  \
        dot_tile(R, C, K, y, y_row, x, columns, sums);                                                                 \
    }
#define DOT_ENTRY(K, R, C) [R / 2][C == 8 ? 3 : C / 2] = dot_##K##_##R##x##C,
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
DOT_TILES(DOT_TILE, POP_X_PAIRS)
static const dot_function dots_pairs[3][4] = {DOT_TILES(DOT_ENTRY, POP_X_PAIRS)};
#else
DOT_TILES(DOT_TILE, POP_X_FP32)
DOT_TILES(DOT_TILE, POP_X_FP16)
DOT_TILES(DOT_TILE, POP_X_BF16)
static const dot_function dots_fp32[3][4] = {DOT_TILES(DOT_ENTRY, POP_X_FP32)};
static const dot_function dots_fp16[3][4] = {DOT_TILES(DOT_ENTRY, POP_X_FP16)};
static const dot_function dots_bf16[3][4] = {DOT_TILES(DOT_ENTRY, POP_X_BF16)};
#endif

/* height x width elements from the rows of dY at y and the rows of X at x; sums has `width` to a row. */
static void dot_block(const dot_function tiles[3][4], const char *y, int64_t y_row, const char *x, int64_t x_row,
                      int64_t height, int64_t width, int64_t columns, float *sums, int64_t sums_row)
{
    for (int64_t i = 0, rows; i < height; i += rows) {
        rows = height - i >= 4 ? 4 : height - i >= 2 ? 2 : 1;
        for (int64_t k = 0, some; k < width; k += some) {
            const char *at[8];
            float part[16];
            some = rows == 1 && width - k >= 8 ? 8 : width - k >= 4 ? 4 : width - k >= 2 ? 2 : 1;
            for (int64_t e = 0; e < some; e++) at[e] = x + (k + e) * x_row;
            tiles[rows / 2][some == 8 ? 3 : some / 2](y + i * y_row, y_row, at, columns, part);
            for (int64_t e = 0; e < rows; e++) memcpy(sums + (i + e) * sums_row + k, part + e * some, (size_t)some * 4);
        }
    }
}

/* A block row of single elements: eight neighbours at a time. */
static void dot_elements(const dot_function tiles[3][4], const char *y, const char *x, int64_t x_row, const int32_t *inner,
                         int64_t n, int64_t columns, float *sums)
{
    for (int64_t q = 0, some; q < n; q += some) {
        const char *at[8];
        some = n - q >= 8 ? 8 : n - q >= 4 ? 4 : n - q >= 2 ? 2 : 1;
        for (int64_t e = 0; e < some; e++) at[e] = x + inner[q + e] * x_row;
        tiles[0][some == 8 ? 3 : some / 2](y, 0, at, columns, sums + q);
    }
}

#define SAMPLE_VERTEX(name, tiles, size)                                                                               \
    static void name##_block(const char *y, int64_t y_row, const char *x, int64_t x_row, int64_t height, int64_t width, \
                             int64_t columns, float *sums, int64_t sums_row)                                           \
    {                                                                                                                  \
        dot_block(tiles, y, y_row, x, x_row, height, width, columns, sums, sums_row);                                  \
    }                                                                                                                  \
    static void name##_elements(const char *y, const char *x, int64_t x_row, const int32_t *inner, int64_t n,          \
                                int64_t columns, float *sums)                                                          \
    {                                                                                                                  \
        dot_elements(tiles, y, x, x_row, inner, n, columns, sums);                                                     \
    }                                                                                                                  \
    static void name(const void *item, const pop_tile *tile)                                                           \
    {                                                                                                                  \
        sample((const pop_sample_item *)item, tile, name##_block, name##_elements, size);                              \
    }
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
SAMPLE_VERTEX(sample_pairs, dots_pairs, 2)
#else
SAMPLE_VERTEX(sample_fp32, dots_fp32, 4)
SAMPLE_VERTEX(sample_fp16, dots_fp16, 2)
SAMPLE_VERTEX(sample_bf16, dots_bf16, 2)
#endif
#endif
