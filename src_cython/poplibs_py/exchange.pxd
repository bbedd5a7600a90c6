"""What an exchange between tiles costs, for every compiled cost model: `poplibs_py.target.exchange` in C."""

from libc.stdint cimport int64_t

from poplibs_py.whole cimport cdiv

cdef enum:
    SCALE = 16  # of `scaled_exchange_rate`


cdef inline int64_t cycles_to_receive(int64_t bytes, int64_t rate, bint shared=False) noexcept nogil:
    """Cycles for a tile to receive so many bytes; where the tiles of a bus receive the same, at double rate."""
    return cdiv(bytes * SCALE, 2 * rate if shared else rate)
