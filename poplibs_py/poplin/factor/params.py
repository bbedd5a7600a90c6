"""What there is to know of a factorisation: shapes, formats, triangles, how operands lie."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...checks import check_shape
from ...formats import Array, Format
from ...ops import Operand, wide_operand


@dataclass(frozen=True)
class FactorLayout:
    """How the matrices of an operand lie: lines one behind another, each a row, or a column where they are transposed.

    Attributes
    ----------
    format : Format
    rows, columns : int
        Lines, and elements of a line.
    transposed : bool
    operand : int
        Which operand of the program they are in.
    """

    format: Format
    rows: int
    columns: int
    transposed: bool = False
    operand: int = 0

    @property
    def line(self) -> int:
        """Bytes of a line."""
        return self.columns * self.format.itemsize

    @property
    def matrix(self) -> int:
        """Bytes of a matrix."""
        return self.rows * self.line


@dataclass(frozen=True)
class FactorParams:
    """A factorisation or a solve of a batch of matrices.

    Attributes
    ----------
    op : str
        What its kernels are called: cholesky, solve, lu or qr.
    front : tuple of int
        Extents of the batch.
    rows, columns : int
        Of the matrix that is factored; of a solve, its order and the right-hand sides.
    operands : tuple of FactorLayout
        What is read, then what is written.
    width : int
        Columns of Q.
    upper, unit : bool
        Which triangle is read; whether its diagonal counts as ones.
    """

    op: str
    front: tuple[int, ...]
    rows: int
    columns: int
    operands: tuple[FactorLayout, ...]
    width: int = 0
    upper: bool = False
    unit: bool = False
    batch: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch", math.prod(self.front))

    @property
    def formats(self) -> str:
        """What a kernel is selected by: what is read, and the first that is written."""
        reads = 2 if self.op == "solve" else 1
        return ",".join(o.format.name for o in self.operands[:reads]) + "->" + self.operands[reads].format.name

    def __str__(self) -> str:
        shape = ", ".join(map(str, (*self.front, self.rows, self.columns)))
        formats = " to ".join(dict.fromkeys(o.format.name for o in self.operands))
        return f"{self.op} [{shape}] {formats}"

    def which(self, failed: Array) -> str:
        """Return, in words, which matrix is the first that a status marks."""
        index = np.unravel_index(int(np.argmax(failed)), self.front) if self.front else ()
        place = ", ".join(str(int(i)) for i in index)
        return f"matrix [{place}] of the batch" if place else "a matrix"


def matrices(name: str, value: Any, square: bool = False) -> Operand:
    """Take an operand that holds a matrix or a batch of them, or raise."""
    x = wide_operand(name, value, "matrices")
    kind = "square matrices [..., n, n]" if square else "matrices [..., m, n]"
    check_shape(name, x, len(x.shape) >= 2 and (not square or x.shape[-1] == x.shape[-2]), kind)
    return x


def laid(x: Operand, operand: int, transposed: bool = False) -> tuple[Operand, FactorLayout]:
    """Return an operand as a program reads it, its matrices one behind another, and how they lie.

    Parameters
    ----------
    x : Operand
    operand : int
        Its number in the program.
    transposed : bool, optional
        Whether its transpose is what is computed with.
    """
    fmt = x.format
    assert fmt is not None
    if not x.array.flags.c_contiguous and np.swapaxes(x.array, -1, -2).flags.c_contiguous:
        x, transposed = x.seen(lambda array: array.swapaxes(-1, -2)), not transposed
    rows, columns = x.shape[-2:]
    return x.in_c_order(), FactorLayout(fmt, rows, columns, transposed, operand)
