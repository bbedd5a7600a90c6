"""The generators of a modelled IPU: one for each worker of each tile, and how a tile's elements are dealt to them."""

cimport numpy as cnp
from libc.stdint cimport int64_t, uint64_t

import numpy as np

cnp.import_array()

cdef extern from "kernels/random/aox.h" nogil:
    uint64_t pop_aox_scalar(uint64_t *s0, uint64_t *s1)


def warm_up(uint64_t[:, :, ::1] states, int draws):
    """Discard `draws` draws of every worker. `states`: [tiles, workers, 2], the words (s0, s1)."""
    cdef int64_t t, w
    cdef int _draw
    with nogil:
        for t in range(states.shape[0]):
            for w in range(states.shape[1]):
                for _draw in range(draws):
                    pop_aox_scalar(&states[t, w, 0], &states[t, w, 1])


def deal(uint64_t[:, :, ::1] states, const int64_t[::1] elements, int grain, int draws):
    """Draw the 64-bit words of every grain.

    Worker w of W takes grains w, w + W, ... of its tile's elements, `draws` words each, and draws once more after
    its last whole grain: a trailing part of a grain is made of those.

    Parameters
    ----------
    states : [tiles, workers, 2]
        Moved on.
    elements : [tiles]
        Elements on each tile; workers of a tile without any draw nothing.
    grain : int
        Elements of a grain.
    draws : int
        Words of a grain.

    Returns
    -------
    ndarray of uint64 [grains of all tiles, draws]
        In the order of tiles and of grains on a tile.
    """
    cdef int64_t workers = states.shape[1], tiles = states.shape[0], t, w, g, whole, first = 0
    cdef int d
    counts = -(-np.asarray(elements) // grain)
    words = np.empty((int(counts.sum()), draws), np.uint64)
    cdef uint64_t[:, ::1] out = words
    cdef uint64_t word
    with nogil:
        for t in range(tiles):
            if elements[t] == 0:
                continue
            whole = elements[t] // grain
            for w in range(workers):
                g = w
                while g < whole:
                    for d in range(draws):
                        out[first + g, d] = pop_aox_scalar(&states[t, w, 0], &states[t, w, 1])
                    g += workers
                for d in range(draws):
                    word = pop_aox_scalar(&states[t, w, 0], &states[t, w, 1])
                    if g == whole and whole * grain < elements[t]:
                        out[first + g, d] = word
            first += (elements[t] + grain - 1) // grain
    return words


cdef inline int gaussian(uint64_t *state) noexcept nogil:
    """Twelve 5-bit fields of one word, less their mean: 32 times the normal number."""
    cdef uint64_t word = pop_aox_scalar(state, state + 1)
    cdef int total = -186, field
    for field in range(12):
        total += <int>(word >> (5 * field) & 31)
    return total


cdef bint attempt(uint64_t *state, int *fresh, int *kept, bint *accepted, int grain, float limit) noexcept nogil:
    """Accept what lies within the limit of the lanes not yet accepted, and draw again; say whether all lanes are."""
    cdef bint all_accepted = True
    cdef int k
    for k in range(grain):
        if not accepted[k] and -limit <= fresh[k] <= limit:
            accepted[k] = True
            kept[k] = fresh[k]
        all_accepted = all_accepted and accepted[k]
    for k in range(grain):
        fresh[k] = gaussian(state)
    return all_accepted


def deal_truncated(uint64_t[:, :, ::1] states, const int64_t[::1] elements, int grain, float alpha, int redraws):
    """Draw standard normal numbers within ``[-alpha, alpha]``, redrawing the lanes of a grain that fall outside.

    Arguments as for `deal`; `redraws` is how often a grain is drawn again before its lanes that are still outside
    become zero. As on the machine, the trailing part of a grain of two is not drawn again.

    Returns
    -------
    ndarray of float32 [elements of all tiles]
    """
    cdef int64_t workers = states.shape[1], t, w, g, whole, rest, first = 0
    cdef int fresh[4]
    cdef int kept[4]
    cdef bint accepted[4]
    cdef int k, left
    cdef uint64_t *state
    cdef float limit = alpha * 32
    values = np.empty(int(np.asarray(elements).sum()), np.float32)
    cdef float[::1] out = values
    with nogil:
        for t in range(states.shape[0]):
            if elements[t] == 0:
                continue
            whole = elements[t] // grain
            rest = elements[t] % grain
            for w in range(workers):
                state = &states[t, w, 0]
                for k in range(grain):
                    fresh[k] = gaussian(state)
                g = w
                while g < whole or (g == whole and rest):
                    for k in range(grain):
                        kept[k] = 0
                        accepted[k] = False
                    left = redraws
                    if g == whole and grain == 2:
                        while attempt(state, fresh, kept, accepted, grain, limit) and left:
                            left -= 1
                    else:
                        while not attempt(state, fresh, kept, accepted, grain, limit) and left:
                            left -= 1
                    for k in range(grain if g < whole else <int>rest):
                        out[first + g * grain + k] = <float>kept[k] / 32
                    g += workers
            first += elements[t]
    return values


def interleaved(uint64_t[:, :, ::1] states, int64_t rounds):
    """Draw one word of every worker in turn, `rounds` times: uint64 [rounds, tiles, workers]."""
    cdef int64_t r, t, w
    words = np.empty((rounds, states.shape[0], states.shape[1]), np.uint64)
    cdef uint64_t[:, :, ::1] out = words
    with nogil:
        for r in range(rounds):
            for t in range(states.shape[0]):
                for w in range(states.shape[1]):
                    out[r, t, w] = pop_aox_scalar(&states[t, w, 0], &states[t, w, 1])
    return words
