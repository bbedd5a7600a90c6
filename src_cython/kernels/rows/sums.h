/* Sums along a row: element r of a stretch of 2048 goes to lane r mod 64, lanes are joined by halves, stretches in float64. So
 * the bits are the row's alone, and an element meets 38 roundings in FP32 at most. */
#ifndef POP_ROWS_SUMS_H
#define POP_ROWS_SUMS_H
#include "formats/codec.h"
#include "kernels/rows/walk.h"

#define POP_ROW_LANES 64
#define POP_ROW_VECTORS (POP_ROW_LANES / POP_LANES)

typedef struct pop_lanes {
    pop_v_f v[POP_ROW_VECTORS];
} pop_lanes;

POP_INLINE pop_lanes pop_lanes_of(float x)
{
    pop_lanes l;
#pragma GCC unroll 16
    for (int k = 0; k < POP_ROW_VECTORS; k++) l.v[k] = pop_v_splat(x);
    return l;
}

/* Lane i of each and lane i + half, `half` becoming less; the first lane at the end. */
#if POP_LANES == 16
#define POP_PLACES {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
#elif POP_LANES == 8
#define POP_PLACES {0, 1, 2, 3, 4, 5, 6, 7}
#else
#define POP_PLACES {0, 1, 2, 3}
#endif
#define POP_LANES_JOINED(v, join)                                                 \
    _Pragma("GCC unroll 8") for (int half = POP_ROW_VECTORS / 2; half; half /= 2) \
        _Pragma("GCC unroll 16") for (int k = 0; k < half; k++) v[k] = join(v[k], v[k + half]);
#define POP_LANE_JOINED(v, most, join)                                                              \
    _Pragma("GCC unroll 8") for (int half = (most) / 2; half; half /= 2) v = join(v, __builtin_shuffle(v, places ^ half));

POP_INLINE pop_v_f pop_v_plus(pop_v_f a, pop_v_f b) { return a + b; }
/* Lanes come by their address, a vector at a time: copies of all would be of half vectors, which loads of whole ones wait for. */
#define POP_LANES_TO(v, l)                                             \
    pop_v_f v[POP_ROW_VECTORS];                                        \
    _Pragma("GCC unroll 16") for (int k = 0; k < POP_ROW_VECTORS; k++) v[k] = (l)->v[k];
POP_INLINE pop_v_f pop_lanes_plus(const pop_lanes *l)
{
    POP_LANES_TO(v, l)
    POP_LANES_JOINED(v, pop_v_plus)
    return v[0];
}
POP_INLINE pop_v_f pop_lanes_most(const pop_lanes *l)
{
    POP_LANES_TO(v, l)
    POP_LANES_JOINED(v, pop_v_max_f)
    return v[0];
}
POP_INLINE float pop_lane_sum(pop_v_f v)
{
    const pop_v_i places = POP_PLACES;
    POP_LANE_JOINED(v, POP_LANES, pop_v_plus)
    return v[0];
}
POP_INLINE float pop_lane_max(pop_v_f v)
{
    const pop_v_i places = POP_PLACES;
    POP_LANE_JOINED(v, POP_LANES, pop_v_max_f)
    return v[0];
}
POP_INLINE float pop_lanes_sum(const pop_lanes *l) { return pop_lane_sum(pop_lanes_plus(l)); }
POP_INLINE float pop_lanes_max(const pop_lanes *l) { return pop_lane_max(pop_lanes_most(l)); }

/* Numbers of four rows side by side. */
typedef float pop_four_f __attribute__((vector_size(16)));
typedef double pop_four_d __attribute__((vector_size(32)));

/* The same of four rows at once, whose lanes are one vector each: what is joined is as it is for one. */
#if POP_LANES == 8 /* all but the first step within halves of 128 bits */
#define POP_FOUR_JOINED(v, made, join)                                                              \
    do {                                                                                            \
        const pop_v_i low = {0, 1, 2, 3, 8, 9, 10, 11}, less = {0, 1, 8, 9, 4, 5, 12, 13}, next = {1, 0, 3, 2, 5, 4, 7, 6}; \
        const pop_v_f a = join(__builtin_shuffle((v)[0], (v)[1], low), __builtin_shuffle((v)[0], (v)[1], low + 4)); \
        const pop_v_f b = join(__builtin_shuffle((v)[2], (v)[3], low), __builtin_shuffle((v)[2], (v)[3], low + 4)); \
        const pop_v_f two = join(__builtin_shuffle(a, b, less), __builtin_shuffle(a, b, less + 2)); \
        const pop_v_f all = join(two, __builtin_shuffle(two, next)); /* of rows 0, 2, 1 and 3, each twice */ \
        const __m128 four = _mm_blend_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1), 0xa); \
        memcpy(made, &four, sizeof four);                                                           \
    } while (0)
