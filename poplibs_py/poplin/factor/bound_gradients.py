"""How far gradients of factors and solutions may be from the exact ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import FP32, Format, format_of
from ...formats.bounds import Ball, matmul_ball
from ...ops import result_format
from .bound import numbers, solved
from .reference import triangle, triangular_solve

__all__ = ["cholesky_grad_bound", "triangular_solve_grad_bound"]


def cholesky_grad_bound(grad: Any, factor: Any, *, lower: bool = True, out: Any = None, out_dtype: Any = None,
                        target: Any = None) -> Ball:
    """Return exact gradients and radii of a `cholesky_grad` call."""
    g, t = triangle(numbers(grad), lower), triangle(numbers(factor), lower)
    if not lower:
        g, t = (np.swapaxes(v, -1, -2) for v in (g, t))
    n = t.shape[-1]
    half = np.tri(n) - np.eye(n) / 2
    product = matmul_ball(np.swapaxes(t, -1, -2), g)
    back = np.swapaxes(t, -1, -2)
    with np.errstate(all="ignore"):
        first = solved(back, False, Ball.exact(triangular_solve(back, product.centre * half, lower=False)),
                       carried=product.radius * half)
        # S L = Y is L' S' = Y'
        y = Ball(np.swapaxes(first.centre, -1, -2), np.swapaxes(first.radius, -1, -2))
        s = solved(back, False, Ball.exact(triangular_solve(back, y.centre, lower=False)), carried=y.radius)
    other = Ball(np.swapaxes(s.centre, -1, -2), np.swapaxes(s.radius, -1, -2))
    return ((s + other).rounded(FP32) * 0.5).rounded(_made(out, out_dtype, grad, factor))


def triangular_solve_grad_bound(grad: Any, a: Any, x: Any, *, left_side: bool = True, lower: bool = True,
                                unit_diagonal: bool = False, transpose: bool = False, out: Any = None,
                                out_dtype: Any = None, target: Any = None) -> tuple[Ball, Ball]:
    """Return exact gradients and radii of a `triangular_solve_grad` call."""
    exact = triangular_solve(numbers(a), numbers(grad), left_side=left_side, lower=lower, unit_diagonal=unit_diagonal,
                             transpose=not transpose)
    t, low = triangle(numbers(a), lower, unit_diagonal), lower
    if transpose != left_side:
        t, low = np.swapaxes(t, -1, -2), not low
    ball = solved(t, low, Ball.exact(exact if left_side else np.swapaxes(exact, -1, -2)))
    if not left_side:
        ball = Ball(np.swapaxes(ball.centre, -1, -2), np.swapaxes(ball.radius, -1, -2))
    y = np.swapaxes(numbers(x), -1, -2)
    with np.errstate(all="ignore"):
        pair = (ball.centre, y) if left_side else (y, ball.centre)
        reach = np.abs(ball.centre) + ball.radius
        sizes = (reach, np.abs(y)) if left_side else (np.abs(y), reach)
        moved = ball.radius @ np.abs(y) if left_side else np.abs(y) @ ball.radius
        product = matmul_ball(*sizes)
        a_ball = Ball(-(pair[0] @ pair[1]), product.radius + moved)
    if transpose:
        a_ball = Ball(np.swapaxes(a_ball.centre, -1, -2), np.swapaxes(a_ball.radius, -1, -2))
    n = t.shape[-1]
    kept = np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T
    kept = kept & ~np.eye(n, dtype=bool) if unit_diagonal else kept
    a_ball = Ball(np.where(kept, a_ball.centre, 0.0), np.where(kept, a_ball.radius, 0.0))
    made = _made(None, out_dtype, grad, a, x)
    return a_ball.rounded(FP32).rounded(made), ball.rounded(made)


def _made(out: Any, out_dtype: Any, *operands: Any) -> Format:
    if out is not None or out_dtype is not None:
        return format_of(out if out is not None else out_dtype)
    return result_format(*(FP32 if isinstance(v, (list, tuple)) else format_of(v) for v in operands))
