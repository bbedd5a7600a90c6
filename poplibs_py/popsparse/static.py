"""Products with a sparse operand whose pattern stays the same: the index of its transpose is built once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ..formats import Array
from ..ops import Placed, Request, placed_request
from ..target import Target, TargetLike
from .matrix import OPERATORS, BlockSparseMatrix
from .operands import check_matrix
from .options import memory_of
from .sddmm.api import RUN_SAMPLED, plan_sampled, run_sampled, sddmm_request
from .sddmm.plan import SddmmPlan
from .sparse_product import sparse_sparse_request
from .spmm.api import Epilogue, plan_product, product_verbs, spmm_request
from .spmm.params import PLAIN, SWAPPED, Forms
from .spmm.plan import SparsePlan
from .spmm.prepared import PreparedDense, PreparedSparse, prepare, prepare_dense, product_operand
from .verbs import PRODUCT, planned, sparse_op

__all__ = ["PreparedDense", "PreparedSparse", "SddmmPlan", "SparsePlan", "compile_dense_sparse_matmul",
           "compile_sparse_dense_matmul", "compile_sparse_grad_w", "dense_sparse_matmul", "plan_dense_sparse_matmul",
           "plan_sparse_dense_matmul", "plan_sparse_grad_w", "prepare", "prepare_dense", "sparse_dense_matmul",
           "sparse_grad_w", "sparse_sparse_matmul"]


def _product(forms: Forms, name: str, /, w: Any, x: Any, out: Any, out_dtype: Any, bias: Any, activation: Any,
             target: TargetLike, available_memory_proportion: Any, strict_memory: Any, options: Any) -> Request:
    """Describe a product on the machine that a call names: a modelled one, or this CPU."""
    op, how = f"popsparse.static.{name}", Epilogue(out, out_dtype, bias, activation)

    def there(machine: Target) -> Request | str:
        from .static_matmul.modelled import lacks, static_request  # only here: to import it takes its time

        return lacks(w, x, how.out, how.out_dtype, how.bias, how.activation) or static_request(
            check_matrix("w", w), x, how.out, how.out_dtype, machine, options, available_memory_proportion,
            forms[0])

    def here(placed: Placed[Any]) -> Request:
        memory = memory_of(available_memory_proportion, strict_memory, options)
        return spmm_request(op, product_operand(w, "left" if forms is PLAIN else "right"), x, how, memory, forms,
                            placed=placed)

    return placed_request(op, target, there, here)


@sparse_op("popsparse::static_::sparseDenseMatMul", bound="spmm.bound", by=partial(_product, PLAIN))
def sparse_dense_matmul(w: BlockSparseMatrix | PreparedSparse, x: Array | PreparedDense, *, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float | None = None, strict_memory: bool = False,
                        options: Mapping[str, Any] | None = None, target: TargetLike = None) -> Any:
    """Multiply a block-sparse by a dense matrix: ``Y = activation(W X + bias)``.

    Parameters
    ----------
    w : BlockSparseMatrix or PreparedSparse, shape (m, k)
        Any of the formats that have a dtype. Its values may change between calls; what the pattern implies is kept with
        the pattern. `prepare` makes values ready that would be decoded in each call.
    x : array_like or QuarterArray, shape (..., k, n) or (k,), or (groups, k, n) where `w` has groups; or PreparedDense
        Any of these formats too, any strides; tensors by DLPack, lists as float32. A `QuarterArray` with scales for its
        rows or blocks, of FP16 with a scale, or of a user's format is decoded to a copy first.
    bias : array_like, shape (m,) or (groups, m), optional
        Added to each row, in FP32; of any of the formats that have a dtype, lists as float32.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::static_::sparseDenseMatMul``, whose limits (square blocks of a few sizes, no
    groups, no transpose of the sparse operand) it does not have.

    Operands are decoded exactly. Where a machine multiplies BF16 and both formats fit it (BF16 and the 8-bit ones),
    products are exact. Pairs of them are summed in FP32 by the instruction's rule, with subnormal operands and sums
    taken as zero. With AMX that also holds for FP16 by FP16, as two BF16 numbers each, in blocks whose sides are
    multiples of 16. Otherwise each element of Y is one chain of FP32 fused multiply-adds over the stored elements of
    its row by ascending column, and the bits depend neither on the instruction set nor on the number of threads. Bias,
    activation and the cast to `out_dtype` follow, each rounded once. ``testing.bound`` gives the error bound. A limit
    on memory changes no bit.

    Examples
    --------
    >>> from poplibs_py.popsparse import BlockSparseMatrix, static
    >>> w = BlockSparseMatrix.from_dense(np.eye(4, dtype=np.float32) * 3, 2)
    >>> static.sparse_dense_matmul(w, np.ones((4, 2), np.float32), bias=[0, 1, 2, -4], activation="relu")[:, 0]
    array([3., 4., 5., 0.], dtype=float32)
    """


@sparse_op("popsparse::static_::denseSparseMatMul", bound="spmm.bound", by=partial(_product, SWAPPED))
def dense_sparse_matmul(x: Array | PreparedDense, w: BlockSparseMatrix | PreparedSparse, *, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float | None = None, strict_memory: bool = False,
                        options: Mapping[str, Any] | None = None, target: TargetLike = None) -> Any:
    """Multiply a dense by a block-sparse matrix: ``Y = activation(X W + bias)``.

    Parameters
    ----------
    x : array_like or QuarterArray, shape (..., n, k) or (k,), or (groups, n, k) where `w` has groups; or PreparedDense
        Any of the formats that have a dtype, any strides; prepared by ``prepare_dense(x, side="left")``.
    w : BlockSparseMatrix or PreparedSparse, shape (k, m)
        Prepared by ``prepare(w, side="right")``.
    bias : array_like, shape (m,) or (groups, m), optional
        Added to each column, as FP32.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::static_::denseSparseMatMul`` and is computed as that is, as the transpose of
    ``W' X'``; the contract is that of `sparse_dense_matmul`.
    """


@sparse_op(bound="sddmm.bound:stored_grad_w_bound", lacks="but as a pass of a dynamic layer")
def sparse_grad_w(w: BlockSparseMatrix, grads: Array, x: Array, *, out: Any = None, out_dtype: object = None,
                  available_memory_proportion: float | None = None, strict_memory: bool = False,
                  options: Mapping[str, Any] | None = None, target: TargetLike = None) -> Any:
    """Return the gradient of the stored values for ``Y = W X``: ``dY X'`` at the pattern of `w`.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (m, k)
        Its values are not read.
    grads : array_like or QuarterArray, shape (m, n) or (groups, m, n)
        The gradient of Y; any strides.
    x : array_like or QuarterArray, shape (k, n) or (groups, k, n)

    Returns
    -------
    numpy.ndarray or QuarterArray, shape of ``w.blocks``
        One gradient for each stored value, for a transposed view too; zero for the padding of edge blocks.

    Notes
    -----
    The gradient of X is ``w.T @ grads``. A PreparedDense is not taken (see `prepare_dense`). The contract is that of
    `dynamic.fully_connected_sparse_grad_w`, which takes its operands batch first.

    Examples
    --------
    >>> from poplibs_py.popsparse import BlockSparseMatrix, static
    >>> w = BlockSparseMatrix.from_mask(np.eye(2, dtype=bool), 1)
    >>> static.sparse_grad_w(w, np.ones((2, 3), np.float32), np.float32([[1, 2, 3], [4, 5, 6]])).ravel()
    array([ 6., 15.], dtype=float32)
    """
    return sddmm_request("popsparse.static.sparse_grad_w", check_matrix("w", w), grads, x, out, out_dtype,
                         memory_of(available_memory_proportion, strict_memory, options))


@sparse_op(bound="sparse_bound", written=None, lacks="in PopLibs")
def sparse_sparse_matmul(w: BlockSparseMatrix, v: BlockSparseMatrix, *, out_dtype: object = None,
                         target: TargetLike = None) -> Any:
    """Multiply two block-sparse matrices: ``W V``, block-sparse too.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (m, k)
    v : BlockSparseMatrix, shape (k, n)
        Its blocks have as many rows as those of `w` have columns, and it as many groups.
    out_dtype : Format, dtype or str, optional
        Float32, bfloat16 or float16; by default that of all products.

    Returns
    -------
    BlockSparseMatrix, shape (m, n)
        With a block wherever a stored block of `w` meets one of `v`, zero or not.

    Notes
    -----
    PopLibs has no such product. Operands are decoded exactly. Each sum is one chain of FP32 fused multiply-adds from
    zero, ascending along the depth over the blocks that meet, and rounded once: the same bits at every level and for
    any number of threads.

    Examples
    --------
    >>> from poplibs_py.popsparse import BlockSparseMatrix, static
    >>> w = BlockSparseMatrix.from_dense(np.diag([1.0, 2.0, 3.0, 4.0]), 2)
    >>> static.sparse_sparse_matmul(w, w).to_dense().diagonal().tolist()
    [1.0, 4.0, 9.0, 16.0]
    """
    return sparse_sparse_request(w, v, out_dtype)


plan_sparse_dense_matmul, compile_sparse_dense_matmul = product_verbs(sparse_dense_matmul, plan_product)
plan_dense_sparse_matmul, compile_dense_sparse_matmul = product_verbs(
    dense_sparse_matmul, partial(plan_product, forms=SWAPPED))
plan_sparse_grad_w, compile_sparse_grad_w = planned(
    sparse_grad_w, SddmmPlan, plan_sampled, run_sampled, RUN_SAMPLED, PRODUCT, "dtype", "x_dtype")

OPERATORS.update({"w @ x": sparse_dense_matmul, "x @ w": dense_sparse_matmul})
