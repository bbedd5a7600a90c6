/* Regions of a field sampled at points between its elements, and what their gradients bring to it.
 *
 * A sample is linear in its row and in its column: a bin's rows are joined first, each times its weight, in ascending order; then
 * the columns of what that gives; the sum is divided by how many samples there are. A gradient goes the other way. All is FP32. */
#ifndef POP_POOL_REGIONS_H
#define POP_POOL_REGIONS_H
#include "kernels/pool/walk.h"

#define POP_RECORDS "records/regions.def"
#include "records/structs.h"

typedef struct pop_regions_unit {
    const pop_regions *spec;
    const pop_tile *tile;
    const int32_t *places; /* of a sample: the element before it and that after */
    const float *weights;
    int64_t channel, lanes;
    const char **rows;
    float *own, *line, *plane; /* weights of rows; a line of the field, or a row of results; a field */
} pop_regions_unit;

static pop_regions_unit pop_regions_begin(const pop_regions *s, const pop_tile *tile)
{
    pop_regions_unit u = {.spec = s, .tile = tile};
    u.places = (const int32_t *)(const void *)tile->operands[2], u.weights = (const float *)(const void *)tile->operands[3];
    u.rows = (const char **)(void *)tile->scratch;
    u.own = (float *)(void *)(u.rows + s->row_limit);
    u.line = u.own + s->row_limit;
    u.plane = u.line + (s->width + s->columns) * s->lanes + 2 * POP_POOL_SLACK;
    return u;
}

/* x += w y */
POP_INLINE void pop_regions_add(float *x, const float *y, float w, int64_t n)
{
    const pop_v_f by = pop_v_splat(w);
    if (n == 1) {
        *x = fmaf(*y, w, *x);
        return;
    }
    for (int64_t i = 0; i < n; i += POP_LANES) {
        const int part = (int)pop_least(POP_LANES, n - i);
        const pop_v_f sum = pop_v_fma(pop_v_decode_part(&POP_F32, y + i, part), by, pop_v_decode_part(&POP_F32, x + i, part));
        pop_v_encode_part(&POP_F32, 0, x + i, sum, part);
    }
}

/* n elements of rows, from `offset` elements on, joined to `to`. */
static void pop_regions_join(const pop_regions_unit *u, int64_t count, int64_t offset, int64_t n, float *to)
{
    const pop_pool_operand *o = &u->spec->read;
    if (o->format >= 0) {
        pop_pool_sums[pop_pool_direct_format(o->format)](u->rows, u->own, count, offset * o->bytes, n, to);
        return;
    }
    pop_pool_fill(to, 0.0f, n);
    for (int64_t j = 0; j < count; j++) {
        ((pop_decoder)o->codec)(&o->cast, u->rows[j] + offset * o->bytes, u->plane, n);
        pop_regions_add(to, u->plane, u->own[j], n);
    }
}

/* Results, or a field, to memory: `positions` of the unit's lanes. */
static void pop_regions_put(const pop_regions_unit *u, char *to, const float *results, int64_t positions)
{
    const pop_pool_operand *o = &u->spec->made;
    const int whole = o->position == u->spec->lanes && u->lanes == u->spec->lanes;
    const int64_t runs = whole ? 1 : positions, n = whole ? positions * u->lanes : u->lanes;
    for (int64_t i = 0; i < runs; i++, to += o->position * o->bytes, results += u->spec->lanes) {
        if (o->codec) ((pop_encoder)o->codec)(&o->cast, results, to, n, NULL);
        else memcpy(to, results, (size_t)n * sizeof *results);
    }
}

/* Rows of a region's bins: the samples of a group of channels. */
static void pop_regions_sample(pop_regions_unit *u, const pop_region *r, int64_t region)
{
    const pop_regions *s = u->spec;
    const pop_pool_operand *in = &s->read, *out = &s->made;
    const int64_t lanes = s->lanes, width = r->end - r->begin;
    const float count = (float)(r->rows * r->columns > 0 ? r->rows * r->columns : 1);
    const char *field = u->tile->operands[0] + (r->sample * in->batch + u->channel * in->channel) * in->bytes;
    char *to = u->tile->operands[4] + (region * out->batch + u->channel * out->channel) * out->bytes;
    float *results = u->line + s->width * lanes + POP_POOL_SLACK;
    for (int64_t row = 0; row < s->rows; row++, to += s->columns * out->position * out->bytes) {
        const int64_t first = r->first_row + row * r->rows;
        int64_t rows = 0; /* that count: 0 times an infinity is none */
        for (int64_t j = 2 * first; j < 2 * (first + r->rows); j++) {
            if (u->weights[j] == 0.0f) continue;
            u->rows[rows] = field + u->places[j] * s->width * in->position * in->bytes;
            u->own[rows++] = u->weights[j];
        }
        if (in->position == u->lanes)
            pop_regions_join(u, rows, r->begin * in->position, width * lanes, u->line);
        else
            for (int64_t k = 0; k < width; k++)
                pop_regions_join(u, rows, (r->begin + k) * in->position, u->lanes, u->line + k * lanes);
        pop_pool_fill(results, 0.0f, s->columns * lanes);
        for (int64_t column = 0; column < s->columns; column++) {
            const int64_t from = 2 * (r->first_column + column * r->columns);
            for (int64_t j = from; j < from + 2 * r->columns; j++)
                if (u->weights[j] != 0.0f)
                    pop_regions_add(results + column * lanes, u->line + (u->places[j] - r->begin) * lanes, u->weights[j],
                                    u->lanes);
        }
        pop_pool_divide(results, NULL, count, s->columns, u->lanes, lanes);
        pop_regions_put(u, to, results, s->columns);
    }
}

