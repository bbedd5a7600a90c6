/* Softmax and its logarithm along a row, and their gradients. Nothing is exponentiated but what lies below the greatest
 * number, so that nothing overflows. A row of nothing but minus infinity has a softmax of zeros. */
#ifndef POP_ROWS_SOFTMAX_H
#define POP_ROWS_SOFTMAX_H
#include "kernels/rows/sums.h"

/* As pop_v_exp has it, of what is not above zero; near: nor below -86. */
POP_INLINE pop_v_f pop_row_exp(pop_v_f x, const int near)
{
    if (!near) x = pop_v_max_f(pop_v_splat(-105.0f), x);
    const pop_v_f n = pop_v_exp_whole(x), r = pop_v_fma(n, -POP_LN2_LOW, pop_v_fma(n, -POP_LN2_HIGH, x));
    const pop_v_f y = pop_v_fma(pop_v_fma(pop_v_exp_curve(r), r, pop_v_splat(1.0f)), r, pop_v_splat(1.0f));
    return near ? pop_v_scale_normal(y, n) : pop_v_scale(y, n);
}

/* 2^t of what is hardly above zero, within 2^-18 of itself: t's floor is an exponent, and the rest has the polynomial whose
 * greatest relative error is least. */
POP_INLINE pop_v_f pop_row_brief_power(pop_v_f t, const int near)
{
    static const float curve[] = {0x1.00002cp+0f, 0x1.62d16ap-1f, 0x1.ee788ap-3f, 0x1.aa1cf2p-5f, 0x1.bb6734p-7f};
#if POP_LANES == 16 /* the rest is rounded down as well, of minus infinity it is zero; scaling takes the floor */
    const pop_v_f rest = (pop_v_f)_mm512_reduce_ps((__m512)t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC), whole = t;
#else
    if (!near) t = pop_v_max_f(pop_v_splat(-160.0f), t);
    const pop_v_f whole = pop_v_floor(t), part = t - whole;
    const pop_v_f rest = pop_v_float(pop_v_bits(part) - pop_v_keep(pop_v_gt_f(part + whole, t), pop_v_set(1)));
#endif
    const pop_v_f y = pop_v_horner(curve, POP_LENGTH(curve), rest);
    return near ? pop_v_scale_normal(y, whole) : pop_v_scale(y, whole);
}

/* Whether rows have nothing so far below their greatest that its power is not a normal number: then AVX2 has less to do. */
#define POP_ROW_NEAR 86.0f
POP_INLINE int pop_rows_are_near(const pop_format *f, const char *x, int64_t step, int rows, int64_t n, const float *top)
{
    if (POP_LANES != 8) return 0;
    pop_v_f least[4];
    int near = 1;
    for (int q = 0; q < rows && near; q++, x += step) {
        int64_t i = 0;
        for (int k = 0; k < 4; k++) least[k] = pop_v_splat(top[q]);
        for (; i + 4 * POP_LANES <= n; i += 4 * POP_LANES)
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) least[k] = pop_v_min_f(pop_row_read(f, x, i + k * POP_LANES, POP_LANES), least[k]);
        for (; i < n; i += POP_LANES) {
            const int part = n - i < POP_LANES ? (int)(n - i) : POP_LANES;
            least[0] = pop_v_min_f(pop_row_else(pop_row_read(f, x, i, part), top[q], part), least[0]);
        }
        for (int k = 1; k < 4; k++) least[0] = pop_v_min_f(least[k], least[0]);
        near = !pop_v_any(pop_v_lt_f(least[0], pop_v_splat(top[q] - POP_ROW_NEAR)));
    }
    return near;
}

/* Exponents of powers of numbers that were FP16 or BF16: 2^(x by + less) is e^(x - top), but for a factor near one that all of
 * a row have. Where top is so large that others are equal or 256 below it, `by` is a power of two that leaves them so. */
#define POP_LOG2_E 0x1.715476p0f
POP_INLINE void pop_row_exponents(float top, float *by, float *less)
{
    uint32_t bits;
    memcpy(&bits, &top, sizeof bits);
    const uint32_t exponent = bits >> 23 & 0xff, power = (16 + 2 * 127 - exponent) << 23; /* brings top to 2^16 */
    memcpy(by, &power, sizeof *by);
    if (exponent < 16 + 127) *by = POP_LOG2_E;
    *less = -(top * *by);
}

