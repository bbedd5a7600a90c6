"""How far gradients of factors and solutions may be from the exact ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import FP32
from ...formats.bounds import Ball, matmul_ball
from .balls import mirrored
from .bound import made_format, numbers, solved
from .reference import triangle, triangular_solve


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
        y = mirrored(first)
        s = solved(back, False, Ball.exact(triangular_solve(back, y.centre, lower=False)), carried=y.radius)
    other = mirrored(s)
    return ((s + other).rounded(FP32) * 0.5).rounded(made_format(out, out_dtype, grad, factor))


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
        ball = mirrored(ball)
    y = np.swapaxes(numbers(x), -1, -2)
    with np.errstate(all="ignore"):
        pair = (ball.centre, y) if left_side else (y, ball.centre)
        reach = np.abs(ball.centre) + ball.radius
        sizes = (reach, np.abs(y)) if left_side else (np.abs(y), reach)
        moved = ball.radius @ np.abs(y) if left_side else np.abs(y) @ ball.radius
        product = matmul_ball(*sizes)
        a_ball = Ball(-(pair[0] @ pair[1]), product.radius + moved)
    if transpose:
        a_ball = mirrored(a_ball)
    n = t.shape[-1]
    kept = np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T
    kept = kept & ~np.eye(n, dtype=bool) if unit_diagonal else kept
    a_ball = Ball(np.where(kept, a_ball.centre, 0.0), np.where(kept, a_ball.radius, 0.0))
    made = made_format(None, out_dtype, grad, a, x)
    return a_ball.rounded(FP32).rounded(made), ball.rounded(made)


def lu_grad_bound(l_grad: Any, u_grad: Any, perm: Any, l: Any, u: Any, *, out: Any = None,  # noqa: E741
                  out_dtype: Any = None, target: Any = None) -> Ball:
    """Return exact gradients and radii of a `lu_grad` call."""
    m, k = numbers(l_grad).shape[-2:]
    below, right = np.tril(numbers(l_grad), -1), np.triu(numbers(u_grad))
    t, v = np.tril(numbers(l), -1), np.triu(numbers(u))
    t[..., range(k), range(k)] = 1
    exact = Ball.exact
    middle = _masked(_minus(_product(exact(_mirrored(t[..., :k, :])), exact(below[..., :k, :])),
                            _product(exact(right[..., k:]), exact(_mirrored(v[..., k:])))), np.tri(k, k, -1))
    middle = middle + _masked(_minus(_product(exact(right[..., :k]), exact(_mirrored(v[..., :k]))),
                                     _product(exact(_mirrored(t[..., k:, :])), exact(below[..., k:, :]))),
                              np.tri(k).T)
    high = _from_the_right(v[..., :k], _joined(middle, exact(below[..., k:, :]), -2))
    wide = _joined(Ball(high.centre[..., :k, :], high.radius[..., :k, :]), exact(right[..., k:]), -1)
    back = _mirrored(t[..., :k, :])
    wide = solved(back, False, exact(triangular_solve(back, wide.centre, lower=False)), carried=wide.radius)
    whole = _joined(wide, Ball(high.centre[..., k:, :], high.radius[..., k:, :]), -2) if m > k else wide
    order = np.argsort(np.asarray(perm), -1)[..., None]
    ball = Ball(*(np.take_along_axis(x, order, -2) for x in (whole.centre, whole.radius)))
    return ball.rounded(made_format(out, out_dtype, l_grad, u_grad, l, u))


def qr_grad_bound(q_grad: Any, r_grad: Any, q: Any, r: Any, *, out: Any = None, out_dtype: Any = None,
                  target: Any = None) -> Ball:
    """Return exact gradients and radii of a `qr_grad` call."""
    x, b = Ball.exact(numbers(q)), Ball.exact(numbers(q_grad))
    upper, right = np.triu(numbers(r)), np.triu(numbers(r_grad))
    k, exact = x.shape[-1], Ball.exact
    if upper.shape[-1] > k:
        side = _product(exact(upper[..., k:]), exact(_mirrored(right[..., k:])))
        b = (b + _product(x, side)).rounded(FP32)
    middle = _minus(_product(exact(upper[..., :k]), exact(_mirrored(right[..., :k]))), _product(mirrored(b), x))
    middle = _masked(middle, np.tri(k)) + mirrored(_masked(middle, np.tri(k, k, -1)))
    first = _from_the_right(upper[..., :k], (b + _product(x, middle)).rounded(FP32))
    whole = _joined(first, _product(x, exact(right[..., k:])), -1)
    return whole.rounded(made_format(out, out_dtype, q_grad, r_grad, q, r))


def _mirrored(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def _masked(x: Ball, kept: Any) -> Ball:
    return Ball(np.where(kept, x.centre, 0.0), np.where(kept, x.radius, 0.0))


def _minus(x: Ball, y: Ball) -> Ball:
    return (x - y).rounded(FP32)


def _joined(x: Ball, y: Ball, axis: int) -> Ball:
    return Ball(np.concatenate([x.centre, y.centre], axis), np.concatenate([x.radius, y.radius], axis))


def _product(x: Ball, y: Ball) -> Ball:
    """Return products of FP32 sums, of operands that may be wrong."""
    with np.errstate(all="ignore"):
        reach = np.abs(x.centre) + x.radius, np.abs(y.centre) + y.radius
        moved = x.radius @ reach[1] + np.abs(x.centre) @ y.radius
        return Ball(x.centre @ y.centre, matmul_ball(*reach).radius + moved)


def _from_the_right(upper: Any, x: Ball) -> Ball:
    """Return ``x @ upper^-T``."""
    right = mirrored(x)
    return mirrored(solved(upper, False, Ball.exact(triangular_solve(upper, right.centre, lower=False)),
                           carried=right.radius))
