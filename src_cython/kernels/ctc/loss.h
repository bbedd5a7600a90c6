/* Minus the logarithm of the probability of each sequence's labels, and its gradient.
 *
 * Labels l[0] ... l[L - 1] have a blank before each and after the last, b[0] ... b[L]: lane i of one vector is blank i, of
 * another label i, so that neighbours are shifts by a lane. With p of a step,
 *     b'[i] = (b[i] + l[i - 1]) p[blank]      l'[i] = (l[i] + b[i] + l[i - 1] where the labels differ) p[l[i]]
 * from b[0] = 1 before the first step. Going back, what may still follow a state is
 *     b[i] = B[i] + L[i]                      l[i] = L[i] + B[i + 1] + L[i + 1] where the labels differ
 * with B and L those of the next step times its p. A state's posterior is the product of both over the whole.
 * States beyond the last are nothing and stay so: padding's labels have no probability. */
#ifndef POP_CTC_LOSS_H
#define POP_CTC_LOSS_H
#include "kernels/ctc/rows.h"

/* What states of a step are in, as many floats and words as there are lanes. */
typedef struct ctc_states { float *bm, *lm; int32_t *be, *le; } ctc_states;

typedef struct ctc_sequence {
    int64_t labels, steps;
    int64_t lanes;         /* of states: whole steps */
    const int32_t *place;  /* of each label's class in a row */
    const int32_t *skip;   /* 0 where label i may follow label i - 1 at once, else POP_NOTHING */
    float *row, *powers;   /* of a step: logarithms, exponentials */
    float *blanks, *parts; /* posteriors of a step's states */
    float *logs, *states;
} ctc_sequence;

POP_INLINE ctc_states states_at(const ctc_sequence *s, int64_t index)
{
    float *p = s->states + index * 4 * s->lanes;
    return (ctc_states){p, p + s->lanes, (int32_t *)(void *)(p + 2 * s->lanes), (int32_t *)(void *)(p + 3 * s->lanes)};
}

/* Nothing but blank b, and label l where that is not negative. */
static void start_states(const ctc_sequence *s, ctc_states x, int64_t b, int64_t l)
{
    for (int64_t i = 0; i < s->lanes; i++) {
        x.bm[i] = x.lm[i] = 1.0f;
        x.be[i] = x.le[i] = POP_NOTHING;
    }
    x.be[b] = 0;
    if (l >= 0) x.le[l] = 0;
}

POP_INLINE float *logs_at(const ctc_sequence *s, int64_t index) { return s->logs + index * (s->lanes + POP_STEP); }

/* The logarithms of the labels' probabilities, then that of the blank, and what the row is scaled by. */
POP_INLINE void gather_logs(const ctc_sequence *s, int64_t blank, row_scale scale, float *logs)
{
    for (int64_t i = 0; i < s->lanes; i++) logs[i] = s->row[s->place[i]];
    logs[s->lanes] = s->row[blank];
    memcpy(logs + s->lanes + 1, &scale, sizeof scale);
}

/* The states after a step from those before it; whether a logarithm is of no probability, NaN too. */
static int step_on(const ctc_sequence *s, const float *logs, ctc_states x, ctc_states y)
{
    const pop_v_f most = pop_v_splat(POP_MOST_LOG), blank = pop_v_splat(logs[s->lanes]);
    const pop_wide of_blank = wide_exp(blank);
    pop_v_m right = pop_v_lt_f(blank, most);
    pop_wide last = wide_nothing();
    for (int64_t i = 0; i < s->lanes; i += POP_LANES) {
        const pop_wide b = wide_at(x.bm + i, x.be + i), l = wide_at(x.lm + i, x.le + i);
        pop_wide before = wide_later(last, l);
        const pop_v_f log = pop_v_load_f(logs + i);
        right = (pop_v_m)(right & pop_v_lt_f(log, most));
        put_wide(y.bm + i, y.be + i, wide_product(wide_sum(b, before), of_blank));
        before.e += words_at(s->skip + i);
        put_wide(y.lm + i, y.le + i, wide_product(wide_sum3(l, b, before), wide_exp(log)));
        last = l;
    }
    return pop_v_any((pop_v_m)~right);
}

