"""How wrong a cast may be: one rounding, and what becomes of numbers too large."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import Format, QuarterArray, format_of
from ..formats.bounds import Ball
from ..formats.reference import Rounding, default_overflow
from ..formats.scales import auto_scale, checked_block_shape, checked_scale, spread
from ._integers import integer_dtype, write_integers

__all__ = ["cast_bound"]

Floats = np.ndarray[Any, np.dtype[np.float64]]


def cast_bound(x: Any, format: Any, *, scale: Any = None, block_shape: Any = None, rounding: Rounding | None = None,
               overflow: str | None = None, seed: int | None = None, random_bits: int = 31, out: Any = None) -> Ball:
    """Return exact results and radii of a `cast` call.

    Parameters
    ----------
    x, format, scale, block_shape, rounding, overflow, seed, random_bits, out
        As `cast` takes them.
    """
    integer = integer_dtype(format)
    if integer is not None:  # one right result each
        numbers = np.array(x.to_array(np.float64) if isinstance(x, QuarterArray) else x, np.float64)
        whole = np.empty(numbers.shape, integer)
        write_integers(numbers, rounding or "toward-zero", whole)
        return Ball.exact(whole)
    target, rounding = format_of(format), rounding or "nearest-even"
    held = x.to_array(np.float64) if isinstance(x, QuarterArray) else np.asarray(x)
    with np.errstate(invalid="ignore"):
        values = held.astype(np.float64)
        if not target.has_infinity:
            values = np.where(np.isinf(values), np.nan, values)
        power = 2.0 ** _exponents(values, target, scale, block_shape, out)
        ball = Ball.exact(values / power)
    made = ball.rounded(target, rounding, overflow or default_overflow(target, rounding))
    if target.has_infinity:  # `overflow` speaks of finite numbers alone
        endless = np.isinf(ball.centre)
        made = Ball(np.where(endless, ball.centre, made.centre), np.where(endless, 0.0, made.radius))
    return made * power


def _exponents(values: Any, target: Format, scale: Any, block_shape: Any, out: Any) -> Floats:
    """The exponent of each element's scale."""
    if isinstance(out, QuarterArray):
        return out.element_scales().astype(np.float64)
    blocks = checked_block_shape(block_shape, values.shape)
    chosen = auto_scale(values, target, blocks) if isinstance(scale, str) else 0 if scale is None else scale
    return spread(checked_scale(chosen, target, values.shape, blocks), values.shape, blocks).astype(np.float64)
