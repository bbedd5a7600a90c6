"""The executor: runs a program's compute sets over threads, with the GIL released; results; the call cache.

The only module with threads. Arrays come in as NumPy arrays of any dtype (bit patterns are all that kernels see), so
the NumPy C interface is used for their addresses.
"""

cimport cython
cimport numpy as cnp
from cpython.ref cimport Py_INCREF, PyObject, PyTypeObject
from libc.stdint cimport int64_t, uint16_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from program.program cimport pop_segment, pop_tile, pop_vertex

import math

import numpy as np

from poplibs_py.errors import bad_argument

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

cdef extern from "time.h" nogil:
    struct timespec:
        int64_t tv_sec
        long tv_nsec
    int CLOCK_MONOTONIC
    int clock_gettime(int clock, timespec *now)

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
    MOST_AXES = 64


def temporary(tuple shape, dtype=np.float32):
    """Return an array of counted memory, C-contiguous, with whatever it held before.

    Parameters
    ----------
    shape : tuple of int
        At most 64 extents.
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


cdef struct Run:
    pop_segment *segments
    int64_t n_segments
    char **operands
    char *scratch
    int64_t scratch_bytes, stride  # of a thread, and from one thread's to the next
    int threads
    double *seconds  # of each compute set, or NULL where nobody asks


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


cdef double clock() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + 1e-9 * now.tv_nsec


cdef int only_share(const pop_segment *segments, int64_t n, int threads) noexcept:
    """The one share that has items, the first where none has any, or -1 for several: those are worth waking threads for."""
    cdef int64_t s
    cdef int part, found = -1
    for part in range(threads):
        for s in range(n):
            if segments[s].shares[part] < segments[s].shares[part + 1]:
                if found >= 0:
                    return -1
                found = part
                break
    return max(found, 0)


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
    cdef int *alone  # for each compute set, the one share that has items, or -1
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
        self.alone = <int *>calloc(max(1, self.n_sets), sizeof(int))
        if self.segments == NULL or self.set_ends == NULL or self.alone == NULL:
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
            self.alone[s] = only_share(self.segments + i - len(compute_set), len(compute_set), threads)

    def __dealloc__(self):
        free(self.segments)
        free(self.set_ends)
        free(self.alone)

    @property
    def temporary_bytes(self):
        """Bytes that one run takes beside its operands."""
        return self.threads * self.scratch_bytes + (self.workspace_bytes + 63) // 64 * 64

    cdef int run_on(self, tuple arrays, double *seconds) except -1:
        """Run on as many arrays as there are operands."""
        cdef char *operands[MOST_OPERANDS]
        cdef int64_t bytes = 0
        cdef int i = 0
        if len(arrays) != self.n_operands:
            raise ValueError(f"arrays: got {len(arrays)}; allowed: exactly {self.n_operands}")
        for array in arrays:
            if not isinstance(array, cnp.ndarray):
                raise TypeError(f"arrays: got {type(array).__name__}; allowed: numpy.ndarray")
            bytes += cnp.PyArray_NBYTES(<cnp.ndarray>array)
            operands[i] = <char *>cnp.PyArray_DATA(<cnp.ndarray>array)
            i += 1
        return self.run(operands, self.threads == 1 and bytes <= BRIEF, seconds)

    def __call__(self, *arrays):
        """Run on these arrays, in the operands' order."""
        self.run_on(arrays, NULL)

    def timed(self, *arrays):
        """Run on these arrays, and return the wall seconds of each compute set."""
        cdef cnp.ndarray seconds = np.zeros(self.n_sets)
        self.run_on(arrays, <double *>cnp.PyArray_DATA(seconds))
        return seconds

    cdef int run(self, char **operands, bint brief, double *seconds=NULL) except -1:
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
        run.seconds = seconds
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
        cdef double began = 0
        cdef bint stand = True
        for s in range(self.n_sets):
            run.segments = self.segments + first
            run.n_segments = self.set_ends[s] - first
            first = self.set_ends[s]
            if guards:
                set_guards(run.scratch, run.stride, self.threads, True)
            if run.seconds != NULL:
                began = clock()
            if self.alone[s] >= 0:
                run_share(run, self.alone[s])
            else:
                pop_parallel(self.threads, run_share, run)
            if run.seconds != NULL:
                run.seconds[s] = clock() - began
            if guards:
                stand = stand and guards_stand(run.scratch, run.stride, self.threads)
        return stand


include "program/results.pxi"
include "program/keys.pxi"
include "program/calls.pxi"
