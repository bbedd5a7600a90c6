/* Depthwise convolution: sums of 16 channels, one or two rows and 7, 4, 2 or 1 columns of results at once, or 14 of one.
 *
 * A number of x is read, and decoded, once for all the sums of a tile that it is part of: row by row of x, some columns of
 * taps at a time, so that x and sums are in registers (two rows of results where there are 32). What lies outside of x is
 * read as zeros. A chain runs over taps in order (planes, rows, columns), one fused multiply-add each: all levels, and
 * tiles of every size, give the bits of conv.h's chains. */
#ifndef POP_CONV_SLIDE_H
#define POP_CONV_SLIDE_H
#include "formats/codec.h"

enum { POP_SLIDE_ROWS = POP_LANES == 16 ? 2 : 1, POP_SLIDE_COLS = 7 * POP_SLIDE_ROWS, POP_SLIDE_WIDE = 14 };

/* A row of x as a tile meets it: column j of the tile is at `at` + j * col, if it is in [low, high). */
typedef struct pop_slide_line {
    const char *at;
    int64_t col, low, high;
} pop_slide_line;

/* Column j of it, which is at `at`. */
POP_INLINE pop_v_f pop_slide_read(const pop_format *f, const pop_slide_line *line, const char *at, int64_t j, int inside)
{
    static const char zeros[64];
    if (inside) return pop_v_decode(f, at);
    const uintptr_t in = -(uintptr_t)((uint64_t)(j - line->low) < (uint64_t)(line->high - line->low));
    const uintptr_t none = (uintptr_t)zeros;
    return pop_v_decode(f, (const void *)(none + (((uintptr_t)at - none) & in)));
}

/* A row of x times `taps` columns of taps, from number `tap` on, for the rows of results that `which` has a bit for. */
POP_INLINE void pop_slide_taps(const pop_format *f, const pop_slide_line *line, int64_t tap, int taps, const char *first,
                               const char *second, int which, int cols, int step, int inside, pop_v_f sums[2][POP_SLIDE_WIDE])
{
    pop_v_f weights[2][4];
#pragma GCC unroll 4
    for (int t = 0; t < taps; t++) {
        if (which & 1) weights[0][t] = pop_v_load_f((const float *)(const void *)(first + 64 * t));
        if (which & 2) weights[1][t] = pop_v_load_f((const float *)(const void *)(second + 64 * t));
    }
    const char *at = line->at + tap * line->col;
#pragma GCC unroll 17
    for (int j = 0; j < (cols - 1) * step + taps; j++, at += line->col) {
        __asm__("" : "+r"(at)); /* GCC would else keep places of all columns */
        if (taps == 1 && j % step) continue;
        pop_v_f x = pop_slide_read(f, line, at, tap + j, inside);
#if POP_LEVEL >= POP_LEVEL_AVX512 /* GCC would read it anew for each sum: a core takes one vector of 64 bytes a cycle */
        POP_IN_REGISTER(x);
#endif
#pragma GCC unroll 4
        for (int t = 0; t < taps; t++) {
            const int c = (j - t) / step;
            if (j < t || (j - t) % step || c >= cols) continue;
            if (which & 1) sums[0][c] = pop_v_fma(x, weights[0][t], sums[0][c]);
            if (which & 2) sums[1][c] = pop_v_fma(x, weights[1][t], sums[1][c]);
        }
    }
}

/* A row of x times a row of taps: `known` of them, so that sums stay in the same registers from row to row, or three and then
 * one at a time. */
