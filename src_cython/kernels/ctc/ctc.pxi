"""Connectionist temporal classification, at one instruction-set level: see ctc.h."""

from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "kernels/ctc/ctc.h" nogil:
    const pop_kernel POP_CTC_KERNELS[]
    size_t POP_CTC_COUNT "(sizeof POP_CTC_KERNELS / sizeof *POP_CTC_KERNELS)"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&POP_CTC_KERNELS[i]) for i in range(POP_CTC_COUNT)]
