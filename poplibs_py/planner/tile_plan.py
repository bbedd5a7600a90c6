"""What an operation does on the tiles of a modelled machine, step by step: vertices, what they receive, and the cost.

A planner says its steps (`TileWork`, `Step`) and where arrays lie, and `TilePlan` has the rest: phases, cycles, bytes,
words for a reader, what a report keeps. Where this CPU's kernels compute what the vertices would, a request's
`placed` has the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from ..formats import Array
from ..target import LinearMapping, Target, worker_cycles
from ..target.exchange import cycles_to_receive
from ..target.mapping import Runs
from .explain import Explanation, NoFlops
from .facts import Load, PlanFacts, Table, TileMemory, facts_of
from .ladder import Memory, Temporaries, complain
from .summary import Phase

_MOST_ROWS = 40  # of a table in words
_HEADS = "tiles", "elements", "vertex", "of a tile", "elements", "cycles"


@dataclass(frozen=True)
class Vertex:
    """A vertex of one tile.

    Attributes
    ----------
    name : str
        PopLibs' class, such as ``"UnaryOp1D"``.
    params : tuple of str
        Of its template: the operation and the type, or two types.
    regions : Runs
        What it works on: ``(elements, how many such regions)``.
    cycles : int
        Of the tile, or of one of its workers.
    unit : {"tile", "worker"}
    fields : tuple of (str, int or tuple of int), optional
        What else PopLibs sets, by its names, such as ``("columns", 64)``.
    """

    name: str
    params: tuple[str, ...]
    regions: Runs
    cycles: int
    unit: str
    fields: tuple[tuple[str, int | tuple[int, ...]], ...] = ()

    @property
    def elements(self) -> int:
        """In all regions."""
        return sum(n * count for n, count in self.regions)

    def __str__(self) -> str:
        return f"{self.name}<{','.join(self.params)}>"


@dataclass(frozen=True)
class TileWork:
    """Tiles that do the same in a step.

    Attributes
    ----------
    tiles : int
        How many.
    elements : int
        That each works on.
    vertices : tuple of Vertex
        Of each; none where it copies, or only receives.
    cycles : int
        Of each, without what it receives.
    received : int
        Bytes that each receives from other tiles before that.
    """

    tiles: int
    elements: int
    vertices: tuple[Vertex, ...]
    cycles: int
    received: int = 0


@dataclass(frozen=True)
class Step:
    """An exchange and the compute set behind it.

    Attributes
    ----------
    name : str
        Of its phase.
    work : tuple of TileWork
        What the tiles do that do something, in the order of the tiles as far as that is known.
    temp_bytes : int
        Temporary bytes on the tile that has most, while it runs: what it received among them.
    times : int
        How often it runs.
    exchange : int or None
        Cycles until all have received what they need, where PopLibs' planner counts them in its own way.
    """

    name: str
    work: tuple[TileWork, ...]
    temp_bytes: int = 0
    times: int = 1
    exchange: int | None = None

    def exchange_cycles(self, target: Target) -> int:
        """Return the cycles until the tile that receives most has all, each time."""
        if self.exchange is not None:
            return self.exchange
        most = max((w.received for w in self.work), default=0)
        return int(cycles_to_receive(target, most))

    @property
    def compute_cycles(self) -> int:
        """Cycles of the slowest tile, each time."""
        return max((w.cycles for w in self.work), default=0)


def tile_cycles(target: Target, vertices: Iterable[Vertex]) -> int:
    """Cycles of a tile with these vertices: those that spread themselves one after another, the others side by side."""
    vertices = tuple(vertices)
    return (sum(v.cycles for v in vertices if v.unit == "tile")
            + worker_cycles(target, [v.cycles for v in vertices if v.unit == "worker"]))


def work_of(target: Target, shares: Iterable[tuple[int, int]], vertices: Callable[[int], tuple[Vertex, ...]],
            received: Callable[[int], int] = lambda _: 0) -> tuple[TileWork, ...]:
    """Return what tiles do that have so many elements each.

    Parameters
    ----------
    target : Target
    shares : iterable of (int, int)
        Elements, and how many tiles have so many: `LinearMapping.classes`, for instance.
    vertices : callable
        The vertices of a tile with so many elements.
    received : callable, optional
        The bytes that such a tile receives.
    """
    made = []
    for elements, tiles in shares:
        given = vertices(elements)
        made.append(TileWork(tiles, elements, given, tile_cycles(target, given), received(elements)))
    return tuple(made)


def memory_of(target: Target, operands: Array, results: Array, temporary: int | Iterable[Step]) -> TileMemory:
    """Return what lies on the tiles, given the bytes on the first of them; the others have none.

    Temporary are so many bytes, or those of the step that has most.
    """
    most = max((step.temp_bytes for step in temporary), default=0) if isinstance(temporary, Iterable) else temporary
    held = np.zeros((3, target.tiles), np.int64)
    held[0, :len(operands)], held[1, :len(results)] = operands, results
    held[2] = np.where(held[0] + held[1] > 0, most, 0)
    return TileMemory.of(operands=held[0], results=held[1], temporaries=held[2])


def mapping_words(target: Target, mapping: LinearMapping) -> str:
    """Return a linear mapping in words."""
    shares = " or ".join(f"{elements:,}" for elements, _ in mapping.classes)
    return (f"linear: {mapping.elements:,} elements on {mapping.tiles:,} of {target.tiles:,} tiles, "
            f"{shares or 'none'} each")


@dataclass(frozen=True)
class TilePlan(NoFlops):
    """An operation on a modelled machine, in steps of PopLibs' vertices. ``print(plan)`` is a table.

    Attributes
    ----------
    problem : str
        What is computed, in words.
    target : Target
    steps : tuple of Step
    memory : TileMemory
        What lies on each tile.
    decisions : tuple of (str, str)
        What the planner decided, in words: a word for each, and the decision.
    memory_limit : int or None
        Bytes of temporaries that are allowed on a tile, None for any number.
    over_limit : Temporaries or None
        Those of a product within it that needs more than it may take.
    """

    problem: str
    target: Target
    steps: tuple[Step, ...]
    memory: TileMemory = field(compare=False, repr=False)
    decisions: tuple[tuple[str, str], ...] = ()
    memory_limit: int | None = None
    over_limit: Temporaries | None = None

    @property
    def phases(self) -> dict[str, int]:
        """Modelled cycles of each phase, in all its turns: what is exchanged together, then each step by its name."""
        made = {"exchange": sum(step.exchange_cycles(self.target) * step.times for step in self.steps)}
        for step in self.steps:
            if step.compute_cycles or len(self.steps) == 1:
                made[step.name] = made.get(step.name, 0) + step.compute_cycles * step.times
        return made

    @property
    def cycles(self) -> int:
        """Modelled tile cycles, until the slowest tile is done."""
        return sum(self.phases.values())

    @property
    def seconds(self) -> float:
        """The same at the machine's clock."""
        return self.cycles / self.target.clock_hz

    @property
    def temp_bytes(self) -> int:
        """Most temporary bytes on a tile."""
        return max((step.temp_bytes for step in self.steps), default=0)

    @property
    def temporaries(self) -> Temporaries:
        """Temporary bytes of the tile that needs most; of a product within it, where that keeps to no limit."""
        return self.over_limit or Temporaries(self.temp_bytes, self.memory_limit, of="a tile")

    @property
    def exchanged_bytes(self) -> int:
        """Bytes that all tiles receive."""
        return sum(w.received * w.tiles * step.times for step in self.steps for w in step.work)

    @property
    def tiles_used(self) -> int:
        """Tiles of the step that most tiles take part in."""
        return max((sum(w.tiles for w in step.work) for step in self.steps), default=0)

    @property
    def fits(self) -> bool:
        """Whether temporaries and products keep to their limits, and all that lies on a tile to its memory."""
        return self.temporaries.fits and self._most_bytes <= self.target.bytes_per_tile

    def checked(self, op: str, memory: Memory) -> Self:
        """Return the plan; warn, or raise, where it does not keep to what an op's call says about temporary memory."""
        if self.over_limit is not None:
            complain(op, memory.on_machine(), self.over_limit, "the plan of a product takes")
        return self

    @cached_property
    def _most_bytes(self) -> int:
        return int(self.memory.in_all().max(initial=0))

    def tile_bytes(self) -> Array:
        """Return the bytes of operands and results on each tile of the machine."""
        return self.memory.on_tiles("operands") + self.memory.on_tiles("results")

    def tile_elements(self) -> Array:
        """Return the elements that each tile of the machine works on, in the step that has most."""
        held = np.zeros(self.target.tiles, np.int64)
        for step in self.steps:
            shares = np.repeat([w.elements for w in step.work], [w.tiles for w in step.work])
            np.maximum(held[:len(shares)], shares, out=held[:len(shares)])
        return held

    def with_steps(self, steps: Iterable[Step]) -> Self:
        """Return the plan with other steps, on the same arrays."""
        taken = tuple(steps)
        memory = memory_of(self.target, self.memory.on_tiles("operands"), self.memory.on_tiles("results"), taken)
        return replace(self, steps=taken, memory=memory)

    def explain(self) -> Explanation:
        """Return what was decided, and what follows."""
        return Explanation(f"{self.problem} on {self.target.name}", dict(self._decisions()))

    def _decisions(self) -> Iterator[tuple[str, str]]:
        target = self.target
        yield from self.decisions
        names = ", ".join(dict.fromkeys(str(v) for step in self.steps for w in step.work for v in w.vertices))
        copies = any(w.elements for step in self.steps for w in step.work)
        yield "vertices", names or ("none: copied as it is" if copies else "none")
        received = max((w.received for step in self.steps for w in step.work), default=0)
        yield "exchange", (f"{self.exchanged_bytes:,} bytes in all, {received:,} to a tile at once" if received else
                           "none: operands are where results are")
        spent = ", ".join(f"{phase} {cycles:,}" for phase, cycles in self.phases.items())
        yield "cycles", f"{self.cycles:,} ({spent}), {self.seconds * 1e6:,.3f} us at {target.clock_hz / 1e9:g} GHz"
        what = "temporaries" if self.over_limit is None else "temporaries of a product"
        yield "memory", (f"{what} take {self.temporaries}; all arrays take at most {self._most_bytes:,} "
                         f"of {target.bytes_per_tile:,} bytes on a tile{'' if self.fits else ': DOES NOT FIT'}")

    def tables(self) -> tuple[Table, ...]:
        """Return what tiles do, as a report has it: of several steps those that compute, each named."""
        several = len(self.steps) > 1
        rows = tuple((step.name, *row) if several else row for step in self.steps
                     if not several or any(w.vertices for w in step.work) for row in _vertex_rows(self.target, step))
        heads = ("step", *_HEADS) if several else _HEADS
        return (Table("Vertices", heads, rows),) if rows else ()

    def __str__(self) -> str:
        lines = [self.explain().words()]
        for table in self.tables():
            lines.append("")
            for row in (table.heads, *table.rows[:_MOST_ROWS]):
                tiles, elements, vertex, count, of_vertex, cycles = row[-6:]
                first = f"  {row[0]:<18}" if len(row) > len(_HEADS) else ""
                lines.append(f"{first}{tiles:>8}{elements:>14}  {vertex:<44}{count:>10}{of_vertex:>14}{cycles:>14}")
            if len(table.rows) > _MOST_ROWS:
                lines.append(f"{'...':>8}{len(table.rows) - _MOST_ROWS:>14} lines more")
        return "\n".join(lines)


