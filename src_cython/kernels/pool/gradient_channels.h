/* Gradients of maxima where lanes are channels: an element is made of the windows that it is in. */
#ifndef POP_POOL_GRADIENT_CHANNELS_H
#define POP_POOL_GRADIENT_CHANNELS_H
#include "kernels/pool/places.h"

POP_INLINE pop_v_m pop_pool_same(int by_place, pop_v_f a, pop_v_f b)
{
    return by_place ? pop_v_eq(pop_v_bits(a), pop_v_bits(b)) : pop_v_eq_f(a, b);
}

/* a, which is not -0, and b where it is the same. */
POP_INLINE pop_v_f pop_pool_add_where(pop_v_m same, pop_v_f a, pop_v_f b)
{
#if POP_LANES == 16
    return (pop_v_f)_mm512_mask_add_ps(a, same, a, b);
#else
    return a + pop_v_float(pop_v_keep(same, pop_v_bits(b)));
#endif
}

/* `to` and what windows of one phase bring it: the gradients of those whose maximum it is. */
static void pop_pool_take_gradient(int by_place, const float *x, const float *maxima, const float *gradients, const int64_t *taps,
                                   int64_t count, int64_t times, int64_t advance, int64_t lanes, float *to, int64_t x_step,
                                   int64_t step)
{
    for (int64_t k = 0; k < times; k++, x += x_step, maxima += advance, gradients += advance, to += step)
        for (int64_t l = 0; l < lanes; l += POP_LANES) {
            const int part = (int)pop_least(POP_LANES, lanes - l);
            const pop_v_f own = pop_v_decode_part(&POP_F32, x + l, part);
            pop_v_f a = pop_v_decode_part(&POP_F32, to + l, part);
            for (int64_t t = 0; t < count; t++) {
                const pop_v_m same = pop_pool_same(by_place, own, pop_v_load_f(maxima + taps[t] + l));
                a = a + pop_v_float(pop_v_keep(same, pop_v_bits(pop_v_load_f(gradients + taps[t] + l))));
            }
            pop_v_encode_part(&POP_F32, 0, to + l, a, part);
        }
}

/* The first of some rows, in FP32, at its place on a line. */
static void pop_pool_one_row(const pop_pool_unit *u, const pop_pool_operand *o, int64_t offset, int64_t at, int64_t n, float *to)
{
    const char *row = pop_pool_base(u, o) + offset * o->bytes;
    u->weights[0] = 1.0f;
    pop_pool_positions(u, o, pop_pool_maxima, &row, 1, at, n, 0.0f, to);
}

/* -1 where no field has the place. */
POP_INLINE int32_t pop_pool_place_word(int64_t place) { return place == (int32_t)place ? (int32_t)place : -1; }

