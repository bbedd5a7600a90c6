/* Gradients of maxima where lanes are positions and registers hold what windows bring. */
#ifndef POP_POOL_GRADIENT_REGISTERS_H
#define POP_POOL_GRADIENT_REGISTERS_H
#include "kernels/pool/gradient_channels.h"

#if POP_LANES == 16
POP_INLINE pop_v_f pop_pool_own_lanes(int64_t place)
{
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return (pop_v_f)_mm512_add_epi32(_mm512_set1_epi32((int32_t)place), lanes);
}

POP_INLINE void pop_pool_gradient_lanes(const pop_pool_unit *u, const pop_pool_reach *r, int two, int taps, const int *format)
{
    const pop_pool *s = u->spec;
    const pop_pool_axis axis = pop_pool_only_axis(s);
    const pop_pool_segment *g = u->segment;
    const pop_pool_operand *in = s->operands, *field = in + 1, *maxima = in + 2, *out = in + 3;
    const pop_v_f none = pop_v_float(pop_v_set(-1));
    const int by_place = format[1] == POP_POOL_OF_PLACES;
    int64_t q = g->origin;
    for (int64_t m = -g->shift; m < g->makes; m += r->lanes, q += r->advance) {
        const uint64_t there = pop_pool_lanes(-q, s->read_extent - q);
        const __mmask16 low = (__mmask16)there, high = (__mmask16)(there >> 16);
        const __mmask16 made = (__mmask16)pop_pool_lanes(-m, pop_least(r->lanes, g->makes - m));
        const char *grads = pop_pool_base(u, in), *tops = pop_pool_base(u, maxima), *xs = pop_pool_base(u, field);
        char *to = pop_pool_base(u, out);
        const int64_t step = s->axis_count == 1 ? s->axes->read_stride : 1; /* of what names the rows, in elements */
        for (int64_t row = u->row; row < u->row + u->rows; row++) {
            const pop_pool_near n = pop_pool_near_rows(u, &axis, in->bytes, row);
            const int64_t at = n.made + g->made + m;
            const pop_v_f own = by_place ? pop_pool_own_lanes(row * s->made_extent + g->made + m)
                                         : pop_pool_load_lanes(format[1], xs, at, made);
            pop_v_f a = pop_v_splat(0.0f);
            for (int64_t j = 0; j < n.count; j++) {
                const int64_t from = n.at[j] * step + q;
                const pop_v_f grad = pop_pool_load_lanes(format[0], grads, from, low);
                const pop_v_f top = (pop_v_f)_mm512_mask_mov_ps(none, low, pop_pool_load_lanes(format[2], tops, from, low));
                pop_v_f more = grad, higher = top;
                if (two) {
                    more = pop_pool_load_lanes(format[0], grads, from + 16, high);
                    higher = (pop_v_f)_mm512_mask_mov_ps(none, high, pop_pool_load_lanes(format[2], tops, from + 16, high));
                }
                for (int t = 0; t < taps; t++) {
                    const __mmask16 same = r->there[t] & pop_pool_same(by_place, own, pop_pool_tap(r, two, t, top, higher));
                    a = (pop_v_f)_mm512_mask_add_ps(a, same, a, pop_pool_tap(r, two, t, grad, more));
                }
            }
            pop_pool_store_lanes(format[3], to, at, a, made);
        }
    }
}

/* Rows of an axis that come in pairs, all alike: both meet one row of windows, the next one for each pair, and the first one meets
 * `both`, the row before that too. */
typedef struct pop_pool_pairs {
    int64_t begin, end, number; /* rows, and the first pair's row of windows */
} pop_pool_pairs;

POP_INLINE int pop_pool_is_pair(const pop_pool_axis *axis, int64_t row, int both, int64_t number)
{
    const int64_t *first = axis->first + row, *near = axis->coordinates + first[0];
    if (row + 2 > axis->extent || first[1] - first[0] != both + 1 || first[2] - first[1] != 1) return 0;
    return near[both] == number && near[both + 1] == number && near[0] == number - both;
}

