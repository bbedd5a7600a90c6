"""Convolutions to few channels on this CPU: products of all taps first, then sums where results overlap.

A product of matrices with so few columns as an image has channels leaves most of a kernel's columns empty, and its rows
would be gathered for them alone. Here rows are elements of the input as they lie and columns are (kernel elements,
channels). What is added afterwards is little: a number for each product of a whole depth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...formats import FP32
from ...target import Target
from ..gemm import _gemm
from ..gemm.field import Field, FieldDim
from ..gemm.lower import items_of, kernel_record
from ..gemm.options import GemmOptions
from ..gemm.params import GemmParams, MatrixLayout
from ..gemm.plan import Epilogue, GemmPlan, Scratch, on_lines
from ..gemm.search import FEW, plan_gemm
from . import _overlap
from .model import field_dim
from .params import ConvCall

_LEAST_DEPTH = 16  # channels that make up for the additions
_LEAST_COLUMNS = 16  # of the products: a vector's; less for deep products, and for one channel
_DEEP, _DEEP_COLUMNS, _ONE_CHANNEL_COLUMNS = 24, 8, 4
_CHUNK_BYTES = 192 << 10  # of products at once: they stay in the second-level cache
_LEAST_ROWS = 48
_MOST_ELEMENTS = 2  # for each result: with more, most products would be of no result


@dataclass(frozen=True)
class Overlap(Scratch):
    """How products are made first and added.

    Attributes
    ----------
    product : GemmPlan
        The product of a chunk of elements with all taps.
    field : Field
        Dimensions of the results, and their channels.
    elements : tuple of int
        Of the input in each dimension.
    chunk : int
        Elements multiplied at once.
    planes : int
        Coordinates of the first dimension whose sums are kept.
    bands : int
        Shares of the results of an image and group, by the first dimension.
    threads : int
    """

    product: GemmPlan
    field: Field
    elements: tuple[int, ...]
    chunk: int
    planes: int
    bands: int
    threads: int

    @property
    def products(self) -> tuple[GemmPlan]:
        """What multiplies."""
        return (self.product,)

    @property
    def method(self) -> str:
        """What it is, in words."""
        return "products of elements with all taps, added where results overlap"

    @property
    def plane(self) -> int:
        """Sums of one coordinate of the first dimension."""
        return math.prod(dim.positions for dim in self.field.dims[1:]) * self.field.channels

    @property
    def layout(self) -> tuple[tuple[str, int], ...]:
        """Bytes of each part of a thread's scratch, in order: what making the products takes, these, and the sums."""
        return on_lines(product=self.product.scratch_bytes, products=4 * self.chunk * self.product.params.n,
                        planes=4 * self.planes * self.plane)

    @property
    def workspace_bytes(self) -> int:
        """None: threads share nothing but operands."""
        return 0

    @property
    def memory_limit(self) -> int | None:
        """Temporary bytes for each thread, or None."""
        return self.product.memory_limit

    def decisions(self, _: ConvCall, __: bool, inner: Mapping[str, str]) -> dict[str, str]:
        """Return what was decided, given what was for the product."""
        return {"products": f"of {self.chunk} elements at once", **inner}


