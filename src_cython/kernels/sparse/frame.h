/* Around a sweep: strips of columns, panels of X, the epilogue.
 *
 * X is read as it lies where its columns have unit stride and the sweep knows its format. Otherwise, and where a strip would
 * not stay in the L2 because its rows lie far apart, a strip is first copied to a panel in scratch, decoded on the way: only
 * the rows that some stored block meets. Sums go straight to Y when Y is FP32, or where the kernel rounds them FP16 or BF16,
 * with unit stride, and nothing else is asked for; otherwise a few block rows at a time go to scratch, still in the L1 or L2
 * when the epilogue takes them. */
#ifndef POP_SPARSE_FRAME_H
#define POP_SPARSE_FRAME_H
#include "kernels/epilogue.h"
#include "kernels/prefetch.h"
#include "kernels/sparse/item.h"
#include "kernels/stream.h"
#include "program/program.h"

#define CHUNK_BYTES 32768
#define PANEL_ALIGNMENT 64
#define FAR_BYTES (POP_CACHE * 3 / 16)

POP_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
POP_INLINE int64_t rounded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* By the number of a format. */
#define FORMAT_ENTRY(bytes, constant, ...) &POP_##constant,
static const pop_format *const FORMATS[] = {POP_FORMATS(FORMAT_ENTRY)};
#define EPILOGUE_ENTRY(bytes, constant, function, ...) pop_epilogue_##function,
static const pop_epilogue_kernel EPILOGUES[] = {POP_FORMATS(EPILOGUE_ENTRY)};

/* Whether a format has codes of 1 byte. */
#define OR_OF_ONE_BYTE(bytes, constant, ...) || (bytes == 1 && format == POP_IS_##constant)
POP_INLINE int one_byte(int64_t format) { return 0 POP_FORMATS(OR_OF_ONE_BYTE); }

/* n codes to FP32; scale moves the bias of a format of 1 byte. */
#define DECODE_4(layout) memcpy(to, from, (size_t)n * 4);
#define DECODE_2(layout) pop_decode_line(&layout, from, to, n);
#define DECODE_1(layout)                  \
    {                                     \
        pop_format f = layout;            \
        f.bias -= (int32_t)scale;         \
        pop_decode_line(&f, from, to, n); \
    }
#define DECODE_CASE(bytes, constant, ...) case POP_IS_##constant: DECODE_##bytes(POP_##constant) break;
static void decode_codes(int64_t format, int64_t scale, const char *from, float *to, int64_t n)
{
    switch (format) { POP_FORMATS(DECODE_CASE) }
}

/* FP32 numbers that are BF16 values, to BF16. */
static void narrow(const float *from, uint16_t *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, from + i, 4);
        to[i] = (uint16_t)(bits >> 16);
    }
}

/* How lines of a dense or sparse operand are decoded: to FP32, or to BF16 (which holds every value of the format). */
typedef struct pop_decoding {
    int64_t format, scale;
    int to_bf16;
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    pop_byte_table table; /* of an 8-bit format on its way to BF16 */
#endif
} pop_decoding;

static pop_decoding decoding_of(int64_t format, int64_t scale, int to_bf16)
{
    pop_decoding d = {.format = format, .scale = scale, .to_bf16 = to_bf16};
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    if (to_bf16 && one_byte(format)) {
        const pop_format f = pop_scaled(*FORMATS[format], (int)scale);
        d.table = pop_byte_table_make(&f);
    }
#endif
    return d;
}

#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
static void bytes_to_bf16(const pop_decoding *d, const char *from, char *to, int64_t n)
{
    __m512i both[2];
    for (; n >= 64; n -= 64, from += 64, to += 128) {
        pop_byte_to_bf16(&d->table, _mm512_loadu_si512(from), both);
        _mm512_storeu_si512(to, both[0]);
        _mm512_storeu_si512(to + 64, both[1]);
    }
    if (!n) return;
    pop_byte_to_bf16(&d->table, _mm512_maskz_loadu_epi8((1ull << n) - 1, from), both);
    _mm512_mask_storeu_epi16(to, n >= 32 ? 0xffffffffu : (__mmask32)((1ull << n) - 1), both[0]);
    if (n > 32) _mm512_mask_storeu_epi16(to + 64, (__mmask32)((1ull << (n - 32)) - 1), both[1]);
}
#endif

