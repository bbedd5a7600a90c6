# Cycles of the vertices of sparse fully connected layers, as PopLibs estimates them: popsparse's PerformanceEstimation.
#
# A bucket is taken to hold one sub-group, and each to be this tile's. What is odd below is odd there.

from libc.math cimport pow

cdef enum:
    FORWARD = 0
    GRAD_A = 1
    TRANSPOSE = 2
    FORWARD_BLOCK = 3
    TRANSPOSE_BLOCK = 4
    GRAD_W = 5
    GRAD_W_BLOCK = 6
    GRAD_W_AMP_BLOCK = 7


cdef struct Machine:
    int64_t tiles, workers, exchange_rate, exchange_atom, data_path_bits
    int64_t units                   # matrix units for these types
    bint bus_sharing                # two tiles that receive the same


cdef struct Rows:
    int64_t x, y                    # rows that hold anything, and what each holds


cdef Rows uniform_rows(double ratio, int64_t x, int64_t y) noexcept nogil:
    """Rows of a uniform pattern."""
    cdef Rows rows
    cdef double occupied = 1.0 - pow(1.0 - ratio, <double>y)
    cdef int64_t total = <int64_t>ceil(x * y * ratio)
    rows.x = imax(1, <int64_t>ceil(x * occupied))
    rows.y = cdiv(total, rows.x)
    return rows


cdef struct Tile:
    int64_t rows, columns


cdef int split_between_workers(int64_t rows, int64_t columns, int64_t workers, Tile* tiles) noexcept nogil:
    """Cut rows and columns among workers: in equal parts first, the largest in halves while workers are left."""
    cdef int64_t grains = cdiv(rows * columns, workers)
    cdef int64_t high = imin(cdiv(grains, columns), rows)
    cdef int64_t wide = imin(cdiv(grains, high), columns)
    cdef int64_t down = rows // high, across = columns // wide
    cdef int64_t i, j, half
    cdef int count = 0, largest
    for i in range(down):
        for j in range(across):
            tiles[count].rows = rows - i * high if i == down - 1 else high
            tiles[count].columns = columns - j * wide if j == across - 1 else wide
            count += 1
    while count < workers:
        largest = 0
        for i in range(1, count):
            if tiles[i].rows * tiles[i].columns > tiles[largest].rows * tiles[largest].columns:
                largest = i
        if imax(tiles[largest].rows, tiles[largest].columns) < 2:
            break                   # one element is not cut
        tiles[count] = tiles[largest]
        if tiles[largest].rows > tiles[largest].columns:
            half = cdiv(tiles[largest].rows, 2)
            tiles[count].rows, tiles[largest].rows = half, tiles[largest].rows - half
        else:
            half = cdiv(tiles[largest].columns, 2)
            tiles[count].columns, tiles[largest].columns = half, tiles[largest].columns - half
        count += 1
    return count


cdef int64_t element_cycles(bint grad_a, int64_t buckets, int64_t x, int64_t z, int64_t y, bint is_float,
                            int64_t workers) noexcept nogil:
    """Multiplication by single elements: x rows of y elements, z columns, for a worker."""
    cdef int64_t supervisor = 30 + buckets * (92 if grad_a else 93), over, row, inner
    if is_float:
        over, row = (25, 13) if z == 4 else (27, 11) if z == 2 else (30, 13)
        if grad_a:
            over += 3 if z != 4 and z != 2 else -2
        if z == 4 or z == 2:
            inner = 3 * y if z == 4 else 2 * y
        else:
            inner = 3 if z & 3 else 1
            if z // 4:
                inner += (10 if grad_a else 12) + z // 4 * 3 * y
            if z & 2:
                inner += 8 + z // 2 * 2 * y
            if z & 1:
                inner += 8 + 2 * y
    else:
        over, row = (28, 15) if z == 8 else (30, 11) if z == 4 else (33, 12)
        if grad_a and (z == 8 or z == 4):
            over -= 2
        elif grad_a:
            over, row = 32, 11
        if z == 8 or z == 4:
            inner = 3 * y if z == 8 else 2 * y
        else:
            inner = 0
            if z // 8:
                inner += (14 if grad_a else 16) + z // 8 * 3 * y
            if z & 4:
                inner += 13 + 2 * y
            if z & 3:
                inner += (10 if grad_a else 11) + 2 * y * (z & 3)
    return (over + (row + inner) * x) * workers + supervisor


