/* Running sums, products and extremes along rows: in float64, one element after another, each rounded to FP32 once; sums are
 * those of eights, begun anew for each, on top of what came before, so that eights need not wait for each other. The bits are
 * the row's alone. Columns are taken side by side where they lie so. */
#ifndef POP_REDUCE_SCAN_H
#define POP_REDUCE_SCAN_H
#include "kernels/reduce/walk.h"

/* FP32 number i of those at p, which may lie between its places. */
POP_INLINE float pop_number_at(const char *p, int64_t i)
{
    float x;
    memcpy(&x, p + i * (int64_t)sizeof x, sizeof x);
    return x;
}

#define POP_SCAN_EIGHT 8

/* n elements of a row, from the first of an eight on; `held` is what came before. */
static void pop_scan_sums(double *held, const char *x, float *y, int64_t n)
{
    double s = *held;
    for (int64_t i = 0; i < n; i += POP_SCAN_EIGHT) {
        double numbers[POP_SCAN_EIGHT], eight = -0.0;
        if (i + POP_SCAN_EIGHT <= n) {
            for (int k = 0; k < POP_SCAN_EIGHT; k++) numbers[k] = pop_number_at(x, i + k);
            for (int k = 0; k < POP_SCAN_EIGHT; k++) numbers[k] = eight += numbers[k];
            for (int k = 0; k < POP_SCAN_EIGHT; k++) y[i + k] = (float)(s + numbers[k]);
        } else
            for (int64_t k = i; k < n; k++) y[k] = (float)(s + (eight += pop_number_at(x, k)));
        s += eight;
    }
    *held = s;
}

/* Element `r` of each of n columns; `held` is what came before its eight, and the eight so far. */
static void pop_scan_sums_of_columns(pop_state *held, int64_t r, const char *x, float *y, int64_t n)
{
    double *s = held->a, *eight = held->b;
    if (r % POP_SCAN_EIGHT == 0)
        for (int64_t i = 0; i < n; i++) s[i] += r ? eight[i] : -0.0, eight[i] = -0.0;
    for (int64_t i = 0; i < n; i++) y[i] = (float)(s[i] + (eight[i] += pop_number_at(x, i)));
}

/* The same of other states, an element after another. */
static void pop_scan_row(int state, double *held, const char *x, float *y, int64_t n)
{
    double s = *held;
    if (state == POP_STATE_PRODUCT)
        for (int64_t i = 0; i < n; i++) y[i] = (float)(s *= pop_number_at(x, i));
    else
        for (int64_t i = 0; i < n; i++) {
            if (pop_is_better(pop_number_at(x, i), s, state == POP_STATE_MIN)) s = pop_number_at(x, i);
            y[i] = (float)s;
        }
    *held = s;
}

/* An element of each of n columns. */
static void pop_scan_columns(int state, double *held, const char *x, float *y, int64_t n)
{
    if (state == POP_STATE_PRODUCT)
        for (int64_t i = 0; i < n; i++) y[i] = (float)(held[i] *= pop_number_at(x, i));
    else
        for (int64_t i = 0; i < n; i++) {
            if (pop_is_better(pop_number_at(x, i), held[i], state == POP_STATE_MIN)) held[i] = pop_number_at(x, i);
            y[i] = (float)held[i];
        }
}

POP_INLINE double pop_scan_first(int state)
{
    return state == POP_STATE_SUM ? -0.0 : state == POP_STATE_PRODUCT ? 1.0 : state == POP_STATE_MIN ? INFINITY : -INFINITY;
}

/* Where n results go that are made one after another: to `numbers`, or where they belong. */
POP_INLINE float *pop_scan_room(const pop_reduce *s, char *out, int64_t step, float *numbers)
{
    return s->encode || step != 1 ? numbers : (float *)(void *)out;
}

