"""Ways to cut work up, listed for planners that measure all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]


def least_splits(extent: int, most: int) -> Ints:
    """The least number of parts for each size of the largest, up to so many parts.

    Examples
    --------
    >>> from poplibs_py.planner.partitions import least_splits
    >>> least_splits(12, 12).tolist()
    [1, 2, 3, 4, 6, 12]
    """
    root = int(extent**0.5) + 1
    every = np.union1d(np.arange(1, min(most, root) + 1), -(-extent // np.arange(1, root + 1)))
    return every[(every <= most) & ((every - 1) * -(-extent // every) < extent)].astype(np.int64)


def choices_within(limit: int, options: Sequence[Ints]) -> list[Ints]:
    """Every choice of one of each whose product is no more than a limit: for each the chosen ones, side by side.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.planner.partitions import choices_within
    >>> [chosen.tolist() for chosen in choices_within(4, [np.array([1, 3]), np.array([1, 2])])]
    [[1, 1, 3], [1, 2, 1]]
    """
    used, chosen = np.ones(1, np.int64), list[Ints]()
    for one in options:
        product = used[:, None] * one
        before, here = np.nonzero(product <= limit)
        chosen = [column[before] for column in chosen] + [one[here]]
        used = product[before, here]
    return chosen
