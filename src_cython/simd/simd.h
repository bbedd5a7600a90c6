/* One vocabulary of vectors for every family and level: a body written with it is compiled once for each level and gives
 * the same bits at all of them, because every operation here is exact or rounded once, and none is approximate.
 *
 * Vectors have POP_LANES lanes of 32 bits: 16 at AVX-512 levels, 8 at AVX2, 4 at the portable level, where they are the
 * compiler's own vectors and its fused multiply-add is the library's fmaf (right, and slow where the CPU has none).
 *     pop_v_f, pop_v_i, pop_v_u   floats, signed and unsigned words
 *     pop_v_m                     a mask: whatever the level compares to
 *     pop_h_f, pop_h_i, pop_h_m   the same of float64 and 64-bit words, half as many lanes
 * They are the compiler's vector types, so C's operators work on them lane by lane: + - * / of floats; + - & | ^ ~ of words,
 * which wrap. Contraction is off: a product and a sum are two roundings, `fma` is one. What operators cannot say:
 *     set, splat                         one word, one float in every lane
 *     bits, float                        a float's bits, and back
 *     sll, srl; sllv, srlv               shifts by one count, by each lane's own; zero where a count is not 0..31
 *     fma, sqrt                          rounded once
 *     min_f(a, b), max_f(a, b)           b where either is NaN
 *     gt, eq, carries; lt_f, gt_f        masks of words, of a + b leaving 32 bits, of floats (false for NaN)
 *     any                                whether a mask is not empty
 *     select(m, a, b), keep(m, a)        b where m and else a; a where m and else 0 (`_f`: of floats)
 *     to_float                           words as floats, to nearest even
 *     first(n)                           a part: the first n lanes (all from POP_LANES on); mask(part), is_all(part)
 *     load(p, bytes), store              elements of 1, 2 or 4 bytes, zero-extended
 *     load_some(p, bytes, part), store_some    the same of a part: not a byte beyond, zeros in the other lanes
 *     load_f, store_f, load_f16, store_f16     floats; float16, nearest even (POP_HAS_F16C); also `_some`
 *     load_bytes_f16(p, part, up, of, nan)   bytes as FP16, magnitudes `up` bits left; words whose bits of `of` are `nan`, if any,
 *                                        are NaN (POP_HAS_BYTE_F16)
 *     load_bf16                          bfloat16 (POP_HAS_LOAD_BF16)
 *     store_bf16                         bfloat16, nearest even, NaN made quiet (POP_HAS_STORE_BF16); also `_some`
 *     stream_f                           a store past the caches, aligned
 *     lookup(table, index), lookup16     table[index mod 32], table[index mod 16]
 *     lookup_four(planes, index, wide, y)   the same of four vectors, of 32 numbers or of 16, whose bytes are `planes` (POP_HAS_LOOKUP_FOUR)
 *     keep_up_to(bound, word, a)         a where word <= bound, as unsigned, else 0
 *     floor                              the next whole number below
 *     scale(x, n)                        x 2^n rounded once: 2^-4 <= |x| <= 2, n whole, at most 240 in magnitude
 *     scale_normal(x, n)                 the same where x and what it becomes are normal numbers
 * The names of one level begin with pop_v_; pop_s_ names are the same for one element, and pop_h_ ones for halves:
 *     widen(x, k), narrow(a, b)          half k of a vector in float64; two halves rounded to float
 *     of_words(m), select, lt, gt        masks and choices
 * MXCSR is at its default: nearest even, subnormals kept. */
#ifndef POP_SIMD_SIMD_H
#define POP_SIMD_SIMD_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/abi.h"

#if POP_LEVEL >= POP_LEVEL_AVX512
#define POP_LANES 16
#elif POP_LEVEL >= POP_LEVEL_AVX2
#define POP_LANES 8
#else
#define POP_LANES 4
#endif
#define POP_VECTOR_BYTES (4 * POP_LANES)

/* Whether what has bodies for several cases has the general one alone: where vectors hold four numbers, and no speed is asked, more
 * would only be more to compile. */
