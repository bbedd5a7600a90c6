/* Norms of rows whose places are columns side by side: lanes are columns, and numbers are read where they lie. A column is a row's
 * segment. A unit is columns that are done together, whole rows of them, strip by strip. Sums have the order of sums.h and
 * norm.h, and so the same bits. */
#ifndef POP_ROWS_COLUMNS_H
#define POP_ROWS_COLUMNS_H
#include "kernels/rows/norm.h"

#define POP_STRIP 64 /* columns of a strip */
#define POP_STRIP_DEPTH 4 /* places of one lane that are added at a time */
#define POP_STRIP_AHEAD 16 /* places between a prefetch and its use */

#define POP_COLUMN_NUMBERS 5
#define POP_COLUMN_BYTES (POP_BACK_SUMS * sizeof(double) + POP_COLUMN_NUMBERS * sizeof(float))
#define POP_STRIP_LANES (POP_BACK_SUMS * POP_ROW_LANES * POP_STRIP * sizeof(float)) /* bytes */

enum { POP_STRIP_SUM, POP_STRIP_SQUARES, POP_STRIP_BACK };

/* Columns of one unit: what is read at `x` and `g` and written at `to`, bytes from place to place and from one outer segment to
 * the next; numbers for each column. */
typedef struct pop_strip {
    const pop_rows *spec;
    const pop_tile *tile;
    int64_t first, width, places, segments, x_step, g_step, to_step;
    const pop_rows_operand *of_x, *of_g;
    const char *x, *g;
    char *to;
    int64_t number; /* of the outer axes */
    double *sums[POP_BACK_SUMS];
    float *lanes[POP_BACK_SUMS]; /* POP_ROW_LANES times POP_STRIP sums each */
    float *mean, *inverse, *gamma, *beta, *share;
} pop_strip;

/* Where the columns begin that this unit has of an operand. */
static char *pop_strip_place(const pop_strip *t, const pop_rows_operand *o)
{
    const pop_rows *s = t->spec;
    const int last = s->kept_count - 1;
    char *place = t->tile->operands[o->operand] + o->offset + t->first * o->kept[last];
    for (int64_t d = last - 1, rest = t->number; d >= 0; rest /= s->kept[d], d--) place += rest % s->kept[d] * o->kept[d];
    return place;
}

/* One number for each column, or `absent`; and back. */
static void pop_strip_read(const pop_strip *t, int k, float absent, float *to)
{
    const pop_rows_operand *o = t->spec->operands + k;
    for (int64_t i = 0; i < t->width; i++) to[i] = absent;
    if (o->operand < 0) return;
    pop_rows_decode(o, pop_strip_place(t, o), o->kept[t->spec->kept_count - 1], to, t->width, t->tile->scratch + t->spec->codes);
}
static void pop_strip_write(const pop_strip *t, int k, const float *from)
{
    const pop_rows_operand *o = t->spec->operands + k;
    pop_rows_encode(o, from, pop_strip_place(t, o), o->kept[t->spec->kept_count - 1], t->width, t->tile->scratch + t->spec->codes);
}

/* Which columns those of a unit are. */
static void pop_strip_of(pop_strip *t, int64_t number)
{
    const pop_rows *s = t->spec;
    const int last = s->reduced_count - 1;
    const int64_t extent = s->kept[s->kept_count - 1], units = (extent + s->unit - 1) / s->unit;
    t->number = number / units, t->first = number % units * s->unit;
    t->width = extent - t->first < s->unit ? extent - t->first : s->unit;
    t->places = s->reduced[last], t->segments = last ? s->reduced[0] : 1;
}
static void pop_strip_begin(pop_strip *t, int x, int g, int gamma, int64_t number)
{
    const pop_rows *s = t->spec;
    const pop_rows_operand *o = s->operands;
    const int last = s->reduced_count - 1;
    const int64_t columns = s->unit + POP_STRIP;
    char *room = t->tile->scratch;
    pop_strip_of(t, number);
    t->of_x = o + x, t->of_g = o + g;
    t->x = pop_strip_place(t, o + x), t->g = pop_strip_place(t, o + g), t->to = o[3].operand < 0 ? NULL : pop_strip_place(t, o + 3);
    t->x_step = o[x].reduced[last], t->g_step = o[g].reduced[last], t->to_step = o[3].reduced[last];
    for (int k = 0; k < POP_BACK_SUMS; k++, room += columns * sizeof(double)) t->sums[k] = (double *)(void *)room;
    float **numbers[POP_COLUMN_NUMBERS] = {&t->mean, &t->inverse, &t->gamma, &t->beta, &t->share};
    memset(room, 0, POP_COLUMN_NUMBERS * columns * sizeof(float)); /* vectors of numbers go past the last column */
    for (int k = 0; k < POP_COLUMN_NUMBERS; k++, room += columns * sizeof(float)) *numbers[k] = (float *)(void *)room;
    room = t->tile->scratch + s->codes + 4 * POP_ROWS_CODES;
    for (int k = 0; k < POP_BACK_SUMS; k++, room += POP_STRIP_LANES / POP_BACK_SUMS) t->lanes[k] = (float *)(void *)room;
    pop_strip_read(t, gamma, 1.0f, t->gamma);
}

