"""The checks of arguments: each returns what it took, or raises as `poplibs_py.errors` words it."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sized
from numbers import Integral, Real
from typing import Any, TypeGuard

from .errors import InvalidArgumentError, bad_argument, bad_type

__all__ = ["all_of", "as_shape", "check_shape", "finite", "flag", "instance", "is_number", "one_of", "real", "whole"]

_NO_NUMBERS = ("bool", "bool_", "complex64", "complex128", "clongdouble", "complex256")
_MOST_AXES = 64  # NumPy has no more
_MOST_LISTED = 1 << 20


def one_of(name: str, got: object, allowed: tuple[str | None, ...]) -> None:
    """Raise unless `got` is one of some names, whatever else it may be: an array, say, or what cannot be hashed.

    Examples
    --------
    >>> one_of("rounding", "toward-zero", ("nearest-even", "toward-zero"))
    """
    if not ((got is None or isinstance(got, str)) and got in allowed):
        raise bad_argument(name, got, ", ".join(map(repr, allowed)))


def check_shape(name: str, value: Any, fits: object, allowed: str) -> None:
    """Raise unless the shape of an array fits; `value` is the array, or its shape.

    Examples
    --------
    >>> check_shape("x", (2, 3), True, "a matrix")
    """
    if not fits:
        raise bad_argument(name, f"shape {tuple(getattr(value, 'shape', value))}", allowed)


def flag(name: str, value: object) -> bool:
    """Return True or False if `value` is one of them, or NumPy's; raise otherwise: the truth of an array is no flag."""
    if isinstance(value, bool):
        return value
    if type(value).__name__ not in ("bool", "bool_"):
        raise bad_type(name, value, "True or False")
    return bool(value)


def whole(name: str, value: object, low: int | None = None, high: int | None = None, what: str = "") -> int:
    """Return a whole number within bounds, where there are any, both allowed, or raise.

    Examples
    --------
    >>> whole("seed", 7, 0, 9)
    7
    """
    if type(value) is int and (low is None or low <= value) and (high is None or value <= high):
        return value
    bounds = "" if low is None else f", {low} or more" if high is None else f" from {low} to {high}"
    allowed = f"a whole number{bounds}{what}"
    try:
        number = None if type(value).__name__ in ("bool", "bool_") else operator.index(value)  # type: ignore[arg-type]
    except Exception:  # whatever an object of somebody else's raises
        number = None
    if number is None:
        raise bad_type(name, value, allowed)
    if (low is not None and number < low) or (high is not None and number > high):
        raise bad_argument(name, number, allowed)
    return number


def finite(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """Return a finite number within bounds, both allowed, or raise; arrays of no dimensions are numbers.

    Examples
    --------
    >>> finite("prob", 1, 0.0, 1.0)
    1.0
    """
    bounds = "" if low == -math.inf and high == math.inf else f" from {low:g} to {high:g}"
    try:
        if type(value).__name__ in _NO_NUMBERS or isinstance(value, (str, bytes)) or getattr(value, "ndim", None):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        raise bad_argument(name, value, f"a finite number{bounds}") from None
    except Exception:
        raise bad_type(name, value, "a number") from None
    if not (math.isfinite(number) and low <= number <= high):
        raise bad_argument(name, value, f"a finite number{bounds}")
    return number + 0.0  # minus zero counts as zero


def instance(name: str, value: object, kind: type | tuple[type, ...], allowed: str) -> None:
    """Raise unless `value` is of a kind.

    Examples
    --------
    >>> instance("spec", "mm=1,2,3,4", str, "text")
    """
    if not isinstance(value, kind):
        raise bad_type(name, value, allowed)


def is_number(value: object) -> TypeGuard[Real]:
    """Whether `value` is one number, of Python's, NumPy's or ml_dtypes': no truth value, and no array.

    Examples
    --------
    >>> import numpy as np
    >>> is_number(np.float16(0.3)), is_number(True), is_number(np.array(0.3))
    (True, False, False)
    """
    return type(value) is float or (not isinstance(value, bool) and (
        isinstance(value, Real) or type(value).__module__ == "ml_dtypes"))


def real(name: str, value: object, allowed: str = "a number", low: float | None = None,
         high: float | None = None) -> float:
    """Return a number as float, or raise.

    Infinities and NaNs are numbers; only finite ones lie within bounds, which are allowed themselves. The number is
    compared as Python's float: NumPy would convert a bound to the type of its scalar, where it may overflow.

    Examples
    --------
    >>> import numpy as np
    >>> real("alpha", 2)
    2.0
    >>> real("oversize", np.float16(3), "a number from 0 to 1e300", 0, 1e300)
    3.0
    """
    if not is_number(value):
        raise bad_type(name, value, allowed)
    try:
        number = float(value)
    except OverflowError:
        raise bad_argument(name, value, allowed) from None
    except TypeError:  # NumPy's times are integers, and no numbers
        raise bad_type(name, value, allowed) from None
    if low is None and high is None:
        return number
    above, below = low is None or low <= number, high is None or number <= high
    if not (math.isfinite(number) and above and below):
        raise bad_argument(name, value, allowed)
    return number


def all_of(name: str, values: object, kind: type | tuple[type, ...], allowed: str) -> list[Any]:
    """Return what is iterated over as a list if each of it is of a kind, or raise.

    Examples
    --------
    >>> all_of("heads", ("x", "y"), str, "texts")
    ['x', 'y']
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise bad_type(name, values, allowed)
    try:
        if isinstance(values, Sized) and len(values) > _MOST_LISTED:
            raise bad_argument(name, values, f"{allowed}, at most {_MOST_LISTED} of them")
        listed = list(values)
    except InvalidArgumentError:
        raise
    except MemoryError:
        raise
    except Exception:  # an array without axes, or whatever an object of somebody else's raises
        raise bad_type(name, values, allowed) from None
    for value in listed:
        instance(name, value, kind, allowed)
    return listed


def as_shape(name: str, shape: object, least: int = 0, most: int = 1 << 58) -> tuple[int, ...]:
    """Return a shape as a tuple, that of a whole number as of one axis, or raise.

    It has `least` axes or more, and at most `most` numbers, empty axes left out, as NumPy counts: their bytes can be
    counted.

    Examples
    --------
    >>> as_shape("shape", 3), as_shape("shape", [2, 0])
    ((3,), (2, 0))
    """
    listed = [shape] if isinstance(shape, Integral) else all_of(name, shape, Integral, "whole numbers")
    if not least <= len(listed) <= _MOST_AXES:
        raise bad_argument(name, shape, f"{least} to {_MOST_AXES} extents")
    made = tuple([whole(name, extent, 0, most) for extent in listed])
    if math.prod(filter(None, made)) > most:
        raise bad_argument(name, shape, f"extents of at most {most} numbers in all")
    return made
