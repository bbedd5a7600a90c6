/* Gradients of maxima, from what was pooled or from places.
 *
 * Each element that is the maximum of a window takes the window's gradient, or its share of it where several are; by places the
 * one whose place the window's is: then words are compared instead of numbers, an element's own with those of windows. Lines are
 * those of maxima and of gradients, decoded once and kept for the next rows. */
#ifndef POP_POOL_GRADIENT_H
#define POP_POOL_GRADIENT_H
#include "kernels/pool/gradient_codes.h"

/* What the windows of one row bring: x, and what is made, as phases have them. */
static void pop_pool_gradient_windows(const pop_pool_unit *u, const float *x, const float *top, const float *grad, float *made)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const int64_t apart = s->join * s->channels;
    for (const pop_pool_phase *p = s->phases; p < s->phases + s->phase_count; p++) {
        const int64_t results = p->count ? p->count : g->count, taps = p->last - p->first;
        if (!s->by_channel) {
            pop_pool_take_gradient(s->by_place, x + p->made, top, grad, s->taps + p->first, taps, 1, 0, results, made + p->made,
                                   0, 0);
            continue;
        }
        int64_t from = 0;
        if (p->made < g->shift) from = (g->shift - p->made + s->join - 1) / s->join;
        const int64_t left = g->shift + g->makes - p->made;
        const int64_t end = pop_least(results, left > 0 ? (left + s->join - 1) / s->join : 0);
        const int64_t at = (p->made + from * s->join - g->shift) * s->channels, skip = from * s->advance * s->channels;
        if (from < end)
            pop_pool_take_gradient(s->by_place, x + at, top + skip, grad + skip, s->taps + p->first, taps, end - from,
                                   s->advance * s->channels, u->lanes, made + at, apart, apart);
    }
}

/* How many units, this one first, are done without lines: none or one, or channels one after another. */
static int64_t pop_pool_gradient_direct(pop_pool_unit *u, pop_pool_pairs *by_rows, const pop_pool_reach *reach,
                                        const pop_pool_code_taps *codes, const pop_pool_kept *words, int64_t left)
{
    if (by_rows) return pop_pool_gradient_of_rows(u, reach, by_rows), 1;
    const int64_t done = pop_pool_gradient_by_codes(u, codes, left);
    if (done) u->channel += done - 1;
    return done ? done : pop_pool_gradient_by_registers(u, reach) || pop_pool_gradient_by_channel(u, words);
}

/* Operands are the gradient, the field, the maxima, and what is made. */
static void pop_pool_max_gradient(const void *work, const pop_tile *tile)
{
    const pop_pool_item *item = (const pop_pool_item *)work;
    const pop_pool *s = item->spec;
    const pop_pool_operand *in = s->operands, *field = in + 1, *maxima = in + 2, *out = in + 3;
    pop_pool_unit u = {.spec = s, .tile = tile};
    pop_pool_rooms(&u);
    const int64_t line = s->places * s->channels + 2 * POP_POOL_SLACK;
    int64_t *kept = (int64_t *)(void *)u.free;
    float *lines = (float *)(void *)(kept + s->slots), *x = lines + 2 * s->slots * line;
    const pop_pool_kept words = {kept, lines, line};
    pop_pool_reach reach;
    pop_pool_code_taps codes;
    if (!pop_pool_reach_of(s, &reach)) reach.lanes = 0;
    pop_pool_code_taps_of(s, &codes);
    pop_pool_pairs pairs;
    pop_pool_pairs *by_rows = pop_pool_by_rows(s, &reach, &pairs) ? &pairs : NULL;
    for (int64_t i = 0, done; i < item->count; i += done ? done : 1) {
        pop_pool_next(&u, item->first + i, i == 0);
        done = pop_pool_gradient_direct(&u, by_rows, &reach, &codes, &words, item->count - i);
        if (done) continue;
        const pop_pool_segment *g = u.segment;
        for (int64_t k = 0; k < s->slots; k++) {
            kept[k] = -1;
            memset(lines + 2 * k * line, 0xff, (size_t)(s->places * s->channels) * 4); /* NaN, and the place of none */
            pop_pool_fill(lines + (2 * k + 1) * line, 0.0f, s->places * s->channels);
        }
        const int by_channel = s->by_channel;
        const int64_t size = by_channel ? g->makes * s->channels : s->join * s->joined;
        for (int64_t row = u.row; row < u.row + u.rows; row++) {
            float divisor, *to = pop_pool_result(&u, out, row), *made = by_channel ? to : u.made;
            const int64_t count = pop_pool_rows(&u, row, &divisor);
            const int split = !by_channel && s->join > 1;
            float *flat = split ? u.flat : x, *own = flat + (by_channel ? 0 : g->shift);
            if (s->by_place) pop_pool_own_places(&u, row, g->made, g->makes, own);
            else pop_pool_one_row(&u, field, pop_pool_made_offset(s, row), g->made, g->makes, own);
            if (split) pop_pool_split(s->join, flat, x, s->joined);
            pop_pool_fill(made, 0.0f, size);
            for (int64_t j = 0; j < count; j++) {
                const int64_t number = u.numbers[j], slot = number % s->slots;
                float *top = lines + 2 * slot * line, *grad = top + line;
                if (kept[slot] != number) {
                    const int64_t offset = u.offsets[j];
                    const pop_pool_row_reader read = s->by_place ? pop_pool_places_row : pop_pool_one_row;
                    read(&u, maxima, offset, g->read, g->reads, top + g->place * s->channels);
                    pop_pool_one_row(&u, in, offset, g->read, g->reads, grad + g->place * s->channels);
                    kept[slot] = number;
                }
                pop_pool_gradient_windows(&u, x, top, grad, made);
            }
            if (!by_channel) {
                if (s->join > 1) pop_pool_join(s->join, made, s->joined, u.flat, g->count);
                memcpy(to, (s->join > 1 ? u.flat : made) + g->shift, (size_t)g->makes * sizeof *to);
            }
            pop_pool_put(&u, out, row, to);
        }
    }
}

