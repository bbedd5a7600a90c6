/* BF16 products on AMX tiles: 2 x 2 tiles of sums, 32 x 32 numbers, two tiles of A and two of B.
 *
 * A's rows of cells and B's lines of 32 cells load as tiles where they lie in their panels. A number of FP16 is the sum of
 * two BF16 numbers, so with low panels a step takes two passes (one operand split), or four with exact products, or three
 * without that of the low parts; small parts are added first. Sums go straight to and from row-major C; only ragged edges
 * pass through a buffer. On an Emerald Rapids core steps of tiles in the first-level cache take 28 ns, 2.35 TFLOP/s; loading and storing
 * the sums takes 100 ns a call, so that with 256 numbers of depth 1.6 is left. A row stride of C that is no multiple of 4 KiB is 10 % faster. */
#ifndef POP_DOT_TILES_H
#define POP_DOT_TILES_H
#include "kernels/amx.h"
#include "kernels/dot/dot.h"

enum { POP_TILES_LONG = 128 }; /* cells of a call from which it pays to ask for results early */

/* Multiply a step of 16 cells: tiles 4, 5 take A, tiles 6, 7 take B. Each product is asked for as soon as its tiles are: the
 * loads of the next ones go on meanwhile. */
#define POP_TILES_LOAD_A(from) \
    pop_tile_load(4, from, t->a_row); \
    if (rows == 2) pop_tile_load(5, (from) + half, t->a_row)
#define POP_TILES_LOAD_B(from) \
    pop_tile_load(6, from, t->b_cell); \
    if (cols == 2) pop_tile_load(7, (from) + 64, t->b_cell)
#define POP_TILES_MULTIPLY \
    pop_tile_bf16(0, 4, 6); \
    if (cols == 2) pop_tile_bf16(1, 4, 7); \
    if (rows == 2) pop_tile_bf16(2, 5, 6); \
    if (rows == 2 && cols == 2) pop_tile_bf16(3, 5, 7)

/* One tile of sums in or out of C, `rows` x `cols` of it (16 x 16 where it is whole). */
#define POP_TILE_OF_SUMS(number, r, q) \
    do { \
        float *c = t->c + 16 * (r) * t->c_row + 16 * (q), part[256] __attribute__((aligned(64))); \
        int64_t high = t->rows - 16 * (r), wide = t->cols - 16 * (q); \
        if (high > 16) high = 16; \
        if (wide > 16) wide = 16; \
        if (high == 16 && wide == 16) { \
            if (!store) pop_tile_load(number, c, 4 * t->c_row); \
            else pop_tile_store(number, c, 4 * t->c_row); \
        } else if (!store) { \
            memset(part, 0, sizeof part); \
            for (int64_t i = 0; i < high; i++) memcpy(part + 16 * i, c + i * t->c_row, (size_t)wide * 4); \
            pop_tile_load(number, part, 64); \
        } else { \
            pop_tile_store(number, part, 64); \
            for (int64_t i = 0; i < high; i++) memcpy(c + i * t->c_row, part + 16 * i, (size_t)wide * 4); \
        } \
    } while (0)

POP_INLINE void pop_tiles_sums(const int rows, const int cols, const int store, const pop_dot_block *t)
{
    POP_TILE_OF_SUMS(0, 0, 0);
    if (cols == 2) POP_TILE_OF_SUMS(1, 0, 1);
    if (rows == 2) POP_TILE_OF_SUMS(2, 1, 0);
    if (rows == 2 && cols == 2) POP_TILE_OF_SUMS(3, 1, 1);
}

