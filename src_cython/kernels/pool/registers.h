/* Where lanes are positions and two registers of 16 numbers hold what 16 results take: a line stays in registers, and each
 * window's taps are permutations of it. Levels of eight lanes have planes.h; other levels, and wide windows, go by way of lines, with the
 * same bits. */
#ifndef POP_POOL_REGISTERS_H
#define POP_POOL_REGISTERS_H

#define POP_POOL_TAP_LIMIT 16
#define POP_POOL_OF_PLACES 3 /* as formats are numbered where all is read as it lies */

/* The rows that a row is made of: coordinates, bytes from one to the next, weights if they have some, and where the row goes. */
typedef struct pop_pool_near {
    const int64_t *at;
    const float *weights;
    int64_t count, step, made;
    float divisor;
} pop_pool_near;

/* `axis`: the only one, as a copy that nothing else points to, or all zeros. */
POP_INLINE pop_pool_near pop_pool_near_rows(const pop_pool_unit *u, const pop_pool_axis *axis, int64_t bytes, int64_t row)
{
    if (axis->first == NULL) {
        pop_pool_near n = {u->offsets, u->weights, 0, bytes, 0, 1.0f};
        n.count = pop_pool_rows(u, row, &n.divisor), n.made = pop_pool_made_offset(u->spec, row);
        return n;
    }
    const int64_t first = axis->first[row];
    return (pop_pool_near){axis->coordinates + first, axis->weights ? axis->weights + first : NULL, axis->first[row + 1] - first,
                           axis->read_stride * bytes, row * axis->made_stride, axis->divisors ? axis->divisors[row] : 1.0f};
}

POP_INLINE pop_pool_axis pop_pool_only_axis(const pop_pool *s) { return s->axis_count == 1 ? *s->axes : (pop_pool_axis){0}; }

#if POP_LANES == 16
/* The permutations: results at a time, coordinates from the first that they take to the next ones' first. */
typedef struct pop_pool_reach {
    int lanes, taps, two;
    int64_t advance;
    __m512i at[POP_POOL_TAP_LIMIT];
    __mmask16 there[POP_POOL_TAP_LIMIT];
} pop_pool_reach;

typedef void (*pop_pool_registers)(const pop_pool_unit *, const pop_pool_reach *);

/* Fill in the permutations; 0 where they do not fit. */
static int pop_pool_reach_of(const pop_pool *s, pop_pool_reach *r)
{
    const int64_t span = (s->kernel - 1) * s->dilation + 1, back = (span - 1) / s->stride;
    if (s->by_channel || s->kernel == 0 || s->stride > 16 || s->kernel > POP_POOL_TAP_LIMIT || span > 32) return 0;
    int32_t at[POP_POOL_TAP_LIMIT][16] = {{0}}, taps[16] = {0}, most = 0;
    r->lanes = (int)(s->backward ? 16 / s->stride * s->stride : pop_least(16, (32 - span) / s->stride + 1));
    r->advance = s->backward ? r->lanes / s->stride : r->lanes * s->stride;
    if (s->backward && back + r->advance > 32) return 0;
    for (int l = 0; l < r->lanes; l++)
        for (int64_t i = 0; i < s->kernel; i++) {
            const int64_t k = s->backward ? s->kernel - 1 - i : i, step = k * s->dilation;
            if (s->backward && (l % s->stride != step % s->stride)) continue;
            const int32_t place = (int32_t)(s->backward ? (l - step % s->stride) / s->stride - step / s->stride + back
                                                        : l * s->stride + step);
            at[taps[l]++][l] = place;
            most = place > most ? place : most;
        }
    r->taps = 0, r->two = most > 15;
    for (int l = 0; l < r->lanes; l++) r->taps = taps[l] > r->taps ? taps[l] : r->taps;
    for (int t = 0; t < r->taps; t++) {
        r->at[t] = _mm512_loadu_si512(at[t]);
        r->there[t] = 0;
        for (int l = 0; l < r->lanes; l++) r->there[t] |= (__mmask16)((t < taps[l]) << l);
    }
    return 1;
}

