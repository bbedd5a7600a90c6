"""What is fastest for a softmax, as measured: kernels, threads, sums side by side."""

from __future__ import annotations

import math

from ...formats import FORMATS
from ...kernels.registry import Selection, select
from ...program import threads_for
from ...target import Target
from .params import SoftmaxParams

WORK_FOR_A_THREAD = 1 << 16
"""Elements below which a second thread costs more than it gains."""

_LEAST_LANES = 128
_MANY_ELEMENTS = 256  # a last vector of each block that is partly empty costs less than room for 16 blocks


def threads_of(p: SoftmaxParams, target: Target) -> int:
    """Return how many threads a softmax is worth."""
    return threads_for(p.elements, WORK_FOR_A_THREAD, target.tiles)


def selected(p: SoftmaxParams) -> Selection:
    """Return the kernel, with the reasons against the others: one for a format where all are of that."""
    first, _ = p.formats[0]
    same = first in FORMATS and all(format == first for format, _ in p.formats)
    return select("softmax", p.op, first.name if same else "any")


def lanes_of(area: int) -> int:
    """Floats of an accumulator: a block of many elements, or the fewest that make 128 or more and whole vectors."""
    if area >= _MANY_ELEMENTS:
        return area
    unit = area * (16 // math.gcd(area, 16))
    return unit * -(-_LEAST_LANES // unit)
