# Shares of rows and columns of a tile's workers, in the order in which they are written.

from poplibs_py.whole cimport cdiv, imin

cdef enum:
    MOST_WORKERS = 256


cdef struct Share:
    int64_t row, rows
    int64_t column, columns


cdef void sort_shares(Share* shares, int count) noexcept nogil:
    cdef Item items[MOST_WORKERS]
    cdef Share held[MOST_WORKERS]
    cdef int i
    for i in range(count):
        items[i].key, items[i].number = shares[i].rows * shares[i].columns, i
        held[i] = shares[i]
    sort_items(items, count)
    for i in range(count):
        shares[i] = held[items[i].number]


cdef bint halve(Share* kept, Share* given) noexcept nogil:
    """Give the first half of a share away, along its longer side; whether there was anything to halve."""
    cdef int64_t half
    given[0] = kept[0]
    if kept.rows > kept.columns:
        half = cdiv(kept.rows, 2)
        given.rows, kept.row, kept.rows = half, kept.row + half, kept.rows - half
        return True
    half = cdiv(kept.columns, 2)
    if half == kept.columns:
        return False
    given.columns, kept.column, kept.columns = half, kept.column + half, kept.columns - half
    return True


cdef int share_evenly(int64_t rows, int64_t columns, int64_t workers, Share* shares) noexcept nogil:
    """Equal parts first, then the largest in halves while workers are left."""
    cdef int64_t grains = cdiv(rows * columns, workers)
    cdef int64_t high = imin(cdiv(grains, columns), rows)
    cdef int64_t wide = imin(cdiv(grains, high), columns)
    cdef int64_t down = rows // high, across = columns // wide, i, j
    cdef int count = 0
    for i in range(down):
        for j in range(across):
            shares[count].row, shares[count].rows = i * high, rows - i * high if i == down - 1 else high
            shares[count].column = j * wide
            shares[count].columns = columns - j * wide if j == across - 1 else wide
            count += 1
    while count < workers:
        sort_shares(shares, count)
        if not halve(&shares[0], &shares[count]):
            break
        count += 1
    return count


cdef int share_by_weight(const Item* rows, int64_t count, int64_t columns, int64_t workers,
                         Share* shares) noexcept nogil:
    """Neighbouring rows, about as many blocks for each worker."""
    cdef int64_t total = 0, i, begin = 0, next_row = 0, summed = 0, average, w
    cdef int found = 0
    for i in range(count):
        total += rows[i].key
    average = cdiv(total, workers)
    for w in range(workers):
        while next_row < count and summed + rows[next_row].key <= (w + 1) * average:
            summed += rows[next_row].key
            next_row += 1
        if begin == next_row:
            continue
        shares[found].row, shares[found].column, shares[found].columns = begin, 0, columns
        shares[found].rows = (count if w + 1 == workers else next_row) - begin
        found += 1
        if next_row == count:
            break
        begin = next_row
    return found


cdef int share_rows(const Item* rows, int64_t count, int64_t columns, int64_t workers, Share* shares) noexcept nogil:
    """Shares of a sub-group's rows: by weight where there are many rows."""
    if count > 2 * workers and count > 1:
        return share_by_weight(rows, count, columns, workers, shares)
    return share_evenly(count, columns, workers, shares)
