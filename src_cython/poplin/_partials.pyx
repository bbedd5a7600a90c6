"""What happens to a modelled machine's partial sums after the tiles have made them: reduce, add in place, cast out.

Partial sums are FP32 numbers that hold values of the plan's types: a kernel rounds them where that type is half.
"""

from libc.stdint cimport int64_t

from kernels.products cimport pop_dot_round, pop_epilogue_kernel
from pop_records cimport pop_epilogue, pop_format, pop_partials_finish, pop_partials_reduce
from program.program cimport pop_tile

from poplibs_py.kernels.records import dtype_of

cdef extern from *:
    """
    #define POP_RECORDS "records/partials.def"
    #include "records/structs.h"
    """

REDUCE, FINISH = dtype_of("pop_partials_reduce"), dtype_of("pop_partials_finish")

cdef enum:
    BLOCK = 256


cdef void reduce(const void *given, const pop_tile *tile) noexcept nogil:
    """Operand 1 from operand 0: each sum adds its partials in ascending order, in FP32, and is rounded once."""
    cdef const pop_partials_reduce *item = <const pop_partials_reduce *>given
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
    cdef const pop_partials_finish *item = <const pop_partials_finish *>given
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
