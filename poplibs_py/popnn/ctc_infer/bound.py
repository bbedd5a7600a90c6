"""What decoders may return: labels, exactly, where no decision hangs on rounding errors; logarithms with their errors.

A path's logarithm may be wrong by what its steps add up to (see `ctc.bound`). Candidates are compared by FP32
logarithms relative to the step's best, each wrong by a few roundings of its size. Where two that are that near to each
other decide which prefixes are kept, or the order of the results, nothing is promised of the sequence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import FP32, Floats, Format
from ...formats.bounds import Ball
from ...popops.elementwise.bound import format_of_operand
from ..ctc.bound import LEAST, MOST, legible, step_errors
from ..ctc.reference import class_numbers, log_probabilities
from .reference import beam_search, best_path

_U = FP32.unit_roundoff
_STEP, _SCORE, _SLACK = 5 * _U, 16 * _U, 1.01


class _Recorded:
    """A scorer whose numbers are FP32, and the greatest magnitude that it has returned."""

    def __init__(self, scorer: Any) -> None:
        self.scorer, self.greatest = scorer, 0.0

    def __call__(self, prefix: tuple[int, ...]) -> Floats:
        numbers = np.asarray(self.scorer(prefix), np.float32).astype(np.float64)
        self.greatest = max(self.greatest, float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0)))
        return numbers


def _balls(logs: Floats, errors: Floats, lengths: Any, labels: Any, dtype: Format) -> tuple[Ball, Ball, Ball]:
    """What is promised of results whose logarithms may be wrong by so much; where that is infinite, nothing."""
    unknown = np.where(np.isinf(errors), np.inf, 0.0)
    ball = Ball(logs, errors).rounded(FP32)
    return (ball if dtype == FP32 else ball.rounded(dtype)), Ball(lengths, unknown), Ball(labels, unknown[..., None])


def ctc_greedy_decoder_bound(data: Any, data_lengths: Any = None, *, blank: int = 0, logits: bool = False,
                             out: Any = None, out_dtype: Any = None, target: Any = None) -> tuple[Ball, Ball, Ball]:
    """Return the exact results of a `ctc_greedy_decoder` call and how far from them right ones may lie."""
    values = class_numbers(data)
    steps, batch, _ = values.shape
    ends = np.full(batch, steps) if data_lengths is None else np.asarray(data_lengths)
    logs, errors, lengths = (np.zeros((batch, 1)) for _ in range(3))
    labels = np.full((batch, 1, steps), -1.0)
    for n in range(batch):
        x = values[: ends[n], n]
        if not legible(x, logits):
            errors[n] = np.inf
            continue
        found, classes = best_path(x, blank)
        each = log_probabilities(x, logits)[np.arange(len(x)), classes] if len(x) else np.zeros(0)
        logs[n], lengths[n], labels[n, 0, : len(found)] = each.sum(), len(found), found
        errors[n] = _SLACK * step_errors(x, logits)[1].sum() + 2e-9 + 1e-12 * abs(np.nan_to_num(each, neginf=0.0)).sum()
    return _balls(logs, errors, lengths, labels, format_of_operand(data if out_dtype is None else out_dtype))


def ctc_beam_search_decoder_bound(data: Any, data_lengths: Any = None, *, beams: int = 16, top_paths: int = 1,
                                  blank: int = 0, logits: bool = False, threshold: float | None = None,
                                  scorer: Any = None, out: Any = None, out_dtype: Any = None,
                                  target: Any = None) -> tuple[Ball, Ball, Ball]:
    """Return the exact results of a `ctc_beam_search_decoder` call and how far from them right ones may lie."""
    values = class_numbers(data)
    steps, batch, _ = values.shape
    ends = np.full(batch, steps) if data_lengths is None else np.asarray(data_lengths)
    logs, errors, lengths = np.full((batch, top_paths), -np.inf), *(np.zeros((batch, top_paths)) for _ in range(2))
    labels = np.full((batch, top_paths, steps), -1.0)
    for n in range(batch):
        x = values[: ends[n], n]
        if not legible(x, logits):
            errors[n] = np.inf
            continue
        of_classes, added = log_probabilities(x, logits), _Recorded(scorer)
        found = beam_search(of_classes, blank, beams, top_paths, np.inf if threshold is None else threshold,
                            None if scorer is None else added)
        each, sums = step_errors(x, logits)
        if scorer is not None:  # a sum of logarithms, an exponential and a product more
            each = each + 4 * _U + _U * (added.greatest + np.abs(np.where(np.isinf(of_classes), 0.0, of_classes)))
        path = _SLACK * ((each.max(-1, initial=0) + _STEP).sum() + 4 * _U)
        above = 2 * (np.maximum(x, 0).max(initial=0) + added.greatest)
        held = above < 2 * MOST and added.greatest < LEAST / 2  # sums that kernels hold
        clear = held and all(gap > 2 * (path + _SCORE * (1 + far + above)) for gap, far in found.margins)
        errors[n] = path + _SLACK * sums.sum() + 2e-9 if clear else np.inf
        for i, (prefix, log) in enumerate(found.paths):
            logs[n, i], lengths[n, i], labels[n, i, : len(prefix)] = log, len(prefix), prefix
    return _balls(logs, errors, lengths, labels, format_of_operand(data if out_dtype is None else out_dtype))
