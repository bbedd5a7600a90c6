"""How far losses and their deltas may be from the exact ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import FP16, FP32, QuarterArray, format_of
from ..formats.bounds import Ball
from ..popops.elementwise.bound import finished, numbers
from .softmax_bound import Exponentials, row_sum, times

Balls = tuple[Ball, Ball]

_TINY, _ULP = FP32.smallest_subnormal, 2 * FP32.unit_roundoff
_MASKED = 0xFFFFFFFF


def single(value: float) -> Ball:
    """Return a number as a kernel has it in FP32."""
    return Ball.exact(np.float64(value)).rounded(FP32)


def _one_hot(labels: Any, classes: int) -> Any:
    return (np.asarray(labels).astype(np.int64)[:, None] == np.arange(classes)).astype(np.float64)


def _log(x: Ball) -> Ball:
    """FP32's logarithm, within 1 ulp."""
    with np.errstate(all="ignore"):
        log, least = np.log(x.centre), np.abs(x.centre) - x.radius
        radius = np.where(least > 0, x.radius / least, np.inf) + np.abs(log) * _ULP * 1.001 + _TINY
        return Ball(log, np.where(np.isfinite(log), radius, np.where(x.radius > 0, np.inf, 0.0)))


def _is_half(value: Any) -> bool:
    return not isinstance(value, (list, tuple, QuarterArray)) and format_of(value) == FP16


def calc_loss_bound(model_outputs: Any, expected: Any, loss_type: str, *, deltas_scale: float = 1.0,
                    model_output_scaling: float = 1.0, out: Any = None, out_dtype: Any = None,
                    target: Any = None) -> Balls:
    """Return exact results and radii of a `calc_loss` call."""
    p = Ball.exact(numbers(model_outputs))
    labelled = isinstance(expected, np.ndarray) and expected.dtype.kind in "iu"
    e = _one_hot(expected, p.shape[1]) if labelled else numbers(expected)
    wanted, scaling = Ball.exact(e), single(model_output_scaling)
    by = single(deltas_scale / model_output_scaling)
    masked = np.zeros((p.shape[0], 1), bool)
    if loss_type == "CROSS_ENTROPY_LOSS":
        if labelled:
            masked = (np.asarray(expected).astype(np.int64) & _MASKED == _MASKED)[:, None]
        log = _log((p + (2.0**-24 if _is_half(model_outputs) else 2.0**-126)).rounded(FP32))
        term = times(wanted, (_log(scaling) - log).rounded(FP32))
        term = Ball(np.where(e == 0, 0.0, term.centre), np.where(e == 0, 0.0, term.radius))
    else:
        apart = (p - wanted).rounded(FP32)
        term = times(times(Ball.exact(np.float64(0.5)), apart), apart)
    deltas = times(by, (p - times(wanted, scaling)).rounded(FP32))
    made = [Ball(np.where(masked, 0.0, b.centre), np.where(masked, 0.0, b.radius))
            for b in (row_sum(term, (1,)), deltas)]
    operands = (model_outputs,) if labelled else (model_outputs, expected)
    return finished(made[0].reshape(-1), None, out_dtype, *operands), finished(made[1], None, out_dtype, *operands)


def calc_accuracy_bound(model_outputs: Any, expected: Any, *, target: Any = None) -> Ball:
    """Return the result of a `calc_accuracy` call, which is exact."""
    places = numbers(model_outputs).argmax(1) if len(expected) else np.zeros(0)
    return Ball.exact(np.asarray((places == np.asarray(expected)).sum(), np.float64))


def cross_entropy_bound(logits: Any, labels: Any, weights: Any = None, axis: Any = -1, *, label_smoothing: float = 0.0,
                        ignored_index: Any = None, deltas_scale: float = 1.0, out: Any = None, out_dtype: Any = None,
                        target: Any = None) -> Balls:
    """Return exact results and radii of a `cross_entropy` call."""
    x, e = numbers(logits), Exponentials(logits, axis, None, 1.0)
    along = axis % x.ndim
    classes, named = x.shape[along], np.expand_dims(np.asarray(labels).astype(np.int64), along)
    across = classes, *(1,) * (x.ndim - 1 - along)
    one_hot = (named == np.arange(classes).reshape(across)).astype(np.float64)
    left_out = (one_hot.sum(along, keepdims=True) == 0) | (False if ignored_index is None else named == ignored_index)
    w = np.ones(across) if weights is None else numbers(weights).reshape(across)
    share = label_smoothing / max(1, classes)
    with np.errstate(all="ignore"):
        weight = (1 - label_smoothing) * np.where(one_hot > 0, w, 0.0).sum(along, keepdims=True)
        total, apart = Ball.exact(np.zeros(())), Ball.exact(np.zeros(named.shape))
        if share > 0:
            total = Ball.exact(np.float64(classes)) if weights is None else row_sum(Ball.exact(w), (0,))
            below = Ball(e.apart, np.where(np.isfinite(e.apart), e.wrong, 0.0)).rounded(FP32)
            apart = row_sum(times(Ball.exact(w), below), (along,))
        total_log = _log(Ball(e.sum, e.of_sum).rounded(FP32))
        own = np.where(one_hot > 0, e.apart, 0.0).sum(along, keepdims=True)
        loss = (total_log - own) * weight + (total * total_log - apart) * share
        number = (total * share + weight) * deltas_scale
        least = e.sum - e.of_sum
        radius = np.abs(number.centre) * (1 / least - 1 / e.sum) + number.radius / least
        by = Ball(number.centre / e.sum, np.where(least > 0, radius, np.inf)).rounded(FP32)
        made = times(by, Ball(e.powers, e.of_powers))
        at_label = times(Ball.exact(one_hot), Ball.exact(deltas_scale * weight).rounded(FP32))
        made = (made - at_label).rounded(FP32)
        if share > 0:
            made = (made - times(Ball.exact(w), single(deltas_scale * share))).rounded(FP32)
        loss = Ball(loss.centre, np.where(np.isfinite(loss.centre), loss.radius, np.inf)).rounded(FP32)
        known = [np.isfinite(b.centre) for b in (loss, made)]
    balls = [Ball(np.where(left_out | ~good, 0.0, b.centre), np.where(left_out, 0.0, np.where(good, b.radius, np.inf)))
             for b, good in zip((loss, made), known, strict=True)]
    rows = balls[0].reshape(*x.shape[:along], *x.shape[along + 1:])
    return finished(rows, None, out_dtype, logits), finished(balls[1], None, out_dtype, logits)
