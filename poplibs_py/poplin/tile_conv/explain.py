"""Explaining a convolution's plan: every candidate planned by itself, and compared with the plan."""

from __future__ import annotations

from ...checks import instance
from ...errors import bad_argument
from ...planner.explain import Considered, Explanation, explained
from ...planner.objective import UNLIMITED, Objective
from .candidates import Candidate, candidates
from .model import method_allows
from .plan import ConvPlan
from .problem import ConvProblem
from .search import search_candidate, setup_of
from .summary import is_product, transforms_in_words
from .vertices import max_macs_per_cycle

_HOPELESS = 4  # candidates this many times slower are not costed further


@explained.register
def explain_plan(plan: ConvPlan) -> Explanation:
    """Cost every candidate of the plan's problem, and say why each lost."""
    instance("plan", plan, ConvPlan, "a plan made by plan_convolution")
    problem = plan.problem
    if problem is None:
        raise bad_argument("plan", "a plan without its problem", "a plan made by plan_convolution")
    options = problem.options.for_params(problem.params)
    tried = candidates(problem.target, problem.params, options, plan.joint)
    said = plan.summary
    decided = said.decisions | {"split": said.split, "phases": said.spent} | said.figures()
    return Explanation(f"{said.problem} on {problem.target.name}", decided,
                       tuple(_consider(problem, plan, c) for c in tried))


def _name(c: Candidate, product: bool) -> str:
    way, v = c
    parts = [str(v.method), f"{v.conv_groups}x{v.in_chans}x{v.partial_chans}", v.partial_type,
             transforms_in_words(way.system, product)]
    if way.tile.expand_dims:
        parts.append(f"on the tile: {transforms_in_words(way.tile, product)}")
    return "; ".join(parts)


def _is_chosen(plan: ConvPlan, c: Candidate) -> bool:
    way, v = c
    groupings = (plan.conv_groups_per_group, plan.in_chans_per_group, plan.partial_chans_per_group)
    same_vertex = (v.method, v[3:], v.partial_type) == (plan.method, groupings, plan.types[1].partial)
    return same_vertex and (way.system, way.tile) == plan.transforms


def _consider(problem: ConvProblem, plan: ConvPlan, c: Candidate) -> Considered:
    name = _name(c, is_product(problem.params))
    if plan.order == "STANDARD" and _is_chosen(plan, c):
        return Considered(name, plan.cycles, plan.temp_bytes, "chosen", chosen=True)
    target, params = problem.target, problem.params
    options = problem.options.for_params(params)
    setup = setup_of(params, options, plan.joint, c)
    if not method_allows(setup):
        return Considered(name, None, None, "the vertex does not take this problem's transforms")
    least = -(-(setup.stages.padded.macs() // max_macs_per_cycle(target, c.vertex)) // target.tiles)
    allowed = _HOPELESS * plan.cycles
    if least > allowed:
        return Considered(name, None, None, f"at least {least:,} cycles on all tiles at peak rate")
    limit = min(int(plan.limit), UNLIMITED) if plan.limit is not None and plan.fits else UNLIMITED
    for temp_limit in dict.fromkeys((limit, UNLIMITED)):
        objective = Objective(cycles_limit=allowed, temp_limit=temp_limit)
        best = search_candidate(target, params, options, plan.joint, c, objective)
        if best is None:
            continue
        if temp_limit != limit:
            return Considered(name, best.cycles, best.temp_bytes, f"needs more than {limit:,} bytes")
        return Considered(name, best.cycles, best.temp_bytes, _verdict(plan, best))
    return Considered(name, None, None, f"no split is within {_HOPELESS} times the plan's cycles")


def _verdict(plan: ConvPlan, other: ConvPlan) -> str:
    slower = other.cycles - plan.cycles
    if slower > 0:
        return f"{slower / plan.cycles:.1%} slower"
    more = other.temp_bytes - plan.temp_bytes
    if more > 0:
        return f"as fast, {more:,} bytes more"
    return "costs the same, tried later"
