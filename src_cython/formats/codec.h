/* Every number format up to 16 bits, to FP32 and back: the one place where codes are decoded and encoded.
 *
 * What callers may rely on
 *   - A format is its layout facts, a `pop_format`. A power-of-two scale is part of them: `pop_scaled` moves the bias,
 *     so a scaled FP8 tensor is only a format with another bias, decoded and rounded exactly, with no multiplication.
 *     Formats satisfy `poplibs_py.formats.Format`'s rule: each normal number is a normal FP32 number (bias <= 127,
 *     largest exponent <= 127) and bias >= -100. Then every value is an FP32 number and decoding is exact.
 *   - All levels give the same bits: the algorithm exists once, in codec_body.h, and is compiled with the vocabulary of
 *     simd/simd.h. Only FP16 also uses the CPU's conversions, which agree bit for bit.
 *   - Give `pop_format` as a `static const` (POP_F16, POP_F143, ...) and everything folds to that format's own code;
 *     give it at run time and the same source is the generic path. Constant layout with a run-time bias works well too.
 *   - `_part` functions touch the first n elements only (0 <= n <= lanes), never a byte beyond; other lanes are +0.
 *   - MXCSR at its default: nearest even, no flushing of subnormals.
 *
 * Names: `pop_s_*` works on one element (tails), `pop_v_*` on POP_LANES of them; `pop_v_f` and `pop_v_i` are vectors of
 * float and of 32-bit codes.
 *     pop_v_decode(f, p)                       POP_LANES elements at p, as FP32
 *     pop_v_decode_part(f, p, n)
 *     pop_v_encode(f, overflow, p, x)          x rounded to nearest even, stored at p
 *     pop_v_encode_part(f, overflow, p, x, n)
 *     pop_v_from_code(f, codes), pop_v_to_code(f, rounding, overflow, x, noise)   the same in registers
 * At AVX-512 levels codec_bf16.h adds BF16 pairs (FP16 = hi + lo exactly), and with VBMI table decoding of 64 codes
 * of any format of at most 8 bits.
 *
 * Contract
 *   - Encoding rounds once. Nearest even: ties to the code with an even last bit. Toward zero: truncates. Stochastic:
 *     with f the discarded fraction and R the word's top r bits, up if and only if f + (R + 1/2) / 2^r >= 1.
 *     Up, down, nearest with ties away from zero: the same with noise of all ones, of nothing, of one half, which the sign
 *     chooses. Without subnormals, zero and the smallest normal number are neighbours.
 *   - A finite number overflows when, rounded with unbounded exponent, it exceeds the largest finite number: then it
 *     becomes that number, NaN, or infinity, as asked; its sign is kept. POP_FINITE formats take POP_SATURATE alone.
 *   - An infinity stays one where the format has it and becomes NaN elsewhere, whatever `overflow` says; in POP_FINITE
 *     formats it becomes the largest number, and NaN the zero of the other sign (as ml_dtypes has it; +0 if unsigned).
 *   - Unsigned formats: numbers below zero become NaN (zero where there is no NaN). Without a zero, zeros do so too, and a
 *     positive number below the smallest becomes the smallest.
 *   - NaN stays NaN with its sign; POP_IEEE formats keep the payload's top bits, quiet. POP_NEGATIVE_ZERO and POP_P3109
 *     formats have one NaN, without sign, and write every zero as +0.
 *   - Decoding NaN gives quiet NaN, except that formats with FP32's exponent (BF16) decode by shifting alone. */
#ifndef POP_FORMATS_CODEC_H
#define POP_FORMATS_CODEC_H
#include <stdint.h>
#include <string.h>

#include "formats/formats.h"
#include "kernels/abi.h"
#include "kernels/prefetch.h"
#include "simd/simd.h"

/* The format whose values are 2^scale times those of `f`. */
POP_INLINE pop_format pop_scaled(pop_format f, int scale)
{
    f.bias -= scale;
    return f;
}

POP_INLINE int pop_bits(const pop_format *f) { return !f->is_unsigned + f->exponent_bits + f->mantissa_bits; }

POP_INLINE int64_t pop_bytes(const pop_format *f) { return pop_bits(f) <= 8 ? 1 : pop_bits(f) <= 16 ? 2 : 4; }

