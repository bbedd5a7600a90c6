/* Slices that change the table, in the order of their indices. Threads own places of the table, and each goes through all
 * lookups for its own: the bits do not depend on how many threads there are.
 *
 * Numbers of other formats than FP32 are summed and multiplied in FP32, and rounded once: a thread sorts its lookups by
 * place (keeping their order), as many at a time as there is room for, and takes those of a place together. */
#ifndef POP_SLICES_UPDATE_H
#define POP_SLICES_UPDATE_H
#include "kernels/slices/walk.h"

#define POP_SLICES_CHUNK 512
#define POP_DIGIT 8

typedef float __attribute__((aligned(1), may_alias)) pop_any_f32;
typedef void (*pop_combine)(char *to, const char *from, int64_t n, const pop_slices *s);

#define POP_COMBINE(name, suffix, type, expression)                                                                   \
    static void pop_##name##_##suffix(char *restrict to, const char *restrict from, int64_t n, const pop_slices *s)   \
    {                                                                                                                 \
        typedef type __attribute__((aligned(1), may_alias)) element;                                                  \
        element *x = (element *)to;                                                                                   \
        const element *y = (const element *)from;                                                                     \
        const type scale = (type)s->scale;                                                                            \
        (void)scale;                                                                                                  \
        for (int64_t i = 0; i < n; i++) x[i] = (type)(expression);                                                    \
    }
#define POP_WIDE_COMBINES(suffix, type)                                                                               \
    POP_COMBINE(add, suffix, type, x[i] + (unsigned long long)scale * (unsigned long long)y[i])                       \
    POP_COMBINE(mul, suffix, type, (unsigned long long)x[i] * (unsigned long long)y[i])                               \
    POP_COMBINE(max, suffix, type, x[i] > y[i] ? x[i] : y[i])                                                         \
    POP_COMBINE(min, suffix, type, x[i] < y[i] ? x[i] : y[i])

POP_WIDE_COMBINES(i8, int8_t)
POP_WIDE_COMBINES(u8, uint8_t)
POP_WIDE_COMBINES(i16, int16_t)
POP_WIDE_COMBINES(u16, uint16_t)
POP_WIDE_COMBINES(i32, int32_t)
POP_WIDE_COMBINES(u32, uint32_t)
POP_WIDE_COMBINES(i64, int64_t)
POP_WIDE_COMBINES(u64, uint64_t)
POP_COMBINE(add, f32, float, x[i] + s->factor * y[i])
POP_COMBINE(mul, f32, float, x[i] * y[i])
POP_COMBINE(max, f32, float, x[i] > y[i] || x[i] != x[i] ? x[i] : y[i]) /* NaN where one is */
POP_COMBINE(min, f32, float, x[i] < y[i] || x[i] != x[i] ? x[i] : y[i])

/* By slice_element and update. */
#define POP_COMBINES_OF(suffix) {NULL, pop_add_##suffix, pop_mul_##suffix, pop_max_##suffix, pop_min_##suffix}
static const pop_combine POP_COMBINES[][5] = {
    POP_COMBINES_OF(f32), POP_COMBINES_OF(i8), POP_COMBINES_OF(u8), POP_COMBINES_OF(i16), POP_COMBINES_OF(u16),
    POP_COMBINES_OF(i32), POP_COMBINES_OF(u32), POP_COMBINES_OF(i64), POP_COMBINES_OF(u64),
};

/* Of a thread: what a run is computed in, and then lookups with their places. */
typedef struct pop_slices_room {
    char sums[8 * POP_SLICES_CHUNK], more[8 * POP_SLICES_CHUNK], codes[8 * POP_SLICES_CHUNK];
} pop_slices_room;

typedef struct pop_updating {
    const pop_slices *s;
    pop_slices_room *room;
    const char *updates;
    const uint64_t *lookups; /* the lower halves, of those that update the place one after another */
    int64_t count;
    int64_t other; /* of the one lookup, where there is no such list */
    int64_t *bad;  /* where it is told that an index was bad, or NULL */
} pop_updating;

