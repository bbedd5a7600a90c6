/* Gradients of weights from windows of images (records/window.def).
 *
 * A window, the elements that a box of taps meets, is decoded to scratch once, zeros around it; all positions read it there.
 * The matrix of positions by taps, which has each element as often as there are positions, is never made: the kernel takes
 * rows, channels that are neighbours in the window, over lines of taps as its runs of the depth. Lines that meet padding alone
 * are left out. A cell of BF16 holds the numbers of two taps, `tap_step` elements apart, so that pairs of taps meet cells
 * whatever the position is; taps of the last dimension are even in number or one. Sums stay in scratch over all images.
 *
 * Kernels of tiles take the deltas for rows, whose cells lie along the depth, and the window for columns. Their steps are made so
 * short that a line's cells fill them. */
#ifndef POP_WINDOW_H
#define POP_WINDOW_H
#include "drivers/conv.h"
#include "kernels/dot/dot.h"

#define POP_RECORDS "records/window.def"
#include "records/structs.h"

enum { POP_WINDOW_TURNED = 16, POP_WINDOW_PAIR = 2 }; /* cells that are turned at once; bytes of a number of a cell of two */

typedef struct pop_window_walk {
    const pop_window_spec *p;
    const pop_window_item *item;
    const pop_window_box *box;
    const pop_tile *tile;
    pop_conv_side x, w;  /* with this item's channels */
    pop_conv_spec about; /* what staging asks a convolution */
    pop_conv_window window;
    int64_t low[POP_CONV_DIMS], extent[POP_CONV_DIMS], end[POP_CONV_DIMS], from[POP_CONV_DIMS];
    int64_t stride[POP_CONV_DIMS], w_stride[POP_CONV_DIMS]; /* bytes in the window, and of deltas where they are read */
    const char *deltas;
    int64_t cells; /* of a line of taps */
    pop_dot_block block;
} pop_window_walk;

/* n elements in line to numbers of the compute format: `to` holds them element by element, `padded` numbers each. */
static void pop_window_decode(const pop_conv_side *s, const char *from, int64_t step, int64_t n, char *to, int64_t pitch)
{
    const pop_conv_decode decode = POP_CALL(pop_conv_decode, s->decode);
    const pop_format *format = (const pop_format *)(uintptr_t)s->format;
    if (s->padded == s->inner && step == s->inner * s->item) {
        decode(format, from, to, NULL, n * s->inner);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        decode(format, from + i * step, to + i * pitch, NULL, s->inner);
        memset(to + i * pitch + pitch / s->padded * s->inner, 0, (size_t)(pitch / s->padded * (s->padded - s->inner)));
    }
}

/* A line of the window: elements [a, b) of `extent` are there, from `from` on. */
static void pop_window_line(const pop_window_walk *w, const char *from, int64_t a, int64_t b, int64_t extent, char *to)
{
    const pop_window_spec *p = w->p;
    const pop_conv_dim *last = &p->dims[p->rank - 1];
    const int64_t pitch = p->x.pitch, number = 4 / p->elements, single = w->box->count[p->rank - 1] == 1;
    char *line = p->elements == 2 ? w->tile->scratch + p->room_at : to;
    const int64_t element = number * p->x.padded, all = extent + (p->elements == 2 ? last->tap_step : 0);
    memset(line, 0, (size_t)(a * element));
    if (b > a && (p->x.in_line || p->elements == 2)) pop_window_decode(&w->x, from, last->x, b - a, line + a * element, element);
    else if (b > a) pop_conv_stage_lines(&w->window, from, last->x, b - a, line + a * element);
    memset(line + b * element, 0, (size_t)((all - b) * element));
    if (p->elements == 1) return;
    /* one tap has no neighbour: its cells end in the zeros behind the line */
    const char *odd = line + last->tap_step * element;
    if (single) odd = memset(line + all * element, 0, (size_t)(extent * element));
    POP_CALL(pop_dot_interleave, p->interleave)((const uint16_t *)(const void *)line, (const uint16_t *)(const void *)odd,
                                                (uint16_t *)(void *)to, extent * pitch / 4);
}

