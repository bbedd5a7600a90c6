/* Sweeps of all shapes of tiles: which there are, and which of them take a strip.
 *
 * Any block height is a sum of groups of 8, 4, 2 and 1 rows; the last vector of a strip is masked. Where the steps of a
 * block, rows of X or of pairs, are a multiple of 4, no block is ragged and no vector is masked, fours.h has a faster
 * sweep. */
#ifndef POP_SPARSE_SHAPES_H
#define POP_SPARSE_SHAPES_H
#include "kernels/sparse/fours.h"
#include "kernels/sparse/frame.h"
#include "kernels/sparse/rows.h"

/* R rows x NZ vectors of one block row: the sum over its stored blocks. */
POP_INLINE void accumulate(const int R, const int NZ, const int kind, const pop_sparse_item *t, const pop_sparse_view *s,
                           int64_t q0, int64_t q1, const char *w0, const char *x0, lanes m, vec acc[8][8])
{
    const int64_t ldx = s->x_row, down = t->value_row, along = t->value_depth, deep = pop_x_steps(kind, t->block_depth);
    const int64_t depth = pop_x_steps(kind, t->depth);
    for (int64_t q = q0; q < q1; q++) {
        const int64_t c = s->inner[q], n = least(deep, depth - c * deep);
        const char *x = x0 + c * deep * ldx, *w = w0 + (s->order ? s->order[q] : q) * t->value_block;
        for (int64_t k = 0; k < n; k++, x += ldx, w += along)
            add_lines(R, NZ, 1, 0, kind, w, down, along, x, ldx, m, acc);
    }
}

POP_INLINE void sweep(const int R, const int NZ, const int kind, const pop_sparse_item *t, const pop_sparse_view *s)
{
    for (int64_t r = s->first; r < s->last; r++) {
        const int64_t q0 = s->offsets[r], q1 = s->offsets[r + 1];
        for (int64_t j = 0; j < s->columns; j += NZ * VL) {
            const lanes m = pop_v_first(s->columns - j - (NZ - 1) * VL);
            for (int64_t g = 0; g < s->groups; g++) {
                const int64_t row = s->row + g * R;
                vec acc[8][8];
                clear_rows(R, NZ, acc);
                accumulate(R, NZ, kind, t, s, q0, q1, s->values + row * t->value_row, s->x + j * pop_x_bytes(kind), m, acc);
                float *y = pop_sparse_at(s, (r - s->first) * t->block_rows + row, j);
                put_rows(R, NZ, 0, s->y_format, y, s->y_row, m, s->stream, acc);
            }
        }
    }
}

typedef void (*sweep_function)(const pop_sparse_item *, const pop_sparse_view *);

#define SWEEP(KIND, R, NZ)                                                                                        \
    FOURS(one_##KIND##_##R##x##NZ, R, NZ, KIND, 0)                                                                \
    FOURS(pair_##KIND##_##R##x##NZ, R, NZ, KIND, 1)                                                               \
    static void sweep_##KIND##_##R##x##NZ(const pop_sparse_item *t, const pop_sparse_view *s)                     \
    {                                                                                                             \
        if (s->columns % (NZ * VL) || !pop_in_fours(KIND, t)) sweep(R, NZ, KIND, t, s);                                 \
        else if (PAIRED(R, NZ)) sweep_fours(R, NZ, KIND, t, s, 2, one_##KIND##_##R##x##NZ, pair_##KIND##_##R##x##NZ); \
        else sweep_fours(R, NZ, KIND, t, s, 1, one_##KIND##_##R##x##NZ, NULL);                                    \
    }

/* The most vectors that R rows leave registers for. */
#if POP_LEVEL >= POP_LEVEL_AVX512
#define SWEEPS(F, K) F(K, 8, 1) F(K, 8, 2) F(K, 8, 3) F(K, 4, 1) F(K, 4, 2) F(K, 4, 3) F(K, 4, 4) F(K, 2, 1) F(K, 2, 2) \
    F(K, 2, 3) F(K, 2, 4) F(K, 1, 1) F(K, 1, 2) F(K, 1, 3) F(K, 1, 4)
static const int most_vectors[4] = {4, 4, 4, 3}; /* 1, 2, 4, 8 rows */
#define FMA_BLOCK {4, 64, 1}
#else
#define SWEEPS(F, K) F(K, 4, 1) F(K, 4, 2) F(K, 4, 3) F(K, 2, 1) F(K, 2, 2) F(K, 2, 3) F(K, 2, 4) F(K, 1, 1) F(K, 1, 2) \
    F(K, 1, 3) F(K, 1, 4) F(K, 1, 5) F(K, 1, 6) F(K, 1, 7) F(K, 1, 8)
static const int most_vectors[4] = {8, 4, 3, 0};
#define FMA_BLOCK {4, 24, 1}
#endif
#define SWEEP_ENTRY(K, R, NZ) [R == 8 ? 3 : R == 4 ? 2 : R - 1][NZ] = sweep_##K##_##R##x##NZ,
#define SWEEP_ENTRY(K, R, NZ) [R == 8 ? 3 : R == 4 ? 2 : R - 1][NZ] = sweep_##K##_##R##x##NZ,

/* One group size over the view's columns: as few rounds as registers allow, all of them n or n - 1 vectors wide. */
static void sweep_shapes(const sweep_function shapes[4][9], const int kind, const pop_sparse_item *t,
                         const pop_sparse_view *whole, int size)
{
    const int64_t vectors = (whole->columns + VL - 1) / VL;
    const int64_t rounds = (vectors + most_vectors[size] - 1) / most_vectors[size];
    const int64_t wide = (vectors + rounds - 1) / rounds, at_wide = (vectors - rounds * (wide - 1)) * wide * VL;
    pop_sparse_view part = *whole;
    part.columns = least(at_wide, whole->columns);
    shapes[size][wide](t, &part);
    if (at_wide >= whole->columns) return;
    part.columns = whole->columns - at_wide;
    part.x += at_wide * pop_x_bytes(kind);
    part.y = pop_sparse_at(whole, 0, at_wide);
    shapes[size][wide - 1](t, &part);
}

/* Groups of 8, 4, 2 and 1 rows make up the height. */
static void sweep_rows(const sweep_function shapes[4][9], const int kind, const pop_sparse_item *t, pop_sparse_view *s)
{
    s->row = 0;
    for (int size = 3; size >= 0; size--) {
        s->groups = most_vectors[size] ? (s->height - s->row) >> size : 0;
        if (!s->groups) continue;
        sweep_shapes(shapes, kind, t, s, size);
        s->row += s->groups << size;
    }
}

/* Whole strips of four vectors go as 4 x 4 sums, whose step takes eight loads, where 8 x 2 takes ten. Not X that is widened,
 * which lower tiles would widen more often. */
static void sweep_height(const sweep_function shapes[4][9], const int kind, const pop_sparse_item *t, pop_sparse_view *s)
{
    const int64_t wide = s->columns / (4 * VL) * 4 * VL;
    const int widens = kind == POP_X_FP16 || kind == POP_X_BF16;
    pop_sparse_view left = *s, right = *s;
    if (POP_LEVEL >= POP_LEVEL_AVX512 && !widens && wide && s->height % 4 == 0) {
        left.columns = wide;
        left.row = 0;
        left.groups = s->height / 4;
        sweep_shapes(shapes, kind, t, &left, 2);
        right.columns -= wide;
        right.x += wide * pop_x_bytes(kind);
        right.y = pop_sparse_at(s, 0, wide);
    }
    if (right.columns) sweep_rows(shapes, kind, t, &right);
    if (s->stream) _mm_sfence();
}
#endif
