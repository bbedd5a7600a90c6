/* Sums of several vectors at once, of up to six positions: two or four vectors of output channels of one group, or, where a
 * vector holds eight numbers, both halves of 16 lanes.
 *
 * The number of x that a position reads is repeated once for all of them: 10 loads for 24 products, or 8 for 12, where 14
 * positions of one vector take 15 for 14 and find no registers for their places. Chains are those of conv.h: all levels give
 * the same bits. */
#ifndef POP_CONV_SEVERAL_H
#define POP_CONV_SEVERAL_H
#include "simd/simd.h"

enum { POP_SEVERAL_POSITIONS = 6, POP_SEVERAL_HALVES = POP_LANES == 8 };

/* Bytes from a vector's weights, or sums, to the next's. */
#define POP_SEVERAL_NEXT(b, of) (POP_SEVERAL_HALVES ? 32 : (b)->of##_vector)

/* All runs, for positions that read at `places`. */
POP_INLINE void pop_several_runs(const pop_conv_block *b, const char *x, const char *w, const int64_t *places, int together,
                                 int positions, int vectors, int pairs, pop_v_f sums[POP_SEVERAL_POSITIONS][4])
{
    int64_t at[POP_SEVERAL_POSITIONS];
    const int64_t steps = b->steps, x_step = b->x_step, w_step = b->w_step, ahead = b->ahead && steps > 1;
    const int64_t next = POP_SEVERAL_NEXT(b, w);
#pragma GCC unroll 6
    for (int p = 0; p < positions; p++) at[p] = places[p];
    for (int64_t run = 0; run < b->runs; run++) {
        const char *from = x + b->x_at[run], *by = w + b->w_at[run];
        for (int64_t i = 0; i < steps; i++, from += x_step, by += w_step) {
            pop_v_f weights[4];
            if (ahead) pop_prefetch_l2(pop_beyond(from, b->x_ahead));
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                weights[v] = pop_v_load_f((const float *)(const void *)(by + v * next));
                if (ahead) pop_prefetch_l2(pop_beyond(by + v * next, b->w_ahead));
            }
#pragma GCC unroll 6
            for (int p = 0; p < positions; p++) {
                const pop_v_f number = pop_conv_repeat(from + at[p], together, 0);
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++) sums[p][v] = pop_conv_add(pairs, number, weights[v], sums[p][v]);
            }
        }
    }
    if (b->ahead && steps == 1 && b->runs)
        for (int p = 0; p < positions; p++) pop_prefetch_l2(pop_beyond(x + b->x_at[b->runs - 1], places[p] + b->x_ahead));
}

/* Positions from number `first` on. */
POP_INLINE void pop_several(const pop_conv_block *b, const char *x, const char *w, char *to, int64_t first, int together,
                            int positions, int vectors, int pairs)
{
    pop_v_f sums[POP_SEVERAL_POSITIONS][4];
    const int64_t *results = b->to + first, next = POP_SEVERAL_NEXT(b, sums);
#pragma GCC unroll 6
    for (int p = 0; p < positions; p++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const char *sum = to + results[p] + v * next;
            sums[p][v] = b->accumulate ? pop_v_load_f((const float *)(const void *)sum) : pop_v_splat(0.0f);
        }
    pop_several_runs(b, x, w, b->at + first, together, positions, vectors, pairs, sums);
#pragma GCC unroll 6
    for (int p = 0; p < positions; p++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            char *sum = to + results[p] + v * next;
            pop_v_store_f((float *)(void *)sum, sums[p][v]);
        }
    if (!b->sums_ahead) return;
#pragma GCC unroll 6
    for (int p = 0; p < positions; p++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            if (v * next % 64 == 0) pop_prefetch_to_write(pop_beyond(to, results[p] + v * next + b->sums_ahead));
}

/* All positions, in parts as equal as may be: of a call's 14 at most, by constants, since a division takes as long as many products. */
POP_INLINE void pop_several_positions(const pop_conv_block *b, const char *x, const char *w, char *to, int together,
                                      int vectors, int pairs)
{
    enum { MOST = POP_SEVERAL_POSITIONS };
    for (int64_t first = 0, left = b->positions, some; left > 0; first += some, left -= some) {
        some = left <= MOST ? left : left <= 2 * MOST ? (left + 1) / 2 : left <= 3 * MOST ? (left + 2) / 3 : MOST;
        switch (some) {
            case 1: pop_several(b, x, w, to, first, together, 1, vectors, pairs); break;
            case 2: pop_several(b, x, w, to, first, together, 2, vectors, pairs); break;
            case 3: pop_several(b, x, w, to, first, together, 3, vectors, pairs); break;
            case 4: pop_several(b, x, w, to, first, together, 4, vectors, pairs); break;
            case 5: pop_several(b, x, w, to, first, together, 5, vectors, pairs); break;
            case 6: pop_several(b, x, w, to, first, together, 6, vectors, pairs);
        }
    }
}

/* Vectors of one block: those that are taken together; returns how many were. */
static int64_t pop_conv_several(const pop_conv_block *b)
{
    int64_t v = 0;
    for (; v + 4 <= b->vectors; v += 4)
        pop_several_positions(b, b->x, b->w + v * b->w_vector, b->sums + v * b->sums_vector, 1, 4, POP_CONV_PAIRS);
    if (v + 2 <= b->vectors) {
        pop_several_positions(b, b->x, b->w + v * b->w_vector, b->sums + v * b->sums_vector, 1, 2, POP_CONV_PAIRS);
        v += 2;
    }
    return v;
}
#endif
