"""How wrong a dense product may be: its contract, repeated in balls around the exact result.

Products are exact and sums are FP32 in any order (gamma_k of the magnitudes, see `poplibs_py.formats.bounds`); where
both operands are BF16 or FP8 a unit may flush subnormals; a matrix unit that takes FP16 as two BF16 parts adds that
many more terms; half partials add one FP16 rounding of the running sum per block of the depth. The epilogue rounds
alpha, beta, bias to FP32 in turn, and the result once to its format.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import FP16, FP32, Format, QuarterArray, format_of
from ...formats.bounds import Ball, magnitude_product, matmul_ball, rounding_error, sum_ball
from ...formats.reference import values
from ...ops import operand, result_format, target_of
from ...target import Target
from ..gemm.options import GemmOptions, parse_options
from ..gemm.plan import HALF_PARTIALS_DEPTH
from ..gemm.search import may_flush, passes
from ..tile_conv.bound import modelled_bound
from ..tile_conv.work import ConvWork, work_of
from .params import product_of
from .reference import activate, as_matrices

_SLOPE = {None: 1.0, "relu": 1.0, "gelu": 1.13, "silu": 1.1}
_RELATIVE, _ABSOLUTE = 2 * FP32.unit_roundoff, FP32.smallest_subnormal  # 1 ulp of gelu and silu (simd/math.h)
_PLANNED = ("partials_type", "available_memory_proportion", "strict_memory")
_HOW = ("partials_type", "available_memory_proportion", "reproducible", "strict_memory", "half_passes")


def matmul_bound(a: Any, b: Any, *, out: Any = None, out_dtype: Any = None, alpha: float = 1.0, bias: Any = None,
                 activation: str | None = None, options: Any = None, **how: Any) -> Ball:
    """Return exact results and radii of a `matmul` call.

    Parameters
    ----------
    a, b, out, out_dtype, alpha, bias, activation, options, **how
        As `matmul` takes them.

    Returns
    -------
    Ball
        In the shape of the result.
    """
    machine, seed = target_of(how.get("target")), how.get("seed")
    if machine.kind != "host":
        planned = {name: how[name] for name in _PLANNED if name in how}
        return matmul_modelled_bound(a, b, target=machine, out=out, out_dtype=out_dtype, bias=bias,
                                     activation=activation, seed=seed, options=options, **planned)
    fa, fb = _format(a), _format(b)
    out_format = (format_of(out_dtype) if out_dtype is not None else
                  _format(out) if out is not None else result_format(fa, fb))
    sums, added = _sums(a, b, _options(options, how))
    return _without(finished_ball(scaled(sums, alpha), bias, activation, out_format, scale_of(out)), added)


def matmul_modelled_bound(a: Any, b: Any, *, target: Target | str = "gc200", out: Any = None, out_dtype: object = None,
                          bias: Any = None, activation: str | None = None, seed: Any = None, options: Any = None,
                          **more: Any) -> Ball:
    """Return exact results and radii of a `matmul` call on a modelled machine, from the plan that it follows.

    Parameters
    ----------
    a, b, target, out, out_dtype, bias, activation, seed, options, **more
        As `matmul` takes them.

    Returns
    -------
    Ball
        In the shape of the result.
    """
    wanted = _format(out) if out_dtype is None and out is not None else out_dtype
    product = product_of(operand("a", a), operand("b", b), wanted)
    left, right, added = as_matrices(values(a), values(b))
    shape = (*product.batch, product.m, product.n)
    ball = Ball.exact(np.zeros(shape))
    if 0 not in shape:
        groups = int(np.prod(product.batch, dtype=np.int64))
        numbers = (np.broadcast_to(x, (*product.batch, *x.shape[-2:])) for x in (left, right))
        rows, columns = (x.reshape(groups, *x.shape[-2:]) for x in numbers)
        ball = planned_ball(work_of(product.planned(target, options, more)), rows, columns, product.out, seed)
        ball = Ball(ball.centre.reshape(shape), ball.radius.reshape(shape))
    bias = None if bias is None else values(bias)
    return _without(finished_on_tiles(ball, bias, activation, product.out, seed), added)


def planned_ball(work: ConvWork, a: Any, b: Any, out: Format | None = None, seed: Any = None) -> Ball:
    """Return exact products [g, m, n] of [g, m, k] and [g, k, n], and radii of what a plan's tiles make."""
    x, w = a.swapaxes(0, 1).reshape(work.shapes["x"]), b.swapaxes(1, 2).reshape(work.shapes["w"])
    groups, m, n = a.shape[0], a.shape[1], b.shape[2]  # rows are images of one element
    ball = modelled_bound(work, x, w, out=out, seed=seed).reshape(m, groups, n)
    return Ball(ball.centre.swapaxes(0, 1), ball.radius.swapaxes(0, 1))


