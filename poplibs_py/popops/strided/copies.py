"""Programs that are parts of sequences: copies of elements as bits, sums in FP32."""

from __future__ import annotations

import numpy as np

from ...config import settings
from ...formats import FP32
from ...kernels import select
from ...program import Executable
from .lower import StridedOperand, StridedParams, lower

Strides = tuple[int, ...]


def copying(shape: tuple[int, ...], itemsize: int, source: Strides, result: Strides) -> Executable:
    """Return what copies elements of so many bytes; its operands are the source and the result.

    Parameters
    ----------
    shape : tuple of int
    itemsize : int
        1, 2, 4 or 8.
    source, result : tuple of int
        Strides in bytes.
    """
    return _program(None, shape, (StridedOperand(_word(itemsize), source),), StridedOperand(_word(itemsize), result))


def kernel_of_copies() -> str:
    """Return what serves copies and sums, for a reader."""
    return select("strided", "walk", "any").kernel.label


def adding(shape: tuple[int, ...], first: Strides, second: Strides, result: Strides) -> Executable:
    """Return what adds FP32 arrays; its operands are the two and the result, which may be one of them."""
    return _program("add", shape, (StridedOperand(FP32, first), StridedOperand(FP32, second)),
                    StridedOperand(FP32, result))


def _word(itemsize: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(f"u{itemsize}")


def _program(op: str | None, shape: tuple[int, ...], read: tuple[StridedOperand, ...],
             written: StridedOperand) -> Executable:
    params = StridedParams(op, shape, read, (written,), "nearest-even", "inf")
    return lower(params, settings.num_threads).executable
