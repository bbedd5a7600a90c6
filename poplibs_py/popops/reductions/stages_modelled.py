"""Which tile and which worker of a modelled machine reduce what, stage by stage, and by which of PopLibs' vertices.

An operand is looked at as columns, one for each result, of `factor` rows, the elements that are reduced to it. A stage
takes each column's numbers in ascending order: a tile a run of them, its workers a part of the run each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from ...memo import remembered
from ...planner.tile_plan import Step, TileWork, Vertex
from ...target import LinearMapping, Target, linear_mapping
from ...target.mapping import Runs, split_between_workers
from ...target.types import TYPE_BYTES, vector_of
from ..vertices.reductions import (
    continuous_reduce_cycles,
    reduce_cycles,
    single_input_reduce_cycles,
    strided_reduce_cycles,
)
from .split import assigned_workers, column_grain, intermediate_split, rows_of_workers, stages_of_workers

Dims = tuple[tuple[int, bool], ...]
"""Axes in the order in which elements lie: the extent, and whether it is reduced. Neighbours differ in that."""

Types = tuple[str, str]

_SUMS = ("ADD", "SQUARE_ADD", "MUL", "LOG_ADD")
_STRIDED = ("ADD", "SQUARE_ADD", "MAX", "MIN", "LOG_ADD")
_SINGLE = ("ADD", "SQUARE_ADD", "LOG_ADD")
_DEEP = 64  # partials of a result that the last stage takes at once
_ROW_BYTES = 8


class Share(NamedTuple):
    """What a tile reduces of neighbouring columns in a stage.

    Attributes
    ----------
    tile : int
    begin, end : int
        The columns.
    first : int
        The first of each column's numbers that it takes.
    parts : tuple of int
        How many each of its workers takes, one after another; what these come to is reduced once more.
    """

    tile: int
    begin: int
    end: int
    first: int
    parts: tuple[int, ...]

    @property
    def depth(self) -> int:
        """Numbers of a column."""
        return sum(self.parts)


Order = tuple[tuple[Share, ...], ...]
"""The shares of each stage, in the order of the tiles."""

Source = tuple[int, int, int]
"""Columns, from the first to before the last, that a tile has a number of, and the share that makes it."""


class Partials(NamedTuple):
    """The types of partial results: of what tiles exchange, and of what a tile's workers leave to each other."""

    between: str
    inside: str


def partials_of(op: str, types: Types, asked: Sequence[str] = ("", "")) -> Partials:
    """The types of a reduction's partial results: float for sums of halves, but where half is asked for a half result.

    Parameters
    ----------
    op : str
        PopLibs' name of it.
    types : (str, str)
        Of the operand and of the result.
    asked : (str, str), optional
        What PopLibs' ``accumType.interTile`` and ``accumType.inVertex`` say; by default nothing.
    """
    usual = "float" if "half" in types and op in _SUMS else types[1]
    return Partials(*(kind if kind == types[1] else usual for kind in asked))


def merged_dims(shape: Sequence[int], axes: Iterable[int]) -> Dims:
    """Return the axes of an operand in C order, neighbours of one kind taken together.

    Examples
    --------
    >>> merged_dims((8, 1, 4, 5), (0, 3))
    ((8, True), (4, False), (5, True))
    """
    made: list[tuple[int, bool]] = []
    reduced = set(axes)
    for d, extent in enumerate(shape):
        if extent == 1:
            continue
        if made and made[-1][1] == (d in reduced):
            extent *= made.pop()[0]
        made.append((extent, d in reduced))
    return tuple(made)


def factor_of(dims: Dims, reduced: bool = True) -> int:
    """Numbers of a column, or columns."""
    product = 1
    for extent, kind in dims:
        product *= extent if kind == reduced else 1
    return product


# Tiles of the operand -----------------------------------------------------------------------------------


class _Box(NamedTuple):
    begin: int
    end: int
    first: int
    last: int


def _boxes(dims: Dims, begin: int, end: int) -> list[_Box]:
    """Columns and rows of neighbouring elements, in boxes."""
    found: list[_Box] = []

    def walk(d: int, low: int, high: int, column: int, row: int) -> None:
        extent, reduced = dims[d]
        wide, deep = factor_of(dims[d + 1:], False), factor_of(dims[d + 1:])
        inner = wide * deep
        a, head = divmod(low, inner)
        b, tail = divmod(high, inner)
        grown = (1, extent) if reduced else (extent, 1)
        column, row = column * grown[0], row * grown[1]

        def at(index: int) -> tuple[int, int]:
            return (column, row + index) if reduced else (column + index, row)

        if a == b:
            walk(d + 1, head, tail, *at(a))
            return
        if head:
            walk(d + 1, head, inner, *at(a))
            a += 1
        if a < b:
            (c, r), more = at(a), b - a
            columns, rows = (1, more) if reduced else (more, 1)
            found.append(_Box(c * wide, (c + columns) * wide, r * deep, (r + rows) * deep))
        if tail:
            walk(d + 1, 0, tail, *at(b))

    walk(0, begin, end, 0, 0)
    return found


