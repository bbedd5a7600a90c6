/* Rows of numbers in order. */
#ifndef POP_SORT_ROWS_H
#define POP_SORT_ROWS_H
#include "kernels/sort/keys.h"

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

POP_INLINE void pop_write_codes(const pop_sort *s, const uint32_t *restrict keys, char *restrict to, int64_t step, int bytes)
{
    const pop_coding c = pop_coding_of(s);
    for (int64_t i = 0, n = s->n; i < n; i++) {
        const uint32_t code = pop_code(c, keys[i], bytes);
        const uint16_t half = (uint16_t)code;
        if (bytes == 2) memcpy(to + i * step * bytes, &half, 2);
        else memcpy(to + i * step * bytes, &code, 4);
    }
}

/* Operands: the numbers, the result. The reverse of the ascending order is the descending one. */
static void pop_sort_vertex(const void *work, const pop_tile *tile)
{
    const pop_sort_item *item = (const pop_sort_item *)work;
    const pop_sort *s = item->spec;
    const int64_t bytes = s->code_bytes, step = s->descending ? -s->out_step : s->out_step;
    uint32_t *keys = (uint32_t *)(void *)tile->scratch;
    for (int64_t i = item->first; i < item->first + item->count; i++) {
        const pop_sort_row row = pop_sort_row_at(s, tile->operands[0], tile->operands[0], i);
        char *to = tile->operands[1] + (row.out + (s->descending ? (s->n - 1) * s->out_step : 0)) * bytes;
        if (bytes == 1) {
            pop_count_bytes(s, row.from, to, step);
        } else if (bytes == 2 && s->n >= POP_COUNTED_WORDS) {
            pop_count_halves(s, row.from, to, step, keys);
        } else if (bytes == 8) {
            uint64_t *wide = (uint64_t *)(void *)keys;
            pop_keys_64(s, row.from, 0, s->n, wide);
            pop_least_64(wide, s->n, s->n, wide + s->n + 8, 0);
            const uint64_t sign = s->sign;
            for (int64_t j = 0, n = s->n; j < n; j++) {
                const uint64_t code = wide[j] ^ sign;
                memcpy(to + j * step * 8, &code, 8);
            }
        } else {
            pop_keys(s, row.from, 0, s->n, keys);
            pop_least_32(keys, s->n, s->n, keys + s->n + 16);
            if (bytes == 2 && step == 1) pop_write_codes(s, keys, to, 1, 2);
            else if (bytes == 2) pop_write_codes(s, keys, to, step, 2);
            else if (step == 1) pop_write_codes(s, keys, to, 1, 4);
            else pop_write_codes(s, keys, to, step, 4);
        }
    }
}
#endif
