"""Distances between floating-point numbers of any format, in units in the last place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check_shape, instance
from ..formats import Floats, Format, format_of
from ..formats.arrays import broadcast
from ..formats.bounds import Ball
from .exact import codes_of, values_of


def ulp(value: ArrayLike, dtype: Any) -> Floats:
    """Return the unit in the last place: the spacing of a format's numbers at a value.

    Below the smallest normal number it is the smallest subnormal; at an infinity or a NaN it is NaN.

    Parameters
    ----------
    value : array_like of float
        Any real numbers; they need not be numbers of the format.
    dtype : Format, dtype or str
        The format.

    Examples
    --------
    >>> ulp([1.0, 1.99, 2.0, 0.0], "float16").tolist() == [2**-10, 2**-10, 2**-9, 2**-24]
    True
    """
    form = format_of(dtype)
    magnitude = np.abs(values_of(value, name="value"))
    with np.errstate(invalid="ignore"):
        exponent = np.frexp(magnitude)[1] - 1
    exponent = np.maximum(np.where(magnitude > 0, exponent, form.min_exponent), form.min_exponent)
    return np.where(np.isfinite(magnitude), np.ldexp(1.0, exponent - form.mantissa_bits), np.nan)


def ulp_error(got: Any, exact: ArrayLike, dtype: Any = None) -> Floats:
    """Return how far results lie from exact real numbers, in units in the last place of the exact ones.

    A correctly rounded result is at most 0.5 away. Equal infinities, and two NaNs, are 0 apart; a special against a
    number is infinitely far.

    Parameters
    ----------
    got : array_like
        Results, of a format's dtype, or float64 values with `dtype`.
    exact : array_like of float
        What they should be.
    dtype : Format, dtype or str, optional
        The results' format; that of their dtype by default.

    Examples
    --------
    >>> ulp_error(np.float16([1.0, 1.001]), [1.0005, 1.0005]).round(3).tolist()
    [0.512, 0.488]
    """
    form = format_of(got if dtype is None else dtype)
    values, truth = values_of(got, form, "got"), values_of(exact, name="exact")
    broadcast("exact", truth.shape, values.shape)
    with np.errstate(invalid="ignore"):
        distance = np.abs(values - truth) / ulp(truth, form)
    same = (values == truth) | (np.isnan(values) & np.isnan(truth))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def ulp_distance(a: Any, b: Any, dtype: Any = None) -> Floats:
    """Return how many numbers of the format lie from one to the other: 0 for equal, 1 for neighbours.

    The two zeros are equal, the largest finite number and infinity are neighbours, and a NaN is infinitely far from
    any number and 0 from a NaN.

    Parameters
    ----------
    a, b : array_like
        Arrays of one format's dtype, or its codes where `dtype` is given.
    dtype : Format, dtype or str, optional
        The format; that of the dtype of `a` by default.

    Examples
    --------
    >>> ulp_distance(np.float32([1.0, -0.0]), np.float32([1 + 2**-23, 2**-149])).tolist()
    [1.0, 1.0]
    """
    form = format_of(a if dtype is None else dtype)
    left, right = (_ranks(codes_of(x, form, name), form) for x, name in ((a, "a"), (b, "b")))
    broadcast("b", right.shape, left.shape)
    same = np.isnan(left) & np.isnan(right)
    with np.errstate(invalid="ignore"):
        distance = np.abs(left - right)
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def _ranks(codes: NDArray[Any], fmt: Format) -> Floats:
    """Return each code's place in the order of the numbers, zero at zero, and NaN for NaN."""
    code = codes.astype(np.int64)
    magnitude = code & (1 << fmt.sign_shift) - 1
    sign = np.where(code >> fmt.sign_shift, -1.0, 1.0)
    without = 0 if fmt.subnormals else (1 << fmt.mantissa_bits) - 1
    magnitude = np.maximum(magnitude - without, 0)
    nan = magnitude > fmt.max_code - without + fmt.has_infinity
    if fmt.has_nan:
        nan |= code == fmt.nan_code
    return np.where(nan, np.nan, sign * magnitude)


def error_over_bound(got: Any, ball: Ball, dtype: Any = None) -> Floats:
    """Return each result's error as a share of what its bound allows: above 1 is wrong.

    Where nothing is promised the share is 0. It is infinite for an infinity or a NaN where a number or another of the
    two is due.

    Parameters
    ----------
    got : array_like
        Results, in the shape of the balls.
    ball : Ball
        What `poplibs_py.testing.bound` returned.
    dtype : Format, dtype or str, optional
        The format of codes.

    Examples
    --------
    >>> from poplibs_py.formats.bounds import Ball
    >>> error_over_bound(np.float32([1.0, 1.5]), Ball(np.ones(2), np.full(2, 0.25))).tolist()
    [0.0, 2.0]
    """
    instance("ball", ball, Ball, "a Ball")
    values = values_of(got, format_of(dtype) if dtype is not None else None)
    check_shape("got", values, values.shape == ball.shape, f"shape {ball.shape}, as ball has")
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.abs(values - ball.centre) / ball.radius
    outside = ~ball.contains(values)
    equal = (values == ball.centre) | np.isinf(ball.radius) | ~(np.isfinite(ball.centre) | outside)
    share = np.where(equal, 0.0, share)
    return np.where(np.isfinite(share) & (np.isfinite(values) | ~outside), share, np.inf)
