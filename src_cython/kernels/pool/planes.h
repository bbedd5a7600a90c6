/* Where lanes are positions, at levels of eight lanes, windows that are 1 or 2 apart: rows of a unit are joined to lines first, then windows
 * are taken from these, so that what is loaded was stored long before. The last vector of a row begins earlier than where the one
 * before ended, and gives some numbers once more. The bits are those of walk.h. */
#ifndef POP_POOL_PLANES_H
#define POP_POOL_PLANES_H

#define POP_POOL_LINE_ROOM 2560 /* floats of lines */
#define POP_POOL_LINES 64       /* rows at a time */

/* Two vectors of words or numbers as one: those at even and at odd places, in order; these side by side again; and the even or odd ones of
 * both in the order of their halves, which `in_order` puts right. */
typedef struct pop_pool_pair {
    pop_v_f a, b;
} pop_pool_pair;
POP_INLINE pop_pool_pair pop_pool_apart(pop_pool_pair x)
{
    const __m256 low = _mm256_permute2f128_ps(x.a, x.b, 0x20), high = _mm256_permute2f128_ps(x.a, x.b, 0x31);
    return (pop_pool_pair){_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xdd)};
}
POP_INLINE pop_pool_pair pop_pool_together(pop_pool_pair x)
{
    const __m256 low = _mm256_unpacklo_ps(x.a, x.b), high = _mm256_unpackhi_ps(x.a, x.b);
    return (pop_pool_pair){_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
}
POP_INLINE pop_v_f pop_pool_in_order(pop_v_f x) { return (pop_v_f)_mm256_permute4x64_pd((__m256d)x, 0xd8); }

/* The same of sixteen codes of 16 bits. */
POP_INLINE pop_pool_pair pop_pool_pair_of_f16(__m256i codes)
{
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10,
                                           11, 14, 15);
    const __m256i apart = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(codes, order), 0xd8);
    return (pop_pool_pair){_mm256_cvtph_ps(_mm256_castsi256_si128(apart)), _mm256_cvtph_ps(_mm256_extracti128_si256(apart, 1))};
}
POP_INLINE pop_pool_pair pop_pool_pair_of_bf16(__m256i codes)
{
    const __m256i odd = _mm256_and_si256(codes, _mm256_set1_epi32((int)0xffff0000));
    return (pop_pool_pair){(pop_v_f)_mm256_slli_epi32(codes, 16), (pop_v_f)odd};
}
POP_INLINE __m256i pop_pool_f16_of_pair(pop_pool_pair x)
{
    const __m128i a = _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT), b = _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi16(a, b)), _mm_unpackhi_epi16(a, b), 1);
}
/* Rounded to a multiple of 65536; NaN has no bits below, as it comes from numbers of 16 bits. */
POP_INLINE __m256i pop_pool_rounded(pop_v_f x)
{
    const __m256i bits = (__m256i)x, odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}
POP_INLINE __m256i pop_pool_bf16_of_pair(int exact_a, int exact_b, pop_pool_pair x)
{
    const __m256i a = exact_a ? (__m256i)x.a : pop_pool_rounded(x.a), b = exact_b ? (__m256i)x.b : pop_pool_rounded(x.b);
    return _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xaa);
}

/* Places as words: those that no field has are negative. */
POP_INLINE pop_v_f pop_pool_eight_places(const char *p)
{
    const __m256 a = _mm256_loadu_ps((const float *)(const void *)p), b = _mm256_loadu_ps((const float *)(const void *)(p + 32));
    const __m256i beyond = _mm256_cmpeq_epi32((__m256i)_mm256_shuffle_ps(a, b, 0xdd), _mm256_setzero_si256());
    const __m256i words = _mm256_or_si256((__m256i)_mm256_shuffle_ps(a, b, 0x88), _mm256_andnot_si256(beyond, _mm256_set1_epi32(-1)));
    return pop_pool_in_order((pop_v_f)words);
}

/* The results of a phase begin at these places of a line, and take those from there on. */
typedef struct pop_pool_reach {
    int lanes; /* 0: not this way */
    int step;  /* from what one result takes to what the next one takes: 1 or 2 */
    int phases, taps[2];
    int64_t at[2][POP_POOL_TAP_LIMIT];
    int64_t pitch, lines; /* numbers of a line, and how many lines there are */
} pop_pool_reach;

