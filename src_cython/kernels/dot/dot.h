/* What the kernels of the dot family are called with.
 *
 * A panel's cell is always 4 bytes: one FP32 number, or two BF16 numbers that are neighbours along the depth. So one
 * layout serves both: A is read cell by cell with any strides, B as lines of cells that are contiguous across columns. */
#ifndef POP_DOT_H
#define POP_DOT_H
#include "formats/codec.h"
#include <string.h>

#define POP_RECORDS "records/dot.def"
#include "records/structs.h"

typedef void (*pop_dot_multiply)(const pop_dot_block *block);
/* n numbers at `from`, contiguous, to FP32 or BF16 at `to`; kernels that split put the low parts at `low`. The format's bias
 * carries FP8's scale; its other fields are read by the kernels of user-defined formats alone. */
typedef void (*pop_dot_decode)(const pop_format *format, const void *from, void *to, void *low, int64_t n);
/* `lines` <= 16 lines of cells, `line` bytes apart, to lines of 16 cells `cell` bytes apart; absent lines give zeros. */
typedef void (*pop_dot_transpose)(const char *from, int64_t line, int64_t lines, int64_t cells, char *to, int64_t cell);
/* Two lines of n BF16 numbers to n cells. */
typedef void (*pop_dot_interleave)(const uint16_t *even, const uint16_t *odd, uint16_t *to, int64_t n);
/* Two lines of n codes of a byte to n cells of BF16. */
typedef void (*pop_dot_pair)(const pop_format *format, const void *even, const void *odd, uint16_t *to, int64_t n);
/* Lines of n codes, `from_line` bytes apart, to FP32; or lines of codes of a byte to BF16. */
typedef void (*pop_dot_lines)(const pop_format *format, const void *from, int64_t from_line, int64_t lines, void *to,
                              int64_t to_line, int64_t n);
/* n sums rounded to FP16 and back. */
typedef void (*pop_dot_round)(float *sums, int64_t n);
/* The same stochastically, with a random word for each. */
typedef void (*pop_dot_round_at_random)(float *sums, int64_t n, const uint32_t *words);
/* What a kernel wants called by its thread before and after an item: tile configuration. */
typedef void (*pop_dot_hook)(void);
/* The first of these, for steps of so many cells. */
typedef void (*pop_dot_begin_steps)(int64_t cells);

/* All of a block's coming rows of A at once, for kernels that have long enough to wait for them. Rows of a block lie far apart, so the
 * hardware's prefetcher starts anew in each. */
POP_INLINE void pop_prefetch_next(const pop_dot_block *t)
{
    for (int64_t r = 0; r < t->a_next_rows; r++)
        pop_prefetch_l2_lines(pop_beyond(t->a_next, r * t->a_next_row), t->a_next_steps * t->a_next_step);
}

/* What is still to be prefetched. In memory, each field by itself: GCC would put them together in a vector register, and what comes
 * from there waits in line behind the products. */
typedef struct pop_dot_ahead {
    const char *a, *c;
    int64_t a_steps, c_rows;
} pop_dot_ahead;

POP_INLINE void pop_dot_ahead_open(const pop_dot_block *t, volatile pop_dot_ahead *left)
{
    left->a = t->a_next, left->c = t->c_next;
    left->a_steps = t->a_next_rows ? t->a_next_steps : 0, left->c_rows = t->c_next_rows;
}

/* Ask for what a step does. */
POP_INLINE void pop_dot_ahead_step(const pop_dot_block *t, volatile pop_dot_ahead *left)
{
    if (left->a_steps > 0) {
        const char *a = left->a;
        left->a_steps--;
        left->a = a + t->a_next_step;
        for (int64_t r = t->a_next_rows; r > 0; r--, a += t->a_next_row) pop_prefetch_l2(pop_beyond(a, 0));
    }
    if (left->c_rows > 0) {
        const char *c = left->c;
        left->c_rows -= t->c_next_each;
        left->c = c + t->c_next_each * t->c_next_row;
        for (int64_t r = t->c_next_each; r > 0; r--, c += t->c_next_row)
            pop_prefetch_to_write_lines(pop_beyond(c, 0), 64 * t->c_next_lines);
    }
}

/* 1 if none of n contiguous codes is an infinity (or a NaN of a format that has infinities). */
static int pop_all_finite(const pop_format *format, int64_t bytes, const void *from, int64_t n)
{
    const uint32_t magnitude = (uint32_t)pop_sign_code(format) - 1, most = (uint32_t)pop_max_code(format);
    uint32_t found = 0;
    if (!pop_has_infinity(format)) return 1;
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
