/* Arithmetic of lanes, shifts, and what rounds. */
#ifndef POP_EMULATED_ARITHMETIC_H
#define POP_EMULATED_ARITHMETIC_H
#include "lanes.h"

POP_LOOP_BINARY(add_epi8, i, u8, a.u8[i] + b.u8[i])
POP_LOOP_BINARY(add_epi16, i, u16, a.u16[i] + b.u16[i])
POP_LOOP_BINARY(add_epi32, i, u32, a.u32[i] + b.u32[i])
POP_LOOP_BINARY(sub_epi16, i, u16, a.u16[i] - b.u16[i])
POP_LOOP_BINARY(sub_epi32, i, u32, a.u32[i] - b.u32[i])
POP_LOOP_BINARY(and_si512, i, u64, a.u64[i] & b.u64[i])
POP_LOOP_BINARY(or_si512, i, u64, a.u64[i] | b.u64[i])
POP_LOOP_BINARY(xor_si512, i, u64, a.u64[i] ^ b.u64[i])
POP_LOOP_BINARY(andnot_si512, i, u64, ~a.u64[i] & b.u64[i])
POP_LOOP_BINARY(or_epi32, i, u32, a.u32[i] | b.u32[i])
POP_LOOP_BINARY(xor_epi64, i, u64, a.u64[i] ^ b.u64[i])
POP_LOOP_BINARY(and_ps, f, u32, a.u32[i] & b.u32[i])
#define POP_LOOP_LESS(lane) (a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]) /* b where either is NaN, or both are zero */
#define POP_LOOP_MORE(lane) (a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i])
POP_LOOP_BINARY(max_epi16, i, i16, POP_LOOP_MORE(i16))
POP_LOOP_BINARY(max_epu16, i, u16, POP_LOOP_MORE(u16))
POP_LOOP_BINARY(min_epu16, i, u16, POP_LOOP_LESS(u16))
POP_LOOP_BINARY(max_epi32, i, i32, POP_LOOP_MORE(i32))
POP_LOOP_BINARY(max_epu32, i, u32, POP_LOOP_MORE(u32))
POP_LOOP_BINARY(min_epu32, i, u32, POP_LOOP_LESS(u32))
POP_LOOP_BINARY(max_epu64, i, u64, POP_LOOP_MORE(u64))
POP_LOOP_BINARY(min_epu64, i, u64, POP_LOOP_LESS(u64))
POP_LOOP_BINARY(max_ps, f, f32, POP_LOOP_MORE(f32))
POP_LOOP_BINARY(min_ps, f, f32, POP_LOOP_LESS(f32))
POP_LOOP_BINARY(max_pd, d, f64, POP_LOOP_MORE(f64))
POP_LOOP_BINARY(min_pd, d, f64, POP_LOOP_LESS(f64))
POP_LOOP_BINARY(add_ps, f, f32, a.f32[i] + b.f32[i])
POP_LOOP_BINARY(sub_ps, f, f32, a.f32[i] - b.f32[i])
POP_LOOP_BINARY(sllv_epi32, i, u32, b.u32[i] > 31 ? 0 : a.u32[i] << b.u32[i])
POP_LOOP_BINARY(srlv_epi32, i, u32, b.u32[i] > 31 ? 0 : a.u32[i] >> b.u32[i])
POP_LOOP_BINARY(madd_epi16, i, u32,
                (uint32_t)(a.i16[2 * i] * b.i16[2 * i]) + (uint32_t)(a.i16[2 * i + 1] * b.i16[2 * i + 1]))
POP_LOOP_UNARY(sqrt_ps, f, f32, __builtin_sqrtf(a.f32[i]))
POP_LOOP_UNARY(sqrt_pd, d, f64, __builtin_sqrt(a.f64[i]))
POP_LOOP_UNARY(floor_ps, f, f32, __builtin_floorf(a.f32[i]))
POP_LOOP_TERNARY(fmadd_ps, f, f32, __builtin_fmaf(a.f32[i], b.f32[i], c.f32[i]))
POP_LOOP_TERNARY(fmadd_pd, d, f64, __builtin_fma(a.f64[i], b.f64[i], c.f64[i]))
POP_LOOP_COUNTED(slli_epi16, u16, unsigned, by, n > 15 ? 0 : a.u16[i] << n)
POP_LOOP_COUNTED(slli_epi32, u32, unsigned, by, n > 31 ? 0 : a.u32[i] << n)
POP_LOOP_COUNTED(slli_epi64, u64, unsigned, by, n > 63 ? 0 : a.u64[i] << n)
POP_LOOP_COUNTED(srli_epi16, u16, unsigned, by, n > 15 ? 0 : a.u16[i] >> n)
POP_LOOP_COUNTED(srli_epi32, u32, unsigned, by, n > 31 ? 0 : a.u32[i] >> n)
POP_LOOP_COUNTED(srai_epi16, i16, unsigned, by, a.i16[i] >> (n > 15 ? 15 : n))
POP_LOOP_COUNTED(rol_epi64, u64, int, (uint64_t)by & 63, a.u64[i] << n | a.u64[i] >> (-n & 63))
#define POP_LOOP_LOW ((uint64_t)((pop_128){.i = by}).u64[0])
POP_LOOP_COUNTED(sll_epi16, u16, __m128i, POP_LOOP_LOW, n > 15 ? 0 : a.u16[i] << n)
POP_LOOP_COUNTED(sll_epi32, u32, __m128i, POP_LOOP_LOW, n > 31 ? 0 : a.u32[i] << n)
POP_LOOP_COUNTED(srl_epi32, u32, __m128i, POP_LOOP_LOW, n > 31 ? 0 : a.u32[i] >> n)

