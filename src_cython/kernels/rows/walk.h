/* How rows are walked: their numbers are read where they lie, or decoded into the thread's arena, and written likewise, so that
 * a body sees FP32 numbers one after another, whatever the formats and strides. Operands that are repeated along axes have
 * strides of zero there. */
#ifndef POP_ROWS_WALK_H
#define POP_ROWS_WALK_H
#include "drivers/strided_rows.h"
#include "formats/codec.h"
#include "kernels/cast/cast.h"
#include "kernels/rows/constants.h"
#include "kernels/transpose.h"
#include "program/program.h"
#include "simd/math.h"

#define POP_RECORDS "records/rows.def"
#include "records/structs.h"

#define POP_ROWS_OPERANDS 8
#define POP_ROWS_AXES 32
#define POP_ROWS_CODES 2048 /* elements that are gathered at a time */

/* A row's numbers by operand, NULL where there is none: those that the lowering counts as wide in the kernel's format,
 * else FP32. A single one is a row of one. */
typedef struct pop_row {
    const pop_rows *spec;
    void *at[POP_ROWS_OPERANDS];
    float *room; /* for FP32 numbers: a row, or several short ones */
    int64_t label[POP_ROWS_MOST]; /* of an integer operand */
    int64_t number; /* which row it is */
    int rows; /* that are done at once, this one the first */
    int64_t step[POP_ROWS_OPERANDS]; /* bytes to the next row's, mostly: for who reads ahead */
    int64_t segment[POP_ROWS_OPERANDS]; /* bytes from one segment's to the next's */
} pop_row;

typedef void (*pop_rows_body)(pop_row *row);

/* n codes `stride` apart as numbers, or back. */
static void pop_rows_decode(const pop_rows_operand *o, const char *from, int64_t stride, float *to, int64_t n, char *codes)
{
    if (stride == 0 && n > 1) {
        pop_rows_decode(o, from, o->code_bytes, to, 1, codes);
        for (int64_t i = 1; i < n; i++) to[i] = to[0];
        return;
    }
    for (int64_t i = 0, here; i < n; i += here, from += here * stride) {
        here = n - i < POP_ROWS_CODES ? n - i : POP_ROWS_CODES;
        const char *run = from;
        if (stride != o->code_bytes) {
            pop_copy_row(o->code_bytes, codes, o->code_bytes, from, stride, here);
            run = codes;
        }
        if (o->truths)
            for (int64_t k = 0; k < here; k++) to[i + k] = run[k] ? 0.0f : -INFINITY;
        else if (o->codec) ((pop_decoder)o->codec)(&o->cast, run, to + i, here);
        else memcpy(to + i, run, (size_t)here * sizeof *to);
    }
}

static void pop_rows_encode(const pop_rows_operand *o, const float *from, char *to, int64_t stride, int64_t n, char *codes)
{
    for (int64_t i = 0, here; i < n; i += here, to += here * stride) {
        here = n - i < POP_ROWS_CODES ? n - i : POP_ROWS_CODES;
        char *run = stride == o->code_bytes ? to : codes;
        if (o->codec) ((pop_encoder)o->codec)(&o->cast, from + i, run, here, NULL);
        else memcpy(run, from + i, (size_t)here * sizeof *from);
        if (run == codes) pop_copy_row(o->code_bytes, to, stride, codes, o->code_bytes, here);
    }
}

/* Prefetch lines of some places that are read or written soon. */
POP_INLINE void pop_rows_prefetch(const pop_rows_operand *o, uintptr_t at, int64_t stride, int64_t n)
{
    for (int64_t i = 0; o->written && i < n; i++) pop_prefetch_l2_to_write(at + (uintptr_t)(i * stride));
    for (int64_t i = 0; !o->written && i < n; i++) pop_prefetch_l2(at + (uintptr_t)(i * stride));
}

#define POP_SQUARE 16
#define POP_ROWS_PREFETCHED 4096 /* bytes: what follows comes by itself */

