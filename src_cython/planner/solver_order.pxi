# Among points that cost the same, the one that PopLibs' constraint solver finds first.
#
# The solver is a depth-first search that always branches on the split with the smallest range (the first such
# in the order in which they are declared, of those with the lowest priority) and tries its values upwards.
# Ranges shrink as splits are fixed: parallel splits multiply to no more than the tiles, an axis' two splits to
# no more than its extent, and the work must still be done in the cycles allowed. So the order can be followed
# without searching: fix, propagate, and keep the points that share the least value. What the solver deduces
# from the sizes of exchanges and memory is not repeated here; it rarely changes which range is smallest.

cdef enum:
    MAX_SPLITS = 2 * MAX_AXES


cdef struct Ranges:
    int64_t low[MAX_SPLITS]
    int64_t high[MAX_SPLITS]
    int parallel[MAX_SPLITS]        # the parallel splits
    int parallel_count
    int serial[MAX_SPLITS]          # the serial splits
    int serial_count
    int pairs[MAX_AXES][2]          # parallel and serial split of an axis that has both
    int64_t pair_most[MAX_AXES]
    int pair_count


cdef inline int64_t value_of(const Split* s, const Point* at) noexcept nogil:
    return at.at[s.axis].serial if s.serial else at.at[s.axis].parallel


cdef void first_ranges(Search q, Ranges* v) noexcept nogil:
    """The range of every split before any is fixed."""
    cdef const Axis* a
    cdef int i, j
    v.parallel_count = v.serial_count = v.pair_count = 0
    for i in range(q.split_count):
        a = &q.axes[q.splits[i].axis]
        v.low[i] = a.serial_least if q.splits[i].serial else a.least
        v.high[i] = a.serial_most if q.splits[i].serial else imin(a.most, a.extent)
        if q.splits[i].serial:
            v.serial[v.serial_count] = i
            v.serial_count += 1
            continue
        v.parallel[v.parallel_count] = i
        v.parallel_count += 1
        for j in range(q.split_count):
            if q.splits[j].serial and q.splits[j].axis == q.splits[i].axis:
                v.pairs[v.pair_count][0], v.pairs[v.pair_count][1] = i, j
                v.pair_most[v.pair_count] = a.extent
                v.pair_count += 1


cdef bint narrow_product(Ranges* v, const int* members, int count, int64_t least,
                         int64_t most) noexcept nogil:
    """Narrow factors whose product is within [least, most]; whether anything changed."""
    cdef int64_t low = 1, high = 1, limit
    cdef bint changed = False
    cdef int i, j
    for i in range(count):
        j = members[i]
        low *= v.low[j]
        high = imin(high * v.high[j], UNLIMITED >> 24)
    for i in range(count):
        j = members[i]
        limit = most // imax(1, low // v.low[j])
        if limit < v.high[j]:
            v.high[j] = imax(limit, v.low[j])
            changed = True
        limit = cdiv(least, imax(1, high // imax(1, v.high[j])))
        if limit > v.low[j] and limit <= v.high[j]:
            v.low[j] = limit
            changed = True
            break                   # products are stale
    return changed


cdef void propagate(Search q, Ranges* v, int64_t cycles) noexcept nogil:
    """Narrow every range until nothing changes."""
    cdef int i, rounds = 0
    cdef int64_t least, shortest, longest
    cdef bint changed = True
    while changed and rounds < 64:
        shortest = longest = 1
        for i in range(v.serial_count):
            shortest *= v.low[v.serial[i]]
            longest *= v.high[v.serial[i]]
        least = imin(cycles, UNLIMITED >> 24) // imax(1, shortest) * longest
        least = cdiv(q.work, imax(1, least))
        changed = narrow_product(v, v.parallel, v.parallel_count, least, q.tiles)
        for i in range(v.pair_count):
            changed = narrow_product(v, v.pairs[i], 2, 1, v.pair_most[i]) or changed
        rounds += 1


cdef int smallest_range(Search q, const Ranges* v) noexcept nogil:
    """The split that the solver fixes next; -1 if all are fixed."""
    cdef int i, pick = -1
    for i in range(q.split_count):
        if v.high[i] <= v.low[i]:
            continue
        if pick < 0 or q.splits[i].priority < q.splits[pick].priority or (
                q.splits[i].priority == q.splits[pick].priority
                and v.high[i] - v.low[i] < v.high[pick] - v.low[pick]):
            pick = i
    return pick


cdef void order_as_solver(Search q) noexcept nogil:
    """Move the tie that the solver finds first to the front, and drop the others."""
    cdef Ranges v
    cdef int i, kept, pick
    cdef int64_t least, cycles = q.limit[CYCLES]
    if q.keys[0] == CYCLES:
        cycles = imin(cycles, q.start[0])
    first_ranges(q, &v)
    while q.found > 1:
        propagate(q, &v, cycles)
        pick = smallest_range(q, &v)
        if pick < 0:
            break
        least = UNLIMITED
        for i in range(q.found):
            least = imin(least, value_of(&q.splits[pick], &q.ties[i]))
        kept = 0
        for i in range(q.found):
            if value_of(&q.splits[pick], &q.ties[i]) == least:
                q.ties[kept] = q.ties[i]
                kept += 1
        q.found = kept
        v.low[pick] = v.high[pick] = least
        if q.keys[0] == CYCLES:
            cycles = q.best[0]      # by now a plan nearly as good has been found
    # only the choice of a variant is left: the solver tries the lowest first
    for i in range(1, q.found):
        if q.ties[i].variant < q.ties[0].variant:
            q.ties[0] = q.ties[i]
    q.found = imin(q.found, 1)
