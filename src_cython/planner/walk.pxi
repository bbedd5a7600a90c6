# The search space of one candidate, and an exact branch and bound over it.
#
# A split s of an extent n leaves ceil(n / s) on a tile; only the least s for each size is a choice (a larger
# one would use more tiles for nothing). So an axis has about 2 sqrt(n) options. The walk fixes one axis after
# another and leaves where even all tiles at peak rate could not beat the best point so far.

from libc.stdlib cimport qsort, realloc

cdef enum:
    CYCLES = 0
    COST_DIFF = 1
    TEMP = 2
    TILES = 3
    STEP_COUNT = 11


cdef struct Option:
    int64_t parallel, serial, size


cdef struct Axis:
    int64_t extent, least, most, serial_least, serial_most, required
    Option* options                 # by parallel split, ascending
    int count
    int64_t widest                  # largest parallel split
    int64_t smallest                # least size on a tile


cdef struct Problem:
    Pass passes[3]
    int pass_count, ndim, axis_count
    int64_t tiles, work, outputs    # outputs: elements of all partial sums of one share of the depth
    int64_t broadcast               # -1: free
    bint inputs_cover               # a tile reads at least as many field elements as it makes
    Axis axes[MAX_AXES]             # batch, groups, kernel, field, output channels, input channels
    int order[MAX_AXES]             # in which they are walked
    int64_t widest_below[MAX_AXES + 1]


cdef struct Goal:
    int objective
    int64_t cycles_limit, temp_limit
    bint tiles_secondary
    int64_t reference[3][STEP_COUNT]


cdef struct Hunt:
    Goal goal
    int64_t start[2]                # the keys to beat
    int64_t best[2]
    Point at[3]
    Point* ties
    int found, room
    bint no_loop                    # a serial loop's rearranged weights alone would exceed the limit


# Options -------------------------------------------------------------------------------------------

cdef void set_axis(Axis* a, int64_t extent, int64_t least, int64_t most, int64_t serial_least,
                   int64_t serial_most, int64_t required) noexcept:
    a.extent, a.least, a.most = extent, least, most
    a.serial_least, a.serial_most, a.required = serial_least, serial_most, required
    a.options = NULL
    a.count = 0
    a.widest = 1
    a.smallest = UNLIMITED


cdef int add_option(Axis* a, int64_t parallel, int64_t serial, int64_t size) noexcept nogil:
    cdef Option* grown
    if not (a.least <= parallel <= a.most and a.serial_least <= serial <= a.serial_most):
        return 0
    if a.count % 64 == 0:
        grown = <Option*>realloc(a.options, (a.count + 64) * sizeof(Option))
        if grown == NULL:
            return -1
        a.options = grown
    a.options[a.count].parallel = parallel
    a.options[a.count].serial = serial
    a.options[a.count].size = size
    a.count += 1
    a.widest = imax(a.widest, parallel)
    a.smallest = imin(a.smallest, size)
    return 0


cdef int by_parallel(const void* left, const void* right) noexcept nogil:
    cdef const Option* a = <const Option*>left
    cdef const Option* b = <const Option*>right
    if a.parallel != b.parallel:
        return -1 if a.parallel < b.parallel else 1
    return -1 if a.serial < b.serial else (1 if a.serial > b.serial else 0)


