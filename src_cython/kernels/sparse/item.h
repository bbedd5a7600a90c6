/* The work items of the sparse vertices, how block rows are shared out, and what a sweep walks. */
#ifndef POP_SPARSE_ITEM_H
#define POP_SPARSE_ITEM_H
#include "formats/codec.h"

#define POP_RECORDS "records/sparse.def"
#include "records/structs.h"

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
    float *y;               /* the first row of block row `first`; of halves where `y_format` is one */
    int64_t x_row, y_row;   /* bytes, elements */
    int64_t y_format, y_bytes;
    int64_t first, last;    /* block rows */
    int64_t height;         /* rows of each */
    int64_t row, groups;    /* first row in a block, groups of rows from there */
    int64_t columns, stream;
    const char *used;       /* of a panel: a byte for each block of X's rows (frame.h) */
} pop_sparse_view;

/* A place in Y. */
static inline float *pop_sparse_at(const pop_sparse_view *s, int64_t row, int64_t column)
{
    return (float *)((char *)s->y + (row * s->y_row + column) * s->y_bytes);
}

typedef void (*pop_sparse_sweep)(const pop_sparse_item *t, pop_sparse_view *s);
#endif
