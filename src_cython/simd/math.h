/* The elementary functions of FP32, each written once over the vocabulary of simd.h: the same bits at every level.
 *
 * Contract: within 1 ulp of the exact value for every one of the 2^32 arguments, subnormal ones and results included;
 * infinities, NaN and the sign of zero as C99's annex F has them (silu and both gelu give -0 at minus infinity, their
 * limit). docs/reference/math.md has the measured worst case of each. Polynomials are fitted by make_coefficients.py.
 *
 * exp, exp2, log, log2, log1p, those of curves.h, and sin and cos of arguments that are not
 * far, are FP32 throughout: reductions are exact or leave an error that the last addition dwarfs. The others work in
 * float64 on half a vector at a time, where no step needs a correction, and round once. */
#ifndef POP_SIMD_MATH_H
#define POP_SIMD_MATH_H
#include "simd/coefficients.h"
#include "simd/simd.h"

/* Functions are part of what calls them, but at the portable level, where a call is little beside those of fmaf that a vector
 * takes, and copies of them would be most of what there is to compile. */
#if POP_ONE_BODY
#define POP_MATH static __attribute__((noinline))
#else
#define POP_MATH POP_INLINE
#endif

#define POP_LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))

/* Adding 1.5 * 2^23 (2^52) rounds to whole numbers, which stand in the sum's low bits. */
#define POP_ROUNDER 0x1.8p23f
#define POP_ROUNDER_D 0x1.8p52

POP_INLINE pop_v_f pop_v_horner(const float *c, int n, pop_v_f x)
{
    pop_v_f y = pop_v_splat(c[n - 1]);
#pragma GCC unroll 16
    for (int i = n - 2; i >= 0; i--) y = pop_v_fma(y, x, pop_v_splat(c[i]));
    return y;
}

POP_INLINE pop_h_f pop_h_horner(const double *c, int n, pop_h_f x)
{
    pop_h_f y = pop_h_splat(c[n - 1]);
#pragma GCC unroll 16
    for (int i = n - 2; i >= 0; i--) y = pop_h_fma(y, x, pop_h_splat(c[i]));
    return y;
}

POP_INLINE pop_v_f pop_v_clamp(pop_v_f x, float low, float high) /* NaN stays */
{
    return pop_v_min_f(pop_v_splat(high), pop_v_max_f(pop_v_splat(low), x));
}

POP_INLINE pop_h_f pop_h_abs(pop_h_f x) { return (pop_h_f)((pop_h_i)x & INT64_MAX); }
/* x's magnitude with s's sign, given x >= 0 */
POP_INLINE pop_h_f pop_h_signed(pop_h_f x, pop_h_f s) { return (pop_h_f)((pop_h_i)x | ((pop_h_i)s & INT64_MIN)); }

POP_INLINE pop_h_f pop_h_clamp(pop_h_f x, double low, double high)
{
    return pop_h_min(pop_h_splat(high), pop_h_max(pop_h_splat(low), x));
}

/* ln 2 in two parts, the first with so few bits that x less n times it is exact. */
#define POP_LN2_HIGH pop_v_splat(0x1.62e430p-1f)
#define POP_LN2_LOW pop_v_splat(-0x1.05c610p-29f)
#define POP_LN2_D 0x1.62e42fefa39efp-1

/* y 2^n, y from 1/2 to 2; normal: where both are normal numbers, in less. */
POP_INLINE pop_v_f pop_v_scaled(pop_v_f y, pop_v_f n, const int normal)
{
    return normal ? pop_v_scale_normal(y, n) : pop_v_scale_from(y, n, -150.0f); /* 2 x 2^-151 rounds to 0 */
}

/* x = n ln 2 + r with |r| <= ln 2 / 2: n; and q of e^x = 2^n (1 + r + r^2 q(r)). */
POP_INLINE pop_v_f pop_v_exp_whole(pop_v_f x) { return pop_v_fma(x, pop_v_splat(0x1.715476p0f), pop_v_splat(POP_ROUNDER)) - POP_ROUNDER; }
POP_INLINE pop_v_f pop_v_exp_curve(pop_v_f r) { return pop_v_horner(POP_FIT_EXP, POP_LENGTH(POP_FIT_EXP), r); }

