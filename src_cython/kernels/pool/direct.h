/* Where lanes are channels: a result is made of what it takes, in registers. Of each column of a window its rows first, as on a
 * line, so that the bits are the same. */
#ifndef POP_POOL_DIRECT_H
#define POP_POOL_DIRECT_H

/* Formats that kernels read and write as they are: their places in tables of functions. */
POP_INLINE int pop_pool_direct_format(int format) { return format == POP_IS_F32 ? 0 : format == POP_IS_F16 ? 1 : 2; }

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
} pop_pool_cell;

#define POP_POOL_CELLS 4 /* vectors at a time */
#define POP_POOL_DIRECT(op, suffix, layout)                                                                           \
    POP_INLINE int pop_pool_cells_##op##_##suffix(const pop_pool_cell *s, int quick, int vectors, int64_t c, int part, char *to) \
    {                                                                                                                 \
        const int64_t bytes = pop_bytes(&layout);                                                                     \
        pop_v_f made[POP_POOL_CELLS], column[POP_POOL_CELLS], x[POP_POOL_CELLS];                                      \
        pop_v_m nan = {0};                                                                                            \
        for (int v = 0; v < vectors; v++) made[v] = pop_v_splat(POP_POOL_NONE_##op);                                  \
        for (int64_t t = 0; t < s->taps; t++) {                                                                       \
            const int64_t offset = s->at[t] * s->step + c * bytes;                                                    \
            for (int v = 0; v < vectors; v++) column[v] = pop_v_splat(POP_POOL_NONE_##op);                            \
            for (int64_t j = 0; j < s->count; j++) {                                                                  \
                for (int v = 0; v < vectors; v++) {                                                                   \
                    x[v] = pop_v_decode_part(&layout, s->rows[j] + offset + v * POP_LANES * bytes, part);             \
                    column[v] = POP_POOL_STEP_##op(quick, column[v], x[v], s->weights[j]);                            \
                }                                                                                                     \
                for (int v = 0; quick && v < vectors; v += 2) POP_POOL_SEE_##op(nan, x[v], x[v + 1 < vectors ? v + 1 : v]); \
            }                                                                                                         \
            for (int v = 0; v < vectors; v++) {                                                                       \
                if (s->multipliers) column[v] = column[v] * pop_v_splat(s->multipliers[s->at[t]]);                    \
                made[v] = t ? POP_POOL_JOIN_##op(quick, made[v], column[v]) : column[v];                              \
            }                                                                                                         \
        }                                                                                                             \
        if (quick && pop_v_any(nan)) return 0;                                                                        \
        for (int v = 0; v < vectors; v++) {                                                                           \
            made[v] = POP_POOL_END_##op(quick, made[v]);                                                              \
            if (s->divisor != 0.0f) made[v] = made[v] / pop_v_splat(s->divisor);                                      \
            pop_pool_store(s->format, to, c + v * POP_LANES, made[v], part);                                          \
        }                                                                                                             \
        return 1;                                                                                                     \
    }                                                                                                                 \
    static void pop_pool_cell_##op##_##suffix(const pop_pool_cell *s, int64_t n, char *to)                            \
    {                                                                                                                 \
        int64_t c = 0;                                                                                                \
        for (; c + POP_POOL_CELLS * POP_LANES <= n; c += POP_POOL_CELLS * POP_LANES)                                  \
            if (!pop_pool_cells_##op##_##suffix(s, 1, POP_POOL_CELLS, c, POP_LANES, to))                              \
                (void)pop_pool_cells_##op##_##suffix(s, 0, POP_POOL_CELLS, c, POP_LANES, to);                         \
        for (; c < n; c += POP_LANES)                                                                                 \
            (void)pop_pool_cells_##op##_##suffix(s, 0, 1, c, n - c < POP_LANES ? (int)(n - c) : POP_LANES, to);       \
    }
#define POP_POOL_DIRECTS(op)                                                                                          \
    POP_POOL_DIRECT(op, f32, POP_F32) POP_POOL_DIRECT(op, f16, POP_F16) POP_POOL_DIRECT(op, bf16, POP_BF16)
POP_POOL_DIRECTS(max)
POP_POOL_DIRECTS(sum)

typedef void (*pop_pool_direct)(const pop_pool_cell *, int64_t, char *);
static const pop_pool_direct pop_pool_direct_maxima[] = {pop_pool_cell_max_f32, pop_pool_cell_max_f16, pop_pool_cell_max_bf16};
static const pop_pool_direct pop_pool_direct_sums[] = {pop_pool_cell_sum_f32, pop_pool_cell_sum_f16, pop_pool_cell_sum_bf16};

/* A unit whose lanes are channels; 0 where it is not this way's. */
static int pop_pool_by_channel(const pop_pool_unit *u, const pop_pool_direct *how)
{
    const pop_pool *s = u->spec;
    const pop_pool_operand *in = s->operands, *out = s->operands + 3;
    const pop_pool_segment *g = u->segment;
    if (!s->by_channel || in->format < 0 || out->format < 0) return 0;
    const char *base = pop_pool_base(u, in);
    const pop_pool_direct cell = how[pop_pool_direct_format(in->format)];
    for (int64_t row = u->row; row < u->row + u->rows; row++) {
        float divisor;
        pop_pool_cell own = {u->read, u->weights, s->multipliers, NULL, pop_pool_rows(u, row, &divisor), 0,
                             in->position * in->bytes, 0.0f, pop_pool_direct_format(out->format)};
        for (int64_t j = 0; j < own.count; j++) u->read[j] = base + u->offsets[j] * in->bytes;
        char *to = pop_pool_base(u, out) + (pop_pool_made_offset(s, row) + g->made * out->position) * out->bytes;
        for (int64_t m = g->made; m < g->made + g->makes; m++, to += out->position * out->bytes) {
            own.at = s->coordinates + s->first[m], own.taps = s->first[m + 1] - s->first[m];
            if (s->divisors) own.divisor = divisor * s->divisors[m];
            cell(&own, u->lanes, to);
        }
    }
    return 1;
}
#endif
