"""Which tile has which blocks of an experimental block-sparse product: PopLibs' strips, and plain runs of blocks."""

from __future__ import annotations

import heapq

import numpy as np

from ...formats import Array


def strip_tiles(counts: Array, tiles: int) -> Array:
    """Return the tile of each block, column by column: PopLibs' ``strip``.

    Columns are dealt to parts, the heaviest first and to the lightest part; parts have equally many tiles, and the
    heaviest one more of those that are left over. Inside a part tiles go to columns by their blocks, and a column's
    blocks are split evenly.

    Parameters
    ----------
    counts : numpy.ndarray of int
        Stored blocks of each block column.
    tiles : int

    Examples
    --------
    >>> strip_tiles(np.array([4, 2, 2]), 4).tolist()
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    each = min(max(2 * tiles // counts.size, 1), tiles)
    parts = tiles // each
    part_of, weights = _dealt(counts, parts)
    mine = np.full(parts, each, np.int64)
    mine[np.argsort(-weights, kind="stable")[:tiles - parts * each]] += 1
    starts, ends = np.cumsum(mine) - mine, np.cumsum(counts)
    found = np.zeros(int(counts.sum()), np.int64)
    for part in range(parts):
        columns = np.flatnonzero((part_of == part) & (counts > 0))
        if columns.size > mine[part]:
            which, _ = _dealt(counts[columns], int(mine[part]))
            first, spread = starts[part] + which, np.ones(columns.size, np.int64)
        else:
            spread = _shared(counts[columns], int(mine[part]))
            first = starts[part] + np.cumsum(spread) - spread
        for column, tile, several in zip(columns, first, spread, strict=True):
            blocks = int(counts[column])
            found[ends[column] - blocks:ends[column]] = tile + np.arange(blocks) * several // blocks
    return found


def run_tiles(blocks: int, tiles: int) -> Array:
    """Return the tile of each block where tiles have equal runs of them."""
    used = min(blocks, tiles)
    return np.arange(blocks) * used // max(1, blocks)


def grid_of(tiles: int, rows: int) -> tuple[int, int]:
    """Return parts of the dense operand's rows, and tiles of each, of plain runs of blocks."""
    parts = max(1, min(rows, int(tiles**0.5)))
    return parts, tiles // parts


def balance_of(work: Array) -> tuple[float, int]:
    """Return PopLibs' measure of balance, the most by which a tile's work is above or below the mean, as a ratio of the
    two; and how many tiles have none. The mean is that of the tiles that have work."""
    used = work[work > 0].astype(np.float64)
    if not used.size:
        return 1.0, work.size
    mean = used.mean()
    return float(max(used.max() / mean, mean / used.min())), int(work.size - used.size)


def _dealt(weights: Array, parts: int) -> tuple[Array, Array]:
    """Deal weights out, the heaviest first and to the part that is lightest; return whose each is, and the sums."""
    whose, sums = np.zeros(weights.size, np.int64), np.zeros(parts, np.int64)
    heap = [(0, part) for part in range(parts)]
    for i in np.argsort(-weights, kind="stable").tolist():
        weight, part = heap[0]
        whose[i] = part
        sums[part] = weight + int(weights[i])
        heapq.heapreplace(heap, (int(sums[part]), part))
    return whose, sums


def _shared(weights: Array, tiles: int) -> Array:
    """Return the tiles of each weight: one, then one more for what is heaviest on its tiles, at most its weight."""
    shares = np.ones(weights.size, np.int64)
    heap = [(-float(weight), i) for i, weight in enumerate(weights.tolist()) if weight > 1]
    heapq.heapify(heap)
    for _ in range(tiles - weights.size):
        if not heap:
            break
        _, i = heap[0]
        shares[i] += 1
        if shares[i] < weights[i]:
            heapq.heapreplace(heap, (-float(weights[i]) / int(shares[i]), i))
        else:
            heapq.heappop(heap)
    return shares
