/* Maxima with their places, gradients of maxima, and what comes back to places. */
#ifndef POP_POOL_PLACES_H
#define POP_POOL_PLACES_H
#include "kernels/pool/walk.h"

/* Numbers as words of the same order: zeros are one, NaN is above all. The same function leads back. */
POP_INLINE pop_v_i pop_pool_key(pop_v_f x)
{
    const pop_v_i bits = pop_v_bits(x + pop_v_splat(0.0f)), folded = bits ^ ((bits >> 31) & 0x7fffffff);
    return pop_v_select(pop_v_eq_f(x, x), pop_v_set(0x7fc00000), folded);
}

#define POP_POOL_LEAST (-0x7f800001) /* the key of minus infinity */
#define POP_POOL_NOWHERE 0x7fffffff
#define POP_POOL_PLACES 512 /* that are found at a time; a group of channels has no more */

POP_INLINE void pop_pool_store_some(pop_pool_word *to, pop_v_i x, int64_t n)
{
    if (n >= POP_LANES) pop_v_store(to, 4, x);
    else pop_v_store_some(to, 4, x, pop_v_first(n));
}

/* Keys of rows joined, and where the first of the greatest is: `numbers` say where rows begin. `step`: from lane to lane. */
static void pop_pool_find(const pop_pool_unit *u, int64_t count, int64_t n, const float *const *rows, int64_t at, int step,
                          pop_pool_word *keys, pop_pool_word *places)
{
    pop_v_i lanes = pop_v_set(0);
    for (int l = 0; l < POP_LANES; l++) lanes[l] = l * step;
    for (int64_t i = 0; i < n; i += POP_LANES) {
        const int part = n - i < POP_LANES ? (int)(n - i) : POP_LANES;
        pop_v_i key = pop_v_set(POP_POOL_LEAST), place = pop_v_set(POP_POOL_NOWHERE);
        for (int64_t j = 0; j < count; j++) {
            const pop_v_i x = pop_pool_key(pop_v_decode_part(&POP_F32, rows[j] + i, part));
            const pop_v_m better = pop_v_gt(x, key);
            const pop_v_i here = pop_v_add(pop_v_set((int32_t)(u->numbers[j] + at + i * step)), lanes);
            place = j ? pop_v_select(better, place, here) : here;
            key = pop_v_select(better, key, x);
        }
        pop_pool_store_some(keys + i, key, n - i);
        pop_pool_store_some(places + i, place, n - i);
    }
}

/* Windows of keys and places: the greatest key, and of equal ones the first place. */
static void pop_pool_take_places(const pop_pool_word *keys, const pop_pool_word *places, const int64_t *taps, int64_t count,
                                 int64_t times, int64_t advance, int64_t lanes, float *to, int64_t *found, int64_t step)
{
    for (int64_t k = 0; k < times; k++, keys += advance, places += advance, to += step, found += step)
        for (int64_t l = 0; l < lanes; l += POP_LANES) {
            pop_v_i key = pop_v_set(POP_POOL_LEAST), place = pop_v_set(POP_POOL_NOWHERE);
            for (int64_t t = 0; t < count; t++) {
                const pop_v_i x = pop_v_load(keys + taps[t] + l, 4), at = pop_v_load(places + taps[t] + l, 4);
                const pop_v_i first = pop_v_select(pop_v_gt(place, at), place, at);
                place = pop_v_select(pop_v_eq(x, key), pop_v_select(pop_v_gt(x, key), place, at), first);
                key = pop_v_maximum(key, x);
            }
            const int64_t n = pop_least(POP_LANES, lanes - l);
            const pop_v_i bits = key ^ ((key >> 31) & 0x7fffffff);
            pop_pool_store_some((pop_pool_word *)(void *)(to + l), bits, n);
            for (int64_t i = 0; i < n; i++) found[l + i] = place[i] == POP_POOL_NOWHERE ? -1 : place[i];
        }
}

