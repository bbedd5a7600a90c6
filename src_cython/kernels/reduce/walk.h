/* How a reduction goes through its operand: rows of elements, or columns side by side, block by block.
 *
 * Units are shared out to threads: rows, or strips of columns, whose segments of 16 blocks a thread merges as it comes to them. Where
 * those cannot be shared out evenly units are segments: their states go to the workspace, and a second vertex merges them. */
#ifndef POP_REDUCE_WALK_H
#define POP_REDUCE_WALK_H
#include "drivers/strided_rows.h"
#include "kernels/reduce/places.h"
#include "kernels/reduce/state.h"
#include "program/program.h"

#define POP_SEGMENT (16 * POP_BLOCK)
#define POP_GATHERED_ELEMENTS (4 * POP_BLOCK) /* of rows that do not lie as the kernels read them, at a time */
#define POP_REDUCE_AXES 64
#define POP_TREE_LEVELS 7

/* A reduction's functions. A pass over blocks; perhaps a second one, with a shift that the first gave. */
typedef struct pop_reduction {
    pop_reduce_rows rows, rows_after;
    pop_reduce_chain chain, chain_after;
    pop_reduce_few few, few_after;
    pop_reduce_joiner joiner, joiner_after;
    pop_reduce_find find;
    pop_reduce_places places;
} pop_reduction;

/* What a unit works with; a pop_reduce_room is in the arena. */
typedef struct pop_reduce_walk {
    const pop_reduce *spec;
    const pop_reduction *does;
    const pop_tile *tile;
    pop_block_results results;
    pop_state row, held, more; /* of a row's segments so far, of a segment's blocks so far, of what comes next */
    const char *rows[POP_BLOCK];
} pop_reduce_walk;

typedef struct pop_reduce_room {
    float tree[2][POP_TREE_LEVELS - 1][POP_STRIP]; /* the first level is where results go */
    float numbers[POP_GATHERED_ELEMENTS]; /* decoded */
    char codes[4 * POP_GATHERED_ELEMENTS];
} pop_reduce_room;

/* Where an element of axes is. */
POP_INLINE int64_t pop_reduce_offset(const pop_reduce_axis *axes, int count, int64_t element, int64_t *index)
{
    int64_t offset = 0;
    for (int d = count - 1; d >= 0; d--) {
        index[d] = d ? element % axes[d].extent : element;
        element /= axes[d].extent;
        offset += index[d] * axes[d].stride;
    }
    return offset;
}

/* Step to the next place of the axes outside the innermost, and return how far that is. */
POP_INLINE int64_t pop_reduce_next(const pop_reduce_axis *axes, int count, int64_t *index)
{
    int64_t move = 0;
    for (int d = count - 2; d >= 0; d--) {
        move += axes[d].stride;
        if (++index[d] < axes[d].extent || d == 0) break;
        move -= axes[d].extent * axes[d].stride;
        index[d] = 0;
    }
    return move;
}

/* Elements of a row from `begin` on, one after another. */
static void pop_reduce_gather(const pop_reduce *s, const char *row, int64_t begin, int64_t n, char *to)
{
    int64_t index[POP_REDUCE_AXES];
    const int last = s->reduced_count - 1;
    const char *at = row + pop_reduce_offset(s->reduced, s->reduced_count, begin, index);
    int64_t from = index[last];
    for (;;) {
        const int64_t here = pop_least(n, s->reduced[last].extent - from);
        pop_copy_row(s->code_bytes, to, s->code_bytes, at, s->reduced[last].stride, here);
        n -= here;
        if (n == 0) return;
        to += here * s->code_bytes;
        at += pop_reduce_next(s->reduced, s->reduced_count, index) - from * s->reduced[last].stride;
        from = 0;
    }
}

