/* Convolution with few channels in a group: sums of 16 lanes over kernel elements and input channels.
 *
 * Lanes are output channels of neighbouring groups: `together` groups J of 16 / J channels, the group running fastest.
 * A step reads one number of each of the J groups, repeats them over the lanes, and multiplies by 16 weights:
 *     sums[p][lane] = fma(x[at[p] + step][lane mod J], w[step][lane], sums[p][lane])
 * Depthwise, J = 16 and nothing is repeated; from 16 output channels on, J = 1 and it is a broadcast. The same body makes
 * weight gradients: positions are then kernel elements and input channels, steps positions of the images, w the deltas.
 * Up to 14 positions are done at once, their sums in registers: with the weights and one number of x that is what 16
 * registers hold, and it hides the latency of the sums. A chain runs over all steps in order, one fused multiply-add each,
 * whatever the width of vectors: all levels give the same bits. Where the CPU multiplies BF16 the same body sums pairs: a
 * number of x and a weight are words of two input channels. */
#ifndef POP_CONV_H
#define POP_CONV_H
#include <stdint.h>
#include <string.h>

#include "formats/codec.h"
#include "formats/codec_bytes.h"
#include "simd/simd.h"
#if POP_LEVEL >= POP_LEVEL_AVX2
#include <immintrin.h>
#endif

#define POP_RECORDS "records/epilogue.def"
#include "records/structs.h"
#define POP_RECORDS "records/multiplier.def"
#include "records/structs.h"
#define POP_RECORDS "records/conv.def"
#include "records/structs.h"
#include "kernels/conv/slide.h"
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
#include "kernels/conv/slide_line.h"
#include "kernels/conv/slide_pairs.h"
#include "kernels/conv/slide_words.h"
#endif
#include "kernels/conv/winograd.h"

#define POP_CONV_LANES 16

/* Lanes from `first` on of the J numbers at p, repeated. */
POP_INLINE pop_v_f pop_conv_repeat(const char *p, int together, int first)
{
    if (together >= POP_LANES) return pop_v_load_f((const float *)(const void *)p + first % together);
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16 /* as integers: on Zen 4 products of BF16 wait for broadcasts of floats */
    if (together == 8) return (pop_v_f)_mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)p));
    if (together == 4) return (pop_v_f)_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)p));
    if (together == 1) {
        int32_t word;
        memcpy(&word, p, sizeof word);
        return (pop_v_f)_mm512_set1_epi32(word);
    }
    int64_t words;
    memcpy(&words, p, sizeof words);
    return (pop_v_f)_mm512_set1_epi64(words);
#else
#if POP_LEVEL >= POP_LEVEL_AVX512
    if (together == 8) return (pop_v_f)_mm512_broadcast_f32x8(_mm256_loadu_ps((const float *)(const void *)p));
    if (together == 4) return (pop_v_f)_mm512_broadcast_f32x4(_mm_loadu_ps((const float *)(const void *)p));
#elif POP_LEVEL >= POP_LEVEL_AVX2
    if (together == 4) return (pop_v_f)_mm256_broadcast_ps((const __m128 *)(const void *)p);
#endif
    if (together == 2) {
        double pair;
        memcpy(&pair, p, sizeof pair);
        return (pop_v_f)pop_h_splat(pair);
    }
    float x;
    memcpy(&x, p, sizeof x);
    return pop_v_splat(x);
#endif
}

/* A block's sums in their order, where a vector holds them all. */
POP_INLINE pop_v_f pop_conv_in_order(const int32_t *order, pop_v_f sums)
{
#if POP_LEVEL >= POP_LEVEL_AVX512
    if (order) return (pop_v_f)_mm512_permutexvar_ps(_mm512_loadu_si512(order), (__m512)sums);
#else
    (void)order;
#endif
    return sums;
}

/* A sum and a product, or those of two BF16 numbers in each word. */
POP_INLINE pop_v_f pop_conv_add(int pairs, pop_v_f x, pop_v_f w, pop_v_f sum)
{
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    if (pairs) return (pop_v_f)_mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)w);
#endif
    return pop_v_fma(x, w, sum);
}

