"""Exact results of elementwise operations in float64, where NumPy has no function for them.

SciPy is imported at the first use: it costs more than all the rest of the package.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["erf_reference", "gelu_erf_reference", "sigmoid_reference"]

Floats = np.ndarray[Any, np.dtype[np.float64]]


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
