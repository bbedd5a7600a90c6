"""The operands of sparse products: taken, checked, and described for a program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from ..checks import check_shape
from ..errors import bad_argument, bad_type
from ..formats import BF16, FORMATS, FP32, Array, Format, QuarterArray, format_of
from ..kernels.records import ACTIVATIONS, FORMAT_NUMBERS
from ..ops import Operand, Receiver, operand, receive, result_format
from ..planner.facts import Load
from ..popops import cast
from ..program import Wrapper
from .matrix import BlockSparseMatrix
from .parts import BLOCKS, COLUMN_INDICES, ROW_OFFSETS, SCALES, kinds_of
from .pattern import BlockPattern

Form = Literal["plain", "swapped", "layer"]
"""How a caller has a matrix [rows, columns]: so, as its transpose, or as layers do, as (columns, groups * rows)."""


@dataclass(frozen=True)
class DenseLayout:
    """A dense operand: its format, bytes between groups, rows and columns, and the exponent of its scale.

    `panel` is the columns of a strip where X was prepared as panels, else 0; `pairs`: two of its rows are interleaved.
    """

    format: str
    strides: tuple[int, int, int]
    scale: int = 0
    panel: int = 0
    aligned: bool = True
    pairs: bool = False


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

    def with_arrays(self, values: Array, scales: Array | None) -> SparseOperand:
        """Return the operand with its values, and scales of blocks, in other arrays."""
        own = self.scales if self.scales is None or scales is None else replace(self.scales, array=scales)
        return replace(self, values=replace(self.values, array=values), scales=own)

    def measured(self, columns: int) -> dict[str, Any]:
        """Return what a `Run` tells of a product with so many columns: operations, and the balance of the pattern."""
        p = self.pattern
        return {"flops": 2 * p.n_blocks * p.block_shape[0] * p.block_shape[1] * columns,
                "loads": {"stored blocks of a block row": Load.of(np.diff(self.offsets.array))}}

    @property
    def longest_row(self) -> int:
        """Stored blocks of the block row of op(W) that has most."""
        return int(np.max(np.diff(self.offsets.array), initial=0))


def check_matrix(name: str, w: object) -> BlockSparseMatrix:
    """Return `w` if it is a `BlockSparseMatrix`, or raise."""
    if not isinstance(w, BlockSparseMatrix):
        raise bad_type(name, type(w).__name__, "a BlockSparseMatrix")
    return w


def matrix_result(out: object, pattern: BlockPattern, name: str = "out") -> BlockSparseMatrix:
    """Return the matrix that receives blocks of a pattern at one scale, or raise."""
    found = check_matrix(name, out)
    if found.is_transposed or found.pattern != pattern:
        raise bad_argument(name, found, f"a matrix with the pattern {pattern}, not transposed")
    if not isinstance(found.scale, int):
        raise bad_argument(name, "a scale for each block", "one scale")
    return found


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


def seen(array: Array, form: Form, groups: int) -> Array:
    """Return an array that is in a form as rows and columns, perhaps with groups in front."""
    if form == "layer":
        return array.reshape(array.shape[0], groups, array.shape[1] // groups).transpose(1, 2, 0)
    return array.swapaxes(-1, -2) if form == "swapped" else array


def shape_of(form: Form, groups: int, rows: int, columns: int, stack: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Return the shape of matrices in a form; `stack` is the axis in front, by default one where there are groups."""
    if form == "layer":
        return columns, groups * rows
    inner = (columns, rows) if form == "swapped" else (rows, columns)
    return (*((groups,) * (groups > 1) if stack is None else stack), *inner)


def matrices(name: str, value: Operand, form: Form, groups: int, rows: int) -> Operand:
    """Return an operand in a form as matrices of so many rows, or raise."""
    check_shape(name, value, form != "layer" or (value.array.ndim == 2 and value.array.shape[1] == groups * rows),
                f"shape (batch, {groups * rows})")
    found = value.seen(lambda array: seen(array, form, groups)) if value.array.ndim >= 2 else value
    stacked = len(found.shape) == 3 and found.shape[:2] == (groups, rows)
    if not stacked and (len(found.shape) != 2 or groups > 1 or found.shape[0] != rows):
        inner = f"rows, {rows}" if form == "swapped" else f"{rows}, columns"
        wanted = f"({groups}, {inner})" if groups > 1 else f"({inner})"
        raise bad_argument(name, f"shape {value.shape}", f"shape {wanted}")
    return found


