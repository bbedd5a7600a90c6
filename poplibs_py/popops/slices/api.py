"""Slices at positions that are known when the call is made: windows, rows, rows of groups; and what replaces them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...checks import all_of, check_shape, whole
from ...errors import bad_argument
from ...ops import Operand, Request, op, whole_operand
from ...planner import Memory
from ...target import Target, TargetLike
from ...target.types import type_of
from .embedding.lower import HostEmbeddingPlan
from .embedding.plan import EmbeddingPlan
from .lower import Layout
from .modelled import PlanOn, rows_planner, windows_planner
from .request import checked_policy, elements_of, put_request, table_of, take_request, updates_of
from .windows_modelled import Sliced

__all__ = ["dynamic_slice", "dynamic_update", "grouped_multi_slice", "grouped_multi_update", "multi_slice",
           "multi_update"]

_COMMON = """    index_policy : {"raise", "clip", "skip", "wrap", "zero", "poplibs"}, optional
        What becomes of an index that is negative or beyond the end: the page "Slices by index" tells.
    out : array, optional
        Where the result goes, of any strides and of the dtype of `x`{in_place}.
    target : Target or str, optional
        The machine; by default this CPU{machines}.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value. Nothing has been written then.
    InvalidIndexError
        If an index is out of range, under ``"raise"``. Nothing has been written then.
    UnsupportedError
        If `target` names a machine that has no vertex for it.
"""
_MEMORY = """    available_memory_proportion : float, optional
        The share of each tile's memory that temporaries may take. {host} On a modelled machine the plan
        keeps to it, by default to PopLibs' 0.6.