def _columns(boxes: Sequence[_Box]) -> list[_Box]:
    """The columns of a tile with equally many rows, which are neighbours, in ascending order."""
    edges = sorted({edge for box in boxes for edge in box[:2]})
    made: list[_Box] = []
    for begin, end in pairwise(edges):
        over = [box for box in boxes if box.begin <= begin and end <= box.end]
        if not over:
            continue
        box = _Box(begin, end, min(b.first for b in over), max(b.last for b in over))
        if made and made[-1].end == begin and made[-1][2:] == box[2:]:
            box = _Box(made.pop().begin, end, *box[2:])
        made.append(box)
    return made


# Vertices of a tile -------------------------------------------------------------------------------------


def _vertex(target: Target, op: str, types: Types, outputs: int, rows: int, along: bool, update: bool) -> Vertex:
    """The vertex of a worker: so many rows of so many outputs, whose rows lie `along` each other or side by side."""
    in_type, out_type = types
    params, regions = (op, *types), ((outputs * rows, 1),)
    if along and outputs == 1 and op in _SINGLE and not update:
        return Vertex("SingleInputReduce", params, regions, single_input_reduce_cycles(target, op, types, rows),
                      "worker")
    if along and op in _STRIDED:
        cycles = continuous_reduce_cycles(target, op, types, rows, outputs, update=update)
        return Vertex("ContinuousReduce", params, regions, cycles, "worker")
    words = outputs * TYPE_BYTES[out_type] % 4 == 0 and outputs * TYPE_BYTES[in_type] % _ROW_BYTES == 0
    if not along and op in _STRIDED and in_type in ("float", "half") and words:
        cycles = int(strided_reduce_cycles(target, op, types, rows, outputs, outputs, update=update))
        return Vertex("StridedReduce", params, regions, cycles, "worker")
    work = [(1, [rows])] * outputs if along else [(outputs, [outputs] * rows)]
    return Vertex("Reduce", params, regions, reduce_cycles(target, op, types, work, update=update), "worker")


class _OnTile(NamedTuple):
    """What a tile does: its groups of columns as its workers have them, each with its parts; and what it costs."""

    pieces: tuple[tuple[int, int, tuple[int, ...]], ...]
    vertices: tuple[Vertex, ...]
    cycles: int


def _dealt(sizes: Sequence[int], parts: Sequence[Runs]) -> list[tuple[int, int]]:
    """The group of each piece, and its columns."""
    made, group, left = [], 0, sizes[0]
    for runs in parts:
        for n, count in runs:
            for _ in range(count):
                if not left:
                    group += 1
                    left = sizes[group]
                made.append((group, n))
                left -= n
    return made


@remembered()
def _on_tile(target: Target, op: str, types: Types, inside: str, groups: tuple[tuple[int, int], ...], along: bool,
             packed: bool, update: bool) -> _OnTile:
    """Deal the columns of a tile out to its workers: groups of them, columns and rows of each.

    Rows lie `along` each other or side by side; `packed`, those of a single column do too. Where there are fewer pieces
    of columns than workers, rows are dealt out too, and a second stage joins the parts.
    """
    vector = vector_of(target, types[0])
    grain = 1 if along else column_grain(target, op, types[0])
    sizes = [columns for columns, _ in groups]
    pieces = _dealt(sizes, split_between_workers(target, sizes, grain))
    work = [(columns, groups[group][1]) for group, columns in pieces]
    splits = stages_of_workers(target, op, types[0], work) if len(work) < target.workers else (1,) * len(work)
    first, later = [], []
    cut: list[tuple[int, int, tuple[int, ...]]] = []
    for (group, columns), split in zip(pieces, splits, strict=True):
        lies, rows = along or (packed and groups[group][0] == 1), groups[group][1]
        parts = rows_of_workers(rows, split, vector if columns == 1 else 1) if split > 1 else (rows,)
        parts = tuple(part for part in parts if part)
        if cut and (cut[-1][0], cut[-1][2]) == (group, parts):
            cut[-1] = group, cut[-1][1] + columns, parts
        else:
            cut.append((group, columns, parts))
        last = len(parts) == 1
        made = types[0], types[1] if last else inside
        first += [((columns, part), _vertex(target, op, made, columns, part, lies, update and last)) for part in parts]
        if not last:
            join = "ADD" if op == "SQUARE_ADD" else op
            later.append(_vertex(target, join, (inside, types[1]), columns, len(parts), columns == 1, update))
    load = [0] * target.workers
    workers = assigned_workers(target, op, types[0], [shape for shape, _ in first])
    for worker, (_, vertex) in zip(workers, first, strict=True):
        load[worker] += vertex.cycles
    joined = max((v.cycles for v in later), default=0)
    return _OnTile(tuple(cut), (*(v for _, v in first), *later), target.workers * (max(load) + joined))


