/* Gradients of maxima, from what was pooled or from places.
 *
 * Each element that is the maximum of a window takes the window's gradient, or its share of it where several are; by places the
 * one whose place the window's is: then words are compared instead of numbers, an element's own with those of windows. Lines are
 * those of maxima and of gradients, decoded once and kept for the next rows. */
#ifndef POP_POOL_GRADIENT_H
#define POP_POOL_GRADIENT_H
#include "kernels/pool/places.h"

POP_INLINE pop_v_m pop_pool_same(int by_place, pop_v_f a, pop_v_f b)
{
    return by_place ? pop_v_eq(pop_v_bits(a), pop_v_bits(b)) : pop_v_eq_f(a, b);
}

/* `to` and what windows of one phase bring it: the gradients of those whose maximum it is. */
static void pop_pool_take_gradient(int by_place, const float *x, const float *maxima, const float *gradients, const int64_t *taps, int64_t count,
                                   int64_t times, int64_t advance, int64_t lanes, float *to, int64_t x_step, int64_t step)
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

/* Places of the first of some windows, and an element's own, as words on a line. */
static void pop_pool_places_row(const pop_pool_unit *u, const pop_pool_operand *o, int64_t offset, int64_t at, int64_t n, float *to)
{
    const int64_t *places = (const int64_t *)(const void *)(pop_pool_base(u, o) + (offset + at * o->position) * 8);
    pop_pool_word *words = (pop_pool_word *)to;
    for (int64_t i = 0; i < n; i++, places += o->position, words += u->spec->channels)
        for (int64_t c = 0; c < u->lanes; c++) words[c] = (pop_pool_word)pop_pool_place_word(places[c]);
}
static void pop_pool_own_places(const pop_pool_unit *u, int64_t row, int64_t at, int64_t n, float *to)
{
    pop_pool_word *words = (pop_pool_word *)to, place = (pop_pool_word)(row * u->spec->made_extent + at);
    for (int64_t i = 0; i < n; i++, place++, words += u->spec->channels)
        for (int64_t c = 0; c < u->lanes; c++) words[c] = place;
}

typedef void (*pop_pool_row_reader)(const pop_pool_unit *, const pop_pool_operand *, int64_t, int64_t, int64_t, float *);

POP_INLINE pop_v_f pop_pool_words_of(const char *p, int n)
{
#if POP_LANES == 16
    return pop_pool_some_places(p, pop_v_first(n));
#else
    pop_v_i words = pop_v_set(-1);
    for (int l = 0; l < n; l++) words[l] = pop_pool_place_word(((const int64_t *)(const void *)p)[l]);
    return pop_v_float(words);
#endif
}

POP_INLINE pop_v_f pop_pool_load(int format, const char *p, int64_t i, int n)
{
    if (format == POP_POOL_OF_PLACES) return pop_pool_words_of(p + 8 * i, n);
    if (format == 0) return pop_v_decode_part(&POP_F32, p + 4 * i, n);
    return format == 1 ? pop_v_decode_part(&POP_F16, p + 2 * i, n) : pop_v_decode_part(&POP_BF16, p + 2 * i, n);
}

