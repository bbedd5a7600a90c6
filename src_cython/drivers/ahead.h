/* What positions of a field meet for the first time, in the order in which they come: the frame prefetches it while it multiplies
 * those before them, since lines of a field lie too far apart for the hardware to see them coming. */
#ifndef POP_AHEAD_H
#define POP_AHEAD_H
#include "drivers/field.h"

typedef struct pop_ahead {
    const pop_field *f;
    const char *base;
    int64_t item;
    int64_t each;              /* lines of the cache that a step of the kernel prefetches */
    int64_t position, end;     /* whose elements are still to be prefetched */
    int64_t at[POP_FIELD_DIMS], tap[POP_FIELD_DIMS];   /* of the line of elements that is next */
    int64_t next;              /* the first position after those that meet it */
    const char *from;          /* what is left of a line of elements: rows of so many lines of the cache, `row` bytes apart */
    int64_t rows, row, lines, done;
} pop_ahead;

/* Coordinates [*low, *high) of a dimension at which positions and taps meet elements. */
POP_INLINE void pop_field_met(const pop_field_dim *d, int64_t first, int64_t positions, int64_t tap, int64_t taps, int64_t *low,
                              int64_t *high)
{
    const int64_t across = (positions - 1) * d->step, reach = (taps - 1) * d->tap_step;
    const int64_t at = d->first + first * d->step + tap * d->tap_step;
    const int64_t least = at + pop_field_smaller(across, 0) + pop_field_smaller(reach, 0);
    const int64_t most = at + (across > 0 ? across : 0) + (reach > 0 ? reach : 0);
    *low = least < 0 ? 0 : least;
    *high = pop_field_smaller(d->end, most + 1);
    if (*high <= *low) *low = *high = 0; /* none */
}

/* Taps of a dimension whose elements a position is the first to meet: one for each step to it, all at the edge. */
POP_INLINE void pop_ahead_taps(const pop_field_dim *d, int64_t position, int64_t *first, int64_t *end)
{
    const int64_t step = d->step < 0 ? -d->step : d->step, fresh = position ? pop_field_smaller(step, d->taps) : d->taps;
    const int forwards = (d->step < 0) == (d->tap_step < 0);
    *first = forwards ? d->taps - fresh : 0;
    *end = forwards ? d->taps : fresh;
}

/* Bytes of a position's elements that none before it meets. */
static int64_t pop_ahead_bytes(const pop_field *f, int64_t item)
{
    int64_t bytes = f->channels * item, first, end;
    for (int64_t d = 0; d < f->rank; d++) {
        pop_ahead_taps(&f->dims[d], 1, &first, &end);
        bytes *= end - first;
    }
    return bytes;
}

static void pop_ahead_open(pop_ahead *h, const pop_field *f, const char *base, int64_t item, int64_t position, int64_t n,
                           int64_t steps)
{
    memset(h, 0, sizeof *h);
    if (n <= 0) return;
    h->f = f, h->base = base, h->item = item;
    h->position = h->next = position, h->end = position + n;
    h->each = (n * pop_ahead_bytes(f, item) / 48 + steps - 1) / steps; /* a quarter more than is needed */
}

/* The line of elements at hand as rows, if there are any. */
static void pop_ahead_rows(pop_ahead *h)
{
    const pop_field *f = h->f;
    const int64_t last = f->rank - 1, bytes = f->channels * h->item;
    const pop_field_dim *x = &f->dims[last];
    int64_t low, high, gap = 1, stride = x->stride;
    pop_field_met(x, h->at[last], h->next - h->position, 0, x->taps, &low, &high);
    h->from = h->base + (stride < 0 ? high - 1 : low) * stride;
    for (int64_t d = 0; d < last; d++) {
        const pop_field_dim *dim = &f->dims[d];
        const int64_t place = dim->first + h->at[d] * dim->step + h->tap[d] * dim->tap_step;
        h->from += place * dim->stride;
        if (place < 0 || place >= dim->end) low = high;
    }
    h->done = h->rows = 0;
    if (low >= high) return;
    if (x->taps == 1 && x->step) gap = x->step;
    h->row = gap * stride < 0 ? -gap * stride : gap * stride;
    h->rows = 1 + (high - 1 - low) / (gap < 0 ? -gap : gap);
    h->lines = (bytes + 63) / 64;
    if (h->row >= bytes + 64) return;
    h->lines = ((h->rows - 1) * h->row + bytes + 63) / 64;
    h->rows = 1;
}

/* Go to the next line of elements; returns 0 after the last. */
static int pop_ahead_line(pop_ahead *h)
{
    const int64_t last = h->f->rank - 1;
    int64_t d = last - 1, left = h->next, first, end;
    for (; h->next > h->position && d >= 0; d--) { /* another of the same positions */
        pop_ahead_taps(&h->f->dims[d], h->at[d], &first, &end);
        if (++h->tap[d] < end) break;
        h->tap[d] = first;
    }
    if (h->next == h->position || d < 0) {
        if (h->next >= h->end) return 0;
        h->position = h->next;
        for (d = last; d >= 0; d--) {
            h->at[d] = left % h->f->dims[d].positions;
            left /= h->f->dims[d].positions;
            pop_ahead_taps(&h->f->dims[d], h->at[d], &h->tap[d], &end);
        }
        h->next = pop_field_smaller(h->end, h->position + h->f->dims[last].positions - h->at[last]);
    }
    pop_ahead_rows(h);
    return 1;
}

/* A call's share, for a call of so many steps. */
static void pop_ahead_share(pop_ahead *h, pop_dot_block *t, int64_t steps)
{
    t->a_next_rows = 0;
    while (!h->rows)
        if (h->position >= h->end || !pop_ahead_line(h)) {
            h->position = h->end;
            return;
        }
    t->a_next = h->from + 64 * h->done;
    t->a_next_step = 64;
    if (h->lines <= steps && h->rows > 1) { /* some rows at once */
        t->a_next_steps = h->lines, t->a_next_row = h->row;
        t->a_next_rows = pop_field_smaller(h->rows, (h->each * steps + h->lines - 1) / h->lines);
        h->from += t->a_next_rows * h->row;
        h->rows -= t->a_next_rows;
        return;
    }
    const int64_t some = pop_field_smaller(h->each * steps, h->lines - h->done);
    t->a_next_rows = (some + steps - 1) / steps, t->a_next_row = 64 * steps;
    t->a_next_steps = pop_field_smaller(steps, some);
    h->done += some;
    if (h->done < h->lines) return;
    h->done = 0, h->from += h->row;
    h->rows--;
}
#endif
