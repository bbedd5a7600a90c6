"""Windows along the dimensions of a field: which elements each holds, and which of them hold an element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...checks import flag, whole
from ...errors import bad_argument
from ...formats import Array
from ...memo import remembered

_MOST, _MOST_PAIRS = (1 << 31) - 1, 1 << 26


class Window(NamedTuple):
    """Windows along one dimension.

    Attributes
    ----------
    inputs, outputs : int
        Elements of the field, and windows.
    kernel : int
        Elements of a window; 0 where windows share the field out evenly, overlapping where they must.
    stride, dilation : int
        From a window, from an element of one to the next.
    lower, upper : int
        Padding at both ends, which truncates where it is negative.
    """

    inputs: int
    outputs: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    lower: int = 0
    upper: int = 0

    @property
    def span(self) -> int:
        """From the first element of a window to the last, both counted."""
        return (self.kernel - 1) * self.dilation + 1


class Pairs(NamedTuple):
    """Which element belongs to which: for each of what is made, those that are read, one after another.

    Attributes
    ----------
    first : numpy.ndarray of int64
        Where each one's begin, and the end.
    read : numpy.ndarray of int64
    """

    first: Array
    read: Array


def each_of(name: str, value: Any, count: int, least: int, what: str = "field dimensions") -> tuple[int, ...]:
    """Return a number for each of so many."""
    several = f", or one for each of {count} {what}"
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise bad_argument(name, value, f"one number{several}")
        return tuple(whole(name, n, least, _MOST, several) for n in value)
    return (whole(name, value, least, _MOST, several),) * count


def _sides(value: Any, dims: int) -> list[tuple[int, int]]:
    """Padding before and after, for each dimension."""
    if not isinstance(value, (list, tuple)):
        value = (value,) * dims
    if len(value) != dims:
        raise bad_argument("padding", value, f"one number, or one or a pair for each of {dims} field dimensions")
    pairs = [tuple(one) if isinstance(one, (list, tuple)) else (one, one) for one in value]
    if any(len(pair) != 2 for pair in pairs):
        raise bad_argument("padding", value, "numbers, or pairs of them")
    more = ", one for each field dimension, or a pair (before, after) for each"
    low, high = ([whole("padding", pair[side], -_MOST, _MOST, more) for pair in pairs] for side in (0, 1))
    return list(zip(low, high, strict=True))


def windows_of(field: Sequence[int], kernel: Any, stride: Any, padding: Any, dilation: Any,
               ceil_mode: Any) -> tuple[Window, ...]:
    """Return the windows that a call's arguments say.

    Parameters
    ----------
    field : sequence of int
    kernel, stride, padding, dilation, ceil_mode
        As `pool` takes them.
    """
    dims = len(field)
    kernels, dilations = each_of("kernel", kernel, dims, 1), each_of("dilation", dilation, dims, 1)
    strides = kernels if stride is None else each_of("stride", stride, dims, 1)
    up = flag("ceil_mode", ceil_mode)
    made = []
    for n, k, s, d, (low, high) in zip(field, kernels, strides, dilations, _sides(padding, dims), strict=True):
        room = n + low + high - ((k - 1) * d + 1)
        if room < 0:
            got = f"{kernel} with dilation {dilation}"
            raise bad_argument("kernel", got, f"windows within the padded field, which is {n + low + high}")
        count = room // s + 1
        if up and high < 0:
            raise bad_argument("padding", (low, high), "with ceil_mode numbers behind a dimension that are 0 or more")
        if up and room % s and count * s < n + low:  # the last window begins within the field, as in torch
            count += 1
        made.append(_limited(Window(n, count, k, s if count > 1 else min(s, n + 1), d, low, high)))
    return tuple(made)


def adaptive_windows(field: Sequence[int], output_size: Any) -> tuple[Window, ...]:
    """Return windows of which there are so many, or as many as elements where a number is None."""
    dims = len(field)
    sizes = output_size if isinstance(output_size, (list, tuple)) else (output_size,) * dims
    if len(sizes) != dims:
        raise bad_argument("output_size", output_size, f"one number, or one for each of {dims} field dimensions")
    made = []
    for n, size in zip(field, sizes, strict=True):
        count = n if size is None else whole("output_size", size, 1, _MOST)
        even = n % count == 0 and n >= count
        made.append(_limited(Window(n, count, n // count, n // count) if even and n else Window(n, count, 0)))
    return tuple(made)


def whole_field(field: Sequence[int]) -> tuple[Window, ...]:
    """Return the windows of which each dimension has one."""
    return tuple(Window(n, 1, n) for n in field)


def _limited(window: Window) -> Window:
    pairs = window.outputs * max(1, window.kernel)
    if pairs > _MOST_PAIRS or window.outputs + window.inputs > _MOST:
        raise bad_argument("kernel", window.kernel, f"at most {_MOST_PAIRS:,} elements of all windows of a dimension")
    return window


def is_whole(windows: Sequence[Window]) -> bool:
    """Whether each dimension has one window, which is all of it."""
    return all(w.outputs == 1 and w.kernel == w.inputs and w.dilation == 1 and w.lower == w.upper == 0 for w in windows)


def starts(window: Window) -> tuple[Array, Array]:
    """Return where each window begins, in the field's coordinates, and how many elements it has, padding among them."""
    number = np.arange(window.outputs, dtype=np.int64)
    if window.kernel:
        return number * window.stride - window.lower, np.full(window.outputs, window.kernel, np.int64)
    begin = number * window.inputs // window.outputs
    return begin, -((number + 1) * -window.inputs // window.outputs) - begin


def _places(window: Window) -> tuple[Array, Array]:
    """The elements of each window, and whether they are in the field."""
    begin, count = starts(window)
    number = np.arange(int(count.max(initial=0)), dtype=np.int64)
    places = begin[:, None] + number * window.dilation
    return places, (places >= 0) & (places < window.inputs) & (number < count[:, None])


@remembered(weight=4)
def held(window: Window, backward: bool = False) -> Pairs:
    """Return the elements that each window holds; `backward`: the windows that hold each element."""
    places, there = _places(window)
    counts = there.sum(1)
    read = places[there]
    if backward:
        made, counts = read, np.bincount(read, minlength=window.inputs)
        read = np.repeat(np.arange(window.outputs, dtype=np.int64), there.sum(1))[np.argsort(made, kind="stable")]
    return Pairs(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), np.ascontiguousarray(read))


def divisors(window: Window, count_include_pad: bool) -> Array:
    """Return what an average along one dimension divides by, window for window: 1 for one without elements."""
    places, there = _places(window)
    if count_include_pad and window.kernel:
        there = places < window.inputs + window.upper
    counts: Array = np.maximum(there.sum(1), 1)
    return counts
