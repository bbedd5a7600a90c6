/* LU with partial pivoting: rows stay where they are, each lane keeps the position that each row gets, and rows move when
 * they are written. A step updates the rows that have no position yet. */
#ifndef POP_FACTOR_LU_H
#define POP_FACTOR_LU_H
#include "kernels/factor/cholesky.h"

#define POP_COLUMNS 4 /* that a step updates together */

POP_INLINE pop_v_i load_i(const float *p) { return pop_v_load(p, 4); }
POP_INLINE void store_i(float *p, pop_v_i x) { pop_v_store(p, 4, x); }

/* The row of each lane's pivot, and the pivot: the greatest magnitude (a NaN counts as greater than all) among the rows
 * without a position. */
POP_INLINE pop_v_i choose_pivot(const float *column, int64_t row, int64_t m, const float *positions, pop_v_f *head)
{
    pop_v_i best = pop_v_set(-1), chosen = pop_v_set(0);
    for (int64_t i = 0; i < m; i++) {
        pop_v_f x = at(column + i * row);
        pop_v_i size = pop_v_bits(pop_v_abs(x));
        size = pop_v_select(pop_v_gt(pop_v_set(0), load_i(positions + i * POP_CELL)), pop_v_set(-1), size);
        pop_v_m better = pop_v_gt(size, best);
        best = pop_v_select(better, best, size);
        chosen = pop_v_select(better, chosen, pop_v_set((int32_t)i));
        *head = pop_v_select_f(better, *head, x);
    }
    return chosen;
}

/* Subtract the pivots' rows, times multipliers, from some columns of the rows that have no position. */
POP_INLINE void eliminate(float *w, int64_t row, int64_t m, const float *multipliers, pop_v_i pivot)
{
    pop_v_f top[POP_COLUMNS];
#pragma GCC unroll 4
    for (int c = 0; c < POP_COLUMNS; c++) top[c] = pop_v_splat(0.0f);
    for (int64_t i = 0; i < m; i++) {
        pop_v_m here = pop_v_eq(pivot, pop_v_set((int32_t)i));
#pragma GCC unroll 4
        for (int c = 0; c < POP_COLUMNS; c++) top[c] = pop_v_select_f(here, top[c], at(w + i * row + c * POP_CELL));
    }
#pragma GCC unroll 4
    for (int c = 0; c < POP_COLUMNS; c++) top[c] = -top[c];
    for (int64_t i = 0; i < m; i++) {
        pop_v_f by = at(multipliers + i * POP_CELL);
#pragma GCC unroll 4
        for (int c = 0; c < POP_COLUMNS; c++) {
            float *x = w + i * row + c * POP_CELL;
            pop_v_store_f(x, pop_v_fma(by, top[c], at(x)));
        }
    }
}

/* Factors over A, m x n, with room for POP_COLUMNS columns more; positions of rows, as whole numbers; room for m
 * multipliers. */
static __attribute__((noinline)) void factor_lu(float *w, int64_t row, int64_t m, int64_t n, float *positions, float *multipliers)
{
    const int64_t steps = lesser(m, n);
    for (int64_t i = 0; i < m; i++) store_i(positions + i * POP_CELL, pop_v_set(-1));
    for (int64_t k = 0; k < steps; k++) {
        float *column = w + k * POP_CELL;
        pop_v_f head = pop_v_splat(0.0f);
        const pop_v_i pivot = choose_pivot(column, row, m, positions, &head), step = pop_v_set((int32_t)k);
        /* a column of zeros has multipliers of zero */
        head = pop_v_select_f(pop_v_eq_f(head, pop_v_splat(0.0f)), head, pop_v_splat(1.0f));
        const pop_v_f inverse = pop_v_splat(1.0f) / head, size = pop_v_abs(head);
        const pop_v_m low = pop_v_lt_f(size, pop_v_splat(0x1p-126f)), high = pop_v_gt_f(size, pop_v_splat(0x1p126f));
        const int hard = pop_v_any(low) || pop_v_any(high); /* where the reciprocal is no normal number */
        for (int64_t i = 0; i < m; i++) {
            pop_v_i place = load_i(positions + i * POP_CELL);
            place = pop_v_select(pop_v_eq(pivot, pop_v_set((int32_t)i)), place, step);
            store_i(positions + i * POP_CELL, place);
            pop_v_m waits = pop_v_gt(pop_v_set(0), place);
            pop_v_f x = at(column + i * row), quotient = x * inverse;
            if (hard) quotient = pop_v_select_f(high, pop_v_select_f(low, quotient, x / head), x / head);
            pop_v_store_f(multipliers + i * POP_CELL, pop_v_select_f(waits, pop_v_splat(0.0f), quotient));
            pop_v_store_f(column + i * row, pop_v_select_f(waits, x, quotient));
        }
        for (int64_t j = k + 1; j < n; j += POP_COLUMNS) eliminate(w + j * POP_CELL, row, m, multipliers, pivot);
    }
    pop_v_i next = pop_v_set((int32_t)steps);
    for (int64_t i = 0; i < m; i++) { /* rows that were no pivot follow in their order */
        pop_v_i place = load_i(positions + i * POP_CELL);
        pop_v_m waits = pop_v_gt(pop_v_set(0), place);
        store_i(positions + i * POP_CELL, pop_v_select(waits, place, next));
        next = pop_v_add(next, pop_v_keep(waits, pop_v_set(1)));
    }
}

