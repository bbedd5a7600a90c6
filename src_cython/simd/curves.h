/* Functions that are curves of many intervals: tanh, erf, sigmoid, silu, gelu_erf, gelu_tanh, with the contract of math.h.
 *
 * Each is written for `many` vectors, in place, whose steps go side by side, and taken by one too: where registers hold few numbers,
 * four vectors look their coefficients up together. The bits are the same. */
#ifndef POP_SIMD_CURVES_H
#define POP_SIMD_CURVES_H
#include "simd/math.h"

/* A function in 16 intervals, which stand by (bits of slope t + start) >> shift modulo 16. Rows: the intervals' centres, the
 * function there, and the coefficients of the rest in t less the centre, from the first order up. */
#define POP_CURVE_TERMS 6
typedef struct pop_curve {
    float slope, start, top; /* of t at most */
    int shift;
    float at[2 + POP_CURVE_TERMS][16];
} pop_curve;

/* In 32 intervals, of which the last 16, where the line is 8 and more, have another function. */
typedef struct pop_wide_curve {
    float slope, start, top;
    int shift;
    float at[2 + POP_CURVE_TERMS][32];
} pop_wide_curve;
#include "simd/curve_tables.h"

/* The bytes of a curve's rows, and how many vectors the functions of curves take at once: four where that looks numbers up sooner. */
#ifdef POP_HAS_LOOKUP_FOUR
#define POP_PLANES(curve) POP_PLANES_##curve
#define POP_CURVES_AT_ONCE 4
#else
#define POP_PLANES(curve) NULL
#define POP_CURVES_AT_ONCE 1
#endif

/* A curve at t: value + d slope; the interval by `line`, from 1 on. */
typedef struct pop_v_points { pop_v_f line[POP_AT_ONCE], value[POP_AT_ONCE], d[POP_AT_ONCE], slope[POP_AT_ONCE]; } pop_v_points;

/* Rows of a curve: numbers of `intervals`, and their bytes where four vectors look them up at once. */
typedef struct pop_curve_rows {
    const float *at;
    const pop_planes *planes;
    int shift, intervals;
} pop_curve_rows;

/* Of points in these intervals, of the first 16 or, `wide`, of 32. */
POP_INLINE void pop_v_curve_row(const pop_curve_rows *c, int row, const pop_v_u *interval, const int wide, pop_v_f *y, const int many)
{
#ifdef POP_HAS_LOOKUP_FOUR
    if (many == 4) {
        pop_v_lookup_four(c->planes + row * c->intervals / 16, interval, wide, y);
        return;
    }
#endif
    const float *at = c->at + row * c->intervals;
    POP_EACH_AT_ONCE(many) y[k] = wide ? pop_v_lookup(at, interval[k]) : pop_v_lookup16(at, interval[k]);
}

/* Of p, what is beside `line`. */
POP_INLINE void pop_v_curve_on(const pop_curve_rows *c, const int wide, const pop_v_f *t, pop_v_points *p, const int many)
{
    pop_v_u i[POP_AT_ONCE];
    pop_v_f y[POP_AT_ONCE];
    POP_EACH_AT_ONCE(many) i[k] = (pop_v_u)p->line[k] >> c->shift;
    pop_v_curve_row(c, 0, i, wide, y, many);
    POP_EACH_AT_ONCE(many) p->d[k] = t[k] - y[k];
    pop_v_curve_row(c, POP_CURVE_TERMS + 1, i, wide, p->slope, many);
#pragma GCC unroll 16
    for (int row = POP_CURVE_TERMS; row > 1; row--) {
        pop_v_curve_row(c, row, i, wide, y, many);
        POP_EACH_AT_ONCE(many) p->slope[k] = pop_v_fma(p->slope[k], p->d[k], y[k]);
    }
    pop_v_curve_row(c, 1, i, wide, p->value, many);
}
POP_INLINE void pop_v_curve(const pop_curve *c, const pop_planes *planes, const pop_v_f *t, pop_v_points *p, const int many)
{
    const pop_curve_rows rows = {c->at[0], planes, c->shift, 16};
    POP_EACH_AT_ONCE(many) p->line[k] = pop_v_fma(t[k], pop_v_splat(c->slope), pop_v_splat(c->start));
    pop_v_curve_on(&rows, 0, t, p, many);
}
/* value + d slope */
POP_INLINE void pop_v_at_points(const pop_v_points *p, pop_v_f *y, const int many)
{
    POP_EACH_AT_ONCE(many) y[k] = pop_v_fma(p->slope[k], p->d[k], p->value[k]);
}
POP_INLINE int pop_v_any_of(const pop_v_m *m, const int many)
{
    pop_v_m any = m[0];
    for (int k = 1; k < many; k++) any = (pop_v_m)(any | m[k]);
    return pop_v_any(any);
}

