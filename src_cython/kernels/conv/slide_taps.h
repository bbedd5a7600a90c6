/* Gradients of the weights of depthwise convolutions: sums of 16 channels for all kernel elements, over tiles of deltas.
 *
 * Seven neighbouring deltas of a row stay in registers and meet the rows of x that the kernel's rows do; an element of x is
 * read, and decoded, once for all deltas and columns of the kernel that meet it. Sums are FP32 in memory, and in registers
 * for up to seven columns of the kernel at a time. A chain runs over rows of deltas in order, then columns, one fused
 * multiply-add each, whatever the tiles are: all levels give the same bits. Where the CPU multiplies BF16, words hold the
 * numbers of two rows of deltas, and of the two rows of x that those meet. What lies outside of x is left out. */
#ifndef POP_CONV_SLIDE_TAPS_H
#define POP_CONV_SLIDE_TAPS_H
#include "kernels/conv/slide.h"

enum { POP_TAPS_COLS = 7 };

/* One row of an operand as a tile meets it, or two, whose numbers are words; column j is at `at` + j * col. */
typedef struct pop_taps_line {
    const char *at[2];
    int64_t col[2];
} pop_taps_line;

/* Two rows of which one may not be there: it is zeros. */
POP_INLINE pop_taps_line pop_taps_lines(const char *first, int64_t apart, int64_t col, int above, int below)
{
    static const char zeros[64];
    return (pop_taps_line){{above ? first : zeros, below ? first + apart : zeros}, {above ? col : 0, below ? col : 0}};
}

/* The number that is next, or the word; a place each is kept, where GCC would keep those of all columns. */
POP_INLINE pop_v_f pop_taps_read(const pop_format *f, pop_taps_line *line, int pairs)
{
    const char *first = line->at[0], *second = line->at[1];
    line->at[0] += line->col[0], line->at[1] += pairs ? line->col[1] : 0;
    __asm__("" : "+r"(line->at[0]));
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    __asm__("" : "+r"(line->at[1]));
    if (pairs) return (pop_v_f)pop_pairs_word(first, second, POP_PAIRS_BOTH);
#endif
    (void)second;
    return pop_v_decode(f, first);
}

POP_INLINE void pop_taps_pass(pop_taps_line *line)
{
    line->at[0] += line->col[0], line->at[1] += line->col[1];
}

/* A row of x times the deltas, for `taps` columns of the kernel; x is there in [low, high) of their columns. */
POP_INLINE void pop_taps_piece(const pop_format *f, pop_taps_line x, int64_t low, int64_t high, const pop_v_f *deltas,
                               char *to, int taps, int cols, int step, int inside, int pairs)
{
    pop_v_f sums[POP_TAPS_COLS];
#pragma GCC unroll 7
    for (int t = 0; t < taps; t++) sums[t] = pop_v_load_f((const float *)(const void *)(to + 64 * t));
#pragma GCC unroll 19
    for (int j = 0; j < (cols - 1) * step + taps; j++) {
        if ((taps == 1 && j % step) || (!inside && (j < low || j >= high))) {
            pop_taps_pass(&x);
            continue;
        }
        pop_v_f number = pop_taps_read(f, &x, pairs);
#if POP_LEVEL >= POP_LEVEL_AVX512 /* GCC would read it anew for each sum: a core takes one vector of 64 bytes a cycle */
        POP_IN_REGISTER(number);
#endif
#pragma GCC unroll 7
        for (int t = 0; t < taps; t++) {
            const int c = (j - t) / step;
            if (j >= t && (j - t) % step == 0 && c < cols) sums[t] = pop_conv_add(pairs, number, deltas[c], sums[t]);
        }
    }
#pragma GCC unroll 7
    for (int t = 0; t < taps; t++) pop_v_store_f((float *)(void *)(to + 64 * t), sums[t]);
}

/* A row of x, or two, times the deltas, for a row of the kernel: as many columns at a time as registers have room for. */
POP_INLINE void pop_taps_row(const pop_conv_gradient *b, const pop_format *f, pop_taps_line x, int64_t col, const pop_v_f *deltas,
                             char *to, int cols, int step, int inside, int pairs)
{
    int64_t tap = 0;
#define POP_TAPS_PIECE(taps)                                                                                                \
    pop_taps_piece(f, x, b->col_low - col - tap, b->col_high - col - tap, deltas, to, taps, cols, step, inside, pairs);    \
    tap += taps, to += 64 * taps, x.at[0] += taps * x.col[0], x.at[1] += taps * x.col[1]
    while (!POP_ONE_BODY && tap + 7 <= b->tap_cols) {
        POP_TAPS_PIECE(7);
    }
    if (!POP_ONE_BODY && tap + 5 <= b->tap_cols) {
        POP_TAPS_PIECE(5);
    }
    if (!POP_ONE_BODY && tap + 3 <= b->tap_cols) {
        POP_TAPS_PIECE(3);
    }
    while (tap < b->tap_cols) {
        POP_TAPS_PIECE(1);
    }
#undef POP_TAPS_PIECE
}

