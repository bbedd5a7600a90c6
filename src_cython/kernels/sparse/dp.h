/* Block-sparse times dense in BF16, by VDPBF16PS: two products and their sum for each lane at a time, FP32 accumulators.
 *
 * Where a strip of X goes to a panel, or was prepared, its rows lie there as pairs already and the shapes of fma.h take
 * it. What follows is X as it lies.
 *
 * The instruction wants pairs along the sum. W has them where it is stored (two neighbours of a block's row; for 1 x 1 blocks
 * two neighbouring blocks), so a pair is one broadcast. X is read row by row as it lies and interleaved in registers: two
 * rows of 32 columns, two unpacks. Those leave the columns of an accumulator in the order 0-3, 8-11, ... and 4-7, 12-15, ...,
 * which is undone once, when the sums are stored. A sweep holds R rows x NZ times 32 columns: 8 x 1 takes 10 loads and 2
 * unpacks for 16 VDPBF16PS. An odd last row is paired with zeros.
 *
 * Order: for each pair, the instruction's own order; pairs in the order of the pattern. Subnormal inputs and results are
 * flushed to zero by the instruction. */
#ifndef POP_SPARSE_DP_H
#define POP_SPARSE_DP_H
#include "kernels/sparse/pairs.h"
#include "kernels/sparse/shapes.h"

#define PAIR_COLUMNS 32

typedef struct pair_masks {
    __mmask32 load;
    __mmask16 low, high;
} pair_masks;

POP_INLINE pair_masks masks_of(int64_t columns)
{
    const __mmask32 m = pop_columns_left(columns);
    return (pair_masks){m, (__mmask16)m, (__mmask16)(m >> 16)};
}

/* The dword of two neighbouring values, or of one value and a zero. */
POP_INLINE __m512bh weight_pair(const char *w, int single)
{
    uint32_t pair = 0;
    if (single) {
        uint16_t one;
        memcpy(&one, w, 2);
        pair = one;
    } else {
        memcpy(&pair, w, 4);
    }
    return (__m512bh)_mm512_set1_epi32((int32_t)pair);
}

/* R x NZ x 32 sums take one pair of X's rows; `second` is NULL where there is none. */
POP_INLINE void pair_step(const int R, const int NZ, const int single, const char *w, const char *w4, int64_t down,
                          const char *first, const char *second, __mmask32 m, __m512 acc[8][16])
{
    __m512i low[8], high[8];
#pragma GCC unroll 8
    for (int z = 0; z < NZ; z++) {
        const __mmask32 some = z < NZ - 1 ? 0xffffffffu : m;
        const __m512i a = _mm512_maskz_loadu_epi16(some, first + z * 64);
        const __m512i b = single ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi16(some, second + z * 64);
        low[z] = _mm512_unpacklo_epi16(a, b);
        high[z] = _mm512_unpackhi_epi16(a, b);
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; i++) {
        const __m512bh pair = weight_pair(i < 4 ? w + i * down : w4 + (i - 4) * down, single);
#pragma GCC unroll 8
        for (int z = 0; z < NZ; z++) {
            acc[i][2 * z] = _mm512_dpbf16_ps(acc[i][2 * z], pair, (__m512bh)low[z]);
            acc[i][2 * z + 1] = _mm512_dpbf16_ps(acc[i][2 * z + 1], pair, (__m512bh)high[z]);
        }
    }
}

/* How a sweep meets values: blocks as they are stored, in the order of another pattern, single elements as they are
 * stored. A function for each, for the registers: asking ahead would cost the first a tenth. */
enum { DP_STORED, DP_ORDERED, DP_ONES };

/* Blocks deeper than one element: pairs inside each block. */
POP_INLINE void pairs_in_blocks(const int R, const int NZ, const int HOW, const pop_sparse_item *t,
                                const pop_sparse_view *s, int64_t q0, int64_t q1, const char *w0, const char *x0,
                                __mmask32 m, __m512 acc[8][16])
{
    const int64_t ldx = s->x_row, down = t->value_row, along = t->value_depth, xblock = ldx * t->block_depth;
    const int64_t end = HOW == DP_ORDERED ? s->offsets[s->last] - 1 : 0;
    for (int64_t q = q0; q < q1; q++) {
        const int64_t c = s->inner[q], n = least(t->block_depth, t->depth - c * t->block_depth);
        /* Not by HOW: GCC 12 then walks w by an induction variable, and blocks of 8 take a tenth longer. */
        const char *x = x0 + c * xblock, *w = w0 + (s->order ? s->order[q] : q) * t->value_block, *w4 = w + 4 * down;
        uintptr_t next = (uintptr_t)x0 + (uintptr_t)(s->inner[q + 1 < q1 ? q + 1 : q] * xblock);
        if (HOW == DP_ORDERED)
            prefetch_block(w0 + s->order[least(q + ORDER_AHEAD, end)] * t->value_block, along, t->value_block);
        for (int64_t k = 0; k + 1 < n; k += 2, x += 2 * ldx, w += along, w4 += along, next += 2 * (uintptr_t)ldx) {
            prefetch_rows(2, NZ, next, (uintptr_t)ldx);
            pair_step(R, NZ, 0, w, w4, down, x, x + ldx, m, acc);
        }
        if (n & 1) pair_step(R, NZ, 1, w, w4, down, x, x, m, acc);
    }
}

