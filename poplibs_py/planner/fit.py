"""One proportion per layer, so that a whole stage fits and takes the fewest cycles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from ..checks import all_of, flag, whole
from ..errors import MemoryLimitError, bad_argument
from .sweep import SweepPoint, check_proportions, problem_of, sweep

#: Where `fit` looks by default: fine where memory is tight.
PROPORTIONS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)


@dataclasses.dataclass(frozen=True)
class Fit:
    """The choice for each layer, in the order of the problems. ``print(fit)`` is a table."""

    choices: tuple[SweepPoint, ...]
    memory: int
    shared: bool

    @property
    def proportions(self) -> tuple[float, ...]:
        """``available_memory_proportion`` of each layer."""
        return tuple(c.proportion for c in self.choices)

    @property
    def cycles(self) -> int:
        """Cycles of the stage."""
        return sum(c.cycles for c in self.choices)

    @property
    def temp_bytes(self) -> int:
        """Bytes of the stage on a tile."""
        sizes = [c.temp_bytes for c in self.choices]
        return max(sizes) if self.shared else sum(sizes)

    def __str__(self) -> str:
        lines = [f"{'layer':>5}{'proportion':>12}{'bytes':>12}{'cycles':>16}"]
        for i, c in enumerate(self.choices):
            lines.append(f"{i:>5}{c.proportion:>12g}{c.temp_bytes:>12,}{c.cycles:>16,}")
        lines.append(f"{'all':>5}{'':>12}{self.temp_bytes:>12,}{self.cycles:>16,}")
        return "\n".join(lines)


def fit(problems: Sequence[Any], memory: int, *, proportions: Iterable[float] = PROPORTIONS,
        shared: bool = False) -> Fit:
    """Pick a proportion per layer so that the stage's temporary bytes fit and its cycles are fewest.

    Parameters
    ----------
    problems : sequence
        The layers of the stage, each a plan or a problem, as `sweep` takes it.
    memory : int
        Temporary bytes per tile that the stage may use.
    proportions : iterable of float
        Proportions to choose from.
    shared : bool
        Whether layers that run one after another use the same memory again, so that the largest counts
        (default: their bytes add up, as where all stay alive).

    Returns
    -------
    Fit

    Raises
    ------
    MemoryLimitError
        If even the least bytes of every layer do not fit.

    Notes
    -----
    The choice is exact over the plans at these proportions. Dynamic programming over layers keeps, for every number of
    bytes, the fewest cycles that reach it, and drops choices that another beats in both.

    Examples
    --------
    >>> from poplibs_py.planner import fit
    >>> from poplibs_py.poplin.tile_conv import ConvOptions, ConvProblem, matmul_params
    >>> from poplibs_py.target import Target
    >>> layers = [ConvProblem(Target.small(64), matmul_params(1, 512, 512, n, "half"), ConvOptions())
    ...           for n in (512, 256)]
    >>> fit(layers, 100_000).temp_bytes <= 100_000
    True
    """
    memory = whole("memory", memory, 0, 1 << 62, " bytes")
    problems = [problem_of("problems", problem)
                for problem in all_of("problems", problems, object, "a sequence of plans or problems")]
    if not problems:
        raise bad_argument("problems", "nothing", "one problem or more")
    tried, shared = check_proportions(proportions), flag("shared", shared)
    menus = [sweep(problem, tried).frontier() for problem in problems]
    return Fit(_cheapest(menus, memory, shared), memory, shared)


def _cheapest(menus: list[tuple[SweepPoint, ...]], memory: int, shared: bool) -> tuple[SweepPoint, ...]:
    """One point of each menu: fewest cycles within the memory."""
    # bytes and cycles so far, and the choices that led there; by bytes, cycles falling
    states: list[tuple[int, int, tuple[SweepPoint, ...]]] = [(0, 0, ())]
    for menu in menus:
        reached = [
            (max(size, c.temp_bytes) if shared else size + c.temp_bytes, cycles + c.cycles, (*chosen, c))
            for size, cycles, chosen in states
            for c in menu
        ]
        reached.sort(key=lambda s: s[:2])
        states = []
        for state in reached:
            if state[0] <= memory and (not states or state[1] < states[-1][1]):
                states.append(state)
        if not states:
            least = [min(c.temp_bytes for c in m) for m in menus]
            need = max(least) if shared else sum(least)
            raise MemoryLimitError(f"memory: got {memory:,} bytes; the layers need at least {need:,}")
    return states[-1][2]
