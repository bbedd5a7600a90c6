"""What a failing assertion says."""

from fractions import Fraction

import numpy as np
import pytest

from poplibs_py.formats import F143, Format
from poplibs_py.formats.bounds import Ball, matmul_ball
from poplibs_py.testing import assert_same_bits, assert_within_bound, exact_values, values_of


def failure(function, *arguments, **keywords):
    with pytest.raises(AssertionError) as caught:
        function(*arguments, **keywords)
    return str(caught.value).splitlines()


def test_the_worst_comes_first_with_all_that_is_known():
    a, b = np.float16([[1.0, 2.0], [3.0, 4.0]]), np.float16([[1.0], [0.5]])
    ball = matmul_ball(values_of(a), values_of(b))
    got = np.float32([[2.25], [6.0]])
    exact = exact_values(a) @ exact_values(b)
    lines = failure(assert_within_bound, got, ball, exact=exact, kernel_name="dot_broken", reproduce="python again.py")
    assert lines[0] == "2 of 2 results outside their bounds; the worst:"
    assert lines[1].startswith("  [1, 0]: exact 5, rounded 5.0 (0x40a00000), got 6.0 (0x40c00000), 2.09715e+06 ulps, ")
    assert lines[2].startswith("  [0, 0]: exact 2, ")
    assert lines[3:] == ["  kernel: dot_broken", "  again: python again.py"]


def test_few_of_many_failures_are_shown():
    lines = failure(assert_within_bound, np.ones((9, 9), np.float32), Ball(np.zeros((9, 9)), np.zeros(())))
    assert lines[0].startswith("81 of 81")
    assert len(lines) == 6


def test_shapes_must_be_equal():
    lines = failure(assert_within_bound, np.ones(3, np.float32), Ball(np.ones((3, 1)), np.zeros(())))
    assert lines == ["got shape (3,); the exact result has shape (3, 1)"]


def test_specials_are_shown_by_name():
    got = np.float16([np.nan, 1.0, np.inf])
    lines = failure(assert_within_bound, got, Ball(np.array([1.0, np.nan, -np.inf]), np.zeros(())))
    assert "exact 1, rounded 1.0 (0x3c00), got nan (0x7e00), inf ulps" in lines[1]
    assert "exact nan, rounded nan (0x7e00), got 1.0 (0x3c00), inf ulps" in lines[2]
    assert "exact -inf, rounded -inf (0xfc00), got inf (0x7c00), inf ulps" in lines[3]


def test_codes_of_a_custom_format_are_shown_as_such():
    tiny = Format("e3m2", 3, 2, bias=3)
    lines = failure(assert_within_bound, np.uint8([0x0C]), Ball(np.array([1.3]), np.array([0.1])), dtype=tiny)
    assert "exact 1.3, rounded 1.25 (0x0d), got 1.0 (0x0c), 1.2 ulps" in lines[1]


def test_a_fraction_is_rounded_as_it_is():
    third = np.array([Fraction(1, 3)], object)
    lines = failure(assert_within_bound, np.float32([1.0]), Ball(np.array([1 / 3]), np.zeros(())), exact=third)
    assert "rounded 0.3333333432674408 (0x3eaaaaab)" in lines[1]


def test_same_bits_tells_zeros_apart_and_nans_not():
    assert_same_bits(np.float32([np.nan, 1.0]), np.float32([-np.nan, 1.0]))
    lines = failure(assert_same_bits, np.float32([1.0, 0.0]), np.float32([1.0, -0.0]), kernel_name="k")
    assert lines[0] == "1 of 2 results differ; the first:"
    assert "[1]: want -0.0 (0x80000000), got 0.0 (0x00000000)" in lines[1]
    assert lines[-1] == "  kernel: k"
    with pytest.raises(TypeError, match="want"):
        assert_same_bits(np.float32([1.0]), np.float64([1.0]))
    assert_same_bits(np.uint8([1]), np.uint8([1]), dtype=F143)
