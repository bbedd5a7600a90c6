/* Candidates as words that compare as their scores do: the score's bits, in an order of words, above the candidate's number
 * from the last one down, so that of equal scores the first candidate is the greatest. */
#ifndef POP_CTC_KEYS_H
#define POP_CTC_KEYS_H
#include <stdint.h>
#include <string.h>

typedef uint64_t pop_key;

static inline pop_key key_of(float score, uint32_t number)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (pop_key)bits << 32 | (uint32_t)~number;
}

static inline uint32_t number_of(pop_key key) { return ~(uint32_t)key; }

static inline float score_of(pop_key key)
{
    uint32_t bits = (uint32_t)(key >> 32);
    float score;
    bits = bits >> 31 ? bits & 0x7fffffffu : ~bits;
    memcpy(&score, &bits, sizeof score);
    return score;
}

static inline void swap_keys(pop_key *a, pop_key *b) { pop_key x = *a; *a = *b; *b = x; }

/* The `count` greatest of n keys, all different, to the front, the least of them last. */
static void greatest_first(pop_key *k, int64_t n, int64_t count)
{
    int64_t low = 0, high = n - 1, at = count - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (k[middle] > k[low]) swap_keys(k + middle, k + low);
        if (k[high] > k[low]) swap_keys(k + high, k + low);
        if (k[high] > k[middle]) swap_keys(k + high, k + middle);
        const pop_key pivot = k[middle];
        int64_t i = low, j = high;
        while (i <= j) {
            while (k[i] > pivot) i++;
            while (k[j] < pivot) j--;
            if (i <= j) swap_keys(k + i++, k + j--);
        }
        if (at <= j) high = j;
        else if (at >= i) low = i;
        else return;
    }
}

/* Descending, by a heap of which the least is on top. */
static void sort_keys(pop_key *k, int64_t n)
{
    for (int64_t start = n / 2 - 1, end = n; end > 1;) {
        int64_t i = 0;
        if (start >= 0) i = start--;
        else swap_keys(k, k + --end);
        const pop_key x = k[i];
        for (int64_t child; (child = 2 * i + 1) < end; i = child) {
            if (child + 1 < end && k[child + 1] < k[child]) child++;
            if (k[child] >= x) break;
            k[i] = k[child];
        }
        k[i] = x;
    }
}
#endif