def matmul_acc_bound(c: Any, a: Any, b: Any, *, alpha: float = 1.0, beta: float = 1.0, bias: Any = None,
                     activation: str | None = None, options: Any = None, **how: Any) -> Ball:
    """Return exact results and radii of a `matmul_acc` call, given c as it was before."""
    sums, added = _sums(a, b, _options(options, how))
    ball = scaled(sums, alpha).rounded(FP32)
    if beta:
        held = Ball.exact(np.expand_dims(values(c), added))
        ball = ball + (held * float(np.float32(beta))).rounded(FP32)
    return _without(finished_ball(ball, bias, activation, _format(c), scale_of(c)), added)


def scaled(sums: Ball, alpha: float) -> Ball:
    """Return sums times alpha: those that may overflow are NaN times nothing."""
    product = sums * float(np.float32(alpha))
    return product if alpha else Ball(product.centre, np.where(np.isinf(sums.radius), np.inf, product.radius))


def _without(ball: Ball, axes: tuple[int, ...]) -> Ball:
    return Ball(ball.centre.squeeze(axes), ball.radius.squeeze(axes))


def _format(operand: Any) -> Format:
    return format_of(
        getattr(operand, "format", operand if hasattr(operand, "dtype") else np.asarray(operand, np.float32)))


def _options(options: Any, how: dict[str, Any]) -> GemmOptions:
    return parse_options(options, GemmOptions(**{k: v for k, v in how.items() if k in _HOW}))


def _sums(a: Any, b: Any, options: GemmOptions) -> tuple[Ball, tuple[int, ...]]:
    """Bound the sums of products, before alpha; vectors count as matrices, and the axes so added come second."""
    left, right, added = as_matrices(values(a), values(b))
    fa, fb = _format(a), _format(b)
    k = left.shape[-1]
    count = passes(fa, fb, options)
    ball = matmul_ball(left, right, terms=count * k, flushes=may_flush(fa, fb, options))
    magnitude = magnitude_product(left, right)
    if count == 3:  # the product of the low parts is left out: at most 2^-7 of each operand
        ball = Ball(ball.centre, ball.radius + 2.0**-14 * magnitude)
    if options.partials_type == "half":
        blocks = max(1, -(-k // HALF_PARTIALS_DEPTH))
        ball = sum_ball(ball.centre, magnitude, blocks, FP16, carried=ball.radius + blocks * rounding_error(0.0, FP16))
    return ball, added


def scale_of(out: Any) -> int:
    """Return the exponent of the scale that a result is written at."""
    return (out.uniform_scale() or 0) if isinstance(out, QuarterArray) else 0


def finished_ball(ball: Ball, bias: Any, activation: str | None, out_dtype: Format, scale: int = 0) -> Ball:
    """Apply the epilogue after alpha and beta."""
    ball = ball.rounded(FP32)
    if bias is not None:
        ball = (ball + Ball.exact(values(bias))).rounded(FP32)
    if activation is not None:
        ball = activated_ball(ball, activation)
    return (ball * 2.0**-scale).rounded(out_dtype) * 2.0**scale if scale else ball.rounded(out_dtype)


def finished_on_tiles(ball: Ball, bias: Any, activation: str | None, out_dtype: Format, seed: Any) -> Ball:
    """Apply a bias and an activation as vertices of their own: each rounds to the result's format."""
    rounding = "nearest-even" if seed is None else "stochastic"
    if bias is not None:
        ball = (ball + Ball.exact(bias)).rounded(FP32).rounded(out_dtype, rounding)
    return ball if activation is None else activated_ball(ball, activation).rounded(out_dtype, rounding)


def activated_ball(ball: Ball, activation: str) -> Ball:
    """Apply an activation, computed in FP32."""
    smooth = activation != "relu"
    return ball.mapped(lambda x: activate(x, activation), _SLOPE[activation], _RELATIVE * smooth, _ABSOLUTE * smooth)
