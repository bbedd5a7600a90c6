"""Convolutions to few channels: products first, then sums where results overlap.

Each element of the input is multiplied with all taps at once, a product of plain matrices with many columns; its products
are added to the results that they belong to. Sums of the results that elements still meet are kept in scratch.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from kernels.products cimport pop_epilogue_kernel
from pop_records cimport pop_epilogue, pop_field, pop_format
from pop_records cimport pop_gemm_item as Product
from pop_records cimport pop_gemm_spec
from pop_records cimport pop_overlap_item as Item
from pop_records cimport pop_overlap_spec as Spec
from program.program cimport pop_tile, pop_vertex

from poplibs_py.kernels.records import dtype_of

cdef extern from *:
    """
    #include "drivers/multiplier.h"
    #define POP_RECORDS "records/gemm.def"
    #include "records/structs.h"
    #define POP_RECORDS "records/overlap.def"
    #include "records/structs.h"
    #include "drivers/overlap.h"
    """
    void pop_overlap_planes(const pop_field *field, int64_t at, int64_t *low, int64_t *high) nogil
    void pop_overlap_add(const Spec *spec, const pop_field *field, int64_t element, int64_t n, const float *products,
                         int64_t low, int64_t high, float *planes) nogil
    void pop_overlap_finish(const Spec *spec, const pop_field *field, pop_epilogue *e, pop_epilogue_kernel epilogue,
                            int64_t low, int64_t high, float *planes, char *out) nogil

ITEM, SPEC = dtype_of("pop_overlap_item"), dtype_of("pop_overlap_spec")


cdef inline int64_t smaller(int64_t x, int64_t y) noexcept nogil:
    return x if x < y else y


cdef void multiply(const Spec *p, const Item *item, const pop_tile *tile, int64_t element, int64_t n) noexcept nogil:
    """Products of n elements from `element` on, as a product's own vertex makes them."""
    cdef char *operands[3]
    cdef pop_tile inner = tile[0]
    cdef Product product = item.product
    operands[0], operands[1], operands[2] = tile.operands[0], tile.operands[1], tile.scratch + p.products_at
    inner.operands = operands
    product.m, product.out = n, 0
    if product.a_field:
        product.first_row = element
    else:
        product.a += element * p.a_row
    (<pop_vertex>p.multiply)(&product, &inner)


cdef void overlap(const void *given, const pop_tile *tile) noexcept nogil:
    """Results [low, high) of the first dimension, in ascending order."""
    cdef const Item *item = <const Item *>given
    cdef const Spec *p = <const Spec *>item.spec
    cdef const pop_field *f = <const pop_field *>p.field
    cdef const pop_gemm_spec *finish = <const pop_gemm_spec *>p.finish
    cdef pop_epilogue_kernel epilogue = <pop_epilogue_kernel>finish.epilogue
    cdef pop_epilogue e
    cdef float *products = <float *>(tile.scratch + p.products_at)
    cdef float *planes = <float *>(tile.scratch + p.planes_at)
    cdef char *out = tile.operands[2] + item.out
    cdef int64_t d, element, end, n, low, high, inner = 1, first = 0, last = p.elements[0], done = item.low
    memset(&e, 0, sizeof(e))
    e.format, e.overflow, e.alpha = <const pop_format *>finish.out_format, finish.overflow, 1.0
    e.out_col = finish.out_col
    memset(planes, 0, p.planes * p.plane * sizeof(float))
    for d in range(1, f.rank):
        inner *= p.elements[d]
    while first < last:
        pop_overlap_planes(f, first, &low, &high)
        if high > item.low:
            break
        first += 1
    while last > first:
        pop_overlap_planes(f, last - 1, &low, &high)
        if low < item.high:
            break
        last -= 1
    element, end = first * inner, last * inner
    while element < end:
        n = smaller(p.chunk, end - element)
        pop_overlap_planes(f, element // inner, &low, &high)
        low = smaller(low, item.high)
        if low > done:
            pop_overlap_finish(p, f, &e, epilogue, done, low, planes, out)
            done = low
        multiply(p, item, tile, element, n)
        pop_overlap_add(p, f, element, n, products, item.low, item.high, planes)
        element += n
    pop_overlap_finish(p, f, &e, epilogue, done, item.high, planes, out)


VERTEX = <size_t>&overlap
