/* Encoders: FP32 to codes, one loop for each rounding, and one for all from POP_UP on. Vectors of POP_LANES, four to an
 * iteration, then a partial one. Measured on one Zen 5 core, 64 Ki numbers in cache, in 10^9 a second: nearest even to FP16 29 (the CPU's conversion),
 * BF16 15, FP8 9 to 12; stochastic 4, random words included. */
#include "kernels/cast/cast.h"

/* `how`: the random bits of POP_STOCHASTIC, and the rounding itself where `rounding` is POP_UP. */
POP_INLINE void pop_encode_part_run(const pop_format *f, int rounding, int overflow, int how,
                                    const float *numbers, char *codes, const uint32_t *words, int n)
{
    pop_v_f x = pop_v_decode_part(&POP_F32, numbers, n);
    if (rounding == POP_NEAREST_EVEN) {
        pop_v_encode_part(f, overflow, codes, x, n);
        return;
    }
    pop_v_i noise = pop_v_set(0);
    if (rounding == POP_STOCHASTIC) noise = pop_v_noise(pop_v_bits(pop_v_decode_part(&POP_F32, words, n)), how);
    if (rounding == POP_UP) noise = pop_v_direction(how, x);
    pop_v_i made = pop_v_to_code(f, rounding, overflow, x, noise);
    if (n == POP_LANES) pop_v_store(codes, pop_bytes(f), made);
    else pop_v_store_some(codes, pop_bytes(f), made, pop_v_first(n));
}

/* Options come as values: what lies in memory would be read again after every store. */
POP_INLINE void pop_encode_loop(const pop_format *f, int rounding, int overflow, int how, const float *numbers,
                                char *codes, int64_t n, const uint32_t *words)
{
    int64_t i = 0, bytes = pop_bytes(f);
    for (; i + 4 * POP_LANES <= n; i += 4 * POP_LANES)
        for (int u = 0; u < 4 * POP_LANES; u += POP_LANES)
            pop_encode_part_run(f, rounding, overflow, how, numbers + i + u, codes + (i + u) * bytes,
                                words + i + u, POP_LANES);
    for (; i < n; i += POP_LANES) {
        int part = n - i < POP_LANES ? (int)(n - i) : POP_LANES;
        pop_encode_part_run(f, rounding, overflow, how, numbers + i, codes + i * bytes, words + i, part);
    }
}

POP_INLINE void pop_encode_run(const pop_format *f, const pop_cast *cast, const float *numbers, char *codes, int64_t n,
                               const uint32_t *words)
{
    int overflow = cast->overflow, random_bits = cast->random_bits;
    if (cast->rounding == POP_TOWARD_ZERO)
        pop_encode_loop(f, POP_TOWARD_ZERO, overflow, random_bits, numbers, codes, n, words);
    else if (cast->rounding == POP_STOCHASTIC)
        pop_encode_loop(f, POP_STOCHASTIC, overflow, random_bits, numbers, codes, n, words);
    else if (cast->rounding >= POP_UP)
        pop_encode_loop(f, POP_UP, overflow, cast->rounding, numbers, codes, n, words);
    else if ((pop_is_f16(f) || pop_is_short_f32(f)) && overflow == POP_OVERFLOW_INFINITY) /* these have shortcuts */
        pop_encode_loop(f, POP_NEAREST_EVEN, POP_OVERFLOW_INFINITY, random_bits, numbers, codes, n, words);
    else
        pop_encode_loop(f, POP_NEAREST_EVEN, overflow, random_bits, numbers, codes, n, words);
}

/* The layout is the compiler's to know; the bias carries the scale. */
#define POP_ENCODER(name, format)                                                                                   \
    static void name(const pop_cast *cast, const float *numbers, void *codes, int64_t n, const uint32_t *words)     \
    {                                                                                                               \
        pop_format f = format;                                                                                      \
        f.bias = cast->to.bias;                                                                                     \
        if (pop_bytes(&format) == 2 && f.bias == format.bias)                                                       \
            pop_encode_run(&format, cast, numbers, (char *)codes, n, words);                                        \
        else                                                                                                        \
            pop_encode_run(&f, cast, numbers, (char *)codes, n, words);                                             \
    }

#define POP_ENCODER_4(function, layout) /* FP32 is what the others are encoded from */
#define POP_ENCODER_2(function, layout) POP_ENCODER(pop_encode_##function, layout)
#define POP_ENCODER_1 POP_ENCODER_2
#define POP_ENCODER_OF(bytes, constant, function, ...) POP_ENCODER_##bytes(function, POP_##constant)
POP_FORMATS(POP_ENCODER_OF)

/* User-defined formats: the layout is known at run time only. */
static void pop_encode_any(const pop_cast *cast, const float *numbers, void *codes, int64_t n, const uint32_t *words)
{
    pop_format f = cast->to;
    pop_encode_run(&f, cast, numbers, (char *)codes, n, words);
}
