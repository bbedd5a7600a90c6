/* The rearrange family: matrices transposed, whatever their elements stand for.
 *
 * An element may be a run of them that stay side by side. A tile is 512 bytes of elements each way, as much as translation buffers
 * and the second-level cache hold of both sides. It is made of squares of 16 x 16 elements, 8 x 8 of eight bytes or more, which AVX2
 * and AVX-512 transpose in registers where elements have up to eight. */
#ifndef POP_REARRANGE_H
#define POP_REARRANGE_H
#include <string.h>

#include "kernels/abi.h"
#include "kernels/transpose.h"
#include "program/program.h"
#define POP_RECORDS "records/rearrange.def"
#include "records/structs.h"

#define POP_TILE_BYTES 512

POP_INLINE int64_t pop_fewer(int64_t a, int64_t b) { return a < b ? a : b; }

/* h lines of w elements. */
POP_INLINE void pop_corner(const char *restrict from, int64_t line, char *restrict to, int64_t column, int64_t h, int64_t w, int bytes)
{
    for (int64_t j = 0; j < w; j++)
        for (int64_t i = 0; i < h; i++) memcpy(to + j * column + i * bytes, from + i * line + j * bytes, (size_t)bytes);
}

#if POP_LEVEL == POP_LEVEL_AVX2
/* Neighbours exchanged: what is where the bits of a vector's number and of a place in its halves say moves to where they do turned by
 * one. Thrice, of eight lines, a vector has eight elements of one column after another. */
#define POP_EXCHANGED(bits, x, y)                                        \
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)                  \
    {                                                                    \
        (y)[2 * i] = _mm256_unpacklo_epi##bits((x)[i], (x)[i + 4]);      \
        (y)[2 * i + 1] = _mm256_unpackhi_epi##bits((x)[i], (x)[i + 4]);  \
    }
/* 16 bytes of 16 lines, of elements of one or two: lines i and i + 8 are halves of a vector. */
POP_INLINE void pop_narrow_columns(const char *from, int64_t line, char *to, int64_t column, int bytes)
{
    __m256i x[8], y[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        x[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(from + i * line))),
                                       _mm_loadu_si128((const __m128i *)(const void *)(from + (i + 8) * line)), 1);
    if (bytes == 2) {
        POP_EXCHANGED(16, x, y) POP_EXCHANGED(16, y, x) POP_EXCHANGED(16, x, y)
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) _mm256_storeu_si256((__m256i *)(void *)(to + i * column), y[i]);
        return;
    }
    POP_EXCHANGED(8, x, y) POP_EXCHANGED(8, y, x) POP_EXCHANGED(8, x, y)
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) { /* two columns, of each the first lines and the last */
        const __m256i two = _mm256_permute4x64_epi64(y[i], 0xd8);
        _mm_storeu_si128((__m128i *)(void *)(to + 2 * i * column), _mm256_castsi256_si128(two));
        _mm_storeu_si128((__m128i *)(void *)(to + (2 * i + 1) * column), _mm256_extracti128_si256(two, 1));
    }
}
/* Four elements of eight bytes of four lines. */
POP_INLINE void pop_wide_columns(const char *from, int64_t line, char *to, int64_t column)
{
    __m256d x[4], y[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) x[i] = _mm256_loadu_pd((const double *)(const void *)(from + i * line));
    y[0] = _mm256_unpacklo_pd(x[0], x[1]), y[1] = _mm256_unpackhi_pd(x[0], x[1]);
    y[2] = _mm256_unpacklo_pd(x[2], x[3]), y[3] = _mm256_unpackhi_pd(x[2], x[3]);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        _mm256_storeu_pd((double *)(void *)(to + i * column), _mm256_permute2f128_pd(y[i], y[i + 2], 0x20));
        _mm256_storeu_pd((double *)(void *)(to + (i + 2) * column), _mm256_permute2f128_pd(y[i], y[i + 2], 0x31));
    }
}
#endif

