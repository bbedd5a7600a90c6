/* Matrices side by side: POP_LANES of them, element by element, so that lane l of a vector is an element of matrix l.
 *
 * Every operation on such vectors is one that each matrix has by itself: results do not depend on the level, on the
 * neighbours or on the number of threads. In memory the matrices lie one after another; `gather_block` transposes lines
 * of up to POP_LANES elements of all of them into vectors, `scatter_block` back. Lanes without a matrix read the last one. */
#ifndef POP_FACTOR_LANES_H
#define POP_FACTOR_LANES_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "formats/codec.h"
#include "kernels/factor/eights.h"
#include "kernels/transpose.h"
#include "program/program.h"

#define POP_RECORDS "records/factor.def"
#include "records/structs.h"

#define POP_CELL POP_LANES /* floats of a vector in the workspace */

POP_INLINE int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

POP_INLINE pop_v_f at(const float *p) { return pop_v_load_f(p); }

/* x[i][l] becomes x[l][i]. */
POP_INLINE void transpose_lanes(pop_v_f x[POP_LANES])
{
#if POP_LANES == 16
    pop_transpose_16((__m512i *)x);
#elif POP_LANES == 8
    eight_transpose(x);
#else
    for (int i = 0; i < POP_LANES; i++)
        for (int l = i + 1; l < POP_LANES; l++) {
            float kept = x[i][l];
            x[i][l] = x[l][i];
            x[l][i] = kept;
        }
#endif
}

/* `n` elements of up to POP_LANES matrices, from p on, to the cells of the workspace at base + at[i]. */
POP_INLINE void decode_run(const pop_format *f, const char *p, int64_t matrix, int lanes, int n, float *base, const int32_t *at)
{
    pop_v_f x[POP_LANES];
    if (lanes == POP_LANES && n == POP_LANES) {
#pragma GCC unroll 16
        for (int l = 0; l < POP_LANES; l++) x[l] = pop_v_decode(f, p + l * matrix);
        transpose_lanes(x);
#pragma GCC unroll 16
        for (int i = 0; i < POP_LANES; i++) pop_v_store_f(base + at[i], x[i]);
        return;
    }
    for (int l = 0; l < POP_LANES; l++) x[l] = pop_v_decode_part(f, p + (l < lanes ? l : lanes - 1) * matrix, n);
    transpose_lanes(x);
    for (int i = 0; i < n; i++) pop_v_store_f(base + at[i], x[i]);
}

/* And back. */
POP_INLINE void encode_run(const pop_format *f, char *p, int64_t matrix, int lanes, int n, const float *base, const int32_t *at)
{
    pop_v_f x[POP_LANES];
    if (lanes == POP_LANES && n == POP_LANES) {
#pragma GCC unroll 16
        for (int i = 0; i < POP_LANES; i++) x[i] = pop_v_load_f(base + at[i]);
        transpose_lanes(x);
#pragma GCC unroll 16
        for (int l = 0; l < POP_LANES; l++) pop_v_encode(f, POP_OVERFLOW_INFINITY, p + l * matrix, x[l]);
        return;
    }
    for (int i = 0; i < POP_LANES; i++) x[i] = pop_v_load_f(base + at[i < n ? i : 0]);
    transpose_lanes(x);
    for (int l = 0; l < lanes; l++) pop_v_encode_part(f, POP_OVERFLOW_INFINITY, p + l * matrix, x[l], n);
}

