"""Axes: those that a call names, those of several operands that are walked as one, and strides in C order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

from ..checks import all_of, whole
from ..errors import bad_argument


def axes_of(axes: Any, rank: int, name: str = "axes") -> tuple[int, ...]:
    """Return the axes that a call names, ascending; all by default."""
    if axes is None:
        return tuple(range(rank))
    several = not isinstance(axes, (int, np.integer))
    named = all_of(name, axes, (int, np.integer), "an axis, a sequence of them, or None") if several else [axes]
    found = [whole(name, axis, -rank, rank - 1) % rank if rank else _no_axis(name, axis) for axis in named]
    if len(set(found)) < len(found):
        raise bad_argument(name, axes, "axes that are named once")
    return tuple(sorted(found))


def _no_axis(name: str, axis: object) -> NoReturn:
    raise bad_argument(name, axis, "none: the operand has no axis")


def merged_axes(axes: Iterable[tuple[int, tuple[int, ...]]]) -> list[tuple[int, tuple[int, ...]]]:
    """Return axes, extents and each operand's strides, with neighbours that are walked as one taken together.

    Those of one element are left out.

    Examples
    --------
    >>> merged_axes([(2, (24, 12)), (3, (8, 4)), (1, (0, 0)), (2, (4, 0))])
    [(6, (8, 4)), (2, (4, 0))]
    """
    made: list[tuple[int, tuple[int, ...]]] = []
    for extent, steps in axes:
        if extent == 1:
            continue
        if made and all(outer == extent * inner for outer, inner in zip(made[-1][1], steps, strict=True)):
            extent *= made.pop()[0]
        made.append((extent, steps))
    return made


def contiguous_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the bytes from an element to the next along each axis of an array in C order.

    Examples
    --------
    >>> contiguous_strides((2, 3, 4), 2)
    (24, 8, 2)
    """
    return tuple(itemsize * prod(shape[axis + 1:]) for axis in range(len(shape)))
