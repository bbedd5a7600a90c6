/* Products of a field that is read where it lies, tap by tap: nothing is packed, and taps that meet padding are left out.
 *
 * The kernel takes rows that lie evenly: neighbours along the last dimension, for all taps whose elements lie in line at
 * once. The first and last few positions of a line, which miss taps of it, are taken along the dimension before. Elements of
 * another format are decoded first, once for all taps: those that some lines of positions meet. */
#ifndef POP_TAPS_H
#define POP_TAPS_H
#include "drivers/ahead.h"

typedef void (*pop_taps_kernel)(const pop_dot_block *block);

/* What a block of rows is multiplied with. Its sums lie `c_row` floats from a position's to the next's; or they are all of the
 * depth's, in a tile of a call's rows each, of which `finish` makes results of positions from number `place` of the block on. */
typedef struct pop_taps {
    const pop_field *f;
    const char *base; /* of coordinates 0 */
    const char *b;    /* the panel at depth `first` */
    pop_dot_block *t;
    pop_taps_kernel multiply;
    int64_t first, end; /* of the depth, */
    int64_t depth, tap[POP_FIELD_DIMS]; /* whose first line of taps of the last dimension begins there, with these taps of those before */
    int64_t item, pairs, rows_at_once; /* bytes of an element; whether two are a cell */
    float *c;
    int64_t c_row;
    void (*finish)(void *walk, const float *tile, int64_t place, int64_t rows); /* or NULL */
    void *walk;
    char *out; /* or NULL: results of the block's positions, `out_row` bytes apart, `out_bytes` of each */
    int64_t out_row, out_bytes;
    const pop_field *out_field; /* or NULL: where they lie otherwise, the block's from this position of it on */
    int64_t position;
    int narrow; /* whether the kernel may round sums to them */
    pop_ahead *ahead; /* or NULL, where nothing is prefetched */
    int64_t whole, whole_end; /* positions of the last dimension that meet all of its taps */
} pop_taps;

/* Positions `apart` from one to the next, and runs of the depth that rows [first, end) of them meet: one call of the kernel. */
enum { POP_TAPS_RUNS = 16, POP_TAPS_LONG = 8 };
typedef struct pop_taps_piece {
    int64_t rows, place, apart;
    float *c;
    int rounded; /* whether the kernel did */
    int64_t first, end, cells, runs, calls;
    const char *a, *b; /* of the first run */
    int64_t a_at[POP_TAPS_RUNS], b_at[POP_TAPS_RUNS];
} pop_taps_piece;

/* A field whose elements are decoded, and room for some. */
typedef struct pop_taps_source {
    const pop_field *f;
    const char *base; /* of coordinates 0 */
    void (*decode)(const pop_format *format, const void *from, void *to, void *low, int64_t n);
    const pop_format *format;
    int64_t item; /* bytes of a code */
    char *room;
    int64_t bytes;
    int64_t low; /* bytes to the low parts in the room, or 0 */
} pop_taps_source;

/* Decode what positions meet, from `position` on: whole lines or a part of one, at most n and as many as there is room for.
 * `g` becomes the field as it lies in the room. Returns how many. */
