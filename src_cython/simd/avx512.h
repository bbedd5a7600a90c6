/* The vocabulary of simd.h for AVX-512 (F, BW, DQ, VL). Masked moves do not touch masked bytes. */
#include <immintrin.h>

typedef __mmask16 pop_v_m;
typedef __mmask8 pop_h_m;

POP_INLINE pop_v_i pop_v_sll(pop_v_i a, int n)
{
    return (pop_v_i)(__builtin_constant_p(n) ? _mm512_slli_epi32((__m512i)a, (unsigned)n)
                                             : _mm512_sll_epi32((__m512i)a, _mm_cvtsi32_si128(n)));
}
POP_INLINE pop_v_i pop_v_srl(pop_v_i a, int n)
{
    return (pop_v_i)(__builtin_constant_p(n) ? _mm512_srli_epi32((__m512i)a, (unsigned)n)
                                             : _mm512_srl_epi32((__m512i)a, _mm_cvtsi32_si128(n)));
}
POP_INLINE pop_v_i pop_v_sllv(pop_v_i a, pop_v_i n) { return (pop_v_i)_mm512_sllv_epi32((__m512i)a, (__m512i)n); }
POP_INLINE pop_v_i pop_v_srlv(pop_v_i a, pop_v_i n) { return (pop_v_i)_mm512_srlv_epi32((__m512i)a, (__m512i)n); }
POP_INLINE pop_v_i pop_v_maximum(pop_v_i a, pop_v_i b) { return (pop_v_i)_mm512_max_epi32((__m512i)a, (__m512i)b); }
POP_INLINE pop_v_f pop_v_fma(pop_v_f a, pop_v_f b, pop_v_f c) { return _mm512_fmadd_ps(a, b, c); }
POP_INLINE pop_v_f pop_v_sqrt(pop_v_f x) { return _mm512_sqrt_ps(x); }
POP_INLINE pop_v_f pop_v_min_f(pop_v_f a, pop_v_f b) { return _mm512_min_ps(a, b); }
POP_INLINE pop_v_f pop_v_max_f(pop_v_f a, pop_v_f b) { return _mm512_max_ps(a, b); }

POP_INLINE __mmask16 pop_v_gt(pop_v_i a, pop_v_i b) { return _mm512_cmpgt_epi32_mask((__m512i)a, (__m512i)b); }
POP_INLINE __mmask16 pop_v_eq(pop_v_i a, pop_v_i b) { return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b); }
POP_INLINE __mmask16 pop_v_lt_f(pop_v_f a, pop_v_f b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
POP_INLINE __mmask16 pop_v_gt_f(pop_v_f a, pop_v_f b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
POP_INLINE __mmask16 pop_v_eq_f(pop_v_f a, pop_v_f b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
POP_INLINE __mmask16 pop_v_carries(pop_v_i a, pop_v_i b)
{
    return _mm512_cmplt_epu32_mask((__m512i)pop_v_add(a, b), (__m512i)a);
}
POP_INLINE int pop_v_any(__mmask16 m) { return m != 0; }
POP_INLINE pop_v_i pop_v_select(__mmask16 m, pop_v_i a, pop_v_i b)
{
    return (pop_v_i)_mm512_mask_mov_epi32((__m512i)a, m, (__m512i)b);
}
POP_INLINE pop_v_i pop_v_keep(__mmask16 m, pop_v_i a) { return (pop_v_i)_mm512_maskz_mov_epi32(m, (__m512i)a); }
typedef __mmask16 pop_v_part;
POP_INLINE __mmask16 pop_v_first(int64_t n) { return n >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1); }
POP_INLINE __mmask16 pop_v_mask(__mmask16 part) { return part; }
POP_INLINE int pop_v_is_all(__mmask16 part) { return part == (__mmask16)0xffff; }

POP_INLINE pop_v_i pop_v_load(const void *p, int64_t bytes)
{
    if (bytes == 1) return (pop_v_i)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    if (bytes == 2) return (pop_v_i)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return (pop_v_i)_mm512_loadu_si512(p);
}
POP_INLINE pop_v_i pop_v_load_some(const void *p, int64_t bytes, __mmask16 part)
{
    if (bytes == 1) return (pop_v_i)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(part, p));
    if (bytes == 2) return (pop_v_i)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(part, p));
    return (pop_v_i)_mm512_maskz_loadu_epi32(part, p);
}
POP_INLINE void pop_v_store(void *p, int64_t bytes, pop_v_i a)
{
    if (bytes == 1) _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8((__m512i)a));
    else if (bytes == 2) _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16((__m512i)a));
    else _mm512_storeu_si512(p, (__m512i)a);
}
POP_INLINE void pop_v_store_some(void *p, int64_t bytes, pop_v_i a, __mmask16 part)
{
    if (bytes == 1) _mm_mask_storeu_epi8(p, part, _mm512_cvtepi32_epi8((__m512i)a));
    else if (bytes == 2) _mm256_mask_storeu_epi16(p, part, _mm512_cvtepi32_epi16((__m512i)a));
    else _mm512_mask_storeu_epi32(p, part, (__m512i)a);
}
POP_INLINE void pop_v_stream_f(float *p, pop_v_f x) { _mm512_stream_ps(p, x); }

