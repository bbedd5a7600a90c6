"""The executor: runs a program's compute sets over threads, with the GIL released.

The only module with threads. Arrays come in as NumPy arrays of any dtype (bit patterns are all that kernels see), so
the NumPy C interface is used for their addresses.
"""

cimport cython
cimport numpy as cnp
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject, PyTypeObject
from libc.stdint cimport int64_t, uint16_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from program.program cimport pop_segment, pop_tile, pop_vertex

import math

import numpy as np

from ..errors import bad_argument

cnp.import_array()

cdef extern from "program/threads.h" nogil:
    int POP_MAX_THREADS
    void pop_parallel(int parts, void (*body)(void *, int) noexcept nogil, void *context)

cdef extern from "program/memory.h" nogil:
    void *pop_memory_take(int64_t bytes)
    void pop_memory_give(void *block, int64_t bytes)
    void pop_memory_lock()
    void pop_memory_unlock()
    struct pop_memory_state:
        int64_t in_use
        int64_t peak
    pop_memory_state pop_memory

cdef extern from "numpy/arrayobject.h":
    PyTypeObject *PyArray_Type "&PyArray_Type"
    object PyArray_NewFromDescr(PyTypeObject *kind, cnp.dtype dtype, int axes, cnp.npy_intp *extents,
                                cnp.npy_intp *strides, void *data, int flags, PyObject *like)  # takes dtype's reference

cdef extern from "Python.h":
    PyObject *PyWeakref_NewRef(PyObject *owner, PyObject *callback) except NULL

cdef extern from "pthread.h" nogil:
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil,
                       void (*child)() noexcept nogil)

pthread_atfork(pop_memory_lock, pop_memory_unlock, pop_memory_unlock)

max_threads = POP_MAX_THREADS


def memory_in_use():
    """Return the temporary bytes that operations hold now, in the whole process."""
    return pop_memory.in_use


def memory_peak(bint reset=False):
    """Return the most temporary bytes ever held at once; with `reset`, start again from what is held now."""
    cdef int64_t peak = pop_memory.peak
    if reset:
        pop_memory.peak = pop_memory.in_use
    return peak


cdef class Block:
    """Counted memory that lives as long as the array that looks at it."""

    cdef void *at
    cdef int64_t bytes

    def __dealloc__(self):
        pop_memory_give(self.at, self.bytes)


cdef enum:
    MOST_AXES = 32


def temporary(tuple shape, dtype=np.float32):
    """Return an array of counted memory, C-contiguous, with whatever it held before.

    Parameters
    ----------
    shape : tuple of int
        At most 32 extents.
    dtype : dtype, optional
    """
    cdef Block block = Block.__new__(Block)
    cdef cnp.npy_intp extents[MOST_AXES]
    cdef cnp.dtype kind = np.dtype(dtype)
    cdef int i, axes = <int>len(shape)
    if axes > MOST_AXES or min(shape, default=0) < 0:
        raise bad_argument("shape", shape, f"at most {MOST_AXES} extents, none negative")
    for i in range(axes):
        extents[i] = shape[i]
    block.bytes = math.prod(shape) * kind.itemsize
    block.at = pop_memory_take(block.bytes)
    if block.at == NULL and block.bytes:
        raise MemoryError(f"no memory for {block.bytes} temporary bytes")
    if block.at == NULL:
        return np.empty(shape, kind)
    Py_INCREF(kind)
    array = PyArray_NewFromDescr(PyArray_Type, kind, axes, extents, NULL, block.at, cnp.NPY_ARRAY_CARRAY, NULL)
    cnp.set_array_base(array, block)
    return array


cdef enum:
    GUARD = 0x5AFE  # no FP32 or FP16 number that tests make
    GUARD_BYTES = 64
    NAN_BYTE = 0xFF  # four of them are a NaN

cdef bint guarded = False


def guard_arenas(bint on):
    """Surround every thread's arena with guard words from now on, and fill it with NaNs before each compute set.

    For tests: a program that writes past what it laid out, or reads what its tile did not write, is then found.
    """
    global guarded
    guarded = on