POP_INLINE void pop_tell_bad(const pop_updating *u, const pop_resolved *r)
{
    if (u->bad && !r->good) *u->bad = 1;
}

/* Where a lookup's slice is in the other array. */
static int64_t pop_slice_of(const pop_slices *s, int64_t lookup)
{
    int64_t other = 0;
    if (s->axes_count == 1) return lookup * s->axes->other; /* divisions take as long as a short row */
    for (int d = s->axes_count - 1; d >= 0; d--) {
        const pop_slices_axis *a = s->axes + d;
        other += (d ? lookup % a->extent : lookup) * a->other;
        lookup /= a->extent;
    }
    return other;
}

/* n elements as they are computed with: where they lie, or in a buffer. */
static char *pop_slices_read(const pop_slices_room *room, const void *decode, const pop_cast *cast, int64_t bytes, char *at,
                             int64_t stride, int64_t n, const char *buffer)
{
    if (stride == bytes && !decode) return at;
    char *codes = at, *numbers = (char *)(uintptr_t)buffer;
    if (stride != bytes) {
        codes = decode ? (char *)(uintptr_t)room->codes : numbers;
        pop_copy_row(bytes, codes, bytes, at, stride, n);
    }
    if (decode) ((pop_decoder)decode)(cast, codes, (float *)(void *)numbers, n);
    return numbers;
}

static void pop_run_update(void *does, char *table, int64_t shift, int64_t n)
{
    const pop_updating *u = (const pop_updating *)does;
    const pop_slices *s = u->s;
    const pop_slices_window *w = s->windows + s->windows_count - 1;
    if (s->update == POP_UPDATE_SET) {
        pop_copy_row(s->table_bytes, table, w->table, u->updates + u->other + shift, w->other, n);
        return;
    }
    const pop_combine combine = POP_COMBINES[s->element][s->update];
    for (int64_t done = 0, here; done < n; done += here) {
        here = pop_least(POP_SLICES_CHUNK, n - done);
        char *at = table + done * w->table;
        char *sums = pop_slices_read(u->room, s->decode, &s->read, s->table_bytes, at, w->table, here, u->room->sums);
        for (int64_t k = 0; k < u->count; k++) {
            const int64_t other = u->lookups ? pop_slice_of(s, (int64_t)(u->lookups[k] & 0xffffffff)) : u->other;
            char *from = (char *)(uintptr_t)u->updates + other + shift + done * w->other;
            combine(sums, pop_slices_read(u->room, s->decode_other, &s->read_other, s->other_bytes, from, w->other, here,
                                          u->room->more), here, s);
        }
        if (sums == at) continue;
        char *codes = s->encode ? u->room->codes : sums;
        if (s->encode) ((pop_encoder)s->encode)(&s->write, (const float *)(const void *)sums, codes, here, NULL);
        pop_copy_row(s->table_bytes, at, w->table, codes, s->table_bytes, here);
    }
}

/* What becomes of rows of one's own, places `first` to `end`. */
typedef struct pop_putting {
    int64_t first, count, ahead, elements;
    pop_combine combine; /* NULL: they are replaced */
    int far, streams;    /* of a table that a core does not hold; past the caches */
} pop_putting;

POP_INLINE int pop_is_own(const pop_putting *p, int64_t place) { return (uint64_t)(place - p->first) < (uint64_t)p->count; }

/* Rows that replace others of a table in memory pass the caches: nothing is read of what is written over. */
POP_INLINE void pop_put_row(const pop_slices *s, const pop_putting *p, char *to, const char *from)
{
    if (p->streams) {
        pop_stream(to, from, s->row);
        return;
    }
    if (p->far) pop_begin_row(to, s->row);
    if (p->combine) p->combine(to, from, p->elements, s);
    else pop_copy_slice(to, from, s->row);
}

