"""Plans changed by hand are refused or run; none reads out of bounds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import poplin
from poplibs_py.errors import InvalidTypeError, PoplibsError
from poplibs_py.poplin.convolution import ConvParams, plan_convolution
from poplibs_py.poplin.convolution.plan import Split
from poplibs_py.poplin.matmul.modelled import work_of

SIZE = 48
HOST = poplin.plan_matmul((SIZE, SIZE), (SIZE, SIZE))
TILES = poplin.plan_matmul((SIZE, SIZE), (SIZE, SIZE), dtype="half", target="gc200")
ODD = st.one_of(
    st.none(), st.integers(-3, 3), st.integers(-(2**70), 2**70), st.text(max_size=3), st.floats(),
    st.tuples(st.integers(-1, 5), st.integers(-1, 5)), st.builds(Split, st.integers(-1, 9), st.integers(-1, 9)),
)  # fmt: skip


def _exact(dtype):
    """Operands whose product every order of sums gets exactly."""
    rng = np.random.default_rng(3)
    return [rng.integers(-2, 3, (SIZE, SIZE)).astype(dtype) for _ in range(2)]


def _changed(record, name, value):
    return dataclasses.replace(record, **{name: value})


def _runs_or_is_refused(plan, dtype):
    a, b = _exact(dtype)
    try:
        run = poplin.compile_matmul(plan)
    except PoplibsError:
        return
    np.testing.assert_array_equal(run(a, b).astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


@given(st.sampled_from([f.name for f in dataclasses.fields(HOST)]), ODD)
def test_host_plans(name, value):
    _runs_or_is_refused(_changed(HOST, name, value), np.float32)


@given(st.sampled_from(["asked", "params"]), st.sampled_from([f.name for f in dataclasses.fields(HOST.asked)]), ODD)
def test_host_plans_with_other_params(which, name, value):
    _runs_or_is_refused(_changed(HOST, which, _changed(getattr(HOST, which), name, value)), np.float32)


def test_a_host_plan_of_a_larger_product_in_its_place():
    larger = poplin.plan_matmul((512, 64), (64, 512))
    for name in ("params", "asked", "layout", "selection", "fallback"):
        changed = _changed(HOST, name, getattr(larger, name))
        if changed != HOST:
            with pytest.raises(PoplibsError, match="plan"):
                poplin.compile_matmul(changed)


@given(st.sampled_from([f.name for f in dataclasses.fields(TILES) if f.name not in ("transforms", "costs")]), ODD)
def test_modelled_plans(name, value):
    _runs_or_is_refused(_changed(TILES, name, value), np.float16)


@given(st.sampled_from([f.name for f in dataclasses.fields(TILES.partition)]), ODD)
@settings(max_examples=150)
def test_modelled_plans_with_another_partition(name, value):
    partition = _changed(TILES.partition, name, value)
    _runs_or_is_refused(_changed(TILES, "partitions", (partition,)), np.float16)


@given(st.sampled_from([f.name for f in dataclasses.fields(TILES.partition)]), ODD)
@settings(max_examples=100)
def test_work_of_a_plan_with_another_partition_covers_the_product_or_is_refused(name, value):
    partition = _changed(TILES.partition, name, value)
    try:
        work = work_of(_changed(TILES, "partitions", (partition,)), 1, SIZE, SIZE, SIZE)
    except PoplibsError:
        return
    assert work.tile_macs().sum() == SIZE**3


@pytest.mark.parametrize("plan", [None, 3, "plan"])
def test_what_is_no_plan(plan):
    with pytest.raises(InvalidTypeError, match="plan: got"):
        poplin.compile_matmul(plan)


@pytest.mark.parametrize(("field", "kernel"), [([3], [3]), ([3], [1]), ([4, 4], [1, 1])])
def test_a_convolutions_plan_is_no_products(field, kernel):
    params = ConvParams.create(input_type="half", field=field, kernel=kernel, in_channels=4, out_channels=4)
    with pytest.raises(PoplibsError, match="plan: got one of a convolution"):
        poplin.compile_matmul(plan_convolution(params))


def test_a_prepared_operand_is_for_this_cpu():
    a = np.ones((4, 4), np.float16)
    with pytest.raises(InvalidTypeError, match="b: got PreparedMatrix"):
        poplin.matmul(a, poplin.prepare(a), target="gc200")