/* The functions of curves, in place of so many vectors' numbers, and of one. */
#define POP_OF_ONE(name)                                                                                              \
    POP_MATH pop_v_f pop_v_##name(pop_v_f x)                                                                          \
    {                                                                                                                 \
        pop_v_##name##s(&x, 1);                                                                                       \
        return x;                                                                                                     \
    }

/* An odd function: in the first interval what is added to t, beyond it the whole. */
POP_INLINE void pop_v_odd_curve(const pop_curve *c, const pop_planes *planes, pop_v_f *x, const int many)
{
    pop_v_points p;
    pop_v_f t[POP_AT_ONCE];
    POP_EACH_AT_ONCE(many) t[k] = pop_v_min_f(pop_v_splat(c->top), pop_v_abs(x[k]));
    pop_v_curve(c, planes, t, &p, many);
    POP_EACH_AT_ONCE(many)
    {
        const pop_v_f base = pop_v_select_f(pop_v_gt_f(pop_v_splat(1.25f), p.line[k]), p.value[k], t[k]);
        x[k] = pop_v_signed(pop_v_fma(p.slope[k], p.d[k], base), x[k]);
    }
}
POP_INLINE void pop_v_tanhs(pop_v_f *x, const int many) { pop_v_odd_curve(&POP_CURVE_TANH, POP_PLANES(TANH), x, many); }
POP_INLINE void pop_v_erfs(pop_v_f *x, const int many) { pop_v_odd_curve(&POP_CURVE_ERF, POP_PLANES(ERF), x, many); }
POP_OF_ONE(tanh)
POP_OF_ONE(erf)

/* t = |x|: the smaller side is a curve as far as numbers usually go, then e^-t / (1 + e^-t); the greater is 1 less that. */
static __attribute__((noinline)) pop_v_f pop_v_sigmoid_rest(pop_v_f t)
{
    const pop_v_f z = pop_v_max_f(pop_v_splat(-105.0f), -t);
    return pop_v_exp_times(z, pop_v_splat(0.0f), pop_v_splat(1.0f), -pop_v_exp(z));
}
POP_INLINE void pop_v_sigmoids(pop_v_f *x, const int many)
{
    const pop_v_f top = pop_v_splat(POP_CURVE_SIGMOID.top);
    pop_v_points p;
    pop_v_f t[POP_AT_ONCE], y[POP_AT_ONCE];
    pop_v_m far[POP_AT_ONCE];
    POP_EACH_AT_ONCE(many) far[k] = pop_v_gt_f(pop_v_abs(x[k]), top);
    POP_EACH_AT_ONCE(many) t[k] = pop_v_min_f(top, pop_v_abs(x[k]));
    pop_v_curve(&POP_CURVE_SIGMOID, POP_PLANES(SIGMOID), t, &p, many);
    pop_v_at_points(&p, y, many);
    if (__builtin_expect(pop_v_any_of(far, many), 0))
        POP_EACH_AT_ONCE(many) if (pop_v_any(far[k])) y[k] = pop_v_select_f(far[k], y[k], pop_v_sigmoid_rest(pop_v_abs(x[k])));
    POP_EACH_AT_ONCE(many) x[k] = pop_v_select_f(pop_v_gt_f(x[k], pop_v_splat(0.0f)), y[k], 1.0f - y[k]);
}
POP_OF_ONE(sigmoid)

/* x times a share that rises from 0 to 1 about a half at zero: with t = |x|, max(x, 0) less t times the share of -t. That is
 * a curve y as far as numbers usually go; up to `near` on its line the curve is that less t / 2, to be taken from x / 2. */
POP_INLINE pop_v_f pop_v_gate(pop_v_f x, pop_v_f y, pop_v_f line, float near)
{
    const pop_v_m is_near = pop_v_gt_f(pop_v_splat(near), line);
    return pop_v_signed(pop_v_select_f(is_near, pop_v_max_f(pop_v_splat(0.0f), x), x * 0.5f) - y, x);
}

/* x P(Z < x), Z normal; far away e^(-t^2 / 2) times a curve. */
POP_INLINE void pop_v_gelu_erfs(pop_v_f *x, const int many)
{
    const pop_wide_curve *c = &POP_CURVE_GELU;
    const pop_curve_rows rows = {c->at[0], POP_PLANES(GELU), c->shift, 32};
    pop_v_points p;
    pop_v_f t[POP_AT_ONCE], y[POP_AT_ONCE];
    pop_v_m far[POP_AT_ONCE];
    POP_EACH_AT_ONCE(many) t[k] = pop_v_min_f(pop_v_splat(c->top), pop_v_abs(x[k]));
    POP_EACH_AT_ONCE(many) p.line[k] = pop_v_fma(t[k], pop_v_splat(c->slope), pop_v_splat(c->start));
    POP_EACH_AT_ONCE(many) far[k] = (pop_v_m)~pop_v_lt_f(p.line[k], pop_v_splat(8.0f));
    if (__builtin_expect(!pop_v_any_of(far, many), 1)) {
        pop_v_curve_on(&rows, 0, t, &p, many);
        pop_v_at_points(&p, y, many);
    } else {
        pop_v_curve_on(&rows, 1, t, &p, many);
        POP_EACH_AT_ONCE(many)
        {
            const pop_v_f half = t[k] * -0.5f, z = t[k] * half;
            const pop_v_f away = pop_v_exp_times(z, pop_v_fma(t[k], half, -z), p.value[k], p.d[k] * p.slope[k]);
            y[k] = pop_v_select_f(far[k], pop_v_fma(p.slope[k], p.d[k], p.value[k]), away);
        }
    }
    POP_EACH_AT_ONCE(many) x[k] = pop_v_gate(x[k], y[k], p.line[k], 3.0f);
}
POP_OF_ONE(gelu_erf)

