/* Softmax and its logarithm of rows whose places are columns side by side, their gradients, and cross-entropy: lanes are columns, a strip
 * of them at a time, of one stretch at most. Powers are kept until their sums are known. Numbers are read where they lie, or brought:
 * those of a strip of short rows, however they lie, as FP32 columns. The bits are those of softmax.h and losses.h. */
#ifndef POP_ROWS_POWER_COLUMNS_H
#define POP_ROWS_POWER_COLUMNS_H
#include "kernels/rows/columns.h"
#include "kernels/rows/losses.h"

#define POP_POWERS_ROOM (4 * POP_ROW_LANES * POP_STRIP) /* bytes: of lanes */

/* A strip's operands, bytes from place to place, and its room. */
typedef struct pop_power_strip {
    pop_strip of;
    char *at[3];
    int64_t step[3], places;
    float *kept, *lanes; /* POP_STRIP numbers of each place, and of each lane of a sum */
    int width, brought;
} pop_power_strip;

/* Between a strip's rows and their columns, of an operand that is brought: rows of the last axis, then those of its next place. */
static void pop_power_move(const pop_power_strip *p, const pop_rows_operand *o)
{
    const pop_rows *s = p->of.spec;
    const int last = s->kept_count - 1;
    char *codes = p->of.tile->scratch + s->codes, *place = p->of.tile->operands[o->operand] + o->offset;
    float *numbers = (float *)(void *)(p->of.tile->scratch + o->room);
    int64_t index[POP_ROWS_AXES], rest = p->of.first;
    for (int d = last; d >= 0; rest /= s->kept[d], d--) index[d] = rest % s->kept[d], place += index[d] * o->kept[d];
    for (int64_t i = 0, here; i < p->width; i += here) {
        const int64_t beside = s->kept[last] - index[last];
        here = p->width - i < beside ? p->width - i : beside;
        if (o->reduced[0] == o->code_bytes) pop_rows_turn(o, place, o->kept[last], here, s->n, numbers + i, POP_STRIP, codes);
        else pop_rows_runs(o, place, o->reduced[0], o->kept[last], s->n, here, numbers + i, POP_STRIP, codes);
        place += here * o->kept[last], index[last] += here;
        for (int d = last; d > 0 && index[d] == s->kept[d]; d--) {
            place += o->kept[d - 1] - s->kept[d] * o->kept[d];
            index[d] = 0, index[d - 1]++;
        }
    }
}

static pop_power_strip pop_power_strip_of(const pop_rows *s, const pop_tile *tile, int64_t number, int x, int y, int to)
{
    const int which[3] = {x, y, to};
    pop_power_strip p = {.of = {.spec = s, .tile = tile}, .brought = s->operands[x].direct != 1, .kept = (float *)(void *)tile->scratch,
                         .lanes = (float *)(void *)(tile->scratch + s->codes + 4 * POP_ROWS_CODES)};
    if (p.brought) {
        int64_t rows = 1;
        for (int d = 0; d < s->kept_count; d++) rows *= s->kept[d];
        p.of.first = number * POP_STRIP, p.of.places = s->n;
        p.of.width = rows - p.of.first < POP_STRIP ? rows - p.of.first : POP_STRIP;
    } else
        pop_strip_of(&p.of, number);
    p.places = p.of.places, p.width = (int)p.of.width;
    for (int k = 0; k < 3; k++) {
        const pop_rows_operand *o = s->operands + which[k];
        p.at[k] = p.brought ? tile->scratch + o->room : pop_strip_place(&p.of, o);
        p.step[k] = p.brought ? (int64_t)(POP_STRIP * sizeof(float)) : o->reduced[0];
        if (p.brought && !o->written && (!k || which[k] != x)) pop_power_move(&p, o);
    }
    return p;
}

