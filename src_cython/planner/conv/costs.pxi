# What one pass costs at one point: every phase in cycles, every temporary in bytes.
#
# `phases` fills what does not depend on broadcasting the input before the serial loop; `totals` adds up for
# one choice of it. Phases are bulk-synchronous: cycles add, and no synchronisation is counted.


cdef inline int64_t input_extent(const Dim* d, int64_t out, int64_t kernel) noexcept nogil:
    """Most inputs along one dimension that `out` outputs and `kernel` kernel elements read."""
    if out == d.out and kernel == d.kernel:
        return d.whole_input
    return imin(((out - 1) * d.stride + (kernel - 1) * d.kernel_dilation) // d.dilation + 1, d.whole_input)


cdef inline int64_t exchange(const Machine* m, int64_t elements, int size) noexcept nogil:
    return cycles_to_receive(elements * size, m.exchange_rate)


cdef inline int64_t exchange_inputs(const Pass* p, const Part* at, int64_t elements) noexcept nogil:
    """Consecutive tiles share inputs where output channels are split evenly over the bus."""
    cdef const Machine* m = &p.machine
    cdef bint shared = (m.bus_sharing and p.standard_order
                        and at.splits.out_parallel % m.tiles_per_bus == 0)
    return cycles_to_receive(elements * p.input, m.exchange_rate, shared)


# Exchange and convolution memory -------------------------------------------------------------------

cdef inline int exchange_phase(const Pass* p, const Part* at, Costs* c) noexcept nogil:
    cdef const Machine* m = &p.machine
    cdef const Splits* s = &at.splits
    cdef int64_t field_out = 1, field_in = 1, kernel = 1, holders = s.batch, depth = s.in_parallel
    cdef int64_t groups = at.groups * p.group_grain
    cdef int64_t ins = at.ins * p.in_grain, outs = at.outs * p.out_grain
    cdef int64_t out, inputs, weights, outputs
    cdef int d
    for d in range(p.ndim):
        out = at.field[d] * p.dims[d].grain
        field_out *= out
        field_in *= out if p.dims[d].moved else input_extent(&p.dims[d], out, at.kernel[d])
        kernel *= at.kernel[d]
        holders *= s.field[d]
        depth *= s.kernel[d]
    inputs = field_in * at.batch * ins * groups
    weights = kernel * ins * outs * groups
    outputs = field_out * at.batch * outs * groups
    if outputs > U32:
        return NEVER
    c.input_bytes = p.input * inputs
    c.weight_bytes = p.input * weights
    # one of the tiles that share an operand holds it already
    c.input_exchange = exchange_inputs(p, at, inputs - inputs // s.out_parallel)
    c.weight_exchange = exchange(m, weights - weights // holders, p.input)
    c.first_stage_exchange = exchange(m, outputs, p.tile_result)
    if p.corrected and depth == 1:
        c.first_stage_exchange = 0
    c.later_stages_exchange = later_stages_exchange(p, outputs, depth)
    return 0


# Transforms of the whole problem -------------------------------------------------------------------

cdef inline int64_t _rearranged(int64_t bytes, const int64_t* factor, int64_t rate) noexcept nogil:
    return cdiv(bytes * factor[0], rate * factor[1])


cdef inline int64_t _regression(int64_t atom, int64_t bytes) noexcept nogil:
    """Cycles to move bytes in atoms; PopLibs' fit of ten thousand random layouts."""
    return 587 + (451 if atom % 8 == 0 else (3200 if atom % 4 == 0 else 5271)) * bytes // 1024


cdef inline void transform_phase(const Pass* p, const Part* at, Costs* c) noexcept nogil:
    cdef const Machine* m = &p.machine
    cdef const Splits* s = &at.splits
    cdef int64_t rate = imin(m.memcpy_bytes, p.output), out_rate = imin(m.memcpy_bytes, p.result), bytes
    # PopLibs sizes inputs and weights by the output's type
    cdef int64_t size = p.input if p.corrected else p.output
    cdef int64_t ins, outs
    c.inputs_copy = c.inputs_exchange = c.inputs_temp = 0
    c.weights_copy = c.weights_exchange = c.weights_temp = 0
    c.output_copy = c.output_exchange = c.output_temp = 0
    if p.corrected:
        rate = imin(m.memcpy_bytes, p.input)
    if not (p.rearrange_input or p.rearrange_weights or p.rearrange_output or p.regroup_weights
            or p.regroup_output):
        return
    if p.rearrange_input:
        bytes = cdiv(p.transform_inputs * size, at.tiles)
        c.inputs_copy = _rearranged(bytes, p.in_factor, rate)
        c.inputs_exchange = cdiv(bytes, m.exchange_bytes)
        c.inputs_temp = bytes
    if p.rearrange_weights:
        bytes = cdiv(p.transform_weights * size, at.tiles)
        c.weights_copy = _rearranged(bytes, p.in_factor, rate)
        c.weights_exchange = cdiv(bytes, m.exchange_bytes)
        c.weights_temp = bytes
    elif p.regroup_weights:
        bytes = cdiv(p.transform_weights, at.tiles) * size
        c.weights_copy = _rearranged(bytes, p.regroup_factor, imin(m.memcpy_bytes, p.out_size * size))
        c.weights_temp = bytes
    if p.rearrange_output or p.regroup_output:
        bytes = cdiv(p.transform_outputs, at.tiles) * p.result
        c.output_temp = bytes
        if p.rearrange_output:
            c.output_copy = _rearranged(bytes, p.out_factor, out_rate)
            c.output_exchange = cdiv(bytes, m.exchange_bytes)
        else:
            out_rate = imin(m.memcpy_bytes, p.out_size * p.result)
            c.output_copy = _rearranged(bytes, p.out_factor, out_rate)
    if p.regressed:
        ins = imin(p.in_grain, cdiv(p.view_in_chans, s.in_serial)) * p.view_group_atom * size
        outs = imin(p.out_grain, cdiv(p.view_out_chans, s.out_serial))
        c.inputs_copy = _regression(ins, c.inputs_temp)
        c.weights_copy = _regression(ins * outs, c.weights_temp)


# Padding on the tile -------------------------------------------------------------------------------

cdef inline int64_t moved_once(const Costs* c) noexcept nogil:
    return c.inputs_copy + c.inputs_exchange


cdef inline int64_t moved_each_turn(const Costs* c) noexcept nogil:
    return c.weights_copy + c.weights_exchange + c.output_copy + c.output_exchange


cdef inline void tile_transform_phase(const Pass* p, const Part* at, Costs* c) noexcept nogil:
    """Zeros that AMP or SLIC exchange in to fill kernel dimensions, dilation and padding."""
    cdef int64_t x = p.tile_pad_multiple, k, s, pad = 0, size, kernel = 1, padded_kernel = 1
    cdef int64_t field = 1, padded_field = 1, extra, groups, ins, zeros_kernel, zeros_input, input_pad = 0
    cdef int padded = 0 if p.method == AMP else p.ndim - 1
    cdef int d
    c.tile_transform = c.tile_transform_temp = 0
    if p.method != SLIC and (p.method != AMP or x == 1):
        return
    if x != 1:
        k, s = p.kernel0[padded], at.splits.kernel[padded]
        pad = (x - imax(k // s % x, cdiv(k, s) % x)) % x
        input_pad = pad * p.dims[padded].kernel_dilation
    for d in range(p.ndim):
        size = at.field[d] * p.dims[d].grain
        extra = input_pad if d == padded else 0
        if p.method == SLIC:
            extra += (size + extra - 1) * (p.dims[d].dilation - 1) + p.dims[d].padding
        field *= size
        padded_field *= size + extra
        kernel *= at.kernel[d]
        padded_kernel *= at.kernel[d] + (pad if d == padded else 0)
    groups, ins = at.groups * p.group_grain, at.ins * p.in_grain
    zeros_kernel = groups * (padded_kernel - kernel) * ins * at.outs * p.out_grain
    zeros_input = groups * at.batch * (padded_field - field) * ins
    c.tile_transform = exchange(&p.machine, zeros_kernel, p.input) + exchange_inputs(p, at, zeros_input)
    c.tile_transform_temp = (zeros_kernel + zeros_input) * p.input


cdef inline int64_t inputs_cast_cycles(const Pass* p, const Part* at) noexcept nogil:
    """Cycles to cast FP8 operands for a half vertex."""
    cdef const Machine* m = &p.machine
    cdef int64_t field = 1, kernel = 1, acts, weights
    cdef int d
    if not p.casts_inputs:
        return 0
    for d in range(p.ndim):
        # the end of the range, not its length: PopLibs counts from the first input of all
        field *= p.cast_ends[d][imin(at.field[d] * p.dims[d].grain, p.dims[d].out)]
        kernel *= at.kernel[d]
    acts = field * at.ins * at.groups * p.in_size
    weights = kernel * at.ins * p.in_size
    if p.corrected:
        acts *= at.batch * p.group_size
        weights *= at.groups * p.group_size * at.outs * p.out_size
    return cast_cycles(m, acts, QUARTER, HALF) + cast_cycles(m, weights, QUARTER, HALF)


# All phases, and their sums ------------------------------------------------------------------------

cdef inline void _expanded_on_tile(const Pass* p, const Part* at, Part* inside) noexcept nogil:
    """The tile's part after kernel dimensions became input channels on the tile."""
    cdef int d
    inside[0] = at[0]
    for d in range(p.ndim):
        if p.dims[d].expanded_on_tile:
            inside.ins *= inside.kernel[d]
            inside.kernel[d] = 1


cdef inline int phases(const Pass* p, const Part* at, int64_t limit, int64_t temp_limit,
                       Costs* c) noexcept nogil:
    """Fill every phase; NEVER if the point is infeasible or must exceed a limit."""
    cdef const Machine* m = &p.machine
    cdef const Splits* s = &at.splits
    cdef int64_t serial = s.in_serial * s.out_serial, depth = s.in_parallel, partials, outputs
    cdef int64_t weights_held = cdiv(p.weights_total, at.tiles), inputs_held, so_far, least
    cdef Part inside
    cdef int d
    _expanded_on_tile(p, at, &inside)
    if exchange_phase(p, at, c) == NEVER:
        return NEVER
    partials = at.batch * at.groups * p.group_size * at.outs * p.out_size
    for d in range(p.ndim):
        partials *= at.field[d] * p.dims[d].grain
        depth *= s.kernel[d]
    c.partial_bytes = p.partial * partials
    if p.method == SLIC:
        c.partial_bytes += cdiv(c.partial_bytes, at.groups) + 200
    if c.input_bytes + c.weight_bytes + c.partial_bytes > temp_limit:
        return NEVER
    transform_phase(p, at, c)
    # what must be spent in every turn of the loop whatever the vertex does
    so_far = c.weight_exchange + c.first_stage_exchange + c.later_stages_exchange + moved_each_turn(c)
    least = cdiv(p.work, at.tiles * serial)
    if (so_far + least) * serial + c.input_exchange + moved_once(c) > limit:
        return NEVER
    c.partial_calc = partial_calc_cycles(p, &inside)
    # PopLibs states this as a constraint to prune with; where an estimate is below the peak rate it cuts
    least = cdiv(p.macs_over_rate, at.tiles * serial)
    if c.partial_calc < least or (so_far + c.partial_calc) * serial > limit:
        return NEVER
    tile_transform_phase(p, &inside, c)
    c.inputs_cast = inputs_cast_cycles(p, &inside)
    outputs = cdiv(partials, depth)
    c.reduce = reduce_cycles(p, outputs, depth, s.in_serial)
    c.reduce_temp = reduce_temp_bytes(p, outputs, depth)
    inputs_held = cdiv(p.inputs_total, at.tiles)
    c.dynamic_slice = (slice_cycles(m, inputs_held, s.in_serial, p.input)
                       + slice_cycles(m, weights_held, serial, p.input))
    c.dynamic_update = slice_cycles(m, outputs, s.out_serial, p.tile_result)
    c.add_in_place = c.add_in_place_temp = c.output_cast = 0
    if s.in_serial > 1:
        c.add_in_place = add_in_place_cycles(m, outputs, p.tile_result)
        c.add_in_place_temp = outputs * p.tile_result
        c.output_cast = cast_cycles(m, outputs, p.tile_result, p.result)
    c.rearrange_before_slice = c.rearrange_before_slice_temp = 0
    if p.slices_rearranged and serial > 1:
        c.rearrange_before_slice = exchange(m, weights_held, p.input) + weights_held
        c.rearrange_before_slice_temp = weights_held * p.input
    c.rearrange_before_slice_during = c.rearrange_before_slice_temp
    c.tiles = at.tiles
    return 0


cdef inline void totals(const Pass* p, const Part* at, bint broadcast, Costs* c) noexcept nogil:
    """Sum the phases, the input moved before the loop or left inside it."""
    cdef int64_t serial = at.splits.in_serial * at.splits.out_serial, once, most
    c.broadcast_copy = c.broadcast_exchange = c.broadcast_temp = 0
    if broadcast:
        c.broadcast_copy = c.inputs_copy
        c.broadcast_exchange = c.inputs_exchange + c.input_exchange
        c.broadcast_temp = c.inputs_temp + c.input_bytes
        c.inputs_copy = c.inputs_exchange = c.inputs_temp = c.input_exchange = c.input_bytes = 0
    c.transform_copy = c.inputs_copy + c.weights_copy + c.output_copy
    c.transform_exchange = c.inputs_exchange + c.weights_exchange + c.output_exchange
    c.transform_temp = 2 * imax(c.inputs_temp, imax(c.weights_temp, c.output_temp))
    c.exchange = (c.input_exchange + c.weight_exchange + c.first_stage_exchange
                  + c.later_stages_exchange)
    c.conv_temp = c.input_bytes + c.weight_bytes + c.partial_bytes
    once = (c.dynamic_slice + c.transform_copy + c.transform_exchange + c.exchange + c.tile_transform
            + c.inputs_cast + c.partial_calc + c.reduce + c.dynamic_update + c.add_in_place)
    c.cycles = (once * serial + c.broadcast_copy + c.broadcast_exchange + c.rearrange_before_slice
                + c.output_cast)
    most = imax(c.transform_temp, c.tile_transform_temp + c.conv_temp)
    most = imax(most, imax(c.reduce_temp, c.rearrange_before_slice_during))
    c.temp_bytes = c.broadcast_temp + c.rearrange_before_slice_temp + most + c.add_in_place_temp
