/* Norms of rows that lie side by side, whose places are columns one after another: lanes are rows, and numbers are read where
 * they lie, once for each pass. Sums have the order of sums.h, so that bits are those of norm.h. */
#ifndef POP_ROWS_COLUMNS_H
#define POP_ROWS_COLUMNS_H
#include "kernels/rows/norm.h"

#define POP_STRIP 64 /* rows of a unit */
#define POP_STRIP_DEPTH 2 /* places of one lane that are added at a time */
#define POP_STRIP_AHEAD 16 /* places that are asked for before they are read */

enum { POP_STRIP_SUM, POP_STRIP_SQUARES, POP_STRIP_BACK };

/* Rows of one unit: what is read at `x` and `g` and written at `to`, bytes from place to place. */
typedef struct pop_strip {
    const pop_rows *spec;
    const pop_tile *tile;
    int64_t number, width, x_step, g_step, to_step;
    const char *x, *g;
    char *to;
    float *lanes, *more; /* POP_ROW_LANES times POP_STRIP sums each */
    float mean[POP_STRIP], inverse[POP_STRIP], gamma[POP_STRIP];
} pop_strip;

/* Where the rows begin that this unit has of an operand. */
static char *pop_strip_place(const pop_strip *t, const pop_rows_operand *o)
{
    const pop_rows *s = t->spec;
    const int last = s->kept_count - 1;
    const int64_t strips = (s->kept[last] + POP_STRIP - 1) / POP_STRIP;
    char *place = t->tile->operands[o->operand] + o->offset + t->number % strips * POP_STRIP * o->kept[last];
    for (int64_t d = last - 1, rest = t->number / strips; d >= 0; rest /= s->kept[d], d--) place += rest % s->kept[d] * o->kept[d];
    return place;
}

/* One number for each row, or `absent`; and back. */
static void pop_strip_read(const pop_strip *t, int k, float absent, float *to)
{
    const pop_rows_operand *o = t->spec->operands + k;
    for (int64_t i = 0; i < POP_STRIP; i++) to[i] = absent;
    if (o->operand < 0) return;
    pop_rows_decode(o, pop_strip_place(t, o), o->kept[t->spec->kept_count - 1], to, t->width, t->tile->scratch + t->spec->codes);
}
static void pop_strip_write(const pop_strip *t, int k, const double *from)
{
    const pop_rows_operand *o = t->spec->operands + k;
    float numbers[POP_STRIP];
    if (o->operand < 0) return;
    for (int64_t i = 0; i < t->width; i++) numbers[i] = (float)from[i];
    pop_rows_encode(o, numbers, pop_strip_place(t, o), o->kept[t->spec->kept_count - 1], t->width, t->tile->scratch + t->spec->codes);
}

static void pop_strip_begin(pop_strip *t, int x, int g, int gamma, int64_t number)
{
    const pop_rows *s = t->spec;
    const pop_rows_operand *o = s->operands;
    const int64_t extent = s->kept[s->kept_count - 1], strips = (extent + POP_STRIP - 1) / POP_STRIP;
    const int64_t left = extent - number % strips * POP_STRIP;
    t->number = number, t->width = left < POP_STRIP ? left : POP_STRIP;
    t->x = pop_strip_place(t, o + x), t->g = pop_strip_place(t, o + g), t->to = pop_strip_place(t, o + 3);
    t->x_step = o[x].reduced[0], t->g_step = o[g].reduced[0], t->to_step = o[3].reduced[0];
    t->lanes = (float *)(void *)(t->tile->scratch + s->room), t->more = t->lanes + POP_ROW_LANES * POP_STRIP;
    pop_strip_read(t, gamma, 1.0f, t->gamma);
}

/* For vectors of a place's rows: `v` is which, `i` its first row, `part` how many there are. */
#define POP_STRIP_EACH(full, ...)                                                                    \
    POP_ROW_UNROLL for (int v = 0; v < POP_STRIP / POP_LANES; v++)                                   \
    {                                                                                                \
        const int i = v * POP_LANES, left = (int)t->width - i;                                       \
        if (!(full) && left <= 0) break;                                                             \
        const int part = (full) || left > POP_LANES ? POP_LANES : left;                              \
        __VA_ARGS__                                                                                  \
    }
POP_INLINE void pop_strip_ask(const pop_format *f, const char *at, int written)
{
    for (int i = 0; i < POP_STRIP * pop_bytes(f); i += POP_CACHE_LINE) {
        if (written) __builtin_prefetch(at + i, 1, 2);
        else __builtin_prefetch(at + i, 0, 2);
    }
}

