"""Products on a modelled machine: planned as PopLibs plans them, and run with the numbers of that plan."""

from .api import compile_modelled, count_modelled, interpret_modelled, modelled_request
from .bound import matmul_modelled_bound, modelled_bound
from .count import Count
from .plan import modelled_type, plan_modelled
from .work import TileWork

__all__ = [
    "Count",
    "TileWork",
    "compile_modelled",
    "count_modelled",
    "interpret_modelled",
    "matmul_modelled_bound",
    "modelled_bound",
    "modelled_request",
    "modelled_type",
    "plan_modelled",
]
