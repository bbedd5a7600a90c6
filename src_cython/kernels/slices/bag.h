/* Bags: slices of the table that are added up, or of which the greatest elements are taken, in FP32 and in the order of their
 * indices; each bag is rounded once. */
#ifndef POP_SLICES_BAG_H
#define POP_SLICES_BAG_H
#include "formats/codec.h"
#include "kernels/slices/update.h"

/* Lookups that are resolved, of this bag and those behind it, so that rows are prefetched from one bag to the next. */
typedef struct pop_bag_ahead {
    pop_resolved r;
    int64_t first, end; /* the first of them, or -1 while there is none; where those of the share end */
    int64_t *bad;       /* where it is told that an index was bad, or NULL */
} pop_bag_ahead;

/* Slices of a bag: at so many of the known places, which are all good. */
typedef struct pop_bag_places {
    const int64_t *offset;
    int64_t slices, known, ahead;
    const float *weights; /* or NULL */
} pop_bag_places;

/* Slices `first` to `end`, added to what so many vectors hold: `count` columns of n, at `table` of the first row; where further rows
 * are prefetched, all of them. */
POP_INLINE void pop_bag_slices(const pop_format *f, int vectors, const pop_bag_places *p, const char *table, int64_t n, int64_t count,
                               int64_t first, int64_t end, int weighted, int prefetches, pop_v_f *held)
{
    const int64_t bytes = pop_bytes(f), ahead = p->ahead, *offset = p->offset;
    const int far = ahead != POP_SLICES_AHEAD_NEAR;
    for (int64_t i = first; i < end; i++) {
        const char *row = table + offset[i];
        if (prefetches) pop_prefetch_row(table + offset[i + ahead], bytes * n, ahead);
        if (prefetches && far) pop_begin_row(row, bytes * n);
        const pop_v_f weight = pop_v_splat(weighted ? p->weights[i] : 1.0f);
        for (int v = 0; v < vectors; v++) {
            const char *from = row + v * POP_LANES * bytes;
            const pop_v_f x = count < POP_LANES ? pop_v_decode_part(f, from, count) : pop_v_decode(f, from);
            held[v] += weighted ? weight * x : x;
        }
    }
}

/* A strip of `count` columns, which so many vectors hold, from column `at` of n on: sums stay in registers while all slices are
 * added. */
POP_INLINE void pop_bag_strip(const pop_format *f, int vectors, const pop_bag_places *p, const char *table, int64_t at, int64_t n,
                              int64_t count, float *sums)
{
    const int64_t last = pop_least(p->slices, p->known - p->ahead), prefetched = at || last < 0 ? 0 : last;
    pop_v_f held[64 / POP_LANES];
    for (int v = 0; v < vectors; v++)
        held[v] = count < POP_LANES ? pop_v_decode_part(&POP_F32, (const char *)sums, count) : pop_v_load_f(sums + v * POP_LANES);
    table += at * pop_bytes(f);
    if (p->weights) {
        pop_bag_slices(f, vectors, p, table, n, count, 0, prefetched, 1, 1, held);
        pop_bag_slices(f, vectors, p, table, n, count, prefetched, p->slices, 1, 0, held);
    } else {
        pop_bag_slices(f, vectors, p, table, n, count, 0, prefetched, 0, 1, held);
        pop_bag_slices(f, vectors, p, table, n, count, prefetched, p->slices, 0, 0, held);
    }
    for (int v = 0; v < vectors; v++) {
        if (count < POP_LANES) memcpy(sums, &held[v], (size_t)count * sizeof *sums);
        else pop_v_store_f(sums + v * POP_LANES, held[v]);
    }
}

/* Runs of n numbers of a format that lie one after another. */
POP_INLINE void pop_bag_add_of(const pop_format *f, const pop_bag_places *p, const char *table, int64_t n, float *sums)
{
    int64_t at = 0;
    if (n == 64) { /* a row of one strip: how many lines it has is known */
        pop_bag_strip(f, 64 / POP_LANES, p, table, 0, 64, 64, sums);
        return;
    }
    for (; at + 64 <= n; at += 64) pop_bag_strip(f, 64 / POP_LANES, p, table, at, n, 64, sums + at);
    for (; at + POP_LANES <= n; at += POP_LANES) pop_bag_strip(f, 1, p, table, at, n, POP_LANES, sums + at);
    if (at < n) pop_bag_strip(f, 1, p, table, at, n, n - at, sums + at);
}

/* The same of the table's format, if that is FP32, FP16 or BF16; else nothing is done. */
static int pop_bag_add(const pop_slices *s, const pop_bag_places *p, const char *table, int64_t n, float *sums)
{
    const pop_format *f = &s->read.from;
    if (!s->decode) pop_bag_add_of(&POP_F32, p, table, n, sums);
    else if (pop_is_f16(f)) pop_bag_add_of(&POP_F16, p, table, n, sums);
    else if (f->mantissa_bits == 7 && pop_is_short_f32(f)) pop_bag_add_of(&POP_BF16, p, table, n, sums);
    else return 0;
    return 1;
}

