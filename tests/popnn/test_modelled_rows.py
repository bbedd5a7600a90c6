"""Softmax, norms and losses on modelled machines: PopNN's operations in the plan, this CPU's numbers."""

from __future__ import annotations

import numpy as np
import pytest
from result_bits import bits

from poplibs_py import popnn, profile
from poplibs_py.popops import plan_reduce

RNG = np.random.default_rng(6)
X = RNG.standard_normal((12, 40)).astype(np.float16)
Y, GAMMA, LABELS = popnn.softmax(X), np.ones(40, np.float16), np.arange(12, dtype=np.int32)
IMAGES, SCALE = RNG.standard_normal((3, 8, 4, 5)).astype(np.float16), np.ones(8, np.float16)

CALLS = {
    "softmax": ((X,), ["difference", "exponential", "inverse", "maximum", "share", "sum"]),
    "scaled_softmax_stable": ((X,), ["difference", "exponential", "inverse", "maximum", "scale", "share", "sum"]),
    "log_softmax": ((X, 0), ["difference", "exponential", "logarithm", "maximum", "sum"]),
    "softmax_grad": ((X, Y), ["difference", "product", "share", "sum"]),
    "log_softmax_grad": ((X, Y), ["difference", "exponential", "share", "sum"]),
    "layer_norm": ((X, GAMMA, GAMMA), ["scale", "statistics", "whiten"]),
    "layer_norm_grad": ((X, X, GAMMA), ["gradient", "parameters", "scale", "statistics", "whiten"]),
    "batch_norm": ((IMAGES, SCALE, SCALE), ["scale", "statistics", "whiten"]),
    "batch_norm_training": ((IMAGES, SCALE, SCALE), ["running", "scale", "statistics", "whiten"]),
    "batch_norm_statistics": ((IMAGES,), ["statistics"]),
    "batch_norm_grad": ((IMAGES, IMAGES, SCALE), ["gradient", "parameters", "scale", "statistics", "whiten"]),
    "group_norm": ((IMAGES, 4, SCALE, SCALE), ["scale", "statistics", "whiten"]),
    "instance_norm": ((IMAGES, SCALE, SCALE), ["scale", "statistics", "whiten"]),
    "calc_loss": ((Y, LABELS, "CROSS_ENTROPY_LOSS"), ["sum", "transform"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_the_plan_of_its_operations_and_the_numbers_of_this_cpu(name):
    (operands, phases), face = CALLS[name], getattr(popnn, name)
    due = face(*operands)
    with profile(target="gc200") as report:
        made = face(*operands)
    assert bits(made) == bits(due)
    [run] = report.runs
    assert not run.lacking
    assert sorted(run.plan.phases) == sorted(["exchange", *phases])
    assert run.plan.cycles == sum(run.plan.phases.values())
    assert run.plan.fits
    assert f"{run.plan.cycles:,}" in str(run.plan)


def test_sums_of_a_softmax_are_planned_as_reductions_are():
    with profile(target="gc200") as report:
        popnn.softmax(X)
    own = plan_reduce(X.shape, 1, "ADD", dtype="half", target="gc200")
    assert report.runs[0].plan.phases["sum"] == own.cycles - own.phases["exchange"]


@pytest.mark.parametrize(("call", "lacking"), [
    (lambda **how: popnn.softmax(X, mask=X > 0, **how), "with a mask or a scale"),
    (lambda **how: popnn.batch_norm_inference(IMAGES, SCALE, SCALE, **how), "in one pass"),
    (lambda **how: popnn.rms_norm(X, **how), "rms_norm in PopLibs"),
    (lambda **how: popnn.cross_entropy(X, LABELS, **how), "of logits"),
    (lambda **how: popnn.softmax(X, out_dtype="float32", **how), "of float16 to float32"),
])
def test_what_has_no_vertex_is_refused_or_runs_here(call, lacking, refused_or_here):
    refused_or_here(call, lacking)
