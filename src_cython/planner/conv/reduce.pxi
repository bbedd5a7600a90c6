# Cycles of the popops codelets that a convolution plan uses: casts, slices, additions, reductions.
# Sources: the cycle estimators of PopLibs (popops, ConvReduce), restated from their formulas.

from libc.math cimport cbrt, fmax, pow, sqrt


cdef inline int64_t cast_cycles(const Machine* m, int64_t n, int source, int result) noexcept nogil:
    """Tile cycles to cast n elements; 26 worker cycles to enter and leave the loop."""
    cdef int64_t each = cdiv(n, m.workers)
    cdef int64_t vectors = imax(cdiv(each, vector_width(m, source)), cdiv(each, vector_width(m, result)))
    return (vectors + 26) * m.workers


cdef inline int64_t slice_cycles(const Machine* m, int64_t n, int64_t serial, int size) noexcept nogil:
    """Tile cycles to slice n elements out of, or into, one of `serial` places; nothing for one place."""
    cdef int64_t each, copies
    if serial == 1:
        return 0
    each = cdiv(cdiv(n, serial), m.workers)
    if size == QUARTER:
        copies = each // 4
        return 25 + m.workers * (76 + 72 + 2 * copies)
    copies = each // (m.data_path_bits // (16 if size == HALF else 32))
    return 25 + m.workers * (39 + 24 + 2 * copies)


cdef inline int64_t add_in_place_cycles(const Machine* m, int64_t n, int size) noexcept nogil:
    """Tile cycles to add n elements onto n others: 3 cycles a vector."""
    cdef int64_t vectors = cdiv(cdiv(n, m.workers), vector_width(m, size))
    return m.workers * (58 + 3 * vectors) + 11


# Reduction in stages ------------------------------------------------------------------------------

cdef enum:
    KNOWN_DEPTHS = 4096

cdef int64_t _stage1[KNOWN_DEPTHS]
cdef int64_t _stage2[KNOWN_DEPTHS]


cdef inline float _messages(int64_t depth, int stages, int64_t* first) noexcept nogil:
    """Messages per tile of the best plan of `stages` stages, and its first depth.

    Costs are single precision: ties between rounding down and up depend on it.
    """
    cdef int64_t low, inner
    cdef float down, up
    if stages == 1:
        first[0] = 0
        return <float>depth
    low = <int64_t>pow(<double>depth, (stages - 1.0) / stages)
    down = _messages(low, stages - 1, &inner) + <float>depth / <float>low
    up = _messages(low + 1, stages - 1, &inner) + <float>depth / <float>(low + 1)
    first[0] = low if down < up else low + 1
    return down if down < up else up


cdef inline void _plan_stages(int64_t depth, int64_t* first, int64_t* second) noexcept nogil:
    cdef int64_t ignored
    second[0] = 0
    if depth >= 125:
        _messages(depth, 3, first)
        _messages(first[0], 2, second)
    elif depth >= 16:
        _messages(depth, 2, first)
    else:
        first[0] = 0


cdef inline void _fill_stages() noexcept nogil:
    cdef int64_t depth
    for depth in range(KNOWN_DEPTHS):
        _plan_stages(depth, &_stage1[depth], &_stage2[depth])


cdef inline int reduce_stages(int64_t depth, bint multi_stage, int64_t* stages) noexcept nogil:
    """Partials that each of at most three stages adds to one, and how many stages there are."""
    cdef int64_t left[2]
    cdef int count = 0
    if multi_stage and depth >= 16:
        if depth < KNOWN_DEPTHS:
            left[0], left[1] = _stage1[depth], _stage2[depth]
        else:
            _plan_stages(depth, &left[0], &left[1])
        while count < (2 if left[1] else 1):
            stages[count] = cdiv(depth, left[count])
            depth = cdiv(depth, stages[count])
            count += 1
    if depth > 1:
        stages[count] = depth
        count += 1
    return count


cdef inline int64_t reduce_vertex_cycles(const Machine* m, int64_t n, int64_t depth, bint float_out,
                                         bint float_in, bint single, bint constrained) noexcept nogil:
    """Tile cycles of one reduction of `depth` partials to n outputs (PopLibs' ReduceAdd)."""
    cdef int64_t accumulators = 4 if float_in else 8
    cdef int64_t lanes = m.data_path_bits // (32 if float_in else 16)
    cdef int64_t per_loop, loops, cycles
    if single:
        per_loop = accumulators // imin(accumulators, lanes * (1 + constrained))
        loops = cdiv(n // accumulators, m.workers)
        cycles = 20 + (per_loop * depth + (7 if float_in else 9) + float_out) * loops
        return cycles * m.workers + 33
    per_loop = accumulators // imin(accumulators, lanes) + 1
    return grouped_reduce_cycles(n, depth, per_loop, float_out, float_in, m.workers)


cdef inline int64_t _one_stage(const Pass* p, int64_t n, int64_t depth, bint float_out,
                               bint float_in) noexcept nogil:
    """A stage, from the single contiguous input that is faster where it is small enough."""
    cdef const Machine* m = &p.machine
    cdef int64_t arriving = (depth - 1) * n * (FLOAT if float_in else HALF)
    cdef int64_t memory = (m.tile_bytes // m.memory_element) * m.memory_element
    cdef bint small = cdiv(arriving, m.memory_element) * m.memory_element < memory // 16
    cdef bint single = n % (4 if float_in else 8) == 0 and (p.fast_reduce or small)
    return reduce_vertex_cycles(m, n, depth - single, float_out, float_in, single, p.fast_reduce)


cdef inline int64_t reduce_cycles(const Pass* p, int64_t outputs, int64_t depth,
                                  int64_t in_serial) noexcept nogil:
    """Cycles to reduce `depth` partials on every tile, or to cast where there is but one."""
    cdef bint float_in = p.tile_result == FLOAT
    cdef bint float_out = p.result == FLOAT
    cdef int64_t stages[3]
    cdef int64_t n = outputs * depth, cycles = 0
    cdef int count, i
    if depth <= 1:
        if depth == 0 or float_in == float_out or in_serial > 1:
            return 0
        return cast_cycles(&p.machine, outputs, p.tile_result, p.result)
    count = reduce_stages(depth, p.multi_stage, stages)
    for i in range(count):
        n = cdiv(n, stages[i])
        cycles += _one_stage(p, n, stages[i], float_out if i == count - 1 else float_in, float_in)
    return cycles


cdef inline int64_t reduce_temp_bytes(const Pass* p, int64_t outputs, int64_t depth) noexcept nogil:
    """Bytes of the partials that intermediate stages receive, most in the first; PopLibs counts none for one stage."""
    cdef int64_t stages[3]
    cdef int count = reduce_stages(depth, p.multi_stage, stages)
    return outputs * depth * p.tile_result if count > (0 if p.corrected else 1) else 0


cdef inline int64_t later_stages_exchange(const Pass* p, int64_t outputs, int64_t depth) noexcept nogil:
    """Exchange cycles of every stage of the reduction after the first."""
    cdef int64_t stages[3]
    cdef int64_t n = outputs, cycles = 0
    cdef int i
    for i in range(1, reduce_stages(depth, p.multi_stage, stages)):
        n = cdiv(n, stages[i - 1])
        cycles += exchange(&p.machine, n, p.tile_result)
    return cycles
