"""Requests of expressions: what a `map` is given, and the one program that it becomes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...config import settings
from ...errors import PoplibsError, bad_argument, bad_type
from ...formats import FORMATS, Array, Format
from ...formats.arrays import broadcast
from ...formats.reference import default_overflow
from ...ops import VALUES, Operand, Placed, Receiver, Request, operand, place_of, receive
from ...ops.parts import Part, Results, alone, results
from ...program import Executable
from ...target import Target, TargetLike
from ..elementwise.promotion import Element, element_of
from ..expr import MOST_PLACEHOLDERS, Expression, const, number, placeholder, rebuilt, with_words
from ..strided.lower import StridedOperand, StridedParams, StridedProgram, lower
from ..strided.request import has_scale
from .lower import lowered
from .modelled import Mapped, MapPlan, ScaledSum, map_lacks, plan_map, plan_scaled, scaled_lacks

_ALLOWED = "an array of " + ", ".join(f.name for f in FORMATS) + ", integers or truth values, or a number"
_MAPPABLE = "expressions of popops.expr, or a function that returns them"
_MOST_OUTPUTS = 4

Outputs = tuple[Expression, ...]


class Worded(NamedTuple):
    """Expressions with words in the place of numbers, where these words are, and those that are the call's own.

    These are arrays that are numbers, if the call does not say others.
    """

    outputs: Outputs
    words: Operand | Array
    values: tuple[int, ...] | None = None


class Settled(NamedTuple):
    """What a call maps: the expressions, numbers put in for their placeholders, and the arrays of those that stay."""

    outputs: Outputs
    arrays: tuple[Operand, ...]
    shape: tuple[int, ...]
    worded: Worded

    def blocks(self, count: int) -> tuple[Any, ...]:
        """What holds so many blocks of words."""
        return (self.worded.words, VALUES)[:count]


def _arity_of(function: Callable[..., Any]) -> int:
    """How many arrays a function of expressions takes, where its signature says so."""
    try:
        kinds = [p.kind for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):
        kinds = [inspect.Parameter.VAR_POSITIONAL]
    if any(kind not in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds):
        raise bad_type("expression", "a function whose signature does not say how many arrays it takes",
                       "one of positional parameters, or an expression")
    return len(kinds)


def expressions_of(expression: Any, arrays: int | None) -> tuple[Outputs, bool]:
    """Return the expressions of a `map`, a function's by calling it on placeholders; and whether they are several.

    Parameters
    ----------
    expression : Expression, sequence of Expression, or callable
    arrays : int or None
        How many arrays there are; None to ask a function's signature.
    """
    if isinstance(expression, type):
        raise bad_type("expression", f"the class {expression.__name__}", _MAPPABLE)
    if not isinstance(expression, (Expression, tuple, list)) and callable(expression):
        count = _arity_of(expression) if arrays is None else arrays
        if count > MOST_PLACEHOLDERS:
            raise bad_argument("arrays", count, f"at most {MOST_PLACEHOLDERS} arrays")
        expression = expression(*(placeholder(i + 1) for i in range(count)))
    several = isinstance(expression, (tuple, list))
    given = tuple(expression) if several else (expression,)
    if not 1 <= len(given) <= _MOST_OUTPUTS:
        raise bad_argument("expression", f"{len(given)} results", f"1 to {_MOST_OUTPUTS}")
    for part in given:
        if not isinstance(part, (Expression, bool, int, float, np.generic)):
            raise bad_type("expression", part, _MAPPABLE)
    return tuple(part if isinstance(part, Expression) else const(part) for part in given), several


def worded(expression: Any, outputs: Outputs, name: str = "expression") -> Worded:
    """Take the numbers out of the expressions of an argument, which keys know by their parts where it is one."""
    if isinstance(expression, Expression):
        plain, *words = expression._parts
        return Worded((plain,), Operand(words[0], None, place=(name, 0)) if words else np.zeros(1, np.uint64))
    return Worded(*with_words(outputs))


def settled_operands(outputs: Outputs, arrays: Sequence[Any], names: Sequence[str] = (),
                     worded: Worded | None = None) -> Settled:
    """Take the arrays of a `map`, under the names of the caller's parameters; numbers become constants, or words."""
    names = names or [f"arrays[{i}]" for i in range(len(arrays))]
    if len(arrays) > MOST_PLACEHOLDERS:
        raise bad_argument("arrays", len(arrays), f"at most {MOST_PLACEHOLDERS}")
    taken: list[Operand] = []
    put: dict[Expression, Expression] = {}
    numbers: dict[Expression, Expression] = {}
    plain, words = worded or Worded(outputs, np.empty(0, np.uint64), ()), [0] * len(arrays)
    for i, value in enumerate(arrays):
        if _is_number(value):
            put[placeholder(i + 1)] = const(value)
            if plain.values is None:
                numbers[placeholder(i + 1)], words[i] = number(1, i, value)
        else:
            taken.append(mapped_operand(names[i], value))
            put[placeholder(i + 1)] = placeholder(len(taken))
    if len(taken) < len(arrays):
        outputs = rebuilt(outputs, put.get)
        plain = plain._replace(outputs=rebuilt(plain.outputs, (put | numbers).get))
    if plain.values is None:
        plain = plain._replace(values=tuple(words) if numbers else ())
    shape: tuple[int, ...] = ()
    for name, x in zip((n for n, v in zip(names, arrays, strict=True) if not _is_number(v)), taken, strict=True):
        shape = broadcast(name, x.shape, shape)
    return Settled(outputs, tuple(taken), shape, plain)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def mapped_operand(name: str, value: Any) -> Operand:
    """Take an array of any format, of integers or of truth values; lists become float32."""
    return operand(name, value, _ALLOWED, "iub")


