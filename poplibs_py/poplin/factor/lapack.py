"""Large matrices by LAPACK, in FP32, one after another. SciPy is imported when the first is factored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from ...formats import Array
from ...program import temporary
from .params import FactorLayout, FactorParams


def _views(p: FactorParams, arrays: tuple[Array, ...]) -> Iterator[Any]:
    """For each matrix of the batch, its operands as they lie in memory: lines by elements."""
    flat = [_lines(arrays[o.operand], o, p.batch) for o in p.operands]
    return zip(*flat, strict=True)


def _lines(array: Array, lies: FactorLayout, batch: int) -> Array:
    array = array if array.flags.c_contiguous else array.swapaxes(-1, -2)
    codes = array.reshape(-1).view(np.uint8)[:batch * lies.matrix]
    return codes.view(np.dtype(lies.format.dtype)).reshape(batch, lies.rows, lies.columns)


def _work(lines: Array, transposed: bool) -> Array:
    """A matrix, or its transpose, in C order, in FP32, in memory of its own."""
    numbers = temporary(lines.shape[::-1] if transposed else lines.shape, np.dtype(np.float32))
    numbers[...] = lines.T if transposed else lines
    return numbers


def _write(to: Array, lies: FactorLayout, numbers: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        to[...] = numbers.T if lies.transposed else numbers


def _cholesky(p: FactorParams, *arrays: Array) -> None:
    from scipy.linalg.lapack import spotrf

    *given, failed = arrays
    for i, (a, out) in enumerate(_views(p, tuple(given))):
        work = _work(a, p.operands[0].transposed)
        # LAPACK sees the transpose of what is in C order
        found, failed[i] = spotrf(work.T, lower=p.upper, clean=1, overwrite_a=1)[:2]
        failed[i] = bool(failed[i]) or not np.isfinite(found.diagonal()).all()
        _write(out, p.operands[1], found.T)


def _solve(p: FactorParams, *arrays: Array) -> None:
    from scipy.linalg.blas import strsm

    *given, failed = arrays
    for i, (a, b, out) in enumerate(_views(p, tuple(given))):
        t, x = (_work(lines, lies.transposed) for lines, lies in zip((a, b), p.operands, strict=False))
        failed[i] = not p.unit and not t.diagonal().all()
        if not failed[i]:  # X' T' = B'
            x = strsm(1.0, t.T, x.T, side=1, lower=p.upper, diag=p.unit, overwrite_b=1).T
        _write(out, p.operands[2], x)


def _lu(p: FactorParams, *arrays: Array) -> None:
    from scipy.linalg.lapack import sgetrf

    steps = min(p.rows, p.columns)
    below = np.tri(p.rows, p.columns, -1, bool)
    for a, lower, upper, rows in _views(p, arrays):
        # LAPACK takes columns one behind another
        found, pivots, _ = sgetrf(_work(a, not p.operands[0].transposed).T, overwrite_a=1)
        found, order = _work(found, False), list(range(p.rows))
        for k, pivot in enumerate(pivots.tolist()):
            order[k], order[pivot] = order[pivot], order[k]
        rest = np.argsort(order[steps:])  # rows that are no pivot follow in their order
        order[steps:], found[steps:] = sorted(order[steps:]), found[steps:][rest]
        lower[...], upper[...] = 0, 0
        with np.errstate(over="ignore", invalid="ignore"):
            np.copyto(lower, found[:, :steps], "unsafe", where=below[:, :steps])
            np.copyto(upper, found[:steps], "unsafe", where=~below[:steps])
        np.fill_diagonal(lower, 1)
        rows.view(np.int32)[...] = order


def _qr(p: FactorParams, *arrays: Array) -> None:
    from scipy.linalg import qr

    mode: Literal["economic", "full"] = "economic" if p.width == min(p.rows, p.columns) else "full"
    for a, q, r in _views(p, arrays):
        found = qr(_work(a, p.operands[0].transposed), mode=mode, overwrite_a=True, check_finite=False)
        _write(q, p.operands[1], found[0])
        _write(r, p.operands[2], found[1])


ROUTINES: dict[str, Callable[..., None]] = {
    "cholesky": _cholesky, "solve": _solve, "lu": _lu, "qr": _qr}
"""What makes the program of an op for the matrices that LAPACK factors."""
