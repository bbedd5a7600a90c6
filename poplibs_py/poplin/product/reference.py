"""What a dense product computes, in float64: NumPy and the formats' own decoding, nothing of the library's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import Floats
from ...formats.reference import values


def as_matrices(a: Any, b: Any) -> tuple[Any, Any, tuple[int, ...]]:
    """Return operands with two axes at least, a vector as a row or as a column, and the axes that the result then has
    beside its own."""
    added = tuple(axis for axis, x in ((-2, a), (-1, b)) if x.ndim == 1)
    return (a[None, :] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b), added


def activate(x: Floats, activation: str | None) -> Floats:
    """Apply an activation: relu, gelu in its tanh form, or silu."""
    with np.errstate(all="ignore"):
        if activation == "relu":
            return np.where(x < 0, 0.0, x)
        if activation is None:
            return x
        z = x if activation == "silu" else 2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
        return np.where(z < -700, 0.0, x / (1 + np.exp(np.minimum(-z, 700))))


def matmul(a: Any, b: Any, **how: Any) -> Floats:
    """Return ``activation(alpha * a @ b + bias)``; arguments that say how it is computed are ignored."""
    return matmul_acc(None, a, b, **how, beta=0.0)


def matmul_acc(c: Any, a: Any, b: Any, *, alpha: float = 1.0, beta: float = 1.0, bias: Any = None,
               activation: str | None = None, **how: Any) -> Floats:
    """Return ``activation(alpha * a @ b + beta * c + bias)``; with a beta of zero, c is not read."""
    with np.errstate(all="ignore"):
        left, right, added = as_matrices(values(a), values(b))
        sums = alpha * (left @ right) + (beta * np.expand_dims(values(c), added) if beta else 0.0)
        return activate(sums if bias is None else sums + values(bias), activation).squeeze(added)
