"""What a report keeps of a plan: plain values, which outlive the process. An op registers its own (`facts_of`)."""

from __future__ import annotations

import dataclasses
from functools import singledispatch
from typing import Any

import numpy as np

from ..formats import Array
from ..target import Target
from .explain import BEST, Explanation, HostPlan
from .ladder import Temporaries
from .summary import Phase, PlanSummary

_BINS = 96


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a plan's own, such as an elementwise operation's vertices.

    Attributes
    ----------
    title : str
    heads : tuple of str
    rows : tuple of tuple of str
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Load:
    """How evenly work is dealt out to parts: tiles, threads, rows of a pattern.

    Attributes
    ----------
    parts, used : int
        How many there are, and how many have work.
    total, most, least : int
        Work in all, of the part that has most, and of the one of those used that has least.
    bins : tuple of int
        Neighbouring parts taken together, at most 96 times: the most work of any in each.
    """

    parts: int
    used: int
    total: int
    most: int
    least: int
    bins: tuple[int, ...]

    @classmethod
    def of(cls, work: Array) -> Load:
        """Return the load of an array of work, one number for each part.

        Examples
        --------
        >>> import numpy as np
        >>> from poplibs_py.planner.facts import Load
        >>> load = Load.of(np.array([3, 3, 0]))
        >>> load.used, load.balance
        (2, 1.0)
        """
        used, count = work[work > 0], min(_BINS, work.size)
        bins = np.maximum.reduceat(work, np.arange(count) * work.size // count).tolist() if count else []
        return cls(work.size, used.size, int(used.sum()), int(used.max(initial=0)),
                   int(used.min()) if used.size else 0, tuple(bins))

    @property
    def balance(self) -> float:
        """Mean of the parts that are used over the most: 1 where all do the same."""
        return self.total / (self.used * self.most) if self.most else 1.0


@dataclasses.dataclass(frozen=True)
class TileMemory:
    """What lies on each tile, by kind: runs of neighbouring tiles that hold equally many bytes.

    Attributes
    ----------
    kinds : dict of str to tuple of (int, int)
        For ``"operands"``, ``"results"`` and ``"temporaries"``: how many tiles, and the bytes on each of them.
    """

    kinds: dict[str, tuple[tuple[int, int], ...]]

    @classmethod
    def of(cls, **kinds: Array) -> TileMemory:
        """Return the memory of arrays of bytes, one number for each tile.

        Examples
        --------
        >>> import numpy as np
        >>> from poplibs_py.planner.facts import TileMemory
        >>> TileMemory.of(operands=np.array([8, 8, 0])).kinds
        {'operands': ((2, 8), (1, 0))}
        """
        made = {}
        for name, held in kinds.items():
            ends = np.append(np.flatnonzero(np.diff(held)) + 1, held.size)
            made[name] = tuple(zip(np.diff(ends, prepend=0).tolist(), held[ends - 1].tolist(), strict=True))
        return cls(made)

    def on_tiles(self, kind: str) -> Array:
        """Return the bytes of a kind on each tile."""
        counts, held = np.array(self.kinds[kind], np.int64).reshape(-1, 2).T
        return np.repeat(held, counts)

    def in_all(self) -> Array:
        """Return the bytes on each tile."""
        total: Array = sum((self.on_tiles(kind) for kind in self.kinds), np.zeros(1, np.int64))
        return total


@dataclasses.dataclass(frozen=True)
class PlanFacts:
    """A plan in plain values.

    Attributes
    ----------
    problem : str
    machine : str
        What it is for: a modelled machine's name, or ``"host"``.
    settings : dict of str to str
        Options that matter to a comparison, such as the proportion of memory.
    decisions : dict of str to str
        A word for each decision, and the decision in words.
    considered : tuple of (str, str)
        Kernels and the verdict on each, the one taken first.
    phases : tuple of Phase
        Modelled cycles.
    live : tuple of int
        Temporary bytes that live in each phase, on the tile that needs most: its own, and what others left there.
    cycles, exchange_cycles : int
        Modelled, in all, and those in which tiles receive; 0 of this CPU.
    clock_hz, peak_flops : float
        Of a modelled machine; the most multiplications and additions that it does in a second for the type.
    compute_format : str
        What operands are multiplied in, on this CPU.
    temporaries : Temporaries or None
        Of the tile that needs most, of all threads of this CPU; None where they are not planned.
    tiles, tile_bytes : int
        Of a modelled machine, and the memory that each has.
    memory : TileMemory or None
        Of a modelled machine's tiles.
    loads : dict of str to Load
    tables : tuple of Table
    """

    problem: str = ""
    machine: str = "host"
    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    decisions: dict[str, str] = dataclasses.field(default_factory=dict)
    considered: tuple[tuple[str, str], ...] = ()
    phases: tuple[Phase, ...] = ()
    live: tuple[int, ...] = ()
    cycles: int = 0
    exchange_cycles: int = 0
    clock_hz: float = 0.0
    peak_flops: float = 0.0
    compute_format: str = ""
    temporaries: Temporaries | None = None
    tiles: int = 0
    tile_bytes: int = 0
    memory: TileMemory | None = None
    loads: dict[str, Load] = dataclasses.field(default_factory=dict)
    tables: tuple[Table, ...] = ()

    @property
    def temporary_bytes(self) -> int | None:
        """Temporary bytes that are planned for."""
        return None if self.temporaries is None else self.temporaries.needed

    @property
    def limit(self) -> int | None:
        """How many are allowed; None for any number."""
        return None if self.temporaries is None else self.temporaries.limit

    @property
    def modelled_seconds(self) -> float:
        """Time at the machine's clock."""
        return self.cycles / self.clock_hz if self.clock_hz else 0.0

    @property
    def fits(self) -> bool:
        """Whether temporaries keep to the limit, and the fullest tile to its memory."""
        kept = self.temporaries is None or self.temporaries.fits
        return kept and (self.memory is None or int(self.memory.in_all().max(initial=0)) <= self.tile_bytes)


@singledispatch
def facts_of(plan: Any) -> PlanFacts:
    """Return what a report keeps of a plan; one of this CPU explains itself, an op registers any other."""
    return PlanFacts() if plan is None else _facts_here(plan)


def _facts_here(plan: HostPlan) -> PlanFacts:
    explanation, taken = plan.explain(), plan.temporaries
    considered = tuple((c.name, c.verdict) for c in explanation)
    settings = {} if taken is None or taken.limit is None else {"memory": taken.allowed}
    return PlanFacts(explanation.problem, settings=settings, decisions=dict(explanation.decisions),
                     considered=considered, compute_format=str(plan.compute_format), temporaries=taken)


def facts_of_summary(said: PlanSummary, target: Target, **more: Any) -> PlanFacts:
    """Return what a report keeps of a modelled machine's plan by its summary.

    Parameters
    ----------
    said : PlanSummary
    target : Target
    more : optional
        Fields that the summary does not have, such as `PlanFacts.memory`. Without `live` a phase has its own bytes, or
        the plan's where no phase has any.
    """
    phases = tuple(dataclasses.replace(p, name=f"{name}: {p.name}") if len(said.passes) > 1 else p
                   for name, phases in said.passes.items() for p in phases)
    alone = not any(p.bytes for p in phases)
    over = {} if said.temporaries.fits else {"memory": said.temporaries.allowed}
    axes = tuple((a.name, f"{a.size:,}", f"{a.tiles:,}", f"{a.turns:,}",
                  f"{a.most:,}" if a.most == a.least else f"{a.least:,} to {a.most:,}") for a in said.axes)
    fields: dict[str, Any] = {
        "problem": said.problem, "machine": target.name, "settings": said.options | over,
        "decisions": dict(said.decisions), "phases": phases,
        "live": tuple(said.temporaries.needed if alone else p.bytes for p in phases), "cycles": said.cycles,
        "exchange_cycles": said.exchange_cycles, "clock_hz": target.clock_hz, "peak_flops": said.peak_teraflops * 1e12,
        "temporaries": said.temporaries, "tiles": target.tiles,
        "tile_bytes": target.bytes_per_tile,
        "tables": (Table("How the axes are cut", ("axis", "size", "across tiles", "in a loop", "of a tile"), axes),)}
    return PlanFacts(**fields | more)


def considered_plans(explanation: Explanation) -> tuple[Table, ...]:
    """Return the table of the plans that were costed for a problem, the cheapest of them; none where none were.

    Parameters
    ----------
    explanation : Explanation
        Of a modelled machine's plan: its `explain()`.
    """
    costed = [c for c in explanation.best(len(explanation)) if c.cycles is not None]
    if not costed:
        return ()
    rows = tuple((c.name, f"{c.cycles:,}", f"{c.temp_bytes or 0:,}", c.verdict) for c in costed[:BEST])
    title = f"Plans that were considered: {len(rows)} of {len(explanation):,}, the best of each kind by cycles"
    return (Table(title, ("plan", "cycles", "temporary bytes", "verdict"), rows),)


def spread_memory(said: PlanSummary, held: Array) -> TileMemory:
    """Return the memory of tiles that hold so much in a run: operands and results are spread evenly over the machine.

    Temporaries are the plan's for the tile that holds most; another has as much less as it holds less.
    """
    most = max(1, int(held.max(initial=0)))
    return TileMemory.of(operands=np.full_like(held, said.operand_bytes), results=np.full_like(held, said.result_bytes),
                         temporaries=held * said.temporaries.needed // most)