static void ready_line(const pop_decoding *d, const char *from, char *to, int64_t n)
{
    if (!d->to_bf16) {
        decode_codes(d->format, d->scale, from, (float *)to, n);
        return;
    }
    if (d->format == POP_IS_BF16) {
        memcpy(to, from, (size_t)n * 2);
        return;
    }
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    if (one_byte(d->format)) {
        bytes_to_bf16(d, from, to, n);
        return;
    }
#endif
    float line[256];
    for (int64_t j = 0; j < n; j += 256) {
        const int64_t m = least(256, n - j);
        decode_codes(d->format, d->scale, from + j * pop_bytes(FORMATS[d->format]), line, m);
        narrow(line, (uint16_t *)to + j, m);
    }
}

/* Codes of one size from rows with any strides to contiguous rows, in tiles that keep both sides in the L1. */
#define COPY_TILE(type)                                                                                    \
    for (int64_t k = k0; k < k1; k++)                                                                      \
        for (int64_t j = j0; j < j1; j++)                                                                  \
            memcpy((type *)to + k * to_row + j, from + k * row + j * column, sizeof(type));
static void copy_codes(int64_t bytes, const char *from, int64_t row, int64_t column, char *to, int64_t to_row,
                       int64_t rows, int64_t columns)
{
    for (int64_t k0 = 0; k0 < rows; k0 += 16)
        for (int64_t j0 = 0; j0 < columns; j0 += 16) {
            const int64_t k1 = least(k0 + 16, rows), j1 = least(j0 + 16, columns);
            if (bytes == 4) {
                COPY_TILE(uint32_t)
            } else if (bytes == 2) {
                COPY_TILE(uint16_t)
            } else {
                COPY_TILE(uint8_t)
            }
        }
}

/* Rows of bytes as they are. The hardware follows no stride across pages: what is copied next is prefetched. */
#define ROWS_AHEAD 8
static void copy_rows(const char *from, int64_t row, char *to, int64_t to_row, int64_t rows, int64_t bytes)
{
    for (int64_t k = 0; k < rows; k++, from += row, to += to_row) {
        int64_t i = 0;
        for (; i + 64 <= bytes; i += 64) {
            pop_prefetch(pop_beyond(from, ROWS_AHEAD * row + i));
            memcpy(to + i, from + i, 64);
        }
        if (i < bytes) memcpy(to + i, from + i, (size_t)(bytes - i));
    }
}

/* Rows with any strides as rows of FP32 or BF16 with unit stride. */
static void pack_rows(const pop_decoding *d, const char *from, int64_t row, int64_t column, char *to, int64_t to_row,
                      int64_t rows, int64_t columns)
{
    const int64_t code = pop_bytes(FORMATS[d->format]), size = d->to_bf16 ? 2 : 4;
    if (column == code && d->format == (d->to_bf16 ? POP_IS_BF16 : POP_IS_F32)) {
        copy_rows(from, row, to, to_row, rows, columns * size);
        return;
    }
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    if (column == code && d->to_bf16 && one_byte(d->format)) {
        for (int64_t k = 0; k < rows; k++) bytes_to_bf16(d, from + k * row, to + k * to_row, columns);
        return;
    }
#endif
    char lines[16 * 512 * 4] __attribute__((aligned(64)));
    for (int64_t k = 0; k < rows; k += 16)
        for (int64_t j = 0; j < columns; j += 512) {
            const int64_t some = least(16, rows - k), n = least(512, columns - j);
            const char *at = from + k * row + j * column;
            int64_t step = row;
            if (column != code) {
                copy_codes(code, at, row, column, lines, 512, some, n);
                at = lines;
                step = 512 * code;
            }
            for (int64_t i = 0; i < some; i++)
                ready_line(d, at + i * step, to + (k + i) * to_row + j * size, n);
        }
}

