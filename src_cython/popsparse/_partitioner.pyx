"""PopLibs' partitioner of dynamic sparsity: which bucket holds which blocks, and the words that say so.

A row of a part of the matrix is a run of neighbouring blocks in the pattern's order, also where a part of z or a spill
cuts it. So an `Item` is a row: how many blocks (`key`), the first of them (`begin`) and the row within its part
(`number`). buckets.pxi fills buckets and moves what spills, encode.pxi writes them, decode.pxi reads them.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

include "popsparse/std_sort.pxi"


include "popsparse/workers.pxi"
include "popsparse/buckets.pxi"
include "popsparse/encode.pxi"
include "popsparse/decode.pxi"


def sorted_as_gcc(const int64_t[::1] keys):
    """Return the places of keys in the order in which GCC's ``std::sort`` leaves them, the largest first: for tests."""
    cdef Item* items = <Item*>malloc(max(1, keys.shape[0]) * sizeof(Item))
    cdef int64_t i
    if items == NULL:
        raise MemoryError
    for i in range(keys.shape[0]):
        items[i].key, items[i].begin, items[i].number = keys[i], 0, i
    sort_items(items, keys.shape[0])
    order = [items[i].number for i in range(keys.shape[0])]
    free(items)
    return order
