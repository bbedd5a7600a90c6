# What the search asks of a candidate: the least that its open axes cost, and what a point costs.

cdef enum:
    STEP_COUNT = 11


cdef struct Problem:
    Pass passes[3]
    int pass_count, ndim
    int out_axis, in_axis           # after batch, groups, kernel and field
    int64_t tiles, outputs          # outputs: elements of all partial sums of one share of the depth
    int64_t broadcast               # -1: free
    bint inputs_cover               # a tile reads at least as many field elements as it makes
    int64_t reference[3][STEP_COUNT]


# Points --------------------------------------------------------------------------------------------

cdef inline void read_point(const Problem* q, const Point* point, Part* at) noexcept nogil:
    """What a tile holds of the forward pass at a point."""
    cdef Option out = point.at[q.out_axis], inner = point.at[q.in_axis]
    cdef int d, n = q.ndim
    at.tiles = point.tiles
    at.splits.batch, at.batch = point.at[0].parallel, point.at[0].size
    at.splits.group, at.groups = point.at[1].parallel, point.at[1].size
    for d in range(n):
        at.splits.kernel[d], at.kernel[d] = point.at[2 + d].parallel, point.at[2 + d].size
        at.splits.field[d], at.field[d] = point.at[2 + n + d].parallel, point.at[2 + n + d].size
    at.splits.out_parallel, at.splits.out_serial, at.outs = out.parallel, out.serial, out.size
    at.splits.in_parallel, at.splits.in_serial, at.ins = inner.parallel, inner.serial, inner.size


cdef void derive_parts(const Problem* q, Part* at) noexcept nogil:
    """The parts of a joint plan's backward pass and weight update, from the forward one's."""
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


cdef inline int64_t step_difference(const int64_t* reference, const Costs* c) noexcept nogil:
    """Cycles by which single steps exceed the reference's."""
    return (imax(0, c.rearrange_before_slice - reference[0]) + imax(0, c.dynamic_slice - reference[1])
            + imax(0, c.transform_copy - reference[2]) + imax(0, c.transform_exchange - reference[3])
            + imax(0, c.exchange - reference[4]) + imax(0, c.tile_transform - reference[5])
            + imax(0, c.partial_calc - reference[6]) + imax(0, c.reduce - reference[7])
            + imax(0, c.dynamic_update - reference[8]) + imax(0, c.add_in_place - reference[9])
            + imax(0, c.output_cast - reference[10]))


cdef inline bint serial_in_both(const Problem* q, const Point* point) noexcept nogil:
    return point.at[q.in_axis].serial > 1 and point.at[q.out_axis].serial > 1


# Bounds --------------------------------------------------------------------------------------------

cdef int64_t least_outputs(const Problem* q, const Axis* axes) noexcept nogil:
    """Elements of the output with every grain filled; 0 if they are too many to count."""
    cdef const Pass* p = &q.passes[0]
    cdef double total = <double>p.group_size * p.out_size
    cdef int i
    for i in range(q.in_axis):
        if i < 2 or i >= 2 + q.ndim:
            total *= axes[i].extent
    for i in range(q.ndim):
        total *= p.dims[i].grain
    return <int64_t>total if total < 2.0**52 else 0


cdef inline void least_transforms(const Pass* p, int64_t tiles, const Splits* splits, bint open, Costs* c) noexcept nogil:
    """The least that transforms of the whole problem take, on so many tiles; loops may be `open`."""
    cdef Part wide
    wide.tiles, wide.splits.in_serial, wide.splits.out_serial = tiles, splits.in_serial, splits.out_serial
    transform_phase(p, &wide, c)
    if p.regressed and open:                        # these depend on both loops
        c.inputs_copy = c.weights_copy = 0


cdef int64_t least_moved(const Pass* p, int64_t tiles) noexcept nogil:
    """The least cycles of the transforms of the whole problem, however it is split."""
    cdef Splits alone
    cdef Costs c
    alone.in_serial = alone.out_serial = 1
    least_transforms(p, tiles, &alone, True, &c)
    return moved_once(&c) + moved_each_turn(&c)


cdef int64_t least_beside(const Problem* q) noexcept nogil:
    """Cycles that all passes take beside their work, at least."""
    cdef int64_t total = 0
    cdef int i
    for i in range(q.pass_count):
        if not q.passes[i].absent:
            total += least_moved(&q.passes[i], q.tiles)
    return total


