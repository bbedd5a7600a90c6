"""PopLibs' fully connected layers with sparse weights on modelled machines: how they are planned.

The planner of ``popsparse::dynamic``: the pattern is not known, only how many blocks it has. On this CPU such layers
and products are those of `poplibs_py.popsparse.dynamic`.
"""

from .api import plan_fully_connected
from .model import Candidate
from .options import FullyConnectedConstraints, FullyConnectedOptions
from .params import FullyConnectedParams
from .plan import FullyConnectedPlan

__all__ = ["Candidate", "FullyConnectedConstraints", "FullyConnectedOptions", "FullyConnectedParams",
           "FullyConnectedPlan", "plan_fully_connected"]