static pop_pool_pairs pop_pool_pairs_of(const pop_pool *s, int both)
{
    pop_pool_pairs p = {0, 0, 0};
    if (s->axis_count != 1 || s->row_limit != both + 1) return p;
    const pop_pool_axis *axis = s->axes;
    for (; p.begin + 2 <= axis->extent; p.begin++) {
        const int64_t end = axis->first[p.begin + 1];
        p.number = end ? axis->coordinates[end - 1] : -1;
        if (pop_pool_is_pair(axis, p.begin, both, p.number)) break;
    }
    for (p.end = p.begin; pop_pool_is_pair(axis, p.end, both, p.number + (p.end - p.begin) / 2); p.end += 2) continue;
    return p;
}

/* Those of a unit. */
POP_INLINE pop_pool_pairs pop_pool_pairs_within(pop_pool_pairs p, int64_t row, int64_t rows)
{
    if (row > p.begin) p.number += (row - p.begin + 1) / 2, p.begin += (row - p.begin + 1) / 2 * 2;
    p.end = pop_least(p.end, row + rows);
    p.end -= (p.end - p.begin) % 2;
    if (p.end <= p.begin) p.begin = p.end = row + rows;
    return p;
}

/* FP32 of two axes, windows of 2 and 3 by 2, of which at most two rows meet a row of the field: what a row of windows brings is
 * put in order once for all rows that it meets, and kept in registers with the row before, for two registers side by side. */
typedef struct pop_pool_rows_of {
    const char *x, *grads, *tops; /* of row 0, and of coordinate 0 */
    char *to;
    int64_t place, width;         /* of the first element of row 0, and to the next row's */
    int64_t beside, beside_read;  /* bytes to the next register */
    __mmask16 low[2], made[2], there[2];
    __m512i at[2];
} pop_pool_rows_of;

/* What elements are compared with, and what they are given then. */
typedef struct pop_pool_brought {
    int64_t number;
    __m512i most[2][2];
    __m512 grads[2][2];
} pop_pool_brought;

POP_INLINE void pop_pool_bring(const int by_place, const int registers, const int taps, const pop_pool_rows_of *p, int64_t from,
                               int64_t ahead, pop_pool_brought *b)
{
    const __m512i none = _mm512_set1_epi32(-1);
    const char *tops = p->tops + (by_place ? 2 * from : from), *grads = p->grads + from;
    pop_prefetch(pop_beyond(grads, ahead)), pop_prefetch(pop_beyond(tops, by_place ? 2 * ahead : ahead));
    if (by_place) pop_prefetch(pop_beyond(tops + 64, 2 * ahead));
    for (int i = 0; i < registers; i++, grads += p->beside_read, tops += by_place ? 2 * p->beside_read : p->beside_read) {
        const __m512i words = by_place ? (__m512i)pop_pool_some_places(tops, p->low[i]) : _mm512_maskz_loadu_epi32(p->low[i], tops);
        const __m512i top = _mm512_mask_mov_epi32(none, p->low[i], words);
        const __m512 grad = _mm512_maskz_loadu_ps(p->low[i], grads);
        for (int t = 0; t < taps; t++) {
            b->most[i][t] = _mm512_mask_permutexvar_epi32(none, p->there[t], p->at[t], top);
            b->grads[i][t] = _mm512_permutexvar_ps(p->at[t], grad);
        }
    }
}

POP_INLINE __m512 pop_pool_with(const int by_place, const int taps, const int first, __m512i own, __m512 a, const __m512i *most,
                                const __m512 *grads)
{
    for (int t = 0; t < taps; t++) {
        const __mmask16 same = by_place ? _mm512_cmp_epi32_mask(own, most[t], _MM_CMPINT_EQ)
                                        : _mm512_cmp_ps_mask((__m512)own, (__m512)most[t], _CMP_EQ_OQ);
        a = first && t == 0 ? _mm512_maskz_add_ps(same, grads[t], _mm512_setzero_ps()) : _mm512_mask_add_ps(a, same, a, grads[t]);
    }
    return a;
}

