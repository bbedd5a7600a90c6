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
 * are scaled by, `mode` says whether it is cross-entropy. */
POP_INLINE void pop_row_loss(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const float *p = (const float *)row->at[0], *expected = (const float *)row->at[2];
    float *deltas = (float *)row->at[3], *loss = (float *)row->at[4];
    const int masked = !expected && s->mode == POP_CROSS_ENTROPY && (row->label[0] == -1 || row->label[0] == POP_MASKED_LABEL);
    const pop_v_f by = pop_v_splat((float)s->scale), times = pop_v_splat((float)s->factor);
    const pop_v_f small = pop_v_splat((float)s->epsilon), log = pop_v_log(times);
    double sum;
    if (s->mode == POP_CROSS_ENTROPY)
        POP_ROW_SUM(sum, s->n, ({
                        const pop_v_f e = expected ? pop_row_load(expected, i, part) : pop_row_one_hot(row->label[0], i);
                        const pop_v_f term = e * (log - pop_v_log(pop_row_load(p, i, part) + small));
                        pop_row_else(pop_v_select_f(pop_v_eq_f(e, pop_v_splat(0.0f)), term, pop_v_splat(0.0f)), 0.0f, part);
                    }));
    else
        POP_ROW_SUM(sum, s->n, ({
                        const pop_v_f e = expected ? pop_row_load(expected, i, part) : pop_row_one_hot(row->label[0], i);
                        const pop_v_f d = pop_row_load(p, i, part) - e;
                        pop_row_else(0.5f * d * d, 0.0f, part);
                    }));
    *loss = masked ? 0.0f : (float)sum;
    POP_ROW_EACH(0, s->n,
                 const pop_v_f e = expected ? pop_row_load(expected, i, part) : pop_row_one_hot(row->label[0], i);
                 const pop_v_f d = by * (pop_row_load(p, i, part) - e * times);
                 pop_row_store(deltas, i, masked ? pop_v_splat(0.0f) : d, part););
}

/* What smoothing adds to a row's loss; the sum of its classes' weights. */
POP_INLINE double pop_row_smoothed(const pop_rows *s, const float *x, const float *weights, float top, double log, double share,
                                   double *all)
{
    const pop_v_f less = pop_v_splat(top);
    double apart;
    *all = (double)s->n;
    if (weights) {
        POP_ROW_SUM(*all, s->n, pop_row_load(weights, i, part));
        POP_ROW_SUM(apart, s->n, pop_row_load(weights, i, part) * pop_row_else(pop_row_load(x, i, part) - less, 0.0f, part));
    } else {
        POP_ROW_SUM(apart, s->n, pop_row_else(pop_row_load(x, i, part) - less, 0.0f, part));
    }
    return share * (*all * log - apart);
}

/* Logits, label, weights of classes or -, gradient, loss. With w the label's weight and smoothing a (`factor`, of FP32 alone) over
 * n classes,
 *     (1 - a) w (log sum - x of the label) + a / n sum of w (log sum - x)
 * and `scale` times its derivative. A label that is none makes nothing. */
POP_INLINE void pop_row_cross_entropy(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const char *xs = (const char *)row->at[0];
    const float *weights = (const float *)row->at[2];
    float top[POP_ROWS_MOST], logs[POP_ROWS_MOST], *room = pop_is_f32(f) ? (float *)row->at[3] : row->room;
    double sums[POP_ROWS_MOST];
    const int64_t line = pop_is_f32(f) ? row->step[3] / (int64_t)sizeof *room : s->n;
    const int near = POP_ROWS_OF(pop_rows_tops, f)(xs, row->step[0], row->rows, s->n, top);
    POP_ROWS_OF(pop_rows_exponentials, f)(xs, row->step[0], row->rows, s->n, top, room, line, 0,
                                          s->mode == POP_BRIEF ? POP_POWERS_BRIEF : POP_POWERS, near, sums);
    pop_rows_logs(sums, row->rows, logs);
    for (int q = 0; q < row->rows; q++) {
        const int64_t label = row->label[q];
        const char *x = xs + q * row->step[0];
        char *grad = (char *)row->at[3] + q * row->step[3], *loss = (char *)row->at[4] + q * row->step[4];
        float *powers = room + q * line;
        if (label < 0 || label >= s->n || (double)label == s->epsilon) { /* which is the class that is left out */
            POP_ROW_ALL(s->n, pop_row_write(f, grad, i, pop_v_splat(0.0f), part););
            pop_row_write(f, loss, 0, pop_v_splat(0.0f), 1);
            continue;
        }
        const double log = (double)logs[q] - (s->mode == POP_BRIEF ? pop_row_factor(top[q]) : 0.0);
        const double share = pop_is_f32(f) ? s->factor / (double)s->n : 0.0;
        const double weight = (1.0 - s->factor) * (weights ? (double)weights[label] : 1.0);
        double of_all = 0.0, lost = weight * (log - ((double)pop_row_read(f, x, label, 1)[0] - (double)top[q]));
        if (share > 0.0) lost += pop_row_smoothed(s, (const float *)(const void *)x, weights, top[q], log, share, &of_all);
        pop_row_write(f, loss, 0, pop_v_splat((float)lost), 1);
        const pop_v_f by = pop_v_splat((float)(s->scale * (weight + share * of_all) / sums[q]));
        const float at_label = powers[label] * by[0] - (float)(s->scale * weight);
        POP_ROW_ALL(s->n, pop_row_write(f, grad, i, pop_row_load(powers, i, part) * by, part););
        pop_row_write(f, grad, label, pop_v_splat(at_label), 1);
        if (share > 0.0) {
            const pop_v_f each = pop_v_splat((float)(s->scale * share));
            POP_ROW_ALL(s->n,
                        const pop_v_f less = weights ? pop_row_load(weights, i, part) * each : each;
                        pop_row_write(f, grad, i, pop_row_read(f, grad, i, part) - less, part););
        }
    }
}
#endif
