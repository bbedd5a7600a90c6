/* Softmax and its logarithm along a row, and their gradients. Nothing is exponentiated but what lies below the greatest
 * number, so that nothing overflows. A row of nothing but minus infinity has a softmax of zeros. */
#ifndef POP_ROWS_SOFTMAX_H
#define POP_ROWS_SOFTMAX_H
#include "kernels/rows/powers.h"

/* What is exponentiated where there is a scale or a mask goes to `room`, and its greatest to `top`. Returns as pop_rows_tops_in. */
POP_INLINE int pop_row_scaled(const pop_row *row, const pop_format *f, float *room, float *top)
{
    const pop_rows *s = row->spec;
    const float *mask = (const float *)row->at[1];
    const pop_v_f by = pop_v_splat((float)s->scale), none = pop_v_splat(-INFINITY);
    pop_lanes lanes = pop_lanes_of(-INFINITY);
    pop_v_f least = pop_v_splat(INFINITY);
    POP_ROW_EACH(0, s->n,
                 pop_v_f z = pop_row_read(f, row->at[0], i, part) * by;
                 if (mask) z = pop_v_select_f(pop_v_eq_f(pop_row_load(mask, i, part), none), z, none);
                 pop_row_store(room, i, z, part);
                 lanes.v[k] = pop_v_max_f(pop_row_else(z, -INFINITY, part), lanes.v[k]);
                 if (POP_LANES == 8) least = pop_v_min_f(pop_row_else(z, INFINITY, part), least););
    *top = pop_lanes_max(&lanes);
    if (*top == -INFINITY) *top = 0.0f;
    return POP_LANES == 8 && !pop_v_any(pop_v_lt_f(least, pop_v_splat(*top - POP_ROW_NEAR)));
}
POP_INLINE int pop_row_plain(const pop_rows *s) { return s->operands[1].operand < 0 && s->scale == 1.0; }

/* Both begin alike, for some rows: exponentials, or what they are of, go to y itself where that is FP32. x, mask, y. */
POP_INLINE float *pop_rows_powers(const pop_row *row, const pop_format *f, int apart, int64_t *line, float *top, double *sums)
{
    const pop_rows *s = row->spec;
    float *room = pop_is_f32(f) ? (float *)row->at[2] : row->room;
    *line = pop_is_f32(f) ? row->step[2] / (int64_t)sizeof *room : s->n;
    if (pop_row_plain(s)) {
        const int near = POP_ROWS_OF(pop_rows_tops, f)((const char *)row->at[0], row->step[0], row->rows, s->n, top);
        POP_ROWS_OF(pop_rows_exponentials, f)((const char *)row->at[0], row->step[0], row->rows, s->n, top, room, *line, apart,
                                              s->mode == POP_BRIEF ? POP_POWERS_BRIEF : POP_POWERS, near, sums);
    } else {
        const int near = pop_row_scaled(row, f, room, top);
        pop_rows_exponentials_f32((const char *)room, 0, 1, s->n, top, room, 0, apart,
                                  s->mode == POP_BRIEF ? POP_POWERS_BRIEF_OF_ANY : POP_POWERS, near, sums);
    }
    return room;
}
POP_INLINE void pop_row_softmax(pop_row *row, const pop_format *f)
{
    int64_t line;
    float top[POP_ROWS_MOST];
    double sums[POP_ROWS_MOST];
    const float *room = pop_rows_powers(row, f, 0, &line, top, sums);
    for (int q = 0; q < row->rows; q++) {
        const pop_v_f by = pop_v_splat(sums[q] == 0.0 ? 0.0f : (float)(row->spec->factor / sums[q]));
        const float *from = room + q * line;
        char *to = (char *)row->at[2] + q * row->step[2];
        const uintptr_t next = pop_beyond(to, row->rows * row->step[2]);
        POP_ROW_WRITTEN(f, to, row->spec->n,
                        pop_row_prefetch(f, next, i, k, 1);
                        POP_ROW_PUT(f, to, pop_row_load(from, i, part) * by););
    }
}
_Static_assert(POP_ROWS_MOST % POP_LANES == 0, "logarithms are made of whole vectors");
POP_INLINE void pop_rows_logs(const double *sums, int rows, float *logs)
{
    for (int q = 0; q < POP_ROWS_MOST; q++) logs[q] = 1.0f;
    for (int q = 0; q < rows; q++) logs[q] = (float)sums[q];
    for (int q = 0; q < rows; q += POP_LANES) pop_row_store(logs, q, pop_v_log(pop_row_load(logs, q, POP_LANES)), POP_LANES);
}
POP_INLINE void pop_row_log_softmax(pop_row *row, const pop_format *f)
{
    int64_t line;
    float top[POP_ROWS_MOST], logs[POP_ROWS_MOST];
    double sums[POP_ROWS_MOST];
    const float *room = pop_rows_powers(row, f, 1, &line, top, sums);
    const double beyond = row->spec->mode == POP_BRIEF ? POP_BRIEF_OF_ZERO - 1.0f : 0.0; /* that the greatest adds */
    for (int q = 0; q < row->rows; q++) sums[q] = sums[q] == 0.0 ? 1.0 : sums[q] - beyond;
    pop_rows_logs(sums, row->rows, logs);
    const int again = POP_ROW_FIRST && pop_row_plain(row->spec); /* what was exponentiated is made of x */
    for (int q = 0; q < row->rows; q++) {
        const pop_v_f log = pop_v_splat(logs[q]), less = pop_v_splat(top[q]);
        const float *from = room + q * line;
        const char *x = (const char *)row->at[0] + q * row->step[0];
        char *to = (char *)row->at[2] + q * row->step[2];
        const uintptr_t next = pop_beyond(to, row->rows * row->step[2]);
        if (again)
            POP_ROW_WRITTEN(f, to, row->spec->n,
                            pop_row_prefetch(f, next, i, k, 1);
                            POP_ROW_PUT(f, to, pop_row_read(f, x, i, part) - less - log););
        else
            POP_ROW_WRITTEN(f, to, row->spec->n,
                            pop_row_prefetch(f, next, i, k, 1);
                            pop_v_f d = pop_row_load(from, i, part);
                            if (POP_ROW_FIRST) d = d - less;
                            POP_ROW_PUT(f, to, d - log););
    }
}