enum { POP_CONV_PAIRS = POP_LEVEL >= POP_LEVEL_AVX512_BF16 };
#include "kernels/conv/dots.h"
#include "kernels/conv/quads.h"
#include "kernels/conv/several.h"
#include "kernels/conv/slide_taps.h"

/* One step: `others` are places read anew each time, which GCC would else keep in vector registers. */
#define POP_CONV_STEP                                                                                                   \
    {                                                                                                                   \
        const pop_v_f weights = pop_v_load_f((const float *)(const void *)by + first);                                  \
        _Pragma("GCC unroll 14") for (int p = 0; p < positions; p++)                                                    \
            sums[p] = pop_conv_add(pairs, pop_conv_repeat(from + (p < 7 ? at[p % 7] : others[p]), together, first),     \
                                   weights, sums[p]);                                                                   \
    }

POP_INLINE void pop_conv_sums(const pop_conv_block *b, const char *x, const char *w, char *to, int together, int first,
                              int positions, int pairs)
{
    pop_v_f sums[14];
    int64_t at[7];
    const volatile int64_t *others = b->at;
    const int64_t *x_at = b->x_at, *w_at = b->w_at, *end = x_at + b->runs;
    const int64_t steps = b->steps, x_step = b->x_step, w_step = b->w_step;
#pragma GCC unroll 14
    for (int p = 0; p < positions; p++) {
        if (p < 7) at[p] = b->at[p];
        sums[p] = b->accumulate ? pop_v_load_f((const float *)(const void *)(to + b->to[p]) + first) : pop_v_splat(0.0f);
    }
    if (steps == 1) {
        const char *from = x;
        for (; x_at < end; x_at++, w_at++) {
            const char *by = w + *w_at;
            from = x + *x_at;
            POP_CONV_STEP
        }
        if (b->ahead && first == 0)
            for (int p = 0; p < positions; p++) pop_prefetch_l2(pop_beyond(from, b->at[p] + b->x_ahead));
    } else if (!POP_ONE_BODY && b->ahead && first == 0) {
        const int64_t x_ahead = b->x_ahead, w_ahead = b->w_ahead;
        for (; x_at < end; x_at++, w_at++) {
            const char *from = x + *x_at, *by = w + *w_at;
            for (int64_t i = 0; i < steps; i++, from += x_step, by += w_step) {
                pop_prefetch_l2(pop_beyond(from, x_ahead));
                pop_prefetch_l2(pop_beyond(by, w_ahead));
                POP_CONV_STEP
            }
        }
    } else {
        for (; x_at < end; x_at++, w_at++) {
            const char *from = x + *x_at, *by = w + *w_at;
            for (int64_t i = 0; i < steps; i++, from += x_step, by += w_step) POP_CONV_STEP
        }
    }
    const int32_t *order = together == 1 || together == POP_CONV_LANES ? NULL : b->order;
    if (b->sums_ahead && first == 0)
        for (int p = 0; p < positions; p++) pop_prefetch_to_write(pop_beyond(to, b->to[p] + b->sums_ahead));
#pragma GCC unroll 14
    for (int p = 0; p < positions; p++)
        pop_v_store_f((float *)(void *)(to + b->to[p]) + first, pop_conv_in_order(order, sums[p]));
}

/* n numbers, in whole vectors, each from among the 32 at `from`; 16 numbers are from among as many. */
POP_INLINE void pop_conv_ordered(const int32_t *order, int64_t n, const float *from, float *to)
{
    for (int64_t i = 0; i < n; i += POP_LANES) {
        const pop_v_u which = (pop_v_u)pop_v_load(order + i, 4);
        pop_v_store_f(to + i, n == 16 ? pop_v_lookup16(from, which) : pop_v_lookup(from, which));
    }
}

