/* Products of an input's elements with all taps, added where the results that they belong to are (records/overlap.def). */
#ifndef POP_OVERLAP_H
#define POP_OVERLAP_H
#include "drivers/field.h"

/* Planes [*low, *high) of results that element `at` of the first dimension has products for. */
POP_INLINE void pop_overlap_planes(const pop_field *f, int64_t at, int64_t *low, int64_t *high)
{
    const pop_field_dim *d = &f->dims[0];
    const int64_t reach = (d->taps - 1) * d->tap_step, first = at * d->dilation - d->first;
    *low = first - (reach > 0 ? reach : 0);
    *high = first - (reach < 0 ? reach : 0) + 1;
}

/* One element's products; `planes` hold results [low, high) of the first dimension. */
POP_INLINE void pop_overlap_element(const pop_overlap_spec *s, const pop_field *f, const int64_t *at, const float *products,
                                    int64_t low, int64_t high, float *planes)
{
    const int64_t rank = f->rank, channels = f->channels;
    const pop_field_dim *last = &f->dims[rank - 1];
    const int64_t first = at[rank - 1] * last->dilation - last->first;
    int64_t from = 0, to = last->taps, tap[POP_FIELD_DIMS] = {0}, d;
    from = first < last->first_valid ? last->first_valid - first : 0;
    to = pop_field_smaller(to, last->end_valid - first);
    const int64_t n = (to - from) * channels;
    if (n <= 0) return;
    for (;;) {
        int64_t place = 0;
        for (d = 0; d < rank - 1; d++) {
            const pop_field_dim *dim = &f->dims[d];
            const int64_t o = at[d] * dim->dilation - dim->first - tap[d] * dim->tap_step;
            if (o < dim->first_valid || o >= dim->end_valid || (d == 0 && (o < low || o >= high))) break;
            place = d == 0 ? o % s->planes : place * dim->positions + o;
        }
        if (d == rank - 1) {
            float *restrict sums = planes + (place * last->positions + first + from) * channels;
            const float *restrict added = products + from * channels;
            for (int64_t i = 0; i < n; i++) sums[i] += added[i];
        }
        products += last->taps * channels;
        for (d = rank - 2; d >= 0 && ++tap[d] == f->dims[d].taps; d--) tap[d] = 0;
        if (d < 0) return;
    }
}

/* The products of n elements from number `element` on. */
static void pop_overlap_add(const pop_overlap_spec *s, const pop_field *f, int64_t element, int64_t n, const float *products,
                            int64_t low, int64_t high, float *planes)
{
    int64_t at[POP_FIELD_DIMS], left = element;
    for (int64_t d = f->rank - 1; d >= 0; d--) {
        at[d] = left % s->elements[d];
        left /= s->elements[d];
    }
    for (int64_t i = 0; i < n; i++, products += s->columns) {
        pop_overlap_element(s, f, at, products, low, high, planes);
        for (int64_t d = f->rank - 1; d >= 0 && ++at[d] == s->elements[d]; d--) at[d] = 0;
    }
}

/* Results [low, high) of the first dimension to the output; their sums become zero. */
static void pop_overlap_finish(const pop_overlap_spec *s, const pop_field *f, pop_epilogue *e, pop_epilogue_kernel epilogue,
                               int64_t low, int64_t high, float *planes, char *out)
{
    const pop_field_dim *last = &f->dims[f->rank - 1];
    const int64_t row = last->positions * f->channels, contiguous = e->out_col == s->item && last->out_stride == f->channels * s->item;
    for (int64_t o = low; o < high; o++) {
        float *sums = planes + o % s->planes * s->plane;
        int64_t at[POP_FIELD_DIMS] = {0}, d;
        for (int64_t done = 0; done < s->plane; done += row) {
            e->out = out + o * f->dims[0].out_stride;
            for (d = 1; d < f->rank - 1; d++) e->out += at[d] * f->dims[d].out_stride;
            e->out_row = last->out_stride;
            if (contiguous) epilogue(e, sums + done, row, 1, row);
            else epilogue(e, sums + done, f->channels, last->positions, f->channels);
            for (d = f->rank - 2; d > 0 && ++at[d] == f->dims[d].positions; d--) at[d] = 0;
        }
        memset(sums, 0, (size_t)s->plane * sizeof *sums);
    }
}
#endif
