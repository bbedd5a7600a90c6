/* LU with partial pivoting of matrices side by side: in each step the pivot's row comes before the rows that have no position, which
 * follow in their order, and these take the step's products. Registers hold a column of up to eight rows. */
#ifndef POP_FACTOR_SMALL_LU_H
#define POP_FACTOR_SMALL_LU_H
#include "kernels/factor/lanes.h"

#define POP_HELD 8      /* rows that registers hold */
#define POP_HELD_ROW ((POP_HELD + 1) * POP_CELL) /* floats from such a row to the next */
#define POP_EXCHANGED 4 /* columns that are exchanged at once where there are more rows */

/* Matrices at work: U over the multipliers of L, and before each row its number in A. */
typedef struct lu_lanes {
    float *w, *moves;     /* of each row below the step's -1 where the row above it comes to it, else 0 */
    int64_t row, m, n;
} lu_lanes;

POP_INLINE pop_v_i load_i(const float *p) { return pop_v_load(p, 4); }
POP_INLINE void store_i(float *p, pop_v_i x) { pop_v_store(p, 4, x); }
POP_INLINE void store_moves(const lu_lanes *a, int64_t i, pop_v_m moves)
{
    store_i(a->moves + i * POP_CELL, pop_v_keep(moves, pop_v_set(-1)));
}
POP_INLINE pop_v_m moves_at(const lu_lanes *a, int64_t i)
{
#if POP_LANES == 16
    return pop_v_gt(pop_v_set(0), load_i(a->moves + i * POP_CELL));
#else
    return load_i(a->moves + i * POP_CELL);
#endif
}

#define POP_WIDE_EACH(c) _Pragma("GCC unroll 4") for (int c = 0; c < wide; c++)

/* Rows from k on of `wide` columns take the order of step k. */
POP_INLINE void exchange_columns(const lu_lanes *a, int64_t k, int64_t column, const int wide)
{
    pop_v_f top[POP_EXCHANGED], own[POP_EXCHANGED];
    float *to = a->w + (a->m - 1) * a->row + column * POP_CELL;
    POP_WIDE_EACH(c) own[c] = top[c] = at(to + c * POP_CELL);
    for (int64_t i = a->m - 1; i > k; i--, to -= a->row) {
        const pop_v_m moves = moves_at(a, i);
        POP_WIDE_EACH(c)
        {
            const pop_v_f above = at(to - a->row + c * POP_CELL);
            top[c] = pop_v_select_f(moves, above, top[c]);
            pop_v_store_f(to + c * POP_CELL, pop_v_select_f(moves, own[c], above));
            own[c] = above;
        }
    }
    POP_WIDE_EACH(c) pop_v_store_f(to + c * POP_CELL, top[c]);
}

/* And its products. */
POP_INLINE void subtract_columns(const lu_lanes *a, int64_t k, int64_t column, const int wide)
{
    pop_v_f top[POP_EXCHANGED], own[POP_EXCHANGED];
    float *to = a->w + k * a->row + column * POP_CELL;
    const float *from = to, *multipliers = a->w + k * POP_CELL;
    POP_WIDE_EACH(c) own[c] = top[c] = at(to + c * POP_CELL);
    for (int64_t i = k + 1; i < a->m; i++) {
        const pop_v_m moves = moves_at(a, i);
        from += a->row;
        POP_WIDE_EACH(c) top[c] = pop_v_select_f(moves, top[c], at(from + c * POP_CELL));
    }
    POP_WIDE_EACH(c) pop_v_store_f(to + c * POP_CELL, top[c]);
    for (int64_t i = k + 1; i < a->m; i++) {
        const pop_v_m moves = moves_at(a, i);
        const pop_v_f multiplier = at(multipliers + i * a->row);
        to += a->row;
        POP_WIDE_EACH(c)
        {
            const pop_v_f x = at(to + c * POP_CELL), y = pop_v_select_f(moves, x, own[c]);
            pop_v_store_f(to + c * POP_CELL, pop_v_fma(-multiplier, top[c], y));
            own[c] = x;
        }
    }
}

/* What quotients are by: a column of zeros has multipliers of zero. */
POP_INLINE pop_v_f divisor_of(pop_v_f head) { return pop_v_select_f(pop_v_eq_f(head, pop_v_splat(0.0f)), head, pop_v_splat(1.0f)); }

