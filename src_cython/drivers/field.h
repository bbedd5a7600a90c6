/* Elements of a field's matrix (records/gemm.def): what a convolution multiplies, gathered where it lies. Nothing of the
 * matrix is kept: the frame asks for a part of a row, or of a column, when it packs it. */
#ifndef POP_FIELD_H
#define POP_FIELD_H
#include "kernels/epilogue.h"
#include <stdint.h>
#include <string.h>

POP_INLINE int64_t pop_field_smaller(int64_t x, int64_t y) { return x < y ? x : y; }

/* Coordinates of a number in mixed radix: extents of positions, or of taps. */
POP_INLINE void pop_field_unravel(const pop_field *f, int taps, int64_t number, int64_t *at)
{
    for (int64_t d = f->rank - 1; d >= 0; d--) {
        const int64_t extent = taps ? f->dims[d].taps : f->dims[d].positions;
        if (extent == 1) { at[d] = 0; continue; }
        at[d] = number % extent;
        number /= extent;
    }
}

/* The next one, in the dimensions before `rank`. */
POP_INLINE void pop_field_advance(const pop_field *f, int taps, int64_t rank, int64_t *at)
{
    for (int64_t d = rank - 1; d >= 0; d--) {
        if (++at[d] < (taps ? f->dims[d].taps : f->dims[d].positions)) return;
        at[d] = 0;
    }
}

/* Bytes to the element at a coordinate of a dimension; -1 where there is none. */
POP_INLINE int64_t pop_field_element(const pop_field_dim *d, int64_t position, int64_t tap, int *none)
{
    int64_t at = d->first + position * d->step + tap * d->tap_step;
    *none |= at < 0 || at >= d->end || position < d->first_valid || position >= d->end_valid;
    if (d->dilation == 1) return at * d->stride;
    *none |= at % d->dilation != 0;
    return at / d->dilation * d->stride;
}

/* The same over all dimensions but the last. */
POP_INLINE int64_t pop_field_outer(const pop_field *f, const int64_t *positions, const int64_t *taps, int *none)
{
    int64_t at = 0;
    for (int64_t d = 0; d < f->rank - 1; d++) at += pop_field_element(&f->dims[d], positions[d], taps[d], none);
    return at;
}

/* First and end of the x in [0, extent) with 0 <= first + x * step < end. */
POP_INLINE void pop_field_range(int64_t first, int64_t step, int64_t end, int64_t extent, int64_t *from, int64_t *to)
{
    int64_t low = 0, high = extent;
    if (step == 0) {
        if (first < 0 || first >= end) high = 0;
    } else {
        if (step < 0) { /* mirror: end - 1 - (first + x * step) */
            first = end - 1 - first;
            step = -step;
        }
        if (first < 0) low = (-first + step - 1) / step;
        high = first >= end ? 0 : pop_field_smaller(extent, (end - 1 - first) / step + 1);
    }
    *from = low < extent ? low : extent;
    *to = high > *from ? high : *from;
}

POP_INLINE void pop_field_copy(int64_t item, const char *from, int64_t step, char *to, int64_t n)
{
    if (step == item) memcpy(to, from, (size_t)(n * item));
    else pop_scatter(item, from, step, to, item, n);
}

/* `n` elements of a line of which [low, high) exist: those of [first, first + n). Element i is at from + i * step. */
POP_INLINE void pop_field_part(int64_t item, const char *from, int64_t step, int64_t first, int64_t n, int64_t low,
                               int64_t high, char *to)
{
    int64_t a = low - first, b = high - first;
    a = a < 0 ? 0 : a > n ? n : a;
    b = b < a ? a : b > n ? n : b;
    if (a) memset(to, 0, (size_t)(a * item));
    if (b > a) pop_field_copy(item, from + (first + a) * step, step, to + a * item, b - a);
    if (b < n) memset(to + b * item, 0, (size_t)((n - b) * item));
}

