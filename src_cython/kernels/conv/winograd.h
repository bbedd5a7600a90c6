/* Winograd's transforms of 3x3 convolutions, F(2x2, 3x3) and F(4x4, 3x3): A. Lavin and S. Gray, "Fast algorithms for
 * convolutional neural networks" (CVPR 2016), with the points 0, 1, -1, infinity, and for the larger tile 2, -2 too. Each is
 * the same step along columns, then along rows, of pictures whose numbers are vectors. A step's sums are written out, each
 * operation rounded once, so all levels give the same bits; poplin/conv/winograd_bound.py counts the roundings. */
#ifndef POP_WINOGRAD_H
#define POP_WINOGRAD_H
#include "simd/simd.h"

POP_INLINE pop_v_f pop_winograd_fma(float a, pop_v_f b, pop_v_f c) { return pop_v_fma(pop_v_splat(a), b, c); }

POP_INLINE void pop_winograd_images_2(const pop_v_f *x, pop_v_f *y)
{
    y[0] = x[0] - x[2];
    y[1] = x[1] + x[2];
    y[2] = x[2] - x[1];
    y[3] = x[1] - x[3];
}

POP_INLINE void pop_winograd_weights_2(const pop_v_f *x, pop_v_f *y)
{
    const pop_v_f ends = x[0] + x[2];
    y[0] = x[0];
    y[1] = 0.5f * (ends + x[1]);
    y[2] = 0.5f * (ends - x[1]);
    y[3] = x[2];
}

POP_INLINE void pop_winograd_results_2(const pop_v_f *x, pop_v_f *y)
{
    y[0] = (x[1] + x[2]) + x[0];
    y[1] = (x[1] - x[2]) - x[3];
}

POP_INLINE void pop_winograd_images_4(const pop_v_f *x, pop_v_f *y)
{
    const pop_v_f even = pop_winograd_fma(-4.0f, x[2], x[4]), odd = pop_winograd_fma(-4.0f, x[1], x[3]);
    const pop_v_f far = x[4] - x[2], near = x[3] - x[1];
    y[0] = pop_winograd_fma(4.0f, x[0], pop_winograd_fma(-5.0f, x[2], x[4]));
    y[1] = even + odd;
    y[2] = even - odd;
    y[3] = pop_winograd_fma(2.0f, near, far);
    y[4] = pop_winograd_fma(-2.0f, near, far);
    y[5] = pop_winograd_fma(4.0f, x[1], pop_winograd_fma(-5.0f, x[3], x[5]));
}

POP_INLINE void pop_winograd_weights_4(const pop_v_f *x, pop_v_f *y)
{
    const float sixth = 1.0f / 6, twelfth = 1.0f / 12, last = 1.0f / 24;
    const pop_v_f ends = x[0] + x[2], far = pop_winograd_fma(last, x[0], sixth * x[2]);
    y[0] = 0.25f * x[0];
    y[1] = -sixth * (ends + x[1]);
    y[2] = -sixth * (ends - x[1]);
    y[3] = pop_winograd_fma(twelfth, x[1], far);
    y[4] = pop_winograd_fma(-twelfth, x[1], far);
    y[5] = x[2];
}

POP_INLINE void pop_winograd_results_4(const pop_v_f *x, pop_v_f *y)
{
    const pop_v_f near = x[1] + x[2], near_odd = x[1] - x[2], far = x[3] + x[4], far_odd = x[3] - x[4];
    y[0] = (near + x[0]) + far;
    y[1] = pop_winograd_fma(2.0f, far_odd, near_odd);
    y[2] = pop_winograd_fma(4.0f, far, near);
    y[3] = pop_winograd_fma(8.0f, far_odd, near_odd) + x[5];
}

/* A transform of pictures of `taken` x `taken` vectors to `made` x `made`. */
#define POP_WINOGRAD(kind, tile, taken, made)                                                                             \
    static void pop_winograd_##kind##_blocks_##tile(const pop_winograd_block *b)                                          \
    {                                                                                                                     \
        const char *picture = b->from;                                                                                    \
        char *to = b->to;                                                                                                 \
        for (int64_t i = 0; i < b->count; i++, picture += b->next, to += b->to_next)                                      \
            for (int64_t at = 0; at < 4 * b->lanes; at += POP_VECTOR_BYTES) {                                             \
                pop_v_f half[made][taken];                                                                                \
                for (int column = 0; column < taken; column++) {                                                          \
                    const char *from = picture + at + column * b->column;                                                 \
                    pop_v_f x[taken], y[made];                                                                            \
                    for (int row = 0; row < taken; row++)                                                                 \
                        x[row] = pop_v_load_f((const float *)(const void *)(from + row * b->row));                        \
                    pop_winograd_##kind##_##tile(x, y);                                                                   \
                    for (int row = 0; row < made; row++) half[row][column] = y[row];                                      \
                }                                                                                                         \
                for (int row = 0; row < made; row++) {                                                                    \
                    pop_v_f y[made];                                                                                      \
                    pop_winograd_##kind##_##tile(half[row], y);                                                           \
                    for (int column = 0; column < made; column++)                                                         \
                        pop_v_store_f((float *)(void *)(to + at + row * b->to_row + column * b->to_column), y[column]);   \
                }                                                                                                         \
            }                                                                                                             \
    }
POP_WINOGRAD(images, 2, 4, 4)
POP_WINOGRAD(weights, 2, 3, 4)
POP_WINOGRAD(results, 2, 4, 2)
POP_WINOGRAD(images, 4, 6, 6)
POP_WINOGRAD(weights, 4, 3, 6)
POP_WINOGRAD(results, 4, 6, 4)

#define POP_WINOGRAD_ROW(kind, tile)                                                                              \
    {"winograd_" #kind "_" #tile, "float32", "winograd_" #kind "_" #tile,                                         \
     POP_FUNCTION(pop_winograd_##kind##_blocks_##tile), {1, 16, 1}, {1, POP_LANES, 1}, POP_CONSISTENT},
#define POP_WINOGRAD_ROWS(tile) \
    POP_WINOGRAD_ROW(images, tile) POP_WINOGRAD_ROW(weights, tile) POP_WINOGRAD_ROW(results, tile)
#endif
