"""Several machines with a part of a batch each: what they make of their sums together, by PopLibs' callback.

Sums are float32 results of `poplibs_py.popops` reductions; what is made of one number for each channel is float64.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..errors import bad_argument, bad_type
from ..formats import Array, Floats
from ..popops import square_sum
from ..popops import sum as total
from ..popops import variance as spread

Callback = Callable[..., Any]


def callback(all_reduce: Any) -> Callback | None:
    """Return the argument `all_reduce`, or raise."""
    if all_reduce is not None and not callable(all_reduce):
        raise bad_type("all_reduce", type(all_reduce).__name__, "a function, or None")
    return all_reduce  # type: ignore[no-any-return]


def reduced(all_reduce: Callback | None, values: Floats) -> Floats:
    """Return what the callback makes of one machine's sums, or these."""
    if all_reduce is None:
        return values
    made = np.asarray(all_reduce(values.copy()))
    if made.dtype.kind not in "fiu":
        raise bad_type("all_reduce", f"a result of dtype {made.dtype}", "a function that returns sums of its argument")
    if made.shape != values.shape:
        raise bad_argument("all_reduce", f"a result of shape {made.shape}", f"that of its argument, {values.shape}")
    return made.astype(np.float64)


def statistics_of_all(x: Any, shape: tuple[int, ...], all_reduce: Callback, stable: bool) -> tuple[Array, Array, int]:
    """Return each channel's mean and variance, float32, and the number of elements, of all machines.

    Parameters
    ----------
    x : array_like [N, C, ...]
        This machine's part.
    shape : tuple of int
        Of that.
    all_reduce : callable
    stable : bool
        Whether squares are apart from the mean of all, which takes the callback twice.
    """
    axes, count = (0, *range(2, len(shape))), prod(shape) // max(1, shape[1])
    own, other = np.zeros((2, shape[1]))
    if count:
        own, other = (np.asarray(sums(x, axes, out_dtype="float32")).astype(np.float64)
                      for sums in (total, spread if stable else square_sum))
    with np.errstate(all="ignore"):
        first = [np.full(shape[1], float(count)), own]
        counts, sum_of_all, *squares = reduced(all_reduce, np.stack(first if stable else [*first, other]))
        elements = np.maximum(1, counts)
        mean = sum_of_all / elements
        if stable:
            [apart] = reduced(all_reduce, (count * (other + (own / max(1, count) - mean) ** 2))[None]) / elements
        else:
            apart = squares[0] / elements - mean * mean
        made = mean.astype(np.float32), np.where(apart < 0, 0.0, apart).astype(np.float32)
    return *made, int(counts[0]) if counts.size else count
