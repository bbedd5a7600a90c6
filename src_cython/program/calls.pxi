# The call cache. A `Face` stands for a public function: the second call of a kind finds what the first one made ready, a
# `BoundCall`, by a key of all that decides how it runs, and runs it on the addresses of its arrays. No Python runs then.
#
# A key is a row of words. Arrays count by their dtype and how they lie, numbers and texts by their value, what cannot
# change by identity, objects of this library by the first entry of their `_parts`. An argument that has no words (a list
# of numbers, a tensor, what is wrong) makes a call that has no key: it takes the long way each time.
#
# Everything from reading the arrays to their addresses happens under Python's lock. Afterwards the rule is NumPy's own:
# whoever resizes an array with ``refcheck=False`` while a call works on it answers for that.

from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject_GetAttr
from cpython.ref cimport Py_DECREF, Py_TYPE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
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
    PyTypeObject PyLong_Type, PyFloat_Type, PyBool_Type, PyUnicode_Type, PyTuple_Type, PyList_Type, PyDict_Type
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
    PyTypeObject PyGenericArrType_Type, PyIntegerArrType_Type
    cnp.dtype PyArray_DescrFromScalar(object scalar)
    void PyArray_ScalarAsCtype(object scalar, void *to)

cdef extern from "program/face.h":
    ctypedef PyObject *(*vectorcallfunc)(PyObject *, PyObject *const *, size_t, PyObject *)
    void pop_call_directly(PyTypeObject *type, Py_ssize_t offset)
    bint pop_is_interned(PyObject *text)
    Py_ssize_t pop_slot_offset(object type, object name)
    void pop_set_slot(object owner, Py_ssize_t offset, PyObject *value)
    PyObject *pop_get_slot(object owner, Py_ssize_t offset)

cdef enum:
    MOST_WORDS = 192
    MOST_HELD = 48
    MOST_ARGUMENTS = 32
    MOST_VALUES = 6
    LONGEST_TEXT = 64
    FLAGS = cnp.NPY_ARRAY_ALIGNED | cnp.NPY_ARRAY_WRITEABLE
    FEWEST_SLOTS = 16
    MOST_SLOTS = 8192

ctypedef int (*values_function)(int64_t *) except -1

cdef enum:  # what a word stands for
    NOTHING = 1, ARRAY, SAME, WHOLE, REAL, ROW, MAPPING, OBJECT, WORD, PAIR, SCALAR

cdef enum:  # where an operand of a program comes from, where it is no array of the call
    RESULT = -1, VALUES = -2, CONSTANT = -3
    COPY_OF = 64  # added to the number of an array: a copy of it in C order

copy_of = COPY_OF

cdef list LISTENERS = listeners
cdef object SETTINGS = settings
cdef object PARTS = "_parts"
cdef object NUMBERS = frozenset(map(ord, "biuf"))
cdef dict BY_IDENTITY = {type(None): True, bool: True, type: True}
cdef dict BY_PARTS = {}


cdef int64_t generation = 0


def forget_calls():
    """Make no call ready that was before: for tests that change what programs are made of."""
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
    int written  # which array is
    int64_t plain  # a bit for each array that is an argument itself
    PyObject *receiver  # what holds it


cdef inline void open_reading(Reading *r) noexcept:
    r.n_words = r.n_held = r.n_arrays = r.n_owned = 0
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
    if dtype.type_num > NPY_HALF or dtype.kind not in NUMBERS or dtype.itemsize > sizeof(word):
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


cdef bint read_argument(Reading *r, PyObject *x) noexcept:
    """Write an argument's words; False where it has none."""
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
    if PyDict_GetItem(BY_PARTS, <object>kind) != NULL:
        return read_parts(r, x)
    if PyDict_GetItem(BY_IDENTITY, <object>kind) != NULL:
        return put_same(r, SAME, x)
    if kind == &PyTuple_Type:
        n = PyTuple_GET_SIZE(<object>x)
        if not put(r, ROW, n):
            return False
        for i in range(n):
            if not read_argument(r, PyTuple_GET_ITEM(<object>x, i)):
                return False
        return True
    if kind == &PyList_Type:
        n = PyList_GET_SIZE(<object>x)
        if n > 8 or not put(r, ROW, -1 - n):  # long ones hold numbers, not options
            return False
        for i in range(n):
            if not read_argument(r, PyList_GET_ITEM(<object>x, i)):
                return False
        return True
    if kind == &PyDict_Type:
        if not put(r, MAPPING, len(<dict>x)):
            return False
        while PyDict_Next(x, &i, &key, &value):
            if not read_argument(r, key) or not read_argument(r, value):
                return False
        return True
    return PyObject_TypeCheck(x, &PyGenericArrType_Type) and read_scalar(r, x)


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


