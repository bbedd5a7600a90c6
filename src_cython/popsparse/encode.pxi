# Meta-information and values of buckets, word for word as PopLibs' vertices read them.

from libc.stdint cimport uint16_t, uint8_t
from libc.string cimport memcpy

from poplibs_py.whole cimport cdiv, imax

cdef enum:
    WORD_MOST = 65535


cdef struct Words:
    uint16_t* out
    int64_t room, count             # words that there are, and that are written
    int64_t largest


cdef inline void put(Words* w, int64_t value) noexcept nogil:
    if w.count < w.room:
        w.out[w.count] = <uint16_t>value
    w.count += 1
    w.largest = imax(w.largest, value)


cdef class Encoder:
    """Writes buckets: `Buckets`' second half."""

    cdef Buckets source
    cdef const Layout* layout

    def __init__(self, Buckets source):
        self.source, self.layout = source, &source.layout

    def encode(self, uint16_t[:, ::1] meta, const uint8_t[::1] blocks, uint8_t[:, ::1] values, int64_t size):
        """Write all buckets.

        Parameters
        ----------
        meta : uint16 array, shape (buckets, words), zeros
            The forward pass' words, then those of the gradient of the activations where they have their own.
        blocks : uint8 array
            The pattern's blocks, in its order, `size` bytes each.
        values : uint8 array, shape (buckets, bytes), zeros
            Receives the blocks of each bucket.
        size : int

        Returns
        -------
        bucket, excess, largest : int
            The first bucket that does not fit its room, or whose numbers do not fit 16 bits, with the words that are too
            many and its largest number; -1 where all do.
        """
        cdef int64_t i, own = self.layout.meta_room, room = meta.shape[1]
        cdef const uint8_t* stored = &blocks[0] if blocks.shape[0] else NULL
        cdef Words words
        if (values.shape[0] != self.source.count or meta.shape[0] != self.source.count or room < own
                or values.shape[1] < self.layout.value_room * size
                or blocks.shape[0] < self.source.columns.shape[0] * size):
            raise ValueError("meta, blocks, values: too small")
        for i in range(self.source.count):
            with nogil:
                words.out, words.room, words.count, words.largest = &meta[i, 0], own, 0, 0
                self._write(&self.source.buckets[i], &words, stored, &values[i, 0] if values.shape[1] else NULL, size)
            if words.count > own or words.largest > WORD_MOST:
                return i, imax(0, words.count - own), words.largest
            if room > own:
                words.out, words.room, words.count, words.largest = &meta[i, own], room - own, 0, 0
                with nogil:
                    self._write_turned(&self.source.buckets[i], &words)
                if words.count > room - own or words.largest > WORD_MOST:
                    return i, imax(0, words.count - (room - own)), words.largest
        return -1, 0, 0

    def overflow(self):
        """Return how far buckets travel: x, y and z steps, and which distances in x are met, two bits to a word."""
        cdef const Layout* q = self.layout
        cdef int64_t parts = q.parts_z * q.buckets_per_z, i, x, y, far_x, far_y, most_x = 0, most_y = 0
        cdef int j
        cdef Group* group
        met = [0] * cdiv(q.parts_x, 2)
        for i in range(self.source.count):
            for j in range(self.source.buckets[i].count):
                group = &self.source.buckets[i].groups[j]
                if group.count == 0:
                    continue
                x, y = i // (parts * q.parts_y), i // parts % q.parts_y
                far_x, far_y = (q.parts_x + group.x - x) % q.parts_x, (q.parts_y + group.y - y) % q.parts_y
                met[far_x // 2] |= 1 << far_x % 2
                if (far_x, far_y) > (most_x, most_y):
                    most_x, most_y = far_x, far_y
        return [most_x + 1, most_y + 1 if most_x == 0 else q.parts_y, q.parts_z, *met]

    cdef int _write(self, const Bucket* bucket, Words* w, const uint8_t* blocks, uint8_t* values,
                    int64_t size) except -1 nogil:
        """Write a bucket's words, and its blocks run by run: they fit, or the balance would have moved them."""
        cdef int64_t row
        cdef int j
        cdef const Group* group
        for j in range(bucket.count):
            group = &bucket.groups[j]
            if group.count == 0:
                continue
            if self.layout.blocks:
                self._write_blocks(group, w)
            else:
                self._write_elements(group, w, NULL)
            for row in range(group.count):
                memcpy(values, blocks + group.rows[row].begin * size, group.rows[row].key * size)
                values += group.rows[row].key * size
        put(w, 0)
        return 0

    cdef void _write_blocks(self, const Group* group, Words* w) noexcept nogil:
        cdef const Layout* q = self.layout
        cdef Share shares[MOST_WORKERS]
        cdef int64_t workers = 0, row, i, begin = self.source.y_starts[group.y]
        if q.updates:
            workers = share_evenly(1, group.blocks, q.workers, shares)
        put(w, group.x * q.parts_y + group.y + 1)
        put(w, group.x)
        put(w, group.y)
        put(w, group.blocks * q.side * q.side)
        put(w, 7 + 2 * group.count + 4 * workers + group.blocks)
        put(w, group.count - 1)
        put(w, workers)
        self._write_updates(group, w, shares, workers, q.side * q.side)
        for row in range(group.count):
            put(w, group.rows[row].number)
            put(w, group.rows[row].key - 1)
            for i in range(group.rows[row].key):
                put(w, self.source.columns[group.rows[row].begin + i] * q.side - begin)

    cdef void _write_elements(self, const Group* group, Words* w, const int32_t* turned) noexcept nogil:
        """Write a sub-group of single elements; with `turned`, its transpose, whose columns and places are there."""
        cdef const Layout* q = self.layout
        cdef Share shares[MOST_WORKERS]
        cdef Share updating[MOST_WORKERS]
        cdef int64_t z = self.source._z_grains(group.z), unit = 4 if q.is_float else 2, each = 2 if turned != NULL else 1
        cdef int64_t workers = share_rows(group.rows, group.count, z, q.workers, shares), updaters = 0, extra = 0
        cdef int64_t row, i, begin = self.source.y_starts[group.y], first, sparse = 0, at = 0, x = group.x, y = group.y
        if q.updates and turned == NULL:
            updaters, extra = share_evenly(1, group.blocks, q.workers, updating), 1
        if turned != NULL:
            x, y = group.y, group.x
        first = 9 + 5 * workers + 4 * updaters + extra
        put(w, group.x * q.parts_y + group.y + 1)
        put(w, x)
        put(w, y)
        put(w, group.blocks)
        put(w, first + 2 * group.count + group.blocks * each)
        put(w, z * q.z_grain)
        put(w, group.count - 1)
        put(w, first)
        put(w, workers)
        for i in range(workers):
            for row in range(at, shares[i].row):
                sparse += group.rows[row].key
            for row in range(shares[i].row, at):
                sparse -= group.rows[row].key
            at = shares[i].row
            put(w, 0 if turned != NULL else sparse)
            put(w, shares[i].columns * q.z_grain)
            put(w, shares[i].column * q.z_grain)
            put(w, shares[i].rows - 1)
            put(w, 2 * at + 5 * (workers - i) + 4 * updaters + extra + sparse * each)
        if extra:
            put(w, updaters)
        self._write_updates(group, w, updating, updaters, 1)
        for row in range(group.count):
            put(w, group.rows[row].number)
            put(w, group.rows[row].key)
            for i in range(group.rows[row].begin, group.rows[row].begin + group.rows[row].key):
                if turned != NULL:
                    put(w, turned[2 * i + 1] * unit)
                    put(w, turned[2 * i] * unit * z * q.z_grain)
                else:
                    put(w, (self.source.columns[i] - begin) * unit * z * q.z_grain)

    cdef void _write_updates(self, const Group* group, Words* w, const Share* shares, int64_t workers,
                             int64_t area) noexcept nogil:
        """Write which blocks each worker of the gradient of the weights has, and where their rows are told."""
        cdef int64_t i, row, before_row
        for i in range(workers):
            row, before_row = 0, 0
            while before_row + group.rows[row].key <= shares[i].column:
                before_row += group.rows[row].key
                row += 1
            put(w, shares[i].column * area)
            put(w, before_row + 4 * (workers - i) + 2 * row)
            put(w, shares[i].column - before_row)
            put(w, shares[i].columns)

    cdef int _write_turned(self, const Bucket* bucket, Words* w) except -1 nogil:
        """Write the words of the gradient of the activations: each sub-group's transpose."""
        cdef int j
        cdef Group turned
        cdef int32_t* columns
        for j in range(bucket.count):
            if bucket.groups[j].count == 0:
                continue
            columns = <int32_t*>self.source._rows(bucket.groups[j].blocks)
            self._turn(&bucket.groups[j], &turned, columns)
            if self.layout.blocks:
                self._write_turned_blocks(&turned, w, columns)
            else:
                self._write_elements(&turned, w, columns)
        put(w, 0)
        return 0

    cdef int _turn(self, const Group* group, Group* turned, int32_t* columns) except -1 nogil:
        """Transpose a sub-group: rows by column, and for each block its new column and its place in the bucket."""
        cdef const Layout* q = self.layout
        cdef int64_t begin = self.source.y_starts[group.y], side = q.side, row, i, column, place = 0, count = 0, held = 0
        cdef int64_t wide = (self.source.y_starts[group.y + 1] - begin) // side
        cdef int64_t high = (self.source.x_starts[group.x + 1] - self.source.x_starts[group.x]) // side
        cdef Item* by_column = self.source._rows(wide)
        cdef Item* by_row = self.source._rows(high)
        memset(by_column, 0, wide * sizeof(Item))
        memset(by_row, 0, high * sizeof(Item))
        for row in range(group.count):
            i = group.rows[row].number // side
            by_row[i].key, by_row[i].begin, by_row[i].number = group.rows[row].key, group.rows[row].begin, place
            place += group.rows[row].key
            for i in range(group.rows[row].key):
                by_column[self.source.columns[group.rows[row].begin + i] - begin // side].key += 1
        for column in range(wide):
            by_column[column].begin, by_column[column].number = held, held
            held += by_column[column].key
        for row in range(high):
            for i in range(by_row[row].key):
                column = self.source.columns[by_row[row].begin + i] - begin // side
                columns[2 * by_column[column].number] = <int32_t>(row * side)
                columns[2 * by_column[column].number + 1] = <int32_t>(by_row[row].number + i)
                by_column[column].number += 1
        for column in range(wide):
            if by_column[column].key:
                by_column[count].key, by_column[count].begin = by_column[column].key, by_column[column].begin
                by_column[count].number = column * side
                count += 1
        sort_items(by_column, count)
        turned[0] = group[0]
        turned.rows, turned.count = by_column, count
        return 0

    cdef void _write_turned_blocks(self, const Group* group, Words* w, const int32_t* columns) noexcept nogil:
        cdef const Layout* q = self.layout
        cdef int64_t row, i
        put(w, group.x * q.parts_y + group.y + 1)
        put(w, group.y)
        put(w, group.x)
        put(w, group.blocks * q.side * q.side)
        put(w, 7 + 2 * group.count + group.blocks)
        put(w, group.count - 1)
        put(w, 0)
        for row in range(group.count):
            put(w, group.rows[row].number)
            put(w, group.rows[row].key - 1)
            for i in range(group.rows[row].begin, group.rows[row].begin + group.rows[row].key):
                put(w, columns[2 * i])
