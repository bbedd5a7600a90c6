/* Block-sparse times dense on AMX tiles: blocks whose sides are multiples of 16.
 *
 * A strip of X is 64 columns wide, four tiles. Its panel holds cells, two neighbours along the sum in a dword: 256 bytes to a line
 * of 64 columns, so that a block's lines of 16 columns load as a tile where they lie. W's rows are rows of cells as the
 * matrix stores them; the transpose and other formats are made ready block by block. Where the depth is a multiple of 32 a
 * step takes 16 cells, else 8. Heights above 16 rows go 2 x 2 tiles, others 1 x 4: five loads for four products, and eight
 * for eight. Sums leave as whole tiles where Y lets them.
 *
 * FP16: a number is the sum of two BF16 numbers, hi and lo, and a block or a panel is its hi parts and then its lo parts.
 * Products of all four pairs are exact; small ones are added first. An infinity's lo is zero, and infinity times the zero of
 * another number's lo would be NaN, so a block row that meets infinities or NaNs takes the FP32 chain on the same panels. A
 * ready block ends with a line that tells, and so does the map of the used rows. */
#ifndef POP_SPARSE_TILES_H
#define POP_SPARSE_TILES_H
#include "kernels/amx.h"
#include "kernels/sparse/pairs.h"

#define TILE_COLUMNS 64
#define TILE_LINE 256   /* bytes of a panel's line: 64 cells */
#define SPECIAL_BYTES 64 /* after the parts of a ready block */

POP_INLINE __mmask16 first_lanes(int64_t n) { return n >= 16 ? 0xffff : (__mmask16)((1u << (n > 0 ? n : 0)) - 1); }

/* rows x columns of a tile of sums in a buffer, to Y. */
static void put_part(const float *part, float *y, int64_t y_row, int64_t rows, int64_t columns, int64_t stream)
{
    for (int64_t i = 0; i < rows; i++, y += y_row, part += 16) {
        if (stream && columns >= 16 && !((uintptr_t)y % 64)) _mm512_stream_ps(y, _mm512_load_ps(part));
        else _mm512_mask_storeu_ps(y, first_lanes(columns), _mm512_load_ps(part));
    }
}

#define PUT_TILE(number, y, y_row, rows, columns, stream)                  \
    do {                                                                   \
        const int64_t tile_rows = (rows), tile_columns = (columns);        \
        if (tile_rows >= 16 && tile_columns >= 16 && !(stream)) {          \
            pop_tile_store(number, y, 4 * (y_row));                        \
        } else if (tile_rows > 0 && tile_columns > 0) {                    \
            float part[256] __attribute__((aligned(64)));                  \
            pop_tile_store(number, part, 64);                              \
            put_part(part, y, y_row, least(tile_rows, 16), tile_columns, stream); \
        }                                                                  \
    } while (0)

/* What the tiles of one block row walk: bytes from a part of W, of X to its low parts, cells of a step, steps of a block. */
typedef struct pop_tile_walk {
    int64_t w_low, x_low, cells, steps;
} pop_tile_walk;

/* One row of tiles, up to four wide: A in tiles 4 (hi) and 5 (lo), X in 6 and 7 in turn. */
#define LOW_AND_HIGH(z, x)                             \
    pop_tile_load(6, (x) + k.x_low + 64 * z, TILE_LINE); \
    pop_tile_bf16(z, 5, 6);                            \
    pop_tile_bf16(z, 4, 6);                            \
    pop_tile_load(7, (x) + 64 * z, TILE_LINE);         \
    pop_tile_bf16(z, 5, 7);                            \
    pop_tile_bf16(z, 4, 7)
#define ONE_PASS(z, b, x)                       \
    pop_tile_load(b, (x) + 64 * z, TILE_LINE); \
    pop_tile_bf16(z, 4, b)