/* `vectors` of the channels of one element from c on: the gradients of those windows whose maximum it is. */
POP_INLINE void pop_pool_gradient_cells(const int *format, const char *x, int64_t place, const char *const *rows, int64_t count,
                                        const int64_t *at, int64_t taps, int64_t step, int vectors, int64_t c, int part, char *to)
{
    const int by_place = format[1] == POP_POOL_OF_PLACES;
    pop_v_f own[POP_POOL_CELLS], made[POP_POOL_CELLS];
    for (int v = 0; v < vectors; v++) {
        own[v] = by_place ? pop_v_float(pop_v_set((int32_t)place)) : pop_pool_load(format[1], x, c + v * POP_LANES, part);
        made[v] = pop_v_splat(0.0f);
    }
    for (int64_t j = 0; j < count; j++)
        for (int64_t t = 0; t < taps; t++)
            for (int v = 0; v < vectors; v++) {
                const int64_t i = at[t] * step + c + v * POP_LANES;
                const pop_v_m same = pop_pool_same(by_place, own[v], pop_pool_load(format[2], rows[2 * j + 1], i, part));
                made[v] = made[v] + pop_v_float(pop_v_keep(same, pop_v_bits(pop_pool_load(format[0], rows[2 * j], i, part))));
            }
    for (int v = 0; v < vectors; v++) pop_pool_store(format[3], to, c + v * POP_LANES, made[v], part);
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

/* Addresses of the rows of gradients and of maxima, one after the other. */
POP_INLINE int64_t pop_pool_addresses(const pop_pool_unit *u, int64_t row)
{
    const pop_pool_operand *in = u->spec->operands, *maxima = in + 2;
    const char *grads = pop_pool_base(u, in), *tops = pop_pool_base(u, maxima);
    float divisor;
    const int64_t count = pop_pool_rows(u, row, &divisor);
    for (int64_t j = 0; j < count; j++) {
        u->read[2 * j] = grads + u->offsets[j] * in->bytes;
        u->read[2 * j + 1] = tops + u->offsets[j] * maxima->bytes;
    }
    return count;
}

/* A unit whose lanes are channels. */
POP_INLINE void pop_pool_gradient_channels(const pop_pool_unit *u, const int *format)
{
    const pop_pool *s = u->spec;
    const pop_pool_operand *in = s->operands, *field = in + 1, *out = in + 3;
    const pop_pool_segment *g = u->segment;
    for (int64_t row = u->row; row < u->row + u->rows; row++) {
        const int64_t count = pop_pool_addresses(u, row), offset = pop_pool_made_offset(s, row) + g->made * out->position;
        const char *x = pop_pool_base(u, field) + offset * field->bytes;
        char *to = pop_pool_base(u, out) + offset * out->bytes;
        int64_t place = row * s->made_extent + g->made;
        for (int64_t m = g->made; m < g->made + g->makes; m++, place++, x += field->position * field->bytes, to += out->position * out->bytes) {
            const int64_t *at = s->coordinates + s->first[m], taps = s->first[m + 1] - s->first[m];
            int64_t c = 0;
            for (; c + POP_POOL_CELLS * POP_LANES <= u->lanes; c += POP_POOL_CELLS * POP_LANES)
                pop_pool_gradient_cells(format, x, place, u->read, count, at, taps, in->position, POP_POOL_CELLS, c, POP_LANES, to);
            for (; c < u->lanes; c += POP_LANES)
                pop_pool_gradient_cells(format, x, place, u->read, count, at, taps, in->position, 1, c, (int)pop_least(POP_LANES, u->lanes - c), to);
        }
    }
}

static int pop_pool_gradient_by_channel(const pop_pool_unit *u)
{
    static const int wide[4] = {0, 0, 0, 0}, places[4] = {0, POP_POOL_OF_PLACES, POP_POOL_OF_PLACES, 0};
    int format[4];
    if (!u->spec->by_channel || !pop_pool_all_direct(u->spec, format)) return 0;
    if (memcmp(format, wide, sizeof wide) == 0) pop_pool_gradient_channels(u, wide); /* known where it is compiled */
    else if (memcmp(format, places, sizeof places) == 0) pop_pool_gradient_channels(u, places);
    else pop_pool_gradient_channels(u, format);
    return 1;
}

#if POP_LANES == 16
POP_INLINE pop_v_f pop_pool_own_lanes(int64_t place)
{
    return (pop_v_f)_mm512_add_epi32(_mm512_set1_epi32((int32_t)place), _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
}

POP_INLINE void pop_pool_gradient_lanes(const pop_pool_unit *u, const pop_pool_reach *r, int two, int taps, const int *format)
{
    const pop_pool *s = u->spec;
    const pop_pool_axis axis = pop_pool_only_axis(s);
    const pop_pool_segment *g = u->segment;
    const pop_pool_operand *in = s->operands, *field = in + 1, *maxima = in + 2, *out = in + 3;
    const pop_v_f none = pop_v_float(pop_v_set(-1));
    const int by_place = format[1] == POP_POOL_OF_PLACES;
    int64_t q = g->origin;
    for (int64_t m = -g->shift; m < g->makes; m += r->lanes, q += r->advance) {
        const uint64_t there = pop_pool_lanes(-q, s->read_extent - q);
        const __mmask16 low = (__mmask16)there, high = (__mmask16)(there >> 16);
        const __mmask16 made = (__mmask16)pop_pool_lanes(-m, pop_least(r->lanes, g->makes - m));
        const char *grads = pop_pool_base(u, in), *tops = pop_pool_base(u, maxima), *xs = pop_pool_base(u, field);
        char *to = pop_pool_base(u, out);
        const int64_t step = s->axis_count == 1 ? s->axes->read_stride : 1; /* of what names the rows, in elements */
        for (int64_t row = u->row; row < u->row + u->rows; row++) {
            const pop_pool_near n = pop_pool_near_rows(u, &axis, in->bytes, row);
            const int64_t at = n.made + g->made + m;
            const pop_v_f own = by_place ? pop_pool_own_lanes(row * s->made_extent + g->made + m) : pop_pool_load_lanes(format[1], xs, at, made);
            pop_v_f a = pop_v_splat(0.0f);
            for (int64_t j = 0; j < n.count; j++) {
                const int64_t from = n.at[j] * step + q;
                const pop_v_f grad = pop_pool_load_lanes(format[0], grads, from, low);
                const pop_v_f top = (pop_v_f)_mm512_mask_mov_ps(none, low, pop_pool_load_lanes(format[2], tops, from, low));
                pop_v_f more = grad, higher = top;
                if (two) {
                    more = pop_pool_load_lanes(format[0], grads, from + 16, high);
                    higher = (pop_v_f)_mm512_mask_mov_ps(none, high, pop_pool_load_lanes(format[2], tops, from + 16, high));
                }
                for (int t = 0; t < taps; t++) {
                    const __mmask16 same = r->there[t] & pop_pool_same(by_place, own, pop_pool_tap(r, two, t, top, higher));
                    a = (pop_v_f)_mm512_mask_add_ps(a, same, a, pop_pool_tap(r, two, t, grad, more));
                }
            }
            pop_pool_store_lanes(format[3], to, at, a, made);
        }
    }
}

/* FP32 of two axes, windows of 2 and 3 by 2, of which at most two rows meet a row of the field: what a row of windows brings is
 * put in order once for all rows that it meets, and kept in registers with the row before, for two registers side by side. */
typedef struct pop_pool_rows_of {
    const char *x, *grads, *tops; /* of row 0, and of coordinate 0 */
    char *to;
    int64_t step, read;           /* bytes to the next row and coordinate */
    int64_t beside, beside_read;  /* to the next register */
    int64_t place, width;         /* of the first element of row 0, and from row to row */
    __mmask16 low[2], made[2], there[2];
    __m512i at[2];
} pop_pool_rows_of;

typedef struct pop_pool_brought {
    int64_t number;
    __m512 most[2][2], grads[2][2];
} pop_pool_brought;

POP_INLINE void pop_pool_bring(const int by_place, const int registers, const int taps, const pop_pool_rows_of *p, int64_t number, pop_pool_brought *b)
{
    b->number = number;
    for (int i = 0; i < registers; i++) {
        const int64_t from = number * p->read + i * p->beside_read;
        const pop_v_f read = pop_pool_load_lanes(by_place ? POP_POOL_OF_PLACES : 0, p->tops + (by_place ? 2 * from : from), 0, p->low[i]);
        const __m512 top = _mm512_mask_mov_ps((__m512)pop_v_set(-1), p->low[i], (__m512)read);
        const __m512 grad = _mm512_maskz_loadu_ps(p->low[i], p->grads + from);
        for (int t = 0; t < taps; t++) {
            b->most[i][t] = _mm512_permutexvar_ps(p->at[t], top);
            b->grads[i][t] = _mm512_permutexvar_ps(p->at[t], grad);
        }
    }
}

POP_INLINE __m512 pop_pool_with(const int by_place, const int taps, const pop_pool_rows_of *p, __m512 own, __m512 a, const __m512 *most, const __m512 *grads)
{
    for (int t = 0; t < taps; t++)
        a = _mm512_mask_add_ps(a, p->there[t] & pop_pool_same(by_place, (pop_v_f)own, (pop_v_f)most[t]), a, grads[t]);
    return a;
}

POP_INLINE void pop_pool_gradient_rows(const int by_place, const int registers, const int taps, const pop_pool_rows_of p,
                                       const pop_pool_axis *axis, int64_t row, int64_t rows)
{
    pop_pool_brought before = {.number = -1}, last = {.number = -1};
    const char *x = p.x + row * p.step;
    char *to = p.to + row * p.step;
    const int64_t *first = axis->first + row, *const end = first + rows, *const all = axis->coordinates;
    int64_t place = p.place + row * p.width;
    for (; first < end; first++, x += p.step, to += p.step, place += p.width) {
        const int64_t *near = all + first[0], count = first[1] - first[0];
        if (count && near[count - 1] != last.number) {
            before = last;
            pop_pool_bring(by_place, registers, taps, &p, near[count - 1], &last);
        }
        if (count == 2 && near[0] != before.number) pop_pool_bring(by_place, registers, taps, &p, near[0], &before);
        for (int i = 0; i < registers; i++) {
            const __m512 own = by_place ? (__m512)pop_pool_own_lanes(place + i * p.beside / 4) : _mm512_maskz_loadu_ps(p.made[i], x + i * p.beside);
            __m512 a = _mm512_setzero_ps();
            if (count == 2) a = pop_pool_with(by_place, taps, &p, own, a, before.most[i], before.grads[i]);
            if (count) a = pop_pool_with(by_place, taps, &p, own, a, last.most[i], last.grads[i]);
            _mm512_mask_storeu_ps(to + i * p.beside, p.made[i], a);
        }
    }
}

#define POP_POOL_GRADIENT_ROWS(by_place, two, taps, p, u)                                                             \
    ((taps) == 1 ? (two) ? pop_pool_gradient_rows(by_place, 2, 1, p, (u)->spec->axes, (u)->row, (u)->rows)            \
                         : pop_pool_gradient_rows(by_place, 1, 1, p, (u)->spec->axes, (u)->row, (u)->rows)            \
     : (two)     ? pop_pool_gradient_rows(by_place, 2, 2, p, (u)->spec->axes, (u)->row, (u)->rows)                    \
                 : pop_pool_gradient_rows(by_place, 1, 2, p, (u)->spec->axes, (u)->row, (u)->rows))

static __attribute__((noinline)) void pop_pool_gradient_of_rows(const pop_pool_unit *u, const pop_pool_reach *r)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const pop_pool_operand *in = s->operands, *field = in + 1, *maxima = in + 2, *out = in + 3;
    int64_t q = g->origin;
    for (int64_t m = -g->shift, next; m < g->makes; m = next) {
        pop_pool_rows_of p = {
            pop_pool_base(u, field) + 4 * (g->made + m), pop_pool_base(u, in) + 4 * q, pop_pool_base(u, maxima) + maxima->bytes * q,
            pop_pool_base(u, out) + 4 * (g->made + m), s->axes->made_stride * 4, s->axes->read_stride * 4,
            4 * r->lanes, 4 * r->advance, g->made + m, s->made_extent,
            .there = {r->there[0], r->there[r->taps - 1]}, .at = {r->at[0], r->at[r->taps - 1]}};
        next = m;
        for (int i = 0; i < 2; i++, next += r->lanes, q += r->advance) {
            p.low[i] = (__mmask16)pop_pool_lanes(-q, s->read_extent - q);
            p.made[i] = (__mmask16)pop_pool_lanes(-next, pop_least(r->lanes, g->makes - next));
        }
        const int two = m + r->lanes < g->makes;
        if (s->by_place) POP_POOL_GRADIENT_ROWS(1, two, r->taps, p, u);
        else POP_POOL_GRADIENT_ROWS(0, two, r->taps, p, u);
    }
}

static int pop_pool_by_rows(const pop_pool *s, const pop_pool_reach *r)
{
    static const int wide[4] = {0, 0, 0, 0};
    int format[4];
    return r->lanes && (r->taps == 1 || r->taps == 2) && !r->two && s->axis_count == 1 && s->row_limit <= 2 &&
           pop_pool_all_direct(s, format) && format[0] == 0 && format[3] == 0 && (s->by_place || memcmp(format, wide, sizeof wide) == 0);
}

static int pop_pool_gradient_by_registers(const pop_pool_unit *u, const pop_pool_reach *r)
{
    int format[4];
    if (r->lanes == 0 || !pop_pool_all_direct(u->spec, format)) return 0;
    pop_pool_gradient_lanes(u, r, r->two, r->taps, format);
    return 1;
}

/* The same in 16 bits, 32 results at a time, whose maxima are found by their codes: zeros are one, NaN is no maximum. */
typedef struct pop_pool_code_taps {
    int lanes, taps;
    int64_t advance;
    __m512i at[POP_POOL_TAP_LIMIT];
    __mmask32 there[POP_POOL_TAP_LIMIT];
} pop_pool_code_taps;

static int pop_pool_code_taps_of(const pop_pool *s, pop_pool_code_taps *r)
{
    const pop_pool_operand *o = s->operands;
    const int64_t span = (s->kernel - 1) * s->dilation + 1, back = (span - 1) / s->stride;
    int16_t at[POP_POOL_TAP_LIMIT][32] = {{0}};
    int taps[32] = {0};
    r->lanes = r->taps = 0, r->advance = 0;
    if (o->format != POP_IS_F16 && o->format != POP_IS_BF16) return 0;
    for (int i = s->by_place ? 3 : 1; i < 4; i++)
        if (o[i].format != o->format) return 0;
    if (s->by_place && (s->axis_count != 1 || s->rows * s->made_extent > UINT16_MAX)) return 0;
    if (s->by_channel || s->kernel == 0 || s->kernel > POP_POOL_TAP_LIMIT || s->stride > 32 || back > 31) return 0;
    r->lanes = (int)(pop_least(32, (32 - back) * s->stride) / s->stride * s->stride);
    r->advance = r->lanes / s->stride;
    for (int l = 0; l < r->lanes; l++)
        for (int64_t k = s->kernel - 1; k >= 0; k--) {
            const int64_t step = k * s->dilation;
            if (l % s->stride == step % s->stride)
                at[taps[l]++][l] = (int16_t)((l - step % s->stride) / s->stride - step / s->stride + back);
        }
    for (int l = 0; l < r->lanes; l++) r->taps = taps[l] > r->taps ? taps[l] : r->taps;
    for (int t = 0; t < r->taps || t < 2; t++) {
        r->at[t] = _mm512_loadu_si512(at[t]);
        r->there[t] = 0;
        for (int l = 0; l < r->lanes; l++) r->there[t] |= (__mmask32)(t < taps[l]) << l;
    }
    return 1;
}

POP_INLINE __m512i pop_pool_one_zero(__m512i x)
{
    return _mm512_maskz_mov_epi16(_mm512_test_epi16_mask(x, _mm512_set1_epi16(0x7fff)), x);
}
POP_INLINE pop_v_f pop_pool_half_numbers(__m512i x, int high, int bf16)
{
    const __m256i half = high ? _mm512_extracti64x4_epi64(x, 1) : _mm512_castsi512_si256(x);
    return bf16 ? (pop_v_f)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16) : (pop_v_f)_mm512_cvtph_ps(half);
}
POP_INLINE __m256i pop_pool_half_codes(pop_v_f x, int bf16)
{
    if (!bf16) return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    return pop_v_bf16(x);
}