/* x: what may follow; it becomes that of the step before. The posteriors, times weight / whole, go to blanks and parts. */
static void step_back(const ctc_sequence *s, const float *logs, ctc_states a, ctc_states x, float share, int whole)
{
    const pop_wide of_blank = wide_exp(pop_v_splat(logs[s->lanes]));
    const pop_v_f each = pop_v_splat(share);
    for (int64_t i = 0; i < s->lanes; i += POP_LANES) {
        const pop_wide b = wide_at(x.bm + i, x.be + i), l = wide_at(x.lm + i, x.le + i);
        const pop_wide of_label = wide_exp(pop_v_load_f(logs + i));
        const pop_wide ab = wide_at(a.bm + i, a.be + i), al = wide_at(a.lm + i, a.le + i);
        pop_v_store_f(s->blanks + i, ab.m * b.m * power_of(ab.e + b.e - whole) * each);
        pop_v_store_f(s->parts + i, al.m * l.m * power_of(al.e + l.e - whole) * each);
        put_wide(x.bm + i, x.be + i, wide_product(b, of_blank));
        put_wide(x.lm + i, x.le + i, wide_product(l, of_label));
    }
    pop_wide b = wide_at(x.bm, x.be), l = wide_at(x.lm, x.le);
    for (int64_t i = 0; i < s->lanes; i += POP_LANES) {
        const int64_t next = i + POP_LANES;
        const int ends = next == s->lanes;
        const pop_wide blanks = ends ? wide_nothing() : wide_at(x.bm + next, x.be + next);
        const pop_wide labels = ends ? wide_nothing() : wide_at(x.lm + next, x.le + next);
        pop_wide after = wide_sooner(l, labels);
        after.e += words_at(s->skip + i + 1);
        put_wide(x.bm + i, x.be + i, wide_sum(b, l));
        put_wide(x.lm + i, x.le + i, wide_sum3(l, wide_sooner(b, blanks), after));
        b = blanks, l = labels;
    }
}

/* The softmax of a step, times weight, to `powers`, whose row was taken before. */
POP_INLINE void take_softmax(const pop_ctc_item *item, const ctc_sequence *s, const char *p, const float *logs, float weight)
{
    row_scale scale;
    memcpy(&scale, logs + s->lanes + 1, sizeof scale);
    const pop_v_f each = pop_v_splat(weight / scale.sum);
    read_row(item->format, p, s->row, item->classes);
    for (int64_t i = 0; i < item->classes; i += POP_LANES)
        pop_v_store_f(s->powers + i, pop_v_exp(pop_v_load_f(s->row + i) - scale.top) * each);
}

/* The gradient of a sequence, whose logarithms and states of each step are kept. */
static void gradient_of(const pop_ctc_item *item, const ctc_sequence *s, const char *x, char *to, float weight,
                        pop_wide whole, ctc_states after)
{
    const float inverse = 1.0f / whole.m[0];
    const int64_t read = item->classes * bytes_of(item->format), written = item->classes * bytes_of(item->out_format);
    start_states(s, after, s->labels, s->labels - 1);
    for (int64_t t = s->steps - 1; t >= 0; t--) {
        const float *logs = logs_at(s, t);
        if (t && item->softmax) prefetch_step(x + (t - 1) * item->time_stride, read, 0);
        if (t) prefetch_step(to + (t - 1) * item->batch * written, written, 1);
        step_back(s, logs, states_at(s, t + 1), after, inverse * weight, whole.e[0]);
        if (item->softmax) take_softmax(item, s, x + t * item->time_stride, logs, weight);
        else memset(s->powers, 0, (size_t)item->classes * sizeof *s->powers);
        s->powers[item->blank] -= sum_of(s->blanks, s->lanes);
        for (int64_t i = 0; i < s->labels; i++) s->powers[s->place[i]] -= s->parts[i];
        write_row(item->out_format, to + t * item->batch * written, s->powers, item->classes);
    }
}

/* Rows of a gradient that are all alike. */
static void fill_rows(const pop_ctc_item *item, float *row, char *to, int64_t from, int64_t end, float x)
{
    for (int64_t i = 0; i < item->classes; i++) row[i] = x;
    for (int64_t t = from; t < end; t++)
        write_row(item->out_format, to + t * item->batch * item->classes * bytes_of(item->out_format), row, item->classes);
}

/* Labels' classes, and which may follow one another at once; padding points beyond the classes, where a row is nothing. */
static void lay_labels(const pop_ctc_item *item, ctc_sequence *s, const int32_t *labels, int32_t *place, int32_t *skip)
{
    for (int64_t i = 0; i < s->lanes; i++) place[i] = i < s->labels ? labels[i] : (int32_t)item->classes;
    for (int64_t i = 0; i < s->lanes + POP_STEP; i++)
        skip[i] = i > 0 && i < s->labels && labels[i] != labels[i - 1] ? 0 : POP_NOTHING;
    s->place = place;
    s->skip = skip;
}

