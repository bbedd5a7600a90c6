/* Convolutions whose taps are neighbours, depthwise or of words of two channels: tiles of results (kernels/conv/slide.h). */
#ifndef POP_DRIVERS_CONV_SLIDE_H
#define POP_DRIVERS_CONV_SLIDE_H
#include "kernels/stream.h"

typedef void (*pop_conv_slider)(const pop_conv_slide *tile);
typedef void (*pop_conv_tap_slider)(const pop_conv_gradient *tile);

enum { POP_SLIDE_WEIGHTS = 12 << 10 /* bytes of them that stay in the first-level cache */ };

/* A dimension of a box whose taps go forwards: x is met at low + p * step + tap, counted in taps' steps. */
typedef struct pop_slide_dim {
    int64_t count, taps, step;
    int64_t unit, x, out;     /* coordinates and bytes of x from a tap to the next, bytes to the next result */
    int64_t from, to;         /* bytes to what the first position and tap meet, and to its result */
    int64_t low, high;        /* elements of x are at [low, high) of the first position's taps */
} pop_slide_dim;

POP_INLINE int64_t pop_slide_up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

static pop_slide_dim pop_slide_dim_of(const pop_conv_walk *w, int64_t d)
{
    const pop_conv_dim *dim = &w->p->dims[d];
    const int64_t unit = dim->taps > 1 ? dim->tap_step : dim->step ? dim->step : 1;
    const int backwards = (dim->step < 0) != (unit < 0);
    const int64_t n = w->box->count[d], at = w->box->first[d] + (backwards ? n - 1 : 0);
    const int64_t first = dim->first + at * dim->step;
    const int64_t size = unit < 0 ? -unit : unit, before = unit < 0 ? dim->end - 1 - first : first;
    pop_slide_dim s = {n, dim->taps, (dim->step < 0 ? -dim->step : dim->step) / size, unit, unit * w->stride[d],
                       backwards ? -dim->out : dim->out, (first - w->low[d]) * w->stride[d], at * dim->out,
                       0, INT64_MAX / 2};
    if (w->box->in_place || d + 1 < w->p->rank) { /* of scratch, columns have zeros around them */
        s.low = pop_slide_up(-before, size), s.high = pop_slide_up(dim->end - before, size);
    }
    return s;
}

/* The planes of taps that results of outer positions `at` meet. */
static void pop_slide_planes(const pop_conv_walk *w, int64_t outer, const int64_t *at, pop_conv_slide *tile, int64_t *x,
                             int64_t *weights)
{
    const pop_conv_spec *p = w->p;
    int64_t zero[POP_CONV_DIMS] = {0}, tap[POP_CONV_DIMS] = {0}, taps[POP_CONV_DIMS], plane = 0;
    for (int64_t d = 0; d < outer; d++) taps[d] = p->dims[d].taps;
    tile->planes = 0;
    do {
        int64_t n = tile->planes, inside = !w->box->empty;
        x[n] = 0;
        for (int64_t d = 0; d < outer; d++) {
            const pop_conv_dim *dim = &p->dims[d];
            const int64_t place = dim->first + at[d] * dim->step + tap[d] * dim->tap_step;
            inside &= !w->box->in_place || (place >= 0 && place < dim->end);
            x[n] += (place - w->low[d]) * w->stride[d];
        }
        weights[n] = 64 * p->x.inner * (p->row_pairs ? (tile->tap_rows + 1) / 2 : tile->tap_rows) * tile->tap_cols * plane++;
        tile->planes += inside;
    } while (pop_conv_next(tap, zero, taps, outer));
}

/* Rows of n results of a tile to memory, past the caches. */
static void pop_slide_stream(const pop_conv_slide *tile, int64_t n, const pop_slide_dim *row, const pop_slide_dim *col,
                             char *out)
{
    const int64_t in_line = col->out == tile->sums_col ? n : 1;
    for (int64_t r = 0; r < tile->rows; r++)
        for (int64_t c = 0; c < n; c += in_line)
            pop_stream(out + r * row->out + c * col->out, tile->sums + r * tile->sums_row + c * tile->sums_col,
                       in_line * tile->sums_col);
}

