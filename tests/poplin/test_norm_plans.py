"""Poplin's norms on modelled machines: PopLibs' operations in the plan, this CPU's numbers."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from poplibs_py import poplin, profile
from poplibs_py.errors import UnsupportedError
from poplibs_py.popops import plan_reduce

X = np.random.default_rng(3).standard_normal((4, 6, 5, 7)).astype(np.float16)
C = np.ones(6, np.float16)

CALLS = {
    "norm_statistics": ((X, 0.1), "statistics", {"Reduce", "InverseStdDeviation"}),
    "norm_whiten": ((X, C, C), "whiten", {"Broadcast"}),
    "normalise": ((X, C, C), "scale", {"Broadcast"}),
    "norm_gradients": ((X, C), "scale", {"Broadcast"}),
    "norm_param_gradients": ((X, X), "parameters", {"BinaryOp", "Reduce"}),
    "norm_statistics_gradients": ((X, X, C), "statistics gradient", {"BinaryOp", "Reduce", "ScaledAdd"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_the_plan_of_its_operations_and_the_numbers_of_this_cpu(name):
    operands, phases, kinds = CALLS[name]
    face = getattr(poplin, name)
    with profile(target="gc200") as report:
        made = face(*operands)
    for got, due in zip(np.atleast_1d(made), np.atleast_1d(face(*operands)), strict=True):
        assert got.tobytes() == due.tobytes()
    [run] = report.runs
    assert (run.lacking, run.plan.fits) == ("", True)
    assert [p for p in run.plan.phases if p != "exchange"] == phases.split()
    names = {v.name for step in run.plan.steps for w in step.work for v in w.vertices}
    assert all(any(kind in name for name in names) for kind in kinds), names


def test_statistics_are_two_reductions_and_one_vertex():
    cycles = {}
    for stable in (False, True):
        with profile(target="gc200") as report:
            poplin.norm_statistics(X, 0.1, stable_algo=stable)
        cycles[stable] = report.runs[0].plan.phases["statistics"]
    own = [plan_reduce(X.shape, (0, 2, 3), op, dtype="float16", out_dtype=result, scaled=True)
           for op, result in (("ADD", "float16"), ("SQUARE_ADD", "float32"))]
    inverse = 6 * (6 + 4 + 5 * 2)  # the worker of a tile that has four of six channels
    assert cycles[False] == sum(plan.cycles - plan.phases["exchange"] for plan in own) + inverse
    assert cycles[True] > cycles[False]


def test_what_has_no_vertex_is_refused_or_runs_here(refused_or_here):
    mixed = "of float16, float32 to float32"
    refused_or_here(partial(poplin.norm_whiten, X, C.astype(np.float32), C), mixed)
    with pytest.raises(UnsupportedError, match="of nothing"):
        poplin.norm_statistics(X[:0], 0.1, target="gc200")
