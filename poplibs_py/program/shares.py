"""How work is shared: how many threads it is worth, and which tile each of its items goes to."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["spread", "threads_for"]


def threads_for(work: int, each: int, most: int) -> int:
    """Return how many threads so much work is worth: one for each `each` of it, from 1 to `most`.

    Examples
    --------
    >>> from poplibs_py.program import threads_for
    >>> threads_for(10, 100, 8), threads_for(350, 100, 8), threads_for(10_000, 100, 8)
    (1, 3, 8)
    """
    return max(1, min(most, work // each))


def spread(items: int, tiles: int) -> np.ndarray[Any, Any]:
    """Return the tile of each item: runs of neighbours, as equal as may be.

    Examples
    --------
    >>> from poplibs_py.program import spread
    >>> spread(5, 2).tolist(), spread(2, 4).tolist()
    ([0, 0, 0, 1, 1], [0, 2])
    """
    return np.arange(items) * tiles // max(1, items)
