"""The ways of a convolution have one face: what lowers each stands in tables, and nobody asks which it is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from poplibs_py import poplin, profile
from poplibs_py.errors import InvalidTypeError
from poplibs_py.poplin import ConvParams
from poplibs_py.poplin.conv import lower, prepared
from poplibs_py.poplin.conv.few import Dots, FewPlan
from poplibs_py.poplin.conv.overlap import Overlap
from poplibs_py.poplin.conv.ways import Phases
from poplibs_py.poplin.conv.window import WindowPlan
from poplibs_py.poplin.conv.winograd import Winograd
from poplibs_py.poplin.gemm.plan import GemmPlan

PACKAGE = Path(poplin.__file__).parent / "conv"
PLANS = {
    GemmPlan: ({"in_channels": 64, "out_channels": 64, "field": [14, 14], "kernel": [3, 3]}, {}),
    FewPlan: ({"in_channels": 3, "out_channels": 16, "field": [14, 14], "kernel": [3, 3]}, {}),
    Overlap: ({"in_channels": 24, "out_channels": 3, "field": [30, 30], "kernel": [5, 5]}, {}),
    Winograd: ({"in_channels": 64, "out_channels": 64, "field": [28, 28], "kernel": [3, 3]}, {"winograd": True}),
}


def planned(kind):
    sizes, how = PLANS[kind]
    p = ConvParams.create(batch=1, in_channels=sizes["in_channels"], out_channels=sizes["out_channels"],
                          field=sizes["field"], kernel=sizes["kernel"])
    return poplin.plan_convolution(p, target="host", dtype="float32", layout="NHWC", **how)


@pytest.mark.parametrize("kind", PLANS)
def test_a_plan_tells_what_its_way_does(kind):
    plan = planned(kind)
    assert kind in (type(plan.way), type(plan.products[0]))
    assert plan.explain().decisions["method"] == plan.way.method
    assert (plan.threads, plan.scratch_bytes) == (plan.way.threads, plan.way.scratch_bytes)
    assert plan.workspace_bytes == plan.way.workspace_bytes
    assert plan.winograd == ("" if kind is Winograd else None)
    assert plan.dense == tuple(phase for phase in plan.products if isinstance(phase, GemmPlan))
    shape = plan.call.params
    x = np.ones((1, *shape.field_shape, shape.in_channels), np.float32)
    w = np.ones((1, *shape.kernel_shape, shape.in_channels, shape.out_channels), np.float32)
    due = shape.in_channels * np.prod(shape.kernel_shape)
    np.testing.assert_allclose(poplin.compile_convolution(plan)(x, w), due, rtol=1e-5)


def test_a_plan_says_why_no_way_before_its_own_serves():
    assert dict(planned(Overlap).tried) == {
        "rearranged": "channels lie side by side, or not as channels first has them",
        "phases as columns": "no matrix unit multiplies these", "dots": "24 input channels are no multiple of 16",
        "all taps first": ""}
    plan = planned(GemmPlan)
    said = plan.explain().decisions
    assert [way for way, _ in plan.tried] == ["rearranged", "phases as columns", "dots", "all taps first", "phases"]
    assert said["all taps first"] == "not taken: 64 output channels of 64 are not few of many"
    assert "phases" not in said


@pytest.mark.parametrize(("how", "why"), [
    ({"available_memory_proportion": 0.01}, "its boxes keep to no limit"),
    ({"partials_type": "half"}, "partials are half"), ({}, "")])
def test_dots_are_told_of_where_they_are(how, why):
    p = ConvParams.create(batch=1, in_channels=512, out_channels=1, field=[14, 14], kernel=[3, 3])
    plan = poplin.plan_convolution(p, target="host", dtype="float32", layout="NHWC", **how)
    assert dict(plan.tried)["dots"] == why
    assert all(isinstance(phase, Dots) for phase in plan.products) == (not why)


@pytest.mark.parametrize(("channels", "kernel", "why"), [
    ((512, 64), 3, "64 output channels are not few"), ((16, 1), 3, "sums of 144 products are short"),
    ((512, 1), 1, "kernels have one element")])
def test_each_reason_against_dots_is_the_true_one(channels, kernel, why):
    p = ConvParams.create(batch=1, in_channels=channels[0], out_channels=channels[1], field=[14, 14],
                          kernel=[kernel, kernel])
    plan = poplin.plan_convolution(p, target="host", dtype="float32", layout="NHWC")
    assert dict(plan.tried)["dots"] == why


@pytest.mark.parametrize("target", [None, "gc200"])
def test_gradients_of_weights_are_told_of_in_the_caller_s_axes(target):
    x, deltas = np.ones((2, 3, 8, 8), np.float16), np.ones((2, 4, 6, 6), np.float16)
    w = np.ones((4, 3, 3, 3), np.float16)
    with profile() as report:
        poplin.convolution(x, w, target=target)
        poplin.calculate_weight_deltas(deltas, x, target=target)
        poplin.convolution_weight_update(deltas, w, x, 0.5, target=target)
    assert {run.what for run in report.runs} == {
        "2 x 8x8 by 3x3 to 6x6, 3 to 4 channels: float16 x float16 -> float16"}
    if target is None:
        assert [run.plan.explain().problem.partition(" of 2 x")[0] for run in report.runs] == [
            "convolution", "gradient of weights", "gradient of weights"]


def test_packed_weights_are_not_given_again():
    plan = planned(GemmPlan)
    p = plan.call.params
    x, w = np.ones((1, 14, 14, 64), np.float32), np.ones((1, 3, 3, 64, 64), np.float32)
    run = poplin.compile_convolution(plan, w)
    assert run(x).shape == (1, *p.output_shape, 64)
    with pytest.raises(InvalidTypeError, match=r"^weights: got ndarray .* it was compiled with weights"):
        run(x, w)


def test_each_way_and_each_kind_of_phase_has_what_lowers_it():
    assert set(lower._SETS) == {Phases, Overlap, Winograd}
    assert set(lower._SEGMENTS) == {GemmPlan, FewPlan, WindowPlan}
    assert set(prepared._PACKINGS) == {Phases, Winograd}  # others read weights where they lie


def test_nobody_asks_which_way_it_is():
    kinds = "Winograd|Overlap|Phases|FewPlan|WindowPlan|GemmPlan"
    for path in PACKAGE.glob("*.py"):
        assert not re.search(rf"isinstance\([^)]*\b({kinds})\b", path.read_text()), path.name
