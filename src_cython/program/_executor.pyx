"""The executor: runs a program's loops of compute sets over threads, with the GIL released; results; the call cache.

The only module with threads. Arrays come in as NumPy arrays of any dtype (bit patterns are all that kernels see), so
the NumPy C interface is used for their addresses.
"""

cimport cython
cimport numpy as cnp
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject, PyTypeObject
from libc.stdint cimport int64_t, uint16_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from program.program cimport pop_segment, pop_tile, pop_vertex

import math

import numpy as np

from poplibs_py.checks import flag
from poplibs_py.errors import bad_argument, bad_type

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
    object PyArray_Empty(int axes, cnp.npy_intp *extents, cnp.dtype dtype, int fortran)  # takes dtype's reference
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


def memory_peak(reset=False):
    """Return the most temporary bytes ever held at once; with `reset`, start again from what is held now."""
    cdef int64_t peak = pop_memory.peak
    if flag("reset", reset):
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
    cdef cnp.npy_intp extents[MOST_AXES]
    cdef int i, axes = <int>len(shape)
    if axes > MOST_AXES or min(shape, default=0) < 0:
        raise bad_argument("shape", shape, f"at most {MOST_AXES} extents, none negative")
    for i in range(axes):
        extents[i] = shape[i]
    kind = np.dtype(dtype)
    return counted(axes, extents, kind, math.prod(shape) * kind.itemsize)


cdef object counted(int axes, cnp.npy_intp *extents, cnp.dtype kind, int64_t bytes, cnp.npy_intp *strides=NULL):
    """An array of counted memory, of so many bytes in all: in C order, or with strides that fill it."""
    cdef Block block = Block.__new__(Block)
    Py_INCREF(kind)
    if not bytes:
        return PyArray_Empty(axes, extents, kind, 0)
    block.bytes = bytes
    block.at = pop_memory_take(bytes)
    if block.at == NULL:
        block.bytes = 0
        Py_DECREF(kind)
        raise MemoryError(f"no memory for {bytes} temporary bytes")
    array = PyArray_NewFromDescr(PyArray_Type, kind, axes, extents, strides, block.at, cnp.NPY_ARRAY_CARRAY, NULL)
    cnp.set_array_base(array, block)
    return array


def in_c_order(object array):
    """Return an array in C order: itself, or a copy in counted memory."""
    if not isinstance(array, np.ndarray):
        raise bad_type("array", array, "a NumPy array")
    return ordered(array)


cdef cnp.ndarray ordered(cnp.ndarray array):
    if cnp.PyArray_IS_C_CONTIGUOUS(array):
        return array
    copy = temporary((<object>array).shape, array.descr)
    copy[...] = array
    return copy


cdef enum:
    GUARD = 0x5AFE  # no FP32 or FP16 number that tests make
    GUARD_BYTES = 64
    NAN_BYTE = 0xFF  # four of them are a NaN

cdef bint guarded = False


def guard_arenas(bint on):
    """Surround every arena with guard words from now on, and fill it with NaNs before each of a vertex's items.

    For tests: a program that writes past what it laid out, or reads what its tile did not write, is then found.
    """
    global guarded
    guarded = on


