/* The unary operations of numbers: a line each, name and body. A body takes a vector of FP32 numbers, x, to the vector of
 * results, and a question's to a mask. */
#ifndef POP_ELEMENTWISE_UNARY_H
#define POP_ELEMENTWISE_UNARY_H
#include "simd/curves.h"

/* Whole numbers. Of 2^23 and more all are; below, a sum with 2^23 rounds to nearest even. Zeros keep their sign. */
POP_INLINE pop_v_f pop_v_whole_size(pop_v_f size) { return (size + 0x1p23f) - 0x1p23f; }
POP_INLINE pop_v_f pop_v_unless_whole(pop_v_f x, pop_v_f size)
{
    return pop_v_select_f(pop_v_lt_f(pop_v_abs(x), pop_v_splat(0x1p23f)), x, pop_v_signed(size, x));
}
POP_INLINE pop_v_f pop_v_negated(pop_v_f x) { return pop_v_float(pop_v_bits(x) ^ INT32_MIN); }
#if POP_LEVEL >= POP_LEVEL_AVX512
#define POP_V_WHOLE(x, toward) _mm512_roundscale_ps(x, _MM_FROUND_NO_EXC | _MM_FROUND_TO_##toward)
#elif POP_LEVEL >= POP_LEVEL_AVX2
#define POP_V_WHOLE(x, toward) _mm256_round_ps(x, _MM_FROUND_NO_EXC | _MM_FROUND_TO_##toward)
#endif
#ifdef POP_V_WHOLE
POP_INLINE pop_v_f pop_v_nearbyint(pop_v_f x) { return POP_V_WHOLE(x, NEAREST_INT); }
POP_INLINE pop_v_f pop_v_trunc(pop_v_f x) { return POP_V_WHOLE(x, ZERO); }
POP_INLINE pop_v_f pop_v_ceil(pop_v_f x) { return POP_V_WHOLE(x, POS_INF); }
#else
POP_INLINE pop_v_f pop_v_less_if(pop_v_m m, pop_v_f x) { return x - pop_v_float(pop_v_keep(m, pop_v_bits(pop_v_splat(1.0f)))); }
POP_INLINE pop_v_f pop_v_nearbyint(pop_v_f x) { return pop_v_unless_whole(x, pop_v_whole_size(pop_v_abs(x))); }
POP_INLINE pop_v_f pop_v_trunc(pop_v_f x)
{
    const pop_v_f size = pop_v_abs(x), near = pop_v_whole_size(size);
    return pop_v_unless_whole(x, pop_v_less_if(pop_v_gt_f(near, size), near));
}
POP_INLINE pop_v_f pop_v_ceil(pop_v_f x) { return pop_v_negated(pop_v_floor(pop_v_negated(x))); }
#endif
POP_INLINE pop_v_f pop_v_round(pop_v_f x) /* halves away from zero */
{
    const pop_v_f size = pop_v_abs(x), near = pop_v_whole_size(size), above = near + 1.0f;
    return pop_v_unless_whole(x, pop_v_select_f(pop_v_eq_f(size - near, pop_v_splat(0.5f)), near, above));
}

/* What changes the sign alone, and in 16 bits, x[i], just that bit. */
#define POP_ELEMENTWISE_SIGNS(X)                                                                                    \
    X(abs, pop_v_abs(x), x[i] & 0x7fff)                                                                             \
    X(neg, pop_v_negated(x), x[i] ^ 0x8000)

#define POP_ELEMENTWISE_UNARY(X)                                                                                    \
    X(signum, pop_v_float(pop_v_keep(pop_v_gt_f(pop_v_abs(x), pop_v_splat(0.0f)),                                   \
                                     pop_v_sign(x) | pop_v_bits(pop_v_splat(1.0f))))) /* 0 for NaN and -0 */        \
    X(square, x * x)                                                                                                \
    X(cube, x * x * x)                                                                                              \
    X(sqrt, pop_v_sqrt(x))                                                                                          \
    X(inv, 1.0f / x)                                                                                                \
    X(relu, pop_v_max_f(pop_v_splat(0.0f), x)) /* of NaN and of minus zero themselves */                            \
    X(ceil, pop_v_ceil(x))                                                                                          \
    X(floor, pop_v_floor(x))                                                                                        \
    X(round, pop_v_round(x))                                                                                        \
    X(nearbyint, pop_v_nearbyint(x))                                                                                \
    X(trunc, pop_v_trunc(x))

/* Those of many steps, which BF16 takes from tables, and FP16 but for the shortest: see code_table.h. */
#define POP_ELEMENTWISE_SHORT(X)                                                                                    \
    X(exp, pop_v_exp(x))                                                                                            \
    X(exp2, pop_v_exp2(x))                                                                                          \
    X(log, pop_v_log(x))                                                                                            \
    X(log2, pop_v_log2(x))
#define POP_ELEMENTWISE_ELEMENTARY(X)                                                                               \
    X(rsqrt, pop_v_rsqrt(x))                                                                                        \
    X(expm1, pop_v_expm1(x))                                                                                        \
    X(log1p, pop_v_log1p(x))                                                                                        \
    X(sin, pop_v_sin(x))                                                                                            \
    X(cos, pop_v_cos(x))                                                                                            \
    X(tan, pop_v_tan(x))                                                                                            \
    X(asin, pop_v_asin(x))                                                                                          \
    X(cbrt, pop_v_cbrt(x))

/* Of these, functions of curves, which take the numbers of many vectors. */
#define POP_ELEMENTWISE_CURVES(X)                                                                                   \
    X(tanh, pop_v_tanhs)                                                                                            \
    X(erf, pop_v_erfs)                                                                                              \
    X(sigmoid, pop_v_sigmoids)                                                                                      \
    X(gelu_erf, pop_v_gelu_erfs)                                                                                    \
    X(silu, pop_v_silus)                                                                                            \
    X(gelu_tanh, pop_v_gelu_tanhs)

#define POP_ELEMENTWISE_QUESTIONS(X)                                                                                \
    X(is_finite, pop_v_lt_f(pop_v_abs(x), pop_v_splat(INFINITY)))                                                   \
    X(is_inf, pop_v_eq_f(pop_v_abs(x), pop_v_splat(INFINITY)))                                                      \
    X(is_nan, (pop_v_m)~pop_v_eq_f(x, x))

/* Functions of simd/math.h that are no operation yet: in FP32 alone, for who measures their errors and speed. */
#define POP_ELEMENTWISE_FUNCTIONS(X)                                                                                \
    X(reciprocal, pop_v_reciprocal(x))                                                                              \
    X(acos, pop_v_acos(x))                                                                                          \
    X(atan, pop_v_atan(x))                                                                                          \
    X(sinh, pop_v_sinh(x))                                                                                          \
    X(cosh, pop_v_cosh(x))
#endif
