"""Attention on modelled machines: its products and its softmax in the plan, this CPU's numbers."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from poplibs_py import popnn, profile
from poplibs_py.popsparse import banded_pattern

RNG = np.random.default_rng(7)
Q, K, V, DY = (RNG.standard_normal((2, 3, 16, 8)).astype(np.float16) for _ in range(4))


@pytest.mark.parametrize("causal", [False, True])
def test_a_call_and_its_gradient_have_the_plans_of_their_products(causal):
    y, lse = popnn.scaled_dot_product_attention(Q, K, V, causal=causal, return_lse=True)
    grads = popnn.scaled_dot_product_attention_grad(DY, Q, K, V, y, lse, causal=causal)
    with profile(target="gc200") as report:
        made = [popnn.scaled_dot_product_attention(Q, K, V, causal=causal),
                *popnn.scaled_dot_product_attention_grad(DY, Q, K, V, y, lse, causal=causal)]
    for got, due in zip(made, (y, *grads), strict=True):
        assert got.tobytes() == due.tobytes()
    forward, backward = report.runs
    assert {run.lacking for run in report.runs} == {""}
    phases = {"exchange", "product", "scale", "maximum", "difference", "exponential", "sum", "inverse", "share"}
    assert forward.plan.phases.keys() == phases | ({"mask"} if causal else set())
    assert backward.plan.cycles > forward.plan.cycles > 0


@pytest.mark.parametrize(("how", "lacking"), [
    ({"pattern": banded_pattern(16, 16, 8, below=1, above=0)}, "of a pattern of blocks"),
])
def test_what_has_no_vertex_is_refused_or_runs_here(how, lacking, refused_or_here):
    refused_or_here(partial(popnn.scaled_dot_product_attention, Q, K, V, **how), lacking)
