"""Non-linearities and their gradients under PopNN's names: operations of `poplibs_py.popops`."""

from __future__ import annotations

from ..popops.elementwise.gradients import relu_grad, sigmoid_grad, tanh_grad
from ..popops.elementwise.nonlinearities import (
    elu,
    elu_grad,
    gelu_erf_grad,
    hard_sigmoid,
    hard_sigmoid_grad,
    hard_swish,
    hard_swish_grad,
    leaky_relu,
    leaky_relu_grad,
    mish,
    mish_grad,
    selu,
    selu_grad,
    softplus,
    softplus_grad,
)
from ..popops.elementwise.nonlinearities import gelu_tanh as gelu
from ..popops.elementwise.nonlinearities import gelu_tanh_grad as gelu_grad
from ..popops.elementwise.nonlinearities import leaky_relu as prelu
from ..popops.elementwise.nonlinearities import leaky_relu_grad as prelu_grad
from ..popops.elementwise.nonlinearities import leaky_relu_slope_grad as prelu_slope_grad
from ..popops.elementwise.nonlinearities import silu as swish
from ..popops.elementwise.nonlinearities import silu_grad as swish_grad
from ..popops.elementwise.unary import gelu_erf, relu, sigmoid, tanh

__all__ = ["elu", "elu_grad", "gelu", "gelu_erf", "gelu_erf_grad", "gelu_grad", "hard_sigmoid", "hard_sigmoid_grad",
           "hard_swish", "hard_swish_grad", "leaky_relu", "leaky_relu_grad", "mish", "mish_grad", "prelu", "prelu_grad",
           "prelu_slope_grad", "relu", "relu_grad", "selu", "selu_grad", "sigmoid", "sigmoid_grad", "softplus",
           "softplus_grad", "swish", "swish_grad", "tanh", "tanh_grad"]
