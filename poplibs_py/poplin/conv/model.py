"""A convolution as products of matrices: what each gathers, and how its operands and results lie.

Rows are positions (images and output elements), the depth is (kernel elements, input channels), columns are output
channels. Where the input is dilated, as in the gradient of a strided convolution, positions whose kernel elements
meet zeros are told apart, and each phase multiplies what is there alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from ..convolution.axis import Axis
from ..gemm.field import Field, FieldDim
from ..gemm.params import GemmParams, MatrixLayout
from .params import ConvCall, FieldLayout

__all__ = ["products", "uniform"]


class _Part(NamedTuple):
    """A phase of one field dimension: its positions, and the kernel elements that they meet."""

    dim: FieldDim
    out: int  # bytes to its first result
    taps: FieldDim  # of the weights
    weights: int  # bytes to their first kernel element
    x: int  # bytes to the input's coordinate 0


def products(call: ConvCall) -> tuple[GemmParams, ...]:
    """Return the products that make up a convolution; each writes results of its own."""
    axes = call.params.axes
    parts = [
        list(_parts(axis, *strides))
        for axis, *strides in zip(axes, call.x.field, call.weights.field, call.out.field, strict=True)
    ]
    found = [_product(call, chosen) for chosen in itertools.product(*parts)]
    return tuple(p for p in found if p.m and p.n and p.entries) or tuple(found[:1])


def field_dim(axis: Axis, stride: int, out_stride: int) -> tuple[FieldDim, int]:
    """Return a field dimension of a convolution, and bytes to the input's coordinate 0."""
    x, w, o = axis.input, axis.weights, axis.output
    left, taps = x.truncated(axis.field), w.truncated(axis.kernel)
    place, tap_step = w.padding_lower, w.dilation
    if w.flip:
        place, tap_step = axis.transformed_kernel - 1 - place, -tap_step
    first, step = place + o.truncation_lower - o.padding_lower * o.stride, o.stride
    if x.flip:
        first, step, tap_step = axis.transformed_input - 1 - first, -step, -tap_step
    end = 1 + (left - 1) * x.dilation if left else 0
    out = axis.out
    dim = FieldDim(out, taps, step, tap_step, first - x.padding_lower, end, x.dilation, stride, o.padding_lower,
                   out - o.padding_upper, out_stride)
    return dim, x.truncation_lower * stride


def _parts(axis: Axis, stride: int, weight_stride: int, out_stride: int) -> Iterator[_Part]:
    """The phases of a dimension: one, unless its input is dilated."""
    dim, x = field_dim(axis, stride, out_stride)
    at = axis.weights.truncation_lower * weight_stride
    every, tap_every = (dim.dilation // math.gcd(s, dim.dilation) for s in (dim.step, dim.tap_step))
    for p0 in range(max(1, min(every, dim.positions))):
        met = [t for t in range(min(tap_every, dim.taps))
               if (dim.first + p0 * dim.step + t * dim.tap_step) % dim.dilation == 0]
        t0 = met[0] if met else 0  # at most one: tap_every is the order of the step
        taps = -(-(dim.taps - t0) // tap_every) if met else 0
        first = dim.first + p0 * dim.step + t0 * dim.tap_step if met else 0
        part = FieldDim(
            -(-(dim.positions - p0) // every), taps, dim.step * every // dim.dilation,
            dim.tap_step * tap_every // dim.dilation, first // dim.dilation, -(-dim.end // dim.dilation), 1, dim.stride,
            -(-(dim.first_valid - p0) // every), -(-(dim.end_valid - p0) // every), out_stride * every,
        )  # fmt: skip
        met_taps = FieldDim(1, taps, 0, 1, 0, taps, 1, weight_stride * tap_every)
        yield _Part(part, p0 * out_stride, met_taps, at + t0 * weight_stride, x)


def _product(call: ConvCall, parts: tuple[_Part, ...]) -> GemmParams:
    p, x, w, out = call.params, call.x, call.weights, call.out
    dims = tuple(part.dim for part in parts)
    taps = math.prod(dim.taps for dim in dims)
    rows = FieldDim.rows(p.batch, x.row, out.row)
    positions = math.prod(dim.positions for dim in dims)
    apart = out.row != positions * dims[-1].out_stride and uniform(dims) and p.batch > 1  # an image is an entry
    field, offset = Field((() if apart else (rows,)) + dims, p.in_channels, x.channel).merged()
    a = _matrix(x, field, (*((x.row,) if apart else ()), x.group), offset + sum(part.x for part in parts))
    made = MatrixLayout(
        out.format, field.dims[-1].out_stride, out.channel, (*((out.row,) if apart else ()), out.group), out.aligned,
        out.scale, field=None if uniform(field.dims) else field, offset=out.offset + sum(part.out for part in parts),
    )  # fmt: skip
    bias = call.bias
    if bias is not None and apart:
        bias = MatrixLayout(bias.format, 0, bias.column, (0, *bias.batch), offset=bias.offset)
    return GemmParams(
        positions * (1 if apart else p.batch), p.out_channels, taps * p.in_channels, a,
        _kernels(w, p.out_channels, p.in_channels, parts, (*((0,) if apart else ()), w.group)), made,
        (*((p.batch,) if apart else ()), p.groups), bias,
    )  # fmt: skip


def uniform(dims: tuple[FieldDim, ...]) -> bool:
    """Return whether results of these positions lie one step apart."""
    return all(outer.out_stride == inner.positions * inner.out_stride
               for outer, inner in itertools.pairwise(dims) if outer.positions > 1)


def _matrix(x: FieldLayout, field: Field, batch: tuple[int, ...], offset: int) -> MatrixLayout:
    lines = field.lines
    if lines is not None:
        return MatrixLayout(x.format, *lines, batch, x.aligned, x.scale, offset=x.offset + offset)
    last = field.dims[-1]
    return MatrixLayout(x.format, last.step * last.stride, x.channel, batch, x.aligned, x.scale, field=field,
                        offset=x.offset + offset)


def _kernels(w: FieldLayout, out_channels: int, in_channels: int, parts: tuple[_Part, ...],
             batch: tuple[int, ...]) -> MatrixLayout:
    """The weights: columns are output channels, rows the depth; a plain matrix where the depth lies in line."""
    offset = w.offset + sum(part.weights for part in parts)
    step, size = w.channel, in_channels
    for part in reversed(parts):
        if part.taps.taps == 1:
            continue
        if size == 1:
            step = part.taps.stride
        elif part.taps.stride != size * step:
            break
        size *= part.taps.taps
    else:
        return MatrixLayout(w.format, step, w.row, batch, w.aligned, w.scale, offset=offset)
    dims = tuple(part.taps for part in parts if part.taps.taps != 1)
    field = Field((*dims, FieldDim.rows(out_channels, w.row)), in_channels, w.channel)
    return MatrixLayout(w.format, w.channel, w.row, batch, w.aligned, w.scale, field=field, offset=offset)
