"""How far softmax, its logarithm and their gradients may be from the exact ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..formats import BF16, FP16, FP32
from ..formats.bounds import Ball, gamma, sum_ball
from ..ops import axes_of
from ..popops.elementwise.bound import finished, format_of_operand, numbers

ROUNDINGS = 38
"""In FP32 that a term of a sum meets: 32 in a lane, 6 when lanes are joined."""
SCALED = 62000.0

_U, _TINY, _ULP = FP32.unit_roundoff, FP32.smallest_subnormal, 2 * FP32.unit_roundoff
_BRIEF = 2.0**-18
"""How far powers may be of numbers that are FP16 or BF16."""
_BRIEF_EXPONENTS = 1.25
"""Units of FP32's rounding by which their exponents may be off besides, as shares: a product by a rounded factor."""
_SLACK = 1 + 2.0**-20
"""For float64's own errors, and products of errors."""


def row_sum(x: Ball, axes: tuple[int, ...], more: int = 0) -> Ball:
    """Sums along rows as kernels add them, of parts that were rounded so many times more."""
    with np.errstate(all="ignore"):
        sizes = np.where(np.isfinite(x.centre), np.abs(x.centre), 0.0)
        sizes = sizes.sum(axes, keepdims=True)
        centre = x.centre.sum(axes, keepdims=True)
        return sum_ball(centre, sizes, ROUNDINGS + 1 + more, carried=x.radius.sum(axes, keepdims=True)).rounded(FP32)


def times(by: Ball, x: Ball) -> Ball:
    """A product, rounded, with what may have overflowed: of nothing too that is NaN."""
    made = by * x
    radius = np.where(np.isinf(x.radius) | np.isinf(by.radius), np.inf, made.radius)
    return Ball(made.centre, radius).rounded(FP32)


class Exponentials:
    """What both begin with: e^(z - top), z being what is scaled and masked, and how wrong each part may be."""

    def __init__(self, x: Any, axis: Any, mask: Any, scale: Any) -> None:
        z, by = numbers(x), float(np.float32(scale))
        brief = format_of_operand(x) in (FP16, BF16)
        power, more = (_BRIEF, _BRIEF_EXPONENTS) if brief else (_ULP, 0.0)
        self.axes = axes_of(axis, z.ndim, "axis")
        with np.errstate(all="ignore"):
            self.lost = (np.isfinite(z) & (np.abs(z * by) > FP32.max)).any(self.axes, keepdims=True)
            z = z * by
            if mask is not None:
                z = np.where(np.asarray(mask), z, -np.inf)
            wrong = 0.0 if by == 1 else np.where(np.isfinite(z), np.abs(z) * _U + _TINY, 0.0)
            top = np.max(np.where(np.isnan(z), -np.inf, z), axis=self.axes, keepdims=True, initial=-np.inf)
            top = np.where(top == -np.inf, 0.0, top)
            of_top = 0.0 if by == 1 else np.where(np.isfinite(top), np.abs(top) * _U + _TINY, 0.0)
            self.apart = z - top
            unit = np.where(np.isfinite(self.apart), np.abs(self.apart), 0.0) * _U
            self.wrong = (wrong + of_top + unit) * _SLACK
            self.powers = np.exp(self.apart)
            relative = np.expm1(np.minimum(self.wrong + more * unit, 700)) * (1 + power) + power
            of_powers = np.where(self.powers > 0, self.powers * relative, 0.0) * _SLACK + 2 * _TINY
            self.of_powers = np.where(self.apart == -np.inf, 0.0, of_powers)
            self.sum = self.powers.sum(self.axes, keepdims=True)
            carried = self.of_powers.sum(self.axes, keepdims=True)
            self.of_sum = (carried + gamma(ROUNDINGS, _U) * (self.sum + carried)) * _SLACK
            self.nothing = self.sum == 0


def _softmax(factor: float, x: Any, axis: Any = -1, *, mask: Any = None, scale: float = 1.0, out: Any = None,
             out_dtype: Any = None, target: Any = None) -> Ball:
    e = Exponentials(x, axis, mask, scale)
    with np.errstate(all="ignore"):
        centre = np.where(e.nothing, 0.0, factor * e.powers / e.sum)
        least = e.sum - e.of_sum
        most = np.where(least > 0, factor * (e.powers + e.of_powers) / least, np.inf)
        radius = np.where(e.nothing, 0.0, (most - centre) + 3 * _U * most + 2 * _TINY) * _SLACK
        radius = np.where(e.lost, np.inf, np.where(np.isnan(centre), 0.0, radius))
    return finished(Ball(centre, radius), out, out_dtype, x)


softmax_bound, scaled_softmax_stable_bound = partial(_softmax, 1.0), partial(_softmax, SCALED)


def log_softmax_bound(x: Any, axis: Any = -1, *, mask: Any = None, scale: float = 1.0, out: Any = None,
                      out_dtype: Any = None, target: Any = None) -> Ball:
    """Return exact results and radii of a `log_softmax` call."""
    e = Exponentials(x, axis, mask, scale)
    with np.errstate(all="ignore"):
        log = np.where(e.nothing, 0.0, np.log(np.where(e.nothing, 1.0, e.sum)))
        least = e.sum * (1 - _U) - e.of_sum
        of_log = np.where(least > 0, (e.of_sum + _U * e.sum) / least, np.inf) + np.abs(log) * _ULP + _TINY
        of_log = np.where(e.nothing | np.isnan(log), 0.0, of_log) * _SLACK
        apart = Ball(e.apart, np.where(np.isfinite(e.apart), e.wrong, 0.0)).rounded(FP32)
        made = (apart - Ball(log, of_log)).rounded(FP32)
        radius = np.where(np.isfinite(e.apart), made.radius, 0.0)
        made = Ball(made.centre, np.where(e.lost, np.inf, radius))
    return finished(made, out, out_dtype, x)


def softmax_grad_ball(g: Ball, y: Ball, axes: tuple[int, ...], scale: float) -> Ball:
    """Return gradients of softmax in FP32, given what is known of the gradient of its result, and of that."""
    mean = row_sum(times(g, y), axes)
    apart = (g - mean).rounded(FP32)
    return times(Ball.exact(np.float64(np.float32(scale))), times(y, apart))


def softmax_grad_bound(grad: Any, y: Any, axis: Any = -1, *, scale: float = 1.0, out: Any = None,
                       out_dtype: Any = None, target: Any = None) -> Ball:
    """Return exact results and radii of a `softmax_grad` call."""
    g, made = Ball.exact(numbers(grad)), Ball.exact(numbers(y))
    ball = softmax_grad_ball(g, made, axes_of(axis, g.centre.ndim, "axis"), scale)
    return finished(ball, out, out_dtype, grad, y)


def log_softmax_grad_bound(grad: Any, y: Any, axis: Any = -1, *, scale: float = 1.0, out: Any = None,
                           out_dtype: Any = None, target: Any = None) -> Ball:
    """Return exact results and radii of a `log_softmax_grad` call."""
    g, logs = Ball.exact(numbers(grad)), numbers(y)
    total = row_sum(g, axes_of(axis, g.centre.ndim, "axis"))
    with np.errstate(all="ignore"):
        powers = np.exp(logs)
        radius = np.where(np.isfinite(powers) & (logs > -np.inf), powers * _ULP * _SLACK + 2 * _TINY, 0.0)
        share = Ball(powers, radius).rounded(FP32)
    apart = (g - times(share, total)).rounded(FP32)
    return finished(times(Ball.exact(np.float64(np.float32(scale))), apart), out, out_dtype, grad, y)
