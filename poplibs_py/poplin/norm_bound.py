"""How far statistics of normalisation, what is made with them and gradients may be from the exact ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..formats import FP32
from ..formats.bounds import Ball, sum_ball
from ..popops.elementwise.bound import finished, numbers
from .norms import bessel


def norm_statistics_bound(acts: Any, eps: float, *, unbiased_var_estimate: bool = False, stable_algo: bool = False,
                          out: Any = None, out_dtype: Any = None, target: Any = None) -> tuple[Ball, Ball]:
    """Return exact statistics and radii of a `norm_statistics` call, by either algorithm."""
    x = _exact(acts)
    count = math.prod(x.shape[:1] + x.shape[2:])
    mean = _mean(x, count)
    if stable_algo:
        apart = (x - _spread(mean, x)).rounded(FP32)
        variance = _mean((apart * apart).rounded(FP32), count)
    else:
        square = _mean((x * x).rounded(FP32), count)
        variance = (square - (mean * mean).rounded(FP32)).rounded(FP32)
    exact = ((x.centre - _spread(mean, x).centre) ** 2).sum(_axes(x)) / max(1, count)
    variance = Ball(exact, np.abs(variance.centre - exact) + variance.radius)
    scale = np.float64(np.float32(bessel(count, unbiased_var_estimate)))
    scaled = ((variance + float(np.float32(eps))).rounded(FP32) * scale).rounded(FP32)
    true = (exact + eps) * bessel(count, unbiased_var_estimate)
    with np.errstate(all="ignore"):
        least, most = scaled.centre - scaled.radius, scaled.centre + scaled.radius
        inverse = 1 / np.sqrt(true)
        off = np.maximum(np.abs(1 / np.sqrt(least) - inverse), np.abs(1 / np.sqrt(most) - inverse))
        off = np.where(least > 0, off + 4 * FP32.unit_roundoff * (inverse + off), np.inf)
    off = np.where(np.isfinite(mean.radius) & np.isfinite(off), off, np.inf)
    deviation = Ball(np.where(np.isfinite(off), inverse, 0.0), off)
    return finished(mean, None, out_dtype, acts), finished(deviation.rounded(FP32), None, out_dtype, acts)


def norm_whiten_bound(acts: Any, mean: Any, inv_std_dev: Any, *, out: Any = None, out_dtype: Any = None,
                      target: Any = None) -> Ball:
    """Return exact results and radii of a `norm_whiten` call."""
    x = _exact(acts)
    apart = (x - _spread(_exact(mean), x)).rounded(FP32)
    ball = _scaled(_spread(_exact(inv_std_dev), x), apart).rounded(FP32)
    return finished(ball, out, out_dtype, acts, mean, inv_std_dev)


def normalise_bound(whitened: Any, gamma: Any, beta: Any, *, out: Any = None, out_dtype: Any = None,
                    target: Any = None) -> Ball:
    """Return exact results and radii of a `normalise` call."""
    x = _exact(whitened)
    scaled = (x * _spread(_exact(gamma), x)).rounded(FP32)
    return finished((scaled + _spread(_exact(beta), x)).rounded(FP32), out, out_dtype, whitened, gamma, beta)


def norm_gradients_bound(grad: Any, gamma: Any, *, out: Any = None, out_dtype: Any = None, target: Any = None) -> Ball:
    """Return exact results and radii of a `norm_gradients` call."""
    x = _exact(grad)
    return finished((x * _spread(_exact(gamma), x)).rounded(FP32), out, out_dtype, grad, gamma)


def norm_param_gradients_bound(grad: Any, whitened: Any, *, out: Any = None, out_dtype: Any = None,
                               target: Any = None) -> tuple[Ball, Ball]:
    """Return exact results and radii of a `norm_param_gradients` call."""
    g, x = _exact(grad), _exact(whitened)
    of_gamma, of_beta = _sum((x * g).rounded(FP32)), _sum(g)
    return (finished(of_gamma.rounded(FP32), None, out_dtype, grad, whitened),
            finished(of_beta.rounded(FP32), None, out_dtype, grad, whitened))


def norm_statistics_gradients_bound(grad: Any, whitened: Any, inv_std_dev: Any, *, unbiased_var_estimate: bool = False,
                                    poplibs_exact: bool = False, out: Any = None, out_dtype: Any = None,
                                    target: Any = None) -> Ball:
    """Return exact results and radii of a `norm_statistics_gradients` call."""
    g, x = _exact(grad), _exact(whitened)
    count = math.prod(g.shape[:1] + g.shape[2:])
    scale = bessel(count, unbiased_var_estimate and not poplibs_exact)
    product = _mean((x * g).rounded(FP32), count)
    product = (product * Ball(np.asarray(scale), np.asarray(scale * FP32.unit_roundoff * (scale != 1)))).rounded(FP32)
    apart = (g - _spread(_mean(g, count), g)).rounded(FP32)
    inner = (apart - (x * _spread(product, g)).rounded(FP32)).rounded(FP32)
    ball = _scaled(_spread(_exact(inv_std_dev), g), inner).rounded(FP32)
    return finished(ball, out, out_dtype, grad, whitened, inv_std_dev)


def _scaled(by: Ball, x: Ball) -> Ball:
    """A product with what may have overflowed: of nothing too that is NaN."""
    made = by * x
    return Ball(made.centre, np.where(np.isinf(x.radius), np.inf, made.radius))


def _exact(value: Any) -> Ball:
    return Ball.exact(numbers(value))


def _axes(x: Ball) -> tuple[int, ...]:
    return (0, *range(2, x.centre.ndim))


def _sum(x: Ball) -> Ball:
    """Sums by halves: a term meets a rounding for each halving."""
    axes = _axes(x)
    turns = sum(math.ceil(math.log2(x.shape[axis])) if x.shape[axis] else 0 for axis in axes)
    with np.errstate(all="ignore"):
        sizes = np.where(np.isfinite(x.centre), np.abs(x.centre), 0.0)
        return sum_ball(x.centre.sum(axes), sizes.sum(axes), turns + 1, carried=x.radius.sum(axes))


def _mean(x: Ball, count: int) -> Ball:
    total, divisor = _sum(x), max(1, count)
    own = 0.0 if divisor == np.float32(divisor) else FP32.unit_roundoff  # of the number of elements in FP32
    with np.errstate(all="ignore"):
        centre = total.centre / divisor
        return Ball(centre, total.radius / divisor * 1.001 + np.abs(centre) * (2 * own + 2.0**-50)).rounded(FP32)


def _spread(channels: Ball, like: Ball) -> Ball:
    return channels.reshape(1, -1, *(1,) * (like.centre.ndim - 2))
