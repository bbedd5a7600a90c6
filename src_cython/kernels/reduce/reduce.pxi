"""Reductions at one instruction-set level: see reduce.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/reduce/reduce.h" nogil:
    const pop_kernel POP_REDUCE_KERNELS[]
    size_t POP_REDUCE_COUNT "(sizeof POP_REDUCE_KERNELS / sizeof *POP_REDUCE_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_REDUCE_KERNELS[i]) for i in range(POP_REDUCE_COUNT)]
