"""Ops with several results: parts of one new array of bytes, or arrays of a tuple `out`, each an operand of its own.

Where one of them is received as a single result is, with all that `out` may be, the bytes are those of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..errors import bad_argument, bad_type
from ..formats import Array, Format, format_of
from ..memo import remembered
from ..program import Views, share_memory, whole_lines
from .operands import RESULT, Operand, Receiver, new_result, receive, result_format


@dataclass(frozen=True)
class Part:
    """One of several results.

    Attributes
    ----------
    shape : tuple of int
    format : Format or dtype
    like : numpy.ndarray, optional
        What it is laid out like, where it is new.
    strided : bool, optional
        Whether the program writes an array of any strides; else what lies otherwise than in C order gets a copy.
    """

    shape: tuple[int, ...]
    format: Any
    like: Array | None = None
    strided: bool = False

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
class ResultPart:
    """One of several new results, as an operand of the program."""

    views: Views
    number: int

    def of(self, buffer: Array) -> Array:
        """Return it in the bytes of all."""
        return self.views.part(buffer, self.number)


@dataclass(frozen=True)
class Results:
    """What receives several results.

    Attributes
    ----------
    receiver : Receiver
        The bytes of new ones.
    operands : tuple of ResultPart, Receiver or RESULT
        What a request has for each result that is an array.
    offsets : tuple of int
        Where each new result begins that lies in the bytes.
    wrap : callable
        Makes the bytes into what is returned: views of them, or the arrays that the caller gave.
    views : Views
        Makes the bytes into the results: compiled, for what a repeated call does.
    """

    receiver: Receiver
    operands: tuple[ResultPart | Receiver | int, ...]
    offsets: tuple[int, ...]
    wrap: Callable[[Array, Any], Any] | None
    views: Views

    def receivers(self, parts: Sequence[Part]) -> list[Receiver]:
        """Return what receives each of some parts, which are all that there are."""
        return [x if isinstance(x, Receiver) else Receiver(array, part.format)
                for x, array, part in zip(self.operands, self.arrays, parts, strict=True)]

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Where the program writes what its operands receive."""
        made = self.receiver.array
        return tuple(x.of(made) if isinstance(x, ResultPart) else x.array if isinstance(x, Receiver) else made
                     for x in self.operands)


@dataclass(frozen=True)
class Given:
    """Returns several results that the program wrote to arrays of the caller's; `views` makes what has as many."""

    views: Views
    arrays: tuple[Any, ...]
    kind: type

    def __call__(self, _: Array, __: Any) -> Any:
        """Return the arrays."""
        return self.kind._make(self.arrays) if hasattr(self.kind, "_make") else self.arrays


def alone(made: Receiver | Results) -> Results:
    """Return what receives several results, or one as if it were several."""
    if isinstance(made, Results):
        return made
    return Results(made, (RESULT,), (0,), None, _NONE)


_NONE = Views(tuple, ())


def results(out: Any, parts: Sequence[Part | Several | int | None], kind: type,
            own: str = "the result's", **how: Any) -> Results:
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
    own, **how
        As `receive` has them. Where formats are the results' `own`, they have no scales; else each array decides for
        itself, unless there is an `out_dtype`.
    """
    views, offsets, end = _laid(kind, parts, 0)
    if out is None:
        receiver = new_result((end,), np.dtype(np.uint8))
        new = tuple(ResultPart(views, i) for i, part in enumerate(parts) if isinstance(part, Part))
        return Results(receiver, new, tuple(offsets), views, views)
    whole = [part for part in parts if isinstance(part, Part)]
    receivers = tuple(receivers_of(out, whole, own=own, **how))
    for i, (one, part) in enumerate(zip(receivers, whole, strict=True) if own else ()):
        if one.scale:
            raise bad_argument(f"out[{i}]", f"a QuarterArray with scale {one.scale}", "scale 0, as results have")
        if one.array.dtype != part.dtype:  # codes of a `QuarterArray`
            one.array, one.view = one.array.view(part.dtype), None if one.view is None else one.view.view(part.dtype)
    first = Receiver(receivers[0].array, receivers[0].format)
    return Results(first, receivers, tuple(offsets), Given(views, tuple(x.given for x in receivers), kind), views)


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
    return _views(kind, tuple(made)), offsets, end


@remembered()
def _views(kind: type, parts: tuple[Any, ...]) -> Views:
    return Views(kind, parts)


def part_format(out_dtype: object, *operands: Operand | None) -> Format:
    """Return the format of each of several results, which has a dtype: that asked for, else what operands' give."""
    made = result_format(*operands) if out_dtype is None else format_of(out_dtype, "out_dtype")
    if made.dtype is None:
        raise bad_argument("out_dtype", made, "formats with a dtype")
    return made


def receivers_of(out: Any, parts: Sequence[Part], out_dtype: object = None, **how: Any) -> list[Receiver]:
    """Return what receives several results in arrays given as `out`, checked before any work.

    Parameters
    ----------
    out : sequence of arrays
    parts : sequence of Part
    out_dtype : object
        The format that the caller asked for, or None.
    **how
        The rest of what `receive` takes.
    """
    if not isinstance(out, (tuple, list)):
        raise bad_type("out", out, f"a tuple of {len(parts)} arrays")
    if len(out) != len(parts) or any(x is None for x in out):
        raise bad_argument("out", f"{len(out)} items", f"{len(parts)} arrays")
    receivers = [receive(f"out[{i}]", x, part.shape, out_dtype, part.format, contiguous=not part.strided, **how)
                 for i, (x, part) in enumerate(zip(out, parts, strict=True))]
    for i, one in enumerate(receivers):
        one.place = ("out", i) if type(one.given) is np.ndarray else None
    check_apart("out", receivers)
    return receivers


def check_apart(name: str, receivers: Sequence[Receiver]) -> None:
    """Raise where two of what the caller gave for results may share memory."""
    given = [(i, one.memory) for i, one in enumerate(receivers) if one.given is not None]
    for k, (i, memory) in enumerate(given):
        if any(share_memory(memory, other) for _, other in given[:k]):
            raise bad_argument(f"{name}[{i}]", "an out that may share memory with another", "arrays apart from it")