#else
#define POP_FOUR_JOINED(v, made, join)                                                              \
    do {                                                                                            \
        const pop_v_i places = POP_PLACES, low = places + (places & (POP_LANES / 2)), less = places + (places & -(POP_LANES / 4)); \
        const pop_v_f a = join(__builtin_shuffle((v)[0], (v)[1], low), __builtin_shuffle((v)[0], (v)[1], low + POP_LANES / 2)); \
        const pop_v_f b = join(__builtin_shuffle((v)[2], (v)[3], low), __builtin_shuffle((v)[2], (v)[3], low + POP_LANES / 2)); \
        pop_v_f all = join(__builtin_shuffle(a, b, less), __builtin_shuffle(a, b, less + POP_LANES / 4)); \
        POP_LANE_JOINED(all, POP_LANES / 4, join)                                                   \
        const pop_four_f four = {all[0], all[POP_LANES / 4], all[POP_LANES / 2], all[3 * POP_LANES / 4]}; \
        memcpy(made, &four, sizeof four);                                                           \
    } while (0)
#endif
POP_INLINE void pop_four_maxima(const pop_v_f *v, float *made) { POP_FOUR_JOINED(v, made, pop_v_max_f); }
/* Sums of four rows' last lanes and of what there is before. */
POP_INLINE void pop_four_sums(const pop_v_f *v, const pop_four_d *before, double *made)
{
    pop_four_f joined;
    POP_FOUR_JOINED(v, &joined, pop_v_plus);
    const pop_four_d sums = *before + __builtin_convertvector(joined, pop_four_d);
    memcpy(made, &sums, sizeof sums);
}

POP_INLINE int pop_row_is_bf16(const pop_format *f) { return pop_is_short_f32(f) && f->mantissa_bits == 7; }
/* Numbers in the kernel's format, f. One instruction puts 16 codes of BF16 where FP32 has them. */
POP_INLINE pop_v_f pop_row_read(const pop_format *f, const void *p, int64_t i, int part)
{
#if POP_LEVEL >= POP_LEVEL_AVX512
    if (pop_row_is_bf16(f)) {
        const __m512i twice = _mm512_set_epi16(15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9, 9, 8, 8, 7, 7, 6, 6, 5, 5, 4, 4, 3, 3,
                                               2, 2, 1, 1, 0, 0);
        const uint16_t *at = (const uint16_t *)p + i;
        const __m256i codes = part == POP_LANES ? _mm256_loadu_si256((const __m256i *)(const void *)at)
                                                : _mm256_maskz_loadu_epi16(pop_v_first(part), at);
        return (pop_v_f)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, twice, _mm512_castsi256_si512(codes));
    }
#endif
    return pop_v_decode_part(f, (const char *)p + i * pop_bytes(f), part);
}
POP_INLINE void pop_row_write(const pop_format *f, void *p, int64_t i, pop_v_f x, int part)
{
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16 /* one instruction rounds what is not subnormal: of that it makes zeros */
    if (pop_row_is_bf16(f)) {
        __m256i codes = (__m256i)_mm512_cvtneps_pbh((__m512)x);
        if (__builtin_expect(_mm512_fpclass_ps_mask((__m512)x, 0x20), 0)) codes = pop_v_bf16(x);
        if (part == POP_LANES) _mm256_storeu_si256((__m256i *)((uint16_t *)p + i), codes);
        else _mm256_mask_storeu_epi16((uint16_t *)p + i, pop_v_first(part), codes);
        return;
    }
#endif
    pop_v_encode_part(f, POP_OVERFLOW_INFINITY, (char *)p + i * pop_bytes(f), x, part);
}
POP_INLINE pop_v_f pop_row_load(const float *p, int64_t i, int part) { return pop_row_read(&POP_F32, p, i, part); }
POP_INLINE void pop_row_store(float *p, int64_t i, pop_v_f x, int part) { pop_row_write(&POP_F32, p, i, x, part); }
/* At AVX2 one operation a vector widens codes of BF16 within halves of 128 bits. Where a group of lanes has such `halves`, each sixteen
 * numbers' even vector has those from 0 and from 8 on, the odd one those from 4 and from 12 on. Vector k, as codes and as FP32. */
