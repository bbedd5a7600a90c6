/* Remainders and whole quotients of FP32 numbers, by way of float64, half a vector at a time.
 *
 * With n the whole number nearest to x / y, rounded, r = x - n y is exact where |x / y| < 2^51: it is a multiple of the lesser
 * unit in the last place of x and y, and at most half of y and a rounding. Farther quotients have fmod's remainder. */
#ifndef POP_ELEMENTWISE_QUOTIENT_H
#define POP_ELEMENTWISE_QUOTIENT_H
#include "simd/math.h"

typedef struct pop_h_quotient { pop_h_f whole, rest; } pop_h_quotient; /* x = whole * y + rest */

static __attribute__((noinline)) double pop_far_rest(double x, double y) { return fmod(x, y); }

POP_INLINE pop_h_quotient pop_h_divided(pop_h_f x, pop_h_f y)
{
    const pop_h_f q = x / y, zero = pop_h_splat(0.0);
    pop_h_quotient d;
    d.whole = (q + POP_ROUNDER_D) - POP_ROUNDER_D;
    d.rest = pop_h_select(pop_h_eq((pop_h_i)(d.whole + 0.0), (pop_h_i)zero), pop_h_fma(-d.whole, y, x), x);
    const pop_h_m near = pop_h_lt(pop_h_max(q, -q), pop_h_splat(0x1p51));
    if (__builtin_expect(pop_h_any((pop_h_m)~near), 0)) {
        d.whole = pop_h_select(near, q, d.whole);
        for (int l = 0; l < POP_LANES / 2; l++)
            if (!(q[l] < 0x1p51 && q[l] > -0x1p51)) d.rest[l] = pop_far_rest(x[l], y[l]);
    }
    return d;
}

/* The rest, y more where it has not the sign that it should. */
POP_INLINE pop_h_f pop_h_rest(pop_h_f x, pop_h_f y, pop_h_f sign)
{
    const pop_h_f rest = pop_h_divided(x, y).rest, zero = pop_h_splat(0.0);
    const pop_h_f size = pop_h_max(y, -y);
    const pop_h_m below = pop_h_lt(rest, zero), wanted = pop_h_lt(sign, zero);
    const pop_h_f raised = pop_h_select(below, rest, rest + size);
    const pop_h_f lowered = pop_h_select(pop_h_lt(zero, rest), rest, rest - size);
    return pop_h_select(wanted, raised, lowered);
}

POP_INLINE pop_h_f pop_h_floor_quotient(pop_h_f x, pop_h_f y)
{
    const pop_h_quotient d = pop_h_divided(x, y);
    const pop_h_f zero = pop_h_splat(0.0), signed_rest = pop_h_select(pop_h_lt(y, zero), d.rest, -d.rest);
    return pop_h_select(pop_h_lt(signed_rest, zero), d.whole, d.whole - 1.0);
}

/* C's fmod: a less b times their quotient truncated; it has the sign of a. */
POP_INLINE pop_v_f pop_v_rem(pop_v_f a, pop_v_f b)
{
    const pop_h_f x = pop_h_widen(a, 0), z = pop_h_widen(a, 1);
    const pop_v_f rest = pop_h_narrow(pop_h_rest(x, pop_h_widen(b, 0), x), pop_h_rest(z, pop_h_widen(b, 1), z));
    return pop_v_signed(pop_v_abs(rest), a);
}

/* NumPy's remainder: a less b times the floor of their quotient, rounded once; it has the sign of b. */
POP_INLINE pop_v_f pop_v_remainder(pop_v_f a, pop_v_f b)
{
    const pop_h_f y = pop_h_widen(b, 0), w = pop_h_widen(b, 1);
    const pop_v_f rest = pop_h_narrow(pop_h_rest(pop_h_widen(a, 0), y, y), pop_h_rest(pop_h_widen(a, 1), w, w));
    return pop_v_signed(pop_v_abs(rest), b);
}

POP_INLINE pop_v_f pop_v_floor_divide(pop_v_f a, pop_v_f b)
{
    const pop_v_f whole = pop_h_narrow(pop_h_floor_quotient(pop_h_widen(a, 0), pop_h_widen(b, 0)),
                                       pop_h_floor_quotient(pop_h_widen(a, 1), pop_h_widen(b, 1)));
    const pop_v_i sign = pop_v_sign(a) ^ pop_v_sign(b);
    const pop_v_f signed_zero = pop_v_select_f(pop_v_eq_f(whole, pop_v_splat(0.0f)), whole, pop_v_float(sign));
    const pop_v_m endless = pop_v_eq_f(pop_v_abs(a), pop_v_splat(INFINITY)) & (pop_v_m)~pop_v_eq_f(b, pop_v_splat(0.0f));
    return pop_v_select_f(endless, signed_zero, pop_v_splat(NAN));
}
#endif