POP_INLINE void pop_pool_gradient_codes(const pop_pool_unit *u, const pop_pool_code_taps *r, int taps, int bf16)
{
    const pop_pool *s = u->spec;
    const pop_pool_axis axis = pop_pool_only_axis(s);
    const pop_pool_segment *g = u->segment;
    const pop_pool_operand *in = s->operands, *field = in + 1, *maxima = in + 2, *out = in + 3;
    const char *grads = pop_pool_base(u, in), *tops = pop_pool_base(u, maxima), *xs = pop_pool_base(u, field);
    char *to = pop_pool_base(u, out);
    const __m512i magnitude = _mm512_set1_epi16(0x7fff), infinity = _mm512_set1_epi16(bf16 ? 0x7f80 : 0x7c00);
    const __m512i quiet = _mm512_set1_epi16(bf16 ? 0x0040 : 0x0200);
    const int64_t step = s->axis_count == 1 ? s->axes->read_stride : 1;
    int64_t q = g->origin;
    for (int64_t m = -g->shift; m < g->makes; m += r->lanes, q += r->advance) {
        const __mmask32 there = (__mmask32)pop_pool_lanes(-q, s->read_extent - q);
        const __mmask32 made = (__mmask32)pop_pool_lanes(-m, pop_least(r->lanes, g->makes - m));
        for (int64_t row = u->row; row < u->row + u->rows; row++) {
            const pop_pool_near n = pop_pool_near_rows(u, &axis, in->bytes, row);
            const int64_t at = n.made + g->made + m;
            const int single = taps == 1 && n.count == 1; /* nothing is added up */
            const __m512i own = pop_pool_one_zero(_mm512_maskz_loadu_epi16(made, xs + 2 * at));
            const __mmask32 number = _mm512_cmple_epi16_mask(_mm512_and_si512(own, magnitude), infinity);
            __m512i codes = _mm512_setzero_si512();
            pop_v_f a = pop_v_splat(0.0f), b = a;
            for (int64_t j = 0; j < n.count; j++) {
                const int64_t from = n.at[j] * step + q;
                const __m512i top = pop_pool_one_zero(_mm512_mask_loadu_epi16(magnitude, there, tops + 2 * from));
                const __m512i grad = _mm512_maskz_loadu_epi16(there, grads + 2 * from);
                for (int t = 0; t < taps; t++) {
                    const __m512i most = _mm512_permutexvar_epi16(r->at[t], top);
                    const __mmask32 same = _mm512_mask_cmpeq_epi16_mask(number & r->there[t], own, most);
                    codes = _mm512_maskz_permutexvar_epi16(same, r->at[t], grad);
                    if (single) break;
                    a = a + pop_pool_half_numbers(codes, 0, bf16), b = b + pop_pool_half_numbers(codes, 1, bf16);
                }
            }
            if (single) {
                const __mmask32 nan = _mm512_cmpgt_epi16_mask(_mm512_and_si512(codes, magnitude), infinity);
                codes = _mm512_mask_mov_epi16(pop_pool_one_zero(codes), nan, _mm512_or_si512(codes, quiet));
            } else {
                codes = _mm512_inserti64x4(_mm512_castsi256_si512(pop_pool_half_codes(a, bf16)), pop_pool_half_codes(b, bf16), 1);
            }
            _mm512_mask_storeu_epi16(to + 2 * at, made, codes);
        }
    }
}

