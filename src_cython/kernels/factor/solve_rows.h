/* Triangular systems one after another, right-hand sides side by side: where these fill vectors, rows of X lie in memory as they
 * are computed with, and an element of T is read where it lies for all of a vector. Chains and quotients are those of solve.h. */
#ifndef POP_FACTOR_SOLVE_ROWS_H
#define POP_FACTOR_SOLVE_ROWS_H
#include "kernels/factor/cholesky.h"

#define POP_SIDES (POP_WIDE * POP_CELL) /* right-hand sides that are solved at a time */

#define POP_ROWS_AHEAD 24 /* order from which the next system is prefetched: smaller ones come by themselves */

/* A system. Element (i, j) of T lies at t + i down + j across, in floats, which need not be aligned. */
typedef struct row_system {
    const char *t;
    int64_t down, across, n;
    float *inverses, *diagonal; /* of whole vectors */
    int unit, hard;             /* whether some row has to be divided */
} row_system;

POP_INLINE float number_at(const char *t, int64_t place)
{
    float number;
    memcpy(&number, t + place * (int64_t)sizeof number, sizeof number);
    return number;
}

/* Reciprocals, and which rows have none that is a normal number. Whether there is a zero. */
POP_INLINE int make_row_divisors(row_system *s)
{
    int zeros = 0;
    s->hard = 0;
    for (int64_t i = 0; i < s->n; i += POP_CELL) {
        pop_v_f x = pop_v_splat(1.0f);
        if (i + POP_CELL <= s->n)
#pragma GCC unroll 16
            for (int l = 0; l < POP_CELL; l++) x[l] = number_at(s->t, (i + l) * (s->down + s->across));
        else
            for (int l = 0; i + l < s->n; l++) x[l] = number_at(s->t, (i + l) * (s->down + s->across));
        const pop_v_f size = pop_v_abs(x);
        pop_v_store_f(s->diagonal + i, x);
        pop_v_store_f(s->inverses + i, pop_v_splat(1.0f) / x);
        zeros |= pop_v_any(pop_v_eq_f(size, pop_v_splat(0.0f)));
        s->hard |= some_are_hard(size);
    }
    return zeros;
}

POP_INLINE pop_v_f row_divided(const row_system *s, pop_v_f x, int64_t i)
{
    if (s->unit) return x;
    const float by = s->diagonal[i], size = fabsf(by);
    if (s->hard && (size < 0x1p-126f || size > 0x1p126f)) return x / pop_v_splat(by);
    return x * pop_v_splat(s->inverses[i]);
}

/* Rows [i, i + rows) of X over `to`, from those of B at `from`; rows before i are there. */
POP_INLINE void solve_block(const row_system *s, int64_t i, const int rows, const float *from, int64_t from_row, float *to,
                            int64_t to_row, const int wide)
{
    pop_v_f sum[POP_BLOCK][POP_BLOCK];
    const float *right = to;
    int64_t place = i * s->down;
#define POP_ROWS_EACH(a, end) _Pragma("GCC unroll 4") for (int a = 0; a < (end); a++)
    POP_ROWS_EACH(a, rows) POP_ROWS_EACH(c, wide) sum[a][c] = at(from + (i + a) * from_row + c * POP_CELL);
    for (int64_t j = 0; j < i; j++, place += s->across, right += to_row) {
        pop_v_f x[POP_BLOCK];
        POP_ROWS_EACH(c, wide) x[c] = -at(right + c * POP_CELL);
        POP_ROWS_EACH(a, rows)
        {
            const pop_v_f left = pop_v_splat(number_at(s->t, place + a * s->down));
            POP_ROWS_EACH(c, wide) sum[a][c] = pop_v_fma(left, x[c], sum[a][c]);
        }
    }
    POP_ROWS_EACH(a, rows)
    {
        POP_ROWS_EACH(e, a)
        {
            const pop_v_f left = pop_v_splat(number_at(s->t, place + a * s->down + e * s->across));
            POP_ROWS_EACH(c, wide) sum[a][c] = pop_v_fma(left, -sum[e][c], sum[a][c]);
        }
        POP_ROWS_EACH(c, wide)
        {
            sum[a][c] = row_divided(s, sum[a][c], i + a);
            pop_v_store_f(to + (i + a) * to_row + c * POP_CELL, sum[a][c]);
        }
    }
#undef POP_ROWS_EACH
}