/* A row that meets `count` rows of windows, in so many registers. */
POP_INLINE void pop_pool_gradient_row(const int by_place, const int registers, const int taps, const int count, const pop_pool_rows_of *p,
                                      const char *x, char *to, int64_t ahead, __m512i *own, const pop_pool_brought *before,
                                      const pop_pool_brought *last)
{
    for (int i = 0; i < registers; i++) {
        const __m512i here = by_place ? own[i] : _mm512_maskz_loadu_epi32(p->made[i], x + i * p->beside);
        if (!by_place) pop_prefetch(pop_beyond(x + i * p->beside, 4 * ahead));
        pop_prefetch_to_write(pop_beyond(to + i * p->beside, 4 * ahead));
        __m512 a = _mm512_setzero_ps();
        if (count == 2) a = pop_pool_with(by_place, taps, 1, here, a, before->most[i], before->grads[i]);
        if (count) a = pop_pool_with(by_place, taps, count == 1, here, a, last->most[i], last->grads[i]);
        _mm512_mask_storeu_ps(to + i * p->beside, p->made[i], a);
        if (by_place) own[i] = _mm512_add_epi32(own[i], _mm512_set1_epi32((int32_t)p->width));
    }
}

POP_INLINE void pop_pool_gradient_rows(const int by_place, const int registers, const int taps, const pop_pool_rows_of p,
                                       const pop_pool *s, const pop_pool_pairs pairs, int64_t row, const int64_t end)
{
    const pop_pool_axis *axis = s->axes;
    const int64_t step = 4 * axis->made_stride, read = 4 * axis->read_stride, ahead = s->ahead;
    const int64_t *const first = axis->first, *const all = axis->coordinates;
    const char *x = p.x + row * step;
    char *to = p.to + row * step;
    pop_pool_brought before = {.number = -1}, last = {.number = -1};
    __m512i own[2];
    for (int i = 0; i < registers; i++) own[i] = (__m512i)pop_pool_own_lanes(p.place + row * p.width + i * p.beside / 4);
    for (int64_t stop = pairs.begin;; stop = end) {
        for (; row < stop; row++, x += step, to += step) {
            const int64_t *near = all + first[row], count = first[row + 1] - first[row];
            if (count && near[count - 1] != last.number) {
                before = last, last.number = near[count - 1];
                pop_pool_bring(by_place, registers, taps, &p, last.number * read, ahead, &last);
            }
            if (count == 2 && near[0] != before.number) {
                before.number = near[0];
                pop_pool_bring(by_place, registers, taps, &p, before.number * read, ahead, &before);
            }
            if (count == 2) pop_pool_gradient_row(by_place, registers, taps, 2, &p, x, to, ahead, own, &before, &last);
            else if (count) pop_pool_gradient_row(by_place, registers, taps, 1, &p, x, to, ahead, own, &before, &last);
            else pop_pool_gradient_row(by_place, registers, taps, 0, &p, x, to, ahead, own, &before, &last);
        }
        if (row == end) return;
        int64_t number = pairs.number;
        if (taps == 2 && last.number != number - 1) pop_pool_bring(by_place, registers, taps, &p, (number - 1) * read, ahead, &last);
        for (; row < pairs.end; row += 2, x += 2 * step, to += 2 * step, number++) {
            if (taps == 2) before = last;
            pop_pool_bring(by_place, registers, taps, &p, number * read, ahead, &last);
            pop_pool_gradient_row(by_place, registers, taps, taps, &p, x, to, ahead, own, &before, &last);
            pop_pool_gradient_row(by_place, registers, taps, 1, &p, x + step, to + step, ahead, own, &before, &last);
        }
        last.number = number - 1, before.number = taps == 2 ? number - 2 : -1;
    }
}

