"""The planner's core, for the compiled modules of ops: a search space, and what an op tells of its points.

An op's model is a subclass of `Search`. It declares axes, overrides `cost` and, to be fast, `bound`, and is searched.
"""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #define PLANNER_UNLIMITED 0x3fffffffffffffffLL
    """
    const int64_t UNLIMITED "PLANNER_UNLIMITED"

cdef enum:
    MAX_AXES = 20
    MEASURES = 4        # what a point costs
    CYCLES = 0
    TEMP = 1            # temporary bytes of a tile
    TILES = 2
    DIFFERENCE = 3      # from a reference, as the op has it
    NEVER = 1           # returned where no point is allowed


cdef struct Option:
    int64_t parallel, serial, size  # how often an axis is cut across tiles and in a loop, and what a tile holds


cdef struct Axis:
    int64_t extent, least, most, serial_least, serial_most, required
    Option* options                 # by parallel split, ascending
    Option open                     # stands for the axis while it is not fixed: the smallest size, cut nowhere
    int count
    int64_t widest                  # largest parallel split
    bint leads                      # walked before the axes that do not


cdef struct Split:
    int axis
    bint serial
    int priority                    # splits of a lower number are fixed first


cdef struct Point:
    Option at[MAX_AXES]
    int64_t tiles                   # product of the parallel splits
    int64_t variant                 # of the points with these splits


cdef class Search:
    # The space.
    cdef Axis axes[MAX_AXES]
    cdef int axis_count
    cdef Split splits[2 * MAX_AXES]
    cdef int split_count
    cdef int64_t tiles
    cdef int64_t work               # lower bound of tiles x cycles, 0 where none is known
    cdef int64_t beside             # cycles that every point takes beside those, at least
    cdef int order[MAX_AXES]        # in which axes are walked
    cdef int depth[MAX_AXES]        # place of an axis in it
    cdef int64_t widest_below[MAX_AXES + 1]
    # What is looked for.
    cdef int keys[MEASURES]         # measures to minimise, one after another
    cdef int key_count
    cdef int64_t limit[MEASURES]
    cdef int64_t start[MEASURES]    # the keys to beat
    # How far the walk is.
    cdef Point point
    cdef int64_t best[MEASURES]
    cdef int64_t allowed[MEASURES]  # most that a point may measure to be of use
    cdef bint listed                # whether the axes have their options
    cdef int64_t least_tiles        # without which the work cannot be done in the cycles allowed
    cdef Point* ties
    cdef int found, room
    cdef readonly int64_t visited   # options of axes taken up in all walks so far
    # Why it stops early.
    cdef object error
    cdef bint stopped
    cdef int steps
    cdef double deadline, looked

    cdef int add_axis(self, int64_t extent, int64_t least, int64_t most, int64_t serial_least, int64_t serial_most,
                      int64_t required, bint leads) except -1
    cdef int add_split(self, int axis, bint serial, int priority) except -1
    cdef void resize(self, int axis, int64_t extent, int64_t serial_most) noexcept nogil
    cdef void prepare(self) noexcept nogil
    cdef int place(self, Point* at) except -1
    cdef void offer(self, int64_t variant, const int64_t* measures) noexcept nogil

    cdef int bound(self, int level, int64_t* least) noexcept nogil
    cdef int64_t most_turns(self, int level, int axis) noexcept nogil
    cdef void cost(self) noexcept nogil

    cdef int _list(self) noexcept nogil
    cdef int _list_options(self, Axis* a) noexcept nogil
    cdef void _out_of_memory(self) noexcept nogil
    cdef int _raise(self) except -1
    cdef void _set_order(self) noexcept nogil
    cdef bint _before(self, int left, int right) noexcept nogil
    cdef void _open_all(self) noexcept nogil
    cdef void _walk(self) noexcept nogil
    cdef void _descend(self, int level, int64_t tiles) noexcept nogil
    cdef bint _hopeless(self, int level) noexcept nogil
    cdef bint _interrupted(self) noexcept nogil
    cdef void _set_best(self, const int64_t* keys) noexcept nogil
