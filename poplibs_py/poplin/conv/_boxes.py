"""Boxes of positions, or taps, of a convolution: those that are done at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..gemm.field import FieldDim


@dataclass(frozen=True)
class Box:
    """Positions, or taps, that are done at once."""

    first: tuple[int, ...]
    count: tuple[int, ...]
    in_place: bool = False
    empty: bool = False

    @property
    def size(self) -> int:
        """How many."""
        return math.prod(self.count)


def cut(box: Box, count: Sequence[int]) -> list[Box]:
    """A box in boxes of at most so many, in order."""
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), ())]
    for first, n, most in zip(box.first, box.count, count, strict=True):
        found = [((*a, first + i), (*b, min(most, n - i))) for a, b in found for i in range(0, n, max(1, most))]
    return [replace(box, first=a, count=b) for a, b in found]


def banded(boxes: Sequence[Box], positions: int) -> list[Box]:
    """Boxes cut so that each lies in one band of so many positions of the first dimension, band by band."""
    found = []
    for box in boxes:
        low, end = box.first[0], box.first[0] + box.count[0]
        for at in range(low // positions * positions, end, positions):
            first, last = max(low, at), min(end, at + positions)
            found.append(replace(box, first=(first, *box.first[1:]), count=(last - first, *box.count[1:])))
    return sorted(found, key=lambda box: box.first[0] // positions)


def span(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(a for a, _ in ranges), tuple(b - a for a, b in ranges)


def around(inner: Sequence[tuple[int, int]], outer: Sequence[tuple[int, int]], empty: bool) -> Iterator[Box]:
    """Boxes of what is in the outer ranges and not in the inner ones."""
    for d, ((low, high), (first, end)) in enumerate(zip(inner, outer, strict=True)):
        for side in ((first, low), (high, end)):
            yield Box(*span([*inner[:d], side, *outer[d + 1:]]), empty=empty)


def inside(dim: FieldDim, over_taps: bool) -> tuple[int, int]:
    """First and end of the positions whose taps all meet elements, or of the taps that all positions meet so."""
    n, step, others, other_step = dim.positions, dim.step, dim.taps, dim.tap_step
    if over_taps:
        n, step, others, other_step = others, other_step, n, step
    reach = (others - 1) * other_step
    low, high = dim.first + min(0, reach), dim.first + max(0, reach)
    if not others or n == 0:
        return 0, 0
    if step < 0:
        low, high, end, step = dim.end - 1 - high, dim.end - 1 - low, dim.end, -step
    end = dim.end
    if step == 0:
        return (0, n) if low >= 0 and high < end else (0, 0)
    first = max(0, -(low // step))
    last = min(n, (end - 1 - high) // step + 1)
    if not over_taps:
        first, last = max(first, dim.first_valid), min(last, dim.end_valid)
    return (first, last) if last > first else (0, 0)


def halves(n: int) -> Iterator[int]:
    """Return a number, half of it and so on down to 1."""
    while n > 1:
        yield n
        n = -(-n // 2)
    yield 1
