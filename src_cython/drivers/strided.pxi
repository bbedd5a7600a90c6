"""The strided driver: see strided_walk.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "drivers/strided_walk.h" nogil:
    const pop_kernel POP_STRIDED_DRIVER


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_STRIDED_DRIVER)]
