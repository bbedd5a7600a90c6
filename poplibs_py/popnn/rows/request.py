"""How calls become functions of rows: their operands' layouts, and the request of a program of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...config import settings
from ...memo import remembered
from ...ops import Operand, Placed, Receiver, Request, contiguous_strides
from ...ops.one_kernel import OneKernel
from ...ops.parts import Results
from .lower import lower
from .params import RowOperand, RowsParams
from .plan import plan_rows


def row_of(x: Operand, number: int, shape: tuple[int, ...], single: int = False) -> RowOperand:
    """Return how an operand of this shape, or one that broadcasts to it, lies; a receiver is written."""
    array = x.array if isinstance(x, Receiver) else np.broadcast_to(x.array, shape)
    element = array.dtype if x.format is None else x.format
    return RowOperand(number, element, array.strides, x.scale, single, isinstance(x, Receiver))


def repeated(own: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides of an array in C order along the axes of a shape to which it broadcasts."""
    return tuple(0 if n == 1 else step for n, step in zip(own, contiguous_strides(own, itemsize), strict=True))


def rows_request(steps: tuple[RowsParams, ...], operands: tuple[Any, ...], to: Receiver | Results,
                 placed: Placed[Any] | None = None, workspace: int = 0, **more: Any) -> Request:
    """Describe a call of a program of rows, of one function or of several one after another."""
    program = _program(steps, settings.num_threads, workspace)
    return Request.to(to, program.executable, operands, program.told, placed=placed, **more)


@remembered()
def _program(steps: tuple[RowsParams, ...], threads: int, workspace: int) -> OneKernel:
    return lower([plan_rows(p, threads) for p in steps], workspace)
