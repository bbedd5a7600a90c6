"""Factorisations in float64, plainly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...formats import Floats


def triangle(a: Any, lower: bool = True, unit_diagonal: bool = False) -> Floats:
    """Return the triangle of matrices in float64, zero elsewhere; with ones on the diagonal where that is asked for."""
    with np.errstate(invalid="ignore"):
        values = np.asarray(a, np.float64)
    n = values.shape[-1]
    kept = np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T
    made = np.where(kept, values, 0.0)
    return np.where(np.eye(n, dtype=bool), 1.0, made) if unit_diagonal else made


def cholesky(a: Any, *, lower: bool = True, out: Any = None, out_dtype: Any = None, target: Any = None,
             options: Any = None, block_size: Any = None, available_memory_proportion: Any = None,
             strict_memory: Any = False) -> Floats:
    """Return the factors of the symmetric matrices that the triangles stand for."""
    half = triangle(a, lower)
    whole = half + np.swapaxes(half, -1, -2) * (1 - np.eye(half.shape[-1]))
    factor = np.linalg.cholesky(whole)
    return np.asarray(factor if lower else np.swapaxes(factor, -1, -2), np.float64)


def inverse(t: Any) -> Floats:
    """Return the inverses of lower triangles, by substitution."""
    values = np.asarray(t, np.float64)
    n = values.shape[-1]
    made = np.zeros(values.shape)
    for i in range(n):
        row = np.einsum("...j,...jk->...k", values[..., i, :i], made[..., :i, :])
        made[..., i, :] = ((np.arange(n) == i) - row) / values[..., i, i, None]
    return made


def triangular_solve(a: Any, b: Any, *, left_side: bool = True, lower: bool = True, unit_diagonal: bool = False,
                     transpose: bool = False, out: Any = None, out_dtype: Any = None, target: Any = None,
                     options: Any = None, block_size: Any = None,
                     available_memory_proportion: Any = None, strict_memory: Any = False) -> Floats:
    """Return the solutions, by substitution."""
    t = triangle(a, lower, unit_diagonal)
    x = np.array(b, np.float64)
    if not left_side:
        x = np.swapaxes(x, -1, -2)
    if transpose == left_side:
        t, lower = np.swapaxes(t, -1, -2), not lower
    n = t.shape[-1]
    made = np.zeros(x.shape)
    for i in range(n) if lower else reversed(range(n)):
        done = np.einsum("...j,...jk->...k", t[..., i, :], made)
        made[..., i, :] = (x[..., i, :] - done) / t[..., i, i, None]
    return made if left_side else np.swapaxes(made, -1, -2)


def lu(a: Floats, margin: float = 0.0) -> tuple[Any, Floats, Floats, Any]:
    """Return the rows' order, the factors, and whether each pivot was greater than the next candidate by a margin."""
    m, n = a.shape[-2:]
    k, front = min(m, n), a.shape[:-2]
    work = a.reshape(math.prod(front), m, n).copy()
    every, order = np.arange(len(work)), np.tile(np.arange(m), (len(work), 1))
    clear, most = np.ones(len(work), bool), np.abs(work).max((1, 2), initial=0)
    for j in range(k):
        sizes = np.abs(work[:, j:, j])
        pivot = j + sizes.argmax(1)
        ranked = np.sort(sizes, axis=1)
        if m - j > 1:
            clear &= ranked[:, -1] - ranked[:, -2] > margin * most
        clear &= ranked[:, -1] > margin * most
        for rows in (work, order):
            rows[every, j], rows[every, pivot] = rows[every, pivot].copy(), rows[every, j].copy()
        with np.errstate(all="ignore"):
            work[:, j + 1:, j] = np.where(work[:, j, j, None] == 0, 0.0, work[:, j + 1:, j] / work[:, j, j, None])
        work[:, j + 1:, j + 1:] -= work[:, j + 1:, j, None] * work[:, j, None, j + 1:]
    rest = np.argsort(order[:, k:], axis=1)[..., None]
    work[:, k:] = np.take_along_axis(work[:, k:], rest, 1)
    order[:, k:].sort(axis=1)
    lower = np.tril(work[:, :, :k], -1) + np.eye(m, k)
    upper = np.triu(work[:, :k])
    return (order.reshape(*front, m), lower.reshape(*front, m, k), upper.reshape(*front, k, n), clear.reshape(front))


def qr(a: Floats, mode: str = "reduced", margin: float = 0.0) -> tuple[Floats, Floats, Any]:
    """Return the factors by reflections, and whether no sign of one hangs on less than a margin of its column."""
    m, n = a.shape[-2:]
    k, front = min(m, n), a.shape[:-2]
    r = a.reshape(math.prod(front), m, n).copy()
    q = np.tile(np.eye(m), (len(r), 1, 1))
    clear = np.ones(len(r), bool)
    lengths = np.sqrt((r * r).sum(1))
    for j in range(k):
        below = (r[:, j + 1:, j] ** 2).sum(1)
        head = r[:, j, j].copy()
        moves = below > 0
        clear &= (np.minimum(np.abs(head), np.sqrt(below)) > margin * lengths[:, j]) | (j == m - 1)
        made = np.where(moves, -np.copysign(np.sqrt(head * head + below), head), head)
        v = r[:, j:, j].copy()
        v[:, 0] -= made
        v *= moves[:, None]
        scale = 2 / np.where(moves, (v * v).sum(1), 1)
        r[:, j:] -= scale[:, None, None] * v[:, :, None] * np.einsum("bi,bij->bj", v, r[:, j:])[:, None]
        q[:, :, j:] -= scale[:, None, None] * np.einsum("bij,bj->bi", q[:, :, j:], v)[:, :, None] * v[:, None]
    r = np.triu(r)
    if mode == "reduced":
        q, r = q[:, :, :k], r[:, :k]
    return q.reshape(*front, m, q.shape[2]), r.reshape(*front, r.shape[1], n), clear.reshape(front)
