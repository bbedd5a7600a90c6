/* LU with partial pivoting of matrices side by side, up to 8 x 8: registers hold a column.
 *
 * In each step the pivot's row comes before the rows that have no position, which follow in their order and take the step's products. */
#ifndef POP_FACTOR_SMALL_LU_H
#define POP_FACTOR_SMALL_LU_H
#include "kernels/factor/lanes.h"

#define POP_SMALL_ORDER 8
#define POP_SMALL_COLUMN (POP_SMALL_ORDER * POP_CELL) /* floats from column to column */
#define POP_SMALL_EACH(i) _Pragma("GCC unroll 8") for (int i = 0; i < POP_SMALL_ORDER; i++)

/* Rows k to 7 of a column: the pivot's comes to k, and those between follow in their order: `moves` says which of them move. */
POP_INLINE void exchange_rows(pop_v_f *x, const int k, const pop_v_m *moves)
{
    pop_v_f top = x[POP_SMALL_ORDER - 1];
#pragma GCC unroll 8
    for (int i = POP_SMALL_ORDER - 1; i > k; i--) {
        top = pop_v_select_f(moves[i], x[i - 1], top);
        x[i] = pop_v_select_f(moves[i], x[i], x[i - 1]);
    }
    x[k] = top;
}

/* Multipliers where some lane's reciprocal is no normal number. */
static __attribute__((noinline)) void divide_rows(const float *column, int k, pop_v_f head, float *multipliers)
{
    const pop_v_f size = pop_v_abs(head);
    const pop_v_m low = pop_v_lt_f(size, pop_v_splat(0x1p-126f)), high = pop_v_gt_f(size, pop_v_splat(0x1p126f));
    for (int i = k + 1; i < POP_SMALL_ORDER; i++) {
        const pop_v_f quotient = at(column + i * POP_CELL) / head, product = at(multipliers + i * POP_CELL);
        pop_v_store_f(multipliers + i * POP_CELL, pop_v_select_f(high, pop_v_select_f(low, product, quotient), quotient));
    }
}

/* Step k: its column chooses the pivot, the first of the greatest magnitudes (a NaN counts as greater than all), and has the multipliers,
 * which go to `lower`; the columns of A after it take its products, those of L before it its order. */
POP_INLINE void small_step(float *w, float *lower, const int k, int rows, int columns)
{
    pop_v_f x[POP_SMALL_ORDER];
    pop_v_m moves[POP_SMALL_ORDER];
    float *own = w + k * POP_SMALL_COLUMN, *multipliers = lower + k * POP_SMALL_COLUMN;
    const pop_v_f one = pop_v_splat(1.0f);
#define POP_EACH_BELOW(i) _Pragma("GCC unroll 8") for (int i = k + 1; i < POP_SMALL_ORDER; i++)
#define POP_EACH_LEFT(i) _Pragma("GCC unroll 8") for (int i = k; i < POP_SMALL_ORDER; i++)
    POP_EACH_LEFT(i) x[i] = at(own + i * POP_CELL);
    pop_v_i best = pop_v_bits(pop_v_abs(x[k])), pivot = pop_v_set(k);
    POP_EACH_BELOW(i)
    {
        if (i >= rows) break;
        const pop_v_i size = pop_v_bits(pop_v_abs(x[i]));
        pivot = pop_v_select(pop_v_gt(size, best), pivot, pop_v_set(i));
        best = pop_v_maximum(best, size);
    }
    POP_EACH_BELOW(i) moves[i] = pop_v_gt(pivot, pop_v_set(i - 1));
    exchange_rows(x, k, moves);
    POP_EACH_LEFT(i) pop_v_store_f(own + i * POP_CELL, x[i]);
    /* a column of zeros has multipliers of zero */
    const pop_v_f head = pop_v_select_f(pop_v_eq_f(x[k], pop_v_splat(0.0f)), x[k], one), inverse = one / head;
    pop_v_store_f(multipliers + k * POP_CELL, one);
    POP_EACH_BELOW(i) pop_v_store_f(multipliers + i * POP_CELL, x[i] * inverse);
    if (some_are_hard(pop_v_abs(head))) divide_rows(own, k, head, multipliers);
    for (int c = k + 1; c < columns; c++) {
        own += POP_SMALL_COLUMN;
        POP_EACH_LEFT(i) x[i] = at(own + i * POP_CELL);
        exchange_rows(x, k, moves);
        pop_v_store_f(own + k * POP_CELL, x[k]);
        POP_EACH_BELOW(i) pop_v_store_f(own + i * POP_CELL, pop_v_fma(-at(multipliers + i * POP_CELL), x[k], x[i]));
    }
    for (int c = -1; c < k; c++) {
        float *to = lower + c * POP_SMALL_COLUMN;
        POP_EACH_LEFT(i) x[i] = at(to + i * POP_CELL);
        exchange_rows(x, k, moves);
        POP_EACH_LEFT(i) pop_v_store_f(to + i * POP_CELL, x[i]);
    }
}

