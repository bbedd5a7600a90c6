"""What a program depends on of its dense operands, as one key: the fast path of a product that was made before."""

cimport numpy as cnp
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t

cnp.import_array()

cdef enum:
    MOST_DIMENSIONS = 4  # of a prepared operand
    WORDS = 4 + 2 * MOST_DIMENSIONS


cdef (char *, char *) extent(cnp.ndarray array) noexcept:
    """The first byte of an array, and the byte after its last."""
    cdef char *low = <char *>cnp.PyArray_DATA(array)
    cdef char *high = low + cnp.PyArray_ITEMSIZE(array)
    cdef int i
    cdef int64_t reach
    if cnp.PyArray_SIZE(array) == 0:
        return low, low
    for i in range(cnp.PyArray_NDIM(array)):
        reach = (cnp.PyArray_DIM(array, i) - 1) * cnp.PyArray_STRIDE(array, i)
        if reach < 0:
            low += reach
        else:
            high += reach
    return low, high


cdef bint overlap(cnp.ndarray a, cnp.ndarray b) noexcept:
    a_low, a_high = extent(a)
    b_low, b_high = extent(b)
    return a_low < b_high and b_low < a_high


cdef void write_words(cnp.ndarray array, int64_t *words) noexcept:
    cdef int i, n = cnp.PyArray_NDIM(array)
    words[0] = n
    words[1] = cnp.PyArray_TYPE(array)
    words[2] = cnp.PyArray_ISALIGNED(array)
    words[3] = cnp.PyArray_ISNOTSWAPPED(array)
    for i in range(MOST_DIMENSIONS):
        words[4 + 2 * i] = cnp.PyArray_DIM(array, i) if i < n else 0
        words[5 + 2 * i] = cnp.PyArray_STRIDE(array, i) if i < n else 0


def layout_key(x, out, cnp.ndarray blocks):
    """Return bytes that stand for the dtype, shape, strides and alignment of X and of `out` (which may be None).

    None where there may be something to complain about: other types, more than four dimensions, an `out` that cannot be
    written to or may overlap an operand.
    """
    cdef int64_t words[2 * WORDS]
    cdef int i
    if type(x) is not cnp.ndarray or cnp.PyArray_NDIM(x) > MOST_DIMENSIONS:
        return None
    write_words(<cnp.ndarray>x, words)
    if out is None:
        for i in range(WORDS):
            words[WORDS + i] = -1
    else:
        if type(out) is not cnp.ndarray or cnp.PyArray_NDIM(out) > MOST_DIMENSIONS or not cnp.PyArray_ISWRITEABLE(out):
            return None
        if overlap(<cnp.ndarray>x, <cnp.ndarray>out) or overlap(blocks, <cnp.ndarray>out):
            return None
        write_words(<cnp.ndarray>out, words + WORDS)
    return PyBytes_FromStringAndSize(<char *>words, sizeof(words))
