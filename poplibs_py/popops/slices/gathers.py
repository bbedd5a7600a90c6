"""Gather and scatter, along an axis as in NumPy, and by index vectors and windows as in XLA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...checks import all_of, check_shape, one_of, whole
from ...errors import bad_argument, bad_type
from ...ops import Operand, whole_operand
from ...planner import Memory
from ...target import TargetLike
from ..expr import Expression
from ..maps.request import Worded
from .api import slicing_op
from .function import function_of
from .lower import Layout
from .modelled import PlanOn, rows_planner, windows_planner
from .request import checked_policy, elements_of, put_request, table_of, take_request, updates_of
from .windows_modelled import Sliced

__all__ = ["gather", "scatter"]

_UPDATES = ("set", "add", "mul", "max", "min")
Axes = tuple[int, ...]


@slicing_op("gather")
def gather(x: Any, indices: Any, axis: int = 0, *, index_vector_dim: int | None = None,
           offset_dims: Sequence[int] | None = None, slice_sizes: Sequence[int] | None = None,
           collapsed_slice_dims: Sequence[int] | None = None, start_index_map: Sequence[int] | None = None,
           index_policy: str = "raise", out: Any = None, target: TargetLike = None) -> Any:
    """Gather slices of an array by index (``popops::gather``, in both forms; NumPy's ``take``).

    Parameters
    ----------
    x : array_like
        Numbers of a format, integers or truth values, of any shape and strides.
    indices : array_like of int
        Of any integer type and shape. In the first form that shape takes the place of the axis.
    axis : int, optional
        The axis that they are of; the first form's alone.
    index_vector_dim : int, optional
        The axis of `indices` that the indices of a slice lie along, or its rank where each is alone. This and the next
        four make the second form, that of XLA.
    offset_dims : sequence of int, optional
        The axes of the result that a slice's lie along, ascending; along the others lie those of `indices`.
    slice_sizes : sequence of int, optional
        How long a slice is along each axis of `x`.
    collapsed_slice_dims : sequence of int, optional
        Axes of `x` that the result has not; slices have an extent of 1 there.
    start_index_map : sequence of int, optional
        The axis of `x` that each index of a vector is of.

    Notes
    -----
    Exact. In the second form an index is good where the slice that begins there ends within `x`.

    Examples
    --------
    >>> x = np.arange(6, dtype=np.int32).reshape(2, 3)
    >>> popops.gather(x, [[2, 0]], 1).tolist()
    [[[2, 0]], [[5, 3]]]
    >>> popops.gather(x, [[1, 0], [0, 1]], index_vector_dim=1, offset_dims=[1], slice_sizes=[1, 2],
    ...               collapsed_slice_dims=[0], start_index_map=[0, 1]).tolist()
    [[3, 4], [1, 2]]
    """
    table, places, policy = table_of("x", x), whole_operand("indices", indices), checked_policy(index_policy)
    if index_vector_dim is None:
        _none_of(offset_dims=offset_dims, slice_sizes=slice_sizes, collapsed_slice_dims=collapsed_slice_dims,
                 start_index_map=start_index_map)
        layout, shape = _along(table, places, axis)
        [(along, entries)], elements = layout.components, elements_of(table)
        width = prod(n for d, n in enumerate(table.shape) if d != along)
        plan_on = rows_planner("popops.gather", elements, elements, (1, entries, width, prod(places.shape)), "", None)
        return take_request("popops.gather", table, places, layout, shape, policy, out, target, plan_on=plan_on)
    vector, front = _vectors(places, index_vector_dim)
    rank, named = len(table.shape), _listed("start_index_map", start_index_map, len(table.shape))
    sizes = all_of("slice_sizes", slice_sizes, (int, np.integer), f"a sequence of {rank} sizes")
    if len(sizes) != rank:
        raise bad_argument("slice_sizes", f"{len(sizes)} sizes", f"{rank}, one for each axis of x")
    sizes = [whole("slice_sizes", size, 0, n) for size, n in zip(sizes, table.shape, strict=True)]
    collapsed = _listed("collapsed_slice_dims", collapsed_slice_dims, rank)
    if any(sizes[d] != 1 for d in collapsed):
        raise bad_argument("collapsed_slice_dims", collapsed, "axes along which slice_sizes are 1")
    kept = [d for d in range(rank) if d not in collapsed]
    at = _listed("offset_dims", offset_dims, len(front) + len(kept), len(kept))
    layout = _by_vectors(table, places, vector, front, named, dict(zip(kept, at, strict=True)), sizes)
    return take_request("popops.gather", table, places, layout, _shape_of(layout), policy, out, target,
                        plan_on=_loop_planner(table, table, layout, sizes, ""))


@slicing_op("scatter", writes=True, memory="sorted", numbers=("scale",))
def scatter(x: Any, indices: Any, updates: Any, axis: int = 0, *,
            operation: str | Expression | Callable[..., Any] = "set", scale: float = 1.0,
            index_vector_dim: int | None = None, update_window_dims: Sequence[int] | None = None,
            inserted_window_dims: Sequence[int] | None = None,
            scatter_dims_to_operand_dims: Sequence[int] | None = None, index_policy: str = "raise", out: Any = None,
            available_memory_proportion: float | None = None, strict_memory: bool = False,
            target: TargetLike = None) -> Any:
    """Update slices of an array by index (``popops::scatter``).

    Parameters
    ----------
    x : array_like
        Numbers of a format, integers or truth values, of any shape and strides.
    indices : array_like of int
        Of any integer type and shape.
    updates : array_like
        What `gather` of the same form returns has this shape; of the dtype of `x`, or of any format where numbers are
        computed with.
    axis : int, optional
        The axis that indices are of; the first form's alone.
    operation : {"set", "add", "mul", "max", "min"}, Expression or callable, optional
        What an update does to what is there: PopLibs' update function. A function of what is there and of the update is
        traced as `map` traces it, and gives the elements of `x`: ``lambda old, new: old * 0.5 + new``.
    scale : float, optional
        What updates are multiplied by that are added.
    index_vector_dim : int, optional
        As for `gather`. This and the next three make the second form, PopLibs' and XLA's.
    update_window_dims : sequence of int, optional
        The axes of `updates` that a slice's lie along, ascending.
    inserted_window_dims : sequence of int, optional
        Axes of `x` that `updates` has not; slices have an extent of 1 there.
    scatter_dims_to_operand_dims : sequence of int, optional
        The axis of `x` that each index of a vector is of.

    Notes
    -----
    As if slices were updated one after another in the order of the indices, so that of those that are set the last one
    stays. Sums and products are FP32, each rounded; numbers of other formats are rounded to theirs once, at the end, or
    after each update where slices may overlap in part. Integers wrap; extremes are NaN where a number is NaN. What a
    function gives is rounded to the dtype of `x` after each update; it has no vertex on a modelled machine.

    Examples
    --------
    >>> popops.scatter([1.0, 2.0, 3.0], [2, 0, 2], [10.0, 20.0, 30.0], operation="add")
    array([21.,  2., 43.], dtype=float32)
    >>> popops.scatter([1.0, 2.0, 3.0], [2, 0, 2], [10.0, 20.0, 30.0], operation=lambda old, new: old * 0.5 + new)
    array([20.5 ,  2.  , 35.75], dtype=float32)
    """
    table, places = table_of("x", x), whole_operand("indices", indices)
    given = updates_of(updates, table)
    policy = checked_policy(index_policy)
    update: str | Worded
    if callable(operation) or isinstance(operation, Expression):
        update = function_of(operation, table, given, scale)
    else:
        one_of("operation", operation, _UPDATES)
        update = operation
    if index_vector_dim is None:
        _none_of(update_window_dims=update_window_dims, inserted_window_dims=inserted_window_dims,
                 scatter_dims_to_operand_dims=scatter_dims_to_operand_dims)
        layout, shape = _along(table, places, axis)
        sizes = [1 if d == layout.components[0][0] else n for d, n in enumerate(table.shape)]
    else:
        vector, front = _vectors(places, index_vector_dim)
        rank, named = len(table.shape), _listed("scatter_dims_to_operand_dims", scatter_dims_to_operand_dims,
                                                len(table.shape))
        inserted = _listed("inserted_window_dims", inserted_window_dims, rank)
        kept = [d for d in range(rank) if d not in inserted]
        at = _listed("update_window_dims", update_window_dims, len(front) + len(kept), len(kept))
        check_shape("updates", given, len(given.shape) == len(front) + len(kept), f"{len(front) + len(kept)} axes")
        windows = dict(zip(kept, at, strict=True))
        sizes = [given.shape[windows[d]] if d in windows else 1 for d in range(rank)]
        check_shape("updates", given, not any(size > n for size, n in zip(sizes, table.shape, strict=True)),
                    f"slices within shape {table.shape}, that of x")
        layout = _by_vectors(table, places, vector, front, named, windows, sizes)
        shape = _shape_of(layout)
    check_shape("updates", given, given.shape == shape, f"shape {shape}")
    return put_request("popops.scatter", table, places, given, layout, policy, out, target,
                       plan_on=_loop_planner(table, given, layout, sizes, update), update=update,
                       scale=scale, memory=Memory(available_memory_proportion, strict_memory))


def _none_of(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise bad_type(name, value, "None where index_vector_dim is None")


def _along(table: Operand, places: Operand, axis: Any) -> tuple[Layout, Axes]:
    """The first form: the axes before, those of the indices, those behind."""
    rank = len(table.shape)
    if not rank:
        raise bad_argument("x", "shape ()", "an axis or more")
    along, more = whole("axis", axis, -rank, rank - 1) % rank, len(places.shape)
    axes: list[tuple[int, int | None, int | None, int | None]]
    axes = [(table.shape[d], None, d, d) for d in range(along)]
    axes += [(n, d, None, along + d) for d, n in enumerate(places.shape)]
    windows = tuple((table.shape[d], d, d + more - 1, -1) for d in range(along + 1, rank))
    shape = (*table.shape[:along], *places.shape, *table.shape[along + 1:])
    return Layout(tuple(axes), ((along, table.shape[along]),), windows), shape


def _vectors(places: Operand, index_vector_dim: Any) -> tuple[int | None, list[int]]:
    """The axis of index vectors, or None where an index is alone, and the others."""
    rank = len(places.shape)
    vector = whole("index_vector_dim", index_vector_dim, 0, rank)
    return (None if vector == rank else vector), [d for d in range(rank) if d != vector]


def _listed(name: str, value: Any, rank: int, count: int | None = None) -> Axes:
    """Axes that are each named once."""
    axes = all_of(name, () if value is None else value, (int, np.integer), "a sequence of axes")
    found = tuple(whole(name, axis, 0, rank - 1) if rank else _refuse(name, axis) for axis in axes)
    if len(set(found)) < len(found) or (count is not None and (len(found) != count or list(found) != sorted(found))):
        raise bad_argument(name, value, "axes that are each named once" + (
            "" if count is None else f", ascending, {count} of them"))
    return found


def _refuse(name: str, axis: object) -> int:
    raise bad_argument(name, axis, "none: there is no axis")


def _by_vectors(table: Operand, places: Operand, vector: int | None, front: list[int], named: Axes,
                windows: dict[int, int], sizes: Sequence[int]) -> Layout:
    """The second form: an axis of the result for each of the indices' but the vectors', and for each of a window's."""
    length = 1 if vector is None else places.shape[vector]
    if len(named) != length:
        name = "indices"
        raise bad_argument(name, f"shape {places.shape}, vectors of {length}", f"vectors of {len(named)}")
    taken = set(windows.values())
    batch = [d for d in range(len(front) + len(windows)) if d not in taken]
    axes = tuple((places.shape[i], i, None, o) for i, o in zip(front, batch, strict=True))
    components = tuple((d, max(0, table.shape[d] - sizes[d] + 1)) for d in named)
    return Layout(axes, components, tuple((sizes[d], d, o, -1) for d, o in sorted(windows.items())), vector)


def _loop_planner(table: Operand, other: Operand, layout: Layout, sizes: Sequence[int], update: str | Worded) -> PlanOn:
    """A window for each of the vectors of indices; a function has no vertex."""
    if not isinstance(update, str):
        return lambda _: "with a function"
    named = {axis for axis, _ in layout.components}
    axes = tuple(d for d, (m, n) in enumerate(zip(sizes, table.shape, strict=True)) if d in named or m < n)
    times = prod(n for n, i, *_ in layout.axes if i is not None)
    sliced = Sliced(table.shape, tuple(sizes), axes, times)
    return windows_planner(elements_of(table), elements_of(other), sliced, update)


def _shape_of(layout: Layout) -> Axes:
    """Of the other array."""
    extents = {o: n for n, _, _, o in layout.axes if o is not None}
    extents |= {o: n for n, _, o, _ in layout.windows if o is not None}
    return tuple(extents[d] for d in range(len(extents)))
