/* Softmax and its logarithm along a row, and their gradients. Nothing is exponentiated but what lies below the greatest
 * number, so that nothing overflows. A row of nothing but minus infinity has a softmax of zeros. */
#ifndef POP_ROWS_SOFTMAX_H
#define POP_ROWS_SOFTMAX_H
#include "kernels/rows/sums.h"

/* What is exponentiated: x, or what scale and mask make of it, which goes to `room`; and the greatest of it, or 0. */
POP_INLINE int pop_row_scaled(const pop_row *row, const pop_format *f, float *room, float *top)
{
    const pop_rows *s = row->spec;
    const void *x = row->at[0];
    const float *mask = (const float *)row->at[1];
    const int plain = !mask && s->scale == 1.0;
    pop_lanes lanes = pop_lanes_of(-INFINITY);
    if (plain) {
        POP_ROW_EACH(0, s->n, lanes.v[k] = pop_v_max_f(pop_row_else(pop_row_read(f, x, i, part), -INFINITY, part), lanes.v[k]););
    } else {
        const pop_v_f by = pop_v_splat((float)s->scale), none = pop_v_splat(-INFINITY);
        POP_ROW_EACH(0, s->n,
                     pop_v_f z = pop_row_read(f, x, i, part) * by;
                     if (mask) z = pop_v_select_f(pop_v_eq_f(pop_row_load(mask, i, part), none), z, none);
                     pop_row_store(room, i, z, part);
                     lanes.v[k] = pop_v_max_f(pop_row_else(z, -INFINITY, part), lanes.v[k]););
    }
    *top = pop_lanes_max(lanes);
    if (*top == -INFINITY) *top = 0.0f;
    return plain;
}
POP_INLINE pop_v_f pop_row_scaled_at(const pop_row *row, const pop_format *f, const float *room, int plain, int64_t i, int part)
{
    return plain ? pop_row_read(f, row->at[0], i, part) : pop_row_load(room, i, part);
}

/* Exponentials go to y itself where that is FP32. x, mask, y */
POP_INLINE void pop_row_softmax(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    float top, *room = pop_is_f32(f) ? (float *)row->at[2] : row->room;
    const int plain = pop_row_scaled(row, f, room, &top);
    const pop_v_f less = pop_v_splat(top);
    double sum = 0.0;
    for (int64_t begin = 0; begin < s->n; begin += POP_STRETCH) {
        const int64_t end = s->n - begin < POP_STRETCH ? s->n : begin + POP_STRETCH;
        pop_lanes lanes = pop_lanes_of(0.0f);
        POP_ROW_EACH(begin, end,
                     const pop_v_f e = pop_v_exp(pop_row_scaled_at(row, f, room, plain, i, part) - less);
                     pop_row_store(room, i, e, part);
                     lanes.v[k] += pop_row_else(e, 0.0f, part););
        sum += (double)pop_lanes_sum(lanes);
    }
    const pop_v_f by = pop_v_splat(sum == 0.0 ? 0.0f : (float)(s->factor / sum));
    POP_ROW_ALL(s->n, pop_row_write(f, row->at[2], i, pop_row_load(room, i, part) * by, part););
}

POP_INLINE void pop_row_log_softmax(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    float top, *room = pop_is_f32(f) ? (float *)row->at[2] : row->room;
    const int plain = pop_row_scaled(row, f, room, &top);
    const pop_v_f less = pop_v_splat(top);
    double sum;
    POP_ROW_SUM(sum, s->n, pop_row_else(pop_v_exp(pop_row_scaled_at(row, f, room, plain, i, part) - less), 0.0f, part));
    const pop_v_f log = sum == 0.0 ? pop_v_splat(0.0f) : pop_v_log(pop_v_splat((float)sum));
    POP_ROW_ALL(s->n,
                 pop_row_write(f, row->at[2], i, (pop_row_scaled_at(row, f, room, plain, i, part) - less) - log, part););
}

/* grad, y, result: scale y (grad - sum of grad y) */
POP_INLINE void pop_row_softmax_grad(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const void *g = row->at[0], *y = row->at[1];
    double sum;
    POP_ROW_SUM(sum, s->n, pop_row_read(f, g, i, part) * pop_row_read(f, y, i, part));
    const pop_v_f mean = pop_v_splat((float)sum), by = pop_v_splat((float)s->scale);
    POP_ROW_ALL(s->n,
                 pop_row_write(f, row->at[2], i, (pop_row_read(f, g, i, part) - mean) * pop_row_read(f, y, i, part) * by, part););
}

/* grad, y, result: scale (grad - e^y sum of grad) */
POP_INLINE void pop_row_log_softmax_grad(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const void *g = row->at[0], *y = row->at[1];
    double sum;
    POP_ROW_SUM(sum, s->n, pop_row_read(f, g, i, part));
    const pop_v_f all = pop_v_splat((float)sum), by = pop_v_splat((float)s->scale);
    POP_ROW_ALL(s->n,
                 const pop_v_f share = pop_v_exp(pop_row_read(f, y, i, part)) * all;
                 pop_row_write(f, row->at[2], i, (pop_row_read(f, g, i, part) - share) * by, part););
}
#endif