POP_INLINE pop_v_f pop_pool_words_of(const char *p, int n)
{
#if POP_LANES == 16
    if (n == POP_LANES) { /* without masks, so that the CPU asks ahead */
        const __m256i low = _mm512_cvtusepi64_epi32(_mm512_loadu_si512(p)), high = _mm512_cvtusepi64_epi32(_mm512_loadu_si512(p + 64));
        return (pop_v_f)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    return pop_pool_some_places(p, pop_v_first(n));
#else
#if POP_LANES == 8
    if (n == POP_LANES) return pop_pool_eight_places(p);
#endif
    pop_v_i words = pop_v_set(-1);
    for (int l = 0; l < n; l++) words[l] = pop_pool_place_word(((const int64_t *)(const void *)p)[l]);
    return pop_v_float(words);
#endif
}

/* Places of the first of some windows, and an element's own, as words on a line. */
static void pop_pool_places_row(const pop_pool_unit *u, const pop_pool_operand *o, int64_t offset, int64_t at, int64_t n, float *to)
{
    const int64_t channels = u->spec->channels;
    const int whole = o->position == channels && u->lanes == channels;
    const int64_t runs = whole ? 1 : n, lanes = whole ? n * channels : u->lanes;
    const char *places = pop_pool_base(u, o) + (offset + at * o->position) * 8;
    for (int64_t i = 0; i < runs; i++, places += 8 * o->position, to += channels)
        for (int64_t c = 0; c < lanes; c += POP_LANES) {
            const int64_t some = pop_least(POP_LANES, lanes - c);
            pop_pool_store_some((pop_pool_word *)(void *)(to + c), pop_v_bits(pop_pool_words_of(places + 8 * c, (int)some)), some);
        }
}
static void pop_pool_own_places(const pop_pool_unit *u, int64_t row, int64_t at, int64_t n, float *to)
{
    pop_pool_word *words = (pop_pool_word *)to, place = (pop_pool_word)(row * u->spec->made_extent + at);
    for (int64_t i = 0; i < n; i++, place++, words += u->spec->channels)
        for (int64_t c = 0; c < u->lanes; c++) words[c] = place;
}

typedef void (*pop_pool_row_reader)(const pop_pool_unit *, const pop_pool_operand *, int64_t, int64_t, int64_t, float *);

/* What the channels of one element are given by: rows of gradients and of maxima, or of words of places, two by two. */
typedef struct pop_pool_given {
    const char *x, *const *rows;
    char *to;
    const int64_t *at; /* coordinates of the last axis */
    int64_t place, count, taps, step[2], ahead;
    const char *grads, *tops; /* where there is a window that no element before was in: what is prefetched of the windows to come */
} pop_pool_given;

/* `vectors` of the channels from c on: the gradients of those windows whose maximum an element is. */
POP_INLINE void pop_pool_gradient_cells(const int *format, const pop_pool_given *s, int vectors, const int64_t count, const int64_t taps,
                                        int64_t c, int part)
{
    const int by_place = format[1] == POP_POOL_OF_PLACES;
    pop_v_f own[POP_POOL_CELLS], made[POP_POOL_CELLS];
    for (int v = 0; v < vectors; v++) {
        own[v] = by_place ? pop_v_float(pop_v_set((int32_t)s->place)) : pop_pool_load(format[1], s->x, c + v * POP_LANES, part);
        made[v] = pop_v_splat(0.0f);
    }
    for (int64_t j = 0; j < count; j++) {
        const char *const rows[2] = {s->rows[2 * j], s->rows[2 * j + 1]};
        for (int64_t t = 0; t < taps; t++) {
            const int64_t i = s->at[t] * s->step[0] + c, k = s->at[t] * s->step[1] + c;
            for (int v = 0; v < vectors; v++) {
                const pop_v_f top = pop_pool_load(by_place ? 0 : format[2], rows[1], k + v * POP_LANES, part);
                const pop_v_m same = pop_pool_same(by_place, own[v], top);
                made[v] = pop_pool_add_where(same, made[v], pop_pool_load(format[0], rows[0], i + v * POP_LANES, part));
            }
        }
    }
    for (int v = 0; v < vectors; v++) pop_pool_store(format[3], s->to, c + v * POP_LANES, made[v], part);
}

/* Ask for what the elements and windows to come have at the channels from c on. */
POP_INLINE void pop_pool_gradient_prefetches(const int *format, const pop_pool_given *s, int64_t c)
{
    const int by_place = format[1] == POP_POOL_OF_PLACES, bytes = format[0] ? 2 : 4;
    const int64_t from = c * bytes, end = from + POP_POOL_CELLS * POP_LANES * bytes;
    for (int64_t b = from; b < end; b += 64) {
        if (!by_place) pop_prefetch(pop_beyond(s->x + b, s->ahead));
        pop_prefetch_to_write(pop_beyond(s->to + b, s->ahead));
    }
    if (!s->grads) return;
    for (int64_t b = from; b < end; b += 64) {
        pop_prefetch(pop_beyond(s->grads, b));
        if (!by_place) pop_prefetch(pop_beyond(s->tops, b));
    }
}

POP_INLINE void pop_pool_gradient_all_cells(const int *format, const pop_pool_given *given, const int64_t count, const int64_t taps, int64_t n)
{
    const pop_pool_given here = *given, *s = &here; /* which nothing that is written may be */
    int64_t c = 0;
    for (; c + POP_POOL_CELLS * POP_LANES <= n; c += POP_POOL_CELLS * POP_LANES) {
        if (s->ahead) pop_pool_gradient_prefetches(format, s, c);
        pop_pool_gradient_cells(format, s, POP_POOL_CELLS, count, taps, c, POP_LANES);
    }
    for (; c < n; c += POP_LANES) pop_pool_gradient_cells(format, s, 1, s->count, s->taps, c, (int)pop_least(POP_LANES, n - c));
}

/* Whether all operands of a unit are read and written as they lie; their formats' places in tables. */
POP_INLINE int pop_pool_all_direct(const pop_pool *s, int *format)
{
    for (int i = 0; i < 4; i++) {
        if (s->operands[i].format < 0) return 0;
        format[i] = pop_pool_direct_format(s->operands[i].format);
    }
    if (s->by_place) format[1] = format[2] = POP_POOL_OF_PLACES;
    return 1;
}

/* Lines that are kept for the next rows, two by two, and the rows of windows that they are of. */
typedef struct pop_pool_kept {
    int64_t *numbers;
    float *lines;
    int64_t line;
} pop_pool_kept;

/* The words of places of a row of windows on a line that none of the row's others is on: there are lines enough. */
POP_INLINE float *pop_pool_words(const pop_pool_unit *u, const pop_pool_kept *kept, int64_t count, int64_t j)
{
    int64_t slot = 0;
    while (slot < u->spec->slots && kept->numbers[slot] != u->numbers[j]) slot++;
    if (slot == u->spec->slots) {
        for (int64_t k = slot = 0; k < count; k++)
            if (u->numbers[k] == kept->numbers[slot]) slot++, k = -1;
        kept->numbers[slot] = u->numbers[j];
        pop_pool_places_row(u, u->spec->operands + 2, u->offsets[j], u->segment->read, u->segment->reads,
                            kept->lines + 2 * slot * kept->line);
    }
    return kept->lines + 2 * slot * kept->line;
}

/* Addresses of the rows of gradients and of maxima, or of words of places, one after the other. */
POP_INLINE int64_t pop_pool_addresses(const pop_pool_unit *u, const pop_pool_kept *kept, int by_place, int64_t row)
{
    const pop_pool_operand *in = u->spec->operands, *maxima = in + 2;
    const char *grads = pop_pool_base(u, in), *tops = pop_pool_base(u, maxima);
    const int64_t before = u->segment->read * u->spec->channels;
    float divisor;
    const int64_t count = pop_pool_rows(u, row, &divisor);
    for (int64_t j = 0; j < count; j++) {
        u->read[2 * j] = grads + u->offsets[j] * in->bytes;
        if (by_place) u->read[2 * j + 1] = (const char *)(pop_pool_words(u, kept, count, j) - before);
        else u->read[2 * j + 1] = tops + u->offsets[j] * maxima->bytes;
    }
    return count;
}

/* A unit whose lanes are channels. */
POP_INLINE void pop_pool_gradient_channels(const pop_pool_unit *u, const pop_pool_kept *kept, const int *format)
{
    const pop_pool *s = u->spec;
    const pop_pool_operand *in = s->operands, *field = in + 1, *out = in + 3;
    const pop_pool_segment *g = u->segment;
    const int by_place = format[1] == POP_POOL_OF_PLACES;
    pop_pool_given own = {.rows = u->read, .step = {in->position, by_place ? s->channels : in[2].position}, .ahead = 4 * s->ahead};
    int64_t last_row = -1;
    for (int64_t k = 0; by_place && k < s->slots; k++) kept->numbers[k] = -1;
    for (int64_t row = u->row; row < u->row + u->rows; row++) {
        own.count = pop_pool_addresses(u, kept, by_place, row);
        const int fresh = own.ahead && own.count && u->numbers[own.count - 1] > last_row;
        last_row = own.count ? u->numbers[own.count - 1] : last_row;
        const char *const *rows = u->read + 2 * own.count - 2;
        const int64_t offset = pop_pool_made_offset(s, row) + g->made * out->position;
        int64_t last_tap = -1;
        own.x = pop_pool_base(u, field) + offset * field->bytes, own.to = pop_pool_base(u, out) + offset * out->bytes;
        for (int64_t m = g->made; m < g->made + g->makes; m++) {
            own.place = row * s->made_extent + m, own.at = s->coordinates + s->first[m], own.taps = s->first[m + 1] - s->first[m];
            own.grads = own.tops = NULL;
            if (fresh && own.taps && own.at[own.taps - 1] > last_tap) {
                last_tap = own.at[own.taps - 1];
                own.grads = rows[0] + last_tap * in->position * in->bytes + own.ahead;
                own.tops = rows[1] + last_tap * in[2].position * in[2].bytes + own.ahead;
            }
            const int64_t known = POP_ONE_BODY ? 0 : own.count;
            if (known == 1 && own.taps == 1) pop_pool_gradient_all_cells(format, &own, 1, 1, u->lanes);
            else if (known == 1 && own.taps == 2) pop_pool_gradient_all_cells(format, &own, 1, 2, u->lanes);
            else if (known == 2 && own.taps == 1) pop_pool_gradient_all_cells(format, &own, 2, 1, u->lanes);
            else if (known == 2 && own.taps == 2) pop_pool_gradient_all_cells(format, &own, 2, 2, u->lanes);
            else pop_pool_gradient_all_cells(format, &own, own.count, own.taps, u->lanes);
            own.x += field->position * field->bytes, own.to += out->position * out->bytes;
        }
    }
}

static int pop_pool_gradient_by_channel(const pop_pool_unit *u, const pop_pool_kept *kept)
{
    static const int known[6][4] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {0, 3, 3, 0}, {1, 3, 3, 1}, {2, 3, 3, 2}};
    int format[4];
    if (!u->spec->by_channel || !pop_pool_all_direct(u->spec, format)) return 0;
    switch (format[0] == format[3] && format[1] == format[2] && (format[0] == format[1] || u->spec->by_place)
                ? format[0] + 3 * u->spec->by_place : -1) { /* known where it is compiled */
    case 0: pop_pool_gradient_channels(u, kept, known[0]); break;
    case 1: pop_pool_gradient_channels(u, kept, known[1]); break;
    case 2: pop_pool_gradient_channels(u, kept, known[2]); break;
    case 3: pop_pool_gradient_channels(u, kept, known[3]); break;
    case 4: pop_pool_gradient_channels(u, kept, known[4]); break;
    case 5: pop_pool_gradient_channels(u, kept, known[5]); break;
    default: pop_pool_gradient_channels(u, kept, format);
    }
    return 1;
}
#endif