/* Addresses of n elements of a row from `begin` on. */
static void pop_reduce_addresses(const pop_reduce *s, const char *row, int64_t begin, int64_t n, const char **to)
{
    int64_t index[POP_REDUCE_AXES];
    const int last = s->reduced_count - 1;
    const char *at = row + pop_reduce_offset(s->reduced, s->reduced_count, begin, index);
    const int64_t stride = s->reduced[last].stride;
    int64_t from = index[last];
    for (;;) {
        const int64_t here = pop_least(n, s->reduced[last].extent - from);
        for (int64_t i = 0; i < here; i++) to[i] = at + i * stride;
        n -= here;
        if (n == 0) return;
        to += here;
        at += pop_reduce_next(s->reduced, s->reduced_count, index) - from * stride;
        from = 0;
    }
}

/* The shifts of the second pass, from what the first gave. */
static void pop_reduce_shifts(const pop_reduce *s, pop_block_results *r, int64_t n, int64_t count)
{
    const float size = (float)n;
    if (s->state == POP_STATE_MOMENTS)
        for (int64_t i = 0; i < count; i++) r->shift[i] = r->first[i] / size;
    else
        for (int64_t i = 0; i < count; i++) r->shift[i] = r->first[i] - r->first[i] == 0.0f ? r->first[i] : 0.0f;
}

/* Blocks of n elements from w->rows[i] on, to `more`. */
static void pop_reduce_blocks(pop_reduce_walk *w, int64_t n, int64_t begin, int64_t count)
{
    pop_block_results *r = &w->results;
    float *out[2] = {r->first, r->second};
    w->does->rows(w->rows, count, n, NULL, out);
    if (w->does->rows_after) {
        pop_reduce_shifts(w->spec, r, n, count);
        w->does->rows_after(w->rows, count, n, r->shift, out);
    }
    if (w->does->find) memset(r->place, 0, (size_t)count * sizeof *r->place); /* of the block: within it once it has won */
    pop_state_begin(w->spec->state, &w->more, r, n, begin, count);
}

/* Rows that are blocks and more, to `held`, each read to its end before the next. */
static void pop_reduce_rows_to_their_ends(pop_reduce_walk *w, const char *const *rows, int64_t count)
{
    const pop_reduce *s = w->spec;
    pop_block_results *r = &w->results;
    const int64_t blocks = s->n / POP_BLOCK, whole = blocks * POP_BLOCK, begin = pop_rests_begin(count, s->n);
    float *out[2] = {r->first, r->second};
    w->does->rows(rows, count, s->n, NULL, out);
    pop_state_begin(s->state, &w->more, r, POP_BLOCK, 0, count * blocks);
    pop_state_merge_runs(s->state, &w->held, &w->more, POP_BLOCK, blocks, count);
    memmove(r->first, r->first + begin, (size_t)count * sizeof *r->first);
    memmove(r->second, r->second + begin, (size_t)count * sizeof *r->second);
    pop_state_begin(s->state, &w->more, r, s->n - whole, whole, count);
    pop_state_merge_all(s->state, &w->held, whole, &w->more, s->n - whole, count);
}

/* Results of `count` states, `step` elements apart, from element `first` of the result on. */
static void pop_reduce_write(const pop_reduce_walk *w, pop_state *state, int64_t first, int64_t step, int64_t count)
{
    const pop_reduce *s = w->spec;
    const int64_t bytes = s->out_bytes;
    char *out = w->tile->operands[1] + first * bytes;
    float numbers[POP_STRIP], before[POP_STRIP];
    char codes[4 * POP_STRIP];
    if (s->finish == POP_FINISH_INDEX) {
        for (int64_t i = 0; i < count; i++) ((int64_t *)(void *)out)[i * step] = (int64_t)state->b[i];
        return;
    }
    if (s->finish == POP_FINISH_NONZERO || s->finish == POP_FINISH_ZERO) {
        for (int64_t i = 0; i < count; i++) out[i * step] = (char)((state->a[i] != 0.0) == (s->finish == POP_FINISH_NONZERO));
        return;
    }
    if (s->update) {
        pop_copy_row(bytes, codes, bytes, out, step * bytes, count);
        if (s->decode_before) ((pop_decoder)s->decode_before)(&s->before, codes, before, count);
        else memcpy(before, codes, (size_t)count * sizeof *before);
    }
    float *made = step == 1 && !s->encode ? (float *)(void *)out : numbers;
    pop_finish(s, state, s->update ? before : NULL, made, count);
    if (made != numbers) return;
    if (s->encode) ((pop_encoder)s->encode)(&s->write, numbers, codes, count, NULL);
    pop_copy_row(bytes, out, step * bytes, s->encode ? codes : (const char *)numbers, bytes, count);
}

