"""Sums and products of a modelled machine's reductions: chains of FP32 numbers in a stated order, and their results.

Every operation is rounded to FP32 by itself, so that NumPy, an element at a time, has the same bits.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

from pop_records cimport pop_cast, pop_chain, pop_chain_finish
from program.program cimport pop_tile

from poplibs_py.kernels.records import dtype_of

cdef extern from *:
    """
    #define POP_RECORDS "records/format.def"
    #include "records/structs.h"
    #define POP_RECORDS "records/cast.def"
    #include "records/structs.h"
    #define POP_RECORDS "records/chains.def"
    #include "records/structs.h"
    """

ctypedef void (*pop_decoder)(const pop_cast *cast, const void *codes, float *numbers, int64_t n) noexcept nogil
ctypedef void (*pop_encoder)(const pop_cast *cast, const float *numbers, void *codes, int64_t n,
                             const uint32_t *words) noexcept nogil

ITEM, FINISH = dtype_of("pop_chain"), dtype_of("pop_chain_finish")

cdef enum:
    BLOCK = 256
    ADD = 0
    SQUARES = 1


cdef inline void read(const pop_chain *c, const char *at, int64_t step, float *numbers, int64_t n) noexcept nogil:
    """Numbers that lie `step` bytes apart."""
    cdef char codes[4 * BLOCK]
    cdef int64_t i
    cdef const char *source = at
    if step != c.item:
        for i in range(n):
            memcpy(codes + i * c.item, at + i * step, c.item)
        source = codes
    if c.decode:
        (<pop_decoder>c.decode)(<const pop_cast *>c.cast, source, numbers, n)
    else:
        memcpy(numbers, source, 4 * n)


cdef inline float taken(float total, float number, int64_t step) noexcept nogil:
    """A total and one number more; `number` is squared already."""
    return total + number if step <= SQUARES else total * number


cdef inline void square(const pop_chain *c, float *numbers, int64_t n) noexcept nogil:
    cdef int64_t i
    if c.step == SQUARES:
        for i in range(n):
            numbers[i] = numbers[i] * numbers[i]


cdef void side_by_side(const pop_chain *c, const char *source, float *totals) noexcept nogil:
    """Columns that are neighbours, row by row."""
    cdef float numbers[BLOCK]
    cdef int64_t at, n, r, j
    for at from 0 <= at < c.columns by BLOCK:
        n = c.columns - at if c.columns - at < BLOCK else BLOCK
        for r in range(c.rows):
            read(c, source + at * c.column + r * c.row, c.column, numbers, n)
            square(c, numbers, n)
            if r == 0 and not c.joins:
                memcpy(totals + at, numbers, 4 * n)
            elif c.step <= SQUARES:
                for j in range(n):
                    totals[at + j] = totals[at + j] + numbers[j]
            else:
                for j in range(n):
                    totals[at + j] = totals[at + j] * numbers[j]


cdef void one_by_one(const pop_chain *c, const char *source, float *totals) noexcept nogil:
    """Columns whose numbers are neighbours."""
    cdef float numbers[BLOCK]
    cdef float total
    cdef int64_t at, n, i, j
    for j in range(c.columns):
        total = totals[j] if c.joins else 0.0
        for at from 0 <= at < c.rows by BLOCK:
            n = c.rows - at if c.rows - at < BLOCK else BLOCK
            read(c, source + j * c.column + at * c.row, c.row, numbers, n)
            square(c, numbers, n)
            i = 0
            if at == 0 and not c.joins:
                total, i = numbers[0], 1
            while i < n:
                total = taken(total, numbers[i], c.step)
                i += 1
        totals[j] = total


cdef void chain(const void *given, const pop_tile *tile) noexcept nogil:
    """Totals of columns."""
    cdef const pop_chain *c = <const pop_chain *>given
    cdef const char *source = tile.operands[c.operand] + c.first
    cdef float *totals = <float *>(tile.operands[2] + c.to)
    if c.column == c.item and c.columns > 1:
        side_by_side(c, source, totals)
    else:
        one_by_one(c, source, totals)


cdef void finish(const void *given, const pop_tile *tile) noexcept nogil:
    """Results of totals."""
    cdef const pop_chain_finish *f = <const pop_chain_finish *>given
    cdef const float *totals = <const float *>(tile.operands[2] + f.first)
    cdef char *out = tile.operands[1] + f.to
    cdef float numbers[BLOCK]
    cdef float before[BLOCK]
    cdef int64_t at, n, i
    for at from 0 <= at < f.count by BLOCK:
        n = f.count - at if f.count - at < BLOCK else BLOCK
        for i in range(n):
            numbers[i] = totals[at + i] * f.scale
        if f.update:
            if f.decode:
                (<pop_decoder>f.decode)(<const pop_cast *>f.before, out + at * f.item, before, n)
            else:
                memcpy(before, out + at * f.item, 4 * n)
            for i in range(n):
                numbers[i] = before[i] + numbers[i]
        if f.encode:
            (<pop_encoder>f.encode)(<const pop_cast *>f.write, numbers, out + at * f.item, n, NULL)
        else:
            memcpy(out + at * f.item, numbers, 4 * n)


cdef void settle(const void *given, const pop_tile *tile) noexcept nogil:
    """Totals rounded to the format of what tiles or workers leave to each other."""
    cdef const pop_chain_finish *f = <const pop_chain_finish *>given
    cdef float *totals = <float *>(tile.operands[2] + f.first)
    cdef char codes[4 * BLOCK]
    cdef int64_t at, n
    for at from 0 <= at < f.count by BLOCK:
        n = f.count - at if f.count - at < BLOCK else BLOCK
        (<pop_encoder>f.encode)(<const pop_cast *>f.write, totals + at, codes, n, NULL)
        (<pop_decoder>f.decode)(<const pop_cast *>f.before, codes, totals + at, n)


CHAIN_VERTEX = <size_t>&chain
FINISH_VERTEX = <size_t>&finish
SETTLE_VERTEX = <size_t>&settle
