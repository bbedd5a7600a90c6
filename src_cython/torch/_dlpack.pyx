"""Torch's tensors as arrays, and arrays as tensors, by DLPack: NumPy's own reading of it lacks BF16 and is slower.

Structs as DLPack 0.8 lays them out, in capsules named "dltensor".
"""

from cpython.object cimport PyTypeObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport free, malloc

cimport numpy as cnp

cnp.import_array()

cdef extern from "Python.h":
    bint Py_IsInitialized() nogil

cdef extern from "numpy/arrayobject.h":
    PyTypeObject *PyArray_Type "&PyArray_Type"
    object PyArray_NewFromDescr(PyTypeObject *kind, cnp.dtype dtype, int axes, cnp.npy_intp *extents,
                                cnp.npy_intp *strides, void *data, int flags, PyObject *like)

cdef struct Tensor:
    void *data
    int32_t device, device_number
    int32_t axes
    uint8_t code, bits
    uint16_t lanes
    int64_t *extents
    int64_t *strides  # in elements; NULL for C order
    uint64_t offset   # in bytes

cdef struct Managed:
    Tensor tensor
    void *owner
    void (*deleter)(Managed *) noexcept nogil

cdef enum:
    CPU = 1
    MOST_AXES = 64

cdef const char *NAME = "dltensor"
cdef const char *TAKEN = "used_dltensor"


cdef class Loan:
    """Memory of another library, which is told when nothing looks at it any more."""

    cdef Managed *managed
    cdef object __weakref__

    def __dealloc__(self):
        if self.managed != NULL and self.managed.deleter != NULL:
            self.managed.deleter(self.managed)


cdef void let_go(Managed *managed) noexcept with gil:
    Py_DECREF(<object>managed.owner)


cdef void give_back(Managed *managed) noexcept nogil:
    """Called wherever the last tensor goes, on threads without Python's lock too, and after Python has ended."""
    if Py_IsInitialized():
        let_go(managed)
    free(managed)


cdef void drop_capsule(object capsule) noexcept:
    if PyCapsule_IsValid(capsule, NAME):
        give_back(<Managed *>PyCapsule_GetPointer(capsule, NAME))


cdef class Bridge:
    """Reads and makes capsules of some dtypes.

    Parameters
    ----------
    kinds : dict of numpy.dtype to (int, int)
        DLPack's type code and bits of each.
    """

    cdef dict dtypes, kinds

    def __init__(self, kinds):
        self.kinds = dict(kinds)
        self.dtypes = {code << 8 | bits: dtype for dtype, (code, bits) in self.kinds.items()}

    def array(self, capsule):
        """Return what a capsule holds as an array that shares its memory.

        Raises
        ------
        ValueError
            If it has no memory of this machine's, or is of no dtype that was named.
        """
        cdef Managed *managed = <Managed *>PyCapsule_GetPointer(capsule, NAME)
        cdef Tensor *tensor = &managed.tensor
        cdef cnp.npy_intp extents[MOST_AXES]
        cdef cnp.npy_intp strides[MOST_AXES]
        cdef cnp.npy_intp size
        cdef int64_t count = 1
        cdef int axis
        dtype = self.dtypes.get(tensor.code << 8 | tensor.bits)
        if tensor.device != CPU or tensor.lanes != 1 or dtype is None or tensor.axes > MOST_AXES:
            raise ValueError(f"DLPack device {tensor.device}, type {tensor.code} of {tensor.bits} bits, "
                             f"{tensor.axes} axes")
        size = size_of(dtype)
        for axis in range(tensor.axes - 1, -1, -1):
            extents[axis] = tensor.extents[axis]
            count *= extents[axis]
            if tensor.strides != NULL:
                strides[axis] = tensor.strides[axis] * size
            else:
                strides[axis] = size if axis == tensor.axes - 1 else strides[axis + 1] * extents[axis + 1]
        if tensor.data == NULL and count:
            raise ValueError("DLPack without memory")
        loan = Loan.__new__(Loan)
        PyCapsule_SetName(capsule, TAKEN)
        (<Loan>loan).managed = managed
        Py_INCREF(dtype)  # which the array takes over
        array = PyArray_NewFromDescr(PyArray_Type, <cnp.dtype>dtype, tensor.axes, extents, strides,
                                     <char *>tensor.data + tensor.offset if tensor.data != NULL else NULL,
                                     cnp.NPY_ARRAY_WRITEABLE, NULL)
        if tensor.data != NULL:
            cnp.set_array_base(array, loan)
        return array

    def capsule(self, cnp.ndarray array not None):
        """Return a capsule of an array, which lives as long as what is made of the capsule.

        Raises
        ------
        KeyError
            If its dtype was not named.
        """
        cdef int axes = cnp.PyArray_NDIM(array), axis
        code, bits = self.kinds[array.dtype]
        cdef Managed *managed = <Managed *>malloc(sizeof(Managed) + 2 * axes * sizeof(int64_t))
        if managed == NULL:
            raise MemoryError
        cdef cnp.npy_intp size = size_of(array.dtype)
        cdef Tensor *tensor = &managed.tensor
        tensor.data = cnp.PyArray_DATA(array)
        tensor.device, tensor.device_number, tensor.axes = CPU, 0, axes
        tensor.code, tensor.bits, tensor.lanes, tensor.offset = code, bits, 1, 0
        tensor.extents = <int64_t *>(managed + 1)
        tensor.strides = tensor.extents + axes
        for axis in range(axes):
            tensor.extents[axis] = cnp.PyArray_DIM(array, axis)
            tensor.strides[axis] = cnp.PyArray_STRIDE(array, axis) // size
        managed.owner = <void *>array
        managed.deleter = give_back
        Py_INCREF(array)
        return PyCapsule_New(managed, NAME, drop_capsule)


cdef cnp.npy_intp size_of(object dtype):
    return cnp.PyDataType_ELSIZE(<cnp.dtype>dtype)
