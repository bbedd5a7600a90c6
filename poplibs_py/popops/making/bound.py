"""What arrays are that are made or rearranged, of images and of splines, and how far each may be from that."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import FP16, FP32, Array, Format, QuarterArray, format_of
from ...formats.bounds import Ball, gamma
from ...formats.reference import values
from ...ops import result_format
from ..elementwise.bound import array_of
from .made import element_of

_OWN = 2.0**-50  # of the few steps that are in float64


def _rounded(ball: Ball, element: Any, out: Any = None) -> Ball:
    """Numbers as a result holds them."""
    if not isinstance(element, Format):
        return ball
    power = 2.0 ** out.element_scales().astype(np.float64) if isinstance(out, QuarterArray) else 1.0
    return (ball * (1 / power)).rounded(element) * power


def encode_one_hot_bound(indices: Any, length: int, *, on: Any = 1, off: Any = 0, out: Any = None,
                         dtype: Any = None, target: Any = None) -> Ball:
    """Return the results of an `encode_one_hot` call, rounded once."""
    hot = np.asarray(indices)[..., None].astype(np.float64) == np.arange(length)
    return _rounded(Ball.exact(np.where(hot, float(on), float(off))), element_of(dtype, out, FP32), out)


def iota_bound(n: int, start: int = 0, *, out: Any = None, dtype: Any = None, target: Any = None) -> Ball:
    """Return the results of an `iota` call."""
    return Ball.exact(np.array([float(start + i) for i in range(n)]))


def fill_bound(shape: Any, value: Any, *, out: Any = None, dtype: Any = None, target: Any = None) -> Ball:
    """Return the results of a `fill` call, rounded once."""
    return _rounded(Ball.exact(np.full(shape, float(value))), element_of(dtype, out, FP32), out)


def pad_bound(x: Any, pad_width: Any, mode: Any = "constant", *, out: Any = None, target: Any = None,
              **how: Any) -> Ball:
    """Return the results of a `pad` call: NumPy's, rounded once where they are computed."""
    held = array_of(x)
    integral = held.dtype.kind in "biu"
    if isinstance(pad_width, dict):
        named = {axis % held.ndim: np.broadcast_to(width, 2) for axis, width in pad_width.items()}
        pad_width = [named.get(d, (0, 0)) for d in range(held.ndim)]
    wide = np.broadcast_to(np.asarray(pad_width, np.int64), (held.ndim, 2))
    inside = tuple(slice(max(0, -before), n - max(0, -after)) for n, (before, after) in
                   zip(held.shape, wide.tolist(), strict=True))
    with np.errstate(all="ignore"):
        numbers = (held if integral or callable(mode) else held.astype(np.float64))[inside]
        made = np.pad(numbers, np.maximum(wide, 0), "constant" if mode == "empty" else mode, **how)
        ball = Ball.exact(np.asarray(made).astype(np.float64))
        return ball if integral else ball.rounded(format_of(held))


def normalise_image_bound(x: Any, offsets: Any, scales: Any, in_scale: float = 1.0, *, out: Any = None,
                          target: Any = None) -> Ball:
    """Return exact results of a `normalise_image` call, and the radii of three roundings and a last one."""
    held = array_of(x)
    factor = float(np.float32(in_scale))
    scaled = (Ball.exact(values(held)) * factor).rounded(FP32)
    less = (scaled - values(array_of(offsets))).rounded(FP32)
    made = (less * values(array_of(scales))).rounded(FP32).rounded(FP32 if held.dtype == np.float32 else FP16)
    zeros = [(0, 0)] * (held.ndim - 1) + [(0, 1)]
    return Ball(np.pad(made.centre, zeros), np.pad(made.radius, zeros))


def spline_basis_bound(pseudo: Any, kernel_size: Any, is_open: Any, degree: int = 1, *, out: Any = None,
                       target: Any = None) -> tuple[Ball, Ball]:
    """Return the results of a `spline_basis` call: values of float64, rounded once, and places, which are exact."""
    held = array_of(pseudo)
    sizes, opens = np.asarray(kernel_size).astype(int), np.asarray(is_open).astype(int)
    with np.errstate(all="ignore"):
        v = (held.astype(np.float32) * (sizes - degree * opens).astype(np.float32)).astype(np.float64)
        low = np.floor(v)
        base = np.where(np.isfinite(v), np.mod(low, sizes), 0).astype(np.int64)
        share = v - low
    count, dimensions = held.shape
    shape = count, (degree + 1) ** dimensions
    basis, places = np.ones(shape), np.zeros(shape, np.int64)
    for s in range(basis.shape[1]):
        rest, radix = s, 1
        for d in range(dimensions):
            rest, j = divmod(rest, degree + 1)
            with np.errstate(all="ignore"):
                basis[:, s] *= _spline(share[:, d] + degree - j, degree)
            places[:, s] += (base[:, d] + j) % sizes[d] * radix
            radix *= int(sizes[d])
    made = Ball(basis, np.full(basis.shape, 16 * dimensions * _OWN)).rounded(format_of(held))
    return made, Ball.exact(places.astype(np.float64))


def _spline(t: Array, degree: int) -> Array:
    """The B-spline of a degree over 0 to degree + 1, by Cox' and de Boor's recurrence."""
    if degree == 0:
        return np.where(np.isnan(t), np.nan, ((t >= 0) & (t < 1)).astype(np.float64))
    return np.asarray((t * _spline(t, degree - 1) + (degree + 1 - t) * _spline(t - 1, degree - 1)) / degree)


def spline_weighting_bound(x: Any, weight: Any, basis: Any, weight_index: Any, *, out: Any = None,
                           out_dtype: Any = None, target: Any = None) -> Ball:
    """Return exact results and radii of a `spline_weighting` call: FP32 sums in any order, rounded once."""
    edges, matrices, splines = (values(array_of(a)) for a in (x, weight, basis))
    nodes = np.asarray(weight_index).astype(int)
    with np.errstate(all="ignore"):
        centre = np.einsum("es,ei,esio->eo", splines, edges, matrices[nodes])
        sizes = np.einsum("es,ei,esio->eo", *(np.abs(a) for a in (splines, edges, matrices[nodes])))
        partial = np.einsum("ei,esio->eso", np.abs(edges), np.abs(matrices[nodes])).max(1, initial=0)
        channels, count = edges.shape[1], splines.shape[1]
        greatest = np.abs(splines).max(1, initial=0)[:, None]
        tiny = FP32.smallest_subnormal * (channels * greatest + 1) * (count + 1)
        radius = gamma(channels + count + 3, FP32.unit_roundoff) * sizes + tiny
        fits = np.maximum(sizes, partial) < FP32.max / 2  # sums on the way too
    ball = Ball(np.where(fits, centre, 0.0), np.where(fits, radius, np.inf))
    formats = [format_of(array_of(a)) for a in (x, weight, basis)]
    made = format_of(out if out is not None else out_dtype) if out is not None or out_dtype is not None else None
    return ball.rounded(made or result_format(*formats))
