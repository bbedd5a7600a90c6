/* Operands to panels: lines decoded to FP32 (or BF16), and BF16 lines interleaved to cells; transpose.h turns lines so that
 * the columns become contiguous. */
#ifndef POP_DOT_PACK_H
#define POP_DOT_PACK_H
#include "kernels/dot/dot.h"
#include "kernels/epilogue.h"

enum { POP_PANEL = 16 }; /* columns of a panel of 16 registers' kernels */

/* n codes to FP32, the last few as a vector's part: rows of images end anywhere, and FP16's are slow one by one. */
POP_INLINE void pop_decode_run(const pop_format *f, const char *from, float *to, int64_t n)
{
    int64_t j = 0;
    for (; j + POP_LANES <= n; j += POP_LANES) pop_v_store_f(to + j, pop_v_decode(f, from + j * pop_bytes(f)));
    if (j < n) pop_v_store_f_some(to + j, pop_v_decode_part(f, from + j * pop_bytes(f), (int)(n - j)), pop_v_first(n - j));
}

#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
/* The table of a format at one bias, kept by each thread: lines are short and their scale seldom changes. */
typedef struct pop_kept_table {
    pop_byte_table table;
    int made, bias;
} pop_kept_table;

POP_INLINE pop_byte_table pop_table_of(pop_kept_table *kept, const pop_format *f)
{
    if (!kept->made || kept->bias != f->bias) {
        kept->table = pop_byte_table_make(f);
        kept->made = 1;
        kept->bias = f->bias;
    }
    return kept->table;
}

POP_INLINE void pop_decode_table(pop_kept_table *kept, const pop_format *f, const char *from, float *to, int64_t n)
{
    const pop_byte_table table = pop_table_of(kept, f);
    int64_t j = 0;
    for (; j + 64 <= n; j += 64) {
        __m512 x[4];
        pop_byte_to_f32(&table, _mm512_loadu_si512(from + j), x);
        for (int u = 0; u < 4; u++) _mm512_storeu_ps(to + j + 16 * u, x[u]);
    }
    pop_decode_run(f, from + j, to + j, n - j);
}
#define POP_DECODE_BODY_1 \
    static __thread pop_kept_table kept; \
    pop_decode_table(&kept, &g, (const char *)from, (float *)to, n)
#else
#define POP_DECODE_BODY_1 POP_DECODE_BODY
#endif
#define POP_DECODE_BODY pop_decode_run(&g, (const char *)from, (float *)to, n)

/* A panel's columns, as many as there most often are, are known to the loop over lines. */
#define POP_DECODE(name, layout, scaled, body) \
    static void pop_decode_##name(const pop_format *f, const void *from, void *to, void *low, int64_t n) \
    { \
        pop_format g = layout; \
        (void)low; \
        if (scaled) g.bias = f->bias; \
        body; \
    } \
    POP_DECODE_LINES(name)
#define POP_DECODE_LINES(name) \
    static void pop_lines_of_##name(const pop_format *f, const void *from, int64_t from_line, int64_t lines, void *to, \
                                 int64_t to_line, int64_t n) \
    { \
        const char *x = (const char *)from; \
        char *y = (char *)to; \
        if (n == POP_PANEL) \
            for (int64_t i = 0; i < lines; i++, x += from_line, y += to_line) pop_decode_##name(f, x, y, NULL, POP_PANEL); \
        else \
            for (int64_t i = 0; i < lines; i++, x += from_line, y += to_line) pop_decode_##name(f, x, y, NULL, n); \
    }
#define POP_DECODE_4(function, layout) /* copied, see below */
#define POP_DECODE_2(function, layout) POP_DECODE(function, layout, 0, POP_DECODE_BODY)
#define POP_DECODE_1(function, layout) POP_DECODE(function, layout, 1, POP_DECODE_BODY_1)
#define POP_DECODE_FORMAT(bytes, constant, function, ...) POP_DECODE_##bytes(function, POP_##constant)
POP_FORMATS(POP_DECODE_FORMAT)
POP_DECODE(any, *f, 0, POP_DECODE_BODY)

