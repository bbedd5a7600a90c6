/* The attention family: softmax(scale Q K' + mask) V and its gradient, without a matrix of scores.
 *
 * A unit is a strip of queries that share keys. Keys and values come to panels a tile at a time, kept for the next strip where
 * there is room. Scores of a strip and a chunk of keys are a tile of sums, which become weights there (weights.h) and are
 * multiplied with the values. Products are those of kernels/dot/, in FP32, or of BF16 numbers, to which weights are rounded then.
 * A gradient's unit is all that shares keys: its strips come one after another, and add to the gradients of keys and values.
 *
 * Order: sums over elements, keys and queries ascend, a row's exponentials are summed in 64 lanes within a chunk, so that the bits
 * are the same for every number of threads, and in FP32 at every level.
 *
 * Measured on one Zen 4 core, 4 heads of 2048 tokens, in GFLOP/s of the products, of 64 and of 128 elements: BF16 forward 165 and
 * 185, backward 175 and 180; FP32 95 and 100, 95 and 92. On one Zen 3 core, which multiplies 103 at most, FP32 and BF16 forward 77
 * and 80: products take four fifths of the time, at 97, and powers most of the rest. Blocks of 32 x 32 at a density of 1/8 reach
 * 0.72 to 0.77 of the ideal speed-up over that. Few queries are multiplied with keys and values where they lie: 8 heads of 1024
 * tokens of 64 elements take 34 us in BF16, 62 GB/s of keys and values (packed first they took 90). */
#ifndef POP_ATTENTION_H
#define POP_ATTENTION_H
#include "kernels/attention/weights.h"

#define POP_ATTENTION_PREFETCHED (1 << 14) /* most bytes that are prefetched at once */

/* What a thread knows of the keys that lie in its slots. */
typedef struct pop_attention_walk {
    const pop_attention *spec;
    const pop_tile *tile;
    int64_t batch, head; /* of keys; -1: none */
    const char *k, *v;
    int backward;
} pop_attention_walk;

/* The block columns of a strip. */
static void pop_attention_blocks(const pop_attention_walk *w, pop_attention_strip *strip)
{
    const pop_attention *s = w->spec;
    strip->columns = NULL;
    strip->blocks = s->column_count;
    if (s->offsets < 0) return;
    const int64_t *offsets = (const int64_t *)(const void *)w->tile->operands[s->offsets];
    const int64_t row = (strip->batch * s->heads * s->shares + strip->head) % s->patterns * s->row_count +
                        strip->first / s->block_rows;
    strip->columns = (const int32_t *)(const void *)w->tile->operands[s->columns] + offsets[row];
    strip->blocks = offsets[row + 1] - offsets[row];
}

/* Strip `number` of the heads that share keys. */
static void pop_attention_strip_of(const pop_attention_walk *w, int64_t number, pop_attention_strip *strip)
{
    const pop_attention *s = w->spec;
    const int64_t in_head = s->row_strips * s->row_count, head = number / in_head * s->strip_heads, part = number % in_head;
    const int64_t end = (part / s->row_strips + 1) * s->block_rows;
    strip->batch = w->batch;
    strip->head = w->head * s->shares + head;
    strip->heads = pop_lesser(s->strip_heads, s->shares - head);
    strip->first = part / s->row_strips * s->block_rows + part % s->row_strips * s->strip;
    strip->each = pop_lesser(pop_lesser(s->strip, end - strip->first), s->queries - strip->first);
    strip->rows = strip->heads * (strip->each > 0 ? strip->each : 0);
    pop_attention_blocks(w, strip);
}

/* Begin with a head of keys: what slots hold is another's. */
static void pop_attention_head(pop_attention_walk *w, int64_t number)
{
    const pop_attention *s = w->spec;
    const int64_t batch = number / s->heads, head = number % s->heads;
    if (batch == w->batch && head == w->head) return;
    w->batch = batch, w->head = head;
    w->k = pop_attention_at(&s->k, w->tile, batch, head);
    w->v = pop_attention_at(&s->v, w->tile, batch, head);
    memset(w->tile->scratch + s->packed_at, 0, (size_t)(s->kept ? s->column_count * s->column_tiles : 0));
}

