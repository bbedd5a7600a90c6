"""Products with a block-sparse operand, and at the pattern of one: ``torch.ops.poplibs_py``'s and what calls them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import check_shape
from ..popsparse import static
from ..program import result_array
from ._library import (
    Gradient,
    array_of,
    asked_dtype,
    check_tensor,
    define,
    dtype_format,
    result_dtype,
    tensor_of,
    told_of,
)
from ._patterns import block_shape_of, groups_of, kept_pattern, matrix_of
from .tensors import BlockSparseTensor, sparse_tensor

_PRODUCT = ("(Tensor x, Tensor blocks, Tensor row_offsets, Tensor column_indices, SymInt rows, SymInt columns, "
            "bool transpose=False, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor")
_DEFAULTS = (False, None, None)


def _extents(blocks: Tensor, row_offsets: Tensor, rows: int, columns: int, transpose: bool) -> tuple[Any, Any, Any]:
    """The groups of a matrix that tensors stand for, and the rows and columns of it, or of its transpose."""
    groups = groups_of(row_offsets.shape[0] - 1, rows, block_shape_of(blocks)[0])
    return (groups, columns, rows) if transpose else (groups, rows, columns)


def _dtype_of_product(x: Tensor, blocks: Tensor, bias: Tensor | None, out_dtype: torch.dtype | None) -> torch.dtype:
    for name, tensor in (("x", x), ("blocks", blocks), ("bias", bias)):
        if tensor is not None:
            dtype_format(name, tensor.dtype)
    return result_dtype(out_dtype, x.dtype, blocks.dtype)


# Y = X op(W) + bias --------------------------------------------------------------------------------

def _dense_sparse(x: Tensor, blocks: Tensor, row_offsets: Tensor, column_indices: Tensor, rows: int, columns: int,
                  transpose: bool = False, bias: Tensor | None = None, out_dtype: torch.dtype | None = None) -> Tensor:
    w = matrix_of(blocks, row_offsets, column_indices, rows, columns, transpose)
    if bias is None and out_dtype is None:
        return tensor_of(static.dense_sparse_matmul(array_of("x", x), w))
    return tensor_of(static.dense_sparse_matmul(array_of("x", x), w, **told_of(bias, out_dtype)))


def _dense_sparse_fake(x: Tensor, blocks: Tensor, row_offsets: Tensor, column_indices: Tensor, rows: int, columns: int,
                       transpose: bool = False, bias: Tensor | None = None,
                       out_dtype: torch.dtype | None = None) -> Tensor:
    _, depth, wide = _extents(blocks, row_offsets, rows, columns, transpose)
    torch._check(x.shape[-1] == depth, lambda: f"x: got shape {tuple(x.shape)}; allowed: shape (..., {depth})")
    return x.new_empty((*x.shape[:-1], wide), dtype=_dtype_of_product(x, blocks, bias, out_dtype))


class _Product(Gradient):
    """A product with a bias: the forward pass of both."""

    @staticmethod
    def forward(ctx: Any, run: Any, x: Tensor, blocks: Tensor, row_offsets: Tensor, column_indices: Tensor, rows: int,
                columns: int, transpose: bool, bias: Tensor | None, out_dtype: torch.dtype | None) -> Tensor:
        _save(ctx, x, blocks, row_offsets, column_indices, (rows, columns, transpose), bias)
        made: Tensor = run(x, blocks, row_offsets, column_indices, rows, columns, transpose, bias, out_dtype)
        return made


class _DenseSparse(_Product):
    """``Y = X op(W) + bias``: PopLibs' GradA and GradW."""

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, blocks, *index = ctx.saved_tensors
        rows, columns, transpose = ctx.how
        of_x = of_blocks = of_bias = None
        if ctx.needs_input_grad[1]:
            of_x = DENSE_SPARSE(grad, blocks, *index, rows, columns, not transpose, None, ctx.x_dtype)
        if ctx.needs_input_grad[2]:
            stack = (ctx.groups,) if ctx.groups > 1 else ()
            x, given = (t.reshape(*stack, -1, t.shape[-1]) for t in (x, grad))
            left, right = (given, x) if transpose else (x, given)
            of_blocks = SAMPLED(left.mT, right, *index, rows, columns, *ctx.block_shape, ctx.blocks_dtype)
        if ctx.needs_input_grad[8]:
            of_bias = _of_bias(grad, ctx.bias, -2)
        return None, of_x, of_blocks, None, None, None, None, None, of_bias, None