POP_INLINE void step_1x4(const int parts, const pop_tile_walk k, const char *w, int64_t w_row, const char *x, int64_t wide)
{
    pop_tile_load(4, w, w_row);
    if (parts == 2) {
        pop_tile_load(5, w + k.w_low, w_row);
        LOW_AND_HIGH(0, x);
        if (wide > 1) { LOW_AND_HIGH(1, x); }
        if (wide > 2) { LOW_AND_HIGH(2, x); }
        if (wide > 3) { LOW_AND_HIGH(3, x); }
        return;
    }
    ONE_PASS(0, 6, x);
    if (wide > 1) { ONE_PASS(1, 7, x); }
    if (wide > 2) { ONE_PASS(2, 6, x); }
    if (wide > 3) { ONE_PASS(3, 7, x); }
}

/* Two rows of tiles, up to two wide. */
#define LOAD_W(w)              \
    pop_tile_load(4, w, w_row); \
    pop_tile_load(5, (w) + 16 * w_row, w_row)
#define LOAD_X(x)                  \
    pop_tile_load(6, x, TILE_LINE); \
    if (wide > 1) pop_tile_load(7, (x) + 64, TILE_LINE)
#define FOUR_PRODUCTS                      \
    pop_tile_bf16(0, 4, 6);                \
    pop_tile_bf16(2, 5, 6);                \
    if (wide > 1) {                        \
        pop_tile_bf16(1, 4, 7);            \
        pop_tile_bf16(3, 5, 7);            \
    }
POP_INLINE void step_2x2(const int parts, const pop_tile_walk k, const char *w, int64_t w_row, const char *x, int64_t wide)
{
    if (parts == 2) {
        LOAD_W(w + k.w_low);
        LOAD_X(x + k.x_low);
        FOUR_PRODUCTS
        LOAD_X(x);
        FOUR_PRODUCTS
        LOAD_W(w);
        FOUR_PRODUCTS
        LOAD_X(x + k.x_low);
        FOUR_PRODUCTS
        return;
    }
    LOAD_W(w);
    LOAD_X(x);
    FOUR_PRODUCTS
}

/* R rows of tiles over some columns of the strip, for the blocks q0 to q1; `row` is their first row in a block. */
POP_INLINE void tile_sums(const int R, const int parts, const pop_sparse_item *t, const pop_sparse_view *s,
                          const pop_tile_walk k, int64_t q0, int64_t q1, int64_t row, int64_t column, float *y)
{
    const int64_t columns = s->columns - column, wide = (columns + 15) / 16;
    pop_tile_zero(0);
    pop_tile_zero(1);
    pop_tile_zero(2);
    pop_tile_zero(3);
    for (int64_t q = q0; q < q1; q++) {
        const char *w = s->values + (s->order ? s->order[q] : q) * t->value_block + row * t->value_row;
        const char *x = s->x + s->inner[q] * (t->block_depth / 2) * TILE_LINE + 4 * column;
        for (int64_t e = 0; e < k.steps; e++, w += 4 * k.cells, x += k.cells * TILE_LINE) {
            if (R == 2) step_2x2(parts, k, w, t->value_row, x, wide);
            else step_1x4(parts, k, w, t->value_row, x, wide);
        }
    }
    const int64_t high = s->height - row, low = high - 16;
    PUT_TILE(0, y, s->y_row, high, columns, s->stream);
    PUT_TILE(1, y + 16, s->y_row, high, columns - 16, s->stream);
    if (R == 2) {
        PUT_TILE(2, y + 16 * s->y_row, s->y_row, low, columns, s->stream);
        PUT_TILE(3, y + 16 * s->y_row + 16, s->y_row, low, columns - 16, s->stream);
    } else {
        PUT_TILE(2, y + 32, s->y_row, high, columns - 32, s->stream);
        PUT_TILE(3, y + 48, s->y_row, high, columns - 48, s->stream);
    }
}

