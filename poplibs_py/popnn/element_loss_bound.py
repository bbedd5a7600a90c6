"""How far losses of elements and their deltas may be from the exact ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..formats import FP32, Floats
from ..formats.bounds import Ball, sum_ball
from ..ops import axes_of
from ..popops.elementwise.bound import finished, numbers
from .loss_bound import single
from .softmax_bound import ROUNDINGS, times

Balls = tuple[Ball, Ball]

_ULP, _TINY = 2 * FP32.unit_roundoff, FP32.smallest_subnormal


def _within_an_ulp(centre: Floats, carried: Any) -> Ball:
    """A function of FP32's, given what its argument's error makes."""
    with np.errstate(all="ignore"):
        radius = carried + np.abs(centre) * _ULP * 1.001 + _TINY
        return Ball(centre, np.where(np.isfinite(centre), radius, np.where(carried > 0, np.inf, 0.0)))


def _quotient(x: Ball, y: Ball) -> Ball:
    """x over y, which is positive, rounded."""
    least, centre = y.centre - y.radius, x.centre / y.centre
    radius = np.where(least > 0, (x.radius + np.abs(centre) * y.radius) / least, np.inf)
    return Ball(centre, radius * (1 + 2.0**-40)).rounded(FP32)


def _squared(x: Floats, e: Floats) -> Balls:
    apart = (Ball.exact(x) - e).rounded(FP32)
    return times(apart, apart), (apart * 2.0).rounded(FP32)


def _huber(x: Floats, e: Floats, delta: float) -> Balls:
    top = float(np.float32(delta))
    apart = (Ball.exact(x) - e).rounded(FP32)
    size = Ball(np.abs(apart.centre), apart.radius)
    least = Ball(np.minimum(size.centre, top), size.radius)
    rest = (size - (least * 0.5).rounded(FP32)).rounded(FP32)
    return times(least, rest), Ball(np.clip(apart.centre, -top, top), apart.radius)


def _binary(x: Floats, e: Floats) -> Balls:
    def ended(log: Ball) -> Ball:
        return Ball(np.maximum(log.centre, -100.0), log.radius)

    exact, other = Ball.exact(x), (Ball.exact(-e) + 1.0).rounded(FP32)
    logs = [ended(_within_an_ulp(log, np.zeros(x.shape))) for log in (np.log(x), np.log1p(-x))]
    loss = (times(Ball.exact(e), logs[0]) + times(other, logs[1])).rounded(FP32) * -1.0
    under = times(exact, (exact * -1.0 + 1.0).rounded(FP32))
    under = Ball(np.maximum(under.centre, float(np.float32(1e-12))), under.radius)
    grad = _quotient((exact - e).rounded(FP32), under)
    promised = (x >= 0) & (x <= 1)
    return _where(promised, loss), _where(promised, grad)


def _where(promised: Any, ball: Ball) -> Ball:
    return Ball(np.where(promised, ball.centre, 0.0), np.where(promised, ball.radius, np.inf))


def _logits(x: Floats, e: Floats, positive: Floats | None) -> Balls:
    t = _within_an_ulp(np.exp(-np.abs(x)), 0.0)
    log = _within_an_ulp(np.log1p(t.centre), t.radius)
    most = _quotient(Ball.exact(np.ones(x.shape)), (t + 1.0).rounded(FP32))
    least = times(t, most)
    own, other = Ball.exact(e), (Ball.exact(-e) + 1.0).rounded(FP32)
    own = own if positive is None else times(Ball.exact(positive), own)
    ahead, behind = (Ball(np.where(x > 0, a.centre, b.centre), np.where(x > 0, a.radius, b.radius))
                     for a, b in ((most, least), (least, most)))
    below, above = ((log + np.maximum(sign * x, 0.0)).rounded(FP32) for sign in (-1, 1))
    loss = (times(own, below) + times(other, above)).rounded(FP32)
    return loss, (times(other, ahead) - times(own, behind)).rounded(FP32)


def _divergence(x: Floats, e: Floats) -> Balls:
    log = _within_an_ulp(np.log(e), np.zeros(e.shape))
    loss = times(Ball.exact(e), (log - x).rounded(FP32))
    none = e == 0
    return Ball(np.where(none, 0.0, loss.centre), np.where(none, 0.0, loss.radius)), Ball.exact(-e)


def _bound(of: Callable[..., Balls], x: Any, expected: Any, weights: Any = None,
           axis: Any = -1, *, mask: Any = None, reduction: str = "sum", deltas_scale: float = 1.0, out: Any = None,
           out_dtype: Any = None, target: Any = None) -> Balls:
    values = numbers(x)
    axes = axes_of(axis, values.ndim, "axis")
    with np.errstate(all="ignore"):
        loss, grad = of(values, numbers(expected))
        if weights is not None:
            by = Ball.exact(np.broadcast_to(numbers(weights), values.shape))
            loss, grad = times(by, loss), times(by, grad)
        if mask is not None:
            kept = np.broadcast_to(mask, values.shape)
            loss, grad = (Ball(np.where(kept, b.centre, 0.0), np.where(kept, b.radius, 0.0)) for b in (loss, grad))
        share = 1 / max(1, prod(values.shape[d] for d in axes)) if reduction == "mean" else 1.0
        deltas = times(single(deltas_scale * share), grad)
        sizes = np.abs(loss.centre).sum(axes)
        summed = sum_ball(loss.centre.sum(axes), sizes, ROUNDINGS + 1, carried=loss.radius.sum(axes)) * share
        known = np.isfinite(summed.centre) & (sizes + loss.radius.sum(axes) < FP32.max)
        total = _where(known, summed.rounded(FP32))
        deltas = _where(np.isfinite(deltas.centre), deltas)
    return finished(total, None, out_dtype, x, expected), finished(deltas, None, out_dtype, x, expected)


def binary_cross_entropy_with_logits_bound(x: Any, *operands: Any, positive_weights: Any = None, **how: Any) -> Balls:
    """Return exact results and radii of a `binary_cross_entropy_with_logits` call."""
    positive = None if positive_weights is None else np.broadcast_to(numbers(positive_weights), numbers(x).shape)
    return _bound(partial(_logits, positive=positive), x, *operands, **how)


def huber_loss_bound(*operands: Any, delta: float = 1.0, **how: Any) -> Balls:
    """Return exact results and radii of a `huber_loss` call."""
    return _bound(partial(_huber, delta=delta), *operands, **how)


mse_loss_bound, binary_cross_entropy_bound, kl_divergence_bound = (
    partial(_bound, of) for of in (_squared, _binary, _divergence))
