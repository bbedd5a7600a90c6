"""The sparse operand kept as the kernels read it, for many products."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import bad_type, one_of
from ...formats import FORMATS, format_of
from ...immutable import Immutable, kind_of
from ...ops import Operand, host_target, run_told
from ...planner import Memory
from ...program import key_by_parts, result_array
from ..items import FORMAT_NUMBERS
from ..matrix import OPERATORS, BlockSparseMatrix
from ..operands import DenseLayout, SparseOperand, check_matrix, sparse_operand
from .lower import prepare_program, ready_kernel
from .params import SpmmParams
from .plan import SparsePlan, plan_spmm

__all__ = ["PreparedSparse", "prepare", "product_operand"]

Array = np.ndarray[Any, Any]

_SIDES = ("left", "right")
_READS = 64


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
        one_of("side", side, _SIDES)
        operand = sparse_operand("w", w, side == "right")
        x_format = check_matrix("w", w).format if x_dtype is None else format_of(x_dtype, "x_dtype")
        if x_format not in FORMATS:
            raise bad_type("x_dtype", x_format.name, ", ".join(FORMAT_NUMBERS))
        plan = _plan_of(operand, x_format.name)
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
            return what, f"{kernel.name} ({kernel.level})", None

        run_told(told_as, told, prepare_program(self._plan), w.offsets.array, w.columns.array, w.values.array,
                 self._values, *more)

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
    return plan_spmm(params, Memory(), host_target(None, "preparing"), lambda: 0)


def prepare(w: BlockSparseMatrix, *, side: str = "left", x_dtype: object = None) -> PreparedSparse:
    """Decode a block-sparse operand once, for many static products; the twin of `poplin.prepare`.

    A product decodes the values of W in each call where kernels cannot read them as they are stored: all but FP32, and
    BF16 beside BF16 or 8-bit operands on machines that multiply it, transposes excepted. So values may change between
    calls, and beside a product of many columns it costs little; with few columns a prepared operand is faster.

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
        raise bad_type("w", type(w).__name__, "a BlockSparseMatrix or what prepare made of one")
    if w.side != side:
        raise bad_type("w", f"matrix prepared for the {w.side}", f"one from prepare(w, side={side!r})")
    return w._operand


key_by_parts(PreparedSparse)
