/* The driver of convolutions with few channels in a group (records/conv.def, kernels/conv/conv.h).
 *
 * A box of output positions is done at once: the elements of x that it meets are decoded in scratch, zeros around them,
 * channels as the kernel reads them, or are read where they lie. Kernels are packed once for all boxes. A weight
 * gradient exchanges positions and taps: sums are few and stay, and boxes of the images and of the deltas pass by. */
#ifndef POP_DRIVERS_CONV_H
#define POP_DRIVERS_CONV_H
#include "drivers/multiplier.h"
#include "kernels/epilogue.h"
#include "kernels/prefetch.h"
#include "program/program.h"
#include <stdint.h>
#include <string.h>

#define POP_RECORDS "records/conv.def"
#include "records/structs.h"

enum { POP_CONV_DEPTH_IN_LINE = 1, POP_CONV_LANES_IN_LINE = 2 }; /* of w_lines */
enum { POP_CONV_AT_ONCE = 14, POP_CONV_SEVERAL_AT_ONCE = 12, POP_CONV_DOTS_AT_ONCE = 8, POP_CONV_WIDE = 16, POP_CONV_LINE = 64, POP_CONV_DIMS = 9 };

typedef void (*pop_conv_decode)(const pop_format *format, const void *from, void *to, void *low, int64_t n);
typedef void (*pop_conv_turn)(const char *from, int64_t line, int64_t lines, int64_t cells, char *to, int64_t cell);
typedef void (*pop_conv_kernel)(const pop_conv_block *block);
typedef void (*pop_conv_reorder)(const int32_t *order, int64_t n, const float *from, float *to);

#define POP_CALL(type, address) ((type)(uintptr_t)(address))

typedef struct pop_conv_walk {
    const pop_conv_spec *p;
    const pop_conv_item *item;
    const pop_conv_box *box;
    const pop_tile *tile;
    int64_t groups; /* that there are in the item's blocks */
    const char *weights;
    /* x as the kernel reads it for this box: coordinate `low` of each dimension is at `x`. */
    const char *x;
    int64_t low[POP_CONV_DIMS], extent[POP_CONV_DIMS], stride[POP_CONV_DIMS];
    pop_conv_block block;
} pop_conv_walk;

/* A staged operand: which elements, and what there is of them. */
typedef struct pop_conv_window {
    const pop_conv_spec *p;
    const pop_conv_side *side;
    int64_t rank, groups, blocks;
    const int64_t *low, *extent, *end, *stride;
    char *room;
} pop_conv_window;

POP_INLINE int64_t pop_conv_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The next coordinates; 0 after the last. */
POP_INLINE int pop_conv_next(int64_t *at, const int64_t *first, const int64_t *count, int64_t rank)
{
    for (int64_t d = rank - 1; d >= 0; d--) {
        if (++at[d] < first[d] + count[d]) return 1;
        at[d] = first[d];
    }
    return 0;
}

/* n elements whose numbers lie one after another. */
static void pop_conv_stage_in_line(const pop_conv_window *v, const char *from, int64_t step, int64_t n, char *to)
{
    const pop_conv_side *s = v->side;
    const int64_t block = s->padded * v->p->together, found = v->groups * s->inner, all = v->blocks * block;
    const pop_conv_decode decode = POP_CALL(pop_conv_decode, s->decode);
    const pop_format *format = (const pop_format *)(uintptr_t)s->format;
    float *codes = (float *)(void *)v->room;
    if (!s->order && all == found && step == found * s->item && s->pitch == s->cell * found) { /* a line of them is one */
        decode(format, from, to, NULL, n * found * s->joined);
        return;
    }
    if (s->order) memset(codes + found, 0, (size_t)(4 * (all - found) + 128)); /* blocks are read in whole vectors */
    for (int64_t i = 0; i < n; i++, from += step, to += s->pitch) {
        pop_prefetch_lines(pop_beyond(from, 4 * step), found * s->item);
        if (!s->order) {
            decode(format, from, to, NULL, found * s->joined);
            if (all > found) memset(to + s->cell * found, 0, (size_t)(s->cell * (all - found)));
            continue;
        }
        decode(format, from, codes, NULL, found * s->joined);
        for (int64_t b = 0; b < v->blocks; b++)
            POP_CALL(pop_conv_reorder, v->p->reorder)((const int32_t *)(uintptr_t)s->order, block, codes + b * block,
                                                      (float *)(void *)to + b * block);
    }
}

