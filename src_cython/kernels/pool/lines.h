/* Lines of FP32 numbers: what rows come to, element by element, and what windows along the last axis make of them.
 *
 * Where channels lie one after another lanes are channels; else they are the positions of the last axis, and a line is
 * split into as many parts as windows are apart, so that what neighbouring windows take from it lies side by side. */
#ifndef POP_POOL_LINES_H
#define POP_POOL_LINES_H
#include "formats/codec.h"

#define POP_POOL_SLACK 16 /* floats that a line is read beyond its end, and splits are rounded up to */

typedef uint32_t pop_pool_word __attribute__((may_alias));

/* NaN where either is, and b where they are equal. */
POP_INLINE pop_v_f pop_pool_greater(pop_v_f a, pop_v_f b) { return pop_v_select_f(pop_v_eq_f(a, a), a, pop_v_max_f(a, b)); }

/* Quick maxima are one instruction, and right where no number is NaN. */
POP_INLINE pop_v_f pop_pool_maximum(int quick, pop_v_f a, pop_v_f b) { return quick ? pop_v_max_f(a, b) : pop_pool_greater(a, b); }
/* Lanes where no number was NaN yet, and whether that is all of them. */
#if POP_LANES == 16
#define POP_POOL_SOUND ((pop_v_m)-1)
POP_INLINE pop_v_m pop_pool_see(pop_v_m sound, pop_v_f a, pop_v_f b) { return _mm512_mask_cmp_ps_mask(sound, a, b, _CMP_ORD_Q); }
POP_INLINE int pop_pool_is_sound(pop_v_m sound) { return sound == POP_POOL_SOUND; }
#else
#define POP_POOL_SOUND (~(pop_v_m){0})
#if POP_LANES == 8 /* one instruction looks at both */
POP_INLINE pop_v_m pop_pool_see(pop_v_m sound, pop_v_f a, pop_v_f b) { return sound & (pop_v_m)_mm256_cmp_ps(a, b, _CMP_ORD_Q); }
#else
POP_INLINE pop_v_m pop_pool_see(pop_v_m sound, pop_v_f a, pop_v_f b) { return sound & pop_v_eq_f(a, a) & pop_v_eq_f(b, b); }
#endif
POP_INLINE int pop_pool_is_sound(pop_v_m sound) { return !pop_v_any(~sound); }
#endif
/* What a maximum ends as: zeros are +0 and NaN is one, whichever came first. */
POP_INLINE pop_v_f pop_pool_most(int quick, pop_v_f a)
{
    const pop_v_f zeros_one = a + pop_v_splat(0.0f);
    return quick ? zeros_one : pop_v_select_f(pop_v_eq_f(a, a), pop_v_float(pop_v_set(0x7fc00000)), zeros_one);
}

/* What joins two numbers, a number times a row's weight joined to what was before, what is seen, and the end. */
#define POP_POOL_JOIN_max(quick, a, b) pop_pool_maximum(quick, a, b)
#define POP_POOL_JOIN_sum(quick, a, b) ((a) + (b))
#define POP_POOL_STEP_max(quick, a, x, w) pop_pool_maximum(quick, a, x)
#define POP_POOL_STEP_sum(quick, a, x, w) pop_v_fma(x, pop_v_splat(w), a)
#define POP_POOL_SEE_max(sound, a, b) ((sound) = pop_pool_see(sound, a, b))
#define POP_POOL_SEE_sum(sound, a, b) ((void)(a), (void)(b))
/* GCC would load it again for each operation. */
#if POP_LANES == 16
#define POP_POOL_ONCE(x) POP_IN_REGISTER(x)
#else
#define POP_POOL_ONCE(x) ((void)0)
#endif
#define POP_POOL_END_max(quick, a) pop_pool_most(quick, a)
#define POP_POOL_END_sum(quick, a) ((a) + pop_v_splat(0.0f)) /* a share of a gradient that becomes -0 is +0, whatever is beside it */

