"""How wrong a sparse product of a modelled machine may be: its contract, repeated in balls around the exact result.

A sum meets the FP32 additions of its chains and of the reduction. Where partial sums are half, it is rounded to FP16
behind each block on a tile and once in the reduction; in the end to the result's format.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import FP16
from ..formats.bounds import Ball, matmul_ball, rounding_error, sum_ball
from ..formats.reference import values
from .matrix import BlockSparseMatrix

__all__ = ["modelled_ball"]


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
        events = 2 * blocks + 1
        magnitude = np.abs(stored) @ np.abs(columns)
        ball = sum_ball(ball.centre, magnitude, events, FP16, carried=ball.radius + events * rounding_error(0.0, FP16))
    if not np.isfinite(columns).all():
        ball = Ball(ball.centre, np.full(ball.centre.shape, np.inf))
    ball = ball.rounded(w.format)
    return ball.reshape(w.shape[0]) if dense.ndim == 1 else ball