/* Lanes of a row's greatest number. */
POP_INLINE pop_v_f pop_row_lanes_most(const pop_format *f, const void *x, int64_t n)
{
    pop_lanes lanes = pop_lanes_of(-INFINITY);
    POP_ROW_EACH(0, n, lanes.v[k] = pop_v_max_f(pop_row_else(pop_row_read(f, x, i, part), -INFINITY, part), lanes.v[k]););
    return pop_lanes_most(lanes);
}
#if POP_LANES == 16
/* The same of codes of 16 bits: words, of which those that are not negative have the order of their numbers, and the others
 * turned round. NaN may be above all or below. */
POP_INLINE __m512i pop_row_word(const void *x, int64_t i, __mmask32 part, int turned)
{
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    const __m512i word = _mm512_mask_loadu_epi16(_mm512_set1_epi16(INT16_MIN), part, (const char *)x + 2 * i);
    return turned ? _mm512_ternarylogic_epi32(word, _mm512_srai_epi16(word, 15), magnitude, 0x78) : word;
}
POP_INLINE __m512i pop_row_words(const void *x, int64_t n, int turned)
{
    __m512i even = _mm512_set1_epi16(INT16_MIN), odd = even;
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        even = _mm512_max_epi16(even, pop_row_word(x, i, (__mmask32)-1, turned));
        odd = _mm512_max_epi16(odd, pop_row_word(x, i + 32, (__mmask32)-1, turned));
    }
    for (; i < n; i += 32) {
        const __mmask32 part = pop_columns_left(n - i);
        even = _mm512_mask_max_epi16(even, part, even, pop_row_word(x, i, part, turned));
    }
    return _mm512_max_epi16(even, odd);
}
POP_INLINE pop_v_f pop_row_lanes_code(const pop_format *f, const void *x, int64_t n)
{
    __m512i most = pop_row_words(x, n, 0);
    if (_mm512_movepi16_mask(most) == (__mmask32)-1) most = pop_row_words(x, n, 1);
    else most = _mm512_max_epi16(most, _mm512_setzero_si512());
    const __m256i half = _mm256_max_epi16(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1));
    const __m256i codes = _mm256_xor_si256(half, _mm256_srli_epi16(_mm256_srai_epi16(half, 15), 1));
    return pop_v_decode(f, &codes);
}
#endif

/* The greatest of some rows each, `step` bytes from one to the next, or 0 where that is minus infinity. */
POP_INLINE void pop_rows_tops_in(const pop_format *f, const char *x, int64_t step, int rows, int64_t n, float *top)
{
    pop_v_f lanes[POP_ROWS_MOST];
    int plain = pop_is_f32(f) || POP_LANES < 16;
    for (int q = rows; q % POP_FOUR; q++) lanes[q] = pop_v_splat(0.0f);
#if POP_LANES == 16
    if (!plain) {
        for (int q = 0; q < rows; q++) lanes[q] = pop_row_lanes_code(f, x + q * step, n);
        for (int q = 0; q < rows; q += POP_FOUR) pop_four_maxima(lanes + q, top + q);
        for (int q = 0; q < rows; q++) plain |= !(top[q] < INFINITY);
    }
#endif
    if (plain) {
        for (int q = 0; q < rows; q++) lanes[q] = pop_row_lanes_most(f, x + q * step, n);
        for (int q = 0; q < rows; q += POP_FOUR) pop_four_maxima(lanes + q, top + q);
    }
    for (int q = 0; q < rows; q++) top[q] = top[q] == -INFINITY ? 0.0f : top[q];
}

/* Powers to make: as FP32 has them, or briefly, also of numbers that are not FP16 or BF16 themselves. */
enum { POP_POWERS, POP_POWERS_BRIEF, POP_POWERS_BRIEF_OF_ANY };

/* Sums of some rows' exponentials; these, or with `apart` what they are of, go to `room`, `line` numbers from row
 * to row. */
