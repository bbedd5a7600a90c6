/* Where extremes are: the first element of a block that equals the extreme, or is NaN where that is. */
#ifndef POP_REDUCE_PLACES_H
#define POP_REDUCE_PLACES_H
#include "kernels/reduce/blocks.h"

typedef int64_t (*pop_reduce_find)(const char *p, int64_t n, float value);
/* n rows of memory, `width` columns of each: the extremes, and the first row of each. */
typedef void (*pop_reduce_places)(const char *const *rows, int64_t n, int64_t width, float *best, int32_t *place);

POP_INLINE int pop_first_lane(pop_v_m m)
{
#if POP_LEVEL >= POP_LEVEL_AVX512
    return __builtin_ctz((unsigned)m);
#elif POP_LEVEL >= POP_LEVEL_AVX2
    return __builtin_ctz((unsigned)_mm256_movemask_ps((__m256)m));
#else
    int l = 0;
    while (!m[l]) l++;
    return l;
#endif
}

/* Given that there is one. */
POP_INLINE int64_t pop_find_of(const pop_format *f, const char *p, int64_t n, float value)
{
    const pop_v_f due = pop_v_splat(value);
    for (int64_t i = 0; i < n; i += POP_LANES) {
        const int here = n - i < POP_LANES ? (int)(n - i) : POP_LANES;
        const pop_v_f x = here == POP_LANES ? pop_v_decode(f, p + i * pop_bytes(f)) : pop_v_decode_part(f, p + i * pop_bytes(f), here);
        const pop_v_m found = (pop_v_m)((value == value ? pop_v_eq_f(x, due) : (pop_v_m)~pop_v_eq_f(x, x)) & pop_v_mask(pop_v_first(here)));
        if (pop_v_any(found)) return i + pop_first_lane(found);
    }
    return 0;
}

#define POP_SIDE 2 /* vectors side by side */

POP_INLINE void pop_places_vectors(int least, const pop_format *f, const char *const *rows, int64_t n, int64_t column, int vectors,
                                   int part, float *best, int32_t *place)
{
    pop_v_f top[POP_SIDE];
    pop_v_i at[POP_SIDE];
    for (int v = 0; v < vectors; v++) top[v] = pop_v_splat(least ? INFINITY : -INFINITY), at[v] = pop_v_set(0);
    for (int64_t r = 0; r < n; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            const char *p = rows[r] + (column + v * POP_LANES) * pop_bytes(f);
            const pop_v_f x = part < POP_LANES ? pop_v_decode_part(f, p, part) : pop_v_decode(f, p);
            const pop_v_m better = least ? pop_v_lt_f(x, top[v]) : pop_v_gt_f(x, top[v]);
            const pop_v_m first_nan = (pop_v_m)((pop_v_m)~pop_v_eq_f(x, x) & pop_v_eq_f(top[v], top[v]));
            const pop_v_m takes = (pop_v_m)(better | first_nan);
            top[v] = pop_v_select_f(takes, top[v], x);
            at[v] = pop_v_select(takes, at[v], pop_v_set((int32_t)r));
        }
    }
    for (int v = 0; v < vectors; v++) {
        pop_v_store_f(best + column + v * POP_LANES, top[v]);
        pop_v_store(place + column + v * POP_LANES, 4, at[v]);
    }
}

POP_INLINE void pop_places_of(int least, const pop_format *f, const char *const *rows, int64_t n, int64_t width, float *best,
                              int32_t *place)
{
    int64_t column = 0;
    for (; column + POP_SIDE * POP_LANES <= width; column += POP_SIDE * POP_LANES)
        pop_places_vectors(least, f, rows, n, column, POP_SIDE, POP_LANES, best, place);
    for (; column + POP_LANES <= width; column += POP_LANES)
        pop_places_vectors(least, f, rows, n, column, 1, POP_LANES, best, place);
    if (column < width) pop_places_vectors(least, f, rows, n, column, 1, (int)(width - column), best, place);
}

#define POP_PLACES_OF_FORMAT(none, suffix, format)                                                                          \
    static int64_t pop_find_##suffix(const char *p, int64_t n, float value) { return pop_find_of(&format, p, n, value); } \
    static void pop_argmax_##suffix(const char *const *rows, int64_t n, int64_t width, float *best, int32_t *place)   \
    {                                                                                                                 \
        pop_places_of(0, &format, rows, n, width, best, place);                                                       \
    }                                                                                                                 \
    static void pop_argmin_##suffix(const char *const *rows, int64_t n, int64_t width, float *best, int32_t *place)   \
    {                                                                                                                 \
        pop_places_of(1, &format, rows, n, width, best, place);                                                       \
    }
POP_REDUCE_EACH_FORMAT(POP_PLACES_OF_FORMAT, )
#endif
