"""How wrong rows of a sparse matrix by index may be, read or added to."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats.bounds import Ball, sum_ball
from ..formats.reference import values
from .matrix import BlockSparseMatrix
from .modelled_bound import at_blocks
from .spmm.bound import out_format_of


def embedding_slice_bound(w: BlockSparseMatrix, indices: Any, *, out: Any = None, out_dtype: object = None,
                          **where: object) -> Ball:
    """Return exact results and radii of an `embedding_slice` call."""
    with np.errstate(invalid="ignore"):
        rows = w.to_dense(np.float64)[np.asarray(indices, np.int64)]
    return Ball.exact(rows).rounded(out_format_of(out, out_dtype, w.format))


def embedding_update_add_bound(w: BlockSparseMatrix, slices: Any, indices: Any, scale: float = 1.0, *,
                               out: Any = None, **where: object) -> Ball:
    """Return exact results and radii of an `embedding_update_add` call of finite numbers, shaped like the blocks."""
    columns, factor = w.shape[1], np.float64(np.float32(scale))
    at = np.asarray(indices, np.int64).ravel()
    added = factor * values(slices).reshape(-1, columns)
    exact, magnitude = w.to_dense(np.float64), np.abs(w.to_dense(np.float64))
    np.add.at(exact, at, added)
    np.add.at(magnitude, at, np.abs(added))
    terms = np.bincount(at, minlength=w.shape[0])[:, None] + 1
    ball = sum_ball(exact, magnitude, np.broadcast_to(terms, exact.shape))
    stored = at_blocks(ball.reshape(1, *ball.shape), w)
    unit = np.exp2(np.broadcast_to(np.asarray(w.scale, np.float64).reshape(-1, 1, 1), stored.shape))
    scaled = Ball(stored.centre / unit, stored.radius / unit).rounded(w.format)
    return Ball(scaled.centre * unit, scaled.radius * unit)
