/* Lanes that change places, and vectors from numbers and from other vectors. */
#ifndef POP_EMULATED_PERMUTATIONS_H
#define POP_EMULATED_PERMUTATIONS_H
#include "lanes.h"

/* Within each 16 bytes: the low or high halves of two vectors in turns. */
#define POP_LOOP_UNPACK_LANES(suffix, k, lane, per, half) \
    POP_LOOP_BINARY(unpacklo_##suffix, k, lane, (i & 1 ? b.lane : a.lane)[i / per * per + i % per / 2]) \
    POP_LOOP_BINARY(unpackhi_##suffix, k, lane, (i & 1 ? b.lane : a.lane)[i / per * per + i % per / 2 + half])
POP_LOOP_UNPACK_LANES(epi8, i, u8, 16, 8)
POP_LOOP_UNPACK_LANES(epi16, i, u16, 8, 4)
POP_LOOP_UNPACK_LANES(epi32, i, u32, 4, 2)
POP_LOOP_UNPACK_LANES(epi64, i, u64, 2, 1)
POP_LOOP_UNPACK_LANES(ps, f, u32, 4, 2)
POP_LOOP_UNPACK_LANES(pd, d, u64, 2, 1)

/* Permutations: the indices are the first operand of one table, the second of two. */
#define POP_LOOP_PERMUTE(suffix, k, lane, bits) \
    POP_EMULATED POP_LOOP_TYPE_##k _mm512_permutexvar_##suffix(__m512i at, POP_LOOP_TYPE_##k x) \
    { \
        pop_512 a = {.k = x}, t = {.i = at}, r; \
        POP_LOOP(POP_LOOP_COUNT(lane)) r.lane[i] = a.lane[t.lane[i] & ((1 << bits) - 1)]; \
        return r.k; \
    } \
    POP_LOOP_MASKED(permutexvar_##suffix, k, lane, (__m512i at, POP_LOOP_TYPE_##k x), (at, x)) \
    POP_EMULATED POP_LOOP_TYPE_##k _mm512_permutex2var_##suffix(POP_LOOP_TYPE_##k x, __m512i at, POP_LOOP_TYPE_##k y) \
    { \
        pop_512 a = {.k = x}, b = {.k = y}, t = {.i = at}, r; \
        POP_LOOP(POP_LOOP_COUNT(lane)) \
            r.lane[i] = (t.lane[i] >> bits & 1 ? b.lane : a.lane)[t.lane[i] & ((1 << bits) - 1)]; \
        return r.k; \
    } \
    POP_EMULATED POP_LOOP_TYPE_##k _mm512_maskz_permutex2var_##suffix(POP_LOOP_MASK(lane) m, POP_LOOP_TYPE_##k x, __m512i at, \
                                                            POP_LOOP_TYPE_##k y) \
    { \
        pop_512 r = {.k = _mm512_permutex2var_##suffix(x, at, y)}; \
        POP_LOOP(POP_LOOP_COUNT(lane)) if (!(m >> i & 1)) r.lane[i] = 0; \
        return r.k; \
    }
POP_LOOP_PERMUTE(epi8, i, u8, 6)
POP_LOOP_PERMUTE(epi16, i, u16, 5)
POP_LOOP_PERMUTE(epi32, i, u32, 4)
POP_LOOP_PERMUTE(epi64, i, u64, 3)
POP_LOOP_PERMUTE(ps, f, u32, 4)

POP_EMULATED __m512i _mm512_shuffle_i64x2(__m512i x, __m512i y, int how)
{
    pop_512 a = {.i = x}, b = {.i = y}, r;
    POP_LOOP(4) r.i128[i] = (i < 2 ? a : b).i128[how >> 2 * i & 3];
    return r.i;
}
POP_EMULATED __m512i _mm512_shuffle_i32x4(__m512i x, __m512i y, int how) { return _mm512_shuffle_i64x2(x, y, how); }
POP_EMULATED __m512 _mm512_shuffle_ps(__m512 x, __m512 y, int how)
{
    pop_512 a = {.f = x}, b = {.f = y}, r;
    POP_LOOP(16) r.u32[i] = (i & 2 ? b.u32 : a.u32)[(i & ~3) + (how >> 2 * (i & 3) & 3)];
    return r.f;
}
POP_EMULATED __m512i _mm512_shuffle_epi32(__m512i x, int how) { return (__m512i)_mm512_shuffle_ps((__m512)x, (__m512)x, how); }

POP_EMULATED __m512i _mm512_maskz_compress_epi32(__mmask16 m, __m512i x)
{
    pop_512 a = {.i = x}, r = {.i = {0}};
    int n = 0;
    POP_LOOP(16) if (m >> i & 1) r.u32[n++] = a.u32[i];
    return r.i;
}
POP_EMULATED __m512i _mm512_maskz_compress_epi64(__mmask8 m, __m512i x)
{
    pop_512 a = {.i = x}, r = {.i = {0}};
    int n = 0;
    POP_LOOP(8) if (m >> i & 1) r.u64[n++] = a.u64[i];
    return r.i;
}
POP_EMULATED __m512i _mm512_mask_expand_epi32(__m512i from, __mmask16 m, __m512i x)
{
    pop_512 a = {.i = x}, r = {.i = from};
    int n = 0;
    POP_LOOP(16) if (m >> i & 1) r.u32[i] = a.u32[n++];
    return r.i;
}

#define POP_LOOP_SET1(suffix, k, lane, type) \
    POP_EMULATED POP_LOOP_TYPE_##k _mm512_set1_##suffix(type x) \
    { \
        pop_512 r; \
        POP_LOOP(POP_LOOP_COUNT(lane)) r.lane[i] = x; \
        return r.k; \
    }
POP_LOOP_SET1(epi8, i, i8, char)
POP_LOOP_SET1(epi16, i, i16, short)
POP_LOOP_SET1(epi32, i, i32, int)
POP_LOOP_SET1(epi64, i, i64, long long)
POP_LOOP_SET1(ps, f, f32, float)
POP_EMULATED __m512 _mm512_setzero_ps(void) { return (__m512){0}; }
POP_EMULATED __m512i _mm512_setzero_si512(void) { return (__m512i){0}; }
/* Most significant first, without parentheses: arrays of the same backwards. */
#define POP_LOOP_BACKWARDS(lane, ...) \
    ({ \
        const pop_512 pop_loop_a = {.lane = {__VA_ARGS__}}; \
        pop_512 pop_loop_r; \
        for (int pop_loop_i = 0; pop_loop_i < POP_LOOP_COUNT(lane); pop_loop_i++) \
            pop_loop_r.lane[pop_loop_i] = pop_loop_a.lane[POP_LOOP_COUNT(lane) - 1 - pop_loop_i]; \
        pop_loop_r.i; \
    })
#define _mm512_set_epi16(...) POP_LOOP_BACKWARDS(i16, __VA_ARGS__)
#define _mm512_set_epi32(...) POP_LOOP_BACKWARDS(i32, __VA_ARGS__)
#define _mm512_set_epi64(...) POP_LOOP_BACKWARDS(i64, __VA_ARGS__)
#define _mm512_setr_epi32(...) (((const pop_512){.i32 = {__VA_ARGS__}}).i)

POP_EMULATED pop_512 pop_loop_undefined(void)
{
    pop_512 r;
    POP_LOOP(32) r.u16[i] = 0xffa5;
    return r;
}
#define POP_LOOP_CAST(name, to, from) POP_EMULATED to _mm512_##name(from x) { return (to)x; }
POP_LOOP_CAST(castsi512_ps, __m512, __m512i)
POP_LOOP_CAST(castps_si512, __m512i, __m512)
POP_LOOP_CAST(castps_pd, __m512d, __m512)
POP_LOOP_CAST(castpd_ps, __m512, __m512d)
POP_EMULATED __m256i _mm512_castsi512_si256(__m512i x) { return ((pop_512){.i = x}).i256[0]; }
POP_EMULATED __m256 _mm512_castps512_ps256(__m512 x) { return ((pop_512){.f = x}).f256[0]; }
POP_EMULATED __m512i _mm512_castsi256_si512(__m256i x)
{
    pop_512 r = pop_loop_undefined();
    r.i256[0] = x;
    return r.i;
}
POP_EMULATED __m512 _mm512_castps256_ps512(__m256 x) { return (__m512)_mm512_castsi256_si512((__m256i)x); }
POP_EMULATED __m512 _mm512_castps128_ps512(__m128 x)
{
    pop_512 r = pop_loop_undefined();
    r.f128[0] = x;
    return r.f;
}
POP_EMULATED __m512i _mm512_zextsi256_si512(__m256i x)
{
    pop_512 r = {.i = {0}};
    r.i256[0] = x;
    return r.i;
}
POP_EMULATED __m512i _mm512_inserti64x4(__m512i x, __m256i y, int at)
{
    pop_512 r = {.i = x};
    r.i256[at & 1] = y;
    return r.i;
}
POP_EMULATED __m512 _mm512_insertf32x8(__m512 x, __m256 y, int at) { return (__m512)_mm512_inserti64x4((__m512i)x, (__m256i)y, at); }
POP_EMULATED __m512 _mm512_insertf32x4(__m512 x, __m128 y, int at)
{
    pop_512 r = {.f = x};
    r.f128[at & 3] = y;
    return r.f;
}
POP_EMULATED __m256i _mm512_extracti64x4_epi64(__m512i x, int at) { return ((pop_512){.i = x}).i256[at & 1]; }
POP_EMULATED __m256 _mm512_extractf32x8_ps(__m512 x, int at) { return ((pop_512){.f = x}).f256[at & 1]; }
POP_EMULATED __m512i _mm512_broadcast_i64x4(__m256i x) { return ((pop_512){.i256 = {x, x}}).i; }
POP_EMULATED __m512i _mm512_broadcast_i32x4(__m128i x) { return ((pop_512){.i128 = {x, x, x, x}}).i; }
POP_EMULATED __m512 _mm512_broadcast_f32x8(__m256 x) { return ((pop_512){.f256 = {x, x}}).f; }
POP_EMULATED __m512 _mm512_broadcast_f32x4(__m128 x) { return ((pop_512){.f128 = {x, x, x, x}}).f; }
#endif
