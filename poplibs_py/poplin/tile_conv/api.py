"""Planning a convolution."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...checks import instance
from ...config import settings
from ...errors import (
    InvalidArgumentError,
    InvalidOptionError,
    PlanError,
    PoplibsError,
    bad_argument,
    bad_type,
    described,
)
from ...log import tell
from ...memo import remembered
from ...planner import deadline
from ...planner.cache import PlanCache
from ...planner.ladder import Memory, climb, complain
from ...planner.objective import UNLIMITED, Objective
from ...planner.sweep import plan_at
from ...target import Target, memory_limit, resolve_target
from . import joint
from .options import ConvOptions
from .params import ConvParams
from .plan import ConvPlan
from .problem import ConvProblem
from .search import Reference, best_plan
from .summary import is_product


class NoPlanError(PlanError):
    """No plan of a problem meets its constraints."""

    #: What PopLibs says.
    ORIGINAL = "No base plan found for unbounded plan"


def conv_cache(directory: str | Path | None = None) -> PlanCache[ConvPlan]:
    """A cache of convolution plans, with a directory if one is given."""
    return PlanCache(directory, write=ConvPlan.to_json, read=ConvPlan.from_json)


def _default_cache() -> PlanCache[ConvPlan]:
    try:
        return conv_cache(settings.cache_dir)
    except InvalidArgumentError:
        raise bad_argument("POPLIBS_CACHE_DIR", settings.cache_dir, "a folder that can be made") from None


_DEFAULT_CACHE = _default_cache()


def plan_convolution(params: ConvParams, *, target: Target | str = "gc200",
                     options: Mapping[str, Any] | ConvOptions | None = None, cache: PlanCache[ConvPlan] | None = None,
                     time_limit: float | None = None, **more: Any) -> ConvPlan:
    """Plan a convolution for a modelled machine.

    Corresponds to PopLibs' ``getPlan``: the same plan, cycles and bytes, field by field.

    Parameters
    ----------
    params : ConvParams
        The problem; it is made canonical first.
    target : Target or str
        The machine, or the name of a preset (default GC200).
    options : mapping or ConvOptions, optional
        PopLibs' options in its spelling or Python's; see `ConvOptions`.
    cache : PlanCache, optional
        Where plans are kept; default a cache of this process.
    time_limit : float, optional
        Seconds that planning may take; see `poplibs_py.planner.time_limit`.
    **more
        Options by keyword, such as ``available_memory_proportion=0.2``; one that contradicts `options` is refused.

    Returns
    -------
    ConvPlan
        For the pass of a fully connected layer in training it may be part of a joint plan; then `joint` is set.

    Raises
    ------
    PlanError
        If no plan satisfies the constraints.
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
    >>> from poplibs_py.poplin.tile_conv import matmul_params, plan_convolution
    >>> plan = plan_convolution(matmul_params(1, 1024, 1024, 1024, "half"), target="gc200",
    ...                         pass_="NONE_MATMUL", partials_type="half")
    >>> plan.cycles, plan.temp_bytes, plan.tiles_used
    (29904, 57344, 1408)
    """
    frozen = frozen_items(options) if isinstance(options, Mapping) else options
    ConvOptions.check_kind(options)
    instance("cache", cache, (PlanCache, type(None)), "a PlanCache or None")
    try:
        problem = _checked_problem(params, target, frozen, frozen_items(more))
    except TypeError as error:
        if isinstance(error, PoplibsError):
            raise
        problem = _check(params, target, options, more)  # an option that cannot be hashed
    with deadline.time_limit(time_limit):
        return plan_problem(problem, _DEFAULT_CACHE if cache is None else cache)


def _check(params: ConvParams, target: Target | str, options: Mapping[str, Any] | ConvOptions | None,
           more: Mapping[str, Any]) -> ConvProblem:
    if not isinstance(params, ConvParams):
        raise bad_type("params", params, "a ConvParams")
    checked = ConvOptions.parse(options, **more)
    return ConvProblem(resolve_target(target), params.canonical(), checked)


Items = tuple[tuple[str, type, Any], ...]


def frozen_items(options: Mapping[str, Any]) -> Items:
    """Options as a key that tells 1 from True."""
    return tuple((key, type(value), value) for key, value in options.items())


def thawed(items: Items) -> dict[str, Any]:
    """The options that `frozen_items` froze."""
    return {key: value for key, _, value in items}


@remembered()
def _checked_problem(params: ConvParams, target: Target | str, options: Items | ConvOptions | None,
                     more: Items) -> ConvProblem:
    """`_check`, remembered: asking again for a plan costs microseconds."""
    return _check(params, target, thawed(options) if isinstance(options, tuple) else options, thawed(more))


def plan_problem(problem: ConvProblem, cache: PlanCache[ConvPlan]) -> ConvPlan:
    """Plan a checked problem, or return its plan from `cache`; warn, or raise, where it does not keep to its limit."""
    plan = planned_quietly(problem, cache)
    check_limit(problem, plan)
    write_constraints(problem, plan)
    return plan


def check_limit(problem: ConvProblem, plan: ConvPlan) -> None:
    """Warn, or raise, where a problem's plan does not keep to its limit."""
    if not plan.fits:
        options = problem.options
        memory = Memory(options.available_memory_proportion, options.strict_memory)
        complain("matmul" if is_product(problem.params) else "convolution", memory, plan.temporaries)


