"""The planner of embeddings finds what trying every partition finds."""

from __future__ import annotations

import itertools
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import of_a_mebibyte

from poplibs_py import popops, profile
from poplibs_py.config import thread_limit
from poplibs_py.errors import (
    InvalidArgumentError,
    InvalidOptionError,
    InvalidTypeError,
    MemoryLimitError,
    MemoryLimitWarning,
    PlanError,
    UnsupportedError,
)
from poplibs_py.popops import compile_multi_slice, compile_multi_update, plan_embedding
from poplibs_py.popops.slices.embedding.lower import UPDATES
from poplibs_py.popops.slices.embedding.model import EmbeddingModel, Partition
from poplibs_py.popops.slices.embedding.options import EmbeddingOptions
from poplibs_py.popops.slices.embedding.params import EmbeddingParams
from poplibs_py.popops.slices.embedding.plan import planned
from poplibs_py.popops.slices.embedding.search import least_cycles
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.target import Target


def least_splits(extent, most):
    return [s for s in range(1, min(extent, most) + 1) if (s - 1) * -(-extent // s) < extent]


def every_partition(model):
    p, o, tiles = model.params, model.options, model.target.tiles
    whole = o.used_for_update and o.operation_for_update == "none"
    lookups = [1] if whole else least_splits(p.most_lookups, p.most_lookups)
    for total in lookups:
        for parallel in (n for n in range(1, total + 1) if total % n == 0):
            for sliced, unsliced, group in itertools.product(
                    least_splits(p.entries, -(-p.entries // 2)), least_splits(model.grains, tiles),
                    least_splits(p.groups, tiles)):
                if parallel * sliced * unsliced * group <= tiles:
                    for precopy in range(1 + o.used_for_slice):
                        yield Partition(precopy, total // parallel, parallel, sliced, unsliced, group)


PARAMS = st.builds(EmbeddingParams, st.sampled_from(["half", "float", "int", "char"]), st.integers(1, 60),
                   st.integers(1, 40), st.lists(st.integers(1, 40), max_size=2).map(tuple), st.integers(1, 3))
OPTIONS = st.builds(EmbeddingOptions, st.sampled_from([0.0, 1e-4, 3e-4, 1e-3, 0.6]), st.booleans(), st.just(True),
                    st.sampled_from(["add", "mul", "max", "none"]), st.sampled_from(["", "float"]),
                    st.sampled_from(["uniform", "onePoint"]), st.booleans())


@settings(max_examples=examples(100))
@given(PARAMS, OPTIONS, st.integers(1, 12))
def test_the_search_misses_nothing(params, options, tiles):
    model = EmbeddingModel(Target.small(tiles), params, options)
    limit = options.memory.limit(model.target)
    fitting = [at for at in every_partition(model)
               if model.allowed(at) and (limit is None or model.peak_bytes(at) <= limit)]
    every = [(int(model.total_cycles(at, ordered)), ordered, at.serial, at)
             for at in fitting for ordered in range(1 + options.indices_are_sorted)]
    found = least_cycles(model, limit)
    if not every:
        assert found is None
    else:
        cycles, ordered, _, at = min(every)
        assert (found.partition, found.cycles, found.ordered) == (at, cycles, ordered)


@settings(max_examples=examples(40))
@given(PARAMS, OPTIONS, st.integers(1, 12))
def test_more_turns_take_no_less_time_and_no_more_memory(params, options, tiles):
    model = EmbeddingModel(Target.small(tiles), params, options)
    for at in every_partition(model):
        if at.serial == 1:
            continue
        for ordered in range(1 + options.indices_are_sorted):
            once = at._replace(serial=1)
            assert model.total_cycles(at, ordered) >= model.total_cycles(once, ordered)
        assert model.peak_bytes(at) <= model.peak_bytes(once)


@settings(max_examples=examples(30))
@given(PARAMS, OPTIONS, st.integers(1, 12))
def test_what_a_plan_says_of_itself(params, options, tiles):
    plan = planned(params, options, Target.small(tiles))
    assert 0 < plan.cycles == sum(plan.phases.values())
    assert plan.tiles_used <= tiles
    assert 0 <= plan.start_tile < tiles
    limit = options.memory.limit(plan.target)
    assert plan.fits == (limit is None or plan.temp_bytes <= limit)
    assert f"{plan.cycles:,}" in str(plan)


@settings(max_examples=examples(40))
@given(PARAMS, OPTIONS, st.integers(1, 12), st.data())
def test_a_plan_meets_its_constraints(params, options, tiles, data):
    free = planned(params, options, Target.small(tiles))
    at = free.partition
    names = {"precopyBaseWhenSerialSlice": at.precopy, "lookupSerialSplit": at.serial,
             "lookupParallelSplit": at.parallel, "slicedDimSplit": at.sliced, "unslicedDimSplit": at.unsliced,
             "groupSplit": at.group, "useOrderingInfo": int(free.ordered)}
    chosen = data.draw(st.sets(st.sampled_from(sorted(names))))
    bound = replace(options, plan_constraints={name: names[name] for name in chosen})
    assert planned(params, bound, free.target).partition == at
    other = data.draw(st.sampled_from(["lookupSerialSplit", "lookupParallelSplit", "slicedDimSplit"]))
    bound = replace(options, plan_constraints={other: 2})
    model = EmbeddingModel(free.target, params, bound)
    limit = options.memory.limit(model.target)
    place = {"lookupSerialSplit": "serial", "lookupParallelSplit": "parallel", "slicedDimSplit": "sliced"}[other]
    every = [(int(model.total_cycles(at, ordered)), ordered, at.serial, at) for at in every_partition(model)
             if getattr(at, place) == 2 and model.allowed(at) and (limit is None or model.peak_bytes(at) <= limit)
             for ordered in range(1 + options.indices_are_sorted)]
    found = least_cycles(model, limit)
    assert (found is None) == (not every)
    if found is not None:
        cycles, ordered, _, at = min(every)
        assert (found.cycles, found.ordered, found.partition) == (cycles, ordered, at)


# The face ----------------------------------------------------------------------------------------


def test_options_in_poplibs_spelling_say_the_same_as_keywords():
    options = {"availableMemoryProportion": "0.01", "usedForUpdate": False, "indicesDistribution": "onePoint"}
    by_name = plan_embedding(5000, 64, [3, 500], options=options, target="bow")
    by_keyword = plan_embedding(5000, 64, (3, 500), available_memory_proportion=0.01, used_for_update=False,
                                indices_distribution="onePoint", target="bow")
    assert by_name == by_keyword
    assert by_name.costs == plan_embedding(5000, 64, 500, target=by_name.target, options=options).costs
    assert by_name.phases["update"] == 0
    assert by_name.temp_bytes <= 6389


def test_a_limit_that_no_plan_keeps_to_is_told_each_time():
    for _ in range(2):
        with pytest.warns(MemoryLimitWarning, match="leaves 6 bytes of a tile; the fastest plan takes"):
            plan = plan_embedding(1000, 100, 1000, available_memory_proportion=1e-5)
        assert not plan.fits
    with pytest.raises(MemoryLimitError):
        plan_embedding(1000, 100, 1000, available_memory_proportion=1e-5, strict_memory=True)


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"entries": 0}, InvalidArgumentError, "entries: got 0"),
    ({"lookups": "5"}, InvalidTypeError, "lookups: got '5'"),
    ({"lookups": [1 << 30]}, InvalidArgumentError, "lookups: got 1073741824"),
    ({"entries": 1 << 30, "width": 1 << 20}, InvalidArgumentError, "entries: got 1073741824"),
    ({"dtype": "float64"}, InvalidArgumentError, "dtype: got float64"),
    ({"dtype": "float32", "partial_type": "half"}, InvalidArgumentError, "partial_type: got half"),
    ({"dtype": "bool"}, InvalidArgumentError, "operation_for_update: got add"),
    ({"plan_constraints": {"slicedDimSplit": 7}}, PlanError, "plan_constraints: no plan meets"),
    ({"plan_constraints": {"slicedDim": 7}}, InvalidOptionError,
     "plan_constraints: got unknown key 'slicedDim' (did you mean 'slicedDimSplit'?)"),
    ({"options": {"planConstraints": {"slicedDim": 7}}}, InvalidOptionError,
     "planConstraints: got unknown key 'slicedDim' (did you mean 'slicedDimSplit'?)"),
    ({"options": {"operationForUpdate": "sub"}}, InvalidArgumentError, "operationForUpdate: got sub"),
    ({"options": {"usedForSlice": 1}}, InvalidTypeError, "usedForSlice: got 1"),
    ({"target": Target.small(5000)}, UnsupportedError, "target: got 5000 tiles"),
    ({"target": "host", "dtype": "float64"}, InvalidTypeError, "float64"),
    ({"target": "host", "dtype": "bool"}, InvalidArgumentError, "operation_for_update: got add"),
    ({"target": "host", "partial_type": "half"}, InvalidArgumentError, "partial_type: got half"),
    ({"target": "host", "plan_constraints": {"groupSplit": 1}}, InvalidArgumentError, "plan_constraints: got"),
    ({"used_for_slice": False, "used_for_update": False}, InvalidArgumentError, "used_for_update: got False"),
])  # fmt: skip
def test_what_cannot_be_planned_is_refused_by_name(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        plan_embedding(**({"entries": 10, "width": 3} | arguments))


# On this CPU -------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", UPDATES)
@pytest.mark.parametrize("groups", [1, 3])
def test_a_compiled_plan_of_this_cpu_does_what_the_op_does(operation, groups):
    plan = plan_embedding(50, 6, [8, 20], dtype="float16", groups=groups, operation_for_update=operation, target="host")
    rng, front = np.random.default_rng(4), (groups,) * (groups > 1)
    x, u = (rng.standard_normal((*front, n, 6)).astype(np.float16) for n in (50, 20))
    indices, scale = rng.integers(0, 50, (*front, 20)), (0.5,) * (operation == "add")
    kind, name = "grouped_" * (groups > 1), "multi_update" + f"_{operation}" * (operation != "none")
    assert np.array_equal(compile_multi_slice(plan)(x, indices), getattr(popops, kind + "multi_slice")(x, indices))
    run = compile_multi_update(plan)
    assert np.array_equal(run(x, u, indices, *scale), getattr(popops, kind + name)(x, u, indices, *scale))
    assert run.plan is plan
    with pytest.raises(InvalidArgumentError, match="as planned"):
        run(x.astype(np.float32), u, indices)
    with pytest.raises(InvalidArgumentError, match="indices: got 40 of them"):
        run(x, np.tile(u, (2, 1)), np.tile(indices, 2))


@pytest.mark.parametrize("proportion", [0.016, 0.0273, 0.5])
def test_temporaries_keep_to_the_proportion_on_this_cpu(proportion):
    proportion = of_a_mebibyte(proportion)
    plan = plan_embedding(600, 40, 5000, available_memory_proportion=proportion, target="host")
    x, u = np.ones((600, 40), np.float16), np.ones((5000, 40), np.float16)
    run, indices = compile_multi_update(plan), np.arange(5000) % 600
    memory_peak(reset=True)
    before = memory_in_use()
    run(x, u, indices, out=x)
    took = memory_peak() - before
    assert 0 < took <= plan.temporary_bytes <= plan.limit <= proportion * plan.target.bytes_per_tile * plan.threads
    assert f"{plan.room:,} sorted at a time" in str(plan)


def test_a_compiled_plan_takes_the_threads_that_it_was_planned_for():
    u, indices = np.ones((9000, 40), np.float16), np.arange(9000) % 600
    for machine, threads in (("host", 3), (Target.host(2), 2)):
        with thread_limit(3):
            plan = plan_embedding(600, 40, 9000, target=machine)
        run = compile_multi_update(plan)
        with profile() as report:
            run(u[:600], u, indices)
        ran = report.runs[0]
        assert (ran.plan.threads, ran.temporary_bytes) == (threads, plan.temporary_bytes)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("operation", ["", "add", "none"])
def test_a_plan_and_its_calls_decide_alike_whether_the_limit_is_kept(operation, threads):
    used = {"used_for_slice": not operation, "used_for_update": bool(operation)} | (
        {"operation_for_update": operation} if operation else {})
    x, u, indices = np.ones((600, 40), np.float16), np.ones((5000, 40), np.float16), np.arange(5000) % 600
    call = {"": lambda **how: popops.multi_slice(x, indices, **how),
            "add": lambda **how: popops.multi_update_add(x, u, indices, **how),
            "none": lambda **how: popops.multi_update(x, u, indices, **how)}[operation]
    seen, out = set(), np.ones(x.shape if operation else (5000, 1, 40), np.float16)
    with thread_limit(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        sized = plan_embedding(600, 40, 5000, target="host", **used).target.bytes_per_tile
        for size in (1, 21, 22, 32, 63, 64, 65, 4095, 4096, 5000, 8192, 12288, 12352, 16384, 1 << 17):
            how = {"available_memory_proportion": (size + 0.5) / sized}
            plan = plan_embedding(600, 40, 5000, target="host", **used, **how)
            for to in (None, out):
                with profile() as report:
                    call(out=to, **how)
                ran = report.runs[0]
                assert ran.plan.temporaries == plan.temporaries
                assert ran.temporary_bytes <= plan.temporary_bytes
            seen.add(plan.fits)
    assert seen == {False, True}


@pytest.mark.parametrize("used", [{"used_for_update": False}, {"operation_for_update": "none"}])
def test_a_limit_that_leaves_nothing_for_bad_indices_is_told_of_too(used):
    with pytest.warns(MemoryLimitWarning, match=r"plan_embedding.*; the limit was raised to \d+"):
        plan = plan_embedding(600, 40, 50, available_memory_proportion=1e-9, target="host", **used)
    assert not plan.fits
    assert "limit 0, which was raised to " in str(plan)


def test_what_no_plan_of_this_cpu_keeps_to_is_told():
    with pytest.warns(MemoryLimitWarning, match="plan_embedding"):
        plan = plan_embedding(600, 40, 5000, available_memory_proportion=1e-3, target="host")
    assert not plan.fits
    with pytest.raises(MemoryLimitError):
        plan_embedding(600, 40, 5000, available_memory_proportion=1e-3, strict_memory=True, target="host")
    with pytest.raises(InvalidArgumentError, match="plan: got a plan with changes: room"):
        compile_multi_update(replace(plan, room=7))
    with pytest.raises(InvalidArgumentError, match="used_for_update=False"):
        compile_multi_update(plan_embedding(9, 2, used_for_update=False, target="host"))
    with pytest.raises(InvalidTypeError, match="plan: got"):
        compile_multi_slice("plan")