/* n numbers, `step` bytes apart, decoded. */
POP_INLINE void pop_conv_line(const pop_conv_side *s, const char *from, int64_t step, int64_t n, char *to, char *codes)
{
    if (step != s->item) {
        pop_scatter(s->item, from, step, codes, s->item, n);
        from = codes;
    }
    POP_CALL(pop_conv_decode, s->decode)((const pop_format *)(uintptr_t)s->format, from, to, NULL, n * s->joined);
}

/* n elements whose numbers lie anyhow: lines along the elements, 16 at a time, transposed. A transposed line is 16 numbers:
 * beyond the last it ends in the pitch's padding. */
static void pop_conv_stage_lines(const pop_conv_window *v, const char *from, int64_t step, int64_t n, char *to)
{
    const pop_conv_side *s = v->side;
    const int64_t together = v->p->together, block = s->padded * together, all = v->blocks * block;
    char *codes = v->room + 4 * POP_CONV_WIDE * POP_CONV_LINE;
    for (int64_t i = 0; i < n; i += POP_CONV_LINE) {
        const int64_t part = pop_conv_least(n - i, POP_CONV_LINE);
        for (int64_t k = 0; k < all; k += POP_CONV_WIDE) {
            const int64_t lines = pop_conv_least(all - k, POP_CONV_WIDE);
            for (int64_t line = 0; line < lines; line++) {
                const int64_t number = k + line, group = number / block * together + number % together;
                const int64_t inner = number % block / together;
                char *row = v->room + line * 4 * POP_CONV_LINE;
                if (group < v->groups && inner < s->inner)
                    pop_conv_line(s, from + i * step + group * s->group + inner * s->inner_step, step, part, row, codes);
                else memset(row, 0, (size_t)(4 * part));
            }
            POP_CALL(pop_conv_turn, v->p->transpose)(v->room, 4 * POP_CONV_LINE, lines, part, to + i * s->pitch + 4 * k,
                                                     s->pitch);
        }
    }
}

/* A window of an operand in scratch; `from` is the element at coordinates 0. */
static void pop_conv_stage(const pop_conv_window *v, const char *from, char *to)
{
    const pop_conv_side *s = v->side;
    const int64_t last = v->rank - 1, low = v->low[last], extent = v->extent[last], pitch = s->pitch;
    const int64_t a = pop_conv_least(extent, low < 0 ? -low : 0);
    int64_t b = pop_conv_least(extent, v->end[last] - low), at[POP_CONV_DIMS];
    if (b < a) b = a;
    memcpy(at, v->low, (size_t)v->rank * sizeof *at);
    do {
        int inside = b > a;
        const char *line = from + (low + a) * v->stride[last];
        for (int64_t d = 0; d < last; d++) {
            inside &= at[d] >= 0 && at[d] < v->end[d];
            line += at[d] * v->stride[d];
        }
        if (!inside) {
            memset(to, 0, (size_t)(extent * pitch));
        } else {
            memset(to, 0, (size_t)(a * pitch));
            if (s->in_line) pop_conv_stage_in_line(v, line, v->stride[last], b - a, to + a * pitch);
            else pop_conv_stage_lines(v, line, v->stride[last], b - a, to + a * pitch);
            memset(to + b * pitch, 0, (size_t)((extent - b) * pitch));
        }
        to += extent * pitch;
    } while (pop_conv_next(at, v->low, v->extent, last));
}

/* FP32 numbers that are BF16 values to words of two, of n numbers each: theirs, and those of the element `apart` bytes on. */
static void pop_conv_join(char *element, int64_t apart, int64_t n)
{
    uint32_t *restrict words = (uint32_t *)(void *)element;
    const uint32_t *restrict others = (const uint32_t *)(const void *)(element + apart);
    for (int64_t i = 0; i < n; i++) words[i] = words[i] >> 16 | (others[i] & 0xffff0000u);
}

/* The elements of a window in scratch, every `every`-th of a line, with those `step` further on. */
static void pop_conv_join_lines(const int64_t *extent, int64_t rank, int64_t pitch, int64_t every, int64_t step, char *at)
{
    int64_t lines = 1;
    for (int64_t d = 0; d + 1 < rank; d++) lines *= extent[d];
    for (int64_t line = 0; line < lines; line++, at += extent[rank - 1] * pitch)
        for (int64_t i = 0; i + step < extent[rank - 1]; i += every) pop_conv_join(at + i * pitch, step * pitch, pitch / 4);
}

