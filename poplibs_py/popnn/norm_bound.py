"""How far norms and their gradients may be from the exact ones."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from math import prod
from typing import Any

import numpy as np

from ..errors import bad_argument
from ..formats import FP32
from ..formats.bounds import Ball
from ..poplin.norms import bessel
from ..popops.elementwise.bound import finished
from ..popops.elementwise.bound import numbers as held
from . import norms
from .norms import Layout, batched, of_gradients
from .softmax_bound import row_sum, times

Balls = tuple[Ball, Ball, Ball]


def _over(x: Ball, count: int) -> Ball:
    """What float64 makes of a sum, divided."""
    return x * (1 / max(1, count))


def _count(layout: Layout) -> int:
    return prod(layout.shape[d] for d in layout.axes)


def _fused(a: Ball, b: Ball, c: Ball) -> Ball:
    """A product and a sum, rounded once, with what may have overflowed, as `times` has it."""
    made = a * b + c
    lost = np.isinf(a.radius) | np.isinf(b.radius) | np.isinf(c.radius)
    return Ball(made.centre, np.where(lost, np.inf, made.radius)).rounded(FP32)


def _moments(x: Ball, layout: Layout, centred: bool, raw: bool = False) -> Balls:
    """The mean, what numbers are apart from it, and the variance, which is not rounded yet."""
    count = _count(layout)
    mean = _over(row_sum(x, layout.axes), count).rounded(FP32)
    apart = (x - mean).rounded(FP32) if centred else x
    variance = _over(row_sum(times(*(2 * [x if raw else apart])), layout.axes), count)
    with np.errstate(all="ignore"):
        variance = variance - mean * mean if raw else variance
        less = x.centre.mean(layout.axes, keepdims=True) if centred and count else 0.0
        exact = ((x.centre - less) ** 2).sum(layout.axes, keepdims=True) / max(1, count)
        wrong = np.abs(variance.centre - exact) + variance.radius
        known = np.isfinite(exact) & np.isfinite(wrong)
    return mean, apart, Ball(np.where(known, exact, 0.0), np.where(known, wrong, np.inf))


def _inverse(variance: Ball, eps: float, factor: float) -> Ball:
    """One over the deviation."""
    exact, wrong = variance.centre, variance.radius
    with np.errstate(all="ignore"):
        inverse = 1 / np.sqrt((exact + eps) * factor)
        least = (exact - wrong + eps) * factor
        most = 1 / np.sqrt((exact + wrong + eps) * factor)
        radius = np.maximum(np.abs(1 / np.sqrt(least) - inverse), np.abs(most - inverse))
        radius = np.where(least > 0, radius + inverse * 2.0**-40, np.inf)
        constant = (exact == 0) & (wrong == 0)  # nothing apart: the same whatever it is divided by
        radius = np.where(constant, inverse * 2.0**-40, radius)
        known = np.isfinite(inverse) & np.isfinite(radius)
    return Ball(np.where(known, inverse, 0.0), np.where(known, radius, np.inf)).rounded(FP32)


def _param(value: Any, layout: Layout) -> Ball | None:
    return None if value is None else Ball.exact(held(value).reshape(layout.params))


def _field(layout: Layout) -> tuple[int, ...]:
    """The axes along which sums are FP32's; those of segments are added in float64."""
    return tuple(d for d in layout.axes if d != layout.segments)


def _each_place(layout: Layout) -> bool:
    """Whether each place of a row has its gamma."""
    return any(layout.params[d] != 1 for d in _field(layout))


def _forward(layout: Layout, x: Any, gamma: Any = None, beta: Any = None, *, eps: float = 1e-5,
             unbiased_var_estimate: bool = False, centred: bool = True, out: Any = None, out_dtype: Any = None,
             target: Any = None) -> Ball:
    numbers = held(x)
    moments = _moments(Ball.exact(numbers.reshape(layout.shape)), layout, centred)
    made = _normed(layout, moments, gamma, beta, eps, bessel(_count(layout), unbiased_var_estimate))
    return finished(made.reshape(*numbers.shape), out, out_dtype, *(v for v in (x, gamma, beta) if v is not None))


