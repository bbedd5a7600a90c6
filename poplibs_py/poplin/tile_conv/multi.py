"""Several convolutions planned to run side by side, each on tiles of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ...checks import instance, one_of, real, whole
from ...errors import PlanError, PoplibsWarning, bad_argument, bad_type, check_keys, warn
from ...planner.cache import PlanCache
from ...planner.explain import Explanation
from ...planner.facts import facts_of
from ...planner.ladder import Limited, Temporaries
from ...popops.maps.modelled import MapPlan
from ...program import rounded
from ...target import Target, resolve_target
from ._model import STEPS
from .api import check_limit, planned_quietly, run_planner, write_constraints
from .options import ConvOptions
from .params import ConvParams
from .plan import ConvPlan
from .problem import ConvProblem
from .search import Reference


@dataclasses.dataclass(frozen=True)
class MultiPlan(Limited):
    """Plans of several convolutions, side by side (`parallel`) or one after another.

    Where their results are added to weights, `updates` are the plans of these additions, which follow in turn.
    """

    plans: tuple[ConvPlan, ...]
    parallel: bool
    updates: tuple[MapPlan, ...] = ()

    @property
    def cycles(self) -> int:
        """Modelled cycles, until all are done: a phase of those side by side takes as long as its longest."""
        return facts_of(self).cycles

    @property
    def flops(self) -> int:
        """Multiplications and additions of all."""
        return sum(plan.flops for plan in self.plans)

    @property
    def temporaries(self) -> Temporaries:
        """Temporary bytes of the plan that tells for all."""
        worst = Temporaries.worst(plan.temporaries for plan in self.plans)
        assert worst is not None, "there is a plan"
        return worst

    def explain(self) -> Explanation:
        """Return what was decided for each; what was considered is told by their own `explain`."""
        how = "side by side" if self.parallel else "in turn"
        decisions = {f"{number + 1}": f"{plan.cycles:,} cycles on {plan.tiles_used:,} tiles"
                     for number, plan in enumerate(self.plans)}
        decisions |= {f"update {number + 1}": f"{plan.cycles:,} cycles" for number, plan in enumerate(self.updates)}
        decisions["memory"] = str(self.temporaries)
        count = len(self.plans)
        return Explanation(f"{count} convolutions {how}" if count > 1 else "a convolution", decisions, ())


def plan_convolutions(
    problems: Sequence[ConvParams],
    *,
    target: Target | str = "gc200",
    options: Sequence[ConvOptions | Mapping[str, Any]] | Mapping[str, Any] | ConvOptions | None = None,
    multi_options: Mapping[str, Any] | None = None,
    cache: PlanCache[Any] | None = None,
) -> MultiPlan:
    """Plan several convolutions to run at once. Corresponds to PopLibs' ``getMultiPlan``.

    The largest is planned for speed, and then again for few tiles at a little more than its cycles. The others follow,
    smallest first: their steps may be no longer than those so far, and then they take few tiles. The second largest
    comes last and takes the tiles that are left. Where that fails, each is planned on all tiles, to run in turn.

    Parameters
    ----------
    problems : sequence of ConvParams
    options : ConvOptions or mapping, or a sequence of them
        For all, or for each.
    multi_options : mapping, optional
        ``planType`` ("parallel", the default, or "serial"), ``perConvReservedTiles`` (50) and ``cycleBackOff``
        (0.1), as in PopLibs.
    cache : PlanCache, optional
        Where the multi-plan is kept.

    Raises
    ------
    MemoryLimitError
        If a plan does not keep to its memory limit and ``strict_memory=True``.

    Warns
    -----
    MemoryLimitWarning
        For each plan that does not.

    Examples
    --------
    >>> from poplibs_py.poplin.tile_conv import ConvParams
    >>> from poplibs_py.poplin.tile_conv.multi import plan_convolutions
    >>> convs = [ConvParams.create(field=[n, n], kernel=[3, 3], in_channels=8, out_channels=8) for n in (8, 6)]
    >>> made = plan_convolutions(convs, target="gc200")
    >>> made.parallel, sum(p.tiles_used for p in made.plans) <= 1472
    (True, True)
    """
    if not isinstance(problems, (list, tuple)) or not all(isinstance(p, ConvParams) for p in problems):
        raise bad_type("problems", problems, "a list of ConvParams")
    if not problems:
        raise bad_argument("problems", "nothing", "one convolution or more")
    target = resolve_target(target)
    if options is None or isinstance(options, (Mapping, ConvOptions)):
        options = [options] * len(problems)  # type: ignore[list-item]
    if not isinstance(options, (list, tuple)):
        raise bad_type("options", options, "a ConvOptions or mapping, or a list of them")
    if len(options) != len(problems):
        raise bad_argument("options", f"{len(options)} of them", f"{len(problems)}, one per problem")
    settings = multi_settings({} if multi_options is None else multi_options)
    jobs = tuple(
        ConvProblem(target, params.canonical(), ConvOptions.parse(given))
        for params, given in zip(problems, options, strict=True)
    )
    instance("cache", cache, (PlanCache, type(None)), "a PlanCache or None")
    key = (jobs, tuple(settings.items()))
    made: MultiPlan = (_plan(jobs, settings, None) if cache is None else
                       cache.get_or_plan(key, lambda: _plan(jobs, settings, cache)))
    for job, plan in zip(jobs, made.plans, strict=True):
        check_limit(job, plan)
    return made


def multi_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check options of several convolutions, and return them with those that were not given."""
    settings: dict[str, Any] = {"planType": "parallel", "perConvReservedTiles": 50, "cycleBackOff": 0.1}
    if not isinstance(given, Mapping):
        raise bad_type("multi_options", given, "a mapping of option names to values")
    check_keys("multi_options", given, settings)
    settings |= given
    one_of("planType", settings["planType"], ("parallel", "serial"))
    reserved = whole("perConvReservedTiles", settings["perConvReservedTiles"], 1, 2**31 - 1)
    back_off = real("cycleBackOff", settings["cycleBackOff"], "a finite number, 0 or more", 0)
    return settings | {"perConvReservedTiles": reserved, "cycleBackOff": back_off}


