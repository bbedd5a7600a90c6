"""Spatial softmax: places that are known, each map by itself, the derivative by complex steps; bad input."""

import re

import numpy as np
import pytest

from poplibs_py import poplin, popnn, popops, profile, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import QuarterArray

RNG = np.random.default_rng(8)
X = RNG.standard_normal((3, 4, 5)).astype(np.float32)


def test_a_peak_is_where_it_is_and_maps_are_apart():
    x = np.zeros((3, 3, 5), np.float32)
    x[0, 2, 1] = x[1, 0, 4] = 300
    made = popnn.spatial_softmax_2d(x, 2.0)
    np.testing.assert_array_equal(made[:2], [[1, -0.5], [-1, 1]])
    np.testing.assert_allclose(made[2], 0, atol=15 * 2.0**-24)  # fifteen places of equal weight, added in any order
    np.testing.assert_array_equal(popnn.spatial_softmax_2d(x[1:]), popnn.spatial_softmax_2d(x)[1:])
    weights = RNG.integers(0, 3, (2, 3, 3)).astype(np.float16)
    rows = weights[:, 2].sum(1) - weights[:, 0].sum(1)
    columns = weights[..., 2].sum(1) - weights[..., 0].sum(1)
    made = popnn.spatial_softmax_2d(weights, disable_softmax=True)
    assert made.dtype == np.float16
    np.testing.assert_array_equal(made, np.stack([rows, columns], 1))
    np.testing.assert_array_equal(popnn.spatial_softmax_2d(np.ones((2, 1, 1), np.float32)), np.zeros((2, 2)))


def test_it_is_softmax_and_a_product():
    """Each step within its own bound of the one before."""
    y = popnn.softmax(X.reshape(3, -1), scale=1 / 1.5)
    places = np.stack(np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 5), indexing="ij"), -1).reshape(-1, 2)
    ball = testing.bound("poplin.matmul", y, places.astype(np.float32))
    assert ball.contains(popnn.spatial_softmax_2d(X, 1.5)).all()


def test_gradients_are_the_derivatives():
    grad = RNG.standard_normal((3, 2)).astype(np.float32)
    places = np.stack(np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 5), indexing="ij"), -1)

    def mean_places(x, temperature):
        power = np.exp(x / temperature)
        return np.einsum("fhw,hwk->fk", power / power.sum((1, 2), keepdims=True), places)

    made = popnn.spatial_softmax_2d_grad(grad, X, 1.5)
    y = testing.bound("popnn.softmax", X.reshape(3, -1), scale=1 / 1.5)
    g = testing.bound("poplin.matmul", grad, places.reshape(-1, 2).T.astype(np.float32))
    p, size = y.centre + y.radius, np.abs(g.centre) + g.radius
    carried = p * (g.radius + (p * g.radius).sum(1, keepdims=True) + (size * y.radius).sum(1, keepdims=True))
    carried += y.radius * (size + (size * p).sum(1, keepdims=True))
    last = testing.bound("popnn.softmax_grad", g.centre.astype(np.float32), y.centre.astype(np.float32), scale=1 / 1.5)
    radius = (last.radius + carried).reshape(X.shape)
    for place in [(0, 0, 0), (2, 3, 4), (1, 2, 1)]:
        moved = X.astype(complex)
        moved[place] += 1e-150j
        due = (grad * mean_places(moved, 1.5).imag).sum() / 1e-150
        assert abs(due - made.x_grad[place]) <= radius[place]
    due = (grad * mean_places(X.astype(complex), 1.5 + 1e-150j).imag).sum() / 1e-150
    assert abs(due - made.temperature_grad) <= (radius * np.abs(X)).sum() + X.size * np.spacing(made.temperature_grad)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: popnn.spatial_softmax_2d(X[0]), InvalidArgumentError, "x: got shape (4, 5); allowed: maps [F, H, W]"),
    (lambda: popnn.spatial_softmax_2d(X, 0.0), InvalidArgumentError, "temperature: got 0.0"),
    (lambda: popnn.spatial_softmax_2d(X.astype(float)), InvalidTypeError, "x: got dtype float64"),
    (lambda: popnn.spatial_softmax_2d_grad(X[0], X), InvalidArgumentError, "grad: got shape (4, 5)"),
    (lambda: popnn.spatial_softmax_2d(X, out_dtype="e4m3"), InvalidArgumentError, "out_dtype: got e4m3"),
])  # fmt: skip
def test_bad_input_is_refused_by_name(call, error, words):
    with pytest.raises(error, match="^" + re.escape(words)):
        call()


def test_no_maps_have_no_places():
    for shape in ((0, 4, 4), (0, 0, 3)):
        assert popnn.spatial_softmax_2d(np.zeros(shape, np.float32)).shape == (0, 2)
        made = popnn.spatial_softmax_2d_grad(np.zeros((0, 2), np.float32), np.zeros(shape, np.float32))
        assert made.x_grad.shape == shape


def test_each_is_one_program_with_the_bits_of_its_steps():
    grad, by = RNG.standard_normal((3, 2)).astype(np.float16), 1 / 1.5
    rows, columns = (np.linspace(-1, 1, n) for n in (4, 5))
    places = np.stack(np.meshgrid(rows, columns, indexing="ij"), -1).reshape(-1, 2).astype(np.float32)
    y = popnn.softmax(X.reshape(3, -1), scale=by)
    g = poplin.matmul(grad.astype(np.float32), places.T)
    terms = popops.mul(popnn.softmax_grad(g, y), X.reshape(3, -1))
    due = [poplin.matmul(y, places), popnn.softmax_grad(g, y, scale=by).reshape(X.shape),
           np.float32(-float(popops.sum(terms)) * by * by)]
    outs = np.empty_like(X[::-1]), np.empty((), np.float32)
    for _ in range(3):
        made = [popnn.spatial_softmax_2d(X, 1.5), *popnn.spatial_softmax_2d_grad(grad, X, 1.5)]
        written = popnn.spatial_softmax_2d_grad(grad, X, 1.5, out=outs)
        assert [x.tobytes() for x in (made[0], *written)] == [x.tobytes() for x in made] == [x.tobytes() for x in due]
    assert written.x_grad is outs[0]
    with profile() as report:
        popnn.spatial_softmax_2d_grad(grad, X, 1.5)
    assert [run.op for run in report.runs] == ["popnn.spatial_softmax_2d_grad"]


def test_numbers_with_a_scale_are_those_that_they_stand_for():
    x = QuarterArray.from_array(X, "f143", scale=2)
    grad = QuarterArray.from_array([[1.0, 0.0]] * 3, "f143", scale=-1)
    for made, due in zip((popnn.spatial_softmax_2d(x), *popnn.spatial_softmax_2d_grad(grad, x)),
                         (popnn.spatial_softmax_2d(x.to_array()),
                          *popnn.spatial_softmax_2d_grad(grad.to_array(), x.to_array())), strict=True):
        np.testing.assert_allclose(made.astype(np.float32), due, atol=2.0**-11)
