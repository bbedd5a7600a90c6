"""Checks a result against float64, on a sample of it, within the bound that the operation's contract gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...formats import Format
from ...formats.bounds import Ball, matmul_ball
from ...poplin.matmul.bound import matmul_bound
from ...popsparse import BlockSparseMatrix

__all__ = ["Check", "dense_check", "forward_check", "grad_a_check", "grad_w_check"]

Array = np.ndarray[Any, Any]

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
    """Check ``w @ x``."""
    rows = _sample(w.shape[0])
    return Check(rows, _product_ball(_dense_rows(w, rows), x, flushes=flushes))


def grad_a_check(w: BlockSparseMatrix, dy: Array, *, flushes: bool) -> Check:
    """Check ``w.T @ dy``."""
    columns = _sample(w.shape[1])
    return Check(columns, _product_ball(_dense_columns(w, columns), dy, flushes=flushes))


def grad_w_check(w: BlockSparseMatrix, dy: Array, x: Array, *, flushes: bool) -> Check:
    """Check ``dy @ x.T`` at the blocks of w; the result is the array of blocks."""
    chosen = _sample(w.n_blocks)
    rows, columns = w.block_shape
    row = np.searchsorted(w.row_offsets, chosen, side="right") - 1
    left = np.stack([_block_of(dy, r, rows) for r in row])
    right = np.stack([_block_of(x, c, columns) for c in w.column_indices[chosen]])
    return Check(chosen, matmul_ball(left, right.swapaxes(1, 2), flushes=flushes))


def _product_ball(w_rows: Array, x: Array, *, flushes: bool) -> Ball:
    """The ball of some rows' product; only rows of x that meet a non-zero are terms."""
    used = np.flatnonzero(w_rows.any(axis=0))
    if not used.size:
        return Ball(np.zeros((len(w_rows), x.shape[1])), np.zeros(()))
    return matmul_ball(w_rows[:, used], x[used].astype(np.float64), flushes=flushes)


def _sample(count: int) -> Array:
    """Places spread over the whole, the first and the last among them."""
    return np.unique(np.linspace(0, max(0, count - 1), min(count, _SAMPLE)).astype(np.int64))


def _block_of(array: Array, index: int, side: int) -> Array:
    """One block of rows in float64, padded with zeros where the array ends."""
    part = array[index * side:(index + 1) * side].astype(np.float64)
    return np.pad(part, ((0, side - part.shape[0]), (0, 0)))


def _values(w: BlockSparseMatrix, chosen: Array | slice) -> Array:
    """Some blocks' values in float64, their scale applied."""
    scale = w.scale if isinstance(w.scale, int) else w.scale[chosen, None, None]
    values: Array = w.blocks[chosen].astype(np.float64) * np.exp2(np.float64(scale))
    return values


def _dense_rows(w: BlockSparseMatrix, rows: Array) -> Array:
    height, width = w.block_shape
    dense = np.zeros((len(rows), -(-w.shape[1] // width) * width))
    for place, row in enumerate(rows):
        blocks = slice(w.row_offsets[row // height], w.row_offsets[row // height + 1])
        at = w.column_indices[blocks, None].astype(np.int64) * width + np.arange(width)
        dense[place, at.ravel()] = _values(w, blocks)[:, row % height].ravel()
    return dense[:, :w.shape[1]]


def _dense_columns(w: BlockSparseMatrix, columns: Array) -> Array:
    height, width = w.block_shape
    dense = np.zeros((len(columns), -(-w.shape[0] // height) * height))
    block_rows = np.repeat(np.arange(len(w.row_offsets) - 1), np.diff(w.row_offsets))
    for place, column in enumerate(columns):
        chosen = np.flatnonzero(w.column_indices == column // width)
        at = block_rows[chosen, None] * height + np.arange(height)
        dense[place, at.ravel()] = _values(w, chosen)[:, :, column % width].ravel()
    return dense[:, :w.shape[0]]