/* Rows of results, `rows` of them from the tile's on, in columns as many as the sums have room for. */
static void pop_slide_columns(const pop_conv_walk *w, pop_conv_slide *tile, const pop_slide_dim *row,
                              const pop_slide_dim *col, const char *x, char *out, pop_epilogue *e, int64_t channels)
{
    const pop_conv_spec *p = w->p;
    const int in_place = p->direct && !p->streams;
    const int64_t at_once = in_place ? col->count : pop_conv_least(col->count, p->capacity / tile->rows);
    const int64_t pitch = p->streams ? tile->blocks * tile->sums_block : p->sums_pitch;
    int64_t *to = (int64_t *)(void *)(w->tile->scratch + p->tables_at);
    char *sums = w->tile->scratch + p->sums_at;
    tile->sums_row = in_place ? row->out : at_once * pitch;
    tile->sums_col = in_place ? col->out : pitch;
    for (int64_t first = 0, n; first < col->count; first += n) {
        n = pop_conv_least(at_once, col->count - first);
        for (int64_t in = 0; in < n; in += tile->cols) {
            const int64_t c = first + in, left = n - in;
            tile->cols = left >= 7 ? 7 : left >= 4 ? 4 : left >= 2 ? 2 : 1; /* the kernels' tiles */
            if (p->rank == 1 && !tile->order && left >= 14) tile->cols = 14; /* of depthwise ones */
            tile->x = x + c * col->step * col->x;
            tile->col_low = col->low - c * col->step, tile->col_high = col->high - c * col->step;
            tile->sums = in_place ? out + c * col->out : sums + in * pitch;
            if (row->x) { /* the tile below; of a single row the one beside it */
                tile->x_ahead = tile->rows * row->step * row->x;
                tile->sums_ahead = in_place ? tile->rows * row->out : 0;
            } else {
                tile->x_ahead = ((tile->cols - 1) * col->step + col->taps) * col->x;
                tile->sums_ahead = in_place ? tile->cols * col->out : 0;
            }
            POP_CALL(pop_conv_slider, p->slide)(tile);
        }
        tile->sums = sums;
        if (p->streams) pop_slide_stream(tile, n, row, col, out + first * col->out);
        if (p->direct) continue;
        for (int64_t c = 0; c < n; c++) to[c] = (first + c) * col->out;
        for (int64_t r = 0; r < tile->rows; r++)
            pop_conv_emit(w, e, sums + r * tile->sums_row, p->sums_pitch, to, n, out + r * row->out, channels);
    }
}

/* A box of output positions of an image, so many blocks at once that their weights are at hand; `out` is its image's. */
static void pop_conv_slide_box(pop_conv_walk *w, char *out)
{
    const pop_conv_spec *p = w->p;
    const int64_t rank = p->rank, outer = rank > 2 ? rank - 2 : 0;
    const pop_slide_dim one = {.count = 1, .taps = 1, .step = 1, .high = 1};
    const pop_slide_dim col = pop_slide_dim_of(w, rank - 1), row = rank > 1 ? pop_slide_dim_of(w, rank - 2) : one;
    const int64_t joined = rank > 1 ? row.taps : col.taps; /* two at a time */
    const int64_t weights = 64 * p->x.inner * (p->row_pairs ? p->taps / joined * ((joined + 1) / 2) : p->taps);
    const int64_t most = weights < POP_SLIDE_WEIGHTS ? POP_SLIDE_WEIGHTS / weights : 1;
    const int64_t some = pop_conv_least(w->item->blocks, most > 1 ? most & ~1 : 1); /* results of bytes are encoded 32 at a time */
    int64_t *tables = (int64_t *)(void *)(w->tile->scratch + p->tables_at), *plane_x = tables + 3 * p->capacity;
    int64_t *plane_w = plane_x + p->taps, at[POP_CONV_DIMS];
    if (w->box->empty) w->x = w->tile->scratch;
    pop_conv_slide tile = {.x_row = row.x, .x_col = col.x, .row_step = row.step, .step = col.step, .tap_rows = row.taps,
                           .tap_cols = col.taps, .plane_x = plane_x, .plane_w = plane_w, .out = p->tile_out,
                           .x_block = w->block.x_block, .w_block = weights,
                           .sums_block = p->direct ? p->together * p->out_group : 64, .ahead = p->look_ahead && p->direct,
                           .together = p->together, .words = p->x.inner, .order = w->block.order};
    for (int64_t block = 0; block < w->item->blocks; block += some) {
        pop_epilogue e = pop_conv_epilogue(p, w->tile);
        const int64_t groups = block * p->together;
        tile.blocks = pop_conv_least(some, w->item->blocks - block);
        tile.w = w->tile->scratch + p->w.at + block * weights;
        if (p->bias_decode) e.bias = (const float *)(const void *)(w->tile->scratch + p->bias_at) + POP_CONV_WIDE * block;
        memcpy(at, w->box->first, sizeof at);
        do {
            const char *x = w->x + block * tile.x_block + row.from + col.from;
            char *to = out + groups * p->out_group + row.to + col.to;
            pop_slide_planes(w, outer, at, &tile, plane_x, plane_w);
            for (int64_t d = 0; d < outer; d++) to += at[d] * p->dims[d].out;
            for (int64_t r = 0; r < row.count; r += tile.rows) {
                tile.rows = pop_conv_least(2, row.count - r);
                tile.row_low = row.low - r * row.step, tile.row_high = row.high - r * row.step;
                pop_slide_columns(w, &tile, &row, &col, x + r * row.step * row.x, to + r * row.out, &e,
                                  p->channels * pop_conv_least(w->groups - groups, tile.blocks * p->together));
            }
        } while (pop_conv_next(at, w->box->first, w->box->count, outer));
    }
    if (p->streams) pop_stream_end();
}

