/* How elementwise kernels of numbers go over their elements: a step takes n of them, POP_LANES or fewer, from the i-th on. */
#ifndef POP_ELEMENTWISE_LOOPS_H
#define POP_ELEMENTWISE_LOOPS_H
#include "formats/codec.h"
#include "kernels/elementwise/call.h"

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

/* Elements of an output before the first vector that does not cross a cache line. */
POP_INLINE int64_t pop_elementwise_head(int64_t bytes, const char *out, int64_t n)
{
    return n >= 16 * POP_LANES ? (int64_t)((0 - (uintptr_t)out) % (uintptr_t)(POP_LANES * bytes)) / bytes : 0;
}

/* Four vectors to an iteration, so that their latencies overlap; the first and the last vector may be partial ones. */
POP_INLINE void pop_elementwise_loop(void (*step)(const pop_places *, int64_t, int), pop_places p, int64_t bytes, int64_t n)
{
    for (int64_t i = 0, part = pop_elementwise_head(bytes, p.out, n);; i += part, part = 0) {
        if (part == 0) {
            for (; i + 4 * POP_LANES <= n; i += 4 * POP_LANES)
#pragma GCC unroll 4
                for (int64_t j = i; j < i + 4 * POP_LANES; j += POP_LANES) step(&p, j, POP_LANES);
            part = n - i < POP_LANES ? n - i : POP_LANES;
        }
        if (part == 0) return;
        step(&p, i, (int)part);
    }
}

/* A kernel of a step; `inputs` says which pointers there are. */
#define POP_STEP_KERNEL(name, out_bytes, inputs, ...)                                                               \
    POP_INLINE void pop_step_##name(const pop_places *p, int64_t i, int n) { __VA_ARGS__; }                         \
    static void pop_##name(const void *const *in, void *const *out, int64_t n)                                      \
    {                                                                                                               \
        const char *const *at = (const char *const *)in;                                                            \
        pop_elementwise_loop(pop_step_##name,                                                                       \
                             (pop_places){at[0], (inputs) > 1 ? at[1] : NULL, (inputs) > 2 ? at[2] : NULL, (char *)out[0]}, \
                             out_bytes, n);                                                                         \
    }
#endif
