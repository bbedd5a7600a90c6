/* Decoding: the best path, and prefix beam search.
 *
 * A beam is a prefix of labels with the probabilities of its paths that end in a blank and of those that do not. At a step
 * a beam stays, by a blank or by its last label once more, or a label is added: from paths that end in a blank alone where
 * it is the last label once more. Where the longer prefix is a beam itself, what is added goes there. Prefixes are nodes of a
 * tree, and one node only, also where a prefix was left and comes back. Lanes are beams; candidates are told apart by FP32
 * logarithms to the base 2, relative to the step's best beam: classes in descending order, so that a beam is left as soon as
 * no class can pass what is kept already. */
#ifndef POP_CTC_BEAMS_H
#define POP_CTC_BEAMS_H
#include "kernels/ctc/keys.h"
#include "kernels/ctc/rows.h"

#define POP_LOG2_E 0x1.715476p0f
#define POP_IMPOSSIBLE (-0x1p26f) /* scores below it are of nothing */

/* What of a search outlasts a step; the tree and the beams' nodes come right behind it (popnn/ctc_infer/lower.py). */
typedef struct search_head {
    pop_scales scales;
    int64_t beams, nodes, wrong, unused[3];
} search_head;

typedef struct beam_set { float *bm, *nm; int32_t *be, *ne; } beam_set; /* paths that end in a blank, and others */

typedef struct ctc_search {
    const pop_ctc_search *item;
    search_head *head;
    int32_t *parent, *symbol, *node; /* of nodes, of beams */
    int32_t *child, *sibling, *beam; /* of nodes: the first child, the next of its parent, the beam that it is or -1 */
    beam_set now, next, from;        /* `from`: what candidates come of */
    float *tm, *am, *logs, *plus;    /* of beams: totals, what the parent adds, what that is multiplied by */
    int32_t *te, *ae;
    float *score, *again, *stays;    /* of a beam's total, of its paths that end in a blank, of what stays of it */
    int32_t *chain, *first, *mark;   /* beams whose parents are beams; of classes: whether a beam has that child */
    float *row, *powers;
    pop_key *keys, *classes;
    const float *bonus;
    int64_t lanes;
} ctc_search;

POP_INLINE int64_t tree_room(int64_t time, int64_t beams) { return whole_steps(time * beams + 1); }

POP_INLINE char *take_room(char **p, int64_t count, int64_t size)
{
    char *taken = *p;
    *p += whole_steps(count) * size;
    return taken;
}

#define POP_TAKE(type, count) ((type *)(void *)take_room(&p, (count), sizeof(type)))

static beam_set lay_beams(char **at, int64_t beams)
{
    char *p = *at;
    beam_set x;
    x.bm = POP_TAKE(float, beams), x.nm = POP_TAKE(float, beams);
    x.be = POP_TAKE(int32_t, beams), x.ne = POP_TAKE(int32_t, beams);
    *at = p;
    return x;
}

/* Lay a search out: what outlasts a step in the call's state or the workspace, the rest behind it. */
static ctc_search lay_search(const pop_ctc_search *item, const pop_tile *tile, int64_t n)
{
    ctc_search s = {.item = item};
    const int64_t beams = item->beams, nodes = tree_room(item->of.time, beams), room = row_room(item->of.classes);
    char *p = item->state_bytes ? tile->operands[5] + n * item->state_bytes : tile->scratch;
    s.lanes = whole_steps(beams);
    s.head = (search_head *)(void *)p;
    p += sizeof(search_head);
    s.parent = POP_TAKE(int32_t, nodes), s.symbol = POP_TAKE(int32_t, nodes), s.node = POP_TAKE(int32_t, beams);
    s.child = POP_TAKE(int32_t, nodes), s.sibling = POP_TAKE(int32_t, nodes), s.beam = POP_TAKE(int32_t, nodes);
    s.now = lay_beams(&p, beams);
    if (item->state_bytes) p = tile->scratch;
    s.next = lay_beams(&p, beams), s.from = lay_beams(&p, beams);
    s.tm = POP_TAKE(float, beams), s.am = POP_TAKE(float, beams);
    s.logs = POP_TAKE(float, beams), s.plus = POP_TAKE(float, beams);
    s.score = POP_TAKE(float, beams), s.again = POP_TAKE(float, beams), s.stays = POP_TAKE(float, beams);
    s.te = POP_TAKE(int32_t, beams), s.ae = POP_TAKE(int32_t, beams);
    s.chain = POP_TAKE(int32_t, beams), s.first = POP_TAKE(int32_t, beams), s.mark = POP_TAKE(int32_t, item->of.classes);
    s.row = POP_TAKE(float, room), s.powers = POP_TAKE(float, room);
    s.keys = POP_TAKE(pop_key, 2 * beams + POP_STEP), s.classes = POP_TAKE(pop_key, item->of.classes);
    s.bonus = item->state_bytes ? (const float *)(void *)tile->operands[6] + n * beams * item->of.classes : 0;
    return s;
}

