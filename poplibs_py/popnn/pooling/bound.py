"""What poolings compute, in float64, and how far a right result may lie from that.

Sums of a window are FP32, in any order here; an average is divided once. A gradient of an average meets the roundings
of a reciprocal and of a product for each dimension besides. Maxima are exact.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...formats import FP32, Floats
from ...formats.bounds import Ball, sum_ball
from ...popops.elementwise.bound import finished, numbers
from .kinds import KINDS
from .reference import Windows, chosen


class Fields:
    """Samples of fields as rows, [samples times channels, elements], and back."""

    def __init__(self, shape: tuple[int, ...], layout: str) -> None:
        self.channels_last = layout == "NHWC"
        self.outer = (shape[0], shape[-1] if self.channels_last else shape[1])
        self.field = shape[1:-1] if self.channels_last else shape[2:]

    def rows(self, x: Any) -> Any:
        """Fields, or what came of them, as rows."""
        x = np.moveaxis(x, -1, 1) if self.channels_last else x
        return x.reshape(prod(self.outer), -1) if x.size else x.reshape(prod(self.outer), prod(x.shape[2:]))

    def ball(self, ball: Ball, field: tuple[int, ...]) -> Ball:
        """Rows' balls as the call's result lies."""
        return Ball(self._laid(ball.centre, field), self._laid(ball.radius, field))

    def _laid(self, rows: Any, field: tuple[int, ...]) -> Any:
        made = rows.reshape(*self.outer, *field)
        return np.moveaxis(made, 1, -1) if self.channels_last else made


def _finite(x: Floats) -> Floats:
    return np.where(np.isfinite(x), np.abs(x), 0.0)


def pool_bound(x: Any, kernel: Any = None, op: str = "max", *, count_include_pad: bool = False, output_size: Any = None,
               layout: str = "NCHW", out: Any = None, out_dtype: Any = None, target: Any = None, **how: Any) -> Ball:
    """Return exact results and radii of a `pool` call."""
    held, kind = numbers(x), KINDS[op]
    f = Fields(held.shape, layout)
    windows = Windows(f.field, kernel, output_size, **how)
    with np.errstate(all="ignore"):
        values = windows.values(f.rows(held), kind.none)
        ball = Ball.exact(kind.reference(values))
        if not kind.chooses:
            terms = 2 + windows.there.sum(1)
            ball = sum_ball(ball.centre, _finite(values).sum(2), np.broadcast_to(terms, values.shape[:2]))
        if kind.divides:
            ball = (ball * (1 / windows.counts(count_include_pad))).rounded(FP32)
    return finished(f.ball(ball, windows.outputs), out, out_dtype, x)


def max_pool_with_indices_bound(x: Any, kernel: Any = None, *, output_size: Any = None, layout: str = "NCHW",
                                out: Any = None, out_dtype: Any = None, target: Any = None,
                                **how: Any) -> tuple[Ball, Ball]:
    """Return exact results of a `max_pool_with_indices` call: of the maxima, of their places."""
    held, kind = numbers(x), KINDS["max"]
    f = Fields(held.shape, layout)
    windows = Windows(f.field, kernel, output_size, **how)
    with np.errstate(all="ignore"):
        values = windows.values(f.rows(held), kind.none)
        own, places = (f.ball(Ball.exact(made), windows.outputs)
                       for made in (kind.reference(values), windows.firsts(values)))
    return finished(own, None, out[0].dtype if out is not None else out_dtype, x), places


def pool_input_gradient_bound(grad: Any, x_shape: Any, kernel: Any = None, op: str = "max", *, x: Any = None,
                              pooled_x: Any = None, use_scaled_gradient: bool = False, count_include_pad: bool = False,
                              output_size: Any = None, layout: str = "NCHW", out: Any = None, out_dtype: Any = None,
                              target: Any = None, **how: Any) -> Ball:
    """Return exact results and radii of a `pool_input_gradient` call."""
    held, kind = numbers(grad), KINDS[op]
    f = Fields(tuple(x_shape), layout)
    windows = Windows(f.field, kernel, output_size, **how)
    with np.errstate(all="ignore"):
        grads = f.rows(held)
        each = np.broadcast_to(grads[..., None], (len(grads), *windows.places.shape))
        if kind.divides:
            each = each / windows.counts(count_include_pad)[:, None]
        if kind.chooses:
            values = windows.values(f.rows(numbers(x)), np.nan)
            each = chosen(values, f.rows(numbers(pooled_x)), each, use_scaled_gradient)
        terms = windows.scattered(np.ones(each.shape)) + (2 * len(f.field) + 2 if kind.divides else 2)
        ball = sum_ball(windows.scattered(each), windows.scattered(_finite(each)), terms)
    return finished(f.ball(ball, f.field), out, out_dtype, grad)


def pool_indices_gradient_bound(grad: Any, indices: Any, x_shape: Any, kernel: Any = None, *, output_size: Any = None,
                                layout: str = "NCHW", out: Any = None, out_dtype: Any = None, target: Any = None,
                                **how: Any) -> Ball:
    """Return exact results and radii of a `pool_indices_gradient` call."""
    held = numbers(grad)
    f = Fields(tuple(x_shape), layout)
    grads, places = f.rows(held), f.rows(np.asarray(indices)).astype(np.int64)
    if kernel is not None or output_size is not None:
        windows = Windows(f.field, kernel, output_size, **how)
        places = np.where(((windows.places == places[..., None]) & windows.there).any(2), places, -1)
    made = [np.zeros((len(grads), prod(f.field))) for _ in range(3)]
    rows, at = np.nonzero(places >= 0)
    with np.errstate(all="ignore"):
        for total, values in zip(made, (grads, _finite(grads), np.ones(grads.shape)), strict=True):
            np.add.at(total, (rows, places[rows, at]), values[rows, at])
        ball = sum_ball(made[0], made[1], made[2])
    return finished(f.ball(ball, f.field), out, out_dtype, grad)
