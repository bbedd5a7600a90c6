/* The vocabulary of simd.h for AVX2, FMA and F16C. Masks are vectors of 0 and -1. Parts of narrow elements
 * go in pieces of four, two and one: AVX2 has no masked byte moves. */
#include <immintrin.h>

typedef pop_v_i pop_v_m;
typedef pop_h_i pop_h_m;

POP_INLINE pop_v_i pop_v_sll(pop_v_i a, int n)
{
    return (pop_v_i)(__builtin_constant_p(n) ? _mm256_slli_epi32((__m256i)a, n)
                                             : _mm256_sll_epi32((__m256i)a, _mm_cvtsi32_si128(n)));
}
POP_INLINE pop_v_i pop_v_srl(pop_v_i a, int n)
{
    return (pop_v_i)(__builtin_constant_p(n) ? _mm256_srli_epi32((__m256i)a, n)
                                             : _mm256_srl_epi32((__m256i)a, _mm_cvtsi32_si128(n)));
}
POP_INLINE pop_v_i pop_v_sllv(pop_v_i a, pop_v_i n) { return (pop_v_i)_mm256_sllv_epi32((__m256i)a, (__m256i)n); }
POP_INLINE pop_v_i pop_v_srlv(pop_v_i a, pop_v_i n) { return (pop_v_i)_mm256_srlv_epi32((__m256i)a, (__m256i)n); }
POP_INLINE pop_v_i pop_v_maximum(pop_v_i a, pop_v_i b) { return (pop_v_i)_mm256_max_epi32((__m256i)a, (__m256i)b); }
POP_INLINE pop_v_f pop_v_fma(pop_v_f a, pop_v_f b, pop_v_f c) { return _mm256_fmadd_ps(a, b, c); }
POP_INLINE pop_v_f pop_v_sqrt(pop_v_f x) { return _mm256_sqrt_ps(x); }
POP_INLINE pop_v_f pop_v_min_f(pop_v_f a, pop_v_f b) { return _mm256_min_ps(a, b); }
POP_INLINE pop_v_f pop_v_max_f(pop_v_f a, pop_v_f b) { return _mm256_max_ps(a, b); }

POP_INLINE pop_v_i pop_v_gt(pop_v_i a, pop_v_i b) { return (pop_v_i)_mm256_cmpgt_epi32((__m256i)a, (__m256i)b); }
POP_INLINE pop_v_i pop_v_eq(pop_v_i a, pop_v_i b) { return (pop_v_i)_mm256_cmpeq_epi32((__m256i)a, (__m256i)b); }
POP_INLINE pop_v_i pop_v_lt_f(pop_v_f a, pop_v_f b) { return (pop_v_i)_mm256_cmp_ps(a, b, _CMP_LT_OQ); }
POP_INLINE pop_v_i pop_v_gt_f(pop_v_f a, pop_v_f b) { return (pop_v_i)_mm256_cmp_ps(a, b, _CMP_GT_OQ); }
POP_INLINE pop_v_i pop_v_eq_f(pop_v_f a, pop_v_f b) { return (pop_v_i)_mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
POP_INLINE pop_v_i pop_v_carries(pop_v_i a, pop_v_i b)
{
    return pop_v_gt(a ^ INT32_MIN, pop_v_add(a, b) ^ INT32_MIN);
}
POP_INLINE int pop_v_any(pop_v_i m) { return _mm256_movemask_ps((__m256)m) != 0; }
POP_INLINE pop_v_i pop_v_select(pop_v_i m, pop_v_i a, pop_v_i b)
{
    return (pop_v_i)_mm256_blendv_epi8((__m256i)a, (__m256i)b, (__m256i)m);
}
POP_INLINE pop_v_i pop_v_keep(pop_v_i m, pop_v_i a) { return m & a; }
typedef int pop_v_part; /* how many */
POP_INLINE int pop_v_first(int64_t n) { return n >= 8 ? 8 : (int)n; }
POP_INLINE pop_v_i pop_v_mask(int part) { return pop_v_gt(pop_v_set(part), (pop_v_i){0, 1, 2, 3, 4, 5, 6, 7}); }
POP_INLINE int pop_v_is_all(int part) { return part == 8; }

POP_INLINE pop_v_i pop_v_load(const void *p, int64_t bytes)
{
    if (bytes == 1) return (pop_v_i)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
    if (bytes == 2) return (pop_v_i)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return (pop_v_i)_mm256_loadu_si256((const __m256i *)p);
}
POP_INLINE void pop_v_store(void *p, int64_t bytes, pop_v_i words)
{
    const __m256i a = (__m256i)words;
    if (bytes == 4) {
        _mm256_storeu_si256((__m256i *)p, a);
        return;
    }
    __m128i shorts = _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    if (bytes == 2) _mm_storeu_si128((__m128i *)p, shorts);
    else _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(shorts, shorts));
}

