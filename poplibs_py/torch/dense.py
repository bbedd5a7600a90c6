"""Dense products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..poplin.product import api
from ._library import (
    Gradient,
    array_of,
    asked_dtype,
    check_tensor,
    define,
    result_dtype,
    sum_to,
    tensor_of,
    told_of,
)


def _matmul(a: Tensor, b: Tensor, bias: Tensor | None = None, out_dtype: torch.dtype | None = None) -> Tensor:
    return tensor_of(api.matmul(array_of("a", a), array_of("b", b), **told_of(bias, out_dtype)))


def _fake(a: Tensor, b: Tensor, bias: Tensor | None = None, out_dtype: torch.dtype | None = None) -> Tensor:
    for name, tensor in (("a", a), ("b", b)):
        torch._check(tensor.dim() > 0, lambda name=name: f"{name}: got no axes; allowed: one or more")
    depth = b.shape[-2 if b.dim() > 1 else -1]
    torch._check(a.shape[-1] == depth,
                 lambda: f"b: got shape {tuple(b.shape)}; allowed: as many rows as a, of shape {tuple(a.shape)}, has "
                         "columns")
    stack = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*stack, *a.shape[-2:-1], *(b.shape[-1:] if b.dim() > 1 else ()))
    return a.new_empty(shape, dtype=result_dtype(out_dtype, a.dtype, b.dtype))


class _Matmul(Gradient):
    """``Y = A B + bias``: the gradients are ``dY B'`` and ``A' dY``, summed where an operand was repeated."""

    @staticmethod
    def forward(ctx: Any, run: Any, a: Tensor, b: Tensor, bias: Tensor | None, out_dtype: torch.dtype | None) -> Tensor:
        needs = ctx.needs_input_grad
        ctx.save_for_backward(a if needs[2] else None, b if needs[1] else None)
        ctx.a, ctx.b = (a.shape, a.dtype), (b.shape, b.dtype)
        ctx.bias = None if bias is None else (bias.shape, bias.dtype)
        made: Tensor = run(a, b, bias, out_dtype)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        (a_shape, a_dtype), (b_shape, b_dtype) = ctx.a, ctx.b
        grad = grad.unsqueeze(-1) if len(b_shape) == 1 else grad
        grad = grad.unsqueeze(-2) if len(a_shape) == 1 else grad
        of_a = of_b = of_bias = None
        if ctx.needs_input_grad[3]:
            of_bias = sum_to(grad, *ctx.bias)
        if ctx.needs_input_grad[1]:
            b = b[:, None] if b.dim() == 1 else b
            of_a = MATMUL(grad, b.mT, None, _before_sum(grad, a_shape, a_dtype))
            of_a = of_a.squeeze(-2) if len(a_shape) == 1 else of_a
            of_a = sum_to(of_a, a_shape, a_dtype)
        if ctx.needs_input_grad[2]:
            a = a[None] if a.dim() == 1 else a
            if len(b_shape) <= 2 < a.dim():  # the sum over the batch is one product
                a, grad = (t.flatten(0, -2) for t in (a, grad))
            of_b = MATMUL(a.mT, grad, None, _before_sum(grad, b_shape, b_dtype))
            of_b = of_b.squeeze(-1) if len(b_shape) == 1 else of_b
            of_b = sum_to(of_b, b_shape, b_dtype)
        return None, of_a, of_b, of_bias, None


def _before_sum(grad: Tensor, shape: torch.Size, dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of an operand's gradient, which is rounded once, after the sum over repeated axes."""
    return dtype if grad.shape[:-2] == shape[:-2] else torch.float32


MATMUL = define("matmul", "(Tensor a, Tensor b, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
                "poplin.matmul", _matmul, _fake, _Matmul, (None, None))


def matmul(a: Tensor, b: Tensor, *, bias: Tensor | None = None, out_dtype: torch.dtype | None = None) -> Tensor:
    """Multiply matrices: ``A B + bias``.

    Parameters
    ----------
    a : torch.Tensor, shape (..., m, k) or (k,)
    b : torch.Tensor, shape (..., k, n) or (k,)
        Any strides; not necessarily of the dtype of `a`. Batch axes broadcast.
    bias : torch.Tensor, shape (n,), (..., 1, n) or (..., m, 1), optional
        Added in FP32, before the result is rounded.
    out_dtype : torch.dtype, optional
        The result's; by default that of `poplin.matmul`.

    Returns
    -------
    torch.Tensor, shape (..., m, n)

    Notes
    -----
    It is `poplin.matmul`, whose contract it has, and PopLibs' ``poplin::matMul``. Gradients are products of it too,
    each rounded to the dtype of its operand; torch sums them where an operand was repeated along a batch.

    Examples
    --------
    >>> import torch
    >>> from poplibs_py.torch import matmul
    >>> matmul(torch.ones(2, 3).to(torch.float8_e4m3fn), torch.ones(3, 2, dtype=torch.bfloat16))
    tensor([[3., 3.],
            [3., 3.]], dtype=torch.bfloat16)
    """
    check_tensor("a", a)
    check_tensor("b", b)
    if bias is not None:
        check_tensor("bias", bias)
    made: Tensor = MATMUL(a, b, bias, asked_dtype(out_dtype))
    return made
