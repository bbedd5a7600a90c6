"""The checks of PopLibs' own planner tests (ConvPlanTest, ConvOptionsTest, MultiConvolutionPlanTest)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from poplibs_py.errors import InvalidArgumentError, InvalidOptionError, PlanError
from poplibs_py.planner import PlanCache
from poplibs_py.poplin.tile_conv import (
    ConvConstraints,
    ConvOptions,
    ConvParams,
    ConvPlan,
    matmul_params,
    plan_convolution,
)
from poplibs_py.poplin.tile_conv.multi import plan_convolutions
from poplibs_py.target import Target

pytestmark = pytest.mark.filterwarnings("ignore::poplibs_py.errors.PoplibsWarning")


def conv(field: list[int], kernel: list[int], ci: int, co: int, **more: Any) -> ConvParams:
    return ConvParams.create(field=field, kernel=kernel, in_channels=ci, out_channels=co, **more)


A = conv([4, 4], [3, 3], 3, 4, batch=2, groups=5)
FC = conv([1], [1], 3, 4, batch=4, groups=5)
B = conv([32, 32], [6, 6], 16, 16, batch=32)
DOT = conv([1, 1], [1, 1], 1, 1, batch=4)
ONES = {"input_type": "half"}


def plan(params: ConvParams, constraints: object = None, tiles: int | None = None, **options: Any) -> ConvPlan:
    target = Target.gc200() if tiles is None else Target.small(tiles)
    return plan_convolution(
        params, target=target, options={"planConstraints": constraints, **options}, cache=PlanCache()
    )


def method(kind: str, **more: Any) -> dict[str, Any]:
    return {"method": {"type": kind}, **more}


def part(**splits: Any) -> dict[str, Any]:
    return {"0": {"partition": splits}}


def test_a1_second_call_hits_the_cache() -> None:
    cache: PlanCache[ConvPlan] = PlanCache()
    assert len(cache) == 0
    first = plan_convolution(A, cache=cache)
    assert len(cache) == 1
    assert plan_convolution(A, cache=cache) is first
    assert len(cache) == 1


@pytest.mark.parametrize("dithered", [False, True])
def test_a2_passes_start_on_one_tile(dithered: bool) -> None:
    jobs = [(A, "NONE"), (A, "NONE_MATMUL"), (A, "TRAINING_FWD")]
    jobs += [(A.gradient(), "TRAINING_BWD"), (A.weight_update(), "TRAINING_WU")]
    starts = set()
    for params, pass_ in jobs:
        made = plan(params, **{"pass": pass_, "enableConvDithering": dithered})
        starts.add((made.start_tile, made.direction))
    assert len(starts) == 1
    assert dithered or starts == {(0, "ASCENDING")}


@pytest.mark.parametrize("dithered", [False, True])
def test_a3_fully_connected_passes_start_on_one_tile(dithered: bool) -> None:
    starts = set()
    for pass_ in ("FC_TRAINING_FWD", "FC_TRAINING_BWD", "FC_TRAINING_WU"):
        made = plan(FC, **{"pass": pass_, "enableConvDithering": dithered})
        starts.add((made.start_tile, made.direction))
    assert len(starts) == 1


def test_dithering_spreads_layers() -> None:
    starts = {
        plan(conv([n, n], [3, 3], 3, 4), enableConvDithering=True).start_tile for n in range(4, 12)
    }
    assert len(starts) > 4
    assert all(0 <= s < 1472 and s % 2 == 0 for s in starts)


def test_a4_swapped_operands() -> None:
    made = plan(A, {"0": {"transform": {"swapOperands": True}}})
    assert made.transforms[0].swap_operands
    assert (made.tiles_used, made.cycles, made.temp_bytes) == (40, 851, 384)


def test_a5_field_split() -> None:
    made = plan(A, part(fieldSplit={"0": 2, "1": 2}))
    assert made.partition.field_split == (2, 2)
    assert (made.tiles_used, made.cycles, made.temp_bytes) == (120, 923, 384)


def test_a6_everything_constrained() -> None:
    splits = part(
        fieldSplit={"0": 1, "1": 1},
        batchSplit=1,
        outChanSplit={"serial": 1, "parallel": 1},
        kernelSplit={"0": 1, "1": 1},
        inChanSplit={"serial": 1, "parallel": 1},
        convGroupSplit=1,
    )
    splits["0"]["transform"] = {"swapOperands": False, "expandDims": [], "outChanFlattenDims": []}
    made = plan(B, method("HMAC", inChansPerGroup=1, partialChansPerGroup=1) | splits)
    assert (made.method.type, made.in_chans_per_group, made.partial_chans_per_group) == ("HMAC", 1, 1)
    assert (made.tiles_used, made.cycles, made.temp_bytes) == (1, 3808073431, 3627008)
    assert not made.fits


@pytest.mark.parametrize(
    "constraints",
    [
        pytest.param(method("AMP", inChansPerGroup=4, partialChansPerGroup=15), id="A7"),
        pytest.param(method("HMAC") | part(inChanSplit={"parallel": 256, "serial": 256}), id="A8"),
        pytest.param(method("HMAC") | part(outChanSplit={"parallel": 16, "serial": 16}), id="A9"),
        pytest.param(method("HMAC") | part(batchSplit=256), id="A10"),
        pytest.param(method("HMAC") | part(fieldSplit={"0": 1217}), id="A11"),
        pytest.param({"3": {"transform": {}}}, id="A15"),
        pytest.param({"2": {"transform": {}}}, id="A15-2"),
        pytest.param({" 5": {"transform": {}}}, id="level 5"),
        pytest.param({"0": {"transform": {"outChanFlattenDims": [0, 3]}}}, id="A16"),
        pytest.param({"0": {"transform": {"expandDims": [2]}}}, id="expandDims"),
    ],
)
def test_impossible_constraints_raise(constraints: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        plan(B, constraints)


def test_a12_outer_product() -> None:
    made = plan(DOT, method("OUTER_PRODUCT") | {"0": {"transform": {"swapOperands": False}}}, tiles=4)
    assert made.method.type == "OUTER_PRODUCT"
    assert (made.tiles_used, made.cycles, made.temp_bytes) == (4, 312, 20)


@pytest.mark.parametrize("params", [conv([2, 1], [2, 1], 1, 1, batch=4), conv([1, 1], [1, 1], 2, 1, batch=4)])
def test_a13_a14_outer_product_refuses(params: ConvParams) -> None:
    with pytest.raises(PlanError):
        plan(params, method("OUTER_PRODUCT") | {"0": {"transform": {"swapOperands": False}}}, tiles=1)


def test_a17_slic() -> None:
    made = plan(conv([1, 1], [1, 1], 1, 1, groups=2, **ONES), method("SLIC"))
    assert (made.method.type, made.method.window_width) == ("SLIC", 4)
    assert (made.cycles, made.temp_bytes) == (667, 392)


@pytest.mark.parametrize(("kind", "cycles", "size"), [("SLIC", 936, 520), ("VMAC", 656, 96)])
def test_a18_a19_sixteen_groups(kind: str, cycles: int, size: int) -> None:
    made = plan(
        conv([1, 1], [1, 1], 1, 1, **ONES),
        method(kind),
        **{"partialsType": "half", "experimental.slicVmac16": True},
    )
    assert made.conv_groups_per_group == 16
    assert (made.cycles, made.temp_bytes) == (cycles, size)


def four(groups: int) -> list[ConvParams]:
    sizes = [(8, 8, 10), (4, 8, 15), (4, 3, 10), (4, 3, 15)]
    return [conv([f, f], [3, 3], ci, co, groups=groups) for f, ci, co in sizes]


def test_a20_side_by_side() -> None:
    made = plan_convolutions(four(1), target=Target.small(100), options={"pass": "INFERENCE_FWD"})
    assert made.parallel
    assert [p.tiles_used for p in made.plans] == [18, 72, 4, 4]
    ends = sorted((p.start_tile, p.start_tile + p.tiles_used) for p in made.plans)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ends))


def test_a21_in_turn_where_side_by_side_fails() -> None:
    made = plan_convolutions(four(1500), target=Target.small(10), options={"pass": "INFERENCE_FWD"})
    assert not made.parallel
    assert [p.cycles for p in made.plans] == [12151236, 6997842, 714362, 7153312]
    assert all(p.tiles_used <= 10 for p in made.plans)
    less = Target.small(10, bytes_per_tile=262144)
    assert plan_convolutions(four(1500), target=less, options={"pass": "INFERENCE_FWD"}).parallel


def test_a22_multi_plan_is_cached() -> None:
    cache: PlanCache[Any] = PlanCache()
    first = plan_convolutions(four(1), target=Target.small(100), cache=cache)
    size = len(cache)
    assert plan_convolutions(four(1), target=Target.small(100), cache=cache) is first
    assert len(cache) == size


@pytest.mark.parametrize(
    ("problems", "options", "multi", "error"),
    [
        ([], None, {}, "problems: got nothing"),
        ([A], [{}, {}], {}, "options: got 2 of them"),
        ([A], None, {"planType": "both"}, "planType: got both"),
        ([A], None, {"cycleBackOff": float("nan")}, "cycleBackOff: got nan"),
        ([A], None, {"perConvReservedTiles": 0}, "perConvReservedTiles: got 0"),
        ([A], None, {"tiles": 4}, "multi_options: got unknown key 'tiles'"),
    ],
)
def test_bad_multi_problems(problems: list[ConvParams], options: Any, multi: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^{error}"):
        plan_convolutions(problems, options=options, multi_options=multi)


# Options -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["0", "2", " 5"])
def test_level_keys_that_parse(level: str) -> None:
    kept = ConvOptions.parse(planConstraints={level: {}}).plan_constraints
    assert kept == ConvConstraints.parse({level: {}}) != ConvConstraints.parse({})
    if level == "0":  # the others are levels that no machine has: see A15
        assert plan(A, kept).partition == plan(A).partition


@pytest.mark.parametrize(
    "constraints",
    [
        "3",
        "[1]",
        "{",
        {"": {}},
        {"-1": {}},
        {"abc": {}},
        {"0": 3},
        {"0": {"layout": {}}},
        {"0": {"transform": 1}},
        {"0": {"transform": {"swap": True}}},
        {"0": {"transform": {"swapOperands": 1}}},
        {"0": {"transform": {"expandDims": 1}}},
        {"0": {"transform": {"expandDims": [-1]}}},
        {"0": {"partition": {"tileSplit": 1}}},
        {"0": {"partition": {"batchSplit": -1}}},
        {"0": {"partition": {"batchSplit": 1.5}}},
        {"0": {"partition": {"fieldSplit": 2}}},
        {"0": {"partition": {"fieldSplit": {"x": 2}}}},
        {"0": {"partition": {"kernelSplit": {"0": "two"}}}},
        {"0": {"partition": {"outChanSplit": 2}}},
        {"0": {"partition": {"inChanSplit": {"both": 2}}}},
        {"method": {"type": "GEMM"}},
        {"method": {"units": 3}},
        {"inChansPerGroup": "many"},
    ],
)
def test_malformed_constraints_are_refused(constraints: object) -> None:
    with pytest.raises(InvalidOptionError, match="planConstraints"):
        ConvOptions.parse(planConstraints=constraints)


@pytest.mark.parametrize("proportion", [-0.1, float("nan"), float("inf"), "much", True])
def test_bad_proportions_are_refused(proportion: object) -> None:
    with pytest.raises(InvalidOptionError, match="availableMemoryProportion"):
        ConvOptions.parse(availableMemoryProportion=proportion)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pass", "TRAINING"),
        ("partialsType", "quarter"),
        ("enableFastReduce", "yes"),
        ("enableFastReduce", 1),
        ("fidelity", "best"),
        ("partialType", "half"),
    ],
)
def test_bad_options_are_refused(key: str, value: object) -> None:
    with pytest.raises(InvalidOptionError, match=key):
        ConvOptions.parse({key: value})


def test_proportion_above_one_is_allowed() -> None:
    made = plan(
        matmul_params(1, 64, 64, 64, "half"),
        **{"availableMemoryProportion": 2.5, "pass": "NONE_MATMUL", "partialsType": "half"},
    )
    assert (made.cycles, made.temp_bytes) == (725, 448)


def test_partials_are_raised_to_the_output_type() -> None:
    made = plan(matmul_params(1, 64, 64, 64, "float"), **{"pass": "NONE_MATMUL", "partialsType": "half"})
    assert (made.cycles, made.temp_bytes) == (840, 512)
    assert str(made.types[1]) == "float/float"


# Constraints ---------------------------------------------------------------------------------------


def test_indices_of_constraints_have_one_form() -> None:
    part = {"partition": {"inChanSplit": {"serial": 2}}}
    assert len({ConvConstraints.parse({key: part}) for key in ("0", "00", " 0")}) == 1
    for wrong in ("\u00b2", "9" * 22, "-1"):
        with pytest.raises(InvalidOptionError, match=r"planConstraints\.0\.partition\.inChanSplit\.serial: got"):
            ConvConstraints.parse({"0": {"partition": {"inChanSplit": {"serial": wrong}}}})
    for text in ("null", "3", "[1]"):
        with pytest.raises(InvalidArgumentError, match="text: got"):
            ConvConstraints(text)
    with pytest.raises(InvalidOptionError, match="bogus"):
        ConvConstraints('{"bogus": 1}')
