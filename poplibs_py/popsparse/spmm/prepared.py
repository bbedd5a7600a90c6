"""Operands of sparse products kept as the kernels read them best, for many calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...checks import check_shape, one_of
from ...errors import bad_type
from ...formats import BF16, FP32, Array, Format, format_of
from ...immutable import Constant, Immutable, anchored, kind_of
from ...ops import Operand, own_host, run_told
from ...planner import Memory
from ...program import key_by_parts, result_array
from ..matrix import OPERATORS, BlockSparseMatrix
from ..operands import (
    DenseLayout,
    SparseOperand,
    checked_format,
    dense_operand,
    format_in,
    sparse_operand,
)
from .lower import lower_prepare, ready_kernel
from .model import compute_format_of, panel_columns, prepares_pairs
from .params import SpmmParams
from .plan import SparsePlan, plan_spmm

SIDES = ("left", "right")
_READS = 64


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
        The numbers, read-only; the last strip is padded with zeros. Where vectors multiply BF16 two rows lie
        interleaved: (groups, strips, pairs of rows, columns of a strip, 2).
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
        check_shape("array", array, array.ndim in (2, 3), "shape (k, n) or (groups, k, n)")
        shape = list(array.shape)
        if side == "left":
            array = array.swapaxes(-1, -2)
        groups, (rows, columns) = len(array) if array.ndim == 3 else 1, array.shape[-2:]
        computed = BF16 if compute_format == "bfloat16" else FP32
        strip = panel_columns(computed.itemsize, columns)
        strips = -(-columns // strip)
        pairs = prepares_pairs(compute_format)
        lines = (-(-rows // 2), strip, 2) if pairs else (rows, strip)
        panels = result_array((groups, strips, *lines), np.dtype(computed.dtype))
        was = computed if dtype is None else format_of(dtype)
        told = f"{shape} {was} to panels of {compute_format}", "NumPy", None
        run_told("popsparse.static.prepare_dense", lambda: told, _fill, array, panels, written=panels)
        panels.flags.writeable = False
        strides = panels.strides[0], panels.strides[2], computed.itemsize
        layout = DenseLayout(compute_format, strides, 0, strip, pairs=pairs)
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
        The format of the matrices that it will be multiplied by (default: that of `x`). With FP32 or FP16 ones, numbers
        are kept as FP32; otherwise as BF16 where this machine multiplies that.
    side : {"right", "left"}, optional
        Which operand it will be: of ``sparse_dense_matmul(w, prepared)``, or of ``dense_sparse_matmul(prepared, w)``.

    Notes
    -----
    It serves products, static and dynamic, not the gradient of W's values: that sums along the columns of X, which
    strips cut. It reads operands where they lie if their rows are contiguous and both are FP32, or FP16, or BF16 where
    this machine multiplies that. So cast X to such a format once: there is nothing else to prepare.

    One prepared operand serves matrices of every block shape. In BF16 vectors read two rows interleaved; blocks of an
    odd depth, single elements too, take them apart in each call. AMX tiles read cells of
    two rows, padded to whole blocks, FP16 as two parts with the blocks that hold infinities marked: all of that
    depends on the blocks. At that level a product whose blocks are multiples of 16 therefore still makes its cells in
    each call, from numbers that are decoded and contiguous; every other product reads the panels where they lie.

    Beside a prepared matrix, prepare that with ``x_dtype`` set to the `compute_format` of this operand, or only one of
    the two.

    What is saved is the decoding and the copying of X. Panels of FP32 of 4 MiB and more in all are no faster than the
    array itself, of which each call copies a strip at a time to the L2 (docs/how_to/benchmark.md).

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
    check_shape("x", operand.array, operand.array.ndim in (2, 3), "two axes, or three with groups")
    w = operand.format if w_dtype is None else format_of(w_dtype, "w_dtype")
    compute_format = compute_format_of(w.name, operand.format.name)
    numbers = operand.array
    if operand.format.dtype is not None and numbers.dtype != operand.format.dtype:
        numbers = numbers.view(operand.format.dtype)
    if operand.scale:
        numbers = np.ldexp(numbers.astype(np.float32), operand.scale)
    return PreparedDense(numbers, compute_format, side, format_in(x, operand))


def _fill(array: Array, panels: Array) -> None:
    """Write an array to panels, each of some of its columns; with a last axis of two, its rows as pairs."""
    strip = panels.shape[3]
    rows = [panels[..., 0], panels[..., 1]] if panels.ndim == 5 else [panels]
    for k, lines in enumerate(rows):
        own = array[..., k::len(rows), :]
        for i in range(panels.shape[1]):
            part = own[..., i * strip:(i + 1) * strip]
            lines[:, i, :part.shape[-2], :part.shape[-1]] = part
            lines[:, i, part.shape[-2]:] = 0
            lines[:, i, :, part.shape[-1]:] = 0


class PreparedSparse(Immutable):
    """A block-sparse operand of products whose values are decoded once.

    Make one with `prepare`; pass it in place of the matrix.

    Attributes
    ----------
    matrix : BlockSparseMatrix
        What was prepared; after a change of its values, call `refresh`.
    side : {"left", "right"}
        Which operand it is: W of ``W X`` or of ``X W``.
    compute_format : {"float32", "bfloat16", "float16"}
        What the numbers were decoded to.
    """

    __slots__ = ("_operand", "_parts", "_plan", "_values", "matrix", "side")

    __array_ufunc__ = None  # NumPy's ``x @ w`` comes to this class

    matrix: BlockSparseMatrix
    side: str
    _operand: SparseOperand
    _parts: tuple[object, ...]
    _plan: SparsePlan
    _values: Array

    def __init__(self, w: BlockSparseMatrix, side: str, x_dtype: object) -> None:
        one_of("side", side, SIDES)
        operand = sparse_operand("w", w, side == "right")
        plan = _plan_of(operand, checked_format("x_dtype", x_dtype, operand.format).name)
        compute = plan.compute_format
        values = result_array((plan.values_bytes,), np.dtype(np.uint8)) if plan.decodes else w._blocks
        arrays = [operand.offsets.array, operand.columns.array, values]
        if operand.order is not None:
            arrays.append(operand.order.array)
        self._set(matrix=w, side=side, _plan=plan, _values=values,
                  _parts=(kind_of("PreparedSparse", w._kinds, side, operand.transposed, compute), *arrays),
                  _operand=_ready_operand(operand, arrays, compute))
        self._decode("popsparse.static.prepare")

    @property
    def compute_format(self) -> str:
        """What the numbers were decoded to."""
        return self._plan.compute_format

    @property
    def nbytes(self) -> int:
        """Bytes that it holds beside the matrix: 0 where the matrix's own values are read."""
        return self._plan.values_bytes

    def refresh(self) -> None:
        """Decode the matrix's values again, after they were written to in place; not during a call."""
        self._decode("popsparse.static.PreparedSparse.refresh")

    def _decode(self, told_as: str) -> None:
        if not self._plan.decodes or not self.matrix.n_blocks:
            return
        w = sparse_operand("w", self.matrix, self.side == "right")
        more = [x.array for x in (w.order, w.scales) if x is not None]

        def told() -> tuple[str, str, None]:
            kernel = ready_kernel(self._plan)
            what = f"{w.pattern.n_blocks} blocks {w.pattern.block_shape} {w.format} to {self.compute_format}"
            return what, kernel.label, None

        run_told(told_as, told, lower_prepare(self._plan), w.offsets.array, w.columns.array, w.values.array,
                 self._values, *more, written=self._values)

    def __matmul__(self, x: Any) -> Any:
        return OPERATORS["w @ x"](self, x)

    def __rmatmul__(self, x: Any) -> Any:
        return OPERATORS["x @ w"](x, self)

    def __reduce__(self) -> tuple[Any, ...]:
        x_format = format_of(self._plan.params.x.format)  # another machine may decode otherwise
        return PreparedSparse, (self.matrix, self.side, x_format)

    def __repr__(self) -> str:
        return (f"PreparedSparse({self.matrix!r}, side={self.side}, compute_format={self.compute_format}, "
                f"nbytes={self.nbytes})")


