"""Dense products in every format, shape and layout: exact data bit for bit, then bounds, then invariants."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import poplin
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.formats import BF16, F143, FORMATS, FP16, FP32, Format, QuarterArray, format_of
from poplibs_py.poplin.product import reference
from poplibs_py.program import memory_peak
from poplibs_py.testing import (
    assert_same_bits,
    check,
    exact_operands,
    random_operand,
)
from poplibs_py.testing.strategies import extents, layouts, relaid

EDGES = extents("dot", most=140)
ANY = st.sampled_from(FORMATS)
SEEDS = st.integers(0, 2**16)
ACTIVATIONS = st.sampled_from([None, "relu", "gelu", "silu"])


def from_reference(wanted, fmt):
    return np.asarray(wanted).astype(np.float32).astype(format_of(fmt).dtype)


@given(EDGES, EDGES, EDGES, ANY, ANY, layouts(), layouts(), st.booleans(), st.booleans(), SEEDS)
def test_exact_sums_have_one_answer(m, n, k, a_format, b_format, a_layout, b_layout, a_turned, b_turned, seed):
    made = exact_operands((m, k), (k, n), a_format, b_format, seed=seed)
    a = relaid(made.a.T, a_layout).T if a_turned else relaid(made.a, a_layout)
    b = relaid(made.b.T, b_layout).T if b_turned else relaid(made.b, b_layout)
    assert_same_bits(poplin.matmul(a, b, out_dtype="float32"), reference.matmul(a, b).astype(np.float32))


@given(EDGES, EDGES, st.integers(1, 700), ANY, ANY, ANY, ACTIVATIONS, st.booleans(), SEEDS)
def test_results_lie_within_the_bound(m, n, k, a_format, b_format, out_format, activation, biased, seed):
    a, b = random_operand((m, k), a_format, seed), random_operand((k, n), b_format, seed + 1)
    bias = random_operand((n,), b_format, seed + 2) if biased else None
    check("matmul", a, b, out_dtype=out_format, activation=activation, bias=bias, alpha=0.75)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), ANY, ANY, SEEDS)
def test_any_bit_pattern_gives_what_ieee_says(m, n, k, a_format, b_format, seed):
    a = random_operand((m, k), a_format, seed, patterns=True)
    b = random_operand((k, n), b_format, seed + 1, patterns=True)
    check("matmul", a, b, out_dtype="float32")


@given(EDGES, EDGES, st.integers(0, 600), ANY, ANY, ANY, st.sampled_from([0.0, 1.0, -0.5]),
       layouts().filter(lambda layout: layout != "read_only"), SEEDS)
def test_accumulating_reads_and_writes_c_in_place(m, n, k, a_format, b_format, c_format, beta, layout, seed):
    a, b = random_operand((m, k), a_format, seed), random_operand((k, n), b_format, seed + 1)
    c = relaid(random_operand((m, n), c_format, seed + 2), layout)
    check("matmul_acc", c, a, b, alpha=1.25, beta=beta)


@given(EDGES, EDGES, st.integers(0, 600), ANY, ANY, SEEDS)
def test_half_partials_round_once_a_block(m, n, k, a_format, b_format, seed):
    a, b = random_operand((m, k), a_format, seed), random_operand((k, n), b_format, seed + 1)
    check("matmul", a, b, out_dtype="float32", partials_type="half")


@pytest.mark.parametrize("a_format", FORMATS, ids=str)
@pytest.mark.parametrize("b_format", FORMATS, ids=str)
def test_every_pair_of_formats_multiplies_every_code(a_format, b_format):
    """All codes of 8-bit formats, and 256 of the wider ones, each by each: products alone."""
    sides = []
    for seed, fmt in enumerate((a_format, b_format)):
        codes = np.arange(256) if fmt.bits == 8 else np.random.default_rng(seed).integers(0, 1 << fmt.bits, 256)
        sides.append(codes.astype(fmt.code_dtype).view(fmt.dtype))
    check("matmul", sides[0][:, None], sides[1][None, :], out_dtype="float32")


@given(EDGES, EDGES, st.integers(0, 600), ANY, ANY, SEEDS)
def test_reproducible_results_are_one_chain_of_fused_multiply_adds(m, n, k, a_format, b_format, seed):
    a, b = random_operand((m, k), a_format, seed), random_operand((k, n), b_format, seed + 1)
    got = poplin.matmul(a, b, out_dtype="float32", reproducible=True)
    x, y = reference.values(a), reference.values(b)
    total = np.zeros((m, n), np.float32)
    for step in range(k):  # float64 holds each product; the sum with an FP32 number is rounded once more, to FP32
        exact_sum = two_sum(x[:, step, None] * y[None, step], total.astype(np.float64))
        total = exact_sum
    assert_same_bits(got, total)


def two_sum(p, q):
    """The FP32 number nearest to p + q, both float64: rounded to odd on the way (Boldo and Melquiond, 2008)."""
    s = p + q
    t = s - p
    error = (p - (s - t)) + (q - t)
    inexact = (error != 0) & (s.view(np.int64) & 1 == 0)
    towards = np.where((error > 0) == (s > 0), 1, -1)
    return np.where(inexact, (s.view(np.int64) + towards).view(np.float64), s).astype(np.float32)


QUARTERS = st.sampled_from([f for f in FORMATS if f.bits == 8])
BLOCKS = st.sampled_from([None, (1, -1), (-1, 1), (1, 1), (5, 7), (16, 32), (3, -1)])


def quarter(array, blocks, seed):
    """The codes of an array with a random scale for each block."""
    rng = np.random.default_rng(seed)
    if blocks is None:
        return QuarterArray(array, format_of(array), int(rng.choice(format_of(array).scales)))
    counts = [-(-n // (b if b > 0 else max(1, n))) for n, b in zip(array.shape, blocks, strict=True)]
    return QuarterArray(array, format_of(array), rng.choice(format_of(array).scales, counts), blocks)


@given(EDGES, EDGES, st.integers(1, 300), QUARTERS, QUARTERS, BLOCKS, BLOCKS, st.booleans(), st.booleans(), SEEDS)
def test_scales_per_tensor_row_and_block(m, n, k, a_format, b_format, a_blocks, b_blocks, a_turned, b_turned, seed):
    shapes = [(k, m) if a_turned else (m, k), (n, k) if b_turned else (k, n)]
    a = quarter(random_operand(shapes[0], a_format, seed), a_blocks, seed)
    b = quarter(random_operand(shapes[1], b_format, seed + 1), b_blocks, seed + 1)
    check("matmul", a.T if a_turned else a, b.T if b_turned else b, out_dtype="float32")


@pytest.mark.parametrize("blocks", [None, (1, 1, -1), (2, 4, 4), (-1, 1, 8)])
def test_scales_of_a_batch(blocks):
    a = quarter(random_operand((3, 10, 20), "f143", 0), blocks, 3)
    check("matmul", a, random_operand((20, 9), "float16", 1), out_dtype="float32")
    check(
        "matmul",
        random_operand((2, 1, 9, 10), "float16", 1),
        a,
        out_dtype="bfloat16",
        bias=random_operand((20,), "f152", 1),
    )


NARROW = st.sampled_from([*(f for f in FORMATS if f.bits <= 16), Format("e3m4", 3, 4, 3, "ieee")])


@given(EDGES, EDGES, st.integers(0, 300), ANY, NARROW, st.integers(-20, 20), st.booleans(), SEEDS)
def test_a_quarter_array_receives_the_result_at_its_scale(m, n, k, fmt, out_format, scale, turned, seed):
    """One rounding from the FP32 result, wherever that is."""
    a, b = random_operand((m, k), fmt, seed), random_operand((k, n), fmt, seed + 1)
    scale = max(out_format.scales[0], min(scale, out_format.scales[-1]))
    codes = np.zeros((n, m) if turned else (m, n), out_format.code_dtype)
    out = QuarterArray(codes, out_format, scale)
    out = out.T if turned else out
    got = poplin.matmul(a, b, out=out, bias=np.ones(n, np.float32), reproducible=True)
    assert got is out
    wide = poplin.matmul(a, b, out_dtype="float32", bias=np.ones(n, np.float32), reproducible=True)
    wanted = QuarterArray.from_array(wide, out_format, scale)
    np.testing.assert_array_equal(got.codes, wanted.codes)


def test_a_quarter_array_accumulates_at_its_scale():
    c = QuarterArray.from_array(np.full((2, 2), 96.0, np.float32), F143, 5)
    x = np.full((2, 2), 4.0, np.float32)
    assert poplin.matmul_acc(c, x, x) is c
    np.testing.assert_array_equal(c.to_array(), np.full((2, 2), 128.0))
    w = poplin.prepare(x)
    assert poplin.matmul(x, w, out=c) is c
    np.testing.assert_array_equal(c.to_array(), np.full((2, 2), 32.0))
    q = QuarterArray.from_array(x, F143, 3)
    assert poplin.matmul(q, x, out=q) is q  # where it overlaps an operand
    np.testing.assert_array_equal(q.to_array(), np.full((2, 2), 32.0))


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (QuarterArray(np.zeros((2, 2), np.uint8), F143, [[1], [2]], (1, -1)), "out: got a QuarterArray with scales of"),
        (QuarterArray(np.zeros((2, 3), np.uint8), F143), r"out: got shape \(2, 3\)"),
        ([[0.0, 0.0], [0.0, 0.0]], "out: got list"),
    ],
)
def test_what_cannot_receive_a_result_is_refused(out, message):
    with pytest.raises((ValueError, TypeError), match=message):
        poplin.matmul(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), out=out)


def test_a_user_defined_format_multiplies():
    fmt = Format("e3m4", 3, 4, 3, "ieee")
    codes = np.arange(256, dtype=np.uint8).reshape(16, 16)
    q = QuarterArray(codes, fmt, 5)
    check("matmul", q, np.eye(16, dtype=np.float32), out_dtype="float32")


@given(st.sampled_from([(), (1,), (3,), (2, 1), (1, 4)]), st.sampled_from([(), (1,), (3,), (4,), (2, 4)]), SEEDS)
def test_batch_axes_broadcast_as_numpy_has_it(a_batch, b_batch, seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(-8, 9, (*a_batch, 5, 7)).astype(np.float32)
    b = rng.integers(-8, 9, (*b_batch, 7, 6)).astype(np.float16)
    try:
        wanted = np.matmul(a, b.astype(np.float32))
    except ValueError:
        with pytest.raises(ValueError, match="b: got batch shape"):
            poplin.matmul(a, b)
        return
    assert_same_bits(poplin.matmul(a, b), wanted)


def test_vectors_are_rows_on_the_left_and_columns_on_the_right():
    v, w = np.arange(4, dtype=np.float32), np.arange(20, dtype=np.float32).reshape(4, 5)
    for a, b in ((v, w), (w.T, v), (v, v), (np.stack([w.T] * 3), v), (v, np.stack([w] * 3))):
        assert_same_bits(poplin.matmul(a, b), np.matmul(a, b))


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 300), st.booleans(), ACTIVATIONS, SEEDS)
def test_a_bias_belongs_to_columns_or_rows(m, n, k, per_row, activation, seed):
    a, b = random_operand((2, m, k), "float16", seed), random_operand((2, k, n), "float16", seed + 1)
    bias = random_operand((m, 1) if per_row else (2, 1, n), "bfloat16", seed + 2)
    check("matmul", a, b, bias=bias, activation=activation, out_dtype="float32")


def test_the_result_may_overlap_the_operands():
    a = np.random.default_rng(0).integers(-8, 9, (64, 64)).astype(np.float32)
    wanted = a @ a
    out = poplin.matmul(a, a, out=a)
    assert out is a
    assert_same_bits(a, wanted)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_nothing_to_add_up_gives_zeros(shape):
    m, k, n = shape
    got = poplin.matmul(np.ones((m, k), np.float32), np.ones((k, n), np.float32), bias=np.ones(n, np.float32))
    assert_same_bits(got, np.full((m, n), 1.0 + k, np.float32))


def test_default_result_formats():
    def made(a, b):
        return format_of(poplin.matmul(np.ones((1, 1), a.dtype), np.ones((1, 1), b.dtype)))

    assert made(FP16, FP16) == FP16
    assert made(BF16, F143) == BF16
    assert made(FP16, BF16) == FP32
    assert made(F143, F143) == FP16
    assert made(F143, FP32) == FP32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": np.ones((2, 3))}, "a: got dtype float64"),
        ({"b": "text"}, "b: got text"),
        ({"b": np.ones((4, 2), np.float32)}, r"b: got shape \(4, 2\) with 4 rows"),
        ({"a": np.float32(1)}, "a: got a scalar"),
        ({"a": np.array(1, np.float32)}, "a: got a scalar"),
        ({"out": np.ones((3, 3), np.float32)}, r"out: got shape \(3, 3\)"),
        ({"out": np.broadcast_to(np.float32(0), (2, 2))}, "out: got a read-only array"),
        ({"out": np.ones((2, 2), np.float32), "out_dtype": "float16"}, "out: got dtype float32"),
        ({"alpha": float("nan")}, "alpha: got nan"),
        ({"alpha": "1"}, "alpha: got '1'"),
        ({"activation": "tanh"}, "activation: got tanh"),
        ({"bias": np.ones(3, np.float32)}, r"bias: got shape \(3,\)"),
        ({"partials_type": "quarter"}, "partials_type: got quarter"),
        ({"available_memory_proportion": -1}, "available_memory_proportion: got -1"),
        ({"available_memory_proportion": "1"}, "available_memory_proportion: got '1'"),
        ({"reproducible": 1}, "reproducible: got 1"),
        ({"half_passes": 2}, "half_passes: got 2"),
        ({"options": {"partialType": "half"}}, "did you mean 'partialsType'"),
        ({"options": [1]}, r"options: got \[1\]"),
        ({"out_dtype": "float64"}, "out_dtype: got float64"),
        ({"target": "gc3"}, "target: got gc3"),
        ({"a": np.ones((2, 3), ">f4")}, "a: got dtype >f4"),
    ],
)
def test_what_cannot_be_taken_is_refused_by_name(change, message):
    call = {"a": np.ones((2, 3), np.float32), "b": np.ones((3, 2), np.float32)} | change
    a, b = call.pop("a"), call.pop("b")
    with pytest.raises((ValueError, TypeError), match=message):
        poplin.matmul(a, b, **call)


def test_groups_must_match():
    x = np.ones((2, 3, 3), np.float32)
    with pytest.raises(ValueError, match="b: got 1 groups"):
        poplin.matmul_grouped(x, x[:1])
    with pytest.raises(ValueError, match="a: got shape"):
        poplin.matmul_grouped(x[0], x[0])
    assert_same_bits(poplin.matmul_grouped_acc(x.copy(), x, x), x @ x + 1)


@pytest.mark.parametrize("call", [
    lambda a, b, out: poplin.matmul(a, b, out=out),
    lambda a, b, out: poplin.matmul(a, poplin.prepare(b), out=out),
    lambda a, b, out: poplin.matmul(a, b, target="gc200", out=out),
])  # fmt: skip
def test_an_output_whose_elements_share_memory_is_refused(call):
    a, b, room = np.ones((6, 4), np.float32), np.ones((4, 5), np.float32), np.zeros(30, np.float32)
    for strides in ((4, 4), (0, 4), (4, 0), (16, 4), (-4, 4)):
        out = np.lib.stride_tricks.as_strided(room[8:], (6, 5), strides)
        with pytest.raises(InvalidArgumentError, match=r"^out: .* share memory"):
            call(a, b, out)
    assert not room.any()


def test_an_accumulator_whose_elements_share_memory_is_refused():
    c = np.lib.stride_tricks.as_strided(np.zeros(5, np.float32), (3, 3), (4, 4))
    with pytest.raises(InvalidArgumentError, match=r"^c: .* share memory"):
        poplin.matmul_acc(c, np.ones((3, 3), np.float32), np.ones((3, 3), np.float32))


@pytest.mark.parametrize("view", [np.asarray, np.transpose, lambda c: c[::-1]], ids=["whole", "turned", "reversed"])
def test_the_copy_of_an_output_that_overlaps_an_operand_is_counted(view):
    rng = np.random.default_rng(1)
    c, b = (rng.integers(-3, 4, (300, 300)).astype(np.float32) for _ in range(2))
    due = c @ b
    memory_peak(reset=True)
    tracemalloc.start()
    try:
        assert poplin.matmul(c, b, out=(out := view(c)), available_memory_proportion=0.01) is out
        traced = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.array_equal(out, due)
    assert traced < c.nbytes < memory_peak()


@pytest.mark.parametrize("op", ["matmul", "matmul_acc"])
def test_sums_too_large_times_nothing(op: str) -> None:
    a, b = np.float32([[3e38, 3e38], [1, 2]]), np.ones((2, 2), np.float32)
    check(op, *([np.ones((2, 2), np.float32)] if op == "matmul_acc" else []), a, b, alpha=0.0)
