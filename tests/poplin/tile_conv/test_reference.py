"""The float64 reference against PopLibs' own host model, and against the definition, element by element."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings

from poplibs_py.poplin.tile_conv import ConvParams
from poplibs_py.poplin.tile_conv.reference import (
    reference_convolution,
    reference_input_gradient,
    reference_weight_gradient,
)

from .golden_cases import value_cases
from .strategies import convolutions


@pytest.mark.parametrize(("run", "case"), value_cases())
def test_the_original_computes_the_same(run, case) -> None:
    params = run(case)
    x, w, grad = case["x"], case["weights"], case["out_grad"]
    bias = case["biases"].reshape(-1, *(1,) * params.ndim)
    assert_near = np.testing.assert_array_equal if case.exact else _near
    assert_near(reference_convolution(x, w, params) + bias, case["out"])
    assert_near(reference_input_gradient(grad, w, params), case["in_grad"])
    if "weight_deltas" in case.spec["outputs"]:
        assert_near(reference_weight_gradient(x, grad, params), case["weight_deltas"])


def _near(made, golden):
    np.testing.assert_allclose(made, golden, rtol=1e-12, atol=1e-12 * np.abs(golden).max())


def _by_definition(x, w, params: ConvParams):
    """Every output, kernel element and channel in a loop of its own; the gradients beside it."""
    out = np.zeros((params.batch, params.groups, params.out_channels, *params.output_shape))
    grad = np.arange(out.size, dtype=np.float64).reshape(out.shape) % 5 - 2
    dx, dw = np.zeros(x.shape), np.zeros(w.shape)
    for place in itertools.product(*(range(a.out) for a in params.axes)):
        for k in itertools.product(*(range(a.kernel) for a in params.axes)):
            met = [a.input_index(o, e) for a, o, e in zip(params.axes, place, k, strict=True)]
            if None in met:
                continue
            for g in range(params.groups):
                channels = slice(g * params.in_channels, (g + 1) * params.in_channels)
                given, weights, at = (x[(slice(None), channels, *met)], w[(g, slice(None), slice(None), *k)],
                                      (slice(None), g, slice(None), *place))
                out[at] += given @ weights.T
                dx[(slice(None), channels, *met)] += grad[at] @ weights
                dw[(g, slice(None), slice(None), *k)] += grad[at].T @ given
    flat = (params.batch, params.groups * params.out_channels, *params.output_shape)
    return out.reshape(flat), grad.reshape(flat), dx, dw


@given(convolutions(any_transform=True))
@settings(max_examples=examples(60))
def test_every_transform_by_its_definition(params: ConvParams) -> None:
    params = params.replace(in_channels=min(params.in_channels, 3), out_channels=min(params.out_channels, 3))
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (params.batch, params.groups * params.in_channels, *params.field_shape))
    w = rng.integers(-4, 5, (params.groups, params.out_channels, params.in_channels, *params.kernel_shape))
    x, w = x.astype(np.float32), w.astype(np.float32)
    out, grad, dx, dw = _by_definition(x, w, params)
    np.testing.assert_array_equal(reference_convolution(x, w, params), out)
    grad = grad.astype(np.float32)
    np.testing.assert_array_equal(reference_input_gradient(grad, w, params), dx)
    np.testing.assert_array_equal(reference_weight_gradient(x, grad, params), dw)
    # the other passes' params describe the same convolutions
    turned = np.flip(w.swapaxes(1, 2), axis=tuple(range(3, w.ndim)))
    np.testing.assert_array_equal(reference_convolution(grad, turned, params.gradient()), dx)
    split = (params.batch, params.groups, -1)
    given = x.reshape(*split, *x.shape[2:]).swapaxes(0, 2).reshape(params.in_channels, -1, *x.shape[2:])
    deltas = grad.reshape(*split, *grad.shape[2:]).swapaxes(0, 1).swapaxes(1, 2)
    made = reference_convolution(given, deltas, params.weight_update())
    made = made.reshape(params.in_channels, params.groups, params.out_channels, *w.shape[3:])
    np.testing.assert_array_equal(made.swapaxes(0, 1).swapaxes(1, 2), dw)
