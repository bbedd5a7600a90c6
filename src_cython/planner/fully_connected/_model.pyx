"""The cost model of sparse fully connected layers: the split of groups, x, y and z over tiles, and what each costs.

x are the rows of the sparse weights (outputs), y their columns (inputs), z the batch. The vertices' cycles are in
cycles.pxi. PopLibs' quirks are kept: zeroing costs what its elements are, not what the formula says; whether partial
sums are temporary is asked of z, not of y; meta-information stands for partial sums where the gradient is cast.
"""

from libc.math cimport ceil, round
from libc.stdint cimport int64_t
from libc.string cimport memset

from poplibs_py.exchange cimport cycles_to_receive
from poplibs_py.planner._search cimport CYCLES, DIFFERENCE, MEASURES, TEMP, TILES, Point, Search
from poplibs_py.reduction cimport grouped_reduce_cycles
from poplibs_py.whole cimport cdiv, gcd, imax, imin

include "planner/fully_connected/cycles.pxi"

cdef enum:
    PHASES = 7
    MOST_WORKERS = 256
    MOST_OFFSET = 65535             # that a word of meta-information holds

FORWARD_PHASES = ("Pre-distribution + distribution exchange", "Distribution compute", "Propagation",
                  "Exchange to reduce", "Reduction or cast", "Total")
GRAD_A_PHASES = ("Transpose buckets", *FORWARD_PHASES)
GRAD_W_PHASES = ("Pre-distribution exchange", "Q-grad/S transpose", "Distribution exchange", "Distribution compute",
                 "All exchange + compute", "Exchange to reduce", "Reduction or cast", "Total")


cdef struct Cost:
    int64_t cycles, temp


cdef struct Pass:
    int64_t method                  # how a tile multiplies
    int64_t x, y                    # groups of blocks in all
    int64_t tile_x, tile_y          # on a tile
    int64_t parts_x, parts_y
    int64_t high, wide              # of a block
    bint faster_x                   # whether neighbours in x are neighbouring tiles
    bint turns                      # whether blocks are transposed first


cdef struct Problem:
    Machine machine
    int64_t groups, x, y, z         # in blocks, z in its grouping
    int64_t side, z_grouping        # of a block
    int64_t non_zero                # blocks in all
    int64_t size, partial_size
    int64_t forward, grad_a, grad_w  # methods, -1 for a pass that is not planned
    bint shared_buckets, exchanges_buckets, updates
    double ratio, oversize


cdef struct Bucket:
    int64_t blocks, meta, grad_a_meta