/* Bytes from an element to the next in each dimension of a window in scratch. */
POP_INLINE void pop_conv_strides(int64_t rank, const int64_t *extent, int64_t pitch, int64_t *stride)
{
    for (int64_t d = rank - 1; d >= 0; d--) {
        stride[d] = pitch;
        pitch *= extent[d];
    }
}

/* Make x ready for the box: `image` is its first element at coordinates 0. */
static void pop_conv_take_x(pop_conv_walk *w, const char *image)
{
    const pop_conv_spec *p = w->p;
    const pop_conv_box *box = w->box;
    int64_t end[POP_CONV_DIMS], strides[POP_CONV_DIMS];
    for (int64_t d = 0; d < p->rank; d++) {
        const pop_conv_dim *dim = &p->dims[d];
        const int64_t first = p->over_taps ? 0 : box->first[d], positions = p->over_taps ? dim->positions : box->count[d];
        const int64_t tap = p->over_taps ? box->first[d] : 0, taps = p->over_taps ? box->count[d] : dim->taps;
        const int64_t reach = (positions - 1) * dim->step, tap_reach = (taps - 1) * dim->tap_step;
        w->low[d] = dim->first + first * dim->step + tap * dim->tap_step + pop_conv_least(reach, 0) + pop_conv_least(tap_reach, 0);
        w->extent[d] = 1 + (reach < 0 ? -reach : reach) + (tap_reach < 0 ? -tap_reach : tap_reach);
        end[d] = dim->end;
        strides[d] = dim->x;
        if (box->in_place) w->low[d] = 0, w->stride[d] = dim->x;
    }
    w->block.x_block = p->x.cell * p->x.padded * p->together;
    if (box->in_place) {
        w->x = image;
        w->block.x_block = p->together * p->x.group;
        return;
    }
    pop_conv_strides(p->rank, w->extent, p->x.pitch, w->stride);
    w->x = w->tile->scratch + p->x.at;
    const pop_conv_window v = {p, &p->x, p->rank, w->groups, w->item->blocks, w->low, w->extent, end, strides,
                               w->tile->scratch + p->room_at};
    pop_conv_stage(&v, image, w->tile->scratch + p->x.at);
    if (p->over_taps && p->pairs)
        pop_conv_join_lines(w->extent, p->rank, p->x.pitch, 1, p->dims[p->rank - 1].tap_step, w->tile->scratch + p->x.at);
}

#include "drivers/conv_pack.h"

#include "drivers/conv_emit.h"

/* Where positions from number `number` of the box on read x, and where their results are. */
POP_INLINE void pop_conv_places(const pop_conv_walk *w, int64_t *at, int64_t n, int64_t *x, int64_t *out)
{
    const pop_conv_spec *p = w->p;
    const int64_t last = p->rank - 1, none[1] = {0}, *first = p->rank ? w->box->first : none;
    const int64_t step = p->rank ? p->dims[last].step * w->stride[last] : 0, out_step = p->rank ? p->dims[last].out : 0;
    for (int64_t i = 0, run; i < n; i += run) {
        int64_t from = 0, to = 0;
        for (int64_t d = 0; d < p->rank; d++) {
            const pop_conv_dim *dim = &p->dims[d];
            from += (dim->first + at[d] * dim->step - w->low[d]) * w->stride[d];
            to += at[d] * dim->out;
        }
        run = p->rank ? pop_conv_least(n - i, first[last] + w->box->count[last] - at[last]) : 1;
        for (int64_t k = 0; k < run; k++) {
            x[i + k] = from + k * step;
            out[i + k] = to + k * out_step;
        }
        if (p->rank) at[last] += run - 1;
        pop_conv_next(at, w->box->first, w->box->count, p->rank);
    }
}

/* The kernel over n positions, so many at once as equal as may be; `across`: of all blocks before the next ones. Read where
 * they lie, neighbouring blocks are neighbours in memory; in scratch, a block's elements stay in the first-level cache. */
