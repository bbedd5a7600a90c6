"""How work is shared: how many threads it is worth, and which tile each of its items goes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..checks import whole
from .program import Program, Segment


def threads_for(work: int, each: int, most: int) -> int:
    """Return how many threads so much work is worth: one for each `each` of it, from 1 to `most`.

    Examples
    --------
    >>> from poplibs_py.program import threads_for
    >>> threads_for(10, 100, 8), threads_for(350, 100, 8), threads_for(10_000, 100, 8)
    (1, 3, 8)
    """
    return max(1, min(most, work // each))


def spread(items: int, tiles: int) -> np.ndarray[Any, Any]:
    """Return the tile of each item: runs of neighbours, as equal as may be.

    Examples
    --------
    >>> from poplibs_py.program import spread
    >>> spread(5, 2).tolist(), spread(2, 4).tolist()
    ([0, 0, 0, 1, 1], [0, 2])
    """
    return np.arange(items) * tiles // max(1, items)


def spread_by_work(works: Sequence[tuple[float, int]], tiles: int) -> list[np.ndarray[Any, Any]]:
    """Return the tiles of the items of several kinds of work, so that tiles differ by an item at most.

    Parameters
    ----------
    works : sequence of (float, int)
        The work of a kind, and its items, which are alike. The greatest items come first: as many as all tiles take
        are spread over these in runs of neighbours, and what is left goes to those that have least so far.
    tiles : int

    Examples
    --------
    >>> from poplibs_py.program.shares import spread_by_work
    >>> [part.tolist() for part in spread_by_work([(10, 1), (40, 2), (20, 1), (20, 1)], 2)]
    [[0], [0, 1], [0], [1]]
    """
    load, found = np.zeros(tiles), [np.empty(0, int)] * len(works)
    item = [work / max(1, items) for work, items in works]
    for i in sorted(range(len(works)), key=lambda i: -item[i]):
        left = works[i][1] % tiles
        free = np.argsort(load, kind="stable")[:left]
        found[i] = np.sort(np.r_[spread(works[i][1] - left, tiles), free])
        np.add.at(load, free, item[i])
    return found


def segment_by_work(vertex: int, kinds: Sequence[tuple[np.ndarray[Any, Any], float]], tiles: int) -> Segment:
    """Return a segment of items of several kinds, each with the work of all its items, dealt out by that."""
    items = np.concatenate([some for some, _ in kinds])
    where = np.concatenate(spread_by_work([(work, len(some)) for some, work in kinds], tiles))
    order = np.argsort(where, kind="stable")
    return Segment(vertex, items[order], where[order])


def shares_of(units: int, threads: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return each thread's first unit and how many it has: runs of neighbours, as equal as may be.

    Parameters
    ----------
    units : int
        What is dealt out.
    threads : int

    Examples
    --------
    >>> from poplibs_py.program import shares_of
    >>> [part.tolist() for part in shares_of(5, 2)]
    [[0, 2], [2, 3]]
    """
    units, threads = whole("units", units, 0, 1 << 62), whole("threads", threads, 1, 1 << 16)
    edges = np.arange(threads + 1) * units // threads
    return edges[:-1], np.diff(edges)


def items_of_threads(threads: int, *programs: Program) -> np.ndarray[Any, Any]:
    """Return how many items each thread has of programs, in all turns."""
    items = np.zeros(threads, np.int64)
    for program in programs:
        firsts = np.arange(1, threads) * program.tiles // threads
        segments = ((segment, loop.turns) for loop in program.loops for step in loop.body
                    for segment in getattr(step, "segments", ()))
        for segment, turns in segments:
            taken = np.bincount(np.searchsorted(firsts, segment.tiles, "right"), minlength=threads)
            items += taken * (1 if segment.turns is not None else turns)
    return items