# Y = op(W) X + bias --------------------------------------------------------------------------------

def _sparse_dense(x: Tensor, blocks: Tensor, row_offsets: Tensor, column_indices: Tensor, rows: int, columns: int,
                  transpose: bool = False, bias: Tensor | None = None, out_dtype: torch.dtype | None = None) -> Tensor:
    w = matrix_of(blocks, row_offsets, column_indices, rows, columns, transpose)
    if bias is None and out_dtype is None:
        return tensor_of(static.sparse_dense_matmul(w, array_of("x", x)))
    return tensor_of(static.sparse_dense_matmul(w, array_of("x", x), **told_of(bias, out_dtype)))


def _sparse_dense_fake(x: Tensor, blocks: Tensor, row_offsets: Tensor, column_indices: Tensor, rows: int, columns: int,
                       transpose: bool = False, bias: Tensor | None = None,
                       out_dtype: torch.dtype | None = None) -> Tensor:
    _, high, depth = _extents(blocks, row_offsets, rows, columns, transpose)
    vector = x.dim() == 1
    torch._check(x.shape[-1 if vector else -2] == depth,
                 lambda: f"x: got shape {tuple(x.shape)}; allowed: shape (..., {depth}, columns)")
    shape = (high,) if vector else (*x.shape[:-2], high, x.shape[-1])
    return x.new_empty(shape, dtype=_dtype_of_product(x, blocks, bias, out_dtype))


class _SparseDense(_Product):
    """``Y = op(W) X + bias``."""

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, blocks, *index = ctx.saved_tensors
        rows, columns, transpose = ctx.how
        of_x = of_blocks = of_bias = None
        if ctx.needs_input_grad[1]:
            of_x = SPARSE_DENSE(grad, blocks, *index, rows, columns, not transpose, None, ctx.x_dtype)
        if ctx.needs_input_grad[2]:
            x, given = (_side_by_side(t, ctx.groups) for t in (x, grad))
            left, right = (x, given) if transpose else (given, x)
            of_blocks = SAMPLED(left, right.mT, *index, rows, columns, *ctx.block_shape, ctx.blocks_dtype)
        if ctx.needs_input_grad[8]:
            of_bias = _of_bias(grad if grad.dim() > 1 else grad[:, None], ctx.bias, -1)
        return None, of_x, of_blocks, None, None, None, None, None, of_bias, None


def _save(ctx: Any, x: Tensor, blocks: Tensor, row_offsets: Tensor, column_indices: Tensor,
          how: tuple[int, int, bool], bias: Tensor | None) -> None:
    """Keep what the gradients of a product need: X where that of W is wanted, the blocks where that of X is."""
    needs = ctx.needs_input_grad
    ctx.save_for_backward(x if needs[2] else None, blocks if needs[1] else None, row_offsets, column_indices)
    ctx.how, ctx.x_dtype, ctx.blocks_dtype = how, x.dtype, blocks.dtype
    ctx.block_shape = block_shape_of(blocks)
    ctx.groups = _extents(blocks, row_offsets, *how)[0]
    ctx.bias = None if bias is None else (bias.shape, bias.dtype)


def _side_by_side(x: Tensor, groups: int) -> Tensor:
    """Return the columns of all matrices of a batch beside one another; a group keeps its own."""
    x = x if x.dim() > 1 else x[:, None]
    return x if groups > 1 or x.dim() == 2 else x.movedim(-2, 0).reshape(x.shape[-2], -1)


def _of_bias(grad: Tensor, bias: tuple[torch.Size, torch.dtype], columns: int) -> Tensor:
    """Return the gradient of a bias: the sum over the axis of columns and over those that it was repeated along."""
    shape, dtype = bias
    made = grad.float()
    made = made.sum(columns) if made.dim() > 1 else made
    kept = 2 if shape.numel() > made.shape[-1] else 1  # axes: of groups, of outputs
    while made.dim() > kept:
        made = made.sum(0)
    return made.reshape(shape).to(dtype)


# S = A B where W has blocks ------------------------------------------------------------------------

