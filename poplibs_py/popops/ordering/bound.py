"""What rows are in order, by NumPy's stable sorting: exact, as NaN counts as greatest."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import Array
from ...formats.bounds import Ball
from .request import numbers


def _numbers(x: Any) -> Array:
    """Integers as they are, other numbers in float64."""
    held = numbers("x", x)[0].array
    with np.errstate(invalid="ignore"):
        return held if held.dtype.kind in "biu" else held.astype(np.float64)


def _places(x: Any, axis: Any, descending: bool) -> tuple[Array, Array, int]:
    """Numbers, the places of the best of them, best first, and the axis."""
    values = _numbers(x)
    if axis is None:
        values, axis = values.ravel(), 0
    return values, _ordered(values, axis, descending), axis


def _ordered(values: Array, axis: int, descending: bool) -> Array:
    """The places of the best numbers, best first."""
    if not descending:
        return np.argsort(values, axis=axis, kind="stable")
    back = np.argsort(np.flip(values, axis), axis=axis, kind="stable")
    return np.flip(values.shape[axis] - 1 - back, axis)


def _exact(values: Array) -> Ball:
    return Ball.exact(values.astype(np.float64))


def _best(x: Any, k: Any, axis: Any, largest: bool, sort_order: str) -> tuple[Array, Array, int]:
    """Numbers, the places of the best k of each row in the order of the results, and the axis."""
    values, places, axis = _places(x, axis, largest)
    best = np.take(places, np.arange(k), axis=axis)
    if sort_order in ("none", "descending" if largest else "ascending"):
        return values, best, axis
    first = np.sort(best, axis=axis)  # the other way round, equal ones stay in the order of their places
    again = _ordered(np.take_along_axis(values, first, axis), axis, not largest)
    return values, np.take_along_axis(first, again, axis), axis


def sort_bound(x: Any, axis: Any = -1, *, descending: bool = False, out: Any = None, target: Any = None) -> Ball:
    """Return the results of a `sort` call."""
    values, places, axis = _places(x, axis, descending)
    return _exact(np.take_along_axis(values, places, axis))


def argsort_bound(x: Any, axis: Any = -1, *, descending: bool = False, out: Any = None, target: Any = None) -> Ball:
    """Return the results of an `argsort` call."""
    return _exact(_places(x, axis, descending)[1])


def _parted(x: Any, kth: Any, axis: Any) -> tuple[Array, Array, int]:
    """Numbers, the places of what is less than the one at a place, equal to it and greater, and the axis."""
    values, places, axis = _places(x, axis, False)
    middle = np.take_along_axis(values, np.take(places, [kth], axis=axis), axis)
    equal = (values == middle) | ((values != values) & (middle != middle))
    less = (values < middle) | ((values == values) & (middle != middle))
    return values, np.argsort(np.where(less, 0, np.where(equal, 1, 2)), axis=axis, kind="stable"), axis


def partition_bound(x: Any, kth: Any, axis: Any = -1, *, out: Any = None, target: Any = None) -> Ball:
    """Return the results of a `partition` call."""
    values, places, axis = _parted(x, kth, axis)
    return _exact(np.take_along_axis(values, places, axis))


def argpartition_bound(x: Any, kth: Any, axis: Any = -1, *, out: Any = None, target: Any = None) -> Ball:
    """Return the results of an `argpartition` call."""
    return _exact(_parted(x, kth, axis)[1])


def sort_key_value_bound(keys: Any, values: Any, axis: Any = -1, *, descending: bool = False, out: Any = None,
                         target: Any = None) -> tuple[Ball, Ball]:
    """Return the results of a `sort_key_value` call."""
    held, places, along = _places(keys, axis, descending)
    return _exact(np.take_along_axis(held, places, along)), _along(values, axis, places, along)


def _along(values: Any, axis: Any, places: Array, along: int) -> Ball:
    others = _numbers(values)
    return _exact(np.take_along_axis(others.ravel() if axis is None else others, places, along))


def top_k_bound(x: Any, k: Any, axis: Any = -1, *, largest: bool = True, sort_order: str = "none", out: Any = None,
                target: Any = None) -> Ball:
    """Return the results of a `top_k` call."""
    return top_k_with_permutation_bound(x, k, axis, largest=largest, sort_order=sort_order)[0]


def top_k_with_permutation_bound(x: Any, k: Any, axis: Any = -1, *, largest: bool = True, sort_order: str = "none",
                                 out: Any = None, target: Any = None) -> tuple[Ball, Ball]:
    """Return the results of a `top_k_with_permutation` call."""
    values, places, axis = _best(x, k, axis, largest, sort_order)
    return _exact(np.take_along_axis(values, places, axis)), _exact(places)


def top_k_key_value_bound(keys: Any, values: Any, k: Any, axis: Any = -1, *, largest: bool = True,
                          sort_order: str = "none", out: Any = None, target: Any = None) -> tuple[Ball, Ball]:
    """Return the results of a `top_k_key_value` call."""
    held, places, along = _best(keys, k, axis, largest, sort_order)
    return _exact(np.take_along_axis(held, places, along)), _along(values, axis, places, along)
