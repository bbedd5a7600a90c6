/* Two operations in one kernel, each rounded by itself: what `popops.map` takes two steps of arithmetic for. Of a, b and c
 * in FP32 alone; `then_from` is c less what was there. */
#ifndef POP_ELEMENTWISE_PAIRS_H
#define POP_ELEMENTWISE_PAIRS_H

#define POP_PAIRS_OF(X, first, body)                                                                                \
    X(first##_then_add, (body) + c)                                                                                 \
    X(first##_then_sub, (body) - c)                                                                                 \
    X(first##_then_from, c - (body))                                                                                \
    X(first##_then_mul, (body) * c)
#define POP_ELEMENTWISE_PAIRS(X)                                                                                    \
    POP_PAIRS_OF(X, add, a + b)                                                                                     \
    POP_PAIRS_OF(X, sub, a - b)                                                                                     \
    POP_PAIRS_OF(X, mul, a * b)
#endif
