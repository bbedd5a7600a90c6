"""What happens to a modelled machine's partial sums after the tiles have made them: reduce, round, add, cast out.

Partial sums are FP32 numbers that hold values of the plan's types: a kernel rounds them where that type is half. They lie
in the program's workspace. Items name operands by number and places in them by bytes.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from kernels.products cimport (
    pop_dot_decode,
    pop_dot_round,
    pop_dot_round_at_random,
    pop_epilogue_kernel,
    pop_scatter,
)
from pop_records cimport (
    pop_epilogue,
    pop_format,
    pop_partials_add,
    pop_partials_clear,
    pop_partials_finish,
    pop_partials_reduce,
    pop_partials_round,
)
from program.program cimport pop_tile

from poplibs_py.kernels.records import dtype_of

cdef extern from "kernels/random/aox.h" nogil:
    ctypedef struct pop_aox:
        pass
    void pop_aox_open_cast(pop_aox *stream, uint64_t seed)
    void pop_aox_read(pop_aox *stream, int64_t first, int64_t n, uint32_t *words)

cdef extern from *:
    """
    #define POP_RECORDS "records/partials.def"
    #include "records/structs.h"
    """

CLEAR, REDUCE = dtype_of("pop_partials_clear"), dtype_of("pop_partials_reduce")
ROUND, FINISH = dtype_of("pop_partials_round"), dtype_of("pop_partials_finish")
ADD = dtype_of("pop_partials_add")

cdef enum:
    BLOCK = 256
    WORDS = 1024


cdef void clear(const void *given, const pop_tile *tile) noexcept nogil:
    """Zeros, for sums that no tile makes."""
    cdef const pop_partials_clear *item = <const pop_partials_clear *>given
    memset(tile.operands[item.operand] + item.first, 0, item.bytes)


cdef void reduce(const void *given, const pop_tile *tile) noexcept nogil:
    """Each sum adds its partials in ascending order, in FP32, and is rounded once. It may take the place of its first."""
    cdef const pop_partials_reduce *item = <const pop_partials_reduce *>given
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
        if item.accumulate and tile.turn:
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
    cdef const pop_partials_round *item = <const pop_partials_round *>given
    cdef uint64_t seed = (<const uint64_t *>tile.operands[item.seed])[0]
    cdef float *sums = <float *>(tile.operands[item.operand] + item.first)
    cdef uint32_t words[WORDS]
    cdef pop_aox stream
    cdef int64_t at, n
    pop_aox_open_cast(&stream, seed + <uint64_t>(item.draw + tile.turn * item.turn_draws))
    for at from 0 <= at < item.count by WORDS:
        n = item.count - at if item.count - at < WORDS else WORDS
        pop_aox_read(&stream, item.place + at, n, words)
        (<pop_dot_round_at_random>item.rounding)(sums + at, n, words)


cdef void add(const void *given, const pop_tile *tile) noexcept nogil:
    """A bias, decoded row by row, to sums in place."""
    cdef const pop_partials_add *item = <const pop_partials_add *>given
    cdef float *sums = <float *>(tile.operands[item.operand] + item.first)
    cdef const char *source
    cdef char codes[4 * BLOCK]
    cdef float bias[BLOCK]
    cdef int64_t row, at, j, n
    for row in range(item.rows):
        source = tile.operands[item.bias] + item.at + row * item.line
        for at from 0 <= at < item.cols by BLOCK:
            n = item.cols - at if item.cols - at < BLOCK else BLOCK
            pop_scatter(item.item, source + at * item.step, item.step, codes, item.item, n)
            (<pop_dot_decode>item.decode)(<const pop_format *>item.format, codes, bias, NULL, n)
            for j in range(n):
                sums[at + j] += bias[j]
        sums += item.cols


cdef void finish(const void *given, const pop_tile *tile) noexcept nogil:
    """The result, in its own format and strides, from sums and perhaps what it holds, through an activation if there is one."""
    cdef const pop_partials_finish *item = <const pop_partials_finish *>given
    cdef const float *sums = <const float *>(tile.operands[item.operand] + item.first)
    cdef pop_epilogue e
    memset(&e, 0, sizeof(e))
    e.format = <const pop_format *>item.format
    e.overflow, e.activation = item.overflow, item.activation
    e.alpha, e.beta = item.alpha, item.beta
    e.out = tile.operands[item.to] + item.out
    e.out_row, e.out_col = item.out_row, item.out_col
    (<pop_epilogue_kernel>item.epilogue)(&e, sums, item.row, item.rows, item.cols)


CLEAR_VERTEX = <size_t>&clear
REDUCE_VERTEX = <size_t>&reduce
ROUND_VERTEX = <size_t>&round_at_random
ADD_VERTEX = <size_t>&add
FINISH_VERTEX = <size_t>&finish
