/* Block-sparse times dense, FP32 accumulators, X read as it lies.
 *
 * A sweep keeps R rows x NZ vectors of Y in registers while it walks the stored blocks of a block row: for each k of a
 * block, NZ loads of X and R broadcasts of W feed R * NZ FMAs. With 8 x 2 (AVX-512) that is 10 loads for 16 FMAs, so the
 * FMA ports are the bound; with R = 1 every FMA wants its own load of X and the load ports and the L2 are. W is read
 * where the matrix stores it: the strides between its rows and along the sum are run-time values, which is what lets the
 * same code serve W and its transpose. Every element of Y is one chain of FMAs in the order of the pattern, whatever the
 * shape, the level or the threads.
 *
 * Any block height is a sum of groups of 8, 4, 2 and 1 rows; the last vector of a strip is masked. Where the
 * depth of a block is a multiple of 4, no block is ragged and no vector is masked, fours.h has a faster sweep. */
#ifndef POP_SPARSE_FMA_H
#define POP_SPARSE_FMA_H
#include "kernels/sparse/fours.h"
#include "kernels/sparse/frame.h"
#include "kernels/sparse/rows.h"

/* R rows x NZ vectors of one block row: the sum over its stored blocks. */
POP_INLINE void accumulate(const int R, const int NZ, const int kind, const pop_sparse_item *t, const pop_sparse_view *s,
                           int64_t q0, int64_t q1, const char *w0, const char *x0, lanes m, vec acc[8][8])
{
    const int64_t ldx = s->x_row, down = t->value_row, along = t->value_depth, deep = t->block_depth;
    for (int64_t q = q0; q < q1; q++) {
        const int64_t c = s->inner[q], n = least(deep, t->depth - c * deep);
        const char *x = x0 + c * deep * ldx, *w = w0 + (s->order ? s->order[q] : q) * t->value_block;
        for (int64_t k = 0; k < n; k++, x += ldx, w += along)
            add_lines(R, NZ, 1, 0, kind, w, down, along, x, ldx, m, acc);
    }
}

POP_INLINE void sweep(const int R, const int NZ, const int kind, const pop_sparse_item *t, const pop_sparse_view *s)
{
    const int64_t size = kind == POP_X_FP32 ? 4 : 2;
    for (int64_t r = s->first; r < s->last; r++) {
        const int64_t q0 = s->offsets[r], q1 = s->offsets[r + 1];
        for (int64_t j = 0; j < s->columns; j += NZ * VL) {
            const lanes m = pop_v_first(s->columns - j - (NZ - 1) * VL);
            for (int64_t g = 0; g < s->groups; g++) {
                const int64_t row = s->row + g * R;
                vec acc[8][8];
                clear_rows(R, NZ, acc);
                accumulate(R, NZ, kind, t, s, q0, q1, s->values + row * t->value_row, s->x + j * size, m, acc);
                float *y = s->y + ((r - s->first) * t->block_rows + row) * s->y_row + j;
                put_rows(R, NZ, 0, y, s->y_row, m, s->stream, acc);
            }
        }
    }
}

#define ELEMENTS_AHEAD 16           /* of a transpose */
#define ELEMENTS_THAT_STREAM 160000 /* with their indices they leave the L2 */

/* One element times NZ vectors of a row of X, added. */
POP_INLINE void add_element(const int NZ, const int WHOLE, const int kind, const char *value, const char *x, lanes m,
                            vec acc[4])
{
    const int64_t bytes = VL * (kind == POP_X_FP32 ? 4 : 2);
    const vec b = pop_broadcast(value);
#pragma GCC unroll 4
    for (int z = 0; z < NZ; z++)
        acc[z] = pop_v_fma(b, WHOLE || z < NZ - 1 ? pop_load(kind, x + z * bytes) : pop_load_some(kind, x + z * bytes, m),
                         acc[z]);
}

/* A dword of an array, perhaps past its end. */
POP_INLINE void prefetch(const void *array, int64_t at) { __builtin_prefetch((const void *)((uintptr_t)array + 4 * (uintptr_t)at)); }

/* Rows of single elements over at most ELEMENT_VECTORS vectors. A row alone would wait for its own last sum, and
 * neighbouring rows in step meet the same rows of X at about the same time, so four go in step as far as the shortest
 * reaches, and finish one by one. With AVX-512, X in a panel of 64 columns and 1024 rows: 122 GFLOP/s at density 1/2, 81 at
 * 1/32, against 40 for one row of 8 vectors, which reads the L2 for each multiply-add. Four short rows are no streams that
 * the hardware would follow: where W leaves the L2, the next four are asked for (m = k = 4096, n = 16, density 1/32:
 * 50 GFLOP/s instead of 24). */
