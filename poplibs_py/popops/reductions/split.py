"""How PopLibs deals reductions out: columns and rows to tiles between stages, and to a tile's workers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

from ...target import Target
from ...target.mapping import split_regions
from ...target.types import vector_of

Piece = tuple[int, int, int]
"""Columns of a partial result, from the first to before the last, and into how many runs of rows they are cut."""

_LEAST_ELEMENTS = 64  # that a tile takes in an intermediate stage
_LEAST_ROWS = 2
_ADDS = ("ADD", "SQUARE_ADD")
_NEAR = 8  # cycles from the mean that make reductions alike
_BEGIN, _BEGIN_SPLIT = 30, 60  # cycles of a reduction besides its elements', whole and in two stages


def column_grain(target: Target, op: str, data_type: str) -> int:
    """Columns that stay together."""
    return vector_of(target, data_type) * (2 if op in _ADDS else 1)


def intermediate_split(partials: Sequence[tuple[int, int]], grain: int, tiles: int, *, columns: int = 1,
                       rows: int = _LEAST_ROWS, elements: int = _LEAST_ELEMENTS) -> tuple[Piece, ...]:
    """Cut partial results up for the tiles of an intermediate stage (PopLibs' ``calculateSplit``).

    Parameters
    ----------
    partials : sequence of (int, int)
        Rows and columns of each interval of columns that have equally many rows.
    grain : int
        Columns that stay together.
    tiles : int
        To cut them up for.
    columns, rows, elements : int, optional
        The fewest that are worth a piece. Where the partials are shallow, PopLibs takes more columns.

    Examples
    --------
    >>> from poplibs_py.popops.reductions.split import intermediate_split
    >>> intermediate_split([(434, 1), (1, 8)], 2, 4)
    ((0, 1, 3), (1, 2, 1), (2, 6, 1), (6, 9, 1))
    """
    total = sum(depth * width for depth, width in partials)
    each, widths = max(1, total // tiles), [width for _, width in partials]
    shallow = min(widths) // grain // max(1, isqrt(total // sum(widths))) * grain
    made, begin, interval, left = [], 0, 0, widths[0]
    for runs in split_regions(widths, grain, tiles, least=max(columns, shallow)):
        for width, count in runs:
            for _ in range(count):
                if not left:
                    interval += 1
                    left = widths[interval]
                depth = partials[interval][0]
                made.append((begin, begin + width, _row_split(depth, width, each, rows, elements)))
                begin, left = begin + width, left - width
    return tuple(made)


def _row_split(depth: int, width: int, each: int, rows: int, elements: int) -> int:
    """Into how many runs of rows a piece is cut."""
    split = max(1, depth * width // each)
    if depth * width // split < elements:
        split = max(1, depth * width // elements)
    if depth // split < rows:
        split = max(1, depth // rows)
    return split


def rows_of_workers(rows: int, workers: int, grain: int) -> tuple[int, ...]:
    """Deal the rows of one reduction out (PopLibs' ``splitRowsToWorkers``).

    Parameters
    ----------
    rows, workers : int
    grain : int
        Rows that stay together: those of a load for a single output, else one.

    Examples
    --------
    >>> from poplibs_py.popops.reductions.split import rows_of_workers
    >>> rows_of_workers(165, 6, 4)
    (28, 28, 28, 28, 28, 25)
    """
    if rows <= 3 or workers == 1:
        return (rows,)
    parts = min(rows // 2, -(-rows // -(-rows // workers)))
    each = grain * (rows // (parts * grain))
    more, rest = divmod(rows - parts * each, grain)
    made = [each + grain * (part < more) for part in range(parts)]
    made[-1] += rest
    return tuple(made)


def _cycles(target: Target, op: str, data_type: str, outputs: int, elements: int) -> int:
    """Roughly the cycles of a reduction's elements, as PopLibs has them where it deals reductions out."""
    width = column_grain(target, op, data_type)
    if width % outputs:  # what divides the outputs of a step
        while outputs % width:
            width //= 2
    return -(-elements // width)


def stages_of_workers(target: Target, op: str, data_type: str,
                      reductions: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """How many workers take each of a tile's reductions by rows, in a first stage; one where a stage suffices.

    Parameters
    ----------
    target : Target
    op, data_type : str
        Of the partials.
    reductions : sequence of (int, int)
        Outputs of each, and partials of an output.
    """
    cycles = [_cycles(target, op, data_type, outputs, outputs * factor) for outputs, factor in reductions]
    most = [min(factor // 2, (_BEGIN + c) // 4) for (_, factor), c in zip(reductions, cycles, strict=True)]
    splits = [1] * len(reductions)

    def taken(index: int, split: int) -> int:
        return _BEGIN + cycles[index] if split == 1 else _BEGIN_SPLIT + -(-cycles[index] // split)

    before = max(taken(i, 1) for i in range(len(splits)))
    for _ in range(target.workers - len(reductions)):
        costliest = max(range(len(splits)), key=lambda i: taken(i, splits[i]))
        split = splits[costliest] + 1
        if split >= most[costliest] or taken(costliest, split) >= taken(costliest, splits[costliest]):
            break
        splits[costliest] = split
    return tuple(splits) if max(taken(i, s) for i, s in enumerate(splits)) < before else (1,) * len(splits)


def assigned_workers(target: Target, op: str, data_type: str, reductions: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Which worker takes each of a tile's reductions.

    Parameters
    ----------
    target, op, data_type, reductions
        As for `stages_of_workers`.
    """
    cycles = [_cycles(target, op, data_type, outputs, outputs * factor) for outputs, factor in reductions]
    mean = Fraction(sum(cycles), len(cycles))
    near = max(Fraction(_NEAR), mean / 10)
    if all(abs(c - mean) <= near for c in cycles):
        each = -(-len(cycles) // target.workers)
        return tuple(i // each for i in range(len(cycles)))
    load, made = [0] * target.workers, [0] * len(cycles)
    for place, index in enumerate(sorted(range(len(cycles)), key=cycles.__getitem__)):
        worker = place if place < target.workers else min(range(target.workers), key=load.__getitem__)
        load[worker] += cycles[index]
        made[index] = worker
    return tuple(made)
