/* The pool family: maxima, sums and averages of windows of a field, and their gradients.
 *
 * Order and precision. Everything is FP32, rounded once. The rows of a window are joined first, in ascending order, element by
 * element along the last axis; then what that gives along the last axis, in ascending order. A row's weight, of a gradient of an
 * average, is a factor of a fused multiply-add. An average is the sum divided by a product of counts. The order is the window's
 * alone: all levels, thread counts and orders of axes give the same bits.
 *
 * FP32, FP16 and BF16 are read as they lie; other formats are decoded a row at a time. */
#ifndef POP_POOL_H
#define POP_POOL_H
#include "kernels/pool/gradient.h"

static void pop_pool_max(const void *work, const pop_tile *tile)
{
    pop_pool_walk(work, tile, pop_pool_maxima, pop_pool_taps_max, -INFINITY);
}
static void pop_pool_sum(const void *work, const pop_tile *tile)
{
    pop_pool_walk(work, tile, pop_pool_sums, pop_pool_taps_sum, 0.0f);
}

#define POP_POOL_ROW(name) {#name, "any", #name, POP_FUNCTION(pop_pool_##name), {1, 1, 1}, {1, POP_POOL_SLACK, 1}, POP_CONSISTENT}
static const pop_kernel POP_POOL_KERNELS[] = {
    POP_POOL_ROW(max), POP_POOL_ROW(sum), POP_POOL_ROW(max_places), POP_POOL_ROW(max_gradient), POP_POOL_ROW(ties),
    POP_POOL_ROW(place_gradient),
};
#endif
