/* LU with partial pivoting: rows stay where they are, each lane keeps the position that each row gets, and rows move when
 * they are written. Steps are done by panels: a column of a panel takes the products of the panel's steps before it, the
 * columns after the panel those of all its steps. Rows that have a position get products with zero. */
#ifndef POP_FACTOR_LU_H
#define POP_FACTOR_LU_H
#include "kernels/factor/cholesky.h"

#define POP_STEPS 4 /* of a panel */

/* A panel's steps. */
typedef struct lu_panel {
    pop_v_i pivots[POP_STEPS];                    /* rows */
    pop_v_f before[POP_STEPS][POP_STEPS];         /* [s][t]: step t's multiplier of the row of step s */
    pop_v_f top[POP_STEPS][POP_STEPS];            /* [s][c]: the row of step s in the panel's column c, as it is subtracted */
    float *multipliers;                           /* of each row those of all steps, negative */
} lu_panel;

POP_INLINE pop_v_i load_i(const float *p) { return pop_v_load(p, 4); }
POP_INLINE void store_i(float *p, pop_v_i x) { pop_v_store(p, 4, x); }

/* A column of the panel: it takes the products of the `s` steps before, then the greatest magnitude (a NaN counts as
 * greater than all) among the rows without a position is its pivot. `places` has of each row 0, or ~ its position. */
POP_INLINE pop_v_f choose_pivot(lu_panel *p, int s, float *column, int64_t row, int64_t m, const float *places)
{
    pop_v_i best = pop_v_set(-1), chosen = pop_v_set(0);
    pop_v_f head = pop_v_splat(0.0f);
    for (int64_t i = 0; i < m; i++) {
        pop_v_f x = at(column + i * row);
#pragma GCC unroll 4
        for (int t = 0; t < s; t++) x = pop_v_fma(at(p->multipliers + (i * POP_STEPS + t) * POP_CELL), p->top[t][s], x);
        if (s) pop_v_store_f(column + i * row, x);
        pop_v_i size = pop_v_or(pop_v_bits(pop_v_abs(x)), load_i(places + i * POP_CELL));
        pop_v_m better = pop_v_gt(size, best);
        best = pop_v_maximum(best, size);
        chosen = pop_v_select(better, chosen, pop_v_set((int32_t)i));
        head = pop_v_select_f(better, head, x);
    }
    p->pivots[s] = chosen;
    return head;
}

/* Step k, the panel's `s`: a pivot, its row's position, and multipliers over the column. */
POP_INLINE void factor_column(lu_panel *p, int s, float *column, int64_t row, int64_t m, int64_t k, float *places)
{
    const pop_v_f zero = pop_v_splat(0.0f), one = pop_v_splat(1.0f);
    pop_v_f head = choose_pivot(p, s, column, row, m, places);
    const pop_v_i pivot = p->pivots[s], step = pop_v_set(~(int32_t)k);
    /* a column of zeros has multipliers of zero */
    head = pop_v_select_f(pop_v_eq_f(head, zero), head, one);
    const pop_v_f inverse = one / head, size = pop_v_abs(head);
    const pop_v_m low = pop_v_lt_f(size, pop_v_splat(0x1p-126f)), high = pop_v_gt_f(size, pop_v_splat(0x1p126f));
    const int hard = pop_v_any(low) || pop_v_any(high); /* where the reciprocal is no normal number */
    pop_v_f before[POP_STEPS], top[POP_STEPS];
#pragma GCC unroll 4
    for (int t = 0; t < POP_STEPS; t++) before[t] = top[t] = zero;
    for (int64_t i = 0; i < m; i++) {
        const pop_v_m here = pop_v_eq(pivot, pop_v_set((int32_t)i));
        float *multipliers = p->multipliers + i * POP_STEPS * POP_CELL, *x_at = column + i * row;
        const pop_v_i place = pop_v_select(here, load_i(places + i * POP_CELL), step);
        store_i(places + i * POP_CELL, place);
        const pop_v_m waits = pop_v_eq(place, pop_v_set(0));
        pop_v_f x = at(x_at), quotient = x * inverse;
        if (hard) quotient = pop_v_select_f(high, pop_v_select_f(low, quotient, x / head), x / head);
        pop_v_store_f(multipliers + s * POP_CELL, pop_v_select_f(waits, zero, -quotient));
        pop_v_store_f(x_at, pop_v_select_f(waits, x, quotient));
#pragma GCC unroll 4
        for (int t = 0; t < s; t++) before[t] = pop_v_select_f(here, before[t], at(multipliers + t * POP_CELL));
#pragma GCC unroll 4
        for (int c = s + 1; c < POP_STEPS; c++) top[c] = pop_v_select_f(here, top[c], at(x_at + (c - s) * POP_CELL));
    }
#pragma GCC unroll 4
    for (int t = 0; t < s; t++) {
        p->before[s][t] = before[t];
#pragma GCC unroll 4
        for (int c = s + 1; c < POP_STEPS; c++) top[c] = pop_v_fma(before[t], p->top[t][c], top[c]);
    }
#pragma GCC unroll 4
    for (int c = s + 1; c < POP_STEPS; c++) p->top[s][c] = top[c];
}

