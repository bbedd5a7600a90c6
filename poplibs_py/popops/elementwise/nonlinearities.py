"""Non-linearities of neural networks beside those of `unary`, and their gradients: rows of `ELEMENTWISE`.

`poplibs_py.popnn` has them under PopNN's names. The bodies are in ``src_cython/kernels/elementwise/nonlinearities.h``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...target import TargetLike
from . import nonlinearity_reference as exactly
from .table import ELEMENTWISE, elementwise

_LOST = 2.0**-36
"""How much of parts that cancel may be lost: the polynomials in float64 are as good as FP32 needs."""


@elementwise("popnn::swish", "SWISH", exactly.silu, ulp=1)
def silu(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """x / (1 + e^(-x)), within 1 ulp of FP32 (``popnn::swish``).

    -0 for minus infinity, its limit; infinity for infinity. `poplibs_py.popnn.swish` is this.

    Examples
    --------
    >>> popops.silu([-1.0, 1.0])
    array([-0.26894143,  0.7310586 ], dtype=float32)
    """


@elementwise("popnn::gelu", "GELU", exactly.gelu_tanh, ulp=1)
def gelu_tanh(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, within 1 ulp of FP32 (``popnn::gelu``).

    -0 for minus infinity, its limit; infinity for infinity. `poplibs_py.popnn.gelu` is this.

    Examples
    --------
    >>> popops.gelu_tanh([-1.0, 1.0])
    array([-0.15880801,  0.841192  ], dtype=float32)
    """


@elementwise("", "", lambda x, slope: np.where(x > 0, x, x * slope), ulp=0.5)
def leaky_relu(x: object, slope: object = 0.01, *, out: Any = None, out_dtype: object = None,
               target: TargetLike = None) -> Any:
    """x, but `slope` times it where it is not above zero, correctly rounded to FP32.

    With a `slope` for each channel it is PReLU, `poplibs_py.popnn.prelu`. PopLibs has none.

    Examples
    --------
    >>> popops.leaky_relu([-1.0, 1.0], 0.25)
    array([-0.25,  1.  ], dtype=float32)
    """


