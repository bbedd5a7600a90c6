# What a call is found again by: its arguments read into a key of words.
#
# Arrays count by their dtype and how they lie, numbers and texts by their value, what cannot change by identity, objects
# of this library by the first entry of their `_parts`. An argument that has no words (a list of numbers, a tensor, what
# is wrong) makes a call that has no key: it takes the long way each time.

from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.ref cimport Py_TYPE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from cpython.weakref cimport PyWeakref_NewRef
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy

import sys

from poplibs_py.config import settings
from poplibs_py.errors import bad_type
from poplibs_py.program.record import listeners

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1
    unsigned long long PyLong_AsUnsignedLongLong(object value) except? -1
    double PyFloat_AS_DOUBLE(PyObject *value)
    PyTypeObject PyLong_Type, PyFloat_Type, PyUnicode_Type, PyTuple_Type, PyList_Type, PyDict_Type
    int PyDict_Next(PyObject *mapping, Py_ssize_t *at, PyObject **key, PyObject **value)
    PyObject *PyDict_GetItem(object mapping, object key)  # borrowed; hashing a type cannot fail
    bint PyObject_TypeCheck(PyObject *value, PyTypeObject *kind)
    object PyNumber_Index(object value)
    PyObject *PyObject_GetAttr_raw "PyObject_GetAttr"(PyObject *owner, PyObject *name)
    void PyErr_Clear()
    void PyUnicode_InternInPlace(PyObject **text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    Py_ssize_t PyVectorcall_NARGS(size_t)

cdef extern from "numpy/arrayobject.h":
    int NPY_HALF  # the last of the types that are NumPy's own
    PyTypeObject PyGenericArrType_Type
    cnp.dtype PyArray_DescrFromScalar(object scalar)
    void PyArray_ScalarAsCtype(object scalar, void *to)
    object PyArray_View(cnp.ndarray array, PyObject *dtype, PyObject *kind)

cdef extern from "program/face.h":
    ctypedef PyObject *(*vectorcallfunc)(PyObject *, PyObject *const *, size_t, PyObject *)
    void pop_call_directly(PyTypeObject *type, Py_ssize_t offset)
    bint pop_is_interned(PyObject *text)
    Py_ssize_t pop_slot_offset(object type, object name)
    void pop_set_slot(object owner, Py_ssize_t offset, PyObject *value)
    PyObject *pop_get_slot(object owner, Py_ssize_t offset)
    object pop_new(object type)
    tuple pop_new_tuple(object type, Py_ssize_t n)
    PyTypeObject pop_held_type
    object pop_hold(Py_ssize_t bytes)
    char *pop_held_at(object held)
    int PyType_Ready(PyTypeObject *type) except -1

cdef enum:
    MOST_WORDS = 512
    MOST_HELD = 128
    MOST_ARGUMENTS = 32
    MOST_VALUES = 24
    LONGEST_TEXT = 64
    LONGEST_LIST = 16
    VARARGS = 4  # CO_VARARGS
    OF_SINGLE = 1 << 16
    FLAGS = cnp.NPY_ARRAY_ALIGNED | cnp.NPY_ARRAY_WRITEABLE
    FEWEST_SLOTS = 16
    MOST_SLOTS = 8192

ctypedef int (*values_function)(int64_t *) except -1

cdef enum:  # what a word stands for
    NOTHING = 1, ARRAY, SAME, WHOLE, REAL, ROW, MAPPING, OBJECT, WORD, PAIR, SCALAR, NUMBER, NAMED

cdef enum:  # where an operand of a program comes from, where it is no array of the call
    RESULT = -1, VALUES = -2, CONSTANT = -3, BESIDE = -4
    FIRST_PART = -16  # and below: one of several new results, by its number
    COPY_OF = 64  # added to the number of an array: a copy of it in C order
    COPIED_TO = 128  # or one in C order that is copied to it when all is done
    COPIED_ALIKE = 192  # or one that lies as it does, without gaps, and is copied to it then
    OF_ARRAY = 63  # the number of an array alone

copy_of, copied_to, copied_alike, first_part = COPY_OF, COPIED_TO, COPIED_ALIKE, FIRST_PART
most_operands = MOST_OPERANDS - 1  # of a bound call

cdef list LISTENERS = listeners
cdef object SETTINGS = settings
cdef Py_ssize_t THREADS = pop_slot_offset(type(settings), "num_threads")  # each call asks how many there are
cdef object PARTS = "_parts"
cdef object NUMBERS = frozenset(map(ord, "biuf"))
cdef dict WHOLE_NUMBERS = {kind: True for kind in np.sctypeDict.values()  # types of others may do anything in __index__
                           if issubclass(kind, np.integer) and not issubclass(kind, np.timedelta64)}
cdef dict BY_IDENTITY = {type(None): True, bool: True, type: True}
cdef dict BY_PARTS = {}
cdef PyObject *DOUBLE = <PyObject *>np.float64
cdef PyObject *SINGLE = <PyObject *>np.float32


cdef int64_t generation = 0


def forget_calls():
    """Make no call ready that was before."""
    global generation
    generation += 1


def key_by_identity(*kinds):
    """Take objects of these types into keys by their identity: they do not change, and few of them are made."""
    for kind in kinds:
        BY_IDENTITY[kind] = True


def key_by_parts(kind, written=0):
    """Take objects of a type into keys by their ``_parts``.

    That is a tuple: first what all objects have in common that a program does not tell apart (found again by identity;
    see `functools.lru_cache`), then the arrays that programs run on, which lie as that says. `written` is the number of
    the array that a result is written to where the object is an ``out``.
    """
    BY_PARTS[kind] = written


cdef struct Reading:
    # What the arguments of a call come to. Nothing here is owned, save `owned`.
    int64_t words[MOST_WORDS]
    PyObject *held[MOST_HELD]  # what words point to
    PyObject *arrays[MOST_OPERANDS]
    PyObject *owned[MOST_ARGUMENTS]
    int64_t values[MOST_VALUES]
    int first_array[MOST_ARGUMENTS]
    int n_words, n_held, n_arrays, n_owned
    int n_values  # up to the last number that is no part of the key
    int written  # which array is
    int64_t plain  # a bit for each array that is an argument itself
    PyObject *receiver  # what holds it


cdef inline void open_reading(Reading *r) noexcept:
    r.n_words = r.n_held = r.n_arrays = r.n_owned = r.n_values = 0
    r.written = -1
    r.plain = 0
    r.receiver = NULL
    memset(r.values, 0, sizeof(r.values))


cdef inline void close_reading(Reading *r) noexcept:
    cdef int i
    for i in range(r.n_owned):
        Py_DECREF(<object>r.owned[i])


cdef bint read_array(Reading *r, PyObject *x) noexcept:
    cdef cnp.ndarray array = <cnp.ndarray>x
    cdef int n = r.n_words, axes = cnp.PyArray_NDIM(array)
    if n + 2 + 2 * axes > MOST_WORDS or r.n_arrays >= MOST_OPERANDS or r.n_held >= MOST_HELD:
        return False
    r.words[n] = ARRAY | axes << 8 | <int64_t>(cnp.PyArray_FLAGS(array) & FLAGS) << 16
    r.words[n + 1] = <int64_t><size_t>cnp.PyArray_DESCR(array)
    if axes:  # an array without has no lists of them
        memcpy(&r.words[n + 2], cnp.PyArray_DIMS(array), axes * sizeof(int64_t))
        memcpy(&r.words[n + 2 + axes], cnp.PyArray_STRIDES(array), axes * sizeof(int64_t))
    r.n_words = n + 2 + 2 * axes
    r.held[r.n_held] = <PyObject *>cnp.PyArray_DESCR(array)
    r.n_held += 1
    r.arrays[r.n_arrays] = x
    r.plain |= <int64_t>1 << r.n_arrays
    r.n_arrays += 1
    return True


cdef inline bint put(Reading *r, int64_t kind, int64_t word) noexcept:
    if r.n_words + 2 > MOST_WORDS:
        return False
    r.words[r.n_words] = kind
    r.words[r.n_words + 1] = word
    r.n_words += 2
    return True


cdef inline bint put_same(Reading *r, int64_t kind, PyObject *x) noexcept:
    if r.n_held >= MOST_HELD:
        return False
    r.held[r.n_held] = x
    r.n_held += 1
    return put(r, kind, <int64_t><size_t>x)


cdef bint read_parts(Reading *r, PyObject *x) noexcept:
    cdef PyObject *parts = PyObject_GetAttr_raw(x, <PyObject *>PARTS)
    cdef Py_ssize_t i, n
    if parts == NULL:
        PyErr_Clear()
        return False
    if r.n_owned >= MOST_ARGUMENTS:
        Py_DECREF(<object>parts)
        return False
    r.owned[r.n_owned] = parts
    r.n_owned += 1
    if Py_TYPE(<object>parts) != &PyTuple_Type:  # None: an object that takes the long way
        return False
    n = PyTuple_GET_SIZE(<object>parts)
    if r.n_arrays + n - 1 > MOST_OPERANDS or not put_same(r, OBJECT, PyTuple_GET_ITEM(<object>parts, 0)):
        return False
    for i in range(1, n):
        r.arrays[r.n_arrays] = PyTuple_GET_ITEM(<object>parts, i)
        r.n_arrays += 1
    return True


cdef bint read_scalar(Reading *r, PyObject *x) noexcept:
    """Write the type and the bytes of one of NumPy's own numbers."""
    cdef cnp.dtype dtype = PyArray_DescrFromScalar(<object>x)
    cdef int64_t word = 0
    if dtype.type_num > NPY_HALF or dtype.kind not in NUMBERS or dtype.itemsize > <int64_t>sizeof(word):
        return False
    PyArray_ScalarAsCtype(<object>x, &word)
    return put_same(r, SCALAR, <PyObject *>Py_TYPE(<object>x)) and put(r, SCALAR, word)


cdef bint read_text(Reading *r, PyObject *x) noexcept:
    """Texts of the same letters are one object once they are interned; those in the source mostly are."""
    if not pop_is_interned(x):
        if r.n_owned >= MOST_ARGUMENTS or PyUnicode_GET_LENGTH(<object>x) > LONGEST_TEXT:
            return False
        Py_INCREF(<object>x)
        PyUnicode_InternInPlace(&x)
        r.owned[r.n_owned] = x
        r.n_owned += 1
    return put_same(r, SAME, x)


cdef bint read_argument(Reading *r, PyObject *x, bint alone) noexcept:
    """Write an argument's words; False where it has none. What is not alone, and may, counts by identity rather than parts."""
    cdef PyTypeObject *kind = Py_TYPE(<object>x)
    cdef int overflow
    cdef double number
    cdef int64_t word
    cdef Py_ssize_t i = 0, n
    cdef PyObject *key
    cdef PyObject *value
    if kind == PyArray_Type:
        return read_array(r, x)
    if x == <PyObject *>None:
        return put(r, NOTHING, 0)
    if kind == &PyFloat_Type:
        number = PyFloat_AS_DOUBLE(x)
        memcpy(&word, &number, sizeof(word))
        return put(r, REAL, word)
    if kind == &PyLong_Type:
        word = PyLong_AsLongLongAndOverflow(<object>x, &overflow)
        return not overflow and put(r, WHOLE, word)
    if kind == &PyUnicode_Type:
        return read_text(r, x)
    if PyDict_GetItem(BY_PARTS, <object>kind) != NULL and (alone or PyDict_GetItem(BY_IDENTITY, <object>kind) == NULL):
        return read_parts(r, x)
    if PyDict_GetItem(BY_IDENTITY, <object>kind) != NULL:
        return put_same(r, SAME, x)
    if PyObject_TypeCheck(x, &PyTuple_Type) and kind.tp_dictoffset == 0:  # what is named holds its items alone
        n = PyTuple_GET_SIZE(<object>x)
        if (kind != &PyTuple_Type and not put_same(r, NAMED, <PyObject *>kind)) or not put(r, ROW, n):
            return False
        for i in range(n):
            if not read_argument(r, PyTuple_GET_ITEM(<object>x, i), False):
                return False
        return True
    if kind == &PyList_Type:
        n = PyList_GET_SIZE(<object>x)
        if n > LONGEST_LIST or not put(r, ROW, -1 - n):  # long ones hold numbers, not options
            return False
        for i in range(n):
            if not read_argument(r, PyList_GET_ITEM(<object>x, i), False):
                return False
        return True
    if kind == &PyDict_Type:
        if not put(r, MAPPING, len(<dict>x)):
            return False
        while PyDict_Next(x, &i, &key, &value):
            if not read_argument(r, key, False) or not read_argument(r, value, False):
                return False
        return True
    return PyObject_TypeCheck(x, &PyGenericArrType_Type) and read_scalar(r, x)


def arrays_in(value):
    """Return how many arrays the key of a call reads of a value that is part of an argument; 0 where it has no words."""
    cdef Reading r
    open_reading(&r)
    try:
        return r.n_arrays if read_argument(&r, <PyObject *>value, False) else 0
    finally:
        close_reading(&r)


cdef bint read_value(Reading *r, PyObject *x, int64_t *to) noexcept:
    """Take an argument whose value each call has of its own: a whole number of 64 bits, or a pair of 32 bits each."""
    cdef PyObject *low
    cdef PyObject *high
    cdef uint64_t words[2]
    cdef int64_t kind = WORD
    if x == <PyObject *>None:
        return put(r, NOTHING, 0)
    if Py_TYPE(<object>x) == &PyTuple_Type and PyTuple_GET_SIZE(<object>x) == 2:
        low, high = PyTuple_GET_ITEM(<object>x, 0), PyTuple_GET_ITEM(<object>x, 1)
        if not (whole_word(low, &words[0]) and whole_word(high, &words[1]) and (words[0] | words[1]) >> 32 == 0):
            return False
        words[0] |= words[1] << 32
        kind = PAIR
    elif not whole_word(x, &words[0]):
        return False
    to[0] = <int64_t>words[0]
    return put(r, kind, 0)


cdef int64_t number_kind(PyObject *x, int64_t *to) noexcept:
    """Take a number whose value each call has of its own; return which others one program serves as well.

    That is 0 for real numbers, `OF_SINGLE` for NumPy's float32; for whole ones how many bits they have, and their sign. It
    is -1 for what programs differ by, which stays part of the key: powers of two, zero, what float32 or float64 does not
    hold, what is no number.
    """
    cdef PyObject *kind = <PyObject *>Py_TYPE(<object>x)
    cdef double number
    cdef float single
    cdef bint held
    cdef int overflow
    cdef uint64_t size
    cdef int64_t bits = 0
    if kind == <PyObject *>&PyFloat_Type or kind == DOUBLE or kind == SINGLE:
        if kind == SINGLE:
            PyArray_ScalarAsCtype(<object>x, &single)
            number = single
        else:
            number = PyFloat_AS_DOUBLE(x)
        memcpy(to, &number, sizeof(number))
        held = <uint64_t>to[0] << 12 and -3.4e38 <= number <= 3.4e38 and <float>number != 0
        return OF_SINGLE * (kind == SINGLE) if held else -1
    if kind != <PyObject *>&PyLong_Type:
        return -1
    to[0] = PyLong_AsLongLongAndOverflow(<object>x, &overflow)
    size = <uint64_t>(-to[0] if to[0] < 0 else to[0])
    if overflow or size & (size - 1) == 0 or size >> 53:
        return -1
    while size >> bits:
        bits += 1
    return bits << 1 | (to[0] < 0)


def number_word(value):
    """Return a number as a word that each call has of its own, and `number_kind`; or None."""
    cdef int64_t word, kind = number_kind(<PyObject *>value, &word)
    return None if kind < 0 else (<uint64_t>word, kind & (OF_SINGLE - 1))


cdef bint whole_word(PyObject *x, uint64_t *to) noexcept:
    if Py_TYPE(<object>x) != &PyLong_Type and PyDict_GetItem(WHOLE_NUMBERS, <object>Py_TYPE(<object>x)) == NULL:
        return False
    try:
        to[0] = PyLong_AsUnsignedLongLong(PyNumber_Index(<object>x))
    except OverflowError:  # negative, or more than 64 bits: the long way says what is allowed
        return False
    return True


cdef bint lies_apart(Reading *r, int64_t written) noexcept:
    """Whether each array that has a bit may be written, and shares memory with no other."""
    cdef int i, k
    for i in range(r.n_arrays):
        if written >> i & 1:
            if not cnp.PyArray_ISWRITEABLE(<cnp.ndarray>r.arrays[i]):
                return False
            for k in range(r.n_arrays):
                if k != i and meet(<cnp.ndarray>r.arrays[i], <cnp.ndarray>r.arrays[k]):
                    return False
    return True


cdef bint same_place(cnp.ndarray a, cnp.ndarray b) noexcept:
    cdef size_t bytes = cnp.PyArray_NDIM(a) * sizeof(cnp.npy_intp)
    return (cnp.PyArray_DATA(a) == cnp.PyArray_DATA(b) and cnp.PyArray_NDIM(a) == cnp.PyArray_NDIM(b)
            and cnp.PyArray_ITEMSIZE(a) == cnp.PyArray_ITEMSIZE(b)
            and (bytes == 0 or (memcmp(cnp.PyArray_DIMS(a), cnp.PyArray_DIMS(b), bytes) == 0
                                and memcmp(cnp.PyArray_STRIDES(a), cnp.PyArray_STRIDES(b), bytes) == 0)))


cdef bint read_overlaps(Reading *r) noexcept:
    """Write which arrays are the one that is written to; False where one overlaps it in any other way."""
    cdef int64_t same = 0
    cdef int i
    cdef cnp.ndarray out = <cnp.ndarray>r.arrays[r.written]
    for i in range(r.n_arrays):
        if i != r.written and meet(out, <cnp.ndarray>r.arrays[i]):
            if not same_place(out, <cnp.ndarray>r.arrays[i]):
                return False
            same |= <int64_t>1 << i
    return put(r, SAME, same)


cdef bint read_shared(Reading *r) noexcept:
    """Write which arrays are one and the same object, such as those of a pattern that several matrices have."""
    cdef int i, k
    for k in range(r.n_arrays):
        for i in range(k):
            if r.arrays[i] == r.arrays[k]:
                if not put(r, SAME, i << 8 | k):
                    return False
                break
    return True


cdef uint64_t hash_of(const int64_t *words, int n) noexcept:
    cdef uint64_t h = <uint64_t>n
    cdef int i
    for i in range(n):
        h = (h ^ <uint64_t>words[i]) * <uint64_t>0x9E3779B97F4A7C15
        h ^= h >> 29
    return h
