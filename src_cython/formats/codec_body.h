/* Decoding and encoding, once for every level: POP_OP names the vocabulary (one element, or a vector of the
 * level) that it is compiled with.
 *
 * Codes sit zero-extended in 32-bit lanes. Decoding shifts exponent and mantissa to FP32's places and adds the
 * difference of the biases; a subnormal borrows the hidden bit and gives it back by a subtraction (so no subnormal is
 * ever multiplied). Encoding rounds FP32's bits as an integer, where a carry runs into the exponent as it should; below
 * the smallest normal number, adding a power of two whose ulp is the format's step makes the adder round. */

POP_INLINE POP_OP(f) POP_OP(from_code)(const pop_format *f, POP_OP(i) code)
{
    int shift = 23 - f->mantissa_bits;
    if (pop_is_short_f32(f)) return POP_OP(float)(POP_OP(sll)(code, shift));

    POP_OP(i) sign = POP_OP(sll)(POP_OP(and)(code, POP_OP(set)(pop_sign_code(f))), 32 - pop_bits(f));
    POP_OP(i) magnitude = POP_OP(and)(code, POP_OP(set)(pop_sign_code(f) - 1));
    POP_OP(i) bits = POP_OP(add)(POP_OP(sll)(magnitude, shift), POP_OP(set)((127 - f->bias) << 23));
    POP_OP(m) tiny = POP_OP(gt)(POP_OP(set)(1 << f->mantissa_bits), magnitude);
    if (f->no_zero) {
        if (f->bias == 127) { /* subnormal in FP32 */
            POP_OP(i) halved = POP_OP(srl)(POP_OP(or)(bits, POP_OP(set)(1 << 23)), 1);
            bits = POP_OP(select)(tiny, bits, halved);
        }
    } else if (!f->subnormals) {
        bits = POP_OP(select)(tiny, bits, POP_OP(set)(0));
    } else if (f->bias != 127) {
        POP_OP(f) raised = POP_OP(float)(POP_OP(add)(bits, POP_OP(keep)(tiny, POP_OP(set)(1 << 23))));
        POP_OP(i) hidden = POP_OP(keep)(tiny, POP_OP(set)(pop_power_bits(1 - f->bias)));
        bits = POP_OP(bits)(raised - POP_OP(float)(hidden));
    }
    if (f->specials == POP_NEGATIVE_ZERO) {
        POP_OP(m) nan = POP_OP(eq)(code, POP_OP(set)(pop_nan_code(f)));
        return POP_OP(float)(POP_OP(select)(nan, POP_OP(or)(bits, sign), POP_OP(set)(0x7fc00000)));
    }
    if (f->specials == POP_P3109) {
        POP_OP(m) infinite = POP_OP(eq)(magnitude, POP_OP(set)(pop_infinity_code(f)));
        POP_OP(m) nan = POP_OP(eq)(code, POP_OP(set)(pop_nan_code(f)));
        bits = POP_OP(or)(POP_OP(select)(infinite, bits, POP_OP(set)(0x7f800000)), sign);
        return POP_OP(float)(POP_OP(select)(nan, bits, POP_OP(set)(0x7fc00000)));
    }
    if (f->specials == POP_NAN_ONLY) {
        POP_OP(m) nan = POP_OP(eq)(magnitude, POP_OP(set)(pop_nan_code(f)));
        bits = POP_OP(select)(nan, bits, POP_OP(set)(0x7fc00000));
    } else if (f->specials == POP_IEEE) {
        POP_OP(m) special = POP_OP(gt)(magnitude, POP_OP(set)(pop_max_code(f)));
        POP_OP(m) nan = POP_OP(gt)(magnitude, POP_OP(set)(pop_infinity_code(f)));
        bits = POP_OP(or)(bits, POP_OP(keep)(special, POP_OP(set)(0x7f800000)));
        bits = POP_OP(or)(bits, POP_OP(keep)(nan, POP_OP(set)(0x00400000)));
    }
    return POP_OP(float)(POP_OP(or)(bits, sign));
}