/* At most 7 elements in pieces of four, two and one: a masked store takes some twenty cycles on some cores, and a vector that is read
 * where its elements were just written waits for them. */
POP_INLINE uint64_t pop_v_word(const char *p, int64_t bytes)
{
    uint64_t word = 0;
    memcpy(&word, p, (size_t)bytes);
    return word;
}
POP_INLINE uint64_t pop_v_few(const char *p, int64_t bytes, int part) /* three at most, of 2 bytes or 1 */
{
    const uint64_t one = part & 1 ? pop_v_word(p + (part & 2) * bytes, bytes) : 0;
    return part & 2 ? one << 16 * bytes | pop_v_word(p, 2 * bytes) : one;
}
POP_INLINE __m128i pop_v_some(const char *p, int64_t bytes, int part) /* of 2 bytes or 1 */
{
    const uint64_t few = pop_v_few(part & 4 ? p + 4 * bytes : p, bytes, part);
    if (!(part & 4)) return _mm_cvtsi64_si128((int64_t)few);
    const uint64_t four = pop_v_word(p, 4 * bytes);
    return bytes == 2 ? _mm_set_epi64x((int64_t)few, (int64_t)four) : _mm_cvtsi64_si128((int64_t)(few << 32 | four));
}
POP_INLINE void pop_v_put(char *p, int64_t bytes, __m128i a, int part) /* of 2 bytes or 1 */
{
    uint64_t few = (uint64_t)_mm_cvtsi128_si64(a);
    if (part & 4) {
        memcpy(p, &few, (size_t)(4 * bytes));
        few = bytes == 2 ? (uint64_t)_mm_extract_epi64(a, 1) : few >> 32;
        p += 4 * bytes;
    }
    if (part & 2) {
        memcpy(p, &few, (size_t)(2 * bytes));
        few >>= 16 * bytes;
        p += 2 * bytes;
    }
    if (part & 1) memcpy(p, &few, (size_t)bytes);
}
POP_INLINE void pop_v_put_words(char *p, __m256i a, int part)
{
    __m128i few = _mm256_castsi256_si128(a);
    if (part & 4) {
        _mm_storeu_si128((__m128i *)(void *)p, few);
        few = _mm256_extracti128_si256(a, 1);
        p += 16;
    }
    if (part & 2) {
        _mm_storel_epi64((__m128i *)(void *)p, few);
        few = _mm_unpackhi_epi64(few, few);
        p += 8;
    }
    const int one = _mm_cvtsi128_si32(few);
    if (part & 1) memcpy(p, &one, sizeof one);
}
POP_INLINE pop_v_i pop_v_load_some(const void *p, int64_t bytes, int part)
{
    if (bytes == 4) return (pop_v_i)_mm256_maskload_epi32((const int *)p, (__m256i)pop_v_mask(part));
    if (part == 8) return pop_v_load(p, bytes);
    const __m128i some = pop_v_some((const char *)p, bytes, part);
    return (pop_v_i)(bytes == 2 ? _mm256_cvtepu16_epi32(some) : _mm256_cvtepu8_epi32(some));
}
POP_INLINE void pop_v_store_some(void *p, int64_t bytes, pop_v_i words, int part)
{
    const __m256i a = (__m256i)words;
    if (part == 8) pop_v_store(p, bytes, words);
    else if (bytes == 4) pop_v_put_words((char *)p, a, part);
    else {
        const __m128i shorts = _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
        pop_v_put((char *)p, bytes, bytes == 2 ? shorts : _mm_packus_epi16(shorts, shorts), part);
    }
}
POP_INLINE void pop_v_stream_f(float *p, pop_v_f x) { _mm256_stream_ps(p, x); }

