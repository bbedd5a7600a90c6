"""The counter stream between a call and its kernel: seeds become places of the stream.

`src_cython/kernels/random/aox.h` defines the stream. What `ready` addresses point to runs before every call, with
Python's lock held, which therefore guards the default stream. Beside that: which class a word belongs to.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from pop_records cimport pop_random_place
from program.program cimport pop_tile

import numpy as np

from poplibs_py.checks import whole
from poplibs_py.errors import bad_argument

cdef extern from "kernels/random/call.h":
    pass

cdef extern from "kernels/random/aox.h" nogil:
    ctypedef unsigned long long pop_polynomial  # of 128 bits
    void pop_aox_start(uint64_t *start, uint64_t seed, uint32_t modifier)
    void pop_aox_jump(pop_polynomial steps, uint64_t *s0, uint64_t *s1)

cdef enum:
    MODIFIER_BITS = 32

LAST = 1 << 62
"""The last logical index, in elements as kernels count them."""

cdef int64_t _LAST = LAST

cdef bint _seeded = False
cdef uint64_t _next[2]  # where the stream starts that calls without a seed share: the first row not yet drawn


def seed_default(seed, uint32_t modifier):
    """Start the stream of the calls without a seed again; None: from the system's entropy."""
    start_default(entropy() if seed is None else seed, modifier)


cdef uint64_t entropy() except? 0:
    return np.random.SeedSequence().generate_state(1, np.uint64)[0]


cdef void start_default(uint64_t seed, uint32_t modifier) noexcept:
    global _seeded
    pop_aox_start(_next, seed, modifier)
    _seeded = True


cdef int from_seed(int64_t *words) except -1:
    """The place of a call with a seed."""
    cdef pop_random_place *place = <pop_random_place *>words
    cdef uint64_t seed = place.start[0], modifier = place.start[1], offset = <uint64_t>place.first
    if modifier >> MODIFIER_BITS:
        whole("seed_modifier", modifier, 0, (<int64_t>1 << MODIFIER_BITS) - 1)
    if offset > <uint64_t>(_LAST // place.unit):
        whole("offset", offset, 0, _LAST // place.unit)
    pop_aox_start(place.start, seed, <uint32_t>modifier)
    place.first = <int64_t>offset * place.unit
    return 0


cdef int from_default(int64_t *words) except -1:
    """The next place of the default stream; a call takes whole rows."""
    cdef pop_random_place *place = <pop_random_place *>words
    cdef uint64_t seed
    if place.start[1] or place.first:
        name, value = ("seed_modifier", place.start[1]) if place.start[1] else ("offset", <uint64_t>place.first)
        raise bad_argument(name, value, "0 where there is no seed")
    seed = 0 if _seeded else entropy()
    if not _seeded:  # still: other threads may have run meanwhile
        start_default(seed, 0)
    place.start[0], place.start[1] = _next[0], _next[1]
    pop_aox_jump((place.count + place.per_row - 1) // place.per_row, &_next[0], &_next[1])
    return 0


FROM_SEED = <size_t><void *>from_seed
FROM_DEFAULT = <size_t><void *>from_default


cdef struct look_up_item:
    int64_t first, count


cdef void look_up(const void *work, const pop_tile *tile) noexcept nogil:
    """Write to which class each of some words belongs: how many bounds are not greater. Operands: how many bounds there
    are and these, ascending; words; classes."""
    cdef const look_up_item *item = <const look_up_item *>work
    cdef const uint64_t *bounds = <const uint64_t *>tile.operands[0]
    cdef const uint64_t *words = <const uint64_t *>tile.operands[1]
    cdef int64_t *classes = <int64_t *>tile.operands[2]
    cdef int64_t i, low, rest, half
    cdef uint64_t word
    for i in range(item.first, item.first + item.count):
        word, low, rest = words[i], 1, <int64_t>bounds[0]
        while rest > 0:  # bounds before `low` are not greater, those from `low + rest` on are
            half = rest >> 1
            if bounds[low + half] <= word:
                low += half + 1
                rest -= half + 1
            else:
                rest = half
        classes[i] = low - 1


LOOK_UP = <size_t><void *>look_up
