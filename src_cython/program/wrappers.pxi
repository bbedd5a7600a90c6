# What new arrays are made into before a call returns them: objects of this library, several results.

cdef inline void put_item(tuple items, Py_ssize_t i, PyObject *item):
    Py_INCREF(<object>item)
    PyTuple_SET_ITEM(items, i, <object>item)


cdef Py_ssize_t slot_of(kind, name, Py_ssize_t number) except -1:
    """Where objects of a class hold a slot, which is one of so many."""
    cdef Py_ssize_t offset = pop_slot_offset(kind, name)
    if offset < 0 or number >= MOST_ARGUMENTS:
        raise bad_argument("slots", name, f"at most {MOST_ARGUMENTS} slots of {kind.__name__}")
    return offset


@cython.final
cdef class Remake:
    """Makes objects of a class with slots like another but for some of them: a view of it.

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
            offset = slot_of(kind, name, i)
            if i < self.n_same:
                self.same[i] = offset
            else:
                self.changed[i - self.n_same] = offset

    def __call__(self, source, *values):
        """Return an object like `source`, which is of the class."""
        cdef int i
        if type(source) is not self.kind or len(values) != self.n_changed:
            raise bad_type("source", source, f"a {self.kind.__name__}, and {self.n_changed} values")
        made = pop_new(self.kind)
        for i in range(self.n_same):
            pop_set_slot(made, self.same[i], pop_get_slot(source, self.same[i]))
        for i in range(self.n_changed):
            pop_set_slot(made, self.changed[i], PyTuple_GET_ITEM(values, i))
        return made


@cython.final
cdef class Wrapper:
    """Makes new arrays into objects of a class with slots, whose arrays are read by `key_by_parts`: results.

    Parameters
    ----------
    kind : type
        It has slots ``_anchor``, a weak reference to the array, and ``_parts``.
    slot : str
        The slot of the array.
    same : tuple of str
        Slots that are those of a call's first argument, which is of the class then.
    settled : dict of str to object
        The other slots.
    before, after : tuple
        What is before and behind the array among the parts; a whole number before it is that of a part of the first
        argument.
    """

    cdef object kind
    cdef tuple values, before, after
    cdef Py_ssize_t array, anchor, parts
    cdef Py_ssize_t same[MOST_ARGUMENTS]
    cdef Py_ssize_t settled[MOST_ARGUMENTS]
    cdef int n_same, n_settled

    def __init__(self, kind, str slot, tuple same, dict settled, tuple before, tuple after=()):
        cdef int i
        self.kind, self.before, self.after = kind, before, after
        self.array, self.anchor = slot_of(kind, slot, 0), slot_of(kind, "_anchor", 0)
        self.parts = slot_of(kind, "_parts", 0)
        self.n_same, self.n_settled, self.values = <int>len(same), <int>len(settled), tuple(settled.values())
        for i, name in enumerate(same):
            self.same[i] = slot_of(kind, name, i)
        for i, name in enumerate(settled):
            self.settled[i] = slot_of(kind, name, i)

    def __call__(self, cnp.ndarray array not None, first):
        """Return what the array is made into, given a call's first argument."""
        if self.n_same and type(first) is not self.kind:
            raise bad_type("first", first, f"a {self.kind.__name__}")
        return self.made(array, <PyObject *>first)

    cdef object made(self, cnp.ndarray array, PyObject *first):
        cdef int i
        cdef Py_ssize_t n = PyTuple_GET_SIZE(self.before), more = PyTuple_GET_SIZE(self.after)
        cdef PyObject *part
        cdef tuple parts = PyTuple_New(n + 1 + more), given = None
        if self.n_same:
            given = <tuple>pop_get_slot(<object>first, self.parts)
        for i in range(n):
            part = PyTuple_GET_ITEM(self.before, i)
            if Py_TYPE(<object>part) == &PyLong_Type:
                part = PyTuple_GET_ITEM(given, <Py_ssize_t><object>part)
            put_item(parts, i, part)
        put_item(parts, n, <PyObject *>array)
        for i in range(more):
            put_item(parts, n + 1 + i, PyTuple_GET_ITEM(self.after, i))
        made = pop_new(self.kind)
        for i in range(self.n_same):
            pop_set_slot(made, self.same[i], pop_get_slot(<object>first, self.same[i]))
        for i in range(self.n_settled):
            pop_set_slot(made, self.settled[i], PyTuple_GET_ITEM(self.values, i))
        anchor = PyWeakref_NewRef(array, None)
        pop_set_slot(made, self.array, <PyObject *>array)
        pop_set_slot(made, self.anchor, <PyObject *>anchor)
        pop_set_slot(made, self.parts, <PyObject *>parts)
        return made


cdef enum:  # what one of several results is
    AN_ARRAY, SEVERAL, A_NUMBER, THE_RESULT

cdef cnp.dtype BYTES = np.dtype(np.uint8)

PyType_Ready(&pop_held_type)


cdef inline object bytes_of_results(int64_t bytes, bint array, char **at):
    """Memory of several results, and where it begins: an array's, where there are many or that is asked for."""
    if array or bytes >= POP_LEAST_RESULT:
        made = new_result(1, <cnp.npy_intp *>&bytes, NULL, BYTES, bytes)
        at[0] = <char *>cnp.PyArray_DATA(<cnp.ndarray>made)
    else:
        made = pop_hold(bytes)
        at[0] = pop_held_at(made)
    return made