/* 2^n e^r of so many vectors, n from -152 to 130, to y; normal: where they are normal numbers. Each step of all is done before the
 * next, which waits for its last. */
#define POP_AT_ONCE 4
#define POP_EACH_AT_ONCE(many) _Pragma("GCC unroll 4") for (int k = 0; k < (many); k++)
POP_INLINE void pop_v_exps(const pop_v_f *r, const pop_v_f *n, pop_v_f *y, const int many, const int normal)
{
    POP_EACH_AT_ONCE(many) y[k] = pop_v_splat(POP_FIT_EXP[POP_LENGTH(POP_FIT_EXP) - 1]);
    _Pragma("GCC unroll 16") for (int c = POP_LENGTH(POP_FIT_EXP) - 2; c >= 0; c--)
        POP_EACH_AT_ONCE(many) y[k] = pop_v_fma(y[k], r[k], pop_v_splat(POP_FIT_EXP[c]));
    _Pragma("GCC unroll 2") for (int one = 0; one < 2; one++)
        POP_EACH_AT_ONCE(many) y[k] = pop_v_fma(y[k], r[k], pop_v_splat(1.0f));
    POP_EACH_AT_ONCE(many) y[k] = pop_v_scaled(y[k], n[k], normal);
}

POP_MATH pop_v_f pop_v_exp(pop_v_f x)
{
    x = pop_v_clamp(x, -105.0f, 90.0f);
    const pop_v_f n = pop_v_exp_whole(x), r = pop_v_fma(-n, POP_LN2_LOW, pop_v_fma(-n, POP_LN2_HIGH, x));
    pop_v_f y;
    pop_v_exps(&r, &n, &y, 1, 0);
    return y;
}

/* x = n + r, |r| <= 1/2, exactly: 2^x = 2^n 2^r, for x from -152 to 130; normal: of normal numbers' logarithms. */
POP_INLINE pop_v_f pop_v_exp2_within(pop_v_f x, const int normal)
{
    const pop_v_f n = (x + POP_ROUNDER) - POP_ROUNDER, r = x - n;
    const pop_v_f y = pop_v_fma(pop_v_horner(POP_FIT_EXP2, POP_LENGTH(POP_FIT_EXP2), r), r, pop_v_splat(1.0f));
    return pop_v_scaled(y, n, normal);
}
POP_MATH pop_v_f pop_v_exp2(pop_v_f x) { return pop_v_exp2_within(pop_v_clamp(x, -152.0f, 130.0f), 0); }

/* y, but minus infinity at `pole`, NaN below it, and x where that is infinite or NaN */
POP_INLINE pop_v_f pop_v_log_edges(pop_v_f x, pop_v_f y, float pole)
{
    const pop_v_m inside = pop_v_gt_f(x, pop_v_splat(pole)) & pop_v_lt_f(x, pop_v_splat(INFINITY));
    if (__builtin_expect(!pop_v_any((pop_v_m)~inside), 1)) return y;
    y = pop_v_select_f(pop_v_gt_f(x, pop_v_splat(pole)), pop_v_splat(NAN), y);
    y = pop_v_select_f(pop_v_eq_f(x, pop_v_splat(pole)), y, pop_v_splat(-INFINITY));
    return pop_v_select_f(pop_v_lt_f(x, pop_v_splat(INFINITY)), x + x, y);
}

/* x = 2^e m with sqrt(1/2) <= m < sqrt(2), f = m - 1: (e + shift) ln 2 + (f + f^2 q(f)). The first part of ln 2 has 15
 * trailing zeros, so that its product is exact. */
