"""Products on a modelled machine: planned as PopLibs plans them, and run with the numbers of that plan."""

from .api import modelled_request, TileMatmul, compile_modelled, matmul_modelled
from .bound import matmul_modelled_bound, modelled_bound
from .count import Count
from .plan import modelled_type, plan_modelled
from .work import TileWork, work_of

__all__ = [
    "modelled_request",
    "Count",
    "TileMatmul",
    "TileWork",
    "compile_modelled",
    "matmul_modelled",
    "matmul_modelled_bound",
    "modelled_bound",
    "modelled_type",
    "plan_modelled",
    "work_of",
]
