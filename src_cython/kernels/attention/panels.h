/* Tokens as the kernels of dense products (kernels/dot/) take them, and the calls of those kernels. */
#ifndef POP_ATTENTION_PANELS_H
#define POP_ATTENTION_PANELS_H
#include "kernels/dot/dot.h"
#include "kernels/rows/sums.h"

#define POP_RECORDS "records/attention.def"
#include "records/structs.h"

POP_INLINE int64_t pop_rounded(int64_t n, int64_t grain) { return (n + grain - 1) / grain * grain; }
POP_INLINE int64_t pop_lesser(int64_t a, int64_t b) { return a < b ? a : b; }

/* Where the tokens of a head are. */
POP_INLINE char *pop_attention_at(const pop_attention_operand *o, const pop_tile *tile, int64_t batch, int64_t head)
{
    return o->operand < 0 ? NULL : tile->operands[o->operand] + batch * o->batch + head * o->head;
}

static void pop_attention_decode(const pop_attention_operand *o, const char *from, char *to)
{
    ((pop_dot_decode)o->decode)(&o->format, from, to, NULL, o->width);
}

/* Tokens to rows of cells along the elements, with zeros beyond them. */
static void pop_attention_rows(const pop_attention *s, const pop_attention_operand *o, const char *from, int64_t tokens, char *to,
                               int64_t cells)
{
    const int64_t own = 4 / s->elements * o->width;
    for (int64_t i = 0; i < tokens; i++, from += o->token, to += 4 * cells) {
        pop_attention_decode(o, from, to);
        memset(to + own, 0, (size_t)(4 * cells - own));
    }
}

/* Whether tokens are rows of cells where they lie. */
POP_INLINE int pop_attention_is_direct(const pop_attention *s, const pop_attention_operand *o, int64_t cells)
{
    return o->copied && cells * s->elements == o->width;
}

/* Rows of cells: where, and how many bytes apart. */
typedef struct pop_attention_cells { const char *at; int64_t row; } pop_attention_cells;

/* Tokens to lines of cells across them, in panels. */
static void pop_attention_across(const pop_attention *s, const pop_attention_operand *o, const char *from, int64_t tokens,
                                 char *to, int64_t cells, char *stage)
{
    const int direct = pop_attention_is_direct(s, o, cells);
    const int64_t wide = s->panel;
    for (int64_t j = 0; j < tokens; j += 16, from += 16 * o->token) {
        const int64_t lines = pop_lesser(16, tokens - j);
        const char *source = direct ? from : stage;
        if (!direct) pop_attention_rows(s, o, from, lines, stage, cells);
        ((pop_dot_transpose)s->transpose)(source, direct ? o->token : 4 * cells, lines, cells,
                                          to + 4 * (j / wide * wide * cells + j % wide), 4 * wide);
    }
}

/* Tokens to lines of cells across their elements: a token a line, or two, zeros where there is none. */
static void pop_attention_lines(const pop_attention *s, const pop_attention_operand *o, const char *from, int64_t tokens, char *to,
                                int64_t line, char *stage)
{
    const int64_t depth = pop_rounded(tokens, s->depth_grain);
    if (s->elements == 1) {
        for (int64_t i = 0; i < tokens; i++) pop_attention_decode(o, from + i * o->token, to + 4 * i * line);
        return;
    }
    for (int64_t i = 0; i < depth; i += 2, to += 4 * line) {
        const char *pair[2];
        for (int half = 0; half < 2; half++) {
            const char *token = from + (i + half) * o->token;
            char *room = stage + half * pop_rounded(2 * o->width, 64);
            pair[half] = o->copied && i + half < tokens ? token : room;
            if (i + half >= tokens) memset(room, 0, (size_t)(2 * o->width));
            else if (!o->copied) pop_attention_decode(o, token, room);
        }
        ((pop_dot_interleave)s->interleave)((const uint16_t *)(const void *)pair[0], (const uint16_t *)(const void *)pair[1],
                                            (uint16_t *)(void *)to, o->width);
    }
}

