/* At levels of eight lanes, maxima of numbers of 16 bits by their codes, sixteen at a time, as words that are in the order of numbers. The bits
 * are those of walk.h. */
#ifndef POP_POOL_CODES_H
#define POP_POOL_CODES_H

/* A word is a code's number without its sign, or less than 0 by as much: zeros are one word, NaN is beyond inf and below -inf. Less by
 * what there is below -inf, that is above all too, as words wrap around. */
typedef struct pop_pool_code_kind {
    __m256i below, infinity, nan; /* what a word is less by, the word of inf, and the code that NaN becomes */
} pop_pool_code_kind;

POP_INLINE pop_pool_code_kind pop_pool_code_kind_of(int bf16)
{
    const short below = bf16 ? 0x80 : 0x400, infinity = bf16 ? 0x7f80 : 0x7c00;
    return (pop_pool_code_kind){_mm256_set1_epi16(below), _mm256_set1_epi16((short)(infinity - below)), _mm256_set1_epi16(bf16 ? 0x7fc0 : 0x7e00)};
}
POP_INLINE __m256i pop_pool_code_words(const pop_pool_code_kind *kind, const char *from)
{
    const __m256i codes = _mm256_loadu_si256((const __m256i *)(const void *)from);
    return _mm256_sub_epi16(_mm256_sign_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x7fff)), codes), kind->below);
}
POP_INLINE __m256i pop_pool_of_words(const pop_pool_code_kind *kind, __m256i words)
{
    const __m256i is_nan = _mm256_cmpgt_epi16(words, kind->infinity), own = _mm256_add_epi16(words, kind->below);
    const __m256i sign = _mm256_and_si256(own, _mm256_set1_epi16(INT16_MIN));
    return _mm256_blendv_epi8(_mm256_or_si256(_mm256_abs_epi16(own), sign), kind->nan, is_nan);
}
#endif