def plan_overlap(call: ConvCall, options: GemmOptions, epilogue: Epilogue, target: Target) -> Overlap | str:
    """Plan a convolution so; where that is no gain, or cannot be, say why, in words."""
    p = call.params
    if epilogue != Epilogue() or call.bias is not None or options.partials_type != "float" or options.reproducible:
        return "something follows the sums, partials are half or a result is to be reproducible"
    if p.out_channels > FEW or p.in_channels < _LEAST_DEPTH or not p.batch * p.groups:
        return f"{p.out_channels} output channels of {p.in_channels} are not few of many"
    made = _dims(call)
    if made is None:
        return "there is a stride, or kernel elements that are no neighbours"
    dims, weights, x_offset, weights_offset = made
    columns = math.prod(dim.taps for dim in dims) * p.out_channels
    elements = tuple(-(-dim.end // dim.dilation) for dim in dims)
    least = _ONE_CHANNEL_COLUMNS if p.out_channels == 1 else _DEEP_COLUMNS
    if columns < (least if p.in_channels >= _DEEP else _LEAST_COLUMNS) or not all(elements):
        return f"an input element has {columns} products for each channel, which are few"
    if math.prod(elements) > _MOST_ELEMENTS * math.prod(dim.positions for dim in dims):
        return "most products would be of no result"
    inner = math.prod(elements[1:])
    chunk = max(_LEAST_ROWS, _CHUNK_BYTES // 4 // columns)
    chunk = min(chunk // inner * inner or chunk, inner * elements[0])
    spanned = chunk // inner if chunk % inner == 0 else chunk // inner + 2
    first = dims[0]
    planes = min(first.positions, (spanned - 1) * first.dilation + (first.taps - 1) * abs(first.tap_step) + 1)
    x = (FieldDim.rows(n, dim.stride) for n, dim in zip(elements, dims, strict=True))
    w = (*(FieldDim.rows(dim.taps, step) for dim, step in zip(dims, weights, strict=True)),
         FieldDim.rows(p.out_channels, call.weights.row))
    a = MatrixLayout.of_field(call.x, Field(tuple(x), p.in_channels, call.x.channel), call.x.offset + x_offset)
    b = MatrixLayout.of_field(call.weights, Field(w, p.in_channels, call.weights.channel),
                              call.weights.offset + weights_offset).transposed
    out = MatrixLayout(FP32, 4 * columns, 4)
    params = GemmParams(chunk, columns, p.in_channels, a, b, out)
    product = plan_gemm(params, replace(options, available_memory_proportion=None), epilogue, target.replace(tiles=1))
    bands = 1 if p.batch * p.groups >= target.tiles else min(target.tiles, first.positions)
    plan = Overlap(product, Field(tuple(dims), p.out_channels, call.out.channel), elements, chunk, planes, bands,
                   min(target.tiles, p.batch * p.groups * bands))
    limit = options.memory.limit(target)
    if product.swapped:
        return "its product is faster with operands swapped"
    if limit is not None and plan.scratch_bytes > limit:
        return f"it takes {plan.scratch_bytes:,} bytes a thread"
    return replace(plan, product=replace(product, memory_limit=limit))


def _dims(call: ConvCall) -> tuple[list[FieldDim], list[int], int, int] | None:
    """Dimensions, bytes from a tap's weights to the next's, and to the first of the input and of the weights."""
    p, dims, weights, x_offset, weights_offset = call.params, [], [], 0, 0
    for axis, x, w, out in zip(p.axes, call.x.field, call.weights.field, call.out.field, strict=True):
        dim, offset = field_dim(axis, x, out)
        x_offset += offset
        weights_offset += axis.weights.truncation_lower * w
        if dim.step != 1 or not dim.positions or not dim.taps:
            return None
        dims.append(dim)
        weights.append(w)
    last = dims[-1]
    if abs(last.tap_step) != 1 and last.taps > 1:
        return None
    if last.tap_step == 1:  # results go forwards with the taps
        dims[-1] = last._replace(first=last.first + last.taps - 1, tap_step=-1)
        weights_offset += (last.taps - 1) * weights[-1]
        weights[-1] = -weights[-1]
    if len(dims) == 1:
        dims.insert(0, FieldDim.rows(1, 0))
        weights.insert(0, 0)
    return dims, weights, x_offset, weights_offset


def overlap_items(plan: Overlap, call: ConvCall) -> tuple[np.ndarray[Any, Any], list[Any]]:
    """Return a plan's items, and the tables that they point to."""
    product, p = plan.product, call.params
    products, tables = items_of(product)
    out = replace(product.params.out, format=call.out.format, scale=call.out.scale, row=0, column=call.out.channel)
    finish = kernel_record(replace(product, params=replace(product.params, out=out)))
    field = plan.field.record
    spec = np.zeros(1, _overlap.SPEC)
    s = spec[0]
    s["multiply"], s["finish"], s["field"] = _gemm.VERTEX, finish.ctypes.data, field.ctypes.data
    s["item"] = call.out.format.itemsize
    s["elements"][:len(plan.elements)] = plan.elements
    s["a_row"], s["chunk"], s["columns"] = product.params.a.row, plan.chunk, product.params.n
    s["products_at"], s["planes_at"] = plan.offset("products"), plan.offset("planes")
    s["planes"], s["plane"] = plan.planes, plan.plane
    first = plan.field.dims[0].positions
    entries = list(itertools.product(range(p.batch), range(p.groups), range(plan.bands)))
    items = np.zeros(len(entries), _overlap.ITEM)
    items["spec"], items["product"] = spec.ctypes.data, products[0]
    for item, (image, group, band) in zip(items, entries, strict=True):
        item["product"]["a"] += image * call.x.row + group * call.x.group
        item["product"]["b"] += group * call.weights.group
        item["out"] = call.out.offset + image * call.out.row + group * call.out.group
        item["low"], item["high"] = first * band // plan.bands, first * (band + 1) // plan.bands
    return items, [*tables, finish, field, spec]
