"""Arguments that the distributions share."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from ..checks import as_shape, finite
from ..errors import InvalidTypeError, bad_argument, bad_type
from ..formats import FORMATS, Array, Format, format_of
from ..memo import tabled
from ..ops import Operand, Receiver, receive
from ..target import TargetLike

__all__ = ["Array", "DType", "Seed", "Shape", "Stream", "TargetLike", "TileMapping"]

DType = DTypeLike | Format
Shape = int | tuple[int, ...]
Seed = int | tuple[int, int] | None
Stream = Literal["counter", "ipu"]
TileMapping = Sequence[Sequence[tuple[int, int]]] | None

INT32 = np.dtype(np.int32)
BOOL = np.dtype(np.bool_)
LARGEST = 3.4028234663852886e38
"""The largest float32."""


def dtype_of(dtype: DType, also: tuple[np.dtype[Any], ...] = ()) -> np.dtype[Any]:
    """Return the dtype of the elements: a format's, or one of some that are not formats."""
    if isinstance(dtype, (str, type, np.dtype)):
        try:
            known = np.dtype(dtype)
        except Exception:  # a type may have an attribute `dtype` that is anything
            known = None
        for other in also:
            if known == other:
                return other
    with contextlib.suppress(InvalidTypeError):
        found = format_of(dtype, "dtype")
        for preset in FORMATS:
            if preset == found and preset.dtype is not None:
                return preset.dtype
    raise bad_type("dtype", dtype.name if isinstance(dtype, Format) else dtype,
                   "one of " + ", ".join(str(each) for each in (*FORMATS, *also)))


def result(shape: object, dtype: np.dtype[Any], out: object, contiguous: bool = True,
           in_place: Iterable[Operand] = ()) -> Receiver:
    """Return what receives the elements: `out`, checked, or a new array. A shape of None is that of `out`."""
    if shape is not None:
        sizes = as_shape("shape", shape)
    elif out is None:
        raise bad_argument("shape", None, "a shape, or None together with out")
    else:
        sizes = None
    return receive("out", out, sizes, None, dtype, in_place=in_place, contiguous=contiguous)


def positive(name: str, value: object) -> float:
    """Return a positive finite number."""
    number = finite(name, value, -LARGEST, LARGEST)
    if number <= 0:
        raise bad_argument(name, value, "a positive number")
    return number


def next_below(x: float, dtype: np.dtype[Any]) -> float:
    """Return the largest finite number of a dtype below `x`."""
    return -_next_above(-x, dtype)


def at_least(x: float, dtype: np.dtype[Any]) -> float:
    """Return the smallest number of a dtype that is not below `x`, which is finite."""
    return _next_above(math.nextafter(x, -math.inf), dtype)


def _next_above(x: float, dtype: np.dtype[Any]) -> float:
    """The smallest number of a format above `x`; infinity where there is none."""
    if dtype.itemsize <= 2:
        values = _numbers(dtype)
        place = int(np.searchsorted(values, x, side="right"))
        return float(values[place]) if place < len(values) else math.inf
    with np.errstate(over="ignore"):
        near = np.float32(x)
        return float(near) if float(near) > x else float(np.nextafter(near, np.float32(math.inf)))


@tabled(16)
def _numbers(dtype: np.dtype[Any]) -> Array:
    """Every finite number of a dtype of at most 16 bits, ascending."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        values = np.arange(1 << 8 * dtype.itemsize, dtype=unsigned).view(dtype).astype(np.float64)
    return np.unique(values[np.isfinite(values)])
