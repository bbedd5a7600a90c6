"""Products with a sparse operand whose pattern stays the same: the index of its transpose is built once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..matrix import BlockSparseMatrix
from ..products.forward import multiply
from ..products.memory import memory_of
from ..products.operands import check_matrix
from ..products.prepared import PreparedDense
from ..products.ready import PreparedSparse, sparse_operand
from ..products.sample import sample

__all__ = ["dense_sparse_matmul", "sparse_dense_matmul", "sparse_grad_w"]

Array = np.ndarray[Any, Any]


def sparse_dense_matmul(w: BlockSparseMatrix | PreparedSparse, x: Array | PreparedDense, *, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float = 0, strict_memory: bool = False,
                        options: Mapping[str, Any] | None = None) -> Any:
    """Multiply a block-sparse by a dense matrix: ``Y = activation(W X + bias)``.

    Parameters
    ----------
    w : BlockSparseMatrix or PreparedSparse, shape (m, k)
        Any of the formats that have a dtype. Its values may change between calls; what the pattern implies is kept with
        the pattern. `prepare` makes values ready that would be decoded in each call.
    x : array_like or QuarterArray, shape (k, n) or (k,), or (groups, k, n) where `w` has groups; or PreparedDense
        Any of these formats too, any strides; tensors by DLPack, lists as float32. A `QuarterArray` with scales for its
        rows or blocks, of FP16 with a scale, or of a user's format is decoded to a copy first.
    out : numpy.ndarray or QuarterArray, shape (m, n), (m,) or (groups, m, n), as `x`, optional
        Where to write the result; it may not overlap an operand or itself. A `QuarterArray` of an 8-bit format with one
        scale 2^s receives the result divided by 2^s and rounded.
    out_dtype : Format, dtype or str, optional
        Format of the result (default FP32, or that of `out`).
    bias : array_like, shape (m,) or (groups, m), optional
        Added to each row, as FP32; of any of the formats that have a dtype, lists as float32.
    activation : {None, "relu", "gelu", "silu"}, optional
    available_memory_proportion : float, optional
        Share of each thread's tile memory (a core's second-level cache) for temporary bytes: panels of X, sums on their
        way to the epilogue, decoded values of W. 0, the default, asks for no bound: the fastest plan runs, and
        `plan_sparse_dense_matmul` tells what it takes.
    strict_memory : bool, optional
        Raise where no plan keeps to the bound, instead of warning (default False).
    options : mapping, optional
        PopLibs' spelling, ``{"availableMemoryProportion": 0.3}``; its other options for sparse products are known and
        change nothing here.

    Returns
    -------
    numpy.ndarray or QuarterArray
        `out`, or a new array.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        For shapes that do not fit, or a dtype that is not served.
    MemoryBoundError
        With `strict_memory`, if no plan keeps to the bound.

    Warns
    -----
    MemoryBoundWarning
        Otherwise, in that case: the bound doubles until it has passed twice the tile memory, and is then dropped.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::static_::sparseDenseMatMul``, whose limits (square blocks of a few sizes, no
    groups, no transpose of the sparse operand) it does not have.

    Operands are decoded exactly. Where a machine multiplies BF16 and both formats fit it (BF16 and the 8-bit ones),
    products are exact, and pairs of them are summed in FP32 by the instruction's rule, with subnormal operands and sums
    taken as zero. With AMX so are products of FP16 by FP16, as two BF16 numbers each, in blocks whose sides are
    multiples of 16. Otherwise each element of Y is one chain of FP32 fused multiply-adds over the stored elements of
    its row by ascending column, and the bits depend neither on the instruction set nor on the number of threads. Bias,
    activation and the cast to `out_dtype` follow, each rounded once. ``testing.bound("sparse_dense_matmul", w, x)``
    gives the error bound. A memory bound changes no bit.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, static
    >>> w = BlockSparseMatrix.from_dense(np.eye(4, dtype=np.float32) * 3, 2)
    >>> static.sparse_dense_matmul(w, np.ones((4, 2), np.float32), bias=[0, 1, 2, -4], activation="relu")[:, 0]
    array([3., 4., 5., 0.], dtype=float32)
    """
    operand, ready = sparse_operand(w, "left")
    return multiply(operand, x, out=out, out_dtype=out_dtype, bias=bias, activation=activation, ready=ready,
                    memory=memory_of(available_memory_proportion, strict_memory, options))


def dense_sparse_matmul(x: Array | PreparedDense, w: BlockSparseMatrix | PreparedSparse, *, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float = 0, strict_memory: bool = False,
                        options: Mapping[str, Any] | None = None) -> Any:
    """Multiply a dense by a block-sparse matrix: ``Y = activation(X W + bias)``.

    Parameters
    ----------
    x : array_like or QuarterArray, shape (n, k) or (k,), or (groups, n, k) where `w` has groups; or PreparedDense
        Any of the formats that have a dtype, any strides; prepared by ``prepare_dense(x, side="left")``.
    w : BlockSparseMatrix or PreparedSparse, shape (k, m)
        Prepared by ``prepare(w, side="right")``.
    out : numpy.ndarray or QuarterArray, shape (n, m), (m,) or (groups, n, m), as `x`, optional
    out_dtype, activation, available_memory_proportion, strict_memory, options : optional
        With `out`, as for `sparse_dense_matmul`.
    bias : array_like, shape (m,) or (groups, m), optional
        Added to each column, as FP32.

    Returns
    -------
    numpy.ndarray or QuarterArray
        `out`, or a new array.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::static_::denseSparseMatMul`` and is computed as that is, as the transpose of
    ``W' X'``; the contract is that of `sparse_dense_matmul`.
    """
    operand, ready = sparse_operand(w, "right")
    return multiply(operand, x, out=out, out_dtype=out_dtype, bias=bias, activation=activation, ready=ready,
                    swapped=True, memory=memory_of(available_memory_proportion, strict_memory, options))


def sparse_grad_w(w: BlockSparseMatrix, grads: Array, x: Array, *, out: Any = None, out_dtype: object = None,
                  available_memory_proportion: float = 0.6, strict_memory: bool = False,
                  options: Mapping[str, Any] | None = None) -> Any:
    """Return the gradient of the stored values for ``Y = W X``: ``dY X'`` at the pattern of `w`.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (m, k)
        Its values are not read.
    grads : array_like or QuarterArray, shape (m, n) or (groups, m, n)
        The gradient of Y; any strides.
    x : array_like or QuarterArray, shape (k, n) or (groups, k, n)
    out : numpy.ndarray or QuarterArray, shape of ``w.blocks``, optional
        As for `sparse_dense_matmul`.
    out_dtype : Format, dtype or str, optional
        Format of the result (default FP32, or that of `out`).
    available_memory_proportion : float, optional
        Share of each thread's tile memory (a core's second-level cache) for temporary bytes; 0 asks for no bound
        (default 0.6). Operands that are read where they lie take none but the sums of a block.
    strict_memory : bool, optional
        Raise where no plan keeps to the bound, instead of warning (default False).
    options : mapping, optional
        PopLibs' spelling, ``{"availableMemoryProportion": 0.3}``.

    Returns
    -------
    numpy.ndarray or QuarterArray, shape of ``w.blocks``
        One gradient for each stored value, for a transposed view too; zero for the padding of edge blocks.

    Raises
    ------
    MemoryBoundError
        With `strict_memory`, if no plan keeps to the bound.

    Warns
    -----
    MemoryBoundWarning
        Otherwise, in that case; the plan that takes the least is run.

    Notes
    -----
    The gradient of X is ``w.T @ grads``. A PreparedDense is not taken (see `prepare_dense`). The contract is that of
    `dynamic.fully_connected_sparse_grad_w`, which takes its operands batch first.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, static
    >>> w = BlockSparseMatrix.from_mask(np.eye(2, dtype=bool), 1)
    >>> static.sparse_grad_w(w, np.ones((2, 3), np.float32), np.float32([[1, 2, 3], [4, 5, 6]])).ravel()
    array([ 6., 15.], dtype=float32)
    """
    return sample(check_matrix("w", w), grads, x, out=out, out_dtype=out_dtype,
                  memory=memory_of(available_memory_proportion, strict_memory, options), x_name="x")
