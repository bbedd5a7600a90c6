"""Arguments that the distributions share, checked once."""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable
from functools import cache, lru_cache
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import DTypeLike

from ..errors import bad_argument, bad_type, one_of
from ..formats import Format, format_of

__all__ = ["Array", "Seed", "Shape", "Stream"]

Array = np.ndarray[Any, Any]
Shape = int | tuple[int, ...]
Seed = int | tuple[int, int] | None
Stream = Literal["counter", "ipu"]

INT32 = np.dtype(np.int32)
BOOL = np.dtype(np.bool_)
_MOST_BYTES = 1 << 62
_WORD = (1 << 32) - 1


def whole(name: str, value: object, low: int, high: int) -> int:
    """Return a whole number within bounds, both allowed."""
    if type(value) is not int:
        if isinstance(value, (bool, np.bool_)):
            raise bad_type(name, value, "a whole number")
        try:
            value = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            raise bad_type(name, value, "a whole number") from None
    if not low <= value <= high:
        raise bad_argument(name, value, f"a whole number from {low} to {high}")
    return value


def finite(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """Return a finite number within bounds, both allowed."""
    if type(value) is not float:
        if isinstance(value, (bool, np.bool_, str, bytes)):
            raise bad_type(name, value, "a number")
        try:
            value = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise bad_type(name, value, "a number") from None
        except OverflowError:
            raise bad_argument(name, value, "a finite number") from None
    if not math.isfinite(value) or not low <= value <= high:
        bounds = "" if (low, high) == (-math.inf, math.inf) else f" from {low:g} to {high:g}"
        raise bad_argument(name, value, f"a finite number{bounds}")
    return value


def probability(name: str, value: object) -> float:
    """Return a probability."""
    return finite(name, value, 0.0, 1.0)


def shape_of(shape: object, out: Array | None) -> tuple[int, ...]:
    """Return the shape as a tuple; that of `out` where `shape` is None."""
    if shape is None:
        if out is None:
            raise bad_argument("shape", None, "a shape, or None together with out")
        return tuple(out.shape)
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    if len(extents) > 64:
        raise bad_argument("shape", shape, "at most 64 dimensions")
    return tuple(whole("shape", extent, 0, _MOST_BYTES) for extent in extents)


def kind_of(dtype: DTypeLike | Format, allowed: tuple[np.dtype[Any], ...] = ()) -> Format | np.dtype[Any]:
    """Return the format of the elements, or one of the `allowed` dtypes that are not formats."""
    if isinstance(dtype, Format):
        if dtype.dtype is None:
            raise bad_type("dtype", dtype, "a format that has a dtype")
        return dtype
    if not isinstance(dtype, (str, type, np.dtype)):
        return format_of(dtype, "dtype")
    try:
        return _kind_of(cast(Hashable, dtype), allowed)
    except TypeError:  # not hashable, or no kind of dtype: say so
        return format_of(dtype, "dtype")


@lru_cache(maxsize=64)
def _kind_of(dtype: Hashable, allowed: tuple[np.dtype[Any], ...]) -> Format | np.dtype[Any]:
    try:
        known = np.dtype(cast(Any, dtype))
    except TypeError:
        return format_of(dtype, "dtype")
    return known if known in allowed else format_of(dtype, "dtype")


def dtype_of(kind: Format | np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of arrays of this kind."""
    dtype = kind.dtype if isinstance(kind, Format) else kind
    assert dtype is not None
    return dtype


def output(shape: object, dtype: np.dtype[Any], out: object) -> Array:
    """Return the array to fill: `out`, checked, or a new one."""
    if out is not None and not isinstance(out, np.ndarray):
        raise bad_type("out", out, "a numpy.ndarray")
    extents = shape_of(shape, out)
    if out is None:
        if math.prod(extents) * dtype.itemsize > _MOST_BYTES:
            raise bad_argument("shape", shape, f"at most {_MOST_BYTES} bytes in all")
        return np.empty(extents, dtype)
    if out.shape != extents:
        raise bad_argument("out", f"an array of shape {out.shape}", f"one of shape {extents}")
    if out.dtype != dtype:
        raise bad_type("out", f"an array of {out.dtype}", f"one of {dtype}")
    if not out.flags.writeable:
        raise bad_argument("out", "a read-only array", "one that can be written")
    return out


def seed_of(seed: object) -> int:
    """Return the 64-bit seed ``s0 + 2**32 * s1``."""
    if isinstance(seed, (tuple, list)) or (isinstance(seed, np.ndarray) and seed.ndim):
        if len(seed) != 2:
            raise bad_argument("seed", seed, "two words of 32 bits, or a whole number of 64 bits")
        return whole("seed", seed[0], 0, _WORD) | whole("seed", seed[1], 0, _WORD) << 32
    return whole("seed", seed, 0, (1 << 64) - 1)


def modifier_of(seed_modifier: object) -> int:
    """Return the seed modifier, 32 bits."""
    return whole("seed_modifier", seed_modifier, 0, _WORD)


def is_ipu(stream: object) -> bool:
    """Whether the stream is that of a modelled IPU."""
    one_of("stream", stream, ("counter", "ipu"))
    return stream == "ipu"


def next_below(x: float, kind: Format | np.dtype[Any]) -> float:
    """Return the largest finite number of a format below `x`."""
    return -_next_above(-x, dtype_of(kind))


def at_least(x: float, kind: Format | np.dtype[Any]) -> float:
    """Return the smallest number of a format that is not below `x`, which is finite."""
    return _next_above(math.nextafter(x, -math.inf), dtype_of(kind))


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