POP_INLINE void solve_wide(const row_system *s, const float *from, int64_t from_row, float *to, int64_t to_row, const int wide,
                           lane_ahead *ahead)
{
    const row_system own = *s; /* which no store changes */
    int64_t i = 0;
    for (; i + POP_BLOCK <= own.n; i += POP_BLOCK) {
        solve_block(&own, i, POP_BLOCK, from, from_row, to, to_row, wide);
        if (ahead->each[0]) prefetch_ahead(ahead);
    }
    for (; i < own.n; i++) solve_block(&own, i, 1, from, from_row, to, to_row, wide);
}
static __attribute__((noinline)) void solve_side(const row_system *s, const float *from, int64_t from_row, float *to, int64_t to_row,
                                                 lane_ahead *ahead)
{
    solve_wide(s, from, from_row, to, to_row, 1, ahead);
}
static __attribute__((noinline)) void solve_sides(const row_system *s, const float *from, int64_t from_row, float *to, int64_t to_row,
                                                  lane_ahead *ahead)
{
    solve_wide(s, from, from_row, to, to_row, POP_WIDE, ahead);
}

/* A panel between lines of memory and vectors. */
#define POP_PANELS(constant, function)                                                                                     \
    static void read_panel_##function(const char *p, int64_t line, int64_t n, int64_t columns, float *x, int64_t row)      \
    {                                                                                                                      \
        for (int64_t i = 0; i < n; i++)                                                                                    \
            for (int64_t c = 0; c < columns; c += POP_CELL)                                                                \
                pop_v_store_f(x + i * row + c, pop_v_decode_part(&POP_##constant, p + i * line + c * pop_bytes(&POP_##constant), \
                                                                 (int)lesser(POP_CELL, columns - c)));                     \
    }                                                                                                                      \
    static void write_panel_##function(char *p, int64_t line, int64_t n, int64_t columns, const float *x, int64_t row)     \
    {                                                                                                                      \
        for (int64_t i = 0; i < n; i++)                                                                                    \
            for (int64_t c = 0; c < columns; c += POP_CELL)                                                                \
                pop_v_encode_part(&POP_##constant, POP_OVERFLOW_INFINITY, p + i * line + c * pop_bytes(&POP_##constant),   \
                                  at(x + i * row + c), (int)lesser(POP_CELL, columns - c));                                \
    }
POP_PANELS(F32, f32)
POP_PANELS(F16, f16)
POP_PANELS(BF16, bf16)

typedef void (*panel_reader)(const char *, int64_t, int64_t, int64_t, float *, int64_t);
typedef void (*panel_writer)(char *, int64_t, int64_t, int64_t, const float *, int64_t);

POP_INLINE panel_reader panel_reader_of(int format)
{
    return format == POP_IS_F32 ? read_panel_f32 : format == POP_IS_F16 ? read_panel_f16 : read_panel_bf16;
}
POP_INLINE panel_writer panel_writer_of(int format)
{
    return format == POP_IS_F32 ? write_panel_f32 : format == POP_IS_F16 ? write_panel_f16 : write_panel_bf16;
}

/* Right-hand sides that are lines of memory are turned as matrices side by side are; `places` of the rows of a vector's numbers. */
static void read_panel(const pop_factor_operand *o, const char *p, int64_t n, int64_t columns, float *panel, const int32_t *places)
{
    const run_reader reader = reader_of(o->format);
    if (!o->transposed) panel_reader_of(o->format)(p, o->line, n, columns, panel, POP_SIDES);
    for (int64_t c = 0; o->transposed && c < columns; c += POP_CELL)
        for (int64_t i = 0; i < n; i += POP_CELL)
            reader(p + c * o->line + i * bytes_of(o->format), o->line, (int)lesser(POP_CELL, columns - c),
                   (int)lesser(POP_CELL, n - i), panel + i * POP_SIDES + c, places);
}
static void write_panel(const pop_factor_operand *o, char *p, int64_t n, int64_t columns, const float *panel, const int32_t *places)
{
    const run_writer writer = writer_of(o->format);
    if (!o->transposed) panel_writer_of(o->format)(p, o->line, n, columns, panel, POP_SIDES);
    for (int64_t c = 0; o->transposed && c < columns; c += POP_CELL)
        for (int64_t i = 0; i < n; i += POP_CELL)
            writer(p + c * o->line + i * bytes_of(o->format), o->line, (int)lesser(POP_CELL, columns - c),
                   (int)lesser(POP_CELL, n - i), panel + i * POP_SIDES + c, places);
}

