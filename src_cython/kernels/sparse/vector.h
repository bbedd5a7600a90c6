/* One vector of FP32, as wide as the level has: 16 lanes with AVX-512, 8 with AVX2. The kernels above it are written
 * once; a masked load reads nothing outside its mask and gives zeros there. */
#ifndef POP_SPARSE_VECTOR_H
#define POP_SPARSE_VECTOR_H
#include <immintrin.h>
#include <stdint.h>
#include "kernels/abi.h"

enum { POP_X_FP32, POP_X_FP16, POP_X_BF16 };

#if POP_LEVEL >= POP_LEVEL_AVX512
#define VL 16
typedef __m512 vec;
typedef __mmask16 lanes;
POP_INLINE lanes pop_lanes(int64_t n) { return n >= VL ? (lanes)0xffff : (lanes)((1u << n) - 1); }
POP_INLINE int pop_all(lanes m) { return m == (lanes)0xffff; }
POP_INLINE vec pop_zero(void) { return _mm512_setzero_ps(); }
POP_INLINE vec pop_splat(const char *p) { return _mm512_set1_ps(*(const float *)p); }
POP_INLINE vec pop_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
POP_INLINE vec pop_load(const int kind, const char *p)
{
    if (kind == POP_X_FP16) return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
    if (kind == POP_X_BF16)
        return _mm512_castsi512_ps(
            _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
    return _mm512_loadu_ps(p);
}
POP_INLINE vec pop_load_some(const int kind, const char *p, lanes m)
{
    if (kind == POP_X_FP16) return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, p));
    if (kind == POP_X_BF16)
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p)), 16));
    return _mm512_maskz_loadu_ps(m, p);
}
POP_INLINE void pop_store(float *p, vec v) { _mm512_storeu_ps(p, v); }
POP_INLINE void pop_store_some(float *p, vec v, lanes m) { _mm512_mask_storeu_ps(p, m, v); }
POP_INLINE void pop_stream(float *p, vec v) { _mm512_stream_ps(p, v); }
#else
#define VL 8
typedef __m256 vec;
typedef int lanes; /* how many, from the first */
POP_INLINE lanes pop_lanes(int64_t n) { return n >= VL ? VL : (int)n; }
POP_INLINE int pop_all(lanes m) { return m == VL; }
POP_INLINE vec pop_zero(void) { return _mm256_setzero_ps(); }
POP_INLINE vec pop_splat(const char *p) { return _mm256_broadcast_ss((const float *)p); }
POP_INLINE vec pop_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
POP_INLINE __m256i pop_mask(lanes m)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(m), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
POP_INLINE vec pop_widen(const int kind, __m128i h)
{
    if (kind == POP_X_FP16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
POP_INLINE vec pop_load(const int kind, const char *p)
{
    if (kind != POP_X_FP32) return pop_widen(kind, _mm_loadu_si128((const __m128i *)p));
    return _mm256_loadu_ps((const float *)p);
}
POP_INLINE vec pop_load_some(const int kind, const char *p, lanes m)
{
    if (pop_all(m)) return pop_load(kind, p);
    if (kind != POP_X_FP32) {
        uint16_t part[VL] __attribute__((aligned(16))) = {0};
        for (int i = 0; i < m; i++) part[i] = ((const uint16_t *)p)[i];
        return pop_widen(kind, _mm_load_si128((const __m128i *)part));
    }
    return _mm256_maskload_ps((const float *)p, pop_mask(m));
}
POP_INLINE void pop_store(float *p, vec v) { _mm256_storeu_ps(p, v); }
POP_INLINE void pop_store_some(float *p, vec v, lanes m)
{
    if (pop_all(m)) pop_store(p, v);
    else _mm256_maskstore_ps(p, pop_mask(m), v);
}
POP_INLINE void pop_stream(float *p, vec v) { _mm256_stream_ps(p, v); }
#endif
#endif
