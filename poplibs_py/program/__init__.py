"""Programs: work tables over tiles, and the executor that runs them."""

from ._executor import Executable, memory_in_use, memory_peak
from ._memo import LayoutMemo
from .operands import overlaps_itself

__all__ = ["Executable", "LayoutMemo", "memory_in_use", "memory_peak", "overlaps_itself"]