static void pop_decode_f32(const pop_format *f, const void *from, void *to, void *low, int64_t n)
{
    (void)f, (void)low;
    memcpy(to, from, (size_t)n * 4);
}
POP_DECODE_LINES(f32)

#if POP_LEVEL >= POP_LEVEL_AVX512
/* To BF16: formats whose every value is a BF16 value. */
POP_INLINE void pop_decode_line_bf16(const pop_format *f, const char *from, uint16_t *to, int64_t n)
{
    for (int64_t j = 0; j < n; j += 32) {
        int count = n - j < 32 ? (int)(n - j) : 32;
        __m512i x = pop_bf16_decode(f, from + j * pop_bytes(f), count);
        _mm512_mask_storeu_epi16(to + j, pop_columns_left(count), x);
    }
}

#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
enum { POP_DECODE_AHEAD = 2048 }; /* bytes: a core's prefetcher begins anew in each page */

POP_INLINE void pop_decode_lines_bf16(pop_kept_table *kept, const pop_format *f, const char *from, int64_t from_line,
                                      int64_t lines, char *to, int64_t to_line, int64_t n)
{
    const pop_byte_table table = pop_table_of(kept, f);
    const int64_t whole = n & ~(int64_t)63;
    const __mmask64 left = (1ull << (n - whole)) - 1;
    for (int64_t i = 0; i < lines; i++, from += from_line, to += to_line) {
        uint16_t *line = (uint16_t *)(void *)to;
        __m512i x[2];
        for (int64_t j = 0; j < whole; j += 64) {
            pop_prefetch_l2(pop_beyond(from, j + POP_DECODE_AHEAD));
            pop_byte_to_bf16(&table, _mm512_loadu_si512(from + j), x);
            _mm512_storeu_si512(line + j, x[0]);
            _mm512_storeu_si512(line + j + 32, x[1]);
        }
        if (!left) continue;
        pop_byte_to_bf16(&table, _mm512_maskz_loadu_epi8(left, from + whole), x);
        _mm512_mask_storeu_epi16(line + whole, (__mmask32)left, x[0]);
        _mm512_mask_storeu_epi16(line + whole + 32, (__mmask32)(left >> 32), x[1]);
    }
}
#define POP_DECODE_BF16_BODY \
    static __thread pop_kept_table kept; \
    pop_decode_lines_bf16(&kept, &g, (const char *)from, 0, 1, (char *)to, 0, n)
#else
#define POP_DECODE_BF16_BODY pop_decode_line_bf16(&g, (const char *)from, (uint16_t *)to, n)
#endif

#define POP_DECODE_BF16(name, layout) \
    static void pop_decode_##name##_bf16(const pop_format *f, const void *from, void *to, void *low, int64_t n) \
    { \
        pop_format g = layout; \
        (void)low; \
        g.bias = f->bias; \
        POP_DECODE_BF16_BODY; \
    }
#define POP_DECODE_BF16_4(function, layout) /* no BF16 values */
#define POP_DECODE_BF16_2(function, layout) /* FP16 and BF16 have ways of their own, see below */
#define POP_DECODE_BF16_1 POP_DECODE_BF16
#define POP_DECODE_BF16_FORMAT(bytes, constant, function, ...) POP_DECODE_BF16_##bytes(function, POP_##constant)
POP_FORMATS(POP_DECODE_BF16_FORMAT)

/* FP16 as the sum of two BF16 numbers; callers keep infinities away. */
static void pop_decode_f16_bf16(const pop_format *f, const void *from, void *to, void *low, int64_t n)
{
    (void)f;
    for (int64_t j = 0; j < n; j += 32) {
        const __mmask32 mask = pop_columns_left(n - j);
        __m512i high, rest;
        pop_f16_split(_mm512_maskz_loadu_epi16(mask, (const uint16_t *)from + j), &high, &rest);
        _mm512_mask_storeu_epi16((uint16_t *)to + j, mask, high);
        _mm512_mask_storeu_epi16((uint16_t *)low + j, mask, rest);
    }
}

static void pop_decode_bf16_bf16(const pop_format *f, const void *from, void *to, void *low, int64_t n)
{
    (void)f, (void)low;
    memcpy(to, from, (size_t)n * 2);
}

