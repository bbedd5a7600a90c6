"""Programs: work tables over tiles, and the executor that runs them."""

from ._executor import Executable, memory_in_use, memory_peak

__all__ = ["Executable", "memory_in_use", "memory_peak"]
