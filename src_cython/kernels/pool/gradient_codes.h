/* At AVX-512, gradients of maxima in 16 bits, 32 results at a time, whose maxima are found by their codes: zeros are one, NaN is no maximum. */
#ifndef POP_POOL_GRADIENT_CODES_H
#define POP_POOL_GRADIENT_CODES_H
#include "kernels/pool/gradient_registers.h"

#if POP_LANES == 16
/* Two taps at most, apart for even lanes (0 and 1) and for odd ones (2 and 3): both words of 32 bits, or the words alone. */
typedef struct pop_pool_pair_taps {
    int alike;                       /* odd lanes have one tap, the second of even lanes, which have two */
    __mmask32 there, high[4], odd;   /* lanes with a first tap; high words of lanes that have the tap, and of all lanes */
    __m512i at, both[4], alone[4];
    __m512i mix;                     /* words of even and odd lanes, alternating */
} pop_pool_pair_taps;

typedef struct pop_pool_code_taps {
    int lanes, taps;
    int64_t advance, windows; /* of the next register; that one takes from */
    __m512i at[POP_POOL_TAP_LIMIT];
    __mmask32 there[POP_POOL_TAP_LIMIT];
    pop_pool_pair_taps few;
    pop_pool_pairs pairs;
} pop_pool_code_taps;

static void pop_pool_pair_taps_of(pop_pool_code_taps *taps)
{
    pop_pool_pair_taps *r = &taps->few;
    int16_t at[32], both[4][32] = {{0}}, alone[4][32] = {{0}}, mix[32];
    for (int v = 0; v < 4; v++) {
        _mm512_storeu_si512(at, taps->at[v % 2]);
        r->high[v] = 0;
        for (int l = 0; l < 16; l++) {
            both[v][2 * l] = both[v][2 * l + 1] = alone[v][l] = at[2 * l + v / 2];
            r->high[v] |= (taps->there[v % 2] >> (2 * l + v / 2) & 1) << (2 * l + 1);
        }
        r->both[v] = _mm512_loadu_si512(both[v]), r->alone[v] = _mm512_loadu_si512(alone[v]);
    }
    r->at = taps->at[0], r->there = taps->there[0];
    r->odd = 0xaaaaaaaa;
    const __mmask32 beyond = taps->lanes < 32 ? ~0u << taps->lanes : 0; /* lanes of which nothing is stored */
    r->alike = r->high[3] == 0 && r->high[2] == r->high[1] && (r->high[0] & r->high[1]) == (r->odd & ~beyond) &&
               memcmp(both[2], both[1], sizeof both[1]) == 0;
    for (int l = 0; l < 16; l++) mix[2 * l] = (int16_t)l, mix[2 * l + 1] = (int16_t)(32 + l);
    r->mix = _mm512_loadu_si512(mix);
}

/* Whether windows do not overlap and registers take from so few that words are taken. */
POP_INLINE int pop_pool_is_words(const pop_pool *s, const pop_pool_code_taps *r)
{
    return r->taps == 1 && s->row_limit == 1 && r->windows <= 16;
}

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
    r->advance = r->lanes / s->stride, r->windows = r->advance + back;
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
    pop_pool_pair_taps_of(r);
    r->pairs = pop_pool_pairs_of(s, !pop_pool_is_words(s, r));
    return 1;
}

