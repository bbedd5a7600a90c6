/* Norms of rows: each less its mean, over its deviation, scaled and shifted; and the gradients. */
#ifndef POP_ROWS_NORM_H
#define POP_ROWS_NORM_H
#include "kernels/rows/sums.h"

typedef struct pop_moments {
    float mean, inverse; /* of the deviation */
} pop_moments;

#define POP_NO_STATISTICS 2 /* `centred`: numbers are scaled and shifted as they are */

/* Of some rows, `step` bytes from one to the next. */
POP_INLINE void pop_rows_moments_in(const pop_rows *s, const pop_format *f, const char *x, int64_t step, int rows, pop_moments *m)
{
    const double count = (double)(s->n ? s->n : 1);
    double sums[POP_ROWS_MOST] = {0.0};
    for (int q = 0; q < rows; q++) m[q] = (pop_moments){0.0f, 1.0f};
    if (s->centred == POP_NO_STATISTICS) return;
    if (s->centred) POP_ROWS_SUMS(sums, rows, s->n, pop_row_read(f, x + q * step, i, part));
    for (int q = 0; q < rows; q++) m[q].mean = (float)(sums[q] / count);
    POP_ROWS_SUMS(sums, rows, s->n, ({
                      const pop_v_f d = pop_row_else(pop_row_read(f, x + q * step, i, part) - pop_v_splat(m[q].mean), 0.0f, part);
                      d * d;
                  }));
    for (int q = 0; q < rows; q++) m[q].inverse = (float)(1.0 / sqrt((sums[q] / count + s->epsilon) * s->factor));
}