/* Whether a tile's keys are packed for one strip alone, panel by panel as they are multiplied. */
POP_INLINE int pop_attention_is_once(const pop_attention_walk *w) { return !w->spec->kept && !w->backward; }

/* See that a tile's keys and values are in their slot, but keys that are packed as they are multiplied. */
static void pop_attention_pack(const pop_attention_walk *w, pop_attention_piece *piece, int64_t slot)
{
    const pop_attention *s = w->spec;
    char *packed = w->tile->scratch + s->packed_at + piece->tile, *stage = w->tile->scratch + s->stage_at;
    piece->slot = w->tile->scratch + s->slots_at + (s->kept ? piece->tile : slot) * s->slot;
    if (s->kept && *packed) return;
    if (s->kept) *packed = 1;
    const int64_t column = piece->tile / s->column_tiles, own = (column + 1) * s->block_columns - piece->key;
    const int64_t keys = pop_lesser(pop_lesser(s->tile, own), s->keys - piece->key); /* causal strips need fewer at first */
    const char *k = w->k + piece->key * s->k.token, *v = w->v + piece->key * s->v.token;
    if (!pop_attention_is_once(w))
        pop_attention_across(s, &s->k, k, keys, piece->slot, s->q_cells, stage);
    if (w->backward) {
        pop_attention_across(s, &s->v, v, keys, piece->slot + s->values_at, s->v_cells, stage);
        pop_attention_lines(s, &s->k, k, keys, piece->slot + s->lines_at, s->q_line, stage);
    } else if (!s->in_place && !s->apart) {
        pop_attention_lines(s, &s->v, v, keys, piece->slot + s->values_at, s->v_line, stage);
    }
}

/* The next tiles whose scores are held at once, from tile `from` of the strip's on, which moves; how many, and their columns. */
static int pop_attention_next(const pop_attention_walk *w, const pop_attention_strip *strip, int64_t *from,
                              pop_attention_piece *pieces, int64_t *columns)
{
    const pop_attention *s = w->spec;
    const int64_t grain = s->depth_grain > 16 ? s->depth_grain : 16;
    int64_t limit = s->keys;
    int count = 0;
    if (s->causal) limit = pop_lesser(limit, strip->first + strip->each + s->origin);
    *columns = 0;
    for (; *from < strip->blocks * s->column_tiles && count < POP_ATTENTION_PIECES; (*from)++) {
        const int64_t block = *from / s->column_tiles, column = strip->columns ? strip->columns[block] : block;
        const int64_t part = *from % s->column_tiles * s->tile, key = column * s->block_columns + part;
        const int64_t keys = pop_lesser(pop_lesser(s->tile, s->block_columns - part), limit - key);
        if (keys <= 0) continue;
        if (*columns + pop_rounded(keys, grain) > s->chunk) break;
        pieces[count] = (pop_attention_piece){.key = key, .keys = keys, .at = *columns,
                                              .tile = column * s->column_tiles + *from % s->column_tiles};
        pop_attention_pack(w, pieces + count, count);
        *columns += pop_rounded(keys, grain);
        count++;
    }
    return count;
}

/* Whether some score of a piece, or of its columns, does not count, or is to be scaled first. */
POP_INLINE int pop_attention_is_masked(const pop_attention *s, const pop_attention_strip *strip, const pop_attention_piece *piece)
{
    const int64_t grain = s->depth_grain > 16 ? s->depth_grain : 16;
    return s->mask.operand >= 0 || s->scale <= 0.0 || piece->keys % grain ||
           (s->causal && piece->key + piece->keys > strip->first + s->origin + 1);
}

