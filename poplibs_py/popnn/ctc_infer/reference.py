"""Decoding, in float64 and sums of logarithms: prefixes as tuples in a dictionary."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...formats import Floats

Prefix = tuple[int, ...]


class Decoded(NamedTuple):
    """What a search found.

    Attributes
    ----------
    paths : list of (tuple of int, float)
        Labels and their log-probabilities, the likeliest first.
    margins : list of (float, float)
        Of each decision, how much it was clear by, and how far below the step's best it was.
    """

    paths: list[tuple[Prefix, float]]
    margins: list[tuple[float, float]]


def best_path(values: Floats, blank: int) -> tuple[Prefix, list[int]]:
    """Return the labels of the likeliest class of each step, the first of equal ones, and these classes."""
    classes = [int(k) for k in values.argmax(-1)] if len(values) else []
    kept = [k for i, k in enumerate(classes) if k != blank and (i == 0 or classes[i - 1] != k)]
    return tuple(kept), classes


def beam_search(logs: Floats, blank: int, beams: int, paths: int, threshold: float = np.inf,
                scorer: Callable[[Prefix], Any] | None = None) -> Decoded:
    """Return the likeliest labels that a search finds.

    Parameters
    ----------
    logs : numpy.ndarray of float64 [steps, classes]
        Log-probabilities.
    blank, beams, paths : int
    threshold : float, optional
    scorer : callable, optional
    """
    now: dict[Prefix, list[float]] = {(): [0.0, -np.inf]}
    margins: list[tuple[float, float]] = []
    for row in logs:
        made: dict[Prefix, list[float]] = {}
        for prefix, (b, n) in now.items():
            total = np.logaddexp(b, n)
            stays = made.setdefault(prefix, [-np.inf, -np.inf])
            stays[0] = np.logaddexp(stays[0], total + row[blank])
            if prefix:
                stays[1] = np.logaddexp(stays[1], n + row[prefix[-1]])
            bonus = np.zeros(len(row)) if scorer is None else np.asarray(scorer(prefix), np.float64)
            for k in range(len(row)):
                if k != blank:
                    longer = made.setdefault((*prefix, k), [-np.inf, -np.inf])
                    before = b if prefix and prefix[-1] == k else total
                    longer[1] = np.logaddexp(longer[1], before + row[k] + bonus[k])
        ranked = sorted(((float(np.logaddexp(x[0], x[1])), prefix) for prefix, x in made.items()), reverse=True)
        ranked = [one for one in ranked if one[0] > -np.inf]
        kept = [one for one in ranked[:beams] if one[0] >= ranked[0][0] - threshold]
        if len(ranked) > beams:
            margins.append((ranked[beams - 1][0] - ranked[beams][0], ranked[0][0] - ranked[beams][0]))
        margins += [(abs(ranked[0][0] - threshold - score), threshold) for score, _ in ranked if threshold < np.inf]
        now = {prefix: made[prefix] for _, prefix in kept}
    ranked = sorted(((float(np.logaddexp(x[0], x[1])), prefix) for prefix, x in now.items()), reverse=True)
    margins += [(one[0] - other[0], ranked[0][0] - other[0])
                for one, other in pairwise(ranked[: paths + 1])]
    return Decoded([(prefix, score) for score, prefix in ranked[:paths]], margins)
