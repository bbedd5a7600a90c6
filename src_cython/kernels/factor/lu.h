/* LU with partial pivoting, one matrix after another, a few in turn: while one waits for its pivot the others are worked on.
 *
 * Eight columns are a panel: those of the rows that have no position become vectors, and each step takes its products from the columns
 * after its own. The rows right of a panel stay rows, which take the products of its eight steps at once. Rows stay where they are. */
#ifndef POP_FACTOR_LU_H
#define POP_FACTOR_LU_H
#include "kernels/factor/eights.h"
#include "kernels/factor/lanes.h"

#define POP_LU_ROWS 64     /* at most: a bit each */
#define POP_LU_TURNS 8     /* matrices in turn, at most */
#define POP_LU_BYTES 16384 /* of their workspaces: the first-level cache holds them beside what is read and written */

/* All matrices of a share. */
typedef struct lu_shape {
    const pop_factor_operand *o; /* A, L, U and the rows' numbers */
    int64_t rows, columns, steps;
    int shift;                   /* a row of the workspace has 1 << shift floats */
    int direct;                  /* whether A's have, and there is a multiple of eight of them */
} lu_shape;

/* A matrix at work: U, and the multipliers of L, in the rows of A. */
typedef struct lu_matrix {
    float *w, *panel;                         /* the panel's columns, a multiple of eight rows each */
    const float *from;                        /* A, where the first panel reads it: in memory, or w */
    float *lines[POP_LU_ROWS];                /* rows by position */
    float *left[3][POP_LU_ROWS + POP_EIGHT];  /* those without one in their order, behind them rows of zeros: at first, then in turn */
    int32_t taken[POP_LU_ROWS];               /* -1 for rows of the panel that have a position now, else 0 */
    int32_t pivots[POP_EIGHT];                /* rows of the panel */
    float inverse;                            /* of the step's pivot */
    int32_t size;                             /* bits of its magnitude */
} lu_matrix;

/* The rows without a position as panel k / 8 begins. */
POP_INLINE float **left_at(lu_matrix *a, int64_t k) { return a->left[k ? 1 + (k / POP_EIGHT & 1) : 0]; }

/* What lies from POP_LU_ROWS - i + 8 v on marks row i of the panel in its vector v. */
static const int32_t POP_LU_TAKEN[2 * POP_LU_ROWS + POP_EIGHT] = {[POP_LU_ROWS] = -1};

/* Columns k to k + 7 of the rows without a position become vectors, and rows again. */
POP_INLINE void gather_panel(const lu_shape *g, lu_matrix *a, int64_t k, int64_t vectors)
{
    float *const *lines = left_at(a, k);
    const float *first = a->from;
    for (int64_t v = 0; v < vectors; v++, lines += POP_EIGHT, first += POP_EIGHT << g->shift) {
        eight_f x[POP_EIGHT];
        if (k) POP_EIGHT_EACH(i) x[i] = eight_load(lines[i] + k);
        else POP_EIGHT_EACH(i) x[i] = eight_load(first + (i << g->shift));
        eight_transpose(x);
        POP_EIGHT_EACH(c) eight_store(a->panel + (c * vectors + v) * POP_EIGHT, x[c]);
        eight_store_words(a->taken + v * POP_EIGHT, eight_count((int32_t)(k + v * POP_EIGHT)) >= (int32_t)g->rows);
    }
}
POP_INLINE void scatter_panel(lu_matrix *a, int64_t k, int64_t vectors)
{
    float *const *lines = left_at(a, k);
    for (int64_t v = 0; v < vectors; v++, lines += POP_EIGHT) {
        eight_f x[POP_EIGHT];
        POP_EIGHT_EACH(c) x[c] = eight_load(a->panel + (c * vectors + v) * POP_EIGHT);
        eight_transpose(x);
        POP_EIGHT_EACH(i) eight_store(lines[i] + k, x[i]);
    }
}

