"""Which way is the faster for a batch, as measured: kernels for small matrices, LAPACK for few large ones."""

from __future__ import annotations

from ...program import threads_for
from .params import FactorParams

LANES = 16
"""Matrices that a workspace has room for, at the level with the widest vectors."""

WORK_FOR_A_THREAD = 1 << 19
"""Multiplications and additions below which a second thread costs more than it gains."""

_LARGEST = {"cholesky": 96, "solve": 96, "lu": 64, "qr": 64}
"""The greatest order whose workspace the second-level cache holds."""

_AREA = {"cholesky": 4608, "solve": 1024, "lu": 2048, "qr": 1024}
"""Elements of a matrix, a matrix of the batch each, up to which lanes that are empty cost less than calls of LAPACK."""


_LARGEST_BY_ROWS = 256
"""The greatest order of systems whose right-hand sides fill vectors: beyond it LAPACK's products are as fast."""


def by_rows(p: FactorParams) -> bool:
    """Return whether right-hand sides fill vectors at every level, so that systems are solved one after another."""
    return p.op == "solve" and 2 * p.columns > LANES


def grain(p: FactorParams) -> int:
    """Return how many matrices a thread takes at least: as many as lie side by side."""
    return 1 if by_rows(p) else LANES


def suits_kernels(p: FactorParams) -> bool:
    """Return whether kernels take the batch."""
    order = max(p.rows, p.columns if p.op in ("lu", "qr") else 0, p.width)
    if by_rows(p) and order <= _LARGEST_BY_ROWS:
        return True
    if order > _LARGEST[p.op] or not p.batch:
        return not p.batch
    return p.batch * _AREA[p.op] >= order * order


def work(p: FactorParams) -> int:
    """Return about how many multiplications and additions there are."""
    each = {"cholesky": p.rows**3 // 3, "solve": p.rows**2 * p.columns,
            "lu": p.rows * p.columns * min(p.rows, p.columns), "qr": 3 * p.rows * p.columns * max(p.width, 1)}[p.op]
    return p.batch * (each + 4 * p.rows * p.columns)


def threads_of(p: FactorParams, most: int) -> int:
    """Return how many threads a batch is worth."""
    return min(threads_for(work(p), WORK_FOR_A_THREAD, most), max(1, -(-p.batch // grain(p))))
