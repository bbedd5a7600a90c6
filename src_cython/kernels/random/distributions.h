/* One row of random bits to one row of elements, for each distribution. A body takes the lanes, which it moves on by
 * one row, the call, and the row's place in the operands.
 *
 * 32-bit draws: element j of a row is made of 32-bit word j alone. 16-bit draws (uniform numbers in formats of 16
 * bits or fewer): elements j and 32 + j are made of the low and high half of word j, which costs no shuffle. 64-bit
 * draws (integers): element j is made of 64-bit word j.
 *
 * Continuous distributions go through their inverse distribution function: 31 bits of the word are q, the last
 * decides the side of the median. q's octave selects a polynomial (tables.h), which AVX-512 finds in registers. */
#ifndef POP_RANDOM_DISTRIBUTIONS_H
#define POP_RANDOM_DISTRIBUTIONS_H
#include "kernels/random/call.h"
#include "kernels/random/lanes.h"
#include "kernels/random/tables.h"
#include "simd/math.h"

/* In registers all. */
#if POP_ONE_BODY
#define POP_R_UNROLLED _Pragma("GCC unroll 1")
#else
#define POP_R_UNROLLED _Pragma("GCC unroll 8")
#endif
#define POP_R_EACH_PART POP_R_UNROLLED for (int part = 0; part < POP_AOX_PARTS; part++)

/* Words below 2^31 as floats, to nearest even. */
POP_INLINE pop_v_f pop_r_number(pop_v_u word) { return pop_v_to_float((pop_v_i)word); }

POP_INLINE pop_v_f pop_r_polynomial(const float *coefficients, pop_v_f t)
{
    pop_v_f y = pop_v_splat(coefficients[POP_R_DEGREE]);
#pragma GCC unroll 8
    for (int i = POP_R_DEGREE - 1; i >= 0; i--) y = y * t + pop_v_splat(coefficients[i]);
    return y;
}

/* F at q = x * 2^-31, 1 <= x < 2^31. */
POP_INLINE pop_v_f pop_r_quantile(const float (*table)[32], pop_v_f x)
{
    pop_v_u bits = (pop_v_u)x, octave = bits >> 23;
    pop_v_f t = (pop_v_f)((bits & 0x7fffff) | 0x3f800000) - 1.5f, y;
#if POP_LEVEL >= POP_LEVEL_AVX2 && POP_LEVEL < POP_LEVEL_AVX512
    /* The eight highest octaves hold 255 of 256 draws; gathers are ten times slower than a permutation. */
    enum { first = 22 };
    if (__builtin_expect(!pop_v_any((((octave & 31) - first) & ~7u) != 0), 1)) {
        y = pop_v_lookup_window(table[POP_R_DEGREE], octave, first);
#pragma GCC unroll 8
        for (int i = POP_R_DEGREE - 1; i >= 0; i--) y = y * t + pop_v_lookup_window(table[i], octave, first);
        return y;
    }
#endif
    y = pop_v_lookup(table[POP_R_DEGREE], octave);
#pragma GCC unroll 8
    for (int i = POP_R_DEGREE - 1; i >= 0; i--) y = y * t + pop_v_lookup(table[i], octave);
    return y;
}

/* 31 bits of the word as a number in [1, 2^31), odd before rounding. */
POP_INLINE pop_v_f pop_r_tail(const pop_random_call *c, pop_v_u word)
{
    pop_v_f x = pop_r_number((word & 0x7fffffff) | 1) * c->slope + c->intercept;
    return pop_v_min_f(x, pop_v_splat(0x1.fffffep30f));
}

POP_INLINE pop_v_f pop_r_signed(pop_v_f magnitude, pop_v_u word)
{
    return (pop_v_f)((pop_v_u)magnitude ^ (word & 0x80000000));
}

/* normal, and truncated normal with a wide range: slope = P(|Z| < alpha), intercept = 2^31 P(|Z| > alpha) */
POP_INLINE pop_v_f pop_r_normal(const pop_random_call *c, pop_v_u word)
{
    return pop_r_signed(pop_r_quantile(POP_R_NORMAL, pop_r_tail(c, word)), word) * c->scale + c->shift;
}