def _plan(jobs: Sequence[ConvProblem], settings: dict[str, Any], cache: PlanCache[Any] | None) -> MultiPlan:
    if settings["planType"] == "parallel":
        try:
            return MultiPlan(_side_by_side(jobs, settings), parallel=True)
        except PlanError as error:
            warn(f"no plan side by side ({error}); each convolution is planned on all tiles", PoplibsWarning)
    shared: PlanCache[ConvPlan] = PlanCache() if cache is None else cache
    plans = tuple(planned_quietly(job, shared) for job in jobs)
    for job, plan in zip(jobs, plans, strict=True):
        write_constraints(job, plan)
    return MultiPlan(plans, parallel=False)


def _side_by_side(jobs: Sequence[ConvProblem], settings: dict[str, Any]) -> tuple[ConvPlan, ...]:
    count, target = len(jobs), jobs[0].target
    order = sorted(range(count), key=lambda i: jobs[i].params.flops())
    each = settings["perConvReservedTiles"]
    if target.tiles < count * each:
        each = max(1, target.tiles // count)
    reserved = (count - 1) * each
    back_off = 1 + (count - 1) * settings["cycleBackOff"]
    made: dict[int, ConvPlan] = {}

    largest = on_tiles(jobs[order[-1]], target.tiles - reserved)
    plan = run_planner(largest)
    plan = run_planner(largest, cycle_limit=int(plan.cycles * back_off))
    made[order[-1]] = plan
    reference = Reference(plan, [_larger_steps(plan.costs, {})])
    start = _up_to_bus(plan.total_tiles, target)
    reserved -= each
    for i in order[: max(0, count - 2)]:
        job = on_tiles(jobs[i], target.tiles - start - reserved)
        plan = run_planner(job, reference=reference, tiles_secondary=True, start_tile=start)
        made[i] = plan
        reserved -= each
        start += _up_to_bus(plan.total_tiles, target)
        reference = Reference(reference.plan, [_larger_steps(reference.costs[0], plan.costs)])
    if count > 1:
        i = order[-2]
        job = on_tiles(jobs[i], target.tiles - start)
        made[i] = run_planner(job, reference=reference, start_tile=start)
    return tuple(made[i] for i in range(count))


def on_tiles(job: ConvProblem, tiles: int) -> ConvProblem:
    """The same problem on part of the machine."""
    if tiles < 1:
        raise PlanError("not enough tiles for every convolution")
    return dataclasses.replace(job, target=job.target.replace(tiles=tiles))


def _up_to_bus(tiles: int, target: Target) -> int:
    return rounded(tiles, target.tiles_per_exchange_bus)


def _larger_steps(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {step: max(left.get(step, 0), right.get(step, 0)) for step in STEPS}
