"""Factorisations in float64, plainly."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["cholesky", "inverse", "triangle", "triangular_solve"]

Floats = np.ndarray[Any, np.dtype[np.float64]]


def triangle(a: Any, lower: bool = True, unit_diagonal: bool = False) -> Floats:
    """Return the triangle of matrices in float64, zero elsewhere; with ones on the diagonal where that is asked for."""
    with np.errstate(invalid="ignore"):
        values = np.asarray(a, np.float64)
    n = values.shape[-1]
    kept = np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T
    made = np.where(kept, values, 0.0)
    return np.where(np.eye(n, dtype=bool), 1.0, made) if unit_diagonal else made


def cholesky(a: Any, *, lower: bool = True, out: Any = None, out_dtype: Any = None, target: Any = None) -> Floats:
    """Return the factors of the symmetric matrices that the triangles stand for."""
    half = triangle(a, lower)
    whole = half + np.swapaxes(half, -1, -2) * (1 - np.eye(half.shape[-1]))
    factor = np.linalg.cholesky(whole)
    return factor if lower else np.swapaxes(factor, -1, -2)


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
                     transpose: bool = False, out: Any = None, out_dtype: Any = None, target: Any = None) -> Floats:
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
