/* Gradients of maxima where lanes are positions, at levels of eight lanes: of windows of 2 and 3 by 2 in registers, column by column, as
 * columns.h has their maxima; of others rows of windows become lines, of which an element finds its own. */
#ifndef POP_POOL_GRADIENT_PLANES_H
#define POP_POOL_GRADIENT_PLANES_H

/* The rows of windows that rows [row, end) of a unit meet: of one axis all from the first to the last; none where a row's own, or those
 * of several axes, lie too far apart. */
typedef struct pop_pool_brought {
    int64_t end, first, count;
} pop_pool_brought;

POP_INLINE pop_pool_brought pop_pool_met(const pop_pool_unit *u, const pop_pool_axis *axis, int64_t row, int64_t most)
{
    const int64_t stop = u->row + u->rows;
    pop_pool_brought b = {row + 1, 0, 0};
    if (axis->first == NULL) return b;
    for (b.end = row; b.end < stop; b.end++) {
        const int64_t from = axis->first[b.end], to = axis->first[b.end + 1];
        if (from == to) continue;
        const int64_t low = axis->coordinates[from], high = axis->coordinates[to - 1];
        const int64_t first = b.count && b.first < low ? b.first : low, last = b.first + b.count > high ? b.first + b.count - 1 : high;
        if (last - first >= most) break;
        b.first = first, b.count = last - first + 1;
    }
    if (b.end == row) b.end = row + 1;
    return b;
}

#define POP_POOL_BESIDE (POP_POOL_LINE_ROOM / 2 + POP_LANES) /* numbers from a line of maxima to that of its gradients */
/* What is outside of rows of windows. */
POP_INLINE void pop_pool_bring_margins(const pop_pool_reach *r, const pop_pool_segment *g, float *tops, int64_t count)
{
    pop_pool_margins(r, g, pop_v_float(pop_v_set(-1)), tops, count);
    pop_pool_margins(r, g, pop_v_splat(0.0f), tops + POP_POOL_BESIDE, count);
}
/* A row of windows: maxima, or words of places, and gradients; narrow ones have less than a vector. */
POP_INLINE void pop_pool_bring(const int *format, const pop_pool_segment *g, const int narrow, const char *top, const char *grad, float *tops)
{
    const int by_place = format[1] == POP_POOL_OF_PLACES;
    const int64_t n = g->reads;
    float *const grads = tops + g->place + POP_POOL_BESIDE;
    tops += g->place;
    for (int64_t k = 0; k < n; k += POP_LANES) {
        const int64_t i = narrow ? 0 : pop_pool_block(k, n);
        const int part = narrow ? (int)n : POP_LANES;
        const pop_v_f most = by_place ? pop_pool_words_of(top + 8 * i, part) : pop_pool_load(format[2], top, i, part);
        const pop_v_f own = pop_pool_load(format[0], grad, i, part);
        pop_pool_store(0, (char *)tops, i, most, part);
        pop_pool_store(0, (char *)grads, i, own, part);
    }
}

/* What a phase's windows bring to some elements. */
POP_INLINE pop_v_f pop_pool_found(const int by_place, const int taps, const int64_t *at, pop_v_f own, pop_v_f made, const float *tops)
{
    for (int t = 0; t < taps; t++)
        made = pop_pool_add_where(pop_pool_same(by_place, own, pop_v_load_f(tops + at[t])), made, pop_v_load_f(tops + POP_POOL_BESIDE + at[t]));
    return made;
}

/* An element's own number, or the place that it has. */
POP_INLINE pop_v_f pop_pool_own(const int *format, const char *x, int64_t i, int64_t n, int64_t place)
{
    static const pop_v_i lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    if (format[1] == POP_POOL_OF_PLACES) return pop_v_float(pop_v_add(pop_v_set((int32_t)(place + i)), lanes));
    if (n >= POP_LANES) return pop_pool_load(format[1], x, i, POP_LANES);
    return n > 0 ? pop_pool_load(format[1], x, i, (int)n) : pop_v_splat(0.0f);
}

/* One row of elements, and where the lines of windows are that it meets. */
typedef struct pop_pool_element_row {
    const char *x;
    char *to;
    int64_t place, count;
    const float *tops[POP_POOL_LINES];
} pop_pool_element_row;

