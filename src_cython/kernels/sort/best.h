/* The best k of a row as words, in two passes. The first finds the best key of each block of lines: at least k keys are no worse than
 * the k-th of these, and few more. The second keeps what is no worse, and looks at no other blocks. */
#ifndef POP_SORT_BEST_H
#define POP_SORT_BEST_H
#include "kernels/sort/keys.h"

#define POP_LINE_BYTES 64
#define POP_SPARE 64 /* words that are kept beside twice k, before all but the best k are dropped */
#define POP_BLOCKS 128
#define POP_TWICE_BYTES 2048 /* of a row that is looked at twice for its best in less time than by blocks */
#define POP_BLOCK_BYTES(k) (4 * 4 * (k) + 4 * 2 * POP_BLOCKS + POP_LINE_BYTES) /* of what is best of blocks */

typedef struct pop_blocks {
    int64_t span, count; /* lines of each, and how many there are */
} pop_blocks;

/* Words so far. A word is a key, inverted where the greatest are best, above its place. */
typedef struct pop_kept {
    uint64_t *words, *tmp;
    int64_t k, room, count; /* as many words as `room`, or more, are too many */
    uint32_t worst, limit;  /* key of a word that is still wanted, and of a code, neither inverted nor one of equal ones */
    int dropped, full;      /* whether words were dropped; whether no more are wanted */
} pop_kept;

/* Blocks of which the best k elements of a row fall into k nearly: none where there are too few lines. */
POP_INLINE pop_blocks pop_blocks_of(int64_t lines, int64_t k)
{
    const int64_t due = 2 * k < POP_BLOCKS ? POP_BLOCKS : 2 * k, span = lines < due ? 1 : lines / due;
    return (pop_blocks){span, lines * 4 < k * 5 ? 0 : lines / span};
}

/* The k-th of what is best of blocks. */
POP_INLINE uint32_t pop_kth(const uint32_t *restrict best, int64_t count, const pop_kept *k)
{
    if (k->k > 1) return pop_word_at_32(best, count, k->k - 1, (uint32_t *)(void *)k->tmp, (uint32_t *)(void *)k->words);
#if POP_LEVEL >= POP_LEVEL_AVX512
    __m512i some = _mm512_loadu_si512(best);
    for (int64_t i = 16; i < count; i += 16) some = _mm512_min_epu32(some, _mm512_loadu_si512(best + i));
    return _mm512_reduce_min_epu32(some);
#else
    uint32_t least = UINT32_MAX;
    for (int64_t i = 0; i < count; i++) least = best[i] < least ? best[i] : least;
    return least;
#endif
}

/* Which of n keys, 64 of them at most, are no worse than a limit, a bit each; whole vectors are read. */
POP_INLINE uint64_t pop_no_worse(const uint32_t *keys, int64_t n, uint32_t limit)
{
    uint64_t hits = 0;
#if POP_LEVEL >= POP_LEVEL_AVX512
    const __m512i bound = _mm512_set1_epi32((int)limit);
    for (int64_t i = 0; i < 64 && i < n; i += 16)
        hits |= (uint64_t)_mm512_cmple_epu32_mask(_mm512_loadu_si512(keys + i), bound) << i;
    return n < 64 ? hits & (((uint64_t)1 << n) - 1) : hits;
#else
    for (int64_t i = 0; i < 64 && i < n; i++) hits |= (uint64_t)(keys[i] <= limit) << i;
    return hits;
#endif
}

/* Drop all words but the best; return the key of the last. */
static uint32_t pop_drop(pop_kept *k)
{
    pop_least_64(k->words, k->count, k->k, k->tmp, k->dropped ? 0 : 32);
    k->count = k->k, k->dropped = 1;
    return (uint32_t)(k->words[k->k - 1] >> 32);
}

#define POP_B(name) pop_##name##_16
#define POP_B_CODE uint16_t
#define POP_B_SIGNED int16_t
#define POP_B_SPLAT(x) _mm512_set1_epi16((short)(x))
#define POP_B_MAX _mm512_max_epu16
#define POP_B_MIN _mm512_min_epu16
#define POP_B_GE _mm512_cmpge_epu16_mask
#define POP_B_LE _mm512_cmple_epu16_mask
#define POP_B_LOAD _mm512_maskz_loadu_epi16
#include "kernels/sort/best_body.h"
#undef POP_B
#undef POP_B_CODE
#undef POP_B_SIGNED
#undef POP_B_SPLAT
#undef POP_B_MAX
#undef POP_B_MIN
#undef POP_B_GE
#undef POP_B_LE
#undef POP_B_LOAD

#define POP_B(name) pop_##name##_32
#define POP_B_CODE uint32_t
#define POP_B_SIGNED int32_t
#define POP_B_SPLAT(x) _mm512_set1_epi32((int)(x))
#define POP_B_MAX _mm512_max_epu32
#define POP_B_MIN _mm512_min_epu32
#define POP_B_GE _mm512_cmpge_epu32_mask
#define POP_B_LE _mm512_cmple_epu32_mask
#define POP_B_LOAD _mm512_maskz_loadu_epi32
#include "kernels/sort/best_body.h"

/* A row's codes one after another: where they are, or a copy; those of one byte are ranks of two. */
static const void *pop_lined_up(const pop_sort *s, const char *restrict from, void *restrict copy)
{
    const int64_t stride = s->stride, n = s->n;
    if (s->code_bytes == 1)
        for (int64_t i = 0; i < n; i++) ((uint16_t *)copy)[i] = (uint8_t)s->ranks[(uint8_t)from[i * stride]];
    else if (stride == s->code_bytes) return from;
    else if (s->code_bytes == 2)
        for (int64_t i = 0; i < n; i++) memcpy((uint16_t *)copy + i, from + i * stride, 2);
    else
        for (int64_t i = 0; i < n; i++) memcpy((uint32_t *)copy + i, from + i * stride, 4);
    return copy;
}

/* The best k words in order, of rows of numbers of up to four bytes. `best` has room for what is best of blocks and for a copy of the
 * codes. */
static void pop_best_words(const pop_sort *s, const char *from, uint64_t *words, uint64_t *tmp, uint32_t *best)
{
    const int64_t k = s->k;
    pop_kept kept = {.words = words, .tmp = tmp, .k = k, .room = 2 * k + POP_SPARE < s->n ? 2 * k + POP_SPARE : INT64_MAX};
    const void *codes = pop_lined_up(s, from, (char *)best + (kept.room > s->n ? 0 : POP_BLOCK_BYTES(k)));
    if (k == 0) return;
    if (s->code_bytes == 4 && s->descending) pop_best_words_32(s, codes, 1, &kept, best);
    else if (s->code_bytes == 4) pop_best_words_32(s, codes, 0, &kept, best);
    else if (s->descending) pop_best_words_16(s, codes, 1, &kept, best);
    else pop_best_words_16(s, codes, 0, &kept, best);
    if (kept.count > 1) pop_least_64(words, kept.count, k, tmp, kept.dropped ? 0 : 32);
}
#endif
