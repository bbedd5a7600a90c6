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
#endif