POP_INLINE void pop_pool_element_lanes(const pop_pool_segment *g, const pop_pool_reach *r, const int *format, const pop_pool_element_row *e)
{
    for (int64_t m = 0; m < g->makes; m += POP_LANES) {
        const int64_t i = pop_pool_block(m, g->makes), at = g->shift + i;
        const pop_v_f own = pop_pool_own(format, e->x, i, g->makes - i, e->place);
        pop_v_f made = pop_v_splat(0.0f);
        for (int64_t j = 0; j < e->count; j++)
            made = pop_pool_found(format[1] == POP_POOL_OF_PLACES, r->taps[0], r->at[0], own, made, e->tops[j] + at);
        pop_pool_store_made(format[3], e->to, i, made, g->makes - i);
    }
}

/* What windows two apart bring to elements of two phases: how many, and places of their windows from half an element's own on. */
typedef struct pop_pool_phases {
    int64_t makes;
    int taps, others;
    int64_t first[POP_POOL_TAP_LIMIT], second[POP_POOL_TAP_LIMIT];
} pop_pool_phases;

POP_INLINE void pop_pool_phases_of(const pop_pool_reach *r, const pop_pool_segment *g, pop_pool_phases *p)
{
    const int64_t odd = g->shift & 1;
    p->makes = g->makes, p->taps = r->taps[odd], p->others = r->taps[!odd];
    for (int t = 0; t < p->taps; t++) p->first[t] = r->at[odd][t] + (g->shift >> 1);
    for (int t = 0; t < p->others; t++) p->second[t] = r->at[!odd][t] + ((g->shift + 1) >> 1);
}

/* A row that meets `count` rows of windows; `whole`: it is of whole pairs of vectors, but that the last may begin earlier. */
POP_INLINE void pop_pool_element_pairs(const pop_pool_phases *p, const int *format, const pop_pool_element_row *e, const int whole,
                                       const int64_t count, const int taps, const int others)
{
    const int by_place = format[1] == POP_POOL_OF_PLACES;
    const int64_t last = p->makes - 2 * POP_LANES;
    for (int64_t m = 0; m < p->makes; m += 2 * POP_LANES) {
        const int64_t i = whole ? pop_least(m, last) : pop_pool_pair_block(m, p->makes), left = whole ? 2 * POP_LANES : p->makes - i;
        const pop_pool_pair own = pop_pool_apart((pop_pool_pair){pop_pool_own(format, e->x, i, left, e->place),
                                                                 pop_pool_own(format, e->x, i + POP_LANES, left - POP_LANES, e->place)});
        pop_pool_pair made = {pop_v_splat(0.0f), pop_v_splat(0.0f)};
        for (int64_t j = 0; j < count; j++) {
            made.a = pop_pool_found(by_place, taps, p->first, own.a, made.a, e->tops[j] + (i >> 1));
            made.b = pop_pool_found(by_place, others, p->second, own.b, made.b, e->tops[j] + (i >> 1));
        }
        pop_pool_store_pair(format[3], e->to, i, made, left);
    }
}

