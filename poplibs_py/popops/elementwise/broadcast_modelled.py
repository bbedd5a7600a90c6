"""Operations on arrays of several shapes on a modelled machine: who meets what on a tile, and by which vertices.

The result is mapped linearly, like the operands of its own shape. Each operand that is smaller is mapped linearly too,
and what a tile lacks of it is exchanged: each element once for a vertex that broadcasts it, else all that are met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ...memo import remembered
from ...planner.tile_plan import Step, TileWork, Vertex, mapping_words, memory_of, tile_cycles
from ...target import LinearMapping, Target, linear_mapping
from ...target.types import TYPE_BYTES
from ..vertices.broadcast import broadcast_vertices
from ..vertices.operands import COMMUTATIVE, elementwise_vertices, operand_types
from .modelled import ElementwisePlan

Reads = np.ndarray[Any, np.dtype[np.int64]]
Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class BroadcastPlan(ElementwisePlan):
    """An elementwise operation whose operands have several shapes.

    Attributes
    ----------
    shapes : tuple of tuple of int
        Of the operands, which broadcast to `shape`.
    """

    shapes: tuple[Shape, ...]

    @property
    def exchanged_bytes(self) -> int:
        """Bytes that all tiles receive."""
        return sum(w.received * w.tiles for w in self.classes)


class _Spread:
    """An operand that is smaller than the result: which of its elements the result's elements meet."""

    def __init__(self, shape: Shape, own: Shape, order: Sequence[int], target: Target, itemsize: int) -> None:
        padded, step = (1,) * (len(shape) - len(own)) + own, 1
        strides = [0] * len(shape)
        for d in reversed(range(len(shape))):
            strides[d] = step if padded[d] > 1 else 0
            step *= padded[d]
        axes: list[tuple[int, int]] = []  # extents and strides in the order of memory
        for d in order:
            extent, stride = shape[d], strides[d]
            if extent == 1:
                continue
            if axes and axes[-1][1] == extent * stride:
                extent *= axes.pop()[0]
            axes.append((extent, stride))
        self.axes, self.itemsize = axes, itemsize
        self.mapping = linear_mapping(target, prod(own), itemsize)
        self.edges = self.mapping.edges()

    def reads(self, begin: int, end: int) -> Reads:
        """The element that each element of a tile meets."""
        at = np.arange(begin, end)
        found: Reads = np.zeros(end - begin, np.int64)
        for extent, stride in reversed(self.axes):
            at, index = np.divmod(at, extent)
            if stride:
                found += index * stride
        return found

    def place(self, begin: int, elements: int) -> int:
        """Return a number that is the same only for tiles of so many elements that meet equal ones at equal places.

        It is where a tile begins in a block of inner axes: the least of which it meets no two alike, or all that comes
        again. Of a block that meets one element its end alone counts, of one that meets each once nothing does.
        """
        *outer, (block, stride) = self.axes
        alone = True
        while outer and not (outer[-1][1] and (len(outer) == 1 or elements <= (outer[-1][0] - 1) * block)):
            if len(outer) == 1:  # the same block, again and again
                return 0 if alone and stride else begin % block
            block, alone = block * outer.pop()[0], False
        at = begin % block
        if not alone:
            return at
        return 0 if stride else max(at, block - elements)

    def own(self, tile: int) -> tuple[int, int]:
        """The elements that lie on a tile."""
        if tile >= self.mapping.tiles:
            return 0, 0
        return int(self.edges[tile]), int(self.edges[tile + 1])


def _vertices(target: Target, op: str, data_type: str, elements: int, reads: Sequence[Reads | None],
              numbers: tuple[bool, ...], in_place: bool) -> tuple[tuple[Vertex, ...], int]:
    """The vertices of a tile, and which operand they broadcast, -1 for none."""
    if len(numbers) == 2:
        turned = op in COMMUTATIVE and not in_place
        for which in (1, 0) if turned else (1,):
            met = reads[which]
            if met is None:
                continue
            vertices = broadcast_vertices(target, op, data_type, [met], in_place=in_place)
            if vertices[0].name.startswith("Broadcast"):
                return vertices, which
    return elementwise_vertices(target, op, data_type, elements, in_place=in_place, numbers=numbers), -1


def _received(spread: _Spread, reads: Reads, tile: int, once: bool) -> int:
    """Bytes of an operand that a tile receives."""
    low, high = spread.own(tile)
    met = reads
    if once:
        least = int(reads.min())
        there = np.zeros(int(reads.max()) - least + 1, np.bool_)
        there[reads - least] = True
        met = np.flatnonzero(there) + least
    here = int(np.count_nonzero((met >= low) & (met < high))) if high > low else 0
    return (len(met) - here) * spread.itemsize