/* States of segments to the workspace: [segment][a, b][result]. */
static void pop_reduce_put(const pop_reduce_walk *w, int64_t segment, int64_t first, int64_t step, int64_t from, int64_t count)
{
    double *a = (double *)(void *)w->tile->operands[2] + 2 * segment * w->spec->outputs + first, *b = a + w->spec->outputs;
    for (int64_t i = 0; i < count; i++) a[i * step] = w->held.a[from + i], b[i * step] = w->held.b[from + i];
}

/* What `count` segments of a row from `segment` on came to: to its state, which is a result after the last, or to the workspace. */
static void pop_reduce_settle(pop_reduce_walk *w, int64_t output, int64_t segment, int64_t count)
{
    const pop_reduce *s = w->spec;
    const int64_t begin = segment * POP_SEGMENT;
    if (!s->whole_rows) {
        for (int64_t i = 0; i < count; i++) pop_reduce_put(w, segment + i, output, 1, i, 1);
        return;
    }
    pop_state_merge_run(s->state, &w->row, 0, begin, &w->held, 0, pop_least(POP_SEGMENT, s->n - begin), count);
    if (segment + count == s->segments) pop_reduce_write(w, &w->row, output, 1, 1);
}

/* Elements of a row as the kernels read them: where they lie, or in the arena. */
static const char *pop_reduce_read(const pop_reduce_walk *w, const char *row, int64_t begin, int64_t n, int64_t at, int direct)
{
    const pop_reduce *s = w->spec;
    pop_reduce_room *room = (pop_reduce_room *)(void *)w->tile->scratch;
    const char *codes = row;
    if (direct) {
        int64_t index[POP_REDUCE_AXES];
        codes = row + pop_reduce_offset(s->reduced, s->reduced_count, begin, index);
        if (!s->decode) return codes;
    } else {
        codes = room->codes + at * s->code_bytes;
        pop_reduce_gather(s, row, begin, n, room->codes + at * s->code_bytes);
        if (!s->decode) return codes;
    }
    ((pop_decoder)s->decode)(&s->read, codes, room->numbers + at, n);
    return (const char *)(room->numbers + at);
}

static int64_t pop_reduce_read_bytes(const pop_reduce *s) { return s->decode ? 4 : s->code_bytes; }

/* Where in its block the extreme of a result is: elements from `begin` to `end` of its row are at p. */
static void pop_reduce_find_within(pop_reduce_walk *w, int64_t result, const char *p, int64_t begin, int64_t end)
{
    const int64_t block = (int64_t)w->held.b[result], n = pop_least(POP_BLOCK, end - block);
    const char *at = p + (block - begin) * pop_reduce_read_bytes(w->spec);
    w->held.b[result] += (double)w->does->find(at, n, (float)w->held.a[result]);
}