POP_MATH pop_v_f pop_v_log_normal(pop_v_f x, float shift)
{
    const pop_v_i e = ((pop_v_i)x - 0x3f3504f3) >> 23;
    const pop_v_f whole = pop_v_to_float(e) + shift, f = (pop_v_f)((pop_v_i)x - (e << 23)) - 1.0f;
    const pop_v_f curve = pop_v_horner(POP_FIT_LOG, POP_LENGTH(POP_FIT_LOG), f) * (f * f);
    const pop_v_f low = pop_v_fma(whole, pop_v_splat(-0x1.bd0106p-13f), curve) + f;
    return pop_v_fma(whole, pop_v_splat(0x1.63p-1f), low);
}

POP_MATH pop_v_f pop_v_log(pop_v_f x)
{
    const pop_v_f y = pop_v_log_normal(x, 0.0f);
    const pop_v_m tiny = pop_v_lt_f(x, pop_v_splat(0x1p-126f));
    return pop_v_log_edges(x, pop_v_any(tiny) ? pop_v_select_f(tiny, y, pop_v_log_normal(x * 0x1p23f, -23.0f)) : y, 0.0f);
}

/* As pop_v_log, but e needs no factor. */
POP_INLINE pop_v_f pop_v_log2_normal(pop_v_f x, float shift)
{
    const pop_v_i e = ((pop_v_i)x - 0x3f3504f3) >> 23;
    const pop_v_f whole = pop_v_to_float(e) + shift, f = (pop_v_f)((pop_v_i)x - (e << 23)) - 1.0f;
    return whole + pop_v_fma(pop_v_horner(POP_FIT_LOG2, POP_LENGTH(POP_FIT_LOG2), f), f, f);
}

POP_MATH pop_v_f pop_v_log2(pop_v_f x)
{
    const pop_v_f y = pop_v_log2_normal(x, 0.0f);
    const pop_v_m tiny = pop_v_lt_f(x, pop_v_splat(0x1p-126f));
    return pop_v_log_edges(x, pop_v_any(tiny) ? pop_v_select_f(tiny, y, pop_v_log2_normal(x * 0x1p23f, -23.0f)) : y, 0.0f);
}

/* As pop_v_log of u = 1 + x; what the rounding of u takes away is given back in f, and what that of f takes in the curve. */
POP_MATH pop_v_f pop_v_log1p(pop_v_f x)
{
    const pop_v_f one = pop_v_splat(1.0f), big = pop_v_max_f(one, x), u = x + one, lost = pop_v_min_f(one, x) - (u - big);
    const pop_v_i e = ((pop_v_i)u - 0x3f3504f3) >> 23;
    const pop_v_f rest = lost * (pop_v_f)pop_v_maximum((127 - e) << 23, pop_v_set(0));
    const pop_v_f rough = (pop_v_f)((pop_v_i)u - (e << 23)) - 1.0f, f = rough + rest, g = rest - (f - rough);
    const pop_v_f curve = pop_v_fma(pop_v_horner(POP_FIT_LOG, POP_LENGTH(POP_FIT_LOG), f), f * f, pop_v_fma(-f, g, g));
    const pop_v_f whole = pop_v_to_float(e), low = pop_v_fma(whole, pop_v_splat(-0x1.bd0106p-13f), curve) + f;
    return pop_v_signed(pop_v_log_edges(x, pop_v_fma(whole, pop_v_splat(0x1.63p-1f), low), -1.0f), x);
}

/* e^(x + more) (value + rest), more and rest small: with x + more = n ln 2 + r, 2^n (1 + r + w) (value + rest). */
POP_INLINE pop_v_f pop_v_exp_times(pop_v_f x, pop_v_f more, pop_v_f value, pop_v_f rest)
{
    const pop_v_f n = pop_v_exp_whole(x), rough = pop_v_fma(-n, POP_LN2_HIGH, x), low = pop_v_fma(-n, POP_LN2_LOW, more);
    const pop_v_f r = rough + low, w = pop_v_fma(pop_v_exp_curve(r) * r, r, low - (r - rough));
    const pop_v_f small = pop_v_fma(value + rest, w, pop_v_fma(rest, r, rest));
    return pop_v_scale(value + pop_v_fma(value, r, small), n);
}

