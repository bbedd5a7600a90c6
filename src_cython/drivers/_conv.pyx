"""The drivers of convolutions with few channels in a group, from windows, by Winograd's transforms: conv.h, window.h, winograd.h.

And what runs an item of one of several programs that are one: each has operands of its own.
"""

from libc.string cimport memcpy

from pop_records cimport pop_beside_item
from program.program cimport pop_tile, pop_vertex

from poplibs_py.kernels.records import dtype_of

cdef extern from *:
    """
    #define POP_RECORDS "records/beside.def"
    #include "records/structs.h"
    #include "drivers/winograd.h"
    #include "drivers/window.h"
    """
    const int POP_CONV_AT_ONCE
    void pop_conv_vertex(const void *item, const pop_tile *tile) nogil
    void pop_window_vertex(const void *item, const pop_tile *tile) nogil
    void pop_winograd_vertex(const void *item, const pop_tile *tile) nogil
    void pop_winograd_kernels_vertex(const void *item, const pop_tile *tile) nogil

cdef enum:
    MOST_BESIDE = 31  # operands of a program


cdef void beside(const void *given, const pop_tile *tile) noexcept nogil:
    cdef const pop_beside_item *item = <const pop_beside_item *>given
    cdef char *operands[MOST_BESIDE + 1]
    cdef pop_tile inner = tile[0]
    memcpy(operands, tile.operands + item.first, item.operands * sizeof(char *))
    operands[item.operands] = tile.operands[item.shared] + item.workspace
    inner.operands = operands
    (<pop_vertex>item.vertex)(<const void *>item.item, &inner)


ITEM, SPEC, BOX = dtype_of("pop_conv_item"), dtype_of("pop_conv_spec"), dtype_of("pop_conv_box")
VERTEX, AT_ONCE = <size_t>&pop_conv_vertex, POP_CONV_AT_ONCE
WINDOW_ITEM, WINDOW_SPEC, WINDOW_BOX = (dtype_of(f"pop_window_{name}") for name in ("item", "spec", "box"))
WINDOW_VERTEX = <size_t>&pop_window_vertex
WINOGRAD_VERTEX, WINOGRAD_KERNELS_VERTEX = <size_t>&pop_winograd_vertex, <size_t>&pop_winograd_kernels_vertex
BESIDE_VERTEX, MOST_OPERANDS = <size_t>&beside, MOST_BESIDE
