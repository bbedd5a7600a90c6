"""What the summaries of the sparse planners' plans share: machine and options in words, rates."""

from __future__ import annotations

from ..ops.planner_options import PlannerOptions
from ..poplin.tile_conv.summary import peak_macs
from ..target import Target


def options_in_words(options: PlannerOptions) -> dict[str, str]:
    """The proportion of memory, and whatever else is not at its default."""
    said = {key: str(value) for key, value in options.to_dict().items() if key != "availableMemoryProportion"}
    return {"proportion": f"{options.available_memory_proportion:g}", **said}


def teraflops(macs: int, cycles: int, target: Target) -> float:
    """Useful arithmetic for each second: two operations for each multiplication of a stored value."""
    return 2e-12 * macs * target.clock_hz / cycles if cycles else 0.0


def peak_teraflops(target: Target, data_type: str) -> float:
    """The most that the machine's fastest vertex for a type does."""
    return 2e-12 * target.tiles * target.clock_hz * peak_macs(target, data_type)