/* The pivot of the panel's step s: the first of the greatest magnitudes (a NaN counts as greater than all) in its column. */
POP_INLINE void choose_pivot(lu_matrix *a, const int s, const int64_t vectors)
{
    const float *x = a->panel + s * vectors * POP_EIGHT;
    const eight_i magnitude = (eight_i){0} + 0x7fffffff;
    eight_i best = {0};
    uint64_t where = 0;
#define POP_SIZE_OF(v) (((eight_i)eight_load(x + (v) * POP_EIGHT) & magnitude) | eight_load_words(a->taken + (v) * POP_EIGHT))
    for (int64_t v = 0; v < vectors; v++) best = v ? eight_maximum(best, POP_SIZE_OF(v)) : POP_SIZE_OF(v);
    best = eight_most(best);
    for (int64_t v = 0; v < vectors; v++) where |= (uint64_t)eight_equal(POP_SIZE_OF(v), best) << POP_EIGHT * v;
#undef POP_SIZE_OF
    const int pivot = __builtin_ctzll(where);
    a->pivots[s] = pivot;
    a->inverse = 1.0f / x[pivot];
    a->size = best[0];
}

/* Its column becomes multipliers, and the panel's columns after it take its products, but for rows with a position. */
POP_INLINE void subtract_step(lu_matrix *a, const int s, const int64_t vectors)
{
    float *panel = a->panel, *x = panel + s * vectors * POP_EIGHT;
    const int64_t pivot = a->pivots[s];
    const int32_t *here = POP_LU_TAKEN + POP_LU_ROWS - pivot;
    const int hard = (uint32_t)(a->size - 0x00800000) > 0x7e800000u - 0x00800000u; /* whether the reciprocal is no normal number */
    const eight_f inverse = eight_splat(a->inverse);
    eight_f top[POP_EIGHT];
#pragma GCC unroll 8
    for (int c = s; c < POP_EIGHT; c++) top[c] = eight_splat(panel[c * vectors * POP_EIGHT + pivot]);
    for (int64_t v = 0; v < vectors; v++) {
        const eight_i taken = eight_load_words(a->taken + v * POP_EIGHT) | eight_load_words(here + v * POP_EIGHT);
        const eight_f own = eight_load(x + v * POP_EIGHT);
        eight_f quotient = own * inverse;
        if (__builtin_expect(hard, 0)) quotient = a->size ? own / top[s] : own; /* a column of zeros has multipliers of zero */
        eight_store_words(a->taken + v * POP_EIGHT, taken);
        eight_store(x + v * POP_EIGHT, eight_select(taken, quotient, own));
#pragma GCC unroll 8
        for (int c = s + 1; c < POP_EIGHT; c++) {
            float *to = panel + (c * vectors + v) * POP_EIGHT;
            const eight_f y = eight_load(to);
            eight_store(to, eight_select(taken, eight_minus(y, quotient, top[c]), y));
        }
    }
}

POP_INLINE void panel_step(lu_matrix *some, int turns, const int s, const int64_t vectors)
{
#pragma GCC unroll 1
    for (int q = 0; q < turns; q++) choose_pivot(some + q, s, vectors);
#pragma GCC unroll 1
    for (int q = 0; q < turns; q++) subtract_step(some + q, s, vectors);
}
static __attribute__((noinline)) void factor_panel(lu_matrix *some, int turns, int rank, int64_t vectors)
{
#define POP_STEPS(vectors)                   \
    POP_EIGHT_EACH(s)                        \
    {                                        \
        if (s == rank) break;                \
        panel_step(some, turns, s, vectors); \
    }
    if (vectors == 1 && !POP_ONE_BODY) POP_STEPS(1)
    else if (vectors == 2 && !POP_ONE_BODY) POP_STEPS(2)
    else POP_STEPS(vectors)
#undef POP_STEPS
}

/* Rows of the panel's steps have their positions, the others follow in their order. How many those are. */
POP_INLINE int64_t order_rows(const lu_shape *g, lu_matrix *a, int64_t k, int rank)
{
    float *const *before = left_at(a, k), **after = left_at(a, k + POP_EIGHT);
    const int64_t left = g->rows - k;
    uint64_t waits = ~(uint64_t)0 >> (64 - left);
    int64_t count = 0;
    for (int s = 0; s < rank; s++) {
        a->lines[k + s] = before[a->pivots[s]];
        waits &= ~((uint64_t)1 << a->pivots[s]);
    }
    for (; waits; waits &= waits - 1) after[count++] = before[__builtin_ctzll(waits)];
    for (int64_t i = count; i % POP_EIGHT; i++) after[i] = a->left[0][g->rows];
    return count;
}

