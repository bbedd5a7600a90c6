/* BF16 pairs and tables, for the matrix units and for wide FP8 decoding (AVX-512 levels).
 *
 * Every FP8 value is a BF16 value, and every finite FP16 value is the sum of two: hi, its top 8 significant bits, and
 * lo, the other 3 (all 63,488 checked). An infinity's lo is zero, and zero times an infinity of the other operand is
 * NaN: callers that multiply pairs look at the mask of non-finite elements and take an FP32 path for them. */

/* The first n of 32 lanes of 16 bits, or all of them. */
POP_INLINE __mmask32 pop_columns_left(int64_t n) { return n >= 32 ? 0xffffffffu : (__mmask32)((1ull << n) - 1); }

/* BF16 elements from 32 FP32 numbers that are BF16 values: their top halves, in order. */
POP_INLINE __m512i pop_bf16_pack(__m512 first, __m512 second)
{
    const __m512i odd = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33,
                                         31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(_mm512_castps_si512(first), odd, _mm512_castps_si512(second));
}

/* The first n (at most 32) elements at p as BF16, for formats whose values are BF16 values (8 bits or fewer, BF16). */
POP_INLINE __m512i pop_bf16_decode(const pop_format *f, const void *p, int n)
{
    if (f->mantissa_bits == 7 && pop_is_short_f32(f))
        return n == 32 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi16(pop_columns_left(n), p);
    int low = n < 16 ? n : 16;
    const char *rest = (const char *)p + low * pop_bytes(f);
    return pop_bf16_pack(pop_v_decode_part(f, p, low), pop_v_decode_part(f, rest, n - low));
}

/* Split 32 FP16 codes; returns the mask of infinities and NaNs, whose hi is themselves and whose lo is zero. */
POP_INLINE __mmask32 pop_f16_split(__m512i codes, __m512i *hi, __m512i *lo)
{
    const __m512i top = _mm512_set1_epi32((int32_t)0xffff0000), exponent = _mm512_set1_epi16(0x7c00);
    __m512 first = _mm512_cvtph_ps(_mm512_castsi512_si256(codes));
    __m512 second = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(codes, 1));
    __m512 first_hi = _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(first), top));
    __m512 second_hi = _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(second), top));
    __mmask32 special = _mm512_cmpeq_epi16_mask(_mm512_and_si512(codes, exponent), exponent);
    __m512i rest = pop_bf16_pack(_mm512_sub_ps(first, first_hi), _mm512_sub_ps(second, second_hi));
    *hi = pop_bf16_pack(first, second);
    *lo = _mm512_maskz_mov_epi16((__mmask32)~special, rest);
    return special;
}

#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
/* Whether numbers are rounded to BF16 by `pop_bf16_encode_run`. */
POP_INLINE int pop_bf16_in_runs(const pop_format *f, int64_t overflow)
{
    return f->mantissa_bits == 7 && pop_is_short_f32(f) && overflow == POP_OVERFLOW_INFINITY;
}

/* 32 numbers rounded to BF16, or the first n of them. The instruction takes subnormal numbers for zero, and keeps what NaNs say:
 * vectors that hold one take the way of other levels. */
POP_INLINE void pop_bf16_encode_32(__m512 x, __m512 y, char *to, int64_t n)
{
    enum { QUIET = 0x01, SUBNORMAL = 0x20, SIGNALLING = 0x80, OTHERS = QUIET | SUBNORMAL | SIGNALLING };
    if (__builtin_expect(_kortestz_mask16_u8(_mm512_fpclass_ps_mask(x, OTHERS), _mm512_fpclass_ps_mask(y, OTHERS)), 1)) {
        const __m512i codes = (__m512i)_mm512_cvtne2ps_pbh(y, x);
        if (n >= 32) _mm512_storeu_si512(to, codes);
        else _mm512_mask_storeu_epi16(to, pop_columns_left(n), codes);
        return;
    }
    const int low = n < 16 ? (int)n : 16, high = n < 32 ? (int)n - low : 16;
    pop_v_encode_part(&POP_BF16, POP_OVERFLOW_INFINITY, to, (pop_v_f)x, low);
    if (high) pop_v_encode_part(&POP_BF16, POP_OVERFLOW_INFINITY, to + 32, (pop_v_f)y, high);
}

