/* Rows of numbers in order. */
#ifndef POP_SORT_ROWS_H
#define POP_SORT_ROWS_H
#include "kernels/sort/long.h"

#define POP_COUNTED_WORDS 131072 /* from which on codes of two bytes are counted, one by one */

/* So many of a code to results of one or two bytes, `step` elements apart. */
POP_INLINE char *pop_repeat(char *to, int64_t step, uint32_t code, int bytes, int64_t count)
{
    for (int64_t i = 0; i < count; i++, to += step * bytes) memcpy(to, &code, (size_t)bytes);
    return to;
}

static void pop_count_bytes(const pop_sort *s, const char *from, char *to, int64_t step)
{
    int64_t counts[256] = {0};
    for (int64_t i = 0; i < s->n; i++) counts[(uint8_t)from[i * s->stride]]++;
    for (int i = 0; i < 256; i++) {
        const uint8_t code = (uint8_t)s->codes[i];
        to = pop_repeat(to, step, code, 1, counts[code]);
    }
}

static void pop_count_halves(const pop_sort *s, const char *from, char *to, int64_t step, uint32_t *counts)
{
    const pop_coding c = pop_coding_of(s);
    memset(counts, 0, 65536 * sizeof *counts);
    for (int64_t i = 0; i < s->n; i++) {
        uint16_t u;
        memcpy(&u, from + i * s->stride, sizeof u);
        counts[u]++;
    }
    for (uint32_t key = 0; key < 65536; key++) {
        const uint32_t code = pop_code(c, key, 2);
        to = pop_repeat(to, step, code, 2, counts[code]);
    }
}

/* Keys of a row, in the order that is asked for. */
static void pop_row_keys(const pop_long *row, int64_t first, int64_t n, void *keys)
{
    const pop_sort *s = row->s;
    const char *from = row->from + first * s->stride;
    if (s->code_bytes == 8) pop_keys_64(s, from, s->descending ? UINT64_MAX : 0, n, (uint64_t *)keys);
    else pop_keys(s, from, 0, s->descending ? UINT32_MAX : 0, n, (uint32_t *)keys);
}

/* Codes in place of their keys. */
static void pop_row_codes(const pop_sort *s, void *keys, int64_t n)
{
    if (s->code_bytes == 8) {
        const uint64_t back = s->sign ^ (s->descending ? UINT64_MAX : 0);
        for (int64_t i = 0; i < n; i++) ((uint64_t *)keys)[i] ^= back;
    } else {
        const pop_coding c = pop_coding_of(s);
        const int bytes = s->code_bytes;
        const uint32_t back = s->descending ? UINT32_MAX : 0;
        if (bytes == 4)
            for (int64_t i = 0; i < n; i++) ((uint32_t *)keys)[i] = pop_code(c, ((uint32_t *)keys)[i] ^ back, 4);
        else
            for (int64_t i = 0; i < n; i++) ((uint32_t *)keys)[i] = pop_code(c, ((uint32_t *)keys)[i] ^ back, 2);
    }
}

#define POP_PLACE_CODES(width)                                                                                            \
    POP_INLINE void pop_place_##width(const void *restrict codes, int64_t n, char *restrict to, int64_t step, int bytes)  \
    {                                                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                                 \
            const uint##width##_t code = ((const uint##width##_t *)codes)[i];                                             \
            const uint16_t half = (uint16_t)code;                                                                         \
            if (bytes == 2) memcpy(to + i * step * bytes, &half, 2);                                                      \
            else memcpy(to + i * step * bytes, &code, sizeof code);                                                       \
        }                                                                                                                 \
    }
POP_PLACE_CODES(32)
POP_PLACE_CODES(64)

static int64_t pop_sort_bytes(const pop_sort *s)
{
    if (s->code_bytes == 1) return 0;
    if (s->code_bytes == 2 && s->n >= POP_COUNTED_WORDS) return 4 * 65536;
    return (s->code_bytes == 8 ? 8 : 4) * s->n * (s->out_step != 1 || s->code_bytes == 2 ? 2 : 1) + 64;
}

/* Operands: the numbers, the result, in which keys are put in order where they are as long as codes and lie one after another. */
static void pop_sort_vertex(const void *work, const pop_tile *tile)
{
    const pop_sort_item *item = (const pop_sort_item *)work;
    const pop_sort *s = item->spec;
    const int64_t bytes = s->code_bytes, step = s->out_step, n = s->n;
    const int there = bytes >= 4 && step == 1;
    for (int64_t i = item->first; i < item->first + item->count; i++) {
        const pop_sort_row at = pop_sort_row_at(s, tile->operands[0], tile->operands[0], i);
        const pop_long row = {.s = s, .from = at.from, .make = pop_row_keys, .end = pop_row_codes};
        char *to = tile->operands[1] + at.out * bytes, *keys = there ? to : tile->scratch;
        char *tmp = tile->scratch + (there ? 0 : n * (bytes == 8 ? 8 : 4) + 64);
        if (bytes == 1 || (bytes == 2 && n >= POP_COUNTED_WORDS)) {
            char *first = s->descending && n ? to + (n - 1) * step * bytes : to;
            if (bytes == 1) pop_count_bytes(s, at.from, first, s->descending ? -step : step);
            else pop_count_halves(s, at.from, first, s->descending ? -step : step, (uint32_t *)(void *)keys);
        } else if (bytes == 8) {
            pop_all_64(&row, n, (uint64_t *)(void *)keys, (uint64_t *)(void *)tmp, 0);
            if (!there) pop_place_64(keys, n, to, step, 8);
        } else {
            pop_all_32(&row, n, (uint32_t *)(void *)keys, (uint32_t *)(void *)tmp, 0);
            if (bytes == 2 && step == 1) pop_place_32(keys, n, to, 1, 2);
            else if (bytes == 2) pop_place_32(keys, n, to, step, 2);
            else if (!there) pop_place_32(keys, n, to, step, 4);
        }
    }
}
#endif
