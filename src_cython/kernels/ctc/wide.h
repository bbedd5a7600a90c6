/* Probabilities of whole paths, far below what a float holds: m 2^e in each lane, 1 <= m < 2, e a whole number.
 *
 * A sum aligns its terms to the greatest exponent, a product adds exponents: both round once in the last place of m, where
 * sums of logarithms would round in the last place of a large logarithm, and take several exponentials each. Nothing is
 * POP_NOTHING as an exponent, which whatever falls below half of it becomes again. */
#ifndef POP_CTC_WIDE_H
#define POP_CTC_WIDE_H
#include "simd/math.h"

#define POP_NOTHING (-(1 << 28))
#define POP_LEAST_LOG (-0x1p20f) /* logarithms below it are of nothing */
#define POP_MOST_LOG 0x1p7f      /* those from it on are of no probability */

typedef struct pop_wide { pop_v_f m; pop_v_i e; } pop_wide;

POP_INLINE pop_v_i words_at(const int32_t *p) { pop_v_i x; memcpy(&x, p, sizeof x); return x; }
POP_INLINE void put_words(int32_t *p, pop_v_i x) { memcpy(p, &x, sizeof x); }
POP_INLINE pop_wide wide_at(const float *m, const int32_t *e) { return (pop_wide){pop_v_load_f(m), words_at(e)}; }
POP_INLINE void put_wide(float *m, int32_t *e, pop_wide x) { pop_v_store_f(m, x.m), put_words(e, x.e); }

/* The last lane of a, then all of b but its last; all of a but its first, then the first of b. */
#if POP_LANES == 16
#define POP_LATER 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
#define POP_SOONER 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
#elif POP_LANES == 8
#define POP_LATER 7, 8, 9, 10, 11, 12, 13, 14
#define POP_SOONER 1, 2, 3, 4, 5, 6, 7, 8
#else
#define POP_LATER 3, 4, 5, 6
#define POP_SOONER 1, 2, 3, 4
#endif
POP_INLINE pop_wide wide_later(pop_wide a, pop_wide b)
{
    const pop_v_i lanes = {POP_LATER};
    return (pop_wide){__builtin_shuffle(a.m, b.m, lanes), __builtin_shuffle(a.e, b.e, lanes)};
}
POP_INLINE pop_wide wide_sooner(pop_wide a, pop_wide b)
{
    const pop_v_i lanes = {POP_SOONER};
    return (pop_wide){__builtin_shuffle(a.m, b.m, lanes), __builtin_shuffle(a.e, b.e, lanes)};
}

POP_INLINE pop_wide wide_nothing(void) { return (pop_wide){pop_v_splat(1.0f), pop_v_set(POP_NOTHING)}; }

/* 2^d, d at most 127; 0 from -127 down. */
POP_INLINE pop_v_f power_of(pop_v_i d) { return (pop_v_f)((pop_v_maximum(d, pop_v_set(-127)) + 127) << 23); }

/* Sums, m not yet below 2. */
POP_INLINE pop_wide wide_sum(pop_wide a, pop_wide b)
{
    const pop_v_i e = pop_v_maximum(a.e, b.e);
    return (pop_wide){pop_v_fma(b.m, power_of(b.e - e), a.m * power_of(a.e - e)), e};
}

POP_INLINE pop_wide wide_sum3(pop_wide a, pop_wide b, pop_wide c)
{
    const pop_v_i e = pop_v_maximum(pop_v_maximum(a.e, b.e), c.e);
    const pop_v_f sum = pop_v_fma(b.m, power_of(b.e - e), a.m * power_of(a.e - e));
    return (pop_wide){pop_v_fma(c.m, power_of(c.e - e), sum), e};
}

/* a b, m below 2 again. */
POP_INLINE pop_wide wide_product(pop_wide a, pop_wide b)
{
    const pop_v_i bits = (pop_v_i)(a.m * b.m), e = a.e + b.e + ((bits >> 23) - 127);
    const pop_v_m gone = pop_v_gt(pop_v_set(POP_NOTHING / 2), e);
    return (pop_wide){(pop_v_f)((bits & 0x7fffff) | 0x3f800000), pop_v_select(gone, e, pop_v_set(POP_NOTHING))};
}

/* e^x, m from sqrt(1/2) to sqrt(2); of what is no number nothing. */
POP_INLINE pop_wide wide_exp(pop_v_f x)
{
    const pop_v_m is = pop_v_gt_f(x, pop_v_splat(POP_LEAST_LOG));
    const pop_v_f y = pop_v_min_f(pop_v_splat(POP_MOST_LOG), pop_v_select_f(is, pop_v_splat(0.0f), x));
    const pop_v_f shifted = pop_v_fma(y, pop_v_splat(0x1.715476p0f), pop_v_splat(POP_ROUNDER)), n = shifted - POP_ROUNDER;
    const pop_v_f r = pop_v_fma(-n, POP_LN2_LOW, pop_v_fma(-n, POP_LN2_HIGH, y));
    const pop_v_i e = (pop_v_i)shifted - (pop_v_i)pop_v_splat(POP_ROUNDER);
    const pop_v_f m = pop_v_fma(pop_v_fma(pop_v_exp_curve(r), r, pop_v_splat(1.0f)), r, pop_v_splat(1.0f));
    return (pop_wide){m, pop_v_select(is, pop_v_set(POP_NOTHING), e)};
}

POP_INLINE double log2_of(double x)
{
    pop_h_f e, f;
    pop_h_log_parts(pop_h_splat(x), &e, &f);
    return pop_h_fma(pop_h_log_fraction(f), pop_h_splat(0x1.71547652b82fep0), e)[0];
}
#endif
