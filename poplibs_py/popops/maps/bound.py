"""How wrong an expression may be: its operations' own errors, each carried through those that follow.

An exact value and a radius go through the expression (running error analysis: Higham, "Accuracy and Stability of
Numerical Algorithms", section 3.3). Where an operand is exact, an operation adds its own error. Where it is not, the
operation is taken at the ends of its operands' intervals: operations that rise or fall in each operand, as most do,
give nothing beyond what they give there. Some others have a greatest slope. Of the rest, and of poles and of
comparisons that the error may turn, nothing is promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ...formats import BF16, FP16, FP32, Format, QuarterArray, format_of
from ...formats.bounds import Ball
from ...formats.format import preset_of
from ...ops import target_of
from ..elementwise.bound import fp32_ball, function_ball
from ..elementwise.promotion import BOOL, Element, element_of, typed
from ..elementwise.table import ELEMENTWISE, ElementwiseOp
from ..expr import Expression, postorder
from .lower import typed_op
from .request import expressions_of, settled_operands, vertices_round

Numbers = np.ndarray[Any, Any]

_MONOTONE = frozenset((
    "add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "clamp", "relu", "neg", "signum", "cube", "sqrt",
    "rsqrt", "inv", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log1p", "asin", "tanh", "erf", "sigmoid", "ceil",
    "floor", "round", "nearbyint", "trunc", "gt", "gteq", "lt", "lteq", "pow", "square"))
_SLOPES = {"abs": 1.0, "sin": 1.0, "cos": 1.0, "gelu_erf": 1.13}
_POLES = {"div": 1, "inv": 0, "pow": 0}
"""The operand that must not come across zero."""
_ROOTS = {0.5: "sqrt", -0.5: "rsqrt"}


class Known(NamedTuple):
    """Exact values, how far computed ones may lie from them, their type. A truth value that may be wrong is 1 off."""

    centre: Numbers
    radius: Numbers
    element: Element

    @property
    def ball(self) -> Ball:
        """The same as a ball."""
        return Ball(self.centre.astype(np.float64), self.radius)


def map_bound(expression: Any, *arrays: Any, out: Any = None, out_dtype: Any = None, round_each: bool = False,
              relaxed: bool = False, target: Any = None) -> Any:
    """Return exact results of a `map` and how far right ones may lie from them; of several results a tuple.

    Parameters
    ----------
    expression, *arrays, out, out_dtype, round_each, relaxed, target
        As `map` takes them.
    """
    outputs, several = expressions_of(expression, len(arrays))
    settled = settled_operands(outputs, arrays)
    given = [value for value in arrays if not isinstance(value, (bool, int, float))]
    with np.errstate(all="ignore"):
        operands = [_operand(value, x.array, x.format) for value, x in zip(given, settled.arrays, strict=True)]
        known = _evaluated(settled.outputs, operands, round_each, relaxed)
        outs = out if several and out is not None else (out,) * len(known)
        types = out_dtype if several and isinstance(out_dtype, (tuple, list)) else (out_dtype,) * len(known)
        results = [_result(*each) for each in zip(known, outs, types, strict=True)]
        if not round_each and target_of(target).kind != "host" and vertices_round(settled, results):
            known = _evaluated(settled.outputs, operands, True, relaxed)
        balls = tuple(_written(value, settled.shape, one, dtype)
                      for value, one, dtype in zip(known, outs, types, strict=True))
    return balls if several else balls[0]


def applied(outputs: Sequence[Expression], operands: Sequence[Known], shape: tuple[int, ...],
            element: Element) -> Known:
    """Return what an expression gives for operands that may be off themselves, rounded to an element's format."""
    with np.errstate(all="ignore"):
        (known,) = _evaluated(outputs, operands, False, False)
        if not isinstance(element, Format):
            return known
        ball = _written(known, shape, None, element)
        return Known(ball.centre, ball.radius, element)


def _result(value: Known, out: Any, dtype: Any) -> Element:
    """The type of a result."""
    if out is None:
        return value.element if dtype is None else element_of("out_dtype", dtype)
    return out.format if isinstance(out, QuarterArray) else preset_of(out.dtype) or out.dtype


def _operand(value: Any, array: Numbers, element: Element) -> Known:
    exact: Numbers = value.to_array(np.float64) if isinstance(value, QuarterArray) else (
        array.astype(np.float64) if isinstance(element, Format) else array)
    return Known(exact, np.zeros(exact.shape), element)


