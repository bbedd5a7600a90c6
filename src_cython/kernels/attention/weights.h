/* From scores to weights, chunk by chunk, and from the gradients of weights to those of scores. Exponentials are powers of 2: a
 * score's scale takes the logarithm in.
 *
 * A row keeps m, the greatest score that it has met, and l, the sum of exponentials of what lies below that; where m rises, what was
 * summed before is scaled by 2^(old m - m). A row whose scores are all minus infinity has weights of 0. */
#ifndef POP_ATTENTION_WEIGHTS_H
#define POP_ATTENTION_WEIGHTS_H
#include "kernels/attention/constants.h"
#include "kernels/attention/panels.h"

#define POP_ATTENTION_LOG2E 0x1.71547652b82fep0

typedef struct pop_attention_piece {
    int64_t key, keys, tile; /* the first, how many count, and which tile it is of all */
    int64_t at;              /* its first column among scores */
    char *slot;
} pop_attention_piece;

/* Queries that are walked at once. */
typedef struct pop_attention_strip {
    int64_t batch, head, heads; /* of queries */
    int64_t first, each, rows;  /* query; queries of a head; in all */
    pop_attention_cells q;      /* the queries, as rows of cells */
    const int32_t *columns;     /* of the block row, NULL where all count */
    int64_t blocks;
} pop_attention_strip;

POP_INLINE void pop_attention_fill(float *to, float x, int64_t n)
{
    POP_ROW_EACH(0, n, pop_row_store(to, i, pop_v_splat(x), part); (void)k;);
}

/* Whether scores are scaled before they are weighed: what a mask adds is not scaled, and the greatest score is looked for before it
 * is. So the scale rounds the same way in all strips of a call. */
POP_INLINE int pop_attention_scales(const pop_attention *s) { return (s->mask.operand >= 0 && !s->truths) || s->scale <= 0.0; }

/* n scores, scaled, with what the mask adds to them, or minus infinity for its false. */
static void pop_attention_scale(const pop_attention *s, const char *from, float *scores, int64_t n, float *stage)
{
    const pop_v_f none = pop_v_splat(-INFINITY), by = pop_v_splat((float)s->scale);
    const float *more = (const float *)(const void *)from;
    if (s->truths) {
        POP_ROW_EACH(0, n,
                     const pop_v_i truth = pop_v_load_some(from + i, 1, pop_v_first(part));
                     pop_v_f x = pop_row_load(scores, i, part);
                     if (s->scale <= 0.0) x = x * by;
                     pop_row_store(scores, i, pop_v_select_f(pop_v_eq(truth, pop_v_set(0)), x, none), part); (void)k;);
        return;
    }
    if (from && s->mask.codec) {
        ((pop_decoder)s->mask.codec)(&s->mask.cast, from, stage, n);
        more = stage;
    }
    POP_ROW_EACH(0, n,
                 pop_v_f x = pop_row_load(scores, i, part) * by;
                 if (more) x += pop_row_load(more, i, part);
                 pop_row_store(scores, i, x, part); (void)k;);
}

/* A piece's scores masked, with minus infinity for those that do not count, and to the grain. */
static void pop_attention_mask(const pop_attention *s, const pop_tile *tile, const pop_attention_strip *strip,
                               const pop_attention_piece *piece, float *scores)
{
    const int64_t width = pop_rounded(piece->keys, s->depth_grain > 16 ? s->depth_grain : 16);
    float *stage = (float *)(void *)(tile->scratch + s->stage_at);
    scores += piece->at;
    for (int64_t r = 0; r < strip->rows; r++, scores += s->score_line) {
        const int64_t query = strip->first + r % strip->each;
        const char *from = pop_attention_at(&s->mask, tile, strip->batch, strip->head + r / strip->each);
        if (from) from += query * s->mask.token + piece->key * s->mask.bytes;
        if (from || s->scale <= 0.0) pop_attention_scale(s, from, scores, piece->keys, stage);
        int64_t counts = piece->keys;
        if (s->causal) counts = pop_lesser(counts, query + s->origin + 1 - piece->key);
        if (counts < 0) counts = 0;
        pop_attention_fill(scores + counts, -INFINITY, width - counts);
    }
}

/* What makes a score's product with `by` less `less` the exponent of its weight, below a greatest score. Where that is so large that
 * what it rounds to could be far from it, other scores are 512 below, and stay so with a power of two. */