@elementwise("", "", exactly.elu, ulp=1)
def elu(x: object, alpha: object = 1.0, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """x, but `alpha` (e^x - 1) where it is not above zero, within 1 ulp of FP32.

    -alpha for minus infinity. PopLibs has none.

    Examples
    --------
    >>> popops.elu([-1.0, 1.0])
    array([-0.63212055,  1.        ], dtype=float32)
    """


@elementwise("", "", exactly.selu, ulp=1)
def selu(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """1.0507 times `elu` with alpha 1.67326, within 1 ulp of FP32.

    The constants in full are those of Klambauer and others (2017). PopLibs has none.

    Examples
    --------
    >>> popops.selu([-1.0, 1.0])
    array([-1.1113307,  1.050701 ], dtype=float32)
    """


@elementwise("", "", exactly.softplus, ulp=1)
def softplus(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """log(1 + e^x), within 1 ulp of FP32.

    0 for minus infinity, infinity for infinity. PopLibs has none.

    Examples
    --------
    >>> popops.softplus([-1.0, 1.0])
    array([0.3132617, 1.3132616], dtype=float32)
    """


@elementwise("", "", exactly.mish, ulp=1)
def mish(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """x tanh(log(1 + e^x)), within 1 ulp of FP32.

    -0 for minus infinity, its limit; infinity for infinity. PopLibs has none.

    Examples
    --------
    >>> popops.mish([-1.0, 1.0])
    array([-0.30340147,  0.8650984 ], dtype=float32)
    """


@elementwise("popnn::nonLinearity", "", lambda x: np.clip(x * 0.2 + 0.5, 0.0, 1.0), ulp=1)
def hard_sigmoid(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """x / 5 + 1 / 2 within 0 and 1, within 1 ulp of FP32 (``HARD_SIGMOID`` of ``popnn::nonLinearity``).

    The slope is PopLibs', a fifth; other libraries have a sixth.

    Examples
    --------
    >>> popops.hard_sigmoid([-1.0, 3.0])
    array([0.3, 1. ], dtype=float32)
    """


@elementwise("", "", exactly.hard_swish, ulp=1)
def hard_swish(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """x (x + 3) / 6, but 0 up to -3 and x from 3 on, within 1 ulp of FP32.

    -0 up to -3. PopLibs has none.

    Examples
    --------
    >>> popops.hard_swish([-1.0, 1.0])
    array([-0.33333334,  0.6666667 ], dtype=float32)
    """


@elementwise("popnn::nonLinearityInputGradient", "SWISH_GRAD", exactly.silu_grad, ulp=1,
             more=lambda grad, x: np.abs(grad) * _LOST)
def silu_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `silu`: grad times s (1 + x (1 - s)), s = sigmoid(x), within 1 ulp of FP32.

    Where the two parts cancel, 2^-36 of them may be lost besides.

    Examples
    --------
    >>> popops.silu_grad([1.0, 2.0], [0.5, 0.25])
    array([0.7399612, 1.2474201], dtype=float32)
    """


@elementwise("popnn::nonLinearityInputGradient", "GELU_GRAD", exactly.gelu_tanh_grad, ulp=1,
             more=lambda grad, x: np.abs(grad) * _LOST, exact=exactly.gelu_tanh_grad_poplibs)
def gelu_tanh_grad(grad: object, x: object, *, poplibs_exact: bool = False, out: Any = None, out_dtype: object = None,
                   target: TargetLike = None) -> Any:
    """Gradient of `gelu_tanh`, within 1 ulp of FP32.

    Where its parts cancel, 2^-36 of them may be lost besides. PopLibs' kernels give it too; its host model, which its
    tests compare with, has the density of the normal distribution in the second part, up to 8.3e-4 away:
    `poplibs_exact`.

    Examples
    --------
    >>> popops.gelu_tanh_grad([1.0, 2.0], [0.5, 0.25])
    array([0.8673699, 1.3907082], dtype=float32)
    >>> popops.gelu_tanh_grad(1.0, [2.0], poplibs_exact=True)
    array([1.0852808], dtype=float32)
    """


@elementwise("popnn::nonLinearityInputGradient", "GELU_ERF_GRAD", exactly.gelu_erf_grad, ulp=1.5,
             more=lambda grad, x: np.abs(grad) * (exactly.gelu_share(x) * 2.0**-22 + 2.0**-149))
def gelu_erf_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None,
                  target: TargetLike = None) -> Any:
    """Gradient of `gelu_erf`: grad times P(Z < x) + x p(x), within 1.5 ulp of FP32.

    Z is a standard normal number of density p. Where the two cancel, 2^-22 P(Z < x) may be lost besides.

    Examples
    --------
    >>> popops.gelu_erf_grad([1.0, 2.0], [0.5, 0.25])
    array([0.8674951, 1.3907467], dtype=float32)
    """


@elementwise("", "", lambda grad, x, slope: np.where(x > 0, grad, grad * slope), ulp=0.5)
def leaky_relu_grad(grad: object, x: object, slope: object = 0.01, *, out: Any = None, out_dtype: object = None,
                    target: TargetLike = None) -> Any:
    """Gradient of `leaky_relu`: grad, but `slope` times it where x is not above zero, correctly rounded to FP32.

    The operand is the operation's, not its result.

    Examples
    --------
    >>> popops.leaky_relu_grad([1.0, 2.0], [0.5, -0.25], 0.25)
    array([1. , 0.5], dtype=float32)
    """


@elementwise("", "", lambda grad, x: np.where(x > 0, 0.0, grad * x), ulp=0.5)
def leaky_relu_slope_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None,
                          target: TargetLike = None) -> Any:
    """Gradient of `leaky_relu` with respect to its slope: grad times x where that is not above zero, else 0.

    Summed over what shares a slope (`sum`) it is that of PReLU's.

    Examples
    --------
    >>> popops.leaky_relu_slope_grad([1.0, 2.0], [0.5, -0.25])
    array([ 0. , -0.5], dtype=float32)
    """


@elementwise("", "", exactly.elu_grad, ulp=1)
def elu_grad(grad: object, x: object, alpha: object = 1.0, *, out: Any = None, out_dtype: object = None,
             target: TargetLike = None) -> Any:
    """Gradient of `elu`: grad, but times `alpha` e^x where x is not above zero, within 1 ulp of FP32.

    The operand is the operation's, not its result.

    Examples
    --------
    >>> popops.elu_grad([1.0, 2.0], [0.5, -0.25])
    array([1.       , 1.5576016], dtype=float32)
    """


@elementwise("", "", exactly.selu_grad, ulp=1)
def selu_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `selu`, within 1 ulp of FP32.

    The operand is the operation's, not its result.

    Examples
    --------
    >>> popops.selu_grad([1.0, 2.0], [0.5, -0.25])
    array([1.050701 , 2.7384183], dtype=float32)
    """


@elementwise("", "", exactly.softplus_grad, ulp=1)
def softplus_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None,
                  target: TargetLike = None) -> Any:
    """Gradient of `softplus`: grad times sigmoid(x), within 1 ulp of FP32.

    The tail below zero keeps its bound.

    Examples
    --------
    >>> popops.softplus_grad([1.0, 2.0], [0.5, 0.25])
    array([0.62245935, 1.124353  ], dtype=float32)
    """


@elementwise("", "", exactly.mish_grad, ulp=1,
             more=lambda grad, x: np.abs(grad) * _LOST)
def mish_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `mish`, within 1 ulp of FP32.

    Where its parts cancel, 2^-36 of them may be lost besides.

    Examples
    --------
    >>> popops.mish_grad([1.0, 2.0], [0.5, 0.25])
    array([0.88642436, 1.5083454 ], dtype=float32)
    """


@elementwise("popnn::nonLinearityInputGradient", "", exactly.hard_sigmoid_grad, ulp=1)
def hard_sigmoid_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None,
                      target: TargetLike = None) -> Any:
    """Gradient of `hard_sigmoid`: a fifth of grad where abs(x) is at most 2.5, else 0, within 1 ulp of FP32.

    0.2 at -2.5 and 2.5. In cells PopLibs hands in the result for x, which never is beyond.

    Examples
    --------
    >>> popops.hard_sigmoid_grad([1.0, 2.0], [0.5, 3.0])
    array([0.2, 0. ], dtype=float32)
    """


@elementwise("", "", exactly.hard_swish_grad, ulp=1, more=lambda grad, x: np.abs(grad) * 2.0**-50)
def hard_swish_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None,
                    target: TargetLike = None) -> Any:
    """Gradient of `hard_swish`: grad times (2 x + 3) / 6, but 0 below -3 and 1 above 3, within 1 ulp of FP32.

    Where the parts cancel, 2^-50 of them may be lost besides.

    Examples
    --------
    >>> popops.hard_swish_grad([1.0, 2.0], [0.5, 4.0])
    array([0.6666667, 2.       ], dtype=float32)
    """


__all__ = [name for name in ELEMENTWISE if name in globals()]