/* y, but NaN where a or b is */
POP_INLINE pop_v_f pop_v_nan_of(pop_v_f a, pop_v_f b, pop_v_f y)
{
    return pop_v_select_f((pop_v_m)(pop_v_eq_f(a, a) & pop_v_eq_f(b, b)), pop_v_splat(NAN), y);
}

/* Of a magnitude: neither zero nor infinite nor NaN */
POP_INLINE pop_v_m pop_v_is_usual(pop_v_f size)
{
    return (pop_v_m)(pop_v_gt_f(size, pop_v_splat(0.0f)) & pop_v_lt_f(size, pop_v_splat(INFINITY)));
}

POP_INLINE pop_v_f pop_v_reciprocal(pop_v_f x) { return 1.0f / x; }

/* Two rounded steps, then Newton's in float64, which x = 0 and infinity would spoil. */
POP_INLINE pop_h_f pop_h_rsqrt_step(pop_h_f x, pop_h_f y) { return pop_h_fma(y * 0.5, pop_h_fma(-(x * y), y, pop_h_splat(1.0)), y); }
POP_MATH pop_v_f pop_v_rsqrt(pop_v_f x)
{
    const pop_v_f y = 1.0f / pop_v_sqrt(x);
    const pop_v_f better = pop_h_narrow(pop_h_rsqrt_step(pop_h_widen(x, 0), pop_h_widen(y, 0)),
                                        pop_h_rsqrt_step(pop_h_widen(x, 1), pop_h_widen(y, 1)));
    return pop_v_select_f(pop_v_gt_f(pop_v_splat(INFINITY), pop_v_abs(better)), y, better);
}

/* e^x - 1 = 2^n p + (2^n - 1), |x| at most 500: p, and 2^n. */
POP_INLINE pop_h_f pop_h_exp_parts(pop_h_f x, pop_h_f *power)
{
    const pop_h_f shifted = pop_h_fma(x, pop_h_splat(0x1.71547652b82fep0), pop_h_splat(POP_ROUNDER_D));
    const pop_h_f r = pop_h_fma(shifted - POP_ROUNDER_D, pop_h_splat(-POP_LN2_D), x);
    *power = (pop_h_f)(((pop_h_i)shifted + 1023) << 52);
    return r * pop_h_fma(pop_h_horner(POP_FIT_EXPM1, POP_LENGTH(POP_FIT_EXPM1), r), r, pop_h_splat(1.0));
}

POP_MATH pop_h_f pop_h_exp(pop_h_f x)
{
    pop_h_f power, p = pop_h_exp_parts(x, &power);
    return pop_h_fma(power, p, power);
}

POP_MATH pop_h_f pop_h_expm1(pop_h_f x)
{
    pop_h_f power, p = pop_h_exp_parts(pop_h_clamp(x, -60.0, 90.0), &power);
    return pop_h_fma(power, p, power - 1.0);
}

/* log(2^e (1 + f)) from the bits of 2^e (1 + f), with sqrt(1/2) <= 1 + f < sqrt(2); e by itself. */
POP_INLINE void pop_h_log_parts(pop_h_f u, pop_h_f *e, pop_h_f *f)
{
    typedef uint64_t words __attribute__((vector_size(POP_VECTOR_BYTES)));
    const words k = ((words)u + ((1024ull << 52) - 0x3fe6a09e667f3bcdull)) >> 52; /* e + 1024 */
    *e = (pop_h_f)(k | 0x4330000000000000ull) - (0x1p52 + 1024);
    *f = (pop_h_f)((words)u - ((k - 1024) << 52)) - 1.0;
}

POP_INLINE pop_h_f pop_h_log_fraction(pop_h_f f) { return f * pop_h_fma(pop_h_horner(POP_FIT_LOG1P, POP_LENGTH(POP_FIT_LOG1P), f), f, pop_h_splat(1.0)); }

