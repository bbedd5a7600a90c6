/* Sweeps in fours: blocks whose steps are a multiple of 4, none of them ragged, and no vector masked.
 *
 * Four steps along the sum go without a branch, and one function for each size of tile has the registers for addresses to
 * itself. At m = k = 2048, n = 64, density 1/8 and blocks of 4 that is 215 GFLOP/s where loops with a length of their own gave
 * 160. Where one block row has too few sums to fill the FMA units (4 rows x 1 vector: four chains, and the units want
 * eight), two block rows go in step: 160 against 123 GFLOP/s at n = 16 and density 1/2, values in cache. */
#ifndef POP_SPARSE_FOURS_H
#define POP_SPARSE_FOURS_H
#include "kernels/sparse/frame.h"
#include "kernels/sparse/rows.h"

#define PAIRED(R, NZ) ((R) * (NZ) <= 4)
#define VALUES_AHEAD 8192 /* bytes; in time for DRAM where n = 16, and 2048 are not */

POP_INLINE int pop_in_fours(const int kind, const pop_sparse_item *t)
{
    return pop_x_steps(kind, t->block_depth) % 4 == 0 && t->depth % t->block_depth == 0;
}

/* What all tiles of a sweep share. `ahead`: the bytes of a block's values that a tile takes, where they are asked for
 * ahead; else 0. */
typedef struct fours_walk {
    int64_t x_row, x_block, value_row, value_depth, value_block, steps, ahead, y_row, y_format, stream;
    const int32_t *order_last; /* of the sweep */
} fours_walk;

/* What is left of one block row, from an element of W's and X's first one on, where its sums go, and the rows of X that the
 * tile after it meets first. */
typedef struct fours_row {
    const int32_t *inner, *end, *order;
    const char *w, *x, *after;
    float *y;
} fours_row;

/* How values come: in turn, in turn and asked for ahead, in the order of another pattern. */
enum { FOURS_PLAIN, FOURS_AHEAD, FOURS_ORDER };

POP_INLINE void ask_ahead(const char *w, int64_t bytes)
{
    for (int64_t o = 0; o < bytes; o += 64)
        __builtin_prefetch((const void *)((uintptr_t)w + (uintptr_t)(VALUES_AHEAD + o)), 0, 2);
}

/* Whether asking for values pays because the hardware's own prefetch is late: by measurement, blocks of up to four lines that do
 * not stay in the L2, and blocks of a page, which tiles take in slices, that hardly stay in the L3. Others get 7 to 10 % slower. */
POP_INLINE int pays_to_ask(int64_t block_bytes, int64_t bytes)
{
    return block_bytes <= 256 ? bytes > 1 << 20 : bytes > 16 << 20 && block_bytes >= 4096 && VALUES_AHEAD % block_bytes == 0;
}

/* One block, and on to the next. */
POP_INLINE void next_block(const int R, const int NZ, const int kind, const int HOW, const fours_walk *k, fours_row *t,
                           vec acc[8][8])
{
    const int64_t ldx = k->x_row, down = k->value_row, along = k->value_depth;
    if (HOW == FOURS_AHEAD) ask_ahead(t->w, k->ahead);
    if (HOW == FOURS_ORDER) {
        const int32_t *next = t->order + ORDER_AHEAD;
        prefetch_block(t->w + *(next < k->order_last ? next : k->order_last) * k->value_block, along, k->value_block);
    }
    const char *w = HOW == FOURS_ORDER ? t->w + *t->order++ * k->value_block : t->w, *x = t->x + *t->inner++ * k->x_block;
    const int lines = (int)((NZ * VL * pop_x_bytes(kind) + 63) / 64);
    const int64_t to_next = (t->inner < t->end ? t->x + *t->inner * k->x_block : t->after) - x;
    if (R >= 4) prefetch_rows(4, lines, (uintptr_t)x + (uintptr_t)to_next, (uintptr_t)ldx);
    add_lines(R, NZ, 4, 1, kind, w, down, along, x, ldx, 0, acc);
    for (int64_t d = 4; d < k->steps; d += 4) {
        x += 4 * ldx;
        if (R >= 4) prefetch_rows(4, lines, (uintptr_t)x + (uintptr_t)to_next, (uintptr_t)ldx);
        add_lines(R, NZ, 4, 1, kind, w += 4 * along, down, along, x, ldx, 0, acc);
    }
    if (HOW != FOURS_ORDER) t->w += k->value_block;
}

/* One block row, or two in step as far as the shorter one reaches. */
POP_INLINE void walk_fours(const int R, const int NZ, const int kind, const int PAIR, const int HOW, const fours_walk *k,
                           fours_row *t, fours_row *u, vec acc[8][8], vec more[8][8])
{
    if (PAIR) {
        const int64_t n = t->end - t->inner, m = u->end - u->inner;
        const int32_t *const both = t->inner + (n < m ? n : m);
        while (t->inner < both) {
            next_block(R, NZ, kind, HOW, k, t, acc);
            next_block(R, NZ, kind, HOW, k, u, more);
        }
        while (u->inner < u->end) next_block(R, NZ, kind, HOW, k, u, more);
    }
    while (t->inner < t->end) next_block(R, NZ, kind, HOW, k, t, acc);
}

