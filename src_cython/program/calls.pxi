# The call cache. A `Face` stands for a public function: the second call of a kind finds what the first one made ready, a
# `BoundCall`, by its key (keys.pxi), and runs it on the addresses of its arrays. No Python runs then.
#
# Everything from reading the arrays to their addresses happens under Python's lock. A program that runs without it anchors
# the memory of its arrays first (see `immutable.anchor_of`).

def value_words(size_t ready, tuple values):
    """Return the block of words that a call has of its own, made ready by a function as `BoundCall` has it, or 0."""
    words = np.zeros(MOST_VALUES, np.int64)
    words[:len(values)] = np.array(values, np.uint64).view(np.int64)
    if ready:
        (<values_function><void *>ready)(<int64_t *>cnp.PyArray_DATA(<cnp.ndarray>words))
    return words


cdef list anchors_of(Reading *r):
    """What keeps a call's own arrays, which a list may drop, and their memory in its place; objects with arrays have theirs."""
    cdef list anchors = []
    cdef PyObject *owner
    cdef int i
    for i in range(r.n_arrays):
        if r.plain >> i & 1:
            owner = r.arrays[i]
            while cnp.PyArray_BASE(<cnp.ndarray>owner) != NULL and PyObject_TypeCheck(
                    cnp.PyArray_BASE(<cnp.ndarray>owner), PyArray_Type):
                owner = cnp.PyArray_BASE(<cnp.ndarray>owner)
            anchors.append(PyWeakref_NewRef(<object>owner, None))
            anchors.append(<object>r.arrays[i])
    return anchors


cdef bint are_anchored(Reading *r, list anchors) noexcept:
    """Whether the arrays are those that have anchors: a list may hold others by now."""
    cdef Py_ssize_t n = 1
    cdef int i
    for i in range(r.n_arrays):
        if r.plain >> i & 1:
            if n >= PyList_GET_SIZE(anchors) or PyList_GET_ITEM(anchors, n) != r.arrays[i]:
                return False
            n += 2
    return True


