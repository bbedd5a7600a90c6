"""Planning without knowing the op: search, objectives, the memory ladder, constraints, cache, trade-offs.

An op brings its cost model, a subclass of the compiled `Search` (see `poplibs_py.poplin.tile_conv`), and the schema
of its constraints; the planner finds the best split of its work.
"""

from ..lazy import submodules_on_demand
from .cache import PlanCache
from .constraints import PlanConstraints
from .deadline import time_limit
from .explain import Considered, Explanation
from .facts import PlanFacts, facts_of
from .fit import Fit, fit
from .ladder import POPLIBS_PROPORTION, Climbed, Memory, Temporaries, climb, first_within, within
from .objective import UNLIMITED, Objective
from .preplan import preplan
from .summary import PlanSummary
from .sweep import Sweep, SweepPoint, sweep

__all__ = ["POPLIBS_PROPORTION", "UNLIMITED", "Climbed", "Considered", "Explanation", "Fit", "Memory", "Objective",
           "PlanCache", "PlanConstraints", "PlanFacts", "PlanSummary", "Sweep", "SweepPoint",
           "Temporaries", "climb", "facts_of", "first_within", "fit", "preplan", "sweep", "time_limit", "within"]

__getattr__, __dir__ = submodules_on_demand(__name__)
