"""What is computed of rows, and how operands lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...formats import Format
from ...kernels.records import ROWS
from ...ops.one_kernel import from_to
from .kinds import ROW_OPS, RowOp

EACH_SEGMENT: int = ROWS["each segment"]
MODES: Mapping[str, int] = ROWS["modes"]
"""Which of its ways a function goes: a norm ``"centred"``, or with ``"no statistics"``, a loss of ``"cross-entropy"``,
powers of 2 ``"brief"``; by default norms take no mean away, and losses are squares."""


class RowOperand(NamedTuple):
    """How an operand lies in the shape whose rows are taken.

    Attributes
    ----------
    operand : int
        Which of the call's.
    element : Format or numpy.dtype
        Of truth values, or of labels, where it is a dtype.
    strides : tuple of int
        In bytes.
    exponent : int
        Of the scale that all its elements share.
    single : int
        Whether there is one for each row, or for each of its segments (`EACH_SEGMENT`).
    written : bool
    offset : int
        Bytes of the first element.
    """

    operand: int
    element: Any
    strides: tuple[int, ...]
    exponent: int = 0
    single: int = False
    written: bool = False
    offset: int = 0


class RowsParams(NamedTuple):
    """What is computed of rows, and how operands lie.

    Attributes
    ----------
    body : str
        The kernel, one of `ROW_OPS`.
    shape : tuple of int
    axes : tuple of int
        Along which a row goes, ascending.
    operands : tuple of RowOperand or None
        In the kernel's order.
    arrays : int
        That a call passes.
    scale, factor, epsilon
        As pop_rows has them.
    mode : str
        One of `MODES`.
    segments : int or None
        The first of the axes, where sums along the others are added then.
    raw : bool
        As pop_rows has it.
    """

    body: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    operands: tuple[RowOperand | None, ...]
    arrays: int
    scale: float = 1.0
    factor: float = 1.0
    epsilon: float = 0.0
    mode: str = ""
    segments: int | None = None
    raw: bool = False

    @property
    def op(self) -> RowOp:
        """What its kernel needs."""
        return ROW_OPS[self.body]

    @property
    def numbers(self) -> list[tuple[int, RowOperand]]:
        """Operands that are numbers in the kernel's format, and their places."""
        return [(k, x) for k in self.op.wide if (x := self.operands[k]) is not None]

    def __str__(self) -> str:
        numbers = [x for x in self.operands if x is not None and isinstance(x.element, Format)]
        formats = from_to(*([x.element for x in numbers if x.written == written] for written in (False, True)))
        return f"{self.body} {list(self.shape)} along {list(self.axes)}, {formats}"
