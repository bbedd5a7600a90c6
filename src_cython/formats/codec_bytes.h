/* Encoding up to 64 numbers at once to signed formats of eight bits with subnormals (from AVX2 on): the codes of codec.h's
 * pop_v_encode, by one addition that rounds. To x is added what has its exponent, or the smallest normal number's, and so
 * many bits more that the sum's last place is the format's step: its low bits then are the significand rounded to nearest
 * even, its high ones sign and exponent. Times two constants and added, the halves of a sum are sign and code. */
#ifndef POP_FORMATS_CODEC_BYTES_H
#define POP_FORMATS_CODEC_BYTES_H
#include "formats/codec.h"

#if POP_LEVEL >= POP_LEVEL_AVX2
enum { POP_BYTES_LEAST_BIAS = -84 }; /* below it sums of finite numbers may be infinite */

/* Whether pop_encode_bytes encodes to a format. */
POP_INLINE int pop_takes_bytes(const pop_format *f)
{
    return pop_bits(f) == 8 && f->mantissa_bits > 0 && f->mantissa_bits < 6 && f->subnormals && !f->is_unsigned &&
           !f->no_zero && f->specials != POP_FINITE;
}

/* Where one of n numbers overflows or is not finite, pop_v_encode takes all: out of the way of what is always done. */
static __attribute__((noinline, cold)) void pop_encode_apart(const pop_format *f, int overflow, char *to, const float *x, int n)
{
    for (int i = 0; i < n; i += POP_LANES) pop_v_encode(f, overflow, to + i, pop_v_load_f(x + i));
}

/* What is added to x times a power of two: one that makes the sum's last place the format's step, and zero's code 0. */
POP_INLINE float pop_bytes_above(const pop_format *f)
{
    const int bits = f->mantissa_bits, shift = 7 - bits, hidden = 23 - bits;
    const int32_t above = pop_power_bits(hidden) + ((0x8000 - ((128 - f->bias + hidden) << 7)) >> shift);
    float number;
    memcpy(&number, &above, sizeof number);
    return number;
}

#if POP_LEVEL >= POP_LEVEL_AVX512
/* Codes times 2^`at`; above them, where they are in range, 2^(8 + mantissa bits + `at`) of numbers without a sign. */
POP_INLINE __m512i pop_bytes_sum(const pop_format *f, __m512 x, int at)
{
    const __m512 least = _mm512_castsi512_ps(_mm512_set1_epi32((128 - f->bias) << 23));
    const __m512 power = _mm512_and_ps(_mm512_range_ps(x, least, 3), _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)0xff800000)));
    const __m512i halves = _mm512_set1_epi32((1 << (at + f->mantissa_bits - 7)) << 16 | 1 << at);
    return _mm512_madd_epi16(_mm512_castps_si512(_mm512_fmadd_ps(power, _mm512_set1_ps(pop_bytes_above(f)), x)), halves);
}

/* The first n of 32 numbers, 16 of them or all, rounded to nearest even. */
POP_INLINE void pop_encode_bytes(const pop_format *f, int overflow, char *to, const float *x, int n)
{
    const __m512 first = _mm512_loadu_ps(x), second = _mm512_loadu_ps(x + n - 16);
    const int bits = f->mantissa_bits, most = pop_max_code(f);
    const __m512 infinity = _mm512_set1_ps(INFINITY); /* the second of min_ps where x is NaN, of which no bit may pass for a code */
    const __m512i evens = _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32,
                                           30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i halves = _mm512_permutex2var_epi16(pop_bytes_sum(f, _mm512_min_ps(first, infinity), 7 - bits), evens,
                                                     pop_bytes_sum(f, _mm512_min_ps(second, infinity), 7 - bits));
    const __m512i all = _mm512_srli_epi16(halves, (unsigned)(7 - bits));
    const __m512i code = _mm512_and_si512(all, _mm512_set1_epi16((int16_t)((1 << (8 + bits)) - 1)));
    const int fits = f->bias >= POP_BYTES_LEAST_BIAS && !_mm512_cmpgt_epu16_mask(code, _mm512_set1_epi16((int16_t)most));
    const __m512i sign = _mm512_andnot_si512(_mm512_srli_epi16(halves, 8), _mm512_set1_epi16(0x80));
    const __mmask32 signed_ones = pop_nan_is_minus_zero(f) ? _mm512_test_epi16_mask(code, code) : 0xffffffffu;
    const __m256i codes = _mm512_cvtepi16_epi8(_mm512_mask_add_epi16(code, signed_ones, code, sign));
    if (__builtin_expect(!fits, 0)) {
        pop_encode_apart(f, overflow, to, x, n);
    } else if (n == 32) {
        _mm256_storeu_si256((__m256i *)(void *)to, codes);
    } else {
        _mm_storeu_si128((__m128i *)(void *)to, _mm256_castsi256_si128(codes));
    }
}

