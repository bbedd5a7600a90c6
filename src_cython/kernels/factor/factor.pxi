"""Factorisations of many small matrices, at one instruction-set level: see factor.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/factor/factor.h" nogil:
    const pop_kernel POP_FACTOR_KERNELS[]
    size_t POP_FACTOR_COUNT "(sizeof POP_FACTOR_KERNELS / sizeof *POP_FACTOR_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_FACTOR_KERNELS[i]) for i in range(POP_FACTOR_COUNT)]
