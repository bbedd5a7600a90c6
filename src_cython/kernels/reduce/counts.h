/* Counts: how many numbers fall between ascending levels, and how often each whole number is there. Counts are whole numbers, so
 * that no order matters; weights are added in float64 and in the order of the numbers.
 *
 * A number's place is found for many at a time; then counters are raised one after another. Neighbours' counters are in tables of
 * their own, since one that was just raised cannot be read before it is stored. */
#ifndef POP_REDUCE_COUNTS_H
#define POP_REDUCE_COUNTS_H
#include "kernels/reduce/walk.h"

#define POP_RECORDS "records/counts.def"
#include "records/structs.h"

#define POP_COUNT_TABLES 4
#define POP_COUNT_NEAR 4096     /* bins up to which there are so many tables */
#define POP_COUNT_ELEMENTS 1024 /* at a time */
#define POP_SIDES 16            /* searches side by side, whose steps do not wait for each other */

typedef struct pop_count_room {
    char numbers[8 * POP_COUNT_ELEMENTS], codes[8 * POP_COUNT_ELEMENTS];
    uint32_t places[POP_COUNT_ELEMENTS];
} pop_count_room;

/* n elements from `begin` on: where they lie, or in the arena, decoded or widened. */
static const char *pop_count_read(const pop_reduce *s, pop_count_room *room, const char *x, int64_t begin, int64_t n)
{
    int64_t index[POP_REDUCE_AXES];
    const char *codes = room->codes;
    if (s->run >= s->n) codes = x + pop_reduce_offset(s->reduced, s->reduced_count, begin, index);
    else pop_reduce_gather(s, x, begin, n, room->codes);
    if (!s->decode) return codes;
    ((pop_decoder)s->decode)(&s->read, codes, (float *)(void *)room->numbers, n);
    return room->numbers;
}

POP_INLINE int64_t pop_count_tables(const pop_counts *s) { return s->bins <= POP_COUNT_NEAR ? POP_COUNT_TABLES : 1; }

/* Raise the counters of n places, of tables of `size` counters. */
static void pop_count_places(uint32_t *restrict counters, int64_t tables, int64_t size, const uint32_t *restrict places, int64_t n)
{
    int64_t i = 0;
    if (tables == POP_COUNT_TABLES)
        for (; i + POP_COUNT_TABLES <= n; i += POP_COUNT_TABLES) {
            counters[places[i]]++;
            counters[places[i + 1] + size]++;
            counters[places[i + 2] + 2 * size]++;
            counters[places[i + 3] + 3 * size]++;
        }
    for (; i < n; i++) counters[places[i]]++;
}

/* All tables to the first. */
static void pop_count_fold(uint32_t *counters, int64_t tables, int64_t size)
{
    for (int64_t t = 1; t < tables; t++)
        for (int64_t i = 0; i < size; i++) counters[i] += counters[t * size + i];
}

/* Levels not above each of POP_SIDES numbers; `half` is the greatest power of two up to their count. */
POP_INLINE void pop_histogram_bins(const float *levels, int64_t count, int64_t half, const float *x, uint32_t *bins)
{
    uint32_t low[POP_SIDES] = {0};
    for (uint32_t step = (uint32_t)half; step; step /= 2)
        for (int k = 0; k < POP_SIDES; k++) {
            const uint32_t next = low[k] + step;
            const int fits = next <= count;
            low[k] = fits && !(x[k] < levels[fits ? next - 1 : 0]) ? next : low[k];
        }
    memcpy(bins, low, sizeof low);
}

/* Cells of equal width between the first level and the last, each with one level at the most. What a number's cell is never falls
 * as the number grows, whatever is rounded on the way, so that levels of other cells are above it or not by their cells alone. */
typedef struct pop_cells {
    float low, scale;
    int64_t count;
    float *level;    /* of a cell; infinity where it has none */
    uint32_t *first; /* levels of the cells before */
} pop_cells;

/* NaN is in the last. */
POP_INLINE float pop_cell_of(const pop_cells *c, float x)
{
    const float most = (float)(c->count - 1), at = (x - c->low) * c->scale, below = at < most ? at : most;
    return below > 0.0f ? below : 0.0f;
}

/* Whether each level has a cell of its own. */
static int pop_cells_begin(pop_cells *c, const float *levels, int64_t n)
{
    int64_t next = 0;
    c->low = levels[0], c->scale = (float)(c->count - 1) / (levels[n - 1] - levels[0]);
    if (!(c->scale > 0.0f && c->scale < INFINITY)) return 0;
    for (int64_t k = 0; k < c->count; k++) c->level[k] = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const int64_t cell = (int64_t)pop_cell_of(c, levels[i]);
        if (cell < next) return 0;
        for (; next <= cell; next++) c->first[next] = (uint32_t)i;
        c->level[cell] = levels[i];
    }
    for (; next < c->count; next++) c->first[next] = (uint32_t)n;
    return 1;
}

