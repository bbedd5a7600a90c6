# Buckets: the blocks of a part of the matrix, cut among the parts of z, and what spills into other buckets.

from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, realloc
from libc.string cimport memset

from poplibs_py.whole cimport cdiv, imax, imin


cdef struct Layout:
    int64_t parts_x, parts_y, parts_z
    int64_t buckets_per_z
    int64_t z, z_grain              # columns of the dense operand, and how many are taken together
    int64_t side                    # of a block
    int64_t workers
    int64_t meta_room, value_room   # words of a bucket, and blocks
    int64_t grad_a_meta_room
    bint blocks                     # whether the format is that of blocks
    bint updates                    # whether workers of the gradient of the weights are written
    bint is_float
    bint for_speed, spills, actual  # PopLibs' options of the partitioner


cdef struct Group:
    int64_t x, y, z                 # its part
    Item* rows
    int64_t count
    int64_t blocks


cdef struct Bucket:
    Group* groups
    int count, room
    int64_t meta, blocks            # words and blocks that it holds


cdef int64_t fixed_words(const Layout* q) noexcept nogil:
    """Words of a sub-group without its rows, were all workers at work."""
    if q.blocks:
        return 7 + (4 * q.workers if q.updates else 0)
    return 9 + 5 * q.workers + (4 * q.workers + 1 if q.updates else 0)


