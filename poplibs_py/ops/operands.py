"""Operands in and results out: what every op takes, and what every `out` may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..checks import check_shape
from ..errors import bad_argument, bad_type
from ..formats import BF16, FORMATS, FP16, FP32, Array, Format, QuarterArray, format_of
from ..formats.arrays import as_array
from ..formats.format import preset_of, remedy
from ..immutable import anchor_of
from ..program import (
    overlaps_itself,
    result_array,
    result_array_like,
    room_like,
    share_memory,
    temporary,
    without_gaps,
)
from ..target.host_memory import check_memory

RESULT: Literal[-1] = -1
"""In a request's operands: what receives the result."""

VALUES: Literal[-2] = -2
"""In a request's operands: the block of words that each call has of its own, such as a seed."""

BESIDE: Literal[-4] = -4
"""In a request's operands: the bytes of its further results."""

Place = tuple[str, int]
Element = Format | np.dtype[Any]
"""What the elements of a result are: numbers of a format, or what has no format, such as integers and truth values."""

WIDE, _WIDE = (FP32, FP16, BF16), "float32, float16 or bfloat16"
"""The formats of 16 bits and more: all that some ops take."""

_ALLOWED = "an array of " + ", ".join(f.name for f in FORMATS)


@dataclass(eq=False, slots=True)  # frozen ones take four times as long to make
class Operand:
    """An operand of a call: codes, their format, the scales of a `QuarterArray`.

    Attributes
    ----------
    array : numpy.ndarray
        Numbers of the format's dtype, or its codes. Its shape and strides stay as they were read.
    format : Format, numpy.dtype or None
    scale : int
        Exponent s of the scale 2^s that all elements have.
    scales : Operand or None
        Exponents of blocks, where they differ.
    block_shape : tuple of int
        Extents of the blocks, where there are some.
    place : (str, int) or None
        Which argument the memory is, and which of its arrays; None for memory of this call alone.
    gathered : bool
        Whether the program reads a copy in C order, made in each call.
    anchor : object
        What keeps an argument's memory in its place; see `immutable.anchor_of`.
    """

    array: Array
    format: Any  # an `Element` or None; most ops have formats alone
    scale: int = 0
    scales: Operand | None = None
    block_shape: tuple[int, ...] = ()
    place: Place | None = None
    gathered: bool = False
    anchor: object = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return tuple(self.array.shape)

    def seen(self, view: Callable[[Array], Array]) -> Operand:
        """Return the operand with its array seen in another way, beginning at the same element."""
        return Operand(view(self.array), self.format, self.scale, self.scales, self.block_shape, self.place,
                       self.gathered, self.anchor)

    def in_c_order(self) -> Operand:
        """Return the operand as a program reads it that takes no strides."""
        return self if self.array.flags.c_contiguous else replace(self, gathered=True)

    def apart(self) -> Operand:
        """Return the operand in memory of this call, lying as it does."""
        array = room_like(self.array)
        array[...] = self.array
        return replace(self, array=array, place=None)

    def copied(self) -> Operand:
        """Return the operand in counted memory of its own."""
        array = temporary(self.array.shape, self.array.dtype)
        array[...] = self.array
        return replace(self, array=array, place=None)


def argument(name: str, value: object, allowed: str, numbers: Any = None) -> Operand:
    """Take an array of any dtype as `formats.arrays.as_array` does, its memory anchored before it is looked at.

    It has no format yet: what it stands for is the caller's to say.
    """
    anchor = anchor_of(value)
    array = as_array(name, value, allowed, numbers)
    return Operand(array, None, place=(name, 0) if type(value) is np.ndarray else None, anchor=anchor)


def array_operand(name: str, value: object, allowed: str = _ALLOWED, also: str = "") -> Operand:
    """Take an array of a known format, or of a dtype of the kinds `also`; lists of numbers become float32.

    Raises
    ------
    InvalidTypeError
        For what cannot be taken; a float64 array is told the remedy.
    """
    x = argument(name, value, allowed, np.float32)
    dtype = x.array.dtype
    x.format = preset_of(dtype) or (dtype if dtype.kind in also else None)
    if x.format is None:
        raise bad_type(name, f"dtype {dtype}", allowed + (remedy(dtype) if name != "out" else ""))
    if not dtype.isnative:
        raise bad_type(name, f"dtype {dtype.str}", "the machine's own byte order")
    return x


def whole_operand(name: str, value: object, allowed: str = "an array of whole numbers") -> Operand:
    """Take an array of whole numbers: indices, labels, lengths, of any integer type in the machine's own byte order."""
    x = argument(name, value, allowed)
    dtype = x.array.dtype
    if isinstance(value, (list, tuple)) and not x.array.size:
        x.array = x.array.astype(np.int64)
    elif dtype.kind not in "iu" or not dtype.isnative:
        raise bad_type(name, f"dtype {dtype.str if dtype.kind in 'iu' else dtype}", allowed)
    return x


