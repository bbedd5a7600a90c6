/* Where regions are sampled: of each its head, and of each sample the elements before and after it with their weights.
 *
 * Coordinates are in double precision, weights are rounded to FP32 once. The samples of a region's rows are followed by those of its
 * columns. What is wrong ends the program, with a byte that is not zero. */
#ifndef POP_POOL_SAMPLES_H
#define POP_POOL_SAMPLES_H
#include "kernels/pool/regions.h"

/* A whole number, or -1 for what int64 does not hold. */
POP_INLINE int64_t pop_samples_index(const pop_samples *s, const char *index, int64_t i)
{
    const char *at = index + i * s->index_bytes;
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)s->index_bytes);
    if (s->index_bytes == 8) return (int64_t)bits;
    const uint64_t sign = (uint64_t)s->index_signed << (8 * s->index_bytes - 1);
    return (int64_t)((bits ^ sign) - sign);
}

/* The samples of one axis of a region, from a place among all on; how many a bin has, or -1 where there is no room. */
static int64_t pop_samples_axis(const pop_samples *s, int axis, double low, double high, int64_t next, int32_t *places,
                                float *weights)
{
    const double begin = low * s->scale - s->less, end = high * s->scale - s->less;
    const double span = end - begin > s->least ? end - begin : s->least, size = span / (double)s->bins[axis];
    if (!s->ratio && !(size <= (double)s->room)) return -1;
    const int64_t each = s->ratio ? s->ratio : (int64_t)ceil(size), count = each * s->bins[axis];
    const int64_t extent = s->extents[axis], last = extent > 0 ? extent - 1 : 0;
    if (count > s->room - next) return -1;
    places += 2 * next, weights += 2 * next;
    for (int64_t j = 0; j < count; j++, places += 2, weights += 2) {
        double at = begin + ((double)(j / each) + ((double)(j % each) + 0.5) / (double)each) * size;
        const double there = at <= (double)extent && (at >= -1.0 || !s->drops) ? 1.0 : 0.0;
        at = at < 0.0 ? 0.0 : at > (double)last ? (double)last : at;
        const double before = floor(at), part = at - before;
        places[0] = (int32_t)before, places[1] = (int32_t)(before < (double)last ? before + 1.0 : (double)last);
        weights[0] = (float)((1.0 - part) * there), weights[1] = (float)(part * there);
    }
    return each;
}

static void pop_pool_samples(const void *work, const pop_tile *tile)
{
    const pop_samples *s = ((const pop_samples_item *)work)->spec;
    const float *boxes = (const float *)(const void *)tile->operands[0];
    pop_region *heads = (pop_region *)(void *)tile->operands[2];
    int32_t *places = (int32_t *)(void *)tile->operands[3];
    float *weights = (float *)(void *)tile->operands[4];
    int64_t next = 0;
    for (int64_t i = 0; i < s->regions; i++, boxes += 4) {
        pop_region *r = heads + i;
        const int64_t sample = pop_samples_index(s, tile->operands[1], i);
        const int finite = isfinite(boxes[0]) && isfinite(boxes[1]) && isfinite(boxes[2]) && isfinite(boxes[3]);
        int64_t each[2] = {-1, -1}, first[2] = {0, 0};
        for (int axis = 0; axis < 2 && finite && sample >= 0 && sample < s->batch; axis++) {
            first[axis] = next;
            each[axis] = pop_samples_axis(s, axis, boxes[1 - axis], boxes[3 - axis], next, places, weights);
            if (each[axis] < 0) break;
            next += each[axis] * s->bins[axis];
        }
        if (each[1] < 0) {
            *tile->operands[5] = 1;
            return;
        }
        *r = (pop_region){.sample = sample, .first_row = first[0], .rows = each[0], .first_column = first[1], .columns = each[1]};
        if (next > first[1]) r->begin = places[2 * first[1]];
        for (int64_t j = 2 * first[1]; j < 2 * next; j += 2) {
            r->begin = pop_least(r->begin, places[j]);
            r->end = r->end > places[j + 1] + 1 ? r->end : places[j + 1] + 1;
        }
    }
}
#endif
