/* AMX tiles: the instructions where the level has them, software tiles under POP_EMULATE_AMX, so that what is built on them is
 * tested on machines without AMX.
 *
 * Eight tiles: 0 to 3 hold sums, 4 and 5 rows of A, 6 and 7 lines of B. pop_amx_begin configures them for this thread, whole
 * or in the shape that is asked for; pop_amx_end gives the state back (a thread that keeps it pays at every context
 * switch). Between the two nothing may be called that uses tiles itself: every tile register is the callee's.
 *
 * GCC's intrinsics are not used for what reads memory: its _tile_loadconfig names the first 8 of 64 bytes as its operand and
 * its _tile_loadd none at all, so that GCC 12 drops stores to a local configuration or buffer as dead. The asm
 * statements here clobber memory.
 *
 * The software tiles do as the Intel SDM writes TDPBF16PS: even and odd products of the pairs are summed apart, in ascending
 * order, by fused multiply-adds, then together, then added to the destination; each operation rounds to nearest even and
 * takes subnormal operands and results for zero, whatever MXCSR says. What the hardware would fault on (no configuration,
 * shapes that do not fit) gives NaN. */
#ifndef POP_AMX_H
#define POP_AMX_H
#include "kernels/abi.h"
#include <string.h>

/* The memory operand of LDTILECFG (palette 1). */
typedef struct pop_tile_config {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} pop_tile_config;

/* Sums and A have `rows` rows; a row of A is `cells` cells (pairs of BF16), B has as many lines. Both at most 16. */
static pop_tile_config pop_tile_shapes(int rows, int cells)
{
    pop_tile_config config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) {
        config.rows[i] = (uint8_t)(i < 6 ? rows : cells);
        config.row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? 4 * cells : 64);
    }
    return config;
}

#ifndef POP_EMULATE_AMX
#include <immintrin.h>

static void pop_amx_begin_shaped(int rows, int cells)
{
    const pop_tile_config config = pop_tile_shapes(rows, cells);
    __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

static void pop_amx_end(void) { _tile_release(); }

/* Tile numbers are literals: the instructions carry them. */
#define pop_tile_zero(t) _tile_zero(t)
#define pop_tile_load(t, from, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"((const void *)(from)), "r"((int64_t)(stride)) : "memory")
#define pop_tile_store(t, to, stride) _tile_stored(t, to, stride)
#define pop_tile_bf16(sums, a, b) _tile_dpbf16ps(sums, a, b)
#else

static __thread struct {
    pop_tile_config shape; /* palette 0: not configured */
    uint32_t cell[8][16][16];
} pop_tiles;

static void pop_amx_begin_shaped(int rows, int cells)
{
    memset(&pop_tiles, 0, sizeof pop_tiles);
    pop_tiles.shape = pop_tile_shapes(rows, cells);
}

static void pop_amx_end(void) { memset(&pop_tiles, 0, sizeof pop_tiles); }

static void pop_tile_zero(int t) { memset(pop_tiles.cell[t], 0, sizeof pop_tiles.cell[t]); }

static void pop_tile_load(int t, const void *from, int64_t stride)
{
    pop_tile_zero(t);
    for (int r = 0; r < pop_tiles.shape.rows[t]; r++)
        memcpy(pop_tiles.cell[t][r], (const char *)from + r * stride, pop_tiles.shape.row_bytes[t]);
}

static void pop_tile_store(int t, void *to, int64_t stride)
{
    for (int r = 0; r < pop_tiles.shape.rows[t]; r++)
        memcpy((char *)to + r * stride, pop_tiles.cell[t][r], pop_tiles.shape.row_bytes[t]);
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

/* Whether TDPBF16PS takes these tiles. */
static int pop_tiles_fit(int sums, int a, int b)
{
    const pop_tile_config *s = &pop_tiles.shape;
    return s->palette == 1 && sums != a && sums != b && a != b && s->rows[sums] == s->rows[a] &&
           s->row_bytes[sums] == s->row_bytes[b] && s->row_bytes[a] == 4 * s->rows[b] && s->rows[a] && s->rows[b] &&
           s->rows[a] <= 16 && s->rows[b] <= 16;
}

static void pop_tile_bf16(int sums, int a, int b)
{
    const int fit = pop_tiles_fit(sums, a, b), rows = fit ? pop_tiles.shape.rows[sums] : 16;
    for (int r = 0; r < rows; r++)
        for (int n = 0; n < 16; n++) {
            float part[2] = {0.0f, 0.0f}, total;
            for (int k = 0; k < pop_tiles.shape.rows[b]; k++)
                for (int odd = 0; odd < 2; odd++)
                    part[odd] = pop_flushed(__builtin_fmaf(pop_half_cell(pop_tiles.cell[a][r][k], odd),
                                                           pop_half_cell(pop_tiles.cell[b][k][n], odd), part[odd]));
            memcpy(&total, &pop_tiles.cell[sums][r][n], 4);
            total = pop_flushed(pop_flushed(total) + pop_flushed(part[0] + part[1]));
            if (!fit) total = __builtin_nanf("");
            memcpy(&pop_tiles.cell[sums][r][n], &total, 4);
        }
}
#endif

static void pop_amx_begin(void) { pop_amx_begin_shaped(16, 16); }
#endif