/* `many` rows, of `wide` vectors from a column on, take the products of the first `steps` rows of the panel that ends at column k;
 * they are read so many floats away. */
POP_INLINE void subtract_rows(float *const *lines, int64_t away, const int many, int64_t k, int64_t column, const int steps, eight_f (*top)[2],
                              const int wide)
{
    eight_f x[4][2];
#pragma GCC unroll 4
    for (int r = 0; r < many; r++)
#pragma GCC unroll 2
        for (int c = 0; c < wide; c++) x[r][c] = eight_load(lines[r] + away + column + c * POP_EIGHT);
#pragma GCC unroll 8
    for (int t = 0; t < steps; t++)
#pragma GCC unroll 4
        for (int r = 0; r < many; r++) {
            const eight_f multiplier = eight_splat(lines[r][k + t]);
#pragma GCC unroll 2
            for (int c = 0; c < wide; c++) x[r][c] = eight_minus(x[r][c], multiplier, top[t][c]);
        }
#pragma GCC unroll 4
    for (int r = 0; r < many; r++)
#pragma GCC unroll 2
        for (int c = 0; c < wide; c++) eight_store(lines[r] + column + c * POP_EIGHT, x[r][c]);
    if (steps < POP_EIGHT)
#pragma GCC unroll 2
        for (int c = 0; c < wide; c++) top[steps][c] = x[0][c];
}

/* `wide` vectors right of the panel take the products of its steps: those of its pivots' rows, and of `count` others. */
POP_INLINE void subtract_panel(float *const *pivots, float *const *lines, int64_t count, int64_t away, int64_t k, int64_t column, const int wide)
{
    eight_f top[POP_EIGHT][2];
    POP_EIGHT_EACH(s) subtract_rows(pivots + s, away, 1, k, column, s, top, wide);
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) subtract_rows(lines + i, away, 4, k, column, POP_EIGHT, top, wide);
    for (; i < count; i++) subtract_rows(lines + i, away, 1, k, column, POP_EIGHT, top, wide);
}

static __attribute__((noinline)) void finish_panel(const lu_shape *g, lu_matrix *a, int64_t k, int rank, int64_t vectors)
{
    scatter_panel(a, k, vectors);
    const int64_t count = order_rows(g, a, k, rank), away = k ? 0 : a->from - a->w;
    float *const *pivots = a->lines + k, *const *lines = left_at(a, k + POP_EIGHT);
    int64_t c = k + POP_EIGHT;
    if (rank == POP_EIGHT) {
        for (; c + POP_EIGHT < g->columns; c += 2 * POP_EIGHT) subtract_panel(pivots, lines, count, away, k, c, 2);
        if (c < g->columns) subtract_panel(pivots, lines, count, away, k, c, 1);
    } else
        for (; c < g->columns; c += POP_EIGHT) /* fewer rows than columns: the last panel */
            for (int s = 0; s < rank; s++) {
                eight_f x = eight_load(pivots[s] + away + c);
                for (int t = 0; t < s; t++) x = eight_minus(x, eight_splat(pivots[s][k + t]), eight_load(pivots[t] + c));
                eight_store(pivots[s] + c, x);
            }
    for (int64_t i = 0; k + POP_EIGHT >= g->steps && i < count; i++) a->lines[g->steps + i] = lines[i];
}

