/* Depthwise convolution: sums of 16 channels, one or two rows and 7, 4, 2 or 1 columns of results at once.
 *
 * A number of x is read, and decoded, once for all the sums of a tile that it is part of: row by row of x, some columns of
 * taps at a time, so that x and sums are in registers (two rows of results where there are 32). What lies outside of x is
 * read as zeros. A chain runs over taps in order (planes, rows, columns), one fused multiply-add each: all levels, and
 * tiles of every size, give the bits of conv.h's chains. */
#ifndef POP_CONV_SLIDE_H
#define POP_CONV_SLIDE_H
#include "formats/codec.h"

enum { POP_SLIDE_PIECE = 4, POP_SLIDE_ROWS = POP_LANES == 16 ? 2 : 1 };

/* A row of x as a tile meets it: column j of the tile is at `at` + j * col, if it is in [low, high). */
typedef struct pop_slide_line {
    const char *at;
    int64_t col, low, high;
} pop_slide_line;

POP_INLINE pop_v_f pop_slide_read(const pop_format *f, const pop_slide_line *line, int64_t j, int inside)
{
    static const char zeros[64];
    if (inside) return pop_v_decode(f, line->at + j * line->col);
    const uintptr_t in = -(uintptr_t)((uint64_t)(j - line->low) < (uint64_t)(line->high - line->low));
    const uintptr_t at = (uintptr_t)(line->at + j * line->col), none = (uintptr_t)zeros;
    return pop_v_decode(f, (const void *)(none + ((at - none) & in)));
}

/* A row of x times `taps` columns of taps, from number `tap` on, for the rows of results that `which` has a bit for. */
POP_INLINE void pop_slide_taps(const pop_format *f, const pop_slide_line *line, int64_t tap, int taps, const char *first,
                               const char *second, int which, int cols, int step, int inside, pop_v_f sums[2][7])
{
    pop_v_f x[16];
#pragma GCC unroll 16
    for (int j = 0; j < (cols - 1) * step + taps; j++) x[j] = pop_slide_read(f, line, tap + j, inside);
#pragma GCC unroll 4
    for (int t = 0; t < taps; t++) {
        if (which & 1) {
            const pop_v_f weights = pop_v_load_f((const float *)(const void *)(first + 64 * t));
#pragma GCC unroll 7
            for (int c = 0; c < cols; c++) sums[0][c] = pop_v_fma(x[c * step + t], weights, sums[0][c]);
        }
        if (which & 2) {
            const pop_v_f weights = pop_v_load_f((const float *)(const void *)(second + 64 * t));
#pragma GCC unroll 7
            for (int c = 0; c < cols; c++) sums[1][c] = pop_v_fma(x[c * step + t], weights, sums[1][c]);
        }
    }
}

/* A row of x times a row of taps, a few at a time. */
POP_INLINE void pop_slide_row(const pop_conv_slide *b, const pop_format *f, const pop_slide_line *line, const char *first,
                              const char *second, int which, int cols, int step, int inside, pop_v_f sums[2][7])
{
    for (int64_t tap = 0, left = b->tap_cols, n; left > 0; tap += n, left -= n) {
        const char *one = first + 64 * tap, *two = second + 64 * tap;
        n = left <= POP_SLIDE_PIECE ? left : left < 2 * POP_SLIDE_PIECE ? left / 2 : POP_SLIDE_PIECE;
#define POP_SLIDE_TAPS(taps) case taps: pop_slide_taps(f, line, tap, taps, one, two, which, cols, step, inside, sums); break;
        switch (n) { POP_SLIDE_TAPS(1) POP_SLIDE_TAPS(2) POP_SLIDE_TAPS(3) POP_SLIDE_TAPS(4) }
    }
}

