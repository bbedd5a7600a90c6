/* Around a sampled product: rows that a kernel cannot read as they lie are decoded to panels in scratch, sums are encoded.
 *
 * A block row's rows of dY are decoded once if all columns fit a panel. The rows of X are decoded for each block that meets
 * them, unless the program has decoded all of X before; that keeps to any limit on temporary memory. Where a panel holds
 * only some columns, sums of one chunk of columns are added to those of the chunks before. */
#ifndef POP_SPARSE_SAMPLE_FRAME_H
#define POP_SPARSE_SAMPLE_FRAME_H
#include "kernels/sparse/frame.h"

/* The elements of one block, `width` floats to a row; the kernels differ by level. */
typedef void (*pop_sample_block)(const char *y, int64_t y_row, const char *x, int64_t x_row, int64_t height, int64_t width,
                                 int64_t columns, float *sums, int64_t sums_row);
typedef void (*pop_sample_elements)(const char *y, const char *x, int64_t x_row, const int32_t *inner, int64_t n,
                                    int64_t columns, float *sums);

#define SAMPLE_CHUNK 4096  /* floats: sums that wait for their encoding */
#define SAMPLE_ELEMENTS 8 /* rows of X that single elements take together */

typedef struct pop_sampler {
    const pop_sample_item *t;
    const pop_tile *tile;
    pop_sample_block block;
    pop_sample_elements elements;
    pop_decoding y, x;
    int64_t size;            /* bytes of an element in a panel */
    float *sums, *part;      /* of all chunks of columns so far, of one */
    char *y_panel, *x_panel;
    int64_t y_first, y_column; /* what the panel of dY holds: from which row and column */
} pop_sampler;

POP_INLINE void put_samples(const pop_sample_item *t, const pop_format *f, const float *sums, int64_t first, int64_t n,
                            const pop_tile *tile)
{
    pop_encode_line(f, t->overflow, sums, tile->operands[t->to] + first * pop_bytes(f), n);
}

static void put_sums(const pop_sampler *p, int64_t first, int64_t n)
{
    const pop_sample_item *t = p->t;
    const pop_format f = pop_scaled(*FORMATS[t->to_format], (int)t->to_scale);
#define PUT_4(number, layout) \
    case number: memcpy((float *)p->tile->operands[t->to] + first, p->sums, (size_t)n * 4); break;
#define PUT_2(number, layout) case number: put_samples(t, &layout, p->sums, first, n, p->tile); break;
#define PUT_1(number, layout)
#define PUT_CASE(bytes, constant, ...) PUT_##bytes(POP_IS_##constant, POP_##constant)
    switch (t->to_format) {
        POP_FORMATS(PUT_CASE)
    default: put_samples(t, &f, p->sums, first, n, p->tile);
    }
}

/* Some rows of dY from one column on, as the kernel reads them; `row` is bytes between them. */
static const char *rows_of_y(pop_sampler *p, int64_t first, int64_t rows, int64_t column, int64_t columns, int64_t *row)
{
    const pop_sample_item *t = p->t;
    const char *y = p->tile->operands[t->y] + t->y_offset + first * t->y_row + column * t->y_column;
    *row = t->y_row;
    if (!t->y_pack) return y;
    *row = t->chunk * p->size;
    if (p->y_first != first || p->y_column != column)
        pack_rows(&p->y, y, t->y_row, t->y_column, p->y_panel, *row, rows, columns);
    p->y_first = first;
    p->y_column = column;
    return p->y_panel;
}

static const char *rows_of_x(pop_sampler *p, int64_t first, int64_t rows, int64_t column, int64_t columns, int64_t *row)
{
    const pop_sample_item *t = p->t;
    const char *x = p->tile->operands[t->x] + t->x_offset + first * t->x_row + column * t->x_column;
    *row = t->x_row;
    if (!t->x_pack) return x;
    *row = t->chunk * p->size;
    pack_rows(&p->x, x, t->x_row, t->x_column, p->x_panel, *row, rows, columns);
    return p->x_panel;
}

static void add_part(pop_sampler *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) p->sums[i] += p->part[i];
}

/* Rows of a block go to scratch, as many as fit, and from there encoded to dW. */
static void sample_block(pop_sampler *p, int64_t q, int64_t row, int64_t height, int64_t width, int64_t k)
{
    const pop_sample_item *t = p->t;
    const int64_t some = least(t->block_rows, SAMPLE_CHUNK / t->block_depth > 1 ? SAMPLE_CHUNK / t->block_depth : 1);
    for (int64_t i = 0; i < t->block_rows; i += some) {
        const int64_t rows = least(some, t->block_rows - i), valid = least(rows, height - i), n = rows * t->block_depth;
        if (valid < rows || width < t->block_depth || !t->columns) memset(p->sums, 0, (size_t)n * 4);
        for (int64_t j = 0, y_row, x_row; valid > 0 && j < t->columns; j += t->chunk) {
            const int64_t columns = least(t->chunk, t->columns - j);
            const char *y = rows_of_y(p, row + i, valid, j, columns, &y_row);
            const char *x = rows_of_x(p, k, width, j, columns, &x_row);
            if (j && (valid < rows || width < t->block_depth)) memset(p->part, 0, (size_t)n * 4);
            p->block(y, y_row, x, x_row, valid, width, columns, j ? p->part : p->sums, t->block_depth);
            if (j) add_part(p, n);
        }
        put_sums(p, (q * t->block_rows + i) * t->block_depth, n);
    }
}

