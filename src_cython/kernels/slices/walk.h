/* The slice of a lookup, run by run; and slices that are read. */
#ifndef POP_SLICES_WALK_H
#define POP_SLICES_WALK_H
#include "kernels/slices/straight.h"

#define POP_SLICES_AHEAD 24        /* lookups whose rows are prefetched, and of a table that a core holds */
#define POP_SLICES_AHEAD_NEAR 8
#define POP_SLICES_NEAR (POP_CACHE / 16) /* bytes of such a table */
#define POP_SLICES_PREFETCHED 4096       /* bytes of a row: what follows comes by itself */

/* What becomes of a run of n elements of the table, as far as `shift` into the other array's slice. */
typedef void (*pop_run)(void *does, char *table, int64_t shift, int64_t n);

static void pop_walk(const pop_slices *s, int d, char *table, int64_t shift, const int64_t *starts, pop_run run, void *does)
{
    const pop_slices_window *w = s->windows + d;
    int64_t at = w->component >= 0 ? starts[w->component] : 0;
    for (int64_t left = w->extent; left > 0;) {
        const int64_t here = w->component >= 0 ? pop_least(left, w->modulus - at) : left;
        char *from = table + at * w->table;
        if (d == s->windows_count - 1) run(does, from, shift, here);
        else
            for (int64_t j = 0; j < here; j++)
                pop_walk(s, d + 1, from + j * w->table, shift + j * w->other, starts, run, does);
        left -= here, shift += here * w->other, at = 0;
    }
}

/* Every line that a row has a part of, into the second-level cache, which can wait for more of them at once than the first.
 * Measured on one Zen 4 core, rows of 256 bytes to 4 KiB in any order, of a table in memory: 1.5 times as fast as unasked, where
 * the same into the first-level cache gains nothing, and all lines but the last of rows between lines a fifth; what is written
 * gains as much. Of a table that is there, short rows gain a tenth by a prefetch to the first. */
POP_INLINE void pop_prefetch_row(const char *row, int64_t bytes, int64_t ahead)
{
    const char *end = row + pop_least(bytes, POP_SLICES_PREFETCHED);
    if (ahead == POP_SLICES_AHEAD_NEAR) {
        for (end = row + pop_least(bytes, 256); row < end; row += 64) pop_prefetch(pop_beyond(row, 0));
    } else if (bytes <= 128) {
        pop_prefetch_l2(pop_beyond(row, 0));
        if (bytes > 64) pop_prefetch_l2(pop_beyond(row, 64));
        if (((uintptr_t)row + (uintptr_t)bytes) % 64) pop_prefetch_l2(pop_beyond(end, -1));
    } else if (bytes % 256) {
        for (uintptr_t line = (uintptr_t)row & ~(uintptr_t)63; line < (uintptr_t)end; line += 64) pop_prefetch_l2(line);
    } else {
        for (; row < end; row += 256) /* by fours, and the last line besides: of a loop by one the end is often guessed wrongly */
            for (int k = 0; k < 256; k += 64) pop_prefetch_l2(pop_beyond(row, k));
        if ((uintptr_t)row % 64) pop_prefetch_l2(pop_beyond(end, -1));
    }
}

/* Read of the second and the fourth line of a row before the others: a row that is read from its first line to its last makes the
 * core fetch lines on either side of it, which nobody needs. Measured on one Zen 4 core, rows of 256 bytes in any order, of a table
 * in memory: 1.4 times as fast; longer rows gain less, from 1 KiB on nothing. */
POP_INLINE void pop_begin_row(const char *row, int64_t bytes)
{
    if (bytes < 256 || bytes >= 512) return;
    (void)*(const volatile char *)(row + 64);
    (void)*(const volatile char *)(row + 192);
}

/* Bytes of the table. */
POP_INLINE int64_t pop_slices_table(const pop_slices *s)
{
    int64_t bytes = s->row;
    for (int d = 0; d < s->axes_count; d++) bytes *= s->axes[d].table ? s->axes[d].extent : 1;
    for (int k = 0; k < s->components_count && bytes <= POP_CACHE; k++) bytes *= s->components[k].limit;
    return bytes;
}

/* Lookups whose rows are prefetched. */
POP_INLINE int64_t pop_slices_ahead(const pop_slices *s)
{
    return pop_slices_table(s) <= POP_SLICES_NEAR ? POP_SLICES_AHEAD_NEAR : POP_SLICES_AHEAD;
}

