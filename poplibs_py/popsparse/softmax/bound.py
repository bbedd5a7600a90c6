"""How far softmax and its gradient may be from the exact results: the contracts of `softmax`, in ball arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...checks import check_shape, whole
from ...errors import bad_type
from ...formats import FP32, Array, Format
from ...formats.arrays import as_array, floats
from ...formats.bounds import Ball, dot_ball, gamma
from ..matrix import BlockSparseMatrix
from ..modelled_bound import at_blocks
from ..reference import dense_of
from ..values import SCALE_LIMITS, as_format
from .params import new_format

EXP_ERROR = 2 * FP32.unit_roundoff
"""Relative error of the kernels' exponential: 1 ulp, the contract of simd/math.h."""

EXP_FLOOR = FP32.smallest_subnormal
"""The same where the exponential is subnormal."""


def bs_softmax_bound(x: Array, keep: Array, dtype: Format = FP32, scale: int = 0) -> Ball:
    """Bound `bs_softmax`.

    Parameters
    ----------
    x : numpy.ndarray of float64, shape (..., rows, columns)
        The dense form of the input, finite.
    keep : numpy.ndarray of bool
        Which elements are stored and not masked.
    dtype : Format, optional
        Of the result.
    scale : int, optional
        Of the result.

    Notes
    -----
    With u FP32's unit roundoff: d = x - m errs by ``u |d|``, which the exponential turns into a relative error of about
    as much; the n-term sum adds gamma_n, the quotient u.
    """
    u, dtype = FP32.unit_roundoff, as_format(dtype)
    x, keep = _alike(floats("x", x), as_array("keep", keep, "an array of bool"), "keep")
    if keep.dtype != np.bool_:
        raise bad_type("keep", str(keep.dtype), "an array of bool")
    lowest = np.where(keep, x, -np.inf)
    top = lowest.max(axis=-1, keepdims=True, initial=-np.inf)
    d = np.where(keep, x - np.where(np.isinf(top), 0, top), -np.inf)
    exponentials = np.exp(d)
    total = exponentials.sum(axis=-1, keepdims=True)
    exact = exponentials / np.where(total == 0, 1, total)
    distance = np.where(keep, -d, 0)
    each = np.expm1(distance * u) + EXP_ERROR  # relative error of one exponential
    terms = keep.sum(axis=-1, keepdims=True)
    lost = (each * exponentials + EXP_FLOOR * keep).sum(axis=-1, keepdims=True) / np.where(total == 0, 1, total)
    share = (1 + each) * (1 + u) * (1 + gamma(terms, u)) / np.maximum(1 - lost, 0.5) * (1 + lost) - 1
    radius = exact * (share + 2.0**-45) + 2 * EXP_FLOOR * keep
    return _rounded(Ball(exact, radius), dtype, scale)


def bs_softmax_grad_bound(y: Array, grad: Array, dtype: Format = FP32, scale: int = 0) -> Ball:
    """Bound `bs_softmax_grad`; `y` and `grad` are the dense forms, float64 and finite, of its operands."""
    dtype = as_format(dtype)
    y, grad = _alike(floats("y", y), floats("grad", grad), "grad")
    total = dot_ball(y * grad)
    difference = (Ball.exact(grad) - total[..., None]).rounded(FP32)
    return _rounded((Ball.exact(y) * difference).rounded(FP32), dtype, scale)


def softmax_call_bound(x: BlockSparseMatrix, *, mask: str | Sequence[str] = "none", out_dtype: object = None,
                       scale: int | None = None, out: BlockSparseMatrix | None = None, target: object = None) -> Ball:
    """Return exact results and radii of a `bs_softmax` call of finite numbers, shaped like the result's blocks."""
    stored = x.copy() if x.is_transposed else x
    p = stored.pattern
    ones = np.ones(stored.blocks.shape)
    keep = dense_of(p.shape, p.block_shape, p.row_offsets, p.column_indices, ones, p.groups) != 0
    diagonal = np.arange(p.shape[1]) - np.arange(p.shape[0])[:, None]
    masks = (mask,) * p.groups if isinstance(mask, str) else mask
    for group, name in zip(keep, masks, strict=True):
        group &= {"none": True, "zero_upper_triangle": diagonal <= 0, "zero_lower_triangle": diagonal >= 0}[name]
    ball = bs_softmax_bound(_numbers(stored), keep, *_made(stored.format, out_dtype, scale, None, out))
    return at_blocks(ball, stored)


def softmax_in_place_bound(x: BlockSparseMatrix, *, mask: str | Sequence[str] = "none", target: object = None) -> Ball:
    """Return exact results and radii of a `bs_softmax_in_place` call, given `x` as it was before."""
    return softmax_call_bound(x, mask=mask, out=x)


def softmax_grad_call_bound(y: BlockSparseMatrix, grad: BlockSparseMatrix, *, out_dtype: object = None,
                            scale: int | None = None, out: BlockSparseMatrix | None = None,
                            target: object = None) -> Ball:
    """Return exact results and radii of a `bs_softmax_grad` call of finite numbers, shaped like the result's blocks."""
    outputs, grads = (w.copy() if w.is_transposed else w for w in (y, grad))
    kept = int(np.max(grads.scale, initial=-32)) if out_dtype is None else None
    made = _made(grads.format, out_dtype, scale, kept, out)
    return at_blocks(bs_softmax_grad_bound(_numbers(outputs), _numbers(grads), *made), grads)


def _alike(one: Array, other: Array, name: str) -> tuple[Array, Array]:
    """Return two arrays of rows, or raise where their shapes differ."""
    check_shape(name, other, one.ndim and one.shape == other.shape,
                f"that of the operand before it, {one.shape}, not ()")
    return one, other


def _numbers(w: BlockSparseMatrix) -> Array:
    return w.to_dense(np.float64).reshape(w.groups, *w.shape)


def _made(like: Format, out_dtype: object, scale: int | None, kept: int | None, out: Any) -> tuple[Format, int]:
    """The format and the scale of a result."""
    if out is not None:
        return out.format, out.scale
    return new_format(like, out_dtype, kept if scale is None else scale)


def _rounded(ball: Ball, format: Format, scale: int) -> Ball:
    unit = 2.0 ** whole("scale", scale, *SCALE_LIMITS)
    scaled = Ball(ball.centre / unit, ball.radius / unit).rounded(FP32)
    scaled = scaled.rounded(format, overflow=None if format.has_infinity else "saturate")
    return Ball(scaled.centre * unit, scaled.radius * unit)