POP_INLINE __m512i pop_pool_one_zero(__m512i x)
{
    return _mm512_maskz_mov_epi16(_mm512_test_epi16_mask(x, _mm512_set1_epi16(0x7fff)), x);
}
POP_INLINE __m256i pop_pool_one_zero_of_16(__m256i x)
{
    return _mm256_maskz_mov_epi16(_mm256_test_epi16_mask(x, _mm256_set1_epi16(0x7fff)), x);
}
POP_INLINE __m256i pop_pool_half(__m512i x, int high) { return high ? _mm512_extracti64x4_epi64(x, 1) : _mm512_castsi512_si256(x); }
POP_INLINE pop_v_f pop_pool_half_numbers(__m512i x, int high, int bf16)
{
    const __m256i half = pop_pool_half(x, high);
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

/* Of two taps and two rows at most: what a row of windows brings is put in order once. Where windows do not overlap, and a register takes
 * from 16 at most, words are compared and taken. Else even and odd lanes are numbers apart: of FP16 the codes are compared as the BF16 numbers that they
 * would be, in which zeros are one too, and NaN is made one. No place is 65535, which stands for none. */
typedef struct pop_pool_codes_brought {
    int64_t number;
    __m512i all, words; /* of windows that do not overlap: what elements are compared with, and what they are then */
    pop_v_f most[4], grads[4];
} pop_pool_codes_brought;

POP_INLINE __m512i pop_pool_own_codes(int64_t place)
{
    const __m512i low = (__m512i)pop_pool_own_lanes(place), high = (__m512i)pop_pool_own_lanes(place + 16);
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(low)), _mm512_cvtepi32_epi16(high), 1);
}

/* Places as words: those that no element has are 65535. Of 16 at most, in registers. */
POP_INLINE __m256i pop_pool_few_words(const char *p, __mmask16 m)
{
    const __m128i low = _mm512_cvtusepi64_epi16(_mm512_maskz_loadu_epi64((__mmask8)m, p));
    const __m128i high = _mm512_cvtusepi64_epi16(_mm512_maskz_loadu_epi64((__mmask8)(m >> 8), p + 64));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
POP_INLINE void pop_pool_place_words(const char *places, int64_t n, int64_t ahead, char *to)
{
    for (int64_t i = 0; i < n; i += 8, places += 64, to += 16) {
        const __mmask8 part = (__mmask8)(n - i < 8 ? (1 << (n - i)) - 1 : 0xff);
        pop_prefetch(pop_beyond(places, ahead));
        _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtusepi64_epi16(_mm512_maskz_loadu_epi64(part, places)));
    }
}

/* Of 16 windows at most. */
POP_INLINE void pop_pool_bring_words(const pop_pool_pair_taps *r, __m256i top, __m256i grad, __mmask16 real, int by_place, int bf16,
                                     pop_pool_codes_brought *b)
{
    const __m512i none = _mm512_set1_epi16(by_place ? -1 : INT16_MIN);
    const __m256i magnitude = _mm256_set1_epi16(0x7fff), infinity = _mm256_set1_epi16(bf16 ? 0x7f80 : 0x7c00);
    const __mmask16 nan = _mm256_cmpgt_epi16_mask(_mm256_and_si256(grad, magnitude), infinity);
    const __m256i quiet = _mm256_or_si256(grad, _mm256_set1_epi16(bf16 ? 0x0040 : 0x0200));
    grad = _mm256_mask_mov_epi16(pop_pool_one_zero_of_16(grad), nan, quiet);
    if (!by_place) real = _mm256_mask_cmple_epi16_mask(real, _mm256_and_si256(top, magnitude), infinity);
    top = _mm256_mask_mov_epi16(_mm512_castsi512_si256(none), real, by_place ? top : pop_pool_one_zero_of_16(top));
    b->all = _mm512_mask_permutexvar_epi16(none, r->there, r->at, _mm512_castsi256_si512(top));
    b->words = _mm512_permutexvar_epi16(r->at, _mm512_castsi256_si512(grad));
}

POP_INLINE void pop_pool_bring_pairs(const pop_pool_pair_taps *r, __m512i top, __m512i grad, __mmask32 real, int by_place,
                                     int vectors, int bf16, pop_pool_codes_brought *b)
{
    const __m512i magnitude = _mm512_set1_epi16(0x7fff), none = _mm512_set1_epi32(by_place ? -65536 : 0x7fff0000);
    if (!by_place && !bf16) real &= _mm512_cmple_epi16_mask(_mm512_and_si512(top, magnitude), _mm512_set1_epi16(0x7c00));
    top = _mm512_mask_mov_epi16(by_place ? _mm512_set1_epi16(-1) : magnitude, real, top);
    for (int v = 0; v < vectors; v++) {
        b->most[v] = (pop_v_f)(vectors == 2 ? _mm512_maskz_permutexvar_epi16(r->odd, r->both[v], top)
                                            : _mm512_mask_permutexvar_epi16(none, r->high[v], r->both[v], top));
        const __m512i codes = _mm512_maskz_permutexvar_epi16(bf16 ? r->odd : ~0u, bf16 ? r->both[v] : r->alone[v], grad);
        b->grads[v] = (bf16 ? (pop_v_f)codes : (pop_v_f)_mm512_cvtph_ps(_mm512_castsi512_si256(codes))) + pop_v_splat(0.0f);
    }
}