POP_INLINE void pop_tiles_step(const int rows, const int cols, const int a_parts, const int b_parts,
                               const pop_dot_block *t, const char *a, const char *b)
{
    const int64_t half = t->a_half ? t->a_half : 16 * t->a_row;
    if (a_parts == 2 && b_parts == 2) {
        POP_TILES_LOAD_A(a + t->a_low);
        if (!t->skip_lows) {
            POP_TILES_LOAD_B(b + t->b_low);
            POP_TILES_MULTIPLY;
        }
        POP_TILES_LOAD_B(b);
        POP_TILES_MULTIPLY;
        POP_TILES_LOAD_A(a);
        POP_TILES_MULTIPLY; /* the largest products before the last small ones: B's high tiles are at hand */
        POP_TILES_LOAD_B(b + t->b_low);
        POP_TILES_MULTIPLY;
        return;
    }
    if (a_parts == 1 && b_parts == 1) {
        pop_tile_load(6, b, t->b_cell);
        pop_tile_load(4, a, t->a_row);
        pop_tile_bf16(0, 4, 6);
        if (cols == 2) {
            pop_tile_load(7, b + 64, t->b_cell);
            pop_tile_bf16(1, 4, 7);
        }
        if (rows == 2) {
            pop_tile_load(5, a + half, t->a_row);
            pop_tile_bf16(2, 5, 6);
            if (cols == 2) pop_tile_bf16(3, 5, 7);
        }
        return;
    }
    POP_TILES_LOAD_B(b);
    if (a_parts == 2) {
        POP_TILES_LOAD_A(a + t->a_low);
        POP_TILES_MULTIPLY;
    }
    POP_TILES_LOAD_A(a);
    POP_TILES_MULTIPLY;
    if (b_parts == 2) {
        POP_TILES_LOAD_B(b + t->b_low);
        POP_TILES_MULTIPLY;
    }
}

/* Cells of a step: a thread's, as its configuration of tiles is. */
static __thread int64_t pop_tiles_cells = 16;

static void pop_tiles_begin(void)
{
    pop_tiles_cells = 16;
    pop_amx_begin();
}

/* Steps of fewer cells, for depths that are so many times these: nothing is then multiplied by zeros. */
static void pop_tiles_begin_steps(int64_t cells)
{
    pop_tiles_cells = cells;
    pop_amx_begin_shaped(16, (int)cells);
}

POP_INLINE void pop_tiles_block(const int rows, const int cols, const int a_parts, const int b_parts,
                                const pop_dot_block *t)
{
    volatile pop_dot_ahead left;
    pop_dot_ahead_open(t, &left);
    if (t->cells * (t->more + 1) < POP_TILES_LONG) left.c_rows = 0;
    pop_tile_zero(0);
    pop_tile_zero(1);
    pop_tile_zero(2);
    pop_tile_zero(3);
    if (t->accumulate) pop_tiles_sums(rows, cols, 0, t);
    const int64_t step = pop_tiles_cells;
    for (int64_t run = 0;; run++) {
        const char *a = t->a, *b = t->b;
        if (run) a += t->a_at[run - 1], b += t->b_at[run - 1];
        for (int64_t k = 0; k < t->cells; k += step) {
            if (t->a_next_rows | t->c_next_rows) pop_dot_ahead_step(t, &left);
            pop_tiles_step(rows, cols, a_parts, b_parts, t, a + 4 * k, b + k * t->b_cell);
        }
        if (run >= t->more) break;
    }
    pop_tiles_sums(rows, cols, 1, t);
}

POP_INLINE void pop_tiles_shape(const int a_parts, const int b_parts, const pop_dot_block *t)
{
    if (t->rows > 16 && t->cols > 16) pop_tiles_block(2, 2, a_parts, b_parts, t);
    else if (t->rows > 16) pop_tiles_block(2, 1, a_parts, b_parts, t);
    else if (t->cols > 16) pop_tiles_block(1, 2, a_parts, b_parts, t);
    else pop_tiles_block(1, 1, a_parts, b_parts, t);
}

static void pop_multiply_tiles(const pop_dot_block *t)
{
    if (t->a_low && t->b_low) pop_tiles_shape(2, 2, t);
    else if (t->a_low) pop_tiles_shape(2, 1, t);
    else if (t->b_low) pop_tiles_shape(1, 2, t);
    else pop_tiles_shape(1, 1, t);
}

static const pop_kernel POP_PRODUCT_KERNELS[] = {
    {"multiply", "bfloat16", "tiles_32x32", POP_FUNCTION(pop_multiply_tiles), {16, 16, 32}, {32, 32, 32}, 0},
    {"multiply_parts", "bfloat16", "tiles_32x32_parts", POP_FUNCTION(pop_multiply_tiles), {16, 16, 32}, {32, 32, 32}, 0},
    {"begin", "bfloat16", "tiles_begin", POP_FUNCTION(pop_tiles_begin), {1, 1, 1}, {1, 1, 1}, 0},
    {"begin_steps", "bfloat16", "tiles_begin_steps", POP_FUNCTION(pop_tiles_begin_steps), {1, 1, 1}, {1, 1, 1}, 0},
    {"end", "bfloat16", "tiles_end", POP_FUNCTION(pop_amx_end), {1, 1, 1}, {1, 1, 1}, 0},
};
#endif
