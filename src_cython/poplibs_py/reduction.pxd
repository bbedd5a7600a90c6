"""What a reduction's vertex costs, for every compiled cost model."""

from libc.stdint cimport int64_t


cdef inline int64_t grouped_reduce_cycles(int64_t n, int64_t depth, int64_t per_loop, bint float_out, bint float_in,
                                          int64_t workers) noexcept nogil:
    """Tile cycles to add `depth` partials of each of n outputs, a group of them at a time (PopLibs' ReduceAdd)."""
    cdef int64_t group = 4 if float_in else 8, left = n & (group - 1), cycles = 32
    cdef int64_t loops = n // group + (left & 1) + (left >> 1 & 1) + (left >> 2), each = loops // workers
    if loops % workers:
        if left:
            cycles += 2 * depth + (13 if float_in else 11)
        else:
            each += 1
    return (cycles + (per_loop * depth + (6 if float_in else 8) + float_out) * each) * workers
