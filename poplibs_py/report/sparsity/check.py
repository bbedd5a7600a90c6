"""Checks a result against float64, on a sample of it, within the bound that the operation's contract gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...formats import Array, Format
from ...formats.bounds import Ball, matmul_ball
from ...poplin.product.bound import matmul_bound
from ...popsparse import BlockSparseMatrix
from ...program import rounded

_SAMPLE = 16
"""Rows of a product, or blocks of a weight gradient, that are checked."""


@dataclass(frozen=True)
class Check:
    """A sample of the exact result and how far a right answer may lie from it.

    Attributes
    ----------
    where : array of int
        Rows of the result (of its blocks, for a weight gradient) that were sampled.
    ball : Ball
        Exact values and radii there.
    """

    where: Array
    ball: Ball

    def judge(self, result: Array, rounded_to: Format | None = None) -> tuple[float, float]:
        """Return the largest absolute error and the largest share of the bound; 1 or less is right.

        Parameters
        ----------
        result : array
            The whole result.
        rounded_to : Format, optional
            The format that the result was rounded to, if narrower than the float32 of the sums.
        """
        ball = self.ball if rounded_to is None else self.ball.rounded(rounded_to)
        if result.shape[0] <= int(self.where.max(initial=-1)) or result.shape[1:] != ball.shape[1:]:
            return float("inf"), float("inf")
        got = result[self.where].astype(np.float64)
        if not got.size:
            return 0.0, 0.0
        error = np.abs(got - ball.centre)
        share = np.divide(error, ball.radius, out=np.where(error == 0, 0.0, np.inf), where=ball.radius > 0)
        share = np.where(np.isfinite(got), share, np.inf)
        return float(error.max()), float(share.max())


def dense_check(w: Array, x: Array) -> Check:
    """Check ``w @ x`` of dense operands within the bound that `poplibs_py.poplin` states, before any last rounding."""
    rows = _sample(w.shape[0])
    return Check(rows, matmul_bound(w[rows], x, out_dtype="float32"))


def forward_check(w: BlockSparseMatrix, x: Array, *, flushes: bool) -> Check:
    """Check ``w @ x``; only rows of x that meet a non-zero of the rows that are sampled are terms."""
    rows = _sample(w.shape[0])
    dense = _dense_rows(w, rows)
    used = np.flatnonzero(dense.any(axis=0))
    if not used.size:
        return Check(rows, Ball(np.zeros((len(rows), x.shape[1])), np.zeros(())))
    return Check(rows, matmul_ball(dense[:, used], x[used].astype(np.float64), flushes=flushes))


def grad_a_check(w: BlockSparseMatrix, dy: Array, *, flushes: bool) -> Check:
    """Check ``w.T @ dy``."""
    return forward_check(w.T.copy(), dy, flushes=flushes)


def grad_w_check(w: BlockSparseMatrix, dy: Array, x: Array, *, flushes: bool) -> Check:
    """Check ``dy @ x.T`` at the blocks of w; the result is the array of blocks."""
    chosen = _sample(w.n_blocks)
    rows, columns = w.block_shape
    row = np.searchsorted(w.row_offsets, chosen, side="right") - 1
    left = np.stack([_block_of(dy, r, rows) for r in row])
    right = np.stack([_block_of(x, c, columns) for c in w.column_indices[chosen]])
    return Check(chosen, matmul_ball(left, right.swapaxes(1, 2), flushes=flushes))


def _sample(count: int) -> Array:
    """Places spread over the whole, the first and the last among them."""
    return np.unique(np.linspace(0, max(0, count - 1), min(count, _SAMPLE)).astype(np.int64))


def _block_of(array: Array, index: int, side: int) -> Array:
    """One block of rows in float64, padded with zeros where the array ends."""
    part = array[index * side:(index + 1) * side].astype(np.float64)
    return np.pad(part, ((0, side - part.shape[0]), (0, 0)))


def _dense_rows(w: BlockSparseMatrix, rows: Array) -> Array:
    """Some rows in float64, the blocks' scale applied."""
    height, width = w.block_shape
    dense = np.zeros((len(rows), rounded(w.shape[1], width)))
    for place, row in enumerate(rows):
        blocks = slice(w.row_offsets[row // height], w.row_offsets[row // height + 1])
        at = w.column_indices[blocks, None].astype(np.int64) * width + np.arange(width)
        scale = w.scale if isinstance(w.scale, int) else w.scale[blocks, None]
        values = w.blocks[blocks, row % height].astype(np.float64) * np.exp2(np.float64(scale))
        dense[place, at.ravel()] = values.ravel()
    return dense[:, :w.shape[1]]