/* 2/pi in binary, 32 bits a word, after one word of zeros. */
static const uint32_t POP_TWO_OVER_PI[] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};

/* x = (4 m + k) pi/2 + r, |r| <= pi/4, for x from 2^28 on: of 2/pi the 96 bits that matter, times x's significand. */
static __attribute__((noinline)) double pop_reduce_far(double x, int64_t *k)
{
    float magnitude = (float)(x < 0 ? -x : x);
    uint32_t bits;
    memcpy(&bits, &magnitude, 4);
    if (bits >= 0x7f800000) return NAN;
    const int skip = (int)(bits >> 23) - 150 + 30; /* the first bit that matters weighs 2 */
    unsigned __int128 window = 0;
    for (int i = 0; i < 4; i++) window = window << 32 | POP_TWO_OVER_PI[skip / 32 + i];
    window = (window << skip % 32) >> 32;
    const unsigned __int128 product = window * ((bits & 0x7fffff) | 0x800000) << 32; /* modulo 4 */
    const unsigned __int128 nearest = (product + ((unsigned __int128)1 << 125)) >> 126;
    const double part = (double)(__int128)(product - (nearest << 126)) * 0x1p-126 * 0x1.921fb54442d18p0;
    *k = (int64_t)(x < 0 ? -nearest : nearest);
    return x < 0 ? -part : part;
}

/* Of x = k pi/2 + r, |r| <= pi/4: sine and cosine of r, and k. */
typedef struct pop_h_turn { pop_h_f sine, cosine; pop_h_i k; } pop_h_turn;

POP_INLINE pop_h_turn pop_h_turned(pop_h_f x)
{
    const pop_h_f shifted = pop_h_fma(x, pop_h_splat(0x1.45f306dc9c883p-1), pop_h_splat(POP_ROUNDER_D));
    const pop_h_f n = shifted - POP_ROUNDER_D;
    pop_h_f r = pop_h_fma(n, pop_h_splat(-0x1.1a62633145c07p-54), pop_h_fma(n, pop_h_splat(-0x1.921fb54442d18p0), x));
    pop_h_i k = (pop_h_i)shifted;
    if (__builtin_expect(pop_h_any(pop_h_lt(pop_h_splat(0x1p28), pop_h_max(x, -x))), 0))
        for (int l = 0; l < POP_LANES / 2; l++)
            if (x[l] > 0x1p28 || x[l] < -0x1p28) {
                int64_t far = 0;
                r[l] = pop_reduce_far(x[l], &far);
                k[l] = far;
            }
    const pop_h_f square = r * r;
    const pop_h_f sine = r * pop_h_fma(pop_h_horner(POP_FIT_SIN, POP_LENGTH(POP_FIT_SIN), square), square, pop_h_splat(1.0));
    const pop_h_f cosine = pop_h_fma(pop_h_horner(POP_FIT_COS, POP_LENGTH(POP_FIT_COS), square), square, pop_h_splat(1.0));
    return (pop_h_turn){sine, cosine, k};
}
POP_INLINE pop_h_m pop_h_even(pop_h_i k) { return pop_h_eq(k & 1, (pop_h_i){0}); }

/* sin(x + turns pi/2) */
POP_MATH pop_h_f pop_h_sine(pop_h_f x, int turns)
{
    const pop_h_turn t = pop_h_turned(x);
    const pop_h_i k = t.k + turns;
    return (pop_h_f)((pop_h_i)pop_h_select(pop_h_even(k), t.cosine, t.sine) ^ ((k & 2) << 62));
}

POP_INLINE pop_h_f pop_h_sin(pop_h_f x) { return pop_h_sine(x, 0); }
POP_INLINE pop_h_f pop_h_cos(pop_h_f x) { return pop_h_sine(x, 1); }

