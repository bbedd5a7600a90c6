"""Kernels of dense products at one instruction-set level: products, packing, epilogues."""

from libc.math cimport fmaf
from libc.stdint cimport int64_t

from kernels.abi cimport POP_CONSISTENT, POP_LEVEL, pop_function, pop_kernel, pop_kernel_row
from pop_records cimport pop_dot_block

cdef extern from "kernels/dot/kernels.h" nogil:
    ctypedef struct pop_kernel_table:
        const pop_kernel *kernels
        int count
    const pop_kernel_table *POP_DOT_TABLES
    int POP_DOT_TABLE_COUNT


cdef void multiply_portable(const pop_dot_block *t) noexcept nogil:
    """FP32 products, one chain of fused multiply-adds per element of C in ascending depth."""
    cdef int64_t i, j, k, run
    cdef float total
    cdef const char *a
    cdef const char *b
    for i in range(t.rows):
        for j in range(t.cols):
            total = t.c[i * t.c_row + j] if t.accumulate else 0.0
            for run in range(t.more + 1):
                a = t.a + i * t.a_row + (t.a_at[run - 1] if run else 0)
                b = t.b + (t.b_at[run - 1] if run else 0)
                for k in range(t.cells):
                    total = fmaf((<const float *>(a + k * t.a_cell))[0], (<const float *>(b + k * t.b_cell))[j], total)
            t.c[i * t.c_row + j] = total


cdef list portable_rows():
    """Registration of the bodies above."""
    cdef pop_kernel multiply
    multiply.op, multiply.formats, multiply.name = "multiply", "float32", "portable"
    multiply.function = <pop_function>multiply_portable
    multiply.grain = [1, 1, 1]
    multiply.block = [4, 16, 1]
    multiply.flags = POP_CONSISTENT
    return [pop_kernel_row(&multiply)]


def kernels():
    """The registry's rows of this module."""
    cdef int i, j
    rows = portable_rows() if POP_LEVEL == 0 else []
    for i in range(POP_DOT_TABLE_COUNT):
        for j in range(POP_DOT_TABLES[i].count):
            rows.append(pop_kernel_row(POP_DOT_TABLES[i].kernels + j))
    return rows
