/* Products of a field that is read where it lies, tap by tap: nothing is packed, and taps that meet padding are left out.
 *
 * The kernel takes rows that lie evenly: neighbours along the last dimension, for all taps whose elements lie in line at
 * once. The first and last few positions of a line, which miss taps of it, are taken along the dimension before. Elements of
 * another format are decoded first, once for all taps: those that some lines of positions meet. */
#ifndef POP_TAPS_H
#define POP_TAPS_H
#include "drivers/field.h"

typedef void (*pop_taps_kernel)(const pop_dot_block *block);

/* What a block of rows is multiplied with. */
typedef struct pop_taps {
    const pop_field *f;
    const char *base;   /* of coordinates 0 */
    const char *b;      /* the panel at depth `first` */
    pop_dot_block *t;
    pop_taps_kernel multiply;
    int64_t first, end; /* of the depth */
    int64_t item, elements, rows_at_once;
    int64_t whole, whole_end; /* positions of the last dimension that meet all of its taps */
} pop_taps;

/* A field whose elements are decoded, and room for some. */
typedef struct pop_taps_source {
    const pop_field *f;
    const char *base; /* of coordinates 0 */
    void (*decode)(const pop_format *format, const void *from, void *to, void *low, int64_t n);
    const pop_format *format;
    int64_t item; /* bytes of a code */
    char *room;
    int64_t bytes;
} pop_taps_source;

/* Coordinates [*low, *high) of a dimension at which positions and taps meet elements. */
POP_INLINE void pop_taps_met(const pop_field_dim *d, int64_t first, int64_t positions, int64_t tap, int64_t taps,
                             int64_t *low, int64_t *high)
{
    const int64_t across = (positions - 1) * d->step, reach = (taps - 1) * d->tap_step;
    const int64_t at = d->first + first * d->step + tap * d->tap_step;
    const int64_t least = at + pop_field_smaller(across, 0) + pop_field_smaller(reach, 0);
    const int64_t most = at + (across > 0 ? across : 0) + (reach > 0 ? reach : 0);
    *low = least < 0 ? 0 : least;
    *high = pop_field_smaller(d->end, most + 1);
    if (*high <= *low) *low = *high = 0; /* none */
}

/* Decode what positions meet, from `position` on: whole lines or a part of one, at most n and as many as there is room for.
 * `g` becomes the field as it lies in the room. Returns how many. */
static int64_t pop_taps_decode(pop_taps *w, const pop_taps_source *s, int64_t position, int64_t n, pop_field *g)
{
    const pop_field *f = s->f;
    const int64_t last = f->rank - 1, width = f->dims[last].positions;
    int64_t at[10], low[10], high[10], place[10], lines = 1, some, size, d, left = position;
    int64_t outer = 0, inner = f->channels, tap, taps; /* of the first dimension that has several taps, those of this depth */
    while (outer < last && f->dims[outer].taps == 1) outer++;
    for (d = outer + 1; d <= last; d++) inner *= f->dims[d].taps;
    tap = w->first / inner, taps = (w->end - 1) / inner + 1 - tap;
    for (d = last; d >= 0; d--) {
        at[d] = left % f->dims[d].positions;
        left /= f->dims[d].positions;
    }
    some = pop_field_smaller(n, width - at[last]);
    if (at[last] == 0 && last > 0 && n >= width) lines = pop_field_smaller(n / width, f->dims[last - 1].positions - at[last - 1]);
    for (;;) {
        size = w->item * f->channels;
        for (d = last; d >= 0; d--) {
            pop_taps_met(&f->dims[d], at[d], d == last ? some : d == last - 1 ? lines : 1, d == outer ? tap : 0,
                         d == outer ? taps : f->dims[d].taps, &low[d], &high[d]);
            g->dims[d].stride = size;
            size *= high[d] - low[d];
        }
        if (size <= s->bytes || lines * some == 1) break;
        if (lines > 1) lines = (lines + 1) / 2;
        else some = (some + 1) / 2;
    }
    w->base = s->room;
    for (d = 0; d <= last; d++) w->base -= low[d] * g->dims[d].stride;
    memcpy(place, low, sizeof low);
    for (char *to = s->room; size > 0; to += g->dims[last].stride * (high[last] - low[last])) {
        const char *from = s->base;
        for (d = 0; d <= last; d++) from += place[d] * f->dims[d].stride;
        const int64_t in_line = f->dims[last].stride == f->channels * s->item, count = high[last] - low[last];
        for (int64_t i = 0; i < (in_line ? 1 : count); i++)
            s->decode(s->format, from + i * f->dims[last].stride, to + i * g->dims[last].stride, NULL,
                      in_line ? count * f->channels : f->channels);
        for (d = last - 1; d >= 0 && ++place[d] == high[d]; d--) place[d] = low[d];
        if (d < 0) break;
    }
    return lines * some;
}

/* `n` numbers of the depth, from `depth` on, for rows whose first has them at `from`. */
POP_INLINE void pop_taps_run(const pop_taps *w, const char *from, int64_t depth, int64_t n)
{
    const int64_t before = depth < w->first ? w->first - depth : 0, end = pop_field_smaller(depth + n, w->end);
    if (end <= depth + before) return;
    w->t->a = from + before * w->item;
    w->t->b = w->b + (depth + before - w->first) / w->elements * w->t->b_cell;
    w->t->cells = (end - depth - before) / w->elements;
    w->multiply(w->t);
    w->t->accumulate = 1;
}