/* One quarter turn on, -1 / tan. */
POP_MATH pop_h_f pop_h_tan(pop_h_f x)
{
    const pop_h_turn t = pop_h_turned(x);
    const pop_h_m even = pop_h_even(t.k);
    return pop_h_select(even, -t.cosine, t.sine) / pop_h_select(even, t.sine, t.cosine);
}

#define POP_PI 0x1.921fb54442d18p1

/* The angle of (x, y) as the quarters have it: of the smaller side over the greater, from 0 to pi/4, and from there. */
POP_MATH pop_h_f pop_h_atan2(pop_h_f y, pop_h_f x)
{
    const pop_h_f up = pop_h_abs(y), along = pop_h_abs(x), low = pop_h_min(up, along), high = pop_h_max(up, along);
    const pop_h_m same = pop_h_eq((pop_h_i)low, (pop_h_i)high); /* of zeros and infinities too */
    const pop_h_f t = pop_h_select(same, low / high, pop_h_select(pop_h_lt(pop_h_splat(0.0), low), low, pop_h_splat(1.0)));
    const pop_h_f square = t * t;
    pop_h_f a = pop_h_fma(pop_h_horner(POP_FIT_ATAN, POP_LENGTH(POP_FIT_ATAN), square) * square, t, t);
    a = pop_h_select(pop_h_lt(along, up), a, POP_PI / 2 - a);
    a = pop_h_select(pop_h_lt(pop_h_signed(pop_h_splat(1.0), x), pop_h_splat(0.0)), a, POP_PI - a);
    return pop_h_signed(a, y);
}
POP_INLINE pop_h_f pop_h_atan(pop_h_f x) { return pop_h_atan2(x, pop_h_splat(1.0)); }

/* asin t = pi/2 - 2 asin sqrt((1 - t) / 2): of the smaller argument, from 0 to 1/2, and from there. */
typedef struct pop_h_arc { pop_h_f small; pop_h_m far; } pop_h_arc;
POP_INLINE pop_h_arc pop_h_arc_of(pop_h_f t)
{
    pop_h_arc a;
    a.far = pop_h_lt(pop_h_splat(0.5), t);
    const pop_h_f rest = pop_h_fma(t, pop_h_splat(-0.5), pop_h_splat(0.5)), square = pop_h_select(a.far, t * t, rest);
    const pop_h_f side = pop_h_select(a.far, t, pop_h_sqrt(rest));
    a.small = pop_h_fma(pop_h_horner(POP_FIT_ASIN, POP_LENGTH(POP_FIT_ASIN), square) * square, side, side);
    return a;
}

POP_MATH pop_h_f pop_h_asin(pop_h_f x)
{
    const pop_h_arc a = pop_h_arc_of(pop_h_abs(x));
    return pop_h_signed(pop_h_select(a.far, a.small, POP_PI / 2 - 2.0 * a.small), x);
}

POP_MATH pop_h_f pop_h_acos(pop_h_f x)
{
    const pop_h_arc a = pop_h_arc_of(pop_h_abs(x));
    const pop_h_m below = pop_h_lt(x, pop_h_splat(0.0));
    const pop_h_f near = POP_PI / 2 - pop_h_signed(a.small, x), far = a.small + a.small;
    return pop_h_select(a.far, near, pop_h_select(below, far, POP_PI - far));
}

/* x^y, x > 0, but for what pop_v_wide_pow knows */
POP_MATH pop_h_f pop_h_pow(pop_h_f x, pop_h_f y)
{
    pop_h_f e, f;
    pop_h_log_parts(x, &e, &f);
    const pop_h_f curve = pop_h_horner(POP_FIT_LOG1P_FINE, POP_LENGTH(POP_FIT_LOG1P_FINE), f);
    const pop_h_f log = f * pop_h_fma(curve, f, pop_h_splat(1.0));
    return pop_h_exp(pop_h_clamp(y * pop_h_fma(e, pop_h_splat(POP_LN2_D), log), -200.0, 200.0));
}
POP_INLINE pop_h_f pop_h_cbrt(pop_h_f x) { return pop_h_pow(x, pop_h_splat(1.0 / 3)); }

