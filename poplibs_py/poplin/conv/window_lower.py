"""A gradient of weights from windows to work items: some channels by some columns, over all images."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...formats import BF16, FP32, Array
from ...kernels import select
from ...kernels.records import kernel_format
from ...program import Segment, spread
from ..gemm.lower import fill_decoding, fill_finish
from ._conv import WINDOW_BOX, WINDOW_ITEM, WINDOW_SPEC, WINDOW_VERTEX
from .params import WORDS, FieldLayout
from .window import WindowPlan, step_of


def window_segment(plan: WindowPlan) -> tuple[Segment, list[Array]]:
    """Return a plan's work items, and the tables that they point to."""
    spec, call, p = _spec(plan), plan.call, plan.call.params
    boxes = np.zeros(len(plan.boxes), WINDOW_BOX)
    for record, box in zip(boxes, plan.boxes, strict=True):
        record["first"][:len(box.first)], record["count"][:len(box.count)] = box.first, box.count
    spec["boxes"], spec["box_count"] = boxes.ctypes.data, len(boxes)
    group = np.arange(p.groups)[:, None, None]
    row = np.arange(0, p.batch, plan.channels)[:, None]
    column = np.arange(0, p.out_channels, plan.columns)
    items = np.zeros((p.groups, len(row), len(column)), WINDOW_ITEM)
    items["spec"] = spec.ctypes.data
    items["x"] = group * call.x.group + row * call.x.row + call.x.offset + sum(part.x for part in plan.parts)
    items["w"] = (group * call.weights.group + column * call.weights.row + call.weights.offset
                  + sum(part.weights for part in plan.parts))
    items["out"] = (group * call.out.group + row * call.out.row + column * call.out.channel + call.out.offset
                    + sum(part.out for part in plan.parts))
    items["rows"] = np.minimum(plan.channels, p.batch - row)
    items["cols"] = np.minimum(plan.columns, p.out_channels - column)
    items = items.ravel()
    return Segment(WINDOW_VERTEX, items, spread(len(items), plan.threads)), [spec, boxes]


def _spec(plan: WindowPlan) -> Array:
    """The record that a plan's items share."""
    call, out = plan.call, plan.call.out
    spec = np.zeros(1, WINDOW_SPEC)
    s = spec[0]
    s["multiply"] = plan.kernel.address
    s["rows_at_once"], s["cols_at_once"] = plan.kernel.block[:2]
    s["transpose"] = select("dot", "transpose", "cells").kernel.address
    if plan.elements == 2:
        s["interleave"] = select("dot", "interleave", "bfloat16").kernel.address
        if call.weights.format.itemsize == 1:
            w = call.weights
            s["pair"] = select("dot", "pair", f"{kernel_format(w.format, w.scale != 0)}->{BF16}").kernel.address
    _side(s["x"], call.x, plan, "images", plan.padded, 4 * plan.padded)
    _side(s["w"], call.weights, plan, "weights", plan.padded_columns, plan.pitch)
    s["rank"], s["elements"] = len(plan.parts), plan.elements
    s["merged"], s["copied"] = plan.merged, plan.plain_deltas
    for number, part in enumerate(plan.parts):
        dim = part.dim
        s["dims"][number] = (dim.positions, dim.taps, dim.step, dim.tap_step, dim.first, dim.end, dim.stride,
                             part.taps.stride, dim.out_stride)
    s["lines"], s["images"] = plan.lines, call.params.in_channels
    s["x_image"], s["w_image"] = call.x.channel, call.weights.channel
    s["sums_at"], s["sums_row"] = plan.offset("sums"), plan.sums_row
    s["tiles"] = plan.tiles
    if plan.tiles:
        s["begin"], s["end"] = (select("dot", op, BF16.name).kernel.address for op in ("begin_steps", "end"))
        s["step"] = step_of(plan.dims[-1].taps)
    s["tables_at"], s["room_at"] = plan.offset("tables"), plan.offset("room")
    s["out_row"], s["out_column"] = out.row, out.channel
    fill_finish(s, out.format, out.scale, plan.epilogue, words=WORDS)
    return spec


def _side(record: Any, layout: FieldLayout, plan: WindowPlan, part: str, padded: int, pitch: int) -> None:
    """Fill in an operand; an item says how many channels it has of it."""
    fill_decoding(record, layout.format, layout.scale, plan.compute_format, layout.scale != 0)
    record["joined"], record["cell"] = 1, FP32.itemsize
    record["inner_step"], record["padded"] = layout.row, padded
    record["in_line"] = layout.row == layout.format.itemsize
    record["at"], record["pitch"] = plan.offset(part), pitch