/* Numbers of even and odd lanes, or their places. */
typedef struct pop_pool_pair {
    pop_v_f even, odd;
} pop_pool_pair;

POP_INLINE pop_v_f pop_pool_with_codes(int by_place, int first, pop_v_f own, pop_v_f a, const pop_pool_codes_brought *b, int v)
{
    const __mmask16 same = by_place ? _mm512_cmp_epi32_mask((__m512i)own, (__m512i)b->most[v], _MM_CMPINT_EQ) : pop_pool_same(0, own, b->most[v]);
    return (pop_v_f)(first ? _mm512_maskz_mov_ps(same, b->grads[v]) : _mm512_mask_add_ps(a, same, a, b->grads[v]));
}
POP_INLINE pop_pool_pair pop_pool_with_pairs(int by_place, int vectors, int first, pop_pool_pair own, pop_pool_pair a,
                                             const pop_pool_codes_brought *b)
{
    a.even = pop_pool_with_codes(by_place, first, own.even, a.even, b, 0);
    a.odd = pop_pool_with_codes(by_place, first, own.odd, a.odd, b, vectors == 2 ? 1 : 2);
    a.even = pop_pool_with_codes(by_place, 0, own.even, a.even, b, 1);
    if (vectors == 4) a.odd = pop_pool_with_codes(by_place, 0, own.odd, a.odd, b, 3);
    return a;
}

/* Rounded to a multiple of 65536; NaN has no bits below, as it comes from numbers of 16 bits. */
POP_INLINE __m512i pop_pool_rounded(pop_v_f x)
{
    const __m512i bits = (__m512i)x, more = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    return _mm512_mask_sub_epi32(more, _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1 << 16)), more, _mm512_set1_epi32(-1));
}
/* `exact`: odd lanes need no rounding. */
POP_INLINE __m512i pop_pool_pair_codes(const pop_pool_pair_taps *r, int exact, int bf16, pop_pool_pair a)
{
    if (bf16)
        return _mm512_mask_mov_epi16(_mm512_srli_epi32(pop_pool_rounded(a.even), 16), r->odd,
                                     exact ? (__m512i)a.odd : pop_pool_rounded(a.odd));
    return _mm512_permutex2var_epi16(_mm512_castsi256_si512(pop_pool_half_codes(a.even, 0)), r->mix,
                                     _mm512_castsi256_si512(pop_pool_half_codes(a.odd, 0)));
}

/* One register's lanes of the rows of one channel: of the first row, and of coordinate 0. Of places `tops` are words, but where windows
 * do not overlap. */
typedef struct pop_pool_code_lanes {
    const char *x, *grads, *tops;
    char *to;
    __mmask32 there, made;
    int64_t read, ahead; /* bytes to the next coordinate, and how far to ask ahead */
} pop_pool_code_lanes;

