/* The rows family: functions of rows of numbers, over any axes: softmax and norms with their gradients, losses.
 *
 * Bodies see numbers one after another (walk.h), FP32, FP16 and BF16 as they lie; sums have one order (sums.h), so all levels,
 * thread counts and strides give the same bits: where the CPU rounds to BF16, that is all that differs. */
#ifndef POP_ROWS_H
#define POP_ROWS_H
#include "kernels/rows/channels.h"
#include "kernels/rows/columns.h"
#include "kernels/rows/losses.h"
#include "kernels/rows/power_columns.h"
#include "kernels/rows/points.h"

/* How many rows a unit of work has, of how many elements at most those are that are done together, which operand is a label. */
#define POP_ROWS_SHORTS(s) ((s)->n <= POP_ROWS_SHORT ? POP_FOUR * POP_ROWS_SHORT : 0)
#define POP_ROWS_BODIES(X, ...)                                                                                        \
    X(softmax, 1, pop_row_plain(s) ? POP_ROWS_SHORTS(s) : 0, -1, __VA_ARGS__)                                              \
    X(log_softmax, 1, pop_row_plain(s) ? POP_ROWS_SHORTS(s) : 0, -1, __VA_ARGS__)                                          \
    X(softmax_grad, 1, POP_ROWS_SHORTS(s), -1, __VA_ARGS__)                                                                \
    X(log_softmax_grad, 1, POP_ROWS_SHORTS(s), -1, __VA_ARGS__)                                                            \
    X(norm, 1, pop_norm_turns(s, f) ? -POP_ROWS_TURNS : POP_ROWS_NEAR, -1, __VA_ARGS__)                                \
    X(norm_grad, 1, POP_ROWS_NEAR / 2, -1, __VA_ARGS__)                                                                \
    X(norm_grad_blocks, POP_BLOCK_ROWS, POP_ROWS_NEAR / 2, -1, __VA_ARGS__)                                            \
    X(cross_entropy, 1, POP_ROWS_SHORTS(s), 1, __VA_ARGS__)
#define POP_ROWS_VERTEX(name, unit, together, label, suffix, format)                                                   \
    static void pop_rows_body_##name##_##suffix(pop_row *row) { pop_row_##name(row, &POP_##format); }                  \
    static void pop_rows_##name##_##suffix(const void *item, const pop_tile *tile)                                     \
    {                                                                                                                  \
        const pop_rows *s = ((const pop_rows_item *)item)->spec;                                                       \
        const pop_format *f = &POP_##format;                                                                           \
        (void)f;                                                                                                       \
        const int64_t several = s->segments == 1 ? (together) : 0;                                                     \
        pop_rows_walk(item, tile, pop_rows_body_##name##_##suffix, several, label, unit);                              \
    }
#if POP_LEVEL < POP_LEVEL_AVX512_BF16 /* which has BF16 alone */
POP_ROWS_BODIES(POP_ROWS_VERTEX, f32, F32)
POP_STRIP_BODIES(f32, F32)
POP_POWER_BODIES(f32, F32)
POP_ROWS_VERTEX(loss, 1, 0, 1, f32, F32)
#endif
#if POP_LEVEL < POP_LEVEL_AVX512_BF16
POP_ROWS_POINTS(POP_ROWS_VERTEX, 1, 0, -1, f32, F32)
POP_CHANNELS_BODIES(POP_CHANNELS_VERTEX)
#endif
#if !POP_ONE_BODY && POP_LEVEL < POP_LEVEL_AVX512_BF16 /* else these are decoded */
POP_ROWS_BODIES(POP_ROWS_VERTEX, f16, F16)
POP_STRIP_BODIES(f16, F16)
POP_POWER_BODIES(f16, F16)
#endif
#if !POP_ONE_BODY
POP_ROWS_BODIES(POP_ROWS_VERTEX, bf16, BF16)
POP_STRIP_BODIES(bf16, BF16)
POP_POWER_BODIES(bf16, BF16)
#endif

#define POP_ROWS_ROW(name, unit, together, label, suffix, formats)                                                     \
    {#name, formats, #name "_" #suffix, POP_FUNCTION(pop_rows_##name##_##suffix), {1, 1, 1},                           \
     {1, unit, 4 * POP_ROWS_CODES}, POP_CONSISTENT},

/* Of columns the grain's depth is a column's bytes in the arena, the block's rows are columns of a strip. */
#define POP_ROWS_COLUMN(name, each, more, suffix, formats)                                                             \
    {#name, formats, #name "_" #suffix, POP_FUNCTION(pop_rows_##name##_##suffix), {1, 1, each},                        \
     {POP_STRIP, 1, 4 * POP_ROWS_CODES + (more)}, POP_CONSISTENT},
#define POP_ROWS_COLUMNS(suffix, formats)                                                                              \
    POP_ROWS_COLUMN(norm_columns, POP_COLUMN_BYTES, POP_STRIP_LANES, suffix, formats)                                  \
    POP_ROWS_COLUMN(norm_grad_columns, POP_COLUMN_BYTES, POP_STRIP_LANES, suffix, formats)                             \
    POP_ROWS_COLUMN(softmax_columns, 1, POP_POWERS_ROOM, suffix, formats)                                              \
    POP_ROWS_COLUMN(log_softmax_columns, 1, POP_POWERS_ROOM, suffix, formats)                                          \
    POP_ROWS_COLUMN(softmax_grad_columns, 1, POP_POWERS_ROOM, suffix, formats)                                         \
    POP_ROWS_COLUMN(log_softmax_grad_columns, 1, POP_POWERS_ROOM, suffix, formats)                                     \
    POP_ROWS_COLUMN(cross_entropy_columns, 1, POP_POWERS_ROOM, suffix, formats)

static const pop_kernel POP_ROWS_KERNELS[] = {
#if !POP_ONE_BODY
    POP_ROWS_BODIES(POP_ROWS_ROW, bf16, "bfloat16") POP_ROWS_COLUMNS(bf16, "bfloat16")
#endif
#if !POP_ONE_BODY && POP_LEVEL < POP_LEVEL_AVX512_BF16
    POP_ROWS_BODIES(POP_ROWS_ROW, f16, "float16") POP_ROWS_COLUMNS(f16, "float16")
#endif
#if POP_LEVEL < POP_LEVEL_AVX512_BF16
    POP_ROWS_BODIES(POP_ROWS_ROW, f32, "float32") POP_ROWS_COLUMNS(f32, "float32")
    POP_ROWS_ROW(loss, 1, 0, 1, f32, "float32") POP_ROWS_POINTS(POP_ROWS_ROW, 1, 0, -1, f32, "float32")
    POP_CHANNELS_BODIES(POP_CHANNELS_ROW)
#endif
};
#endif
