"""Products with a sparse operand whose pattern stays the same: the index of its transpose is built once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..matrix import BlockSparseMatrix
from ..products.forward import multiply
from ..products.operands import check_matrix

__all__ = ["dense_sparse_matmul", "sparse_dense_matmul"]

Array = np.ndarray[Any, Any]


def sparse_dense_matmul(w: BlockSparseMatrix, x: Array, *, out: Array | None = None) -> Array:
    """Multiply a block-sparse by a dense matrix: ``Y = W X``.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (m, k)
        FP32. Its values may change between calls; what the pattern implies is kept with the pattern.
    x : numpy.ndarray, shape (k, n), or (groups, k, n) where `w` has groups
        FP32; any strides.
    out : numpy.ndarray, shape (m, n) or (groups, m, n), optional
        Where to write the result; it may not overlap an operand.

    Returns
    -------
    numpy.ndarray
        `out`, or a new FP32 array.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        For shapes that do not fit, or a dtype that is not served.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::static_::sparseDenseMatMul``. Each element of Y is one chain of fused
    multiply-adds in FP32, over the stored elements of its row by ascending column; see `poplibs_py.popsparse.bound`.
    Whatever the instruction set or the number of threads, the bits are the same.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, static
    >>> w = BlockSparseMatrix.from_dense(np.eye(4, dtype=np.float32) * 3, 2)
    >>> static.sparse_dense_matmul(w, np.ones((4, 2), np.float32))[:, 0]
    array([3., 3., 3., 3.], dtype=float32)
    """
    return multiply(check_matrix("w", w), x, "x", out)


def dense_sparse_matmul(x: Array, w: BlockSparseMatrix, *, out: Array | None = None) -> Array:
    """Multiply a dense by a block-sparse matrix: ``Y = X W``.

    Parameters
    ----------
    x : numpy.ndarray, shape (n, k), or (groups, n, k) where `w` has groups
        FP32; any strides.
    w : BlockSparseMatrix, shape (k, m)
    out : numpy.ndarray, shape (n, m) or (groups, n, m), optional
        Where to write the result; it may not overlap an operand.

    Returns
    -------
    numpy.ndarray
        `out`, or a new FP32 array.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::static_::denseSparseMatMul`` and is computed as that is, as the transpose of
    ``W' X'``; the contract is that of `sparse_dense_matmul`.
    """
    check_matrix("w", w)
    if isinstance(x, np.ndarray) and x.ndim >= 2:
        x = x.swapaxes(-1, -2)
    if isinstance(out, np.ndarray) and out.ndim >= 2:
        out = out.swapaxes(-1, -2)
    return multiply(w.T, x, "x", out).swapaxes(-1, -2)
