"""How far factors and solutions of a modelled machine may be from the exact ones: its moves, repeated in balls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...formats import FP32, Floats, Format
from ...formats.bounds import Ball, gamma
from ...target import resolve_target
from ...target.types import type_of
from ..product.bound import planned_ball
from ..tile_conv.work import work_of
from .balls import SLACK, TINY, at_rest, mirrored
from .params import FactorLayout, FactorParams
from .plan import TileProblem, block_options, cholesky_moves, padded_order, solve_moves
from .reference import cholesky, inverse


def tile_cholesky_bound(a: Floats, lower: bool, dtype: Format, target: Any, options: tuple[Any, ...]) -> Ball:
    """Return exact factors and radii of a `cholesky` call on a modelled machine."""
    exact = cholesky(a, lower=lower)
    front, n = a.shape[:-2], a.shape[-1]
    factor = (exact if lower else np.swapaxes(exact, -1, -2)).reshape(math.prod(front), n, n)
    problem = _problem("cholesky", factor, 0, dtype, target, options)
    radius, made = np.zeros(factor.shape), np.zeros(factor.shape)
    with np.errstate(all="ignore"):
        for block, rows, _ in cholesky_moves(n, problem.block) if factor.size else ():
            own = slice(*block)
            t = factor[:, own, own]
            held = _rounded(Ball(t, factor_radius(t, radius[:, own, own])), dtype)
            made[:, own, own] = held.radius
            if not rows:
                continue
            rest = slice(*rows)
            ones = np.broadcast_to(np.eye(t.shape[-1]), t.shape)
            back = Ball.exact(inverse(t))
            back = _rounded(Ball(back.centre, _solve_radius(held, back, 0 * ones)), dtype)
            below = factor[:, rest, own]
            panel = Ball(below @ np.swapaxes(t, -1, -2), radius[:, rest, own])
            panel = Ball(below, _product_radius(problem, panel, mirrored(back)))
            made[:, rest, own] = panel.radius
            over = _product_radius(problem, panel, mirrored(panel))
            corner = factor[:, rest, block[1]:]
            left = Ball(corner @ np.swapaxes(corner, -1, -2), radius[:, rest, rest] + over)
            radius[:, rest, rest] = _rounded(left, dtype).radius
    made = np.tril(made).reshape(*front, n, n)
    return Ball(exact, made if lower else np.swapaxes(made, -1, -2))


def tile_solve_bound(t: Floats, b: Floats, x: Floats, lower: bool, unit: bool, dtype: Format, target: Any,
                     options: tuple[Any, ...]) -> Ball:
    """Return exact solutions x of ``t @ x = b``, and radii of a `triangular_solve` call on a modelled machine."""
    front, (n, k) = t.shape[:-2], b.shape[-2:]
    batch = math.prod(front)
    problem = _problem("solve", t.reshape(batch, n, n), k, dtype, target, options)
    order = padded_order(n, problem.block) if problem.block else 0
    whole, sides, radius = np.zeros((batch, order, order)), np.zeros((batch, order, k)), np.zeros((batch, order, k))
    whole[:, range(order), range(order)] = 1
    with np.errstate(all="ignore"):
        own = 1.0 if unit else np.diagonal(t, axis1=-2, axis2=-1)[..., None]
        whole[:, :n, :n] = (t / own).reshape(batch, n, n)
        sides[:, :n] = x.reshape(batch, n, k)
        scaled = Ball.exact(whole) if unit else _rounded(Ball.exact(whole), dtype)
        held = np.zeros(sides.shape)
        held[:, :n] = 0.0 if unit else _rounded(Ball.exact((b / own).reshape(batch, n, k)), dtype).radius
        left = whole @ sides
        for block, rows, columns in solve_moves(0, order, problem.block, not lower) if t.size and b.size else ():
            if block:
                mine = slice(*block)
                corner = Ball(scaled.centre[:, mine, mine], scaled.radius[:, mine, mine])
                done = Ball(sides[:, mine], _solve_radius(corner, Ball.exact(sides[:, mine]), held[:, mine], lower))
                radius[:, mine] = _rounded(done, dtype).radius
            else:
                to, from_ = slice(*rows), slice(*columns)
                part = Ball(scaled.centre[:, to, from_], scaled.radius[:, to, from_])
                taken = _product_radius(problem, part, Ball(sides[:, from_], radius[:, from_]))
                left[:, to] = left[:, to] - part.centre @ sides[:, from_]
                held[:, to] = _rounded(Ball(left[:, to], held[:, to] + taken), dtype).radius
        found = radius[:, :n].reshape(*front, n, k)
        found = np.where(np.isfinite(found), found, np.inf)
    return Ball(np.where(np.isinf(found), 0.0, x), found)


def _problem(op: str, matrices: Floats, sides: int, dtype: Format, target: Any,
             options: tuple[Any, ...]) -> TileProblem:
    batch, n = matrices.shape[:2]
    params = FactorParams(op, (batch,), n, sides or n, (FactorLayout(dtype, n, n),))
    block, of_products = block_options(op, *options)
    return TileProblem.of(params, type_of(dtype), block, of_products, resolve_target(target))


def factor_radius(t: Floats, wrong: Floats) -> Floats:
    """Bound the errors of factors of blocks ``t t'`` that may already be wrong.

    ``A + E = L L'`` with ``|E[i, j]| <= g sqrt(a[i, i] a[j, j])`` gives ``(I + X)(I + X)' = I + F`` where
    ``F = L0^-1 E L0'^-1``: X is the lower triangle, half its diagonal, of ``F - X X'``.
    """
    n = t.shape[-1]
    g = gamma(n + 3, FP32.unit_roundoff)
    sizes = np.sqrt((t * t).sum(-1) + np.diagonal(wrong, axis1=-2, axis2=-1))
    tiny = TINY * (n + 2) * (1 + sizes.max(-1, initial=0)[..., None, None])
    wrong = np.tril(wrong) + np.swapaxes(np.tril(wrong, -1), -1, -2)
    wrong = wrong + g / (1 - g) * sizes[..., :, None] * sizes[..., None, :] + tiny
    back = np.abs(inverse(t))
    f = SLACK * back @ wrong @ np.swapaxes(back, -1, -2)
    half = np.tril(np.ones((n, n)), -1) + np.eye(n) / 2
    x = at_rest(np.zeros(f.shape), lambda x: half * (f + x @ np.swapaxes(x, -1, -2)))
    return _known(np.tril(SLACK * np.abs(t) @ x))


def _solve_radius(t: Ball, x: Ball, carried: Floats, lower: bool = True) -> Floats:
    """Bound the errors of solutions of triangles and right-hand sides that may already be wrong.

    ``(T + D) y = b + c`` with ``|D| <= r + g (|T| + r)`` gives ``|y - x| <= |T^-1| (|D| (|x| + |y - x|) + |c|)``.
    """
    n = t.centre.shape[-1]
    flipped = t.centre if lower else t.centre[..., ::-1, ::-1]
    back = np.abs(inverse(flipped))
    back = back if lower else back[..., ::-1, ::-1]
    moved = t.radius + gamma(n + 2, FP32.unit_roundoff) * (np.abs(t.centre) + t.radius)
    largest = np.abs(np.diagonal(t.centre, axis1=-2, axis2=-1)).max(-1, initial=0)[..., None, None]
    known = SLACK * back @ (moved @ np.abs(x.centre) + carried + TINY * (n + 1) * (1 + largest))
    grows = SLACK * back @ moved
    found = at_rest(known, lambda d: known + grows @ d)
    largest = 2 * (np.abs(t.centre) + t.radius) @ (np.abs(x.centre) + found) + carried  # sums on the way
    return _known(np.where(largest.max(-2, keepdims=True, initial=0) < FP32.max, found, np.inf))


def _product_radius(problem: TileProblem, a: Ball, b: Ball) -> Floats:
    """Bound the errors of a plan's products of operands that may already be wrong."""
    reach = np.abs(a.centre) + a.radius, np.abs(b.centre) + b.radius
    if not (np.isfinite(reach[0]).all() and np.isfinite(reach[1]).all()):
        return np.full((*a.centre.shape[:-1], b.centre.shape[-1]), np.inf)
    (_, m, k), n = reach[0].shape, reach[1].shape[-1]
    work = work_of(problem.product(m, k, n))
    moved = a.radius @ reach[1] + np.abs(a.centre) @ b.radius
    return _known(planned_ball(work, *reach).radius + SLACK * moved)


def _rounded(x: Ball, dtype: Format) -> Ball:
    """Results rounded; nothing is known of those that may overflow."""
    made = x.rounded(dtype)
    return Ball(x.centre, np.where(np.abs(x.centre) + made.radius < dtype.max, made.radius, np.inf))


def _known(radius: Floats) -> Floats:
    """Radii, infinite where none is known."""
    return np.where(np.isnan(radius), np.inf, radius)
