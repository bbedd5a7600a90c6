"""Operands packed once, on either side of a product."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import poplin, profile
from poplibs_py.errors import MemoryLimitWarning, PoplibsError
from poplibs_py.formats import BF16, E4M3, FORMATS, FP16, FP32, Format, QuarterArray
from poplibs_py.kernels import kernels
from poplibs_py.poplin import PreparedMatrix
from poplibs_py.poplin.gemm.plan import FAR
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.target import Target
from poplibs_py.testing import assert_same_bits, assert_within_bound, bound, exact_operands, random_operand
from poplibs_py.testing.strategies import extents

ANY = st.sampled_from(FORMATS)
NARROW_AND_WIDE = st.one_of(st.integers(0, 40), extents("dot", most=200))
SEEDS = st.integers(0, 1 << 30)
SIDES = st.sampled_from(["left", "right"])


def product(side, a, b, prepared_with=None, **keywords):
    """Multiply with one operand prepared for the format of the other."""
    how = prepared_with or {}
    if side == "left":
        return poplin.matmul(poplin.prepare(a, side="left", b_dtype=b.dtype, **how), b, **keywords)
    return poplin.matmul(a, poplin.prepare(b, a_dtype=a.dtype, **how), **keywords)


@given(SIDES, NARROW_AND_WIDE, NARROW_AND_WIDE, st.integers(0, 1300), ANY, ANY, st.booleans(), SEEDS)
def test_prepared_operands_give_the_same_results(side, m, n, k, a_format, b_format, turned, seed):
    made = exact_operands((m, k), (k, n), a_format, b_format, seed=seed)
    a, b = (np.asfortranarray(x) if turned else x for x in (made.a, made.b))
    assert_same_bits(product(side, a, b, out_dtype="float32"), poplin.matmul(a, b, out_dtype="float32"))


@given(
    SIDES, st.integers(1, 70), st.integers(1, 70), st.integers(1, 600), ANY, st.sampled_from(["columns", "rows"]),
    st.sampled_from([None, "relu", "gelu", "silu"]), ANY, st.booleans(), SEEDS,
)  # fmt: skip
def test_bias_and_activation_belong_where_they_belong(side, m, n, k, fmt, of, activation, out_format, turned, seed):
    a, b = random_operand((m, k), fmt, seed), random_operand((k, n), fmt, seed + 1)
    bias = random_operand((n,) if of == "columns" else (m, 1), "bfloat16", seed + 2)
    how = {"bias": bias, "activation": activation, "alpha": -0.5}
    ball = bound("matmul", a, b, out_dtype=out_format, **how)
    out = np.zeros((n, m), out_format.dtype).T if turned else np.zeros((m, n), out_format.dtype)
    assert_within_bound(product(side, a, b, out=out, **how), ball)


@given(st.integers(1, 5), st.integers(1, 300), st.integers(0, 1300), st.sampled_from(["float32", "float16"]),
       st.booleans(), st.booleans(), st.sampled_from([None, 1e-05]), SEEDS)  # fmt: skip
def test_few_rows_have_the_bits_of_many(m, n, k, out_dtype, half, turned, share, seed):
    """They may meet several panels at once, in any blocks."""
    a, w = random_operand((12, k), FP32, seed), poplin.prepare(random_operand((k, n), FP32, seed + 1))
    bias = random_operand((n,), FP32, seed + 2)
    how = {"bias": bias, "out_dtype": out_dtype, "options": {"partialsType": "half" if half else "float"}}
    many, few = poplin.matmul(a, w, **how), np.asfortranarray(a[:m]) if turned else a[:m]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        assert_same_bits(poplin.matmul(few, w, **how, available_memory_proportion=share), many[:m])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("m", [1, 3, 4])
def test_a_plan_tells_of_panels_at_once(m, dtype):
    a, w = np.ones((m, 64), np.float32), poplin.prepare(np.ones((64, 256), np.float32))
    with profile() as report:
        poplin.matmul(a, w, out_dtype=dtype)
    plan = report.runs[-1].plan
    there = [k for k in kernels("dot") if k.op == "multiply_panels" and k.grain[1] == plan.kernel.block[1]]
    assert ("panels at once" in plan.explain().decisions["A, B"]) == (m < 4 and bool(there))


@pytest.mark.parametrize(("m", "k", "n", "rows", "depth"), [
    (32, 256, 512, 32, 256), (32, 1024, 512, 32, 1024), (50, 1024, 512, 24, 1024), (32, 1100, 512, 32, 550),
])  # fmt: skip
def test_few_rows_meet_narrow_panels_once_and_whole(m, k, n, rows, depth):
    a, w = np.ones((m, k), np.float32), poplin.prepare(np.ones((k, n), np.float32))
    with profile() as report:
        poplin.matmul(a, w)
    plan = report.runs[-1].plan
    if plan.kernel.block[:2] != (6, 16):
        pytest.skip("panels of more columns")
    assert (min(plan.mc, m), plan.kc) == (rows, depth)


@pytest.mark.parametrize("m", [1, 4, 70])
def test_panels_from_memory_are_prefetched(m):
    """Every block of a large operand, the depth in parts or not, has the bits that a small one has."""
    depth = FAR * Target.host(1).bytes_per_tile // (4 * 1030) + 13
    a, b = random_operand((m, depth), FP32, 1), random_operand((depth, 1030), FP32, 2)
    w = poplin.prepare(b)
    with profile() as report:
        made = poplin.matmul(a, w)
    plan = report.runs[-1].plan
    assert plan.panels_ahead == (plan.call[1] == 1)
    assert_same_bits(made[:, 1000:], poplin.matmul(a, poplin.prepare(b[:, 1000:])))


@given(SIDES, st.integers(1, 40), st.integers(1, 40), st.integers(1, 300), st.sampled_from(["f143", "f152"]),
       st.sampled_from([None, (1, -1), (-1, 1), (2, 4), (16, 16)]), SEEDS)  # fmt: skip
def test_scales_go_with_the_operand(side, m, n, k, fmt, blocks, seed):
    shape = (m, k) if side == "left" else (k, n)
    x = QuarterArray.from_array(random_operand(shape, "float32", seed), fmt, "auto", blocks)
    y = random_operand((k, n) if side == "left" else (m, k), "float16", seed + 1)
    a, b = (x, y) if side == "left" else (y, x)
    w = poplin.prepare(x, side=side, **{"b_dtype" if side == "left" else "a_dtype": y.dtype})
    got = poplin.matmul(w, y, out_dtype="float32") if side == "left" else poplin.matmul(y, w, out_dtype="float32")
    assert_within_bound(got, bound("matmul", a, b, out_dtype="float32"))


@pytest.mark.parametrize("n", [3, 17, 50])
@pytest.mark.parametrize("blocks", [None, (1, -1), (-1, 1), (2, 4)])
def test_the_other_operand_may_have_scales_or_any_format(n, blocks):
    w = random_operand((20, 33), "float16", 0)
    x = QuarterArray.from_array(random_operand((33, n), "float32", 1), "f143", "auto", blocks)
    user = QuarterArray(np.arange(33 * n, dtype=np.uint8).reshape(33, n) % 112, Format("e3m4", 3, 4, 3, "ieee"), 2)
    for b in (x, user):
        held = poplin.prepare(w, side="left", b_dtype=b.format)
        assert_within_bound(poplin.matmul(held, b, out_dtype="float32"), bound("matmul", w, b, out_dtype="float32"))
    for a in (x.T, user.T):
        held = poplin.prepare(w.T, a_dtype=a.format)
        assert_within_bound(poplin.matmul(a, held, out_dtype="float32"), bound("matmul", a, w.T, out_dtype="float32"))


@given(SIDES, st.sampled_from([(3,), (2, 1, 4)]), st.integers(1, 40), st.integers(1, 40), ANY, st.booleans(), SEEDS)
def test_batches_share_a_prepared_operand(side, batch, m, n, fmt, apart, seed):
    k = 65
    shapes = ((m, k), (*batch, k, n)) if side == "left" else ((*batch, m, k), (k, n))
    made = exact_operands(*shapes, fmt, fmt, seed=seed)
    a, b = made.a, made.b
    if apart:  # entries that fold into the rows of the transposed product, or of this one
        a, b = (np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -2, 0)), 0, -2) for x in (a, b))
    bias = exact_operands((m, 1), (1, 1), fmt, fmt, seed=seed).a
    for how in ({}, {"bias": bias.astype(np.float32)}):
        wanted = poplin.matmul(a, b, out_dtype="float32", **how)
        assert_same_bits(product(side, a, b, out_dtype="float32", **how), wanted)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_vectors_meet_prepared_operands(fmt):
    w, x = random_operand((40, 33), fmt, 0), random_operand((33,), fmt, 1)
    assert_within_bound(poplin.matmul(poplin.prepare(w, side="left"), x), bound("matmul", w, x))
    assert_within_bound(poplin.matmul(x, poplin.prepare(w.T)), bound("matmul", x, w.T))


@given(SIDES, st.integers(1, 50), st.integers(1, 50), st.integers(1, 400), ANY, SEEDS)
def test_reproducible_products_have_the_same_bits(side, m, n, k, fmt, seed):
    a, b = random_operand((m, k), fmt, seed), random_operand((k, n), fmt, seed + 1)
    got = product(side, a, b, {"reproducible": True}, out_dtype="float32", reproducible=True)
    assert_same_bits(got, poplin.matmul(a, b, out_dtype="float32", reproducible=True))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("n", [2, 16, 64])
def test_infinities_meet_prepared_operands(side, n):
    a, b = random_operand((48, 64), "float16", 0), random_operand((64, n), "float16", 1)
    a[3, 5], b[7, 0] = np.inf, -np.inf
    with np.errstate(all="ignore"):
        wanted = a.astype(np.float64) @ b.astype(np.float64)
    got = product(side, a, b, out_dtype="float32")
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_array_equal(got[np.isinf(wanted)], wanted[np.isinf(wanted)])


@given(SIDES, st.sampled_from([1e-5, 0.01, 0.1, 0.0]), st.sampled_from(["float", "half"]), st.integers(1, 3), SEEDS)
def test_memory_limits_hold_for_prepared_operands(side, share, partials, threads, seed):
    target = Target.host(threads)
    how = {"available_memory_proportion": share, "target": target}
    made = exact_operands((150, 300), (300, 20), FP16, FP16, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        memory_peak(reset=True)
        before = memory_in_use()
        got = product(side, made.a, made.b, how, out_dtype="float32", **how)
        if share >= 0.1:
            assert memory_peak() - before <= share * target.bytes_per_tile * threads
        assert_same_bits(got, poplin.matmul(made.a, made.b, out_dtype="float32"))
        product(side, made.a, made.b, partials_type=partials, **how)


def test_a_call_seen_before_takes_what_it_is_given():
    """The second call goes a shorter way: other values, strides, outputs and overlaps."""
    rng = np.random.default_rng(0)
    w, out = rng.integers(-4, 5, (16, 16)).astype(np.float32), np.zeros((16, 16), np.float32)
    left, right = poplin.prepare(w, side="left"), poplin.prepare(w)
    for turn in range(3):
        x = rng.integers(-4, 5, (16, 16)).astype(np.float32)
        assert_same_bits(poplin.matmul(left, x), w @ x)
        assert_same_bits(poplin.matmul(x.T, right), x.T @ w)
        assert poplin.matmul(left, x, out=out) is out
        assert_same_bits(out, w @ x)
        wanted = w @ x if turn else x @ w
        assert_same_bits(poplin.matmul(left, x, out=x) if turn else poplin.matmul(x, right, out=x), wanted)
    with pytest.raises(ValueError, match="out: got a read-only array"):
        poplin.matmul(left, x, out=np.broadcast_to(np.float32(0), (16, 16)))
    assert_same_bits(poplin.matmul_acc(np.ones((16, 16), np.float32), left, x), w @ x + 1)


def test_it_tells_what_it_is():
    w = poplin.prepare(np.ones((3, 5), np.float16), side="left")
    assert isinstance(w, PreparedMatrix)
    assert (w.shape, w.format, w.side) == ((3, 5), FP16, "left")
    assert "side='left'" in repr(w)
    assert w.nbytes >= 2 * 30  # packed, and as it was
    with profile() as report:
        poplin.matmul(w, np.ones((5, 9), np.float16))
    assert "[3, 5] x [5, 9]" in report.summary()


ONES = np.ones((4, 4), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: poplin.matmul(ONES, poplin.prepare(ONES, side="left")),
            "b: got a matrix prepared for the left; allowed",
        ),
        (lambda: poplin.matmul(poplin.prepare(ONES), ONES), "a: got a matrix prepared for the right; allowed"),
        (lambda: poplin.matmul(poplin.prepare(ONES, side="left"), poplin.prepare(ONES)), "b: got PreparedMatrix"),
        (lambda: poplin.prepare(ONES, side="top"), "side: got top"),
        (lambda: poplin.prepare(ONES, side=None), "side: got None"),
        (lambda: poplin.prepare(ONES, side="left", a_dtype="float16"), "a_dtype: got float16; allowed: None for side"),
        (lambda: poplin.prepare(ONES, b_dtype="float16"), "b_dtype: got float16; allowed: None for side"),
        (lambda: poplin.prepare(ONES[0], side="left"), r"w: got shape \(4,\)"),
        (lambda: poplin.prepare(ONES, side="left", half_passes=7), "half_passes: got 7"),
        (lambda: poplin.matmul(poplin.prepare(ONES, side="left"), ONES[:3]), r"b: got shape \(3, 4\)"),
        (lambda: poplin.matmul_grouped(poplin.prepare(ONES, side="left"), ONES[None]), "a: got PreparedMatrix"),
    ],
)
def test_wrong_sides_and_arguments_are_refused_by_name(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_format_it_was_not_packed_for_is_refused():
    w, x = np.ones((8, 8), BF16.dtype), np.ones((8, 8), np.float32)
    if poplin.plan_matmul((8, 8), (8, 8), dtype="bfloat16").compute_format == BF16:
        with pytest.raises(TypeError, match="b: got float32, where a was prepared for bfloat16"):
            poplin.matmul(poplin.prepare(w, side="left"), x)
        with pytest.raises(TypeError, match="a: got float32, where b was prepared for bfloat16"):
            poplin.matmul(x, poplin.prepare(w))
    for fmt in (FP32, E4M3):
        held = poplin.prepare(w, side="left", b_dtype=fmt)
        assert_same_bits(poplin.matmul(held, x.astype(fmt.dtype), out_dtype="float32"), x * 8)


def refusal(call):
    """What a call says that is refused; None where it is served, as on other units."""
    try:
        call()
    except PoplibsError as error:
        return str(error)
    return None


@pytest.mark.parametrize("fmt", ["bfloat16", "f143"])
def test_a_partner_in_parts_needs_to_be_said(fmt):
    """On matrix units FP16 is split in parts: an operand that was not prepared for that refuses it by name."""
    w, x = random_operand((64, 64), fmt, 1), random_operand((64, 64), "float16", 2)
    assert_within_bound(poplin.matmul(x, poplin.prepare(w, a_dtype="float16")), bound("matmul", x, w))
    said = refusal(lambda: poplin.matmul(x, poplin.prepare(w)))
    assert said is None or said.startswith("a: got float16, where b was prepared for")


@pytest.mark.parametrize("mode", [False, True])
def test_reproducible_is_how_an_operand_was_prepared(mode):
    x = random_operand((64, 64), "bfloat16", 2)
    prepared = poplin.prepare(x, reproducible=mode)
    poplin.matmul(x, prepared, reproducible=mode)
    said = refusal(lambda: poplin.matmul(x, prepared, reproducible=not mode))
    assert said is None or said.startswith(f"reproducible: got {not mode}; allowed: {mode}")