POP_INLINE void pop_rows_exponentials_in(const pop_format *f, const char *x, int64_t step, int rows, int64_t n, const float *top,
                                      float *room, int64_t line, int apart, int powers, double *sums)
{
    float by[POP_ROWS_MOST], less[POP_ROWS_MOST];
#define POP_ROWS_POWERS(power, stored)                                                                                 \
    POP_ROWS_SUMS(sums, rows, n, ({                                                                                    \
                      pop_row_ask(f, pop_beyond(x, (rows + q) * step), i, k, 0);                                       \
                      const pop_v_f own = pop_row_read(f, x + q * step, i, part), d = own - pop_v_splat(top[q]), e = power; \
                      (void)own, (void)d;                                                                              \
                      pop_row_store(room + q * line, i, stored, part);                                                 \
                      pop_row_else(e, 0.0f, part);                                                                     \
                  }))
    for (int q = 0; q < rows; q++) pop_row_exponents(top[q], by + q, less + q);
    const int near = pop_rows_are_near(f, x, step, rows, n, top);
#define POP_ROWS_POWERS_AS(near)                                                                                      \
    if (powers == POP_POWERS_BRIEF && !apart)                                                                         \
        POP_ROWS_POWERS(pop_row_brief_power(pop_v_fma(own, pop_v_splat(by[q]), pop_v_splat(less[q])), near), e);      \
    else if (powers) POP_ROWS_POWERS(pop_row_brief_power(d * POP_LOG2_E, near), apart ? d : e);                       \
    else POP_ROWS_POWERS(pop_row_exp(d, near), apart ? d : e)
    if (near) {
        POP_ROWS_POWERS_AS(1);
    } else {
        POP_ROWS_POWERS_AS(0);
    }
}
#define POP_ROWS_POWERS_OF(suffix, format)                                                                             \
    POP_ROWS_SHARED void pop_rows_tops_##suffix(const char *x, int64_t step, int rows, int64_t n, float *top)          \
    {                                                                                                                  \
        pop_rows_tops_in(&POP_##format, x, step, rows, n, top);                                                        \
    }                                                                                                                  \
    POP_ROWS_SHARED void pop_rows_exponentials_##suffix(const char *x, int64_t step, int rows, int64_t n, const float *top, \
                                                        float *room, int64_t line, int apart, int powers, double *sums) \
    {                                                                                                                  \
        pop_rows_exponentials_in(&POP_##format, x, step, rows, n, top, room, line, apart,                              \
                                 pop_is_f32(&POP_##format) ? powers : POP_POWERS_BRIEF, sums);                         \
    }
POP_ROWS_FORMATS(POP_ROWS_POWERS_OF)

/* What is exponentiated where there is a scale or a mask goes to `room`, and its greatest to `top`. */
POP_INLINE void pop_row_scaled(const pop_row *row, const pop_format *f, float *room, float *top)
{
    const pop_rows *s = row->spec;
    const float *mask = (const float *)row->at[1];
    const pop_v_f by = pop_v_splat((float)s->scale), none = pop_v_splat(-INFINITY);
    pop_lanes lanes = pop_lanes_of(-INFINITY);
    POP_ROW_EACH(0, s->n,
                 pop_v_f z = pop_row_read(f, row->at[0], i, part) * by;
                 if (mask) z = pop_v_select_f(pop_v_eq_f(pop_row_load(mask, i, part), none), z, none);
                 pop_row_store(room, i, z, part);
                 lanes.v[k] = pop_v_max_f(pop_row_else(z, -INFINITY, part), lanes.v[k]););
    *top = pop_lanes_max(lanes);
    if (*top == -INFINITY) *top = 0.0f;
}
POP_INLINE int pop_row_plain(const pop_rows *s) { return s->operands[1].operand < 0 && s->scale == 1.0; }

/* Both begin alike, for some rows: exponentials, or what they are of, go to y itself where that is FP32. x, mask, y. */
POP_INLINE float *pop_rows_powers(const pop_row *row, const pop_format *f, int apart, int64_t *line, float *top, double *sums)
{
    const pop_rows *s = row->spec;
    float *room = pop_is_f32(f) ? (float *)row->at[2] : row->room;
    *line = pop_is_f32(f) ? row->step[2] / (int64_t)sizeof *room : s->n;
    if (pop_row_plain(s)) {
        POP_ROWS_OF(pop_rows_tops, f)((const char *)row->at[0], row->step[0], row->rows, s->n, top);
        POP_ROWS_OF(pop_rows_exponentials, f)((const char *)row->at[0], row->step[0], row->rows, s->n, top, room, *line, apart,
                                              s->centred == POP_BRIEF ? POP_POWERS_BRIEF : POP_POWERS, sums);
    } else {
        pop_row_scaled(row, f, room, top);
        pop_rows_exponentials_f32((const char *)room, 0, 1, s->n, top, room, 0, apart,
                                  s->centred == POP_BRIEF ? POP_POWERS_BRIEF_OF_ANY : POP_POWERS, sums);
    }
    return room;
}
POP_INLINE void pop_row_softmax(pop_row *row, const pop_format *f)
{
    int64_t line;
    float top[POP_ROWS_MOST];
    double sums[POP_ROWS_MOST];
    const float *room = pop_rows_powers(row, f, 0, &line, top, sums);
    for (int q = 0; q < row->rows; q++) {
        const pop_v_f by = pop_v_splat(sums[q] == 0.0 ? 0.0f : (float)(row->spec->factor / sums[q]));
        const float *from = room + q * line;
        char *to = (char *)row->at[2] + q * row->step[2];
        const uintptr_t next = pop_beyond(to, row->rows * row->step[2]);
        POP_ROW_WRITTEN(f, to, row->spec->n,
                        pop_row_ask(f, next, i, k, 1);
                        POP_ROW_PUT(f, to, pop_row_load(from, i, part) * by););
    }
}
_Static_assert(POP_ROWS_MOST % POP_LANES == 0, "logarithms are made of whole vectors");
POP_INLINE void pop_rows_logs(const double *sums, int rows, float *logs)
{
    for (int q = 0; q < POP_ROWS_MOST; q++) logs[q] = 1.0f;
    for (int q = 0; q < rows; q++) logs[q] = (float)sums[q];
    for (int q = 0; q < rows; q += POP_LANES) pop_row_store(logs, q, pop_v_log(pop_row_load(logs, q, POP_LANES)), POP_LANES);
}
POP_INLINE void pop_row_log_softmax(pop_row *row, const pop_format *f)
{
    int64_t line;
    float top[POP_ROWS_MOST], logs[POP_ROWS_MOST];
    double sums[POP_ROWS_MOST];
    const float *room = pop_rows_powers(row, f, 1, &line, top, sums);
    for (int q = 0; q < row->rows; q++)
        if (sums[q] == 0.0) sums[q] = 1.0;
    pop_rows_logs(sums, row->rows, logs);
    for (int q = 0; q < row->rows; q++) {
        const pop_v_f log = pop_v_splat(logs[q]);
        const float *from = room + q * line;
        char *to = (char *)row->at[2] + q * row->step[2];
        const uintptr_t next = pop_beyond(to, row->rows * row->step[2]);
        POP_ROW_WRITTEN(f, to, row->spec->n,
                        pop_row_ask(f, next, i, k, 1);
                        POP_ROW_PUT(f, to, pop_row_load(from, i, part) - log););
    }
}

/* grad, y, result: scale y (grad - sum of grad y) */
POP_INLINE void pop_row_softmax_grad(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const char *grads = (const char *)row->at[0], *ys = (const char *)row->at[1];
    const pop_v_f by = pop_v_splat((float)s->scale);
    double sums[POP_ROWS_MOST];
    POP_ROWS_SUMS(sums, row->rows, s->n,
                  pop_row_read(f, grads + q * row->step[0], i, part) * pop_row_read(f, ys + q * row->step[1], i, part));
    for (int q = 0; q < row->rows; q++) {
        const char *g = grads + q * row->step[0], *y = ys + q * row->step[1];
        char *to = (char *)row->at[2] + q * row->step[2];
        const pop_v_f mean = pop_v_splat((float)sums[q]);
        const uintptr_t next_g = pop_beyond(g, row->rows * row->step[0]), next_y = pop_beyond(y, row->rows * row->step[1]);
        const uintptr_t next = pop_beyond(to, row->rows * row->step[2]);
        POP_ROW_WRITTEN(f, to, s->n,
                        pop_row_ask(f, next_g, i, k, 0), pop_row_ask(f, next_y, i, k, 0), pop_row_ask(f, next, i, k, 1);
                        POP_ROW_PUT(f, to, (pop_row_read(f, g, i, part) - mean) * pop_row_read(f, y, i, part) * by););
    }
}

/* grad, y, result: scale (grad - e^y sum of grad) */
POP_INLINE void pop_row_log_softmax_grad(pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const char *grads = (const char *)row->at[0], *ys = (const char *)row->at[1];
    const pop_v_f by = pop_v_splat((float)s->scale);
    double sums[POP_ROWS_MOST];
    POP_ROWS_SUMS(sums, row->rows, s->n, pop_row_read(f, grads + q * row->step[0], i, part));
    for (int q = 0; q < row->rows; q++) {
        const char *g = grads + q * row->step[0], *y = ys + q * row->step[1];
        char *to = (char *)row->at[2] + q * row->step[2];
        const pop_v_f all = pop_v_splat((float)sums[q]);
        const uintptr_t next_g = pop_beyond(g, row->rows * row->step[0]), next_y = pop_beyond(y, row->rows * row->step[1]);
        const uintptr_t next = pop_beyond(to, row->rows * row->step[2]);
        POP_ROW_WRITTEN(f, to, s->n,
                        pop_row_ask(f, next_g, i, k, 0), pop_row_ask(f, next_y, i, k, 0), pop_row_ask(f, next, i, k, 1);
                        const pop_v_f share = pop_v_exp(pop_row_read(f, y, i, part)) * all;
                        POP_ROW_PUT(f, to, (pop_row_read(f, g, i, part) - share) * by););
    }
}
#endif
