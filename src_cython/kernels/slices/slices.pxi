"""Slices by index at one instruction-set level: see slices.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/slices/slices.h" nogil:
    const pop_kernel POP_SLICES_KERNELS[]
    size_t POP_SLICES_COUNT "(sizeof POP_SLICES_KERNELS / sizeof *POP_SLICES_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_SLICES_KERNELS[i]) for i in range(POP_SLICES_COUNT)]