/* Single elements of a row that meet rows of X which must be decoded first. */
static void sample_decoded(pop_sampler *p, int64_t row, const int32_t *inner, int64_t n)
{
    static const int32_t in_turn[SAMPLE_ELEMENTS] = {0, 1, 2, 3, 4, 5, 6, 7};
    const pop_sample_item *t = p->t;
    memset(p->sums, 0, (size_t)n * 4);
    for (int64_t j = 0, y_row, x_row; j < t->columns; j += t->chunk) {
        const int64_t columns = least(t->chunk, t->columns - j);
        const char *y = rows_of_y(p, row, 1, j, columns, &y_row);
        for (int64_t q = 0; q < n; q += SAMPLE_ELEMENTS) {
            const int64_t some = least(SAMPLE_ELEMENTS, n - q), panel_row = t->chunk * p->size;
            char *const panel = p->x_panel;
            for (int64_t e = 0; e < some; e++) {
                p->x_panel = panel + e * panel_row;
                rows_of_x(p, inner[q + e], 1, j, columns, &x_row);
            }
            p->x_panel = panel;
            p->elements(y, panel, panel_row, in_turn, some, columns, p->part + q);
        }
        add_part(p, n);
    }
}

static void sample_elements(pop_sampler *p, const int32_t *inner, int64_t row, int64_t q0, int64_t q1)
{
    const pop_sample_item *t = p->t;
    for (int64_t q = q0; q < q1; q += SAMPLE_CHUNK) {
        const int64_t n = least(SAMPLE_CHUNK, q1 - q);
        if (t->x_pack) {
            sample_decoded(p, row, inner + q, n);
        } else {
            if (!t->columns) memset(p->sums, 0, (size_t)n * 4);
            for (int64_t j = 0, y_row; j < t->columns; j += t->chunk) {
                const int64_t columns = least(t->chunk, t->columns - j);
                const char *y = rows_of_y(p, row, 1, j, columns, &y_row);
                const char *x = p->tile->operands[t->x] + t->x_offset + j * t->x_column;
                p->elements(y, x, t->x_row, inner + q, n, columns, j ? p->part : p->sums);
                if (j) add_part(p, n);
            }
        }
        put_sums(p, q, n);
    }
}

static void sample(const pop_sample_item *t, const pop_tile *tile, pop_sample_block block, pop_sample_elements elements,
                   int64_t size)
{
    const int64_t *offsets = (const int64_t *)tile->operands[t->offsets];
    const int32_t *inner = (const int32_t *)tile->operands[t->inner];
    const int64_t floats = SAMPLE_CHUNK > t->block_depth ? SAMPLE_CHUNK : t->block_depth, packs = t->y_pack || t->x_pack;
    const int64_t y_rows = t->y_pack ? t->panel_rows : 0;
    pop_sampler p = {.t = t, .tile = tile, .block = block, .elements = elements, .size = size, .y_first = -1,
                     .y = decoding_of(t->y_format, t->y_scale, size == 2 && t->y_pack),
                     .x = decoding_of(t->x_format, t->x_scale, size == 2 && t->x_pack)};
    p.sums = (float *)tile->scratch;
    p.part = p.sums + (packs ? floats : 0);
    p.y_panel = (char *)(p.part + floats);
    p.x_panel = p.y_panel + y_rows * t->chunk * size;
    const int64_t first = pop_sparse_first(offsets, t->origin, t->n_rows, t->part, t->parts);
    const int64_t last = pop_sparse_first(offsets, t->origin, t->n_rows, t->part + 1, t->parts);
    for (int64_t r = first; r < last; r++) {
        const int64_t row = (r - t->origin) * t->block_rows, height = least(t->block_rows, t->rows - row);
        if (t->block_rows == 1 && t->block_depth == 1) {
            sample_elements(&p, inner, row, offsets[r], offsets[r + 1]);
            continue;
        }
        for (int64_t q = offsets[r]; q < offsets[r + 1]; q++) {
            const int64_t k = inner[q] * t->block_depth;
            sample_block(&p, q, row, height, least(t->block_depth, t->depth - k), k);
        }
    }
}
#endif
