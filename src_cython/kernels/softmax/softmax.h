/* Softmax of each row of a block-sparse matrix over its stored elements, and the gradient.
 *
 * Layout. The blocks of one block row lie one after another, so its elements form one stream of n numbers, and element t is
 * the place t mod area of some block. Accumulators are kept for a whole number of blocks, `lanes` floats: element t goes to
 * accumulator t mod lanes (see `lanes_of` in popsparse/softmax/model.py). Maxima and sums then need no shuffle whatever the block's shape, every load is contiguous, and
 * the order of a sum is a property of the shape, not of the vector's width: all levels give the same bits. At the end the
 * accumulators of equal places are folded by halves, then the columns of each row by halves, and the row's result is spread
 * over the lanes again.
 *
 * Softmax walks a block row three times: decode and find maxima; exponentials and their sums; divide and encode. The
 * exponentials stay in FP32, in Y itself where that is FP32 and else in the thread's scratch; a block row fits the caches, so
 * that memory sees one read of X and one write of Y. Masked elements become minus infinity in the first walk.
 * Measured on one Zen 5 core, 64K elements in cache, blocks of 16, 1e9 elements a second, softmax and gradient: FP32 2.2
 * and 3.1 at AVX-512, 1.5 and 2.9 at AVX2; FP16 1.9 and 3.2; BF16 1.7 and 2.6; F143 1.6 and 1.5. Blocks of one: FP32 0.8
 * and 1.4. The exponential is what softmax waits for; memory would give 3. */
#ifndef POP_SOFTMAX_H
#define POP_SOFTMAX_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "formats/codec.h"
#include "kernels/sparse/item.h"
#include "program/program.h"
#include "simd/math.h"

#define POP_RECORDS "records/softmax.def"
#include "records/structs.h"

POP_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* a[i] = op(a[i], b[i]): the halves of a fold. */
POP_INLINE void fold_max(float *restrict a, const float *restrict b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) a[i] = pop_s_max_f(a[i], b[i]);
}

POP_INLINE void fold_sum(float *restrict a, const float *restrict b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) a[i] += b[i];
}

/* Reduce `count` runs of `size` floats to the first, by halves. */
#define POP_FOLD(fold, a, count, size)                                                                                 \
    for (int64_t left = (count); left > 1;) {                                                                          \
        int64_t half = (left + 1) / 2;                                                                                 \
        fold((a), (a) + half * (size), (left - half) * (size));                                                        \
        left = half;                                                                                                   \
    }

typedef struct softmax_row {
    int64_t n, blocks, area, used; /* elements, blocks, elements of a block, blocks with accumulators of their own */
    int64_t first_row;             /* element row of its top, within the group */
    int64_t mask_before, mask_from; /* blocks before the one and from the other on have masked elements */
} softmax_row;

/* The accumulators' runs hold one value for each place in a block: spread the first row element of each to its row. */
POP_INLINE void spread_rows(float *a, int64_t high, int64_t wide, int64_t copies)
{
    for (int64_t r = 0; r < high; r++)
        for (int64_t c = 1; c < wide; c++) a[r * wide + c] = a[r * wide];
    int64_t total = copies * high * wide;
    for (int64_t done = high * wide; done < total; done *= 2) /* a chain of copies of one place would wait on itself */
        memcpy(a + done, a, (size_t)least(done, total - done) * sizeof *a);
}

static void reduce_max(float *a, const softmax_row *row, int64_t high, int64_t wide)
{
    POP_FOLD(fold_max, a, row->used, row->area)
    for (int64_t r = 0; r < high; r++) {
        POP_FOLD(fold_max, a + r * wide, wide, 1)
        if (a[r * wide] == -INFINITY) a[r * wide] = 0.0f; /* nothing to subtract: all exponentials are 0 (or NaN) */
    }
    spread_rows(a, high, wide, row->used);
}

static void reduce_sum(float *a, const softmax_row *row, int64_t high, int64_t wide)
{
    POP_FOLD(fold_sum, a, row->used, row->area)
    for (int64_t r = 0; r < high; r++) POP_FOLD(fold_sum, a + r * wide, wide, 1)
    spread_rows(a, high, wide, row->used);
}

