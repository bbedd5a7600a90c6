"""xoroshiro128aox as a NumPy bit generator."""

from libc.stdint cimport uint32_t, uint64_t
from numpy.random cimport BitGenerator

import numpy as np
from numpy.random.bit_generator import SeedlessSeedSequence

from poplibs_py.checks import whole
from poplibs_py.errors import bad_argument, bad_type

cdef extern from *:
    ctypedef unsigned long long pop_polynomial "unsigned __int128"

cdef extern from "kernels/random/aox.h" nogil:
    uint64_t pop_aox_scalar(uint64_t *s0, uint64_t *s1)
    void pop_aox_jump(pop_polynomial steps, uint64_t *s0, uint64_t *s1)

cdef object WORD = (1 << 64) - 1
cdef object MOST_SEED = (1 << 128) - 1  # of each of several

cdef struct aox_state:
    uint64_t s0
    uint64_t s1
    uint32_t has_uint32
    uint32_t uinteger  # the high half of the last word, when only its low half has been used

cdef uint64_t next_uint64(void *st) noexcept nogil:
    cdef aox_state *state = <aox_state *>st
    return pop_aox_scalar(&state.s0, &state.s1)

cdef uint32_t next_uint32(void *st) noexcept nogil:
    cdef aox_state *state = <aox_state *>st
    cdef uint64_t word
    if state.has_uint32:
        state.has_uint32 = 0
        return state.uinteger
    word = pop_aox_scalar(&state.s0, &state.s1)
    state.has_uint32 = 1
    state.uinteger = <uint32_t>(word >> 32)
    return <uint32_t>word

cdef double next_double(void *st) noexcept nogil:
    return <double>(next_uint64(st) >> 11) * (1.0 / 9007199254740992.0)


cdef class Xoroshiro128aox(BitGenerator):
    """Bit generator of the IPU: xoroshiro128 with the AOX output function, rotations 55, 14, 36.

    Use it with `numpy.random.Generator`. Its period is 2**128 - 1. For filling arrays the functions of
    `poplibs_py.poprand` are many times faster; this class is for everything that NumPy can draw.

    Parameters
    ----------
    seed : None, int, sequence of int or numpy.random.SeedSequence, optional
        Expanded by `numpy.random.SeedSequence` to the 128 bits of state, as NumPy's own generators do. Fresh entropy
        of the system by default.
    state : (int, int), optional
        The state's words (s0, s1) themselves, each 64 bits, not both zero, instead of a seed. Such a generator
        cannot `spawn`.

    Raises
    ------
    InvalidArgumentError
        If both are given, or the state is all zero or out of range.

    Notes
    -----
    Definition: D. Hanlon and S. Felix, "A fast hardware pseudorandom number generator based on xoroshiro128",
    arXiv 2203.04058. 32-bit draws take the low half of a word, then its high half; doubles are the word's top 53 bits
    times 2**-53.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poprand
    >>> hex(poprand.Xoroshiro128aox(state=(1, 2)).random_raw())
    '0x3'
    >>> generator = np.random.Generator(poprand.Xoroshiro128aox(42))
    >>> 0 <= generator.random() < 1
    True
    """

    cdef aox_state rng_state

    def __init__(self, seed=None, *, state=None):
        if state is not None:
            if seed is not None:
                raise bad_argument("state", state, "a state or a seed, not both")
            words = self._words(state, "state")
            BitGenerator.__init__(self, SeedlessSeedSequence())
        else:
            if isinstance(seed, SeedlessSeedSequence):
                raise bad_type("seed", seed, "a seed; a generator made from a state has none to spawn from")
            if isinstance(seed, (list, tuple)):  # NumPy goes into each of it, and into itself for good
                seed = [whole("seed", word, 0, MOST_SEED) for word in seed]
            try:
                BitGenerator.__init__(self, seed)
            except Exception:
                raise bad_type("seed", seed, "None, whole numbers from 0, or a SeedSequence") from None
            words = [int(word) for word in self._seed_seq.generate_state(2, np.uint64)]
            if not any(words):
                words[1] = 1
        self.rng_state.s0, self.rng_state.s1 = words
        self.rng_state.has_uint32 = 0
        self.rng_state.uinteger = 0
        self._bitgen.state = <void *>&self.rng_state
        self._bitgen.next_uint64 = &next_uint64
        self._bitgen.next_uint32 = &next_uint32
        self._bitgen.next_double = &next_double
        self._bitgen.next_raw = &next_uint64

    @staticmethod
    def _words(pair, name):
        if not isinstance(pair, (tuple, list, np.ndarray)) or getattr(pair, "ndim", 1) != 1 or len(pair) != 2:
            raise bad_type(name, pair, "two whole numbers (s0, s1)")
        words = whole(name, pair[0], 0, WORD), whole(name, pair[1], 0, WORD)
        if not any(words):
            raise bad_argument(name, pair, "two 64-bit words, not both zero")
        return words

    @property
    def state(self):
        """The whole state as a dictionary, in the form of NumPy's generators; assign it to restore it."""
        return {
            "bit_generator": type(self).__name__,
            "state": {"s0": self.rng_state.s0, "s1": self.rng_state.s1},
            "has_uint32": self.rng_state.has_uint32,
            "uinteger": self.rng_state.uinteger,
        }

    @state.setter
    def state(self, value):
        if not isinstance(value, dict):
            raise bad_type("state", value, "a dictionary such as the state property gives")
        if value.get("bit_generator") != type(self).__name__:
            raise bad_argument("state", value, f"the state of a {type(self).__name__}")
        words = value.get("state")
        if not isinstance(words, dict) or set(words) != {"s0", "s1"}:
            raise bad_argument("state", value, "'state' with the words 's0' and 's1'")
        s0, s1 = self._words((words["s0"], words["s1"]), "state")
        has = whole("has_uint32", value.get("has_uint32", 0), 0, 1)
        half = whole("uinteger", value.get("uinteger", 0), 0, WORD >> 32)
        self.rng_state.s0, self.rng_state.s1 = s0, s1
        self.rng_state.has_uint32, self.rng_state.uinteger = has, half

    cdef int move(self, object steps) except -1:
        steps %= (1 << 128) - 1
        cdef uint64_t low = steps & 0xFFFFFFFFFFFFFFFF
        cdef uint64_t high = steps >> 64
        pop_aox_jump((<pop_polynomial>high << 64) | low, &self.rng_state.s0, &self.rng_state.s1)
        self.rng_state.has_uint32 = 0
        self.rng_state.uinteger = 0
        return 0

    def advance(self, delta):
        """Move the state by `delta` 64-bit draws, forwards or backwards, and return the generator.

        Any whole number is taken in about 10 microseconds; a half-used word is dropped.
        """
        steps = whole("delta", delta)
        with self.lock:
            self.move(steps)
        return self

    def jumped(self, jumps=1, *, exponent=64):
        """Return a new generator whose state is this one's after ``jumps * 2**exponent`` draws.

        Parameters
        ----------
        jumps : int, optional
            How many jumps.
        exponent : int, optional
            32, 64 or 96. The default leaves 2**64 generators of 2**64 draws each.
        """
        steps, exponent = whole("jumps", jumps), whole("exponent", exponent)
        if exponent not in (32, 64, 96):
            raise bad_argument("exponent", exponent, "32, 64 or 96")
        cdef Xoroshiro128aox other = type(self)(state=(self.rng_state.s0, self.rng_state.s1))
        other.move(steps << exponent)
        return other