POP_INLINE void finish_rows(const pop_sparse_item *t, char *const *o, const float *sums, int64_t row, int64_t rows,
                            int64_t column, int64_t columns)
{
    pop_format layout = *FORMATS[t->y_format];
    layout.bias -= (int32_t)t->y_scale;
    const float *bias = t->bias < 0 ? NULL : (const float *)(o[t->bias] + t->bias_offset);
    const pop_epilogue e = {
        .format = &layout, .overflow = t->overflow, .activation = t->activation,
        .alpha = 1.0f, .row_bias = bias ? bias + row : NULL,
        .out = o[t->y] + t->y_offset + row * t->y_row + column * t->y_column,
        .out_row = t->y_row, .out_col = t->y_column};
    EPILOGUES[t->y_format](&e, sums, t->strip, rows, columns);
}

/* Some block rows of one height over one strip. */
static void frame_rows(const pop_sparse_item *t, const pop_tile *tile, pop_sparse_sweep sweep_strip, pop_sparse_view *s,
                       int64_t j, int64_t first, int64_t last, int64_t height, float *sums)
{
    const int64_t per_chunk = CHUNK_BYTES / (4 * t->strip * t->block_rows);
    const int64_t chunk = t->finish ? (per_chunk > 1 ? per_chunk : 1) : last - first;
    s->height = height;
    for (int64_t r = first; r < last; r += chunk) {
        const int64_t row = (r - t->origin) * t->block_rows;
        s->first = r;
        s->last = least(r + chunk, last);
        s->y = t->finish ? sums : (float *)(tile->operands[t->y] + t->y_offset + row * t->y_row + j * s->y_bytes);
        sweep_strip(t, s);
        if (t->finish)
            finish_rows(t, tile->operands, sums, row, (s->last - r - 1) * t->block_rows + height, j, s->columns);
    }
}

/* What is known of a block of X's rows. */
enum { POP_UNUSED, POP_USED, POP_SPECIAL /* used, and holds infinities or NaNs, where packing looks for them */ };

/* Copies `rows` rows of a strip, whole blocks of them, from row `first` to a panel. */
typedef void (*pop_sparse_pack)(const pop_sparse_item *t, const pop_decoding *d, const char *x, char *panel, char *used,
                                int64_t first, int64_t rows, int64_t columns);

static void pack_plain(const pop_sparse_item *t, const pop_decoding *d, const char *x, char *panel, char *used,
                       int64_t first, int64_t rows, int64_t columns)
{
    const int64_t line = t->strip * (d->to_bf16 ? 2 : 4);
    pack_rows(d, x + first * t->x_row, t->x_row, t->x_column, panel + first * line, line, rows, columns);
}

/* For each block of X's rows, whether block rows first to last meet it. Where there are three stored blocks or more for each, nearly
 * all of them are met, and to look would cost more than to copy the rest. */
static void mark_used(const pop_sparse_item *t, const pop_sparse_view *s, int64_t first, int64_t last, char *used)
{
    const int64_t blocks = (t->depth + t->block_depth - 1) / t->block_depth, q0 = s->offsets[first], q1 = s->offsets[last];
    if (!blocks) return; /* nothing was laid out for a depth of 0 */
    memset(used, q1 - q0 < 3 * blocks ? POP_UNUSED : POP_USED, (size_t)blocks);
    if (q1 - q0 >= 3 * blocks) return;
    for (int64_t q = q0; q < q1; q++) used[s->inner[q]] = POP_USED;
}

/* The used rows of a strip, in runs. */
static void pack_used(const pop_sparse_item *t, const pop_decoding *d, const char *x, char *panel, char *used,
                      int64_t columns, pop_sparse_pack pack)
{
    const int64_t blocks = (t->depth + t->block_depth - 1) / t->block_depth;
    for (int64_t c = 0, end; c < blocks; c = end + 1) {
        for (; c < blocks && !used[c]; c++) continue;
        for (end = c; end < blocks && used[end]; end++) continue;
        const int64_t from = c * t->block_depth, to = least(end * t->block_depth, t->depth);
        if (from < to) pack(t, d, x, panel, used, from, to - from, columns);
    }
}

