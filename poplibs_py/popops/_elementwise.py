"""Elementwise operations as rows of one table: what each computes, how well, and the function made of its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np

from ..errors import UnsupportedError, bad_argument, bad_type, flag, one_of, whole
from ..formats import Format, format_of
from ..formats.bounds import Ball
from ..formats.reference import default_overflow
from ..ops import Operand, Receiver, Request, modelled_target, op, operand, receive, result_format
from ..target import Target, resolve_target
from ..target.types import type_of
from ._request import has_scale, in_place, strided_request
from .bound import unary_bound
from .cast_model import cast_lacks
from .model import unary_entry
from .plan import ElementwisePlan, planned

__all__ = ["ELEMENTWISE", "ElementwiseOp", "plan_elementwise", "unary"]

_MOST_ELEMENTS = 1 << 62

Floats = np.ndarray[Any, np.dtype[np.float64]]
Function = TypeVar("Function", bound=Callable[..., Any])

ELEMENTWISE: dict[str, ElementwiseOp] = {}
"""Every elementwise operation, by name."""

_ALLOWED = "float32, float16, bfloat16 or FP8 numbers, or a QuarterArray"


@dataclass(frozen=True)
class ElementwiseOp:
    """One elementwise operation.

    Attributes
    ----------
    name : str
        Its public name in `poplibs_py.popops`, and its kernels'.
    poplibs : str
        PopLibs' name.
    reference : callable
        The exact function, float64 arrays to float64.
    ulp : float
        How far its FP32 result may lie from the exact one, in units of the last place: 0 exact, 0.5 correctly rounded.
    vertex_op : str
        What PopLibs' vertices call it.
    """

    name: str
    poplibs: str
    reference: Callable[..., Floats]
    ulp: float
    vertex_op: str

    def request(self, x: Any, out: Any, out_dtype: object, target: Target | str | None) -> Request:
        """Describe a call."""
        given = operand("x", x, _ALLOWED)
        assert given.format is not None
        receiver = receive("out", out, given.shape, out_dtype, result_format(given.format), (given,), in_place=True,
                           blocks=True, like=given.array)
        machine, lacking = modelled_target(target, f"popops.{self.name}", lambda _: self.lacks_call(given, receiver))
        plan = None if machine is None else planned(
            self.name, self.vertex_op, given.shape, type_of(given.format), type_of(receiver.format),
            in_place(given, receiver), machine)
        overflow = default_overflow(receiver.format, "nearest-even")
        return strided_request(self.name, given, receiver, overflow, plan=plan, lacking=lacking)

    def lacks_call(self, x: Operand, receiver: Receiver) -> str:
        """Return what no vertex does of a call."""
        scaled = has_scale(x) or has_scale(receiver)
        return self.lacks(x.format, receiver.format) or ("of numbers with a scale" if scaled else "")

    def lacks(self, source: Format | None, result: Format) -> str:
        """Return what no vertex does of the operation on these formats, in words; an empty string if one does."""
        if unary_entry(self.vertex_op, type_of(source)) is None:
            return f"of {source}"
        return "" if source == result else f"from {source} to {result}"

    def bound(self, x: Any, *, out: Any = None, out_dtype: Any = None, target: Any = None) -> Ball:
        """Return exact results of a call and how far right ones may lie from them, on every machine."""
        return unary_bound(self.reference, self.ulp, x, out=out, out_dtype=out_dtype)


_PARAMETERS = """
    Parameters
    ----------
    x : array_like or QuarterArray
        float32, float16, bfloat16 or FP8 numbers, of any shape and strides. Lists become float32.
    out : array or QuarterArray, optional
        Where the result goes: an array of the shape of `x` and of any of these formats. It may be `x`, or overlap
        it: the result is as if it did not. A `QuarterArray` keeps its scales.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`. Without one: that of `x`, or float16 where that is FP8.
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one, such as ``"gc200"``, the numbers are the same; float32 and
        float16 have vertices there, which write their operand's format.

    Returns
    -------
    numpy.ndarray or QuarterArray
        `out`, or a new array laid out like `x`; a `QuarterArray` where the format has no dtype.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value. Nothing has been written then.
    UnsupportedError
        If `target` has no vertex for the call.
"""


def unary(poplibs: str, vertex_op: str, reference: Callable[[Floats], Floats],
          ulp: float) -> Callable[[Function], Function]:
    """Make a function, of which only the docstring counts, the operation of its name, and beside it ``<name>_bound``.

    Parameters
    ----------
    poplibs, vertex_op, reference, ulp
        As `ElementwiseOp` has them. The kernel is the one of the function's name.

    Notes
    -----
    What is the same for every operation goes into the docstring between its first lines and its own sections.
    """
    def make(function: Function) -> Function:
        row = ELEMENTWISE[function.__name__] = ElementwiseOp(function.__name__, poplibs, reference, ulp, vertex_op)

        def call(x: Any, *, out: Any = None, out_dtype: Any = None, target: Any = None) -> Any:
            return row.request(x, out, out_dtype, target)

        head, mark, rest = (function.__doc__ or "").partition("\n    Notes\n")
        for name in ("__module__", "__name__", "__qualname__", "__annotations__"):
            setattr(call, name, getattr(function, name))
        function.__globals__[f"{row.name}_bound"] = row.bound
        call.__doc__ = head.rstrip() + "\n" + _PARAMETERS + mark + rest
        bound = f"popops.elementwise:{row.name}_bound"
        record = op(f"popops.{row.name}", poplibs=poplibs, bound=bound,
                    draws="testing.calls:unary_calls")
        return record(call)  # type: ignore[return-value]

    return make


def plan_elementwise(op: str, shape: Sequence[int], *, dtype: object = "float16", out_dtype: object = None,
                     in_place: bool = False, target: Target | str = "gc200") -> ElementwisePlan:
    """Return what a modelled machine does for an elementwise operation or a cast, and what that costs.

    It is the plan that such a call with ``target=`` follows, and that its `Run` has inside `poplibs_py.profile`.

    Parameters
    ----------
    op : str
        Its name here: ``"exp"``, ``"cast"`` ...
    shape : sequence of int
        Of the operand.
    dtype, out_dtype : Format, dtype or str, optional
        Of the operand, and of the result (by default the same): float32, float16, and for casts PopLibs' FP8.
    in_place : bool, optional
        Whether the result takes the operand's place, as where ``out`` is ``x``.
    target : Target or str, optional
        The machine.

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
    An operation has no memory limit, as in PopLibs. Only an operand that is mapped unlike the result would take
    temporary memory, and both are mapped linearly here.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> plan = popops.plan_elementwise("exp", (1024, 1024), target="gc200")
    >>> plan.cycles, plan.tiles_used
    (938, 1465)
    >>> popops.plan_elementwise("tanh", (4,), in_place=True).classes[0].vertices[0].name
    'UnaryOp1DInPlace'
    """
    one_of("op", op, (*ELEMENTWISE, "cast"))
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence):
        raise bad_type("shape", shape, "a sequence of integers")
    extents = tuple(whole("shape", extent, 0, _MOST_ELEMENTS) for extent in shape)
    if prod(extents) > _MOST_ELEMENTS:
        raise bad_argument("shape", extents, f"at most {_MOST_ELEMENTS} elements")
    source = format_of(dtype)
    result = source if out_dtype is None else format_of(out_dtype, "out_dtype")
    machine = resolve_target(target)
    if machine.kind == "host":
        raise UnsupportedError(f"target: got {machine.name}; allowed: a modelled machine, which has vertices")
    row = ELEMENTWISE.get(op)
    lacking = cast_lacks(machine, source, result) if row is None else row.lacks(source, result)
    if lacking:
        raise UnsupportedError(f"target: {machine.name} has no vertex for popops.{op} {lacking}")
    vertex_op = "" if row is None else row.vertex_op
    types = type_of(source), type_of(result)
    return planned(op, vertex_op, extents, *types, flag("in_place", in_place), machine)