/* From place r of an operand to what is prefetched meanwhile: some places on, or after the last of them in the next strip. */
POP_INLINE int64_t pop_power_soon(const pop_power_strip *p, const pop_format *f, int64_t r, int k)
{
    const int64_t ahead = p->places < POP_STRIP_AHEAD ? p->places : POP_STRIP_AHEAD;
    return r + ahead < p->places ? ahead * p->step[k] : (ahead - p->places) * p->step[k] + POP_STRIP * pop_bytes(f);
}
/* For places: what operands have there, x, y and to; what comes soon is prefetched. */
#define POP_POWER_PLACES(p, f, width, reads, writes, ...)                                                                    \
    for (int64_t r = 0; r < (p)->places; r++) {                                                                              \
        const char *x = (p)->at[0] + r * (p)->step[0], *y = (p)->at[1] + r * (p)->step[1];                                   \
        char *to = (p)->at[2] + r * (p)->step[2];                                                                            \
        if ((reads) > 0 && !(p)->brought) pop_strip_prefetch(f, pop_beyond(x, pop_power_soon(p, f, r, 0)), width, 0);        \
        if ((reads) > 1 && !(p)->brought) pop_strip_prefetch(f, pop_beyond(y, pop_power_soon(p, f, r, 1)), width, 0);        \
        if ((writes) && !(p)->brought) pop_strip_prefetch(f, pop_beyond(to, pop_power_soon(p, f, r, 2)), width, 1);          \
        (void)x, (void)y, (void)to;                                                                                          \
        __VA_ARGS__                                                                                                          \
    }
/* Results of a place, the expression in `v`, `i` and `part`. */
#define POP_POWER_PUT(f, width, ...)                                                                                         \
    do {                                                                                                                     \
        pop_v_f even[POP_LINES] = {{0}};                                                                                     \
        POP_STRIP_EACH(width,                                                                                                \
                       const int k = v, whole = (width) == POP_STRIP, halves = 0;                                            \
                       POP_ROW_PUT(f, to, (__VA_ARGS__));)                                                                   \
    } while (0)

/* A number is added to its place's lane. */
POP_INLINE void pop_power_add(const pop_power_strip *p, int64_t r, int i, pop_v_f x)
{
    float *lane = p->lanes + r % POP_ROW_LANES * POP_STRIP;
    pop_row_store(lane, i, (r < POP_ROW_LANES ? pop_v_splat(0.0f) : pop_row_load(lane, i, POP_LANES)) + x, POP_LANES);
}
static void pop_power_sums(const pop_power_strip *p, double *sums)
{
    memset(sums, 0, POP_STRIP * sizeof *sums);
    pop_strip_joined(p->lanes, p->places < POP_ROW_LANES ? p->places : POP_ROW_LANES, POP_STRIP, sums);
}