@cython.final
cdef class Views:
    """Makes the bytes of several results into them: arrays one behind another.

    Parameters
    ----------
    kind : type
        A tuple, or a named one.
    parts : tuple
        Of an array its shape and dtype, the byte where it begins, and its axes from the outermost to the innermost, if not in
        C order. Of what is no array: `Views` of the same bytes, a whole number, or None, the result that others are beside.
    """

    cdef object kind
    cdef tuple dtypes, held
    cdef list lies
    cdef Py_ssize_t n
    cdef int64_t bytes
    cdef int what[MOST_ARGUMENTS]
    cdef int axes[MOST_ARGUMENTS]
    cdef int64_t offsets[MOST_ARGUMENTS]
    cdef cnp.npy_intp *extents[MOST_ARGUMENTS]  # in the arrays of `lies`
    cdef cnp.npy_intp *strides[MOST_ARGUMENTS]  # or NULL: C order

    def __init__(self, kind, tuple parts):
        if not (isinstance(kind, type) and issubclass(kind, tuple)) or len(parts) > MOST_ARGUMENTS:
            raise bad_type("kind", kind, f"a kind of tuple, of at most {MOST_ARGUMENTS} results")
        self.kind, self.n, self.bytes, self.held = kind, len(parts), 0, parts
        self.lies, dtypes = [], []
        for i, part in enumerate(parts):
            self.what[i] = AN_ARRAY if isinstance(part, tuple) else (
                SEVERAL if isinstance(part, Views) else THE_RESULT if part is None else A_NUMBER)
            shape, dtype, self.offsets[i], *orders = part if self.what[i] == AN_ARRAY else ((), np.uint8, 0)
            dtypes.append(np.dtype(dtype))
            self.set_axes(i, shape, orders[0] if orders else tuple(range(len(shape))), dtypes[i].itemsize)
            if self.what[i] == AN_ARRAY:
                self.bytes = max(self.bytes, self.offsets[i] + math.prod(shape) * dtypes[i].itemsize)
            elif self.what[i] == SEVERAL:
                self.bytes = max(self.bytes, (<Views>part).bytes)
        self.dtypes = tuple(dtypes)

    cdef int set_axes(self, int i, tuple shape, tuple order, int64_t step) except -1:
        extents, strides = np.array(shape, np.intp), np.zeros(len(shape), np.intp)
        for axis in reversed(order):
            strides[axis], step = step, step * shape[axis]
        self.lies += [extents, strides]
        self.axes[i], self.extents[i] = <int>len(shape), <cnp.npy_intp *>cnp.PyArray_DATA(<cnp.ndarray>extents)
        self.strides[i] = NULL if order == tuple(range(len(shape))) else <cnp.npy_intp *>cnp.PyArray_DATA(<cnp.ndarray>strides)
        return 0

    def __call__(self, cnp.ndarray array not None, first=None):
        """Return the results that lie in an array of bytes."""
        return self.beside(array, None)

    def beside(self, cnp.ndarray array not None, result):
        """Return the results that lie in an array of bytes, beside another one."""
        self.check(array)
        return self.made(array, <char *>cnp.PyArray_DATA(array), result)

    def part(self, cnp.ndarray array not None, Py_ssize_t number):
        """Return one of the results that lie in an array of bytes: an array."""
        if not 0 <= number < self.n or self.what[number] != AN_ARRAY:
            raise bad_argument("number", number, f"that of an array among {self.n} results")
        self.check(array)
        return self.view(array, <char *>cnp.PyArray_DATA(array), number)

    cdef int check(self, cnp.ndarray array) except -1:
        if cnp.PyArray_NBYTES(array) < self.bytes:
            raise bad_argument("array", f"{cnp.PyArray_NBYTES(array)} bytes", f"at least {self.bytes}")
        return 0

    cdef object holding(self, PyObject **given):
        """Arrays of the caller's, as the results that they are to be."""
        cdef tuple made = pop_new_tuple(self.kind, self.n)
        cdef Py_ssize_t i
        for i in range(self.n):
            put_item(made, i, given[i])
        return made

    cdef object made(self, memory, char *at, result):
        """The results that lie in an object's memory from a place on."""
        cdef Py_ssize_t i
        cdef tuple views = pop_new_tuple(self.kind, self.n)
        for i in range(self.n):
            if self.what[i] == AN_ARRAY:
                part = self.view(memory, at, i)
            elif self.what[i] == SEVERAL:
                part = (<Views>PyTuple_GET_ITEM(self.held, i)).made(memory, at, result)
            else:
                part = result if self.what[i] == THE_RESULT else <object>PyTuple_GET_ITEM(self.held, i)
            put_item(views, i, <PyObject *>part)
        return views

    cdef inline object view(self, memory, char *at, Py_ssize_t i):
        cdef cnp.dtype dtype = <cnp.dtype>PyTuple_GET_ITEM(self.dtypes, i)
        Py_INCREF(dtype)
        view = PyArray_NewFromDescr(PyArray_Type, dtype, self.axes[i], self.extents[i], self.strides[i],
                                    at + self.offsets[i], cnp.NPY_ARRAY_CARRAY, NULL)
        cnp.set_array_base(view, memory)
        return view