cdef bint whole_word(PyObject *x, uint64_t *to) noexcept:
    if Py_TYPE(<object>x) != &PyLong_Type and not PyObject_TypeCheck(x, &PyIntegerArrType_Type):
        return False
    try:
        to[0] = PyLong_AsUnsignedLongLong(PyNumber_Index(<object>x))
    except OverflowError:  # negative, or more than 64 bits: the long way says what is allowed
        return False
    return True


cdef void reach_of(cnp.ndarray array, char **low, char **high) noexcept:
    """The first byte of an array, and the byte after its last."""
    cdef int i
    cdef int64_t reach
    low[0] = <char *>cnp.PyArray_DATA(array)
    high[0] = low[0]
    if cnp.PyArray_SIZE(array) == 0:
        return
    high[0] += cnp.PyArray_ITEMSIZE(array)
    for i in range(cnp.PyArray_NDIM(array)):
        reach = (cnp.PyArray_DIM(array, i) - 1) * cnp.PyArray_STRIDE(array, i)
        if reach < 0:
            low[0] += reach
        else:
            high[0] += reach


cdef bint same_place(cnp.ndarray a, cnp.ndarray b) noexcept:
    cdef size_t bytes = cnp.PyArray_NDIM(a) * sizeof(cnp.npy_intp)
    return (cnp.PyArray_DATA(a) == cnp.PyArray_DATA(b) and cnp.PyArray_NDIM(a) == cnp.PyArray_NDIM(b)
            and cnp.PyArray_ITEMSIZE(a) == cnp.PyArray_ITEMSIZE(b)
            and memcmp(cnp.PyArray_DIMS(a), cnp.PyArray_DIMS(b), bytes) == 0
            and memcmp(cnp.PyArray_STRIDES(a), cnp.PyArray_STRIDES(b), bytes) == 0)


cdef bint read_overlaps(Reading *r) noexcept:
    """Write which arrays are the one that is written to; False where one overlaps it in any other way."""
    cdef char *low
    cdef char *high
    cdef char *first
    cdef char *end
    cdef int64_t same = 0
    cdef int i
    cdef cnp.ndarray out = <cnp.ndarray>r.arrays[r.written]
    reach_of(out, &low, &high)
    for i in range(r.n_arrays):
        if i == r.written:
            continue
        reach_of(<cnp.ndarray>r.arrays[i], &first, &end)
        if low < end and first < high:
            if not same_place(out, <cnp.ndarray>r.arrays[i]):
                return False
            same |= <int64_t>1 << i
    return put(r, SAME, same)


cdef bint read_shared(Reading *r) noexcept:
    """Write which arrays are one and the same object, such as those of a pattern that several matrices have."""
    cdef int i, k
    for i in range(r.n_arrays):
        for k in range(i + 1, r.n_arrays):
            if r.arrays[i] == r.arrays[k] and not put(r, SAME, i << 8 | k):
                return False
    return True


def value_words(size_t ready, tuple values):
    """Return the block of words that a call has of its own, made ready by a function as `BoundCall` has it, or 0."""
    words = np.zeros(MOST_VALUES, np.int64)
    words[:len(values)] = np.array(values, np.uint64).view(np.int64)
    if ready:
        (<values_function><void *>ready)(<int64_t *>cnp.PyArray_DATA(<cnp.ndarray>words))
    return words


cdef uint64_t hash_of(const int64_t *words, int n) noexcept:
    cdef uint64_t h = <uint64_t>n
    cdef int i
    for i in range(n):
        h = (h ^ <uint64_t>words[i]) * <uint64_t>0x9E3779B97F4A7C15
        h ^= h >> 29
    return h


