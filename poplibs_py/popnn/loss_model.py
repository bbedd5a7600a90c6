"""What PopNN's vertices of losses, and some others, cost on a tile of a modelled machine."""

from __future__ import annotations

CONSTANT = {"ROIAlignForward": 10, "ROIAlignBackward": 10, "SelectiveScaling": 10}
"""Vertices that PopNN counts as long whatever they work on."""


def loss_cycles(data_type: str, elements: int, *, cross_entropy: bool) -> int:
    """Cycles of a worker for its share of a loss (``LossSumSquaredTransform``, ``LossCrossEntropyTransform``)."""
    each = 9 if cross_entropy else 4
    if data_type == "float":
        return 19 + cross_entropy + each * elements
    left = 3 + ((11 if cross_entropy else 6) if elements % 2 else 0)
    return 19 + cross_entropy + each * (elements // 2) + left


def accuracy_cycles(batch: int) -> int:
    """Cycles of a worker to count right classes (``CalcAccuracy``)."""
    return 14 + 4 * batch
