/* Losses of rows of classes, and their gradients. */
#ifndef POP_ROWS_LOSSES_H
#define POP_ROWS_LOSSES_H
#include "kernels/rows/softmax.h"

#define POP_MASKED_LABEL 0xffffffffll /* -1 in 32 bits */

/* Which of the elements from i on is the label's. */
POP_INLINE pop_v_f pop_row_one_hot(int64_t label, int64_t i)
{
    const pop_v_i places = POP_PLACES;
    const int64_t at = label - i;
    return pop_v_float(pop_v_keep(pop_v_eq(places, pop_v_set(at >= 0 && at < POP_LANES ? (int32_t)at : -1)),
                                  pop_v_bits(pop_v_splat(1.0f))));
}

/* Probabilities, label or -, expected numbers or -, deltas, loss. `scale` multiplies deltas, `factor` is what probabilities
 * are scaled by, `centred` says that it is cross-entropy. */
POP_INLINE void pop_row_loss(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const float *p = (const float *)row->at[0], *expected = (const float *)row->at[2];
    float *deltas = (float *)row->at[3], *loss = (float *)row->at[4];
    const int masked = !expected && s->centred && (row->label == -1 || row->label == POP_MASKED_LABEL);
    const pop_v_f by = pop_v_splat((float)s->scale), times = pop_v_splat((float)s->factor);
    const pop_v_f small = pop_v_splat((float)s->epsilon), log = pop_v_log(times);
    double sum;
    if (s->centred)
        POP_ROW_SUM(sum, s->n, ({
                        const pop_v_f e = expected ? pop_row_load(expected, i, part) : pop_row_one_hot(row->label, i);
                        const pop_v_f term = e * (log - pop_v_log(pop_row_load(p, i, part) + small));
                        pop_row_else(pop_v_select_f(pop_v_eq_f(e, pop_v_splat(0.0f)), term, pop_v_splat(0.0f)), 0.0f, part);
                    }));
    else
        POP_ROW_SUM(sum, s->n, ({
                        const pop_v_f e = expected ? pop_row_load(expected, i, part) : pop_row_one_hot(row->label, i);
                        const pop_v_f d = pop_row_load(p, i, part) - e;
                        pop_row_else(0.5f * d * d, 0.0f, part);
                    }));
    *loss = masked ? 0.0f : (float)sum;
    POP_ROW_EACH(0, s->n,
                 const pop_v_f e = expected ? pop_row_load(expected, i, part) : pop_row_one_hot(row->label, i);
                 const pop_v_f d = by * (pop_row_load(p, i, part) - e * times);
                 pop_row_store(deltas, i, masked ? pop_v_splat(0.0f) : d, part););
}

/* Logits, label, weights of classes or -, gradient, loss. With w the label's weight and smoothing a (`factor`) over n classes,
 *     (1 - a) w (log sum - x of the label) + a / n sum of w (log sum - x)
 * and `scale` times its derivative. A label that is none makes nothing. */
POP_INLINE void pop_row_cross_entropy(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const float *x = (const float *)row->at[0], *weights = (const float *)row->at[2];
    float *grad = (float *)row->at[3], *loss = (float *)row->at[4], top;
    if (row->label < 0 || row->label >= s->n || (double)row->label == s->epsilon) { /* which is the class that is left out */
        POP_ROW_EACH(0, s->n, pop_row_store(grad, i, pop_v_splat(0.0f), part););
        *loss = 0.0f;
        return;
    }
    pop_lanes lanes = pop_lanes_of(-INFINITY);
    POP_ROW_EACH(0, s->n, lanes.v[k] = pop_v_max_f(pop_row_else(pop_row_load(x, i, part), -INFINITY, part), lanes.v[k]););
    top = pop_lanes_max(lanes);
    if (top == -INFINITY) top = 0.0f;
    const pop_v_f less = pop_v_splat(top);
    const float own = x[row->label];
    double sum = 0.0, all = 0.0, apart = 0.0;
    for (int64_t begin = 0; begin < s->n; begin += POP_STRETCH) {
        const int64_t end = s->n - begin < POP_STRETCH ? s->n : begin + POP_STRETCH;
        pop_lanes sums = pop_lanes_of(0.0f);
        POP_ROW_EACH(begin, end,
                     const pop_v_f e = pop_v_exp(pop_row_load(x, i, part) - less);
                     pop_row_store(grad, i, e, part);
                     sums.v[k] += pop_row_else(e, 0.0f, part););
        sum += (double)pop_lanes_sum(sums);
    }
    const double log = (double)pop_v_log(pop_v_splat((float)sum))[0], share = s->factor / (double)s->n;
    const double weight = (1.0 - s->factor) * (weights ? (double)weights[row->label] : 1.0);
    if (share > 0.0) {
        if (weights) {
            POP_ROW_SUM(all, s->n, pop_row_load(weights, i, part));
            POP_ROW_SUM(apart, s->n, pop_row_load(weights, i, part) * pop_row_else(pop_row_load(x, i, part) - less, 0.0f, part));
        } else {
            all = (double)s->n;
            POP_ROW_SUM(apart, s->n, pop_row_else(pop_row_load(x, i, part) - less, 0.0f, part));
        }
    }
    *loss = (float)(weight * (log - ((double)own - (double)top)) + (share > 0.0 ? share * (all * log - apart) : 0.0));
    const pop_v_f by = pop_v_splat((float)(s->scale * (weight + share * all) / sum));
    const pop_v_f at_label = pop_v_splat((float)(s->scale * weight)), each = pop_v_splat((float)(s->scale * share));
    POP_ROW_EACH(0, s->n,
                 pop_v_f d = pop_row_load(grad, i, part) * by - pop_row_one_hot(row->label, i) * at_label;
                 if (share > 0.0) d = d - (weights ? pop_row_load(weights, i, part) * each : each);
                 pop_row_store(grad, i, d, part););
}
#endif
