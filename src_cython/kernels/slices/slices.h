/* The slices family: rows, windows and elements of a table, read and changed by index.
 *
 * Resolving an index (resolve.h) is the only way to a place of the table, so that no index whatever leads out of it. Sums of
 * FP32 and of whole numbers are made where they are, in the order of the indices; those of other formats in FP32, and each
 * is rounded once (update.h). All levels, and any number of threads, give the same bits. */
#ifndef POP_SLICES_H
#define POP_SLICES_H
#include "kernels/slices/bag.h"
#include "kernels/slices/sequence.h"

#define POP_SLICES_ROW(op, function, unit)                                                                            \
    {op, "any", op, POP_FUNCTION(function), {1, 1, 1}, {1, 1, unit}, POP_CONSISTENT}

static const pop_kernel POP_SLICES_KERNELS[] = {
    POP_SLICES_ROW("check", pop_slices_check, 1),
    POP_SLICES_ROW("take", pop_slices_take, 1),
    POP_SLICES_ROW("bag", pop_slices_bag, sizeof(pop_slices_room)),
    POP_SLICES_ROW("sequence", pop_slices_sequence, 1),
    POP_SLICES_ROW("put", pop_slices_put, sizeof(pop_slices_room)), /* what the lowering must know */
};
#endif
