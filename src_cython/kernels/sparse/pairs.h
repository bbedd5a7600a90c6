/* Two rows of BF16 numbers as one of pairs, neighbours along the sum in a dword: what VDPBF16PS and tiles multiply. */
#ifndef POP_SPARSE_PAIRS_H
#define POP_SPARSE_PAIRS_H
#include "kernels/sparse/frame.h"
#include <immintrin.h>

/* 32 numbers of each of two rows to 32 pairs. */
POP_INLINE void make_pairs(__m512i even, __m512i odd, __m512i to[2])
{
    const __m512i front = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                           39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    to[0] = _mm512_permutex2var_epi16(even, front, odd);
    to[1] = _mm512_permutex2var_epi16(even, _mm512_add_epi16(front, _mm512_set1_epi16(16)), odd);
}

/* The same to memory, the first n of them. */
POP_INLINE void put_made_pairs(__m512i even, __m512i odd, int64_t n, char *to)
{
    __m512i both[2];
    make_pairs(even, odd, both);
    if (n >= 32) {
        _mm512_storeu_si512(to, both[0]);
        _mm512_storeu_si512(to + 64, both[1]);
        return;
    }
    const __mmask32 m = pop_columns_left(n);
    _mm512_mask_storeu_epi32(to, (__mmask16)m, both[0]);
    _mm512_mask_storeu_epi32(to + 64, (__mmask16)(m >> 16), both[1]);
}

#define LINES_AHEAD 1024 /* bytes of the panel */

/* Lines of two rows of BF16. The hardware follows no stride across pages: what comes next is prefetched, `ahead` bytes
 * on, and so is where it goes. */
static void pairs_of_lines(const char *even, const char *odd, int64_t ahead, int64_t n, char *to)
{
    for (int64_t j = 0; j < n; j += 32, even += 64, odd += 64, to += 128) {
        const __mmask32 m = pop_columns_left(n - j);
        pop_prefetch_to_write(pop_beyond(to, LINES_AHEAD));
        pop_prefetch_to_write(pop_beyond(to, LINES_AHEAD + 64));
        pop_prefetch(pop_beyond(even, ahead));
        pop_prefetch(pop_beyond(odd, ahead));
        put_made_pairs(_mm512_maskz_loadu_epi16(m, even), _mm512_maskz_loadu_epi16(m, odd), n - j, to);
    }
}

/* Lines of two rows of codes of 1 byte. */
static void pairs_of_codes(const pop_byte_table *table, const char *even, const char *odd, int64_t n, char *to)
{
    for (int64_t j = 0; j < n; j += 64, even += 64, odd += 64, to += 256) {
        const __mmask64 m = n - j >= 64 ? ~0ull : (1ull << (n - j)) - 1;
        __m512i a[2], b[2];
        pop_byte_to_bf16(table, _mm512_maskz_loadu_epi8(m, even), a);
        pop_byte_to_bf16(table, _mm512_maskz_loadu_epi8(m, odd), b);
        put_made_pairs(a[0], b[0], n - j, to);
        if (n - j > 32) put_made_pairs(a[1], b[1], n - j - 32, to + 128);
    }
}

/* Rows of a strip, an even number of them from an even one on, as lines of pairs. */
static void pack_pairs(const pop_sparse_item *t, const pop_decoding *d, const char *x, char *panel, char *used,
                       int64_t first, int64_t rows, int64_t columns)
{
    const int64_t line = t->strip * 4, row = t->x_row, code = pop_bytes(FORMATS[d->format]);
    uint16_t lines[16][512] __attribute__((aligned(64)));
    (void)used;
    x += first * row;
    panel += first / 2 * line;
    for (int64_t k = 0; k < rows; k += 16, x += 16 * row, panel += 8 * line) {
        const int64_t some = least(16, rows - k), plain = t->x_column == code;
        for (int64_t i = 0; i < some && plain && one_byte(d->format); i += 2)
            pairs_of_codes(&d->table, x + i * row, x + (i + 1) * row, columns, panel + i / 2 * line);
        for (int64_t i = 0; i < some && plain && d->format == POP_IS_BF16; i += 2)
            pairs_of_lines(x + i * row, x + (i + 1) * row, ROWS_AHEAD * row, columns, panel + i / 2 * line);
        for (int64_t j = 0; j < columns && !plain; j += 512) {
            const int64_t n = least(512, columns - j);
            pack_rows(d, x + j * t->x_column, row, t->x_column, (char *)lines, sizeof lines[0], some, n);
            for (int64_t i = 0; i < some; i += 2)
                pairs_of_lines((char *)lines[i], (char *)lines[i + 1], 0, n, panel + i / 2 * line + 4 * j);
        }
    }
}

/* Rows of pairs as rows again, for blocks that pairs do not fill. */
static void pack_unpaired(const pop_sparse_item *t, const pop_decoding *d, const char *x, char *panel, char *used,
                          int64_t first, int64_t rows, int64_t columns)
{
    (void)d, (void)used;
    for (int64_t k = first; k < first + rows; k++)
        for (int64_t j = 0; j < columns; j += 16) {
            const __mmask16 m = (__mmask16)pop_columns_left(columns - j);
            const __m512i both = _mm512_maskz_loadu_epi32(m, x + k / 2 * t->x_row + 4 * j);
            _mm256_mask_storeu_epi16(panel + 2 * (k * t->strip + j), m,
                                     _mm512_cvtepi32_epi16(_mm512_srl_epi32(both, _mm_cvtsi32_si128(k % 2 ? 16 : 0))));
        }
}
#endif