/* Rows of the first n lookups, of which the first `ahead` were prefetched. */
static void pop_put_rows(const pop_slices *s, const pop_putting *p, const pop_resolved *r, int64_t n, char *table, const char *from)
{
    const int64_t stride = s->axes[s->axes_count - 1].other, known = p->streams ? 0 : r->n;
    for (int64_t i = 0; i < n; i++, from += stride) {
        const int64_t next = i + p->ahead;
        if (next < known && POP_IS_PLACE(r->offset[next]) && pop_is_own(p, r->place[next]))
            pop_prefetch_row(table + r->offset[next], s->row, p->ahead);
        if (POP_IS_PLACE(r->offset[i]) && pop_is_own(p, r->place[i])) pop_put_row(s, p, table + r->offset[i], from);
    }
}

/* Single FP32 numbers that are added, of which a call each would take longer than the sum. */
static void pop_add_numbers(const pop_slices *s, const pop_putting *p, const pop_resolved *r, int64_t n, char *table, const char *from)
{
    const int64_t stride = s->axes[s->axes_count - 1].other;
    const float factor = s->factor;
    for (int64_t i = 0; i < n; i++, from += stride) {
        const int64_t next = i + p->ahead;
        if (p->far && next < r->n && POP_IS_PLACE(r->offset[next])) pop_prefetch_to_write(pop_beyond(table, r->offset[next]));
        if (!POP_IS_PLACE(r->offset[i]) || !pop_is_own(p, r->place[i])) continue;
        pop_any_f32 *to = (pop_any_f32 *)(void *)(table + r->offset[i]);
        *to += factor * *(const pop_any_f32 *)(const void *)from;
    }
}

/* Lookups of places `first` to `end`, one after another. */
static void pop_update_each(pop_updating *u, char *table, const char *indices, int64_t first, int64_t end)
{
    const pop_slices *s = u->s;
    const int sets = s->update == POP_UPDATE_SET, rows = s->row && (sets || (!s->decode && !s->decode_other));
    const int64_t ahead = pop_slices_ahead(s);
    const pop_putting p = {first, end - first, ahead, s->row / s->table_bytes, sets ? NULL : POP_COMBINES[s->element][s->update],
                           ahead != POP_SLICES_AHEAD_NEAR, sets && pop_slices_streams(s, table)};
    pop_resolved r;
    int64_t lookup = 0, n;
    u->lookups = NULL, u->count = 1;
    if (rows && p.elements == 1 && p.combine == pop_add_f32 && first == 0 && pop_is_straight(s) && end >= s->components->limit &&
        s->axes->other == s->table_bytes && s->policy != POP_INDEX_SKIP)
        lookup = pop_add_straight(s, indices, table, u->updates, p.far ? POP_STRAIGHT_AHEAD : 0);
    for (; lookup < s->lookups; lookup += n) {
        pop_resolve(s, indices, &r, lookup, s->lookups - lookup, 1);
        pop_tell_bad(u, &r);
        n = rows ? pop_slices_turn(&r, s->lookups - lookup, ahead) : r.n;
        if (rows && p.elements == 1 && p.combine == pop_add_f32) pop_add_numbers(s, &p, &r, n, table, u->updates + r.other);
        else if (rows) pop_put_rows(s, &p, &r, n, table, u->updates + r.other);
        for (int64_t i = 0; i < n && !rows; i++) {
            if (!POP_IS_PLACE(r.offset[i]) || !pop_is_own(&p, r.place[i])) continue;
            u->other = r.other + i * s->axes[s->axes_count - 1].other;
            pop_walk(s, 0, table + r.offset[i], 0, r.starts, pop_run_update, u);
        }
    }
    if (p.streams) pop_stream_end();
}