/* The greatest of each column, or 0 where that is minus infinity, and what powers are made with. */
typedef struct pop_column_powers {
    pop_strip_numbers top, by, less;
} pop_column_powers;
POP_INLINE void pop_column_tops(const pop_power_strip *p, const pop_format *f, const int width, pop_column_powers *c)
{
    const pop_v_f none = pop_v_splat(-INFINITY);
    POP_STRIP_EACH(POP_STRIP, (void)part; c->top.v[v] = none;)
    POP_POWER_PLACES(p, f, width, 1, 0, POP_STRIP_EACH(width, c->top.v[v] = pop_v_max_f(pop_row_read(f, x, i, part), c->top.v[v]);))
    POP_STRIP_EACH(POP_STRIP,
                   (void)part;
                   c->top.v[v] = pop_v_select_f(pop_v_eq_f(c->top.v[v], none), c->top.v[v], pop_v_splat(0.0f));
                   pop_rows_exponents(c->top.v[v], c->by.v + v, c->less.v + v);)
}
/* Sums of columns' powers, which are kept unless `apart`. */
POP_INLINE void pop_column_powers_in(const pop_power_strip *p, const pop_format *f, const int width, const pop_column_powers *c, const int apart,
                                     const int powers)
{
    POP_POWER_PLACES(p, f, width, 1, 0,
                     for (int v = 0; v < POP_STRIP / POP_LANES && v * POP_LANES < width; v += POP_AT_ONCE) {
                         const pop_power_numbers of = {c->top.v + v, c->by.v + v, c->less.v + v};
                         pop_v_f made[POP_AT_ONCE];
                         POP_EACH_AT_ONCE(POP_AT_ONCE) {
                             const int i = (v + k) * POP_LANES, left = width - i, part = left > POP_LANES ? POP_LANES : left;
                             made[k] = left > 0 ? pop_row_read(f, x, i, part) : pop_v_splat(0.0f);
                         }
                         pop_row_powers(made, POP_AT_ONCE, of, 1, powers, 0);
                         POP_EACH_AT_ONCE(POP_AT_ONCE) {
                             const int i = (v + k) * POP_LANES;
                             pop_power_add(p, r, i, made[k]);
                             if (!apart) pop_row_store(p->kept + r * POP_STRIP, i, made[k], POP_LANES);
                         }
                     })
}
#define POP_COLUMN_POWERS_OF(suffix, format)                                                                                 \
    POP_ROWS_SHARED void pop_column_powers_##suffix(const pop_power_strip *p, int apart, int brief, pop_column_powers *c, double *sums) \
    {                                                                                                                        \
        const pop_format *f = &POP_##format;                                                                                 \
        if (p->width == POP_STRIP) pop_column_tops(p, f, POP_STRIP, c);                                                      \
        else pop_column_tops(p, f, p->width, c);                                                                             \
        if (p->width == POP_STRIP && !apart && brief) pop_column_powers_in(p, f, POP_STRIP, c, 0, POP_POWERS_BRIEF);         \
        else if (p->width == POP_STRIP && !apart) pop_column_powers_in(p, f, POP_STRIP, c, 0, POP_POWERS);                   \
        else if (!apart && brief) pop_column_powers_in(p, f, p->width, c, 0, POP_POWERS_BRIEF);                              \
        else if (!apart) pop_column_powers_in(p, f, p->width, c, 0, POP_POWERS);                                             \
        else if (brief) pop_column_powers_in(p, f, p->width, c, 1, POP_POWERS_BRIEF_OF_ANY);                                 \
        else pop_column_powers_in(p, f, p->width, c, 1, POP_POWERS);                                                         \
        pop_power_sums(p, sums);                                                                                             \
    }
POP_ROWS_FORMATS(POP_COLUMN_POWERS_OF)

POP_INLINE void pop_column_scaled(const pop_power_strip *p, const pop_format *f, const int width, const float *by)
{
    const pop_strip_numbers times = pop_strip_load(by);
    POP_POWER_PLACES(p, f, width, 0, 1, POP_POWER_PUT(f, width, pop_row_load(p->kept + r * POP_STRIP, i, POP_LANES) * times.v[v]);)
}
/* x, mask, y. */
POP_INLINE void pop_power_softmax(const pop_rows *s, const pop_power_strip *p, const pop_format *f)
{
    pop_column_powers c;
    double sums[POP_STRIP];
    float by[POP_STRIP];
    POP_ROWS_OF(pop_column_powers, f)(p, 0, s->mode == POP_BRIEF, &c, sums);
    for (int i = 0; i < POP_STRIP; i++) by[i] = sums[i] == 0.0 ? 0.0f : (float)(s->factor / sums[i]);
    if (p->width == POP_STRIP) pop_column_scaled(p, f, POP_STRIP, by);
    else pop_column_scaled(p, f, p->width, by);
}

