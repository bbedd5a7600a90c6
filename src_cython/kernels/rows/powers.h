/* Powers of rows: the greatest number of each, and exponentials of what lies below it, with their sums. */
#ifndef POP_ROWS_POWERS_H
#define POP_ROWS_POWERS_H
#include "kernels/rows/sums.h"

/* As pop_v_exp has it, but for a NaN's sign, of so many vectors of what is not above zero; near: nor below -86. */
POP_INLINE void pop_rows_exp(pop_v_f *x, const int many, const int near)
{
    pop_v_f n[POP_AT_ONCE], r[POP_AT_ONCE];
    POP_EACH_AT_ONCE(many) {
        if (!near) x[k] = pop_v_max_f(pop_v_splat(-105.0f), x[k]);
        n[k] = pop_v_exp_whole(x[k]);
    }
    POP_EACH_AT_ONCE(many) r[k] = pop_v_fma(n[k], -POP_LN2_HIGH, x[k]);
    POP_EACH_AT_ONCE(many) r[k] = pop_v_fma(n[k], -POP_LN2_LOW, r[k]);
    pop_v_exps(r, n, x, many, near);
}

/* 2^t of what is hardly above zero, within 2^-18 of itself: t's floor is an exponent, and the rest has the polynomial whose
 * greatest relative error is least. That of zero is not one. */
#define POP_BRIEF_OF_ZERO 0x1.00002cp+0f
POP_INLINE void pop_rows_brief_power(pop_v_f *t, const int many, const int near)
{
    static const float curve[] = {POP_BRIEF_OF_ZERO, 0x1.62d16ap-1f, 0x1.ee788ap-3f, 0x1.aa1cf2p-5f, 0x1.bb6734p-7f};
    pop_v_f whole[POP_AT_ONCE], rest[POP_AT_ONCE], y[POP_AT_ONCE];
    POP_EACH_AT_ONCE(many) {
#if POP_LANES == 16 /* the rest is rounded down as well, of minus infinity it is zero; scaling takes the floor */
        rest[k] = (pop_v_f)_mm512_reduce_ps((__m512)t[k], _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC), whole[k] = t[k];
#else
        if (!near) t[k] = pop_v_max_f(pop_v_splat(-160.0f), t[k]);
        whole[k] = pop_v_floor(t[k]);
        const pop_v_f part = t[k] - whole[k];
        rest[k] = pop_v_float(pop_v_bits(part) + pop_v_gt_f(part + whole[k], t[k])); /* the number below has bits less 1 */
#endif
    }
    POP_EACH_AT_ONCE(many) y[k] = pop_v_splat(curve[POP_LENGTH(curve) - 1]);
    _Pragma("GCC unroll 16") for (int c = POP_LENGTH(curve) - 2; c >= 0; c--)
        POP_EACH_AT_ONCE(many) y[k] = pop_v_fma(y[k], rest[k], pop_v_splat(curve[c]));
    POP_EACH_AT_ONCE(many) t[k] = pop_v_scaled(y[k], whole[k], near);
}

/* How far below the greatest of its row a number may be whose power is a normal one: where all are, AVX2 has less to do. */
#define POP_ROW_NEAR 86.0f

/* Exponents of powers of numbers that were FP16 or BF16: 2^(x by + less) is e^(x - top), but for a factor near one that all of
 * a row have. Where top is so large that others are equal or 256 below it, `by` is a power of two that leaves them so. */
#define POP_LOG2_E 0x1.715476p0f
POP_INLINE void pop_row_exponents(float top, float *by, float *less)
{
    *by = __builtin_fabsf(top) < 0x1p16f ? POP_LOG2_E : pop_s_power_to(top, 16);
    *less = -(top * *by);
}
/* The same of a vector of rows. */
POP_INLINE void pop_rows_exponents(pop_v_f top, pop_v_f *by, pop_v_f *less)
{
    *by = pop_v_splat(POP_LOG2_E), *less = -(top * *by);
    if (__builtin_expect(!pop_v_any((pop_v_m)~pop_v_lt_f(pop_v_abs(top), pop_v_splat(0x1p16f))), 1)) return;
    for (int l = 0; l < POP_LANES; l++) {
        float of, rest;
        pop_row_exponents(top[l], &of, &rest);
        (*by)[l] = of, (*less)[l] = rest;
    }
}
/* The logarithm of that factor, which the sum of a row's powers has too. */
POP_INLINE double pop_row_factor(float top)
{
    float by, less;
    pop_row_exponents(top, &by, &less);
    return ((double)less + (double)top * (double)by) * 0x1.62e42fefa39efp-1;
}

