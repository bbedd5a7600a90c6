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
    int64_t first, n;               /* lookups, from the first of all */
    int64_t other;                  /* offset of the first one's slice */
    int64_t offset[POP_RESOLVED];   /* in the table */
    int64_t place[POP_RESOLVED];    /* in places */
    int64_t starts[POP_SLICES_AXES]; /* each component's place, of the last lookup */
} pop_resolved;

/* Where lookups from `first` on lie, up to the end of the innermost axis or to n of them. Returns the offset of indices. */
POP_INLINE int64_t pop_slices_begin(const pop_slices *s, pop_resolved *r, int64_t first, int64_t n)
{
    const int last = s->axes_count - 1;
    int64_t index = 0, table = 0, place = 0, rest = first;
    r->first = first, r->other = 0, r->n = pop_least(n, s->wraps ? 1 : POP_RESOLVED);
    for (int d = last; d >= 0; d--) {
        const pop_slices_axis *a = s->axes + d;
        const int64_t at = d ? rest % a->extent : rest;
        rest = d ? rest / a->extent : 0;
        if (d == last) r->n = pop_least(r->n, a->extent - at);
        index += at * a->index, table += at * a->table, place += at * a->place, r->other += at * a->other;
    }
    for (int64_t i = 0; i < r->n; i++) {
        r->offset[i] = table + i * s->axes[last].table;
        r->place[i] = place + i * s->axes[last].place;
    }
    return index;
}

/* The place of an index that is not below the limit, or what is none. */
static int64_t __attribute__((noinline)) pop_bad_index(int32_t policy, int negative, uint64_t index, int64_t limit)
{
    if (policy == POP_INDEX_NAN) return POP_PLACE_NAN;
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

#define POP_RESOLVE_BODY(type)                                                                                        \
    for (int64_t i = 0; i < r->n; i++) {                                                                              \
        type v;                                                                                                       \
        memcpy(&v, p + i * stride, sizeof v);                                                                         \
        int64_t at = (int64_t)v;                                                                                      \
        if ((uint64_t)at >= (uint64_t)c->limit) at = pop_bad_index(s->policy, (type)-1 < (type)1 && at < 0, (uint64_t)at, c->limit); \
        if (!POP_IS_PLACE(at)) r->offset[i] = at;                                                                     \
        else if (POP_IS_PLACE(r->offset[i])) r->offset[i] += at * c->step, r->place[i] += at * c->place, r->starts[k] = at; \
    }

/* Lookups from `first` on, at most n and POP_RESOLVED of them. */
static void pop_resolve(const pop_slices *s, const char *indices, pop_resolved *r, int64_t first, int64_t n)
{
    const int64_t index = pop_slices_begin(s, r, first, n), stride = s->axes[s->axes_count - 1].index;
    for (int k = 0; k < s->components_count; k++) {
        const pop_slices_component *c = s->components + k;
        const char *p = indices + index + c->offset;
        switch (s->index_signed ? s->index_bytes : -s->index_bytes) {
        case 1: POP_RESOLVE_BODY(int8_t) break;
        case -1: POP_RESOLVE_BODY(uint8_t) break;
        case 2: POP_RESOLVE_BODY(int16_t) break;
        case -2: POP_RESOLVE_BODY(uint16_t) break;
        case 4: POP_RESOLVE_BODY(int32_t) break;
        case -4: POP_RESOLVE_BODY(uint32_t) break;
        case 8: POP_RESOLVE_BODY(int64_t) break;
        default: POP_RESOLVE_BODY(uint64_t) break;
        }
    }
}

/* The first bad lookup of a range, or -1. Operands: the indices, int64 answers. */
static void pop_slices_check(const void *work, const pop_tile *tile)
{
    const pop_slices_item *item = (const pop_slices_item *)work;
    int64_t *answer = (int64_t *)(void *)tile->operands[1] + item->share;
    pop_resolved r;
    *answer = -1;
    for (int64_t first = item->first, end = first + item->count; first < end; first += r.n) {
        pop_resolve(item->spec, tile->operands[0], &r, first, end - first);
        for (int64_t i = 0; i < r.n; i++)
            if (!POP_IS_PLACE(r.offset[i])) {
                *answer = first + i;
                return;
            }
    }
}
#endif
