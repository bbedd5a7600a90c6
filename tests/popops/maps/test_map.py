"""Expressions in one pass: what they compute, types, rewrites, several results, in place, errors, kept calls."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import poplin, popops, profile, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from poplibs_py.formats import BF16, F143, FP16, FP32, QuarterArray
from poplibs_py.popops import expr
from poplibs_py.popops.expr import _1, _2, _3, const
from poplibs_py.popops.maps.lower import lowered
from poplibs_py.popops.strided.lower import THREAD_ELEMENTS
from poplibs_py.testing import assert_same_bits, strategies
from poplibs_py.testing.calls import calls
from poplibs_py.testing.replay import decode_call, encode_call

RNG = np.random.default_rng(4)
A, B = (RNG.standard_normal(3000).astype(np.float32) for _ in range(2))
INF = np.inf


def steps(expression: Any, *elements: Any, rounded: bool = False, relaxed: bool = False) -> list[str]:
    outputs = expression if isinstance(expression, tuple) else (expression,)
    chain = lowered(outputs, elements, (None,) * len(outputs), rounded, relaxed).chain
    return [step.op for step in chain.steps]


@given(calls("popops.map"))
def test_calls_are_within_their_bound(call):
    operands, keywords = call
    testing.check("popops.map", *operands, **keywords)


def test_bounds_promise_something():
    """A bound of a few operations on ordinary numbers is a few units of the last place."""
    for expression in (_1 * 2 + _2, popops.tanh(_1) * _2 - _1, popops.select(_1, popops.exp(_2), _1 > _2),
                       popops.clamp(_1 / (_2 * _2 + 1), -1, 1), popops.square(popops.abs(_1) + 1)):
        ball = testing.bound("popops.map", expression, A, B)
        assert np.median(ball.radius) < 2e-6
        assert np.isfinite(ball.radius).mean() > 0.99


@pytest.mark.parametrize(("function", "due"), [
    (lambda x, y: popops.relu(x * 2 + y), lambda x, y: np.maximum(x * np.float32(2) + y, 0)),
    (lambda x, y: x * y + y * x, lambda x, y: x * y + y * x),
    (lambda x, y: 1 - (x - y) * x, lambda x, y: 1 - (x - y) * x),
    (lambda x, y: (x + y) * y - x, lambda x, y: (x + y) * y - x),
    (lambda x, y: x - y / 4, lambda x, y: x - y / 4),
    (lambda x, y: abs(-x) % 3, lambda x, y: np.abs(x) % np.float32(3)),
    (lambda x, y: popops.select(x, y, (x > 0) & ~(y < x)), lambda x, y: np.where((x > 0) & ~(y < x), x, y)),
    (lambda x, y: np.float32(0.5) * x + np.sqrt(abs(y)), lambda x, y: np.float32(0.5) * x + np.sqrt(np.abs(y))),
    (lambda x, y: (x == y) | (x != x), lambda x, y: x == y),
    (lambda x, y: popops.cast(x > y, "float32") + x, lambda x, y: (x > y).astype(np.float32) + x),
    (lambda x, y: x // y, lambda x, y: np.floor_divide(x, y)),
])  # fmt: skip
def test_arithmetic_is_numpys_step_by_step(function, due):
    for n in (1, 63, 1024, 3000):
        x, y = A[:n], B[:n]
        np.testing.assert_array_equal(popops.map(function, x, y), due(x, y))
        np.testing.assert_array_equal(popops.map(function(_1, _2), x, y), due(x, y))
        np.testing.assert_array_equal(popops.compile_map(function)(x, y), due(x, y))


def test_layouts_broadcast_and_scalars():
    x, y = A[:600].reshape(20, 30), B[:30]
    expression = (_1 + _2) * _3
    want = (x + y) * np.float32(0.25)
    np.testing.assert_array_equal(popops.map(expression, x, y, 0.25), want)
    np.testing.assert_array_equal(popops.map(expression, x.T, y[:, None], 0.25), want.T)
    np.testing.assert_array_equal(popops.map(expression, x[::-2, ::3], y[::3], np.float32([[0.25]])), want[::-2, ::3])
    assert popops.map(expression, x[:0], y, 1).shape == (0, 30)
    assert popops.map(_1 + 1, np.float32(3)).shape == ()


@pytest.mark.parametrize("fmt", [FP16, BF16])
def test_numbers_are_fp32_between_steps_or_rounded_at_each(fmt):
    x, y = (popops.cast(v, fmt) for v in (A, B))
    wide = [v.astype(np.float32) for v in (x, y)]
    once = popops.map(_1 * _2 + _1, x, y)
    assert_same_bits(once, popops.cast(wide[0] * wide[1] + wide[0], fmt))
    each = popops.map(_1 * _2 + _1 * 0.1, x, y, round_each=True)
    product = popops.cast(wide[0] * wide[1], fmt).astype(np.float32)
    tenth = popops.cast(np.float32([0.1]), fmt).astype(np.float32)
    scaled = popops.cast(wide[0] * tenth, fmt).astype(np.float32)
    assert_same_bits(each, popops.cast(product + scaled, fmt))
    assert (each != popops.map(_1 * _2 + _1 * 0.1, x, y)).any()


def test_one_operation_on_halves_is_that_operation():
    x = A.astype(np.float16)
    with profile() as report:
        assert_same_bits(popops.map(popops.exp(_1), x), popops.exp(x))
    assert report.runs[0].kernel == report.runs[1].kernel


def test_formats_meet_as_in_every_operation():
    f8 = popops.cast(A, "f143")
    assert popops.map(_1 + _2, f8, f8).dtype == np.float16
    assert popops.map(_1 + _2, A.astype(np.float16), popops.cast(B, "bfloat16")).dtype == np.float32
    assert popops.map(_1 + _2, np.arange(3, dtype=np.int32), np.float32(1)).dtype == np.float32
    assert popops.map(_1 * 2, np.arange(3, dtype=np.uint8)).tolist() == [0, 2, 4]
    assert popops.map(_1 / 2, np.arange(3, dtype=np.uint8)).tolist() == [0, 0.5, 1]
    scaled = QuarterArray(f8.view(np.uint8), F143, 3)
    np.testing.assert_array_equal(popops.map(_1 * 1.5, scaled, out_dtype=FP32), scaled.to_array() * np.float32(1.5))
    out = popops.map(_1 * 2, A, out=QuarterArray(np.zeros(A.size, np.uint8), F143, -2))
    same = popops.mul(A, 2.0, out=QuarterArray(np.zeros(A.size, np.uint8), F143, -2))
    np.testing.assert_array_equal(out.codes, same.codes)


def test_casts_round_between_steps():
    got = popops.map(lambda x: popops.cast(x, "f143") + 0.125, A)
    np.testing.assert_array_equal(got, popops.cast(A, "f143").astype(np.float32) + np.float32(0.125))
    assert popops.map(popops.cast(_1, bool), np.float32([0, -0.0, 2, np.nan])).tolist() == [False, False, True, True]


def test_several_results():
    total, less, above = popops.map((_1 + _2, _1 - _2, _1 > _2), A, B)
    np.testing.assert_array_equal(total, A + B)
    np.testing.assert_array_equal(less, A - B)
    np.testing.assert_array_equal(above, A > B)
    first, second, third = popops.map((_1, popops.square(_1), 2.0), A)  # an operand, and a constant
    np.testing.assert_array_equal(first, A)
    np.testing.assert_array_equal(second, A * A)
    assert (third == 2).all()
    assert not np.may_share_memory(first, A)
    half, wide = popops.map((_1 * 2, _1 * 2), A, out_dtype=("float16", None))
    assert_same_bits(half, (A * 2).astype(np.float16))
    np.testing.assert_array_equal(wide, A * 2)


def test_results_may_take_the_operands_places():
    for places in (lambda x, y: (x, y), lambda x, y: (y, x), lambda x, y: (x[::-1], y)):
        x, y = A.copy(), B.copy()
        out = places(x, y)
        got = popops.map((_1 + _2, _1 * _2 - _1), x, y, out=out)
        assert all(g is o for g, o in zip(got, out, strict=True))
        np.testing.assert_array_equal(got[0], A + B)
        np.testing.assert_array_equal(got[1], A * B - A)
    x = A.copy()
    assert popops.map(_1 * 2 - _1 * _1, x, out=x) is x
    np.testing.assert_array_equal(x, A * 2 - A * A)
    x = A.copy()
    np.testing.assert_array_equal(popops.map(_1 * 2 + 1, x[:-1], out=x[1:]), A[:-1] * 2 + 1)


def test_several_results_are_written_at_the_scales_of_their_arrays():
    out = QuarterArray(np.zeros(A.size, np.uint8), F143, -2), np.zeros(A.size, np.float16)
    assert popops.map((_1 * 2, _1 + 1), A, out=out) == out
    np.testing.assert_array_equal(out[0].codes, popops.cast(A * 2, F143, scale=-2).codes)
    np.testing.assert_array_equal(out[1], (A + 1).astype(np.float16))
    none = np.zeros((0, 3), np.float32)
    assert popops.map((_1, _1 + 1), none, out=(none.copy(), none.copy()))[1].shape == (0, 3)


def test_what_occurs_twice_is_computed_once_and_what_nobody_needs_not_at_all():
    shared = popops.exp(_1 + _2)
    assert shared is popops.exp(_1 + _2)
    assert steps((shared * shared, shared + 1), FP32, FP32).count("exp") == 1
    assert _1 * 1.0 is not _1 * 1
    assert const(0.0) is not const(-0.0)
    assert const(np.nan) is const(np.nan)
    assert steps(popops.select(_1 + 1, popops.exp(_1), True), FP32) == ["add"]


def test_arithmetic_one_after_another_shares_a_kernel():
    for expression in (_1 * _2 + _3, _3 - _1 * _2, _1 * 2 - 3, 1 - _1 * _2, _1 * _2 - _3 * _1, _1 * 2 + _2 * _3,
                       (_1 - _2) * _3, _1 * _2 + _1 * _3, -(_1 * _2) * 2 + _3,
                       popops.relu(_1 * _2 - _3), popops.select(_1 * 2, _3, _1 > _2), popops.select(_1, _3, _1 != _2)):
        assert steps(expression, FP32, FP32, FP32) == ["arithmetic"]
    product = _1 * _2
    assert steps((product, product + _1), FP32, FP32) == ["mul", "add"]
    assert steps(_1 * popops.exp(-(_1 * _1)) + _2, FP32, FP32) == ["arithmetic", "exp", "arithmetic"]
    assert steps((_1 + _2) * (_1 - _2), FP32, FP32) == ["sub", "arithmetic"]
    assert steps(_1 * _2 + _3, FP16, FP16, FP16, rounded=True) == ["mul", "add"]
    assert steps(_1 + 1, FP32) == ["add"]


def test_arithmetic_has_the_bits_of_its_operations():
    rng = np.random.default_rng(5)
    long = _1
    for k in range(40):  # more steps, and more constants, than one kernel takes
        long = long * _2 + k
    for count in (5, 100, 3000):
        a, b, c = (rng.standard_normal(count).astype(np.float32) for _ in range(3))
        due = a
        for k in range(40):
            due = due * b + np.float32(k)
        testing.assert_same_bits(popops.map(long, a, b), due)
        x = a.copy()
        for expression, exact in ((_1 * 2 - _2, a * np.float32(2) - b), (1 - _1 * _2, np.float32(1) - a * b),
                                  (_1 * _2 - _3 * _1, a * b - c * a), (_1 * 2 + _2 * _3, a * np.float32(2) + b * c),
                                  ((_1 * 2 - 3) * _2 - _3, (a * np.float32(2) - np.float32(3)) * b - c)):
            testing.assert_same_bits(popops.map(expression, a, b, c), exact)
        two, three = np.float32(2), np.float32(3)
        testing.assert_same_bits(popops.map((_1 * 2 + _2) - (_1 - _3) * 3, x, b, c, out=x),
                                 (a * two + b) - (a - c) * three)
        choice = popops.select(_1 * _2 + 1, _2 - 3, popops.lteq(_1, 0.5)) * _3
        testing.assert_same_bits(popops.map(choice, a, b, c),
                                 np.where(a <= np.float32(0.5), a * b + np.float32(1), b - three) * c)


@pytest.mark.parametrize(("expression", "relaxed", "found"), [
    (_1 ** 2, False, ["square"]), (_1 ** -1, False, ["inv"]), (_1 ** 1.0, False, ["copy"]), (_1 ** 0.5, False, ["pow"]),
    (_1 ** 0.5, True, ["sqrt"]), (_1 ** -0.5, True, ["rsqrt"]), (_1 * 1, False, ["copy"]), (1 * _1, False, ["copy"]),
    (_1 / 1, False, ["copy"]), (_1 - 0, False, ["copy"]), (_1 - -0.0, False, ["sub"]), (_1 + 0, False, ["add"]),
    (_1 + 0, True, ["copy"]), (_1 + -0.0, False, ["copy"]), (0 - _1, True, ["sub"]),
])  # fmt: skip
def test_rewrites_keep_special_values_unless_relaxed(expression, relaxed, found):
    assert steps(expression, FP32, relaxed=relaxed) == found
    special = np.float32([0, -0.0, 1, -1, 2, -3, INF, -INF, np.nan, 1e-40, 3e38])
    got = popops.map(expression, special, relaxed=relaxed)
    if not relaxed:
        work = {"pow": np.power, "add": np.add, "sub": np.subtract, "mul": np.multiply, "/": np.divide}[expression.op]
        sides = [special if arg is _1 else np.full_like(special, arg.value) for arg in expression.args]
        with np.errstate(all="ignore"):
            due = work(*(np.float64(s) for s in sides)).astype(np.float32)
        np.testing.assert_allclose(got, due, rtol=2.0**-23)
        number = ~np.isnan(due)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(due[number]))


def test_unsigned_quotients_by_powers_of_two():
    x = np.uint32([0, 1, 7, 8, 9, 2**32 - 1])
    assert steps(_1 // 8, np.dtype(np.uint32)) == ["shift_right"]
    assert steps(_1 % 8, np.dtype(np.uint32)) == ["bitwise_and"]
    np.testing.assert_array_equal(popops.map(_1 // 8, x), x // 8)
    np.testing.assert_array_equal(popops.map(_1 % 8, x), x % 8)
    assert steps(_1 // 8, np.dtype(np.int32)) == ["floor_divide"]
    assert steps(_1 >> 0, np.dtype(np.int32)) == ["copy"]


@given(st.data())
def test_integers_are_numpys(data):
    dtype = data.draw(st.sampled_from([np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64]))
    shape = data.draw(strategies.shapes(2, "elementwise", most=40))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    info = np.iinfo(dtype)
    x, y = (rng.integers(info.min, info.max, shape, dtype, endpoint=True) for _ in range(2))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(popops.map((_1 + _2) * 3 - (_1 & _2), x, y), (x + y) * dtype(3) - (x & y))
        np.testing.assert_array_equal(popops.map(popops.select(_1, ~_2, _1 > _2), x, y), np.where(x > y, x, ~y))


def test_threads_change_nothing():
    x, y = (RNG.standard_normal(3 * THREAD_ELEMENTS + 77).astype(np.float16) for _ in range(2))
    expression = popops.tanh(_1 * 3 - _2) * _1
    whole = popops.map(expression, x, y)
    pieces = [popops.map(expression, x[i:i + 1000], y[i:i + 1000]) for i in range(0, x.size, 1000)]
    assert_same_bits(whole, np.concatenate(pieces))


def test_repeated_calls_are_kept_by_the_expressions_structure():
    function = popops.compile_map(lambda x, y: popops.relu(x * 2 + y))
    for _ in range(3):
        function(A, B)
    assert function.kept == 1
    function(A[:5], B[:5])
    assert function.kept == 2
    before = popops.map.kept
    for _ in range(3):
        np.testing.assert_array_equal(popops.map(popops.relu(_1 * 12345 + _2), A, B), np.maximum(A * 12345 + B, 0))
    assert popops.map.kept == before + 1
    with profile() as report:
        popops.map(popops.relu(_1 * 12345 + _2), A, B)
    assert report.runs[0].op == "popops.map"
    assert "arithmetic" in report.runs[0].kernel


def test_a_function_is_traced_in_each_call():
    factor = 2.0

    def scaled(x):
        return x * factor

    np.testing.assert_array_equal(popops.map(scaled, A), A * np.float32(2))
    factor = 3.0
    np.testing.assert_array_equal(popops.map(scaled, A), A * np.float32(3))


def test_expressions_are_texts_and_values():
    expression = popops.cast(popops.relu(_1 * 2 + _2), "float16")
    assert repr(expression) == "cast(relu(add(mul(_1, 2), _2)), float16)"
    assert pickle.loads(pickle.dumps(expression)) is expression
    assert copy.deepcopy(expression) is expression
    op, operands, keywords = decode_call(encode_call("popops.map", (expression, A, B), {}))
    assert (op, operands[0] is expression, keywords) == ("popops.map", True, {})


def test_deep_and_wide_expressions():
    chain = _1
    for k in range(3000):
        chain = chain + float(k % 3)
    assert np.isfinite(popops.map(chain, A)).all()
    wide = const(0.0)
    for k in range(20):
        wide = wide + expr.placeholder(k + 1) * float(k + 1)
    np.testing.assert_allclose(popops.map(wide, *[A] * 20), A * 210, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("expression", "words"), [
    (lambda x: x if x > 0 else -x, "popops.select"),
    (lambda x: list(x), "a loop over an array's elements"),
    (lambda x: x[0], "a slice of an array"),
    (lambda x: np.sum(x), "numpy.add cannot be traced"),
    (lambda x: np.asarray(x), "an expression where an array is asked for"),
    (lambda x: float(x), "an array's values as a number"),
    (lambda x: x + np.ones(3), "arrays are operands of map"),
    (lambda x: "text", "expressions of popops.expr"),
    (lambda x: popops.cast(x, "float16", rounding="stochastic", seed=1), "of popops.cast"),
    (lambda x: popops.exp(x, out=A), "out= of popops.exp"),
    (lambda x: poplin.matmul(x, x), "poplin.matmul cannot be traced"),
    (lambda x: popops.max(x), r"popops.max cannot be traced.* see popops\.maximum"),
    (lambda x: popops.exp(x > 0), "x of exp in the expression"),
    (lambda x: popops.select(x, x, x), "condition of select in the expression"),
    (lambda x: x & 1, "bitwise_and in the expression"),
    (_2, "as _2 is in the expression"),
    ((), "1 to 4"),
    (int, "expression: got the class int"),
    (FP32.__class__, "expression: got the class Format"),
    (3j, "expressions of popops.expr"),
])  # fmt: skip
def test_errors_name_what_cannot_be_traced(expression, words):
    with pytest.raises((InvalidTypeError, InvalidArgumentError, UnsupportedError), match=words.replace("(", r"\(")):
        popops.map(expression, A)


@pytest.mark.parametrize(("arrays", "keywords", "words"), [
    ((A, B[:7]), {}, r"arrays\[1\]: got shape"),
    ((A, B.astype(np.float64)), {}, r"arrays\[1\]: got dtype float64.*astype"),
    ((A, "x"), {}, r"arrays\[1\]"),
    ((A, B), {"out": A[:7]}, "out: got shape"),
    ((A, B), {"out": A.astype(np.int32)}, "out"),
    ((A, B), {"out_dtype": "int32"}, "out_dtype"),
    ((A, B), {"round_each": 3}, "round_each"),
    ((A, B[:1].astype(np.float16)), {"target": "gc200"}, "popops.map of float16 beside other types"),
])  # fmt: skip
def test_bad_arguments_are_named(arrays, keywords, words):
    with pytest.raises((InvalidTypeError, InvalidArgumentError, UnsupportedError), match=words):
        popops.map(_1 + _2, *arrays, **keywords)


def test_bad_outputs_of_several_results():
    both = (_1 + 1, _1 - 1)
    x = A.copy()
    for out, words in (((x,), "2 arrays"), (x, "a tuple of 2 arrays"), ((x, x), r"out\[1\].*share memory"),
                       ((x, x[:3].copy()), r"out\[1\]: got shape")):
        with pytest.raises((InvalidTypeError, InvalidArgumentError), match=words):
            popops.map(both, A, out=out)
    for dtypes in ("float16", (None, "float16")):
        with pytest.raises(InvalidArgumentError, match=r"out\[.\]: got dtype float32.*out_dtype, which is float16"):
            popops.map(both, A, out=(x, x.copy()), out_dtype=dtypes)
    with pytest.raises(InvalidArgumentError, match="out_dtype"):
        popops.map(both, A, out_dtype=("float16",))
    with pytest.raises(InvalidTypeError, match="positional parameters"):
        popops.compile_map(lambda *xs: xs[0])
    assert popops.compile_map(lambda *xs: xs[0] + xs[1], arrays=2)(A, B).shape == A.shape


@pytest.mark.parametrize("scale", [-10, 0, 10])
def test_8_bit_numbers_that_reach_beyond_fp16_are_rounded_to_it_where_each_step_is(scale):
    x = popops.cast(np.linspace(-200, 200, 33, dtype=np.float32) * 2.0**scale, "f143", scale=scale)
    y = np.linspace(-1, 1, 33).astype(np.float16)
    for each in (False, True):
        testing.check("popops.map", _1 * _2 + _1, x, y, round_each=each)
        testing.check("popops.map", _1 * 0.5 + _2, x, y.astype(np.float32), round_each=each)
        testing.check("popops.map", popops.gelu_erf_grad(_1, _1), x, round_each=each)  # of FP32 kernels alone


def test_what_no_bound_is_promised_for_has_none_in_an_expression_either():
    x = np.float16([-np.inf])
    for how in ({}, {"round_each": True}, {"relaxed": True}):
        testing.check("popops.map", popops.gelu_tanh_grad(_1, _2), -x, x, **how)
