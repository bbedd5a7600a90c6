"""Two reports side by side: what became faster or smaller, and which decisions changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .records import Operation, Report
from .tables import pairs, table
from .verdict import amount, bought, duration, fullest

__all__ = ["HEADS", "Comparison", "Pair"]

HEADS = "operation", "time A", "time B", "B of A", "temporary A", "temporary B", "what changed"
"""Of the rows of a comparison."""


@dataclass(frozen=True)
class Pair:
    """An operation of one report and the same one of the other, by their places; None where one lacks it."""

    before: int | None
    after: int | None


@dataclass(frozen=True)
class Comparison:
    """Two reports compared: ``b.compare(a)`` of two profiles, or ``poplibs-py report compare A B``.

    Operations are the same if their names, shapes and formats are; those that occur under several plans are matched in
    the order of their first calls.

    Attributes
    ----------
    before, after : Report
    """

    before: Report
    after: Report

    @property
    def matched(self) -> list[Pair]:
        """The operations, those that the reports are about first, by the time that they take in either."""
        waiting: dict[tuple[str, str], list[int]] = {}
        for i, op in enumerate(self.after.operations):
            waiting.setdefault((op.op, op.what), []).append(i)
        found = []
        for i, op in enumerate(self.before.operations):
            rest = waiting.get((op.op, op.what), [])
            found.append(Pair(i, rest.pop(0) if rest else None))
        found += [Pair(None, i) for rest in waiting.values() for i in rest]
        subjects = set(self.before.subjects()), set(self.after.subjects())
        return sorted(found, key=lambda pair: (pair.before not in subjects[0] and pair.after not in subjects[1],
                                               -max(self._seconds(pair))))

    def _seconds(self, pair: Pair) -> tuple[float, float]:
        return (0.0 if pair.before is None else self.before.seconds[pair.before],
                0.0 if pair.after is None else self.after.seconds[pair.after])

    def operations(self, pair: Pair) -> tuple[Operation | None, Operation | None]:
        """Return the operations of a pair."""
        return (None if pair.before is None else self.before.operations[pair.before],
                None if pair.after is None else self.after.operations[pair.after])

    def rows(self) -> Iterator[tuple[str, str, str, str, str, str, str]]:
        """Rows of a table: operation, times and how they changed, temporaries, what else changed."""
        for pair in self.matched:
            before, after = self.operations(pair)
            first, second = self._seconds(pair)
            name = self.after.names[pair.after] if pair.before is None and pair.after is not None else (
                self.before.names[pair.before or 0])
            yield (name, duration(first) if before else "", duration(second) if after else "",
                   f"{second / first:.2f}" if before and after and first else "",
                   amount(before.temporary_use) if before else "", amount(after.temporary_use) if after else "",
                   "; ".join(changes(before, after)) if before and after else f"only in {'A' if before else 'B'}")

    def headline(self) -> Iterator[tuple[str, str]]:
        """What changed in all: a question, and the answer in words."""
        yield "A, B", f"{_described(self.before)}; {_described(self.after)}"
        subjects = set(self.before.subjects()), set(self.after.subjects())
        met = [(i, j) for i, j in ((pair.before, pair.after) for pair in self.matched)
               if i in subjects[0] and j in subjects[1]]
        spent = [(self.before.seconds[i], self.after.seconds[j], self.before.operations[i].name) for i, j in met]
        first, second = sum(a for a, _, _ in spent), sum(b for _, b, _ in spent)
        if first and second:
            word = "faster" if second < first else "slower"
            ratio = max(first / second, second / first)
            yield "Time", (f"{duration(first)} in A, {duration(second)} in B: {ratio:.2f} times as "
                           f"{'fast' if word == 'faster' else 'long'} ({len(met)} in both)")
            gained = sorted(spent, key=lambda each: each[1] - each[0])
            for word, (a, b, name) in (("Gains most", gained[0]), ("Loses most", gained[-1])):
                if (b < a) == (word == "Gains most") and a != b:
                    yield word, f"{name}: {duration(a)} to {duration(b)}"
        tiles = fullest(self.before), fullest(self.after)
        if tiles[0] and tiles[1]:
            yield "Fullest tile", f"{amount(tiles[0].bytes)} in A, {amount(tiles[1].bytes)} in B"
        bought = self._bought(met)
        if bought:
            yield "What memory bought", bought

    def _bought(self, met: list[tuple[int, int]]) -> str:
        """What a change of the limit on temporaries did, on one machine."""
        for i, j in met:
            before, after = self.before.operations[i], self.after.operations[j]
            if not before.modelled and self.before.machine != self.after.machine:
                continue
            seconds = self.before.call_seconds(i), self.after.call_seconds(j)
            if said := bought(before, after, seconds):
                return said
        return ""

    def summary(self) -> str:
        """Return tables for a terminal."""
        return f"{pairs(self.headline())}\n\n{table(HEADS, self.rows())}"

    __str__ = summary


def changes(before: Operation, after: Operation) -> Iterator[str]:
    """What was decided otherwise, in words."""
    a, b = before.plan, after.plan
    if a.machine != b.machine:
        yield f"{a.machine} to {b.machine}"
    if before.kernel != after.kernel and not (before.modelled or after.modelled):
        yield f"kernel {before.kernel} to {after.kernel}"
    for name in (*a.settings, *(name for name in b.settings if name not in a.settings)):
        if a.settings.get(name) != b.settings.get(name):
            yield f"{name} {a.settings.get(name, 'default')} to {b.settings.get(name, 'default')}"
    if a.machine != "host" and b.machine != "host":
        other = [name for name, value in a.decisions.items() if b.decisions.get(name) != value and name in _TOLD]
        yield from (f"{name} {a.decisions[name]} to {b.decisions.get(name, 'none')}" for name in other)
    if before.fits != after.fits:
        yield "fits now" if after.fits else "fits no more"


_TOLD = "method", "turns", "groupings"


def _described(report: Report) -> str:
    return f"{report.title} on {report.where}, {report.made}"