def _sampled(a: Tensor, b: Tensor, row_offsets: Tensor, column_indices: Tensor, rows: int, columns: int,
             block_rows: int, block_columns: int, out_dtype: torch.dtype | None = None) -> Tensor:
    kept = kept_pattern(row_offsets, column_indices, rows, columns, (block_rows, block_columns))
    left, right = array_of("a", a), array_of("b", b)
    check_shape("b", right, left.ndim >= 2 and right.ndim >= 2 and left.shape[-1] == right.shape[-2],
                f"as many rows as a, of shape {left.shape}, has columns")
    dtype = result_dtype(out_dtype, a.dtype, b.dtype)
    made = result_array(kept.blocks_shape, dtype_format("out_dtype", dtype).dtype)
    static.sparse_grad_w(kept.matrix(made, False), left, right.swapaxes(-1, -2), out=made)
    return tensor_of(made)


def _sampled_fake(a: Tensor, b: Tensor, row_offsets: Tensor, column_indices: Tensor, rows: int, columns: int,
                  block_rows: int, block_columns: int, out_dtype: torch.dtype | None = None) -> Tensor:
    torch._check(a.shape[-2] == rows, lambda: f"a: got shape {tuple(a.shape)}; allowed: {rows} rows")
    torch._check(b.shape[-1] == columns, lambda: f"b: got shape {tuple(b.shape)}; allowed: {columns} columns")
    torch._check(a.shape[-1] == b.shape[-2],
                 lambda: f"b: got shape {tuple(b.shape)}; allowed: as many rows as a, of shape {tuple(a.shape)}, has "
                         "columns")
    shape = (column_indices.shape[0], block_rows, block_columns)
    return a.new_empty(shape, dtype=result_dtype(out_dtype, a.dtype, b.dtype))


class _Sampled(Gradient):
    """``S = A B`` at a pattern: each gradient is a product with that of S, which has the pattern."""

    @staticmethod
    def forward(ctx: Any, run: Any, a: Tensor, b: Tensor, row_offsets: Tensor, column_indices: Tensor, rows: int,
                columns: int, block_rows: int, block_columns: int, out_dtype: torch.dtype | None) -> Tensor:
        needs = ctx.needs_input_grad
        ctx.save_for_backward(a if needs[2] else None, b if needs[1] else None, row_offsets, column_indices)
        ctx.how, ctx.dtypes = (rows, columns), (a.dtype, b.dtype)
        made: Tensor = run(a, b, row_offsets, column_indices, rows, columns, block_rows, block_columns, out_dtype)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, *index = ctx.saved_tensors
        of_a = of_b = None
        if ctx.needs_input_grad[1]:
            of_a = SPARSE_DENSE(b.mT, grad, *index, *ctx.how, False, None, ctx.dtypes[0])
        if ctx.needs_input_grad[2]:
            of_b = DENSE_SPARSE(a.mT, grad, *index, *ctx.how, False, None, ctx.dtypes[1])
        return None, of_a, of_b, None, None, None, None, None, None, None


DENSE_SPARSE = define("dense_sparse_matmul", _PRODUCT, "popsparse.static.dense_sparse_matmul", _dense_sparse,
                      _dense_sparse_fake, _DenseSparse, _DEFAULTS)
SPARSE_DENSE = define("sparse_dense_matmul", _PRODUCT, "popsparse.static.sparse_dense_matmul", _sparse_dense,
                      _sparse_dense_fake, _SparseDense, _DEFAULTS)
SAMPLED = define("sampled_matmul",
                 "(Tensor a, Tensor b, Tensor row_offsets, Tensor column_indices, SymInt rows, SymInt columns, "
                 "SymInt block_rows, SymInt block_columns, ScalarType? out_dtype=None) -> Tensor",
                 "popsparse.static.sparse_grad_w", _sampled, _sampled_fake, _Sampled, (None,))


