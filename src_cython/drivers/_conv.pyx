"""The driver of convolutions with few channels in a group: see conv.h."""

from program.program cimport pop_tile

from poplibs_py.kernels.records import dtype_of

cdef extern from "drivers/conv.h" nogil:
    void pop_conv_vertex(const void *item, const pop_tile *tile)

ITEM, SPEC, BOX = dtype_of("pop_conv_item"), dtype_of("pop_conv_spec"), dtype_of("pop_conv_box")
VERTEX = <size_t>&pop_conv_vertex
