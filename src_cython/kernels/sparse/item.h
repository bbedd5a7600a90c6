/* The work items of the sparse vertices; poplibs_py.popsparse.products.items mirrors them. Every offset and stride is in
 * bytes unless it says elements. */
#ifndef POP_SPARSE_ITEM_H
#define POP_SPARSE_ITEM_H
#include "kernels/convert.h"

/* The formats that have a dtype, by the number that items carry. */
enum { POP_IS_F32, POP_IS_F16, POP_IS_BF16, POP_IS_F143, POP_IS_F152, POP_IS_E4M3, POP_IS_E5M2 };

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
    int64_t x_offset, x_row, x_column, y_offset, y_row, y_column;
    int64_t x_format, x_scale, y_format, y_scale;
    int64_t strip;   /* columns that are walked together */
    int64_t x_strip; /* from one strip of X to the next */
    int64_t pack;   /* 1: copy each strip of X to a panel first */
    int64_t finish; /* 1: sums take the epilogue; 0: they are written as they are, FP32 with unit stride */
    int64_t stream; /* 1: past the caches, where a row of Y begins on a cache line */
    int64_t bias, bias_offset, activation, overflow; /* of the epilogue; bias, one for each row, is an operand or -1 */
} pop_sparse_item;

/* Codes of any format to FP32 or BF16 values, scaled: the values of a matrix made ready. `scales` is an operand that holds
 * an exponent for each block, or -1 and `scale` serves all. With `pairs` the rows of a block are interleaved two by two
 * (the last of an odd number with zeros), as products of the transpose want BF16; `order` is an operand that says which block
 * of 1 x 1 comes where, or -1. */
typedef struct pop_ready_item {
    int64_t offsets, n_rows; /* operand, block rows: the last offset is how many blocks there are */
    int64_t from, to, scales, order;
    int64_t part, parts;
    int64_t format, scale, block_rows, block_columns;
    int64_t pairs;
} pop_ready_item;

/* The stored blocks of dW = dY X' for one part of one group's block rows. */
typedef struct pop_sample_item {
    int64_t offsets, inner, y, x, to; /* operands */
    int64_t origin, n_rows, part, parts;
    int64_t rows, depth, columns;     /* elements: rows of dY, rows of X, columns of both */
    int64_t block_rows, block_depth;
    int64_t y_offset, y_row, y_column, x_offset, x_row, x_column;
    int64_t y_format, y_scale, x_format, x_scale;
    int64_t y_pack, x_pack; /* 1: decode rows to a panel in scratch */
    int64_t chunk;          /* columns of a panel; all of them where there is none */
    int64_t panel_rows;     /* rows of dY that a panel holds */
    int64_t to_format, to_scale, overflow;
} pop_sample_item;

/* One share of the rows of a dense operand, decoded to FP32 or BF16 rows with unit stride. */
typedef struct pop_panel_item {
    int64_t from, to, from_offset, to_offset;
    int64_t row, column, to_row; /* strides */
    int64_t rows, columns, part, parts;
    int64_t format, scale;
} pop_panel_item;

/* The first block row of a share: work is one for each stored block and one for each block row. */
static inline int64_t pop_sparse_first(const int64_t *offsets, int64_t origin, int64_t n_rows, int64_t part,
                                       int64_t parts)
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

/* What a sweep walks: some block rows of one height, and a strip of columns whose X has unit stride. */
typedef struct pop_sparse_view {
    const int64_t *offsets;
    const int32_t *inner, *order;
    const char *values, *x;
    float *y;               /* the first row of block row `first` */
    int64_t x_row, y_row;   /* bytes, floats */
    int64_t first, last;    /* block rows */
    int64_t height;         /* rows of each */
    int64_t row, groups;    /* first row in a block, groups of rows from there */
    int64_t columns, stream;
    const char *used;       /* of a panel: a byte for each block of X's rows (frame.h) */
} pop_sparse_view;

typedef void (*pop_sparse_sweep)(const pop_sparse_item *t, pop_sparse_view *s);
#endif
