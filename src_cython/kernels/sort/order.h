/* The best k elements of rows with their places, best first; of equal ones the first is better. An element is a word: its key,
 * inverted where the greatest are best, above its place. Words differ, so that any way of sorting them is stable. */
#ifndef POP_SORT_ORDER_H
#define POP_SORT_ORDER_H
#include "kernels/sort/keys.h"

#define POP_SPARE 64 /* words that are kept beside twice k, before all but the best k are dropped */
#define POP_FIRST_PARTS 64 /* parts of a chunk whose best keys give the first limit */

#if POP_LEVEL >= POP_LEVEL_AVX512
/* Words of the lanes of m, one after another; a vector more is written over. */
POP_INLINE int64_t pop_keep_lanes(__mmask16 m, __m512i keys, __m512i places, uint64_t *words)
{
    const __m512i upper = _mm512_maskz_compress_epi32(m, keys), lower = _mm512_maskz_compress_epi32(m, places);
    const int64_t count = __builtin_popcount(m);
    _mm512_storeu_si512(words, _mm512_or_si512(_mm512_slli_epi64(_mm512_cvtepu32_epi64(_mm512_castsi512_si256(upper)), 32),
                                               _mm512_cvtepu32_epi64(_mm512_castsi512_si256(lower))));
    if (count > 8)
        _mm512_storeu_si512(words + 8,
                            _mm512_or_si512(_mm512_slli_epi64(_mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(upper, 1)), 32),
                                            _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(lower, 1))));
    return count;
}
#endif

/* Words of keys from place `first` on that are below a limit, to `words`, which has room for all; return how many. */
static int64_t pop_keep_below(const uint32_t *keys, int64_t n, int64_t first, uint32_t limit, uint64_t *words)
{
    int64_t count = 0, i = 0;
#if POP_LEVEL >= POP_LEVEL_AVX512
    const __m512i bound = _mm512_set1_epi32((int)limit), sixteen = _mm512_set1_epi32(16);
    __m512i places = _mm512_add_epi32(_mm512_set1_epi32((int)first),
                                      _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    for (; i + 16 <= n; i += 16, places = _mm512_add_epi32(places, sixteen)) {
        const __m512i some = _mm512_loadu_si512(keys + i);
        const __mmask16 m = _mm512_cmplt_epu32_mask(some, bound);
        if (m) count += pop_keep_lanes(m, some, places, words + count);
    }
#endif
    for (; i < n; i++)
        if (keys[i] < limit) words[count++] = (uint64_t)keys[i] << 32 | (uint64_t)(first + i);
    return count;
}

/* The one best word. */
static uint64_t pop_best(const pop_sort *s, const char *from, uint32_t invert, uint32_t *keys)
{
    uint64_t best = UINT64_MAX;
    for (int64_t at = 0, n; at < s->n; at += n) {
        uint32_t least = UINT32_MAX;
        n = s->n - at < POP_CHUNK ? s->n - at : POP_CHUNK;
        pop_keys(s, from + at * s->stride, 1, invert, n, keys);
        for (int64_t i = 0; i < n; i++) least = keys[i] < least ? keys[i] : least;
        if (at && least >= best >> 32) continue;
        int64_t place = 0;
        while (keys[place] != least) place++;
        best = (uint64_t)least << 32 | (uint64_t)(at + place);
    }
    return best;
}

/* A limit below which at least k of n keys are, and few more: the k-th best of what is best of each of 64 parts. 0 if there is none. */
static uint32_t pop_first_limit(const uint32_t *restrict keys, int64_t n, int64_t k)
{
    uint32_t best[POP_FIRST_PARTS], tmp[POP_FIRST_PARTS];
    memset(best, 0xff, sizeof best);
    int64_t i = 0;
    for (; i + POP_FIRST_PARTS <= n; i += POP_FIRST_PARTS)
        for (int j = 0; j < POP_FIRST_PARTS; j++) best[j] = keys[i + j] < best[j] ? keys[i + j] : best[j];
    for (int j = 0; i + j < n; j++) best[j] = keys[i + j] < best[j] ? keys[i + j] : best[j];
    pop_least_32(best, POP_FIRST_PARTS, k, tmp);
    return best[k - 1] + 1;
}

/* The best k words in order, of rows of numbers of up to four bytes. */
static void pop_best_words(const pop_sort *s, const char *from, uint64_t *words, uint64_t *tmp)
{
    const uint32_t invert = s->descending ? UINT32_MAX : 0;
    uint32_t keys[POP_CHUNK];
    const int64_t room = 2 * s->k + POP_SPARE;
    int64_t held = 0, chunk = POP_CHUNK;
    uint32_t limit = 0;
    int limited = 0;
    const int few = room < s->n && s->k <= POP_FIRST_PARTS / 2;
    if (s->k == 1 && s->n > 1) {
        words[0] = pop_best(s, from, invert, keys);
        return;
    }
    if (!few && room < s->n && room < chunk) chunk = room;
    for (int64_t at = 0, n; at < s->n; at += n) {
        n = s->n - at < chunk ? s->n - at : chunk;
        pop_keys(s, from + at * s->stride, 1, invert, n, keys);
        if (few && at == 0) limit = pop_first_limit(keys, n, s->k), limited = limit != 0;
        if (limited) {
            held += pop_keep_below(keys, n, at, limit, words + held);
        } else {
            for (int64_t i = 0; i < n; i++) words[held + i] = (uint64_t)keys[i] << 32 | (uint64_t)(at + i);
            held += n;
        }
        if (room < s->n && held >= room) {
            pop_least_64(words, held, s->k, tmp, 0);
            held = s->k, limit = (uint32_t)(words[held - 1] >> 32), limited = 1, chunk = POP_CHUNK;
        }
    }
    pop_least_64(words, held, s->k, tmp, room < s->n ? 0 : 32);
}

/* Words that are equal above their places, by the bits of their keys that those left out. */
static void pop_order_run(uint64_t *words, int64_t n, const uint64_t *keys, uint64_t left_out, uint64_t *tmp)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t place = (uint32_t)words[i];
        words[i] = (keys[place] & left_out) << 32 | place;
    }
    pop_least_64(words, n, n, tmp, 32);
}

