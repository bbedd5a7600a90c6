"""How far attention and its gradient may be from the exact ones.

Scores are balls of dot products, scaled and masked. What a score's exponential is compared with cancels between a
result and the sum that it is divided by, whatever the order in which greater scores come: an exponential and the
exponentials that scale it later have arguments that add up to how far the score is below the greatest, each rounded
once. So a weight's relative error is that of e^argument, and a few roundings for each chunk of keys. Nothing is
promised of rows with scores that are neither finite nor minus infinity, of columns with values that are not finite, and
of gradients of heads with such operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...formats import BF16, FP32, Floats
from ...formats.bounds import Ball, gamma, matmul_ball, sum_ball
from ...ops import result_format
from ...popops.elementwise.bound import finished, format_of_operand, numbers
from ..softmax_bound import row_sum, times
from .plan import multiplies_bf16
from .reference import attend, counted

Truths = np.ndarray[Any, np.dtype[np.bool_]]

_U, _TINY, _ULP = FP32.unit_roundoff, FP32.smallest_subnormal, 2 * FP32.unit_roundoff
_SLACK = 1 + 2.0**-20  # for float64's own errors, and products of errors
_ROUGH = 2.0**-18  # of exponentials that are rounded to BF16
_LANES = 14  # roundings that an exponential meets in the sum of a chunk of 512 keys
_CHUNK = 256


class _Scores(NamedTuple):
    """Balls of scores [batch, heads of keys, query heads to each, queries, keys], and what goes with them.

    Attributes
    ----------
    z : Ball
    q, k, v : numpy.ndarray of float64
        Of as many axes.
    scale : float
    halves : bool
        Whether weights are rounded to BF16.
    chunks : int
        Most of a row.
    shape : tuple of int
        Of q.
    """

    z: Ball
    q: Floats
    k: Floats
    v: Floats
    scale: float
    halves: bool
    chunks: int
    shape: tuple[int, ...]


def _headed(x: Floats, heads: int, shares: int) -> Floats:
    """An operand by batch, head of keys, query head of these, tokens, elements."""
    wide = x if x.ndim > 2 else x[None]
    tokens = (heads, shares, *wide.shape[-2:])
    lead = int(np.prod(wide.shape[:-3]))
    return np.ascontiguousarray(wide).reshape(lead, *tokens)


def _factor(scale: float) -> Ball:
    """What is rounded to FP32 before it multiplies, with the logarithm that exponentials by powers of 2 want."""
    return Ball(np.asarray(scale), np.asarray(abs(scale) * 2 * _U * _SLACK))


def _kept(pattern: Any, batch: int, heads: int, shares: int) -> Truths:
    """Which scores a pattern computes."""
    rows, columns = pattern.shape
    high, wide = pattern.block_shape
    stored = np.zeros((pattern.groups * pattern.block_rows, pattern.block_columns), np.bool_)
    stored[pattern.row_indices, pattern.column_indices] = True
    stored = stored.reshape(pattern.groups, pattern.block_rows, pattern.block_columns)
    whole = stored.repeat(high, 1).repeat(wide, 2)[:, :rows, :columns]
    if pattern.groups == batch * heads * shares:
        return whole.reshape(batch, heads, shares, rows, columns)
    return whole.reshape(1, heads, shares, rows, columns) if pattern.groups > 1 else whole[0]


def _scores(q: Any, k: Any, v: Any, mask: Any, how: dict[str, Any], *others: Any) -> _Scores:
    """Balls of scores of a call."""
    asked: dict[str, Any] = {"scale": None, "causal": False, "query_offset": 0, "pattern": None} | how
    halves = all(format_of_operand(x) == BF16 for x in (q, k, v, *others)) and multiplies_bf16()
    a, b, c = numbers(q), numbers(k), numbers(v)
    of_k = b.shape[-3] if b.ndim > 2 else 1
    shares = (a.shape[-3] if a.ndim > 2 else 1) // of_k if of_k else 1
    qh, kh, vh = _headed(a, of_k, shares), _headed(b, of_k, 1), _headed(c, of_k, 1)
    scale = 1 / np.sqrt(max(1, a.shape[-1])) if asked["scale"] is None else float(asked["scale"])
    ball = times(_factor(scale), matmul_ball(qh, kh.swapaxes(-1, -2), flushes=halves))
    batch, _, _, rows, columns = ball.shape
    keep = counted(rows, columns, causal=asked["causal"], query_offset=asked["query_offset"])
    chunks = -(-columns // _CHUNK)
    if asked["pattern"] is not None:
        keep = keep & _kept(asked["pattern"], batch, of_k, shares)
        chunks = columns  # at most: a block's keys are not of two
    if mask is not None:
        more = np.broadcast_to(np.asarray(mask), (*a.shape[:-2], rows, columns))
        if more.dtype == np.bool_:
            keep = keep & (_headed(more, of_k, shares) != 0)
        else:
            ball = (ball + Ball.exact(_headed(more.astype(np.float64), of_k, shares))).rounded(FP32)
    keep = np.broadcast_to(keep, ball.shape)
    z = Ball(np.where(keep, ball.centre, -np.inf), np.where(keep, ball.radius, 0.0))
    return _Scores(z, qh, kh, vh, scale, halves, chunks, a.shape)


def _powers(s: _Scores, below: Floats, wrong: Floats, steps: int) -> Ball:
    """Exponentials of z - below, which may be wrong itself, scaled so many times."""
    apart = s.z.centre - below
    away = np.where(np.isfinite(apart), np.abs(apart), 0.0)
    radius = np.where(np.isfinite(s.z.centre), s.z.radius, 0.0) + wrong
    exponent = (radius + (away + radius) * 4 * _U) * _SLACK
    own = (_ROUGH * s.halves + (1 + steps) * (_ULP + _U)) * _SLACK * np.exp(np.minimum(700, (1 + steps) * 2 * _ULP))
    powers = np.exp(apart)
    most = np.exp(np.minimum(700, apart + exponent))
    radius = np.where(exponent < 1, powers * np.expm1(np.minimum(exponent, 1)), most) + most * own
    return Ball(powers, np.where(s.z.centre == -np.inf, 0.0, radius * _SLACK + (2 + steps) * 2 * _TINY))


def scaled_dot_product_attention_bound(q: Any, k: Any, v: Any, mask: Any = None, *, return_lse: bool = False,
                                       out: Any = None, out_dtype: Any = None, available_memory_proportion: Any = None,
                                       strict_memory: Any = False, target: Any = None,
                                       **how: Any) -> Ball | tuple[Ball, Ball]:
    """Return exact results and radii of a `scaled_dot_product_attention` call."""
    s = _scores(q, k, v, mask, how)
    with np.errstate(all="ignore"):
        fixed = np.where(np.isfinite(s.v), s.v, 0.0)
        y, _, lse = attend(s.z.centre, fixed)
        lost = (np.isnan(s.z.centre) | (s.z.centre == np.inf) | np.isinf(s.z.radius)).any(-1, keepdims=True)
        top = np.max(s.z.centre, -1, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0.0)
        spread = np.where(np.isfinite(s.z.radius), s.z.radius, 0.0).max(-1, keepdims=True, initial=0.0)
        e = _powers(s, top, spread * _U, s.chunks)
        powers, total, carried = e.centre, e.centre.sum(-1, keepdims=True), e.radius.sum(-1, keepdims=True)
        of_total = (carried + gamma(_LANES + 2 * s.chunks, _U) * (total + carried)) * _SLACK
        least = FP32.smallest_normal if s.halves else _TINY
        rounded = BF16.unit_roundoff if s.halves else 0.0
        size, keys = np.abs(fixed), s.v.shape[-2]
        of_sum = (e.radius + (powers + e.radius) * rounded + least * s.halves) * _SLACK @ size
        of_sum = of_sum + gamma(keys + 2 * s.chunks, _U) * (powers @ size + of_sum) + 2 * (keys + total) * least
        below = total - of_total
        radius = (of_sum + np.abs(y) * of_total) / below
        radius = (radius + _U * (np.abs(y) + radius) + _TINY) * _SLACK
        nothing = total == 0
        large = (powers @ size) * 2 > FP32.max
        unknown = ~np.isfinite(s.v).all(-2, keepdims=True) | lost | (below <= 0) | large
        radius = np.where(nothing & np.isfinite(s.v).all(-2, keepdims=True), 0.0, np.where(unknown, np.inf, radius))
        ratio = (of_total / total)[..., 0]
        of_lse = -np.log1p(-np.minimum(ratio, 1)) + _ULP * (np.log(max(1, keys)) + 2 * ratio) + _TINY
        of_lse = (of_lse + _U * (np.abs(lse) + of_lse)) * _SLACK
        of_lse = np.where(nothing[..., 0], 0.0, np.where(lost[..., 0] | ~(ratio < 1), np.inf, of_lse))
        lse = np.where(np.isnan(lse), 0.0, lse)
    shape = (*s.shape[:-1], s.v.shape[-1])
    ball = Ball(np.where(np.isnan(y), 0.0, y).reshape(shape), radius.reshape(shape))
    given, operands = (None if return_lse else out), (q, k, v)
    made = finished(ball, given, _dtype_of(out, out_dtype, return_lse), *operands)
    return (made, Ball(lse.reshape(shape[:-1]), of_lse.reshape(shape[:-1]))) if return_lse else made


def _dtype_of(out: Any, out_dtype: Any, several: bool) -> Any:
    return out_dtype if out is None or not several else out[0]


def _product(p: Ball, x: Floats, terms: int, halves: bool) -> Ball:
    """Sums over the last axis but one of p, which is that of x: p' x, where p is wrong by its radius."""
    if halves:
        p = p.rounded(BF16)
    least = FP32.smallest_normal if halves else 0.0
    transposed, size = p.centre.swapaxes(-1, -2), np.abs(x)
    magnitude = np.abs(transposed) @ size
    lost = least * (np.abs(transposed).sum(-1, keepdims=True) + size.sum(-2, keepdims=True))
    carried = p.radius.swapaxes(-1, -2) @ size + lost
    return sum_ball(transposed @ x, magnitude, np.full(magnitude.shape, terms), flushes=halves, carried=carried)