/* The window of the box; `image` is the element at coordinates 0. */
static void pop_window_take_x(pop_window_walk *w, const char *image)
{
    const pop_window_spec *p = w->p;
    const int64_t last = p->rank - 1;
    int64_t at[POP_CONV_DIMS];
    for (int64_t d = 0; d < p->rank; d++) {
        const pop_conv_dim *dim = &p->dims[d];
        w->low[d] = dim->first + w->box->first[d] * dim->tap_step;
        w->extent[d] = 1 + (w->box->count[d] - 1) * dim->tap_step + (dim->positions - 1) * dim->step;
    }
    w->cells = (w->box->count[last] + p->elements - 1) / p->elements;
    pop_conv_strides(p->rank, w->extent, p->x.pitch, w->stride);
    const int64_t low = w->low[last], extent = w->extent[last], left = p->dims[last].end - low;
    const int64_t a = pop_conv_least(extent, low < 0 ? -low : 0), b = left < a ? a : pop_conv_least(extent, left);
    char *to = w->tile->scratch + p->x.at;
    memcpy(at, w->low, sizeof at);
    do {
        const char *from = image + (low + a) * p->dims[last].x;
        int inside = b > a;
        for (int64_t d = 0; d < last; d++) {
            inside &= at[d] >= 0 && at[d] < p->dims[d].end;
            from += at[d] * p->dims[d].x;
        }
        if (inside) pop_window_line(w, from, a, b, extent, to); /* others are never read */
        to += extent * p->x.pitch;
    } while (pop_conv_next(at, w->low, w->extent, last));
}

/* The deltas of the box as lines of cells; `image` is the element of tap 0. */
static void pop_window_take_deltas(pop_window_walk *w, const char *image)
{
    const pop_window_spec *p = w->p;
    const int64_t last = p->rank - 1, taps = w->box->count[last];
    const int in_place = p->copied && p->elements == 1;
    int64_t at[POP_CONV_DIMS], extent[POP_CONV_DIMS];
    for (int64_t d = 0; d < p->rank; d++) {
        w->from[d] = p->dims[d].w, w->end[d] = p->dims[d].taps;
        extent[d] = d < last ? w->box->count[d] : w->cells;
        image += in_place ? w->box->first[d] * p->dims[d].w : 0;
    }
    w->deltas = image;
    memcpy(w->w_stride, w->from, sizeof w->from);
    if (in_place) return;
    char *to = w->tile->scratch + p->w.at, *room = w->tile->scratch + p->room_at;
    w->deltas = to;
    pop_conv_strides(p->rank, extent, p->tiles ? 4 : p->w.pitch, w->w_stride);
    if (p->tiles) w->block.a_row = extent[0] * w->w_stride[0] + 64; /* rows apart from each other's lines of the cache */
    char *square = room + 2 * POP_WINDOW_PAIR * p->w.padded;
    if (p->elements == 1) {
        pop_conv_window v = w->window;
        v.side = &w->w, v.low = w->box->first, v.extent = w->box->count, v.end = w->end, v.stride = w->from;
        pop_conv_stage(&v, image, to);
        return;
    }
    const int64_t item = 2 * p->w.padded;
    memcpy(at, w->box->first, sizeof at);
    do {
        const char *line = image + w->box->first[last] * p->dims[last].w;
        for (int64_t d = 0; d < last; d++) line += at[d] * p->dims[d].w;
        for (int64_t i = 0; i < taps; i += 2) {
            const char *even = line + i * p->dims[last].w, *odd = even + p->dims[last].w;
            char *cells = p->tiles ? square + i / 2 % POP_WINDOW_TURNED * p->w.pitch : to;
            if (p->pair) {
                if (i + 1 == taps) odd = memset(room, 0, (size_t)w->w.inner);
                POP_CALL(pop_dot_pair, p->pair)((const pop_format *)(uintptr_t)w->w.format, even, odd,
                                                (uint16_t *)(void *)cells, w->w.inner);
            } else {
                if (!p->copied || i + 1 == taps) {
                    pop_window_decode(&w->w, even, p->dims[last].w, pop_conv_least(2, taps - i), room, item);
                    if (i + 1 == taps) memset(room + item, 0, (size_t)item);
                    even = room, odd = room + item;
                }
                POP_CALL(pop_dot_interleave, p->interleave)((const uint16_t *)(const void *)even, (const uint16_t *)(const void *)odd,
                                                            (uint16_t *)(void *)cells, w->w.inner);
            }
            const int64_t turned = i / 2 % POP_WINDOW_TURNED + 1;
            if (!p->tiles) to += p->w.pitch;
            else if (turned == POP_WINDOW_TURNED || i + 2 >= taps) { /* zeros behind the last are the next line's, or the room's between rows */
                POP_CALL(pop_dot_transpose, p->transpose)(square, p->w.pitch, turned, w->w.inner, to, w->block.a_row);
                to += 4 * turned;
            }
        }
    } while (pop_conv_next(at, w->box->first, w->box->count, last));
}