/* Rows of a box of deltas and of x, which it meets, to the sums of a plane of the kernel, some blocks at a time. */
static void pop_conv_slide_plane(const pop_conv_walk *w, pop_conv_gradient *tile, const char *x, const char *deltas, char *sums)
{
    const int64_t kept = 64 * tile->tap_rows * tile->tap_cols, most = pop_conv_least(POP_SLIDE_WEIGHTS / kept, w->item->blocks);
    const int64_t some = most > 1 ? most & ~1 : 1; /* two share a line of 16-bit numbers */
    for (int64_t block = 0; block < w->item->blocks; block += some) {
        tile->blocks = pop_conv_least(some, w->item->blocks - block);
        tile->x = x + block * tile->x_block, tile->w = deltas + block * tile->w_block;
        tile->sums = sums + block * tile->sums_block;
        POP_CALL(pop_conv_tap_slider, w->p->slide_taps)(tile);
    }
}

/* A box of deltas of an image, and the x that it meets, to the sums of all kernel elements. */
static void pop_conv_slide_deltas(const pop_conv_walk *w, const char *deltas, const int64_t *stride)
{
    const pop_conv_spec *p = w->p;
    const pop_conv_box *box = w->box;
    const int64_t last = p->rank - 1, outer = p->rank > 2 ? p->rank - 2 : 0, zero[POP_CONV_DIMS] = {0};
    const pop_conv_dim *col = &p->dims[last];
    const int64_t unit = col->positions > 1 ? col->step : col->tap_step, before = col->first + box->first[last] * col->tap_step;
    int64_t at[POP_CONV_DIMS], count[POP_CONV_DIMS], from = (before - w->low[last]) * w->stride[last];
    pop_conv_gradient tile = {.x_col = unit * w->stride[last], .w_col = stride[last], .rows = 1, .cols = box->count[last],
                          .tap_rows = 1, .tap_cols = col->positions, .row_end = 1, .step = col->tap_step / unit,
                          .col_low = INT64_MIN / 2, .col_high = INT64_MAX / 2, .x_block = w->block.x_block,
                          .w_block = w->block.w_block, .sums_block = 64 * p->positions, .down = 1};
    if (box->in_place) tile.col_low = pop_slide_up(-before, unit), tile.col_high = pop_slide_up(col->end - before, unit);
    if (last > 0) {
        const pop_conv_dim *row = &p->dims[last - 1];
        const int64_t bytes = w->stride[last - 1];
        tile.rows = box->count[last - 1], tile.tap_rows = row->positions;
        tile.row_first = row->first + box->first[last - 1] * row->tap_step, tile.row_end = row->end;
        tile.row_unit = row->step, tile.row_step = row->tap_step;
        tile.x_row = row->step * bytes, tile.x_down = row->tap_step * bytes, tile.w_row = stride[last - 1];
        tile.down = pop_conv_least(row->positions, row->step ? (row->tap_step + row->step - 1) / row->step : 1);
        tile.ahead = p->look_ahead && box->in_place;
        from += (tile.row_first - w->low[last - 1]) * bytes;
    }
    memcpy(at, box->first, sizeof at);
    for (int64_t d = 0; d < outer; d++) count[d] = p->dims[d].positions;
    do {
        int64_t plane[POP_CONV_DIMS] = {0};
        const char *by = deltas;
        char *sums = w->tile->scratch + p->sums_at;
        for (int64_t d = 0; d < outer; d++) by += (at[d] - box->first[d]) * stride[d];
        do {
            const char *x = w->x + from;
            int inside = 1;
            for (int64_t d = 0; d < outer; d++) {
                const pop_conv_dim *dim = &p->dims[d];
                const int64_t place = dim->first + plane[d] * dim->step + at[d] * dim->tap_step;
                inside &= place >= 0 && place < dim->end;
                x += (place - w->low[d]) * w->stride[d];
            }
            if (inside) pop_conv_slide_plane(w, &tile, x, by, sums);
            sums += 64 * tile.tap_rows * tile.tap_cols;
        } while (pop_conv_next(plane, zero, count, outer));
    } while (pop_conv_next(at, box->first, box->count, outer));
}
#endif