/* What a row of windows brings. */
POP_INLINE void pop_pool_bring_codes(const int by_place, const int vectors, const int bf16, const pop_pool_pair_taps *r,
                                     const pop_pool_code_lanes *p, int64_t number, pop_pool_codes_brought *b)
{
    const int words = by_place && vectors == 1;
    const char *tops = p->tops + number * (words ? 4 * p->read : p->read), *grads = p->grads + number * p->read;
    pop_prefetch(pop_beyond(grads, p->ahead));
    if (!by_place) pop_prefetch(pop_beyond(tops, p->ahead));
    if (words) pop_prefetch(pop_beyond(tops, 2 * p->ahead)), pop_prefetch(pop_beyond(tops + 64, 2 * p->ahead));
    b->number = number;
    if (vectors == 1) {
        const __mmask16 few = (__mmask16)p->there;
        const __m256i top = words ? pop_pool_few_words(tops, few) : _mm256_maskz_loadu_epi16(few, tops);
        pop_pool_bring_words(r, top, _mm256_maskz_loadu_epi16(few, grads), few, by_place, bf16, b);
        return;
    }
    const __m512i top = _mm512_maskz_loadu_epi16(p->there, tops), grad = _mm512_maskz_loadu_epi16(p->there, grads);
    pop_pool_bring_pairs(r, top, grad, p->there, by_place, vectors, bf16, b);
}

/* Places of a row's elements: words, or of even lanes the high words of numbers. */
typedef struct pop_pool_own {
    __m512i words, even, width, width16;
} pop_pool_own;

/* A row that meets `count` rows of windows. */
POP_INLINE void pop_pool_gradient_code_row(const int by_place, const int vectors, const int bf16, const int count,
                                           const pop_pool_pair_taps *r, const pop_pool_code_lanes *p, const char *from, char *to,
                                           pop_pool_own *own, const pop_pool_codes_brought *before, const pop_pool_codes_brought *last)
{
    const __m512i here = by_place ? own->words : _mm512_maskz_loadu_epi16(p->made, from);
    __m512i codes;
    if (!by_place) pop_prefetch(pop_beyond(from, 4 * p->ahead));
    pop_prefetch_to_write(pop_beyond(to, 4 * p->ahead));
    if (vectors == 1) {
        const __mmask32 same = count ? _mm512_cmpeq_epi16_mask(by_place ? here : pop_pool_one_zero(here), last->all) : 0;
        codes = _mm512_maskz_mov_epi16(same, last->words);
        own->words = _mm512_add_epi16(own->words, own->width16);
    } else {
        pop_pool_pair x = {(pop_v_f)_mm512_slli_epi32(here, 16), (pop_v_f)_mm512_maskz_mov_epi16(r->odd, here)};
        pop_pool_pair a = {pop_v_splat(0.0f), pop_v_splat(0.0f)};
        if (by_place) x = (pop_pool_pair){(pop_v_f)own->even, (pop_v_f)_mm512_add_epi32(own->even, _mm512_set1_epi32(1 << 16))};
        own->even = _mm512_add_epi32(own->even, own->width);
        if (count == 2) a = pop_pool_with_pairs(by_place, vectors, 1, x, a, before);
        if (count) a = pop_pool_with_pairs(by_place, vectors, count == 1, x, a, last);
        codes = pop_pool_pair_codes(r, count < 2 && vectors == 2, bf16, a);
    }
    _mm512_mask_storeu_epi16(to, p->made, codes);
}

POP_INLINE void pop_pool_gradient_code_lanes(const int by_place, const int vectors, const int bf16, const pop_pool_axis *axis,
                                             const pop_pool_pair_taps *r, const pop_pool_code_lanes p, const pop_pool_pairs pairs,
                                             int64_t row, const int64_t end, pop_pool_own own)
{
    const int64_t *const first = axis->first, *const all = axis->coordinates, step = 2 * axis->made_stride;
    const char *x = p.x;
    char *to = p.to;
    pop_pool_codes_brought before = {.number = -1}, last = {.number = -1};
    for (int64_t stop = pairs.begin;; stop = end) {
        for (; row < stop; row++, x += step, to += step) {
            const int64_t *near = all + first[row], count = first[row + 1] - first[row];
            if (count && near[count - 1] != last.number) {
                before = last;
                pop_pool_bring_codes(by_place, vectors, bf16, r, &p, near[count - 1], &last);
            }
            if (vectors > 1 && count == 2) {
                if (near[0] != before.number) pop_pool_bring_codes(by_place, vectors, bf16, r, &p, near[0], &before);
                pop_pool_gradient_code_row(by_place, vectors, bf16, 2, r, &p, x, to, &own, &before, &last);
            } else if (count) {
                pop_pool_gradient_code_row(by_place, vectors, bf16, 1, r, &p, x, to, &own, &before, &last);
            } else {
                pop_pool_gradient_code_row(by_place, vectors, bf16, 0, r, &p, x, to, &own, &before, &last);
            }
        }
        if (row == end) return;
        int64_t number = pairs.number;
        if (vectors > 1 && last.number != number - 1) pop_pool_bring_codes(by_place, vectors, bf16, r, &p, number - 1, &last);
        for (; row < pairs.end; row += 2, x += 2 * step, to += 2 * step, number++) {
            if (vectors > 1) before = last;
            pop_pool_bring_codes(by_place, vectors, bf16, r, &p, number, &last);
            pop_pool_gradient_code_row(by_place, vectors, bf16, vectors > 1 ? 2 : 1, r, &p, x, to, &own, &before, &last);
            pop_pool_gradient_code_row(by_place, vectors, bf16, 1, r, &p, x + step, to + step, &own, &before, &last);
        }
    }
}