POP_INLINE int pop_is_f32(const pop_format *f) { return f->mantissa_bits == 23; }

POP_INLINE int pop_is_f16(const pop_format *f)
{
    return f->exponent_bits == 5 && f->mantissa_bits == 10 && f->bias == 15 && f->specials == POP_IEEE &&
           f->subnormals && !f->is_unsigned;
}

/* FP32 with fewer mantissa bits, such as BF16: its codes are the top bits of FP32's. */
POP_INLINE int pop_is_short_f32(const pop_format *f)
{
    return f->exponent_bits == 8 && f->bias == 127 && f->specials == POP_IEEE && f->subnormals && !f->is_unsigned;
}

/* A byte whose exponents FP16 has for numbers: codes are codes of FP16, of numbers 2^(15 - bias) times as small, but for NaN. */
POP_INLINE int pop_is_byte_of_f16(const pop_format *f)
{
    const int short_exponents = f->exponent_bits == 4 && (f->specials == POP_NEGATIVE_ZERO || f->specials == POP_NAN_ONLY);
    return pop_bits(f) == 8 && !f->is_unsigned && f->subnormals && !f->no_zero &&
           (short_exponents || (f->exponent_bits == 5 && f->specials == POP_IEEE));
}

/* Codes without their sign. */
POP_INLINE int32_t pop_sign_code(const pop_format *f) { return 1 << (f->exponent_bits + f->mantissa_bits); }

POP_INLINE int32_t pop_infinity_code(const pop_format *f)
{
    if (f->specials == POP_P3109) return pop_sign_code(f) - 1 - f->is_unsigned;
    return ((1 << f->exponent_bits) - 1) << f->mantissa_bits;
}

POP_INLINE int pop_has_infinity(const pop_format *f) { return f->specials == POP_IEEE || f->specials == POP_P3109; }

/* Whether NaN has the code that elsewhere is minus zero's. */
POP_INLINE int pop_nan_is_minus_zero(const pop_format *f)
{
    return f->specials == POP_NEGATIVE_ZERO || (f->specials == POP_P3109 && !f->is_unsigned);
}

POP_INLINE int32_t pop_quiet_code(const pop_format *f) { return (1 << f->mantissa_bits) >> 1; }

POP_INLINE int32_t pop_nan_code(const pop_format *f)
{
    if (pop_nan_is_minus_zero(f)) return pop_sign_code(f);
    if (f->specials == POP_FINITE) return f->is_unsigned ? 0 : pop_sign_code(f); /* a zero, as in ml_dtypes */
    return f->specials == POP_IEEE ? pop_infinity_code(f) | pop_quiet_code(f) : pop_sign_code(f) - 1;
}

POP_INLINE int32_t pop_max_code(const pop_format *f)
{
    if (pop_has_infinity(f)) return pop_infinity_code(f) - 1;
    return pop_sign_code(f) - (f->specials == POP_NAN_ONLY ? 2 : 1);
}

POP_INLINE int32_t pop_overflow_code(const pop_format *f, int overflow)
{
    if (overflow == POP_SATURATE) return pop_max_code(f);
    if (overflow == POP_OVERFLOW_DIRECTED) return pop_has_infinity(f) ? pop_infinity_code(f) : pop_nan_code(f);
    return overflow == POP_OVERFLOW_INFINITY ? pop_infinity_code(f) : pop_nan_code(f);
}

/* FP32 bits of 2^exponent, a normal number. */
POP_INLINE int32_t pop_power_bits(int exponent) { return (exponent + 127) << 23; }

#define POP_JOIN_(a, b) a##b
#define POP_JOIN(a, b) POP_JOIN_(a, b)

#define POP_OP(name) POP_JOIN(pop_s_, name)
#define POP_WIDTH 1
#include "formats/codec_body.h"
#undef POP_WIDTH
#undef POP_OP

#define POP_OP(name) POP_JOIN(pop_v_, name)
#define POP_WIDTH POP_LANES
#include "formats/codec_body.h"
#undef POP_WIDTH
#undef POP_OP

#if POP_LEVEL >= POP_LEVEL_AVX512
#include "formats/codec_bf16.h"
#endif
#endif
