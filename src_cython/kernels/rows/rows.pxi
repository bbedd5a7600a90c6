"""Functions of rows at one instruction-set level: see rows.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/rows/rows.h" nogil:
    const pop_kernel POP_ROWS_KERNELS[]
    size_t POP_ROWS_COUNT "(sizeof POP_ROWS_KERNELS / sizeof *POP_ROWS_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_ROWS_KERNELS[i]) for i in range(POP_ROWS_COUNT)]
