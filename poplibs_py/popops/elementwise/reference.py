"""Exact results of elementwise operations in float64, and of integers in their own type, where NumPy has no function.

SciPy is imported at the first use: it costs more than all the rest of the package.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import Floats

Numbers = np.ndarray[Any, Any]


def erf_reference(x: Floats) -> Floats:
    """The error function."""
    from scipy.special import erf

    return np.asarray(erf(x))


def sigmoid_reference(x: Floats) -> Floats:
    """1 / (1 + e^(-x))."""
    from scipy.special import expit

    return np.asarray(expit(x))


def gelu_erf_reference(x: Floats) -> Floats:
    """x P(Z < x), Z a standard normal number; -0 at minus infinity, its limit."""
    from scipy.special import ndtr

    with np.errstate(invalid="ignore"):
        return np.where(x == -np.inf, -0.0, x * ndtr(x))


def sigmoid_grad_reference(grad: Floats, x: Floats) -> Floats:
    """What comes back through `sigmoid_reference`."""
    small = np.exp(np.maximum(-np.abs(x), -300))
    return np.asarray(grad * small / (1 + small) ** 2)


def signum_reference(x: Numbers) -> Numbers:
    """(x > 0) - (x < 0), so 0 for NaN."""
    return np.asarray((x > 0).astype(x.dtype) - (x < 0).astype(x.dtype))


def round_reference(x: Floats) -> Floats:
    """The nearest whole number, halves away from zero."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def sqrt_reference(x: Numbers) -> Numbers:
    """The square root; of integers the whole part, and 0 below zero."""
    if x.dtype.kind == "f":
        return np.asarray(np.sqrt(x))
    positive = np.maximum(x, 0)
    root = np.sqrt(positive.astype(np.longdouble)).astype(x.dtype)
    return np.where(root.astype(np.longdouble) ** 2 > positive, root - 1, root).astype(x.dtype)


def _unsigned(x: Numbers) -> Numbers:
    return x.view(f"u{x.dtype.itemsize}")


def popcount_reference(x: Numbers) -> Numbers:
    """How many bits are set."""
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def count_leading_zeros_reference(x: Numbers) -> Numbers:
    """How many bits are 0 above the highest that is set; all of them for 0."""
    zeros = [8 * x.dtype.itemsize - n.bit_length() for n in _unsigned(x).ravel().tolist()]
    return np.asarray(zeros, x.dtype).reshape(x.shape)


def div_reference(a: Numbers, b: Numbers) -> Numbers:
    """The quotient; of integers truncated, and 0 where the divisor is."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    return np.where(b == 0, 0, (a - np.fmod(a, b)) // np.where(b == 0, 1, b)).astype(a.dtype)


def pow_reference(a: Numbers, b: Numbers) -> Numbers:
    """The power; of integers 0 where the exponent is negative."""
    if a.dtype.kind == "f":
        return np.asarray(np.power(a * 1.0, b * 1.0))  # a NaN that signals is none of those whose powers may be 1
    return np.where(b < 0, 0, np.power(a, np.where(b < 0, 0, b))).astype(a.dtype)


def _counts(a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    """Shift counts within the width, and where they are not."""
    counts, bits = _unsigned(b), 8 * a.dtype.itemsize
    return np.where(counts < bits, counts, 0).astype(a.dtype), counts >= bits


def shift_left_reference(a: Numbers, b: Numbers) -> Numbers:
    """The bits shifted up; a count below 0, or of all bits and more, leaves 0."""
    counts, beyond = _counts(a, b)
    return np.where(beyond, 0, a << counts).astype(a.dtype)


def shift_right_reference(a: Numbers, b: Numbers) -> Numbers:
    """The bits shifted down, zeros behind them."""
    counts, beyond = _counts(a, b)
    return np.where(beyond, 0, _unsigned(a) >> _unsigned(counts)).astype(_unsigned(a).dtype).view(a.dtype)


def shift_right_sign_extend_reference(a: Numbers, b: Numbers) -> Numbers:
    """The bits shifted down, the sign's behind them."""
    counts, beyond = _counts(a, b)
    return np.where(beyond, -(a < 0).astype(a.dtype), a >> counts).astype(a.dtype)


def select_reference(a: Numbers, b: Numbers, condition: Numbers) -> Numbers:
    """The first where the condition is true, else the second."""
    return np.where(condition, a, b)


def clamp_reference(x: Numbers, low: Numbers, high: Numbers) -> Numbers:
    """First the lower bound, then the upper one."""
    raised = np.where(x < low, low, x)
    return np.where(raised > high, high, raised)
