"""How wrong reductions may be.

A block of a row is up to 512 elements in FP32, each of which meets r = `roundings` of them; blocks are merged in
float64, whose error is `_MERGED` of the magnitudes at most. With u = 2^-24:

- sums: gamma(r) of the magnitudes, and one rounding where there are several blocks or a scale;
- compensated ones: what a sum of two loses is known exactly, and lost again only where it is added up: gamma(r) of
  gamma(2 r) of the magnitudes;
- variances: with c a block's shift and d = x - c rounded once, the errors of sum(d^2) and (sum d)^2 / m are at most
  gamma(r + 3) (2 M + 3 m e^2), M being the block's second moment and e its mean's distance from c; those of the
  blocks' means change what is between blocks by gamma of that and of M. Together 3.01 gamma M and 4.01 gamma e^2 of
  all, and e <= gamma(r + 1) mean(abs(x));
- on a modelled machine chains of FP32 numbers make sums: gamma(n) of the magnitudes, and one rounding of a scale and of
  the product with it;
- logarithms: an exponent's rounding weighs t e^-t for an element t below its block's greatest, which is less than below
  the row's; the exponential is within 1 ulp, its sum as above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ...formats import FP16, FP32, Floats, QuarterArray, format_of
from ...formats.bounds import Ball, gamma, sum_ball
from ...ops import target_of
from ..elementwise.bound import array_of, finished

_U = FP32.unit_roundoff
_LEAST = FP32.smallest_subnormal
_MERGED = 2.0**-36  # float64 sums of 2^16 blocks


def roundings(count: int) -> int:
    """Return the most roundings that an element of a row of so many meets in FP32.

    Examples
    --------
    >>> [roundings(n) for n in (1, 2, 16, 17, 512, 10**6)]
    [0, 1, 4, 5, 13, 13]
    """
    n = min(count, 512)
    steps, parts, lanes = math.ceil(n / 64), min(4, math.ceil(n / 16)), min(n, 16)
    return max(0, steps - 1 + sum(math.ceil(math.log2(max(1, joined))) for joined in (parts, lanes)))


class Rows:
    """The operand of a call as rows of float64, one for each result."""

    def __init__(self, x: Any, axes: Any, keepdims: bool) -> None:
        if isinstance(x, QuarterArray):
            self.integral, self.source, values = False, x.format, x.to_array(np.float64)
        else:
            held = array_of(x)
            self.integral = held.dtype.kind in "biu"
            self.source = FP32 if self.integral else format_of(held, "x")
            self.held = held
            with np.errstate(invalid="ignore"):
                values = held.astype(np.float64)
        named = range(values.ndim) if axes is None else [axes] if isinstance(axes, (int, np.integer)) else axes
        self.whole: Floats = values
        self.axes = tuple(sorted(int(axis) % values.ndim for axis in named))
        kept = [d for d in range(values.ndim) if d not in self.axes]
        self.shape = tuple((1 if d in self.axes else n) for d, n in enumerate(values.shape)
                           if keepdims or d not in self.axes)
        self.count = math.prod(values.shape[d] for d in self.axes)
        results = math.prod(values.shape[d] for d in kept)
        self.values: Floats = values.transpose(*kept, *self.axes).reshape(results, self.count)
        self.magnitudes: Floats = np.where(np.isfinite(self.values), np.abs(self.values), 0.0)

    def finished(self, ball: Ball, out: Any, out_dtype: Any) -> Ball:
        """The results of an FP32 ball, rounded to the call's format."""
        return finished(ball.reshape(*self.shape), out, out_dtype, self.source)

    def exactly(self, centre: Any) -> Ball:
        """Results that are what they are."""
        return Ball.exact(np.asarray(centre, np.float64).reshape(self.shape))

    def integers(self, function: Callable[..., Any], **how: Any) -> Ball:
        """What NumPy makes of integers."""
        with np.errstate(all="ignore"):
            return self.exactly(function(self.held, axis=self.axes, **how))


