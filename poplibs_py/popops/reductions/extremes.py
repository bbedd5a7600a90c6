"""Extremes with their places: the results of `max` and `argmax`, or of `min` and `argmin`, of one call."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...checks import flag
from ...ops import Request, axes_of, op, place_of
from ...ops.parts import Part, part_format, results
from ...target import Target, TargetLike
from ...target.types import type_of
from ..sequence import SequenceBuilder, as_taken
from ..strided.request import has_scale
from .modelled import plan_argmax
from .named import Axes, argmax, argmin, max, min
from .request import PLACED_TYPES, counted_source, reduced_shape

_INDEX = np.dtype(np.int64)


class WithIndices(NamedTuple):
    """Extremes, and where they are first."""

    values: Any
    indices: Any


def _request(name: str, /, x: Any, axes: Any, keepdims: Any, out: Any, out_dtype: object, target: Any) -> Request:
    extreme, place = (max, argmax) if name == "max_with_indices" else (min, argmin)
    source, kept = counted_source(x), flag("keepdims", keepdims)
    over = axes_of(axes, source.array.ndim)
    shape = reduced_shape(source.shape, over, kept)
    element = source.format or source.array.dtype
    form = element if source.format is None else part_format(out_dtype, source)
    made = results(out, (Part(shape, form), Part(shape, _INDEX)), WithIndices)
    word = type_of(element)

    def plan_on(machine: Target) -> Any:
        if has_scale(source):
            return "of numbers with a scale"
        if word not in PLACED_TYPES:
            return f"of {element}"
        return plan_argmax(name, source.shape, over, word, machine) if form == element else f"from {element} to {form}"

    placed = place_of(f"popops.{name}", target, plan_on)
    steps = SequenceBuilder(source.array, *made.arrays)
    array, values, indices = steps.operands
    numbers = as_taken(array, source)
    steps.call(extreme, numbers, over, keepdims=kept, out=values, out_dtype=out_dtype)
    steps.call(place, numbers, over, keepdims=kept, out=indices)
    return Request.to(made, steps.made(), (source,), steps.told(name, source.shape, element), placed=placed)


@op("popnn::maxAndArgMax", bound="popops.reductions.bound", draws="testing.reduce_calls", written=None, by=_request)
def max_with_indices(x: Any, axes: Axes = None, *, keepdims: bool = False, out: Any = None, out_dtype: object = None,
                     target: TargetLike = None) -> Any:
    """Greatest elements, and the places of the first of them (``popnn::maxAndArgMax``).

    Parameters
    ----------
    x, axes, keepdims
        As `max` and `argmax` take them.
    out : tuple of two arrays, optional
        Where the results go; they may overlap `x`.
    out_dtype : Format, dtype or str, optional
        Of the elements, as `max` takes it; a format that has a dtype.
    target : Target or str, optional
        The machine; by default this CPU.

    Returns
    -------
    values : numpy.ndarray
        Those of `max`.
    indices : numpy.ndarray of int64
        Those of `argmax`.

    Examples
    --------
    >>> popops.max_with_indices([[1.0, 7.0], [6.0, 2.0]], 1)
    WithIndices(values=array([7., 6.], dtype=float32), indices=array([1, 0]))
    """


@op("popnn::minAndArgMin", bound="popops.reductions.bound", draws="testing.reduce_calls", written=None, by=_request)
def min_with_indices(x: Any, axes: Axes = None, *, keepdims: bool = False, out: Any = None, out_dtype: object = None,
                     target: TargetLike = None) -> Any:
    """Least elements, and the places of the first of them (``popnn::minAndArgMin``).

    Parameters
    ----------
    x, axes, keepdims, out, out_dtype, target
        As for `max_with_indices`.

    Returns
    -------
    values : numpy.ndarray
        Those of `min`.
    indices : numpy.ndarray of int64
        Those of `argmin`.

    Examples
    --------
    >>> popops.min_with_indices([1.0, 7.0, 0.5]).indices
    array(2)
    """
