/* The work items of the sparse vertices; poplibs_py.popsparse.products.items mirrors them. Every offset and stride is in
 * bytes unless it says elements. */
#ifndef POP_SPARSE_ITEM_H
#define POP_SPARSE_ITEM_H
#include <stdint.h>

/* Y[rows, columns] = W X for one part of one group's block rows. The operands are named by number; `order` is -1 when
 * the values of a block row lie in the order of the pattern. With the pattern's transpose, and the strides inside a block
 * exchanged, the same item is W' X. An item does not know the pattern, so that a program serves every pattern. */
typedef struct pop_sparse_item {
    int64_t offsets, inner, order, values, x, y; /* operands */
    int64_t origin, n_rows;                      /* the group's first block row, and how many it has */
    int64_t part, parts;                         /* which share of their work */
    int64_t rows, depth, columns;                /* elements: of the group's output, of its input, of this item */
    int64_t block_rows, block_depth;             /* elements of a block along the output and along the sum */
    int64_t value_block, value_row, value_depth; /* strides of the values */
    int64_t x_offset, x_row, y_offset, y_row;
    int64_t strip;  /* columns that are walked together */
    int64_t stream; /* 1: past the caches, where a row of Y begins on a cache line */
} pop_sparse_item;

/* The first block row of a share: work is one for each stored block and one for each block row. */
static inline int64_t pop_sparse_first(const int64_t *offsets, int64_t origin, int64_t n_rows, int64_t part, int64_t parts)
{
    int64_t low = 0, high = n_rows;
    const int64_t work = offsets[origin + n_rows] - offsets[origin] + n_rows, goal = work * part / parts;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (offsets[origin + middle] - offsets[origin] + middle < goal) low = middle + 1;
        else high = middle;
    }
    return origin + low;
}
#endif