def _written(value: Known, shape: tuple[int, ...], out: Any, dtype: Any) -> Ball:
    """A result after its last rounding."""
    ball = Ball(np.broadcast_to(value.centre.astype(np.float64), shape), np.broadcast_to(value.radius, shape))
    if not isinstance(value.element, Format) and dtype is None:
        return ball
    if out is not None:
        target = out.format if isinstance(out, QuarterArray) else format_of(out)
    else:
        target = format_of(value.element if dtype is None else dtype)
    if target == FP32:
        return ball
    power = 2.0 ** out.element_scales().astype(np.float64) if isinstance(out, QuarterArray) else 1.0
    return (ball * (1 / power)).rounded(target) * power


def _evaluated(outputs: Sequence[Expression], operands: Sequence[Known], rounded: bool, relaxed: bool) -> list[Known]:
    """The expressions' values, each operation's after those that it needs."""
    values: dict[Expression, Known | None] = {}
    for node in postorder(outputs):
        if node.op == "placeholder":
            values[node] = operands[node.value - 1]
        elif node.op == "const":
            values[node] = None
        elif node.op == "cast":
            values[node] = _cast(values[node.args[0]] or _constant(node.args[0].value, FP32, False), node.value)
        else:
            values[node] = _operation(node, [values[arg] for arg in node.args], rounded, relaxed)
    return [values[node] or _alone(node.value) for node in outputs]


def _alone(number: Any) -> Known:
    return _constant(number, FP32 if isinstance(number, float) else np.asarray(number).dtype, False)


def _constant(number: Any, element: Element, rounded: bool) -> Known:
    own = element if rounded or not isinstance(element, Format) else FP32
    array = typed("a constant", np.asarray(number), own)
    return Known(array.astype(np.float64) if isinstance(own, Format) else array, np.zeros(()), element)


def _cast(x: Known, target: Element) -> Known:
    if isinstance(target, Format):
        ball = _numbers(x)
        ball = ball if target in (FP32, x.element) else ball.rounded(target)
        return Known(ball.centre, ball.radius, target)
    if target == BOOL:
        unsure = np.abs(x.centre.astype(np.float64)) <= x.radius
        return Known(x.centre != 0, np.where(unsure & (x.radius > 0), 1.0, 0.0), BOOL)
    return Known(x.centre.astype(target), x.radius, target)


def _numbers(x: Known) -> Ball:
    """A value as FP32 numbers."""
    if isinstance(x.element, Format):
        return x.ball
    return Ball(x.centre.astype(np.float32).astype(np.float64), x.radius)


def _as_operand(ball: Ball, element: Format) -> Ball:
    """Numbers of 8 bits as those of 16, which change where a scale takes them further than these reach."""
    made = ball.rounded(element)
    with np.errstate(over="ignore"):
        same = (ball.radius == 0) & (ball.centre.astype(element.dtype).astype(np.float64) == ball.centre)
    return Ball(made.centre, np.where(same, 0.0, made.radius))


def _operation(node: Expression, values: list[Known | None], rounded: bool, relaxed: bool) -> Known:
    elements = [value and value.element for value in values]
    if node.op == "/":
        elements = [e and (e if isinstance(e, Format) else FP32) for e in elements]
    row, element = typed_op(node, elements)
    number = node.args[-1].value if node.args[-1].op == "const" else None
    if relaxed and isinstance(element, Format):
        if row.name == "pow" and number in _ROOTS:
            row, values = ELEMENTWISE[_ROOTS[number]], values[:1]
        elif row.name == "add" and 0 in [a.value for a in node.args if a.op == "const"]:
            kept = next((v for v in values if v is not None), None)
            if kept is not None and kept.element == element:
                return kept
    taken = []
    for i, name in enumerate(row.operands):
        value, condition = values[i], name in row.conditions
        if value is None:
            value = _constant(node.args[i].value, BOOL if condition else element, rounded)
        if condition:
            taken.append((value.centre, value.radius))
        elif isinstance(element, Format):
            ball = _numbers(value)
            if rounded and element in (FP16, BF16) and value.element != element:
                ball = _as_operand(ball, element)
            taken.append((ball.centre, ball.radius))
        else:
            taken.append((value.centre.astype(element), value.radius))
    centres, radii = ([np.asarray(part) for part in side] for side in zip(*taken, strict=True))
    found = _applied(row, element, centres, radii)
    if isinstance(element, Format) and not row.tells and rounded and element in (FP16, BF16):
        ball = found.ball.rounded(element)
        return Known(ball.centre, ball.radius, element)
    return found


