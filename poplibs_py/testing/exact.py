"""Exact arithmetic: any code as a fraction, any fraction rounded to any format, with Python's own integers.

This is the oracle behind the others. It shares nothing with `poplibs_py.formats` but the facts in `Format`, and takes
time in proportion: thousands of numbers, not millions.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import instance, is_number, one_of, whole
from ..errors import bad_type
from ..formats import BF16, FP16, Array, Format, QuarterArray, format_of
from ..formats.arrays import as_array

Number = Fraction | float
"""A fraction, or a float for an infinity or a NaN."""


def decode_exact(code: int, dtype: object) -> Number:
    """Return the value of a code: a `Fraction`, or a float infinity or NaN.

    Examples
    --------
    >>> from poplibs_py.formats import F143
    >>> decode_exact(0x3C, F143), decode_exact(0x80, F143)
    (Fraction(3, 4), nan)
    """
    dtype = format_of(dtype, "dtype")
    code = whole("code", code, 0, (1 << dtype.bits) - 1)
    sign = -1 if code >> dtype.sign_shift else 1
    magnitude = code & (1 << dtype.sign_shift) - 1
    if sign < 0 and magnitude == 0 and not dtype.has_minus_zero:
        return float("nan")
    if magnitude > dtype.max_code:
        infinite = dtype.has_infinity and magnitude == dtype.max_code + 1
        return sign * float("inf") if infinite else float("nan")
    exponent, fraction = magnitude >> dtype.mantissa_bits, magnitude & (1 << dtype.mantissa_bits) - 1
    if exponent or not dtype.zero:
        fraction += 1 << dtype.mantissa_bits
    elif not dtype.subnormals:
        fraction = 0
    power = max(exponent, int(dtype.zero)) - dtype.bias - dtype.mantissa_bits
    return _times_power(Fraction(sign * fraction), power)


def _times_power(value: Fraction, power: int) -> Fraction:
    """A number times two to a power, by shifts."""
    top, below = value.numerator << max(power, 0), value.denominator << max(-power, 0)
    return Fraction(top, below)


def round_exact(value: Number, dtype: object, rounding: str = "nearest-even", overflow: str | None = None) -> int:
    """Return the code that a number rounds to.

    Parameters
    ----------
    value : Fraction, int or float
        The number; an infinity or a NaN as float.
    dtype : Format, dtype or str
        The format to round to.
    rounding : {"nearest-even", "nearest-away", "toward-zero", "up", "down"}, optional
        Ties go to the even code, or away from zero; up and down mean toward plus and minus infinity.
    overflow : {"inf", "nan", "saturate"}, optional
        What becomes of a magnitude that rounds past the largest finite number; by default IEEE 754's result: the
        largest number where rounding goes toward zero, else infinity where the format has it, else NaN where it has it.
        Infinities follow the same rule, as if rounded to nearest.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from poplibs_py.formats import FP16
    >>> hex(round_exact(Fraction(1, 3), FP16)), hex(round_exact(10**6, FP16))
    ('0x3555', '0x7c00')
    """
    dtype = format_of(dtype, "dtype")
    one_of("rounding", rounding, ("nearest-even", "nearest-away", "toward-zero", "up", "down"))
    one_of("overflow", overflow, (None, "inf", "nan", "saturate"))
    if not is_number(value):
        raise bad_type("value", value, "a Fraction, an int or a float")
    value = value if isinstance(value, Rational) else float(value)
    if isinstance(value, float) and value != value:
        return dtype.nan_code
    negative = value < 0
    if (negative and not dtype.signed) or (value == 0 and not dtype.zero):
        return dtype.nan_code
    infinite = isinstance(value, float) and value in (float("inf"), float("-inf"))
    outward = rounding == ("down" if negative else "up")
    way = rounding if rounding not in ("up", "down") else "away" if outward else "toward-zero"
    code = dtype.max_code + 1 if infinite else _round_magnitude(abs(Fraction(value)), dtype, way)
    if code > dtype.max_code:
        result = overflow or ("saturate" if way == "toward-zero" and not infinite else dtype.overflow)
        if result == "saturate" or not dtype.has_nan:
            code = dtype.max_code
        elif result == "nan" or not dtype.has_infinity:
            return dtype.nan_code
        else:
            code = dtype.max_code + 1
    negative = negative or str(value) == "-0.0"
    if code == 0 and not (dtype.signed and dtype.has_minus_zero):
        return 0
    return code | (1 << dtype.sign_shift if negative else 0)


def _round_magnitude(value: Fraction, fmt: Format, way: str) -> int:
    """Return the code of a magnitude as if exponents went on for ever; "away" from zero is a way too."""
    if value == 0:
        return 0
    if not fmt.zero and value < Fraction(fmt.smallest_normal):
        return 0
    exponent = max(_floor_log2(value), fmt.min_exponent)
    scaled = _times_power(value, fmt.mantissa_bits - exponent)  # an integer part of `precision` bits, or fewer
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    # Without a zero, exponent zero has the hidden bit too.
    before = (exponent - fmt.min_exponent - (not fmt.zero)) * (1 << fmt.mantissa_bits)
    whole += _moves(Fraction(rest, scaled.denominator), way, (whole + before) & 1)
    # The hidden bit carries into the exponent field by itself; below it the number is subnormal.
    code = whole + before
    if fmt.zero and not fmt.subnormals and value < Fraction(fmt.smallest_normal):
        code = _moves(value / Fraction(fmt.smallest_normal), way, 0) << fmt.mantissa_bits
    return code


def _moves(fraction: Fraction, way: str, odd: int) -> int:
    """Return 1 if a number with this fraction of a step beyond a code goes to the next one, else 0."""
    doubled = 2 * fraction
    if way == "nearest-even":
        return int(doubled > 1 or (doubled == 1 and odd == 1))
    return int(doubled >= 1) if way == "nearest-away" else int(way == "away" and fraction > 0)


def _floor_log2(value: Fraction) -> int:
    power = value.numerator.bit_length() - value.denominator.bit_length()
    return power if value.numerator << max(-power, 0) >= value.denominator << max(power, 0) else power - 1


def codes_of(array: Any, dtype: object = None, name: str = "array") -> Array:
    """Return an array's codes as unsigned integers: what `dtype` says they are, or the array's dtype.

    Arrays of unsigned integers are taken as codes already; anything else must have the dtype of the format.
    """
    instance("name", name, str, "text")
    form = None if dtype is None else format_of(dtype, "dtype")
    array = array.codes if isinstance(array, QuarterArray) else array
    held = as_array(name, array, "an array of a format, or its codes")
    if form is not None and held.dtype == form.code_dtype:
        return held
    found = format_of(held, name)
    if form is not None and found != form:
        raise bad_type(name, held.dtype, f"the dtype of {form.name}, or its codes as {form.code_dtype}")
    return np.ascontiguousarray(held).view(found.code_dtype).reshape(held.shape)


def values_of(array: Any, dtype: object = None, name: str = "array") -> NDArray[np.float64]:
    """Return the exact values of an array in any format as float64.

    Parameters
    ----------
    array : array_like
        Of a format's dtype, of float64, a `QuarterArray` (with its scale), or codes where `dtype` is given.
    dtype : Format, dtype or str, optional
        The format of codes.
    name : str, optional
        What the caller calls it, for errors.

    Examples
    --------
    >>> values_of(np.float16([1.5, np.inf])).tolist()
    [1.5, inf]
    """
    if isinstance(array, QuarterArray):
        return np.ldexp(_decoded(array.codes, array.format), array.element_scales())
    held = as_array(name, array, "an array of real numbers")
    if held.dtype.kind not in "fiub":
        format_of(held, name)
    form = None if dtype is None else format_of(dtype, "dtype")
    if form is not None and held.dtype == form.code_dtype:
        return _decoded(held, form)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return held.astype(np.float64)


def _decoded(codes: Array, fmt: Format) -> NDArray[np.float64]:
    """By NumPy, which has FP16 and, as the upper halves of FP32, BF16; codes of other formats one by one."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        if fmt.bits > 16:
            return codes.view(np.float32).astype(np.float64)
        if fmt == FP16:
            return codes.view(np.float16).astype(np.float64)
        if fmt == BF16:
            return (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if codes.size >= 1 << fmt.bits or fmt.bits <= 8:
        return np.asarray(_every_value(fmt)[codes.astype(np.int64)])
    each, places = np.unique(codes, return_inverse=True)
    return _values_one_by_one(each, fmt)[places].reshape(codes.shape)


@cache
def _every_value(fmt: Format) -> NDArray[np.float64]:
    return _values_one_by_one(np.arange(1 << fmt.bits), fmt)


def _values_one_by_one(codes: Array, fmt: Format) -> NDArray[np.float64]:
    values = np.array([float(decode_exact(int(code), fmt)) for code in codes])
    if fmt.has_minus_zero:
        values[codes == 1 << fmt.sign_shift] = -0.0  # fractions have one zero
    return values


def exact_values(array: Any, dtype: object = None) -> Array:
    """Return an object array of `Fraction`; infinities and NaNs stay floats.

    Examples
    --------
    >>> exact_values(np.float16([0.5, -3])) @ exact_values(np.float16([0.5, 2]))
    Fraction(-23, 4)
    """
    values = values_of(array, dtype)
    exact = np.empty(values.shape, object)
    for index, value in np.ndenumerate(values):
        exact[index] = Fraction(value) if np.isfinite(value) else float(value)
    return exact
