# Sequences: executables, and functions of arrays, one after another, in one run. What an op does that is made of others'
# programs is one, so that a repeated call of it runs in compiled code alone.

import sys
from traceback import clear_frames


cdef struct Source:
    int operand  # of the run, or -1: an address that is always the same
    int64_t offset  # bytes from where that begins, or the address


cdef struct Part:
    int64_t status, status_bytes  # where in the room the executable says what it refuses, and how much of it
    int operands
    bint on_arrays


cdef int64_t lines(int64_t bytes) noexcept:
    """Bytes up to the next cache line."""
    return (bytes + 63) // 64 * 64


@cython.final
cdef class OnArrays:
    """A function of arrays as a part of a sequence, such as one of LAPACK's: what is no executable.

    Parameters
    ----------
    function : callable
        It may raise, and keeps none of the arrays: where it raises, what its frames hold is let go, which a traceback
        would keep beyond the memory of the run.
    like : sequence of numpy.ndarray
        What it is called with has these shapes, dtypes and strides.
    """

    cdef object function
    cdef tuple dtypes, shapes, strides
    cdef readonly int operands

    def __init__(self, function, like):
        self.function, self.operands = function, <int>len(like)
        self.dtypes = tuple([x.dtype for x in like])
        self.shapes = tuple([np.array(x.shape, np.intp) for x in like])
        self.strides = tuple([np.array(x.strides, np.intp) for x in like])

    cdef int run(self, char **operands) except -1:
        cdef int i
        cdef cnp.dtype dtype
        cdef cnp.ndarray shape
        cdef list arrays = []
        for i in range(self.operands):
            dtype, shape = <cnp.dtype>self.dtypes[i], <cnp.ndarray>self.shapes[i]
            Py_INCREF(dtype)
            arrays.append(PyArray_NewFromDescr(
                PyArray_Type, dtype, <int>cnp.PyArray_SIZE(shape), <cnp.npy_intp *>cnp.PyArray_DATA(shape),
                <cnp.npy_intp *>cnp.PyArray_DATA(<cnp.ndarray>self.strides[i]), operands[i], cnp.NPY_ARRAY_WRITEABLE, NULL))
        outer = sys.exc_info()[1]  # whose frames are the caller's
        try:
            self.function(*arrays)
        except BaseException as error:
            while error is not None and error is not outer:
                clear_frames(error.__traceback__)
                error = error.__cause__ or error.__context__
            raise
        return 0


