/* The same in 16 bits, 32 results at a time, whose maxima are found by their codes: zeros are one, NaN is no maximum. */
#ifndef POP_POOL_GRADIENT_CODES_H
#define POP_POOL_GRADIENT_CODES_H
#include "kernels/pool/gradient_registers.h"

#if POP_LANES == 16
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

/* Of two taps and two rows at most, as rows of FP32 are: what a row of windows brings is put in order once. No element is -0 here,
 * nor has the place 65535, which stand for what nothing is equal to. `words`: windows that do not overlap: nothing is added up. */
typedef struct pop_pool_codes_brought {
    int64_t number;
    __m512i all, words; /* of words: what elements are compared with, and what they are then */
    __m256i most[2][2]; /* else the same of each tap's halves, and the numbers */
    pop_v_f grads[2][2];
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

POP_INLINE void pop_pool_bring_codes(const pop_pool_code_taps *r, const char *tops, const char *grads, __mmask32 there,
                                     int by_place, int words, int bf16, int64_t number, pop_pool_codes_brought *b)
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
        const __m512i most = _mm512_mask_permutexvar_epi16(none, r->there[t], r->at[t], top);
        if (words) {
            b->all = most;
            const __mmask32 nan = _mm512_cmpgt_epi16_mask(_mm512_and_si512(codes, magnitude), infinity);
            b->words = _mm512_mask_mov_epi16(pop_pool_one_zero(codes), nan, _mm512_or_si512(codes, quiet));
        } else {
            for (int h = 0; h < 2; h++) b->most[t][h] = pop_pool_half(most, h), b->grads[t][h] = pop_pool_half_numbers(codes, h, bf16);
        }
    }
}

POP_INLINE pop_v_f pop_pool_with_codes(__m256i own, pop_v_f a, const pop_pool_codes_brought *b, int h)
{
    for (int t = 0; t < 2; t++)
        a = (pop_v_f)_mm512_mask_add_ps(a, _mm256_cmpeq_epi16_mask(own, b->most[t][h]), a, b->grads[t][h]);
    return a;
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
        const char *tops = pop_pool_base(u, maxima) + apart * q, *grads = pop_pool_base(u, in) + 2 * q;
        const char *x = pop_pool_base(u, field) + at;
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
            if (words) {
                const __mmask32 same = count ? _mm512_cmpeq_epi16_mask(own, last.all) : 0;
                _mm512_mask_storeu_epi16(to, made, _mm512_maskz_mov_epi16(same, last.words));
            } else {
                const __m256i low = pop_pool_half(own, 0), high = pop_pool_half(own, 1);
                pop_v_f a = pop_v_splat(0.0f), b = a;
                if (count == 2) a = pop_pool_with_codes(low, a, &before, 0), b = pop_pool_with_codes(high, b, &before, 1);
                if (count) a = pop_pool_with_codes(low, a, &last, 0), b = pop_pool_with_codes(high, b, &last, 1);
                _mm256_mask_storeu_epi16(to, (__mmask16)made, pop_pool_half_codes(a, bf16));
                _mm256_mask_storeu_epi16(to + 32, (__mmask16)(made >> 16), pop_pool_half_codes(b, bf16));
            }
            if (by_place) own = _mm512_add_epi16(own, width);
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
#endif
#endif