/* A segment of a long row, to `held`. */
static void pop_reduce_segment(pop_reduce_walk *w, const char *row, int64_t segment)
{
    const pop_reduce *s = w->spec;
    const int64_t begin = segment * POP_SEGMENT, end = pop_least(s->n, begin + POP_SEGMENT), bytes = pop_reduce_read_bytes(s);
    const int whole = s->run >= s->n, direct = whole || s->run % POP_BLOCK == 0;
    const int64_t most = direct && !whole ? POP_BLOCK : whole && !s->decode ? POP_SEGMENT : POP_GATHERED_ELEMENTS;
    for (int64_t r = begin; r < end;) {
        const int64_t left = pop_least(end - r, most), blocks = left / POP_BLOCK, n = blocks ? blocks * POP_BLOCK : left;
        const char *p = pop_reduce_read(w, row, r, n, 0, direct);
        const int64_t size = blocks ? POP_BLOCK : n, count = blocks ? blocks : 1;
        for (int64_t i = 0; i < count; i++) w->rows[i] = p + i * POP_BLOCK * bytes;
        pop_reduce_blocks(w, size, r, count);
        if (w->does->find)
            for (int64_t i = 0; i < count; i++) w->more.b[i] += (double)(i * POP_BLOCK);
        pop_state_merge_run(s->state, &w->held, 0, r - begin, &w->more, 0, size, count);
        if (w->does->find && w->held.b[0] >= (double)r) pop_reduce_find_within(w, 0, p, r, r + n);
        r += n;
    }
}

/* Whether rows are taken several at a time: each is a segment, and lies as kernels read it or fits the arena. */
POP_INLINE int pop_reduce_rows_together(const pop_reduce *s)
{
    return s->segments == 1 && ((s->run >= s->n && !s->decode) || s->n <= POP_GATHERED_ELEMENTS);
}

/* Addresses of rows, from the one at `index` and `at` on, which both move on: of rows that are gathered or decoded, in the arena. */
static const char *pop_reduce_next_rows(const pop_reduce_walk *w, const char *at, int64_t *index, int64_t count, const char **to)
{
    const pop_reduce *s = w->spec;
    const int direct = s->run >= s->n, last = s->kept_count - 1;
    const int64_t stride = s->kept[last].stride;
    for (int64_t i = 0; i < count;) {
        const int64_t here = pop_least(count - i, s->kept[last].extent - index[last]);
        if (direct && !s->decode)
            for (int64_t k = 0; k < here; k++) to[i + k] = at + k * stride;
        else
            for (int64_t k = 0; k < here; k++) to[i + k] = pop_reduce_read(w, at + k * stride, 0, s->n, (i + k) * s->n, direct);
        i += here;
        at += here * stride;
        index[last] += here;
        if (index[last] == s->kept[last].extent) {
            at += pop_reduce_next(s->kept, s->kept_count, index) - s->kept[last].extent * stride;
            index[last] = 0;
        }
    }
    return at;
}

/* Rows of a segment each: results from `first` on. Whole blocks of all of them, then what is left of each. */
static void pop_reduce_short_rows(pop_reduce_walk *w, int64_t first, int64_t count)
{
    const pop_reduce *s = w->spec;
    const int64_t blocks = s->n / POP_BLOCK, whole = blocks * POP_BLOCK, rest = s->n - whole, bytes = pop_reduce_read_bytes(s);
    const int64_t fit = s->run >= s->n && !s->decode ? POP_STRIP : POP_GATHERED_ELEMENTS / s->n;
    const int to_ends = !POP_ONE_BODY && blocks && rest && !w->does->rows_after && !w->does->find && blocks < POP_STRIP / POP_LANES;
    const int64_t most = pop_least(fit, to_ends ? (POP_STRIP - POP_LANES) / (blocks + 1) : blocks ? POP_STRIP / blocks : POP_STRIP);
    const char *rows[POP_STRIP];
    int64_t index[POP_REDUCE_AXES];
    const char *at = w->tile->operands[0] + pop_reduce_offset(s->kept, s->kept_count, first, index);
    while (count > 0) {
        const int64_t here = pop_least(count, most);
        at = pop_reduce_next_rows(w, at, index, here, rows);
        if (to_ends) pop_reduce_rows_to_their_ends(w, rows, here);
        if (blocks && !to_ends) {
            for (int64_t k = 0; k < blocks; k++)
                for (int64_t i = 0; i < here; i++) w->rows[i * blocks + k] = rows[i] + k * POP_BLOCK * bytes;
            pop_reduce_blocks(w, POP_BLOCK, 0, here * blocks);
            if (w->does->find)
                for (int64_t i = 0; i < here * blocks; i++) w->more.b[i] += (double)(i % blocks * POP_BLOCK);
            pop_state_merge_runs(s->state, &w->held, &w->more, POP_BLOCK, blocks, here);
        }
        if (rest && !to_ends) {
            for (int64_t i = 0; i < here; i++) w->rows[i] = rows[i] + whole * bytes;
            pop_reduce_blocks(w, rest, whole, here);
            pop_state_merge_all(s->state, &w->held, whole, &w->more, rest, here);
        }
        if (w->does->find)
            for (int64_t i = 0; i < here; i++) pop_reduce_find_within(w, i, rows[i], 0, s->n);
        pop_reduce_write(w, &w->held, first, 1, here);
        first += here;
        count -= here;
    }
}

