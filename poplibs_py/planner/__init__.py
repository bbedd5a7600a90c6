"""Planning without knowing the op: search, objectives, the memory ladder, constraints, cache, trade-offs.

An op brings its cost model (see `poplibs_py.poplin.convolution`); the planner finds the best split of its work.
"""

from .cache import PlanCache
from .constraints import PlanConstraints
from .explain import Considered, Explanation
from .fit import Fit, fit
from .ladder import climb
from .objective import UNBOUNDED, Objective
from .preplan import preplan
from .sweep import Sweep, SweepPoint, sweep

__all__ = [
    "UNBOUNDED",
    "Considered",
    "Explanation",
    "Fit",
    "Objective",
    "PlanCache",
    "PlanConstraints",
    "Sweep",
    "SweepPoint",
    "climb",
    "fit",
    "preplan",
    "sweep",
]
