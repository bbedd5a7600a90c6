"""Probes of the arithmetic units' peak rate, at one instruction-set level."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/peak/peak.h" nogil:
    const pop_kernel POP_PEAK_KERNELS[9]
    size_t POP_PEAK_COUNT "(sizeof POP_PEAK_KERNELS / sizeof *POP_PEAK_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_PEAK_KERNELS[i]) for i in range(POP_PEAK_COUNT)]