def write_constraints(problem: ConvProblem, plan: ConvPlan) -> None:
    """Write a plan's constraints to the file that the options name, where they do."""
    filename = problem.options.plan_constraints_output_filename
    if filename:
        _write(_constraints_file(filename, problem.options.pass_), plan)


def planned_quietly(problem: ConvProblem, cache: PlanCache[ConvPlan] | None = None) -> ConvPlan:
    """The plan of a checked problem, whether it keeps to its limit or not."""
    cache = _DEFAULT_CACHE if cache is None else cache
    plan = cache.get(problem)
    if plan is None:
        plan = cache.get_or_plan(problem, lambda: _plan_or_derive(problem, cache), problem.key)
    return plan


@plan_at.register
def _(problem: ConvProblem, proportion: float) -> ConvPlan:
    options = dataclasses.replace(problem.options, available_memory_proportion=proportion, strict_memory=False)
    return planned_quietly(dataclasses.replace(problem, options=options))


def _write(path: str, plan: ConvPlan) -> None:
    try:
        Path(path).write_text(plan.constraints().text)
    except (OSError, ValueError) as error:  # a null byte
        raise InvalidOptionError(f"planConstraintsOutputFilename: got {described(path)}; allowed: a file that can be "
                                 f"written ({error})") from None


def _constraints_file(stem: str, pass_: str) -> str:
    return stem + next((f"_{end}" for end in ("FWD", "BWD", "WU") if pass_.endswith(end)), "") + ".json"


def _plan_or_derive(problem: ConvProblem, cache: PlanCache[ConvPlan]) -> ConvPlan:
    """Plan; or, for the later passes of a fully connected layer, follow its joint forward plan."""
    options = problem.options
    if options.pass_ in ("FC_TRAINING_BWD", "FC_TRAINING_WU"):
        forward = _sibling(problem, "FC_TRAINING_FWD")
        forward = dataclasses.replace(forward, options=forward.options.derived(plan_constraints_output_filename=""))
        plan = cache.get_or_plan(forward, lambda: _run(forward, cache), forward.key)
        if plan.joint:
            derive = joint.backward_plan if options.pass_ == "FC_TRAINING_BWD" else joint.weight_update_plan
            raised = forward.options.for_params(forward.params)
            derived = derive(forward.target, forward.params, raised, plan)
            return dataclasses.replace(derived, problem=problem)
        apart = cache.get(problem)  # planning the forward pass may have left this one's plan
        if apart is not None:
            return apart
    return _run(problem, cache)


def _run(problem: ConvProblem, cache: PlanCache[ConvPlan]) -> ConvPlan:
    """Plan from scratch; plans of the other passes that come for nothing go into the cache."""
    plan = run_planner(problem)
    if not plan.additional:
        return plan
    for other in plan.additional:
        assert other.problem is not None
        cache.put(other.problem, other, other.problem.key)
    return plan


def _sibling(problem: ConvProblem, pass_: str) -> ConvProblem:
    """The problem of another pass of the same layer."""
    params = joint.pass_params(problem.params, problem.options.pass_, pass_)
    return dataclasses.replace(problem, params=params, options=problem.options.with_pass(pass_))


