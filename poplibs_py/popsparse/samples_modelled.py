"""Sampled products as the tiles of a modelled machine make them: dense times dense, at the blocks of a pattern.

A tile has some of the blocks. Each of its sums is a chain over the depth, part after part of it, which does not always
begin with the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..config import settings
from ..formats import Array
from ..poplin.tile_conv import _partials
from ..poplin.tile_conv.interpreter import fused_multiply_add, rounded_to
from ..program import ComputeSet, Exchange, Executable, Program, Segment, spread, threads_for, whole_lines
from ._tiles import BLOCKS_VERTEX
from .modelled import TileFormats, block_items, clearing, decoding, finishing
from .operands import DenseLayout

_LEFT, _RIGHT = range(2)  # of a program's operands
_SET_FLOPS = 1 << 20  # for each thread


@dataclass(frozen=True, eq=False)
class TileSamples(TileFormats):
    """What the tiles of a sampled product ``L R'`` multiply, L of shape (m, n) and R of (k, n).

    Attributes
    ----------
    shape : (int, int, int)
        m, k and n, the first two of all groups together.
    side : int
        Of a block that tiles make.
    data_type, partials_type : str
        ``"half"`` or ``"float"``.
    machine_tiles : int
    rows, columns : numpy.ndarray of int
        Block row and block column of each block, in the order of tiles.
    places : numpy.ndarray of int
        Where each goes in the result, in blocks of that side: of a stored block's several, row by row.
    starts, tiles, first : numpy.ndarray of int
        Where the blocks of each piece begin, and the last end; the tile of each, ascending; the part of the depth that
        its sums begin with. The others follow, and those before it last.
    edges : numpy.ndarray of int
        Where the parts of the depth begin, and the last ends.
    received : int
        Bytes that tiles receive in all.
    stored : (int, int)
        Stored blocks, and their side.
    groups : int
    """

    shape: tuple[int, int, int]
    side: int
    data_type: str
    partials_type: str
    machine_tiles: int
    rows: Array
    columns: Array
    places: Array
    starts: Array
    tiles: Array
    first: Array
    edges: Array
    received: int
    stored: tuple[int, int]
    groups: int = 1


def lower_samples(work: TileSamples, left: DenseLayout, right: DenseLayout, swapped: bool = False) -> Executable:
    """Return the executable of a sampled product, which runs on L, R and the result, a contiguous one.

    Parameters
    ----------
    work : TileSamples
    left, right : DenseLayout
        How L and R lie.
    swapped : bool, optional
        Whether the result has its blocks transposed.
    """
    (m, k, n), side = work.shape, work.side
    right_at = whole_lines(4 * m * n)
    sums_at = right_at + whole_lines(4 * k * n)
    sums = 4 * work.rows.size * side**2
    operands = [(_LEFT, left, m, 0), (_RIGHT, right, k, right_at)]
    dense = [decoding(x.format, (n, rows // work.groups), which, group * x.strides[0], x.strides[:0:-1],
                      at + 4 * group * (rows // work.groups), 4 * rows)
             for which, x, rows, at in operands for group in range(work.groups)]
    table = np.empty((work.rows.size, 3), np.int64)
    first, second = ((work.columns, right_at, k), (work.rows, 0, m))[:: 1 if swapped else -1]
    table[:, 0], table[:, 1] = first[0] * (4 * side) + first[1], second[0] * (4 * side) + second[1]
    table[:, 2] = work.places * (4 * side**2) + sums_at
    items, tiles = _items(work, table, (4 * first[2], 4 * second[2]))
    results = _results(work, sums_at)
    sets = (("decode", dense), ("zero partials", [(_partials.CLEAR_VERTEX, clearing(sums_at, sums))]),
            ("multiply", [(BLOCKS_VERTEX, items)]), ("cast output", [(_partials.FINISH_VERTEX, results)]))
    steps: list[ComputeSet | Exchange] = [Exchange("exchange of operands and buckets", work.received)]
    for phase, dealt in sets:
        steps.append(ComputeSet(phase, tuple(
            Segment(vertex, records, tiles if phase == "multiply" else spread(records.size, work.machine_tiles))
            for vertex, records in dealt if records.size)))
    kept = tuple(step for step in steps if isinstance(step, Exchange) or step.segments)
    program = Program(kept, 3, work.machine_tiles, 0, sums_at + whole_lines(sums), (table,))
    flops = 2 * work.rows.size * side**2 * n
    return program.executable(threads_for(flops, _SET_FLOPS, settings.num_threads))


def _items(work: TileSamples, table: Array, rows: tuple[int, int]) -> tuple[Array, Array]:
    """Each piece's blocks, once for each part of the depth; and their tiles. `rows`: bytes from a cell to the next."""
    parts = work.edges.size - 1
    pieces = np.repeat(np.flatnonzero(np.diff(work.starts)), parts)
    step = np.tile(np.arange(parts), pieces.size // max(1, parts))
    part = (work.first[pieces] + step) % max(1, parts)
    items = block_items(table, work.starts)[pieces]
    items["values_first"], items["x_first"] = (work.edges[part] * row for row in rows)
    items["cells"] = np.diff(work.edges)[part]
    items["side"] = items["columns"] = work.side
    items["value_row"], items["value_cell"], items["x_row"] = 4, *rows
    items["rounding"] = work.rounding
    return items, work.tiles[pieces]


def _results(work: TileSamples, at: int) -> Array:
    """The result, rounded once to its format: sums lie block by block, those of a stored block's parts too."""
    (blocks, wide), side, size = work.stored, work.side, work.kind.itemsize
    if wide == side:
        return finishing(work.kind, (blocks * side, side), at, 0, (side * size, size))
    each = wide // side
    places = np.arange(blocks * each**2)
    whole, inside = np.divmod(places, each * each)
    down, across = np.divmod(inside, each)
    items = np.repeat(finishing(work.kind, (1, side), at, 0, (wide * size, size)), places.size)
    items["first"], items["rows"] = at + 4 * side**2 * places, side
    items["out"] = ((whole * wide + down * side) * wide + across * side) * size
    return items


def interpret_samples(work: TileSamples, left: Array, right: Array, swapped: bool = False) -> Array:
    """Return what tiles make of FP32 values, L of shape (m, n) and R of (k, n): one block, one product at a time."""
    side, (blocks, wide) = work.side, work.stored
    found = np.zeros((blocks * (wide // side) ** 2, side, side), np.float32)
    pieces, parts = np.repeat(np.arange(work.starts.size - 1), np.diff(work.starts)), work.edges.size - 1
    for piece, row, column, place in zip(pieces, work.rows * side, work.columns * side, work.places, strict=True):
        total = np.zeros((side, side), np.float32)
        for step in range(parts):
            part = (int(work.first[piece]) + step) % parts
            for cell in range(work.edges[part], work.edges[part + 1]):
                total = fused_multiply_add(left[row:row + side, cell, None], right[column:column + side, cell], total)
            total = rounded_to(total, work.partial)
        found[place] = rounded_to(total.T if swapped else total, work.kind)
    each = wide // side
    whole = found.reshape(blocks, each, each, side, side).swapaxes(2, 3).reshape(blocks, wide, wide)
    made: Array = whole.astype(work.kind.dtype)
    return made
