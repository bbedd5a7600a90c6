"""What recurrent cells do between products, at one instruction-set level: see cells.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/cells/cells.h" nogil:
    const pop_kernel POP_CELLS_KERNELS[]
    size_t POP_CELLS_COUNT "(sizeof POP_CELLS_KERNELS / sizeof *POP_CELLS_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_CELLS_KERNELS[i]) for i in range(POP_CELLS_COUNT)]
