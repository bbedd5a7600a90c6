/* Histograms: how many numbers fall between ascending levels. A number's bin is the count of levels that are not above it; NaN
 * falls in the last. Counts are whole numbers, so that no order matters. */
#ifndef POP_REDUCE_HISTOGRAM_H
#define POP_REDUCE_HISTOGRAM_H
#include "kernels/reduce/walk.h"

#define POP_SIDES 16 /* searches side by side, whose steps do not wait for each other */

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

/* Operands: x, the counts, the levels in FP32; `outputs` is the number of bins. Counts of each share go to the workspace. */
static void pop_histogram_vertex(const void *work, const pop_tile *tile)
{
    const pop_reduce_item *item = (const pop_reduce_item *)work;
    const pop_reduce *s = item->spec;
    const float *levels = (const float *)(const void *)tile->operands[2];
    uint32_t *counts = (uint32_t *)(void *)tile->operands[3] + item->share * s->outputs;
    int64_t half = 1;
    pop_reduce_walk w;
    w.spec = s, w.tile = tile;
    while (2 * half <= s->outputs - 1) half *= 2;
    memset(counts, 0, (size_t)s->outputs * sizeof *counts);
    for (int64_t r = item->first, end = r + item->count, n; r < end; r += n) {
        n = pop_least(POP_GATHERED_ELEMENTS, end - r);
        const char *x = pop_reduce_read(&w, tile->operands[0], r, n, 0, s->run >= s->n);
        for (int64_t i = 0; i < n; i += POP_SIDES) {
            float some[POP_SIDES] = {0};
            uint32_t bins[POP_SIDES];
            const int64_t here = pop_least(POP_SIDES, n - i);
            memcpy(some, x + i * (int64_t)sizeof *some, (size_t)here * sizeof *some);
            if (s->magnitudes)
                for (int k = 0; k < POP_SIDES; k++) some[k] = __builtin_fabsf(some[k]);
            pop_histogram_bins(levels, s->outputs - 1, half, some, bins);
            for (int64_t k = 0; k < here; k++) counts[bins[k]]++;
        }
    }
}

/* The shares' counts to the result, uint32. */
static void pop_histogram_merge(const void *work, const pop_tile *tile)
{
    const pop_reduce_item *item = (const pop_reduce_item *)work;
    const pop_reduce *s = item->spec;
    const uint32_t *counts = (const uint32_t *)(const void *)tile->operands[3];
    uint32_t *out = (uint32_t *)(void *)tile->operands[1];
    for (int64_t i = 0; i < s->outputs; i++) {
        uint32_t sum = s->update ? out[i] : 0;
        for (int64_t share = 0; share < item->count; share++) sum += counts[share * s->outputs + i];
        out[i] = sum;
    }
}
#endif