POP_INLINE void pop_slide_row(const pop_conv_slide *b, const pop_format *f, const pop_slide_line *line, const char *first,
                              const char *second, int which, int cols, int step, int inside, int known, pop_v_f sums[2][POP_SLIDE_WIDE])
{
#define POP_SLIDE_TAPS(tap, taps) \
    pop_slide_taps(f, line, tap, taps, first + 64 * (tap), second + 64 * (tap), which, cols, step, inside, sums)
    if (known && known <= 3) {
        POP_SLIDE_TAPS(0, known);
        return;
    }
    if (known) {
        const int half = known / 2;
        POP_SLIDE_TAPS(0, half);
        POP_SLIDE_TAPS(half, known - half);
        return;
    }
    int64_t tap = 0;
    if (cols < POP_SLIDE_WIDE || POP_LANES == 16) /* or no registers are left */
        for (; tap + 3 <= b->tap_cols; tap += 3) POP_SLIDE_TAPS(tap, 3);
    for (; tap < b->tap_cols; tap++) POP_SLIDE_TAPS(tap, 1);
#undef POP_SLIDE_TAPS
}

/* Columns in [low, high): bit j is column j, of the first 63. */
POP_INLINE uint64_t pop_slide_there(int64_t low, int64_t high)
{
    const uint64_t before = low <= 0 ? 0 : low < 63 ? (1ull << low) - 1 : ~0ull;
    return (high <= 0 ? 0 : high < 63 ? (1ull << high) - 1 : ~0ull) & ~before;
}

/* Ask for what the tile below this one reads that this one does not, and for its results: a line of the cache once, by the
 * first block that it is of. A function of its own, so that places of all columns take no registers of the tile's. */
static __attribute__((noinline)) void pop_slide_ahead(const pop_conv_slide *b, const char *x, const char *to, int rows, int cols,
                                                      int step)
{
    const int64_t reach = b->tap_rows + (rows - 1) * b->row_step;
    const int first = ((uintptr_t)x & 63) < (uintptr_t)b->x_block, written = ((uintptr_t)to & 63) < (uintptr_t)b->sums_block;
    __asm__ volatile(""); /* GCC would else take the function for one of no effect */
    for (int64_t i = reach - rows * b->row_step; first && i < reach; i++)
        for (int c = 0; c < cols * step; c++) pop_prefetch_l2(pop_beyond(x, i * b->x_row + c * b->x_col + b->x_ahead));
    for (int r = 0; b->sums_ahead && written && r < rows; r++)
        for (int c = 0; c < cols; c++) pop_prefetch_to_write(pop_beyond(to, r * b->sums_row + c * b->sums_col + b->sums_ahead));
}

/* A tile of one block: POP_LANES channels from number `lane` on. */
POP_INLINE void pop_slide_tile(const pop_conv_slide *b, const pop_format *f, const char *x, const char *w, char *to, int lane,
                               int rows, int cols, int step, int inside, int known)
{
    const int64_t size = pop_bytes(f), row_taps = 64 * b->tap_cols, down = b->row_step, reach = b->tap_rows + (rows - 1) * down;
    const int64_t low = b->row_low > 0 ? b->row_low : 0, high = b->row_high < reach ? b->row_high : reach;
    pop_v_f sums[2][POP_SLIDE_WIDE];
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 14
        for (int c = 0; c < cols; c++) sums[r][c] = pop_v_splat(0.0f);
    if (b->ahead && lane == 0) pop_slide_ahead(b, x + b->plane_x[0], to, rows, cols, step);
    for (int64_t plane = 0; plane < b->planes; plane++) {
        const char *weights = w + b->plane_w[plane] + 4 * lane, *from = x + b->plane_x[plane] + size * lane;
        /* Rows of x for the first row of results alone, for both, for the second alone. */
#define POP_SLIDE_ROWS_TO(end, which)                                                                               \
    for (const int64_t last = high < (end) ? high : (end); i < last; i++) {                                         \
        const pop_slide_line line = {from + i * b->x_row, b->x_col, b->col_low, b->col_high};                       \
        const char *first = weights + i * row_taps;                                                                 \
        pop_slide_row(b, f, &line, first, first - down * row_taps, which, cols, step, inside, known, sums);         \
    }
        int64_t i = low;
        if (rows == 1) {
            POP_SLIDE_ROWS_TO(reach, 1)
            continue;
        }
        POP_SLIDE_ROWS_TO(down < b->tap_rows ? down : b->tap_rows, 1)
        POP_SLIDE_ROWS_TO(b->tap_rows, 3)
        if (i < down) i = down;
        POP_SLIDE_ROWS_TO(reach, 2)
#undef POP_SLIDE_ROWS_TO
    }
    const int64_t col = b->sums_col, row = b->sums_row;
    const int narrow = b->out != POP_IS_F32;
    to += (narrow ? size : 4) * lane;
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++) {
        char *at = to + r * row;
#pragma GCC unroll 14
        for (int c = 0; c < cols; c++, at += col) {
            __asm__("" : "+r"(at));
            if (narrow) pop_v_encode(f, POP_OVERFLOW_INFINITY, at, sums[r][c]);
            else pop_v_store_f((float *)(void *)at, sums[r][c]);
        }
    }
}