def _transposed(p: Ball) -> Ball:
    return Ball(p.centre.swapaxes(-1, -2), p.radius.swapaxes(-1, -2))


def scaled_dot_product_attention_grad_bound(grad: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, mask: Any = None, *,
                                            out: Any = None, out_dtype: Any = None,
                                            available_memory_proportion: Any = None, strict_memory: Any = False,
                                            target: Any = None, **how: Any) -> tuple[Ball, Ball, Ball]:
    """Return exact results and radii of a `scaled_dot_product_attention_grad` call, for the y and lse that it has."""
    s = _scores(q, k, v, mask, how, grad)
    heads, shares = s.q.shape[1:3]
    g, outputs = (_headed(numbers(x), heads, shares) for x in (grad, y))
    logs = _headed(numbers(lse)[..., None], heads, shares)
    with np.errstate(all="ignore"):
        p = _powers(s, np.where(logs == -np.inf, np.inf, logs),
                    np.where(np.isfinite(logs), np.abs(logs), 0.0) * 2 * _U, 0)
        deltas = matmul_ball(g, s.v.swapaxes(-1, -2), flushes=s.halves)
        mean = row_sum(times(Ball.exact(g), Ball.exact(outputs)), (-1,))
        of_scores = times(p, (deltas - mean).rounded(FP32))
        each = shares * s.q.shape[-2]
        merged = [Ball(_joined(x.centre), _joined(x.radius)) for x in (p, of_scores)]
        keys = np.broadcast_to(s.k, (*s.q.shape[:3], *s.k.shape[3:]))
        makes = [_product(_transposed(of_scores), keys, s.k.shape[-2], s.halves),
                 _product(merged[1], _joined(s.q), each, s.halves), _product(merged[0], _joined(g), each, s.halves)]
        makes = [times(_factor(by), x) for by, x in zip((s.scale, s.scale, 1.0), makes, strict=True)]
    sound = np.isfinite(s.z.radius) & ~np.isnan(s.z.centre) & (s.z.centre != np.inf)
    known = _sound(sound, s.q, s.k, s.v, g, outputs, np.where(logs == -np.inf, 0.0, logs), p.centre + p.radius,
                   of_scores.centre + of_scores.radius)
    return _results(makes, known, (q, k, v), out, out_dtype)


