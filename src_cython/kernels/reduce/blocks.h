/* Blocks: up to 512 elements of a row, reduced in FP32 in an order that is the number's alone.
 *
 * Element r of a block belongs to step r / 64, part r / 16 mod 4 and lane r mod 16. The steps of a lane of a part are taken
 * in ascending order; then parts are joined, (0 1) (2 3), then lanes by halves: l and l + 8, and so on. So an element meets
 * at most 7 + 2 + 4 roundings.
 *
 * `rows` takes blocks whose elements lie one after another, vectors of 16 lanes at a time and as many blocks side by side as a
 * vector has lanes in the last step. `chain` is of blocks that lie side by side, whose elements are rows of memory: lanes in
 * the order 0, 8, 4, 12, 2 ..., so that what is joined are neighbours and few partial results are held; `few` takes such blocks of up
 * to 64 elements whole. The bits are the same. */
#ifndef POP_REDUCE_BLOCKS_H
#define POP_REDUCE_BLOCKS_H
#include "kernels/reduce/bodies.h"

#define POP_BLOCK 512   /* elements */
#define POP_WAYS 16     /* lanes */
#define POP_PARTS 4
#define POP_STRIDE (POP_WAYS * POP_PARTS) /* from a step to the next */
#define POP_STEPS 8
#define POP_SIDE_BY_SIDE 4 /* vectors of columns */
#define POP_STRIP 256   /* columns side by side; a multiple of POP_WAYS */
#define POP_VECTORS (POP_WAYS / POP_LANES) /* that hold the lanes */

/* `count` blocks of n elements, from rows[i] on; results of both accumulators, with room for whole vectors. Where vectors are a gain
 * and there is no shift, rows may be longer and no whole number of blocks, as pop_long_rows_of has them. */
typedef void (*pop_reduce_rows)(const char *const *rows, int64_t count, int64_t n, const float *shift, float *const *out);

/* The steps of a lane: up to 8 rows of memory, `width` columns of each; `joins`: to what `out` holds. Results have room for
 * whole vectors. */
typedef void (*pop_reduce_chain)(const char *const *rows, int64_t count, int64_t width, const float *shift, float *const *out,
                                 int joins);
typedef void (*pop_reduce_joiner)(float *const *to, float *const *from, int64_t width);
/* A whole block of at most POP_STRIDE rows of memory, from byte `at` of each on. */
typedef void (*pop_reduce_few)(const char *const *rows, int64_t n, int64_t at, int64_t width, const float *shift, float *const *out);

typedef void (*pop_reduce_first)(pop_v_f *a);
typedef void (*pop_reduce_step)(pop_v_f *a, pop_v_f x, pop_v_f c);
typedef void (*pop_reduce_join_two)(pop_v_f *a, const pop_v_f *b);

typedef struct pop_ways {
    pop_v_f v[POP_VECTORS][2];
} pop_ways;

typedef struct pop_body {
    pop_reduce_first first;
    pop_reduce_step step;
    pop_reduce_join_two join;
    int planes;
} pop_body;

POP_INLINE void pop_ways_first(pop_body body, pop_ways *w)
{
#pragma GCC unroll 4
    for (int v = 0; v < POP_VECTORS; v++) body.first(w->v[v]);
}

POP_INLINE void pop_ways_join(pop_body body, pop_ways *to, const pop_ways *from)
{
#pragma GCC unroll 4
    for (int v = 0; v < POP_VECTORS; v++) body.join(to->v[v], from->v[v]);
}

/* A step of lanes of which the first n are there. */
POP_INLINE void pop_ways_some(pop_body body, const pop_format *f, pop_ways *w, const char *p, int64_t n, pop_v_f c)
{
#pragma GCC unroll 4
    for (int v = 0; v < POP_VECTORS; v++) {
        const int64_t left = n - v * POP_LANES;
        if (left >= POP_LANES) {
            body.step(w->v[v], pop_v_decode(f, p + v * POP_LANES * pop_bytes(f)), c);
        } else if (left > 0) {
            const pop_v_m here = pop_v_mask(pop_v_first(left));
            pop_v_f s[2] = {w->v[v][0], w->v[v][1]};
            body.step(s, pop_v_decode_part(f, p + v * POP_LANES * pop_bytes(f), (int)left), c);
            w->v[v][0] = pop_v_select_f(here, w->v[v][0], s[0]);
            if (body.planes == 2) w->v[v][1] = pop_v_select_f(here, w->v[v][1], s[1]);
        }
    }
}

