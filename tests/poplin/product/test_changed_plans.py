"""Plans changed by hand are refused: what runs is what the planner made, whoever put it together."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import poplin
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, PoplibsError, UnsupportedError
from poplibs_py.memo import forget
from poplibs_py.poplin.product import modelled
from poplibs_py.poplin.product.modelled import compile_modelled, count_modelled, interpret_modelled
from poplibs_py.poplin.tile_conv import ConvParams, plan_convolution
from poplibs_py.poplin.tile_conv.plan import Split
from poplibs_py.poplin.tile_conv.work import work_of

SIZE = 48
HOST = poplin.plan_matmul((SIZE, SIZE), (SIZE, SIZE))
TILES = poplin.plan_matmul((SIZE, SIZE), (SIZE, SIZE), dtype="half", target="gc200")
ONES = np.ones((SIZE, SIZE), np.float16)
DOORS = (poplin.compile_matmul, compile_modelled, count_modelled, lambda plan: interpret_modelled(plan, ONES, ONES))
ODD = st.one_of(
    st.none(), st.integers(-3, 3), st.integers(-(2**70), 2**70), st.text(max_size=3), st.floats(),
    st.tuples(st.integers(-1, 5), st.integers(-1, 5)), st.builds(Split, st.integers(-1, 9), st.integers(-1, 9)),
)  # fmt: skip


def _exact(dtype):
    """Operands whose product every order of sums gets exactly."""
    rng = np.random.default_rng(3)
    return [rng.integers(-2, 3, (SIZE, SIZE)).astype(dtype) for _ in range(2)]


def _changed(record, name, value):
    """The record with another value; None where there is no plan with a value of that type."""
    try:
        return dataclasses.replace(record, **{name: value})
    except PoplibsError:
        return None


def _only_an_equal_plan_runs(changed, plan, dtype):
    """A plan that differs in anything is refused; one that was put together again is the plan, and its result right."""
    if changed is None:
        return
    if changed != plan:
        with pytest.raises(PoplibsError, match=r"^plan[:.]"):
            poplin.compile_matmul(changed)
        return
    a, b = _exact(dtype)
    run = poplin.compile_matmul(changed)
    np.testing.assert_array_equal(run(a, b).astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


def _fields(record):
    return st.sampled_from([f.name for f in dataclasses.fields(record) if f.init])


def _values(record, name):
    """Odd values, and now and then the field's own."""
    return ODD | st.just(getattr(record, name))


@given(st.data())
def test_host_plans(data):
    name = data.draw(_fields(HOST))
    _only_an_equal_plan_runs(_changed(HOST, name, data.draw(_values(HOST, name))), HOST, np.float32)


@given(st.sampled_from(["product", "params"]), st.data())
def test_host_plans_with_other_params(which, data):
    params = getattr(HOST, which)
    name = data.draw(_fields(params))
    changed = _changed(HOST, which, _changed(params, name, data.draw(_values(params, name))))
    _only_an_equal_plan_runs(changed, HOST, np.float32)


def test_a_host_plan_of_a_larger_product_in_its_place():
    larger = poplin.plan_matmul((512, 64), (64, 512))
    for name in ("params", "product", "layout", "selection", "fallback"):
        changed = _changed(HOST, name, getattr(larger, name))
        if changed != HOST:
            with pytest.raises(PoplibsError, match="plan"):
                poplin.compile_matmul(changed)


@given(st.data())
def test_modelled_plans(data):
    name = data.draw(_fields(TILES))
    _only_an_equal_plan_runs(_changed(TILES, name, data.draw(_values(TILES, name))), TILES, np.float16)


@given(st.data())
@settings(max_examples=examples(150))
def test_modelled_plans_with_another_partition(data):
    name = data.draw(_fields(TILES.partition))
    partition = _changed(TILES.partition, name, data.draw(_values(TILES.partition, name)))
    _only_an_equal_plan_runs(_changed(TILES, "partitions", (partition,)), TILES, np.float16)


