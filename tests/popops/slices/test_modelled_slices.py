"""Slices by index on modelled machines: the planner's cycles and bytes to the unit, and the numbers of its plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import popops, profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, MemoryLimitWarning, UnsupportedError
from poplibs_py.planner.facts import facts_of
from poplibs_py.popops.slices.bound import element_at
from poplibs_py.popops.slices.embedding.modelled import tiled
from poplibs_py.popops.slices.embedding.options import EmbeddingOptions
from poplibs_py.popops.slices.embedding.params import EmbeddingParams
from poplibs_py.popops.slices.embedding.plan import planned
from poplibs_py.popops.slices.parts import RowParts
from poplibs_py.popops.vertices.slices import dynamic_slice_1d_cycles
from poplibs_py.target import Target
from poplibs_py.testing.calls import calls

PARAMS = st.builds(EmbeddingParams, st.sampled_from(["half", "float", "int"]), st.integers(1, 60), st.integers(1, 40),
                   st.lists(st.integers(1, 40), min_size=1, max_size=1).map(tuple), st.integers(1, 3))
OPTIONS = st.builds(EmbeddingOptions, st.sampled_from([0.0, 1e-4, 1e-3, 0.6]), st.booleans(), st.just(True),
                    st.sampled_from(["add", "mul", "max", "none"]), st.sampled_from(["", "float"]))
RNG = np.random.default_rng(8)


def ran(call, **how):
    with profile() as report:
        made = call(**how)
    [run] = report.runs
    return made, run


@settings(max_examples=examples(40))
@given(PARAMS, OPTIONS, st.integers(1, 12))
def test_steps_take_what_the_planner_counts(params, options, tiles):
    plan = planned(params, options, Target.small(tiles))
    costs, calls = dict(plan.costs), ["update"] + ["slice"] * options.used_for_slice
    for kind in calls:
        made = tiled(plan, params.most_lookups, update=kind == "update")
        assert (made.cycles, made.temp_bytes) == (costs[f"{kind}TotalCycles"], costs.get(f"{kind}TempBytes", 0))
        assert made.tiles_used == plan.tiles_used
        assert made.fits == (made.memory_limit is None or made.temp_bytes <= made.memory_limit)
        assert str(plan.partition.sliced) in made.explain().decisions["table"]


CALLS = {
    "multi_slice": lambda x, u, i, **how: popops.multi_slice(x, i, **how),
    "gather": lambda x, u, i, **how: popops.gather(x, i, **how),
    "gather along": lambda x, u, i, **how: popops.gather(x, i % x.shape[1], 1, **how),
    "multi_update": lambda x, u, i, **how: popops.multi_update(x, u, i, **how),
    "multi_update_max": lambda x, u, i, **how: popops.multi_update_max(x, u, i, **how),
    "scatter": lambda x, u, i, **how: popops.scatter(x, i, u, operation="add", **how),
    "dynamic_slice": lambda x, u, i, **how: popops.dynamic_slice(x, i[:2] % 9, [0, 1], [5, 3], **how),
    "dynamic_update": lambda x, u, i, **how: popops.dynamic_update(x, u[:5, :3], i[:2] % 9, [0, 1], **how),
    "gather by vectors": lambda x, u, i, **how: popops.gather(
        x, i.reshape(-1, 2) % 9, index_vector_dim=1, offset_dims=[1, 2], slice_sizes=[4, 2], start_index_map=[0, 1],
        **how),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("fmt", ["float32", "float16", "int32"])
def test_what_a_plan_does_not_split_has_the_bits_of_this_cpu(name, fmt):
    x, u = ((RNG.standard_normal((n, 12)) * 9).astype(fmt) for n in (60, 40))
    indices = RNG.integers(0, 60, 40)
    due = CALLS[name](x, u, indices)
    for machine in ("gc200", Target.small(8)):
        made, run = ran(lambda machine=machine: CALLS[name](x, u, indices, target=machine))
        assert np.array_equal(made, due)
        assert run.lacking == ""
        assert 0 < run.plan.cycles == sum(run.plan.phases.values())
        assert run.plan.temp_bytes <= run.plan.target.bytes_per_tile
        assert run.tile_bytes.sum() >= x.nbytes
    assert facts_of(run.plan).cycles == run.plan.cycles


def in_parts(x, u, places, scale, update, turns, copies, partial):
    """The contract, one look-up after another."""
    made, each = x.astype(np.float32), -(-len(u) // (turns * copies))
    for turn in range(turns):
        sums = np.full((copies, *x.shape), float(update == "mul"), np.float32)
        named = np.zeros((copies, len(x)), bool)
        for k in range(turn * each * copies, min(len(u), (turn + 1) * each * copies)):
            if places[k] is None:
                continue
            part, row = k // each % copies, (k // each % copies, places[k])
            target = row if copies > 1 else places[k]
            held = sums if copies > 1 else made
            held[target] = held[target] + np.float32(scale) * u[k].astype(np.float32) if update == "add" else (
                held[target] * u[k].astype(np.float32))
            named[part, places[k]] = True
        if copies > 1:
            for row in np.flatnonzero(named.any(0)):
                whole = np.full(x.shape[1], float(update == "mul"), np.float32)
                for part in np.flatnonzero(named[:, row]):
                    some = sums[part, row].astype(partial).astype(np.float32)
                    whole = whole + some if update == "add" else whole * some
                made[row] = made[row] + whole if update == "add" else made[row] * whole
        made = made.astype(x.dtype).astype(np.float32)
    return made.astype(x.dtype)


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32), st.sampled_from(["add", "mul"]), st.sampled_from([np.float32, np.float16]),
       st.sampled_from(["clip", "skip", "wrap", "zero", "poplibs"]), st.integers(1, 3), st.integers(1, 4))
def test_updates_that_are_split_are_summed_as_stated(seed, update, dtype, policy, turns, copies):
    rng = np.random.default_rng(seed)
    entries, width, lookups = (int(n) for n in rng.integers(1, 9, 3))
    x, u = (rng.standard_normal((2, n, width)).astype(dtype) for n in (entries, lookups))
    indices, partial = rng.integers(-2, entries + 2, (2, lookups)), rng.choice([np.float16, np.float32])
    made = x.copy()
    RowParts(1, 2, entries, lookups, 1, turns, copies, np.dtype(partial), np.dtype(dtype), policy, update, 0.5)(
        indices, u[:, :, None], made)
    scale = 0.5
    for g in range(2):
        places = [element_at(i, entries, policy) for i in indices[g].tolist()]
        assert np.array_equal(made[g], in_parts(x[g], u[g], places, scale, update, turns, copies, partial))


@pytest.mark.parametrize("update", ["add", "mul"])
@pytest.mark.parametrize("fmt", ["float32", "float16"])
def test_a_split_update_is_within_its_bound_whatever_the_threads(update, fmt):
    x, u = (RNG.standard_normal((n, 8)).astype(fmt) for n in (20, 400))
    indices = RNG.integers(0, 20, 400)
    if update == "mul":
        u = (1 + u / 64).astype(fmt)
    call = getattr(popops, f"multi_update_{update}")
    made, run = ran(lambda: call(x, u, indices, target="gc200"))
    assert int(run.plan.explain().decisions["lookups"].split()[0]) > 1
    for threads in (1, 3):
        with thread_limit(threads):
            assert np.array_equal(call(x, u, indices, target="gc200"), made)
    testing.check(f"multi_update_{update}", x, u, indices, target="gc200")


def test_temporaries_keep_to_the_proportion():
    x, u, indices = np.ones((500, 64), np.float16), np.ones((3000, 64), np.float16), np.arange(3000) % 500
    for proportion in (0.6, 0.01, 0.004):
        _, run = ran(lambda p=proportion: popops.multi_update_add(
            x, u, indices, available_memory_proportion=p, target="gc200"))
        assert run.plan.temp_bytes <= run.plan.memory_limit == int(proportion * run.plan.target.bytes_per_tile)
        assert run.plan.fits
    with pytest.warns(MemoryLimitWarning, match=r"popops.multi_slice: available_memory_proportion"):
        _, run = ran(lambda: popops.multi_slice(x, indices, available_memory_proportion=1e-5, target="gc200"))
    assert not run.plan.fits


@pytest.mark.parametrize("groups", [1, 2])
def test_a_compiled_plan_of_a_modelled_machine_runs_as_planned(groups):
    plan = popops.plan_embedding(50, 6, 40, groups=groups, dtype="float32", plan_constraints={"lookupSerialSplit": 2})
    front = (groups,) * (groups > 1)
    x, u = (RNG.standard_normal((*front, n, 6)).astype(np.float32) for n in (50, 40))
    indices, kind = RNG.integers(0, 50, (*front, 40)), "grouped_" * (groups > 1)
    made, run = ran(lambda: popops.compile_multi_slice(plan)(x, indices))
    assert np.array_equal(made, getattr(popops, kind + "multi_slice")(x, indices))
    assert (run.plan.cycles, run.plan.steps[-1].times) == (plan.phases["slice"], 2)
    update = popops.compile_multi_update(plan)
    made, run = ran(lambda: update(x, u, indices, 0.5))
    assert run.plan.cycles == plan.phases["update"]
    np.testing.assert_allclose(made, getattr(popops, kind + "multi_update_add")(x, u, indices, 0.5), rtol=1e-5)
    with pytest.raises(InvalidArgumentError, match="float, as planned"):
        update(x.astype(np.float16), u, indices)
    with pytest.raises(InvalidArgumentError, match="plan: got a plan with changes: start_tile"):
        popops.compile_multi_slice(replace(plan, start_tile=plan.start_tile + 1))


def test_windows_are_sliced_along_one_axis_after_another():
    x, machine = np.zeros((100, 40, 64), np.float16), Target.gc200()
    _, run = ran(lambda: popops.dynamic_slice(x, [1, 2], [0, 1], [10, 20], target=machine))
    per_tile = 4  # half: eight bytes of the axis that is not sliced
    first = dynamic_slice_1d_cycles(machine, "half", per_tile * 40, 10)
    assert run.plan.phases["slice"] == first + dynamic_slice_1d_cycles(machine, "half", per_tile * 10, 20)
    assert (run.plan.tiles_used, run.plan.exchanged_bytes) == (16, 2 * 16 * 4)
    _, run = ran(lambda: popops.dynamic_update(x, x[:10, :20], [1, 2], [0, 1], target=machine))
    assert run.plan.phases["slice"] == first
    assert [step.name for step in run.plan.steps] == ["slice", "update", "update"]
    _, run = ran(lambda: popops.scatter(x, np.arange(7), x[:7], target=machine))
    assert {step.times for step in run.plan.steps} == {7}


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_rows_that_are_read_and_reduced(mode):
    x, i = RNG.standard_normal((50, 24)).astype(np.float16), RNG.integers(0, 50, (6, 30))
    made, run = ran(lambda: popops.embedding_bag(x, i, mode=mode, target="gc200"))
    assert made.tobytes() == popops.embedding_bag(x, i, mode=mode).tobytes()
    _, read = ran(lambda: popops.multi_slice(x, i.ravel(), target="gc200"))
    reduction = {"sum": popops.sum, "mean": popops.mean, "max": popops.max}[mode]
    _, reduced = ran(lambda: reduction(np.zeros((6, 30, 24), np.float16), 1, target="gc200"))
    assert run.plan.cycles == read.plan.cycles + reduced.plan.cycles
    _, weighed = ran(lambda: popops.embedding_bag(x.astype(np.float32), i, weights=i.astype(np.float32),
                                                  target="gc200"))
    assert "weigh" in weighed.plan.phases


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_gradients_of_look_ups_are_rows_added_to_zeros(dtype):
    machine, u = Target.small(4), RNG.standard_normal((200, 8)).astype(dtype)
    i = np.where(RNG.random(200) < 0.1, 99, RNG.integers(0, 6, 200))
    made, run = ran(lambda: popops.embedding_gradient(u, i, 6, index_policy="skip", target=machine))
    dense, added = ran(lambda: popops.multi_update_add(np.zeros((6, 8), dtype), u, i, index_policy="skip",
                                                       target=machine))
    assert np.array_equal(made.rows, dense[made.indices])
    assert run.plan.cycles == added.plan.cycles + run.plan.phases["zero table"]


@pytest.mark.parametrize(("rows", "columns", "tiles", "select", "pieces"), [
    (3, 64, 6, 27 + 8, 2),  # half a row a tile
    (64, 4, 8, 27 + 8 * 8, 1),  # eight rows a tile
])  # fmt: skip
def test_scalars_are_taken_where_their_rows_lie(rows, columns, tiles, select, pieces):
    x, labels = RNG.standard_normal((rows, columns)).astype(np.float32), RNG.integers(0, columns, rows)
    made, run = ran(lambda: popops.select_scalar_from_rows(x, labels, target="gc200"))
    assert np.array_equal(made, x[np.arange(rows), labels])
    assert (run.plan.steps[0].work[0].tiles, run.plan.phases["select"]) == (tiles, 6 * select)
    assert ("sum" in run.plan.phases) == (pieces > 1)
    made, run = ran(lambda: popops.update_scalar_in_rows(x, labels, target="gc200"))
    assert made.tobytes() == popops.update_scalar_in_rows(x, labels).tobytes()
    assert (len(run.plan.steps), run.plan.phases["update"]) == (1, 6 * select)


def test_what_has_no_vertex_is_refused_by_name():
    x, i = np.zeros((9, 4), np.float32), np.array([1, 2])
    for call in (lambda **how: popops.multi_slice(testing.as_format(x, "bfloat16"), i, **how),
                 lambda **how: popops.multi_update_add(x, x[:2].astype(np.float16), i, **how),
                 lambda **how: popops.multi_update_add(x.astype(np.int16), x[:2].astype(np.int16), i, **how),
                 lambda **how: popops.dynamic_slice(testing.as_format(x, "f143"), [1], 0, 2, **how),
                 lambda **how: popops.embedding_bag(testing.as_format(x, "bfloat16"), i[None], **how),
                 lambda **how: popops.embedding_bag(x, i, [0, 1], **how),
                 lambda **how: popops.embedding_bag(x.astype(np.float16), i[None], weights=x[None, 0, :2], **how),
                 lambda **how: popops.embedding_bag(x, i[None], mode="mean", index_policy="skip", **how),
                 lambda **how: popops.embedding_gradient(testing.as_format(x[:2], "bfloat16"), i, 9, **how),
                 lambda **how: popops.select_scalar_from_rows(testing.as_format(x[:2], "bfloat16"), i, **how)):
        with pytest.raises(UnsupportedError, match=r"^target: gc200 has no vertex for popops"):
            call(target="gc200")
        with profile(target="gc200") as report:
            call()
        assert report.runs[0].lacking
    for empty in (i[:0], np.zeros((0,), np.int32)):
        made, run = ran(lambda i=empty: popops.multi_slice(x, i, target="gc200"))
        assert (made.shape, run.plan.cycles) == ((0, 1, 4), 0)
    assert replace(run.plan, problem="rows").problem == "rows"


DRAWN = [f"{front}multi_{kind}" for front in ("", "grouped_")
         for kind in ("slice", "update", "update_add", "update_mul", "update_max")]
DRAWN += ["gather", "scatter", "dynamic_slice", "dynamic_update", "sequence_slice", "sort", "argsort", "sort_key_value",
          "top_k", "top_k_with_permutation", "top_k_key_value", "embedding_bag", "embedding_gradient",
          "select_scalar_from_rows", "update_scalar_in_rows", "fill", "iota", "encode_one_hot", "pad", "transpose",
          "normalise_image", "spline_basis", "spline_weighting"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", DRAWN)
def test_drawn_calls_are_within_their_bounds_on_modelled_machines(name):
    @settings(max_examples=examples(60))
    @given(calls(f"popops.{name}"))
    def run(call):
        operands, keywords = call
        for machine in ("gc200", Target.small(3)):
            try:
                testing.check(name, *operands, **keywords, target=machine)
            except UnsupportedError:
                continue
            _, run = ran(lambda machine=machine: getattr(popops, name)(*operands, **keywords, target=machine))
            assert run.plan.explain().decisions

    run()
