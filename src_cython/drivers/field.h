/* Elements of a field's matrix (records/gemm.def): what a convolution multiplies, gathered where it lies. Nothing of the
 * matrix is kept: the frame asks for a block of rows, or of columns, when it packs it. */
#ifndef POP_FIELD_H
#define POP_FIELD_H
#include "drivers/field_side.h"
#include "kernels/prefetch.h"
#include <string.h>

/* Where lines go that are decoded to FP32 on the way: panels of so many columns each, so many bytes apart. */
typedef struct pop_field_panels {
    void (*decode)(const pop_format *format, const void *from, int64_t from_line, int64_t lines, void *to, int64_t to_line, int64_t n);
    const pop_format *format;
    int64_t cols, bytes;
} pop_field_panels;

/* Lines of a part of a field's matrix: columns that are one step apart, over one dimension's coordinates or over those of two,
 * rows of `width` columns each. In it columns [low, high) of rows [first_row, end_row) have elements. */
typedef struct pop_field_part {
    const char *from; /* of the first element */
    int64_t line_step, row_step, step; /* bytes from a line to the next, from a row of its columns to the next, along a row */
    int64_t item, lines, n;
    char *to;
    int64_t pitch, to_step; /* bytes from a line to the next, along a line, where they go */
    int64_t width, origin; /* the first column is number `origin` of its row */
    int64_t low, high, first_row, end_row;
    const pop_field_panels *panels; /* or NULL: codes stay what they are */
    int64_t column;                 /* of the panels, the part's first */
} pop_field_part;

typedef uint8_t __attribute__((may_alias)) pop_field_1;
typedef uint16_t __attribute__((aligned(1), may_alias)) pop_field_2;
typedef uint32_t __attribute__((aligned(1), may_alias)) pop_field_4;

/* n elements, every other one of a line; n elements of each of two lines in turn. */
#define POP_FIELD_PAIRS(bytes) \
    static void pop_field_halve_##bytes(const pop_field_##bytes *restrict from, pop_field_##bytes *restrict to, int64_t n) \
    { \
        for (int64_t i = 0; i < n; i++) to[i] = from[2 * i]; \
    } \
    static void pop_field_pair_##bytes(const pop_field_##bytes *restrict x, const pop_field_##bytes *restrict y, \
                                       pop_field_##bytes *restrict to, int64_t n) \
    { \
        for (int64_t i = 0; i < n; i++) to[2 * i] = x[i], to[2 * i + 1] = y[i]; \
    }
