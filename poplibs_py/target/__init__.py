"""Machines as data: what a tile array holds, moves and multiplies per cycle.

`Target` is one frozen, hashable record; every planner and cost model takes it as an argument and asks
nothing else about a machine. See `Target` for the presets.
"""

from ..lazy import submodules_on_demand
from .exchange import exchange_cycles, scaled_exchange_rate
from .machine import MODELLED, MOST_TILES, PRESETS, TYPE_SIZES, Target, TargetLike, modelled_machine, resolve_target
from .mapping import LinearMapping, linear_mapping
from .memory import TileBytes, memory_limit
from .workers import cast_cycles, vector_width, worker_cycles

__all__ = ["MODELLED", "MOST_TILES", "PRESETS", "TYPE_SIZES", "LinearMapping", "Target", "TargetLike", "TileBytes",
           "cast_cycles", "exchange_cycles", "linear_mapping", "memory_limit", "modelled_machine", "resolve_target",
           "scaled_exchange_rate", "vector_width", "worker_cycles"]

__getattr__, __dir__ = submodules_on_demand(__name__)
