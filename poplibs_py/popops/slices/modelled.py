"""Slices by index on a modelled machine: which plan a call has there, and how its updates are cut."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...errors import UnsupportedError
from ...ops import Placed, place_of
from ...planner import Memory
from ...planner.tile_plan import TilePlan, memory_of
from ...target import MOST_TILES, Target, TargetLike, modelled_machine
from ...target.types import type_of
from .embedding.modelled import tiled
from .embedding.options import EmbeddingOptions
from .embedding.params import TYPES, EmbeddingParams
from .embedding.plan import EmbeddingPlan, planned
from .windows_modelled import Sliced, windows_plan

_OPERATIONS = {"set": "none", "add": "add", "mul": "mul", "max": "max"}
_UPDATED = ("float", "half", "int", "unsigned int")
_MOST_LOOKUPS = 1 << 22
_NOTHING = np.zeros(0, np.int64)


class TiledRun(NamedTuple):
    """A call on a modelled machine.

    Attributes
    ----------
    plan : TilePlan
    turns, copies : int
        Of the look-ups: in how many turns they are taken, and on how many copies of the table in each.
    partial : str
        PopLibs' type of the copies' sums.
    """

    plan: TilePlan
    turns: int = 1
    copies: int = 1
    partial: str = ""


PlanOn = Callable[[Target], TiledRun | str]
"""Plans a call on a machine, or tells in words what that has no vertex for."""


def tiled_place(op: str, target: TargetLike, plan_on: PlanOn) -> tuple[TiledRun | None, Placed[TilePlan]]:
    """Return how a call is cut on the modelled machine that it is for, None on this CPU; and where it runs."""
    found = place_of(op, target, plan_on)
    return found.plan, Placed(found.plan and found.plan.plan, found.lacking, found.host)


def rows_planner(op: str, elements: Any, others: Any, sizes: tuple[int, int, int, int], update: str,
                 memory: Memory | None, plan: EmbeddingPlan | None = None) -> PlanOn:
    """Return what plans rows of tables that are read or updated.

    Parameters
    ----------
    op : str
        The op's public name.
    elements, others : Format or numpy.dtype
        Of the table, and of what is read or of the updates.
    sizes : (int, int, int, int)
        Groups, entries, elements of a row, look-ups of a group.
    update : str
        What an update does; empty where rows are read.
    memory : Memory or None
        What the call says about temporary memory.
    plan : EmbeddingPlan, optional
        That of the caller; by default one is made for the call alone.
    """
    groups, entries, width, lookups = sizes

    def plan_on(machine: Target) -> TiledRun | str:
        kind = type_of(elements)
        updated = update in ("", "set") or (kind in _UPDATED and update in _OPERATIONS)
        if kind not in TYPES or not updated:
            return f"({update}) on {elements}" if update else f"on {elements}"
        if elements != others:
            return f"of {others} on {elements}"
        if lookups > _MOST_LOOKUPS:
            return f"of more than {_MOST_LOOKUPS:,} rows"
        if not prod(sizes):
            return TiledRun(TilePlan("no rows", machine, (), memory_of(machine, _NOTHING, _NOTHING, 0)))
        made = plan
        if made is None:
            limit = memory or Memory()
            options = EmbeddingOptions(limit.proportion, not update, bool(update), _OPERATIONS.get(update, "none"),
                                       strict_memory=limit.strict)
            try:
                params = EmbeddingParams(kind, entries, width, (lookups,), groups)
                made = planned(params, options, modelled_machine(machine, MOST_TILES))
            except (UnsupportedError, ValueError) as error:
                return f"({error})"
            made = made.checked(op)
        at = made.partition
        sums = made.options.partial_type if made.options.operation_for_update == "add" else ""
        return TiledRun(tiled(made, lookups, update=bool(update)), at.serial, at.parallel, sums or kind)

    return plan_on


def windows_planner(elements: Any, others: Any, sliced: Sliced, update: str) -> PlanOn:
    """Return what plans windows at offsets, one or a loop of them.

    Parameters
    ----------
    elements, others, update
        As `rows_planner` takes them.
    sliced : Sliced
        The array, its windows, and how many of them there are.
    """
    def plan_on(machine: Target) -> TiledRun | str:
        kind = type_of(elements)
        if not kind or kind == "quarter":
            return f"on {elements}"
        if elements != others:
            return f"of {others} on {elements}"
        made = windows_plan(machine, kind, sliced, update)
        return made if isinstance(made, str) else TiledRun(made)

    return plan_on
