/* Gradients of sums and averages of windows of 2 and 3 by 2 where lanes are positions, at levels of eight lanes: sixteen elements of each
 * row, down all rows of a unit, then the next sixteen. Rows of gradients stay in registers for the next row. The bits are those of walk.h. */
#ifndef POP_POOL_SHARES_H
#define POP_POOL_SHARES_H
#include "kernels/pool/column_tables.h"

/* Side by side again, and rounded; those of a phase that has one number to take need no rounding to BF16. */
POP_INLINE void pop_pool_put_pair(const int format, const int exact_a, const int exact_b, char *to, pop_pool_pair x)
{
    if (format == 0) {
        pop_pool_store_pair(0, to, 0, x, 2 * POP_LANES);
        return;
    }
    const __m256i codes = format == 1 ? pop_pool_f16_of_pair(x) : pop_pool_bf16_of_pair(exact_a, exact_b, x);
    _mm256_storeu_si256((__m256i *)(void *)to, codes);
}

/* What windows bring to sixteen elements of rows [row, end); `by`: factors of windows, or NULL. */
POP_INLINE void pop_pool_shares_down(const int format, const int kind, const int whole, const pop_pool_column *column,
                                     const pop_pool_column_row *row, const pop_pool_column_row *end, const float *by, const char *grads, char *to)
{
    const int64_t bytes = format ? 2 : 4;
    const int vectors = kind ? 2 : 1;
    const pop_v_f zero = pop_v_splat(0.0f);
    pop_pool_column c; /* which nothing that is written may be */
    pop_v_f last[2] = {zero, zero}, factors[2];
    int64_t number = -1;
    for (int v = 0; v < vectors; v++) {
        c.from[v] = column->from[v], c.order[v] = column->order[v], c.there[v] = column->there[v];
        factors[v] = by ? pop_v_load_f(by + c.from[v]) : pop_v_splat(1.0f);
    }
    for (; row < end; row++) {
        pop_v_f own[2] = {zero, zero};
        for (int64_t j = 0; j < row->count; j++) {
            const pop_v_f weight = pop_v_splat(row->weights[j]);
            if (row->at[j] != number)
                for (int v = 0; v < vectors; v++) last[v] = pop_pool_load(format, grads + row->at[j] * bytes, c.from[v], POP_LANES);
            number = row->at[j];
            for (int v = 0; v < vectors; v++) own[v] = pop_v_fma(last[v], weight, own[v]);
        }
        for (int v = 0; v < vectors; v++) {
            own[v] = own[v] * factors[v];
            if (!whole) own[v] = _mm256_and_ps(_mm256_permutevar8x32_ps(own[v], c.order[v]), c.there[v]);
        }
        /* what is -0 becomes +0 */
        const pop_v_f first = own[0] + zero, second = own[vectors - 1] + zero, both = kind ? own[0] + own[1] + zero : first;
        const pop_pool_pair z = {kind == 2 ? both : first, kind == 1 ? both : second};
        pop_pool_put_pair(format, 0, 0, to + row->made * bytes, z);
    }
}

POP_INLINE void pop_pool_shares_of_rows(const pop_pool_unit *u, const int format, const int kind, const pop_pool_columns *columns)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = u->segment;
    const int64_t bytes = format ? 2 : 4;
    const float *by = s->multipliers ? s->multipliers + g->read : NULL;
    const char *grads = pop_pool_base(u, s->operands) + g->read * bytes;
    char *to = pop_pool_base(u, s->operands + 3) + g->made * bytes;
    for (const pop_pool_column_row *row = columns->near, *last = row + columns->rows, *end; row < last; row = end) {
        end = last - row > columns->some ? row + columns->some : last;
        for (const pop_pool_column *c = columns->column; c < columns->column + columns->count; c++) {
            if (c->whole) pop_pool_shares_down(format, kind, 1, c, row, end, by, grads, to + c->made * bytes);
            else pop_pool_shares_down(format, kind, 0, c, row, end, by, grads, to + c->made * bytes);
        }
    }
}

#define POP_POOL_SHARES(format, kind)                                                                                 \
    static __attribute__((noinline)) void pop_pool_shares_##format##_##kind(const pop_pool_unit *u, const pop_pool_columns *columns) \
    {                                                                                                                 \
        pop_pool_shares_of_rows(u, format, kind, columns);                                                            \
    }
#define POP_POOL_SHARES_OF(format) POP_POOL_SHARES(format, 0) POP_POOL_SHARES(format, 1) POP_POOL_SHARES(format, 2)
POP_POOL_SHARES_OF(0)
POP_POOL_SHARES_OF(1)
POP_POOL_SHARES_OF(2)
static void (*const pop_pool_shares_of[3][3])(const pop_pool_unit *, const pop_pool_columns *) = {
    {pop_pool_shares_0_0, pop_pool_shares_0_1, pop_pool_shares_0_2},
    {pop_pool_shares_1_0, pop_pool_shares_1_1, pop_pool_shares_1_2},
    {pop_pool_shares_2_0, pop_pool_shares_2_1, pop_pool_shares_2_2}};

static int pop_pool_by_shares(const pop_pool_unit *u, const pop_pool_reach *r, pop_pool_columns *columns, int format)
{
    if (!pop_pool_is_found(u, columns)) pop_pool_find_pairs(u, r, columns);
    if (columns->count) pop_pool_shares_of[format][columns->kind](u, columns);
    return columns->count != 0;
}
#endif