def _shares(tile: int, boxes: Sequence[_Box], dealt: _OnTile) -> list[Share]:
    """The shares of a tile."""
    made, at = [], [box.begin for box in boxes]
    for group, columns, parts in dealt.pieces:
        made.append(Share(tile, at[group], at[group] + columns, boxes[group].first, parts))
        at[group] += columns
    return made


def _step(name: str, work: Sequence[TileWork], temporary: int) -> Step:
    """A step, tiles that do the same taken together."""
    return Step(name, tuple(replace(w, tiles=tiles) for w, tiles in Counter(work).items()), temporary)


# Stages -------------------------------------------------------------------------------------------------


def on_tiles_stage(target: Target, op: str, types: Types, dims: Dims, mapping: LinearMapping, *,
                   partials: Partials, scaled: bool = False) -> tuple[Step | None, tuple[Share, ...], bool]:
    """Reduce what each tile holds of a column.

    Parameters
    ----------
    target : Target
    op : str
        PopLibs' name of it.
    types : (str, str)
        Of the operand and of the result.
    dims : Dims
    mapping : LinearMapping
        Of the operand.
    partials : Partials
        The types of what is not a result yet.
    scaled : bool, optional
        Whether the last stage scales, or adds to what is there.

    Returns
    -------
    (Step or None, tuple of Share, bool)
        None where no tile holds two of a column; and whether the results are whole: every column is on one tile.
    """
    edges = mapping.edges().tolist()
    held = [_columns(_boxes(dims, a, b)) for a, b in pairwise(edges)]
    factor = factor_of(dims)
    whole = all(box.last - box.first == factor for boxes in held for box in boxes)
    if not whole and all(box.last - box.first == 1 for boxes in held for box in boxes):
        return None, (), False
    made = types if whole else (types[0], partials.between)
    along = not dims or dims[-1][1]
    shares: list[Share] = []
    work, most = [], 0
    for tile, boxes in enumerate(held):
        groups = tuple((box.end - box.begin, box.last - box.first) for box in boxes)
        dealt = _on_tile(target, op, made, partials.inside, groups, along, False, scaled and whole)
        shares += _shares(tile, boxes, dealt)
        kept = 0 if whole else sum(columns for columns, _ in groups)
        parted = sum(columns * len(parts) for _, columns, parts in dealt.pieces if len(parts) > 1)
        most = max(most, kept * TYPE_BYTES[partials.between] + parted * TYPE_BYTES[partials.inside])
        work.append(TileWork(1, sum(c * d for c, d in groups), dealt.vertices, dealt.cycles))
    return _step("reduce on tiles", work, most), tuple(shares), whole


def sources_of(shares: Sequence[Share]) -> list[Source]:
    """The columns of each tile that are neighbours, by where the first of their numbers is among all of a stage's."""
    made: list[Source] = []
    slot, tile = 0, -1
    for share in shares:
        if made and share.tile == tile and made[-1][1] == share.begin:
            made[-1] = (made[-1][0], share.end, made[-1][2])
        else:
            made.append((share.begin, share.end, slot))
        tile, slot = share.tile, slot + share.end - share.begin
    return made


def depths_of(sources: Sequence[Source], outputs: int) -> list[tuple[int, int]]:
    """Partials of a column and how many neighbouring columns have so many."""
    changes: dict[int, int] = {0: 0, outputs: 0}
    for begin, end, _ in sources:
        changes[begin] = changes.get(begin, 0) + 1
        changes[end] = changes.get(end, 0) - 1
    edges, depth = sorted(changes), 0
    made: list[tuple[int, int]] = []
    for begin, end in pairwise(edges):
        depth += changes[begin]
        width = end - begin
        if made and made[-1][0] == depth:
            width += made.pop()[1]
        made.append((depth, width))
    return made


Cut = tuple[int, int, tuple[int, ...]]
"""Columns, and the runs of their numbers that a tile takes each."""