#else
/* As at AVX-512, in the low half of each lane: codes times 2^(7 - mantissa bits), and a sign in the highest bit. */
POP_INLINE __m256i pop_bytes_sum(const pop_format *f, const float *from)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), exponent = _mm256_set1_ps(INFINITY); /* of which NaN becomes one: no bit of it may pass for a code */
    const __m256 least = _mm256_castsi256_ps(_mm256_set1_epi32((128 - f->bias) << 23));
    const __m256 x = _mm256_min_ps(_mm256_loadu_ps(from), exponent);
    const __m256 power = _mm256_or_ps(_mm256_and_ps(_mm256_max_ps(_mm256_andnot_ps(sign, x), least), exponent), _mm256_and_ps(x, sign));
    const __m256i halves = _mm256_set1_epi32(1 << 16 | 1 << (7 - f->mantissa_bits));
    const __m256i sum = _mm256_castps_si256(_mm256_fmadd_ps(power, _mm256_set1_ps(pop_bytes_above(f)), x));
    return _mm256_and_si256(_mm256_madd_epi16(sum, halves), _mm256_set1_epi32(0xffff));
}

/* 16 numbers of four sums each: codes, whose greatest are kept. */
POP_INLINE __m256i pop_bytes_codes(const pop_format *f, __m256i first, __m256i second, __m256i *greatest)
{
    const int bits = f->mantissa_bits;
    const __m256i halves = _mm256_packus_epi32(first, second), all = _mm256_srli_epi16(halves, 7 - bits);
    const __m256i code = _mm256_and_si256(all, _mm256_set1_epi16((int16_t)((1 << (8 + bits)) - 1)));
    __m256i sign = _mm256_andnot_si256(_mm256_srli_epi16(halves, 8), _mm256_set1_epi16(0x80));
    if (pop_nan_is_minus_zero(f)) sign = _mm256_andnot_si256(_mm256_cmpeq_epi16(code, _mm256_setzero_si256()), sign);
    *greatest = _mm256_max_epi16(*greatest, code);
    return _mm256_add_epi16(code, sign);
}

/* The first n of 32 numbers, 16 of them or all, rounded to nearest even. */
POP_INLINE void pop_encode_bytes(const pop_format *f, int overflow, char *to, const float *x, int n)
{
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* packing takes halves of vectors by turns */
    __m256i greatest = _mm256_setzero_si256();
    const __m256i low = pop_bytes_codes(f, pop_bytes_sum(f, x), pop_bytes_sum(f, x + 8), &greatest);
    const __m256i high = pop_bytes_codes(f, pop_bytes_sum(f, x + n - 16), pop_bytes_sum(f, x + n - 8), &greatest);
    const __m256i codes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), in_order);
    const __m256i over = _mm256_cmpgt_epi16(greatest, _mm256_set1_epi16((int16_t)pop_max_code(f)));
    if (__builtin_expect(f->bias < POP_BYTES_LEAST_BIAS || !_mm256_testz_si256(over, over), 0)) pop_encode_apart(f, overflow, to, x, n);
    else if (n == 32) _mm256_storeu_si256((__m256i *)(void *)to, codes);
    else _mm_storeu_si128((__m128i *)(void *)to, _mm256_castsi256_si128(codes));
}
#endif

