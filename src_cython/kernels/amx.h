/* AMX tiles: the intrinsics where the level has them, software tiles under POP_EMULATE_AMX, so that what is built on them is
 * tested on machines without AMX.
 *
 * Eight tiles of 16 rows x 64 bytes. pop_amx_begin configures all of them whole, for this thread; pop_amx_end gives the
 * state back (a thread that keeps it pays at every context switch). The software tiles do as the Intel SDM writes
 * TDPBF16PS: even and odd products of the 16 pairs are summed apart, in ascending order, then together, then added to the
 * destination; each operation rounded to nearest even, subnormal operands and results taken for zero. */
#ifndef POP_AMX_H
#define POP_AMX_H
#include "kernels/abi.h"
#include <string.h>

#ifndef POP_EMULATE_AMX
#include <immintrin.h>

static void pop_amx_begin(void)
{
    struct { uint8_t palette, start, reserved[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) config.row_bytes[i] = 64, config.rows[i] = 16;
    _tile_loadconfig(&config);
}

static void pop_amx_end(void) { _tile_release(); }

/* Tile numbers are literals: the instructions carry them. */
#define pop_tile_zero(t) _tile_zero(t)
#define pop_tile_load(t, from, stride) _tile_loadd(t, from, stride)
#define pop_tile_store(t, to, stride) _tile_stored(t, to, stride)
#define pop_tile_bf16(sums, a, b) _tile_dpbf16ps(sums, a, b)
#else

static __thread struct { int configured; uint32_t cell[8][16][16]; } pop_tiles;

static void pop_amx_begin(void)
{
    memset(&pop_tiles, 0, sizeof pop_tiles);
    pop_tiles.configured = 1;
}

static void pop_amx_end(void) { pop_tiles.configured = 0; }

static void pop_tile_zero(int t) { memset(pop_tiles.cell[t], 0, sizeof pop_tiles.cell[t]); }

static void pop_tile_load(int t, const void *from, int64_t stride)
{
    for (int r = 0; r < 16; r++) memcpy(pop_tiles.cell[t][r], (const char *)from + r * stride, 64);
}

static void pop_tile_store(int t, void *to, int64_t stride)
{
    for (int r = 0; r < 16; r++) memcpy((char *)to + r * stride, pop_tiles.cell[t][r], 64);
}

/* A subnormal number is zero of its sign. */
static float pop_flushed(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (!(bits & 0x7f800000u)) bits &= 0x80000000u;
    memcpy(&x, &bits, 4);
    return x;
}

static float pop_half_cell(uint32_t cell, int odd)
{
    uint32_t bits = odd ? cell & 0xffff0000u : cell << 16;
    float x;
    memcpy(&x, &bits, 4);
    return pop_flushed(x);
}

static void pop_tile_bf16(int sums, int a, int b)
{
    if (!pop_tiles.configured) return; /* the hardware would fault; here the results are wrong */
    for (int r = 0; r < 16; r++)
        for (int n = 0; n < 16; n++) {
            float part[2] = {0.0f, 0.0f}, total;
            for (int k = 0; k < 16; k++)
                for (int odd = 0; odd < 2; odd++) {
                    float product = pop_half_cell(pop_tiles.cell[a][r][k], odd) * pop_half_cell(pop_tiles.cell[b][k][n], odd);
                    part[odd] = pop_flushed(part[odd] + pop_flushed(product));
                }
            memcpy(&total, &pop_tiles.cell[sums][r][n], 4);
            total = pop_flushed(pop_flushed(total) + pop_flushed(part[0] + part[1]));
            memcpy(&pop_tiles.cell[sums][r][n], &total, 4);
        }
}
#endif
#endif
