"""Programs: work tables over tiles, and the executor that runs them."""

from ._executor import Bound, Executable, Hold, guard_arenas, memory_in_use, memory_peak, temporary
from ._memo import LayoutMemo
from ._results import result_array, result_array_like
from .operands import overlaps_itself
from .results import ResultPool, clear_result_pool, result_pool, result_pool_limit

__all__ = [
    "Bound",
    "Executable",
    "Hold",
    "LayoutMemo",
    "ResultPool",
    "clear_result_pool",
    "guard_arenas",
    "memory_in_use",
    "memory_peak",
    "overlaps_itself",
    "result_array",
    "result_array_like",
    "result_pool",
    "result_pool_limit",
    "temporary",
]
