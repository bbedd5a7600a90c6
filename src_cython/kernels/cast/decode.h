/* Decoders: codes to FP32. Vectors of POP_LANES, four to an iteration, then a partial one. Formats of at most 8 bits go
 * 64 codes at a time through the byte tables where the CPU has VBMI. Measured on one Zen 5 core, 64 Ki codes of FP8 in
 * cache, in 10^9 a second: tables 30, the same by arithmetic 14, AVX2 8, portable 1.1. */
#include "kernels/cast/cast.h"

POP_INLINE void pop_decode_run(const pop_format *f, const char *codes, float *numbers, int64_t n)
{
    int64_t i = pop_unaligned_head(numbers, n), bytes = pop_bytes(f);
    pop_v_encode_part(&POP_F32, 0, numbers, pop_v_decode_part(f, codes, (int)i), (int)i);
    for (; i + 4 * POP_LANES <= n; i += 4 * POP_LANES)
        for (int64_t j = i; j < i + 4 * POP_LANES; j += POP_LANES)
            pop_v_encode(&POP_F32, 0, numbers + j, pop_v_decode(f, codes + j * bytes));
    for (; i < n; i += POP_LANES) {
        int part = n - i < POP_LANES ? (int)(n - i) : POP_LANES;
        pop_v_encode_part(&POP_F32, 0, numbers + i, pop_v_decode_part(f, codes + i * bytes, part), part);
    }
}

/* Making the table costs about as much as decoding this many codes without it. */
#define POP_TABLE_PAYS 256

POP_INLINE void pop_decode_bytes(const pop_format *f, const char *codes, float *numbers, int64_t n)
{
    int64_t i = 0;
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    if (n >= POP_TABLE_PAYS && !f->is_unsigned) {
        pop_byte_table table = pop_byte_table_make(f);
        for (; i + 64 <= n; i += 64) {
            __m512 part[4];
            pop_byte_to_f32(&table, _mm512_loadu_si512(codes + i), part);
            for (int u = 0; u < 4; u++) _mm512_storeu_ps(numbers + i + 16 * u, part[u]);
        }
    }
#endif
    pop_decode_run(f, codes + i, numbers + i, n - i);
}

/* The layout is the compiler's to know; the bias carries the scale. */
#define POP_DECODER(name, format)                                                                                   \
    static void name(const pop_cast *cast, const void *codes, float *numbers, int64_t n)                            \
    {                                                                                                               \
        pop_format f = format;                                                                                      \
        f.bias = cast->from.bias;                                                                                   \
        if (pop_bytes(&format) == 1) pop_decode_bytes(&f, (const char *)codes, numbers, n);                         \
        else if (f.bias == format.bias) pop_decode_run(&format, (const char *)codes, numbers, n);                   \
        else pop_decode_run(&f, (const char *)codes, numbers, n);                                                   \
    }

#define POP_DECODER_4(function, layout) /* FP32 is what the others are decoded to */
#define POP_DECODER_2(function, layout) POP_DECODER(pop_decode_##function, layout)
#define POP_DECODER_1 POP_DECODER_2
#define POP_DECODER_OF(bytes, constant, function, ...) POP_DECODER_##bytes(function, POP_##constant)
POP_FORMATS(POP_DECODER_OF)

/* User-defined formats: the layout is known at run time only. */
static void pop_decode_any(const pop_cast *cast, const void *codes, float *numbers, int64_t n)
{
    pop_format f = cast->from;
    if (pop_bytes(&f) == 1) pop_decode_bytes(&f, (const char *)codes, numbers, n);
    else pop_decode_run(&f, (const char *)codes, numbers, n);
}

/* float64: rounded to FP32 as asked where that is the target; otherwise to odd (an inexact result takes an odd last
 * bit), which leaves a second, shorter rounding as if it were the only one (Boldo and Melquiond, Emulation of FMA and
 * correctly rounded sums, IEEE Trans. Computers 57, 2008). */
POP_INLINE void pop_decode_f64_run(const char *codes, float *numbers, int64_t n, int rounding, uint32_t over, int odd)
{
    for (int64_t i = 0; i < n; i++) {
        double x, back;
        uint32_t bits;
        memcpy(&x, codes + 8 * i, 8);
        float nearest = (float)x;
        memcpy(&bits, &nearest, 4);
        back = nearest;
        uint32_t sign = bits & 0x80000000u;
        uint32_t away = __builtin_fabs(back) > __builtin_fabs(x), inexact = (back != x) & (x == x);
        if (odd) {
            bits = (bits - away) | inexact;
        } else {
            int overflows = __builtin_fabs(x) >= 0x1p128;
            if (rounding == POP_NEAREST_EVEN) overflows = (bits & 0x7fffffff) == 0x7f800000;
            else bits -= away;
            bits = overflows & (__builtin_fabs(x) <= 0x1.fffffffffffffp1023) ? over | sign : bits;
        }
        memcpy(numbers + i, &bits, 4);
    }
}

/* To FP32 by the roundings from POP_UP on: truncated, and moved away from zero where what is lost is at least `share` of
 * the step, that of positive numbers or of negative ones. */
static void pop_decode_f64_directed(const char *codes, float *numbers, int64_t n, int rounding, int overflow)
{
    const double never = __builtin_inf();
    const double positive = rounding == POP_NEAREST_AWAY ? 0.5 : rounding == POP_UP ? 0 : never;
    const double negative = rounding == POP_NEAREST_AWAY ? 0.5 : rounding == POP_DOWN ? 0 : never;
    for (int64_t i = 0; i < n; i++) {
        double x, step;
        float nearest, kept;
        uint32_t bits;
        memcpy(&x, codes + 8 * i, 8);
        nearest = (float)x;
        memcpy(&bits, &nearest, 4);
        bits -= __builtin_fabs((double)nearest) > __builtin_fabs(x);
        memcpy(&kept, &bits, 4);
        int64_t exponent = (bits & 0x7fffffff) >> 23, power = ((exponent > 1 ? exponent : 1) + 1023 - 150) << 52;
        memcpy(&step, &power, 8);
        const double lost = __builtin_fabs(x) - __builtin_fabs((double)kept), share = x < 0 ? negative : positive;
        bits += lost > 0 && lost >= share * step;
        const int finite = __builtin_fabs(x) <= 0x1.fffffffffffffp1023;
        if (finite && ((bits & 0x7fffffff) == 0x7f800000 || __builtin_fabs(x) >= 0x1p128)) {
            const int kind = overflow == POP_OVERFLOW_DIRECTED && share == never ? POP_SATURATE : overflow;
            bits = (uint32_t)pop_overflow_code(&POP_F32, kind) | (bits & 0x80000000u);
        }
        memcpy(numbers + i, &bits, 4);
    }
}

static void pop_decode_f64(const pop_cast *cast, const void *codes, float *numbers, int64_t n)
{
    const char *p = (const char *)codes;
    uint32_t over = (uint32_t)pop_overflow_code(&POP_F32, cast->overflow);
    if (!pop_is_f32(&cast->to)) pop_decode_f64_run(p, numbers, n, POP_NEAREST_EVEN, over, 1);
    else if (cast->rounding == POP_NEAREST_EVEN) pop_decode_f64_run(p, numbers, n, POP_NEAREST_EVEN, over, 0);
    else if (cast->rounding >= POP_UP) pop_decode_f64_directed(p, numbers, n, cast->rounding, cast->overflow);
    else pop_decode_f64_run(p, numbers, n, POP_TOWARD_ZERO, over, 0);
}