#define POP_RUNS(constant, function)                                                                                      \
    static __attribute__((noinline)) void read_##function(const char *p, int64_t matrix, int lanes, int n, float *base,   \
                                                          const int32_t *at)                                              \
    {                                                                                                                     \
        decode_run(&POP_##constant, p, matrix, lanes, n, base, at);                                                       \
    }                                                                                                                     \
    static __attribute__((noinline)) void write_##function(char *p, int64_t matrix, int lanes, int n, const float *base,  \
                                                           const int32_t *at)                                             \
    {                                                                                                                     \
        encode_run(&POP_##constant, p, matrix, lanes, n, base, at);                                                       \
    }
POP_RUNS(F32, f32)
POP_RUNS(F16, f16)
POP_RUNS(BF16, bf16)

typedef void (*run_reader)(const char *, int64_t, int, int, float *, const int32_t *);
typedef void (*run_writer)(char *, int64_t, int, int, const float *, const int32_t *);

POP_INLINE run_reader reader_of(int format) { return format == POP_IS_F32 ? read_f32 : format == POP_IS_F16 ? read_f16 : read_bf16; }
POP_INLINE run_writer writer_of(int format) { return format == POP_IS_F32 ? write_f32 : format == POP_IS_F16 ? write_f16 : write_bf16; }
POP_INLINE int64_t bytes_of(int format) { return format == POP_IS_F32 ? 4 : 2; }

/* Which elements of a block count: all, or those up to, or from, the diagonal. */
enum { WHOLE, TO_DIAGONAL, FROM_DIAGONAL };

/* Where the elements of a block lie in the workspace: (r, c) of the memory at base + r row + c column. */
typedef struct lane_block {
    float *base;
    int64_t row, column; /* in floats */
    int64_t rows, columns;
    int part;
    const float *ones; /* what is written for the diagonal, if not its elements */
    int32_t *places; /* of all elements, where runs go on over the ends of lines, else of the first of a line */
    const float *zero;
    int flat;
} lane_block;

POP_INLINE int64_t first_of(const lane_block *b, int64_t r) { return b->part == FROM_DIAGONAL ? r : 0; }
POP_INLINE int64_t end_of(const lane_block *b, int64_t r) { return b->part == TO_DIAGONAL ? lesser(r + 1, b->columns) : b->columns; }

/* Decide how a block whose lines are `line` bytes apart is walked; `room` for a place of each element and a run's more.
 * A block that is written has zeros where elements do not count. */
static int32_t *lay_block(lane_block *b, int64_t line, int64_t bytes, int32_t *room, const float *zero, int writes)
{
    int64_t total = b->rows * b->columns, runs = 0;
    for (int64_t r = 0; r < b->rows; r++)
        runs += ((writes ? b->columns : end_of(b, r) - first_of(b, r)) + POP_LANES - 1) / POP_LANES;
    b->flat = line == b->columns * bytes && (total + POP_LANES - 1) / POP_LANES < runs + (b->columns % POP_LANES == 0);
    b->flat = b->flat && (b->part == WHOLE || !writes || b->columns < 2 * POP_LANES);
    b->places = room;
    b->zero = zero;
    if (!b->flat) {
        for (int64_t i = 0; i < POP_LANES; i++) room[i] = (int32_t)(i * b->column);
        return room + POP_LANES;
    }
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t c = 0; c < b->columns; c++) {
            int counts = c >= first_of(b, r) && c < end_of(b, r);
            *room++ = (int32_t)(b->ones && c == r ? b->ones - b->base : counts || !writes ? r * b->row + c * b->column : zero - b->base);
        }
    return room;
}

/* A block of each of the matrices at p into the workspace; elements that do not count may be read and written too. */
static void gather_block(const pop_factor_operand *o, const char *p, int lanes, const lane_block *b)
{
    const int64_t bytes = bytes_of(o->format);
    const run_reader reader = reader_of(o->format);
    if (b->flat) {
        for (int64_t e = 0, total = b->rows * b->columns; e < total; e += POP_LANES)
            reader(p + e * bytes, o->matrix, lanes, (int)lesser(POP_LANES, total - e), b->base, b->places + e);
        return;
    }
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t c = first_of(b, r), end = end_of(b, r); c < end; c += POP_LANES)
            reader(p + r * o->line + c * bytes, o->matrix, lanes, (int)lesser(POP_LANES, end - c),
                   b->base + r * b->row + c * b->column, b->places);
}

/* Zeros, whose code is zero in each format: of a whole vector, or of fewer elements. */
POP_INLINE void clear_lanes(char *to, int64_t matrix, int lanes, int64_t bytes)
{
    for (int l = 0; l < lanes; l++, to += matrix)
        if (bytes == POP_VECTOR_BYTES) memset(to, 0, POP_VECTOR_BYTES);
        else if (bytes == POP_VECTOR_BYTES / 2) memset(to, 0, POP_VECTOR_BYTES / 2);
        else memset(to, 0, (size_t)bytes);
}

