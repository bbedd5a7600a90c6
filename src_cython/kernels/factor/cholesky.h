/* Cholesky: A = L L' by rows of blocks of four, each element one chain of fused multiply-adds in ascending order. */
#ifndef POP_FACTOR_CHOLESKY_H
#define POP_FACTOR_CHOLESKY_H
#include "kernels/factor/lanes.h"

#define POP_BLOCK 4
#define POP_EACH(i) _Pragma("GCC unroll 4") for (int i = 0; i < POP_BLOCK; i++)
#define POP_WIDE (POP_LANES == 16 ? 4 : 2) /* columns of a block of sums that the registers hold */

#define POP_COLUMNS_EACH(b) _Pragma("GCC unroll 4") for (int b = 0; b < POP_WIDE; b++)

/* What pivots of each matrix are between; 1 / L[j][j]. */
typedef struct lane_pivots {
    pop_v_f least, most;
    float *inverses;
} lane_pivots;

/* Rows i to i + 3 of columns j to j + POP_WIDE - 1 of L, `over` rows of which are over the diagonal: 0 to 3, or -1 where none is on it. */
POP_INLINE void cholesky_block(float *w, int64_t row, int64_t i, int64_t j, const int over, lane_pivots *pivots)
{
    pop_v_f s[POP_BLOCK][POP_WIDE];
    float *block = w + i * row + j * POP_CELL;
    const float *left = w + i * row, *right = w + j * row, *corner = right + j * POP_CELL;
    POP_EACH(a) POP_COLUMNS_EACH(b) s[a][b] = at(block + a * row + b * POP_CELL);
    for (int64_t k = 0; k < j; k++, left += POP_CELL, right += POP_CELL) {
        pop_v_f by[POP_WIDE];
        POP_COLUMNS_EACH(b) by[b] = -at(right + b * row);
        POP_EACH(a)
        {
            const pop_v_f x = at(left + a * row);
            POP_COLUMNS_EACH(b) s[a][b] = pop_v_fma(x, by[b], s[a][b]);
        }
    }
    POP_COLUMNS_EACH(b)
    {
        pop_v_f inverse;
#pragma GCC unroll 4
        for (int c = 0; c < b; c++) {
            const pop_v_f factor = -(over >= 0 ? s[over + b][c] : at(corner + b * row + c * POP_CELL));
            POP_EACH(a) s[a][b] = pop_v_fma(s[a][c], factor, s[a][b]);
        }
        if (over >= 0) {
            const pop_v_f pivot = s[over + b][b], root = pop_v_sqrt(pivot);
            pivots->least = pop_v_min_f(pivots->least, pivot);
            pivots->most = pop_v_max_f(pivot, pivots->most);
            inverse = pop_v_splat(1.0f) / root;
            pop_v_store_f(pivots->inverses + (j + b) * POP_CELL, inverse);
            POP_EACH(a) s[a][b] = s[a][b] * inverse;
            s[over + b][b] = root;
        } else {
            inverse = at(pivots->inverses + (j + b) * POP_CELL);
            POP_EACH(a) s[a][b] = s[a][b] * inverse;
        }
    }
    POP_EACH(a) POP_COLUMNS_EACH(b) pop_v_store_f(block + a * row + b * POP_CELL, s[a][b]);
}

/* Lower L over lower A, n x n with n a multiple of four, `row` floats from row to row; 1 / L[j][j] to inverses. The least
 * of the pivots, or NaN where one is. */
static pop_v_f factor_cholesky(float *w, int64_t row, int64_t n, float *inverses, lane_ahead *ahead)
{
    lane_pivots pivots = {pop_v_splat(INFINITY), pop_v_splat(0.0f), inverses};
    for (int64_t j = 0; j < n; j += POP_WIDE) {
        int64_t i = j & -POP_BLOCK;
        if (POP_WIDE == POP_BLOCK || i == j) cholesky_block(w, row, i, j, 0, &pivots);
        else cholesky_block(w, row, i, j, POP_BLOCK - POP_WIDE, &pivots);
        while ((i += POP_BLOCK) < n) {
            cholesky_block(w, row, i, j, -1, &pivots);
            prefetch_ahead(ahead);
        }
        prefetch_ahead(ahead);
    }
    /* a pivot too large for FP32 is infinite */
    return pop_v_select_f(pop_v_eq_f(pivots.most, pop_v_splat(INFINITY)), pivots.least, pop_v_splat(-1.0f));
}

/* Rows and columns from n to the next multiple of four: those of the identity. */
static void pad_identity(float *w, int64_t row, int64_t n, int64_t padded)
{
    for (int64_t i = n; i < padded; i++)
        for (int64_t j = 0; j < padded; j++) pop_v_store_f(w + i * row + j * POP_CELL, pop_v_splat(i == j ? 1.0f : 0.0f));
}

/* Operands: A, L, the status. `upper`: A's upper triangle is read, and U with A = U'U written, which is L'. */
static void cholesky_share(const void *p, const pop_tile *tile)
{
    const pop_factor_item *item = (const pop_factor_item *)p;
    const pop_factor_operand *from = &item->operands[0], *to = &item->operands[1];
    const int64_t n = item->rows, padded = (n + POP_BLOCK - 1) & -POP_BLOCK, row = (padded + 1) * POP_CELL, blocks = padded / POP_BLOCK;
    float *w = workspace_of(tile), *zero = w - POP_CELL, *inverses = w + padded * row;
    int32_t *room = (int32_t *)(void *)(inverses + padded * POP_CELL);
    /* a line of memory holds a row of the triangle, or a column of it where one of the two is so */
    int up = item->upper != from->transposed, up_to = item->upper != to->transposed;
    lane_block read = {w, up ? POP_CELL : row, up ? row : POP_CELL, n, n, up ? FROM_DIAGONAL : TO_DIAGONAL};
    lane_block made = {w, up_to ? POP_CELL : row, up_to ? row : POP_CELL, n, n, up_to ? FROM_DIAGONAL : TO_DIAGONAL};
    room = lay_block(&read, from->line, bytes_of(from->format), room, zero, 0);
    lay_block(&made, to->line, bytes_of(to->format), room, zero, 1);
    for (int64_t m = item->first; m < item->first + item->count; m += POP_LANES) {
        int lanes = (int)lesser(POP_LANES, item->first + item->count - m);
        gather_block(from, place_of(tile, from, m), lanes, &read);
        pad_identity(w, row, n, padded);
        lane_ahead ahead = ahead_of(tile, item, 2, m + POP_LANES, POP_LANES, blocks * (blocks + 1) / 2 * (POP_BLOCK / POP_WIDE));
        tell_status(place_of(tile, &item->operands[2], m), lanes, factor_cholesky(w, row, padded, inverses, &ahead));
        scatter_block(to, place_of(tile, to, m), lanes, &made);
    }
}
#endif