@cython.final
cdef class BoundCall:
    """A call made ready: a program, where its operands come from, and how the result is made.

    Parameters
    ----------
    executable : Executable or None
        None where there is nothing to do.
    sources : sequence of int or numpy.ndarray
        For each operand of the executable: which of the call's arrays it is (plus `copy_of`: a copy of that in C order),
        `RESULT`, `VALUES` (the block of words that each call has of its own), or an array that is always the same.
    shape, dtype, strides : tuple of int, numpy.dtype, tuple of int or None
        Of a new result; in C order without strides.
    like : int, optional
        Which of the call's arrays a new result has its shape of, in place of `shape`.
    wrap : callable, optional
        Makes a new array into what is returned, given that array and the call's first argument.
    values : int, optional
        Address of a function, ``int (int64_t *words)``, that checks the call's words and makes them ready, with Python's
        lock held; it returns -1 with an error set.
    bytes : int, optional
        Of all operands and the result.
    own, words : int, tuple of int, optional
        How many of the block's words each call has of its own, and those behind them, which are always the same.
    copied : bool, optional
        Whether the result is made in an array in C order, and then copied to what is written to.
    """

    cdef Executable executable
    cdef int64_t *words
    cdef int n_words, n_sources, axes, like
    cdef uint64_t hash
    cdef bint brief, ordered, copied
    cdef int first_fixed, n_fixed
    cdef int64_t fixed[MOST_VALUES]
    cdef int sources[MOST_OPERANDS]
    cdef char *constants[MOST_OPERANDS]
    cdef cnp.npy_intp extents[MOST_AXES]
    cdef cnp.npy_intp steps[MOST_AXES]
    cdef int64_t bytes
    cdef cnp.dtype dtype
    cdef object keep, wrap
    cdef values_function prepare_values

    def __cinit__(self, Executable executable, sources, tuple shape not None, cnp.dtype dtype not None, strides=None,
                  wrap=None, size_t values=0, int64_t bytes=0, int own=0, tuple words=(), bint copied=False, int like=-1):
        cdef int i
        self.like = like
        self.executable, self.dtype, self.wrap = executable, dtype, wrap
        self.axes, self.n_sources = <int>len(shape), <int>len(sources)
        if self.axes > MOST_AXES or self.n_sources >= MOST_OPERANDS:
            raise bad_argument("shape", shape, f"at most {MOST_AXES} axes, and {MOST_OPERANDS - 1} operands")
        if executable is not None and executable.n_operands != self.n_sources:
            raise ValueError(f"sources: got {self.n_sources}; allowed: {executable.n_operands}")
        self.ordered = strides is None
        self.bytes = dtype.itemsize
        for i in range(self.axes):
            self.extents[i] = shape[i]
            self.steps[i] = 0 if strides is None else strides[i]
            self.bytes *= shape[i]
        self.keep = []
        for i, source in enumerate(sources):
            if isinstance(source, cnp.ndarray):
                self.keep.append(source)
                self.sources[i] = CONSTANT
                self.constants[i] = <char *>cnp.PyArray_DATA(<cnp.ndarray>source)
            else:
                self.sources[i] = source
        self.brief = executable is not None and executable.threads == 1 and bytes <= BRIEF
        self.prepare_values = <values_function><void *>values
        self.copied, self.first_fixed, self.n_fixed = copied, own, <int>len(words)
        if own + self.n_fixed > MOST_VALUES:
            raise bad_argument("words", words, f"at most {MOST_VALUES - own} words")
        for i, word in enumerate(words):
            self.fixed[i] = word

    def __dealloc__(self):
        PyMem_Free(self.words)

    cdef int remember(self, Key key) except -1:
        self.words = <int64_t *>PyMem_Malloc(key.reading.n_words * sizeof(int64_t))
        if self.words == NULL:
            raise MemoryError("no memory for a call's key")
        memcpy(self.words, key.reading.words, key.reading.n_words * sizeof(int64_t))
        self.n_words, self.hash = key.reading.n_words, key.hash
        self.keep.append(key.held)
        return 0

    cdef bint suits(self, Reading *r) noexcept:
        """Whether what a call writes to has the shape of the result, where an array says which that is."""
        cdef cnp.ndarray like
        cdef cnp.ndarray out
        if self.like < 0 or r.receiver == NULL:
            return True
        like, out = <cnp.ndarray>r.arrays[self.like], <cnp.ndarray>r.arrays[r.written]
        return cnp.PyArray_NDIM(like) == cnp.PyArray_NDIM(out) and memcmp(
            cnp.PyArray_DIMS(like), cnp.PyArray_DIMS(out), cnp.PyArray_NDIM(like) * sizeof(cnp.npy_intp)) == 0

    cdef void take_shape(self, cnp.ndarray like) noexcept:
        cdef int i
        self.bytes = cnp.PyArray_SIZE(like) * self.dtype.itemsize
        for i in range(self.axes):
            self.extents[i] = cnp.PyArray_DIM(like, i)

    cdef object run(self, Reading *r, PyObject *subject):
        """Run on the arrays of a call, and return its result."""
        cdef char *operands[MOST_OPERANDS]
        cdef int i, source
        cdef object result
        cdef cnp.ndarray written, source_copy, given = None
        cdef list gathered = None
        if r.receiver != NULL:
            result = <object>r.receiver
            written = <cnp.ndarray>r.arrays[r.written]
            if self.copied:
                given, written = written, temporary((<object>written).shape, self.dtype)
        else:
            if self.like >= 0:
                self.take_shape(<cnp.ndarray>r.arrays[self.like])
            result = written = new_result(self.axes, self.extents, NULL if self.ordered else self.steps, self.dtype,
                                          self.bytes)
        if self.prepare_values != NULL:
            memcpy(&r.values[self.first_fixed], self.fixed, self.n_fixed * sizeof(int64_t))
            self.prepare_values(r.values)
        if self.executable is not None:
            for i in range(self.n_sources):
                source = self.sources[i]
                if source >= COPY_OF:
                    source_copy = cnp.PyArray_GETCONTIGUOUS(<cnp.ndarray>r.arrays[source - COPY_OF])
                    gathered = [source_copy, gathered]
                    operands[i] = <char *>cnp.PyArray_DATA(source_copy)
                elif source >= 0:
                    operands[i] = <char *>cnp.PyArray_DATA(<cnp.ndarray>r.arrays[source])
                elif source == RESULT:
                    operands[i] = <char *>cnp.PyArray_DATA(written)
                elif source == VALUES:
                    operands[i] = <char *>r.values
                else:
                    operands[i] = self.constants[i]
            self.executable.run(operands, self.brief)
        if given is not None:
            cnp.PyArray_CopyInto(given, written)
        if self.wrap is not None and r.receiver == NULL:
            return self.wrap(result, <object>subject)
        return result


