"""Where elements live: dealt out to tiles, and a tile's to its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..checks import instance, whole
from .machine import Target

Runs = tuple[tuple[int, int], ...]
"""Regions, one after another, by their elements: ``(elements, how many such regions)``."""

_MOST = 1 << 62
_TILE_BYTES = 128  # that are worth a tile, in PopLibs' linear mapping


def split_regions(sizes: Sequence[int], grain: int, parts: int, *, least: int = 0, most: int = _MOST,
                  most_in_region: int = _MOST) -> tuple[Runs, ...]:
    """Deal out regions in grains, as evenly as may be and in order (PopLibs' ``splitRegions``).

    Parameters
    ----------
    sizes : sequence of int
        Elements of each region.
    grain : int
        Elements that stay together.
    parts : int
        To deal out to, at most; more where `most` asks for it.
    least, most : int, optional
        Elements of a part.
    most_in_region : int, optional
        Elements of a region; longer ones are cut.

    Returns
    -------
    tuple of Runs
        For each part its regions.

    Examples
    --------
    >>> from poplibs_py.target.mapping import split_regions
    >>> split_regions([20, 118, 11], 1, 6)
    (((20, 1), (4, 1)), ((25, 1),), ((25, 1),), ((25, 1),), ((25, 1),), ((14, 1), (11, 1)))
    >>> split_regions([100], 4, 2, most_in_region=18)
    (((16, 3),), ((16, 3), (4, 1)))
    """
    ends = list(accumulate(whole("sizes", n, 0, _MOST) for n in sizes))
    total = ends[-1] if ends else 0
    count = _parts(total, grain, parts, least, most)
    grains, longest = -(-total // grain), max(1, most_in_region // grain) * grain
    edges = [min(p * grains // count * grain, total) for p in range(count)] + [total]
    made, region = [], 0
    for begin, end in pairwise(edges):
        runs: list[tuple[int, int]] = []
        while begin < end:
            while ends[region] <= begin:
                region += 1
            stop = min(end, ends[region])
            whole_ones, rest = divmod(stop - begin, longest)
            runs += [(longest, whole_ones)] * (whole_ones > 0) + [(rest, 1)] * (rest > 0)
            begin = stop
        made.append(tuple(runs))
    return tuple(made)


def _parts(total: int, grain: int, parts: int, least: int, most: int) -> int:
    """How many parts PopLibs deals grains out to."""
    grains = -(-total // grain)
    each = max(1, min(-(-grains // parts), most // grain))
    if least:
        each = max(each, -(-grains // max(1, grains // -(-least // grain))))
    return -(-grains // each)


def split_between_workers(target: Target, sizes: Sequence[int], grain: int, *, least: int = 0, most: int = _MOST,
                          most_in_region: int = _MOST) -> tuple[Runs, ...]:
    """Deal out a tile's regions to its workers (PopLibs' ``splitRegionsBetweenWorkers``): see `split_regions`."""
    instance("target", target, Target, "a Target")
    return split_regions(sizes, grain, target.workers, least=least, most=most, most_in_region=most_in_region)


@dataclass(frozen=True)
class LinearMapping:
    """Elements dealt out to tiles from the first on, each tile's one run of neighbours.

    Attributes
    ----------
    elements : int
        In all.
    grain : int
        Elements that stay together.
    tiles : int
        That hold some.

    Examples
    --------
    >>> from poplibs_py.target import Target, linear_mapping
    >>> mapping = linear_mapping(Target.gc200(), 1414, 4)
    >>> mapping.tiles, mapping.classes
    (42, ((34, 35), (32, 7)))
    >>> mapping.edges()[:4].tolist()
    [0, 32, 66, 100]
    """

    elements: int
    grain: int
    tiles: int

    @property
    def classes(self) -> Runs:
        """The distinct shares, largest first: ``(elements, how many tiles hold so many)``."""
        if not self.tiles:
            return ()
        grains = -(-self.elements // self.grain)
        each, more = divmod(grains, self.tiles)
        missing = grains * self.grain - self.elements  # the last tile's share, which is a larger one, is less by these
        counts: dict[int, int] = {}
        last = (each + (more > 0)) * self.grain - missing
        larger = (more or self.tiles) - 1
        shares = (((each + (more > 0)) * self.grain, larger), (each * self.grain, self.tiles - 1 - larger), (last, 1))
        for elements, tiles in shares:
            if tiles:
                counts[elements] = counts.get(elements, 0) + tiles
        return tuple(sorted(counts.items(), reverse=True))

    def edges(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the element that each tile begins with, and the number of all."""
        grains = -(-self.elements // self.grain)
        firsts = np.arange(self.tiles + 1, dtype=np.int64) * grains // max(1, self.tiles) * self.grain
        return np.minimum(firsts, self.elements)


def linear_mapping(target: Target, elements: int, itemsize: int, *, grain: int | None = None,
                   least: int | None = None) -> LinearMapping:
    """Map an array to tiles in the order of its elements (PopLibs' ``mapTensorLinearly``).

    Parameters
    ----------
    target : Target
    elements : int
    itemsize : int
        Bytes of each.
    grain : int, optional
        Elements that stay together; by default those of one load.
    least : int, optional
        Elements that are worth a tile; by default 128 bytes of them.
    """
    instance("target", target, Target, "a Target")
    elements, itemsize = whole("elements", elements, 0, _MOST), whole("itemsize", itemsize, 1, 1 << 16)
    grain = target.elements_of_a_load(itemsize) if grain is None else whole("grain", grain, 1, _MOST)
    least = -(-_TILE_BYTES // itemsize) if least is None else whole("least", least, 0, _MOST)
    return LinearMapping(elements, grain, _parts(elements, grain, target.tiles, least, _MOST))
