/* B of a product whose columns are positions of a field that lie in line: neighbours meet the same elements with other taps. Lines
 * of elements are decoded once for all taps of the last dimension, and the kernel reads a tap's columns where they begin. */
#ifndef POP_NEIGHBOURS_H
#define POP_NEIGHBOURS_H
#include "drivers/taps.h"

enum { POP_NEIGHBOURS_RUNS = 16 }; /* of a call of the kernel */

typedef struct pop_neighbours {
    const pop_field *f;         /* each element that positions meet in its last dimension is a position there, of one tap */
    int64_t taps, apart, width; /* taps of that dimension, columns from one's to the next's, positions that there really are */
    int64_t pitch;              /* bytes from a decoded line to the next */
    const char *first;          /* what the first column meets with tap 0, in the first line that is decoded */
    int64_t x;                  /* that column's place in its row */
    int64_t inner, outer, within, tap, line; /* runs of the depth, and where the depth is that is multiplied first */
} pop_neighbours;

/* Elements of a row that none of its positions meets with the leftmost tap. */
POP_INLINE int64_t pop_neighbours_more(const pop_neighbours *w) { return w->f->dims[w->f->rank - 1].positions - w->width; }

/* The element that a position meets with the leftmost tap. */
POP_INLINE int64_t pop_neighbours_element(const pop_neighbours *w, int64_t position)
{
    return position + position / w->width * pop_neighbours_more(w);
}

/* Columns [position, position + cols) meet `n` elements of a line, of which those from the one returned on are decoded to `to`.
 * Runs are of channels, tap after tap, or of the taps of a line where it is one channel's. */
static int64_t pop_neighbours_open(pop_neighbours *w, int64_t position, int64_t cols, const char *to, int64_t *n)
{
    const int64_t from = pop_neighbours_element(w, position), single = w->f->channels == 1;
    *n = pop_neighbours_element(w, position + cols - 1) + pop_neighbours_more(w) + 1 - from;
    w->x = position % w->width;
    w->first = to + (w->apart < 0 ? 4 * (1 - w->taps) * w->apart : 0);
    w->inner = single ? w->taps : w->f->channels;
    w->outer = single ? 1 : w->taps;
    w->within = w->tap = w->line = 0;
    return from;
}

/* Number `depth` of those that are decoded is multiplied first. */
POP_INLINE void pop_neighbours_from(pop_neighbours *w, int64_t depth)
{
    w->within = depth % w->inner;
    w->tap = depth / w->inner % w->outer;
    w->line = depth / w->inner / w->outer * w->f->channels;
}

/* What the column after `cols` from here on meets, and its place in its row. */
POP_INLINE const char *pop_neighbours_on(const pop_neighbours *w, const char *b, int64_t cols, int64_t *x)
{
    *x += cols;
    if (*x < w->width) return b + 4 * cols;
    *x = 0;
    return b + 4 * (cols + pop_neighbours_more(w));
}

/* One call's sums: as many runs of one length at once as there are. */
static void pop_neighbours_multiply(const pop_neighbours *w, pop_dot_block *t, pop_taps_kernel multiply)
{
    const int64_t cells = t->cells, accumulate = t->accumulate, apart = 4 * w->apart;
    const char *a = t->a, *b = t->b;
    int64_t a_at[POP_NEIGHBOURS_RUNS], b_at[POP_NEIGHBOURS_RUNS], done = 0, runs, within = w->within, tap = w->tap, line = w->line;
    t->a_at = a_at + 1, t->b_at = b_at + 1;
    t->b_cell = w->outer == 1 ? apart : w->pitch;
    do {
        t->cells = pop_field_smaller(w->inner - within, cells - done);
        for (runs = 0; done < cells && runs < POP_NEIGHBOURS_RUNS; runs++) {
            const int64_t n = pop_field_smaller(w->inner - within, cells - done);
            if (n != t->cells) break;
            a_at[runs] = done * t->a_cell, b_at[runs] = line * w->pitch + within * t->b_cell + tap * apart;
            if (!runs) t->a = a + a_at[0], t->b = b + b_at[0];
            else a_at[runs] -= t->a - a, b_at[runs] -= t->b - b;
            done += n, within += n;
            if (within < w->inner) continue;
            within = 0;
            if (++tap == w->outer) tap = 0, line += w->f->channels;
        }
        t->more = runs ? runs - 1 : 0;
        multiply(t);
        t->accumulate = 1;
    } while (done < cells);
    t->a = a, t->b = b, t->cells = cells, t->accumulate = accumulate, t->more = 0;
}
#endif