static void pop_conv_multiply(pop_conv_walk *w, int across, int64_t n, const int64_t *x, const int64_t *to, char *sums,
                              const char *weights, int64_t w_vector, int64_t sums_vector)
{
    pop_conv_block *b = &w->block;
    const int64_t vectors = w->p->vectors, blocks = w->item->blocks;
    const int64_t some = vectors > 1 ? POP_CONV_SEVERAL_AT_ONCE : POP_CONV_AT_ONCE;
    const int64_t at_once = w->p->quads ? n : w->p->dots ? POP_CONV_DOTS_AT_ONCE : some, parts = (n + at_once - 1) / at_once;
    b->blocks = across ? blocks : 1;
    b->vectors = w->p->quads || w->p->dots ? 1 : vectors;
    b->w_vector = w_vector, b->sums_vector = sums_vector;
    for (int64_t k = 0; k < blocks; k += b->blocks)
        for (int64_t part = 0; part < parts; part++) {
            const int64_t first = n * part / parts;
            b->positions = n * (part + 1) / parts - first;
            b->at = x + first, b->to = to + first;
            if (w->p->look_ahead && w->p->direct && first + 2 * b->positions <= n) { /* if on one line, the next are alike */
                b->x_ahead = x[first + b->positions] - x[first];
                b->sums_ahead = to[first + b->positions] - to[first];
            }
            b->x = w->x + k * b->x_block;
            for (int64_t v = 0; v < vectors; v += b->vectors) {
                b->w = weights + k * b->w_block + v * w_vector;
                b->sums = sums + k * b->sums_block + v * sums_vector;
                POP_CALL(pop_conv_kernel, w->p->convolve)(b);
            }
        }
}

/* Whether a position of the box may meet an element of a dimension by a tap, and not padding alone. */
POP_INLINE int pop_conv_meets(const pop_conv_dim *dim, int64_t first, int64_t count, int64_t tap)
{
    const int64_t from = dim->first + first * dim->step + tap * dim->tap_step, reach = (count - 1) * dim->step;
    return from + (reach > 0 ? reach : 0) >= 0 && from + pop_conv_least(reach, 0) < dim->end;
}

/* The taps as runs of steps: the channels of one, or of all along the last dimension where those lie one after another. Those of the
 * dimensions before by which no position meets an element are left out. */
static void pop_conv_runs(pop_conv_walk *w, int64_t *x_at, int64_t *w_at)
{
    const pop_conv_spec *p = w->p;
    int64_t zero[POP_CONV_DIMS] = {0}, at[POP_CONV_DIMS] = {0}, taps[POP_CONV_DIMS];
    pop_conv_block *b = &w->block;
    b->steps = p->x.inner;
    b->x_step = w->box->in_place ? p->x.inner_step : 4 * p->together;
    b->w_step = 64;
    if (p->dots) {
        b->steps = p->x.inner * p->x.cell / 64;
        b->x_step = 64;
        b->w_step = 64 * p->channels;
    }
    for (int64_t d = 0; d < p->rank; d++) taps[d] = p->dims[d].taps;
    const int64_t last = p->rank - 1;
    if (last >= 0 && p->dims[last].tap_step * w->stride[last] == b->steps * b->x_step) b->steps *= taps[last], taps[last] = 1;
    int64_t all = !w->box->empty;
    for (int64_t d = 0; d < p->rank; d++) all *= taps[d];
    b->runs = 0;
    for (int64_t n = 0; n < all; n++) {
        int64_t x = 0, met = 1;
        for (int64_t d = 0; d < p->rank; d++) {
            x += at[d] * p->dims[d].tap_step * w->stride[d];
            met &= d == last || pop_conv_meets(&p->dims[d], w->box->first[d], w->box->count[d], at[d]);
        }
        if (met) x_at[b->runs] = x, w_at[b->runs++] = n * b->w_step * b->steps;
        pop_conv_next(at, zero, taps, p->rank);
    }
}

#include "drivers/conv_slide.h"

