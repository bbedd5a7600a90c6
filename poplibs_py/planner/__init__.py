"""Planning without knowing the op: search, objectives, the memory ladder, constraints, cache, trade-offs.

An op brings its cost model (see `poplibs_py.poplin.convolution`); the planner finds the best split of its work.
"""

from poplibs_py.planner.cache import PlanCache
from poplibs_py.planner.constraints import PlanConstraints
from poplibs_py.planner.ladder import climb
from poplibs_py.planner.objective import UNBOUNDED, Objective

__all__ = ["UNBOUNDED", "Objective", "PlanCache", "PlanConstraints", "climb"]
