"""PopOps' elementwise operations of one operand: each a row of `ELEMENTWISE` and its public function.

Every number is decoded exactly, computed in FP32 within the bound that the row states, and rounded once to the
result's format, to nearest even; too large results become infinity, or NaN where the format has none. All levels,
thread counts and strides give the same bits. The bodies are in ``src_cython/kernels/elementwise/unary.h``, those of
integers and truth values in ``words.h`` beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...target import TargetLike
from .reference import (
    erf_reference,
    gelu_erf_reference,
    round_reference,
    sigmoid_reference,
    signum_reference,
    sqrt_reference,
)
from .table import ELEMENTWISE, elementwise


@elementwise("popops::abs", "ABSOLUTE", np.abs, kinds="fiu")
def abs(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Absolute value, exact (``popops::abs``).

    0 for -0, infinity for infinities, NaN for NaN. The least integer is its own: integers wrap.

    Examples
    --------
    >>> popops.abs([-1.5, 2.0])
    array([1.5, 2. ], dtype=float32)
    """


@elementwise("popops::neg", "NEGATE", np.negative, kinds="fiu")
def neg(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Change of sign, exact (``popops::neg``).

    -0 for 0, NaN for NaN. F143 and F152 have no minus zero, and keep their zero. Integers wrap.

    Examples
    --------
    >>> popops.neg([-1.5, 2.0])
    array([ 1.5, -2. ], dtype=float32)
    """


@elementwise("popops::signum", "SIGNUM", signum_reference, kinds="fiu")
def signum(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """1 above zero, -1 below, else 0, exact (``popops::signum``).

    0 for 0, -0 and NaN, as PopLibs' formula (x > 0) - (x < 0) says.

    Examples
    --------
    >>> popops.signum([-1.5, 0.0, 2.0])
    array([-1.,  0.,  1.], dtype=float32)
    """


@elementwise("popops::square", "SQUARE", np.square, ulp=0.5, kinds="fiu")
def square(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """x times x, correctly rounded to FP32 (``popops::square``).

    0 for -0. Integers wrap.

    Examples
    --------
    >>> popops.square([-1.5, 2.0])
    array([2.25, 4.  ], dtype=float32)
    """


@elementwise("", "CUBE", lambda x: x * x * x, ulp=1.5, kinds="fiu")
def cube(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """x times x times x, rounded twice to FP32.

    -0 for -0. Integers wrap. PopLibs has no such vertex.

    Examples
    --------
    >>> popops.cube([-1.5, 2.0])
    array([-3.375,  8.   ], dtype=float32)
    """


@elementwise("popops::sqrt", "SQRT", sqrt_reference, ulp=0.5, kinds="fiu")
def sqrt(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Square root, correctly rounded to FP32 (``popops::sqrt``).

    NaN below zero, -0 for -0. Of integers the whole part, and 0 below zero.

    Examples
    --------
    >>> popops.sqrt([4.0, 2.0])
    array([2.       , 1.4142135], dtype=float32)
    """


@elementwise("popops::rsqrt", "RSQRT", lambda x: 1 / np.sqrt(x), ulp=1)
def rsqrt(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """1 / sqrt(x), within 1 ulp of FP32 (``popops::rsqrt``).

    Infinity for 0, minus infinity for -0, NaN below, 0 for infinity.

    Examples
    --------
    >>> popops.rsqrt([4.0, 2.0])
    array([0.5       , 0.70710677], dtype=float32)
    """


@elementwise("popops::inv", "INVERSE", np.reciprocal, ulp=0.5)
def inv(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """1 / x, correctly rounded to FP32 (``popops::inv``).

    Infinities for zeros, zeros for infinities, of the same sign.

    Examples
    --------
    >>> popops.inv([4.0, -0.5])
    array([ 0.25, -2.  ], dtype=float32)
    """


@elementwise("popops::cbrt", "CBRT", np.cbrt, ulp=1)
def cbrt(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Cube root, within 1 ulp of FP32 (``popops::cbrt``).

    -0 for -0, infinities for infinities.

    Examples
    --------
    >>> popops.cbrt([8.0, -2.0])
    array([ 2.       , -1.2599211], dtype=float32)
    """


@elementwise("popops::exp", "EXPONENT", np.exp, ulp=1)
def exp(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """e^x, within 1 ulp of FP32 (``popops::exp``).

    1 for 0, 0 for minus infinity, infinity for infinity. Results may be subnormal.

    Examples
    --------
    >>> popops.exp([0.0, 1.0])
    array([1.       , 2.7182817], dtype=float32)
    """


@elementwise("popops::exp2", "EXPONENT2", np.exp2, ulp=1)
def exp2(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """2^x, within 1 ulp of FP32 (``popops::exp2``).

    1 for 0, 0 for minus infinity, infinity for infinity. Results may be subnormal.

    Examples
    --------
    >>> popops.exp2([0.5, 3.0])
    array([1.4142135, 8.       ], dtype=float32)
    """


@elementwise("popops::expm1", "EXPONENT_MINUS_ONE", np.expm1, ulp=1)
def expm1(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """e^x - 1, within 1 ulp of FP32 (``popops::expm1``).

    -0 for -0, -1 for minus infinity, infinity for infinity.

    Examples
    --------
    >>> popops.expm1([0.0, 1.0])
    array([0.       , 1.7182819], dtype=float32)
    """


@elementwise("popops::log", "LOGARITHM", np.log, ulp=1)
def log(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Natural logarithm, within 1 ulp of FP32 (``popops::log``).

    Minus infinity for 0 and -0, NaN below, infinity for infinity.

    Examples
    --------
    >>> popops.log([1.0, 10.0])
    array([0.       , 2.3025851], dtype=float32)
    """


@elementwise("", "LOGARITHM2", np.log2, ulp=1)
def log2(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Logarithm to the base 2, within 1 ulp of FP32.

    Minus infinity for 0 and -0, NaN below, infinity for infinity. PopLibs has no such op.

    Examples
    --------
    >>> popops.log2([1.0, 10.0])
    array([0.      , 3.321928], dtype=float32)
    """


@elementwise("popops::log1p", "LOGARITHM_ONE_PLUS", np.log1p, ulp=1)
def log1p(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """log(1 + x), within 1 ulp of FP32 (``popops::log1p``).

    -0 for -0, minus infinity for -1, NaN below, infinity for infinity.

    Examples
    --------
    >>> popops.log1p([0.0, 1.0])
    array([0.       , 0.6931472], dtype=float32)
    """


@elementwise("popops::sin", "SIN", np.sin, ulp=1)
def sin(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Sine, within 1 ulp of FP32 (``popops::sin``).

    -0 for -0, NaN for infinities. Large arguments are reduced exactly.

    Examples
    --------
    >>> popops.sin([0.5, 1e6])
    array([ 0.47942555, -0.3499935 ], dtype=float32)
    """


@elementwise("popops::cos", "COS", np.cos, ulp=1)
def cos(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Cosine, within 1 ulp of FP32 (``popops::cos``).

    1 for zeros, NaN for infinities. Large arguments are reduced exactly.

    Examples
    --------
    >>> popops.cos([0.5, 1e6])
    array([0.87758255, 0.93675214], dtype=float32)
    """


@elementwise("popops::tan", "TAN", np.tan, ulp=1)
def tan(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Tangent, within 1 ulp of FP32 (``popops::tan``).

    -0 for -0, NaN for infinities. Large arguments are reduced exactly.

    Examples
    --------
    >>> popops.tan([0.5, 1e6])
    array([ 0.5463025 , -0.37362444], dtype=float32)
    """


@elementwise("popops::asin", "ASIN", np.arcsin, ulp=1)
def asin(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Arc sine, within 1 ulp of FP32 (``popops::asin``).

    -0 for -0, NaN beyond -1 and 1.

    Examples
    --------
    >>> popops.asin([0.5, 1.0])
    array([0.5235988, 1.5707964], dtype=float32)
    """


@elementwise("popops::tanh", "TANH", np.tanh, ulp=1)
def tanh(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Hyperbolic tangent, within 1 ulp of FP32 (``popops::tanh``).

    -0 for -0, -1 and 1 for the infinities.

    Examples
    --------
    >>> popops.tanh([0.0, 0.5])
    array([0.        , 0.46211717], dtype=float32)
    """


@elementwise("popops::erf", "ERF", erf_reference, ulp=1)
def erf(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Error function, within 1 ulp of FP32 (``popops::erf``).

    -0 for -0, -1 and 1 for the infinities.

    Examples
    --------
    >>> popops.erf([0.0, 0.5])
    array([0.       , 0.5204999], dtype=float32)
    """


@elementwise("popops::sigmoid", "SIGMOID", sigmoid_reference, ulp=1)
def sigmoid(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """1 / (1 + e^(-x)), within 1 ulp of FP32 (``popops::sigmoid``).

    0 and 1 for the infinities. The tail below zero keeps its bound.

    Examples
    --------
    >>> popops.sigmoid([0.0, -2.0])
    array([0.5       , 0.11920292], dtype=float32)
    """


@elementwise("popops::relu", "RELU", lambda x: np.where(x < 0, 0.0, x))
def relu(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The larger of x and 0, exact (``popops::relu``).

    NaN for NaN, -0 for -0.

    Examples
    --------
    >>> popops.relu([-1.5, 2.0])
    array([0., 2.], dtype=float32)
    """


@elementwise("popops::gelu_erf", "GELU_ERF", gelu_erf_reference, ulp=1)
def gelu_erf(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """x (1 + erf(x / sqrt 2)) / 2, within 1 ulp of FP32 (``popops::gelu_erf``).

    -0 for minus infinity, its limit; infinity for infinity. The tail below zero keeps its bound.

    Examples
    --------
    >>> popops.gelu_erf([-1.0, 1.0])
    array([-0.15865526,  0.8413447 ], dtype=float32)
    """


@elementwise("popops::ceil", "CEIL", np.ceil)
def ceil(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The least whole number that is not below x, exact (``popops::ceil``).

    The sign of x stays, of zeros too; infinities for infinities.

    Examples
    --------
    >>> popops.ceil([-1.5, 2.25])
    array([-1.,  3.], dtype=float32)
    """


@elementwise("popops::floor", "FLOOR", np.floor)
def floor(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The greatest whole number that is not above x, exact (``popops::floor``).

    The sign of x stays, of zeros too; infinities for infinities.

    Examples
    --------
    >>> popops.floor([-1.5, 2.25])
    array([-2.,  2.], dtype=float32)
    """


@elementwise("popops::round", "ROUND", round_reference)
def round(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The nearest whole number, halves away from zero, exact (``popops::round``).

    The sign of x stays, of zeros too. `nearbyint` takes halves to the even number, as NumPy's ``round`` does.

    Examples
    --------
    >>> popops.round([-1.5, 2.5])
    array([-2.,  3.], dtype=float32)
    """


@elementwise("popops::nearbyint", "NEARBY_INT", np.rint)
def nearbyint(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The nearest whole number, halves to the even one, exact (``popops::nearbyint``).

    The sign of x stays, of zeros too. It is NumPy's ``rint``.

    Examples
    --------
    >>> popops.nearbyint([-1.5, 2.5])
    array([-2.,  2.], dtype=float32)
    """


@elementwise("popops::trunc", "TRUNC", np.trunc)
def trunc(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The whole number next to x towards zero, exact (``popops::trunc``).

    The sign of x stays, of zeros too; infinities for infinities.

    Examples
    --------
    >>> popops.trunc([-1.5, 2.25])
    array([-1.,  2.], dtype=float32)
    """


@elementwise("popops::isFinite", "IS_FINITE", np.isfinite, tells=True)
def is_finite(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Whether x is neither infinite nor NaN (``popops::isFinite``).

    True for all numbers of formats without infinities but NaN.

    Examples
    --------
    >>> popops.is_finite([1.5, float("inf")])
    array([ True, False])
    """


@elementwise("popops::isInf", "IS_INF", np.isinf, tells=True)
def is_inf(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Whether x is an infinity (``popops::isInf``).

    False for NaN.

    Examples
    --------
    >>> popops.is_inf([1.5, float("inf")])
    array([False,  True])
    """


@elementwise("popops::isNaN", "IS_NAN", np.isnan, tells=True)
def is_nan(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Whether x is NaN (``popops::isNaN``).

    False for infinities.

    Examples
    --------
    >>> popops.is_nan([1.5, float("nan")])
    array([False,  True])
    """


__all__ = [name for name in ELEMENTWISE if name in globals()]
