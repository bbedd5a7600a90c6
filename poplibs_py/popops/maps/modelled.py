"""Expressions of arrays, and sums of scaled arrays, on a modelled machine: by which vertices, and what that costs.

PopLibs generates a vertex for an expression whose arrays are of one shape, or numbers. Where they broadcast, and of
one operation alone, each operation is a step of its own, with temporaries between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod
from typing import NamedTuple

import numpy as np

from ...memo import remembered
from ...planner.tile_plan import Step, TilePlan, TileWork, Vertex, mapping_words, memory_of, work_of
from ...program import rounded
from ...target import LinearMapping, Target, linear_mapping
from ...target.mapping import split_between_workers
from ...target.types import TYPE_BYTES, type_of, vector_of
from ..elementwise.broadcast_modelled import planned_broadcast
from ..elementwise.modelled import planned
from ..elementwise.promotion import BOOL, Element
from ..expr import Expression, postorder
from ..vertices.cast import cast_vertices, is_copy
from ..vertices.nonlinearities import nonlinearity_op
from ..vertices.scaled import scaled_vertices
from ..vertices.unary import element_grain
from .lower import typed_op

Shape = tuple[int, ...]

_FUSED = ("float", "half", "int", "unsigned int", "bool", "long long", "unsigned long long")
_ENTER, _ENTER_WORKER = 20, 13  # cycles of a generated vertex besides its operations'
_LEAST_STORE = 4  # bytes
_SCALED = ("float", "half", "int", "unsigned int")
_EXACT = 1e-6  # what a scale of halves may lose as a half: scaleFloatToHalfTolerance


class Mapped(NamedTuple):
    """What a call maps.

    Attributes
    ----------
    outputs : tuple of Expression
    elements : tuple of Format or numpy.dtype
        Of the arrays.
    shapes : tuple of tuple of int
        Of the arrays.
    results : tuple of Format or numpy.dtype
        Of the results.
    """

    outputs: tuple[Expression, ...]
    elements: tuple[Element, ...]
    shapes: tuple[Shape, ...]
    results: tuple[Element, ...]

    @property
    def shape(self) -> Shape:
        """Of the results."""
        return np.broadcast_shapes(*self.shapes) if self.shapes else ()


class ScaledSum(NamedTuple):
    """A sum of two scaled arrays.

    Attributes
    ----------
    form : str
        ``"scaled_add"``, ``"scaled_subtract"`` or ``"x_minus_ax_plus_by"``.
    scale, scale_a : float or None
        Constants; None for what an array holds.
    scaled : bool
        Whether the first array has a scale.
    in_place : bool
        Whether the result takes the first array's place.
    """

    form: str
    scale: float | None
    scale_a: float | None
    scaled: bool
    in_place: bool


@dataclass(frozen=True, kw_only=True)
class MapPlan(TilePlan):
    """Operations on the elements of arrays, in one step or in several.

    Attributes
    ----------
    mapping : LinearMapping
        Which tile holds which elements of the results, in C order.
    fused : bool
        Whether one generated vertex does them all.
    """

    mapping: LinearMapping
    fused: bool


class _Node(NamedTuple):
    """An operation of an expression: what it is, its type, its operands' shapes (None of constants), its result."""

    name: str
    vertex_op: str
    data_type: str
    result_type: str
    shapes: tuple[Shape | None, ...]
    shape: Shape


def _nodes(mapped: Mapped) -> list[_Node] | str:
    """The operations of expressions, or what no vertex does of them."""
    known: dict[Expression, tuple[Element, Shape] | None] = {}
    nodes: list[_Node] = []
    for node in postorder(mapped.outputs):
        if node.op == "placeholder":
            known[node] = mapped.elements[node.value - 1], mapped.shapes[node.value - 1]
            continue
        if node.op == "const":
            known[node] = None
            continue
        args = [known[arg] for arg in node.args]
        met = [arg[1] for arg in args if arg is not None]
        if not met:
            return "of constants alone"
        shape, given = np.broadcast_shapes(*met), [None if arg is None else arg[0] for arg in args]
        shapes = tuple(None if arg is None else arg[1] for arg in args)
        if node.op == "cast":
            assert given[0] is not None
            ends = type_of(given[0]), type_of(node.value)
            if not all(end in _FUSED for end in ends):
                return f"from {given[0]} to {node.value}"
            known[node] = node.value, shape
            nodes.append(_Node("cast", "", *ends, shapes, shape))
            continue
        row, element = typed_op(node, given)
        result = BOOL if row.tells else element
        for key, own in zip(row.operands, given, strict=True):
            if own not in (None, element) and key not in row.conditions:
                return f"of {own} beside other types"
        lacking = row.lacks(element, result, False, (False,) * len(args))
        if lacking or type_of(element) not in _FUSED or nonlinearity_op(row.vertex_op):
            return f"of {row.name} {lacking or f'of {element}'}"
        known[node] = result, shape
        nodes.append(_Node(row.name, row.vertex_op, type_of(element), type_of(result), shapes, shape))
    for output, asked in zip(mapped.outputs, mapped.results, strict=True):
        made = known[output]
        if made is None:
            return "of constants alone"
        if made[0] != asked:
            return f"from {made[0]} to {asked}"
    return nodes or "of no operation"


