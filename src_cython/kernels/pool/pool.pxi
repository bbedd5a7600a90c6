"""Pooling at one instruction-set level: see pool.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/pool/pool.h" nogil:
    const pop_kernel POP_POOL_KERNELS[]
    size_t POP_POOL_COUNT "(sizeof POP_POOL_KERNELS / sizeof *POP_POOL_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_POOL_KERNELS[i]) for i in range(POP_POOL_COUNT)]