def _ready_operand(w: SparseOperand, arrays: list[Array], compute_format: str) -> SparseOperand:
    # As its `_parts` have it.
    offsets, columns, values, *order = (Operand(array, None, place=("w", i)) for i, array in enumerate(arrays))
    return replace(w, offsets=offsets, columns=columns, values=values, order=order[0] if order else None, scale=0,
                   scales=None, prepared=compute_format)


def _plan_of(w: SparseOperand, x_format: str) -> SparsePlan:
    # Any product with an X of this format: how values lie depends on nothing else.
    p = w.pattern
    x, y = DenseLayout(x_format, (0, 0, format_of(x_format).itemsize)), DenseLayout("float32", (0, 0, 4))
    params = SpmmParams(w.shape, p.block_shape, p.groups, _READS, p.n_blocks, p.n_blocks, w.transposed, w.format.name,
                        w.scale, x, y)
    return plan_spmm("prepare", params, Memory(), own_host(), lambda: 0)


def prepare(w: BlockSparseMatrix, *, side: str = "left", x_dtype: object = None) -> PreparedSparse:
    """Decode a block-sparse operand once, for many static products; the twin of `poplin.prepare`.

    Kernels read values as they are stored where these are FP32. On machines that multiply BF16 they also read BF16
    beside BF16 or 8-bit operands, except in transposes. All other values are decoded in each call, so they may change
    between calls. That costs little in a product of many columns; with few columns a prepared operand is faster.

    Parameters
    ----------
    w : BlockSparseMatrix
        Transposed views too. It is kept, with its values as they are now: after they change, call `refresh` of the
        result. Where nothing has to be decoded, its own values are read, and changes are seen at once.
    side : {"left", "right"}, optional
        Which operand it will be: of ``static.sparse_dense_matmul(prepared, x)`` or of
        ``static.dense_sparse_matmul(x, prepared)``. The gradient of X of the former wants ``prepare(w.T)``.
    x_dtype : Format, dtype or str, optional
        The format of the dense operands to come (default that of `w`); others that meet `w` in the same numbers serve
        too. For a dense operand from `prepare_dense` it is the operand's `compute_format`.

    Returns
    -------
    PreparedSparse

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is not as described.

    Notes
    -----
    The bits of a product are those without it. It takes 4 bytes for each stored value, 2 where numbers are BF16.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, static
    >>> w = BlockSparseMatrix.from_dense(np.eye(4, dtype=np.float16), 2)
    >>> ready, x = static.prepare(w), np.ones((4, 3), np.float16)
    >>> static.sparse_dense_matmul(ready, x)[0]
    array([1., 1., 1.], dtype=float16)
    >>> w.blocks[...] *= 5
    >>> ready.refresh()
    >>> static.sparse_dense_matmul(ready, x)[0]
    array([5., 5., 5.], dtype=float16)
    """
    return PreparedSparse(w, side, x_dtype)


def product_operand(w: object, side: str) -> SparseOperand:
    """Return op(W) of a product whose sparse operand is on this side, prepared or not, or raise."""
    if isinstance(w, BlockSparseMatrix):
        return sparse_operand("w", w, side == "right")
    if not isinstance(w, PreparedSparse):
        raise bad_type("w", type(w).__name__, "a BlockSparseMatrix, as BlockSparseMatrix.from_scipy makes, or what "
                       "prepare made of one")
    if w.side != side:
        raise bad_type("w", f"matrix prepared for the {w.side}", f"one from prepare(w, side={side!r})")
    return w._operand


key_by_parts(PreparedDense)
key_by_parts(PreparedSparse)
