/* Words of 32 and 64 bits in order, digit by digit from the least: what levels without vectors of many lanes use, and what others
 * fall back to where pivots are bad time and again. */
#ifndef POP_SORT_RADIX_H
#define POP_SORT_RADIX_H
#include <stdint.h>
#include <string.h>

#include "kernels/abi.h"

#define POP_DIGIT 11
#define POP_FEW_WORDS 32 /* that are put in order one by one */

/* `tmp` has room for n; words are in order already by their bits below `low`. */
#define POP_RADIX(width)                                                                                                  \
    static void pop_insert_##width(uint##width##_t *a, int64_t n)                                                         \
    {                                                                                                                     \
        for (int64_t i = 1; i < n; i++) {                                                                                 \
            const uint##width##_t x = a[i];                                                                               \
            int64_t to = i;                                                                                               \
            for (; to > 0 && a[to - 1] > x; to--) a[to] = a[to - 1];                                                      \
            a[to] = x;                                                                                                    \
        }                                                                                                                 \
    }                                                                                                                     \
    static void pop_radix_##width(uint##width##_t *a, int64_t n, uint##width##_t *tmp, int low)                           \
    {                                                                                                                     \
        int64_t counts[1 << POP_DIGIT];                                                                                   \
        const int bits = n < 2048 ? 8 : POP_DIGIT;                                                                        \
        const uint##width##_t mask = ((uint##width##_t)1 << bits) - 1;                                                    \
        uint##width##_t *from = a, *to = tmp, *held;                                                                      \
        if (n <= POP_FEW_WORDS) {                                                                                         \
            pop_insert_##width(a, n);                                                                                     \
            return;                                                                                                       \
        }                                                                                                                 \
        for (int shift = low; shift < width; shift += bits) {                                                             \
            int64_t sum = 0;                                                                                              \
            memset(counts, 0, sizeof *counts << bits);                                                                    \
            for (int64_t i = 0; i < n; i++) counts[(from[i] >> shift) & mask]++;                                          \
            if (counts[(from[0] >> shift) & mask] == n) continue;                                                         \
            for (int64_t d = 0; d <= (int64_t)mask; d++) {                                                                \
                const int64_t here = counts[d];                                                                           \
                counts[d] = sum;                                                                                          \
                sum += here;                                                                                              \
            }                                                                                                             \
            for (int64_t i = 0; i < n; i++) to[counts[(from[i] >> shift) & mask]++] = from[i];                            \
            held = from, from = to, to = held;                                                                            \
        }                                                                                                                 \
        if (from != a) memcpy(a, from, (size_t)n * sizeof *a);                                                            \
    }

POP_RADIX(32)
POP_RADIX(64)
#endif