#define POP_ONE_BODY (POP_LEVEL < POP_LEVEL_AVX2)

typedef float pop_v_f __attribute__((vector_size(POP_VECTOR_BYTES)));
typedef int32_t pop_v_i __attribute__((vector_size(POP_VECTOR_BYTES)));
typedef uint32_t pop_v_u __attribute__((vector_size(POP_VECTOR_BYTES)));
typedef double pop_h_f __attribute__((vector_size(POP_VECTOR_BYTES)));
typedef int64_t pop_h_i __attribute__((vector_size(POP_VECTOR_BYTES)));

POP_INLINE pop_v_i pop_v_set(int32_t x) { return (pop_v_i){0} + x; }
/* A sum with zero would lose a zero's sign; by way of words GCC schedules sums of products worse, by a tenth. */
POP_INLINE pop_v_f pop_v_splat(float x)
{
#if POP_LANES == 16
    return (pop_v_f){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif POP_LANES == 8
    return (pop_v_f){x, x, x, x, x, x, x, x};
#else
    return (pop_v_f){x, x, x, x};
#endif
}
POP_INLINE pop_v_i pop_v_bits(pop_v_f x) { return (pop_v_i)x; }
POP_INLINE pop_v_f pop_v_float(pop_v_i u) { return (pop_v_f)u; }
POP_INLINE pop_v_i pop_v_add(pop_v_i a, pop_v_i b) { return (pop_v_i)((pop_v_u)a + (pop_v_u)b); }
POP_INLINE pop_v_i pop_v_sub(pop_v_i a, pop_v_i b) { return (pop_v_i)((pop_v_u)a - (pop_v_u)b); }
POP_INLINE pop_v_i pop_v_and(pop_v_i a, pop_v_i b) { return a & b; }
POP_INLINE pop_v_i pop_v_or(pop_v_i a, pop_v_i b) { return a | b; }
POP_INLINE pop_v_f pop_v_to_float(pop_v_i words) { return __builtin_convertvector(words, pop_v_f); }
POP_INLINE pop_v_f pop_v_load_f(const float *p) { pop_v_f x; memcpy(&x, p, sizeof x); return x; }
POP_INLINE void pop_v_store_f(float *p, pop_v_f x) { memcpy(p, &x, sizeof x); }
/* Bytes of 16 numbers: the lowest of each, the second, and so on. */
typedef struct pop_planes { uint8_t of[4][16]; } pop_planes;
POP_INLINE pop_h_f pop_h_splat(double x) { return (pop_h_f)((pop_h_i){0} + (union {double f; int64_t i;}){x}.i); }

#include "simd/scalar.h"
#if POP_LEVEL >= POP_LEVEL_AVX512
#include "simd/avx512.h"
#elif POP_LEVEL >= POP_LEVEL_AVX2
#include "simd/avx2.h"
#else
#include "simd/portable.h"
#endif

POP_INLINE pop_v_f pop_v_abs(pop_v_f x) { return (pop_v_f)((pop_v_i)x & 0x7fffffff); }
POP_INLINE pop_v_i pop_v_sign(pop_v_f x) { return (pop_v_i)x & INT32_MIN; }
/* x's magnitude with s's sign, given x >= 0 */
POP_INLINE pop_v_f pop_v_signed(pop_v_f x, pop_v_f s) { return (pop_v_f)((pop_v_i)x | pop_v_sign(s)); }
POP_INLINE pop_v_f pop_v_select_f(pop_v_m m, pop_v_f a, pop_v_f b) { return (pop_v_f)pop_v_select(m, (pop_v_i)a, (pop_v_i)b); }
POP_INLINE pop_v_f pop_v_load_f_some(const float *p, pop_v_part part) { return (pop_v_f)pop_v_load_some(p, 4, part); }
POP_INLINE void pop_v_store_f_some(float *p, pop_v_f x, pop_v_part part) { pop_v_store_some(p, 4, (pop_v_i)x, part); }
#endif
