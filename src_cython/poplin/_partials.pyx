"""What happens to a modelled machine's partial sums after the tiles have made them: reduce, add in place, cast out.

Partial sums are FP32 numbers that hold values of the plan's types: a kernel rounds them where that type is half.
"""

from libc.stdint cimport int64_t

from kernels.products cimport pop_dot_round, pop_epilogue, pop_epilogue_kernel, pop_format
from program.program cimport pop_tile

import numpy as np

cdef struct Reduce:
    int64_t first, to, count  # first partial, first sum, and how many sums this item makes
    int64_t fan_in, step  # partials of a sum, and numbers from one to the next
    int64_t accumulate  # start from what the result holds
    int64_t rounding  # address of a rounding kernel, or 0

cdef struct Finish:
    int64_t first, row, out, rows, cols  # sums: first number, numbers of a row; out: bytes to the first element
    int64_t out_row, out_col, format, overflow, epilogue

REDUCE = np.dtype([(name, np.int64) for name in ("first", "to", "count", "fan_in", "step", "accumulate", "rounding")])
FINISH = np.dtype([(name, np.int64) for name in (
    "first", "row", "out", "rows", "cols", "out_row", "out_col", "format", "overflow", "epilogue")])
assert REDUCE.itemsize == sizeof(Reduce) and FINISH.itemsize == sizeof(Finish)

cdef enum:
    BLOCK = 256


cdef void reduce(const void *given, const pop_tile *tile) noexcept nogil:
    """Operand 1 from operand 0: each sum adds its partials in ascending order, in FP32, and is rounded once."""
    cdef const Reduce *item = <const Reduce *>given
    cdef const float *source
    cdef float *to
    cdef float total[BLOCK]
    cdef int64_t at, j, n, _
    for at from 0 <= at < item.count by BLOCK:
        n = item.count - at if item.count - at < BLOCK else BLOCK
        source = <const float *>tile.operands[0] + item.first + at
        to = <float *>tile.operands[1] + item.to + at
        for j in range(n):
            total[j] = source[j]
        for _ in range(1, item.fan_in):
            source += item.step
            for j in range(n):
                total[j] += source[j]
        if item.accumulate:
            if item.rounding:
                (<pop_dot_round>item.rounding)(total, n)
            for j in range(n):
                total[j] = to[j] + total[j]
        if item.rounding:
            (<pop_dot_round>item.rounding)(total, n)
        for j in range(n):
            to[j] = total[j]


cdef void finish(const void *given, const pop_tile *tile) noexcept nogil:
    """Operand 1, in its own format and strides, from the sums of operand 0."""
    cdef const Finish *item = <const Finish *>given
    cdef pop_epilogue e
    e.format = <const pop_format *>item.format
    e.overflow, e.activation = item.overflow, 0
    e.alpha, e.beta = 1.0, 0.0
    e.bias = e.row_bias = NULL
    e.out = tile.operands[1] + item.out
    e.out_row, e.out_col = item.out_row, item.out_col
    (<pop_epilogue_kernel>item.epilogue)(&e, <const float *>tile.operands[0] + item.first, item.row, item.rows,
                                         item.cols)


REDUCE_VERTEX = <size_t>&reduce
FINISH_VERTEX = <size_t>&finish