cdef void set_guards(char *arena, int64_t bytes) noexcept nogil:
    cdef int64_t i
    for i in range(GUARD_BYTES // 2):
        (<uint16_t *>(arena - GUARD_BYTES))[i] = GUARD
        (<uint16_t *>(arena + bytes))[i] = GUARD
    memset(arena, NAN_BYTE, bytes)


cdef bint guards_stand(const char *arena, int64_t bytes) noexcept nogil:
    cdef int64_t i
    for i in range(GUARD_BYTES // 2):
        if (<const uint16_t *>(arena - GUARD_BYTES))[i] != GUARD or (<const uint16_t *>(arena + bytes))[i] != GUARD:
            return False
    return True


cdef enum:
    MOST_OPERANDS = 32
    BRIEF = 32768  # bytes of all operands that are worked through sooner than the lock of Python would change hands
    BRIEF_IF_LIGHT = 262144  # and of programs that take no longer than memory does: some microseconds


cdef struct Steps:
    int turns
    int64_t first_set, end_set  # of the body


cdef struct Run:
    pop_segment *segments
    int64_t n_segments
    char **operands
    char *scratch
    int64_t scratch_bytes, stride  # of a thread, and from one thread's to the next
    int threads, turn
    bint guarded, spoilt  # whether arenas have guards, and whether one was written over
    double *seconds  # of each compute set, or NULL where nobody asks


cdef void run_share(void *context, int part) noexcept nogil:
    cdef Run *run = <Run *>context
    cdef pop_tile tile
    cdef pop_segment *segment
    cdef const int64_t *shares
    cdef int64_t s, i
    memset(&tile, 0, sizeof(tile))
    tile.operands = run.operands
    tile.scratch = run.scratch + part * run.stride
    tile.scratch_bytes = run.scratch_bytes
    tile.thread, tile.turn = part, run.turn
    for s in range(run.n_segments):
        segment = run.segments + s
        shares = segment.shares + run.turn * segment.turn_shares
        for i in range(shares[part], shares[part + 1]):
            if run.guarded:
                set_guards(tile.scratch, run.scratch_bytes)
            segment.vertex(segment.items + i * segment.item_bytes, &tile)
            if run.guarded and not guards_stand(tile.scratch, run.scratch_bytes):
                run.spoilt = True


cdef double clock() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + 1e-9 * now.tv_nsec


cdef int only_share(const pop_segment *segments, int64_t n, int threads, int turns) noexcept:
    """The one share that ever has items, the first where none has any, or -1 for several: those are worth waking threads for."""
    cdef const int64_t *shares
    cdef int64_t s, turn
    cdef int part, found = -1
    for s in range(n):
        for turn in range(turns if segments[s].turn_shares else 1):
            shares = segments[s].shares + turn * segments[s].turn_shares
            for part in range(threads):
                if shares[part] < shares[part + 1] and part != found:
                    if found >= 0:
                        return -1
                    found = part
    return max(found, 0)


cdef int64_t addresses_of(tuple arrays, int n, char **operands) except -1:
    """Write where the arrays of a run lie, as many as there are operands; return their bytes."""
    cdef int64_t bytes = 0
    cdef int i = 0
    if len(arrays) != n:
        raise ValueError(f"arrays: got {len(arrays)}; allowed: exactly {n}")
    for array in arrays:
        if not isinstance(array, cnp.ndarray):
            raise TypeError(f"arrays: got {type(array).__name__}; allowed: numpy.ndarray")
        bytes += cnp.PyArray_NBYTES(<cnp.ndarray>array)
        operands[i] = <char *>cnp.PyArray_DATA(<cnp.ndarray>array)
        i += 1
    return bytes


@cython.final
cdef class Executable:
    """A program bound to a number of threads, ready to run on operands many times and from many threads.

    Parameters
    ----------
    program : Program
        At most 31 operands. Contiguous tiles share a thread.
    threads : int
        Threads to run on.

    Attributes
    ----------
    program : Program
    threads : int
    phases : tuple of str
        Of each compute set.
    """

    cdef pop_segment *segments
    cdef int64_t *set_ends
    cdef int *alone  # for each compute set, the one share that has items, or -1
    cdef Steps *loops
    cdef int64_t n_sets, n_loops
    cdef int n_operands
    cdef object keep
    cdef readonly object program
    cdef readonly tuple phases
    cdef readonly int threads
    cdef readonly int64_t scratch_bytes
    cdef readonly int64_t workspace_bytes
    cdef int64_t brief_bytes

    def __cinit__(self, program, int threads):
        cdef int64_t i = 0, s = 0, n = 0
        loops = [(loop.turns, [step for step in loop.body if hasattr(step, "segments")]) for loop in program.loops]
        sets = [step for _, body in loops for step in body]
        if not 0 <= program.operands < MOST_OPERANDS:  # the workspace is one more
            raise bad_argument("operands", program.operands, f"0 to {MOST_OPERANDS - 1}")
        threads = max(1, min(threads, POP_MAX_THREADS))
        self.program, self.threads, self.n_operands = program, threads, program.operands
        self.scratch_bytes = (program.arena_bytes + 63) // 64 * 64
        self.workspace_bytes = program.workspace_bytes
        self.brief_bytes = BRIEF_IF_LIGHT if program.light else BRIEF
        self.n_sets, self.n_loops = len(sets), len(loops)
        self.phases = tuple([step.phase for step in sets])
        self.segments = <pop_segment *>calloc(max(1, sum([len(step.segments) for step in sets])), sizeof(pop_segment))
        self.set_ends = <int64_t *>calloc(max(1, self.n_sets), sizeof(int64_t))
        self.alone = <int *>calloc(max(1, self.n_sets), sizeof(int))
        self.loops = <Steps *>calloc(max(1, self.n_loops), sizeof(Steps))
        if self.segments == NULL or self.set_ends == NULL or self.alone == NULL or self.loops == NULL:
            raise MemoryError("executable: no memory for its tables")
        self.keep = []
        for turns, body in loops:
            self.loops[n].turns, self.loops[n].first_set = turns, s
            for step in body:
                for segment in step.segments:
                    self.lay_out(&self.segments[i], segment, turns)
                    i += 1
                self.set_ends[s] = i
                self.alone[s] = only_share(self.segments + i - len(step.segments), len(step.segments), threads, turns)
                s += 1
            self.loops[n].end_set = s
            n += 1

    cdef lay_out(self, pop_segment *to, segment, int turns):
        """Share a segment's items out to the threads, turn by turn where each has its own."""
        cdef cnp.ndarray table = np.ascontiguousarray(segment.items), shares
        cdef int64_t tiles = self.program.tiles
        first_tiles = np.arange(self.threads + 1) * tiles // self.threads
        if segment.turns is None:
            shares = np.searchsorted(segment.tiles, first_tiles).astype(np.int64)
        else:
            places = np.asarray(segment.turns, np.int64) * tiles + segment.tiles
            shares = np.searchsorted(places, np.arange(turns)[:, None] * tiles + first_tiles).astype(np.int64)
            to.turn_shares = self.threads + 1
        if (np.diff(segment.tiles if segment.turns is None else places) < 0).any():
            raise bad_argument("tiles", "tiles in some other order", "ascending, turn by turn")
        self.keep.append((table, shares))
        to.vertex = <pop_vertex><size_t>segment.vertex
        to.items = <const char *>cnp.PyArray_DATA(table)
        to.item_bytes = table.itemsize
        to.shares = <const int64_t *>cnp.PyArray_DATA(shares)

    def __dealloc__(self):
        free(self.segments)
        free(self.set_ends)
        free(self.alone)
        free(self.loops)

    @property
    def operands(self):
        """How many arrays a call passes."""
        return self.n_operands

    @property
    def temporary_bytes(self):
        """Bytes that one run takes beside its operands."""
        return self.threads * self.scratch_bytes + (self.workspace_bytes + 63) // 64 * 64

    cdef int run_on(self, tuple arrays, double *seconds) except -1:
        """Run on as many arrays as there are operands."""
        cdef char *operands[MOST_OPERANDS]
        cdef int64_t bytes = addresses_of(arrays, self.n_operands, operands)
        return self.run(operands, self.threads == 1 and bytes <= self.brief_bytes, seconds)

    def __call__(self, *arrays):
        """Run on these arrays, in the operands' order."""
        self.run_on(arrays, NULL)

    def timed(self, *arrays):
        """Run on these arrays, and return the wall seconds of each compute set, in all turns."""
        cdef cnp.ndarray seconds = np.zeros(self.n_sets)
        self.run_on(arrays, <double *>cnp.PyArray_DATA(seconds))
        return seconds

    cdef int run(self, char **operands, bint brief, double *seconds=NULL) except -1:
        """Run with the addresses of the operands; `operands` has room for one more. A brief run keeps Python's lock."""
        cdef int64_t scratch_total = self.all_scratch()
        cdef char *workspace = <char *>pop_memory_take(self.workspace_bytes)
        cdef char *scratch = <char *>pop_memory_take(scratch_total)
        if (workspace == NULL and self.workspace_bytes) or (scratch == NULL and scratch_total):
            pop_memory_give(workspace, self.workspace_bytes)
            pop_memory_give(scratch, scratch_total)
            raise MemoryError(f"no memory for {self.temporary_bytes} temporary bytes")
        cdef bint spoilt = self.run_in(operands, workspace, scratch, brief, seconds)
        pop_memory_give(workspace, self.workspace_bytes)
        pop_memory_give(scratch, scratch_total)
        if spoilt:
            self.refuse_vertices()
        return 0

    cdef int64_t all_scratch(self) noexcept:
        """Bytes of all threads' arenas, with their guards."""
        return self.threads * (self.scratch_bytes + (2 * GUARD_BYTES if guarded else 0))

    cdef int refuse_vertices(self) except -1:
        raise RuntimeError(f"a vertex wrote past the {self.scratch_bytes} bytes that were laid out for it")

    cdef bint run_in(self, char **operands, char *workspace, char *scratch, bint brief, double *seconds) noexcept:
        """Run in this temporary memory; return whether a guard was written over."""
        cdef Run run
        cdef int64_t guard = GUARD_BYTES if guarded else 0
        run.scratch = scratch + guard
        run.stride = self.scratch_bytes + 2 * guard
        operands[self.n_operands] = workspace
        run.operands = operands
        run.scratch_bytes = self.scratch_bytes
        run.threads = self.threads
        run.guarded, run.spoilt = guard != 0, False
        run.seconds = seconds
        if brief:
            self.run_loops(&run)
        else:
            with nogil:
                self.run_loops(&run)
        return run.spoilt

    cdef void run_loops(self, Run *run) noexcept nogil:
        cdef int64_t n, s
        cdef int turn
        for n in range(self.n_loops):
            for turn in range(self.loops[n].turns):
                run.turn = turn
                for s in range(self.loops[n].first_set, self.loops[n].end_set):
                    self.run_set(run, s)

    cdef void run_set(self, Run *run, int64_t s) noexcept nogil:
        cdef int64_t first = self.set_ends[s - 1] if s else 0
        cdef double began = 0
        run.segments = self.segments + first
        run.n_segments = self.set_ends[s] - first
        if run.seconds != NULL:
            began = clock()
        if self.alone[s] >= 0:
            run_share(run, self.alone[s])
        else:
            pop_parallel(self.threads, run_share, run)
        if run.seconds != NULL:
            run.seconds[s] += clock() - began


include "program/sequences.pxi"
include "program/results.pxi"
include "program/overlap.pxi"
include "program/keys.pxi"
include "program/wrappers.pxi"
include "program/calls.pxi"
