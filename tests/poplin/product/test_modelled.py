"""Products on modelled machines give the numbers of their plans, whatever runs them."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import poplibs_py
from poplibs_py import poplin, popops, testing
from poplibs_py.errors import InvalidArgumentError, MemoryLimitWarning, UnsupportedError
from poplibs_py.formats import FP16, FP32, QuarterArray
from poplibs_py.poplin.gemm._gemm import ITEM, VERTEX
from poplibs_py.poplin.gemm.lower import kernel_record
from poplibs_py.poplin.product.bound import matmul_modelled_bound
from poplibs_py.poplin.product.modelled import (
    compile_modelled,
    count_modelled,
    interpret_modelled,
    plan_modelled,
)
from poplibs_py.poplin.tile_conv._model import reduction_stages
from poplibs_py.poplin.tile_conv.interpreter import fused_multiply_add
from poplibs_py.poplin.tile_conv.work import work_of
from poplibs_py.program import Segment, guard_arenas, host_program, memory_in_use, memory_peak
from poplibs_py.report.verdict import amount
from poplibs_py.target import Target

SIZES = st.integers(1, 40)
F143 = ml_dtypes.float8_e4m3fnuz
F152 = ml_dtypes.float8_e5m2fnuz


@st.composite
def products(draw):
    """Shapes, formats and options of a product."""
    dtype = draw(st.sampled_from([np.float32, np.float16, F143, F152]))
    options = {"available_memory_proportion": draw(st.sampled_from([0.6, 0.05, 0.001]))}
    if dtype != np.float32:
        options["partials_type"] = draw(st.sampled_from(["float", "half"]))
    groups = draw(st.sampled_from([(), (2,), (12,)]))
    return dtype, groups, draw(SIZES), draw(SIZES), draw(SIZES), options


def _operands(dtype, groups, m, k, n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((*groups, *shape)).astype(np.float32).astype(dtype) for shape in ((m, k), (k, n))]


@contextmanager
def guarded():
    """Guard words around every arena, and NaNs in it before each compute set."""
    guard_arenas(True)
    try:
        yield
    finally:
        guard_arenas(False)


def _planned(a, b, target="gc200", **options):
    return plan_modelled(a.shape, b.shape, dtype=a.dtype, target=target, **options)


def _same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


@given(products(), st.sampled_from(["gc200", "c600", Target.small(4), Target.small(24)]), st.sampled_from([None, 7]))
@settings(max_examples=max(8, settings.default.max_examples // 4))
def test_the_compiled_executor_gives_the_bits_of_the_python_one(product, target, seed):
    dtype, groups, m, k, n, options = product
    a, b = _operands(dtype, groups, m, k, n)
    with warnings.catch_warnings(), guarded():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        compiled = poplin.matmul(a, b, target=target, seed=seed, **options)
        slow = interpret_modelled(_planned(a, b, target, **options), a, b, seed=seed)
    assert _same_bits(compiled, slow)


@given(products(), st.integers(0, 3))
@settings(max_examples=examples(25))
def test_exact_data_gives_float64s_bits(product, seed):
    dtype, groups, m, k, n, options = product
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-1, 2, (*groups, *shape)).astype(np.float32).astype(dtype) for shape in ((m, k), (k, n)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        np.testing.assert_array_equal(poplin.matmul(a, b, target="gc200", **options).astype(np.float64), exact)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3))
def test_the_oracles_fused_multiply_add_rounds_once(numbers):
    x, y, z = (np.array([v], np.float32) for v in numbers)
    exact = Fraction(float(x[0])) * Fraction(float(y[0])) + Fraction(float(z[0]))
    got = fused_multiply_add(x, y, z)[0]
    if not np.isfinite(got):
        assert abs(exact) >= Fraction(FP32.max)
        return
    with np.errstate(over="ignore"):
        below, above = (np.nextafter(got, np.float32(side)) for side in (-np.inf, np.inf))
    for neighbour in (below, above):
        if np.isfinite(neighbour):
            assert abs(exact - Fraction(float(got))) <= abs(exact - Fraction(float(neighbour)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_threads_do_not_change_a_bit(dtype):
    a, b = _operands(dtype, (), 70, 90, 50)
    plan = plan_modelled(a.shape, b.shape, dtype=dtype, available_memory_proportion=0.05)
    runs = [compile_modelled(plan, threads=threads)(a, b) for threads in (1, 2, 5)]
    assert _same_bits(runs[0], runs[1])
    assert _same_bits(runs[0], runs[2])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("step", [1, -2])
def test_strides_do_not_change_a_bit(order, step):
    a, b = _operands(np.float16, (), 20, 30, 25)
    strided = [np.repeat(x, 2, axis=0)[::2].copy(order)[::1] for x in (a, b)]
    strided = [np.ascontiguousarray(x[::-1])[::-1] if step < 0 else x for x in strided]
    assert _same_bits(poplin.matmul(*strided, target="gc200"), poplin.matmul(a, b, target="gc200"))


HMAC = {"plan_constraints": {"method": {"type": "HMAC"}}}


@pytest.mark.parametrize("shape", [(64, 64, 64), (300, 17, 9), (7, 500, 33)])
@pytest.mark.parametrize("options", [{}, {"available_memory_proportion": 0.002}, HMAC])
def test_pieces_cover_the_product_once(shape, options):
    m, k, n = shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        plan = plan_modelled((m, k), (k, n), dtype="half", **options)
    work = work_of(plan)
    done = np.zeros((m, n, k), np.int8)
    for p in work.pieces:  # rows and columns are merged to dimension 1; output channels are the others
        field, outs, ins = (slice(*ends) for ends in (p["field"][1], p["outs"], p["ins"]))
        row, col = (outs, field) if work.swapped else (field, outs)
        done[row, col, ins] += 1
    assert (done == 1).all()
    assert work.tile_macs().sum() == m * n * k
    assert len(np.unique(work.pieces["tile"])) <= plan.tiles_used


def test_a_smaller_proportion_lowers_the_arenas():
    plans = [plan_modelled((4096, 4096), (4096, 4096), dtype="half", available_memory_proportion=p)
             for p in (0.6, 0.2, 0.1)]
    held = [work_of(plan).tile_bytes().max() for plan in plans]
    for sizes in ([plan.temp_bytes for plan in plans], held):
        assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize("fc_pass", ["INFERENCE_FWD", "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU"])
def test_fully_connected_passes_run(fc_pass):
    a, b = (np.random.default_rng(1).integers(-2, 3, shape).astype(np.float16) for shape in ((24, 48), (48, 40)))
    options = {"fullyConnectedPass": fc_pass}
    made = poplin.matmul(a, b, target="gc200", options=options)
    np.testing.assert_array_equal(made.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


def test_two_plans_of_one_problem_agree_within_the_bound_of_both():
    a, b = _operands(np.float32, (), 50, 200, 30)
    targets = ("gc200", Target.small(8))
    one, other = (poplin.matmul(a, b, target=target) for target in targets)
    radius = sum(matmul_modelled_bound(a, b, target=target).radius for target in targets)
    assert (np.abs(one.astype(np.float64) - other) <= radius).all()
    assert (one != other).any()


@given(products(), st.sampled_from(["gc200", "c600", Target.small(1), Target.small(24)]), st.sampled_from([None, 7]))
@settings(max_examples=examples(40))
def test_results_lie_within_the_bound_of_their_plan(product, target, seed):
    dtype, groups, m, k, n, options = product
    a, b = _operands(dtype, groups, m, k, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        testing.check("matmul", a, b, target=target, seed=seed, **options)


@pytest.mark.parametrize(("depth", "value"), [(2048, 0.0303), (2048, 0.1277), (4096, 0.0101), (4096, 0.0303)])
@pytest.mark.parametrize("tiles", [1, 24])
@pytest.mark.parametrize("seed", [None, 4])
def test_sums_that_drift_one_way_stay_within_the_bound(depth, value, tiles, seed):
    a, b = np.full((16, depth), value, np.float16), np.ones((depth, 16), np.float16)
    options = {"partials_type": "half", "available_memory_proportion": 0}
    testing.check("matmul", a, b, target=Target.small(tiles), seed=seed, **options)


@pytest.mark.parametrize("fmt", ["f143", "f152"])
@pytest.mark.parametrize("target", ["gc2", "gc200", "c600"])
def test_bounds_follow_the_types_that_a_plan_takes_for_fp8(fmt, target):
    a, b = (testing.random_operand(shape, fmt, seed=i) for i, shape in enumerate([(40, 400), (400, 40)]))
    testing.check("matmul", a, b, target=target)


@given(products(), st.sampled_from(["gc200", Target.small(4), Target.small(24)]))
@settings(max_examples=examples(25))
def test_the_counting_executor_counts_what_is_done(product, target):
    dtype, groups, m, k, n, options = product
    a, b = _operands(dtype, groups, m, k, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        counted = count_modelled(_planned(a, b, target, **options))
        with poplibs_py.profile() as report:
            poplin.matmul(a, b, target=target, **options)
    run = report.runs[0]
    assert counted.tile_macs.sum() == max(1, *groups, 1) * m * k * n
    assert (counted.tile_macs == run.tile_macs).all()
    assert (counted.tile_bytes == run.tile_bytes).all()
    assert counted.cycles == run.plan.cycles
    assert counted.exchanged_bytes == run.exchanged_bytes
    assert amount(counted.exchanged_bytes) in report.summary()


@pytest.mark.parametrize(("parts", "turns"), [(1, 1), (4, 1), (1, 4), (3, 2)])
def test_counts_of_a_split_depth(parts, turns):
    m, k, n = 32, 96, 16
    split = {"0": {"partition": {"inChanSplit": {"parallel": parts, "serial": turns}, "outChanSplit": {"parallel": 1}}}}
    plan = plan_modelled((m, k), (k, n), dtype="half", partials_type="float", options={"planConstraints": split})
    rows = plan.partition.field_split[-1]
    counted = count_modelled(plan)
    between = work_of(plan).between.itemsize
    assert counted.vertices == rows * parts * turns * plan.partition.out_chan_split.serial
    assert counted.operand_bytes == (m * k + rows * k * n) * 2
    assert counted.additions == (parts * turns - 1) * m * n
    assert (counted.partial_bytes > 0) == (parts > 1)
    assert counted.partial_bytes % (m * n * between) == 0


def test_arenas_that_are_too_small_are_found():
    a, b = _operands(np.float16, (), 40, 300, 50)
    plan = poplin.plan_matmul(a.shape, b.shape, dtype="float16")
    spec = kernel_record(plan)
    items = np.zeros(1, ITEM)
    items["spec"], items["m"], items["n"] = spec.ctypes.data, 40, 50
    enough, short = (
        host_program((Segment(VERTEX, items, np.zeros(1, int)),), operands=3, threads=2, arena_bytes=room)
        for room in (plan.scratch_bytes, plan.scratch_bytes // 2)
    )
    with guarded():
        enough(a, b, np.empty((40, 50), np.float16))
    with guarded(), pytest.raises(RuntimeError, match="a vertex wrote past"):
        short(a, b, np.empty((40, 50), np.float16))


def test_partial_sums_are_counted_memory():
    a, b = _operands(np.float32, (), 64, 2048, 64)
    plan = plan_modelled(a.shape, b.shape, dtype="float")
    work = work_of(plan)
    assert not work.direct
    run = compile_modelled(plan, threads=1)
    run(a, b)
    memory_peak(reset=True)
    before = memory_in_use()
    run(a, b)
    assert memory_in_use() == before
    _, kept = next(work.reductions)  # parts of a sum are added as they are made, those of the first stage
    assert 64 * 64 * 4 * kept <= memory_peak() - before < 64 * 64 * 4 * work.parts


def test_stochastic_rounding_repeats_from_its_seed_and_is_centred():
    a, b = _operands(np.float16, (), 32, 24, 32)
    one_part = {"planConstraints": {"0": {"partition": {"inChanSplit": {"parallel": 1, "serial": 1}}}}}
    plan = plan_modelled(a.shape, b.shape, dtype="half", options=one_part)
    work, run = work_of(plan), compile_modelled(plan)
    assert (work.direct, work.partial) == (True, FP32)  # the result is rounded once
    assert _same_bits(run(a, b, seed=1), run(a, b, seed=1))
    assert not _same_bits(run(a, b, seed=1), run(a, b, seed=2))
    same_chain = poplin.matmul(a.astype(np.float32), b.astype(np.float32), reproducible=True)
    exact = same_chain.astype(np.float64)
    draws = np.stack([run(a, b, seed=s).astype(np.float64) for s in range(40)])
    spacing = np.spacing(np.abs(exact).astype(np.float16)).astype(np.float64)
    # Errors are independent, lie within two spacings and have mean 0: Hoeffding, false alarms once in 1e9.
    assert abs(((draws - exact) / spacing).mean()) <= 4 * np.sqrt(np.log(2e9) / (2 * draws.size))


_ACTIVATIONS = st.sampled_from([None, "relu", "gelu", "silu"])


def _bias(draw, m, n, out, groups=()):
    shape = draw(st.sampled_from([(n,), (1, n), (m, 1), (*groups, 1, n), (*groups, m, 1)]))
    bias = np.random.default_rng(draw(st.integers(0, 9))).standard_normal(shape).astype(out)
    return bias[::-1] if draw(st.booleans()) else np.repeat(bias, 2, axis=-1)[..., ::2]


@given(products(), st.sampled_from(["gc200", Target.small(4), Target.small(24)]), st.sampled_from([None, 7]),
       _ACTIVATIONS, st.sampled_from([None, np.float32]), st.data())
@settings(max_examples=max(8, settings.default.max_examples // 4))
def test_a_bias_and_an_activation_round_each_for_itself(product, target, seed, activation, out_dtype, data):
    dtype, groups, m, k, n, options = product
    a, b = _operands(dtype, groups, m, k, n)
    out_dtype = None if dtype in (F143, F152) else out_dtype
    out = out_dtype or (np.float32 if dtype == np.float32 else np.float16)
    how = {"bias": _bias(data.draw, m, n, out, groups), "activation": activation, "seed": seed}
    with warnings.catch_warnings(), guarded():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        made = poplin.matmul(a, b, target=target, out_dtype=out_dtype, **how, **options)
        testing.check("matmul", a, b, target=target, out_dtype=out_dtype, **how, **options)
        plan = _planned(a, b, target, out_dtype=out_dtype, **options)
    assert _same_bits(compile_modelled(plan, threads=2)(a, b, **how), made)
    if activation in (None, "relu"):
        assert _same_bits(interpret_modelled(plan, a, b, **how), made)


def test_the_product_is_rounded_before_the_bias_and_the_bias_before_the_activation():
    a, b = np.array([[2048, 1]], np.float16), np.array([[1], [1]], np.float16)  # 2049 lies between two numbers
    assert poplin.matmul(a, b, target="gc200", bias=np.array([-2048], np.float16)) == 0
    assert poplin.matmul(a, b, bias=np.array([-2048], np.float16)) == 1  # this CPU rounds once
    halves = poplin.matmul(a, b, target="gc200", bias=np.array([0.5], np.float16), activation="relu")
    assert halves == 2048


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_product_of_no_depth_is_its_epilogue(dtype):
    a, b, bias = np.ones((2, 3, 0), dtype), np.ones((2, 0, 4), dtype), np.array([-1, 0, 1, 2], dtype)
    made = poplin.matmul(a, b, target="gc200", bias=bias, activation="relu")
    np.testing.assert_array_equal(made, np.broadcast_to(np.maximum(bias, 0), (2, 3, 4)))


def test_infinities_and_nans_follow_ieee():
    a = np.array([[np.inf, 1], [np.nan, 1], [0, 1], [1, 1]], np.float16)
    b = np.array([[1, 0], [1, 1]], np.float16)
    np.testing.assert_array_equal(poplin.matmul(a, b, target="gc200"),
                                  np.array([[np.inf, np.nan], [np.nan, np.nan], [1, 1], [2, 1]], np.float16))


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (4, 3, 0)])
def test_operands_of_size_zero(shape):
    m, k, n = shape
    made = poplin.matmul(np.ones((m, k), np.float16), np.ones((k, n), np.float16), target="gc200")
    assert made.shape == (m, n)
    assert not made.any()


@pytest.mark.parametrize("depth", [1, 2, 15, 16, 17, 124, 125, 126, 400])
def test_reduction_stages_leave_one_partial(depth):
    left = depth
    for fan_in in reduction_stages(depth):
        left = -(-left // fan_in)
    assert left == 1
    assert reduction_stages(depth, False) == ([depth] if depth > 1 else [])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"bias": np.ones(4, np.float16)}, InvalidArgumentError, "bias: got shape"),
        ({"bias": np.ones((2, 1, 3), np.float16)}, InvalidArgumentError, "bias: got shape"),
        ({"activation": "tanh"}, InvalidArgumentError, "activation: got tanh"),
        ({"target": "gc9"}, InvalidArgumentError, "target"),
        ({"options": {"partialType": "half"}}, InvalidArgumentError, "partialsType"),
        ({"available_memory_proportion": -1}, InvalidArgumentError, "got -1"),
        ({"out": np.ones((3, 4), np.float16)}, InvalidArgumentError, "out"),
    ],
)
def test_what_cannot_be_done_is_named(change, error, message):
    a = np.ones((3, 3), np.float16)
    with pytest.raises(error, match=message):
        poplin.matmul(a, a, **{"target": "gc200", **change})


_HALF, _FLOAT, _QUARTER = (np.ones((3, 3), dtype) for dtype in (np.float16, np.float32, F143))
_BRAIN = np.ones((3, 3), ml_dtypes.bfloat16)
_BLOCKS = popops.cast(np.diag([1.0, 2.0, 4.0]).astype(np.float32), "f143", scale="auto", block_shape=(1, 3))


@pytest.mark.parametrize(("a", "b", "how", "lacking"), [
    (_HALF, _FLOAT, {}, "of float16 and float32"), (_BRAIN, _BRAIN, {}, "of bfloat16 and bfloat16"),
    (_HALF, _HALF, {"alpha": 2.0}, "with alpha"), (_HALF, _HALF, {"alpha": np.float32(2)}, "with alpha"),
    (_HALF, _HALF, {"out_dtype": "bfloat16"}, "of float16 to bfloat16"),
    (_HALF, _HALF, {"out": _BRAIN}, "of float16 to bfloat16"),
    (_QUARTER, _QUARTER, {"out_dtype": "float32"}, "of f143 to float32"),
    (_HALF, _HALF, {"bias": _FLOAT[0]}, "to float16 with a bias of float32"),
    (_BLOCKS, _QUARTER, {}, "with scales but one"),
    (poplin.prepare(_HALF, side="left"), _HALF, {}, "prepared for this CPU"),
])  # fmt: skip
def test_what_no_vertex_does_is_refused_by_name_and_runs_here_inside_a_profile(a, b, how, lacking):
    with pytest.raises(UnsupportedError, match=f"target: gc200 has no vertex for poplin.matmul .*{lacking}"):
        poplin.matmul(a, b, target="gc200", **how)
    how = {name: value.copy() if name == "out" else value for name, value in how.items()}
    with poplibs_py.profile(target="gc200") as report:
        made = poplin.matmul(a, b, **how)
    assert _same_bits(made, poplin.matmul(a, b, **how))
    (run,) = report.runs
    assert lacking in run.lacking
    assert run.lacking in report.summary()


def test_vectors_are_rows_and_columns():
    a, b = _operands(np.float16, (), 7, 30, 9)
    for left, right in ((a[2], b), (a, b[:, 3]), (a[2], b[:, 3])):
        testing.check("matmul", left, right, target="gc200")
    whole = poplin.matmul(a, b, target="gc200")
    assert _same_bits(poplin.matmul(a[2], b, target="gc200").astype(np.float64), np.asarray(
        interpret_modelled(plan_modelled((1, 30), (30, 9), dtype="half"), a[2:3], b)[0], np.float64))
    assert poplin.matmul(a, b[:, 3], target="gc200").shape == whole[:, 3].shape
    assert poplin.matmul(a[2], b[:, 3], target="gc200").shape == ()


def test_types_follow_the_plan():
    plan = plan_modelled((64, 512), (512, 64), dtype="half", partials_type="half")
    work = work_of(plan)
    assert (work.partial, work.out) == (FP16, FP16)
    assert work.chunk == plan.in_chans_per_group


def test_scales_beyond_the_metadata_byte_are_refused_there() -> None:
    x = np.ones((8, 8), np.float32)
    near, far = (QuarterArray.from_array(x, "f143", scale) for scale in (31, 32))
    assert poplin.matmul(near, near, target="gc200").dtype == np.float16
    for a, b in ((far, near), (near, far)):
        with pytest.raises(UnsupportedError, match=r"at scales 3[12] and 3[12]: its own are -32 to 31"):
            poplin.matmul(a, b, target="gc200")


@pytest.mark.parametrize("over", ["a", "b"])
def test_a_result_whose_groups_no_strides_tell_may_lie_over_an_operand(over):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((2, 3, 8, 8)).astype(np.float32) for _ in range(2))
    due = poplin.matmul(a, b, target="gc200")
    for _ in range(3):
        held = {"a": a.copy(), "b": b.copy()}
        room = np.zeros(2 * a.size, np.float32)
        room[8:a.size + 8] = held[over].ravel()
        held[over] = room[8:a.size + 8].reshape(a.shape)
        out = room[:a.size].reshape(3, 2, 8, 8).swapaxes(0, 1)
        assert poplin.matmul(held["a"], held["b"], target="gc200", out=out) is out
        assert out.tobytes() == due.tobytes()
        apart = np.zeros((3, 2, 8, 8), np.float32).swapaxes(0, 1)
        assert poplin.matmul(a, b, target="gc200", out=apart).tobytes() == due.tobytes()
