"""Weights packed once: the sums of a call that packs them itself, in every pass through the plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import poplin, profile
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.formats import FORMATS, format_of
from poplibs_py.poplin import ConvParams
from poplibs_py.poplin.conv.params import Described, images_shape, weights_shape
from poplibs_py.poplin.conv.winograd import Winograd
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.testing import assert_same_bits
from poplibs_py.testing.conv_calls import conv_params


def operands(p: ConvParams, layout: str, x_name: str, w_name: str) -> tuple[Any, Any]:
    """Whole numbers so small that sums are exact."""
    how, rng = Described(layout=layout), np.random.default_rng(p.flops() % 2**32)
    shapes = images_shape(how, p.batch, p.groups * p.in_channels, p.field_shape), weights_shape(how, p, True)
    x, w = (rng.integers(-1, 2, shape).astype(format_of(name).dtype)
            for shape, name in zip(shapes, (x_name, w_name), strict=True))
    return x, w


@settings(max_examples=settings.default.max_examples)
@given(p=conv_params(most_channels=40), layout=st.sampled_from(["NCHW", "NHWC"]), data=st.data())
def test_prepared_weights_change_no_sum(p: ConvParams, layout: str, data: st.DataObject) -> None:
    names = [data.draw(st.sampled_from([f.name for f in FORMATS])) for _ in range(2)]
    x, w = operands(p, layout, *names)
    plan = poplin.plan_convolution(p, target="host", layout=layout, dtype=names[0], w_dtype=names[1],
                                   out_dtype="float32", bias_dtype="float32", activation="relu")
    bias = np.arange(p.groups * p.out_channels, dtype=np.float32)
    expected = poplin.compile_convolution(plan)(x, w, bias=bias)
    with thread_limit(data.draw(st.sampled_from([1, 3]))):
        run = poplin.compile_convolution(plan, w)
    w[...] = 0  # they are copied
    for _ in range(2):
        assert_same_bits(run(x, bias=bias), expected)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_transforms_are_made_once(layout: str) -> None:
    rng = np.random.default_rng(1)
    p = ConvParams.create(batch=2, field=[14, 14], kernel=[3, 3], in_channels=32, out_channels=80, groups=2)
    x, w = (rng.standard_normal(a.shape).astype(np.float32) for a in operands(p, layout, "float32", "float32"))
    plan = poplin.plan_convolution(p, target="host", winograd=True, layout=layout)
    expected = poplin.compile_convolution(plan)(x, w)
    with profile() as report:
        run = poplin.compile_convolution(plan, w)
        got = run(x)
    assert [r.op for r in report.runs] == ["poplin.prepare", "poplin.convolution"]
    assert isinstance(run.plan.way, Winograd)  # type: ignore[attr-defined]
    if run.plan.way.tile == plan.way.tile:  # type: ignore[attr-defined]
        assert_same_bits(got, expected)
    out = np.empty_like(got)
    memory_peak(reset=True)
    before = memory_in_use()
    run(x, out=out)
    assert memory_peak() - before <= run.plan.threads * run.plan.scratch_bytes  # type: ignore[attr-defined]
    assert "kernels come transformed" in str(run.plan)  # type: ignore[attr-defined]
    again = poplin.compile_convolution(run.plan, w)  # type: ignore[attr-defined]
    assert_same_bits(again(x), got)
    with pytest.raises(InvalidArgumentError, match=r"^weights: got None; allowed: the weights, which this plan"):
        poplin.compile_convolution(run.plan)  # type: ignore[attr-defined]


def test_small_images_are_worth_transforms_that_are_made_once() -> None:
    p = ConvParams.create(field=[9, 9], kernel=[3, 3], in_channels=128, out_channels=128)
    plan = poplin.plan_convolution(p, target="host", winograd=True)
    assert plan.winograd == "transforms would take longer than they save"
    run = poplin.compile_convolution(plan, np.ones((1, 128, 128, 3, 3), np.float32))
    assert isinstance(run.plan.way, Winograd)  # type: ignore[attr-defined]
    assert (run(np.ones((1, 128, 9, 9), np.float32)) == 9 * 128).all()


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_infinities_pass_through_numbers_in_parts(name: str) -> None:
    p = ConvParams.create(field=[9, 9], kernel=[3, 3], in_channels=33, out_channels=40)
    x, w = operands(p, "NHWC", name, name)
    x[0, 4, 4, 4] = np.inf
    plan = poplin.plan_convolution(p, target="host", dtype=name, layout="NHWC", out_dtype="float32")
    got, expected = poplin.compile_convolution(plan, w)(x), poplin.compile_convolution(plan)(x, w)
    assert np.array_equal(got, expected, equal_nan=True)


def test_other_weights_are_refused() -> None:
    p = ConvParams.create(field=[9], kernel=[3], in_channels=4, out_channels=5)
    plan = poplin.plan_convolution(p, target="host")
    with pytest.raises(InvalidArgumentError, match=r"^weights: got float32 of shape \(5, 4, 3\); allowed: float32"):
        poplin.compile_convolution(plan, np.ones((5, 4, 3), np.float32))
