"""Elementwise operations on a modelled machine: which tile holds what, by which vertices, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...memo import remembered
from ...ops import changed_plan, check_fields
from ...planner.tile_plan import Step, TilePlan, TileWork, mapping_words, memory_of, tile_cycles
from ...target import LinearMapping, Target, linear_mapping
from ...target.types import TYPE_BYTES
from ..vertices.cast import cast_limit, cast_vertices, is_copy
from ..vertices.operands import elementwise_vertices, operand_types, vertex_limit
from ..vertices.unary import NO_LIMIT


@dataclass(frozen=True, kw_only=True)
class ElementwisePlan(TilePlan):
    """An elementwise operation on a modelled machine: PopLibs' vertices on its linear mapping.

    The result lies where the operands lie, so nothing is exchanged but numbers beside arrays, which lie on one tile,
    and no other memory is taken. PopLibs sets no limit on an elementwise operation's memory. ``print(plan)`` is a
    table.

    Attributes
    ----------
    vertex_op : str
        PopLibs' name for what its vertices compute, such as ``"EXPONENT"``; empty for a cast.
    shape : tuple of int
    data_type, result_type : str
        PopLibs' types of the operands and of the result.
    in_place : bool
        Whether the result takes the first operand's place.
    mapping : LinearMapping
        Which tile holds which elements, in the order in which they lie in memory.
    numbers : tuple of bool
        For each operand whether it is one number beside arrays.
    """

    vertex_op: str
    shape: tuple[int, ...]
    data_type: str
    result_type: str
    in_place: bool
    mapping: LinearMapping
    numbers: tuple[bool, ...] = (False,)

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("data_type", "result_type"):
            if getattr(self, name) not in TYPE_BYTES:
                raise changed_plan(name, getattr(self, name), ", ".join(TYPE_BYTES))

    @property
    def classes(self) -> tuple[TileWork, ...]:
        """What the tiles do, those with most elements first."""
        return self.steps[0].work

    @property
    def exchanged_bytes(self) -> int:
        """Bytes that all tiles receive: none is sent to the first, which holds the numbers."""
        return super().exchanged_bytes - (self.classes[0].received if self.classes else 0)

    def tile_elements(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the elements of the operand on each tile of the machine."""
        held = np.zeros(self.target.tiles, np.int64)
        held[:self.tiles_used] = np.diff(self.mapping.edges())
        return held


@remembered()
def planned(op: str, vertex_op: str, shape: tuple[int, ...], data_type: str, result_type: str, in_place: bool,
            target: Target, numbers: tuple[bool, ...] = (False,)) -> ElementwisePlan:
    """Return the plan of an operation that the machine has vertices for.

    Parameters
    ----------
    op, vertex_op, shape, data_type, result_type, in_place, target, numbers
        As `ElementwisePlan` has them.
    """
    mapping = linear_mapping(target, prod(shape), TYPE_BYTES[data_type])
    types = operand_types(vertex_op, data_type, len(numbers))
    number_bytes, array_bytes = (sum(TYPE_BYTES[t] for t, one in zip(types, numbers, strict=True) if one == due)
                                 for due in (True, False))
    classes = []
    for elements, tiles in mapping.classes:
        if vertex_op:
            vertices = elementwise_vertices(target, vertex_op, data_type, elements, in_place=in_place, numbers=numbers)
        else:
            vertices = cast_vertices(target, data_type, result_type, (elements,))
        if vertex_op or not is_copy(data_type, result_type):
            cycles = tile_cycles(target, vertices)
        else:
            cycles = 0 if in_place else -(-elements * TYPE_BYTES[data_type] // target.memcpy_bytes_per_cycle)
        spreads = any(v.name.startswith("Broadcast") for v in vertices)
        received = number_bytes * (1 if spreads else elements) if mapping.tiles > 1 else 0
        classes.append(TileWork(tiles, elements, vertices, cycles, received))
    step = Step("compute", tuple(classes), max((c.received for c in classes), default=0))
    held, made = np.diff(mapping.edges()), 0 if in_place else TYPE_BYTES[result_type]
    problem = f"{op} {shape} {data_type}" + f" to {result_type}" * (op == "cast") + " in place" * in_place
    problem += f", {sum(numbers)} of {len(numbers)} operands one number" * any(numbers)
    limit = vertex_limit(target, vertex_op, data_type) if vertex_op else cast_limit(target)
    decisions = (("mapping", mapping_words(target, mapping)),
                 ("a vertex", f"takes {'any number of' if limit == NO_LIMIT else f'up to {limit:,}'} elements"))
    return ElementwisePlan(
        problem=problem, target=target, steps=(step,), decisions=decisions,
        memory=memory_of(target, held * array_bytes, held * made, step.temp_bytes), vertex_op=vertex_op, shape=shape,
        data_type=data_type, result_type=result_type, in_place=in_place, mapping=mapping, numbers=numbers)