#if POP_LANES == 16
/* The same of codes of 16 bits: words, of which those that are not negative have the order of their numbers, and the others
 * turned round. NaN may be above all or below. */
POP_INLINE __m512i pop_row_word(const void *x, int64_t i, __mmask32 part, int turned)
{
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    const __m512i word = _mm512_mask_loadu_epi16(_mm512_set1_epi16(INT16_MIN), part, (const char *)x + 2 * i);
    return turned ? _mm512_ternarylogic_epi32(word, _mm512_srai_epi16(word, 15), magnitude, 0x78) : word;
}
POP_INLINE __m512i pop_row_words(const void *x, int64_t n, int turned)
{
    __m512i even = _mm512_set1_epi16(INT16_MIN), odd = even;
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        even = _mm512_max_epi16(even, pop_row_word(x, i, (__mmask32)-1, turned));
        odd = _mm512_max_epi16(odd, pop_row_word(x, i + 32, (__mmask32)-1, turned));
    }
    for (; i < n; i += 32) {
        const __mmask32 part = pop_columns_left(n - i);
        even = _mm512_mask_max_epi16(even, part, even, pop_row_word(x, i, part, turned));
    }
    return _mm512_max_epi16(even, odd);
}
POP_INLINE pop_v_f pop_row_lanes_code(const pop_format *f, const void *x, int64_t n)
{
    __m512i most = pop_row_words(x, n, 0);
    if (_mm512_movepi16_mask(most) == (__mmask32)-1) most = pop_row_words(x, n, 1);
    else most = _mm512_max_epi16(most, _mm512_setzero_si512());
    const __m256i half = _mm256_max_epi16(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1));
    const __m256i codes = _mm256_xor_si256(half, _mm256_srli_epi16(_mm256_srai_epi16(half, 15), 1));
    return pop_v_decode(f, &codes);
}
#endif

#if POP_LANES == 8
/* Codes of 16 bits, of which those that are not negative have the order of their numbers, and the others turned round. What is none
 * is as the first. */
POP_INLINE __m256i pop_row_words(const uint16_t *x, int64_t i, int64_t n)
{
    uint16_t few[16];
    if (i + 16 <= n) return _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
    if (n >= 16) return _mm256_loadu_si256((const __m256i *)(const void *)(x + n - 16));
    for (int k = 0; k < 16; k++) few[k] = x[k < n ? k : 0];
    return _mm256_loadu_si256((const __m256i *)(const void *)few);
}
/* The greatest of 16 words without a sign. */
POP_INLINE uint16_t pop_words_most(__m256i words)
{
    const __m128i half = _mm_max_epu16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return (uint16_t)~_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_xor_si128(half, _mm_set1_epi16(-1))));
}
/* Codes of a row's greatest number, and of one that is not above its least; NaN may be any of both. */
POP_INLINE void pop_row_ends(const uint16_t *x, int64_t n, uint16_t *most, uint16_t *least)
{
    const __m256i sign = _mm256_set1_epi16(INT16_MIN);
    __m256i top = sign, low = _mm256_setzero_si256(), others = top, other_low = low;
    for (int64_t i = 0; i < n; i += 32) {
        const __m256i some = pop_row_words(x, i, n), more = pop_row_words(x, i + 16 < n ? i + 16 : i, n);
        top = _mm256_max_epi16(top, some), low = _mm256_max_epu16(low, some);
        others = _mm256_max_epi16(others, more), other_low = _mm256_max_epu16(other_low, more);
    }
    const uint16_t lowest = pop_words_most(_mm256_max_epu16(low, other_low));
    *most = pop_words_most(_mm256_xor_si256(_mm256_max_epi16(top, others), sign)) ^ 0x8000;
    *least = lowest & 0x8000 ? lowest : 0;
    if (!(*most & 0x8000)) return;
    low = _mm256_setzero_si256();
    for (int64_t i = 0; i < n; i += 16) low = _mm256_max_epu16(low, ~pop_row_words(x, i, n));
    *most = (uint16_t)~pop_words_most(low);
}
/* As pop_rows_tops_in, of codes of 16 bits; 0 where a greatest number is infinite or NaN, and the rest is for who sees numbers. */
POP_INLINE int pop_rows_tops_of_codes(const pop_format *f, const char *x, int64_t step, int rows, int64_t n, float *top, int *near)
{
    uint16_t most[POP_ROWS_MOST], least[POP_ROWS_MOST];
    int plain = 0;
    for (int q = 0; q < rows; q++) pop_row_ends((const uint16_t *)(const void *)(x + q * step), n, most + q, least + q);
    for (int q = rows; q % POP_LANES; q++) most[q] = least[q] = 0;
    *near = 1;
    for (int q = 0; q < rows; q += POP_LANES) {
        const pop_v_f tops = pop_v_decode(f, most + q), lows = pop_v_decode(f, least + q);
        plain |= pop_v_any(~pop_v_lt_f(tops, pop_v_splat(INFINITY)));
        const pop_v_f own = pop_v_select_f(pop_v_eq_f(tops, pop_v_splat(-INFINITY)), tops, pop_v_splat(0.0f));
        *near &= !pop_v_any(pop_v_lt_f(lows, own - POP_ROW_NEAR) | ~pop_v_eq_f(lows, lows));
        pop_row_store(top + q, 0, own, rows - q < POP_LANES ? rows - q : POP_LANES);
    }
    return !plain;
}
#endif