/* Windows' gradients divided by how many of their elements are the maximum. Operands are the field, the gradient, the maxima,
 * and what is made: FP32 in C order. Margins are NaN. */
static void pop_pool_ties(const void *work, const pop_tile *tile)
{
    const pop_pool_item *item = (const pop_pool_item *)work;
    const pop_pool *s = item->spec;
    const pop_pool_operand *in = s->operands, *gradient = in + 1, *maxima = in + 2, *out = in + 3;
    pop_pool_unit u = {.spec = s, .tile = tile};
    pop_pool_rooms(&u);
    float *top = (float *)(void *)u.free;
    for (int64_t i = 0; i < item->count; i++) {
        pop_pool_begin(&u, item->first + i);
        pop_pool_clear(&u, NAN);
        const pop_pool_segment *g = u.segment;
        const int64_t size = g->makes * s->channels;
        float *grad = top + size + POP_POOL_SLACK, *ones = grad + size + POP_POOL_SLACK;
        float *flat = (s->split > 1 ? u.flat : u.line) + g->place * s->channels;
        pop_pool_fill(ones, 1.0f, s->places * s->channels);
        for (int64_t row = u.row; row < u.row + u.rows; row++) {
            float divisor, *to = pop_pool_result(&u, out, row);
            const int64_t count = pop_pool_rows(&u, row, &divisor), made = pop_pool_made_offset(s, row);
            pop_pool_one_row(&u, maxima, made, g->made, g->makes, top);
            pop_pool_one_row(&u, gradient, made, g->made, g->makes, grad);
            pop_pool_fill(to, 0.0f, size);
            for (int64_t j = 0; j < count; j++) {
                pop_pool_one_row(&u, in, u.offsets[j], g->read, g->reads, flat);
                if (s->split > 1) pop_pool_split(s->split, u.flat, u.line, s->pitch);
                for (const pop_pool_phase *p = s->phases; p < s->phases + s->phase_count; p++)
                    for (int64_t t = p->first; t < p->last; t++) { /* here the line is what is compared, and ones are counted */
                        const int64_t results = p->count ? p->count : g->count, none = 0;
                        pop_pool_take_gradient(0, top + p->made * s->channels, u.line + s->taps[t], ones, &none, 1,
                                               s->by_channel ? results : 1,
                                               s->advance * s->channels, s->by_channel ? u.lanes : results,
                                               to + p->made * s->channels, s->channels, s->channels);
                    }
            }
            for (int64_t k = 0; k < size; k++) to[k] = grad[k] / (to[k] > 1.0f ? to[k] : 1.0f);
            pop_pool_put(&u, out, row, to);
        }
    }
}
#endif
