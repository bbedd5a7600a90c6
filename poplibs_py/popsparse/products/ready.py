"""The sparse operand kept as the kernels read it, for many products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import bad_type, one_of
from ...formats import Format, format_of
from ...immutable import Immutable
from ...program import result_array
from ..matrix import BlockSparseMatrix
from .forward import multiply, pattern_arrays, threads_for
from .items import FORMAT_NUMBERS
from .multiply import Dense, Product, Ready, Values, domain_of, ready_program
from .operands import check_matrix

__all__ = ["PreparedSparse", "prepare", "sparse_operand"]

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
    domain : {"float32", "bfloat16", "float16"}
        What the numbers were decoded to.
    """

    __slots__ = ("_operand", "_product", "_ready", "matrix", "side")

    __array_ufunc__ = None  # NumPy's ``x @ w`` comes to this class

    matrix: BlockSparseMatrix
    side: str
    _operand: BlockSparseMatrix
    _product: Product
    _ready: Ready

    def __init__(self, w: BlockSparseMatrix, side: str, x_dtype: object) -> None:
        one_of("side", side, _SIDES)
        operand = check_matrix("w", w) if side == "left" else check_matrix("w", w).T
        x_format = w.format if x_dtype is None else format_of(x_dtype, "x_dtype")
        if x_format.name not in FORMAT_NUMBERS:
            raise bad_type("x_dtype", x_format.name, ", ".join(FORMAT_NUMBERS))
        p = _product_of(operand, x_format)
        values = result_array((p.workspace_bytes,), np.dtype(np.uint8)) if p.decodes else operand._blocks
        self._set(matrix=w, side=side, _operand=operand, _product=p, _ready=Ready(p.domain, values))
        self.refresh()

    @property
    def domain(self) -> str:
        """What the numbers were decoded to."""
        return self._ready.domain

    @property
    def nbytes(self) -> int:
        """Bytes that it holds beside the matrix: 0 where the matrix's own values are read."""
        return self._product.workspace_bytes

    def refresh(self) -> None:
        """Decode the matrix's values again, after they were written to in place; not during a call."""
        w, p = self._operand, self._product
        if not p.decodes or not w.n_blocks:
            return
        offsets, inner, *order = pattern_arrays(w, True)
        scales = [np.ascontiguousarray(w.scale)] if p.w.scale is None else []
        ready_program(p)(offsets, inner, w._blocks, self._ready.values, *order, *scales)

    def __matmul__(self, x: Any) -> Array:
        operand, ready = sparse_operand(self, "left")
        product: Array = multiply(operand, x, ready=ready)
        return product

    def __rmatmul__(self, x: Any) -> Array:
        operand, ready = sparse_operand(self, "right")
        product: Array = multiply(operand, x, ready=ready, swapped=True)
        return product

    def __reduce__(self) -> tuple[Any, ...]:
        return PreparedSparse, (self.matrix, self.side, self._product.x.format)  # another machine may decode otherwise

    def __repr__(self) -> str:
        return f"PreparedSparse({self.matrix!r}, side={self.side}, domain={self.domain}, nbytes={self.nbytes})"


def _product_of(w: BlockSparseMatrix, x_format: Format) -> Product:
    # Any product with an X of this format: how values lie depends on nothing else.
    domain = domain_of(w.format.name, x_format.name, w.pattern.block_shape)
    values = Values(w.format.name, w.scale if isinstance(w.scale, int) else None, w.n_blocks)
    x, y = Dense(x_format.name, (0, 0, x_format.itemsize)), Dense("float32", (0, 0, 4))
    return Product(w.shape, w.pattern.block_shape, w.groups, 1, threads_for(w.nnz * _READS), w.is_transposed, domain,
                   values, x, y)


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
        too. For a dense operand from `prepare_dense` it is the operand's `domain`.

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
    array([1., 1., 1.], dtype=float32)
    >>> w.blocks[...] *= 5
    >>> ready.refresh()
    >>> static.sparse_dense_matmul(ready, x)[0]
    array([5., 5., 5.], dtype=float32)
    """
    return PreparedSparse(w, side, x_dtype)


def sparse_operand(w: object, side: str) -> tuple[BlockSparseMatrix, Ready | None]:
    """Return op(W) of a product whose sparse operand is on this side, and its values where they are ready, or raise."""
    if isinstance(w, BlockSparseMatrix):
        return (w if side == "left" else w.T), None
    if not isinstance(w, PreparedSparse):
        raise bad_type("w", type(w).__name__, "a BlockSparseMatrix or what prepare made of one")
    if w.side != side:
        raise bad_type("w", f"matrix prepared for the {w.side}", f"one from prepare(w, side={side!r})")
    return w._operand, w._ready
