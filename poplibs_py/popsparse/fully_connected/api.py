"""Planning PopLibs' dynamic sparse layers for a modelled machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ...checks import instance
from ...errors import InvalidOptionError, PlanError
from ...log import tell
from ...memo import remembered
from ...planner import Memory, Objective, climb, deadline
from ...planner.explain import Considered
from ...planner.ladder import complain
from ...planner.objective import UNLIMITED
from ...target import TYPE_SIZES, Target, memory_limit, modelled_machine
from ..partitioner.api import replanned
from ._model import FORWARD_PHASES, GRAD_A_PHASES, GRAD_W_PHASES
from .model import Candidate, candidates, make_model
from .options import FullyConnectedOptions
from .params import FullyConnectedParams
from .plan import FullyConnectedPlan

_PASSES = (("Fwd", FORWARD_PHASES), ("GradA", GRAD_A_PHASES), ("GradW", GRAD_W_PHASES))

Key = tuple[bool, int, int]
Found = tuple[Key, Candidate, tuple[int, ...]]


class NoLayerPlanError(PlanError):
    """No plan of a layer meets its constraints."""


def plan_fully_connected(params: FullyConnectedParams, *, target: Target | str = "gc200",
                         options: Mapping[str, Any] | FullyConnectedOptions | None = None,
                         time_limit: float | None = None, **more: Any) -> FullyConnectedPlan:
    """Plan a layer with sparse weights whose pattern may change, for a modelled machine.

    Corresponds to PopLibs' ``popsparse::fullyconnected::getPlan``, which ``dynamic::fullyConnectedFwd`` and
    ``dynamic::sparseDenseMatMul`` plan with: the same plan, cycles and bytes, field by field.

    Parameters
    ----------
    params : FullyConnectedParams
    target : Target or str, optional
        The machine, or the name of a preset (default GC200).
    options : mapping or FullyConnectedOptions, optional
        PopLibs' options in its spelling or Python's: see `FullyConnectedOptions`.
    time_limit : float, optional
        Seconds that planning may take; see `poplibs_py.planner.time_limit`.
    **more
        Options by keyword, such as ``do_grad_a_pass=True``; one that contradicts `options` is refused.

    Returns
    -------
    FullyConnectedPlan

    Raises
    ------
    PlanError
        If no plan meets the constraints.
    MemoryLimitError
        If none keeps to the memory limit and ``strict_memory=True``.
    TimeLimitError
        If planning takes longer than `time_limit`.

    Warns
    -----
    MemoryLimitWarning
        If none keeps to the memory limit: it names the limit, the need and what was done.

    Examples
    --------
    >>> from poplibs_py.popsparse.fully_connected import FullyConnectedParams, plan_fully_connected
    >>> plan = plan_fully_connected(FullyConnectedParams(1024, 1024, 64, 0.1, side=16))
    >>> plan.partition, plan.cycles, plan.temp_bytes
    ((1, 64, 11, 2), 3958, 9296)
    """
    instance("params", params, FullyConnectedParams, "a FullyConnectedParams")
    machine, checked = modelled_machine(target), FullyConnectedOptions.parse(options, **more)
    limit = memory_limit(machine, checked.available_memory_proportion)
    if not limit:
        raise InvalidOptionError(f"availableMemoryProportion: got {checked.available_memory_proportion:g}; allowed: "
                                 "what leaves a byte of a tile: with none PopLibs makes no plan")
    with deadline.time_limit(time_limit):
        plan = plan_quietly(params, checked, machine)
    if not plan.fits:
        memory = Memory(checked.available_memory_proportion, checked.strict_memory)
        complain("plan_fully_connected", memory, plan.temporaries)
    return plan


@remembered()
def plan_quietly(params: FullyConnectedParams, options: FullyConnectedOptions, target: Target) -> FullyConnectedPlan:
    """Plan a checked problem, whether the plan keeps to its limit or not."""
    limit = memory_limit(target, options.available_memory_proportion) or 1
    used = dataclasses.replace(options, partials_type=partials_in_use(params, options))
    tried = list(candidates(params, used, target))
    found = climb(lambda most: _best(params, used, target, tried, most), limit, target.bytes_per_tile, beyond=False)
    if found is None:
        raise NoLayerPlanError(
            f"planConstraints: got {options.plan_constraints.text}; allowed: what a plan of this problem for "
            f"{target.tiles} tiles can meet" if options.plan_constraints else
            f"no plan of {params} for {target.tiles} tiles was found: its groups are more than the tiles, or offsets "
            "do not fit 16 bits")
    (chosen, all_found), raised = found
    plan = _made(params, options, used, target, chosen, limit)
    plan = dataclasses.replace(plan, considered=_considered(chosen, all_found), raised=raised)
    tell("popsparse", plan)
    return plan


@replanned.register
def _(plan: FullyConnectedPlan, oversize: float) -> FullyConnectedPlan | None:
    options = dataclasses.replace(plan.options, meta_info_bucket_oversize_proportion=oversize)
    try:
        return plan_quietly(plan.params, options, plan.target)
    except PlanError:
        return None


def partials_in_use(params: FullyConnectedParams, options: FullyConnectedOptions) -> str:
    """Return the type of partial sums: float for single elements, and never smaller than the data type."""
    if params.block == 1 or TYPE_SIZES[options.partials_type] < TYPE_SIZES[params.data_type]:
        return "float"
    return options.partials_type


def _best(params: FullyConnectedParams, options: FullyConnectedOptions, target: Target, tried: list[Candidate],
          limit: int | None) -> tuple[Found, list[tuple[Candidate, Found | None]]] | None:
    """Return the best plan within so many bytes, and the best of each candidate; None where there is none."""
    bound = UNLIMITED if limit is None else limit
    goal = Objective().with_temp_limit(bound)
    every: list[tuple[Candidate, Found | None]] = []
    for candidate in tried:
        model = make_model(params, options, target, candidate)
        answer = model.search(goal.keys, goal.limits, (UNLIMITED, UNLIMITED), deadline.deadline())
        found: Found | None = None
        if answer is not None:
            (cycles, temp), splits, _ = answer
            # PopLibs counts a plan that takes all of the limit as one beyond it where it compares candidates
            found = (temp >= bound, cycles, temp), candidate, tuple(parallel for parallel, _ in splits[:4])
        every.append((candidate, found))
    whole = [found for _, found in every if found is not None]
    return (min(whole, key=lambda one: one[0]), every) if whole else None


def _made(params: FullyConnectedParams, options: FullyConnectedOptions, used: FullyConnectedOptions, target: Target,
          chosen: Found, limit: int) -> FullyConnectedPlan:
    _, candidate, splits = chosen
    told = make_model(params, used, target, candidate).explain(splits)
    cycles, temp, blocks, meta, grad_a_meta, phases = told
    grain = 8 // TYPE_SIZES[used.partials_type] if options.do_grad_w_pass else 1
    values = -(-blocks * candidate.side**2 // grain) * grain
    by_pass = {name: dict(zip(labels, costs, strict=True))
               for (name, labels), costs in zip(_PASSES, phases, strict=True) if costs}
    groups, x, y, z = splits
    dense = str(options.plan_constraints.get("useDense")).lower() == "true"
    return FullyConnectedPlan(params, options, target, candidate, (groups, x, y, z), used.partials_type, values, meta,
                              grad_a_meta, cycles, temp, limit, by_pass, use_dense=dense)


def _considered(chosen: Found, every: list[tuple[Candidate, Found | None]]) -> tuple[Considered, ...]:
    """Tell every candidate with its best."""
    rows = []
    for candidate, found in every:
        way = "buckets" if candidate.exchanges_buckets else "operands"
        name = f"{candidate.forward}, {candidate.grad_w} by {way}, batch by {candidate.z_grouping}"
        if found is None:
            rows.append(Considered(name, None, None, "no plan keeps to the limit"))
            continue
        (_, cycles, temp), is_it = found[0], found is chosen
        rows.append(Considered(name, cycles, temp, "chosen" if is_it else "costs more, or as much and comes later",
                               chosen=is_it))
    return tuple(rows)