/* grad, y, result: scale y (grad - sum of grad y) */
POP_INLINE void pop_row_softmax_grad(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const char *grads = (const char *)row->at[0], *ys = (const char *)row->at[1];
    const pop_v_f by = pop_v_splat((float)s->scale);
    double sums[POP_ROWS_MOST];
    POP_ROWS_SUMS(f, sums, row->rows, s->n, POP_ROW_READ(f, grads + q * row->step[0]) * POP_ROW_READ(f, ys + q * row->step[1]));
    for (int q = 0; q < row->rows; q++) {
        const char *g = grads + q * row->step[0], *y = ys + q * row->step[1];
        char *to = (char *)row->at[2] + q * row->step[2];
        const pop_v_f mean = pop_v_splat((float)sums[q]);
        const uintptr_t next_g = pop_beyond(g, row->rows * row->step[0]), next_y = pop_beyond(y, row->rows * row->step[1]);
        const uintptr_t next = pop_beyond(to, row->rows * row->step[2]);
        POP_ROW_HALVED(f, to, s->n,
                       pop_row_prefetch(f, next_g, i, k, 0), pop_row_prefetch(f, next_y, i, k, 0), pop_row_prefetch(f, next, i, k, 1);
                       POP_ROW_PUT(f, to, (POP_ROW_READ(f, g) - mean) * POP_ROW_READ(f, y) * by););
    }
}

/* grad, y, result: scale (grad - e^y sum of grad) */
POP_INLINE void pop_row_log_softmax_grad(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const char *grads = (const char *)row->at[0], *ys = (const char *)row->at[1];
    const pop_v_f by = pop_v_splat((float)s->scale);
    double sums[POP_ROWS_MOST];
    POP_ROWS_SUMS(f, sums, row->rows, s->n, POP_ROW_READ(f, grads + q * row->step[0]));
    for (int q = 0; q < row->rows; q++) {
        const char *g = grads + q * row->step[0], *y = ys + q * row->step[1];
        char *to = (char *)row->at[2] + q * row->step[2];
        const pop_v_f all = pop_v_splat((float)sums[q]);
        const uintptr_t next_g = pop_beyond(g, row->rows * row->step[0]), next_y = pop_beyond(y, row->rows * row->step[1]);
        const uintptr_t next = pop_beyond(to, row->rows * row->step[2]);
        POP_ROW_HALVED(f, to, s->n,
                       pop_row_prefetch(f, next_g, i, k, 0), pop_row_prefetch(f, next_y, i, k, 0), pop_row_prefetch(f, next, i, k, 1);
                       const pop_v_f share = pop_v_exp(POP_ROW_READ(f, y)) * all;
                       POP_ROW_PUT(f, to, (POP_ROW_READ(f, g) - share) * by););
    }
}
#endif
