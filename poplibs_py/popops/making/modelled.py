"""Arrays that are made or put another way on a modelled machine, in steps on its tiles.

Results lie linearly. What a tile needs of the operands is copied to it; what is the same on all tiles (offsets, scales)
is sent to each. Functions return what no vertex of PopLibs does in words.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...planner.tile_plan import Step, TilePlan, TileWork, Vertex, mapping_words, memory_of, tile_cycles, work_of
from ...target import LinearMapping, Target, linear_mapping
from ...target.types import TYPE_BYTES, type_of
from ..vertices.fill import fill_vertices, iota_cycles
from ..vertices.others import (
    TRANSPOSED,
    normalise_image_cycles,
    spline_basis_cycles,
    spline_weighting_cycles,
    transpose_cycles,
)
from ..vertices.slices import one_hot_cycles, sequence_slice_cycles

_NUMBERS = ("half", "float", "int", "unsigned int")
_LEAST_CLASSES = 4
_INDEX_BYTES = 4
_CHANNELS = 3
_ROW_BYTES = 8  # that are worth a tile


def _plan(problem: str, mapping: LinearMapping, target: Target, steps: tuple[Step, ...], result_bytes: int,
          operand_bytes: int = 0) -> TilePlan:
    """A plan whose result lies by a mapping of as many bytes an element; operands are spread over the same tiles."""
    results = np.diff(mapping.edges()) * result_bytes
    operands = np.full(mapping.tiles, -(-operand_bytes // max(1, mapping.tiles)), np.int64)
    memory = memory_of(target, operands, results, steps)
    return TilePlan(problem, target, steps, memory, (("mapping", mapping_words(target, mapping)),))


def _shared(target: Target, name: str, types: tuple[str, ...], elements: int,
            cycles: Callable[[int], int]) -> tuple[Vertex, ...]:
    """A vertex for each worker that has some of so many elements."""
    each = -(-elements // target.workers)
    full, rest = divmod(elements, max(1, each))
    shares = [each] * full + [rest] * (rest > 0)
    return tuple(Vertex(name, types, ((n, 1),), cycles(n), "worker") for n in shares)


def fill_plan(target: Target, element: Any, shape: tuple[int, ...]) -> TilePlan | str:
    """One number everywhere: PopLibs' `Fill` (where it fills in a program of its own it copies a constant)."""
    kind = type_of(element)
    if not kind:
        return f"of {element}"
    mapping = linear_mapping(target, prod(shape), TYPE_BYTES[kind])
    work = work_of(target, mapping.classes, lambda n: fill_vertices(target, kind, (n,)))
    return _plan(f"fill {list(shape)} {kind}", mapping, target, (Step("fill", work),), TYPE_BYTES[kind])


def iota_plan(target: Target, element: Any, count: int) -> TilePlan | str:
    """Whole numbers one after another."""
    kind = type_of(element)
    if kind not in ("int", "unsigned int"):
        return f"of {element}"
    mapping = linear_mapping(target, count, TYPE_BYTES[kind])
    work = work_of(target, mapping.classes, lambda n: _shared(
        target, "Iota", (kind,), n, lambda k: iota_cycles(target, kind, (k,))))
    return _plan(f"iota {count:,} {kind}", mapping, target, (Step("iota", work),), TYPE_BYTES[kind])


