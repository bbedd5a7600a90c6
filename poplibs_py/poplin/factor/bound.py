"""How far factors and solutions may be from the exact ones.

Each op's contract is a backward error: what is computed is exact for operands that differ by so much, element by
element. Here that is carried to the results of given operands, in float64 and without a condition number's factors:
where ``L = L0 (I + X)``, X is bounded by the least solution of the equation that it satisfies, found by iteration.
Where the iteration does not come to rest a matrix is too near to one that has no factors, and nothing is promised.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import FP32, Floats, Format, format_of
from ...formats.bounds import Ball, gamma
from ...ops import result_format, target_of
from ...planner import Memory
from .balls import SLACK, TINY, at_rest, mirrored
from .modelled_bound import factor_radius, tile_cholesky_bound, tile_solve_bound
from .reference import cholesky, inverse, lu, qr, triangle, triangular_solve

_U = FP32.unit_roundoff


def cholesky_bound(a: Any, *, lower: bool = True, out: Any = None, out_dtype: Any = None, target: Any = None,
                   options: Any = None, block_size: Any = None, available_memory_proportion: Any = None,
                   strict_memory: Any = False) -> Ball:
    """Return exact factors and radii of a `cholesky` call of positive definite matrices.

    On this CPU a matrix is one block that nothing was wrong with: see `factor_radius`.
    """
    values = numbers(a)
    machine = target_of(target)
    if machine.kind != "host":
        how = options, block_size, Memory(available_memory_proportion)
        return tile_cholesky_bound(values, lower, made_format(out, out_dtype, a), machine, how)
    exact = cholesky(values, lower=True) if lower else np.swapaxes(cholesky(values, lower=False), -1, -2)
    with np.errstate(all="ignore"):
        ball = Ball(exact, factor_radius(exact, np.zeros(exact.shape)))
    ball = ball if lower else mirrored(ball)
    return ball.rounded(made_format(out, out_dtype, a))


def triangular_solve_bound(a: Any, b: Any, *, left_side: bool = True, lower: bool = True, unit_diagonal: bool = False,
                           transpose: bool = False, out: Any = None, out_dtype: Any = None, target: Any = None,
                           options: Any = None, block_size: Any = None,
                           available_memory_proportion: Any = None, strict_memory: Any = False) -> Ball:
    """Return exact solutions and radii of a `triangular_solve` call."""
    exact = triangular_solve(numbers(a), numbers(b), left_side=left_side, lower=lower, unit_diagonal=unit_diagonal,
                             transpose=transpose)
    t, x = triangle(numbers(a), lower, unit_diagonal), exact if left_side else np.swapaxes(exact, -1, -2)
    if transpose == left_side:
        t, lower = np.swapaxes(t, -1, -2), not lower
    made = made_format(out, out_dtype, a, b)
    machine = target_of(target)
    if machine.kind != "host":
        sides = numbers(b) if left_side else np.swapaxes(numbers(b), -1, -2)
        how = options, block_size, Memory(available_memory_proportion)
        ball = tile_solve_bound(t, sides, x, lower, unit_diagonal, made, machine, how)
    else:
        ball = solved(t, lower, Ball.exact(x)).rounded(made)
    return ball if left_side else mirrored(ball)


def solved(t: Floats, lower: bool, x: Ball, carried: Any = 0.0) -> Ball:
    """Return solutions of triangular systems with the errors of substitution.

    Parameters
    ----------
    t : numpy.ndarray of float64
        The triangles, zero elsewhere.
    lower : bool
    x : Ball
        The exact solutions.
    carried : array_like, optional
        What the right-hand sides may already be wrong by.

    Notes
    -----
    ``(T + D) y = b`` with ``|D| <= g |T|`` gives ``|y - x| <= (I - G)^-1 (G |x| + |T^-1| carried)`` where
    ``G = g |T^-1| |T|``, which is triangular, with g on its diagonal.
    """
    n = t.shape[-1]
    with np.errstate(all="ignore"):
        flipped = t if lower else t[..., ::-1, ::-1]
        back = np.abs(inverse(flipped))
        back = back if lower else back[..., ::-1, ::-1]
        g = gamma(n + 2, _U) * SLACK * back @ np.abs(t)
        sizes = np.abs(x.centre)
        diagonal = np.abs(np.diagonal(t, axis1=-2, axis2=-1)).max(-1, initial=0)[..., None, None]
        known = g @ sizes + SLACK * back @ (carried + TINY * (n + 1) * (1 + diagonal) + 0 * sizes)
        radius = np.abs(triangular_solve(np.eye(n) - g, known, lower=lower)) * SLACK
        largest = np.maximum(sizes + radius, 2 * np.abs(t) @ (sizes + radius))  # sums on the way too
        fits = largest.max(-2, keepdims=True, initial=0) < FP32.max
        radius = np.where(np.isfinite(x.centre) & fits, radius, np.inf)
    return Ball(np.where(np.isinf(radius), 0.0, x.centre), radius)


def lu_bound(a: Any, *, out: Any = None, out_dtype: Any = None, target: Any = None) -> tuple[Ball, Ball, Ball]:
    """Return exact factors and radii of an `lu` call: of the permutation, of L, of U.

    ``A + E = L U`` with ``|E| <= g |L| |U|`` gives ``(I + X)(I + Y) = I + F`` for the leading square: X is what is
    below the diagonal of ``F - X Y``, Y the rest. A pivot that another candidate may pass leaves nothing to promise.
    """
    values = numbers(a)
    perm, lower, upper, clear = lu(values, margin=2.0**-12)
    k = lower.shape[-1]
    g = gamma(k + 2, _U) * SLACK
    with np.errstate(all="ignore"):
        greatest = np.abs(upper).max((-1, -2), initial=0, keepdims=True)
        wrong = g * (np.abs(lower) @ np.abs(upper)) + TINY * (k + 2) * (1 + greatest)
        l0, u0 = lower[..., :k, :], upper[..., :k]
        left = np.abs(inverse(l0))
        right = np.abs(np.swapaxes(inverse(np.swapaxes(u0, -1, -2)), -1, -2))
        f = SLACK * left @ wrong[..., :k, :k] @ right
        below = np.tril(np.ones((k, k)), -1)

        def step(xy: Floats) -> Floats:
            reach = f + xy[0] @ xy[1]
            return np.stack([below * reach, (1 - below) * reach])

        both = at_rest(np.zeros((2, *f.shape)), step, joint=True)
        of_l, of_u = np.abs(l0) @ both[0], both[1] @ np.abs(u0)
        grown = right @ _inverse_bound(both[1])
        rest_l = (wrong[..., k:, :k] + np.abs(lower[..., k:, :]) @ of_u) @ grown
        shrunk = _inverse_bound(both[0]) @ left
        rest_u = shrunk @ (wrong[..., :k, k:] + of_l @ np.abs(upper[..., k:]))
        nothing = np.where(clear, 0.0, np.inf)[..., None, None]
        radii = [np.concatenate(found, axis) * SLACK + nothing
                 for found, axis in (([of_l, rest_l], -2), ([of_u, rest_u], -1))]
    made = FP32 if out_dtype is None else format_of(out_dtype)
    pairs = zip((lower, upper), radii, strict=True)
    balls = [Ball(np.where(np.isfinite(r), c, 0.0), r).rounded(made) for c, r in pairs]
    return Ball(perm, nothing[..., 0] + np.zeros(perm.shape)), balls[0], balls[1]


def _inverse_bound(x: Floats) -> Floats:
    """Bound ``(I + X)^-1`` for triangular X no greater than this in magnitude."""
    n = x.shape[-1]
    small = np.abs(x).sum(-1).max(-1, initial=0)[..., None, None]
    return np.where(small < 0.5, np.eye(n) + 2 * x + 4 * (x @ x) + 2 * small**3, np.inf)


def qr_bound(a: Any, *, mode: str = "reduced", out: Any = None, out_dtype: Any = None,
             target: Any = None) -> tuple[Ball, Ball]:
    """Return exact factors and radii of a `qr` call, of Q and of R.

    ``A + E = Q R`` with Q orthogonal to within d, and columns of E within d of those of A. For the leading square R0
    of R, Q moves by at most about ``(2 + sqrt 2) norm(E R0^-1)`` (Sun, BIT 31, 1991), taken twice here, and columns
    of R by as much of their length. Nothing is promised of columns that only complete a basis, where R0 is nearly
    singular, and where the sign of a reflection hangs on rounding errors.
    """
    values = numbers(a)
    q, r, clear = qr(values, mode, margin=2.0**-10)
    m, n = values.shape[-2:]
    k = min(m, n)
    d = gamma(6 * m * (k + 3), _U)
    with np.errstate(all="ignore"):
        lengths = np.sqrt((values * values).sum(-2))
        back = np.abs(np.swapaxes(inverse(np.swapaxes(r[..., :k, :k], -1, -2)), -1, -2))
        moved = d * np.sqrt(k) + d * np.sqrt((back * back * (lengths[..., :k] ** 2)[..., None]).sum((-1, -2)))
        angle = np.where(clear & (moved < 2.0**-12), 8 * moved, np.inf)[..., None, None]
        of_q = angle + np.zeros(q.shape)
        of_q[..., k:] = np.inf
        of_r = (angle + 2 * d) * lengths[..., None, :] + np.zeros(r.shape) + 4 * TINY
        of_r = np.where(np.tri(r.shape[-2], n, -1, dtype=bool), 0.0, of_r)
        of_r[..., k:, :] = 0.0
    made = FP32 if out_dtype is None else format_of(out_dtype)
    balls = [Ball(np.where(np.isfinite(radius), c, 0.0), radius).rounded(made) for c, radius in ((q, of_q), (r, of_r))]
    return balls[0], balls[1]


def numbers(a: Any) -> Floats:
    """Return an operand's values in float64."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.asarray(a, np.float32) if isinstance(a, (list, tuple)) else a).astype(np.float64)


def made_format(out: Any, out_dtype: Any, *operands: Any) -> Format:
    """Return the format of a result that is given, asked for, or that of the operands."""
    if out is not None or out_dtype is not None:
        return format_of(out if out is not None else out_dtype)
    return result_format(*(FP32 if isinstance(v, (list, tuple)) else format_of(v) for v in operands))
