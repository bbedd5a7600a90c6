"""Elementwise operations as rows of one table: what each computes, how well, and the function made of its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ...checks import all_of, as_shape, flag, one_of
from ...errors import UnsupportedError, bad_argument
from ...formats import FP32, Format
from ...formats.arrays import broadcast
from ...formats.bounds import Ball
from ...formats.reference import default_overflow
from ...ops import Operand, Receiver, Request, op, place_of, receive
from ...ops.record import Function
from ...target import Target, TargetLike, resolve_target
from ...target.types import type_of
from ..strided.request import has_scale, strided_request
from ..strided.steps import Chain, Step
from ..vertices.cast import cast_lacks
from ..vertices.nonlinearities import nonlinearity_op
from ..vertices.operands import vertices_lack
from .bound import elementwise_bound
from .broadcast_modelled import planned_broadcast
from .cast import cast
from .modelled import ElementwisePlan, planned
from .promotion import BOOL, Element, ElementwiseOperands, allowed_for, element_of, elementwise_operands

Numbers = np.ndarray[Any, Any]

ELEMENTWISE: dict[str, ElementwiseOp] = {}
"""Every elementwise operation, by name."""


@dataclass(frozen=True)
class ElementwiseOp:
    """One elementwise operation.

    Attributes
    ----------
    name : str
        Its public name in `poplibs_py.popops`, and its kernels'.
    poplibs : str
        PopLibs' name.
    operands : tuple of str
        Its function's arguments that are arrays.
    reference : callable
        The exact function, float64 arrays to float64; integers and truth values to what they give.
    ulp : float
        How far its FP32 result may lie from the exact one, in units of the last place: 0 exact, 0.5 correctly rounded.
    vertex_op : str
        What PopLibs' vertices call it.
    kinds : str
        Which elements it is for: f, i, u, b, as `promotion.element_kind` has them.
    tells : bool
        Whether its results are truth values.
    conditions : tuple of str
        The arguments that are truth values beside numbers.
    more : callable or None
        What the FP32 result may be wrong by besides, given the operands in float64.
    exact : callable or None
        PopLibs' own function where that is another: of the kernels of the name with ``_poplibs`` behind it.
    defaults : tuple of float
        Of its last operands.
    """

    name: str
    poplibs: str
    operands: tuple[str, ...]
    reference: Callable[..., Numbers]
    ulp: float
    vertex_op: str
    kinds: str = "f"
    tells: bool = False
    conditions: tuple[str, ...] = ()
    more: Callable[..., Numbers] | None = None
    exact: Callable[..., Numbers] | None = None
    defaults: tuple[float, ...] = ()

    def chosen(self, poplibs_exact: object) -> ElementwiseOp:
        """Return the row itself, or that of PopLibs' own function."""
        if self.exact is None or not flag("poplibs_exact", poplibs_exact):
            return self
        return replace(self, name=f"{self.name}_poplibs", reference=self.exact, exact=None)

    def request(self, values: Mapping[str, Any], out: Any, out_dtype: object, target: TargetLike) -> Request:
        """Describe a call."""
        found = elementwise_operands(values, self.kinds, self.conditions)
        shape = _common_shape(self.operands, found.operands)
        operands = tuple(_broadcast(value, x, shape) for value, x in zip(values.values(), found.operands, strict=True))
        element = BOOL if self.tells else found.element
        if not isinstance(element, Format):
            _check_out_dtype(out_dtype, element)
            out_dtype = None
        like = next((x.array for x in found.operands if x.shape == shape), None)
        receiver = receive("out", out, shape, out_dtype, element, in_place=operands, blocks=True, like=like)
        numbers, takes_place = _numbers(found.operands, shape), operands[0] in receiver.written_over
        call = found, receiver, shape, takes_place, numbers
        placed = place_of(f"popops.{self.name}", target,
                          lambda machine: self.lacks_call(*call) or self._plan(*call, machine))
        overflow = default_overflow(receiver.format, "nearest-even") if isinstance(element, Format) else "inf"
        return strided_request(self.name, operands, receiver, overflow, placed=placed, chain=self._chain(found),
                               constant=found.constant, own=found.own, values=found.values)

    def _plan(self, found: ElementwiseOperands, receiver: Receiver, shape: tuple[int, ...], takes_place: bool,
              numbers: tuple[bool, ...], machine: Target) -> ElementwisePlan:
        """Return the plan of a call that the machine has vertices for."""
        types = type_of(found.element), type_of(receiver.format)
        if not _broadcasts(found.operands, shape, numbers):
            return planned(self.name, self.vertex_op, shape, *types, takes_place, machine, numbers)
        lies = receiver.array.strides
        order = tuple(sorted(range(len(shape)), key=lambda d: -abs(lies[d])))
        shapes = tuple(x.shape for x in found.operands)
        return planned_broadcast(self.name, self.vertex_op, shape, shapes, order, *types, takes_place, machine)

    def _chain(self, found: ElementwiseOperands) -> Chain | None:
        """One step with the types that it is computed in, where the operands' own do not say it."""
        numbers = [x.format for n, x in zip(self.operands, found.operands, strict=True) if n not in self.conditions]
        formats = [isinstance(form, Format) for form in numbers]
        if all(formats) or not (any(formats) or any(form != found.element for form in numbers)):
            return None
        lane = "float32" if isinstance(found.element, Format) else found.element.name
        count = len(self.operands)
        lanes = ["bool" if name in self.conditions else lane for name in self.operands]
        return Chain((Step(self.name, tuple(range(count)), (count,)),), (*lanes, "bool" if self.tells else lane))

    def lacks_call(self, found: ElementwiseOperands, receiver: Receiver, shape: tuple[int, ...], takes_place: bool,
                   numbers: tuple[bool, ...]) -> str:
        """Return what no vertex does of a call."""
        for name, x in zip(self.operands, found.operands, strict=True):
            if name not in self.conditions and (isinstance(x.format, Format), x.format) != (
                    isinstance(found.element, Format), found.element):
                return f"of {x.format}" if len(self.operands) == 1 else f"of {x.format} beside other types"
        if nonlinearity_op(self.vertex_op) and _broadcasts(found.operands, shape, numbers):
            return f"of shapes {' and '.join(str(x.shape) for x in found.operands)}"
        scaled = any(map(has_scale, found.operands)) or has_scale(receiver)
        return (self.lacks(found.element, receiver.format, takes_place, numbers)
                or ("of numbers with a scale" if scaled else ""))

    def lacks(self, source: Element, result: Element, takes_place: bool, numbers: tuple[bool, ...]) -> str:
        """Return what no vertex does of the operation on these types, in words; an empty string if one does."""
        if vertices_lack(self.vertex_op, type_of(source), takes_place, numbers):
            return f"of {source}" + " in place" * takes_place
        due = BOOL if self.tells else source
        return "" if type_of(due) == type_of(result) else f"from {source} to {result}"

    def bound(self, *values: Any, out: Any = None, out_dtype: Any = None, target: Any = None,
              poplibs_exact: bool = False, **named: Any) -> Ball:
        """Return exact results of a call and how far right ones may lie from them, on every machine."""
        if len(values) > len(self.operands):
            raise TypeError(f"{self.name}() takes {len(self.operands)} operands but {len(values)} were given")
        fallen = dict(zip(reversed(self.operands), reversed(self.defaults), strict=False))
        given = fallen | dict(zip(self.operands, values, strict=False)) | named
        ordered = {name: given[name] for name in self.operands}
        return elementwise_bound(ordered, self.chosen(poplibs_exact).reference, self.ulp, kinds=self.kinds,
                                 tells=self.tells, conditions=self.conditions, more=self.more, out=out,
                                 out_dtype=out_dtype)


