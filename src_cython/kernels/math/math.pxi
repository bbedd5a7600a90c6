"""Elementary functions of FP32 arrays, at one instruction-set level."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/math/math.h" nogil:
    const pop_kernel *POP_MATH_KERNELS
    int POP_MATH_COUNT


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_MATH_KERNELS[i]) for i in range(POP_MATH_COUNT)]
