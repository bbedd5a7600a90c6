"""Plans of CTC losses on modelled machines: PopLibs' splits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...memo import remembered
from ...planner import POPLIBS_PROPORTION, Memory
from ...planner.ladder import LEAST, Temporaries, complain
from ...planner.partitions import choices_within
from ...planner.tile_plan import Step, TilePlan, TileWork, Vertex, memory_of
from ...target import Target
from .model import EXCHANGE, LossSplit, loss_bytes, loss_cycles
from .params import LossParams

_DEFAULT = Memory(POPLIBS_PROPORTION)


@dataclass(frozen=True, kw_only=True)
class LossPlan(TilePlan):
    """How a CTC loss and its gradient run on a modelled machine. ``print(plan)`` tells it.

    Attributes
    ----------
    params : LossParams
    split : LossSplit
    costs, sizes : tuple of (str, int)
        Cycles, and temporary bytes of a tile, by PopLibs' names.
    """

    params: LossParams
    split: LossSplit
    costs: tuple[tuple[str, int], ...]
    sizes: tuple[tuple[str, int], ...]


@remembered()
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
    if limit is not None and not len(fitting):
        refused = Memory(memory.proportion, strict=True)
        complain("popnn.ctc", refused, Temporaries(int(sizes.min()), limit, of="a tile"), LEAST)
    at = LossSplit._make(column[fitting] for column in at)
    cycles = loss_cycles(target, params, at)["total"]
    order = at.last, at.labels, at.time, at.batch, at.tiles, sizes[fitting], cycles  # the last first
    first = np.lexsort(order)[0]
    best = LossSplit(int(at.batch[first]), int(at.time[first]), int(at.labels[first]), int(at.last[first]))
    return _plan(params, target, best, limit)


def _plan(params: LossParams, target: Target, at: LossSplit, limit: int | None) -> LossPlan:
    """The plan of a split: of all of them the one of fewest cycles, so no candidate lost."""
    costs = {name: int(n) for name, n in loss_cycles(target, params, at).items()}
    sizes = {name: int(n) for name, n in loss_bytes(params, at).items()}
    labels, batch, time = (-(-n // parts) for n, parts in
                           ((params.labels, at.labels), (params.batch, at.batch), (params.time, at.time)))
    steps = []
    for name, key, vertices in (("alpha and beta", "alphaBeta", ("CTCAlpha", "CTCBeta")),
                                ("gradient", "grad", ("CTCGradGivenAlpha", "CTCGradGivenBeta"))):
        cycles = costs[f"{key}Compute"]
        vertex = Vertex(" or ".join(vertices), (params.data_type, params.partial_type),
                        ((labels, 1),), cycles // target.workers, "worker")
        received = (costs[f"{key}Exchange"] - EXCHANGE) * 4
        work = TileWork(int(at.tiles), batch * time * labels, (vertex,), cycles, received)
        steps.append(Step(name, (work,), sizes["total"], costs["serialVertexExecutions"] * costs[f"{key}Steps"],
                          costs[f"{key}Exchange"] + costs["sync"]))
    of_tile = sizes["data"] + sizes["labels"]
    last = ", the last blank on a tile of its own" if at.last else ""
    decisions = (("split", f"batch {at.batch}, time {at.time}, labels {at.labels}{last}: {int(at.tiles):,} tiles"),)
    problem = (f"ctc loss {params.batch} x {params.time}, {params.labels} labels of {params.classes} classes, "
               f"{params.data_type}")
    held = np.full(int(at.tiles), of_tile, np.int64)
    return LossPlan(
        problem=problem, target=target, steps=tuple(steps), decisions=decisions,
        memory=memory_of(target, held, held[:0], sizes["total"] - of_tile), memory_limit=limit, params=params, split=at,
        costs=tuple(costs.items()), sizes=tuple(sizes.items()))


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
