"""What a CTC loss and its gradient are, in float64 and sums of logarithms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...formats import Floats


class Sequence(NamedTuple):
    """Of one sequence: minus the log-probability of its labels, and how probable each class is at each step.

    Attributes
    ----------
    loss : float
    posteriors : numpy.ndarray of float64 [steps, classes]
        That a step is in a state of the class, given the labels; NaN where these are impossible.
    """

    loss: float
    posteriors: Floats


def class_numbers(data: Any) -> Floats:
    """Return an operand's numbers in float64; lists are float32."""
    with np.errstate(all="ignore"):
        return np.asarray(np.asarray(data, np.float32) if isinstance(data, (list, tuple)) else data).astype(np.float64)


def log_probabilities(values: Floats, logits: bool) -> Floats:
    """Return log-probabilities over the last axis."""
    if not logits:
        return values
    with np.errstate(all="ignore"):
        apart = values - values.max(-1, keepdims=True)
        return np.asarray(apart - np.log(np.exp(apart).sum(-1, keepdims=True)), np.float64)


def _later(x: Floats, places: int) -> Floats:
    """What stands so many places before each."""
    moved = np.full(x.shape, -np.inf)
    moved[places:] = x[: len(x) - places]
    return moved


def _sum(*terms: Floats) -> Floats:
    total = terms[0]
    for term in terms[1:]:
        total = np.logaddexp(total, term)
    return total


def sequence(logs: Floats, labels: Any, blank: int) -> Sequence:
    """Return the loss and the posteriors of one sequence.

    Parameters
    ----------
    logs : numpy.ndarray of float64 [steps, classes]
        Log-probabilities.
    labels : array_like of int
    blank : int
    """
    steps, classes = logs.shape
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    posteriors = np.zeros((steps, classes))
    if not steps:
        return Sequence(np.inf if len(labels) else 0.0, posteriors)
    skips = np.zeros(len(states), bool)  # over the state before
    skips[2:] = (states[2:] != states[:-2]) & (states[2:] != blank)
    with np.errstate(all="ignore"):
        emitted = logs[:, states]
        before, after = (np.full(emitted.shape, -np.inf) for _ in range(2))
        before[0, :2], after[-1, -2:] = emitted[0, :2], 0.0
        for t in range(1, steps):
            x = before[t - 1]
            before[t] = _sum(x, _later(x, 1), np.where(skips, _later(x, 2), -np.inf)) + emitted[t]
        for t in reversed(range(steps - 1)):
            x = (after[t + 1] + emitted[t + 1])[::-1]
            over = np.where(skips, x[::-1], -np.inf)[::-1]
            after[t] = _sum(x, _later(x, 1), _later(over, 2))[::-1]
        whole = float(np.logaddexp.reduce(before[-1, -2:]))
        for state, share in zip(states, np.exp(before + after - whole).T, strict=True):
            posteriors[:, state] += share
    return Sequence(-whole + 0.0, posteriors)
