"""Orders of rows on modelled machines: PopLibs' bitonic program, and the bits of this CPU."""

from __future__ import annotations

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import popops, profile, testing
from poplibs_py.errors import UnsupportedError
from poplibs_py.planner.facts import facts_of
from poplibs_py.popops.vertices.sort import bitonic_program
from poplibs_py.target import Target

ORDERS = ("none", "ascending", "descending")


def ran(call):
    with profile() as report:
        made = call()
    return made, report.runs[-1]


@settings(max_examples=examples(40))
@given(st.integers(1, 40), st.integers(1, 5), st.sampled_from(["float32", "float16", "int32", "uint32"]),
       st.booleans(), st.sampled_from(ORDERS), st.integers(1, 40), st.sampled_from(["gc200", Target.small(5)]))
def test_the_best_of_rows_take_the_steps_of_the_bitonic_program(n, rows, dtype, largest, order, k, machine):
    k = min(k, n)
    x = np.random.default_rng(n).integers(0, 9, (rows, n)).astype(dtype)  # with equal ones
    for name, values, secondary in (("top_k", False, False), ("top_k_with_permutation", True, True)):
        def call(name=name, **how):
            return getattr(popops, name)(x, k, largest=largest, sort_order=order, **how)

        made, run = ran(lambda: call(target=machine))
        for part, due in zip(made, call(), strict=True) if values else ((made, call()),):
            assert part.tobytes() == due.tobytes()
        key_type = {"float16": "float", "float32": "float", "int32": "int", "uint32": "unsigned int"}[dtype]
        program = bitonic_program(run.plan.target, n, k, batch=rows, key_type=key_type, values=values,
                                  secondary=secondary, largest=largest, in_order=order != "none",
                                  ascending=order == "ascending")
        compared = [step for step in run.plan.steps if step.name == "compare"]
        assert [step.compute_cycles for step in compared] == [step.cycles for step in program.steps]
        moved = sum(w.received * w.tiles for step in compared for w in step.work)
        assert moved >= sum(program.copies)
        assert run.plan.phases.get("cast", 0) > 0 if dtype == "float16" and compared else True
        assert facts_of(run.plan).cycles == run.plan.cycles


def test_sorts_are_programs_for_all_of_a_row():
    x = np.random.default_rng(2).standard_normal((7, 30)).astype(np.float32)
    for descending in (False, True):
        made, run = ran(lambda d=descending: popops.sort(x, descending=d, target="gc200"))
        assert made.tobytes() == popops.sort(x, descending=descending).tobytes()
        program = bitonic_program(run.plan.target, 30, 30, batch=7, largest=descending, in_order=True,
                                  ascending=not descending)
        assert run.plan.phases["compare"] == program.cycles
        made, run = ran(lambda d=descending: popops.argsort(x, 0, descending=d, target="gc200"))
        assert np.array_equal(made, popops.argsort(x, 0, descending=descending))
        assert list(run.plan.phases) == ["exchange", "places", "compare"]
    keys, values = popops.sort_key_value(x, -x, target="gc200")
    assert np.array_equal(keys, -values)
    _, run = ran(lambda: popops.top_k(x, 30, target="gc200"))
    assert (run.plan.cycles, run.plan.explain().decisions["program"]) == (0, "a copy: nothing is compared")


@pytest.mark.parametrize("name", ["float16", "argsort"])
def test_halves_are_cast_there_and_back_where_keys_are_a_result(name):
    x = np.zeros((3, 20), np.float16)
    _, run = ran(lambda: (popops.argsort if name == "argsort" else popops.sort)(x, target="gc200"))
    assert [step.name for step in run.plan.steps].count("cast") == 1 + (name == "float16")


def test_what_has_no_vertex_is_refused_by_name():
    x = np.zeros((3, 20), np.float32)
    for call in (lambda **how: popops.sort(x.astype(np.int16), **how), lambda **how: popops.partition(x, 3, **how),
                 lambda **how: popops.top_k(testing.as_format(x, "bfloat16"), 3, **how),
                 lambda **how: popops.sort_key_value(x, x.astype(np.float16), **how)):
        with pytest.raises(UnsupportedError, match=r"^target: gc200 has no vertex for popops"):
            call(target="gc200")
        with profile(target="gc200") as report:
            call()
        assert report.runs[0].lacking
