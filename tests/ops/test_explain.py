"""What `explain()` returns is one type, whatever planned: this CPU's products, softmax, casts, a modelled machine."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import poplin, profile
from poplibs_py.ops import catalogue
from poplibs_py.planner import Explanation
from poplibs_py.popsparse import dynamic, plan_bs_softmax, plan_bs_softmax_grad, random_matrix, random_pattern, static
from poplibs_py.testing.calls import calls
from poplibs_py.testing.cases import cases

W = random_matrix(random_pattern(8, 8, 4, 1.0, 3), "float32", 1)
PLANNED = [name for name in catalogue if not name.startswith("poprand.")]


@pytest.mark.parametrize("name", PLANNED)
@settings(max_examples=examples(5))
@given(data=st.data())
def test_whatever_an_op_followed_explains_itself(name, data):
    operands, keywords = data.draw(calls(name))
    with profile() as report:
        catalogue[name].face(*operands, **keywords)
    for run in report.runs:
        explanation = run.plan.explain()
        assert isinstance(explanation, Explanation)
        assert str(run.plan) == explanation.words()
        assert explanation.words().splitlines()[0] == explanation.problem
        assert explanation.words().count("\n") == len(explanation.decisions)
        assert str(explanation).startswith(explanation.words())
        assert explanation.details().startswith(explanation.words())
        if "kernels" in explanation.decisions:  # several, one after another: no search chose among them
            assert run.kernel == explanation.decisions["kernels"]
        else:
            assert explanation.decisions["kernel"].startswith(run.kernel)
            assert run.kernel == explanation.chosen.name
        assert all(c.verdict and c.name in explanation.details() for c in explanation)


@pytest.mark.parametrize("name", sorted(catalogue.keys() - set(PLANNED)))
def test_random_numbers_follow_no_plan(name):
    for case in cases(name):
        with profile() as report:
            catalogue[name].face(*case.operands, **case.keywords)
        assert {run.plan for run in report.runs} <= {None}


@pytest.mark.parametrize("plan", [
    poplin.plan_matmul((8, 16), (16, 8), dtype="float16"),
    poplin.plan_matmul((8, 16), (16, 8), dtype="float16", target="gc200"),
    static.plan_sparse_dense_matmul(W, 8),
    static.plan_sparse_grad_w(W, 8, x_dtype="float16"),
    dynamic.plan_fully_connected_grad_a(W, 8),
    dynamic.plan_fully_connected_sparse_grad_w(W, 8),
    plan_bs_softmax(W, mask="zero_upper_triangle", out_dtype="float16"),
    plan_bs_softmax_grad(W, W),
], ids=["dense", "modelled", "SpMM", "SDDMM", "layer", "layer's weights", "softmax", "softmax's gradient"])
def test_plans_that_a_caller_makes_explain_themselves(plan):
    explanation = plan.explain()
    assert isinstance(explanation, Explanation)
    assert explanation.decisions.keys() & {"kernel", "method"}
    assert all(said in str(plan) for name, said in explanation.decisions.items() if name not in ("split", "phases"))
    best = explanation.best(1)
    assert best.decisions == explanation.decisions
    assert list(best) == [explanation.chosen]
