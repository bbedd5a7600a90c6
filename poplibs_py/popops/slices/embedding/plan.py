"""An embedding's plan on a modelled machine: PopLibs' partition, its tile to begin on, its cycles and bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from ....errors import PlanError
from ....memo import remembered
from ....planner import Explanation
from ....planner.facts import PlanFacts, facts_of
from ....planner.hashing import hashed
from ....planner.ladder import Limited, Temporaries, complain
from ....target import Target
from .model import EmbeddingModel, Partition
from .options import EmbeddingOptions
from .params import EmbeddingParams
from .search import least_cycles

_INDEX_GRAIN = 2
_SLICED_DIMENSION, _ROWS_DIMENSION = 0, 1


@dataclass(frozen=True)
class EmbeddingPlan(Limited):
    """How the rows of a table are read and updated by index on a modelled machine. ``print(plan)`` tells it.

    Attributes
    ----------
    params : EmbeddingParams
    options : EmbeddingOptions
    target : Target
    partition : Partition
        How table and lookups are cut.
    grain : int
        Elements of a row that stay together.
    ordered : bool
        Whether it is used that indices are in order.
    start_tile : int
        The tile that the first part lies on.
    costs : tuple of (str, int)
        Cycles and bytes by PopLibs' names; what is nothing is left out.
    """

    params: EmbeddingParams
    options: EmbeddingOptions
    target: Target
    partition: Partition
    grain: int
    ordered: bool
    start_tile: int
    costs: tuple[tuple[str, int], ...]

    def checked(self, op: str) -> Self:
        """Return the plan; warn, or raise, where it does not keep to its limit."""
        if not self.fits:
            complain(op, self.options.memory, self.temporaries, "the fastest plan takes")
        return self

    @property
    def temporaries(self) -> Temporaries:
        """Temporary bytes of the tile that needs most."""
        return Temporaries(self.temp_bytes, self.options.memory.limit(self.target), of="a tile")

    @property
    def cycles(self) -> int:
        """Modelled cycles of reading and updating, each once."""
        return dict(self.costs).get("totalCycles", 0)

    @property
    def seconds(self) -> float:
        """The same at the machine's clock."""
        return self.cycles / self.target.clock_hz

    @property
    def temp_bytes(self) -> int:
        """Most temporary bytes on a tile."""
        return dict(self.costs).get("peakTempBytes", 0)

    @property
    def phases(self) -> dict[str, int]:
        """Modelled cycles of reading and of updating."""
        costs = dict(self.costs)
        return {"slice": costs.get("sliceTotalCycles", 0), "update": costs.get("updateTotalCycles", 0)}

    @property
    def tiles_used(self) -> int:
        """Tiles that hold parts of the table."""
        at = self.partition
        return int(at.parallel * at.sliced * at.unsliced * at.group)

    def explain(self) -> Explanation:
        """Return what was decided: of all partitions the one of fewest cycles, so no candidate is listed."""
        p = self.params
        tables = f"{p.groups} x " * (p.groups > 1)
        problem = f"embedding {tables}[{p.entries:,}, {p.width:,}] {p.data_type}, {p.most_lookups:,} lookups"
        return Explanation(f"{problem} on {self.target.name}", dict(self._decisions()))

    def cuts(self) -> Iterator[tuple[str, str]]:
        """Tell in words how table and lookups are cut."""
        at = self.partition
        yield "table", (f"{at.sliced} parts by rows, {at.unsliced} by columns of {self.grain} or more, {at.group} by "
                        f"table; from tile {self.start_tile} on")
        yield "lookups", (f"{at.parallel} parts on copies of the table{' made before' * at.precopy}, "
                          f"{at.serial} turn{'s' * (at.serial > 1)}{', their order used' * self.ordered}")

    def _decisions(self) -> Iterator[tuple[str, str]]:
        yield from self.cuts()
        yield "cycles", f"{self.cycles:,} ({', '.join(f'{phase} {n:,}' for phase, n in self.phases.items())})"
        yield "memory", f"temporaries take {self.temporaries}"

    def __str__(self) -> str:
        costs = [f"{name:<40}{value:>16,}" for name, value in self.costs]
        return "\n".join([self.explain().words(), "", *costs])


@remembered()
def planned(params: EmbeddingParams, options: EmbeddingOptions, target: Target) -> EmbeddingPlan:
    """Return PopLibs' plan; where none keeps to the limit on memory, the fastest of all.

    Raises
    ------
    PlanError
        If none meets the constraints.
    """
    model = EmbeddingModel(target, params, options)
    found = least_cycles(model, options.memory.limit(target))
    found = found or least_cycles(model, None)
    if found is None:
        raise PlanError(f"plan_constraints: no plan meets {dict(options.plan_constraints)}")
    at = found.partition
    values = (found.ordered, options.validate_indices, *at, model.grain, _INDEX_GRAIN, params.groups)
    start = hashed(int(value) for value in (*values, _SLICED_DIMENSION, _ROWS_DIMENSION)) % target.tiles
    return EmbeddingPlan(params, options, target, at, model.grain, found.ordered, start,
                         tuple(model.costs(at, found.ordered).items()))


@facts_of.register
def _(plan: EmbeddingPlan) -> PlanFacts:
    """Return what a report keeps of a plan."""
    explanation, target = plan.explain(), plan.target
    return PlanFacts(explanation.problem, target.name, decisions=dict(explanation.decisions), cycles=plan.cycles,
                     clock_hz=target.clock_hz, temporaries=plan.temporaries, tiles=target.tiles,
                     tile_bytes=target.bytes_per_tile)