"""
_HOST = {"sorted": """On this CPU updates of formats other than float32
        are sorted, as many at a time as that leaves room for; the result does not depend on it, and by default there is
        no limit.""", "rows": "This CPU takes a few bytes, where bad indices are refused."}
_MODELLED = """. On a modelled one, such as ``"gc200"``, it has vertices
        for most types; the page "What a modelled run computes" tells which numbers come out"""
_IN_PLACE = ": `x` itself to update it where it is"

Axes = int | Sequence[int]
Function = Callable[..., Any]


def slicing_op(poplibs: str = "", writes: bool = False, memory: str = "", numbers: tuple[str, ...] = (),
               by: Callable[..., Request] | None = None) -> Callable[[Function], Function]:
    """Make a function an op of slices: its record, and what all of them say of their arguments."""
    said = (_MEMORY.replace("{host}", _HOST[memory]) if memory else "") + _COMMON
    said = said.replace("{in_place}", _IN_PLACE if writes else "").replace("{machines}", _MODELLED)
    return op(f"popops::{poplibs}" if poplibs else "", shared=said, bound="popops.slices.bound",
              draws="testing.slice_calls", numbers=numbers, by=by)


# Windows ---------------------------------------------------------------------------------------------


@slicing_op("dynamicSlice")
def dynamic_slice(x: Any, offsets: Any, axes: Axes, sizes: Sequence[int] | int, *,
                  index_policy: str = "raise", out: Any = None, target: TargetLike = None) -> Any:
    """Return the window of an array that begins at given offsets (``popops::dynamicSlice``).

    Parameters
    ----------
    x : array_like
        Numbers of a format, integers or truth values, of any shape and strides.
    offsets : array_like of int [len(axes)]
        Where the window begins along each of the axes.
    axes : int or sequence of int
        Which axes; along the others the window is the whole.
    sizes : int or sequence of int
        How long it is along each of the axes.

    Notes
    -----
    Exact. A window that reaches beyond the end goes on at the beginning, as in PopLibs.

    Examples
    --------
    >>> popops.dynamic_slice([1.0, 2.0, 3.0, 4.0], [3], 0, 2)
    array([4., 1.], dtype=float32)
    """
    table, places, policy = table_of("x", x), whole_operand("offsets", offsets), checked_policy(index_policy)
    named = _axes(table, axes)
    lengths = [sizes] if isinstance(sizes, (int, np.integer)) else all_of("sizes", sizes, (int, np.integer), "sizes")
    if len(lengths) != len(named):
        raise bad_argument("sizes", f"{len(lengths)} sizes", f"{len(named)}, one for each of the axes")
    shape = list(table.shape)
    for axis, length in zip(named, lengths, strict=True):
        shape[axis] = whole("sizes", length, 0, table.shape[axis])
    layout = _window_layout(table, places, named, tuple(shape))
    plan_on = _window_planner(table, table, named, tuple(shape))
    return take_request("popops.dynamic_slice", table, places, layout, tuple(shape), policy, out, target,
                        plan_on=plan_on, name="offsets")


@slicing_op("dynamicUpdate", writes=True)
def dynamic_update(x: Any, updates: Any, offsets: Any, axes: Axes, *, index_policy: str = "raise",
                   out: Any = None, target: TargetLike = None) -> Any:
    """Write a window of an array that begins at given offsets (``popops::dynamicUpdate``).

    Parameters
    ----------
    x : array_like
        Numbers of a format, integers or truth values, of any shape and strides.
    updates : array_like
        What is written, of the dtype of `x`: as long as `x` along all other axes.
    offsets : array_like of int [len(axes)]
        Where the window begins along each of the axes.
    axes : int or sequence of int
        Which axes.

    Notes
    -----
    Exact. A window that reaches beyond the end goes on at the beginning, as in PopLibs.

    Examples
    --------
    >>> popops.dynamic_update([1.0, 2.0, 3.0, 4.0], [8.0, 9.0], [3], 0)
    array([9., 2., 3., 8.], dtype=float32)
    """
    table = table_of("x", x)
    given = updates_of(updates, table)
    places, policy = whole_operand("offsets", offsets), checked_policy(index_policy)
    named = _axes(table, axes)
    fits = len(given.shape) == len(table.shape) and all(
        m <= n if d in named else m == n for d, (m, n) in enumerate(zip(given.shape, table.shape, strict=True)))
    check_shape("updates", given, fits, f"that of x, {table.shape}, or less along axes {named}")
    layout = _window_layout(table, places, named, given.shape)
    plan_on = _window_planner(table, given, named, given.shape, "set")
    return put_request("popops.dynamic_update", table, places, given, layout, policy, out, target, plan_on=plan_on,
                       name="offsets")


def _window_planner(table: Operand, other: Operand, named: tuple[int, ...], window: tuple[int, ...],
                    update: str = "") -> PlanOn:
    return windows_planner(elements_of(table), elements_of(other), Sliced(table.shape, window, named), update)


def _axes(table: Operand, axes: Any) -> tuple[int, ...]:
    rank = len(table.shape)
    several = [axes] if isinstance(axes, (int, np.integer)) else all_of("axes", axes, (int, np.integer), "axes")
    if several and not rank:
        raise bad_argument("axes", axes, "none: x has no axis")
    named = tuple(whole("axes", axis, -rank, rank - 1) % rank for axis in several)
    if len(set(named)) < len(named):
        raise bad_argument("axes", axes, "axes that are named once")
    return named


def _window_layout(table: Operand, offsets: Operand, named: tuple[int, ...], shape: tuple[int, ...]) -> Layout:
    check_shape("offsets", offsets, offsets.shape == (len(named),), f"({len(named)},): one for each of the axes")
    windows = tuple((n, d, d, named.index(d) if d in named and n > 1 else -1) for d, n in enumerate(shape))
    return Layout((), tuple((axis, table.shape[axis]) for axis in named), windows, 0)


# Rows ------------------------------------------------------------------------------------------------


def _rows_layout(table: Operand, indices: Operand, axis: int, groups: bool) -> Layout:
    """Rows of a table, or of each of several: the other array is [(groups,) n, table's axes without that of groups]."""
    front = 1 if groups else 0
    rank, shape = len(table.shape), indices.shape
    if len(shape) == front + 2 and shape[-1] == 1:
        shape = shape[:-1]
    allowed = f"[{table.shape[0]}, n]" if groups else "[n]"
    check_shape("indices", indices, len(shape) == front + 1 and not (groups and shape[0] != table.shape[0]),
                f"{allowed}, or that with one more axis of 1")
    windows = tuple((1 if d == axis else n, d, d + 1, -1) for d, n in enumerate(table.shape) if d >= front)
    lookups = (shape[-1], front, None, front)
    assert axis < rank
    axes = ((shape[0], 0, 0, 0), lookups) if groups else (lookups,)
    return Layout(axes, ((axis, table.shape[axis]),), windows)


def _axis(table: Operand, axis: Any, groups: bool) -> int:
    rank, least = len(table.shape), 2 if groups else 1
    check_shape("x", table, rank >= least, f"{least} axes or more")
    found = whole("axis", axis, -rank, rank - 1) % rank
    if groups and found == 0:
        raise bad_argument("axis", axis, "another axis than that of the groups, 0")
    return found


def row_slice(name: str, /, x: Any, indices: Any, axis: Any, index_policy: Any, out: Any, target: Any,
              available_memory_proportion: Any = None, strict_memory: Any = False,
              plan: EmbeddingPlan | HostEmbeddingPlan | None = None) -> Request:
    groups, memory = name.startswith("grouped"), Memory(available_memory_proportion, strict_memory)
    table, places, checked = table_of("x", x), whole_operand("indices", indices), checked_policy(index_policy)
    along = _axis(table, axis, groups)
    layout = _rows_layout(table, places, along, groups)
    front = [n for n, *_ in layout.axes]
    said: Memory | None = memory
    if plan is not None:
        _check_planned(plan, table, front[-1])
        said = plan.memory if isinstance(plan, HostEmbeddingPlan) else None
    shape = (*front, *(n for n, *_ in layout.windows))
    plan_on = _rows_planner(f"popops.{name}", table, table, layout, "", memory, plan)
    return take_request(f"popops.{name}", table, places, layout, shape, checked, out, target, plan_on=plan_on,
                        memory=said, host=_host_of(plan))


def row_update(name: str, /, x: Any, updates: Any, indices: Any, axis: Any, index_policy: Any, out: Any, target: Any,
               scale: Any = 1.0, available_memory_proportion: Any = None, strict_memory: Any = False,
               plan: EmbeddingPlan | HostEmbeddingPlan | None = None) -> Request:
    groups, update = name.startswith("grouped"), name.partition("multi_update")[2].removeprefix("_") or "set"
    memory: Memory | None = Memory(available_memory_proportion, strict_memory)
    table, places = table_of("x", x), whole_operand("indices", indices)
    given = updates_of(updates, table)
    checked, along = checked_policy(index_policy), _axis(table, axis, groups)
    layout = _rows_layout(table, places, along, groups)
    front = [n for n, *_ in layout.axes]
    if plan is not None:
        _check_planned(plan, table, front[-1])
        memory = plan.memory if isinstance(plan, HostEmbeddingPlan) else None
    shape = (*front, *(n for n, *_ in layout.windows))
    flat = (*front, *(n for n, d, *_ in layout.windows if d != along))
    if given.shape == flat and flat != shape:
        at = len(front) + along - groups
        given = given.seen(lambda array: np.expand_dims(array, at))
    check_shape("updates", given, given.shape == shape, f"{shape}, or without the axis of the rows, {flat}")
    plan_on = _rows_planner(f"popops.{name}", table, given, layout, update, memory, plan)
    return put_request(f"popops.{name}", table, places, given, layout, checked, out, target, plan_on=plan_on,
                       update=update, scale=scale, memory=memory, host=_host_of(plan))


def _host_of(plan: EmbeddingPlan | HostEmbeddingPlan | None) -> Target | None:
    """This CPU as it was planned for."""
    return plan.target if isinstance(plan, HostEmbeddingPlan) else None


def _rows_planner(op: str, table: Operand, other: Operand, layout: Layout, update: str, memory: Memory | None,
                  plan: EmbeddingPlan | HostEmbeddingPlan | None) -> PlanOn:
    [(along, entries)], axes = layout.components, layout.axes
    width = prod(n for n, d, *_ in layout.windows if d != along)
    sizes = (prod(n for n, *_ in axes[:-1]), entries, width, axes[-1][0])
    modelled = plan if isinstance(plan, EmbeddingPlan) else None
    return rows_planner(op, elements_of(table), elements_of(other), sizes, update, memory, modelled)


def _check_planned(plan: EmbeddingPlan | HostEmbeddingPlan, table: Operand, lookups: int) -> None:
    """Refuse what a plan is not for."""
    p, element = plan.params, elements_of(table)
    kind = element.name if isinstance(plan, HostEmbeddingPlan) else type_of(element)
    shape = (p.groups, p.entries, p.width)[p.groups == 1:]
    if table.shape != shape or kind != p.data_type:
        raise bad_argument("x", f"shape {table.shape} of {element}", f"shape {shape} of {p.data_type}, as planned")
    if lookups > p.most_lookups:
        raise bad_argument("indices", f"{lookups} of them", f"at most {p.most_lookups}, as planned")


@slicing_op("multiSlice", memory="rows", by=row_slice)
def multi_slice(x: Any, indices: Any, *, axis: int = 0, index_policy: str = "raise", out: Any = None,
                available_memory_proportion: float | None = None, strict_memory: bool = False,
                target: TargetLike = None) -> Any:
    """Return the slices of an array at each of several indices (``popops::multiSlice``): embedding look-ups.

    Parameters
    ----------
    x : array_like [entries, width], or of more axes
        Numbers of a format, integers or truth values, of any strides.
    indices : array_like of int [n] or [n, 1]
        Of any integer type.
    axis : int, optional
        The axis that they are of.

    Notes
    -----
    The result is ``[n, ...]`` with the shape of `x`, where `axis` has an extent of 1, as in PopLibs; `gather` leaves it
    out. Exact.

    Examples
    --------
    >>> popops.multi_slice([[1.0, 2.0], [3.0, 4.0]], [1, 0, 1])[:, 0]
    array([[3., 4.],
           [1., 2.],
           [3., 4.]], dtype=float32)
    """


@slicing_op("groupedMultiSlice", memory="rows", by=row_slice)
def grouped_multi_slice(x: Any, indices: Any, *, axis: int = 1, index_policy: str = "raise", out: Any = None,
                        available_memory_proportion: float | None = None, strict_memory: bool = False,
                        target: TargetLike = None) -> Any:
    """`multi_slice` of each of several arrays, with indices of its own (``popops::groupedMultiSlice``).

    Parameters
    ----------
    x : array_like [groups, entries, width], or of more axes
        Numbers of a format, integers or truth values, of any strides.
    indices : array_like of int [groups, n] or [groups, n, 1]
        Of any integer type.
    axis : int, optional
        The axis of `x` that they are of.

    Notes
    -----
    The result is ``[groups, n, ...]``, with an extent of 1 for `axis`. Exact.

    Examples
    --------
    >>> popops.grouped_multi_slice([[[1.0], [2.0]], [[3.0], [4.0]]], [[1], [0]]).ravel()
    array([2., 3.], dtype=float32)
    """


@slicing_op("multiUpdate", writes=True, memory="rows", by=row_update)
def multi_update(x: Any, updates: Any, indices: Any, *, axis: int = 0, index_policy: str = "raise", out: Any = None,
                 available_memory_proportion: float | None = None, strict_memory: bool = False,
                 target: TargetLike = None) -> Any:
    """Write slices of an array at each of several indices (``popops::multiUpdate``).

    Parameters
    ----------
    x : array_like [entries, width], or of more axes
        Numbers of a format, integers or truth values, of any strides.
    updates : array_like [n, 1, width] or [n, width]
        What is written, of the dtype of `x`: what `multi_slice` returns.
    indices : array_like of int [n] or [n, 1]
        Of any integer type.
    axis : int, optional
        The axis that they are of.

    Notes
    -----
    Exact. Of the slices that go to one place the last one stays (PopLibs: any of them).

    Examples
    --------
    >>> popops.multi_update([[1.0], [2.0], [3.0]], [[8.0], [9.0]], [2, 0]).ravel()
    array([9., 2., 8.], dtype=float32)
    """


@slicing_op("groupedMultiUpdate", writes=True, memory="rows", by=row_update)
def grouped_multi_update(x: Any, updates: Any, indices: Any, *, axis: int = 1, index_policy: str = "raise",
                         out: Any = None, available_memory_proportion: float | None = None, strict_memory: bool = False,
                         target: TargetLike = None) -> Any:
    """`multi_update` of each of several arrays, with indices of its own (``popops::groupedMultiUpdate``).

    Parameters
    ----------
    x : array_like [groups, entries, width], or of more axes
        Numbers of a format, integers or truth values, of any strides.
    updates : array_like [groups, n, 1, width] or [groups, n, width]
        What is written, of the dtype of `x`.
    indices : array_like of int [groups, n] or [groups, n, 1]
        Of any integer type.
    axis : int, optional
        The axis of `x` that they are of.

    Notes
    -----
    Exact. Of the slices that go to one place the last one stays.

    Examples
    --------
    >>> popops.grouped_multi_update([[[1.0], [2.0]], [[3.0], [4.0]]], [[[8.0]], [[9.0]]], [[1], [0]]).ravel()
    array([1., 8., 9., 4.], dtype=float32)
    """
