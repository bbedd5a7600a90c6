/* QR by Householder reflections. Columns are scaled by powers of two first, so that no sum of squares leaves FP32. */
#ifndef POP_FACTOR_QR_H
#define POP_FACTOR_QR_H
#include "kernels/factor/cholesky.h"

/* The power of two that brings a column's greatest magnitude to between 1 and 2; 1 for zeros. */
static pop_v_f column_scale(const float *column, int64_t row, int64_t m)
{
    pop_v_i most = pop_v_set(0);
    for (int64_t i = 0; i < m; i++) most = pop_v_maximum(most, pop_v_bits(pop_v_abs(at(column + i * row))));
    pop_v_i exponent = pop_v_maximum(pop_v_sub(pop_v_set(254), pop_v_srl(most, 23)), pop_v_set(1));
    exponent = pop_v_select(pop_v_gt(exponent, pop_v_set(253)), exponent, pop_v_set(253));
    return pop_v_select_f(pop_v_eq(most, pop_v_set(0)), pop_v_float(pop_v_sll(exponent, 23)), pop_v_splat(1.0f));
}

/* H = I - tau v v' from the left on `wide` columns of rows [0, m); v is 1, then the rows of `v`. */
POP_INLINE void reflect(const float *v, int64_t v_row, pop_v_f tau, float *x, int64_t row, int64_t m, int wide)
{
    pop_v_f sum[POP_BLOCK];
#pragma GCC unroll 4
    for (int c = 0; c < wide; c++) sum[c] = at(x + c * POP_CELL);
    for (int64_t i = 1; i < m; i++) {
        pop_v_f by = at(v + i * v_row);
#pragma GCC unroll 4
        for (int c = 0; c < wide; c++) sum[c] = pop_v_fma(by, at(x + i * row + c * POP_CELL), sum[c]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < wide; c++) {
        sum[c] = -(tau * sum[c]);
        pop_v_store_f(x + c * POP_CELL, at(x + c * POP_CELL) + sum[c]);
    }
    for (int64_t i = 1; i < m; i++) {
        pop_v_f by = at(v + i * v_row);
#pragma GCC unroll 4
        for (int c = 0; c < wide; c++) {
            float *to = x + i * row + c * POP_CELL;
            pop_v_store_f(to, pop_v_fma(by, sum[c], at(to)));
        }
    }
}

static void reflect_columns(const float *v, int64_t v_row, pop_v_f tau, float *x, int64_t row, int64_t m, int64_t columns)
{
    int64_t c = 0;
    for (; c + POP_BLOCK <= columns; c += POP_BLOCK) reflect(v, v_row, tau, x + c * POP_CELL, row, m, POP_BLOCK);
    for (; c < columns; c++) reflect(v, v_row, tau, x + c * POP_CELL, row, m, 1);
}

/* R over A's upper triangle, the vectors of the reflections below it, their factors to `taus`. */
static void factor_qr(float *w, int64_t row, int64_t m, int64_t n, float *taus, lane_ahead *ahead)
{
    const pop_v_f zero = pop_v_splat(0.0f), one = pop_v_splat(1.0f);
    for (int64_t k = 0; k < lesser(m, n); k++) {
        float *x = w + k * row + k * POP_CELL;
        pop_v_f sum = zero, head = at(x);
        for (int64_t i = k + 1; i < m; i++) {
            pop_v_f below = at(x + (i - k) * row);
            sum = pop_v_fma(below, below, sum);
        }
        /* nothing below the diagonal: no reflection */
        pop_v_m still = pop_v_eq_f(sum, zero);
        pop_v_f length = pop_v_sqrt(pop_v_fma(head, head, sum));
        pop_v_f made = pop_v_signed(length, -head);
        pop_v_f inverse = pop_v_select_f(still, one / (head - made), zero);
        pop_v_f tau = pop_v_select_f(still, (made - head) / made, zero);
        pop_v_store_f(taus + k * POP_CELL, tau);
        pop_v_store_f(x, pop_v_select_f(still, made, head));
        for (int64_t i = 1; i < m - k; i++) pop_v_store_f(x + i * row, at(x + i * row) * inverse);
        reflect_columns(x, row, tau, x + POP_CELL, row, m - k, n - k - 1);
        prefetch_ahead(ahead);
    }
}

/* Operands: A, Q, R. */
static void qr_share(const void *p, const pop_tile *tile)
{
    const pop_factor_item *item = (const pop_factor_item *)p;
    const pop_factor_operand *o = item->operands;
    const int64_t m = item->rows, n = item->columns, wide = item->width, steps = lesser(m, n);
    const int64_t row = (n | 1) * POP_CELL, q_row = (wide | 1) * POP_CELL;
    float *w = workspace_of(tile), *q = w + m * row, *taus = q + m * q_row, *scales = taus + steps * POP_CELL;
    int32_t *room = (int32_t *)(void *)(scales + n * POP_CELL);
    lane_block read = {w, o[0].transposed ? POP_CELL : row, o[0].transposed ? row : POP_CELL, o[0].rows, o[0].columns, WHOLE};
    lane_block q_made = {q, q_row, POP_CELL, m, wide, WHOLE}, r_made = {w, row, POP_CELL, o[2].rows, n, FROM_DIAGONAL};
    room = lay_block(&read, o[0].line, bytes_of(o[0].format), room, w - POP_CELL, 0);
    room = lay_block(&q_made, o[1].line, bytes_of(o[1].format), room, w - POP_CELL, 1);
    lay_block(&r_made, o[2].line, bytes_of(o[2].format), room, w - POP_CELL, 1);
    for (int64_t first = item->first; first < item->first + item->count; first += POP_LANES) {
        int lanes = (int)lesser(POP_LANES, item->first + item->count - first);
        gather_block(&o[0], place_of(tile, &o[0], first), lanes, &read);
        for (int64_t j = 0; j < n; j++) {
            pop_v_f scale = column_scale(w + j * POP_CELL, row, m);
            pop_v_store_f(scales + j * POP_CELL, pop_v_splat(1.0f) / scale);
            for (int64_t i = 0; i < m; i++) {
                float *x = w + i * row + j * POP_CELL;
                pop_v_store_f(x, at(x) * scale);
            }
        }
        lane_ahead ahead = ahead_of(tile, item, 3, first + POP_LANES, POP_LANES, 2 * steps);
        factor_qr(w, row, m, n, taus, &ahead);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < wide; j++) pop_v_store_f(q + i * q_row + j * POP_CELL, pop_v_splat(i == j ? 1.0f : 0.0f));
        for (int64_t k = steps - 1; k >= 0; k--) {
            reflect_columns(w + k * row + k * POP_CELL, row, at(taus + k * POP_CELL), q + k * q_row + k * POP_CELL, q_row,
                            m - k, wide - k);
            prefetch_ahead(&ahead);
        }
        for (int64_t i = 0; i < o[2].rows; i++)
            for (int64_t j = i; j < n; j++) {
                float *x = w + i * row + j * POP_CELL;
                pop_v_store_f(x, i < steps ? at(x) * at(scales + j * POP_CELL) : pop_v_splat(0.0f));
            }
        scatter_block(&o[1], place_of(tile, &o[1], first), lanes, &q_made);
        scatter_block(&o[2], place_of(tile, &o[2], first), lanes, &r_made);
    }
}
#endif
