"""What happens to a modelled machine's partial sums after the tiles have made them: round, reduce, add in place, cast out.

Partial sums are FP32 numbers that hold values of the plan's types: a kernel rounds them where that type is half. They lie
in the program's workspace. Items name operands by number and places in them by bytes.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from kernels.products cimport pop_dot_round, pop_dot_round_at_random, pop_epilogue, pop_epilogue_kernel, pop_format
from program.program cimport pop_tile

import numpy as np

cdef extern from "kernels/random/aox.h" nogil:
    ctypedef struct pop_aox:
        pass
    void pop_aox_open(pop_aox *stream, uint64_t seed, uint32_t modifier, uint32_t substream, uint64_t row)
    void pop_aox_read(pop_aox *stream, int64_t first, int64_t n, uint32_t *words)
    int POP_AOX_ROW_WORDS

cdef extern from "kernels/cast/cast.h" nogil:
    int POP_CAST_SUBSTREAM

cdef struct Clear:
    int64_t operand, first, bytes

cdef struct Reduce:
    int64_t operand, first, to, count  # bytes to the first partial and the first sum, and how many sums this item makes
    int64_t fan_in, step  # partials of a sum, and bytes from one to the next
    int64_t accumulate  # start from what the result holds
    int64_t rounding  # address of a rounding kernel, or 0

cdef struct Round:
    int64_t operand, first, count
    int64_t place  # of the first sum among those that are rounded together: it draws the random word of this number
    int64_t seed, draw  # operand of the seed, and what is added to it: each rounding draws bits of its own
    int64_t rounding

cdef struct Finish:
    int64_t operand, first, row, rows, cols  # sums: numbers of a row
    int64_t to, out, out_row, out_col, format, overflow, epilogue  # operand of the result, bytes to the first element

CLEAR = np.dtype([(name, np.int64) for name in ("operand", "first", "bytes")])
REDUCE = np.dtype([(name, np.int64) for name in (
    "operand", "first", "to", "count", "fan_in", "step", "accumulate", "rounding")])
ROUND = np.dtype([(name, np.int64) for name in ("operand", "first", "count", "place", "seed", "draw", "rounding")])
FINISH = np.dtype([(name, np.int64) for name in (
    "operand", "first", "row", "rows", "cols", "to", "out", "out_row", "out_col", "format", "overflow", "epilogue")])
assert CLEAR.itemsize == sizeof(Clear) and REDUCE.itemsize == sizeof(Reduce)
assert ROUND.itemsize == sizeof(Round) and FINISH.itemsize == sizeof(Finish)

cdef enum:
    BLOCK = 256
    WORDS = 1024


cdef void clear(const void *given, const pop_tile *tile) noexcept nogil:
    """Zeros, for sums that no tile makes."""
    cdef const Clear *item = <const Clear *>given
    memset(tile.operands[item.operand] + item.first, 0, item.bytes)


cdef void reduce(const void *given, const pop_tile *tile) noexcept nogil:
    """Each sum adds its partials in ascending order, in FP32, and is rounded once. It may take the place of its first."""
    cdef const Reduce *item = <const Reduce *>given
    cdef const char *source
    cdef const float *partial
    cdef float *to
    cdef float total[BLOCK]
    cdef int64_t at, j, n, _
    for at from 0 <= at < item.count by BLOCK:
        n = item.count - at if item.count - at < BLOCK else BLOCK
        source = tile.operands[item.operand] + item.first + 4 * at
        to = <float *>(tile.operands[item.operand] + item.to + 4 * at)
        partial = <const float *>source
        for j in range(n):
            total[j] = partial[j]
        for _ in range(1, item.fan_in):
            source += item.step
            partial = <const float *>source
            for j in range(n):
                total[j] += partial[j]
        if item.accumulate:
            if item.rounding:
                (<pop_dot_round>item.rounding)(total, n)
            for j in range(n):
                total[j] = to[j] + total[j]
        if item.rounding:
            (<pop_dot_round>item.rounding)(total, n)
        for j in range(n):
            to[j] = total[j]


cdef void round_at_random(const void *given, const pop_tile *tile) noexcept nogil:
    """Sums in place, each rounded up or down at random: with the bits of a `cast` of them all."""
    cdef const Round *item = <const Round *>given
    cdef uint64_t seed = (<const uint64_t *>tile.operands[item.seed])[0] + <uint64_t>item.draw
    cdef float *sums = <float *>(tile.operands[item.operand] + item.first)
    cdef uint32_t words[WORDS]
    cdef pop_aox stream
    cdef int64_t at, n
    pop_aox_open(&stream, seed, 0, POP_CAST_SUBSTREAM, item.place // POP_AOX_ROW_WORDS)
    for at from 0 <= at < item.count by WORDS:
        n = item.count - at if item.count - at < WORDS else WORDS
        pop_aox_read(&stream, item.place + at, n, words)
        (<pop_dot_round_at_random>item.rounding)(sums + at, n, words)


cdef void finish(const void *given, const pop_tile *tile) noexcept nogil:
    """The result, in its own format and strides, from sums."""
    cdef const Finish *item = <const Finish *>given
    cdef const float *sums = <const float *>(tile.operands[item.operand] + item.first)
    cdef pop_epilogue e
    e.format = <const pop_format *>item.format
    e.overflow, e.activation = item.overflow, 0
    e.alpha, e.beta = 1.0, 0.0
    e.bias = e.row_bias = NULL
    e.out = tile.operands[item.to] + item.out
    e.out_row, e.out_col = item.out_row, item.out_col
    (<pop_epilogue_kernel>item.epilogue)(&e, sums, item.row, item.rows, item.cols)


CLEAR_VERTEX = <size_t>&clear
REDUCE_VERTEX = <size_t>&reduce
ROUND_VERTEX = <size_t>&round_at_random
FINISH_VERTEX = <size_t>&finish