cdef int list_options(Axis* a) noexcept nogil:
    """Every split that is least for its size, as parallel times serial."""
    cdef int64_t total = 1, size, factor
    while True:
        size = cdiv(a.extent, total)
        if a.required == 0 or a.required == size:
            if a.serial_most == 1:
                if add_option(a, total, 1, size) != 0:
                    return -1
            else:
                factor = 1
                while factor * factor <= total:
                    if total % factor == 0:
                        if add_option(a, factor, total // factor, size) != 0:
                            return -1
                        if factor * factor != total and add_option(a, total // factor, factor, size) != 0:
                            return -1
                    factor += 1
        if size == 1 or total > a.most * a.serial_most:
            break
        total = cdiv(a.extent, size - 1)
    if a.count:
        qsort(a.options, a.count, sizeof(Option), &by_parallel)
    return 0


cdef int prepare(Problem* q) noexcept nogil:
    """List every axis' options and choose the order of the walk; -1 if memory runs out."""
    cdef int i, j, n = q.axis_count
    cdef Point undivided
    cdef Option whole
    memset(&undivided, 0, sizeof(Point))
    for i in range(n):
        if list_options(&q.axes[i]) != 0:
            return -1
    # channels first: they decide the serial loop; then by number of options, the longest last
    q.order[0], q.order[1] = n - 1, n - 2
    for i in range(n - 2):
        j = i + 2
        while j > 2 and q.axes[q.order[j - 1]].count > q.axes[i].count:
            q.order[j] = q.order[j - 1]
            j -= 1
        q.order[j] = i
    q.widest_below[n] = 1
    for i in range(n - 1, -1, -1):
        q.widest_below[i] = imin(q.widest_below[i + 1] * q.axes[q.order[i]].widest, q.tiles)
    q.inputs_cover = True
    for i in range(q.ndim):
        if not (q.passes[0].dims[i].moved or (q.passes[0].dims[i].grain == 1
                                              and q.passes[0].dims[i].whole_input >= q.passes[0].dims[i].out
                                              and q.passes[0].dims[i].stride >= q.passes[0].dims[i].dilation)):
            q.inputs_cover = False
    for i in range(n):
        whole.parallel, whole.serial, whole.size = 1, 1, q.axes[i].extent
        put(&undivided, q.ndim, i, &whole)
    q.outputs = least_outputs(q)
    q.work = 0
    for i in range(q.pass_count):
        if not q.passes[i].absent:
            q.passes[i].work = q.passes[i].macs_over_rate
            if i == 0:
                q.passes[0].work = imax(q.passes[0].work, least_vertex_work(&q.passes[0], &undivided))
            q.work += q.passes[i].work
    return 0


cdef int64_t least_outputs(const Problem* q) noexcept nogil:
    """Elements of the output with every grain filled; 0 if they are too many to count."""
    cdef const Pass* p = &q.passes[0]
    cdef double total = <double>p.group_size * p.out_size
    cdef int i
    for i in range(q.axis_count - 1):
        if i < 2 or i >= 2 + q.ndim:
            total *= q.axes[i].extent
    for i in range(q.ndim):
        total *= p.dims[i].grain
    return <int64_t>total if total < 2.0**52 else 0


cdef void release(Problem* q) noexcept nogil:
    cdef int i
    for i in range(MAX_AXES):
        free(q.axes[i].options)
        q.axes[i].options = NULL


# Points --------------------------------------------------------------------------------------------

cdef inline void put(Point* at, int ndim, int axis, const Option* o) noexcept nogil:
    """Set one axis of a point."""
    if axis == 0:
        at.splits.batch, at.batch = o.parallel, o.size
    elif axis == 1:
        at.splits.group, at.groups = o.parallel, o.size
    elif axis < 2 + ndim:
        at.splits.kernel[axis - 2], at.kernel[axis - 2] = o.parallel, o.size
    elif axis < 2 + 2 * ndim:
        at.splits.field[axis - 2 - ndim], at.field[axis - 2 - ndim] = o.parallel, o.size
    elif axis == 2 + 2 * ndim:
        at.splits.out_parallel, at.splits.out_serial, at.outs = o.parallel, o.serial, o.size
    else:
        at.splits.in_parallel, at.splits.in_serial, at.ins = o.parallel, o.serial, o.size


cdef int64_t value_of(const Splits* s, int ndim, int axis, bint serial) noexcept nogil:
    """The split of one axis."""
    if axis == 0:
        return s.batch
    if axis == 1:
        return s.group
    if axis < 2 + ndim:
        return s.kernel[axis - 2]
    if axis < 2 + 2 * ndim:
        return s.field[axis - 2 - ndim]
    if axis == 2 + 2 * ndim:
        return s.out_serial if serial else s.out_parallel
    return s.in_serial if serial else s.in_parallel


cdef int place(const Problem* q, Point* at) noexcept nogil:
    """Work out the tile sizes of a point from its splits; NEVER if they are not allowed."""
    cdef int i, j
    cdef const Axis* a
    cdef Splits s = at.splits
    cdef bint hit
    at.tiles = 1
    for i in range(q.axis_count):
        a = &q.axes[i]
        hit = False
        for j in range(a.count):
            if (a.options[j].parallel == value_of(&s, q.ndim, i, False)
                    and (i < q.axis_count - 2 or a.options[j].serial == value_of(&s, q.ndim, i, True))):
                put(at, q.ndim, i, &a.options[j])
                at.tiles *= a.options[j].parallel
                hit = True
        if not hit:
            return NEVER
    if at.tiles > q.tiles or (s.out_serial > 1 and s.in_serial > 1):
        return NEVER
    return NEVER if s.broadcast and s.out_serial == 1 else 0


cdef void derive_points(const Problem* q, Point* at) noexcept nogil:
    """The points of a joint plan's backward pass and weight update, from the forward one."""
    cdef int last = q.ndim - 1
    if q.pass_count == 1:
        return
    at[1] = at[0]
    at[1].splits.field[last], at[1].splits.in_parallel = at[0].splits.in_parallel, at[0].splits.field[last]
    at[1].field[last], at[1].ins = at[0].ins, at[0].field[last]
    at[2] = at[0]
    at[2].splits.out_parallel = at[0].splits.in_parallel
    at[2].splits.in_parallel = at[0].splits.out_parallel
    at[2].outs, at[2].ins = at[0].ins, at[0].outs


# The walk ------------------------------------------------------------------------------------------

cdef inline int64_t step_difference(const int64_t* reference, const Costs* c) noexcept nogil:
    """Cycles by which single steps exceed the reference's."""
    return (imax(0, c.rearrange_before_slice - reference[0]) + imax(0, c.dynamic_slice - reference[1])
            + imax(0, c.transform_copy - reference[2]) + imax(0, c.transform_exchange - reference[3])
            + imax(0, c.exchange - reference[4]) + imax(0, c.tile_transform - reference[5])
            + imax(0, c.partial_calc - reference[6]) + imax(0, c.reduce - reference[7])
            + imax(0, c.dynamic_update - reference[8]) + imax(0, c.add_in_place - reference[9])
            + imax(0, c.output_cast - reference[10]))


cdef inline int64_t cycles_allowed(const Hunt* h) noexcept nogil:
    if h.goal.objective == CYCLES:
        return imin(h.goal.cycles_limit, h.best[0])
    return h.goal.cycles_limit


cdef void leaf(const Problem* q, Hunt* h) noexcept nogil:
    """Cost the current point, with and without the input broadcast before the loop."""
    cdef Costs raw[3]
    cdef Costs c
    cdef int64_t keys[2]
    cdef int64_t cycles, temp, difference, limit = cycles_allowed(h)
    cdef int i, b, last
    derive_points(q, h.at)
    for i in range(q.pass_count):
        if not q.passes[i].absent:
            if phases(&q.passes[i], &h.at[i], limit, h.goal.temp_limit, &raw[i]) == NEVER:
                return
    last = 1 if h.at[0].splits.out_serial > 1 and h.at[0].splits.in_serial == 1 else 0
    for b in range(last + 1):
        if q.broadcast >= 0 and b != q.broadcast:
            continue
        cycles = temp = difference = 0
        for i in range(q.pass_count):
            if q.passes[i].absent:
                continue
            c = raw[i]
            totals(&q.passes[i], &h.at[i], b, &c)
            cycles += c.cycles
            temp = imax(temp, c.temp_bytes)
            difference += step_difference(h.goal.reference[i], &c)
        if cycles > h.goal.cycles_limit or temp > h.goal.temp_limit:
            continue
        if h.goal.objective == CYCLES:
            keys[0], keys[1] = cycles, temp
        elif h.goal.objective == TILES:
            keys[0], keys[1] = h.at[0].tiles, cycles
        elif h.goal.objective == TEMP:
            keys[0], keys[1] = temp, cycles
        else:
            keys[0], keys[1] = difference, (h.at[0].tiles if h.goal.tiles_secondary else temp)
        h.at[0].splits.broadcast = b
        consider(h, keys)


cdef inline void consider(Hunt* h, const int64_t* keys) noexcept nogil:
    """Keep the current point if it is better than the best, or as good as one found here."""
    cdef Point* grown
    if keys[0] > h.best[0] or (keys[0] == h.best[0] and keys[1] > h.best[1]):
        return
    if keys[0] != h.best[0] or keys[1] != h.best[1]:
        h.best[0], h.best[1] = keys[0], keys[1]
        h.found = 0
    elif h.found == 0:
        return                      # an earlier candidate was as good
    if h.found == h.room:
        grown = <Point*>realloc(h.ties, (2 * h.room + 16) * sizeof(Point))
        if grown == NULL:
            return
        h.ties, h.room = grown, 2 * h.room + 16
    h.ties[h.found] = h.at[0]
    h.found += 1


cdef int64_t least_tiles(const Problem* q, const Hunt* h) noexcept nogil:
    """Tiles without which the work cannot be done in the cycles allowed."""
    return imax(1, cdiv(q.work, imax(1, cycles_allowed(h))))


cdef struct Elements:
    # On a tile: inputs, weights and sums, and how many tiles hold the same weights.
    int64_t inputs, weights, outputs, holders


cdef inline Elements least_elements(const Problem* q, const Hunt* h, int level, int64_t used) noexcept nogil:
    """Elements with the axes still open as small as they can get.

    All open axes together can be cut at most `spare` times, which bounds the partial sums from below.
    """
    cdef const Pass* p = &q.passes[0]
    cdef const Splits* s = &h.at[0].splits
    cdef int64_t size[MAX_AXES]
    cdef int64_t spare = q.tiles // used, open_outputs = 1, least_outputs = 1, fixed_outputs = 1
    cdef int n = q.ndim, i, axis, d
    cdef Elements e
    e.holders = 1
    for i in range(q.axis_count):
        axis = q.order[i]
        if i > level:
            size[axis] = q.axes[axis].smallest
            if axis < 2 or axis >= 2 + n:
                open_outputs *= q.axes[axis].extent
                least_outputs *= size[axis]
    size[2 * n + 2], size[2 * n + 3] = h.at[0].outs, h.at[0].ins
    for i in range(level + 1):
        axis = q.order[i]
        if axis == 0:
            size[0] = h.at[0].batch
            e.holders *= s.batch
        elif axis == 1:
            size[1] = h.at[0].groups
        elif axis < 2 + n:
            size[axis] = h.at[0].kernel[axis - 2]
            continue
        elif axis < 2 + 2 * n:
            size[axis] = h.at[0].field[axis - 2 - n]
            e.holders *= s.field[axis - 2 - n]
        else:
            continue
        fixed_outputs *= size[axis]
    e.inputs = size[0] * size[1] * p.group_grain * size[2 * n + 3] * p.in_grain
    e.weights = size[1] * p.group_grain * size[2 * n + 3] * p.in_grain * size[2 * n + 2] * p.out_grain
    e.outputs = fixed_outputs * imax(least_outputs, cdiv(open_outputs, spare)) * p.group_grain
    for d in range(n):
        e.outputs *= p.dims[d].grain
        e.weights *= size[2 + d]
        if p.dims[d].moved:
            e.inputs *= size[2 + n + d] * p.dims[d].grain
        else:
            e.inputs *= input_extent(&p.dims[d], size[2 + n + d] * p.dims[d].grain, size[2 + d])
    if q.inputs_cover:
        e.inputs = imax(e.inputs, e.outputs * size[2 * n + 3] * p.in_grain)
    e.outputs *= size[2 * n + 2] * p.out_grain
    return e


cdef int hopeless(const Problem* q, const Hunt* h, int level, int64_t used) noexcept nogil:
    """NEVER if no choice of the axes still open keeps to the limits: sizes and most phases only grow with the others."""
    cdef const Pass* p = &q.passes[0]
    cdef const Splits* s = &h.at[0].splits
    cdef int64_t serial = s.in_serial * s.out_serial, turns, tiles, cycles, once, bytes, held, rearranged
    cdef Point wide
    cdef Costs c
    cdef Elements e = least_elements(q, h, level, used)
    tiles = imin(q.tiles, used * q.widest_below[level + 1])
    wide.tiles, wide.splits.in_serial, wide.splits.out_serial = tiles, s.in_serial, s.out_serial
    transform_phase(p, &wide, &c)
    held = p.input * e.weights + p.partial * (e.outputs // p.group_grain * p.group_size)
    rearranged = 2 * imax(c.weights_temp, c.output_temp)
    bytes = imax(p.input * e.inputs + held, imax(2 * c.inputs_temp, rearranged))
    turns = serial if s.in_serial > 1 else 1
    if s.out_serial > 1 and turns == 1:             # the input may be broadcast before the loop
        bytes = imin(bytes, c.inputs_temp + p.input * e.inputs + imax(held, rearranged))
    if p.slices_rearranged and serial > 1:
        held = cdiv(p.weights_total, tiles) * p.input
        bytes = held + imax(bytes, held)
    if s.in_serial > 1:                             # each turn's result beside the sum so far
        bytes += cdiv(q.outputs, tiles * s.out_serial) * p.tile_result
    if bytes > h.goal.temp_limit and p.out_size == p.out_grain:
        return NEVER
    once = exchange(&p.machine, e.outputs, p.tile_result) if not p.corrected else 0
    once += exchange(&p.machine, e.weights - e.weights // e.holders, p.input)
    once += c.weights_copy + c.weights_exchange + c.output_copy + c.output_exchange
    cycles = exchange_inputs(p, &h.at[0], e.inputs - e.inputs // s.out_parallel) + c.inputs_copy + c.inputs_exchange
    cycles = cycles * turns + once * serial
    return NEVER if cycles + cdiv(q.work, tiles) > cycles_allowed(h) else 0


cdef void descend(const Problem* q, Hunt* h, int level, int64_t tiles) noexcept nogil:
    cdef const Axis* a
    cdef int64_t used
    cdef int i, axis
    if level == q.axis_count:
        h.at[0].tiles = tiles
        leaf(q, h)
        return
    axis = q.order[level]
    a = &q.axes[axis]
    for i in range(a.count):
        used = tiles * a.options[i].parallel
        if used > q.tiles or (h.goal.objective == TILES and used > h.best[0]):
            break
        if used * q.widest_below[level + 1] < least_tiles(q, h) or (h.no_loop and a.options[i].serial > 1):
            continue
        put(&h.at[0], q.ndim, axis, &a.options[i])
        if level == 1 and h.at[0].splits.in_serial > 1 and h.at[0].splits.out_serial > 1:
            continue
        if 0 < level < q.axis_count - 1 and hopeless(q, h, level, used) == NEVER:
            continue
        descend(q, h, level + 1, used)


cdef void walk(const Problem* q, Hunt* h) noexcept nogil:
    """Search every point that could beat or match the best; ties are in h.ties.

    With nothing to beat yet, look first for a plan within a few times the least that the work can take: what is
    found within a limit is the best there is, and a limit leaves most of the space out.
    """
    cdef int64_t least = cdiv(q.work, q.tiles) + 1000
    cdef int i
    if h.goal.objective == CYCLES:
        for i in range(2):
            least *= 2 << i
            if least >= h.start[0]:
                break
            h.best[0], h.best[1] = least, UNLIMITED
            walk_within(q, h)
            if h.found:
                return
        h.best[0], h.best[1] = h.start[0], h.start[1]
    walk_within(q, h)


cdef void walk_within(const Problem* q, Hunt* h) noexcept nogil:
    """Search every point that could beat or match h.best."""
    cdef Point wide
    cdef Costs c
    cdef int64_t held, rearranged
    cdef int i
    for i in range(q.axis_count):
        if q.axes[i].count == 0:
            return
    # transforms are of the whole problem, so what limits their bytes is all tiles together
    wide.tiles, wide.splits.in_serial, wide.splits.out_serial = q.widest_below[0], 1, 1
    transform_phase(&q.passes[0], &wide, &c)
    rearranged = 2 * imax(c.weights_temp, c.output_temp)
    if rearranged > h.goal.temp_limit:
        return
    held = cdiv(q.passes[0].weights_total, wide.tiles) * q.passes[0].input
    h.no_loop = q.passes[0].slices_rearranged and held + imax(held, rearranged) > h.goal.temp_limit
    descend(q, h, 0, 1)
