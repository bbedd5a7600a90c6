/* LU with partial pivoting: rows stay where they are, each lane keeps the position that each row gets, and rows move when
 * they are written. A step updates the rows that have no position yet. */
#ifndef POP_FACTOR_LU_H
#define POP_FACTOR_LU_H
#include "kernels/factor/cholesky.h"

#define POP_COLUMNS 4 /* that a step updates together */

POP_INLINE pop_v_i load_i(const float *p) { return pop_v_load(p, 4); }
POP_INLINE void store_i(float *p, pop_v_i x) { pop_v_store(p, 4, x); }

/* The row of each lane's pivot: the greatest magnitude (a NaN counts as greater than all) among those without a position. */
static pop_v_i choose_pivot(const float *column, int64_t row, int64_t m, const float *positions)
{
    pop_v_i best = pop_v_set(-1), chosen = pop_v_set(0);
    for (int64_t i = 0; i < m; i++) {
        pop_v_i size = pop_v_bits(pop_v_abs(at(column + i * row)));
        size = pop_v_select(pop_v_gt(pop_v_set(0), load_i(positions + i * POP_CELL)), pop_v_set(-1), size);
        pop_v_m better = pop_v_gt(size, best);
        best = pop_v_select(better, best, size);
        chosen = pop_v_select(better, chosen, pop_v_set((int32_t)i));
    }
    return chosen;
}

/* Subtract the pivots' rows, times multipliers, from `wide` columns of the rows that have no position. */
POP_INLINE void eliminate(float *w, int64_t row, int64_t m, const float *multipliers, pop_v_i pivot, int wide)
{
    pop_v_f top[POP_COLUMNS];
#pragma GCC unroll 4
    for (int c = 0; c < wide; c++) top[c] = pop_v_splat(0.0f);
    for (int64_t i = 0; i < m; i++) {
        pop_v_m here = pop_v_eq(pivot, pop_v_set((int32_t)i));
#pragma GCC unroll 4
        for (int c = 0; c < wide; c++) top[c] = pop_v_select_f(here, top[c], at(w + i * row + c * POP_CELL));
    }
#pragma GCC unroll 4
    for (int c = 0; c < wide; c++) top[c] = -top[c];
    for (int64_t i = 0; i < m; i++) {
        pop_v_f by = at(multipliers + i * POP_CELL);
#pragma GCC unroll 4
        for (int c = 0; c < wide; c++) {
            float *x = w + i * row + c * POP_CELL;
            pop_v_store_f(x, pop_v_fma(by, top[c], at(x)));
        }
    }
}

/* Factors over A, m x n; positions of rows, as whole numbers; room for m multipliers. */
static void factor_lu(float *w, int64_t row, int64_t m, int64_t n, float *positions, float *multipliers)
{
    const int64_t steps = lesser(m, n);
    for (int64_t i = 0; i < m; i++) store_i(positions + i * POP_CELL, pop_v_set(-1));
    for (int64_t k = 0; k < steps; k++) {
        float *column = w + k * POP_CELL;
        const pop_v_i pivot = choose_pivot(column, row, m, positions), step = pop_v_set((int32_t)k);
        pop_v_f head = pop_v_splat(0.0f);
        for (int64_t i = 0; i < m; i++) {
            pop_v_m here = pop_v_eq(pivot, pop_v_set((int32_t)i));
            head = pop_v_select_f(here, head, at(column + i * row));
            store_i(positions + i * POP_CELL, pop_v_select(here, load_i(positions + i * POP_CELL), step));
        }
        /* a column of zeros has multipliers of zero */
        head = pop_v_select_f(pop_v_eq_f(head, pop_v_splat(0.0f)), head, pop_v_splat(1.0f));
        for (int64_t i = 0; i < m; i++) {
            pop_v_m waits = pop_v_gt(pop_v_set(0), load_i(positions + i * POP_CELL));
            pop_v_f x = at(column + i * row), quotient = x / head;
            pop_v_store_f(multipliers + i * POP_CELL, pop_v_select_f(waits, pop_v_splat(0.0f), quotient));
            pop_v_store_f(column + i * row, pop_v_select_f(waits, x, quotient));
        }
        int64_t j = k + 1;
        for (; j + POP_COLUMNS <= n; j += POP_COLUMNS) eliminate(w + j * POP_CELL, row, m, multipliers, pivot, POP_COLUMNS);
        for (; j < n; j++) eliminate(w + j * POP_CELL, row, m, multipliers, pivot, 1);
    }
    pop_v_i next = pop_v_set((int32_t)steps);
    for (int64_t i = 0; i < m; i++) { /* rows that were no pivot follow in their order */
        pop_v_i place = load_i(positions + i * POP_CELL);
        pop_v_m waits = pop_v_gt(pop_v_set(0), place);
        store_i(positions + i * POP_CELL, pop_v_select(waits, place, next));
        next = pop_v_add(next, pop_v_keep(waits, pop_v_set(1)));
    }
}