/* Sums of `rows` positions from `at` on along a dimension, which meet taps [low, high) of the last one. */
static void pop_taps_piece(const pop_taps *w, const int64_t *at, int64_t along, int64_t rows, int64_t low, int64_t high,
                           float *c)
{
    const pop_field *f = w->f;
    const int64_t last = f->rank - 1, inner = f->dims[last].taps * f->channels, fresh = w->first == 0;
    const pop_field_dim *x = &f->dims[last];
    const char *line = w->base + (x->first + at[last] * x->step + low * x->tap_step) * x->stride;
    const int64_t in_line = x->tap_step * x->stride == f->channels * w->item, runs = in_line ? 1 : high - low;
    const int64_t n = (in_line ? high - low : 1) * f->channels;
    int64_t tap[10] = {0}, depth = w->first / inner * inner + low * f->channels, d, left = w->first / inner;
    pop_dot_block *t = w->t;
    for (d = last - 1; d >= 0; d--) { /* of the first number of the depth */
        tap[d] = left % f->dims[d].taps;
        left /= f->dims[d].taps;
    }
    t->a_row = f->dims[along].step * f->dims[along].stride;
    t->accumulate = !fresh;
    for (;;) {
        int64_t first = 0, end = rows;
        const char *from = line;
        for (d = 0; d < last; d++) {
            const pop_field_dim *dim = &f->dims[d];
            const int64_t place = dim->first + at[d] * dim->step + tap[d] * dim->tap_step;
            from += place * dim->stride;
            if (d == along) pop_field_limit(place, dim->step, dim->end, &first, &end);
            else if (place < 0 || place >= dim->end) end = first;
        }
        if (n > 0 && first < end) {
            if (!t->accumulate && end - first < rows) { /* some rows' sums begin later */
                t->c = c, t->rows = rows, t->cells = 0;
                w->multiply(t);
                t->accumulate = 1;
            }
            t->c = c + first * t->c_row;
            t->rows = end - first;
            for (int64_t i = 0; i < runs; i++)
                pop_taps_run(w, from + first * t->a_row + i * x->tap_step * x->stride, depth + i * n, n);
        }
        for (d = last - 1; d >= 0 && ++tap[d] == f->dims[d].taps; d--) tap[d] = 0;
        depth += inner;
        if (d < 0 || depth >= w->end) break;
    }
    if (t->accumulate) return;
    t->c = c, t->rows = rows, t->cells = 0; /* nothing is met */
    w->multiply(t);
}

/* Sums of `n` positions from `at` on along a dimension, in pieces as even as can be; sums go `step` floats apart. */
static void pop_taps_line(const pop_taps *w, int64_t *at, int64_t along, int64_t n, float *c, int64_t step)
{
    const pop_field_dim *x = &w->f->dims[w->f->rank - 1];
    const int64_t pieces = (n + w->rows_at_once - 1) / w->rows_at_once, kept = w->t->c_row, first = at[along];
    const int64_t position = at[w->f->rank - 1];
    int64_t low = 0, high = x->taps;
    pop_field_limit(x->first + position * x->step, x->tap_step, x->end, &low, &high);
    w->t->c_row = step;
    for (int64_t i = 0, done = 0; i < pieces; i++) {
        const int64_t next = n * (i + 1) / pieces;
        at[along] = first + done;
        pop_taps_piece(w, at, along, next - done, low, high, c + done * step);
        done = next;
    }
    at[along] = first;
    w->t->c_row = kept;
}

/* Positions [from, to) of the last dimension in `lines` of the one before. */
static void pop_taps_rectangle(const pop_taps *w, int64_t *at, int64_t lines, int64_t from, int64_t to, float *c)
{
    const int64_t last = w->f->rank - 1, width = w->f->dims[last].positions, row = w->t->c_row;
    const int64_t line = last > 0 ? at[last - 1] : 0;
    for (int64_t x = from; x < to;) {
        const int64_t inside = x >= w->whole && x < w->whole_end;
        const int64_t n = inside ? pop_field_smaller(to, w->whole_end) - x : 1;
        at[last] = x;
        if (!inside && lines > 1) pop_taps_line(w, at, last - 1, lines, c + (x - from) * row, width * row);
        for (int64_t i = 0; (inside || lines == 1) && i < lines; i++) {
            if (last > 0) at[last - 1] = line + i;
            pop_taps_line(w, at, last, n, c + (x - from + i * width) * row, row);
        }
        if (last > 0) at[last - 1] = line;
        x += n;
    }
}

/* Sums of `n` positions from `position` on. */
static void pop_taps_multiply(pop_taps *w, int64_t position, int64_t n, float *c)
{
    const pop_field *f = w->f;
    const int64_t last = f->rank - 1, width = f->dims[last].positions;
    const pop_field_dim *x = &f->dims[last];
    w->whole = 0, w->whole_end = width;
    for (int64_t tap = 0; tap < x->taps; tap += x->taps > 1 ? x->taps - 1 : 1)
        pop_field_limit(x->first + tap * x->tap_step, x->step, x->end, &w->whole, &w->whole_end);
    for (int64_t done = 0; done < n;) {
        int64_t at[10] = {0}, left = position + done, lines = 1, from, to;
        for (int64_t d = last; d >= 0; d--) {
            at[d] = left % f->dims[d].positions;
            left /= f->dims[d].positions;
        }
        from = at[last];
        to = pop_field_smaller(width, from + n - done);
        if (from == 0 && last > 0 && n - done >= width)
            lines = pop_field_smaller((n - done) / width, f->dims[last - 1].positions - at[last - 1]);
        pop_taps_rectangle(w, at, lines, from, to, c + done * w->t->c_row);
        done += lines * (to - from);
    }
}
#endif