/* Sixteen numbers of a line of cells: the even or the odd ones, hi and lo together. */
POP_INLINE __m512 cell_numbers(const char *x, int64_t x_low, int64_t odd)
{
    const __m512i top = _mm512_set1_epi32((int32_t)0xffff0000);
    __m512i hi = _mm512_loadu_si512(x), lo = _mm512_loadu_si512(x + x_low);
    hi = odd ? _mm512_and_si512(hi, top) : _mm512_slli_epi32(hi, 16);
    lo = odd ? _mm512_and_si512(lo, top) : _mm512_slli_epi32(lo, 16);
    return _mm512_add_ps(_mm512_castsi512_ps(hi), _mm512_castsi512_ps(lo));
}

POP_INLINE float part_number(const char *w)
{
    uint16_t code;
    float x;
    memcpy(&code, w, 2);
    const uint32_t bits = (uint32_t)code << 16;
    memcpy(&x, &bits, 4);
    return x;
}

/* Rows of a block row that meet infinities or NaNs: one FP32 chain for each element, by ascending column. */
static void special_rows(const pop_sparse_item *t, const pop_sparse_view *s, const pop_tile_walk k, int64_t q0, int64_t q1,
                         float *y)
{
    for (int64_t row = 0; row < s->height; row++)
        for (int64_t j = 0; j < s->columns; j += 16) {
            __m512 sum = _mm512_setzero_ps();
            for (int64_t q = q0; q < q1; q++) {
                const int64_t c = s->inner[q], n = least(t->block_depth, t->depth - c * t->block_depth);
                const char *w = s->values + (s->order ? s->order[q] : q) * t->value_block + row * t->value_row;
                const char *x = s->x + c * (t->block_depth / 2) * TILE_LINE + 4 * j;
                for (int64_t e = 0; e < n; e++)
                    sum = _mm512_fmadd_ps(_mm512_set1_ps(part_number(w + 2 * e) + part_number(w + 2 * e + k.w_low)),
                                          cell_numbers(x + e / 2 * TILE_LINE, k.x_low, e & 1), sum);
            }
            _mm512_mask_storeu_ps(y + row * s->y_row + j, first_lanes(s->columns - j), sum);
        }
}

static int any_special(const pop_sparse_item *t, const pop_sparse_view *s, int64_t q0, int64_t q1)
{
    for (int64_t q = q0; q < q1; q++)
        if (s->used[s->inner[q]] == POP_SPECIAL ||
            s->values[((s->order ? s->order[q] : q) + 1) * t->value_block - SPECIAL_BYTES])
            return 1;
    return 0;
}

POP_INLINE void tile_sweep(const int parts, const pop_sparse_item *t, const pop_sparse_view *s)
{
    const int64_t cells = t->block_depth % 32 ? 8 : 16;
    const pop_tile_walk k = {(t->value_block - SPECIAL_BYTES) / 2, rounded(t->depth, t->block_depth) / 2 * TILE_LINE, cells,
                             t->block_depth / (2 * cells)};
    pop_amx_begin_shaped(16, (int)cells);
    for (int64_t r = s->first; r < s->last; r++) {
        const int64_t q0 = s->offsets[r], q1 = s->offsets[r + 1];
        float *y = s->y + (r - s->first) * t->block_rows * s->y_row;
        if (parts == 2 && any_special(t, s, q0, q1)) {
            special_rows(t, s, k, q0, q1, y);
            continue;
        }
        int64_t row = 0;
        for (; s->height - row > 16; row += 32)
            for (int64_t j = 0; j < s->columns; j += 32)
                tile_sums(2, parts, t, s, k, q0, q1, row, j, y + row * s->y_row + j);
        if (row < s->height) tile_sums(1, parts, t, s, k, q0, q1, row, 0, y + row * s->y_row);
    }
    pop_amx_end();
    if (s->stream) _mm_sfence();
}

static void tile_sweep_bf16(const pop_sparse_item *t, pop_sparse_view *s) { tile_sweep(1, t, s); }
static void tile_sweep_parts(const pop_sparse_item *t, pop_sparse_view *s) { tile_sweep(2, t, s); }

