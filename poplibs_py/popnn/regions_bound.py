"""What samples of regions come to in float64, and how far a right result may lie from that.

A weight is rounded to FP32 once for each axis; a result meets the roundings of its rows' sum, of its columns' and of
the division.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..formats import FP32, Array, Floats
from ..formats.bounds import Ball, sum_ball
from ..popops.elementwise.bound import finished, numbers
from .pooling.request import Images, images

_LARGE = FP32.max / 2  # from which on a sum on the way may overflow


class Samples(NamedTuple):
    """Where regions are sampled along one axis, region after region, bin after bin.

    Attributes
    ----------
    first, each : numpy.ndarray of int64 [R]
        Each region's first sample, and samples of a bin.
    places : numpy.ndarray of int32 [S, 2]
        The elements before and after a sample.
    weights : numpy.ndarray of float64 [S, 2]
        Theirs; 0 for a sample that does not count.
    """

    first: Array
    each: Array
    places: Array
    weights: Array


def samples_of(low: Array, high: Array, bins: int, extent: int, *, sampling_ratio: int, aligned: bool,
               spatial_scale: float, drop_outside: bool) -> Samples:
    """Return where regions from `low` to `high` are sampled along an axis.

    Parameters
    ----------
    low, high : numpy.ndarray of float64 [R]
        Where regions begin and end.
    bins, extent : int
        Of a region, and elements of the axis.
    sampling_ratio, aligned, spatial_scale, drop_outside
        As `roi_align` takes them.
    """
    begin, end = (edge * spatial_scale - (0.5 if aligned else 0.0) for edge in (low, high))
    size = np.maximum(end - begin, 0.0 if aligned else 1.0) / bins
    each = np.full(size.shape, sampling_ratio) if sampling_ratio else np.ceil(size).astype(np.int64)
    counts = each * bins
    first = np.cumsum(counts) - counts
    region = np.repeat(np.arange(len(size)), counts)
    number = np.arange(len(region)) - first[region]
    own = np.maximum(each, 1)[region]
    at = begin[region] + (number // own + (number % own + 0.5) / own) * size[region]
    there = (at <= extent) & ((at >= -1) | (not drop_outside))
    at = np.clip(at, 0, max(0, extent - 1))
    before = np.floor(at).astype(np.int32)
    part = at - before
    weights = np.stack([1 - part, part], 1) * there[:, None]
    places = np.stack([before, np.minimum(before + 1, max(0, extent - 1))], 1).astype(np.int32)
    return Samples(first.astype(np.int64), each.astype(np.int64), places, weights)


def _matrices(samples: Samples, bins: int, extent: int) -> Floats:
    """What each bin takes of each element of an axis, without the division: [R, bins, extent]."""
    made = np.zeros((len(samples.first), bins, extent))
    for region, (first, each) in enumerate(zip(samples.first, samples.each, strict=True)):
        for sample in range(each * bins):
            for place, weight in zip(samples.places[first + sample], samples.weights[first + sample], strict=True):
                made[region, sample // each, place] += weight
    return made


def _linear(rois: Any, shape: Images, bins: tuple[int, int], how: dict[str, Any]) -> tuple[Floats, Floats, Floats, int]:
    """Rows' and columns' matrices, what each region divides by, and most roundings of a term."""
    boxes = numbers(rois)
    asked = {"sampling_ratio": 0, "spatial_scale": 1.0, "aligned": False, "drop_outside": False} | how
    rows, columns = (samples_of(boxes[:, axis], boxes[:, axis + 2], bins[d], shape.field[d], **asked)
                     for d, axis in enumerate((1, 0)))
    counts = np.maximum(rows.each * columns.each, 1).astype(np.float64)
    terms = 2 * int(rows.each.max(initial=0)) + 2 * int(columns.each.max(initial=0)) + 5
    return _matrices(rows, bins[0], shape.field[0]), _matrices(columns, bins[1], shape.field[1]), counts, terms


def _finite(x: Floats) -> Floats:
    return np.where(np.isfinite(x), np.abs(x), 0.0)


def roi_align_bound(data: Any, rois: Any, batch_index: Any, aligned_height: int, aligned_width: int, *,
                    layout: str = "NCHW", out: Any = None, out_dtype: Any = None, target: Any = None,
                    **how: Any) -> Ball:
    """Return exact results and radii of a `roi_align` call: nothing is promised of images that are not finite."""
    held = numbers(data)
    shape = images("data", held.shape, layout)
    held = np.moveaxis(held, -1, 1) if shape.channels_last else held
    rows, columns, counts, terms = _linear(rois, shape, (aligned_height, aligned_width), how)
    own = held[np.asarray(batch_index)]
    with np.errstate(all="ignore"):
        lines = np.einsum("rah,rchw->rcaw", rows, _finite(own))
        sums, sizes = np.einsum("rah,rbw,rchw->rcab", rows, columns, _fixed(own)), np.einsum(
            "rbw,rcaw->rcab", columns, lines)
        risky = np.einsum("rah,rbw,rchw->rcab", rows > 0, columns > 0, ~np.isfinite(own)) > 0
        risky |= np.einsum("rbw,rcaw->rcab", columns > 0, lines > _LARGE) > 0
        ball = sum_ball(sums, sizes, np.full(sums.shape, terms)) * (1 / counts[:, None, None, None])
        ball = ball.rounded(FP32)
    ball = Ball(ball.centre, np.where(risky, np.inf, ball.radius))
    return finished(_laid(ball, shape), out, out_dtype, data)


def roi_align_input_gradient_bound(grad: Any, rois: Any, batch_index: Any, x_shape: Any, *, layout: str = "NCHW",
                                   out: Any = None, out_dtype: Any = None, target: Any = None, **how: Any) -> Ball:
    """Return exact results and radii of a `roi_align_input_gradient` call, as `roi_align_bound`."""
    held = numbers(grad)
    shape = images("x_shape", tuple(x_shape), layout)
    held = np.moveaxis(held, -1, 1) if shape.channels_last else held
    rows, columns, counts, terms = _linear(rois, shape, tuple(held.shape[2:]), how)
    sums, sizes, met, risky = (np.zeros((shape.batch, shape.channels, *shape.field)) for _ in range(4))
    with np.errstate(all="ignore"):
        for region, sample in enumerate(np.asarray(batch_index)):
            for total, x in ((sums, _fixed(held)), (sizes, _finite(held)), (risky, (~np.isfinite(held)).astype(float))):
                total[sample] += np.einsum("ah,bw,cab->chw", rows[region], columns[region], x[region]) / counts[region]
            lines = np.einsum("bw,cab->caw", columns[region], _finite(held[region])) / counts[region]
            risky[sample] += np.einsum("ah,caw->chw", rows[region] > 0, lines > _LARGE)
            met[sample] += terms + 4 * held.shape[2] * terms  # bins may take the same element
        ball = sum_ball(sums, sizes, met)
    ball = Ball(ball.centre, np.where(risky > 0, np.inf, ball.radius))
    return finished(_laid(ball, shape), out, out_dtype, grad)


def _fixed(x: Floats) -> Floats:
    return np.where(np.isfinite(x), x, 0.0)


def _laid(ball: Ball, shape: Images) -> Ball:
    if not shape.channels_last:
        return ball
    return Ball(np.moveaxis(ball.centre, 1, -1), np.moveaxis(ball.radius, 1, -1))
