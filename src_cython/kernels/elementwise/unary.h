/* The unary operations: a line each, name and body. A body takes a vector of FP32 numbers to the vector of results. */
#ifndef POP_ELEMENTWISE_UNARY_H
#define POP_ELEMENTWISE_UNARY_H
#include "kernels/softmax/exp.h"
#if POP_LEVEL >= 2
POP_INLINE pop_v_f pop_v_sqrt(pop_v_f x) { return _mm512_sqrt_ps(x); }
#elif POP_LEVEL >= 1
POP_INLINE pop_v_f pop_v_sqrt(pop_v_f x) { return _mm256_sqrt_ps(x); }
#else
POP_INLINE pop_v_f pop_v_sqrt(pop_v_f x) { return __builtin_sqrtf(x); }
#endif

#define POP_ELEMENTWISE_UNARY(X)                                                                                    \
    X(abs, pop_v_float(pop_v_and(pop_v_bits(x), pop_v_set(0x7fffffff))))                                            \
    X(neg, pop_v_float(pop_v_add(pop_v_bits(x), pop_v_set(INT32_MIN))))                                             \
    X(sqrt, pop_v_sqrt(x))                                                                                          \
    X(relu, pop_v_max_f(pop_v_float(pop_v_set(0)), x)) /* of NaN and of minus zero themselves */
#endif