/* Random words made ready for POP_STOCHASTIC: the top `random_bits` (1 to 31) of each, then a one, so that the noise is
 * centred in its cell and the rounding unbiased. */
POP_INLINE POP_OP(i) POP_OP(noise)(POP_OP(i) words, int random_bits)
{
    uint32_t half = 1u << (31 - random_bits);
    return POP_OP(or)(POP_OP(and)(words, POP_OP(set)((int32_t)~(2 * half - 1))), POP_OP(set)((int32_t)half));
}

/* The noise of a rounding from POP_UP on: all ones where it moves whatever is inexact away from zero, half of the step
 * where it moves a half and more, else nothing. */
POP_INLINE POP_OP(i) POP_OP(direction)(int rounding, POP_OP(f) x)
{
    const int32_t half = (int32_t)0x80000000;
    POP_OP(i) positive = POP_OP(set)(rounding == POP_NEAREST_AWAY ? half : -(rounding == POP_UP));
    POP_OP(i) negative = POP_OP(set)(rounding == POP_NEAREST_AWAY ? half : -(rounding == POP_DOWN));
    return POP_OP(select)(POP_OP(gt)(POP_OP(set)(0), POP_OP(bits)(x)), positive, negative);
}

/* Magnitudes below the smallest normal number, as multiples of the format's step there, noise deciding which neighbour.
 * Of a fraction's bits below 2^-32 of the step, noise of all ones must know whether there are any: `sticky`. */
POP_INLINE POP_OP(i) POP_OP(tiny_code)(const pop_format *f, POP_OP(i) magnitude, POP_OP(i) noise, int sticky)
{
    int step_shift = f->subnormals ? 0 : f->mantissa_bits;
    POP_OP(i) exponent = POP_OP(srl)(magnitude, 23);
    POP_OP(m) normal = POP_OP(gt)(exponent, POP_OP(set)(0));
    POP_OP(i) mantissa = POP_OP(and)(magnitude, POP_OP(set)(0x007fffff));
    POP_OP(i) significand = POP_OP(or)(mantissa, POP_OP(keep)(normal, POP_OP(set)(0x00800000)));
    /* The step is the 2^dropped-th multiple of the significand's last place. */
    int base = 23 - f->mantissa_bits + step_shift + (128 - f->bias);
    POP_OP(i) dropped = POP_OP(sub)(POP_OP(set)(base), POP_OP(maximum)(exponent, POP_OP(set)(1)));
    POP_OP(i) fraction = POP_OP(or)(POP_OP(sllv)(significand, POP_OP(sub)(POP_OP(set)(32), dropped)),
                                    POP_OP(srlv)(significand, POP_OP(sub)(dropped, POP_OP(set)(32))));
    if (sticky) {
        POP_OP(i) any = POP_OP(keep)(POP_OP(gt)(significand, POP_OP(set)(0)), POP_OP(set)(1));
        fraction = POP_OP(or)(fraction, POP_OP(keep)(POP_OP(gt)(dropped, POP_OP(set)(32)), any));
    }
    POP_OP(i) up = POP_OP(keep)(POP_OP(carries)(fraction, noise), POP_OP(set)(1));
    return POP_OP(sll)(POP_OP(add)(POP_OP(srlv)(significand, dropped), up), step_shift);
}

POP_INLINE POP_OP(i) POP_OP(tiny_code_nearest)(const pop_format *f, POP_OP(i) magnitude)
{
    int step_shift = f->subnormals ? 0 : f->mantissa_bits;
    POP_OP(i) magic = POP_OP(set)(pop_power_bits(1 - f->bias - f->mantissa_bits + step_shift + 23));
    POP_OP(f) sum = POP_OP(float)(magnitude) + POP_OP(float)(magic);
    return POP_OP(sll)(POP_OP(sub)(POP_OP(bits)(sum), magic), step_shift);
}

