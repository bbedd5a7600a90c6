/* Encoding up to 32 numbers at once to signed formats of eight bits with subnormals (AVX-512 levels): the codes of codec.h's
 * pop_v_encode, in lanes of 16 bits. Numbers are cut to BF16 first, whose last bit then says whether anything was cut off
 * (rounding to odd): with two bits more than a code has, the rounding that follows is that of the number itself. */
#ifndef POP_FORMATS_CODEC_BYTES_H
#define POP_FORMATS_CODEC_BYTES_H
#include "formats/codec.h"

#if POP_LEVEL >= POP_LEVEL_AVX512
/* Magnitudes below the smallest normal number, to the nearest multiple of the smallest subnormal one. */
POP_INLINE __m512i pop_bytes_tiny(const pop_format *f, __m512i magnitude)
{
    const __m512i one = _mm512_set1_epi16(1), normal = _mm512_set1_epi16((int16_t)(128 - f->bias + 7 - f->mantissa_bits));
    const __m512i hidden = _mm512_set1_epi16(0x80), shift = _mm512_sub_epi16(normal, _mm512_srli_epi16(magnitude, 7));
    const __m512i number = _mm512_or_si512(_mm512_and_si512(magnitude, _mm512_set1_epi16(0x7f)), hidden);
    const __m512i odd = _mm512_and_si512(_mm512_srlv_epi16(number, shift), one);
    const __m512i half = _mm512_sub_epi16(_mm512_sllv_epi16(one, _mm512_sub_epi16(shift, one)), one);
    return _mm512_srlv_epi16(_mm512_add_epi16(number, _mm512_add_epi16(half, odd)), shift);
}

/* The first n of 32 numbers, 16 of them or all, rounded to nearest even. Where one overflows or is not finite, pop_v_encode
 * takes all. */
POP_INLINE void pop_encode_bytes(const pop_format *f, int overflow, char *to, __m512 first, __m512 second, int n)
{
    const __m512i tops = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33,
                                          31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    const __m512i a = _mm512_castps_si512(first), b = _mm512_castps_si512(second), one = _mm512_set1_epi16(1);
    const __m512i rest = _mm512_set1_epi32(0xffff), bits = _mm512_permutex2var_epi16(a, tops, b);
    const int shift = 7 - f->mantissa_bits;
    const __mmask32 cut = _mm512_kunpackw(_mm512_test_epi32_mask(b, rest), _mm512_test_epi32_mask(a, rest));
    const __m512i kept = _mm512_and_si512(bits, _mm512_set1_epi16(0x7fff));
    const __m512i magnitude = _mm512_or_si512(kept, _mm512_maskz_mov_epi16(cut, one));
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(magnitude, (unsigned)shift), one);
    const __m512i sum = _mm512_add_epi16(_mm512_add_epi16(magnitude, odd), _mm512_set1_epi16((int16_t)((1 << (shift - 1)) - 1)));
    const __m512i least = _mm512_set1_epi16((int16_t)((127 - f->bias) << f->mantissa_bits));
    __m512i code = _mm512_sub_epi16(_mm512_srli_epi16(sum, (unsigned)shift), least);
    const __mmask32 tiny = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16((int16_t)((128 - f->bias) << 7)));
    if (tiny) code = _mm512_mask_mov_epi16(code, tiny, pop_bytes_tiny(f, magnitude));
    if (_mm512_cmpgt_epu16_mask(code, _mm512_set1_epi16((int16_t)pop_max_code(f)))) {
        pop_v_encode(f, overflow, to, first);
        if (n == 32) pop_v_encode(f, overflow, to + 16, second);
        return;
    }
    const __m512i sign = _mm512_and_si512(_mm512_srli_epi16(bits, 8), _mm512_set1_epi16(0x80));
    const __mmask32 signed_ones = pop_nan_is_minus_zero(f) ? _mm512_test_epi16_mask(code, code) : 0xffffffffu;
    code = _mm512_mask_add_epi16(code, signed_ones, code, sign);
    const __m256i codes = _mm512_cvtepi16_epi8(code);
    if (n == 32) _mm256_storeu_si256((__m256i *)(void *)to, codes);
    else _mm_storeu_si128((__m128i *)(void *)to, _mm256_castsi256_si128(codes));
}
#endif
#endif
