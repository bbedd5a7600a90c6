"""The reference codec: decodes and encodes any format in plain NumPy, written to be obvious rather than fast.

The compiled kernels are checked against it. Every step is exact in float64: powers of two scale, `numpy.floor` splits,
and comparisons decide.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from ..checks import check_shape, one_of, whole
from ..errors import bad_argument, bad_type
from .arrays import Array, as_array, broadcast, floats
from .format import Format, format_of

__all__ = ["Overflow", "Rounding", "decode", "default_overflow", "encode", "values"]

Rounding = Literal["nearest-even", "toward-zero", "stochastic", "up", "down", "nearest-away"]
Overflow = Literal["saturate", "nan", "inf", "directed"]


def decode(codes: Array, dtype: Format, scale: int | Array = 0) -> Array:
    """Return the values of codes, in float64.

    Parameters
    ----------
    codes : numpy.ndarray of unsigned integers
        Codes of `dtype`.
    dtype : Format
        Any format of at most 16 bits, or FP32.
    scale : int or numpy.ndarray of int, optional
        Values are multiplied by ``2**scale``; broadcast against `codes`.

    Examples
    --------
    >>> from poplibs_py.formats import F143
    >>> decode(np.array([0x3C, 0x7F, 0x80], np.uint8), F143)
    array([  0.75, 240.  ,    nan])
    """
    dtype, scale = format_of(dtype), _exponents(scale)
    code = _whole_numbers("codes", codes, f"codes of {dtype} as whole numbers").astype(np.int64)
    broadcast("scale", np.shape(scale), code.shape)
    magnitude = code & ((1 << dtype.sign_shift) - 1)
    negative = code >> dtype.sign_shift & 1 == 1
    exponent = magnitude >> dtype.mantissa_bits
    fraction = magnitude & ((1 << dtype.mantissa_bits) - 1)
    normal = np.ldexp((1 << dtype.mantissa_bits) + fraction, exponent - dtype.bias - dtype.mantissa_bits)
    small = np.ldexp(fraction * dtype.subnormals, 1 - dtype.bias - dtype.mantissa_bits)
    value = np.where((exponent > 0) | (not dtype.zero), normal, small)
    value = np.where(magnitude > dtype.max_code, np.nan, value)
    if dtype.has_infinity:
        value = np.where(magnitude == dtype.infinity_code, np.inf, value)
    if dtype.has_nan:
        value = np.where(code == dtype.nan_code, np.nan, value)
    return np.ldexp(np.where(negative, -value, value), scale)


def default_overflow(dtype: Format, rounding: Rounding) -> Overflow:
    """Return what an overflow becomes by default: IEEE 754's result, with NaN where there is no infinity.

    ``"directed"``, of rounding up and down, is infinity (or NaN) on the side that rounding goes to, and the largest
    number on the other. ``"finite"`` formats saturate.
    """
    dtype = format_of(dtype)
    one_of("rounding", rounding, get_args(Rounding))
    if rounding == "toward-zero" or not dtype.has_nan:
        return "saturate"
    return "directed" if rounding in ("up", "down") else dtype.overflow


def allowed_overflows(dtype: Format, rounding: str) -> tuple[Overflow, ...]:
    """Return what may be asked for where numbers are too large."""
    may: dict[Overflow, bool] = {"saturate": True, "nan": dtype.has_nan, "inf": dtype.has_infinity,
                                 "directed": dtype.has_nan and rounding in ("up", "down")}
    return tuple(word for word, allowed in may.items() if allowed)


def encode(values: Array, dtype: Format, *, scale: int | Array = 0, rounding: Rounding = "nearest-even",
           overflow: Overflow | None = None, words: Array | None = None, random_bits: int = 31) -> Array:
    """Return the codes of values, rounded once.

    Parameters
    ----------
    values : numpy.ndarray
        Real numbers; converted to float64, which must hold them.
    dtype : Format
        Any format of at most 16 bits, or FP32.
    scale : int or numpy.ndarray of int, optional
        The codes are those of ``values / 2**scale``; broadcast against `values`.
    rounding : {"nearest-even", "toward-zero", "stochastic", "up", "down", "nearest-away"}, optional
        Nearest even breaks ties to the even code, nearest away from zero; up and down go to plus and minus infinity.
        Stochastic rounding moves away from zero if and only if
        ``f + (R + 1/2) / 2**random_bits >= 1``, with f the fraction that truncation discards, as a share of the step.
    overflow : {"saturate", "nan", "inf", "directed"}, optional
        What a finite number becomes that, rounded as if the exponent had no limit, passes the largest finite number.
        See `default_overflow`.
    words : numpy.ndarray of uint32, optional
        For stochastic rounding: R is the top `random_bits` of each element's word.
    random_bits : int, optional
        1 to 31.

    Returns
    -------
    numpy.ndarray
        Codes, dtype ``dtype.code_dtype``.

    Notes
    -----
    Infinities stay where the format has them and become NaN elsewhere. NaN keeps its sign where the format has signed
    NaN, and the top of its payload where the format has payloads; it becomes quiet. In a ``"finite"`` format infinities
    become the largest number, and NaN becomes the zero of the other sign (+0 where it is unsigned), as in ml_dtypes.
    Unsigned formats make NaN of numbers below zero, or zero where there is no NaN.
    """
    dtype, scale = format_of(dtype), _exponents(scale)
    one_of("rounding", rounding, get_args(Rounding))
    overflow = checked_overflow(overflow, dtype, rounding)
    if rounding == "stochastic":
        words = _whole_numbers("words", words, "whole numbers of 32 bits, which stochastic rounding needs")
        random_bits = whole("random_bits", random_bits, 1, 31)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        x = floats("values", values)
    broadcast("scale", np.shape(scale), x.shape)
    given = np.asarray(words).shape
    check_shape("words", given, rounding != "stochastic" or given in ((), x.shape),
                f"one for each element, shape {x.shape}")
    finite = np.isfinite(x)
    within = np.minimum(np.abs(x), 2.0**200)  # past every format's range, and no overflow of float64 below
    magnitude = np.ldexp(np.where(finite, within, 0.0), np.negative(scale))

    step = _step(magnitude, dtype)
    steps = magnitude / step
    below = np.floor(steps)
    if rounding == "nearest-even":
        up = _nearest_is_up(below, steps - below, step, dtype)
    elif rounding == "nearest-away":
        up = steps - below >= 0.5
    elif rounding in ("toward-zero", "up", "down"):
        up = (steps > below) & (rounding == np.where(np.signbit(x), "down", "up"))
    else:
        noise = (np.asarray(words, np.uint32) >> np.uint32(32 - random_bits)) + 0.5
        up = steps - below >= 1 - noise / 2.0**random_bits
    code = _code((below + up) * step, dtype)

    beyond = {"saturate": dtype.max_code, "nan": dtype.nan_code, "inf": dtype.infinity_code}
    if overflow == "directed":
        outward = rounding == np.where(np.signbit(x), "down", "up")
        over: Any = np.where(outward, beyond[dtype.overflow], dtype.max_code)
    else:
        over = beyond[overflow]
    code = np.where(code > dtype.max_code, over, code)
    code = np.where(np.isinf(x), beyond[dtype.overflow], code)
    code = np.where(np.isnan(x), _nan_codes(x, dtype), code)
    if not dtype.signed:  # whatever has a sign is the one NaN
        code = np.where(np.where(x == 0, not dtype.zero, np.signbit(x)), dtype.nan_code, code)
    negative = np.signbit(x) & dtype.signed & ((code != 0) | dtype.has_minus_zero)
    sign = negative.astype(np.int64) << dtype.sign_shift
    return np.asarray(np.where(code < 0, 0, code | sign), dtype.code_dtype)


def checked_overflow(overflow: object, dtype: Format, rounding: Rounding) -> Overflow:
    """Return what too large numbers become: the default for None."""
    if overflow is None:
        return default_overflow(dtype, rounding)
    allowed = allowed_overflows(dtype, rounding)
    for word in allowed:
        if isinstance(overflow, str) and overflow == word:
            return word
    words = ", ".join(map(repr, allowed))
    if dtype.has_infinity:
        words = " or ".join(words.rsplit(", ", 1))
    else:
        words += f"; {dtype} has no infinity" + ("" if dtype.has_nan else " and no NaN")
    raise bad_argument("overflow", overflow, words)


def _whole_numbers(name: str, value: object, allowed: str) -> Array:
    array = as_array(name, value, allowed)
    if array.dtype.kind not in "iu":
        raise bad_type(name, str(array.dtype), allowed)
    return array


def _exponents(scale: object) -> Array:
    return _whole_numbers("scale", scale, "whole numbers: values are codes times 2**scale")


def _step(magnitude: Array, fmt: Format) -> Array:
    """The distance of the two neighbours in `fmt`, its exponent unbounded above, that enclose each magnitude."""
    exponent = np.frexp(magnitude)[1] - 1
    normal: Array = np.ldexp(1.0, np.maximum(exponent, fmt.min_exponent) - fmt.mantissa_bits)
    below = (magnitude < fmt.smallest_normal) & fmt.zero
    return np.asarray(np.where(below, fmt.smallest_subnormal, normal))


def _nearest_is_up(below: Array, fraction: Array, step: Array, fmt: Format) -> Array:
    odd = _code(below * step, fmt) % 2 == 1
    return np.asarray((fraction > 0.5) | ((fraction == 0.5) & odd))


def _code(value: Array, fmt: Format) -> Array:
    """The code of numbers of `fmt`, its exponent unbounded above."""
    mantissa, exponent = np.frexp(value)
    normal = (exponent.astype(np.int64) + fmt.bias - 2) * (1 << fmt.mantissa_bits) + np.ldexp(mantissa, fmt.precision)
    subnormal = np.ldexp(value, fmt.mantissa_bits - fmt.min_exponent) * fmt.zero  # else the smallest number is next
    return np.asarray(np.where(value < fmt.smallest_normal, subnormal, normal), np.int64)


def _nan_codes(x: Array, fmt: Format) -> Array | int:
    if not fmt.has_nan:  # the zero of the other sign
        return np.where(np.signbit(x), -fmt.nan_code, fmt.nan_code)
    if fmt.specials != "ieee":
        return fmt.nan_code
    payload = x.view(np.int64) & ((1 << 52) - 1)
    return np.asarray(fmt.nan_code | payload >> (52 - fmt.mantissa_bits))


def values(array: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return an operand's values as float64; a `QuarterArray` with its scale."""
    try:
        held = array.to_array() if hasattr(array, "to_array") else np.asarray(array)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return np.asarray(held.astype(np.float64))
    except (TypeError, ValueError, RuntimeError):
        raise bad_type("array", array, "an array of numbers") from None
