# Among points that cost the same, the one that PopLibs' constraint solver finds first.
#
# The solver is a depth-first search that always branches on the split with the smallest range (the first such
# in the order below) and tries its values upwards. Ranges shrink as splits are fixed: parallel splits
# multiply to no more than the tiles, a channel's two splits to no more than its grains, and the work must
# still be done in the cycles allowed. So the order can be followed without searching: fix, propagate, and
# keep the points that share the least value. What the solver deduces from the sizes of exchanges and
# memory is not repeated here; it rarely changes which range is smallest.

cdef enum:
    MAX_SPLITS = 2 * MAX_DIMS + 6


cdef struct Ranges:
    int count
    int axis[MAX_SPLITS]            # as in Problem.axes
    bint serial[MAX_SPLITS]
    int64_t low[MAX_SPLITS]
    int64_t high[MAX_SPLITS]
    int out_parallel, out_serial, in_parallel, in_serial


cdef int add_range(const Problem* q, Ranges* v, int axis, bint serial) noexcept nogil:
    cdef const Axis* a = &q.axes[axis]
    v.axis[v.count] = axis
    v.serial[v.count] = serial
    v.low[v.count] = a.serial_least if serial else a.least
    v.high[v.count] = a.serial_most if serial else imin(a.most, a.extent)
    v.count += 1
    return v.count - 1


cdef void first_ranges(const Problem* q, Ranges* v) noexcept nogil:
    """Every split in the order in which the solver's model declares them."""
    cdef int d, n = q.ndim
    v.count = 0
    for d in range(n):
        add_range(q, v, 2 + n + d, False)
        if d < n - 1:
            add_range(q, v, 2 + d, False)
    add_range(q, v, 0, False)
    add_range(q, v, 1, False)
    v.out_parallel = add_range(q, v, 2 + 2 * n, False)
    v.in_serial = add_range(q, v, 3 + 2 * n, True)
    v.out_serial = add_range(q, v, 2 + 2 * n, True)
    v.in_parallel = add_range(q, v, 3 + 2 * n, False)


cdef bint narrow_product(Ranges* v, const int* members, int count, int64_t least,
                         int64_t most) noexcept nogil:
    """Narrow factors whose product is within [least, most]; whether anything changed."""
    cdef int64_t low = 1, high = 1, bound
    cdef bint changed = False
    cdef int i, j
    for i in range(count):
        j = members[i]
        low *= v.low[j]
        high = imin(high * v.high[j], UNLIMITED >> 24)
    for i in range(count):
        j = members[i]
        bound = most // imax(1, low // v.low[j])
        if bound < v.high[j]:
            v.high[j] = imax(bound, v.low[j])
            changed = True
        bound = cdiv(least, imax(1, high // imax(1, v.high[j])))
        if bound > v.low[j] and bound <= v.high[j]:
            v.low[j] = bound
            changed = True
            break                   # products are stale
    return changed


cdef void propagate(const Problem* q, Ranges* v, int64_t cycles) noexcept nogil:
    """Narrow every range until nothing changes."""
    cdef int tiles[MAX_SPLITS]
    cdef int pair[2]
    cdef int i, count = 0, rounds = 0
    cdef int64_t least
    cdef bint changed = True
    for i in range(v.count):
        if not v.serial[i]:
            tiles[count] = i
            count += 1
    while changed and rounds < 64:
        least = v.high[v.in_serial] * v.high[v.out_serial]
        least = imin(cycles, UNLIMITED >> 24) // imax(1, v.low[v.in_serial] * v.low[v.out_serial]) * least
        least = cdiv(q.work, imax(1, least))
        changed = narrow_product(v, tiles, count, least, q.tiles)
        pair[0], pair[1] = v.out_parallel, v.out_serial
        changed = narrow_product(v, pair, 2, 1, q.axes[2 + 2 * q.ndim].extent) or changed
        pair[0], pair[1] = v.in_parallel, v.in_serial
        changed = narrow_product(v, pair, 2, 1, q.axes[3 + 2 * q.ndim].extent) or changed
        rounds += 1


cdef void order_as_solver(const Problem* q, Hunt* h) noexcept nogil:
    """Move the tie that the solver finds first to the front, and drop the others."""
    cdef Ranges v
    cdef int i, kept, pick
    cdef int64_t least, cycles = imin(h.goal.cycles_limit, h.start[0])
    if h.goal.objective != CYCLES:
        cycles = h.goal.cycles_limit
    first_ranges(q, &v)
    while h.found > 1:
        propagate(q, &v, cycles)
        pick = -1
        for i in range(v.count):
            if v.high[i] > v.low[i] and (pick < 0 or v.high[i] - v.low[i] < v.high[pick] - v.low[pick]):
                pick = i
        if pick < 0:
            break
        least = UNLIMITED
        for i in range(h.found):
            least = imin(least, value_of(&h.ties[i].splits, q.ndim, v.axis[pick], v.serial[pick]))
        kept = 0
        for i in range(h.found):
            if value_of(&h.ties[i].splits, q.ndim, v.axis[pick], v.serial[pick]) == least:
                h.ties[kept] = h.ties[i]
                kept += 1
        h.found = kept
        v.low[pick] = v.high[pick] = least
        if h.goal.objective == CYCLES:
            cycles = h.best[0]      # by now a plan nearly as good has been found
    # only the choice of broadcasting first is left: the solver tries "no" first
    for i in range(1, h.found):
        if h.ties[i].splits.broadcast < h.ties[0].splits.broadcast:
            h.ties[0] = h.ties[i]
    h.found = imin(h.found, 1)
