"""What pooling costs on a tile of a modelled machine: its vertices' cycles, and those that the planner reckons with."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...target import Target
from ...target.types import vector_of
from .params import PoolParams

_ROW, _POSITION = 15, 23


def _zeroed(target: Target, worker: int, results: Any, loads: Any) -> Any:
    """Loads that a worker sets to their first value, in each group."""
    each = results * loads // target.workers
    rest = results - target.workers * each  # unsigned in PopLibs: where it is negative, every worker has one more
    return 4 + each + ((rest < 0) | (worker < rest))


def planned_cycles(target: Target, params: PoolParams, batch: Any, field: Sequence[Any], groups: Any, per_group: Any,
                   stride: int) -> Any:
    """Cycles of a tile as the planner reckons, for many shares at once.

    Parameters
    ----------
    target, params
    batch, field, groups, per_group : int or ndarray
        Of the result that a tile makes: batch, extents, groups of channels, channels of a group.
    stride : int
        Results that share a step of the last dimension.
    """
    loops, kernel = params.on_tiles.loops, prod(params.kernel)
    loads, width = per_group // vector_of(target, params.data_type), field[-1]
    total = batch * prod(field)
    begin = loops.enter + loops.begin + 11
    position = _POSITION + groups * (2 + loads * (3 + loops.load - loops.step)) + (groups - 1) * loops.group
    slowest: Any = 0
    for worker in range(target.workers):
        low, high = worker * total // target.workers, (worker + 1) * total // target.workers
        first = np.minimum(high - low, width - low % width)
        whole, last = (high - low - first) // width, (high - low - first) % width
        pieces = (first > 0) + whole + (last > 0)
        steps = -(-first // stride) + whole * -(-width // stride) - (-last // stride)
        rows = begin + pieces * (_ROW + kernel * position) + kernel * groups * loads * loops.step * steps
        cycles = 27 + _zeroed(target, worker, total // loads, loads) * groups + np.where(high > low, rows, 1)
        slowest = np.maximum(slowest, cycles)
    return 13 + target.workers * slowest


def least_cycles_of(target: Target, params: PoolParams, batch: Any, field: Sequence[Any], groups: Any, per_group: Any,
                    stride: int) -> Any:
    """No more than `planned_cycles` of the same."""
    loops, kernel = params.on_tiles.loops, prod(params.kernel)
    loads = per_group // vector_of(target, params.data_type)
    longest = -(-batch * prod(field) // target.workers)
    rows, steps = -(-longest // field[-1]), -(-longest // stride)
    position = _POSITION + groups * (2 + loads * (3 + loops.load - loops.step)) + (groups - 1) * loops.group
    return target.workers * (rows * (_ROW + kernel * position) + kernel * groups * loads * loops.step * steps)
