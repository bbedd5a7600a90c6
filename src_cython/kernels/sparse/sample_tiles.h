/* Dense times dense at a sparse pattern, on AMX tiles: blocks of at least 8 x 8.
 *
 * dW = dY X' sums along the columns, so a tile of A is 16 rows of dY by 32 columns where they lie, and the tile of X is the
 * transpose of 16 rows of it, as cells: made in registers, 64 permutes, and used by up to four tiles of dY below each
 * other. Lower or narrower blocks go in vector registers. */
#ifndef POP_SPARSE_SAMPLE_TILES_H
#define POP_SPARSE_SAMPLE_TILES_H
#include "kernels/sparse/sample.h"
#include "kernels/sparse/tiles.h"

/* 16 x 16 cells: interleaving the halves four times exchanges row and column (see transpose_sixteen). */
POP_INLINE void transpose_cells(__m512i rows[16])
{
    const __m512i front = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i back = _mm512_add_epi32(front, _mm512_set1_epi32(8));
    for (int round = 0; round < 4; round++) {
        __m512i next[16];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            next[2 * i] = _mm512_permutex2var_epi32(rows[i], front, rows[i + 8]);
            next[2 * i + 1] = _mm512_permutex2var_epi32(rows[i], back, rows[i + 8]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) rows[i] = next[i];
    }
}


/* 32 columns of at most 16 rows of X, transposed. */
static void cells_of_rows(const char *x, int64_t x_row, int64_t rows, int64_t columns, uint32_t cells[16][16])
{
    __m512i line[16];
    for (int i = 0; i < 16; i++)
        line[i] = _mm512_maskz_loadu_epi16(i < rows ? pop_columns_left(columns) : 0, i < rows ? x + i * x_row : x);
    transpose_cells(line);
    for (int i = 0; i < 16; i++) _mm512_store_si512(cells[i], line[i]);
}

/* A tile of dY's rows, through a buffer where it is not whole. */
#define LOAD_DY(i)                                                                                    \
    do {                                                                                              \
        const char *from = y + 16 * (i) * y_row + 2 * n;                                              \
        const int64_t rows = height - 16 * (i), left = columns - n;                                   \
        if (rows >= 16 && left >= 32) {                                                               \
            pop_tile_load(4, from, y_row);                                                            \
        } else {                                                                                      \
            for (int64_t e = 0; e < 16; e++)                                                          \
                _mm512_store_si512(part[e], _mm512_maskz_loadu_epi16(e < rows ? pop_columns_left(left) : 0, \
                                                                     e < rows ? from + e * y_row : from)); \
            pop_tile_load(4, part, 64);                                                               \
        }                                                                                             \
    } while (0)
#define DOT_TILE_OF_DY(i)        \
    if (height > 16 * (i)) {     \
        LOAD_DY(i);              \
        pop_tile_bf16(i, 4, 6);  \
    }

/* At most 64 rows of dY by 16 rows of X. */
static void dot_tiles(const char *y, int64_t y_row, const char *x, int64_t x_row, int64_t height, int64_t width,
                      int64_t columns, float *sums, int64_t sums_row)
{
    uint32_t cells[16][16] __attribute__((aligned(64))), part[16][16] __attribute__((aligned(64)));
    pop_tile_zero(0);
    pop_tile_zero(1);
    pop_tile_zero(2);
    pop_tile_zero(3);
    for (int64_t n = 0; n < columns; n += 32) {
        cells_of_rows(x + 2 * n, x_row, width, columns - n, cells);
        pop_tile_load(6, cells, 64);
        DOT_TILE_OF_DY(0)
        DOT_TILE_OF_DY(1)
        DOT_TILE_OF_DY(2)
        DOT_TILE_OF_DY(3)
    }
    PUT_TILE(0, sums, sums_row, height, width, 0);
    PUT_TILE(1, sums + 16 * sums_row, sums_row, height - 16, width, 0);
    PUT_TILE(2, sums + 32 * sums_row, sums_row, height - 32, width, 0);
    PUT_TILE(3, sums + 48 * sums_row, sums_row, height - 48, width, 0);
}

static void sample_tiles_block(const char *y, int64_t y_row, const char *x, int64_t x_row, int64_t height, int64_t width,
                               int64_t columns, float *sums, int64_t sums_row)
{
    if (height < 8 || width < 8) {
        sample_pairs_block(y, y_row, x, x_row, height, width, columns, sums, sums_row);
        return;
    }
    for (int64_t k = 0; k < width; k += 16)
        for (int64_t i = 0; i < height; i += 64)
            dot_tiles(y + i * y_row, y_row, x + k * x_row, x_row, least(64, height - i), least(16, width - k), columns,
                      sums + i * sums_row + k, sums_row);
}

static void sample_tiles(const void *item, const pop_tile *tile)
{
    pop_amx_begin();
    sample((const pop_sample_item *)item, tile, sample_tiles_block, sample_pairs_elements, 2);
    pop_amx_end();
}
#endif
