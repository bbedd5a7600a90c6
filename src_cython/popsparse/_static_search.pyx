"""PopLibs' static planner: each split of N with each number of column bands is measured, and the first of the quickest wins.

There are some 2,000 such pairs on a machine of 1,472 tiles. What each costs is PopLibs' formula, its quirks kept: see
`poplibs_py.popsparse.static_matmul.model`.
"""

from libc.math cimport ceil, pow, sqrt
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from poplibs_py.whole cimport cdiv, imax, imin

cdef enum:
    MOST_BANDS = 4096
    MOST_PARTS = 8                  # that differ: in practice four
    PHASES = 7
    META_INFO_MOST = 65535          # of a 16-bit word

PHASE_NAMES = ("exchange of dense rows", "exchange of values", "multiply", "zero partials", "exchange of partials",
               "reduce", "move the result")


cdef struct Part:
    int64_t begin, end              # columns of N
    int64_t first_tile, tiles
    int64_t count                   # of parts so far


cdef struct Bands:
    int count
    int64_t ends[MOST_BANDS]        # columns, in their new order
    int64_t blocks[MOST_BANDS]
    int64_t most                    # columns with blocks of the widest band


cdef struct Cost:
    int64_t phases[PHASES]
    int64_t cycles
    int64_t multiply_bytes, reduce_bytes


