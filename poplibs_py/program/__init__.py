"""Programs: work tables over tiles, and the executor that runs them."""

from ._executor import Executable, guard_arenas, memory_in_use, memory_peak, temporary
from ._memo import LayoutMemo
from .operands import overlaps_itself

__all__ = [
    "Executable",
    "LayoutMemo",
    "guard_arenas",
    "memory_in_use",
    "memory_peak",
    "overlaps_itself",
    "temporary",
]