/* Of two taps and two rows at most, as rows of FP32 are: what a row of windows brings is put in order once. No element is -0 here, nor
 * has the place 65535, which stand for what nothing is equal to. `words`: windows that do not overlap, so that nothing is added up. */
typedef struct pop_pool_codes_brought {
    int64_t number;
    __m512i most[2], words;
    pop_v_f low[2], high[2];
} pop_pool_codes_brought;

POP_INLINE __m512i pop_pool_own_codes(int64_t place)
{
    const __m512i low = (__m512i)pop_pool_own_lanes(place), high = (__m512i)pop_pool_own_lanes(place + 16);
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(low)), _mm512_cvtepi32_epi16(high), 1);
}

POP_INLINE __m512i pop_pool_place_codes(const char *p, __mmask32 m)
{
    const __m256i low = _mm512_cvtusepi32_epi16((__m512i)pop_pool_some_places(p, (__mmask16)m));
    if (m >> 16 == 0) return _mm512_castsi256_si512(low);
    const __m256i high = _mm512_cvtusepi32_epi16((__m512i)pop_pool_some_places(p + 128, (__mmask16)(m >> 16)));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

POP_INLINE void pop_pool_bring_codes(const pop_pool_code_taps *r, const char *tops, const char *grads, __mmask32 there, int by_place,
                                     int words, int bf16, int64_t number, pop_pool_codes_brought *b)
{
    const __m512i none = _mm512_set1_epi16(by_place ? -1 : INT16_MIN), magnitude = _mm512_set1_epi16(0x7fff);
    const __m512i infinity = _mm512_set1_epi16(bf16 ? 0x7f80 : 0x7c00), quiet = _mm512_set1_epi16(bf16 ? 0x0040 : 0x0200);
    const __m512i grad = _mm512_maskz_loadu_epi16(there, grads);
    __m512i top;
    if (by_place) {
        top = _mm512_mask_mov_epi16(none, there, pop_pool_place_codes(tops, there));
    } else {
        top = pop_pool_one_zero(_mm512_maskz_loadu_epi16(there, tops));
        top = _mm512_mask_mov_epi16(none, _mm512_mask_cmple_epi16_mask(there, _mm512_and_si512(top, magnitude), infinity), top);
    }
    b->number = number;
    for (int t = 0; t < (words ? 1 : 2); t++) {
        const __m512i codes = _mm512_permutexvar_epi16(r->at[t], grad);
        b->most[t] = _mm512_mask_permutexvar_epi16(none, r->there[t], r->at[t], top);
        if (words) {
            const __mmask32 nan = _mm512_cmpgt_epi16_mask(_mm512_and_si512(codes, magnitude), infinity);
            b->words = _mm512_mask_mov_epi16(pop_pool_one_zero(codes), nan, _mm512_or_si512(codes, quiet));
        } else {
            b->low[t] = pop_pool_half_numbers(codes, 0, bf16), b->high[t] = pop_pool_half_numbers(codes, 1, bf16);
        }
    }
}

POP_INLINE void pop_pool_with_codes(__m512i own, const pop_pool_codes_brought *b, pop_v_f *low, pop_v_f *high)
{
    for (int t = 0; t < 2; t++) {
        const __mmask32 same = _mm512_cmpeq_epi16_mask(own, b->most[t]);
        *low = (pop_v_f)_mm512_mask_add_ps(*low, (__mmask16)same, *low, b->low[t]);
        *high = (pop_v_f)_mm512_mask_add_ps(*high, (__mmask16)(same >> 16), *high, b->high[t]);
    }
}

POP_INLINE void pop_pool_gradient_code_rows(const pop_pool_unit *u, const pop_pool_code_taps *r, int by_place, int words, int bf16)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const pop_pool_axis *axis = s->axes;
    const pop_pool_code_taps taps = {.at = {r->at[0], r->at[1]}, .there = {r->there[0], r->there[1]}};
    const pop_pool_operand *in = s->operands, *field = in + 1, *maxima = in + 2, *out = in + 3;
    const int64_t *const all = axis->coordinates, step = 2 * axis->made_stride, stride = axis->read_stride, apart = maxima->bytes;
    const __m512i width = _mm512_set1_epi16((short)s->made_extent);
    int64_t q = g->origin;
    for (int64_t m = -g->shift; m < g->makes; m += r->lanes, q += r->advance) {
        const __mmask32 there = (__mmask32)pop_pool_lanes(-q, s->read_extent - q);
        const __mmask32 made = (__mmask32)pop_pool_lanes(-m, pop_least(r->lanes, g->makes - m));
        const int64_t at = u->row * step + 2 * (g->made + m), *first = axis->first + u->row, *const end = first + u->rows;
        const char *tops = pop_pool_base(u, maxima) + apart * q, *grads = pop_pool_base(u, in) + 2 * q, *x = pop_pool_base(u, field) + at;
        char *to = pop_pool_base(u, out) + at;
        __m512i own = pop_pool_own_codes(u->row * s->made_extent + g->made + m);
        pop_pool_codes_brought before = {.number = -1}, last = {.number = -1};
        for (; first < end; first++, x += step, to += step) {
            const int64_t *near = all + first[0], count = first[1] - first[0];
            if (count && near[count - 1] != last.number) {
                const int64_t number = near[count - 1], from = number * stride;
                before = last;
                pop_pool_bring_codes(&taps, tops + apart * from, grads + 2 * from, there, by_place, words, bf16, number, &last);
            }
            if (count == 2 && near[0] != before.number) {
                const int64_t from = near[0] * stride;
                pop_pool_bring_codes(&taps, tops + apart * from, grads + 2 * from, there, by_place, words, bf16, near[0], &before);
            }
            if (!by_place) own = pop_pool_one_zero(_mm512_maskz_loadu_epi16(made, x));
            __m512i codes = _mm512_setzero_si512();
            if (words) {
                if (count) codes = _mm512_maskz_mov_epi16(_mm512_cmpeq_epi16_mask(own, last.most[0]), last.words);
            } else {
                pop_v_f low = pop_v_splat(0.0f), high = low;
                if (count == 2) pop_pool_with_codes(own, &before, &low, &high);
                if (count) pop_pool_with_codes(own, &last, &low, &high);
                codes = _mm512_inserti64x4(_mm512_castsi256_si512(pop_pool_half_codes(low, bf16)), pop_pool_half_codes(high, bf16), 1);
            }
            if (by_place) own = _mm512_add_epi16(own, width);
            _mm512_mask_storeu_epi16(to, made, codes);
        }
    }
}

