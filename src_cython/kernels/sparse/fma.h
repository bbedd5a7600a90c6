/* Block-sparse times dense, FP32 accumulators, X read as it lies.
 *
 * A sweep keeps R rows x NZ vectors of Y in registers while it walks the stored blocks of a block row: for each k of a
 * block, NZ loads of X and R broadcasts of W feed R * NZ FMAs. With 4 x 4 (AVX-512) that is 8 loads for 16 FMAs, so the
 * FMA ports are the bound; with R = 1 every FMA wants its own load of X and the load ports and the L2 are. W is read
 * where the matrix stores it: the strides between its rows and along the sum are run-time values, which is what lets the
 * same code serve W and its transpose. Every element of Y is one chain of FMAs in the order of the pattern, whatever the
 * shape, the level or the threads.
 *
 * Shapes of tiles are those of shapes.h; single elements have sweeps of their own. */
#ifndef POP_SPARSE_FMA_H
#define POP_SPARSE_FMA_H
#include "kernels/sparse/shapes.h"

#define ELEMENT_VECTORS (POP_LEVEL >= POP_LEVEL_AVX512 ? 4 : 2)
#define ELEMENTS_AHEAD 16           /* of a transpose */
#define ELEMENTS_THAT_STREAM 160000 /* with their indices they leave the L2 */

/* One element times NZ vectors of a row of X, added. */
POP_INLINE void add_element(const int NZ, const int WHOLE, const int kind, const char *value, const char *x, lanes m,
                            vec acc[4])
{
    const int64_t bytes = VL * pop_x_bytes(kind);
    const vec b = pop_broadcast(value);
#pragma GCC unroll 4
    for (int z = 0; z < NZ; z++)
        acc[z] = pop_v_fma(b, WHOLE || z < NZ - 1 ? pop_load(kind, x + z * bytes) : pop_load_some(kind, x + z * bytes, m),
                         acc[z]);
}

/* Rows of single elements over at most ELEMENT_VECTORS vectors. A row alone would wait for its own last sum, and
 * neighbouring rows in step meet the same rows of X at about the same time, so four go in step as far as the shortest
 * reaches, and finish one by one. With AVX-512, X in a panel of 64 columns and 1024 rows: 122 GFLOP/s at density 1/2, 81 at
 * 1/32, against 40 for one row of 8 vectors, which reads the L2 for each multiply-add. Four short rows are no streams that
 * the hardware would follow: where W leaves the L2, the next four are prefetched (m = k = 4096, n = 16, density 1/32:
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
                pop_prefetch(pop_beyond(s->inner, 4 * (at[i] + k + far)));
                pop_prefetch(pop_beyond(ORDER ? (const void *)s->order : s->values, 4 * (at[i] + k + far)));
            }
            for (; k < line; k++)
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++) {
                    if (ORDER && streams) {
                        const int32_t *next = s->order + at[i] + k + ELEMENTS_AHEAD;
                        pop_prefetch(pop_beyond(s->values, 4 * (int64_t)*(next < order_last ? next : order_last)));
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
 * X, a copy of it costs more than it saves, and one of a large X would be read from as far. Rows of X are prefetched,
 * in the order of W. A graph of 16384 nodes with 8 edges each, n = 256: 6.7 ms instead of 10.2 in panels of 64 columns. */
#define FAR_VECTORS 8
#define FAR_AHEAD 8 /* elements */
POP_INLINE void sweep_far(const int kind, const pop_sparse_item *t, const pop_sparse_view *s)
{
    const int64_t ldx = s->x_row, bytes = VL * pop_x_bytes(kind), final = s->offsets[s->last] - 1;
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
                if (s->order) pop_prefetch(pop_beyond(s->values, 4 * s->order[ahead]));
                const vec b = pop_broadcast(s->values + 4 * (s->order ? s->order[q] : q));
#pragma GCC unroll 8
                for (int z = 0; z < FAR_VECTORS; z++) {
                    pop_prefetch(pop_beyond(next, z * bytes));
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

/* Single elements over the view's columns. */
static void sweep_elements_of(const int kind, const pop_sparse_item *t, const pop_sparse_view *whole)
{
    if (!t->pack && whole->columns % (FAR_VECTORS * VL) == 0) {
        sweep_far(kind, t, whole);
        return;
    }
    pop_sparse_view part = *whole;
    for (int64_t j = 0; j < whole->columns; j += ELEMENT_VECTORS * VL) {
        part.columns = least(ELEMENT_VECTORS * VL, whole->columns - j);
        part.x = whole->x + j * pop_x_bytes(kind);
        part.y = whole->y + j;
        element_sweeps[kind][(part.columns + VL - 1) / VL](t, &part);
    }
}

static void fma_sweep(const int kind, const pop_sparse_item *t, pop_sparse_view *s)
{
    if (t->block_rows > 1 || t->block_depth > 1) {
        sweep_height(sweeps[kind], kind, t, s);
        return;
    }
    s->row = 0;
    s->groups = 1;
    sweep_elements_of(kind, t, s);
    if (s->stream) _mm_sfence();
}

static void fma_sweep_fp32(const pop_sparse_item *t, pop_sparse_view *s) { fma_sweep(POP_X_FP32, t, s); }
static void fma_sweep_fp16(const pop_sparse_item *t, pop_sparse_view *s) { fma_sweep(POP_X_FP16, t, s); }
static void fma_sweep_bf16(const pop_sparse_item *t, pop_sparse_view *s) { fma_sweep(POP_X_BF16, t, s); }

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
