/* Masks from comparisons, tests and classes. */
#ifndef POP_EMULATED_MASKS_H
#define POP_EMULATED_MASKS_H
#include "lanes.h"

#define POP_LOOP_TO_MASK(width, union_, name, lane, mask, value) \
    POP_EMULATED mask _mm##width##_##name##_mask(__m##width##i x, __m##width##i y) \
    { \
        union_ a = {.i = x}, b = {.i = y}; \
        mask r = 0; \
        for (unsigned i = 0; i < sizeof a / sizeof *a.lane; i++) r |= (mask)((mask)(value) << i); \
        return r; \
    } \
    POP_EMULATED mask _mm##width##_mask_##name##_mask(mask m, __m##width##i x, __m##width##i y) \
    { \
        return m & _mm##width##_##name##_mask(x, y); \
    }
#define POP_LOOP_COMPARISONS(width, union_, suffix, lane, mask) \
    POP_LOOP_TO_MASK(width, union_, cmpeq_##suffix, lane, mask, a.lane[i] == b.lane[i]) \
    POP_LOOP_TO_MASK(width, union_, cmplt_##suffix, lane, mask, a.lane[i] < b.lane[i]) \
    POP_LOOP_TO_MASK(width, union_, cmple_##suffix, lane, mask, a.lane[i] <= b.lane[i]) \
    POP_LOOP_TO_MASK(width, union_, cmpgt_##suffix, lane, mask, a.lane[i] > b.lane[i]) \
    POP_LOOP_TO_MASK(width, union_, cmpge_##suffix, lane, mask, a.lane[i] >= b.lane[i])
POP_LOOP_COMPARISONS(512, pop_512, epi8, i8, __mmask64)
POP_LOOP_COMPARISONS(512, pop_512, epu8, u8, __mmask64)
POP_LOOP_COMPARISONS(512, pop_512, epi16, i16, __mmask32)
POP_LOOP_COMPARISONS(512, pop_512, epu16, u16, __mmask32)
POP_LOOP_COMPARISONS(512, pop_512, epi32, i32, __mmask16)
POP_LOOP_COMPARISONS(512, pop_512, epu32, u32, __mmask16)
POP_LOOP_COMPARISONS(512, pop_512, epi64, i64, __mmask8)
POP_LOOP_COMPARISONS(512, pop_512, epu64, u64, __mmask8)
POP_LOOP_COMPARISONS(256, pop_256, epi16, i16, __mmask16)
POP_LOOP_TO_MASK(512, pop_512, test_epi8, u8, __mmask64, (a.u8[i] & b.u8[i]) != 0)
POP_LOOP_TO_MASK(512, pop_512, test_epi16, u16, __mmask32, (a.u16[i] & b.u16[i]) != 0)
POP_LOOP_TO_MASK(512, pop_512, test_epi32, u32, __mmask16, (a.u32[i] & b.u32[i]) != 0)
POP_LOOP_TO_MASK(512, pop_512, testn_epi16, u16, __mmask32, (a.u16[i] & b.u16[i]) == 0)
POP_LOOP_TO_MASK(256, pop_256, test_epi16, u16, __mmask16, (a.u16[i] & b.u16[i]) != 0)
POP_EMULATED __mmask32 _mm512_movepi16_mask(__m512i x) { return _mm512_cmplt_epi16_mask(x, (__m512i){0}); }
POP_EMULATED __mmask16 _mm512_cmp_epi32_mask(__m512i x, __m512i y, int how)
{
    const __mmask16 equal = _mm512_cmpeq_epi32_mask(x, y), less = _mm512_cmplt_epi32_mask(x, y);
    const __mmask16 found = (how & 3) == 0 ? equal : (how & 3) == 1 ? less : (how & 3) == 2 ? equal | less : 0;
    return how & 4 ? ~found : found;
}
/* The predicates of VCMPPS, by what a and b are: bit 0 unordered, 1 less, 2 equal, 3 greater. */
POP_EMULATED int pop_loop_holds(int how, int is)
{
    static const uint8_t when[16] = {0x4, 0x2, 0x6, 0x1, 0xb, 0xd, 0x9, 0xe, 0x5, 0x3, 0x7, 0x0, 0xa, 0xc, 0x8, 0xf};
    return (when[how & 15] & is) != 0;
}
#define POP_LOOP_COMPARE(suffix, k, lane) \
    POP_EMULATED POP_LOOP_MASK(lane) _mm512_cmp_##suffix##_mask(POP_LOOP_TYPE_##k x, POP_LOOP_TYPE_##k y, int how) \
    { \
        pop_512 a = {.k = x}, b = {.k = y}; \
        POP_LOOP_MASK(lane) r = 0; \
        POP_LOOP(POP_LOOP_COUNT(lane)) \
        { \
            const int is = a.lane[i] < b.lane[i] ? 2 : a.lane[i] == b.lane[i] ? 4 : a.lane[i] > b.lane[i] ? 8 : 1; \
            r |= (POP_LOOP_MASK(lane))(pop_loop_holds(how, is) << i); \
        } \
        return r; \
    } \
    POP_EMULATED POP_LOOP_MASK(lane) _mm512_mask_cmp_##suffix##_mask(POP_LOOP_MASK(lane) m, POP_LOOP_TYPE_##k x, POP_LOOP_TYPE_##k y, int how) \
    { \
        return m & _mm512_cmp_##suffix##_mask(x, y, how); \
    }
POP_LOOP_COMPARE(ps, f, f32)
POP_LOOP_COMPARE(pd, d, f64)
POP_EMULATED __mmask16 _mm512_fpclass_ps_mask(__m512 x, int classes)
{
    pop_512 a = {.f = x};
    __mmask16 r = 0;
    POP_LOOP(16)
    {
        const uint32_t sign = a.u32[i] >> 31, exponent = a.u32[i] >> 23 & 255, rest = a.u32[i] & 0x7fffff;
        int is = 0;
        if (exponent == 255 && rest) is = rest >> 22 ? 0x01 : 0x80;
        else if (exponent == 255) is = sign ? 0x10 : 0x08;
        else if (!exponent && !rest) is = sign ? 0x04 : 0x02;
        else is = (exponent ? 0 : 0x20) | (sign ? 0x40 : 0);
        r |= (__mmask16)(((is & classes) != 0) << i);
    }
    return r;
}
#endif
