"""Which compiled kernels this machine may run, and which one serves an op: levels, registry, selection."""

from .levels import available_levels, level_statuses
from .registry import FAMILIES, Kernel, Selection, kernels, select

__all__ = ["FAMILIES", "Kernel", "Selection", "available_levels", "kernels", "level_statuses", "select"]
