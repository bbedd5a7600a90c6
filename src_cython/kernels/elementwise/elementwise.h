/* The elementwise family: operations on n elements that lie one after another.
 *
 * A body is written once, over the vocabulary of vectors, and computed in FP32. Each unary operation is compiled for FP32, and
 * for FP16 and BF16 as they lie: decoded and encoded in registers, rounded once to nearest even, too large numbers to
 * infinity. Other formats and roundings the strided driver decodes before and encodes after. All levels give the same
 * bits. Functions that are no operation have an FP32 kernel only. */
#ifndef POP_ELEMENTWISE_H
#define POP_ELEMENTWISE_H
#include "formats/codec.h"
#include "kernels/elementwise/call.h"
#include "kernels/elementwise/unary.h"

/* Elements of an output before the first vector that does not cross a cache line. */
POP_INLINE int64_t pop_elementwise_head(const pop_format *f, const char *out, int64_t n)
{
    const uintptr_t bytes = (uintptr_t)pop_bytes(f);
    return n >= 16 * POP_LANES ? (int64_t)((0 - (uintptr_t)out) % (POP_LANES * bytes) / bytes) : 0;
}

POP_INLINE void pop_elementwise_one(pop_v_f (*body)(pop_v_f), const pop_format *f, const char *in, char *out, int n)
{
    pop_v_encode_part(f, POP_OVERFLOW_INFINITY, out, body(pop_v_decode_part(f, in, n)), n);
}

/* Four vectors to an iteration, so that their latencies overlap; the first and the last vector may be partial ones. */
POP_INLINE void pop_elementwise_map(pop_v_f (*body)(pop_v_f), const pop_format *f, const char *in, char *out, int64_t n)
{
    const int64_t bytes = pop_bytes(f);
    for (int64_t i = 0, part = pop_elementwise_head(f, out, n);; i += part, part = 0) {
        if (part == 0) {
            for (; i + 4 * POP_LANES <= n; i += 4 * POP_LANES)
#pragma GCC unroll 4
                for (int64_t j = i; j < i + 4 * POP_LANES; j += POP_LANES)
                    pop_elementwise_one(body, f, in + j * bytes, out + j * bytes, POP_LANES);
            part = n - i < POP_LANES ? n - i : POP_LANES;
        }
        if (part == 0) return;
        pop_elementwise_one(body, f, in + i * bytes, out + i * bytes, (int)part);
    }
}

#define POP_UNARY_KERNEL(op, suffix, format)                                                                        \
    static void pop_##op##_##suffix(const void *const *in, void *const *out, int64_t n)                             \
    {                                                                                                               \
        pop_elementwise_map(pop_body_##op, &format, (const char *)in[0], (char *)out[0], n);                        \
    }
#define POP_FUNCTION_KERNEL(op, body)                                                                               \
    POP_INLINE pop_v_f pop_body_##op(pop_v_f x) { return body; }                                                    \
    POP_UNARY_KERNEL(op, f32, POP_F32)
#define POP_UNARY_KERNELS(op, body)                                                                                 \
    POP_FUNCTION_KERNEL(op, body)                                                                                   \
    POP_UNARY_KERNEL(op, f16, POP_F16)                                                                              \
    POP_UNARY_KERNEL(op, bf16, POP_BF16)
POP_ELEMENTWISE_UNARY(POP_UNARY_KERNELS)
POP_ELEMENTWISE_FUNCTIONS(POP_FUNCTION_KERNEL)

#define POP_UNARY_ROW(op, suffix, format)                                                                           \
    {#op, format "->" format, #op "_" #suffix, POP_FUNCTION(pop_##op##_##suffix), {1, 1, 1}, {4 * POP_LANES, 1, 1}, \
     POP_CONSISTENT},
#define POP_FUNCTION_ROW(op, body) POP_UNARY_ROW(op, f32, "float32")
#define POP_UNARY_ROWS(op, body)                                                                                    \
    POP_UNARY_ROW(op, f32, "float32") POP_UNARY_ROW(op, f16, "float16") POP_UNARY_ROW(op, bf16, "bfloat16")

static const pop_kernel POP_ELEMENTWISE_KERNELS[] = {POP_ELEMENTWISE_UNARY(POP_UNARY_ROWS)
                                                     POP_ELEMENTWISE_FUNCTIONS(POP_FUNCTION_ROW)};

enum { POP_ELEMENTWISE_COUNT = sizeof POP_ELEMENTWISE_KERNELS / sizeof *POP_ELEMENTWISE_KERNELS };
#endif
