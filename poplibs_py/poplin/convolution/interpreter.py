"""A plan's work done slowly and obviously in NumPy: what the compiled program must equal bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...formats import FP16, Format
from ...popops.cast import cast
from .work import TileWork

__all__ = ["fused_multiply_add", "interpret"]

Array = np.ndarray[Any, Any]


def fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    """Return x * y + z for FP32 arrays, rounded once to nearest even.

    The product is exact in float64. Their sum is rounded to odd there, so that rounding it again to FP32 gives what one
    rounding would (Boldo and Melquiond, IEEE Transactions on Computers 57(4), 2008).
    """
    with np.errstate(all="ignore"):
        product = x.astype(np.float64) * y.astype(np.float64)
        addend = z.astype(np.float64)
        total = product + addend
        part = total - product
        error = (product - (total - part)) + (addend - part)
        even = (total.view(np.int64) & 1) == 0
        away = np.where((error > 0) == (total > 0), 1, -1)
        odd = np.where(np.isfinite(total) & (error != 0) & even, total.view(np.int64) + away, total.view(np.int64))
        return odd.view(np.float64).astype(np.float32)


def _rounded(sums: Array, f: Format) -> Array:
    if f != FP16:
        return sums
    with np.errstate(over="ignore"):
        half: Array = sums.astype(np.float16).astype(np.float32)
    return half


def interpret(work: TileWork, a: Array, b: Array, seed: int | None = None, bias: Array | None = None,
              activate: Callable[[Array], Array] | None = None) -> Array:
    """Return the result, one piece of work, one reduction stage, one turn after another.

    Parameters
    ----------
    work : TileWork
        What the tiles do.
    a, b : numpy.ndarray of float32, [g, m, k] and [g, k, n]
        The operands' values.
    seed : int, optional
        Of the stochastic rounding of what tiles exchange, and of the result.
    bias : numpy.ndarray of float32, optional
        Values of the result's format, broadcast to [g, m, n].
    activate : callable, optional
        The activation, of FP32 arrays.
    """
    sums, rounds = _sums(work, a, b, seed)
    out = work.out

    def rounded(sums: Array, draw: int) -> Array:
        if seed is None or out != FP16:
            return _rounded(sums, out)
        round_at_random(sums, seed, draw)
        return sums

    sums = rounded(sums, 0)
    with np.errstate(all="ignore"):
        if bias is not None:
            sums = rounded(sums + bias, rounds + 1)
        if activate is not None:
            sums = rounded(activate(sums), rounds + 2)
        return sums.astype(out.dtype)


def _sums(work: TileWork, a: Array, b: Array, seed: int | None) -> tuple[Array, int]:
    """The reduced sums, and how many stochastic roundings there have been."""
    shape = work.shapes["out"]
    reduced = np.zeros(shape, np.float32)
    rounds = 0
    for turn in range(work.turns):
        if turn == 0 or work.depth_turns > 1:
            partials = np.zeros((work.parts, *shape), np.float32)
        for piece in work.of_turn(turn):
            _multiply(work, piece, a, b, partials, seed)
        if work.depth_turns == 1 and turn < work.turns - 1:
            continue
        if work.direct:
            return partials[0], 0
        rounds = _reduce(work, partials, reduced, turn > 0 and work.depth_turns > 1, seed, rounds)
    return reduced, rounds


def round_at_random(sums: Array, seed: int, draw: int) -> None:
    """Round FP32 sums in place to FP16 values, with random bits of their own for each `draw`."""
    sums[...] = cast(sums, FP16, rounding="stochastic", seed=(seed + draw) % 2**64).astype(np.float32)


def _multiply(work: TileWork, piece: Any, a: Array, b: Array, partials: Array, seed: int | None) -> None:
    group, row, rows, col, cols = (int(piece[name]) for name in ("group", "row", "rows", "col", "cols"))
    first, depth = int(piece["from_depth"]), int(piece["depth"])
    sums = np.zeros((rows, cols), np.float32)
    for at in range(depth):
        x = a[group, row : row + rows, first + at, None]
        sums = fused_multiply_add(x, b[group, None, first + at, col : col + cols], sums)
        if (at + 1) % work.chunk == 0 or at == depth - 1:
            sums = _rounded(sums, work.partial)
    if seed is None:
        sums = _rounded(sums, work.between)
    partials[int(piece["part"]), group, row : row + rows, col : col + cols] = sums


def _reduce(work: TileWork, partials: Array, reduced: Array, accumulate: bool, seed: int | None, rounds: int) -> int:
    """Add the partials up in the plan's stages; return how many stochastic roundings there have been."""

    def travelling(sums: Array) -> Array:
        nonlocal rounds
        if seed is None or work.between != FP16:
            return _rounded(sums, work.between)
        rounds += 1
        round_at_random(sums, seed, rounds)
        return sums

    if seed is not None:
        partials = travelling(partials)
    stages = work.stages or (1,)
    with np.errstate(all="ignore"):
        for i, fan_in in enumerate(stages):
            runs = [partials[j : j + fan_in] for j in range(0, len(partials), fan_in)]
            sums = np.stack([_added(run) for run in runs])
            if i == len(stages) - 1 and accumulate:
                sums = reduced + (_rounded(sums, work.between) if seed is None else sums)
            partials = travelling(sums)
    reduced[...] = partials[0]
    return rounds


def _added(partials: Array) -> Array:
    total = partials[0]
    for part in partials[1:]:
        total = total + part
    return np.asarray(total)