cdef int64_t least_work(Problem* q, const Axis* axes) noexcept nogil:
    """Lower bound of tiles x cycles, that of each pass in `work`."""
    cdef Point point
    cdef Part undivided
    cdef int64_t total = 0
    cdef int i
    for i in range(q.in_axis + 1):
        point.at[i].parallel = point.at[i].serial = 1
        point.at[i].size = axes[i].extent
    point.tiles = 1
    read_point(q, &point, &undivided)
    for i in range(q.pass_count):
        if not q.passes[i].absent:
            q.passes[i].work = q.passes[i].macs_over_rate
            if i == 0:
                q.passes[0].work = imax(q.passes[0].work, least_vertex_work(&q.passes[0], &undivided))
            total += q.passes[i].work
    return total


cdef bint covers(const Pass* p) noexcept nogil:
    """Whether a tile reads at least as many field elements as it makes."""
    cdef const Dim* d
    cdef int i
    for i in range(p.ndim):
        d = &p.dims[i]
        if not (d.moved or (d.grain == 1 and d.whole_input >= d.out and d.stride >= d.dilation)):
            return False
    return True


cdef struct Elements:
    # On a tile: inputs, weights and sums, what each is at least while axes are open.
    int64_t inputs, weights, sums
    int64_t holders                 # tiles that hold the same weights
    double bytes                    # of all three together


cdef inline Elements least_elements(const Problem* q, Search search, int level, const Part* at, int64_t in_turns,
                                    int64_t out_turns) noexcept nogil:
    """Elements with the axes still open as small as they can get in at most so many turns of a loop over channels.

    All open axes together can be cut at most `spare` times across tiles, which bounds the partial sums from below. The
    fewer inputs a tile reads for these sums, the more weights: their product is known, so is the least of both. And while
    both kinds of channels are open, so is the product of sums and depth, hence the least of all three.
    """
    cdef const Pass* p = &q.passes[0]
    cdef bint in_open = search.depth[q.in_axis] > level, out_open = search.depth[q.out_axis] > level
    cdef int64_t rows = 1, open_rows = 1, least_rows = 1, spare = q.tiles // at.tiles, grain = p.group_grain, kernel = 1
    cdef int64_t outs = at.outs, ins = at.ins
    cdef int n = q.ndim, i, d
    cdef double products, volume, each
    cdef Elements e
    for i in range(2 + 2 * n):
        if 2 <= i < 2 + n:
            continue
        if search.depth[i] > level:
            open_rows *= search.axes[i].extent
            least_rows *= search.point.at[i].size
        else:
            rows *= search.point.at[i].size
    least_rows = imax(least_rows, cdiv(open_rows, spare))
    if in_open:
        ins = imax(ins, cdiv(search.axes[q.in_axis].extent, spare * in_turns))
    ins *= p.in_grain
    e.inputs = at.batch * at.groups * p.group_grain * ins
    e.holders = at.splits.batch
    for d in range(n):
        e.holders *= at.splits.field[d]
        grain *= p.dims[d].grain
        kernel *= at.kernel[d]
        if p.dims[d].moved:
            e.inputs *= at.field[d] * p.dims[d].grain
        else:
            e.inputs *= input_extent(&p.dims[d], at.field[d] * p.dims[d].grain, at.kernel[d])
    if q.inputs_cover:
        e.inputs = imax(e.inputs, rows * least_rows * grain * ins)
        if in_open:
            volume = <double>rows * open_rows * grain * search.axes[q.in_axis].extent * p.in_grain
            e.inputs = imax(e.inputs, <int64_t>(volume * (1 - 1e-9) / (<double>spare * in_turns)))
    e.sums = rows * least_rows * outs
    if out_open:
        outs = imax(outs, cdiv(search.axes[q.out_axis].extent, spare * out_turns))
        open_rows *= search.axes[q.out_axis].extent
        e.sums = imax(rows * least_rows * outs, rows * cdiv(open_rows, spare * out_turns))
    e.weights = at.groups * p.group_grain * ins * outs * p.out_grain * kernel
    if in_open and out_open:
        volume = <double>search.axes[q.in_axis].extent * search.axes[q.out_axis].extent * p.in_grain * p.out_grain
        volume *= at.groups * p.group_grain * kernel
        e.weights = imax(e.weights, <int64_t>(volume * (1 - 1e-9) / (<double>spare * in_turns * out_turns)))
    e.sums *= grain * p.out_grain
    each = <double>p.partial * p.group_size / p.group_grain
    e.bytes = p.input * <double>(e.inputs + e.weights) + each * e.sums
    if q.inputs_cover:
        products = sqrt(<double>at.groups * p.group_grain * kernel)
        e.bytes = fmax(e.bytes, 2 * p.input * ins * products * sqrt(<double>e.sums) + each * e.sums)
        if in_open and out_open:                    # least over the sums s of 2 input products volume / sqrt(s) + each s
            volume = <double>rows * open_rows * grain * p.out_grain * search.axes[q.in_axis].extent * p.in_grain
            volume /= <double>spare * in_turns * out_turns
            products *= p.input * volume
            e.bytes = fmax(e.bytes, 3 * cbrt(products * products * each))
    e.bytes *= 1 - 1e-9
    return e


