"""Products of PopLibs' ``popsparse::static_`` on modelled machines: how they are planned.

The planner of ``static_::getPartition``: the pattern is known. On this CPU such products are those of
`poplibs_py.popsparse.static`.
"""

from .api import plan_static_matmul
from .options import StaticOptions
from .params import StaticParams
from .plan import StaticPlan, TileShare

__all__ = ["StaticOptions", "StaticParams", "StaticPlan", "TileShare", "plan_static_matmul"]