POP_MATH pop_h_f pop_h_sinh(pop_h_f x)
{
    const pop_h_f u = pop_h_expm1(pop_h_abs(x));
    return pop_h_signed((u + u / (u + 1.0)) * 0.5, x);
}
POP_MATH pop_h_f pop_h_cosh(pop_h_f x)
{
    const pop_h_f e = pop_h_exp(pop_h_clamp(x, -100.0, 100.0));
    return (e + 1.0 / e) * 0.5;
}

/* A function of FP32 from one of halves; `sign`: the result takes x's, which it has but for zeros. `usual` is where it holds
 * as it is, and what stands for the rest. */
#define POP_BY_HALVES(name, function, argument, result)                                                      \
    POP_MATH pop_v_f pop_v_##name(pop_v_f x)                                                                 \
    {                                                                                                        \
        const pop_v_f from = (argument);                                                                     \
        const pop_v_f y = pop_h_narrow(function(pop_h_widen(from, 0)), function(pop_h_widen(from, 1)));      \
        return (result);                                                                                     \
    }

POP_BY_HALVES(expm1, pop_h_expm1, x, pop_v_signed(y, x))
POP_BY_HALVES(far_sin, pop_h_sin, x, y)
POP_BY_HALVES(far_cos, pop_h_cos, x, y)
POP_BY_HALVES(tan, pop_h_tan, x, y)
POP_BY_HALVES(asin, pop_h_asin, x, y)
POP_BY_HALVES(acos, pop_h_acos, x, y)
POP_BY_HALVES(atan, pop_h_atan, x, pop_v_nan_of(x, x, y))
POP_BY_HALVES(sinh, pop_h_sinh, x, y)
POP_BY_HALVES(cosh, pop_h_cosh, x, y)
POP_BY_HALVES(cbrt, pop_h_cbrt, pop_v_abs(x), pop_v_signed(pop_v_select_f(pop_v_is_usual(from), pop_v_abs(x), y), x))

/* sin(x + turns pi/2): with x = k pi/2 + r + low, |r| <= pi/4, sine or cosine of that; |x| < 1024, so that k
 * times the second part of pi/2 is exact, and x less k times the first; `low` is what the second difference loses,
 * and `rest` what cos r takes of it and of what the square loses. */
POP_MATH pop_v_f pop_v_sine(pop_v_f x, int turns)
{
    const pop_v_f shifted = pop_v_fma(x, pop_v_splat(0x1.45f306p-1f), pop_v_splat(POP_ROUNDER)), n = POP_ROUNDER - shifted;
    const pop_v_f rough = pop_v_fma(n, pop_v_splat(0x1.921fb6p0f), x), r = pop_v_fma(n, pop_v_splat(-0x1.7778p-25f), rough);
    const pop_v_f lost = pop_v_fma(n, pop_v_splat(-0x1.7778p-25f), rough - r);
    const pop_v_f low = pop_v_fma(n, pop_v_splat(-0x1.2e7b960000000p-40f), lost), square = r * r;
    const pop_v_i k = pop_v_add((pop_v_i)shifted, pop_v_set(turns));
    const pop_v_f s = pop_v_horner(POP_FIT_SINE, POP_LENGTH(POP_FIT_SINE), square);
    const pop_v_f c = pop_v_horner(POP_FIT_COSINE, POP_LENGTH(POP_FIT_COSINE), square);
    const pop_v_f rest = pop_v_fma(pop_v_fma(r, r, -square), pop_v_splat(-0.5f), -low * r);
    const pop_v_f sine = r + pop_v_fma(square * r, s, low), cosine = 1.0f + pop_v_fma(square, c, rest);
    const pop_v_f y = pop_v_select_f(pop_v_eq(k & 1, pop_v_set(0)), cosine, sine);
    return pop_v_float(pop_v_bits(y) ^ pop_v_sll(k & 2, 30));
}

