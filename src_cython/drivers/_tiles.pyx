"""Sparse products as the tiles of a modelled machine make them: block after block, each sum a chain in that order.

Values, the dense operand and the sums are FP32 numbers that hold values of the plan's types. Where sums are half, a
kernel rounds them behind each block.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from kernels.products cimport pop_dot_multiply, pop_dot_round
from pop_records cimport pop_dot_block, pop_tile_blocks
from program.program cimport pop_tile

from poplibs_py.kernels.records import dtype_of

from poplibs_py.whole cimport imin

cdef extern from *:
    """
    #define POP_RECORDS "records/tiles.def"
    #include "records/structs.h"
    """

BLOCKS = dtype_of("pop_tile_blocks")


cdef void multiply_blocks(const void *given, const pop_tile *tile) noexcept nogil:
    """Add the products of a tile's blocks to its sums."""
    cdef const pop_tile_blocks *item = <const pop_tile_blocks *>given
    cdef const int64_t *entry = <const int64_t *>item.table
    cdef const char *values = tile.operands[item.values] + item.values_first
    cdef const char *x = tile.operands[item.x] + item.x_first
    cdef char *sums = tile.operands[item.sums] + item.sums_first
    cdef pop_dot_block block
    cdef int64_t _, row, column
    memset(&block, 0, sizeof(block))
    block.a_row, block.a_cell = item.value_row, item.value_cell
    block.b_cell, block.b_col = item.x_row, 4
    block.c_row, block.cells = item.columns, item.cells
    block.accumulate = 1
    for _ in range(item.count):
        for row from 0 <= row < item.side by item.high:
            block.rows = imin(item.high, item.side - row)
            block.a = values + entry[0] + row * item.value_row
            for column from 0 <= column < item.columns by item.wide:
                block.cols = imin(item.wide, item.columns - column)
                block.b = x + entry[1] + 4 * column
                block.c = <float *>(sums + entry[2]) + row * item.columns + column
                (<pop_dot_multiply>item.multiply)(&block)
        if item.rounding:
            (<pop_dot_round>item.rounding)(<float *>(sums + entry[2]), item.side * item.columns)
        entry += 3


BLOCKS_VERTEX = <size_t>&multiply_blocks
