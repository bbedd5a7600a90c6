/* The unary operations: a line each, name and body. A body takes a vector of FP32 numbers to the vector of results. */
#ifndef POP_ELEMENTWISE_UNARY_H
#define POP_ELEMENTWISE_UNARY_H
#include "simd/math.h"

#define POP_ELEMENTWISE_UNARY(X)                                                                                    \
    X(abs, pop_v_abs(x))                                                                                            \
    X(neg, pop_v_float(pop_v_bits(x) ^ INT32_MIN))                                                                  \
    X(sqrt, pop_v_sqrt(x))                                                                                          \
    X(exp, pop_v_exp(x))                                                                                            \
    X(log, pop_v_log(x))                                                                                            \
    X(tanh, pop_v_tanh(x))                                                                                          \
    X(erf, pop_v_erf(x))                                                                                            \
    X(sigmoid, pop_v_sigmoid(x))                                                                                    \
    X(relu, pop_v_max_f(pop_v_splat(0.0f), x)) /* of NaN and of minus zero themselves */                            \
    X(gelu_erf, pop_v_gelu_erf(x))

/* Functions of simd/math.h that are no operation yet: in FP32 alone, for who measures their errors and speed. */
#define POP_ELEMENTWISE_FUNCTIONS(X)                                                                                \
    X(exp2, pop_v_exp2(x))                                                                                          \
    X(expm1, pop_v_expm1(x))                                                                                        \
    X(log2, pop_v_log2(x))                                                                                          \
    X(log1p, pop_v_log1p(x))                                                                                        \
    X(silu, pop_v_silu(x))                                                                                          \
    X(gelu_tanh, pop_v_gelu_tanh(x))                                                                                \
    X(rsqrt, pop_v_rsqrt(x))                                                                                        \
    X(reciprocal, pop_v_reciprocal(x))                                                                              \
    X(sin, pop_v_sin(x))                                                                                            \
    X(cos, pop_v_cos(x))
#endif
