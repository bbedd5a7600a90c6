"""The checks of numbers: any scalar of NumPy is compared as Python's number of the same value, without a warning."""

from __future__ import annotations

import itertools
import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import poplin, popops
from poplibs_py.checks import finite, real, whole
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import FORMATS

FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
INTEGERS = [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64]
BOUNDS = [0, 1, -1, 0.5, 65504, 1e300, -1e300, 2**31, 2**62, 2**64, 10**300, sys.float_info.max, -sys.float_info.max]


def scalars() -> list[Any]:
    """Numbers of every type of NumPy's, the ends of each among them."""
    found: list[Any] = []
    for kind in FLOATS:
        info = np.finfo(kind)
        found += [kind(x) for x in ("0", "-0", "0.25", "3", "-1", "nan", "inf", "-inf")]
        found += [info.max, info.min, info.tiny, info.smallest_subnormal]
    for kind in INTEGERS:
        found += [kind(3), kind(0), kind(np.iinfo(kind).max), kind(np.iinfo(kind).min)]
    return found


def within(number: float, low: float, high: float) -> bool:
    """What a check must find, in exact arithmetic."""
    return math.isfinite(number) and Fraction(low) <= Fraction(number) <= Fraction(high)


@pytest.mark.parametrize("value", scalars(), ids=lambda v: f"{type(v).__name__}({v})")
def test_any_scalar_against_any_bounds(value: Any) -> None:
    due = float(value)
    assert real("x", value) == due or math.isnan(due)
    for low, high in itertools.product(BOUNDS, BOUNDS):
        if within(due, low, high):
            made = real("x", value, "a number in between", low, high)
            assert type(made) is float
            assert made == due
        else:
            with pytest.raises(InvalidArgumentError, match=r"^x: got .*; allowed: a number in between$"):
                real("x", value, "a number in between", low, high)


@given(st.sampled_from([np.float16, np.float32, np.float64]), st.floats(), st.integers() | st.floats(allow_nan=False),
       st.integers(0, 2**1030))
def test_bounds_of_any_size(kind: Any, number: float, low: Any, span: int) -> None:
    with np.errstate(over="ignore", under="ignore"):
        value = kind(number)
    if isinstance(low, float) and math.isinf(low):
        low = math.copysign(sys.float_info.max, low)
    high = int(low) + span
    if within(float(value), low, high):
        assert real("x", value, low=low, high=high) == number or kind is not np.float64
    else:
        with pytest.raises(InvalidArgumentError, match=r"^x: got"):
            real("x", value, low=low, high=high)


@pytest.mark.parametrize("value", [10**400, -(10**400), 2**1024])
def test_numbers_beyond_every_float_are_refused(value: int) -> None:
    for bounds in ((), (0,), (0, 10**500)):
        with pytest.raises(InvalidArgumentError, match=r"^x: got -?\d+\.\.\.\d+; allowed: a number$"):
            real("x", value, "a number", *bounds)


@pytest.mark.parametrize("kind", INTEGERS)
def test_whole_numbers_of_any_type_against_any_bounds(kind: Any) -> None:
    for value, (low, high) in itertools.product((kind(3), kind(np.iinfo(kind).max)),
                                                ((0, 2**400), (-(2**400), 3), (0, 127), (2**64, 2**65))):
        if low <= int(value) <= high:
            assert whole("x", value, low, high) == int(value)
            assert type(whole("x", value, low, high)) is int
        else:
            with pytest.raises(InvalidArgumentError, match=rf"^x: got {value}; allowed: a whole number from {low} to"):
                whole("x", value, low, high)


def test_a_whole_number_may_have_a_bound_below_alone() -> None:
    assert whole("x", 2**70, 1) == 2**70
    with pytest.raises(InvalidArgumentError, match=r"^x: got 0; allowed: a whole number, 1 or more$"):
        whole("x", 0, 1)


@pytest.mark.parametrize("value", [True, np.bool_(1), None, "1", b"1", 1j, np.complex64(1), [1], np.ones(1), object])
def test_what_is_no_number_is_refused_by_its_type(value: Any) -> None:
    for check in (lambda: real("x", value), lambda: real("x", value, low=0), lambda: whole("x", value, 0, 9)):
        with pytest.raises(InvalidTypeError, match=r"^x: got"):
            check()


@pytest.mark.parametrize("fmt", [f for f in FORMATS if f.dtype is not None], ids=str)
def test_a_scalar_of_any_format_is_a_number(fmt: Any) -> None:
    ones = np.ones((2, 2), np.float32)
    for number in (0.25, 1.5, -0.75):
        value = fmt.dtype.type(number)
        assert real("x", value) == finite("x", value) == number
        assert (poplin.matmul(ones, ones, alpha=value) == 2 * number).all()
        assert (popops.scaled_add(ones, ones, value) == 1 + number).all()


@pytest.mark.parametrize("value", [np.float16(3), np.float32(3), np.float64(3), 3.0, Fraction(3)])
def test_a_real_number_is_no_whole_one(value: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^x: got .*; allowed: a whole number from 0 to 9$"):
        whole("x", value, 0, 9)
