# Result arrays: where operations get the arrays that they return, and the pool that their memory comes from.
#
# An array of some size is made while NumPy's memory handler (NEP 49) is that of results.h. The handler is set for the
# making of that one array alone: nothing else in the process ever sees it.

from cpython.pycapsule cimport PyCapsule_New
from libc.string cimport strcpy

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyDataMemAllocator:
        void *ctx
        void *(*malloc)(void *ctx, size_t size) noexcept nogil
        void *(*calloc)(void *ctx, size_t items, size_t size) noexcept nogil
        void *(*realloc)(void *ctx, void *block, size_t size) noexcept nogil
        void (*free)(void *ctx, void *block, size_t size) noexcept nogil
    ctypedef struct PyDataMem_Handler:
        char *name
        unsigned char version
        PyDataMemAllocator allocator
    object PyDataMem_SetHandler(object handler)

cdef extern from "program/results.h" nogil:
    enum: POP_LEAST_RESULT, POP_SANITIZED
    void *pop_results_malloc(void *context, size_t size)
    void *pop_results_calloc(void *context, size_t items, size_t size)
    void *pop_results_realloc(void *context, void *block, size_t size)
    void pop_results_free(void *context, void *block, size_t size)
    void pop_results_limit(int64_t bytes)
    void pop_results_lock()
    void pop_results_unlock()
    struct pop_shelf:
        int64_t limit, bytes
        int kept
    struct pop_results_state:
        int64_t reused, fresh
        pop_shelf shelf
    pop_results_state pop_results

pthread_atfork(pop_results_lock, pop_results_unlock, pop_results_unlock)

cdef PyDataMem_Handler _handler
strcpy(_handler.name, "poplibs_py_results")
_handler.version = 1
_handler.allocator = PyDataMemAllocator(NULL, pop_results_malloc, pop_results_calloc, pop_results_realloc,
                                        pop_results_free)
cdef object _capsule = PyCapsule_New(&_handler, "mem_handler", NULL)
cdef object _empty_like = np.empty_like

least_bytes = POP_LEAST_RESULT
sanitized = bool(POP_SANITIZED)
handler = _capsule


cdef object new_result(int axes, cnp.npy_intp *extents, cnp.npy_intp *strides, cnp.dtype dtype, int64_t bytes):
    """A new array, in C order or with the strides of one that fills its memory."""
    Py_INCREF(dtype)
    if bytes < POP_LEAST_RESULT:
        if strides == NULL:
            return PyArray_Empty(axes, extents, dtype, 0)
        return PyArray_NewFromDescr(PyArray_Type, dtype, axes, extents, strides, NULL, 0, NULL)
    before = PyDataMem_SetHandler(_capsule)
    try:
        if strides == NULL:
            return PyArray_Empty(axes, extents, dtype, 0)
        return PyArray_NewFromDescr(PyArray_Type, dtype, axes, extents, strides, NULL, 0, NULL)
    finally:
        PyDataMem_SetHandler(before)


def result_array(tuple shape, cnp.dtype dtype not None):
    """Return a new array for a result, C-contiguous, holding whatever its memory held before.

    It owns its memory. From 128 KiB on it begins on a page, and its memory comes from the pool and returns there.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    """
    cdef cnp.npy_intp extents[MOST_AXES]
    cdef int64_t bytes = dtype.itemsize
    cdef int i, axes = <int>len(shape)
    cdef Py_ssize_t extent
    if axes > MOST_AXES:
        return np.empty(shape, dtype)  # says what is wrong
    for i in range(axes):
        extents[i] = extent = shape[i]
        if extent < 0 or (extent and bytes > (<int64_t>1 << 62) // extent):
            return np.empty(shape, dtype)
        bytes *= extent
    return new_result(axes, extents, NULL, dtype, bytes)


def result_array_like(cnp.ndarray array not None, cnp.dtype dtype not None):
    """Return a new array for a result that is laid out like another array; as `result_array` otherwise."""
    if cnp.PyArray_IS_C_CONTIGUOUS(array):
        return result_array((<object>array).shape, dtype)
    if cnp.PyArray_SIZE(array) * <int64_t>dtype.itemsize < POP_LEAST_RESULT:
        return _empty_like(array, dtype=dtype, subok=False)
    before = PyDataMem_SetHandler(_capsule)
    try:
        return _empty_like(array, dtype=dtype, subok=False)
    finally:
        PyDataMem_SetHandler(before)


def pool_state():
    """Return limit, bytes kept, buffers kept, buffers reused and buffers made."""
    cdef pop_results_state now
    with nogil:
        pop_results_lock()
        now = pop_results
        pop_results_unlock()
    return now.shelf.limit, now.shelf.bytes, now.shelf.kept, now.reused, now.fresh


def set_pool_limit(int64_t bytes):
    """Keep at most so many bytes from now on, and free what is more."""
    with nogil:
        pop_results_limit(bytes)
