"""What recurrent layers compute between their products, in balls: each function rounds where the kernels round."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import FP32, Format
from ...formats.bounds import Ball, matmul_ball
from ...poplin.gemm.options import GemmOptions
from ...poplin.gemm.search import may_flush, passes
from .reference import FUNCTIONS

_OPTIONS = GemmOptions()

_ULP = 2 * FP32.unit_roundoff  # of tanh and sigmoid: simd/math.h
_LINE = 2.0**-22  # of 0.2 x + 0.5 where it is no more than 1: of 0.2, of the fused sum


def chosen(mask: Any, yes: Ball, no: Ball | float) -> Ball:
    """Return balls of the one where the mask holds, else of the other."""
    no = no if isinstance(no, Ball) else Ball.exact(np.full(yes.shape, no))
    return Ball(np.where(mask, yes.centre, no.centre), np.where(mask, yes.radius, no.radius))


def stacked(balls: list[Ball], axis: int = 0) -> Ball:
    """Return balls along a new axis."""
    return Ball(np.stack([x.centre for x in balls], axis), np.stack([x.radius for x in balls], axis))


def transposed(x: Ball, *axes: int) -> Ball:
    """Return balls with their axes in another order."""
    return Ball(x.centre.transpose(axes), x.radius.transpose(axes))


def multiplied(a: Ball, given: Any, a_format: Format, b_format: Format) -> Ball:
    """Return products of matrices with FP32 sums in any order; each may be wrong, an array is exact."""
    flushes, times = may_flush(a_format, b_format, _OPTIONS), passes(a_format, b_format, _OPTIONS)
    b = given if isinstance(given, Ball) else Ball.exact(given)
    with np.errstate(all="ignore"):
        of_a, of_b = (np.where(np.isfinite(x.radius), np.abs(x.centre) + x.radius, np.inf) for x in (a, b))
        wrong = matmul_ball(of_a, of_b, terms=times * b.shape[-2], flushes=flushes).radius + a.radius @ of_b
        if isinstance(given, Ball):
            wrong = wrong + np.abs(a.centre) @ b.radius
        if flushes:  # where the ball holds subnormal numbers though its end is none
            wrong = wrong + FP32.smallest_normal * of_b.sum(-2)
            if isinstance(given, Ball):
                wrong = wrong + FP32.smallest_normal * of_a.sum(-1)[:, None]
        return Ball(a.centre @ b.centre, np.where(np.isnan(wrong), np.inf, wrong)).rounded(FP32)


def activated(x: Ball, name: str, state: Format) -> Ball:
    """Return a non-linearity, which grows with its argument, as it is kept."""
    function = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        centre, low, high = (function(v) for v in (x.centre, x.centre - x.radius, x.centre + x.radius))
        error = 0.0 * centre
        if name in ("tanh", "sigmoid"):
            error = _ULP * np.maximum(np.abs(low), np.abs(high)) + FP32.smallest_subnormal
        elif name == "hard_sigmoid":
            margin = x.radius + _LINE * 5
            low, high = function(x.centre - margin), function(x.centre + margin)
        radius = np.maximum(high - centre, centre - low) + error
    exact = (name == "hard_sigmoid") & (low == high)  # saturated
    made = Ball(centre, np.where(exact, 0.0, radius)).rounded(state)
    return Ball(made.centre, np.where(exact, 0.0, made.radius))


def slope_times(g: Ball, y: Ball, name: str, constant: bool) -> Ball:
    """Return gradients times the derivative where a non-linearity gave y."""
    if name == "tanh":
        return (g * ((-(y * y)) + 1.0).rounded(FP32)).rounded(FP32)
    if name == "sigmoid":
        return (g * (y * ((-y) + 1.0).rounded(FP32)).rounded(FP32)).rounded(FP32)
    zero, one = y.centre > 0, y.centre < 1
    made = g if name == "relu" else Ball((g * 0.2).centre, (g * 0.2).radius + 2.0**-25 * np.abs(g.centre)).rounded(FP32)
    if name == "hard_sigmoid" and constant:
        return made
    inside = zero if name == "relu" else zero & one
    unsure = (np.abs(y.centre) <= y.radius) & (y.radius > 0)
    if name == "hard_sigmoid":
        unsure |= (np.abs(y.centre - 1) <= y.radius) & (y.radius > 0)
    result = chosen(inside, made, 0.0)
    reach = np.abs(made.centre) + made.radius
    return Ball(result.centre, np.where(unsure, reach, result.radius))