/* One beam: no label, of probability 1. */
static void start_search(const ctc_search *s)
{
    *s->head = (search_head){.scales = {1.0, 0.0}, .beams = 1, .nodes = 1};
    s->parent[0] = s->symbol[0] = s->child[0] = s->sibling[0] = -1;
    s->node[0] = s->beam[0] = 0;
    for (int64_t i = 0; i < s->lanes; i++) {
        s->now.bm[i] = s->now.nm[i] = 1.0f;
        s->now.be[i] = s->now.ne[i] = POP_NOTHING;
    }
    s->now.be[0] = 0;
}

POP_INLINE int32_t last_of(const ctc_search *s, int64_t beam) { return s->symbol[s->node[beam]]; }

/* Logarithms to the base 2, less `top`. */
POP_INLINE pop_v_f log2_wide(pop_wide x, int32_t top)
{
    return pop_v_to_float(x.e - top) + pop_v_log(x.m) * POP_LOG2_E;
}

/* What stays: to `next`, and its scores; totals, and their scores. */
static void stay(const ctc_search *s)
{
    const int64_t beams = s->head->beams, blank = s->item->of.blank, classes = s->item->of.classes;
    int32_t top = 2 * POP_NOTHING;
    for (int64_t i = 0; i < s->lanes; i += POP_LANES) {
        const pop_wide total = wide_sum(wide_at(s->now.bm + i, s->now.be + i), wide_at(s->now.nm + i, s->now.ne + i));
        put_wide(s->tm + i, s->te + i, total);
    }
    for (int64_t i = 0; i < beams; i++) {
        top = s->te[i] > top ? s->te[i] : top;
        s->first[i] = -1;
    }
    for (int64_t i = 0; i < s->lanes; i++) {
        const int32_t last = i < beams ? last_of(s, i) : -1, parent = last < 0 ? -1 : s->beam[s->parent[s->node[i]]];
        s->logs[i] = last < 0 ? -INFINITY : s->row[last];
        s->am[i] = 1.0f;
        s->ae[i] = POP_NOTHING;
        s->plus[i] = 0.0f;
        if (parent < 0) continue;
        const int again = last_of(s, parent) == last;
        s->am[i] = again ? s->now.bm[parent] : s->tm[parent];
        s->ae[i] = again ? s->now.be[parent] : s->te[parent];
        if (s->bonus) s->plus[i] = s->bonus[parent * classes + last];
        s->chain[i] = s->first[parent];
        s->first[parent] = (int32_t)i;
    }
    const pop_wide of_blank = wide_exp(pop_v_splat(s->row[blank]));
    for (int64_t i = 0; i < s->lanes; i += POP_LANES) {
        const pop_wide total = wide_at(s->tm + i, s->te + i);
        pop_wide added = wide_at(s->am + i, s->ae + i);
        if (s->bonus) added = wide_product(added, wide_exp(pop_v_load_f(s->plus + i)));
        const pop_wide b = wide_product(total, of_blank);
        const pop_wide same = wide_sum(wide_at(s->now.nm + i, s->now.ne + i), added);
        const pop_wide n = wide_product(same, wide_exp(pop_v_load_f(s->logs + i)));
        put_wide(s->next.bm + i, s->next.be + i, b);
        put_wide(s->next.nm + i, s->next.ne + i, n);
        pop_v_store_f(s->score + i, log2_wide(total, top));
        pop_v_store_f(s->again + i, log2_wide(wide_at(s->now.bm + i, s->now.be + i), top));
        pop_v_store_f(s->stays + i, log2_wide(wide_sum(b, n), top));
    }
}