static int64_t pop_taps_decode(pop_taps *w, const pop_taps_source *s, int64_t position, int64_t n, pop_field *g)
{
    const pop_field *f = s->f;
    const int64_t last = f->rank - 1, width = f->dims[last].positions;
    int64_t at[POP_FIELD_DIMS], low[POP_FIELD_DIMS], high[POP_FIELD_DIMS], place[POP_FIELD_DIMS], lines = 1, some, size, d, left = position;
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
            pop_field_met(&f->dims[d], at[d], d == last ? some : d == last - 1 ? lines : 1, d == outer ? tap : 0,
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

/* Name what a call prefetches: a share of what later positions meet, and, where sums are its last, the results of its own rows
 * if it takes long enough, else of those after them. */
static void pop_taps_ahead(const pop_taps *w, const pop_taps_piece *p, int last)
{
    pop_dot_block *t = w->t;
    const int64_t steps = p->runs * ((p->cells + 15) / 16);
    pop_ahead_share(w->ahead, t, steps);
    if (!last || !w->out) return;
    const int64_t place = p->place + (steps < POP_TAPS_LONG ? p->rows * p->apart : 0);
    int64_t at = place * w->out_row, row = p->apart * w->out_row, run;
    if (w->out_field) {
        at = pop_field_out(w->out_field, w->position + place, &run);
        row = pop_field_out(w->out_field, w->position + place + p->apart, &run) - at;
    }
    t->c_next = w->out + at, t->c_next_rows = p->rows, t->c_next_row = row;
    t->c_next_lines = (w->out_bytes + 63) / 64, t->c_next_each = (p->rows + steps - 1) / steps;
}

/* Multiply the runs at hand; the last ones may be all. */
static void pop_taps_flush(const pop_taps *w, pop_taps_piece *p, int last)
{
    pop_dot_block *t = w->t;
    const int64_t row = t->c_row, whole = p->end - p->first == p->rows;
    p->calls++;
    p->rounded = last && whole && !t->accumulate && p->runs && w->narrow;
    if (!t->accumulate && (!p->runs || !whole)) { /* some rows' sums begin later, or nothing is met */
        t->c = p->c, t->rows = p->rows, t->cells = 0;
        w->multiply(t);
    }
    if (!p->runs) return;
    t->accumulate |= !whole;
    t->a = p->a, t->b = p->b, t->cells = p->cells;
    t->rows = p->end - p->first, t->c = p->c + p->first * row;
    t->more = p->runs - 1, t->a_at = p->a_at + 1, t->b_at = p->b_at + 1;
    if (p->rounded)
        t->narrow = 1, t->c = (float *)(void *)(w->out + p->place * w->out_row), t->c_row = p->apart * w->out_row / 2;
    if (w->ahead) pop_taps_ahead(w, p, last);
    w->multiply(t);
    t->a_next_rows = t->c_next_rows = 0;
    t->narrow = t->more = 0;
    t->c_row = row;
    t->accumulate = 1;
}

/* Add a run to those at hand: `n` numbers of the depth, from `depth` on, for rows whose first has them at `from`. */
POP_INLINE void pop_taps_run(const pop_taps *w, pop_taps_piece *p, int64_t first, int64_t end, const char *from, int64_t depth,
                             int64_t n)
{
    const int64_t before = depth < w->first ? w->first - depth : 0, after = pop_field_smaller(depth + n, w->end);
    const int64_t cells = (after - depth - before) >> w->pairs;
    const char *a = from + before * w->item, *b = w->b + ((depth + before - w->first) >> w->pairs) * w->t->b_cell;
    if (after <= depth + before) return;
    if (p->runs && (p->runs == POP_TAPS_RUNS || first != p->first || end != p->end || cells != p->cells)) {
        pop_taps_flush(w, p, 0);
        p->runs = 0;
    }
    if (!p->runs) p->first = first, p->end = end, p->cells = cells, p->a = a, p->b = b;
    p->a_at[p->runs] = a - p->a, p->b_at[p->runs] = b - p->b;
    p->runs++;
}

/* Sums of the rows of a piece, positions from `at` on along a dimension, which meet taps [low, high) of the last one. */
static void pop_taps_sums(const pop_taps *w, pop_taps_piece *p, const int64_t *at, int64_t along, int64_t low, int64_t high)
{
    const pop_field *f = w->f;
    const int64_t last = f->rank - 1, inner = f->dims[last].taps * f->channels;
    const pop_field_dim *x = &f->dims[last];
    const char *line = w->base + (x->first + at[last] * x->step + low * x->tap_step) * x->stride;
    const int64_t in_line = x->tap_step * x->stride == f->channels * w->item, runs = in_line ? 1 : high - low;
    const int64_t n = (in_line ? high - low : 1) * f->channels;
    int64_t tap[POP_FIELD_DIMS], depth = w->depth + low * f->channels, d;
    memcpy(tap, w->tap, sizeof tap);
    p->first = p->end = p->runs = p->calls = 0;
    for (;;) {
        int64_t first = 0, end = p->rows;
        const char *from = line;
        for (d = 0; d < last; d++) {
            const pop_field_dim *dim = &f->dims[d];
            const int64_t place = dim->first + at[d] * dim->step + tap[d] * dim->tap_step;
            from += place * dim->stride;
            if (d == along) pop_field_limit(place, dim->step, dim->end, &first, &end);
            else if (place < 0 || place >= dim->end) end = first;
        }
        for (int64_t i = 0; n > 0 && first < end && i < runs; i++)
            pop_taps_run(w, p, first, end, from + first * w->t->a_row + i * x->tap_step * x->stride, depth + i * n, n);
        for (d = last - 1; d >= 0 && ++tap[d] == f->dims[d].taps; d--) tap[d] = 0;
        depth += inner;
        if (d < 0 || depth >= w->end) break;
    }
    pop_taps_flush(w, p, 1);
}

/* Sums of `n` positions from `at` on along a dimension, in pieces as even as can be; number `place` of the block is the first. */
static void pop_taps_line(const pop_taps *w, int64_t *at, int64_t along, int64_t n, int64_t place, int64_t apart)
{
    const pop_field_dim *x = &w->f->dims[w->f->rank - 1];
    const int64_t pieces = (n + w->rows_at_once - 1) / w->rows_at_once, each = n / pieces, first = at[along];
    const int64_t position = at[w->f->rank - 1];
    int64_t low = 0, high = x->taps, left = n - each * pieces;
    pop_taps_piece p;
    pop_field_limit(x->first + position * x->step, x->tap_step, x->end, &low, &high);
    p.apart = apart, p.calls = p.rows = 0;
    w->t->a_row = w->f->dims[along].step * w->f->dims[along].stride;
    w->t->c_row = w->finish ? w->c_row : apart * w->c_row;
    for (int64_t done = 0; done < n; done += p.rows) {
        const int again = p.calls == 1 && along == w->f->rank - 1; /* the runs of the piece before, further on */
        const int64_t before = p.rows;
        p.rows = each + (left-- > 0), p.place = place + done * apart;
        p.c = w->finish ? w->c : w->c + p.place * w->c_row;
        at[along] = first + done;
        w->t->accumulate = w->first > 0;
        if (again) {
            p.a += before * w->t->a_row, p.end = p.runs ? p.rows : 0, p.calls = 0;
            pop_taps_flush(w, &p, 1);
        } else {
            pop_taps_sums(w, &p, at, along, low, high);
        }
        if (!w->finish || p.rounded) continue;
        const int64_t at_once = apart == 1 ? p.rows : 1; /* neighbours */
        for (int64_t r = 0; r < p.rows; r += at_once) w->finish(w->walk, w->c + r * w->c_row, p.place + r * apart, at_once);
    }
    at[along] = first;
}

/* Positions [from, to) of the last dimension in `lines` of the one before. */
static void pop_taps_rectangle(const pop_taps *w, int64_t *at, int64_t lines, int64_t from, int64_t to, int64_t place)
{
    const int64_t last = w->f->rank - 1, width = w->f->dims[last].positions;
    const int64_t line = last > 0 ? at[last - 1] : 0;
    for (int64_t x = from; x < to;) {
        const int64_t inside = x >= w->whole && x < w->whole_end;
        const int64_t n = inside ? pop_field_smaller(to, w->whole_end) - x : 1;
        at[last] = x;
        if (!inside && lines > 1) pop_taps_line(w, at, last - 1, lines, place + x - from, width);
        for (int64_t i = 0; (inside || lines == 1) && i < lines; i++) {
            if (last > 0) at[last - 1] = line + i;
            pop_taps_line(w, at, last, n, place + x - from + i * width, 1);
        }
        if (last > 0) at[last - 1] = line;
        x += n;
    }
}

/* Kernels of tiles take 16 rows that lie evenly at once, two such units a call, and every row with all of its taps. So what some lines
 * of positions meet is copied to a room with the zeros around it. There a line's positions lie evenly, and often all of an
 * image's do: those between the lines are multiplied too, and left out. */
enum { POP_TAPS_UNIT = 16, POP_TAPS_EVEN_RUNS = 128 };
typedef struct pop_taps_even {
    int64_t lines, width;        /* of positions, of each image in the room */
    int64_t first;               /* bytes to the first run of the first position */
    int64_t image, line, row;    /* bytes from an image to the next, from a line to the next, from a position to the next */
    int64_t pitch;               /* rows from a line to the next where an image is one stretch, else 0: each line is one */
    int64_t units, all;          /* of a stretch, of all */
    int64_t met[POP_FIELD_DIMS], stride[POP_FIELD_DIMS]; /* coordinates in the room of each dimension, and bytes from one to the next */
    int64_t run, runs;           /* numbers of the depth that lie in line, and bytes from the first such run to each */
    int64_t at[POP_TAPS_EVEN_RUNS];
} pop_taps_even;

/* Numbers of a line of the last dimension, from coordinate `low` on, n of them: zeros where there is none. */
static void pop_taps_even_line(const pop_taps_source *s, const char *line, int64_t low, int64_t n, char *to, int64_t size)
{
    const pop_field *f = s->f;
    const pop_field_dim *x = &f->dims[f->rank - 1];
    const int64_t first = line == NULL || low >= x->end ? n : low < 0 ? pop_field_smaller(-low, n) : 0;
    const int64_t end = line == NULL ? n : pop_field_smaller(n, x->end - low);
    const int parts = s->low ? 2 : 1;
    for (int part = 0; part < parts; part++) {
        char *place = to + part * s->low;
        memset(place, 0, (size_t)(first * size));
        if (end < n && first < n) memset(place + end * size, 0, (size_t)((n - end) * size));
    }
    if (first >= end) return;
    const int64_t in_line = x->stride == f->channels * s->item;
    const char *from = line + (low + first) * x->stride;
    to += first * size;
    for (int64_t i = 0; i < (in_line ? 1 : end - first); i++, from += x->stride, to += size)
        s->decode(s->format, from, to, s->low ? to + s->low : NULL, in_line ? (end - first) * f->channels : f->channels);
}

/* From the lowest coordinate that a position's taps have to the highest, and from that of tap 0 to the lowest. */
POP_INLINE int64_t pop_taps_reach(const pop_field_dim *dim)
{
    return (dim->taps - 1) * (dim->tap_step < 0 ? -dim->tap_step : dim->tap_step);
}
POP_INLINE int64_t pop_taps_before(const pop_field_dim *dim) { return dim->tap_step < 0 ? pop_taps_reach(dim) : 0; }

/* The runs of the depth, the same for all positions. */
static void pop_taps_even_runs(pop_taps_even *w, const pop_field *f)
{
    const int64_t last = f->rank - 1;
    const pop_field_dim *x = &f->dims[last];
    const int in_line = x->tap_step == 1 || x->taps == 1;
    int64_t tap[POP_FIELD_DIMS] = {0}, d;
    w->run = f->channels * (in_line ? x->taps : 1), w->runs = 0;
    do {
        int64_t offset = 0;
        for (d = 0; d <= last; d++) offset += (pop_taps_before(&f->dims[d]) + tap[d] * f->dims[d].tap_step) * w->stride[d];
        w->at[w->runs++] = offset;
        for (d = in_line ? last - 1 : last; d >= 0 && ++tap[d] == f->dims[d].taps; d--) tap[d] = 0;
    } while (d >= 0);
    w->first = w->at[0];
    for (int64_t i = 0; i < w->runs; i++) w->at[i] -= w->first;
}

/* Copy what the positions of an image in the room meet, from `position` on. */
static void pop_taps_even_fill(const pop_taps_even *w, const pop_taps_source *s, int64_t position, char *to)
{
    const pop_field *f = s->f;
    const int64_t last = f->rank - 1;
    int64_t place[POP_FIELD_DIMS] = {0}, here[POP_FIELD_DIMS] = {0}, d;
    for (d = last; d >= 0; d--) {
        here[d] = f->dims[d].first + position % f->dims[d].positions * f->dims[d].step - pop_taps_before(&f->dims[d]);
        position /= f->dims[d].positions;
    }
    do {
        const char *line = s->base;
        for (d = 0; d < last && line; d++) {
            const int64_t c = here[d] + place[d];
            line = c < 0 || c >= f->dims[d].end ? NULL : line + c * f->dims[d].stride;
        }
        pop_taps_even_line(s, line, here[last], w->met[last], to, w->stride[last]);
        to += w->met[last] * w->stride[last];
        for (d = last - 1; d >= 0 && ++place[d] == w->met[d]; d--) place[d] = 0;
    } while (d >= 0);
}

/* Copy what positions meet from `position` on: whole images, whole lines, or a part of one, at most n and as many as there is room
 * for. Returns how many. */
static int64_t pop_taps_even_open(pop_taps_even *w, const pop_taps_source *s, int64_t item, int64_t position, int64_t n)
{
    const pop_field *f = s->f;
    const int64_t last = f->rank - 1, width = f->dims[last].positions, high = last > 0 ? f->dims[last - 1].positions : 1;
    const int64_t at = position % width, line = position / width % high;
    int64_t lines = 1, some = pop_field_smaller(n, width - at), images = 1;
    if (at == 0 && last > 0 && n >= width) lines = pop_field_smaller(n / width, high - line);
    for (;;) {
        w->image = item * f->channels;
        for (int64_t d = last; d >= 0; d--) {
            const int64_t count = d == last ? some : d == last - 1 ? lines : 1;
            w->met[d] = 1 + (count - 1) * f->dims[d].step + pop_taps_reach(&f->dims[d]);
            w->stride[d] = w->image;
            w->image *= w->met[d];
        }
        if (w->image <= s->bytes || lines * some == 1) break;
        if (lines > 1) lines = (lines + 1) / 2;
        else some = (some + 1) / 2;
    }
    if (some == width && lines == high) images = pop_field_smaller(n / (width * high), s->bytes / w->image);
    if (images < 1) images = 1;
    w->lines = lines, w->width = some;
    w->line = last > 0 ? f->dims[last - 1].step * w->stride[last - 1] : 0, w->row = f->dims[last].step * w->stride[last];
    w->pitch = w->line % w->row == 0 ? w->line / w->row : 0;
    const int64_t by_lines = lines * ((some + POP_TAPS_UNIT - 1) / POP_TAPS_UNIT);
    const int64_t at_once = ((lines - 1) * w->pitch + some + POP_TAPS_UNIT - 1) / POP_TAPS_UNIT;
    if (at_once > by_lines) w->pitch = 0;
    w->units = w->pitch ? at_once : by_lines / lines;
    w->all = images * (w->pitch ? 1 : lines) * w->units;
    pop_taps_even_runs(w, f);
    for (int64_t i = 0; i < images; i++) pop_taps_even_fill(w, s, position + i * width * high, s->room + i * w->image);
    return images * lines * some;
}

/* n numbers of a row of a tile's, and some behind them: most often fewer than a call takes. There is room for a row more. */
POP_INLINE void pop_taps_copy_few(float *to, const float *from, int64_t n)
{
    if (n > 8) memcpy(to, from, (size_t)n * sizeof *to);
    else memcpy(to, from, 8 * sizeof *to);
}

/* Bytes to a unit's first row. */
static int64_t pop_taps_even_at(const pop_taps_even *e, int64_t unit)
{
    const int64_t stretch = unit / e->units, part = unit % e->units, lines = e->pitch ? 1 : e->lines;
    return e->first + stretch / lines * e->image + stretch % lines * e->line + part * POP_TAPS_UNIT * e->row;
}

/* Make results of the positions among a unit's rows. */
static void pop_taps_even_finish(const pop_taps *w, const pop_taps_even *e, int64_t unit, const float *sums, int64_t place)
{
    const int64_t stretch = unit / e->units, first = unit % e->units * POP_TAPS_UNIT, pitch = e->pitch ? e->pitch : e->width;
    const int64_t lines = e->pitch ? e->lines : 1;
    for (int64_t r = 0, run; r < POP_TAPS_UNIT; r += run) {
        const int64_t line = (first + r) / pitch, at = (first + r) % pitch;
        if (line >= lines) return;
        run = pop_field_smaller(POP_TAPS_UNIT - r, pitch - at);
        if (at < e->width)
            w->finish(w->walk, sums + r * w->c_row, place + (stretch * lines + line) * e->width + at,
                      pop_field_smaller(run, e->width - at));
    }
}

/* Sums of all positions in the room with a panel; number `place` of the block is the first. Each call's become results after the next
 * call: what a matrix unit stores is not there to be loaded at once. */
static void pop_taps_even_multiply(const pop_taps *w, const pop_taps_even *e, const char *room, int64_t other, int64_t place)
{
    pop_dot_block *t = w->t;
    const int64_t calls = (e->all + 1) / 2, cols = t->cols;
    int64_t b_at[POP_TAPS_EVEN_RUNS];
    for (int64_t i = 1; i < e->runs; i++) b_at[i - 1] = (i * e->run >> w->pairs) * t->b_cell;
    t->a_row = e->row, t->c_row = w->c_row, t->cells = e->run >> w->pairs;
    t->more = e->runs - 1, t->a_at = e->at + 1, t->b_at = b_at, t->b = w->b, t->accumulate = 0;
    for (int64_t i = 0; i <= calls; i++) {
        if (i < calls) {
            const int64_t at = pop_taps_even_at(e, 2 * i), two = 2 * i + 1 < e->all;
            t->a = room + at, t->a_half = two ? pop_taps_even_at(e, 2 * i + 1) - at : 0;
            t->rows = two ? 2 * POP_TAPS_UNIT : POP_TAPS_UNIT, t->c = w->c + i % 2 * other;
            t->cols = (cols + POP_TAPS_UNIT - 1) / POP_TAPS_UNIT * POP_TAPS_UNIT; /* whole tiles: a panel has them */
            w->multiply(t);
            t->cols = cols;
        }
        for (int64_t u = 2 * (i - 1); u >= 0 && u < pop_field_smaller(2 * i, e->all); u++)
            pop_taps_even_finish(w, e, u, w->c + (i - 1) % 2 * other + u % 2 * POP_TAPS_UNIT * w->c_row, place);
    }
    t->more = t->a_half = 0;
}

/* Sums of `n` positions from `position` on, which is number `place` of the block. */
static void pop_taps_multiply(pop_taps *w, int64_t position, int64_t n, int64_t place)
{
    const pop_field *f = w->f;
    const int64_t last = f->rank - 1, width = f->dims[last].positions, inner = f->dims[last].taps * f->channels;
    const pop_field_dim *x = &f->dims[last];
    w->whole = 0, w->whole_end = width;
    w->depth = w->first / inner * inner;
    for (int64_t d = last - 1, line = w->first / inner; d >= 0; d--) {
        w->tap[d] = line % f->dims[d].taps;
        line /= f->dims[d].taps;
    }
    for (int64_t tap = 0; tap < x->taps; tap += x->taps > 1 ? x->taps - 1 : 1)
        pop_field_limit(x->first + tap * x->tap_step, x->step, x->end, &w->whole, &w->whole_end);
    for (int64_t done = 0; done < n;) {
        int64_t at[POP_FIELD_DIMS] = {0}, left = position + done, lines = 1, from, to;
        for (int64_t d = last; d >= 0; d--) {
            at[d] = left % f->dims[d].positions;
            left /= f->dims[d].positions;
        }
        from = at[last];
        to = pop_field_smaller(width, from + n - done);
        if (from == 0 && last > 0 && n - done >= width)
            lines = pop_field_smaller((n - done) / width, f->dims[last - 1].positions - at[last - 1]);
        pop_taps_rectangle(w, at, lines, from, to, place + done);
        done += lines * (to - from);
    }
}
#endif