POP_INLINE void pop_bf16_encode_run(const float *from, char *to, int64_t n)
{
    int64_t j = 0;
    for (; j + 32 <= n; j += 32) pop_bf16_encode_32(_mm512_loadu_ps(from + j), _mm512_loadu_ps(from + j + 16), to + 2 * j, 32);
    if (j >= n) return;
    const __mmask32 there = pop_columns_left(n - j);
    pop_bf16_encode_32(_mm512_maskz_loadu_ps((__mmask16)there, from + j),
                       _mm512_maskz_loadu_ps((__mmask16)(there >> 16), from + j + 16), to + 2 * j, n - j);
}

/* BF16's two bytes for each of the 128 magnitudes of a signed format of at most 8 bits. */
typedef struct pop_byte_table {
    __m512i low[2], high[2];
    int negative_zero; /* minus zero's code is NaN */
    int sign_shift;    /* brings the sign to bit 7 */
} pop_byte_table;

POP_INLINE pop_byte_table pop_byte_table_make(const pop_format *f)
{
    pop_byte_table table;
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    uint8_t low[128], high[128];
    for (int c = 0; c < 128; c += 16) {
        __m512i codes = _mm512_and_si512(_mm512_add_epi32(lanes, _mm512_set1_epi32(c)),
                                         _mm512_set1_epi32(pop_sign_code(f) - 1));
        __m512i bits = _mm512_castps_si512(pop_v_from_code(f, (pop_v_i)codes));
        _mm_storeu_si128((__m128i *)(low + c), _mm512_cvtepi32_epi8(_mm512_srli_epi32(bits, 16)));
        _mm_storeu_si128((__m128i *)(high + c), _mm512_cvtepi32_epi8(_mm512_srli_epi32(bits, 24)));
    }
    for (int half = 0; half < 2; half++) {
        table.low[half] = _mm512_loadu_si512(low + 64 * half);
        table.high[half] = _mm512_loadu_si512(high + 64 * half);
    }
    table.negative_zero = pop_nan_is_minus_zero(f);
    table.sign_shift = 8 - pop_bits(f);
    return table;
}

/* BF16's low and high bytes of 64 codes. */
POP_INLINE void pop_byte_lookup(const pop_byte_table *table, __m512i codes, __m512i *low, __m512i *high)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    __m512i top = codes;
    if (table->sign_shift) top = _mm512_sll_epi16(codes, _mm_cvtsi32_si128(table->sign_shift)); /* bit 7 is right */
    *low = _mm512_permutex2var_epi8(table->low[0], codes, table->low[1]);
    *high = _mm512_permutex2var_epi8(table->high[0], codes, table->high[1]);
    *high = _mm512_ternarylogic_epi32(*high, top, sign, 0xf8); /* high | (top & sign) */
    if (table->negative_zero) {
        __mmask64 nan = _mm512_cmpeq_epi8_mask(codes, _mm512_set1_epi8((char)(0x80 >> table->sign_shift)));
        *low = _mm512_mask_mov_epi8(*low, nan, _mm512_set1_epi8((char)0xc0));
        *high = _mm512_mask_mov_epi8(*high, nan, _mm512_set1_epi8(0x7f));
    }
}

/* 64 codes to BF16, in order: elements 0..31 and 32..63. */
POP_INLINE void pop_byte_to_bf16(const pop_byte_table *table, __m512i codes, __m512i bf16[2])
{
    __m512i low, high;
    codes = _mm512_permutexvar_epi64(_mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0), codes);
    pop_byte_lookup(table, codes, &low, &high);
    bf16[0] = _mm512_unpacklo_epi8(low, high);
    bf16[1] = _mm512_unpackhi_epi8(low, high);
}

/* 64 codes to FP32, in order. */
POP_INLINE void pop_byte_to_f32(const pop_byte_table *table, __m512i codes, __m512 f32[4])
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i low, high;
    codes = _mm512_permutexvar_epi32(_mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0), codes);
    pop_byte_lookup(table, codes, &low, &high);
    __m512i even = _mm512_unpacklo_epi8(low, high), odd = _mm512_unpackhi_epi8(low, high);
    f32[0] = _mm512_castsi512_ps(_mm512_unpacklo_epi16(zero, even));
    f32[1] = _mm512_castsi512_ps(_mm512_unpackhi_epi16(zero, even));
    f32[2] = _mm512_castsi512_ps(_mm512_unpacklo_epi16(zero, odd));
    f32[3] = _mm512_castsi512_ps(_mm512_unpackhi_epi16(zero, odd));
}
#endif