POP_FIELD_PAIRS(1)
POP_FIELD_PAIRS(2)
POP_FIELD_PAIRS(4)
#define POP_FIELD_DO(what, item, ...) \
    ((item) == 4 ? pop_field_##what##_4(__VA_ARGS__) : (item) == 2 ? pop_field_##what##_2(__VA_ARGS__) \
                                                                  : pop_field_##what##_1(__VA_ARGS__))

enum { POP_FIELD_AHEAD = 8 }; /* lines: they lie too far apart for the hardware to see them coming */

/* Runs are often shorter than a call takes. */
POP_INLINE void pop_field_move(char *to, const char *from, int64_t bytes)
{
    char x[4][16];
    if (bytes >= 8 && bytes < 16) {
        memcpy(x[0], from, 8);
        memcpy(x[1], from + bytes - 8, 8);
        memcpy(to, x[0], 8);
        memcpy(to + bytes - 8, x[1], 8);
        return;
    }
    if (bytes >= 4 && bytes < 8) {
        memcpy(x[0], from, 4);
        memcpy(x[1], from + bytes - 4, 4);
        memcpy(to, x[0], 4);
        memcpy(to + bytes - 4, x[1], 4);
        return;
    }
    if (bytes < 16 || bytes > 64) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    memcpy(x[0], from, 16);
    memcpy(x[3], from + bytes - 16, 16);
    if (bytes > 32) {
        memcpy(x[1], from + 16, 16);
        memcpy(x[2], from + bytes - 32, 16);
        memcpy(to + 16, x[1], 16);
        memcpy(to + bytes - 32, x[2], 16);
    }
    memcpy(to, x[0], 16);
    memcpy(to + bytes - 16, x[3], 16);
}

/* `bytes` of each line; of lines that overlap or follow one another the hardware sees the next coming. */
static void pop_field_move_lines(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t bytes, int64_t lines)
{
    const int apart = from_step > 64 || from_step < -64;
    for (int64_t j = 0; j < lines; j++, to += to_step, from += from_step) {
        const uintptr_t next = pop_beyond(from, POP_FIELD_AHEAD * from_step);
        if (apart) pop_prefetch_lines(next, bytes < 512 ? bytes : 512);
        if (bytes < 16 || bytes > 64) {
            pop_field_move(to, from, bytes);
            continue;
        }
        char x[4][16];
        memcpy(x[0], from, 16);
        if (bytes <= 32) {
            memcpy(x[3], from + bytes - 16, 16);
            memcpy(to, x[0], 16);
            memcpy(to + bytes - 16, x[3], 16);
            continue;
        }
        memcpy(x[1], from + 16, 16);
        memcpy(x[2], from + bytes - 32, 16);
        memcpy(x[3], from + bytes - 16, 16);
        memcpy(to, x[0], 16);
        memcpy(to + 16, x[1], 16);
        memcpy(to + bytes - 32, x[2], 16);
        memcpy(to + bytes - 16, x[3], 16);
    }
}

/* Zeros of 4 bytes each; fewer than a call takes, most often. */
static __attribute__((noinline)) void pop_field_blank(char *to, int64_t bytes)
{
    if (bytes >= 16 || !bytes) {
        memset(to, 0, (size_t)bytes);
    } else if (bytes >= 8) {
        memset(to, 0, 8);
        memset(to + bytes - 8, 0, 8);
    } else {
        memset(to, 0, 4);
        memset(to + bytes - 4, 0, 4);
    }
}

/* Columns [first, end) of a line. */
POP_INLINE void pop_field_clear(const pop_field_part *p, char *line, int64_t first, int64_t end)
{
    if (p->to_step == p->item && end - first > 1) memset(line + first * p->item, 0, (size_t)((end - first) * p->item));
    else
        for (int64_t x = first; x < end; x++) memset(line + x * p->to_step, 0, (size_t)p->item);
}

/* n elements to where they go in a line, from column x on. */
POP_INLINE void pop_field_take(const pop_field_part *p, char *line, int64_t x, const char *from, int64_t n)
{
    char *to = line + x * p->to_step;
    if (p->to_step != p->item) pop_scatter(p->item, from, p->step, to, p->to_step, n);
    else if (p->step == p->item) pop_field_move(to, from, n * p->item);
    else if (p->step == 2 * p->item) POP_FIELD_DO(halve, p->item, (const void *)from, (void *)to, n);
    else pop_scatter(p->item, from, p->step, to, p->item, n);
}

/* Prefetch the elements that a line at `from` has of a row. */
POP_INLINE void pop_field_prefetch(const pop_field_part *p, const char *from, int64_t n)
{
    pop_prefetch_lines(pop_beyond(from, 0), n * p->step < 512 ? n * p->step : 512);
}
POP_INLINE void pop_field_ahead(const pop_field_part *p, const char *from, int64_t n) /* a line to come */
{
    pop_field_prefetch(p, from + POP_FIELD_AHEAD * p->line_step, n);
}

/* Columns [x, end) of lines [first, last) in panels, one panel after another: elements from `from` on in the first line, or zeros
 * where that is NULL. */
static void pop_field_in_panels(const pop_field_part *p, int64_t first, int64_t last, int64_t x, int64_t end, const char *from)
{
    const pop_field_panels *panels = p->panels;
    char *line = p->to + first * p->pitch;
    for (int64_t j = first; j < last && from; j++) pop_field_prefetch(p, from + (j - first) * p->line_step, end - x);
    for (int64_t count; x < end; x += count) {
        const int64_t panel = (p->column + x) / panels->cols, at = p->column + x - panel * panels->cols;
        char *to = line + panel * panels->bytes + 4 * at;
        count = pop_field_smaller(end - x, panels->cols - at);
        if (from) panels->decode(panels->format, from, p->line_step, last - first, to, p->pitch, count);
        for (int64_t j = first; j < last && !from; j++, to += p->pitch) pop_field_blank(to, 4 * count);
        if (from) from += count * p->step;
    }
}

POP_INLINE void pop_field_zero(const pop_field_part *p, int64_t first, int64_t end)
{
    if (p->panels) pop_field_in_panels(p, first, end, 0, p->n, NULL);
    for (int64_t j = first; j < end && !p->panels; j++) pop_field_clear(p, p->to + j * p->pitch, 0, p->n);
}

/* Lines [first, end) of a part in panels: a row of all of them, then the next. */
static void pop_field_rows_in_panels(const pop_field_part *p, int64_t first, int64_t end)
{
    const char *source = p->from + first * p->line_step - p->origin * p->step;
    for (int64_t r = 0, x = 0, c = p->origin, next; x < p->n; r++, x = next, c = 0, source += p->row_step) {
        next = pop_field_smaller(x + p->width - c, p->n);
        const int64_t stop = pop_field_smaller(c + next - x, p->high), low = c < p->low ? p->low : c;
        const int none = r < p->first_row || r >= p->end_row || low >= stop;
        const int64_t from = none ? next : x + low - c, to = none ? next : x + stop - c;
        pop_field_in_panels(p, first, end, x, from, NULL);
        if (!none) pop_field_in_panels(p, first, end, from, to, source + low * p->step);
        pop_field_in_panels(p, first, end, to, next, NULL);
    }
}

/* Lines [first, end) of a part, row after row of each. */
static void pop_field_rows(const pop_field_part *p, int64_t first, int64_t end)
{
    for (int64_t j = first; j < end; j++) {
        char *line = p->to + j * p->pitch;
        const char *source = p->from + j * p->line_step - p->origin * p->step;
        for (int64_t r = 0, x = 0, c = p->origin, next; x < p->n; r++, x = next, c = 0, source += p->row_step) {
            next = pop_field_smaller(x + p->width - c, p->n);
            const int64_t stop = pop_field_smaller(c + next - x, p->high), low = c < p->low ? p->low : c;
            if (r < p->first_row || r >= p->end_row || low >= stop) {
                pop_field_clear(p, line, x, next);
                continue;
            }
            if (low > c) pop_field_clear(p, line, x, x + low - c);
            pop_field_ahead(p, source + low * p->step, stop - low);
            pop_field_take(p, line, x + low - c, source + low * p->step, stop - low);
            if (x + stop - c < next) pop_field_clear(p, line, x + stop - c, next);
        }
    }
}

/* Lines [first, end) of a part. Between rows that lie in line there is what belongs to neighbours: zeros replace it. */
POP_INLINE void pop_field_copy(const pop_field_part *p, int64_t first, int64_t end)
{
    if (p->panels) {
        pop_field_rows_in_panels(p, first, end);
        return;
    }
    int64_t from = p->first_row * p->width + p->low - p->origin;
    int64_t to = (p->end_row - 1) * p->width + p->high - p->origin;
    from = from < 0 ? 0 : from;
    to = to > p->n ? p->n : to;
    if (p->low >= p->high || p->first_row >= p->end_row || from >= to) {
        pop_field_zero(p, first, end);
        return;
    }
    if (p->row_step != p->width * p->step) {
        pop_field_rows(p, first, end);
        return;
    }
    int64_t gap = p->first_row, gap_end = p->first_row; /* rows after which there is one among these columns */
    if (p->low > 0 || p->high < p->width) {
        const int64_t before = (p->origin - p->low) / p->width, last = (p->origin + p->n - p->high + p->width - 1) / p->width;
        gap = before > gap ? before : gap;
        gap_end = pop_field_smaller(p->end_row - 1, last);
    }
    if (p->to_step == p->item && p->step == p->item && to - from == p->n && gap >= gap_end) {
        pop_field_move_lines(p->to + first * p->pitch, p->pitch, p->from + first * p->line_step, p->line_step,
                             p->n * p->item, end - first);
        return;
    }
    for (int64_t j = first; j < end; j++) {
        char *line = p->to + j * p->pitch;
        const char *source = p->from + j * p->line_step + from * p->step;
        if (from) pop_field_clear(p, line, 0, from);
        pop_field_ahead(p, source, to - from);
        pop_field_take(p, line, from, source, to - from);
        if (to < p->n) pop_field_clear(p, line, to, p->n);
        for (int64_t r = gap; r < gap_end; r++) {
            const int64_t x = r * p->width + p->high - p->origin, next = (r + 1) * p->width + p->low - p->origin;
            pop_field_clear(p, line, x < 0 ? 0 : x, next > p->n ? p->n : next);
        }
    }
}

/* One element after another: for inputs whose elements are apart. */
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

POP_INLINE void pop_field_clip(int64_t *from, int64_t *to, int64_t low, int64_t high)
{
    *from = *from < low ? low : *from;
    *to = *to > high ? high : *to;
}

/* Lines [first, end) of a part whose columns' dimension is also the lines': each meets columns of its own, most of them all. */
POP_INLINE void pop_field_shifted(const pop_field *f, pop_field_part *p, const pop_field_side *l, const pop_field_side *s,
                                  int64_t along, int64_t first, int64_t end)
{
    const pop_field_dim *dim = &f->dims[along];
    const int64_t line_step = s->taps ? dim->step : dim->tap_step, step = s->taps ? dim->tap_step : dim->step;
    const int64_t start = dim->first + l->at[along] * line_step, extent = pop_field_extent(f, s->taps, along);
    int64_t whole = first, whole_end = end, low = 0, high = extent;
    pop_field_limit(start + s->at[along] * step, line_step, dim->end, &whole, &whole_end);
    pop_field_limit(start + (s->at[along] + (s->in + p->n - 1) / s->inner) * step, line_step, dim->end, &whole, &whole_end);
    if (!s->taps) pop_field_clip(&low, &high, dim->first_valid, dim->end_valid);
    if (low > 0 || high < extent) whole = whole_end = end;
    p->low = 0;
    p->high = p->width;
    pop_field_copy(p, whole, whole_end);
    for (int64_t j = first; j < end; j++) {
        int64_t from = low, to = high;
        if (j == whole) j = whole_end;
        if (j >= end) break;
        pop_field_limit(start + j * line_step, step, dim->end, &from, &to);
        p->low = from * s->inner;
        p->high = to * s->inner;
        pop_field_copy(p, j, j + 1);
    }
}

/* A part whose lines differ in the coordinate of a dimension, `across` (negative: they differ where no coordinate does), and
 * whose columns are those of dimension `along` (negative: no coordinate), and of `outer` around it (negative: one row). */
static void pop_field_rectangle(const pop_field *f, pop_field_part *p, const pop_field_side *l, int64_t across,
                                const pop_field_side *s, int64_t along, int64_t outer)
{
    const int64_t *positions = s->taps ? l->at : s->at, *taps = s->taps ? s->at : l->at;
    int64_t first = 0, end = p->lines;
    int none = 0;
    p->line_step = l->stride;
    p->step = s->stride;
    p->from += l->in * l->stride + s->in * s->stride;
    p->width = p->high = p->n;
    p->row_step = p->n * p->step;
    p->origin = p->low = p->first_row = 0;
    p->end_row = 1;
    for (int64_t d = 0; d < f->rank; d++) {
        const pop_field_dim *dim = &f->dims[d];
        const int64_t at = dim->first + positions[d] * dim->step + taps[d] * dim->tap_step;
        const int64_t line_step = s->taps ? dim->step : dim->tap_step, step = s->taps ? dim->tap_step : dim->step;
        p->from += at * dim->stride;
        if (d == across) p->line_step = line_step * dim->stride;
        if (d == along || d == outer) {
            int64_t low = d == along ? 0 : s->at[d], high = pop_field_extent(f, s->taps, d);
            pop_field_limit(at - s->at[d] * step, step, dim->end, &low, &high);
            if (!s->taps) pop_field_clip(&low, &high, dim->first_valid, dim->end_valid);
            if (d == along) {
                if (s->inner == 1) p->step = step * dim->stride;
                p->width = pop_field_extent(f, s->taps, d) * s->inner;
                p->origin = s->at[d] * s->inner + s->in;
                p->low = low * s->inner;
                p->high = high * s->inner;
                if (outer < 0) p->row_step = p->width * p->step;
            } else {
                p->row_step = step * dim->stride;
                p->first_row = low - s->at[d];
                p->end_row = high - s->at[d];
            }
        } else if (d == across) {
            pop_field_limit(at, line_step, dim->end, &first, &end);
        } else {
            none |= at < 0 || at >= dim->end;
        }
        if (s->taps && d == across) pop_field_clip(&first, &end, dim->first_valid - l->at[d], dim->end_valid - l->at[d]);
        else if (s->taps || (d != along && d != outer)) none |= positions[d] < dim->first_valid || positions[d] >= dim->end_valid;
    }
    if (none || first >= end) {
        pop_field_zero(p, 0, p->lines);
        return;
    }
    pop_field_zero(p, 0, first);
    pop_field_zero(p, end, p->lines);
    if (across < 0 || across != along || p->lines == 1) pop_field_copy(p, first, end);
    else pop_field_shifted(f, p, l, s, along, first, end);
}

/* How many of n columns from here on are one part, and their dimensions: rows apart where lines differ in neither of these,
 * which is `across`. */
POP_INLINE int64_t pop_field_run(const pop_field *f, const pop_field_side *s, int64_t across, int64_t n, int64_t *along,
                                 int64_t *outer)
{
    const int64_t d = s->rank - 1, one = s->inner - s->in;
    *along = *outer = -1;
    if (d < 0 || n <= one) return pop_field_smaller(n, one);
    const pop_field_dim *dim = &f->dims[d];
    const int64_t step = (s->taps ? dim->tap_step : dim->step) * dim->stride, apart = s->inner == 1 ? step : s->stride;
    if (step != s->inner * apart) return one;
    const int64_t width = pop_field_extent(f, s->taps, d) * s->inner, before = s->at[d] * s->inner + s->in;
    *along = d;
    if (n <= width - before) return n;
    for (int64_t e = d - 1; e >= 0; e--) {
        if (pop_field_extent(f, s->taps, e) == 1) continue;
        dim = &f->dims[e];
        if ((across == d || across == e) && (s->taps ? dim->tap_step : dim->step) * dim->stride != width * apart) break;
        *outer = e;
        return pop_field_smaller(n, (pop_field_extent(f, s->taps, e) - s->at[e]) * width - before);
    }
    return width - before;
}

/* Lines that differ in one coordinate: all columns of them, which go `to_step` bytes apart. */
static void pop_field_columns(const pop_field *f, const char *base, int64_t item, const pop_field_side *l, int64_t across,
                              int64_t lines, const pop_field_side *start, int64_t n, char *to, int64_t pitch,
                              int64_t to_step, const pop_field_panels *panels)
{
    pop_field_side s = *start;
    for (int64_t done = 0, run, along, outer; done < n; done += run) {
        run = pop_field_run(f, &s, across, n - done, &along, &outer);
        pop_field_part part = {.from = base, .item = item, .lines = lines, .n = run, .to = panels ? to : to + done * to_step,
                               .pitch = pitch, .to_step = to_step, .panels = panels, .column = done};
        if (outer >= 0 && (across == along || across == outer)) { /* each meets columns of its own */
            pop_field_side one = *l;
            for (int64_t j = 0; j < lines; j++, one.at[across]++) {
                pop_field_part single = part;
                single.lines = 1;
                single.to += j * pitch;
                pop_field_rectangle(f, &single, &one, -1, &s, along, outer);
            }
        } else {
            pop_field_rectangle(f, &part, l, across, &s, along, outer);
        }
        pop_field_advance(&s, f, run);
    }
}

/* n elements of each of 2, 4 or 8 lines in turn; the lines follow each other, and what is there is lost. */
static void pop_field_weave(int64_t item, int64_t few, int64_t n, char *lines, char *spare, char *to)
{
    char *from = lines, *made = spare;
    for (int64_t half = few / 2; half; half /= 2, n *= 2) {
        if (half == 1) made = to;
        for (int64_t c = 0; c < half; c++) {
            const char *x = from + c * n * item, *y = x + half * n * item;
            char *both = made + 2 * c * n * item;
            POP_FIELD_DO(pair, item, (const void *)x, (const void *)y, (void *)both, n);
        }
        char *next = from;
        from = made;
        made = next;
    }
}

enum { POP_FIELD_WOVEN = 4096 }; /* bytes of lines that are gathered before they are woven */

/* Lines of a few channels, 2, 4 or 8, from `one` on, which is at the first. */
static void pop_field_woven(const pop_field *f, const char *base, int64_t item, const pop_field_side *l, int64_t across,
                            int64_t lines, pop_field_side *one, int64_t n, char *to, int64_t pitch)
{
    char room[POP_FIELD_WOVEN], spare[POP_FIELD_WOVEN];
    const int64_t few = f->channels;
    for (int64_t done = 0, some, rows; done < n; done += some) {
        pop_field_side side = *l;
        some = pop_field_smaller(n - done, POP_FIELD_WOVEN / item);
        for (int64_t j = 0; j < lines; j += rows) {
            rows = pop_field_smaller(lines - j, POP_FIELD_WOVEN / (some * item));
            for (int64_t c = 0; c < few; c++)
                pop_field_columns(f, base + c * f->channel, item, &side, across, rows, one, some / few,
                                  room + some / few * c * item, some * item, item, NULL);
            for (int64_t r = 0; r < rows; r++)
                pop_field_weave(item, few, some / few, room + r * some * item, spare, to + (j + r) * pitch + done * item);
            *(across < 0 ? &side.in : &side.at[across]) += rows;
        }
        pop_field_advance(one, f, some / few);
    }
}

/* The same, side by side. Few channels that lie apart are taken one after another, where their elements are longer runs. */
static void pop_field_lines(const pop_field *f, const char *base, int64_t item, const pop_field_side *l, int64_t across,
                            int64_t lines, const pop_field_side *start, int64_t n, char *to, int64_t pitch,
                            const pop_field_panels *panels)
{
    const int64_t few = start->inner, d = start->rank - 1;
    const int woven = !(few & (few - 1));
    if (!start->taps || few == 1 || few > 8 || start->stride == item || start->in || n % few || d < 0 ||
        f->dims[d].taps < (woven ? 2 : 2 * few)) {
        pop_field_columns(f, base, item, l, across, lines, start, n, to, pitch, item, panels);
        return;
    }
    pop_field_side one = *start;
    one.inner = 1;
    one.stride = 0;
    if (woven) {
        pop_field_woven(f, base, item, l, across, lines, &one, n, to, pitch);
        return;
    }
    for (int64_t c = 0; c < few; c++)
        pop_field_columns(f, base + c * start->stride, item, l, across, lines, &one, n / few, to + c * item, pitch, few * item,
                          NULL);
}

/* Numbers of a side after which the coordinate of its first dimension changes, where that lies alone and the last one is
 * short: lines are then better taken along the first; else 0. */
static int64_t pop_field_turn(const pop_field *f, const pop_field_side *l, int64_t *across)
{
    int64_t d = 0, size = l->inner;
    while (d < l->rank && pop_field_extent(f, l->taps, d) == 1) d++;
    if (d + 1 >= l->rank || l->inner > 1 || pop_field_extent(f, l->taps, l->rank - 1) >= 16) return 0;
    const pop_field_dim *dim = &f->dims[d];
    if (l->taps ? dim->positions != 1 : dim->taps != 1) return 0;
    for (int64_t e = d + 1; e < l->rank; e++) size *= pop_field_extent(f, l->taps, e);
    *across = d;
    return size;
}

/* Whether positions lie in runs that are worth decoding where they lie: none is gathered first. */
static int pop_field_in_runs(const pop_field *f, int64_t item)
{
    const pop_field_dim *last = &f->dims[f->rank - 1];
    for (int64_t d = 0; d < f->rank; d++)
        if (f->dims[d].dilation != 1) return 0;
    return last->positions >= 32 && last->step * last->stride == item;
}

/* Copies `lines` lines from `line` on, of each `n` numbers from `first` on, to lines `pitch` bytes apart; zeros where there is
 * no element. Lines are positions, or numbers of the depth; these may go to panels, where `pop_field_in_runs` says so. */
static void pop_field_block(const pop_field *f, const char *base, int64_t item, int lines_are_positions, int64_t line,
                            int64_t lines, int64_t first, int64_t n, char *to, int64_t pitch,
                            const pop_field_panels *panels)
{
    pop_field_side l, s;
    int dilated = 0;
    pop_field_open(&l, f, !lines_are_positions, line);
    pop_field_open(&s, f, lines_are_positions, first);
    for (int64_t d = 0; d < f->rank; d++) dilated |= f->dims[d].dilation != 1;
    if (dilated) {
        pop_field_part part = {.from = base, .item = item, .lines = lines, .n = n, .to = to, .pitch = pitch, .to_step = item};
        pop_field_dilated(f, &part, &l, &s);
        return;
    }
    int64_t across, turn = pop_field_turn(f, &l, &across);
    int64_t head = turn ? (turn - line % turn) % turn : lines;
    const int64_t turns = turn && lines > head ? (lines - head) / turn : 0;
    if (turns < 2) head = lines;
    for (int64_t done = 0, count; done < lines; done += count, to += count * pitch) {
        if (done == head) { /* every `turn`-th line */
            for (int64_t t = 0; t < turn; t++) {
                pop_field_lines(f, base, item, &l, across, turns, &s, n, to + t * pitch, turn * pitch, panels);
                const int64_t at = l.at[across];
                pop_field_advance(&l, f, 1);
                if (t + 1 < turn) l.at[across] = at;
            }
            l.at[across] += turns - 1;
            count = turn * turns;
            continue;
        }
        const int64_t end = done < head ? head : lines;
        count = pop_field_smaller(end - done, l.inner > 1 || !l.rank ? l.inner - l.in
                                              : pop_field_extent(f, l.taps, l.rank - 1) - l.at[l.rank - 1]);
        pop_field_lines(f, base, item, &l, l.inner > 1 ? -1 : l.rank - 1, count, &s, n, to, pitch, panels);
        pop_field_advance(&l, f, count);
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
    int64_t at[POP_FIELD_DIMS] = {0}, extents[POP_FIELD_DIMS], d;
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