cdef class Buckets:
    """The buckets of a pattern.

    Parameters
    ----------
    fields : dict
        The members of `Layout` by name.
    x_starts, y_starts, z_starts : int64 arrays
        Where the parts begin, in elements.
    row_offsets, columns : arrays
        The pattern, in blocks.
    """

    cdef Layout layout
    cdef Bucket* buckets
    cdef Bucket* spilled
    cdef int64_t count
    cdef const int64_t[::1] x_starts, y_starts, z_starts, offsets
    cdef const int32_t[::1] columns
    cdef void** pieces              # memory that rows lie in
    cdef int64_t piece_count, piece_room
    cdef Item* order                # of all buckets, where the emptiest is looked for

    def __cinit__(self, *args):
        memset(&self.layout, 0, sizeof(Layout))

    def __dealloc__(self):
        cdef int64_t i
        for i in range(self.count):
            if self.buckets != NULL:
                free(self.buckets[i].groups)
            if self.spilled != NULL:
                free(self.spilled[i].groups)
        for i in range(self.piece_count):
            free(self.pieces[i])
        free(self.pieces)
        free(self.buckets)
        free(self.spilled)

    def __init__(self, dict fields, const int64_t[::1] x_starts, const int64_t[::1] y_starts,
                 const int64_t[::1] z_starts, const int64_t[::1] row_offsets, const int32_t[::1] columns):
        self.layout = fields
        if not 0 < self.layout.workers <= MOST_WORKERS:
            raise ValueError("workers: out of range")
        self.x_starts, self.y_starts, self.z_starts = x_starts, y_starts, z_starts
        self.offsets, self.columns = row_offsets, columns
        self.count = self.layout.parts_x * self.layout.parts_y * self.layout.parts_z * self.layout.buckets_per_z
        self.buckets = <Bucket*>calloc(self.count, sizeof(Bucket))
        self.spilled = <Bucket*>calloc(self.count, sizeof(Bucket))
        if self.buckets == NULL or self.spilled == NULL:
            raise MemoryError
        with nogil:
            self._fill()
            self._balance()

    def spill(self):
        """Return what found no place: buckets, blocks in all, and the most words and blocks of one."""
        cdef int64_t i, buckets = 0, blocks = 0, words = 0, most = 0
        for i in range(self.count):
            buckets += self.spilled[i].meta > 0 or self.spilled[i].blocks > 0
            blocks += self.spilled[i].blocks
            words, most = imax(words, self.spilled[i].meta), imax(most, self.spilled[i].blocks)
        return buckets, blocks, words, most

    def sizes(self):
        """Return the sub-groups, blocks and words that each bucket is counted with."""
        return [(self.buckets[i].count, self.buckets[i].blocks, self.buckets[i].meta) for i in range(self.count)]

    # Memory --------------------------------------------------------------------------------------------

    cdef Item* _rows(self, int64_t count) except NULL nogil:
        cdef Item* rows
        if self.piece_count == self.piece_room:
            self._more_pieces()
        rows = <Item*>malloc(imax(1, count) * sizeof(Item))
        if rows == NULL:
            with gil:
                raise MemoryError
        self.pieces[self.piece_count] = rows
        self.piece_count += 1
        return rows

    cdef int _more_pieces(self) except -1 nogil:
        cdef int64_t room = 2 * self.piece_room + 64
        cdef void** grown = <void**>realloc(self.pieces, room * sizeof(void*))
        if grown == NULL:
            with gil:
                raise MemoryError
        self.pieces, self.piece_room = grown, room
        return 0

    cdef int _add(self, Bucket* bucket, const Group* group) except -1 nogil:
        cdef Group* grown
        if bucket.count == bucket.room:
            grown = <Group*>realloc(bucket.groups, (2 * bucket.room + 1) * sizeof(Group))
            if grown == NULL:
                with gil:
                    raise MemoryError
            bucket.groups, bucket.room = grown, 2 * bucket.room + 1
        bucket.groups[bucket.count] = group[0]
        bucket.count += 1
        return 0

    # Parts ---------------------------------------------------------------------------------------------

    cdef int _fill(self) except -1 nogil:
        """Give each bucket the blocks of its own part."""
        cdef const Layout* q = &self.layout
        cdef int64_t x, y, first, last, row, at, begin, end, limit, high
        cdef int64_t* counts = <int64_t*>self._rows(q.parts_y)
        cdef Item* items
        cdef Item* item
        for x in range(q.parts_x):
            first, last = self.x_starts[x] // q.side, self.x_starts[x + 1] // q.side
            high = last - first
            items = self._rows(high * q.parts_y)
            memset(counts, 0, q.parts_y * sizeof(int64_t))
            for row in range(first, last):
                at, end = self.offsets[row], self.offsets[row + 1]
                for y in range(q.parts_y):
                    if at == end:
                        break
                    begin, limit = at, self.y_starts[y + 1] // q.side
                    while at < end and self.columns[at] < limit:
                        at += 1
                    if at > begin:
                        item = &items[y * high + counts[y]]
                        item.key, item.begin, item.number = at - begin, begin, (row - first) * q.side
                        counts[y] += 1
            for y in range(q.parts_y):
                self._cut(x, y, &items[y * high], counts[y])
        return 0

    cdef int _cut(self, int64_t x, int64_t y, const Item* rows, int64_t count) except -1 nogil:
        """Cut a part's blocks, row by row, among its buckets."""
        cdef const Layout* q = &self.layout
        cdef int64_t total = 0, parts = q.parts_z * q.buckets_per_z, used, i, z, left, taken, row = 0, offset = 0
        cdef Group group
        cdef Bucket* bucket
        for i in range(count):
            total += rows[i].key
        if total == 0:
            return 0
        used = cdiv(total, cdiv(total, parts))
        for z in range(used):
            left = (z + 1) * total // used - z * total // used
            group.x, group.y, group.z, group.blocks, group.count = x, y, z, left, 0
            group.rows = self._rows(imin(left, count - row))
            while left > 0:
                taken = imin(left, rows[row].key - offset)
                group.rows[group.count].key, group.rows[group.count].begin = taken, rows[row].begin + offset
                group.rows[group.count].number = rows[row].number
                group.count += 1
                left, offset = left - taken, offset + taken
                if offset == rows[row].key:
                    row, offset = row + 1, 0
            sort_items(group.rows, group.count)
            bucket = &self.buckets[(x * q.parts_y + y) * parts + z]
            self._add(bucket, &group)
            self._count(bucket)
        return 0

    # Sizes ---------------------------------------------------------------------------------------------

    cdef int64_t _z_grains(self, int64_t z) noexcept nogil:
        """Columns of the dense operand of a part of z, in grains."""
        cdef int64_t part = z // self.layout.buckets_per_z
        return cdiv(self.z_starts[part + 1] - self.z_starts[part], self.layout.z_grain)

    cdef int64_t _words(self, const Group* group) noexcept nogil:
        """Words that a sub-group is counted with."""
        cdef const Layout* q = &self.layout
        cdef Share shares[MOST_WORKERS]
        cdef int64_t words = fixed_words(q), workers
        if q.actual and not q.blocks:
            workers = share_evenly(group.count, self._z_grains(group.z), q.workers, shares)
            words = 9 + workers * (9 if q.updates else 5)
        return words + 2 * group.count + group.blocks

    cdef void _count(self, Bucket* bucket) noexcept nogil:
        cdef int i
        bucket.meta = bucket.blocks = 0
        for i in range(bucket.count):
            if bucket.groups[i].count:
                bucket.blocks += bucket.groups[i].blocks
                bucket.meta += self._words(&bucket.groups[i])

    # Spills --------------------------------------------------------------------------------------------

    cdef int _balance(self) except -1 nogil:
        """Take from each bucket what it has no room for, and find room: among its z, its x, all; whole rows first."""
        cdef const Layout* q = &self.layout
        cdef int64_t ranges[3]
        cdef int64_t i
        cdef int j
        cdef bint splits
        for i in range(self.count):
            if q.spills or self.buckets[i].meta > q.meta_room - 1 or self.buckets[i].blocks > q.value_room:
                self._take_out(i)
        ranges[0] = q.parts_z * q.buckets_per_z
        ranges[1] = self.count if q.spills else ranges[0] * q.parts_y
        ranges[2] = ranges[0] * q.parts_y if q.spills else self.count
        for j in range(3):
            for splits in range(2):
                self._place(ranges[j], splits)
        return 0

    cdef int _take_out(self, int64_t at) except -1 nogil:
        """Move the last rows of a bucket out until it fits."""
        cdef const Layout* q = &self.layout
        cdef Bucket* bucket = &self.buckets[at]
        cdef int64_t words = 0 if q.spills else q.meta_room - 1, blocks = 0 if q.spills else q.value_room
        cdef Group* group
        cdef Group out
        if bucket.count == 0:
            return 0
        group = &bucket.groups[0]
        out = group[0]
        out.rows, out.count, out.blocks = self._rows(group.count), 0, 0
        while group.count and (bucket.meta > words or bucket.blocks > blocks):
            group.count -= 1
            group.blocks -= group.rows[group.count].key
            out.rows[out.count] = group.rows[group.count]
            out.blocks += group.rows[group.count].key
            out.count += 1
            self._count(bucket)
        sort_items(out.rows, out.count)
        self._add(&self.spilled[at], &out)
        self._count(&self.spilled[at])
        return 0

    cdef int _place(self, int64_t span, bint splits) except -1 nogil:
        """Find room for spills among each `span` buckets, the largest first; whether rows may be split."""
        cdef int64_t i, most = 0
        cdef Item* order
        for i in range(self.count):
            most += self.spilled[i].meta > 0 or self.spilled[i].blocks > 0
        if most == 0:
            return 0
        order = self._rows(self.count)
        for i in range(self.count):
            order[i].key, order[i].number = (self.spilled[i].meta << 31) + self.spilled[i].blocks, i
        for i in range(self.count // span):
            sort_items(&order[i * span], span)
        for i in range(self.count):
            if self.spilled[order[i].number].meta or self.spilled[order[i].number].blocks:
                self._place_one(order[i].number, i // span * span, span, splits)
        return 0

    cdef int _place_one(self, int64_t mine, int64_t start, int64_t span, bint splits) except -1 nogil:
        """Find room for one bucket's spill."""
        cdef const Layout* q = &self.layout
        cdef Bucket* spill = &self.spilled[mine]
        cdef Item* order = NULL
        cdef int64_t i, at
        if not q.for_speed and not q.spills:
            if self.order == NULL:
                self.order = self._rows(self.count)
            order = self.order
            for i in range(span):
                order[i].number = i
                order[i].key = -((self.buckets[start + i].meta << 31) + self.buckets[start + i].blocks)
            sort_items(order, span)
        for i in range(span):
            if q.spills:            # as far as can be
                at = start + (mine - start + i) % span
                if at == mine:
                    continue
            else:                   # buckets travel the other way
                at = start + ((mine - start + span - i) % span if order == NULL else order[i].number)
            if self._moved(spill, &self.buckets[at], splits):
                break
        return 0

    cdef bint _moved(self, Bucket* spill, Bucket* bucket, bint splits) except -1 nogil:
        """Move what a bucket has room for; whether that was all."""
        cdef const Layout* q = &self.layout
        cdef int64_t words = q.meta_room - 1 - bucket.meta, blocks = q.value_room - bucket.blocks
        cdef Group out
        if spill.meta <= words and spill.blocks <= blocks:
            self._add(bucket, &spill.groups[0])
            bucket.meta, bucket.blocks = bucket.meta + spill.meta, bucket.blocks + spill.blocks
            spill.meta = spill.blocks = 0
            return True
        self._first_rows(&spill.groups[0], &out, words, blocks, splits)
        if out.count == 0:
            return False
        self._add(bucket, &out)
        self._count(bucket)
        self._count(spill)
        return spill.meta == 0 and spill.blocks == 0

    cdef int _first_rows(self, Group* group, Group* out, int64_t words, int64_t blocks, bint splits) except -1 nogil:
        """Take the first rows that fit, and with `splits` the end of the next one."""
        cdef int64_t used = fixed_words(&self.layout), held = 0, row, left, taken, whole = 0, cut = 0
        out[0] = group[0]
        out.count = out.blocks = 0
        for row in range(group.count):
            left = imin(words - used, blocks - held) if used <= words else blocks - held
            taken = left if group.rows[row].key > left and splits else group.rows[row].key
            if taken == 0 or used + taken + 2 > words or held + taken > blocks:
                break
            used, held = used + taken + 2, held + taken
            if taken < group.rows[row].key:
                cut = taken         # no row fits behind a part of one
            else:
                whole += 1
            if cut:
                break
        if whole + (cut > 0) == 0:
            return 0
        out.rows = self._rows(whole + 1)
        if cut:
            group.rows[whole].key -= cut
            out.rows[0].key, out.rows[0].number = cut, group.rows[whole].number
            out.rows[0].begin = group.rows[whole].begin + group.rows[whole].key
            out.count = 1
        for row in range(whole - 1, -1, -1):
            out.rows[out.count] = group.rows[row]
            out.count += 1
        group.rows += whole
        group.count -= whole
        group.blocks -= held
        out.blocks = held
        sort_items(out.rows, out.count)
        return 0
