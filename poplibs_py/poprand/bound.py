"""What each call with a seed must give: the counter stream is a function of seed, modifier and index, so a draw has
one right result, or a ball around it where its distribution is approximated.

The arithmetic is repeated as the ops state it: FP32 operations, each rounded, and the errors of the inverse
distribution functions. The words come from `reference`, which shares no code with the kernels. Calls without a seed and
those of a modelled IPU have no reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import UnsupportedError, bad_argument
from ..formats import BF16, FP16, FP32, Floats, Format, format_of
from ..formats.bounds import Ball
from .arguments import INT32, at_least, dtype_of, next_below
from .reference import (
    exponential_quantile,
    gumbel_quantile,
    narrow_normal_quantile,
    normal_quantile,
    words,
)

Words = np.ndarray[Any, Any]

QUANTILE_ERROR = 2.0**-21
"""Of an inverse distribution function: the polynomials' own error is below 2^-22 (make_tables.py's fit); seven products
and sums in FP32, whose terms decay threefold, add less than two roundings of the result."""

_MOST = np.float32(2.0**31 - 128)  # the largest float32 below 2^31
_EXP2_ERROR = 2.0**-22


def bits_bound(shape: Any, **call: Any) -> Ball:
    """Return exact results of a `bits` call, as float64 holds them."""
    element = np.dtype(call.get("dtype", np.uint32))
    return Ball.exact(_words(8 * element.itemsize, shape, call).view(element).astype(np.float64))


def uniform_bound(shape: Any, low: float = 0.0, high: float = 1.0, **call: Any) -> Ball:
    """Return exact results and radii of a `uniform` call."""
    element = dtype_of(call.get("dtype", np.float32), (INT32,))
    if element is INT32:
        return Ball.exact(_integers(shape, int(low), int(high), call))
    form = format_of(element)
    if form in (FP16, BF16) and (low, high) == (0.0, 1.0):
        return Ball.exact(_words(16, shape, call) / 65536).rounded(form, "toward-zero")
    begin, bits = at_least(float(low), element), 24 if form == FP32 else 16
    scale = float(np.float32(float(high) - begin)) * 2.0**-bits
    drawn = _words(32, shape, call) >> 8 if form == FP32 else _halves(_extents(shape, call), call)
    x = _affine(Ball.exact(drawn), scale, begin)
    most = max(next_below(float(high), element), begin)
    return x.mapped(lambda v: np.minimum(v, most), 1.0).rounded(form)


def log_uniform_bound(shape: Any, low: float, high: float, base: float = math.e, **call: Any) -> Ball:
    """Return exact results and radii of a `log_uniform` call; the base changes nothing."""
    element = dtype_of(call.get("dtype", np.float32), (INT32,))
    form = FP32 if element is INT32 else format_of(element)
    assert form.dtype is not None
    lower = math.log2(low)
    y = (_words(32, shape, call) >> 8) * 2.0**-24 * (math.log2(high) - lower) + lower
    x = np.exp2(y)
    radius = x * _EXP2_ERROR * (1 + np.maximum(np.abs(y), abs(lower)))
    limits = at_least(float(low), form.dtype), -at_least(-float(high), form.dtype)
    ball = Ball(x, radius).mapped(lambda v: np.clip(v, *limits), 1.0)
    if element is not INT32:
        return ball.rounded(form)
    first, last = (np.trunc(np.clip(ball.centre + side * ball.radius, *limits)) for side in (-1, 1))
    return Ball((first + last) / 2, (last - first) / 2)


def normal_bound(shape: Any, mean: float = 0.0, std: float = 1.0, **call: Any) -> Ball:
    """Return exact results and radii of a `normal` call."""
    return _quantile(normal_quantile, shape, call, std, mean)


def truncated_normal_bound(shape: Any, mean: float = 0.0, std: float = 1.0, alpha: float = 2.0, **call: Any) -> Ball:
    """Return exact results and radii of a `truncated_normal` call."""
    inside, outside = math.erf(alpha / math.sqrt(2.0)), math.erfc(alpha / math.sqrt(2.0))
    if inside <= 0.5:
        return _quantile(narrow_normal_quantile, shape, call, std, mean, inside, 0.0, least=0.0)
    return _quantile(normal_quantile, shape, call, std, mean, inside, outside * 2.0**31)


def exponential_bound(shape: Any, scale: float = 1.0, **call: Any) -> Ball:
    """Return exact results and radii of an `exponential` call."""
    return _quantile(exponential_quantile, shape, call, scale, 0.0, least=0.0)


def gumbel_bound(shape: Any, loc: float = 0.0, scale: float = 1.0, **call: Any) -> Ball:
    """Return exact results and radii of a `gumbel` call."""
    return _quantile(gumbel_quantile, shape, call, scale, loc)


def bernoulli_bound(shape: Any, prob: float = 0.5, **call: Any) -> Ball:
    """Return exact results of a `bernoulli` call, whatever its dtype."""
    return Ball.exact(_kept(prob, shape, call))


def dropout_bound(x: Any, keep_prob: float, scale: float | None = None, **call: Any) -> Ball:
    """Return exact results and radii of a `dropout` call."""
    return shaped_dropout_bound(x, np.shape(x), keep_prob, scale, **call)


def shaped_dropout_bound(x: Any, mask_shape: Any, keep_prob: float, scale: float | None = None, **call: Any) -> Ball:
    """Return exact results and radii of a `shaped_dropout` call."""
    array = np.asarray(x)
    kept = np.broadcast_to(_kept(keep_prob, mask_shape, call), array.shape)
    form, factor = format_of(array), scale
    if factor is None:
        factor = 1.0 / keep_prob if keep_prob >= 2.0**-126 else 0.0
    with np.errstate(all="ignore"):
        product = Ball.exact(array.astype(np.float64)) * float(np.float32(factor))
    made = _stored(product.rounded(FP32), form)
    return Ball(np.where(kept, made.centre, 0.0), np.where(kept, made.radius, 0.0))


def categorical_bound(shape: Any, weights: Any, **call: Any) -> Ball:
    """Return exact results of a `categorical` call, and the neighbours that rounded cumulative weights may give."""
    masses = np.asarray(weights, np.float64)
    last = int(np.flatnonzero(masses)[-1])
    shares = np.cumsum(masses[: last + 1] / masses.max())
    shares = shares[:-1] / shares[-1]
    drawn = _words(64, shape, call) * 2.0**-64
    error = 2.0**-52 * (len(masses) + 4)
    first, end = (np.searchsorted(shares, drawn * (1 + side * error), side="right") for side in (-1, 1))
    return Ball((first + end) / 2, (end - first) / 2)


def permutation_bound(x: Any, *, axis: int = 0, **call: Any) -> Ball:
    """Return exact results of a `permutation` call."""
    rows = x if isinstance(x, np.ndarray) else np.arange(x)
    order = np.argsort(_words(64, rows.shape[axis], call), kind="stable")
    return Ball.exact(np.take(rows, order, axis=axis).astype(np.float64))


def _extents(shape: Any, call: dict[str, Any]) -> tuple[int, ...]:
    if shape is None:
        return tuple(call["out"].shape)
    return tuple(shape) if isinstance(shape, (tuple, list)) else (int(shape),)


def _words(bits: int, shape: Any, call: dict[str, Any], substream: int = 0) -> Words:
    """Words of the counter stream for a call's elements."""
    if call.get("stream", "counter") != "counter":
        raise UnsupportedError(f"stream: got {call['stream']!r}; allowed: 'counter', whose numbers have a reference")
    if call.get("seed") is None:
        raise bad_argument("seed", None, "a seed: what else a call draws depends on those before it")
    extents, modifier, offset = _extents(shape, call), call.get("seed_modifier", 0), call.get("offset", 0)
    return words(bits, math.prod(extents), call["seed"], modifier, offset, substream).reshape(extents)


