/* What the kernels of the dot family are called with.
 *
 * A panel's cell is always 4 bytes: one FP32 number, or two BF16 numbers that are neighbours along the depth. So one
 * layout serves both: A is read cell by cell with any strides, B as lines of cells that are contiguous across columns. */
#ifndef POP_DOT_H
#define POP_DOT_H
#include "kernels/convert.h"
#include <string.h>

/* A block of C: rows x columns sums over `cells` cells of depth. Strides are bytes, save c_row (FP32 numbers). */
typedef struct pop_dot_block {
    const char *a;
    const char *b;
    float *c;
    int64_t a_row, a_cell; /* from a row of A to the next, from a cell to the next along the depth */
    int64_t b_cell, b_col; /* from a line of B to the next; b_col is used by the "dot" kernels alone */
    int64_t c_row;
    int64_t rows, cols, cells;
    int64_t a_low, b_low;  /* bytes from a panel to that of its low parts (FP16 in two BF16 numbers), or 0 */
    int64_t skip_lows;     /* leave out the product of the low parts */
    int64_t accumulate;    /* add to C, or start from zero */
    /* What later calls take, or no rows: rows of A as they lie, so many bytes apart and so many to 16 cells of the depth, as deep
     * as this block; rows of sums as far apart and as wide as its own. A kernel asks for these while it multiplies, a few lines
     * at a time: asked for all at once they would hold up its own loads. */
    const char *a_next;
    const float *c_next;
    int64_t a_next_rows, c_next_rows, a_next_row, a_next_step;
} pop_dot_block;

typedef void (*pop_dot_multiply)(const pop_dot_block *block);
/* n numbers at `from`, contiguous, to FP32 or BF16 at `to`; kernels that split put the low parts at `low`. The format's bias
 * carries FP8's scale; its other fields are read by the kernels of user-defined formats alone. */
typedef void (*pop_dot_decode)(const pop_format *format, const void *from, void *to, void *low, int64_t n);
/* `lines` <= 16 lines of cells, `line` bytes apart, to lines of 16 cells `cell` bytes apart; absent lines give zeros. */
typedef void (*pop_dot_transpose)(const char *from, int64_t line, int64_t lines, int64_t cells, char *to, int64_t cell);
/* Two lines of n BF16 numbers to n cells. */
typedef void (*pop_dot_interleave)(const uint16_t *even, const uint16_t *odd, uint16_t *to, int64_t n);
/* n sums rounded to FP16 and back. */
typedef void (*pop_dot_round)(float *sums, int64_t n);
/* The same stochastically, with a random word for each. */
typedef void (*pop_dot_round_at_random)(float *sums, int64_t n, const uint32_t *words);
/* What a kernel wants called by its thread before and after an item: tile configuration. */
typedef void (*pop_dot_hook)(void);

/* Ask for bytes that are read soon. Rows of a block lie far apart, so the hardware's prefetcher starts anew in each. */
POP_INLINE void pop_prefetch(const char *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i, 0, 2);
}

/* All of a block's coming rows of A at once, for kernels that have long enough to wait for them. */
POP_INLINE void pop_prefetch_next(const pop_dot_block *t)
{
    for (int64_t r = 0; r < t->a_next_rows; r++)
        pop_prefetch(t->a_next + r * t->a_next_row, (t->cells + 15) / 16 * t->a_next_step);
}

/* 1 if none of n contiguous codes is an infinity (or a NaN of a format that has infinities). */
static int pop_all_finite(const pop_format *format, int64_t bytes, const void *from, int64_t n)
{
    const uint32_t magnitude = (uint32_t)pop_sign_code(format) - 1, most = (uint32_t)pop_max_code(format);
    uint32_t found = 0;
    if (format->specials != POP_IEEE) return 1;
    if (bytes == 1) {
        for (int64_t i = 0; i < n; i++) found |= (((const uint8_t *)from)[i] & magnitude) > most;
    } else if (bytes == 2) {
        for (int64_t i = 0; i < n; i++) {
            uint16_t code;
            memcpy(&code, (const char *)from + 2 * i, 2);
            found |= (code & magnitude) > most;
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            uint32_t code;
            memcpy(&code, (const char *)from + 4 * i, 4);
            found |= (code & magnitude) > most;
        }
    }
    return !found;
}
#endif
