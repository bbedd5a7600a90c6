"""What arrays that are made or rearranged by NumPy's steps are of, and how numbers become their codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...checks import real, whole
from ...formats import FP32, Array, Format, QuarterArray, format_of
from ...formats.format import preset_of
from ...formats.reference import encode
from ...ops import RESULT, Placed, Receiver, Request
from ...ops.numpy_ops import told
from ..strided.copies import copying, kernel_of_copies

_MOST_KEPT_BYTES = 1 << 14


def element_of(dtype: Any, out: Any, default: Any) -> Any:
    """Return a result's format, or the dtype of integers: that asked for, that of `out`, or the default."""
    if dtype is None:
        if out is None:
            return default
        held = getattr(out, "dtype", None)
        if isinstance(out, QuarterArray) or not isinstance(held, np.dtype):
            return default if not isinstance(out, QuarterArray) else out.format
        return held if held.kind in "biu" else preset_of(held) or default
    if isinstance(dtype, (str, type, np.dtype)):
        try:
            asked = np.dtype(dtype)
        except (TypeError, ValueError):
            return format_of(dtype)
        if asked.kind in "biu" and asked.isnative:
            return asked
    return format_of(dtype)


def code_of(name: str, value: Any, element: Any) -> Array:
    """Return a number as the code that stands for it, rounded to nearest, or raise."""
    if not isinstance(element, Format):
        if element.kind == "b":
            return np.asarray(bool(whole(name, int(value) if isinstance(value, (bool, np.bool_)) else value, 0, 1)))
        limits = np.iinfo(element)
        return np.asarray(whole(name, value, int(limits.min), int(limits.max)), element)
    return coded(np.asarray(real(name, value)), element)


def coded(values: Array, element: Format) -> Array:
    """Return numbers as codes, rounded once."""
    with np.errstate(all="ignore"):
        if element == FP32:
            return values.astype(np.float32).view(np.uint32)
        return encode(np.asarray(values, np.float64), element)


def made_request(make: Callable[[Array], None], receiver: Receiver, op: str, shape: tuple[int, ...],
                 placed: Placed[Any] | None = None) -> Request:
    """Return the request of numbers that a function writes, the same in each call: a few are kept with the call."""
    array = receiver.array
    if array.nbytes > _MOST_KEPT_BYTES:
        return Request(make, (RESULT,), receiver, told(op, shape, receiver.format), placed=placed)
    numbers = np.empty(array.shape, array.dtype)
    make(numbers)
    program = copying(array.shape, array.itemsize, numbers.strides, array.strides)
    return Request(program, (numbers, RESULT), receiver, told(op, shape, receiver.format, kernel_of_copies()),
                   placed=placed)


def write(result: Array, codes: Any) -> None:
    """Write codes to an array of what they stand for."""
    codes = np.asarray(codes)
    result.view(codes.dtype)[...] = codes