/* Slices `first` to `end` of a run of `here` elements, to sums. Returns how many there are. */
static int64_t pop_bag_run(const pop_slices *s, const pop_tile *tile, pop_bag_ahead *ahead, int64_t first, int64_t end, int64_t at,
                           int64_t here, float *restrict sums)
{
    const pop_slices_window *w = s->windows;
    pop_slices_room *room = (pop_slices_room *)(void *)tile->scratch;
    const float *weights = (const float *)(const void *)tile->operands[4];
    const int64_t next_rows = pop_slices_ahead(s);
    int64_t count = 0;
    for (int64_t lookup = first, slices; lookup < end; lookup += slices) {
        const int64_t until = pop_least(pop_least(end + next_rows, lookup + 2 * next_rows + 1), ahead->end);
        if (lookup < ahead->first || (until > ahead->first + ahead->r.n && lookup > ahead->first)) {
            pop_resolve(s, tile->operands[1], &ahead->r, lookup, ahead->end - lookup, 0);
            ahead->first = lookup;
            if (ahead->bad && !ahead->r.good) *ahead->bad = 1;
        }
        const int64_t *offset = ahead->r.offset + (lookup - ahead->first), known = ahead->first + ahead->r.n - lookup;
        slices = pop_least(known < ahead->end - lookup && known > 2 * next_rows ? known - next_rows : known, end - lookup);
        const pop_bag_places places = {offset, slices, known, next_rows, s->weighted ? weights + lookup : NULL};
        if (ahead->r.good && s->row && s->update == POP_UPDATE_ADD
            && pop_bag_add(s, &places, tile->operands[0] + at * w->table, here, sums)) {
            count += slices;
            continue;
        }
        for (int64_t i = 0; i < slices; i++) {
            const int64_t next = i + next_rows < known ? offset[i + next_rows] : POP_PLACE_ZERO;
            if (POP_IS_PLACE(next)) pop_prefetch_row(tile->operands[0] + next + at * w->table, here * s->table_bytes, next_rows);
            if (offset[i] == POP_PLACE_SKIPPED) continue;
            const float *y = (const float *)(const void *)room->more;
            if (POP_IS_PLACE(offset[i]))
                y = (const float *)(const void *)pop_slices_read(room, s->decode, &s->read, s->table_bytes,
                                                                 tile->operands[0] + offset[i] + at * w->table, w->table, here,
                                                                 room->more);
            else memset(room->more, 0, (size_t)here * sizeof *y);
            const pop_any_f32 *x = (const pop_any_f32 *)y;
            if (s->update == POP_UPDATE_MAX) {
                for (int64_t k = 0; k < here; k++) sums[k] = sums[k] > x[k] || sums[k] != sums[k] ? sums[k] : x[k];
            } else if (s->weighted) {
                const float weight = weights[lookup + i];
                for (int64_t k = 0; k < here; k++) sums[k] += weight * x[k];
            } else {
                for (int64_t k = 0; k < here; k++) sums[k] += x[k];
            }
            count++;
        }
    }
    return count;
}

/* Operands: the table, the indices, the ends of bags with a 0 before (int64), the result, weights (FP32), and, where shares
 * tell, an int64 for each. Slices and results are one run. */
static void pop_slices_bag(const void *work, const pop_tile *tile)
{
    const pop_slices_item *item = (const pop_slices_item *)work;
    const pop_slices *s = item->spec;
    const pop_slices_window *w = s->windows;
    pop_slices_room *room = (pop_slices_room *)(void *)tile->scratch;
    const int64_t *ends = (const int64_t *)(const void *)tile->operands[2];
    float *sums = (float *)(void *)room->sums;
    pop_bag_ahead ahead;
    ahead.first = -1, ahead.r.n = 0, ahead.end = pop_least(s->lookups, ends[item->first + item->count]);
    ahead.bad = s->tells ? (int64_t *)(void *)tile->operands[4 + (s->weighted != 0)] + item->share : NULL;
    if (ahead.bad) *ahead.bad = 0;
    for (int64_t bag = item->first; bag < item->first + item->count; bag++) {
        const int64_t begin = ends[bag], stop = ends[bag + 1];
        const int64_t first = begin < 0 ? 0 : begin, end = pop_least(ahead.end, stop);
        char *out = tile->operands[3] + bag * s->bag;
        for (int64_t at = 0, here; at < w->extent; at += here) {
            here = pop_least(POP_SLICES_CHUNK, w->extent - at);
            for (int64_t k = 0; k < here; k++) sums[k] = s->update == POP_UPDATE_MAX ? -INFINITY : 0.0f;
            const int64_t count = pop_bag_run(s, tile, &ahead, first, end, at, here, sums);
            if (count == 0) memset(sums, 0, (size_t)here * sizeof *sums);
            for (int64_t k = 0; s->mean && count && k < here; k++) sums[k] /= (float)count;
            if (s->encode) ((pop_encoder)s->encode)(&s->write, sums, room->codes, here, NULL);
            pop_copy_row(s->other_bytes, out + at * w->other, w->other, s->encode ? room->codes : room->sums, s->other_bytes, here);
        }
    }
}
#endif