/* A square. */
POP_INLINE void pop_square(const char *from, int64_t line, char *to, int64_t column, int bytes)
{
#if POP_LEVEL >= POP_LEVEL_AVX512
    if (bytes == 8) {
        __m512i x[8], y[8];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const __m512i a = _mm512_loadu_si512(from + 2 * i * line), b = _mm512_loadu_si512(from + (2 * i + 1) * line);
            x[i] = _mm512_unpacklo_epi64(a, b); /* columns 0, 2, 4, 6 of two lines */
            x[4 + i] = _mm512_unpackhi_epi64(a, b);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 8; i += 4) {
            y[i] = _mm512_shuffle_i64x2(x[i], x[i + 1], 0x88); /* columns 0, 4 of four lines */
            y[i + 1] = _mm512_shuffle_i64x2(x[i], x[i + 1], 0xdd);
            y[i + 2] = _mm512_shuffle_i64x2(x[i + 2], x[i + 3], 0x88);
            y[i + 3] = _mm512_shuffle_i64x2(x[i + 2], x[i + 3], 0xdd);
        }
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            _mm512_storeu_si512(to + i * column, _mm512_shuffle_i64x2(y[4 * i], y[4 * i + 2], 0x88));
            _mm512_storeu_si512(to + (4 + i) * column, _mm512_shuffle_i64x2(y[4 * i], y[4 * i + 2], 0xdd));
            _mm512_storeu_si512(to + (2 + i) * column, _mm512_shuffle_i64x2(y[4 * i + 1], y[4 * i + 3], 0x88));
            _mm512_storeu_si512(to + (6 + i) * column, _mm512_shuffle_i64x2(y[4 * i + 1], y[4 * i + 3], 0xdd));
        }
        return;
    }
    __m512i x[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        x[i] = bytes == 1   ? _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(from + i * line)))
               : bytes == 2 ? _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(from + i * line)))
                            : _mm512_loadu_si512(from + i * line);
    pop_transpose_16(x);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        if (bytes == 1) _mm_storeu_si128((__m128i *)(void *)(to + i * column), _mm512_cvtepi32_epi8(x[i]));
        else if (bytes == 2) _mm256_storeu_si256((__m256i *)(void *)(to + i * column), _mm512_cvtepi32_epi16(x[i]));
        else _mm512_storeu_si512(to + i * column, x[i]);
    }
#else
#if POP_LEVEL == POP_LEVEL_AVX2
    const int apart = bytes == 8 ? 4 : 8; /* elements from a block to the next */
    for (int j = 0; j < 16 && bytes <= 2; j += 16 / bytes) pop_narrow_columns(from + j * bytes, line, to + j * column, column, bytes);
    for (int j = 0; j < 2 * apart && bytes > 2; j += apart)
        for (int i = 0; i < 2 * apart; i += apart) {
            const char *at = from + i * line + j * bytes;
            if (bytes == 4) pop_transpose_8(at, line, to + j * column + i * bytes, column);
            else pop_wide_columns(at, line, to + j * column + i * bytes, column);
        }
#else
    const int64_t side = bytes == 8 ? 8 : 16;
    pop_corner(from, line, to, column, side, side, bytes);
#endif
#endif
}

POP_INLINE void pop_tile_of(const pop_rearrange *s, const char *from, char *to, int64_t h, int64_t w, int bytes)
{
    const int64_t line = s->line, column = s->column, side = bytes >= 8 ? 8 : 16;
    const int squares = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    for (int64_t j = 0; j < w; j += side)
        for (int64_t i = 0; i < h; i += side) {
            const char *at = from + i * line + j * bytes;
            char *place = to + j * column + i * bytes;
            if (h - i >= side && w - j >= side && squares) pop_square(at, line, place, column, bytes);
            else if (bytes == 4) pop_transpose_some(at, line, pop_fewer(side, h - i), pop_fewer(side, w - j), place, column);
            else pop_corner(at, line, place, column, pop_fewer(side, h - i), pop_fewer(side, w - j), bytes);
        }
}

/* Operands: the array, the result. */
static void pop_transpose_vertex(const void *work, const pop_tile *tile)
{
    const pop_rearrange_item *item = (const pop_rearrange_item *)work;
    const pop_rearrange *s = item->spec;
    const int64_t side = POP_TILE_BYTES / s->bytes;
    const int64_t across = (s->columns + side - 1) / side, down = (s->lines + side - 1) / side;
    for (int64_t unit = item->first; unit < item->first + item->count; unit++) {
        int64_t rest = unit / (across * down);
        const int64_t i = unit / across % down * side, j = unit % across * side;
        const char *from = tile->operands[0] + i * s->line + j * s->bytes;
        char *to = tile->operands[1] + j * s->column + i * s->bytes;
        const int64_t h = pop_fewer(side, s->lines - i), w = pop_fewer(side, s->columns - j);
        for (int d = s->outer_count - 1; d >= 0; d--) {
            const int64_t at = rest % s->outer[d].extent;
            rest /= s->outer[d].extent;
            from += at * s->outer[d].stride;
            to += at * s->outer[d].out;
        }
        if (s->bytes == 1) pop_tile_of(s, from, to, h, w, 1);
        else if (s->bytes == 2) pop_tile_of(s, from, to, h, w, 2);
        else if (s->bytes == 4) pop_tile_of(s, from, to, h, w, 4);
        else if (s->bytes == 8) pop_tile_of(s, from, to, h, w, 8);
        else if (s->bytes == 16) pop_tile_of(s, from, to, h, w, 16);
        else pop_tile_of(s, from, to, h, w, s->bytes);
    }
}

static const pop_kernel POP_REARRANGE_KERNELS[] = {
    {"transpose", "any", "transpose", POP_FUNCTION(pop_transpose_vertex), {1, 1, 1}, {POP_TILE_BYTES, 1, 1},
     POP_CONSISTENT},
};
#endif
