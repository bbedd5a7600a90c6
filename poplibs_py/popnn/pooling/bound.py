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
from .field import Window, divisors, starts
from .request import Images, images, windows_asked


class Fields:
    """The windows of a call as places of a field in C order: the elements of each, and whether they are there."""

    def __init__(self, shape: Images, windows: tuple[Window, ...]) -> None:
        self.shape, self.windows = shape, windows
        self.outputs = shape.of(windows)
        places, there = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
        for window in windows:
            begin, count = starts(window)
            steps = np.arange(int(count.max(initial=0)))
            own = begin[:, None] + steps * window.dilation
            inside = (own >= 0) & (own < window.inputs) & (steps < count[:, None])
            size = len(places) * len(own), places.shape[1] * own.shape[1]
            places = (places[:, None, :, None] * window.inputs + np.where(inside, own, 0)[:, None]).reshape(size)
            there = (there[:, None, :, None] & inside[:, None]).reshape(size)
        self.places, self.there = places, there

    def counts(self, include: bool) -> Floats:
        """What averages divide by."""
        made = np.ones(1)
        for window in self.windows:
            made = (made[:, None] * divisors(window, include)).reshape(-1)
        return made

    def rows(self, x: Any) -> Any:
        """Fields, or what came of them, as rows: [samples times channels, elements]."""
        x = np.moveaxis(x, -1, 1) if self.shape.channels_last else x
        return x.reshape(self.shape.batch * self.shape.channels, -1)

    def laid(self, rows: Any, shape: Images) -> Any:
        """Rows as the call's result lies."""
        made = rows.reshape(shape.batch, shape.channels, *shape.field)
        return np.moveaxis(made, 1, -1) if shape.channels_last else made

    def ball(self, ball: Ball, shape: Images) -> Ball:
        """Rows' balls as the call's result lies."""
        return Ball(self.laid(ball.centre, shape), self.laid(ball.radius, shape))

    def values(self, x: Floats, none: float) -> Floats:
        """The elements of each window: [rows, windows, elements]."""
        rows = self.rows(x)
        if not rows.shape[1]:
            return np.full((len(rows), *self.places.shape), none)
        return np.where(self.there, rows[:, self.places], none)

    def scattered(self, values: Floats) -> Floats:
        """What windows bring to each element, added up: `values` is [rows, windows, elements]."""
        made = np.zeros((len(values), prod(self.shape.field)))
        rows, wins, elements = np.nonzero(np.broadcast_to(self.there, values.shape))
        with np.errstate(all="ignore"):
            np.add.at(made, (rows, self.places[wins, elements]), values[rows, wins, elements])
        return made


def _fields(shape: tuple[int, ...], kernel: Any, layout: str, output_size: Any, how: dict[str, Any]) -> Fields:
    seen = images("x", shape, layout)
    asked = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False} | how
    return Fields(seen, windows_asked(seen.field, kernel, output_size, **asked))


def _finite(x: Floats) -> Floats:
    return np.where(np.isfinite(x), np.abs(x), 0.0)


def pool_bound(x: Any, kernel: Any = None, op: str = "max", *, count_include_pad: bool = False, output_size: Any = None,
               layout: str = "NCHW", out: Any = None, out_dtype: Any = None, target: Any = None, **how: Any) -> Ball:
    """Return exact results and radii of a `pool` call."""
    held = numbers(x)
    f = _fields(held.shape, kernel, layout, output_size, how)
    with np.errstate(all="ignore"):
        values = f.values(held, -np.inf if op == "max" else 0.0)
        if op == "max":
            ball = Ball.exact(values.max(2, initial=-np.inf))
        else:
            terms = 2 + f.there.sum(1)
            ball = sum_ball(values.sum(2), _finite(values).sum(2), np.broadcast_to(terms, values.shape[:2]))
            if op == "avg":
                ball = (ball * (1 / f.counts(count_include_pad))).rounded(FP32)
    return finished(f.ball(ball, f.outputs), out, out_dtype, x)


