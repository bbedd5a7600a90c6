/* Lookups all along one axis, by one index each, which lie one after another: they are read and used at once, so that what they
 * point to is on its way while further ones are read. Where an index is bad the rest is left to resolve.h. */
#ifndef POP_SLICES_STRAIGHT_H
#define POP_SLICES_STRAIGHT_H
#include "kernels/slices/resolve.h"
#include "kernels/stream.h"

#define POP_STRAIGHT_AHEAD 64 /* lookups of a table that no second-level cache holds that are prefetched to that cache:
                               * of 16 Mi numbers in memory, on one Zen 4 core, 1.9 times as fast as unasked */
#define POP_LOOKED_AT 4096     /* indices at a time */
#define POP_INDICES_AHEAD 2048 /* bytes as far as which indices are prefetched where a table lies in the last cache: numbers of a
                               * million in 0.9 times the time, and in 1.05 where their places are prefetched too */

static int pop_is_straight(const pop_slices *s)
{
    const pop_slices_axis *a = s->axes;
    return s->axes_count == 1 && s->components_count == 1 && s->components->limit > 0 && s->components->offset == 0 && !s->wraps &&
           a->table == 0 && a->index == s->index_bytes && s->index_bytes >= 4;
}

/* How indices are read: 8 of eight bytes (those beyond int64 are bad, as negative ones are), 4 or -4 of int32 or uint32. */
POP_INLINE int pop_straight_kind(const pop_slices *s) { return s->index_bytes == 8 ? 8 : s->index_signed ? 4 : -4; }

#define POP_BY_KIND(function, ...)                                                                                    \
    (kind == 8 ? function(__VA_ARGS__, 8) : kind == 4 ? function(__VA_ARGS__, 4) : function(__VA_ARGS__, -4))

POP_INLINE uint64_t pop_straight_index(const char *p, int64_t i, int kind)
{
    uint64_t wide;
    uint32_t narrow;
    if (kind == 8) {
        memcpy(&wide, p + i * 8, sizeof wide);
        return wide;
    }
    memcpy(&narrow, p + i * 4, sizeof narrow);
    return kind > 0 ? (uint64_t)(int64_t)(int32_t)narrow : narrow;
}

/* The greatest of n indices, those below zero taken for the greatest of all; of each quarter by itself, for one waits for the other. */
#define POP_MOST(width)                                                                                               \
    static uint64_t pop_most_##width(const char *p, int64_t n)                                                        \
    {                                                                                                                 \
        const int64_t bytes = width / 8, quarter = n / 4 * bytes;                                                     \
        uint##width##_t v[4], a = 0, b = 0, c = 0, d = 0;                                                             \
        for (int64_t i = 0; i < n / 4; i++) {                                                                         \
            for (int k = 0; k < 4; k++) memcpy(v + k, p + k * quarter + i * bytes, sizeof *v);                        \
            a = v[0] > a ? v[0] : a, b = v[1] > b ? v[1] : b, c = v[2] > c ? v[2] : c, d = v[3] > d ? v[3] : d;       \
        }                                                                                                             \
        for (int64_t i = n / 4 * 4; i < n; i++) {                                                                     \
            memcpy(v, p + i * bytes, sizeof *v);                                                                      \
            a = v[0] > a ? v[0] : a;                                                                                  \
        }                                                                                                             \
        a = a > b ? a : b, c = c > d ? c : d;                                                                         \
        return a > c ? a : c;                                                                                         \
    }
POP_MOST(32)
POP_MOST(64)

/* Whether one of n indices is bad. They are looked at from the last to the first, so that the first are at hand when they are used. */
static int pop_check_straight(const pop_slices *s, const char *p, int64_t n)
{
    const int kind = pop_straight_kind(s);
    const uint64_t places = (uint64_t)s->components->limit, limit = kind == 4 && places > INT32_MAX ? (uint64_t)INT32_MAX + 1 : places;
    int bad = 0;
    const int64_t bytes = s->index_bytes, head = (int64_t)(-(uintptr_t)p % 64) / bytes; /* up to the first whole line */
    for (int64_t end = n, first; end > 0; end = first) {
        first = end > head ? head + (end - 1 - head) / POP_LOOKED_AT * POP_LOOKED_AT : 0;
        bad |= (kind == 8 ? pop_most_64(p + first * 8, end - first) : pop_most_32(p + first * 4, end - first)) >= limit;
    }
    return bad;
}

/* The row of a lookup further on, if it is good. */
POP_INLINE void pop_straight_prefetch(const char *p, int64_t i, int64_t n, int64_t ahead, int kind, const char *table, int64_t step,
                                 uint64_t limit, int64_t bytes)
{
    const uint64_t later = pop_straight_index(p, pop_least(i + ahead, n - 1), kind);
    if (later >= limit) return;
    const uintptr_t row = pop_beyond(table, (int64_t)later * step);
    pop_prefetch_l2(row);
    if (bytes > 8) pop_prefetch_l2(row + (uintptr_t)bytes - 1);
}

/* Rows of so many bytes. Returns how many lookups were done: those before a bad one. */
POP_INLINE int64_t pop_take_straight_of(const pop_slices *s, const char *p, const char *table, char *restrict out, int64_t n,
                                        int64_t ahead, int64_t bytes, int64_t first, int kind)
{
    const uint64_t limit = (uint64_t)s->components->limit;
    const int64_t step = s->components->step, stride = s->axes->other;
    _Pragma("GCC unroll 4") for (int64_t i = first; i < n; i++) {
        const uint64_t at = pop_straight_index(p, i, kind);
        if (ahead) pop_straight_prefetch(p, i, n, ahead, kind, table, step, limit, bytes);
        if (at >= limit) return i;
        pop_copy(out + i * stride, table + (int64_t)at * step, bytes);
    }
    return n;
}

