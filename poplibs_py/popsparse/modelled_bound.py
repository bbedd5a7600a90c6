"""How wrong a sparse product of a modelled machine may be: its contract, repeated in balls around the exact result.

A sum meets the FP32 additions of its chains and of the reduction. Where partial sums are half, it is rounded to FP16
behind each block on a tile and once in the reduction; in the end to the result's format. A sampled product's sum is one
chain, which is rounded behind each part of the depth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import FP16, Format
from ..formats.bounds import Ball, matmul_ball, rounding_error, sum_ball
from ..formats.reference import values
from .matrix import BlockSparseMatrix
from .reference import sampled


def at_blocks(ball: Ball, w: BlockSparseMatrix) -> Ball:
    """Return the stored blocks of balls of shape (groups, m, k)."""
    p = w.pattern
    parts = (part.swapaxes(1, 2) if w.is_transposed else part for part in (ball.centre, ball.radius))
    return Ball(*(sampled(part, p.block_shape, p.row_offsets, p.column_indices) for part in parts))


def modelled_ball(w: BlockSparseMatrix, x: Any, partials_type: str, side: int) -> Ball:
    """Return exact results and radii of ``W X`` on a modelled machine.

    Nothing is promised where X is not finite.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (m, k)
    x : array_like, shape (k, n) or (k,)
    partials_type : str
        ``"half"`` or ``"float"``.
    side : int
        Of the blocks that tiles multiply: it divides that of the matrix.
    """
    dense = values(x)
    columns = dense[:, None] if dense.ndim == 1 else dense
    pattern = w.pattern.transposed()[0] if w.is_transposed else w.pattern
    blocks = int(np.diff(pattern.row_offsets).max(initial=0)) * (pattern.block_shape[0] // side)
    with np.errstate(invalid="ignore"):
        stored = w.to_dense(np.float64)
    ball = matmul_ball(stored, columns, terms=side * blocks + blocks)
    if partials_type == "half":
        ball = _rounded_often(ball, stored, columns, 2 * blocks + 1)
    if not np.isfinite(columns).all():
        ball = Ball(ball.centre, np.full(ball.centre.shape, np.inf))
    ball = ball.rounded(w.format)
    return ball.reshape(w.shape[0]) if dense.ndim == 1 else ball


def sampled_ball(left: Any, right: Any, partials_type: str, parts: int, to: Format) -> Ball:
    """Return exact results and radii of ``L R'``, each whole, on a modelled machine.

    Nothing is promised where an operand is not finite.

    Parameters
    ----------
    left, right : array_like, shape (..., m, n), (..., k, n)
    partials_type : str
        ``"half"`` or ``"float"``.
    parts : int
        The most parts of the depth.
    to : Format
        Of the result.
    """
    one, other = values(left), np.swapaxes(values(right), -1, -2)
    ball = matmul_ball(one, other, terms=one.shape[-1])
    if partials_type == "half":
        ball = _rounded_often(ball, one, other, parts)
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        ball = Ball(ball.centre, np.full(ball.centre.shape, np.inf))
    return ball.rounded(to)


def _rounded_often(ball: Ball, left: Any, right: Any, events: int) -> Ball:
    """Return the ball of sums that are rounded to FP16 so many times on their way."""
    magnitude = np.abs(left) @ np.abs(right)
    return sum_ball(ball.centre, magnitude, events, FP16, carried=ball.radius + events * rounding_error(0.0, FP16))