def max_pool_with_indices_bound(x: Any, kernel: Any = None, *, output_size: Any = None, layout: str = "NCHW",
                                out: Any = None, out_dtype: Any = None, target: Any = None,
                                **how: Any) -> tuple[Ball, Ball]:
    """Return exact results of a `max_pool_with_indices` call: of the maxima, of their places."""
    held = numbers(x)
    f = _fields(held.shape, kernel, layout, output_size, how)
    with np.errstate(all="ignore"):
        values = f.values(held, -np.inf)
        top = values.max(2, initial=-np.inf)
        same = ((values == top[..., None]) | (np.isnan(values) & np.isnan(top)[..., None])) & f.there
    first = same.argmax(2) if same.shape[2] else np.zeros(top.shape, np.int64)
    places = f.places[np.arange(len(f.places)), first] if same.shape[2] else first
    places = np.where(same.any(2), places, -1).astype(np.float64)
    own = Ball.exact(f.laid(top, f.outputs))
    return finished(own, None, out[0].dtype if out is not None else out_dtype, x), Ball.exact(
        f.laid(places, f.outputs))


def pool_input_gradient_bound(grad: Any, x_shape: Any, kernel: Any = None, op: str = "max", *, x: Any = None,
                              pooled_x: Any = None, use_scaled_gradient: bool = False, count_include_pad: bool = False,
                              output_size: Any = None, layout: str = "NCHW", out: Any = None, out_dtype: Any = None,
                              target: Any = None, **how: Any) -> Ball:
    """Return exact results and radii of a `pool_input_gradient` call."""
    held = numbers(grad)
    f = _fields(tuple(x_shape), kernel, layout, output_size, how)
    with np.errstate(all="ignore"):
        each = np.broadcast_to(f.rows(held)[..., None], (f.shape.batch * f.shape.channels, *f.places.shape))
        if op == "avg":
            each = each / f.counts(count_include_pad)[:, None]
        if op == "max":
            same = f.values(numbers(x), np.nan) == f.rows(numbers(pooled_x))[..., None]
            each = each / np.maximum(same.sum(2, keepdims=True), 1) if use_scaled_gradient else each
            each = np.where(same, each, 0.0)
        terms = f.scattered(np.ones(each.shape)) + (2 * len(f.windows) + 2 if op == "avg" else 2)
        ball = sum_ball(f.scattered(each), f.scattered(_finite(each)), terms)
    return finished(f.ball(ball, f.shape), out, out_dtype, grad)


def pool_indices_gradient_bound(grad: Any, indices: Any, x_shape: Any, kernel: Any = None, *, output_size: Any = None,
                                layout: str = "NCHW", out: Any = None, out_dtype: Any = None, target: Any = None,
                                **how: Any) -> Ball:
    """Return exact results and radii of a `pool_indices_gradient` call."""
    held = numbers(grad)
    shape = images("x_shape", tuple(x_shape), layout)
    if kernel is None and output_size is None:
        f = Fields(shape, tuple(Window(n, m, 0) for n, m in zip(shape.field, images("grad", held.shape, layout).field,
                                                                strict=True)))
    else:
        f = _fields(tuple(x_shape), kernel, layout, output_size, how)
    grads, places = f.rows(held), f.rows(np.asarray(indices)).astype(np.int64)
    if kernel is not None or output_size is not None:
        places = np.where(((f.places == places[..., None]) & f.there).any(2), places, -1)
    made = [np.zeros((len(grads), shape.elements)) for _ in range(3)]
    rows, at = np.nonzero(places >= 0)
    with np.errstate(all="ignore"):
        for total, values in zip(made, (grads, _finite(grads), np.ones(grads.shape)), strict=True):
            np.add.at(total, (rows, places[rows, at]), values[rows, at])
        ball = sum_ball(made[0], made[1], made[2])
    return finished(f.ball(ball, shape), out, out_dtype, grad)
