/* How a pooling goes through its operands: units of rows of what is made, of one sample and one group of channels.
 *
 * A row that is made is made of rows that are read, which the tables of the outer axes name: first these are joined, element
 * by element, to a line in FP32, then windows along the last axis are taken from it, and the result is rounded once. */
#ifndef POP_POOL_WALK_H
#define POP_POOL_WALK_H
#include "drivers/strided_rows.h"
#include "kernels/pool/lines.h"
#include "program/program.h"

#define POP_RECORDS "records/pool.def"
#include "records/structs.h"

/* A unit, and where it works. */
typedef struct pop_pool_unit {
    const pop_pool *spec;
    const pop_pool_segment *segment;
    const pop_tile *tile;
    int64_t sample, channel, lanes; /* the first channel, and how many */
    int64_t row, rows;
    /* in the arena */
    const char **read, **copies;
    float *weights, *line, *flat, *made, *results, *decoded;
    int64_t *offsets, *numbers;
    char *free; /* what kernels have besides */
} pop_pool_unit;

/* How many units there are of a sample and a group, and where one is. */
static void pop_pool_begin(pop_pool_unit *u, int64_t number)
{
    const pop_pool *s = u->spec;
    u->segment = s->segments + number % s->segment_count;
    number /= s->segment_count;
    u->row = number % s->blocks * s->block;
    u->rows = pop_least(s->block, s->rows - u->row);
    number /= s->blocks;
    u->channel = number % s->groups * s->channels;
    u->lanes = pop_least(s->channels, s->all_channels - u->channel);
    u->sample = number / s->groups;
}

/* The unit behind the last one: without a division where that is the next channel's. */
POP_INLINE void pop_pool_next(pop_pool_unit *u, int64_t number, int first)
{
    const pop_pool *s = u->spec;
    if (first || s->segment_count > 1 || s->blocks > 1 || s->channels > 1 || u->channel + 1 == s->all_channels) pop_pool_begin(u, number);
    else u->channel++;
}

/* The arena, as the lowering counts it. */
static void pop_pool_rooms(pop_pool_unit *u)
{
    const pop_pool *s = u->spec;
    const int64_t line = s->places * s->channels + 2 * POP_POOL_SLACK;
    u->read = (const char **)(void *)u->tile->scratch;
    u->copies = u->read + 2 * s->row_limit;
    u->offsets = (int64_t *)(void *)(u->copies + s->row_limit);
    u->numbers = u->offsets + s->row_limit;
    u->weights = (float *)(void *)(u->numbers + s->row_limit);
    u->line = u->weights + s->row_limit;
    u->flat = u->line + line;
    u->made = u->flat + line;
    u->results = u->made + s->join * s->joined * s->channels + POP_POOL_SLACK;
    u->decoded = u->results + s->result_room;
    u->free = (char *)(((uintptr_t)(u->decoded + s->decoded_room) + 7) & ~(uintptr_t)7); /* which begins with numbers of 64 bits */
}

/* Rows that a row is made of: their offsets in elements, their places where all rows are counted, and their weights; returns how
 * many. The product of the divisors goes to `divisor`. */
static int64_t pop_pool_rows(const pop_pool_unit *u, int64_t row, float *divisor)
{
    const pop_pool *s = u->spec;
    int64_t *offsets = u->offsets, *numbers = u->numbers;
    int64_t index[64], count = 1;
    for (int64_t d = s->axis_count - 1; d >= 0; d--) index[d] = d ? row % s->axes[d].extent : row, row /= s->axes[d].extent;
    offsets[0] = numbers[0] = 0, u->weights[0] = 1.0f, *divisor = 1.0f;
    for (int64_t d = 0; d < s->axis_count; d++) {
        const pop_pool_axis *axis = s->axes + d;
        const int64_t first = axis->first[index[d]], n = axis->first[index[d] + 1] - first;
        if (axis->divisors) *divisor *= axis->divisors[index[d]];
        for (int64_t i = count - 1; i >= 0; i--) {
            const int64_t offset = offsets[i], number = numbers[i];
            const float weight = u->weights[i];
            for (int64_t k = n - 1; k >= 0; k--) {
                const int64_t at = axis->coordinates[first + k];
                offsets[i * n + k] = offset + at * axis->read_stride;
                numbers[i * n + k] = number + at * axis->read_step;
                u->weights[i * n + k] = axis->weights ? weight * axis->weights[first + k] : weight;
            }
        }
        count *= n;
    }
    return count;
}

