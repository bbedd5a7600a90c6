"""Plans of searches for the likeliest labels on modelled machines: PopLibs' splits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isqrt

import numpy as np

from ...memo import remembered
from ...planner.tile_plan import Step, TilePlan, TileWork, Vertex, memory_of
from ...target import Target
from ...target.types import TYPE_BYTES
from .model import rank_cycles, reduce_cycles, update_cycles
from .params import InferenceParams

_MOST_EXTENDED = 5  # beams that a vertex extends
_FEW_CLASSES = 20  # that are sorted at once
_LEAST_RANKED = 6


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


@dataclass(frozen=True, kw_only=True)
class InferencePlan(TilePlan):
    """How a search for the likeliest labels runs on a modelled machine: its phases are those of one step of time.

    PopLibs counts cycles of ranking, joining and updating alone.

    Attributes
    ----------
    params : InferenceParams
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

    def over(self, time: int) -> InferencePlan:
        """Return the plan of so many steps of time."""
        return replace(self, steps=tuple(replace(step, times=time) for step in self.steps))


def _parts(extent: int, most: int) -> int:
    """The least number of parts as large as those of `most`."""
    return -(-extent // -(-extent // most))


@remembered()
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
    entries = -(-params.batch // batch)
    problem = f"ctc search of {params.batch} sequences, {classes} classes, {beams} beams"
    decisions = (("split", f"batch {batch}, extending {extend}, beams {of_beams}: {batch * taken:,} tiles"),
                 ("sort", "; ".join(f"{s.groups} groups, ranked in {s.rank}, joined in {s.reduce}" for s in stages)))
    held = np.full(batch * taken, entries * classes * TYPE_BYTES["float"], np.int64)
    return InferencePlan(
        problem=problem, target=target, decisions=decisions,
        steps=tuple(_sorting(params, target, stages, batch, entries)), memory=memory_of(target, held, held[:0], 0),
        params=params, batch=batch, extend=extend, beams=of_beams, extend_vertices=min(beams, _MOST_EXTENDED),
        sort=tuple(stages), tiles_of_entry=taken)


def _sorting(params: InferenceParams, target: Target, stages: Sequence[SortStage], batch: int,
             entries: int) -> Iterator[Step]:
    """What a step of time does: each stage ranks candidates and joins the best, then beams are updated."""
    beams, candidates = params.beams, 0
    for stage in stages:
        candidates = beams * candidates if candidates else -(-beams * params.classes // stage.groups)
        ranked = -(-candidates // stage.rank)
        for name, vertex, parts, cycles in (
                ("rank", "CTCRankCandidates", stage.rank, rank_cycles(target, candidates, ranked, beams)),
                ("reduce", "CTCReduceCandidates", stage.reduce, reduce_cycles(target, stage.rank))):
            yield _turns(name, vertex, batch * parts, candidates, cycles, entries * stage.groups_of_tile)
        candidates = stage.groups
    yield _turns("update", "CTCUpdate", batch, beams, update_cycles(target, beams), entries)


def _turns(name: str, vertex: str, tiles: int, elements: int, cycles: int, turns: int) -> Step:
    """A vertex that each tile has as often as it has turns."""
    made = Vertex(vertex, ("float",), ((elements, turns),), cycles * turns, "tile")
    return Step(name, (TileWork(tiles, elements * turns, (made,), cycles * turns),))


def _sort_groups(beams: int, classes: int) -> tuple[int, ...]:
    """Groups of candidates that each stage sorts."""
    if classes < _FEW_CLASSES:
        return (1,)
    groups, candidates = isqrt(classes), beams * classes
    while candidates - (groups - 1) * -(-candidates // groups) < beams:
        groups -= 1
    return groups, 1