cdef inline int64_t least_bytes(const Problem* q, const Part* at, const Elements* e, const Costs* c, int64_t tiles,
                                bint in_loop, bint out_loop) noexcept nogil:
    """The least temporary bytes with or without a loop, transforms costed on all tiles that there may be."""
    cdef const Pass* p = &q.passes[0]
    cdef int64_t bytes, held, conv = <int64_t>e.bytes, rearranged = 2 * imax(c.weights_temp, c.output_temp)
    bytes = imax(conv, imax(2 * c.inputs_temp, rearranged))
    if out_loop:                                    # the input may be broadcast before the loop
        bytes = imin(bytes, c.inputs_temp + imax(conv, p.input * e.inputs + rearranged))
    if p.slices_rearranged and (in_loop or out_loop):
        held = cdiv(p.weights_total, tiles) * p.input
        bytes = held + imax(bytes, held)
    if in_loop:                                     # each turn's result beside the sum so far
        bytes += cdiv(q.outputs, tiles) * p.tile_result
    return bytes


cdef inline int64_t least_of_loops(const Problem* q, Search search, int level, const Part* at, const Elements* alone,
                                   const Costs* c, int64_t tiles) noexcept nogil:
    """The least temporary bytes of the loops that are still possible: none, over outputs or over inputs."""
    cdef bint in_open = search.depth[q.in_axis] > level, out_open = search.depth[q.out_axis] > level
    cdef int64_t in_serial = at.splits.in_serial, out_serial = at.splits.out_serial, least = UNLIMITED, turns
    cdef Elements e
    if in_serial == 1 and out_serial == 1:
        least = least_bytes(q, at, alone, c, tiles, False, False)
    turns = search.axes[q.out_axis].serial_most if out_open else 1
    if in_serial == 1 and (out_serial > 1 or turns > 1):
        e = least_elements(q, search, level, at, 1, turns)
        least = imin(least, least_bytes(q, at, &e, c, tiles, False, True))
    turns = search.axes[q.in_axis].serial_most if in_open else 1
    if out_serial == 1 and (in_serial > 1 or turns > 1):
        e = least_elements(q, search, level, at, turns, 1)
        least = imin(least, least_bytes(q, at, &e, c, tiles, True, False))
    return least


