"""Ops with several results: one new array of bytes that the program writes, seen as the results one after another.

Where one of them is received as a single result is, with all that `out` may be, the bytes are those of the others.
Arrays of a tuple `out` are checked by `receivers_of`, whether results are copied to them or written there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..errors import bad_argument, bad_type
from ..formats import Array, Format, format_of
from ..program import Views, whole_lines
from .operands import Operand, Receiver, new_result, receive, result_format


@dataclass(frozen=True)
class Part:
    """One of several results: its shape, its format, or the dtype of what has none, and what it is laid out like."""

    shape: tuple[int, ...]
    format: Any
    like: Array | None = None

    @property
    def order(self) -> tuple[int, ...]:
        """Axes from the outermost to the innermost: those of `like`, if it repeats nothing, else in C order."""
        axes = range(len(self.shape))
        if self.like is None or not all(self.like.strides):
            return tuple(axes)
        steps = self.like.strides
        return tuple(sorted(axes, key=lambda d: -abs(steps[d]) if self.shape[d] > 1 else 0))

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype."""
        return np.dtype(self.format.dtype if isinstance(self.format, Format) else self.format)

    @property
    def nbytes(self) -> int:
        """Bytes, up to the next cache line."""
        return whole_lines(prod(self.shape) * self.dtype.itemsize)


@dataclass(frozen=True)
class Several:
    """Results that are one of several: a tuple of their own."""

    kind: type
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Results:
    """What receives several results.

    Attributes
    ----------
    receiver : Receiver
        The bytes.
    offsets : tuple of int
        Where each result begins that lies in them.
    wrap : callable
        Makes the bytes into what is returned: views of them, or arrays that the caller gave, to which they are copied
        when all are done.
    views : Views
        Makes the bytes into the results: compiled, for what a repeated call does.
    """

    receiver: Receiver
    offsets: tuple[int, ...]
    wrap: Callable[[Array, Any], Any]
    views: Views


@dataclass(frozen=True)
class Given:
    """Copies several results to arrays that the caller gave.

    Attributes
    ----------
    views : Views
        Makes the bytes into the results.
    receivers : list of Receiver
        Whose memory it is.
    """

    views: Views
    receivers: list[Receiver]

    @property
    def keeps(self) -> bool:
        """Whether all are arrays of the argument `out`, one behind another, so that a bound call finds them."""
        return all(type(receiver.given) is np.ndarray for receiver in self.receivers)

    def __call__(self, buffer: Array, _: Any) -> Any:
        """Copy the results to the arrays, and return these."""
        made = self.views(buffer)
        for receiver, array in zip(self.receivers, made, strict=True):
            receiver.array[...] = array.view(receiver.array.dtype)  # codes of a `QuarterArray` as they are
        return (type(made)._make if hasattr(made, "_make") else tuple)(x.given for x in self.receivers)


def results(out: Any, parts: Sequence[Part | Several | int | None], kind: type) -> Results:
    """Return what receives several results: arrays given as `out`, checked, or new ones.

    Parameters
    ----------
    out : sequence of arrays, or None
        Of results that are all arrays.
    parts : sequence of Part, Several, int or None
        A number is a result itself. None is that which the call's own receiver has, beside which the others are made:
        `Request.beside`.
    kind : type
        A tuple, or a named one of as many fields.
    """
    views, offsets, end = _laid(kind, parts, 0)
    wrap: Any = views
    if out is not None:
        receivers = receivers_of(out, [part for part in parts if isinstance(part, Part)], own="the result's")
        for i, one in enumerate(receivers):
            if one.scale:
                raise bad_argument(f"out[{i}]", f"a QuarterArray with scale {one.scale}", "scale 0, as results have")
        wrap = Given(views, receivers)
    return Results(new_result((end,), np.dtype(np.uint8)), tuple(offsets), wrap, views)


def _laid(kind: type, parts: Sequence[Any], end: int) -> tuple[Views, list[int], int]:
    """Views of results that lie one after another from a byte on, where each begins, and where the last ends."""
    made: list[Any] = []
    offsets: list[int] = []
    for part in parts:
        if isinstance(part, Part):
            made.append((part.shape, part.dtype, end, part.order))
            offsets.append(end)
            end += part.nbytes
        elif isinstance(part, Several):
            views, own, end = _laid(part.kind, part.parts, end)
            made.append(views)
            offsets += own
        else:
            made.append(part)
    return Views(kind, tuple(made)), offsets, end


def part_format(out_dtype: object, *operands: Operand | None) -> Format:
    """Return the format of each of several results, which has a dtype: that asked for, else what operands' give."""
    made = result_format(*operands) if out_dtype is None else format_of(out_dtype, "out_dtype")
    if made.dtype is None:
        raise bad_argument("out_dtype", made, "formats with a dtype")
    return made


def receivers_of(out: Any, parts: Sequence[Part], operands: tuple[Operand, ...] = (), **how: Any) -> list[Receiver]:
    """Return what receives several results in arrays given as `out`, checked before any work.

    Parameters
    ----------
    out : sequence of arrays
    parts : sequence of Part
    operands, **how
        What the program reads, where it writes to the arrays themselves, and the rest of what `receive` takes.
    """
    if not isinstance(out, (tuple, list)):
        raise bad_type("out", out, f"a tuple of {len(parts)} arrays")
    if len(out) != len(parts) or any(x is None for x in out):
        raise bad_argument("out", f"{len(out)} items", f"{len(parts)} arrays")
    receivers = [receive(f"out[{i}]", x, part.shape, None, part.format, operands, **how)
                 for i, (x, part) in enumerate(zip(out, parts, strict=True))]
    for i, one in enumerate(receivers):
        if any(np.may_share_memory(one.memory, other.memory) for other in receivers[:i]):
            raise bad_argument(f"out[{i}]", "an array that may share memory with another", "arrays apart from it")
    return receivers