/* `taps`: windows of each phase where these are known, else 0. */
POP_INLINE void pop_pool_gradient_rows_of(const pop_pool_unit *u, const pop_pool_reach *r, const int *format, const int taps, const int others)
{
    float room[POP_POOL_LINE_ROOM + 2 * POP_LANES];
    const pop_pool *s = u->spec;
    const pop_pool_axis axis = pop_pool_only_axis(s);
    const pop_pool_segment g = *u->segment;
    const pop_pool_operand *in = s->operands, *maxima = in + 2;
    const int64_t most = r->lines / 2, pitch = r->pitch, step = s->axis_count == 1 ? axis.read_stride : 1;
    float *const tops = room;
    pop_pool_phases p;
    if (r->phases == 2) pop_pool_phases_of(r, &g, &p);
    const int64_t x_bytes = in[1].bytes, to_bytes = in[3].bytes, grads_bytes = in->bytes, tops_bytes = maxima->bytes;
    const char *const x = pop_pool_base(u, in + 1) + g.made * x_bytes;
    const char *const own_grads = pop_pool_base(u, in) + g.read * grads_bytes, *const own_tops = pop_pool_base(u, maxima) + g.read * tops_bytes;
    char *const to = pop_pool_base(u, in + 3) + g.made * to_bytes;
    const int64_t end = u->row + u->rows, width = s->made_extent;
    pop_pool_element_row e;
    for (int64_t row = u->row; row < end;) {
        const pop_pool_brought b = pop_pool_met(u, &axis, row, most);
        pop_pool_bring_margins(r, &g, tops, b.count ? b.count : s->row_limit);
        for (int64_t c = 0; c < b.count; c++) {
            const int64_t from = (b.first + c) * step, line = c * pitch;
            const char *top = own_tops + from * tops_bytes, *grad = own_grads + from * grads_bytes;
            if (g.reads < POP_LANES) pop_pool_bring(format, &g, 1, top, grad, tops + line);
            else pop_pool_bring(format, &g, 0, top, grad, tops + line);
        }
        for (; row < b.end; row++) {
            const pop_pool_near near = pop_pool_near_rows(u, &axis, 1, row);
            e.x = x + near.made * x_bytes, e.to = to + near.made * to_bytes, e.place = row * width + g.made, e.count = near.count;
            for (int64_t j = 0; j < near.count; j++) {
                const int64_t line = (b.count ? near.at[j] - b.first : j) * pitch, from = near.at[j] * step;
                e.tops[j] = tops + line;
                if (!b.count)
                    pop_pool_bring(format, &g, g.reads < POP_LANES, own_tops + from * tops_bytes, own_grads + from * grads_bytes, tops + line);
            }
            if (taps && e.count == 1) pop_pool_element_pairs(&p, format, &e, 1, 1, taps, others);
            else if (taps && e.count == 2) pop_pool_element_pairs(&p, format, &e, 1, 2, taps, others);
            else if (r->phases == 2) pop_pool_element_pairs(&p, format, &e, 0, e.count, p.taps, p.others);
            else pop_pool_element_lanes(&g, r, format, &e);
        }
    }
}

POP_INLINE void pop_pool_gradient_plane(const pop_pool_unit *u, const pop_pool_reach *r, const int *format)
{
    const int64_t odd = u->segment->shift & 1, makes = u->segment->makes;
    const int taps = r->phases == 2 && makes >= 2 * POP_LANES && makes % 2 == 0 ? r->taps[odd] : 0, others = r->taps[!odd];
    if (taps == 2 && others == 1) pop_pool_gradient_rows_of(u, r, format, 2, 1);
    else if (taps == 1 && others == 2) pop_pool_gradient_rows_of(u, r, format, 1, 2);
    else if (taps == 1 && others == 1) pop_pool_gradient_rows_of(u, r, format, 1, 1);
    else pop_pool_gradient_rows_of(u, r, format, 0, 0);
}

static const int POP_POOL_WIDE[2][4] = {{0, 0, 0, 0}, {0, POP_POOL_OF_PLACES, POP_POOL_OF_PLACES, 0}}; /* known where they are compiled */
static int pop_pool_gradient_by_registers(const pop_pool_unit *u, const pop_pool_reach *r)
{
    int format[4];
    if (r->lanes == 0 || !pop_pool_all_direct(u->spec, format)) return 0;
    if (memcmp(format, POP_POOL_WIDE[0], sizeof format) == 0) pop_pool_gradient_rows_of(u, r, POP_POOL_WIDE[0], 0, 0);
    else if (memcmp(format, POP_POOL_WIDE[1], sizeof format) == 0) pop_pool_gradient_rows_of(u, r, POP_POOL_WIDE[1], 0, 0);
    else pop_pool_gradient_plane(u, r, format);
    return 1;
}

/* Of two axes, windows of 2 and 3 by 2, of which at most two rows meet a row of the field, all in one format: sixteen elements of each row
 * at once, down all rows, then the next sixteen. What rows of windows bring to them stays in registers for the next row. */
typedef pop_pool_columns pop_pool_pairs;

static int pop_pool_by_rows(const pop_pool *s, const pop_pool_reach *r, pop_pool_pairs *p)
{
    int format[4];
    p->segment = NULL;
    return r->lanes && pop_pool_all_direct(s, format) && format[0] == format[3] &&
           (s->by_place || (format[0] == format[1] && format[0] == format[2]));
}