/* h lines of w codes of a format between memory and the square's lines. */
POP_INLINE void pop_square_move(const pop_format *f, int written, char *at, int64_t stride, float *square, int64_t h, int64_t w)
{
    for (int64_t p = 0; p < h; p++)
        for (int64_t i = 0; i < w; i += POP_LANES) {
            const int part = w - i < POP_LANES ? (int)(w - i) : POP_LANES;
            char *codes = at + p * stride + i * pop_bytes(f);
            pop_v_f x;
            if (written) {
                memcpy(&x, square + p * POP_SQUARE + i, sizeof x);
                pop_v_encode_part(f, POP_OVERFLOW_INFINITY, codes, x, part);
            } else {
                x = pop_v_decode_part(f, codes, part);
                memcpy(square + p * POP_SQUARE + i, &x, sizeof x);
            }
        }
}
static void pop_square_lines(const pop_rows_operand *o, char *at, int64_t stride, float *square, int64_t h, int64_t w, char *codes)
{
    const pop_format *f = o->written ? &o->cast.to : &o->cast.from;
    if (o->codec && pop_is_f16(f)) pop_square_move(&POP_F16, o->written, at, stride, square, h, w);
    else if (o->codec && f->mantissa_bits == 7 && pop_is_short_f32(f)) pop_square_move(&POP_BF16, o->written, at, stride, square, h, w);
    else
        for (int64_t p = 0; p < h; p++) {
            if (o->written) pop_rows_encode(o, square + p * POP_SQUARE, at + p * stride, o->code_bytes, w, codes);
            else pop_rows_decode(o, at + p * stride, o->code_bytes, square + p * POP_SQUARE, w, codes);
        }
}

/* Of n places `stride` apart with `width` codes side by side at each, or back: numbers of a place are `apart` elements apart. */
static void pop_rows_turn(const pop_rows_operand *o, char *place, int64_t stride, int64_t n, int64_t width, float *numbers,
                          int64_t apart, char *codes)
{
    float square[POP_SQUARE * POP_SQUARE];
    const int plain = !o->codec && !o->truths, behind = width <= POP_SQUARE && stride == width * o->code_bytes; /* one place behind another */
    const int64_t line = (behind ? width : POP_SQUARE) * (int64_t)sizeof *square, column = apart * (int64_t)sizeof *numbers;
    for (int64_t first = 0; first < width; first += POP_SQUARE)
        for (int64_t i = 0; i < n; i += POP_SQUARE) {
            const int64_t h = n - i < POP_SQUARE ? n - i : POP_SQUARE, w = width - first < POP_SQUARE ? width - first : POP_SQUARE;
            char *at = place + i * stride + first * o->code_bytes, *to = (char *)(numbers + first * apart + i);
            if (behind) pop_rows_prefetch(o, pop_beyond(at, 4 * POP_SQUARE * stride), POP_CACHE_LINE, POP_SQUARE * stride / POP_CACHE_LINE);
            else pop_rows_prefetch(o, pop_beyond(at, 2 * POP_SQUARE * stride), stride, POP_SQUARE);
            if (plain && o->written) pop_transpose_some(to, column, w, h, at, stride);
            else if (plain) pop_transpose_some(at, stride, h, w, to, column);
            else if (o->written) {
                pop_transpose_to(to, column, w, h, (char *)square, line, behind ? w : POP_SQUARE);
                pop_square_lines(o, at, stride, square, behind ? 1 : h, behind ? h * w : w, codes);
            } else {
                pop_square_lines(o, at, stride, square, behind ? 1 : h, behind ? h * w : w, codes);
                pop_transpose_some((const char *)square, line, h, w, to, column);
            }
        }
}

/* Runs of rows that lie `apart`, whose numbers begin n apart, or back: as one where they lie one behind another. */
POP_INLINE void pop_rows_runs(const pop_rows_operand *o, char *place, int64_t apart, int64_t stride, int64_t rows, int64_t run, float *numbers,
                              int64_t n, char *codes)
{
    if (run == n && apart == run * stride) run *= rows, rows = 1;
    for (int64_t q = 0; q < rows; q++, place += apart, numbers += n) {
        if (o->written) pop_rows_encode(o, numbers, place, stride, run, codes);
        else pop_rows_decode(o, place, stride, numbers, run, codes);
    }
}

/* Between so many rows, the first at `place`, and their numbers, row after row; run by run. Of one row, where it is the places of the last
 * axis but one that lie side by side, both are one run. */
