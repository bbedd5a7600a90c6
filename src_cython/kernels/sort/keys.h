/* From codes to keys, whole numbers whose order is that of what the codes stand for, and back. */
#ifndef POP_SORT_KEYS_H
#define POP_SORT_KEYS_H
#include "kernels/sort/quick.h"
#include "program/program.h"
#define POP_RECORDS "records/sort.def"
#include "records/structs.h"

#define POP_CHUNK 512 /* keys at a time */

typedef struct pop_sort_row {
    const char *from, *other;
    int64_t out; /* elements from the beginning of the results */
} pop_sort_row;

static pop_sort_row pop_sort_row_at(const pop_sort *s, const char *from, const char *other, int64_t row)
{
    pop_sort_row r = {from, other, 0};
    for (int d = s->kept_count - 1; d >= 0; d--) {
        const int64_t i = d ? row % s->kept[d].extent : row;
        row = d ? row / s->kept[d].extent : 0;
        r.from += i * s->kept[d].stride;
        r.other += i * s->kept[d].other;
        r.out += i * s->kept[d].out;
    }
    return r;
}

/* What keys are made by, apart from memory that is written. */
typedef struct pop_coding {
    uint32_t sign, flips, turn, last, minus_zero, zero_step;
} pop_coding;

POP_INLINE pop_coding pop_coding_of(const pop_sort *s)
{
    return (pop_coding){(uint32_t)s->sign, s->flips, s->turn, s->last, s->minus_zero, s->zero_step};
}

POP_INLINE uint32_t pop_ones(int bytes) { return bytes == 2 ? 0xffffu : 0xffffffffu; }

/* Of a key: zeros are one, and so are NaNs. */
POP_INLINE uint32_t pop_equal_key(pop_coding c, uint32_t key)
{
    key += key == c.minus_zero ? c.zero_step : 0;
    return key > c.last ? c.last + 1 : key;
}

POP_INLINE uint32_t pop_key(pop_coding c, uint32_t u, int bytes, int equal)
{
    const uint32_t below = (0u - (u >> (8 * bytes - 1))) & c.flips;
    const uint32_t key = ((u ^ below ^ c.sign) - c.turn) & pop_ones(bytes);
    return equal ? pop_equal_key(c, key) : key;
}

POP_INLINE uint32_t pop_code(pop_coding c, uint32_t key, int bytes)
{
    const uint32_t v = (key + c.turn) & pop_ones(bytes);
    return v ^ c.sign ^ (((v >> (8 * bytes - 1)) - 1) & c.flips);
}

POP_INLINE void pop_read_keys(const pop_sort *s, const char *restrict from, int64_t stride, int bytes, int equal, uint32_t invert,
                              int64_t n, uint32_t *restrict keys)
{
    const pop_coding c = pop_coding_of(s);
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = 0;
        if (bytes == 4) memcpy(&u, from + i * stride, 4);
        else {
            uint16_t half;
            memcpy(&half, from + i * stride, 2);
            u = half;
        }
        keys[i] = pop_key(c, u, bytes, equal) ^ invert;
    }
}

/* n keys of codes of up to four bytes, inverted where `invert` is all ones. */
static void pop_keys(const pop_sort *s, const char *from, int equal, uint32_t invert, int64_t n, uint32_t *keys)
{
    const int64_t stride = s->stride;
    if (s->code_bytes == 1) {
        for (int64_t i = 0; i < n; i++) keys[i] = (uint8_t)s->ranks[(uint8_t)from[i * stride]] ^ invert;
    } else if (s->code_bytes == 2) {
        if (stride == 2 && equal) pop_read_keys(s, from, 2, 2, 1, invert, n, keys);
        else if (stride == 2) pop_read_keys(s, from, 2, 2, 0, invert, n, keys);
        else pop_read_keys(s, from, stride, 2, equal, invert, n, keys);
    } else {
        if (stride == 4 && equal) pop_read_keys(s, from, 4, 4, 1, invert, n, keys);
        else if (stride == 4) pop_read_keys(s, from, 4, 4, 0, invert, n, keys);
        else pop_read_keys(s, from, stride, 4, equal, invert, n, keys);
    }
}

static void pop_keys_64(const pop_sort *s, const char *from, uint64_t invert, int64_t n, uint64_t *keys)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t u;
        memcpy(&u, from + i * s->stride, sizeof u);
        keys[i] = u ^ s->sign ^ invert;
    }
}
#endif