def _vertex_rows(target: Target, step: Step) -> Iterator[tuple[str, ...]]:
    """What tiles do: how many tiles, their elements; a vertex, how many of it, its elements, its cycles."""
    for w in step.work:
        head = f"{w.tiles:,}", f"{w.elements:,}"
        for vertex, count in Counter(w.vertices).items():
            each = f"{vertex.cycles:,}{'' if vertex.unit == 'tile' else f' x {target.workers}'}"
            yield *head, str(vertex), str(count), f"{vertex.elements:,}", each
            head = "", ""
        if not w.vertices:
            yield *head, "copy", "", f"{w.elements:,}", f"{w.cycles:,}"


@facts_of.register
def tile_plan_facts(plan: TilePlan) -> PlanFacts:
    """Return what a report keeps of a plan of steps on tiles."""
    explanation, target = plan.explain(), plan.target
    most: dict[str, int] = {"exchange": plan.temp_bytes}
    for step in plan.steps:
        most[step.name] = max(most.get(step.name, 0), step.temp_bytes)
    phases = tuple(Phase(name, cycles, 1, most[name]) for name, cycles in plan.phases.items() if cycles)
    return PlanFacts(
        explanation.problem, target.name, {}, dict(explanation.decisions), (), phases,
        tuple(phase.bytes for phase in phases), plan.cycles, plan.phases.get("exchange", 0), target.clock_hz, 0.0, "",
        plan.temporaries, target.tiles, target.bytes_per_tile, plan.memory,
        {"elements of a tile": Load.of(plan.tile_elements())}, plan.tables(),
    )  # fmt: skip