/* Prefetch what the next piece is multiplied by: blocks of a pattern lie apart, so the hardware does not foresee it. */
POP_INLINE void pop_attention_prefetch(const pop_attention *s, const char *from, int64_t bytes)
{
    if (s->offsets < 0 || bytes > POP_ATTENTION_PREFETCHED) return;
    pop_prefetch_lines(pop_beyond(from, 0), bytes);
}

/* A strip's queries, or what comes back to them, as rows of cells: as they lie, where they do so, or in a room. Matrix units read rows
 * beyond the last. */
static pop_attention_cells pop_attention_rows_of(const pop_attention_walk *w, const pop_attention_strip *strip,
                                                 const pop_attention_operand *o, int64_t room, int64_t cells)
{
    const pop_attention *s = w->spec;
    char *to = w->tile->scratch + room;
    if (strip->heads == 1 && !s->begin && pop_attention_is_direct(s, o, cells))
        return (pop_attention_cells){pop_attention_at(o, w->tile, strip->batch, strip->head) + strip->first * o->token, o->token};
    for (int64_t h = 0; h < strip->heads; h++)
        pop_attention_rows(s, o, pop_attention_at(o, w->tile, strip->batch, strip->head + h) + strip->first * o->token,
                           strip->each, to + 4 * h * strip->each * cells, cells);
    return (pop_attention_cells){to, 4 * cells};
}

static void pop_attention_scores(const pop_attention_walk *w, const pop_attention_strip *strip, const pop_attention_piece *pieces,
                                 int count)
{
    const pop_attention *s = w->spec;
    float *scores = (float *)(void *)(w->tile->scratch + s->scores_at);
    char *stage = w->tile->scratch + s->stage_at;
    for (int p = 0; p < count; p++) {
        if (p + 1 < count && !pop_attention_is_once(w)) pop_attention_prefetch(s, pieces[p + 1].slot, 4 * pieces[p + 1].keys * s->q_cells);
        const char *k = w->k + pieces[p].key * s->k.token;
        float *to = scores + pieces[p].at;
        if (s->dots || s->across) pop_attention_by_tokens(s, strip->q, k, to, s->score_line, strip->rows, pieces[p].keys);
        else if (pop_attention_is_once(w))
            pop_attention_by_new_panels(s, strip->q, k, pieces[p].slot, to, s->score_line, strip->rows, pieces[p].keys, stage);
        else pop_attention_by_panels(s, strip->q, pieces[p].slot, to, s->score_line, strip->rows, pieces[p].keys, s->q_cells);
        if (pop_attention_is_masked(s, strip, pieces + p)) pop_attention_mask(s, w->tile, strip, pieces + p, scores);
    }
}

/* Sums over weights, and logarithms of the sums of exponentials. */
static void pop_attention_finish(const pop_attention_walk *w, const pop_attention_strip *strip)
{
    const pop_attention *s = w->spec;
    float *sums = (float *)(void *)(w->tile->scratch + s->sums_at);
    const float *m = (const float *)(const void *)(w->tile->scratch + s->state_at), *l = m + strip->rows;
    for (int64_t r = 0; r < strip->rows; r++, sums += s->v_line) {
        const int64_t head = strip->head + r / strip->each, query = strip->first + r % strip->each;
        const pop_v_f by = pop_v_splat(l[r] == 0.0f ? 1.0f : l[r]);
        POP_ROW_EACH(0, s->v.width, pop_row_store(sums, i, pop_row_load(sums, i, part) / by, part); (void)k;);
        char *to = pop_attention_at(&s->y, w->tile, strip->batch, head) + query * s->y.token;
        pop_attention_write(&s->y, sums, s->v_line, 1, 1.0f, to);
        if (s->lse.operand < 0) continue;
        const float lse = pop_attention_log(m[r], pop_attention_to_powers(s), l[r]);
        memcpy(pop_attention_at(&s->lse, w->tile, strip->batch, head) + query * s->lse.token, &lse, sizeof lse);
    }
}

