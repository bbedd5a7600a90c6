"""Scaled dot-product attention and its gradient, at one instruction-set level: see attention.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/attention/attention.h" nogil:
    const pop_kernel POP_ATTENTION_KERNELS[]
    size_t POP_ATTENTION_COUNT "(sizeof POP_ATTENTION_KERNELS / sizeof *POP_ATTENTION_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_ATTENTION_KERNELS[i]) for i in range(POP_ATTENTION_COUNT)]