@cython.final
cdef class BoundCall:
    """A call made ready: a program, where its operands come from, and how the result is made.

    Parameters
    ----------
    program : Executable, Sequence, callable or None
        None where there is nothing to do. A callable is given the arrays that an executable would run on.
    sources : sequence of int or numpy.ndarray
        For each operand of the program: which of the call's arrays it is (plus `copy_of`: a copy of that in C order; plus
        `copied_to`: one that is copied to it in the end; plus `copied_alike`: one that lies as it does),
        `RESULT`, `VALUES` (the block of words that each call has of its own), `BESIDE` (the bytes of further results),
        `first_part` less the number of one of several new results, or an array that is always the same.
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
    given : int, optional
        The first of the call's arrays that are the results, as many as the `Views` of `wrap` make, or -1.
    beside : Views, optional
        Makes new bytes into what is returned: further results, and beside them the result.
    apart : tuple of int, optional
        Which of the call's arrays the program writes to beside the result: each lies apart from all others.
    """

    cdef Executable executable
    cdef Sequence sequence
    cdef object function
    cdef int64_t *words
    cdef int n_words, n_sources, axes, like, given
    cdef uint64_t hash
    cdef bint brief, anchored, ordered
    cdef int first_fixed, n_fixed
    cdef int64_t fixed[MOST_VALUES]
    cdef int64_t apart  # a bit for each such array
    cdef int sources[MOST_OPERANDS]
    cdef char *constants[MOST_OPERANDS]
    cdef cnp.npy_intp extents[MOST_AXES]
    cdef cnp.npy_intp steps[MOST_AXES]
    cdef int64_t bytes
    cdef cnp.dtype dtype
    cdef object keep, wrap
    cdef Views views, beside
    cdef values_function prepare_values

    def __cinit__(self, program, sources, tuple shape not None, cnp.dtype dtype not None, strides=None,
                  wrap=None, size_t values=0, int64_t bytes=0, int own=0, tuple words=(), int like=-1,
                  int given=-1, Views beside=None, tuple apart=()):
        cdef int i
        self.executable = program if isinstance(program, Executable) else None
        self.sequence = program if isinstance(program, Sequence) else None
        self.function = program if self.executable is None and self.sequence is None else None
        self.like, self.dtype, self.wrap, self.given, self.beside = like, dtype, wrap, given, beside
        self.views = wrap if type(wrap) is Views else None
        if self.views is None and (given >= 0 or any([type(x) is int and x <= FIRST_PART for x in sources])):
            raise bad_type("wrap", wrap, "Views, where there are several results")
        self.axes, self.n_sources = <int>len(shape), <int>len(sources)
        if self.axes > MOST_AXES or self.n_sources >= MOST_OPERANDS:
            raise bad_argument("shape", shape, f"at most {MOST_AXES} axes, and {MOST_OPERANDS - 1} operands")
        if self.function is None and program is not None and program.operands != self.n_sources:
            raise ValueError(f"sources: got {self.n_sources}; allowed: {program.operands}")
        self.apart = 0
        for number in apart:
            self.apart |= <int64_t>1 << <int>number
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
        self.brief = (self.function is None and program is not None and program.threads == 1
                      and bytes + program.workspace_bytes
                      <= (BRIEF if self.executable is None else self.executable.brief_bytes))
        self.anchored = not self.brief or any([self.sources[i] >= COPY_OF for i in range(self.n_sources)])
        self.prepare_values = <values_function><void *>values
        self.first_fixed, self.n_fixed = own, <int>len(words)
        if own + self.n_fixed > MOST_VALUES:
            raise bad_argument("words", words, f"at most {MOST_VALUES - own} words")
        for i, word in enumerate(words):
            self.fixed[i] = <int64_t><uint64_t>word

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
        """Whether what a call writes to has the shape of the result, where an array says which that is, and lies apart,
        where there are several."""
        cdef cnp.ndarray like
        cdef cnp.ndarray out
        if self.apart and not lies_apart(r, self.apart):
            return False
        if self.like < 0 or r.receiver == NULL:
            return True
        like, out = <cnp.ndarray>r.arrays[self.like], <cnp.ndarray>r.arrays[r.written]
        return cnp.PyArray_NDIM(like) == cnp.PyArray_NDIM(out) and (cnp.PyArray_NDIM(like) == 0 or memcmp(
            cnp.PyArray_DIMS(like), cnp.PyArray_DIMS(out), cnp.PyArray_NDIM(like) * sizeof(cnp.npy_intp)) == 0)

    cdef void take_shape(self, cnp.ndarray like) noexcept:
        cdef int i
        self.bytes = cnp.PyArray_SIZE(like) * self.dtype.itemsize
        for i in range(self.axes):
            self.extents[i] = cnp.PyArray_DIM(like, i)

    cdef list arrays_of(self, Reading *r, written, char *to, further, list fresh):
        """The arrays that a program of Python is called with."""
        cdef int i, source
        cdef list arrays = []
        cdef Py_ssize_t constants = 0
        cdef cnp.ndarray words
        for i in range(self.n_sources):
            source = self.sources[i]
            if source >= COPIED_TO:
                arrays.append(fresh[i])
            elif source >= COPY_OF:
                arrays.append(ordered(<cnp.ndarray>r.arrays[source - COPY_OF]))
            elif source >= 0:
                arrays.append(PyArray_View(<object>r.arrays[source], NULL, NULL))  # whose shape nobody else can reach
            elif source == RESULT:
                arrays.append(PyArray_View(<cnp.ndarray>written, NULL, NULL))
            elif source == BESIDE:
                arrays.append(PyArray_View(<cnp.ndarray>further, NULL, NULL))
            elif source <= FIRST_PART:
                arrays.append(self.views.view(written, to, FIRST_PART - source))
            elif source == VALUES:
                words = np.empty(MOST_VALUES, np.int64)
                memcpy(cnp.PyArray_DATA(words), r.values, sizeof(r.values))
                arrays.append(words)
            else:
                arrays.append(self.keep[constants])
                constants += 1
        return arrays

    cdef object run(self, Reading *r, PyObject *subject):
        """Run on the arrays of a call, and return its result."""
        cdef char *to = NULL
        cdef char *more = NULL
        cdef object written, result, further = None
        if self.given >= 0:
            result = self.views.holding(r.arrays + self.given)
            self.do(r, None, NULL, None, NULL)
            return result
        if r.receiver != NULL:
            result = <object>r.receiver
            written = <object>r.arrays[r.written]
        elif self.views is not None:
            result = written = bytes_of_results(self.bytes, self.executable is None, &to)
        else:
            if self.like >= 0:
                self.take_shape(<cnp.ndarray>r.arrays[self.like])
            result = written = new_result(self.axes, self.extents, NULL if self.ordered else self.steps, self.dtype,
                                          self.bytes)
        if to == NULL:
            to = <char *>cnp.PyArray_DATA(<cnp.ndarray>written)
        if self.beside is not None:
            further = bytes_of_results(self.beside.bytes, self.executable is None, &more)
        self.do(r, written, to, further, more)
        if self.wrap is not None and r.receiver == NULL:
            if self.views is not None:
                result = self.views.made(written, to, None)
            elif type(self.wrap) is Wrapper:
                result = (<Wrapper>self.wrap).made(<cnp.ndarray>written, subject)
            else:
                result = self.wrap(result, <object>subject)
        return result if self.beside is None else self.beside.made(further, more, result)

    cdef list fresh_of(self, Reading *r):
        """By each operand, the array that is copied to one of the call's in the end; None where there are none."""
        cdef list fresh = None
        cdef cnp.ndarray to
        cdef int i, k
        for i in range(self.n_sources):
            if self.sources[i] >= COPIED_TO:
                fresh = [None] * self.n_sources if fresh is None else fresh
                for k in range(i):
                    if self.sources[k] == self.sources[i]:
                        fresh[i] = fresh[k]
                if fresh[i] is not None:
                    continue
                to = <cnp.ndarray>r.arrays[self.sources[i] & OF_ARRAY]
                fresh[i] = counted(cnp.PyArray_NDIM(to), cnp.PyArray_DIMS(to), to.dtype, cnp.PyArray_NBYTES(to),
                                   cnp.PyArray_STRIDES(to) if self.sources[i] >= COPIED_ALIKE else NULL)
        return fresh

    cdef int do(self, Reading *r, written, char *to, further, char *more) except -1:
        """Run the program; what is written begins at these places, and is arrays where a function is called with them."""
        cdef list fresh = self.fresh_of(r) if self.anchored else None
        self.do_with(r, written, to, further, more, fresh)
        if fresh is not None:
            for i in range(self.n_sources):
                if fresh[i] is not None:
                    cnp.PyArray_CopyInto(<cnp.ndarray>r.arrays[self.sources[i] & OF_ARRAY], <cnp.ndarray>fresh[i])
        return 0

    cdef int do_with(self, Reading *r, written, char *to, further, char *more, list fresh) except -1:
        cdef char *operands[MOST_OPERANDS]
        cdef int i, source
        cdef cnp.ndarray source_copy
        cdef list gathered = None
        memcpy(&r.values[self.first_fixed], self.fixed, self.n_fixed * sizeof(int64_t))
        if self.prepare_values != NULL:
            self.prepare_values(r.values)
        if self.function is not None:
            self.function(*self.arrays_of(r, written, to, further, fresh))
        elif self.executable is not None or self.sequence is not None:
            for i in range(self.n_sources):
                source = self.sources[i]
                if source >= COPIED_TO:
                    operands[i] = <char *>cnp.PyArray_DATA(<cnp.ndarray>fresh[i])
                elif source >= COPY_OF:
                    source_copy = ordered(<cnp.ndarray>r.arrays[source - COPY_OF])
                    gathered = [source_copy, gathered]
                    operands[i] = <char *>cnp.PyArray_DATA(source_copy)
                elif source >= 0:
                    operands[i] = <char *>cnp.PyArray_DATA(<cnp.ndarray>r.arrays[source])
                elif source == RESULT:
                    operands[i] = to
                elif source == BESIDE:
                    operands[i] = more
                elif source <= FIRST_PART:
                    operands[i] = to + self.views.offsets[FIRST_PART - source]
                elif source == VALUES:
                    operands[i] = <char *>r.values
                else:
                    operands[i] = self.constants[i]
            if self.executable is not None:
                self.executable.run(operands, self.brief)
            else:
                status = self.sequence.run(operands, self.brief, NULL)
                if status is not None:
                    raise self.sequence.refuse(status, *self.arrays_of(r, written, to, further, fresh))
        return 0


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
    values : int
        How many of the call's words a program must take for the same reason: up to the last number that is no part of it.
    """

    cdef Reading reading
    cdef uint64_t hash
    cdef object held
    cdef readonly dict places
    cdef readonly set plain
    cdef readonly int values

    def holds(self, int number, cnp.ndarray array not None):
        """Whether an operand's array lies in the call's array of this number, and was not made of another argument."""
        cdef char *low
        cdef char *high
        cdef char *first
        cdef char *end
        cdef cnp.ndarray own
        if not 0 <= number < self.reading.n_arrays:
            return False
        own = <cnp.ndarray>self.reading.arrays[number]
        reach_of(array, &low, &high)
        reach_of(own, &first, &end)
        return (low < end and first < high) or (cnp.PyArray_SIZE(array) == 0 and cnp.PyArray_SIZE(own) == 0)


@cython.final
cdef class Face:
    """A public function as it is called: what it made ready before runs again without it.

    Parameters
    ----------
    function : callable
        Documents the call and, given its arguments, describes what is to be done. Arguments that stand for what is not
        there yet may have a method ``__poplibs_op__(face, args, named)``; unless that is NotImplemented, what it
        returns is returned instead.
    road : callable
        Does what was described, given it and the `Key`, or None; keeps a `BoundCall` with `keep`.
    op : object
        The op's record.
    written : str or None
        The parameter that is written to.
    values, numbers : tuple of str
        Parameters whose value is no part of the key: those that are whole numbers, and those that may be numbers of any
        kind, as far as `number_kind` says. At most 24; the attribute `values` is all of them.
    """

    cdef vectorcallfunc vectorcall
    cdef readonly object function, op
    cdef object road
    cdef tuple names
    cdef readonly tuple values
    cdef object written
    cdef list slots
    cdef Py_ssize_t count
    cdef int first_number
    cdef int value_at[MOST_ARGUMENTS]  # for each parameter in order which of `values` it is, or -1
    cdef dict __dict__
    cdef object __weakref__

    def __init__(self, function, road, op=None, written="out", tuple values=(), tuple numbers=()):
        cdef int i
        code = getattr(function, "__wrapped__", function).__code__
        self.function, self.road, self.op = function, road, op
        self.names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
        if code.co_flags & VARARGS:
            rest = code.co_varnames[len(self.names)]
            self.names = self.names[:code.co_argcount] + tuple(
                [sys.intern(f"{rest}[{i}]") for i in range(MOST_ARGUMENTS - code.co_argcount)])
        self.written, self.values = written, tuple([sys.intern(name) for name in values + numbers])
        self.first_number = <int>len(values)
        if len(self.names) > MOST_ARGUMENTS or len(self.values) > MOST_VALUES:
            raise bad_argument("function", function.__qualname__, f"at most {MOST_ARGUMENTS} parameters, {MOST_VALUES} values")
        for i, name in enumerate(self.names):
            self.value_at[i] = self.value_of(<PyObject *>name)
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
        cdef int64_t kind
        if n + more > MOST_ARGUMENTS or n > PyTuple_GET_SIZE(self.names):
            return False
        put(r, n, <int64_t><object>pop_get_slot(SETTINGS, THREADS))
        put(r, NOTHING, generation)
        for i in range(n + more):
            if i < n:
                name = PyTuple_GET_ITEM(self.names, i)
                value = self.value_at[i]
            else:
                name = PyTuple_GET_ITEM(<object>keywords, i - n)
                if not read_text(r, name):
                    return False
                name = r.held[r.n_held - 1]  # interned
                value = self.value_of(name)
            r.first_array[i] = r.n_arrays
            if value >= self.first_number:
                kind = number_kind(args[i], &r.values[value])
                if kind >= 0 and put(r, NUMBER, kind):
                    r.n_values = max(r.n_values, value + 1)
                    continue
            elif value >= 0:
                if not read_value(r, args[i], &r.values[value]):
                    return False
                continue
            if not read_argument(r, args[i], True):
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
            key.values = r.n_values
            key.plain = {i for i in range(r.n_arrays) if r.plain >> i & 1 and i != r.written}
        for value in (*positional, *named.values()):
            trace = getattr(type(value), "__poplibs_op__", None)
            if trace is not None and (traced := trace(value, self, positional, named)) is not NotImplemented:
                return traced
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


cdef PyObject *subject_of(Face face, PyObject *const *args, Py_ssize_t n, PyObject *keywords) except? NULL:
    """A call's first argument, by position or by name, or NULL."""
    cdef Py_ssize_t i
    if n:
        return args[0]
    if keywords != NULL:
        for i in range(PyTuple_GET_SIZE(<object>keywords)):
            if <object>PyTuple_GET_ITEM(<object>keywords, i) == <object>PyTuple_GET_ITEM(face.names, 0):
                return args[i]
    return NULL


cdef PyObject *call_face(PyObject *called, PyObject *const *args, size_t nargsf, PyObject *keywords) except NULL:
    cdef Face face = <Face>called
    cdef Py_ssize_t n = PyVectorcall_NARGS(nargsf)
    cdef Reading r
    cdef BoundCall bound = None
    cdef bint known = False
    cdef list anchors
    cdef PyObject *subject
    cdef object result
    open_reading(&r)
    try:
        if PyList_GET_SIZE(LISTENERS) == 0:
            known = face.read(&r, args, n, keywords)
            if known:
                bound = face.find(&r)
        if bound is not None and bound.anchored:  # to make anchors may collect garbage, whose finalizers may do anything
            anchors = anchors_of(&r)
            close_reading(&r)
            open_reading(&r)
            known = face.read(&r, args, n, keywords)
            bound = face.find(&r) if known and are_anchored(&r, anchors) else None
        subject = NULL
        if bound is not None and bound.wrap is not None:
            subject = subject_of(face, args, n, keywords)
            if subject == NULL:
                bound = None
        if bound is not None and bound.suits(&r):
            result = bound.run(&r, subject)
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
