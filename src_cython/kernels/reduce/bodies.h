/* What reductions do with an element and with two partial results. A body has up to two accumulators, `s[0]` and `s[1]`.
 *
 * A body begins with `first`, which changes nothing it is combined with, so that parts that are not there may be left out
 * or taken in: minus zero for sums. */
#ifndef POP_REDUCE_BODIES_H
#define POP_REDUCE_BODIES_H
#include "formats/codec.h"
#include "simd/math.h"

/* NaN where either is, and b where they are equal. An element is `a`, so that b waits for one or two instructions alone. */
#if POP_LANES == 16
POP_INLINE pop_v_f pop_reduce_greater(pop_v_f a, pop_v_f b) { return _mm512_mask_max_ps(a, pop_v_eq_f(a, a), a, b); }
POP_INLINE pop_v_f pop_reduce_less(pop_v_f a, pop_v_f b) { return _mm512_mask_min_ps(a, pop_v_eq_f(a, a), a, b); }
#else
POP_INLINE pop_v_f pop_reduce_greater(pop_v_f a, pop_v_f b) { return pop_v_select_f(pop_v_eq_f(a, a), a, pop_v_max_f(a, b)); }
POP_INLINE pop_v_f pop_reduce_less(pop_v_f a, pop_v_f b) { return pop_v_select_f(pop_v_eq_f(a, a), a, pop_v_min_f(a, b)); }
#endif

/* What the rounding of the sum t = a + b takes away (Knuth). */
POP_INLINE pop_v_f pop_reduce_lost(pop_v_f a, pop_v_f b, pop_v_f t)
{
    const pop_v_f z = t - a;
    return (a - (t - z)) + (b - z);
}

POP_INLINE void pop_reduce_join(pop_v_f *s, pop_v_f x, pop_v_f more)
{
    const pop_v_f t = s[0] + x;
    s[1] = s[1] + (pop_reduce_lost(s[0], x, t) + more);
    s[0] = t;
}

POP_INLINE void pop_reduce_join_square(pop_v_f *s, pop_v_f x)
{
    const pop_v_f square = x * x;
    pop_reduce_join(s, square, pop_v_fma(x, x, -square));
}

/* One accumulator: name, first, what it becomes with x (shifted by c), and with another one's t. */
#define POP_REDUCE_SINGLE(X)                                                                                          \
    X(sum, -0.0f, s + x, s + t)                                                                                       \
    X(square_sum, -0.0f, pop_v_fma(x, x, s), s + t)                                                                   \
    X(abs_sum, -0.0f, s + pop_v_abs(x), s + t)                                                                        \
    X(prod, 1.0f, s *x, s *t)                                                                                         \
    X(max, -INFINITY, pop_reduce_greater(x, s), pop_reduce_greater(s, t))                                             \
    X(min, INFINITY, pop_reduce_less(x, s), pop_reduce_less(s, t))                                                    \
    X(abs_max, 0.0f, pop_reduce_greater(pop_v_abs(x), s), pop_reduce_greater(s, t))                                   \
    X(exp_sum, -0.0f, s + pop_v_exp(x - c), s + t)

/* The same of questions, 1 as soon as an element says so: of FP32 alone, to which other formats are decoded. */
#define POP_REDUCE_QUESTION(X)                                                                                        \
    X(any, 0.0f, pop_v_select_f(pop_v_eq_f(x, pop_v_splat(0.0f)), pop_v_splat(1.0f), s), pop_v_max_f(s, t))           \
    X(all, 0.0f, pop_v_select_f(pop_v_eq_f(x, pop_v_splat(0.0f)), s, pop_v_splat(1.0f)), pop_v_max_f(s, t))           \
    X(nan, 0.0f, pop_v_select_f(pop_v_eq_f(x, x), pop_v_splat(1.0f), s), pop_v_max_f(s, t))                           \
    X(not_finite, 0.0f, pop_v_select_f(pop_v_eq_f(x - x, pop_v_splat(0.0f)), pop_v_splat(1.0f), s), pop_v_max_f(s, t))

/* Two accumulators: name, the statements for an element, those for another one's accumulators. Both begin with -0. */
#define POP_REDUCE_DOUBLE(X)                                                                                          \
    X(compensated_sum, pop_reduce_join(s, x, pop_v_splat(-0.0f)), pop_reduce_join(s, t[0], t[1]))                     \
    X(compensated_square_sum, pop_reduce_join_square(s, x), pop_reduce_join(s, t[0], t[1]))                           \
    X(moments, (x = x - c, s[0] = s[0] + x, s[1] = pop_v_fma(x, x, s[1])), (s[0] = s[0] + t[0], s[1] = s[1] + t[1]))

#define POP_REDUCE_SINGLE_BODY(name, first, step, join)                                                               \
    POP_INLINE void pop_first_##name(pop_v_f *a) { a[0] = pop_v_splat(first); }                                       \
    POP_INLINE void pop_step_##name(pop_v_f *a, pop_v_f x, pop_v_f c)                                                 \
    {                                                                                                                 \
        const pop_v_f s = a[0];                                                                                       \
        (void)c;                                                                                                      \
        a[0] = step;                                                                                                  \
    }                                                                                                                 \
    POP_INLINE void pop_join_##name(pop_v_f *a, const pop_v_f *b)                                                     \
    {                                                                                                                 \
        const pop_v_f s = a[0], t = b[0];                                                                             \
        a[0] = join;                                                                                                  \
    }
#define POP_REDUCE_DOUBLE_BODY(name, step, join)                                                                      \
    POP_INLINE void pop_first_##name(pop_v_f *a) { a[0] = a[1] = pop_v_splat(-0.0f); }                                \
    POP_INLINE void pop_step_##name(pop_v_f *s, pop_v_f x, pop_v_f c)                                                 \
    {                                                                                                                 \
        (void)c;                                                                                                      \
        step;                                                                                                         \
    }                                                                                                                 \
    POP_INLINE void pop_join_##name(pop_v_f *s, const pop_v_f *t) { join; }
POP_REDUCE_SINGLE(POP_REDUCE_SINGLE_BODY)
POP_REDUCE_QUESTION(POP_REDUCE_SINGLE_BODY)
POP_REDUCE_DOUBLE(POP_REDUCE_DOUBLE_BODY)
#endif
