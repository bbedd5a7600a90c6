/* How elementwise kernels of numbers go over their elements: a step takes n of them, POP_LANES or fewer, from the i-th on. */
#ifndef POP_ELEMENTWISE_LOOPS_H
#define POP_ELEMENTWISE_LOOPS_H
#include "formats/codec.h"
#include "kernels/elementwise/call.h"
#include "simd/curves.h"

typedef struct pop_places {
    const char *a, *b, *c;
    char *out;
} pop_places;

POP_INLINE pop_v_f pop_step_read(const pop_format *f, const char *in, int64_t i, int n)
{
    return pop_v_decode_part(f, in + i * pop_bytes(f), n);
}

POP_INLINE void pop_step_write(const pop_format *f, char *out, int64_t i, pop_v_f x, int n)
{
    pop_v_encode_part(f, POP_OVERFLOW_INFINITY, out + i * pop_bytes(f), x, n);
}

/* Truth values: a byte each, 0 or 1. */
POP_INLINE void pop_step_tell(char *out, int64_t i, pop_v_m truth, int n)
{
    const pop_v_i bytes = pop_v_keep(truth, pop_v_set(1));
    if (n == POP_LANES) pop_v_store(out + i, 1, bytes);
    else pop_v_store_some(out + i, 1, bytes, pop_v_first(n));
}

/* 2 POP_LANES numbers in two vectors: one after another, or of BF16 every other one, which then takes a shift or a mask to
 * decode, and to encode one more step than rounding. */
typedef struct pop_pair {
    pop_v_f even, odd;
} pop_pair;

POP_INLINE pop_pair pop_pair_read(const pop_format *f, const char *in, int64_t i)
{
    in += i * pop_bytes(f);
    if (!pop_is_short_f32(f) || pop_is_f32(f)) return (pop_pair){pop_v_decode(f, in), pop_v_decode(f, in + POP_LANES * pop_bytes(f))};
    const pop_v_i codes = pop_v_load(in, 4), top = pop_v_set((int32_t)0xffff0000);
    return (pop_pair){pop_v_float(pop_v_sll(codes, 16)), pop_v_float(codes & top)};
}

/* FP32's bits whose top halves are the BF16 codes; NaN is kept from rounding. */
POP_INLINE pop_v_i pop_bf16_rounded(pop_v_f x)
{
    const pop_v_i bits = pop_v_bits(x);
    return pop_v_add(pop_v_add(bits, pop_v_srl(bits, 16) & 1), pop_v_set(0x7fff));
}
POP_INLINE pop_v_i pop_bf16_unless_nan(pop_v_f x)
{
    return pop_v_select(pop_v_eq_f(x, x), pop_v_bits(x) | 0x400000, pop_bf16_rounded(x));
}

POP_INLINE void pop_pair_write(const pop_format *f, char *out, int64_t i, pop_v_f even, pop_v_f odd)
{
    out += i * pop_bytes(f);
    if (!pop_is_short_f32(f) || pop_is_f32(f)) {
        pop_v_encode(f, POP_OVERFLOW_INFINITY, out, even);
        pop_v_encode(f, POP_OVERFLOW_INFINITY, out + POP_LANES * pop_bytes(f), odd);
        return;
    }
    pop_v_i low = pop_bf16_rounded(even), high = pop_bf16_rounded(odd);
    const pop_v_m numbers = (pop_v_m)(pop_v_eq_f(even, even) & pop_v_eq_f(odd, odd));
    if (__builtin_expect(pop_v_any((pop_v_m)~numbers), 0)) low = pop_bf16_unless_nan(even), high = pop_bf16_unless_nan(odd);
    pop_v_store(out, 4, pop_v_srl(low, 16) | (high & pop_v_set((int32_t)0xffff0000)));
}

/* Elements of an output before the first that begins a vector of bytes. */
POP_INLINE int64_t pop_elementwise_head(int64_t bytes, const char *out, int64_t n)
{
    return n >= 16 * POP_LANES ? (int64_t)((0 - (uintptr_t)out) % POP_VECTOR_BYTES) / bytes : 0;
}

/* A function of the numbers of so many vectors, in place. */
typedef void (*pop_function_of_many)(pop_v_f *, int);

/* Four vectors by one, as many at once as it takes. */
POP_INLINE void pop_four_numbers(const pop_format *f, const pop_places *p, int64_t i, pop_function_of_many function)
{
    const pop_pair low = pop_pair_read(f, p->a, i), high = pop_pair_read(f, p->a, i + 2 * POP_LANES);
    pop_v_f x[4] = {low.even, low.odd, high.even, high.odd};
#pragma GCC unroll 4
    for (int k = 0; k < 4; k += POP_CURVES_AT_ONCE) function(x + k, POP_CURVES_AT_ONCE);
    pop_pair_write(f, p->out, i, x[0], x[1]);
    pop_pair_write(f, p->out, i + 2 * POP_LANES, x[2], x[3]);
}

/* Four vectors to an iteration, so that their latencies overlap; what is before and behind them one by one. */
POP_INLINE void pop_elementwise_loop(void (*step)(const pop_places *, int64_t, int), void (*four)(const pop_places *, int64_t),
                                     pop_places p, int64_t bytes, int64_t n)
{
    for (int64_t i = 0, end = pop_elementwise_head(bytes, p.out, n);; end = n) {
        for (int part; i < end; i += part) {
            part = end - i < POP_LANES ? (int)(end - i) : POP_LANES;
            step(&p, i, part);
        }
        if (i == n) return;
#if POP_ONE_BODY
        for (; i + POP_LANES <= n; i += POP_LANES) step(&p, i, POP_LANES);
#else
        for (; i + 4 * POP_LANES <= n; i += 4 * POP_LANES) four(&p, i);
#endif
    }
}

/* A kernel of a step of up to POP_LANES elements, and of one of four vectors; `inputs` says which pointers there are. */
#define POP_FOUR_KERNEL(name, out_bytes, inputs, step, four)                                                        \
    POP_INLINE void pop_step_##name(const pop_places *p, int64_t i, int n) { step; }                                \
    POP_INLINE void pop_four_##name(const pop_places *p, int64_t i) { four; }                                       \
    static void pop_##name(const void *const *in, void *const *out, int64_t n)                                      \
    {                                                                                                               \
        const char *const *at = (const char *const *)in;                                                            \
        pop_elementwise_loop(pop_step_##name, pop_four_##name,                                                      \
                             (pop_places){at[0], (inputs) > 1 ? at[1] : NULL, (inputs) > 2 ? at[2] : NULL, (char *)out[0]}, \
                             out_bytes, n);                                                                         \
    }

/* One of a step, and of one of two vectors. */
#define POP_STEP_KERNEL(name, out_bytes, inputs, step, pair)                                                        \
    POP_INLINE void pop_pair_##name(const pop_places *p, int64_t i) { pair; }                                       \
    POP_FOUR_KERNEL(name, out_bytes, inputs, step, pop_pair_##name(p, i); pop_pair_##name(p, i + 2 * POP_LANES))
#endif