def _common_shape(names: Sequence[str], operands: Sequence[Operand]) -> tuple[int, ...]:
    """The shape that operands broadcast to."""
    shape: tuple[int, ...] = operands[0].shape
    for name, x in zip(names[1:], operands[1:], strict=True):
        shape = broadcast(name, x.shape, shape)
    return shape


def _numbers(operands: Sequence[Operand], shape: tuple[int, ...]) -> tuple[bool, ...]:
    """Which operands are one number beside arrays."""
    return tuple(x.array.size == 1 and prod(shape) > 1 for x in operands)


def _broadcasts(operands: Sequence[Operand], shape: tuple[int, ...], numbers: Sequence[bool]) -> bool:
    """Whether an operand is smaller than the result, and not one number."""
    return any(prod(x.shape) != prod(shape) and not one for x, one in zip(operands, numbers, strict=True))


def _broadcast(value: Any, x: Operand, shape: tuple[int, ...]) -> Operand:
    """An operand as it lies in a common shape. Where blocks of it have scales it is decoded: they lie in its own."""
    if x.shape == shape:
        return x
    if x.scales is not None:
        x = Operand(cast(value, FP32, target="host"), FP32)
    return x.seen(lambda array: np.broadcast_to(array, shape))


def _check_out_dtype(out_dtype: object, element: np.dtype[Any]) -> None:
    """Raise unless what a caller asks for is what integers or truth values give."""
    try:
        right = out_dtype is None or (isinstance(out_dtype, (str, type, np.dtype)) and np.dtype(out_dtype) == element)
    except (TypeError, ValueError):
        right = False
    if not right:
        raise bad_argument("out_dtype", out_dtype, f"None or {element}, which these operands give")