/* 1 x 1 blocks in stored order: two blocks are a pair. */
POP_INLINE void pairs_of_blocks(const int NZ, const pop_sparse_view *s, int64_t q0, int64_t q1, const char *x0, __mmask32 m,
                                __m512 acc[8][16])
{
    const int64_t ldx = s->x_row;
    int64_t q = q0;
    for (; q + 1 < q1; q += 2)
        pair_step(1, NZ, 0, s->values + 2 * q, 0, 0, x0 + s->inner[q] * ldx, x0 + s->inner[q + 1] * ldx, m, acc);
    if (q < q1) pair_step(1, NZ, 1, s->values + 2 * q, 0, 0, x0 + s->inner[q] * ldx, x0, m, acc);
}

POP_INLINE void put_pairs(float *y, int64_t y_format, __m512 low, __m512 high, pair_masks m, int64_t stream)
{
    const __m512i front = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
    const __m512i back = _mm512_set_epi32(31, 30, 29, 28, 15, 14, 13, 12, 27, 26, 25, 24, 11, 10, 9, 8);
    const __m512 a = _mm512_permutex2var_ps(low, front, high), b = _mm512_permutex2var_ps(low, back, high);
    if (y_format != POP_IS_F32) {
        put_half(y_format == POP_IS_BF16, (char *)y, (vec)a, m.low);
        put_half(y_format == POP_IS_BF16, (char *)y + 32, (vec)b, m.high);
        return;
    }
    if (stream && m.load == 0xffffffffu && !((uintptr_t)y % 64)) {
        _mm512_stream_ps(y, a);
        _mm512_stream_ps(y + 16, b);
        return;
    }
    _mm512_mask_storeu_ps(y, m.low, a);
    if (m.high) _mm512_mask_storeu_ps(y + 16, m.high, b);
}

POP_INLINE void dp_sweep_tile(const int R, const int NZ, const int HOW, const pop_sparse_item *t, const pop_sparse_view *s)
{
    for (int64_t r = s->first; r < s->last; r++) {
        const int64_t q0 = s->offsets[r], q1 = s->offsets[r + 1];
        for (int64_t j = 0; j < s->columns; j += NZ * PAIR_COLUMNS) {
            const pair_masks m = masks_of(s->columns - j - (NZ - 1) * PAIR_COLUMNS);
            for (int64_t g = 0; g < s->groups; g++) {
                const int64_t row = s->row + g * R;
                __m512 acc[8][16];
#pragma GCC unroll 8
                for (int i = 0; i < R; i++)
#pragma GCC unroll 16
                    for (int z = 0; z < 2 * NZ; z++) acc[i][z] = _mm512_setzero_ps();
                if (HOW == DP_ONES) pairs_of_blocks(NZ, s, q0, q1, s->x + 2 * j, m.load, acc);
                else pairs_in_blocks(R, NZ, HOW, t, s, q0, q1, s->values + row * t->value_row, s->x + 2 * j, m.load, acc);
                const int64_t down = (r - s->first) * t->block_rows + row;
#pragma GCC unroll 8
                for (int i = 0; i < R; i++)
#pragma GCC unroll 8
                    for (int z = 0; z < NZ; z++)
                        put_pairs(pop_sparse_at(s, down + i, j + z * PAIR_COLUMNS), s->y_format, acc[i][2 * z], acc[i][2 * z + 1],
                                  z < NZ - 1 ? masks_of(PAIR_COLUMNS) : m, s->stream);
            }
        }
    }
}

typedef void (*dp_function)(const pop_sparse_item *, const pop_sparse_view *);

#define DP_TILE(R, NZ, HOW, NAME) \
    static void NAME(const pop_sparse_item *t, const pop_sparse_view *s) { dp_sweep_tile(R, NZ, HOW, t, s); }