POP_INLINE void fill(float *a, float x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) a[i] = x;
}

POP_INLINE int64_t up16(int64_t n) { return (n + 15) & ~(int64_t)15; }

/* Whether a block at this column has elements outside the matrix or in the masked triangle. */
static int has_masked(const pop_softmax_item *item, int64_t top, int64_t left)
{
    if (top + item->high > item->rows || left + item->wide > item->columns) return 1;
    if (item->mask == POP_MASK_UPPER) return left + item->wide - 1 > top;
    return item->mask == POP_MASK_LOWER && left < top + item->high - 1;
}

static void mask_block(float *w, const pop_softmax_item *item, int64_t top, int64_t left)
{
    for (int64_t r = 0; r < item->high; r++) {
        int64_t i = top + r, from = 0, to = item->wide; /* columns of the block that stay */
        if (item->mask == POP_MASK_UPPER) to = least(to, i + 1 - left);
        if (item->mask == POP_MASK_LOWER && i - left > from) from = i - left;
        to = i < item->rows ? least(to, item->columns - left) : 0;
        for (int64_t c = 0; c < item->wide; c++)
            if (c < from || c >= to) w[r * item->wide + c] = -INFINITY;
    }
}

/* Block row `index` as a stream, and which of its blocks have masked elements: columns ascend, so these are the first and the
 * last ones, or all. */
static softmax_row row_at(const pop_softmax_item *item, const int64_t *offsets, const int32_t *columns, int64_t index)
{
    softmax_row row;
    columns += offsets[index];
    row.blocks = offsets[index + 1] - offsets[index];
    row.area = item->high * item->wide;
    row.n = row.blocks * row.area;
    row.used = least(row.blocks, item->lanes / row.area);
    row.first_row = (index - item->origin) * item->high;
    int64_t first = 0, last = row.blocks;
    while (first < last && has_masked(item, row.first_row, columns[first] * item->wide)) first++;
    while (last > first && has_masked(item, row.first_row, columns[last - 1] * item->wide)) last--;
    row.mask_before = first;
    row.mask_from = last;
    return row;
}

/* FP32 values of elements t to t + n of a block row into w, minus infinity where they are masked. */
POP_INLINE void load_masked(const pop_format *f, const char *x, float *w, int64_t t, int64_t n, const softmax_row *row,
                            const pop_softmax_item *item, const int32_t *columns)
{
    for (int64_t i = 0; i < n; i += POP_LANES) {
        int part = (int)least(POP_LANES, n - i);
        pop_v_f v = part == POP_LANES ? pop_v_decode(f, x + (t + i) * pop_bytes(f))
                                      : pop_v_decode_part(f, x + (t + i) * pop_bytes(f), part);
        pop_v_encode_part(&POP_F32, POP_SATURATE, w + t + i, v, part);
    }
    int64_t first = t / row->area, last = (t + n) / row->area;
    for (int64_t b = first; b < last; b++) {
        if (b >= row->mask_before && b < row->mask_from) b = row->mask_from;
        if (b < last) mask_block(w + b * row->area, item, row->first_row, columns[b] * item->wide);
    }
}

/* FP32 numbers, minus infinity past the n that there are. */
POP_INLINE pop_v_f load_or_lowest(const float *w, int n)
{
    if (n == POP_LANES) return pop_v_decode(&POP_F32, w);
    const pop_v_part part = pop_v_first(n);
    return pop_v_select_f(pop_v_mask(part), pop_v_splat(-INFINITY), pop_v_load_f_some(w, part));
}

POP_INLINE void store_f32(float *p, pop_v_f x, int n) { pop_v_encode_part(&POP_F32, POP_SATURATE, p, x, n); }

POP_INLINE pop_v_f load_f32(const float *p) { return pop_v_decode(&POP_F32, p); }