/* Sort keys, (place - first) << 32 | lookup, by place; those of a place stay in order. Returns where they end up. */
static uint64_t *pop_sort_places(uint64_t *keys, uint64_t *spare, int64_t n, int64_t places)
{
    for (int shift = 32; (uint64_t)(places - 1) >> (shift - 32); shift += POP_DIGIT) {
        int64_t ends[1 << POP_DIGIT] = {0}, sum = 0;
        for (int64_t i = 0; i < n; i++) ends[keys[i] >> shift & ((1 << POP_DIGIT) - 1)]++;
        for (int k = 0; k < 1 << POP_DIGIT; k++) {
            const int64_t count = ends[k];
            ends[k] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++) spare[ends[keys[i] >> shift & ((1 << POP_DIGIT) - 1)]++] = keys[i];
        uint64_t *sorted = spare;
        spare = keys, keys = sorted;
        if (shift == 64 - POP_DIGIT) break;
    }
    return keys;
}

/* Lookups whose places are from `first` to *end, to keys; where there is no room for them *end is brought nearer. Returns how
 * many they are, or -1 where those of one place are too many. */
static int64_t pop_collect(const pop_updating *u, const char *indices, uint64_t *keys, int64_t first, int64_t *end)
{
    const pop_slices *s = u->s;
    int64_t n = 0;
    pop_resolved r;
    for (int64_t lookup = 0; lookup < s->lookups; lookup += r.n) {
        pop_resolve(s, indices, &r, lookup, s->lookups - lookup, 1);
        pop_tell_bad(u, &r);
        for (int64_t i = 0; i < r.n; i++) {
            if (!POP_IS_PLACE(r.offset[i]) || r.place[i] < first || r.place[i] >= *end) continue;
            while (n == s->room) {
                if (*end - first == 1) return -1;
                *end = first + (*end - first) / 2;
                int64_t kept = 0;
                for (int64_t k = 0; k < n; k++)
                    if ((int64_t)(keys[k] >> 32) < *end - first) keys[kept++] = keys[k];
                n = kept;
            }
            if (r.place[i] < *end) keys[n++] = (uint64_t)(r.place[i] - first) << 32 | (uint64_t)(lookup + i);
        }
    }
    return n;
}

/* Where a place is. */
static int64_t pop_offset_of_place(const pop_slices *s, int64_t place)
{
    int64_t offset = 0;
    if (s->axes_count == 1 && !s->axes->place && s->components_count == 1) return place * s->components->step;
    for (int d = 0; d < s->axes_count; d++)
        if (s->axes[d].place) {
            offset += place / s->axes[d].place % s->axes[d].extent * s->axes[d].table;
        }
    for (int k = 0; k < s->components_count; k++)
        offset += place / s->components[k].place % s->components[k].limit * s->components[k].step;
    return offset;
}

/* All lookups of one place, of which there are too many for the room: by as many at a time, the sums in FP32 kept in a run. */
typedef struct pop_many {
    pop_updating *u;
    const char *indices;
    int64_t place;
} pop_many;

static void pop_run_many(void *does, char *table, int64_t shift, int64_t n)
{
    const pop_many *m = (const pop_many *)does;
    const pop_slices *s = m->u->s;
    const pop_slices_window *w = s->windows + s->windows_count - 1;
    const pop_combine combine = POP_COMBINES[s->element][s->update];
    const int64_t stride = s->axes[s->axes_count - 1].other;
    pop_slices_room *room = m->u->room;
    for (int64_t done = 0, here; done < n; done += here) {
        here = pop_least(POP_SLICES_CHUNK, n - done);
        char *at = table + done * w->table;
        pop_resolved r;
        char *sums = pop_slices_read(room, s->decode, &s->read, s->table_bytes, at, w->table, here, room->sums);
        for (int64_t lookup = 0; lookup < s->lookups; lookup += r.n) {
            pop_resolve(s, m->indices, &r, lookup, s->lookups - lookup, 1);
            for (int64_t i = 0; i < r.n; i++) {
                if (!POP_IS_PLACE(r.offset[i]) || r.place[i] != m->place) continue;
                char *from = (char *)(uintptr_t)m->u->updates + r.other + i * stride + shift + done * w->other;
                combine(sums, pop_slices_read(room, s->decode_other, &s->read_other, s->other_bytes, from, w->other, here,
                                              room->more), here, s);
            }
        }
        if (sums == at) continue;
        char *codes = s->encode ? room->codes : sums;
        if (s->encode) ((pop_encoder)s->encode)(&s->write, (const float *)(const void *)sums, codes, here, NULL);
        pop_copy_row(s->table_bytes, at, w->table, codes, s->table_bytes, here);
    }
}