/* truncated normal with a narrow range, P(|Z| < alpha) <= 1/2: slope = 2^-31 P(|Z| < alpha) */
POP_INLINE pop_v_f pop_r_narrow_normal(const pop_random_call *c, pop_v_u word)
{
    pop_v_f y = pop_r_number((word & 0x7fffffff) | 1) * c->slope;
    pop_v_f z = y * pop_r_polynomial(POP_R_CENTRE, y * y - 0.125f);
    return pop_r_signed(z, word) * c->scale + c->shift;
}

POP_INLINE pop_v_f pop_r_two_sided(const pop_random_call *c, pop_v_u word, const float (*low)[32],
                                   const float (*high)[32])
{
    pop_v_f x = pop_r_tail(c, word);
    pop_v_f y = pop_v_select_f(pop_v_gt(pop_v_set(0), (pop_v_i)word), pop_r_quantile(high, x), pop_r_quantile(low, x));
    return y * c->scale + c->shift;
}

POP_INLINE pop_v_f pop_r_exponential(const pop_random_call *c, pop_v_u word)
{
    return pop_r_two_sided(c, word, POP_R_EXPONENTIAL_LOW, POP_R_EXPONENTIAL_HIGH);
}

POP_INLINE pop_v_f pop_r_gumbel(const pop_random_call *c, pop_v_u word)
{
    return pop_r_two_sided(c, word, POP_R_GUMBEL_LOW, POP_R_GUMBEL_HIGH);
}

/* 2^y for uniform y, -126 <= y < 128 */
POP_INLINE pop_v_f pop_r_log_uniform(const pop_random_call *c, pop_v_u word)
{
    pop_v_f x = pop_v_exp2(pop_r_number(word >> 8) * c->scale + c->shift);
    return pop_v_max_f(pop_v_min_f(x, pop_v_splat(c->high)), pop_v_splat(c->low));
}

POP_INLINE pop_v_f pop_r_uniform(const pop_random_call *c, pop_v_u draw)
{
    return pop_v_min_f(pop_r_number(draw) * c->scale + c->shift, pop_v_splat(c->high));
}

POP_INLINE void pop_r_row_bits(pop_aox_lanes *v, const pop_random_call *c, const char *in, char *out)
{
    POP_R_EACH_PART {
        pop_aox_v word = pop_aox_next(v, part);
        memcpy(out + part * POP_AOX_BYTES, &word, POP_AOX_BYTES);
    }
}

POP_INLINE void pop_r_row_uniform32(const pop_format *f, pop_aox_lanes *v, const pop_random_call *c, char *out)
{
    POP_R_EACH_PART {
        pop_v_u word = (pop_v_u)pop_aox_next(v, part);
        pop_r_encode(f, out + part * POP_LANES * pop_bytes(f), pop_r_uniform(c, word >> 8));
    }
}

POP_INLINE void pop_r_row_uniform16(const pop_format *f, pop_aox_lanes *v, const pop_random_call *c, char *out)
{
    POP_R_EACH_PART {
        pop_v_u word = (pop_v_u)pop_aox_next(v, part);
        char *p = out + part * POP_LANES * pop_bytes(f);
        pop_r_encode(f, p, pop_r_uniform(c, word & 0xffff));
        pop_r_encode(f, p + POP_AOX_ROW_WORDS * pop_bytes(f), pop_r_uniform(c, word >> 16));
    }
}

/* float16 and bfloat16 in [0, 1): 16-bit word i times 2^-16, rounded down, both halves of a 32-bit word in place. A word
 * joined to the bits of 2^k is 2^k + word * 2^(k - 23). Less 2^k, for bfloat16 that is a float32 number whose upper half
 * is the code (k = 7); for float16 the code is its bits from 13 on, subnormal where that is (k = -105: times 2^-112). */
POP_INLINE void pop_r_row_unit16(int is_f16, pop_aox_lanes *v, char *out)
{
    const pop_v_f magic = pop_v_splat(is_f16 ? 0x1p-105f : 0x1p7f);
    pop_v_u words[POP_AOX_PARTS]; /* all first: 4 % faster */
    POP_R_EACH_PART words[part] = (pop_v_u)pop_aox_next(v, part);
    POP_R_EACH_PART {
        pop_v_u word = words[part];
        pop_v_u low = (pop_v_u)((pop_v_f)((word & 0xffff) | (pop_v_u)magic) - magic) >> (is_f16 ? 13 : 16);
        pop_v_u high = (pop_v_u)((pop_v_f)((word >> 16) | (pop_v_u)magic) - magic) << (is_f16 ? 3 : 0);
        pop_v_u codes = low | (high & 0xffff0000);
        memcpy(out + part * POP_AOX_BYTES, &codes, sizeof codes);
    }
}

