"""Plans of CTC on modelled machines: PopLibs' splits of a loss and of a search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

import numpy as np

from ...errors import MemoryLimitError
from ...planner import POPLIBS_PROPORTION, Explanation, Memory
from ...planner.partitions import choices_within
from ...target import Target
from .model import LossSplit, loss_bytes, loss_cycles
from .params import InferenceParams, LossParams

__all__ = ["InferencePlan", "LossPlan", "SortStage", "planned_inference", "planned_loss"]

_DEFAULT = Memory(POPLIBS_PROPORTION)
_MOST_EXTENDED = 5  # beams that a vertex extends
_FEW_CLASSES = 20  # that are sorted at once
_LEAST_RANKED = 6


@dataclass(frozen=True)
class LossPlan:
    """How a CTC loss and its gradient run on a modelled machine. ``print(plan)`` tells it.

    Attributes
    ----------
    params : LossParams
    target : Target
    split : LossSplit
    costs, sizes : tuple of (str, int)
        Cycles, and temporary bytes of a tile, by PopLibs' names.
    """

    params: LossParams
    target: Target
    split: LossSplit
    costs: tuple[tuple[str, int], ...]
    sizes: tuple[tuple[str, int], ...]

    @property
    def cycles(self) -> int:
        """Modelled cycles."""
        return dict(self.costs)["total"]

    @property
    def temp_bytes(self) -> int:
        """Most temporary bytes on a tile."""
        return dict(self.sizes)["total"]

    @property
    def tiles_used(self) -> int:
        """Tiles that it takes."""
        return int(self.split.tiles)

    def explain(self) -> Explanation:
        """Return what was decided: of all splits the one of fewest cycles, so no candidate is listed."""
        p = self.params
        problem = f"ctc loss {p.batch} x {p.time}, {p.labels} labels of {p.classes} classes, {p.data_type}"
        return Explanation(f"{problem} on {self.target.name}", dict(self._decisions()))

    def _decisions(self) -> Iterator[tuple[str, str]]:
        at = self.split
        last = ", the last blank on a tile of its own" if at.last else ""
        yield "split", f"batch {at.batch}, time {at.time}, labels {at.labels}{last}: {self.tiles_used:,} tiles"
        yield "cycles", f"{self.cycles:,}"
        yield "memory", f"{self.temp_bytes:,} temporary bytes on a tile"

    def __str__(self) -> str:
        return self.explain().words()


@lru_cache(maxsize=1024)
def planned_loss(params: LossParams, target: Target, memory: Memory = _DEFAULT) -> LossPlan:
    """Return PopLibs' plan of a loss.

    Raises
    ------
    MemoryLimitError
        If none keeps to the limit: there PopLibs plans nothing.
    """
    at, limit = _every_split(params, target.tiles), memory.limit(target)
    sizes = loss_bytes(params, at)["total"]
    fitting = np.flatnonzero(sizes <= limit) if limit is not None else np.arange(len(sizes))
    if not len(fitting):
        raise MemoryLimitError(f"popnn.ctc: available_memory_proportion={memory.proportion} leaves {limit:,} bytes; "
                               f"the least that any plan takes is {int(sizes.min()):,}")
    at = LossSplit._make(column[fitting] for column in at)
    cycles = loss_cycles(target, params, at)["total"]
    order = at.last, at.labels, at.time, at.batch, at.tiles, sizes[fitting], cycles  # the last first
    first = np.lexsort(order)[0]
    best = LossSplit(int(at.batch[first]), int(at.time[first]), int(at.labels[first]), int(at.last[first]))
    costs, held = loss_cycles(target, params, best), loss_bytes(params, best)
    return LossPlan(params, target, best, tuple((name, int(n)) for name, n in costs.items()),
                    tuple((name, int(n)) for name, n in held.items()))


def _every_split(params: LossParams, tiles: int) -> LossSplit:
    """Splits that leave no part empty and take no more tiles than there are."""
    options = [np.arange(1, min(extent, tiles) + 1) for extent in (params.batch, params.time, params.labels)]
    for place, extent in ((1, params.time), (2, params.labels)):
        parts = options[place]
        options[place] = parts[extent > -(-extent // parts) * (parts - 1)]
    batch, time, labels = (np.concatenate([column, column]) for column in choices_within(tiles, options))
    every = LossSplit(batch, time, labels, np.repeat((0, 1), len(batch) // 2))
    few = every.tiles <= tiles
    return LossSplit._make(column[few] for column in every)


@dataclass(frozen=True)
class SortStage:
    """A stage that finds the best candidates.

    Attributes
    ----------
    groups, groups_of_tile : int
        That are sorted apart, and those that share a tile.
    rank, reduce : int
        Parts of a group that are ranked, and of the result that are joined.
    """

    groups: int
    groups_of_tile: int
    rank: int
    reduce: int


@dataclass(frozen=True)
class InferencePlan:
    """How a search for the likeliest labels runs on a modelled machine.

    Attributes
    ----------
    params : InferenceParams
    target : Target
    batch : int
        Parts of the batch.
    extend, beams : int
        Parts of the classes that extend beams, and of the beams where they are copied, merged, selected and written.
    extend_vertices : int
        Beams that a tile extends side by side.
    sort : tuple of SortStage
    tiles_of_entry : int
        Tiles that an entry of the batch takes.
    """

    params: InferenceParams
    target: Target
    batch: int
    extend: int
    beams: int
    extend_vertices: int
    sort: tuple[SortStage, ...]
    tiles_of_entry: int

    @property
    def tiles_used(self) -> int:
        """Tiles that it takes."""
        return self.batch * self.tiles_of_entry


def _parts(extent: int, most: int) -> int:
    """The least number of parts as large as those of `most`."""
    return -(-extent // -(-extent // most))


@lru_cache(maxsize=1024)
def planned_inference(params: InferenceParams, target: Target) -> InferencePlan:
    """Return PopLibs' plan of a search."""
    batch = -(-params.batch // max(1, -(-params.batch // target.tiles)))
    tiles, beams, classes = target.tiles // batch, params.beams, params.classes
    extend, of_beams = _parts(classes - 1, tiles), _parts(beams, tiles)
    stages, candidates = list[SortStage](), 0
    for groups in _sort_groups(beams, classes):
        candidates = beams * candidates if candidates else -(-beams * classes // groups)
        each = max(1, tiles // groups)
        rank = -(-candidates // max(_LEAST_RANKED, -(-candidates // each)))
        stages.append(SortStage(groups, -(-groups // tiles), rank, _parts(beams, each)))
        candidates = groups
    first = stages[0]  # later ones may take more tiles, which PopLibs does not count
    taken = max(extend, of_beams, -(-first.groups // first.groups_of_tile) * max(first.rank, first.reduce))
    return InferencePlan(params, target, batch, extend, of_beams, min(beams, _MOST_EXTENDED), tuple(stages), taken)


def _sort_groups(beams: int, classes: int) -> tuple[int, ...]:
    """Groups of candidates that each stage sorts."""
    if classes < _FEW_CLASSES:
        return (1,)
    groups, candidates = isqrt(classes), beams * classes
    while candidates - (groups - 1) * -(-candidates // groups) < beams:
        groups -= 1
    return groups, 1