def _normed(layout: Layout, moments: Balls, gamma: Any, beta: Any, eps: float, factor: float) -> Ball:
    """What numbers become of these moments, in FP32."""
    _, made, variance = moments
    by, scale, shift = _inverse(variance, eps, factor), _param(gamma, layout), _param(beta, layout)
    if scale is not None and _each_place(layout):
        made, by = times(by, made), scale
    elif scale is not None:
        by = times(by, scale)
    return _fused(made, by, Ball.exact(0.0) if shift is None else shift)


def _backward(layout: Layout, grad: Any, x: Any, gamma: Any = None, *, eps: float = 1e-5,
              unbiased_var_estimate: bool = False, poplibs_exact: bool = False, centred: bool = True, out: Any = None,
              out_dtype: Any = None, target: Any = None) -> Balls:
    layout = of_gradients(layout)
    numbers, count = held(x), _count(layout)
    factor = bessel(count, unbiased_var_estimate)
    _, apart, variance = _moments(Ball.exact(numbers.reshape(layout.shape)), layout, centred)
    by = _inverse(variance, eps, factor)
    g, scale, made = Ball.exact(held(grad).reshape(layout.shape)), _param(gamma, layout), times(by, apart)
    each, field, rest = scale is not None and _each_place(layout), _field(layout), set(layout.axes)
    d, outer = (times(scale, g), None) if each and scale is not None else (g, scale)

    def added(terms: Ball) -> Ball:
        """Along rows: segments by their gammas, in float64."""
        lines = row_sum(terms, field)
        lines = lines if outer is None else lines * outer
        return _over(lines.sum(tuple(rest - set(field))).reshape(*by.shape), count)

    mean = (added(d) * by).rounded(FP32) if centred else Ball.exact(0.0)
    share = (added(times(d, apart)) * by * by * (1.0 if poplibs_exact else factor)).rounded(FP32)
    in_grad = _fused(d, by if outer is None else times(by, outer), _fused(made, -share, -mean))
    axes = tuple(a for a, n in enumerate(layout.params) if n == 1)
    if _each_place(layout):
        sums = [row_sum(of, axes, more=1) for of in (times(g, made), g)]
    else:
        sums = [of.sum(axes).rounded(FP32) for of in (times(row_sum(times(g, apart), field), by), row_sum(g, field))]
    operands = [v for v in (grad, x, gamma) if v is not None]
    parts = (in_grad.reshape(*numbers.shape), *(of.reshape(*layout.own) for of in sums))
    balls = [finished(ball, to, out_dtype, *operands) for ball, to in zip(parts, out or (None,) * 3, strict=True)]
    return balls[0], balls[1], balls[2]


def _bound(name: str) -> Callable[..., Any]:
    """What returns exact results and radii of a norm's calls, or of its gradients'."""
    taken, way = signature(getattr(norms, name)), _backward if name.endswith("_grad") else _forward

    def bound(*args: Any, **named: Any) -> Any:
        given = taken.bind(*args, **named).arguments
        layout, centred = norms.laid_out(name, held(given["x"]).shape, given)
        return way(layout, centred=centred, **given)

    return bound


layer_norm_bound, rms_norm_bound, group_norm_bound, instance_norm_bound, batch_norm_bound = (
    _bound(f"{kind}_norm") for kind in ("layer", "rms", "group", "instance", "batch"))
layer_norm_grad_bound, rms_norm_grad_bound, group_norm_grad_bound, instance_norm_grad_bound, batch_norm_grad_bound = (
    _bound(f"{kind}_norm_grad") for kind in ("layer", "rms", "group", "instance", "batch"))


def batch_normalise_bound(x: Any, multiplicand: Any, addend: Any, *, out: Any = None, out_dtype: Any = None,
                          target: Any = None) -> Ball:
    """Return exact results and radii of a `batch_normalise` call."""
    numbers = held(x)
    scale, shift = (Ball.exact(held(v).reshape(batched(numbers.shape).params)) for v in (multiplicand, addend))
    return finished(_fused(scale, Ball.exact(numbers), shift), out, out_dtype, x)


