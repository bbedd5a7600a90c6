# The kernel record of abi.h, and its translation for Python.
from libc.stdint cimport int64_t, uint32_t

cdef extern from "kernels/abi.h" nogil:
    int POP_LEVEL
    uint32_t POP_CONSISTENT, POP_LONG
    ctypedef void (*pop_function)() noexcept nogil
    ctypedef struct pop_kernel:
        const char *op
        const char *formats
        const char *name
        pop_function function
        int64_t grain[3]
        int64_t block[3]
        uint32_t flags

cdef inline tuple pop_kernel_row(const pop_kernel *kernel):
    """One row of a family's `kernels()` list, as `poplibs_py.kernels.registry` reads it."""
    return (
        kernel.op.decode(), kernel.formats.decode(), kernel.name.decode(), <size_t>kernel.function,
        (kernel.grain[0], kernel.grain[1], kernel.grain[2]),
        (kernel.block[0], kernel.block[1], kernel.block[2]), kernel.flags,
    )
