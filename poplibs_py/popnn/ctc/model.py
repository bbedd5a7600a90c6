"""What a CTC loss costs on a modelled machine, for many splits at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...target import Target
from ...target.types import TYPE_BYTES
from .params import LossParams

_FORWARD, _GRADIENT = 44, 84  # cycles of a label
_LAST_BLANK = 17
EXCHANGE = 100
"""Cycles of an exchange beside those of its bytes."""

_SYNC = 90


class LossSplit(NamedTuple):
    """How a loss is cut over tiles, or many ways at once.

    Attributes
    ----------
    batch, time, labels : int or ndarray
    last : int or ndarray
        1 where the last blank has a tile of its own.
    """

    batch: Any
    time: Any
    labels: Any
    last: Any

    @property
    def tiles(self) -> Any:
        """Tiles that it takes."""
        return self.batch * self.time * (self.labels + self.last)


def _cdiv(a: Any, b: Any) -> Any:
    return -(-a // b)


def loss_cycles(target: Target, params: LossParams, at: LossSplit) -> dict[str, Any]:
    """Cycles by PopLibs' names."""
    size, workers = TYPE_BYTES[params.partial_type], target.workers
    labels = _cdiv(params.labels, at.labels)
    blank = np.where((labels == params.labels // at.labels) & (at.last == 0), _LAST_BLANK, 0)
    turns = _cdiv(_cdiv(params.batch, at.batch), workers)
    steps = _cdiv(params.time, at.time) * (at.time + at.time % 2) // 2
    apart, late = at.labels > 1, at.time > 2
    sent = late * labels + 2 * apart + 2 * (apart & late)
    found = {"alphaBetaCompute": workers * (_FORWARD * labels + blank),
             "alphaBetaExchange": EXCHANGE + sent * size // 4, "alphaBetaSteps": steps,
             "gradCompute": workers * (_GRADIENT * labels + 2 * blank),
             "gradExchange": EXCHANGE + (2 + 4 * labels) * size // 4, "gradSteps": steps, "sync": _SYNC,
             "serialVertexExecutions": turns}
    step = sum(found[name] for name in ("alphaBetaCompute", "alphaBetaExchange", "gradCompute", "gradExchange"))
    return found | {"total": turns * steps * (step + 2 * _SYNC)}


def loss_bytes(params: LossParams, at: LossSplit) -> dict[str, Any]:
    """Temporary bytes of a tile by PopLibs' names."""
    size, labels = TYPE_BYTES[params.partial_type], _cdiv(params.labels, at.labels)
    batch, time = _cdiv(params.batch, at.batch), _cdiv(params.time, at.time)
    classes = params.labels + 1 if params.reduced_classes else params.classes
    gradient = batch * time * classes * size
    states = batch * (2 * labels + (labels * at.labels == params.labels)) * size
    found = {"data": batch * time * classes * TYPE_BYTES[params.data_type], "labels": 2 * batch * labels,
             "gradient": gradient, "reducedGradient": gradient * (at.labels + at.last > 1), "alphaBetaTemp": states,
             "dependencies": 3 * states}
    return found | {"total": sum(found.values())}