def _halves(extents: tuple[int, ...], call: dict[str, Any]) -> Words:
    """Elements j and 32 + j of a row of 64 are the halves of its word j."""
    first = call.get("offset", 0)
    begin, count = first // 64 * 32, math.prod(extents)
    rows = -(-(first + count) // 64) - first // 64
    drawn = _words(32, (rows, 32), {**call, "offset": begin})
    elements = np.concatenate([drawn & 0xFFFF, drawn >> 16], axis=1).reshape(-1)
    return elements[first % 64:first % 64 + count].reshape(extents)


def _integers(shape: Any, low: int, high: int, call: dict[str, Any]) -> Floats:
    """The high word of ``word * range``; what is not exactly uniform so is redrawn in the substreams that follow."""
    size, drawn = high - low + 1, _words(64, shape, call)
    threshold = (1 << 64) % size
    found, substream = [], 0
    for i, word in enumerate(drawn.reshape(-1).tolist()):
        while word * size % (1 << 64) < threshold:
            substream += 1
            word = _words(64, shape, call, substream).reshape(-1).tolist()[i]
        found.append((word * size >> 64) + low)
        substream = 0
    return np.array(found, np.float64).reshape(drawn.shape)


def _kept(chance: float, shape: Any, call: dict[str, Any]) -> Words:
    kept: Words = _words(32, shape, call).astype(np.float64) < round(chance * 2.0**32)
    return kept


def _quantile(function: Callable[[Floats, Words], Floats], shape: Any, call: dict[str, Any], scale: float,
              shift: float, slope: float = 1.0, intercept: float = 0.0, least: float = 1.0) -> Ball:
    """An inverse distribution function of the words' tail probabilities, scaled; wrong by a share of its value, or of
    `least` where that is more."""
    drawn, dtype = _words(32, shape, call), dtype_of(call.get("dtype", np.float32))
    tail = ((drawn & 0x7FFFFFFF) | 1).astype(np.float32) * np.float32(slope) + np.float32(intercept)
    z = function(np.minimum(tail, _MOST).astype(np.float64) * 2.0**-31, drawn >> 31)
    ball = Ball(z, QUANTILE_ERROR * np.maximum(np.abs(z), least))
    return _stored(_affine(ball, float(np.float32(scale)), float(np.float32(shift))), format_of(dtype))


def _affine(x: Ball, scale: float, shift: float) -> Ball:
    """``x * scale + shift`` in FP32."""
    return ((x * scale).rounded(FP32) + shift).rounded(FP32)


def _stored(x: Ball, form: Format) -> Ball:
    """Rounded to the format; too large becomes infinity, or the largest number where there is none."""
    if form.has_infinity:
        return x.rounded(form)
    clipped = np.clip(x.centre, -form.max, form.max)
    return Ball(clipped, np.where(clipped == x.centre, x.radius, 0.0)).rounded(form, overflow="saturate")
