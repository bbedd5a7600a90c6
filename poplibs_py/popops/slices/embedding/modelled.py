"""Rows read or updated by index on a modelled machine, in steps on its tiles: an embedding's plan carried out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ....planner.facts import TileMemory
from ....planner.tile_plan import Step, TilePlan, TileWork, Vertex, memory_of
from .model import EmbeddingModel
from .plan import EmbeddingPlan

_INDEX_BYTES = 4


def tiled(plan: EmbeddingPlan, lookups: int, *, update: bool) -> TilePlan:
    """Return what one call does on the tiles, and what that takes, as the planner counts it.

    Parameters
    ----------
    plan : EmbeddingPlan
    lookups : int
        Of the call: no more than planned for.
    update : bool
        Whether rows are updated, else they are read.
    """
    params = replace(plan.params, lookups=(lookups,))
    call = _Call(EmbeddingModel(plan.target, params, plan.options), plan)
    steps = tuple(call.updating() if update else call.reading())
    rows = f"{params.groups} x " * (params.groups > 1) + f"[{params.entries:,}, {params.width:,}] {params.data_type}"
    what = f"update ({plan.options.operation_for_update})" if update else "slice"
    return TilePlan(f"{what} {lookups:,} rows of {rows}", plan.target, steps, call.memory(update),
                    tuple(plan.cuts()), plan.options.memory.limit(plan.target))


class _Call:
    """A call, and what its tiles hold: all are as busy as the busiest, as PopLibs counts."""

    def __init__(self, model: EmbeddingModel, plan: EmbeddingPlan) -> None:
        self.model, self.plan, self.at = model, plan, plan.partition
        self.held = model.held(plan.partition)

    def _step(self, name: str, vertex: str, types: tuple[str, ...], elements: Any, regions: Any, cycles: Any,
              temporary: Any, received: Any = 0, times: int | None = None) -> Step:
        """What each tile does: a vertex for each of its tables, or none."""
        tables, total = int(self.held.groups), int(cycles)
        runs = ((int(elements), int(regions)),)
        vertices = (Vertex(vertex, types, runs, total // tables, "tile"),) * tables if vertex else ()
        work = TileWork(self.plan.tiles_used, int(elements) * int(regions) * tables, vertices, total, int(received))
        return Step(name, (work,), int(temporary), self.at.serial if times is None else times)

    def reading(self) -> Iterator[Step]:
        """The table to where it is read, rows looked up, and those of all parts of the table brought together."""
        model, held, at = self.model, self.held, self.at
        cycles, kind = model.slice_cycles(at), (model.params.data_type,)
        copied, joined = model.slice_received(at)
        first, second = model.slice_temporaries(at)
        elements = held.columns * model.grain
        if at.precopy:
            yield self._step("copy table", "", kind, elements, held.rows, 0, copied, copied, 1)
        yield self._step("slice", "MultiSlice", kind, elements, held.lookups, cycles["sliceFirstStageComputeCycles"],
                         first, 0 if at.precopy else copied)
        if at.sliced > 1:
            yield self._step("join", "MultiSlice", kind, elements, held.lookups_of_part,
                             cycles["sliceSecondStageComputeCycles"], second, joined)

    def updating(self) -> Iterator[Step]:
        """Rows to the parts of the table that they change, and what each copy of a part has got added up."""
        model, held, at, op = self.model, self.held, self.at, self.model.operation
        cycles = model.update_cycles(at, self.plan.ordered)
        data, partial = model.params.data_type, "float" if model.casts else model.params.data_type
        sent, gathered = model.update_received(at)
        cast, first, summed = model.update_temporaries(at)
        elements, stored = held.columns * model.grain, held.stored * model.grain
        if held.spread:
            yield self._step("rearrange", "", (data,), stored, 1, 0, held.spread, held.spread)
        if model.casts:
            yield self._step("cast", "Cast1D", (data, partial), elements, held.lookups_of_part,
                             cycles["updateCastSlicesCycles"], cast)
            yield self._step("cast", "Cast1D", (data, partial), stored, 1, cycles.get("updateCastBasePreCycles", 0),
                             cast)
        if at.parallel > 1:
            yield self._step("zero", "Fill", (partial,), elements, held.rows, cycles["updateZeroPartialsCycles"], first)
        vertex, types = ("MultiUpdate", (partial,)) if op == "NONE" else ("ScaledMultiUpdateOp", (partial, op))
        yield self._step("update", vertex, types, elements, held.lookups, cycles["updateFirstStageComputeCycles"],
                         first, sent)
        if at.parallel > 1 and op != "NONE":
            yield self._step("reduce", "StridedReduce", (op, partial, data), elements, held.rows,
                             cycles["updateReduceComputeCycles"], summed, gathered)
            last = "ScaledAddSupervisor" if op == "ADD" else "BinaryOp1DInPlace"
            yield self._step("combine", last, (data,), stored, 1, cycles["updateFinalElemwiseCycles"], summed)
        if model.casts:
            yield self._step("cast", "Cast1D", (partial, data), stored, 1, cycles.get("updateCastBasePostCycles", 0),
                             cast)
        if held.spread:
            yield self._step("rearrange", "", (data,), stored, 1, 0, held.spread, held.spread)

    def memory(self, update: bool) -> TileMemory:
        """What lies on tiles: the table and the rows on those of the plan, indices from the first of them on."""
        model, held, plan = self.model, self.held, self.plan
        p, tiles, used = model.params, plan.target.tiles, plan.tiles_used
        rows = -(-p.most_lookups * p.width * p.groups * model.size // used)
        operands, results = np.zeros(tiles, np.int64), np.zeros(tiles, np.int64)
        operands[:used] += int(held.stored) * int(held.groups) * model.grain * model.size
        (operands if update else results)[:used] += rows
        indices = p.most_lookups * p.groups
        operands[:min(tiles, -(-indices // model.indices_of_tile))] += _INDEX_BYTES * model.indices_of_tile
        most = int(model.update_bytes(plan.partition) if update else model.slice_bytes(plan.partition))
        return memory_of(plan.target, np.roll(operands, plan.start_tile), np.roll(results, plan.start_tile), most)