cdef class Model(Search):
    """A method with a way of exchange: its splits, and the search over them.

    Parameters
    ----------
    fields : dict
        The members of `Problem` and of its machine by name.
    bounds : tuple
        Least and most split of groups, x, y and z.
    """

    cdef Problem problem

    def __cinit__(self, *args):
        memset(&self.problem, 0, sizeof(Problem))

    def __init__(self, dict fields, tuple bounds):
        cdef Problem* p = &self.problem
        p[0] = fields
        if not 0 < p.machine.workers <= MOST_WORKERS:
            raise ValueError("workers: out of range")
        self.tiles = p.machine.tiles
        for axis, (extent, (least, most)) in enumerate(zip((p.groups, p.x, p.y, p.z), bounds, strict=True)):
            self.add_axis(extent, least, most, 1, 1, 1 if axis == 0 else 0, False)
            self.add_split(axis, False, 0)
        self.prepare()

    cdef void cost(self) noexcept nogil:
        cdef int64_t measures[MEASURES]
        cdef Cost phases[3][PHASES + 1]
        cdef Bucket bucket
        cdef Cost all_passes
        if not self._allowed(&self.point):
            return
        all_passes = self._measure(&self.point, &bucket, phases)
        measures[CYCLES], measures[TEMP] = all_passes.cycles, all_passes.temp
        measures[TILES], measures[DIFFERENCE] = self.point.tiles, 0
        self.offer(0, measures)

    def explain(self, tuple splits):
        """Return what a point costs, by pass and phase, and its buckets.

        Returns
        -------
        cycles, temp_bytes : int
        blocks, meta, grad_a_meta : int
            Of a bucket: blocks, and words of meta-information of the forward pass and of the gradient of activations.
        phases : list of list of (int, int)
            Cycles and temporary bytes; a pass that is not planned has none.
        """
        cdef Point at
        cdef Cost phases[3][PHASES + 1]
        cdef Bucket bucket
        cdef Cost total
        memset(&at, 0, sizeof(at))
        for i in range(4):
            at.at[i].parallel, at.at[i].serial = splits[i], 1
        if self.place(&at):
            raise ValueError("splits: not of this model")
        total = self._measure(&at, &bucket, phases)
        planned = (len(FORWARD_PHASES), len(GRAD_A_PHASES) if self.problem.grad_a >= 0 else 0,
                   len(GRAD_W_PHASES) if self.problem.updates else 0)
        told = [[(phases[i][j].cycles, phases[i][j].temp) for j in range(count)] for i, count in enumerate(planned)]
        return total.cycles, total.temp, bucket.blocks, bucket.meta, bucket.grad_a_meta, told

    cdef bint _allowed(self, const Point* at) noexcept nogil:
        """Whether z is in equal parts, and offsets fit their words."""
        cdef const Problem* p = &self.problem
        cdef int64_t unit = 4 if p.size == 4 else 2
        cdef int64_t x = at.at[1].size, y = at.at[2].size, z = at.at[3].size
        if p.z % at.at[3].parallel:
            return False
        if p.side > 1:
            return True
        if imax((y - 1) * z * p.z_grouping * unit, x - 1) > MOST_OFFSET:
            return False
        return p.grad_a < 0 or p.shared_buckets or imax((x - 1) * z * p.z_grouping * unit, y - 1) <= MOST_OFFSET

    cdef Cost _measure(self, const Point* at, Bucket* bucket, Cost (*phases)[PHASES + 1]) noexcept nogil:
        """What a point costs: the cycles of its passes, and the most bytes of one."""
        cdef const Problem* p = &self.problem
        cdef Pass forward, backward
        cdef Cost total, one
        forward.method, forward.x, forward.y = p.forward, p.x, p.y
        forward.tile_x, forward.tile_y = at.at[1].size, at.at[2].size
        forward.parts_x, forward.parts_y = at.at[1].parallel, at.at[2].parallel
        forward.high = forward.wide = p.side
        forward.faster_x, forward.turns = True, False
        self._fill_bucket(at, bucket)
        total = self._multiply(at, &forward, bucket, bucket.meta, phases[0])
        if p.grad_a >= 0:
            backward = forward
            backward.method, backward.x, backward.y = p.grad_a, p.y, p.x
            backward.tile_x, backward.tile_y = forward.tile_y, forward.tile_x
            backward.parts_x, backward.parts_y = forward.parts_y, forward.parts_x
            backward.faster_x, backward.turns = False, True
            one = self._multiply(at, &backward, bucket, bucket.grad_a_meta, phases[1])
            total.cycles, total.temp = total.cycles + one.cycles, imax(total.temp, one.temp)
        if p.updates:
            one = self._update(at, bucket, phases[2])
            total.cycles, total.temp = total.cycles + one.cycles, imax(total.temp, one.temp)
        return total

    # Buckets -------------------------------------------------------------------------------------------

    cdef void _fill_bucket(self, const Point* at, Bucket* bucket) noexcept nogil:
        """How much a bucket holds: an even share, and more in proportion."""
        cdef const Problem* p = &self.problem
        cdef int64_t block = p.side * p.side * p.size, atom = p.machine.exchange_atom
        cdef int64_t grain = atom // gcd(block, atom)
        cdef int64_t share = cdiv(p.non_zero, at.tiles)
        bucket.blocks = cdiv(<int64_t>round(share * (1.0 + p.oversize)), grain) * grain
        bucket.meta = self._meta(at.at[1].size, at.at[2].size, p.forward)
        bucket.grad_a_meta = 0
        if p.grad_a == GRAD_A:
            bucket.grad_a_meta = self._meta(at.at[2].size, at.at[1].size, GRAD_A)
        elif p.grad_a >= 0:
            bucket.grad_a_meta = bucket.meta

    cdef int64_t _meta(self, int64_t x, int64_t y, int64_t method) noexcept nogil:
        """Words of meta-information of a bucket of two sub-groups of a uniform pattern."""
        cdef const Problem* p = &self.problem
        cdef Rows rows = uniform_rows(p.ratio, x, y)
        cdef int64_t workers = p.machine.workers, fixed, entries = rows.x * (2 + rows.y), grain
        if method == GRAD_A:
            fixed, entries = 9 + 5 * workers, rows.x * (2 + 2 * rows.y)
        elif method == FORWARD:
            fixed = 9 + workers * (10 if p.updates else 5)
        else:
            fixed = 7 + (4 * workers if p.updates else 0)
        grain = 2 * p.machine.exchange_atom // gcd(2, p.machine.exchange_atom)
        return cdiv(2 * fixed + <int64_t>ceil(entries * (1.0 + p.oversize)), grain) * grain

    # Sparse by dense -----------------------------------------------------------------------------------

    cdef Cost _multiply(self, const Point* at, const Pass* q, const Bucket* bucket, int64_t meta,
                        Cost* phases) noexcept nogil:
        """Forward pass, or the gradient of activations with x and y swapped; its phases, from the transposes on."""
        cdef const Problem* p = &self.problem
        cdef int64_t parts_z = at.at[3].parallel, z = at.at[3].size * p.z_grouping
        cdef int64_t values = bucket.blocks * p.side * p.side * p.size, held = values + 2 * meta
        cdef int64_t partials = q.tile_x * z * q.high
        cdef int64_t dense = q.tile_y * z * q.wide * p.size
        cdef int64_t turned = values if q.turns and p.side > 1 else 0
        cdef int64_t sums, i, begin = 1
        cdef bint casts = p.size != p.partial_size
        cdef Cost total
        if q.turns:
            phases[0].cycles, phases[0].temp = 0, turned
            if turned:
                phases[0].cycles = turn_cycles(bucket.blocks, q.high, q.wide, p.size == 4, p.machine.workers)
            phases += 1
            begin = 0
        if dense <= cdiv(p.groups * q.y * p.z, at.tiles) * q.wide * p.z_grouping * p.size:
            dense = 0               # it lies where it is needed
        phases[0].cycles = self._exchange(dense, self._neighbours(at, q, True), at.tiles)
        if parts_z > 1:
            phases[0].cycles += self._exchange(parts_z * held, self._neighbours(at, q, False), at.tiles)
        cdef int64_t inputs = dense + (parts_z - 1) * held
        phases[0].temp = inputs + turned
        phases[1].cycles = cdiv(partials, p.machine.workers) * p.machine.workers + self._vertex(at, q)
        sums = partials * p.partial_size if casts or parts_z > 1 else 0
        phases[1].temp = inputs + sums + turned
        phases[2].cycles, phases[2].temp = 0, 2 * held + dense + sums + turned
        self._reduce(partials, q.parts_y, sums, &phases[3])
        total.cycles = total.temp = 0
        for i in range(begin - 1, 5):
            total.cycles, total.temp = total.cycles + phases[i].cycles, imax(total.temp, phases[i].temp)
        phases[5] = total
        return total

    cdef int64_t _vertex(self, const Point* at, const Pass* q) noexcept nogil:
        """Cycles of the multiplication on a tile, of a bucket for each part of z."""
        cdef const Problem* p = &self.problem
        cdef const Machine* m = &p.machine
        cdef Tile tiles[MOST_WORKERS]
        cdef Rows rows = uniform_rows(p.ratio, q.tile_x, q.tile_y)
        cdef int64_t buckets = at.at[3].parallel, z = at.at[3].size, most = 0, i, wide
        cdef bint is_float = p.size == 4
        cdef int count
        if q.method == TRANSPOSE:   # it shares its work out as it runs
            return transpose_cycles(buckets, rows.y, z * p.z_grouping, q.tile_x, is_float, m.workers)
        if q.method == FORWARD or q.method == GRAD_A:
            count = split_between_workers(rows.x, z, m.workers, tiles)
            for i in range(count):
                most = imax(most, element_cycles(q.method == GRAD_A, buckets, tiles[i].rows,
                                                 tiles[i].columns * p.z_grouping, rows.y, is_float, m.workers))
            return most
        count = split_between_workers(1, z, m.workers, tiles)
        for i in range(count):
            wide = tiles[i].columns * p.z_grouping
            if q.method == FORWARD_BLOCK:
                most = imax(most, block_cycles(False, buckets, rows.x, wide, q.high, q.wide, rows.y, is_float,
                                               p.partial_size == 4, m))
            else:
                most = imax(most, block_cycles(True, buckets, rows.y, wide, q.wide, q.high, rows.x, is_float,
                                               p.partial_size == 4, m))
        return most

    cdef void _reduce(self, int64_t partials, int64_t depth, int64_t sums, Cost* phases) noexcept nogil:
        """Sums over the parts of y, or the cast where there is one part: exchange and compute."""
        cdef const Problem* p = &self.problem
        cdef int64_t moved = partials * p.partial_size if depth > 1 else 0, outputs = cdiv(partials, depth)
        cdef bint casts = p.size != p.partial_size
        phases[0].cycles, phases[0].temp = self._plain_exchange(moved), sums + moved
        phases[1].cycles = 0
        if depth > 1:
            phases[1].cycles = grouped_reduce_cycles(outputs, depth, 3, p.size == 4, p.partial_size == 4, p.machine.workers)
        elif casts:
            phases[1].cycles = cast_cycles(outputs, p.partial_size, p.size, &p.machine)
        phases[1].temp = phases[0].temp + (outputs * p.size if casts or depth > 1 else 0)

    # The gradient of the weights ------------------------------------------------------------------------

    cdef Cost _update(self, const Point* at, const Bucket* bucket, Cost* phases) noexcept nogil:
        cdef const Problem* p = &self.problem
        cdef const Machine* m = &p.machine
        cdef bint is_float = p.size == 4, casts = p.size != p.partial_size
        cdef int64_t x = at.at[1].size, y = at.at[2].size, z = at.at[3].size * p.z_grouping, i
        cdef int64_t parts_z = at.at[3].parallel, one = p.side * p.size
        cdef int64_t grads = x * z * one, acts = y * z * one, q = grads, s = acts
        cdef int64_t meta = 2 * bucket.meta, gradient = bucket.blocks * p.side * p.side * p.partial_size
        cdef int64_t remaining = meta if casts else 0     # meta-information where partial sums are meant
        cdef Cost total
        if q <= cdiv(p.groups * p.x * p.z, at.tiles) * one * p.z_grouping:
            q = 0
        if s <= cdiv(p.groups * p.y * p.z, at.tiles) * one * p.z_grouping:
            s = 0
        memset(phases, 0, (PHASES + 1) * sizeof(Cost))
        phases[0].cycles = self._exchange(q, self._update_neighbours(at, 2), at.tiles)
        phases[0].cycles += self._exchange(s, self._update_neighbours(at, 1), at.tiles)
        phases[0].temp = q + s
        if p.grad_w == GRAD_W_AMP_BLOCK:
            phases[1].cycles = (rearrange_cycles(x, p.side, z, is_float, m.workers)
                                + rearrange_cycles(y, p.side, z, is_float, m.workers))
            phases[1].temp = grads + q + acts + s
            q, s = grads, acts
        if parts_z > 1 and p.exchanges_buckets:
            phases[2].cycles = parts_z * self._plain_exchange(meta + gradient)
        elif parts_z > 1:
            i = self._update_neighbours(at, 3)
            phases[2].cycles = parts_z * (self._exchange(grads, i, at.tiles) + self._exchange(acts, i, at.tiles))
        phases[3].cycles = self._update_vertex(at, bucket)
        phases[4].temp = q + s + 2 * (meta + gradient) if p.exchanges_buckets else remaining + 2 * (q + s)
        self._reduce(bucket.blocks * p.side * p.side, 1, remaining, &phases[5])
        total.cycles = total.temp = 0
        for i in range(7):
            total.cycles, total.temp = total.cycles + phases[i].cycles, imax(total.temp, phases[i].temp)
        phases[7] = total
        return total

    cdef int64_t _update_vertex(self, const Point* at, const Bucket* bucket) noexcept nogil:
        """Cycles of the gradient on a tile, a turn for each part of z."""
        cdef const Problem* p = &self.problem
        cdef const Machine* m = &p.machine
        cdef int64_t z = at.at[3].size * p.z_grouping, parts_z = at.at[3].parallel, most = 0
        cdef int64_t worker, begin, end, blocks, each, lists, rows_mine, cycles
        cdef Rows rows = uniform_rows(p.ratio, cdiv(at.at[1].size, parts_z), at.at[2].size)
        cdef bint is_float = p.size == 4, float_partials = p.partial_size == 4
        cycles = cdiv(bucket.blocks * p.side * p.side, m.workers) * m.workers
        if p.grad_w == GRAD_W_AMP_BLOCK:
            return cycles + parts_z * grad_w_amp_cycles(rows.x, z, p.side, rows.y, is_float, float_partials, m)
        blocks = rows.x * rows.y
        each = cdiv(blocks, m.workers)
        for worker in range(cdiv(blocks, each)):
            begin, end = worker * each, imin(blocks, (worker + 1) * each)
            rows_mine = cdiv(end, rows.y) - begin // rows.y
            lists = cdiv(end - begin, rows.y)
            if p.grad_w == GRAD_W:
                begin = grad_w_cycles(rows_mine, z, end - begin, is_float, m.workers)
            else:
                begin = grad_w_block_cycles(rows_mine, z, p.side, end - begin, is_float, float_partials, m.workers)
            most = imax(most, cdiv(begin, lists))
        return cycles + parts_z * most

    # Exchange ------------------------------------------------------------------------------------------

    cdef int64_t _plain_exchange(self, int64_t size) noexcept nogil:
        return cycles_to_receive(size, self.problem.machine.exchange_rate)

    cdef int64_t _exchange(self, int64_t size, int64_t neighbours, int64_t tiles) noexcept nogil:
        """Cycles to receive so many bytes where so many neighbouring tiles receive the same."""
        cdef bint shared = self.problem.machine.bus_sharing and (neighbours == tiles or neighbours % 2 == 0)
        return cycles_to_receive(size, self.problem.machine.exchange_rate, shared)

    cdef int64_t _neighbours(self, const Point* at, const Pass* q, bint along_x) noexcept nogil:
        """Neighbouring tiles that receive the same: dense rows along x, buckets along z.

        The forward pass' x is the fastest along tiles, then z, then y; the gradient's x is that y.
        """
        if along_x:
            return q.parts_x if q.faster_x or q.parts_y * at.at[3].parallel == 1 else 1
        return at.at[3].parallel if (q.parts_x if q.faster_x else q.parts_y) == 1 else 1

    cdef int64_t _update_neighbours(self, const Point* at, int axis) noexcept nogil:
        """Neighbouring tiles along an axis; z is the fastest where operands are exchanged, x where buckets are."""
        cdef int64_t inner = 1
        cdef int i
        for i in range(1, 4):
            if self._speed(i) > self._speed(axis):
                inner *= at.at[i].parallel
        return at.at[axis].parallel if inner == 1 else 1

    cdef int _speed(self, int axis) noexcept nogil:
        if self.problem.exchanges_buckets:
            return 3 if axis == 1 else axis - 1     # x, then z, then y
        return axis