#define POP_ROWS_MOMENTS_OF(suffix, format)                                                                            \
    POP_ROWS_SHARED void pop_rows_moments_##suffix(const pop_rows *s, const char *x, int64_t step, int rows, pop_moments *m) \
    {                                                                                                                  \
        pop_rows_moments_in(s, &POP_##format, x, step, rows, m);                                                       \
    }
POP_ROWS_FORMATS(POP_ROWS_MOMENTS_OF)

/* The row `q` after this one, of some; the next that is to be read is in the next such rows. */
POP_INLINE pop_row pop_row_after(const pop_row *row, int q)
{
    pop_row next = {.spec = row->spec, .rows = 1};
    for (int k = 0; k < POP_ROWS_OPERANDS; k++) {
        next.step[k] = row->rows * row->step[k];
        next.at[k] = row->at[k] ? (char *)row->at[k] + q * row->step[k] : NULL;
    }
    return next;
}

POP_INLINE void pop_row_normed(pop_row *row, const pop_format *f, pop_moments m, const float *gamma, pop_v_f outer,
                               const float *beta, pop_v_f shift)
{
    const void *x = row->at[0];
    void *to = row->at[3];
    const char *ahead = (const char *)x + row->step[0];
    const pop_v_f less = pop_v_splat(m.mean), by = pop_v_splat(m.inverse);
    POP_ROW_ALL(row->spec->n,
                __builtin_prefetch(ahead + i * pop_bytes(f), 0, 2);
                const pop_v_f y = (pop_row_read(f, x, i, part) - less) * by * (gamma ? pop_row_load(gamma, i, part) : outer);
                pop_row_write(f, to, i, y + (beta ? pop_row_load(beta, i, part) : shift), part););
}

/* x, gamma, beta, result; gamma and beta may be absent: times one and plus minus zero change no bit. */
POP_INLINE void pop_row_norm_of(pop_row *row, const pop_format *f, pop_moments m)
{
    const pop_rows *s = row->spec;
    const float *gamma = (const float *)row->at[1], *beta = (const float *)row->at[2];
    const int single = !gamma || s->operands[1].single, alone = !beta || s->operands[2].single;
    const pop_v_f outer = pop_v_splat(gamma && single ? *gamma : 1.0f), shift = pop_v_splat(beta && alone ? *beta : -0.0f);
    if (single && alone) pop_row_normed(row, f, m, NULL, outer, NULL, shift);
    else if (single) pop_row_normed(row, f, m, NULL, outer, beta, shift);
    else if (alone) pop_row_normed(row, f, m, gamma, outer, NULL, shift);
    else pop_row_normed(row, f, m, gamma, outer, beta, shift);
}
POP_INLINE void pop_row_norm(pop_row *row, const pop_format *f)
{
    pop_moments m[POP_ROWS_MOST];
    POP_ROWS_OF(pop_rows_moments, f)(row->spec, (const char *)row->at[0], row->step[0], row->rows, m);
    for (int q = 0; q < row->rows; q++) {
        pop_row next = pop_row_after(row, q);
        pop_row_norm_of(&next, f, m[q]);
    }
}

/* Lanes of a stretch: of d, which is grad, times gamma where each place has its own; and of d times what x became. */
POP_INLINE void pop_row_lanes_back(const pop_row *row, const pop_format *f, pop_moments m, const float *gamma, int64_t begin,
                                   int64_t end, pop_v_f *all, pop_v_f *product)
{
    const void *g = row->at[0], *x = row->at[1];
    const pop_v_f less = pop_v_splat(m.mean), by = pop_v_splat(m.inverse);
    pop_lanes sums = pop_lanes_of(0.0f), products = pop_lanes_of(0.0f);
    POP_ROW_EACH(begin, end,
                 pop_v_f d = pop_row_read(f, g, i, part);
                 if (gamma) d = d * pop_row_load(gamma, i, part);
                 sums.v[k] += pop_row_else(d, 0.0f, part);
                 products.v[k] += pop_row_else(d * ((pop_row_read(f, x, i, part) - less) * by), 0.0f, part););
    *all = pop_lanes_plus(sums), *product = pop_lanes_plus(products);
}

/* What makes a row's gradient of its sums: times `by`, grad times gamma less `mean`, and less `share` of what x became. */
typedef struct pop_norm_back {
    const char *g, *x;
    char *to;
    pop_moments m;
    float mean, share;
} pop_norm_back;

/* grad, x, gamma, result. The rows' sums of grad and of that times what x became go to `sums` and `products`; one gamma for a
 * row is taken out of them. `blocks`: for each place of a row, such sums over the rows, which are added to. */
POP_INLINE void pop_rows_norm_back_in(pop_row *row, const pop_format *f, pop_moments *m, double *sums, double *products,
                                   float *blocks)
{
    const pop_rows *s = row->spec;
    const float *gamma = (const float *)row->at[2], *each = s->operands[2].single ? NULL : gamma;
    const double outer = gamma && !each ? (double)*gamma : 1.0, count = (double)(s->n ? s->n : 1);
    pop_v_f last[2][POP_ROWS_MOST] = {{{0}}};
    float joined[2][POP_ROWS_MOST];
    pop_norm_back of[POP_ROWS_MOST];
    POP_ROWS_OF(pop_rows_moments, f)(s, (const char *)row->at[1], row->step[1], row->rows, m);
    for (int q = 0; q < row->rows; q++) {
        const pop_row next = pop_row_after(row, q);
        sums[q] = products[q] = 0.0;
        for (int64_t begin = 0; begin < s->n; begin += POP_STRETCH) {
            const int64_t end = s->n - begin < POP_STRETCH ? s->n : begin + POP_STRETCH;
            pop_row_lanes_back(&next, f, m[q], each, begin, end, last[0] + q, last[1] + q);
            if (end < s->n) sums[q] += (double)pop_lane_sum(last[0][q]), products[q] += (double)pop_lane_sum(last[1][q]);
        }
    }
    for (int k = 0; k < 2; k++)
        for (int q = 0; q < row->rows; q += POP_FOUR) pop_four_sums(last[k] + q, joined[k] + q);
    for (int q = 0; q < row->rows; q++) {
        sums[q] += (double)joined[0][q], products[q] += (double)joined[1][q];
        of[q] = (pop_norm_back){(const char *)row->at[0] + q * row->step[0], (const char *)row->at[1] + q * row->step[1],
                                (char *)row->at[3] + q * row->step[3], m[q], s->centred ? (float)(outer * sums[q] / count) : 0.0f,
                                (float)(outer * products[q] / count * s->scale)};
    }
    const int64_t ahead[3] = {row->rows * row->step[0], row->rows * row->step[1], row->rows * row->step[3]};
    POP_ROW_ALL(s->n,
                pop_v_f product = pop_v_splat(0.0f), total = product;
                const pop_v_f scale = each ? pop_row_load(each, i, part) : pop_v_splat((float)outer);
                if (blocks) product = pop_row_load(blocks, i, part), total = pop_row_load(blocks + s->n, i, part);
                for (int q = 0; q < row->rows; q++) {
                    const pop_norm_back *b = of + q;
                    __builtin_prefetch(b->g + ahead[0] + i * pop_bytes(f), 0, 2);
                    __builtin_prefetch(b->x + ahead[1] + i * pop_bytes(f), 0, 2);
                    __builtin_prefetch(b->to + ahead[2] + i * pop_bytes(f), 1, 2);
                    const pop_v_f g = pop_row_read(f, b->g, i, part);
                    const pop_v_f y = (pop_row_read(f, b->x, i, part) - b->m.mean) * b->m.inverse;
                    pop_row_write(f, b->to, i, ((g * scale - b->mean) - y * b->share) * b->m.inverse, part);
                    product += g * y, total += g;
                }
                if (blocks) pop_row_store(blocks, i, product, part), pop_row_store(blocks + s->n, i, total, part););
}
#define POP_ROWS_BACK_OF(suffix, format)                                                                               \
    POP_ROWS_SHARED void pop_rows_norm_back_##suffix(pop_row *row, pop_moments *m, double *sums, double *products, float *blocks) \
    {                                                                                                                  \
        pop_rows_norm_back_in(row, &POP_##format, m, sums, products, blocks);                                          \
    }
POP_ROWS_FORMATS(POP_ROWS_BACK_OF)
/* At 6 and 7 these sums, which may be absent, and at 4 and 5 the same of each of a row's segments, `apart` places from one to the
 * next. */
POP_INLINE void pop_row_norm_grad(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    double of_all[POP_ROWS_MOST], products_of_all[POP_ROWS_MOST];
    pop_moments m[POP_ROWS_MOST];
    POP_ROWS_OF(pop_rows_norm_back, f)(row, m, of_all, products_of_all, NULL);
    if (row->at[6]) *(float *)row->at[6] = (float)*products_of_all;
    if (row->at[7]) *(float *)row->at[7] = (float)*of_all;
    float *products = (float *)row->at[4], *totals = (float *)row->at[5];
    if (!products) return;
    const int64_t length = s->n / s->segments;
    for (int64_t c = 0; c < s->segments; c++) {
        double total = 0.0, product = 0.0;
        for (int64_t begin = c * length; begin < (c + 1) * length; begin += POP_STRETCH) {
            const int64_t end = (c + 1) * length - begin < POP_STRETCH ? (c + 1) * length : begin + POP_STRETCH;
            pop_v_f lanes[2];
            pop_row_lanes_back(row, f, *m, NULL, begin, end, lanes, lanes + 1);
            total += (double)pop_lane_sum(lanes[0]), product += (double)pop_lane_sum(lanes[1]);
        }
        products[c * s->apart] = (float)product, totals[c * s->apart] = (float)total;
    }
}

#define POP_BLOCK_ROWS 32 /* that are added in FP32 */

/* grad, x, gamma, result, sums of blocks of rows: of grad times what x became, then of grad, for each place of a row. */
POP_INLINE void pop_row_norm_grad_blocks(pop_row *row, const pop_format *f)
{
    const int64_t n = row->spec->n;
    float *sums = (float *)row->at[4] + row->number / POP_BLOCK_ROWS * 2 * n;
    double totals[POP_ROWS_MOST], products[POP_ROWS_MOST];
    pop_moments m[POP_ROWS_MOST];
    if (row->number % POP_BLOCK_ROWS == 0) memset(sums, 0, 2 * (size_t)n * sizeof *sums);
    POP_ROWS_OF(pop_rows_norm_back, f)(row, m, totals, products, sums);
}

#define POP_COLUMNS 256 /* of a strip */

/* Sums of blocks of rows, two kinds of them, added in float64: columns lie side by side. */
static void pop_columns_block_sums(const void *work, const pop_tile *tile)
{
    const pop_rows_item *item = (const pop_rows_item *)work;
    const pop_rows *s = item->spec;
    double totals[POP_COLUMNS];
    float made[POP_COLUMNS];
    for (int64_t strip = item->first; strip < item->first + item->count; strip++) {
        const int64_t first = strip * POP_COLUMNS, width = s->kept[0] - first < POP_COLUMNS ? s->kept[0] - first : POP_COLUMNS;
        for (int k = 0; k < 2; k++) {
            const pop_rows_operand *from = s->operands + k, *to = from + 2;
            const char *at = tile->operands[from->operand] + from->offset + first * from->kept[0];
            memset(totals, 0, sizeof totals);
            for (int64_t r = 0; r < s->n; r++, at += from->reduced[0])
                for (int64_t i = 0; i < width; i++) totals[i] += (double)((const float *)(const void *)at)[i];
            for (int64_t i = 0; i < width; i++) made[i] = (float)totals[i];
            pop_rows_encode(to, made, tile->operands[to->operand] + to->offset + first * to->kept[0], to->kept[0], width,
                            tile->scratch + s->codes);
        }
    }
}
#endif