#define POP_ROW_HALVES(f) (POP_LANES == 8 && pop_row_is_bf16(f))
POP_INLINE pop_v_f pop_row_read_half(const pop_format *f, const void *p, int64_t i, int k, int part, const int halves)
{
#if POP_LANES == 8
    if (halves) {
        const __m256i none = _mm256_setzero_si256();
        const __m256i codes = _mm256_loadu_si256((const __m256i *)(const void *)((const uint16_t *)p + i - k % 2 * POP_LANES));
        return (pop_v_f)(k % 2 ? _mm256_unpackhi_epi16(none, codes) : _mm256_unpacklo_epi16(none, codes));
    }
#endif
    (void)k, (void)halves;
    return pop_row_read(f, p, i, part);
}
POP_INLINE pop_v_f pop_row_load_half(const float *p, int64_t i, int k, int part, const int halves)
{
#if POP_LANES == 8
    if (halves) {
        const float *at = p + i - k % 2 * (POP_LANES / 2);
        return (pop_v_f)_mm256_loadu2_m128(at + POP_LANES, at);
    }
#endif
    (void)k, (void)halves;
    return pop_row_load(p, i, part);
}
POP_INLINE pop_v_f pop_lanes_plus_of(const pop_lanes *l, const int halves)
{
#if POP_LANES == 8
    if (halves) {
        const pop_v_f low = l->v[0] + l->v[4] + (l->v[2] + l->v[6]), high = l->v[1] + l->v[5] + (l->v[3] + l->v[7]);
        return (pop_v_f)(_mm256_permute2f128_ps(low, high, 0x20) + _mm256_permute2f128_ps(low, high, 0x31));
    }
#endif
    (void)halves;
    return pop_lanes_plus(l);
}
#define POP_ROW_READ(f, p) pop_row_read_half(f, p, i, k, part, halves)
#define POP_ROW_LOAD(p) pop_row_load_half(p, i, k, part, halves)
POP_INLINE pop_v_f pop_row_else(pop_v_f x, float other, int part) /* in the lanes that are none */
{
    return part == POP_LANES ? x : pop_v_select_f(pop_v_mask(pop_v_first(part)), pop_v_splat(other), x);
}

#if POP_LANES == 16
#define POP_ROW_UNROLL _Pragma("GCC unroll 4")
#elif POP_LANES == 8
#define POP_ROW_UNROLL _Pragma("GCC unroll 8")
#else
#define POP_ROW_UNROLL _Pragma("GCC unroll 1")
#endif

#define POP_LINES_EACH(lines) _Pragma("GCC unroll 4") for (int q = 0; q < (lines); q++)

/* Groups of vectors from element `i` on, which comes to lie behind them; of each those from `first` to `last`. */
#define POP_ROW_WHOLE(end, ...) POP_ROW_WHOLE_OF(0, POP_ROW_VECTORS, end, __VA_ARGS__)
#define POP_ROW_WHOLE_OF(first, last, end, ...)                                           \
    for (int64_t base = i; base + POP_ROW_LANES <= (end); base += POP_ROW_LANES, i = base) \
        POP_ROW_UNROLL for (int k = (first); k < (last); k++)                             \
        {                                                                                 \
            const int part = POP_LANES, whole = 1;                                        \
            (void)whole;                                                                  \
            i = base + k * POP_LANES;                                                     \
            __VA_ARGS__                                                                   \
        }

/* For elements from `begin` to `end` of a row: `k` is the vector of lanes, `i` the first element, `part` how many. */
#define POP_ROW_EACH(begin, end, ...) POP_ROW_EACH_OF(0, POP_ROW_VECTORS, begin, end, __VA_ARGS__)
#define POP_ROW_EACH_OF(first, last, begin, end, ...)                                     \
    do {                                                                                  \
        int64_t i = (begin);                                                              \
        POP_ROW_WHOLE_OF(first, last, end, __VA_ARGS__)                                   \
        i += (first) * POP_LANES;                                                         \
        POP_ROW_UNROLL for (int k = (first); k < (last); k++, i += POP_LANES)             \
        {                                                                                 \
            if (i >= (end)) break;                                                        \
            const int part = (end) - i < POP_LANES ? (int)((end) - i) : POP_LANES;        \
            __VA_ARGS__                                                                   \
        }                                                                                 \
    } while (0)
