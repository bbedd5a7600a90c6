"""Exact branch and bound over the splits of an op's work: the planner's core, which knows no op.

The space is a product of axes. A split s of an extent n leaves ceil(n / s) on a tile; only the least s for each size is
a choice (a larger one would use more tiles for nothing). So an axis has about 2 sqrt(n) options, each cut into a number
of tiles and a number of turns. The walk fixes one axis after another and leaves where even the least that an op says of
the axes still open is more than the limits and the best point so far allow.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from poplibs_py.whole cimport cdiv, imax, imin

from ..errors import TimeLimitError

include "planner/solver_order.pxi"

cdef enum:
    STEPS = 256                     # of the walk between two looks at the clock
    DIGIT = 8                       # bits that a pass of sorting looks at

cdef double LOOK = 0.02             # seconds between two looks at the signals

NO_LIMIT = UNLIMITED
MEASURE_NAMES = ("cycles", "temp_bytes", "tiles", "cost_difference")


cdef double now() noexcept nogil:
    cdef timespec time
    clock_gettime(CLOCK_MONOTONIC, &time)
    return time.tv_sec + 1e-9 * time.tv_nsec


cdef object too_late():
    return TimeLimitError("time_limit: planning takes longer than the seconds that it allows")


# Options -------------------------------------------------------------------------------------------

cdef int add_option(Axis* a, int64_t parallel, int64_t serial, int64_t size) noexcept nogil:
    cdef Option* grown
    if not (a.least <= parallel <= a.most and a.serial_least <= serial <= a.serial_most):
        return 0
    if a.count & (a.count - 1) == 0:
        grown = <Option*>realloc(a.options, imax(16, 2 * a.count) * sizeof(Option))
        if grown == NULL:
            return -1
        a.options = grown
    a.options[a.count].parallel = parallel
    a.options[a.count].serial = serial
    a.options[a.count].size = size
    a.count += 1
    a.widest = imax(a.widest, parallel)
    a.open.size = imin(a.open.size, size)
    return 0


cdef int sort_by_parallel(Axis* a) noexcept nogil:
    """Order options by their parallel splits; those of one keep their order, which is that of the serial splits."""
    cdef Option* sorted = <Option*>malloc(a.count * sizeof(Option))
    cdef int32_t places[1 << DIGIT]
    cdef int32_t place, here
    cdef int i, digit, shift = 0
    if sorted == NULL:
        return -1
    while a.widest >> shift:
        memset(places, 0, sizeof(places))
        for i in range(a.count):
            places[a.options[i].parallel >> shift & (1 << DIGIT) - 1] += 1
        place = 0
        for digit in range(1 << DIGIT):
            here, places[digit] = places[digit], place
            place += here
        for i in range(a.count):
            digit = a.options[i].parallel >> shift & (1 << DIGIT) - 1
            sorted[places[digit]] = a.options[i]
            places[digit] += 1
        memcpy(a.options, sorted, a.count * sizeof(Option))
        shift += DIGIT
    free(sorted)
    return 0


cdef inline bint divides(int64_t factor, int64_t n) noexcept nogil:
    return <uint32_t>n % <uint32_t>factor == 0 if n >> 32 == 0 else n % factor == 0


cdef class Search:
    """The space of one candidate, and the walk through it."""

    def __cinit__(self):
        cdef int i
        self.error = None
        self.tiles = 1
        for i in range(MEASURES):
            self.allowed[i] = UNLIMITED

    def __dealloc__(self):
        cdef int i
        for i in range(self.axis_count):
            free(self.axes[i].options)
        free(self.ties)

    # What an op declares -------------------------------------------------------------------------------

    cdef int add_axis(self, int64_t extent, int64_t least, int64_t most, int64_t serial_least, int64_t serial_most,
                      int64_t required, bint leads) except -1:
        """Declare an axis; `required` is the only size that a tile may hold, or 0."""
        cdef Axis* a = &self.axes[self.axis_count]
        if self.axis_count == MAX_AXES:
            raise ValueError("axes: too many")
        if not (0 < extent < 1 << 62 and most < 1 << 31 and serial_most < 1 << 31):
            raise ValueError("axes: out of range")
        memset(a, 0, sizeof(Axis))
        a.least, a.most, a.serial_least, a.required, a.leads = least, most, serial_least, required, leads
        a.open.parallel = a.open.serial = 1
        self.axis_count += 1
        self.resize(self.axis_count - 1, extent, serial_most)
        return self.axis_count - 1

    cdef void resize(self, int axis, int64_t extent, int64_t serial_most) noexcept nogil:
        """Change an axis; `prepare` makes ready for it."""
        cdef Axis* a = &self.axes[axis]
        a.extent, a.serial_most, a.count = extent, serial_most, 0
        self.listed = False
        a.widest = imax(1, imin(extent, a.most))
        a.open.size = a.required if a.required else cdiv(extent, imax(1, imin(extent, a.most * serial_most)))

    cdef int add_split(self, int axis, bint serial, int priority) except -1:
        """Declare a split of an axis: ties are put in order of PopLibs' solver over the splits in this order."""
        cdef Split* s = &self.splits[self.split_count]
        if self.split_count == 2 * MAX_AXES:
            raise ValueError("splits: too many")
        s.axis, s.serial, s.priority = axis, serial, priority
        self.split_count += 1
        return 0

    cdef void prepare(self) noexcept nogil:
        """Make ready for `bound`, once every axis is declared; options are listed when the first search needs them."""
        self._set_order()
        self._open_all()

    cdef int _list(self) noexcept nogil:
        """List every axis' options, if that was not done before; NEVER if memory or time runs out."""
        cdef int i
        if not self.listed:
            for i in range(self.axis_count):
                if self.axes[i].count == 0 and self._list_options(&self.axes[i]) == NEVER:
                    return NEVER
            self.listed = True
            self._set_order()
        return 0

    cdef int _list_options(self, Axis* a) noexcept nogil:
        """Every split that is least for its size, as parallel times serial."""
        cdef int64_t total = 1, size, factor
        cdef int failed = 0
        a.count, a.widest, a.open.size = 0, 1, UNLIMITED
        while failed == 0:
            self.steps += 1 + STEPS // 64
            if self.steps >= STEPS and self._interrupted():
                return NEVER
            size = cdiv(a.extent, total)
            if a.required == 0 or a.required == size:
                if a.serial_most == 1:
                    failed = add_option(a, total, 1, size)
                else:
                    factor = 1
                    while factor * factor <= total:
                        if divides(factor, total):
                            failed |= add_option(a, factor, total // factor, size)
                            if factor * factor != total:
                                failed |= add_option(a, total // factor, factor, size)
                        factor += 1
            if size == 1 or total > a.most * a.serial_most:
                break
            total = cdiv(a.extent, size - 1)
        if failed == 0 and a.count and a.serial_most > 1:
            failed = sort_by_parallel(a)
        if failed:
            self._out_of_memory()
            return NEVER
        return 0

    cdef void _out_of_memory(self) noexcept nogil:
        with gil:
            self.error = MemoryError()
        self.stopped = True

    cdef void _set_order(self) noexcept nogil:
        """Choose the order of the walk: by number of options, the longest last."""
        cdef int i, j, n = self.axis_count
        for i in range(n):
            j = i
            while j > 0 and self._before(i, self.order[j - 1]):
                self.order[j] = self.order[j - 1]
                j -= 1
            self.order[j] = i
        self.widest_below[n] = 1
        for i in range(n - 1, -1, -1):
            self.depth[self.order[i]] = i
            self.widest_below[i] = imin(self.widest_below[i + 1] * self.axes[self.order[i]].widest, self.tiles)

    cdef bint _before(self, int left, int right) noexcept nogil:
        cdef const Axis* a = &self.axes[left]
        cdef const Axis* b = &self.axes[right]
        return a.leads if a.leads != b.leads else a.count < b.count

    cdef int place(self, Point* at) except -1:
        """Fill in the sizes of a point from its splits; NEVER if they are not allowed."""
        cdef int i, j
        cdef const Axis* a
        if self._list() == NEVER:
            self._raise()
        at.tiles = 1
        for i in range(self.axis_count):
            a = &self.axes[i]
            at.tiles = imin(at.tiles * at.at[i].parallel, self.tiles + 1)
            for j in range(a.count):
                if a.options[j].parallel == at.at[i].parallel and a.options[j].serial == at.at[i].serial:
                    at.at[i] = a.options[j]
                    break
            else:
                return NEVER
        return NEVER if at.tiles > self.tiles else 0

    # What an op says of points -------------------------------------------------------------------------

    cdef int bound(self, int level, int64_t* least) noexcept nogil:
        """Fill in the least that any choice of the open axes measures; NEVER if none is allowed.

        The axes that are walked up to `level` are fixed in `point`, none at -1; each other one has its smallest size,
        and is not cut: no choice of it leaves a tile less. `least` comes filled with zeros.
        """
        return 0

    cdef int64_t most_turns(self, int level, int axis) noexcept nogil:
        """Return how often an axis may be cut in a loop to be of use; those walked before `level` are fixed in `point`."""
        return UNLIMITED

    cdef void cost(self) noexcept nogil:
        """Offer the variants of `point` with what they measure; what exceeds `allowed` need not be offered."""

    cdef void offer(self, int64_t variant, const int64_t* measures) noexcept nogil:
        """Keep the current point if it is better than the best, or as good as one found here."""
        cdef int64_t keys[MEASURES]
        cdef Point* grown
        cdef int i, order = 0
        for i in range(MEASURES):
            if measures[i] > self.limit[i]:
                return
        for i in range(self.key_count):
            keys[i] = measures[self.keys[i]]
            if order == 0 and keys[i] != self.best[i]:
                order = -1 if keys[i] < self.best[i] else 1
        if order > 0 or (order == 0 and self.found == 0):
            return                      # worse, or an earlier candidate was as good
        if order < 0:
            self._set_best(keys)
        if self.found == self.room:
            grown = <Point*>realloc(self.ties, (2 * self.room + 16) * sizeof(Point))
            if grown == NULL:
                self._out_of_memory()
                return
            self.ties, self.room = grown, 2 * self.room + 16
        self.ties[self.found] = self.point
        self.ties[self.found].variant = variant
        self.found += 1

    # The walk ------------------------------------------------------------------------------------------

    def search(self, tuple keys, tuple limits, tuple best, double deadline=0):
        """Find the points that cost least, if any is better than `best`.

        Parameters
        ----------
        keys : tuple of int
            Measures to minimise, one after another, by their places in `MEASURE_NAMES`.
        limits : tuple of int
            The most of each measure.
        best : tuple of int
            Measures of the best candidate so far, one for each key.
        deadline : float
            Seconds of the monotonic clock after which to give up; 0 for none.

        Returns
        -------
        tuple or None
            ``(best, splits, count)``: what the best points measure; for each axis the parallel and the serial split of
            the first of them that PopLibs' solver would find, and its variant at the end; and how many points there
            are.
        """
        cdef int i, count
        if not 0 < len(keys) == len(best) <= MEASURES or len(limits) != MEASURES:
            raise ValueError("keys, limits: wrong number")
        self.key_count = len(keys)
        for i in range(self.key_count):
            self.keys[i], self.start[i] = keys[i], best[i]
        for i in range(MEASURES):
            self.limit[i] = limits[i]
        self.deadline, self.looked = deadline, now()
        if 0 < deadline < self.looked:
            raise too_late()
        self.stopped = False
        with nogil:
            self._walk()
            count = self.found
            if count > 1 and not self.stopped:
                order_as_solver(self)
        self._raise()
        if not count:
            return None
        at = [(self.ties[0].at[i].parallel, self.ties[0].at[i].serial) for i in range(self.axis_count)]
        return tuple(self.best[i] for i in range(self.key_count)), (*at, self.ties[0].variant), count

    cdef int _raise(self) except -1:
        """Raise what stopped the walk, if anything did."""
        error, self.error = self.error, None
        if error is not None:
            raise error
        return 0

    cdef void _set_best(self, const int64_t* keys) noexcept nogil:
        """Set what is to be beaten, and what follows from it."""
        cdef int i
        for i in range(self.key_count):
            self.best[i] = keys[i]
        for i in range(MEASURES):
            self.allowed[i] = self.limit[i]
        self.allowed[self.keys[0]] = imin(self.limit[self.keys[0]], self.best[0])
        self.least_tiles = imax(1, cdiv(self.work, imax(1, self.allowed[CYCLES] - self.beside)))
        self.found = 0

    cdef void _walk(self) noexcept nogil:
        """Search every point that could beat or match the best; ties are in `ties`."""
        cdef int i
        self._set_best(self.start)
        self._open_all()
        for i in range(self.axis_count):
            if imin(self.axes[i].most, self.axes[i].serial_most) < 1:
                return
        if self._hopeless(-1):
            return
        if self._list() == NEVER:
            return
        for i in range(self.axis_count):
            if self.axes[i].count == 0:
                return
        self._open_all()
        self._descend(0, 1)

    cdef void _open_all(self) noexcept nogil:
        cdef int i
        for i in range(self.axis_count):
            self.point.at[i] = self.axes[i].open
        self.point.tiles = 1

    cdef void _descend(self, int level, int64_t tiles) noexcept nogil:
        cdef const Axis* a
        cdef int64_t used, turns
        cdef int i, k, axis
        cdef bint few = self.keys[0] == TILES
        if level == self.axis_count:
            self.point.tiles = tiles
            self.cost()
            return
        axis = self.order[level]
        a = &self.axes[axis]
        turns = self.most_turns(level, axis) if a.serial_most > 1 else UNLIMITED
        for k in range(a.count):            # many tiles first, unless few are wanted: a good plan found early rules others out
            i = k if few else a.count - 1 - k
            used = tiles * a.options[i].parallel
            if used > self.tiles or used > self.allowed[TILES]:
                if few:
                    break
                continue
            if used * self.widest_below[level + 1] < self.least_tiles:
                if few:
                    continue
                break
            if a.options[i].serial > turns:
                continue
            self.visited += 1
            self.steps += 1
            if self.steps >= STEPS and self._interrupted():
                break
            self.point.at[axis] = a.options[i]
            self.point.tiles = used
            # where an axis is not cut, nor could be, the bound is the one before
            if level < self.axis_count - 1 and (a.count > 1 or used > tiles) and self._hopeless(level):
                continue
            self._descend(level + 1, used)
            if self.stopped:
                break
        self.point.at[axis] = a.open

    cdef bint _hopeless(self, int level) noexcept nogil:
        """Whether no choice of the open axes is of use."""
        cdef int64_t least[MEASURES]
        cdef int i
        memset(least, 0, sizeof(least))
        if self.bound(level, least) == NEVER:
            return True
        for i in range(MEASURES):
            if least[i] > self.allowed[i]:
                return True
        # as good at best by the first key, and worse by the second
        return self.key_count > 1 and least[self.keys[0]] == self.best[0] and least[self.keys[1]] > self.best[1]

    cdef bint _interrupted(self) noexcept nogil:
        """Whether the time is over, or a signal's handler raised."""
        cdef double time = now()
        self.steps = 0
        if 0 < self.deadline < time:
            with gil:
                self.error = too_late()
            self.stopped = True
        elif time > self.looked + LOOK:
            self.looked = time
            with gil:
                try:
                    PyErr_CheckSignals()
                except BaseException as error:
                    self.error = error
                    self.stopped = True
        return self.stopped


cdef class PythonSearch(Search):
    """A space whose points a function measures: for ops of which few points are measured, and for tests.

    Parameters
    ----------
    axes : sequence of tuple
        Extent, least and most parallel split, least and most serial split of each axis, and a size required or 0.
    splits : sequence of tuple
        Axis, whether it is the serial split, and priority, in the order in which the solver knows them.
    tiles, work : int
        Tiles there are, and a lower bound of tiles x cycles.
    cost : callable
        From the options of each axis, ``(parallel, serial, size)``, to the measures of each variant; a variant that is
        not allowed is None.
    """

    cdef object measure

    def __init__(self, axes, splits, int64_t tiles, int64_t work, cost):
        self.tiles, self.work, self.measure = tiles, work, cost
        for extent, least, most, serial_least, serial_most, required in axes:
            self.add_axis(extent, least, most, serial_least, serial_most, required, False)
        for axis, serial, priority in splits:
            self.add_split(axis, serial, priority)
        self.prepare()

    cdef void cost(self) noexcept nogil:
        with gil:
            self._offer_all()

    cdef void _offer_all(self) noexcept:
        cdef int64_t measures[MEASURES]
        cdef int i
        try:
            options = [self.point.at[i] for i in range(self.axis_count)]
            for variant, found in enumerate(self.measure([(o["parallel"], o["serial"], o["size"]) for o in options])):
                if found is not None:
                    for i in range(MEASURES):
                        measures[i] = found[i]
                    self.offer(variant, measures)
        except BaseException as error:
            self.error = error
            self.stopped = True
