/* Lines of 4-byte cells transposed: columns become contiguous; what the cells hold does not matter. */
#ifndef POP_TRANSPOSE_H
#define POP_TRANSPOSE_H
#include <stdint.h>
#include <string.h>

#include "kernels/abi.h"

/* `pop_transpose`: `lines` <= 16 lines of cells, `line` bytes apart, to lines of 16 cells `cell` bytes apart; absent lines
 * give zeros, and where lines overlap the later one stays. `pop_transpose_some`: to lines of as many cells as there are lines. */
#if POP_LEVEL >= POP_LEVEL_AVX512
#include <immintrin.h>

/* 16 x 16 cells: four rounds that exchange neighbours at distance 1, 2, 4 and 8, one shuffle a register each. */
POP_INLINE void pop_transpose_16(__m512i x[16])
{
    __m512i y[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        y[2 * i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        x[4 * i] = _mm512_unpacklo_epi64(y[4 * i], y[4 * i + 2]);
        x[4 * i + 1] = _mm512_unpackhi_epi64(y[4 * i], y[4 * i + 2]);
        x[4 * i + 2] = _mm512_unpacklo_epi64(y[4 * i + 1], y[4 * i + 3]);
        x[4 * i + 3] = _mm512_unpackhi_epi64(y[4 * i + 1], y[4 * i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        y[i] = _mm512_shuffle_i32x4(x[i], x[4 + i], 0x88);
        y[4 + i] = _mm512_shuffle_i32x4(x[i], x[4 + i], 0xdd);
        y[8 + i] = _mm512_shuffle_i32x4(x[8 + i], x[12 + i], 0x88);
        y[12 + i] = _mm512_shuffle_i32x4(x[8 + i], x[12 + i], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_shuffle_i32x4(y[i], y[8 + i], 0x88);
        x[4 + i] = _mm512_shuffle_i32x4(y[4 + i], y[12 + i], 0x88);
        x[8 + i] = _mm512_shuffle_i32x4(y[i], y[8 + i], 0xdd);
        x[12 + i] = _mm512_shuffle_i32x4(y[4 + i], y[12 + i], 0xdd);
    }
}

POP_INLINE void pop_transpose_to(const char *from, int64_t line, int64_t lines, int64_t cells, char *to, int64_t cell, int64_t most)
{
    const __mmask16 stored = (__mmask16)(0xffffu >> (16 - most));
    for (int64_t k = 0; k < cells; k += 16) {
        int64_t n = cells - k < 16 ? cells - k : 16;
        __mmask16 mask = (__mmask16)(0xffffu >> (16 - n));
        __m512i x[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            x[i] = i < lines ? _mm512_maskz_loadu_epi32(mask, from + i * line + 4 * k) : _mm512_setzero_si512();
        pop_transpose_16(x);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            if (i < n) _mm512_mask_storeu_epi32(to + (k + i) * cell, stored, x[i]);
    }
}
#else
POP_INLINE void pop_transpose_cells(const char *from, int64_t line, int64_t lines, int64_t cells, char *to, int64_t cell, int64_t most)
{
    for (int64_t k = 0; k < cells; k++, from += 4, to += cell) {
        const char *at = from;
        for (int64_t i = 0; i < lines; i++, at += line) memcpy(to + 4 * i, at, 4);
        for (int64_t i = lines; i < most; i++) memset(to + 4 * i, 0, 4);
    }
}

#if POP_LEVEL >= POP_LEVEL_AVX2
#include <immintrin.h>

/* 16 bytes of eight lines to four vectors of cells across them: lines four apart meet as they are loaded, and exchange neighbours
 * at distance 1 and 2. */
POP_INLINE void pop_transpose_4(const char *from, int64_t line, __m256 x[4])
{
    __m256 y[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        y[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps((const float *)(const void *)(from + i * line))),
                                    _mm_loadu_ps((const float *)(const void *)(from + (i + 4) * line)), 1);
    const __m256d even[2] = {(__m256d)_mm256_unpacklo_ps(y[0], y[1]), (__m256d)_mm256_unpacklo_ps(y[2], y[3])};
    const __m256d odd[2] = {(__m256d)_mm256_unpackhi_ps(y[0], y[1]), (__m256d)_mm256_unpackhi_ps(y[2], y[3])};
    x[0] = (__m256)_mm256_unpacklo_pd(even[0], even[1]), x[1] = (__m256)_mm256_unpackhi_pd(even[0], even[1]);
    x[2] = (__m256)_mm256_unpacklo_pd(odd[0], odd[1]), x[3] = (__m256)_mm256_unpackhi_pd(odd[0], odd[1]);
}

/* 8 x 8 cells, by halves. */
POP_INLINE void pop_transpose_8(const char *from, int64_t line, char *to, int64_t cell)
{
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++, from += 16, to += 4 * cell) {
        __m256 x[4];
        pop_transpose_4(from, line, x);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) _mm256_storeu_ps((float *)(void *)(to + i * cell), x[i]);
    }
}

POP_INLINE void pop_transpose_to(const char *from, int64_t line, int64_t lines, int64_t cells, char *to, int64_t cell, int64_t most)
{
    const int64_t in_eights = cell < 4 * most ? 0 : lines & ~(int64_t)7; /* what overlaps is written in order */
    int64_t k = 0;
    for (; k + 8 <= cells; k += 8) {
        for (int64_t i = 0; i < in_eights; i += 8)
            pop_transpose_8(from + i * line + 4 * k, line, to + k * cell + 4 * i, cell);
        if (in_eights < most)
            pop_transpose_cells(from + in_eights * line + 4 * k, line, lines - in_eights, 8, to + k * cell + 4 * in_eights, cell,
                                most - in_eights);
    }
    pop_transpose_cells(from + 4 * k, line, lines, cells - k, to + k * cell, cell, most);
}
#else
POP_INLINE void pop_transpose_to(const char *from, int64_t line, int64_t lines, int64_t cells, char *to, int64_t cell, int64_t most)
{
    pop_transpose_cells(from, line, lines, cells, to, cell, most);
}
#endif
#endif

static void pop_transpose(const char *from, int64_t line, int64_t lines, int64_t cells, char *to, int64_t cell)
{
    pop_transpose_to(from, line, lines, cells, to, cell, 16);
}

static void pop_transpose_some(const char *from, int64_t line, int64_t lines, int64_t cells, char *to, int64_t cell)
{
    pop_transpose_to(from, line, lines, cells, to, cell, lines);
}
#endif