/* All blocks of `positions`, or of the block's where no body is for a number of them; then their order. */
POP_INLINE void pop_conv_blocks(const pop_conv_block *b, int together, int positions, int pairs)
{
    for (int64_t k = 0; k < b->blocks; k++) {
        const char *x = b->x + k * b->x_block, *w = b->w + k * b->w_block;
        char *to = b->sums + k * b->sums_block;
        if (POP_SEVERAL_HALVES && together < POP_CONV_LANES) pop_several_positions(b, x, w, to, together, 2, pairs);
        else
            for (int first = 0; first < POP_CONV_LANES; first += POP_LANES)
                pop_conv_sums(b, x, w, to, together, first, positions, pairs);
        if (POP_LANES == POP_CONV_LANES || together == 1 || together == POP_CONV_LANES || !b->order) continue;
        for (int p = 0; p < b->positions; p++) {
            float *lanes = (float *)(void *)(to + b->to[p]);
            pop_v_f ordered[POP_CONV_LANES / POP_LANES];
            for (int i = 0; i < POP_CONV_LANES / POP_LANES; i++)
                ordered[i] = pop_v_lookup16(lanes, (pop_v_u)pop_v_load(b->order + POP_LANES * i, 4));
            for (int i = 0; i < POP_CONV_LANES / POP_LANES; i++) pop_v_store_f(lanes + POP_LANES * i, ordered[i]);
        }
    }
}

#if !POP_ONE_BODY
#define POP_CONV_CASE(together, positions) \
    case positions: pop_conv_blocks(b, together, positions, POP_CONV_PAIRS); break;
#define POP_CONV_TOGETHER(together)                                                                        \
    static __attribute__((noinline)) void pop_conv_together_##together(const pop_conv_block *b)            \
    {                                                                                                      \
        switch (b->positions) {                                                                            \
            POP_CONV_CASE(together, 1) POP_CONV_CASE(together, 2) POP_CONV_CASE(together, 3)               \
            POP_CONV_CASE(together, 4) POP_CONV_CASE(together, 5) POP_CONV_CASE(together, 6)               \
            POP_CONV_CASE(together, 7) POP_CONV_CASE(together, 8) POP_CONV_CASE(together, 9)               \
            POP_CONV_CASE(together, 10) POP_CONV_CASE(together, 11) POP_CONV_CASE(together, 12)            \
            POP_CONV_CASE(together, 13) POP_CONV_CASE(together, 14)                                        \
        }                                                                                                  \
    }
#else
#define POP_CONV_TOGETHER(together)                                                             \
    static void pop_conv_together_##together(const pop_conv_block *given)                       \
    {                                                                                           \
        pop_conv_block b = *given;                                                              \
        for (b.positions = 1; b.at < given->at + given->positions; b.at++, b.to++)              \
            pop_conv_blocks(&b, together, 1, POP_CONV_PAIRS);                                   \
    }
#endif
#if POP_LEVEL == POP_LEVEL_AVX2 /* both halves of the lanes, of few positions */
#define POP_CONV_SHARED(together)                                                               \
    static __attribute__((noinline)) void pop_conv_together_##together(const pop_conv_block *b) \
    {                                                                                           \
        pop_conv_blocks(b, together, 0, POP_CONV_PAIRS);                                        \
    }
#else
#define POP_CONV_SHARED POP_CONV_TOGETHER
#endif
POP_CONV_SHARED(1)
POP_CONV_SHARED(2)
POP_CONV_SHARED(4)
POP_CONV_SHARED(8)
POP_CONV_TOGETHER(16)

/* One group in all lanes: of all vectors of each block, those that there are bodies for at once. */
static void pop_conv_of_one(const pop_conv_block *given)
{
    if (given->vectors == 1) { /* without a copy, which takes as long as a few products */
        pop_conv_together_1(given);
        return;
    }
    pop_conv_block b = *given;
    b.blocks = 1;
    for (int64_t k = 0; k < given->blocks; k++) {
        b.x = given->x + k * given->x_block, b.w = given->w + k * given->w_block, b.sums = given->sums + k * given->sums_block;
        int64_t v = POP_LANES == POP_CONV_LANES ? pop_conv_several(&b) : 0;
        for (b.w += v * b.w_vector, b.sums += v * b.sums_vector; v < b.vectors; v++, b.w += b.w_vector, b.sums += b.sums_vector)
            pop_conv_together_1(&b);
    }
}

static void pop_conv_convolve(const pop_conv_block *b)
{
    switch (b->together) {
        case 1: pop_conv_of_one(b); break;
        case 2: pop_conv_together_2(b); break;
        case 4: pop_conv_together_4(b); break;
        case 8: pop_conv_together_8(b); break;
        default: pop_conv_together_16(b);
    }
}

