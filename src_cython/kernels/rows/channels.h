/* What is made of numbers that lie side by side, one for each channel: float64, rounded once. Strips of channels are units. */
#ifndef POP_ROWS_CHANNELS_H
#define POP_ROWS_CHANNELS_H
#include "kernels/rows/walk.h"

#define POP_COLUMNS 256 /* of a strip */

typedef struct pop_channels { /* of a strip */
    const pop_rows *spec;
    const pop_tile *tile;
    int64_t first, width;
} pop_channels;

static char *pop_channels_place(const pop_channels *c, int k)
{
    const pop_rows_operand *o = c->spec->operands + k;
    return c->tile->operands[o->operand] + o->offset + c->first * o->kept[0];
}
/* Numbers of operand k, or `absent` where it is none. */
static void pop_channels_read(const pop_channels *c, int k, float absent, float *to)
{
    const pop_rows_operand *o = c->spec->operands + k;
    for (int64_t i = 0; i < c->width && o->operand < 0; i++) to[i] = absent;
    if (o->operand < 0) return;
    pop_rows_decode(o, pop_channels_place(c, k), o->kept[0], to, c->width, c->tile->scratch + c->spec->codes);
}

/* Sums of blocks of rows, two kinds of them, added in float64. */
POP_INLINE void pop_channels_block_sums(const pop_channels *c)
{
    const pop_rows *s = c->spec;
    double totals[POP_COLUMNS];
    float made[POP_COLUMNS];
    for (int k = 0; k < 2; k++) {
        const pop_rows_operand *to = s->operands + k + 2;
        const char *at = pop_channels_place(c, k);
        memset(totals, 0, sizeof totals);
        for (int64_t r = 0; r < s->n; r++, at += s->operands[k].reduced[0])
            for (int64_t i = 0; i < c->width; i++) totals[i] += (double)((const float *)(const void *)at)[i];
        for (int64_t i = 0; i < c->width; i++) made[i] = (float)totals[i];
        pop_rows_encode(to, made, pop_channels_place(c, k + 2), to->kept[0], c->width, c->tile->scratch + s->codes);
    }
}

/* Running means and variances, or 0 and 1, and a batch's; results: (1 - scale) running + scale batch, its variance times factor. What
 * is this program's own lies as FP32 numbers do. */
POP_INLINE void pop_channels_running(const pop_channels *c)
{
    const pop_rows *s = c->spec;
    float running[POP_COLUMNS];
    for (int k = 0; k < 2; k++) {
        const float *batch = (const float *)(const void *)pop_channels_place(c, k + 2);
        float *to = (float *)(void *)pop_channels_place(c, k + 4);
        const double times = k ? s->factor : 1.0;
        pop_channels_read(c, k, (float)k, running);
        for (int64_t i = 0; i < c->width; i++)
            to[i] = (float)((1.0 - s->scale) * (double)running[i] + s->scale * ((double)batch[i] * times));
    }
}

/* Means, variances, gammas or 1, betas or 0; results: what numbers are multiplied by, and what is added then. */
POP_INLINE void pop_channels_scales(const pop_channels *c)
{
    float mean[POP_COLUMNS], variance[POP_COLUMNS], gamma[POP_COLUMNS], beta[POP_COLUMNS];
    float *scale = (float *)(void *)pop_channels_place(c, 4), *shift = (float *)(void *)pop_channels_place(c, 5);
    pop_channels_read(c, 0, 0.0f, mean), pop_channels_read(c, 1, 1.0f, variance);
    pop_channels_read(c, 2, 1.0f, gamma), pop_channels_read(c, 3, 0.0f, beta);
    for (int64_t i = 0; i < c->width; i++) {
        const double by = (double)gamma[i] / sqrt((double)variance[i] + c->spec->epsilon);
        scale[i] = (float)by, shift[i] = (float)((double)beta[i] - (double)mean[i] * by);
    }
}

#define POP_CHANNELS_BODIES(X) X(block_sums) X(running) X(scales)
#define POP_CHANNELS_VERTEX(name)                                                                                      \
    static void pop_channels_of_##name(const void *work, const pop_tile *tile)                                         \
    {                                                                                                                  \
        const pop_rows_item *item = (const pop_rows_item *)work;                                                       \
        pop_channels c = {.spec = item->spec, .tile = tile};                                                           \
        for (int64_t strip = item->first; strip < item->first + item->count; strip++) {                                \
            c.first = strip * POP_COLUMNS;                                                                             \
            c.width = c.spec->kept[0] - c.first < POP_COLUMNS ? c.spec->kept[0] - c.first : POP_COLUMNS;               \
            pop_channels_##name(&c);                                                                                   \
        }                                                                                                              \
    }
#define POP_CHANNELS_ROW(name)                                                                                         \
    {#name, "float32", #name, POP_FUNCTION(pop_channels_of_##name), {1, 1, 1}, {1, POP_COLUMNS, 4 * POP_ROWS_CODES},   \
     POP_CONSISTENT},
#endif
