"""Which way is the faster for a batch, as measured: kernels for small matrices, LAPACK for few large ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...formats import Array
from ...kernels.registry import Kernel, Selection, select
from ...program import rounded, shares_of, threads_for
from .params import FactorParams

LANES = 16
"""Matrices side by side, or numbers of right-hand sides, at the level with the widest vectors."""

WORK_FOR_A_THREAD = 1 << 19
"""Multiplications and additions below which a second thread costs more than it gains."""

_LARGEST = {"cholesky": 96, "solve": 96, "lu": 64, "qr": 64}
"""The greatest order whose workspace the second-level cache holds; LU: whose rows have a bit each in a word."""

_AREA = {"cholesky": 4608, "solve": 1024, "lu": 4096, "qr": 1024}
"""Elements of a matrix, a matrix of the batch each, up to which lanes that are empty cost less than calls of LAPACK."""

_LARGEST_BY_ROWS = 256
"""The greatest order of systems whose right-hand sides fill vectors: beyond it LAPACK's products are as fast."""

_SMALL_LU = 20
"""The greatest order of matrices whose LU factors are made side by side, unless rows and columns are whole vectors."""

_BLOCK, _PANEL = 4, 16  # rows that registers hold, and right-hand sides of a panel: kernels/factor/solve.h
_EIGHT, _IN_TURN = 8, 16384  # rows of a vector, and bytes of the matrices in turn: kernels/factor/lu.h
_ALIGNED = 16  # floats of a cache line, at which a workspace begins


@dataclass(frozen=True)
class Way:
    """How kernels take a batch. What runs, its workspace and its explanation follow from it.

    Attributes
    ----------
    selection : Selection
        The kernel. Its block has as many matrices as lie side by side, or one, and right-hand sides at a time.
    parts : int
        Threads that share the right-hand sides of a matrix, or of as many as lie side by side.
    threads : int
    """

    selection: Selection
    parts: int
    threads: int

    @property
    def kernel(self) -> Kernel:
        """The kernel that was selected."""
        return self.selection.kernel

    def shares(self, p: FactorParams) -> tuple[Array, Array, Array, Array]:
        """Return the first matrix of each share and how many it has, and the same of columns or right-hand sides."""
        beside, sides, _ = self.kernel.block
        runs = self.threads // self.parts
        first, count = (np.repeat(x, self.parts) for x in _dealt(p.batch, beside, runs))
        side, width = (np.tile(x, runs) for x in _dealt(p.columns, sides, self.parts))
        return first, count, side, width

    def scratch_bytes(self, p: FactorParams) -> int:
        """Return the bytes of a share's workspace, as the kernels lay it out."""
        (_, vector, _), (lanes, sides, _) = self.kernel.grain, self.kernel.block
        if p.op == "lu" and lanes == 1:
            rows, row = rounded(p.rows, _EIGHT), 1 << (max(p.columns, _EIGHT) - 1).bit_length()
            return max(_IN_TURN, 4 * ((rows + 1) * row + _EIGHT * rows)) + 4 * _ALIGNED
        if lanes == 1:
            return 4 * (rounded(p.rows, vector) * (sides + p.rows + 2) + _ALIGNED)
        padded, area = rounded(p.rows, _BLOCK), p.rows * p.columns
        square = padded * (padded + 1)
        vectors, places = {
            "cholesky": (square + padded, 2 * p.rows**2),
            "solve": (square + padded * (_PANEL + 3), padded + p.rows**2 + 4 * p.rows * _PANEL),
            "lu": (p.rows + 1 + max(p.rows, _EIGHT) * (max(p.columns, _EIGHT) + 1), 3 * area + p.rows),
            "qr": (p.rows * ((p.columns | 1) + (p.width | 1)) + 2 * p.columns + p.rows,
                   2 * area + p.rows * (p.width + p.rows)),
        }[p.op]
        return 4 * ((vectors + 1) * lanes + places + 5 * _ALIGNED)


def _dealt(units: int, each: int, shares: int) -> tuple[Array, Array]:
    """Return each share's first unit and how many it has, dealt out in groups of `each`."""
    first, groups = shares_of(-(-units // each), shares)
    return first * each, np.minimum((first + groups) * each, units) - first * each


def suits_kernels(p: FactorParams) -> bool:
    """Return whether kernels take the batch, at every level alike."""
    order = max(p.rows, p.columns if p.op in ("lu", "qr") else 0, p.width)
    if p.op == "solve" and 2 * p.columns > LANES and order <= _LARGEST_BY_ROWS:
        return True
    if order > _LARGEST[p.op] or not p.batch:
        return not p.batch
    return p.batch * _AREA[p.op] >= order * order


def work(p: FactorParams) -> int:
    """Return about how many multiplications and additions there are."""
    each = {"cholesky": p.rows**3 // 3, "solve": p.rows**2 * p.columns,
            "lu": p.rows * p.columns * min(p.rows, p.columns), "qr": 3 * p.rows * p.columns * max(p.width, 1)}[p.op]
    return p.batch * (each + 4 * p.rows * p.columns)


def _is_small(p: FactorParams) -> bool:
    """Return whether matrices have LU factors side by side: those that fill vectors only up to one."""
    order = max(p.rows, p.columns)
    return order <= (_SMALL_LU if p.rows % _EIGHT or p.columns % _EIGHT else _EIGHT)


def way_of(p: FactorParams, most: int) -> Way:
    """Return how kernels take a batch on at most so many threads.

    Systems are solved one after another where right-hand sides fill more than half of a vector, and LU factors of
    larger matrices are made so.
    """
    def cost(kernel: Kernel) -> float:
        alone, lanes = kernel.block[0] == 1, max(kernel.block[0], kernel.grain[1])
        return (1.0 + (alone != (2 * p.columns > lanes))) / lanes

    op = "small_lu" if p.op == "lu" and _is_small(p) else p.op
    selection = select("factor", op, p.formats, cost=cost if p.op == "solve" else None)
    beside, sides, _ = selection.kernel.block
    groups, parts = -(-p.batch // beside), 1
    threads = threads_for(work(p), WORK_FOR_A_THREAD, most)
    if p.op == "solve" and beside == 1 and 0 < groups < threads:
        parts = min(threads // groups, -(-p.columns // sides))
    return Way(selection, parts, max(1, min(threads, groups)) if parts == 1 else groups * parts)