@remembered(weight=2)
def planned_broadcast(op: str, vertex_op: str, shape: Shape, shapes: tuple[Shape, ...], order: tuple[int, ...],
                      data_type: str, result_type: str, in_place: bool, target: Target) -> BroadcastPlan:
    """Return the plan of an operation of two or three operands that broadcast, which the machine has vertices for.

    Parameters
    ----------
    op, vertex_op, shape, data_type, result_type, in_place, target
        As `ElementwisePlan` has them.
    shapes : tuple of tuple of int
        Of the operands.
    order : tuple of int
        The axes in the order in which the result lies in memory, the outermost first.
    """
    types = operand_types(vertex_op, data_type, len(shapes))
    numbers = tuple(prod(own) == 1 for own in shapes)
    sizes = [TYPE_BYTES[t] for t in types]
    spreads = [None if one or prod(own) == prod(shape) else _Spread(shape, own, order, target, size)
               for own, one, size in zip(shapes, numbers, sizes, strict=True)]
    whole = any(prod(own) == prod(shape) for own in shapes)
    out = TYPE_BYTES[result_type]
    mapping = linear_mapping(target, prod(shape), TYPE_BYTES[data_type]) if whole else linear_mapping(
        target, prod(shape), out, grain=max(1, 8 // out), least=0)
    work = _work(target, vertex_op, data_type, mapping, spreads, numbers, in_place,
                 sum(size for size, one in zip(sizes, numbers, strict=True) if one))
    step = Step("compute", tuple(work), max((w.received for w in work), default=0))
    held, made = np.diff(mapping.edges()), 0 if in_place else out
    operands = np.zeros(target.tiles, np.int64)
    for own, spread, size, one in zip(shapes, spreads, sizes, numbers, strict=True):
        lies = mapping.edges() if prod(own) == prod(shape) else linear_mapping(target, prod(own), size).edges()
        if spread is not None or not one:
            operands[:len(lies) - 1] += np.diff(lies) * size
    words = " and ".join(str(own) for own in shapes)
    problem = f"{op} {shape} {data_type}" + " in place" * in_place + f", of {words}"
    return BroadcastPlan(
        problem=problem, target=target, steps=(step,),
        decisions=(("mapping", mapping_words(target, mapping)),),
        memory=memory_of(target, operands, held * made, step.temp_bytes), vertex_op=vertex_op, shape=shape,
        data_type=data_type, result_type=result_type, in_place=in_place, mapping=mapping, numbers=numbers,
        shapes=shapes)


def _work(target: Target, op: str, data_type: str, mapping: LinearMapping, spreads: Sequence[_Spread | None],
          numbers: tuple[bool, ...], in_place: bool, number_bytes: int) -> list[TileWork]:
    """What the tiles do: tiles whose elements meet the same patterns have the same vertices."""
    edges = mapping.edges().tolist()
    known: dict[tuple[int, ...], tuple[tuple[Vertex, ...], int, int, tuple[int, ...]]] = {}
    work = []
    for tile in range(mapping.tiles):
        begin, end = edges[tile], edges[tile + 1]
        key = (end - begin, *(s.place(begin, end - begin) for s in spreads if s is not None))
        near = [s is not None and tile < s.mapping.tiles for s in spreads]
        found, reads = known.get(key), None
        if found is None or any(near):
            reads = [None if s is None else s.reads(begin, end) for s in spreads]
        if found is None:
            assert reads is not None
            vertices, which = _vertices(target, op, data_type, end - begin, reads, numbers, in_place)
            far = tuple(0 if s is None or r is None else _received(s, r, target.tiles, i == which)
                        for i, (s, r) in enumerate(zip(spreads, reads, strict=True)))
            found = known[key] = vertices, which, tile_cycles(target, vertices), far
        vertices, which, cycles, far = found
        received = 0
        for i, (s, from_others) in enumerate(zip(spreads, far, strict=True)):
            if s is not None and near[i] and reads is not None:
                met = reads[i]
                assert met is not None
                received += _received(s, met, tile, i == which)
            else:
                received += from_others
        if tile and number_bytes:  # numbers lie on the first tile
            spread = any(v.name.startswith("Broadcast") for v in vertices)
            received += number_bytes * (1 if spread else end - begin)
        work.append(TileWork(1, end - begin, vertices, cycles, received))
    return [replace(w, tiles=tiles) for w, tiles in Counter(work).items()]