/* One block row: x and y at its first element, w room for its numbers, a and s accumulators. */
POP_INLINE void softmax_block_row(const pop_format *fx, const pop_format *fy, const char *x, char *y, float *w, float *a,
                                  float *s, const softmax_row *row, const pop_softmax_item *item, const int32_t *columns)
{
    const int64_t lanes = row->used * row->area, n = row->n;
    const int in_place = pop_is_f32(fx) && row->mask_before == 0 && row->mask_from == row->blocks;
    const float *v = in_place ? (const float *)(const void *)x : w;
    fill(a, -INFINITY, up16(lanes));
    fill(s, 0.0f, up16(lanes));
    for (int64_t t = 0; t < n; t += lanes) {
        int64_t m = least(lanes, n - t);
        if (!in_place) load_masked(fx, x, w, t, m, row, item, columns);
        for (int64_t i = 0; i < m; i += POP_LANES)
            store_f32(a + i, pop_v_max_f(load_or_lowest(v + t + i, (int)least(POP_LANES, m - i)), load_f32(a + i)), POP_LANES);
    }
    reduce_max(a, row, item->high, item->wide);
    for (int64_t t = 0; t < n; t += lanes) {
        int64_t m = least(lanes, n - t);
        for (int64_t i = 0; i < m; i += POP_LANES) {
            int part = (int)least(POP_LANES, m - i);
            pop_v_f e = pop_v_exp(load_or_lowest(v + t + i, part) - load_f32(a + i));
            store_f32(w + t + i, e, part);
            store_f32(s + i, load_f32(s + i) + e, POP_LANES);
        }
    }
    reduce_sum(s, row, item->high, item->wide);
    for (int64_t i = 0; i < lanes; i++) s[i] = s[i] == 0.0f ? 1.0f : s[i];
    const int overflow = fy->specials == POP_IEEE ? POP_OVERFLOW_INFINITY : POP_SATURATE;
    for (int64_t t = 0; t < n; t += lanes) {
        int64_t m = least(lanes, n - t);
        for (int64_t i = 0; i < m; i += POP_LANES) {
            int part = (int)least(POP_LANES, m - i);
            pop_v_f p = pop_v_decode_part(&POP_F32, w + t + i, part) / load_f32(s + i);
            pop_v_encode_part(fy, overflow, y + (t + i) * pop_bytes(fy), p, part);
        }
    }
}

POP_INLINE void softmax_share(const pop_softmax_item *item, const pop_tile *tile, const pop_format *fx,
                              const pop_format *fy)
{
    const int64_t *offsets = (const int64_t *)(const void *)tile->operands[0];
    const int32_t *columns = (const int32_t *)(const void *)tile->operands[1];
    float *a = (float *)(void *)tile->scratch, *s = a + up16(item->lanes), *room = s + up16(item->lanes);
    int64_t first = pop_sparse_first(offsets, item->origin, item->n_rows, item->part, item->parts);
    int64_t last = pop_sparse_first(offsets, item->origin, item->n_rows, item->part + 1, item->parts);
    for (int64_t index = first; index < last; index++) {
        softmax_row row = row_at(item, offsets, columns, index);
        if (!row.n) continue;
        int64_t start = offsets[index] * row.area;
        char *y = tile->operands[3] + start * pop_bytes(fy);
        float *w = pop_is_f32(fy) ? (float *)(void *)y : room;
        softmax_block_row(fx, fy, tile->operands[2] + start * pop_bytes(fx), y, w, a, s, &row, item, columns + offsets[index]);
    }
}

