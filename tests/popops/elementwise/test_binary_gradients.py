"""Gradients of operations of two and three numbers: derivatives of what NumPy computes, ties, bounds and NaN."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import popops

STEP = 1e-150
NUMBERS = st.floats(0.25, 4, width=32)


def by_complex_step(function, operands):
    """The derivative with respect to each operand, to the last bits of float64."""
    for place in range(len(operands)):
        moved = [complex(x, STEP * (i == place)) for i, x in enumerate(operands)]
        yield function(*moved).imag / STEP


@pytest.mark.parametrize(("op", "function"), [
    ("mul", lambda a, b: a * b), ("div", lambda a, b: a / b), ("pow", lambda a, b: np.exp(b * np.log(a))),
    ("atan2", lambda a, b: np.arctan(a / b)), ("maximum", lambda a, b: a if a.real > b.real else b),
    ("minimum", lambda a, b: a if a.real < b.real else b), ("fmax", lambda a, b: a if a.real > b.real else b),
    ("fmin", lambda a, b: a if a.real < b.real else b)])
@given(a=NUMBERS, b=NUMBERS, grad=NUMBERS)
def test_they_are_the_derivatives(op, function, a, b, grad):
    got = getattr(popops, f"{op}_grad")(np.float32(grad), np.float32(a), np.float32(b))
    ball = getattr(popops.maps.gradients, f"{op}_grad_bound")(np.float32(grad), np.float32(a), np.float32(b))
    if op[-3:] in ("max", "mum", "min") and a == b:
        assert got == (grad / 2, grad / 2)
        return
    for part, due, of_part in zip(got, by_complex_step(function, (a, b)), ball, strict=True):
        assert abs(part - grad * due) <= of_part.radius + 1e-12 * abs(due)


def test_nothing_is_lost_of_what_comes_back():
    x = np.float32([-np.inf, -2, -1, 0, 1, 1.5, np.inf, np.nan])
    for low, high in ((-1, 1), (1, -1), (np.nan, 1), (-1, np.nan)):
        parts = popops.clamp_grad(np.float32(3), x, np.float32(low), np.float32(high))
        assert (sum(parts) == 3).all()
        found = popops.clamp(x, np.float32(low), np.float32(high))
        for part, operand in zip(parts, (x, low, high), strict=True):
            assert np.array_equal(found[part == 3], np.broadcast_to(np.float32(operand), 8)[part == 3], equal_nan=True)
    whole = popops.select_grad(x, x > 0)
    np.testing.assert_array_equal(popops.select(*whole, x > 0), x)


def test_nan_and_zero():
    nan, one = np.float32([np.nan, 1, np.nan]), np.float32([1, np.nan, np.nan])
    assert [part.tolist() for part in popops.fmax_grad(1.0, nan, one)] == [[0, 1, 0], [1, 0, 0]]
    assert [part.tolist() for part in popops.maximum_grad(1.0, nan, one)] == [[0, 0, 0], [0, 0, 0]]
    of_a, of_b = popops.pow_grad(1.0, np.float32([0, 0, 0, 2]), np.float32([0, 2, -1, 0]))
    assert of_a.tolist() == [0, 0, -np.inf, 0]
    assert of_b.tolist() == [0, 0, 0, np.float32(np.log(2))]
