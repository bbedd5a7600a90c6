# The cast family's module: its kernels' rows, and at the portable level the walk over strided arrays.
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy

from kernels.abi cimport POP_LEVEL, pop_kernel, pop_kernel_row
from program.program cimport pop_tile

cdef extern from "kernels/cast/kernels.h" nogil:
    const pop_kernel POP_CAST_KERNELS[]
    int POP_CAST_KERNEL_COUNT

include "kernels/cast/walk.pxi"


def kernels():
    """Return a row for each kernel of this level; see `poplibs_py.kernels.registry`."""
    cdef int i
    cdef list rows = [pop_kernel_row(&POP_CAST_KERNELS[i]) for i in range(POP_CAST_KERNEL_COUNT)]
    if POP_LEVEL == 0:
        rows.append(walk_row())
    return rows
