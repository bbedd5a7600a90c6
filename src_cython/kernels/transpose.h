/* Lines of 4-byte cells transposed: columns become contiguous; what the cells hold does not matter. */
#ifndef POP_TRANSPOSE_H
#define POP_TRANSPOSE_H
#include <stdint.h>
#include <string.h>

#include "kernels/abi.h"

/* `pop_transpose`: `lines` <= 16 lines of cells, `line` bytes apart, to lines of 16 cells `cell` bytes apart; absent lines
 * give zeros. `pop_transpose_some`: to lines of as many cells as there are lines. */
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
POP_INLINE void pop_transpose_to(const char *from, int64_t line, int64_t lines, int64_t cells, char *to, int64_t cell, int64_t most)
{
    for (int64_t k = 0; k < cells; k++) {
        uint32_t x[16] = {0};
        for (int64_t i = 0; i < lines; i++) memcpy(x + i, from + i * line + 4 * k, 4);
        memcpy(to + k * cell, x, 4 * (size_t)most);
    }
}
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
