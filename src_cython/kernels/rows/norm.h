/* Norms of rows: each less its mean, over its deviation, scaled and shifted; and the gradients. */
#ifndef POP_ROWS_NORM_H
#define POP_ROWS_NORM_H
#include "kernels/rows/sums.h"

typedef struct pop_moments {
    float mean, inverse; /* of the deviation */
} pop_moments;

POP_INLINE pop_moments pop_row_moments(const pop_rows *s, const pop_format *f, const void *x)
{
    const double count = (double)(s->n ? s->n : 1);
    double total = 0.0;
    if (s->centred) POP_ROW_SUM(total, s->n, pop_row_read(f, x, i, part));
    const float mean = (float)(total / count);
    const pop_v_f less = pop_v_splat(mean);
    POP_ROW_SUM(total, s->n, ({ const pop_v_f d = pop_row_else(pop_row_read(f, x, i, part) - less, 0.0f, part); d * d; }));
    return (pop_moments){mean, (float)(1.0 / sqrt((total / count + s->epsilon) * s->factor))};
}

/* x, gamma, beta, result; gamma and beta may be absent. */
POP_INLINE void pop_row_norm(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const pop_rows_operand *o = s->operands;
    const void *x = row->at[0];
    const float *gamma = (const float *)row->at[1], *beta = (const float *)row->at[2];
    const pop_moments m = pop_row_moments(s, f, x);
    const pop_v_f less = pop_v_splat(m.mean), by = pop_v_splat(m.inverse);
    POP_ROW_EACH(0, s->n,
                 pop_v_f y = (pop_row_read(f, x, i, part) - less) * by;
                 if (gamma) y = y * pop_row_load_or(gamma, o[1].single, i, part);
                 if (beta) y = y + pop_row_load_or(beta, o[2].single, i, part);
                 pop_row_write(f, row->at[3], i, y, part););
}

/* grad, x, gamma, result, mean, inverse deviation; the last two are written for who sums over rows. */
POP_INLINE void pop_row_norm_grad(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const void *g = row->at[0], *x = row->at[1];
    const float *gamma = (const float *)row->at[2];
    const int single = s->operands[2].single;
    const pop_moments m = pop_row_moments(s, f, x);
    const pop_v_f less = pop_v_splat(m.mean), by = pop_v_splat(m.inverse);
    const double count = (double)(s->n ? s->n : 1);
    double total = 0.0, product = 0.0;
    for (int64_t begin = 0; begin < s->n; begin += POP_STRETCH) {
        const int64_t end = s->n - begin < POP_STRETCH ? s->n : begin + POP_STRETCH;
        pop_lanes sums = pop_lanes_of(0.0f), products = pop_lanes_of(0.0f);
        POP_ROW_EACH(begin, end,
                     pop_v_f d = pop_row_read(f, g, i, part);
                     if (gamma) d = d * pop_row_load_or(gamma, single, i, part);
                     d = pop_row_else(d, 0.0f, part);
                     sums.v[k] += d;
                     products.v[k] += pop_row_else(d * ((pop_row_read(f, x, i, part) - less) * by), 0.0f, part););
        total += (double)pop_lanes_sum(sums), product += (double)pop_lanes_sum(products);
    }
    const pop_v_f mean = pop_v_splat(s->centred ? (float)(total / count) : 0.0f);
    const pop_v_f share = pop_v_splat((float)(product / count * s->scale));
    POP_ROW_EACH(0, s->n,
                 pop_v_f d = pop_row_read(f, g, i, part);
                 if (gamma) d = d * pop_row_load_or(gamma, single, i, part);
                 d = ((d - mean) - (pop_row_read(f, x, i, part) - less) * by * share) * by;
                 pop_row_write(f, row->at[3], i, d, part););
    if (row->at[4]) *(float *)row->at[4] = m.mean;
    if (row->at[5]) *(float *)row->at[5] = m.inverse;
}