_EXACT = """    poplibs_exact : bool, optional
        Whether it is PopLibs' own value instead.
"""
_RESULT = """    out : array or QuarterArray, optional
        Where the result goes: an array of its shape, {dtypes}. It may be an operand, or overlap one: the
        result is as if it did not. A `QuarterArray` keeps its scales.
    out_dtype : Format, dtype or str, optional
        The result's format where it has one, by default that of `out`. Without one: {default}.
{exact}    target : Target or str, optional
        The machine; by default this CPU. On a modelled one, such as ``"gc200"``, the numbers are the same; it has
        vertices for some types.

    Returns
    -------
    numpy.ndarray or QuarterArray
        `out`, or a new array laid out like the first operand of its shape; a `QuarterArray` where the format has no
        dtype.
"""


def _described(row: ElementwiseOp) -> str:
    """The sections of a docstring that follow from an operation's row."""
    numbers = [name for name in row.operands if name not in row.conditions]
    shapes = "of any shape and strides" + (", which broadcast as in NumPy" if len(row.operands) > 1 else "")
    lists = "Lists and Python's numbers take the type of the arrays beside them" if len(numbers) > 1 else "Lists"
    alone = ("; alone they become float32" if len(numbers) > 1 else " become float32") if "f" in row.kinds else (
        "" if len(numbers) > 1 else " are taken as NumPy takes them")
    words = f"{allowed_for(row.kinds)}; {shapes}. {lists}{alone}."
    lines = ["", "    Parameters", "    ----------", f"    {', '.join(numbers)} : array_like or QuarterArray"]
    lines += _folded(words)
    for name in row.conditions:
        lines += [f"    {name} : array_like of bool", "        Truth values, of a shape that broadcasts with the rest."]
    default = "one that follows from the operands' types, float16 for FP8 alone" if len(numbers) > 1 else (
        "that of the operand, float16 for FP8")
    dtypes = "of any of these formats" if row.kinds == "f" else "of any format, or of integers' own dtype"
    dtypes = "of bool" if row.tells or row.kinds == "b" else dtypes
    return "\n".join(lines) + "\n" + _RESULT.format(default=default, dtypes=dtypes, exact=_EXACT * bool(row.exact))


def _folded(words: str) -> list[str]:
    lines: list[str] = []
    line = "       "
    for word in words.split():
        if len(line) + 1 + len(word) > 118:
            lines, line = [*lines, line], "       "
        line += " " + word
    return [*lines, line]


def elementwise(poplibs: str, vertex_op: str, reference: Callable[..., Any], ulp: float = 0, kinds: str = "f",
                tells: bool = False, conditions: tuple[str, ...] = (), more: Callable[..., Any] | None = None,
                exact: Callable[..., Any] | None = None) -> Callable[[Function], Function]:
    """Make a function that has a docstring alone the operation of its name, and beside it ``<name>_bound``.

    Parameters
    ----------
    poplibs, vertex_op, reference, ulp, kinds, tells, conditions, more, exact
        As `ElementwiseOp` has them. The kernels are those of the function's name.

    Notes
    -----
    What is the same for every operation goes into the docstring between its first lines and its own sections.
    """
    def make(function: Function) -> Function:
        name, code = function.__name__, function.__code__
        operands = code.co_varnames[:code.co_argcount]
        row = ElementwiseOp(name, poplibs, operands, reference, ulp, vertex_op, kinds, tells, conditions, more,
                            exact, function.__defaults__ or ())
        ELEMENTWISE[name] = row
        function.__globals__[f"{name}_bound"] = row.bound

        def describe(_: str, /, out: Any, out_dtype: object, target: TargetLike,
                     poplibs_exact: object = False, **operands: Any) -> Any:
            return row.chosen(poplibs_exact).request(operands, out, out_dtype, target)

        return op(poplibs, bound=function.__module__.partition(".")[2], draws=f"testing.elementwise_calls:{name}",
                  shared=_described(row), by=describe, numbers=operands if len(operands) > 1 else ())(function)

    return make


