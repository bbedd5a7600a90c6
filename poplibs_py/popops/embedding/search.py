"""The partition of an embedding that costs least: all of them are measured at once.

In more turns an embedding never takes fewer cycles, and never more memory: only the fewest turns in which a partition
fits need be measured.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .model import EmbeddingModel, Partition

__all__ = ["Found", "least_cycles"]

_NEVER = np.iinfo(np.int64).max
_Ints = np.ndarray[Any, np.dtype[np.int64]]


class Found(NamedTuple):
    """The best partition, its cycles, and whether it uses that indices are in order."""

    partition: Partition
    cycles: int
    ordered: bool


def _splits(extent: int, most: int) -> _Ints:
    """The least number of parts for each size of the largest."""
    small = np.arange(1, min(most, int(extent**0.5) + 1) + 1)
    sizes = np.arange(1, int(extent**0.5) + 2)
    every = np.union1d(small, -(-extent // sizes))
    return every[(every <= most) & ((every - 1) * -(-extent // every) < extent)].astype(np.int64)


def _turns(lookups: int, tiles: int, split: bool) -> tuple[_Ints, _Ints, _Ints, _Ints]:
    """Splits of lookups over tiles; and of each the possible numbers of turns: where they begin and end in a list."""
    if not split:
        one = np.ones(1, np.int64)
        return one, np.zeros(1, np.int64), one, one
    totals, parallel = _splits(lookups, lookups), np.arange(1, min(lookups, tiles) + 1)
    which, total = np.nonzero(totals % parallel[:, None] == 0)
    distinct, first, count = np.unique(parallel[which], return_index=True, return_counts=True)
    return distinct, first, first + count, totals[total] // parallel[which]


def _tiles_used(parallel: _Ints, sliced: _Ints, unsliced: _Ints, group: _Ints, tiles: int) -> list[_Ints]:
    """Places of those splits whose product is no more than the tiles there are."""
    used, places = np.ones(1, np.int64), list[_Ints]()
    for splits in (group, unsliced, parallel, sliced):
        product = used[:, None] * splits
        before, here = np.nonzero(product <= tiles)
        places = [p[before] for p in places] + [here]
        used = product[before, here]
    return places


def least_cycles(model: EmbeddingModel, limit: int | None) -> Found | None:
    """Return the partition of fewest cycles within a limit of bytes; None where none fits."""
    p, o, tiles = model.params, model.options, model.target.tiles
    split = not (o.used_for_update and o.operation == "NONE")
    parallel, first, last, serial = _turns(p.most_lookups, tiles, split)
    group, unsliced = _splits(p.groups, p.groups), _splits(model.grains, model.grains)
    sliced = _splits(p.entries, min(-(-p.entries // 2), tiles))
    at_group, at_unsliced, at_parallel, at_sliced = _tiles_used(parallel, sliced, unsliced, group, tiles)
    cut = parallel[at_parallel], sliced[at_sliced], unsliced[at_unsliced], group[at_group]
    space = _Space(model, limit, cut, serial)
    low, high, best = first[at_parallel], last[at_parallel] - 1, None
    for ordered in (False, True)[:1 + o.in_order]:
        best = space.least(low, high, ordered, best)
    return best


class _Space(NamedTuple):
    """Partitions of an embedding that differ in more than turns."""

    model: EmbeddingModel
    limit: int | None
    cut: tuple[_Ints, ...]
    serial: _Ints

    def at(self, precopy: int, turns: _Ints, which: Any = slice(None)) -> Partition:
        """Some of them, each in so many turns, which are told by their place."""
        parallel, *others = self.cut
        return Partition(precopy, self.serial[turns], parallel[which], *(splits[which] for splits in others))

    def fits(self, at: Partition) -> Any:
        """Which of them are allowed."""
        allowed = self.model.allowed(at)
        return allowed if self.limit is None else allowed & (self.model.peak_bytes(at) <= self.limit)

    def least(self, low: _Ints, high: _Ints, ordered: bool, best: Found | None) -> Found | None:
        """The best of all and of what was found before."""
        cycles, few = self.model.total_cycles(self.at(0, low), ordered), self.fits(self.at(0, low))
        most = min(best.cycles if best else _NEVER, int(cycles[few].min(initial=_NEVER)))
        here = np.flatnonzero(few & (cycles <= most))
        best = self._better(0, low[here], here, ordered, best)
        # what does not fit in the fewest turns may in more, which take longer
        left = np.flatnonzero(~few & (cycles <= most) & (low < high))
        for precopy in (0, 1)[:1 + self.model.options.used_for_slice]:
            fitting = left[self.fits(self.at(precopy, high[left], left))]
            turns = self._fewest(precopy, low[fitting], high[fitting], fitting)
            best = self._better(precopy, turns, fitting, ordered, best)
        return best

    def _fewest(self, precopy: int, low: _Ints, high: _Ints, which: _Ints) -> _Ints:
        """The fewest turns in which each partition fits: not in `low`, but in `high`."""
        while (high - low > 1).any():
            middle = (low + high) // 2
            enough = self.fits(self.at(precopy, middle, which))
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def _better(self, precopy: int, turns: _Ints, which: _Ints, ordered: bool, best: Found | None) -> Found | None:
        """The best of some and of what was found before; of equal ones that which the solver of PopLibs finds first."""
        if not len(which):
            return best
        cycles = self.model.total_cycles(self.at(precopy, turns, which), ordered)
        ties = np.flatnonzero(cycles == cycles.min())
        splits = (self.serial[turns[ties]], *(column[which[ties]] for column in self.cut))
        first = np.lexsort(splits[::-1])[0]
        found = Found(Partition(precopy, *(int(column[first]) for column in splits)), int(cycles.min()), ordered)
        return found if best is None or _order(found) < _order(best) else best


def _order(found: Found) -> tuple[Any, ...]:
    """What is found first: fewest cycles, then without the order of indices, then in the fewest turns."""
    return found.cycles, found.ordered, found.partition.serial, found.partition