def map_lacks(mapped: Mapped) -> str:
    """Return what PopLibs' vertices lack of expressions, in words; an empty string where they lack nothing."""
    for element in mapped.elements:
        if type_of(element) not in _FUSED:
            return f"of {element}"
    found = _nodes(mapped)
    return found if isinstance(found, str) else ""


@remembered(weight=2)
def plan_map(op: str, mapped: Mapped, target: Target) -> MapPlan:
    """Return the plan of expressions that the machine has vertices for.

    Parameters
    ----------
    op : str
        The public name.
    mapped : Mapped
    target : Target
    """
    nodes, shape = _nodes(mapped), mapped.shape
    assert not isinstance(nodes, str)
    alike = all(own == shape or prod(own) == 1 for own in mapped.shapes)
    finite = all(isfinite(node.value) for node in postorder(mapped.outputs) if node.op == "const")
    mapping = linear_mapping(target, prod(shape), TYPE_BYTES[nodes[0].data_type])
    fused = len(nodes) > 1 and alike and finite
    steps = (_fused_step(target, mapped, nodes, mapping),) if fused else _separate_steps(target, nodes)
    words = f"{op} {shape} of {', '.join(dict.fromkeys(type_of(e) for e in mapped.elements))}: "
    words += ", ".join(repr(output) for output in mapped.outputs)
    decisions = (("mapping", mapping_words(target, mapping)),
                 ("operations", f"{len(nodes)}" + (" in one generated vertex" if fused else " one after another")))
    return _finished(words, target, steps, decisions, mapping, mapped.elements, mapped.shapes, mapped.results, fused)


def _finished(words: str, target: Target, steps: tuple[Step, ...], decisions: tuple[tuple[str, str], ...],
              mapping: LinearMapping, elements: Sequence[Element], shapes: Sequence[Shape],
              results: Sequence[Element], fused: bool) -> MapPlan:
    """The plan, with what lies where."""
    operands = np.zeros(target.tiles, np.int64)
    for element, own in zip(elements, shapes, strict=True):
        lies = mapping if prod(own) == mapping.elements else linear_mapping(target, prod(own), element.itemsize)
        operands[:lies.tiles] += np.diff(lies.edges()) * element.itemsize
    held = np.diff(mapping.edges()) * sum(element.itemsize for element in results)
    return MapPlan(problem=words, target=target, steps=steps, decisions=decisions,
                   memory=memory_of(target, operands, held, steps), mapping=mapping, fused=fused)