#define POP_POOL_GRADIENT_ROWS(by_place, two, taps, p, u)                                                             \
    ((taps) == 1 ? (two) ? pop_pool_gradient_rows(by_place, 2, 1, p, (u)->spec, pairs, (u)->row, (u)->row + (u)->rows)                  \
                         : pop_pool_gradient_rows(by_place, 1, 1, p, (u)->spec, pairs, (u)->row, (u)->row + (u)->rows)                  \
     : (two)     ? pop_pool_gradient_rows(by_place, 2, 2, p, (u)->spec, pairs, (u)->row, (u)->row + (u)->rows)                          \
                 : pop_pool_gradient_rows(by_place, 1, 2, p, (u)->spec, pairs, (u)->row, (u)->row + (u)->rows))

static __attribute__((noinline)) void pop_pool_gradient_of_rows(const pop_pool_unit *u, const pop_pool_reach *r, const pop_pool_pairs *all)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const pop_pool_operand *in = s->operands, *field = in + 1, *maxima = in + 2, *out = in + 3;
    const pop_pool_pairs pairs = pop_pool_pairs_within(*all, u->row, u->rows);
    int64_t q = g->origin;
    for (int64_t m = -g->shift, next; m < g->makes; m = next) {
        pop_pool_rows_of p = {
            pop_pool_base(u, field) + 4 * (g->made + m), pop_pool_base(u, in) + 4 * q, pop_pool_base(u, maxima) + maxima->bytes * q,
            pop_pool_base(u, out) + 4 * (g->made + m), g->made + m, s->made_extent, 4 * r->lanes, 4 * r->advance,
            .there = {r->there[0], r->there[r->taps - 1]}, .at = {r->at[0], r->at[r->taps - 1]}};
        next = m;
        for (int i = 0; i < 2; i++, next += r->lanes, q += r->advance) {
            p.low[i] = (__mmask16)pop_pool_lanes(-q, s->read_extent - q);
            p.made[i] = (__mmask16)pop_pool_lanes(-next, pop_least(r->lanes, g->makes - next));
        }
        const int two = m + r->lanes < g->makes;
        if (s->by_place) POP_POOL_GRADIENT_ROWS(1, two, r->taps, p, u);
        else POP_POOL_GRADIENT_ROWS(0, two, r->taps, p, u);
    }
}

static int pop_pool_by_rows(const pop_pool *s, const pop_pool_reach *r, pop_pool_pairs *pairs)
{
    *pairs = pop_pool_pairs_of(s, r->taps == 2);
    static const int wide[4] = {0, 0, 0, 0};
    int format[4];
    return r->lanes && (r->taps == 1 || r->taps == 2) && !r->two && s->axis_count == 1 && s->row_limit <= 2 &&
           pop_pool_all_direct(s, format) && format[0] == 0 && format[3] == 0 &&
           (s->by_place || memcmp(format, wide, sizeof wide) == 0);
}

static int pop_pool_gradient_by_registers(const pop_pool_unit *u, const pop_pool_reach *r)
{
    int format[4];
    if (r->lanes == 0 || !pop_pool_all_direct(u->spec, format)) return 0;
    pop_pool_gradient_lanes(u, r, r->two, r->taps, format);
    return 1;
}
#elif POP_LANES == 8
#include "kernels/pool/gradient_planes.h"
#else
typedef struct pop_pool_pairs {
    int64_t begin;
} pop_pool_pairs;
static int pop_pool_by_rows(const pop_pool *s, const pop_pool_reach *r, pop_pool_pairs *p) { return (void)s, (void)r, (void)p, 0; }
static void pop_pool_gradient_of_rows(const pop_pool_unit *u, const pop_pool_reach *r, pop_pool_pairs *p) { (void)u, (void)r, (void)p; }
static int pop_pool_gradient_by_registers(const pop_pool_unit *u, const pop_pool_reach *r) { return (void)u, (void)r, 0; }
#endif
#endif