POP_INLINE void sweep_elements(const int NZ, const int WHOLE, const int ORDER, const int kind, const pop_sparse_item *t,
                               const pop_sparse_view *s)
{
    const lanes m = pop_v_first(s->columns - (NZ - 1) * VL);
    const int64_t ldx = s->x_row;
    const char *const x = s->x;
    const int32_t *const order_last = ORDER ? s->order + s->offsets[s->last] - 1 : NULL;
    const int streams = s->offsets[s->last] - s->offsets[s->first] > ELEMENTS_THAT_STREAM;
    const int in_lines = WHOLE && NZ > 1 && can_write_lines(s->y, s->columns, s->y_row, s->stream);
    line_writer writer = lines_from(s->y);
#define ELEMENT(q) s->values + 4 * (ORDER ? s->order[q] : (q)), x + s->inner[q] * ldx
    for (int64_t r = s->first; r < s->last; r += 4) {
        vec acc[4][4];
        int64_t at[4], end[4], steps = INT64_MAX;
        const int64_t rows = least(4, s->last - r);
        for (int64_t i = 0; i < 4; i++) {
            at[i] = s->offsets[r + least(i, rows - 1)];
            end[i] = i < rows ? s->offsets[r + i + 1] : at[i];
            steps = least(steps, end[i] - at[i]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
            for (int z = 0; z < NZ; z++) acc[i][z] = (vec){0};
        const int64_t far = s->offsets[r + rows] - s->offsets[r];
        for (int64_t k = 0; k < steps;) {
            const int64_t line = least(steps, k + 16);
            for (int i = 0; i < 4 && streams; i++) {
                prefetch(s->inner, at[i] + k + far);
                prefetch(ORDER ? (const void *)s->order : s->values, at[i] + k + far);
            }
            for (; k < line; k++)
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++) {
                    if (ORDER && streams) {
                        const int32_t *next = s->order + at[i] + k + ELEMENTS_AHEAD;
                        prefetch(s->values, *(next < order_last ? next : order_last));
                    }
                    add_element(NZ, WHOLE, kind, ELEMENT(at[i] + k), m, acc[i]);
                }
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            if (i >= rows) break;
            for (int64_t q = at[i] + steps; q < end[i]; q++) add_element(NZ, WHOLE, kind, ELEMENT(q), m, acc[i]);
            float *y = s->y + (r + i - s->first) * s->y_row;
#pragma GCC unroll 4
            for (int z = 0; z < NZ; z++)
                if (in_lines) write_vector(&writer, acc[i][z]);
                else put(y + z * VL, acc[i][z], z < NZ - 1 ? pop_v_first(VL) : m, s->stream);
        }
    }
    if (in_lines) end_lines(&writer);
#undef ELEMENT
}

/* Single elements over some columns, ELEMENT_VECTORS at a time. */
POP_INLINE void elements(const int NZ, const int kind, const pop_sparse_item *t, const pop_sparse_view *s)
{
    const int whole = s->columns == NZ * VL;
    if (s->order) {
        if (whole) sweep_elements(NZ, 1, 1, kind, t, s);
        else sweep_elements(NZ, 0, 1, kind, t, s);
    } else {
        if (whole) sweep_elements(NZ, 1, 0, kind, t, s);
        else sweep_elements(NZ, 0, 0, kind, t, s);
    }
}

/* Rows of single elements over whole rows of X as they lie, FAR_VECTORS at a time. Where few stored elements meet a row of
 * X, a copy of it costs more than it saves, and one of a large X would be read from as far. Rows of X are asked for ahead,
 * in the order of W. A graph of 16384 nodes with 8 edges each, n = 256: 6.7 ms instead of 10.2 in panels of 64 columns. */
#define FAR_VECTORS 8
#define FAR_AHEAD 8 /* elements */
POP_INLINE void sweep_far(const int kind, const pop_sparse_item *t, const pop_sparse_view *s)
{
    const int64_t ldx = s->x_row, bytes = VL * (kind == POP_X_FP32 ? 4 : 2), final = s->offsets[s->last] - 1;
    const lanes all = pop_v_first(VL);
    const int in_lines = can_write_lines(s->y, s->columns, s->y_row, s->stream);
    line_writer writer = lines_from(s->y);
    for (int64_t r = s->first; r < s->last; r++)
        for (int64_t j = 0; j < s->columns; j += FAR_VECTORS * VL) {
            const char *const x = s->x + j / VL * bytes;
            vec acc[FAR_VECTORS];
#pragma GCC unroll 8
            for (int z = 0; z < FAR_VECTORS; z++) acc[z] = (vec){0};
            for (int64_t q = s->offsets[r]; q < s->offsets[r + 1]; q++) {
                const int64_t ahead = least(q + FAR_AHEAD, final);
                const char *const next = x + s->inner[ahead] * ldx, *const row = x + s->inner[q] * ldx;
                if (s->order) prefetch(s->values, s->order[ahead]);
                const vec b = pop_broadcast(s->values + 4 * (s->order ? s->order[q] : q));
#pragma GCC unroll 8
                for (int z = 0; z < FAR_VECTORS; z++) {
                    __builtin_prefetch(next + z * bytes);
                    acc[z] = pop_v_fma(b, pop_load(kind, row + z * bytes), acc[z]);
                }
            }
            float *y = s->y + (r - s->first) * s->y_row + j;
#pragma GCC unroll 8
            for (int z = 0; z < FAR_VECTORS; z++)
                if (in_lines) write_vector(&writer, acc[z]);
                else put(y + z * VL, acc[z], all, s->stream);
        }
    if (in_lines) end_lines(&writer);
}

typedef void (*sweep_function)(const pop_sparse_item *, const pop_sparse_view *);

#define SWEEP(KIND, R, NZ)                                                                                        \
    FOURS(one_##KIND##_##R##x##NZ, R, NZ, KIND, 0)                                                                \
    FOURS(pair_##KIND##_##R##x##NZ, R, NZ, KIND, 1)                                                               \
    static void sweep_##KIND##_##R##x##NZ(const pop_sparse_item *t, const pop_sparse_view *s)                     \
    {                                                                                                             \
        if (s->columns % (NZ * VL) || !pop_in_fours(t)) sweep(R, NZ, KIND, t, s);                                 \
        else if (PAIRED(R, NZ)) sweep_fours(R, NZ, KIND, t, s, 2, one_##KIND##_##R##x##NZ, pair_##KIND##_##R##x##NZ); \
        else sweep_fours(R, NZ, KIND, t, s, 1, one_##KIND##_##R##x##NZ, NULL);                                    \
    }

/* The most vectors that R rows leave registers for. */
#if POP_LEVEL >= POP_LEVEL_AVX512
#define SWEEPS(F, K) F(K, 8, 1) F(K, 8, 2) F(K, 8, 3) F(K, 4, 1) F(K, 4, 2) F(K, 4, 3) F(K, 4, 4) F(K, 2, 1) F(K, 2, 2) \
    F(K, 2, 3) F(K, 2, 4) F(K, 2, 5) F(K, 2, 6) F(K, 2, 7) F(K, 2, 8) F(K, 1, 1) F(K, 1, 2) F(K, 1, 3) F(K, 1, 4)     \
    F(K, 1, 5) F(K, 1, 6) F(K, 1, 7) F(K, 1, 8)
static const int most_vectors[4] = {8, 8, 4, 3}; /* 1, 2, 4, 8 rows */
#define ELEMENT_VECTORS 4
#define FMA_BLOCK {8, 48, 1}
#else
#define SWEEPS(F, K) F(K, 4, 1) F(K, 4, 2) F(K, 4, 3) F(K, 2, 1) F(K, 2, 2) F(K, 2, 3) F(K, 2, 4) F(K, 1, 1) F(K, 1, 2) \
    F(K, 1, 3) F(K, 1, 4) F(K, 1, 5) F(K, 1, 6) F(K, 1, 7) F(K, 1, 8)
static const int most_vectors[4] = {8, 4, 3, 0};
#define ELEMENT_VECTORS 2
#define FMA_BLOCK {4, 24, 1}
#endif
#define SWEEP_ENTRY(K, R, NZ) [R == 8 ? 3 : R == 4 ? 2 : R - 1][NZ] = sweep_##K##_##R##x##NZ,
SWEEPS(SWEEP, POP_X_FP32)
SWEEPS(SWEEP, POP_X_FP16)
SWEEPS(SWEEP, POP_X_BF16)
#define ELEMENTS(KIND, NZ) \
    static void elements_##KIND##_##NZ(const pop_sparse_item *t, const pop_sparse_view *s) { elements(NZ, KIND, t, s); }
#define ELEMENTS_OF(KIND) ELEMENTS(KIND, 1) ELEMENTS(KIND, 2) ELEMENTS(KIND, 3) ELEMENTS(KIND, 4)
#define ELEMENTS_ROW(KIND) {0, elements_##KIND##_1, elements_##KIND##_2, elements_##KIND##_3, elements_##KIND##_4}
ELEMENTS_OF(POP_X_FP32)
ELEMENTS_OF(POP_X_FP16)
ELEMENTS_OF(POP_X_BF16)
static const sweep_function element_sweeps[3][5] = {ELEMENTS_ROW(POP_X_FP32), ELEMENTS_ROW(POP_X_FP16),
                                                    ELEMENTS_ROW(POP_X_BF16)};
static const sweep_function sweeps[3][4][9] = {
    {SWEEPS(SWEEP_ENTRY, POP_X_FP32)}, {SWEEPS(SWEEP_ENTRY, POP_X_FP16)}, {SWEEPS(SWEEP_ENTRY, POP_X_BF16)}};

/* One group size over the view's columns: as few rounds as registers allow, all of them n or n - 1 vectors wide. */
static void sweep_columns(const int kind, const pop_sparse_item *t, const pop_sparse_view *whole, int size)
{
    const int64_t vectors = (whole->columns + VL - 1) / VL;
    const int64_t rounds = (vectors + most_vectors[size] - 1) / most_vectors[size];
    const int64_t wide = (vectors + rounds - 1) / rounds, at_wide = (vectors - rounds * (wide - 1)) * wide * VL;
    pop_sparse_view part = *whole;
    if (t->block_rows == 1 && t->block_depth == 1) {
        if (!t->pack && whole->columns % (FAR_VECTORS * VL) == 0) {
            sweep_far(kind, t, whole);
            return;
        }
        for (int64_t j = 0; j < whole->columns; j += ELEMENT_VECTORS * VL) {
            part.columns = least(ELEMENT_VECTORS * VL, whole->columns - j);
            part.x = whole->x + j * (kind == POP_X_FP32 ? 4 : 2);
            part.y = whole->y + j;
            element_sweeps[kind][(part.columns + VL - 1) / VL](t, &part);
        }
        return;
    }
    part.columns = least(at_wide, whole->columns);
    sweeps[kind][size][wide](t, &part);
    if (at_wide >= whole->columns) return;
    part.columns = whole->columns - at_wide;
    part.x += at_wide * (kind == POP_X_FP32 ? 4 : 2);
    part.y += at_wide;
    sweeps[kind][size][wide - 1](t, &part);
}

/* Groups of 8, 4, 2 and 1 rows make up the height. */
POP_INLINE void sweep_height(const int kind, const pop_sparse_item *t, pop_sparse_view *s)
{
    s->row = 0;
    for (int size = 3; size >= 0; size--) {
        s->groups = most_vectors[size] ? (s->height - s->row) >> size : 0;
        if (!s->groups) continue;
        sweep_columns(kind, t, s, size);
        s->row += s->groups << size;
    }
    if (s->stream) _mm_sfence();
}

static void fma_sweep_fp32(const pop_sparse_item *t, pop_sparse_view *s) { sweep_height(POP_X_FP32, t, s); }
static void fma_sweep_fp16(const pop_sparse_item *t, pop_sparse_view *s) { sweep_height(POP_X_FP16, t, s); }
static void fma_sweep_bf16(const pop_sparse_item *t, pop_sparse_view *s) { sweep_height(POP_X_BF16, t, s); }

/* A packed panel holds FP32, whatever X's format. */
static void fma_fp32(const void *item, const pop_tile *tile)
{
    frame((const pop_sparse_item *)item, tile, fma_sweep_fp32, 0);
}

static void fma_fp16(const void *item, const pop_tile *tile)
{
    const pop_sparse_item *t = (const pop_sparse_item *)item;
    frame(t, tile, t->pack ? fma_sweep_fp32 : fma_sweep_fp16, 0);
}

static void fma_bf16(const void *item, const pop_tile *tile)
{
    const pop_sparse_item *t = (const pop_sparse_item *)item;
    frame(t, tile, t->pack ? fma_sweep_fp32 : fma_sweep_bf16, 0);
}
#endif
