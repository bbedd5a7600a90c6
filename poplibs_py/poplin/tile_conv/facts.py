"""What a report keeps of a convolution's plan on a modelled machine, and where its memory lies on the tiles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from ...formats import Array
from ...kernels import select
from ...planner.explain import considered_kernels
from ...planner.facts import Load, PlanFacts, TileMemory, facts_of, facts_of_summary
from ...planner.summary import Phase
from ...target import TYPE_SIZES
from .multi import MultiPlan
from .plan import ConvPlan
from .summary import summary_of
from .work import ConvWork, work_of

_BEFORE_LOOP = "broadcast input before the loop", "rearrange weights before slicing"


@facts_of.register
def plan_facts(plan: ConvPlan) -> PlanFacts:
    """Return the facts of a plan of `plan_convolution` or of a product."""
    said, work = summary_of(plan), work_of(plan)
    here = considered_kernels(select("dot", "multiply", "float32", consistent=True))
    return facts_of_summary(
        said, work.problem.target, considered=tuple((c.name, c.verdict) for c in here),
        live=tuple(held for phases in said.passes.values() for held in _live(phases)), memory=memory_of(work),
        loads={"multiply-accumulates of a tile": Load.of(work.tile_macs())})


@facts_of.register
def _several(plan: MultiPlan) -> PlanFacts:
    """Return the facts of convolutions planned together: a phase of those side by side takes as long as its longest."""
    each = [facts_of(one) for one in plan.plans]
    update = Phase("update", sum(one.cycles for one in plan.updates), 1,
                   max((one.temp_bytes for one in plan.updates), default=0))
    if len(each) == 1:
        one, more = each[0], (update,) if plan.updates else ()
        return dataclasses.replace(one, phases=(*one.phases, *more), live=(*one.live, *(p.bytes for p in more)),
                                   cycles=one.cycles + update.cycles)
    phases: dict[str, Phase] = {}
    for number, said in enumerate(each):
        for phase in said.phases:
            name = phase.name if plan.parallel else f"{number + 1}: {phase.name}"
            phases[name] = max(phases.get(name, phase), dataclasses.replace(phase, name=name), key=lambda p: p.cycles)
    if plan.updates:
        phases["update"] = update
    how = "side by side" if plan.parallel else "in turn"
    over = {} if plan.fits else {"memory": plan.temporaries.allowed}
    return PlanFacts(
        f"{len(each)} convolutions {how}", each[0].machine, settings=over,
        decisions={f"{number + 1}": said.problem for number, said in enumerate(each)}, considered=each[0].considered,
        phases=tuple(phases.values()), live=tuple(phase.bytes for phase in phases.values()),
        cycles=sum(phase.cycles for phase in phases.values()), clock_hz=each[0].clock_hz, peak_flops=each[0].peak_flops,
        temporaries=plan.temporaries, tiles=sum(one.total_tiles for one in plan.plans) if plan.parallel else
        each[0].tiles, tile_bytes=each[0].tile_bytes)


def memory_of(work: ConvWork) -> TileMemory:
    """Return what lies on each tile.

    Operands and the result lie on the tiles that read or make them, once each: an element that several tiles use is on
    one of them, as PopLibs' mappings have it, so each tile has a share in proportion to what it uses. Temporaries are
    the model's for the tile that needs most; another has as much less as it holds less in a turn.
    """
    a, p = work.grid.amounts, work.problem.params
    inputs = a.inputs.max(axis=0).sum(axis=0).ravel()
    weights = a.weights.sum(axis=(0, 1)).ravel()
    sums = a.sums.max(axis=1).sum(axis=0).ravel()
    size = TYPE_SIZES[p.input_type]
    images = p.groups * p.batch * p.in_channels * prod(p.field_shape)
    kernels = p.groups * p.in_channels * p.out_channels * prod(p.kernel_shape)
    made = p.groups * p.batch * p.out_channels * prod(p.output_shape)
    held = (a.inputs + a.weights + a.sums).max(axis=(0, 1)).ravel()
    return TileMemory.of(**{kind: work.on_tiles(on_tile) for kind, on_tile in {
        "operands": size * (_dealt(images, inputs) + _dealt(kernels, weights)),
        "results": TYPE_SIZES[p.output_type] * _dealt(made, sums),
        "temporaries": held * work.plan.temp_bytes // max(1, int(held.max(initial=0)))}.items()})


def _live(phases: Sequence[Phase]) -> Iterator[int]:
    """Temporary bytes that live in each phase of a pass: the most of them is what the model counts.

    What is moved before the loop stays until it ends, what turns add to as well; padding on the tile is multiplied.
    """
    own = {p.name: p.bytes for p in phases}
    kept = 0
    for p in phases:
        if p.name in _BEFORE_LOOP:
            kept += p.bytes
        during = kept + own.get("add in place", 0)
        if p.name in ("transform", "reduce"):
            during += p.bytes
        elif p.name in ("pad on the tile", "cast inputs", "compute"):
            during += own.get("pad on the tile", 0) + (p.bytes if p.name == "compute" else 0)
        yield own.get("add in place", 0) if p.name == "cast output" else during


def _dealt(elements: int, used: Array) -> Array:
    """Elements dealt out in proportion to what each tile uses, rounded up to whole ones."""
    whole = int(used.sum())
    return np.ceil(used * (elements / whole)).astype(np.int64) if whole else used
