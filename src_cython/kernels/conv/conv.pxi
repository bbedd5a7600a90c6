"""Convolution with few channels in a group, at one instruction-set level: see conv.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/conv/conv.h" nogil:
    const pop_kernel POP_CONV_KERNELS[]
    size_t POP_CONV_COUNT "(sizeof POP_CONV_KERNELS / sizeof *POP_CONV_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_CONV_KERNELS[i]) for i in range(POP_CONV_COUNT)]