#define POP_SMALL_STEPS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* Columns of A become those of U, those of `lower` those of L; before that are the numbers of the rows in their order. */
static __attribute__((noinline)) void factor_small(float *w, float *lower, int rows, int columns, lane_ahead *ahead)
{
    for (int i = 0; i < POP_SMALL_ORDER; i++) pop_v_store(lower + i * POP_CELL - POP_SMALL_COLUMN, 4, pop_v_set(i));
#define POP_STEP(k)                             \
    if (k < rows && k < columns) {              \
        small_step(w, lower, k, rows, columns); \
        prefetch_ahead(ahead);                  \
    }
    POP_SMALL_STEPS(POP_STEP)
#undef POP_STEP
}

/* Operands: A, L, U, and the rows of A that are those of L U, int32. */
static void small_lu_share(const void *p, const pop_tile *tile)
{
    const pop_factor_item *item = (const pop_factor_item *)p;
    const pop_factor_operand *o = item->operands;
    const int64_t m = item->rows, n = item->columns, steps = lesser(m, n);
    float *w = workspace_of(tile), *zero = w - POP_CELL, *order = w + n * POP_SMALL_COLUMN, *lower = order + POP_SMALL_COLUMN;
    int32_t *room = (int32_t *)(void *)(lower + POP_SMALL_ORDER * POP_SMALL_COLUMN);
    const int64_t down = POP_CELL, across = POP_SMALL_COLUMN;
    lane_block read = {w, o[0].transposed ? across : down, o[0].transposed ? down : across, o[0].rows, o[0].columns, WHOLE};
    lane_block l = {lower, down, across, m, steps, TO_DIAGONAL}, u = {w, down, across, steps, n, FROM_DIAGONAL};
    lane_block ordered = {order, across, down, 1, m, WHOLE};
    room = lay_block(&read, o[0].line, bytes_of(o[0].format), room, zero, 0);
    room = lay_block(&l, o[1].line, bytes_of(o[1].format), room, zero, 1);
    room = lay_block(&u, o[2].line, bytes_of(o[2].format), room, zero, 1);
    lay_block(&ordered, o[3].line, bytes_of(o[3].format), room, zero, 1);
    memset(w, 0, (size_t)(n * POP_SMALL_COLUMN) * sizeof *w);
    for (int64_t first = item->first; first < item->first + item->count; first += POP_LANES) {
        int lanes = (int)lesser(POP_LANES, item->first + item->count - first);
        gather_block(&o[0], place_of(tile, &o[0], first), lanes, &read);
        lane_ahead ahead = ahead_of(tile, item, 3, first + POP_LANES, POP_LANES, steps);
        factor_small(w, lower, (int)m, (int)n, &ahead);
        scatter_block(&o[1], place_of(tile, &o[1], first), lanes, &l);
        scatter_block(&o[2], place_of(tile, &o[2], first), lanes, &u);
        scatter_block(&o[3], place_of(tile, &o[3], first), lanes, &ordered);
    }
}
#endif
