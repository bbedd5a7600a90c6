"""Gradients of non-linearities are the derivatives, by complex steps; PopNN's names are PopOps' operations."""

import numpy as np
import pytest
from scipy.special import erf

from poplibs_py import popnn, popops, testing

STEP = 1e-150


def logistic(x):
    return 1 / (1 + np.exp(-x))


def positive(x):
    return x.real > 0


COMPLEX = {
    "sigmoid": logistic, "tanh": np.tanh, "relu": lambda x: np.where(positive(x), x, 0),
    "silu": lambda x: x * logistic(x), "gelu_erf": lambda x: x / 2 * (1 + erf(x / np.sqrt(2))),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "leaky_relu": lambda x: np.where(positive(x), x, 0.01 * x),
    "elu": lambda x: np.where(positive(x), x, np.exp(x) - 1),
    "selu": lambda x: 1.0507009873554805 * np.where(positive(x), x, 1.6732632423543772 * (np.exp(x) - 1)),
    "softplus": lambda x: np.log(1 + np.exp(x)), "mish": lambda x: x * np.tanh(np.log(1 + np.exp(x))),
    "hard_sigmoid": lambda x: np.where(abs(x.real) < 2.5, 0.2 * x + 0.5, positive(x)),
    "hard_swish": lambda x: np.where(abs(x.real) < 3, x * (x + 3) / 6, np.where(positive(x), x, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_a_gradient_is_the_derivative(name):
    x = np.random.default_rng(3).uniform(-6, 6, 500).astype(np.float32)
    derivative = COMPLEX[name](x.astype(np.complex128) + STEP * 1j).imag / STEP
    ball = testing.bound(f"popops.{name}_grad", 1.0, x)
    assert ball.contains(derivative).all()
    assert ball.contains(getattr(popops, f"{name}_grad")(1.0, x)).all()


def test_names_of_popnn_are_operations_of_popops():
    assert popnn.gelu is popops.gelu_tanh
    assert popnn.swish is popops.silu
    assert popnn.prelu is popops.leaky_relu
    x, slopes = np.float32([[[-1, 2]], [[-4, 8]]]), np.float32([0.5, 0.25]).reshape(2, 1, 1)
    np.testing.assert_array_equal(popnn.prelu(x, slopes), [[[-0.5, 2]], [[-1, 8]]])
    np.testing.assert_array_equal(popnn.prelu_slope_grad(1.0, x), [[[-1, 0]], [[-4, 0]]])


def test_the_host_models_gradient_of_gelu_differs_by_as_much_as_is_said():
    x = np.linspace(-6, 6, 1001).astype(np.float32)
    apart = abs(popnn.gelu_grad(1.0, x) - popnn.gelu_grad(1.0, x, poplibs_exact=True)).max()
    assert 8.2e-4 < apart < 8.4e-4
