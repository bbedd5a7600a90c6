"""The compiled search against brute force, and what must hold of every plan."""

from __future__ import annotations

import dataclasses
import warnings

import pytest
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from poplibs_py.errors import MemoryLimitError, MemoryLimitWarning, PlanError
from poplibs_py.planner import UNLIMITED, Objective, PlanCache
from poplibs_py.poplin.tile_conv import (
    ConvOptions,
    ConvParams,
    ConvPlan,
    ConvProblem,
    matmul_params,
    plan_convolution,
)
from poplibs_py.poplin.tile_conv.api import run_planner
from poplibs_py.poplin.tile_conv.plan import PHASES, tile_ranges
from poplibs_py.poplin.tile_conv.search import _space, best_plan, search_candidate
from poplibs_py.target import Target

from .brute_force import best_by_force, costs_of_all, useful
from .strategies import convolutions, passes, targets

pytestmark = pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")


@st.composite
def problems(draw: st.DrawFn) -> ConvProblem:
    params = draw(convolutions())
    options = ConvOptions.parse(
        {
            "pass": draw(passes),
            "partialsType": draw(st.sampled_from(["float", "half"])),
            "availableMemoryProportion": draw(st.sampled_from([0.6, 0.01, 0.002, 0.0005])),
            "use128BitConvUnitLoad": draw(st.booleans()),
            "enableFastReduce": draw(st.booleans()),
            "enableMultiStageReduce": draw(st.booleans()),
            "enableTileLevelExpandDims": draw(st.booleans()),
            "fidelity": draw(st.sampled_from(["poplibs", "poplibs", "corrected"])),
        }
    )
    return ConvProblem(draw(targets), params.canonical(), options)


def plan_or_none(problem: ConvProblem, objective: Objective) -> ConvPlan | None:
    options = problem.options.for_params(problem.params)
    return best_plan(problem.target, problem.params, options, objective)


@settings(max_examples=examples(15))
@given(problems())
def test_search_equals_brute_force(problem: ConvProblem) -> None:
    bound = int(problem.target.bytes_per_tile * problem.options.available_memory_proportion)
    for temp_limit in (bound, UNLIMITED):
        plan = plan_or_none(problem, Objective(temp_limit=temp_limit))
        best = best_by_force(problem, temp_limit)
        assert (None if plan is None else (plan.cycles, plan.temp_bytes)) == best


@settings(max_examples=examples(10))
@given(problems())
def test_other_objectives_equal_brute_force(problem: ConvProblem) -> None:
    every = list(costs_of_all(problem))
    assume(every)
    fewest_bytes = plan_or_none(problem, Objective("temp_bytes"))
    assert fewest_bytes is not None
    assert (fewest_bytes.temp_bytes, fewest_bytes.cycles) == min((c[1], c[0]) for c in every)
    limit = min(c[0] for c in every) * 5 // 4
    fewest_tiles = plan_or_none(problem, Objective("tiles", cycles_limit=limit))
    assert fewest_tiles is not None
    assert (fewest_tiles.total_tiles, fewest_tiles.cycles) == min((c[2], c[0]) for c in every if c[0] <= limit)


@settings(max_examples=examples(10))
@given(st.integers(1, 24), st.integers(1, 40), st.integers(1, 24), st.integers(1, 3), st.integers(1, 12),
       st.sampled_from([0.01, 0.002, 0.0005]))  # fmt: skip
def test_joint_search_equals_brute_force(rows: int, inner: int, columns: int, groups: int, tiles: int,
                                         proportion: float) -> None:
    params = ConvParams.create(
        input_type="half", batch=rows, field=[1], kernel=[1], in_channels=inner, out_channels=columns, groups=groups
    )
    options = ConvOptions.parse({"pass": "FC_TRAINING_FWD"})
    problem = ConvProblem(Target.small(tiles), params.canonical(), options)
    for bound in (UNLIMITED, int(problem.target.bytes_per_tile * proportion)):
        plan = best_plan(problem.target, problem.params, options, Objective(temp_limit=bound), joint=True)
        best = best_by_force(problem, bound, joint=True)
        assert (None if plan is None else (plan.cycles, plan.temp_bytes)) == best


@settings(max_examples=examples(10))
@given(st.integers(1, 40), st.integers(500, 900), st.integers(1, 40), st.sampled_from(["half", "float"]),
       st.sampled_from(["FC_TRAINING_FWD", "FC_TRAINING_WU", "NONE_MATMUL"]), st.booleans())  # fmt: skip
def test_no_candidate_is_below_its_bound(rows: int, inner: int, columns: int, dtype: str, pass_: str,
                                         joint: bool) -> None:
    assume(pass_ == "FC_TRAINING_FWD" or not joint)
    params = matmul_params(1, rows, inner, columns, dtype).canonical()
    options = ConvOptions.parse({"pass": pass_}).for_params(params)
    target = Target.small(16)
    space = _space(target, params, options, joint, not joint)
    assert space.likely
    for i in (*space.likely, *(i for family in space.families for i in family.places)):
        for kind in ("cycles", "temp_bytes"):
            found = search_candidate(target, params, options, joint, space.rated(i)[1], Objective(kind))
            if found is not None:
                key = ("cycles", "temp_bytes").index(kind)
                assert (found.cycles, found.temp_bytes)[key] >= space.least[i][key]