/* A vector of a block. FP32 by loads of 32 bytes, which of most addresses cross lines half as often as those of 64, and
 * for which the CPU asks ahead better: a tenth faster beyond the second-level cache, wherever numbers lie. */
POP_INLINE pop_v_f pop_block_read(const pop_format *f, const char *p)
{
#if POP_LANES == 16
    const float *at = (const float *)(const void *)p;
    if (pop_is_f32(f)) return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(at)), _mm256_loadu_ps(at + 8), 1);
#endif
    return pop_v_decode(f, p);
}

POP_INLINE void pop_ways_whole(pop_body body, const pop_format *f, pop_ways *w, const char *p, pop_v_f c)
{
#pragma GCC unroll 4
    for (int v = 0; v < POP_VECTORS; v++) body.step(w->v[v], pop_block_read(f, p + v * POP_LANES * pop_bytes(f)), c);
}

/* Parts to the first of them; one that is not there changes nothing. */
POP_INLINE void pop_parts_join(pop_body body, pop_ways *w)
{
    pop_ways_join(body, &w[0], &w[1]);
    pop_ways_join(body, &w[2], &w[3]);
    pop_ways_join(body, &w[0], &w[2]);
}

/* The lanes of a whole block. Each load meets elements at even distances, from block to block too, and they ascend: then the CPU
 * asks ahead for them. Parts that lie one after another are thrice as slow beyond the caches; two steps to a turn are a tenth
 * faster than one in the third-level cache where rows begin within a line, and eight slower. */
POP_INLINE pop_ways pop_whole_block(pop_body body, const pop_format *f, const char *p, pop_v_f c)
{
    pop_ways w[POP_PARTS];
#pragma GCC unroll 4
    for (int i = 0; i < POP_PARTS; i++) pop_ways_first(body, &w[i]);
#pragma GCC unroll 2
    for (int step = 0; step < POP_STEPS; step++, p += POP_STRIDE * pop_bytes(f)) {
#pragma GCC unroll 4
        for (int i = 0; i < POP_PARTS; i++)
#pragma GCC unroll 4
            for (int v = 0; v < POP_VECTORS; v++)
                body.step(w[i].v[v], pop_block_read(f, p + (i * POP_WAYS + v * POP_LANES) * pop_bytes(f)), c);
    }
    pop_parts_join(body, w);
    return w[0];
}

/* More than POP_WAYS elements. */
POP_INLINE pop_ways pop_block_of(pop_body body, const pop_format *f, const char *p, int64_t n, pop_v_f c)
{
    pop_ways w[POP_PARTS];
#pragma GCC unroll 4
    for (int i = 0; i < POP_PARTS; i++) pop_ways_first(body, &w[i]);
    for (; n >= POP_STRIDE; n -= POP_STRIDE, p += POP_STRIDE * pop_bytes(f)) {
#pragma GCC unroll 4
        for (int i = 0; i < POP_PARTS; i++) pop_ways_whole(body, f, &w[i], p + i * POP_WAYS * pop_bytes(f), c);
    }
#pragma GCC unroll 4
    for (int i = 0; i < POP_PARTS; i++)
        if (i * POP_WAYS < n) pop_ways_some(body, f, &w[i], p + i * POP_WAYS * pop_bytes(f), n - i * POP_WAYS, c);
    pop_parts_join(body, w);
    return w[0];
}

/* Lanes by halves until a vector is left. */
POP_INLINE void pop_ways_halved(pop_body body, pop_ways *w)
{
#pragma GCC unroll 2
    for (int left = POP_VECTORS / 2; left > 0; left /= 2)
#pragma GCC unroll 2
        for (int v = 0; v < left; v++) body.join(w->v[v], w->v[v + left]);
}

/* Two vectors, each of blocks of 2 `half` lanes one after another: the halves of all of them. */
#define POP_LOWER(i, half) ((i) / (half) * 2 * (half) + (i) % (half))
#if POP_LANES == 16
#define POP_PLACES(half, more)                                                                                        \
    (pop_v_i){POP_LOWER(0, half) + more, POP_LOWER(1, half) + more, POP_LOWER(2, half) + more,                        \
              POP_LOWER(3, half) + more, POP_LOWER(4, half) + more, POP_LOWER(5, half) + more,                        \
              POP_LOWER(6, half) + more, POP_LOWER(7, half) + more, POP_LOWER(8, half) + more,                        \
              POP_LOWER(9, half) + more, POP_LOWER(10, half) + more, POP_LOWER(11, half) + more,                      \
              POP_LOWER(12, half) + more, POP_LOWER(13, half) + more, POP_LOWER(14, half) + more,                     \
              POP_LOWER(15, half) + more}
