"""Softmax over the stored blocks of each row, and its gradient, at one instruction-set level: see softmax.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/softmax/softmax.h" nogil:
    const pop_kernel POP_SOFTMAX_KERNELS[]
    size_t POP_SOFTMAX_COUNT "(sizeof POP_SOFTMAX_KERNELS / sizeof *POP_SOFTMAX_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_SOFTMAX_KERNELS[i]) for i in range(POP_SOFTMAX_COUNT)]
