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

#define POP_SORT_ROW(op) {#op, "any", #op, POP_FUNCTION(pop_##op##_vertex), {1, 1, 1}, {1, 1, 1}, POP_CONSISTENT}
static const pop_kernel POP_SORT_KERNELS[] = {
    POP_SORT_ROW(sort),
    POP_SORT_ROW(order),
    POP_SORT_ROW(partition),
};
#endif