#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
/* Two lines of codes to cells: 64 columns at a time, their bytes put together at once. */
POP_INLINE void pop_pair_table(pop_kept_table *kept, const pop_format *f, const char *even, const char *odd, uint16_t *to,
                               int64_t n)
{
    const pop_byte_table table = pop_table_of(kept, f);
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    for (int64_t j = 0; j < n; j += 64) {
        const __mmask64 there = n - j < 64 ? ~0ull >> (64 - (n - j)) : ~0ull;
        __m512i low[2], high[2];
        pop_byte_lookup(&table, _mm512_permutexvar_epi32(order, _mm512_maskz_loadu_epi8(there, even + j)), low, high);
        pop_byte_lookup(&table, _mm512_permutexvar_epi32(order, _mm512_maskz_loadu_epi8(there, odd + j)), low + 1, high + 1);
        const __m512i first[2] = {_mm512_unpacklo_epi8(low[0], high[0]), _mm512_unpacklo_epi8(low[1], high[1])};
        const __m512i second[2] = {_mm512_unpackhi_epi8(low[0], high[0]), _mm512_unpackhi_epi8(low[1], high[1])};
        const __m512i cells[4] = {_mm512_unpacklo_epi16(first[0], first[1]), _mm512_unpackhi_epi16(first[0], first[1]),
                                  _mm512_unpacklo_epi16(second[0], second[1]), _mm512_unpackhi_epi16(second[0], second[1])};
        for (int u = 0; u < 4; u++) {
            if (there >> (16 * u + 15) & 1) _mm512_storeu_si512(to + 2 * j + 32 * u, cells[u]);
            else _mm512_mask_storeu_epi32(to + 2 * j + 32 * u, (__mmask16)(there >> 16 * u), cells[u]);
        }
    }
}

#define POP_PAIR(bytes, constant, function, ...) POP_PAIR_##bytes(function, POP_##constant)
#define POP_PAIR_4(function, layout)
#define POP_PAIR_2(function, layout)
#define POP_PAIR_1(function, layout)                                                                                   \
    static void pop_pair_##function(const pop_format *f, const void *even, const void *odd, uint16_t *to, int64_t n)   \
    {                                                                                                                  \
        static __thread pop_kept_table kept;                                                                           \
        pop_format g = layout;                                                                                         \
        g.bias = f->bias;                                                                                              \
        pop_pair_table(&kept, &g, (const char *)even, (const char *)odd, to, n);                                       \
    }                                                                                                                  \
    static void pop_lines_of_##function##_bf16(const pop_format *f, const void *from, int64_t from_line, int64_t lines,       \
                                        void *to, int64_t to_line, int64_t n)                                          \
    {                                                                                                                  \
        static __thread pop_kept_table kept;                                                                           \
        pop_format g = layout;                                                                                         \
        g.bias = f->bias;                                                                                              \
        pop_decode_lines_bf16(&kept, &g, (const char *)from, from_line, lines, (char *)to, to_line, n);                \
    }