/* Row i of L (or of U) of each matrix to the line of its position. */
static void scatter_factor(const pop_factor_operand *o, char *p, int lanes, const float *line, pop_v_i place, int of_l)
{
    pop_v_f x[POP_LANES];
    const int64_t bytes = bytes_of(o->format);
    const pop_v_f one = pop_v_splat(1.0f), zero = pop_v_splat(0.0f);
    for (int64_t c = 0; c < o->columns; c += POP_LANES) {
        int n = (int)lesser(POP_LANES, o->columns - c);
        for (int i = 0; i < n; i++) {
            pop_v_i j = pop_v_set((int32_t)(c + i));
            pop_v_f found = at(line + (c + i) * POP_CELL);
            pop_v_f here = of_l ? pop_v_select_f(pop_v_eq(j, place), zero, one) : found;
            x[i] = pop_v_select_f(pop_v_gt(place, j), here, of_l ? found : zero);
        }
        for (int i = n; i < POP_LANES; i++) x[i] = zero;
        transpose_lanes(x);
        for (int l = 0; l < lanes; l++) {
            if (place[l] >= o->rows) continue;
            char *to = p + l * o->matrix + place[l] * o->line + c * bytes;
            if (o->format == POP_IS_F32) pop_v_encode_part(&POP_F32, POP_OVERFLOW_INFINITY, to, x[l], n);
            else if (o->format == POP_IS_F16) pop_v_encode_part(&POP_F16, POP_OVERFLOW_INFINITY, to, x[l], n);
            else pop_v_encode_part(&POP_BF16, POP_OVERFLOW_INFINITY, to, x[l], n);
        }
    }
}

/* Operands: A, L, U, and the rows of A that are those of L U, int32. */
static void lu_share(const void *p, const pop_tile *tile)
{
    const pop_factor_item *item = (const pop_factor_item *)p;
    const pop_factor_operand *o = item->operands;
    const int64_t m = item->rows, n = item->columns, row = (n | 1) * POP_CELL;
    float *w = workspace_of(tile), *positions = w + m * row, *multipliers = positions + m * POP_CELL;
    lane_block read = {w, o[0].transposed ? POP_CELL : row, o[0].transposed ? row : POP_CELL, o[0].rows, o[0].columns, WHOLE};
    lay_block(&read, o[0].line, bytes_of(o[0].format), (int32_t *)(void *)(multipliers + m * POP_CELL), w - POP_CELL, 0);
    for (int64_t first = item->first; first < item->first + item->count; first += POP_LANES) {
        int lanes = (int)lesser(POP_LANES, item->first + item->count - first);
        gather_block(&o[0], place_of(tile, &o[0], first), lanes, &read);
        factor_lu(w, row, m, n, positions, multipliers);
        for (int64_t i = 0; i < m; i++) {
            pop_v_i place = load_i(positions + i * POP_CELL);
            const float *line = w + i * row;
            scatter_factor(&o[1], place_of(tile, &o[1], first), lanes, line, place, 1);
            scatter_factor(&o[2], place_of(tile, &o[2], first), lanes, line, place, 0);
            for (int l = 0; l < lanes; l++) {
                int32_t from = (int32_t)i;
                memcpy(place_of(tile, &o[3], first + l) + place[l] * 4, &from, 4);
            }
        }
    }
}
#endif