POP_INLINE void pop_column_less(const pop_power_strip *p, const pop_format *f, const int width, const pop_strip_numbers *top, const float *logs)
{
    const pop_strip_numbers log = pop_strip_load(logs);
    POP_POWER_PLACES(p, f, width, 1, 1, POP_POWER_PUT(f, width, pop_row_read(f, x, i, part) - top->v[v] - log.v[v]);)
}
POP_INLINE void pop_power_log_softmax(const pop_rows *s, const pop_power_strip *p, const pop_format *f)
{
    const double beyond = s->mode == POP_BRIEF ? POP_BRIEF_OF_ZERO - 1.0f : 0.0; /* that the greatest adds */
    pop_column_powers c;
    double sums[POP_STRIP];
    float logs[POP_STRIP];
    POP_ROWS_OF(pop_column_powers, f)(p, 1, s->mode == POP_BRIEF, &c, sums);
    for (int i = 0; i < POP_STRIP; i++) sums[i] = sums[i] == 0.0 ? 1.0 : sums[i] - beyond;
    for (int i = 0; i < POP_STRIP; i += POP_ROWS_MOST) pop_rows_logs(sums + i, POP_ROWS_MOST, logs + i);
    if (p->width == POP_STRIP) pop_column_less(p, f, POP_STRIP, &c.top, logs);
    else pop_column_less(p, f, p->width, &c.top, logs);
}

/* grad, y, result. */
POP_INLINE void pop_column_grad(const pop_rows *s, const pop_power_strip *p, const pop_format *f, const int width, const int logs)
{
    const pop_v_f by = pop_v_splat((float)s->scale);
    double sums[POP_STRIP];
    float all[POP_STRIP];
    POP_POWER_PLACES(p, f, width, logs ? 1 : 2, 0,
                     POP_STRIP_EACH(width,
                                    const pop_v_f g = pop_row_read(f, x, i, part);
                                    pop_power_add(p, r, i, logs ? g : g * pop_row_read(f, y, i, part));))
    pop_power_sums(p, sums);
    for (int i = 0; i < POP_STRIP; i++) all[i] = (float)sums[i];
    const pop_strip_numbers sum = pop_strip_load(all);
    if (logs)
        POP_POWER_PLACES(p, f, width, 2, 1,
                         POP_POWER_PUT(f, width, (pop_row_read(f, x, i, part) - pop_v_exp(pop_row_read(f, y, i, part)) * sum.v[v]) * by);)
    else
        POP_POWER_PLACES(p, f, width, 2, 1,
                         POP_POWER_PUT(f, width, (pop_row_read(f, x, i, part) - sum.v[v]) * pop_row_read(f, y, i, part) * by);)
}
POP_INLINE void pop_power_softmax_grad(const pop_rows *s, const pop_power_strip *p, const pop_format *f)
{
    if (p->width == POP_STRIP) pop_column_grad(s, p, f, POP_STRIP, 0);
    else pop_column_grad(s, p, f, p->width, 0);
}
POP_INLINE void pop_power_log_softmax_grad(const pop_rows *s, const pop_power_strip *p, const pop_format *f)
{
    if (p->width == POP_STRIP) pop_column_grad(s, p, f, POP_STRIP, 1);
    else pop_column_grad(s, p, f, p->width, 1);
}