cdef void set_guards(char *scratch, int64_t stride, int threads, bint fill) noexcept nogil:
    cdef int64_t i, t
    for t in range(threads + 1):
        for i in range(GUARD_BYTES // 2):
            (<uint16_t *>(scratch + t * stride - GUARD_BYTES))[i] = GUARD
        if fill and t < threads:
            memset(scratch + t * stride, NAN_BYTE, stride - GUARD_BYTES)


cdef bint guards_stand(const char *scratch, int64_t stride, int threads) noexcept nogil:
    cdef int64_t i, t
    for t in range(threads + 1):
        for i in range(GUARD_BYTES // 2):
            if (<const uint16_t *>(scratch + t * stride - GUARD_BYTES))[i] != GUARD:
                return False
    return True


cdef enum:
    MOST_OPERANDS = 32
    BRIEF = 32768  # bytes of all operands that are worked through sooner than the lock of Python would change hands


cdef struct Held:
    # Weak references to the arrays that own the operands' memory: NumPy does not resize an array that one points to.
    PyObject *anchors[MOST_OPERANDS]
    int count


cdef cnp.ndarray owner_of(cnp.ndarray array):
    """The array that owns an operand's memory; None if no array does, so that none resizes it."""
    while array.base != NULL and isinstance(<object>array.base, cnp.ndarray):
        array = <cnp.ndarray>array.base
    return array if array.base == NULL else None


cdef int hold(Held *held, cnp.ndarray array) except -1:
    """Keep an operand's memory where it is until `release`.

    This allocates, so that Python may collect garbage here, and other threads run: what was looked at before may have
    changed after.
    """
    cdef cnp.ndarray owner = owner_of(array)
    if owner is not None:
        held.anchors[held.count] = PyWeakref_NewRef(<PyObject *>owner, NULL)
        held.count += 1
    return 0


cdef int check(cnp.ndarray array) except -1:
    """Raise if a view's memory has gone since it was made. Nothing else of Python runs meanwhile."""
    cdef cnp.ndarray owner = owner_of(array)
    cdef const char *low = <const char *>cnp.PyArray_DATA(array)
    cdef const char *high = low + cnp.PyArray_ITEMSIZE(array)
    cdef const char *first
    cdef int64_t reach
    cdef int i
    cdef bint empty = False
    if owner is None or owner is array:
        return 0
    for i in range(cnp.PyArray_NDIM(array)):
        reach = (cnp.PyArray_DIM(array, i) - 1) * cnp.PyArray_STRIDE(array, i)
        empty = empty or cnp.PyArray_DIM(array, i) == 0
        low += reach if reach < 0 else 0
        high += reach if reach > 0 else 0
    first = <const char *>cnp.PyArray_DATA(owner)
    if not empty and (low < first or high > first + cnp.PyArray_NBYTES(owner)):
        raise bad_argument("array", "memory that was resized during the call", "arrays that stay as they are until it ends")
    return 0


cdef void release(Held *held) noexcept:
    cdef int i
    for i in range(held.count):
        Py_XDECREF(held.anchors[i])


@cython.final
cdef class Hold:
    """Keeps the memory of arrays where it is for as long as this object lives: for what NumPy reads without its lock.

    Parameters
    ----------
    *arrays : numpy.ndarray or None
        At most 32.

    Raises
    ------
    InvalidArgumentError
        If the memory that a view looks at has gone already, or for more arrays.
    """

    cdef Held held

    def __cinit__(self, *arrays):
        self.held.count = 0
        if len(arrays) > MOST_OPERANDS:
            raise bad_argument("arrays", f"{len(arrays)} arrays", f"at most {MOST_OPERANDS}")
        for array in arrays:
            if array is not None:
                hold(&self.held, <cnp.ndarray?>array)
        for array in arrays:
            if array is not None:
                check(<cnp.ndarray>array)

    def __dealloc__(self):
        release(&self.held)


cdef struct Run:
    pop_segment *segments
    int64_t n_segments
    char **operands
    char *scratch
    int64_t scratch_bytes, stride  # of a thread, and from one thread's to the next
    int threads


cdef void run_share(void *context, int part) noexcept nogil:
    cdef Run *run = <Run *>context
    cdef pop_tile tile
    cdef pop_segment *segment
    cdef int64_t s, i
    tile.operands = run.operands
    tile.scratch = run.scratch + part * run.stride
    tile.scratch_bytes = run.scratch_bytes
    tile.thread = part
    for s in range(run.n_segments):
        segment = run.segments + s
        for i in range(segment.shares[part], segment.shares[part + 1]):
            segment.vertex(segment.items + i * segment.item_bytes, &tile)


@cython.final
cdef class Executable:
    """A program bound to a number of threads, ready to run on operands many times and from many threads.

    Parameters
    ----------
    compute_sets : sequence of sequences of (int, numpy.ndarray, numpy.ndarray)
        For each compute set, its segments: address of the vertex, table of items (one-dimensional, structured),
        and the tile of each item (int, not descending).
    n_operands : int
        Arrays that a call passes, at most 31.
    n_tiles : int
        Tiles that the items are spread over; contiguous tiles share a thread.
    scratch_bytes : int
        Temporary bytes of each thread.
    workspace_bytes : int
        Temporary bytes shared by all threads; a vertex sees them as the operand after the last.
    threads : int
        Threads to run on.
    tables : sequence, optional
        What the items point to, to be kept for as long as the program is.
    """

    cdef pop_segment *segments
    cdef int64_t *set_ends
    cdef int64_t n_sets
    cdef int n_operands
    cdef object keep
    cdef readonly int threads
    cdef readonly int64_t scratch_bytes
    cdef readonly int64_t workspace_bytes

    def __cinit__(self, compute_sets, int n_operands, int64_t n_tiles, int64_t scratch_bytes,
                  int64_t workspace_bytes, int threads, tables=()):
        cdef cnp.ndarray table, shares
        cdef int64_t i = 0, s
        if not 0 <= n_operands < MOST_OPERANDS:  # the workspace is one more
            raise bad_argument("n_operands", n_operands, f"0 to {MOST_OPERANDS - 1}")
        threads = max(1, min(threads, POP_MAX_THREADS))
        self.threads = threads
        self.n_operands = n_operands
        self.scratch_bytes = (scratch_bytes + 63) // 64 * 64
        self.workspace_bytes = workspace_bytes
        self.n_sets = len(compute_sets)
        self.segments = <pop_segment *>calloc(max(1, sum(len(c) for c in compute_sets)), sizeof(pop_segment))
        self.set_ends = <int64_t *>calloc(max(1, self.n_sets), sizeof(int64_t))
        if self.segments == NULL or self.set_ends == NULL:
            raise MemoryError("executable: no memory for its tables")
        self.keep = list(tables)
        first_tiles = np.array([t * n_tiles // threads for t in range(threads + 1)])
        for s, compute_set in enumerate(compute_sets):
            for vertex, items, tiles in compute_set:
                table = np.ascontiguousarray(items)
                shares = np.searchsorted(tiles, first_tiles).astype(np.int64)
                self.keep.append((table, shares))
                self.segments[i].vertex = <pop_vertex><size_t>vertex
                self.segments[i].items = <const char *>cnp.PyArray_DATA(table)
                self.segments[i].item_bytes = table.itemsize
                self.segments[i].shares = <const int64_t *>cnp.PyArray_DATA(shares)
                i += 1
            self.set_ends[s] = i

    def __dealloc__(self):
        free(self.segments)
        free(self.set_ends)

    @property
    def temporary_bytes(self):
        """Bytes that one run takes beside its operands."""
        return self.threads * self.scratch_bytes + (self.workspace_bytes + 63) // 64 * 64

    def __call__(self, *arrays):
        """Run on these arrays, in the operands' order."""
        if len(arrays) != self.n_operands:
            raise ValueError(f"arrays: got {len(arrays)}; allowed: exactly {self.n_operands}")
        for array in arrays:
            if not isinstance(array, cnp.ndarray):
                raise TypeError(f"arrays: got {type(array).__name__}; allowed: numpy.ndarray")
        self.run_on(arrays, NULL)

    cdef bint run_on(self, tuple arrays, const int64_t *words) except -1:
        """Run on as many arrays as there are operands; return False where they do not lie as `words` say, if any do.

        From the comparison to the addresses no other thread of Python runs.
        """
        cdef char *operands[MOST_OPERANDS]
        cdef Held held
        cdef int64_t bytes = 0
        cdef int i
        cdef bint brief
        held.count = 0
        for i in range(self.n_operands):
            bytes += cnp.PyArray_NBYTES(<cnp.ndarray>arrays[i])
        brief = self.threads == 1 and bytes <= BRIEF
        try:
            if not brief:
                for i in range(self.n_operands):
                    hold(&held, <cnp.ndarray>arrays[i])
            if words != NULL and not lie_as(arrays, words):
                return False
            for i in range(self.n_operands):
                check(<cnp.ndarray>arrays[i])
                operands[i] = <char *>cnp.PyArray_DATA(<cnp.ndarray>arrays[i])
            self.run(operands, brief)
        finally:
            release(&held)
        return True

    cdef int run(self, char **operands, bint brief) except -1:
        """Run with the addresses of the operands; `operands` has room for one more. A brief run keeps Python's lock."""
        cdef Run run
        cdef int64_t guard = GUARD_BYTES if guarded else 0
        cdef int64_t scratch_total = self.threads * (self.scratch_bytes + guard) + guard
        cdef char *workspace = <char *>pop_memory_take(self.workspace_bytes)
        cdef char *scratch = <char *>pop_memory_take(scratch_total)
        cdef bint stand = True
        if (workspace == NULL and self.workspace_bytes) or (scratch == NULL and scratch_total):
            pop_memory_give(workspace, self.workspace_bytes)
            pop_memory_give(scratch, scratch_total)
            raise MemoryError(f"no memory for {self.temporary_bytes} temporary bytes")
        run.scratch = scratch + guard
        run.stride = self.scratch_bytes + guard
        operands[self.n_operands] = workspace
        run.operands = operands
        run.scratch_bytes = self.scratch_bytes
        run.threads = self.threads
        if brief:
            stand = self.run_sets(&run, guard != 0)
        else:
            with nogil:
                stand = self.run_sets(&run, guard != 0)
        pop_memory_give(workspace, self.workspace_bytes)
        pop_memory_give(scratch, scratch_total)
        if not stand:
            raise RuntimeError(f"a vertex wrote past the {self.scratch_bytes} bytes that were laid out for it")
        return 0

    cdef bint run_sets(self, Run *run, bint guards) noexcept nogil:
        """Run every compute set, and say whether no tile wrote past its scratch, where there are guards."""
        cdef int64_t s, first = 0
        cdef bint stand = True
        for s in range(self.n_sets):
            run.segments = self.segments + first
            run.n_segments = self.set_ends[s] - first
            first = self.set_ends[s]
            if guards:
                set_guards(run.scratch, run.stride, self.threads, True)
            pop_parallel(self.threads, run_share, run)
            if guards:
                stand = stand and guards_stand(run.scratch, run.stride, self.threads)
        return stand


cdef bint lie_as(tuple arrays, const int64_t *words) noexcept:
    """Whether arrays have the axes, element sizes, extents and strides that `words` say, as a `Bound` keeps them."""
    cdef cnp.ndarray array
    cdef int i, d, axes
    for i in range(<int>len(arrays)):
        array = <cnp.ndarray>arrays[i]
        axes = cnp.PyArray_NDIM(array)
        if words[0] < 0:
            words += 1
            continue
        if words[0] != axes or words[1] != cnp.PyArray_ITEMSIZE(array):
            return False
        for d in range(axes):
            if words[2 + d] != cnp.PyArray_DIM(array, d) or words[2 + axes + d] != cnp.PyArray_STRIDE(array, d):
                return False
        words += 2 + 2 * axes
    return True


@cython.final
cdef class Bound:
    """An executable and how its arrays lie, for calls that look at nothing else.

    Called with arrays that have other extents, strides or element sizes by now, whoever changed them, it runs nothing
    and returns False.

    Parameters
    ----------
    executable : Executable
    *arrays : numpy.ndarray or None
        Arrays that lie as those of the calls to come; None for one that nobody can change.
    """

    cdef Executable executable
    cdef object lies
    cdef const int64_t *words

    def __cinit__(self, Executable executable, *arrays):
        if len(arrays) != executable.n_operands:
            raise ValueError(f"arrays: got {len(arrays)}; allowed: exactly {executable.n_operands}")
        words = []
        for array in arrays:
            words += [-1] if array is None else [array.ndim, array.itemsize, *array.shape, *array.strides]
        self.executable = executable
        self.lies = np.array(words, np.int64)
        self.words = <const int64_t *>cnp.PyArray_DATA(self.lies)

    def __call__(self, *arrays):
        """Run on these arrays, or return False."""
        if len(arrays) != self.executable.n_operands:
            return False
        for item in arrays:
            if not isinstance(item, cnp.ndarray):
                return False
        return self.executable.run_on(arrays, self.words)
