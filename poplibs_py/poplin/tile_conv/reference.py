"""What a convolution and its two gradients compute, in float64: NumPy and the formats' own decoding.

Along each dimension of the field, input and kernel are truncated, dilated, padded and flipped; the kernel slides over
the input wherever it fits (a cross-correlation); the outputs are truncated, every `stride`-th is kept, and zeros are
padded. Products with zeros that padding and dilation put into the kernel are left out; those of the input are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np

from ...formats import Floats
from ...formats.reference import values

Index = tuple[Any, ...]
Meetings = list[tuple[Index, Index]]

_WHOLE = slice(None)
_DEPTH = 64  # of a product of matrices that wastes little of what it moves
_PORTION = 1 << 20  # numbers of an operand of such a product


def reference_convolution(x: Any, w: Any, params: Any) -> Floats:
    """Return the convolution of x [N, G * Ci, field...] with w [G, Co, Ci, kernel...]: [N, G * Co, outputs...].

    Parameters
    ----------
    x, w : array_like or QuarterArray
        Input and weights, of any format.
    params : ConvParams
        Sizes and transforms; types do not matter.
    """
    inputs, weights = _by_groups(_spread(values(x), params), params.groups), values(w)
    kept = tuple(_kept(axis) for axis in params.axes)
    out = np.zeros((params.batch, params.groups, params.out_channels, *(axis.out for axis in params.axes)))
    made = np.moveaxis(out[(*_CHANNELS, *_inner(params))], 0, 2)
    with np.errstate(all="ignore"):
        for images in _images(params, kept):
            to = made[:, :, images]
            sums = np.zeros((*to.shape[:2], prod(to.shape[2:])))
            for some in _meetings(params):
                sums += _kernels(weights, some) @ _windows(inputs[:, :, images], some, kept)
            to[...] = sums.reshape(to.shape)
    return out.reshape(params.batch, params.groups * params.out_channels, *out.shape[3:])


def reference_input_gradient(dy: Any, w: Any, params: Any) -> Floats:
    """Return the gradient of the input [N, G * Ci, field...] from the output's; `params` are the forward pass'."""
    weights, channels = values(w), params.in_channels
    deltas = _by_groups(values(dy), params.groups)[(*_CHANNELS, *_inner(params))]
    spread = np.zeros((params.groups, channels, params.batch, *(axis.transformed_input for axis in params.axes)))
    with np.errstate(all="ignore"):
        for images in _images(params, deltas.shape[3:]):
            met, to = deltas[:, :, images], spread[:, :, images]
            flat = met.reshape(*met.shape[:2], prod(met.shape[2:]))
            for some in _meetings(params):
                products = _kernels(weights, some).swapaxes(1, 2) @ flat
                for number, (_, window) in enumerate(some):
                    part = products[:, number * channels : (number + 1) * channels]
                    to[(*_CHANNELS, *window)] += part.reshape(*part.shape[:2], *met.shape[2:])
    spread = np.moveaxis(spread, 2, 0)
    for d, axis in enumerate(params.axes):
        elements, taken = _elements(axis.input, axis.field)
        gathered = np.zeros((*spread.shape[: 3 + d], axis.field, *spread.shape[4 + d :]))
        gathered[_along(3 + d, elements)] = spread[_along(3 + d, taken)]
        spread = gathered
    return spread.reshape(params.batch, params.groups * params.in_channels, *spread.shape[3:])


def reference_weight_gradient(x: Any, dy: Any, params: Any) -> Floats:
    """Return the gradient of the weights [G, Co, Ci, kernel...] from the input and the output's gradient."""
    inputs, channels = _by_groups(_spread(values(x), params), params.groups), params.in_channels
    deltas = _by_groups(values(dy), params.groups)[(*_CHANNELS, *_inner(params))]
    gradient = np.zeros((params.groups, params.out_channels, channels, *(axis.kernel for axis in params.axes)))
    with np.errstate(all="ignore"):
        for images in _images(params, deltas.shape[3:]):
            met = deltas[:, :, images]
            flat = met.reshape(*met.shape[:2], prod(met.shape[2:]))
            for some in _meetings(params):
                products = flat @ _windows(inputs[:, :, images], some, met.shape[3:]).swapaxes(1, 2)
                for number, (at, _) in enumerate(some):
                    gradient[(*_CHANNELS, *at)] += products[..., number * channels : (number + 1) * channels]
    return gradient


_CHANNELS = (_WHOLE, _WHOLE, _WHOLE)


def _by_groups(x: Floats, groups: int) -> Floats:
    """Images [N, G * C, field...] as [G, C, N, field...]."""
    apart = x.reshape(x.shape[0], groups, x.shape[1] // groups if groups else 0, *x.shape[2:])
    return np.ascontiguousarray(np.moveaxis(apart, 0, 2))


def _kernels(weights: Floats, some: Meetings) -> Floats:
    """The kernel elements of some meetings side by side: [G, Co, meetings * Ci]."""
    return np.concatenate([weights[(*_CHANNELS, *at)] for at, _ in some], axis=2)


def _windows(inputs: Floats, some: Meetings, kept: tuple[int, ...]) -> Floats:
    """What they meet in so many outputs of each image: [G, meetings * Ci, places]."""
    groups, channels, images = inputs.shape[:3]
    met = np.empty((groups, len(some), channels, images, *kept))
    for number, (_, window) in enumerate(some):
        met[:, number] = inputs[(*_CHANNELS, *window)]
    return met.reshape(groups, len(some) * channels, images * prod(kept))


def _images(params: Any, kept: tuple[int, ...]) -> Iterator[slice]:
    """Portions of the images that a cache has room for."""
    each = params.groups * max(_DEPTH, params.in_channels, params.out_channels) * prod(kept)
    portion = max(1, _PORTION // max(1, each))
    return (slice(first, first + portion) for first in range(0, params.batch, portion))


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


def _meetings(params: Any) -> Iterator[Meetings]:
    """Each kernel element, and the places of the transformed input that it meets in the outputs, in order.

    There are several at once where channels are few: one product of matrices is then as deep as with more.
    """
    lines = []
    for axis in params.axes:
        elements, places = _elements(axis.weights, axis.kernel)
        first, step, kept = axis.output.truncation_lower, axis.output.stride, _kept(axis)
        at = range(axis.kernel)[elements]
        to = range(axis.transformed_kernel)[places]
        lines.append([(k, slice(p + first, p + first + (kept - 1) * step + 1, step) if kept else slice(0, 0))
                      for k, p in zip(at, to, strict=True)])
    met = ((tuple(k for k, _ in one), tuple(window for _, window in one)) for one in product(*lines))
    while some := list(islice(met, max(1, _DEPTH // max(1, params.in_channels)))):
        yield some