static void pop_conv_reorder(const int32_t *order, int64_t n, const float *from, float *to)
{
    pop_conv_ordered(order, n, from, to);
}

/* n sums from number `col` on, with a bias and relu. */
POP_INLINE pop_v_f pop_conv_biased(const pop_epilogue *e, const float *sums, int64_t col, int n)
{
    pop_v_f v = pop_v_decode_part(&POP_F32, sums + col, n);
    if (e->bias) v = v + pop_v_decode_part(&POP_F32, e->bias + col, n);
    return e->activation == POP_ACTIVATION_RELU ? pop_v_select_f(pop_v_lt_f(v, pop_v_splat(0.0f)), v, pop_v_splat(0.0f)) : v;
}

enum { POP_CONV_AHEAD = 1024 }; /* bytes to the results that are prefetched */

#if POP_LEVEL >= POP_LEVEL_AVX2
POP_INLINE pop_v_f pop_conv_fours(const float *sums, int64_t sums_row) /* four numbers of each row that a vector has room for */
{
#if POP_LANES == 8
    return (pop_v_f)_mm256_set_m128(_mm_loadu_ps(sums + sums_row), _mm_loadu_ps(sums));
#else
    const __m512 v = _mm512_insertf32x4(_mm512_castps128_ps512(_mm_loadu_ps(sums)), _mm_loadu_ps(sums + sums_row), 1);
    return (pop_v_f)_mm512_insertf32x4(_mm512_insertf32x4(v, _mm_loadu_ps(sums + 2 * sums_row), 2), _mm_loadu_ps(sums + 3 * sums_row), 3);
#endif
}
/* Rows of two to four results each, of which none has a bias: some rows are rounded in one vector. Returns how many were. */
POP_INLINE int64_t pop_conv_finish_fours(const pop_format *f, const pop_epilogue *e, const float *sums, int64_t sums_row,
                                         int64_t rows, int64_t cols)
{
    enum { SOME = POP_LANES / 4 };
    const int64_t size = pop_bytes(f), last = (cols - 2) * size;
    int64_t row = 0;
    for (; row + SOME <= rows; row += SOME, sums += SOME * sums_row) {
        char codes[4 * POP_LANES], *out = e->out + row * e->out_row;
        pop_v_encode(f, (int)e->overflow, codes, pop_conv_fours(sums, sums_row));
        for (int r = 0; r < SOME; r++, out += e->out_row) { /* the first two and the last two */
            memcpy(out, codes + 4 * r * size, (size_t)(2 * size));
            memcpy(out + last, codes + 4 * r * size + last, (size_t)(2 * size));
        }
    }
    return row;
}
#endif

/* The epilogue of sums that stay as they are, save for a bias and relu, to results that lie side by side: the bits of
 * kernels/epilogue.h, in one walk over registers. */
POP_INLINE void pop_conv_finish(const pop_format *f, const pop_epilogue *e, const float *sums, int64_t sums_row, int64_t rows,
                                int64_t cols)
{
    if (!e->bias && sums_row == cols && e->out_row == cols * pop_bytes(f)) cols *= rows, rows = 1; /* side by side */
    int64_t row = 0;
#if POP_LEVEL >= POP_LEVEL_AVX2
    const int64_t ahead = cols < POP_CONV_AHEAD ? 8 * e->out_row : POP_CONV_AHEAD;
    if (pop_bytes(f) == 1 && cols >= 16 && !e->bias && e->activation != POP_ACTIVATION_RELU) {
        pop_encode_rows_of_bytes(f, (int)e->overflow, e->out, e->out_row, sums, sums_row, rows, cols, ahead);
        return;
    }
    if (cols >= 2 && cols <= 4 && sums_row >= 4 && !e->bias && e->activation != POP_ACTIVATION_RELU) {
        row = pop_conv_finish_fours(f, e, sums, sums_row, rows, cols);
        sums += row * sums_row;
    }
#endif
    for (int64_t n; row < rows; row++, sums += sums_row)
        for (int64_t col = 0; col < cols; col += n) {
            char *out = e->out + row * e->out_row + col * e->out_col;
#if POP_LEVEL >= POP_LEVEL_AVX2
            if (pop_bytes(f) == 1 && cols - col >= 16) {
                float some[64];
                n = cols - col < 64 ? (cols - col) & -16 : 64;
                for (int i = 0; i < n; i += POP_LANES) pop_v_store_f(some + i, pop_conv_biased(e, sums, col + i, POP_LANES));
                pop_encode_rows_of_bytes(f, (int)e->overflow, out, 0, some, 0, 1, n, ahead);
                continue;
            }
#endif
            n = cols - col < POP_LANES ? cols - col : POP_LANES;
            const pop_v_f v = pop_conv_biased(e, sums, col, (int)n);
            if (n == POP_LANES) pop_v_encode(f, (int)e->overflow, out, v);
            else pop_v_encode_part(f, (int)e->overflow, out, v, (int)n);
        }
}