static void pop_reduce_long_row(pop_reduce_walk *w, int64_t unit)
{
    const pop_reduce *s = w->spec;
    const int64_t output = unit / s->segments, segment = unit % s->segments;
    int64_t index[POP_REDUCE_AXES];
    const char *row = w->tile->operands[0] + pop_reduce_offset(s->kept, s->kept_count, output, index);
    pop_reduce_segment(w, row, segment);
    pop_reduce_settle(w, output, segment, 1);
}

/* Whole segments of one row that lies as kernels read it: between blocks the CPU stops asking for what comes next. */
static void pop_reduce_segments(pop_reduce_walk *w, int64_t output, int64_t segment, int64_t count)
{
    const pop_reduce *s = w->spec;
    const int64_t begin = segment * POP_SEGMENT, blocks = POP_SEGMENT / POP_BLOCK;
    int64_t index[POP_REDUCE_AXES];
    const char *p = w->tile->operands[0] + pop_reduce_offset(s->kept, s->kept_count, output, index) + begin * s->code_bytes;
    for (int64_t i = 0; i < count * blocks; i++) w->rows[i] = p + i * POP_BLOCK * s->code_bytes;
    pop_reduce_blocks(w, POP_BLOCK, begin, count * blocks);
    if (w->does->find)
        for (int64_t i = 0; i < count * blocks; i++) w->more.b[i] += (double)(i * POP_BLOCK);
    pop_state_merge_runs(s->state, &w->held, &w->more, POP_BLOCK, blocks, count);
    if (w->does->find)
        for (int64_t i = 0; i < count; i++) pop_reduce_find_within(w, i, p, begin, begin + count * POP_SEGMENT);
    pop_reduce_settle(w, output, segment, count);
}

static void pop_reduce_long_rows(pop_reduce_walk *w, int64_t unit, int64_t count)
{
    const pop_reduce *s = w->spec;
    const int64_t whole = s->run >= s->n && !s->decode && s->segments > 1 ? s->n / POP_SEGMENT : 0;
    const int64_t most = w->does->rows_after ? 1 : POP_STRIP * POP_BLOCK / POP_SEGMENT; /* a second pass finds it in cache */
    for (int64_t end = unit + count, here; unit < end; unit += here) {
        const int64_t segment = unit % s->segments;
        here = pop_least(pop_least(end - unit, most), whole - segment);
        if (here > 0) pop_reduce_segments(w, unit / s->segments, segment, here);
        else pop_reduce_long_row(w, unit), here = 1;
    }
}

/* The tree of a block of columns: its rows of memory, and where results go. */
typedef struct pop_reduce_tree {
    const pop_reduce_walk *walk;
    pop_reduce_chain chain;
    pop_reduce_joiner joiner;
    const float *shift;
    int64_t rows, width, column;
    float *const *out;
} pop_reduce_tree;

static float *pop_tree_level(const pop_reduce_tree *t, int plane, int level)
{
    pop_reduce_room *room = (pop_reduce_room *)(void *)t->walk->tile->scratch;
    return level ? room->tree[plane][level - 1] : t->out[plane];
}

