"""Distances in units in the last place, every code of the small formats and any of the large."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.formats import BF16, E4M3, E5M2, F143, F152, FP16
from poplibs_py.formats.bounds import Ball
from poplibs_py.testing import codes_of, error_over_bound, strategies, ulp, ulp_distance, ulp_error, values_of

FORMATS = [FP16, BF16, F143, F152, E4M3, E5M2]


def numbers_in_order(fmt):
    codes = np.arange(1 << fmt.bits).astype(fmt.code_dtype)
    values = values_of(codes, fmt)
    codes, values = codes[~np.isnan(values)], values[~np.isnan(values)]
    return codes[np.argsort(values, kind="stable")], np.sort(values)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_neighbours_are_one_apart(fmt):
    codes, values = numbers_in_order(fmt)
    apart = ulp_distance(codes[1:], codes[:-1], fmt)
    assert np.array_equal(apart, (values[1:] != values[:-1]).astype(float))  # the two zeros are equal


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_a_ulp_is_the_gap_to_the_next_number_away_from_zero(fmt):
    _, values = numbers_in_order(fmt)
    values = np.unique(values[np.isfinite(values) & (values >= 0)])
    assert np.array_equal(ulp(values[:-1], fmt), np.diff(values))


@given(st.data())
def test_distance_is_a_metric(data):
    fmt = data.draw(strategies.formats(custom=True))
    a, b, c = (np.array([data.draw(strategies.codes(fmt, finite=True))], fmt.code_dtype) for _ in range(3))
    assert ulp_distance(a, b, fmt) == ulp_distance(b, a, fmt)
    assert ulp_distance(a, c, fmt) <= ulp_distance(a, b, fmt) + ulp_distance(b, c, fmt)
    assert (ulp_distance(a, b, fmt) == 0) == (values_of(a, fmt) == values_of(b, fmt))


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_nans_are_together_and_apart_from_numbers(fmt):
    nan, one = np.array([fmt.nan_code], fmt.code_dtype), np.array([fmt.bias << fmt.mantissa_bits], fmt.code_dtype)
    assert ulp_distance(nan, nan, fmt) == 0
    assert ulp_distance(nan, one, fmt) == np.inf
    assert ulp_error(nan, [1.0], fmt) == np.inf
    assert ulp_error(one, [np.inf], fmt) == np.inf
    assert ulp_error(nan, [np.nan], fmt) == 0


@given(st.data())
def test_correct_rounding_is_half_a_ulp_at_most(data):
    fmt = data.draw(st.sampled_from([FP16, BF16]))
    value = data.draw(st.floats(-60000, 60000, width=32))
    assert ulp_error(np.float32([value]).astype(fmt.dtype), [value]) <= 0.5


def test_codes_of_another_format_are_refused():
    with pytest.raises(TypeError, match=r"array: got .*; allowed: the dtype of float16"):
        codes_of(np.ones(1, np.float32), FP16)


def test_error_over_bound_tells_specials_from_numbers():
    ball = Ball(np.array([1.0, 1.0, np.inf, np.nan, np.inf, 1.0]), np.array([0.5, np.inf, 0, 0, 0, 0.5]))
    got = np.float32([2.0, np.nan, np.inf, np.nan, -np.inf, np.nan])
    assert error_over_bound(got, ball).tolist() == [2.0, 0.0, 0.0, 0.0, np.inf, np.inf]