#elif POP_LANES == 8
#define POP_PLACES(half, more)                                                                                        \
    (pop_v_i){POP_LOWER(0, half) + more, POP_LOWER(1, half) + more, POP_LOWER(2, half) + more,                        \
              POP_LOWER(3, half) + more, POP_LOWER(4, half) + more, POP_LOWER(5, half) + more,                        \
              POP_LOWER(6, half) + more, POP_LOWER(7, half) + more}
#else
#define POP_PLACES(half, more)                                                                                        \
    (pop_v_i){POP_LOWER(0, half) + more, POP_LOWER(1, half) + more, POP_LOWER(2, half) + more, POP_LOWER(3, half) + more}
#endif

/* `pairs` of such vectors, each to one. */
#define POP_HALVE(half, pairs)                                                                                        \
    _Pragma("GCC unroll 8") for (int i = 0; i < pairs; i++) {                                                         \
        pop_v_f low[2], high[2];                                                                                      \
        for (int k = 0; k < body.planes; k++) {                                                                       \
            low[k] = __builtin_shuffle(x[2 * i][k], x[2 * i + 1][k], POP_PLACES(half, 0));                            \
            high[k] = __builtin_shuffle(x[2 * i][k], x[2 * i + 1][k], POP_PLACES(half, half));                        \
        }                                                                                                             \
        body.join(low, high);                                                                                         \
        for (int k = 0; k < body.planes; k++) x[i][k] = low[k];                                                       \
    }

/* `width` vectors, each of as many lanes of several results: the lanes by halves, the results one after another in the first. */
POP_INLINE void pop_halves(pop_body body, int width, pop_v_f x[POP_LANES][2])
{
    if (width >= 16) POP_HALVE(8, 8)
    if (width >= 8) POP_HALVE(4, 4)
    if (width >= 4) POP_HALVE(2, 2)
    if (width >= 2) POP_HALVE(1, 1)
}

/* A row of POP_WAYS elements or fewer, as one vector. */
POP_INLINE void pop_short_row(pop_body body, const pop_format *f, const char *row, int64_t n, const float *shift, pop_v_f *x)
{
    pop_ways w;
    pop_ways_first(body, &w);
    if (n == POP_WAYS) pop_ways_whole(body, f, &w, row, pop_v_splat(shift ? *shift : 0.0f));
    else pop_ways_some(body, f, &w, row, n, pop_v_splat(shift ? *shift : 0.0f));
    pop_ways_halved(body, &w);
    x[0] = w.v[0][0];
    if (body.planes == 2) x[1] = w.v[0][1];
}

/* POP_LANES rows of n elements, one after another in memory: several to a vector, as pop_halves has them halfway. */
POP_INLINE void pop_rows_abreast(pop_body body, const pop_format *f, const char *p, int n, pop_v_f x[POP_LANES][2])
{
#pragma GCC unroll 16
    for (int k = 0; k < n; k++) {
        body.first(x[k]);
        body.step(x[k], pop_v_decode(f, p + k * POP_LANES * pop_bytes(f)), pop_v_splat(0.0f));
    }
    pop_halves(body, n, x);
}

POP_INLINE int pop_are_adjacent(const char *const *rows, int64_t bytes)
{
    int apart = 0;
    for (int k = 1; k < POP_LANES; k++) apart |= rows[k] != rows[0] + k * bytes;
    return !apart;
}

/* Rows of more than POP_WAYS elements and at most POP_STRIDE, each as one vector: `parts` parts of them, the last perhaps of
 * fewer lanes. */