/* The greatest of some rows each, `step` bytes from one to the next, or 0 where that is minus infinity. Returns whether none is far
 * below that; at AVX2 alone. */
POP_INLINE int pop_rows_tops_in(const pop_format *f, const char *x, int64_t step, int rows, int64_t n, float *top)
{
    pop_v_f lanes[POP_ROWS_MOST], least[POP_ROWS_MOST];
    int plain = pop_is_f32(f) || POP_LANES < 16, near = POP_LANES == 8;
    for (int q = rows; q % POP_FOUR; q++) lanes[q] = pop_v_splat(0.0f);
#if POP_LANES == 8
    if (!pop_is_f32(f) && pop_rows_tops_of_codes(f, x, step, rows, n, top, &near)) return near;
#elif POP_LANES == 16
    if (!plain) {
        for (int q = 0; q < rows; q++) lanes[q] = pop_row_lanes_code(f, x + q * step, n);
        for (int q = 0; q < rows; q += POP_FOUR) pop_four_maxima(lanes + q, top + q);
        for (int q = 0; q < rows; q++) plain |= !(top[q] < INFINITY);
    }
#endif
    if (plain) {
        for (int q = 0; q < rows; q++) lanes[q] = pop_row_lanes_most(f, x + q * step, n, least + q);
        for (int q = 0; q < rows; q += POP_FOUR) pop_four_maxima(lanes + q, top + q);
    }
    for (int q = 0; q < rows; q++) top[q] = top[q] == -INFINITY ? 0.0f : top[q];
    near = POP_LANES == 8;
    for (int q = 0; q < rows && near; q++) near = !pop_v_any(pop_v_lt_f(least[q], pop_v_splat(top[q] - POP_ROW_NEAR)));
    return near;
}

/* Powers to make: as FP32 has them, or briefly, also of numbers that are not FP16 or BF16 themselves. */
enum { POP_POWERS, POP_POWERS_BRIEF, POP_POWERS_BRIEF_OF_ANY };

/* What vectors' powers are made with; with `each` a vector has its own. */
typedef struct pop_power_numbers {
    const pop_v_f *top, *by, *less;
} pop_power_numbers;
/* Such powers of so many vectors. */
POP_INLINE void pop_row_powers(pop_v_f *own, const int many, pop_power_numbers of, const int each, const int powers, const int near)
{
    POP_EACH_AT_ONCE(many) {
        if (powers == POP_POWERS_BRIEF) own[k] = pop_v_fma(own[k], of.by[each * k], of.less[each * k]);
        else own[k] = own[k] - of.top[each * k];
        if (powers == POP_POWERS_BRIEF_OF_ANY) own[k] = own[k] * POP_LOG2_E;
    }
    if (powers) pop_rows_brief_power(own, many, near);
    else pop_rows_exp(own, many, near);
}

/* Of some rows sums of their powers, which go to `room`, `line` numbers from row to row, but with `apart` what these are of, or at AVX2
 * nothing. There are registers for several powers there, or for sums: a stretch is made, then summed. */