/* A transpose meets blocks in another order than they are stored, which the hardware cannot foretell: each is prefetched
 * before its turn. At m = k = 4096, n = 256, density 1/8 that is 110 GFLOP/s instead of 20 with blocks of 4, 170 instead of 50
 * with blocks of 8. */
#define ORDER_AHEAD 16 /* blocks */

POP_INLINE void prefetch_block(const char *w, int64_t along, int64_t bytes)
{
    const int64_t step = along > 64 ? along : 64;
    for (int64_t o = 0; o < bytes; o += step) pop_prefetch(pop_beyond(w, o));
    pop_prefetch(pop_beyond(w, bytes - 1)); /* a block off a cache line ends on another */
}

/* The hardware does not foretell either which rows of X a block meets: each block prefetches those of the next one while it
 * is multiplied, so that they come from the L1. m = k = 1024: up to 1.15 times as fast. A tile off the
 * cache lines begins on one that the tile on its left has met. */
POP_INLINE void prefetch_rows(const int ROWS, const int LINES, uintptr_t x, uintptr_t row)
{
#pragma GCC unroll 4
    for (int k = 0; k < ROWS; k++)
#pragma GCC unroll 8
        for (int z = 0; z < LINES; z++) pop_prefetch(x + (uintptr_t)k * row + (uintptr_t)(64 * z + 63));
}

/* A strip of a large operand that was prepared, one after the other in memory: read in order it comes sooner than in the
 * order of the blocks, which then meet it in the L2. At m = k = 2048, n = 1024: up to 1.6 times as fast; a smaller X, which
 * lies in the L3, is met sooner where it is. */
static void prefetch_strip(const pop_sparse_item *t, const pop_sparse_view *s, int64_t first, int64_t last)
{
    const int64_t bytes = (t->x_pairs ? (t->depth + 1) / 2 : t->depth) * t->x_row, met = (s->offsets[last] - s->offsets[first]) * t->block_depth;
    if (t->x_strip != bytes || bytes / t->strip * t->columns < FAR_BYTES || met < t->depth) return;
    pop_prefetch_l2_lines(pop_beyond(s->x, 0), bytes);
}

/* The columns before the first cache line of Y, where it pays to walk them by themselves so that what goes past the caches
 * begins on lines; NumPy's large arrays begin 16 bytes off one. Otherwise 0. The more values a row of W has the more that
 * costs, and the more columns there are the more is gained. At m = k = n = 1024 and blocks of 16: FP32 1.35 times as fast
 * at density 1/32 and 1.12 at 1/8, BF16 1.26 and 1.05. Single elements, which walk whole rows, see to lines themselves. */
static int64_t columns_before_a_line(const pop_sparse_item *t, const pop_sparse_view *s, const char *y, int64_t first,
                                     int64_t last)
{
    const int64_t off = (int64_t)((uintptr_t)y % 64) / 4, values = (s->offsets[last] - s->offsets[first]) * t->block_depth;
    const int64_t prepared = !t->pack && t->x_strip != t->strip * t->x_column;
    if (t->block_rows == 1 && t->block_depth == 1) return 0;
    return off && t->stream && !prepared && 8 * values <= t->columns * (last - first) ? 16 - off : 0;
}

