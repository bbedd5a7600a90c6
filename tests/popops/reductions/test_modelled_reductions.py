"""Reductions on modelled machines: the order of sums, plans, what has vertices, what a profile tells."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from poplibs_py import popops, profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidOptionError, UnsupportedError
from poplibs_py.formats import BF16, QuarterArray
from poplibs_py.kernels.levels import available_levels
from poplibs_py.popops import plan_reduce
from poplibs_py.popops.reductions.modelled_lower import interpret_reduction
from poplibs_py.popops.reductions.stages_modelled import merged_dims
from poplibs_py.popops.vertices.argmax import argmax_split
from poplibs_py.target import Target, linear_mapping

GC200, SMALL = Target.gc200(), Target.small(4)
SUMS = {"ADD": popops.sum, "SQUARE_ADD": popops.square_sum, "MUL": popops.prod}
CASES = [((64, 64), (0,)), ((64, 64), (1,)), ((9, 16, 17), (1,)), ((9, 16, 17), (0, 2)), ((5, 7), ()), ((900,), (0,)),
         ((), ()), ((700, 30), (0,)), ((3, 300, 4), (1,)), ((2, 3, 50, 5), (0, 2)), ((129, 1, 33), (0, 1)),
         ((3000,), (0,))]  # fmt: skip


def numbers(shape, dtype, seed=0):
    return (1 + 0.1 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("machine", [GC200, SMALL], ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("op", SUMS)
def test_sums_are_those_of_the_plan_element_by_element(op, dtype, machine):
    for shape, axes in CASES:
        x = numbers(shape, dtype)
        plan = plan_reduce(shape, axes, op, dtype=dtype, out_dtype="float32", target=machine)
        due = interpret_reduction(plan, x)
        lies = [x, np.repeat(x, 2, axis=-1)[..., ::2]] if shape else [x]  # the second is gathered first
        for y in lies:
            for threads in (1, 2):
                with thread_limit(threads):
                    made = SUMS[op](y, axes, out_dtype="float32", target=machine)
                testing.assert_same_bits(made, due.reshape(made.shape))


@pytest.mark.parametrize("options", [{"accumType.interTile": "half"}, {"accumType.inVertex": "half"},
                                     {"accumType.interTile": "half", "accumType.inVertex": "half"}], ids=str)
@pytest.mark.parametrize("op", SUMS)
def test_partial_results_are_halves_where_that_is_asked_for(op, options):
    rounded = False
    for machine in (GC200, SMALL):
        for shape, axes in (((64, 64), (0,)), ((900,), (0,)), ((700, 30), (0,)), ((3, 300, 4), (1,)), ((5, 7), ())):
            x = numbers(shape, np.float16)
            plan = plan_reduce(shape, axes, op, options=options, target=machine)
            due = interpret_reduction(plan, x).astype(np.float16)
            made = popops.reduce(x, axes, op, options=options, target=machine)
            testing.assert_same_bits(made, due.reshape(made.shape))
            usual = popops.reduce(x, axes, op, target=machine)
            rounded |= not np.array_equal(made, usual)
            if op != "MUL":
                testing.check("popops.reduce", x, axes, op, options=options, target=machine)
    assert rounded


def test_what_is_asked_of_partial_results_is_in_the_plan():
    both = {"accumType.interTile": "half", "accumType.inVertex": "half"}
    usual, half = plan_reduce((4096, 256), 0), plan_reduce((4096, 256), 0, options=both)
    assert (usual.partials, half.partials) == (("float", "float"), ("half", "half"))
    assert half.exchanged_bytes < usual.exchanged_bytes
    assert "StridedReduce<ADD,half,half>" in str(half)
    mixed = plan_reduce((4096, 256), 0, options={"accumType.interTile": "half"})
    assert "half between tiles, float inside" in str(mixed)
    for keywords in ({"out_dtype": "float32"}, {"dtype": "float32"}):  # raised, as in PopLibs
        assert plan_reduce((4096, 256), 0, options=both, **keywords) == plan_reduce((4096, 256), 0, **keywords)
    x = numbers((40, 50), np.float16)
    testing.assert_same_bits(popops.reduce(x, 0, options=both), popops.reduce(x, 0))
    with pytest.raises(InvalidArgumentError, match=r"accumType.interTile: got int"):
        popops.reduce(x, 0, options={"accumType.interTile": "int"})
    with pytest.raises(InvalidOptionError, match=r"did you mean 'accumType.inVertex'"):
        popops.reduce(x, 0, options={"accumType.inVertexes": "half"})


def test_results_are_scaled_added_and_rounded_once():
    x, before = numbers((40, 300), np.float16), numbers(40, np.float16, 1)
    plan = plan_reduce(x.shape, 1, out_dtype="float32", scaled=True)
    due = interpret_reduction(plan, x, 0.1) + before.astype(np.float32)
    made = popops.reduce(x, 1, scale=0.1, update=True, out=before.copy(), target="gc200")
    testing.assert_same_bits(made, due.astype(np.float16))
    mean = popops.mean(x, 1, out_dtype="float32", target="gc200")
    testing.assert_same_bits(mean, interpret_reduction(plan, x, 1 / 300))


@pytest.mark.parametrize("op", ["sum", "square_sum", "mean", "prod", "max", "min", "logsumexp", "argmax", "argmin",
                                "max_with_indices", "min_with_indices", "has_nan", "has_nan_or_inf"])
def test_every_op_keeps_to_its_bound(op):
    for shape, axes in (((300, 20), 0), ((20, 300), -1), ((0, 3), None), ((3, 0), 0), ((5000,), None)):
        if op.startswith("has") or 0 not in shape or op in ("sum", "square_sum", "mean"):
            axes = None if op.startswith("has") else axes
            testing.check(f"popops.{op}", numbers(shape, np.float16), axes, target="gc200")
    with profile(target=GC200) as report:
        testing.check(f"popops.{op}", numbers((300, 20), np.float32))
    (run,) = [r for r in report.runs if r.op == f"popops.{op}"][:1]
    assert run.lacking == ""
    assert run.plan.cycles == sum(run.plan.phases.values()) > 0


def test_cancelling_sums_keep_to_the_chains_bound():
    x = np.random.default_rng(1).standard_normal((7, 4000)).astype(np.float32)
    for target in ("gc200", SMALL):
        testing.check("popops.sum", x, 1, target=target)
        testing.check("popops.mean", x, 0, target=target)


def test_integers_and_truth_values_have_vertices_too():
    whole, truths = np.arange(6000, dtype=np.int32).reshape(60, 100), np.arange(600).reshape(6, 100) % 7 > 0
    for op in ("ADD", "SQUARE_ADD", "MUL", "MAX", "MIN"):
        testing.check("popops.reduce", whole, 0, op, target="gc200")
    testing.check("popops.all", truths, 1, target="gc200")
    testing.check("popops.reduce", truths, 0, "LOGICAL_OR", target="gc200")
    x = numbers((40, 50), np.float16)
    for levels in ([1.0], np.linspace(0.75, 1.25, 33)):
        testing.check("popops.histogram", x, levels, target="gc200")


@pytest.mark.parametrize(("call", "words"), [
    (lambda x: popops.variance(x.astype(np.int32), target="gc200"), "from int32 to float32"),
    (lambda x: popops.norm(x.astype(BF16.dtype), target="gc200"), "norm of bfloat16"),
    (lambda x: popops.norm(x, ord=np.inf, out_dtype="float16", target="gc200"), "from float32 to float16"),
    (lambda x: popops.sum(x, compensated=True, target="gc200"), "with compensated sums"),
    (lambda x: popops.cumulative_sum(x, target="gc200"), "it has no running reductions"),
    (lambda x: popops.partition(x, 1, target="gc200"), "it has no partitions"),
    (lambda x: popops.sum(x.astype(BF16.dtype), target="gc200"), "of bfloat16"),
    (lambda x: popops.sum(x.astype(np.int32), target="gc200"), "from int32 to int64"),
    (lambda x: popops.max(x, out_dtype="float16", target="gc200"), "from float32 to float16"),
    (lambda x: popops.any(x, target="gc200"), "from float32 to bool"),
    (lambda x: popops.has_nan(x, 0, target="gc200"), "over some axes"),
    (lambda x: popops.sum(QuarterArray.from_array(x, "f143"), target="gc200"), "from f143"),
    (lambda x: popops.histogram(x.astype(BF16.dtype), [1.0], target="gc200"), "of bfloat16"),
    (lambda x: plan_reduce((3,), op="LOGICAL_AND"), "LOGICAL_AND from float16"),
    (lambda x: plan_reduce((3,), target="host"), "allowed: a modelled machine"),
])  # fmt: skip
def test_what_no_vertex_does_is_refused_by_name(call, words):
    with pytest.raises(UnsupportedError, match=words):
        call(numbers((3, 4), np.float32))


def test_what_is_asked_of_a_plan_is_checked():
    for keywords in ({"axes": 2}, {"op": "SUM"}, {"scaled": 3}, {"dtype": "float8"}):
        with pytest.raises((InvalidArgumentError, TypeError)):
            plan_reduce((3, 4), **keywords)


# Plans -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "keywords", "phases"), [
    ("variance", {"ddof": 1}, "mean difference squares"),
    ("standard_deviation", {"out_dtype": "float32"}, "mean difference squares root"),
    ("norm", {}, "squares root"), ("norm", {"ord": 1}, "magnitude sum"), ("norm", {"ord": np.inf}, "magnitude maximum"),
])  # fmt: skip
def test_what_poplibs_composes_has_the_plan_of_its_operations_and_this_cpus_numbers(op, keywords, phases):
    for shape, axes in (((300, 40), 0), ((8, 16, 9), (0, 2)), ((5000,), None), ((0, 3), None), ((7, 3), ())):
        if keywords.get("ord") == np.inf and 0 in shape:
            continue
        x = numbers(shape, np.float16)
        with profile(target="gc200") as report:
            made = getattr(popops, op)(x, axes, **keywords)
        testing.assert_same_bits(made, getattr(popops, op)(x, axes, **keywords))
        (run,) = report.runs
        assert (run.lacking, run.op, run.plan.fits) == ("", f"popops.{op}", True)
        assert [p for p in run.plan.phases if p != "exchange"] == (phases.split() if x.size else [])
    (mean, squares) = (plan_reduce((300, 40), 0, reduction, scaled=True) for reduction in ("ADD", "SQUARE_ADD"))
    if op == "variance":
        with profile(target="gc200") as report:
            popops.variance(numbers((300, 40), np.float16), 0)
        cycles = report.runs[0].plan.phases
        assert cycles["mean"] == mean.cycles - mean.phases["exchange"]
        assert cycles["squares"] == squares.cycles - squares.phases["exchange"]


def test_axes_of_one_kind_are_taken_together():
    assert merged_dims((2, 3, 1, 4, 5), (0, 1, 4)) == ((6, True), (4, False), (5, True))
    assert merged_dims((1, 1), (0,)) == ()


@pytest.mark.parametrize(("shape", "axes"), [*CASES[:-1], ((1000, 900), (0,)), ((300, 37), (1,))])
@pytest.mark.parametrize("machine", [GC200, SMALL], ids=lambda t: t.name)
def test_every_number_of_a_column_is_taken_once_in_every_stage(shape, axes, machine):
    plan = plan_reduce(shape, axes, target=machine)
    left = np.full(plan.outputs, plan.factor)
    for stage in plan.order:
        made = [[] for _ in range(plan.outputs)]
        for share in stage:
            assert 0 <= share.tile < machine.tiles
            assert min(share.parts) > 0
            for column in range(share.begin, share.end):
                made[column].append((share.first, share.depth))
        for column, runs in enumerate(made):
            ends = [0, *np.cumsum([depth for _, depth in sorted(runs)])]
            assert [first for first, _ in sorted(runs)] == ends[:-1]
            assert ends[-1] == left[column]
        left = np.array([len(runs) for runs in made])
    assert (left == 1).all()
    for step, stage in zip(plan.steps, plan.order, strict=True):
        assert sum(w.tiles for w in step.work) == len({share.tile for share in stage})
        assert sum(w.tiles * w.elements for w in step.work) == sum(s.depth * (s.end - s.begin) for s in stage)


def test_stages_follow_where_numbers_lie():
    def names(*problem):
        return [step.name for step in plan_reduce(*problem).steps]

    assert names((1472, 64), 1) == ["reduce on tiles"]  # a column on each tile
    assert names((4096, 256), 0) == ["reduce on tiles", "reduce between tiles", "reduce to the result"]
    assert names((4, 1 << 16), 0) == ["reduce to the result"]  # no tile holds two of a column
    plan = plan_reduce((1472, 64), 1)
    assert (plan.exchanged_bytes, plan.temp_bytes) == (0, 0)
    found = {str(v) for step in plan.steps for w in step.work for v in w.vertices}
    assert found == {"SingleInputReduce<ADD,half,half>"}


def test_plans_tell_what_they_do_and_reports_keep_it():
    plan = plan_reduce((4096, 256), 0)
    assert "StridedReduce<ADD,half,float>" in str(plan)
    assert plan.fits
    assert plan.tile_bytes().sum() == 2 * 4096 * 256 + 2 * 256
    with profile(target="gc200") as report:
        popops.sum(numbers((4096, 256), np.float16), 0)
    (run,) = report.runs
    assert (run.plan.steps, run.plan.order) == (plan.steps, plan.order)
    assert run.exchanged_bytes == plan.exchanged_bytes


def test_an_argmax_looks_at_what_its_split_says():
    with profile(target="gc200") as report:
        popops.argmax(numbers((64, 1000), np.float16), 1)
    plan = report.runs[0].plan
    assert sum(w.tiles for w in plan.steps[0].work) == len({p.tile for p in argmax_split(GC200, 64, 1000)})
    assert [step.name for step in plan.steps] == ["gather on tiles", *["gather between tiles"] * 2]  # 34 parts of a row
    with profile(target="gc200") as report:
        popops.argmax(numbers((1000, 64), np.float16), 0)
    assert report.runs[0].plan.steps[0].work[0].received > 0  # rows are rearranged first


def test_the_vertices_of_an_argmax_find_elements_too():
    x = numbers((64, 1000), np.float16)
    with profile(target="gc200") as report:
        popops.argmin(x, 1)
        popops.min_with_indices(x, 1)
    places, both = (run.plan for run in report.runs)
    assert both.steps == places.steps
    assert both.memory.on_tiles("results").sum() == 2 * places.memory.on_tiles("results").sum()
    with pytest.raises(UnsupportedError, match="max_with_indices from float16 to float32"):
        popops.max_with_indices(x, out_dtype="float32", target="gc200")


def test_a_look_for_nan_ends_in_one_truth_value():
    with profile(target="gc200") as report:
        assert popops.has_nan(np.full(5000, np.nan, np.float16))
    plan = report.runs[0].plan
    mapping = linear_mapping(GC200, 5000, 2)
    assert [sum(w.tiles for w in plan.steps[i].work) for i in (0, -1)] == [mapping.tiles, 1]


PRINTED = """
import sys
import numpy as np
from poplibs_py import popops
x = np.random.default_rng(0).standard_normal((700, 33)).astype(np.float16)
made = [f(x, axes, out_dtype=form, target="gc200") for f in (popops.sum, popops.square_sum, popops.prod)
        for axes in (0, 1, None) for form in ("float32", "float16")]
sys.stdout.write("".join(y.tobytes().hex() for y in made))
"""


@pytest.mark.parametrize("level", available_levels()[:1])
def test_the_least_level_gives_the_same_bits(level, capsys):
    environment = os.environ | {"POPLIBS_MAX_ISA": level, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", PRINTED], env=environment, capture_output=True, text=True, check=True)
    exec(PRINTED, {})
    assert ran.stdout == capsys.readouterr().out
