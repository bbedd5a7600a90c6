/* Conversions, and products of BF16, which are conversions for the most part. */
#ifndef POP_EMULATED_CONVERSIONS_H
#define POP_EMULATED_CONVERSIONS_H
#include "lanes.h"

#define POP_LOOP_CONVERT(name, to, to_union, tk, tlane, from, from_union, fk, flane, count, value) \
    POP_EMULATED to _mm512_##name(from x) \
    { \
        from_union a = {.fk = x}; \
        to_union r; \
        POP_LOOP(count) r.tlane[i] = value; \
        return r.tk; \
    }
#define POP_LOOP_WIDEN(name, tlane, from, from_union, flane) \
    POP_LOOP_CONVERT(name, __m512i, pop_512, i, tlane, from, from_union, i, flane, POP_LOOP_COUNT(tlane), a.flane[i])
POP_LOOP_WIDEN(cvtepu8_epi32, u32, __m128i, pop_128, u8)
POP_LOOP_WIDEN(cvtepu16_epi32, u32, __m256i, pop_256, u16)
POP_LOOP_WIDEN(cvtepu8_epi64, u64, __m128i, pop_128, u8)
POP_LOOP_WIDEN(cvtepu32_epi64, u64, __m256i, pop_256, u32)
POP_LOOP_WIDEN(cvtepi32_epi64, i64, __m256i, pop_256, i32)
#define POP_LOOP_NARROW(name, to, to_union, tlane, flane, value) \
    POP_LOOP_CONVERT(name, to, to_union, i, tlane, __m512i, pop_512, i, flane, POP_LOOP_COUNT(flane), value)
POP_LOOP_NARROW(cvtepi64_epi32, __m256i, pop_256, u32, u64, (uint32_t)a.u64[i])
POP_LOOP_NARROW(cvtepi32_epi16, __m256i, pop_256, u16, u32, (uint16_t)a.u32[i])
POP_LOOP_NARROW(cvtepi32_epi8, __m128i, pop_128, u8, u32, (uint8_t)a.u32[i])
POP_LOOP_NARROW(cvtepi16_epi8, __m256i, pop_256, u8, u16, (uint8_t)a.u16[i])
POP_LOOP_NARROW(cvtusepi64_epi32, __m256i, pop_256, u32, u64, a.u64[i] > UINT32_MAX ? UINT32_MAX : (uint32_t)a.u64[i])
POP_LOOP_NARROW(cvtusepi64_epi16, __m128i, pop_128, u16, u64, a.u64[i] > UINT16_MAX ? UINT16_MAX : (uint16_t)a.u64[i])
POP_LOOP_CONVERT(cvtps_pd, __m512d, pop_512, d, f64, __m256, pop_256, f, f32, 8, a.f32[i])
POP_LOOP_CONVERT(cvtpd_ps, __m256, pop_256, f, f32, __m512d, pop_512, d, f64, 8, (float)a.f64[i])
POP_EMULATED __m512 _mm512_cvtph_ps(__m256i x)
{
    pop_256 a = {.i = x};
    return ((pop_512){.f256 = {_mm256_cvtph_ps(a.i128[0]), _mm256_cvtph_ps(a.i128[1])}}).f;
}
POP_EMULATED __m256i _mm512_cvtps_ph(__m512 x, int how)
{
    pop_512 a = {.f = x};
    if (how & 7) abort(); /* to nearest even alone */
    return ((pop_256){.i128 = {_mm256_cvtps_ph(a.f256[0], 0), _mm256_cvtps_ph(a.f256[1], 0)}}).i;
}
/* A subnormal number is zero of its sign. */
POP_EMULATED float pop_loop_flushed(float x)
{
    pop_128 a;
    a.f32[0] = x;
    if (!(a.u32[0] & 0x7f800000u)) a.u32[0] &= 0x80000000u;
    return a.f32[0];
}
POP_EMULATED uint16_t pop_loop_bf16(uint32_t bits)
{
    if (!(bits & 0x7f800000u)) return (uint16_t)(bits >> 16 & 0x8000u);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
POP_EMULATED __m256bh _mm512_cvtneps_pbh(__m512 x)
{
    pop_512 a = {.f = x};
    pop_256 r;
    POP_LOOP(16) r.u16[i] = pop_loop_bf16(a.u32[i]);
    return r.h;
}
POP_EMULATED __m512bh _mm512_cvtne2ps_pbh(__m512 high, __m512 low)
{
    pop_512 a = {.f = low}, b = {.f = high}, r;
    POP_LOOP(16) r.u16[i] = pop_loop_bf16(a.u32[i]), r.u16[16 + i] = pop_loop_bf16(b.u32[i]);
    return r.h;
}
POP_EMULATED float pop_loop_of_bf16(uint16_t code)
{
    pop_128 a;
    a.u32[0] = (uint32_t)code << 16;
    return pop_loop_flushed(a.f32[0]);
}
/* The odd product is added first, then the even one; each sum is rounded once, to nearest even. */
POP_EMULATED __m512 _mm512_dpbf16_ps(__m512 sums, __m512bh x, __m512bh y)
{
    pop_512 a = {.h = x}, b = {.h = y}, r = {.f = sums};
    POP_LOOP(16)
    {
        float sum = pop_loop_flushed(r.f32[i]);
        sum = pop_loop_flushed(__builtin_fmaf(pop_loop_of_bf16(a.u16[2 * i + 1]), pop_loop_of_bf16(b.u16[2 * i + 1]), sum));
        r.f32[i] = pop_loop_flushed(__builtin_fmaf(pop_loop_of_bf16(a.u16[2 * i]), pop_loop_of_bf16(b.u16[2 * i]), sum));
    }
    return r.f;
}
#endif
