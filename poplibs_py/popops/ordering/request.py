"""Requests of what puts rows in order: arguments to params, and what receives the results."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...checks import check_shape, flag, one_of, whole
from ...config import settings
from ...errors import bad_argument, bad_type
from ...formats import QuarterArray
from ...ops import Operand, Placed, Receiver, Request, place_of, receive
from ...ops.parts import Part, Results, results
from ...planner.tile_plan import TilePlan
from ...target import Target, TargetLike
from ...target.types import type_of
from ..reductions.request import source_of
from .lower import LONGEST, OrderParams, lower
from .modelled import Order, order_lacks, order_plan

INDEX = np.dtype(np.int64)

_NOTHING = object()
_ALLOWED = "float32, float16, bfloat16 or FP8 numbers, integers or truth values"


def numbers(name: str, x: Any) -> tuple[Operand, Any]:
    """Take numbers that have an order; return them, and their format, or the dtype of what has none."""
    if isinstance(x, QuarterArray):
        raise bad_type(name, x, f"{_ALLOWED}: see its to_array")
    source = source_of(x, name, _ALLOWED)
    return source, source.format or source.array.dtype


def axis_of(axis: Any, x: Operand, name: str = "x") -> tuple[Operand, int, tuple[int, ...], tuple[int, ...]]:
    """Return an operand as its rows are read, their axis, and its shape and strides; None is all in C order."""
    if axis is None:
        if x.array.size > LONGEST:
            raise bad_argument(name, f"{x.array.size} elements", f"at most {LONGEST}")
        flat = x.in_c_order()
        return flat, 0, (x.array.size,), (x.array.itemsize,)
    rank = x.array.ndim
    if rank == 0:
        whole("axis", axis)
        raise bad_argument("axis", axis, f"None: {name} has no axis")
    found = whole("axis", axis, -rank, rank - 1) % rank
    if x.shape[found] > LONGEST:
        raise bad_argument(name, f"{x.shape[found]} elements along axis {found}", f"at most {LONGEST}")
    return x, found, x.shape, x.array.strides


def ordering_request(name: str, x: Any, axis: Any, *, k: Any = _NOTHING, descending: Any = False,
                     largest: Any = _NOTHING, sort_order: Any = "none", other: Any = _NOTHING, kind: Any = None,
                     places: bool = False, kth: Any = None, out: Any = None, target: TargetLike = None,
                     argument: str = "x") -> Request:
    """Describe a call that puts rows in order.

    Parameters
    ----------
    name : str
        Its public name.
    x, axis, out, target, descending
        As the op takes them.
    k : int, optional
        How many elements of a row there are in the results; all by default.
    largest, sort_order
        Of the k best: whether the greatest are, and whether they are asked for in order, perhaps the best last.
    other : array_like, optional
        What else is put in the order of `x`, of the same shape.
    kind : type, optional
        The named tuple of several results: the numbers, and their places or `other` in their order.
    places : bool, optional
        Whether places are a result.
    kth : int, optional
        The place that a partition is made by.
    argument : str, optional
        What the op calls `x`.
    """
    best = largest is not _NOTHING
    one_of("sort_order", sort_order, ("none", "ascending", "descending"))
    descending = flag("largest", largest) if best else flag("descending", descending)
    in_order, backwards = not best or sort_order != "none", sort_order == ("ascending" if descending else "descending")
    source, element = numbers(argument, x)
    read, along, shape, strides = axis_of(axis, source, argument)
    most = shape[along]
    count = most if k is _NOTHING else whole("k", k, 0, most)
    second = None if other is _NOTHING else _companion(other, source)
    rows = prod(n for d, n in enumerate(shape) if d != along)
    order = Order(type_of(element), _values(second, places), most, count, rows, descending, in_order,
                  descending == backwards, places, kind is not None or not places)
    placed = place_of(f"popops.{name}", target, lambda machine: _plan(machine, order, kth))
    made = (*shape[:along], count, *shape[along + 1:])
    params = OrderParams("order", element, shape, strides, along, count, descending, backwards)
    operands: tuple[Any, ...] = (read,)
    if second is not None:
        read_too, _, _, other_strides = axis_of(axis, second[0])
        params = params._replace(other=(second[0].array.itemsize, *other_strides))
        operands = (read, read_too)
    if kth is not None:
        if not most:
            raise bad_argument(argument, f"no elements along axis {along}", "one or more")
        place = whole("kth", kth, -most, most - 1)
        params = params._replace(kernel="partition", kth=place % most)
    if kind is None:
        result = INDEX if places else element
        receiver = receive("out", out, made, None, result, contiguous=True, own="the result's")
        if places:
            params = params._replace(indices=1)
        else:
            params = params._replace(values=1, kernel="sort" if k is _NOTHING and kth is None else params.kernel)
        return _request(params, operands, receiver, placed)
    parts = {"values": Part(made, element)}
    if places:
        parts["indices"] = Part(made, INDEX)
    if second is not None:
        parts["others"] = Part(made, second[1])
    several = results(out, tuple(parts.values()), kind)
    at = {name: number for number, name in enumerate(parts, len(operands))}
    params = params._replace(values=at["values"], indices=at.get("indices", -1), others=at.get("others", -1))
    return _request(params, operands, several, placed)


def _values(second: Any, places: bool) -> str:
    """PopLibs' type of what is put in the order of the keys; empty where there is nothing."""
    if second is not None:
        return type_of(second[1]) or str(second[1])
    return "unsigned int" if places else ""


def _plan(machine: Target, order: Order, kth: Any) -> TilePlan | str:
    """What a modelled machine does, or what it has no vertex for."""
    lacking = "in any form: it has no partitions" if kth is not None else order_lacks(order)
    return lacking or order_plan(machine, order)


def _companion(other: Any, x: Operand) -> tuple[Operand, Any]:
    """Take what is put in the order of another array."""
    values, element = numbers("values", other)
    check_shape("values", values, values.shape == x.shape, f"shape {x.shape}, that of the keys")
    return values, element


def _request(params: OrderParams, operands: tuple[Any, ...], to: Receiver | Results, placed: Placed[Any]) -> Request:
    program = lower(params, settings.num_threads)
    return Request.to(to, program.executable, operands, program.told, placed=placed)