/* Lanes of a row's greatest number, and at AVX2 of its least: NaN is neither. */
POP_INLINE pop_v_f pop_row_lanes_most(const pop_format *f, const void *x, int64_t n, pop_v_f *least)
{
    const pop_v_f none = pop_v_splat(-INFINITY), all = pop_v_splat(INFINITY);
    pop_v_f high[4] = {none, none, none, none}, low[4] = {all, all, all, all}; /* there are registers for them */
    POP_ROW_EACH(0, n,
                 const pop_v_f own = pop_row_read(f, x, i, part);
                 high[k % 4] = pop_v_max_f(pop_row_else(own, -INFINITY, part), high[k % 4]);
                 if (POP_LANES == 8) low[k % 4] = pop_v_min_f(pop_row_else(own, INFINITY, part), low[k % 4]););
    *least = pop_v_min_f(pop_v_min_f(low[0], low[1]), pop_v_min_f(low[2], low[3]));
    return pop_v_max_f(pop_v_max_f(high[0], high[2]), pop_v_max_f(high[1], high[3]));
}

/* How many vectors of a group's lanes three sums are made of at a time: there are registers for them. */
#define POP_ROW_THREE (POP_LANES == 8 ? POP_ROW_VECTORS / 2 : POP_ROW_VECTORS)

/* Prefetch the line of memory that vector k begins, if it does: what the next rows read and write. */
POP_INLINE void pop_row_prefetch(const pop_format *f, uintptr_t at, int64_t i, int k, int written)
{
    if (k * POP_LANES * pop_bytes(f) % POP_CACHE_LINE) return;
    if (written) pop_prefetch_l2_to_write(at + (uintptr_t)(i * pop_bytes(f)));
    else pop_prefetch_l2(at + (uintptr_t)(i * pop_bytes(f)));
}

