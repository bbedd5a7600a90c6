"""How wrong a result of a modelled machine may be: its contract, repeated in balls around the exact result.

A sum of the product meets, besides the FP32 additions of its chain (the depth), of the reduction (its partials) and of
the loop (its turns), one FP16 rounding

- for each chunk of the depth on a tile, where the plan's partials are half;
- where tiles exchange half: as a tile's partial sum, after each stage of the reduction, and after each turn of a loop
  that adds in place.

Partial sums that lie side by side are parts of one sum, so their roundings count once, by the sum of magnitudes. A
stochastic rounding is wrong by less than a spacing, twice what rounding to nearest is.
"""

from __future__ import annotations

from typing import Any

from ...formats import FP16, Format
from ...formats.bounds import Ball, magnitude_product, matmul_ball, rounding_error, sum_ball
from ...formats.reference import values
from .work import TileWork

__all__ = ["modelled_bound"]


def modelled_bound(work: TileWork, a: Any, b: Any, *, out: Format | None = None, seed: int | None = None) -> Ball:
    """Return exact results and radii of a product that a modelled machine makes.

    Parameters
    ----------
    work : TileWork
        What its tiles do: ``compile_matmul(plan).work``.
    a, b : array_like or QuarterArray, [g, m, k] and [g, k, n], or without groups where there is one
        The operands.
    out : Format, optional
        The result's format; that of the plan by default.
    seed : int, optional
        As the product took it: None for rounding to nearest even.

    Returns
    -------
    Ball
        In the shape of the result. Two plans of one problem differ by at most the sum of their radii.

    Notes
    -----
    Sums are bounded by gamma_n of their magnitudes (Higham, *Accuracy and Stability of Numerical Algorithms*, section
    3.1), for FP32 and FP16 in turn.
    """
    left, right = values(a), values(b)
    turns = work.depth_turns
    ball = matmul_ball(left, right, terms=work.k + work.parts + turns)
    coarse, events = _half_roundings(work, seed)
    if coarse:
        magnitude = magnitude_product(left, right)
        carried = ball.radius + events * rounding_error(0.0, FP16)
        ball = sum_ball(ball.centre, magnitude, coarse, FP16, carried=carried)
    return ball.rounded(out or work.out, "nearest-even" if seed is None else "stochastic")


def _half_roundings(work: TileWork, seed: int | None) -> tuple[int, int]:
    """FP16 roundings that a term may meet on its way, and all that one sum has; stochastic ones count twice."""
    deepest = int(work.pieces["depth"].max(initial=0))
    chunks = -(-deepest // work.chunk) if work.partial == FP16 else 0
    partials = work.parts * work.depth_turns
    if work.between != FP16:
        return chunks, chunks * partials
    weight = 1 if seed is None else 2
    stages = max(1, len(work.stages)) + 1
    loop = 2 * work.depth_turns
    return chunks + weight * (stages + loop), chunks * partials + weight * (stages * partials + loop)