def one_hot_plan(target: Target, element: Any, signed: bool, indices: int, length: int, plain: bool) -> TilePlan | str:
    """Rows with one number at an index: filled, then written on a grid of indices and of their places, then copied.

    Parameters
    ----------
    target : Target
    element : Format or numpy.dtype
        Of the result.
    signed : bool
        Of the indices, which are of 32 bits there.
    indices, length : int
    plain : bool
        Whether the numbers are 1 and 0.
    """
    kind, index = type_of(element), "int" if signed else "unsigned int"
    if kind not in _NUMBERS:
        return f"of {element}"
    size, total = TYPE_BYTES[kind], indices * length
    mapping = linear_mapping(target, total, size)
    if not total:
        return _plan("one-hot rows, none", mapping, target, (), size)
    down = min(indices, target.tiles)
    across = max(1, min(-(-length // _LEAST_CLASSES), target.tiles // down))
    rows, columns = -(-indices // down), -(-length // across)
    cycles, unit = one_hot_cycles(index, kind, rows, custom=not plain)
    name = "EncodeOneHot" if plain else "EncodeOneHotCustomValues"
    vertex = Vertex(name, (index, kind), ((rows * columns, 1),), cycles, unit)
    grid = TileWork(-(-indices // rows) * -(-length // columns), rows * columns, (vertex,),
                    tile_cycles(target, (vertex,)), rows * _INDEX_BYTES)
    held = rows * columns * size
    zero = work_of(target, [(rows * columns, grid.tiles)], lambda n: fill_vertices(target, kind, (n,)))
    steps = Step("zero", zero, held), Step("encode", (grid,), held + rows * _INDEX_BYTES), _copied(mapping, size)
    return _plan(f"one-hot rows of {length:,} {kind} for {indices:,} {index}", mapping, target, steps, size,
                 indices * _INDEX_BYTES)


def _copied(mapping: LinearMapping, size: int) -> Step:
    """An exchange that brings each tile its elements."""
    return Step("copy", tuple(TileWork(tiles, n, (), 0, n * size) for n, tiles in mapping.classes))


def copy_plan(target: Target, element: Any, elements: int, made: int, problem: str) -> TilePlan | str:
    """A copy, each element of the result to its tile, of any type of PopLibs'."""
    if not type_of(element):
        return f"of {element}"
    mapping = linear_mapping(target, made, element.itemsize)
    return _plan(problem, mapping, target, (_copied(mapping, element.itemsize),) if made else (), element.itemsize,
                 elements * element.itemsize)


def transpose_plan(target: Target, element: Any, matrices: int, rows: int, columns: int) -> TilePlan | str:
    """Matrices transposed: least blocks by vertices on the tiles that they are dealt out to; else a copy alone."""
    kind, total = type_of(element), matrices * rows * columns
    grain = TRANSPOSED[kind][0] if kind in TRANSPOSED else 0
    if not total or not grain or rows % grain or columns % grain:
        return copy_plan(target, element, total, total, f"transpose {matrices} x {rows} x {columns} {element}")
    size, block = TYPE_BYTES[kind], grain * grain
    mapping = linear_mapping(target, total, size, grain=block, least=block)

    def vertices(elements: int) -> tuple[Vertex, ...]:
        cycles = transpose_cycles(target, kind, elements // block, grain, grain)
        return (Vertex("Transpose", (kind,), ((block, elements // block),), cycles, "tile"),)

    work = work_of(target, mapping.classes, vertices, lambda n: n * size)
    temporary = max(n for n, _ in mapping.classes) * size
    return _plan(f"transpose {matrices:,} x {rows:,} x {columns:,} {kind}", mapping, target,
                 (Step("transpose", work, temporary),), size, total * size)


def image_plan(target: Target, dtype: Any, pixels: int) -> TilePlan | str:
    """Pixels of three channels normalised to four."""
    kind = {"uint8": "unsigned char", "float16": "half", "float32": "float"}[np.dtype(dtype).name]
    made = "half" if kind == "unsigned char" else kind
    mapping = linear_mapping(target, pixels, 4 * TYPE_BYTES[made], grain=1)
    constants = (2 * _CHANNELS + 1) * TYPE_BYTES[made]

    def vertices(elements: int) -> tuple[Vertex, ...]:
        cycles = normalise_image_cycles(target, kind, elements)
        return (Vertex("NormaliseImage", (kind, made), ((elements, 1),), cycles, "tile"),)

    work = work_of(target, mapping.classes, vertices, lambda _: constants)
    return _plan(f"normalise {pixels:,} pixels of {kind}", mapping, target, (Step("normalise", work, constants),),
                 4 * TYPE_BYTES[made], pixels * _CHANNELS * TYPE_BYTES[kind])


def basis_plan(target: Target, element: Any, points: int, dimensions: int, values: int, degree: int) -> TilePlan | str:
    """Values of splines at points, and where their weights are."""
    kind = type_of(element)
    size, mapping = TYPE_BYTES[kind], linear_mapping(target, points * values, TYPE_BYTES[kind])
    fixed = 2 * dimensions * _INDEX_BYTES

    def received(elements: int) -> int:
        return -(-elements // values) * dimensions * size + fixed

    work = work_of(target, mapping.classes, lambda n: _shared(
        target, "SplineBasis", (kind, str(degree)), n, lambda k: spline_basis_cycles(kind, k)), received)
    temporary = max((w.received for w in work), default=0)
    return _plan(f"spline basis of degree {degree}, {points:,} x {values:,} {kind}", mapping, target,
                 (Step("basis", work, temporary),), size + _INDEX_BYTES, points * dimensions * size)


def weighting_plan(target: Target, elements: tuple[Any, ...], sizes: tuple[int, int, int, int]) -> TilePlan | str:
    """Channels of edges weighted by values of splines.

    Parameters
    ----------
    target : Target
    elements : tuple of Format
        Of the operands, and of the result.
    sizes : (int, int, int, int)
        Edges, channels, splines, outputs.
    """
    edges, channels, splines, outputs = sizes
    kind = type_of(elements[0])
    if kind not in TRANSPOSED or len(set(elements)) > 1:
        return f"of {', '.join(map(str, dict.fromkeys(elements)))}"
    size, mapping = TYPE_BYTES[kind], linear_mapping(target, edges * outputs, TYPE_BYTES[kind])

    def received(count: int) -> int:
        near = min(edges, -(-count // max(1, outputs)) + 1)
        return near * (channels * size + splines * (size + _INDEX_BYTES)) + count * splines * channels * size

    work = work_of(target, mapping.classes, lambda n: _shared(
        target, "SplineWeighting", (kind,), n, lambda k: spline_weighting_cycles(kind, channels, splines, k)), received)
    temporary = max((w.received for w in work), default=0)
    problem = f"spline weighting of {edges:,} x {channels:,} to {outputs:,} {kind}, {splines:,} splines"
    return _plan(problem, mapping, target, (Step("weighting", work, temporary),), size,
                 edges * (channels * size + splines * (size + _INDEX_BYTES)))


def sequences_plan(target: Target, element: Any, sequences: int, rows: tuple[int, int], width: int) -> TilePlan | str:
    """Sequences of rows copied: each tile has eight bytes or more of every row.

    Parameters
    ----------
    target : Target
    element : Format or numpy.dtype
    sequences : int
    rows : (int, int)
        Of the result, and of what is copied from.
    width : int
        Elements of a row.
    """
    kind = type_of(element)
    if kind not in _NUMBERS:
        return f"of {element}"
    size = TYPE_BYTES[kind]
    mapping = linear_mapping(target, width, size, least=-(-_ROW_BYTES // size))
    counts = 3 * sequences * _INDEX_BYTES

    def vertices(elements: int) -> tuple[Vertex, ...]:
        cycles = sequence_slice_cycles(kind, sequences, *rows, elements)
        return (Vertex("SequenceSlice", (kind,), ((elements, sequences),), cycles, "tile"),)

    work = work_of(target, mapping.classes, vertices, lambda _: counts) if sequences else ()
    return _plan(f"{sequences:,} sequences of rows of {width:,} {kind}", mapping, target,
                 (Step("slice", work, counts),), rows[0] * size, rows[1] * width * size)
