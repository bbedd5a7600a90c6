"""Hypothesis strategies of calls of `popops.map` and of the maps that have names of their own."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import strategies as st

from .. import popops
from ..formats import FORMATS, FP32, QuarterArray
from ..popops.elementwise.table import ELEMENTWISE
from ..popops.expr import Expression, const, expression_of, placeholder
from .calls import Call
from .elementwise_calls import integer_arrays
from .strategies import NAMES, OUT_DTYPE, arrays, formats, layouts, options, relaid, sampled, shapes

_DTYPES = [f.name for f in FORMATS if f.dtype is not None]
_NUMBERS = sorted(name for name, row in ELEMENTWISE.items()
                  if "f" in row.kinds and not row.tells and not row.conditions)
_QUESTIONS = sorted(name for name, row in ELEMENTWISE.items() if "f" in row.kinds and row.tells)
_CONSTANTS = (0.0, -0.0, 1.0, 2, -1, 0.5, 3, 0.1, 1e30, float("inf"), float("nan"))


@st.composite
def expressions(draw: st.DrawFn, count: int, steps: int) -> Expression:
    """Expressions of numbers, of so many placeholders and operations."""
    known = [placeholder(i + 1) for i in range(count)]
    operand = st.deferred(lambda: st.sampled_from(known) | st.sampled_from(_CONSTANTS).map(const))
    for _ in range(steps):
        kind = draw(st.sampled_from(["number"] * 6 + ["select", "cast"]))
        if kind == "number":
            row = ELEMENTWISE[draw(sampled(*_NUMBERS))]
            args = [known[-1] if draw(st.booleans()) else draw(st.sampled_from(known)),
                    *(draw(operand) for _ in row.operands[1:])]
            known.append(expression_of(row.name, tuple(args)))
        elif kind == "cast":
            known.append(popops.cast(draw(st.sampled_from(known)), draw(sampled(*NAMES))))
        else:
            row = ELEMENTWISE[draw(sampled(*_QUESTIONS))]
            asked = [draw(st.sampled_from(known)), *(draw(operand) for _ in row.operands[1:])]
            chosen = draw(st.sampled_from(known)), draw(operand)
            known.append(expression_of("select", (*chosen, expression_of(row.name, tuple(asked)))))
    return known[-1]


@st.composite
def map_calls(draw: st.DrawFn) -> Call:
    """Calls of `popops.map`: expressions of numbers and integers, operands of any formats and layouts."""
    shape = draw(shapes(2, "elementwise", most=40))
    count = draw(st.integers(1, 3))
    operands: list[Any] = []
    for _ in range(count):
        kept = tuple(draw(st.sampled_from([n, n, 1])) for n in shape)[draw(sampled(0, 0, 0, 1)):]
        operands.append(draw(_operand(kept)))
    expression = draw(expressions(count, draw(st.integers(1, 6))))
    keywords = draw(options({"out_dtype": NAMES, "round_each": [True], "relaxed": [True]}))
    if draw(sampled(False, False, True)):
        return ((expression, draw(expressions(count, 2)), placeholder(1)), *operands), {
            key: value for key, value in keywords.items() if key != "out_dtype"}
    return (expression, *operands), keywords


@st.composite
def _operand(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Numbers of a format with or without a scale, moderate or of any bits."""
    x: Any = draw(arrays(shape, draw(formats()), moderate=draw(st.booleans())))
    if x.dtype.itemsize == 1 and draw(st.booleans()):
        return QuarterArray(x, x.dtype, draw(st.integers(-32, 31)))
    return relaid(x, draw(layouts(broadcast=True)))


@st.composite
def scaled_add_calls(draw: st.DrawFn) -> Call:
    """Calls of `popops.scaled_add` and `popops.scaled_subtract`."""
    shape = draw(shapes(2, "elementwise", most=40))
    if draw(sampled(False, False, False, True)):
        a, b = (draw(integer_arrays(shape, "int32")) for _ in range(2))
        return (a, b), draw(options({"scale": [3, -1], "scale_a": [2]}))
    a, b = (draw(_operand(shape)) for _ in range(2))
    scale = st.sampled_from([0.1, -2.0, 3]) | arrays((1,), FP32)
    return (a, b), draw(options({"scale": scale, "scale_a": [0.5, 1.5], "out_dtype": NAMES}))


@st.composite
def x_minus_ax_plus_by_calls(draw: st.DrawFn) -> Call:
    """Calls of `popops.x_minus_ax_plus_by`."""
    shape = draw(shapes(2, "elementwise", most=40))
    a, b = (draw(_operand(shape)) for _ in range(2))
    scales = (draw(st.sampled_from([0.1, -2.0, 3]) | arrays((1,), FP32)) for _ in range(2))
    return (a, b, *scales), draw(OUT_DTYPE)


@st.composite
def _gradient_calls(draw: st.DrawFn, operands: int) -> Call:
    shape = draw(shapes(2, "elementwise", most=40))
    return tuple(draw(_operand(shape)) for _ in range(operands)), draw(options({"out_dtype": _DTYPES}))


@st.composite
def select_grad_calls(draw: st.DrawFn) -> Call:
    """Calls of `popops.select_grad`."""
    shape = draw(shapes(2, "elementwise", most=40))
    return (draw(_operand(shape)), draw(integer_arrays(shape, "bool"))), draw(options({"out_dtype": _DTYPES}))


binary_gradient_calls, clamp_grad_calls = partial(_gradient_calls, 3), partial(_gradient_calls, 4)