/* Two rows of n BF16 numbers to one of cells, over a strip; zeros beside the last of an odd number. */
static void pop_attention_pairs(const pop_attention *s, const char *from, int64_t rows, int64_t n, char *to, char *stage)
{
    if (rows % 2) memset(stage, 0, (size_t)(2 * n));
    for (int64_t i = 0; i < rows; i += 2, to += 4 * s->score_line) {
        const char *even = from + 2 * i * s->score_line, *odd = i + 1 < rows ? even + 2 * s->score_line : stage;
        ((pop_dot_interleave)s->interleave)((const uint16_t *)(const void *)even, (const uint16_t *)(const void *)odd,
                                            (uint16_t *)(void *)to, n);
    }
}

/* The bytes from a row of turned pairs to the next: whole steps of a matrix unit. */
POP_INLINE int64_t pop_attention_turned_row(const pop_attention *s, int64_t rows)
{
    return 4 * (pop_rounded(rows, s->depth_grain) / s->elements);
}

/* The pairs of a strip, cells across columns, to rows of cells for each column, which a matrix unit takes; zeros beyond the last. */
static void pop_attention_turn_pairs(const pop_attention *s, const char *pairs, int64_t rows, int64_t columns, char *to)
{
    const int64_t cells = pop_rounded(rows, s->elements) / s->elements, line = 4 * s->score_line, row = pop_attention_turned_row(s, rows);
    for (int64_t i = 0; 4 * i < row; i += 16)
        ((pop_dot_transpose)s->transpose)(pairs + i * line, line, pop_lesser(16, cells - i), columns, to + 4 * i, row);
}

/* A product: rows of A by columns of panels of B, `wide` each, which lie `panel` bytes apart, over `cells` cells of depth. Rows are
 * dealt out evenly: a kernel's few last ones would wait for their sums. A matrix unit takes whole tiles of them, those beyond the last row too
 * where there is room for their sums. */
static void pop_attention_multiply(const pop_attention *s, pop_dot_block t, int64_t rows, int64_t cols, int64_t wide, int64_t panel, int room)
{
    const char *a = t.a;
    float *c = t.c;
    const int64_t most = wide < s->cols_at_once ? s->panel_rows : s->rows_at_once, calls = (rows + most - 1) / most;
    const int64_t grain = s->row_grain, units = (rows + grain - 1) / grain;
    for (int64_t j = 0; j < cols; j += wide, t.b += panel) {
        t.cols = pop_lesser(wide, cols - j);
        for (int64_t i = 0; i < calls; i++) {
            const int64_t first = units * i / calls * grain;
            t.rows = pop_lesser(units * (i + 1) / calls * grain, room ? units * grain : rows) - first;
            t.a = a + first * t.a_row;
            t.c = c + first * t.c_row + j;
            ((pop_dot_multiply)s->multiply)(&t);
        }
    }
}

/* A whose rows are `cells` cells, by panels of tokens across. */
POP_INLINE void pop_attention_by_panels(const pop_attention *s, pop_attention_cells a, const char *b, float *c, int64_t c_row,
                                        int64_t rows, int64_t cols, int64_t cells)
{
    const pop_dot_block t = {.a = a.at, .b = b, .c = c, .a_row = a.row, .a_cell = 4, .b_cell = 4 * s->panel,
                             .c_row = c_row, .cells = cells};
    pop_attention_multiply(s, t, rows, cols, s->panel, 4 * s->panel * cells, 1);
}

/* The same by tokens as they lie: they come to a panel, which is multiplied while the first cache has it. */
static void pop_attention_by_new_panels(const pop_attention *s, pop_attention_cells a, const char *from, char *panel, float *c, int64_t c_row,
                                        int64_t rows, int64_t cols, char *stage)
{
    for (int64_t j = 0; j < cols; j += s->panel, from += s->panel * s->k.token) {
        const int64_t some = pop_lesser(s->panel, cols - j);
        pop_attention_across(s, &s->k, from, some, panel, s->q_cells, stage);
        pop_attention_by_panels(s, a, panel, c + j, c_row, rows, some, s->q_cells);
    }
}

