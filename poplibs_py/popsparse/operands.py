"""The operands of sparse products: taken, checked, and described for a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import bad_argument, bad_type
from ..formats import BF16, FORMATS, FP32, Format, QuarterArray, format_of
from ..ops import Operand, Receiver, operand, receive, result_format
from ..popops import cast
from .items import ACTIVATIONS, FORMAT_NUMBERS
from .matrix import BlockSparseMatrix
from .parts import BLOCKS, COLUMN_INDICES, ROW_OFFSETS, SCALES
from .pattern import BlockPattern

__all__ = ["DenseLayout", "SparseOperand", "check_activation", "check_matrix", "check_rows", "dense_operand",
           "format_in", "grouped", "layer_operand", "layout_of", "product_format", "receive_result", "sparse_operand",
           "swapped_axes"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class DenseLayout:
    """A dense operand: its format, bytes between groups, rows and columns, and the exponent of its scale.

    `panel` is the columns of a strip where X was prepared as panels, else 0.
    """

    format: str
    strides: tuple[int, int, int]
    scale: int = 0
    panel: int = 0
    aligned: bool = True


@dataclass(frozen=True, eq=False)
class SparseOperand:
    """The sparse operand of a product: op(W), which is a matrix as it is stored or its transpose.

    Attributes
    ----------
    pattern : BlockPattern
        Of what is stored.
    format : Format
    transposed : bool
        Whether op(W) is the transpose of what is stored.
    offsets, columns, order : Operand
        Row offsets and block columns of op(W); for a transpose the places of its blocks, else None.
    values : Operand
        The blocks, or what `prepared` says.
    scale : int or None
        Exponent of the scale of all blocks, or None where each has its own.
    scales : Operand or None
        Those.
    prepared : str or None
        The compute format that the values are in already.
    """

    pattern: BlockPattern
    format: Format
    transposed: bool
    offsets: Operand
    columns: Operand
    order: Operand | None
    values: Operand
    scale: int | None
    scales: Operand | None = None
    prepared: str | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of op(W), in elements."""
        return self.pattern.shape[::-1] if self.transposed else self.pattern.shape


def check_matrix(name: str, w: object) -> BlockSparseMatrix:
    """Return `w` if it is a `BlockSparseMatrix`, or raise."""
    if not isinstance(w, BlockSparseMatrix):
        raise bad_type(name, type(w).__name__, "a BlockSparseMatrix")
    return w


def sparse_operand(name: str, w: object, transpose: bool = False) -> SparseOperand:
    """Return a matrix, or its transpose, as the sparse operand of a product, or raise."""
    matrix = check_matrix(name, w)
    transposed = matrix.is_transposed != transpose
    index = matrix._index_places() if transposed else (ROW_OFFSETS, COLUMN_INDICES)
    arrays = matrix._parts[1:]

    def part(place: int, dtype: Format | None = None) -> Operand:
        return Operand(arrays[place], dtype, place=(name, place))

    offsets, columns, *order = (part(place) for place in index)
    one = matrix.scale if isinstance(matrix.scale, int) else None
    return SparseOperand(matrix.pattern, matrix.format, transposed, offsets, columns, order[0] if order else None,
                         part(BLOCKS, matrix.format), one, part(SCALES) if one is None else None)


def dense_operand(name: str, value: object) -> Operand:
    """Return a dense operand of any of the formats that have a dtype, or a `QuarterArray`, or raise.

    Kernels decode 8-bit codes of one scale. What they do not know comes as a copy in the least format that holds its
    values: scales for each row or block, FP16 with a scale, users' formats.
    """
    found = operand(name, value)
    fmt = found.format
    assert fmt is not None
    if not isinstance(value, QuarterArray):
        return found
    known = fmt in FORMATS
    if known and found.scales is None and (not found.scale or fmt.bits == 8):
        return found
    wide = BF16 if known and fmt.bits == 8 else FP32
    return Operand(cast(value, wide), wide)


def format_in(value: object, operand: Operand) -> Format:
    """Return the format of an operand before `dense_operand` copied it."""
    fmt = value.format if isinstance(value, QuarterArray) else operand.format
    assert fmt is not None
    return fmt


def product_format(*formats: Format) -> Format:
    """Return the format of a result where none is asked for: that of all ops, and FP32 for users' formats."""
    made = result_format(*formats)
    return made if made in FORMATS else FP32


def check_rows(name: str, array: Array, rows: int, groups: int) -> None:
    """Raise unless `array` has `rows` rows, and groups in front where there are several."""
    wanted = f"shape ({groups}, {rows}, columns)" if groups > 1 else f"shape ({rows}, columns)"
    if array.ndim == 3 and array.shape[0] == groups and array.shape[1] == rows:
        return
    if array.ndim != 2 or groups > 1 or array.shape[0] != rows:
        raise bad_argument(name, f"shape {array.shape}", wanted)


def layer_operand(name: str, operand: Operand, groups: int, width: int) -> Operand:
    """Return (batch, groups * width), as layers take and give it, seen as (groups, width, batch), or raise."""
    if operand.array.ndim != 2 or operand.array.shape[1] != groups * width:
        raise bad_argument(name, f"shape {operand.array.shape}", f"shape (batch, {groups * width})")
    return operand.seen(lambda array: grouped(array, groups))


def grouped(array: Array, groups: int) -> Array:
    """Return (batch, groups * width) seen as (groups, width, batch)."""
    return array.reshape(array.shape[0], groups, array.shape[1] // groups).transpose(1, 2, 0)


def check_activation(activation: object) -> str | None:
    """Return the activation, or raise."""
    if activation is None:
        return None
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise bad_argument("activation", activation, ", ".join(repr(name) for name in ACTIVATIONS))
    return activation


def receive_result(out: object, shape: tuple[int, ...], out_dtype: object, default: Format,
                   operands: tuple[Operand | None, ...], contiguous: bool = False) -> Receiver:
    """Return what receives a result in one of the formats that have a dtype, or raise.

    Parameters
    ----------
    out, shape, out_dtype, default, operands, contiguous
        As for `ops.receive`.
    """
    wanted = None if out_dtype is None else format_of(out_dtype, "out_dtype")
    if wanted is not None and wanted not in FORMATS:
        raise bad_type("out_dtype", wanted.name, ", ".join(FORMAT_NUMBERS))
    found = receive("out", out, shape, wanted, default, operands, contiguous=contiguous)
    if found.format not in FORMATS or (found.scale and found.format.bits > 8):
        eight = ", ".join(name for name in FORMAT_NUMBERS if format_of(name).bits == 8)
        raise bad_type("out", f"a QuarterArray of {found.format} at scale {found.scale}",
                       f"one of {eight}, or of float16 at 0")
    return found


def layout_of(x: Operand) -> DenseLayout:
    """Return what a program must know of a dense operand, seen as rows and columns, perhaps with groups in front."""
    array = x.array
    assert x.format is not None
    group = array.strides[0] if array.ndim == 3 else 0
    column = array.strides[-1] if array.shape[-1] > 1 else array.itemsize
    aligned = bool(array.flags.aligned) and array.strides[-2] % array.itemsize == 0
    return DenseLayout(x.format.name, (group, array.strides[-2], column), x.scale, 0, aligned)


def swapped_axes(array: Array) -> Array:
    """Return an array of matrices with the two last axes swapped; a vector as it is."""
    return array.swapaxes(-1, -2) if array.ndim >= 2 else array
