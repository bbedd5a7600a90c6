/* Vectors of eight floats at every level, for what goes by blocks of 8 x 8 wherever it runs. Names are those of simd.h. */
#ifndef POP_FACTOR_EIGHTS_H
#define POP_FACTOR_EIGHTS_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "formats/codec.h"

#define POP_EIGHT 8
#define POP_EIGHT_EACH(i) _Pragma("GCC unroll 8") for (int i = 0; i < POP_EIGHT; i++)

typedef float eight_f __attribute__((vector_size(32)));
typedef int32_t eight_i __attribute__((vector_size(32)));

POP_INLINE eight_f eight_load(const float *p) { eight_f x; memcpy(&x, p, sizeof x); return x; }
POP_INLINE void eight_store(float *p, eight_f x) { memcpy(p, &x, sizeof x); }
POP_INLINE eight_i eight_load_words(const int32_t *p) { eight_i x; memcpy(&x, p, sizeof x); return x; }
POP_INLINE void eight_store_words(int32_t *p, eight_i x) { memcpy(p, &x, sizeof x); }
POP_INLINE eight_f eight_splat(float x) { return (eight_f){x, x, x, x, x, x, x, x}; }
POP_INLINE eight_i eight_count(int32_t first) { return (eight_i){0, 1, 2, 3, 4, 5, 6, 7} + first; }

#if POP_LEVEL >= POP_LEVEL_AVX2
#include <immintrin.h>
/* x - a b, rounded once. */
POP_INLINE eight_f eight_minus(eight_f x, eight_f a, eight_f b) { return (eight_f)_mm256_fnmadd_ps(a, b, x); }
POP_INLINE eight_f eight_select(eight_i m, eight_f a, eight_f b) { return (eight_f)_mm256_blendv_ps(a, b, (__m256)m); }
POP_INLINE eight_i eight_maximum(eight_i a, eight_i b) { return (eight_i)_mm256_max_epi32((__m256i)a, (__m256i)b); }
/* The greatest word, in every lane. */
POP_INLINE eight_i eight_most(eight_i x)
{
    __m256i a = (__m256i)x;
    a = _mm256_max_epi32(a, _mm256_permute2x128_si256(a, a, 1));
    a = _mm256_max_epi32(a, _mm256_shuffle_epi32(a, 0x4e));
    return (eight_i)_mm256_max_epi32(a, _mm256_shuffle_epi32(a, 0xb1));
}
/* A bit for each lane whose words are equal. */
POP_INLINE unsigned eight_equal(eight_i a, eight_i b)
{
    return (unsigned)_mm256_movemask_ps((__m256)_mm256_cmpeq_epi32((__m256i)a, (__m256i)b));
}
/* x[i][l] becomes x[l][i]. */
POP_INLINE void eight_transpose(eight_f x[8])
{
    eight_f y[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        y[2 * i] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        x[4 * i] = _mm256_shuffle_ps(y[4 * i], y[4 * i + 2], 0x44);
        x[4 * i + 1] = _mm256_shuffle_ps(y[4 * i], y[4 * i + 2], 0xee);
        x[4 * i + 2] = _mm256_shuffle_ps(y[4 * i + 1], y[4 * i + 3], 0x44);
        x[4 * i + 3] = _mm256_shuffle_ps(y[4 * i + 1], y[4 * i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        y[i] = _mm256_permute2f128_ps(x[i], x[4 + i], 0x20);
        y[4 + i] = _mm256_permute2f128_ps(x[i], x[4 + i], 0x31);
    }
    memcpy(x, y, sizeof y);
}
#else
#define POP_EIGHT_LANE for (int l = 0; l < POP_EIGHT; l++)
POP_INLINE eight_f eight_minus(eight_f x, eight_f a, eight_f b) { POP_EIGHT_LANE x[l] = fmaf(-a[l], b[l], x[l]); return x; }
POP_INLINE eight_f eight_select(eight_i m, eight_f a, eight_f b) { return (eight_f)((m & (eight_i)b) | (~m & (eight_i)a)); }
POP_INLINE eight_i eight_maximum(eight_i a, eight_i b) { POP_EIGHT_LANE a[l] = a[l] > b[l] ? a[l] : b[l]; return a; }
POP_INLINE eight_i eight_most(eight_i x)
{
    int32_t most = x[0];
    POP_EIGHT_LANE most = x[l] > most ? x[l] : most;
    return (eight_i){0} + most;
}
POP_INLINE unsigned eight_equal(eight_i a, eight_i b)
{
    unsigned bits = 0;
    POP_EIGHT_LANE bits |= (unsigned)(a[l] == b[l]) << l;
    return bits;
}
POP_INLINE void eight_transpose(eight_f x[8])
{
    for (int i = 0; i < POP_EIGHT; i++)
        for (int l = i + 1; l < POP_EIGHT; l++) {
            float kept = x[i][l];
            x[i][l] = x[l][i];
            x[l][i] = kept;
        }
}
#endif

/* `n` elements of a format, zeros behind them; and back. */
POP_INLINE eight_f eight_decode(const pop_format *f, const char *p, int n)
{
    if (n == POP_EIGHT && pop_is_f32(f)) return eight_load((const float *)(const void *)p);
#if POP_LANES == 16
    return (eight_f)_mm512_castps512_ps256((__m512)pop_v_decode_part(f, p, n));
#elif POP_LANES == 8
    return n == POP_EIGHT ? pop_v_decode(f, p) : pop_v_decode_part(f, p, n);
#else
    float x[POP_EIGHT];
    pop_v_store_f(x, pop_v_decode_part(f, p, n < 4 ? n : 4));
    pop_v_store_f(x + 4, pop_v_decode_part(f, p + 4 * pop_bytes(f), n < 4 ? 0 : n - 4));
    return eight_load(x);
#endif
}
POP_INLINE void eight_encode(const pop_format *f, char *p, eight_f x, int n)
{
    if (n == POP_EIGHT && pop_is_f32(f)) {
        eight_store((float *)(void *)p, x);
        return;
    }
#if POP_LANES == 16
    pop_v_encode_part(f, POP_OVERFLOW_INFINITY, p, (pop_v_f)_mm512_castps256_ps512((__m256)x), n);
#elif POP_LANES == 8
    if (n == POP_EIGHT) pop_v_encode(f, POP_OVERFLOW_INFINITY, p, x);
    else pop_v_encode_part(f, POP_OVERFLOW_INFINITY, p, x, n);
#else
    float own[POP_EIGHT];
    eight_store(own, x);
    pop_v_encode_part(f, POP_OVERFLOW_INFINITY, p, pop_v_load_f(own), n < 4 ? n : 4);
    if (n > 4) pop_v_encode_part(f, POP_OVERFLOW_INFINITY, p + 4 * pop_bytes(f), pop_v_load_f(own + 4), n - 4);
#endif
}
#endif