def _lies(x: Operand, shape: tuple[int, ...]) -> StridedOperand:
    """How an operand lies in a common shape: it is repeated along axes that it has not, and so are its scales."""
    array, blocks = x.array, x.block_shape or None
    if array.shape == shape:
        return StridedOperand(x.format, array.strides, x.scale, blocks)
    more = len(shape) - array.ndim
    strides = (0,) * more + tuple(0 if n == 1 else s for n, s in zip(array.shape, array.strides, strict=True))
    if blocks is not None:
        own = zip(array.shape, blocks, shape[more:], strict=True)
        blocks = shape[:more] + tuple(full if n == 1 else block for n, block, full in own)
    return StridedOperand(x.format, strides, x.scale, blocks)


def mapped(outputs: Outputs, several: bool, arrays: Sequence[Any], out: Any, out_dtype: Any, rounded: bool,
           relaxed: bool, target: TargetLike, op: str = "map", names: Sequence[str] = (),
           scaled: ScaledSum | None = None, plain: Worded | None = None) -> Request:
    """Describe a call of a `map`, or of a sum of scaled arrays, which is one; `plain` is as `worded` has it."""
    settled = settled_operands(outputs, arrays, names, plain or worded(None, outputs))
    elements = tuple(x.format for x in settled.arrays)
    try:
        found = lowered(settled.worded.outputs, elements, (None,) * len(outputs), rounded, relaxed)
    except PoplibsError:  # which is to name the numbers themselves
        found = lowered(settled.outputs, elements, (None,) * len(outputs), rounded, relaxed)
    asked = _asked(out_dtype, found.elements, several)
    if several:
        return _many(settled, asked, out, out_dtype, rounded, relaxed, op, target)
    like = next((x.array for x in settled.arrays if x.shape == settled.shape), None)
    element = asked[0]
    receiver = receive("out", out, settled.shape, None, element, in_place=settled.arrays, blocks=True, like=like)
    _check_agreement("out", receiver, element, out_dtype)
    return _request(settled, (receiver,), (_lies(receiver, settled.shape),), receiver, rounded, relaxed, op, target,
                    scaled=scaled)


def _request(settled: Settled, receivers: Sequence[Receiver], lying: tuple[StridedOperand, ...],
             to: Receiver | Results, rounded: bool, relaxed: bool, op: str, target: TargetLike,
             scaled: ScaledSum | None = None) -> Request:
    """Of the program that writes results: into the call's one receiver, or into several."""
    placed = _plan(op, settled, receivers, target, scaled)
    rounded = rounded or (placed.plan is not None and scaled is None)  # as PopLibs' generated vertices do
    program = _program(settled, lying, rounded, relaxed, op, placed.plan)
    exponents = [x.scales for x in (*settled.arrays, *receivers) if x.scales is not None]
    made = alone(to)
    operands = *settled.arrays, *made.operands, *exponents, *settled.blocks(program.params.blocks)
    return Request(program.executable, operands, made.receiver,
                   lambda: (str(program.params), program.kernel, program), settled.worded.values or (), placed=placed,
                   wrap=made.wrap)


def _mapped(settled: Settled, results: Sequence[Element]) -> Mapped:
    elements, shapes = tuple(x.format for x in settled.arrays), tuple(x.shape for x in settled.arrays)
    return Mapped(settled.outputs, elements, shapes, tuple(results))