def _sums(rows: Rows, terms: Floats, magnitudes: Floats, compensated: bool, scale: float = 1.0,
          target: Any = None) -> Ball:
    """FP32 sums along rows of exact terms, times a scale."""
    chained, count = target_of(target).kind != "host", rows.count
    depth = count if chained else roundings(count)
    with np.errstate(all="ignore"):
        sizes, centre = magnitudes.sum(1), terms.sum(1)
        ball = sum_ball(centre, sizes, depth + 1)  # a square is rounded where it is added
        radius = ball.radius
        if compensated:
            twice = gamma(depth + 1, _U) * gamma(2 * depth + 4, _U) * sizes + 4 * (count + 1) * _LEAST
            radius = np.where(np.isinf(radius), radius, twice)
        own = (gamma(count, 2.0**-53) + _MERGED * (count > 512)) * sizes
        ball = Ball(centre, radius + own) * scale
        if chained and scale != 1:
            rounded = _U * np.where(np.isfinite(ball.centre), np.abs(ball.centre) + ball.radius, 0.0)
            ball = Ball(ball.centre, ball.radius + rounded + _LEAST * magnitudes.sum(1))
    return ball.rounded(FP32) if count > 512 or compensated or scale != 1 else ball


def _of_rows(integers: Callable[..., Any] | None) -> Callable[[Callable[..., Ball]], Callable[..., Ball]]:
    """Make what gives FP32 results of rows the bound of an op's calls; of integers NumPy's function does, if there is
    one, else what it gives is rounded no more."""
    def made(function: Callable[..., Ball]) -> Callable[..., Ball]:
        @wraps(function)
        def bound(x: Any, axes: Any = None, *, keepdims: bool = False, out: Any = None, out_dtype: Any = None,
                  target: Any = None, **own: Any) -> Ball:
            rows = Rows(x, axes, keepdims)
            if rows.integral and integers is not None:
                return rows.integers(integers)
            with np.errstate(all="ignore"):
                ball = function(rows, target, **own)
                return ball.reshape(*rows.shape) if rows.integral else rows.finished(ball, out, out_dtype)

        return bound

    return made


@_of_rows(np.sum)
def sum_bound(rows: Rows, target: Any, compensated: bool = False) -> Ball:
    """Return exact results and radii of a `sum` call."""
    return _sums(rows, rows.values, rows.magnitudes, compensated, target=target)


@_of_rows(None)
def square_sum_bound(rows: Rows, target: Any, compensated: bool = False) -> Ball:
    """Return exact results and radii of a `square_sum` call."""
    return _sums(rows, rows.values**2, rows.magnitudes**2, compensated, target=target)


@_of_rows(None)
def mean_bound(rows: Rows, target: Any, compensated: bool = False) -> Ball:
    """Return exact results and radii of a `mean` call."""
    if rows.integral:
        return Ball.exact(rows.values.sum(1) / np.float64(rows.count)).rounded(FP32)
    scale = 1 / rows.count if rows.count else math.nan
    return _sums(rows, rows.values, rows.magnitudes, compensated, scale, target)


@_of_rows(np.prod)
def prod_bound(rows: Rows, _: Any) -> Ball:
    """Return exact results and radii of a `prod` call: nothing is promised where a part may overflow or underflow."""
    centre = rows.values.prod(1)
    powers = np.where(rows.magnitudes > 0, np.log2(np.where(rows.magnitudes > 0, rows.magnitudes, 1.0)), 0.0)
    high, low = np.maximum(powers, 0).sum(1), np.minimum(powers, 0).sum(1)
    risky = (high > FP32.max_exponent) | (low < -126)
    radius = gamma(rows.count, _U) * np.abs(np.where(np.isfinite(centre), centre, 0.0))
    return Ball(centre, np.where(risky, np.inf, radius))


max_bound, min_bound = (
    _of_rows(of)(lambda rows, _, of=of: Ball.exact(of(rows.values, axis=1))) for of in (np.max, np.min))


def _known(function: Callable[[Floats], Any]) -> Callable[..., Ball]:
    """Return what gives the results of an op that are known without an error: of each row what a function says."""
    def bound(x: Any, axes: Any = None, *, keepdims: bool = False, out: Any = None, target: Any = None) -> Ball:
        rows = Rows(x, axes, keepdims)
        return rows.exactly(function(rows.values))

    return bound


any_bound = _known(lambda rows: (rows != 0).any(1))
all_bound = _known(lambda rows: (rows != 0).all(1))
has_nan_bound = _known(lambda rows: np.isnan(rows).any(1))
has_nan_or_inf_bound = _known(lambda rows: (~np.isfinite(rows)).any(1))
argmax_bound = _known(lambda rows: rows.argmax(1))
argmin_bound = _known(lambda rows: rows.argmin(1))