def operand(name: str, value: object, allowed: str = _ALLOWED, also: str = "") -> Operand:
    """Take an operand: an array, a tensor, lists of numbers, or a `QuarterArray` with its scales."""
    if not isinstance(value, QuarterArray):
        return array_operand(name, value, allowed, also)
    codes = value.codes
    uniform = value.uniform_scale()
    if uniform is not None:
        keyed = value.block_shape is None
        return Operand(codes, value.format, uniform, place=(name, 0) if keyed else None)
    assert value.block_shape is not None
    scales = Operand(np.asarray(value.scale), None, place=(name, 1))
    return Operand(codes, value.format, 0, scales, value.block_shape, (name, 0))


def wide_operand(name: str, value: object, what: str = "numbers") -> Operand:
    """Take an operand of one of `WIDE`, or raise."""
    allowed = f"{_WIDE} {what}"
    if isinstance(value, QuarterArray):
        raise bad_type(name, value, f"{allowed}: see its to_array")
    x = array_operand(name, value, allowed)
    if x.format not in WIDE:
        raise bad_type(name, f"dtype {x.array.dtype}", allowed)
    return x


def wide_format(name: str, dtype: object, default: Format | None = None) -> Format:
    """Return the one of `WIDE` that an argument names, by default another one, or raise."""
    made = format_of(dtype, name) if default is None or dtype is not None else default
    if made not in WIDE:
        raise bad_argument(name, made.name, _WIDE)
    return made


def one_scale_operand(name: str, value: object, shape: tuple[int, ...] | None = None) -> Operand:
    """Take an operand whose elements share a scale, perhaps of a known shape."""
    x = operand(name, value)
    _with_one_scale(name, x)
    check_shape(name, x, shape is None or x.shape == shape, f"shape {shape}")
    return x


def _with_one_scale(name: str, x: Operand) -> None:
    if x.scales is not None:
        raise bad_argument(name, f"a QuarterArray with scales of blocks {x.block_shape}", "one with one scale")


def result_format(*given: Any) -> Format:
    """Return the result's format where none is asked for, of formats and of what has one: one rule for all ops.

    float32 where an operand is float32 or FP16 meets BF16; else the 16-bit format that is there; float16 for FP8 alone.

    Examples
    --------
    >>> from poplibs_py.formats import BF16, F143, FP16
    >>> print(result_format(F143, BF16), result_format(F143, F143), result_format(FP16, BF16))
    bfloat16 float16 float32
    """
    formats = (getattr(x, "format", x) for x in given)
    wide: set[Format] = {f for f in formats if f is not None and f.bits > 8}
    if len(wide) > 1 or FP32 in wide:
        return FP32
    return next(iter(wide)) if wide else FP16


@dataclass(eq=False, slots=True)
class Receiver(Operand):
    """What receives a result: an operand that is written.

    Its array is the caller's memory, a new one, or a copy where the program does not take the strides of `out` or this
    overlaps what the program reads; its scale is that at which an 8-bit result is written.

    Attributes
    ----------
    given : object
        What the caller passed as `out`, or None.
    view : numpy.ndarray or None
        The caller's memory, where the array is a copy of it.
    reads : bool
        Whether the program reads what it writes to.
    written_over : tuple of Operand
        Those that the caller's memory is itself, where the program writes each element behind reading it.
    """

    given: Any = None
    view: Array | None = None
    reads: bool = False
    written_over: tuple[Operand, ...] = ()

    @property
    def memory(self) -> Array:
        """Where the result is in the end."""
        return self.array if self.view is None else self.view

    @property
    def keeps(self) -> bool:
        """Whether a bound call can write to what another such call receives."""
        return self.given is None or (self.place is not None and not (self.reads and self.view is not None))

    def spoils(self, x: Operand) -> bool:
        """Whether writing to the caller's memory could change what is still to be read of an operand."""
        copied = x.gathered and not x.array.flags.c_contiguous
        if copied or not share_memory(self.array, x.array):
            return False
        return not any(x is over for over in self.written_over)

    def apart(self) -> Receiver:
        """Return it as a copy that the program writes, which lies as the caller's memory does."""
        place = self.place if without_gaps(self.array) else None  # which a bound call's copies have none of
        return replace(self, view=self.array, array=room_like(self.array), place=place)

    def wrapping(self, wrap: Callable[[Array, Any], Any] | None) -> Callable[[Array, Any], Any] | None:
        """Return what makes a new array into the result: that of the op, a `QuarterArray` of a format without a dtype,
        or nothing."""
        form = self.format
        if wrap is not None or not isinstance(form, Format) or form.dtype is not None:
            return wrap
        return lambda codes, _: QuarterArray(codes, form)

    def finish(self, wrap: Callable[[Array, Any], Any] | None, first: Any) -> Any:
        """Return the result."""
        if self.view is not None:
            self.view[...] = self.array
        if self.given is not None:
            return self.given
        made = self.wrapping(wrap)
        return self.array if made is None else made(self.array, first)


