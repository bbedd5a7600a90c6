/* Where lanes are channels: a result is made of what it takes, in registers. Of each column of a window its rows first, as on a
 * line, so that the bits are the same. */
#ifndef POP_POOL_DIRECT_H
#define POP_POOL_DIRECT_H

/* Formats that kernels read and write as they are: their places in tables of functions. */
POP_INLINE int pop_pool_direct_format(int format) { return format == POP_IS_F32 ? 0 : format == POP_IS_F16 ? 1 : 2; }

POP_INLINE pop_v_f pop_pool_load(int format, const char *p, int64_t i, int n)
{
    if (format == 0) return pop_v_decode_part(&POP_F32, p + 4 * i, n);
    return format == 1 ? pop_v_decode_part(&POP_F16, p + 2 * i, n) : pop_v_decode_part(&POP_BF16, p + 2 * i, n);
}
POP_INLINE void pop_pool_store(int format, char *to, int64_t i, pop_v_f x, int n)
{
    if (format == 0) pop_v_encode_part(&POP_F32, POP_OVERFLOW_INFINITY, to + 4 * i, x, n);
    else if (format == 1) pop_v_encode_part(&POP_F16, POP_OVERFLOW_INFINITY, to + 2 * i, x, n);
    else pop_v_encode_part(&POP_BF16, POP_OVERFLOW_INFINITY, to + 2 * i, x, n);
}

/* What one result is made of, and where it goes. */
typedef struct pop_pool_cell {
    const char *const *rows;
    const float *weights, *multipliers;
    const int64_t *at; /* coordinates of the last axis */
    int64_t count, taps, step; /* rows, columns; bytes from a coordinate to the next */
    float divisor;             /* 0: none */
    int format;
    int64_t fresh_rows, fresh_taps; /* that no result before took: what lies so far ahead of them, or of results, is prefetched */
    int64_t ahead, made_ahead;
} pop_pool_cell;

#define POP_POOL_CELLS 4 /* vectors at a time */
#define POP_POOL_WORDS_max 1
#define POP_POOL_WORDS_sum 0
#if POP_LANES == 8
#include "kernels/pool/codes.h"

/* Maxima of as many channels by their codes; 0 where they are not of 16 bits in and out. */
POP_INLINE int pop_pool_cells_by_words(const pop_pool_cell *s, const int own, const int64_t count, const int64_t taps, const int format, int64_t c,
                                       char *to)
{
    const pop_pool_code_kind kind = pop_pool_code_kind_of(own == 2);
    __m256i most[POP_POOL_CELLS / 2];
    if (own == 0 || format != own) return 0;
    for (int v = 0; v < POP_POOL_CELLS / 2; v++) most[v] = _mm256_set1_epi16(INT16_MIN);
    for (int64_t t = 0; t < taps; t++)
        for (int64_t j = 0; j < count; j++)
            for (int v = 0; v < POP_POOL_CELLS / 2; v++)
                most[v] = _mm256_max_epi16(most[v], pop_pool_code_words(&kind, s->rows[j] + s->at[t] * s->step + 2 * c + 32 * v));
    for (int v = 0; v < POP_POOL_CELLS / 2; v++)
        _mm256_storeu_si256((__m256i *)(void *)(to + 2 * c + 32 * v), pop_pool_of_words(&kind, most[v]));
    return 1;
}
#else
POP_INLINE int pop_pool_cells_by_words(const pop_pool_cell *s, const int own, const int64_t count, const int64_t taps, const int format, int64_t c,
                                       char *to)
{
    return (void)s, (void)own, (void)count, (void)taps, (void)format, (void)c, (void)to, 0;
}
#endif

