"""What PopLibs' planner of dynamic sparse layers decides, and what it costs by pass and phase."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from ...errors import bad_argument
from ...planner import Explanation, PlanSummary, Temporaries
from ...planner.explain import Considered, NoFlops
from ...planner.facts import PlanFacts, facts_of, facts_of_summary
from ...planner.ladder import Limited
from ...planner.summary import AxisShare, Phase, summarised
from ...target import TYPE_SIZES, Target
from ..partitioner import BucketLayout
from ..plan_figures import summary_of
from .model import Candidate
from .options import FullyConnectedOptions
from .params import FullyConnectedParams

Phases = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class FullyConnectedPlan(Limited, NoFlops):
    """A plan of a layer with sparse weights whose pattern may change. PopLibs' ``fullyconnected::Plan`` and ``Cost``.

    Attributes
    ----------
    params : FullyConnectedParams
    options : FullyConnectedOptions
        As they were asked for.
    target : Target
    candidate : Candidate
        How tiles multiply, and what the gradient of the weights exchanges.
    partition : (int, int, int, int)
        Parts of groups, x (outputs), y (inputs) and z (batch).
    partials_type : str
        Of partial sums.
    bucket_values : int
        Values that a bucket holds.
    bucket_meta, grad_a_bucket_meta : int
        Words of meta-information that it holds, for the forward pass and for the gradient of the activations.
    cycles, temp_bytes : int
        Of all planned passes, and of the one that takes most bytes on a tile.
    limit, raised : int or None
        Temporary bytes that a tile may take, and what became of that limit, as `temporaries` has them.
    phases : dict of str to dict of str to (int, int)
        For ``"Fwd"``, ``"GradA"`` and ``"GradW"``, as far as they are planned, cycles and temporary bytes of each phase
        and in total.
    considered : tuple of Considered
        The candidates.
    use_dense : bool
        Whether the constraints ask for a dense product. No plan of PopLibs is, otherwise.
    """

    params: FullyConnectedParams
    options: FullyConnectedOptions
    target: Target
    candidate: Candidate
    partition: tuple[int, int, int, int]
    partials_type: str
    bucket_values: int
    bucket_meta: int
    grad_a_bucket_meta: int
    cycles: int
    temp_bytes: int
    limit: int
    phases: dict[str, Phases] = field(hash=False)
    considered: tuple[Considered, ...] = field(default=(), repr=False, compare=False)
    use_dense: bool = False
    raised: int | None = None

    @property
    def temporaries(self) -> Temporaries:
        """Temporary bytes of the tile that needs most."""
        return Temporaries(self.temp_bytes, self.limit, self.raised, "a tile")

    def of_pass(self, name: str) -> FullyConnectedPlan:
        """Return the plan with one of its passes alone, as the record of a run of that has it."""
        cycles, temp_bytes = self.phases[name]["Total"]
        return dataclasses.replace(self, phases={name: self.phases[name]}, cycles=cycles, temp_bytes=temp_bytes)

    @property
    def tiles_used(self) -> int:
        """Tiles that have a part."""
        return math.prod(self.partition)

    @property
    def starts(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Where the parts of x, y and z begin, in elements: PopLibs' ``getPartitionStartIndices``."""
        sizes = self.params.outputs, self.params.inputs, self.params.batch
        axes = zip(sizes, self.candidate.grouping[1:], self.partition[1:], strict=True)
        found = [tuple(i * _most(size, grain, parts) for i in range(parts)) for size, grain, parts in axes]
        return found[0], found[1], found[2]

    @property
    def layout(self) -> BucketLayout:
        """Its buckets, as the partitioner is told of them: those of each group."""
        p, o = self.params, self.options
        if self.use_dense:
            raise bad_argument("plan", "a dense one", "a plan with buckets: PopLibs has none for useDense")
        x, y, z = self.starts
        return BucketLayout((p.outputs, p.inputs, p.batch), x, y, z, self.bucket_values, self.bucket_meta,
                            self.grad_a_bucket_meta, self.candidate.side, self.candidate.z_grouping, p.data_type,
                            o.do_grad_a_pass, o.do_grad_w_pass, o.shared_buckets, o.optimise_for_speed,
                            o.force_bucket_spills, o.use_actual_worker_split_costs, self.target.workers)

    @property
    def summary(self) -> PlanSummary:
        """What it says of itself: problem, splits, cycles, time, rate, memory, load. ``print(plan)`` shows it."""
        return summarised(self)

    def explain(self) -> Explanation:
        """Return what was planned, what was decided, and what else was considered."""
        return Explanation(f"dynamic sparse_dense_matmul {self.params}", self._decisions(), self.considered)

    def golden(self) -> dict[str, Any]:
        """Return the fields of PopLibs' plan by the names that test data have for them."""
        written = "{{{},{},{},{}}}".format
        return {
            "grouping": written(*self.candidate.grouping),
            "partition": written(*self.partition),
            "fwd": self.candidate.forward,
            "gradA": self.candidate.grad_a,
            "gradW": self.candidate.grad_w,
            "gradWBuckets": int(self.candidate.exchanges_buckets),
            "nzPerBucket": self.bucket_values,
            "fwdMeta": self.bucket_meta,
            "gradAMeta": self.grad_a_bucket_meta,
            "cycles": self.cycles,
            "bytes": self.temp_bytes,
            "breakdown": {f"{name}: {phase}": list(cost) for name, phases in self.phases.items()
                          for phase, cost in phases.items()},
        }

    def __str__(self) -> str:
        return str(self.summary)

    def _decisions(self) -> dict[str, str]:
        c, planned = self.candidate, ["forward " + self.candidate.forward]
        if "GradA" in self.phases:
            planned.append(f"gradient of activations {c.grad_a}")
        if "GradW" in self.phases:
            planned.append(f"of weights {c.grad_w}, {'buckets' if c.exchanges_buckets else 'operands'} exchanged")
        return {"vertices": ", ".join(planned),
                "groupings": f"blocks of {c.side} x {c.side}, {c.z_grouping} of the batch",
                "types": f"{self.params.data_type}, partial sums {self.partials_type}",
                "buckets": f"{self.bucket_values:,} values and {self.bucket_meta:,} words of meta-information each",
                "tiles": f"{self.tiles_used:,} of {self.target.tiles:,}"}