/* One box of output positions of an image. */
static void pop_conv_positions(pop_conv_walk *w, int64_t image)
{
    const pop_conv_spec *p = w->p;
    pop_conv_block *b = &w->block;
    int64_t *x = (int64_t *)(void *)(w->tile->scratch + p->tables_at), *to = x + p->capacity, *row = to + p->capacity;
    int64_t *x_at = row + p->capacity, *w_at = x_at + p->taps, at[POP_CONV_DIMS], left = 1;
    char *out = w->tile->operands[2] + w->item->out + image * p->out_image, *sums = w->tile->scratch + p->sums_at;
    const char *weights = w->tile->scratch + p->w.at;
    const int64_t number = p->dots ? p->x.cell * p->channels : 64; /* bytes of its weights */
    const int64_t depth = number * p->taps * p->x.inner, lanes = w->item->blocks * p->vectors;
    if (!w->box->empty && p->taps) pop_conv_take_x(w, w->tile->operands[0] + w->item->x + image * p->x_image);
    if (p->slide) {
        pop_conv_slide_box(w, out);
        return;
    }
    pop_conv_runs(w, x_at, w_at);
    b->x_at = x_at, b->w_at = w_at;
    b->ahead = p->look_ahead && w->box->in_place;
    b->x_ahead = b->sums_ahead = 0;
    b->w_block = p->vectors * depth;
    b->sums_block = p->direct ? p->together * p->out_group : 64 * p->vectors;
    memcpy(at, w->box->first, sizeof at);
    for (int64_t d = 0; d < p->rank; d++) left *= w->box->count[d];
    for (int64_t i = 0; i < p->capacity; i++) row[i] = i * p->sums_pitch;
    for (int64_t n; left > 0; left -= n) {
        n = pop_conv_least(p->capacity, left);
        pop_conv_places(w, at, n, x, to);
        if (p->direct) {
            pop_conv_multiply(w, (int)w->box->in_place, n, x, to, out, weights, depth, 16 * p->out_channel);
            continue;
        }
        pop_conv_multiply(w, (int)w->box->in_place, n, x, row, sums, weights, depth, 64);
        if (p->compact) {
            pop_epilogue e = pop_conv_epilogue(p, w->tile);
            if (p->bias_decode) e.bias = (const float *)(const void *)(w->tile->scratch + p->bias_at);
            pop_conv_emit(w, &e, sums, p->sums_pitch, to, n, out, w->groups * p->channels);
            continue;
        }
        for (int64_t k = 0; k < lanes; k++) pop_conv_emit_vector(w, k, sums + 64 * k, p->sums_pitch, to, n, out);
    }
}

/* Make the deltas of a box of taps ready; `image` is the element of tap 0. */
static const char *pop_conv_take_deltas(pop_conv_walk *w, const char *image, int64_t *stride)
{
    const pop_conv_spec *p = w->p;
    const pop_conv_box *box = w->box;
    int64_t end[POP_CONV_DIMS], strides[POP_CONV_DIMS];
    for (int64_t d = 0; d < p->rank; d++) {
        end[d] = p->dims[d].taps;
        strides[d] = p->dims[d].w;
    }
    if (!p->w.at) {
        for (int64_t d = 0; d < p->rank; d++) {
            stride[d] = strides[d];
            image += box->first[d] * strides[d];
        }
        w->block.w_block = p->together * p->w.group;
        return image;
    }
    w->block.w_block = POP_CONV_WIDE * p->w.cell * p->vectors;
    pop_conv_strides(p->rank, box->count, p->w.pitch, stride);
    const pop_conv_window v = {p, &p->w, p->rank, w->groups, w->item->blocks, box->first, box->count, end, strides,
                               w->tile->scratch + p->room_at};
    pop_conv_stage(&v, image, w->tile->scratch + p->w.at);
    if (p->pairs) pop_conv_join_lines(box->count, p->rank, p->w.pitch, 2, 1, w->tile->scratch + p->w.at);
    return w->tile->scratch + p->w.at;
}

/* Where each sum reads x: input channels, and positions within them. */
static void pop_conv_sums_at(const pop_conv_walk *w, int64_t *x, int64_t *out)
{
    const pop_conv_spec *p = w->p;
    const int64_t inner = w->box->in_place ? p->x.inner_step : p->quads ? 4 : 4 * p->together;
    pop_conv_walk whole = *w;
    pop_conv_box all = {0};
    for (int64_t d = 0; d < p->rank; d++) all.count[d] = p->dims[d].positions;
    whole.box = &all;
    for (int64_t i = 0; i < p->x.inner; i++) {
        int64_t at[POP_CONV_DIMS] = {0};
        pop_conv_places(&whole, at, p->positions, x + i * p->positions, out + i * p->positions);
        for (int64_t k = i * p->positions; k < (i + 1) * p->positions; k++) {
            x[k] += i * inner;
            out[k] += i * p->out_inner;
        }
    }
}