/* Ask for the rows of x, and of deltas, that the rows of deltas below meet first. */
static __attribute__((noinline)) void pop_taps_ahead(const pop_conv_gradient *b, const char *x, const char *w, int64_t rows,
                                                     int cols, int step)
{
    __asm__ volatile(""); /* as pop_slide_ahead */
    const int64_t reach = b->tap_rows + (rows - 1) * b->down, fresh = rows * b->down;
    for (int64_t i = reach > fresh ? reach - fresh : 0; i < reach; i++)
        for (int j = 0; j < cols * step; j++) pop_prefetch_l2(pop_beyond(x, i * b->x_row + j * b->x_col + rows * b->x_down));
    for (int64_t r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++) pop_prefetch_l2(pop_beyond(w, c * b->w_col + (r + rows) * b->w_row));
}

/* Deltas from column `col` on of a row, or of two, all blocks. */
POP_INLINE void pop_taps_tile(const pop_conv_gradient *b, const pop_format *f, int64_t row, int64_t col, int cols, int step,
                              int inside, int pairs)
{
    const int64_t size = pop_bytes(f), two = pairs && row + 1 < b->rows;
    for (int64_t k = 0; k < b->blocks; k++) {
        const char *x = b->x + k * b->x_block + row * b->x_down + col * step * b->x_col;
        const char *w = b->w + k * b->w_block + row * b->w_row + col * b->w_col;
        if (b->ahead && ((uintptr_t)x & 63) < 16 * (uintptr_t)size) /* the first block of a line of the cache */
            pop_taps_ahead(b, x, w, 1 + pairs, cols, step);
        for (int lane = 0; lane < 16; lane += POP_LANES, x += size * POP_LANES, w += size * POP_LANES) {
            pop_taps_line by = pop_taps_lines(w, b->w_row, b->w_col, 1, (int)two);
            pop_v_f deltas[POP_TAPS_COLS];
#pragma GCC unroll 7
            for (int c = 0; c < cols; c++) deltas[c] = pop_taps_read(f, &by, pairs);
            char *to = b->sums + k * b->sums_block + 4 * lane;
            for (int64_t s = 0; s < b->tap_rows; s++, to += 64 * b->tap_cols) {
                const int64_t place = b->row_first + row * b->row_step + s * b->row_unit;
                const int above = place >= 0 && place < b->row_end;
                const int below = two && place + b->row_step >= 0 && place + b->row_step < b->row_end;
                if (above || below)
                    pop_taps_row(b, f, pop_taps_lines(x + s * b->x_row, b->x_down, b->x_col, above, below), col * step, deltas,
                                 to, cols, step, inside, pairs);
            }
        }
    }
}

POP_INLINE void pop_taps_step(const pop_conv_gradient *b, const pop_format *f, int step, int pairs)
{
    const int64_t reach = (POP_TAPS_COLS - 1) * step + b->tap_cols;
    for (int64_t row = 0; row < b->rows; row += 1 + pairs) {
        int64_t col = 0;
        for (; !POP_ONE_BODY && col + POP_TAPS_COLS <= b->cols; col += POP_TAPS_COLS)
            if (col * step >= b->col_low && col * step + reach <= b->col_high)
                pop_taps_tile(b, f, row, col, POP_TAPS_COLS, step, 1, pairs);
            else pop_taps_tile(b, f, row, col, POP_TAPS_COLS, step, 0, pairs);
        for (; col < b->cols; col++) pop_taps_tile(b, f, row, col, 1, step, 0, pairs);
    }
}

#define POP_SLIDE_TAPS_STEP(name, constant, step)                                              \
    static __attribute__((noinline)) void pop_taps_##name##_##step(const pop_conv_gradient *b) \
    {                                                                                          \
        pop_taps_step(b, &constant, step, POP_CONV_PAIRS);                                     \
    }
#define POP_SLIDE_TAPS_OF(name, constant)                         \
    POP_SLIDE_TAPS_STEP(name, constant, 1)                        \
    POP_SLIDE_TAPS_STEP(name, constant, 2)                        \
    static void pop_taps_##name(const pop_conv_gradient *b)       \
    {                                                             \
        if (b->step == 1) pop_taps_##name##_1(b);                 \
        else pop_taps_##name##_2(b);                              \
    }
#define POP_SLIDE_TAPS_ROW(name, format, rows, flags)                                           \
    {"slide_taps", format, "slide_taps_" #name, POP_FUNCTION(pop_taps_##name), {1, 16, rows},   \
     {rows, POP_TAPS_COLS, 16}, flags},
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
POP_SLIDE_TAPS_OF(pairs, POP_BF16)
#define POP_SLIDE_TAPS_KERNELS POP_SLIDE_TAPS_ROW(pairs, "bfloat16", 2, 0)
#else
POP_SLIDE_TAPS_OF(f32, POP_F32)
POP_SLIDE_TAPS_OF(f16, POP_F16)
#define POP_SLIDE_TAPS_KERNELS                            \
    POP_SLIDE_TAPS_ROW(f32, "float32", 1, POP_CONSISTENT) \
    POP_SLIDE_TAPS_ROW(f16, "float16", 1, POP_CONSISTENT)
#endif
#endif
