"""Elementwise operations and casts on modelled machines: numbers, plans, what is refused, what a profile tells."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import popops, profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, PoplibsError, UnsupportedError
from poplibs_py.formats import BF16, E4M3, F143, F152, FP16, FP32, Format, QuarterArray
from poplibs_py.kernels.levels import available_levels
from poplibs_py.popops import cast, plan_elementwise
from poplibs_py.popops.elementwise.table import ELEMENTWISE
from poplibs_py.popops.strided.lower import THREAD_ELEMENTS, StridedOperand, StridedParams, lower
from poplibs_py.popops.vertices.cast import cast_vertex_cycles
from poplibs_py.popops.vertices.unary import unary_entry, unary_vertex_cycles, unary_vertices
from poplibs_py.program import guard_arenas
from poplibs_py.target import Target
from poplibs_py.testing.strategies import arrays, layouts, relaid, shapes

GC200, C600, SMALL = Target.gc200(), Target.c600(), Target.small(3, workers=4)
MODELLED = [FP32, FP16]
USER = Format("four", 4, 3, 7)
UNARY = {name: row for name, row in ELEMENTWISE.items()  # those of numbers that PopOps has too
         if row.operands == ("x",) and row.poplibs.startswith("popops::") and "f" in row.kinds and not row.tells}
each = pytest.mark.parametrize("name", UNARY)


def codes(result):
    """The bits of a result."""
    return (result.codes if isinstance(result, QuarterArray) else result).tobytes()


@st.composite
def operands(draw, formats):
    """Any bit patterns of a format, lying anyhow."""
    x = draw(arrays(draw(shapes(2, "elementwise", most=40)), draw(st.sampled_from(formats))))
    return relaid(x, draw(layouts(broadcast=True)))


# Numbers -----------------------------------------------------------------------------------------


@each
@given(x=operands(MODELLED), machine=st.sampled_from([GC200, C600, SMALL]), whither=st.integers(0, 2))
def test_a_call_on_a_modelled_machine_gives_the_bits_of_one_here(name, x, machine, whither):
    op = getattr(popops, name)
    due = op(x)
    for _ in range(3):  # the second is kept, the third runs as it
        if whither == 0:
            got = op(x, target=machine)
            assert got.strides == due.strides
        elif whither == 1:
            got = np.zeros([2 * n for n in x.shape], x.dtype)[tuple(slice(None, None, -2) for _ in x.shape)]
            assert op(x, out=got, target=machine) is got
        else:
            got = x.copy()
            assert op(got, out=got, target=machine) is got
        assert got.tobytes() == due.tobytes()


@given(operands([FP32, FP16, F143, F152]), st.sampled_from([FP32, FP16, F143, F152]), st.integers(-32, 31),
       st.sampled_from([None, 7]), st.sampled_from([C600, C600.replace(tiles=2)]))
def test_a_cast_on_a_modelled_machine_gives_the_bits_of_one_here(x, dtype, scale, seed, machine):
    keywords = {"scale": scale} if dtype.bits == 8 else {}
    keywords |= {} if seed is None else {"rounding": "stochastic", "seed": seed}
    due = cast(x, dtype, **keywords)
    for _ in range(3):
        assert codes(cast(x, dtype, **keywords, target=machine)) == codes(due)
    if dtype.bits == 8:  # from a scale
        assert codes(cast(due, FP16, target=machine)) == codes(cast(due, FP16))


def digest():
    """What modelled calls give: the same at every level and on any number of threads."""
    made = hashlib.sha256()
    x = np.random.default_rng(11).integers(0, 2**32, 4 * THREAD_ELEMENTS + 123, dtype=np.uint32).view(np.float32)
    for name in UNARY:
        for numbers in (x, x.view(np.float16)[:x.size]):
            result = getattr(popops, name)(numbers, target="bow")
            result[np.isnan(result)] = np.nan  # of which there are many, and which one is nobody's promise
            made.update(result.tobytes())
    made.update(cast(x, "float16", rounding="stochastic", seed=3, target="gc200").tobytes())
    return made.hexdigest()


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_change_nothing(threads):
    with thread_limit(1):
        due = digest()
    with thread_limit(threads):
        assert digest() == due


@pytest.mark.parametrize("level", available_levels())
def test_every_level_gives_the_same_bits(level):
    environment = os.environ | {"POPLIBS_MAX_ISA": level, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [digest()]


@given(st.integers(0, 3000), st.sampled_from([(), (2,), (3, 5)]), st.sampled_from([GC200, SMALL]))
def test_the_items_of_a_program_are_the_regions_of_its_tiles(elements, outer, machine):
    shape = (*outer, elements)
    mapping = plan_elementwise("exp", shape, dtype="float32", target=machine).mapping
    strides = np.empty(shape, np.float32).strides
    params = StridedParams("exp", shape, *[(StridedOperand(FP32, strides),)] * 2, "nearest-even", "inf")
    made = lower(params, 4, mapping)
    again = pickle.loads(pickle.dumps(made))
    assert (again.params, again.mapping) == (params, mapping)
    program = made.executable.program
    (step,) = program.steps
    (segment,) = step.segments
    assert (step.phase, program.exchanged_bytes, program.tiles) == ("compute", 0, max(1, mapping.tiles))
    assert segment.tiles.tolist() == list(range(mapping.tiles))
    assert segment.items["first"].tolist() == mapping.edges()[:-1].tolist()
    assert segment.items["count"].tolist() == np.diff(mapping.edges()).tolist()
    x, out = np.ones(shape, np.float32), np.zeros(shape, np.float32)
    guard_arenas(True)
    try:
        made.executable(x, out)
    finally:
        guard_arenas(False)
    assert (out == popops.exp(x)).all()


def test_a_modelled_call_is_kept_like_any_other():
    popops.tanh(np.float32(1))  # imported
    x, face = np.ones(1237, np.float16), popops.tanh
    before = face.kept
    for _ in range(3):
        face(x, target="gc200")
        face(x, target=GC200)
        face(x)
        face(x, out=x, target="gc200")
    assert face.kept == before + 4


@each
def test_a_modelled_call_is_checked_as_any_call_is(name):
    testing.check(name, np.linspace(0.1, 3, 999, dtype=np.float16), target="gc200")


# Plans -------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("in_place", [False, True])
def test_each_operation_has_vertices_for_float_and_half(name, in_place):
    assert unary_entry(UNARY[name].vertex_op, "float", in_place)
    assert unary_entry(UNARY[name].vertex_op, "half", in_place)


@given(st.sampled_from(list(UNARY)), st.lists(st.integers(0, 2**20), max_size=3), st.sampled_from(MODELLED),
       st.booleans(), st.sampled_from([GC200, SMALL, C600, Target.gc2(), GC200.replace(repeat_count_max=10)]))
def test_what_a_plan_says_of_itself(name, shape, dtype, in_place, machine):
    plan = plan_elementwise(name, shape, dtype=dtype, in_place=in_place, target=machine)
    size = int(np.prod(shape, dtype=object))
    assert plan == plan_elementwise(name, shape, dtype=dtype, in_place=in_place, target=machine)
    assert hash(plan) == hash(pickle.loads(pickle.dumps(plan)))
    assert sum(c.tiles for c in plan.classes) == plan.tiles_used <= machine.tiles
    assert sum(c.tiles * c.elements for c in plan.classes) == size
    assert (plan.phases["exchange"], plan.temp_bytes) == (0, 0)
    for c in plan.classes:
        assert sum(vertex.elements for vertex in c.vertices) == c.elements
        assert len(c.vertices) <= machine.workers
        assert {vertex.name.endswith("InPlace") for vertex in c.vertices} == {in_place}
        workers = [vertex.cycles for vertex in c.vertices if vertex.unit == "worker"]
        assert c.cycles == (machine.workers * max(workers) if workers else c.vertices[0].cycles) <= plan.cycles
    assert plan.explain().decisions["exchange"].startswith("none")
    assert str(plan).startswith(plan.explain().words())
    assert plan.explain().problem.startswith(name)
    assert f"{plan.cycles:,}" in str(plan)


@each
@pytest.mark.parametrize("data_type", ["float", "half"])
def test_a_vertex_takes_no_less_time_for_more_elements(name, data_type):
    op = UNARY[name].vertex_op
    for two_d in (False, True):
        for in_place in (False, True):
            taken = [unary_vertex_cycles(GC200, op, data_type, ((n, 1),), two_d=two_d, in_place=in_place)
                     for n in range(1, 200)]
            assert taken == sorted(taken)


@pytest.mark.parametrize("types", [("float", "half"), ("half", "float"), ("half", "quarter"), ("quarter", "half")])
def test_a_cast_takes_no_less_time_for_another_whole_load(types):
    for name in ("Cast1D", "Cast1DSingleWorker", "Cast2D"):
        taken = [cast_vertex_cycles(GC200, name, *types, ((48 * n, 1),)) for n in range(1, 50)]
        assert taken == sorted(taken)


@pytest.mark.parametrize(("op", "dtype", "limit"), [
    ("exp", "half", 6 * 4095 * 4), ("exp", "float", 6 * 4095 * 2), ("tanh", "half", 6 * 4095 * 2),
    ("tanh", "float", 6 * 4095),
])  # fmt: skip
def test_one_vertex_takes_what_its_repeat_counters_can_count(op, dtype, limit):
    names = [[v.name for v in unary_vertices(GC200, UNARY[op].vertex_op, dtype, (n,))]
             for n in (limit, limit + 1)]
    assert names == [["UnaryOp1D"], ["UnaryOp2D"] * 6]
    assert f"{limit:,}" in plan_elementwise(op, (4,), dtype=dtype).explain().decisions["a vertex"]


def test_planning_takes_no_longer_for_more_elements():
    plan = plan_elementwise("tanh", (2**20, 2**20), dtype="half", target="gc200")
    assert len(plan.classes) <= 3
    assert not plan.fits
    assert "DOES NOT FIT" in str(plan)
    regions = plan.classes[0].vertices[0].regions
    assert len(regions) <= 2  # equal regions are counted, not listed
    assert sum(count for _, count in regions) > 10_000


def test_a_cast_that_changes_no_bit_is_a_copy():
    plan = plan_elementwise("cast", (1 << 20,), dtype="half")
    assert {c.vertices for c in plan.classes} == {()}
    assert plan.cycles == -(-plan.classes[0].elements * 2 // GC200.memcpy_bytes_per_cycle)
    assert "copied" in str(plan)
    assert plan_elementwise("cast", (1 << 20,), dtype="half", in_place=True).cycles == 0
    assert plan_elementwise("cast", (9,), dtype=F143).classes[0].vertices  # its scale is applied


def test_a_profile_tells_the_plan():
    x = np.ones((100, 100), np.float16)
    with profile(target=C600) as report:
        popops.exp(x)
        popops.exp(x, out=x)
        cast(x, "f143", scale=3)
    plans = [plan_elementwise("exp", x.shape, target=C600),
             plan_elementwise("exp", x.shape, in_place=True, target=C600),
             plan_elementwise("cast", x.shape, out_dtype=F143, target=C600)]
    assert [run.plan for run in report.runs] == plans
    summary = report.summary(details=True)
    for run, element in zip(report.runs, (4, 2, 3), strict=True):
        assert (run.exchanged_bytes, run.tile_macs, run.lacking) == (0, None, "")
        assert run.tile_bytes.shape == (C600.tiles,)
        assert run.tile_bytes.sum() == element * x.size
        assert [*run.phases] == ["compute"]
        assert run.plan.explain().decisions["mapping"] in summary
    assert summary.count("elements of a tile") == 3


# What no vertex does -----------------------------------------------------------------------------

X = np.ones((4, 6), np.float32)
LACKING = [
    ("exp", (X.astype(BF16.dtype),), {}, "popops.exp of bfloat16"),
    ("exp", (X.astype(F143.dtype),), {}, "popops.exp of f143"),
    ("abs", (X.astype(E4M3.dtype),), {}, "popops.abs of e4m3"),
    ("neg", (cast(X, USER),), {}, "popops.neg of four"),
    ("tanh", (X,), {"out_dtype": "float16"}, "popops.tanh from float32 to float16"),
    ("tanh", (X,), {"out": np.empty((4, 6), np.float16)}, "popops.tanh from float32 to float16"),
    ("relu", (QuarterArray(np.ones(3, np.uint16), FP16, 2),), {}, "popops.relu of numbers with a scale"),
    ("cast", (X, "bfloat16"), {}, "popops.cast to bfloat16"),
    ("cast", (X.astype(BF16.dtype), "half"), {}, "popops.cast from bfloat16"),
    ("cast", (X, USER), {}, "popops.cast to four"),
    ("cast", (X, "f143"), {}, "popops.cast from float32 to f143: cast by way of float16"),
    ("cast", (X.astype(F152.dtype), "float32"), {}, "popops.cast from f152 to float32: cast by way of float16"),
    ("cast", (X.astype(float), "half"), {}, "popops.cast from float64"),
    ("cast", (X.astype(np.int8), "half"), {}, "popops.cast from int8"),
    ("cast", (X, "uint8"), {}, "popops.cast to uint8"),
    ("cast", (X, "half"), {"rounding": "toward-zero"}, "popops.cast with rounding=\"toward-zero\""),
    ("cast", (X.astype(np.float16), "f143"), {"scale": "auto"}, "popops.cast with scale=\"auto\""),
    ("cast", (X.astype(np.float16), "f143"), {"scale": [[1, 2, 3]], "block_shape": (-1, 2)}, "popops.cast with scales"),
    ("cast", (X, "half"), {"scale": 2}, "popops.cast with scales but one, of an FP8 tensor"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "positional", "keywords", "lacking"), LACKING, ids=[x[3] for x in LACKING])
def test_what_no_vertex_does_is_refused_by_name_and_runs_here_in_a_profile(name, positional, keywords, lacking):
    op = getattr(popops, name)
    with pytest.raises(UnsupportedError, match=re.escape(f"target: gc200 has no vertex for {lacking}")):
        op(*positional, **keywords, target="gc200")
    due = op(*positional, **keywords)
    with profile(target="gc200") as report:
        got = op(*positional, **keywords)
        op(*positional, **keywords, target="host")
    assert codes(got) == codes(due)
    said = [run.lacking for run in report.runs if run.lacking]
    assert len(said) == 1
    assert said[0].startswith(f"no vertex for {lacking}")
    assert all(run.tile_bytes is None for run in report.runs)
    assert f" operations ran on this CPU: {said[0]}\n" in report.summary()
    with profile() as report:
        op(*positional, **keywords)
    assert "no vertex" not in report.summary()


def test_a_refused_call_has_written_nothing():
    out = np.full((4, 6), 7, np.float16)
    with pytest.raises(UnsupportedError):
        popops.exp(X, out=out, target="gc200")
    assert (out == 7).all()


@pytest.mark.parametrize(("arguments", "kind", "message"), [
    ({"op": "expp"}, InvalidArgumentError, "op: got expp"),
    ({"op": None}, PoplibsError, "op: got None"),
    ({"shape": "12"}, InvalidTypeError, "shape: got '12'"),
    ({"shape": 1.5}, InvalidTypeError, "shape: got 1.5"),
    ({"shape": (1, -1)}, InvalidArgumentError, "shape: got -1"),
    ({"shape": (2**40, 2**40)}, InvalidArgumentError, "shape: got (1099511627776, 1099511627776)"),
    ({"dtype": "float64"}, InvalidTypeError, "dtype: got"),
    ({"dtype": "bfloat16"}, UnsupportedError, "target: gc200 has no vertex for popops.exp of bfloat16"),
    ({"out_dtype": "float32"}, UnsupportedError, "target: gc200 has no vertex for popops.exp from float16 to float32"),
    ({"in_place": 2}, InvalidTypeError, "in_place: got 2"),
    ({"target": "gc3"}, InvalidArgumentError, "target: got gc3"),
    ({"target": "host"}, UnsupportedError, "target: got host; allowed: a modelled machine"),
])  # fmt: skip
def test_bad_arguments_of_a_plan_are_named(arguments, kind, message):
    with pytest.raises(kind, match="^" + re.escape(message)):
        plan_elementwise(**({"op": "exp", "shape": (4,)} | arguments))


if __name__ == "__main__":  # in a process of its own, at another level
    print(digest())