/* t / (1 + e^t), t <= 200; t / (1 + e^2z) with z = sqrt(2 / pi) (t + 0.044715 t^3), t <= 20. */
POP_INLINE pop_h_f pop_h_silu_rest(pop_h_f t) { return t / (1.0 + pop_h_exp(t)); }
POP_MATH pop_h_f pop_h_gelu_rest(pop_h_f t)
{
    return t / (1.0 + pop_h_exp(t * pop_h_fma(t * t, pop_h_splat(0x1.2444f2a4d8b4bp-4), pop_h_splat(0x1.9884533d43651p0))));
}

/* x / (1 + e^-x), and x (1 + tanh z) / 2; `rest` as far as `most`. */
typedef pop_v_f (*pop_v_function)(pop_v_f);
POP_INLINE void pop_v_gated(const pop_curve *c, const pop_planes *planes, float near, pop_v_function rest, pop_v_f *x, const int many)
{
    const pop_v_f top = pop_v_splat(c->top);
    pop_v_points p;
    pop_v_f t[POP_AT_ONCE], y[POP_AT_ONCE];
    pop_v_m far[POP_AT_ONCE];
    POP_EACH_AT_ONCE(many) far[k] = pop_v_gt_f(pop_v_abs(x[k]), top);
    POP_EACH_AT_ONCE(many) t[k] = pop_v_min_f(top, pop_v_abs(x[k]));
    pop_v_curve(c, planes, t, &p, many);
    pop_v_at_points(&p, y, many);
    if (__builtin_expect(pop_v_any_of(far, many), 0))
        POP_EACH_AT_ONCE(many) if (pop_v_any(far[k])) y[k] = pop_v_select_f(far[k], y[k], rest(pop_v_abs(x[k])));
    POP_EACH_AT_ONCE(many) x[k] = pop_v_gate(x[k], y[k], p.line[k], near);
}
#define POP_GATED(name, curve, near, most, rest)                                                                      \
    static __attribute__((noinline)) pop_v_f pop_v_##name##_rest(pop_v_f t)                                                                   \
    {                                                                                                                 \
        const pop_v_f u = pop_v_min_f(pop_v_splat(most), t);                                                          \
        return pop_h_narrow(rest(pop_h_widen(u, 0)), rest(pop_h_widen(u, 1)));                                        \
    }                                                                                                                 \
    POP_INLINE void pop_v_##name##s(pop_v_f *x, const int many)                                                       \
    {                                                                                                                 \
        pop_v_gated(&POP_CURVE_##curve, POP_PLANES(curve), near, pop_v_##name##_rest, x, many);                       \
    }                                                                                                                 \
    POP_OF_ONE(name)
POP_GATED(silu, SILU, 1.0625f, 200.0f, pop_h_silu_rest)
POP_GATED(gelu_tanh, GELU_TANH, 1.125f, 20.0f, pop_h_gelu_rest)

/* A function of curves of `number`, an expression of the place i, for each vector from 0 to n, to `to`: many at once as far as they
 * go, then one by one; the last may go on behind n. */
#define POP_CURVE_ALONG(function, n, to, number)                                                                      \
    int64_t pop_along = 0;                                                                                            \
    for (; pop_along + POP_CURVES_AT_ONCE * POP_LANES <= (n); pop_along += POP_CURVES_AT_ONCE * POP_LANES) {          \
        pop_v_f many[POP_CURVES_AT_ONCE];                                                                             \
        POP_EACH_AT_ONCE(POP_CURVES_AT_ONCE)                                                                          \
        {                                                                                                             \
            const int64_t i = pop_along + k * POP_LANES;                                                              \
            many[k] = number;                                                                                         \
        }                                                                                                             \
        function(many, POP_CURVES_AT_ONCE);                                                                           \
        POP_EACH_AT_ONCE(POP_CURVES_AT_ONCE) pop_v_store_f((to) + pop_along + k * POP_LANES, many[k]);                \
    }                                                                                                                 \
    for (int64_t i = pop_along; i < (n); i += POP_LANES) {                                                            \
        pop_v_f one = number;                                                                                         \
        function(&one, 1);                                                                                            \
        pop_v_store_f((to) + i, one);                                                                                 \
    }
#endif