@given(problems())
def test_phases_add_up(problem: ConvProblem) -> None:
    plan = plan_or_none(problem, Objective())
    assume(plan is not None)
    assert plan is not None
    once = {"broadcast input before the loop", "rearrange weights before slicing", "cast output"}
    total = 0
    for label, names, _ in PHASES:
        total += sum(plan.costs.get(n, 0) for n in names) * (1 if label in once else plan.serial_splits)
    assert total == plan.cycles
    assert plan.tiles_used == plan.total_tiles <= problem.target.tiles
    assert 0 <= dataclasses.replace(plan, problem=problem).summary.share_of_peak <= 1 or plan.method.type == "SLIC"


@given(problems())
def test_every_split_is_the_least_for_its_size(problem: ConvProblem) -> None:
    plan = plan_or_none(problem, Objective())
    assume(plan is not None)
    assert plan is not None
    p = plan.partition
    for split in (*p.field_split, *p.kernel_split, p.batch_split, p.conv_group_split):
        assert any(split in useful(extent, extent) for extent in range(split, 64 * split + 1))
    assert min(p.in_chan_split.serial, p.out_chan_split.serial) == 1


@given(problems(), st.lists(st.sampled_from([0.0005, 0.002, 0.01, 0.1, 0.6]), min_size=2, max_size=2, unique=True))
def test_a_larger_bound_never_costs_cycles(problem: ConvProblem, proportions: list[float]) -> None:
    small, large = sorted(int(problem.target.bytes_per_tile * p) for p in proportions)
    tight = plan_or_none(problem, Objective(temp_limit=small))
    loose = plan_or_none(problem, Objective(temp_limit=large))
    if tight is None:
        return
    assert loose is not None
    assert loose.cycles <= tight.cycles
    assert tight.temp_bytes <= small


@given(problems(), st.data())
def test_constraints_never_help_and_are_obeyed(problem: ConvProblem, data: st.DataObject) -> None:
    free = plan_or_none(problem, Objective())
    assume(free is not None)
    assert free is not None
    wanted = data.draw(
        st.sampled_from(
            [
                {"method": {"type": "HMAC"}},
                {"0": {"transform": {"swapOperands": True}}},
                {"0": {"partition": {"batchSplit": 1, "outChanSplit": {"serial": 1}}}},
                {"0": {"partition": {"fieldSplit": {"0": 1, "1": 1}}}},
            ]
        )
    )
    options = ConvOptions.parse(problem.options, plan_constraints=wanted)
    bound = plan_or_none(dataclasses.replace(problem, options=options), Objective())
    if bound is None:
        return
    assert bound.cycles >= free.cycles
    if "method" in wanted:
        assert bound.method.type == "HMAC"
    elif "transform" in wanted["0"]:
        assert bound.transforms[0].swap_operands
    elif "batchSplit" in wanted["0"]["partition"]:
        assert (bound.partition.batch_split, bound.partition.out_chan_split.serial) == (1, 1)
    else:
        assert bound.partition.field_split[:2] == (1, 1)


@given(problems())
def test_a_plans_own_constraints_give_it_back(problem: ConvProblem) -> None:
    plan = plan_or_none(problem, Objective())
    assume(plan is not None)
    assert plan is not None
    # constraints name the problem's own dimensions; ones that were added cannot be named
    assume(problem.params.ndim > 1)
    system = plan.transforms[0]
    # PopLibs refuses constraints that combine groups and also expand or flatten
    assume(system.combine_conv_groups_factor == 1 or not (system.expand_dims or system.out_chan_flatten_dims))
    options = ConvOptions.parse(problem.options, plan_constraints=plan.constraints())
    again = plan_or_none(dataclasses.replace(problem, options=options), Objective())
    assert again is not None
    assert (again.partition, again.method, again.transforms) == (plan.partition, plan.method, plan.transforms)
    assert again.cycles == plan.cycles


@given(problems())
def test_plan_survives_json(problem: ConvProblem) -> None:
    try:
        plan = run_planner(problem)
    except PlanError:
        return
    assert ConvPlan.from_json(plan.to_json()) == plan
    assert str(plan).count("\n") > 10


@given(st.integers(1, 200), st.integers(1, 20), st.integers(1, 8))
def test_tile_ranges_cover_the_axis(extent: int, split: int, grain: int) -> None:
    assume(split <= -(-extent // grain))
    ranges = tile_ranges(extent, split, grain)
    assert len(ranges) == split
    assert [e for begin, end in ranges for e in range(begin, end)] == list(range(extent))
    largest = max(end - begin for begin, end in ranges)
    grains = -(-extent // grain)
    assert largest <= -(-grains // split) * grain


# The ladder ----------------------------------------------------------------------------------------

TIGHT = ConvParams.create(input_type="float", batch=96, field=[1], kernel=[1], in_channels=32, out_channels=64)


def test_misfit_warns_with_bound_and_need() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan = plan_convolution(
            TIGHT, target=Target.small(6), available_memory_proportion=0.005, cache=PlanCache(), pass_="NONE_MATMUL"
        )
    [warning] = [w for w in caught if issubclass(w.category, MemoryLimitWarning)]
    assert "3,194" in str(warning.message)
    assert f"{plan.temp_bytes:,}" in str(warning.message)
    assert warning.filename == __file__
    assert plan.cycles == 14943
    assert not plan.fits


def test_strict_memory_raises() -> None:
    with pytest.raises(MemoryLimitError, match="3,194"):
        plan_convolution(
            TIGHT, target=Target.small(6), available_memory_proportion=0.005, strict_memory=True, pass_="NONE_MATMUL"
        )


def test_zero_proportion_means_no_bound() -> None:
    free = plan_convolution(TIGHT, target=Target.small(6), available_memory_proportion=0)
    assert free.limit is None
    assert free.fits
    assert free.cycles <= plan_convolution(TIGHT, target=Target.small(6)).cycles
