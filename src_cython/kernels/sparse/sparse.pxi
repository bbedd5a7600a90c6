# The sparse family: products of a block-sparse and a dense operand. Intrinsics are in the headers; the portable level is here.
from libc.stdint cimport int32_t, int64_t, uint64_t

from kernels.abi cimport POP_LEVEL, pop_kernel, pop_kernel_row
from program.program cimport pop_tile

include "kernels/sparse/portable.pxi"

cdef extern from "kernels/sparse/sparse.h" nogil:
    pop_kernel SPARSE_KERNELS[1]
    int SPARSE_COUNT


def kernels():
    """Return the registration rows of this module's level."""
    if POP_LEVEL == 0:
        return portable_kernels()
    return [pop_kernel_row(&SPARSE_KERNELS[i]) for i in range(SPARSE_COUNT)]