#define POP_TURNING(name, turns, sign)                                                                        \
    POP_MATH pop_v_f pop_v_##name(pop_v_f x)                                                                 \
    {                                                                                                        \
        const pop_v_f size = pop_v_abs(x), y = pop_v_float(pop_v_bits(pop_v_sine(size, turns)) ^ (sign));    \
        const pop_v_m near = pop_v_lt_f(size, pop_v_splat(1024.0f));                                         \
        if (__builtin_expect(!pop_v_any((pop_v_m)~near), 1)) return y;                                       \
        return pop_v_select_f(near, pop_v_far_##name(x), y);                                                 \
    }
POP_TURNING(sin, 0, pop_v_sign(x))
POP_TURNING(cos, 1, pop_v_set(0))

#define POP_PAIR_BY_HALVES(function, x, y)                                                                    \
    pop_h_narrow(function(pop_h_widen(x, 0), pop_h_widen(y, 0)), function(pop_h_widen(x, 1), pop_h_widen(y, 1)))

POP_INLINE pop_v_f pop_v_atan2(pop_v_f y, pop_v_f x) { return pop_v_nan_of(y, x, POP_PAIR_BY_HALVES(pop_h_atan2, y, x)); }

POP_INLINE pop_v_m pop_v_is_whole(pop_v_f size) /* of |y| */
{
    const pop_v_f big = pop_v_splat(0x1p23f);
    return (pop_v_m)(pop_v_gt_f(size, pop_v_splat(0x1.fffffep22f)) | pop_v_eq_f((size + big) - big, size));
}

/* x^y as annex F has it from |x|^y, where x is not positive, or either is zero, infinite or NaN. */
POP_INLINE pop_v_f pop_v_pow_edges(pop_v_f x, pop_v_f y, pop_v_f power)
{
    const pop_v_f size = pop_v_abs(x), wide = pop_v_abs(y), zero = pop_v_splat(0.0f), one = pop_v_splat(1.0f);
    const pop_v_f endless = pop_v_splat(INFINITY);
    const pop_v_m whole = pop_v_is_whole(wide), odd = (pop_v_m)(whole & ~pop_v_is_whole(wide * 0.5f));
    const pop_v_m grows = (pop_v_m)~(pop_v_gt_f(size, one) ^ pop_v_gt_f(y, zero));
    const pop_v_m usual = pop_v_is_usual(size), negative = pop_v_lt_f(pop_v_signed(one, x), zero);
    power = pop_v_select_f(usual, pop_v_select_f(grows, zero, endless), power);
    power = pop_v_select_f((pop_v_m)(negative & odd), power, -power);
    power = pop_v_select_f((pop_v_m)(negative & usual & ~whole), power, pop_v_splat(NAN));
    power = pop_v_nan_of(x, y, power);
    const pop_v_m turning = (pop_v_m)(pop_v_eq_f(size, one) & pop_v_eq_f(wide, endless)); /* of 1 and -1 */
    return pop_v_select_f((pop_v_m)(turning | pop_v_eq_f(y, zero) | pop_v_eq_f(x, one)), power, one);
}

/* x^y of any arguments, in float64; pop_v_pow of power.h is the one to call. */
POP_MATH pop_v_f pop_v_wide_pow(pop_v_f x, pop_v_f y)
{
    const pop_v_f size = pop_v_abs(x), power = POP_PAIR_BY_HALVES(pop_h_pow, size, y);
    const pop_v_m positive = (pop_v_m)(pop_v_gt_f(x, pop_v_splat(0.0f)) & pop_v_lt_f(x, pop_v_splat(INFINITY)));
    const pop_v_m usual = (pop_v_m)(positive & pop_v_lt_f(pop_v_abs(y), pop_v_splat(INFINITY)));
    return __builtin_expect(pop_v_any((pop_v_m)~usual), 0) ? pop_v_pow_edges(x, y, power) : power;
}
#endif