cdef inline int64_t least_cycles(const Problem* q, const Part* at, const Elements* e, const Costs* c,
                                 int64_t tiles) noexcept nogil:
    """The least cycles beside the vertex', of all turns of the loops that are still possible together."""
    cdef const Pass* p = &q.passes[0]
    cdef const Machine* m = &p.machine
    cdef const Splits* s = &at.splits
    cdef int64_t serial = s.in_serial * s.out_serial, weights = cdiv(p.weights_total, tiles), once, inputs, before = 0
    once = exchange(m, e.sums, p.tile_result) if not p.corrected else 0
    once += exchange(m, e.weights - e.weights // e.holders, p.input)
    once += moved_each_turn(c)
    once += slice_cycles(m, weights, serial, p.input)
    inputs = exchange_inputs(p, at, e.inputs - e.inputs // s.out_parallel) + moved_once(c)
    if s.in_serial > 1:
        inputs *= serial
        once += slice_cycles(m, cdiv(p.inputs_total, tiles), s.in_serial, p.input)
        once += add_in_place_cycles(m, cdiv(q.outputs, tiles * s.out_serial), p.tile_result)
    if p.slices_rearranged and serial > 1:
        before = exchange(m, weights, p.input) + weights
    return inputs + once * serial + before


cdef inline int64_t least_on_tile(const Problem* q, Search search, int level, const Part* at, const Elements* e) noexcept nogil:
    """The least cycles that the vertex, and casts of its operands, take in all turns for the sums that a tile holds.

    More than a share of all work where sizes are rounded up: a tile has whole rows and whole groups of channels.
    """
    cdef const Pass* p = &q.passes[0]
    cdef int64_t made = p.group_grain * p.out_grain, kernel = 1, field = 1, cycles, weights
    cdef Part one = at[0]
    cdef bint fixed = True
    cdef int d
    one.batch = one.groups = one.outs = 1
    for d in range(p.ndim):
        one.field[d] = 1
        made *= p.dims[d].grain
        kernel *= at.kernel[d]
        if p.dims[d].expanded_on_tile:
            return 0
        if search.depth[2 + p.ndim + d] > level and search.axes[2 + p.ndim + d].extent > 1:
            fixed = False
    cycles = least_vertex_work(p, &one) * (1 if p.method == VMAC else e.sums // made)
    if p.casts_inputs:
        weights = kernel * at.ins * p.in_size
        if p.corrected:
            weights *= at.groups * p.group_size * at.outs * p.out_size
        cycles += cast_cycles(&p.machine, weights, QUARTER, HALF)
        if fixed:
            for d in range(p.ndim):
                field *= p.cast_ends[d][imin(at.field[d] * p.dims[d].grain, p.dims[d].out)]
            cycles += cast_cycles(&p.machine, field * at.ins * at.groups * p.in_size, QUARTER, HALF)
    return cycles * at.splits.in_serial * at.splits.out_serial


cdef void add_derived_passes(const Problem* q, Search search, int level, const Part* at, int64_t tiles,
                             int64_t* least) noexcept nogil:
    """Take in what a joint plan's other passes hold and move at least.

    Of the axes that change places, field and input channels, an open one is cut no more often than tiles are left: neither
    of them is cut in a loop.
    """
    cdef int64_t spare = q.tiles // at.tiles, serial = at.splits.in_serial * at.splits.out_serial, sums
    cdef int field = 2 + 2 * q.ndim - 1, i, d
    cdef const Pass* p
    cdef Part part[3]
    cdef Costs c
    part[0] = at[0]
    if search.depth[field] > level:
        part[0].field[q.ndim - 1] = imax(at.field[q.ndim - 1], cdiv(search.axes[field].extent, spare))
    if search.depth[q.in_axis] > level and search.axes[q.in_axis].serial_most == 1:
        part[0].ins = imax(at.ins, cdiv(search.axes[q.in_axis].extent, spare))
    derive_parts(q, part)
    for i in range(1, q.pass_count):
        p = &q.passes[i]
        if p.absent or exchange_phase(p, &part[i], &c) == NEVER:
            continue
        sums = part[i].batch * part[i].groups * p.group_size * part[i].outs * p.out_size
        for d in range(p.ndim):
            sums *= part[i].field[d] * p.dims[d].grain
        least_transforms(p, tiles, &part[i].splits, True, &c)
        least[TEMP] = imax(least[TEMP], imax(c.input_bytes + c.weight_bytes + p.partial * sums,
                                             imax(c.inputs_temp, 2 * imax(c.weights_temp, c.output_temp))))
        least[CYCLES] += (c.weight_exchange + moved_each_turn(&c)
                          + (0 if p.corrected else c.first_stage_exchange)) * serial
        least[CYCLES] += c.input_exchange + moved_once(&c)


cdef void least_measures(const Problem* q, Search search, int level, int64_t* least) noexcept nogil:
    """The least cycles and bytes of any choice of the open axes: sizes and most phases only grow with the others."""
    cdef const Pass* p = &q.passes[0]
    cdef int64_t tiles, serial
    cdef Part at
    cdef Costs c
    cdef Elements e
    read_point(q, &search.point, &at)
    tiles = at.tiles * imin(q.tiles // at.tiles, search.widest_below[level + 1])
    least_transforms(p, tiles, &at.splits, level < 1, &c)
    serial = at.splits.in_serial * at.splits.out_serial
    least[CYCLES] = moved_each_turn(&c) * serial + moved_once(&c) + cdiv(search.work, tiles)
    if least[CYCLES] > search.allowed[CYCLES]:      # what is moved and computed alone is too much
        return
    e = least_elements(q, search, level, &at, 1, 1)
    if p.out_size == p.out_grain:
        least[TEMP] = least_of_loops(q, search, level, &at, &e, &c, tiles)
        if least[TEMP] > search.allowed[TEMP]:
            return
    least[CYCLES] = least_cycles(q, &at, &e, &c, tiles)
    least[CYCLES] += imax(cdiv(search.work, tiles), least_on_tile(q, search, level, &at, &e)
                          + (search.work - p.work) // tiles)
    least[TILES] = at.tiles
    if q.pass_count > 1:
        add_derived_passes(q, search, level, &at, tiles, least)


cdef inline int64_t most_turns_of(const Problem* q, Search search, int level, int axis) noexcept nogil:
    """How many turns of a loop over channels the cycles allow: each moves what is rearranged anew, on all tiles at best."""
    cdef const Pass* p = &q.passes[0]
    cdef int64_t each, once, tiles
    cdef Splits alone
    cdef Costs c
    if search.point.at[q.in_axis if axis == q.out_axis else q.out_axis].serial > 1:
        return 1
    tiles = search.point.tiles * imin(q.tiles // search.point.tiles, search.widest_below[level])
    alone.in_serial = alone.out_serial = 1
    least_transforms(p, tiles, &alone, True, &c)
    each, once = moved_each_turn(&c), moved_once(&c)
    if axis == q.in_axis:
        each, once = each + once, 0
    once += cdiv(search.work, tiles)
    return UNLIMITED if each == 0 else imax(0, search.allowed[CYCLES] - once) // each