POP_INLINE void read_matrix(const pop_format *f, const lu_shape *g, const char *p, lu_matrix *a)
{
    const pop_factor_operand *o = &g->o[0];
    const int64_t bytes = pop_bytes(f);
    if (!o->transposed) {
        for (int64_t i = 0; i < o->rows; i++, p += o->line) {
            float *to = a->w + (i << g->shift);
            int64_t c = 0;
            for (; c + POP_EIGHT <= o->columns; c += POP_EIGHT) eight_store(to + c, eight_decode(f, p + c * bytes, POP_EIGHT));
            if (c < o->columns) eight_store(to + c, eight_decode(f, p + c * bytes, (int)(o->columns - c)));
        }
        return;
    }
    for (int64_t c = 0; c < o->rows; c += POP_EIGHT, p += POP_EIGHT * o->line)
        for (int64_t i = 0; i < o->columns; i += POP_EIGHT) {
            const int64_t wide = lesser(POP_EIGHT, o->columns - i);
            eight_f x[POP_EIGHT];
            POP_EIGHT_EACH(l) x[l] = c + l < o->rows ? eight_decode(f, p + l * o->line + i * bytes, (int)wide) : (eight_f){0};
            eight_transpose(x);
            for (int64_t r = 0; r < wide; r++) eight_store(a->w + ((i + r) << g->shift) + c, x[r]);
        }
}

static const int32_t POP_LU_BELOW[] = {-1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
static const float POP_LU_ONE[] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0};

/* How many elements of row i, of so many columns, are written from column c on: a whole vector where the rows after it, which are
 * written later, have the rest. */
POP_INLINE int written_at(int64_t i, int64_t c, int64_t rows, int64_t columns)
{
    return i * columns + c + POP_EIGHT <= rows * columns ? POP_EIGHT : (int)lesser(POP_EIGHT, columns - c);
}

/* Part of row i of L and U from column c on: `parts` where not all are whole vectors of both. */
POP_INLINE void write_part(const pop_format *f, const lu_shape *g, const float *line, int64_t i, int64_t c, char *l, char *u, const int parts)
{
    const int64_t bytes = pop_bytes(f), own = i - c;
    const eight_f x = eight_load(line + c);
    eight_f low = x, high = {0};
    if (own < 0) low = high, high = x;
    else if (own < POP_EIGHT) {
        const eight_i below = eight_load_words(POP_LU_BELOW + POP_EIGHT - 1 - own);
        low = (eight_f)(((eight_i)x & below) | (eight_i)eight_load(POP_LU_ONE + POP_EIGHT - 1 - own));
        high = (eight_f)((eight_i)x & ~below);
    }
    if (!parts || c < g->steps) eight_encode(f, l + c * bytes, low, parts ? written_at(i, c, g->rows, g->steps) : POP_EIGHT);
    if (!parts || i < g->steps) eight_encode(f, u + c * bytes, high, parts ? written_at(i, c, g->steps, g->columns) : POP_EIGHT);
}

POP_INLINE void write_matrix(const pop_format *f, const lu_shape *g, const lu_matrix *a, char *l, char *u)
{
    const int64_t n = g->columns, line = g->o[1].line;
    if (g->rows != n || n % POP_EIGHT) {
        for (int64_t i = 0; i < g->rows; i++, l += line, u += g->o[2].line)
            for (int64_t c = 0; c < n; c += POP_EIGHT) write_part(f, g, a->lines[i], i, c, l, u, 1);
        return;
    }
    for (int64_t b = 0; b < n; b += POP_EIGHT, l += POP_EIGHT * line, u += POP_EIGHT * line) {
        float *const *lines = a->lines + b;
        for (int64_t c = 0; c < b; c += POP_EIGHT) POP_EIGHT_EACH(i) write_part(f, g, lines[i], POP_LU_ROWS + i, c, l + i * line, u + i * line, 0);
        POP_EIGHT_EACH(i) write_part(f, g, lines[i], b + i, b, l + i * line, u + i * line, 0);
        for (int64_t c = b + POP_EIGHT; c < n; c += POP_EIGHT) POP_EIGHT_EACH(i) write_part(f, g, lines[i], -1, c, l + i * line, u + i * line, 0);
    }
}