/* Lanes [0, 32) of which low <= lane < high. */
POP_INLINE uint64_t pop_pool_lanes(int64_t low, int64_t high)
{
    low = low > 0 ? low : 0;
    high = high < 32 ? high : 32;
    return high > low ? ((1ull << high) - 1) & ~((1ull << low) - 1) : 0;
}

POP_INLINE pop_v_f pop_pool_some_f32(const char *p, __mmask16 m) { return (pop_v_f)_mm512_maskz_loadu_ps(m, p); }
POP_INLINE pop_v_f pop_pool_some_f16(const char *p, __mmask16 m) { return pop_v_load_f16_some(p, m); }
POP_INLINE pop_v_f pop_pool_some_bf16(const char *p, __mmask16 m) { return pop_v_float(pop_v_sll(pop_v_load_some(p, 2, m), 16)); }

/* Places as words: those that no field has are -1. */
POP_INLINE pop_v_f pop_pool_some_places(const char *p, __mmask16 m)
{
    const __m256i low = _mm512_cvtusepi64_epi32(_mm512_maskz_loadu_epi64((__mmask8)m, p));
    const __m256i high = _mm512_cvtusepi64_epi32(_mm512_maskz_loadu_epi64((__mmask8)(m >> 8), p + 64));
    return (pop_v_f)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

POP_INLINE pop_v_f pop_pool_load_lanes(int format, const char *p, int64_t i, __mmask16 m)
{
    if (format == POP_POOL_OF_PLACES) return pop_pool_some_places(p + 8 * i, m);
    if (format == 0) return pop_pool_some_f32(p + 4 * i, m);
    return format == 1 ? pop_pool_some_f16(p + 2 * i, m) : pop_pool_some_bf16(p + 2 * i, m);
}
POP_INLINE void pop_pool_store_lanes(int format, char *to, int64_t i, pop_v_f x, __mmask16 m)
{
    if (format == 0) _mm512_mask_storeu_ps(to + 4 * i, m, x);
    else if (format == 1) pop_v_store_f16_some(to + 2 * i, x, m);
    else pop_v_store_bf16_some(to + 2 * i, x, m);
}

POP_INLINE pop_v_f pop_pool_tap(const pop_pool_reach *r, int two, int t, pop_v_f a, pop_v_f b)
{
    if (two) return (pop_v_f)_mm512_maskz_permutex2var_ps(r->there[t], a, r->at[t], b);
    return (pop_v_f)_mm512_maskz_permutexvar_ps(r->there[t], r->at[t], a);
}

#define POP_POOL_OUTSIDE_max(x, m) ((pop_v_f)_mm512_mask_mov_ps(pop_v_splat(-INFINITY), m, x))
#define POP_POOL_OUTSIDE_sum(x, m) (x)

/* So many results of each row of a unit: what they take. */
typedef struct pop_pool_part {
    const char *read;
    __mmask16 low, high, made; /* lanes that there are of both registers, and of results */
    pop_v_f by_low, by_high, divide;
} pop_pool_part;

#define POP_POOL_REGISTER(op, suffix, layout)                                                                         \
    POP_INLINE int pop_pool_rows_##op##_##suffix(const pop_pool_unit *u, const pop_pool_part p, const pop_pool_reach *r, char *to, \
                                                 const int scaled, const int divided, const int two, const int taps, const int quick) \
    {                                                                                                                 \
        const pop_pool *s = u->spec;                                                                                  \
        const pop_pool_axis axis = pop_pool_only_axis(s);                                                             \
        const pop_pool_reach reach = *r; /* which nothing that is written may be */                                   \
        const int64_t ahead = s->ahead, bytes = pop_bytes(&layout);                                                   \
        const int64_t made_bytes = s->operands[3].bytes, end = u->row + u->rows;                                      \
        const int format = pop_pool_direct_format(s->operands[3].format);                                             \
        const pop_v_f none = pop_v_splat(POP_POOL_NONE_##op);                                                         \
        pop_v_m sound = POP_POOL_SOUND;                                                                               \
        pop_v_f x = none, y = none; /* the row that was read last, which may be the next one's first */               \
        int64_t last = -1;                                                                                            \
        for (int64_t row = u->row; row < end; row++) {                                                                \
            const pop_pool_near n = pop_pool_near_rows(u, &axis, bytes, row);                                         \
            pop_v_f a = none, b = none;                                                                               \
            pop_v_m here = POP_POOL_SOUND;                                                                            \
            for (int64_t j = 0; j < n.count; j++) {                                                                   \
                const float w = n.weights ? n.weights[j] : 1.0f;                                                      \
                if (j || n.at[0] != last) {                                                                           \
                    const char *from = p.read + n.at[j] * n.step;                                                     \
                    pop_prefetch(pop_beyond(from, 4 * ahead));                                                                    \
                    x = pop_pool_some_##suffix(from, p.low);                                                          \
                    if (two && bytes == 4) pop_prefetch(pop_beyond(from + 64, 4 * ahead));                                        \
                    if (two) y = pop_pool_some_##suffix(from + 16 * bytes, p.high);                                   \
                    if (quick) POP_POOL_SEE_##op(here, x, two ? y : x);                                               \
                }                                                                                                     \
                a = POP_POOL_STEP_##op(quick, a, x, w);                                                               \
                if (two) b = POP_POOL_STEP_##op(quick, b, y, w);                                                      \
                (void)w;                                                                                              \
            }                                                                                                         \
            last = n.count ? n.at[n.count - 1] : -1;                                                                  \
            sound &= here;                                                                                            \
            a = POP_POOL_OUTSIDE_##op(a, p.low);                                                                      \
            if (two) b = POP_POOL_OUTSIDE_##op(b, p.high);                                                            \
            if (scaled) {                                                                                             \
                a = a * p.by_low;                                                                                     \
                if (two) b = b * p.by_high;                                                                           \
            }                                                                                                         \
            pop_v_f z = taps ? pop_pool_tap(&reach, two, 0, a, b) : none;                                             \
            for (int t = 1; t < taps; t++) z = POP_POOL_JOIN_##op(quick, z, pop_pool_tap(&reach, two, t, a, b));      \
            z = POP_POOL_END_##op(quick, z);                                                                          \
            if (divided) z = z / (pop_v_splat(n.divisor) * p.divide);                                                 \
            char *own = to + n.made * made_bytes;                                                                     \
            pop_prefetch_to_write(pop_beyond(own, ahead));                                                                        \
            pop_pool_store_lanes(format, own, 0, z, p.made);                                                          \
        }                                                                                                             \
        return pop_pool_is_sound(sound);                                                                              \
    }                                                                                                                 \
    POP_INLINE void pop_pool_lanes_##op##_##suffix(const pop_pool_unit *u, const pop_pool_reach *r, int two, int taps) \
    {                                                                                                                 \
        const pop_pool *s = u->spec;                                                                                  \
        const pop_pool_segment *g = u->segment;                                                                       \
        const pop_pool_operand *in = s->operands, *out = in + 3;                                                      \
        const int scaled = s->multipliers != NULL, divided = s->divisors != NULL;                                     \
        int64_t q = g->origin;                                                                                        \
        for (int64_t m = -g->shift; m < g->makes; m += r->lanes, q += r->advance) {                                   \
            const uint64_t there = pop_pool_lanes(-q, s->read_extent - q);                                            \
            pop_pool_part p = {.read = pop_pool_base(u, in) + q * pop_bytes(&layout), (__mmask16)there, (__mmask16)(there >> 16), \
                               (__mmask16)pop_pool_lanes(-m, pop_least(r->lanes, g->makes - m))};                     \
            char *to = pop_pool_base(u, out) + (g->made + m) * out->bytes;                                            \
            if (scaled) {                                                                                             \
                p.by_low = (pop_v_f)_mm512_maskz_loadu_ps(p.low, s->multipliers + q);                                 \
                p.by_high = (pop_v_f)_mm512_maskz_loadu_ps(p.high, s->multipliers + q + 16);                          \
            }                                                                                                         \
            if (divided) p.divide = (pop_v_f)_mm512_maskz_loadu_ps(p.made, s->divisors + g->made + m);                \
            if (!pop_pool_rows_##op##_##suffix(u, p, r, to, scaled, divided, two, taps, 1))                           \
                (void)pop_pool_rows_##op##_##suffix(u, p, r, to, scaled, divided, two, taps, 0);                      \
        }                                                                                                             \
    }                                                                                                                 \
    static void pop_pool_register_##op##_##suffix(const pop_pool_unit *u, const pop_pool_reach *r)                    \
    {                                                                                                                 \
        if (r->two && r->taps == 3) pop_pool_lanes_##op##_##suffix(u, r, 1, 3);                                       \
        else if (r->two && r->taps == 2) pop_pool_lanes_##op##_##suffix(u, r, 1, 2);                                  \
        else if (r->two) pop_pool_lanes_##op##_##suffix(u, r, 1, r->taps);                                            \
        else if (r->taps == 2) pop_pool_lanes_##op##_##suffix(u, r, 0, 2);                                            \
        else pop_pool_lanes_##op##_##suffix(u, r, 0, r->taps);                                                        \
    }
#define POP_POOL_REGISTERS(op)                                                                                        \
    POP_POOL_REGISTER(op, f32, POP_F32) POP_POOL_REGISTER(op, f16, POP_F16) POP_POOL_REGISTER(op, bf16, POP_BF16)
POP_POOL_REGISTERS(max)
POP_POOL_REGISTERS(sum)

/* Sums of one outer axis whose line is one register, each made of at most two: what gradients of windows of 2 and 3 by 2 are.
 * All that a row needs is known before the first one, for two registers of results side by side. */
typedef struct pop_pool_sums_of {
    const char *read;             /* row 0 */
    char *to;
    int64_t read_step, step;      /* bytes to the next row */
    int64_t beside_read, beside;  /* to the next register */
    __mmask16 low[2], made[2], there[2];
    __m512i at[2];
    __m512 by[2];
} pop_pool_sums_of;

POP_INLINE void pop_pool_sums_of_rows(const int registers, const int taps, const int format, const pop_pool_sums_of p, const pop_pool *s,
                                      int64_t row, int64_t rows)
{
    static const float ones[2] = {1.0f, 1.0f};
    const pop_pool_axis *axis = s->axes;
    const int64_t *first = axis->first + row, *const end = first + rows, *const near = axis->coordinates, ahead = s->ahead;
    const float *const weights = axis->weights;
    char *to = p.to + row * p.step;
    pop_v_f last[2] = {{0}}; /* the row that was read last, which may be the next one's first */
    int64_t number = -1;
    for (; first < end; first++, to += p.step) {
        const int64_t begin = first[0], count = first[1] - begin;
        const float *w = weights ? weights + begin : ones;
        pop_v_f a[2] = {{0}};
        for (int64_t j = 0; j < count; j++) {
            const char *from = p.read + near[begin + j] * p.read_step;
            if (near[begin + j] != number) {
                number = near[begin + j];
                pop_prefetch(pop_beyond(from, ahead));
                for (int i = 0; i < registers; i++) last[i] = pop_pool_load_lanes(format, from + i * p.beside_read, 0, p.low[i]);
            }
            for (int i = 0; i < registers; i++) a[i] = pop_v_fma(last[i], pop_v_splat(w[j]), a[i]);
        }
        pop_prefetch_to_write(pop_beyond(to, 4 * ahead));
        for (int i = 0; i < registers; i++) {
            const __m512 sum = (__m512)a[i] * p.by[i];
            pop_v_f x = (pop_v_f)_mm512_maskz_permutexvar_ps(p.there[0], p.at[0], sum);
            if (taps > 1) x = x + (pop_v_f)_mm512_maskz_permutexvar_ps(p.there[1], p.at[1], sum);
            if (i && format == 0) pop_prefetch_to_write(pop_beyond(to + p.beside, 4 * ahead));
            pop_pool_store_lanes(format, to + i * p.beside, 0, x + pop_v_splat(0.0f), p.made[i]);
        }
    }
}

#define POP_POOL_SUMS_OF_ROWS(format, p, two, taps, u)                                                                \
    ((taps) == 1 ? (two) ? pop_pool_sums_of_rows(2, 1, format, p, (u)->spec, (u)->row, (u)->rows)                     \
                         : pop_pool_sums_of_rows(1, 1, format, p, (u)->spec, (u)->row, (u)->rows)                     \
     : (two)     ? pop_pool_sums_of_rows(2, 2, format, p, (u)->spec, (u)->row, (u)->rows)                             \
                 : pop_pool_sums_of_rows(1, 2, format, p, (u)->spec, (u)->row, (u)->rows))

static int pop_pool_sums_by_rows(const pop_pool_unit *u, const pop_pool_reach *r)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const pop_pool_operand *in = s->operands, *out = in + 3;
    if (!r->lanes || !s->backward || r->taps < 1 || r->taps > 2 || r->two || s->axis_count != 1 || s->row_limit > 2 || s->divisors ||
        in->format < 0 || in->format != out->format)
        return 0;
    int64_t q = g->origin;
    for (int64_t m = -g->shift, next; m < g->makes; m = next) {
        pop_pool_sums_of p = {
            pop_pool_base(u, in) + q * in->bytes, pop_pool_base(u, out) + (g->made + m) * out->bytes,
            s->axes->read_stride * in->bytes, s->axes->made_stride * out->bytes, r->advance * in->bytes, r->lanes * out->bytes,
            .there = {r->there[0], r->there[r->taps - 1]}, .at = {r->at[0], r->at[r->taps - 1]}};
        const int two = m + r->lanes < g->makes, format = pop_pool_direct_format(in->format);
        next = m;
        for (int i = 0; i < 2; i++, next += r->lanes, q += r->advance) {
            p.low[i] = (__mmask16)pop_pool_lanes(-q, s->read_extent - q);
            p.made[i] = (__mmask16)pop_pool_lanes(-next, pop_least(r->lanes, g->makes - next));
            p.by[i] = s->multipliers ? _mm512_maskz_loadu_ps(p.low[i], s->multipliers + q) : _mm512_set1_ps(1.0f);
        }
        if (format == 0) POP_POOL_SUMS_OF_ROWS(0, p, two, r->taps, u);
        else if (format == 1) POP_POOL_SUMS_OF_ROWS(1, p, two, r->taps, u);
        else POP_POOL_SUMS_OF_ROWS(2, p, two, r->taps, u);
    }
    return 1;
}

/* The same of maxima in 16 bits, by their codes, 32 at a time. Of a negative number all bits but the sign are turned round: then words are
 * in the order of numbers, NaN at both ends; less by what NaN below -inf takes, that is above all too, as words wrap around. */
typedef struct pop_pool_code_reach {
    int lanes, taps, two;
    int64_t advance;
    __m512i at[POP_POOL_TAP_LIMIT];
} pop_pool_code_reach;

static int pop_pool_code_reach_of(const pop_pool *s, pop_pool_code_reach *r)
{
    const int64_t span = (s->kernel - 1) * s->dilation + 1;
    if (s->by_channel || s->kernel == 0 || s->kernel > POP_POOL_TAP_LIMIT || span > 32) return 0;
    r->lanes = (int)pop_least(32, (64 - span) / s->stride + 1), r->taps = (int)s->kernel;
    r->advance = r->lanes * s->stride;
    r->two = s->read_extent + s->segments[0].place > 32 || (r->lanes - 1) * s->stride + span > 64;
    for (int t = 0; t < r->taps; t++) {
        int16_t at[32];
        for (int l = 0; l < 32; l++) at[l] = (int16_t)(l * s->stride + t * s->dilation);
        r->at[t] = _mm512_loadu_si512(at);
    }
    return 1;
}

POP_INLINE __m512i pop_pool_turned(__m512i x)
{
    return _mm512_xor_si512(x, _mm512_and_si512(_mm512_srai_epi16(x, 15), _mm512_set1_epi16(0x7fff)));
}

/* Where rows are, and what of them there is; none is the code of -inf, `low_nan` how many codes of NaN are below it. */
typedef struct pop_pool_max_code_part {
    const char *read;
    char *to;
    __mmask32 low, high, made;
    __m512i none, low_nan;
} pop_pool_max_code_part;

POP_INLINE __m512i pop_pool_code_keys(const pop_pool_max_code_part *p, const char *from, __mmask32 m)
{
    return _mm512_sub_epi16(pop_pool_turned(_mm512_mask_loadu_epi16(p->none, m, from)), p->low_nan);
}

POP_INLINE void pop_pool_max_code_rows(const pop_pool_unit *u, const pop_pool_code_reach *r, const pop_pool_max_code_part p, int two, int taps,
                                       int bf16)
{
    const pop_pool *s = u->spec;
    const pop_pool_axis axis = pop_pool_only_axis(s);
    const pop_pool_code_reach reach = *r;
    const int64_t ahead = s->ahead, end = u->row + u->rows;
    const __m512i least = _mm512_set1_epi16(INT16_MIN), infinity = _mm512_sub_epi16(_mm512_set1_epi16(bf16 ? 0x7f80 : 0x7c00), p.low_nan);
    __m512i x = least, y = least; /* the row that was read last */
    int64_t last = -1;
    for (int64_t row = u->row; row < end; row++) {
        const pop_pool_near n = pop_pool_near_rows(u, &axis, 2, row);
        __m512i a = least, b = least;
        for (int64_t j = 0; j < n.count; j++) {
            if (j || n.at[0] != last) {
                const char *from = p.read + n.at[j] * n.step;
                pop_prefetch(pop_beyond(from, 4 * ahead));
                x = pop_pool_code_keys(&p, from, p.low);
                if (two) y = pop_pool_code_keys(&p, from + 64, p.high);
                if (two) pop_prefetch(pop_beyond(from + 64, 4 * ahead));
            }
            a = _mm512_max_epi16(a, x);
            if (two) b = _mm512_max_epi16(b, y);
        }
        last = n.count ? n.at[n.count - 1] : -1;
        __m512i most = least;
        for (int t = 0; t < taps; t++) most = _mm512_max_epi16(most, _mm512_permutex2var_epi16(a, reach.at[t], b));
        const __mmask32 nan = _mm512_cmpgt_epi16_mask(most, infinity);
        most = _mm512_add_epi16(most, p.low_nan);
        most = pop_pool_turned(_mm512_mask_mov_epi16(most, _mm512_cmpeq_epi16_mask(most, _mm512_set1_epi16(-1)), _mm512_setzero_si512()));
        most = _mm512_mask_mov_epi16(most, nan, _mm512_set1_epi16(bf16 ? 0x7fc0 : 0x7e00));
        char *to = p.to + 2 * n.made;
        pop_prefetch_to_write(pop_beyond(to, ahead));
        _mm512_mask_storeu_epi16(to, p.made, most);
    }
}

POP_INLINE void pop_pool_max_codes(const pop_pool_unit *u, const pop_pool_code_reach *r, int two, int taps, int bf16)
{
    const pop_pool_segment *g = u->segment;
    const pop_pool_operand *in = u->spec->operands, *out = in + 3;
    int64_t q = g->origin;
    for (int64_t m = 0; m < g->makes; m += r->lanes, q += r->advance) {
        const int64_t before = q < 0 ? -q : 0, left = u->spec->read_extent - q, high = left < 64 ? left : 64;
        const uint64_t below = high >= 64 ? ~0ull : high > 0 ? (1ull << high) - 1 : 0;
        const uint64_t there = before >= 64 ? 0 : below & ~((1ull << before) - 1);
        const int64_t n = pop_least(r->lanes, g->makes - m);
        const pop_pool_max_code_part p = {
            pop_pool_base(u, in) + 2 * q, pop_pool_base(u, out) + 2 * (g->made + m), (__mmask32)there, (__mmask32)(there >> 32),
            n >= 32 ? 0xffffffffu : (1u << n) - 1, _mm512_set1_epi16((short)(bf16 ? 0xff80 : 0xfc00)), _mm512_set1_epi16(bf16 ? 0x7f : 0x3ff)};
        pop_pool_max_code_rows(u, r, p, two, taps, bf16);
    }
}

static int pop_pool_by_codes(const pop_pool_unit *u, const pop_pool_code_reach *r)
{
    const pop_pool_operand *in = u->spec->operands, *out = in + 3;
    const int bf16 = in->format == POP_IS_BF16;
    if (r->lanes == 0 || in->format != out->format || (in->format != POP_IS_F16 && !bf16)) return 0;
    if (!r->two && r->taps == 3) pop_pool_max_codes(u, r, 0, 3, bf16);
    else if (!r->two && r->taps == 2) pop_pool_max_codes(u, r, 0, 2, bf16);
    else if (!r->two) pop_pool_max_codes(u, r, 0, r->taps, bf16);
    else pop_pool_max_codes(u, r, 1, r->taps, bf16);
    return 1;
}

#else
#if POP_LANES == 8
#include "kernels/pool/planes.h"
#include "kernels/pool/columns.h"
#else
typedef struct pop_pool_reach {
    int lanes;
} pop_pool_reach;
typedef void (*pop_pool_registers)(const pop_pool_unit *, const pop_pool_reach *);
static int pop_pool_reach_of(const pop_pool *s, pop_pool_reach *r) { return (void)s, r->lanes = 0; }
#endif
typedef struct pop_pool_code_reach {
    int lanes;
} pop_pool_code_reach;
static int pop_pool_code_reach_of(const pop_pool *s, pop_pool_code_reach *r) { return (void)s, r->lanes = 0; }
static int pop_pool_by_codes(const pop_pool_unit *u, const pop_pool_code_reach *r) { return (void)u, (void)r, 0; }
static int pop_pool_sums_by_rows(const pop_pool_unit *u, const pop_pool_reach *r) { return (void)u, (void)r, 0; }
#endif

#if POP_LANES != 8
typedef struct pop_pool_columns {
    const pop_pool_segment *segment;
} pop_pool_columns;
static int pop_pool_by_columns(const pop_pool_unit *u, const pop_pool_reach *r, pop_pool_columns *columns, int sum)
{
    return (void)u, (void)r, (void)columns, (void)sum, 0;
}
#endif

#if POP_LANES >= 8
static const pop_pool_registers pop_pool_register_maxima[] = {pop_pool_register_max_f32, pop_pool_register_max_f16, pop_pool_register_max_bf16};
static const pop_pool_registers pop_pool_register_sums[] = {pop_pool_register_sum_f32, pop_pool_register_sum_f16, pop_pool_register_sum_bf16};
#else
static const pop_pool_registers pop_pool_register_maxima[3], pop_pool_register_sums[3];
#endif

static int pop_pool_by_registers(const pop_pool_unit *u, const pop_pool_reach *r, const pop_pool_registers *how)
{
    const pop_pool_operand *in = u->spec->operands, *out = in + 3;
    if (r->lanes == 0 || in->format < 0 || out->format < 0) return 0;
    how[pop_pool_direct_format(in->format)](u, r);
    return 1;
}
#endif