#if POP_LEVEL >= POP_LEVEL_AVX512
#include <immintrin.h>
#define POP_NUMBERS 8 /* numbers of four bytes at a time */

/* Single numbers that lie one after another in the table and in the result, those before the result's first whole line one by one.
 * Returns how many were done, none from eight of which an index is bad on. */
POP_INLINE int64_t pop_take_gathered(const pop_slices *s, const char *p, const char *table, char *restrict out, int64_t n,
                                     int64_t ahead, int kind)
{
    const uint64_t limit = (uint64_t)s->components->limit;
    if (s->row != 4 || s->components->step != 4 || s->axes->other != 4 || limit > INT32_MAX) return 0;
    const int near = limit * 4 <= POP_CACHE, prefetches = near && ahead;
    const int64_t head = pop_least(n, (int64_t)(-(uintptr_t)out % 64) / 4);
    int64_t i = pop_take_straight_of(s, p, table, out, head, 0, 4, 0, kind);
    if (i < head) return i;
    if (near) ahead = 0;
    for (; i + POP_NUMBERS <= n; i += POP_NUMBERS) {
        if (prefetches) pop_prefetch_once(pop_beyond(p, i * s->index_bytes + POP_INDICES_AHEAD));
        __m512i at = kind == 8 ? _mm512_loadu_si512(p + i * 8)
                               : _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)(p + i * 4)));
        if (kind == 4) at = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(at));
        if (kind == -4) at = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(at));
        for (int k = 0; ahead && k < POP_NUMBERS; k++) pop_straight_prefetch(p, i + k, n, ahead, kind, table, 4, limit, 4);
        if (_mm512_cmpge_epu64_mask(at, _mm512_set1_epi64((int64_t)limit))) break;
        const __m256i numbers = _mm256_i32gather_epi32((const int *)(const void *)table, _mm512_cvtepi64_epi32(at), 4);
        _mm256_storeu_si256((__m256i *)(void *)(out + i * 4), numbers);
    }
    return i;
}
#else
#define pop_take_gathered(s, p, table, out, n, ahead, kind) 0
#endif

#define POP_STRAIGHT_CASE(bytes)                                                                                      \
    case bytes: return pop_take_straight_of(s, p, table, out, n, ahead, bytes, first, kind);

POP_INLINE int64_t pop_take_straight_by(const pop_slices *s, const char *p, const char *table, char *restrict out, int64_t n,
                                        int64_t ahead, int kind)
{
    const int64_t first = pop_take_gathered(s, p, table, out, n, ahead, kind);
    switch (s->row) {
        POP_STRAIGHT_CASE(1)
        POP_STRAIGHT_CASE(2)
        POP_STRAIGHT_CASE(4)
        POP_STRAIGHT_CASE(8)
        POP_STRAIGHT_CASE(16)
        POP_STRAIGHT_CASE(32)
        POP_STRAIGHT_CASE(64)
        POP_STRAIGHT_CASE(128)
    default: return 0;
    }
}

/* n lookups whose rows are short; others, and those whose bad ones leave their result as it is, are not begun. */
static int64_t pop_take_straight(const pop_slices *s, const char *p, const char *table, char *restrict out, int64_t n, int64_t ahead)
{
    if (s->policy == POP_INDEX_SKIP) return 0;
    const int kind = pop_straight_kind(s);
    return POP_BY_KIND(pop_take_straight_by, s, p, table, out, n, ahead);
}

/* Single FP32 numbers that are added, of all places. Returns how many lookups were done. */
POP_INLINE int64_t pop_add_straight_of(const pop_slices *s, const char *p, char *table, const char *updates, int64_t ahead, int kind)
{
    typedef float __attribute__((aligned(1), may_alias)) number;
    const uint64_t limit = (uint64_t)s->components->limit;
    const int64_t step = s->components->step, n = s->lookups;
    const float factor = s->factor;
    _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++) {
        const uint64_t at = pop_straight_index(p, i, kind);
        if (ahead) pop_straight_prefetch(p, i, n, ahead, kind, table, step, limit, 4);
        if (at >= limit) return i;
        *(number *)(void *)(table + (int64_t)at * step) += factor * ((const number *)(const void *)updates)[i];
    }
    return n;
}

static int64_t pop_add_straight(const pop_slices *s, const char *p, char *table, const char *updates, int64_t ahead)
{
    const int kind = pop_straight_kind(s);
    return POP_BY_KIND(pop_add_straight_of, s, p, table, updates, ahead);
}

/* Whether an index of a range is bad. Operands: the indices, an int64 for each share. */
static void pop_slices_check(const void *work, const pop_tile *tile)
{
    const pop_slices_item *item = (const pop_slices_item *)work;
    int64_t *bad = (int64_t *)(void *)tile->operands[1] + item->share;
    pop_resolved r;
    *bad = 0;
    if (pop_is_straight(item->spec)) {
        *bad = pop_check_straight(item->spec, tile->operands[0] + item->first * item->spec->index_bytes, item->count);
        return;
    }
    for (int64_t first = item->first, end = first + item->count; first < end && !*bad; first += r.n) {
        pop_resolve(item->spec, tile->operands[0], &r, first, end - first, 0);
        *bad = !r.good;
    }
}
#endif