def in_groups(operand: Operand) -> Operand:
    """Return an operand as matrices with groups in front, be they one."""
    return operand.seen(lambda array: array[None] if array.ndim == 2 else array)


def check_activation(activation: object) -> str | None:
    """Return the activation, or raise."""
    if activation is None:
        return None
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise bad_argument("activation", activation, ", ".join(repr(name) for name in ACTIVATIONS))
    return activation


def checked_format(name: str, dtype: object, default: Format) -> Format:
    """Return the format asked for, which must have a dtype, or where none is the default."""
    wanted = default if dtype is None else format_of(dtype, name)
    if wanted not in FORMATS:
        raise bad_type(name, wanted.name, ", ".join(FORMAT_NUMBERS))
    return wanted


def receive_result(out: object, shape: tuple[int, ...], out_dtype: object, default: Format,
                   contiguous: bool = False) -> Receiver:
    """Return what receives a result in one of the formats that have a dtype, or raise.

    Parameters
    ----------
    out, shape, out_dtype, default, contiguous
        As for `ops.receive`.
    """
    wanted = None if out_dtype is None else checked_format("out_dtype", out_dtype, default)
    found = receive("out", out, shape, wanted, default, contiguous=contiguous)
    if found.format not in FORMATS or (found.scale and found.format.bits > 8):
        eight = ", ".join(name for name in FORMAT_NUMBERS if format_of(name).bits == 8)
        raise bad_type("out", f"a QuarterArray of {found.format} at scale {found.scale}",
                       f"one of {eight}, or of float16 at 0")
    return found


def layout_of(x: Operand) -> DenseLayout:
    """Return what a program must know of a dense operand, seen as rows and columns, perhaps with groups in front."""
    array = x.array
    group = array.strides[0] if array.ndim == 3 else 0
    column = array.strides[-1] if array.shape[-1] > 1 else array.itemsize
    aligned = bool(array.flags.aligned) and array.strides[-2] % array.itemsize == 0
    return DenseLayout(x.format.name, (group, array.strides[-2], column), x.scale, 0, aligned)


def laid_out(form: Form, groups: int, rows: int, columns: int, dtype: Format) -> DenseLayout:
    """Return the layout of a C-contiguous array in a form."""
    shape, size = shape_of(form, groups, rows, columns), dtype.itemsize
    group = 0 if groups == 1 else rows * size * (1 if form == "layer" else columns)
    row, column = (columns * size, size) if form == "plain" else (size, shape[-1] * size)
    return DenseLayout(dtype.name, (group, row, column if columns > 1 else size))


def check_form(name: str, form: Any) -> Form:
    """Return a form, or raise."""
    if not isinstance(form, str) or form not in get_args(Form):
        raise bad_argument(name, form, ", ".join(get_args(Form)))
    return form  # type: ignore[return-value]


def planned_operand(name: str, value: object, layout: DenseLayout, form: Form, groups: int, rows: int,
                    columns: int) -> Operand:
    """Return a dense operand of a planned format and of a form's shape, in C order, as matrices; or raise."""
    taken, shape = dense_operand(name, value), shape_of(form, groups, rows, columns)
    if taken.shape != shape or taken.format.name != layout.format or taken.scale != layout.scale:
        raise bad_argument(name, f"{taken.format} of shape {taken.shape}",
                           f"{layout.format} of shape {shape} without a scale")
    flags = taken.array.flags
    return (taken if flags.c_contiguous and flags.aligned else taken.copied()).seen(lambda x: seen(x, form, groups))


def wrapping(pattern: BlockPattern, dtype: Format, scale: int) -> Wrapper:
    """Return what makes new blocks into a matrix of the pattern of a call's first argument, as it is stored.

    Its kind is the same in every call that is kept under this one's key; those of transposed matrices are not.
    """
    kinds = kinds_of(pattern, dtype, scale)
    settled = {"_kinds": kinds, "format": dtype, "scale": scale, "is_transposed": False}
    before = kinds[0], 1 + ROW_OFFSETS, 1 + COLUMN_INDICES
    return Wrapper(BlockSparseMatrix, "_blocks", ("pattern",), settled, before)


def planned_result(out: object, shape: tuple[int, ...], dtype: str) -> Receiver:
    """Return what receives a result of a planned shape and format, which the program writes in C order, or raise."""
    receiver = receive_result(out, shape, None, format_of(dtype), contiguous=True)
    if receiver.format.name != dtype:
        raise bad_argument("out", receiver.format, f"{dtype}, as planned")
    return receiver