def dense_sparse_matmul(x: Tensor, w: BlockSparseTensor, *, transpose: bool = False, bias: Tensor | None = None,
                        out_dtype: torch.dtype | None = None) -> Tensor:
    """Multiply a dense by a block-sparse matrix: ``Y = X op(W) + bias``.

    Parameters
    ----------
    x : torch.Tensor, shape (..., n, k) or (k,), or (groups, n, k) where `w` has groups
        Any strides.
    w : BlockSparseTensor, shape (k, m), or (m, k) with `transpose`
    transpose : bool, optional
        Whether to take `w` transposed, as linear layers do (default False).
    bias : torch.Tensor, shape (m,) or (groups, m), optional
        Added in FP32, before the result is rounded.
    out_dtype : torch.dtype, optional
        The result's; by default that of `popsparse.static.dense_sparse_matmul`.

    Returns
    -------
    torch.Tensor, shape (..., n, m)

    Notes
    -----
    It is `popsparse.static.dense_sparse_matmul`, whose contract it has, and PopLibs'
    ``popsparse::static_::denseSparseMatMul``. The gradient of X is ``dY op(W)'`` in the dtype of X (PopLibs' GradA),
    that of the blocks ``X' dY``, or ``dY' X``, where W has blocks (GradW), in theirs. Each is one product, rounded
    once.

    Examples
    --------
    >>> import torch
    >>> from poplibs_py.torch import BlockSparseTensor, dense_sparse_matmul
    >>> w = BlockSparseTensor.from_dense(2 * torch.eye(4), 2)
    >>> dense_sparse_matmul(torch.ones(1, 4), w, bias=torch.arange(4.0))
    tensor([[2., 3., 4., 5.]])
    """
    check_tensor("x", x)
    w = sparse_tensor("w", w)
    made: Tensor = DENSE_SPARSE(x, *w, transpose, _checked_bias(bias), asked_dtype(out_dtype))
    return made


def sparse_dense_matmul(w: BlockSparseTensor, x: Tensor, *, transpose: bool = False, bias: Tensor | None = None,
                        out_dtype: torch.dtype | None = None) -> Tensor:
    """Multiply a block-sparse by a dense matrix: ``Y = op(W) X + bias``.

    Parameters
    ----------
    w : BlockSparseTensor, shape (m, k), or (k, m) with `transpose`
    x : torch.Tensor, shape (..., k, n) or (k,), or (groups, k, n) where `w` has groups
        Any strides.
    transpose : bool, optional
        Whether to take `w` transposed (default False).
    bias : torch.Tensor, shape (m,) or (groups, m), optional
        Added to each row in FP32, before the result is rounded.
    out_dtype : torch.dtype, optional
        The result's; by default that of `popsparse.static.sparse_dense_matmul`.

    Returns
    -------
    torch.Tensor, shape (..., m, n)

    Notes
    -----
    It is `popsparse.static.sparse_dense_matmul`, whose contract it has, and PopLibs'
    ``popsparse::static_::sparseDenseMatMul``. Its gradients are those of `dense_sparse_matmul`.
    """
    check_tensor("x", x)
    w = sparse_tensor("w", w)
    made: Tensor = SPARSE_DENSE(x, *w, transpose, _checked_bias(bias), asked_dtype(out_dtype))
    return made


def sampled_matmul(a: Tensor, b: Tensor, w: BlockSparseTensor, *,
                   out_dtype: torch.dtype | None = None) -> BlockSparseTensor:
    """Multiply dense matrices where a pattern has blocks: ``S = A B``, known as SDDMM.

    Parameters
    ----------
    a : torch.Tensor, shape (m, k) or (groups, m, k)
    b : torch.Tensor, shape (k, n) or (groups, k, n)
        Any strides.
    w : BlockSparseTensor, shape (m, n)
        Its values are not read.
    out_dtype : torch.dtype, optional
        The result's; by default that of `popsparse.static.sparse_grad_w`.

    Returns
    -------
    BlockSparseTensor, shape (m, n)
        It shares the pattern of `w`.

    Notes
    -----
    It is `popsparse.static.sparse_grad_w`, whose contract it has. The gradients of A and B are ``dS B'`` and ``A' dS``.

    Examples
    --------
    >>> import torch
    >>> from poplibs_py.torch import BlockSparseTensor, sampled_matmul
    >>> w = BlockSparseTensor.from_dense(torch.eye(4), 2)
    >>> sampled_matmul(torch.ones(4, 3), torch.ones(3, 4), w).to_dense()[0]
    tensor([3., 3., 0., 0.])
    """
    check_tensor("a", a)
    check_tensor("b", b)
    w = sparse_tensor("w", w)
    blocks = SAMPLED(a, b, *w[1:], *block_shape_of(w.blocks), asked_dtype(out_dtype))
    return w._replace(blocks=blocks)


def _checked_bias(bias: Tensor | None) -> Tensor | None:
    if bias is not None:
        check_tensor("bias", bias)
    return bias