def _applied(row: ElementwiseOp, element: Element, centres: list[Numbers], radii: list[Numbers]) -> Known:
    """An operation on values that may be off."""
    shape = np.broadcast_shapes(*(c.shape for c in centres))
    centres = [np.broadcast_to(c, shape) for c in centres]  # NumPy takes powers of lone numbers for roots
    exact = np.asarray(row.reference(*centres))
    reach = sum((np.broadcast_to(r, shape) for r in radii), np.zeros(shape))
    if row.name == "select":
        return _selected(element, centres, radii)
    if row.tells or not isinstance(element, Format):
        unsure = np.zeros(shape, bool)
        if (reach > 0).any():
            unsure = _unsure(row, exact, centres, radii) & (reach > 0)
        off = 1.0 if element == BOOL or row.tells else np.inf
        return Known(exact, np.where(unsure, off, 0.0), BOOL if row.tells else element)
    ball = function_ball(exact, row.ulp, row.more, centres)
    own = ball.radius
    if not (reach > 0).any():
        return Known(ball.centre, np.broadcast_to(own, shape), element)
    centre, radius = _carried(row, exact, centres, radii)
    return Known(np.where(reach > 0, centre, ball.centre), np.where(reach > 0, radius, own), element)


def _unsure(row: ElementwiseOp, exact: Numbers, centres: list[Numbers], radii: list[Numbers]) -> Any:
    """Whether operands that are off may turn a truth value, or an integer, into another."""
    if all(c.dtype == BOOL for c in centres):
        ends = [(c, np.where(r > 0, ~c, c)) for c, r in zip(centres, radii, strict=True)]
        return np.any([np.asarray(row.reference(*corner)) != exact for corner in product(*ends)], axis=0)
    if row.name in ("gt", "gteq", "lt", "lteq"):
        corners = [np.asarray(row.reference(*corner)) for corner in _corners(centres, radii)]
        return np.any([corner != exact for corner in corners], axis=0) | np.isinf(sum(radii))
    if row.name in ("eq", "neq"):
        return np.abs(centres[0].astype(np.float64) - centres[1]) <= sum(radii)
    if row.name == "is_nan":
        return np.isinf(radii[0])
    return np.ones(exact.shape, bool)


def _corners(centres: list[Numbers], radii: list[Numbers]) -> Any:
    ends = [(c - r, c + r) for c, r in zip(centres, radii, strict=True)]
    return product(*ends)


def _carried(row: ElementwiseOp, exact: Numbers, centres: list[Numbers],
             radii: list[Numbers]) -> tuple[Numbers, Numbers]:
    """Centre and radius of an operation whose operands are off."""
    if row.name in _SLOPES:
        spread = _SLOPES[row.name] * radii[0]
        low, high = exact - spread, exact + spread
    elif row.name in _MONOTONE:
        use = [centres[0], centres[0]] if row.name == "square" else centres
        around = [radii[0], radii[0]] if row.name == "square" else radii
        function = np.multiply if row.name == "square" else row.reference
        corners = np.stack(np.broadcast_arrays(*(np.asarray(function(*c)) for c in _corners(use, around))))
        low, high = corners.min(0), corners.max(0)
        if (pole := _POLES.get(row.name)) is not None:
            crosses = np.abs(centres[pole]) <= radii[pole]
            if row.name == "pow":
                crosses = crosses | ((centres[0] < 0) & (radii[1] > 0))
            high = np.where(crosses, np.inf, high)
            low = np.where(crosses, -np.inf, low)
    else:
        return exact, np.full(exact.shape, np.inf)
    parts = [fp32_ball(end, row.ulp) for end in (exact, low, high)]
    ends = [part.centre for part in parts]
    same = np.isinf(exact) & (ends[1] == ends[2]) & (ends[0] == ends[1])
    beyond = np.isinf(ends[0]) & (ends[1] == ends[2]) & (ends[0] == ends[1])
    spread = np.maximum(high - exact, exact - low) * (1 + 2.0**-40)
    radius = spread + np.maximum.reduce([part.radius for part in parts])
    nothing = np.isnan(exact) & np.isnan(low) & np.isnan(high) & np.isfinite(sum(radii))
    settled = same | beyond | nothing
    return ends[0], np.where(settled, 0.0, np.where(np.isnan(radius), np.inf, radius))


def _selected(element: Element, centres: list[Numbers], radii: list[Numbers]) -> Known:
    """A choice; of both where it may be either."""
    (a, b, c), (ra, rb, rc) = centres, radii
    centre, radius = np.where(c, a, b), np.where(c, ra, rb)
    if (rc > 0).any():
        other, beside = np.where(c, b, a), np.where(c, rb, ra)
        apart = np.where(other == centre, 0.0, np.abs(other.astype(np.float64) - centre))
        either = np.maximum(radius, apart + beside)
        radius = np.where(rc > 0, np.where(np.isnan(either), np.inf, either), radius)
        if not isinstance(element, Format):
            radius = np.where((rc > 0) & (other != centre), 1.0 if element == BOOL else np.inf, np.where(c, ra, rb))
    return Known(centre, np.broadcast_to(radius, centre.shape), element)