#define POP_HAS_F16C
POP_INLINE pop_v_f pop_v_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
POP_INLINE pop_v_f pop_v_load_f16_some(const void *p, int part)
{
    return part == 8 ? pop_v_load_f16(p) : (pop_v_f)_mm256_cvtph_ps(pop_v_some((const char *)p, 2, part));
}
POP_INLINE void pop_v_store_f16(void *p, pop_v_f x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
POP_INLINE void pop_v_store_f16_some(void *p, pop_v_f x, int part)
{
    if (part == 8) pop_v_store_f16(p, x);
    else pop_v_put((char *)p, 2, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT), part);
}

#define POP_HAS_BYTE_F16
POP_INLINE pop_v_f pop_v_load_bytes_f16(const void *p, int part, int up, int of, int nan)
{
    const __m128i codes = part == 8 ? _mm_loadl_epi64((const __m128i *)p) : pop_v_some((const char *)p, 1, part);
    __m128i words = _mm_slli_epi16(_mm_cvtepi8_epi16(codes), up);
    if (up < 8) words = _mm_and_si128(words, _mm_set1_epi16((short)(0x8000 | 0x7f << up))); /* the sign was doubled */
    if (of) {
        const __m128i which = _mm_cmpeq_epi16(_mm_and_si128(words, _mm_set1_epi16((short)of)), _mm_set1_epi16((short)nan));
        words = _mm_xor_si128(words, _mm_and_si128(which, _mm_set1_epi16((short)(nan ^ 0x7e00))));
    }
    return (pop_v_f)_mm256_cvtph_ps(words);
}

#define POP_HAS_LOAD_BF16
/* What is read into both halves is shuffled once, each number to the upper half of its lane. */
POP_INLINE pop_v_f pop_v_load_bf16(const void *p)
{
    const __m256i order = _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1, 8, 9, -1, -1, 10, 11, -1, -1, 12,
                                           13, -1, -1, 14, 15);
    return (pop_v_f)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p)), order);
}

/* value where word <= bound, as unsigned, else 0 */
POP_INLINE pop_v_u pop_v_keep_up_to(pop_v_u bound, pop_v_u word, pop_v_u value)
{
    return value & (pop_v_u)_mm256_cmpeq_epi32(_mm256_min_epu32((__m256i)word, (__m256i)bound), (__m256i)word);
}

POP_INLINE pop_v_f pop_v_lookup16(const float *table, pop_v_u index)
{
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)index);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), (__m256i)index);
    return _mm256_blendv_ps(low, high, (__m256)(index << 28));
}
/* Four tables in registers: less than a gather of eight takes, 0.8 of the time of GELU where it looks up nine (one Zen 3 core). */
POP_INLINE pop_v_f pop_v_lookup(const float *table, pop_v_u index)
{
    const __m256 low = (__m256)pop_v_lookup16(table, index), high = (__m256)pop_v_lookup16(table + 16, index);
    return (pop_v_f)_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32((__m256i)index, 27)));
}

/* 32 numbers at once, byte by byte: three shuffles for a vector, where two permutations, which take longer each, and a choice look
 * up 16 numbers. Packing and unpacking change the order within halves and back. */
