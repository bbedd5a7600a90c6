"""Balls hold every result that a correct machine may give, and refuse the one beyond."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.formats import BF16, E4M3, F143, FP16, FP32, Format
from poplibs_py.formats.bounds import Ball, gamma, matmul_ball, rounding_error, sum_ball

codes = st.integers(0, 2**16 - 1)


def halves(codes):
    return np.array(codes, np.uint16).view(np.float16)


def sums_in_every_order(terms):
    """All sums of a few halves by halves, pairings too."""
    if len(terms) == 1:
        return {terms[0].tobytes()}
    found = set()
    with np.errstate(all="ignore"):
        for i, j in itertools.combinations(range(len(terms)), 2):
            rest = [t for k, t in enumerate(terms) if k not in (i, j)]
            found |= sums_in_every_order([*rest, np.float16(terms[i] + terms[j])])
    return found


@given(st.lists(codes, min_size=1, max_size=5))
def test_a_sum_of_any_halves_in_any_order_is_in_its_ball(numbers):
    terms = halves(numbers)
    values = terms.astype(np.float64)
    with np.errstate(all="ignore"):
        magnitude = np.abs(values[np.isfinite(values)]).sum()
        ball = sum_ball(values.sum(), magnitude, len(terms), FP16)
    for result in sums_in_every_order(list(terms)):
        assert ball.contains(np.frombuffer(result, np.float16)).all()


@given(st.lists(codes, min_size=1, max_size=8), st.lists(codes, min_size=8, max_size=8))
def test_a_dot_product_of_any_halves_in_halves_is_in_its_ball(left, right):
    a, b = halves(left), halves(right[: len(left)])
    total = np.float16(0)
    with np.errstate(all="ignore"):
        for x, y in zip(a, b, strict=True):
            total = np.float16(total + np.float16(x * y))
    ball = matmul_ball(a[None, :].astype(float), b[:, None].astype(float), FP16, terms=len(left) + 1)
    assert ball.contains([[total]]).all()


def test_the_sum_that_loses_most_nearly_fills_its_ball():
    n = 100
    terms = np.array([1.0] + [2.0**-11] * n, np.float16)  # every addition rounds the small term away
    total = np.float16(0)
    for term in terms:
        total = np.float16(total + term)
    ball = sum_ball(terms.astype(float).sum(), terms.astype(float).sum(), n + 1, FP16)
    error = abs(float(total) - ball.centre)
    assert error == n * 2.0**-11
    assert 0.8 * ball.radius < error <= ball.radius


@pytest.mark.parametrize("fmt", [FP16, BF16, F143, E4M3], ids=str)
def test_every_rounding_is_within_half_a_unit(fmt):
    codes = np.arange(2**fmt.bits).astype(fmt.code_dtype)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        numbers = np.unique(codes.view(fmt.dtype).astype(np.float64))
    numbers = numbers[np.isfinite(numbers)]
    middles = (numbers[1:] + numbers[:-1]) / 2
    nearest = np.abs(middles.astype(np.float32).astype(fmt.dtype).astype(np.float64) - middles)
    exact = middles.astype(np.float32) == middles
    assert (nearest <= rounding_error(middles, fmt))[exact].all()
    # a middle is as far from its neighbours as rounding can take it, except across a power of two
    assert ((numbers[1:] - numbers[:-1]) / 2 <= rounding_error(middles, fmt)).all()


def test_a_wrong_last_bit_is_outside():
    ball = (Ball.exact(1.0) + Ball.exact(2.0**-11)).rounded(FP16)
    assert ball.contains(1.0)
    assert ball.contains(1.0 + 2.0**-10)
    assert not ball.contains(1.0 + 2.0**-9)
    assert not ball.contains(1.0 - 2.0**-10)


def test_infinities_and_nans_are_demanded_by_name():
    balls = Ball.exact([np.inf, -np.inf, np.nan, 1e6]).rounded(FP16)
    assert balls.contains([np.inf, -np.inf, np.nan, np.inf]).all()
    assert not balls.contains([-np.inf, np.inf, np.inf, 65504.0]).any()


def test_an_infinity_times_what_may_have_become_zero_is_anything():
    tiny = Ball.exact([2.0**-160, 0.0, 1.0]).rounded(FP32)
    assert (tiny * np.inf).contains([np.nan, np.nan, np.inf]).all()
    assert not (Ball.exact(np.inf) * tiny[2]).contains(np.nan)


def test_where_a_format_has_no_nan_infinities_are_its_largest_numbers_and_nan_is_a_zero():
    six = Format("six", 3, 2, 3, "finite")
    balls = Ball.exact([np.inf, -np.inf, np.nan, 1.0]).rounded(six)
    assert balls.contains([six.max, -six.max, -0.0, 1.0]).all()
    assert not balls.contains([np.inf, 0.0, np.nan, 2.0]).any()


@pytest.mark.parametrize(("overflow", "due"), [("inf", np.inf), ("nan", np.nan), ("saturate", 65504.0)])
def test_overflow_is_what_was_asked_for(overflow, due):
    ball = Ball.exact(1e6).rounded(FP16, overflow=overflow)
    assert ball.contains(due)
    assert not ball.contains(-65504.0)


def test_toward_zero_nothing_short_of_the_next_number_overflows():
    ball = Ball.exact([65519.0, 65535.0, 65537.0]).rounded(FP16, "toward-zero", "inf")
    assert ball.contains([65504.0, 65504.0, np.inf]).all()
    assert not ball.contains([0.0, 0.0, 65504.0])[2]


def test_nothing_is_promised_where_partial_sums_may_overflow():
    ball = matmul_ball([[2.0**15, 2.0**15, -(2.0**15)]], [[1.0], [1.0], [1.0]], FP16)
    assert ball.contains([[np.inf]]).all()
    assert matmul_ball([[2.0**15]], [[1.0]], FP16).contains([[2.0**15]]).all()
    assert not matmul_ball([[2.0**15]], [[1.0]], FP16).contains([[2.0**14]]).any()


def test_a_unit_that_flushes_may_lose_subnormals_and_nothing_else():
    tiny = 2.0**-130
    arguments = np.array([[tiny, 1.0]]), np.array([[2.0**20], [1.0]])
    assert matmul_ball(*arguments, FP32, flushes=True).contains([[1.0]]).all()
    strict = np.array([[tiny]]), np.array([[2.0**20]])
    assert matmul_ball(*strict, FP32, flushes=True).contains([[0.0]]).all()
    assert not matmul_ball(*strict, FP32).contains([[0.0]]).any()


def test_gamma_promises_nothing_for_too_many_terms():
    assert gamma(2**11, FP16.unit_roundoff) == np.inf
    assert np.isinf(matmul_ball(np.ones((1, 2048)), np.ones((2048, 1)), FP16).radius).all()


@given(st.floats(-100, 100), st.floats(0, 3), st.floats(-100, 100), st.floats(0, 3), st.floats(-1, 1), st.floats(-1, 1))
def test_sums_and_products_of_balls_hold_those_of_their_members(x, rx, y, ry, s, t):
    left, right = Ball(np.array(x), np.array(rx)), Ball(np.array(y), np.array(ry))
    a, b = x + s * rx, y + t * ry
    assert (left + right).contains(a + b)
    assert (left - right).contains(a - b)
    assert (left * right).contains(a * b)
    assert left.mapped(lambda v: np.maximum(v, 0), lipschitz=1).contains(max(a, 0.0))


def test_formats_of_a_users_own_have_bounds_too():
    tiny = Format("e3m2", 3, 2, bias=3)
    assert rounding_error(1.0, tiny) == 0.125
    assert Ball.exact(1.1).rounded(tiny).contains(1.0)
