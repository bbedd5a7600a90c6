"""Products with a sparse operand whose pattern stays the same: the index of its transpose is built once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ops import op
from .matrix import OPERATORS, BlockSparseMatrix
from .operands import check_matrix
from .options import memory_of
from .sddmm.request import sddmm_request
from .spmm.compiled import compile_product, plan_product
from .spmm.plan import SparsePlan
from .spmm.prepared_dense import PreparedDense, prepare_dense
from .spmm.prepared_sparse import PreparedSparse, prepare, product_operand
from .spmm.request import Epilogue, spmm_request

__all__ = [
    "PreparedDense",
    "PreparedSparse",
    "SparsePlan",
    "compile_dense_sparse_matmul",
    "compile_sparse_dense_matmul",
    "dense_sparse_matmul",
    "plan_dense_sparse_matmul",
    "plan_sparse_dense_matmul",
    "prepare",
    "prepare_dense",
    "sparse_dense_matmul",
    "sparse_grad_w",
]

_BOUND = "popsparse.bound:"

Array = np.ndarray[Any, Any]


@op("popsparse.static.sparse_dense_matmul", poplibs="popsparse::static_::sparseDenseMatMul",
    reference=_BOUND + "sparse_dense_matmul_bound", bound=_BOUND + "sparse_dense_matmul_bound",
    draws="testing.calls:sparse_dense_matmul_calls")
def sparse_dense_matmul(w: BlockSparseMatrix | PreparedSparse, x: Array | PreparedDense, *, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float | None = None, strict_memory: bool = False,
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
    out : array, tensor or QuarterArray, shape (m, n), (m,) or (groups, m, n), as `x`, optional
        Where to write the result; any strides in which no two elements share memory. It may overlap the operands: the
        result is then made in a copy, beyond the limit on memory. A `QuarterArray` of an 8-bit format with one scale
        2^s receives the result divided by 2^s and rounded.
    out_dtype : Format, dtype or str, optional
        Format of the result; by default that of `out`, or else FP32 where an operand is FP32 or one is FP16 and the
        other BF16, else FP16 or BF16, whichever is there, and FP16 for two 8-bit operands.
    bias : array_like, shape (m,) or (groups, m), optional
        Added to each row, in FP32; of any of the formats that have a dtype, lists as float32.
    activation : {None, "relu", "gelu", "silu"}, optional
    available_memory_proportion : float, optional
        Share of each thread's tile memory (a core's second-level cache) for temporary bytes: panels of X, sums on their
        way to the epilogue, decoded values of W. By default, and with 0, there is no limit: the fastest plan runs, and
        `plan_sparse_dense_matmul` tells what it takes.
    strict_memory : bool, optional
        Raise where no plan keeps to the limit, instead of warning (default False).
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
    MemoryLimitError
        With `strict_memory`, if no plan keeps to the limit.

    Warns
    -----
    MemoryLimitWarning
        Otherwise, in that case: the limit doubles until it has passed twice the tile memory, and is then dropped.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::static_::sparseDenseMatMul``, whose limits (square blocks of a few sizes, no
    groups, no transpose of the sparse operand) it does not have.

    Operands are decoded exactly. Where a machine multiplies BF16 and both formats fit it (BF16 and the 8-bit ones),
    products are exact, and pairs of them are summed in FP32 by the instruction's rule, with subnormal operands and sums
    taken as zero. With AMX so are products of FP16 by FP16, as two BF16 numbers each, in blocks whose sides are
    multiples of 16. Otherwise each element of Y is one chain of FP32 fused multiply-adds over the stored elements of
    its row by ascending column, and the bits depend neither on the instruction set nor on the number of threads. Bias,
    activation and the cast to `out_dtype` follow, each rounded once. ``testing.bound`` gives the
    error bound. A limit on memory changes no bit.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, static
    >>> w = BlockSparseMatrix.from_dense(np.eye(4, dtype=np.float32) * 3, 2)
    >>> static.sparse_dense_matmul(w, np.ones((4, 2), np.float32), bias=[0, 1, 2, -4], activation="relu")[:, 0]
    array([3., 4., 5., 0.], dtype=float32)
    """
    how = Epilogue(out, out_dtype, bias, activation)
    return spmm_request(product_operand(w, "left"), x, how,
                        memory_of(available_memory_proportion, strict_memory, options))


@op("popsparse.static.dense_sparse_matmul", poplibs="popsparse::static_::denseSparseMatMul",
    reference=_BOUND + "dense_sparse_matmul_bound", bound=_BOUND + "dense_sparse_matmul_bound",
    draws="testing.calls:dense_sparse_matmul_calls")