#define POP_ATTENTION_LARGE 0x1p33f
POP_INLINE void pop_attention_exponents(float top, float scale, float *by, float *less)
{
    *by = scale, *less = top == -INFINITY ? 0.0f : top * scale;
    if (!(__builtin_fabsf(*less) >= POP_ATTENTION_LARGE)) return;
    *by = pop_s_power_to(top, 33);
    *less = top * *by;
}
/* 2^(old - top) */
POP_INLINE float pop_attention_share(float old, float top, float scale)
{
    float by, less;
    pop_attention_exponents(top, scale, &by, &less);
    return pop_v_exp2(pop_v_splat(old * by - less))[0];
}
/* The natural logarithm of the sum l of powers below a greatest score. */
POP_INLINE float pop_attention_log(float top, float scale, float l)
{
    float by, less;
    pop_attention_exponents(top, scale, &by, &less);
    const double power = by == scale ? (double)less : (double)top * scale;
    return l == 0.0f ? -INFINITY : (float)(power / POP_ATTENTION_LOG2E + pop_v_log(pop_v_splat(l))[0]);
}
/* The same from a sum's logarithm, which is rounded: where that takes more than weights differ by, what is hardly below it is not. */
POP_INLINE void pop_attention_exponents_of(float lse, float scale, float *by, float *less)
{
    *by = scale, *less = lse == -INFINITY ? INFINITY : (float)(lse * POP_ATTENTION_LOG2E);
    if (!(__builtin_fabsf(*less) >= POP_ATTENTION_LARGE) || __builtin_fabsf(lse) == INFINITY) return;
    const float unit = pop_s_power_to(lse, 32); /* 512 over a unit in its last place */
    *by = (float)(scale / POP_ATTENTION_LOG2E) * unit;
    *less = lse * unit - 384.0f;
}

/* 2^x within 2^-18 of itself, which is far less than what rounding to BF16 takes: a minimax polynomial for the fraction. What is below
 * normal numbers the rounding takes for 0. */
POP_INLINE pop_v_f pop_attention_rough(pop_v_f x)
{
    static const float fit[5] = {0x1.ffffe8p-1f, 0x1.62e0dcp-1f, 0x1.ec06dcp-3f, 0x1.ca1444p-5f, 0x1.3997aap-7f};
    x = pop_v_max_f(pop_v_splat(-152.0f), x);
#if POP_LANES < 16 /* where exponents that are too large do not become infinities by themselves */
    x = pop_v_min_f(pop_v_splat(130.0f), x);
#endif
    const pop_v_f n = (x + POP_ROUNDER) - POP_ROUNDER;
    return pop_v_scale_from(pop_v_horner(fit, POP_LENGTH(fit), x - n), n, -126.0f);
}

/* Numbers at p that are products' next operands: FP32, or BF16 if a cell has two. */
POP_INLINE void pop_attention_store(const int elements, void *p, int64_t i, pop_v_f x, int part)
{
    if (elements == 1) {
        pop_row_write(&POP_F32, p, i, x, part);
        return;
    }
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    const __m256i codes = (__m256i)_mm512_cvtneps_pbh(x);
    if (part == POP_LANES) _mm256_storeu_si256((__m256i *)((uint16_t *)p + i), codes);
    else _mm256_mask_storeu_epi16((uint16_t *)p + i, pop_v_first(part), codes);
#else
    pop_row_write(&POP_BF16, p, i, x, part);
#endif
}

/* 2^x; near: where it is a normal number. */
POP_INLINE pop_v_f pop_attention_power(const int elements, const int near, pop_v_f x)
{
    if (elements == 2) return pop_attention_rough(x);
    return near ? pop_v_exp2_within(x, 1) : pop_v_exp2(x);
}

#if POP_LANES == 8
/* AVX2 has fewer registers than a row has lanes and constants: of memory between, and of what is copied there, it waits for each row.
 * Columns are a multiple of 16. */

/* A row's powers of 2 to weights, a vector of lanes after another, and their sum. */
POP_INLINE float pop_attention_powers(const int elements, const int near, const float *scores, void *weights, int64_t n, float scale,
                                      float greatest)
{
    const pop_v_f by = pop_v_splat(scale), less = pop_v_splat(greatest);
    pop_v_f sums[POP_ROW_VECTORS];
    pop_lanes lanes;
    for (int k = 0; k < POP_ROW_VECTORS; k++) {
        pop_v_f sum = pop_v_splat(0.0f);
#pragma GCC unroll 4
        for (int64_t i = k * POP_LANES; i < n; i += POP_ROW_LANES) {
            const pop_v_f e = pop_attention_power(elements, near, pop_v_fma(pop_row_load(scores, i, POP_LANES), by, -less));
            pop_attention_store(elements, weights, i, e, POP_LANES);
            sum += e;
        }
        sums[k] = sum;
    }
#pragma GCC unroll 8
    for (int k = 0; k < POP_ROW_VECTORS; k++) lanes.v[k] = sums[k];
    return pop_lanes_sum(&lanes);
}

