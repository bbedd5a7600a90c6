/* The rows family: functions of rows of numbers, over any axes: softmax and norms with their gradients, losses.
 *
 * Bodies see numbers one after another (walk.h), FP32, FP16 and BF16 as they lie; sums have one order (sums.h), so all levels,
 * thread counts and strides give the same bits. */
#ifndef POP_ROWS_H
#define POP_ROWS_H
#include "kernels/rows/losses.h"
#include "kernels/rows/norm.h"
#include "kernels/rows/points.h"

#define POP_ROWS_BODIES(X, ...)                                                                                        \
    X(softmax, __VA_ARGS__)                                                                                            \
    X(log_softmax, __VA_ARGS__)                                                                                        \
    X(softmax_grad, __VA_ARGS__)                                                                                       \
    X(log_softmax_grad, __VA_ARGS__)                                                                                   \
    X(norm_grad, __VA_ARGS__)
#define POP_ROWS_FOURS(X, ...) /* of which four rows may be done at once, and how many rows a unit of work has */      \
    X(norm, 1, __VA_ARGS__)                                                                                            \
    X(norm_grad_blocks, POP_BLOCK_ROWS, __VA_ARGS__)

#define POP_ROWS_VERTEX_OF(name, suffix, format, four, label, unit)                                                    \
    static void pop_rows_body_##name##_##suffix(pop_row *row) { pop_row_##name(row, &POP_##format); }                  \
    static void pop_rows_##name##_##suffix(const void *item, const pop_tile *tile)                                     \
    {                                                                                                                  \
        pop_rows_walk(item, tile, pop_rows_body_##name##_##suffix, four, label, unit);                                 \
    }
#define POP_ROWS_VERTEX(name, suffix, format, label) POP_ROWS_VERTEX_OF(name, suffix, format, NULL, label, 1)
#define POP_ROWS_FOUR(name, unit, suffix, format)                                                                      \
    static void pop_rows_four_##name##_##suffix(pop_row *row) { pop_four_##name(row, &POP_##format); }                 \
    POP_ROWS_VERTEX_OF(name, suffix, format, pop_rows_four_##name##_##suffix, -1, unit)
POP_ROWS_BODIES(POP_ROWS_VERTEX, f32, F32, -1)
POP_ROWS_FOURS(POP_ROWS_FOUR, f32, F32)
POP_ROWS_VERTEX(loss, f32, F32, 1)
POP_ROWS_VERTEX(cross_entropy, f32, F32, 1)
#define POP_ROWS_POINTS(X, ...) \
    X(squared, __VA_ARGS__) X(huber, __VA_ARGS__) X(binary, __VA_ARGS__) X(logits, __VA_ARGS__) X(divergence, __VA_ARGS__)
POP_ROWS_POINTS(POP_ROWS_VERTEX, f32, F32, -1)
#if POP_LEVEL > 0 /* where vectors are no gain these are decoded */
POP_ROWS_BODIES(POP_ROWS_VERTEX, f16, F16, -1)
POP_ROWS_BODIES(POP_ROWS_VERTEX, bf16, BF16, -1)
POP_ROWS_FOURS(POP_ROWS_FOUR, f16, F16)
POP_ROWS_FOURS(POP_ROWS_FOUR, bf16, BF16)
#endif

#define POP_ROWS_ROW_OF(name, unit, suffix, formats)                                                                   \
    {#name, formats, #name "_" #suffix, POP_FUNCTION(pop_rows_##name##_##suffix), {1, 1, 1},                           \
     {1, unit, 4 * POP_ROWS_CODES}, POP_CONSISTENT},
#define POP_ROWS_ROW(name, suffix, formats) POP_ROWS_ROW_OF(name, 1, suffix, formats)

static const pop_kernel POP_ROWS_KERNELS[] = {
    POP_ROWS_BODIES(POP_ROWS_ROW, f32, "float32") POP_ROWS_FOURS(POP_ROWS_ROW_OF, f32, "float32")
#if POP_LEVEL > 0
    POP_ROWS_BODIES(POP_ROWS_ROW, f16, "float16") POP_ROWS_FOURS(POP_ROWS_ROW_OF, f16, "float16")
    POP_ROWS_BODIES(POP_ROWS_ROW, bf16, "bfloat16") POP_ROWS_FOURS(POP_ROWS_ROW_OF, bf16, "bfloat16")
#endif
    POP_ROWS_ROW(loss, f32, "float32") POP_ROWS_ROW(cross_entropy, f32, "float32")
    POP_ROWS_POINTS(POP_ROWS_ROW, f32, "float32")
    {"block_sums", "float32", "block_sums", POP_FUNCTION(pop_columns_block_sums), {1, 1, 1}, {1, POP_COLUMNS, 4 * POP_ROWS_CODES},
     POP_CONSISTENT},
};
#endif