#define POP_HAS_F16C
POP_INLINE pop_v_f pop_v_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
POP_INLINE pop_v_f pop_v_load_f16_some(const void *p, __mmask16 part)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(part, p));
}
POP_INLINE void pop_v_store_f16(void *p, pop_v_f x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
POP_INLINE void pop_v_store_f16_some(void *p, pop_v_f x, __mmask16 part)
{
    _mm256_mask_storeu_epi16(p, part, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* Top halves of FP32 numbers, rounded to nearest even; NaN is made quiet. */
#define POP_HAS_STORE_BF16
POP_INLINE __m256i pop_v_bf16(pop_v_f x)
{
    const __m512i bits = (__m512i)x, one = _mm512_set1_epi32(1), quiet = _mm512_set1_epi32(0x00400000);
    const __m512i odd = _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 31, 29, 27, 25, 23, 21,
                                         19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    __m512i sum = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    sum = _mm512_mask_add_epi32(sum, _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1 << 16)), sum, one);
    sum = _mm512_mask_or_epi32(sum, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), bits, quiet);
    return _mm512_castsi512_si256(_mm512_permutexvar_epi16(odd, sum));
}
POP_INLINE void pop_v_store_bf16(void *p, pop_v_f x) { _mm256_storeu_si256((__m256i *)p, pop_v_bf16(x)); }
POP_INLINE void pop_v_store_bf16_some(void *p, pop_v_f x, __mmask16 part)
{
    _mm256_mask_storeu_epi16(p, part, pop_v_bf16(x));
}

/* value where word <= bound, as unsigned, else 0 */
POP_INLINE pop_v_u pop_v_keep_up_to(pop_v_u bound, pop_v_u word, pop_v_u value)
{
    return (pop_v_u)_mm512_maskz_mov_epi32(_mm512_cmple_epu32_mask((__m512i)word, (__m512i)bound), (__m512i)value);
}

POP_INLINE pop_v_f pop_v_lookup(const float *table, pop_v_u index)
{
    return _mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)index, _mm512_loadu_ps(table + 16));
}
POP_INLINE pop_v_f pop_v_lookup16(const float *table, pop_v_u index)
{
    return _mm512_permutexvar_ps((__m512i)index, _mm512_loadu_ps(table));
}

/* x * 2^n rounded once; n whole, at most 1000 in magnitude */
POP_INLINE pop_v_f pop_v_scale(pop_v_f x, pop_v_f n) { return _mm512_scalef_ps(x, n); }
POP_INLINE pop_v_f pop_v_scale_normal(pop_v_f x, pop_v_f n) { return pop_v_scale(x, n); }
/* The same of x from 1/2 to 2, but 0 where n is less than `least`. Results below all normal numbers, zero too, take Intel's CPUs 100 ns. */
POP_INLINE pop_v_f pop_v_scale_from(pop_v_f x, pop_v_f n, float least)
{
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(n, _mm512_set1_ps(least), _CMP_NLT_UQ), x, n);
}
POP_INLINE pop_v_f pop_v_floor(pop_v_f x) { return _mm512_floor_ps(x); }

POP_INLINE pop_h_f pop_h_fma(pop_h_f a, pop_h_f b, pop_h_f c) { return _mm512_fmadd_pd(a, b, c); }
POP_INLINE pop_h_f pop_h_sqrt(pop_h_f x) { return _mm512_sqrt_pd(x); }
POP_INLINE pop_h_f pop_h_min(pop_h_f a, pop_h_f b) { return _mm512_min_pd(a, b); }
POP_INLINE pop_h_f pop_h_max(pop_h_f a, pop_h_f b) { return _mm512_max_pd(a, b); }
POP_INLINE __mmask8 pop_h_lt(pop_h_f a, pop_h_f b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
POP_INLINE __mmask8 pop_h_eq(pop_h_i a, pop_h_i b) { return _mm512_cmpeq_epi64_mask((__m512i)a, (__m512i)b); }
POP_INLINE int pop_h_any(__mmask8 m) { return m != 0; }
POP_INLINE pop_h_f pop_h_select(__mmask8 m, pop_h_f a, pop_h_f b) { return _mm512_mask_mov_pd(a, m, b); }
POP_INLINE pop_h_f pop_h_widen(pop_v_f x, int half)
{
    return _mm512_cvtps_pd(half ? _mm512_extractf32x8_ps(x, 1) : _mm512_castps512_ps256(x));
}
POP_INLINE pop_v_f pop_h_narrow(pop_h_f low, pop_h_f high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}
