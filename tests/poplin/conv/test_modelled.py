"""Convolutions on modelled machines through the public functions: within their bounds, by name, with a record."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import poplin, popops, profile
from poplibs_py.errors import InvalidArgumentError, UnsupportedError
from poplibs_py.formats import format_of
from poplibs_py.poplin.tile_conv import FieldTransform, OutputTransform
from poplibs_py.target import Target
from poplibs_py.testing import assert_same_bits, bound, check
from poplibs_py.testing.conv_calls import conv_params
from poplibs_py.testing.strategies import arrays

SMALL = Target.gc200(tiles=8)
RNG = np.random.default_rng(0)
X = RNG.integers(-2, 3, (2, 8, 9, 7)).astype(np.float16)
W = RNG.integers(-2, 3, (12, 4, 3, 2)).astype(np.float16)


@settings(max_examples=max(10, settings.default.max_examples // 4))
@given(data=st.data())
def test_three_passes_are_within_their_bounds(data: st.DataObject) -> None:
    p = data.draw(conv_params(most_dims=2, most_channels=9))
    dtype = data.draw(st.sampled_from(["float32", "float16"]))
    numbers = [data.draw(arrays(shape, dtype, finite=True, moderate=True)) for shape in (
        (p.batch, p.groups * p.in_channels, *p.field_shape), (p.groups, p.out_channels, p.in_channels, *p.kernel_shape),
        (p.batch, p.groups * p.out_channels, *p.output_shape))]
    x, w, deltas = numbers
    how: dict[str, Any] = {"params": p, "target": SMALL, "partials_type": data.draw(st.sampled_from(["float", "half"]))}
    bias = np.ones(p.groups * p.out_channels, dtype)
    check("convolution", x, w, bias=bias, activation="relu", **how)
    check("convolution_input_gradient", deltas, w, **how)
    check("calculate_weight_deltas", deltas, x, **how)


@pytest.mark.parametrize("how", [
    {}, {"padding": 1}, {"stride": (2, 1), "padding": ((1, 0), (0, 2))}, {"dilation": 2},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float16", "float8_e4m3fnuz"])
def test_whole_numbers_give_what_this_cpu_gives(how: dict[str, Any], dtype: str) -> None:
    x, w = (a.astype(format_of(dtype).dtype) for a in (X, W))
    y = poplin.convolution(x, w, groups=2, **how)
    assert_same_bits(poplin.convolution(x, w, groups=2, target=SMALL, **how), y)
    last = poplin.convolution(np.moveaxis(x, 1, -1), np.moveaxis(w, (0, 1), (-1, -2)), groups=2, layout="NHWC",
                              target=SMALL, **how)
    assert_same_bits(np.moveaxis(last, -1, 1), y)
    deltas = np.sign(np.asarray(y, np.float32)).astype(x.dtype)
    field, kernel = {"field_shape": x.shape[2:]}, {"kernel_shape": w.shape[2:]}
    assert_same_bits(poplin.convolution_input_gradient(deltas, w, groups=2, target=SMALL, **field, **how),
                     poplin.convolution_input_gradient(deltas, w, groups=2, **field, **how))
    assert_same_bits(poplin.calculate_weight_deltas(deltas, x, groups=2, target=SMALL, **kernel, **how),
                     poplin.calculate_weight_deltas(deltas, x, groups=2, **kernel, **how))


def test_nothing_is_promised_where_an_infinite_weight_meets_a_zero_of_padding() -> None:
    w = W.copy()
    w[0, 1, 0, 0], w[7, 2, 1, 1] = np.inf, np.nan
    for at in (FieldTransform(dilation=2), FieldTransform(padding_lower=1), FieldTransform()):
        p = poplin.ConvParams.create(
            batch=2, field=[9, 7], kernel=[3, 2], in_channels=4, out_channels=6, groups=2, input_transform=[at, at],
            output_transform=[OutputTransform(padding_lower=1), OutputTransform(stride=2)])
        for target in (SMALL, Target.gc200(tiles=1)):
            got = check("convolution", X, w, params=p, target=target)
            assert not np.isfinite(got[:, 0]).all()
            assert np.isfinite(got[:, 1:7]).all()


def test_what_ran_tells_its_plan() -> None:
    with profile(target=SMALL) as report:
        poplin.convolution(X, W, groups=2)
    run, = report.runs
    assert run.lacking == ""
    assert run.plan == poplin.plan_convolution(run.plan.problem.params, target=SMALL)
    assert run.plan.cycles > 0
    assert run.exchanged_bytes > 0
    assert len(run.tile_bytes) == SMALL.tiles


def test_what_no_vertex_does_runs_here_or_is_refused() -> None:
    y = poplin.convolution(X, W, groups=2)
    with profile(target=SMALL) as report:
        got = poplin.convolution(X, W, groups=2, residual=y)
    assert_same_bits(got, 2 * y)
    assert report.runs[0].lacking == "no vertex for poplin.convolution with a residual"
    with pytest.raises(UnsupportedError, match=r"has no vertex for poplin\.convolution with a residual"):
        poplin.convolution(X, W, groups=2, residual=y, target=SMALL)
    with pytest.raises(UnsupportedError, match=r"has no vertex for poplin\.convolution of bfloat16"):
        poplin.convolution(*(a.astype("bfloat16") for a in (X, W)), groups=2, target=SMALL)
    with pytest.raises(UnsupportedError, match="of float16 that updates weights of float32"):
        poplin.convolution_weight_update(y, W.astype(np.float32), X, -1.0, groups=2, target=SMALL)
    eighths = [popops.cast(a, "f143") for a in (y, W, X)]
    for update in (poplin.convolution_weight_update, partial(bound, "convolution_weight_update")):
        with pytest.raises(UnsupportedError, match=r"no vertex for poplin\.convolution_weight_update of f143 to f143"):
            update(*eighths, -1.0, groups=2, target=SMALL)
    with pytest.raises(InvalidArgumentError, match=r"^seed: got 1; allowed: None on this CPU"):
        poplin.convolution(X, W, groups=2, seed=1)


@pytest.mark.parametrize("partials", ["float", "half"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_weights_are_updated_by_a_gradient_of_their_type(dtype: str, partials: str) -> None:
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(a.shape).astype(dtype) for a in (X, W))
    deltas = rng.standard_normal((2, 12, 7, 6)).astype(dtype)
    how: dict[str, Any] = {"groups": 2, "target": SMALL, "partials_type": partials}
    for scale in (-0.37, 0.0):
        gradient = poplin.calculate_weight_deltas(deltas, x, kernel_shape=(3, 2), **how)
        due = popops.scaled_add(w, gradient, scale, target=SMALL)
        given = np.asfortranarray(w)
        assert poplin.convolution_weight_update(deltas, given, x, scale, **how) is given
        assert_same_bits(np.ascontiguousarray(given), due)
        grouped = w.reshape(2, 6, 4, 3, 2).copy()
        check("convolution_weight_update", deltas, grouped, x, scale, **how)
    with profile() as report:
        poplin.convolution_weight_update(deltas, w, x, 1.0, **how)
    run, = report.runs
    assert (run.op, run.lacking) == ("poplin.convolution_weight_update", "")
    assert "update" in run.phases
    plan, = run.plan.plans
    alone, = run.plan.updates
    assert run.plan.cycles == plan.cycles + alone.cycles
    assert "update" in str(report)


def test_a_seed_rounds_at_random() -> None:
    x = np.linspace(-1, 1, X.size, dtype=np.float16).reshape(X.shape)
    first, again, other = (poplin.convolution(x, W, groups=2, target=SMALL, seed=seed) for seed in (1, 1, 2))
    assert_same_bits(first, again)
    assert (first != other).any()
    check("convolution", x, W, groups=2, target=SMALL, seed=3)