typedef void (*pop_pool_registers)(const pop_pool_unit *, const pop_pool_reach *);

static int pop_pool_reach_of(const pop_pool *s, pop_pool_reach *r)
{
    const int64_t span = (s->kernel - 1) * s->dilation + 1, back = (span - 1) / s->stride;
    *r = (pop_pool_reach){0};
    if (s->by_channel || s->kernel == 0 || s->stride > 2 || s->kernel > POP_POOL_TAP_LIMIT) return 0;
    r->step = s->backward ? 1 : (int)s->stride, r->phases = s->backward ? (int)s->stride : 1;
    for (int64_t i = 0; i < s->kernel; i++) {
        const int64_t step = (s->backward ? s->kernel - 1 - i : i) * s->dilation, phase = s->backward ? step % s->stride : 0;
        r->at[phase][r->taps[phase]++] = s->backward ? back - step / s->stride : step;
    }
    for (int64_t i = 0; i < s->segment_count; i++) { /* what the last vector reads */
        const pop_pool_segment *g = s->segments + i;
        const int64_t before = g->makes - r->phases * POP_LANES, first = g->shift + (before > 0 ? before : 0);
        const int64_t last = (first + r->phases - 1) / r->phases * r->step + (s->backward ? back : span - 1) + r->step * POP_LANES;
        r->pitch = last > r->pitch ? last : r->pitch;
        r->pitch = g->place + g->reads > r->pitch ? g->place + g->reads : r->pitch;
    }
    r->lines = pop_least(POP_POOL_LINES, POP_POOL_LINE_ROOM / r->pitch);
    if (r->lines < 2 * s->row_limit) return 0;
    r->lanes = POP_LANES;
    return 1;
}

/* Where vectors of a row begin. */
POP_INLINE int64_t pop_pool_block(int64_t i, int64_t n) { return i + POP_LANES <= n || n < POP_LANES ? i : n - POP_LANES; }

/* Rows of a unit as they are made. */
typedef struct pop_pool_made_rows {
    int64_t made[POP_POOL_LINES];
    float divisors[POP_POOL_LINES];
} pop_pool_made_rows;

/* What is outside of the operand, by whole vectors: before what is inside is written, and up to a vector beyond the last line. */
POP_INLINE void pop_pool_margins(const pop_pool_reach *r, const pop_pool_segment *g, pop_v_f none, float *lines, int64_t count)
{
    const int64_t end = g->place + g->reads;
    for (int64_t k = 0; k < count; k++, lines += r->pitch) {
        for (int64_t i = 0; i < g->place; i += POP_LANES) pop_v_store_f(lines + i, none);
        for (int64_t i = end; i < r->pitch; i += POP_LANES) pop_v_store_f(lines + i, none);
    }
}

POP_INLINE void pop_pool_store_made(int format, char *to, int64_t i, pop_v_f x, int64_t n)
{
    if (n >= POP_LANES) pop_pool_store(format, to, i, x, POP_LANES);
    else if (n > 0) pop_pool_store(format, to, i, x, (int)n);
}

/* Two phases side by side, n results from the one at i on: they are made in vectors that may overlap. */
POP_INLINE void pop_pool_store_pair(int format, char *to, int64_t i, pop_pool_pair x, int64_t n)
{
    x = pop_pool_together(x);
    pop_pool_store_made(format, to, i, x.a, n);
    pop_pool_store_made(format, to, i + POP_LANES, x.b, n - POP_LANES);
}

