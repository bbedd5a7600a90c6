/* The vocabulary of convert_body.h for 8 lanes of AVX2. Masks are vectors of 0 and -1. Partial loads and stores go
 * through a buffer of the lanes' size: AVX2 has no masked byte moves. */
#include <immintrin.h>

typedef __m256 pop_v_f;
typedef __m256i pop_v_i;
typedef __m256i pop_v_m;

POP_INLINE __m256i pop_v_set(int32_t x) { return _mm256_set1_epi32(x); }
POP_INLINE __m256i pop_v_bits(__m256 x) { return _mm256_castps_si256(x); }
POP_INLINE __m256 pop_v_float(__m256i u) { return _mm256_castsi256_ps(u); }

POP_INLINE __m256i pop_v_add(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
POP_INLINE __m256i pop_v_sub(__m256i a, __m256i b) { return _mm256_sub_epi32(a, b); }
POP_INLINE __m256i pop_v_and(__m256i a, __m256i b) { return _mm256_and_si256(a, b); }
POP_INLINE __m256i pop_v_or(__m256i a, __m256i b) { return _mm256_or_si256(a, b); }
POP_INLINE __m256i pop_v_sll(__m256i a, int n)
{
    return __builtin_constant_p(n) ? _mm256_slli_epi32(a, n) : _mm256_sll_epi32(a, _mm_cvtsi32_si128(n));
}
POP_INLINE __m256i pop_v_srl(__m256i a, int n)
{
    return __builtin_constant_p(n) ? _mm256_srli_epi32(a, n) : _mm256_srl_epi32(a, _mm_cvtsi32_si128(n));
}
POP_INLINE __m256i pop_v_sllv(__m256i a, __m256i n) { return _mm256_sllv_epi32(a, n); }
POP_INLINE __m256i pop_v_srlv(__m256i a, __m256i n) { return _mm256_srlv_epi32(a, n); }
POP_INLINE __m256i pop_v_maximum(__m256i a, __m256i b) { return _mm256_max_epi32(a, b); }
POP_INLINE __m256 pop_v_add_f(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
POP_INLINE __m256 pop_v_sub_f(__m256 a, __m256 b) { return _mm256_sub_ps(a, b); }

POP_INLINE __m256i pop_v_gt(__m256i a, __m256i b) { return _mm256_cmpgt_epi32(a, b); }
POP_INLINE __m256i pop_v_eq(__m256i a, __m256i b) { return _mm256_cmpeq_epi32(a, b); }
POP_INLINE __m256i pop_v_carries(__m256i a, __m256i b)
{
    __m256i flip = _mm256_set1_epi32(INT32_MIN);
    return _mm256_cmpgt_epi32(_mm256_xor_si256(a, flip), _mm256_xor_si256(_mm256_add_epi32(a, b), flip));
}
POP_INLINE int pop_v_any(__m256i m) { return _mm256_movemask_epi8(m) != 0; }
POP_INLINE __m256i pop_v_select(__m256i m, __m256i a, __m256i b) { return _mm256_blendv_epi8(a, b, m); }
POP_INLINE __m256i pop_v_keep(__m256i m, __m256i a) { return _mm256_and_si256(m, a); }

POP_INLINE __m256i pop_v_load_whole(const void *p, int64_t bytes)
{
    if (bytes == 1) return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
    if (bytes == 2) return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_loadu_si256((const __m256i *)p);
}

POP_INLINE void pop_v_store_whole(void *p, int64_t bytes, __m256i a)
{
    if (bytes == 4) {
        _mm256_storeu_si256((__m256i *)p, a);
        return;
    }
    __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    if (bytes == 2) _mm_storeu_si128((__m128i *)p, words);
    else _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

POP_INLINE __m256i pop_v_load(const void *p, int64_t bytes, int n)
{
    if (n == 8) return pop_v_load_whole(p, bytes);
    int32_t buffer[8] = {0};
    memcpy(buffer, p, (size_t)(n * bytes));
    return pop_v_load_whole(buffer, bytes);
}

POP_INLINE void pop_v_store(void *p, int64_t bytes, __m256i a, int n)
{
    int32_t buffer[8];
    pop_v_store_whole(n == 8 ? p : (void *)buffer, bytes, a);
    if (n != 8) memcpy(p, buffer, (size_t)(n * bytes));
}

#define POP_HAS_F16C
POP_INLINE __m256 pop_v_load_f16(const void *p, int n)
{
    if (n == 8) return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
    int16_t buffer[8] = {0};
    memcpy(buffer, p, (size_t)n * 2);
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)buffer));
}

POP_INLINE void pop_v_store_f16(void *p, __m256 x, int n)
{
    int16_t buffer[8];
    _mm_storeu_si128((__m128i *)(n == 8 ? p : (void *)buffer), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    if (n != 8) memcpy(p, buffer, (size_t)n * 2);
}
