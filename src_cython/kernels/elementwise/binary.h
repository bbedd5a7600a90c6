/* The binary operations of numbers: a line each, name and body. A body takes two vectors of FP32 numbers, a and b, to the
 * vector of results, and a comparison's to a mask. NaN and the signs of zeros are as IEEE 754-2019 has them. */
#ifndef POP_ELEMENTWISE_BINARY_H
#define POP_ELEMENTWISE_BINARY_H
#include "kernels/elementwise/quotient.h"
#include "simd/power.h"

/* Of equal numbers all bits are the same, but for zeros of two signs: these are joined. A NaN equals nothing. */
POP_INLINE pop_v_f pop_v_unless_equal(pop_v_f a, pop_v_f b, pop_v_f unequal, pop_v_i equal)
{
    return pop_v_select_f(pop_v_eq_f(a, b), unequal, pop_v_float(equal));
}
POP_INLINE pop_v_f pop_v_unless_nan(pop_v_f x, pop_v_f number, pop_v_f nan)
{
    return pop_v_select_f(pop_v_eq_f(x, x), nan, number);
}

/* 1 / sqrt(variance + epsilon), the sum in quarters where it is too large. */
POP_INLINE pop_v_f pop_v_inv_std_dev(pop_v_f variance, pop_v_f epsilon)
{
    const pop_v_f sum = variance + epsilon, y = pop_v_rsqrt(sum);
    const pop_v_m large = pop_v_eq_f(pop_v_abs(sum), pop_v_splat(INFINITY));
    if (__builtin_expect(!pop_v_any(large), 1)) return y;
    return pop_v_select_f(large, y, pop_v_rsqrt(variance * 0.25f + epsilon * 0.25f) * 0.5f);
}

/* 1 / x^2 - epsilon. Of a subnormal x the inverse may be too large, but it is no infinity. */
POP_INLINE pop_v_f pop_v_variance(pop_v_f x, pop_v_f epsilon)
{
    const pop_v_f size = pop_v_abs(x), inverse = 1.0f / size;
    const pop_v_m number = pop_v_gt_f(size, pop_v_splat(0.0f));
    const pop_v_f finite = pop_v_select_f(number, inverse, pop_v_min_f(pop_v_splat(0x1p127f), inverse));
    return pop_v_fma(finite, finite, -epsilon);
}

#define POP_ELEMENTWISE_BINARY(X)                                                                                   \
    X(add, a + b)                                                                                                   \
    X(sub, a - b)                                                                                                   \
    X(mul, a * b)                                                                                                   \
    X(div, a / b)                                                                                                   \
    X(maximum, pop_v_unless_equal(a, b, pop_v_unless_nan(a, pop_v_max_f(a, b), a), pop_v_bits(a) & pop_v_bits(b)))  \
    X(minimum, pop_v_unless_equal(a, b, pop_v_unless_nan(a, pop_v_min_f(a, b), a), pop_v_bits(a) | pop_v_bits(b)))  \
    X(fmax, pop_v_unless_equal(a, b, pop_v_unless_nan(b, pop_v_max_f(a, b), a), pop_v_bits(a) & pop_v_bits(b)))     \
    X(fmin, pop_v_unless_equal(a, b, pop_v_unless_nan(b, pop_v_min_f(a, b), a), pop_v_bits(a) | pop_v_bits(b)))     \
    X(inv_std_dev_to_variance, pop_v_variance(a, b))

/* Those of many steps, which take longer than memory does. */
#define POP_ELEMENTWISE_LONG_BINARY(X)                                                                              \
    X(rem, pop_v_rem(a, b))                                                                                         \
    X(remainder, pop_v_remainder(a, b))                                                                             \
    X(floor_divide, pop_v_floor_divide(a, b))                                                                       \
    X(atan2, pop_v_atan2(a, b))                                                                                     \
    X(variance_to_inv_std_dev, pop_v_inv_std_dev(a, b))

#define POP_ELEMENTWISE_COMPARISONS(X)                                                                              \
    X(eq, pop_v_eq_f(a, b))                                                                                         \
    X(neq, (pop_v_m)~pop_v_eq_f(a, b))                                                                              \
    X(gt, pop_v_gt_f(a, b))                                                                                         \
    X(gteq, pop_v_gt_f(a, b) | pop_v_eq_f(a, b))                                                                    \
    X(lt, pop_v_lt_f(a, b))                                                                                         \
    X(lteq, pop_v_lt_f(a, b) | pop_v_eq_f(a, b))
#endif
