"""How far norms and their gradients may be from the exact ones."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..formats import FP32
from ..formats.bounds import Ball
from ..poplin.norms import bessel
from ..popops.bound import finished
from ..popops.bound import numbers as held
from .norms import Layout, along, batched, by_channel, grouped
from .softmax_bound import row_sum, times

__all__ = ["batch_norm_bound", "batch_norm_grad_bound", "batch_normalise_bound", "group_norm_bound",
           "group_norm_grad_bound", "instance_norm_bound", "instance_norm_grad_bound", "layer_norm_bound",
           "layer_norm_grad_bound", "rms_norm_bound", "rms_norm_grad_bound"]

Balls = tuple[Ball, Ball, Ball]


def _over(x: Ball, count: int) -> Ball:
    """What float64 makes of a sum, divided."""
    return x * (1 / max(1, count))


def _count(layout: Layout) -> int:
    return prod(layout.shape[d] for d in layout.axes)


def _whitened(x: Ball, layout: Layout, eps: float, factor: float, centred: bool) -> tuple[Ball, Ball]:
    """What scale and shift are given, and one over the deviation."""
    count = _count(layout)
    apart = (x - _over(row_sum(x, layout.axes), count).rounded(FP32)).rounded(FP32) if centred else x
    variance = _over(row_sum(times(apart, apart), layout.axes), count)
    with np.errstate(all="ignore"):
        less = x.centre.mean(layout.axes, keepdims=True) if centred and count else 0.0
        exact = ((x.centre - less) ** 2).sum(layout.axes, keepdims=True) / max(1, count)
        wrong = np.abs(variance.centre - exact) + variance.radius
        inverse = 1 / np.sqrt((exact + eps) * factor)
        least = (exact - wrong + eps) * factor
        most = 1 / np.sqrt((exact + wrong + eps) * factor)
        radius = np.maximum(np.abs(1 / np.sqrt(least) - inverse), np.abs(most - inverse))
        radius = np.where(least > 0, radius + inverse * 2.0**-40, np.inf)
        constant = (exact == 0) & (wrong == 0)  # nothing apart: the same whatever it is divided by
        radius = np.where(constant, inverse * 2.0**-40, radius)
        known = np.isfinite(inverse) & np.isfinite(radius) & np.isfinite(exact)
    by = Ball(np.where(known, inverse, 0.0), np.where(known, radius, np.inf)).rounded(FP32)
    return times(by, apart), by


def _param(value: Any, layout: Layout) -> Ball | None:
    return None if value is None else Ball.exact(held(value).reshape(layout.params))


def _forward(layout: Layout, x: Any, gamma: Any = None, beta: Any = None, *, eps: float = 1e-5,
             unbiased_var_estimate: bool = False, centred: bool = True, out: Any = None, out_dtype: Any = None,
             target: Any = None) -> Ball:
    numbers = held(x)
    factor = bessel(_count(layout), unbiased_var_estimate)
    made, _ = _whitened(Ball.exact(numbers.reshape(layout.shape)), layout, eps, factor, centred)
    scale, shift = _param(gamma, layout), _param(beta, layout)
    made = made if scale is None else times(scale, made)
    made = made if shift is None else (made + shift).rounded(FP32)
    return finished(made.reshape(*numbers.shape), out, out_dtype, *(v for v in (x, gamma, beta) if v is not None))


def _backward(layout: Layout, grad: Any, x: Any, gamma: Any = None, *, eps: float = 1e-5,
              unbiased_var_estimate: bool = False, poplibs_exact: bool = False, centred: bool = True, out: Any = None,
              out_dtype: Any = None, target: Any = None) -> Balls:
    numbers, count = held(x), _count(layout)
    factor = bessel(count, unbiased_var_estimate)
    made, by = _whitened(Ball.exact(numbers.reshape(layout.shape)), layout, eps, factor, centred)
    g, scale = Ball.exact(held(grad).reshape(layout.shape)), _param(gamma, layout)
    d = g if scale is None else times(scale, g)
    outer, summed = Ball.exact(np.ones((1,) * len(layout.shape))), d
    if scale is not None and all(layout.params[a] == 1 for a in layout.axes):  # one for a row: not in its sums
        outer, summed = scale, g
    mean = (_over(row_sum(summed, layout.axes), count) * outer).rounded(FP32)
    product = _over(row_sum(times(summed, made), layout.axes), count) * outer
    share = (product * (1.0 if poplibs_exact else factor)).rounded(FP32)
    apart = (d - mean).rounded(FP32) if centred else d
    in_grad = times(by, (apart - times(share, made)).rounded(FP32))
    axes = tuple(a for a, n in enumerate(layout.params) if n == 1)
    sums = [row_sum(of, axes, more=1).reshape(*layout.own) for of in (times(g, made), g)]
    operands = [v for v in (grad, x, gamma) if v is not None]
    balls = [finished(ball, None, out_dtype, *operands) for ball in (in_grad.reshape(*numbers.shape), *sums)]
    return balls[0], balls[1], balls[2]


def layer_norm_bound(x: Any, gamma: Any = None, beta: Any = None, axes: Any = -1, **how: Any) -> Ball:
    """Return exact results and radii of a `layer_norm` call."""
    return _forward(along(held(x).shape, axes), x, gamma, beta, **how)


def layer_norm_grad_bound(grad: Any, x: Any, gamma: Any = None, axes: Any = -1, **how: Any) -> Balls:
    """Return exact results and radii of a `layer_norm_grad` call."""
    return _backward(along(held(x).shape, axes), grad, x, gamma, **how)


def rms_norm_bound(x: Any, gamma: Any = None, axes: Any = -1, **how: Any) -> Ball:
    """Return exact results and radii of a `rms_norm` call."""
    return _forward(along(held(x).shape, axes), x, gamma, centred=False, **how)


def rms_norm_grad_bound(grad: Any, x: Any, gamma: Any = None, axes: Any = -1, **how: Any) -> Balls:
    """Return exact results and radii of a `rms_norm_grad` call."""
    return _backward(along(held(x).shape, axes), grad, x, gamma, centred=False, **how)


def group_norm_bound(x: Any, groups: int, *params: Any, strided_channel_grouping: bool = False, **how: Any) -> Ball:
    """Return exact results and radii of a `group_norm` call."""
    return _forward(grouped(held(x).shape, groups, strided_channel_grouping), x, *params, **how)


def group_norm_grad_bound(grad: Any, x: Any, groups: int, *params: Any, strided_channel_grouping: bool = False,
                          **how: Any) -> Balls:
    """Return exact results and radii of a `group_norm_grad` call."""
    return _backward(grouped(held(x).shape, groups, strided_channel_grouping), grad, x, *params, **how)


def instance_norm_bound(x: Any, *params: Any, **how: Any) -> Ball:
    """Return exact results and radii of an `instance_norm` call."""
    return _forward(by_channel(held(x).shape), x, *params, **how)


def instance_norm_grad_bound(grad: Any, x: Any, *params: Any, **how: Any) -> Balls:
    """Return exact results and radii of an `instance_norm_grad` call."""
    return _backward(by_channel(held(x).shape), grad, x, *params, **how)


def batch_norm_bound(x: Any, *params: Any, **how: Any) -> Ball:
    """Return exact results and radii of a `batch_norm` call."""
    return _forward(batched(held(x).shape), x, *params, **how)


def batch_norm_grad_bound(grad: Any, x: Any, *params: Any, **how: Any) -> Balls:
    """Return exact results and radii of a `batch_norm_grad` call."""
    return _backward(batched(held(x).shape), grad, x, *params, **how)


def batch_normalise_bound(x: Any, multiplicand: Any, addend: Any, *, out: Any = None, out_dtype: Any = None,
                          target: Any = None) -> Ball:
    """Return exact results and radii of a `batch_normalise` call."""
    numbers = held(x)
    scale, shift = (Ball.exact(held(v).reshape(batched(numbers.shape).params)) for v in (multiplicand, addend))
    return finished((times(scale, Ball.exact(numbers)) + shift).rounded(FP32), out, out_dtype, x)