static void pop_rows_move(const pop_rows *s, const pop_rows_operand *o, char *place, float *numbers, int64_t rows, char *codes)
{
    const int turned = rows == 1 && !o->single && s->reduced_count > 1 && o->reduced[s->reduced_count - 2] == o->code_bytes &&
                       o->reduced[s->reduced_count - 1] && o->reduced[s->reduced_count - 1] != o->code_bytes;
    const int last = s->reduced_count - 1 - turned, each = o->single == POP_EACH_SEGMENT;
    const int64_t inner = each ? s->segments : o->single ? 1 : s->reduced[s->reduced_count - 1];
    const int64_t run = turned ? inner * s->reduced[last] : inner, n = o->single ? inner : s->n;
    const int64_t stride = each ? o->reduced[0] : o->single ? o->code_bytes : o->reduced[s->reduced_count - 1];
    const int64_t begins = run * stride < POP_ROWS_PREFETCHED ? run * stride : POP_ROWS_PREFETCHED; /* of the next row's run */
    const int64_t lines = rows == 1 && stride == o->code_bytes ? begins / POP_CACHE_LINE : 0;
    int64_t index[POP_ROWS_AXES] = {0};
    for (int64_t i = 0; i < n; i += run) {
        pop_rows_prefetch(o, pop_beyond(place, o->kept[s->kept_count - 1]), POP_CACHE_LINE, lines);
        if (rows > 1 && o->turned) pop_rows_turn(o, place, stride, run, rows, numbers + i, n, codes);
        else if (turned) pop_rows_turn(o, place, stride, inner, s->reduced[last], numbers + i, inner, codes);
        else pop_rows_runs(o, place, o->kept[s->kept_count - 1], stride, rows, run, numbers + i, n, codes);
        for (int d = last - 1; d >= 0; d--) {
            place += o->reduced[d];
            if (++index[d] < s->reduced[d]) break;
            place -= o->reduced[d] * s->reduced[d];
            index[d] = 0;
        }
    }
}

static int64_t pop_rows_label(const pop_rows_operand *o, const char *place)
{
    int32_t narrow;
    int64_t wide;
    if (o->code_bytes == 4) return memcpy(&narrow, place, sizeof narrow), narrow;
    return memcpy(&wide, place, sizeof wide), wide;
}

/* Where a walk is. */
typedef struct pop_rows_walked {
    const pop_rows *s;
    const pop_tile *tile;
    int label;                            /* which operand is one, or -1 */
    int64_t index[POP_ROWS_AXES];         /* of the row, along the axes that are kept */
    char *place[POP_ROWS_OPERANDS];       /* of the row */
    char *begin[POP_ROWS_OPERANDS];       /* of those that are taken together */
    int used[POP_ROWS_OPERANDS], count;   /* which operands there are */
    int lies[POP_ROWS_OPERANDS];          /* whether it is used where it lies, or is the same for all rows */
    int64_t done, beside, most;           /* of the rows that are taken together, how many there are, and may be */
    int64_t at_once;                      /* rows that the body takes */
} pop_rows_walked;

POP_INLINE float *pop_rows_room(const pop_rows_walked *w, const pop_rows_operand *o)
{
    return (float *)(void *)(w->tile->scratch + o->room);
}

/* At a row, whose operands are looked at; what is the same for all rows is brought in order. */
static void pop_rows_begin(pop_rows_walked *w, pop_row *row, int64_t several)
{
    const pop_rows *s = w->s;
    const int last = s->kept_count - 1;
    int64_t rest = row->number;
    int lying = 1;
    for (int d = last; d > 0 && rest; rest /= s->kept[d], d--) w->index[d] = rest % s->kept[d];
    w->index[0] = rest;
    w->most = 1;
    const int most = s->n <= POP_ROWS_EIGHTS / 2 ? POP_ROWS_MOST : s->n <= POP_ROWS_EIGHTS ? POP_ROWS_MOST / 2 : POP_FOUR;
    w->at_once = several < 0 ? -several : several <= s->n ? 1 : several < most * s->n ? several / s->n : most;
    for (int k = 0; k < POP_ROWS_OPERANDS; k++) {
        const pop_rows_operand *o = s->operands + k;
        if (o->operand < 0) continue;
        w->used[w->count++] = k;
        w->place[k] = w->tile->operands[o->operand] + o->offset;
        for (int d = 0; d <= last; d++) w->place[k] += w->index[d] * o->kept[d];
        w->lies[k] = o->direct == 1 || k == w->label;
        row->step[k] = w->lies[k] ? o->kept[last] : o->direct ? s->n * (int64_t)sizeof(float) : 0;
        row->segment[k] = w->lies[k] ? o->reduced[0] : o->single == 1 ? 0 : (int64_t)sizeof(float);
        if (!w->lies[k] && !o->single) row->segment[k] *= s->n / s->segments;
        w->most = o->direct > w->most ? o->direct : w->most;
        if (o->constant && !w->lies[k]) {
            pop_rows_move(s, o, w->place[k], pop_rows_room(w, o), 1, w->tile->scratch + s->codes);
            w->place[k] = (char *)pop_rows_room(w, o);
            row->step[k] = 0;
            w->lies[k] = 1;
        }
        lying = lying && w->lies[k];
        if (!w->lies[k] && !o->direct) w->at_once = 1;
    }
    if (lying) w->most = INT64_MAX;
}