def vertices_round(settled: Settled, results: Sequence[Element]) -> bool:
    """Whether a modelled machine has vertices for a `map` to these types: the result of each operation is rounded."""
    return not any(map(has_scale, settled.arrays)) and not map_lacks(_mapped(settled, results))


def _plan(op: str, settled: Settled, receivers: Sequence[Receiver], target: TargetLike,
          scaled: ScaledSum | None = None) -> Placed[MapPlan]:
    """Where a call runs."""
    mapped = _mapped(settled, [receiver.format for receiver in receivers])

    def plan_on(machine: Target) -> MapPlan | str:
        if any(map(has_scale, settled.arrays)) or any(map(has_scale, receivers)):
            return "of numbers with a scale"
        if scaled is not None:
            return scaled_lacks(scaled, mapped) or plan_scaled(
                scaled._replace(in_place=settled.arrays[0] in receivers[0].written_over), mapped, machine)
        if op != "map":
            return "alone: it is several of PopLibs' operations"
        return map_lacks(mapped) or plan_map(op, mapped, machine)

    return place_of(f"popops.{op}", target, plan_on)


def _asked(out_dtype: Any, elements: Sequence[Element], several: bool) -> list[Element]:
    """What results are to be."""
    if out_dtype is None:
        return list(elements)
    each = list(out_dtype) if several and isinstance(out_dtype, (tuple, list)) else [out_dtype] * len(elements)
    if len(each) != len(elements):
        raise bad_argument("out_dtype", f"{len(each)} types", f"one, or {len(elements)}")
    asked = [own if dtype is None else element_of("out_dtype", dtype)
             for dtype, own in zip(each, elements, strict=True)]
    for want, own in zip(asked, elements, strict=True):
        if want != own and not isinstance(want, Format):
            raise bad_argument("out_dtype", want, f"a format, or {own}, which the expression gives")
    return asked


def _check_agreement(name: str, receiver: Receiver, element: Element, out_dtype: Any) -> None:
    """Refuse what is given for a result and has another type than was asked for."""
    if out_dtype is not None and receiver.format != element:
        raise bad_argument(name, f"dtype {receiver.format}", f"out_dtype, which is {out_dtype}")


def _program(settled: Settled, written: tuple[StridedOperand, ...], rounded: bool, relaxed: bool,
             op: str, plan: MapPlan | None = None) -> StridedProgram:
    elements = tuple(x.format for x in settled.arrays)
    out = tuple(w.format for w in written)
    chain = lowered(settled.worded.outputs, elements, out, rounded, relaxed).chain
    overflow = tuple(default_overflow(e, "nearest-even") if isinstance(e, Format) else "inf" for e in out)
    read = tuple(_lies(x, settled.shape) for x in settled.arrays)
    alone = len(chain.steps) == 1 and chain.steps[0].kind == "compute" and not chain.constants
    if alone and (*chain.steps[0].reads, *chain.steps[0].writes) == tuple(range(len(chain.lanes))):
        own = [x.format for x in (*read, *written)]
        if all(isinstance(e, Format) for e in own) and not rounded and len(set(overflow)) == 1:
            op, chain = chain.steps[0].op, None  # type: ignore[assignment]  # perhaps on codes as they lie
    params = StridedParams(op, settled.shape, read, written, "nearest-even", overflow if chain else overflow[0],
                           chain=chain)
    return lower(params, settings.num_threads, None if plan is None else plan.mapping)


def map_program(outputs: Outputs, arrays: Sequence[Array], out: Array) -> Executable:
    """Return what evaluates an expression of arrays of one shape, into one more, which may be one of them."""
    settled, written = settled_operands(outputs, arrays), mapped_operand("out", out)
    return _program(settled, (_lies(written, settled.shape),), False, False, "map").executable


def _many(settled: Settled, asked: Sequence[Element], out: Any, out_dtype: Any, rounded: bool, relaxed: bool, op: str,
          target: TargetLike) -> Request:
    """Several results: parts of one new array, or arrays that the caller gave."""
    for element in asked:
        if out is None and isinstance(element, Format) and element.dtype is None:
            raise bad_argument("out_dtype", element, "formats with a dtype, for several results")
    parts = [Part(settled.shape, element, strided=True) for element in asked]
    made = results(out, parts, tuple, own="", in_place=settled.arrays, blocks=True)
    receivers = made.receivers(parts)
    for i, one in enumerate(receivers if out is not None else ()):
        each = out_dtype[i] if isinstance(out_dtype, (tuple, list)) else out_dtype
        _check_agreement(f"out[{i}]", one, asked[i], each)
    return _request(settled, receivers, tuple(_lies(x, settled.shape) for x in receivers), made, rounded, relaxed, op,
                    target)