POP_INLINE void pop_rows_in_parts(pop_body body, const pop_format *f, const char *const *rows, int here, int64_t n,
                                  const float *shift, pop_v_f x[POP_LANES][2], const int parts)
{
    for (int k = 0; k < here; k++) {
        const pop_v_f c = pop_v_splat(shift ? shift[k] : 0.0f);
        pop_ways w[POP_PARTS];
#pragma GCC unroll 4
        for (int i = 0; i < parts; i++) {
            const char *p = rows[k] + i * POP_WAYS * pop_bytes(f);
            pop_ways_first(body, &w[i]);
            if (i + 1 < parts) pop_ways_whole(body, f, &w[i], p, c);
            else pop_ways_some(body, f, &w[i], p, n - i * POP_WAYS, c);
        }
        pop_ways_join(body, &w[0], &w[1]);
        if (parts == POP_PARTS) pop_ways_join(body, &w[2], &w[3]);
        if (parts > 2) pop_ways_join(body, &w[0], &w[2]);
        pop_ways_halved(body, &w[0]);
        x[k][0] = w[0].v[0][0];
        if (body.planes == 2) x[k][1] = w[0].v[0][1];
    }
}

/* POP_LANES whole blocks. Four of them are held in registers and join before they are stored: what passes through the first-level
 * cache drives out all else that lies there. */
POP_INLINE void pop_whole_blocks(pop_body body, const pop_format *f, const char *const *rows, const float *shift,
                                 pop_v_f blocks[POP_LANES][2])
{
    for (int k = 0; k < POP_LANES; k += 4) {
        pop_v_f x[4][2];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) body.first(x[i]);
#pragma GCC unroll 1
        for (int i = k; i < k + 4; i++) {
            pop_ways w = pop_whole_block(body, f, rows[i], pop_v_splat(shift ? shift[i] : 0.0f));
            pop_ways_halved(body, &w);
            for (int plane = 0; plane < body.planes; plane++) {
                x[0][plane] = x[1][plane], x[1][plane] = x[2][plane], x[2][plane] = x[3][plane];
                x[3][plane] = w.v[0][plane];
            }
        }
        POP_HALVE(POP_LANES / 2, 2)
        POP_HALVE(POP_LANES / 4, 1)
        for (int plane = 0; plane < body.planes; plane++) blocks[k / 4][plane] = x[0][plane];
    }
    pop_halves(body, POP_LANES / 4, blocks);
}

/* POP_LANES rows, or the first `here` of them. */
POP_INLINE void pop_rows_together(pop_body body, const pop_format *f, const char *const *rows, int here, int64_t n,
                                  const float *shift, pop_v_f x[POP_LANES][2])
{
    const int whole = n == 2 || n == 4 || n == 8 || n == 16, fits = whole && n <= POP_LANES;
    if (!POP_ONE_BODY && here == POP_LANES && !shift && fits && pop_are_adjacent(rows, n * pop_bytes(f))) {
        if (n == 2) pop_rows_abreast(body, f, rows[0], 2, x);
        else if (n == 4) pop_rows_abreast(body, f, rows[0], 4, x);
        else if (n == 8) pop_rows_abreast(body, f, rows[0], 8, x);
        else pop_rows_abreast(body, f, rows[0], POP_LANES, x);
        return;
    }
    if (!POP_ONE_BODY && here == POP_LANES && n == POP_BLOCK) {
        pop_whole_blocks(body, f, rows, shift, x);
        return;
    }
    const int parts = !POP_ONE_BODY && n > POP_WAYS && n <= POP_STRIDE ? (int)((n + POP_WAYS - 1) / POP_WAYS) : 0;
    if (parts == 2) pop_rows_in_parts(body, f, rows, here, n, shift, x, 2);
    else if (parts == 3) pop_rows_in_parts(body, f, rows, here, n, shift, x, 3);
    else if (parts == 4) pop_rows_in_parts(body, f, rows, here, n, shift, x, 4);
    for (int k = 0; k < here && !parts; k++) {
        const float *c = shift ? shift + k : NULL;
        if (n <= POP_WAYS) { /* the shortest by themselves, so that little is asked of each */
            pop_short_row(body, f, rows[k], n, c, x[k]);
            continue;
        }
        pop_ways w = !POP_ONE_BODY && n == POP_BLOCK ? pop_whole_block(body, f, rows[k], pop_v_splat(c ? *c : 0.0f))
                                                     : pop_block_of(body, f, rows[k], n, pop_v_splat(c ? *c : 0.0f));
        pop_ways_halved(body, &w);
        x[k][0] = w.v[0][0];
        if (body.planes == 2) x[k][1] = w.v[0][1];
    }
    for (int k = here; k < POP_LANES; k++) body.first(x[k]);
    pop_halves(body, POP_LANES, x);
}

