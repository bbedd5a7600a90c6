/* The sort family: rows in order, the best of them with their places.
 *
 * Codes become whole numbers whose order is that of what the codes stand for (keys.h): NaN is greatest. Rows alone are sorted
 * by all bits, so that minus zero is before zero and NaNs have an order too; where elements' places count zeros are equal, and
 * so are NaNs, and equal elements stay in the order of their places. So the results are the rows' alone: all levels give the
 * same bits. AVX-512 sorts vectors (quick.h), other levels digits (radix.h). */
#ifndef POP_SORT_H
#define POP_SORT_H
#include "kernels/sort/order.h"
#include "kernels/sort/partition.h"
#include "kernels/sort/rows.h"

/* The operand: the bytes that a row takes in an arena while it is put in order. */
#define POP_SORT_ARENA(op)                                                                                            \
    static void pop_##op##_arena(const void *work, const pop_tile *tile)                                              \
    {                                                                                                                 \
        *(int64_t *)(void *)tile->operands[0] = pop_##op##_bytes(((const pop_sort_item *)work)->spec);                \
    }
POP_SORT_ARENA(sort)
POP_SORT_ARENA(order)
POP_SORT_ARENA(partition)

#define POP_SORT_ROW(op)                                                                                              \
    {#op, "any", #op, POP_FUNCTION(pop_##op##_vertex), {1, 1, 1}, {1, 1, 1}, POP_CONSISTENT},                         \
    {#op "_arena", "any", #op "_arena", POP_FUNCTION(pop_##op##_arena), {1, 1, 1}, {1, 1, 1}, POP_CONSISTENT}
static const pop_kernel POP_SORT_KERNELS[] = {
    POP_SORT_ROW(sort),
    POP_SORT_ROW(order),
    POP_SORT_ROW(partition),
};
#endif