/* Weights times the lines of all pieces, added to sums. Pieces of as many keys are runs of one product: sums stay in registers. */
static void pop_attention_by_pieces(const pop_attention_walk *w, int64_t rows, const pop_attention_piece *pieces, int count,
                                    const char *weights, int64_t lines_at, int64_t line, int64_t width)
{
    const pop_attention *s = w->spec;
    const int64_t size = 4 / s->elements;
    float *sums = (float *)(void *)(w->tile->scratch + s->sums_at);
    int64_t a_at[POP_ATTENTION_PIECES], b_at[POP_ATTENTION_PIECES];
    for (int p = 0, n; p < count; p += n) {
        const pop_attention_piece *first = pieces + p;
        const char *lines = s->in_place ? w->v + first->key * s->v.token : first->slot + lines_at;
        for (n = 1; p + n < count && first[n].keys == first->keys && !s->begin; n++) {
            a_at[n - 1] = size * (first[n].at - first->at);
            b_at[n - 1] = s->in_place ? (first[n].key - first->key) * s->v.token : first[n].slot - first->slot;
        }
        pop_attention_by_lines(s, weights + size * first->at, size * s->score_line, 4, lines, s->in_place ? s->v.token : 4 * line, line,
                               sums, rows, width, pop_rounded(first->keys, s->depth_grain) / s->elements,
                               (pop_attention_runs){n - 1, a_at, b_at}, 1);
    }
}

static void pop_attention_attend(const pop_attention_walk *w, pop_attention_strip *strip)
{
    const pop_attention *s = w->spec;
    char *arena = w->tile->scratch;
    float *sums = (float *)(void *)(arena + s->sums_at), *state = (float *)(void *)(arena + s->state_at);
    pop_attention_piece pieces[POP_ATTENTION_PIECES];
    strip->q = pop_attention_rows_of(w, strip, &s->q, s->q_at, s->q_cells);
    pop_attention_fill(sums, 0.0f, strip->rows * s->v_line);
    pop_attention_fill(state, -INFINITY, strip->rows);
    pop_attention_fill(state + strip->rows, 0.0f, strip->rows);
    int64_t from = 0, columns;
    for (int count; (count = pop_attention_next(w, strip, &from, pieces, &columns)) > 0;) {
        pop_attention_scores(w, strip, pieces, count);
        pop_attention_chunk(s, w->tile, strip->rows, columns);
        if (s->apart)
            pop_attention_by_values(s, arena + s->weights_at, w->v + pieces->key * s->v.token, pieces->keys, sums, strip->rows,
                                    arena + s->stage_at);
        else pop_attention_by_pieces(w, strip->rows, pieces, count, arena + s->weights_at, s->values_at, s->v_line, s->v.width);
    }
    pop_attention_finish(w, strip);
}

static void pop_attention_forward(const void *work, const pop_tile *tile)
{
    const pop_attention_item *item = (const pop_attention_item *)work;
    const pop_attention *s = item->spec;
    pop_attention_walk w = {.spec = s, .tile = tile, .batch = -1, .head = -1};
    if (s->begin) ((pop_dot_hook)s->begin)();
    for (int64_t i = item->first; i < item->first + item->count; i++) {
        pop_attention_strip strip;
        pop_attention_head(&w, i / s->strips);
        pop_attention_strip_of(&w, i % s->strips, &strip);
        if (strip.rows > 0) pop_attention_attend(&w, &strip);
    }
    if (s->end) ((pop_dot_hook)s->end)();
}