#define POP_POOL_DIRECT(op, suffix, layout, own)                                                                      \
    POP_INLINE int pop_pool_cells_##op##_##suffix(const pop_pool_cell *s, const int quick, const int vectors, const int64_t count, \
                                                  const int64_t taps, const int format, int64_t c, int part, char *to) \
    {                                                                                                                 \
        const int64_t bytes = pop_bytes(&layout);                                                                     \
        pop_v_f made[POP_POOL_CELLS], column[POP_POOL_CELLS], x[POP_POOL_CELLS];                                      \
        pop_v_m sound = POP_POOL_SOUND, odd = sound;                                                                  \
        for (int v = 0; v < vectors; v++) made[v] = pop_v_splat(POP_POOL_NONE_##op);                                  \
        for (int64_t t = 0; t < taps; t++) {                                                                          \
            const int64_t offset = s->at[t] * s->step + c * bytes;                                                    \
            for (int v = 0; v < vectors; v++) column[v] = pop_v_splat(POP_POOL_NONE_##op);                            \
            for (int64_t j = 0; j < count; j++) {                                                                     \
                const char *from = s->rows[j] + offset;                                                               \
                for (int v = 0; v < vectors; v++) {                                                                   \
                    x[v] = pop_v_decode_part(&layout, from + v * POP_LANES * bytes, part);                            \
                    POP_POOL_ONCE(x[v]);                                                                              \
                    column[v] = POP_POOL_STEP_##op(quick, column[v], x[v], s->weights[j]);                            \
                }                                                                                                     \
                if (quick) POP_POOL_SEE_##op(sound, x[0], x[vectors > 1]);                                            \
                if (quick && vectors > 2) POP_POOL_SEE_##op(odd, x[2], x[vectors - 1]);                               \
            }                                                                                                         \
            for (int v = 0; v < vectors; v++) {                                                                       \
                if (s->multipliers) column[v] = column[v] * pop_v_splat(s->multipliers[s->at[t]]);                    \
                made[v] = t ? POP_POOL_JOIN_##op(quick, made[v], column[v]) : column[v];                              \
            }                                                                                                         \
        }                                                                                                             \
        if (quick && !pop_pool_is_sound(sound & odd)) return 0;                                                       \
        for (int v = 0; v < vectors; v++) made[v] = POP_POOL_END_##op(quick, made[v]);                                \
        if (s->divisor != 0.0f)                                                                                       \
            for (int v = 0; v < vectors; v++) made[v] = made[v] / pop_v_splat(s->divisor);                            \
        for (int v = 0; v < vectors; v++) pop_pool_store(format, to, c + v * POP_LANES, made[v], part);               \
        return 1;                                                                                                     \
    }                                                                                                                 \
    POP_INLINE void pop_pool_all_cells_##op##_##suffix(const pop_pool_cell *s, const int64_t count, const int64_t taps, \
                                                       const int format, int64_t n, char *to)                         \
    {                                                                                                                 \
        const int64_t bytes = pop_bytes(&layout), many = POP_POOL_CELLS * POP_LANES;                                  \
        int64_t c = 0;                                                                                                \
        for (; c + many <= n; c += many) {                                                                            \
            for (int64_t t = taps - s->fresh_taps; s->ahead && t < taps; t++)                                         \
                for (int64_t j = count - s->fresh_rows; j < count; j++)                                               \
                    pop_prefetch_lines(pop_beyond(s->rows[j] + s->at[t] * s->step + c * bytes, s->ahead), many * bytes);  \
            if (s->made_ahead) pop_prefetch_to_write_lines(pop_beyond(to + c * bytes, s->made_ahead), many * bytes);      \
            if (POP_POOL_WORDS_##op && pop_pool_cells_by_words(s, own, count, taps, format, c, to)) continue;         \
            if (!pop_pool_cells_##op##_##suffix(s, 1, POP_POOL_CELLS, count, taps, format, c, POP_LANES, to))         \
                (void)pop_pool_cells_##op##_##suffix(s, 0, POP_POOL_CELLS, s->count, s->taps, s->format, c, POP_LANES, to); \
        }                                                                                                             \
        for (; c < n; c += POP_LANES)                                                                                 \
            (void)pop_pool_cells_##op##_##suffix(s, 0, 1, s->count, s->taps, s->format, c, n - c < POP_LANES ? (int)(n - c) : POP_LANES, to); \
    }                                                                                                                 \
    static void pop_pool_cell_##op##_##suffix(const pop_pool_cell *s, int64_t n, char *to)                            \
    {                                                                                                                 \
        if (s->format == own && s->count == 3 && s->taps == 3) pop_pool_all_cells_##op##_##suffix(s, 3, 3, own, n, to); \
        else if (s->format == own && s->count == 2 && s->taps == 2) pop_pool_all_cells_##op##_##suffix(s, 2, 2, own, n, to); \
        else pop_pool_all_cells_##op##_##suffix(s, s->count, s->taps, s->format, n, to);                              \
    }
#define POP_POOL_DIRECTS(op)                                                                                          \
    POP_POOL_DIRECT(op, f32, POP_F32, 0) POP_POOL_DIRECT(op, f16, POP_F16, 1) POP_POOL_DIRECT(op, bf16, POP_BF16, 2)
POP_POOL_DIRECTS(max)
POP_POOL_DIRECTS(sum)

typedef void (*pop_pool_direct)(const pop_pool_cell *, int64_t, char *);
static const pop_pool_direct pop_pool_direct_maxima[] = {pop_pool_cell_max_f32, pop_pool_cell_max_f16, pop_pool_cell_max_bf16};
static const pop_pool_direct pop_pool_direct_sums[] = {pop_pool_cell_sum_f32, pop_pool_cell_sum_f16, pop_pool_cell_sum_bf16};

/* How many of some ascending numbers are beyond one. */
POP_INLINE int64_t pop_pool_beyond(const int64_t *numbers, int64_t count, int64_t last)
{
    int64_t n = 0;
    while (n < count && numbers[count - 1 - n] > last) n++;
    return n;
}

/* A unit whose lanes are channels; 0 where it is not this way's. */
static int pop_pool_by_channel(const pop_pool_unit *u, const pop_pool_direct *how)
{
    const pop_pool *s = u->spec;
    const pop_pool_operand *in = s->operands, *out = s->operands + 3;
    const pop_pool_segment *g = u->segment;
    if (!s->by_channel || in->format < 0 || out->format < 0) return 0;
    const char *base = pop_pool_base(u, in);
    const pop_pool_direct cell = how[pop_pool_direct_format(in->format)];
    int64_t last_row = -1;
    for (int64_t row = u->row; row < u->row + u->rows; row++) {
        float divisor;
        pop_pool_cell own = {u->read, u->weights, s->multipliers, NULL, pop_pool_rows(u, row, &divisor), 0,
                             in->position * in->bytes, 0.0f, pop_pool_direct_format(out->format),
                             .made_ahead = s->backward ? 4 * s->ahead : s->ahead};
        for (int64_t j = 0; j < own.count; j++) u->read[j] = base + u->offsets[j] * in->bytes;
        own.fresh_rows = pop_pool_beyond(u->numbers, own.count, last_row);
        const int64_t skip = s->axis_count && own.fresh_rows ? (own.fresh_rows - 1) * s->axes[s->axis_count - 1].read_stride * in->bytes : 0;
        last_row = own.count ? u->numbers[own.count - 1] : last_row;
        char *to = pop_pool_base(u, out) + (pop_pool_made_offset(s, row) + g->made * out->position) * out->bytes;
        int64_t last_tap = -1;
        for (int64_t m = g->made; m < g->made + g->makes; m++, to += out->position * out->bytes) {
            own.at = s->coordinates + s->first[m], own.taps = s->first[m + 1] - s->first[m];
            own.fresh_taps = pop_pool_beyond(own.at, own.taps, last_tap);
            last_tap = own.taps ? own.at[own.taps - 1] : last_tap;
            own.ahead = 4 * s->ahead; /* from the end of a row to the next one that is fresh */
            if (s->backward) own.ahead = 0;
            if (own.ahead && (s->read_extent - 1 - last_tap) * own.step < own.ahead) own.ahead += skip;
            if (s->divisors) own.divisor = divisor * s->divisors[m];
            cell(&own, u->lanes, to);
        }
    }
    return 1;
}
#endif
