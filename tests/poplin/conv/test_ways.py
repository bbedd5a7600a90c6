"""The ways of a convolution have one face: what lowers each stands in tables, and nobody asks which it is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from poplibs_py import poplin
from poplibs_py.poplin import ConvParams
from poplibs_py.poplin.conv import lower, prepared
from poplibs_py.poplin.conv.few import FewPlan
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
    assert plan.dense == tuple(x for phase in plan.products for x in phase.dense)
    shape = plan.call.params
    x = np.ones((1, *shape.field_shape, shape.in_channels), np.float32)
    w = np.ones((1, *shape.kernel_shape, shape.in_channels, shape.out_channels), np.float32)
    due = shape.in_channels * np.prod(shape.kernel_shape)
    np.testing.assert_allclose(poplin.compile_convolution(plan)(x, w), due, rtol=1e-5)


def test_a_plan_says_why_no_way_before_its_own_serves():
    assert planned(Overlap).tried == {
        "rearranged": "channels lie side by side, or not as channels first has them",
        "dots": "results are many, or input channels fill no lanes side by side", "all taps first": ""}
    plan = planned(GemmPlan)
    said = plan.explain().decisions
    assert [*plan.tried] == ["rearranged", "dots", "all taps first", "phases"]
    assert said["all taps first"] == "not taken: 64 output channels of 64 are not few of many"
    assert "phases" not in said


def test_each_way_and_each_kind_of_phase_has_what_lowers_it():
    assert set(lower._SETS) == {Phases, Overlap, Winograd}
    assert set(lower._SEGMENTS) == {GemmPlan, FewPlan, WindowPlan}
    assert set(prepared._PACKINGS) == {Phases, Winograd}  # others read weights where they lie


def test_nobody_asks_which_way_it_is():
    kinds = "Winograd|Overlap|Phases|FewPlan|WindowPlan|GemmPlan"
    for path in PACKAGE.glob("*.py"):
        assert not re.search(rf"isinstance\([^)]*\b({kinds})\b", path.read_text()), path.name
