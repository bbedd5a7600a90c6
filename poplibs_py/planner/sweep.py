"""The trade-off between cycles and temporary memory of one problem."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from functools import singledispatch
from typing import Any, Protocol

from ..checks import all_of, real
from ..errors import MissingPackageError, bad_argument, bad_type


class Planned(Protocol):
    """What the planner asks of a plan."""

    @property
    def cycles(self) -> int:
        """Modelled cycles."""

    @property
    def temp_bytes(self) -> int:
        """Temporary bytes per tile."""

    @property
    def limit(self) -> int | None:
        """The memory limit it was made for; None if there was none."""

    @property
    def fits(self) -> bool:
        """Whether it is within the limit."""


@singledispatch
def plan_at(problem: Any, proportion: float) -> Planned:
    """Return a problem's plan with another ``available_memory_proportion``.

    An op registers how its problems are planned; a plan that does not fit says so, without a warning.
    """
    raise NotImplementedError(type(problem).__name__)


@dataclasses.dataclass(frozen=True)
class SweepPoint:
    """One proportion, and what its plan costs."""

    proportion: float
    limit: int | None
    cycles: int
    temp_bytes: int
    fits: bool


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Plans of one problem over several proportions. ``print(sweep)`` is a table."""

    points: tuple[SweepPoint, ...]

    def frontier(self) -> tuple[SweepPoint, ...]:
        """The points that no other beats in both cycles and bytes, by bytes."""
        best: list[SweepPoint] = []
        for point in sorted(self.points, key=lambda p: (p.temp_bytes, p.cycles)):
            if not best or point.cycles < best[-1].cycles:
                best.append(point)
        return tuple(best)

    def __str__(self) -> str:
        least = min(p.cycles for p in self.points)
        lines = [f"{'proportion':>10}{'bytes allowed':>16}{'bytes':>12}{'cycles':>16}{'slower':>9}"]
        for p in self.points:
            note, limit = "" if p.fits else "  does not fit", "none" if p.limit is None else f"{p.limit:,}"
            lines.append(
                f"{p.proportion:>10g}{limit:>16}{p.temp_bytes:>12,}{p.cycles:>16,}"
                f"{p.cycles / least if least else 1:>8.2f}x{note}"
            )
        return "\n".join(lines)

    def to_json(self) -> str:
        """The points as a JSON list of objects."""
        return json.dumps([dataclasses.asdict(point) for point in self.points], indent=2)

    def plot(self, ax: Any = None) -> Any:
        """Draw cycles against temporary bytes with matplotlib, on `ax` or on new axes, which it returns.

        Raises
        ------
        MissingPackageError
            If matplotlib is not installed: ``pip install poplibs_py[plot]`` does that.
        """
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as error:
                raise MissingPackageError("matplotlib", "plot", error) from error
            ax = pyplot.subplots()[1]
        elif not all(hasattr(ax, name) for name in ("plot", "annotate", "legend", "set_xlabel")):
            raise bad_type("ax", ax, "matplotlib's axes, or None")
        ax.plot([p.temp_bytes for p in self.points], [p.cycles for p in self.points], "-", color="0.7")
        for fits, mark, label in ((True, "o", "fits"), (False, "x", "does not fit")):
            points = [(p.temp_bytes, p.cycles) for p in self.points if p.fits == fits]
            if points:
                ax.plot(*zip(*points, strict=True), mark, label=label)
        ax.legend()
        for p in self.points:
            ax.annotate(f"{p.proportion:g}", (p.temp_bytes, p.cycles), fontsize="x-small")
        ax.set_xlabel("temporary bytes per tile")
        ax.set_ylabel("cycles")
        ax.set_title("available_memory_proportion: bytes against cycles")
        return ax


def sweep(problem: Any, proportions: Iterable[float]) -> Sweep:
    """Plan a problem at several proportions of tile memory.

    It serves the two uses of Graphcore's technical note on optimising temporary memory usage: lower the proportion
    until the program fits, or raise it until it is as fast as it gets.

    Parameters
    ----------
    problem : plan or problem
        A modelled machine's plan of a product or a convolution, whose problem is planned again, or a problem such as a
        `ConvProblem`.
    proportions : iterable of float
        Values of ``available_memory_proportion``.

    Examples
    --------
    >>> from poplibs_py import poplin
    >>> from poplibs_py.planner import sweep
    >>> from poplibs_py.target import Target
    >>> plan = poplin.plan_matmul((512, 512), (512, 512), dtype="half", target=Target.small(64))
    >>> slow, fast = sweep(plan, [0.02, 0.6]).points
    >>> slow.cycles > fast.cycles, slow.temp_bytes < fast.temp_bytes
    (True, True)
    """
    problem = problem_of("problem", problem)
    points = []
    for proportion in check_proportions(proportions):
        plan = plan_at(problem, proportion)
        points.append(SweepPoint(proportion, plan.limit, plan.cycles, plan.temp_bytes, plan.fits))
    return Sweep(tuple(points))


def problem_of(name: str, given: object) -> Any:
    """What can be planned at any proportion: itself, or what a plan was made for."""
    for problem in (given, getattr(given, "problem", None)):
        if plan_at.dispatch(type(problem)) is not plan_at.dispatch(object):
            return problem
    raise bad_type(name, type(given).__name__, "a modelled machine's plan of a product or convolution, or its problem")


_MOST_POINTS = 10_000  # plans that a sweep makes and keeps


def check_proportions(values: object) -> list[float]:
    """Proportions as a list of floats, checked: one at least."""
    listed = all_of("proportions", values, object, "numbers, such as [0.1, 0.6]")
    if len(listed) > _MOST_POINTS:
        raise bad_argument("proportions", f"{len(listed):,} numbers", f"at most {_MOST_POINTS:,}")
    found = [real("proportions", p, "finite numbers, 0 or more", 0) for p in listed]
    if not found:
        raise bad_argument("proportions", "nothing", "one number or more")
    return found