#define POP_CELL_COUNT(t)                                                                                             \
    {                                                                                                                 \
        const uint32_t k = places[i + t];                                                                             \
        counters[2 * (k + t * c->count) + !(x[i + t] < c->level[k])]++;                                               \
    }

/* Count n numbers in the halves of cells, below their level and from it on. */
static void pop_count_cells(const pop_cells *c, uint32_t *restrict counters, uint32_t *restrict places, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) places[i] = (uint32_t)(int32_t)pop_cell_of(c, x[i]);
    int64_t i = 0;
    for (; i + POP_COUNT_TABLES <= n; i += POP_COUNT_TABLES) {
        POP_CELL_COUNT(0)
        POP_CELL_COUNT(1)
        POP_CELL_COUNT(2)
        POP_CELL_COUNT(3)
    }
    for (; i < n; i++) POP_CELL_COUNT(0)
}

/* Operands: x, the counts, the levels in FP32; one fewer than bins. Counts of each share go to the workspace. */
static void pop_histogram_vertex(const void *work, const pop_tile *tile)
{
    const pop_counts_item *item = (const pop_counts_item *)work;
    const pop_counts *s = item->spec;
    pop_count_room *room = (pop_count_room *)(void *)tile->scratch;
    const float *levels = (const float *)(const void *)tile->operands[2];
    uint32_t *counts = (uint32_t *)(void *)tile->operands[s->workspace] + item->share * s->room, *halves = counts + s->bins;
    float *of_cells = (float *)(void *)(halves + 2 * POP_COUNT_TABLES * s->cells);
    pop_cells cells = {0, 0, s->cells, of_cells, (uint32_t *)(void *)(of_cells + s->cells)};
    const int by_cells = s->cells && item->count >= s->cells && pop_cells_begin(&cells, levels, s->bins - 1);
    const int64_t tables = by_cells ? 1 : pop_count_tables(s);
    int64_t half = 1;
    while (2 * half <= s->bins - 1) half *= 2;
    memset(counts, 0, (size_t)(tables * s->bins + (by_cells ? 2 * POP_COUNT_TABLES * s->cells : 0)) * sizeof *counts);
    for (int64_t r = item->first, end = r + item->count, n; r < end; r += n) {
        n = pop_least(POP_COUNT_ELEMENTS, end - r);
        const float *x = (const float *)(const void *)pop_count_read(&s->row, room, tile->operands[0], r, n);
        float *sizes = (float *)(void *)room->numbers;
        for (int64_t i = 0; s->magnitudes && i < n; i++) sizes[i] = __builtin_fabsf(x[i]);
        if (s->magnitudes) x = sizes;
        if (by_cells) {
            pop_count_cells(&cells, halves, room->places, x, n);
            continue;
        }
        for (int64_t i = 0; i < n; i += POP_SIDES) {
            float some[POP_SIDES] = {0};
            memcpy(some, x + i, (size_t)pop_least(POP_SIDES, n - i) * sizeof *some);
            pop_histogram_bins(levels, s->bins - 1, half, some, room->places + i);
        }
        pop_count_places(counts, tables, s->bins, room->places, n);
    }
    if (by_cells) pop_count_fold(halves, POP_COUNT_TABLES, 2 * cells.count);
    else pop_count_fold(counts, tables, s->bins);
    for (int64_t k = 0; by_cells && k < cells.count; k++) {
        counts[cells.first[k]] += halves[2 * k];
        counts[cells.first[k] + (cells.level[k] < INFINITY)] += halves[2 * k + 1];
    }
}

/* The end of an item's bins that the result has. */
POP_INLINE int64_t pop_count_end(const pop_counts_item *item, const pop_tile *tile)
{
    const int64_t end = item->first + item->count, bound = item->spec->bound;
    return bound < 0 ? end : pop_least(end, *(const int64_t *)(const void *)tile->operands[bound]);
}

/* The shares' counts to the result, for each bin of a range. */
static void pop_count_merge(const void *work, const pop_tile *tile)
{
    const pop_counts_item *item = (const pop_counts_item *)work;
    const pop_counts *s = item->spec;
    const uint32_t *counts = (const uint32_t *)(const void *)tile->operands[s->workspace];
    uint32_t *narrow = (uint32_t *)(void *)tile->operands[1];
    int64_t *wide = (int64_t *)(void *)tile->operands[1];
    for (int64_t i = item->first, end = pop_count_end(item, tile); i < end; i++) {
        int64_t sum = s->row.update ? narrow[i] : 0;
        for (int64_t share = 0; share < s->shares; share++) sum += counts[share * s->room + i];
        if (s->row.out_bytes == 8) wide[i] = sum;
        else narrow[i] = (uint32_t)sum;
    }
}

