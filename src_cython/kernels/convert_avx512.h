/* The vocabulary of convert_body.h for 16 lanes of AVX-512 (F, BW, DQ, VL). Masked moves do not touch masked bytes. */
#include <immintrin.h>

typedef __m512 pop_v_f;
typedef __m512i pop_v_i;
typedef __mmask16 pop_v_m;

POP_INLINE __m512i pop_v_set(int32_t x) { return _mm512_set1_epi32(x); }
POP_INLINE __m512i pop_v_bits(__m512 x) { return _mm512_castps_si512(x); }
POP_INLINE __m512 pop_v_float(__m512i u) { return _mm512_castsi512_ps(u); }

POP_INLINE __m512i pop_v_add(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
POP_INLINE __m512i pop_v_sub(__m512i a, __m512i b) { return _mm512_sub_epi32(a, b); }
POP_INLINE __m512i pop_v_and(__m512i a, __m512i b) { return _mm512_and_si512(a, b); }
POP_INLINE __m512i pop_v_or(__m512i a, __m512i b) { return _mm512_or_si512(a, b); }
POP_INLINE __m512i pop_v_sll(__m512i a, int n)
{
    return __builtin_constant_p(n) ? _mm512_slli_epi32(a, (unsigned)n) : _mm512_sll_epi32(a, _mm_cvtsi32_si128(n));
}
POP_INLINE __m512i pop_v_srl(__m512i a, int n)
{
    return __builtin_constant_p(n) ? _mm512_srli_epi32(a, (unsigned)n) : _mm512_srl_epi32(a, _mm_cvtsi32_si128(n));
}
POP_INLINE __m512i pop_v_sllv(__m512i a, __m512i n) { return _mm512_sllv_epi32(a, n); }
POP_INLINE __m512i pop_v_srlv(__m512i a, __m512i n) { return _mm512_srlv_epi32(a, n); }
POP_INLINE __m512i pop_v_maximum(__m512i a, __m512i b) { return _mm512_max_epi32(a, b); }
POP_INLINE __m512 pop_v_add_f(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
POP_INLINE __m512 pop_v_sub_f(__m512 a, __m512 b) { return _mm512_sub_ps(a, b); }

POP_INLINE __mmask16 pop_v_gt(__m512i a, __m512i b) { return _mm512_cmpgt_epi32_mask(a, b); }
POP_INLINE __mmask16 pop_v_eq(__m512i a, __m512i b) { return _mm512_cmpeq_epi32_mask(a, b); }
POP_INLINE __mmask16 pop_v_carries(__m512i a, __m512i b)
{
    return _mm512_cmplt_epu32_mask(_mm512_add_epi32(a, b), a);
}
POP_INLINE int pop_v_any(__mmask16 m) { return m != 0; }
POP_INLINE __m512i pop_v_select(__mmask16 m, __m512i a, __m512i b) { return _mm512_mask_mov_epi32(a, m, b); }
POP_INLINE __m512i pop_v_keep(__mmask16 m, __m512i a) { return _mm512_maskz_mov_epi32(m, a); }

POP_INLINE __mmask16 pop_v_first(int n) { return (__mmask16)((1u << n) - 1); }

POP_INLINE __m512i pop_v_load(const void *p, int64_t bytes, int n)
{
    if (n == 16) {
        if (bytes == 1) return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
        if (bytes == 2) return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
        return _mm512_loadu_si512(p);
    }
    __mmask16 m = pop_v_first(n);
    if (bytes == 1) return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m, p));
    if (bytes == 2) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, p));
    return _mm512_maskz_loadu_epi32(m, p);
}

POP_INLINE void pop_v_store(void *p, int64_t bytes, __m512i a, int n)
{
    if (n == 16) {
        if (bytes == 1) _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(a));
        else if (bytes == 2) _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(a));
        else _mm512_storeu_si512(p, a);
        return;
    }
    __mmask16 m = pop_v_first(n);
    if (bytes == 1) _mm_mask_storeu_epi8(p, m, _mm512_cvtepi32_epi8(a));
    else if (bytes == 2) _mm256_mask_storeu_epi16(p, m, _mm512_cvtepi32_epi16(a));
    else _mm512_mask_storeu_epi32(p, m, a);
}

#define POP_HAS_F16C
POP_INLINE __m512 pop_v_load_f16(const void *p, int n)
{
    if (n == 16) return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(pop_v_first(n), p));
}

POP_INLINE void pop_v_store_f16(void *p, __m512 x, int n)
{
    __m256i codes = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    if (n == 16) _mm256_storeu_si256((__m256i *)p, codes);
    else _mm256_mask_storeu_epi16(p, pop_v_first(n), codes);
}
