"""Orders of rows on a modelled machine, in steps on its tiles: PopLibs' bitonic program, a comparison a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...memo import remembered
from ...planner.tile_plan import Step, TilePlan, TileWork, Vertex, mapping_words, memory_of, work_of
from ...target import Target, linear_mapping
from ...target.types import TYPE_BYTES
from ..vertices.cast import cast_vertices
from ..vertices.fill import iota_cycles
from ..vertices.sort import bitonic_program

_KEYS = ("float", "half", "int", "unsigned int")
_WORD = 4  # bytes of keys and values while they are compared


class Order(NamedTuple):
    """What is put in order.

    Attributes
    ----------
    key_type, value_type : str
        PopLibs' words; no values where empty.
    elements, wanted, rows : int
        Of a row, those that are asked for, and rows.
    largest, in_order, ascending : bool
        Whether the greatest are taken, and whether they are sorted, and which way.
    stable : bool
        Whether values are places, which decide between equal keys.
    keys : bool
        Whether keys are a result.
    """

    key_type: str
    value_type: str
    elements: int
    wanted: int
    rows: int
    largest: bool
    in_order: bool
    ascending: bool
    stable: bool
    keys: bool


def order_lacks(order: Order) -> str:
    """Return what no vertex puts in order, in words; an empty string if one does."""
    if order.key_type not in _KEYS:
        return f"of {order.key_type or 'such keys'}"
    if order.value_type and TYPE_BYTES.get(order.value_type) != _WORD:
        return f"with values of {order.value_type}"
    return ""


def _iota(target: Target, elements: int) -> Vertex:
    """The vertex that counts places out, a worker's share."""
    share = -(-elements // target.workers)
    return Vertex("Iota", ("unsigned int",), ((elements, 1),), iota_cycles(target, "unsigned int", (share,)), "worker")


@remembered(weight=4)
def order_plan(target: Target, order: Order) -> TilePlan:
    """Return what a call does on the tiles.

    Parameters
    ----------
    target : Target
    order : Order
        That has vertices.
    """
    o, keys = order, "float" if order.key_type == "half" else order.key_type
    size, total, made = TYPE_BYTES[o.key_type], o.elements * o.rows, o.wanted * o.rows
    operand, result = linear_mapping(target, total, size), linear_mapping(target, made, size)
    steps: list[Step] = []
    compared = 0
    if made:
        program = bitonic_program(target, o.elements, o.wanted, batch=o.rows, key_type=keys, values=bool(o.value_type),
                                  secondary=o.stable, largest=o.largest, in_order=o.in_order, ascending=o.ascending)
        compared, types = len(program.steps), (keys, o.value_type) if o.value_type else (keys,)
        name = "CompareAndSwapAtDistance" + "KeyVal" * bool(o.value_type)
        for step in program.steps:
            each = -(-step.elements // step.tiles)
            received = _WORD * each * len(types)
            vertex = Vertex(name, types, ((each, 1),), step.cycles, "tile")
            work = TileWork(step.tiles, each, (vertex,), step.cycles, received)
            steps.append(Step("compare", (work,), 2 * received))
        if keys != o.key_type and steps:
            into = work_of(target, operand.classes, lambda n: cast_vertices(target, o.key_type, keys, (n,)))
            back = work_of(target, result.classes, lambda n: cast_vertices(target, keys, o.key_type, (n,)))
            steps.insert(0, Step("cast", into, _WORD * operand.classes[0][0]))
            steps += [Step("cast", back, _WORD * result.classes[0][0])] * o.keys
        if o.stable and steps:
            counted = work_of(target, operand.classes, lambda n: (_iota(target, n),))
            steps.insert(0, Step("places", counted, _WORD * operand.classes[0][0]))
    held, kept = (np.diff(mapping.edges()) * (size + _WORD * bool(o.value_type)) for mapping in (operand, result))
    memory = memory_of(target, held, kept, steps)
    best = "" if o.wanted == o.elements else f", the {'greatest' if o.largest else 'least'} {o.wanted:,}"
    beside = f" with {o.value_type}" * bool(o.value_type)
    problem = f"order {o.rows:,} rows of {o.elements:,} {o.key_type}{best}{beside}"
    decisions = (("mapping", mapping_words(target, operand)),
                 ("program", f"bitonic, {compared:,} comparisons" if compared else "a copy: nothing is compared"),
                 ("order", "as it comes" if not o.in_order else "ascending" if o.ascending else "descending"))
    return TilePlan(problem, target, tuple(steps), memory, decisions)
