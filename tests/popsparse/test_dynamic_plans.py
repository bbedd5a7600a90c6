"""Plans of dynamic sparse layers on modelled machines: the best of all splits, the ladder, what they refuse."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    InvalidTypeError,
    MemoryLimitError,
    MemoryLimitWarning,
    PlanError,
)
from poplibs_py.popsparse.fully_connected import (
    FullyConnectedOptions,
    FullyConnectedParams,
    plan_fully_connected,
)
from poplibs_py.popsparse.fully_connected.api import partials_in_use
from poplibs_py.popsparse.fully_connected.model import candidates, make_model
from poplibs_py.target import Target

LAYERS: dict[str, st.SearchStrategy[Any]] = {
    "outputs": st.integers(1, 12), "inputs": st.integers(1, 12), "batch": st.integers(1, 40),
    "nz_ratio": st.floats(0.01, 1), "side": st.sampled_from([1, 4, 8, 16]),
    "data_type": st.sampled_from(["half", "float"]),
}  # fmt: skip


def layer(outputs: int, inputs: int, batch: int, nz_ratio: float, side: int, data_type: str) -> FullyConnectedParams:
    return FullyConnectedParams(outputs * side, inputs * side, batch, nz_ratio, side, data_type)


@given(sizes=st.fixed_dictionaries(LAYERS), tiles=st.integers(1, 12), grad_a=st.booleans(), grad_w=st.booleans(),
       shared=st.booleans(), partials=st.sampled_from(["half", "float"]), oversize=st.floats(0, 1))
def test_no_split_costs_less_than_the_plan(sizes: dict[str, Any], tiles: int, grad_a: bool, grad_w: bool, shared: bool,
                                           partials: str, oversize: float) -> None:
    params, target = layer(**sizes), Target.small(tiles)
    options = FullyConnectedOptions(
        do_grad_a_pass=grad_a, do_grad_w_pass=grad_w, shared_buckets=shared, partials_type=partials,
        meta_info_bucket_oversize_proportion=oversize, available_memory_proportion=4)
    plan = plan_fully_connected(params, target=target, options=options)
    used = FullyConnectedOptions.parse(options.to_dict() | {"partialsType": partials_in_use(params, options)})
    costs = []
    for candidate in candidates(params, used, target):
        model = make_model(params, used, target, candidate)
        z = -(-params.batch // candidate.z_grouping)
        for splits in itertools.product((1,), range(1, tiles + 1), range(1, tiles + 1), range(1, tiles + 1)):
            if z % splits[3] == 0:
                try:
                    costs.append(model.explain(splits)[:2])
                except ValueError:
                    continue
    assert (plan.cycles, plan.temp_bytes) == min(costs)
    assert plan.tiles_used <= tiles
    assert plan.cycles == sum(phases["Total"][0] for phases in plan.phases.values())
    assert plan.temp_bytes == max(phases["Total"][1] for phases in plan.phases.values())
    for phases in plan.phases.values():
        assert phases["Total"][0] == sum(cycles for name, (cycles, _) in phases.items() if name != "Total")


@given(sizes=st.fixed_dictionaries(LAYERS), tiles=st.integers(1, 64))
def test_parts_cover_each_axis_and_buckets_hold_all(sizes: dict[str, Any], tiles: int) -> None:
    params = layer(**sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        plan = plan_fully_connected(params, target=Target.small(tiles))
    for starts, size, parts in zip(plan.starts, (params.outputs, params.inputs, params.batch), plan.partition[1:],
                                   strict=True):
        assert len(starts) == parts
        assert starts[0] == 0
        assert list(starts) == sorted(set(starts))
        assert starts[-1] < size
    assert plan.bucket_values * plan.tiles_used >= params.blocks * params.block**2


def test_the_limit_doubles_and_is_then_dropped() -> None:
    params = FullyConnectedParams(1024, 1024, 256, 0.1, 16)
    free = plan_fully_connected(params)
    with pytest.warns(MemoryLimitWarning, match="leaves 638 bytes"):
        plan = plan_fully_connected(params, available_memory_proportion=0.001)
    assert not plan.fits
    assert plan.temp_bytes < free.temp_bytes
    assert plan.cycles >= free.cycles
    with pytest.raises(MemoryLimitError):
        plan_fully_connected(params, available_memory_proportion=0.001, strict_memory=True)
    with pytest.raises(InvalidOptionError, match="makes no plan"):
        plan_fully_connected(params, available_memory_proportion=0)


def test_constraints_hold() -> None:
    params = FullyConnectedParams(512, 512, 64, 0.1)
    plan = plan_fully_connected(params, planConstraints='{"partition": {"x": 4, "y": 2, "z": 2}}',
                                options={"doGradWPass": "true"})
    assert plan.partition == (1, 4, 2, 2)
    asked = [{"exchange": {"gradWExchangeBuckets": way}} for way in (True, False)]
    exchanged = [plan_fully_connected(params, do_grad_w_pass=True, plan_constraints=one) for one in asked]
    assert [plan.candidate.exchanges_buckets for plan in exchanged] == [True, False]
    assert plan_fully_connected(params, plan_constraints={"useDense": True}).use_dense
    with pytest.raises(PlanError, match="partition"):
        plan_fully_connected(params, plan_constraints={"partition": {"x": 5000}})
    with pytest.raises(InvalidOptionError):
        plan_fully_connected(params, plan_constraints={"partition": {"w": 1}})
    with pytest.raises(PlanError, match="groups"):
        plan_fully_connected(FullyConnectedParams(8, 8, 8, 0.5, groups=8), target=Target.small(4))


def test_blocks_and_partial_sums_are_those_of_vertices() -> None:
    assert [FullyConnectedParams(96, 96, 8, 0.5, 48, kind).block for kind in ("half", "float")] == [16, 8]
    half = FullyConnectedOptions(partials_type="half")
    assert partials_in_use(FullyConnectedParams(16, 16, 8, 0.5, 1), half) == "float"
    assert partials_in_use(FullyConnectedParams(16, 16, 8, 0.5, 4), half) == "half"
    assert partials_in_use(FullyConnectedParams(16, 16, 8, 0.5, 4, "float"), half) == "float"


def test_what_cannot_be_planned_is_named() -> None:
    for wrong, what in [({"outputs": 0}, "outputs"), ({"side": 6}, "side"), ({"nz_ratio": 0.0}, "nz_ratio"),
                        ({"outputs": 10, "side": 4}, "outputs"), ({"data_type": "quarter"}, "data_type")]:
        with pytest.raises(InvalidArgumentError, match=what):
            FullyConnectedParams(**({"outputs": 8, "inputs": 8, "batch": 4, "nz_ratio": 0.5} | wrong))
    params = FullyConnectedParams(8, 8, 4, 0.5)
    with pytest.raises(InvalidArgumentError, match="modelled machine"):
        plan_fully_connected(params, target="host")
    with pytest.raises(InvalidTypeError, match="params"):
        plan_fully_connected((8, 8))  # type: ignore[arg-type]
    for options in ({"doGradPass": True}, {"doGradAPass": "perhaps"}, {"metaInfoBucketOversizeProportion": -1}):
        with pytest.raises(InvalidOptionError):
            plan_fully_connected(params, options=options)


def test_a_plan_tells_itself() -> None:
    plan = plan_fully_connected(FullyConnectedParams(256, 256, 32, 0.2, 8), do_grad_a_pass=True, do_grad_w_pass=True)
    assert plan.summary.cycles == plan.cycles
    assert list(plan.summary.passes) == ["Fwd", "GradA", "GradW"]
    explanation = plan.explain()
    assert explanation.chosen.cycles == plan.cycles
    assert len(explanation) == 4
    assert "FOR" in str(plan).upper()
