"""Non-linearities of neural networks and their derivatives, exactly, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import Floats
from .reference import sigmoid_reference

_SLOPE, _CUBE = np.sqrt(2 / np.pi), 0.044715
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def _bounded(x: Floats) -> Floats:
    """Numbers beyond which nothing changes in a product with FP32's, NaN as it is."""
    return np.clip(x, -300, 300)


def _gated(x: Floats, z: Floats) -> Floats:
    """x / (1 + e^(-z)), -0 at minus infinity."""
    return np.where(x == -np.inf, -0.0, x * sigmoid_reference(z))


def silu(x: Floats) -> Floats:
    """x / (1 + e^(-x))."""
    return _gated(x, x)


def silu_grad(grad: Floats, x: Floats) -> Floats:
    """What comes back through `silu`."""
    x = _bounded(x)
    share = sigmoid_reference(x)
    return np.asarray(grad * (share * (1 + x * sigmoid_reference(-x))))


def _inner(x: Floats) -> Floats:
    return np.asarray(2 * _SLOPE * x * (1 + _CUBE * x * x))


def gelu_tanh(x: Floats) -> Floats:
    """GELU with tanh for the error function."""
    return _gated(x, _inner(x))


def gelu_tanh_grad(grad: Floats, x: Floats) -> Floats:
    """What comes back through `gelu_tanh`."""
    x = _bounded(x)
    z = _inner(x)
    share = sigmoid_reference(z)
    slope = 2 * _SLOPE * (1 + 3 * _CUBE * x * x)
    return np.asarray(grad * (share + x * share * sigmoid_reference(-z) * slope))


def gelu_tanh_grad_poplibs(grad: Floats, x: Floats) -> Floats:
    """What PopLibs' model of its host has for it."""
    x = _bounded(x)
    return np.asarray(grad * (sigmoid_reference(_inner(x)) + x * _SLOPE / 2 * np.exp(np.maximum(-x * x / 2, -300))))


def gelu_share(x: Floats) -> Floats:
    """P(Z < x), Z a standard normal number."""
    from scipy.special import ndtr

    return np.asarray(ndtr(x))


def gelu_erf_grad(grad: Floats, x: Floats) -> Floats:
    """What comes back through GELU."""
    x = np.clip(x, -30, 30)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    return np.asarray(grad * (gelu_share(x) + x * density))


def elu(x: Floats, alpha: Any) -> Floats:
    """x, or alpha (e^x - 1) where it is not above zero."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def elu_grad(grad: Floats, x: Floats, alpha: Any) -> Floats:
    """What comes back through `elu`."""
    return np.where(x > 0, grad, grad * alpha * np.exp(np.clip(x, -300, 0)))


def selu(x: Floats) -> Floats:
    """`elu` that keeps mean and variance."""
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


def selu_grad(grad: Floats, x: Floats) -> Floats:
    """What comes back through `selu`."""
    return _SELU_SCALE * elu_grad(grad, x, _SELU_ALPHA)


def softplus(x: Floats) -> Floats:
    """log(1 + e^x)."""
    return np.asarray(np.logaddexp(0.0, x))


def softplus_grad(grad: Floats, x: Floats) -> Floats:
    """What comes back through `softplus`."""
    return np.asarray(grad * sigmoid_reference(_bounded(x)))


def mish(x: Floats) -> Floats:
    """x tanh(log(1 + e^x)), -0 at minus infinity."""
    return np.where(x == -np.inf, -0.0, x * np.tanh(softplus(x)))


def mish_grad(grad: Floats, x: Floats) -> Floats:
    """What comes back through `mish`."""
    x = _bounded(x)
    inner = np.tanh(softplus(x))
    return np.asarray(grad * (inner + x * sigmoid_reference(x) / np.cosh(softplus(x)) ** 2))


def hard_sigmoid_grad(grad: Floats, x: Floats) -> Floats:
    """What comes back through x / 5 + 1 / 2 within 0 and 1."""
    return np.where(np.abs(x) > 2.5, 0.0, grad * 0.2)


def hard_swish(x: Floats) -> Floats:
    """x (x + 3) / 6, or 0 up to -3, or x from 3 on."""
    return np.where(x <= -3, -0.0, np.where(x >= 3, x, x * (x + 3) / 6))


def hard_swish_grad(grad: Floats, x: Floats) -> Floats:
    """What comes back through `hard_swish`."""
    return np.asarray(grad * np.where(x < -3, 0.0, np.where(x > 3, 1.0, (2 * x + 3) / 6)))
