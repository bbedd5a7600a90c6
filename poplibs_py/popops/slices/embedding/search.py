"""The partition of an embedding that costs least: all of them are measured at once.

Where an embedding fits in one turn it need not be measured in more, which take longer. More turns take no more memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ....planner.partitions import Ints, choices_within, least_splits
from .model import EmbeddingModel, Partition

_AT_ONCE = 4096


class Found(NamedTuple):
    """The best partition, its cycles, and whether it uses that indices are in order."""

    partition: Partition
    cycles: int
    ordered: bool


def _only(splits: Ints, required: int | None) -> Ints:
    """The splits that a plan may have: all, or the one that is required."""
    return splits if required is None else splits[splits == required]


def _turns(lookups: int, tiles: int, required: Mapping[str, int]) -> tuple[Ints, Ints, Ints, Ints]:
    """Splits of lookups over tiles; and of each the possible numbers of turns: where they begin and end in a list."""
    totals = least_splits(lookups, lookups)
    every = _only(np.arange(1, min(lookups, tiles) + 1), required.get("lookupParallelSplit"))
    found = [(p, _only(totals[totals % p == 0] // p, required.get("lookupSerialSplit"))) for p in every]
    kept = [(p, serial) for p, serial in found if len(serial)]
    ends = np.cumsum([0] + [len(serial) for _, serial in kept])
    return (np.array([p for p, _ in kept], np.int64), ends[:-1], ends[1:],
            np.concatenate([np.empty(0, np.int64), *(serial for _, serial in kept)]))


def least_cycles(model: EmbeddingModel, limit: int | None) -> Found | None:
    """Return the partition of fewest cycles within a limit of bytes; None where none fits."""
    p, o, tiles, required = model.params, model.options, model.target.tiles, dict(model.options.plan_constraints)
    whole = o.used_for_update and model.operation == "NONE"
    parallel, first, last, serial = _turns(1 if whole else p.most_lookups, tiles, required)
    group = _only(least_splits(p.groups, p.groups), required.get("groupSplit"))
    unsliced = _only(least_splits(model.grains, model.grains), required.get("unslicedDimSplit"))
    sliced = _only(least_splits(p.entries, min(-(-p.entries // 2), tiles)), required.get("slicedDimSplit"))
    groups, columns, copies, rows = choices_within(tiles, [group, unsliced, parallel, sliced])
    place = np.searchsorted(parallel, copies)
    precopies = _choices(o.used_for_slice, required.get("precopyBaseWhenSerialSlice"))
    space = _Space(model, limit, (copies, rows, columns, groups), serial, precopies)
    low, high, best = first[place], last[place] - 1, None
    for ordered in _choices(o.indices_are_sorted, required.get("useOrderingInfo")):
        best = space.least(low, high, bool(ordered), best)
    return best


def _choices(possible: bool, required: int | None) -> list[int]:
    """Of no and yes those that a plan may choose."""
    return [choice for choice in (0, 1)[:1 + possible] if required in (None, choice)]


class _Space(NamedTuple):
    """Partitions of an embedding that differ in more than turns."""

    model: EmbeddingModel
    limit: int | None
    cut: tuple[Ints, ...]
    serial: Ints
    precopies: list[int]

    def at(self, precopy: int, turns: Ints, which: Any = slice(None)) -> Partition:
        """Some of them, each in so many turns, which are told by their place."""
        parallel, *others = self.cut
        return Partition(precopy, self.serial[turns], parallel[which], *(splits[which] for splits in others))

    def fits(self, at: Partition) -> Any:
        """Which of them are allowed."""
        allowed = self.model.allowed(at)
        return allowed if self.limit is None else allowed & (self.model.peak_bytes(at) <= self.limit)

    def least(self, low: Ints, high: Ints, ordered: bool, best: Found | None) -> Found | None:
        """The best of all and of what was found before."""
        if not len(low) or not self.precopies:
            return best
        bound = self.model.least_cycles(self.at(self.precopies[0], low), ordered)
        sooner = np.argsort(bound, kind="stable")
        for begin in range(0, len(sooner), _AT_ONCE):
            some = sooner[begin:begin + _AT_ONCE]
            if best is not None and bound[some[0]] > best.cycles:
                break
            best = self._of_some(low[some], high[some], some, ordered, best)
        return best

    def _of_some(self, low: Ints, high: Ints, which: Ints, ordered: bool, best: Found | None) -> Found | None:
        """The best of some and of what was found before."""
        once = self.precopies[0]  # with so few turns the other choice is no better
        few = self.fits(self.at(once, low, which))
        best = self._better(once, low[few], which[few], ordered, best)
        # what does not fit in the fewest turns may in more, which take longer than those would
        left = np.flatnonzero(~few & (low < high))
        for precopy in self.precopies:
            fitting = left[self.fits(self.at(precopy, high[left], which[left]))]
            if best is not None:
                cycles = self.model.total_cycles(self.at(precopy, low[fitting], which[fitting]), ordered)
                fitting = fitting[cycles <= best.cycles]
            turns = self._fewest(precopy, low[fitting], high[fitting], which[fitting])
            best = self._in_turns(precopy, turns, high[fitting], which[fitting], ordered, best)
        return best

    def _in_turns(self, precopy: int, turns: Ints, high: Ints, which: Ints, ordered: bool,
                  best: Found | None) -> Found | None:
        """The best in so many turns or more, and of what was found before."""
        if not len(which):
            return best
        # a turn takes no less than one of the most turns there are
        turn = self.model.total_cycles(self.at(precopy, high, which), ordered) // self.serial[high]
        while len(which):
            best = self._better(precopy, turns, which, ordered, best)
            more = np.minimum(turns + 1, high)
            assert best is not None
            left = (turns < high) & (turn * self.serial[more] <= best.cycles)
            turns, high, which, turn = more[left], high[left], which[left], turn[left]
        return best

    def _fewest(self, precopy: int, low: Ints, high: Ints, which: Ints) -> Ints:
        """The fewest turns in which each partition fits: not in `low`, but in `high`."""
        while (high - low > 1).any():
            middle = (low + high) // 2
            enough = self.fits(self.at(precopy, middle, which))
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def _better(self, precopy: int, turns: Ints, which: Ints, ordered: bool, best: Found | None) -> Found | None:
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