/* What a region's gradients bring to a field: first along the columns of each row of bins, then to the rows. */
static void pop_regions_bring(pop_regions_unit *u, const pop_region *r, int64_t region, float *plane)
{
    const pop_regions *s = u->spec;
    const pop_pool_operand *in = &s->read;
    const int64_t lanes = s->lanes;
    const float count = (float)(r->rows * r->columns > 0 ? r->rows * r->columns : 1);
    const char *grads = u->tile->operands[0] + (region * in->batch + u->channel * in->channel) * in->bytes;
    float *own = u->line + s->width * lanes + POP_POOL_SLACK;
    for (int64_t row = 0; row < s->rows; row++) {
        u->rows[0] = grads + row * s->columns * in->position * in->bytes, u->own[0] = 1.0f;
        for (int64_t column = 0; column < s->columns; column++)
            pop_regions_join(u, 1, column * in->position, u->lanes, own + column * lanes);
        pop_pool_divide(own, NULL, count, s->columns, u->lanes, lanes);
        pop_pool_fill(u->line, 0.0f, (r->end - r->begin) * lanes);
        for (int64_t column = 0; column < s->columns; column++) {
            const int64_t from = 2 * (r->first_column + column * r->columns);
            for (int64_t j = from; j < from + 2 * r->columns; j++)
                if (u->weights[j] != 0.0f)
                    pop_regions_add(u->line + (u->places[j] - r->begin) * lanes, own + column * lanes,
                                    u->weights[j], u->lanes);
        }
        const int64_t first = 2 * (r->first_row + row * r->rows);
        for (int64_t j = first; j < first + 2 * r->rows; j++)
            if (u->weights[j] != 0.0f)
                pop_regions_add(plane + (u->places[j] * s->width + r->begin) * lanes, u->line, u->weights[j],
                                (r->end - r->begin) * lanes);
    }
}

static void pop_regions_unit_of(pop_regions_unit *u, int64_t number)
{
    u->channel = number % u->spec->groups * u->spec->lanes;
    u->lanes = pop_least(u->spec->lanes, u->spec->all_channels - u->channel);
}

static void pop_pool_regions(const void *work, const pop_tile *tile)
{
    const pop_regions_item *item = (const pop_regions_item *)work;
    const pop_regions *s = item->spec;
    const pop_region *regions = (const pop_region *)(const void *)tile->operands[1];
    pop_regions_unit u = pop_regions_begin(s, tile);
    for (int64_t i = item->first; i < item->first + item->count; i++) {
        pop_regions_unit_of(&u, i);
        pop_regions_sample(&u, regions + i / s->groups, i / s->groups);
    }
}

static void pop_pool_regions_gradient(const void *work, const pop_tile *tile)
{
    const pop_regions_item *item = (const pop_regions_item *)work;
    const pop_regions *s = item->spec;
    const pop_pool_operand *out = &s->made;
    const pop_region *regions = (const pop_region *)(const void *)tile->operands[1];
    const int64_t elements = s->height * s->width;
    pop_regions_unit u = pop_regions_begin(s, tile);
    float *plane = u.plane + s->width * s->lanes + POP_POOL_SLACK; /* what is decoded goes before it */
    for (int64_t i = item->first; i < item->first + item->count; i++) {
        pop_regions_unit_of(&u, i);
        pop_pool_fill(plane, 0.0f, elements * s->lanes);
        for (int64_t r = 0; r < s->regions; r++)
            if (regions[r].sample == i / s->groups) pop_regions_bring(&u, regions + r, r, plane);
        char *to = tile->operands[4] + (i / s->groups * out->batch + u.channel * out->channel) * out->bytes;
        pop_regions_put(&u, to, plane, elements);
    }
}
#endif
