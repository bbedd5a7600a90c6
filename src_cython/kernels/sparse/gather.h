/* Block-sparse times dense in BF16 on AMX tiles, for blocks that are no tiles: lower than 16 rows, or of odd sizes.
 *
 * The rows of cells of up to 32 elements of depth are gathered from as many stored blocks of a block row as that
 * takes, four of 8 x 8 or eight of 4 x 4, and so are the rows of X that they meet, interleaved to cells on the way: four
 * loads, four permutes and four stores for a line of 64 columns. Then one tile of A meets four tiles of X. Tiles are as
 * high as the block, 16 rows at most; where fewer rows are left, sums of what the buffer held before are not stored. Two
 * sets of buffers take turns, so that stores to one do not wait for the tiles that read the other. */
#ifndef POP_SPARSE_GATHER_H
#define POP_SPARSE_GATHER_H
#include "kernels/sparse/dp.h"
#include "kernels/sparse/tiles.h"

typedef struct pop_gathered {
    uint32_t a[16][16];    /* rows of cells */
    uint32_t x[16][TILE_COLUMNS]; /* lines of cells */
} pop_gathered;

static void multiply_gathered(pop_gathered *g, int64_t lines, int64_t wide)
{
    for (int64_t l = lines; l < 16; l++) {
        for (int64_t i = 0; i < 16; i++) g->a[i][l] = 0;
        memset(g->x[l], 0, sizeof g->x[l]);
    }
    pop_tile_load(4, g->a, 64);
    ONE_PASS(0, 6, (const char *)g->x);
    if (wide > 1) { ONE_PASS(1, 7, (const char *)g->x); }
    if (wide > 2) { ONE_PASS(2, 6, (const char *)g->x); }
    if (wide > 3) { ONE_PASS(3, 7, (const char *)g->x); }
}

/* One line: the cells of `rows` rows of W, and the two rows of X that they meet (the same one twice if it is alone). */
POP_INLINE void gather_line(pop_gathered *g, int64_t line, int64_t rows, const char *w, int64_t down, int single,
                            const char *x, int64_t x_row, int64_t columns)
{
    static const uint16_t zeros[TILE_COLUMNS];
    for (int64_t i = 0; i < rows; i++) {
        uint32_t cell = 0;
        memcpy(&cell, w + i * down, single ? 2 : 4);
        g->a[i][line] = cell;
    }
    put_cells((const uint16_t *)x, single ? zeros : (const uint16_t *)(x + x_row), columns, (char *)g->x[line]);
}

/* Some rows of one block row over at most 64 columns. */
static void gather_rows(const pop_sparse_item *t, const pop_sparse_view *s, pop_gathered both[2], int64_t r, int64_t row,
                        int64_t rows, int64_t column, float *y)
{
    const int64_t columns = least(TILE_COLUMNS, s->columns - column), wide = (columns + 15) / 16;
    int64_t lines = 0, turn = 0;
    pop_tile_zero(0);
    pop_tile_zero(1);
    pop_tile_zero(2);
    pop_tile_zero(3);
    for (int64_t q = s->offsets[r]; q < s->offsets[r + 1]; q++) {
        const int64_t c = s->inner[q], n = least(t->block_depth, t->depth - c * t->block_depth);
        const char *x = s->x + c * t->block_depth * s->x_row + 2 * column;
        const char *w = s->values + (s->order ? s->order[q] : q) * t->value_block + row * t->value_row;
        for (int64_t k = 0; k < n; k += 2, x += 2 * s->x_row, w += t->value_depth) {
            gather_line(&both[turn], lines, rows, w, t->value_row, k + 1 == n, x, s->x_row, columns);
            if (++lines < 16) continue;
            multiply_gathered(&both[turn], lines, wide);
            lines = 0;
            turn ^= 1;
        }
    }
    if (lines) multiply_gathered(&both[turn], lines, wide);
    /* Tiles may be lower than 16 rows here: PUT_TILE stores those through its buffer. */
    PUT_TILE(0, y, s->y_row, rows, columns, s->stream);
    PUT_TILE(1, y + 16, s->y_row, rows, columns - 16, s->stream);
    PUT_TILE(2, y + 32, s->y_row, rows, columns - 32, s->stream);
    PUT_TILE(3, y + 48, s->y_row, rows, columns - 48, s->stream);
}

static void gather_sweep(const pop_sparse_item *t, pop_sparse_view *s)
{
    const int64_t high = least(16, s->height);
    pop_gathered both[2] __attribute__((aligned(64)));
    if (t->block_rows < 4) { /* few rows leave a tile empty: pairs in vector registers */
        dp_sweep(t, s);
        return;
    }
    pop_amx_begin_shaped((int)high, 16);
    for (int64_t r = s->first; r < s->last; r++)
        for (int64_t j = 0; j < s->columns; j += TILE_COLUMNS)
            for (int64_t row = 0; row < s->height; row += high) {
                const int64_t rows = least(high, s->height - row);
                gather_rows(t, s, both, r, row, rows, j,
                            s->y + ((r - s->first) * t->block_rows + row) * s->y_row + j);
            }
    pop_amx_end();
    if (s->stream) _mm_sfence();
}

static void gather_bf16(const void *item, const pop_tile *tile)
{
    frame((const pop_sparse_item *)item, tile, gather_sweep, 1);
}
#endif
