"""What finding the greatest elements costs on a modelled machine: its first stage on tiles, and vertices' cycles.

The vertices for the smallest cost the same.
"""

from __future__ import annotations

from typing import NamedTuple

from ...target import Target

_LEAST_OF_A_WORKER = 32
_FLOATS = ("float", "half")


class ArgmaxPiece(NamedTuple):
    """What one vertex of the first stage takes: part of a row on a tile, and how its workers share it."""

    tile: int
    row: int
    offset: int
    size: int
    each: int
    workers: int


def argmax_split(target: Target, rows: int, columns: int) -> tuple[ArgmaxPiece, ...]:
    """Deal rows out to tiles, from the last tile down, for the first stage of an argmax.

    Examples
    --------
    >>> from poplibs_py.popops.vertices.argmax import argmax_split
    >>> from poplibs_py.target import Target
    >>> [tuple(piece) for piece in argmax_split(Target.small(4), 1, 400)]
    [(3, 0, 0, 133, 32, 5), (2, 0, 133, 133, 32, 5), (1, 0, 266, 134, 32, 5)]
    """
    total, workers = rows * columns, target.workers
    tiles = -(-total // max(workers * _LEAST_OF_A_WORKER, -(-total // target.tiles)))
    made = []
    for share in range(tiles):
        begin, end = share * total // tiles, (share + 1) * total // tiles
        while begin < end:
            row, offset = divmod(begin, columns)
            size = min(end - begin, columns - offset)
            each = _LEAST_OF_A_WORKER
            if size // workers >= each:
                each = min(-(-size // workers), target.repeat_count_max)
            made.append(ArgmaxPiece(target.tiles - 1 - share, row, offset, size, each, -(-size // each)))
            begin += size
    return tuple(made)


def gather_cycles(target: Target, data_type: str, size: int, each: int) -> int:
    """Cycles of a tile whose workers find the greatest of `each` elements (``ReduceMaxClassGather``)."""
    if data_type in _FLOATS:
        return 9 + target.workers * (30 + 3 * (min(each, size) - 1))
    return 9 + target.workers * (22 + -(-size // each) * (6 * each + 25))


def sparse_cycles(data_type: str, size: int) -> int:
    """Cycles of a worker that finds the greatest of what was found before (``ReduceMaxClassSparse``)."""
    return 27 + 3 * (size - 1) if data_type in _FLOATS else 23 + 6 * size
