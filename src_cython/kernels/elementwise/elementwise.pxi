"""Elementwise operations on contiguous elements, at one instruction-set level: see elementwise.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/elementwise/elementwise.h" nogil:
    const pop_kernel POP_ELEMENTWISE_KERNELS[]
    int POP_ELEMENTWISE_COUNT


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_ELEMENTWISE_KERNELS[i]) for i in range(POP_ELEMENTWISE_COUNT)]
