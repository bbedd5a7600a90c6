"""Scaled sums: within their bounds, in place, with scales that are numbers or arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from poplibs_py import popops, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.testing import assert_same_bits
from poplibs_py.testing.calls import calls

RNG = np.random.default_rng(4)
A, B = (RNG.standard_normal(3000).astype(np.float32) for _ in range(2))


@pytest.mark.parametrize("op", ["popops.scaled_add", "popops.scaled_subtract", "popops.x_minus_ax_plus_by"])
def test_calls_are_within_their_bound(op):
    @given(calls(op))
    def check(call):
        operands, keywords = call
        testing.check(op, *operands, **keywords)

    check()


def test_forms():
    half, quarter = np.float32(0.5), np.float32(0.25)
    np.testing.assert_array_equal(popops.scaled_add(A, B), A + B)
    np.testing.assert_array_equal(popops.scaled_add(A, B, 0.5), A + half * B)
    np.testing.assert_array_equal(popops.scaled_subtract(A, B, 0.5, scale_a=0.25), quarter * A - half * B)
    np.testing.assert_array_equal(popops.x_minus_ax_plus_by(A, B, 0.25, 0.5), (A - quarter * A) + half * B)


def test_the_result_is_of_the_first_operands_type_rounded_once():
    x, y = A.astype(np.float16), B
    out = popops.scaled_add(x, y, 0.1)
    assert_same_bits(out, (x.astype(np.float32) + np.float32(0.1) * y).astype(np.float16))
    assert popops.scaled_add(x, y, 0.1, out=x) is x
    assert_same_bits(x, out)
    assert popops.scaled_add(popops.cast(A, "f143"), B, 1).dtype == np.float16


def test_a_scale_in_an_array_changes_without_another_program():
    scale = np.float32([0.5])
    first = popops.scaled_add(A, B, scale)
    before = popops.scaled_add.kept
    scale[0] = 2
    np.testing.assert_array_equal(popops.scaled_add(A, B, scale), A + 2 * B)
    np.testing.assert_array_equal(first, A + np.float32(0.5) * B)
    assert popops.scaled_add.kept == before


def test_integers_wrap_and_take_whole_scales():
    x, y = np.int32([2**31 - 1, 5]), np.int32([1, 7])
    assert popops.scaled_add(x, y, 1).tolist() == [-(2**31), 12]
    assert popops.scaled_subtract(x, y, 3, scale_a=2).tolist() == [-5, -11]
    with pytest.raises(InvalidTypeError, match=r"scale: got 0\.5"):
        popops.scaled_add(x, y, 0.5)


@pytest.mark.parametrize("name", ["scale", "scale_a"])
@pytest.mark.parametrize(("bad", "error"), [pytest.param(10**400, InvalidArgumentError, id="huge"),
                                            (np.complex64(1), InvalidTypeError), (np.str_("1"), InvalidTypeError)])
def test_a_scale_that_is_no_number_is_named(name, bad, error):
    x = np.ones(4, np.float32)
    with pytest.raises(error, match=f"^{name}: got"):
        popops.scaled_add(x, x, **{"scale": 1.0, name: bad})
