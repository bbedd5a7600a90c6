"""``popops::scaledAddTo`` and its kin: sums of scaled arrays, each a `map` with a name of its own."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...errors import bad_argument, bad_type
from ...formats import Format
from ...formats.bounds import Ball
from ...ops import Request, op, result_format
from ...target import TargetLike
from ..elementwise.promotion import typed
from ..expr import Expression, const, number, placeholder
from .bound import map_bound
from .modelled import ScaledSum
from .request import Worded, mapped, mapped_operand


class _Sum(NamedTuple):
    """The expression of a sum, of numbers and of words, its arrays and their names, the words, the result's type."""

    expression: Expression
    plain: Expression
    arrays: tuple[Any, ...]
    names: tuple[str, ...]
    words: tuple[int, ...]
    dtype: Any


_SCALES = "scale", "scale_a"


def _sum(form: str, a: Any, b: Any, scale: Any, scale_a: Any) -> _Sum:
    arrays, names, words = [a, b], ["a", "b"], [0, 0]

    def factors(name: str, value: Any) -> tuple[Expression, Expression]:
        at = _SCALES.index(name)
        if isinstance(value, (bool, int, float, np.generic)):
            plain, words[at] = number(1, at, value)
            return const(value), plain
        arrays.append(value)
        names.append(name)
        return (placeholder(len(arrays)),) * 2

    def summed(scale: Expression, scale_a: Expression | None) -> Expression:
        x, y = placeholder(1), scale * placeholder(2)
        if scale_a is not None:
            x = x - scale_a * x if form == "x_minus_ax_plus_by" else scale_a * x
        made: Expression = x - y if form == "scaled_subtract" else x + y
        return made

    of_b = factors("scale", scale)
    of_a = (None, None) if scale_a is None and form != "x_minus_ax_plus_by" else factors("scale_a", scale_a)
    element = mapped_operand("a", a).format
    if not isinstance(element, Format):
        for name, value in (("scale", scale), ("scale_a", scale_a)):
            if isinstance(value, (float, np.floating)):
                raise bad_type(name, value, f"a whole number, as a is of {element}")
            if isinstance(value, (int, np.integer)):
                typed(name, np.asarray(value), element)
    dtype = result_format(element) if isinstance(element, Format) else element
    sums = summed(of_b[0], of_a[0]), summed(of_b[1], of_a[1])
    return _Sum(*sums, tuple(arrays), tuple(names), tuple(words), dtype)


def _constant(name: str, scale: Any) -> float | None:
    """A scale that is one number, or None where it is an array."""
    if not isinstance(scale, (bool, int, float, np.generic)):
        return None
    if isinstance(scale, np.generic) and scale.dtype.kind in "cmMSU":
        raise bad_type(name, scale, "a real number or an array")
    try:
        return float(scale)
    except OverflowError:
        raise bad_argument(name, scale, "a number that float64 holds") from None


def _request(form: str, /, a: Any, b: Any, scale: Any, scale_a: Any, out: Any, out_dtype: Any, target: Any) -> Request:
    scaled = ScaledSum(form, _constant("scale", scale), _constant("scale_a", scale_a), scale_a is not None, False)
    made = _sum(form, a, b, scale, scale_a)
    dtype = out_dtype if out_dtype is not None or out is not None else made.dtype
    plain = Worded((made.plain,), np.empty(0, np.uint64), made.words)
    return mapped((made.expression,), False, made.arrays, out, dtype, False, False, target, form, made.names,
                  scaled, plain)


def _bound(form: str, a: Any, b: Any, scale: Any = 1, *, scale_a: Any = None, out: Any = None, out_dtype: Any = None,
           target: Any = None) -> Ball:
    made = _sum(form, a, b, scale, scale_a)
    dtype = out_dtype if out_dtype is not None or out is not None else made.dtype
    dtype = dtype if isinstance(made.dtype, Format) else None
    ball: Ball = map_bound(made.expression, *made.arrays, out=out, out_dtype=dtype, target="host")
    return ball


scaled_add_bound, scaled_subtract_bound = (partial(_bound, form) for form in ("scaled_add", "scaled_subtract"))


def x_minus_ax_plus_by_bound(a: Any, b: Any, scale_a: Any, scale: Any, **how: Any) -> Ball:
    """Return exact results and radii of an `x_minus_ax_plus_by` call."""
    return _bound("x_minus_ax_plus_by", a, b, scale, scale_a=scale_a, **how)


_PARAMETERS = """
    Parameters
    ----------
    a, b : array_like or QuarterArray
        Of any formats, or of integers; of any shapes and strides, which broadcast as in NumPy. Lists become float32.
    scale, scale_a : number or array_like
        Of `b` and of `a`: numbers, or any arrays that broadcast.{default} Integers take whole numbers.
    out : array or QuarterArray, optional
        Where the result goes; `a` itself for PopLibs' in-place form.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`, or that of `a` (float16 where that is FP8), whatever `b` is.
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one, such as ``"gc200"``, the numbers are the same; it has
        vertices for arrays of one shape, and for scales that are numbers or arrays of one element.

    Returns
    -------
    numpy.ndarray or QuarterArray
        `out`, or a new array.

    Notes
    -----
    Numbers are FP32: each product and each sum is rounded once, the result once more to its format. PopLibs casts `b`
    to the type of `a` first, and rounds scales of half arrays to half where that loses less than a tolerance: here
    neither is rounded. Integers wrap.
"""


@op("popops::scaledAddTo", bound="popops.maps.scaled_add", draws="testing.map_calls", numbers=_SCALES,
    shared=_PARAMETERS.format(default=" By default 1 and none."), by=_request)
def scaled_add(a: object, b: object, scale: object = 1, *, scale_a: object = None, out: Any = None,
               out_dtype: object = None, target: TargetLike = None) -> Any:
    """``a + scale * b``, or ``scale_a * a + scale * b`` (``popops::scaledAddTo``).

    Examples
    --------
    >>> weights, gradient = np.float16([1, 2]), np.float32([0.5, -8])
    >>> popops.scaled_add(weights, gradient, -0.25, out=weights)
    array([0.875, 4.   ], dtype=float16)
    """


@op("popops::scaledSubtractFrom", bound="popops.maps.scaled_add", draws="testing.map_calls:scaled_add_calls",
    numbers=_SCALES, shared=_PARAMETERS.format(default=" By default 1 and none."), by=_request)
def scaled_subtract(a: object, b: object, scale: object = 1, *, scale_a: object = None, out: Any = None,
                    out_dtype: object = None, target: TargetLike = None) -> Any:
    """``a - scale * b``, or ``scale_a * a - scale * b`` (``popops::scaledSubtractFrom``).

    Examples
    --------
    >>> popops.scaled_subtract([1.0, 2.0], [4.0, 4.0], 0.5)
    array([-1.,  0.], dtype=float32)
    """


@op("popops::scaledAddTo", bound="popops.maps.scaled_add", draws="testing.map_calls", numbers=_SCALES,
    shared=_PARAMETERS.format(default=""), by=_request)
def x_minus_ax_plus_by(a: object, b: object, scale_a: object, scale: object, *, out: Any = None,
                       out_dtype: object = None, target: TargetLike = None) -> Any:
    """``a - scale_a * a + scale * b`` (``popops::scaledAddTo`` with ``ScaledAddSpecialisation::X_MINUS_AX_PLUS_BY``).

    Examples
    --------
    >>> popops.x_minus_ax_plus_by([1.0, 2.0], [4.0, 4.0], 0.25, 0.5)     # a moving average
    array([2.75, 3.5 ], dtype=float32)
    """