/* For vectors of a place's columns: `v` is which, `i` its first column, `part` how many there are. */
#define POP_STRIP_EACH(width, ...)                                                                   \
    POP_ROW_UNROLL for (int v = 0; v < POP_STRIP / POP_LANES; v++)                                   \
    {                                                                                                \
        const int i = v * POP_LANES, left = (int)(width)-i;                                          \
        if (left <= 0) break;                                                                        \
        const int part = left > POP_LANES ? POP_LANES : left;                                        \
        __VA_ARGS__                                                                                  \
    }

/* Columns that are summed at once: lanes of them stay in the first cache. */
#define POP_STRIP_WIDTH(what) ((what) == POP_STRIP_BACK ? POP_STRIP / 2 : POP_STRIP)
POP_INLINE void pop_strip_prefetch(const pop_format *f, uintptr_t at, int width, int written)
{
    for (int i = 0; i < width * pop_bytes(f); i += POP_CACHE_LINE) {
        if (written) pop_prefetch_l2_to_write(at + (uintptr_t)i);
        else pop_prefetch_l2(at + (uintptr_t)i);
    }
}

/* Numbers of a strip's columns. */
typedef struct pop_strip_numbers {
    pop_v_f v[POP_STRIP / POP_LANES];
} pop_strip_numbers;
POP_INLINE pop_strip_numbers pop_strip_load(const float *p)
{
    pop_strip_numbers made;
    POP_ROW_UNROLL for (int v = 0; v < POP_STRIP / POP_LANES; v++) made.v[v] = pop_row_load(p, v * POP_LANES, POP_LANES);
    return made;
}

/* Lanes joined by halves, those that there are, and added. */
POP_INLINE void pop_strip_joined(float *lanes, int64_t count, int width, double *totals)
{
    int half = 1;
    while (2 * half < count) half *= 2;
    for (; count > 1; count = half, half /= 2)
        for (int64_t i = 0; i < (count - half) * width; i += POP_LANES)
            pop_row_store(lanes, i, pop_row_load(lanes, i, POP_LANES) + pop_row_load(lanes + half * width, i, POP_LANES), POP_LANES);
    for (int i = 0; i < width; i++) totals[i] += (double)lanes[i];
}

/* One lane of a stretch: the sum of x; of the squares of what it is apart from the mean; or of these, of grad, and of the products
 * of both; of so many places, `apart` from one to the next. `begun`: there are sums. */
POP_INLINE void pop_strip_lane(const pop_strip *t, const pop_format *f, int what, int width, const char *x, const char *g,
                               const pop_strip_numbers *mean, int64_t depth, int begun, int64_t lane)
{
    const int kinds = what == POP_STRIP_BACK ? POP_BACK_SUMS : 1;
    POP_STRIP_EACH(width,
                   pop_v_f sums[POP_BACK_SUMS] = {{0}};
                   for (int k = 0; k < kinds && begun; k++) sums[k] = pop_row_load(t->lanes[k] + lane, i, POP_LANES);
                   for (int64_t p = 0; p < depth; p++) {
                       const pop_v_f own = pop_row_read(f, x + p * POP_ROW_LANES * t->x_step, i, part), d = own - mean->v[v];
                       if (what == POP_STRIP_SUM) {
                           sums[0] = sums[0] + own;
                           continue;
                       }
                       sums[POP_BACK_SQUARES] = pop_v_fma(d, d, sums[POP_BACK_SQUARES]);
                       if (what == POP_STRIP_SQUARES) continue;
                       const pop_v_f grad = pop_row_read(f, g + p * POP_ROW_LANES * t->g_step, i, part);
                       sums[POP_BACK_GRADS] = sums[POP_BACK_GRADS] + grad;
                       sums[POP_BACK_PRODUCTS] = pop_v_fma(grad, d, sums[POP_BACK_PRODUCTS]);
                   }
                   for (int k = 0; k < kinds; k++) pop_row_store(t->lanes[k] + lane, i, sums[k], POP_LANES););
}