@cython.final
cdef class Sequence:
    """Executables that run one after another, on a run's operands and on room for what they leave to each other.

    Parameters
    ----------
    parts : sequence of (Executable or OnArrays, sequence)
        With each executable, where its operands come from: the number of one of the run's operands, or that number and
        the bytes before what it takes, or an array that is always the same. The number behind the last is the room.
    operands : int
        Arrays that a run is given, at most 31.
    room : int, optional
        Bytes that a run has beside them.
    status : sequence of (int, int, int), optional
        Parts that may refuse what they read, by number, and which bytes of the room they write then, the first and how
        many: a run ends behind such a part unless all of them are zero.
    refuse : callable, optional
        Makes what is raised then, given those bytes and the arrays of the run.

    Attributes
    ----------
    programs : tuple of Program
    phases, threads, workspace_bytes, temporary_bytes
        As those of an `Executable`, in all and at most.
    """

    cdef Source *sources
    cdef Part *parts
    cdef tuple executables
    cdef object keep
    cdef int n_operands
    cdef readonly object refuse
    cdef readonly tuple phases
    cdef readonly int threads
    cdef readonly int64_t workspace_bytes
    cdef int64_t most_workspace, most_scratch

    def __cinit__(self, parts, int operands, int64_t room=0, status=(), refuse=None):
        cdef int64_t n = 0
        cdef int i = 0
        cdef Source *source
        if not 0 <= operands < MOST_OPERANDS:
            raise bad_argument("operands", operands, f"0 to {MOST_OPERANDS - 1}")
        self.executables = tuple([executable for executable, _ in parts])
        if not all([type(executable) in (Executable, OnArrays) for executable in self.executables]):
            raise bad_argument("parts", "something else", "executables")
        programs = [executable for executable in self.executables if type(executable) is Executable]
        self.n_operands, self.workspace_bytes, self.refuse, self.keep = operands, room, refuse, []
        self.phases = tuple([phase for executable in programs for phase in executable.phases])
        self.threads = max([executable.threads for executable in programs], default=1)
        self.most_workspace = max([lines(executable.workspace_bytes) for executable in programs], default=0)
        self.most_scratch = max([executable.threads * executable.scratch_bytes for executable in programs],
                                default=0)
        self.sources = <Source *>calloc(max(1, sum([len(taken) for _, taken in parts])), sizeof(Source))
        self.parts = <Part *>calloc(max(1, len(parts)), sizeof(Part))
        if self.sources == NULL or self.parts == NULL:
            raise MemoryError("sequence: no memory for its tables")
        for executable, taken in parts:
            if len(taken) != executable.operands:
                raise ValueError(f"parts: got {len(taken)} operands; allowed: {executable.operands}")
            for where in taken:
                source = self.sources + n
                if isinstance(where, cnp.ndarray):
                    self.keep.append(where)
                    source.operand, source.offset = -1, <int64_t><size_t>cnp.PyArray_DATA(<cnp.ndarray>where)
                else:
                    source.operand, source.offset = where if isinstance(where, tuple) else (where, 0)
                    if not 0 <= source.operand <= operands:
                        raise bad_argument("parts", f"operand {source.operand}", f"0 to {operands}")
                n += 1
            self.parts[i].operands, self.parts[i].on_arrays = <int>len(taken), type(executable) is OnArrays
            i += 1
        for part, first, size in status:
            if not (0 <= part < i and 0 <= first and 0 < size <= room - first):
                raise bad_argument("status", (part, first, size), "bytes of the room")
            self.parts[<int>part].status, self.parts[<int>part].status_bytes = first, size

    def __dealloc__(self):
        free(self.sources)
        free(self.parts)

    @property
    def operands(self):
        """How many arrays a run is given."""
        return self.n_operands

    @property
    def known(self):
        """What it knows besides its operands: functions of arrays, arrays that are always the same, and what refuses."""
        functions = [(<OnArrays>part).function for part in self.executables if type(part) is OnArrays]
        return (*functions, *self.keep, self.refuse)

    @property
    def programs(self):
        """What runs, one after another."""
        return tuple([part.program for part in self.executables if type(part) is Executable])

    def within(self, tuple places):
        """Return its parts as those of another sequence, where its operands and its room have these places, each a pair."""
        cdef Source *source = self.sources
        cdef int i, k
        if any([self.parts[i].status_bytes for i in range(len(self.executables))]):
            raise ValueError("parts: got some that may end a run; allowed: parts that always run")
        made, constants = [], iter(self.keep)
        for i, executable in enumerate(self.executables):
            taken = []
            for k in range(self.parts[i].operands):
                if source.operand < 0:
                    taken.append(next(constants))
                else:
                    operand, offset = places[source.operand]
                    taken.append((operand, offset + source.offset))
                source += 1
            made.append((executable, taken))
        return made

    @property
    def temporary_bytes(self):
        """Bytes that one run takes beside its operands."""
        return lines(self.workspace_bytes) + self.most_workspace + self.most_scratch

    def __call__(self, *arrays):
        """Run on these arrays, in the operands' order."""
        self.run_on(arrays, NULL)

    def timed(self, *arrays):
        """Run on these arrays, and return the wall seconds of each compute set."""
        cdef cnp.ndarray seconds = np.zeros(len(self.phases))
        self.run_on(arrays, <double *>cnp.PyArray_DATA(seconds))
        return seconds

    cdef int run_on(self, tuple arrays, double *seconds) except -1:
        cdef char *operands[MOST_OPERANDS]
        cdef int64_t bytes = addresses_of(arrays, self.n_operands, operands) + self.workspace_bytes
        status = self.run(operands, self.threads == 1 and bytes <= BRIEF, seconds)
        if status is not None:
            raise self.refuse(status, *arrays)
        return 0

    cdef object run(self, char **operands, bint brief, double *seconds):
        """Run with the addresses of the operands, as an `Executable` does; return the status that ended it, or None."""
        cdef int64_t guards = 2 * GUARD_BYTES * self.threads if guarded else 0
        cdef int64_t before = lines(self.workspace_bytes), taken = before + self.most_workspace + self.most_scratch + guards
        cdef char *room = <char *>pop_memory_take(taken)
        if room == NULL and taken:
            raise MemoryError(f"no memory for {taken} temporary bytes")
        operands[self.n_operands] = room
        try:
            return self.run_parts(operands, room + before, room + before + self.most_workspace, brief, seconds)
        finally:
            pop_memory_give(room, taken)

    cdef object run_parts(self, char **operands, char *workspace, char *scratch, bint brief, double *seconds):
        cdef char *own[MOST_OPERANDS]
        cdef Executable executable
        cdef Part *part = self.parts
        cdef Source *source = self.sources
        cdef char *status
        cdef int64_t i
        cdef int k
        for i in range(PyTuple_GET_SIZE(self.executables)):
            for k in range(part.operands):
                own[k] = <char *>source.offset if source.operand < 0 else operands[source.operand] + source.offset
                source += 1
            status = operands[self.n_operands] + part.status
            if part.status_bytes:
                memset(status, 0, part.status_bytes)
            if part.on_arrays:
                (<OnArrays>PyTuple_GET_ITEM(self.executables, i)).run(own)
            else:
                executable = <Executable>PyTuple_GET_ITEM(self.executables, i)
                if executable.run_in(own, workspace, scratch, brief, seconds):
                    executable.refuse_vertices()
                if seconds != NULL:
                    seconds += executable.n_sets
            if any_set(status, part.status_bytes):
                array = np.empty(part.status_bytes, np.uint8)
                memcpy(cnp.PyArray_DATA(array), status, part.status_bytes)
                return array
            part += 1
        return None


cdef bint any_set(const char *bytes, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if bytes[i]:
            return True
    return False
