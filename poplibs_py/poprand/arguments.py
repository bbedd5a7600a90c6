"""Arguments that the distributions share; `_draw` checks those that every call has."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import cache, lru_cache
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import DTypeLike

from ..errors import UnsupportedError, bad_argument, bad_type
from ..formats import FORMATS, Format, format_of
from ..kernels.registry import select
from ._draw import Draw, finite, is_ipu

__all__ = ["Array", "Seed", "Shape", "Stream"]

Array = np.ndarray[Any, Any]
Shape = int | tuple[int, ...]
Seed = int | tuple[int, int] | None
Stream = Literal["counter", "ipu"]

INT32 = np.dtype(np.int32)
BOOL = np.dtype(np.bool_)
LARGEST = 3.4028234663852886e38
"""The largest float32."""


def counter_only(op: str, stream: Stream) -> None:
    """Refuse the IPU's stream for what PopLibs lacks."""
    if is_ipu(stream):
        raise UnsupportedError(f"stream: got 'ipu'; allowed for {op}: 'counter', for PopLibs does not have it")


def dtype_of(dtype: DTypeLike | Format, also: tuple[np.dtype[Any], ...] = ()) -> np.dtype[Any]:
    """Return the dtype of the elements: a format's, or one of some that are not formats."""
    try:
        return _dtype_of(cast(Hashable, dtype), also)
    except TypeError:  # not hashable, or nothing that has a dtype: say so
        return _dtype_of.__wrapped__(dtype, also)


@lru_cache(maxsize=64)
def _dtype_of(dtype: Any, also: tuple[np.dtype[Any], ...]) -> np.dtype[Any]:
    if isinstance(dtype, (str, type, np.dtype)):
        try:
            known = np.dtype(dtype)
        except TypeError:
            known = None
        for other in also:
            if known == other:
                return other
    found = format_of(dtype, "dtype")
    for preset in FORMATS:
        if preset == found and preset.dtype is not None:
            return preset.dtype
    raise bad_type("dtype", getattr(dtype, "name", dtype), "a format that has a dtype")


def positive(name: str, value: object) -> float:
    """Return a positive finite number."""
    number = finite(name, value, -LARGEST, LARGEST)
    if number <= 0:
        raise bad_argument(name, value, "a positive number")
    return number


def drawing(op: str, formats: str, dtype: np.dtype[Any], **numbers: Any) -> Draw:
    """Return what fills arrays of a dtype with a kernel of the random family."""
    return Draw(select("random", op, formats, consistent=True).kernel, dtype, **numbers)


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
        while float(near) > x:
            near = np.nextafter(near, np.float32(-math.inf))
        while float(near) <= x:
            near = np.nextafter(near, np.float32(math.inf))
    return float(near)


@cache
def _numbers(dtype: np.dtype[Any]) -> Array:
    """Every finite number of a dtype of at most 16 bits, ascending."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        values = np.arange(1 << 8 * dtype.itemsize, dtype=unsigned).view(dtype).astype(np.float64)
    return np.unique(values[np.isfinite(values)])
