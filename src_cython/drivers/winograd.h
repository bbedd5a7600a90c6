/* The driver of 3x3 convolutions by Winograd's transforms (records/winograd.def, kernels/conv/winograd.h).
 *
 * Kernels are transformed first, to panels as products of matrices read them, one matrix for each point. Then chunks of
 * tiles: what they meet of the images is decoded to scratch, a strip of neighbours at a time, zeros around it, and transformed
 * to rows of numbers at each point; a product for each point and some columns; and the products transformed to results. */
#ifndef POP_DRIVERS_WINOGRAD_H
#define POP_DRIVERS_WINOGRAD_H
#include "drivers/conv.h"

#define POP_RECORDS "records/gemm.def"
#include "records/structs.h"
#define POP_RECORDS "records/winograd.def"
#include "records/structs.h"

typedef void (*pop_winograd_transform)(const pop_winograd_block *block);

/* Tiles that lie side by side in one row of one image. */
typedef struct pop_winograd_run {
    int64_t image, row, column, count;
} pop_winograd_run;

/* The run that begins with a tile, of `left` tiles at most. */
POP_INLINE pop_winograd_run pop_winograd_neighbours(const pop_winograd_spec *s, int64_t tile, int64_t left)
{
    pop_winograd_run r = {tile / (s->rows * s->columns), tile / s->columns % s->rows, tile % s->columns, left};
    r.count = pop_conv_least(r.count, pop_conv_least(s->run, s->columns - r.column));
    return r;
}

/* Numbers of n tiles from number `tile` on at each point. */
static void pop_winograd_take(const pop_winograd_spec *s, const pop_winograd_item *item, const pop_tile *tile, int64_t first,
                              int64_t n)
{
    const pop_conv_spec *p = &s->conv;
    char *strip = tile->scratch + s->strip_at, *points = tile->scratch + s->points_at;
    const int64_t end[2] = {p->dims[0].end, p->dims[1].end}, strides[2] = {p->dims[0].x, p->dims[1].x};
    pop_winograd_run r;
    for (int64_t done = 0; done < n; done += r.count) {
        r = pop_winograd_neighbours(s, first + done, n - done);
        const int64_t low[2] = {p->dims[0].first + r.row * s->tile, p->dims[1].first + r.column * s->tile};
        const int64_t extent[2] = {s->tile + 2, r.count * s->tile + 2};
        const pop_conv_window v = {p, &p->x, 2, 1, 1, low, extent, end, strides, tile->scratch + p->room_at};
        pop_conv_stage(&v, tile->operands[0] + item->x + r.image * p->x_image, strip);
        const pop_winograd_block b = {strip, points + done * s->points_row, extent[1] * p->x.pitch, p->x.pitch,
                                      (s->tile + 2) * s->points_next, s->points_next, s->tile * p->x.pitch, s->points_row,
                                      r.count, p->x.padded};
        POP_CALL(pop_winograd_transform, s->images)(&b);
    }
}

/* Products of n tiles with `columns` columns from `first` of the item's on, at every point. */
static void pop_winograd_multiply(const pop_winograd_spec *s, const pop_winograd_item *item, const pop_tile *tile, int64_t n,
                                  int64_t first, int64_t columns)
{
    pop_gemm_item product = item->product;
    pop_tile inner = *tile;
    char *kernels = tile->operands[s->kernels] + item->kernels + first / s->panel_width * s->panel;
    product.m = n, product.n = columns;
    for (int64_t point = 0; point < (s->tile + 2) * (s->tile + 2); point++) {
        char *const operands[3] = {tile->scratch + s->points_at + point * s->points_next, kernels + point * s->kernels_next,
                                   tile->scratch + s->products_at + point * s->products_next};
        inner.operands = operands;
        POP_CALL(pop_vertex, s->multiply)(&product, &inner);
    }
}

/* Results of n tiles and some columns. */
static void pop_winograd_finish(const pop_winograd_spec *s, const pop_winograd_item *item, const pop_tile *tile, int64_t tile_0,
                                int64_t n, int64_t first, int64_t columns)
{
    const pop_conv_spec *p = &s->conv;
    const int64_t item_row = s->products_row, row = s->run * s->tile * item_row;
    char *strip = tile->scratch + s->strip_at;
    pop_epilogue e = pop_conv_epilogue(p, tile);
    pop_winograd_run r;
    if (p->bias_decode) e.bias = (const float *)(const void *)(tile->scratch + p->bias_at) + first;
    e.old = s->old ? tile->operands[s->old] - tile->operands[2] : 0;
    e.out_row = p->dims[1].out;
    for (int64_t done = 0; done < n; done += r.count) {
        r = pop_winograd_neighbours(s, tile_0 + done, n - done);
        const pop_winograd_block b = {tile->scratch + s->products_at + done * item_row, strip,
                                      (s->tile + 2) * s->products_next, s->products_next, row, item_row, item_row,
                                      s->tile * item_row, r.count, (columns + POP_CONV_WIDE - 1) / POP_CONV_WIDE * POP_CONV_WIDE};
        POP_CALL(pop_winograd_transform, s->results)(&b);
        const int64_t y = r.row * s->tile, x = r.column * s->tile;
        const int64_t rows = pop_conv_least(s->tile, p->dims[0].positions - y);
        const int64_t positions = pop_conv_least(r.count * s->tile, p->dims[1].positions - x);
        char *out = tile->operands[2] + item->out + r.image * p->out_image + y * p->dims[0].out + x * p->dims[1].out +
                    first * p->out_channel;
        for (int64_t i = 0; i < rows; i++) {
            e.out = out + i * p->dims[0].out;
            POP_CALL(pop_epilogue_kernel, p->epilogue)(&e, (const float *)(const void *)(strip + i * row), item_row / 4,
                                                       positions, columns);
        }
    }
}

