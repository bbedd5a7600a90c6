/* Elements between their places in memory and a buffer where they lie one after another. */
#ifndef POP_DRIVERS_STRIDED_ROWS_H
#define POP_DRIVERS_STRIDED_ROWS_H
#include "drivers/strided.h"

POP_INLINE int64_t pop_least(int64_t a, int64_t b) { return a < b ? a : b; }

POP_INLINE void pop_copy_elements(int64_t bytes, char *to, int64_t to_stride, const char *from, int64_t stride, int64_t n)
{
    if (to_stride == bytes && stride == bytes && n >= 16) {
        memcpy(to, from, (size_t)(n * bytes));
        return;
    }
    if (to_stride == bytes) /* the compiler makes two loops of it */
        for (int64_t i = 0; i < n; i++) memcpy(to + i * bytes, from + i * stride, (size_t)bytes);
    else
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_stride, from + i * stride, (size_t)bytes);
}

static void pop_copy_row(int64_t bytes, char *to, int64_t to_stride, const char *from, int64_t stride, int64_t n)
{
    if (bytes == 1) pop_copy_elements(1, to, to_stride, from, stride, n);
    else if (bytes == 2) pop_copy_elements(2, to, to_stride, from, stride, n);
    else if (bytes == 4) pop_copy_elements(4, to, to_stride, from, stride, n);
    else pop_copy_elements(8, to, to_stride, from, stride, n);
}

/* Step to the next place of the axes outside the innermost, and return how far that is for an operand. */
POP_INLINE int64_t pop_next_row(const pop_strided *s, int operand, int64_t *index)
{
    int64_t move = 0;
    for (int d = s->axes_count - 2; d >= 0; d--) {
        const pop_strided_axis *axis = s->axes + d;
        move += axis->strides[operand];
        if (++index[d] < axis->extent || d == 0) break;
        move -= axis->extent * axis->strides[operand];
        index[d] = 0;
    }
    return move;
}

/* Gather n elements of an operand from `at` on, the element at `start`, into `packed`; or scatter them. */
static void pop_move_rows(const pop_strided *s, int operand, const int64_t *start, char *at, char *packed, int64_t n,
                          int scatter)
{
    const int last = s->axes_count - 1;
    const pop_strided_axis *inner = s->axes + last;
    const int64_t bytes = s->operands[operand].code_bytes, stride = inner->strides[operand];
    int64_t index[POP_STRIDED_AXES], from = start[last];
    memcpy(index, start, (size_t)last * sizeof *index);
    for (;;) {
        const int64_t row = pop_least(n, inner->extent - from);
        if (scatter) pop_copy_row(bytes, at, stride, packed, bytes, row);
        else pop_copy_row(bytes, packed, bytes, at, stride, row);
        n -= row;
        if (n == 0) return;
        packed += row * bytes;
        at += pop_next_row(s, operand, index) - from * stride;
        from = 0;
    }
}

/* Gather the one value of each row that n elements from `start` on meet; return how many rows they are. */
static int64_t pop_move_values(const pop_strided *s, int operand, const int64_t *start, const char *at, char *packed,
                               int64_t n)
{
    const int last = s->axes_count - 1;
    const int64_t bytes = s->operands[operand].code_bytes, extent = s->axes[last].extent;
    int64_t index[POP_STRIDED_AXES], rows = 0, left = n + start[last];
    memcpy(index, start, (size_t)last * sizeof *index);
    for (;;) {
        pop_copy_row(bytes, packed + rows * bytes, bytes, at, bytes, 1);
        rows++;
        left -= extent;
        if (left <= 0) return rows;
        at += pop_next_row(s, operand, index);
    }
}

POP_INLINE void pop_spread_values(int64_t bytes, char *lanes, int64_t rows, int64_t row, int64_t rest, int64_t n)
{
    const char *value = lanes + (n - rows) * bytes; /* never behind what is written: a row has an element or more */
    for (int64_t done = 0; done < n; value += bytes) {
        char one[8];
        const int64_t end = pop_least(n, done + rest);
        memcpy(one, value, (size_t)bytes);
        for (; done < end; done++) memcpy(lanes + done * bytes, one, (size_t)bytes);
        rest = row;
    }
}

/* Spread the values of `rows` rows, which lie at the end of n lanes, over all of them; the first row has `rest` lanes. */
static void pop_spread(int64_t bytes, char *lanes, int64_t rows, int64_t row, int64_t rest, int64_t n)
{
    if (bytes == 1) pop_spread_values(1, lanes, rows, row, rest, n);
    else if (bytes == 2) pop_spread_values(2, lanes, rows, row, rest, n);
    else if (bytes == 4) pop_spread_values(4, lanes, rows, row, rest, n);
    else pop_spread_values(8, lanes, rows, row, rest, n);
}
#endif
