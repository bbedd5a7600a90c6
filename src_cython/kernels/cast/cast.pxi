"""Decoders and encoders of every format, at one instruction-set level: see cast.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/cast/kernels.h" nogil:
    const pop_kernel POP_CAST_KERNELS[]
    int POP_CAST_KERNEL_COUNT


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_CAST_KERNELS[i]) for i in range(POP_CAST_KERNEL_COUNT)]
