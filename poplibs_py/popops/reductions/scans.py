"""Running reductions: of each element and those before it along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import bad_type
from ...ops import Request, op
from ...ops.record import Function
from ...target import TargetLike
from .lower import Way
from .request import Reduction, reduction_request

_PARAMETERS = """
    Parameters
    ----------
    x : array_like or QuarterArray
        float32, float16, bfloat16, FP8 or integer numbers, of any shape and strides. Lists become float32.
    axis : int, optional
        Along which; by default over all elements in C order, as one axis.
    out : array or QuarterArray, optional
        Where the result goes, of any strides; it may overlap `x`.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`. Without one: that of `x`, or float16 where that is FP8.
    target : Target or str, optional
        The machine; by default this CPU, which alone does it.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array of the shape of `x`, or of one axis.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value. Nothing has been written then.
    UnsupportedError
        If `target` names another machine.
"""


def _scan(state: str) -> Callable[[Function], Function]:
    """Make a function that has a docstring alone the running reduction of its name."""
    scan = Reduction(Way("scan", state, "plain"), 0.0, None, scans=True)

    def describe(name: str, /, x: Any, axis: Any, **named: Any) -> Request:
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, (int, np.integer))):
            raise bad_type("axis", axis, "a whole number, or None")
        axes = None if axis is None else (axis,)
        return reduction_request(name, x, axes, lambda _: scan, argument="axis", **named)

    return op(bound="popops.reductions.scan_bound", draws="testing.reduce_calls:scan_calls", shared=_PARAMETERS,
              by=describe)


@_scan("sum")
def cumulative_sum(x: Any, axis: int | None = None, *, out: Any = None, out_dtype: object = None,
                   target: TargetLike = None) -> Any:
    """Running sums (NumPy's ``cumulative_sum``; PopLibs has none).

    Notes
    -----
    In float64, each rounded to FP32 and to the result's format: within a rounding and ``n 2^-53 sum(abs(x))``. The sums
    of four elements, ``a, a + b, (a + b) + c, (a + b) + (c + d)``, are added to the sum of the fours before.
    Integers and truth values are added in 64 bits, which wrap.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.cumulative_sum([1.0, 2.0, 4.0])
    array([1., 3., 7.], dtype=float32)
    """


@_scan("product")
def cumulative_prod(x: Any, axis: int | None = None, *, out: Any = None, out_dtype: object = None,
                    target: TargetLike = None) -> Any:
    """Running products (NumPy's ``cumulative_prod``; PopLibs has none).

    In float64, one element after another, each rounded to FP32 and to the result's format. Integers and truth values
    are multiplied in 64 bits, which wrap.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.cumulative_prod([1.0, 2.0, 4.0])
    array([1., 2., 8.], dtype=float32)
    """


@_scan("max")
def cumulative_max(x: Any, axis: int | None = None, *, out: Any = None, out_dtype: object = None,
                   target: TargetLike = None) -> Any:
    """Greatest element so far, exact (NumPy's ``maximum.accumulate``; PopLibs has none).

    NaN from the first NaN on.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.cumulative_max([1.0, 4.0, 2.0])
    array([1., 4., 4.], dtype=float32)
    """


@_scan("min")
def cumulative_min(x: Any, axis: int | None = None, *, out: Any = None, out_dtype: object = None,
                   target: TargetLike = None) -> Any:
    """Least element so far, exact (NumPy's ``minimum.accumulate``; PopLibs has none).

    NaN from the first NaN on.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> popops.cumulative_min([4.0, 1.0, 2.0])
    array([4., 1., 1.], dtype=float32)
    """