#define POP_LU_FORMAT(constant, function)                                                                                   \
    static __attribute__((noinline)) void read_lu_##function(const lu_shape *g, const char *p, lu_matrix *a)                \
    {                                                                                                                       \
        read_matrix(&POP_##constant, g, p, a);                                                                              \
    }                                                                                                                       \
    static __attribute__((noinline)) void write_lu_##function(const lu_shape *g, const lu_matrix *a, char *l, char *u)      \
    {                                                                                                                       \
        write_matrix(&POP_##constant, g, a, l, u);                                                                          \
    }
POP_LU_FORMAT(F32, f32)
POP_LU_FORMAT(F16, f16)
POP_LU_FORMAT(BF16, bf16)

/* Matrices from `first` on, a few in turn. */
static void factor_in_turn(const lu_shape *g, const pop_tile *tile, int64_t first, lu_matrix *some, int turns, lane_ahead *ahead)
{
    const int from = g->o[0].format, to = g->o[1].format;
    for (int q = 0; q < turns; q++) {
        const char *p = place_of(tile, &g->o[0], first + q);
        some[q].from = g->direct ? (const float *)(const void *)p : some[q].w;
        if (g->direct) continue;
        if (from == POP_IS_F32) read_lu_f32(g, p, some + q);
        else if (from == POP_IS_F16) read_lu_f16(g, p, some + q);
        else read_lu_bf16(g, p, some + q);
    }
    for (int64_t k = 0; k < g->steps; k += POP_EIGHT) {
        const int rank = (int)lesser(POP_EIGHT, g->steps - k);
        const int64_t vectors = (g->rows - k + POP_EIGHT - 1) / POP_EIGHT;
        for (int q = 0; q < turns; q++) gather_panel(g, some + q, k, vectors);
        factor_panel(some, turns, rank, vectors);
        for (int q = 0; q < turns; q++) finish_panel(g, some + q, k, rank, vectors);
        prefetch_ahead(ahead);
    }
    for (int q = 0; q < turns; q++) {
        char *l = place_of(tile, &g->o[1], first + q), *u = place_of(tile, &g->o[2], first + q);
        int32_t *order = (int32_t *)(void *)place_of(tile, &g->o[3], first + q);
        if (to == POP_IS_F32) write_lu_f32(g, some + q, l, u);
        else if (to == POP_IS_F16) write_lu_f16(g, some + q, l, u);
        else write_lu_bf16(g, some + q, l, u);
        for (int64_t i = 0; i < g->rows; i++) order[i] = (int32_t)((some[q].lines[i] - some[q].w) >> g->shift);
    }
}

/* Operands: A, L, U, and the rows of A that are those of L U, int32. */
static void lu_share(const void *p, const pop_tile *tile)
{
    const pop_factor_item *item = (const pop_factor_item *)p;
    lu_shape g = {item->operands, item->rows, item->columns, lesser(item->rows, item->columns), 3};
    while ((int64_t)1 << g.shift < g.columns) g.shift++;
    g.direct = !g.o[0].transposed && g.o[0].format == POP_IS_F32 && g.o[0].line == (int64_t)4 << g.shift && g.rows % POP_EIGHT == 0;
    const int64_t panel = (g.rows + POP_EIGHT - 1) & -POP_EIGHT, rows = panel + 1, each = (rows << g.shift) + POP_EIGHT * panel;
    const int turns = (int)lesser(POP_LU_TURNS, POP_LU_BYTES / (each * 4) + (each * 4 > POP_LU_BYTES));
    float *w = (float *)(void *)tile->scratch;
    lu_matrix some[POP_LU_TURNS];
    memset(w, 0, (size_t)(turns * each) * sizeof *w);
    for (int q = 0; q < turns; q++, w += each) {
        some[q].w = w;
        some[q].panel = w + (rows << g.shift);
        for (int64_t i = 0; i < g.rows + POP_EIGHT; i++) some[q].left[0][i] = w + (lesser(i, g.rows) << g.shift);
    }
    for (int64_t first = item->first, end = first + item->count; first < end; first += turns) {
        const int64_t times = (g.steps + POP_EIGHT - 1) / POP_EIGHT;
        lane_ahead ahead = ahead_of(tile, item, 1, first + turns, turns, times);
        factor_in_turn(&g, tile, first, some, (int)lesser(turns, end - first), &ahead);
    }
}
#endif
