"""Softmax over stored blocks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..checks import one_of
from ..errors import bad_type
from ..popsparse.softmax import api
from ._library import Gradient, define, tensor_of
from ._patterns import matrix_of
from .tensors import BlockSparseTensor, sparse_tensor

MASKS = ("none", "zero_upper_triangle", "zero_lower_triangle")
_INDEX = "Tensor row_offsets, Tensor column_indices, SymInt rows, SymInt columns"


def _softmax(blocks: Tensor, row_offsets: Tensor, column_indices: Tensor, rows: int, columns: int,
             mask: str = "none") -> Tensor:
    x = matrix_of(blocks, row_offsets, column_indices, rows, columns)
    return tensor_of(api.bs_softmax(x, mask=mask).blocks)


def _gradient(y: Tensor, grad: Tensor, row_offsets: Tensor, column_indices: Tensor, rows: int, columns: int) -> Tensor:
    index = row_offsets, column_indices, rows, columns
    return tensor_of(api.bs_softmax_grad(matrix_of(y, *index), matrix_of(grad, *index)).blocks)


def _like_blocks(blocks: Tensor, *_: Any) -> Tensor:
    return blocks.new_empty(blocks.shape)


def _like_grad(y: Tensor, grad: Tensor, *_: Any) -> Tensor:
    torch._check(y.shape == grad.shape, lambda: f"grad: got shape {tuple(grad.shape)}; allowed: {tuple(y.shape)}")
    return grad.new_empty(grad.shape)


class _Softmax(Gradient):
    """PopLibs' ``bsSoftmax`` and ``bsSoftmaxGrad``."""

    @staticmethod
    def forward(ctx: Any, run: Any, blocks: Tensor, row_offsets: Tensor, column_indices: Tensor, rows: int,
                columns: int, mask: str) -> Tensor:
        y: Tensor = run(blocks, row_offsets, column_indices, rows, columns, mask)
        ctx.save_for_backward(y, row_offsets, column_indices)
        ctx.shape = rows, columns
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, *index = ctx.saved_tensors
        return None, GRADIENT(y, grad, *index, *ctx.shape), None, None, None, None, None


GRADIENT = define("bs_softmax_grad", f"(Tensor y, Tensor grad, {_INDEX}) -> Tensor", "popsparse.bs_softmax_grad",
                  _gradient, _like_grad)
SOFTMAX = define("bs_softmax", f"(Tensor blocks, {_INDEX}, str mask='none') -> Tensor", "popsparse.bs_softmax",
                 _softmax, _like_blocks, _Softmax, ("none",))


def bs_softmax(x: BlockSparseTensor, *, mask: str = "none") -> BlockSparseTensor:
    """Take the softmax of each row over its stored elements; all others count as minus infinity.

    Parameters
    ----------
    x : BlockSparseTensor
        Of float32, float16 or bfloat16.
    mask : {"none", "zero_upper_triangle", "zero_lower_triangle"}, optional
        Elements above (below) the diagonal count as minus infinity too and become zero.

    Returns
    -------
    BlockSparseTensor
        Of the dtype of `x`, at its pattern.

    Notes
    -----
    It is `popsparse.bs_softmax`, whose contract it has, and PopLibs' ``popsparse::experimental::bsSoftmax``; its
    gradient is `popsparse.bs_softmax_grad`. That has no gradient of its own.

    Examples
    --------
    >>> import torch
    >>> from poplibs_py.torch import BlockSparseTensor, bs_softmax
    >>> scores = BlockSparseTensor.from_dense(torch.eye(4), 2)._replace(blocks=torch.zeros(2, 2, 2))
    >>> bs_softmax(scores, mask="zero_upper_triangle").to_dense()[:2]
    tensor([[1.0000, 0.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000, 0.0000]])
    """
    x = sparse_tensor("x", x)
    one_of("mask", mask, MASKS)
    if x.blocks.dtype.itemsize == 1:
        raise bad_type("x", f"blocks of {x.blocks.dtype}", "float32, float16 or bfloat16: tensors have no scale")
    blocks: Tensor = SOFTMAX(*x, mask)
    return x._replace(blocks=blocks)