/* The right-hand sides of a share of one matrix. Rows are counted from the other end where T is upper. */
static void solve_matrix(const pop_factor_item *item, const row_system *s, const char *b, char *made, float *panel, const int32_t *places,
                         lane_ahead *ahead)
{
    const pop_factor_operand *from = &item->operands[1], *to = &item->operands[2];
    const int64_t n = s->n, row = item->upper ? -POP_SIDES : POP_SIDES;
    float *last = panel + (n - 1) * POP_SIDES, *first = item->upper ? last : panel;
    const int lies = from->format == POP_IS_F32 && to->format == POP_IS_F32 && !from->transposed && !to->transposed;
    const int64_t b_row = from->line / 4, to_row = to->line / 4, end = item->upper ? n - 1 : 0, sign = item->upper ? -1 : 1;
    for (int64_t c = item->side, columns, stop = c + item->columns; c < stop; c += columns) {
        columns = stop - c >= POP_SIDES ? POP_SIDES : lesser(POP_CELL, stop - c);
        const char *b_at = b + c * (from->transposed ? from->line : bytes_of(from->format));
        char *to_at = made + c * (to->transposed ? to->line : bytes_of(to->format));
        const int whole = lies && columns % POP_CELL == 0;
        const float *x = first;
        float *y = first;
        int64_t x_row = row, y_row = row;
        if (whole) {
            x = (const float *)(const void *)b_at + end * b_row, x_row = sign * b_row;
            y = (float *)(void *)to_at + end * to_row, y_row = sign * to_row;
        } else read_panel(from, b_at, n, columns, panel, places);
        if (columns > POP_CELL) solve_sides(s, x, x_row, y, y_row, ahead);
        else solve_side(s, x, x_row, y, y_row, ahead);
        if (!whole) write_panel(to, to_at, n, columns, panel, places);
    }
}

/* What `solve_share` has. */
static void solve_rows_share(const void *p, const pop_tile *tile)
{
    const pop_factor_item *item = (const pop_factor_item *)p;
    const pop_factor_operand *from = &item->operands[0], *status = &item->operands[3];
    const int64_t n = item->rows, whole = (n + POP_CELL - 1) & -POP_CELL;
    float *panel = workspace_of(tile), *t = panel + whole * POP_SIDES;
    row_system s = {.n = n, .unit = item->unit};
    s.diagonal = t + n * whole, s.inverses = s.diagonal + whole;
    int32_t places[POP_CELL];
    for (int i = 0; i < POP_CELL; i++) places[i] = i * (int32_t)POP_SIDES;
    const int lies = from->format == POP_IS_F32;
    const int64_t line = lies ? n : whole, across = from->transposed ? line : 1, down = from->transposed ? 1 : line;
    s.down = item->upper ? -down : down, s.across = item->upper ? -across : across;
    const int64_t panels = item->columns / POP_SIDES + (item->columns % POP_SIDES + POP_CELL - 1) / POP_CELL;
    const int64_t blocks = n / POP_BLOCK * panels;
    for (int64_t m = item->first; m < item->first + item->count; m++) {
        const char *matrix = place_of(tile, from, m), *read = lies ? matrix : (const char *)t;
        if (!lies) panel_reader_of(from->format)(matrix, from->line, n, n, t, whole);
        s.t = item->upper ? read + (n - 1) * (line + 1) * 4 : read;
        const char zeros = (char)(!s.unit && make_row_divisors(&s));
        if (item->side == 0) *place_of(tile, status, m) = zeros; /* once where threads share a matrix */
        lane_ahead ahead = {.each = {0}};
        if (n >= POP_ROWS_AHEAD) ahead = ahead_of(tile, item, 3, m + 1, 1, blocks);
        solve_matrix(item, &s, place_of(tile, &item->operands[1], m), place_of(tile, &item->operands[2], m), panel, places, &ahead);
    }
}
#endif