def _with_places(extreme: Callable[..., Ball], place: Callable[..., Ball]) -> Callable[..., tuple[Ball, Ball]]:
    """Return what gives the results of extremes with their places."""
    def bound(x: Any, axes: Any = None, *, keepdims: bool = False, out: Any = None, out_dtype: Any = None,
              target: Any = None) -> tuple[Ball, Ball]:
        return extreme(x, axes, keepdims=keepdims, out_dtype=out_dtype), place(x, axes, keepdims=keepdims)

    return bound


max_with_indices_bound = _with_places(max_bound, argmax_bound)
min_with_indices_bound = _with_places(min_bound, argmin_bound)


def _spread_ball(rows: Rows, ddof: int) -> Ball:
    """Variances before they are rounded."""
    count, depth = rows.count, roundings(rows.count)
    with np.errstate(all="ignore"):
        mean = rows.values.sum(1, keepdims=True) / np.float64(count)
        moment = ((rows.values - mean) ** 2).sum(1)
        squares = (rows.magnitudes**2).sum(1)
        relative = gamma(depth + 3, _U)
        apart = gamma(depth + 2, _U) ** 2 * squares + count * (4 * _LEAST) ** 2
        finite = np.where(np.isfinite(moment), moment, 0.0)
        radius = relative * (3.01 * finite + 4.01 * apart) + 2.0**-30 * finite + 2.0**-70 * squares + 8 * count * _LEAST
        # a block's sums may overflow
        over = (4 * finite + 4 * apart > FP32.max) | (rows.magnitudes.sum(1) > FP32.max / 2)
        less = count - ddof
        scale = 1 / less if less > 0 else math.inf
        moment = moment if count else np.full_like(moment, np.nan)
        return Ball(moment * scale, np.where(over & np.isfinite(moment), np.inf, radius * scale))


@_of_rows(None)
def variance_bound(rows: Rows, _: Any, ddof: int = 0) -> Ball:
    """Return exact results and radii of a `variance` call."""
    return _spread_ball(rows, ddof).rounded(FP32)


def _root(ball: Ball) -> Ball:
    """Roots of numbers that are not negative."""
    with np.errstate(all="ignore"):
        centre = np.sqrt(ball.centre)
        radius = np.where(np.isfinite(centre), centre - np.sqrt(np.maximum(ball.centre - ball.radius, 0.0)), 0.0)
        radius = np.where(np.isinf(ball.radius), np.inf, radius + 2.0**-52 * np.where(np.isfinite(centre), centre, 0.0))
        return Ball(centre, np.where(ball.centre == 0, np.sqrt(ball.radius), radius))


@_of_rows(None)
def standard_deviation_bound(rows: Rows, _: Any, ddof: int = 0) -> Ball:
    """Return exact results and radii of a `standard_deviation` call."""
    return _root(_spread_ball(rows, ddof)).rounded(FP32)


@_of_rows(None)
def norm_bound(rows: Rows, _: Any, ord: float = 2, compensated: bool = False) -> Ball:
    """Return exact results and radii of a `norm` call."""
    if ord == 1:
        return _sums(rows, np.abs(rows.values), rows.magnitudes, False)
    if ord == 2:
        return _root(_sums(rows, rows.values**2, rows.magnitudes**2, compensated)).rounded(FP32)
    return Ball.exact(np.abs(rows.values).max(1, initial=0.0))


def _logs(rows: Rows) -> Ball:
    """Logarithms of sums before they are rounded."""
    depth, count = roundings(rows.count), rows.count
    with np.errstate(all="ignore"):
        top = rows.values.max(1, keepdims=True, initial=-np.inf)
        below = np.where(np.isinf(top), np.where(np.isinf(rows.values), -rows.values, 0.0), top - rows.values)
        parts = np.exp(-below)
        parts = np.where(np.isnan(parts), 0.0, parts)
        total = np.maximum(parts.sum(1), 1.0)
        weighed = np.where(np.isfinite(below), below, 0.0) * parts
        distance = weighed.sum(1) / total
        relative = gamma(depth + 3, _U) + 1.01 * _U * distance + 2.0**-46 * (1 + count / 512) + count * 2 * _LEAST
        centre = np.where(np.isfinite(top[:, 0]), top[:, 0] + np.log(parts.sum(1)), top[:, 0])
        own = 2.0**-44 * (np.abs(np.log(total)) + np.where(np.isfinite(centre), np.abs(centre), 0.0))
        return Ball(centre, np.where(np.isfinite(centre), 1.01 * relative + own, 0.0))