def _fused_step(target: Target, mapped: Mapped, nodes: Sequence[_Node], mapping: LinearMapping) -> Step:
    """One generated vertex on each tile, or one on each of its workers."""
    types = [type_of(element) for element in mapped.elements]
    operations = sum(node.name != "cast" for node in nodes)
    made = {node.data_type for node in nodes} | {node.result_type for node in nodes}
    vectors = len(made | set(types)) == 1 and types[0] in ("float", "half")
    first, numbers = types[0], [prod(own) == 1 and mapping.elements > 1 for own in mapped.shapes]
    vector, grain = vector_of(target, first), element_grain(target, first)
    store = min(TYPE_BYTES[type_of(e)] for e in mapped.results) * (vector if vectors else 1)
    params = tuple(dict.fromkeys(node.vertex_op or "CAST" for node in nodes)) + tuple(dict.fromkeys(types))

    def spent(elements: int, enter: int) -> int:
        sizes = [1 if one else elements for one in numbers]
        return enter + sum((n // vector + n % vector) * operations for n in sizes)

    def vertices(elements: int) -> tuple[Vertex, ...]:
        if elements > vector and store >= _LEAST_STORE:
            cycles = rounded(spent(elements, _ENTER), target.workers)
            return (Vertex("Fused", params, ((elements, 1),), cycles, "tile"),)
        shares = split_between_workers(target, (elements,), grain, least=2 * grain)
        return tuple(Vertex("Fused", params, runs, spent(sum(n * k for n, k in runs), _ENTER_WORKER), "worker")
                     for runs in shares)

    number_bytes = sum(TYPE_BYTES[t] for t, one in zip(types, numbers, strict=True) if one) * (mapping.tiles > 1)
    work = work_of(target, mapping.classes, vertices, lambda _: number_bytes)
    return Step("compute", work, number_bytes)


def _separate_steps(target: Target, nodes: Sequence[_Node]) -> tuple[Step, ...]:
    """A step for each operation; what one leaves to another is temporary."""
    steps, held = [], 0
    for i, node in enumerate(nodes):
        shapes = tuple(() if own is None else own for own in node.shapes)
        numbers = tuple(prod(own) == 1 and prod(node.shape) > 1 for own in shapes)
        if all(prod(own) == prod(node.shape) or one for own, one in zip(shapes, numbers, strict=True)):
            plan = planned(node.name, node.vertex_op, node.shape, node.data_type, node.result_type, False, target,
                           numbers if node.vertex_op else (False,))
        else:
            order = tuple(range(len(node.shape)))
            plan = planned_broadcast(node.name, node.vertex_op, node.shape, shapes, order, node.data_type,
                                     node.result_type, False, target)
        held += max((w.elements for w in plan.classes), default=0) * TYPE_BYTES[node.result_type]
        kept = held if i + 1 < len(nodes) else 0
        steps.append(replace(plan.steps[0], name=node.name, temp_bytes=plan.steps[0].temp_bytes + kept))
    return tuple(steps)


# Sums of scaled arrays -----------------------------------------------------------------------------------


def scaled_lacks(given: ScaledSum, mapped: Mapped) -> str:
    """Return what PopLibs' vertices lack of a sum of scaled arrays."""
    (a, b), (of_a, of_b) = (type_of(e) for e in mapped.elements[:2]), mapped.shapes[:2]
    for element, kind in zip(mapped.elements[:2], (a, b), strict=True):
        if kind not in _SCALED:
            return f"of {element}"
    if (a in ("float", "half")) != (b in ("float", "half")) or (a not in ("float", "half") and a != b):
        return f"of {mapped.elements[1]} beside {mapped.elements[0]}"
    if of_a != of_b or any(prod(own) != 1 for own in mapped.shapes[2:]):
        return f"of shapes {' and '.join(map(str, mapped.shapes))}"
    if mapped.results[0] != mapped.elements[0]:
        return f"from {mapped.elements[0]} to {mapped.results[0]}"
    return "of integers" if given.form == "x_minus_ax_plus_by" and a not in ("float", "half") else ""


def _scale_type(data_type: str, scales: Sequence[float | None], arrays: Sequence[Element]) -> str:
    """The type of a sum's scales: half beside halves where that keeps their values."""
    if data_type != "half":
        return data_type
    with np.errstate(all="ignore"):
        exact = all(s is None or abs(float(np.float16(s)) - s) <= _EXACT * abs(s) for s in scales)
    return "half" if exact and all(type_of(e) != "float" for e in arrays) else "float"


@remembered(weight=2)
def plan_scaled(given: ScaledSum, mapped: Mapped, target: Target) -> MapPlan:
    """Return the plan of a sum of scaled arrays that the machine has vertices for.

    Parameters
    ----------
    given : ScaledSum
    mapped : Mapped
        Its arrays: the two, then scales that are arrays of one element.
    target : Target
    """
    shape, (a, b) = mapped.shape, (type_of(e) for e in mapped.elements[:2])
    mapping = linear_mapping(target, prod(shape), TYPE_BYTES[a])
    vertex, steps = _scaled_vertex(given), []
    if not given.in_place:  # PopLibs writes the first array
        cycles = target.memcpy_bytes_per_cycle
        work = tuple(TileWork(tiles, n, (), -(-n * TYPE_BYTES[a] // cycles)) for n, tiles in mapping.classes)
        steps.append(Step("copy", work))
    subtracts = vertex in ("ScaledSubtract", "aXMinusbY")
    direct = a == b or (a, b) == ("float", "half") or ((a, b) == ("half", "float") and vertex == "ScaledAdd")
    temporary = 0
    if not direct:
        temporary = max((n for n, _ in mapping.classes), default=0) * TYPE_BYTES[a]
        steps.append(Step("cast", work_of(target, mapping.classes, lambda n: () if is_copy(b, a) else cast_vertices(
            target, b, a, (n,))), temporary))
        b = a
    kind = _scale_type(a, [s for s in (given.scale, given.scale_a) if s is not None], mapped.elements[2:])
    if a not in ("float", "half") and given.scaled:
        first = planned("mul", "MULTIPLY", shape, a, a, True, target, (False, prod(shape) > 1))
        steps.append(replace(first.steps[0], name="scale"))
        vertex = "ScaledSubtract" if subtracts else "ScaledAdd"
    types = a, b, kind
    number_bytes = len(mapped.elements[2:]) * TYPE_BYTES[kind] * (mapping.tiles > 1)

    def vertices(elements: int) -> tuple[Vertex, ...]:
        return scaled_vertices(target, vertex, types, (elements,))

    steps.append(Step("compute", work_of(target, mapping.classes, vertices, lambda _: number_bytes),
                      temporary + number_bytes))
    words = f"{given.form} {shape} {a} and {type_of(mapped.elements[1])}" + " in place" * given.in_place
    decisions = (("mapping", mapping_words(target, mapping)), ("scales", kind))
    return _finished(words, target, tuple(steps), decisions, mapping, mapped.elements, mapped.shapes,
                     () if given.in_place else mapped.results, False)


def _scaled_vertex(given: ScaledSum) -> str:
    """The vertex of a form. A constant's sign changes rather than the vertex, as PopLibs has it."""
    if given.form == "x_minus_ax_plus_by":
        return "XMinusaXPlusbY"
    subtracts = given.form == "scaled_subtract" and given.scale is None
    if given.scaled:
        return "aXMinusbY" if subtracts else "aXPlusbY"
    return "ScaledSubtract" if subtracts else "ScaledAdd"
