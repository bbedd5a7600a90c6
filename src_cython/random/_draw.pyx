"""A draw from the counter stream: arguments checked, its place in the stream found, the kernel run.

`src_cython/kernels/random/aox.h` defines the stream. Compiled, because this is all that a call for a few numbers costs.
"""

cimport cython
cimport numpy as cnp
from cpython.ref cimport PyObject, PyTypeObject
from libc.math cimport INFINITY, isfinite
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from pop_records cimport pop_random_call

import operator
import threading
from functools import cache
from time import perf_counter

import numpy as np

from poplibs_py.config import settings
from poplibs_py.errors import bad_argument, bad_type
from poplibs_py.formats import FORMATS, Format
from poplibs_py.kernels.records import dtype_of
from poplibs_py.program import Executable, overlaps_itself, result_array
from poplibs_py.program.record import Run, listeners, record

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    PyTypeObject *PyArray_Type "&PyArray_Type"
    object PyArray_View(cnp.ndarray array, PyObject *dtype, PyTypeObject *kind)

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1

cdef extern from "kernels/random/call.h":
    pass

cdef extern from "kernels/random/aox.h" nogil:
    ctypedef unsigned long long pop_polynomial  # of 128 bits
    void pop_aox_start(uint64_t *start, uint64_t seed, uint32_t modifier, uint32_t substream)
    void pop_aox_jump(pop_polynomial steps, uint64_t *s0, uint64_t *s1)

cdef int64_t WORD = (<int64_t>1 << 32) - 1
cdef object TWO_WORDS = (1 << 64) - 1
cdef int64_t LAST = <int64_t>1 << 62
cdef object MaskedArray = np.ma.MaskedArray
cdef list LISTENERS = listeners

ELEMENTS_PER_THREAD = 1 << 16
"""Elements that are worth a thread: 3 to 25 microseconds of work, where a thread that waits costs one or two. Measured:
128 Ki elements are 1.3 to 1.9 times faster with two."""


cpdef object whole(str name, object value, object low=None, object high=None):
    """Return a whole number, within bounds where there are any, both allowed."""
    if type(value) is not int:
        if isinstance(value, (bool, np.bool_)):
            raise bad_type(name, value, "a whole number")
        try:
            value = operator.index(value)
        except Exception:
            raise bad_type(name, value, "a whole number") from None
    if low is not None and not low <= value <= high:
        raise bad_argument(name, value, f"a whole number from {low} to {high}")
    return value


cdef int64_t counted(str name, object value, int64_t high) except? -1:
    """As `whole`, from 0; what is plainly right costs nothing."""
    cdef int overflow
    cdef int64_t number
    if type(value) is int:
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if not overflow and 0 <= number <= high:
            return number
    return whole(name, value, 0, high)


cpdef double finite(str name, object value, double low=-INFINITY, double high=INFINITY) except? -1:
    """Return a finite number within bounds, both allowed; minus zero counts as zero."""
    cdef double number
    if type(value) is float:
        number = value
    elif isinstance(value, (bool, np.bool_, str, bytes, np.complexfloating)) or getattr(value, "ndim", 0):
        raise bad_type(name, value, "a number")
    else:
        try:
            number = float(value)
        except OverflowError:
            raise bad_argument(name, value, "a finite number") from None
        except Exception:
            raise bad_type(name, value, "a number") from None
    if not (isfinite(number) and low <= number <= high):
        bounds = "" if low == -INFINITY and high == INFINITY else f" from {low:g} to {high:g}"
        raise bad_argument(name, value, f"a finite number{bounds}")
    return number + 0.0


cpdef bint is_ipu(object stream, object target=None, object tile_mapping=None) except -1:
    """Whether the stream is that of a modelled IPU; otherwise there may be no target and no mapping."""
    if not isinstance(stream, str) or stream not in ("counter", "ipu"):
        raise bad_argument("stream", stream, "'counter', 'ipu'")
    if stream == "ipu":
        return True
    if target is not None or tile_mapping is not None:
        name, value = ("tile_mapping", tile_mapping) if target is None else ("target", target)
        raise bad_argument(name, value, "None for stream='counter', which no machine changes")
    return False


cpdef tuple shape_of(object shape):
    """Return a shape as a tuple."""
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    if len(extents) > 64:
        raise bad_argument("shape", shape, "at most 64 dimensions")
    return tuple([counted("shape", extent, LAST) for extent in extents])