/* What a strip's rows need besides: their sums' logarithms, and the mean of their weights' gradients, the sum of grad y. */
static void pop_attention_means(const pop_attention_walk *w, const pop_attention_strip *strip, const char *grad)
{
    const pop_attention *s = w->spec;
    float *lse = (float *)(void *)(w->tile->scratch + s->state_at), *mean = lse + strip->rows;
    float *g = (float *)(void *)(w->tile->scratch + s->stage_at), *y = g + pop_rounded(s->y.width, 16);
    const char *outputs = pop_attention_at(&s->y, w->tile, strip->batch, strip->head) + strip->first * s->y.token;
    const char *logs = pop_attention_at(&s->lse, w->tile, strip->batch, strip->head) + strip->first * s->lse.token;
    for (int64_t r = 0; r < strip->rows; r++) {
        const void *of_grad = grad + r * s->grad.token, *of_y = outputs + r * s->y.token;
        memcpy(lse + r, logs + r * s->lse.token, sizeof *lse);
        double sum;
        if (s->grad.codec) ((pop_decoder)s->grad.codec)(&s->grad.cast, of_grad, g, s->grad.width);
        if (s->y.codec) ((pop_decoder)s->y.codec)(&s->y.cast, of_y, y, s->y.width);
        const float *a = s->grad.codec ? g : of_grad, *b = s->y.codec ? y : of_y;
        POP_ROW_SUM(sum, s->y.width, pop_row_load(a, i, part) * pop_row_load(b, i, part));
        mean[r] = (float)sum;
    }
}

/* What one piece adds to sums of its keys: weights of the strip's rows times their lines. A matrix unit takes the weights of a key as a row. */
static void pop_attention_add(const pop_attention *s, const char *weights, const char *turned, int64_t rows, const pop_attention_piece *piece,
                              const char *lines, int64_t line, int64_t width, float *sums)
{
    const int64_t row = pop_attention_turned_row(s, rows), cells = pop_rounded(rows, s->elements) / s->elements;
    sums += piece->key * line;
    if (s->begin)
        pop_attention_by_lines(s, turned + piece->at * row, row, 4, lines, 4 * line, line, sums, piece->keys, width, row / 4,
                               POP_ATTENTION_ONE_RUN, 0);
    else
        pop_attention_by_lines(s, weights + 4 * piece->at, 4, 4 * s->score_line, lines, 4 * line, line, sums, piece->keys, width, cells,
                               POP_ATTENTION_ONE_RUN, 0);
}

/* What one piece adds to the gradients of its keys and values. */
static void pop_attention_add_piece(const pop_attention *s, char *arena, int64_t rows, const pop_attention_piece *piece)
{
    const int pairs = s->elements == 2;
    pop_attention_add(s, arena + (pairs ? s->pairs_at : s->weights_at), arena + s->turned_at, rows, piece, arena + s->grad_lines_at,
                      s->v_line, s->v.width, (float *)(void *)(arena + s->v_sums_at));
    pop_attention_add(s, arena + (pairs ? s->delta_pairs_at : s->delta_weights_at), arena + s->delta_turned_at, rows, piece,
                      arena + s->q_lines_at, s->q_line, s->q.width, (float *)(void *)(arena + s->k_sums_at));
}