/* Whether rows that replace others of the table pass the caches, each a number of whole lines: so many of a table that no cache
 * holds that few are read soon. Where rows lie between lines it would take as long again. */
POP_INLINE int pop_slices_streams(const pop_slices *s, const char *table)
{
    uint64_t places = (uint64_t)(uintptr_t)table | (uint64_t)s->row;
    for (int d = 0; d < s->axes_count; d++) places |= (uint64_t)s->axes[d].table;
    for (int k = 0; k < s->components_count; k++) places |= (uint64_t)s->components[k].step;
    return places % 64 == 0 && s->row >= 128 && s->lookups >= POP_STREAM_ROWS / s->row &&
           pop_slices_table(s) >= POP_CACHE;
}

/* Of lookups that are resolved, how many are taken before more are: so many that the next ones were prefetched. */
POP_INLINE int64_t pop_slices_turn(const pop_resolved *r, int64_t left, int64_t ahead)
{
    return r->n < left && r->n > 2 * ahead ? r->n - ahead : r->n;
}

typedef struct pop_copying {
    const pop_slices *s;
    char *out;
} pop_copying;

static void pop_run_copy(void *does, char *table, int64_t shift, int64_t n)
{
    const pop_copying *c = (const pop_copying *)does;
    const pop_slices_window *w = c->s->windows + c->s->windows_count - 1;
    pop_copy_row(c->s->table_bytes, c->out + shift, w->other, table, w->table, n);
}

static void pop_run_fill(void *does, char *table, int64_t shift, int64_t n)
{
    const pop_copying *c = (const pop_copying *)does;
    const int64_t bytes = c->s->table_bytes, stride = c->s->windows[c->s->windows_count - 1].other;
    const uint64_t code = table ? c->s->nan : 0;
    for (int64_t i = 0; i < n; i++) memcpy(c->out + shift + i * stride, &code, (size_t)bytes);
}

/* A slice of zeros, or of NaN: nothing of the table is touched. */
static void pop_fill_slice(const pop_slices *s, char *out, int nan)
{
    int64_t index[POP_SLICES_AXES] = {0};
    pop_copying copying = {s, out};
    const int last = s->windows_count - 1;
    for (;;) {
        int64_t shift = 0;
        for (int d = 0; d < last; d++) shift += index[d] * s->windows[d].other;
        pop_run_fill(&copying, nan ? out : NULL, shift, s->windows[last].extent);
        int d = last - 1;
        for (; d >= 0 && ++index[d] == s->windows[d].extent; d--) index[d] = 0;
        if (d < 0) return;
    }
}

/* Elements one by one: n of them to places `stride` apart. */
#define POP_TAKE_BODY(type)                                                                                           \
    if (r->good && stride == (int64_t)sizeof(type)) {                                                                 \
        _Pragma("GCC unroll 8") for (int64_t i = 0; i < n; i++)                                                       \
            memcpy(out + i * (int64_t)sizeof(type), table + offset[i], sizeof(type));                                 \
        return;                                                                                                       \
    }                                                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                                                 \
        type v = 0;                                                                                                   \
        if (POP_IS_PLACE(offset[i])) memcpy(&v, table + offset[i], sizeof v);                                         \
        else if (offset[i] == POP_PLACE_SKIPPED) continue;                                                            \
        else if (offset[i] == POP_PLACE_NAN) v = (type)s->nan;                                                        \
        memcpy(out + i * stride, &v, sizeof v);                                                                       \
    }                                                                                                                 \
    break;

static void pop_take_elements(const pop_slices *s, const pop_resolved *r, const char *table, char *restrict out, int64_t stride)
{
    const int64_t *restrict offset = r->offset, n = r->n;
    switch (s->table_bytes) {
    case 1: POP_TAKE_BODY(uint8_t)
    case 2: POP_TAKE_BODY(uint16_t)
    case 4: POP_TAKE_BODY(uint32_t)
    default: POP_TAKE_BODY(uint64_t)
    }
}

typedef char __attribute__((vector_size(32), aligned(1), may_alias)) pop_row_part;
typedef char __attribute__((vector_size(64), aligned(1), may_alias)) pop_row_line;