static void pop_tree_chain(const pop_reduce_tree *t, int64_t row, int level, int joins)
{
    const pop_reduce *s = t->walk->spec;
    pop_reduce_room *room = (pop_reduce_room *)(void *)t->walk->tile->scratch;
    float *out[2] = {pop_tree_level(t, 0, level), pop_tree_level(t, 1, level)};
    const char *rows[POP_STEPS];
    int64_t count = 0;
    for (int64_t r = row; r < t->rows; r += POP_STRIDE, count++) {
        rows[count] = t->walk->rows[r] + t->column;
        if (!s->decode) continue;
        float *numbers = room->numbers + count * POP_STRIP;
        ((pop_decoder)s->decode)(&s->read, rows[count], numbers, t->width);
        rows[count] = (const char *)numbers;
    }
    t->chain(rows, count, t->width, t->shift, out, joins);
}

static void pop_tree_join(const pop_reduce_tree *t, int level)
{
    float *to[2] = {pop_tree_level(t, 0, level), pop_tree_level(t, 1, level)};
    float *from[2] = {pop_tree_level(t, 0, level + 1), pop_tree_level(t, 1, level + 1)};
    t->joiner(to, from, t->width);
}

/* The steps of `parts` parts from a row on, to a level. */
static void pop_tree_parts(const pop_reduce_tree *t, int64_t row, int parts, int level)
{
    if (parts == 2) {
        pop_tree_chain(t, row, level, 0);
        if (row + POP_WAYS < t->rows) pop_tree_chain(t, row + POP_WAYS, level, 1);
        return;
    }
    pop_tree_parts(t, row, parts / 2, level);
    if (row + parts / 2 * POP_WAYS >= t->rows) return;
    pop_tree_parts(t, row + parts / 2 * POP_WAYS, parts / 2, level + 1);
    pop_tree_join(t, level);
}

/* The steps of lanes that are `apart` from each other, from a lane on. */
static void pop_tree_lanes(const pop_reduce_tree *t, int64_t lane, int apart, int level)
{
    if (apart == POP_WAYS) {
        pop_tree_parts(t, lane, POP_PARTS, level);
        return;
    }
    pop_tree_lanes(t, lane, 2 * apart, level);
    if (lane + apart >= t->rows) return;
    pop_tree_lanes(t, lane + apart, 2 * apart, level + 1);
    pop_tree_join(t, level);
}

/* The block: where few rows lie as kernels read them, in one walk, but at the portable level, whose vectors are short. */
static void pop_reduce_tree_of(const pop_reduce_tree *t, pop_reduce_few few)
{
    if (!POP_ONE_BODY && t->rows <= POP_STRIDE && !t->walk->spec->decode) few(t->walk->rows, t->rows, t->column, t->width, t->shift, t->out);
    else pop_tree_lanes(t, 0, 1, 0);
}

/* A block of columns, whose rows of memory are in w->rows, to `more`. */
static void pop_reduce_column_block(pop_reduce_walk *w, int64_t n, int64_t begin, int64_t column, int64_t width)
{
    const pop_reduce *s = w->spec;
    pop_block_results *r = &w->results;
    float *out[2] = {r->first, r->second};
    const pop_reduce_tree first = {w, w->does->chain, w->does->joiner, NULL, n, width, column * s->code_bytes, out};
    if (w->does->places) {
        for (int64_t i = 0; i < n; i++) w->rows[i] += column * s->code_bytes;
        w->does->places(w->rows, n, width, r->first, r->place);
        for (int64_t i = 0; i < n; i++) w->rows[i] -= column * s->code_bytes;
    } else {
        pop_reduce_tree_of(&first, w->does->few);
    }
    if (w->does->chain_after) {
        const pop_reduce_tree after = {w, w->does->chain_after, w->does->joiner_after, r->shift, n, width, first.column, out};
        pop_reduce_shifts(s, r, n, width);
        pop_reduce_tree_of(&after, w->does->few_after);
    }
    pop_state_begin(s->state, &w->more, r, n, begin, width);
}