/* What the body sees of the next rows; `left` are left of their unit. */
POP_INLINE void pop_rows_fetch(pop_rows_walked *w, pop_row *row, int64_t left)
{
    const pop_rows *s = w->s;
    if (w->done == w->beside) {
        const int64_t run = s->kept[s->kept_count - 1] - w->index[s->kept_count - 1];
        w->done = 0, w->beside = run < w->most ? run : w->most;
        w->beside = w->beside < left ? w->beside : left;
    }
    row->rows = (int)(w->beside - w->done < w->at_once ? w->beside - w->done : w->at_once);
    for (int u = 0; u < w->count; u++) {
        const int k = w->used[u];
        const pop_rows_operand *o = s->operands + k;
        if (k == w->label)
            for (int q = 0; q < row->rows; q++) row->label[q] = pop_rows_label(o, w->place[k] + q * row->step[k]);
        else if (w->lies[k]) row->at[k] = w->place[k];
        else {
            float *room = pop_rows_room(w, o);
            row->at[k] = o->direct ? room + w->done * s->n : room;
            if (w->done == 0) w->begin[k] = w->place[k];
            if (!o->written && (w->done == 0 || !o->direct))
                pop_rows_move(s, o, w->place[k], room, o->direct ? w->beside : 1, w->tile->scratch + s->codes);
        }
    }
}

/* What a body wrote of some rows goes where it belongs, and the walk past them. */
POP_INLINE void pop_rows_leave(pop_rows_walked *w, pop_row *row)
{
    const pop_rows *s = w->s;
    int64_t rows = row->rows;
    w->done += rows;
    for (int u = 0; u < w->count; u++) {
        const int k = w->used[u];
        const pop_rows_operand *o = s->operands + k;
        if (!o->written || w->lies[k] || (o->direct && w->done < w->beside)) continue;
        pop_rows_move(s, o, o->direct ? w->begin[k] : w->place[k], pop_rows_room(w, o), o->direct ? w->beside : 1,
                      w->tile->scratch + s->codes);
    }
    row->number += rows;
    for (int d = s->kept_count - 1; d >= 0; d--, rows = 1) {
        const int more = (w->index[d] += rows) < s->kept[d];
        for (int u = 0; u < w->count; u++)
            w->place[w->used[u]] += s->operands[w->used[u]].kept[d] * (more ? rows : rows - s->kept[d]);
        if (more) return;
        w->index[d] = 0;
    }
}

/* Items count units of so many rows. Bodies may take several at once, of `several` elements at most, or so many rows where that is
 * negative, of rows side by side or of operands used as they lie. */
static void pop_rows_walk(const void *work, const pop_tile *tile, pop_rows_body body, int64_t several, int label, int64_t unit)
{
    const pop_rows_item *item = (const pop_rows_item *)work;
    const pop_rows *s = item->spec;
    pop_row row = {.spec = s, .room = (float *)(void *)tile->scratch, .number = item->first * unit};
    pop_rows_walked w = {.s = s, .tile = tile, .label = label};
    int64_t all = 1;
    for (int d = 0; d < s->kept_count; d++) all *= s->kept[d];
    const int64_t end = all - row.number < item->count * unit ? all : row.number + item->count * unit;
    if (row.number >= end) return; /* operands may be empty */
    pop_rows_begin(&w, &row, several);
    while (row.number < end) {
        const int64_t left = end - row.number, of_unit = unit - row.number % unit;
        pop_rows_fetch(&w, &row, unit > 1 && of_unit < left ? of_unit : left);
        body(&row);
        pop_rows_leave(&w, &row);
    }
}
#endif