#define POP_ROW_LEAST (POP_LANES == 16 ? 256 : 512) /* elements of rows for which it is worth its masks */
/* Elements before the first whose vector of results is a line of memory of its own. */
POP_INLINE int64_t pop_row_lead(const pop_format *f, const void *to, int64_t n)
{
    const int64_t bytes = POP_LANES * pop_bytes(f), past = (int64_t)((uintptr_t)to % (uintptr_t)bytes);
    const int64_t lead = past % pop_bytes(f) ? 0 : (bytes - past) % bytes / pop_bytes(f);
    return pop_is_f32(f) && n >= POP_ROW_LEAST ? lead : 0;
}
#if POP_LANES == 8
/* Two vectors' codes of BF16, one after another, as pop_v_to_code has them: but numbers are asked together whether one is `nan`. */
POP_INLINE __m256i pop_row_bf16(pop_v_f first, pop_v_f second, int nan, const int halves)
{
    pop_v_i a = pop_v_bits(first), b = pop_v_bits(second);
    a = a + (pop_v_srl(a, 16) & 1) + 0x7fff, b = b + (pop_v_srl(b, 16) & 1) + 0x7fff;
    if (__builtin_expect(nan, 0)) {
        a = pop_v_select(pop_v_eq_f(first, first), pop_v_bits(first) | 0x400000, a);
        b = pop_v_select(pop_v_eq_f(second, second), pop_v_bits(second) | 0x400000, b);
    }
    const __m256i codes = _mm256_packus_epi32((__m256i)pop_v_srl(a, 16), (__m256i)pop_v_srl(b, 16));
    return halves ? codes : _mm256_permute4x64_epi64(codes, 0xd8);
}
#endif
#define POP_LINES (POP_LANES == 16 ? 4 : 2) /* that may be written at once: there are registers for them */
/* Vector k of so many lines, element i on: where two are rounded to BF16 in less, even ones of whole groups await the next, `even`. */
POP_INLINE void pop_rows_put(const pop_format *f, char *const *to, const int lines, int64_t i, int k, int whole, int halves, pop_v_f *even,
                             const pop_v_f *made, int part)
{
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    if (pop_row_is_bf16(f) && whole) {
        __m512i codes[POP_LINES];
        __mmask32 zeros = 0;
        POP_LINES_EACH(lines) {
            if (k % 2 == 0) even[q] = made[q];
            else codes[q] = (__m512i)_mm512_cvtne2ps_pbh((__m512)made[q], (__m512)even[q]);
            if (k % 2) zeros |= _mm512_testn_epi16_mask(codes[q], _mm512_set1_epi16(0x7fff));
        }
        if (__builtin_expect(zeros, 0)) /* which subnormal numbers became too */
            POP_LINES_EACH(lines)
                if (_mm512_fpclass_ps_mask((__m512)even[q], 0x20) | _mm512_fpclass_ps_mask((__m512)made[q], 0x20))
                    codes[q] = _mm512_inserti64x4(_mm512_castsi256_si512(pop_v_bf16(even[q])), pop_v_bf16(made[q]), 1);
        POP_LINES_EACH(lines)
            if (k % 2) _mm512_storeu_si512((uint16_t *)(void *)to[q] + i - POP_LANES, codes[q]);
        return;
    }
#elif POP_LANES == 8
    if (pop_row_is_bf16(f) && whole) {
        __m256 none = _mm256_setzero_ps();
        POP_LINES_EACH(lines) {
            if (k % 2 == 0) even[q] = made[q];
            else none = _mm256_or_ps(none, _mm256_cmp_ps(even[q], made[q], _CMP_UNORD_Q));
        }
        const int nan = k % 2 ? _mm256_movemask_ps(none) : 0;
        POP_LINES_EACH(lines) {
            __m256i *const at = (__m256i *)(void *)((uint16_t *)(void *)to[q] + i - POP_LANES);
            if (k % 2) _mm256_storeu_si256(at, pop_row_bf16(even[q], made[q], nan, halves));
        }
        return;
    }
#endif
    (void)k, (void)whole, (void)halves, (void)even;
    POP_LINES_EACH(lines) pop_row_write(f, to[q], i, made[q], part);
}
/* For all elements of a row that are written to `to`, in the format f, where nothing is added up; POP_ROWS_PUT writes what is made of
 * lines. POP_ROW_HALVED: all that is read is of POP_ROW_READ, in f, and POP_ROW_LOAD. */
#define POP_ROWS_PUT(f, to, lines, made) pop_rows_put(f, to, lines, i, k, whole, halves, even, made, part)
#define POP_ROW_PUT(f, to, x)               \
    do {                                    \
        const pop_v_f made = (x);           \
        POP_ROWS_PUT(f, &(to), 1, &made);   \
    } while (0)
#define POP_ROW_WRITTEN(f, to, n, ...) POP_ROW_WRITTEN_OF(0, f, to, n, __VA_ARGS__)
#define POP_ROW_HALVED(f, to, n, ...) POP_ROW_WRITTEN_OF(POP_ROW_HALVES(f), f, to, n, __VA_ARGS__)
#define POP_ROW_WRITTEN_OF(halved, f, to, n, ...)                                         \
    do {                                                                                  \
        const int64_t lead = pop_row_lead(f, to, n);                                      \
        pop_v_f even[POP_LINES] = {{0}};                                                  \
        if (lead) {                                                                       \
            const int64_t i = 0;                                                          \
            const int part = (int)lead, k = 0, whole = 0, halves = 0;                     \
            (void)halves;                                                                 \
            __VA_ARGS__                                                                   \
        }                                                                                 \
        int64_t i = lead;                                                                 \
        POP_ROW_WHOLE(n, const int halves = (halved); (void)halves; __VA_ARGS__)          \
        _Pragma("GCC unroll 1") for (int k = 0; i < (n); k++, i += POP_LANES)             \
        {                                                                                 \
            const int part = (n) - i < POP_LANES ? (int)((n) - i) : POP_LANES, whole = 0, halves = 0; \
            (void)halves;                                                                 \
            __VA_ARGS__                                                                   \
        }                                                                                 \
    } while (0)

/* For all elements of a row, where nothing is added up. */
#define POP_ROW_ALL(n, ...)                                                               \
    do {                                                                                  \
        int64_t i = 0;                                                                    \
        for (; i + POP_LANES <= (n); i += POP_LANES) {                                    \
            const int part = POP_LANES;                                                   \
            __VA_ARGS__                                                                   \
        }                                                                                 \
        if (i < (n)) {                                                                    \
            const int part = (int)((n) - i);                                              \
            __VA_ARGS__                                                                   \
        }                                                                                 \
    } while (0)

