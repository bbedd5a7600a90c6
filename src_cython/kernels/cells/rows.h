/* Rows of a cell's numbers in the thread's scratch: up to POP_CHUNK floats, whole vectors of them. Formats are met where rows
 * are read and written alone, so that what a cell computes is written once; a chunk's rows stay in the first-level cache. */
#ifndef POP_CELLS_ROWS_H
#define POP_CELLS_ROWS_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "formats/codec.h"
#include "program/program.h"
#include "simd/curves.h"

#define POP_RECORDS "records/cells.def"
#include "records/structs.h"

#define POP_CHUNK 256 /* columns worked on at once: CHUNK of popnn/recurrent/lower.py */
#define POP_ALONG(i, n) for (int64_t i = 0; i < (n); i += POP_LANES)

POP_INLINE pop_v_f at(const float *p) { return pop_v_load_f(p); }

#define POP_ROW_FORMAT(constant, name)                                                                                  \
    static __attribute__((noinline)) void read_##name(float *to, const char *from, int64_t n)                           \
    {                                                                                                                   \
        int64_t i = 0;                                                                                                  \
        for (; i + POP_LANES <= n; i += POP_LANES)                                                                      \
            pop_v_store_f(to + i, pop_v_decode(&POP_##constant, from + i * pop_bytes(&POP_##constant)));                \
        if (i < n)                                                                                                      \
            pop_v_store_f(to + i, pop_v_decode_part(&POP_##constant, from + i * pop_bytes(&POP_##constant), n - i));    \
    }                                                                                                                   \
    static __attribute__((noinline)) void write_##name(char *to, const float *from, int64_t n)                          \
    {                                                                                                                   \
        int64_t i = 0;                                                                                                  \
        for (; i + POP_LANES <= n; i += POP_LANES)                                                                      \
            pop_v_encode(&POP_##constant, POP_OVERFLOW_INFINITY, to + i * pop_bytes(&POP_##constant), at(from + i));    \
        if (i < n)                                                                                                      \
            pop_v_encode_part(&POP_##constant, POP_OVERFLOW_INFINITY, to + i * pop_bytes(&POP_##constant), at(from + i), \
                              n - i);                                                                                   \
    }                                                                                                                   \
    static __attribute__((noinline)) void round_##name(float *x, int64_t n)                                             \
    {                                                                                                                   \
        POP_ALONG(i, n)                                                                                                 \
        {                                                                                                               \
            char codes[POP_VECTOR_BYTES];                                                                               \
            pop_v_encode(&POP_##constant, POP_OVERFLOW_INFINITY, codes, at(x + i));                                     \
            pop_v_store_f(x + i, pop_v_decode(&POP_##constant, codes));                                                 \
        }                                                                                                               \
    }
POP_ROW_FORMAT(F32, f32)
POP_ROW_FORMAT(F16, f16)
POP_ROW_FORMAT(BF16, bf16)

POP_INLINE int64_t bytes_of(int64_t format) { return format == POP_IS_F32 ? 4 : 2; }

static void round_row(int64_t format, float *x, int64_t n)
{
    if (format == POP_IS_F16) round_f16(x, n);
    else if (format == POP_IS_BF16) round_bf16(x, n);
}

/* Where a vertex is: an item, a step of it, a row and some columns. */
typedef struct cell_place {
    const pop_cell_item *item;
    const pop_tile *tile;
    int64_t step, row, column, n;
} cell_place;

POP_INLINE int has(const cell_place *p, int side) { return p->item->sides[side].operand >= 0; }

/* A plane of a side at another step. */
POP_INLINE char *plane_at(const cell_place *p, int side, int plane, int64_t step)
{
    const pop_cell_side *s = &p->item->sides[side];
    return p->tile->operands[s->operand] + s->offset + step * s->step + p->row * s->row + s->planes[plane]
           + p->column * bytes_of(s->format);
}

static void read_from(const cell_place *p, int side, const char *from, float *to)
{
    const int64_t format = p->item->sides[side].format;
    (format == POP_IS_F32 ? read_f32 : format == POP_IS_F16 ? read_f16 : read_bf16)(to, from, p->n);
}

/* Numbers at a place in FP32: where they are if they are FP32 and whole vectors, else in `room`. */
static const float *row_from(const cell_place *p, int side, const char *from, float *room)
{
    if (p->item->sides[side].format == POP_IS_F32 && p->n % POP_LANES == 0) return (const float *)(const void *)from;
    read_from(p, side, from, room);
    return room;
}

static const float *row_of(const cell_place *p, int side, int plane, float *room)
{
    return row_from(p, side, plane_at(p, side, plane, p->step), room);
}

/* Nothing where there is no such side. */
static void write_row(const cell_place *p, int side, int plane, const float *from)
{
    if (!has(p, side)) return;
    const int64_t format = p->item->sides[side].format;
    char *to = plane_at(p, side, plane, p->step);
    (format == POP_IS_F32 ? write_f32 : format == POP_IS_F16 ? write_f16 : write_bf16)(to, from, p->n);
}

static void clear_rows(const cell_place *p, int side, int planes)
{
    if (!has(p, side)) return;
    for (int plane = 0; plane < planes; plane++)
        memset(plane_at(p, side, plane, p->step), 0, (size_t)(p->n * bytes_of(p->item->sides[side].format)));
}

static void add_rows(float *to, const float *x, const float *y, int64_t n)
{
    POP_ALONG(i, n) pop_v_store_f(to + i, at(x + i) + at(y + i));
}

static void times_rows(float *to, const float *x, const float *y, int64_t n)
{
    POP_ALONG(i, n) pop_v_store_f(to + i, at(x + i) * at(y + i));
}

#define POP_APPLY(function) POP_ALONG(i, n) pop_v_store_f(x + i, function(at(x + i)))
static __attribute__((noinline)) void apply_tanh(float *x, int64_t n) { POP_CURVE_ALONG(pop_v_tanhs, n, x, at(x + i)) }
static __attribute__((noinline)) void apply_sigmoid(float *x, int64_t n) { POP_CURVE_ALONG(pop_v_sigmoids, n, x, at(x + i)) }
POP_INLINE pop_v_f cell_relu(pop_v_f x) { return pop_v_max_f(pop_v_splat(0.0f), x); } /* NaN stays */
POP_INLINE pop_v_f cell_hard_sigmoid(pop_v_f x) { return pop_v_clamp(pop_v_fma(x, pop_v_splat(0.2f), pop_v_splat(0.5f)), 0.0f, 1.0f); }

static void apply(int64_t activation, float *x, int64_t n)
{
    if (activation == POP_CELL_TANH) apply_tanh(x, n);
    else if (activation == POP_CELL_SIGMOID) apply_sigmoid(x, n);
    else if (activation == POP_CELL_RELU) POP_APPLY(cell_relu);
    else POP_APPLY(cell_hard_sigmoid);
}

/* Sums of three rows, and their non-linearity where it is one of the usual two. */
#define POP_SUM_OF_THREE(name, walk)                                                                                   \
    static __attribute__((noinline)) void name(float *to, const float *x, const float *y, const float *z, int64_t n)  \
    {                                                                                                                  \
        walk                                                                                                           \
    }
#define POP_THREE ((at(x + i) + at(y + i)) + at(z + i))
POP_SUM_OF_THREE(sum_rows, POP_ALONG(i, n) pop_v_store_f(to + i, POP_THREE);)
POP_SUM_OF_THREE(tanh_of_sum, POP_CURVE_ALONG(pop_v_tanhs, n, to, POP_THREE))
POP_SUM_OF_THREE(sigmoid_of_sum, POP_CURVE_ALONG(pop_v_sigmoids, n, to, POP_THREE))

static void apply_to_sum(int64_t activation, float *to, const float *x, const float *y, const float *z, int64_t n)
{
    if (activation == POP_CELL_TANH) tanh_of_sum(to, x, y, z, n);
    else if (activation == POP_CELL_SIGMOID) sigmoid_of_sum(to, x, y, z, n);
    else {
        sum_rows(to, x, y, z, n);
        apply(activation, to, n);
    }
}

/* A product, times the derivative where the non-linearity gave y. */
#define POP_TIMES_SLOPE(name, slope)                                                                                   \
    static __attribute__((noinline)) void name(float *to, const float *a, const float *b, const float *y, int64_t n)  \
    {                                                                                                                  \
        POP_ALONG(i, n)                                                                                                \
        {                                                                                                              \
            const pop_v_f v = at(y + i), given = at(a + i) * at(b + i);                                                \
            pop_v_store_f(to + i, slope);                                                                              \
        }                                                                                                              \
    }
POP_TIMES_SLOPE(times_tanh_slope, given * pop_v_fma(-v, v, pop_v_splat(1.0f)))
POP_TIMES_SLOPE(times_sigmoid_slope, given * (v * (1.0f - v)))
POP_TIMES_SLOPE(times_relu_slope, pop_v_select_f(pop_v_gt_f(v, pop_v_splat(0.0f)), pop_v_splat(0.0f), given))
POP_TIMES_SLOPE(times_hard_slope,
                pop_v_select_f((pop_v_m)(pop_v_gt_f(v, pop_v_splat(0.0f)) & pop_v_lt_f(v, pop_v_splat(1.0f))), pop_v_splat(0.0f),
                               given * 0.2f))

static __attribute__((noinline)) void times_constant_slope(float *to, const float *a, const float *b, int64_t n)
{
    POP_ALONG(i, n)
    {
        pop_v_store_f(to + i, at(a + i) * at(b + i) * 0.2f);
    }
}

static void times_slope(const pop_cell_item *item, int64_t activation, float *to, const float *a, const float *b, const float *y,
                        int64_t n)
{
    if (activation == POP_CELL_TANH) times_tanh_slope(to, a, b, y, n);
    else if (activation == POP_CELL_SIGMOID) times_sigmoid_slope(to, a, b, y, n);
    else if (activation == POP_CELL_RELU) times_relu_slope(to, a, b, y, n);
    else if (item->constant_slope) times_constant_slope(to, a, b, n);
    else times_hard_slope(to, a, b, y, n);
}

typedef void (*cell_body)(const cell_place *p, float *scratch, int active);

/* Walk the rows and chunks of an item; `lengths` is the side that says how many steps a row has. */
POP_INLINE void walk(const void *given, const pop_tile *tile, int lengths, cell_body body)
{
    const pop_cell_item *item = (const pop_cell_item *)given;
    const pop_cell_side *side = &item->sides[lengths];
    cell_place p = {item, tile, item->backward ? item->steps - 1 - tile->turn : tile->turn, 0, 0, 0};
    for (p.row = item->first; p.row < item->first + item->count; p.row++) {
        int active = 1;
        if (side->operand >= 0) {
            int64_t length;
            memcpy(&length, tile->operands[side->operand] + p.row * side->row, sizeof length);
            active = p.step < length;
        }
        for (int64_t c = 0; c < item->columns; c += POP_CHUNK) {
            p.column = item->column + c;
            p.n = item->columns - c < POP_CHUNK ? item->columns - c : POP_CHUNK;
            body(&p, (float *)(void *)tile->scratch, active);
        }
    }
}
#endif
