"""Gradients of PopOps' operations of one number: rows of `ELEMENTWISE`, as in `unary`.

``<op>_grad(grad, x)`` is what comes back, `grad`, times the derivative of the operation at its operand `x`: the true
one. Both broadcast. The bodies are in ``src_cython/kernels/elementwise/gradients.h``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...target import TargetLike
from .reference import sigmoid_grad_reference, signum_reference
from .table import ELEMENTWISE, elementwise


@elementwise("", "", lambda grad, x: grad * signum_reference(x))
def abs_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `abs`: grad times the sign of x, exact.

    0 at zeros, as `signum` has it.

    Examples
    --------
    >>> popops.abs_grad([1.0, 2.0], [0.5, 0.25])
    array([1., 2.], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad * (2 * x), ulp=1)
def square_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None,
                target: TargetLike = None) -> Any:
    """Gradient of `square`: grad times 2 x, within 1 ulp of FP32.

    The operand is the operation's, not its result.

    Examples
    --------
    >>> popops.square_grad([1.0, 2.0], [0.5, 0.25])
    array([1., 1.], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad * (3 * x * x), ulp=1)
def cube_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `cube`: grad times 3 x^2, within 1 ulp of FP32.

    The operand is the operation's, not its result.

    Examples
    --------
    >>> popops.cube_grad([1.0, 2.0], [0.5, 0.25])
    array([0.75 , 0.375], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad * 0.5 / np.sqrt(x), ulp=2.5)
def sqrt_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `sqrt`: grad times 1 / (2 sqrt(x)), within 2.5 ulp of FP32.

    Infinite at 0, NaN below.

    Examples
    --------
    >>> popops.sqrt_grad([1.0, 2.0], [0.5, 0.25])
    array([0.70710677, 2.        ], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad * -0.5 / np.sqrt(x) ** 3, ulp=6.5)
def rsqrt_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `rsqrt`: grad times -1 / (2 sqrt(x)^3), within 6.5 ulp of FP32.

    Infinite at 0, NaN below.

    Examples
    --------
    >>> popops.rsqrt_grad([1.0, 2.0], [0.5, 0.25])
    array([-1.4142135, -8.       ], dtype=float32)
    """


@elementwise("", "", lambda grad, x: -grad / (x * x), ulp=1)
def inv_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `inv`: grad times -1 / x^2, within 1 ulp of FP32.

    Infinite at zeros.

    Examples
    --------
    >>> popops.inv_grad([1.0, 2.0], [0.5, 0.25])
    array([ -4., -32.], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad / (3 * np.cbrt(x) ** 2), ulp=4.5)
def cbrt_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `cbrt`: grad times 1 / (3 cbrt(x)^2), within 4.5 ulp of FP32.

    Infinite at zeros.

    Examples
    --------
    >>> popops.cbrt_grad([1.0, 2.0], [0.5, 0.25])
    array([0.5291337, 1.6798947], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad * np.exp(np.clip(x, -300, 300)), ulp=1)
def exp_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `exp`: grad times e^x, within 1 ulp of FP32.

    Where `grad` is 0 it is 0.

    Examples
    --------
    >>> popops.exp_grad([1.0, 2.0], [0.5, 0.25])
    array([1.6487212, 2.5680509], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad * np.log(2) * np.exp2(np.clip(x, -432, 432)), ulp=1)
def exp2_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `exp2`: grad times 2^x log 2, within 1 ulp of FP32.

    Where `grad` is 0 it is 0.

    Examples
    --------
    >>> popops.exp2_grad([1.0, 2.0], [0.5, 0.25])
    array([0.98025817, 1.6485912 ], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad * np.exp(np.clip(x, -300, 300)), ulp=1)
def expm1_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `expm1`: grad times e^x, within 1 ulp of FP32.

    Where `grad` is 0 it is 0.

    Examples
    --------
    >>> popops.expm1_grad([1.0, 2.0], [0.5, 0.25])
    array([1.6487212, 2.5680509], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad / x, ulp=1)
def log_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `log`: grad times 1 / x, within 1 ulp of FP32.

    Infinite at zeros.

    Examples
    --------
    >>> popops.log_grad([1.0, 2.0], [0.5, 0.25])
    array([2., 8.], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad / x / np.log(2), ulp=1)
def log2_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `log2`: grad times 1 / (x log 2), within 1 ulp of FP32.

    Infinite at zeros.

    Examples
    --------
    >>> popops.log2_grad([1.0, 2.0], [0.5, 0.25])
    array([ 2.88539, 11.54156], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad / (1 + x), ulp=1)
def log1p_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `log1p`: grad times 1 / (1 + x), within 1 ulp of FP32.

    Infinite at -1.

    Examples
    --------
    >>> popops.log1p_grad([1.0, 2.0], [0.5, 0.25])
    array([0.6666667, 1.6      ], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad * np.cos(x), ulp=1)
def sin_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `sin`: grad times cos(x), within 1 ulp of FP32.

    NaN for infinities.

    Examples
    --------
    >>> popops.sin_grad([1.0, 2.0], [0.5, 0.25])
    array([0.87758255, 1.9378248 ], dtype=float32)
    """