/* Codes, made as if signed, of numbers that an unsigned format has not. */
POP_INLINE POP_OP(i) POP_OP(unsigned_code)(const pop_format *f, POP_OP(i) code, POP_OP(i) bits, POP_OP(i) magnitude)
{
    POP_OP(i) nan = POP_OP(set)(pop_nan_code(f)), zero = f->no_zero ? nan : POP_OP(set)(0);
    code = POP_OP(select)(POP_OP(gt)(POP_OP(set)(0), bits), code, nan);
    return POP_OP(select)(POP_OP(eq)(magnitude, POP_OP(set)(0)), code, zero);
}

/* FP32's bits, those below its normal numbers made as if there were a hidden bit there too, down to 2^-127. */
POP_INLINE POP_OP(i) POP_OP(unhidden)(POP_OP(i) magnitude)
{
    POP_OP(i) hidden = POP_OP(set)(1 << 23), twice = POP_OP(sub)(POP_OP(sll)(magnitude, 1), hidden);
    return POP_OP(select)(POP_OP(gt)(hidden, magnitude), magnitude, POP_OP(maximum)(twice, POP_OP(set)(0)));
}

/* FP32 numbers to codes. `noise` is read for POP_STOCHASTIC (POP_OP(noise)) and for POP_UP (POP_OP(direction)), which
 * stands for all the roundings from it on. */