/* Result `number` of several, as one vector: they are written when a vector of them is full, or it is the last. */
POP_INLINE void pop_result_put(pop_body body, pop_v_f x[POP_LANES][2], int64_t number, int last, const pop_v_f *made, float *const *out)
{
    int k = (int)(number % POP_LANES);
    for (int plane = 0; plane < body.planes; plane++) x[k][plane] = made[plane];
    if (k < POP_LANES - 1 && !last) return;
    while (++k < POP_LANES) body.first(x[k]);
    pop_halves(body, POP_LANES, x);
    for (int plane = 0; plane < body.planes; plane++) pop_v_store_f(out[plane] + number / POP_LANES * POP_LANES, x[0][plane]);
}

/* Where what rows longer than blocks leave over has its results: behind those of all blocks. */
POP_INLINE int64_t pop_rests_begin(int64_t count, int64_t n) { return (count * (n / POP_BLOCK) + POP_LANES - 1) / POP_LANES * POP_LANES; }

/* Rows longer than a block, each from its first element to its last, so that the CPU asks ahead: the results of their blocks, then of
 * what these leave over. */
POP_INLINE void pop_long_rows_of(pop_body body, const pop_format *f, const char *const *rows, int64_t count, int64_t n, float *const *out)
{
    const int64_t blocks = n / POP_BLOCK, rest = n % POP_BLOCK, begin = pop_rests_begin(count, n);
    float *const rests[2] = {out[0] + begin, out[1] + begin};
    const pop_v_f none = pop_v_splat(0.0f);
    pop_v_f x[POP_LANES][2], y[POP_LANES][2], made[2];
    for (int64_t i = 0; i < count; i++) {
        const char *p = rows[i];
        for (int64_t k = 0; k < blocks; k++, p += POP_BLOCK * pop_bytes(f)) {
            pop_ways w = pop_whole_block(body, f, p, none);
            pop_ways_halved(body, &w);
            pop_result_put(body, x, i * blocks + k, (i + 1) * (k + 1) == count * blocks, w.v[0], out);
        }
        if (rest <= POP_WAYS) {
            pop_short_row(body, f, p, rest, NULL, made);
        } else {
            pop_ways w = pop_block_of(body, f, p, rest, none);
            pop_ways_halved(body, &w);
            for (int plane = 0; plane < body.planes; plane++) made[plane] = w.v[0][plane];
        }
        pop_result_put(body, y, i, i + 1 == count, made, rests);
    }
}

POP_INLINE void pop_rows_of(pop_body body, const pop_format *f, const char *const *rows, int64_t count, int64_t n,
                            const float *shift, float *const *out)
{
    if (!POP_ONE_BODY && n > POP_BLOCK) {
        pop_long_rows_of(body, f, rows, count, n, out);
        return;
    }
    for (int64_t i = 0; i < count; i += POP_LANES) {
        pop_v_f x[POP_LANES][2];
        const int here = count - i < POP_LANES ? (int)(count - i) : POP_LANES;
        pop_rows_together(body, f, rows + i, here, n, shift ? shift + i : NULL, x);
        pop_v_store_f(out[0] + i, x[0][0]);
        if (body.planes == 2) pop_v_store_f(out[1] + i, x[0][1]);
    }
}

/* A step of a vector of columns, of which `part` are there. */
POP_INLINE void pop_column_step(pop_body body, const pop_format *f, const char *p, int part, pop_v_f c, pop_v_f *a)
{
    body.step(a, part < POP_LANES ? pop_v_decode_part(f, p, part) : pop_v_decode(f, p), c);
}

/* Vectors of columns side by side, the last of `part` columns; `joins`: to what `out` holds. */
POP_INLINE void pop_chain_vectors(pop_body body, const pop_format *f, const char *const *rows, int64_t count, int64_t column,
                                  int vectors, int part, const float *shift, float *const *out, int joins)
{
    pop_v_f s[POP_SIDE_BY_SIDE][2], c[POP_SIDE_BY_SIDE];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        c[v] = shift ? pop_v_load_f(shift + column + v * POP_LANES) : pop_v_splat(0.0f);
        body.first(s[v]);
    }
    for (int64_t r = 0; r < count; r++) {
        const char *at = rows[r] + column * pop_bytes(f);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++, at += POP_LANES * pop_bytes(f))
            pop_column_step(body, f, at, part, c[v], s[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        float *const to[2] = {out[0] + column + v * POP_LANES, out[1] + column + v * POP_LANES};
        pop_v_f before[2];
        if (joins) {
            for (int k = 0; k < body.planes; k++) before[k] = pop_v_load_f(to[k]);
            body.join(before, s[v]);
        }
        for (int k = 0; k < body.planes; k++) pop_v_store_f(to[k], joins ? before[k] : s[v][k]);
    }
}

