/* Rows beyond the second-level cache: words are dealt out once to parts that lie in it, then each part is put in order.
 *
 * Parts are of nearly as many words each, whatever the words are: the highest bits in which some words differ are counted, and
 * neighbouring counts make a part. Words that are equal in these bits stay together, in the order of their places. */
#ifndef POP_SORT_LONG_H
#define POP_SORT_LONG_H
#include "kernels/sort/keys.h"
#include "kernels/stream.h"

#define POP_LONG_BYTES (POP_CACHE / 2) /* of a row's words, which fill the last cache with as many beside them: from here on it pays */
#define POP_TOP_BITS 14
#define POP_TOPS (1 << POP_TOP_BITS)
#define POP_EACH_PART 256 /* parts that all words are shared out to; as there are others between them, twice as many at most */
#define POP_PARTS_MOST (2 * POP_EACH_PART)
#define POP_TRIED 1024 /* words that say where the highest bits are */

/* The parts that words belong to, by their highest bits, and where these begin; return how many there are. */
static int pop_parts(const uint32_t *counts, int64_t n, uint16_t *part, int64_t *begin)
{
    const int64_t each = n / POP_EACH_PART + 1;
    int64_t at = 0;
    int last = 0;
    begin[0] = 0;
    for (int i = 0; i < POP_TOPS; i++) {
        if (at > begin[last] && at + counts[i] - begin[last] > each) begin[++last] = at;
        part[i] = (uint16_t)last;
        at += counts[i];
    }
    return last + 1;
}

/* A row of words: how they are made, and what is done with a part that is in order. */
typedef struct pop_long {
    const pop_sort *s;
    const char *from;
    const uint64_t *keys; /* of 64-bit integers whose places count, and how many of their bits are left out */
    int left_out;
    void (*make)(const struct pop_long *row, int64_t first, int64_t n, void *words);
    void (*end)(const pop_sort *s, void *words, int64_t n);
} pop_long;

#define POP_W(name) pop_##name##_32
#define POP_W_WORD uint32_t
#define POP_W_LEAST(a, n, tmp, low) pop_least_32(a, n, n, tmp)
#include "kernels/sort/long_body.h"
#undef POP_W
#undef POP_W_WORD
#undef POP_W_LEAST

#define POP_W(name) pop_##name##_64
#define POP_W_WORD uint64_t
#define POP_W_LEAST(a, n, tmp, low) pop_least_64(a, n, n, tmp, low)
#include "kernels/sort/long_body.h"
#endif
