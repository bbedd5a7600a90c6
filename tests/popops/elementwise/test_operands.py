"""Elementwise operations of any operands: what types meet in, broadcasting, numbers of Python's, `out`, bad input."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import popops, profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import BF16, E5M2, F143, FP16, FP32, QuarterArray
from poplibs_py.popops import cast
from poplibs_py.popops.elementwise.table import ELEMENTWISE
from poplibs_py.popops.strided.lower import THREAD_ELEMENTS

RNG = np.random.default_rng(77)
INTEGERS = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
NUMPY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rem": np.fmod,
         "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin, "eq": np.equal,
         "neq": np.not_equal, "gt": np.greater, "gteq": np.greater_equal, "lt": np.less, "lteq": np.less_equal,
         "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
         "logical_and": np.logical_and, "logical_or": np.logical_or, "floor_divide": np.floor_divide,
         "remainder": np.remainder}  # fmt: skip
shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)


@pytest.mark.parametrize("name", sorted(NUMPY.keys() - {"div"}))
@given(st.data())
def test_integers_and_truth_values_are_numpys(name, data):
    """Any mix of types that one type holds, any shapes that broadcast; what divides by zero has a test of its own."""
    kinds = ELEMENTWISE[name].kinds
    if kinds == "f":
        return
    dtypes = [d for d in [*INTEGERS, np.dtype(bool)] if d.kind in kinds]
    dtypes = data.draw(st.tuples(st.sampled_from(dtypes), st.sampled_from(dtypes)))
    shape = data.draw(shapes)
    a, b = (RNG.integers(0, 2**63, [n if data.draw(st.booleans()) else 1 for n in shape]).astype(d) for d in dtypes)
    if np.result_type(a, b).kind == "f":
        with pytest.raises(InvalidTypeError, match="int64 beside uint64"):
            getattr(popops, name)(a, b)
        return
    with np.errstate(all="ignore"):
        want = NUMPY[name](a, b)
    got = getattr(popops, name)(a, b)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_what_integers_divide_and_shift_to_is_defined(dtype):
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    a = np.array([least, most, 7, 0], dtype)
    for name in ("div", "rem", "floor_divide", "remainder"):
        np.testing.assert_array_equal(getattr(popops, name)(a, 0), 0)
    bits = 8 * dtype.itemsize
    for name in ("shift_left", "shift_right"):
        np.testing.assert_array_equal(getattr(popops, name)(a, bits if bits <= most else most), 0)
    if dtype.kind == "i":
        assert popops.div(a, -1)[0] == least
        assert popops.rem(a, -1)[0] == 0
        assert popops.div(np.array([-7], dtype), 2) == -3
        assert popops.floor_divide(np.array([-7], dtype), 2) == -4
        assert popops.rem(np.array([-7], dtype), 2) == -1
        assert popops.remainder(np.array([-7], dtype), 2) == 1
        assert popops.shift_right(np.array([-1], dtype), bits - 1) == 1
        assert popops.shift_right_sign_extend(np.array([-8], dtype), 1) == -4
        assert popops.pow(np.array([2], dtype), -1) == 0
        np.testing.assert_array_equal(popops.abs(a), np.abs(a))


X32, X16, XB = np.ones(3, np.float32), np.ones(3, np.float16), np.ones(3, BF16.dtype)
X8, I8, I32, T = np.ones(3, F143.dtype), np.ones(3, np.int8), np.ones(3, np.int32), np.ones(3, bool)


@pytest.mark.parametrize(("a", "b", "dtype"), [
    (X32, X16, np.float32), (X16, XB, np.float32), (X16, X8, np.float16), (XB, X8, BF16.dtype), (X8, X8, np.float16),
    (QuarterArray(np.zeros(3, np.uint8), E5M2, 2), X8, np.float16), (X16, I32, np.float16), (XB, T, BF16.dtype),
    (X8, I8, np.float16), (I8, I32, np.int32), (I32, np.ones(3, np.uint32), np.int64), (I8, T, np.int8),
    (X16, 1, np.float16), (X16, 0.1, np.float16), (XB, True, BF16.dtype), (I8, 1, np.int8), (I8, True, np.int8),
    (I8, 0.5, np.float32), (X16, [1, 2, 3], np.float16), (1, 2, np.float32), ([1.5], 2, np.float32),
    (X16, np.float32(1), np.float32), (I8, np.int16(1), np.int16), (X16, np.float64(0.1), np.float16),
    (X16, np.ones((), np.float32), np.float32), (T, 1, np.int64),
])  # fmt: skip
def test_what_types_meet_in(a, b, dtype):
    for pair in ((a, b), (b, a)):
        got = popops.add(*pair)
        assert got.dtype == dtype
        testing.check("popops.add", *pair)


def test_python_numbers_are_rounded_to_the_arrays_type():
    assert popops.mul(X16, 0.1)[0] == np.float16(0.1)
    assert popops.mul(X16, 0.1, out_dtype="float32")[0] == np.float32(np.float16(0.1))
    assert popops.add(X16, 1e6)[0] == np.inf
    assert popops.add(np.float32([2**24]), 1)[0] == 2**24
    assert popops.eq(I8, 1).all()
    assert popops.gt(True, T).tolist() == [False] * 3


@given(st.data())
def test_shapes_broadcast_as_numpys(data):
    shape = data.draw(shapes)
    own = [[n if data.draw(st.booleans()) else 1 for n in shape] for _ in range(3)]
    x, low, high = (RNG.standard_normal(n[data.draw(st.integers(0, len(n))):]).astype(np.float32) for n in own)
    np.testing.assert_array_equal(popops.add(x, low), x + low)
    np.testing.assert_array_equal(popops.clamp(x, low, high), np.minimum(np.maximum(x, low), high))
    np.testing.assert_array_equal(popops.select(x, low, high > 0), np.where(high > 0, x, low))
    wide = np.broadcast_shapes(x.shape, low.shape)
    out = np.zeros([2 * n for n in wide], np.float16)[(..., *(slice(None, None, -2) for _ in wide))]
    assert popops.mul(x, low, out=out) is out
    np.testing.assert_array_equal(out, (x * low).astype(np.float16))


def test_blocks_with_scales_broadcast():
    q = cast(RNG.standard_normal((1, 8)).astype(np.float32), F143, scale="auto", block_shape=(1, 4))
    x = RNG.standard_normal((3, 8)).astype(np.float32)
    np.testing.assert_array_equal(popops.add(x, q), x + q.to_array(np.float32))
    np.testing.assert_array_equal(popops.add(q, q, out_dtype="float32"), 2 * q.to_array(np.float32))


@pytest.mark.parametrize("threads", [1, 2])
def test_out_may_be_an_operand_or_overlap_one(threads):
    a, b = RNG.uniform(1, 2, (2, 2 * THREAD_ELEMENTS + 77)).astype(np.float32)
    want = a / b
    with thread_limit(threads):
        for place in (0, 1):
            held = [a.copy(), b.copy()]
            assert popops.div(*held, out=held[place]) is held[place]
            np.testing.assert_array_equal(held[place], want)
        held = np.concatenate([a, np.zeros(5, np.float32)])
        popops.div(held[:-5], b, out=held[5:])
        np.testing.assert_array_equal(held[5:], want)
        square = a[:2500].reshape(50, 50).copy()
        due = square - square.T
        np.testing.assert_array_equal(popops.sub(square, square.T, out=square), due)
        row = a[:50].copy()
        np.testing.assert_array_equal(popops.add(square, row), square + row)
        answer = np.zeros(a.size, bool)
        np.testing.assert_array_equal(popops.gt(a, b, out=answer), a > b)


def test_a_call_is_kept_and_scalars_are_part_of_its_key():
    x = np.arange(4, dtype=np.float32)
    for number in (1.0, 2.0, 1.0, np.float32(4), 3, True):
        for _ in range(3):
            np.testing.assert_array_equal(popops.mul(x, number), x * np.float32(number))
    for kept in (2.0, np.float32(2), [1.0, 2.0, 3.0, 4.0]):
        before = popops.fmin.kept
        popops.fmin(x, kept)
        assert popops.fmin.kept == before + 1
        y = x[::-1].copy()
        np.testing.assert_array_equal(popops.fmin(y, kept), np.fmin(y, np.float32(kept)))
        assert popops.fmin.kept == before + 1


def test_a_run_tells_the_types():
    with profile() as report:
        popops.select(X16, X16, T)
        popops.mul(X32, I8)
    assert [run.op for run in report.runs] == ["popops.select", "popops.mul"]
    assert report.runs[0].kernel.startswith("select_16 (")
    assert "pop_widen_i8_float" in report.runs[1].kernel


@pytest.mark.parametrize(("call", "message"), [
    (lambda: popops.add(np.ones(3), X32), "a: got dtype float64; allowed: float32, float16, bfloat16 or FP8"),
    (lambda: popops.add(X32, np.ones(4, np.float32)), "b: got shape (4,); allowed: one that broadcasts with (3,)"),
    (lambda: popops.add(T, T), "a: got dtype bool; allowed: float32"),
    (lambda: popops.atan2(I8, I8), "a: got dtype int8; allowed: float32"),
    (lambda: popops.bitwise_and(I8, X32), "b: got numbers of float32; allowed: integers"),
    (lambda: popops.bitwise_and(I8, 1.5), "b: got dtype float64; allowed: integers"),
    (lambda: popops.logical_not(I8), "x: got dtype int8; allowed: truth values"),
    (lambda: popops.add(I8, 1000), "b: got 1000; allowed: whole numbers that int8 holds"),
    (lambda: popops.add(np.int64([1]), np.uint64([1])), "a: got int64 beside uint64; allowed: integers that one type"),
    (lambda: popops.shift_right_sign_extend(np.uint8([1]), 1), "a: got dtype uint8; allowed: signed integers"),
    (lambda: popops.select(X32, X32, I8), "condition: got dtype int8; allowed: truth values"),
    (lambda: popops.select(X32, X32, 1), "condition: got dtype int64; allowed: truth values"),
    (lambda: popops.eq(X32, X32, out=np.empty(3, np.float32)), "out: got an array of float32; allowed: one of bool"),
    (lambda: popops.eq(X32, X32, out_dtype="float32"), "out_dtype: got float32; allowed: None or bool"),
    (lambda: popops.add(I8, I8, out_dtype="int16"), "out_dtype: got int16; allowed: None or int8"),
    (lambda: popops.add(X32, "text"), "b: got text; allowed:"),
    (lambda: popops.add(X32, 2**70), "b: got 1180591620717411303424; allowed: whole numbers of at most 64 bits"),
    (lambda: popops.add(X32, [1, 2**70, 3]), "b: got [1, 1180591620717411303424, 3]; allowed: whole"),
    (lambda: popops.add(X32, None), "b: got None"),
    (lambda: popops.add(X32, X32, out=np.zeros((2, 3), np.float32)), "out: got shape (2, 3); allowed: shape (3,)"),
    (lambda: popops.mul(X32, X32.astype(complex)), "b: got dtype complex128"),
    (lambda: popops.mul(X32, X32.astype(">f4")), "b: got dtype >f4"),
    (lambda: popops.mul(I32, I32.astype(">i4")), "b: got dtype >i4"),
])  # fmt: skip
def test_bad_arguments_are_named(call, message):
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="^" + re.escape(message)):
        call()


def test_results_have_the_formats_that_are_asked_for():
    assert popops.add(I8, I8, out_dtype="int8").dtype == np.int8
    assert popops.eq(X32, X32, out_dtype=bool).all()
    for fmt in (FP32, FP16, BF16):
        assert popops.add(X8, X16, out_dtype=fmt).dtype == fmt.dtype


@pytest.mark.parametrize("op", ["popops.fmin", "popops.fmax", "popops.maximum"])
def test_signalling_nans_are_nans(op):
    testing.check(op, np.float32(0), np.array([0x7C01, 0xFC01, 0x7E00, 0x3C00], np.uint16).view(np.float16))
