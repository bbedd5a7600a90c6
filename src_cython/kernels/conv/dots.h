/* Convolution to few output channels from many input channels that lie side by side: lanes are input channels.
 *
 * A step reads 16 numbers of each position (32 where the CPU multiplies BF16, two at once), and as many weights of each
 * output channel: sums[channel][p][lane] = fma(x[at[p] + step][lane], w[step][channel][lane], sums[channel][p][lane]). A
 * lane's chain runs over all steps in order, one fused multiply-add each; then lanes 8, 4, 2 and 1 apart are added. All levels
 * give the same bits, but where pairs are multiplied.
 *
 * Weights of some runs meet a stretch of positions before the next ones do, so that they and what is read stay in the first cache. */
#ifndef POP_CONV_DOTS_H
#define POP_CONV_DOTS_H
#include "simd/simd.h"

enum {
    POP_DOTS_CHANNELS = 4,
    POP_DOTS_STRETCH = 32,       /* positions */
    POP_DOTS_WEIGHTS = 16 << 10, /* bytes of runs that take turns, or of one */
};

typedef float pop_dots_8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float pop_dots_4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t pop_dots_order __attribute__((vector_size(16)));

/* Four lanes of a sum. */
POP_INLINE pop_dots_4 pop_dots_fold(const float *lanes)
{
    float folded[8];
    const pop_dots_8 sum = *(const pop_dots_8 *)lanes + *(const pop_dots_8 *)(lanes + 8);
    memcpy(folded, &sum, sizeof folded);
    return *(const pop_dots_4 *)folded + *(const pop_dots_4 *)(folded + 4);
}

/* The sums of a position's channels, of 16 lanes each. */
POP_INLINE void pop_dots_reduce(int channels, const float lanes[POP_DOTS_CHANNELS][16], float *to)
{
    pop_dots_4 x[POP_DOTS_CHANNELS] = {{0}};
    for (int c = 0; c < channels; c++) x[c] = pop_dots_fold(lanes[c]);
    const pop_dots_order low = {0, 4, 1, 5}, high = {2, 6, 3, 7}, first = {0, 1, 4, 5}, second = {2, 3, 6, 7};
    const pop_dots_4 a = __builtin_shuffle(x[0], x[1], low) + __builtin_shuffle(x[0], x[1], high);
    const pop_dots_4 b = __builtin_shuffle(x[2], x[3], low) + __builtin_shuffle(x[2], x[3], high);
    *(pop_dots_4 *)to = __builtin_shuffle(a, b, first) + __builtin_shuffle(a, b, second);
}

/* POP_LANES lanes from number `first` on of `n` positions, of which the block may have fewer: products of the runs from `begin` to `end`,
 * added to those of the runs before. */
POP_INLINE void pop_dots_lanes(const pop_conv_block *b, int64_t begin, int64_t end, int64_t position, int first, int channels, int n,
                               int pairs, float (*lanes)[POP_DOTS_CHANNELS][16])
{
    pop_v_f sums[8][POP_DOTS_CHANNELS];
    int64_t at[8];
    const char *x = b->x + 4 * first, *w = b->w + 4 * first;
    const int64_t steps = b->steps, last = b->positions - 1;
#pragma GCC unroll 8
    for (int p = 0; p < n; p++) {
        at[p] = b->at[position + p < last ? position + p : last];
#pragma GCC unroll 4
        for (int c = 0; c < channels; c++) sums[p][c] = begin ? pop_v_load_f(lanes[p][c] + first) : pop_v_splat(0.0f);
    }
    for (int64_t run = begin; run < end; run++) {
        const char *from = x + b->x_at[run], *by = w + b->w_at[run];
        for (int64_t i = 0; i < steps; i++, from += 64, by += 64 * channels) {
            pop_v_f weights[POP_DOTS_CHANNELS];
#pragma GCC unroll 4
            for (int c = 0; c < channels; c++) weights[c] = pop_v_load_f((const float *)(const void *)(by + 64 * c));
#pragma GCC unroll 8
            for (int p = 0; p < n; p++) {
                pop_v_f number = pop_v_load_f((const float *)(const void *)(from + at[p]));
#if POP_LEVEL >= POP_LEVEL_AVX512 /* GCC would read it anew for each sum: a core takes one vector of 64 bytes a cycle */
                POP_IN_REGISTER(number);
#endif
#pragma GCC unroll 4
                for (int c = 0; c < channels; c++) sums[p][c] = pop_conv_add(pairs, number, weights[c], sums[p][c]);
            }
        }
    }
#pragma GCC unroll 8
    for (int p = 0; p < n; p++)
#pragma GCC unroll 4
        for (int c = 0; c < channels; c++) pop_v_store_f(lanes[p][c] + first, sums[p][c]);
}

POP_INLINE void pop_dots_blocks(const pop_conv_block *given, int channels, int n, int pairs)
{
    float lanes[POP_DOTS_STRETCH][POP_DOTS_CHANNELS][16];
    pop_conv_block b = *given;
    const int64_t turns = 1 + b.runs * b.steps * channels * 64 / POP_DOTS_WEIGHTS, some = (b.runs + turns - 1) / turns;
    for (int64_t k = 0; k < b.blocks; k++, b.x += b.x_block, b.w += b.w_block, b.sums += b.sums_block)
        for (int64_t from = 0, to; from < b.positions; from = to) {
            to = b.positions - from < POP_DOTS_STRETCH ? b.positions : from + POP_DOTS_STRETCH;
            int64_t begin = 0, end;
            do {
                end = b.runs - begin < some ? b.runs : begin + some;
                for (int64_t position = from; position < to; position += n)
                    for (int first = 0; first < 16; first += POP_LANES)
                        pop_dots_lanes(&b, begin, end, position, first, channels, n, pairs, lanes + (position - from));
            } while ((begin = end) < b.runs);
            for (int64_t p = from; p < to; p++)
                pop_dots_reduce(channels, (const float(*)[16])lanes[p - from], (float *)(void *)(b.sums + b.to[p]));
        }
}

/* As many positions at once as there are registers for. */
static void pop_conv_dots(const pop_conv_block *b)
{
    enum { MANY = POP_LANES == 16 ? 8 : 4, FEWER = MANY / 2 };
    switch (b->channels) {
        case 1: pop_dots_blocks(b, 1, MANY, POP_CONV_PAIRS); break;
        case 2: pop_dots_blocks(b, 2, MANY, POP_CONV_PAIRS); break;
        case 3: pop_dots_blocks(b, 3, MANY, POP_CONV_PAIRS); break;
        default: pop_dots_blocks(b, 4, FEWER, POP_CONV_PAIRS);
    }
}
#endif