/* All of a row of 64-bit integers: by the first 32 bits in which they differ, then those that are equal there by the rest. */
static void pop_order_wide(const pop_sort *s, const char *from, uint64_t *words, uint64_t *tmp, uint64_t *keys)
{
    uint64_t least = UINT64_MAX, most = 0, rank = 0;
    pop_keys_64(s, from, s->descending ? UINT64_MAX : 0, s->n, keys);
    for (int64_t i = 0; i < s->n; i++) least = keys[i] < least ? keys[i] : least, most = keys[i] > most ? keys[i] : most;
    const int shift = (most - least) >> 32 ? 32 - __builtin_clzll(most - least) : 0;
    const uint64_t left_out = ((uint64_t)1 << shift) - 1;
    for (int64_t i = 0; i < s->n; i++) {
        keys[i] -= least;
        words[i] = keys[i] >> shift << 32 | (uint64_t)i;
    }
    pop_least_64(words, s->n, s->n, tmp, 32);
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

POP_INLINE void pop_gather(const char *restrict from, int64_t stride, const uint32_t *restrict places, int64_t n,
                           char *restrict to, int64_t step, int bytes)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + i * step * bytes, from + places[i] * stride, (size_t)bytes);
}

static void pop_gather_any(const char *from, int64_t stride, const uint32_t *places, int64_t n, char *to, int64_t step, int bytes)
{
    if (bytes == 1) pop_gather(from, stride, places, n, to, step, 1);
    else if (bytes == 2) pop_gather(from, stride, places, n, to, step, 2);
    else if (bytes == 4) pop_gather(from, stride, places, n, to, step, 4);
    else pop_gather(from, stride, places, n, to, step, 8);
}

/* Places of words in the order of the results; they may take the words' memory. */
static void pop_places(const pop_sort *s, const uint64_t *restrict words, uint32_t *restrict places)
{
    if (!s->backwards) {
        for (int64_t i = 0, k = s->k; i < k; i++) places[i] = (uint32_t)words[i];
        return;
    }
    for (int64_t end = s->k, to = 0, begin; end > 0; end = begin) {
        for (begin = end - 1; begin > 0 && words[begin - 1] >> 32 == words[end - 1] >> 32;) begin--;
        for (int64_t i = begin; i < end; i++) places[to++] = (uint32_t)words[i];
    }
}

/* Operands: the numbers, the results, and what else is put in their order. */
static void pop_order_vertex(const void *work, const pop_tile *tile)
{
    const pop_sort_item *item = (const pop_sort_item *)work;
    const pop_sort *s = item->spec;
    const int64_t room = 2 * s->k + POP_SPARE, held = s->code_bytes == 8 || room >= s->n ? s->n : room + POP_CHUNK;
    uint64_t *words = (uint64_t *)(void *)tile->scratch, *tmp = words + held + 8;
    uint64_t *wide = tmp + held + 8;
    uint32_t *places = (uint32_t *)(void *)tmp;
    for (int64_t i = item->first; i < item->first + item->count; i++) {
        const pop_sort_row row = pop_sort_row_at(s, tile->operands[0], s->others < 0 ? NULL : tile->operands[2], i);
        char *out = tile->operands[1];
        if (s->code_bytes == 8) pop_order_wide(s, row.from, words, tmp, wide);
        else pop_best_words(s, row.from, words, tmp);
        if (s->values < 0 && s->others < 0 && !s->backwards && s->out_step == 1) {
            int64_t *to = (int64_t *)(void *)(out + s->indices) + row.out;
            for (int64_t j = 0, k = s->k; j < k; j++) to[j] = (int64_t)(words[j] & 0xffffffffu);
            continue;
        }
        pop_places(s, words, places);
        if (s->values >= 0)
            pop_gather_any(row.from, s->stride, places, s->k, out + s->values + row.out * s->code_bytes, s->out_step, s->code_bytes);
        if (s->others >= 0)
            pop_gather_any(row.other, s->other_stride, places, s->k, out + s->others + row.out * s->other_bytes, s->out_step,
                           s->other_bytes);
        if (s->indices >= 0) {
            int64_t *to = (int64_t *)(void *)(out + s->indices) + row.out;
            const int64_t step = s->out_step;
            for (int64_t j = 0, k = s->k; j < k; j++) to[j * step] = places[j];
        }
    }
}
#endif