/* Of one position, n numbers of its depth from `depth` on. Where taps of the last dimension lie side by side, they are one line. */
static void pop_field_row(const pop_field *f, const char *base, int64_t item, int64_t position, int64_t depth, int64_t n,
                          char *to)
{
    int64_t at[9], taps[9];
    const pop_field_dim *last = &f->dims[f->rank - 1];
    int64_t tap = depth / f->channels, channel = depth % f->channels;
    pop_field_unravel(f, 0, position, at);
    pop_field_unravel(f, 1, tap, taps);
    const int64_t x = at[f->rank - 1], start = last->first + x * last->step;
    const int valid = x >= last->first_valid && x < last->end_valid;
    const int joined = last->dilation == 1 && f->channel == item && last->tap_step * last->stride == f->channels * item;
    int64_t low = 0, high = last->taps;
    if (joined) pop_field_range(start, last->tap_step, last->end, last->taps, &low, &high);
    while (n > 0) {
        int64_t t = taps[f->rank - 1], count, first;
        int none = !valid;
        const char *from = base + pop_field_outer(f, at, taps, &none);
        if (joined) {
            first = t * f->channels + channel;
            count = pop_field_smaller(last->taps * f->channels - first, n);
            if (none) memset(to, 0, (size_t)(count * item));
            else pop_field_part(item, from + start * last->stride, item, first, count, low * f->channels, high * f->channels, to);
            t = last->taps;
        } else {
            from += pop_field_element(last, x, t, &none) + channel * f->channel;
            count = pop_field_smaller(f->channels - channel, n);
            if (none) memset(to, 0, (size_t)(count * item));
            else pop_field_copy(item, from, f->channel, to, count);
            t++;
        }
        channel = 0;
        to += count * item;
        n -= count;
        taps[f->rank - 1] = t < last->taps ? t : 0;
        if (t >= last->taps) pop_field_advance(f, 1, f->rank - 1, taps);
    }
}

/* Of one number of the depth, n positions from `position` on. */
static void pop_field_column(const pop_field *f, const char *base, int64_t item, int64_t depth, int64_t position, int64_t n,
                             char *to)
{
    int64_t at[9], taps[9];
    const pop_field_dim *last = &f->dims[f->rank - 1];
    pop_field_unravel(f, 0, position, at);
    pop_field_unravel(f, 1, depth / f->channels, taps);
    base += depth % f->channels * f->channel;
    const int64_t tap = taps[f->rank - 1], start = last->first + tap * last->tap_step, step = last->step * last->stride;
    int64_t x = at[f->rank - 1], low, high;
    pop_field_range(start, last->step, last->end, last->positions, &low, &high);
    if (low < last->first_valid) low = last->first_valid;
    if (high > last->end_valid) high = last->end_valid;
    while (n > 0) {
        const int64_t count = pop_field_smaller(last->positions - x, n);
        int none = 0;
        const char *from = base + pop_field_outer(f, at, taps, &none);
        if (none) {
            memset(to, 0, (size_t)(count * item));
        } else if (last->dilation == 1) {
            pop_field_part(item, from + start * last->stride, step, x, count, low, high, to);
        } else {
            for (int64_t i = 0; i < count; i++) {
                int absent = 0;
                const int64_t offset = pop_field_element(last, x + i, tap, &absent);
                if (absent) memset(to + i * item, 0, (size_t)item);
                else memcpy(to + i * item, from + offset, (size_t)item);
            }
        }
        to += count * item;
        n -= count;
        x = 0;
        pop_field_advance(f, 0, f->rank - 1, at);
    }
}

/* Bytes to a position's result, and how many from there on lie `out_stride` of the last dimension apart. */
POP_INLINE int64_t pop_field_out(const pop_field *f, int64_t position, int64_t *run)
{
    int64_t at[9], offset = 0;
    pop_field_unravel(f, 0, position, at);
    for (int64_t d = 0; d < f->rank; d++) offset += at[d] * f->dims[d].out_stride;
    *run = f->dims[f->rank - 1].positions - at[f->rank - 1];
    return offset;
}

/* 1 if no element of the field is an infinity: those that nothing meets are looked at as well. */
static int pop_field_finite(const pop_field *f, const pop_format *format, int64_t item, const char *base)
{
    int64_t at[9] = {0}, extents[9], d;
    for (d = 0; d < f->rank; d++) {
        extents[d] = (f->dims[d].end + f->dims[d].dilation - 1) / f->dims[d].dilation;
        if (extents[d] <= 0) return 1;
    }
    for (;;) {
        const char *from = base;
        for (d = 0; d < f->rank; d++) from += at[d] * f->dims[d].stride;
        if (f->channel == item) {
            if (!pop_all_finite(format, item, from, f->channels)) return 0;
        } else {
            for (int64_t c = 0; c < f->channels; c++)
                if (!pop_all_finite(format, item, from + c * f->channel, 1)) return 0;
        }
        for (d = f->rank - 1; d >= 0 && ++at[d] == extents[d]; d--) at[d] = 0;
        if (d < 0) return 1;
    }
}
#endif