cdef int64_t transpose_cycles(int64_t buckets, int64_t x, int64_t z, int64_t y, bint is_float,
                              int64_t workers) noexcept nogil:
    """Multiplication by the transpose of single elements, which workers share along y."""
    cdef int64_t supervisor = 30 + buckets * 112, over, row, inner, mine = cdiv(y, workers)
    if is_float:
        over, row, inner = 23, 24, 8
        if z // 2:
            inner += (2 + z // 2 * 3) * mine
        if z & 1:
            inner += 4 * mine
    elif z == 8 or z == 4:
        over, row, inner = 20, 18 if z == 8 else 21, (10 if z == 8 else 7) * mine
    else:
        over, row, inner = 26, 22, 8
        if z // 4:
            inner += (2 + z // 4 * 5) * mine
        if z & 3:
            inner += (5 + 3 * (z & 3)) * mine
    return (over + (row + inner) * x) * workers + supervisor


cdef int64_t block_cycles(bint transposed, int64_t buckets, int64_t x, int64_t z, int64_t high, int64_t wide, int64_t y,
                          bint is_float, bint float_partials, const Machine* m) noexcept nogil:
    """Multiplication by blocks on matrix units: x rows of y blocks, z columns for a worker."""
    cdef int64_t coefficients = high * wide // (2 if is_float else 4)
    cdef int64_t supervisor = 40 + buckets * 102, keeps = 0 if transposed else 1
    cdef int64_t loads = 1, over = 26, inner = 0, each = 0, few = imin(z, 3) - 1   # 0, 1, 2: one column, two, more
    if high == 4:
        each = 4 if is_float else 2
        inner = 14 if is_float else 17 + few
        if not float_partials:
            inner = 15 + few
    elif high == 8:
        each = 8 if is_float else 4
        over = 20 if not is_float and float_partials else 23
        if float_partials:
            inner = 22 if few == 0 or (few == 1 and is_float) else 23
        else:
            inner = 19 if few == 0 else 20
    elif high == 16:
        loads = 2 if m.units == 8 else 1
        each = 4
        over = 23 if float_partials or m.units == 8 else 22
        inner = over + (2 if few == 1 else 1) - (0 if over == 23 else 1)
    supervisor += (y * (coefficients + 3 + 12 * loads) + keeps) * x + 2
    return (over + x * y * loads * (inner + z * each - 3 * keeps)) * m.workers + supervisor


cdef int64_t grad_w_cycles(int64_t x, int64_t z, int64_t y, bint is_float, int64_t workers) noexcept nogil:
    """Gradient of single elements: y in all of a worker's x rows, each counted for every row."""
    cdef int64_t over, row, each
    if is_float:
        over, row = (30, 9) if z == 4 else (32, 7) if z == 2 else (34, 9)
        each = 5 if z == 4 else 4 if z == 2 else 9 + z // 2 + (z & 1)
    else:
        over, row = (30, 11) if z == 8 else (32, 10) if z == 4 else (35, 8)
        each = 5 if z == 8 else 4 if z == 4 else 11 + z // 4 + (3 if z & 2 else 0) + (4 if z & 1 else 0)
    return (over + (row + each * y) * x) * workers + 101


cdef int64_t grad_w_block_cycles(int64_t x, int64_t z, int64_t side, int64_t y, bint is_float, bint float_partials,
                                 int64_t workers) noexcept nogil:
    """Gradient of blocks without matrix units, counted as that of elements is."""
    cdef int64_t over = 26, row = 9, block = 0, each = 0
    if side == 4:
        over = 27 if is_float else 26
        block, each = (45, 12) if is_float else (33, 6) if float_partials else (29, 6)
    elif side == 8:
        over, row, block, each = (24, 7, 208, 48) if is_float else (26, 9, 113, 24)
    elif side == 16:
        over, block, each = 27, 505 if float_partials else 441, 96
    return (over + x * (row + y * (block + z * each))) * workers + 101


cdef int64_t grad_w_amp_cycles(int64_t x, int64_t z, int64_t side, int64_t y, bint is_float, bint float_partials,
                               const Machine* m) noexcept nogil:
    """Gradient of blocks on matrix units, all workers together on each."""
    cdef int64_t n = cdiv(z, 8 if is_float else 16), load = 2 * side, run = 8, keep = 5, off = 4, block = 32
    if side == 16 and m.units == 4 and not is_float:
        run, off = 17, 2
        keep, block = (6, 62) if float_partials else (5, 58)
    elif side == 8:
        off, block = (2, 33) if is_float else (4, 27)
    elif side == 4:
        off, block = (1, 20) if is_float else (2, 17) if float_partials else (1, 15)
    cdef int64_t supervisor = 101 + (x - 1) * 8 + 23
    supervisor += x * (32 + (y - 1) * 10 + y * (15 + (n - 1) * 4 + n * (run + load)))
    return (keep + x * y * (block * n - (n - 1) * off)) * m.workers + supervisor


cdef int64_t cast_cycles(int64_t elements, int64_t size, int64_t out_size, const Machine* m) noexcept nogil:
    """Cast of numbers of one size to another."""
    cdef int64_t each = cdiv(elements, m.workers), width = m.data_path_bits // 8
    return (imax(cdiv(each, imax(1, width // size)), cdiv(each, imax(1, width // out_size))) + 26) * m.workers


cdef int64_t turn_cycles(int64_t blocks, int64_t high, int64_t wide, bint is_float, int64_t workers) noexcept nogil:
    """Transposes of blocks in a bucket."""
    cdef int64_t grain = 2 if is_float else 4, each = 3 if is_float else 4
    cdef int64_t mine = cdiv(blocks, workers), rows = high // grain, columns = wide // grain
    if rows == 1 and columns == 1:
        return 7 + workers * (29 if mine == 1 else 37 + (mine - 2) * each)
    if columns == 1:
        return 7 + workers * (27 + mine * (35 + each * (rows - 2)))
    return 7 + workers * (29 + mine * (18 + rows * (12 + each * (columns - 2))))


cdef int64_t rearrange_cycles(int64_t blocks, int64_t side, int64_t z, bint is_float, int64_t workers) noexcept nogil:
    """Rearrangement of a dense operand for the gradient on matrix units."""
    cdef int64_t n = z // (8 if is_float else 16)
    cdef int64_t each = side // 2 * 12 if is_float else side // 4 * 23
    return 18 + (34 + cdiv(blocks, workers) * (3 + n * (3 + each))) * workers