/* The window results of a phase, from the line's place p on: of windows that are 2 apart, out of order. */
#define POP_POOL_TAKEN(op)                                                                                            \
    POP_INLINE pop_v_f pop_pool_taken_##op(const int quick, const int step, const int taps, const int64_t *at, const float *p) \
    {                                                                                                                 \
        pop_v_f z = pop_v_splat(POP_POOL_NONE_##op);                                                                  \
        for (int t = 0; t < taps; t++) {                                                                              \
            const pop_v_f x = pop_v_load_f(p + at[t]);                                                                \
            const pop_v_f own = step == 2 ? (pop_v_f)_mm256_shuffle_ps(x, pop_v_load_f(p + at[t] + POP_LANES), 0x88) : x; \
            z = t ? POP_POOL_JOIN_##op(quick, z, own) : own;                                                          \
        }                                                                                                             \
        return POP_POOL_END_##op(quick, z);                                                                           \
    }
POP_POOL_TAKEN(max)
POP_POOL_TAKEN(sum)

#define POP_POOL_QUICK_max 1
#define POP_POOL_QUICK_sum 0
#define POP_POOL_PLANE(op, suffix, layout)                                                                            \
    /* Rows joined to a line; what is seen of them by the quick way. Narrow ones have less than a vector. */          \
    POP_INLINE pop_v_m pop_pool_line_##op##_##suffix(const char *base, const pop_pool_near near, const int64_t count, const int64_t n, \
                                                     const float *by, const int quick, const int narrow, float *to, pop_v_m sound) \
    {                                                                                                                 \
        const int64_t bytes = pop_bytes(&layout);                                                                     \
        const char *rows[3] = {base, base, base};                                                                     \
        for (int64_t j = 0; count <= 3 && j < count; j++) rows[j] += near.at[j] * near.step;                          \
        for (int64_t i = 0; i < n; i += 2 * POP_LANES) {                                                              \
            const int64_t first = narrow ? 0 : pop_pool_block(i, n), second = narrow ? 0 : pop_pool_block(i + POP_LANES, n); \
            pop_v_f a = pop_v_splat(POP_POOL_NONE_##op), b = a;                                                       \
            for (int64_t j = 0; j < count; j++) {                                                                     \
                const char *from = count <= 3 ? rows[j] : base + near.at[j] * near.step;                              \
                const float w = near.weights ? near.weights[j] : 1.0f;                                                \
                const pop_v_f x = narrow ? pop_v_decode_part(&layout, from, (int)n) : pop_v_decode(&layout, from + first * bytes); \
                const pop_v_f y = narrow ? x : pop_v_decode(&layout, from + second * bytes);                          \
                a = quick && j == 0 ? x : POP_POOL_STEP_##op(quick, a, x, w);                                         \
                b = quick && j == 0 ? y : POP_POOL_STEP_##op(quick, b, y, w);                                         \
                if (quick) POP_POOL_SEE_##op(sound, x, y);                                                            \
                (void)w;                                                                                              \
            }                                                                                                         \
            if (by && narrow) a = a * pop_v_decode_part(&POP_F32, (const char *)by, (int)n);                          \
            else if (by) a = a * pop_v_load_f(by + first), b = b * pop_v_load_f(by + second);                         \
            if (narrow) {                                                                                             \
                pop_v_encode_part(&POP_F32, 0, (char *)to, a, (int)n);                                                \
            } else {                                                                                                  \
                pop_v_store_f(to + first, a);                                                                         \
                pop_v_store_f(to + second, b);                                                                        \
            }                                                                                                         \
        }                                                                                                             \
        return sound;                                                                                                 \
    }                                                                                                                 \
    /* Rows from `row` on as lines; whether no number was NaN, of the quick way. */                                   \
    POP_INLINE int pop_pool_lines_##op##_##suffix(const pop_pool_unit *u, const pop_pool_reach *r, const pop_pool_axis *axis, int64_t row, \
                                                  int64_t rows, const int quick, const int narrow, float *lines, pop_pool_made_rows *m) \
    {                                                                                                                 \
        const pop_pool *s = u->spec;                                                                                  \
        const pop_pool_segment *g = u->segment;                                                                       \
        const int64_t bytes = pop_bytes(&layout), n = g->reads;                                                       \
        const char *base = pop_pool_base(u, s->operands) + g->read * bytes;                                           \
        const float *by = s->multipliers ? s->multipliers + g->read : NULL;                                           \
        pop_v_m sound = POP_POOL_SOUND;                                                                               \
        float *to = lines + g->place;                                                                                 \
        for (int64_t k = 0; k < rows; k++, to += r->pitch) {                                                          \
            const pop_pool_near near = pop_pool_near_rows(u, axis, bytes, row + k);                                   \
            m->made[k] = near.made, m->divisors[k] = near.divisor;                                                    \
            if (near.count == 3) sound = pop_pool_line_##op##_##suffix(base, near, 3, n, by, quick, narrow, to, sound); \
            else if (near.count == 2) sound = pop_pool_line_##op##_##suffix(base, near, 2, n, by, quick, narrow, to, sound); \
            else sound = pop_pool_line_##op##_##suffix(base, near, near.count, n, by, quick, narrow, to, sound);      \
        }                                                                                                             \
        return pop_pool_is_sound(sound);                                                                              \
    }                                                                                                                 \
    static void pop_pool_register_##op##_##suffix(const pop_pool_unit *u, const pop_pool_reach *r)                    \
    {                                                                                                                 \
        float lines[POP_POOL_LINE_ROOM + POP_LANES];                                                                  \
        pop_pool_made_rows made;                                                                                      \
        const pop_pool_axis axis = pop_pool_only_axis(u->spec);                                                       \
        const int64_t end = u->row + u->rows;                                                                         \
        pop_pool_margins(r, u->segment, pop_v_splat(POP_POOL_NONE_##op), lines, pop_least(u->rows, r->lines));        \
        for (int64_t row = u->row; row < end; row += r->lines) {                                                      \
            const int64_t rows = pop_least(r->lines, end - row);                                                      \
            int quick = 0;                                                                                            \
            if (u->segment->reads < POP_LANES) (void)pop_pool_lines_##op##_##suffix(u, r, &axis, row, rows, 0, 1, lines, &made); \
            else if (POP_POOL_QUICK_##op) quick = pop_pool_lines_##op##_##suffix(u, r, &axis, row, rows, 1, 0, lines, &made); \
            if (u->segment->reads >= POP_LANES && !quick) /* NaN, which a maximum keeps, or sums */                   \
                (void)pop_pool_lines_##op##_##suffix(u, r, &axis, row, rows, 0, 0, lines, &made);                     \
            pop_pool_results_##op(u, r, rows, quick, lines, &made);                                                   \
        }                                                                                                             \
    }

/* What windows make of lines. Gradients of sums are sums, those of maxima are not. */
#define POP_POOL_BACK_max 0
#define POP_POOL_BACK_sum 1
#define POP_POOL_RESULTS(op)                                                                                          \
    POP_INLINE void pop_pool_rows_##op(const pop_pool_unit *u, const pop_pool_reach *r, int64_t rows, const int quick, const int step, \
                                       const int taps, const int format, const float *line, const pop_pool_made_rows *made) \
    {                                                                                                                 \
        const pop_pool *s = u->spec;                                                                                  \
        const pop_pool_segment *g = u->segment;                                                                       \
        const pop_pool_operand *out = s->operands + 3;                                                                \
        const float *divisors = s->divisors ? s->divisors + g->made : NULL;                                           \
        char *const to = pop_pool_base(u, out) + g->made * out->bytes;                                                \
        int64_t at[POP_POOL_TAP_LIMIT];                                                                               \
        for (int t = 0; t < taps; t++) at[t] = r->at[0][t];                                                           \
        line += g->shift * step;                                                                                      \
        for (int64_t k = 0; k < rows; k++, line += r->pitch) {                                                        \
            char *own = to + made->made[k] * out->bytes;                                                              \
            for (int64_t m = 0; m < g->makes; m += POP_LANES) {                                                       \
                const int64_t i = pop_pool_block(m, g->makes), n = g->makes - i;                                      \
                pop_v_f z = pop_pool_taken_##op(quick, step, taps, at, line + i * step);                              \
                if (step == 2) z = pop_pool_in_order(z);                                                              \
                const int part = n < POP_LANES ? (int)n : POP_LANES;                                                  \
                if (divisors) z = z / (pop_v_splat(made->divisors[k]) * pop_v_decode_part(&POP_F32, (const char *)(divisors + i), part)); \
                pop_pool_store_made(format, own, i, z, n);                                                            \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    POP_INLINE void pop_pool_pairs_##op(const pop_pool_unit *u, const pop_pool_reach *r, int64_t rows, const int quick, const int taps, \
                                        const int others, const int format, const float *line, const pop_pool_made_rows *made) \
    {                                                                                                                 \
        const pop_pool *s = u->spec;                                                                                  \
        const pop_pool_segment *g = u->segment;                                                                       \
        const pop_pool_operand *out = s->operands + 3;                                                                \
        char *const to = pop_pool_base(u, out) + g->made * out->bytes;                                                \
        const int64_t odd = g->shift & 1, makes = g->makes, shift = g->shift;                                         \
        int64_t at[2][POP_POOL_TAP_LIMIT];                                                                            \
        for (int t = 0; t < taps; t++) at[0][t] = r->at[odd][t];                                                      \
        for (int t = 0; t < others; t++) at[1][t] = r->at[!odd][t];                                                   \
        for (int64_t k = 0; k < rows; k++, line += r->pitch) {                                                        \
            char *own = to + made->made[k] * out->bytes;                                                              \
            for (int64_t m = 0; m < makes; m += 2 * POP_LANES) {                                                      \
                const int64_t i = pop_pool_pair_block(m, makes), j = i + shift;                                       \
                const pop_v_f a = pop_pool_taken_##op(quick, 1, taps, at[0], line + (j >> 1));                        \
                const pop_v_f b = pop_pool_taken_##op(quick, 1, others, at[1], line + ((j + 1) >> 1));                \
                pop_pool_store_pair(format, own, i, (pop_pool_pair){a, b}, makes - i);                                \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    POP_INLINE void pop_pool_results_of_##op(const pop_pool_unit *u, const pop_pool_reach *r, int64_t rows, const int quick, const int format, \
                                             const float *lines, const pop_pool_made_rows *made)                     \
    {                                                                                                                 \
        const int64_t odd = u->segment->shift & 1;                                                                    \
        const int taps = r->taps[odd], others = r->taps[!odd];                                                        \
        const int back = POP_POOL_BACK_##op && r->phases == 2;                                                        \
        if (back && taps == 2 && others == 1) pop_pool_pairs_##op(u, r, rows, quick, 2, 1, format, lines, made); \
        else if (back && taps == 1 && others == 2) pop_pool_pairs_##op(u, r, rows, quick, 1, 2, format, lines, made); \
        else if (back && taps == 1 && others == 1) pop_pool_pairs_##op(u, r, rows, quick, 1, 1, format, lines, made); \
        else if (back) pop_pool_pairs_##op(u, r, rows, quick, taps, others, format, lines, made);           \
        else if (r->step == 2) pop_pool_rows_##op(u, r, rows, quick, 2, r->taps[0], format, lines, made);             \
        else pop_pool_rows_##op(u, r, rows, quick, 1, r->taps[0], format, lines, made);                               \
    }                                                                                                                 \
    static void pop_pool_results_##op(const pop_pool_unit *u, const pop_pool_reach *r, int64_t rows, int quick, const float *lines, \
                                      const pop_pool_made_rows *made)                                                \
    {                                                                                                                 \
        const int format = pop_pool_direct_format(u->spec->operands[3].format);                                       \
        if (POP_POOL_QUICK_##op && !quick) pop_pool_results_of_##op(u, r, rows, 0, format, lines, made);              \
        else if (format == 0) pop_pool_results_of_##op(u, r, rows, 1, 0, lines, made);                                \
        else if (format == 1) pop_pool_results_of_##op(u, r, rows, 1, 1, lines, made);                                \
        else pop_pool_results_of_##op(u, r, rows, 1, 2, lines, made);                                                 \
    }

/* Where vectors of two phases begin: all with the same one. */
POP_INLINE int64_t pop_pool_pair_block(int64_t i, int64_t n)
{
    return i + 2 * POP_LANES <= n || n < 2 * POP_LANES ? i : n - 2 * POP_LANES + (n & 1);
}
POP_POOL_RESULTS(max)
POP_POOL_RESULTS(sum)
#define POP_POOL_PLANES(op) POP_POOL_PLANE(op, f32, POP_F32) POP_POOL_PLANE(op, f16, POP_F16) POP_POOL_PLANE(op, bf16, POP_BF16)
POP_POOL_PLANES(max)
POP_POOL_PLANES(sum)
#endif