/* A segment of a strip of columns. */
static void pop_reduce_columns(pop_reduce_walk *w, int64_t unit)
{
    const pop_reduce *s = w->spec;
    const pop_reduce_axis *inner = s->kept + s->kept_count - 1;
    const int64_t strips = (inner->extent + POP_STRIP - 1) / POP_STRIP, segment = unit % s->segments;
    const int64_t column = unit / s->segments % strips * POP_STRIP, width = pop_least(POP_STRIP, inner->extent - column);
    const int64_t begin = segment * POP_SEGMENT, end = pop_least(s->n, begin + POP_SEGMENT);
    int64_t index[POP_REDUCE_AXES], output = column * inner->out;
    const char *base = w->tile->operands[0]
                       + pop_reduce_offset(s->kept, s->kept_count - 1, unit / s->segments / strips, index);
    for (int d = 0; d < s->kept_count - 1; d++) output += index[d] * s->kept[d].out;
    if (s->n <= POP_BLOCK) { /* one block is one segment, and the row: nothing is merged */
        pop_reduce_addresses(s, base, 0, s->n, w->rows);
        pop_reduce_column_block(w, s->n, 0, column, width);
        pop_reduce_write(w, &w->more, output, inner->out, width);
        return;
    }
    for (int64_t r = begin; r < end; r += POP_BLOCK) {
        const int64_t n = pop_least(POP_BLOCK, end - r);
        pop_reduce_addresses(s, base, r, n, w->rows);
        pop_reduce_column_block(w, n, r, column, width);
        pop_state_merge_all(s->state, &w->held, r - begin, &w->more, n, width);
    }
    if (!s->whole_rows) {
        pop_reduce_put(w, segment, output, inner->out, 0, width);
        return;
    }
    pop_state_merge_all(s->state, &w->row, begin, &w->held, end - begin, width);
    if (end == s->n) pop_reduce_write(w, &w->row, output, inner->out, width);
}

static __attribute__((noinline)) void pop_reduce_vertex(const void *work, const pop_tile *tile, const pop_reduction *does)
{
    const pop_reduce_item *item = (const pop_reduce_item *)work;
    pop_reduce_walk w;
    w.spec = item->spec, w.does = does, w.tile = tile;
    const int64_t each = w.spec->whole_rows ? w.spec->segments : 1, first = item->first * each, count = item->count * each;
    if (w.spec->by_columns) {
        for (int64_t i = 0; i < count; i++) pop_reduce_columns(&w, first + i);
    } else if (pop_reduce_rows_together(w.spec)) {
        pop_reduce_short_rows(&w, first, count);
    } else {
        pop_reduce_long_rows(&w, first, count);
    }
}

/* The states of segments to results. */
static void pop_reduce_merge(const void *work, const pop_tile *tile)
{
    const pop_reduce_item *item = (const pop_reduce_item *)work;
    const pop_reduce *s = item->spec;
    pop_reduce_walk w;
    w.spec = s, w.tile = tile;
    for (int64_t first = item->first, end = first + item->count; first < end; first += POP_STRIP) {
        const int64_t count = pop_least(POP_STRIP, end - first);
        for (int64_t segment = 0; segment < s->segments; segment++) {
            const double *a = (const double *)(void *)tile->operands[2] + 2 * segment * s->outputs + first, *b = a + s->outputs;
            memcpy(w.more.a, a, (size_t)count * sizeof *a);
            memcpy(w.more.b, b, (size_t)count * sizeof *b);
            pop_state_merge_all(s->state, &w.held, segment * POP_SEGMENT, &w.more,
                                pop_least(POP_SEGMENT, s->n - segment * POP_SEGMENT), count);
        }
        pop_reduce_write(&w, &w.held, first, 1, count);
    }
}
#endif