/* `panel_bytes` and `x_row` are those of a panel, where one is made by `pack`. */
static void frame_with(const pop_sparse_item *t, const pop_tile *tile, pop_sparse_sweep sweep_strip, pop_sparse_pack pack,
                       int to_bf16, int64_t panel_bytes, int64_t x_row)
{
    char *const *o = tile->operands;
    const int64_t whole = t->origin + t->rows / t->block_rows, tail = t->rows % t->block_rows;
    const int64_t used_bytes = rounded((t->depth + t->block_depth - 1) / t->block_depth, PANEL_ALIGNMENT);
    char *used = tile->scratch + rounded(panel_bytes, PANEL_ALIGNMENT);
    float *sums = (float *)(t->pack ? used + used_bytes : tile->scratch);
    pop_sparse_view s = {.offsets = (const int64_t *)o[t->offsets], .inner = (const int32_t *)o[t->inner],
                         .values = o[t->values], .stream = t->stream, .x_row = t->pack ? x_row : t->x_row,
                         .y_format = t->finish ? POP_IS_F32 : t->y_format, .used = used};
    s.y_bytes = pop_bytes(FORMATS[s.y_format]);
    s.y_row = t->finish ? t->strip : t->y_row / s.y_bytes;
    if (t->order >= 0) s.order = (const int32_t *)o[t->order];
    const int64_t first = pop_sparse_first(s.offsets, t->origin, t->n_rows, t->part, t->parts);
    const int64_t last = pop_sparse_first(s.offsets, t->origin, t->n_rows, t->part + 1, t->parts);
    if (first == last) return;
    const pop_decoding d = decoding_of(t->x_format, t->x_scale, to_bf16 && t->pack);
    if (t->pack) mark_used(t, &s, first, last, used);
    const int64_t head = columns_before_a_line(t, &s, o[t->y] + t->y_offset, first, last);
    for (int64_t j = 0; j < t->columns; j += s.columns) {
        s.columns = j || !head ? least(t->strip, t->columns - j) : head;
        s.x = o[t->x] + t->x_offset + (head ? j * t->x_column : j / t->strip * t->x_strip);
        if (t->pack) {
            pack_used(t, &d, s.x, tile->scratch, used, s.columns, pack);
            s.x = tile->scratch;
        } else {
            prefetch_strip(t, &s, first, last);
        }
        if (first < least(last, whole))
            frame_rows(t, tile, sweep_strip, &s, j, first, least(last, whole), t->block_rows, sums);
        if (last > whole && tail) frame_rows(t, tile, sweep_strip, &s, j, whole, whole + 1, tail, sums);
    }
}

static void frame(const pop_sparse_item *t, const pop_tile *tile, pop_sparse_sweep sweep_strip, int to_bf16)
{
    const int64_t row = t->strip * (to_bf16 ? 2 : 4);
    frame_with(t, tile, sweep_strip, pack_plain, to_bf16, t->pack ? t->depth * row : 0, row);
}

/* Rows of BF16, interleaved two by two; the last of an odd number with zeros. */
static void interleave_rows(const uint16_t *from, int64_t rows, int64_t width, char *to)
{
    for (int64_t r = 0; r < rows; r += 2, from += 2 * width)
        for (int64_t c = 0; c < width; c++, to += 4) {
            const uint32_t pair = from[c] | (r + 1 < rows ? (uint32_t)from[width + c] << 16 : 0);
            memcpy(to, &pair, 4);
        }
}

#define READY_CODES 2048 /* decoded at a time on their way to pairs */

/* `n` blocks' values made ready, all of one scale. */
static void ready_some(const pop_ready_item *t, const pop_decoding *d, const char *from, char *to, int64_t n)
{
    const int64_t width = t->block_columns, area = t->block_rows * width, code = pop_bytes(FORMATS[t->format]);
    uint16_t codes[READY_CODES];
    if (!t->pairs) {
        ready_line(d, from, to, n * area);
        return;
    }
    if (area <= READY_CODES) {
        const int64_t ready_bytes = (t->block_rows + 1) / 2 * width * 4, most = READY_CODES / area;
        for (int64_t q = 0; q < n; q += most) {
            const int64_t some = least(most, n - q);
            ready_line(d, from + q * area * code, (char *)codes, some * area);
            for (int64_t e = 0; e < some; e++)
                interleave_rows(codes + e * area, t->block_rows, width, to + (q + e) * ready_bytes);
        }
        return;
    }
    for (int64_t q = 0; q < n; q++, from += area * code)
        for (int64_t r = 0; r < t->block_rows; r += 2)
            for (int64_t c = 0, some; c < width; c += some, to += 4 * some) {
                const int64_t rows = least(2, t->block_rows - r);
                some = least(READY_CODES / 2, width - c);
                for (int64_t e = 0; e < rows; e++)
                    ready_line(d, from + ((r + e) * width + c) * code, (char *)(codes + e * some), some);
                interleave_rows(codes, rows, some, to);
            }
}

