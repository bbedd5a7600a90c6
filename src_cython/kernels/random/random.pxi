"""Kernels that fill arrays with random elements, at one instruction-set level."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/random/random.h" nogil:
    const pop_kernel POP_RANDOM_KERNELS[]
    size_t POP_RANDOM_COUNT "(sizeof POP_RANDOM_KERNELS / sizeof *POP_RANDOM_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_RANDOM_KERNELS[i]) for i in range(POP_RANDOM_COUNT)]