def _most(size: int, grain: int, parts: int) -> int:
    """What the first of so many parts has of an axis, in elements."""
    grains = -(-size // grain)
    return -(-grains // parts) * grain


@summarised.register
def _(plan: FullyConnectedPlan) -> PlanSummary:
    """Summarise a plan of `plan_fully_connected`."""
    p, target, size = plan.params, plan.target, TYPE_SIZES[plan.params.data_type]
    names = zip(("groups", "outputs", "inputs", "batch"), (p.groups, p.outputs, p.inputs, p.batch),
                plan.candidate.grouping, plan.partition, strict=True)
    axes = []
    for name, extent, grain, parts in names:
        most = min(extent, _most(extent, grain, parts))
        axes.append(AxisShare(name, extent, parts, 1, most, max(0, extent - (parts - 1) * most)))
    stored = p.blocks * p.block**2
    macs = stored * p.batch * len(plan.phases)
    held = plan.bucket_values * plan.partition[3] * -(-p.batch // plan.partition[3])
    dense, result = p.inputs * p.batch * p.groups, p.outputs * p.batch * p.groups
    operand_bytes = plan.bucket_values * size + 2 * plan.bucket_meta - (-dense * size // target.tiles)
    result_bytes = -(-result * size // target.tiles)
    passes = {name: tuple(Phase(phase, cycles, 1, temp) for phase, (cycles, temp) in phases.items()
                          if phase != "Total" and (cycles or temp)) for name, phases in plan.phases.items()}
    exchange = sum(cycles for phases in plan.phases.values() for phase, (cycles, _) in phases.items()
                   if "exchange" in phase.lower())
    return summary_of(
        plan, f"dynamic sparse_dense_matmul {p}", tuple(axes), passes, decisions=plan._decisions(),
        exchange_cycles=exchange, macs=macs, tile_bytes=(operand_bytes, result_bytes),
        tile_macs=(held, min(held, -(-macs // target.tiles))))


@facts_of.register
def _(plan: FullyConnectedPlan) -> PlanFacts:
    """Return what a report keeps of a plan; where its blocks lie on tiles, a run tells."""
    return facts_of_summary(plan.summary, plan.target)