/* Lines of tokens after the first run of them: how many runs, so many bytes after a and b each. */
typedef struct pop_attention_runs { int64_t more; const int64_t *a_at, *b_at; } pop_attention_runs;
#define POP_ATTENTION_ONE_RUN ((pop_attention_runs){0, NULL, NULL})

/* A, with its strides, by lines of tokens, `b_cell` bytes apart, added to sums: one cell of depth for each line of a run. */
POP_INLINE void pop_attention_by_lines(const pop_attention *s, const char *a, int64_t a_row, int64_t a_cell, const char *b,
                                       int64_t b_cell, int64_t line, float *c, int64_t rows, int64_t cols, int64_t cells,
                                       pop_attention_runs runs, int room)
{
    const pop_dot_block t = {.a = a, .b = b, .c = c, .a_row = a_row, .a_cell = a_cell, .b_cell = b_cell, .c_row = line,
                             .cells = cells, .accumulate = 1, .more = runs.more, .a_at = runs.a_at, .b_at = runs.b_at};
    pop_attention_multiply(s, t, rows, cols, s->cols_at_once, 4 * s->cols_at_once, room);
}

/* Scores of a few rows with keys that lie as they are, in FP32 sums that ascend, as those by panels do. */
static void pop_attention_by_tokens(const pop_attention *s, pop_attention_cells a, const char *keys, float *c, int64_t c_row,
                                    int64_t rows, int64_t count)
{
    pop_dot_block t = {.a = keys, .b = a.at, .c = c, .a_row = s->k.token, .a_cell = 4, .b_cell = 4, .c_row = 1, .rows = count, .cols = 1,
                       .cells = s->q_cells};
    if (s->across) {
        t = (pop_dot_block){.a = a.at, .b = keys, .c = c, .a_row = a.row, .a_cell = 4, .b_col = s->k.token, .c_row = c_row,
                            .rows = rows, .cols = count, .cells = s->q_cells};
        ((pop_dot_multiply)s->across)(&t);
        return;
    }
    for (int64_t r = 0; r < rows; r++, t.b += a.row, t.c += c_row) ((pop_dot_multiply)s->dots)(&t);
}

/* Weights times values that lie as they are, added to sums; of pairs, what is left of an odd number is paired with zeros. */
static void pop_attention_by_values(const pop_attention *s, const char *a, const char *values, int64_t keys, float *c, int64_t rows,
                                    char *stage)
{
    const int64_t columns = 128, each = s->elements; /* columns that the kernel takes */
    pop_dot_block t = {.a = a, .a_row = 4 / each * s->score_line, .a_cell = 4, .b_cell = each * s->v.token, .b_col = s->v.token,
                       .c_row = s->v_line, .rows = rows, .cells = keys / each, .accumulate = 1};
    for (int64_t j = 0; j < s->v.width; j += columns) {
        t.b = values + s->v.bytes * j, t.c = c + j, t.cols = pop_lesser(columns, s->v.width - j);
        ((pop_dot_multiply)s->apart)(&t);
    }
    if (keys % each == 0) return;
    char *line = stage + 2 * pop_rounded(2 * s->v.width, 64);
    pop_attention_lines(s, &s->v, values + (keys - 1) * s->v.token, 1, line, s->v_line, stage);
    pop_attention_by_lines(s, a + 2 * (keys - 1), 2 * s->score_line, 4, line, 4 * s->v_line, s->v_line, c, rows, s->v.width, 1,
                           POP_ATTENTION_ONE_RUN, 1);
}

/* Sums times a number, rounded to the result's format, or divided by it. */
static void pop_attention_write(const pop_attention_operand *o, float *sums, int64_t line, int64_t rows, float by, char *to)
{
    const pop_v_f factor = pop_v_splat(by);
    for (int64_t r = 0; r < rows; r++, sums += line, to += o->token) {
        if (by != 1.0f)
            POP_ROW_EACH(0, o->width, pop_row_store(sums, i, pop_row_load(sums, i, part) * factor, part); (void)k;);
        if (o->codec) ((pop_encoder)o->codec)(&o->cast, sums, to, o->width, NULL);
        else memcpy(to, sums, (size_t)o->width * sizeof *sums);
    }
}
#endif