@cython.final
cdef class Remake:
    """Makes objects of a class with slots like another but for some of them: a result like its operand.

    Parameters
    ----------
    kind : type
    same : tuple of str
        Slots that stay.
    changed : tuple of str
        Slots whose values a call is given, after the object.
    """

    cdef object kind
    cdef Py_ssize_t same[MOST_ARGUMENTS]
    cdef Py_ssize_t changed[MOST_ARGUMENTS]
    cdef int n_same, n_changed

    def __init__(self, kind, tuple same, tuple changed):
        cdef int i
        self.kind, self.n_same, self.n_changed = kind, <int>len(same), <int>len(changed)
        for i, name in enumerate((*same, *changed)):
            offset = pop_slot_offset(kind, name)
            if offset < 0 or i >= MOST_ARGUMENTS:
                raise bad_argument("slots", name, f"at most {MOST_ARGUMENTS} slots of {kind.__name__}")
            if i < self.n_same:
                self.same[i] = offset
            else:
                self.changed[i - self.n_same] = offset

    def __call__(self, source, *values):
        """Return an object like `source`, which is of the class."""
        cdef int i
        if type(source) is not self.kind or len(values) != self.n_changed:
            raise bad_type("source", source, f"a {self.kind.__name__}, and {self.n_changed} values")
        made = self.kind.__new__(self.kind)
        for i in range(self.n_same):
            pop_set_slot(made, self.same[i], pop_get_slot(source, self.same[i]))
        for i in range(self.n_changed):
            pop_set_slot(made, self.changed[i], PyTuple_GET_ITEM(values, i))
        return made


