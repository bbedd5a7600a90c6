"""How far a spatial softmax and its gradients may be from the exact ones."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..formats import FP32, Array
from ..formats.bounds import Ball, magnitude_product, sum_ball
from ..ops import operand
from ..poplin.product.bound import matmul_bound
from ..popops.elementwise.bound import finished, numbers
from ..popops.sequence import as_taken
from .softmax_bound import softmax_bound, softmax_grad_ball
from .spatial import in_rows, places


def _softmax(x: Any, temperature: float) -> Ball:
    """Weights of the places of each map, in a row."""
    ball = softmax_bound(x, (1, 2), scale=1 / temperature, out_dtype=FP32)
    return ball.reshape(ball.shape[0], prod(ball.shape[1:]))


def _product(weights: Ball, by: Array) -> Ball:
    """A product in FP32 of what is known to lie in balls."""
    wide = by.astype(np.float64)
    with np.errstate(all="ignore"):
        size, carried = magnitude_product(weights.centre, wide), weights.radius @ np.abs(wide)
        return sum_ball(weights.centre @ wide, size, len(wide), carried=carried).rounded(FP32)


def spatial_softmax_2d_bound(x: Any, temperature: float = 1.0, *, disable_softmax: bool = False, out: Any = None,
                             out_dtype: Any = None, target: Any = None) -> Ball:
    """Return exact results and radii of a `spatial_softmax_2d` call."""
    read = operand("x", x)
    height, width = read.shape[1:]
    if not disable_softmax:
        return finished(_product(_softmax(x, temperature), places(height, width)), out, out_dtype, x)
    by = places(height, width, read.format.dtype or np.float16)
    return matmul_bound(as_taken(in_rows(read.array), read), by, out=out, out_dtype=out_dtype)


def spatial_softmax_2d_grad_bound(grad: Any, x: Any, temperature: float = 1.0, *, out: Any = None,
                                  out_dtype: Any = None, target: Any = None) -> tuple[Ball, Ball]:
    """Return exact results and radii of a `spatial_softmax_2d_grad` call."""
    held = numbers(x)
    y, by = _softmax(x, temperature), 1 / temperature
    g = matmul_bound(numbers(grad).astype(np.float32), places(*held.shape[1:]).T)
    of_maps = softmax_grad_ball(g, y, (1,), by).reshape(*held.shape)
    terms = (softmax_grad_ball(g, y, (1,), 1.0).reshape(*held.shape) * held).rounded(FP32)
    with np.errstate(all="ignore"):
        size = np.abs(np.where(np.isfinite(terms.centre), terms.centre, 0.0)).sum()
        added = sum_ball(terms.centre.sum(), size, terms.centre.size, carried=terms.radius.sum()).rounded(FP32)
        return finished(of_maps, None, out_dtype, x), (-added * by * by).rounded(FP32)
