"""The check that every block pattern passes before a kernel may trust it: one pass over its indices."""

from libc.stdint cimport int32_t, int64_t

cdef enum:
    GOOD = 0
    START = 1      # row_offsets do not begin at 0
    DESCENT = 2    # row_offsets descend
    END = 3        # row_offsets do not end at the number of blocks
    RANGE = 4      # a column index lies outside the matrix
    DUPLICATE = 5  # a block is given twice
    ORDER = 6      # the column indices of a row do not ascend


cdef (int, int64_t) find_fault(const int64_t *offsets, int64_t rows, const int32_t *columns, int64_t blocks,
                               int64_t block_columns) noexcept nogil:
    cdef int64_t row, i, last
    cdef int32_t column
    cdef int late = GOOD
    cdef int64_t late_at = 0
    if offsets[0] != 0:
        return START, 0
    for row in range(rows):
        if offsets[row + 1] < offsets[row]:
            return DESCENT, row + 1
    if offsets[rows] != blocks:
        return END, rows
    for row in range(rows):
        last = -1
        for i in range(offsets[row], offsets[row + 1]):
            column = columns[i]
            if column < 0 or column >= block_columns:
                return RANGE, i
            if column <= last and late == GOOD:
                late = DUPLICATE if column == last else ORDER
                late_at = i
            last = column
    return late, late_at


def check(const int64_t[::1] row_offsets, const int32_t[::1] column_indices, int64_t block_columns):
    """Return what is wrong with a pattern and where.

    The first is "" (nothing), "start", "descent", "end", "range", "duplicate" or "order"; the second is a position in
    `row_offsets` for the first three faults, in `column_indices` for the others.
    """
    cdef int64_t rows = row_offsets.shape[0] - 1, blocks = column_indices.shape[0], position
    cdef int fault
    cdef const int32_t *columns = &column_indices[0] if blocks else NULL
    with nogil:
        fault, position = find_fault(&row_offsets[0], rows, columns, blocks, block_columns)
    return ("", "start", "descent", "end", "range", "duplicate", "order")[fault], position