/* One function for each kind, so that no other's registers are in its way. */
typedef void (*pop_pool_code_sweep)(const pop_pool_axis *, const pop_pool_pair_taps *, const pop_pool_code_lanes *, const pop_pool_pairs *,
                                    int64_t, int64_t, const pop_pool_own *);
#define POP_POOL_CODE_SWEEP(name, by_place, vectors, bf16)                                                            \
    static __attribute__((noinline)) void pop_pool_code_sweep_##name(const pop_pool_axis *axis, const pop_pool_pair_taps *r, \
                                                                     const pop_pool_code_lanes *p, const pop_pool_pairs *pairs, \
                                                                     int64_t row, int64_t end, const pop_pool_own *own) \
    {                                                                                                                 \
        const pop_pool_pair_taps few = *r; /* which nothing that is written may be */                                 \
        pop_pool_gradient_code_lanes(by_place, vectors, bf16, axis, &few, *p, *pairs, row, end, *own);                \
    }
#define POP_POOL_CODE_SWEEPS(name, by_place, bf16)                                                                    \
    POP_POOL_CODE_SWEEP(name##_1, by_place, 1, bf16) POP_POOL_CODE_SWEEP(name##_2, by_place, 2, bf16)                 \
    POP_POOL_CODE_SWEEP(name##_4, by_place, 4, bf16)                                                                  \
    static const pop_pool_code_sweep pop_pool_code_sweeps_##name[3] = {                                               \
        pop_pool_code_sweep_##name##_1, pop_pool_code_sweep_##name##_2, pop_pool_code_sweep_##name##_4};
POP_POOL_CODE_SWEEPS(f16, 0, 0)
POP_POOL_CODE_SWEEPS(bf16, 0, 1)
POP_POOL_CODE_SWEEPS(places_f16, 1, 0)
POP_POOL_CODE_SWEEPS(places_bf16, 1, 1)

/* Rows of windows that a unit's rows meet. */
POP_INLINE void pop_pool_met(const pop_pool_unit *u, const pop_pool_axis *axis, int64_t *low, int64_t *high)
{
    *low = INT64_MAX, *high = 0;
    for (int64_t i = axis->first[u->row]; i < axis->first[u->row + u->rows]; i++) {
        const int64_t at = axis->coordinates[i];
        if (at < *low) *low = at;
        if (at >= *high) *high = at + 1;
    }
    if (*high == 0) *low = 0;
}

/* `planes`: channels one after another, where one register holds a row. */
static void pop_pool_gradient_code_rows(const pop_pool_unit *u, const pop_pool_code_taps *taps, int vectors, pop_pool_code_sweep sweep,
                                        int64_t planes)
{
    const int worded = u->spec->by_place && vectors > 1;
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const pop_pool_axis axis = *s->axes;
    const pop_pool_pairs pairs = pop_pool_pairs_within(taps->pairs, u->row, u->rows);
    const pop_pool_operand *in = s->operands, *field = in + 1, *maxima = in + 2, *out = in + 3;
    const int64_t read = 2 * axis.read_stride;
    const char *x = pop_pool_base(u, field), *grads = pop_pool_base(u, in), *tops = pop_pool_base(u, maxima);
    char *to = pop_pool_base(u, out);
    int64_t low = 0, high = 0;
    if (worded) pop_pool_met(u, &axis, &low, &high);
    const int64_t words_before = low * read, places = (high - low) * axis.read_stride, room = (2 * places + 79) / 64 * 64;
    char *words_of = u->free, *words_next = words_of + room;
    if (worded) pop_pool_place_words(tops + 4 * words_before, places, 2 * s->ahead, words_of);
    for (int64_t plane = 0; plane < planes; plane++) {
        if (worded && plane + 1 < planes)
            pop_pool_place_words(tops + 4 * words_before + 8 * maxima->channel, places, 2 * s->ahead, words_next);
        int64_t q = g->origin;
        for (int64_t m = -g->shift; m < g->makes; m += taps->lanes, q += taps->advance) {
            const int64_t at = 2 * (u->row * axis.made_stride + g->made + m), place = u->row * s->made_extent + g->made + m;
            const __m512i words = pop_pool_own_codes(place), width = _mm512_set1_epi16((short)s->made_extent);
            const pop_pool_own own = {words, _mm512_slli_epi32(words, 16), _mm512_slli_epi32(width, 16), width};
            const pop_pool_code_lanes p = {
                x + at, grads + 2 * q, worded ? words_of - words_before + 2 * q : tops + maxima->bytes * q, to + at,
                (__mmask32)pop_pool_lanes(-q, s->read_extent - q),
                (__mmask32)pop_pool_lanes(-m, pop_least(taps->lanes, g->makes - m)), read, s->ahead};
            sweep(&axis, &taps->few, &p, &pairs, u->row, u->row + u->rows, &own);
        }
        x += 2 * field->channel, grads += 2 * in->channel, tops += maxima->bytes * maxima->channel, to += 2 * out->channel;
        char *const done = words_of;
        words_of = words_next, words_next = done;
    }
}

/* How many of the units that are left are done: 0 where this is not their way. */
static int64_t pop_pool_gradient_by_codes(const pop_pool_unit *u, const pop_pool_code_taps *r, int64_t left)
{
    if (r->lanes == 0) return 0;
    const pop_pool *s = u->spec;
    const int bf16 = s->operands->format == POP_IS_BF16, few = r->taps <= 2 && s->axis_count == 1 && s->row_limit <= 2;
    const int vectors = pop_pool_is_words(s, r) ? 1 : r->few.alike ? 2 : 4;
    if (!few) {
        if (s->by_place) return 0;
        bf16 ? pop_pool_gradient_codes(u, r, r->taps, 1) : pop_pool_gradient_codes(u, r, r->taps, 0);
        return 1;
    }
    int64_t planes = 1;
    if (s->segment_count == 1 && s->blocks == 1 && u->segment->shift + u->segment->makes <= r->lanes)
        planes = pop_least(left, s->all_channels - u->channel);
    const pop_pool_code_sweep *by_place = bf16 ? pop_pool_code_sweeps_places_bf16 : pop_pool_code_sweeps_places_f16;
    const pop_pool_code_sweep *by_value = bf16 ? pop_pool_code_sweeps_bf16 : pop_pool_code_sweeps_f16;
    pop_pool_gradient_code_rows(u, r, vectors, (s->by_place ? by_place : by_value)[vectors / 2], planes);
    return planes;
}
#else
typedef struct pop_pool_code_taps {
    int lanes;
} pop_pool_code_taps;
static int pop_pool_code_taps_of(const pop_pool *s, pop_pool_code_taps *r) { return (void)s, r->lanes = 0; }
static int64_t pop_pool_gradient_by_codes(const pop_pool_unit *u, const pop_pool_code_taps *r, int64_t left)
{
    return (void)u, (void)r, (void)left, 0;
}
#endif
#endif