/* Elements at even places and those at odd ones: numbers, or places. */
POP_INLINE pop_pool_pair pop_pool_own_pair(const int format, const int by_place, const char *x, int64_t place)
{
    static const pop_v_i even = {0, 2, 4, 6, 8, 10, 12, 14};
    const pop_v_i places = pop_v_add(pop_v_set((int32_t)place), even);
    if (by_place) return (pop_pool_pair){pop_v_float(places), pop_v_float(places + 1)};
    if (format) {
        const __m256i codes = _mm256_loadu_si256((const __m256i *)(const void *)x);
        return format == 1 ? pop_pool_pair_of_f16(codes) : pop_pool_pair_of_bf16(codes);
    }
    const float *p = (const float *)(const void *)x;
    const __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + 8), 1);
    const __m256 high = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 4)), _mm_loadu_ps(p + 12), 1);
    return (pop_pool_pair){_mm256_shuffle_ps(low, high, 0x88), _mm256_shuffle_ps(low, high, 0xdd)};
}

/* What a row of windows brings to a column: maxima, or words of places, and gradients. */
typedef struct pop_pool_bringing {
    pop_v_f tops[2], grads[2];
} pop_pool_bringing;
POP_INLINE pop_pool_bringing pop_pool_bringing_of(const int format, const int by_place, const int vectors, const pop_pool_column *c,
                                                const char *top, const char *grad)
{
    pop_pool_bringing w;
    for (int v = 0; v < vectors; v++) {
        const int64_t i = c->from[v];
        const pop_v_f most = by_place ? pop_pool_words_of(top + 8 * i, POP_LANES) : pop_pool_load(format, top, i, POP_LANES);
        const pop_v_f own = _mm256_permutevar8x32_ps(pop_pool_load(format, grad, i, POP_LANES), c->order[v]);
        w.tops[v] = _mm256_or_ps(_mm256_permutevar8x32_ps(most, c->order[v]), _mm256_xor_ps(c->there[v], pop_v_float(pop_v_set(-1))));
        w.grads[v] = _mm256_and_ps(own, c->there[v]);
    }
    for (int v = vectors; v < 2; v++) w.tops[v] = w.tops[0], w.grads[v] = w.grads[0];
    return w;
}
POP_INLINE pop_pool_pair pop_pool_with(const int by_place, const int kind, pop_pool_pair own, pop_pool_pair made, const pop_pool_bringing *w)
{
    made.a = pop_pool_add_where(pop_pool_same(by_place, own.a, w->tops[0]), made.a, w->grads[0]);
    if (kind == 2) made.a = pop_pool_add_where(pop_pool_same(by_place, own.a, w->tops[1]), made.a, w->grads[1]);
    if (kind < 2) made.b = pop_pool_add_where(pop_pool_same(by_place, own.b, w->tops[0]), made.b, w->grads[0]);
    if (kind) made.b = pop_pool_add_where(pop_pool_same(by_place, own.b, w->tops[1]), made.b, w->grads[1]);
    return made;
}

/* Where a unit's operands begin, bytes of what maxima or places are, and the first row's place. */
typedef struct pop_pool_pair_rows {
    const char *tops, *grads, *x;
    char *to;
    int64_t tops_bytes, place, width;
} pop_pool_pair_rows;

/* Rows [row, end) of a column. */
POP_INLINE void pop_pool_pairs_down(const int format, const int by_place, const int kind, const pop_pool_column *column,
                                    const pop_pool_pair_rows *at, const pop_pool_column_row *row, const pop_pool_column_row *end, int64_t place)
{
    const int64_t bytes = format ? 2 : 4, tops_bytes = at->tops_bytes, width = at->width;
    const int vectors = kind ? 2 : 1;
    const char *tops = at->tops, *grads = at->grads, *x = at->x + column->made * bytes;
    char *to = at->to + column->made * bytes;
    int64_t number = -1;
    pop_pool_column c; /* which nothing that is written may be */
    for (int v = 0; v < vectors; v++) c.from[v] = column->from[v], c.order[v] = column->order[v], c.there[v] = column->there[v];
    pop_pool_bringing before = {{pop_v_splat(0.0f)}}, last = before;
    for (; row < end; row++, place += width) {
        const int64_t met = row->count, first = row->at[0], second = row->at[1], made = row->made * bytes;
        const pop_pool_pair own = pop_pool_own_pair(format, by_place, x + made, place);
        pop_pool_pair z = {pop_v_splat(0.0f), pop_v_splat(0.0f)};
        if (met && number != first)
            number = first, last = pop_pool_bringing_of(format, by_place, vectors, &c, tops + first * tops_bytes, grads + first * bytes);
        if (met == 2) {
            number = second, before = last;
            last = pop_pool_bringing_of(format, by_place, vectors, &c, tops + second * tops_bytes, grads + second * bytes);
            z = pop_pool_with(by_place, kind, own, pop_pool_with(by_place, kind, own, z, &before), &last);
            pop_pool_put_pair(format, 0, 0, to + made, z);
        } else if (met) {
            z = pop_pool_with(by_place, kind, own, z, &last);
            pop_pool_put_pair(format, kind != 2, kind != 1, to + made, z);
        } else {
            pop_pool_put_pair(format, 1, 1, to + made, z);
        }
    }
}

