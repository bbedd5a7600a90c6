"""What an operation on an array and a broadcast one costs on a tile of a modelled machine.

PopLibs reads off which elements of the broadcast array a tile's regions meet, as patterns, and where these suit its
vertices nothing need be written out: numbers for `BroadcastScalar1D` and its kin, a row for each of many rows for
`BroadcastVectorInner1D`, a number for each row for `BroadcastVectorOuterByRow1D` and `BroadcastVectorOuterByColumn1D`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from ...planner.tile_plan import Vertex
from ...target import Target
from ...target.mapping import Runs, split_between_workers
from ...target.types import vector_of
from .binary import ARITHMETIC, SUPERVISOR, binary_vertices, scalar_entry, scalar_vertices
from .unary import element_grain, element_limit

_MOST_NUMBERS = 256  # that PopLibs cuts a tile's regions up for
_MOST_ROWS_OF_NUMBERS = 6
_MOST_LENGTH = 65535
_MOST_PASSES = 4094

Reads = np.ndarray[Any, np.dtype[np.int64]]
"""For each element of a region the element of the broadcast array that it meets."""


class Pattern(NamedTuple):
    """Neighbours in a region: `region` elements, each `inner` times, and all that `outer` times."""

    inner: int
    region: int
    outer: int

    @property
    def elements(self) -> int:
        """In all."""
        return self.inner * self.region * self.outer


def patterns_of(reads: Reads) -> tuple[Pattern, ...]:
    """Return the patterns that PopLibs finds in a region, from its first element on.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popops.vertices.broadcast import patterns_of
    >>> patterns_of(np.arange(284, 284 + 2169) // 100 % 128)
    (Pattern(inner=16, region=1, outer=1), Pattern(inner=100, region=21, outer=1), Pattern(inner=53, region=1, outer=1))
    """
    edges = np.flatnonzero(np.diff(reads, prepend=reads[0] - 1))
    counts, indices = np.diff(edges, append=len(reads)), reads[edges]
    found, begin = [], 0
    while begin < len(counts):
        others = np.flatnonzero(counts[begin:] != counts[begin])
        alike = indices[begin:begin + others[0]] if len(others) else indices[begin:]
        region, outer = _period(alike)
        found.append(Pattern(int(counts[begin]), region, outer))
        begin += region * outer
    return tuple(found)


def _period(indices: Reads) -> tuple[int, int]:
    """How many elements stand before the first that comes again, and how often they come, one after another."""
    places, low = np.arange(len(indices)), int(indices.min())
    first = np.empty(int(indices.max()) - low + 1, np.int64)
    first[indices[::-1] - low] = places[::-1]  # of equal ones the first is written last
    again = np.flatnonzero(first[indices - low] < places)
    if not len(again):
        return len(indices), 1
    region = int(again[0])
    differing = np.flatnonzero(indices[region:] != indices[:-region])
    return region, (region + int(differing[0]) if len(differing) else len(indices)) // region


# Cycles ----------------------------------------------------------------------------------------------


def outer_cycles(target: Target, op: str, data_type: str, columns: int, rows: int, *, by_row: bool,
                 misaligned: bool) -> int:
    """Cycles of a tile where each of `rows` rows of `columns` elements meets a number of its own.

    Parameters
    ----------
    target, op, data_type
        As for `broadcast_vertices`.
    columns, rows : int
    by_row : bool
        Whether a worker takes whole rows, else its share of each.
    misaligned : bool
        Whether rows may begin within a load.
    """
    entry = scalar_entry(op, data_type)
    assert entry is not None
    vector, workers = vector_of(target, data_type), target.workers
    columns, rows = (columns, -(-rows // workers)) if by_row else (-(-columns // workers), rows)
    row = (25 if misaligned else 7) + (entry.cycles + 1) * (columns + vector - 1) // vector
    return workers * (15 + rows * row) + SUPERVISOR


def _add_core(half: bool, length: int, blocks: int, in_place: bool) -> int:
    """Cycles of a worker that adds a row of `length` to `blocks` rows."""
    if not half:
        return 7 + length * (8 + 2 * blocks) if blocks else 2
    if not blocks:
        return 1
    by_elements = length * (5 + 9 * blocks)
    if length > 2048:
        return 9 + by_elements
    if length % 8 == 0:
        return 11 + 7 * length // 8 if blocks == 1 else 12 + length // 8 * (13 + 2 * blocks)
    if blocks < 2:
        return 13 + by_elements
    if length % 4 == 0:
        return 15 + length // 4 * (13 + 2 * (blocks // 2 - 1) + blocks % 2)
    return 15 + by_elements


def _multiply_core(half: bool, length: int, blocks: int, in_place: bool) -> int:
    """The same for products."""
    if not half:
        return _add_core(half, length, blocks, in_place)
    if length % 4:
        return 8 + length * (5 + 9 * blocks)
    loads = length // 4
    one_by_one = 4 + loads * (7 + 2 * blocks)
    if in_place:
        return 5 + one_by_one
    if length > 2044:
        return 7 + one_by_one
    return 9 + one_by_one if blocks < 2 else 13 + loads * (9 + blocks)


def _divide_core(half: bool, length: int, blocks: int, in_place: bool) -> int:
    """The same for quotients."""
    if not blocks:
        return 2
    if not half:
        return 9 + length * (9 + 4 * (blocks - 1)) if length % 2 else 10 + length // 2 * (11 + 6 * (blocks - 1))
    if length == 1:
        return 24 if blocks == 1 else 28 + 8 * (blocks // 2 - 1) + 8 * (blocks % 2)
    if length % 2 == 0:
        return 14 + length // 2 * (13 + 8 * (blocks - 1))
    rest = length // 2 - 1
    first, second = 12 + 9 * rest, 24 + 10 * rest
    return 10 + blocks // 2 * (first + second) + (first + 8 if blocks % 2 else 0)


class _Inner(NamedTuple):
    """An operation's vertices for rows: ``(float, half)`` cycles to begin, and what else differs in place."""

    core: Callable[[bool, int, int, bool], int]
    enter: int
    worker: tuple[int, int]
    odd: int  # more to begin where rows of half begin within a load
    leave: tuple[tuple[int, int], tuple[int, int]]  # of the tile and of each worker; in place
    enter_2d: int
    row_2d: tuple[int, int]
    leave_2d: tuple[int, int]


_ALIGNED, _BY_SIX = (0, 2), (6, 3)
_INNER = {"ADD": _Inner(_add_core, 13, (17, 19), 7, (_BY_SIX, _ALIGNED), 4, (9, 15), (3, 2)),
          "SUBTRACT": _Inner(_add_core, 13, (17, 19), 7, (_BY_SIX, _BY_SIX), 4, (9, 15), (4, 4)),
          "DIVIDE": _Inner(_divide_core, 14, (19, 24), 0, ((4, 0), (2, 0)), 7, (9, 15), (3, 2)),
          "MULTIPLY": _Inner(_multiply_core, 13, (34, 43), 7, (_ALIGNED, _BY_SIX), 4, (9, 13), (2, 3))}


def inner_1d_cycles(target: Target, op: str, data_type: str, length: int, slices: int, factor: int, *,
                    in_place: bool = False) -> int:
    """Cycles of a tile where each of `slices` rows of `length` elements meets `factor` rows.

    Examples
    --------
    >>> from poplibs_py.popops.vertices.broadcast import inner_1d_cycles
    >>> from poplibs_py.target import Target
    >>> inner_1d_cycles(Target.gc200(), "ADD", "half", 128, 1, 5)
    889
    """
    row, half, workers = _INNER[op], data_type == "half", target.workers
    core = row.core(half, length, -(-factor // workers), in_place) + (17 if slices > 1 else 0)
    odd = row.odd if half and length % 2 else 0
    tile, worker = row.leave[in_place]
    return row.enter + workers * (row.worker[half] + odd + slices * core + worker) + tile


def inner_2d_cycles(op: str, data_type: str, work: Sequence[tuple[int, int]], *, in_place: bool = False) -> int:
    """Cycles of a worker: in each region a row of so many elements meets so many rows."""
    row, half = _INNER[op], data_type == "half"
    cores = sum(row.row_2d[half] + row.core(half, length, blocks, False) for length, blocks in work)
    return row.enter_2d + cores + row.leave_2d[in_place]


# Choice ----------------------------------------------------------------------------------------------


def broadcast_vertices(target: Target, op: str, data_type: str, reads: Sequence[Reads], *,
                       in_place: bool = False) -> tuple[Vertex, ...]:
    """Return the vertices that PopLibs gives a tile for an operation on an array and a broadcast one.

    Parameters
    ----------
    target : Target
    op : str
        PopLibs' name of it, such as ``"MULTIPLY"``.
    data_type : str
        Of the operands.
    reads : sequence of ndarray
        For each of the tile's regions, and each element of it, which element of the broadcast array it meets.
    in_place : bool, optional
        Whether the result takes the first operand's place.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popops.vertices.broadcast import broadcast_vertices
    >>> from poplibs_py.target import Target
    >>> rows = np.arange(256) // 64
    >>> [(str(v), v.cycles) for v in broadcast_vertices(Target.gc200(), "MULTIPLY", "float", [rows])]
    [('BroadcastVectorOuterByColumn1D<MULTIPLY,float,false>', 557)]
    """
    found = tuple(patterns_of(region) for region in reads)
    sizes = [len(region) for region in reads]
    numbers = _numbers(target, op, data_type, reads, found, in_place)
    if numbers:
        return numbers
    rows = _rows(target, op, data_type, found, sizes, in_place)
    if rows:
        return rows
    columns = _columns(target, op, data_type, [p for patterns in found for p in patterns], in_place)
    return columns or binary_vertices(target, op, data_type, sizes, in_place=in_place)


def _numbers(target: Target, op: str, data_type: str, reads: Sequence[Reads], found: Sequence[Sequence[Pattern]],
             in_place: bool) -> tuple[Vertex, ...]:
    """Vertices that take a number for each piece; none where these are too many or too small."""
    patterns = [p for region in found for p in region]
    apart = all(p.inner > 1 and p.region == p.outer == 1 for p in patterns) or len(patterns) != len(found)
    count = sum(p.region * p.outer for p in patterns)
    if not apart or not 0 < count <= _MOST_NUMBERS or scalar_entry(op, data_type, in_place) is None:
        return ()
    pieces = [p.inner for p in patterns for _ in range(p.region * p.outer)]
    uniform = all((region == reads[0][0]).all() for region in reads)
    vertices = scalar_vertices(target, op, data_type, pieces, in_place=in_place, uniform=uniform)
    parts = [count for v in vertices for _, count in v.regions]
    small = sum(pieces) < sum(parts) * 2 * element_grain(target, data_type)
    return () if vertices[0].unit == "worker" and sum(parts) > target.workers and small else vertices


def _rows(target: Target, op: str, data_type: str, found: Sequence[Sequence[Pattern]], sizes: Sequence[int],
          in_place: bool) -> tuple[Vertex, ...]:
    """Vertices that take one row for each region or two; none where the patterns are no rows."""
    patterns = [p for region in found for p in region]
    length, half = patterns[0].region, data_type == "half"
    fitting = data_type in ("float", "half") if op == "DIVIDE" else (op, data_type) in ARITHMETIC and half
    if not fitting or (op != "DIVIDE" and length % 4):
        return ()
    if any(p.inner != 1 or p.outer < 2 or p.region != length for p in patterns):
        return ()
    groups = [list(alike) for _, alike in groupby(patterns)] if len(found) == 1 else [[p] for p in patterns]
    if half and length % 2 and any(len(alike) > 1 for alike in groups):  # the second row would begin within a load
        groups = [[p] for p in patterns]
    limit, ending = element_limit(target, op, data_type), "InPlace" if in_place else ""
    few = len(groups) <= 2 and len(found) in (1, len(groups))
    most = min(_MOST_LENGTH, _MOST_PASSES * target.workers)
    totals = [(sum(p.elements for p in alike), len(alike)) for alike in groups]
    if few and length <= _MOST_LENGTH and all(n <= limit and n // (length * m) <= most for n, m in totals):
        return tuple(
            Vertex(f"BroadcastVectorInner1D{ending}", (op, data_type), ((n, 1),),
                   inner_1d_cycles(target, op, data_type, length, m, n // (length * m), in_place=in_place), "tile",
                   (("bBroadcastFactor", n // (length * m)), ("bSliceLen", length), ("bSlicesM1", m - 1)))
            for n, m in totals)
    longest = min(target.repeat_count_max * length, limit // target.workers)
    parts = split_between_workers(target, sizes, length, least=length, most_in_region=longest)
    return tuple(_inner_2d(op, data_type, runs, length, in_place) for runs in parts)


def _inner_2d(op: str, data_type: str, runs: Runs, length: int, in_place: bool) -> Vertex:
    """One worker's vertex."""
    work = [(length, n // length) for n, count in runs for _ in range(count)]
    listed = (len(work) - 1, *(word for entry in work for word in entry))
    cycles = inner_2d_cycles(op, data_type, work, in_place=in_place)
    name = "BroadcastVectorInner2DInPlace" if in_place else "BroadcastVectorInner2D"
    return Vertex(name, (op, data_type), runs, cycles, "worker", (("workList", listed),))


def _columns(target: Target, op: str, data_type: str, patterns: Sequence[Pattern],
             in_place: bool) -> tuple[Vertex, ...]:
    """Vertices that take a number for each row; none where the patterns are no such rows."""
    if (op, data_type) not in ARITHMETIC or len(patterns) > _MOST_ROWS_OF_NUMBERS:
        return ()
    limit, vector = element_limit(target, op, data_type), vector_of(target, data_type)
    if any(p.region == 1 or p.inner == 1 or p.elements > limit for p in patterns):
        return ()
    by_row = [p.inner < target.workers * vector for p in patterns]
    if len(set(by_row)) > 1:
        return ()
    name = f"BroadcastVectorOuterBy{'Row' if by_row[0] else 'Column'}1D{'InPlace' if in_place else ''}"
    made = []
    for p in patterns:
        misaligned, rows = p.inner % vector > 0, p.region * p.outer
        cycles = outer_cycles(target, op, data_type, p.inner, rows, by_row=by_row[0], misaligned=misaligned)
        made.append(Vertex(name, (op, data_type, str(misaligned).lower()), ((p.elements, 1),), cycles, "tile",
                           (("columns", p.inner), ("rows", rows))))
    return tuple(made)
