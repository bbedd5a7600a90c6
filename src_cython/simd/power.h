/* x^y in FP32 throughout, within 1 ulp: 2^(y log2 x), the logarithm in two numbers, of which the greater keeps 24 bits and
 * the lesser what that loses: together 2^-40 or less of it is lost, and of the exponent, at most 126, 2^-27. Where x is not
 * normal and positive, or the exponent greater, pop_v_wide_pow of math.h stands in. */
#ifndef POP_SIMD_POWER_H
#define POP_SIMD_POWER_H
#include "simd/power_tables.h"
#include "simd/math.h"

#define POP_POWER_ROUNDER 0x1.8p19f /* rounds to sixteenths */

/* log2 x, x normal and positive: with x = 2^e m and r = c m - 1, e - log2 c and log2(1 + r). */
POP_INLINE pop_v_f pop_v_log2_pair(pop_v_f x, pop_v_f *low)
{
    const pop_v_u bits = (pop_v_u)x, above = bits - POP_POWER_LEAST, interval = above >> 18;
    const pop_v_i e = (pop_v_i)above >> 23;
    const pop_v_f m = (pop_v_f)(bits - ((pop_v_u)e << 23)), whole = pop_v_to_float(e) + pop_v_lookup(POP_POWER_HIGH, interval);
    const pop_v_f r = pop_v_fma(m, pop_v_lookup(POP_POWER_INVERSE, interval), pop_v_splat(-1.0f));
    const pop_v_f half = r * -0.5f, u = pop_v_fma(half, r, r), cube = (r * r) * r; /* r - r^2 / 2: u and what it loses */
    const pop_v_f rest = pop_v_fma(cube, pop_v_horner(POP_POWER_REST, 4, r), pop_v_fma(half, r, r - u));
    const pop_v_f log2e = pop_v_splat(0x1.715476p0f), v = u * log2e;
    const pop_v_f lost = pop_v_fma(rest, log2e, pop_v_fma(u, pop_v_splat(0x1.4ae0cp-26f), pop_v_fma(u, log2e, -v)));
    const pop_v_f high = whole + v; /* a multiple of 2^-16 and less than it, or not: the second part is exact */
    *low = ((whole - high) + v) + (lost + pop_v_lookup(POP_POWER_LOW, interval));
    return high;
}

/* 2^(n / 16): the last four bits of n are below the whole ones. */
POP_INLINE pop_v_f pop_v_power_base(pop_v_i n)
{
    const pop_v_i root = pop_v_bits(pop_v_lookup16(POP_POWER_ROOT, (pop_v_u)n));
    return pop_v_float(pop_v_add(root, pop_v_sll(n, 19)));
}

POP_INLINE pop_v_m pop_v_is_normal(pop_v_f x) /* and positive */
{
    return (pop_v_m)(pop_v_gt_f(x, pop_v_splat(0x1.fffffcp-127f)) & pop_v_lt_f(x, pop_v_splat(INFINITY)));
}

POP_MATH pop_v_f pop_v_pow(pop_v_f x, pop_v_f y)
{
    pop_v_f low;
    const pop_v_f high = pop_v_log2_pair(x, &low), z = y * high, lost = pop_v_fma(y, low, pop_v_fma(y, high, -z));
    const pop_v_f shifted = (z + lost) + POP_POWER_ROUNDER, r = (z - (shifted - POP_POWER_ROUNDER)) + lost;
    const pop_v_i sixteenths = pop_v_bits(shifted);
    const pop_v_f base = pop_v_power_base(sixteenths);
    const pop_v_f curve = pop_v_fma(pop_v_horner(POP_POWER_CURVE, 3, r), r, pop_v_lookup16(POP_POWER_LOST, (pop_v_u)sixteenths));
    const pop_v_f power = pop_v_fma(base, curve, base);
    const pop_v_m near = (pop_v_m)(pop_v_is_normal(x) & pop_v_gt_f(pop_v_splat(125.0f), pop_v_abs(z)));
    return __builtin_expect(!pop_v_any((pop_v_m)~near), 1) ? power : pop_v_select_f(near, pop_v_wide_pow(x, y), power);
}

/* What rounds to the same BF16 as pop_v_pow: the logarithm in one number, |z| < 16, which loses less than 2^-20 of the power,
 * or POP_POWER_DOUBT units of its last place. Where half a BF16 unit is nearer than that, or x or z is another, pop_v_pow
 * itself stands in: for one vector of twenty-five. */
#define POP_POWER_DOUBT 32
POP_MATH pop_v_f pop_v_pow_for_bf16(pop_v_f x, pop_v_f y)
{
    const pop_v_u bits = (pop_v_u)x, above = bits - POP_POWER_LEAST, interval = above >> 18;
    const pop_v_i e = (pop_v_i)above >> 23;
    const pop_v_f m = (pop_v_f)(bits - ((pop_v_u)e << 23)), whole = pop_v_to_float(e) + pop_v_lookup(POP_POWER_SHORT_LOG, interval);
    const pop_v_f r = pop_v_fma(m, pop_v_lookup(POP_POWER_INVERSE, interval), pop_v_splat(-1.0f));
    const pop_v_f z = y * pop_v_fma(pop_v_horner(POP_POWER_SHORT_REST, 4, r), r, whole), shifted = z + POP_POWER_ROUNDER;
    const pop_v_f base = pop_v_power_base(pop_v_bits(shifted)), rest = z - (shifted - POP_POWER_ROUNDER);
    const pop_v_f power = pop_v_fma(base * pop_v_horner(POP_POWER_CURVE, 3, rest), rest, base);
    const pop_v_i past_half = pop_v_sll(pop_v_add(pop_v_bits(power), pop_v_set(POP_POWER_DOUBT)), 16); /* from INT32_MIN on */
    const pop_v_m sure = (pop_v_m)(pop_v_is_normal(x) & pop_v_gt_f(pop_v_splat(16.0f), pop_v_abs(z)) &
                                   pop_v_gt(past_half, pop_v_set(INT32_MIN + (2 * POP_POWER_DOUBT << 16))));
    return __builtin_expect(!pop_v_any((pop_v_m)~sure), 1) ? power : pop_v_pow(x, y);
}
#endif