cdef class StaticSearch:
    """The candidates of one problem.

    Parameters
    ----------
    counts : int64 array, shape (block columns,)
        Blocks of each block column, in the planned order.
    fields : dict
        The members below by name, whole numbers, but for `density`.
    """

    cdef int64_t tiles, tile_grain, workers, exchange_bytes, data_path_bits
    cdef int64_t m, n_padded, n_grain, m_plan, k_plan, blocks, side, size, partial_size, limit
    cdef int64_t n_least, n_most, k_least, k_most
    cdef double density
    cdef const int64_t[::1] counts

    def __init__(self, const int64_t[::1] counts, dict fields):
        self.counts = counts
        self.tiles, self.tile_grain, self.workers = fields["tiles"], fields["tile_grain"], fields["workers"]
        self.exchange_bytes, self.data_path_bits = fields["exchange_bytes"], fields["data_path_bits"]
        self.m, self.n_padded, self.n_grain = fields["m"], fields["n_padded"], fields["n_grain"]
        self.m_plan, self.k_plan, self.density = fields["m_plan"], fields["k_plan"], fields["density"]
        self.blocks, self.side = fields["blocks"], fields["side"]
        self.size, self.partial_size, self.limit = fields["size"], fields["partial_size"], fields["limit"]
        self.n_least, self.n_most = fields["n_splits"]
        self.k_least, self.k_most = fields["bands"]
        if not (0 < self.k_least and self.k_most <= MOST_BANDS and 0 < self.n_least):
            raise ValueError("bands, n_splits: out of range")

    def search(self):
        """Return the best candidate that keeps to the limit, and the fewest bytes that any candidate takes.

        Returns
        -------
        best : tuple or None
            ``(n_split, bands, cycles, bytes, phases)``; phases are those of the slowest part of N.
        least : int
            -1 where there is no candidate at all.
        """
        cdef Bands[1] bands
        cdef Cost cost
        cdef Cost best
        cdef int64_t sn, sk, taken, best_bytes = 0, best_n = 0, best_k = 0, least = -1
        memset(&best, 0, sizeof(best))
        with nogil:
            for sk in range(self.k_least, self.k_most + 1):
                if sk * self.n_least > self.tiles // self.tile_grain:
                    break
                self._cut_columns(sk, bands)
                for sn in range(self.n_least, self.n_most + 1):
                    if sn * sk > self.tiles // self.tile_grain:
                        break
                    taken = self._measure(sn, sk, bands, &cost)
                    if taken < 0:
                        continue
                    least = taken if least < 0 else imin(least, taken)
                    # the original walks N first: of equals the one with the fewest parts of N, then of K, is its first
                    if taken <= self.limit and (best_n == 0 or cost.cycles < best.cycles
                                                or (cost.cycles == best.cycles and sn < best_n)):
                        best, best_bytes, best_n, best_k = cost, taken, sn, sk
        if best_n == 0:
            return None, least
        return (best_n, best_k, best.cycles, best_bytes, tuple(best.phases)), least

    def bands(self, int64_t asked):
        """Return the columns where bands begin and end, the blocks of each, and the most columns with blocks of one."""
        cdef Bands[1] found
        self._cut_columns(asked, found)
        return ([0, *(found[0].ends[i] for i in range(found[0].count))],
                [found[0].blocks[i] for i in range(found[0].count)], found[0].most)

    def parts_of_n(self, int64_t n_split):
        """Return each part of N: the columns where it begins and ends, padding included, its first tile, its tiles."""
        cdef Part part
        cdef list found = []
        memset(&part, 0, sizeof(part))
        while self._next_part(n_split, &part):
            found.append((part.begin, part.end, part.first_tile, part.tiles))
        return found

    def tiles_of_bands(self, int64_t asked, int64_t tiles):
        """Return the tiles of each band of a part of N that has so many."""
        cdef Bands[1] bands
        cdef int64_t of_band[MOST_BANDS]
        self._cut_columns(asked, bands)
        if not self._deal(bands, tiles, of_band):
            return []
        return [of_band[i] for i in range(bands[0].count)]

    cdef void _cut_columns(self, int64_t asked, Bands* bands) noexcept nogil:
        """Cut the columns into bands of about as many blocks: each takes columns while it has fewer than its share."""
        cdef int64_t share = cdiv(self.blocks, asked), count, empty, begin, at = 0
        bands.count, bands.most = 0, 0
        while bands.count < asked:
            begin, count, empty = at, 0, 0
            while count < share and at < self.counts.shape[0]:
                count += self.counts[at]
                empty += self.counts[at] == 0
                at += 1
            if count == 0:
                break
            bands.ends[bands.count], bands.blocks[bands.count] = at, count
            bands.count += 1
            bands.most = imax(bands.most, at - begin - empty)

    cdef bint _next_part(self, int64_t splits, Part* part) noexcept nogil:
        """Go on to the next part of N, or to the first from a part that is all zeros; whether there is one."""
        cdef int64_t grains = self.n_padded // self.n_grain
        cdef int64_t each = cdiv(grains, splits)
        cdef int64_t parts = cdiv(grains, each) if each else 0
        cdef int64_t tile_grains = cdiv(self.tiles, self.tile_grain), end
        if part.count == parts:
            return False
        part.begin, part.end = part.end, imin((part.count + 1) * each, grains) * self.n_grain
        part.first_tile += part.tiles
        part.count += 1
        # PopLibs' sum of the sizes begins at 1
        end = imax(cdiv(tile_grains * (part.end - part.begin), self.n_padded + 1) - 1, cdiv(tile_grains, parts))
        end = self.tiles if part.count == parts else imin(part.first_tile + end * self.tile_grain, self.tiles)
        part.tiles = end - part.first_tile
        return True

    cdef int _distinct_parts(self, int64_t splits, Part* found) noexcept nogil:
        """Parts of N that differ in columns or in tiles; none where one would have no tile."""
        cdef Part part
        cdef int count = 0, j
        memset(&part, 0, sizeof(part))
        while self._next_part(splits, &part):
            if part.tiles == 0:
                return 0
            for j in range(count):
                if found[j].end - found[j].begin == part.end - part.begin and found[j].tiles == part.tiles:
                    break
            else:
                if count == MOST_PARTS:
                    return 0
                found[count] = part
                count += 1
        return count

    cdef bint _deal(self, const Bands* bands, int64_t tiles, int64_t* of_band) noexcept nogil:
        """Deal the tiles of a part of N out to the bands; whether each has one. Clips as the original does, in 32 bits."""
        cdef int64_t grain = self.tile_grain, used = 0, mine, i
        for i in range(bands.count):
            mine = bands.blocks[i] * tiles // self.blocks
            if mine == 0:
                mine = imin(tiles, grain)
            mine = imin(cdiv(cdiv(bands.blocks[i], cdiv(bands.blocks[i], mine)), grain) * grain, mine)
            if i == bands.count - 1:
                mine = tiles - used
            mine = imin(imax(mine // grain * grain, grain), tiles - used)
            mine = imin(mine, <int64_t><uint32_t>(tiles - (bands.count - 1 - i) * grain))
            if mine == 0:
                return False
            of_band[i] = mine
            used += mine
        return bands.count > 0

    cdef int64_t _measure(self, int64_t splits, int64_t asked, const Bands* bands, Cost* worst) noexcept nogil:
        """Measure a candidate: the most of its parts of N. Returns its bytes, -1 where it is not allowed."""
        cdef Part[MOST_PARTS] found
        cdef int64_t of_band[MOST_BANDS]
        cdef int64_t most = 0
        cdef int parts = self._distinct_parts(splits, found), i
        cdef Cost cost
        memset(worst, 0, sizeof(Cost))
        for i in range(parts):
            if not self._deal(bands, found[i].tiles, of_band):
                return -1 if self.blocks else 0
            if not self._cost_of(splits, asked, found[i].end - found[i].begin, bands, of_band, &cost):
                return -1
            most = imax(most, imax(cost.multiply_bytes, cost.reduce_bytes))
            if cost.cycles > worst.cycles:
                worst[0] = cost
        return most if parts else -1

    cdef bint _cost_of(self, int64_t splits, int64_t asked, int64_t n, const Bands* bands, const int64_t* of_band,
                       Cost* c) noexcept nogil:
        """What the fullest tile of a part of N of so many columns costs; whether its meta-information has room."""
        cdef int64_t i, band = 0, width, blocks, m_tile, k_tile, m_used, k_used, reduced, out_bytes, partials
        cdef double fullest = -1, in_row, in_column
        for i in range(bands.count):
            if <double>bands.blocks[i] / of_band[i] > fullest:
                fullest, band = <double>bands.blocks[i] / of_band[i], i
        width = bands.ends[band] - (bands.ends[band - 1] if band else 0)
        blocks = cdiv(bands.blocks[band], of_band[band])
        m_tile = cdiv(self.m_plan, of_band[band])
        k_tile = imin(<int64_t>ceil(bands.blocks[band] / self.density), self.k_plan) if m_tile == 1 else width
        in_row = at_least_one(self.density, k_tile)
        in_column = at_least_one(self.density, m_tile)
        m_used, k_used = imin(m_tile, expected(in_row, m_tile)), imin(k_tile, expected(in_column, k_tile))
        if not self._encodable(bands.most, n, m_used):
            return False
        cdef int64_t dense_bytes = n * k_used * self.side * self.size
        cdef int64_t value_bytes = blocks * self.side * self.side * self.size
        c.phases[0] = <int64_t>(cdiv(dense_bytes, 2 * self.exchange_bytes) * (<double>k_tile / k_used))
        c.phases[1] = cdiv(value_bytes, self.exchange_bytes) if splits > 1 else 0
        if self.side == 1:
            c.phases[2] = self._elements(cdiv(m_used, self.workers), cdiv(blocks, m_used), n)
        else:
            c.phases[2] = self._blocks(m_used, cdiv(blocks, m_used), cdiv(n, self.workers))
        c.phases[3] = 0
        if self.side != 1 and self.partial_size == 4 and self.side != 4:
            c.phases[3] = (12 + cdiv(m_used * self.side * n * 32 // self.data_path_bits, self.workers)) * self.workers
        out_bytes = m_used * n * self.partial_size * self.side
        reduced = <int64_t>ceil((in_row * asked + spread(in_row, asked)) * width / k_tile)
        partials = cdiv(out_bytes * (reduced - 1), reduced)
        c.phases[4] = cdiv(partials, self.exchange_bytes)
        c.phases[5] = self._reduce(cdiv(out_bytes // self.partial_size, reduced), reduced)
        c.phases[6] = cdiv(self.m * self.n_padded * self.size, self.tiles)  # bytes for cycles, as the original has it
        c.cycles = 0
        for i in range(PHASES):
            c.cycles += c.phases[i]
        c.multiply_bytes, c.reduce_bytes = dense_bytes + value_bytes + out_bytes, partials + out_bytes
        return True

    cdef bint _encodable(self, int64_t most_columns, int64_t n, int64_t rows) noexcept nogil:
        """Whether offsets and work lists fit 16-bit words."""
        cdef int64_t words = 6 * self.workers + rows + 1 if self.side == 1 else 2 * self.workers + 2 * rows + 1
        cdef int64_t unit = 1 if self.side == 1 else 8 * self.side
        return most_columns * self.side * n * self.size <= META_INFO_MOST * unit and words <= META_INFO_MOST

    cdef int64_t _elements(self, int64_t m, int64_t k, int64_t n) noexcept nogil:
        """Cycles of a worker's m rows of k elements by n columns, times the workers."""
        cdef int64_t each, more = k - 1
        if self.size == 2:
            if n == 4:
                each = 31 + m * (7 + 2 * more)
            elif n == 8:
                each = 31 + m * (8 + 3 * more)
            else:
                each = 33 + m * (11 + (n // 8) * (14 + 3 * more) + (9 + 2 * more if n % 8 else 0))
        elif n == 2:
            each = 29 + m * (5 + 2 * more)
        elif n == 4:
            each = 30 + m * (6 + 3 * more)
        else:
            each = 31 + m * (12 + (n // 4) * (10 + 3 * more) + (10 + 2 * more if n % 4 else 0))
        return each * self.workers

    cdef int64_t _blocks(self, int64_t m, int64_t k, int64_t n) noexcept nogil:
        """Cycles of m rows of k blocks, n columns to a worker."""
        cdef int64_t head = 13, row = 1, each
        if self.side == 4:
            head, each = (17, 7 + n if n <= 2 else 13 + n) if self.size == 2 else (13, 12 + 4 * (n - 1))
        elif self.side == 8:
            row, each = (1, 14 + 2 * (n - 1)) if self.size == 2 else (4, 19 + 8 * (n - 1))
        elif self.size == 2:
            each = 19 + 4 * (n - 1)
        else:
            head, row, each = 16, 4, 58 if n == 1 else 2 * (37 + 8 * (n - 1))
        return 30 + head * self.workers + m * (
            row * self.workers + 17 + k * (16 + self.side * self.side * self.size // 8 + each * self.workers))

    cdef int64_t _reduce(self, int64_t outputs, int64_t depth) noexcept nogil:
        """Cycles to add `depth` partial sums for each of so many outputs."""
        cdef int64_t vector = 4 if self.partial_size == 4 else 8, each
        if depth == 1:
            return 0
        each = 5 if self.partial_size == 4 else (8 if self.size == 2 else 7)
        return (16 + cdiv(cdiv(outputs, self.workers), vector) * (each + 6 + depth - 1)) * self.workers


cdef inline double at_least_one(double probability, int64_t count) noexcept nogil:
    return 1.0 - pow(1.0 - probability, <double>count)


cdef inline double spread(double probability, int64_t count) noexcept nogil:
    """A standard deviation of a binomial distribution, rounded up."""
    return ceil(sqrt(probability * (1 - probability) * count))


cdef inline int64_t expected(double probability, int64_t count) noexcept nogil:
    """What a binomial distribution has on average, and a standard deviation more."""
    return <int64_t>ceil(probability * count + spread(probability, count))
