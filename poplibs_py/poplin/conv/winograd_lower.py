"""A convolution by Winograd's transforms to work items: kernels transformed, then tiles, turn by turn."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ...formats import FP32, Array
from ...kernels import select
from ...kernels.records import dtype_of
from ...program import Segment, spread
from ..gemm import _gemm
from ..gemm.lower import fill_decoding, fill_finish, items_of, shares
from ..gemm.plan import Epilogue
from . import _conv
from ._side import LANES
from .params import WORDS, ConvCall
from .winograd import CHANNELS_AT_ONCE, Winograd, transform


def winograd_sets(plan: Winograd, call: ConvCall, epilogue: Epilogue, residual: bool,
                  prepared: bool) -> tuple[list[tuple[Segment, ...]], list[Any]]:
    """Return a plan's compute sets, and the tables that their items point to.

    Kernels are transformed to the workspace, or come `prepared` in place of the weights.
    """
    spec = np.zeros(1, dtype_of("pop_winograd_spec"))
    _spec(spec[0], plan, call)
    _epilogue(spec[0]["conv"], call, epilogue)
    spec["kernels"] = 1 if prepared else call.behind + residual
    spec["old"] = call.behind if residual else 0
    products, tables = items_of(plan.product)
    p = call.params
    sets: list[tuple[Segment, ...]] = []
    slots = [(group, first) for group in range(p.groups) for first in range(0, p.out_channels, plan.columns)]
    for start in range(0, len(slots), plan.slots):
        some = slots[start : start + plan.slots]
        if not prepared:
            sets.append((_kernels(plan, call, spec, some),))
        sets.append((_tiles(plan, call, spec, some, products[0]),))
    return sets, [spec, *tables]


def prepare_segment(plan: Winograd, call: ConvCall) -> tuple[Segment, list[Any]]:
    """Return what transforms all kernels, of operand 1 to operand 2, and its tables."""
    spec = np.zeros(1, dtype_of("pop_winograd_spec"))
    _spec(spec[0], plan, call)
    spec["kernels"] = 2
    return _kernels(plan, call, spec, [(group, 0) for group in range(call.params.groups)]), [spec]


def _spec(s: Any, plan: Winograd, call: ConvCall) -> None:
    """Fill in what the items share, but for the epilogue."""
    x, w, out, conv, product = call.x, call.weights, call.out, s["conv"], plan.product.params
    conv["transpose"], conv["together"] = select("dot", "transpose", "cells").kernel.address, 1
    side = conv["x"]
    fill_decoding(side, FP32, 0, FP32, False)
    side["joined"], side["cell"] = 1, FP32.itemsize
    side["inner_step"], side["inner"], side["padded"] = x.channel, product.k, plan.channels
    side["in_line"], side["pitch"] = x.channel == FP32.itemsize, plan.pitch
    conv["rank"], conv["x_image"], conv["out_image"] = 2, x.row, out.row
    for number, dim in enumerate(plan.dims):
        conv["dims"][number] = (dim.positions, dim.taps, 1, 1, dim.first, dim.end, dim.stride, 0, dim.out_stride)
    conv["room_at"], conv["bias_at"] = plan.offset("room"), plan.offset("bias")
    for kind in ("images", "weights", "results"):
        s[kind] = transform(kind, plan.tile)
    s["multiply"] = _gemm.VERTEX
    s["tile"], (s["rows"], s["columns"]), s["chunk"], s["run"] = plan.tile, plan.tiles, plan.chunk, plan.run
    for part in ("strip", "points", "products"):
        s[f"{part}_at"] = plan.offset(part)
    s["points_row"], s["points_next"] = product.a.row, plan.points_next
    s["products_row"], s["products_next"] = product.out.row, plan.products_next
    s["width"], s["panel"], s["panel_width"] = plan.width, plan.panel, plan.panel_width
    s["kernels_next"] = plan.kernels_next
    s["w_out"], s["w_in"] = w.row, w.channel
    s["w_row"], s["w_column"] = plan.kernel_strides
    s["channels_at_once"] = CHANNELS_AT_ONCE


def _epilogue(conv: Any, call: ConvCall, epilogue: Epilogue) -> None:
    out, bias = call.out, call.bias
    fill_finish(conv, out.format, out.scale, epilogue, bias, WORDS)
    conv["out_channel"] = out.channel
    if bias is not None:
        conv["bias_channel"] = bias.column


def _kernels(plan: Winograd, call: ConvCall, spec: Array, slots: list[tuple[int, int]]) -> Segment:
    """The transforms of some groups' kernels."""
    work = [(number, group, first, at, end - at) for number, (group, first) in enumerate(slots)
            for at, end in shares(_columns(plan, call, first), -(-4 * plan.threads // len(slots)), LANES)]
    items = np.zeros(len(work), dtype_of("pop_winograd_kernels"))
    items["spec"] = spec.ctypes.data
    for item, (number, group, first, at, n) in zip(items, work, strict=True):
        item["w"] = plan.offsets[1] + group * call.weights.group + first * call.weights.row
        item["kernels"] = number * plan.slot_bytes
        item["first"], item["columns"] = at, n
    return Segment(_conv.WINOGRAD_KERNELS_VERTEX, items, spread(len(items), plan.threads))


def _tiles(plan: Winograd, call: ConvCall, spec: Array, slots: list[tuple[int, int]], product: Any) -> Segment:
    """All tiles with the kernels of some groups: shares of tiles, and where those are few of columns."""
    rows, columns = plan.tiles
    total, wanted = call.params.batch * rows * columns, -(-plan.threads // len(slots))
    parts = max(1, min(wanted, 2 * total // plan.chunk)) if wanted > 1 else 1
    across = -(-wanted // parts)
    work = [(number, group, first, tile, column)
            for number, (group, first) in enumerate(slots)
            for tile, column in itertools.product(
                shares(total, parts, 1), shares(_columns(plan, call, first), across, plan.panel_width))]
    items = np.zeros(len(work), dtype_of("pop_winograd_item"))
    items["spec"], items["product"] = spec.ctypes.data, product
    out, bias = call.out, call.bias
    for item, (number, group, first, tile, (at, end)) in zip(items, work, strict=True):
        item["first"], item["count"] = tile[0], tile[1] - tile[0]
        item["x"] = plan.offsets[0] + group * call.x.group
        item["out"] = out.offset + group * out.group + (first + at) * out.channel
        if bias is not None:
            item["bias"] = bias.offset + group * bias.batch[-1] + (first + at) * bias.column
        item["kernels"] = number * plan.slot_bytes + at // plan.panel_width * plan.panel
        item["columns"] = end - at
    return Segment(_conv.WINOGRAD_VERTEX, items, spread(len(items), plan.threads))


def _columns(plan: Winograd, call: ConvCall, first: int) -> int:
    return min(plan.columns, call.params.out_channels - first)
