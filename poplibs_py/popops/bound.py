"""How wrong a cast may be: one rounding, and what becomes of numbers too large."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import QuarterArray, format_of
from ..formats.bounds import Ball
from ..formats.reference import Rounding, default_overflow

__all__ = ["cast_bound"]


def cast_bound(x: Any, format: Any, *, scale: Any = None, block_shape: Any = None, rounding: Rounding = "nearest-even",
               overflow: str | None = None, seed: int | None = None, random_bits: int = 31) -> Ball:
    """Return exact results and radii of a `cast` call; the scale is one for the tensor.

    Parameters
    ----------
    x, format, scale, block_shape, rounding, overflow, seed, random_bits
        As `cast` takes them; a scale for each block, or ``"auto"``, is not described.
    """
    target = format_of(format)
    held = x.to_array(np.float64) if isinstance(x, QuarterArray) else np.asarray(x)
    with np.errstate(invalid="ignore"):
        values = held.astype(np.float64)
        if not target.has_infinity:
            values = np.where(np.isinf(values), np.nan, values)
        power = 2.0 ** (scale or 0)
        ball = Ball.exact(values / power)
    made = ball.rounded(target, rounding, overflow or default_overflow(target, rounding))
    if target.has_infinity:  # `overflow` speaks of finite numbers alone
        endless = np.isinf(ball.centre)
        made = Ball(np.where(endless, ball.centre, made.centre), np.where(endless, 0.0, made.radius))
    return made * power