static int pop_pool_gradient_by_codes(const pop_pool_unit *u, const pop_pool_code_taps *r)
{
    if (r->lanes == 0) return 0;
    const pop_pool *s = u->spec;
    const int bf16 = s->operands->format == POP_IS_BF16, few = r->taps <= 2 && s->axis_count == 1 && s->row_limit <= 2;
    const int words = r->taps == 1 && s->row_limit == 1;
    if (s->by_place) {
        if (!few) return 0;
        if (words) pop_pool_gradient_code_rows(u, r, 1, 1, bf16);
        else bf16 ? pop_pool_gradient_code_rows(u, r, 1, 0, 1) : pop_pool_gradient_code_rows(u, r, 1, 0, 0);
    } else if (few) {
        if (words) pop_pool_gradient_code_rows(u, r, 0, 1, bf16);
        else bf16 ? pop_pool_gradient_code_rows(u, r, 0, 0, 1) : pop_pool_gradient_code_rows(u, r, 0, 0, 0);
    } else {
        bf16 ? pop_pool_gradient_codes(u, r, r->taps, 1) : pop_pool_gradient_codes(u, r, r->taps, 0);
    }
    return 1;
}
#else
typedef struct pop_pool_code_taps {
    int lanes;
} pop_pool_code_taps;
static int pop_pool_code_taps_of(const pop_pool *s, pop_pool_code_taps *r) { return (void)s, r->lanes = 0; }
static int pop_pool_gradient_by_codes(const pop_pool_unit *u, const pop_pool_code_taps *r) { return (void)u, (void)r, 0; }
static int pop_pool_by_rows(const pop_pool *s, const pop_pool_reach *r) { return (void)s, (void)r, 0; }
static void pop_pool_gradient_of_rows(const pop_pool_unit *u, const pop_pool_reach *r) { (void)u, (void)r; }
static int pop_pool_gradient_by_registers(const pop_pool_unit *u, const pop_pool_reach *r) { return (void)u, (void)r, 0; }
#endif