/* Rows of sums over the runs, in pieces as even as can be, for all columns. */
static void pop_window_rows(pop_window_walk *w, int64_t rows, const char *x, const char *deltas, float *sums)
{
    const pop_window_spec *p = w->p;
    pop_dot_block *t = &w->block;
    const int64_t pieces = (rows + p->rows_at_once - 1) / p->rows_at_once;
    for (int64_t j = 0; j < w->item->cols; j += p->cols_at_once) {
        t->cols = pop_conv_least(p->cols_at_once, w->item->cols - j);
        t->b = deltas + 4 * j;
        for (int64_t i = 0; i < pieces; i++) {
            const int64_t first = rows * i / pieces;
            t->rows = rows * (i + 1) / pieces - first;
            t->a = x + first * t->a_row;
            t->c = sums + first * t->c_row + j;
            POP_CALL(pop_dot_multiply, p->multiply)(t);
        }
    }
}

/* The same of tiles: sums of all channels of deltas by all of x, whole lines of the deltas. */
static void pop_window_tiles(pop_window_walk *w, const char *x, const char *deltas, float *sums)
{
    const pop_window_spec *p = w->p;
    pop_dot_block *t = &w->block;
    for (int64_t i = 0; i < w->item->cols; i += p->rows_at_once)
        for (int64_t j = 0; j < w->item->rows; j += p->cols_at_once) {
            t->rows = pop_conv_least(p->rows_at_once, w->item->cols - i);
            t->cols = pop_conv_least(p->cols_at_once, w->item->rows - j);
            t->a = deltas + i * t->a_row, t->b = x + 4 * j, t->c = sums + i * t->c_row + j;
            POP_CALL(pop_dot_multiply, p->multiply)(t);
        }
}

/* Taps of a line that meet elements with a position of the last dimension, whole cells of them: [*low, *high). */
POP_INLINE void pop_window_trim(const pop_window_walk *w, int64_t position, int64_t *low, int64_t *high)
{
    const int64_t last = w->p->rank - 1, elements = w->p->elements;
    const pop_conv_dim *dim = &w->p->dims[last];
    const int64_t at = w->low[last] + position * dim->step, count = w->box->count[last];
    *low = at >= 0 ? 0 : (-at + dim->tap_step - 1) / dim->tap_step / elements * elements;
    *high = at >= dim->end ? 0 : pop_conv_least(count, (dim->end - 1 - at) / dim->tap_step + 1);
    *high = pop_conv_least(count, (*high + elements - 1) / elements * elements);
}

/* The lines of taps that meet elements with a position of the outer dimensions; returns how many. */
static int64_t pop_window_runs(const pop_window_walk *w, const int64_t *position, int64_t *a_at, int64_t *b_at)
{
    const pop_window_spec *p = w->p;
    const int64_t last = p->rank - 1;
    int64_t at[POP_CONV_DIMS], runs = 0;
    memcpy(at, w->box->first, sizeof at);
    do {
        int64_t a = 0, b = 0;
        int inside = 1;
        for (int64_t d = 0; d < last; d++) {
            const pop_conv_dim *dim = &p->dims[d];
            const int64_t x = dim->first + position[d] * dim->step + at[d] * dim->tap_step;
            inside &= x >= 0 && x < dim->end;
            a += (x - w->low[d]) * w->stride[d];
            b += (at[d] - w->box->first[d]) * w->w_stride[d];
        }
        if (inside) a_at[runs] = a, b_at[runs] = b, runs++;
    } while (pop_conv_next(at, w->box->first, w->box->count, last));
    return runs;
}