def dense_sparse_matmul(x: Array | PreparedDense, w: BlockSparseMatrix | PreparedSparse, *, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float | None = None, strict_memory: bool = False,
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
    how = Epilogue(out, out_dtype, bias, activation, swapped=True)
    return spmm_request(product_operand(w, "right"), x, how,
                        memory_of(available_memory_proportion, strict_memory, options), x_swapped=True)


@op("popsparse.static.sparse_grad_w", reference=_BOUND + "stored_grad_w_bound", bound=_BOUND + "stored_grad_w_bound",
    draws="testing.calls:sparse_grad_w_calls")
def sparse_grad_w(w: BlockSparseMatrix, grads: Array, x: Array, *, out: Any = None, out_dtype: object = None,
                  available_memory_proportion: float | None = None, strict_memory: bool = False,
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
        Format of the result; by default as for `sparse_dense_matmul`, of the formats of `grads` and `x`.
    available_memory_proportion : float, optional
        Share of each thread's tile memory (a core's second-level cache) for temporary bytes; by default, and with 0,
        there is no limit. Operands that are read where they lie take none but the sums of a block.
    strict_memory : bool, optional
        Raise where no plan keeps to the limit, instead of warning (default False).
    options : mapping, optional
        PopLibs' spelling, ``{"availableMemoryProportion": 0.3}``.

    Returns
    -------
    numpy.ndarray or QuarterArray, shape of ``w.blocks``
        One gradient for each stored value, for a transposed view too; zero for the padding of edge blocks.

    Raises
    ------
    MemoryLimitError
        With `strict_memory`, if no plan keeps to the limit.

    Warns
    -----
    MemoryLimitWarning
        Otherwise, in that case, as for `sparse_dense_matmul`.

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
    return sddmm_request(check_matrix("w", w), grads, x, out, out_dtype,
                         memory_of(available_memory_proportion, strict_memory, options))


def plan_sparse_dense_matmul(w: BlockSparseMatrix, n: int, *, dtype: Any = None, out_dtype: Any = None,
                             bias: bool = False, activation: str | None = None,
                             available_memory_proportion: float | None = None, strict_memory: bool = False,
                             options: Mapping[str, Any] | None = None) -> SparsePlan:
    """Plan ``Y = activation(W X + bias)`` without running it.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (m, k)
        Its values are not read.
    n : int
        Columns of X, which is C-contiguous.
    dtype, out_dtype : Format, dtype or str, optional
        Formats of X (default that of `w`) and of Y (default as for `sparse_dense_matmul`).
    bias : bool, optional
        Whether there will be a bias (default False).
    activation : {None, "relu", "gelu", "silu"}, optional
    available_memory_proportion, strict_memory, options : optional
        The limit on temporary bytes, as for `sparse_dense_matmul`.

    Returns
    -------
    SparsePlan
        Its `explain` tells kernel, panels, threads and temporary bytes.

    Raises
    ------
    MemoryLimitError
        With `strict_memory`, if no plan keeps to the limit.

    Warns
    -----
    MemoryLimitWarning
        Otherwise, in that case.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, static
    >>> w = BlockSparseMatrix.from_dense(np.eye(64, dtype=np.float32), 4)
    >>> plan = static.plan_sparse_dense_matmul(w, 8, activation="relu")
    >>> print(str(plan).splitlines()[0])
    sparse_dense_matmul [64, 64] x [64, 8]: 16 blocks of 4 x 4, float32 x float32 -> float32
    >>> static.compile_sparse_dense_matmul(plan)(w, -np.ones((64, 8), np.float32)).max()
    np.float32(0.0)
    """
    return plan_product(w, n, dtype, out_dtype, bias, activation, False, available_memory_proportion, strict_memory,
                        options)


def plan_dense_sparse_matmul(w: BlockSparseMatrix, n: int, *, dtype: Any = None, out_dtype: Any = None,
                             bias: bool = False, activation: str | None = None,
                             available_memory_proportion: float | None = None, strict_memory: bool = False,
                             options: Mapping[str, Any] | None = None) -> SparsePlan:
    """Plan ``Y = activation(X W + bias)`` for an X of n rows; as `plan_sparse_dense_matmul`."""
    return plan_product(w, n, dtype, out_dtype, bias, activation, True, available_memory_proportion, strict_memory,
                        options)


def compile_sparse_dense_matmul(plan: SparsePlan) -> Callable[..., Any]:
    """Return a planned product as a function to call many times, from any number of threads.

    Parameters
    ----------
    plan : SparsePlan
        As `plan_sparse_dense_matmul` or `plan_dense_sparse_matmul` returned it here.

    Returns
    -------
    callable
        ``run(w, x, *, out=None, bias=None)``, whose attribute ``plan`` is the plan. `w` may be any matrix of the plan's
        shapes, format and at most its number of blocks; an `x` or a `bias` that is not C-contiguous is copied.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If the plan is none that the planner makes here.
    """
    return compile_product(plan, sparse_dense_matmul.op)  # type: ignore[attr-defined]


def compile_dense_sparse_matmul(plan: SparsePlan) -> Callable[..., Any]:
    """Return a planned product as a function; as `compile_sparse_dense_matmul`."""
    return compile_product(plan, dense_sparse_matmul.op)  # type: ignore[attr-defined]


OPERATORS.update({"w @ x": sparse_dense_matmul, "x @ w": dense_sparse_matmul})
