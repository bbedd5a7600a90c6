"""The drivers of convolutions with few channels in a group, and by Winograd's transforms: see conv.h and winograd.h."""

from program.program cimport pop_tile

from poplibs_py.kernels.records import dtype_of

cdef extern from "drivers/winograd.h" nogil:
    void pop_conv_vertex(const void *item, const pop_tile *tile)
    void pop_winograd_vertex(const void *item, const pop_tile *tile)
    void pop_winograd_kernels_vertex(const void *item, const pop_tile *tile)

ITEM, SPEC, BOX = dtype_of("pop_conv_item"), dtype_of("pop_conv_spec"), dtype_of("pop_conv_box")
VERTEX = <size_t>&pop_conv_vertex
WINOGRAD_VERTEX, WINOGRAD_KERNELS_VERTEX = <size_t>&pop_winograd_vertex, <size_t>&pop_winograd_kernels_vertex
