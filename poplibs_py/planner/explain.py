"""What a plan decided, what else was considered, and why that lost: what `explain()` of every plan returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import singledispatch
from typing import Any, Protocol, runtime_checkable

from ..checks import whole
from ..formats import Format
from ..kernels import Selection
from .ladder import Temporaries

BEST = 10
"""Candidates that are told where nobody asks for all."""


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
    """Why a plan is as it is: what every plan's `explain` returns.

    ``print(explanation)`` shows the problem and the decisions, which `print` of a plan of this CPU shows too, then the
    ten best candidates as a table, and how many others there were; `details` has them all.

    Attributes
    ----------
    problem : str
        The op, its shapes and formats.
    decisions : dict of str to str
        What was decided, in order: a word for the decision, and the decision in words.
    considered : tuple of Considered
        The candidates of one search, in the order they were tried: plans of a modelled machine, kernels of this CPU.
        An explanation is iterated over, and counted, by them.

    Examples
    --------
    >>> from poplibs_py import poplin
    >>> explanation = poplin.plan_matmul((2, 3), (3, 4)).explain()
    >>> explanation.problem
    'matmul [2, 3] x [3, 4]: float32 x float32 -> float32'
    >>> explanation.chosen.name in explanation.decisions["kernel"]
    True
    """

    problem: str
    decisions: dict[str, str]
    considered: tuple[Considered, ...] = ()

    @property
    def chosen(self) -> Considered:
        """The one that won."""
        return next(c for c in self.considered if c.chosen)

    def best(self, count: int) -> Explanation:
        """The so many cheapest, the chosen one first; those without a plan come last."""
        count = whole("count", count, 0, 1 << 62)
        ranked = sorted(self.considered, key=lambda c: (not c.chosen, c.cycles is None, c.cycles or 0))
        return dataclasses.replace(self, considered=tuple(ranked[:count]))

    def words(self) -> str:
        """Return the problem and one line for each decision."""
        return "\n".join([self.problem, *(f"  {name:<{max(10, len(name) + 2)}}{decision}"
                                          for name, decision in self.decisions.items())])

    def __len__(self) -> int:
        return len(self.considered)

    def __iter__(self) -> Iterator[Considered]:
        return iter(self.considered)

    def details(self) -> str:
        """Return what `print` shows, with every candidate in the order that they were tried."""
        return "\n".join([self.words(), *self.table()])

    def __str__(self) -> str:
        others = len(self) - BEST
        if others <= 0:
            return self.details()
        return f"{self.best(BEST).details()}\n  and {others} others: see details()"

    def table(self) -> list[str]:
        """Return the lines of a table of the candidates; none where there are none."""
        if not self.considered:
            return []
        width = max(len(c.name) for c in self.considered)
        lines = [f"  {'candidate':<{width}}{'cycles':>16}{'bytes':>12}  verdict"]
        for c in self.considered:
            cycles = "-" if c.cycles is None else f"{c.cycles:,}"
            size = "-" if c.temp_bytes is None else f"{c.temp_bytes:,}"
            mark = "*" if c.chosen else " "
            lines.append(f"{mark} {c.name:<{width}}{cycles:>16}{size:>12}  {c.verdict}")
        return lines


class Explained:
    """What can explain itself, and prints what that says."""

    def explain(self) -> Explanation:
        """Return what was decided, and what was considered in its place."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.explain().words()


class Plan(Protocol):
    """What every plan offers to records."""

    @property
    def flops(self) -> int | None:
        """Multiplications and additions, where they are counted."""

    def explain(self) -> Explanation:
        """Return what was decided, and what was considered in its place."""


@runtime_checkable
class HostPlan(Plan, Protocol):
    """What every plan of this CPU offers: what records and reports read of it."""

    @property
    def threads(self) -> int:
        """Threads that may share the work."""

    @property
    def compute_format(self) -> Format | str:
        """What operands are multiplied in; an empty string where it does not say."""

    @property
    def temporaries(self) -> Temporaries | None:
        """What a run needs beside its operands, and may take; None where no limit is planned for."""


class NoFlops:
    """A plan that gives no number of multiplications and additions: a run may count them."""

    @property
    def flops(self) -> int | None:
        """Multiplications and additions: not counted."""
        return None


class PlanDefaults(NoFlops, Explained):
    """What most plans of this CPU tell: no limit on memory is planned for, nothing multiplies in its own format."""

    @property
    def compute_format(self) -> Format | str:
        """Nothing."""
        return ""

    @property
    def temporaries(self) -> Temporaries | None:
        """None: no limit is planned for."""
        return None


@dataclasses.dataclass(frozen=True)
class Composition(PlanDefaults):
    """A call that is made of several others'.

    Attributes
    ----------
    problem : str
        What is computed, in words.
    kernels : str
        What serves it.
    temporaries : Temporaries or None
        Where a limit is planned for.
    """

    problem: str
    kernels: str
    temporaries: Temporaries | None = None
    threads = 1

    def told(self) -> tuple[str, str, Composition]:
        """Return what tells of it."""
        return self.problem, self.kernels, self

    def explain(self) -> Explanation:
        """Return what it is made of."""
        memory = {} if self.temporaries is None else {"memory": str(self.temporaries)}
        return Explanation(self.problem, {"kernels": self.kernels} | memory)


@singledispatch
def explained(plan: Any) -> Explanation:
    """Return what was considered for a plan that is a search's; an op registers how its searches are told."""
    raise NotImplementedError(type(plan).__name__)


def considered_kernels(selection: Selection) -> tuple[Considered, ...]:
    """Return the kernels of a selection as candidates: the one taken, then the others with what stands against them."""
    taken = Considered(selection.kernel.label, None, None, "chosen", chosen=True)
    others = (Considered(r.kernel.label, None, None, r.reason) for r in selection.rejected)
    return (taken, *others)