/* Candidates that may be kept: the greatest to the front of `keys` whenever there is no room. */
typedef struct candidate_list { int64_t count, most, room; float least; } candidate_list;

POP_INLINE void offer(const ctc_search *s, candidate_list *list, float score, int64_t number)
{
    if (!(score > list->least)) return;
    if (list->count == list->room) {
        greatest_first(s->keys, list->count, list->most);
        list->count = list->most;
        const float least = score_of(s->keys[list->most - 1]);
        list->least = least > list->least ? least : list->least;
        if (!(score > list->least)) return;
    }
    s->keys[list->count++] = key_of(score, (uint32_t)number);
}

/* The classes that the best beam may be longer by, descending. A beam has at most a child in each other beam, and a label
 * once more; no more classes than twice the beams count for it beside those. */
static int64_t order_classes(const ctc_search *s, float best, float least)
{
    const int64_t classes = s->item->of.classes, most = 2 * s->item->beams + 1;
    int64_t count = 0;
    for (int64_t k = 0; k < classes; k++) {
        const float log = s->row[k] * POP_LOG2_E;
        if (k != s->item->of.blank && best + log > least) s->classes[count++] = key_of(log, (uint32_t)k);
    }
    if (count > most) greatest_first(s->classes, count, most), count = most;
    sort_keys(s->classes, count);
    return count;
}

/* What beam i becomes with each class that is no beam already. */
static void lengthen(const ctc_search *s, candidate_list *list, int64_t i, int64_t count)
{
    const int64_t classes = s->item->of.classes, blank = s->item->of.blank;
    const int32_t last = last_of(s, i);
    for (int32_t j = s->first[i]; j >= 0; j = s->chain[j]) s->mark[last_of(s, j)] = 1;
    if (s->bonus) {
        const float *bonus = s->bonus + i * classes;
        for (int64_t k = 0; k < classes; k++) {
            const float before = k == last ? s->again[i] : s->score[i];
            if (k != blank && !s->mark[k]) offer(s, list, before + (s->row[k] + bonus[k]) * POP_LOG2_E, i * classes + k);
        }
    } else {
        for (int64_t c = 0; c < count; c++) {
            const int64_t k = number_of(s->classes[c]);
            const float log = score_of(s->classes[c]);
            if (!(s->score[i] + log > list->least)) break;
            if (!s->mark[k]) offer(s, list, (k == last ? s->again[i] : s->score[i]) + log, i * classes + k);
        }
    }
    for (int32_t j = s->first[i]; j >= 0; j = s->chain[j]) s->mark[last_of(s, j)] = 0;
}

/* The best candidates, in order, to `keys`: how many. */
static int64_t choose(const ctc_search *s)
{
    const int64_t beams = s->head->beams, classes = s->item->of.classes;
    const float threshold = s->item->threshold * POP_LOG2_E;
    candidate_list list = {.most = s->item->beams, .room = 2 * s->item->beams + POP_STEP, .least = POP_IMPOSSIBLE};
    float worst = INFINITY, most = -INFINITY, best = -INFINITY;
    for (int64_t i = 0; i < beams; i++) {
        offer(s, &list, s->stays[i], i * classes + s->item->of.blank);
        worst = s->stays[i] < worst ? s->stays[i] : worst;
        most = pop_s_max_f(s->stays[i], most);
        best = pop_s_max_f(s->score[i], best);
    }
    if (beams == list.most) list.least = pop_s_max_f(worst, list.least);
    list.least = pop_s_max_f(most - threshold, list.least);
    const int64_t count = s->bonus ? 0 : order_classes(s, best, list.least);
    for (int64_t i = 0; i < beams; i++) lengthen(s, &list, i, count);
    if (list.count > list.most) greatest_first(s->keys, list.count, list.most), list.count = list.most;
    sort_keys(s->keys, list.count);
    const float least = list.count ? score_of(s->keys[0]) - threshold : 0.0f;
    while (list.count && score_of(s->keys[list.count - 1]) < least) list.count--;
    return list.count;
}