def batch_norm_statistics_bound(x: Any, *, stable_algo: bool = True, all_reduce: Any = None,
                                target: Any = None) -> Balls:
    """Return exact results and radii of a `batch_norm_statistics` call on one machine."""
    numbers = held(x)
    layout = batched(numbers.shape)
    return _statistics(layout, _moments(Ball.exact(numbers), layout, True, not _alone(stable_algo, all_reduce)))


def _alone(stable_algo: bool, all_reduce: Any) -> bool:
    if all_reduce is not None:
        raise bad_argument("all_reduce", all_reduce, "None: a bound knows of one machine alone")
    return stable_algo


def _statistics(layout: Layout, moments: Balls) -> Balls:
    mean, _, variance = moments
    return mean.reshape(*layout.own), variance.rounded(FP32).reshape(*layout.own), Ball.exact(float(_count(layout)))


def batch_norm_training_bound(x: Any, gamma: Any = None, beta: Any = None, *, running_mean: Any = None,
                              running_variance: Any = None, momentum: float = 0.1, eps: float = 1e-5,
                              unbiased_var_estimate: bool = False, stable_algo: bool = True, all_reduce: Any = None,
                              out: Any = None, out_dtype: Any = None,
                              target: Any = None) -> tuple[Ball, Balls, Ball, Ball]:
    """Return exact results and radii of a `batch_norm_training` call on one machine."""
    numbers = held(x)
    layout = batched(numbers.shape)
    count = _count(layout)
    moments = _moments(Ball.exact(numbers), layout, True, not _alone(stable_algo, all_reduce))
    y = finished(_normed(layout, moments, gamma, beta, eps, bessel(count, unbiased_var_estimate)), out, out_dtype, x)
    statistics = _statistics(layout, moments)
    before = (Ball.exact(np.full(layout.own, absent) if value is None else held(value))
              for value, absent in ((running_mean, 0.0), (running_variance, 1.0)))
    after = [_fused(new, Ball.exact(momentum * of_batch), old * (1 - momentum))
             for old, new, of_batch in zip(before, statistics, (1.0, bessel(count, True)), strict=False)]
    return y, statistics, after[0], after[1]


def batch_norm_inference_bound(x: Any, mean: Any, variance: Any, gamma: Any = None, beta: Any = None, *,
                               eps: float = 1e-5, out: Any = None, out_dtype: Any = None,
                               target: Any = None) -> Ball:
    """Return exact results and radii of a `batch_norm_inference` call."""
    numbers, centre = held(x), held(mean)
    with np.errstate(all="ignore"):
        scale = (1.0 if gamma is None else held(gamma)) / np.sqrt(held(variance) + eps)
        shift = (0.0 if beta is None else held(beta)) - centre * scale
        sizes = np.abs(scale), np.abs(shift) + np.abs(centre * scale)
    by, more = (Ball(at, np.where(np.isfinite(at), size * 2.0**-50, 0.0)).rounded(FP32).reshape(
        *batched(numbers.shape).params) for at, size in zip((scale, shift), sizes, strict=True))
    return finished(_fused(by, Ball.exact(numbers), more), out, out_dtype, x)


def fold_batch_norm_bound(weights: Any, mean: Any, variance: Any, gamma: Any = None, beta: Any = None,
                          bias: Any = None, *, eps: float = 1e-5, axis: int = 0, out: Any = None,
                          out_dtype: Any = None, target: Any = None) -> tuple[Ball, Ball]:
    """Return exact results and radii of a `fold_batch_norm` call."""
    numbers, centre = held(weights), held(mean)
    with np.errstate(all="ignore"):
        scale = (1.0 if gamma is None else held(gamma)) / np.sqrt(held(variance) + eps)
        moved, before = centre * scale, (0.0 if bias is None else held(bias)) * scale
        shift = 0.0 if beta is None else held(beta)
        sums, size = before + (shift - moved), np.abs(before) + np.abs(shift) + np.abs(moved)
    by, added = (Ball(at, np.where(np.isfinite(at), of * 2.0**-50, 0.0)).rounded(FP32)
                 for at, of in ((scale, np.abs(scale)), (sums, size)))
    along = by.reshape(*(n if d == axis % numbers.ndim else 1 for d, n in enumerate(numbers.shape)))
    return finished(times(along, Ball.exact(numbers)), None, out_dtype, weights), added
