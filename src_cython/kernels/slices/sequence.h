/* Sequences of rows, copied from one array to another: each row by an index on either side. */
#ifndef POP_SLICES_SEQUENCE_H
#define POP_SLICES_SEQUENCE_H
#include "kernels/slices/walk.h"

/* Row `index` of an array of so many, or what is none. */
POP_INLINE int64_t pop_row_of(const pop_slices *s, int64_t index, int64_t limit)
{
    return (uint64_t)index < (uint64_t)limit ? index : pop_bad_index(s->policy, index < 0, (uint64_t)index, limit);
}

/* Operands: the table, int64 arrays of lengths, of first rows of the table and of the result, the result. A thread has rows of
 * the result, and goes through all sequences for those. */
static void pop_slices_sequence(const void *work, const pop_tile *tile)
{
    const pop_slices_item *item = (const pop_slices_item *)work;
    const pop_slices *s = item->spec;
    const pop_slices_component *from = s->components, *to = from + 1;
    const int64_t *lengths = (const int64_t *)(const void *)tile->operands[1];
    const int64_t *begins[2] = {(const int64_t *)(const void *)tile->operands[2], (const int64_t *)(const void *)tile->operands[3]};
    const int64_t starts[POP_SLICES_AXES] = {0};
    for (int64_t k = 0; k < s->lookups; k++) {
        const int64_t length = pop_least(lengths[k], to->limit), begin = begins[0][k], onto = begins[1][k];
        for (int64_t j = 0; j < length; j++) {
            const int64_t target = pop_row_of(s, (int64_t)((uint64_t)onto + (uint64_t)j), to->limit);
            if (!POP_IS_PLACE(target) || target < item->first || target >= item->first + item->count) continue;
            const int64_t source = pop_row_of(s, (int64_t)((uint64_t)begin + (uint64_t)j), from->limit);
            pop_copying copying = {s, tile->operands[4] + target * to->step};
            if (source == POP_PLACE_SKIPPED) continue;
            char *row = tile->operands[0] + (POP_IS_PLACE(source) ? source * from->step : 0);
            if (!POP_IS_PLACE(source)) pop_fill_slice(s, copying.out, 0);
            else if (s->row) pop_copy(copying.out, row, s->row);
            else pop_walk(s, 0, row, 0, starts, pop_run_copy, &copying);
        }
    }
}
#endif
