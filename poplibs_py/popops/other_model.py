"""What vertices of popops cost that serve one op each: their cycles on a tile of a modelled machine, or on a worker."""

from __future__ import annotations

from collections.abc import Sequence

from ..target import Target
from .model import vector_of

__all__ = ["CONSTANT", "hadamard_cycles", "heap_sort_cycles", "iota_cycles", "normalise_image_cycles",
           "scalar_multiply_1d_cycles", "scalar_multiply_2d_cycles", "spline_basis_cycles", "spline_weighting_cycles"]

CONSTANT = {"CheckAccuracyWhenCast": 30, "CircBufIncrIndex": 8, "CircOffset": 10, "ForLoopCounter": 43}
"""Vertices that take as long whatever they work on."""


def hadamard_cycles(target: Target, data_type: str, regions: Sequence[int]) -> int:
    """Cycles of a worker to multiply its regions element by element (``HadamardProd``)."""
    return 5 + sum(6 + 2 * -(-n // vector_of(target, data_type)) for n in regions)


def iota_cycles(target: Target, data_type: str, regions: Sequence[int]) -> int:
    """Cycles of a worker to count through its regions (``Iota``)."""
    return 10 + sum(4 + 3 * -(-n // vector_of(target, data_type)) for n in regions)


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


def heap_sort_cycles(elements: int, *, values: bool) -> int:
    """Cycles of a worker to sort keys, or keys and values (``HeapSortVertex``, ``HeapSortVertexKV``)."""
    depth = elements.bit_length() - 1
    return (16 if values else 8) * (19 * elements * depth + 6 * elements + 2)


def _products(vectors: int) -> int:
    return 1 + (7 + 5 * (vectors - 1) if vectors else 0)


def _products_left(elements: int) -> int:
    return 8 + 5 * (elements > 1) + 6 * (elements % 2) if elements else 1


def scalar_multiply_1d_cycles(target: Target, elements: int) -> int:
    """Cycles of a tile to multiply halves by a float (``ScalarMultiply1D``)."""
    workers = target.workers
    last = (elements % (4 * workers) - 1) // 4
    return workers * (51 + max(_products((elements + 4 * (workers - 1 - w)) // (4 * workers))
                               + _products_left(elements % 4 if w == last else 0) for w in range(workers)))


def scalar_multiply_2d_cycles(regions: Sequence[int], *, in_place: bool = False) -> int:
    """Cycles of a worker to multiply regions of halves by a float (``ScalarMultiply2D``)."""
    return (36 if in_place else 37) + sum(17 + _products(n // 4) + _products_left(n % 4) for n in regions)