def later_stages(target: Target, op: str, types: Types, columns: Sequence[tuple[int, int]], used: int, *,
                 partials: Partials, scaled: bool = False) -> tuple[tuple[Step, ...], Order]:
    """Reduce partials that lie on several tiles.

    Parameters
    ----------
    target : Target
    op : str
        PopLibs' name of it.
    types : (str, str)
        Of the partials and of the results.
    columns : sequence of (int, int)
        How many partials a column has, and how many neighbouring columns have so many.
    used : int
        Tiles that hold them.
    partials : Partials
        The types of those that are left after a stage.
    scaled : bool, optional
        Whether the last stage scales, or adds to what is there.
    """
    in_type, out_type = types
    outputs = sum(width for _, width in columns)
    steps: list[Step] = []
    order: list[tuple[Share, ...]] = []
    depths = list(columns)
    while True:
        most, total = max(depth for depth, _ in depths), sum(depth * width for depth, width in depths)
        few = most * most < 4 * target.tiles and 4 * used > 3 * target.tiles
        if few or total <= _DEEP * outputs:
            break
        pieces = intermediate_split(depths, column_grain(target, op, in_type), target.tiles)
        cuts, depths, used = _runs(pieces, depths), [], 0
        for begin, end, runs in cuts:
            used += len(runs)
            depths.append((len(runs), end - begin))
        made = in_type, partials.between
        step, shares = _exchanged(target, op, made, partials.inside, cuts, "reduce between tiles", False)
        steps.append(step)
        order.append(shares)
        in_type, op = partials.between, "ADD" if op == "SQUARE_ADD" else op
    last = _result_cuts(depths, result_tiles(target, outputs, vector_of(target, out_type)))
    step, shares = _exchanged(target, op, (in_type, out_type), partials.inside, [cut for _, cut in last],
                              "reduce to the result", scaled, [tile for tile, _ in last])
    return (*steps, step), (*order, shares)


def result_tiles(target: Target, outputs: int, vector: int) -> list[tuple[int, int]]:
    """The results of each tile: a linear mapping with fewer elements than an operand's on a tile."""
    edges = linear_mapping(target, outputs, 1, grain=vector, least=4 * vector).edges().tolist()
    return list(pairwise(edges))


def _ends(depths: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where the columns of each depth end."""
    return list(zip(accumulate(width for _, width in depths), (depth for depth, _ in depths), strict=True))


def _result_cuts(depths: Sequence[tuple[int, int]], tiles: Sequence[tuple[int, int]]) -> list[tuple[int, Cut]]:
    """The columns of one depth each that each tile has the results of."""
    ends, interval = _ends(depths), 0
    made: list[tuple[int, Cut]] = []
    for tile, (begin, end) in enumerate(tiles):
        while begin < end:
            while ends[interval][0] <= begin:
                interval += 1
            stop, depth = min(end, ends[interval][0]), ends[interval][1]
            made.append((tile, (begin, stop, (depth,))))
            begin = stop
    return made


def _runs(pieces: Sequence[tuple[int, int, int]], depths: Sequence[tuple[int, int]]) -> list[Cut]:
    """The runs of a stage's pieces: at least two numbers each, while there are two."""
    made: list[Cut] = []
    ends, interval = _ends(depths), 0
    for begin, end, split in pieces:
        while ends[interval][0] <= begin:
            interval += 1
        depth = ends[interval][1]
        each = max(2, -(-depth // split))
        whole, rest = divmod(depth, each)
        made.append((begin, end, (each,) * whole + ((rest,) if rest else ())))
    return made


def _exchanged(target: Target, op: str, types: Types, inside: str, cuts: Sequence[Cut], name: str, scaled: bool,
               tiles: Sequence[int] = ()) -> tuple[Step, tuple[Share, ...]]:
    """A stage whose tiles receive their partials; without `tiles` each run goes to one of its own, in turn."""
    shares: list[Share] = []
    groups: dict[int, list[_Box]] = {}
    tile = 0
    for i, (begin, end, runs) in enumerate(cuts):
        first = 0
        for run in runs:
            at = tiles[i] if tiles else tile % target.tiles
            groups.setdefault(at, []).append(_Box(begin, end, first, first + run))
            first, tile = first + run, tile + 1
    work, most = [], 0
    for at, boxes in sorted(groups.items()):
        shapes = tuple((box.end - box.begin, box.last - box.first) for box in boxes)
        dealt = _on_tile(target, op, types, inside, shapes, False, True, scaled)
        shares += _shares(at, boxes, dealt)
        elements = sum(columns * rows for columns, rows in shapes)
        received = elements * TYPE_BYTES[types[0]]
        most = max(most, received)
        work.append(TileWork(1, elements, dealt.vertices, dealt.cycles, received))
    return _step(name, work, most), tuple(shares)
