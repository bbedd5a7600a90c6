"""What vertices of popops cost that serve one op each: their cycles on a tile of a modelled machine, or on a worker."""

from __future__ import annotations

from ..target import Target

__all__ = ["CONSTANT", "normalise_image_cycles", "spline_basis_cycles", "spline_weighting_cycles"]

CONSTANT = {"CheckAccuracyWhenCast": 30, "CircBufIncrIndex": 8, "CircOffset": 10, "ForLoopCounter": 43}
"""Vertices that take as long whatever they work on."""


def normalise_image_cycles(target: Target, data_type: str, pixels: int) -> int:
    """Cycles of a tile to normalise pixels of three channels to four (``NormaliseImage``)."""
    enter, each = {"unsigned char": (29, 8), "half": (52, 11), "float": (52, 17)}[data_type]
    return target.workers * (enter + each * (pixels // 8 + (pixels % 8 > 1)))


def spline_basis_cycles(data_type: str, elements: int) -> int:
    """Cycles of a worker for so many elements of a B-spline's basis (``SplineBasis``)."""
    return 30 * elements * (2 if data_type == "float" else 1)


def spline_weighting_cycles(data_type: str, channels: int, splines: int, elements: int) -> int:
    """Cycles of a worker to weight `channels` inputs by so many splines (``SplineWeighting``)."""
    return 15 * channels * splines * elements * (2 if data_type == "float" else 1)
