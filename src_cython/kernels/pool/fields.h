/* Gradients to whole fields: to the places that they belong to, or to every element. */
#ifndef POP_POOL_FIELDS_H
#define POP_POOL_FIELDS_H
#include "kernels/pool/gradient.h"

/* Gradients to the places that they belong to. Units are samples times groups of channels; operand 1 holds the places. A place is read
 * once, and met by its limit then: whatever another thread makes of it, what is written lies in the field. */
static void pop_pool_place_gradient(const void *work, const pop_tile *tile)
{
    const pop_pool_item *item = (const pop_pool_item *)work;
    const pop_pool *s = item->spec;
    const pop_pool_operand *in = s->operands, *where = in + 1, *out = in + 3;
    pop_pool_unit u = {.spec = s, .tile = tile};
    pop_pool_rooms(&u);
    for (int64_t i = 0; i < item->count; i++) {
        pop_pool_begin(&u, item->first + i);
        const pop_pool_segment *g = u.segment;
        float *to = pop_pool_result(&u, out, 0);
        const uint64_t limit = (uint64_t)g->makes;
        const int64_t *places = (const int64_t *)(const void *)pop_pool_base(&u, where);
        pop_pool_fill(to, 0.0f, g->makes * s->channels);
        for (int64_t r = 0; r < s->results; r += s->slots) {
            const int64_t n = pop_least(s->slots, s->results - r);
            pop_pool_one_row(&u, in, 0, r, n, u.line);
            if (s->channels == 1) {
                for (int64_t k = 0; k < n; k++) {
                    const uint64_t at = (uint64_t)places[r + k];
                    if (at < limit) to[at] += u.line[k];
                }
                continue;
            }
            for (int64_t k = 0; k < n; k++)
                for (int64_t c = 0; c < u.lanes; c++) {
                    const uint64_t at = (uint64_t)places[(r + k) * where->position + c];
                    if (at < limit) to[(int64_t)at * s->channels + c] += u.line[k * s->channels + c];
                }
        }
        pop_pool_put(&u, out, 0, to);
    }
}
/* The gradient of a window that is the whole field: one number for all elements of a channel. */
static void pop_pool_spread(const void *work, const pop_tile *tile)
{
    const pop_pool_item *item = (const pop_pool_item *)work;
    const pop_pool *s = item->spec;
    const pop_pool_operand *in = s->operands, *out = s->operands + 3;
    pop_pool_unit u = {.spec = s, .tile = tile};
    pop_pool_rooms(&u);
    for (int64_t i = 0; i < item->count; i++) {
        pop_pool_begin(&u, item->first + i);
        const int64_t n = u.segment->makes, size = u.lanes * out->bytes;
        char *to = pop_pool_base(&u, out), *codes = (char *)u.line;
        pop_pool_one_row(&u, in, 0, 0, 1, u.line);
        pop_pool_multiply(u.line, s->multipliers, 1.0f, 1, u.lanes, s->channels);
        if (out->codec) {
            ((pop_encoder)out->codec)(&out->cast, u.line, u.made, u.lanes, NULL);
            codes = (char *)u.made;
        }
        if (s->channels == 1) {
            pop_copy_row(out->bytes, to, out->bytes, codes, 0, n);
            continue;
        }
        for (int64_t k = 0; k < n; k++, to += out->position * out->bytes) memcpy(to, codes, (size_t)size);
    }
}
#endif