/* Sums of columns of a line in one outer segment, to `own`. */
POP_INLINE void pop_strip_sums_in(const pop_strip *t, const pop_format *f, int what, int width, const char *x, const char *g,
                                  const float *mean, double own[POP_BACK_SUMS][POP_STRIP])
{
    const int kinds = what == POP_STRIP_BACK ? POP_BACK_SUMS : 1, wide = POP_STRIP_WIDTH(what);
    const char *soon = what == POP_STRIP_BACK ? g : x;
    const int64_t step = what == POP_STRIP_BACK ? t->g_step : t->x_step;
    const pop_strip_numbers means = pop_strip_load(mean);
    memset(own, 0, POP_BACK_SUMS * sizeof *own);
    for (int64_t begin = 0; begin < t->places; begin += POP_STRETCH) {
        const int64_t end = t->places - begin < POP_STRETCH ? t->places : begin + POP_STRETCH;
        const int64_t lanes = end - begin < POP_ROW_LANES ? end - begin : POP_ROW_LANES;
        for (int64_t r = begin, depth; r < end; r += depth * POP_ROW_LANES) {
            const int64_t here = end - r < POP_ROW_LANES ? end - r : POP_ROW_LANES;
            depth = (end - r) / POP_ROW_LANES;
            depth = depth > POP_STRIP_DEPTH ? POP_STRIP_DEPTH : depth ? depth : 1;
            for (int64_t l = 0; l < here; l++) {
                for (int64_t p = 0; p < depth && what != POP_STRIP_SQUARES; p++)
                    pop_strip_prefetch(f, pop_beyond(soon, (r + l + p * POP_ROW_LANES + POP_STRIP_AHEAD) * step), width, 0);
                const char *own_x = x + (r + l) * t->x_step, *own_g = g + (r + l) * t->g_step;
                if (depth < POP_STRIP_DEPTH)
                    pop_strip_lane(t, f, what, width, own_x, own_g, &means, depth, r > begin, l * wide);
                else if (r > begin) pop_strip_lane(t, f, what, width, own_x, own_g, &means, POP_STRIP_DEPTH, 1, l * wide);
                else pop_strip_lane(t, f, what, width, own_x, own_g, &means, POP_STRIP_DEPTH, 0, l * wide);
            }
        }
        for (int k = 0; k < kinds; k++) pop_strip_joined(t->lanes[k], lanes, wide, own[k]);
    }
}
#define POP_STRIP_SUMS_OF(suffix, format)                                                                              \
    POP_ROWS_SHARED void pop_strip_sums_##suffix(const pop_strip *t, int what, int width, const char *x, const char *g, \
                                                 const float *mean, double own[POP_BACK_SUMS][POP_STRIP])              \
    {                                                                                                                  \
        const int wide = POP_STRIP_WIDTH(what);                                                                        \
        if (width < wide) pop_strip_sums_in(t, &POP_##format, what, width, x, g, mean, own);                           \
        else if (what == POP_STRIP_SUM) pop_strip_sums_in(t, &POP_##format, POP_STRIP_SUM, POP_STRIP, x, g, mean, own);     \
        else if (what == POP_STRIP_SQUARES) pop_strip_sums_in(t, &POP_##format, POP_STRIP_SQUARES, POP_STRIP, x, g, mean, own); \
        else pop_strip_sums_in(t, &POP_##format, POP_STRIP_BACK, POP_STRIP / 2, x, g, mean, own);                               \
    }
POP_ROWS_FORMATS(POP_STRIP_SUMS_OF)

/* For strips of the unit's columns: `c` is a strip's first, `width` how many it has. */
#define POP_STRIPS(t, most, ...)                                                                     \
    for (int64_t c = 0; c < (t)->width; c += (most)) {                                               \
        const int width = (t)->width - c < (most) ? (int)((t)->width - c) : (most);                  \
        __VA_ARGS__                                                                                  \
    }

/* Sums of all columns of the unit. */
POP_INLINE void pop_strip_sums(pop_strip *t, const pop_format *f, int what)
{
    const int kinds = what == POP_STRIP_BACK ? POP_BACK_SUMS : 1;
    double own[POP_BACK_SUMS][POP_STRIP];
    for (int k = 0; k < kinds; k++) memset(t->sums[k], 0, (size_t)t->width * sizeof(double));
    POP_STRIPS(t, POP_STRIP_WIDTH(what),
                    for (int64_t p = 0; p < t->segments; p++) {
                        const char *x = t->x + c * pop_bytes(f) + p * t->of_x->reduced[0];
                        const char *g = t->g + c * pop_bytes(f) + p * t->of_g->reduced[0];
                        POP_ROWS_OF(pop_strip_sums, f)(t, what, width, x, g, t->mean + c, own);
                        for (int k = 0; k < kinds; k++)
                            for (int i = 0; i < width; i++) t->sums[k][c + i] += own[k][i];
                    })
}

/* What columns of the same statistics have together, by weights or not, takes the place of each one's. */
static void pop_strip_shared(const pop_strip *t, double *sums, const float *weights)
{
    const pop_rows *s = t->spec;
    const int64_t rows = t->width / s->sharing;
    for (int64_t j = 0; j < rows; j++) {
        const int64_t first = s->interval == 1 ? j * s->sharing : j;
        double total = 0.0;
        for (int64_t i = 0; i < s->sharing; i++) {
            const int64_t c = first + i * s->interval;
            total += (weights ? (double)weights[c] : 1.0) * sums[c];
        }
        for (int64_t i = 0; i < s->sharing; i++) sums[first + i * s->interval] = total;
    }
}

/* As norm.h has them. */
POP_INLINE void pop_strip_means(pop_strip *t, const pop_format *f)
{
    for (int64_t i = 0; i < t->width + POP_STRIP; i++) t->mean[i] = 0.0f, t->inverse[i] = 1.0f;
    if (t->spec->mode != POP_CENTRED) return;
    pop_strip_sums(t, f, POP_STRIP_SUM);
    pop_strip_shared(t, t->sums[0], NULL);
    const double share = pop_row_share(t->spec);
    for (int64_t i = 0; i < t->width; i++) t->mean[i] = (float)(t->sums[0][i] * share);
}
static void pop_strip_inverses(pop_strip *t)
{
    const double share = pop_row_share(t->spec);
    double *squares = t->sums[POP_BACK_SQUARES];
    pop_strip_shared(t, squares, NULL);
    for (int64_t i = 0; i < t->width; i++) {
        if (t->spec->raw) squares[i] = pop_row_squares_apart(t->spec, squares[i], t->mean[i]);
        t->inverse[i] = pop_row_inverse(t->spec, share, squares[i]);
    }
}
/* Squares of what numbers are apart from `less`. */
POP_INLINE void pop_strip_squares(pop_strip *t, const pop_format *f, float *less)
{
    float *const mean = t->mean;
    t->mean = less;
    pop_strip_sums(t, f, POP_STRIP_SQUARES);
    t->mean = mean;
}
static void pop_strip_told(pop_strip *t)
{
    const double share = pop_row_share(t->spec);
    for (int64_t i = 0; i < t->width; i++) t->share[i] = (float)(t->sums[POP_BACK_SQUARES][i] * share);
    pop_strip_write(t, 4, t->mean), pop_strip_write(t, 5, t->share);
}

/* Places of a strip whose first column is c, from the last to the first: those that were read last are still near. */
#define POP_STRIP_PLACES(t, f, c, width, ...)                                                        \
    for (int64_t p = (t)->segments - 1; p >= 0; p--)                                                 \
        for (int64_t r = (t)->places - 1; r >= 0; r--) {                                             \
            const char *x = (t)->x + (c)*pop_bytes(f) + p * (t)->of_x->reduced[0] + r * (t)->x_step; \
            const char *g = (t)->g + (c)*pop_bytes(f) + p * (t)->of_g->reduced[0] + r * (t)->g_step; \
            char *to = (t)->to + (c)*pop_bytes(f) + p * (t)->spec->operands[3].reduced[0] + r * (t)->to_step; \
            pop_strip_prefetch(f, pop_beyond(x, -POP_STRIP_AHEAD * (t)->x_step), width, 0);               \
            if ((t)->of_g != (t)->of_x) pop_strip_prefetch(f, pop_beyond(g, -POP_STRIP_AHEAD * (t)->g_step), width, 0); \
            pop_strip_prefetch(f, pop_beyond(to, -POP_STRIP_AHEAD * (t)->to_step), width, 1);             \
            POP_STRIP_EACH(width, __VA_ARGS__)                                                       \
        }
/* Whether a strip is whole is known to the loops over its places. */
#define POP_STRIP_WRITTEN(t, write)                                                                  \
    POP_STRIPS(t, POP_STRIP, if (width == POP_STRIP) write(t, f, c, POP_STRIP); else write(t, f, c, width);)

POP_INLINE void pop_strip_normed(const pop_strip *t, const pop_format *f, int64_t c, int width)
{
    const pop_strip_numbers less = pop_strip_load(t->mean + c), by = pop_strip_load(t->gamma + c), shift = pop_strip_load(t->beta + c);
    POP_STRIP_PLACES(t, f, c, width,
                     (void)g;
                     pop_row_write(f, to, i, pop_v_fma(pop_row_read(f, x, i, part) - less.v[v], by.v[v], shift.v[v]), part););
}

/* x, gamma, beta, result, mean, variance. */
POP_INLINE void pop_strip_norm(pop_strip *t, const pop_format *f, int64_t number)
{
    pop_strip_begin(t, 0, 0, 1, number);
    pop_strip_read(t, 2, -0.0f, t->beta);
    pop_strip_means(t, f);
    if (t->spec->mode != POP_NO_STATISTICS) pop_strip_squares(t, f, t->spec->raw ? t->share : t->mean), pop_strip_inverses(t);
    if (t->spec->operands[4].operand >= 0) pop_strip_told(t);
    if (!t->to) return;
    for (int64_t i = 0; i < t->width; i++) t->gamma[i] *= t->inverse[i];
    POP_STRIP_WRITTEN(t, pop_strip_normed)
}

/* Sums of grad times what x became, and of grad, of each column; or of its row, by way of `shared`, if there is any. */
static void pop_strip_parts(const pop_strip *t, int k, double *shared)
{
    if (t->spec->operands[k].operand < 0) return;
    for (int of_grad = 0; of_grad < 2; of_grad++) {
        const double *sums = t->sums[of_grad ? POP_BACK_GRADS : POP_BACK_PRODUCTS];
        if (shared) {
            memcpy(shared, sums, (size_t)t->width * sizeof(double));
            pop_strip_shared(t, shared, NULL);
            sums = shared;
        }
        for (int64_t i = 0; i < t->width; i++) t->share[i] = of_grad ? (float)sums[i] : pop_row_product(sums[i], t->inverse[i]);
        pop_strip_write(t, k + of_grad, t->share);
    }
}

/* What is made of the sums: results at 4 and 5 of columns, at 6 and 7 of rows, and what places are made with. */
static void pop_strip_back(pop_strip *t)
{
    const pop_rows *s = t->spec;
    double *grads = t->sums[POP_BACK_GRADS], *products = t->sums[POP_BACK_PRODUCTS];
    const double part = pop_row_share(s);
    pop_strip_inverses(t);
    pop_strip_parts(t, 4, NULL), pop_strip_parts(t, 6, t->sums[POP_BACK_SQUARES]);
    pop_strip_shared(t, grads, t->gamma), pop_strip_shared(t, products, t->gamma);
    for (int64_t i = 0; i < t->width; i++) {
        const double inverse = (double)t->inverse[i];
        t->share[i] = -(float)(products[i] * inverse * part * s->scale * inverse);
        t->beta[i] = s->mode == POP_CENTRED ? -(float)(grads[i] * part * inverse) : -0.0f;
        t->gamma[i] *= t->inverse[i];
    }
}

POP_INLINE void pop_strip_gradient(const pop_strip *t, const pop_format *f, int64_t c, int width)
{
    const pop_strip_numbers less = pop_strip_load(t->mean + c), by = pop_strip_load(t->inverse + c);
    const pop_strip_numbers share = pop_strip_load(t->share + c), mean = pop_strip_load(t->beta + c), scale = pop_strip_load(t->gamma + c);
    POP_STRIP_PLACES(t, f, c, width,
                     const pop_v_f y = (pop_row_read(f, x, i, part) - less.v[v]) * by.v[v];
                     const pop_v_f rest = pop_v_fma(y, share.v[v], mean.v[v]);
                     pop_row_write(f, to, i, pop_v_fma(pop_row_read(f, g, i, part), scale.v[v], rest), part););
}

/* grad, x, gamma, result, and at 4 and 5, or at 6 and 7, sums of grad times what x became, and of grad. */
POP_INLINE void pop_strip_norm_grad(pop_strip *t, const pop_format *f, int64_t number)
{
    pop_strip_begin(t, 1, 0, 2, number);
    pop_strip_means(t, f);
    pop_strip_sums(t, f, POP_STRIP_BACK);
    pop_strip_back(t);
    POP_STRIP_WRITTEN(t, pop_strip_gradient)
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