/* Where a sequence's numbers are in the workspace: see scratch_bytes in popnn/ctc/lower.py. */
static ctc_sequence lay_sequence(const pop_ctc_item *item, const pop_tile *tile, int64_t n)
{
    ctc_sequence s;
    s.steps = ((const int32_t *)(void *)tile->operands[2])[n];
    s.labels = ((const int32_t *)(void *)tile->operands[3])[n];
    s.lanes = whole_steps(s.labels + 1);
    const int64_t room = row_room(item->classes), kept = item->gradient ? s.steps : 2;
    s.row = (float *)(void *)tile->scratch;
    s.powers = s.row + room;
    s.blanks = s.powers + room;
    s.parts = s.blanks + s.lanes;
    int32_t *place = (int32_t *)(void *)(s.parts + s.lanes), *skip = place + s.lanes;
    s.logs = (float *)(void *)(skip + s.lanes + POP_STEP);
    s.states = s.logs + kept * (s.lanes + POP_STEP);
    lay_labels(item, &s, (const int32_t *)(void *)tile->operands[1] + n * item->labels, place, skip);
    return s;
}

/* All steps, from the first; what the logits have in common to scales. Logarithms are gathered a step ahead: vectors of
 * what was stored one by one just before would wait. Whether a probability is none. */
static int steps_on(const pop_ctc_item *item, const ctc_sequence *s, const char *x, pop_scales *scales)
{
    const int64_t logs_kept = item->gradient ? s->steps : 2, kept = item->gradient ? s->steps + 1 : 2;
    const int64_t bytes = item->classes * bytes_of(item->format);
    int wrong = 0;
    start_states(s, states_at(s, 0), 0, -1);
    for (int64_t t = 0; t <= s->steps; t++) {
        if (t < s->steps) {
            if (t + 1 < s->steps && bytes >= POP_WORTH_A_PREFETCH) prefetch_step(x + (t + 1) * item->time_stride, bytes, 0);
            const row_scale scale = take_row(item, x + t * item->time_stride, s->row, s->powers);
            wrong |= !(scale.sum > 0.0f);
            times(scales, scale.sum);
            gather_logs(s, item->blank, scale, logs_at(s, t % logs_kept));
        }
        if (t) wrong |= step_on(s, logs_at(s, (t - 1) % logs_kept), states_at(s, (t - 1) % kept), states_at(s, t % kept));
    }
    return wrong;
}

/* Sequence n: its loss, and its gradient where one is asked for. */
static void take_sequence(const pop_ctc_item *item, const pop_tile *tile, int64_t n)
{
    const ctc_sequence s = lay_sequence(item, tile, n);
    const char *x = tile->operands[0] + n * item->batch_stride;
    pop_scales scales = {1.0, 0.0};
    const int wrong = steps_on(item, &s, x, &scales);
    const ctc_states end = states_at(&s, item->gradient ? s.steps : s.steps % 2);
    const pop_wide blank = {pop_v_splat(end.bm[s.labels]), pop_v_set(end.be[s.labels])};
    const int64_t last = s.labels ? s.labels - 1 : 0; /* without labels that lane is nothing */
    const pop_wide label = {pop_v_splat(end.lm[last]), pop_v_set(end.le[last])};
    const pop_wide whole = wide_sum(blank, label);
    const int none = whole.e[0] <= POP_NOTHING / 2;

    double loss = -0x1.62e42fefa39efp-1 * (whole.e[0] + log2_of(whole.m[0]) - log2_of_scales(&scales));
    if (none) loss = item->zero_infinity ? 0.0 : INFINITY;
    if (wrong) loss = NAN;
    ((double *)(void *)tile->operands[5])[n] = loss + 0.0;
    if (!item->gradient) return;
    char *to = tile->operands[6] + n * item->classes * bytes_of(item->out_format);
    fill_rows(item, s.row, to, s.steps, item->time, 0.0f);
    if (wrong || none)
        fill_rows(item, s.row, to, 0, s.steps, wrong || !item->zero_infinity ? NAN : 0.0f);
    else
        gradient_of(item, &s, x, to, ((const float *)(void *)tile->operands[4])[n], whole, states_at(&s, s.steps + 1));
}

/* Operands: probabilities, labels, steps and labels of each sequence, its weight, losses, gradient. */
static void loss_share(const void *p, const pop_tile *tile)
{
    const pop_ctc_item *item = (const pop_ctc_item *)p;
    for (int64_t n = item->first; n < item->first + item->count; n++) take_sequence(item, tile, n);
}
#endif