/* By a table of the bits of a, b and c. */
POP_EMULATED __m512i _mm512_ternarylogic_epi64(__m512i x, __m512i y, __m512i z, int table)
{
    __m512i r = {0};
    for (int k = 0; k < 8; k++)
        if (table >> k & 1) r |= (k & 4 ? x : ~x) & (k & 2 ? y : ~y) & (k & 1 ? z : ~z);
    return r;
}
POP_EMULATED __m512i _mm512_ternarylogic_epi32(__m512i x, __m512i y, __m512i z, int table)
{
    return _mm512_ternarylogic_epi64(x, y, z, table);
}

POP_EMULATED uint32_t pop_loop_bits(float x) { return ((pop_128){.f32 = {x}}).u32[0]; }
POP_EMULATED float pop_loop_float(uint32_t u) { return ((pop_128){.u32 = {u}}).f32[0]; }
POP_EMULATED int pop_loop_signals(float x) { return x != x && !(pop_loop_bits(x) & 0x400000u); }
POP_EMULATED float pop_loop_quiet(float x) { return pop_loop_float(pop_loop_bits(x) | 0x400000u); }
POP_EMULATED float pop_loop_round(float x, int how)
{
    if (x != x) return pop_loop_quiet(x);
    switch (how & 3) {
    case 0: return __builtin_rintf(x);
    case 1: return __builtin_floorf(x);
    case 2: return __builtin_ceilf(x);
    default: return __builtin_truncf(x);
    }
}
POP_EMULATED __m512 _mm512_roundscale_ps(__m512 x, int how)
{
    pop_512 a = {.f = x}, r;
    if (how & 0xf4) abort(); /* no fraction bits, and a mode of its own */
    POP_LOOP(16) r.f32[i] = pop_loop_round(a.f32[i], how);
    return r.f;
}
/* x less its whole part below, rounded downwards; -0 where that is zero. */
POP_EMULATED float pop_loop_reduce(float x)
{
    if (x != x) return pop_loop_quiet(x);
    if (__builtin_isinf(x)) return 0.0f;
    const float r = x > -0.5f && x < 0.0f ? (float)(1.0 - __builtin_ceil(-(double)x * 0x1p24) * 0x1p-24)
                                          : x - __builtin_floorf(x);
    return r == 0.0f ? -0.0f : r;
}
POP_EMULATED __m512 _mm512_reduce_ps(__m512 x, int how)
{
    pop_512 a = {.f = x}, r;
    if ((how & 0xf7) != 1) abort();
    POP_LOOP(16) r.f32[i] = pop_loop_reduce(a.f32[i]);
    return r.f;
}
/* The operand of the larger magnitude, with a's sign; the other one for a quiet NaN. */
POP_EMULATED __m512 _mm512_range_ps(__m512 x, __m512 y, int how)
{
    pop_512 a = {.f = x}, b = {.f = y}, r;
    if (how != 3) abort();
    POP_LOOP(16)
    {
        const uint32_t u = a.u32[i] & 0x7fffffffu, v = b.u32[i] & 0x7fffffffu;
        if (pop_loop_signals(a.f32[i])) r.f32[i] = pop_loop_quiet(a.f32[i]);
        else if (pop_loop_signals(b.f32[i])) r.f32[i] = pop_loop_quiet(b.f32[i]);
        else r.u32[i] = (v > 0x7f800000u ? u : u > 0x7f800000u ? v : u >= v ? u : v) | (a.u32[i] & 0x80000000u);
    }
    return r.f;
}
POP_EMULATED float pop_loop_scalef(float x, float n)
{
    const float endless = __builtin_inff();
    if (pop_loop_signals(x) || (x != x && n != endless && n != -endless)) return pop_loop_quiet(x);
    if (n != n) return pop_loop_quiet(n);
    if (x != x) return n > 0 ? endless : 0.0f;
    if ((x == 0.0f && n == endless) || (__builtin_isinf(x) && n == -endless)) return pop_loop_float(0xffc00000u);
    n = __builtin_floorf(n);
    return (float)__builtin_ldexp(x, n > 600 ? 600 : n < -600 ? -600 : (int)n);
}
POP_LOOP_BINARY(scalef_ps, f, f32, pop_loop_scalef(a.f32[i], b.f32[i]))
POP_EMULATED unsigned _mm512_reduce_min_epu32(__m512i x)
{
    pop_512 a = {.i = x};
    uint32_t least = a.u32[0];
    POP_LOOP(16) least = a.u32[i] < least ? a.u32[i] : least;
    return least;
}
#endif
