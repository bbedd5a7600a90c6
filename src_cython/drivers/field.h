/* Elements of a field's matrix (records/gemm.def): what a convolution multiplies, gathered where it lies. Nothing of the
 * matrix is kept: the frame asks for a block of rows, or of columns, when it packs it. */
#ifndef POP_FIELD_H
#define POP_FIELD_H
#include "kernels/epilogue.h"
#include <stdint.h>
#include <string.h>

POP_INLINE int64_t pop_field_smaller(int64_t x, int64_t y) { return x < y ? x : y; }

/* Positions, or numbers of the depth, in mixed radix: coordinates of dimensions, then `inner` numbers that lie `stride` apart
 * whatever the other side is: channels, or positions of a last dimension that meets one tap. */
typedef struct pop_field_side {
    int taps;
    int64_t rank; /* dimensions that count */
    int64_t inner, stride;
    int64_t at[10], in;
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

/* `n` numbers on, at most to the end of the last dimension. */
POP_INLINE void pop_field_advance(pop_field_side *s, const pop_field *f, int64_t n)
{
    int64_t d = s->rank - 1;
    s->in += n;
    if (s->in < s->inner || d < 0) return;
    const int64_t on = s->inner == 1 ? s->in : s->in / s->inner;
    s->in -= on * s->inner;
    s->at[d] += on;
    for (; d > 0 && s->at[d] == pop_field_extent(f, s->taps, d); d--) {
        s->at[d] = 0;
        s->at[d - 1]++;
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

/* A part of a field's matrix, `lines` by `n`, that is copied: whole coordinates of one dimension along each way. */
typedef struct pop_field_part {
    const char *from; /* the first element */
    int64_t line_step, step; /* bytes from a line to the next, along a line */
    int64_t item, lines, n;
    char *to;
    int64_t pitch;
} pop_field_part;

/* Lines [first, end) of a part, columns [low, high); zeros in the other columns. */
POP_INLINE void pop_field_copy(const pop_field_part *p, int64_t first, int64_t end, int64_t low, int64_t high)
{
    const int64_t item = p->item;
    for (int64_t j = first; j < end; j++) {
        char *to = p->to + j * p->pitch;
        const char *from = p->from + j * p->line_step + low * p->step;
        if (low) memset(to, 0, (size_t)(low * item));
        if (p->step == item) memcpy(to + low * item, from, (size_t)((high - low) * item));
        else pop_scatter(item, from, p->step, to + low * item, item, high - low);
        if (high < p->n) memset(to + high * item, 0, (size_t)((p->n - high) * item));
    }
}

POP_INLINE void pop_field_zero(const pop_field_part *p, int64_t first, int64_t end)
{
    for (int64_t j = first; j < end; j++) memset(p->to + j * p->pitch, 0, (size_t)(p->n * p->item));
}

/* One element after another: for inputs whose elements are apart, which products of plans tell apart beforehand. */
static void pop_field_dilated(const pop_field *f, const pop_field_part *p, const pop_field_side *line,
                              const pop_field_side *along)
{
    pop_field_side l = *line;
    for (int64_t j = 0; j < p->lines; j++, pop_field_advance(&l, f, 1)) {
        pop_field_side s = *along;
        for (int64_t i = 0; i < p->n; i++, pop_field_advance(&s, f, 1)) {
            const int64_t *positions = s.taps ? l.at : s.at, *taps = s.taps ? s.at : l.at;
            const char *from = p->from + l.in * l.stride + s.in * s.stride;
            char *to = p->to + j * p->pitch + i * p->item;
            int none = 0;
            for (int64_t d = 0; d < f->rank; d++) from += pop_field_element(&f->dims[d], positions[d], taps[d], &none);
            if (none) memset(to, 0, (size_t)p->item);
            else memcpy(to, from, (size_t)p->item);
        }
    }
}

/* The columns [*low, *high) that a line has, where the coordinate along it begins at x and each holds `inner` columns. */
POP_INLINE void pop_field_columns(const pop_field_side *s, int64_t n, int64_t first, int64_t step, int64_t end, int64_t *low,
                                  int64_t *high)
{
    int64_t a = s->at[s->rank - 1], b = a + (s->in + n + s->inner - 1) / s->inner;
    const int64_t origin = a * s->inner + s->in;
    pop_field_limit(first, step, end, &a, &b);
    *low = a * s->inner - origin;
    *high = b * s->inner - origin;
    *low = *low < 0 ? 0 : *low > n ? n : *low;
    *high = *high > n ? n : *high < *low ? *low : *high;
}

/* A part: lines that differ in one coordinate (or in the inner number), columns the same. */
static void pop_field_rectangle(const pop_field *f, pop_field_part *p, const pop_field_side *l, const pop_field_side *s)
{
    const int64_t *positions = s->taps ? l->at : s->at, *taps = s->taps ? s->at : l->at;
    const int64_t across = l->inner > 1 ? -1 : l->rank - 1; /* the dimension whose coordinate lines are; none inside */
    const int64_t along = s->inner - s->in >= p->n ? -1 : s->rank - 1;
    int64_t first = 0, end = p->lines, low = 0, high = p->n, d;
    int none = 0;
    p->line_step = l->stride;
    p->step = s->stride;
    p->from += l->in * l->stride + s->in * s->stride;
    for (d = 0; d < f->rank; d++) {
        const pop_field_dim *dim = &f->dims[d];
        const int64_t at = dim->first + positions[d] * dim->step + taps[d] * dim->tap_step;
        const int64_t line_step = s->taps ? dim->step : dim->tap_step, step = s->taps ? dim->tap_step : dim->step;
        p->from += at * dim->stride;
        if (d == across) p->line_step = line_step * dim->stride;
        if (d == along && s->inner == 1) p->step = step * dim->stride;
        if (d != across && d != along) none |= at < 0 || at >= dim->end;
        if (d == across && d != along) pop_field_limit(at, line_step, dim->end, &first, &end);
        if (d == along && d != across) {
            int64_t a, b;
            pop_field_columns(s, p->n, at - s->at[d] * step, step, dim->end, &a, &b);
            low = a > low ? a : low;
            high = b < high ? b : high;
        }
        /* positions that meet nothing */
        if (d != (s->taps ? across : along)) {
            none |= positions[d] < dim->first_valid || positions[d] >= dim->end_valid;
        } else if (s->taps) {
            first = first > dim->first_valid - l->at[d] ? first : dim->first_valid - l->at[d];
            end = pop_field_smaller(end, dim->end_valid - l->at[d]);
        } else {
            int64_t a, b;
            pop_field_columns(s, p->n, -dim->first_valid, 1, dim->end_valid - dim->first_valid, &a, &b);
            low = a > low ? a : low;
            high = b < high ? b : high;
        }
    }
    if (none || first >= end || low >= high) {
        pop_field_zero(p, 0, p->lines);
        return;
    }
    pop_field_zero(p, 0, first);
    pop_field_zero(p, end, p->lines);
    if (across < 0 || across != along) {
        pop_field_copy(p, first, end, low, high);
        return;
    }
    /* lines that meet all columns, and others */
    const pop_field_dim *dim = &f->dims[along];
    const int64_t line_step = s->taps ? dim->step : dim->tap_step, step = s->taps ? dim->tap_step : dim->step;
    const int64_t start = dim->first + l->at[along] * line_step;
    int64_t whole = first, whole_end = end;
    pop_field_limit(start + s->at[along] * step, line_step, dim->end, &whole, &whole_end);
    pop_field_limit(start + (s->at[along] + (s->in + p->n - 1) / s->inner) * step, line_step, dim->end, &whole, &whole_end);
    if (low > 0 || high < p->n) whole = whole_end = end;
    pop_field_copy(p, whole, whole_end, 0, p->n);
    for (int64_t j = first; j < end; j++) {
        int64_t a, b;
        if (j == whole) j = whole_end;
        if (j >= end) break;
        pop_field_columns(s, p->n, start + j * line_step, step, dim->end, &a, &b);
        a = a > low ? a : low;
        b = b < high ? b : high;
        if (a < b) pop_field_copy(p, j, j + 1, a, b);
        else pop_field_zero(p, j, j + 1);
    }
}

/* How many numbers from here on are one part: all of the last dimension's where its coordinates follow each other. */
POP_INLINE int64_t pop_field_run(const pop_field *f, const pop_field_side *s, int one_coordinate)
{
    const int64_t d = s->rank - 1;
    if (d < 0) return s->inner - s->in;
    const pop_field_dim *dim = &f->dims[d];
    const int64_t left = (pop_field_extent(f, s->taps, d) - s->at[d]) * s->inner - s->in;
    if (s->inner == 1) return left;
    return one_coordinate || (s->taps ? dim->tap_step : dim->step) * dim->stride != s->inner * s->stride ? s->inner - s->in : left;
}

/* Copies `lines` lines from `line` on, of each `n` numbers from `first` on, to lines `pitch` bytes apart; zeros where there is
 * no element. Lines are positions, or numbers of the depth. */
static void pop_field_block(const pop_field *f, const char *base, int64_t item, int lines_are_positions, int64_t line,
                            int64_t lines, int64_t first, int64_t n, char *to, int64_t pitch)
{
    pop_field_side l, start;
    int dilated = 0;
    pop_field_open(&l, f, !lines_are_positions, line);
    pop_field_open(&start, f, lines_are_positions, first);
    for (int64_t d = 0; d < f->rank; d++) dilated |= f->dims[d].dilation != 1;
    while (lines > 0) {
        const int64_t count = pop_field_smaller(lines, pop_field_run(f, &l, 1));
        pop_field_side s = start;
        for (int64_t done = 0, run; done < n; done += run) {
            run = pop_field_smaller(n - done, pop_field_run(f, &s, 0));
            pop_field_part part = {base, 0, 0, item, count, run, to + done * item, pitch};
            if (dilated) pop_field_dilated(f, &part, &l, &s);
            else pop_field_rectangle(f, &part, &l, &s);
            pop_field_advance(&s, f, run);
        }
        pop_field_advance(&l, f, count);
        lines -= count;
        to += count * pitch;
    }
}

/* Bytes to a position's result, and how many from there on lie `out_stride` of the last dimension apart. */
POP_INLINE int64_t pop_field_out(const pop_field *f, int64_t position, int64_t *run)
{
    int64_t offset = 0;
    *run = 0;
    for (int64_t d = f->rank - 1; d >= 0; d--) {
        const int64_t extent = f->dims[d].positions, at = position % extent;
        if (d == f->rank - 1) *run = extent - at;
        offset += at * f->dims[d].out_stride;
        position /= extent;
    }
    return offset;
}

/* 1 if no element of the field is an infinity: those that nothing meets are looked at as well. */
static int pop_field_finite(const pop_field *f, const pop_format *format, int64_t item, const char *base)
{
    int64_t at[10] = {0}, extents[10], d;
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
