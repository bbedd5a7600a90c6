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
    const int64_t line = t->order < 0 ? t->value_depth : t->value_row, fours = kind >= POP_X_PAIRS ? 8 : 4;
    return t->block_depth % fours == 0 && t->depth % t->block_depth == 0 && line == 4;
}

/* What all tiles of a sweep share. `ahead`: the bytes of a block's values that a tile takes, where they are prefetched
 * ahead; else 0. */
typedef struct fours_walk {
    int64_t x_row, x_block, value_row, value_depth, value_block, steps, ahead, y_row, y_format, stream;
    const int32_t *order_last; /* of the sweep */
} fours_walk;

/* One block row, from an element of W's and X's first one on, and where its sums go. */
typedef struct fours_row {
    const fours_walk *walk;
    const int32_t *inner, *end, *order;
    const char *w, *x;
    float *y;
} fours_row;

/* Where in it a tile is. What else it needs for a block is read from memory for each: GCC would keep it in vector registers,
 * and what comes from there waits in line behind the products, and the X of the next block with it. n = 64, blocks of 8: BF16
 * up to 1.25 times as fast. */
typedef struct fours_place {
    const int32_t *inner, *order;
    const char *w;
} fours_place;

POP_INLINE int is_within(const fours_place *p, const fours_row *t)
{
    POP_KEPT(t);
    return p->inner < t->end;
}

POP_INLINE void prefetch_values(const char *w, int64_t bytes)
{
    pop_prefetch_l2_lines(pop_beyond(w, VALUES_AHEAD), bytes);
}

/* Whether prefetching values pays because the hardware's own prefetch is late, by measurement: values that do not stay in the
 * L2, in blocks of up to four lines, or in blocks that tiles take in slices (m = k = 2048, n = 64, blocks of 16: FP32 up to 1.4
 * times as fast). */
POP_INLINE int pays_to_prefetch(int64_t block_bytes, int64_t bytes)
{
    return bytes > 1 << 20 && (block_bytes <= 256 || (block_bytes >= 1024 && VALUES_AHEAD % block_bytes == 0));
}

/* One block, and on to the next. Values of a block row's step lie together, of a transpose's down the rows. */
POP_INLINE void next_block(const int R, const int NZ, const int kind, const int ORDER, const fours_row *t,
                           fours_place *p, vec acc[8][8])
{
    POP_KEPT(t);
    const fours_walk *k = t->walk;
    const int64_t ldx = k->x_row, lane = 4, down = ORDER ? lane : k->value_row, along = ORDER ? k->value_depth : lane;
    if (ORDER) {
        const int32_t *next = p->order + ORDER_AHEAD;
        prefetch_block(p->w + *(next < k->order_last ? next : k->order_last) * k->value_block, along, k->value_block);
    } else if (k->ahead) {
        prefetch_values(p->w, k->ahead);
    }
    const char *w = ORDER ? p->w + *p->order++ * k->value_block : p->w, *x = t->x + *p->inner++ * k->x_block;
    int64_t d = k->steps;
    do {
        x = add_lines(R, NZ, 4, 1, kind, w, down, along, x, ldx, 0, acc);
        w += 4 * along;
    } while (d -= 4);
    if (!ORDER) p->w += k->value_block;
}

/* One block row, or two in step as far as the shorter one reaches. */
POP_INLINE void walk_fours(const int R, const int NZ, const int kind, const int PAIR, const int ORDER, const fours_row *t,
                           const fours_row *u, vec acc[8][8], vec more[8][8])
{
    fours_place p = {t->inner, t->order, t->w}, q = {u->inner, u->order, u->w};
    if (PAIR)
        while (is_within(&p, t) && is_within(&q, u)) {
            next_block(R, NZ, kind, ORDER, t, &p, acc);
            next_block(R, NZ, kind, ORDER, u, &q, more);
        }
    while (is_within(&p, t)) next_block(R, NZ, kind, ORDER, t, &p, acc);
    while (PAIR && is_within(&q, u)) next_block(R, NZ, kind, ORDER, u, &q, more);
}

POP_INLINE void put_fours(const int R, const int NZ, const int kind, const fours_row *t, vec acc[8][8])
{
    POP_KEPT(t);
    const fours_walk *k = t->walk;
    float *const y = t->y;
    const lanes all = pop_v_first(VL);
    if (kind == POP_X_ROWS) put_interleaved(R, k->y_format, y, k->y_row, k->stream, acc);
    else if (k->stream) put_rows(R, NZ, 1, POP_IS_F32, y, k->y_row, all, 1, acc);
    else put_rows(R, NZ, 1, k->y_format, y, k->y_row, all, 0, acc);
}

