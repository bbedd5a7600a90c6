/* Memory, and choices by masks. */
#ifndef POP_EMULATED_MOVES_H
#define POP_EMULATED_MOVES_H
#include "lanes.h"

POP_EMULATED void pop_loop_aligned(const void *p)
{
    if ((uintptr_t)p & 63) abort();
}
#define POP_LOOP_MOVES(suffix, type) \
    POP_EMULATED type _mm512_loadu_##suffix(const void *p) { type x; memcpy(&x, p, 64); return x; } \
    POP_EMULATED void _mm512_storeu_##suffix(void *p, type x) { memcpy(p, &x, 64); } \
    POP_EMULATED type _mm512_load_##suffix(const void *p) { pop_loop_aligned(p); return _mm512_loadu_##suffix(p); } \
    POP_EMULATED void _mm512_store_##suffix(void *p, type x) { pop_loop_aligned(p); memcpy(p, &x, 64); } \
    POP_EMULATED void _mm512_stream_##suffix(void *p, type x) { pop_loop_aligned(p); memcpy(p, &x, 64); }
POP_LOOP_MOVES(si512, __m512i)
POP_LOOP_MOVES(ps, __m512)
#define POP_LOOP_MASKED_MOVES(width, union_, type, k, suffix, lane, mask) \
    POP_EMULATED type _mm##width##_mask_loadu_##suffix(type from, mask m, const void *p) \
    { \
        union_ r = {.k = from}; \
        for (unsigned i = 0; i < sizeof r / sizeof *r.lane; i++) \
            if (m >> i & 1) memcpy(&r.lane[i], (const char *)p + i * sizeof *r.lane, sizeof *r.lane); \
        return r.k; \
    } \
    POP_EMULATED type _mm##width##_maskz_loadu_##suffix(mask m, const void *p) \
    { \
        return _mm##width##_mask_loadu_##suffix((type){0}, m, p); \
    } \
    POP_EMULATED void _mm##width##_mask_storeu_##suffix(void *p, mask m, type x) \
    { \
        union_ a = {.k = x}; \
        for (unsigned i = 0; i < sizeof a / sizeof *a.lane; i++) \
            if (m >> i & 1) memcpy((char *)p + i * sizeof *a.lane, &a.lane[i], sizeof *a.lane); \
    }
POP_LOOP_MASKED_MOVES(512, pop_512, __m512i, i, epi8, u8, __mmask64)
POP_LOOP_MASKED_MOVES(512, pop_512, __m512i, i, epi16, u16, __mmask32)
POP_LOOP_MASKED_MOVES(512, pop_512, __m512i, i, epi32, u32, __mmask16)
POP_LOOP_MASKED_MOVES(512, pop_512, __m512i, i, epi64, u64, __mmask8)
POP_LOOP_MASKED_MOVES(512, pop_512, __m512, f, ps, u32, __mmask16)
POP_LOOP_MASKED_MOVES(256, pop_256, __m256i, i, epi16, u16, __mmask16)
POP_LOOP_MASKED_MOVES(, pop_128, __m128i, i, epi8, u8, __mmask16)

/* Choices by masks. */
#define POP_LOOP_CHOICES(width, union_, type, k, suffix, lane, mask) \
    POP_EMULATED type _mm##width##_mask_mov_##suffix(type from, mask m, type x) \
    { \
        union_ r = {.k = from}, a = {.k = x}; \
        for (unsigned i = 0; i < sizeof r / sizeof *r.lane; i++) r.lane[i] = m >> i & 1 ? a.lane[i] : r.lane[i]; \
        return r.k; \
    } \
    POP_EMULATED type _mm##width##_maskz_mov_##suffix(mask m, type x) { return _mm##width##_mask_mov_##suffix((type){0}, m, x); }
POP_LOOP_CHOICES(512, pop_512, __m512i, i, epi8, u8, __mmask64)
POP_LOOP_CHOICES(512, pop_512, __m512i, i, epi16, u16, __mmask32)
POP_LOOP_CHOICES(512, pop_512, __m512i, i, epi32, u32, __mmask16)
POP_LOOP_CHOICES(512, pop_512, __m512, f, ps, u32, __mmask16)
POP_LOOP_CHOICES(512, pop_512, __m512d, d, pd, u64, __mmask8)
POP_LOOP_CHOICES(256, pop_256, __m256i, i, epi16, u16, __mmask16)
#endif