/* A block back to memory; elements that do not count become zero there. */
static void scatter_block(const pop_factor_operand *o, char *p, int lanes, const lane_block *b)
{
    const int64_t bytes = bytes_of(o->format);
    const run_writer writer = writer_of(o->format);
    if (b->flat) {
        for (int64_t e = 0, total = b->rows * b->columns; e < total; e += POP_LANES)
            writer(p + e * bytes, o->matrix, lanes, (int)lesser(POP_LANES, total - e), b->base, b->places + e);
        return;
    }
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t c = 0, first = first_of(b, r), end = end_of(b, r); c < b->columns; c += POP_LANES) {
            int n = (int)lesser(POP_LANES, b->columns - c);
            char *to = p + r * o->line + c * bytes;
            const float *from = b->base + r * b->row + c * b->column;
            if (c >= end || c + n <= first) {
                clear_lanes(to, o->matrix, lanes, n * bytes);
            } else if (c >= first && c + n <= end && !(b->ones && r >= c && r < c + n)) {
                writer(to, o->matrix, lanes, n, from, b->places);
            } else {
                int32_t some[POP_LANES];
                for (int i = 0; i < n; i++)
                    some[i] = c + i >= first && c + i < end ? b->places[i] : (int32_t)(b->zero - from);
                if (b->ones && r >= c && r < c + n) some[r - c] = (int32_t)(b->ones - from);
                writer(to, o->matrix, lanes, n, from, some);
            }
        }
}

/* The workspace of a share: a cell of zeros, then vectors, then places. */
POP_INLINE float *workspace_of(const pop_tile *tile)
{
    float *zero = (float *)(void *)tile->scratch;
    pop_v_store_f(zero, pop_v_splat(0.0f));
    return zero + POP_CELL;
}

/* Where matrix m of an operand begins. */
POP_INLINE char *place_of(const pop_tile *tile, const pop_factor_operand *o, int64_t m)
{
    return tile->operands[o->operand] + m * o->matrix;
}

/* The lines of memory of some operands' next matrices, which are prefetched as the present ones are worked on: they are too many, and
 * too far apart, for the hardware to see them coming. */
typedef struct lane_ahead {
    uintptr_t next[3], end[3]; /* of each operand */
    uintptr_t each[3];         /* bytes that are prefetched at a time */
} lane_ahead;

#define POP_AHEAD_BYTES (256 << 10) /* of what the second-level cache holds beside the workspace */

/* Ahead of so many matrices from `first` on, for the first operands of an item; `times` that some are prefetched. */
static lane_ahead ahead_of(const pop_tile *tile, const pop_factor_item *item, int operands, int64_t first, int64_t matrices,
                           int64_t times)
{
    const lane_ahead none = {.each = {0}};
    lane_ahead a = none;
    const int64_t count = lesser(matrices, item->first + item->count - first);
    int64_t total = 0;
    for (int i = 0; i < operands && count > 0 && times > 0; i++) {
        const pop_factor_operand *o = &item->operands[i];
        const int64_t bytes = count * o->matrix;
        if (o->line != o->columns * bytes_of(o->format) || o->matrix != o->rows * o->line) continue;
        total += bytes;
        a.next[i] = pop_beyond(place_of(tile, o, first), 0);
        a.end[i] = a.next[i] + (uintptr_t)(bytes & -POP_CACHE_LINE);
        a.each[i] = (uintptr_t)((bytes / POP_CACHE_LINE + times - 1) / times * POP_CACHE_LINE);
    }
    return total <= POP_AHEAD_BYTES ? a : none;
}

/* To the second-level cache: the first is full. */
POP_INLINE void prefetch_ahead(lane_ahead *a)
{
    for (int i = 0; i < 3; i++) {
        uintptr_t next = a->next[i], end = next + a->each[i];
        if (end > a->end[i]) end = a->end[i];
        for (; next < end; next += POP_CACHE_LINE) pop_prefetch_l2(next);
        a->next[i] = next;
    }
}

/* Whether some lane's reciprocal is no normal number. */
POP_INLINE int some_are_hard(pop_v_f size)
{
    return pop_v_any(pop_v_lt_f(size, pop_v_splat(0x1p-126f))) || pop_v_any(pop_v_gt_f(size, pop_v_splat(0x1p126f)));
}

/* 1 for each matrix whose lane of `least` is not above zero. */
static void tell_status(char *status, int lanes, pop_v_f least)
{
    for (int l = 0; l < lanes; l++) status[l] = !(least[l] > 0.0f);
}
#endif