/* Of what shares its gamma and beta: grad, x, mean, inverse deviation, sums of grad times what x became, and of grad. */
POP_INLINE void pop_row_norm_param_grad(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const pop_rows_operand *o = s->operands;
    const void *g = row->at[0], *x = row->at[1];
    const float *mean = (const float *)row->at[2], *by = (const float *)row->at[3];
    double total = 0.0, product = 0.0;
    for (int64_t begin = 0; begin < s->n; begin += POP_STRETCH) {
        const int64_t end = s->n - begin < POP_STRETCH ? s->n : begin + POP_STRETCH;
        pop_lanes sums = pop_lanes_of(0.0f), products = pop_lanes_of(0.0f);
        POP_ROW_EACH(begin, end,
                     const pop_v_f d = pop_row_read(f, g, i, part);
                     pop_v_f y = pop_row_read(f, x, i, part);
                     if (mean) y = y - pop_row_load_or(mean, o[2].single, i, part);
                     sums.v[k] += d;
                     products.v[k] += pop_row_else(d * (y * pop_row_load_or(by, o[3].single, i, part)), 0.0f, part););
        total += (double)pop_lanes_sum(sums), product += (double)pop_lanes_sum(products);
    }
    if (row->at[4]) *(float *)row->at[4] = (float)product;
    if (row->at[5]) *(float *)row->at[5] = (float)total;
}

#define POP_COLUMNS 256    /* of a strip */
#define POP_COLUMN_ROWS 32 /* that are added in FP32 */

/* The same where columns lie side by side, and each row has a mean and a deviation of its own. The kept axis is the columns'. */
static void pop_columns_norm_param_grad(const void *work, const pop_tile *tile)
{
    const pop_rows_item *item = (const pop_rows_item *)work;
    const pop_rows *s = item->spec;
    const pop_rows_operand *o = s->operands;
    float g[POP_COLUMNS], x[POP_COLUMNS], sums[2][POP_COLUMNS];
    double totals[2][POP_COLUMNS];
    char *codes = tile->scratch + s->codes;
    for (int64_t strip = item->first; strip < item->first + item->count; strip++) {
        const int64_t first = strip * POP_COLUMNS, width = s->kept[0] - first < POP_COLUMNS ? s->kept[0] - first : POP_COLUMNS;
        const char *at[4] = {NULL, NULL, NULL, NULL};
        int64_t index[POP_ROWS_AXES] = {0};
        for (int k = 0; k < 4; k++)
            if (o[k].operand >= 0) at[k] = tile->operands[o[k].operand] + o[k].offset + first * o[k].kept[0];
        memset(totals, 0, sizeof totals);
        memset(sums, 0, sizeof sums);
        for (int64_t r = 0; r < s->n; r++) {
            float mean = 0.0f, by;
            if (at[2]) memcpy(&mean, at[2], sizeof mean);
            memcpy(&by, at[3], sizeof by);
            const float *gs = g, *xs = x;
            if (o[0].codec) pop_rows_decode(o, at[0], o[0].code_bytes, g, width, codes);
            else gs = (const float *)(const void *)at[0];
            if (o[1].codec) pop_rows_decode(o + 1, at[1], o[1].code_bytes, x, width, codes);
            else xs = (const float *)(const void *)at[1];
            const pop_v_f less = pop_v_splat(mean), times = pop_v_splat(by);
            for (int64_t i = 0; i < width; i += POP_LANES) {
                const int part = width - i < POP_LANES ? (int)(width - i) : POP_LANES;
                const pop_v_f d = pop_row_load(gs, i, part), y = (pop_row_load(xs, i, part) - less) * times;
                pop_row_store(sums[0], i, pop_row_load(sums[0], i, POP_LANES) + d * y, POP_LANES);
                pop_row_store(sums[1], i, pop_row_load(sums[1], i, POP_LANES) + d, POP_LANES);
            }
            if ((r + 1) % POP_COLUMN_ROWS == 0 || r + 1 == s->n) {
                for (int k = 0; k < 2; k++)
                    for (int64_t i = 0; i < width; i++) totals[k][i] += (double)sums[k][i];
                memset(sums, 0, sizeof sums);
            }
            for (int d = s->reduced_count - 1; d >= 0; d--) {
                const int more = ++index[d] < s->reduced[d];
                for (int k = 0; k < 4; k++)
                    if (at[k]) at[k] += o[k].reduced[d] - (more ? 0 : o[k].reduced[d] * s->reduced[d]);
                if (more) break;
                index[d] = 0;
            }
        }
        for (int k = 0; k < 2; k++) {
            if (o[4 + k].operand < 0) continue;
            for (int64_t i = 0; i < width; i++) g[i] = (float)totals[k][i];
            pop_rows_encode(o + 4 + k, g, tile->operands[o[4 + k].operand] + o[4 + k].offset + first * o[4 + k].kept[0],
                            o[4 + k].kept[0], width, codes);
        }
    }
}
#endif
