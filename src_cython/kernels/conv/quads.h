/* Gradients of weights of groups: lanes are output channels, group by group as they lie, sums of 3 kernel elements by 4 input
 * channels at once.
 *
 * A step reads 4 numbers of each group that the lanes are of, for each kernel element, repeats each of them over its group's
 * lanes, and multiplies by the deltas: sums[p][c][lane] = fma(x[at[p] + step][group of lane][c], w[step][lane], ...). A chain
 * runs over all steps in order, as conv.h's: all levels give its bits, but where words of two BF16 numbers are multiplied. */
#ifndef POP_CONV_QUADS_H
#define POP_CONV_QUADS_H
#include "simd/simd.h"

enum { POP_QUADS_POSITIONS = 3 };

/* 4 numbers of each group of POP_LANES lanes from number `first` on; x is at those of a block's first group, `order` says where
 * they are in a vector of it, which they may be the whole of. */
POP_INLINE pop_v_f pop_quads_read(const char *x, int64_t words, int together, int whole, int first, pop_v_u order)
{
    const float *from = (const float *)(const void *)x;
    if (whole) return pop_v_load_f(from + first);
#if POP_LEVEL >= POP_LEVEL_AVX512
    (void)words, (void)together, (void)first;
    return (pop_v_f)_mm512_permutexvar_epi32((__m512i)order, _mm512_loadu_si512(from));
#elif POP_LEVEL >= POP_LEVEL_AVX2
    (void)order;
    from += first / (16 / together) * words;
    if (together == 2) return (pop_v_f)_mm256_broadcast_ps((const __m128 *)(const void *)from);
    return (pop_v_f)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps(from + words), 1);
#else
    (void)order;
    return pop_v_load_f(from + first / (16 / together) * words);
#endif
}

/* A number in all lanes. */
POP_INLINE pop_v_f pop_quads_splat(const char *x)
{
#if POP_LEVEL >= POP_LEVEL_AVX512
    int32_t word;
    memcpy(&word, x, sizeof word);
    return (pop_v_f)_mm512_set1_epi32(word);
#else
    float number;
    memcpy(&number, x, sizeof number);
    return pop_v_splat(number);
#endif
}

/* Number c of each 4 lanes, in all of those. */
POP_INLINE pop_v_f pop_quads_repeat(pop_v_f x, int c)
{
#if POP_LEVEL >= POP_LEVEL_AVX512
#define POP_QUADS_OF(c) return (pop_v_f)_mm512_shuffle_epi32((__m512i)x, c * 0x55)
#elif POP_LEVEL >= POP_LEVEL_AVX2
#define POP_QUADS_OF(c) return (pop_v_f)_mm256_permute_ps((__m256)x, c * 0x55)
#else
#define POP_QUADS_OF(c) return pop_v_splat(x[c])
#endif
    switch (c) {
        case 0: POP_QUADS_OF(0);
        case 1: POP_QUADS_OF(1);
        case 2: POP_QUADS_OF(2);
        default: POP_QUADS_OF(3);
    }
#undef POP_QUADS_OF
}

/* Numbers of one element times the deltas of the last three steps, for the kernel elements that `which` has a bit for. */
POP_INLINE void pop_quads_column(pop_v_f numbers, const pop_v_f deltas[POP_QUADS_POSITIONS], int which, int pairs,
                                 pop_v_f sums[POP_QUADS_POSITIONS][4])
{
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        const pop_v_f x_c = pop_quads_repeat(numbers, c);
#pragma GCC unroll 3
        for (int k = 0; k < POP_QUADS_POSITIONS; k++)
            if (which >> k & 1) sums[k][c] = pop_conv_add(pairs, x_c, deltas[k], sums[k][c]);
    }
}

/* A run for three kernel elements that are neighbours: what one reads at a step the one before reads at the next. */
POP_INLINE void pop_quads_run(const pop_conv_block *b, const char *from, const char *by, int together, int whole, pop_v_u order,
                              pop_v_f sums[POP_QUADS_POSITIONS][4])
{
    const int64_t steps = b->steps;
    pop_v_f deltas[POP_QUADS_POSITIONS] = {pop_v_splat(0.0f), pop_v_splat(0.0f), pop_v_splat(0.0f)};
    for (int64_t j = 0; j < steps + 2; j++, from += b->x_step, by += b->w_step) {
        const pop_v_f numbers = pop_quads_read(from, b->words, together, whole, 0, order);
        deltas[2] = deltas[1], deltas[1] = deltas[0];
        if (j < steps) deltas[0] = pop_v_load_f((const float *)(const void *)by);
        if (j >= 2 && j < steps) {
            pop_quads_column(numbers, deltas, 7, 0, sums);
            continue;
        }
        const int begun = j < 2 ? (2 << j) - 1 : 7, ended = j < steps ? 0 : (2 << (j - steps)) - 1;
        pop_quads_column(numbers, deltas, begun & ~ended, 0, sums);
    }
}

