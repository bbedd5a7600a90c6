# Patterns read back from meta-information, every word of which is doubted.

cdef struct Reader:
    const uint16_t* words
    int64_t room
    int64_t side, unit              # of a block, and what offsets are multiplied by
    int64_t parts_x, parts_y
    bint blocks
    int64_t values                  # blocks that a bucket has room for


cdef int64_t read_group(const Reader* r, int64_t at, int64_t place, const int64_t* x_starts, const int64_t* y_starts,
                        int32_t* out, int64_t room) noexcept nogil:
    """Read a sub-group's blocks: row, column and place of each, in blocks. How many, or -1 where a word is wrong."""
    cdef const uint16_t* w = r.words + at
    cdef int64_t head = 7 if r.blocks else 9, part = w[0] - 1, x, y, rows, row, index, found = 0, i, count, column, z
    if at + head > r.room or part >= r.parts_x * r.parts_y:
        return -1
    x, y = part // r.parts_y, part % r.parts_y
    if r.blocks:
        rows, index, z = w[5] + 1, at + 7 + 4 * w[6], r.side
    else:
        rows, index, z = w[6] + 1, at + w[7], r.unit * w[5]
    if z == 0:
        return -1
    for row in range(rows):
        if index + 2 > r.room:
            return -1
        i, count = x_starts[x] + r.words[index], r.words[index + 1] + (1 if r.blocks else 0)
        index += 2
        if i >= x_starts[x + 1] or i % r.side or index + count > r.room or found + count > room:
            return -1
        for column in range(count):
            out[3 * found] = <int32_t>(i // r.side)
            out[3 * found + 1] = <int32_t>((y_starts[y] // r.side) + r.words[index] // z)
            out[3 * found + 2] = <int32_t>(place + found)
            if r.words[index] % z or out[3 * found + 1] >= y_starts[y + 1] // r.side:
                return -1
            index += 1
            found += 1
    return found


def decode(const uint16_t[:, ::1] meta, const int64_t[::1] x_starts, const int64_t[::1] y_starts, dict fields,
           int32_t[:, ::1] out):
    """Read the blocks of all buckets.

    Parameters
    ----------
    meta : uint16 array, shape (buckets, words)
        The forward pass' words.
    x_starts, y_starts : int64 arrays
        Where parts begin, in elements, and the last ends.
    fields : dict
        ``side``, ``blocks``, ``is_float`` and ``values``, the blocks that a bucket has room for.
    out : int32 array, shape (buckets * values, 3)
        Receives row and column, in blocks, and the place of each among all buckets' values.

    Returns
    -------
    int
        How many there are; ``-1 - bucket`` where a bucket's words are wrong.
    """
    cdef Reader r
    cdef int64_t bucket, at, found = 0, held, count, next_one
    r.room, r.side, r.blocks, r.values = meta.shape[1], fields["side"], fields["blocks"], fields["values"]
    r.unit = 4 if fields["is_float"] else 2
    r.parts_x, r.parts_y = x_starts.shape[0] - 1, y_starts.shape[0] - 1
    for bucket in range(meta.shape[0]):
        r.words = &meta[bucket, 0]
        at, held = 0, 0
        while True:
            if at >= r.room:
                return -1 - bucket
            if r.words[at] == 0:
                break
            count = -1
            if at + 9 <= r.room or r.blocks and at + 7 <= r.room:
                count = read_group(&r, at, bucket * r.values + held, &x_starts[0], &y_starts[0],
                                   &out[found, 0] if found < out.shape[0] else NULL, r.values - held)
            if count < 0:
                return -1 - bucket
            next_one = r.words[at + 4]
            if next_one < (7 if r.blocks else 9):
                return -1 - bucket
            at, held, found = at + next_one, held + count, found + count
    return found