/* Where a row that is made begins, in elements. */
static int64_t pop_pool_made_offset(const pop_pool *s, int64_t row)
{
    int64_t offset = 0;
    for (int64_t d = s->axis_count - 1; d >= 0; d--) {
        offset += (d ? row % s->axes[d].extent : row) * s->axes[d].made_stride;
        row /= s->axes[d].extent;
    }
    return offset;
}

/* Where the unit's channels of an operand begin. */
POP_INLINE char *pop_pool_base(const pop_pool_unit *u, const pop_pool_operand *o)
{
    return u->tile->operands[o->operand] + (u->sample * o->batch + u->channel * o->channel) * o->bytes;
}

/* `count` rows joined from `offset` bytes on, n elements. */
static void pop_pool_join_rows(const pop_pool_unit *u, const pop_pool_operand *o, const pop_pool_combine *how, const char *const *rows,
                               int64_t count, int64_t offset, int64_t n, float none, float *to)
{
    if (count == 0) {
        pop_pool_fill(to, none, n);
    } else if (o->format >= 0) {
        how[o->format == POP_IS_F32 ? 0 : o->format == POP_IS_F16 ? 1 : 2](rows, u->weights, count, offset, n, to);
    } else {
        for (int64_t j = 0; j < count; j++) {
            float *own = u->decoded + j * n;
            ((pop_decoder)o->codec)(&o->cast, rows[j] + offset, own, n);
            u->copies[j] = (const char *)own;
        }
        how[0](u->copies, u->weights, count, 0, n, to);
    }
}

static const pop_pool_combine pop_pool_maxima[] = {pop_pool_max_f32, pop_pool_max_f16, pop_pool_max_bf16};
static const pop_pool_combine pop_pool_sums[] = {pop_pool_sum_f32, pop_pool_sum_f16, pop_pool_sum_bf16};

/* Positions [at, at + n) of rows, joined to a line at its place. */
static void pop_pool_positions(const pop_pool_unit *u, const pop_pool_operand *o, const pop_pool_combine *how, const char *const *rows,
                               int64_t count, int64_t at, int64_t n, float none, float *to)
{
    const int64_t channels = u->spec->channels;
    if (o->position == channels && u->lanes == channels) {
        pop_pool_join_rows(u, o, how, rows, count, at * o->position * o->bytes, n * channels, none, to);
    } else {
        for (int64_t i = 0; i < n; i++)
            pop_pool_join_rows(u, o, how, rows, count, (at + i) * o->position * o->bytes, u->lanes, none, to + i * channels);
    }
}

/* Margins, before the first row of a unit. */
static void pop_pool_clear(const pop_pool_unit *u, float none)
{
    const int64_t n = u->spec->places * u->spec->channels;
    pop_pool_fill(u->line, none, n);
    if (u->spec->split > 1) pop_pool_fill(u->flat, none, n);
}

/* Windows from the line to `to`, the results of one row. */
static void pop_pool_windows(const pop_pool_unit *u, pop_pool_take take, const float *line, float *to)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const int direct = s->join == 1 && g->shift == 0;
    float *made = s->by_channel || direct ? to : u->made;
    for (const pop_pool_phase *p = s->phases; p < s->phases + s->phase_count; p++) {
        const int64_t count = p->count ? p->count : g->count;
        if (!s->by_channel) {
            take(line, s->taps + p->first, p->last - p->first, 1, 0, count, made + p->made, 0);
            continue;
        }
        int64_t from = 0, end = count; /* those that there are */
        if (p->made < g->shift) from = (g->shift - p->made + s->join - 1) / s->join;
        const int64_t left = g->shift + g->makes - p->made;
        end = pop_least(end, left > 0 ? (left + s->join - 1) / s->join : 0);
        if (from < end)
            take(line + from * s->advance * s->channels, s->taps + p->first, p->last - p->first, end - from,
                 s->advance * s->channels, u->lanes, to + (p->made + from * s->join - g->shift) * s->channels,
                 s->join * s->channels);
    }
    if (s->by_channel || direct) return;
    if (s->join == 1) {
        memcpy(to, made + g->shift, (size_t)g->makes * sizeof *to);
    } else {
        pop_pool_join(s->join, made, s->joined, u->flat, g->count);
        memcpy(to, u->flat + g->shift, (size_t)g->makes * sizeof *to);
    }
}