/* What a row of windows brings to sixteen elements of 16 bits that meet no other: codes, each twice, and what maxima may be
 * too, since zeros have two signs; or words of places. Gradients are what zero and they add up to; none of NaN, which no number equals. */
typedef struct pop_pool_codes {
    __m256i tops, others, grads;
} pop_pool_codes;
POP_INLINE __m256i pop_pool_twice(const int whole, const pop_pool_column *c, const char *codes)
{
    const __m256i pairs = _mm256_setr_epi64x(0x0302030201000100, 0x0706070605040504, 0x0b0a0b0a09080908, 0x0f0e0f0e0d0c0d0c);
    const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)codes));
    const __m256i twice = _mm256_shuffle_epi8(both, pairs);
    return whole ? twice : _mm256_permutevar8x32_epi32(twice, c->order[0]);
}
POP_INLINE pop_pool_codes pop_pool_codes_of(const int format, const int by_place, const int whole, const pop_pool_column *c, const char *top,
                                            const char *grad)
{
    const int64_t i = c->from[0];
    const __m256i sign = _mm256_set1_epi16(INT16_MIN), infinity = _mm256_set1_epi16(format == 1 ? 0x7c00 : 0x7f80);
    const __m256i none = _mm256_setzero_si256(), quiet = _mm256_set1_epi16(format == 1 ? 0x200 : 0x40);
    const __m256i g = pop_pool_twice(whole, c, grad + 2 * i), size = _mm256_andnot_si256(sign, g);
    const __m256i quieted = _mm256_or_si256(g, _mm256_and_si256(_mm256_cmpgt_epi16(size, infinity), quiet));
    pop_pool_codes w = {none, none, _mm256_andnot_si256(_mm256_cmpeq_epi16(size, none), quieted)};
    if (by_place) {
        w.tops = (__m256i)pop_pool_words_of(top + 8 * i, POP_LANES);
        if (!whole) w.tops = _mm256_permutevar8x32_epi32(w.tops, c->order[0]);
    } else {
        w.tops = pop_pool_twice(whole, c, top + 2 * i);
        const __m256i tops_size = _mm256_andnot_si256(sign, w.tops);
        w.others = _mm256_xor_si256(w.tops, _mm256_and_si256(_mm256_cmpeq_epi16(tops_size, none), sign));
        w.grads = _mm256_andnot_si256(_mm256_cmpgt_epi16(tops_size, infinity), w.grads);
    }
    if (!whole) w.grads = _mm256_and_si256(w.grads, _mm256_castps_si256(c->there[0]));
    return w;
}

/* Rows [row, end) of a column of such elements, a row of windows for two of them. */
POP_INLINE void pop_pool_codes_down(const int format, const int by_place, const int whole, const pop_pool_column *column,
                                    const pop_pool_pair_rows *at, const pop_pool_column_row *row, const pop_pool_column_row *end, int64_t place)
{
    static const pop_v_i even = {0, 2, 4, 6, 8, 10, 12, 14};
    const int64_t width = at->width;
    const char *x = at->x + column->made * 2;
    char *to = at->to + column->made * 2;
    int64_t number = -1;
    const pop_pool_column c = *column; /* which nothing that is written may be */
    pop_pool_codes w = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (; row < end; row++, place += width) {
        const int64_t first = row->at[0];
        __m256i found = _mm256_setzero_si256();
        if (row->count) {
            if (number != first)
                w = pop_pool_codes_of(format, by_place, whole, &c, at->tops + first * at->tops_bytes, at->grads + first * 2);
            number = first;
            if (by_place) {
                const __m256i own = (__m256i)pop_v_add(pop_v_set((int32_t)place), even), next = _mm256_add_epi32(own, _mm256_set1_epi32(1));
                found = _mm256_blend_epi16(_mm256_cmpeq_epi32(w.tops, own), _mm256_cmpeq_epi32(w.tops, next), 0xaa);
            } else {
                const __m256i own = _mm256_loadu_si256((const __m256i *)(const void *)(x + row->made * 2));
                found = _mm256_or_si256(_mm256_cmpeq_epi16(own, w.tops), _mm256_cmpeq_epi16(own, w.others));
            }
            found = _mm256_and_si256(found, w.grads);
        }
        _mm256_storeu_si256((__m256i *)(void *)(to + row->made * 2), found);
    }
}

