/* Triangular systems. Every one is brought to T X = B with a lower T: a transpose changes what a line of memory is, an upper
 * triangle becomes a lower one when rows and columns are counted from the other end, and X A = B is A' X' = B'. */
#ifndef POP_FACTOR_SOLVE_H
#define POP_FACTOR_SOLVE_H
#include "kernels/factor/cholesky.h"

#define POP_PANEL 16 /* right-hand sides that are solved at a time */

/* What a row is divided by. A reciprocal is a normal number where the diagonal is neither tiny nor huge; elsewhere the row
 * is divided, lane by lane. */
typedef struct lane_divisors {
    float *inverses, *diagonal;
    int32_t *hard; /* for each row, whether some lane has to be divided */
} lane_divisors;

static pop_v_f make_divisors(const float *t, int64_t row, int64_t n, const lane_divisors *d)
{
    pop_v_f least = pop_v_splat(INFINITY);
    for (int64_t i = 0; i < n; i++) {
        pop_v_f x = at(t + i * row + i * POP_CELL), size = pop_v_abs(x);
        least = pop_v_select_f(pop_v_lt_f(size, least), least, size); /* a NaN is no zero */
        pop_v_store_f(d->diagonal + i * POP_CELL, x);
        pop_v_store_f(d->inverses + i * POP_CELL, pop_v_splat(1.0f) / x);
        d->hard[i] = some_are_hard(size);
    }
    return least;
}

POP_INLINE pop_v_f divided(pop_v_f x, const lane_divisors *d, int64_t i)
{
    pop_v_f made = x * at(d->inverses + i * POP_CELL);
    if (d->hard[i]) {
        pop_v_f by = at(d->diagonal + i * POP_CELL), size = pop_v_abs(by);
        pop_v_f slow = x / by;
        made = pop_v_select_f(pop_v_lt_f(size, pop_v_splat(0x1p-126f)), made, slow);
        made = pop_v_select_f(pop_v_gt_f(size, pop_v_splat(0x1p126f)), made, slow);
    }
    return made;
}

/* Columns [0, wide) of X over B; n a multiple of four. */
POP_INLINE void solve_columns(const float *t, int64_t row, int64_t n, float *x, int64_t x_row, int wide, int unit,
                              const lane_divisors *d)
{
    for (int64_t i = 0; i < n; i += POP_BLOCK) {
        pop_v_f s[POP_BLOCK][POP_BLOCK];
        const float *line = t + i * row;
        float *block = x + i * x_row;
        POP_EACH(a)
#pragma GCC unroll 4
        for (int c = 0; c < wide; c++) s[a][c] = at(block + a * x_row + c * POP_CELL);
        const float *right = x;
        for (int64_t j = 0; j < i; j++, line += POP_CELL, right += x_row)
            POP_EACH(a)
            {
                pop_v_f left = -at(line + a * row);
#pragma GCC unroll 4
                for (int c = 0; c < wide; c++) s[a][c] = pop_v_fma(left, at(right + c * POP_CELL), s[a][c]);
            }
        POP_EACH(a)
        {
#pragma GCC unroll 4
            for (int e = 0; e < a; e++) {
                pop_v_f left = -at(line + a * row + e * POP_CELL);
#pragma GCC unroll 4
                for (int c = 0; c < wide; c++) s[a][c] = pop_v_fma(left, s[e][c], s[a][c]);
            }
#pragma GCC unroll 4
            for (int c = 0; c < wide; c++) {
                if (!unit) s[a][c] = divided(s[a][c], d, i + a);
                pop_v_store_f(block + a * x_row + c * POP_CELL, s[a][c]);
            }
        }
    }
}

static void solve_panel(const float *t, int64_t row, int64_t n, float *x, int64_t x_row, int64_t columns, int unit,
                        const lane_divisors *d, lane_ahead *ahead)
{
    int64_t c = 0;
    for (; c + POP_WIDE <= columns; c += POP_WIDE) {
        solve_columns(t, row, n, x + c * POP_CELL, x_row, POP_WIDE, unit, d);
        prefetch_ahead(ahead);
    }
    for (; c < columns; c++) {
        solve_columns(t, row, n, x + c * POP_CELL, x_row, 1, unit, d);
        prefetch_ahead(ahead);
    }
}

