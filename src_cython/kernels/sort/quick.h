/* Words in order: the least k of n first. Words that are equal are the same, so that any way of sorting gives the same bits. */
#ifndef POP_SORT_QUICK_H
#define POP_SORT_QUICK_H
#include "kernels/sort/radix.h"

#if POP_LEVEL >= POP_LEVEL_AVX512
#include <immintrin.h>

/* Batcher's odd-even merge sort of 2, 4, 8 and 16 rows. */
#define POP_ROWS_2(X) X(0, 1)
#define POP_ROWS_4(X) X(0, 1) X(2, 3) X(0, 2) X(1, 3) X(1, 2)
#define POP_ROWS_8(X)                                                                                                     \
    X(0, 1) X(2, 3) X(4, 5) X(6, 7) X(0, 2) X(1, 3) X(4, 6) X(5, 7) X(1, 2) X(5, 6) X(0, 4) X(1, 5) X(2, 6) X(3, 7)        \
    X(2, 4) X(3, 5) X(1, 2) X(3, 4) X(5, 6)
#define POP_ROWS_16(X)                                                                                                    \
    X(0, 1) X(2, 3) X(4, 5) X(6, 7) X(8, 9) X(10, 11) X(12, 13) X(14, 15) X(0, 2) X(1, 3) X(4, 6) X(5, 7) X(8, 10)         \
    X(9, 11) X(12, 14) X(13, 15) X(1, 2) X(5, 6) X(9, 10) X(13, 14) X(0, 4) X(1, 5) X(2, 6) X(3, 7) X(8, 12) X(9, 13)      \
    X(10, 14) X(11, 15) X(2, 4) X(3, 5) X(10, 12) X(11, 13) X(1, 2) X(3, 4) X(5, 6) X(9, 10) X(11, 12) X(13, 14) X(0, 8)   \
    X(1, 9) X(2, 10) X(3, 11) X(4, 12) X(5, 13) X(6, 14) X(7, 15) X(4, 8) X(5, 9) X(6, 10) X(7, 11) X(2, 4) X(3, 5)        \
    X(6, 8) X(7, 9) X(10, 12) X(11, 13) X(1, 2) X(3, 4) X(5, 6) X(7, 8) X(9, 10) X(11, 12) X(13, 14)

#define POP_Q(name) pop_##name##_32
#define POP_Q_WORD uint32_t
#define POP_Q_LANES 16
#define POP_Q_MASK __mmask16
#define POP_Q_RADIX pop_radix_32
#define POP_Q_SPLAT(x) _mm512_set1_epi32((int)(x))
#define POP_Q_IOTA _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define POP_Q_PERMUTE _mm512_permutexvar_epi32
#define POP_Q_MIN _mm512_min_epu32
#define POP_Q_MAX _mm512_max_epu32
#define POP_Q_MASK_MAX _mm512_mask_max_epu32
#define POP_Q_LESS _mm512_cmplt_epu32_mask
#define POP_Q_COMPRESS _mm512_maskz_compress_epi32
#define POP_Q_EXPAND _mm512_mask_expand_epi32
#define POP_Q_LOAD _mm512_mask_loadu_epi32
#define POP_Q_STORE _mm512_mask_storeu_epi32
#include "kernels/sort/quick_body.h"
#undef POP_Q
#undef POP_Q_WORD
#undef POP_Q_LANES
#undef POP_Q_MASK
#undef POP_Q_RADIX
#undef POP_Q_SPLAT
#undef POP_Q_IOTA
#undef POP_Q_PERMUTE
#undef POP_Q_MIN
#undef POP_Q_MAX
#undef POP_Q_MASK_MAX
#undef POP_Q_LESS
#undef POP_Q_COMPRESS
#undef POP_Q_EXPAND
#undef POP_Q_LOAD
#undef POP_Q_STORE

#define POP_Q(name) pop_##name##_64
#define POP_Q_WORD uint64_t
#define POP_Q_LANES 8
#define POP_Q_MASK __mmask8
#define POP_Q_RADIX pop_radix_64
#define POP_Q_SPLAT(x) _mm512_set1_epi64((long long)(x))
#define POP_Q_IOTA _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0)
#define POP_Q_PERMUTE _mm512_permutexvar_epi64
#define POP_Q_MIN _mm512_min_epu64
#define POP_Q_MAX _mm512_max_epu64
#define POP_Q_MASK_MAX _mm512_mask_max_epu64
#define POP_Q_LESS _mm512_cmplt_epu64_mask
#define POP_Q_COMPRESS _mm512_maskz_compress_epi64
#define POP_Q_EXPAND _mm512_mask_expand_epi64
#define POP_Q_LOAD _mm512_mask_loadu_epi64
#define POP_Q_STORE _mm512_mask_storeu_epi64
#include "kernels/sort/quick_body.h"

/* Pivots that are bad so often are no chance. */
static int pop_depth(int64_t n) { return 2 * (64 - __builtin_clzll((unsigned long long)n | 1)) + 8; }
static void pop_least_32(uint32_t *a, int64_t n, int64_t k, uint32_t *tmp) { pop_quick_32(a, n, k, tmp, 1, pop_depth(n)); }
static void pop_least_64(uint64_t *a, int64_t n, int64_t k, uint64_t *tmp, int low)
{
    (void)low;
    pop_quick_64(a, n, k, tmp, 1, pop_depth(n));
}
#else
static void pop_least_32(uint32_t *a, int64_t n, int64_t k, uint32_t *tmp)
{
    (void)k;
    pop_radix_32(a, n, tmp, 0);
}
/* Words are in order already by their bits below `low`. */
static void pop_least_64(uint64_t *a, int64_t n, int64_t k, uint64_t *tmp, int low)
{
    (void)k;
    pop_radix_64(a, n, tmp, low);
}
#endif
#endif