/* Subtract the products of the panel's first `rank` steps from `wide` columns. */
POP_INLINE void subtract_steps(const lu_panel *p, float *w, int64_t row, int64_t m, int rank, int wide)
{
    pop_v_f top[POP_STEPS][POP_WIDE];
#pragma GCC unroll 4
    for (int s = 0; s < rank; s++)
#pragma GCC unroll 4
        for (int c = 0; c < wide; c++) top[s][c] = pop_v_splat(0.0f);
    for (int64_t i = 0; i < m; i++)
#pragma GCC unroll 4
        for (int s = 0; s < rank; s++) {
            pop_v_m here = pop_v_eq(p->pivots[s], pop_v_set((int32_t)i));
#pragma GCC unroll 4
            for (int c = 0; c < wide; c++) top[s][c] = pop_v_select_f(here, top[s][c], at(w + i * row + c * POP_CELL));
        }
#pragma GCC unroll 4
    for (int s = 1; s < rank; s++)
#pragma GCC unroll 4
        for (int t = 0; t < s; t++)
#pragma GCC unroll 4
            for (int c = 0; c < wide; c++) top[s][c] = pop_v_fma(p->before[s][t], top[t][c], top[s][c]);
    for (int64_t i = 0; i < m; i++) {
        const float *multipliers = p->multipliers + i * POP_STEPS * POP_CELL;
#pragma GCC unroll 4
        for (int c = 0; c < wide; c++) {
            float *x = w + i * row + c * POP_CELL;
            pop_v_f sum = at(x);
#pragma GCC unroll 4
            for (int s = 0; s < rank; s++) sum = pop_v_fma(at(multipliers + s * POP_CELL), top[s][c], sum);
            pop_v_store_f(x, sum);
        }
    }
}

/* Prefetch what rows at position k of the factors replace, while there is time, where a row fills lines of memory: those lie
 * too far apart for the hardware to see them coming. To the second-level cache: the first is full. */
POP_INLINE void prefetch_replaced(const pop_tile *tile, const pop_factor_operand *o, int64_t first, int lanes, int64_t k)
{
    const int64_t bytes = o->columns * bytes_of(o->format);
    const char *to = place_of(tile, o, first) + k * o->line;
    for (int l = 0; k < o->rows && l < lanes; l++, to += o->matrix)
        pop_prefetch_l2_lines(pop_beyond(to, 0), bytes & -64);
}

/* Factors over A, m x n, with room for a multiple of four columns; rows by position, and ~ places of rows, as whole
 * numbers. */
