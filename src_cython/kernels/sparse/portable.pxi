# The portable level: plain loops that any C compiler takes, one chain of sums for each element of Y, in the pattern's order.
# Each step is fmaf, rounded once, so that the bits equal those of the levels with FMA instructions.
from libc.string cimport memcpy

cdef extern from "<math.h>" nogil:
    float fmaf(float, float, float)

cdef extern from "kernels/sparse/item.h" nogil:
    ctypedef struct pop_sparse_item:
        int64_t offsets, inner, order, values, x, y
        int64_t origin, n_rows, part, parts, rows, depth, columns
        int64_t block_rows, block_depth, value_block, value_row, value_depth
        int64_t x_offset, x_row, y_offset, y_row, strip, stream
    int64_t pop_sparse_first(const int64_t *offsets, int64_t origin, int64_t n_rows, int64_t part, int64_t parts)

cdef enum:
    PORTABLE_STRIP = 64


cdef inline void portable_strip(const pop_sparse_item *t, const pop_tile *tile, int64_t row, int64_t j,
                                int64_t width) noexcept nogil:
    """One row of Y over `width` columns from j."""
    cdef float total[PORTABLE_STRIP]
    cdef const int64_t *offsets = <const int64_t *>tile.operands[t.offsets]
    cdef const int32_t *inner = <const int32_t *>tile.operands[t.inner]
    cdef const int32_t *order = NULL
    cdef const float *x
    cdef const char *w
    cdef float value
    cdef int64_t q, k, i, depth, block = t.origin + row // t.block_rows
    if t.order >= 0:
        order = <const int32_t *>tile.operands[t.order]
    for i in range(width):
        total[i] = 0
    for q in range(offsets[block], offsets[block + 1]):
        depth = min(t.block_depth, t.depth - inner[q] * t.block_depth)
        w = tile.operands[t.values] + (q if order == NULL else order[q]) * t.value_block
        w += (row % t.block_rows) * t.value_row
        for k in range(depth):
            value = (<const float *>(w + k * t.value_depth))[0]
            x = <const float *>(tile.operands[t.x] + t.x_offset + (inner[q] * t.block_depth + k) * t.x_row) + j
            for i in range(width):
                total[i] = fmaf(value, x[i], total[i])
    memcpy(tile.operands[t.y] + t.y_offset + row * t.y_row + 4 * j, total, 4 * width)


cdef void portable_multiply(const pop_sparse_item *t, const pop_tile *tile) noexcept nogil:
    cdef const int64_t *offsets = <const int64_t *>tile.operands[t.offsets]
    cdef int64_t row, j
    cdef int64_t first = pop_sparse_first(offsets, t.origin, t.n_rows, t.part, t.parts) - t.origin
    cdef int64_t last = pop_sparse_first(offsets, t.origin, t.n_rows, t.part + 1, t.parts) - t.origin
    first *= t.block_rows
    last = min(t.rows, last * t.block_rows)
    for row in range(first, last):
        j = 0
        while j < t.columns:
            portable_strip(t, tile, row, j, min(<int64_t>PORTABLE_STRIP, t.columns - j))
            j += PORTABLE_STRIP


def portable_kernels():
    """Rows of the portable level."""
    return [
        ("multiply", "float32,float32->float32", "portable_float32", <size_t>&portable_multiply,
         (1, 1, 1), (1, PORTABLE_STRIP, 1), 1),
    ]
