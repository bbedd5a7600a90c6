"""How wrong running reductions and counts may be: float64's error, and a rounding to FP32 and to the format."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...formats import FP32
from ...formats.bounds import Ball, gamma
from .bound import Rows


def _running(function: Callable[..., Any], error: bool, x: Any, axis: Any = None, *, out: Any = None,
             out_dtype: Any = None, target: Any = None) -> Ball:
    rows = Rows(x, axis, False)
    along = {} if axis is None else {"axis": axis}
    if rows.integral:
        held = rows.held.ravel() if axis is None else rows.held
        with np.errstate(all="ignore"):
            return Ball.exact(np.asarray(function(held, **along), np.float64))
    values = rows.whole.ravel() if axis is None else rows.whole
    rows.shape = values.shape
    with np.errstate(all="ignore"):
        centre = function(values, **along)
        sizes = np.cumsum(np.where(np.isfinite(values), np.abs(values), 0.0), **along) if error else 0.0
        ball = Ball(centre, gamma(max(1, values.size), 2.0**-53) * sizes)
        return rows.finished(ball.rounded(FP32), out, out_dtype)


cumulative_sum_bound, cumulative_prod_bound = partial(_running, np.cumsum, True), partial(_running, np.cumprod, False)
cumulative_max_bound = partial(_running, np.maximum.accumulate, False)
cumulative_min_bound = partial(_running, np.minimum.accumulate, False)


def histogram_bound(x: Any, levels: Any, *, absolute_of_input: bool = False, update: bool = False, out: Any = None,
                    target: Any = None) -> Ball:
    """Return the counts of a `histogram` call."""
    values, edges = Rows(x, None, False).whole.ravel(), np.asarray(levels).astype(np.float64)
    places = np.searchsorted(edges, np.abs(values) if absolute_of_input else values, side="right")
    counts = np.bincount(places, minlength=edges.size + 1).astype(np.float64)
    return Ball.exact(counts + (np.asarray(out, np.float64) if update else 0.0))


def bincount_bound(x: Any, weights: Any = None, *, minlength: int = 0, target: Any = None) -> Ball:
    """Return exact results and radii of a `bincount` call."""
    places = np.asarray(x).astype(np.int64)
    if weights is None:
        return Ball.exact(np.bincount(places, minlength=minlength).astype(np.float64))
    with np.errstate(all="ignore"):
        added = np.asarray(weights).astype(np.float64)
        sizes = np.bincount(places, np.where(np.isfinite(added), np.abs(added), 0.0), minlength)
        sums = np.bincount(places, added, minlength).astype(np.float64)
        return Ball(sums, gamma(max(1, added.size), 2.0**-53) * sizes).rounded(FP32)