@cython.final
cdef class Key:
    """What a call is found again by.

    Attributes
    ----------
    places : dict of str to int
        For each argument, the number of the first of its arrays.
    plain : set of int
        The arrays that are arguments themselves, but for what is written to. A program must take them all: numbers that
        were read of one may change.
    """

    cdef Reading reading
    cdef uint64_t hash
    cdef object held
    cdef readonly dict places
    cdef readonly set plain


@cython.final
cdef class Face:
    """A public function as it is called: what it made ready before runs again without it.

    Parameters
    ----------
    function : callable
        Documents the call and, given its arguments, describes what is to be done.
    road : callable
        Does what was described, given it and the `Key`, or None; keeps a `BoundCall` with `keep`.
    op : object
        The op's record.
    written : str or None
        The parameter that is written to.
    values : tuple of str
        Parameters whose value is no part of the key, at most 6.
    """

    cdef vectorcallfunc vectorcall
    cdef readonly object function, op
    cdef object road
    cdef tuple names
    cdef readonly tuple values
    cdef object written
    cdef list slots
    cdef Py_ssize_t count
    cdef dict __dict__
    cdef object __weakref__

    def __init__(self, function, road, op=None, written="out", tuple values=()):
        code = function.__code__
        self.function, self.road, self.op = function, road, op
        self.names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
        self.written, self.values = written, tuple([sys.intern(name) for name in values])
        if len(self.names) > MOST_ARGUMENTS or len(values) > MOST_VALUES:
            raise bad_argument("function", function.__qualname__, f"at most {MOST_ARGUMENTS} parameters, {MOST_VALUES} values")
        self.slots = [None] * FEWEST_SLOTS
        self.count = 0
        self.vectorcall = <vectorcallfunc>call_face
        for name in ("__doc__", "__module__", "__name__", "__qualname__", "__annotations__"):
            setattr(self, name, getattr(function, name))
        setattr(self, "__wrapped__", function)

    def __repr__(self):
        if hasattr(self, "what"):
            return f"<compiled {self.op.name}: {self.what}>"
        return f"<op {self.function.__module__}.{self.function.__qualname__}>"

    def __reduce__(self):
        if hasattr(self, "what"):
            raise bad_type("pickle", "a Face, made for this machine", "its plan, to compile again")
        return self.function.__qualname__  # found again by its name, as functions are

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __get__(self, instance, owner):
        return self

    def keep(self, Key key, BoundCall bound):
        """Keep what a call made ready for the next one with this key."""
        bound.remember(key)
        if 2 * self.count >= len(self.slots):
            old = self.slots if len(self.slots) < MOST_SLOTS else []  # too many kinds of calls: begin anew
            self.slots = [None] * (2 * len(old) if old else FEWEST_SLOTS)
            self.count = 0
            for entry in old:
                if entry is not None:
                    self.put(entry)
        self.put(bound)

    @property
    def kept(self):
        """How many kinds of calls are made ready."""
        return self.count

    cdef int put(self, BoundCall bound) except -1:
        cdef size_t mask = len(self.slots) - 1, at = bound.hash & mask
        while self.slots[at] is not None:
            at = (at + 1) & mask
        self.slots[at] = bound
        self.count += 1
        return 0

    cdef BoundCall find(self, Reading *r):
        cdef uint64_t h = hash_of(r.words, r.n_words)
        cdef size_t mask = PyList_GET_SIZE(self.slots) - 1, at = h & mask
        cdef PyObject *entry
        cdef BoundCall bound
        while True:
            entry = PyList_GET_ITEM(self.slots, at)
            if entry == <PyObject *>None:
                return None
            bound = <BoundCall>entry
            if (bound.hash == h and bound.n_words == r.n_words
                    and memcmp(bound.words, r.words, r.n_words * sizeof(int64_t)) == 0):
                return bound
            at = (at + 1) & mask

    cdef inline int value_of(self, PyObject *name) noexcept:
        """Which of the words that each call has of its own a parameter is, or -1. Names are interned."""
        cdef int i
        for i in range(<int>PyTuple_GET_SIZE(self.values)):
            if PyTuple_GET_ITEM(self.values, i) == name:
                return i
        return -1

    cdef bint read(self, Reading *r, PyObject *const *args, Py_ssize_t n, PyObject *keywords) except -1:
        """Write the words of a call; False where it has no key."""
        cdef Py_ssize_t i, more = 0 if keywords == NULL else PyTuple_GET_SIZE(<object>keywords)
        cdef PyObject *name
        cdef int value
        if n + more > MOST_ARGUMENTS or n > PyTuple_GET_SIZE(self.names):
            return False
        put(r, n, SETTINGS.num_threads)
        put(r, NOTHING, generation)
        for i in range(n + more):
            if i < n:
                name = PyTuple_GET_ITEM(self.names, i)
            else:
                name = PyTuple_GET_ITEM(<object>keywords, i - n)
                if not read_text(r, name):
                    return False
                name = r.held[r.n_held - 1]  # interned
            r.first_array[i] = r.n_arrays
            value = self.value_of(name)
            if value >= 0:
                if not read_value(r, args[i], &r.values[value]):
                    return False
                continue
            if not read_argument(r, args[i]):
                return False
            if name == <PyObject *>self.written and r.n_arrays > r.first_array[i]:
                r.receiver, r.written = args[i], r.first_array[i] + BY_PARTS.get(type(<object>args[i]), 0)
        if r.receiver != NULL and not (cnp.PyArray_ISWRITEABLE(<cnp.ndarray>r.arrays[r.written]) and read_overlaps(r)):
            return False
        return read_shared(r)

    cdef object first_call(self, Reading *r, bint known, PyObject *const *args, Py_ssize_t n, PyObject *keywords):
        """The long way: describe the call, and have it done and kept."""
        cdef Py_ssize_t i, more = 0 if keywords == NULL else PyTuple_GET_SIZE(<object>keywords)
        cdef Reading again
        cdef Key key = None
        cdef list names = list(self.names[:n])
        positional = tuple([<object>args[i] for i in range(n)])
        named = {}
        for i in range(more):
            name = <object>PyTuple_GET_ITEM(<object>keywords, i)
            names.append(name)
            named[name] = <object>args[n + i]
        if known:
            key = Key.__new__(Key)
            key.held = [<object>r.held[i] for i in range(r.n_held)]
            key.places = {names[i]: r.first_array[i] for i in range(n + more)}
            key.plain = {i for i in range(r.n_arrays) if r.plain >> i & 1 and i != r.written}
        call = self.function(*positional, **named)
        if known:  # another thread may have changed an array meanwhile
            open_reading(&again)
            try:
                if (not self.read(&again, args, n, keywords) or again.n_words != r.n_words
                        or memcmp(again.words, r.words, r.n_words * sizeof(int64_t)) != 0):
                    key = None
                else:
                    key.reading = again
                    key.hash = hash_of(again.words, again.n_words)
            finally:
                close_reading(&again)
        return self.road(self, call, key)


cdef PyObject *call_face(PyObject *called, PyObject *const *args, size_t nargsf, PyObject *keywords) except NULL:
    cdef Face face = <Face>called
    cdef Py_ssize_t n = PyVectorcall_NARGS(nargsf)
    cdef Reading r
    cdef BoundCall bound = None
    cdef bint known = False
    cdef object result
    open_reading(&r)
    try:
        if PyList_GET_SIZE(LISTENERS) == 0:
            known = face.read(&r, args, n, keywords)
            if known:
                bound = face.find(&r)
        if bound is not None and bound.suits(&r):
            result = bound.run(&r, args[0] if n else <PyObject *>None)
        else:
            result = face.first_call(&r, known, args, n, keywords)
    finally:
        close_reading(&r)
    Py_INCREF(result)
    return <PyObject *>result


cdef int enable_faces() except -1:
    cdef Face face = Face.__new__(Face)
    pop_call_directly(Py_TYPE(face), <Py_ssize_t>(<char *>&face.vectorcall - <char *><void *>face))
    return 0

enable_faces()
