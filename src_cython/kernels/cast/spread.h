/* Values that whole rows of elements share, laid out as kernels read them. */
#ifndef POP_KERNELS_SPREAD_H
#define POP_KERNELS_SPREAD_H
#include <string.h>

#include "simd/simd.h"

/* So many bytes of elements that are all one: whole vectors, as kernels read them from the store queue, and one that ends with the last. */
POP_INLINE void pop_fill(int64_t bytes, char *to, const char *one, int64_t nbytes)
{
    enum { width = 4 * POP_LANES };
    char part[width];
#pragma GCC unroll 64
    for (int64_t i = 0; i < width; i += bytes) memcpy(part + i, one, (size_t)bytes);
    if (nbytes >= width) {
        for (int64_t i = 0; i + width <= nbytes; i += width) memcpy(to + i, part, width);
        memcpy(to + nbytes - width, part, width);
    } else if (nbytes >= width / 2) {
        memcpy(to, part, width / 2), memcpy(to + nbytes - width / 2, part, width / 2);
    } else if (nbytes >= 16) { /* less than two of them: of vectors of at most 64 bytes half are at most 32 */
        memcpy(to, part, 16), memcpy(to + nbytes - 16, part, 16);
    } else {
        for (int64_t i = 0; i < nbytes; i += bytes) memcpy(to + i, one, (size_t)bytes);
    }
}

POP_INLINE void pop_spread_values(int64_t bytes, char *lanes, int64_t rows, int64_t row, int64_t rest, int64_t n)
{
    const char *value = lanes + (n - rows) * bytes; /* never behind what is written: a row has an element or more */
    for (int64_t done = 0, end; done < n; done = end, rest = row, value += bytes) {
        char one[8];
        end = n < done + rest ? n : done + rest;
        memcpy(one, value, (size_t)bytes);
        pop_fill(bytes, lanes + done * bytes, one, (end - done) * bytes);
    }
}

/* Spread the values of `rows` rows, which lie at the end of n lanes, over all of them; the first row has `rest` lanes. */
static void pop_spread(int64_t bytes, char *lanes, int64_t rows, int64_t row, int64_t rest, int64_t n)
{
    if (bytes == 1) pop_spread_values(1, lanes, rows, row, rest, n);
    else if (bytes == 2) pop_spread_values(2, lanes, rows, row, rest, n);
    else if (bytes == 4) pop_spread_values(4, lanes, rows, row, rest, n);
    else pop_spread_values(8, lanes, rows, row, rest, n);
}
#endif