POP_INLINE void pop_chain_of(pop_body body, const pop_format *f, const char *const *rows, int64_t count, int64_t width,
                             const float *shift, float *const *out, int joins)
{
    int64_t column = 0;
    if (!POP_ONE_BODY)
        for (; column + POP_SIDE_BY_SIDE * POP_LANES <= width; column += POP_SIDE_BY_SIDE * POP_LANES)
            pop_chain_vectors(body, f, rows, count, column, POP_SIDE_BY_SIDE, POP_LANES, shift, out, joins);
    for (; column + POP_LANES <= width; column += POP_LANES)
        pop_chain_vectors(body, f, rows, count, column, 1, POP_LANES, shift, out, joins);
    if (column < width) pop_chain_vectors(body, f, rows, count, column, 1, (int)(width - column), shift, out, joins);
}

/* A vector of columns: lanes l and l + 8 are joined as soon as both are there, so that those of one accumulator stay in registers. */
POP_INLINE void pop_few_vector(pop_body body, const pop_format *f, const char *const *rows, int64_t n, int64_t at, int64_t column, int part,
                               const float *shift, float *const *out)
{
    enum { HALF = POP_WAYS / 2 };
    const pop_v_f c = shift ? pop_v_load_f(shift + column) : pop_v_splat(0.0f);
    pop_v_f x[HALF][2];
    at += column * pop_bytes(f);
#pragma GCC unroll 8
    for (int l = 0; l < HALF; l++) {
        pop_v_f y[2];
        body.first(x[l]), body.first(y);
        if (l < n) pop_column_step(body, f, rows[l] + at, part, c, x[l]);
        if (l + HALF >= n) continue;
        pop_column_step(body, f, rows[l + HALF] + at, part, c, y);
        body.join(x[l], y);
    }
#pragma GCC unroll 3
    for (int half = HALF / 2; half; half /= 2)
#pragma GCC unroll 4
        for (int l = 0; l < half; l++)
            if (l + half < n) body.join(x[l], x[l + half]);
    for (int plane = 0; plane < body.planes; plane++) pop_v_store_f(out[plane] + column, x[0][plane]);
}
/* `vectors` vectors of columns of blocks of more than POP_WAYS elements: of each lane its parts, (0 1) (2 3), then lanes by halves. */
POP_INLINE void pop_parts_vectors(pop_body body, const pop_format *f, const char *const *rows, int64_t n, int64_t at, int64_t column,
                                  const int vectors, int part, const float *shift, float *const *out)
{
    pop_v_f x[POP_WAYS][POP_SIDE_BY_SIDE][2], c[POP_SIDE_BY_SIDE], y[POP_SIDE_BY_SIDE][2], z[2];
    at += column * pop_bytes(f);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) c[v] = shift ? pop_v_load_f(shift + column + v * POP_LANES) : pop_v_splat(0.0f);
    for (int l = 0; l < POP_WAYS; l++)
        for (int64_t r = l; r < n; r += 2 * POP_WAYS) {
            const char *p = rows[r] + at;
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) body.first(y[v]), pop_column_step(body, f, p + v * POP_LANES * pop_bytes(f), part, c[v], y[v]);
            if (r + POP_WAYS < n) {
                p = rows[r + POP_WAYS] + at;
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++) {
                    body.first(z), pop_column_step(body, f, p + v * POP_LANES * pop_bytes(f), part, c[v], z);
                    body.join(y[v], z);
                }
            }
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                if (r != l) {
                    body.join(x[l][v], y[v]);
                    continue;
                }
                x[l][v][0] = y[v][0];
                if (body.planes == 2) x[l][v][1] = y[v][1];
            }
        }
    for (int half = POP_WAYS / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) body.join(x[l][v], x[l + half][v]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        for (int plane = 0; plane < body.planes; plane++) pop_v_store_f(out[plane] + column + v * POP_LANES, x[0][v][plane]);
}
POP_INLINE void pop_few_of(pop_body body, const pop_format *f, const char *const *rows, int64_t n, int64_t at, int64_t width,
                           const float *shift, float *const *out)
{
    enum { SOME = POP_SIDE_BY_SIDE * POP_LANES };
    int64_t column = 0;
    if (n > POP_WAYS) {
        for (; column + SOME <= width; column += SOME)
            pop_parts_vectors(body, f, rows, n, at, column, POP_SIDE_BY_SIDE, POP_LANES, shift, out);
        for (; column < width; column += POP_LANES)
            pop_parts_vectors(body, f, rows, n, at, column, 1, width - column < POP_LANES ? (int)(width - column) : POP_LANES, shift, out);
        return;
    }
    for (; column + POP_LANES <= width; column += POP_LANES) pop_few_vector(body, f, rows, n, at, column, POP_LANES, shift, out);
    if (column < width) pop_few_vector(body, f, rows, n, at, column, (int)(width - column), shift, out);
}

