"""Poolings in float64. Their geometry is their own: along a dimension a window is a range of coordinates."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...formats import Array, Floats


def _each(value: Any, count: int) -> tuple[Any, ...]:
    """One of a call's values for each dimension."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


def windows_by_kernel(extent: int, kernel: int, stride: int, low: int, high: int, dilation: int,
                      ceil_mode: bool) -> list[range]:
    """Return windows one after another, as long as they end within the padded field; perhaps one more that begins
    within the field, where that leaves a rest.

    Examples
    --------
    >>> windows_by_kernel(5, 2, 2, 1, 0, 1, False)
    [range(-1, 1), range(1, 3), range(3, 5)]
    >>> windows_by_kernel(4, 3, 2, 0, 0, 1, True)
    [range(0, 3), range(2, 5)]
    """
    made: list[range] = []
    window = range(-low, -low + (kernel - 1) * dilation + 1, dilation)
    while window[-1] < extent + high:
        made.append(window)
        window = range(window.start + stride, window.stop + stride, dilation)
    if ceil_mode and made[-1][-1] < extent + high - 1 and window.start < extent:
        made.append(window)
    return made


def windows_by_size(extent: int, size: int) -> list[range]:
    """Return so many windows that share a field out.

    Examples
    --------
    >>> windows_by_size(5, 2)
    [range(0, 3), range(2, 5)]
    """
    return [range(i * extent // size, ((i + 1) * extent + size - 1) // size) for i in range(size)]


class Windows:
    """The windows of a call as places of a field in C order.

    Parameters
    ----------
    field : sequence of int
    kernel, output_size, stride, padding, dilation, ceil_mode
        As the op was given them.

    Attributes
    ----------
    outputs : tuple of int
        How many there are, in each dimension.
    places : numpy.ndarray [windows, elements]
        Of the elements of each, 0 for one that is not there.
    there : numpy.ndarray of bool [windows, elements]
    """

    def __init__(self, field: tuple[int, ...], kernel: Any = None, output_size: Any = None, *, stride: Any = None,
                 padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False) -> None:
        dims = len(field)
        self.field = field
        self._lines: list[list[range]] = []
        self._ends: list[int] = []
        sizes = _each(1 if output_size is None else output_size, dims)
        sides = [_each(side, 2) for side in _each(padding, dims)]
        for d, n in enumerate(field):
            low, high = sides[d] if kernel is not None else (0, 0)
            if kernel is None:
                self._lines.append(windows_by_size(n, n if sizes[d] is None else int(sizes[d])))
            else:
                extent = int(_each(kernel, dims)[d])
                step = extent if stride is None else int(_each(stride, dims)[d])
                self._lines.append(windows_by_kernel(n, extent, step, int(low), int(high),
                                                     int(_each(dilation, dims)[d]), bool(ceil_mode)))
            self._ends.append(n + int(high))
        self.outputs = tuple(len(line) for line in self._lines)
        self.places, self.there = self._elements()

    def _elements(self) -> tuple[Array, Array]:
        places, there = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
        for n, line in zip(self.field, self._lines, strict=True):
            most = max(map(len, line), default=0)
            own = np.array([[*window, *[-1] * (most - len(window))] for window in line], np.int64)
            own = own.reshape(len(line), most)
            inside = (own >= 0) & (own < n)
            shape = len(places) * len(line), places.shape[1] * most
            places = (places[:, None, :, None] * n + np.where(inside, own, 0)[:, None]).reshape(shape)
            there = (there[:, None, :, None] & inside[:, None]).reshape(shape)
        return places, there

    def counts(self, include: bool) -> Floats:
        """What averages divide by: elements that there are, or padding too; at least 1 in each dimension."""
        each = [[max(1, sum(at < end if include else 0 <= at < n for at in window)) for window in line]
                for n, end, line in zip(self.field, self._ends, self._lines, strict=True)]
        return np.array([prod(some) for some in product(*each)], np.float64)

    def values(self, rows: Floats, none: float) -> Floats:
        """The elements of each window, [rows, windows, elements], of fields as rows."""
        if not rows.shape[1]:
            return np.full((len(rows), *self.places.shape), none)
        made: Floats = np.where(self.there, rows[:, self.places], none)
        return made

    def scattered(self, values: Floats) -> Floats:
        """What windows bring to each element, added up: `values` is [rows, windows, elements]."""
        made = np.zeros((len(values), prod(self.field)))
        rows, wins, elements = np.nonzero(np.broadcast_to(self.there, values.shape))
        with np.errstate(all="ignore"):
            np.add.at(made, (rows, self.places[wins, elements]), values[rows, wins, elements])
        return made

    def firsts(self, values: Floats) -> Floats:
        """The place of the first greatest element of each window, or of its first NaN; -1 where there is none."""
        top = maxima(values)[..., None]
        same = ((values == top) | (np.isnan(values) & np.isnan(top))) & self.there
        if not same.shape[2]:
            return np.full(same.shape[:2], -1.0)
        places = self.places[np.arange(len(self.places)), same.argmax(2)]
        return np.where(same.any(2), places, -1).astype(np.float64)


def maxima(values: Floats) -> Floats:
    """Return the greatest element of each window; NaN where one is."""
    made: Floats = values.max(2, initial=-np.inf)
    return made


def sums(values: Floats) -> Floats:
    """Return the sum of each window."""
    made: Floats = values.sum(2)
    return made


def chosen(values: Floats, results: Floats, grads: Floats, share: bool) -> Floats:
    """Return the gradients of elements that are equal to their window's result, each all of it or a share."""
    same = values == results[..., None]
    each = grads / np.maximum(same.sum(2, keepdims=True), 1) if share else grads
    return np.where(same, each, 0.0)
