"""What bounds of factors and solutions have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import FP32, Floats
from ...formats.bounds import Ball

TINY = 2 * FP32.smallest_subnormal
"""What underflow of a product and of a sum takes away."""

SLACK = 1.001
"""Of float64's own errors, and of an iteration that ends early."""

_TURNS = 40


def at_rest(x: Floats, step: Any, joint: bool = False) -> Floats:
    """Return a bound of the least solution of ``x = step(x)``, step growing with x; infinite where none is found."""
    for _ in range(_TURNS):
        x = step(x)
    x = x * 1.01 + 1e-300
    found = (step(x) <= x).all(axis=(-1, -2), keepdims=True)
    if joint:
        found = found.all(axis=0)
    return np.where(found, x, np.inf)


def mirrored(x: Ball) -> Ball:
    """Return the balls of transposed matrices."""
    return Ball(np.swapaxes(x.centre, -1, -2), np.swapaxes(x.radius, -1, -2))
