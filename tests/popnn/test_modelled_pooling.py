"""Poolings on modelled machines: the plan that a record has, the numbers, and what has no vertex."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import popnn, profile
from poplibs_py.testing import assert_same_bits

X = np.random.default_rng(3).standard_normal((2, 8, 6, 9)).astype(np.float16)


@given(st.sampled_from(("max", "avg", "sum")), st.integers(1, 3), st.integers(1, 4), st.integers(-1, 1),
       st.sampled_from((np.float16, np.float32)))
def test_a_pooling_and_its_gradient_have_plans_and_the_numbers_of_this_cpu(op, kernel, stride, padding, dtype):
    x, how = X.astype(dtype), {"stride": stride, "padding": min(padding, kernel // 2)}
    y = popnn.pool(x, kernel, op, **how)
    of_max = {"x": x, "pooled_x": y} if op == "max" else {}
    grad = popnn.pool_input_gradient(y, x.shape, kernel, op, **of_max, **how)
    with profile(target="gc200") as report:
        assert_same_bits(popnn.pool(x, kernel, op, **how), y)
        assert_same_bits(popnn.pool_input_gradient(y, x.shape, kernel, op, **of_max, **how), grad)
    forward, backward = report.runs
    planned = [popnn.plan_pooling(op, x.shape, kernel, dtype=dtype, direction=direction, **how)
               for direction in ("fwd", "bwd")]
    assert forward.plan == planned[0]
    assert backward.plan.cycles >= planned[1].cycles > 0
    assert (backward.plan == planned[1]) == (op != "avg")
    assert forward.exchanged_bytes == forward.plan.exchanged_bytes
    assert forward.tile_bytes.sum() == x.nbytes + y.nbytes


def test_a_scaled_gradient_counts_and_multiplies_first():
    y = popnn.pool(X, 3)
    with profile(target="gc200") as report:
        popnn.pool_input_gradient(y, X.shape, 3, x=X, pooled_x=y, use_scaled_gradient=True)
    assert list(report.runs[0].plan.phases) == ["exchange", "scale", "multiply", "compute"]


@pytest.mark.parametrize("op", ["max", "avg", "sum"])
def test_a_window_that_is_the_whole_field_is_a_reduction(op):
    due = popnn.pool(X, op=op)
    grad = None if op == "max" else popnn.pool_input_gradient(due, X.shape, op=op)
    with profile(target="gc200") as report:
        assert_same_bits(popnn.pool(X, op=op), due)
        if grad is not None:
            assert_same_bits(popnn.pool_input_gradient(due, X.shape, op=op), grad)
    assert report.runs[0].plan.vertex_op == ("MAX" if op == "max" else "ADD")
    assert all(run.plan.cycles > 0 and not run.lacking for run in report.runs)


@pytest.mark.parametrize(("call", "lacking"), [
    (lambda **how: popnn.pool(X, 2, dilation=2, **how), "of dilated windows"),
    (lambda **how: popnn.pool(X, output_size=4, **how), "of windows that share a field out unevenly"),
    (lambda **how: popnn.pool(X, 4, ceil_mode=True, **how), "of windows that pass the end"),
    (lambda **how: popnn.pool(X, 3, "avg", padding=1, count_include_pad=True, **how), "of averages that count padding"),
    (lambda **how: popnn.pool(X[:1, :3], 2, **how), "of 3 channels"),
    (lambda **how: popnn.pool(X, 2, out_dtype="float32", **how), "of float16 to float32"),
    (lambda **how: popnn.max_pool_with_indices(X, 2, **how), "by places"),
])
def test_what_has_no_vertex_is_refused_or_runs_here(call, lacking, refused_or_here):
    refused_or_here(call, lacking)
