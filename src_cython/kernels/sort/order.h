/* The best k elements of rows with their places, best first; of equal ones the first is better. An element is a word: its key,
 * inverted where the greatest are best, above its place. Words differ, so that any way of sorting them is stable. */
#ifndef POP_SORT_ORDER_H
#define POP_SORT_ORDER_H
#include "kernels/sort/best.h"
#include "kernels/sort/long.h"

/* Words that are equal above their places, by the bits of their keys that those left out. */
static void pop_order_run(uint64_t *words, int64_t n, const uint64_t *keys, uint64_t left_out, uint64_t *tmp)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t place = (uint32_t)words[i];
        words[i] = (keys[place] & left_out) << 32 | place;
    }
    pop_least_64(words, n, n, tmp, 32);
}

/* Words of numbers of up to four bytes. */
static void pop_words(const pop_long *row, int64_t first, int64_t n, void *words)
{
    const pop_sort *s = row->s;
    uint64_t *restrict to = (uint64_t *)words;
    uint32_t keys[POP_CHUNK];
    for (int64_t i = 0; i < n; i += POP_CHUNK) {
        const int64_t count = n - i < POP_CHUNK ? n - i : POP_CHUNK;
        pop_keys(s, row->from + (first + i) * s->stride, 1, s->descending ? pop_ones(s->code_bytes) : 0, count, keys);
        for (int64_t j = 0; j < count; j++) to[i + j] = (uint64_t)keys[j] << 32 | (uint64_t)(first + i + j);
    }
}

/* Words of 64-bit integers, by the highest bits in which they differ. */
static void pop_wide_words(const pop_long *row, int64_t first, int64_t n, void *words)
{
    const uint64_t *restrict keys = row->keys + first;
    uint64_t *restrict to = (uint64_t *)words;
    for (int64_t i = 0, shift = row->left_out; i < n; i++) to[i] = keys[i] >> shift << 32 | (uint64_t)(first + i);
}

/* Places in place of words. */
static void pop_places(const pop_sort *s, void *words, int64_t n)
{
    (void)s;
    for (int64_t i = 0; i < n; i++) ((uint64_t *)words)[i] = (uint32_t)((uint64_t *)words)[i];
}

/* All of a row of 64-bit integers: by the first 32 bits in which they differ, then those that are equal there by the rest. */
static void pop_order_wide(const pop_sort *s, const char *from, uint64_t *words, uint64_t *tmp, uint64_t *keys)
{
    uint64_t least = UINT64_MAX, most = 0, rank = 0;
    pop_keys_64(s, from, s->descending ? UINT64_MAX : 0, s->n, keys);
    for (int64_t i = 0; i < s->n; i++) least = keys[i] < least ? keys[i] : least, most = keys[i] > most ? keys[i] : most;
    const int shift = (most - least) >> 32 ? 32 - __builtin_clzll(most - least) : 0;
    const uint64_t left_out = ((uint64_t)1 << shift) - 1;
    for (int64_t i = 0; i < s->n; i++) keys[i] -= least;
    pop_all_64(&(pop_long){.s = s, .keys = keys, .left_out = shift, .make = pop_wide_words}, s->n, words, tmp, 32);
    uint64_t equal = 0;
    for (int64_t i = 1; i < s->n && shift; i++) equal |= words[i] >> 32 == words[i - 1] >> 32;
    if (!equal) return;
    for (int64_t begin = 0, end; begin < s->n; begin = end) { /* words are of 32-bit keys: the numbers' ranks */
        for (end = begin + 1; end < s->n && words[end] >> 32 == words[begin] >> 32;) end++;
        if (end - begin > 1) pop_order_run(words + begin, end - begin, keys, left_out, tmp);
        for (int64_t i = begin, upper = (int64_t)(words[begin] >> 32); i < end; i++) {
            const int64_t here = (int64_t)(words[i] >> 32);
            rank += here != upper;
            upper = here;
            words[i] = rank << 32 | (uint32_t)words[i];
        }
        rank++;
    }
}

/* What lies at the places of words. */
POP_INLINE void pop_gather(const char *restrict from, int64_t stride, const uint64_t *restrict words, int64_t n,
                           char *restrict to, int64_t step, int bytes)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + i * step * bytes, from + (uint32_t)words[i] * stride, (size_t)bytes);
}