POP_INLINE POP_OP(i) POP_OP(to_code)(const pop_format *f, int rounding, int overflow, POP_OP(f) x, POP_OP(i) noise)
{
    int shift = 23 - f->mantissa_bits;
    POP_OP(i) bits = POP_OP(bits)(x);
    POP_OP(i) magnitude = POP_OP(and)(bits, POP_OP(set)(0x7fffffff));
    if (pop_is_short_f32(f) && rounding == POP_NEAREST_EVEN && overflow == POP_OVERFLOW_INFINITY) {
        /* Sign, exponent and infinity are where they belong: only NaN must be kept from rounding. */
        POP_OP(i) top = POP_OP(srl)(bits, shift);
        POP_OP(i) odd = POP_OP(add)(POP_OP(and)(top, POP_OP(set)(1)), POP_OP(set)((1 << (shift - 1)) - 1));
        POP_OP(m) nan = POP_OP(gt)(magnitude, POP_OP(set)(0x7f800000));
        return POP_OP(select)(nan, POP_OP(srl)(POP_OP(add)(bits, odd), shift),
                              POP_OP(or)(top, POP_OP(set)(pop_quiet_code(f))));
    }
    const int noisy = rounding == POP_STOCHASTIC || rounding >= POP_UP;
    POP_OP(i) sum = f->no_zero ? POP_OP(unhidden)(magnitude) : magnitude;
    if (rounding == POP_NEAREST_EVEN) {
        POP_OP(i) odd = POP_OP(and)(POP_OP(srl)(sum, shift), POP_OP(set)(1));
        if (((127 - f->bias) << f->mantissa_bits) & 1) odd = POP_OP(sub)(POP_OP(set)(1), odd); /* the code's last bit */
        sum = POP_OP(add)(POP_OP(add)(sum, odd), POP_OP(set)((1 << (shift - 1)) - 1));
    } else if (noisy) {
        sum = POP_OP(add)(sum, POP_OP(srl)(noise, 32 - shift));
    }
    POP_OP(i) code = POP_OP(sub)(POP_OP(srl)(sum, shift), POP_OP(set)((127 - f->bias) << f->mantissa_bits));
    if (f->no_zero) {
        code = POP_OP(maximum)(code, POP_OP(set)(0));
    } else if (!(f->bias == 127 && f->subnormals)) {
        POP_OP(m) tiny = POP_OP(gt)(POP_OP(set)(pop_power_bits(1 - f->bias)), magnitude);
        if (rounding == POP_NEAREST_EVEN)
            code = POP_OP(select)(tiny, code, POP_OP(tiny_code_nearest)(f, magnitude));
        else if (POP_OP(any)(tiny))
            code = POP_OP(select)(tiny, code, POP_OP(tiny_code)(f, magnitude,
                                  noisy ? noise : POP_OP(set)(0), rounding >= POP_UP));
    }
    POP_OP(i) over_code = POP_OP(set)(pop_overflow_code(f, overflow));
    if (rounding >= POP_UP && overflow == POP_OVERFLOW_DIRECTED) /* toward zero: no noise */
        over_code = POP_OP(select)(POP_OP(eq)(noise, POP_OP(set)(0)), over_code, POP_OP(set)(pop_max_code(f)));
    code = POP_OP(select)(POP_OP(gt)(code, POP_OP(set)(pop_max_code(f))), code, over_code);
    if (f->specials == POP_IEEE) {
        POP_OP(m) special = POP_OP(gt)(magnitude, POP_OP(set)(0x7f7fffff));
        POP_OP(m) nan = POP_OP(gt)(magnitude, POP_OP(set)(0x7f800000));
        POP_OP(i) payload = POP_OP(and)(POP_OP(srl)(magnitude, shift), POP_OP(set)((1 << f->mantissa_bits) - 1));
        payload = POP_OP(or)(payload, POP_OP(set)(pop_infinity_code(f)));
        payload = POP_OP(or)(payload, POP_OP(keep)(nan, POP_OP(set)(pop_quiet_code(f))));
        code = POP_OP(select)(special, code, payload);
    } else if (f->specials == POP_P3109) {
        POP_OP(m) special = POP_OP(gt)(magnitude, POP_OP(set)(0x7f7fffff));
        POP_OP(m) nan = POP_OP(gt)(magnitude, POP_OP(set)(0x7f800000));
        code = POP_OP(select)(special, code, POP_OP(set)(pop_infinity_code(f)));
        code = POP_OP(select)(nan, code, POP_OP(set)(pop_nan_code(f)));
    } else if (f->specials != POP_FINITE && overflow != POP_OVERFLOW_NAN) {
        POP_OP(m) special = POP_OP(gt)(magnitude, POP_OP(set)(0x7f7fffff));
        code = POP_OP(select)(special, code, POP_OP(set)(pop_nan_code(f)));
    }
    if (f->specials == POP_FINITE) /* an infinity has become the largest number; below, NaN loses the other sign's bit */
        code = POP_OP(select)(POP_OP(gt)(magnitude, POP_OP(set)(0x7f800000)), code, POP_OP(set)(pop_nan_code(f)));
    if (f->is_unsigned) return POP_OP(unsigned_code)(f, code, bits, magnitude);
    POP_OP(i) sign = POP_OP(and)(POP_OP(srl)(bits, 32 - pop_bits(f)), POP_OP(set)(pop_sign_code(f)));
    if (f->specials == POP_FINITE)
        return POP_OP(add)(code, POP_OP(select)(POP_OP(eq)(code, POP_OP(set)(pop_nan_code(f))), sign,
                                                POP_OP(sub)(POP_OP(set)(0), sign)));
    if (pop_nan_is_minus_zero(f)) sign = POP_OP(keep)(POP_OP(gt)(code, POP_OP(set)(0)), sign);
    return POP_OP(or)(code, sign);
}

#if POP_WIDTH > 1 && defined POP_HAS_BYTE_F16
/* The first `part` codes at p. */
POP_INLINE POP_OP(f) POP_OP(decode_byte)(const pop_format *f, const void *p, POP_OP(part) part)
{
    const int up = 10 - f->mantissa_bits, of = f->specials == POP_NAN_ONLY ? 0x7fff : f->specials == POP_IEEE ? 0 : 0xffff;
    const int nan = pop_nan_is_minus_zero(f) ? 0x8000 : pop_nan_code(f) << up;
    const POP_OP(f) x = POP_OP(load_bytes_f16)(p, part, up, of, nan);
    return x * POP_OP(float)(POP_OP(set)(pop_power_bits(15 - f->bias)));
}
#endif

