"""Requests of reductions: what each is to the kernels, to NumPy for integers, and of nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...checks import check_shape, flag
from ...config import settings
from ...errors import bad_argument, bad_type
from ...formats import FP32, Array, Format, QuarterArray
from ...formats.format import preset_of, remedy
from ...formats.reference import encode
from ...ops import (
    RESULT,
    Operand,
    Placed,
    Receiver,
    Request,
    axes_of,
    contiguous_strides,
    merged_axes,
    operand,
    place_of,
    receive,
    result_format,
)
from ...ops import argument as array_argument
from ...ops.numpy_ops import told
from ...ops.one_kernel import OneKernel
from ...ops.road import Told
from ...planner.tile_plan import TilePlan
from ...program import Room, Sequence, temporary
from ...target import Target, TargetLike
from ...target.types import type_of
from ..strided.lower import StridedOperand
from ..strided.request import decoding, has_scale, lies_of
from .compose import kept_shape
from .composed_modelled import COMPOSED, plan_composed
from .lower import ReduceParams, Way, lower, lower_scan
from .modelled import ReducePlan, plan_argmax, plan_nan, plan_reduction, reduction_lacks
from .modelled_lower import CHAINED, lower_tiled

OfIntegers = Callable[..., Any]

_ALLOWED = "float32, float16, bfloat16 or FP8 numbers, integers, truth values, or a QuarterArray"
_FLOATS = "float32, float16, bfloat16 or FP8 numbers, or a QuarterArray"


@dataclass(frozen=True)
class Reduction:
    """A reduction.

    Attributes
    ----------
    way : Way
        To the kernels.
    empty : float or None
        Of no elements; None where that is refused.
    integers : callable or None
        Of integers and truth values by NumPy, given the array, axes and keepdims; None where they are refused.
    result : numpy.dtype or None
        Of the result, where that is no format.
    scale : float
        What the state of a row is multiplied by, or what is added to a logarithm.
    update : bool
        Whether what the result holds is added.
    scans : bool
        Whether each element has a result: of itself and those before.
    """

    way: Way
    empty: float | None
    integers: OfIntegers | None
    result: np.dtype[Any] | None = None
    scale: float = 1.0
    update: bool = False
    scans: bool = False


def by_numpy(function: Any) -> OfIntegers:
    """Return what NumPy makes of integers, in its own type."""
    return lambda x, axes: function(x, axis=axes)


def _in_own_type(function: Any) -> OfIntegers:
    return lambda x, axes: function(x, axis=axes, dtype=x.dtype)


TRUTH = np.dtype(np.bool_)
OPERATIONS = {
    "ADD": Reduction(Way("sum", "sum", "plain"), 0.0, _in_own_type(np.sum)),
    "SQUARE_ADD": Reduction(Way("square_sum", "sum", "plain"), 0.0,
                            lambda x, axes: np.sum(x * x, axis=axes, dtype=x.dtype)),
    "MUL": Reduction(Way("prod", "product", "plain"), 1.0, _in_own_type(np.prod)),
    "MIN": Reduction(Way("min", "min", "plain"), math.inf, by_numpy(np.min)),
    "MAX": Reduction(Way("max", "max", "plain"), -math.inf, by_numpy(np.max)),
    "LOGICAL_AND": Reduction(Way("all", "max", "zero"), 1.0, by_numpy(np.all), TRUTH),
    "LOGICAL_OR": Reduction(Way("any", "max", "nonzero"), 0.0, by_numpy(np.any), TRUTH),
    "LOG_ADD": Reduction(Way("logsumexp", "log", "log"), -math.inf, None, scale=0.0),
}
"""Of `reduce`, by PopLibs' names: integers keep their type there."""


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape of the result."""
    if keepdims:
        return kept_shape(shape, axes)
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def reduction_request(name: str, x: Any, axes: Any, made: Callable[[int], Reduction], *, keepdims: Any = False,
                      out: Any = None, out_dtype: object = None, target: TargetLike = None,
                      argument: str = "axes", accum: tuple[str, str] = ("", "")) -> Request:
    """Describe a reduction.

    Parameters
    ----------
    name : str
        Its public name.
    x, axes, keepdims, out, out_dtype, target
        As the op takes them.
    made : callable
        The reduction, given how many elements make one result.
    argument : str, optional
        What the op calls `axes`.
    accum : (str, str), optional
        What is asked of a modelled machine's partial results.
    """
    source = counted_source(x)
    over = axes_of(axes, source.array.ndim, argument)
    count = math.prod(source.shape[d] for d in over)
    reduction = made(count)
    shape = reduced_shape(source.shape, over, flag("keepdims", keepdims))
    if reduction.scans:
        shape = source.shape if axes is not None else (count,)
    check_shape("x", source, count != 0 or reduction.empty is not None or 0 in shape,
                f"one element or more over axes {over}")
    if source.format is None and out_dtype is not None:
        raise bad_argument("out_dtype", out_dtype, f"None for {source.array.dtype} numbers")
    if source.format is None and not reduction.scans:
        return _of_integers(name, source, over, shape, reduction, out, target)
    if reduction.result is not None and out_dtype is not None:
        raise bad_argument("out_dtype", out_dtype, f"None: results are {reduction.result}")
    receiver = receive("out", out, shape, out_dtype, reduction.result or _result(source, reduction),
                       reads=reduction.update, contiguous=True)
    placed = _plan(name, source, over, receiver, reduction, target, accum)
    if count == 0:
        return _of_nothing(name, source, receiver, reduction, placed)
    plan = placed.plan
    if isinstance(plan, ReducePlan) and plan.order and plan.vertex_op in CHAINED:
        return _in_order(source, over, receiver, reduction, Placed(plan))
    return _request(source, over, receiver, reduction, placed)


def _result(x: Operand, reduction: Reduction) -> Format | np.dtype[Any]:
    """What results are: running sums and products of integers have 64 bits, extremes are elements."""
    if x.format is not None:
        return result_format(x)
    dtype = x.array.dtype
    return dtype if reduction.way.state in ("max", "min") else np.dtype(np.uint64 if dtype.kind == "u" else np.int64)


_VERTEX_OPS = {(r.way.kernel, r.way.finish): op for op, r in OPERATIONS.items()}
_NAN, _PLACES = ("nan", "not_finite"), ("argmax", "argmin")
PLACED_TYPES = ("float", "half", "int", "unsigned int")
"""Of what modelled machines find the places of extremes of."""


def _plan(name: str, x: Operand, axes: tuple[int, ...], receiver: Receiver, reduction: Reduction,
          target: TargetLike, accum: tuple[str, str] = ("", "")) -> Placed[TilePlan]:
    """Where a call runs."""
    element, way = x.array.dtype if x.format is None else x.format, reduction.way
    types = type_of(element), type_of(receiver.format)
    vertex_op = "" if reduction.scans else _VERTEX_OPS.get((way.kernel, way.finish), "")
    composed = "" if reduction.scans else COMPOSED.get((way.kernel, way.finish), "")
    scaled = reduction.update or reduction.scale != (0.0 if vertex_op == "LOG_ADD" else 1.0)

    def missing() -> str:
        if has_scale(x) or has_scale(receiver):
            return "of numbers with a scale"
        if way.kernel in _NAN:
            whole = len(axes) == x.array.ndim
            return f"of {element}" if types[0] not in ("float", "half") else "" if whole else "over some axes"
        if way.kernel in _PLACES:
            return "" if types[0] in PLACED_TYPES else f"of {element}"
        if reduction.scans:
            return "in any form: it has no running reductions"
        if not (vertex_op or composed):
            return "with compensated sums" if way.state == "compensated" else "in PopLibs"
        lacks = reduction_lacks(vertex_op or composed, *types)
        return (f"from {element} to {receiver.format}" if types[0] else f"of {element}") if lacks else ""

    def plan_on(machine: Target) -> TilePlan | str:
        if lacking := missing():
            return lacking
        if way.kernel in _NAN:
            return plan_nan(name, x.shape, types[0], machine)
        if way.kernel in _PLACES:
            return plan_argmax(name, x.shape, axes, types[0], machine)
        if composed:
            return plan_composed(name, way.kernel, way.finish, x.shape, axes, types, machine)
        return plan_reduction(name, vertex_op, x.shape, axes, types, machine, scaled=scaled, accum=accum)

    return place_of(f"popops.{name}", target, plan_on)


def _in_order(x: Operand, axes: tuple[int, ...], receiver: Receiver, reduction: Reduction,
              placed: Placed[ReducePlan]) -> Request:
    """A reduction in the order of its plan. Columns and rows that are not so many bytes apart each are copied first."""
    kept, plan = tuple(d for d in range(x.array.ndim) if d not in axes), placed.plan
    assert plan is not None
    steps = [merged_axes((x.shape[d], (x.array.strides[d],)) for d in some) for some in (kept, axes)]
    item, form = x.array.itemsize, receiver.format
    assert isinstance(x.format, Format)
    assert isinstance(form, Format)
    straight = all(len(found) <= 1 for found in steps)
    if straight:
        column, row = (found[0][1][0] if found else item for found in steps)
    else:
        column, row = plan.factor * item, item
    tiled = lower_tiled(plan, x.format, column, row, form, reduction.scale, reduction.update, settings.num_threads)
    order, shape, dtype = (*kept, *axes), x.shape, x.array.dtype

    def copied(array: Array, result: Array) -> None:
        numbers = temporary(tuple(shape[d] for d in order), dtype)
        numbers[...] = array.transpose(order)
        tiled.executable(numbers, result)

    def tell() -> Told:
        return plan.problem, "chains in the plan's order", plan

    return Request(tiled.executable if straight else copied, (x, RESULT), receiver, tell, placed=placed)


_MOST_ELEMENTS = 1 << 36  # more take minutes, and no call is interrupted


def counted_source(x: Any, allowed: str = _ALLOWED) -> Operand:
    """The operand of what goes through all of it: views may repeat elements without end."""
    source = source_of(x, allowed=allowed)
    if source.array.size > _MOST_ELEMENTS:
        raise bad_argument("x", f"{source.array.size:,} elements", f"at most {_MOST_ELEMENTS:,}")
    return source


def source_of(x: Any, name: str = "x", allowed: str = _ALLOWED) -> Operand:
    """The operand; integers and truth values have no format."""
    if isinstance(x, QuarterArray):
        return operand(name, x)
    source = array_argument(name, x, allowed, np.float32)
    array = source.array
    source.format = preset_of(array.dtype)
    if (source.format is None and array.dtype.kind not in "biu") or not array.dtype.isnative:
        got = f"dtype {array.dtype if array.dtype.isnative else array.dtype.str}"
        raise bad_type(name, got, allowed + remedy(array.dtype))
    return source


def _of_integers(name: str, x: Operand, axes: tuple[int, ...], shape: tuple[int, ...], reduction: Reduction, out: Any,
                 target: TargetLike) -> Request:
    """Integers and truth values by NumPy: exact, whatever the order."""
    function, update = reduction.integers, reduction.update
    if function is None:
        raise bad_type("x", f"dtype {x.array.dtype}", _FLOATS)
    with np.errstate(all="ignore"):
        like = function(np.ones((1,) * x.array.ndim, x.array.dtype), axes)
    receiver = receive("out", out, shape, None, np.dtype(like.dtype), reads=update)
    placed = _plan(name, x, axes, receiver, reduction, target)
    count, dtype = math.prod(x.shape[d] for d in axes), receiver.array.dtype

    def run(array: Array, result: Array) -> None:
        with np.errstate(all="ignore"):
            if count == 0 and reduction.empty is not None:
                if not update:
                    result[...] = _least_or_greatest(reduction.empty, dtype)
                return
            made = np.asarray(function(array, axes)).reshape(result.shape)
            result[...] = result + made if update else made

    return Request(run, (x, RESULT), receiver, told(name, x.shape, x.array.dtype), placed=placed)


def _least_or_greatest(value: float, dtype: np.dtype[Any]) -> Any:
    """The identity as a dtype has it: infinities become its limits."""
    if not math.isinf(value) or dtype.kind == "f":
        return value
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    if limits is None:
        return value > 0
    return limits.max if value > 0 else limits.min


def _of_nothing(name: str, x: Operand, receiver: Receiver, reduction: Reduction, placed: Placed[Any]) -> Request:
    """What no elements are reduced to: the identity, or what is there already."""
    form, value = receiver.format, 0.0 if reduction.empty is None else reduction.empty  # there may be no result
    with np.errstate(all="ignore"):
        code = encode(np.array(value), form) if isinstance(form, Format) and form != FP32 else None

    def run(array: Array, result: Array) -> None:
        if reduction.update:
            return
        if code is None:
            result[...] = value
        else:
            result.view(code.dtype)[...] = code

    return Request(run, (x, RESULT), receiver, told(name, x.shape, x.format), placed=placed)


def _request(x: Operand, axes: tuple[int, ...], receiver: Receiver, reduction: Reduction,
             placed: Placed[Any]) -> Request:
    def made(read: StridedOperand) -> OneKernel:
        params = ReduceParams(reduction.way, read.format or x.array.dtype, read.scale, x.shape, read.strides, axes,
                              receiver.format, receiver.scale, reduction.scale, reduction.update)
        return (lower_scan if reduction.scans else lower)(params, settings.num_threads)

    return program_request(x, made, receiver, placed)


def program_request(x: Operand, made: Callable[[StridedOperand], OneKernel], receiver: Receiver, placed: Placed[Any],
                    *more: Array) -> Request:
    """Describe a call of a program.

    Parameters
    ----------
    x : Operand
    made : callable
        The program that reads elements of this shape that lie so, at one scale.
    receiver : Receiver
    placed : Placed
        As a `Request` has it.
    *more : array
        What the program reads besides.
    """
    if x.scales is None:
        program = made(lies_of(x))
        return Request(program.executable, (x, RESULT, *more), receiver, program.told, placed=placed)
    wide = StridedOperand(FP32, contiguous_strides(x.shape, FP32.itemsize))  # blocks of scales lie across rows
    program = made(wide)
    operands: tuple[Any, ...] = x, RESULT, x.scales, *more
    room = Room(len(operands))
    numbers = room.take(x.array.size * FP32.itemsize)
    run = Sequence([(decoding(x, wide), (0, numbers, 2)),
                    (program.executable, (numbers, 1, *range(3, len(operands))))], len(operands), room.bytes)
    return Request(run, operands, receiver, program.told, placed=placed)
