# Cycles of the on-tile convolution vertices: what one tile needs for its part of the work.
# Source: the cycle estimators of PopLibs (poplin), restated from their formulas. A worker is issued every
# `workers`-th cycle, so the slowest worker's cycles are multiplied by `workers`.


# The work of the workers ---------------------------------------------------------------------------
#
# Positions of (batch, row, column) order are dealt to the workers in equal contiguous runs; a run is cut at
# the ends of rows. Every row inside a run is whole, so a worker has at most two odd items.

cdef inline int64_t row_cycles(const Pass* p, int64_t n, bint zeroing) noexcept nogil:
    return slic_item(p, n, zeroing) if p.method == SLIC else amp_nx1_item(p, n)


cdef inline int64_t worker_cycles(const Pass* p, int64_t worker, int64_t total, int64_t row, bint zeroing) noexcept nogil:
    """Cycles of a worker's share of all positions: whole rows, and what its first and last row have of it."""
    cdef int64_t begin = worker * total // p.machine.workers, end = (worker + 1) * total // p.machine.workers
    cdef int64_t first_row, last_row, cycles
    if begin == end:
        return 0
    first_row, last_row = begin // row, (end - 1) // row
    if first_row == last_row:
        return row_cycles(p, end - begin, zeroing)
    cycles = row_cycles(p, (first_row + 1) * row - begin, zeroing) + row_cycles(p, end - last_row * row, zeroing)
    if last_row - first_row > 1:
        cycles += (last_row - first_row - 1) * row_cycles(p, row, zeroing)
    return cycles