/* Any distribution of one 32-bit word. */
typedef pop_v_f (*pop_r_distribution)(const pop_random_call *c, pop_v_u word);

POP_INLINE void pop_r_row(pop_r_distribution distribution, const pop_format *f, pop_aox_lanes *v,
                          const pop_random_call *c, char *out)
{
    POP_R_EACH_PART {
        pop_v_u word = (pop_v_u)pop_aox_next(v, part);
        pop_r_encode(f, out + part * POP_LANES * pop_bytes(f), distribution(c, word));
    }
}

POP_INLINE void pop_r_row_bernoulli(int bytes, pop_aox_lanes *v, const pop_random_call *c, char *out)
{
    POP_R_EACH_PART {
        pop_v_u word = (pop_v_u)pop_aox_next(v, part);
        pop_v_u kept = pop_v_keep_up_to((pop_v_u)pop_v_set((int32_t)c->bound), word, (pop_v_u)pop_v_set((int32_t)c->one));
        pop_v_store(out + part * POP_LANES * bytes, bytes, (pop_v_i)kept);
    }
}

/* The code of a dropped element is +0 whatever the input was; `one` = 0 drops all. */
POP_INLINE void pop_r_row_dropout(const pop_format *f, pop_aox_lanes *v, const pop_random_call *c, const char *in,
                                  char *out)
{
    POP_R_EACH_PART {
        pop_v_u word = (pop_v_u)pop_aox_next(v, part);
        int64_t place = part * POP_LANES * pop_bytes(f);
        pop_v_u scaled = (pop_v_u)(pop_v_decode(f, in + place) * c->scale) & (0 - c->one);
        pop_v_f kept = (pop_v_f)pop_v_keep_up_to((pop_v_u)pop_v_set((int32_t)c->bound), word, scaled);
        pop_r_encode(f, out + place, kept);
    }
}

/* The element's word in the substreams that follow, until one is not refused (Lemire, arXiv 1805.10941). */
static int64_t __attribute__((noinline)) pop_r_redraw(const pop_random_call *c, uint64_t row, int lane)
{
    for (uint32_t attempt = 1;; attempt++) {
        pop_aox g;
        uint64_t words[POP_AOX_LANES];
        pop_aox_resume(&g, c->start, attempt, row);
        pop_aox_rows(&g, 1, words);
        unsigned __int128 product = (unsigned __int128)words[lane] * c->range;
        if ((uint64_t)product >= c->threshold) return (int64_t)(product >> 64) + c->offset;
    }
}

POP_INLINE void pop_r_row_integer(pop_aox_lanes *v, const pop_random_call *c, uint64_t row, char *out)
{
    uint32_t refused = 0;
    int32_t *elements = (int32_t *)out;
    for (int part = 0; part < POP_AOX_PARTS; part++) {
        pop_aox_v word = pop_aox_next(v, part);
        pop_aox_v low = (word & 0xffffffff) * c->range, high = (word >> 32) * c->range;
        pop_aox_v drawn = (high + (low >> 32)) >> 32, rest = low + (high << 32);
        pop_aox_v bad = (pop_aox_v)(rest < ((pop_aox_v){0} + c->threshold));
        int lanes = POP_AOX_BYTES / 8, first = part * lanes;
        for (int l = 0; l < lanes; l++) {
            int32_t element = (int32_t)((int64_t)drawn[l] + c->offset);
            memcpy(elements + first + l, &element, 4);
            refused |= (uint32_t)(bad[l] & 1) << (first + l);
        }
    }
    for (; refused; refused &= refused - 1) {
        int lane = __builtin_ctz(refused);
        int32_t element = (int32_t)pop_r_redraw(c, row, lane);
        memcpy(elements + lane, &element, 4);
    }
}
#endif
