"""Plans where problems are asked for, files of constraints, fields of the wrong type."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poplibs_py import planner, poplin, popsparse
from poplibs_py.errors import InvalidOptionError, InvalidTypeError, PoplibsError
from poplibs_py.poplin.tile_conv import plan_convolution
from poplibs_py.popsparse import static
from poplibs_py.target import Target

from .problems import problem

W = popsparse.random_matrix(popsparse.random_pattern(16, 24, 4, 0.5))
PLANS: dict[str, Any] = {
    "dense": poplin.plan_matmul((6, 10), (10, 5)),
    "modelled": poplin.plan_matmul((64, 32), (32, 48), dtype="half", target=Target.small(16)),
    "sparse": static.plan_sparse_dense_matmul(W, 5), "gradient": static.plan_sparse_grad_w(W, 5),
    "softmax": popsparse.plan_bs_softmax(W),
}  # fmt: skip


def test_a_plan_is_swept_and_fitted_as_its_problem_is() -> None:
    plan = PLANS["modelled"]
    assert planner.sweep(plan, [0.1, 0.6]) == planner.sweep(plan.problem, [0.1, 0.6])
    assert planner.fit([plan, plan.problem], 1 << 20).choices
    with pytest.raises(InvalidTypeError, match=r"^problem: got .*; allowed: a modelled machine's plan of a "):
        planner.sweep(PLANS["dense"], [0.1])


@pytest.mark.parametrize("name", ["nowhere/x", "\0", "."])
def test_a_file_of_constraints_that_cannot_be_written_is_named(name: str, tmp_path: Path) -> None:
    job = problem()
    (tmp_path / "..json").mkdir()
    options = {"planConstraintsOutputFilename": f"{tmp_path}/{name}"}
    with pytest.raises(InvalidOptionError, match=r"(?s)^planConstraintsOutputFilename: got .*; allowed: a file"):
        plan_convolution(job.params, target=job.target, options=options)
    options = {"planConstraintsOutputFilename": f"{tmp_path}/kept"}
    plan = plan_convolution(job.params, target=job.target, options=options)
    assert (tmp_path / "kept.json").read_text() == plan.constraints().text


@pytest.mark.parametrize("kind", PLANS)
def test_a_plan_with_a_field_of_another_type_is_not_made(kind: str) -> None:
    plan = PLANS[kind]
    for field in dataclasses.fields(plan):
        if field.name == "params":  # of KernelPlan, any op's
            continue
        told = rf"^plan: got a plan with changes: {field.name} .*; allowed: {field.name} of type "
        for wrong in (np.zeros((2, 2)), np.timedelta64(1)):
            with pytest.raises(PoplibsError, match=told):
                dataclasses.replace(plan, **{field.name: wrong})
    assert dataclasses.replace(plan) == plan
