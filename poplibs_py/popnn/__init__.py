"""PopNN, of whose operations this version has nothing yet: plans of pooling and CTC say what they cost on machines.

Of what PopNN has, `poplibs_py.popops` holds the non-linearities relu, sigmoid, tanh and GELU, products take them as
``activation=``, and `poplibs_py.popsparse` holds the softmax of block-sparse matrices.
"""

from ..lazy import submodules_on_demand
from .ctc.api import plan_ctc_inference, plan_ctc_loss
from .pooling.api import plan_pooling

__all__ = ["plan_ctc_inference", "plan_ctc_loss", "plan_pooling"]

__getattr__, __dir__ = submodules_on_demand(__name__)
