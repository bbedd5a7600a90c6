"""What was considered for a plan, and why all but one lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

__all__ = ["Considered", "Explanation"]


@dataclasses.dataclass(frozen=True)
class Considered:
    """One candidate: what it is, what it costs at its best, and what became of it.

    `cycles` and `temp_bytes` are None where the candidate has no plan, or none worth costing.
    """

    name: str
    cycles: int | None
    temp_bytes: int | None
    verdict: str
    chosen: bool = False


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The candidates of one search, in the order they were tried. ``print(explanation)`` is a table."""

    considered: tuple[Considered, ...]

    @property
    def chosen(self) -> Considered:
        """The one that won."""
        return next(c for c in self.considered if c.chosen)

    def best(self, count: int) -> Explanation:
        """The so many cheapest, the chosen one first; those without a plan come last."""
        ranked = sorted(self.considered, key=lambda c: (not c.chosen, c.cycles is None, c.cycles or 0))
        return Explanation(tuple(ranked[:count]))

    def __len__(self) -> int:
        return len(self.considered)

    def __iter__(self) -> Iterator[Considered]:
        return iter(self.considered)

    def __str__(self) -> str:
        width = max(len(c.name) for c in self.considered)
        lines = [f"  {'candidate':<{width}}{'cycles':>16}{'bytes':>12}  verdict"]
        for c in self.considered:
            cycles = "-" if c.cycles is None else f"{c.cycles:,}"
            size = "-" if c.temp_bytes is None else f"{c.temp_bytes:,}"
            mark = "*" if c.chosen else " "
            lines.append(f"{mark} {c.name:<{width}}{cycles:>16}{size:>12}  {c.verdict}")
        return "\n".join(lines)