/* Ask for the rows of a sorted lookup ahead of its turn. */
POP_INLINE void pop_prefetch_sorted(const pop_updating *u, const char *table, uint64_t key, int64_t first)
{
    const pop_slices *s = u->s;
    pop_prefetch_row(table + pop_offset_of_place(s, first + (int64_t)(key >> 32)), s->row, POP_SLICES_AHEAD);
    pop_prefetch_row(u->updates + pop_slice_of(s, (int64_t)(key & 0xffffffff)), s->row / s->table_bytes * s->other_bytes,
                POP_SLICES_AHEAD);
}

/* The same, those of a place together. */
static void pop_update_grouped(pop_updating *u, char *table, const char *indices, int64_t first, int64_t end)
{
    const pop_slices *s = u->s;
    uint64_t *keys = (uint64_t *)(void *)(u->room + 1), *spare = keys + s->room;
    const int64_t starts[POP_SLICES_AXES] = {0};
    for (int64_t width = end - first, until; first < end; width = 2 * (until - first), first = until) {
        until = first + pop_least(pop_least(width, end - first), (int64_t)1 << 31);
        const int64_t n = pop_collect(u, indices, keys, first, &until);
        if (n < 0) {
            pop_many many = {u, indices, first};
            pop_walk(s, 0, table + pop_offset_of_place(s, first), 0, starts, pop_run_many, &many);
            continue;
        }
        const uint64_t *sorted = pop_sort_places(keys, spare, n, until - first);
        for (int64_t i = 0; i < n; i += u->count) {
            u->lookups = sorted + i, u->count = 1;
            while (i + u->count < n && sorted[i + u->count] >> 32 == sorted[i] >> 32) u->count++;
            for (int64_t k = i + POP_SLICES_AHEAD; k < pop_least(n, i + u->count + POP_SLICES_AHEAD); k++)
                pop_prefetch_sorted(u, table, sorted[k], first);
            const int64_t place = first + (int64_t)(sorted[i] >> 32);
            pop_walk(s, 0, table + pop_offset_of_place(s, place), 0, starts, pop_run_update, u);
        }
    }
}

/* What is done, with the scale that a word of the call says. */
static pop_slices pop_slices_scaled(const pop_slices *s, const char *words)
{
    pop_slices scaled = *s;
    double scale;
    memcpy(&scaled.scale, words + 8 * (int64_t)s->scale_word, sizeof scaled.scale);
    memcpy(&scale, &scaled.scale, sizeof scale);
    scaled.factor = s->scale_whole ? (float)scaled.scale : (float)scale;
    return scaled;
}

/* Operands: the indices, the updates, the table, where the scale is one of them the call's words, and, where shares tell, an
 * int64 for each. */
static void pop_slices_put(const void *work, const pop_tile *tile)
{
    const pop_slices_item *item = (const pop_slices_item *)work;
    const pop_slices *s = item->spec;
    pop_slices scaled;
    if (s->scale_word >= 0) {
        scaled = pop_slices_scaled(s, tile->operands[3]);
        s = &scaled;
    }
    pop_updating u = {s, (pop_slices_room *)(void *)tile->scratch, tile->operands[1], NULL, 0, 0,
                      s->tells ? (int64_t *)(void *)tile->operands[3 + (s->scale_word >= 0)] + item->share : NULL};
    const int64_t end = item->first + item->count;
    if (u.bad) *u.bad = 0;
    if (s->grouped) pop_update_grouped(&u, tile->operands[2], tile->operands[0], item->first, end);
    else pop_update_each(&u, tile->operands[2], tile->operands[0], item->first, end);
}
#endif