/* One box of taps of one image: to the sums. */
static void pop_conv_taps(pop_conv_walk *w, const char *x_image, const char *w_image, int64_t *x, int64_t *out)
{
    const pop_conv_spec *p = w->p;
    const int64_t last = p->rank - 1, n = p->positions * p->x.inner;
    int64_t stride[POP_CONV_DIMS], at[POP_CONV_DIMS], *row = out + n, *x_at = row + n, *w_at = x_at + p->capacity;
    pop_conv_block *b = &w->block;
    pop_conv_take_x(w, x_image);
    const char *deltas = pop_conv_take_deltas(w, w_image, stride);
    pop_conv_sums_at(w, x, out);
    if (p->slide_taps) {
        pop_conv_slide_deltas(w, deltas, stride);
        return;
    }
    b->x_at = x_at, b->w_at = w_at;
    b->steps = w->box->count[last] >> p->pairs;
    b->x_step = p->dims[last].tap_step * w->stride[last] << p->pairs;
    b->w_step = stride[last] << p->pairs;
    b->runs = 0;
    memcpy(at, w->box->first, sizeof at);
    do {
        int64_t from = 0, by = 0;
        for (int64_t d = 0; d < p->rank; d++) {
            from += at[d] * p->dims[d].tap_step * w->stride[d];
            by += (at[d] - w->box->first[d]) * stride[d];
        }
        x_at[b->runs] = from;
        w_at[b->runs] = by;
        b->runs++;
    } while (pop_conv_next(at, w->box->first, w->box->count, last));
    b->ahead = p->look_ahead && w->box->in_place && !p->w.at && last > 0 && b->runs > 1;
    if (b->ahead) { /* the line after the last that this one reads, and the next line of deltas */
        b->x_ahead = x[n - 1] + x_at[1] - x_at[0];
        b->w_ahead = w_at[1] - w_at[0];
    }
    b->sums_block = 64 * n * p->vectors;
    b->words = p->x.inner, b->sums_word = 64 * p->positions;
    for (int64_t i = 0; i < n; i++) row[i] = 64 * i;
    pop_conv_multiply(w, 0, p->quads ? p->positions : n, x, row, w->tile->scratch + p->sums_at, deltas, 64, 64 * n);
}

/* The weight gradient of some blocks. */
static void pop_conv_over_taps(pop_conv_walk *w)
{
    const pop_conv_spec *p = w->p;
    const int64_t n = p->positions * p->x.inner, vectors = w->item->blocks * p->vectors;
    int64_t *x = (int64_t *)(void *)(w->tile->scratch + p->tables_at), *out = x + n;
    char *sums = w->tile->scratch + p->sums_at;
    memset(sums, 0, (size_t)(64 * n * vectors));
    w->block.accumulate = 1;
    w->block.order = NULL;
    for (int64_t i = w->item->first; i < w->item->first + w->item->count; i++) {
        const int64_t image = i / p->boxes;
        w->box = (const pop_conv_box *)(uintptr_t)p->box + i % p->boxes;
        pop_conv_taps(w, w->tile->operands[0] + w->item->x + image * p->x_image,
                      w->tile->operands[1] + w->item->w + image * p->w_image, x, out);
    }
    for (int64_t k = 0; k < vectors; k++) {
        float *lanes = (float *)(void *)(sums + 64 * n * k), old[16];
        for (int64_t i = 0; p->order && i < n; i++) {
            memcpy(old, lanes + 16 * i, sizeof old);
            POP_CALL(pop_conv_reorder, p->reorder)((const int32_t *)(uintptr_t)p->order, 16, old, lanes + 16 * i);
        }
        pop_conv_emit_vector(w, k, sums + 64 * n * k, 64, out, n, w->tile->operands[2] + w->item->out);
    }
}

/* One item. */
static void pop_conv_vertex(const void *given, const pop_tile *tile)
{
    const pop_conv_item *item = (const pop_conv_item *)given;
    const pop_conv_spec *p = (const pop_conv_spec *)(uintptr_t)item->spec;
    pop_conv_walk w;
    memset(&w, 0, sizeof w);
    w.p = p, w.item = item, w.tile = tile;
    w.groups = pop_conv_least(p->groups - item->first_block * p->together, item->blocks * p->together);
    w.block.together = p->together, w.block.channels = p->channels;
    w.block.order = (const int32_t *)(uintptr_t)p->order;
    if (p->bias_decode) pop_conv_take_bias(&w);
    if (p->over_taps) {
        pop_conv_over_taps(&w);
        return;
    }
    w.weights = pop_conv_take_weights(&w);
    if (p->dots) pop_conv_pack_dots(&w);
    else pop_conv_pack(&w);
    for (int64_t i = item->first; i < item->first + item->count; i++) {
        w.box = (const pop_conv_box *)(uintptr_t)p->box + i % p->boxes;
        pop_conv_positions(&w, i / p->boxes);
    }
}
#endif