static void pop_gather_any(const char *from, int64_t stride, const uint64_t *words, int64_t n, char *to, int64_t step, int bytes)
{
    if (bytes == 1) pop_gather(from, stride, words, n, to, step, 1);
    else if (bytes == 2) pop_gather(from, stride, words, n, to, step, 2);
    else if (bytes == 4) pop_gather(from, stride, words, n, to, step, 4);
    else pop_gather(from, stride, words, n, to, step, 8);
}

/* Words with the best last, those that are equal in the order of their places. */
static void pop_backwards(const uint64_t *words, int64_t k, uint64_t *to)
{
    for (int64_t end = k, begin; end > 0; end = begin) {
        for (begin = end - 1; begin > 0 && words[begin - 1] >> 32 == words[end - 1] >> 32;) begin--;
        for (int64_t i = begin; i < end; i++) *to++ = words[i];
    }
}

/* A row's words in order, the best k at least. */
static void pop_order_row(const pop_sort *s, const char *from, uint64_t *words, uint64_t *tmp, uint64_t *wide, int places)
{
    if (s->code_bytes == 8) pop_order_wide(s, from, words, tmp, wide);
    else if (s->k < s->n) pop_best_words(s, from, words, tmp, (uint32_t *)(void *)wide);
    else pop_all_64(&(pop_long){.s = s, .from = from, .make = pop_words, .end = places ? pop_places : NULL}, s->n, words, tmp, 32);
}

/* Whether words are put in order where places of results will be; how many words there is room for. */
POP_INLINE int pop_order_there(const pop_sort *s) { return s->indices >= 0 && s->out_step == 1 && s->k == s->n; }
POP_INLINE int64_t pop_order_held(const pop_sort *s)
{
    const int64_t room = 2 * s->k + POP_SPARE;
    return s->code_bytes == 8 || room >= s->n ? s->n : room + POP_CHUNK;
}

static int64_t pop_order_bytes(const pop_sort *s)
{
    const int64_t words = 8 * (pop_order_held(s) + 8);
    if (s->code_bytes == 8 || s->k == s->n) return words * (pop_order_there(s) ? 1 : 2) + (s->code_bytes == 8 ? 8 * s->n : 0);
    const int64_t blocks = 2 * s->k + POP_SPARE >= s->n ? 0 : POP_BLOCK_BYTES(s->k);
    const int64_t row = s->code_bytes == 1 || s->stride != s->code_bytes ? s->n * (s->code_bytes == 4 ? 4 : 2) : 0;
    return 2 * words + blocks + row;
}

/* Operands: the numbers, the results, and what else is put in their order. Words of a whole row are put in order where its places
 * will be, if these lie one after another. */
static void pop_order_vertex(const void *work, const pop_tile *tile)
{
    const pop_sort_item *item = (const pop_sort_item *)work;
    const pop_sort *s = item->spec;
    const int64_t held = pop_order_held(s);
    const int there = pop_order_there(s);
    const int places = there && s->values < 0 && s->others < 0 && !s->backwards && s->code_bytes < 8; /* alone */
    uint64_t *scratch = (uint64_t *)(void *)tile->scratch, *tmp = there ? scratch : scratch + held + 8, *wide = tmp + held + 8;
    for (int64_t i = item->first; i < item->first + item->count; i++) {
        const pop_sort_row row = pop_sort_row_at(s, tile->operands[0], s->others < 0 ? NULL : tile->operands[1], i);
        uint64_t *to = s->indices < 0 ? NULL : (uint64_t *)(void *)tile->operands[s->indices] + row.out, *words = there ? to : scratch;
        pop_order_row(s, row.from, words, tmp, wide, places);
        if (places) continue;
        if (s->backwards) pop_backwards(words, s->k, tmp);
        const uint64_t *best = s->backwards ? tmp : words;
        if (s->values >= 0)
            pop_gather_any(row.from, s->stride, best, s->k, tile->operands[s->values] + row.out * s->code_bytes, s->out_step,
                           s->code_bytes);
        if (s->others >= 0)
            pop_gather_any(row.other, s->other_stride, best, s->k, tile->operands[s->others] + row.out * s->other_bytes, s->out_step,
                           s->other_bytes);
        if (s->indices < 0) continue;
        const int64_t step = s->out_step;
        if (best == to) pop_places(s, to, s->k);
        else if (step == 1)
            for (int64_t j = 0, k = s->k; j < k; j++) to[j] = (uint32_t)best[j];
        else
            for (int64_t j = 0, k = s->k; j < k; j++) to[j * step] = (uint32_t)best[j];
    }
}
#endif