/* A row of each matrix as the factors have it, to the lines of its position in L and in U. */
POP_INLINE void scatter_row(const pop_format *f, const pop_factor_operand *l, const pop_factor_operand *u, char *l_at, char *u_at,
                            int lanes, const float *line, const int32_t *place)
{
    const int64_t n = u->columns, steps = l->columns, bytes = pop_bytes(f);
    const pop_v_f one = pop_v_splat(1.0f), zero = pop_v_splat(0.0f);
    int32_t count[POP_LANES];
    for (int i = 0; i < POP_LANES; i++) count[i] = i;
    const pop_v_i lane = pop_v_load(count, 4);
    for (int64_t c = 0; c < n; c += POP_LANES) {
        pop_v_f x[POP_LANES];
        const int left = (int)lesser(POP_LANES, n - c), of_l = (int)lesser(POP_LANES, steps - c);
        if (left == POP_LANES) {
#pragma GCC unroll 16
            for (int i = 0; i < POP_LANES; i++) x[i] = at(line + (c + i) * POP_CELL);
        } else {
            for (int i = 0; i < POP_LANES; i++) x[i] = i < left ? at(line + (c + i) * POP_CELL) : zero;
        }
        transpose_lanes(x);
        const int square = lanes == POP_LANES && l->rows == steps && of_l == left, whole = square && left == POP_LANES;
#define POP_OF_LANE                                                                                  \
    pop_v_i own = pop_v_set((int32_t)(place[k] - c));                                                \
    pop_v_m before = pop_v_gt(own, lane); /* multipliers */                                          \
    pop_v_f low = pop_v_select_f(before, zero, x[k]), high = pop_v_select_f(before, x[k], zero);     \
    char *l_to = l_at + k * l->matrix + place[k] * l->line + c * bytes;                              \
    char *u_to = u_at + k * u->matrix + place[k] * u->line + c * bytes;                              \
    low = pop_v_select_f(pop_v_eq(own, lane), low, one);
        if (whole) {
#pragma GCC unroll 16
            for (int k = 0; k < POP_LANES; k++) {
                POP_OF_LANE
                pop_v_encode(f, POP_OVERFLOW_INFINITY, l_to, low);
                pop_v_encode(f, POP_OVERFLOW_INFINITY, u_to, high);
            }
        } else if (square) {
#pragma GCC unroll 16
            for (int k = 0; k < POP_LANES; k++) {
                POP_OF_LANE
                pop_v_encode_part(f, POP_OVERFLOW_INFINITY, l_to, low, left);
                pop_v_encode_part(f, POP_OVERFLOW_INFINITY, u_to, high, left);
            }
        } else {
            for (int k = 0; k < lanes; k++) {
                POP_OF_LANE
                if (of_l > 0) pop_v_encode_part(f, POP_OVERFLOW_INFINITY, l_to, low, of_l);
                if (place[k] < steps) pop_v_encode_part(f, POP_OVERFLOW_INFINITY, u_to, high, left);
            }
        }
#undef POP_OF_LANE
    }
}

#define POP_ROW_WRITER(constant, function)                                                                                \
    static __attribute__((noinline)) void write_row_##function(const pop_factor_operand *l, const pop_factor_operand *u,  \
                                                               char *l_at, char *u_at, int lanes, const float *line,      \
                                                               const int32_t *place)                                      \
    {                                                                                                                     \
        scatter_row(&POP_##constant, l, u, l_at, u_at, lanes, line, place);                                               \
    }
POP_ROW_WRITER(F32, f32)
POP_ROW_WRITER(F16, f16)
POP_ROW_WRITER(BF16, bf16)

/* Operands: A, L, U, and the rows of A that are those of L U, int32. */
static void lu_share(const void *p, const pop_tile *tile)
{
    const pop_factor_item *item = (const pop_factor_item *)p;
    const pop_factor_operand *o = item->operands;
    const int64_t m = item->rows, n = item->columns, row = ((n + POP_COLUMNS) | 1) * POP_CELL;
    float *w = workspace_of(tile), *positions = w + m * row, *multipliers = positions + m * POP_CELL;
    lane_block read = {w, o[0].transposed ? POP_CELL : row, o[0].transposed ? row : POP_CELL, o[0].rows, o[0].columns, WHOLE};
    lay_block(&read, o[0].line, bytes_of(o[0].format), (int32_t *)(void *)(multipliers + m * POP_CELL), w - POP_CELL, 0);
    memset(w, 0, (size_t)(m * row) * sizeof *w); /* the columns that nobody reads */
    for (int64_t first = item->first; first < item->first + item->count; first += POP_LANES) {
        int lanes = (int)lesser(POP_LANES, item->first + item->count - first);
        gather_block(&o[0], place_of(tile, &o[0], first), lanes, &read);
        factor_lu(w, row, m, n, positions, multipliers);
        char *l_at = place_of(tile, &o[1], first), *u_at = place_of(tile, &o[2], first), *perm = place_of(tile, &o[3], first);
        for (int64_t i = 0; i < m; i++) {
            int32_t place[POP_LANES], row_of_a = (int32_t)i;
            memcpy(place, positions + i * POP_CELL, sizeof place);
            if (o[1].format == POP_IS_F32) write_row_f32(&o[1], &o[2], l_at, u_at, lanes, w + i * row, place);
            else if (o[1].format == POP_IS_F16) write_row_f16(&o[1], &o[2], l_at, u_at, lanes, w + i * row, place);
            else write_row_bf16(&o[1], &o[2], l_at, u_at, lanes, w + i * row, place);
            for (int l = 0; l < lanes; l++) memcpy(perm + l * o[3].matrix + place[l] * 4, &row_of_a, 4);
        }
    }
}
#endif