def plan_elementwise(op: str, shape: Sequence[int], *, dtype: object = "float16", out_dtype: object = None,
                     in_place: bool = False, target: Target | str = "gc200", numbers: Sequence[bool] | None = None,
                     shapes: Sequence[Sequence[int]] | None = None) -> ElementwisePlan:
    """Return what a modelled machine does for an elementwise operation or a cast, and what that costs.

    It is the plan that such a call with ``target=`` follows, and that its `Run` has inside `poplibs_py.profile`.

    Parameters
    ----------
    op : str
        Its name here: ``"exp"``, ``"cast"`` ...
    shape : sequence of int
        Of the operand.
    dtype, out_dtype : Format, dtype or str, optional
        Of the operands, and of a cast's result: float32, float16, for casts PopLibs' FP8, for others integers and bool.
    in_place : bool, optional
        Whether the result takes the first operand's place, as where ``out`` is ``x``.
    target : Target or str, optional
        The machine.
    numbers : sequence of bool, optional
        For each operand whether it is one number beside arrays; by default all are arrays.
    shapes : sequence of sequence of int, optional
        Of the operands, where they are smaller than `shape`, to which they broadcast; in the place of `numbers`.

    Returns
    -------
    ElementwisePlan
        Its `explain` tells mapping, vertices, cycles and bytes.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.
    UnsupportedError
        If the machine has no vertex for it, or is this CPU.

    Notes
    -----
    An operation has no memory limit, as in PopLibs. Operands of the result's shape are mapped as it is, linearly in C
    order here; what a tile lacks of a smaller one it receives, into temporary memory.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> plan = popops.plan_elementwise("exp", (1024, 1024), target="gc200")
    >>> plan.cycles, plan.tiles_used
    (938, 1465)
    >>> popops.plan_elementwise("tanh", (4,), in_place=True).classes[0].vertices[0].name
    'UnaryOp1DInPlace'
    >>> popops.plan_elementwise("add", (11776, 64), shapes=((11776, 64), (64,))).classes[0].vertices[0].name
    'BroadcastVectorInner1D'
    """
    one_of("op", op, (*ELEMENTWISE, "cast"))
    extents = as_shape("shape", shape)
    row = ELEMENTWISE.get(op)
    source = element_of("dtype", dtype)
    result = BOOL if row is not None and row.tells else source
    result = result if out_dtype is None else element_of("out_dtype", out_dtype)
    count = 1 if row is None else len(row.operands)
    own, beside = _operands_of_plan(extents, count, numbers, shapes)
    takes_place = flag("in_place", in_place)
    machine = resolve_target(target)
    if machine.kind == "host":
        raise UnsupportedError(f"target: got {machine.name}; allowed: a modelled machine, which has vertices")
    small = any(prod(x) != prod(extents) and not one for x, one in zip(own, beside, strict=True))
    if takes_place and prod(own[0]) != prod(extents):
        raise bad_argument("in_place", in_place, "False where the first operand is smaller than the result")
    if row is None:
        lacking = cast_lacks(machine, *(x if isinstance(x, Format) else None for x in (source, result)))
    else:
        lacking = row.lacks(source, result, takes_place, beside) or ("of several shapes" if small and nonlinearity_op(
            row.vertex_op) else "")
    if lacking:
        raise UnsupportedError(f"target: {machine.name} has no vertex for popops.{op} {lacking}")
    vertex_op = "" if row is None else row.vertex_op
    types = type_of(source), type_of(result)
    if small:
        return planned_broadcast(op, vertex_op, extents, own, tuple(range(len(extents))), *types, takes_place, machine)
    return planned(op, vertex_op, extents, *types, takes_place, machine, beside)


def _operands_of_plan(extents: tuple[int, ...], count: int, numbers: Sequence[bool] | None,
                      shapes: Sequence[Sequence[int]] | None) -> tuple[tuple[tuple[int, ...], ...], tuple[bool, ...]]:
    """The operands' shapes, and which of them are one number."""
    if shapes is None:
        beside = (False,) * count if numbers is None else tuple(
            flag("numbers", n) for n in all_of("numbers", numbers, object, "flags"))
        if len(beside) != count or all(beside):
            raise bad_argument("numbers", numbers, f"{count} flags, not all of them True")
        return tuple((1,) * len(extents) if one else extents for one in beside), beside
    if numbers is not None:
        raise bad_argument("numbers", numbers, "None where `shapes` are given")
    own = tuple(as_shape("shapes", shape) for shape in all_of("shapes", shapes, object, "shapes"))
    try:
        met = np.broadcast_shapes(*own) if len(own) == count else None
    except ValueError:
        met = None
    if met != extents:
        raise bad_argument("shapes", shapes, f"{count} shapes that broadcast to {extents}")
    return own, tuple(prod(shape) == 1 and prod(extents) > 1 for shape in own)