/* How a panel of `wide` right-hand sides lies: rows of X in lines, or columns where the operand is transposed. */
static int32_t *lay_panel(lane_block *b, const pop_factor_operand *o, float *first, int64_t down, int64_t n, int64_t wide,
                          int32_t *room, const float *zero, int writes)
{
    *b = (lane_block){first, down, POP_CELL, n, wide, WHOLE};
    if (o->transposed) *b = (lane_block){first, POP_CELL, down, wide, n, WHOLE};
    return lay_block(b, o->line, bytes_of(o->format), room, zero, writes);
}

/* Operands: A, B, X, the status. `upper`: of A as it is computed with, B [n][columns] or its transpose likewise. */
static void solve_share(const void *p, const pop_tile *tile)
{
    const pop_factor_item *item = (const pop_factor_item *)p;
    const pop_factor_operand *from = &item->operands[0], *b = &item->operands[1], *made = &item->operands[2];
    const int64_t n = item->rows, padded = (n + POP_BLOCK - 1) & -POP_BLOCK, row = (padded + 1) * POP_CELL;
    const int64_t x_row = (POP_PANEL + 1) * POP_CELL, up = item->upper;
    float *t = workspace_of(tile), *zero = t - POP_CELL, *x = t + padded * row;
    lane_divisors d;
    d.inverses = x + padded * x_row;
    d.diagonal = d.inverses + padded * POP_CELL;
    d.hard = (int32_t *)(void *)(d.diagonal + padded * POP_CELL);
    int32_t *room = d.hard + padded;
    /* rows of T and X, counted from the other end where T is upper */
    const int64_t down = up ? -row : row, across = up ? -POP_CELL : POP_CELL, x_down = up ? -x_row : x_row;
    float *t_first = up ? t + (n - 1) * (row + POP_CELL) : t, *x_first = up ? x + (n - 1) * x_row : x;
    lane_block triangle = {t_first, from->transposed ? across : down, from->transposed ? down : across, n, n,
                           item->upper != from->transposed ? FROM_DIAGONAL : TO_DIAGONAL};
    room = lay_block(&triangle, from->line, bytes_of(from->format), room, zero, 0);
    lane_block read[2], written[2]; /* of whole panels, and of the last */
    for (int last = 0; last < 2; last++) {
        int64_t wide = last ? (item->columns - 1) % POP_PANEL + 1 : POP_PANEL;
        room = lay_panel(&read[last], b, x_first, x_down, n, wide, room, zero, 0);
        room = lay_panel(&written[last], made, x_first, x_down, n, wide, room, zero, 1);
    }
    for (int64_t i = n; i < padded; i++)
        for (int64_t k = 0; k < POP_PANEL; k++) pop_v_store_f(x + i * x_row + k * POP_CELL, pop_v_splat(0.0f));
    for (int64_t m = item->first; m < item->first + item->count; m += POP_LANES) {
        int lanes = (int)lesser(POP_LANES, item->first + item->count - m);
        gather_block(from, place_of(tile, from, m), lanes, &triangle);
        pad_identity(t, row, n, padded);
        pop_v_f least = item->unit ? pop_v_splat(1.0f) : make_divisors(t, row, padded, &d);
        tell_status(place_of(tile, &item->operands[3], m), lanes, least);
        lane_ahead ahead = ahead_of(tile, item, 3, m + POP_LANES, POP_LANES, (item->columns + POP_WIDE - 1) / POP_WIDE);
        for (int64_t c = 0; c < item->columns; c += POP_PANEL) {
            int last = c + POP_PANEL >= item->columns;
            gather_block(b, place_of(tile, b, m) + c * (b->transposed ? b->line : bytes_of(b->format)), lanes, &read[last]);
            solve_panel(t, row, padded, x, x_row, lesser(POP_PANEL, item->columns - c), item->unit, &d, &ahead);
            scatter_block(made, place_of(tile, made, m) + c * (made->transposed ? made->line : bytes_of(made->format)), lanes,
                          &written[last]);
        }
    }
}
#endif