/* Single elements in the order of another pattern, through a table of all codes where they have 8 bits. */
static void ready_ordered(const pop_ready_item *t, const pop_decoding *d, const char *from, const int32_t *order, char *to,
                          int64_t n)
{
    uint16_t value[256];
    uint8_t codes[256];
    if (pop_bytes(FORMATS[t->format]) == 2) {
        for (int64_t q = 0; q < n; q++) memcpy(to + 2 * q, from + 2 * (int64_t)order[q], 2);
        return;
    }
    for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    ready_line(d, (const char *)codes, (char *)value, 256);
    for (int64_t q = 0; q < n; q++) memcpy(to + 2 * q, &value[(uint8_t)from[order[q]]], 2);
}

typedef void (*pop_ready_blocks)(const pop_ready_item *t, const pop_decoding *d, const char *from, char *to, int64_t n);

/* A share of the blocks, each `ready_bytes` when it is ready; those of one scale together. */
POP_INLINE void ready_blocks(const pop_ready_item *t, const pop_tile *tile, int to_bf16, int64_t ready_bytes,
                             pop_ready_blocks make)
{
    const int64_t blocks = ((const int64_t *)tile->operands[t->offsets])[t->n_rows];
    const int8_t *scales = t->scales < 0 ? NULL : (const int8_t *)tile->operands[t->scales];
    const int32_t *order = t->order < 0 ? NULL : (const int32_t *)tile->operands[t->order];
    const int64_t bytes = t->block_rows * t->block_columns * pop_bytes(FORMATS[t->format]);
    const int64_t first = blocks * t->part / t->parts, last = blocks * (t->part + 1) / t->parts;
    for (int64_t q = first, end; q < last; q = end) {
        const int64_t scale = scales ? scales[order ? order[q] : q] : t->scale;
        for (end = scales ? q + 1 : last; end < last && scales[order ? order[end] : end] == scale; end++) continue;
        const pop_decoding d = decoding_of(t->format, scale, to_bf16);
        char *const to = tile->operands[t->to] + q * ready_bytes;
        if (order) ready_ordered(t, &d, tile->operands[t->from], order + q, to, end - q);
        else make(t, &d, tile->operands[t->from] + q * bytes, to, end - q);
    }
}

POP_INLINE void ready(const pop_ready_item *t, const pop_tile *tile, int to_bf16)
{
    const int64_t rows = t->pairs ? (t->block_rows + 1) / 2 * 2 : t->block_rows;
    ready_blocks(t, tile, to_bf16, rows * t->block_columns * (to_bf16 ? 2 : 4), ready_some);
}

POP_INLINE void panel(const pop_panel_item *t, const pop_tile *tile, int to_bf16)
{
    const int64_t first = t->rows * t->part / t->parts, last = t->rows * (t->part + 1) / t->parts;
    const pop_decoding d = decoding_of(t->format, t->scale, to_bf16);
    pack_rows(&d, tile->operands[t->from] + t->from_offset + first * t->row, t->row, t->column,
              tile->operands[t->to] + t->to_offset + first * t->to_row, t->to_row, last - first, t->columns);
}

static void ready_f32(const void *item, const pop_tile *tile) { ready((const pop_ready_item *)item, tile, 0); }
static void ready_bf16(const void *item, const pop_tile *tile) { ready((const pop_ready_item *)item, tile, 1); }
static void panel_f32(const void *item, const pop_tile *tile) { panel((const pop_panel_item *)item, tile, 0); }
static void panel_bf16(const void *item, const pop_tile *tile) { panel((const pop_panel_item *)item, tile, 1); }
#endif