@given(rows=st.integers(1, SIZE), columns=st.integers(1, SIZE // 8), inner=st.integers(1, SIZE // 16),
       serial=st.integers(1, 3), outside=st.booleans())
def test_work_of_any_partition_covers_the_product(rows, columns, inner, serial, outside):
    """As many parts as an axis has grains, or fewer; a loop over one kind of channels."""
    out, into = Split(1, columns), Split(1, inner)
    if outside:
        out = Split(serial, max(1, columns // serial))
    else:
        into = Split(min(serial, inner), inner // min(serial, inner))
    partition = dataclasses.replace(TILES.partition, field_split=(1, rows), out_chan_split=out, in_chan_split=into)
    work = work_of(_changed(TILES, "partitions", (partition,)))
    assert work.tile_macs().sum() == SIZE**3
    assert (work.tile_macs() > 0).sum() <= rows * out.parallel * into.parallel


@given(st.data())
def test_odd_partitions_are_refused_at_every_door(data):
    name = data.draw(_fields(TILES.partition))
    whole = st.integers(-3, 0) | st.integers(2**31, 2**70) | st.integers(-(2**70), -4)
    odd = data.draw(st.none() | whole | st.text(max_size=3) | st.floats() | whole.map(lambda n: (1, n))
                    | whole.map(lambda n: Split(1, n)) | whole.map(lambda n: Split(n, 1)))
    changed = _changed(TILES, "partitions", (_changed(TILES.partition, name, odd),))
    for door in DOORS:
        with pytest.raises(InvalidArgumentError, match=r"^plan: got a plan with changes: partitions"):
            door(changed)


@pytest.mark.parametrize("plan", [None, 3, "plan"])
def test_what_is_no_plan(plan):
    for door in DOORS:
        with pytest.raises(InvalidTypeError, match="plan: got"):
            door(plan)


@pytest.mark.parametrize(("field", "kernel"), [([3], [3]), ([3], [1]), ([4, 4], [1, 1])])
def test_a_convolutions_plan_is_no_products(field, kernel):
    params = ConvParams.create(input_type="half", field=field, kernel=kernel, in_channels=4, out_channels=4)
    for door in DOORS:
        with pytest.raises(PoplibsError, match="plan: got one of a convolution"):
            door(plan_convolution(params))


@pytest.mark.parametrize(("level", "transform"),
                         [("0", "expandDims"), ("1", "expandDims"), ("0", "outChanFlattenDims")])
def test_transforms_that_constraints_ask_for(level, transform):
    a, b = _exact(np.float16)
    options = {"planConstraints": {level: {"transform": {transform: [0]}}}}
    plan = poplin.plan_matmul(a.shape, b.shape, dtype="half", target="gc200", options=options)
    assert str(plan.transforms[int(level)]) != "none"
    made = poplin.matmul(a, b, target="gc200", options=options)
    np.testing.assert_array_equal(made.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))
    np.testing.assert_array_equal(interpret_modelled(plan, a, b), made)


def test_a_dimension_is_not_both_expanded_and_flattened():
    options = {"planConstraints": {"0": {"transform": {"expandDims": [0], "outChanFlattenDims": [0]}}}}
    plan = poplin.plan_matmul((SIZE, SIZE), (SIZE, SIZE), dtype="half", target="gc200", options=options)
    calls = [*(lambda door=door: door(plan) for door in DOORS),
             lambda: poplin.matmul(ONES, ONES, target="gc200", options=options)]
    for call in calls:
        with pytest.raises(InvalidArgumentError, match=r"plan\.transforms: got dimensions \[0\] expanded and"):
            call()


def test_the_road_does_not_plan_its_own_plan_again(monkeypatch):
    a, b = _exact(np.float16)
    monkeypatch.setattr(modelled, "unchanged", None)  # what calls it fails
    forget()
    assert poplin.matmul(a, b, target="gc200").shape == (SIZE, SIZE)
    with pytest.raises(TypeError, match="NoneType"):
        poplin.compile_matmul(TILES)


def test_a_prepared_operand_is_for_this_cpu():
    a = np.ones((4, 4), np.float16)
    with pytest.raises(UnsupportedError, match=r"has no vertex for poplin\.matmul of an operand that is prepared"):
        poplin.matmul(a, poplin.prepare(a), target="gc200")