/* Rows in FP32: where they lie, or decoded. */
static void pop_pool_numbers(const pop_pool_unit *u, const pop_pool_operand *o, int64_t count, int64_t offset, int64_t n, const float **to)
{
    for (int64_t j = 0; j < count; j++) {
        const char *row = u->read[j] + offset;
        if (o->format == POP_IS_F32) {
            to[j] = (const float *)(const void *)row;
            continue;
        }
        float *own = u->decoded + j * n;
        ((pop_decoder)o->codec)(&o->cast, row, own, n);
        to[j] = own;
    }
}

/* Maxima with their places: operand 1 has the maxima, operand 2 the places, both in C order of the layout. */
static void pop_pool_max_places(const void *work, const pop_tile *tile)
{
    const pop_pool_item *item = (const pop_pool_item *)work;
    const pop_pool *s = item->spec;
    const pop_pool_operand *in = s->operands, *out = s->operands + 3, *where = s->operands + 2;
    pop_pool_unit u = {.spec = s, .tile = tile};
    pop_pool_rooms(&u);
    const int64_t line = s->places * s->channels + 2 * POP_POOL_SLACK;
    pop_pool_word *keys = (pop_pool_word *)u.line, *flat = (pop_pool_word *)u.flat;
    pop_pool_word *places = (pop_pool_word *)(void *)u.free, *flat_places = places + line;
    for (int64_t i = 0; i < item->count; i++) {
        pop_pool_begin(&u, item->first + i);
        const pop_pool_segment *g = u.segment;
        for (int64_t k = 0; k < s->places * s->channels; k++) {
            keys[k] = flat[k] = (pop_pool_word)POP_POOL_LEAST;
            places[k] = flat_places[k] = POP_POOL_NOWHERE;
        }
        const char *base = pop_pool_base(&u, in);
        pop_pool_word *to_keys = (s->split > 1 ? flat : keys) + g->place * s->channels;
        pop_pool_word *to_places = (s->split > 1 ? flat_places : places) + g->place * s->channels;
        for (int64_t row = u.row; row < u.row + u.rows; row++) {
            float divisor, *to = pop_pool_result(&u, out, row);
            const int64_t count = pop_pool_rows(&u, row, &divisor), runs = s->by_channel ? g->reads : 1;
            const int64_t n = s->by_channel ? u.lanes : g->reads;
            const float **rows = (const float **)(void *)u.copies;
            for (int64_t j = 0; j < count; j++) u.read[j] = base + u.offsets[j] * in->bytes;
            for (int64_t p = 0; p < runs; p++) {
                pop_pool_numbers(&u, in, count, (g->read + p) * in->position * in->bytes, n, rows);
                pop_pool_find(&u, count, n, rows, g->read + p, !s->by_channel, to_keys + p * s->channels, to_places + p * s->channels);
            }
            if (s->split > 1) {
                pop_pool_split(s->split, u.flat, u.line, s->pitch);
                pop_pool_split(s->split, (const float *)(const void *)flat_places, (float *)(void *)places, s->pitch);
            }
            int64_t *found = (int64_t *)(void *)pop_pool_base(&u, where) + pop_pool_made_offset(s, row) + g->made * where->position;
            for (const pop_pool_phase *p = s->phases; p < s->phases + s->phase_count; p++) {
                const int64_t results = p->count ? p->count : g->count;
                int64_t own[POP_POOL_PLACES];
                const int64_t most = s->by_channel ? POP_POOL_PLACES / s->channels : POP_POOL_PLACES;
                for (int64_t k = 0; k < results; k += most) { /* where places do not lie as maxima do, by way of the stack */
                    const int64_t here = pop_least(most, results - k), at = p->made + k;
                    const int64_t from = s->by_channel ? k * s->advance * s->channels : k;
                    pop_pool_take_places(keys + from, places + from, s->taps + p->first, p->last - p->first, s->by_channel ? here : 1,
                                         s->advance * s->channels, s->by_channel ? u.lanes : here, to + at * s->channels, own, s->channels);
                    for (int64_t r = 0; r < here; r++)
                        memcpy(found + (at + r) * where->position, own + r * s->channels, (size_t)u.lanes * sizeof *found);
                }
            }
            pop_pool_put(&u, out, row, to);
        }
    }
}
#endif
