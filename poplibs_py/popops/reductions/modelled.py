"""Reductions on a modelled machine: which tile reduces what in which stage, by which vertices, and what that costs.

The operand is mapped linearly. Tiles reduce what they hold of each column, intermediate stages on as many tiles as may
be shorten what is left, and the last stage leaves results mapped linearly. The chooser of stages follows PopLibs as it
is written; there are golden values of its parts, its vertices' cycles and its splits, but none of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...memo import remembered
from ...planner.facts import TileMemory
from ...planner.tile_plan import Step, TilePlan, TileWork, Vertex, mapping_words, memory_of, tile_cycles
from ...target import Target, linear_mapping
from ...target.types import TYPE_BYTES, vector_of
from ..vertices.argmax import argmax_split, gather_cycles, sparse_cycles
from ..vertices.counts import histogram_1d_cycles, nan_1d_cycles
from .stages_modelled import (
    Dims,
    Order,
    Partials,
    Types,
    depths_of,
    factor_of,
    later_stages,
    merged_dims,
    on_tiles_stage,
    partials_of,
    result_tiles,
    sources_of,
)

_NUMBERS = ("float", "half", "int")
_TYPES = {
    "ADD": _NUMBERS, "SQUARE_ADD": _NUMBERS, "MUL": _NUMBERS, "MAX": (*_NUMBERS, "unsigned int"),
    "MIN": (*_NUMBERS, "unsigned int"), "LOG_ADD": ("float", "half"), "LOGICAL_AND": ("bool",),
    "LOGICAL_OR": ("bool",),
}  # fmt: skip
_MIXED = ("ADD", "SQUARE_ADD", "MUL", "LOG_ADD")  # whose results may be of the other type of numbers

_GATHERED = 32  # partial results that an argmax's later vertex takes
_PAIR_BYTES = 8  # of a greatest number and its place
_HALF_LEVELS = 6


@dataclass(frozen=True, kw_only=True)
class ReducePlan(TilePlan):
    """A reduction on a modelled machine, in stages.

    Attributes
    ----------
    vertex_op : str
        PopLibs' name for what its vertices compute, such as ``"ADD"``.
    dims : Dims
        Axes of the operand in C order, neighbours of one kind taken together.
    types : (str, str)
        PopLibs' types of the operand and of the result.
    order : Order
        For each stage what each tile reduces: the order of sums.
    partials : Partials
        The types of what goes from stage to stage.
    """

    vertex_op: str
    dims: Dims
    types: Types
    partials: Partials
    order: Order = ()

    @property
    def factor(self) -> int:
        """Elements that are reduced to one."""
        return factor_of(self.dims)

    @property
    def outputs(self) -> int:
        """Results."""
        return factor_of(self.dims, False)

    @property
    def roundings(self) -> int:
        """The most operations that an element takes part in, each of which rounds."""
        return sum(max((max(s.parts) + len(s.parts) - 1 for s in stage), default=1) - 1 for stage in self.order)


def reduction_lacks(op: str, data_type: str, result_type: str) -> bool:
    """Whether PopLibs has no vertex for a reduction from a type to a type."""
    known = _TYPES.get(op, ())
    if data_type not in known or result_type not in known:
        return True
    return data_type != result_type and not (op in _MIXED and "int" not in (data_type, result_type))


@remembered(weight=16)  # an order may be of many thousand shares
def plan_reduction(op: str, vertex_op: str, shape: tuple[int, ...], axes: tuple[int, ...], types: Types,
                   target: Target, *, scaled: bool = False, accum: tuple[str, str] = ("", "")) -> ReducePlan:
    """Return the plan of a reduction that the machine has vertices for.

    Parameters
    ----------
    op : str
        Its public name.
    vertex_op : str
        PopLibs' name of it.
    shape : tuple of int
    axes : tuple of int
        That are reduced.
    types : (str, str)
        PopLibs' types of the operand and of the result.
    target : Target
    scaled : bool, optional
        Whether the last stage scales, or adds to what the result holds.
    accum : (str, str), optional
        What is asked of partial results: see `partials_of`.
    """
    partials = partials_of(vertex_op, types, accum)
    dims = merged_dims(shape, axes) or ((1, True),)
    mapping = linear_mapping(target, prod(shape), TYPE_BYTES[types[0]])
    steps: tuple[Step, ...] = ()
    order: Order = ()
    if prod(shape):
        steps, order = _stages(target, vertex_op, types, dims, partials, scaled)
    outputs = factor_of(dims, False) if prod(shape) else 0
    decisions = (("mapping", mapping_words(target, mapping)),
                 ("columns", f"{outputs:,} of {factor_of(dims):,} numbers each"),
                 ("stages", ", ".join(step.name for step in steps) or "none"),
                 ("partials", " between tiles, ".join(dict.fromkeys(partials)) + " inside" * (len(set(partials)) > 1)))
    words = f"{op} {shape} over {axes}, {types[0]} to {types[1]}"
    return ReducePlan(
        problem=words, target=target, steps=steps, decisions=decisions,
        memory=_memory(target, np.diff(mapping.edges()) * TYPE_BYTES[types[0]], outputs, types[1], steps),
        vertex_op=vertex_op, dims=dims, types=types, partials=partials, order=order)


def _stages(target: Target, op: str, types: Types, dims: Dims, partials: Partials,
            scaled: bool) -> tuple[tuple[Step, ...], Order]:
    """The stages of an operand that lies linearly."""
    elements = prod(extent for extent, _ in dims)
    mapping = linear_mapping(target, elements, TYPE_BYTES[types[0]])
    step, shares, whole = on_tiles_stage(target, op, types, dims, mapping, partials=partials, scaled=scaled)
    if whole:
        return (step,) if step else (), (shares,)
    outputs, between = factor_of(dims, False), types
    used = mapping.tiles
    if step is None:
        columns = [(factor_of(dims), outputs)]
    else:
        columns = depths_of(sources_of(shares), outputs)
        between, op = (partials.between, types[1]), "ADD" if op == "SQUARE_ADD" else op
    steps, order = later_stages(target, op, between, columns, used, partials=partials, scaled=scaled)
    return ((step, *steps), (shares, *order)) if step else (steps, order)


def _memory(target: Target, held: np.ndarray[tuple[int], np.dtype[np.int64]], outputs: int, result_type: str,
            steps: tuple[Step, ...]) -> TileMemory:
    """What lies on the tiles."""
    made = [end - begin for begin, end in result_tiles(target, outputs, vector_of(target, result_type))]
    return memory_of(target, held, np.array(made, np.int64) * TYPE_BYTES[result_type], steps)


# Others --------------------------------------------------------------------------------------------------


def _joined(target: Target, op: str, types: Types, tiles: int, columns: int) -> tuple[Step, ...]:
    """The stages that join what each of some tiles has of each column."""
    if tiles == 1:
        return ()
    return later_stages(target, op, types, [(tiles, columns)], tiles, partials=partials_of(op, types))[0]


def _plain(words: str, target: Target, steps: tuple[Step, ...], data_type: str, shape: tuple[int, ...],
           outputs: int, result_type: str, *decisions: tuple[str, str]) -> TilePlan:
    """A plan of an operand that lies linearly."""
    mapping = linear_mapping(target, prod(shape), TYPE_BYTES[data_type])
    held = np.diff(mapping.edges()) * TYPE_BYTES[data_type]
    return TilePlan(problem=words, target=target, steps=steps,
                    decisions=(("mapping", mapping_words(target, mapping)), *decisions),
                    memory=_memory(target, held, outputs, result_type, steps))


@remembered(weight=2)
def plan_nan(op: str, shape: tuple[int, ...], data_type: str, target: Target) -> TilePlan:
    """Return the plan of a search for NaN, or for infinities too, in a whole operand of floats or halves.

    Parameters
    ----------
    op : {"has_nan", "has_nan_or_inf"}
    shape, data_type, target
        As for `plan_reduction`.
    """
    mapping = linear_mapping(target, prod(shape), TYPE_BYTES[data_type])
    work, load, both = [], 8 // TYPE_BYTES[data_type], op == "has_nan_or_inf"
    for elements, tiles in mapping.classes:
        loads, rest = divmod(elements, load)
        each, more = divmod(loads, target.workers)
        cycles = nan_1d_cycles(target, data_type, each, more > 0, rest, both=both)
        vertex = Vertex("HasNaNOrInf1D", (data_type, str(both).lower()), ((elements, 1),), cycles, "tile")
        work.append(TileWork(tiles, elements, (vertex,), cycles))
    first = (Step("look on tiles", tuple(work), mapping.tiles > 1),) if work else ()
    steps = (*first, *_joined(target, "LOGICAL_OR", ("bool", "bool"), max(1, mapping.tiles), 1))
    return _plain(f"{op} {shape} {data_type}", target, steps, data_type, shape, 1, "bool")


@remembered(weight=2)
def plan_histogram(shape: tuple[int, ...], limits: int, absolute: bool, data_type: str, target: Target) -> TilePlan:
    """Return the plan of a histogram between so many limits: counted on tiles in floats, then added and cast.

    Parameters
    ----------
    shape, data_type, target
        As for `plan_reduction`.
    limits : int
    absolute : bool
        Whether magnitudes are counted.
    """
    mapping, bins = linear_mapping(target, prod(shape), TYPE_BYTES[data_type]), limits + 1
    work, by_limits = [], bins > _HALF_LEVELS
    for elements, tiles in mapping.classes:
        cycles = histogram_1d_cycles(target, data_type, elements, bins, absolute=absolute, by_limits=by_limits)
        params = data_type, str(absolute).lower(), str(by_limits).lower()
        vertex = Vertex("Histogram1D", params, ((elements, 1),), cycles, "tile")
        received = limits * TYPE_BYTES[data_type] if mapping.tiles > 1 else 0
        work.append(TileWork(tiles, elements, (vertex,), cycles, received))
    first = (Step("count on tiles", tuple(work), 4 * bins + limits * TYPE_BYTES[data_type]),) if work else ()
    steps = (*first, *_joined(target, "ADD", ("float", "float"), max(1, mapping.tiles), bins))
    words = f"histogram {shape} {data_type} between {limits} limits" + " of magnitudes" * absolute
    return _plain(words, target, steps, data_type, shape, bins, "unsigned int",
                  ("workers share", "the limits" if by_limits else "the elements"))


@remembered(weight=2)
def plan_argmax(op: str, shape: tuple[int, ...], axes: tuple[int, ...], data_type: str, target: Target) -> TilePlan:
    """Return the plan of a search for the places of the greatest or least elements of rows.

    Where the axes are not the last, elements are exchanged first, so that rows lie along each other.

    Parameters
    ----------
    op : {"argmax", "argmin", "max_with_indices", "min_with_indices"}
        The same vertices find elements and places.
    shape, axes, data_type, target
        As for `plan_reduction`.
    """
    dims = merged_dims(shape, axes) or ((1, True),)
    rows, columns = factor_of(dims, False), factor_of(dims)
    kind = "Max" if "max" in op else "Min"
    moved = len(dims) > 1 and not dims[-1][1]
    pieces: dict[int, list[Vertex]] = {}
    left = [0] * rows
    for piece in argmax_split(target, rows, columns) if rows * columns else ():
        cycles = gather_cycles(target, data_type, piece.size, piece.each)
        pieces.setdefault(piece.tile, []).append(
            Vertex(f"Reduce{kind}ClassGather", (data_type,), ((piece.size, 1),), cycles, "tile"))
        left[piece.row] += piece.workers
    work = []
    for _, vertices in sorted(pieces.items()):
        elements = sum(v.elements for v in vertices)
        received = elements * TYPE_BYTES[data_type] if moved and len(pieces) > 1 else 0
        work.append(TileWork(1, elements, tuple(vertices), tile_cycles(target, vertices), received))
    kept = max((sum(-(-v.elements // _GATHERED) for v in vertices) for vertices in pieces.values()), default=0)
    steps = [Step("gather on tiles", tuple(work), max((w.received for w in work), default=0) + kept * _PAIR_BYTES)]
    while max(left, default=0) > 1:
        steps.append(_sparse_step(target, f"Reduce{kind}ClassSparse", data_type, left))
        left = [-(-n // _GATHERED) for n in left]
    words, both = f"{op} {shape} over {axes}, {data_type}", op.endswith("indices")
    return _plain(words, target, tuple(steps) if work else (), data_type, shape, rows << both, "unsigned int",
                  ("rows", f"{rows:,} of {columns:,} elements" + ", rearranged first" * moved))


def _sparse_step(target: Target, name: str, data_type: str, left: list[int]) -> Step:
    """One more stage of an argmax: vertices of up to 32 partial results, dealt out to tiles in turn."""
    sizes = [min(_GATHERED, n - first) for n in left for first in range(0, n, _GATHERED)]
    work = []
    for tile in range(min(target.tiles, len(sizes))):
        own = sizes[tile::target.tiles]
        vertices = tuple(Vertex(name, (data_type,), ((n, 1),), sparse_cycles(data_type, n), "worker") for n in own)
        load = [sum(v.cycles for v in vertices[w::target.workers]) for w in range(target.workers)]
        work.append(TileWork(1, sum(own), vertices, target.workers * max(load), sum(own) * _PAIR_BYTES))
    return Step("gather between tiles", tuple(work), max(w.received for w in work))