#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
/* The same of 32 numbers and 32 others. */
POP_INLINE void pop_encode_64_bytes(const pop_format *f, int overflow, char *to, const float *from, char *other_to, const float *other)
{
    const __m512 x[4] = {_mm512_loadu_ps(from), _mm512_loadu_ps(from + 16), _mm512_loadu_ps(other), _mm512_loadu_ps(other + 16)};
    static const uint8_t seconds[64] = {
        1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61, 65, 69, 73, 77, 81, 85, 89, 93, 97, 101, 105, 109, 113,
        117, 121, 125, 2, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58, 62, 66, 70, 74, 78, 82, 86, 90, 94, 98, 102,
        106, 110, 114, 118, 122, 126}; /* bytes, then the ones above them */
    const int bits = f->mantissa_bits, beyond = (1 << bits) - 1;
    const __m512i order = _mm512_loadu_si512(seconds), top = _mm512_set1_epi8((char)0x80);
    const __m512i low = _mm512_permutex2var_epi8(pop_bytes_sum(f, x[0], 8), order, pop_bytes_sum(f, x[1], 8));
    const __m512i high = _mm512_permutex2var_epi8(pop_bytes_sum(f, x[2], 8), order, pop_bytes_sum(f, x[3], 8));
    const __m512i code = _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1), above = _mm512_shuffle_i64x2(low, high, 0xee);
    const __mmask64 wrong = _mm512_cmpgt_epu8_mask(code, _mm512_set1_epi8((char)pop_max_code(f))) |
                            _mm512_test_epi8_mask(above, _mm512_set1_epi8((char)beyond));
    const __mmask16 nan = _mm512_cmp_ps_mask(x[0], x[1], _CMP_UNORD_Q) | _mm512_cmp_ps_mask(x[2], x[3], _CMP_UNORD_Q);
    const __m512i sign = _mm512_andnot_si512(_mm512_slli_epi16(above, (unsigned)(7 - bits)), top);
    const __mmask64 signed_ones = pop_nan_is_minus_zero(f) ? _mm512_test_epi8_mask(code, code) : ~0ull;
    if (__builtin_expect(f->bias >= POP_BYTES_LEAST_BIAS && !(wrong | nan), 1)) {
        const __m512i codes = _mm512_mask_add_epi8(code, signed_ones, code, sign);
        if (other_to == to + 32) {
            _mm512_storeu_si512(to, codes);
            return;
        }
        _mm256_storeu_si256((__m256i *)(void *)to, _mm512_castsi512_si256(codes));
        _mm256_storeu_si256((__m256i *)(void *)other_to, _mm512_extracti64x4_epi64(codes, 1));
        return;
    }
    pop_encode_apart(f, overflow, to, from, 32), pop_encode_apart(f, overflow, other_to, other, 32);
}
#endif

/* Columns [first, end) of rows, n of `high` rows at once: of the last columns too, before which there are others then. */
POP_INLINE void pop_encode_columns_of_bytes(const pop_format *f, int overflow, char *to, int64_t to_row, const float *from,
                                            int64_t from_row, int64_t rows, int64_t first, int64_t end, int64_t ahead, int n, int high)
{
    for (int64_t row = 0, j = first; row + high <= rows && first < end;) { /* one loop, that constants stay in registers between rows */
        const int64_t col = j + n < end ? j : end - n;
        char *at = to + row * to_row + col;
        const float *x = from + row * from_row + col;
        pop_prefetch_to_write(pop_beyond(at, ahead));
        if (high > 1) pop_prefetch_to_write(pop_beyond(at, to_row + ahead));
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
        if (n * high == 64) pop_encode_64_bytes(f, overflow, at, x, high > 1 ? at + to_row : at + 32, high > 1 ? x + from_row : x + 32);
        else
#endif
            pop_encode_bytes(f, overflow, at, x, n);
        j += n;
        if (j >= end) j = first, row += high;
    }
}

/* Rows of 16 numbers or more to codes. Asks for the places of codes `ahead` bytes further on. */
POP_INLINE void pop_encode_rows_of_bytes(const pop_format *f, int overflow, char *to, int64_t to_row, const float *from,
                                         int64_t from_row, int64_t rows, int64_t cols, int64_t ahead)
{
    const int64_t whole = POP_LEVEL >= POP_LEVEL_AVX512_BF16 ? cols & ~(int64_t)63 : 0;
#define POP_ENCODE_COLUMNS(first, end, n, high) \
    pop_encode_columns_of_bytes(f, overflow, to, to_row, from, from_row, rows, first, end, ahead, n, high)
    if (whole) POP_ENCODE_COLUMNS(0, whole, 64, 1);
    if (POP_LEVEL >= POP_LEVEL_AVX512_BF16 && cols >= 32) {
        const int64_t even = rows & ~(int64_t)1;
        POP_ENCODE_COLUMNS(whole, cols, 32, 2);
        to += even * to_row, from += even * from_row, rows -= even;
    }
    if (cols >= 32) POP_ENCODE_COLUMNS(whole, cols, 32, 1);
    else POP_ENCODE_COLUMNS(0, cols, 16, 1);
#undef POP_ENCODE_COLUMNS
}
#endif
#endif
