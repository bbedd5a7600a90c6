"""How wrong a result of a modelled machine may be: its contract, repeated in balls around the exact result.

A sum meets, besides the FP32 additions of its chain (the depth), of the reduction (its partials) and of
the loop (its turns), one FP16 rounding

- for each group of channels of each kernel element on a tile, where the plan's partials are half;
- where tiles exchange half: as a tile's partial sum, after each stage of the reduction, and after each turn of a loop
  that adds in place.

Partial sums that lie side by side are parts of one sum, so their roundings count once, by the sum of magnitudes. A
stochastic rounding is wrong by less than a spacing, twice what rounding to nearest is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import FP16, Format
from ...formats.bounds import Ball, rounding_error, sum_ball
from ...formats.reference import values
from .reference import reference_convolution
from .work import ConvWork


def modelled_bound(work: ConvWork, x: Any, w: Any, *, out: Format | None = None, seed: int | None = None) -> Ball:
    """Return exact results and radii of a convolution that a modelled machine makes.

    Parameters
    ----------
    work : ConvWork
        What its tiles do.
    x, w : array_like or QuarterArray
        The operands, in the shapes of `ConvWork.shapes`.
    out : Format, optional
        The result's format; that of the plan by default.
    seed : int, optional
        As the convolution took it: None for rounding to nearest even.

    Returns
    -------
    Ball
        In the shape of the result. Two plans of one problem differ by at most the sum of their radii. Nothing is
        promised of a sum in which a weight that is not finite may meet a zero of padding or dilation, nor of any where
        a plan slides weights that are not finite, or over an input that is not.

    Notes
    -----
    Sums are bounded by gamma_n of their magnitudes (Higham, *Accuracy and Stability of Numerical Algorithms*, section
    3.1), for FP32 and FP16 in turn.
    """
    inputs, weights = values(x), values(w)
    shape = work.shapes["out"]
    inputs = inputs.reshape(inputs.shape[0], inputs.shape[1] * inputs.shape[2], *inputs.shape[3:])

    def convolved(a: Any, b: Any) -> Any:
        return reference_convolution(a, b, work.params).reshape(shape)

    finite = [np.where(np.isfinite(v), np.abs(v), 0.0) for v in (inputs, weights)]
    centre, magnitude = convolved(inputs, weights), convolved(*finite)
    ball = sum_ball(centre, magnitude, work.depth + work.parts + work.depth_turns)
    coarse, events = _half_roundings(work, seed)
    if coarse:
        carried = ball.radius + events * rounding_error(0.0, FP16)
        ball = sum_ball(ball.centre, magnitude, coarse, FP16, carried=carried)
    special = (~np.isfinite(weights)).astype(float)
    if any(dim.weights_slide for dim in work.dims) and (special.any() or not np.isfinite(inputs).all()):
        ball = Ball(ball.centre, np.full(shape, np.inf))
    elif special.any():
        due = special.sum(tuple(range(2, special.ndim))).reshape(1, *special.shape[:2], *(1,) * (len(shape) - 3))
        ball = Ball(ball.centre, np.where(convolved(np.ones(inputs.shape), special) < due, np.inf, ball.radius))
    return ball.rounded(out or work.out, "nearest-even" if seed is None else "stochastic")


def _half_roundings(work: ConvWork, seed: int | None) -> tuple[int, int]:
    """FP16 roundings that a term may meet on its way, and all that one sum has; stochastic ones count twice."""
    chunks = work.chunks if work.partial == FP16 else 0
    partials = work.parts * work.depth_turns
    if work.between != FP16:
        return chunks, chunks * partials
    weight = 1 if seed is None else 2
    stages = max(1, len(work.stages)) + 1
    loop = 2 * work.depth_turns
    return chunks + weight * (stages + loop), chunks * partials + weight * (stages * partials + loop)