/* dX = Y (G - sum of G Y over the row). */
POP_INLINE void gradient_share(const pop_softmax_item *item, const pop_tile *tile, const pop_format *fy,
                               const pop_format *fg, const pop_format *fx)
{
    const int64_t *offsets = (const int64_t *)(const void *)tile->operands[0];
    const int32_t *columns = (const int32_t *)(const void *)tile->operands[1];
    float *s = (float *)(void *)tile->scratch;
    const int overflow = fx->specials == POP_IEEE ? POP_OVERFLOW_INFINITY : POP_SATURATE;
    int64_t first = pop_sparse_first(offsets, item->origin, item->n_rows, item->part, item->parts);
    int64_t last = pop_sparse_first(offsets, item->origin, item->n_rows, item->part + 1, item->parts);
    for (int64_t index = first; index < last; index++) {
        softmax_row row = row_at(item, offsets, columns, index);
        const int64_t lanes = row.used * row.area, n = row.n, start = offsets[index] * row.area;
        const char *y = tile->operands[2] + start * pop_bytes(fy), *g = tile->operands[3] + start * pop_bytes(fg);
        char *x = tile->operands[4] + start * pop_bytes(fx);
        if (!n) continue;
        fill(s, 0.0f, up16(lanes));
        for (int64_t t = 0; t < n; t += lanes)
            for (int64_t m = least(lanes, n - t), i = 0; i < m; i += POP_LANES) {
                int part = (int)least(POP_LANES, m - i);
                pop_v_f product = pop_v_decode_part(fy, y + (t + i) * pop_bytes(fy), part) *
                                  pop_v_decode_part(fg, g + (t + i) * pop_bytes(fg), part);
                store_f32(s + i, load_f32(s + i) + product, POP_LANES);
            }
        reduce_sum(s, &row, item->high, item->wide);
        for (int64_t t = 0; t < n; t += lanes)
            for (int64_t m = least(lanes, n - t), i = 0; i < m; i += POP_LANES) {
                int part = (int)least(POP_LANES, m - i);
                pop_v_f p = pop_v_decode_part(fy, y + (t + i) * pop_bytes(fy), part);
                p = p * (pop_v_decode_part(fg, g + (t + i) * pop_bytes(fg), part) - load_f32(s + i));
                pop_v_encode_part(fx, overflow, x + (t + i) * pop_bytes(fx), p, part);
            }
    }
}

/* Kernels of one format. The layout is known here; the bias of formats of 1 byte, which the scale moves, comes with the item. */
#define POP_SOFTMAX(bytes, constant, function, ...)                                                                    \
    static void softmax_##function(const void *p, const pop_tile *tile)                                                \
    {                                                                                                                  \
        const pop_softmax_item *item = (const pop_softmax_item *)p;                                                    \
        pop_format x = POP_##constant, y = POP_##constant;                                                             \
        if (bytes == 1) x.bias = item->formats[0].bias, y.bias = item->formats[1].bias;                                \
        softmax_share(item, tile, &x, &y);                                                                             \
    }                                                                                                                  \
    static void gradient_##function(const void *p, const pop_tile *tile)                                               \
    {                                                                                                                  \
        const pop_softmax_item *item = (const pop_softmax_item *)p;                                                    \
        pop_format y = POP_##constant, g = POP_##constant, x = POP_##constant;                                         \
        if (bytes == 1) y.bias = item->formats[0].bias, g.bias = item->formats[1].bias, x.bias = item->formats[2].bias; \
        gradient_share(item, tile, &y, &g, &x);                                                                        \
    }
POP_FORMATS(POP_SOFTMAX)

/* Any formats, given with the item. */
static void softmax_any(const void *p, const pop_tile *tile)
{
    const pop_softmax_item *item = (const pop_softmax_item *)p;
    softmax_share(item, tile, &item->formats[0], &item->formats[1]);
}

static void gradient_any(const void *p, const pop_tile *tile)
{
    const pop_softmax_item *item = (const pop_softmax_item *)p;
    gradient_share(item, tile, &item->formats[0], &item->formats[1], &item->formats[2]);
}

#define POP_SOFTMAX_ROW(op, function, name) \
    {#op, name, #op "_" name, POP_FUNCTION(op##_##function), {1, 1, 1}, {1, POP_LANES, 1}, POP_CONSISTENT},
#define POP_SOFTMAX_ROWS(bytes, constant, function, name, ...) \
    POP_SOFTMAX_ROW(softmax, function, name) POP_SOFTMAX_ROW(gradient, function, name)
static const pop_kernel POP_SOFTMAX_KERNELS[] = {POP_FORMATS(POP_SOFTMAX_ROWS) POP_SOFTMAX_ROWS(0, , any, "any")};
#endif