def new_result(shape: tuple[int, ...], dtype: Element, like: Array | None = None) -> Receiver:
    """Return a new array for a result, in C order or laid out like another array."""
    own = (dtype.dtype or dtype.code_dtype) if isinstance(dtype, Format) else dtype
    check_memory("out", f"a result of shape {shape}", math.prod(shape) * own.itemsize)
    array = result_array(shape, own) if like is None else result_array_like(like, own)
    return Receiver(array, dtype)


def receive(name: str, out: object, shape: tuple[int, ...] | None, out_dtype: object, default: Element,
            in_place: Iterable[Operand] = (), reads: bool = False, contiguous: bool = False, blocks: bool = False,
            like: Array | None = None, own: str = "") -> Receiver:
    """Return what receives a result: `out`, checked, or a new array.

    What else `out` overlaps than is `in_place` is not asked here: the road looks at all operands of the call.

    Parameters
    ----------
    name : str
        What the caller calls `out`.
    out : object
        Where the result goes: an array, tensor or `QuarterArray` with one scale, of this shape; or None.
    shape : tuple of int or None
        None for that of `out`.
    out_dtype : object
        The format that the caller asked for, or None.
    default : Format or numpy.dtype
        The result's without one. A dtype must be that of `out`.
    in_place : iterable of Operand, optional
        Those of the call, as the request has them, that the program may write over element by element where `out` is
        one itself: see `Receiver.written_over`.
    reads : bool, optional
        Whether the program reads what it writes to.
    contiguous : bool, optional
        Whether the program writes aligned memory in C order alone; for an `out` that lies otherwise the result is
        made in a copy.
    blocks : bool, optional
        Whether the program writes blocks at scales of their own.
    like : numpy.ndarray, optional
        What a new result is laid out like.
    own : str, optional
        Whose format the result has, where it can have no other.
    """
    if out is None:
        assert shape is not None
        return new_result(shape, default if out_dtype is None else format_of(out_dtype, "out_dtype"), like)
    given = _writable(name, out, blocks) if isinstance(default, Format) else _of_dtype(name, out, default)
    array, fmt = given.array, given.format or default
    if out_dtype is not None and format_of(out_dtype, "out_dtype") != fmt:
        raise bad_argument(name, f"dtype {fmt}", f"out_dtype, which is {out_dtype}")
    if own and fmt != default:
        raise bad_argument(name, f"dtype {fmt}", f"{default}, {own}")
    check_shape(name, array, shape is None or array.shape == shape, f"shape {shape}")
    if not array.flags.writeable:
        raise bad_argument(name, "a read-only array", "a writeable array")
    if overlaps_itself(array):
        raise bad_argument(name, "an array whose elements share memory", "one element to each place")
    view = None
    if contiguous and not array.flags.carray:
        view, array = array, temporary(array.shape, array.dtype)
        if reads:
            array[...] = view
    over = () if view is not None else tuple(x for x in in_place if _are_one(array, x.array))
    return Receiver(array, fmt, given.scale, given.scales, given.block_shape, given.place, False, given.anchor, out,
                    view, reads, over)


def _are_one(a: Array, b: Array) -> bool:
    """Whether each element of an array lies where that of another does."""
    return (a.shape == b.shape and a.strides == b.strides and a.itemsize == b.itemsize
            and a.ctypes.data == b.ctypes.data)


def _of_dtype(name: str, out: Any, dtype: np.dtype[Any]) -> Operand:
    """Return an `out` of a dtype as an operand."""
    if not isinstance(out, np.ndarray) and (isinstance(out, QuarterArray) or not hasattr(out, "__dlpack__")):
        raise bad_type(name, type(out).__name__, "an array or a tensor")
    x = argument(name, out, f"an array of {dtype}")
    if x.array.dtype != dtype:
        raise bad_type(name, f"an array of {x.array.dtype}", f"one of {dtype}")
    return x


def _writable(name: str, out: Any, blocks: bool) -> Operand:
    """Return `out` as an operand."""
    if isinstance(out, QuarterArray):
        given = operand(name, out)
        if not blocks:
            _with_one_scale(name, given)
        return given
    if not isinstance(out, np.ndarray) and not hasattr(out, "__dlpack__"):
        raise bad_type(name, type(out).__name__, "an array, a tensor or a QuarterArray")
    return array_operand(name, out)
