/* Products of few rows with lines of B that lie as they are, of FP32 or of 16 bits: a line is read once or twice, so that packing it would
 * cost more. Eight vectors of sums are in registers, and ascend: bits are those of "multiply". Lines are prefetched, since where
 * they are longer than a block the hardware does not foresee the next. */
#ifndef POP_DOT_APART256_H
#define POP_DOT_APART256_H
#include "kernels/dot/dot.h"

#define POP_APART_AHEAD 8 /* lines */

/* `rows` by `vectors` vectors of sums over lines of one or more; the last vector shares columns with the one before. */
POP_INLINE void pop_apart(const pop_format *f, const int rows, const int vectors, const pop_dot_block *t, const char *a, const char *b,
                          float *c, int64_t cols)
{
    const int64_t bytes = pop_bytes(f), last = cols < POP_LANES ? 0 : cols - POP_LANES;
    const int part = cols < POP_LANES ? (int)cols : POP_LANES;
    int64_t at[8];
    pop_v_f sum[2][8];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
        at[v] = v + 1 < vectors ? POP_LANES * v : last;
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++)
            sum[r][v] = t->accumulate ? pop_v_decode_part(&POP_F32, c + r * t->c_row + at[v], part) : pop_v_splat(0.0f);
    }
    for (int64_t k = 0; k < t->cells; k++, a += t->a_cell, b += t->b_cell) {
        pop_v_f one[2];
        const uintptr_t ahead = (uintptr_t)b + (uintptr_t)(POP_APART_AHEAD * t->b_cell);
#pragma GCC unroll 4
        for (int64_t i = 0; i < bytes * POP_LANES * vectors; i += 64) pop_prefetch(ahead + (uintptr_t)i);
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++) {
            float x;
            memcpy(&x, a + r * t->a_row, sizeof x);
            one[r] = pop_v_splat(x);
        }
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            const char *from = b + bytes * at[v];
            const pop_v_f line = vectors > 1 || part == POP_LANES ? pop_v_decode(f, from) : pop_v_decode_part(f, from, part);
#pragma GCC unroll 2
            for (int r = 0; r < rows; r++) sum[r][v] = pop_v_fma(one[r], line, sum[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++) pop_v_encode_part(&POP_F32, 0, c + r * t->c_row + at[v], sum[r][v], part);
}

/* Columns by blocks of `most` vectors, those that are left by 4, 2 and 1. */
POP_INLINE void pop_apart_rows(const pop_format *f, const int rows, const int most, const pop_dot_block *t, int64_t r)
{
    const char *a = t->a + r * t->a_row, *b = t->b;
    float *c = t->c + r * t->c_row;
    for (int64_t left = t->cols, cols; left > 0; left -= cols, b += pop_bytes(f) * cols, c += cols) {
        if (left >= POP_LANES * most) pop_apart(f, rows, most, t, a, b, c, cols = POP_LANES * most);
        else if (left > POP_LANES * 3) pop_apart(f, rows, 4, t, a, b, c, cols = left < POP_LANES * 4 ? left : POP_LANES * 4);
        else if (left > POP_LANES) pop_apart(f, rows, 2, t, a, b, c, cols = left < POP_LANES * 2 ? left : POP_LANES * 2);
        else pop_apart(f, rows, 1, t, a, b, c, cols = left);
    }
}

#define POP_APART(name, format) \
    static void pop_multiply_apart_##name(const pop_dot_block *t) \
    { \
        int64_t r = 0; \
        for (; r + 2 <= t->rows; r += 2) pop_apart_rows(&format, 2, 4, t, r); \
        if (r < t->rows) pop_apart_rows(&format, 1, 8, t, r); \
    }
POP_APART(f32, POP_F32)
POP_APART(f16, POP_F16)
POP_APART(bf16, POP_BF16)
#undef POP_APART
#endif
