"""Phases of a dilated input as columns of one product: gradients of images that few channels make.

Positions whose kernel elements meet different elements of the input are told apart as phases (`model.phases`). Where
each phase has few output channels, a matrix unit works on padding for most of its columns. Here positions of all phases
that meet the same elements are one row, and its columns are the output channels of each: kernel elements that a phase
does not meet are zeros.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from ..gemm.field import Field, FieldDim
from ..gemm.params import GemmParams, MatrixLayout
from ..tile_conv.axis import Axis
from .model import field_dim
from .params import ConvCall

_Merged = tuple[FieldDim, FieldDim, int, int]


def phases_as_columns(call: ConvCall, most: int) -> GemmParams | str:
    """Return the product of at most so many columns, or why there is none, in words."""
    p, x, w, out = call.params, call.x, call.weights, call.out
    if call.bias is not None:
        return "a bias is added"
    merged = [_merged(axis, *strides) for axis, *strides in zip(p.axes, x.field, w.field, out.field, strict=True)]
    phases = [one[1].positions for one in merged if one]
    columns = math.prod(phases) * p.out_channels
    if len(phases) < len(merged) or math.prod(phases) == 1:
        return "no dimension's phases are alike"
    if columns > most:
        return f"{columns} columns are not few"
    item = out.format.itemsize
    lines = out.channel == item and (phases[-1] == 1 or out.field[-1] == p.out_channels * item)
    if not lines or math.prod(phases[:-2]) > 1 or not _in_order(call):
        return "results do not lie so"
    dims, kernels, x_offsets, w_offsets = zip(*(one for one in merged if one), strict=True)
    images = FieldDim.rows(p.batch, x.row, out.row)
    a = Field((images, *dims, FieldDim.depth(p.in_channels, x.channel)), 1, x.format.itemsize)
    b = Field((*kernels, FieldDim.depth(p.in_channels, w.channel), FieldDim.rows(p.out_channels, w.row)), 1,
              w.format.itemsize)
    rows = [(dim.positions, dim.out_stride) for dim in (images, *dims)]
    made = MatrixLayout.of_results(out, rows, item, out.offset, (out.group,))
    part = phases[-1] * p.out_channels
    return GemmParams(
        math.prod(positions for positions, _ in rows), columns, b.depth,
        MatrixLayout.of_field(x, a, x.offset + sum(x_offsets), (x.group,)),
        replace(MatrixLayout.of_field(w, b, w.offset + sum(w_offsets), (w.group,)).transposed, column=w.row),
        replace(made, parts=(part, out.field[-2] if len(phases) > 1 else 0) if part < columns else (0, 0)), (p.groups,),
    )  # fmt: skip


def _in_order(call: ConvCall) -> bool:
    """Whether images, then their dimensions, then channels lie outermost first."""
    strides = call.x.row, *call.x.field, call.x.channel
    return all(outer >= inner > 0 for outer, inner in pairwise(strides))


def _merged(axis: Axis, stride: int, weight_stride: int, out_stride: int) -> _Merged | None:
    """A dimension's positions as rows and as columns: elements of input and kernel, bytes to both; or None."""
    dim, offset = field_dim(axis, stride, out_stride)
    at = axis.weights.truncation_lower * weight_stride
    every, turn = dim.dilation, dim.tap_step
    if dim.first_valid > 0 or dim.end_valid < dim.positions or dim.positions % every or not dim.positions:
        return None
    if every == 1:
        return dim, FieldDim.depth(dim.taps, weight_stride), offset, at
    phases = [phase.dim for phase in dim.phases()]
    if dim.step != 1 or abs(turn) != 1 or not all(phase.taps for phase in phases):
        return None
    reach = [(phase.first, phase.first + (phase.taps - 1) * phase.tap_step) for phase in phases]
    low, high = min(map(min, reach)), max(map(max, reach))
    rows = FieldDim(dim.positions // every, high - low + 1, 1, 1, low, -(-dim.end // every), 1, stride, 0,
                    dim.positions // every, out_stride * every)
    # position q * every + p meets element q + low + t with kernel element turn * (every * (low + t) - first - p)
    columns = FieldDim(every, high - low + 1, -turn, turn * every, turn * (every * low - dim.first), dim.taps, 1,
                       weight_stride, 0, every)
    return rows, columns, offset, at
