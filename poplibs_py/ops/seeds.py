"""Seeds: one number of 64 bits, or two words of 32."""

from __future__ import annotations

import numpy as np

from ..checks import whole
from ..errors import bad_argument

Seed = int | tuple[int, int]
"""One number of 64 bits, or two words of 32: what every argument that is called ``seed`` takes."""

_WORD, _WORDS = 2**32 - 1, 2**64 - 1


def seed_of(seed: object, name: str = "seed") -> int:
    """Return a seed as one number: itself, or ``s0 + 2**32 * s1`` for a pair.

    Examples
    --------
    >>> seed_of((1, 2)) == 1 + 2 * 2**32
    True
    """
    if isinstance(seed, (tuple, list)) or (isinstance(seed, np.ndarray) and seed.ndim == 1):
        if len(seed) != 2:
            raise bad_argument(name, seed, "two words of 32 bits, or a whole number of 64 bits")
        low, high = (whole(name, word, 0, _WORD) for word in seed)
        return low | high << 32
    return whole(name, seed, 0, _WORDS)