/* Lanes joined by halves, and added to what stretches before gave. */
static void pop_strip_joined(float *lanes, double *totals)
{
    for (int half = POP_ROW_LANES / 2; half; half /= 2)
        for (int i = 0; i < half * POP_STRIP; i++) lanes[i] += lanes[half * POP_STRIP + i];
    for (int i = 0; i < POP_STRIP; i++) totals[i] += (double)lanes[i];
}

/* Of each row: the sum of x; of the squares of what it is apart from the mean; or of grad, and of that times what x became. */
POP_INLINE void pop_strip_sums_in(const pop_strip *t, const pop_format *f, int what, int full, double *totals, double *products)
{
    pop_v_f mean[POP_STRIP / POP_LANES], inverse[POP_STRIP / POP_LANES];
    const int64_t n = t->spec->n, ahead = POP_STRIP_AHEAD;
    POP_STRIP_EACH(1, mean[v] = pop_row_load(t->mean, i, part), inverse[v] = pop_row_load(t->inverse, i, part););
    for (int i = 0; i < POP_STRIP; i++) totals[i] = products[i] = 0.0;
    for (int64_t begin = 0; begin < n; begin += POP_STRETCH) {
        const int64_t end = n - begin < POP_STRETCH ? n : begin + POP_STRETCH;
        memset(t->lanes, 0, (1 + (what == POP_STRIP_BACK)) * POP_ROW_LANES * POP_STRIP * sizeof *t->lanes);
        for (int64_t r = begin, depth; r < end; r += depth * POP_ROW_LANES) {
            const int64_t lanes = end - r < POP_ROW_LANES ? end - r : POP_ROW_LANES;
            depth = end - r < POP_STRIP_DEPTH * POP_ROW_LANES ? 1 : POP_STRIP_DEPTH;
            for (int64_t l = 0; l < lanes; l++) {
                const char *x = t->x + (r + l) * t->x_step, *g = t->g + (r + l) * t->g_step;
                float *a = t->lanes + l * POP_STRIP, *b = a + POP_ROW_LANES * POP_STRIP;
                for (int64_t k = 0; k < depth; k++) {
                    pop_strip_ask(f, x + (k * POP_ROW_LANES + ahead) * t->x_step, 0);
                    if (what == POP_STRIP_BACK) pop_strip_ask(f, g + (k * POP_ROW_LANES + ahead) * t->g_step, 0);
                }
                POP_STRIP_EACH(full,
                               pop_v_f total = pop_row_load(a, i, POP_LANES), product = total;
                               if (what == POP_STRIP_BACK) product = pop_row_load(b, i, POP_LANES);
                               for (int64_t k = 0; k < depth; k++) {
                                   const pop_v_f own = pop_row_read(f, x + k * POP_ROW_LANES * t->x_step, i, part), d = own - mean[v];
                                   pop_v_f more = what == POP_STRIP_SUM ? own : d * d;
                                   if (what == POP_STRIP_BACK) {
                                       more = pop_row_read(f, g + k * POP_ROW_LANES * t->g_step, i, part);
                                       product = product + more * (d * inverse[v]);
                                   }
                                   total = total + more;
                               } pop_row_store(a, i, total, POP_LANES);
                               if (what == POP_STRIP_BACK) pop_row_store(b, i, product, POP_LANES);)
            }
        }
        pop_strip_joined(t->lanes, totals);
        if (what == POP_STRIP_BACK) pop_strip_joined(t->more, products);
    }
}
#define POP_STRIP_SUMS_OF(suffix, format)                                                                              \
    POP_ROWS_SHARED void pop_strip_sums_##suffix(const pop_strip *t, int what, double *totals, double *products)       \
    {                                                                                                                  \
        const int full = t->width == POP_STRIP;                                                                        \
        if (what == POP_STRIP_SUM && full) pop_strip_sums_in(t, &POP_##format, POP_STRIP_SUM, 1, totals, products);    \
        else if (what == POP_STRIP_SUM) pop_strip_sums_in(t, &POP_##format, POP_STRIP_SUM, 0, totals, products);       \
        else if (what == POP_STRIP_SQUARES && full) pop_strip_sums_in(t, &POP_##format, POP_STRIP_SQUARES, 1, totals, products); \
        else if (what == POP_STRIP_SQUARES) pop_strip_sums_in(t, &POP_##format, POP_STRIP_SQUARES, 0, totals, products); \
        else if (full) pop_strip_sums_in(t, &POP_##format, POP_STRIP_BACK, 1, totals, products);                       \
        else pop_strip_sums_in(t, &POP_##format, POP_STRIP_BACK, 0, totals, products);                                 \
    }
POP_ROWS_FORMATS(POP_STRIP_SUMS_OF)

/* As pop_rows_moments_in has them. */
POP_INLINE void pop_strip_moments(pop_strip *t, const pop_format *f)
{
    const pop_rows *s = t->spec;
    const double count = (double)(s->n ? s->n : 1);
    double sums[POP_STRIP] = {0.0}, none[POP_STRIP];
    for (int i = 0; i < POP_STRIP; i++) t->mean[i] = 0.0f, t->inverse[i] = 1.0f;
    if (s->centred == POP_NO_STATISTICS) return;
    if (s->centred) POP_ROWS_OF(pop_strip_sums, f)(t, POP_STRIP_SUM, sums, none);
    for (int64_t i = 0; i < t->width; i++) t->mean[i] = (float)(sums[i] / count);
    POP_ROWS_OF(pop_strip_sums, f)(t, POP_STRIP_SQUARES, sums, none);
    for (int64_t i = 0; i < t->width; i++) t->inverse[i] = (float)(1.0 / sqrt((sums[i] / count + s->epsilon) * s->factor));
}

/* Places are written from the last to the first: those that were read last are still near. */
#define POP_STRIP_PLACES(t, ...)                                                                     \
    for (int64_t r = (t)->spec->n - 1; r >= 0; r--) {                                                \
        const char *x = (t)->x + r * (t)->x_step, *g = (t)->g + r * (t)->g_step;                     \
        char *to = (t)->to + r * (t)->to_step;                                                       \
        pop_strip_ask(f, x - POP_STRIP_AHEAD * (t)->x_step, 0);                                      \
        if (g != x) pop_strip_ask(f, g - POP_STRIP_AHEAD * (t)->g_step, 0);                          \
        pop_strip_ask(f, to - POP_STRIP_AHEAD * (t)->to_step, 1);                                    \
        POP_STRIP_EACH(0, __VA_ARGS__)                                                               \
    }

/* x, gamma, beta, result. */
POP_INLINE void pop_strip_norm(pop_strip *t, const pop_format *f, int64_t number)
{
    float beta[POP_STRIP];
    pop_strip_begin(t, 0, 0, 1, number);
    pop_strip_read(t, 2, -0.0f, beta);
    pop_strip_moments(t, f);
    POP_STRIP_PLACES(t,
                     const pop_v_f apart = pop_row_read(f, x, i, part) - pop_row_load(t->mean, i, POP_LANES);
                     const pop_v_f y = apart * pop_row_load(t->inverse, i, POP_LANES) * pop_row_load(t->gamma, i, POP_LANES);
                     pop_row_write(f, to, i, y + pop_row_load(beta, i, POP_LANES), part););
}

/* grad, x, gamma, result, and at 4 and 5, or at 6 and 7, sums of grad times what x became, and of grad. */
POP_INLINE void pop_strip_norm_grad(pop_strip *t, const pop_format *f, int64_t number)
{
    const pop_rows *s = t->spec;
    const double count = (double)(s->n ? s->n : 1);
    double totals[POP_STRIP], products[POP_STRIP];
    float mean[POP_STRIP] = {0.0f}, share[POP_STRIP] = {0.0f};
    pop_strip_begin(t, 1, 0, 2, number);
    pop_strip_moments(t, f);
    POP_ROWS_OF(pop_strip_sums, f)(t, POP_STRIP_BACK, totals, products);
    for (int k = 4; k < 8; k += 2) pop_strip_write(t, k, products), pop_strip_write(t, k + 1, totals);
    for (int64_t i = 0; i < t->width; i++) {
        mean[i] = s->centred ? (float)((double)t->gamma[i] * totals[i] / count) : 0.0f;
        share[i] = (float)((double)t->gamma[i] * products[i] / count * s->scale);
    }
    POP_STRIP_PLACES(t,
                     const pop_v_f by = pop_row_load(t->inverse, i, POP_LANES);
                     const pop_v_f y = (pop_row_read(f, x, i, part) - pop_row_load(t->mean, i, POP_LANES)) * by;
                     const pop_v_f d = pop_row_read(f, g, i, part) * pop_row_load(t->gamma, i, POP_LANES);
                     const pop_v_f less = y * pop_row_load(share, i, POP_LANES);
                     pop_row_write(f, to, i, ((d - pop_row_load(mean, i, POP_LANES)) - less) * by, part););
}

#define POP_STRIP_VERTEX(name, suffix, format)                                                                         \
    static void pop_rows_##name##_columns_##suffix(const void *work, const pop_tile *tile)                             \
    {                                                                                                                  \
        const pop_rows_item *item = (const pop_rows_item *)work;                                                       \
        pop_strip t = {.spec = item->spec, .tile = tile};                                                              \
        for (int64_t k = 0; k < item->count; k++) pop_strip_##name(&t, &POP_##format, item->first + k);                \
    }
#define POP_STRIP_BODIES(suffix, format) \
    POP_STRIP_VERTEX(norm, suffix, format) POP_STRIP_VERTEX(norm_grad, suffix, format)
#endif