cpdef object output(object shape, cnp.dtype dtype, object out):
    """Return the array to fill: `out`, checked, or a new one. A shape of None is that of `out`."""
    if out is None:
        if shape is None:
            raise bad_argument("shape", None, "a shape, or None together with out")
        extents = shape_of(shape)
        try:
            return result_array(extents, dtype)
        except ValueError:  # more bytes than can be counted
            raise bad_argument("shape", shape, f"at most {LAST} bytes in all") from None
    if not isinstance(out, np.ndarray) or isinstance(out, MaskedArray):
        raise bad_type("out", out, "a numpy.ndarray without a mask")
    if shape is not None:
        extents = shape_of(shape)
        if out.shape != extents:
            raise bad_argument("out", f"an array of shape {out.shape}", f"one of shape {extents}")
    if out.dtype is not dtype and out.dtype != dtype:
        raise bad_type("out", f"an array of {out.dtype}", f"one of {dtype}")
    if not cnp.PyArray_ISWRITEABLE(out):
        raise bad_argument("out", "a read-only array", "one that can be written")
    if not cnp.PyArray_IS_C_CONTIGUOUS(out) and overlaps_itself(out):
        raise bad_argument("out", "an array with elements that share memory", "one of separate elements")
    return out


cdef object view_of(object out):
    """A view, which stays as it is whatever another thread makes of `out`; what is no array for it to be refused."""
    if not isinstance(out, cnp.ndarray) or isinstance(out, MaskedArray):
        return out
    return PyArray_View(out, NULL, PyArray_Type)


cpdef uint64_t seed_of(object seed) except? 0:
    """Return the 64-bit seed ``s0 + 2**32 * s1``."""
    if isinstance(seed, (tuple, list)) or (isinstance(seed, np.ndarray) and seed.ndim):
        if len(seed) != 2:
            raise bad_argument("seed", seed, "two words of 32 bits, or a whole number of 64 bits")
        return <uint64_t>counted("seed", seed[0], WORD) | <uint64_t>counted("seed", seed[1], WORD) << 32
    return whole("seed", seed, 0, TWO_WORDS)


cpdef uint32_t modifier_of(object seed_modifier) except? 0:
    """Return the seed modifier, 32 bits."""
    return <uint32_t>counted("seed_modifier", seed_modifier, WORD)


cdef object _lock = threading.Lock()
cdef bint _seeded = False
cdef uint64_t _next[2]  # where the stream starts that calls without a seed share: the first row not yet drawn


def seed_default(seed, uint32_t modifier):
    """Start the stream of the calls without a seed again; None: from the system's entropy."""
    global _seeded
    cdef uint64_t word = np.random.SeedSequence().generate_state(1, np.uint64)[0] if seed is None else seed
    with _lock:
        pop_aox_start(_next, word, modifier, 0)
        _seeded = True