/* What the windows of one row bring: x, and what is made, as phases have them. */
static void pop_pool_gradient_windows(const pop_pool_unit *u, const float *x, const float *top, const float *grad, float *made)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const int64_t apart = s->join * s->channels;
    for (const pop_pool_phase *p = s->phases; p < s->phases + s->phase_count; p++) {
        const int64_t results = p->count ? p->count : g->count, taps = p->last - p->first;
        if (!s->by_channel) {
            pop_pool_take_gradient(s->by_place, x + p->made, top, grad, s->taps + p->first, taps, 1, 0, results, made + p->made, 0, 0);
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
    pop_pool_reach reach;
    pop_pool_code_taps codes;
    if (!pop_pool_reach_of(s, &reach)) reach.lanes = 0;
    pop_pool_code_taps_of(s, &codes);
    const int by_rows = pop_pool_by_rows(s, &reach);
    for (int64_t i = 0; i < item->count; i++) {
        pop_pool_next(&u, item->first + i, i == 0);
        if (by_rows) {
            pop_pool_gradient_of_rows(&u, &reach);
            continue;
        }
        if (pop_pool_gradient_by_codes(&u, &codes) || pop_pool_gradient_by_registers(&u, &reach) || pop_pool_gradient_by_channel(&u)) continue;
        const pop_pool_segment *g = u.segment;
        for (int64_t k = 0; k < s->slots; k++) {
            kept[k] = -1;
            memset(lines + 2 * k * line, 0xff, (size_t)(s->places * s->channels) * sizeof *lines); /* no number, and nobody's place */
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
                        pop_pool_take_gradient(0, top + p->made * s->channels, u.line + s->taps[t], ones, &none, 1, s->by_channel ? results : 1,
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
