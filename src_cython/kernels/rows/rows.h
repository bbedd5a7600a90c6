/* The rows family: functions of rows of numbers, over any axes: softmax and norms with their gradients, losses.
 *
 * Bodies see numbers one after another (walk.h), FP32, FP16 and BF16 as they lie; sums have one order (sums.h), so all levels,
 * thread counts and strides give the same bits. */
#ifndef POP_ROWS_H
#define POP_ROWS_H
#include "kernels/rows/losses.h"
#include "kernels/rows/norm.h"

#define POP_ROWS_BODIES(X, ...)                                                                                        \
    X(softmax, __VA_ARGS__)                                                                                            \
    X(log_softmax, __VA_ARGS__)                                                                                        \
    X(softmax_grad, __VA_ARGS__)                                                                                       \
    X(log_softmax_grad, __VA_ARGS__)                                                                                   \
    X(norm, __VA_ARGS__)                                                                                               \
    X(norm_grad, __VA_ARGS__)

#define POP_ROWS_VERTEX(name, suffix, format, label)                                                                   \
    static void pop_rows_body_##name##_##suffix(pop_row *row) { pop_row_##name(row, &POP_##format); }                  \
    static void pop_rows_##name##_##suffix(const void *item, const pop_tile *tile)                                     \
    {                                                                                                                  \
        pop_rows_walk(item, tile, pop_rows_body_##name##_##suffix, label);                                             \
    }
POP_ROWS_BODIES(POP_ROWS_VERTEX, f32, F32, -1)
POP_ROWS_VERTEX(norm_param_grad, f32, F32, -1)
POP_ROWS_VERTEX(loss, f32, F32, 1)
POP_ROWS_VERTEX(cross_entropy, f32, F32, 1)
#if POP_LEVEL > 0 /* where vectors are no gain these are decoded */
#define POP_ROWS_HALVES(X, last16, last_bf16) POP_ROWS_BODIES(X, f16, F16, last16) POP_ROWS_BODIES(X, bf16, BF16, last_bf16)
#else
#define POP_ROWS_HALVES(X, last16, last_bf16)
#endif
POP_ROWS_HALVES(POP_ROWS_VERTEX, -1, -1)

#define POP_ROWS_ROW(name, suffix, format, formats)                                                                    \
    {#name, formats, #name "_" #suffix, POP_FUNCTION(pop_rows_##name##_##suffix), {1, 1, 1}, {1, 1, 4 * POP_ROWS_CODES}, \
     POP_CONSISTENT},

static const pop_kernel POP_ROWS_KERNELS[] = {
    POP_ROWS_BODIES(POP_ROWS_ROW, f32, F32, "float32")
    POP_ROWS_HALVES(POP_ROWS_ROW, "float16", "bfloat16")
    POP_ROWS_ROW(norm_param_grad, f32, F32, "float32")
    POP_ROWS_ROW(loss, f32, F32, "float32") POP_ROWS_ROW(cross_entropy, f32, F32, "float32")
    {"norm_param_grad_columns", "float32", "norm_param_grad_columns", POP_FUNCTION(pop_columns_norm_param_grad), {1, 1, 1},
     {1, POP_COLUMNS, 4 * POP_ROWS_CODES}, POP_CONSISTENT},
};
#endif