/* All blocks, `rows` rows of results at once. */
POP_INLINE void pop_slide_blocks(const pop_conv_slide *given, const pop_format *f, int rows, int cols, int step, int inside,
                                 int known)
{
    pop_conv_slide b = *given;
    for (int64_t row = 0; row < given->rows; row += rows) {
        const int64_t down = row * b.row_step;
        b.row_low = given->row_low - down, b.row_high = given->row_high - down;
        for (int64_t k = 0; k < b.blocks; k++) {
            const char *x = b.x + k * b.x_block + down * b.x_row, *w = b.w + k * b.w_block;
            char *to = b.sums + k * b.sums_block + row * b.sums_row;
            for (int lane = 0; lane < 16; lane += POP_LANES)
                pop_slide_tile(&b, f, x, w, to, lane, rows, cols, step, inside, known);
        }
    }
}

/* Whether a tile takes 14 columns at once: where one column is taken after another, or registers hold their sums. Where there are
 * 16, they hold no more than one column of taps besides, which FP32 is multiplied with as it is read; of 7 columns the sums wait
 * for each other there. */
POP_INLINE int pop_slide_wide(const pop_format *f, int step)
{
    return POP_ONE_BODY || (step == 1 && (POP_LANES == 16 || pop_is_f32(f)));
}

#if POP_ONE_BODY
/* A column after another. */
POP_INLINE void pop_slide(const pop_conv_slide *given, const pop_format *f, int step)
{
    pop_conv_slide b = *given;
    for (int64_t c = 0; c < given->cols; c++, b.x += step * b.x_col, b.sums += b.sums_col, b.col_low -= step, b.col_high -= step)
        pop_slide_blocks(&b, f, 1, 1, step, 0, 0);
}
#else
/* Tiles of 7, 4, 2 or 1 columns, or of 14 neighbours where registers hold their sums. Of 7 there are more: for kernels of 3, 5
 * and 7 columns, of two rows of results at once where registers are enough, and for tiles that nothing outside of x is part of. */