static __attribute__((noinline)) void factor_lu(float *w, int64_t row, int64_t m, int64_t n, float *order, float *places,
                                                float *multipliers, const pop_tile *tile, const pop_factor_operand *o,
                                                int64_t first, int lanes, lane_ahead *ahead)
{
    const int64_t steps = lesser(m, n);
    lu_panel p = {.multipliers = multipliers};
    for (int64_t i = 0; i < m; i++) store_i(places + i * POP_CELL, pop_v_set(0));
    for (int64_t k = 0; k < steps; k += POP_STEPS) {
        const int rank = (int)lesser(POP_STEPS, steps - k);
#pragma GCC unroll 4
        for (int s = 0; s < POP_STEPS; s++) {
            if (s == rank) break;
            factor_column(&p, s, w + (k + s) * POP_CELL, row, m, k + s, places);
            store_i(order + (k + s) * POP_CELL, p.pivots[s]);
            prefetch_replaced(tile, &o[1], first, lanes, k + s);
            prefetch_replaced(tile, &o[2], first, lanes, k + s);
            prefetch_ahead(ahead);
        }
        float *rest = w + (k + rank) * POP_CELL, *end = w + n * POP_CELL;
        if (rank == POP_STEPS)
            for (; rest < end; rest += POP_WIDE * POP_CELL) subtract_steps(&p, rest, row, m, POP_STEPS, POP_WIDE);
        for (; rest < end; rest += POP_CELL) {
            if (rank == 1) subtract_steps(&p, rest, row, m, 1, 1);
            if (rank == 2) subtract_steps(&p, rest, row, m, 2, 1);
            if (rank == 3) subtract_steps(&p, rest, row, m, 3, 1);
        }
    }
    pop_v_i next = pop_v_set(~(int32_t)steps);
    for (int64_t i = 0; i < m && steps < m; i++) { /* rows that were no pivot follow in their order */
        pop_v_i place = load_i(places + i * POP_CELL);
        pop_v_m waits = pop_v_eq(place, pop_v_set(0));
        place = pop_v_select(waits, place, next);
        store_i(places + i * POP_CELL, place);
        next = pop_v_sub(next, pop_v_keep(waits, pop_v_set(1)));
        for (int l = 0; l < POP_LANES; l++) memcpy(order + ~place[l] * POP_CELL + l, &(int32_t){(int32_t)i}, 4);
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

/* Operands: A, L, U, and the rows of A that are those of L U, int32. Rows of factors that fill lines are prefetched by their positions,
 * others with the next matrices. */
static void lu_share(const void *p, const pop_tile *tile)
{
    const pop_factor_item *item = (const pop_factor_item *)p;
    const pop_factor_operand *o = item->operands;
    const int64_t m = item->rows, n = item->columns, row = (((n + POP_STEPS - 1) & -POP_STEPS) | 1) * POP_CELL;
    float *w = workspace_of(tile), *places = w + m * row, *order = places + m * POP_CELL, *multipliers = order + m * POP_CELL;
    int32_t *room = (int32_t *)(void *)(multipliers + m * POP_STEPS * POP_CELL);
    lane_block read = {w, o[0].transposed ? POP_CELL : row, o[0].transposed ? row : POP_CELL, o[0].rows, o[0].columns, WHOLE};
    lane_block ordered = {order, m * POP_CELL, POP_CELL, 1, m, WHOLE};
    room = lay_block(&read, o[0].line, bytes_of(o[0].format), room, w - POP_CELL, 0);
    lay_block(&ordered, o[3].line, bytes_of(o[3].format), room, w - POP_CELL, 1);
    memset(w, 0, (size_t)(m * row) * sizeof *w); /* the columns that nobody reads */
    for (int64_t first = item->first; first < item->first + item->count; first += POP_LANES) {
        int lanes = (int)lesser(POP_LANES, item->first + item->count - first);
        gather_block(&o[0], place_of(tile, &o[0], first), lanes, &read);
        lane_ahead ahead = ahead_of(tile, item, o[1].line < 64 ? 3 : 1, first + POP_LANES, POP_LANES, lesser(m, n));
        factor_lu(w, row, m, n, order, places, multipliers, tile, o, first, lanes, &ahead);
        scatter_block(&o[3], place_of(tile, &o[3], first), lanes, &ordered);
        char *l_at = place_of(tile, &o[1], first), *u_at = place_of(tile, &o[2], first);
        for (int64_t i = 0; i < m; i++) {
            int32_t place[POP_LANES];
            pop_v_store(place, 4, ~load_i(places + i * POP_CELL));
            if (o[1].format == POP_IS_F32) write_row_f32(&o[1], &o[2], l_at, u_at, lanes, w + i * row, place);
            else if (o[1].format == POP_IS_F16) write_row_f16(&o[1], &o[2], l_at, u_at, lanes, w + i * row, place);
            else write_row_bf16(&o[1], &o[2], l_at, u_at, lanes, w + i * row, place);
        }
    }
}
#endif
