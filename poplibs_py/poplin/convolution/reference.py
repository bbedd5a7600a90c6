"""What a convolution and its two gradients compute, in float64: NumPy and the formats' own decoding.

Along each dimension of the field, input and kernel are truncated, dilated, padded and flipped; the kernel slides over
the input wherever it fits (a cross-correlation); the outputs are truncated, every `stride`-th is kept, and zeros are
padded. Products with zeros that padding and dilation put into the kernel are left out; those of the input are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from ...formats.reference import values

__all__ = ["reference_convolution", "reference_input_gradient", "reference_weight_gradient"]

Floats = np.ndarray[Any, np.dtype[np.float64]]
Index = tuple[Any, ...]

_WHOLE = slice(None)


def reference_convolution(x: Any, w: Any, params: Any) -> Floats:
    """Return the convolution of x [N, G * Ci, field...] with w [G, Co, Ci, kernel...]: [N, G * Co, outputs...].

    Parameters
    ----------
    x, w : array_like or QuarterArray
        Input and weights, of any format.
    params : ConvParams
        Sizes and transforms; types do not matter.
    """
    inputs, weights = _split_groups(_spread(values(x), params), params.groups), values(w)
    kept = tuple(_kept(axis) for axis in params.axes)
    shape = (params.batch, params.groups, params.out_channels, *kept)
    sums = np.zeros(shape)
    with np.errstate(all="ignore"):
        for at, window in _meetings(params):
            sums += _channel_product(weights[(*_CHANNELS, *at)], inputs[(*_CHANNELS, *window)])
    out = np.zeros((*shape[:3], *(axis.out for axis in params.axes)))
    out[(*_CHANNELS, *_inner(params))] = sums
    return out.reshape(params.batch, params.groups * params.out_channels, *out.shape[3:])


def reference_input_gradient(dy: Any, w: Any, params: Any) -> Floats:
    """Return the gradient of the input [N, G * Ci, field...] from the output's; `params` are the forward pass'."""
    deltas, weights = _split_groups(values(dy), params.groups)[(*_CHANNELS, *_inner(params))], values(w)
    places = tuple(axis.transformed_input for axis in params.axes)
    spread = np.zeros((params.batch, params.groups, params.in_channels, *places))
    with np.errstate(all="ignore"):
        for at, window in _meetings(params):
            turned = weights[(*_CHANNELS, *at)].swapaxes(1, 2)
            spread[(*_CHANNELS, *window)] += _channel_product(turned, deltas)
    for d, axis in enumerate(params.axes):
        elements, taken = _elements(axis.input, axis.field)
        gathered = np.zeros((*spread.shape[: 3 + d], axis.field, *spread.shape[4 + d :]))
        gathered[_along(3 + d, elements)] = spread[_along(3 + d, taken)]
        spread = gathered
    return spread.reshape(params.batch, params.groups * params.in_channels, *spread.shape[3:])


def reference_weight_gradient(x: Any, dy: Any, params: Any) -> Floats:
    """Return the gradient of the weights [G, Co, Ci, kernel...] from the input and the output's gradient."""
    inputs = _split_groups(_spread(values(x), params), params.groups)
    deltas = _split_groups(values(dy), params.groups)[(*_CHANNELS, *_inner(params))]
    given, made = params.in_channels, params.out_channels
    gradient = np.zeros((params.groups, made, given, *(axis.kernel for axis in params.axes)))
    left = deltas.swapaxes(0, 2).swapaxes(0, 1).reshape(params.groups, made, _volume(deltas))
    with np.errstate(all="ignore"):
        for at, window in _meetings(params):
            met = inputs[(*_CHANNELS, *window)]
            met = met.swapaxes(0, 2).swapaxes(0, 1).reshape(params.groups, given, _volume(met))
            gradient[(*_CHANNELS, *at)] = left @ met.swapaxes(1, 2)
    return gradient


_CHANNELS = (_WHOLE, _WHOLE, _WHOLE)


def _volume(x: Floats) -> int:
    """Elements of a channel, over all images."""
    return int(np.prod((x.shape[0], *x.shape[3:])))


def _split_groups(x: Floats, groups: int) -> Floats:
    return x.reshape(x.shape[0], groups, x.shape[1] // groups if groups else 0, *x.shape[2:])


def _channel_product(weights: Floats, inputs: Floats) -> Floats:
    """Products [G, A, B] x [N, G, B, places...] summed over B: [N, G, A, places...]."""
    flat = inputs.reshape(*inputs.shape[:3], int(np.prod(inputs.shape[3:])))
    return (weights @ flat).reshape(*flat.shape[:2], weights.shape[1], *inputs.shape[3:])


def _elements(transform: Any, size: int) -> tuple[slice, slice]:
    """The elements of an input or a kernel that are not truncated, and where each goes."""
    first, end = transform.truncation_lower, size - transform.truncation_upper
    at, step = transform.padding_lower, transform.dilation
    if not transform.flip:
        return slice(first, end), slice(at, at + (end - first) * step, step)
    last = transform.transformed(size) - 1 - at  # where the first goes
    stop = last - (end - first) * step
    return slice(first, end), slice(last, stop if stop >= 0 else None, -step) if end > first else slice(0, 0)


def _spread(x: Floats, params: Any) -> Floats:
    """The input after its transform, zeros in between."""
    for d, axis in enumerate(params.axes):
        elements, places = _elements(axis.input, axis.field)
        wide = np.zeros((*x.shape[: 2 + d], axis.transformed_input, *x.shape[3 + d :]))
        wide[_along(2 + d, places)] = x[_along(2 + d, elements)]
        x = wide
    return x


def _along(axis: int, part: slice) -> Index:
    return (*(_WHOLE,) * axis, part)


def _kept(axis: Any) -> int:
    return int(axis.out - axis.output.padding_lower - axis.output.padding_upper)


def _inner(params: Any) -> Index:
    """Outputs that are no padding."""
    return tuple(slice(a.output.padding_lower, a.output.padding_lower + _kept(a)) for a in params.axes)


def _meetings(params: Any) -> Iterator[tuple[Index, Index]]:
    """Each kernel element, and the places of the transformed input that it meets in the outputs, in order."""
    lines = []
    for axis in params.axes:
        elements, places = _elements(axis.weights, axis.kernel)
        first, step, kept = axis.output.truncation_lower, axis.output.stride, _kept(axis)
        at = range(axis.kernel)[elements]
        to = range(axis.transformed_kernel)[places]
        lines.append([(k, slice(p + first, p + first + (kept - 1) * step + 1, step) if kept else slice(0, 0))
                      for k, p in zip(at, to, strict=True)])
    for met in product(*lines):
        yield tuple(k for k, _ in met), tuple(window for _, window in met)
