"""A modelled product is one executable: what lies in its workspace, its compute sets, and the bits that it gives."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import poplibs_py
from poplibs_py import poplin
from poplibs_py.errors import PlanError
from poplibs_py.formats import format_of
from poplibs_py.poplin.product.modelled import compile_modelled, interpret_modelled, plan_modelled
from poplibs_py.poplin.tile_conv import lower
from poplibs_py.poplin.tile_conv.lower import TileCall
from poplibs_py.poplin.tile_conv.products import ArrayLayout
from poplibs_py.poplin.tile_conv.work import work_of
from poplibs_py.program import guard_arenas, memory_in_use, memory_peak
from poplibs_py.target import Target
from poplibs_py.testing import assert_same_bits

F143 = ml_dtypes.float8_e4m3fnuz
SEEDS = st.sampled_from([None, 0, 5, 2**64 - 1])


@pytest.fixture
def shared(monkeypatch):
    """Small items on several threads, and guards around the arenas."""
    for name in ("_SUMS", "_ROUNDED", "_SET_FLOPS"):
        monkeypatch.setattr(lower, name, 40)
    guard_arenas(True)
    yield
    guard_arenas(False)


def _split(parallel=1, serial=1, out_serial=1):
    """Options that split the depth into parts and turns, or loop over output channels."""
    split = {"inChanSplit": {"parallel": parallel, "serial": serial}, "outChanSplit": {"serial": out_serial}}
    return {"options": {"planConstraints": {"0": {"partition": split}}}}


def _operands(m, k, n, dtype=np.float16, groups=(), seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((*groups, *shape)).astype(np.float32).astype(dtype) for shape in ((m, k), (k, n))]


def _lowered(plan, a, b, threads=1, stochastic=False):
    """The program of operands without groups, and arrays to run it on."""
    run = compile_modelled(plan)
    arrays = a, b, np.zeros((a.shape[0], b.shape[1]), run.work.out.dtype)
    return lower.lower(run.work, _call(*arrays, stochastic, threads)), arrays


def _call(a, b, out, stochastic=False, threads=1):
    """Rows are images of one element, in one group."""
    strides = ((x.strides[0], 0, x.strides[1], 0, 0) for x in (a, out))
    x, made = (ArrayLayout(format_of(y), each) for y, each in zip((a, out), strides, strict=True))
    lies = x, ArrayLayout(format_of(b), (0, b.strides[1], b.strides[0], 0, 0)), made
    return TileCall(*lies, stochastic=stochastic, threads=threads)


@pytest.mark.usefixtures("shared")
@given(st.sampled_from([np.float32, np.float16, F143]), st.sampled_from([1, 2, 5]), st.sampled_from([1, 2, 4]),
       st.sampled_from([(), (3,)]), st.sampled_from(["float", "half"]), SEEDS, st.integers(1, 3), st.booleans())
@settings(max_examples=examples(30))
def test_every_kind_of_compute_set_gives_the_bits_of_the_python_executor(dtype, parts, turns, groups, partials, seed,
                                                                          threads, stages):
    m, k, n = 9, 96, 13
    a, b = _operands(m, k, n, dtype, groups)
    options = _split(parts, turns)["options"] | {"enableMultiStageReduce": stages}
    try:
        plan = plan_modelled((*groups, m, k), (*groups, k, n), dtype=a.dtype, target=Target.small(12), options=options,
                             partials_type="float" if dtype == np.float32 else partials)
    except PlanError:
        return  # FP8 has no such split
    run = compile_modelled(plan, threads=threads)
    assert_same_bits(run(a, b, seed=seed), interpret_modelled(plan, a, b, seed=seed))


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize(("parts", "turns"), [(1, 2), (2, 1), (2, 2)])
def test_combined_groups_add_nothing_where_a_turn_has_none_of_their_depth(parts, turns, seed):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((3, 16, 2), (3, 2, 8)))
    options = _split(parts, turns)["options"]
    options["planConstraints"]["0"]["transform"] = {"combineConvGroupsFactor": [4]}
    plan = plan_modelled(a.shape, b.shape, dtype="half", options=options)
    assert plan.transforms[0].combine_conv_groups_factor == 4
    for threads in (1, 2):
        made = compile_modelled(plan, threads=threads)(a, b, seed=seed)
        np.testing.assert_array_equal(made.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("seed", [None, 9])
def test_results_of_any_strides(order, seed):
    a, b = _operands(40, 96, 24)
    plan = plan_modelled(a.shape, b.shape, dtype="half", **_split(3))
    program, (left, right, out) = _lowered(plan, a, b, stochastic=seed is not None)
    words = () if seed is None else (np.array([seed], np.uint64),)
    program(left, right, out, *words)
    room = np.zeros((80, 24) if order == "C" else (24, 80), np.float16)
    strided = room[::2] if order == "C" else room.T[::2]
    lower.lower(work_of(plan), _call(left, right, strided, seed is not None))(left, right, strided, *words)
    assert_same_bits(np.ascontiguousarray(strided), out)
    assert np.count_nonzero(room) == np.count_nonzero(out)


@pytest.mark.parametrize("turns", [1, 2, 8])
@pytest.mark.parametrize("parts", [1, 4])
def test_the_workspace_holds_partial_sums_once_however_many_turns_there_are(parts, turns):
    a, b = _operands(32, 512, 16, np.float32)
    plan = plan_modelled(a.shape, b.shape, dtype="float", **_split(parts, turns))
    program, arrays = _lowered(plan, a, b)
    sums = 4 * 32 * 16
    wanted = 0 if parts == turns == 1 else sums * (parts + (turns > 1))
    assert program.workspace_bytes == wanted
    program(*arrays)
    memory_peak(reset=True)
    before = memory_in_use()
    program(*arrays)
    assert memory_in_use() == before
    assert memory_peak() - before == program.temporary_bytes == wanted + program.scratch_bytes


def test_one_program_serves_every_seed():
    a, b = _operands(16, 64, 16)
    plan = plan_modelled(a.shape, b.shape, dtype="half", **_split(2))
    program, (left, right, out) = _lowered(plan, a, b, stochastic=True)
    for seed in (0, 1, 2**64 - 1):
        program(left, right, out, np.array([seed], np.uint64))
        assert_same_bits(out, interpret_modelled(plan, a, b, seed=seed))


def _phases(plan, stochastic=False):
    a, b = _operands(16, 64, 16)
    program, arrays = _lowered(plan, a, b, stochastic=stochastic)
    seconds = program.timed(*arrays, *(np.array([1], np.uint64),) * stochastic)
    assert seconds.shape == (len(program.phases),)
    assert (seconds >= 0).all()
    return program.phases


def test_compute_sets_in_order():
    plans = {
        (parts, turns): plan_modelled((16, 64), (64, 16), dtype="half", partials_type="half", **_split(parts, turns))
        for parts, turns in ((1, 1), (2, 1), (1, 2))
    }
    assert _phases(plans[1, 1]) == ("compute",)
    assert _phases(plans[1, 1], stochastic=True) == ("compute", "round", "cast output")
    assert _phases(plans[2, 1]) == ("compute", "reduce", "cast output")
    assert _phases(plans[1, 2]) == ("compute", "reduce", "cast output")  # the first two in a loop
    rounded = ("compute", "round", "reduce", "round")  # what tiles exchange, then the result
    assert _phases(plans[2, 1], stochastic=True) == (*rounded, "round", "cast output")
    looped = plan_modelled((16, 64), (64, 16), dtype="half", **_split(1, 1, 2))
    assert _phases(looped) == ("compute",)


def test_a_profile_sees_one_run_and_its_phases():
    a, b = _operands(16, 64, 16)
    for seed in (None, 4):
        with poplibs_py.profile() as report:
            made = poplin.matmul(a, b, target="gc200", seed=seed, **_split(2))
        (run,) = report.runs
        assert run.op == "poplin.matmul"
        assert {"compute", "reduce", "cast output"} <= set(run.phases)
        assert run.seconds == pytest.approx(sum(run.phases.values()))
        assert_same_bits(made, poplin.matmul(a, b, target="gc200", seed=seed, **_split(2)))


def test_small_compute_sets_stay_on_one_thread():
    small, large = (plan_modelled((s, s), (s, s), dtype="half") for s in (16, 256))
    assert _lowered(small, *_operands(16, 16, 16), threads=2)[0].threads == 1
    assert _lowered(large, *_operands(256, 256, 256), threads=2)[0].threads == 2


def test_many_turns_of_a_loop_over_the_output():
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((64, 256), (256, 1024)))
    plan = plan_modelled(a.shape, b.shape, dtype="half", **_split(2, 1, 64))
    for threads in (1, 2):
        run = compile_modelled(plan, threads=threads)
        assert run.work.turns == 64
        np.testing.assert_array_equal(run(a, b).astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))