/* Where the results of a row are made: in memory, or in the arena. */
static float *pop_pool_result(const pop_pool_unit *u, const pop_pool_operand *o, int64_t row)
{
    const pop_pool *s = u->spec;
    const int64_t size = u->segment->makes * s->channels;
    if (o->codec || o->position != s->channels || u->lanes != s->channels)
        return u->results + (s->run ? row - u->row : 0) * size;
    const int64_t offset = pop_pool_made_offset(s, row) + u->segment->made * o->position;
    return (float *)(void *)(pop_pool_base(u, o) + offset * 4);
}

/* Results of a row, or of all rows of a unit once the last is made, to memory. */
static void pop_pool_put(const pop_pool_unit *u, const pop_pool_operand *o, int64_t row, const float *results)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const int whole = o->position == s->channels && u->lanes == s->channels;
    if (whole && !o->codec) return;
    const int64_t size = g->makes * s->channels;
    int64_t n = size, first = row;
    if (s->run && whole) {
        if (row + 1 < u->row + u->rows) return;
        first = u->row, n = u->rows * size, results = u->results;
    }
    char *to = pop_pool_base(u, o) + (pop_pool_made_offset(s, first) + g->made * o->position) * o->bytes;
    const int64_t runs = whole ? 1 : g->makes, lanes = whole ? n : u->lanes;
    for (int64_t i = 0; i < runs; i++, to += o->position * o->bytes, results += s->channels) {
        if (o->codec) ((pop_encoder)o->codec)(&o->cast, results, to, lanes, NULL);
        else memcpy(to, results, (size_t)lanes * sizeof *results);
    }
}

#include "kernels/pool/direct.h"
#include "kernels/pool/registers.h"

/* Poolings of maxima and of sums, and the gradients of sums: operands are what is read and what is made. */
static void pop_pool_walk(const void *work, const pop_tile *tile, const pop_pool_combine *how, pop_pool_take take,
                          const pop_pool_direct *direct, const pop_pool_registers *registers, float none)
{
    const pop_pool_item *item = (const pop_pool_item *)work;
    const pop_pool *s = item->spec;
    const pop_pool_operand *in = s->operands, *out = s->operands + 3;
    pop_pool_unit u = {.spec = s, .tile = tile};
    pop_pool_reach reach;
    pop_pool_code_reach codes = {0};
    if (registers == pop_pool_register_maxima && !pop_pool_code_reach_of(s, &codes)) codes.lanes = 0;
    if (!pop_pool_reach_of(s, &reach)) reach.lanes = 0;
    const int sum = registers == pop_pool_register_sums;
    pop_pool_columns columns;
    columns.segment = NULL;
    pop_pool_rooms(&u);
    for (int64_t i = 0; i < item->count; i++) {
        pop_pool_next(&u, item->first + i, i == 0);
        if (pop_pool_by_codes(&u, &codes) || (sum && pop_pool_sums_by_rows(&u, &reach)) || pop_pool_by_columns(&u, &reach, &columns, sum)) continue;
        if (pop_pool_by_registers(&u, &reach, registers) || pop_pool_by_channel(&u, direct)) continue;
        pop_pool_clear(&u, none);
        const pop_pool_segment *g = u.segment;
        const char *base = pop_pool_base(&u, in);
        float *flat = (s->split > 1 ? u.flat : u.line) + g->place * s->channels;
        for (int64_t row = u.row; row < u.row + u.rows; row++) {
            float divisor, *to = pop_pool_result(&u, out, row);
            const int64_t count = pop_pool_rows(&u, row, &divisor);
            for (int64_t j = 0; j < count; j++) u.read[j] = base + u.offsets[j] * in->bytes;
            pop_pool_positions(&u, in, how, u.read, count, g->read, g->reads, none, flat);
            if (s->multipliers) pop_pool_multiply(flat, s->multipliers + g->read, 1.0f, g->reads, u.lanes, s->channels);
            if (s->split > 1) pop_pool_split(s->split, u.flat, u.line, s->pitch);
            pop_pool_windows(&u, take, u.line, to);
            if (s->divisors) pop_pool_divide(to, s->divisors + g->made, divisor, g->makes, u.lanes, s->channels);
            pop_pool_put(&u, out, row, to);
        }
    }
}
#endif
