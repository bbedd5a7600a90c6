/* From indices to places of the table. This is the one place where an index meets its limit: whatever it is, what comes out
 * lies within the table, or is no place. An index is read once. */
#ifndef POP_SLICES_RESOLVE_H
#define POP_SLICES_RESOLVE_H
#include "drivers/strided_rows.h"
#include "program/program.h"

#include "records/enums.h"
#define POP_RECORDS "records/slices.def"
#include "records/structs.h"

#define POP_SLICES_AXES 64
#define POP_RESOLVED 256 /* lookups that are resolved at a time */

/* What is no offset of the table. */
#define POP_PLACE_SKIPPED INT64_MIN
#define POP_PLACE_ZERO (INT64_MIN + 1)
#define POP_PLACE_NAN (INT64_MIN + 2)
#define POP_IS_PLACE(offset) ((offset) > POP_PLACE_NAN)

/* Lookups along the innermost axis. */
typedef struct pop_resolved {
    int64_t n;
    int64_t other;                   /* offset of the first one's slice */
    int64_t table, first;            /* of the first one's group: offset in the table, and place */
    int32_t good;                    /* every one is at a place */
    int64_t offset[POP_RESOLVED];    /* in the table */
    int64_t place[POP_RESOLVED];     /* in places */
    int64_t starts[POP_SLICES_AXES]; /* each component's place, of the last lookup */
} pop_resolved;

/* Where lookups from `first` on lie, up to the end of the innermost axis or to n of them. Returns the offset of indices. */
POP_INLINE int64_t pop_slices_begin(const pop_slices *s, pop_resolved *r, int64_t first, int64_t n)
{
    const int last = s->axes_count - 1;
    int64_t index = 0, table = 0, place = 0, rest = first;
    r->other = 0, r->good = 1, r->n = pop_least(n, s->wraps ? 1 : POP_RESOLVED);
    for (int d = last; d >= 0; d--) {
        const pop_slices_axis *a = s->axes + d;
        const int64_t at = d ? rest % a->extent : rest;
        rest = d ? rest / a->extent : 0;
        if (d == last) r->n = pop_least(r->n, a->extent - at);
        index += at * a->index, table += at * a->table, place += at * a->place, r->other += at * a->other;
    }
    r->table = table, r->first = place;
    return index;
}

/* The place of an index that is not below the limit, or what is none. */
static int64_t __attribute__((noinline)) pop_bad_index(int32_t policy, int negative, uint64_t index, int64_t limit)
{
    if (policy == POP_INDEX_NAN) return index == UINT64_MAX || index == UINT32_MAX ? POP_PLACE_ZERO : POP_PLACE_NAN;
    if (policy == POP_INDEX_ZERO || limit == 0) return POP_PLACE_ZERO;
    switch (policy) {
    case POP_INDEX_CLIP: return negative ? 0 : limit - 1;
    case POP_INDEX_FIRST: return 0;
    case POP_INDEX_WRAP: {
        const uint64_t m = (uint64_t)limit, below = negative ? (0 - index) % m : 0;
        return (int64_t)(negative ? (below ? m - below : 0) : index % m);
    }
    default: return POP_PLACE_SKIPPED;
    }
}

/* n indices `stride` bytes apart; returns whether all are below the limit. */
#define POP_READ_INDICES(type)                                                                                        \
    if (stride == (int64_t)sizeof(type)) {                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                             \
            type v;                                                                                                   \
            memcpy(&v, p + i * (int64_t)sizeof v, sizeof v);                                                          \
            at[i] = (int64_t)v;                                                                                       \
            bad |= at[i] | (most - (at[i] & INT64_MAX));                                                              \
        }                                                                                                             \
    } else {                                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                             \
            type v;                                                                                                   \
            memcpy(&v, p + i * stride, sizeof v);                                                                     \
            at[i] = (int64_t)v;                                                                                       \
            bad |= at[i] | (most - (at[i] & INT64_MAX));                                                              \
        }                                                                                                             \
    }                                                                                                                 \
    break;

static int pop_read_indices(const pop_slices *s, const char *p, int64_t stride, int64_t n, int64_t limit, int64_t *restrict at)
{
    const int64_t most = limit - 1;
    pop_prefetch_lines(pop_beyond(p, n * stride), n * stride); /* what comes next */
    int64_t bad = 0; /* of a negative number, or of a difference that is one, the sign */
    switch (s->index_signed ? s->index_bytes : -s->index_bytes) {
    case 1: POP_READ_INDICES(int8_t)
    case -1: POP_READ_INDICES(uint8_t)
    case 2: POP_READ_INDICES(int16_t)
    case -2: POP_READ_INDICES(uint16_t)
    case 4: POP_READ_INDICES(int32_t)
    case -4: POP_READ_INDICES(uint32_t)
    default: POP_READ_INDICES(int64_t)
    }
    return bad >= 0;
}

/* Indices of which some are bad. */
static void __attribute__((noinline)) pop_resolve_bad(const pop_slices *s, const pop_slices_component *c, pop_resolved *r,
                                                      int64_t *at, int places)
{
    for (int64_t i = 0; i < r->n; i++) {
        if ((uint64_t)at[i] >= (uint64_t)c->limit)
            at[i] = pop_bad_index(s->policy, s->index_signed && at[i] < 0, (uint64_t)at[i], c->limit);
        if (!POP_IS_PLACE(at[i])) r->offset[i] = at[i], r->good = 0;
        else if (POP_IS_PLACE(r->offset[i])) {
            r->offset[i] += at[i] * c->step;
            if (places) r->place[i] += at[i] * c->place;
        }
    }
}

/* Lookups from `first` on, at most n and POP_RESOLVED of them; of those that are read, places are not wanted. */
static void pop_resolve(const pop_slices *s, const char *indices, pop_resolved *r, int64_t first, int64_t n, int places)
{
    const int64_t index = pop_slices_begin(s, r, first, n);
    const pop_slices_axis *inner = s->axes + s->axes_count - 1;
    const int64_t table = inner->table, group = inner->place;
    int64_t at[POP_RESOLVED];
    if (s->components_count == 0 || table || group || places)
        for (int64_t i = 0; i < r->n; i++) r->offset[i] = r->table + i * table, r->place[i] = r->first + i * group;
    for (int k = 0; k < s->components_count; k++) {
        const pop_slices_component *c = s->components + k;
        const int64_t step = c->step, place = c->place, base = r->table;
        const int good = pop_read_indices(s, indices + index + c->offset, inner->index, r->n, c->limit, at) && r->good;
        if (k == 0 && !table && !group && !places) {
            for (int64_t i = 0; i < r->n; i++) r->offset[i] = base + (good ? at[i] * step : 0);
        } else if (good) {
            for (int64_t i = 0; i < r->n; i++) r->offset[i] += at[i] * step;
            for (int64_t i = 0; places && i < r->n; i++) r->place[i] += at[i] * place;
        }
        if (!good) pop_resolve_bad(s, c, r, at, places);
        r->starts[k] = at[r->n - 1];
    }
}
#endif