POP_INLINE POP_OP(f) POP_OP(decode)(const pop_format *f, const void *p)
{
    if (pop_is_f32(f)) return POP_OP(float)(POP_OP(load)(p, 4));
#if POP_WIDTH > 1 && defined POP_HAS_F16C
    if (pop_is_f16(f)) return POP_OP(load_f16)(p);
#endif
#if POP_WIDTH > 1 && defined POP_HAS_LOAD_BF16
    if (pop_is_short_f32(f) && f->mantissa_bits == 7) return POP_OP(load_bf16)(p);
#endif
#if POP_WIDTH > 1 && defined POP_HAS_BYTE_F16
    if (pop_is_byte_of_f16(f)) return POP_OP(decode_byte)(f, p, POP_OP(first)(POP_WIDTH));
#endif
    return POP_OP(from_code)(f, POP_OP(load)(p, pop_bytes(f)));
}

POP_INLINE POP_OP(f) POP_OP(decode_part)(const pop_format *f, const void *p, int n)
{
    if (n == POP_WIDTH) return POP_OP(decode)(f, p);
    const POP_OP(part) part = POP_OP(first)(n);
    if (pop_is_f32(f)) return POP_OP(float)(POP_OP(load_some)(p, 4, part));
#if POP_WIDTH > 1 && defined POP_HAS_F16C
    if (pop_is_f16(f)) return POP_OP(load_f16_some)(p, part);
#endif
#if POP_WIDTH > 1 && defined POP_HAS_BYTE_F16
    if (pop_is_byte_of_f16(f)) return POP_OP(decode_byte)(f, p, part);
#endif
    return POP_OP(from_code)(f, POP_OP(load_some)(p, pop_bytes(f), part));
}

POP_INLINE void POP_OP(encode)(const pop_format *f, int overflow, void *p, POP_OP(f) x)
{
    if (pop_is_f32(f)) {
        POP_OP(store)(p, 4, POP_OP(bits)(x));
        return;
    }
#if POP_WIDTH > 1 && defined POP_HAS_F16C
    if (pop_is_f16(f) && overflow == POP_OVERFLOW_INFINITY) {
        POP_OP(store_f16)(p, x);
        return;
    }
#endif
#if POP_WIDTH > 1 && defined POP_HAS_STORE_BF16
    if (pop_is_short_f32(f) && f->mantissa_bits == 7 && overflow == POP_OVERFLOW_INFINITY) {
        POP_OP(store_bf16)(p, x);
        return;
    }
#endif
    POP_OP(store)(p, pop_bytes(f), POP_OP(to_code)(f, POP_NEAREST_EVEN, overflow, x, POP_OP(set)(0)));
}

POP_INLINE void POP_OP(encode_part)(const pop_format *f, int overflow, void *p, POP_OP(f) x, int n)
{
    const POP_OP(part) part = POP_OP(first)(n);
    if (n == POP_WIDTH) {
        POP_OP(encode)(f, overflow, p, x);
        return;
    }
    if (pop_is_f32(f)) {
        POP_OP(store_some)(p, 4, POP_OP(bits)(x), part);
        return;
    }
#if POP_WIDTH > 1 && defined POP_HAS_F16C
    if (pop_is_f16(f) && overflow == POP_OVERFLOW_INFINITY) {
        POP_OP(store_f16_some)(p, x, part);
        return;
    }
#endif
#if POP_WIDTH > 1 && defined POP_HAS_STORE_BF16
    if (pop_is_short_f32(f) && f->mantissa_bits == 7 && overflow == POP_OVERFLOW_INFINITY) {
        POP_OP(store_bf16_some)(p, x, part);
        return;
    }
#endif
    POP_OP(store_some)(p, pop_bytes(f), POP_OP(to_code)(f, POP_NEAREST_EVEN, overflow, x, POP_OP(set)(0)), part);
}