POP_INLINE void put_fours(const int R, const int NZ, const fours_walk *k, float *y, vec acc[8][8])
{
    const lanes all = pop_v_first(VL);
    if (k->stream) put_rows(R, NZ, 1, POP_IS_F32, y, k->y_row, all, 1, acc);
    else put_rows(R, NZ, 1, k->y_format, y, k->y_row, all, 0, acc);
}

/* R rows x NZ vectors of one block row, or of the two at `rows`. */
POP_INLINE void tile_fours(const int R, const int NZ, const int kind, const int PAIR, const fours_walk *k,
                           const fours_row *rows)
{
    fours_row t = rows[0], u = PAIR ? rows[1] : t;
    vec acc[8][8], more[8][8];
    clear_rows(R, NZ, acc);
    if (PAIR) clear_rows(R, NZ, more);
    if (t.order) walk_fours(R, NZ, kind, PAIR, FOURS_ORDER, k, &t, &u, acc, more);
    else if (k->ahead) walk_fours(R, NZ, kind, PAIR, FOURS_AHEAD, k, &t, &u, acc, more);
    else walk_fours(R, NZ, kind, PAIR, FOURS_PLAIN, k, &t, &u, acc, more);
    put_fours(R, NZ, k, t.y, acc);
    if (PAIR) put_fours(R, NZ, k, u.y, more);
}

typedef void (*fours_function)(const fours_walk *, const fours_row *);

#define FOURS(NAME, R, NZ, KIND, PAIR)                                                     \
    static __attribute__((noinline)) void NAME(const fours_walk *k, const fours_row *rows) \
    {                                                                                      \
        tile_fours(R, NZ, KIND, PAIR, k, rows);                                            \
    }

POP_INLINE fours_row row_of(const pop_sparse_item *t, const pop_sparse_view *s, int64_t r, int64_t row, int64_t column,
                            int64_t size, const char *after)
{
    const int64_t q = s->offsets[r], place = s->order ? 0 : q;
    return (fours_row){.inner = s->inner + q, .end = s->inner + s->offsets[r + 1], .order = s->order ? s->order + q : NULL,
                       .w = s->values + place * t->value_block + row * t->value_row, .x = s->x + column * size, .after = after,
                       .y = pop_sparse_at(s, (r - s->first) * t->block_rows + row, column)};
}

/* The rows of X that the tile after this one meets first: of the next columns, or of the next block rows. */
POP_INLINE const char *after_tile(const pop_sparse_view *s, int64_t x_block, int64_t r, int64_t column, int64_t size)
{
    const int64_t right = column < s->columns, q = s->offsets[right ? r : r + 1];
    return q < s->offsets[s->last] ? s->x + s->inner[q] * x_block + (right ? column : 0) * size : s->x;
}

/* `step` block rows at a time, 1 or 2. */
POP_INLINE void sweep_fours(const int R, const int NZ, const int kind, const pop_sparse_item *t, const pop_sparse_view *s,
                            const int64_t step, fours_function one, fours_function two)
{
    const int64_t size = pop_x_bytes(kind), steps = pop_x_steps(kind, t->block_depth);
    const int64_t bytes = (s->offsets[s->last] - s->offsets[s->first]) * t->value_block;
    const int64_t ahead = pays_to_ask(t->value_block, bytes) ? t->value_block * R / t->block_rows : 0;
    const fours_walk k = {
        .x_row = s->x_row, .x_block = s->x_row * steps, .value_row = t->value_row, .value_depth = t->value_depth,
        .value_block = t->value_block, .steps = steps, .ahead = ahead, .y_row = s->y_row,
        .y_format = s->y_format, .stream = s->stream && !((uintptr_t)s->y % sizeof(vec)) && s->y_row % VL == 0,
        .order_last = s->order ? s->order + s->offsets[s->last] - 1 : NULL};
    for (int64_t r = s->first; r < s->last; r += step)
        for (int64_t j = 0; j < s->columns; j += NZ * VL)
            for (int64_t g = 0; g < s->groups; g++) {
                const int64_t n = step < s->last - r ? step : s->last - r;
                fours_row rows[2];
                const int64_t last = g + 1 == s->groups;
                for (int64_t i = 0; i < n; i++)
                    rows[i] = row_of(t, s, r + i, s->row + g * R, j, size,
                                     after_tile(s, k.x_block, r + i, j + last * NZ * VL, size));
                (n > 1 ? two : one)(&k, rows);
            }
}
#endif
