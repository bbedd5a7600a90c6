"""A dense operand kept in the layout that the kernels read best, for many products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import bad_argument, bad_type, one_of
from ...formats import BF16, FP32, Format, format_of
from ...immutable import Constant, anchored, kind_of
from ...ops import Operand, run_told
from ...program import key_by_parts, result_array
from ..operands import DenseLayout, dense_operand, format_in
from .model import compute_format_of, panel_columns

__all__ = ["PreparedDense", "prepare_dense"]

Array = np.ndarray[Any, Any]
SIDES = ("right", "left")


class PreparedDense(Constant):
    """The dense operand of a sparse product, decoded and cut into panels that stay in the L2.

    Make one with `prepare_dense`; pass it in place of the array.

    Attributes
    ----------
    compute_format : {"float32", "bfloat16"}
        What the numbers were decoded to.
    format : Format
        What they were before.
    side : {"right", "left"}
        Which operand it is: X of ``W X``, or of ``X W``, which is the transpose of ``W' X'``.
    groups, rows, columns : int
        Extents of X, or for the left side of X'.
    panels : numpy.ndarray, shape (groups, strips, rows, columns of a strip)
        The numbers, read-only; the last strip is padded with zeros.
    """

    __slots__ = ("_anchor", "_panels", "_parts", "columns", "compute_format", "format", "grouped", "groups", "layout",
                 "rows", "side")

    _KEEP = "the array, to prepare again"

    layout: DenseLayout
    compute_format: str
    format: Format
    side: str
    grouped: bool
    groups: int
    rows: int
    columns: int
    _panels: Array
    _parts: tuple[object, ...]

    def __init__(self, array: Array, compute_format: str, side: str = "right", dtype: object = None) -> None:
        one_of("compute_format", compute_format, ("float32", "bfloat16"))
        one_of("side", side, SIDES)
        if not isinstance(array, np.ndarray):
            raise bad_type("array", array, "a numpy.ndarray: see prepare_dense")
        if array.ndim not in (2, 3):
            raise bad_argument("array", f"shape {array.shape}", "shape (k, n) or (groups, k, n)")
        shape = list(array.shape)
        if side == "left":
            array = array.swapaxes(-1, -2)
        groups, (rows, columns) = len(array) if array.ndim == 3 else 1, array.shape[-2:]
        computed = BF16 if compute_format == "bfloat16" else FP32
        strip = panel_columns(rows, compute_format, columns)
        strips = -(-columns // strip)
        panels = result_array((groups, strips, rows, strip), np.dtype(computed.dtype))
        was = computed if dtype is None else format_of(dtype)
        told = f"{shape} {was} to panels of {compute_format}", "NumPy", None
        run_told("popsparse.static.prepare_dense", lambda: told, _fill, array, panels)
        panels.flags.writeable = False
        strides = panels.strides[0], strip * computed.itemsize, computed.itemsize
        layout = DenseLayout(compute_format, strides, 0, strip)
        held, anchor = anchored(panels)
        kind = kind_of("PreparedDense", layout, was, side, array.ndim == 3, groups, rows, columns)
        self._set(_panels=held, _anchor=anchor, _parts=(kind, held), layout=layout, compute_format=compute_format,
                  format=was, side=side, grouped=array.ndim == 3, groups=groups, rows=rows, columns=columns)

    def __repr__(self) -> str:
        groups = f", groups={self.groups}" if self.grouped else ""
        groups += ", side=left" if self.side == "left" else ""
        return (f"PreparedDense(rows={self.rows}, columns={self.columns}, compute_format={self.compute_format}"
                f"{groups}, nbytes={self.nbytes})")

    @property
    def panels(self) -> Array:
        """The numbers, strip by strip. Read-only."""
        return self._panels.view()

    def operand(self) -> Operand:
        """What programs read."""
        return Operand(self._panels, None, place=("x", 0))

    @property
    def nbytes(self) -> int:
        """Bytes of the panels."""
        return self._panels.nbytes


def prepare_dense(x: object, w_dtype: object = None, *, side: str = "right") -> PreparedDense:
    """Prepare the dense operand of sparse products for many calls.

    Parameters
    ----------
    x : array_like or QuarterArray, shape (k, n) or (groups, k, n); for the left side (n, k) or (groups, n, k)
        Any format that has a dtype, any strides.
    w_dtype : Format, dtype or str, optional
        The format of the matrices it will be multiplied by (default: as `x`); with FP32 or FP16 ones, numbers are kept
        as FP32, otherwise as BF16 where this machine multiplies that.
    side : {"right", "left"}, optional
        Which operand it will be: of ``sparse_dense_matmul(w, prepared)``, or of ``dense_sparse_matmul(prepared, w)``.

    Notes
    -----
    It serves products, static and dynamic, not the gradient of W's values: that sums along the columns of X, which
    strips cut. It reads as they lie both operands whose rows are contiguous and whose format is FP32, or FP16, or BF16
    where this machine multiplies that; so an X cast to such a format once is all that there is to prepare for it.

    One prepared operand serves matrices of every block shape, so its panels hold plain rows. AMX tiles read cells of
    two rows instead, padded to whole blocks, FP16 as two parts with the blocks that hold infinities marked: all of that
    depends on the blocks. At that level a product whose blocks are multiples of 16 therefore still makes its cells in
    each call, from numbers that are decoded and contiguous; every other product reads the panels where they lie.

    Beside a prepared matrix, prepare that with ``x_dtype`` set to the `compute_format` of this operand, or only one of
    the two.

    What is saved is the decoding and the copying of X. Panels of FP32 of 4 MiB and more in all are no faster than the
    array itself, of which each call copies a strip at a time to the L2 (docs/benchmark.md).

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, static
    >>> w = BlockSparseMatrix.from_dense(np.eye(4, dtype=np.float32), 2)
    >>> x = static.prepare_dense(np.ones((4, 3), np.float32))
    >>> static.sparse_dense_matmul(w, x).shape
    (4, 3)
    """
    operand = dense_operand("x", x)
    if operand.array.ndim not in (2, 3):
        raise bad_argument("x", f"shape {operand.array.shape}", "two axes, or three with groups")
    assert operand.format is not None
    w = operand.format if w_dtype is None else format_of(w_dtype, "w_dtype")
    compute_format = compute_format_of(w.name, operand.format.name)
    numbers = operand.array
    if operand.format.dtype is not None and numbers.dtype != operand.format.dtype:
        numbers = numbers.view(operand.format.dtype)
    if operand.scale:
        numbers = np.ldexp(numbers.astype(np.float32), operand.scale)
    return PreparedDense(numbers, compute_format, side, format_in(x, operand))


def _fill(array: Array, panels: Array) -> None:
    """Write an array to panels, each of some of its columns."""
    _, strips, _, strip = panels.shape
    for i in range(strips):
        part = array[..., i * strip:(i + 1) * strip]
        panels[:, i, :, :part.shape[-1]] = part
        panels[:, i, :, part.shape[-1]:] = 0


key_by_parts(PreparedDense)