POP_INLINE void pop_join_columns(pop_body body, float *const *to, float *const *from, int64_t width)
{
    for (int64_t column = 0; column < width; column += POP_LANES) {
        pop_v_f a[2], b[2];
        for (int k = 0; k < body.planes; k++) a[k] = pop_v_load_f(to[k] + column), b[k] = pop_v_load_f(from[k] + column);
        body.join(a, b);
        for (int k = 0; k < body.planes; k++) pop_v_store_f(to[k] + column, a[k]);
    }
}

/* A macro for each format that kernels read as it lies, with its suffix and its facts: at the portable level, FP32 alone. */
#if !POP_ONE_BODY
#define POP_REDUCE_EACH_FORMAT(X, ...) X(__VA_ARGS__, f32, POP_F32) X(__VA_ARGS__, f16, POP_F16) X(__VA_ARGS__, bf16, POP_BF16)
#else
#define POP_REDUCE_EACH_FORMAT(X, ...) X(__VA_ARGS__, f32, POP_F32)
#endif

/* The functions of a body: for codes of each format as they lie, and for partial results. */
#define POP_REDUCE_BODY(name, planes) (pop_body){pop_first_##name, pop_step_##name, pop_join_##name, planes}
#define POP_REDUCE_OF_FORMAT(name, planes, suffix, format)                                                            \
    static void pop_rows_##name##_##suffix(const char *const *rows, int64_t count, int64_t n, const float *shift,     \
                                           float *const *out)                                                         \
    {                                                                                                                 \
        pop_rows_of(POP_REDUCE_BODY(name, planes), &format, rows, count, n, shift, out);                              \
    }                                                                                                                 \
    static void pop_chain_##name##_##suffix(const char *const *rows, int64_t count, int64_t width, const float *shift, \
                                            float *const *out, int joins)                                             \
    {                                                                                                                 \
        pop_chain_of(POP_REDUCE_BODY(name, planes), &format, rows, count, width, shift, out, joins);                  \
    }                                                                                                                 \
    static void pop_few_##name##_##suffix(const char *const *rows, int64_t n, int64_t at, int64_t width, const float *shift, \
                                          float *const *out)                                                          \
    {                                                                                                                 \
        pop_few_of(POP_REDUCE_BODY(name, planes), &format, rows, n, at, width, shift, out);                           \
    }
#define POP_REDUCE_JOINER(name, planes)                                                                               \
    static void pop_join_columns_##name(float *const *to, float *const *from, int64_t width)                          \
    {                                                                                                                 \
        pop_join_columns(POP_REDUCE_BODY(name, planes), to, from, width);                                             \
    }
#define POP_REDUCE_FUNCTIONS(name, planes)                                                                            \
    POP_REDUCE_EACH_FORMAT(POP_REDUCE_OF_FORMAT, name, planes) POP_REDUCE_JOINER(name, planes)
#define POP_REDUCE_SINGLE_FUNCTIONS(name, first, step, join) POP_REDUCE_FUNCTIONS(name, 1)
#define POP_REDUCE_QUESTION_FUNCTIONS(name, first, step, join)                                                        \
    POP_REDUCE_OF_FORMAT(name, 1, f32, POP_F32) POP_REDUCE_JOINER(name, 1)
#define POP_REDUCE_DOUBLE_FUNCTIONS(name, step, join) POP_REDUCE_FUNCTIONS(name, 2)
POP_REDUCE_SINGLE(POP_REDUCE_SINGLE_FUNCTIONS)
POP_REDUCE_QUESTION(POP_REDUCE_QUESTION_FUNCTIONS)
POP_REDUCE_DOUBLE(POP_REDUCE_DOUBLE_FUNCTIONS)
#endif
