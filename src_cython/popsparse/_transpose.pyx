"""The index of a pattern's transpose, in two passes over its blocks."""

from libc.stdint cimport int32_t, int64_t

import numpy as np


cdef void count_and_place(const int64_t *offsets, int64_t block_rows, const int32_t *columns, int64_t block_columns,
                          int64_t *new_offsets, int32_t *rows, int32_t *order) noexcept nogil:
    """One group: new_offsets[0 .. block_columns] begin at new_offsets[0], the group's first block."""
    cdef int64_t row, q, c, place
    cdef int64_t first = offsets[0]
    for c in range(block_columns):
        new_offsets[c + 1] = 0
    for q in range(first, offsets[block_rows]):
        new_offsets[columns[q] + 1] += 1
    for c in range(block_columns):
        new_offsets[c + 1] += new_offsets[c]
    for row in range(block_rows):
        for q in range(offsets[row], offsets[row + 1]):
            place = new_offsets[columns[q]]
            new_offsets[columns[q]] = place + 1
            rows[place] = <int32_t>row
            order[place] = <int32_t>q
    for c in range(block_columns, 0, -1):
        new_offsets[c] = new_offsets[c - 1]
    new_offsets[0] = first


def transpose(const int64_t[::1] row_offsets, const int32_t[::1] column_indices, int64_t groups, int64_t block_columns):
    """Return (offsets, block rows, stored places) of the transpose of each group of a checked pattern."""
    cdef int64_t block_rows = (row_offsets.shape[0] - 1) // groups, group, n = column_indices.shape[0]
    offsets = np.zeros(groups * block_columns + 1, np.int64)
    rows, order = np.empty(max(n, 1), np.int32), np.empty(max(n, 1), np.int32)
    cdef int64_t[::1] new_offsets = offsets
    cdef int32_t[::1] new_rows = rows, new_order = order
    cdef const int32_t *columns = &column_indices[0] if n else NULL
    with nogil:
        for group in range(groups):
            count_and_place(&row_offsets[group * block_rows], block_rows, columns, block_columns,
                            &new_offsets[group * block_columns], &new_rows[0], &new_order[0])
    return offsets, rows, order
