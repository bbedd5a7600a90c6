"""PopLibs' hash of a plan, from which it takes the tile that the plan begins on."""

from __future__ import annotations

from collections.abc import Iterable

_MASK = 2**64 - 1
_FACTOR = 0xC6A4A7935BD1E995
_SEED = 0x9E3779B9  # 2^32 / golden ratio


def hashed(numbers: Iterable[int]) -> int:
    """Fold integers into 64 bits, one after another, by MurmurHash2's mixing step (A. Appleby, 2008).

    Examples
    --------
    >>> from poplibs_py.planner.hashing import hashed
    >>> hashed([]) == 2**32 * 2 // (1 + 5**0.5)
    True
    """
    seed = _SEED
    for value in numbers:
        value = value * _FACTOR & _MASK
        value = (value ^ value >> 47) * _FACTOR & _MASK
        seed = ((seed ^ value) * _FACTOR + 0xE6546B64) & _MASK
    return seed