/* Columns' labels, or -1 where one makes nothing; what x is there. */
static void pop_column_labels(const pop_power_strip *p, const pop_format *f, int64_t *label, float *x)
{
    const pop_rows *s = p->of.spec;
    const pop_rows_operand *o = s->operands + 1;
    const char *at = pop_strip_place(&p->of, o);
    for (int i = 0; i < p->width; i++, at += o->kept[s->kept_count - 1]) {
        label[i] = pop_rows_label(o, at);
        if (label[i] < 0 || label[i] >= s->n || (double)label[i] == s->epsilon) label[i] = -1;
        x[i] = label[i] < 0 ? 0.0f : pop_row_read(f, p->at[0] + label[i] * p->step[0] + i * pop_bytes(f), 0, 1)[0];
    }
}
POP_INLINE void pop_column_deltas(const pop_power_strip *p, const pop_format *f, const int width, const float *by, const int32_t *none)
{
    const pop_strip_numbers times = pop_strip_load(by);
    POP_POWER_PLACES(p, f, width, 0, 1,
                     POP_POWER_PUT(f, width, ({
                                       const pop_v_m is_none = pop_v_gt(pop_v_set(0), pop_v_load(none + i, 4));
                                       pop_v_select_f(is_none, pop_row_load(p->kept + r * POP_STRIP, i, POP_LANES) * times.v[v],
                                                      pop_v_splat(0.0f));
                                   }));)
}
/* Logits, label, none, gradient, loss. */
POP_INLINE void pop_power_cross_entropy(const pop_rows *s, const pop_power_strip *p, const pop_format *f)
{
    const pop_rows_operand *of_loss = s->operands + 4;
    pop_column_powers c;
    double sums[POP_STRIP];
    float logs[POP_STRIP], by[POP_STRIP] = {0}, x[POP_STRIP];
    int64_t label[POP_STRIP];
    int32_t none[POP_STRIP] = {0};
    char *loss = pop_strip_place(&p->of, of_loss);
    POP_ROWS_OF(pop_column_powers, f)(p, 0, s->mode == POP_BRIEF, &c, sums);
    for (int i = 0; i < POP_STRIP; i += POP_ROWS_MOST) pop_rows_logs(sums + i, POP_ROWS_MOST, logs + i);
    pop_column_labels(p, f, label, x);
    for (int i = 0; i < p->width; i++, loss += of_loss->kept[s->kept_count - 1]) {
        const double top = (double)c.top.v[i / POP_LANES][i % POP_LANES];
        const double log = (double)logs[i] - (s->mode == POP_BRIEF ? pop_row_factor((float)top) : 0.0);
        none[i] = label[i] < 0 ? -1 : 0;
        by[i] = (float)(s->scale / sums[i]);
        pop_row_write(f, loss, 0, pop_v_splat(none[i] ? 0.0f : (float)(log - ((double)x[i] - top))), 1);
    }
    if (p->width == POP_STRIP) pop_column_deltas(p, f, POP_STRIP, by, none);
    else pop_column_deltas(p, f, p->width, by, none);
    for (int i = 0; i < p->width; i++) {
        if (none[i]) continue;
        const float at_label = p->kept[label[i] * POP_STRIP + i] * by[i] - (float)s->scale;
        pop_row_write(f, p->at[2] + label[i] * p->step[2] + i * pop_bytes(f), 0, pop_v_splat(at_label), 1);
    }
}

/* Operands: two that are read, or the first twice, and what is written. */
#define POP_POWER_VERTEX(name, second, to, suffix, format)                                                                       \
    static void pop_rows_##name##_columns_##suffix(const void *work, const pop_tile *tile)                                   \
    {                                                                                                                        \
        const pop_rows_item *item = (const pop_rows_item *)work;                                                             \
        for (int64_t k = 0; k < item->count; k++) {                                                                          \
            const pop_power_strip p = pop_power_strip_of(item->spec, tile, item->first + k, 0, second, to);                  \
            pop_power_##name(item->spec, &p, &POP_##format);                                                                 \
            if (p.brought) pop_power_move(&p, item->spec->operands + (to));                                                  \
        }                                                                                                                    \
    }
#define POP_POWER_BODIES(suffix, format)                                                                                     \
    POP_POWER_VERTEX(softmax, 0, 2, suffix, format) POP_POWER_VERTEX(log_softmax, 0, 2, suffix, format)                      \
    POP_POWER_VERTEX(softmax_grad, 1, 2, suffix, format) POP_POWER_VERTEX(log_softmax_grad, 1, 2, suffix, format)            \
    POP_POWER_VERTEX(cross_entropy, 0, 3, suffix, format)
#endif