/* Sums of the expression in `i`, `k` and `part` over a row of n, to `total`. Lanes that are none must be zero. */
#define POP_ROW_SUM(total, n, ...)                                                        \
    do {                                                                                  \
        (total) = 0.0;                                                                    \
        for (int64_t begin = 0; begin < (n); begin += POP_STRETCH) {                      \
            const int64_t end = (n) - begin < POP_STRETCH ? (n) : begin + POP_STRETCH;    \
            pop_lanes lanes = pop_lanes_of(0.0f);                                         \
            POP_ROW_EACH(begin, end, lanes.v[k] += (__VA_ARGS__););                       \
            (total) += (double)pop_lanes_sum(&lanes);                                    \
        }                                                                                 \
    } while (0)

/* Whether lines are of whole groups, all in one stretch: these have no steps but their sums'. */
POP_INLINE int pop_row_whole(int64_t n) { return n <= POP_STRETCH && n % POP_ROW_LANES == 0; }

/* The same of up to four rows, q, from `first` on, to `totals`, of what makes of a sum, `lane`, the next; what is last of the four is
 * joined together. POP_ROW_READ reads numbers in the format f. */
#define POP_FOUR_FOLDED(f, totals, first, rows, n, ...)                                   \
    do {                                                                                  \
        if (pop_row_whole(n) && (rows) - (first) >= POP_FOUR) {                           \
            const pop_four_d before = {0.0};                                              \
            pop_v_f last[POP_FOUR];                                                       \
            _Pragma("GCC unroll 4") for (int of = 0; of < POP_FOUR; of++)                 \
            {                                                                             \
                const int64_t q = (first) + of;                                           \
                pop_lanes lanes = pop_lanes_of(0.0f);                                     \
                const int halves = POP_ROW_HALVES(f);                                     \
                int64_t i = 0;                                                            \
                POP_ROW_WHOLE(n, const pop_v_f lane = lanes.v[k]; lanes.v[k] = (__VA_ARGS__);) \
                last[of] = pop_lanes_plus_of(&lanes, halves);                             \
            }                                                                             \
            pop_four_sums(last, &before, totals);                                         \
        } else                                                                            \
            POP_FOUR_PARTS(totals, first, rows, n, __VA_ARGS__);                          \
    } while (0)
#define POP_FOUR_PARTS(totals, first, rows, n, ...)                                       \
    do {                                                                                  \
        pop_v_f last[POP_FOUR] = {{0}};                                                   \
        pop_four_d before = {0.0};                                                        \
        const int halves = 0;                                                             \
        (void)halves;                                                                     \
        for (int of = 0; of < POP_FOUR && (first) + of < (rows); of++) {                  \
            const int64_t q = (first) + of;                                               \
            for (int64_t begin = 0; begin < (n); begin += POP_STRETCH) {                  \
                const int64_t end = (n) - begin < POP_STRETCH ? (n) : begin + POP_STRETCH; \
                pop_lanes lanes = pop_lanes_of(0.0f);                                     \
                POP_ROW_EACH(begin, end, const pop_v_f lane = lanes.v[k]; lanes.v[k] = (__VA_ARGS__);); \
                last[of] = pop_lanes_plus(&lanes);                                        \
                if (end < (n)) before[of] += (double)pop_lane_sum(last[of]);              \
            }                                                                             \
        }                                                                                 \
        pop_four_sums(last, &before, totals);                                             \
    } while (0)
#define POP_ROWS_SUMS(f, totals, rows, n, ...)                                            \
    for (int first = 0; first < (rows); first += POP_FOUR)                                \
        POP_FOUR_FOLDED(f, (totals) + first, first, rows, n, lane + (__VA_ARGS__))

/* What several functions of rows begin with is compiled once for each format, and called. */
#define POP_ROWS_SHARED static __attribute__((noinline, noclone))
#define POP_ROWS_FORMATS(X) X(f32, F32) X(f16, F16) X(bf16, BF16)
#define POP_ROWS_OF(name, f) (pop_is_f32(f) ? name##_f32 : pop_is_f16(f) ? name##_f16 : name##_bf16)
#endif