#define DP_TILES(F) F(8, 1) F(4, 1) F(4, 2) F(4, 3) F(2, 1) F(2, 2) F(2, 3) F(2, 4) F(1, 1) F(1, 2) F(1, 3) F(1, 4)
#define DP_BLOCKS(R, NZ)                            \
    DP_TILE(R, NZ, DP_STORED, dp_stored_##R##x##NZ) \
    DP_TILE(R, NZ, DP_ORDERED, dp_ordered_##R##x##NZ)
#define DP_PLACE(R, NZ) [R == 8 ? 3 : R == 4 ? 2 : R - 1][NZ]
#define DP_STORED_ENTRY(R, NZ) DP_PLACE(R, NZ) = dp_stored_##R##x##NZ,
#define DP_ORDERED_ENTRY(R, NZ) DP_PLACE(R, NZ) = dp_ordered_##R##x##NZ,
DP_TILES(DP_BLOCKS)
DP_TILE(1, 1, DP_ONES, dp_ones_1)
DP_TILE(1, 2, DP_ONES, dp_ones_2)
DP_TILE(1, 3, DP_ONES, dp_ones_3)
DP_TILE(1, 4, DP_ONES, dp_ones_4)
static const dp_function dp_tiles[3][4][5] = {
    {DP_TILES(DP_STORED_ENTRY)}, {DP_TILES(DP_ORDERED_ENTRY)}, {{0, dp_ones_1, dp_ones_2, dp_ones_3, dp_ones_4}}};
static const int dp_most[4] = {4, 4, 3, 1}; /* 1, 2, 4, 8 rows */

/* Eight rows x 32 columns of blocks whose depth is a multiple of eight, nothing of them absent. No line of X is prefetched
 * ahead: that costs a twentieth. */
FOURS(dp_whole, 8, 2, POP_X_ROWS, 0)

static void dp_columns(const pop_sparse_item *t, const pop_sparse_view *whole, int size)
{
    const int how = whole->order ? DP_ORDERED : t->block_rows == 1 && t->block_depth == 1 ? DP_ONES : DP_STORED;
    const int64_t units = (whole->columns + PAIR_COLUMNS - 1) / PAIR_COLUMNS;
    const int64_t rounds = (units + dp_most[size] - 1) / dp_most[size];
    const int64_t wide = (units + rounds - 1) / rounds;
    const int64_t at_wide = (units - rounds * (wide - 1)) * wide * PAIR_COLUMNS;
    pop_sparse_view part = *whole;
    if (size == 3 && whole->columns % PAIR_COLUMNS == 0 && pop_in_fours(POP_X_ROWS, t)) {
        sweep_fours(8, 2, POP_X_ROWS, t, whole, 1, dp_whole, NULL);
        return;
    }
    part.columns = least(at_wide, whole->columns);
    dp_tiles[how][size][wide](t, &part);
    if (at_wide >= whole->columns) return;
    part.columns = whole->columns - at_wide;
    part.x += at_wide * 2;
    part.y = pop_sparse_at(whole, 0, at_wide);
    dp_tiles[how][size][wide - 1](t, &part);
}

static void dp_sweep(const pop_sparse_item *t, pop_sparse_view *s)
{
    s->row = 0;
    for (int size = 3; size >= 0; size--) {
        s->groups = (s->height - s->row) >> size;
        if (!s->groups) continue;
        dp_columns(t, s, size);
        s->row += s->groups << size;
    }
    if (s->stream) _mm_sfence();
}

/* X in panels of pairs: what fma.h does with vectors of FP32. */
SWEEPS(SWEEP, POP_X_PAIRS)
static const sweep_function pair_sweeps[4][9] = {SWEEPS(SWEEP_ENTRY, POP_X_PAIRS)};

static void pairs_sweep(const pop_sparse_item *t, pop_sparse_view *s) { sweep_height(pair_sweeps, POP_X_PAIRS, t, s); }

static void dp_bf16(const void *item, const pop_tile *tile)
{
    const pop_sparse_item *t = (const pop_sparse_item *)item;
    const int paired = t->block_depth % 2 == 0 && t->depth % 2 == 0; /* as `model.takes_pairs` has it */
    if (paired && (t->pack || t->x_pairs))
        frame_with(t, tile, pairs_sweep, pack_pairs, 1, t->depth * t->strip * 2, t->strip * 4);
    else if (t->x_pairs) frame_with(t, tile, dp_sweep, pack_unpaired, 1, t->depth * t->strip * 2, t->strip * 2);
    else frame(t, tile, dp_sweep, 1);
}
#endif
