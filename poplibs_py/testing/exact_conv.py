"""Convolutions in exact fractions: element by element, as `Axis.input_index` says which meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from ..errors import bad_argument
from ..formats import Array
from ..poplin.conv.bound import (
    arranged_convolution,
    arranged_input_gradient,
    arranged_weight_deltas,
)
from ..poplin.tile_conv import ConvParams
from .exact import exact_values

_DESCRIBED = ("stride", "padding", "dilation", "groups", "params", "layout", "field_shape", "kernel_shape", "out",
              "transpose_and_flip_weights")


def _meetings(p: ConvParams) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]]:
    """Each output, kernel element and input that meet."""
    for out in product(*(range(axis.out) for axis in p.axes)):
        for kernel in product(*(range(axis.kernel) for axis in p.axes)):
            met = tuple(axis.input_index(o, k) for axis, o, k in zip(p.axes, out, kernel, strict=True))
            if None not in met:
                yield (..., *out), (..., *kernel), (..., *met)


def _grouped(x: Array, p: ConvParams) -> Array:
    return x.reshape(x.shape[0], p.groups, x.shape[1] // p.groups, *x.shape[2:])


def _zeros(*shape: int) -> Array:
    return exact_values(np.zeros(shape))


def _taken(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in names}


def _convolution(x: Any, weights: Any, *, bias: Any = None, residual: Any = None, activation: str | None = None,
                 **given: Any) -> Array:
    if activation not in (None, "relu"):
        raise bad_argument("activation", activation, "None or 'relu', whose values are fractions")
    made = arranged_convolution(x, weights, read=exact_values, **_taken(given, *_DESCRIBED[:6], _DESCRIBED[-1]))
    p, w = made.params, made.second
    images = _grouped(made.first, p)
    sums = _zeros(p.batch, p.groups, p.out_channels, *p.output_shape)
    for out, kernel, met in _meetings(p):
        sums[out] = sums[out] + (w[kernel] @ images[met][..., None])[..., 0]
    sums = sums.reshape(p.batch, p.groups * p.out_channels, *p.output_shape)
    if bias is not None:
        sums = sums + exact_values(bias).reshape(-1, *(1,) * p.ndim)
    result: Array = made.back(sums)
    if residual is not None:
        result = result + exact_values(residual)
    return np.maximum(result, 0) if activation == "relu" else result


def _with_output(x: Any, weights: Any, out: Any, **given: Any) -> Array:
    return _convolution(x, weights, **given)


def _input_gradient(deltas: Any, weights: Any, **given: Any) -> Array:
    made = arranged_input_gradient(deltas, weights, read=exact_values, **_taken(given, *_DESCRIBED[:7], "out"))
    p, turned, given_deltas = made.params, made.second.swapaxes(1, 2), _grouped(made.first, made.params)
    sums = _zeros(p.batch, p.groups, p.in_channels, *p.field_shape)
    for out, kernel, met in _meetings(p):
        sums[met] = sums[met] + (turned[kernel] @ given_deltas[out][..., None])[..., 0]
    gradient: Array = made.back(sums.reshape(p.batch, p.groups * p.in_channels, *p.field_shape))
    return gradient


def _weight_deltas(deltas: Any, x: Any, *, weights: Any = None, **given: Any) -> Array:
    written = given.get("out") if weights is None else weights
    how = _taken(given, *_DESCRIBED[:6], "kernel_shape")
    made = arranged_weight_deltas(deltas, x, read=exact_values, weights=written, **how)
    p = made.params
    images, errors = _grouped(made.first, p), _grouped(made.second, p)
    sums = _zeros(p.groups, p.out_channels, p.in_channels, *p.kernel_shape)
    for out, kernel, met in _meetings(p):
        for n in range(p.batch):
            sums[kernel] = sums[kernel] + errors[n][out][..., None] * images[n][met][..., None, :]
    gradient: Array = made.back(sums)
    return gradient


def _weight_update(deltas: Any, weights: Any, x: Any, scale: float, **given: Any) -> Array:
    gradient = _weight_deltas(deltas, x, weights=weights, **given)
    updated: Array = exact_values(weights) + gradient * exact_values(np.float32(scale))[()]
    return updated


def _last(numbers: Array, layout: str) -> Array:
    return numbers if layout == "NHWC" else np.moveaxis(numbers, 1, -1)


def _add_bias(acts: Any, bias: Any, *, layout: str = "NCHW", **how: Any) -> Array:
    sums = _last(exact_values(acts), layout) + exact_values(bias)
    return sums if layout == "NHWC" else np.moveaxis(sums, -1, 1)


def _bias_update(deltas: Any, bias: Any, scale: float, *, layout: str = "NCHW", **how: Any) -> Array:
    numbers = _last(exact_values(deltas), layout)
    flat = numbers.reshape(-1, numbers.shape[-1])
    gradient = sum(flat, start=_zeros(numbers.shape[-1]))
    updated: Array = exact_values(bias) + gradient * exact_values(np.float32(scale))[()]
    return updated


CONVOLUTIONS: dict[str, Callable[..., Array]] = {
    "poplin.convolution": _convolution, "poplin.convolution_with_output": _with_output,
    "poplin.convolution_input_gradient": _input_gradient, "poplin.calculate_weight_deltas": _weight_deltas,
    "poplin.convolution_weight_update": _weight_update, "poplin.add_bias": _add_bias,
    "poplin.convolution_bias_update": _bias_update}
"""The ops of convolutions in fractions, by their names in the catalogue."""
