/* How fast the units of this level can go: chains of multiply-adds in registers alone, with no load or store.
 *
 * Twelve independent chains cover a latency of six cycles at two operations a cycle, and with the two factors they fit the
 * sixteen registers of AVX2. A probe runs `rounds` rounds and returns the floating-point operations that it did. Measured on
 * one Zen 5 core: AVX2 143, AVX-512 286 and VDPBF16PS 528 GFLOP/s. */
#ifndef POP_PEAK_H
#define POP_PEAK_H
#include "kernels/abi.h"

#define POP_PEAK_CHAINS 12

static volatile float pop_peak_sink; /* keeps the compiler from dropping the chains */

#if POP_LEVEL < POP_LEVEL_AVX2
typedef float pop_peak_lanes __attribute__((vector_size(16)));
#define POP_PEAK_LANES 4
#define POP_PEAK_SET(x) ((pop_peak_lanes){x, x, x, x})
#define POP_PEAK_FMA(a, b, c) ((a) * (b) + (c))
#elif POP_LEVEL < POP_LEVEL_AVX512
#include <immintrin.h>
typedef __m256 pop_peak_lanes;
#define POP_PEAK_LANES 8
#define POP_PEAK_SET(x) _mm256_set1_ps(x)
#define POP_PEAK_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#else
#include <immintrin.h>
typedef __m512 pop_peak_lanes;
#define POP_PEAK_LANES 16
#define POP_PEAK_SET(x) _mm512_set1_ps(x)
#define POP_PEAK_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#endif

static int64_t pop_peak_float32(int64_t rounds)
{
    pop_peak_lanes chain[POP_PEAK_CHAINS], factor = POP_PEAK_SET(0.5f), term = POP_PEAK_SET(1.0f);
    for (int i = 0; i < POP_PEAK_CHAINS; i++) chain[i] = POP_PEAK_SET((float)i);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < POP_PEAK_CHAINS; i++) chain[i] = POP_PEAK_FMA(chain[i], factor, term);
    }
    for (int i = 1; i < POP_PEAK_CHAINS; i++) chain[0] += chain[i];
    pop_peak_sink = chain[0][0];
    return rounds * POP_PEAK_CHAINS * POP_PEAK_LANES * 2;
}

#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
static int64_t pop_peak_bfloat16(int64_t rounds)
{
    __m512 chain[POP_PEAK_CHAINS];
    __m512bh factor = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f));
    for (int i = 0; i < POP_PEAK_CHAINS; i++) chain[i] = _mm512_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < POP_PEAK_CHAINS; i++) chain[i] = _mm512_dpbf16_ps(chain[i], factor, factor);
    }
    for (int i = 1; i < POP_PEAK_CHAINS; i++) chain[0] += chain[i];
    pop_peak_sink = chain[0][0];
    return rounds * POP_PEAK_CHAINS * 32 * 2;
}
#endif

#if POP_LEVEL >= POP_LEVEL_AMX && !defined(POP_EMULATE_AMX)
#include "kernels/amx.h"
/* Four accumulator tiles, two tiles of each operand: every pair once a round. */
static int64_t pop_peak_bfloat16_tiles(int64_t rounds)
{
    pop_amx_begin();
    _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
    _tile_zero(4); _tile_zero(5); _tile_zero(6); _tile_zero(7);
    for (int64_t r = 0; r < rounds; r++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    pop_amx_end();
    return rounds * 4 * 16 * 16 * 32 * 2;
}
#endif

#if POP_LEVEL == POP_LEVEL_AVX512
#include "kernels/peak/rows.h"
#include "kernels/peak/walk.h"
#endif

static const pop_kernel POP_PEAK_KERNELS[] = {
    {"fma", "float32", "peak_float32", POP_FUNCTION(pop_peak_float32), {1, POP_PEAK_LANES, 1},
     {POP_PEAK_CHAINS, POP_PEAK_LANES, 1}, 0},
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16 && (POP_LEVEL < POP_LEVEL_AMX || defined(POP_EMULATE_AMX)) /* a level has one unit for a format */
    {"fma", "bfloat16", "peak_bfloat16", POP_FUNCTION(pop_peak_bfloat16), {1, 16, 2}, {POP_PEAK_CHAINS, 16, 2}, 0},
#endif
#if POP_LEVEL >= POP_LEVEL_AMX && !defined(POP_EMULATE_AMX)
    {"fma", "bfloat16", "peak_bfloat16_tiles", POP_FUNCTION(pop_peak_bfloat16_tiles), {16, 16, 32}, {32, 32, 32}, 0},
#endif
#if POP_LEVEL == POP_LEVEL_AVX512
    POP_WALK_ROW(1, 1, 1), POP_WALK_ROW(1, 4, 1), POP_WALK_ROW(4, 1, 4), POP_WALK_ROW(4, 4, 4), POP_WALK_ROW(8, 1, 4),
    POP_WALK_ROW(8, 2, 4), {"write", "bytes", "write_past_caches", POP_FUNCTION(pop_peak_write), {1, 64, 1}, {1, 64, 1}, 0},
    POP_PEAK_ROWS(gather), POP_PEAK_ROWS(scatter), POP_PEAK_ROWS(add), POP_PEAK_ROWS(bags),
#endif
};
#endif