static void pop_attention_go_back(const pop_attention_walk *w, pop_attention_strip *strip)
{
    const pop_attention *s = w->spec;
    char *arena = w->tile->scratch, *stage = arena + s->stage_at;
    float *deltas = (float *)(void *)(arena + s->deltas_at);
    const char *q = pop_attention_at(&s->q, w->tile, strip->batch, strip->head) + strip->first * s->q.token;
    const char *grad = pop_attention_at(&s->grad, w->tile, strip->batch, strip->head) + strip->first * s->grad.token;
    pop_attention_piece pieces[POP_ATTENTION_PIECES];
    pop_attention_means(w, strip, grad);
    strip->q = pop_attention_rows_of(w, strip, &s->q, s->q_at, s->q_cells);
    const pop_attention_cells grads = pop_attention_rows_of(w, strip, &s->grad, s->grad_at, s->v_cells);
    pop_attention_lines(s, &s->q, q, strip->rows, arena + s->q_lines_at, s->q_line, stage);
    pop_attention_lines(s, &s->grad, grad, strip->rows, arena + s->grad_lines_at, s->v_line, stage);
    pop_attention_fill((float *)(void *)(arena + s->sums_at), 0.0f, strip->rows * s->q_line);
    int64_t from = 0, columns;
    for (int count; (count = pop_attention_next(w, strip, &from, pieces, &columns)) > 0;) {
        pop_attention_scores(w, strip, pieces, count);
        for (int p = 0; p < count; p++) {
            if (p + 1 < count)
                pop_attention_prefetch(s, pieces[p + 1].slot + s->values_at, 4 * pieces[p + 1].keys * s->v_cells);
            pop_attention_by_panels(s, grads, pieces[p].slot + s->values_at, deltas + pieces[p].at, s->score_line,
                                    strip->rows, pieces[p].keys, s->v_cells);
            const int64_t end = p + 1 < count ? pieces[p + 1].at : columns, used = pieces[p].at + pieces[p].keys;
            for (int64_t r = 0; r < strip->rows && used < end; r++)
                pop_attention_fill(deltas + r * s->score_line + used, 0.0f, end - used);
        }
        pop_attention_turns(s, w->tile, strip->rows, columns);
        if (s->elements == 2) {
            pop_attention_pairs(s, arena + s->weights_at, strip->rows, columns, arena + s->pairs_at, stage);
            pop_attention_pairs(s, arena + s->delta_weights_at, strip->rows, columns, arena + s->delta_pairs_at, stage);
        }
        if (s->begin) {
            pop_attention_turn_pairs(s, arena + s->pairs_at, strip->rows, columns, arena + s->turned_at);
            pop_attention_turn_pairs(s, arena + s->delta_pairs_at, strip->rows, columns, arena + s->delta_turned_at);
        }
        for (int p = 0; p < count; p++) pop_attention_add_piece(s, arena, strip->rows, pieces + p);
        pop_attention_by_pieces(w, strip->rows, pieces, count, arena + s->delta_weights_at, s->lines_at, s->q_line, s->q.width);
    }
    pop_attention_write(&s->q_grad, (float *)(void *)(arena + s->sums_at), s->q_line, strip->rows, (float)s->scale,
                        pop_attention_at(&s->q_grad, w->tile, strip->batch, strip->head) + strip->first * s->q_grad.token);
}

static void pop_attention_backward(const void *work, const pop_tile *tile)
{
    const pop_attention_item *item = (const pop_attention_item *)work;
    const pop_attention *s = item->spec;
    pop_attention_walk w = {.spec = s, .tile = tile, .batch = -1, .head = -1, .backward = 1};
    float *k_sums = (float *)(void *)(tile->scratch + s->k_sums_at), *v_sums = (float *)(void *)(tile->scratch + s->v_sums_at);
    if (s->begin) ((pop_dot_hook)s->begin)();
    for (int64_t i = item->first; i < item->first + item->count; i++) {
        pop_attention_head(&w, i);
        pop_attention_fill(k_sums, 0.0f, s->keys * s->q_line);
        pop_attention_fill(v_sums, 0.0f, s->keys * s->v_line);
        for (int64_t n = 0; n < s->strips; n++) {
            pop_attention_strip strip;
            pop_attention_strip_of(&w, n, &strip);
            if (strip.rows > 0) pop_attention_go_back(&w, &strip);
        }
        pop_attention_write(&s->k_grad, k_sums, s->q_line, s->keys, (float)s->scale,
                            pop_attention_at(&s->k_grad, tile, w.batch, w.head));
        pop_attention_write(&s->v_grad, v_sums, s->v_line, s->keys, 1.0f, pop_attention_at(&s->v_grad, tile, w.batch, w.head));
    }
    if (s->end) ((pop_dot_hook)s->end)();
}

#define POP_ATTENTION_ROW(name) {#name, "float32|bfloat16", #name, POP_FUNCTION(pop_attention_##name), {1, 16, 1}, \
                                 {1, POP_ROW_LANES, 1}, POP_CONSISTENT}
static const pop_kernel POP_ATTENTION_KERNELS[] = {POP_ATTENTION_ROW(forward), POP_ATTENTION_ROW(backward)};
#endif