POP_INLINE void pop_pool_pairs_rows(const pop_pool_unit *u, const int format, const int by_place, const int kind, const pop_pool_pairs *p)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const pop_pool_operand *in = s->operands, *maxima = in + 2;
    const int64_t bytes = format ? 2 : 4;
    const pop_pool_pair_rows at = {pop_pool_base(u, maxima) + g->read * maxima->bytes, pop_pool_base(u, in) + g->read * bytes,
                                   pop_pool_base(u, in + 1) + g->made * bytes, pop_pool_base(u, in + 3) + g->made * bytes,
                                   maxima->bytes, p->row * s->made_extent + g->made, s->made_extent};
    for (const pop_pool_column_row *row = p->near, *last = row + p->rows, *end; row < last; row = end) {
        end = last - row > p->some ? row + p->some : last;
        for (const pop_pool_column *c = p->column; c < p->column + p->count; c++) {
            const int64_t place = at.place + (row - p->near) * at.width + c->made;
            if (kind == 0 && format && p->single && c->whole) pop_pool_codes_down(format, by_place, 1, c, &at, row, end, place);
            else if (kind == 0 && format && p->single) pop_pool_codes_down(format, by_place, 0, c, &at, row, end, place);
            else pop_pool_pairs_down(format, by_place, kind, c, &at, row, end, place);
        }
    }
}
#define POP_POOL_PAIRS_ROWS(format, by_place, kind)                                                                   \
    static __attribute__((noinline)) void pop_pool_pairs_##format##_##by_place##_##kind(const pop_pool_unit *u, const pop_pool_pairs *p) \
    {                                                                                                                 \
        pop_pool_pairs_rows(u, format, by_place, kind, p);                                                            \
    }
#define POP_POOL_PAIRS_OF(format, by_place)                                                                           \
    POP_POOL_PAIRS_ROWS(format, by_place, 0) POP_POOL_PAIRS_ROWS(format, by_place, 1) POP_POOL_PAIRS_ROWS(format, by_place, 2)
POP_POOL_PAIRS_OF(0, 0)
POP_POOL_PAIRS_OF(1, 0)
POP_POOL_PAIRS_OF(2, 0)
POP_POOL_PAIRS_OF(0, 1)
POP_POOL_PAIRS_OF(1, 1)
POP_POOL_PAIRS_OF(2, 1)
#define POP_POOL_PAIRS_KINDS(format, by_place)                                                                        \
    {pop_pool_pairs_##format##_##by_place##_0, pop_pool_pairs_##format##_##by_place##_1, pop_pool_pairs_##format##_##by_place##_2}
static void (*const pop_pool_pairs_sweeps[2][3][3])(const pop_pool_unit *, const pop_pool_pairs *) = {
    {POP_POOL_PAIRS_KINDS(0, 0), POP_POOL_PAIRS_KINDS(1, 0), POP_POOL_PAIRS_KINDS(2, 0)},
    {POP_POOL_PAIRS_KINDS(0, 1), POP_POOL_PAIRS_KINDS(1, 1), POP_POOL_PAIRS_KINDS(2, 1)}};

static void pop_pool_gradient_of_rows(const pop_pool_unit *u, const pop_pool_reach *r, pop_pool_pairs *p)
{
    if (!pop_pool_is_found(u, p)) pop_pool_find_pairs(u, r, p);
    if (p->count) pop_pool_pairs_sweeps[u->spec->by_place][pop_pool_direct_format(u->spec->operands->format)][p->kind](u, p);
    else pop_pool_gradient_by_registers(u, r);
}
#endif
