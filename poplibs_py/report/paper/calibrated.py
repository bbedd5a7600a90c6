"""A calibrated cost on top of PopLibs' exact one: what its planners leave out, as three physical constants.

The exact cycles and bytes of a plan are PopLibs' own, and plans are chosen by them alone. PopLibs' cost models leave
out what a program's steps cost beside their work; `Calibration` adds that, with the same constants for dense, static
and dynamic products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...checks import instance, real
from ...poplin import ConvPlan
from ...popsparse.fully_connected import FullyConnectedPlan
from ...popsparse.static_matmul import StaticPlan
from ...target import TYPE_SIZES

Plan = ConvPlan | StaticPlan | FullyConnectedPlan


@dataclass(frozen=True)
class PlanFigures:
    """What the calibrated cost is made of: figures of a plan that no constant enters.

    Attributes
    ----------
    cycles : int
        PopLibs' own.
    steps : int
        Compute sets and exchanges that run one after another, turns of a loop counted each.
    regrouped_bytes : int
        Bytes of the dense operand that a tile brings into cells of a vector's width. Only the vertices of single
        elements with a pattern that may change take such cells: PopLibs' ``{1, 1, 1, vector width}`` grouping.
    planned_bytes : int
        Operands, result and temporaries of a tile by the planner.
    uncounted_bytes : int
        Those among them whose rearrangement the planner does not count: a sparse plan's; the planner of dense products
        counts its own.
    tile_bytes : int
        What a tile has.
    within_limit : bool
        Whether temporaries keep to the share of memory that the plan was allowed.
    """

    cycles: int
    steps: int
    regrouped_bytes: int
    planned_bytes: int
    uncounted_bytes: int
    tile_bytes: int
    within_limit: bool


@dataclass(frozen=True)
class Calibration:
    """The physical constants. The defaults were fitted by ``bench/fit_calibration.py`` to the paper's figures.

    Parameters
    ----------
    step_cycles : float, optional
        Cycles of each compute set or exchange beside its work: synchronising the tiles, starting vertices, the load
        that is not quite even.
    regroup_cycles_per_byte : float, optional
        Cycles for each byte of the dense operand that is brought into cells of a vector's width.
    memory_factor : float, optional
        Bytes of a tile that the program takes for each byte of a sparse plan: what lives beside the operands of the
        multiplication, such as their copies before an exchange and its code.

    Examples
    --------
    >>> Calibration(step_cycles=100, regroup_cycles_per_byte=0, memory_factor=1).cycles(
    ...     PlanFigures(5000, 4, 0, 1000, 0, 638976, True))
    5400.0
    """

    step_cycles: float = 300.0
    regroup_cycles_per_byte: float = 1.0
    memory_factor: float = 3.2

    def __post_init__(self) -> None:
        for name in ("step_cycles", "regroup_cycles_per_byte"):
            object.__setattr__(self, name, real(name, getattr(self, name), "0 or more", 0))
        object.__setattr__(self, "memory_factor", real("memory_factor", self.memory_factor, "1 or more", 1))

    def cycles(self, plan: PlanFigures) -> float:
        """Return the exact cycles of a plan and what the constants add to them."""
        instance("plan", plan, PlanFigures, "a PlanFigures")
        return (plan.cycles + self.step_cycles * plan.steps
                + self.regroup_cycles_per_byte * plan.regrouped_bytes)

    def fits(self, plan: PlanFigures) -> bool:
        """Whether the program keeps to a tile's memory."""
        instance("plan", plan, PlanFigures, "a PlanFigures")
        needed = plan.planned_bytes + (self.memory_factor - 1) * plan.uncounted_bytes
        return plan.within_limit and needed <= plan.tile_bytes


CALIBRATION = Calibration()
"""The constants in use."""

EXACT = Calibration(0.0, 0.0, 1.0)
"""The constants that leave PopLibs' cost as it is."""


def figures_of_plan(plan: Plan) -> PlanFigures:
    """Return what the calibrated cost of a plan is made of.

    Parameters
    ----------
    plan : ConvPlan, StaticPlan or FullyConnectedPlan
        Of a modelled machine; the last of a forward pass.
    """
    instance("plan", plan, (ConvPlan, StaticPlan, FullyConnectedPlan), "a plan of a product on a modelled machine")
    summary = plan.summary
    steps = sum(phase.times for phases in summary.passes.values() for phase in phases if phase.cycles)
    return PlanFigures(
        plan.cycles, steps, _regrouped(plan), summary.memory_bytes,
        0 if isinstance(plan, ConvPlan) else summary.memory_bytes, summary.tile_bytes,
        summary.temporaries.fits)


def _regrouped(plan: Plan) -> int:
    if not isinstance(plan, FullyConnectedPlan) or plan.candidate.side != 1:
        return 0
    params, (_, _, y, z), cell = plan.params, plan.partition, plan.candidate.z_grouping
    rows, cells = math.ceil(params.inputs / y), math.ceil(math.ceil(params.batch / cell) / z)
    return rows * cells * cell * TYPE_SIZES[params.data_type]