/* All sums of the box. */
static void pop_window_multiply(pop_window_walk *w)
{
    const pop_window_spec *p = w->p;
    const int64_t last = p->rank - 1, wide = p->dims[last].positions, channels = w->item->rows;
    int64_t *a_at = (int64_t *)(void *)(w->tile->scratch + p->tables_at), *b_at = a_at + p->lines;
    int64_t zero[POP_CONV_DIMS] = {0}, position[POP_CONV_DIMS] = {0}, extent[POP_CONV_DIMS];
    float *sums = (float *)(void *)(w->tile->scratch + p->sums_at);
    pop_dot_block *t = &w->block;
    for (int64_t d = 0; d < p->rank; d++) extent[d] = p->dims[d].positions;
    const int64_t high_sums = p->tiles ? w->item->cols : channels; /* rows of a position's sums */
    if (!p->tiles) t->a_row = 4, t->a_cell = p->elements * p->dims[last].tap_step * p->x.pitch, t->b_cell = w->w_stride[last];
    else t->a_cell = 4, t->b_cell = p->elements * p->dims[last].tap_step * p->x.pitch, t->cells = w->cells;
    t->c_row = p->sums_row, t->accumulate = 1;
    do {
        const int64_t runs = pop_window_runs(w, position, a_at, b_at);
        for (int64_t i = 1; i < runs; i++) a_at[i] -= a_at[0], b_at[i] -= b_at[0];
        t->more = runs - 1, t->a_at = (p->tiles ? b_at : a_at) + 1, t->b_at = (p->tiles ? a_at : b_at) + 1;
        for (int64_t i = 0; runs && p->tiles && i < wide; i++)
            pop_window_tiles(w, w->tile->scratch + p->x.at + a_at[0] + i * p->dims[last].step * p->x.pitch, w->deltas + b_at[0],
                             sums + i * high_sums * p->sums_row);
        for (int64_t i = 0; runs && !p->tiles && i < (p->merged ? 1 : wide); i++) {
            int64_t low = 0, high = w->box->count[last];
            if (!p->merged) pop_window_trim(w, i, &low, &high);
            if (low >= high) continue;
            t->cells = (high - low + p->elements - 1) / p->elements;
            const char *x = w->tile->scratch + p->x.at + a_at[0];
            x += (i * p->dims[last].step + low * p->dims[last].tap_step) * p->x.pitch;
            pop_window_rows(w, p->merged ? wide * channels : channels, x,
                            w->deltas + b_at[0] + low / p->elements * w->w_stride[last],
                            sums + i * channels * p->sums_row);
        }
        sums += wide * high_sums * p->sums_row;
    } while (pop_conv_next(position, zero, extent, last));
}

static void pop_window_finish(const pop_window_walk *w)
{
    const pop_window_spec *p = w->p;
    int64_t zero[POP_CONV_DIMS] = {0}, position[POP_CONV_DIMS] = {0}, extent[POP_CONV_DIMS];
    const float *sums = (const float *)(const void *)(w->tile->scratch + p->sums_at);
    pop_epilogue e = {.format = (const pop_format *)(uintptr_t)p->out_format, .overflow = p->overflow,
                      .activation = p->activation, .alpha = pop_multiplier_of(&p->alpha, w->tile), .beta = pop_multiplier_of(&p->beta, w->tile),
                      .out_row = p->tiles ? p->out_column : p->out_row, .out_col = p->tiles ? p->out_row : p->out_column};
    const int64_t rows = p->tiles ? w->item->cols : w->item->rows, cols = p->tiles ? w->item->rows : w->item->cols;
    for (int64_t d = 0; d < p->rank; d++) extent[d] = p->dims[d].positions;
    do {
        e.out = w->tile->operands[2] + w->item->out;
        for (int64_t d = 0; d < p->rank; d++) e.out += position[d] * p->dims[d].out;
        POP_CALL(pop_epilogue_kernel, p->epilogue)(&e, sums, p->sums_row, rows, cols);
        sums += rows * p->sums_row;
    } while (pop_conv_next(position, zero, extent, p->rank));
}

/* One item. */
static void pop_window_vertex(const void *given, const pop_tile *tile)
{
    const pop_window_item *item = (const pop_window_item *)given;
    const pop_window_spec *p = (const pop_window_spec *)(uintptr_t)item->spec;
    int64_t rows = p->tiles ? item->cols : item->rows;
    pop_window_walk w;
    memset(&w, 0, sizeof w);
    w.p = p, w.item = item, w.tile = tile;
    w.x = p->x, w.x.inner = item->rows;
    w.w = p->w, w.w.inner = item->cols;
    w.about.together = 1, w.about.transpose = p->transpose;
    w.window.p = &w.about, w.window.side = &w.x, w.window.rank = p->rank, w.window.groups = w.window.blocks = 1;
    w.window.room = tile->scratch + p->room_at;
    for (int64_t d = 0; d < p->rank; d++) rows *= p->dims[d].positions;
    memset(tile->scratch + p->sums_at, 0, (size_t)(4 * rows * p->sums_row));
    if (p->begin) POP_CALL(pop_dot_begin_steps, p->begin)(p->step);
    for (int64_t i = 0; i < p->images * p->box_count; i++) {
        const int64_t image = i / p->box_count;
        w.box = (const pop_window_box *)(uintptr_t)p->boxes + i % p->box_count;
        pop_window_take_x(&w, tile->operands[0] + item->x + image * p->x_image);
        pop_window_take_deltas(&w, tile->operands[1] + item->w + image * p->w_image);
        pop_window_multiply(&w);
    }
    if (p->end) POP_CALL(pop_dot_hook, p->end)();
    pop_window_finish(&w);
}
#endif