/* The node of a node's child by a symbol. */
static int32_t child_of(const ctc_search *s, int32_t node, int32_t symbol)
{
    for (int32_t c = s->child[node]; c >= 0; c = s->sibling[c])
        if (s->symbol[c] == symbol) return c;
    const int32_t made = (int32_t)s->head->nodes++;
    s->parent[made] = node, s->symbol[made] = symbol;
    s->sibling[made] = s->child[node], s->child[node] = made;
    s->child[made] = s->beam[made] = -1;
    return made;
}

/* The candidates become the beams. */
static void take_candidates(const ctc_search *s, int64_t count)
{
    const int64_t classes = s->item->of.classes;
    int32_t *nodes = s->ae;
    for (int64_t j = 0; j < s->lanes; j++) {
        s->from.bm[j] = s->from.nm[j] = 1.0f;
        s->from.be[j] = s->from.ne[j] = POP_NOTHING;
        s->logs[j] = 0.0f;
        if (j >= count) continue;
        const int64_t number = number_of(s->keys[j]), i = number / classes, k = number % classes;
        if (k == s->item->of.blank) {
            s->from.bm[j] = s->next.bm[i], s->from.be[j] = s->next.be[i];
            s->from.nm[j] = s->next.nm[i], s->from.ne[j] = s->next.ne[i];
            nodes[j] = s->node[i];
        } else {
            const int again = last_of(s, i) == k;
            s->from.nm[j] = again ? s->now.bm[i] : s->tm[i];
            s->from.ne[j] = again ? s->now.be[i] : s->te[i];
            s->logs[j] = s->row[k] + (s->bonus ? s->bonus[i * classes + k] : 0.0f);
            nodes[j] = child_of(s, s->node[i], (int32_t)k);
        }
    }
    for (int64_t i = 0; i < s->head->beams; i++) s->beam[s->node[i]] = -1;
    for (int64_t j = 0; j < count; j++) {
        s->node[j] = nodes[j];
        s->beam[nodes[j]] = (int32_t)j;
    }
    s->head->beams = count;
    for (int64_t i = 0; i < s->lanes; i += POP_LANES) {
        const pop_wide n = wide_product(wide_at(s->from.nm + i, s->from.ne + i), wide_exp(pop_v_load_f(s->logs + i)));
        put_wide(s->now.bm + i, s->now.be + i, wide_at(s->from.bm + i, s->from.be + i));
        put_wide(s->now.nm + i, s->now.ne + i, n);
    }
}

/* A step's classes to row; whether one is of no probability, NaN too. */
static int take_classes(const pop_ctc_item *item, const char *p, float *row, float *powers, pop_scales *scales)
{
    const row_scale scale = take_row(item, p, row, powers);
    int wrong = !(scale.sum > 0.0f);
    for (int64_t i = 0; i < row_room(item->classes); i += POP_LANES)
        wrong |= pop_v_any((pop_v_m)~pop_v_lt_f(pop_v_load_f(row + i), pop_v_splat(POP_MOST_LOG)));
    if (!wrong) times(scales, scale.sum);
    return wrong;
}

/* Where results of sequence n go: logarithms, lengths, labels of its paths. */
typedef struct ctc_paths { double *logs; int32_t *lengths, *labels; } ctc_paths;

static ctc_paths paths_of(const pop_ctc_search *item, const pop_tile *tile, int64_t n)
{
    const int64_t paths = item->paths, time = item->of.time;
    ctc_paths y = {(double *)(void *)tile->operands[2] + n * paths, (int32_t *)(void *)tile->operands[3] + n * paths,
                   (int32_t *)(void *)tile->operands[4] + n * paths * time};
    for (int64_t i = 0; i < paths; i++) y.logs[i] = -INFINITY, y.lengths[i] = 0;
    for (int64_t i = 0; i < paths * time; i++) y.labels[i] = -1;
    return y;
}