/* A multiplier where some lane's reciprocal is no normal number. */
POP_INLINE pop_v_f hard_quotient(pop_v_f x, pop_v_f head)
{
    const pop_v_f size = pop_v_abs(head), product = x * (pop_v_splat(1.0f) / head), quotient = x / head;
    const pop_v_m low = pop_v_lt_f(size, pop_v_splat(0x1p-126f)), high = pop_v_gt_f(size, pop_v_splat(0x1p126f));
    return pop_v_select_f(high, pop_v_select_f(low, product, quotient), quotient);
}

/* Step k's column chooses the pivot, the first of the greatest magnitudes (a NaN counts as greater than all), and becomes multipliers. */
POP_INLINE void choose_row(const lu_lanes *a, int64_t k)
{
    float *column = a->w + k * POP_CELL + k * a->row, *to = column;
    pop_v_f above = at(column), top = above;
    pop_v_i best = pop_v_bits(pop_v_abs(top)), pivot = pop_v_set((int32_t)k);
    for (int64_t i = k + 1; i < a->m; i++) {
        const pop_v_f x = at(to += a->row);
        const pop_v_i size = pop_v_bits(pop_v_abs(x));
        const pop_v_m better = pop_v_gt(size, best);
        pivot = pop_v_select(better, pivot, pop_v_set((int32_t)i));
        top = pop_v_select_f(better, top, x);
        best = pop_v_maximum(best, size);
    }
    const pop_v_f head = divisor_of(top), inverse = pop_v_splat(1.0f) / head;
    const int hard = some_are_hard(pop_v_abs(head));
    pop_v_store_f(to = column, top);
    for (int64_t i = k + 1; i < a->m; i++) {
        const pop_v_m moves = pop_v_gt(pivot, pop_v_set((int32_t)i - 1));
        const pop_v_f x = at(to += a->row), own = pop_v_select_f(moves, x, above);
        store_moves(a, i, moves);
        pop_v_store_f(to, hard ? hard_quotient(own, head) : own * inverse);
        above = x;
    }
}

static __attribute__((noinline)) void factor_lanes(const lu_lanes *given, lane_ahead *ahead)
{
    const lu_lanes own = *given, *a = &own; /* which no store changes */
    for (int64_t k = 0, steps = lesser(a->m, a->n); k < steps; k++) {
        choose_row(a, k);
        int64_t c = k + 1;
        for (; c + POP_EXCHANGED <= a->n; c += POP_EXCHANGED) subtract_columns(a, k, c, POP_EXCHANGED);
        if (c + 2 <= a->n) subtract_columns(a, k, c, 2), c += 2;
        if (c < a->n) subtract_columns(a, k, c, 1);
        for (c = -1; c + POP_EXCHANGED <= k; c += POP_EXCHANGED) exchange_columns(a, k, c, POP_EXCHANGED);
        if (c + 2 <= k) exchange_columns(a, k, c, 2), c += 2;
        if (c < k) exchange_columns(a, k, c, 1);
        prefetch_ahead(ahead);
    }
}

/* The same of up to eight rows and columns: rows k to 7 of a column. */
POP_INLINE void exchange_held(pop_v_f *x, const int k, const pop_v_m *moves)
{
    pop_v_f top = x[POP_HELD - 1];
#pragma GCC unroll 8
    for (int i = POP_HELD - 1; i > k; i--) {
        top = pop_v_select_f(moves[i], x[i - 1], top);
        x[i] = pop_v_select_f(moves[i], x[i], x[i - 1]);
    }
    x[k] = top;
}

#define POP_EACH_BELOW(i) _Pragma("GCC unroll 8") for (int i = k + 1; i < POP_HELD; i++)
#define POP_EACH_LEFT(i) _Pragma("GCC unroll 8") for (int i = k; i < POP_HELD; i++)
static __attribute__((noinline)) void divide_held(float *column, int k, const pop_v_f *x, pop_v_f head)
{
    for (int i = k + 1; i < POP_HELD; i++) pop_v_store_f(column + i * POP_HELD_ROW, hard_quotient(x[i], head));
}