/* A row: the more bytes a store takes, the more of them wait for their lines at once, and memcpy is slow where they come from
 * memory. Each of four lines has a load of its own: of one that steps from line to line the core guesses lines beyond the row. */
POP_INLINE void pop_copy_slice(char *restrict to, const char *restrict from, int64_t bytes)
{
    if (bytes % 32 || bytes > POP_SLICES_PREFETCHED) pop_copy(to, from, bytes);
    else if (bytes % 256 == 0)
        for (int64_t b = 0; b < bytes; b += 256)
            for (int k = 0; k < 256; k += 64) *(pop_row_line *)(to + b + k) = *(const pop_row_line *)(from + b + k);
    else
        for (int64_t b = 0; b < bytes; b += 32) *(pop_row_part *)(to + b) = *(const pop_row_part *)(from + b);
}

typedef struct pop_taking {
    int64_t ahead, stride;
    int far, streams; /* of a table that a core does not hold; past the caches */
} pop_taking;

POP_INLINE pop_taking pop_taking_of(const pop_slices *s)
{
    const int64_t ahead = pop_slices_ahead(s), stride = s->axes[s->axes_count - 1].other;
    const int far = ahead != POP_SLICES_AHEAD_NEAR;
    return (pop_taking){ahead, stride, far,
                        far && 2 * s->lookups * s->row >= POP_STREAM_BYTES(1) && stride == s->row && s->row % 64 == 0};
}

POP_INLINE void pop_take_row(pop_taking t, const char *row, int64_t bytes, char *out)
{
    if (t.far) pop_begin_row(row, bytes);
    if (t.streams) pop_stream(out, row, bytes);
    else pop_copy_slice(out, row, bytes);
}

/* Rows of the first n lookups, of which the first `ahead` were prefetched. */
static void pop_take_rows(const pop_slices *s, const pop_resolved *r, int64_t n, pop_taking t, const char *table, char *out)
{
    for (int64_t i = 0; i < n; i++, out += t.stride) {
        const int64_t at = r->offset[i], next = i + t.ahead < r->n ? r->offset[i + t.ahead] : POP_PLACE_ZERO;
        if (POP_IS_PLACE(next)) pop_prefetch_row(table + next, s->row, t.ahead);
        if (POP_IS_PLACE(at)) pop_take_row(t, table + at, s->row, out);
        else if (at != POP_PLACE_SKIPPED) pop_fill_slice(s, out, at == POP_PLACE_NAN);
    }
}

/* Slices of the table. Operands: the table, the indices, the result, and, where shares tell, an int64 for each. */
static void pop_slices_take(const void *work, const pop_tile *tile)
{
    const pop_slices_item *item = (const pop_slices_item *)work;
    const pop_slices *s = item->spec;
    const int elements = s->row == s->table_bytes;
    const pop_taking t = pop_taking_of(s);
    char *table = tile->operands[0];
    int64_t *bad = s->tells ? (int64_t *)(void *)tile->operands[3] + item->share : NULL;
    pop_resolved r;
    if (bad) *bad = 0;
    int64_t done = 0, n;
    if (pop_is_straight(s) && !t.streams)
        done = pop_take_straight(s, tile->operands[1] + item->first * s->index_bytes, table,
                                 tile->operands[2] + item->first * t.stride, item->count, t.far ? POP_STRAIGHT_AHEAD : 0);
    for (int64_t first = item->first + done, end = item->first + item->count; first < end; first += n) {
        pop_resolve(s, tile->operands[1], &r, first, end - first, 0);
        n = s->row && !elements ? pop_slices_turn(&r, end - first, t.ahead) : r.n;
        char *out = tile->operands[2] + r.other;
        if (bad && !r.good) *bad = 1;
        if (elements) pop_take_elements(s, &r, table, out, t.stride);
        else if (s->row) pop_take_rows(s, &r, n, t, table, out);
        else
            for (int64_t i = 0; i < r.n; i++) {
                pop_copying copying = {s, out + i * t.stride};
                if (POP_IS_PLACE(r.offset[i])) pop_walk(s, 0, table + r.offset[i], 0, r.starts, pop_run_copy, &copying);
                else if (r.offset[i] != POP_PLACE_SKIPPED) pop_fill_slice(s, copying.out, r.offset[i] == POP_PLACE_NAN);
            }
    }
    if (t.streams) pop_stream_end();
}
#endif