/* The powers of a row's scores and their sum; `m` becomes the greatest. Where all are normal numbers, exponents scale them. */
POP_INLINE float pop_attention_row(const int elements, const float *scores, void *weights, int64_t n, float scale, float *m)
{
    pop_v_f least;
    const float most = pop_lane_max(pop_row_lanes_most(&POP_F32, scores, n, &least));
    float by, less;
    if (most > *m) *m = most;
    pop_attention_exponents(*m, scale, &by, &less);
    const pop_v_f lowest = pop_v_fma(least, pop_v_splat(by), pop_v_splat(-less));
    if (elements == 1 && !pop_v_any(pop_v_lt_f(lowest, pop_v_splat(-125.0f))) && __builtin_fmaf(most, by, -less) <= 125.0f)
        return pop_attention_powers(elements, 1, scores, weights, n, by, less);
    return pop_attention_powers(elements, 0, scores, weights, n, by, less);
}
#else
POP_INLINE float pop_attention_row(const int elements, const float *scores, void *weights, int64_t n, float scale, float *m)
{
    pop_v_f least;
    const float most = pop_lane_max(pop_row_lanes_most(&POP_F32, scores, n, &least));
    float factor, top;
    if (most > *m) *m = most;
    pop_attention_exponents(*m, scale, &factor, &top);
    const pop_v_f by = pop_v_splat(factor), less = pop_v_splat(top);
    pop_lanes lanes = pop_lanes_of(0.0f);
    POP_ROW_EACH(0, n,
                 const pop_v_f e = pop_attention_power(elements, 0, pop_v_fma(pop_row_load(scores, i, part), by, -less));
                 pop_attention_store(elements, weights, i, e, part);
                 lanes.v[k] += e;);
    return pop_lanes_sum(&lanes);
}
#endif

/* A row's scores, which `scale` makes logarithms to base 2, to weights; returns by what its sums are to be scaled. */
POP_INLINE float pop_attention_weigh(const int elements, const float *scores, void *weights, int64_t n, float scale, float *m,
                                     float *l)
{
    const float before = *m, sum = pop_attention_row(elements, scores, weights, n, scale, m);
    const float share = *m == before ? 1.0f : pop_attention_share(before, *m, scale);
    *l = *l * share + sum;
    return share;
}

/* What makes scores logarithms to base 2. */
POP_INLINE float pop_attention_to_powers(const pop_attention *s)
{
    return (float)((pop_attention_scales(s) ? 1.0 : s->scale) * POP_ATTENTION_LOG2E);
}

/* The scores of a strip to weights, and its sums scaled. */
static void pop_attention_chunk(const pop_attention *s, const pop_tile *tile, int64_t rows, int64_t n)
{
    float *scores = (float *)(void *)(tile->scratch + s->scores_at), *sums = (float *)(void *)(tile->scratch + s->sums_at);
    float *m = (float *)(void *)(tile->scratch + s->state_at), *l = m + rows;
    char *weights = tile->scratch + s->weights_at;
    const float scale = pop_attention_to_powers(s);
    for (int64_t r = 0; r < rows; r++, scores += s->score_line, sums += s->v_line, weights += 4 / s->elements * s->score_line) {
        const float share = s->elements == 1 ? pop_attention_weigh(1, scores, weights, n, scale, m + r, l + r)
                                             : pop_attention_weigh(2, scores, weights, n, scale, m + r, l + r);
        if (share == 1.0f) continue;
        const pop_v_f by = pop_v_splat(share);
        POP_ROW_EACH(0, s->v.width, pop_row_store(sums, i, pop_row_load(sums, i, part) * by, part); (void)k;);
    }
}

/* A row's scores and their weights' gradients to weights and the scores' own gradients. */
POP_INLINE void pop_attention_turn(const int elements, const float *scores, const float *deltas, void *weights, void *own, int64_t n,
                                   float scale, float lse, float mean)
{
    float factor, log;
    pop_attention_exponents_of(lse, scale, &factor, &log);
    const pop_v_f by = pop_v_splat(factor), less = pop_v_splat(log), from = pop_v_splat(mean), zero = pop_v_splat(0.0f);
    POP_ROW_EACH(0, n,
                 const pop_v_f x = pop_v_fma(pop_row_load(scores, i, part), by, -less);
                 const pop_v_f e = pop_attention_power(elements, 0, pop_v_min_f(zero, x)); /* no weight is above 1 */
                 const pop_v_f d = e * (pop_row_load(deltas, i, part) - from);
                 pop_attention_store(elements, weights, i, e, part);
                 pop_attention_store(elements, own, i, d, part); (void)k;);
}

static void pop_attention_turns(const pop_attention *s, const pop_tile *tile, int64_t rows, int64_t n)
{
    const float *scores = (const float *)(const void *)(tile->scratch + s->scores_at);
    const float *deltas = (const float *)(const void *)(tile->scratch + s->deltas_at);
    const float *lse = (const float *)(const void *)(tile->scratch + s->state_at), *mean = lse + rows;
    char *weights = tile->scratch + s->weights_at, *own = tile->scratch + s->delta_weights_at;
    const float scale = pop_attention_to_powers(s);
    for (int64_t r = 0; r < rows; r++) {
        if (s->elements == 1) pop_attention_turn(1, scores, deltas, weights, own, n, scale, lse[r], mean[r]);
        else pop_attention_turn(2, scores, deltas, weights, own, n, scale, lse[r], mean[r]);
        scores += s->score_line, deltas += s->score_line;
        weights += 4 / s->elements * s->score_line, own += 4 / s->elements * s->score_line;
    }
}
#endif
