/* Rows in three parts: what is less than the element that sorting would put at a place, what is equal to it, what is greater, each
 * in the order of its places. */
#ifndef POP_SORT_PARTITION_H
#define POP_SORT_PARTITION_H
#include "kernels/sort/keys.h"

/* Places in the result of n elements of the three parts, which begin at `next`: to `places`. */
#define POP_PARTED(width)                                                                                                 \
    static void pop_parted_##width(const uint##width##_t *restrict keys, uint##width##_t middle, int64_t n,               \
                                   int64_t *restrict places)                                                              \
    {                                                                                                                     \
        int64_t next[3] = {0, 0, 0};                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                                 \
            next[1] += keys[i] < middle;                                                                                  \
            next[2] += keys[i] <= middle;                                                                                 \
        }                                                                                                                 \
        for (int64_t i = 0; i < n; i++) places[next[(keys[i] >= middle) + (keys[i] > middle)]++] = i;                     \
    }
POP_PARTED(32)
POP_PARTED(64)

POP_INLINE void pop_take(const char *restrict from, int64_t stride, const int64_t *restrict places, int64_t n, char *restrict to,
                         int64_t step, int bytes)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + i * step * bytes, from + places[i] * stride, (size_t)bytes);
}

static int64_t pop_partition_bytes(const pop_sort *s) { return s->n * (8 + 3 * (s->code_bytes == 8 ? 8 : 4)); }

/* Operands: the numbers, the result. Scratch: places, keys, and what the middle one is found in. */
static void pop_partition_vertex(const void *work, const pop_tile *tile)
{
    const pop_sort_item *item = (const pop_sort_item *)work;
    const pop_sort *s = item->spec;
    const int64_t n = s->n, bytes = s->code_bytes, step = s->out_step;
    int64_t *places = (int64_t *)(void *)tile->scratch;
    uint64_t *wide = (uint64_t *)(void *)(places + n);
    uint32_t *keys = (uint32_t *)(void *)wide;
    for (int64_t i = item->first; i < item->first + item->count; i++) {
        const pop_sort_row row = pop_sort_row_at(s, tile->operands[0], NULL, i);
        if (bytes == 8) {
            pop_keys_64(s, row.from, 0, n, wide);
            pop_parted_64(wide, pop_word_at_64(wide, n, s->kth, wide + n, wide + 2 * n), n, places);
        } else {
            pop_keys(s, row.from, 1, 0, n, keys);
            pop_parted_32(keys, pop_word_at_32(keys, n, s->kth, keys + n, keys + 2 * n), n, places);
        }
        if (s->indices >= 0) {
            int64_t *to = (int64_t *)(void *)tile->operands[1] + row.out;
            for (int64_t j = 0; j < n; j++) to[j * step] = places[j];
            continue;
        }
        char *to = tile->operands[1] + row.out * bytes;
        if (bytes == 1) pop_take(row.from, s->stride, places, n, to, step, 1);
        else if (bytes == 2) pop_take(row.from, s->stride, places, n, to, step, 2);
        else if (bytes == 4) pop_take(row.from, s->stride, places, n, to, step, 4);
        else pop_take(row.from, s->stride, places, n, to, step, 8);
    }
}
#endif