#define POP_CONV_FINISH_1(function, layout)                                                                              \
    static void pop_conv_finish_##function(const pop_epilogue *e, const float *sums, int64_t sums_row, int64_t rows,     \
                                           int64_t cols)                                                                 \
    {                                                                                                                    \
        pop_format f = layout;                                                                                           \
        if (pop_bytes(&layout) == 1) f.bias = e->format->bias;                                                           \
        pop_conv_finish(&f, e, sums, sums_row, rows, cols);                                                              \
    }
#define POP_CONV_FINISH_ROW_1(function, format)                                                              \
    {"finish", "float32->" format, "finish_" #function, POP_FUNCTION(pop_conv_finish_##function), {1, 1, 1}, \
     {1, POP_LANES, 1}, POP_CONSISTENT},
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16 /* results of a byte alone are encoded otherwise there */
#define POP_CONV_FINISH_2(function, layout)
#define POP_CONV_FINISH_ROW_2(function, format)
#else
#define POP_CONV_FINISH_2 POP_CONV_FINISH_1
#define POP_CONV_FINISH_ROW_2 POP_CONV_FINISH_ROW_1
#endif
#define POP_CONV_FINISH_4 POP_CONV_FINISH_2
#define POP_CONV_FINISH_ROW_4 POP_CONV_FINISH_ROW_2
#define POP_CONV_FINISH(bytes, constant, function, ...) POP_CONV_FINISH_##bytes(function, POP_##constant)
#define POP_CONV_FINISH_ROW(bytes, constant, function, format, ...) POP_CONV_FINISH_ROW_##bytes(function, format)
POP_FORMATS(POP_CONV_FINISH)

static const pop_kernel POP_CONV_KERNELS[] = {
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16 /* all else is a level below */
    POP_FORMATS(POP_CONV_FINISH_ROW)
    POP_SLIDE_PAIRS_KERNELS
    POP_SLIDE_LINE_KERNELS
    POP_SLIDE_WORDS_KERNELS
    POP_SLIDE_TAPS_KERNELS
    {"convolve", "bfloat16", "convolve_pairs", POP_FUNCTION(pop_conv_convolve), {1, 16, 2}, {14, 16, 2}, 0},
    {"quads", "bfloat16", "quads_pairs", POP_FUNCTION(pop_conv_quads), {1, 16, 2}, {12, 16, 2}, 0},
    {"dots", "bfloat16", "dots_pairs", POP_FUNCTION(pop_conv_dots), {1, 1, 32}, {8, POP_DOTS_CHANNELS, 32}, 0},
#else
    POP_FORMATS(POP_CONV_FINISH_ROW)
    POP_WINOGRAD_ROWS(2) POP_WINOGRAD_ROWS(4)
    POP_SLIDE_KERNELS
    POP_SLIDE_TAPS_KERNELS
    {"convolve", "float32", "convolve", POP_FUNCTION(pop_conv_convolve), {1, 16, 1}, {14, 16, 1}, POP_CONSISTENT},
    {"quads", "float32", "quads", POP_FUNCTION(pop_conv_quads), {1, 16, 1}, {12, 16, 1}, POP_CONSISTENT},
    {"dots", "float32", "dots", POP_FUNCTION(pop_conv_dots), {1, 1, 16}, {8, POP_DOTS_CHANNELS, 16}, POP_CONSISTENT},
    {"reorder", "float32", "reorder", POP_FUNCTION(pop_conv_reorder), {1, 16, 1}, {1, 16, 1}, POP_CONSISTENT},
#endif
};
#endif