/* The greatest of whole numbers, or a negative number where one is, or is too great for an int64. Operands: x, an int64 for each
 * share. */
static void pop_greatest_vertex(const void *work, const pop_tile *tile)
{
    const pop_counts_item *item = (const pop_counts_item *)work;
    const pop_counts *s = item->spec;
    pop_count_room *room = (pop_count_room *)(void *)tile->scratch;
    int64_t all = 0, most = 0;
    for (int64_t r = item->first, end = r + item->count, n; r < end; r += n) {
        n = pop_least(POP_COUNT_ELEMENTS, end - r);
        const int64_t *x = (const int64_t *)(const void *)pop_count_read(&s->row, room, tile->operands[0], r, n);
        for (int64_t i = 0; i < n; i++) {
            all |= x[i];
            most = x[i] > most ? x[i] : most;
        }
    }
    ((int64_t *)(void *)tile->operands[1])[item->share] = all < 0 ? all : most;
}

/* Places of n whole numbers from `begin` on. Where one has become too great since it was looked at, it is taken for another. */
static void pop_whole_places(const pop_counts *s, pop_count_room *room, const char *x, int64_t begin, int64_t n)
{
    const int64_t *numbers = (const int64_t *)(const void *)pop_count_read(&s->row, room, x, begin, n);
    const uint32_t last = (uint32_t)s->bins - 1;
    for (int64_t i = 0; i < n; i++) room->places[i] = (uint32_t)numbers[i] < last ? (uint32_t)numbers[i] : last;
}

/* Operands: x, whole numbers below `bins`, the counts, how many of these; counts of each share go to the workspace. */
static void pop_bincount_vertex(const void *work, const pop_tile *tile)
{
    const pop_counts_item *item = (const pop_counts_item *)work;
    const pop_counts *s = item->spec;
    pop_count_room *room = (pop_count_room *)(void *)tile->scratch;
    uint32_t *counts = (uint32_t *)(void *)tile->operands[s->workspace] + item->share * s->room;
    const int64_t tables = pop_count_tables(s);
    memset(counts, 0, (size_t)(tables * s->bins) * sizeof *counts);
    for (int64_t r = item->first, end = r + item->count, n; r < end; r += n) {
        n = pop_least(POP_COUNT_ELEMENTS, end - r);
        pop_whole_places(s, room, tile->operands[0], r, n);
        pop_count_places(counts, tables, s->bins, room->places, n);
    }
    pop_count_fold(counts, tables, s->bins);
}

/* Sums of weights. Operands: x, the sums in FP32, how many of these, the weights one after another. A share owns bins, and goes through all
 * numbers for its own. */
#define POP_WEIGHTED_VERTEX(type)                                                                                     \
    static void pop_weighted_##type##_vertex(const void *work, const pop_tile *tile)                                  \
    {                                                                                                                 \
        const pop_counts_item *item = (const pop_counts_item *)work;                                                  \
        const pop_counts *s = item->spec;                                                                             \
        pop_count_room *room = (pop_count_room *)(void *)tile->scratch;                                               \
        double *sums = (double *)(void *)tile->operands[s->workspace] + item->first;                                  \
        float *out = (float *)(void *)tile->operands[1] + item->first;                                                \
        memset(sums, 0, (size_t)item->count * sizeof *sums);                                                          \
        for (int64_t r = 0, n; r < s->row.n; r += n) {                                                                \
            n = pop_least(POP_COUNT_ELEMENTS, s->row.n - r);                                                          \
            pop_whole_places(s, room, tile->operands[0], r, n);                                                       \
            const char *codes = tile->operands[3] + r * s->weight_bytes;                                              \
            if (s->decode_weights) ((pop_decoder)s->decode_weights)(&s->weights, codes, (float *)(void *)room->numbers, n); \
            const type *weights = (const type *)(const void *)(s->decode_weights ? room->numbers : codes);            \
            for (int64_t i = 0; i < n; i++) {                                                                         \
                const int64_t at = (int64_t)room->places[i] - item->first;                                            \
                if ((uint64_t)at < (uint64_t)item->count) sums[at] += (double)weights[i];                             \
            }                                                                                                         \
        }                                                                                                             \
        const int64_t end = pop_count_end(item, tile) - item->first;                                                  \
        for (int64_t i = 0; i < end; i++) out[i] = (float)sums[i];                                                    \
    }
POP_WEIGHTED_VERTEX(float)
POP_WEIGHTED_VERTEX(int64_t)
POP_WEIGHTED_VERTEX(uint64_t)
#endif