static void pop_scan_write(const pop_reduce *s, const float *made, char *out, int64_t step, int64_t n, char *codes)
{
    const int64_t bytes = s->out_bytes;
    if ((const char *)made == out) return;
    if (s->encode && step == 1) {
        ((pop_encoder)s->encode)(&s->write, made, out, n, NULL);
        return;
    }
    if (s->encode) ((pop_encoder)s->encode)(&s->write, made, codes, n, NULL);
    pop_copy_row(bytes, out, step * bytes, s->encode ? codes : (const char *)made, bytes, n);
}

static void pop_scan_rows(pop_reduce_walk *w, int64_t output)
{
    const pop_reduce *s = w->spec;
    pop_reduce_room *room = (pop_reduce_room *)(void *)w->tile->scratch;
    int64_t index[POP_REDUCE_AXES], first = 0;
    const char *row = w->tile->operands[0] + pop_reduce_offset(s->kept, s->kept_count, output, index);
    const int64_t step = s->reduced[s->reduced_count - 1].out;
    double held = pop_scan_first(s->state);
    for (int d = 0; d < s->kept_count; d++) first += index[d] * s->kept[d].out;
    for (int64_t r = 0, n; r < s->n; r += n) {
        n = pop_least(POP_GATHERED_ELEMENTS, s->n - r);
        char *out = w->tile->operands[1] + (first + r * step) * s->out_bytes;
        const char *x = pop_reduce_read(w, row, r, n, 0, s->run >= s->n);
        float *made = pop_scan_room(s, out, step, (float *)room->tree);
        if (s->state == POP_STATE_SUM) pop_scan_sums(&held, x, made, n);
        else pop_scan_row(s->state, &held, x, made, n);
        pop_scan_write(s, made, out, step, n, room->codes);
    }
}

static void pop_scan_strip(pop_reduce_walk *w, int64_t unit)
{
    const pop_reduce *s = w->spec;
    pop_reduce_room *room = (pop_reduce_room *)(void *)w->tile->scratch;
    const pop_reduce_axis *inner = s->kept + s->kept_count - 1;
    const int64_t strips = (inner->extent + POP_STRIP - 1) / POP_STRIP, column = unit % strips * POP_STRIP;
    const int64_t width = pop_least(POP_STRIP, inner->extent - column), step = s->reduced[s->reduced_count - 1].out;
    int64_t index[POP_REDUCE_AXES], first = column * inner->out;
    const char *base = w->tile->operands[0] + pop_reduce_offset(s->kept, s->kept_count - 1, unit / strips, index);
    for (int d = 0; d < s->kept_count - 1; d++) first += index[d] * s->kept[d].out;
    for (int64_t i = 0; i < width; i++) w->held.a[i] = pop_scan_first(s->state);
    for (int64_t r = 0; r < s->n; r += POP_BLOCK) {
        const int64_t n = pop_least(POP_BLOCK, s->n - r);
        pop_reduce_addresses(s, base, r, n, w->rows);
        for (int64_t i = 0; i < n; i++) {
            const char *codes = w->rows[i] + column * s->code_bytes;
            char *out = w->tile->operands[1] + (first + (r + i) * step) * s->out_bytes;
            float *made = pop_scan_room(s, out, inner->out, room->tree[0][0]);
            if (s->decode) ((pop_decoder)s->decode)(&s->read, codes, room->numbers, width);
            const char *x = s->decode ? (const char *)room->numbers : codes;
            if (s->state == POP_STATE_SUM) pop_scan_sums_of_columns(&w->held, r + i, x, made, width);
            else pop_scan_columns(s->state, w->held.a, x, made, width);
            pop_scan_write(s, made, out, inner->out, width, room->codes);
        }
    }
}

static void pop_scan_vertex(const void *work, const pop_tile *tile)
{
    const pop_reduce_item *item = (const pop_reduce_item *)work;
    pop_reduce_walk w;
    w.spec = item->spec, w.tile = tile;
    for (int64_t i = 0; i < item->count; i++) {
        if (w.spec->by_columns) pop_scan_strip(&w, item->first + i);
        else pop_scan_rows(&w, item->first + i);
    }
}
#endif
