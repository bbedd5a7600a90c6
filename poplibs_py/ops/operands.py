"""Operands in and results out: what every op takes, and what every `out` may be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import bad_argument, bad_type
from ..formats import FORMATS, FP16, FP32, Format, QuarterArray, format_of
from ..formats.arrays import as_array
from ..program import overlaps_itself, result_array, result_array_like, temporary
from ..target.host_memory import check_memory

__all__ = ["Array", "Operand", "Receiver", "array_operand", "new_result", "operand", "receive", "result_format"]

Array = np.ndarray[Any, Any]
Place = tuple[str, int]

_ALLOWED = "an array of " + ", ".join(f.name for f in FORMATS)


@dataclass(frozen=True, eq=False)
class Operand:
    """An operand of a call: codes, their format, the scales of a `QuarterArray`.

    Attributes
    ----------
    array : numpy.ndarray
        Numbers of the format's dtype, or its codes. Its shape and strides stay as they were read.
    format : Format
    scale : int
        Exponent s of the scale 2^s that all elements have.
    scales : Operand or None
        Exponents of blocks, where they differ.
    block_shape : tuple of int
        Extents of the blocks, where there are some.
    place : (str, int) or None
        Which argument the memory is, and which of its arrays; None for memory of this call alone.
    """

    array: Array
    format: Format | None
    scale: int = 0
    scales: Operand | None = None
    block_shape: tuple[int, ...] = ()
    place: Place | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return tuple(self.array.shape)

    def seen(self, view: Callable[[Array], Array]) -> Operand:
        """Return the operand with its array seen in another way, beginning at the same element."""
        return replace(self, array=view(self.array))

    def copied(self) -> Operand:
        """Return the operand in memory of its own."""
        return replace(self, array=self.array.copy(), place=None)


def array_operand(name: str, value: object, allowed: str = _ALLOWED) -> Operand:
    """Take an array of a known format; lists of numbers become float32.

    Raises
    ------
    InvalidTypeError
        For what cannot be taken; a float64 array is told the remedy.
    """
    array = as_array(name, value, allowed, np.float32)
    found = next((f for f in FORMATS if f.dtype == array.dtype), None)
    if found is None:
        hint = '; see its astype("float32")' if array.dtype == np.float64 else ""
        raise bad_type(name, f"dtype {array.dtype}", allowed + hint)
    if not array.dtype.isnative:
        raise bad_type(name, f"dtype {array.dtype.str}", "the machine's own byte order")
    return Operand(array, found, place=(name, 0) if type(value) is np.ndarray else None)


def operand(name: str, value: object, allowed: str = _ALLOWED) -> Operand:
    """Take an operand: an array, a tensor, lists of numbers, or a `QuarterArray` with its scales."""
    if not isinstance(value, QuarterArray):
        return array_operand(name, value, allowed)
    codes = value.codes
    uniform = value.uniform_scale()
    if uniform is not None:
        keyed = value.block_shape is None
        return Operand(codes, value.format, uniform, place=(name, 0) if keyed else None)
    assert value.block_shape is not None
    scales = Operand(np.asarray(value.scale), None, place=(name, 1))
    return Operand(codes, value.format, 0, scales, value.block_shape, (name, 0))


def result_format(*formats: Format) -> Format:
    """Return the result's format where none is asked for: one rule for all ops.

    float32 where an operand is float32 or FP16 meets BF16; else the 16-bit format that is there; float16 for FP8 alone.

    Examples
    --------
    >>> from poplibs_py.formats import BF16, F143, FP16
    >>> print(result_format(F143, BF16), result_format(F143, F143), result_format(FP16, BF16))
    bfloat16 float16 float32
    """
    wide = {f for f in formats if f.bits > 8}
    if len(wide) > 1 or FP32 in wide:
        return FP32
    return next(iter(wide)) if wide else FP16


@dataclass(frozen=True, eq=False)
class Receiver:
    """What receives a result.

    Attributes
    ----------
    array : numpy.ndarray
        What the program writes: the caller's memory, a new array, or a copy where `out` overlaps an operand.
    format : Format
    scale : int
        Exponent of the scale at which an 8-bit result is written.
    given : object
        What the caller passed as `out`, or None.
    view : numpy.ndarray or None
        The caller's memory, where `array` is a copy of it.
    place : (str, int) or None
        Which argument the memory is.
    """

    array: Array
    format: Format
    scale: int = 0
    given: Any = None
    view: Array | None = None
    place: Place | None = None

    @property
    def operand(self) -> Operand:
        """What is written, as an operand."""
        return Operand(self.array, self.format, self.scale)

    @property
    def keeps(self) -> bool:
        """Whether a bound call can write to what another such call receives."""
        return self.given is None or (self.view is None and self.place is not None)

    def wrapping(self, wrap: Callable[[Array, Any], Any] | None) -> Callable[[Array, Any], Any] | None:
        """Return what makes a new array into the result: that of the op, a `QuarterArray` of a format without a dtype,
        or nothing."""
        if wrap is not None or self.format.dtype is not None:
            return wrap
        return lambda codes, _: QuarterArray(codes, self.format)

    def finish(self, wrap: Callable[[Array, Any], Any] | None, first: Any) -> Any:
        """Return the result."""
        if self.view is not None:
            self.view[...] = self.array
        if self.given is not None:
            return self.given
        made = self.wrapping(wrap)
        return self.array if made is None else made(self.array, first)


def new_result(shape: tuple[int, ...], fmt: Format, like: Array | None = None) -> Receiver:
    """Return a new array for a result, in C order or laid out like another array."""
    dtype = fmt.dtype or fmt.code_dtype
    check_memory("out", f"a result of shape {shape}", math.prod(shape) * dtype.itemsize)
    array = result_array(shape, dtype) if like is None else result_array_like(like, dtype)
    return Receiver(array, fmt)


def receive(name: str, out: object, shape: tuple[int, ...], out_dtype: object, default: Format,
            operands: tuple[Operand | None, ...] = (), in_place: bool = False, reads: bool = False) -> Receiver:
    """Return what receives a result: `out`, checked, or a new array.

    Parameters
    ----------
    name : str
        What the caller calls `out`.
    out : object
        Where the result goes: an array, tensor or `QuarterArray` with one scale, of this shape; or None.
    shape : tuple of int
    out_dtype : object
        The format that the caller asked for, or None.
    default : Format
        The result's without one.
    operands : tuple of Operand
        What the program reads. Where `out` overlaps one of them, the result is made in a copy.
    in_place : bool, optional
        Whether the program may write over an operand that is `out` itself, element by element.
    reads : bool, optional
        Whether the program reads what it writes to.
    """
    if out is None:
        return new_result(shape, default if out_dtype is None else format_of(out_dtype, "out_dtype"))
    array, fmt, scale, keyed = _writable(name, out)
    if out_dtype is not None and format_of(out_dtype, "out_dtype") != fmt:
        raise bad_argument(name, f"dtype {fmt}", f"out_dtype, which is {out_dtype}")
    if array.shape != shape:
        raise bad_argument(name, f"shape {array.shape}", f"shape {shape}")
    if not array.flags.writeable:
        raise bad_argument(name, "a read-only array", "a writeable array")
    if overlaps_itself(array):
        raise bad_argument(name, "an array whose elements share memory", "one element to each place")
    if any(_spoils(array, x, in_place) for x in operands if x is not None):
        copy = temporary(array.shape, array.dtype)
        if reads:
            copy[...] = array
        return Receiver(copy, fmt, scale, out, array)
    return Receiver(array, fmt, scale, out, place=(name, 0) if keyed else None)


def _writable(name: str, out: Any) -> tuple[Array, Format, int, bool]:
    """The memory of `out`, its format and scale, and whether it is known by its argument."""
    if isinstance(out, QuarterArray):
        scale = out.uniform_scale()
        if scale is None:
            raise bad_argument(name, f"a QuarterArray with scales of blocks {out.block_shape}", "one with one scale")
        return out.codes, out.format, scale, out.block_shape is None
    if not isinstance(out, np.ndarray) and not hasattr(out, "__dlpack__"):
        raise bad_type(name, type(out).__name__, "an array, a tensor or a QuarterArray")
    found = array_operand(name, out)
    assert found.format is not None
    return found.array, found.format, 0, found.place is not None


def _spoils(out: Array, read: Operand, in_place: bool) -> bool:
    """Whether writing `out` could change what is still to be read of an operand."""
    source = read.array
    if not np.may_share_memory(out, source):
        return False
    same = (out.ctypes.data == source.ctypes.data and out.strides == source.strides and out.shape == source.shape
            and out.itemsize == source.itemsize)
    return not (in_place and same)