#define POP_HAS_LOOKUP_FOUR
POP_INLINE __m256i pop_v_byte_of(const uint8_t *low, const uint8_t *high, __m256i index, const int wide)
{
    const __m256i byte = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)low)), index);
    if (!wide) return byte;
    const __m256i above = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)high)), index);
    return _mm256_blendv_epi8(byte, above, _mm256_slli_epi32(index, 3));
}
POP_INLINE void pop_v_lookup_four(const pop_planes *planes, const pop_v_u *index, const int wide, pop_v_f *y)
{
    const __m256i which = _mm256_set1_epi32(wide ? 31 : 15);
    __m256i words[4], bytes[4], pairs[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) words[k] = _mm256_and_si256((__m256i)index[k], which);
    const __m256i places = _mm256_packus_epi16(_mm256_packus_epi32(words[0], words[1]), _mm256_packus_epi32(words[2], words[3]));
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) bytes[k] = pop_v_byte_of(planes[0].of[k], planes[wide].of[k], places, wide);
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) {
        pairs[k] = _mm256_unpacklo_epi8(bytes[2 * k], bytes[2 * k + 1]);
        pairs[2 + k] = _mm256_unpackhi_epi8(bytes[2 * k], bytes[2 * k + 1]);
    }
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) {
        y[2 * k] = (pop_v_f)_mm256_unpacklo_epi16(pairs[2 * k], pairs[2 * k + 1]);
        y[2 * k + 1] = (pop_v_f)_mm256_unpackhi_epi16(pairs[2 * k], pairs[2 * k + 1]);
    }
}
/* table[first + ((index - first) mod 8)]: one register holds a window of eight */
POP_INLINE pop_v_f pop_v_lookup_window(const float *table, pop_v_u index, uint32_t first)
{
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + first), (__m256i)(index - first));
}

/* x * 2^n rounded once, given a power of two times 1/2 to 2: the product that can round is the second. */
POP_INLINE pop_v_f pop_v_scale(pop_v_f x, pop_v_f n)
{
    const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), one = _mm256_set1_epi32(127);
    const __m256i low = _mm256_slli_epi32(_mm256_add_epi32(half, one), 23);
    const __m256i high = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), one), 23);
    return x * (pop_v_f)low * (pop_v_f)high;
}
/* The same where what n less than `least` gives is 0. */
POP_INLINE pop_v_f pop_v_scale_from(pop_v_f x, pop_v_f n, float least)
{
    (void)least;
    return pop_v_scale(x, n);
}
POP_INLINE pop_v_f pop_v_scale_normal(pop_v_f x, pop_v_f n)
{
    return (pop_v_f)_mm256_add_epi32((__m256i)x, _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23));
}
POP_INLINE pop_v_f pop_v_floor(pop_v_f x) { return _mm256_floor_ps(x); }

POP_INLINE pop_h_f pop_h_fma(pop_h_f a, pop_h_f b, pop_h_f c) { return _mm256_fmadd_pd(a, b, c); }
POP_INLINE pop_h_f pop_h_sqrt(pop_h_f x) { return _mm256_sqrt_pd(x); }
POP_INLINE pop_h_f pop_h_min(pop_h_f a, pop_h_f b) { return _mm256_min_pd(a, b); }
POP_INLINE pop_h_f pop_h_max(pop_h_f a, pop_h_f b) { return _mm256_max_pd(a, b); }
POP_INLINE pop_h_i pop_h_lt(pop_h_f a, pop_h_f b) { return (pop_h_i)_mm256_cmp_pd(a, b, _CMP_LT_OQ); }
POP_INLINE pop_h_i pop_h_eq(pop_h_i a, pop_h_i b) { return (pop_h_i)_mm256_cmpeq_epi64((__m256i)a, (__m256i)b); }
POP_INLINE int pop_h_any(pop_h_i m) { return _mm256_movemask_pd((__m256d)m) != 0; }
POP_INLINE pop_h_f pop_h_select(pop_h_i m, pop_h_f a, pop_h_f b) { return _mm256_blendv_pd(a, b, (__m256d)m); }
POP_INLINE pop_h_f pop_h_widen(pop_v_f x, int half)
{
    return _mm256_cvtps_pd(half ? _mm256_extractf128_ps(x, 1) : _mm256_castps256_ps128(x));
}
POP_INLINE pop_v_f pop_h_narrow(pop_h_f low, pop_h_f high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high), 1);
}