/* `to`: rows joined, n elements from `offset` bytes on. There is one row at least. */
#define POP_POOL_COMBINE(op, suffix, layout)                                                                          \
    static void pop_pool_##op##_##suffix(const char *const *rows, const float *weights, int64_t count, int64_t offset, \
                                         int64_t n, float *to)                                                        \
    {                                                                                                                 \
        const int64_t bytes = pop_bytes(&layout);                                                                     \
        const pop_v_f none = pop_v_splat(POP_POOL_NONE_##op);                                                         \
        int64_t i = 0;                                                                                                \
        for (; i + 2 * POP_LANES <= n; i += 2 * POP_LANES) {                                                          \
            pop_v_f a = none, b = none;                                                                               \
            for (int64_t j = 0; j < count; j++) {                                                                     \
                const char *p = rows[j] + offset + i * bytes;                                                         \
                a = POP_POOL_STEP_##op(0, a, pop_v_decode(&layout, p), weights[j]);                                   \
                b = POP_POOL_STEP_##op(0, b, pop_v_decode(&layout, p + POP_LANES * bytes), weights[j]);               \
            }                                                                                                         \
            pop_v_store_f(to + i, a);                                                                                 \
            pop_v_store_f(to + i + POP_LANES, b);                                                                     \
        }                                                                                                             \
        for (; i < n; i += POP_LANES) {                                                                               \
            const int part = n - i < POP_LANES ? (int)(n - i) : POP_LANES;                                            \
            pop_v_f a = none;                                                                                         \
            for (int64_t j = 0; j < count; j++)                                                                       \
                a = POP_POOL_STEP_##op(0, a, pop_v_decode_part(&layout, rows[j] + offset + i * bytes, part), weights[j]); \
            pop_v_encode_part(&POP_F32, 0, to + i, a, part);                                                          \
        }                                                                                                             \
        (void)weights;                                                                                                \
    }
#define POP_POOL_NONE_max (-INFINITY)
#define POP_POOL_NONE_sum 0.0f
#define POP_POOL_COMBINES(op)                                                                                         \
    POP_POOL_COMBINE(op, f32, POP_F32) POP_POOL_COMBINE(op, f16, POP_F16) POP_POOL_COMBINE(op, bf16, POP_BF16)
POP_POOL_COMBINES(max)
POP_POOL_COMBINES(sum)

typedef void (*pop_pool_combine)(const char *const *, const float *, int64_t, int64_t, int64_t, float *);

/* Windows of one phase: `lanes` numbers of `times` results `step` apart, that take taps from places `advance` apart. The line
 * may be read POP_POOL_SLACK floats beyond what is needed. */
#define POP_POOL_TAPS(op)                                                                                             \
    static void pop_pool_taps_##op(const float *line, const int64_t *taps, int64_t count, int64_t times, int64_t advance, \
                                   int64_t lanes, float *to, int64_t step)                                            \
    {                                                                                                                 \
        for (int64_t k = 0; k < times; k++, line += advance, to += step)                                              \
            for (int64_t l = 0; l < lanes; l += POP_LANES) {                                                          \
                pop_v_f a = count ? pop_v_load_f(line + taps[0] + l) : pop_v_splat(POP_POOL_NONE_##op);               \
                for (int64_t t = 1; t < count; t++) a = POP_POOL_JOIN_##op(0, a, pop_v_load_f(line + taps[t] + l));   \
                a = POP_POOL_END_##op(0, a);                                                                          \
                if (l + POP_LANES <= lanes) pop_v_store_f(to + l, a);                                                 \
                else pop_v_store_f_some(to + l, a, pop_v_first(lanes - l));                                           \
            }                                                                                                         \
    }
POP_POOL_TAPS(max)
POP_POOL_TAPS(sum)

typedef void (*pop_pool_take)(const float *, const int64_t *, int64_t, int64_t, int64_t, int64_t, float *, int64_t);

/* Element i to part i mod s, at i / s; parts are `pitch` apart. */
POP_INLINE void pop_pool_split_known(int64_t s, const pop_pool_word *restrict from, pop_pool_word *restrict to, int64_t pitch)
{
    for (int64_t i = 0; i < pitch; i++)
        for (int64_t k = 0; k < s; k++) to[k * pitch + i] = from[i * s + k];
}

#if POP_LANES == 16
POP_INLINE void pop_pool_halves(const float *from, float *to, int64_t pitch)
{
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (int64_t i = 0; i < pitch; i += 16) {
        const __m512 a = _mm512_loadu_ps(from + 2 * i), b = _mm512_loadu_ps(from + 2 * i + 16);
        _mm512_storeu_ps(to + i, _mm512_permutex2var_ps(a, even, b));
        _mm512_storeu_ps(to + pitch + i, _mm512_permutex2var_ps(a, odd, b));
    }
}
#endif

static void pop_pool_split(int64_t s, const float *from, float *to, int64_t pitch)
{
    const pop_pool_word *read = (const pop_pool_word *)from;
    pop_pool_word *written = (pop_pool_word *)to;
#if POP_LANES == 16
    if (s == 2) pop_pool_halves(from, to, pitch);
#else
    if (s == 2) pop_pool_split_known(2, read, written, pitch);
#endif
    else if (s == 3) pop_pool_split_known(3, read, written, pitch);
    else pop_pool_split_known(s, read, written, pitch);
}

/* The other way round, n elements of a part. */
POP_INLINE void pop_pool_join_known(int64_t s, const pop_pool_word *restrict from, int64_t pitch, pop_pool_word *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < s; k++) to[i * s + k] = from[k * pitch + i];
}

static void pop_pool_join(int64_t s, const float *from, int64_t pitch, float *to, int64_t n)
{
    const pop_pool_word *read = (const pop_pool_word *)from;
    pop_pool_word *written = (pop_pool_word *)to;
    if (s == 2) pop_pool_join_known(2, read, pitch, written, n);
    else if (s == 3) pop_pool_join_known(3, read, pitch, written, n);
    else pop_pool_join_known(s, read, pitch, written, n);
}

static void pop_pool_fill(float *to, float x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = x;
}

/* Numbers times, or divided by, a factor and, where there are some, by a number for each position of `lanes` of them. */
#define POP_POOL_SCALE(name, op)                                                                                      \
    static void pop_pool_##name(float *x, const float *by, float factor, int64_t positions, int64_t lanes, int64_t step) \
    {                                                                                                                 \
        if (lanes == 1 && step == 1) {                                                                                \
            if (by)                                                                                                   \
                for (int64_t i = 0; i < positions; i++) x[i] = x[i] op (factor * by[i]);                              \
            else                                                                                                      \
                for (int64_t i = 0; i < positions; i++) x[i] = x[i] op factor;                                        \
            return;                                                                                                   \
        }                                                                                                             \
        for (int64_t i = 0; i < positions; i++, x += step) {                                                          \
            const float own = by ? factor * by[i] : factor;                                                           \
            for (int64_t l = 0; l < lanes; l++) x[l] = x[l] op own;                                                   \
        }                                                                                                             \
    }
POP_POOL_SCALE(multiply, *)
POP_POOL_SCALE(divide, /)
#endif