/* Lines of Y that the hardware does not foretell, as they lie in rows far apart, are prefetched while their sums are made:
 * BF16, m = k = n = 1024: up to 1.1 times as fast. Of small tiles there would be as many as products; rows that follow one
 * another come by themselves, and FP32 with n = 64 would take a hundredth longer. */
POP_INLINE void prefetch_y(const int R, const int64_t bytes, const char *line, int64_t row)
{
#pragma GCC unroll 8
    for (int i = 0; i < R; i++, line += row) {
#pragma GCC unroll 8
        for (int64_t o = 0; o < bytes; o += 64) pop_prefetch_to_write(pop_beyond(line, o));
        pop_prefetch_to_write(pop_beyond(line, bytes - 1));
    }
}

POP_INLINE void prefetch_sums(const int R, const int NZ, const fours_row *t)
{
    const fours_walk *k = t->walk;
    if (R * NZ < 16 || k->stream || k->y_row == NZ * VL) return;
    if (k->y_format == POP_IS_F32) prefetch_y(R, NZ * VL * 4, (const char *)t->y, k->y_row * 4);
    else prefetch_y(R, NZ * VL * 2, (const char *)t->y, k->y_row * 2);
}

/* R rows x NZ vectors of one block row, or of the two at `rows`. */
POP_INLINE void tile_fours(const int R, const int NZ, const int kind, const int PAIR, const fours_row *rows)
{
    const fours_row *t = rows, *u = PAIR ? rows + 1 : rows;
    vec acc[8][8], more[8][8];
    clear_rows(R, NZ, acc);
    if (PAIR) clear_rows(R, NZ, more);
    if (kind != POP_X_ROWS) prefetch_sums(R, NZ, t);
    if (t->order) walk_fours(R, NZ, kind, PAIR, 1, t, u, acc, more);
    else walk_fours(R, NZ, kind, PAIR, 0, t, u, acc, more);
    put_fours(R, NZ, kind, t, acc);
    if (PAIR) put_fours(R, NZ, kind, u, more);
}

typedef void (*fours_function)(const fours_row *);

/* noipa: what calls it would keep its own in vector registers too. */
#define FOURS(NAME, R, NZ, KIND, PAIR) \
    static __attribute__((noipa)) void NAME(const fours_row *rows) { tile_fours(R, NZ, KIND, PAIR, rows); }

/* Each field is stored by itself: put together in vector registers they would wait as above. */
POP_INLINE void put_row(const pop_sparse_item *t, const pop_sparse_view *s, int64_t r, int64_t row, int64_t column,
                        int64_t size, const fours_walk *walk, volatile fours_row *to)
{
    const int64_t q = s->offsets[r], place = s->order ? 0 : q;
    to->walk = walk;
    to->inner = s->inner + q;
    to->end = s->inner + s->offsets[r + 1];
    to->order = s->order ? s->order + q : NULL;
    to->w = s->values + place * t->value_block + row * t->value_row;
    to->x = s->x + column * size;
    to->y = pop_sparse_at(s, (r - s->first) * t->block_rows + row, column);
}

/* `step` block rows at a time, 1 or 2. */
POP_INLINE void sweep_fours(const int R, const int NZ, const int kind, const pop_sparse_item *t, const pop_sparse_view *s,
                            const int64_t step, fours_function one, fours_function two)
{
    const int64_t size = pop_x_bytes(kind), steps = pop_x_steps(kind, t->block_depth);
    const int64_t bytes = (s->offsets[s->last] - s->offsets[s->first]) * t->value_block;
    const int64_t ahead = pays_to_prefetch(t->value_block, bytes) ? t->value_block * R / t->block_rows : 0;
    const fours_walk k = {
        .x_row = s->x_row, .x_block = s->x_row * steps * pop_x_rows(kind), .value_row = t->value_row, .steps = steps,
        .value_depth = t->value_depth, .value_block = t->value_block, .ahead = ahead, .y_row = s->y_row,
        .y_format = s->y_format, .stream = s->stream && !((uintptr_t)s->y % sizeof(vec)) && s->y_row % VL == 0,
        .order_last = s->order ? s->order + s->offsets[s->last] - 1 : NULL};
    for (int64_t r = s->first; r < s->last; r += step)
        for (int64_t j = 0; j < s->columns; j += NZ * VL)
            for (int64_t g = 0; g < s->groups; g++) {
                const int64_t n = step < s->last - r ? step : s->last - r;
                fours_row rows[2];
                for (int64_t i = 0; i < n; i++) put_row(t, s, r + i, s->row + g * R, j, size, &k, &rows[i]);
                (n > 1 ? two : one)(rows);
            }
}
#endif