static void tell_beams(const ctc_search *s, ctc_paths y)
{
    const int64_t paths = s->item->paths, time = s->item->of.time;
    for (int64_t j = 0; j < paths && s->head->wrong; j++) y.logs[j] = NAN;
    for (int64_t j = 0; j < paths && j < s->head->beams && !s->head->wrong; j++) {
        const pop_wide b = {pop_v_splat(s->now.bm[j]), pop_v_set(s->now.be[j])};
        const pop_wide n = {pop_v_splat(s->now.nm[j]), pop_v_set(s->now.ne[j])}, total = wide_sum(b, n);
        y.logs[j] = 0x1.62e42fefa39efp-1 * (total.e[0] + log2_of(total.m[0]) - log2_of_scales(&s->head->scales)) + 0.0;
        int32_t length = 0, *labels = y.labels + j * time;
        for (int32_t node = s->node[j]; s->parent[node] >= 0; node = s->parent[node]) length++;
        y.lengths[j] = length;
        for (int32_t node = s->node[j]; length; node = s->parent[node]) labels[--length] = s->symbol[node];
    }
}

/* Operands: probabilities, steps of each sequence, logarithms, lengths and labels of its paths; where its steps are several
 * calls', its search, what a label adds to each beam's logarithm, and which steps are this call's. */
static void beams_share(const void *p, const pop_tile *tile)
{
    const pop_ctc_search *item = (const pop_ctc_search *)p;
    const pop_ctc_item *of = &item->of;
    const int32_t whole[2] = {0, (int32_t)of->time};
    const int32_t *range = item->state_bytes ? (const int32_t *)(void *)tile->operands[7] : whole;
    for (int64_t n = of->first; n < of->first + of->count; n++) {
        const int64_t steps = ((const int32_t *)(void *)tile->operands[1])[n], end = range[1] < steps ? range[1] : steps;
        const ctc_search s = lay_search(item, tile, n);
        const char *x = tile->operands[0] + n * of->batch_stride;
        memset(s.mark, 0, (size_t)of->classes * sizeof *s.mark);
        if (range[0] == 0) start_search(&s);
        for (int64_t t = range[0]; t < end; t++) {
            s.head->wrong |= take_classes(of, x + t * of->time_stride, s.row, s.powers, &s.head->scales);
            if (s.head->wrong) break;
            stay(&s);
            take_candidates(&s, choose(&s));
        }
        if (range[1] == of->time) tell_beams(&s, paths_of(item, tile, n));
    }
}

/* The likeliest class of each step, the first of equal ones; repeats are one label. Operands as of a search. */
static void best_share(const void *p, const pop_tile *tile)
{
    const pop_ctc_search *item = (const pop_ctc_search *)p;
    const pop_ctc_item *of = &item->of;
    const int64_t room = row_room(of->classes);
    float *row = (float *)(void *)tile->scratch, *powers = row + room;
    for (int64_t n = of->first; n < of->first + of->count; n++) {
        const int64_t steps = ((const int32_t *)(void *)tile->operands[1])[n];
        const char *x = tile->operands[0] + n * of->batch_stride;
        const ctc_paths y = paths_of(item, tile, n);
        pop_scales scales = {1.0, 0.0};
        double log = 0.0;
        int64_t last = of->blank;
        int wrong = 0;
        for (int64_t t = 0; t < steps && !wrong; t++) {
            wrong = take_classes(of, x + t * of->time_stride, row, powers, &scales);
            const float top = top_of(row, room);
            int64_t best = 0;
            while (!wrong && row[best] != top) best++;
            log += top;
            if (best != last && best != of->blank) y.labels[y.lengths[0]++] = (int32_t)best;
            last = best;
        }
        y.logs[0] = wrong ? NAN : log - 0x1.62e42fefa39efp-1 * log2_of_scales(&scales) + 0.0;
        for (int64_t i = 0; wrong && i < y.lengths[0]; i++) y.labels[i] = -1;
        if (wrong) y.lengths[0] = 0;
    }
}
#endif
