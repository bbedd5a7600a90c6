/* Gradients of maxima where lanes are positions, at levels of eight lanes: rows of windows become lines, of which an element finds its own. */
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

/* A row of windows: maxima, or words of places, and gradients; narrow ones have less than a vector. */
POP_INLINE void pop_pool_bring(const int *format, const pop_pool_reach *r, const pop_pool_segment *g, const int narrow, const char *top,
                               const char *grad, float *tops, float *grads)
{
    const int by_place = format[1] == POP_POOL_OF_PLACES;
    const int64_t n = g->reads;
    pop_pool_margins(r, g, pop_v_float(pop_v_set(-1)), tops, 1);
    pop_pool_margins(r, g, pop_v_splat(0.0f), grads, 1);
    tops += g->place, grads += g->place;
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
POP_INLINE pop_v_f pop_pool_found(const int by_place, const int taps, const int64_t *at, pop_v_f own, pop_v_f made, const float *tops,
                                  const float *grads)
{
    for (int t = 0; t < taps; t++)
        made = pop_pool_add_where(pop_pool_same(by_place, own, pop_v_load_f(tops + at[t])), made, pop_v_load_f(grads + at[t]));
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
    const float *tops[POP_POOL_LINES], *grads[POP_POOL_LINES];
} pop_pool_element_row;

POP_INLINE void pop_pool_element_lanes(const pop_pool_segment *g, const pop_pool_reach *r, const int *format, const pop_pool_element_row *e)
{
    for (int64_t m = 0; m < g->makes; m += POP_LANES) {
        const int64_t i = pop_pool_block(m, g->makes), at = g->shift + i;
        const pop_v_f own = pop_pool_own(format, e->x, i, g->makes - i, e->place);
        pop_v_f made = pop_v_splat(0.0f);
        for (int64_t j = 0; j < e->count; j++)
            made = pop_pool_found(format[1] == POP_POOL_OF_PLACES, r->taps[0], r->at[0], own, made, e->tops[j] + at, e->grads[j] + at);
        pop_pool_store_made(format[3], e->to, i, made, g->makes - i);
    }
}

/* What windows two apart bring to elements of two phases, `count` rows of them. */
typedef struct pop_pool_phases {
    int64_t shift, makes, first[2], second[2]; /* places of the first two windows of each phase, from half an element's own on */
    const pop_pool_reach *reach;
} pop_pool_phases;

/* Where rows are whole pairs of vectors, but that the last may begin earlier. */
POP_INLINE void pop_pool_element_pairs(const pop_pool_phases p, const int *format, const pop_pool_element_row *e, const int64_t count,
                                       const int taps, const int others)
{
    const int by_place = format[1] == POP_POOL_OF_PLACES;
    const char *const x = e->x;
    char *const to = e->to;
    const int64_t place = e->place, last = p.makes - 2 * POP_LANES;
    const float *const tops[2] = {e->tops[0], e->tops[count - 1]}, *const grads[2] = {e->grads[0], e->grads[count - 1]};
    for (int64_t m = 0; m < p.makes; m += 2 * POP_LANES) {
        const int64_t i = m < last ? m : last, h = i >> 1;
        const pop_pool_pair own = pop_pool_apart((pop_pool_pair){pop_pool_own(format, x, i, POP_LANES, place),
                                                                 pop_pool_own(format, x, i + POP_LANES, POP_LANES, place)});
        pop_pool_pair made = {pop_v_splat(0.0f), pop_v_splat(0.0f)};
        for (int64_t j = 0; j < count; j++) {
            made.a = pop_pool_found(by_place, taps, p.first, own.a, made.a, tops[j] + h, grads[j] + h);
            made.b = pop_pool_found(by_place, others, p.second, own.b, made.b, tops[j] + h, grads[j] + h);
        }
        pop_pool_store_pair(format[3], to, i, made, 2 * POP_LANES);
    }
}
static void pop_pool_element_parts(const pop_pool_phases p, const int *format, const pop_pool_element_row *e)
{
    const int64_t odd = p.shift & 1;
    const pop_pool_reach *r = p.reach;
    for (int64_t m = 0; m < p.makes; m += 2 * POP_LANES) {
        const int64_t i = pop_pool_pair_block(m, p.makes), a = (p.shift + i) >> 1, b = (p.shift + i + 1) >> 1, left = p.makes - i;
        const pop_pool_pair own = pop_pool_apart((pop_pool_pair){pop_pool_own(format, e->x, i, left, e->place),
                                                                 pop_pool_own(format, e->x, i + POP_LANES, left - POP_LANES, e->place)});
        pop_pool_pair made = {pop_v_splat(0.0f), pop_v_splat(0.0f)};
        for (int64_t j = 0; j < e->count; j++) {
            made.a = pop_pool_found(format[1] == POP_POOL_OF_PLACES, r->taps[odd], r->at[odd], own.a, made.a, e->tops[j] + a, e->grads[j] + a);
            made.b = pop_pool_found(format[1] == POP_POOL_OF_PLACES, r->taps[!odd], r->at[!odd], own.b, made.b, e->tops[j] + b, e->grads[j] + b);
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
    const int64_t most = r->lines / 2, pitch = r->pitch, step = s->axis_count == 1 ? axis.read_stride : 1, odd = g.shift & 1;
    float *const tops = room, *const grads = tops + most * pitch + POP_LANES;
    pop_pool_phases p = {.shift = g.shift, .makes = g.makes, .reach = r};
    for (int t = 0; t < taps; t++) p.first[t] = r->at[odd][t] + (g.shift >> 1);
    for (int t = 0; t < others; t++) p.second[t] = r->at[!odd][t] + ((g.shift + 1) >> 1);
    const int64_t x_bytes = in[1].bytes, to_bytes = in[3].bytes, grads_bytes = in->bytes, tops_bytes = maxima->bytes;
    const char *const x = pop_pool_base(u, in + 1) + g.made * x_bytes;
    const char *const own_grads = pop_pool_base(u, in) + g.read * grads_bytes, *const own_tops = pop_pool_base(u, maxima) + g.read * tops_bytes;
    char *const to = pop_pool_base(u, in + 3) + g.made * to_bytes;
    const int64_t end = u->row + u->rows, width = s->made_extent;
    pop_pool_element_row e;
    for (int64_t row = u->row; row < end;) {
        const pop_pool_brought b = pop_pool_met(u, &axis, row, most);
        for (int64_t c = 0; c < b.count; c++) {
            const int64_t from = (b.first + c) * step, line = c * pitch;
            const char *top = own_tops + from * tops_bytes, *grad = own_grads + from * grads_bytes;
            if (g.reads < POP_LANES) pop_pool_bring(format, r, &g, 1, top, grad, tops + line, grads + line);
            else pop_pool_bring(format, r, &g, 0, top, grad, tops + line, grads + line);
        }
        for (; row < b.end; row++) {
            const pop_pool_near near = pop_pool_near_rows(u, &axis, 1, row);
            e.x = x + near.made * x_bytes, e.to = to + near.made * to_bytes, e.place = row * width + g.made, e.count = near.count;
            for (int64_t j = 0; j < near.count; j++) {
                const int64_t line = (b.count ? near.at[j] - b.first : j) * pitch, from = near.at[j] * step;
                e.tops[j] = tops + line, e.grads[j] = grads + line;
                if (!b.count)
                    pop_pool_bring(format, r, &g, g.reads < POP_LANES, own_tops + from * tops_bytes, own_grads + from * grads_bytes,
                                   tops + line, grads + line);
            }
            if (taps && e.count == 1) pop_pool_element_pairs(p, format, &e, 1, taps, others);
            else if (taps && e.count == 2) pop_pool_element_pairs(p, format, &e, 2, taps, others);
            else if (r->phases == 2) pop_pool_element_parts(p, format, &e);
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

static int pop_pool_gradient_by_registers(const pop_pool_unit *u, const pop_pool_reach *r)
{
    static const int wide[2][4] = {{0, 0, 0, 0}, {0, POP_POOL_OF_PLACES, POP_POOL_OF_PLACES, 0}}; /* known where they are compiled */
    int format[4];
    if (r->lanes == 0 || !pop_pool_all_direct(u->spec, format)) return 0;
    if (memcmp(format, wide[0], sizeof format) == 0) pop_pool_gradient_plane(u, r, wide[0]);
    else if (memcmp(format, wide[1], sizeof format) == 0) pop_pool_gradient_plane(u, r, wide[1]);
    else pop_pool_gradient_plane(u, r, format);
    return 1;
}
#endif