POP_INLINE void pop_slide(const pop_conv_slide *b, const pop_format *f, int step)
{
    const int inside = b->col_low <= 0 && b->col_high >= (b->cols - 1) * step + b->tap_cols;
#define POP_SLIDE_BOTH(known)                                      \
    {                                                              \
        if (inside) pop_slide_blocks(b, f, 2, 7, step, 1, known);  \
        else pop_slide_blocks(b, f, 2, 7, step, 0, known);         \
        return;                                                    \
    }
    if (POP_SLIDE_ROWS == 2 && b->rows == 2 && b->cols == 7) {
        if (b->tap_cols == 1) POP_SLIDE_BOTH(1)
        if (b->tap_cols == 2) POP_SLIDE_BOTH(2)
        if (b->tap_cols == 3) POP_SLIDE_BOTH(3)
        if (b->tap_cols == 5) POP_SLIDE_BOTH(5)
        if (b->tap_cols == 7) POP_SLIDE_BOTH(7)
    }
#undef POP_SLIDE_BOTH
    if (pop_slide_wide(f, step) && b->cols == POP_SLIDE_WIDE) {
        if (inside) pop_slide_blocks(b, f, 1, POP_SLIDE_WIDE, 1, 1, 0);
        else pop_slide_blocks(b, f, 1, POP_SLIDE_WIDE, 1, 0, 0);
        return;
    }
    if (b->cols == 7 && inside) pop_slide_blocks(b, f, 1, 7, step, 1, 0);
    else if (b->cols == 7) pop_slide_blocks(b, f, 1, 7, step, 0, 0);
    else if (b->cols == 4) pop_slide_blocks(b, f, 1, 4, step, 0, 0);
    else if (b->cols == 2) pop_slide_blocks(b, f, 1, 2, step, 0, 0);
    else pop_slide_blocks(b, f, 1, 1, step, 0, 0);
}
#endif

#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
/* A row of sums to what they become. */
POP_INLINE void pop_slide_store(const pop_conv_slide *b, char *at, const __m512 *sums, int cols)
{
    const int64_t out = b->out, col = b->sums_col;
#define POP_SLIDE_STORE(store)                                               \
    _Pragma("GCC unroll 14") for (int c = 0; c < cols; c++, at += col) {     \
        __asm__("" : "+r"(at));                                              \
        store;                                                               \
    }
    if (out == POP_IS_F32) POP_SLIDE_STORE(_mm512_storeu_ps(at, sums[c]))
    else if (out == POP_IS_F16) POP_SLIDE_STORE(pop_v_encode(&POP_F16, POP_OVERFLOW_INFINITY, at, (pop_v_f)sums[c]))
    else POP_SLIDE_STORE(_mm256_storeu_si256((__m256i *)(void *)at, (__m256i)_mm512_cvtneps_pbh(sums[c])))
#undef POP_SLIDE_STORE
}
#endif

/* 14 columns, one half after the other. */
static void pop_slide_halves(const pop_conv_slide *given, void (*slide)(const pop_conv_slide *b))
{
    pop_conv_slide b = *given;
    const int64_t on = 7 * b.step;
    b.cols = 7;
    slide(&b);
    b.x += on * b.x_col, b.sums += 7 * b.sums_col, b.col_low -= on, b.col_high -= on;
    slide(&b);
}

#define POP_SLIDE(name, constant)                                                                            \
    static __attribute__((noinline)) void pop_slide_##name##_1(const pop_conv_slide *b) { pop_slide(b, &constant, 1); } \
    static __attribute__((noinline)) void pop_slide_##name##_2(const pop_conv_slide *b) { pop_slide(b, &constant, 2); } \
    static void pop_slide_##name(const pop_conv_slide *b)                                                    \
    {                                                                                                        \
        void (*const slide)(const pop_conv_slide *) = b->step == 1 ? pop_slide_##name##_1 : pop_slide_##name##_2; \
        if (b->cols == POP_SLIDE_WIDE && !pop_slide_wide(&constant, (int)b->step)) pop_slide_halves(b, slide); \
        else slide(b);                                                                                       \
    }
#define POP_SLIDE_ROW(name, format) \
    {"slide", format, "slide_" #name, POP_FUNCTION(pop_slide_##name), {1, 16, 1}, {POP_SLIDE_ROWS, POP_SLIDE_COLS, 16}, POP_CONSISTENT},
POP_SLIDE(f32, POP_F32)
POP_SLIDE(f16, POP_F16)
POP_SLIDE(bf16, POP_BF16)
#define POP_SLIDE_KERNELS POP_SLIDE_ROW(f32, "float32") POP_SLIDE_ROW(f16, "float16") POP_SLIDE_ROW(bf16, "bfloat16")
#endif