static void pop_winograd_take_bias(const pop_winograd_spec *s, const pop_winograd_item *item, const pop_tile *tile)
{
    const pop_conv_spec *p = &s->conv;
    const pop_format *format = (const pop_format *)(uintptr_t)p->bias_format;
    char *to = tile->scratch + p->bias_at, *codes = tile->scratch + p->room_at;
    const char *from = tile->operands[3] + item->bias;
    for (int64_t done = 0; done < item->columns; done += POP_CONV_WIDE) {
        const int64_t n = pop_conv_least(POP_CONV_WIDE, item->columns - done);
        pop_scatter(p->bias_item, from + done * p->bias_channel, p->bias_channel, codes, p->bias_item, n);
        POP_CALL(pop_conv_decode, p->bias_decode)(format, codes, to + 4 * done, NULL, n);
    }
}

/* Some tiles and columns. */
static void pop_winograd_vertex(const void *given, const pop_tile *tile)
{
    const pop_winograd_item *item = (const pop_winograd_item *)given;
    const pop_winograd_spec *s = (const pop_winograd_spec *)(uintptr_t)item->spec;
    if (s->conv.bias_decode) pop_winograd_take_bias(s, item, tile);
    for (int64_t done = 0; done < item->count; done += s->chunk) {
        const int64_t n = pop_conv_least(s->chunk, item->count - done);
        pop_winograd_take(s, item, tile, item->first + done, n);
        for (int64_t column = 0; column < item->columns; column += s->width) {
            const int64_t columns = pop_conv_least(s->width, item->columns - column);
            pop_winograd_multiply(s, item, tile, n, column, columns);
            pop_winograd_finish(s, item, tile, item->first + done, n, column, columns);
        }
    }
}

/* 16 output channels of `channels` input channels in scratch: [input channel][row][column][16]. */
static void pop_winograd_turn(const pop_winograd_spec *s, const char *from, int64_t lanes, int64_t channels, char *to, char *room)
{
    const int64_t forwards = s->w_column == 4 && s->w_row == 12, backwards = s->w_column == -4 && s->w_row == -12;
    const pop_conv_turn turn = POP_CALL(pop_conv_turn, s->conv.transpose);
    if (forwards && s->w_in == 36) {
        turn(from, s->w_out, lanes, 9 * channels, to, 64);
        return;
    }
    for (int64_t i = 0; i < channels; i++, from += s->w_in, to += 576) {
        if (forwards) turn(from, s->w_out, lanes, 9, to, 64);
        else if (backwards) turn(from - 32, s->w_out, lanes, 9, to, 64);
        else if (s->w_out == 4 && lanes == POP_CONV_WIDE)
            for (int64_t tap = 0; tap < 9; tap++) memcpy(to + 64 * tap, from + tap / 3 * s->w_row + tap % 3 * s->w_column, 64);
        else {
            for (int64_t lane = 0; lane < lanes; lane++)
                for (int64_t tap = 0; tap < 9; tap++)
                    memcpy(room + 36 * lane + 4 * tap,
                           from + lane * s->w_out + tap / 3 * s->w_row + tap % 3 * s->w_column, 4);
            turn(room, 36, lanes, 9, to, 64);
        }
    }
}

/* Kernels of some output channels to panels. */
static void pop_winograd_kernels_vertex(const void *given, const pop_tile *tile)
{
    const pop_winograd_kernels *item = (const pop_winograd_kernels *)given;
    const pop_winograd_spec *s = (const pop_winograd_spec *)(uintptr_t)item->spec;
    const pop_conv_spec *p = &s->conv;
    const int64_t backwards = s->w_column == -4 && s->w_row == -12 ? -1 : 1;
    char *turned = tile->scratch, *room = turned + 576 * s->channels_at_once, *first = turned + (backwards < 0 ? 512 : 0);
    for (int64_t column = item->first; column < item->first + item->columns; column += POP_CONV_WIDE) {
        const int64_t lanes = pop_conv_least(POP_CONV_WIDE, item->first + item->columns - column);
        char *to = tile->operands[s->kernels] + item->kernels + column / s->panel_width * s->panel + column % s->panel_width * 4;
        for (int64_t k = 0, n; k < p->x.inner; k += n) {
            n = pop_conv_least(s->channels_at_once, p->x.inner - k);
            pop_winograd_turn(s, tile->operands[1] + item->w + column * s->w_out + k * s->w_in, lanes, n, turned, room);
            const pop_winograd_block b = {first, to + 4 * k * s->panel_width, 192 * backwards, 64 * backwards,
                                          (s->tile + 2) * s->kernels_next, s->kernels_next, 576, 4 * s->panel_width, n,
                                          POP_CONV_WIDE};
            POP_CALL(pop_winograd_transform, s->weights)(&b);
        }
    }
}
#endif