/* Two lines of BF16 numbers, n <= 64 of them, to a line of 64 cells; absent numbers are zero. */
POP_INLINE void put_cells(const uint16_t *even, const uint16_t *odd, int64_t n, char *to)
{
    for (int64_t j = 0; j < 64; j += 32, to += 128) {
        const __mmask32 m = pop_columns_left(n - j < 0 ? 0 : n - j);
        put_made_pairs(_mm512_maskz_loadu_epi16(m, even + j), _mm512_maskz_loadu_epi16(m, odd + j), 32, to);
    }
}

/* Sixteen rows of a strip, and zeros where X has fewer, as eight lines of cells. */
static int pack_sixteen(const pop_sparse_item *t, const pop_decoding *d, const char *x, char *to, int64_t low, int64_t rows,
                        int64_t columns)
{
    uint16_t lines[2][16][TILE_COLUMNS] __attribute__((aligned(64)));
    const uint16_t *at = lines[0][0];
    int64_t step = TILE_COLUMNS;
    int special = 0;
    if (d->to_bf16 && d->format == POP_IS_BF16 && t->x_column == 2 && !(t->x_row % 2) && rows == 16) {
        at = (const uint16_t *)x;
        step = t->x_row / 2;
    } else if (d->to_bf16) {
        if (rows < 16) memset(lines[0], 0, sizeof lines[0]);
        pack_rows(d, x, t->x_row, t->x_column, (char *)lines[0], TILE_COLUMNS * 2, rows, columns);
    } else {
        memset(lines, 0, sizeof lines);
        copy_codes(2, x, t->x_row, t->x_column, (char *)lines[0], TILE_COLUMNS, rows, columns);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j += 32) {
                __m512i hi, lo;
                const __mmask32 m = pop_columns_left(columns - j);
                special |= (pop_f16_split(_mm512_maskz_loadu_epi16(m, &lines[0][i][j]), &hi, &lo) & m) != 0;
                _mm512_store_si512(&lines[0][i][j], hi);
                _mm512_store_si512(&lines[1][i][j], lo);
            }
        for (int64_t p = 0; p < 8; p++)
            put_cells(lines[1][2 * p], lines[1][2 * p + 1], columns, to + low + p * TILE_LINE);
    }
    for (int64_t p = 0; p < 8; p++) put_cells(at + 2 * p * step, at + (2 * p + 1) * step, columns, to + p * TILE_LINE);
    return special;
}

static void pack_cells(const pop_sparse_item *t, const pop_decoding *d, const char *x, char *panel, char *used,
                       int64_t first, int64_t rows, int64_t columns)
{
    const int64_t end = first + rounded(rows, t->block_depth), low = rounded(t->depth, t->block_depth) / 2 * TILE_LINE;
    for (int64_t k = first; k < end; k += 16) {
        const int64_t there = least(16, t->depth - k), block = k / t->block_depth;
        if (k % t->block_depth == 0) used[block] = POP_USED;
        if (pack_sixteen(t, d, x + k * t->x_row, panel + k / 2 * TILE_LINE, low, there > 0 ? there : 0, columns))
            used[block] = POP_SPECIAL;
    }
}

static void tiles_bf16(const void *item, const pop_tile *tile)
{
    const pop_sparse_item *t = (const pop_sparse_item *)item;
    frame_with(t, tile, tile_sweep_bf16, pack_cells, 1, rounded(t->depth, t->block_depth) / 2 * TILE_LINE, TILE_LINE);
}

static void tiles_parts(const void *item, const pop_tile *tile)
{
    const pop_sparse_item *t = (const pop_sparse_item *)item;
    frame_with(t, tile, tile_sweep_parts, pack_cells, 0, rounded(t->depth, t->block_depth) * TILE_LINE, TILE_LINE);
}

/* 16 x 16 codes of 16 bits, two rows to a register, transposed: the place of a code has 8 bits, and interleaving the halves
 * rotates them by one; four times exchange row and column. */
