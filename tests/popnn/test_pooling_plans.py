"""The planner of pooling finds what trying every split finds."""

from __future__ import annotations

import itertools
from math import prod

import pytest
from examples import examples
from golden.formulas import pool_vertex_cycles
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.popnn.pooling.model import least_cycles_of, planned_cycles
from poplibs_py.popnn.pooling.params import PoolParams
from poplibs_py.popnn.pooling.plan import planned
from poplibs_py.popnn.pooling.search import best_split, form_of, received_bytes
from poplibs_py.target import Target

GC200 = Target.gc200()
EXTENTS = st.tuples(st.integers(1, 12), st.integers(1, 12))


@st.composite
def poolings(draw):
    op = draw(st.sampled_from(["max", "sum", "avg"]))
    direction = draw(st.sampled_from(["fwd", "bwd", "scale"] if op == "max" else ["fwd", "bwd"]))
    small = st.tuples(st.integers(1, 3), st.integers(1, 3))
    pads = st.tuples(st.integers(0, 1), st.integers(0, 1))
    arguments = draw(EXTENTS), draw(small), draw(small), draw(pads), draw(pads)
    try:
        return PoolParams(op, direction, *arguments, draw(st.integers(4, 20)), draw(st.integers(1, 4)),
                          draw(st.sampled_from(["float", "half"])))
    except InvalidArgumentError:
        assume(False)


def cost(target, form, shares, per_group, detected):
    """Cycles of a tile with a share of each, and of those that have one less of a dimension."""
    p, (strides, shared), (groups, batch, *field) = form.params, form.strides, shares
    fields = [field] + [[n - (place == axis) for place, n in enumerate(field)]
                        for axis, extent in enumerate(form.result) if extent % field[axis] and field[axis] > 1]
    compute = max(int(planned_cycles(target, p, batch, each, groups, per_group, shared)) for each in fields)
    return compute + int(received_bytes(p, strides, shares, per_group)) // 4 * (1 + (detected != per_group))


@settings(max_examples=examples(50))
@given(poolings(), st.integers(1, 12), st.integers(1, 40))
def test_the_search_misses_nothing(params, tiles, detected):
    target, vector = Target.small(tiles), 4 if params.data_type == "half" else 2
    form, loads = form_of(params, vector), [1, 2, 3]
    costs = []
    for count in loads:
        extents = (-(-form.params.channels // (count * vector)), form.params.batch, *form.result)
        for splits in itertools.product(*(range(1, min(n, tiles) + 1) for n in extents)):
            if prod(splits) <= tiles >= count:
                shares = [-(-n // s) for n, s in zip(extents, splits, strict=True)]
                costs.append(cost(target, form, shares, count * vector, detected))
    found = best_split(target, form, detected, loads)
    assert found is not None
    assert found[0] == min(costs)
    at = found[1]
    assert at.batch * at.groups * prod(at.field) <= tiles


@given(poolings(), st.integers(1, 5), EXTENTS, st.integers(1, 5), st.integers(1, 8))
def test_the_least_is_no_more(params, batch, field, groups, loads):
    per_group, (_, shared) = loads * (4 if params.data_type == "half" else 2), form_of(params, 4).strides
    arguments = GC200, params, batch, field, groups, per_group, shared
    assert least_cycles_of(*arguments) <= planned_cycles(*arguments)


@given(poolings(), st.sampled_from([1, 16, 1472]))
def test_what_a_plan_says_of_itself(params, tiles):
    plan = planned(params, Target.small(tiles), (4, 16))
    assert plan.cycles > 0
    assert f"{plan.cycles:,}" in str(plan)
    assert plan.planned[2] <= params.channels * params.batch


def test_a_vertex_takes_no_less_time_for_more_rows():
    taken = [pool_vertex_cycles(GC200, True, False, 2, 4, 24, [[[5, 7]] * rows] * 6) for rows in range(20)]
    assert taken == sorted(taken)


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"^kernel: got \(9,\)"):
        PoolParams("max", "fwd", (4,), (9,), (1,), (0,), (0,), 4, 1, "half")