def _joined(x: Floats) -> Floats:
    """Query heads that share keys, one after another."""
    return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3], x.shape[4])


def _sound(sound: Truths, *operands: Floats) -> Truths:
    """Which heads of keys have operands that are finite."""
    made: Truths = np.asarray(sound.all((2, 3, 4)))
    for x in operands:
        made = made & (np.isfinite(x) & (np.abs(np.where(np.isfinite(x), x, 0.0)) < FP32.max / 4)).all((2, 3, 4))
    return made


def _results(makes: Sequence[Ball], known: np.ndarray[Any, Any], operands: Sequence[Any], out: Any,
             out_dtype: Any) -> tuple[Ball, Ball, Ball]:
    found = []
    for number, (ball, x) in enumerate(zip(makes, operands, strict=True)):
        alike = known.reshape(known.shape + (1,) * (ball.centre.ndim - 2))
        centre = np.where(alike & np.isfinite(ball.centre), ball.centre, 0.0)
        radius = np.where(alike & np.isfinite(ball.centre), ball.radius, np.inf)
        shape = numbers(x).shape
        dtype = out_dtype if out is None else out[number]
        dtype = result_format(format_of_operand(x)) if dtype is None else dtype
        found.append(finished(Ball(centre.reshape(shape), radius.reshape(shape)), None, dtype, x))
    return found[0], found[1], found[2]
