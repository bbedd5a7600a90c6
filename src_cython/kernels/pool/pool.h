/* The pool family: maxima, sums and averages of windows of a field, and their gradients.
 *
 * Order and precision. Everything is FP32, rounded once. The rows of a window are joined first, in ascending order, element by
 * element along the last axis; then what that gives along the last axis, in ascending order. A row's weight, of a gradient of an
 * average, is a factor of a fused multiply-add. An average is the sum divided by a product of counts. The order is the window's
 * alone: all levels, thread counts and orders of axes give the same bits. A maximum of zeros is +0.
 *
 * FP32, FP16 and BF16 are read as they lie; other formats are decoded a row at a time. Where channels lie one after another they
 * are the lanes (direct.h); else positions of the last axis are: at AVX-512, windows that fit stay in registers (registers.h,
 * gradient_codes.h), at AVX2 those of 2 and 3 by 2 and their gradients (columns.h, column_codes.h, shares.h, gradient_planes.h), and of
 * others at most 2 apart all rows of a unit become lines first (planes.h, gradient_planes.h); all else goes by way of one line in memory (walk.h).
 *
 * Measured on one Zen 4 core at AVX-512 beside other jobs, 8 x 256 x 28 x 28, windows of 3 x 3 by 2, in microseconds, channels
 * first: maxima of FP32 200, of FP16 230, their gradients 380 and 250 (of windows of 2 x 2 330 and 160), by places 350 and 260
 * (270 and 140); averages 230 and 290, their gradients 280 and 300. Channels last: 290, 200, 650, 380, 690, 440; 220, 180, 310,
 * 270. A copy of such a field takes 170 in FP32 and 70 in FP16 where the third-level cache has both. On one Zen 3 core, at AVX2, channels
 * first: maxima 370 and 240 (of windows of 2 x 2 200 and 140), their gradients 620 and 610 (430 and 460), by places 650 and 690 (430 and
 * 460); averages 370 and 390, their gradients 510 and 530; a copy 350 and 80. */
#ifndef POP_POOL_H
#define POP_POOL_H
#include "kernels/pool/fields.h"
#include "kernels/pool/samples.h"

static void pop_pool_max(const void *work, const pop_tile *tile)
{
    pop_pool_walk(work, tile, pop_pool_maxima, pop_pool_taps_max, pop_pool_direct_maxima, pop_pool_register_maxima, -INFINITY);
}
static void pop_pool_sum(const void *work, const pop_tile *tile)
{
    pop_pool_walk(work, tile, pop_pool_sums, pop_pool_taps_sum, pop_pool_direct_sums, pop_pool_register_sums, 0.0f);
}

#define POP_POOL_ROW(name) {#name, "any", #name, POP_FUNCTION(pop_pool_##name), {1, 1, 1}, {1, POP_POOL_SLACK, 1}, POP_CONSISTENT}
static const pop_kernel POP_POOL_KERNELS[] = {
    POP_POOL_ROW(max), POP_POOL_ROW(sum), POP_POOL_ROW(max_places), POP_POOL_ROW(max_gradient), POP_POOL_ROW(ties),
    POP_POOL_ROW(place_gradient), POP_POOL_ROW(spread), POP_POOL_ROW(regions),
    POP_POOL_ROW(regions_gradient), POP_POOL_ROW(samples),
};
#endif
