"""PopNN: non-linearities, which are operations of PopOps too; plans of pooling and CTC say what they cost on machines.

It has nothing yet but these. Products take some non-linearities as ``activation=``, and `poplibs_py.popsparse` holds
the softmax of block-sparse matrices.
"""

from ..lazy import submodules_on_demand
from . import nonlinearities as _nonlinearities
from .ctc.api import plan_ctc_inference, plan_ctc_loss
from .nonlinearities import *  # noqa: F403
from .pooling.api import plan_pooling

__all__ = ["plan_ctc_inference", "plan_ctc_loss", "plan_pooling", *_nonlinearities.__all__]

__getattr__, __dir__ = submodules_on_demand(__name__)
