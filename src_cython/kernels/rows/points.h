/* Losses of elements, added along a row, and their derivatives. */
#ifndef POP_ROWS_POINTS_H
#define POP_ROWS_POINTS_H
#include "kernels/rows/sums.h"

typedef struct pop_point {
    pop_v_f loss, grad;
} pop_point;

/* Of x, what it should be, and the weight of what should be one. */
typedef pop_point (*pop_point_of)(const pop_rows *s, pop_v_f x, pop_v_f e, pop_v_f positive);

POP_INLINE pop_point pop_point_squared(const pop_rows *s, pop_v_f x, pop_v_f e, pop_v_f positive)
{
    (void)s, (void)positive;
    const pop_v_f d = x - e;
    return (pop_point){d * d, d + d};
}

POP_INLINE pop_point pop_point_huber(const pop_rows *s, pop_v_f x, pop_v_f e, pop_v_f positive)
{
    (void)positive;
    const float top = (float)s->epsilon;
    const pop_v_f d = x - e, size = pop_v_abs(d), least = pop_v_min_f(pop_v_splat(top), size);
    return (pop_point){least * (size - 0.5f * least), pop_v_clamp(d, -top, top)};
}

/* Logarithms end at -100, what is divided by at 1e-12. */
POP_INLINE pop_point pop_point_binary(const pop_rows *s, pop_v_f x, pop_v_f e, pop_v_f positive)
{
    (void)s, (void)positive;
    const pop_v_f least = pop_v_splat(-100.0f), rest = 1.0f - x;
    const pop_v_f own = pop_v_max_f(least, pop_v_log(x)), other = pop_v_max_f(least, pop_v_log1p(-x));
    return (pop_point){-(e * own + (1.0f - e) * other), (x - e) / pop_v_max_f(x * rest, pop_v_splat(1e-12f))};
}

/* With t = e^-|x|: the sigmoid of |x| is 1 / (1 + t), that of -|x| t / (1 + t), their logarithms are -log(1 + t) and that less |x|. */
POP_INLINE pop_point pop_point_logits(const pop_rows *s, pop_v_f x, pop_v_f e, pop_v_f positive)
{
    (void)s;
    const pop_v_f zero = pop_v_splat(0.0f), t = pop_v_exp(-pop_v_abs(x)), log = pop_v_log1p(t);
    const pop_v_f most = 1.0f / (1.0f + t), least = t * most;
    const pop_v_m above = pop_v_gt_f(x, zero);
    const pop_v_f own = positive * e, other = 1.0f - e;
    return (pop_point){own * (pop_v_max_f(-x, zero) + log) + other * (pop_v_max_f(x, zero) + log),
                       other * pop_v_select_f(above, least, most) - own * pop_v_select_f(above, most, least)};
}

/* x is a logarithm. */
POP_INLINE pop_point pop_point_divergence(const pop_rows *s, pop_v_f x, pop_v_f e, pop_v_f positive)
{
    (void)s, (void)positive;
    const pop_v_f zero = pop_v_splat(0.0f);
    return (pop_point){pop_v_select_f(pop_v_eq_f(e, zero), e * (pop_v_log(e) - x), zero), -e};
}

/* x, what it should be, weights or -, mask or -, weights of what should be one or -, deltas, loss. `scale` multiplies deltas,
 * `factor` the loss, `epsilon` is where Huber's loss becomes straight. */
POP_INLINE void pop_row_points(pop_row *row, pop_point_of of)
{
    const pop_rows *s = row->spec;
    const float *x = (const float *)row->at[0], *e = (const float *)row->at[1], *weights = (const float *)row->at[2];
    const float *mask = (const float *)row->at[3], *positive = (const float *)row->at[4];
    float *deltas = (float *)row->at[5];
    const pop_v_f by = pop_v_splat((float)s->scale), zero = pop_v_splat(0.0f);
    double sum = 0.0;
    for (int64_t begin = 0; begin < s->n; begin += POP_STRETCH) {
        const int64_t end = s->n - begin < POP_STRETCH ? s->n : begin + POP_STRETCH;
        pop_lanes lanes = pop_lanes_of(0.0f);
        int k = 0;
        for (int64_t i = begin; i < end; i += POP_LANES, k = (k + 1) % POP_ROW_VECTORS) {
            const int part = end - i < POP_LANES ? (int)(end - i) : POP_LANES;
            pop_point p = of(s, pop_row_load(x, i, part), pop_row_load(e, i, part),
                             positive ? pop_row_load(positive, i, part) : pop_v_splat(1.0f));
            if (weights) {
                const pop_v_f w = pop_row_load(weights, i, part);
                p = (pop_point){w * p.loss, w * p.grad};
            }
            if (mask) {
                const pop_v_m in = pop_v_eq_f(pop_row_load(mask, i, part), zero);
                p = (pop_point){pop_v_select_f(in, zero, p.loss), pop_v_select_f(in, zero, p.grad)};
            }
            pop_row_store(deltas, i, by * p.grad, part);
            lanes.v[k] += pop_row_else(p.loss, 0.0f, part);
        }
        sum += (double)pop_lanes_sum(&lanes);
    }
    *(float *)row->at[6] = (float)(sum * s->factor);
}
#define POP_ROWS_POINTS(X, ...) \
    X(squared, __VA_ARGS__) X(huber, __VA_ARGS__) X(binary, __VA_ARGS__) X(logits, __VA_ARGS__) X(divergence, __VA_ARGS__)
#define POP_ROW_POINTS(name, ...) \
    POP_INLINE void pop_row_##name(pop_row *row, const pop_format *f) { (void)f, pop_row_points(row, pop_point_##name); }
POP_ROWS_POINTS(POP_ROW_POINTS, )
#endif
