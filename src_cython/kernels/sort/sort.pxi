"""Orders of rows, at one instruction-set level: see sort.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/sort/sort.h" nogil:
    const pop_kernel POP_SORT_KERNELS[]
    size_t POP_SORT_COUNT "(sizeof POP_SORT_KERNELS / sizeof *POP_SORT_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_SORT_KERNELS[i]) for i in range(POP_SORT_COUNT)]