def run_planner(problem: ConvProblem, *, reference: Reference | None = None, tiles_secondary: bool = False,
                cycle_limit: int | None = None, start_tile: int = 0) -> ConvPlan:
    """Plan one problem. Corresponds to PopLibs' ``runPlanner``."""
    target, params = problem.target, problem.params
    options = problem.options.for_params(params)
    limit = memory_limit(target, options.available_memory_proportion)
    if limit == 0:
        limit = 1  # less than a byte: nothing fits, and the ladder needs something to double
    if limit is None:
        objective = Objective("temp_bytes")
    elif reference is not None:
        objective = Objective("cost_difference", tiles_secondary=tiles_secondary)
    elif cycle_limit is not None:
        objective = Objective("tiles", cycles_limit=cycle_limit)
    else:
        objective = Objective()
    if limit is not None:
        objective = objective.with_temp_limit(limit)
    if options.pass_ == "FC_TRAINING_FWD" and reference is None:
        plan = _plan_layer(target, params, options, objective)
    else:
        plan = _plan_pass(target, params, options, objective, reference=reference)
    if plan is None:
        constraints = options.plan_constraints
        raise NoPlanError(f"planConstraints: got {constraints.text}; allowed: what a plan of this problem can meet"
                          if constraints else "no plan of this problem was found")
    if not params.batch * params.groups * params.out_channels:
        plan = dataclasses.replace(plan, costs={})  # nothing is computed
    others = tuple(dataclasses.replace(other, limit=limit, problem=_sibling(problem, pass_))
                   for pass_, other in zip(("FC_TRAINING_BWD", "FC_TRAINING_WU"), plan.additional, strict=False))
    plan = dataclasses.replace(plan, limit=limit, problem=problem, additional=others)
    plan = dataclasses.replace(plan, start_tile=start_tile) if start_tile else plan
    tell("poplin", plan)
    return plan


def _plan_pass(target: Target, params: ConvParams, options: ConvOptions, objective: Objective, *,
               joint_plan: bool = False, reference: Reference | None = None, tried: bool = False) -> ConvPlan | None:
    """One pass, or one joint plan, with the ladder."""

    def once(limit: int | None) -> ConvPlan | None:
        # the ladder's last rung looks at cycles alone, but keeps to the reference's serial loop
        goal = Objective() if limit is None else objective.with_temp_limit(limit)
        return best_plan(target, params, options, goal, joint=joint_plan, reference=reference)

    limit = objective.temp_limit if objective.limited else None
    found = climb(once, limit, target.bytes_per_tile, tried=tried)
    return None if found is None else dataclasses.replace(found.plan, raised=found.raised)


def _plan_layer(target: Target, params: ConvParams, options: ConvOptions, objective: Objective) -> ConvPlan | None:
    """A fully connected layer in training: one joint plan, or three apart if they cost less."""
    jobs = [(params, options, True)]
    jobs += [
        (joint.pass_params(params, "FC_TRAINING_FWD", pass_), options.with_pass(pass_), False)
        for pass_ in ("FC_TRAINING_FWD", "FC_TRAINING_BWD", "FC_TRAINING_WU")
    ]
    plans: list[ConvPlan | None] = [None] * 4
    if objective.limited:
        for i, (p, o, j) in enumerate(jobs):
            plans[i] = best_plan(target, p, o, objective, joint=j)
            if plans[i] is None and plans[0] is not None:
                return plans[0]  # a joint plan that fits is better than three of which one does not
    if not objective.limited or (plans[0] is None and None in plans[1:]):
        for i, (p, o, j) in enumerate(jobs):
            if plans[i] is None:
                plans[i] = _plan_pass(target, p, o, objective, joint_plan=j, tried=True)
    together, *apart = plans
    if _apart_is_better(together, apart, objective.temp_limit):
        forward, backward, update = apart
        assert forward is not None
        assert backward is not None
        assert update is not None
        return dataclasses.replace(forward, additional=(backward, update))
    return together


def _apart_is_better(together: ConvPlan | None, apart: list[ConvPlan | None], limit: int) -> bool:
    whole = [p for p in apart if p is not None]
    if len(whole) < 3:
        cycles = temp = UNLIMITED
    else:
        cycles, temp = sum(p.cycles for p in whole), max(p.temp_bytes for p in whole)
    joint_cycles = UNLIMITED if together is None else together.cycles
    joint_temp = UNLIMITED if together is None else together.temp_bytes
    if len(whole) == 3 and together is None:
        return True
    if temp <= limit:
        return joint_temp > limit or cycles < joint_cycles
    return joint_temp > limit and temp < joint_temp