/* The same of words of two neighbours: the third kernel element reads what the first does, a step before. */
POP_INLINE void pop_quads_pairs_run(const pop_conv_block *b, const char *from, const char *by, int together, int whole,
                                    pop_v_u order, pop_v_f sums[POP_QUADS_POSITIONS][4])
{
    const int64_t steps = b->steps;
    pop_v_f deltas[POP_QUADS_POSITIONS] = {pop_v_splat(0.0f), pop_v_splat(0.0f), pop_v_splat(0.0f)};
    for (int64_t i = 0; i < steps; i++, from += b->x_step, by += b->w_step) {
        const pop_v_f numbers = pop_quads_read(from, b->words, together, whole, 0, order);
        const pop_v_f others = pop_quads_read(from + b->x_step / 2, b->words, together, whole, 0, order);
        deltas[2] = deltas[0], deltas[0] = deltas[1] = pop_v_load_f((const float *)(const void *)by);
        if (i > 0) pop_quads_column(numbers, deltas, 5, 1, sums);
        else pop_quads_column(numbers, deltas, 1, 1, sums);
        pop_quads_column(others, deltas, 2, 1, sums);
    }
    deltas[2] = deltas[0];
    pop_quads_column(pop_quads_read(from, b->words, together, whole, 0, order), deltas, 4, 1, sums);
}

/* Kernel elements from number `p` on, `n` of them, and 4 numbers of a group from number `word` on, or as many as it has. */
POP_INLINE void pop_quads_sums(const pop_conv_block *b, const char *x, const char *w, char *to, int64_t p, int n, int64_t word,
                               int together, int whole, int first, int pairs)
{
    pop_v_f sums[POP_QUADS_POSITIONS][4];
    pop_v_u order = (pop_v_u)pop_v_splat(0.0f);
    int64_t at[POP_QUADS_POSITIONS];
    const int order_knows = POP_LANES == 16 && together > 1 && !whole; /* which number is the first */
    for (int lane = 0; order_knows && lane < POP_LANES; lane++)
        order[lane] = (uint32_t)(lane / (16 / together) * b->words + lane % 4 + word);
    const int64_t words = b->words, left = words - word, steps = b->steps, x_step = b->x_step, w_step = b->w_step;
#pragma GCC unroll 3
    for (int i = 0; i < n; i++) {
        at[i] = b->at[p + i] + (order_knows ? 0 : 4 * word);
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            const char *sum = to + b->to[p + i] + (word + c) * b->sums_word;
            sums[i][c] = c < left ? pop_v_load_f((const float *)(const void *)sum + first) : pop_v_splat(0.0f);
        }
    }
    const int64_t next = x_step >> pairs;
    const int neighbours = POP_LANES == 16 && n == 3 && together > 1 && at[1] == at[0] + next && at[2] == at[1] + next;
    for (int64_t run = 0; run < b->runs; run++) {
        const char *from = x + b->x_at[run], *by = w + b->w_at[run];
        if (neighbours) {
            if (pairs) pop_quads_pairs_run(b, from + at[0], by, together, whole, order, sums);
            else pop_quads_run(b, from + at[0], by, together, whole, order, sums);
            continue;
        }
        for (int64_t i = 0; i < steps; i++, from += x_step, by += w_step) {
            const pop_v_f deltas = pop_v_load_f((const float *)(const void *)by + first);
#pragma GCC unroll 3
            for (int k = 0; k < n; k++) {
                pop_v_f numbers = pop_v_splat(0.0f);
                if (together > 1) numbers = pop_quads_read(from + at[k], words, together, whole, first, order);
#pragma GCC unroll 4
                for (int c = 0; c < 4; c++) {
                    const pop_v_f x_c = together > 1 ? pop_quads_repeat(numbers, c) : pop_quads_splat(from + at[k] + 4 * c);
                    sums[k][c] = pop_conv_add(pairs, x_c, deltas, sums[k][c]);
                }
            }
        }
    }
#pragma GCC unroll 3
    for (int i = 0; i < n; i++)
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            if (c < left)
                pop_v_store_f((float *)(void *)(to + b->to[p + i] + (word + c) * b->sums_word) + first, sums[i][c]);
}

POP_INLINE void pop_quads_blocks(const pop_conv_block *b, int together, int whole, int pairs)
{
    for (int64_t k = 0; k < b->blocks; k++) {
        const char *x = b->x + k * b->x_block, *w = b->w + k * b->w_block;
        char *to = b->sums + k * b->sums_block;
        for (int64_t word = 0; word < b->words; word += 4)
            for (int first = 0; first < POP_CONV_LANES; first += POP_LANES) {
                int64_t p = 0;
                for (; p + 3 <= b->positions; p += 3) pop_quads_sums(b, x, w, to, p, 3, word, together, whole, first, pairs);
                for (; p < b->positions; p++) pop_quads_sums(b, x, w, to, p, 1, word, together, whole, first, pairs);
            }
    }
}

static void pop_conv_quads(const pop_conv_block *b)
{
    if (b->together == 1) pop_quads_blocks(b, 1, 0, POP_CONV_PAIRS);
    else if (b->together == 2) pop_quads_blocks(b, 2, 0, POP_CONV_PAIRS);
    else if (b->words == 4) pop_quads_blocks(b, 4, 1, POP_CONV_PAIRS);
    else pop_quads_blocks(b, 4, 0, POP_CONV_PAIRS);
}
#endif