@_of_rows(None)
def logsumexp_bound(rows: Rows, _: Any) -> Ball:
    """Return exact results and radii of a `logsumexp` call."""
    return _logs(rows).rounded(FP32)


_PLAIN: dict[str, Callable[..., Ball]] = {
    "MUL": prod_bound, "MIN": min_bound, "MAX": max_bound, "LOGICAL_AND": all_bound, "LOGICAL_OR": any_bound,
}  # fmt: skip
_OF_NOTHING = {"ADD": 0.0, "SQUARE_ADD": 0.0, "MUL": 1.0, "MIN": np.inf, "MAX": -np.inf, "LOGICAL_AND": 1.0,
               "LOGICAL_OR": 0.0, "LOG_ADD": -np.inf}


def reduce_bound(x: Any, axes: Any = None, op: str = "ADD", *, scale: Any = None, update: bool = False,
                 keepdims: bool = False, out: Any = None, out_dtype: Any = None, options: Any = None,
                 target: Any = None) -> Ball:
    """Return exact results and radii of a `reduce` call."""
    rows = Rows(x, axes, keepdims)
    before = None
    if update:
        before = out.to_array(np.float64) if isinstance(out, QuarterArray) else np.array(out, np.float64)
    if rows.integral:
        return _integer_bound(rows, op, before)
    if rows.count == 0:
        ball = rows.exactly(np.full(rows.shape, _OF_NOTHING[op]) if before is None else before)
        return ball if op.startswith("LOGICAL") else rows.finished(ball, out, out_dtype)
    if op in _PLAIN:
        more = {} if op.startswith("LOGICAL") else {"out_dtype": out_dtype}
        return _PLAIN[op](x, axes, keepdims=keepdims, out=out, **more)
    if op == "LOG_ADD":
        ball = _logs(rows) + (0.0 if scale is None else float(scale))
        if before is not None:
            with np.errstate(all="ignore"):
                ball = Ball(np.logaddexp(ball.centre, before.ravel()), ball.radius + 2.0**-40)
        return rows.finished(ball.rounded(FP32), out, out_dtype)
    squares = op == "SQUARE_ADD"
    terms, sizes = (rows.values**2, rows.magnitudes**2) if squares else (rows.values, rows.magnitudes)
    ball = _sums(rows, terms, sizes, False, 1.0 if scale is None else float(scale), target)
    if options and target_of(target).kind != "host":
        ball = _of_halves(ball, sizes, abs(1.0 if scale is None else float(scale)))
    if before is not None:
        ball = (ball + before.ravel()).rounded(FP32)
    return rows.finished(ball, out, out_dtype)


def _of_halves(ball: Ball, sizes: Floats, scale: float) -> Ball:
    """Sums whose partial results may be rounded to FP16: on the tiles, between them and at the end, twice in each."""
    with np.errstate(all="ignore"):
        whole = sizes.sum(1)
        radius = gamma(8, FP16.unit_roundoff) * whole + 8 * sizes.shape[1] * FP16.smallest_subnormal
        return Ball(ball.centre, np.where(2 * whole > FP16.max, np.inf, ball.radius + scale * radius))


def _integer_bound(rows: Rows, op: str, before: Any) -> Ball:
    """What integers give, which keep their type and wrap."""
    dtype, added = rows.held.dtype, 0 if before is None else before
    if rows.count == 0:
        if before is not None:
            return Ball.exact(before)
        limits = np.iinfo(dtype) if dtype.kind in "iu" else None
        empty = _OF_NOTHING[op]
        if math.isinf(empty):
            empty = float(empty > 0) if limits is None else float(limits.max if empty > 0 else limits.min)
        return Ball.exact(np.full(rows.shape, empty))
    functions: dict[str, Any] = {"MUL": np.prod, "MIN": np.min, "MAX": np.max, "LOGICAL_AND": np.all,
                                 "LOGICAL_OR": np.any}
    if op in functions:
        return rows.integers(functions[op], **({"dtype": dtype} if op == "MUL" else {}))
    held = rows.held * rows.held if op == "SQUARE_ADD" else rows.held
    with np.errstate(all="ignore"):
        made = np.sum(held, axis=rows.axes, dtype=dtype).reshape(rows.shape)
        return Ball.exact((made + np.asarray(added).astype(dtype)).astype(dtype))
