"""How far CTC losses and gradients may be from the exact ones.

A path's probability is a product over its steps; FP32 numbers with exponents of their own hold it, so that only
relative errors count. With u = 2^-24, a step adds two roundings of the sum, one of the product, two of the exponential
(1 ulp), and for logits the rounding of the logit less the step's greatest one, u times its size. What the steps may be
wrong by adds up in the logarithm; a posterior, a product of what is before and after it over the whole, may be wrong
by twice that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...formats import FP32, Floats, Format, format_of
from ...formats.bounds import Ball, gamma
from .reference import class_numbers, log_probabilities, sequence

LEAST, MOST = 2.0**20, 2.0**7
"""How far below and above 0 kernels take a logarithm for that of a probability: kernels/ctc/wide.h."""

_U = FP32.unit_roundoff
_STEP, _EXP = 3 * _U, 2 * _U
_FARTHEST = 2.0**25  # of whole paths: far from where kernels take them for nothing
_CHAINS, _SLACK, _TINY = 16, 1.01, 2.0**-120


class _Found(NamedTuple):
    """Of the sequences: losses and what they may be wrong by; the same of gradients, before they are weighted."""

    losses: Floats
    loss_errors: Floats
    gradients: Floats
    errors: Floats


def step_errors(values: Floats, logits: bool) -> tuple[Floats, Floats]:
    """Return what the logarithms of probabilities may be wrong by, and those of the sums that normalise logits.

    Parameters
    ----------
    values : numpy.ndarray of float64 [steps, classes]
    logits : bool
    """
    if not logits:
        return np.full(values.shape, _EXP), np.zeros(len(values))
    with np.errstate(all="ignore"):
        far = np.abs(values - values.max(-1, keepdims=True))
        each = _EXP + _U * np.where(np.isinf(far), 0.0, far)
        shares = np.exp(-far)
        chain = gamma(-(-values.shape[-1] // _CHAINS) + 5, _U)
        sums = (shares * each).sum(-1) / shares.sum(-1) + chain
    return each, sums * _SLACK


def legible(values: Floats, logits: bool) -> bool:
    """Whether what is computed of these numbers is promised."""
    with np.errstate(all="ignore"):
        far = values - values.max(-1, keepdims=True) if logits else values
        if np.isnan(far).any() or (far >= MOST).any() or not np.isfinite(values.max(-1) if logits else 0.0).all():
            return False
        sizes = np.where(np.isinf(far), 0.0, np.abs(far))
        return bool((sizes < LEAST).all() and sizes.max(-1, initial=0).sum() < _FARTHEST)


def _found(data: Any, labels: Any, data_lengths: Any, label_lengths: Any, blank: int, logits: bool,
           zero_infinity: bool, softmax: bool) -> _Found:
    values = class_numbers(data)
    steps, batch, _ = values.shape
    rows = np.asarray(labels)
    ends = np.full(batch, steps) if data_lengths is None else np.asarray(data_lengths)
    counts = np.full(batch, rows.shape[1]) if label_lengths is None else np.asarray(label_lengths)
    found = _Found(np.zeros(batch), np.zeros(batch), np.zeros(values.shape), np.zeros(values.shape))
    for n in range(batch):
        x, mine = values[: ends[n], n], rows[n, : counts[n]].astype(np.int64)
        if not legible(x, logits):
            found.loss_errors[n] = found.errors[: ends[n], n] = np.inf
            continue
        logs = log_probabilities(x, logits)
        loss, posteriors = sequence(logs, mine, blank)
        if np.isinf(loss):
            found.losses[n] = 0.0 if zero_infinity else np.inf
            found.gradients[: ends[n], n] = 0.0 if zero_infinity else np.nan
            continue
        each, sums = step_errors(x, logits)
        used = np.unique([blank, *mine])
        path = (each[:, used].max(-1, initial=0) + _STEP).sum() + 4 * _U
        found.losses[n] = loss
        found.loss_errors[n] = _SLACK * (path + sums.sum()) + 2e-9 + len(x) * 1e-12  # logarithms in float64
        with np.errstate(all="ignore"):
            shares = np.exp(logs) if softmax else np.zeros(logs.shape)
            wrong = posteriors * np.expm1(2 * _SLACK * path + 12 * _U)
            wrong += shares * np.expm1(_SLACK * (each + sums[:, None] + 4 * _U))
            terms = len(mine) + 8
            found.gradients[: ends[n], n] = shares - posteriors
            found.errors[: ends[n], n] = _SLACK * (wrong + gamma(terms, _U) * (shares + posteriors)) + _TINY
    return found


def _weights(reduction: str, labels: Any, label_lengths: Any, batch: int) -> Floats:
    """What each loss counts."""
    if reduction != "mean":
        return np.ones(batch)
    counts = np.full(batch, np.asarray(labels).shape[1]) if label_lengths is None else np.asarray(label_lengths)
    return np.asarray(1.0 / (np.maximum(counts, 1) * float(max(1, batch))), np.float64)


def _dtype(data: Any, out: Any, out_dtype: Any) -> Format:
    if out is not None or out_dtype is not None:
        return format_of(out if out is not None else out_dtype)
    return FP32 if isinstance(data, (list, tuple)) else format_of(data)


def _losses(found: _Found, weights: Floats, reduction: str, dtype: Format) -> Ball:
    ball = Ball(found.losses, found.loss_errors)
    if reduction != "none":
        with np.errstate(all="ignore"):
            total = (found.losses * weights).sum()
            ball = Ball(total, (found.loss_errors * weights).sum() * _SLACK + 1e-12 * abs(np.nan_to_num(total)))
    return ball.rounded(FP32).rounded(dtype) if dtype != FP32 else ball.rounded(dtype)


def ctc_loss_bound(data: Any, labels: Any, data_lengths: Any = None, label_lengths: Any = None, *, blank: int = 0,
                   logits: bool = False, zero_infinity: bool = False, reduction: str = "none", out: Any = None,
                   out_dtype: Any = None, target: Any = None) -> Ball:
    """Return the exact losses of a `ctc_loss` call and how far from them a right result may lie."""
    found = _found(data, labels, data_lengths, label_lengths, blank, logits, zero_infinity, True)
    weights = _weights(reduction, labels, label_lengths, len(found.losses))
    return _losses(found, weights, reduction, _dtype(data, out, out_dtype))


def ctc_loss_and_gradient_bound(data: Any, labels: Any, data_lengths: Any = None, label_lengths: Any = None, *,
                                blank: int = 0, logits: bool = False, zero_infinity: bool = False,
                                reduction: str = "none", include_softmax_gradient: bool = True, out: Any = None,
                                out_dtype: Any = None, target: Any = None) -> tuple[Ball, Ball]:
    """Return the same of a `ctc_loss_and_gradient` call: balls of the losses and of the gradient."""
    found = _found(data, labels, data_lengths, label_lengths, blank, logits, zero_infinity, include_softmax_gradient)
    weights = _weights(reduction, labels, label_lengths, len(found.losses))
    dtype = _dtype(data, None, out_dtype)
    with np.errstate(all="ignore"):
        each = weights[None, :, None]
        gradient = Ball(found.gradients * each, (found.errors + 3 * _U * np.abs(np.nan_to_num(found.gradients))) * each)
    return _losses(found, weights, reduction, dtype), gradient.rounded(dtype)