@elementwise("", "", lambda grad, x: -grad * np.sin(x), ulp=1)
def cos_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `cos`: grad times -sin(x), within 1 ulp of FP32.

    NaN for infinities.

    Examples
    --------
    >>> popops.cos_grad([1.0, 2.0], [0.5, 0.25])
    array([-0.47942555, -0.49480793], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad / np.cos(x) ** 2, ulp=1)
def tan_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `tan`: grad times 1 / cos(x)^2, within 1 ulp of FP32.

    NaN for infinities.

    Examples
    --------
    >>> popops.tan_grad([1.0, 2.0], [0.5, 0.25])
    array([1.2984464, 2.130399 ], dtype=float32)
    """


@elementwise("popnn::nonLinearityInputGradient", "TANH_GRAD",
             lambda grad, x: sigmoid_grad_reference(grad, 2 * x) * 4, ulp=1)
def tanh_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `tanh`: grad times 1 / cosh(x)^2, within 1 ulp of FP32.

    Its tails keep their bound: nothing is taken from 1.

    Examples
    --------
    >>> popops.tanh_grad([1.0, 2.0], [0.5, 0.25])
    array([0.7864477, 1.8800297], dtype=float32)
    """


@elementwise("", "", lambda grad, x: grad * 2 / np.sqrt(np.pi) * np.exp(np.maximum(-x * x, -300)), ulp=1)
def erf_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `erf`: grad times 2 e^(-x^2) / sqrt(pi), within 1 ulp of FP32.

    The operand is the operation's, not its result.

    Examples
    --------
    >>> popops.erf_grad([1.0, 2.0], [0.5, 0.25])
    array([0.8787826, 2.1200283], dtype=float32)
    """


@elementwise("popnn::nonLinearityInputGradient", "SIGMOID_GRAD", sigmoid_grad_reference, ulp=1)
def sigmoid_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None,
                 target: TargetLike = None) -> Any:
    """Gradient of `sigmoid`: grad times s (1 - s), s = sigmoid(x), within 1 ulp of FP32.

    Its tails keep their bound: nothing is taken from 1.

    Examples
    --------
    >>> popops.sigmoid_grad([1.0, 2.0], [0.5, 0.25])
    array([0.23500371, 0.49226817], dtype=float32)
    """


@elementwise("popnn::nonLinearityInputGradient", "RELU_GRAD", lambda grad, x: np.where(x > 0, grad, 0.0))
def relu_grad(grad: object, x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `relu`: grad times 1 above zero, else 0, exact.

    0 for NaN.

    Examples
    --------
    >>> popops.relu_grad([1.0, 2.0], [0.5, 0.25])
    array([1., 2.], dtype=float32)
    """


__all__ = [name for name in ELEMENTWISE if name in globals()]