cdef inline int64_t zero_cycles(const Pass* p, int64_t elements, int64_t groups) noexcept nogil:
    """Cycles to zero `groups` blocks of partials; PopLibs always counts floats here."""
    cdef const Machine* m = &p.machine
    cdef bint half = p.corrected and p.partial != FLOAT
    cdef int64_t vectors = cdiv(cdiv(elements, m.workers), m.data_path_bits // (16 if half else 32))
    return (vectors + 5) * m.workers * groups


cdef inline int64_t weight_load_cycles(const Pass* p, int64_t filter_height) noexcept nogil:
    cdef int64_t rate = p.machine.coeff_load_bytes
    cdef int64_t per_unit = p.unit_weights * p.acts
    if filter_height == 4 and rate > 8:
        rate //= 2
    return p.conv_units * per_unit // rate


# AMP, 1x1 ------------------------------------------------------------------------------------------

cdef inline int64_t amp_1x1_worker(const Pass* p, int64_t n, bint zeroing) noexcept nogil:
    """Cycles of a worker with one item of n positions."""
    cdef bint float_in = p.acts == FLOAT
    cdef bint shared_code = (not float_in and p.conv_units == 16) or p.partial == FLOAT
    cdef int64_t zero = 8 if float_in and p.conv_units == 16 else (4 if p.partial == FLOAT else 2)
    cdef int64_t saved = 7 if not float_in and (p.partial == FLOAT or p.conv_units == 16) else 0
    cdef int64_t cycles
    if float_in:
        cycles = 24 if n == 0 else (47 if n == 1 else 46)
        if n:
            cycles += (2 + n * zero) * zeroing + imax(n - 3, 0) * 8
    elif shared_code:
        cycles = 20 if n == 0 else (31 if n == 1 else 40)
        cycles += 1 if zeroing else 2
        if n >= 3:
            cycles = (37 if zeroing else 38) + (n - 3) * 4
    else:
        cycles = 24 if n == 0 else (39 if n == 1 else (40 if n == 2 else 41))
        if n:
            cycles += (2 + n * zero) * zeroing + imax(n - 3, 0) * 4
    return cycles - saved


cdef inline int64_t amp_1x1_worker_quarter(int64_t n, bint zeroing) noexcept nogil:
    cdef int64_t saved = 5 if zeroing else 0
    if n == 0:
        return 17
    if n == 1:
        return 17 + 18 - saved
    if n == 2:
        return 17 + 23 - saved
    return 17 + 27 - saved + (n - 3) * 4


cdef inline int64_t amp_1x1_inner(const Pass* p, int64_t positions, bint zeroing) noexcept nogil:
    """Cycles of one pass over the field: the slowest worker, or the fastest and its tag."""
    cdef int64_t workers = p.machine.workers
    cdef int64_t slowest = 0, fastest = UNLIMITED, w, n, cycles
    for w in range(workers):
        n = (w + 1) * positions // workers - w * positions // workers
        if p.acts == QUARTER:
            cycles = amp_1x1_worker_quarter(n, zeroing)
        else:
            cycles = amp_1x1_worker(p, n, zeroing) if n else 0
        slowest = imax(slowest, workers * cycles)
        fastest = imin(fastest, workers * cycles)
    return imax(slowest, fastest + 14)


cdef inline int64_t amp_1x1_cycles(const Pass* p, int64_t positions, int64_t cg, int64_t ig,
                                   int64_t og) noexcept nogil:
    cdef int64_t workers = p.machine.workers
    cdef int64_t load = weight_load_cycles(p, 1)
    cdef int64_t with_zeroing = amp_1x1_inner(p, positions, True)
    cdef int64_t without = amp_1x1_inner(p, positions, False)
    cdef int64_t passes = cdiv(p.out_size, p.conv_units)
    cdef bint float_in = p.acts == FLOAT
    cdef bint saves = not float_in and (p.partial == FLOAT or p.conv_units == 16)
    cdef bint shared_code = (not float_in and p.conv_units == 16) or p.partial == FLOAT
    cdef int64_t first, later
    if p.acts == QUARTER:
        first = 14 * workers + 11 + 6 * workers + load + with_zeroing
        later = 11 * workers + 6 + 6 * workers + load + without
        return 46 + cg * (2 * workers + 9 + og * (6 * workers + 10 + first + (ig - 1) * later))
    later = 15 - shared_code + 1 + og * (19 + passes * (6 + load + without))
    first = 11 + og * (19 - shared_code + passes * (7 + load + with_zeroing))
    return (50 + workers * ((7 + 3 * (ig * cg - 1)) if saves else 0)
            + cg * (12 + shared_code + (ig - 1) * later + first))


# AMP, nx1 ------------------------------------------------------------------------------------------

cdef inline int64_t amp_nx1_item(const Pass* p, int64_t n) noexcept nogil:
    """Cycles of one work item of n positions."""
    cdef bint float_in = p.acts == FLOAT
    cdef bint strides = not float_in and ((p.partial == HALF and p.conv_units == 16)
                                          or (p.partial == FLOAT and p.conv_units == 8))
    if p.acts == QUARTER:
        if n < 3:
            return 16 + (18 if n == 1 else 23)
        return 16 + 27 + (n - 3) * 4
    if n == 1:
        return (33 if float_in else 29) - 6
    if n == 2:
        return (44 if float_in else 33 + strides) - 6
    return (45 + (n - 3) * 8 if float_in else 34 + (n - 3) * 4) - 6


cdef inline int64_t amp_nx1_cycles(const Pass* p, const Part* at, int64_t height, int64_t cg, int64_t ig,
                                   int64_t og) noexcept nogil:
    cdef int64_t workers = p.machine.workers
    cdef int64_t rows = at.batch, row = 1, elements = at.batch, kernel = 1, stride, size, w, cycles
    cdef int64_t slowest = 0, fastest = UNLIMITED, base, load, passes, outer, inner, body
    cdef int d
    for d in range(p.ndim):
        size = at.field[d] * p.dims[d].grain
        elements *= size
        stride = p.dims[d].compute_dilation // gcd(p.dims[d].compute_dilation, p.dims[d].compute_stride)
        if d == p.ndim - 1:
            row = cdiv(size, stride)
        else:
            rows *= cdiv(size, stride)
        if d:
            kernel *= at.kernel[d]
    base = 18 if p.acts == QUARTER else 17 + (p.partial != FLOAT)
    for w in range(workers):
        cycles = base + worker_cycles(p, w, rows * row, row, False)
        slowest = imax(slowest, workers * cycles)
        fastest = imin(fastest, workers * cycles)
    load = weight_load_cycles(p, height)
    passes = p.out_size // p.conv_units
    outer = cdiv(at.kernel[0], height)      # kernel rows, `height` at a time; `kernel` positions along each
    inner = imax(slowest, fastest + 9) * passes * outer * kernel
    if p.acts == QUARTER:
        inner += outer * (5 * workers + 3 + 15 * workers + 13 + load + (kernel - 1) * (13 * workers + 8) + load)
        body = 83 + cg * (5 * workers + 7 + og * (8 * workers + 10 + ig * (8 * workers + 13 + inner)))
    else:
        load += 60 if height == 4 else (46 if height == 2 else (15 if height == 1 else 20 * height))
        inner += outer * (14 + kernel * (12 + passes * (load + 3)))
        body = 109 + workers * 9 + workers * (9 if p.partial == FLOAT else 10)
        body += cg * (17 * og + 6 * (og - 1) + 1) + 6 * (cg - 1) + 1
        body += cg * (16 + ig * (14 + og * (14 + inner)))
    return body + zero_cycles(p, elements * p.out_size, og * cg)


# SLIC ----------------------------------------------------------------------------------------------

cdef inline int64_t slic_row(const Pass* p, int64_t n, bint zeroing) noexcept nogil:
    """Cycles of one pass over a row of n outputs, half inputs."""
    cdef bint halves = p.chains == 2 and p.partial != FLOAT
    cdef int64_t stride = p.dims[p.ndim - 1].stride
    cdef int64_t cycles
    if stride != 1:
        cycles = (13 if n == 1 else 15) if n < 3 else 15 + 2 * (n - 3)
    elif n >= (6 if halves else 5):
        cycles = 15 + (n - 5) + (3 if halves and not zeroing else 0)
    elif zeroing:
        cycles = 13 + (n if n > 1 else 0)
    else:
        cycles = 13 if n == 1 else 7 + 1 + (n - 1) + 2 + (4 - n) + 2 + (n - 1) + 3
    return cycles - (p.partial == FLOAT)


cdef inline int64_t slic_row_quarter(const Pass* p, int64_t n, bint zeroing) noexcept nogil:
    if p.dims[p.ndim - 1].stride != 1:
        return 6 + (3 if n == 1 else 6) if n < 3 else 13 + 2 * (n - 3)
    if zeroing:
        if n >= 5:
            return 14 + (n - 5)
        return 8 + (3 if n == 1 else (5 if n == 2 else (9 if n == 3 else 10)))
    if n >= 5:
        return 18 + 12 + (n - 5)
    return 18 + 2 + (8 if n == 1 else (10 if n == 2 else 13))


cdef inline int64_t slic_item(const Pass* p, int64_t n, bint zeroing) noexcept nogil:
    cdef bint halves = p.chains == 2 and p.partial != FLOAT
    if p.acts == QUARTER:
        return 24 + 2 * slic_row_quarter(p, n, zeroing)
    return ((9 if halves else 10) + zeroing + (3 if p.partial == FLOAT else 0)
            + slic_row(p, n, zeroing) * (1 if p.chains == 4 else 2))


cdef inline int64_t slic_inner(const Pass* p, int64_t rows, int64_t row, bint zeroing) noexcept nogil:
    """Cycles of all workers for one sub-kernel."""
    cdef int64_t workers = p.machine.workers
    cdef bint halves = p.chains == 2 and p.partial != FLOAT
    cdef int64_t slowest = 0, base, cycles, w
    if p.acts == QUARTER:
        base = 20
    else:
        base = 17 + (4 if p.group_size > 4 else 0)
    for w in range(workers):
        cycles = base + worker_cycles(p, w, rows * row, row, zeroing)
        if p.acts != QUARTER and halves:
            cycles += 2
        slowest = imax(slowest, cycles)
    cycles = slowest * workers
    if p.acts != QUARTER and halves and zeroing:
        cycles += 2 + 2 * rows * row        # the two halves of the output are merged once
    return cycles


cdef inline int64_t stalls(int64_t n) noexcept nogil:
    """Cycles that n branches of a counted loop stall."""
    return 6 * (n - 1) + 1


cdef inline int64_t slic_cycles(const Pass* p, const Part* at, int64_t cg) noexcept nogil:
    cdef int64_t workers = p.machine.workers
    cdef bint halves = p.chains == 2 and p.partial != FLOAT
    cdef int64_t rows = at.batch, row = 1, kernels = 1, zeroing, later, load, body, group, strides
    cdef int d
    for d in range(p.ndim):
        if d == p.ndim - 1:
            row = at.field[d] * p.dims[d].grain
            kernels *= cdiv(at.kernel[d], p.window)
        else:
            rows *= at.field[d] * p.dims[d].grain
            kernels *= at.kernel[d]
    zeroing = slic_inner(p, rows, row, True)
    later = slic_inner(p, rows, row, False)
    if p.acts == QUARTER:
        body = 6 * workers + 38 + 5 * workers + 8 + later
        return 43 + cg * (13 * workers + 15 + 6 * workers + 38 + 6 * workers + 12 + zeroing
                          + (kernels - 1) * body)
    if p.in_size == 4:
        load = 34
    else:
        load = 37 + ((12 if p.group_size == 2 else 10) + (p.group_size > 4)) * workers
    group = 12 if halves else 15
    if p.group_size <= 4:
        body = load + (0 if halves else 3) + 2 + (0 if halves else 1) + 14
    else:
        strides = p.group_size // 4
        body = (load + 21) * strides + stalls(strides) + 15
        group += 8
        later *= strides
        if p.corrected:
            zeroing *= strides              # PopLibs leaves the zeroing pass unscaled
    return ((25 if halves else 28) + group * cg + stalls(cg) + body * kernels + stalls(kernels)
            + cg * zeroing + cg * (kernels - 1) * later)


# HMAC ----------------------------------------------------------------------------------------------

cdef inline int64_t dot_cycles(const Pass* p, int64_t size, int64_t width) noexcept nogil:
    """Cycles of one dot product over `size` input channels."""
    cdef bint float_in = p.acts == FLOAT
    cdef bint halves = not float_in and p.partial != FLOAT
    cdef int64_t outs = 2 if halves else 1
    cdef int64_t per_load = 2 if float_in else 4
    cdef int64_t w = 1
    while w < width:
        w *= 2
    while size % w:
        w //= 2
    return (3 * outs + halves + 4 + (outs if w < per_load else 0)
            + size // w * (1 if w >= per_load else 2) - (not float_in))


cdef inline int64_t hmac_retained(bint float_type, bint one) noexcept nogil:
    """Worker cycles saved because state is kept between calls."""
    return 15 if one else (0 if float_type else 6)


cdef inline int64_t hmac_cycles(const Pass* p, const Part* at, bint one, int64_t cg, int64_t ig,
                                int64_t og) noexcept nogil:
    cdef const Machine* m = &p.machine
    cdef bint float_in = p.acts == FLOAT
    cdef bint float_part = p.partial == FLOAT
    cdef int64_t rows = at.batch, kernel = 1, width = 1, row, split, most, whole, part, outs, dot, worker
    cdef int64_t acts_width = vector_width(m, p.acts), cycles = 0
    cdef int d
    if p.corrected and p.acts == QUARTER:
        acts_width = vector_width(m, HALF)      # the inputs were cast to half
    for d in range(p.ndim):
        width = at.field[d] * p.dims[d].grain
        if d < p.ndim - 1:
            rows *= cdiv(width, p.dims[d].compute_dilation)
        kernel *= at.kernel[d]
    one = one and float_part and not float_in
    row = cdiv(width, p.dims[p.ndim - 1].compute_dilation)
    split = m.workers // gcd(m.workers, rows)
    most = cdiv(rows * split, m.workers)
    whole = most // split
    part = most % split
    outs = p.out_size if float_part else cdiv(p.out_size, 2)
    dot = dot_cycles(p, p.in_size, acts_width)
    worker = 16 - hmac_retained(float_in, one)
    if row:
        worker += whole * hmac_item(row, outs, dot, one)
        if part:
            worker += hmac_item(part * (row + split - 1) // split, outs, dot, one)
    cycles = m.workers * (worker * kernel + 16)
    cycles = ((58 if float_in else 65) - 10 * one + m.workers * (9 if float_part else 10)
              # PopLibs asks by the partials' type here where the inputs' is meant
              + m.workers * hmac_retained(float_in if p.corrected else float_part, one)
              + cg * (23 + ig * (15 + og * (10 + cycles))))
    if one and ig == 1 and p.out_size == 1:
        return cycles
    return cycles + zero_cycles(p, rows * width * p.out_size, og * cg)


cdef inline int64_t hmac_item(int64_t n, int64_t outs, int64_t dot, bint one) noexcept nogil:
    if n == 0:
        return 7
    if one and outs == 1:
        return 14 + n * (2 + dot)
    return (13 if one else 19) + n * (7 + outs * dot)


# VMAC ----------------------------------------------------------------------------------------------

cdef inline int64_t vmac_dot(int64_t n, int64_t chans) noexcept nogil:
    return 3 + (3 * (n - 1) * (chans // 8) if chans >= 8 else 2 * (n - 1) * (chans // 4))


cdef inline int64_t vmac_item(const Pass* p, int64_t n) noexcept nogil:
    if p.group_size >= 8 and p.partial != FLOAT:
        return 22 + vmac_dot(n, 8)
    return 7 + (5 if p.partial == FLOAT else 3) + vmac_dot(n, p.group_size)


cdef inline int64_t vmac_cycles(const Pass* p, const Part* at, int64_t cg, int64_t ig) noexcept nogil:
    cdef int64_t workers = p.machine.workers
    cdef bint float_part = p.partial == FLOAT
    cdef int64_t outputs = 1, lines = 1, width = at.kernel[p.ndim - 1], rows, split, most, whole, part
    cdef int64_t items, inner, zero, reduce
    cdef int d
    for d in range(p.ndim):
        outputs *= at.field[d] * p.dims[d].grain
        if d < p.ndim - 1:
            lines *= at.kernel[d]
    rows = outputs * at.batch
    split = workers // gcd(workers, rows)
    most = cdiv(rows * split, workers)
    whole = most // split
    part = most % split
    items = lines * whole * vmac_item(p, width)
    if part:
        items += lines * part * vmac_item(p, cdiv(width, split))
    if p.group_size >= 8 and not float_part:
        inner = (13 if p.group_size == 8 else 25) + items * (1 if p.group_size == 8 else 2)
    else:
        inner = (19 if float_part else 18) + items
    inner *= workers
    if p.corrected:
        outputs *= at.batch * p.group_size      # PopLibs leaves batch and groups out
    zero = 4 + cdiv(outputs, 2 if float_part else 4)
    reduce = (7 + 2 * float_part + (2 if float_part else 1) * (workers - 1)) * cdiv(outputs, workers)
    reduce = 10 - float_part + reduce // p.group_size
    return 100 + float_part + (zero + 32 + ig * (24 + inner) + reduce) * cg


# Outer product -------------------------------------------------------------------------------------

cdef inline int64_t outer_product_cycles(const Pass* p, const Part* at, int64_t cg) noexcept nogil:
    cdef const Machine* m = &p.machine
    cdef int64_t width = cdiv(at.field[p.ndim - 1] * p.dims[p.ndim - 1].grain, m.workers)
    cdef int64_t c = p.out_size
    cdef int64_t groups = at.outs * c * cg // c
    cdef bint fast
    if p.acts == FLOAT or p.output == FLOAT:
        fast = c >= 6 and c % 2 == 0 and c // 2 - 3 <= m.repeat_count_max and c // 2 + 1 < 512
        return m.workers * (25 + groups * (11 + width * (6 + (c - 6) // 2 if fast else 10 + 2 * c)))
    fast = c >= 12 and c % 4 == 0 and c // 4 - 3 <= m.repeat_count_max and c // 4 + 1 < 512
    return m.workers * (25 + groups * (10 + width * (6 + (c - 12) // 4 if fast else 10 + 5 * c // 2)))


# Which of them -------------------------------------------------------------------------------------

cdef inline int64_t partial_calc_cycles(const Pass* p, const Part* at) noexcept nogil:
    """Cycles a tile computes; -1 where its vertex cannot do the part."""
    cdef int64_t cg = at.groups, ig = at.ins, og = at.outs
    cdef int64_t kernel = 1, height
    cdef bint one = p.plain_1x1
    cdef int d
    for d in range(p.ndim):
        kernel *= at.kernel[d]
        if d < p.ndim - 1 and at.field[d] * p.dims[d].grain != 1:
            one = False
    one = one and kernel == 1
    if p.method == AMP:
        height = p.loaded_weights // p.in_size
        if one and height == 1:
            return amp_1x1_cycles(p, at.field[p.ndim - 1] * p.dims[p.ndim - 1].grain, cg, ig, og)
        return amp_nx1_cycles(p, at, height, cg, ig, og)
    if p.method == SLIC:
        return slic_cycles(p, at, cg) if ig == 1 and og == 1 else -1
    if p.method == HMAC:
        return hmac_cycles(p, at, one, cg, ig, og)
    if p.method == VMAC:
        return vmac_cycles(p, at, cg, ig) if og * p.out_size == 1 else -1
    return outer_product_cycles(p, at, cg) if p.group_size == 1 else -1


cdef inline int64_t least_vertex_work(const Pass* p, const Part* whole) noexcept nogil:
    """Lower bound of tiles x serial splits x compute cycles, from what every position and group must cost.

    `whole` holds the sizes of the undivided problem. Holds because a tile's slowest worker does at least its share,
    and because sizes rounded up on the tiles add up to no less than the whole. 0 where nothing is known.
    """
    cdef int64_t positions = whole.batch * whole.groups, kernel = 1, lines = 1, each, height, halves
    cdef int d
    for d in range(p.ndim):
        if p.dims[d].compute_dilation != 1:
            return 0
        positions *= whole.field[d] * p.dims[d].grain
        if p.dims[d].expanded_on_tile:
            return 0
        kernel *= whole.kernel[d]
        if d < p.ndim - 1:
            lines *= whole.kernel[d]
    if p.method == AMP:
        height = p.loaded_weights // p.in_size
        each = (8 if p.acts == FLOAT else 4) * (p.out_size // p.conv_units)
        return positions * whole.ins * whole.outs * each * (kernel // whole.kernel[0] * cdiv(whole.kernel[0], height))
    if p.method == HMAC:
        halves = p.out_size if p.partial == FLOAT else cdiv(p.out_size, 2)
        each = dot_cycles(p, p.in_size, imax(vector_width(&p.machine, p.acts), vector_width(&p.machine, HALF)))
        each = 2 + each if p.partial == FLOAT and p.acts != FLOAT and halves == 1 else 7 + halves * each
        return positions * whole.ins * whole.outs * kernel * each
    if p.method == VMAC:
        each = vmac_item(p, whole.kernel[p.ndim - 1])
        if p.group_size > 8 and p.partial != FLOAT:
            each *= 2
        return positions * whole.ins * lines * each
    return 0
