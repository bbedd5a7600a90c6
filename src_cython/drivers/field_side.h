/* The two sides of a field: positions, and numbers of the depth, as coordinates of dimensions. */
#ifndef POP_FIELD_SIDE_H
#define POP_FIELD_SIDE_H
#include "kernels/epilogue.h"
#include <stdint.h>

enum { POP_FIELD_DIMS = sizeof ((pop_field *)0)->dims / sizeof(pop_field_dim) }; /* at most */

POP_INLINE int64_t pop_field_smaller(int64_t x, int64_t y) { return x < y ? x : y; }

/* Positions, or numbers of the depth, in mixed radix: coordinates of dimensions, then `inner` numbers that lie `stride` apart
 * whatever the other side is: channels, or positions of a last dimension that meets one tap. */
typedef struct pop_field_side {
    int taps;
    int64_t rank; /* dimensions that count */
    int64_t inner, stride;
    int64_t at[POP_FIELD_DIMS], in;
} pop_field_side;

POP_INLINE int64_t pop_field_extent(const pop_field *f, int taps, int64_t d)
{
    return taps ? f->dims[d].taps : f->dims[d].positions;
}

/* Whether positions of a dimension each meet an element whatever the taps are. */
POP_INLINE int pop_field_is_plain(const pop_field_dim *d)
{
    const int64_t last = d->first + (d->positions - 1) * d->step;
    return d->taps == 1 && d->dilation == 1 && d->first_valid <= 0 && d->end_valid >= d->positions && d->first >= 0 &&
           d->first < d->end && last >= 0 && last < d->end;
}

/* One side of a field at one of its numbers. */
static void pop_field_open(pop_field_side *s, const pop_field *f, int taps, int64_t number)
{
    const pop_field_dim *last = &f->dims[f->rank - 1];
    s->taps = taps;
    s->rank = f->rank;
    s->inner = taps ? f->channels : 1;
    s->stride = taps ? f->channel : 0;
    if (!taps && pop_field_is_plain(last)) {
        s->inner = last->positions;
        s->stride = last->step * last->stride;
        s->rank--;
    }
    while (s->rank && pop_field_extent(f, taps, s->rank - 1) == 1) s->rank--;
    s->in = number % s->inner;
    number /= s->inner;
    memset(s->at, 0, sizeof s->at);
    for (int64_t d = s->rank - 1; d >= 0 && number; d--) {
        s->at[d] = number % pop_field_extent(f, taps, d);
        number /= pop_field_extent(f, taps, d);
    }
}

/* `n` numbers on. */
POP_INLINE void pop_field_advance(pop_field_side *s, const pop_field *f, int64_t n)
{
    s->in += n;
    if (s->in < s->inner || !s->rank) return;
    int64_t on = s->inner == 1 ? s->in : s->in / s->inner;
    s->in -= on * s->inner;
    for (int64_t d = s->rank - 1; d >= 0 && on; d--) {
        const int64_t extent = pop_field_extent(f, s->taps, d), at = s->at[d] + on;
        on = at < extent ? 0 : at < 2 * extent ? 1 : at / extent;
        s->at[d] = at - on * extent;
    }
}

/* Bytes to the element at a coordinate of a dimension; none where there is no element. */
POP_INLINE int64_t pop_field_element(const pop_field_dim *d, int64_t position, int64_t tap, int *none)
{
    int64_t at = d->first + position * d->step + tap * d->tap_step;
    *none |= at < 0 || at >= d->end || position < d->first_valid || position >= d->end_valid;
    if (d->dilation == 1) return at * d->stride;
    *none |= at % d->dilation != 0;
    return at / d->dilation * d->stride;
}

/* Limits [*from, *to) to the x with 0 <= first + x * step < end. */
POP_INLINE void pop_field_limit(int64_t first, int64_t step, int64_t end, int64_t *from, int64_t *to)
{
    int64_t low = *from, high = *to;
    if (step == 0) {
        if (first < 0 || first >= end) high = low;
    } else {
        if (step < 0) { /* mirror: end - 1 - (first + x * step) */
            first = end - 1 - first;
            step = -step;
        }
        const int64_t least = first >= 0 ? low : step == 1 ? -first : (-first + step - 1) / step;
        const int64_t most = first >= end ? low : (step == 1 ? end - 1 - first : (end - 1 - first) / step) + 1;
        low = least > low ? least : low;
        high = most < high ? most : high;
    }
    *from = low;
    *to = high > low ? high : low;
}
#endif
