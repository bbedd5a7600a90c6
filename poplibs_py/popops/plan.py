"""Elementwise operations on a modelled machine: which tile holds what, by which vertices, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from ..ops import changed_plan, check_fields
from ..planner import Explanation
from ..planner.facts import Load, PlanFacts, Table, TileMemory, facts_of
from ..planner.summary import Phase
from ..target import LinearMapping, Target, linear_mapping
from ..target.exchange import SCALE, scaled_exchange_rate
from ._vertices import elementwise_vertices, operand_types
from .cast_model import cast_limit, cast_vertices, is_copy
from .model import NO_LIMIT, TYPE_BYTES, Vertex, element_limit, tile_cycles

__all__ = ["ElementwisePlan", "TileClass", "plan_facts", "planned"]

_HEADS = "tiles", "elements", "vertex", "of a tile", "elements", "cycles"


@dataclass(frozen=True)
class TileClass:
    """Tiles that hold equally many elements, and so do the same.

    Attributes
    ----------
    tiles : int
        How many.
    elements : int
        That each holds.
    vertices : tuple of Vertex
        Of each; none where it copies.
    cycles : int
        Of each.
    """

    tiles: int
    elements: int
    vertices: tuple[Vertex, ...]
    cycles: int


@dataclass(frozen=True)
class ElementwisePlan:
    """An elementwise operation on a modelled machine: PopLibs' vertices on its linear mapping.

    The result lies where the operands lie, so nothing is exchanged but numbers beside arrays, which lie on one tile,
    and no other memory is taken. PopLibs sets no limit on an elementwise operation's memory. ``print(plan)`` is a
    table.

    Attributes
    ----------
    op : str
        Its name in `poplibs_py.popops`.
    vertex_op : str
        PopLibs' name for what its vertices compute, such as ``"EXPONENT"``; empty for a cast.
    shape : tuple of int
    data_type, result_type : str
        PopLibs' types of the operands and of the result.
    in_place : bool
        Whether the result takes the first operand's place.
    target : Target
    mapping : LinearMapping
        Which tile holds which elements, in the order in which they lie in memory.
    classes : tuple of TileClass
        What the tiles do, those with most elements first.
    numbers : tuple of bool
        For each operand whether it is one number beside arrays.
    """

    op: str
    vertex_op: str
    shape: tuple[int, ...]
    data_type: str
    result_type: str
    in_place: bool
    target: Target
    mapping: LinearMapping
    classes: tuple[TileClass, ...]
    numbers: tuple[bool, ...] = (False,)

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("data_type", "result_type"):
            if getattr(self, name) not in TYPE_BYTES:
                raise changed_plan(name, getattr(self, name), ", ".join(TYPE_BYTES))

    @property
    def phases(self) -> dict[str, int]:
        """Modelled cycles of each phase."""
        rate = scaled_exchange_rate(self.target)
        exchange = -(-self.temp_bytes * SCALE // rate)
        return {"exchange": exchange, "compute": max((c.cycles for c in self.classes), default=0)}

    @property
    def cycles(self) -> int:
        """Modelled tile cycles, until the slowest tile is done."""
        return sum(self.phases.values())

    @property
    def seconds(self) -> float:
        """The same at the machine's clock."""
        return self.cycles / self.target.clock_hz

    @property
    def temp_bytes(self) -> int:
        """Most temporary bytes on a tile: the numbers that it receives."""
        return max((self._received(c) for c in self.classes), default=0) if self.tiles_used > 1 else 0

    @property
    def exchanged_bytes(self) -> int:
        """Bytes that all tiles receive: none is sent to the first, which holds the numbers."""
        return sum(self._received(c) * c.tiles for c in self.classes) - self._received(self.classes[0]) if (
            self.tiles_used > 1) else 0

    def _received(self, c: TileClass) -> int:
        """Bytes of numbers that a tile receives: each once, or once for each element where no vertex spreads it."""
        times = 1 if any(v.name.startswith("Broadcast") for v in c.vertices) else c.elements
        types = operand_types(self.vertex_op, self.data_type, len(self.numbers))
        return times * sum(TYPE_BYTES[t] for t, number in zip(types, self.numbers, strict=True) if number)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of the operands and of the result, once where that takes an operand's place."""
        return self.operand_bytes + (0 if self.in_place else TYPE_BYTES[self.result_type])

    @property
    def operand_bytes(self) -> int:
        """Bytes of an element of the operands that are arrays."""
        types = operand_types(self.vertex_op, self.data_type, len(self.numbers))
        return sum(TYPE_BYTES[t] for t, number in zip(types, self.numbers, strict=True) if not number)

    @property
    def tiles_used(self) -> int:
        """Tiles that hold elements."""
        return self.mapping.tiles

    @property
    def fits(self) -> bool:
        """Whether operand and result fit the memory of the tiles."""
        return self._most_bytes <= self.target.bytes_per_tile

    @property
    def _most_bytes(self) -> int:
        return max((c.elements for c in self.classes), default=0) * self.element_bytes + self.temp_bytes

    def tile_bytes(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the bytes of operand and result on each tile of the machine."""
        return _tile_bytes(self)

    def tile_elements(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the elements of the operand on each tile of the machine."""
        held = np.zeros(self.target.tiles, np.int64)
        held[:self.tiles_used] = np.diff(self.mapping.edges())
        return held

    def explain(self) -> Explanation:
        """Return what was decided; PopLibs searches nothing here, so no candidate lost."""
        name = f"{self.op} {self.shape} {self.data_type}"
        name += f" to {self.result_type}" * (self.op == "cast") + " in place" * self.in_place
        name += f", {sum(self.numbers)} of {len(self.numbers)} operands one number" * any(self.numbers)
        return Explanation(f"{name} on {self.target.name}", dict(self._decisions()))

    def _decisions(self) -> Iterator[tuple[str, str]]:
        target, shares = self.target, " or ".join(f"{c.elements:,}" for c in self.classes)
        yield "mapping", (f"linear: {self.mapping.elements:,} elements on {self.tiles_used:,} of {target.tiles:,} "
                          f"tiles, {shares or 'none'} each")
        names = ", ".join(dict.fromkeys(str(v) for c in self.classes for v in c.vertices))
        limit = element_limit(target, self.vertex_op, self.data_type) if self.vertex_op else cast_limit(target)
        taken = "any number of" if limit == NO_LIMIT else f"up to {limit:,}"
        yield "vertices", (f"{names}; one takes {taken} elements" if names else
                           "none: copied as it is" if self.classes else "none")
        received = f"{self.exchanged_bytes:,} bytes of numbers, {self.temp_bytes:,} to a tile"
        yield "exchange", received if self.temp_bytes else "none: the operand is where the result is"
        spent = ", ".join(f"{phase} {cycles:,}" for phase, cycles in self.phases.items())
        yield "cycles", f"{self.cycles:,} ({spent}), {self.seconds * 1e6:,.3f} us at {target.clock_hz / 1e9:g} GHz"
        temporary = f"{self.temp_bytes:,} bytes of temporaries" if self.temp_bytes else "no temporaries"
        yield "memory", (f"{temporary}, and no limit on them; operand and result take at most {self._most_bytes:,} "
                         f"of {target.bytes_per_tile:,} bytes on a tile{'' if self.fits else ': DOES NOT FIT'}")

    def __str__(self) -> str:
        return "\n".join([self.explain().words(), *self._table()])

    def vertex_rows(self) -> Iterator[tuple[str, str, str, str, str, str]]:
        """What tiles do: how many tiles, their elements; a vertex, how many of it, its elements, its cycles."""
        for c in self.classes:
            head = f"{c.tiles:,}", f"{c.elements:,}"
            for vertex, count in Counter(c.vertices).items():
                each = f"{vertex.cycles:,}{'' if vertex.unit == 'tile' else f' x {self.target.workers}'}"
                yield *head, str(vertex), str(count), f"{vertex.elements:,}", each
                head = "", ""
            if not c.vertices:
                yield *head, "copy", "", f"{c.elements:,}", f"{c.cycles:,}"

    def _table(self) -> Iterator[str]:
        if not self.classes:
            return
        yield ""
        for row in (_HEADS, *self.vertex_rows()):
            tiles, elements, vertex, count, of_vertex, cycles = row
            yield f"{tiles:>8}{elements:>14}  {vertex:<44}{count:>10}{of_vertex:>14}{cycles:>14}"


@lru_cache(maxsize=256)
def _tile_bytes(plan: ElementwisePlan) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    held = plan.tile_elements() * plan.element_bytes
    held.flags.writeable = False
    return held


@facts_of.register
def plan_facts(plan: ElementwisePlan) -> PlanFacts:
    """Return what a report keeps of an elementwise operation's plan."""
    explanation, target, elements = plan.explain(), plan.target, plan.tile_elements()
    made = 0 if plan.in_place else TYPE_BYTES[plan.result_type]
    phases = tuple(Phase(name, cycles, 1, plan.temp_bytes) for name, cycles in plan.phases.items() if cycles)
    return PlanFacts(
        explanation.problem, target.name, {}, dict(explanation.decisions), (),
        phases, (plan.temp_bytes,) * len(phases), plan.cycles, plan.phases["exchange"], target.clock_hz, 0.0, "",
        plan.temp_bytes, None,
        target.tiles, target.bytes_per_tile,
        TileMemory.of(operands=elements * plan.operand_bytes, results=elements * made,
                      temporaries=np.where(elements > 0, plan.temp_bytes, 0)),
        {"elements of a tile": Load.of(elements)}, (Table("Vertices", _HEADS, tuple(plan.vertex_rows())),),
    )  # fmt: skip


@lru_cache(maxsize=4096)
def planned(op: str, vertex_op: str, shape: tuple[int, ...], data_type: str, result_type: str, in_place: bool,
            target: Target, numbers: tuple[bool, ...] = (False,)) -> ElementwisePlan:
    """Return the plan of an operation that the machine has vertices for.

    Parameters
    ----------
    op, vertex_op, shape, data_type, result_type, in_place, target, numbers
        As `ElementwisePlan` has them.
    """
    mapping = linear_mapping(target, prod(shape), TYPE_BYTES[data_type])
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
        classes.append(TileClass(tiles, elements, vertices, cycles))
    return ElementwisePlan(op, vertex_op, shape, data_type, result_type, in_place, target, mapping, tuple(classes),
                           numbers)
