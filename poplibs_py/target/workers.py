"""Cycles of work shared by the workers of one tile."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral

from ..checks import all_of, instance, whole
from .machine import Target

_CAST_OVERHEAD = 26  # worker cycles to enter and leave the cast loop


def vector_width(target: Target, data_type: str) -> int:
    """Elements of `data_type` in one load of a tile."""
    instance("target", target, Target, "a Target")
    return target.vector_width(data_type)


def worker_cycles(target: Target, cycles: Iterable[int]) -> int:
    """Tile cycles until the slowest of the workers is done.

    Workers are issued round-robin, so each of their cycles takes `target.workers` of the tile's.
    """
    instance("target", target, Target, "a Target")
    return target.workers * max(all_of("cycles", cycles, Integral, "whole numbers"), default=0)


def cast_cycles(target: Target, elements: int, data_type: str, result_type: str) -> int:
    """Tile cycles to cast `elements` from type `data_type` to type `result_type`.

    Examples
    --------
    >>> from poplibs_py.target import Target, cast_cycles
    >>> cast_cycles(Target.gc200(), 48, "float", "half")
    180
    """
    instance("target", target, Target, "a Target")
    whole("elements", elements, 0, 1 << 62)
    each = -(-elements // target.workers)
    vectors = max(-(-each // target.vector_width(data_type)), -(-each // target.vector_width(result_type)))
    return (vectors + _CAST_OVERHEAD) * target.workers