POP_INLINE void step_held(const lu_lanes *a, const int k)
{
    pop_v_f x[POP_HELD];
    pop_v_m moves[POP_HELD];
    const int64_t row = POP_HELD_ROW;
    float *own = a->w + k * POP_CELL;
    pop_v_i pivot = pop_v_set(k);
    POP_EACH_LEFT(i) x[i] = at(own + i * row);
    pop_v_i best = pop_v_bits(pop_v_abs(x[k]));
    POP_EACH_BELOW(i)
    {
        if (i >= a->m) break;
        const pop_v_i size = pop_v_bits(pop_v_abs(x[i]));
        pivot = pop_v_select(pop_v_gt(size, best), pivot, pop_v_set(i));
        best = pop_v_maximum(best, size);
    }
    POP_EACH_BELOW(i) moves[i] = pop_v_gt(pivot, pop_v_set(i - 1));
    exchange_held(x, k, moves);
    const pop_v_f head = divisor_of(x[k]), inverse = pop_v_splat(1.0f) / head;
    pop_v_store_f(own + k * row, x[k]);
    POP_EACH_BELOW(i) pop_v_store_f(own + i * row, x[i] * inverse);
    if (some_are_hard(pop_v_abs(head))) divide_held(own, k, x, head);
    const float *multipliers = own;
    for (int64_t c = k + 1; c < a->n; c++) {
        own += POP_CELL;
        POP_EACH_LEFT(i) x[i] = at(own + i * row);
        exchange_held(x, k, moves);
        pop_v_store_f(own + k * row, x[k]);
        POP_EACH_BELOW(i) pop_v_store_f(own + i * row, pop_v_fma(-at(multipliers + i * row), x[k], x[i]));
    }
    own = a->w - POP_CELL;
    for (int c = -1; c < k; c++, own += POP_CELL) {
        POP_EACH_LEFT(i) x[i] = at(own + i * row);
        exchange_held(x, k, moves);
        POP_EACH_LEFT(i) pop_v_store_f(own + i * row, x[i]);
    }
}

static __attribute__((noinline)) void factor_held(const lu_lanes *given, lane_ahead *ahead)
{
    const lu_lanes a = *given;
    const int64_t steps = lesser(a.m, a.n);
#define POP_STEP(k)            \
    if (k < steps) {           \
        step_held(&a, k);      \
        prefetch_ahead(ahead); \
    }
    POP_STEP(0) POP_STEP(1) POP_STEP(2) POP_STEP(3) POP_STEP(4) POP_STEP(5) POP_STEP(6) POP_STEP(7)
#undef POP_STEP
}

/* Operands: A, L, U, and the rows of A that are those of L U, int32. */
static void small_lu_share(const void *p, const pop_tile *tile)
{
    const pop_factor_item *item = (const pop_factor_item *)p;
    const pop_factor_operand *o = item->operands;
    const int64_t m = item->rows, n = item->columns;
    const int held = m <= POP_HELD && n <= POP_HELD && !POP_ONE_BODY;
    const int64_t row = held ? POP_HELD_ROW : (n + 1) * POP_CELL, rows = held ? POP_HELD : m;
    float *ones = workspace_of(tile), *zero = ones - POP_CELL, *moves = ones + POP_CELL, *numbers = moves + m * POP_CELL;
    float *w = numbers + POP_CELL;
    const lu_lanes a = {w, moves, row, m, n};
    int32_t *room = (int32_t *)(void *)(numbers + rows * row);
    lane_block read = {w, o[0].transposed ? POP_CELL : row, o[0].transposed ? row : POP_CELL, o[0].rows, o[0].columns, WHOLE};
    lane_block l = {w, row, POP_CELL, m, lesser(m, n), TO_DIAGONAL, .ones = ones}, u = {w, row, POP_CELL, lesser(m, n), n, FROM_DIAGONAL};
    lane_block ordered = {numbers, 0, row, 1, m, WHOLE};
    room = lay_block(&read, o[0].line, bytes_of(o[0].format), room, zero, 0);
    room = lay_block(&l, o[1].line, bytes_of(o[1].format), room, zero, 1);
    room = lay_block(&u, o[2].line, bytes_of(o[2].format), room, zero, 1);
    lay_block(&ordered, o[3].line, bytes_of(o[3].format), room, zero, 1);
    pop_v_store_f(ones, pop_v_splat(1.0f));
    memset(numbers, 0, (size_t)(rows * row) * sizeof *w); /* rows that are held and nobody reads */
    for (int64_t first = item->first; first < item->first + item->count; first += POP_LANES) {
        int lanes = (int)lesser(POP_LANES, item->first + item->count - first);
        lane_ahead ahead = ahead_of(tile, item, 3, first + POP_LANES, POP_LANES, lesser(m, n));
        gather_block(&o[0], place_of(tile, &o[0], first), lanes, &read);
        for (int64_t i = 0; i < m; i++) store_i(numbers + i * row, pop_v_set((int32_t)i));
        if (held) factor_held(&a, &ahead);
        else factor_lanes(&a, &ahead);
        scatter_block(&o[1], place_of(tile, &o[1], first), lanes, &l);
        scatter_block(&o[2], place_of(tile, &o[2], first), lanes, &u);
        scatter_block(&o[3], place_of(tile, &o[3], first), lanes, &ordered);
    }
}
#endif
