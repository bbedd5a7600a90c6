"""PopOps' elementwise operations of two operands, and NumPy's of another meaning, as in `unary`.

The bodies are in ``src_cython/kernels/elementwise/binary.h`` and ``words.h``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...target import TargetLike
from .reference import div_reference, pow_reference
from .table import ELEMENTWISE, elementwise


@elementwise("popops::add", "ADD", np.add, ulp=0.5, kinds="fiu")
def add(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Sum, correctly rounded to FP32 (``popops::add``).

    NaN for infinities of two signs. Integers wrap.

    Examples
    --------
    >>> popops.add([1.5, 2.0], 1.0)
    array([2.5, 3. ], dtype=float32)
    """


@elementwise("popops::sub", "SUBTRACT", np.subtract, ulp=0.5, kinds="fiu")
def sub(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Difference, correctly rounded to FP32 (``popops::sub``).

    NaN for infinities of one sign. Integers wrap.

    Examples
    --------
    >>> popops.sub([1.5, 2.0], 1.0)
    array([0.5, 1. ], dtype=float32)
    """


@elementwise("popops::mul", "MULTIPLY", np.multiply, ulp=0.5, kinds="fiu")
def mul(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Product, correctly rounded to FP32 (``popops::mul``).

    NaN for 0 times an infinity. Integers wrap.

    Examples
    --------
    >>> popops.mul([1.5, 2.0], 3.0)
    array([4.5, 6. ], dtype=float32)
    """


@elementwise("popops::div", "DIVIDE", div_reference, ulp=0.5, kinds="fiu")
def div(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Quotient, correctly rounded to FP32; of integers truncated (``popops::div``).

    By zero an infinity, and NaN for 0 / 0. An integer by 0 is 0, and the least one by -1 wraps. `floor_divide` is
    NumPy's.

    Examples
    --------
    >>> popops.div([7.0, 1.0], [2.0, 3.0])
    array([3.5       , 0.33333334], dtype=float32)
    """


@elementwise("popops::rem", "REMAINDER", np.fmod, kinds="fiu")
def rem(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """What a truncated quotient leaves, exact, as C's fmod and % do (``popops::rem``).

    It has the sign of `a`. NaN for an infinite `a` and for b = 0; `a` for an infinite `b`. An integer by 0 leaves 0.
    `remainder` is NumPy's.

    Examples
    --------
    >>> popops.rem([7.0, -7.0], 4.0)
    array([ 3., -3.], dtype=float32)
    """


@elementwise("", "FLOOR_DIVIDE", np.floor_divide, ulp=0.51, kinds="fiu")
def floor_divide(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The greatest whole number not above a / b, rounded once (NumPy's ``floor_divide``).

    As NumPy: by zero an infinity or NaN, NaN for an infinite `a`; an integer by 0 is 0.

    Examples
    --------
    >>> popops.floor_divide([7.0, -7.0], 4.0)
    array([ 1., -2.], dtype=float32)
    """


@elementwise("", "FLOOR_REMAINDER", np.remainder, ulp=0.5, kinds="fiu")
def remainder(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """What `floor_divide` leaves, rounded once (NumPy's ``remainder``).

    It has the sign of `b`. NaN for an infinite `a` and for b = 0; an integer by 0 leaves 0.

    Examples
    --------
    >>> popops.remainder([7.0, -7.0], 4.0)
    array([3., 1.], dtype=float32)
    """


@elementwise("popops::pow", "POWER", pow_reference, ulp=1, kinds="fiu")
def pow(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """a to the power b, within 1 ulp of FP32 (``popops::pow``).

    As IEEE 754's pow: 1 for b = 0 and for a = 1, NaN for a < 0 and a `b` that is not whole. Of integers 0 where `b` is
    negative; they wrap.

    Examples
    --------
    >>> popops.pow([2.0, 9.0], [10.0, 0.5])
    array([1024.,    3.], dtype=float32)
    """


@elementwise("popops::atan2", "ATAN2", np.arctan2, ulp=1)
def atan2(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Angle of the point (b, a), within 1 ulp of FP32 (``popops::atan2``).

    As IEEE 754's atan2, of zeros and infinities too.

    Examples
    --------
    >>> popops.atan2([1.0, -1.0], [1.0, 0.0])
    array([ 0.7853982, -1.5707964], dtype=float32)
    """


@elementwise("popops::max", "MAXIMUM", np.maximum, kinds="fiu")
def maximum(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The larger of two, exact (``popops::max``).

    NaN where either is; 0 of 0 and -0: IEEE 754-2019's maximum.

    Examples
    --------
    >>> popops.maximum([1.5, -1.0], 0.5)
    array([1.5, 0.5], dtype=float32)
    """


@elementwise("popops::min", "MINIMUM", np.minimum, kinds="fiu")
def minimum(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The smaller of two, exact (``popops::min``).

    NaN where either is; -0 of 0 and -0: IEEE 754-2019's minimum.

    Examples
    --------
    >>> popops.minimum([1.5, -1.0], 0.5)
    array([ 0.5, -1. ], dtype=float32)
    """


@elementwise("", "FMAX", np.fmax)
def fmax(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The larger of two, the number where one is NaN (NumPy's ``fmax``).

    0 of 0 and -0: IEEE 754-2019's maximumNumber. So do PopLibs' vertices on a device.

    Examples
    --------
    >>> popops.fmax([1.5, float("nan")], 0.5)
    array([1.5, 0.5], dtype=float32)
    """


@elementwise("", "FMIN", np.fmin)
def fmin(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """The smaller of two, the number where one is NaN (NumPy's ``fmin``).

    -0 of 0 and -0: IEEE 754-2019's minimumNumber. So do PopLibs' vertices on a device.

    Examples
    --------
    >>> popops.fmin([1.5, float("nan")], 0.5)
    array([0.5, 0.5], dtype=float32)
    """


@elementwise("popops::eq", "EQUAL", np.equal, kinds="fiub", tells=True)
def eq(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Whether two are equal (``popops::eq``).

    False for NaN; 0 equals -0.

    Examples
    --------
    >>> popops.eq([1.5, 2.0], 2.0)
    array([False,  True])
    """


@elementwise("popops::neq", "NOT_EQUAL", np.not_equal, kinds="fiub", tells=True)
def neq(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Whether two differ (``popops::neq``).

    True for NaN; 0 equals -0.

    Examples
    --------
    >>> popops.neq([1.5, 2.0], 2.0)
    array([ True, False])
    """


@elementwise("popops::gt", "GREATER_THAN", np.greater, kinds="fiub", tells=True)
def gt(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Whether `a` is greater (``popops::gt``).

    False for NaN. True is greater than false.

    Examples
    --------
    >>> popops.gt([1.5, 2.0], 1.75)
    array([False,  True])
    """


@elementwise("popops::gteq", "GREATER_THAN_EQUAL", np.greater_equal, kinds="fiub", tells=True)
def gteq(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Whether `a` is greater or they are equal (``popops::gteq``).

    False for NaN. True is greater than false.

    Examples
    --------
    >>> popops.gteq([1.5, 2.0], 2.0)
    array([False,  True])
    """


@elementwise("popops::lt", "LESS_THAN", np.less, kinds="fiub", tells=True)
def lt(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Whether `a` is less (``popops::lt``).

    False for NaN. True is greater than false.

    Examples
    --------
    >>> popops.lt([1.5, 2.0], 1.75)
    array([ True, False])
    """


@elementwise("popops::lteq", "LESS_THAN_EQUAL", np.less_equal, kinds="fiub", tells=True)
def lteq(a: object, b: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Whether `a` is less or they are equal (``popops::lteq``).

    False for NaN. True is greater than false.

    Examples
    --------
    >>> popops.lteq([1.5, 2.0], 1.5)
    array([ True, False])
    """


@elementwise("popops::varianceToInvStdDev", "VARIANCE_TO_INV_STD_DEV", lambda variance,
             eps: 1 / np.sqrt(variance + eps), ulp=1.5)
def variance_to_inv_std_dev(variance: object, eps: object, *, out: Any = None, out_dtype: object = None,
                            target: TargetLike = None) -> Any:
    """1 / sqrt(variance + eps), within 1.5 ulp of FP32 (``popops::varianceToInvStdDev``).

    NaN where the sum is below zero.

    Examples
    --------
    >>> popops.variance_to_inv_std_dev([4.0, 0.25], 0.0)
    array([0.5, 2. ], dtype=float32)
    """


@elementwise("popops::invStdDevToVariance", "INV_STD_DEV_TO_VARIANCE", lambda inv_std_dev,
             eps: 1 / inv_std_dev**2 - eps, ulp=0.5,
             more=lambda inv_std_dev, eps: 2.0**-23 / inv_std_dev**2 + 2.0**-149)
def inv_std_dev_to_variance(inv_std_dev: object, eps: object, *, out: Any = None, out_dtype: object = None,
                            target: TargetLike = None) -> Any:
    """1 / inv_std_dev^2 - eps, 1 / inv_std_dev rounded before it is squared (``popops::invStdDevToVariance``).

    Nothing is clamped: it may be below zero.

    Examples
    --------
    >>> popops.inv_std_dev_to_variance([0.5, 2.0], 0.0)
    array([4.  , 0.25], dtype=float32)
    """


__all__ = [name for name in ELEMENTWISE if name in globals()]
