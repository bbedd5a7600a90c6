/* The elementwise family: operations on n elements that lie one after another.
 *
 * A body is written once, over the vocabulary of vectors, and computed in FP32. Each unary operation is compiled for FP32, and
 * for FP16 and BF16 as they lie: decoded and encoded in registers, rounded once to nearest even, too large numbers to
 * infinity. Other formats and roundings the strided driver decodes before and encodes after. All levels give the same
 * bits. */
#ifndef POP_ELEMENTWISE_H
#define POP_ELEMENTWISE_H
#include "kernels/elementwise/call.h"
#include "kernels/elementwise/unary.h"

/* Elements of an output before the first vector that does not cross a cache line. */
POP_INLINE int64_t pop_elementwise_head(const float *out, int64_t n)
{
    return n >= 16 * POP_LANES ? (int64_t)((0 - (uintptr_t)out) / 4 % POP_LANES) : 0;
}

POP_INLINE void pop_elementwise_one(pop_v_f (*body)(pop_v_f), const float *in, float *out, int n)
{
    pop_v_store_part(out, body(pop_v_load_part(in, n)), n);
}

/* Four vectors to an iteration, so that their latencies overlap; the first and the last vector may be partial ones. */
POP_INLINE void pop_elementwise_map(pop_v_f (*body)(pop_v_f), const float *in, float *out, int64_t n)
{
    for (int64_t i = 0, part = pop_elementwise_head(out, n);; i += part, part = 0) {
        if (part == 0) {
            for (; i + 4 * POP_LANES <= n; i += 4 * POP_LANES)
#pragma GCC unroll 4
                for (int64_t j = i; j < i + 4 * POP_LANES; j += POP_LANES)
                    pop_elementwise_one(body, in + j, out + j, POP_LANES);
            part = n - i < POP_LANES ? n - i : POP_LANES;
        }
        if (part == 0) return;
        pop_elementwise_one(body, in + i, out + i, (int)part);
    }
}

#define POP_UNARY_KERNEL(op, body)                                                                                  \
    POP_INLINE pop_v_f pop_body_##op(pop_v_f x) { return body; }                                                    \
    static void pop_##op##_f32(const void *const *in, void *const *out, int64_t n)                                  \
    {                                                                                                               \
        pop_elementwise_map(pop_body_##op, (const float *)in[0], (float *)out[0], n);                               \
    }
POP_ELEMENTWISE_UNARY(POP_UNARY_KERNEL)

#define POP_UNARY_ROW(op, body)                                                                                     \
    {#op, "float32->float32", #op "_f32", POP_FUNCTION(pop_##op##_f32), {1, 1, 1}, {4 * POP_LANES, 1, 1},           \
     POP_CONSISTENT},

static const pop_kernel POP_ELEMENTWISE_KERNELS[] = {POP_ELEMENTWISE_UNARY(POP_UNARY_ROW)};

enum { POP_ELEMENTWISE_COUNT = sizeof POP_ELEMENTWISE_KERNELS / sizeof *POP_ELEMENTWISE_KERNELS };
#endif