POP_FORMATS(POP_PAIR)
#define POP_PAIR_ROW(bytes, constant, function, format, ...) POP_PAIR_ROW_##bytes(function, format)
#define POP_PAIR_ROW_4(function, format)
#define POP_PAIR_ROW_2(function, format)
#define POP_PAIR_ROW_1(function, format) \
    {"pair", format "->bfloat16", "pair_" #function, POP_FUNCTION(pop_pair_##function), {1, 1, 1}, {1, 64, 1}, POP_CONSISTENT}, \
    {"lines", format "->bfloat16", "lines_" #function "_bf16", POP_FUNCTION(pop_lines_of_##function##_bf16), {1, 1, 1}, {1, 64, 1}, \
     POP_CONSISTENT},
#endif

static void pop_interleave(const uint16_t *even, const uint16_t *odd, uint16_t *to, int64_t n)
{
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5,
                                         36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    int64_t j = 0;
    for (; j + 32 <= n; j += 32) {
        __m512i x = _mm512_loadu_si512(even + j), y = _mm512_loadu_si512(odd + j);
        _mm512_storeu_si512(to + 2 * j, _mm512_permutex2var_epi16(x, low, y));
        _mm512_storeu_si512(to + 2 * j + 32, _mm512_permutex2var_epi16(x, high, y));
    }
    for (; j < n; j++) to[2 * j] = even[j], to[2 * j + 1] = odd[j];
}
#else
static void pop_interleave(const uint16_t *even, const uint16_t *odd, uint16_t *to, int64_t n)
{
    for (int64_t j = 0; j < n; j++) to[2 * j] = even[j], to[2 * j + 1] = odd[j];
}
#endif

static void pop_round_f16(float *sums, int64_t n)
{
    uint16_t codes[POP_EPILOGUE_LINE];
    for (int64_t j = 0; j < n; j += POP_EPILOGUE_LINE) {
        int64_t count = n - j < POP_EPILOGUE_LINE ? n - j : POP_EPILOGUE_LINE;
        pop_encode_line(&POP_F16, POP_OVERFLOW_INFINITY, sums + j, (char *)codes, count);
        pop_decode_line(&POP_F16, (const char *)codes, sums + j, count);
    }
}

/* As `cast` rounds with 31 random bits. */
static void pop_round_f16_at_random(float *sums, int64_t n, const uint32_t *words)
{
    for (int64_t j = 0; j < n; j += POP_LANES) {
        int part = n - j < POP_LANES ? (int)(n - j) : POP_LANES;
        pop_v_f x = pop_v_decode_part(&POP_F32, sums + j, part);
        pop_v_i noise = pop_v_noise(pop_v_load_some(words + j, 4, pop_v_first(part)), 31);
        pop_v_i codes = pop_v_to_code(&POP_F16, POP_STOCHASTIC, POP_OVERFLOW_INFINITY, x, noise);
        pop_v_encode_part(&POP_F32, 0, sums + j, pop_v_from_code(&POP_F16, codes), part);
    }
}

#define POP_DECODE_ROW(bytes, constant, function, format, ...) \
    {"decode", format "->float32", "decode_" #function, POP_FUNCTION(pop_decode_##function), {1, 1, 1}, {1, POP_LANES, 1}, \
     POP_CONSISTENT}, \
    {"lines", format "->float32", "lines_" #function, POP_FUNCTION(pop_lines_of_##function), {1, 1, 1}, {1, POP_PANEL, 1}, \
     POP_CONSISTENT},
#define POP_DECODE_BF16_ROW_4(function, format)
#define POP_DECODE_BF16_ROW_2(function, format)
#define POP_DECODE_BF16_ROW_1(function, format) \
    {"decode", format "->bfloat16", "decode_" #function "_bf16", POP_FUNCTION(pop_decode_##function##_bf16), {1, 1, 1}, \
     {1, 32, 1}, POP_CONSISTENT},
#define POP_DECODE_BF16_ROW(bytes, constant, function, format, ...) POP_DECODE_BF16_ROW_##bytes(function, format)
static const pop_kernel POP_PACK_KERNELS[] = {
    POP_FORMATS(POP_DECODE_ROW) POP_DECODE_ROW(0, , any, "any")
#if POP_LEVEL >= POP_LEVEL_AVX512
    POP_DECODE_BF16_ROW_1(f16, "float16") POP_DECODE_BF16_ROW_1(bf16, "bfloat16") POP_FORMATS(POP_DECODE_BF16_ROW)
#endif
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    POP_FORMATS(POP_PAIR_ROW)
#endif
    {"transpose", "cells", "transpose", POP_FUNCTION(pop_transpose), {1, 1, 1}, {16, 16, 1}, POP_CONSISTENT},
    {"round", "float16", "round_f16", POP_FUNCTION(pop_round_f16), {1, 1, 1}, {1, 64, 1}, POP_CONSISTENT},
    {"round_at_random", "float16", "round_f16_at_random", POP_FUNCTION(pop_round_f16_at_random), {1, 1, 1},
     {1, POP_LANES, 1}, POP_CONSISTENT},
    {"interleave", "bfloat16", "interleave", POP_FUNCTION(pop_interleave), {1, 1, 1}, {1, 32, 1}, POP_CONSISTENT},
};
#endif