POP_INLINE void transpose_sixteen(__m512i rows[8])
{
    const __m512i front = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                           39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i back = _mm512_add_epi16(front, _mm512_set1_epi16(16));
    for (int round = 0; round < 4; round++) {
        __m512i next[8];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            next[2 * i] = _mm512_permutex2var_epi16(rows[i], front, rows[i + 4]);
            next[2 * i + 1] = _mm512_permutex2var_epi16(rows[i], back, rows[i + 4]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) rows[i] = next[i];
    }
}

POP_INLINE void put_sixteen(__m512i rows[8], int transposed, uint16_t *to, int64_t to_row)
{
    if (transposed) transpose_sixteen(rows);
    for (int i = 0; i < 8; i++, to += 2 * to_row) {
        _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256(rows[i]));
        _mm256_storeu_si256((__m256i *)(to + to_row), _mm512_extracti64x4_epi64(rows[i], 1));
    }
}

POP_INLINE __m512i two_rows(const char *from, int64_t row)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)from)),
                              _mm256_loadu_si256((const __m256i *)(from + row)), 1);
}

/* A block as rows of cells: BF16 or, of FP16, hi parts and lo parts; `pairs` of the item asks for the transpose. */
POP_INLINE void ready_tile_block(const int parts, const pop_ready_item *t, const pop_decoding *d, const char *from, char *to)
{
    const int64_t high = t->block_rows, wide = t->block_columns, area = high * wide;
    const int64_t to_row = t->pairs ? high : wide, code = pop_bytes(FORMATS[d->format]), row = wide * code;
    const pop_format f = pop_scaled(*FORMATS[d->format], (int)d->scale);
    uint16_t *out = (uint16_t *)to;
    __mmask32 special = 0;
    for (int64_t r = 0; r < high; r += 16)
        for (int64_t c = 0; c < wide; c += 16) {
            const char *at = from + r * row + c * code;
            uint16_t *place = out + (t->pairs ? c * to_row + r : r * to_row + c);
            __m512i hi[8], lo[8];
            for (int i = 0; i < 8; i++, at += 2 * row) {
                if (parts == 2) special |= pop_f16_split(two_rows(at, row), &hi[i], &lo[i]);
                else if (d->format == POP_IS_BF16) hi[i] = two_rows(at, row);
                else hi[i] = pop_bf16_pack(pop_v_decode(&f, at), pop_v_decode(&f, at + row));
            }
            put_sixteen(hi, t->pairs != 0, place, to_row);
            if (parts == 2) put_sixteen(lo, t->pairs != 0, place + area, to_row);
        }
    if (parts == 2) to[4 * area] = special != 0;
}

POP_INLINE void ready_tile_blocks(const int parts, const pop_ready_item *t, const pop_decoding *d, const char *from, char *to,
                                  int64_t n)
{
    const int64_t area = t->block_rows * t->block_columns, bytes = area * pop_bytes(FORMATS[t->format]);
    const int64_t ready_bytes = parts == 2 ? 4 * area + SPECIAL_BYTES : 2 * area;
    for (int64_t q = 0; q < n; q++) ready_tile_block(parts, t, d, from + q * bytes, to + q * ready_bytes);
}

static void ready_tile_bf16(const pop_ready_item *t, const pop_decoding *d, const char *from, char *to, int64_t n)
{
    ready_tile_blocks(1, t, d, from, to, n);
}

static void ready_tile_parts(const pop_ready_item *t, const pop_decoding *d, const char *from, char *to, int64_t n)
{
    ready_tile_blocks(2, t, d, from, to, n);
}

static void ready_tiles_bf16(const void *item, const pop_tile *tile)
{
    const pop_ready_item *t = (const pop_ready_item *)item;
    ready_blocks(t, tile, 1, t->block_rows * t->block_columns * 2, ready_tile_bf16);
}

static void ready_tiles_parts(const void *item, const pop_tile *tile)
{
    const pop_ready_item *t = (const pop_ready_item *)item;
    ready_blocks(t, tile, 0, t->block_rows * t->block_columns * 4 + SPECIAL_BYTES, ready_tile_parts);
}
#endif