/* A tile of one block: POP_LANES channels from number `lane` on. */
POP_INLINE void pop_slide_tile(const pop_conv_slide *b, const pop_format *f, const char *x, const char *w, char *to, int lane,
                               int rows, int cols, int step, int inside)
{
    const int64_t size = pop_bytes(f), row_taps = 64 * b->tap_cols, reach = b->tap_rows + (rows - 1) * b->row_step;
    const int64_t low = b->row_low > 0 ? b->row_low : 0, high = b->row_high < reach ? b->row_high : reach;
    pop_v_f sums[2][7];
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 7
        for (int c = 0; c < cols; c++) sums[r][c] = pop_v_splat(0.0f);
    for (int64_t plane = 0; plane < b->planes; plane++) {
        const char *weights = w + b->plane_w[plane] + 4 * lane;
        for (int64_t i = low; i < high; i++) {
            const char *row = x + b->plane_x[plane] + i * b->x_row + size * lane;
            const pop_slide_line line = {row, b->x_col, b->col_low, b->col_high};
            const char *first = weights + i * row_taps, *second = first - b->row_step * row_taps;
            if (b->ahead && lane == 0 && i + rows * b->row_step >= reach)
#pragma GCC unroll 7
                for (int c = 0; c < cols; c++)
                    for (int s = 0; s < step; s++) __builtin_prefetch(row + (c * step + s) * b->x_col + b->x_ahead, 0, 3);
            const int which = (i < b->tap_rows) | (rows == 2 && i >= b->row_step) << 1;
            if (which == 1) pop_slide_row(b, f, &line, first, second, 1, cols, step, inside, sums);
            else if (rows == 2 && which == 2) pop_slide_row(b, f, &line, first, second, 2, cols, step, inside, sums);
            else if (rows == 2 && which == 3) pop_slide_row(b, f, &line, first, second, 3, cols, step, inside, sums);
        }
    }
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 7
        for (int c = 0; c < cols; c++) {
            char *at = to + r * b->sums_row + c * b->sums_col;
            if (b->narrow) pop_v_encode(f, POP_OVERFLOW_INFINITY, at + size * lane, sums[r][c]);
            else pop_v_store_f((float *)(void *)at + lane, sums[r][c]);
            if (b->ahead && lane == 0) __builtin_prefetch(at + b->sums_ahead, 1, 3);
        }
}

/* All blocks; rows of results one after another where registers are few. */
POP_INLINE void pop_slide_blocks(const pop_conv_slide *given, const pop_format *f, int cols, int step, int inside)
{
    pop_conv_slide b = *given;
    for (int64_t row = 0; row < given->rows; row += POP_SLIDE_ROWS) {
        const int64_t rows = given->rows - row < POP_SLIDE_ROWS ? given->rows - row : POP_SLIDE_ROWS;
        const int64_t down = row * b.row_step;
        b.row_low = given->row_low - down, b.row_high = given->row_high - down;
        for (int64_t k = 0; k < b.blocks; k++) {
            const char *x = b.x + k * b.x_block + down * b.x_row, *w = b.w + k * b.w_block;
            char *to = b.sums + k * b.sums_block + row * b.sums_row;
            for (int lane = 0; lane < 16; lane += POP_LANES) {
                if (POP_SLIDE_ROWS == 2 && rows == 2) pop_slide_tile(&b, f, x, w, to, lane, 2, cols, step, inside);
                else pop_slide_tile(&b, f, x, w, to, lane, 1, cols, step, inside);
            }
        }
    }
}

/* Tiles of 7, 4, 2 or 1 columns; of 7 more of their own that nothing outside of x is part of. */
POP_INLINE void pop_slide(const pop_conv_slide *b, const pop_format *f, int step)
{
    const int inside = b->col_low <= 0 && b->col_high >= (b->cols - 1) * step + b->tap_cols;
    if (b->cols == 7 && inside) pop_slide_blocks(b, f, 7, step, 1);
    else if (b->cols == 7) pop_slide_blocks(b, f, 7, step, 0);
    else if (b->cols == 4) pop_slide_blocks(b, f, 4, step, 0);
    else if (b->cols == 2) pop_slide_blocks(b, f, 2, step, 0);
    else pop_slide_blocks(b, f, 1, step, 0);
}

#define POP_SLIDE(name, constant)                                                                            \
    static __attribute__((noinline)) void pop_slide_##name##_1(const pop_conv_slide *b) { pop_slide(b, &constant, 1); } \
    static __attribute__((noinline)) void pop_slide_##name##_2(const pop_conv_slide *b) { pop_slide(b, &constant, 2); } \
    static void pop_slide_##name(const pop_conv_slide *b)                                                    \
    {                                                                                                        \
        if (b->step == 1) pop_slide_##name##_1(b);                                                           \
        else pop_slide_##name##_2(b);                                                                        \
    }
#define POP_SLIDE_ROW(name, format) \
    {"slide", format, "slide_" #name, POP_FUNCTION(pop_slide_##name), {1, 16, 1}, {POP_SLIDE_ROWS, 7, 16}, POP_CONSISTENT},
POP_SLIDE(f32, POP_F32)
POP_SLIDE(f16, POP_F16)
POP_SLIDE(bf16, POP_BF16)
#define POP_SLIDE_KERNELS POP_SLIDE_ROW(f32, "float32") POP_SLIDE_ROW(f16, "float16") POP_SLIDE_ROW(bf16, "bfloat16")
#endif