#define POP_ROW_FIRST (POP_LANES == 8)
POP_INLINE void pop_row_powers_first(const pop_format *f, const char *x, uintptr_t ahead, int64_t n, float top, float by, float less,
                                     float *room, const int powers, const int near)
{
    const pop_v_f tops = pop_v_splat(top), bys = pop_v_splat(by), lesses = pop_v_splat(less);
    const pop_power_numbers of = {&tops, &bys, &lesses};
    pop_v_f made[POP_AT_ONCE];
    int64_t i = 0;
    for (; i + POP_AT_ONCE * POP_LANES <= n; i += POP_AT_ONCE * POP_LANES) {
        POP_EACH_AT_ONCE(POP_AT_ONCE) {
            pop_row_prefetch(f, ahead, i + k * POP_LANES, k, 0);
            made[k] = pop_row_read(f, x, i + k * POP_LANES, POP_LANES);
        }
        pop_row_powers(made, POP_AT_ONCE, of, 0, powers, near);
        POP_EACH_AT_ONCE(POP_AT_ONCE) pop_row_store(room, i + k * POP_LANES, made[k], POP_LANES);
    }
    for (; i < n; i += POP_LANES) {
        const int part = n - i < POP_LANES ? (int)(n - i) : POP_LANES;
        made[0] = pop_row_read(f, x, i, part);
        pop_row_powers(made, 1, of, 0, powers, near);
        pop_row_store(room, i, made[0], part);
    }
}
POP_INLINE void pop_rows_powers_of(const pop_format *f, const char *x, int64_t step, int rows, int64_t n, const float *top, float *room,
                                   int64_t line, const int apart, const int powers, const int near, double *sums)
{
    float by[POP_ROWS_MOST], less[POP_ROWS_MOST];
    for (int q = 0; q < rows; q++) pop_row_exponents(top[q], by + q, less + q);
    if (POP_ROW_FIRST && !apart) {
        for (int q = 0; q < rows; q++)
            for (int64_t begin = 0, here; begin < n; begin += here) {
                const int64_t offset = q * step + begin * pop_bytes(f);
                float *to = room + q * line + begin;
                double sum;
                here = n - begin < POP_STRETCH ? n - begin : POP_STRETCH;
                pop_row_powers_first(f, x + offset, pop_beyond(x, rows * step + offset), here, top[q], by[q], less[q], to, powers, near);
                if (n <= POP_STRETCH) continue;
                POP_ROW_SUM(sum, here, pop_row_load(to, i, part));
                sums[q] = begin ? sums[q] + sum : sum;
            }
        if (n <= POP_STRETCH) POP_ROWS_SUMS(&POP_F32, sums, rows, n, pop_row_load(room + q * line, i, part));
        return;
    }
    POP_ROWS_SUMS(&POP_F32, sums, rows, n, ({
                      pop_row_prefetch(f, pop_beyond(x, (rows + q) * step), i, k, 0);
                      const pop_v_f tops = pop_v_splat(top[q]), bys = pop_v_splat(by[q]), lesses = pop_v_splat(less[q]);
                      const pop_v_f own = pop_row_read(f, x + q * step, i, part), d = own - tops;
                      pop_v_f e = own;
                      pop_row_powers(&e, 1, (pop_power_numbers){&tops, &bys, &lesses}, 0, powers, near);
                      if (!POP_ROW_FIRST) pop_row_store(room + q * line, i, apart ? d : e, part);
                      pop_row_else(e, 0.0f, part);
                  }));
}
POP_INLINE void pop_rows_exponentials_in(const pop_format *f, const char *x, int64_t step, int rows, int64_t n, const float *top,
                                         float *room, int64_t line, int apart, int powers, int near, double *sums)
{
#define POP_ROWS_POWERS(apart, powers)                                                                                 \
    (POP_LANES == 8 && near ? pop_rows_powers_of(f, x, step, rows, n, top, room, line, apart, powers, 1, sums)         \
                            : pop_rows_powers_of(f, x, step, rows, n, top, room, line, apart, powers, 0, sums))
#define POP_ROWS_POWERS_AS(apart)                                                                                      \
    if (powers == POP_POWERS_BRIEF && !apart) POP_ROWS_POWERS(apart, POP_POWERS_BRIEF);                                \
    else if (powers) POP_ROWS_POWERS(apart, POP_POWERS_BRIEF_OF_ANY);                                                  \
    else POP_ROWS_POWERS(apart, POP_POWERS)
    if (apart) {
        POP_ROWS_POWERS_AS(1);
    } else {
        POP_ROWS_POWERS_AS(0);
    }
}
#define POP_ROWS_POWERS_OF(suffix, format)                                                                             \
    POP_ROWS_SHARED int pop_rows_tops_##suffix(const char *x, int64_t step, int rows, int64_t n, float *top)           \
    {                                                                                                                  \
        return pop_rows_tops_in(&POP_##format, x, step, rows, n, top);                                                 \
    }                                                                                                                  \
    POP_ROWS_SHARED void pop_rows_exponentials_##suffix(const char *x, int64_t step, int rows, int64_t n, const float *top, \
                                                        float *room, int64_t line, int apart, int powers, int near, double *sums) \
    {                                                                                                                  \
        pop_rows_exponentials_in(&POP_##format, x, step, rows, n, top, room, line, apart,                              \
                                 pop_is_f32(&POP_##format) ? powers : POP_POWERS_BRIEF, near, sums);                   \
    }
POP_ROWS_FORMATS(POP_ROWS_POWERS_OF)
#endif
