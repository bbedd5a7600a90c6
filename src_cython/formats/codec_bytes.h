/* Encoding up to 32 numbers at once to signed formats of eight bits with subnormals (AVX-512 levels): the codes of codec.h's
 * pop_v_encode, by one addition that rounds. To x is added what has its exponent, or the smallest normal number's, and so
 * many bits more that the sum's last place is the format's step: its low bits then are the significand rounded to nearest
 * even, its high ones sign and exponent. Times two constants and added, the halves of a sum are sign and code. */
#ifndef POP_FORMATS_CODEC_BYTES_H
#define POP_FORMATS_CODEC_BYTES_H
#include "formats/codec.h"

#if POP_LEVEL >= POP_LEVEL_AVX512
enum { POP_BYTES_LEAST_BIAS = -84 }; /* below it sums of finite numbers may be infinite */

/* Whether pop_encode_bytes encodes to a format. */
POP_INLINE int pop_takes_bytes(const pop_format *f)
{
    return pop_bits(f) == 8 && f->mantissa_bits > 0 && f->mantissa_bits < 6 && f->subnormals && !f->is_unsigned &&
           !f->no_zero && f->specials != POP_FINITE;
}

/* Codes times 2^`at`; above them, where they are in range, 2^(8 + mantissa bits + `at`) of numbers without a sign. */
POP_INLINE __m512i pop_bytes_sum(const pop_format *f, __m512 x, int at)
{
    const int bits = f->mantissa_bits, shift = 7 - bits, hidden = 23 - bits;
    const int zero = (0x8000 - ((128 - f->bias + hidden) << 7)) >> shift; /* makes zero's code 0 */
    const __m512 least = _mm512_castsi512_ps(_mm512_set1_epi32((128 - f->bias) << 23));
    const __m512 above = _mm512_castsi512_ps(_mm512_set1_epi32(pop_power_bits(hidden) + zero));
    x = _mm512_min_ps(x, _mm512_set1_ps(INFINITY)); /* the second where x is NaN, of which no bit may pass for a code */
    const __m512 power = _mm512_and_ps(_mm512_range_ps(x, least, 3), _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)0xff800000)));
    const __m512i halves = _mm512_set1_epi32((1 << (at - shift)) << 16 | 1 << at);
    return _mm512_madd_epi16(_mm512_castps_si512(_mm512_fmadd_ps(power, above, x)), halves);
}

/* The first n of 32 numbers, 16 of them or all, rounded to nearest even. Where one overflows or is not finite, pop_v_encode
 * takes all. */
POP_INLINE void pop_encode_bytes(const pop_format *f, int overflow, char *to, __m512 first, __m512 second, int n)
{
    const int bits = f->mantissa_bits, most = pop_max_code(f);
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    static const uint8_t seconds[64] = {
        1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61, 65, 69, 73, 77, 81, 85, 89, 93, 97, 101, 105, 109, 113,
        117, 121, 125, 2, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58, 62, 66, 70, 74, 78, 82, 86, 90, 94, 98, 102,
        106, 110, 114, 118, 122, 126}; /* bytes, then the ones above them */
    const __m512i bytes = _mm512_permutex2var_epi8(pop_bytes_sum(f, first, 8), _mm512_loadu_si512(seconds),
                                                   pop_bytes_sum(f, second, 8));
    const __m512i beyond = _mm512_inserti64x4(_mm512_set1_epi8((char)((1 << bits) - 1)), _mm256_set1_epi8(-1), 0);
    const __m512i limit = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi8((char)most), 0);
    const int fits = f->bias >= POP_BYTES_LEAST_BIAS && !_mm512_cmpgt_epu8_mask(_mm512_and_si512(bytes, beyond), limit);
    const __m256i code = _mm512_castsi512_si256(bytes), top = _mm256_set1_epi8((char)0x80);
    const __m256i positive = _mm256_slli_epi16(_mm512_extracti64x4_epi64(bytes, 1), (unsigned)(7 - bits));
    __m256i codes = _mm256_ternarylogic_epi64(code, positive, top, 0xf2); /* code | ~positive & top */
    if (pop_nan_is_minus_zero(f)) codes = _mm256_sign_epi8(codes, code);
#else
    const __m512i evens = _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32,
                                           30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i halves = _mm512_permutex2var_epi16(pop_bytes_sum(f, first, 7 - bits), evens, pop_bytes_sum(f, second, 7 - bits));
    const __m512i all = _mm512_srli_epi16(halves, (unsigned)(7 - bits));
    const __m512i code = _mm512_and_si512(all, _mm512_set1_epi16((int16_t)((1 << (8 + bits)) - 1)));
    const int fits = f->bias >= POP_BYTES_LEAST_BIAS && !_mm512_cmpgt_epu16_mask(code, _mm512_set1_epi16((int16_t)most));
    const __m512i sign = _mm512_andnot_si512(_mm512_srli_epi16(halves, 8), _mm512_set1_epi16(0x80));
    const __mmask32 signed_ones = pop_nan_is_minus_zero(f) ? _mm512_test_epi16_mask(code, code) : 0xffffffffu;
    const __m256i codes = _mm512_cvtepi16_epi8(_mm512_mask_add_epi16(code, signed_ones, code, sign));
#endif
    if (__builtin_expect(!fits, 0)) {
        pop_v_encode(f, overflow, to, first);
        if (n == 32) pop_v_encode(f, overflow, to + 16, second);
    } else if (n == 32) {
        _mm256_storeu_si256((__m256i *)(void *)to, codes);
    } else {
        _mm_storeu_si128((__m128i *)(void *)to, _mm256_castsi256_si128(codes));
    }
}
#endif
#endif
