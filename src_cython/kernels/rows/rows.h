/* The rows family: functions of rows of numbers, over any axes: softmax and norms with their gradients, cross-entropy.
 *
 * Bodies see FP32 numbers one after another (walk.h); sums have one order (sums.h), so all levels, thread counts and strides
 * give the same bits. */
#ifndef POP_ROWS_H
#define POP_ROWS_H
#include "kernels/rows/norm.h"
#include "kernels/rows/softmax.h"

/* A kernel: name, and which operand is a label. */
#define POP_ROWS_BODIES(X)                                                                                             \
    X(softmax, -1)                                                                                                     \
    X(log_softmax, -1)                                                                                                 \
    X(softmax_grad, -1)                                                                                                \
    X(log_softmax_grad, -1)                                                                                            \
    X(norm, -1)                                                                                                        \
    X(norm_grad, -1)                                                                                                   \
    X(norm_param_grad, -1)

#define POP_ROWS_VERTEX(name, label)                                                                                   \
    static void pop_rows_##name(const void *item, const pop_tile *tile) { pop_rows_walk(item, tile, pop_row_##name, label); }
POP_ROWS_BODIES(POP_ROWS_VERTEX)

#define POP_ROWS_ROW(name, label)                                                                                      \
    {#name, "any", #name, POP_FUNCTION(pop_rows_##name), {1, 1, 1}, {1, 1, 4 * POP_ROWS_CODES}, POP_CONSISTENT},

static const pop_kernel POP_ROWS_KERNELS[] = {
    POP_ROWS_BODIES(POP_ROWS_ROW)
    {"norm_param_grad_columns", "any", "norm_param_grad_columns", POP_FUNCTION(pop_columns_norm_param_grad), {1, 1, 1},
     {1, POP_COLUMNS, 4 * POP_ROWS_CODES}, POP_CONSISTENT},
};
#endif
