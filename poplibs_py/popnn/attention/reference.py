"""Attention in float64, written as it is defined."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import Floats

Truths = np.ndarray[Any, np.dtype[np.bool_]]


def counted(queries: int, keys: int, *, causal: bool, query_offset: int) -> Truths:
    """Return which keys count for which queries: all, or those that are not after them."""
    places = np.arange(queries)[:, None] + query_offset
    return np.broadcast_to(np.arange(keys) <= places if causal else np.bool_(True), (queries, keys))


def attend(scores: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
    """Return results, weights and logarithms of sums of exponentials, of scores of which minus infinity does not count.

    Parameters
    ----------
    scores : numpy.ndarray of float64 [..., queries, keys]
    v : numpy.ndarray of float64 [..., keys, elements]
    """
    with np.errstate(all="ignore"):
        top = np.max(scores, -1, keepdims=True, initial=-np.inf)
        top = np.where(top == -np.inf, 0.0, top)
        powers = np.exp(scores - top)
        total = powers.sum(-1, keepdims=True)
        weights = np.where(total == 0, 0.0, powers / np.where(total == 0, 1.0, total))
        return weights @ v, weights, (top + np.log(total))[..., 0]
