"""PopNN: softmax, and non-linearities, which are operations of PopOps too; plans of pooling and CTC.

Products take some non-linearities as ``activation=``, and `poplibs_py.popsparse` holds
the softmax of block-sparse matrices.
"""

from ..lazy import submodules_on_demand
from . import nonlinearities as _nonlinearities
from .ctc.api import plan_ctc_inference, plan_ctc_loss
from .nonlinearities import *  # noqa: F403
from .pooling.api import plan_pooling
from .softmax import log_softmax, log_softmax_grad, scaled_softmax_stable, softmax, softmax_grad
from .softmax import softmax as softmax_stable

__all__ = ["log_softmax", "log_softmax_grad", "plan_ctc_inference", "plan_ctc_loss", "plan_pooling",
           "scaled_softmax_stable", "softmax", "softmax_grad", "softmax_stable", *_nonlinearities.__all__]

__getattr__, __dir__ = submodules_on_demand(__name__)
