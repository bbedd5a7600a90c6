"""Which compiled kernels this machine may run, and which one serves an op: levels, registry, selection."""

from ..lazy import submodules_on_demand
from .levels import available_levels, level_statuses
from .registry import FAMILIES, Kernel, Selection, kernels, select

__all__ = ["FAMILIES", "Kernel", "Selection", "available_levels", "kernels", "level_statuses", "select"]

__getattr__, __dir__ = submodules_on_demand(__name__)
