"""Axes in another order, at one instruction-set level: see rearrange.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/rearrange/rearrange.h" nogil:
    const pop_kernel POP_REARRANGE_KERNELS[]
    size_t POP_REARRANGE_COUNT "(sizeof POP_REARRANGE_KERNELS / sizeof *POP_REARRANGE_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_REARRANGE_KERNELS[i]) for i in range(POP_REARRANGE_COUNT)]
