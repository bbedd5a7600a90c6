"""PopOps' elementwise operations: each a row of `ELEMENTWISE` and its public function.

Every element is decoded exactly, computed in FP32 within the bound that the row states, and rounded once to the
result's format, to nearest even; too large results become infinity, or NaN where the format has none. All levels,
thread counts and strides give the same bits. The bodies are in ``src_cython/kernels/elementwise/unary.h``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..target import Target
from ._elementwise import ELEMENTWISE, unary
from .reference import erf_reference, gelu_erf_reference, sigmoid_reference


@unary("popops::abs", "ABSOLUTE", np.abs, ulp=0)
def abs(x: object, *, out: Any = None, out_dtype: object = None, target: Target | str | None = None) -> Any:
    """Absolute value, exact (``popops::abs``).

    Notes
    -----
    0 for -0, infinity for infinities, NaN for NaN.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.abs([-1.5, 2.0])
    array([1.5, 2. ], dtype=float32)
    """


@unary("popops::neg", "NEGATE", np.negative, ulp=0)
def neg(x: object, *, out: Any = None, out_dtype: object = None, target: Target | str | None = None) -> Any:
    """Change of sign, exact (``popops::neg``).

    Notes
    -----
    -0 for 0, NaN for NaN. F143 and F152 have no minus zero, and keep their zero.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.neg([-1.5, 2.0])
    array([ 1.5, -2. ], dtype=float32)
    """


@unary("popops::sqrt", "SQRT", np.sqrt, ulp=0.5)
def sqrt(x: object, *, out: Any = None, out_dtype: object = None, target: Target | str | None = None) -> Any:
    """Square root, correctly rounded to FP32 (``popops::sqrt``).

    Notes
    -----
    NaN below zero, -0 for -0.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.sqrt([4.0, 2.0])
    array([2.       , 1.4142135], dtype=float32)
    """


@unary("popops::exp", "EXPONENT", np.exp, ulp=1)
def exp(x: object, *, out: Any = None, out_dtype: object = None, target: Target | str | None = None) -> Any:
    """e^x, within 1 ulp of FP32 (``popops::exp``).

    Notes
    -----
    1 for 0, 0 for minus infinity, infinity for infinity. Results may be subnormal.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.exp([0.0, 1.0])
    array([1.       , 2.7182817], dtype=float32)
    """


@unary("popops::log", "LOGARITHM", np.log, ulp=1)
def log(x: object, *, out: Any = None, out_dtype: object = None, target: Target | str | None = None) -> Any:
    """Natural logarithm, within 1 ulp of FP32 (``popops::log``).

    Notes
    -----
    Minus infinity for 0 and -0, NaN below, infinity for infinity.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.log([1.0, 10.0])
    array([0.       , 2.3025851], dtype=float32)
    """


@unary("popops::tanh", "TANH", np.tanh, ulp=1)
def tanh(x: object, *, out: Any = None, out_dtype: object = None, target: Target | str | None = None) -> Any:
    """Hyperbolic tangent, within 1 ulp of FP32 (``popops::tanh``).

    Notes
    -----
    -0 for -0, -1 and 1 for the infinities.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.tanh([0.0, 0.5])
    array([0.        , 0.46211717], dtype=float32)
    """


@unary("popops::erf", "ERF", erf_reference, ulp=1)
def erf(x: object, *, out: Any = None, out_dtype: object = None, target: Target | str | None = None) -> Any:
    """Error function, within 1 ulp of FP32 (``popops::erf``).

    Notes
    -----
    -0 for -0, -1 and 1 for the infinities.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.erf([0.0, 0.5])
    array([0.        , 0.5204999], dtype=float32)
    """


@unary("popops::sigmoid", "SIGMOID", sigmoid_reference, ulp=1)
def sigmoid(x: object, *, out: Any = None, out_dtype: object = None, target: Target | str | None = None) -> Any:
    """1 / (1 + e^(-x)), within 1 ulp of FP32 (``popops::sigmoid``).

    Notes
    -----
    0 and 1 for the infinities. The tail below zero keeps its bound.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.sigmoid([0.0, -2.0])
    array([0.5       , 0.11920292], dtype=float32)
    """


@unary("popops::relu", "RELU", lambda x: np.where(x < 0, 0.0, x), ulp=0)
def relu(x: object, *, out: Any = None, out_dtype: object = None, target: Target | str | None = None) -> Any:
    """The larger of x and 0, exact (``popops::relu``).

    Notes
    -----
    NaN for NaN, -0 for -0.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.relu([-1.5, 2.0])
    array([0., 2.], dtype=float32)
    """


@unary("popops::gelu_erf", "GELU_ERF", gelu_erf_reference, ulp=1)
def gelu_erf(x: object, *, out: Any = None, out_dtype: object = None, target: Target | str | None = None) -> Any:
    """x (1 + erf(x / sqrt 2)) / 2, within 1 ulp of FP32 (``popops::gelu_erf``).

    Notes
    -----
    -0 for minus infinity, its limit; infinity for infinity. The tail below zero keeps its bound.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.gelu_erf([-1.0, 1.0])
    array([-0.15865526,  0.8413447 ], dtype=float32)
    """


__all__ = [*ELEMENTWISE]
