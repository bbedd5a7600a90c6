"""From runs to a report: what is kept of each, once for all calls that do the same."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import __version__
from ..kernels.peak import unit_rates
from ..planner.facts import Load, PlanFacts, considered_plans, facts_of, spread_memory
from ..program.record import Run
from ..target import Target
from .conditions import copy_rate, machine
from .records import Call, Operation, Report

__all__ = ["collected"]


def collected(runs: Sequence[Run], began: float, target: Target | None) -> Report:
    """Return the report of runs.

    Parameters
    ----------
    runs : sequence of Run
        In the order in which they ended.
    began : float
        When the profile began, by `time.perf_counter`.
    target : Target or None
        The machine that the profile names.
    """
    gathered = _Gathered()
    calls = tuple(gathered.call(run, began) for run in runs)
    operations = tuple(gathered.operations)
    timed = any(op.flops and not op.modelled for op in operations)
    peaks = {**unit_rates(), "memory": copy_rate()} if timed else {}
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] not in ("", "-c") else "Python"
    report = Report(program, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), __version__, machine(),
                    "host" if target is None else target.name, peaks, tuple(gathered.threads), operations, calls)
    return replace(report, operations=gathered.explained(report))


_EXPLAINED = 12
"""Operations whose other plans are told: to cost them all again takes some tenths of a second each."""


class _Gathered:
    """Operations and threads as they are met."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._plan_of: list[Any] = []
        self.threads: dict[str, int] = {}
        self._plans: dict[int, tuple[Any, PlanFacts]] = {}  # plans are kept, so that their addresses stay their own
        self._places: dict[Any, int] = {}

    def call(self, run: Run, began: float) -> Call:
        """Take a run in."""
        key = (run.op, run.what, run.kernel, run.lacking, id(run.plan), run.threads, run.temporary_bytes,
               run.read_bytes, run.written_bytes, run.flops, *run.loads.items())
        place = self._places.get(key)
        if place is None:
            made = self._operation(run)
            place = next((i for i, op in enumerate(self.operations) if op == made), len(self.operations))
            if place == len(self.operations):
                self.operations.append(made)
                self._plan_of.append(run.plan)
            self._places[key] = place
        thread = self.threads.setdefault(run.thread, len(self.threads))
        return Call(place, thread, run.began - began, run.ended - began, run.seconds, dict(run.phases))

    def explained(self, report: Report) -> tuple[Operation, ...]:
        """Return the operations; those modelled that take most time tell what other plans were considered."""
        made = list(self.operations)
        for i in report.subjects()[:_EXPLAINED]:
            facts = made[i].plan
            if made[i].modelled:
                tables = *facts.tables, *considered_plans(self._plan_of[i].explain())
                made[i] = replace(made[i], plan=replace(facts, tables=tables))
        return tuple(made)

    def _operation(self, run: Run) -> Operation:
        facts = _placed(self._facts(run.plan), run)
        temporary = run.temporary_bytes
        if temporary is None and facts.machine == "host":
            temporary = facts.temporary_bytes
        return Operation(run.op, run.what, run.kernel, run.lacking, facts, run.flops, run.exchanged_bytes, temporary,
                         run.read_bytes, run.written_bytes, run.threads, {**run.loads, **facts.loads})

    def _facts(self, plan: Any) -> PlanFacts:
        if id(plan) not in self._plans:
            facts = facts_of(plan)
            same = next((held for _, held in self._plans.values() if held == facts), facts)
            self._plans[id(plan)] = plan, same
        return self._plans[id(plan)][1]


def _placed(facts: PlanFacts, run: Run) -> PlanFacts:
    """A modelled plan's facts with what lies on which tile, where that is not the plan's but the run's to say."""
    if facts.machine == "host" or facts.memory is not None or run.tile_bytes is None:
        return facts
    macs = {} if run.tile_macs is None else {"multiply-accumulates of a tile": Load.of(run.tile_macs)}
    plan: Any = run.plan
    return replace(facts, memory=spread_memory(plan.summary, run.tile_bytes), loads=macs)
