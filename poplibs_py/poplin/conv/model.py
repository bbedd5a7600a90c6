"""A convolution as products of matrices: what each gathers, and how its operands and results lie.

Rows are positions (images and output elements), the depth is kernel elements and input channels, columns are output
channels; rows and depth are numbered in the order in which the input lies. Where the input is dilated, as in the
gradient of a strided convolution, positions whose kernel elements meet zeros are told apart, and each phase multiplies
what is there alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ..gemm.field import Field, FieldDim
from ..gemm.params import GemmParams, MatrixLayout
from ..gemm.plan import Scratched
from ..tile_conv.axis import Axis
from .params import ConvCall, FieldLayout

_LARGE_IMAGE = 256  # positions whose results, a matrix of their own, make up for a product for each image


class Part(NamedTuple):
    """A phase of one field dimension: its positions, and the kernel elements that they meet."""

    dim: FieldDim
    out: int  # bytes to its first result
    taps: FieldDim  # of the weights
    weights: int  # bytes to their first kernel element
    x: int  # bytes to the input's coordinate 0


class PhasePlan(Scratched):
    """A plan of a phase that is no product of matrices."""

    call: ConvCall
    parts: tuple[Part, ...]

    @property
    def dims(self) -> tuple[FieldDim, ...]:
        """The dimensions of its phase."""
        return tuple(part.dim for part in self.parts)

    @property
    def taps(self) -> int:
        """Kernel elements; of a gradient of weights elements of the deltas."""
        return math.prod(dim.taps for dim in self.dims)

    @property
    def positions(self) -> int:
        """Output elements of an image; of a gradient of weights kernel elements."""
        return math.prod(dim.positions for dim in self.dims)

    @property
    def flops(self) -> int:
        """Floating-point operations: two for each product, those with padding too."""
        p = self.call.params
        return 2 * p.batch * p.groups * p.in_channels * p.out_channels * self.taps * self.positions


def phases(call: ConvCall) -> Iterator[tuple[Part, ...]]:
    """The phases of a convolution, of each dimension its own; each has results of its own."""
    return itertools.product(*(
        list(_parts(axis, *strides))
        for axis, *strides in zip(call.params.axes, call.x.field, call.weights.field, call.out.field, strict=True)
    ))


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


def _parts(axis: Axis, stride: int, weight_stride: int, out_stride: int) -> Iterator[Part]:
    """The phases of a dimension: one, unless its input is dilated."""
    dim, x = field_dim(axis, stride, out_stride)
    at = axis.weights.truncation_lower * weight_stride
    for phase in dim.phases():
        met_taps = FieldDim.depth(phase.dim.taps, weight_stride * phase.tap_every)
        yield Part(phase.dim, phase.position * out_stride, met_taps, at + phase.tap * weight_stride, x)


class _Extent(NamedTuple):
    """Positions, taps or both, as they lie along one stride of the input."""

    dim: FieldDim
    weights: int = 0  # bytes from a tap's weights to the next's

    @property
    def backwards(self) -> tuple[_Extent, int]:
        """The same with its taps in reverse, and bytes to the weights of the first then."""
        dim, last = self.dim, self.dim.taps - 1
        turned = dim._replace(first=dim.first + last * dim.tap_step, tap_step=-dim.tap_step)
        return _Extent(turned, -self.weights), last * self.weights


def product(call: ConvCall, parts: tuple[Part, ...]) -> GemmParams:
    """Return the product of matrices that a phase is."""
    p, x, w, out = call.params, call.x, call.weights, call.out
    images = _Extent(FieldDim.rows(p.batch, x.row, out.row))
    channels = _Extent(FieldDim.depth(p.in_channels, x.channel), w.channel)
    extents = [images, *(_Extent(part.dim, part.taps.stride) for part in parts), channels]
    extents.sort(key=lambda e: -abs(e.dim.stride))  # positions and the depth are numbered as the input lies
    extents, turned = _forwards(extents)
    apart = extents[0] is images and _apart(call, extents)
    if apart:
        extents = extents[1:]
    a = MatrixLayout.of_field(x, Field(tuple(e.dim for e in extents), 1, x.format.itemsize),
                              x.offset + sum(part.x for part in parts), (*((x.row,) if apart else ()), x.group))
    made = MatrixLayout.of_results(out, _rows(extents), out.channel, out.offset + sum(part.out for part in parts),
                                   (*((out.row,) if apart else ()), out.group))
    bias = call.bias
    if bias is not None and apart:
        bias = MatrixLayout(bias.format, 0, bias.column, (0, *bias.batch), offset=bias.offset)
    return GemmParams(
        math.prod(e.dim.positions for e in extents), p.out_channels, math.prod(e.dim.taps for e in extents), a,
        _kernels(w, p.out_channels, extents, (*((0,) if apart else ()), w.group),
                 w.offset + turned + sum(part.weights for part in parts)),
        made, (*((p.batch,) if apart else ()), p.groups), bias,
    )  # fmt: skip


def _forwards(extents: list[_Extent]) -> tuple[list[_Extent], int]:
    """Extents whose weights lie forwards, and bytes to the first: where channels are not innermost.

    Where they are, taps stay in the order in which elements of the input are neighbours.
    """
    if extents[-1].dim.taps_alone:
        return extents, 0
    turned = [e.backwards if e.weights < 0 else (e, 0) for e in extents]
    return [e for e, _ in turned], sum(offset for _, offset in turned)


def _apart(call: ConvCall, extents: list[_Extent]) -> bool:
    """Whether images, the first extent, had better be products of their own: results of one are a matrix then."""
    large = call.params.batch > 1 and math.prod(e.dim.positions for e in extents[1:]) >= _LARGE_IMAGE
    whole, one = (Field.of_results(_rows(some)) for some in (extents, extents[1:]))
    return large and len(whole.dims) > len(one.dims) == 1


def _rows(extents: list[_Extent]) -> list[tuple[int, int]]:
    return [(e.dim.positions, e.dim.out_stride) for e in extents]


def _kernels(w: FieldLayout, out_channels: int, extents: list[_Extent], batch: tuple[int, ...],
             offset: int) -> MatrixLayout:
    """The weights: columns are output channels, rows the depth; a plain matrix where the depth lies in line."""
    depth = (FieldDim.depth(e.dim.taps, e.weights) for e in extents if e.dim.taps > 1)
    field = Field((*depth, FieldDim.rows(out_channels, w.row)), 1, w.format.itemsize)
    return replace(MatrixLayout.of_field(w, field, offset, batch).transposed, column=w.row)
