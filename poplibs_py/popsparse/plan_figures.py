"""What the summaries of the sparse planners' plans share: machine and options in words, rates."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..formats import Array
from ..ops.planner_options import PlannerOptions
from ..planner import Explanation, PlanSummary
from ..planner.facts import Load, PlanFacts, TileMemory
from ..planner.summary import AxisShare, Phase
from ..poplin.tile_conv.summary import machine_in_words, peak_macs
from ..target import Target


def options_in_words(options: PlannerOptions) -> dict[str, str]:
    """The proportion of memory, and whatever else is not at its default."""
    said = {key: str(value) for key, value in options.to_dict().items() if key != "availableMemoryProportion"}
    return {"proportion": f"{options.available_memory_proportion:g}", **said}


def summary_of(plan: Any, problem: str, axes: tuple[AxisShare, ...], passes: dict[str, tuple[Phase, ...]], *,
               decisions: dict[str, str], exchange_cycles: int, macs: int, tile_bytes: tuple[int, int],
               tile_macs: tuple[int, int]) -> PlanSummary:
    """Return the summary of a sparse product's plan for a modelled machine.

    Parameters
    ----------
    plan : StaticPlan or FullyConnectedPlan
    problem : str
    axes : tuple of AxisShare
    passes : dict of str to tuple of Phase
    decisions : dict of str to str
    exchange_cycles : int
    macs : int
        Multiplications of stored values: each counts as two operations.
    tile_bytes : (int, int)
        Of operands, and of the result.
    tile_macs : (int, int)
        Of the tile that has most, and of the one that has least.
    """
    target, kind, (operands, result) = plan.target, plan.params.data_type, tile_bytes
    rate = 2e-12 * target.clock_hz
    return PlanSummary(
        problem, kind, machine_in_words(target), options_in_words(plan.options), decisions, axes, passes, plan.cycles,
        plan.cycles / target.clock_hz, rate * macs / plan.cycles if plan.cycles else 0.0,
        rate * target.tiles * peak_macs(target, kind), exchange_cycles, operands, result, plan.temporaries,
        operands + result + plan.temp_bytes, target.bytes_per_tile, *tile_macs)


def facts_of_tiles(said: Explanation, target: Target, held: Array, loads: dict[str, Load]) -> PlanFacts:
    """Return what a report keeps of a plan that says what its tiles hold, and how evenly they are loaded."""
    none = np.zeros_like(held)
    return PlanFacts(said.problem, target.name, decisions=dict(said.decisions), clock_hz=target.clock_hz,
                     tiles=target.tiles, tile_bytes=target.bytes_per_tile, loads=loads,
                     memory=TileMemory.of(operands=held, results=none, temporaries=none))