cdef int take_default(pop_random_call *call, int64_t per_row) except -1:
    """The next place of that stream; a call takes whole rows."""
    if not _seeded:
        seed_default(None, 0)
    with _lock:
        call.start[0], call.start[1] = _next[0], _next[1]
        pop_aox_jump((call.count + per_row - 1) // per_row, &_next[0], &_next[1])
    return 0


@cache
def _executable(address, operands, threads):
    items = np.zeros(threads, dtype_of("pop_random_item"))
    items["share"], items["shares"] = np.arange(threads), threads
    return Executable([[(address, items, np.arange(threads))]], operands, threads, 0, 0, threads)


@cython.final
cdef class Draw:
    """A distribution with its numbers: fills arrays from the counter stream.

    Parameters
    ----------
    kernel : Kernel
        One of the random family.
    dtype : numpy.dtype
        Of the arrays.
    **numbers
        What the kernel reads; see `pop_random_call` in `src_cython/records/random.def`.
    """

    cdef readonly object dtype
    cdef pop_random_call numbers
    cdef object kernel, program, alone
    cdef int64_t per_row, unit

    def __init__(self, kernel, cnp.dtype dtype, *, float scale=1, float shift=0, float low=0, float high=0,
                 float slope=1, float intercept=0, uint32_t bound=0, uint32_t one=0, uint64_t range=1,
                 uint64_t threshold=0, int64_t offset=0):
        self.kernel, self.dtype, self.per_row = kernel, dtype, kernel.grain[1]
        self.program = kernel.address, 3 if kernel.op == "dropout" else 2
        self.alone = _executable(*self.program, 1)
        self.unit = dtype.itemsize if kernel.formats == "bytes" else 1  # such kernels count bytes
        memset(&self.numbers, 0, sizeof(pop_random_call))
        self.numbers.scale, self.numbers.shift, self.numbers.low, self.numbers.high = scale, shift, low, high
        self.numbers.slope, self.numbers.intercept = slope, intercept
        self.numbers.bound, self.numbers.one = bound, one
        self.numbers.range, self.numbers.threshold, self.numbers.offset = range, threshold, offset

    def fill(self, shape, out, seed, seed_modifier, offset, source=None, threads=None):
        """Fill `out`, or a new array, in the order of its logical index (C order), whatever its strides.

        Parameters
        ----------
        shape : int or tuple of int or None
        out : ndarray or None
        seed, seed_modifier, offset
            Where in the stream; without a seed the place that comes next in the default stream.
        source : ndarray, optional
            Input of the same shape.
        threads : int, optional
            By default as many as are worth while.

        Returns
        -------
        ndarray
        """
        cdef pop_random_call call = self.numbers
        cdef uint32_t modifier
        result = output(shape, self.dtype, view_of(out))
        modifier = modifier_of(seed_modifier)
        call.first = counted("offset", offset, LAST // self.unit) * self.unit
        call.count = cnp.PyArray_SIZE(result) * self.unit
        if seed is not None:
            pop_aox_start(call.start, seed_of(seed), modifier, 0)
        elif call.first or modifier:
            name, value = ("offset", offset) if call.first else ("seed_modifier", seed_modifier)
            raise bad_argument(name, value, "0 where there is no seed")
        else:
            take_default(&call, self.per_row)
        if call.count:
            filled = result
            if out is not None and (not cnp.PyArray_IS_C_CONTIGUOUS(result)
                                    or (source is not None and spoils(source, result))):
                filled = result_array(result.shape, self.dtype)
            began = perf_counter() if LISTENERS else 0
            self.run(&call, filled, source, threads)
            if filled is not result:
                result[...] = filled
            if LISTENERS:
                name = f"{self.kernel.name} ({self.kernel.level})"
                record(Run("poprand", f"{self.kernel.op} {result.shape} {self.dtype}", name, perf_counter() - began))
        return result if out is None else out

    cdef int run(self, pop_random_call *call, object out, object source, object threads) except -1:
        cdef cnp.npy_intp size = sizeof(pop_random_call)
        executable = self.alone
        if threads is None and call.count >= 2 * <int64_t>ELEMENTS_PER_THREAD * self.unit:
            threads = min(settings.num_threads, call.count // self.unit // ELEMENTS_PER_THREAD)
        if threads is not None:
            executable = _executable(*self.program, threads)
        last = cnp.PyArray_SimpleNewFromData(1, &size, cnp.NPY_UINT8, call)
        if source is None:
            executable(out, last)
        else:
            if not cnp.PyArray_IS_C_CONTIGUOUS(source):
                source = np.ascontiguousarray(source)
            executable(source, out, last)
        return 0


cdef bint spoils(cnp.ndarray source, cnp.ndarray out) except -1:
    """Whether writing `out` could change what is still to be read; element for element in place is allowed."""
    cdef char *read = <char *>cnp.PyArray_DATA(source)
    cdef char *written = <char *>cnp.PyArray_DATA(out)
    if not cnp.PyArray_IS_C_CONTIGUOUS(source):
        return np.may_share_memory(source, out)
    return read != written and read < written + cnp.PyArray_NBYTES(out) and written < read + cnp.PyArray_NBYTES(source)


# Types of arguments that cannot change, of which equal ones mean the same: not bool, not complex.
cdef frozenset PLAIN = frozenset([float, int, str, type, type(None), Format, np.float16, np.float32, np.float64,
                                  np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
                                  *(type(form.dtype) for form in FORMATS), *(type(np.dtype(k)) for k in "?bhilBHIL")])


@cython.final
cdef class Remembered:
    """A function that makes a `Draw`, and what it made before of the same arguments.

    Only arguments that cannot change are remembered by: numbers, dtypes and their names.
    """

    cdef object function
    cdef dict made

    def __init__(self, function):
        self.function, self.made = function, {}

    def __call__(self, *arguments):
        for argument in arguments:
            if type(argument) not in PLAIN:
                return self.function(*arguments)
        found = self.made.get(arguments)
        if found is None:
            found = self.function(*arguments)
            if len(self.made) >= 256:
                self.made.clear()
            self.made[arguments] = found
        return found
