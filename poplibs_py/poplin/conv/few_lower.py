"""A convolution with few channels in a group to work items: boxes of images, or some groups' gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...formats import FP32, Array
from ...kernels import select
from ...kernels.records import FORMAT_NUMBERS, kernel_format
from ...program import Segment, spread
from ..gemm.lower import fill_decoding, fill_finish, format_record
from ._conv import BOX, ITEM, SPEC, VERTEX
from ._side import LANES, Side, by_columns
from .few import FewPlan
from .params import WORDS


def few_segments(plans: Sequence[FewPlan]) -> list[tuple[Segment, list[Array]]]:
    """Return work items of plans, and the tables that they point to: phases in bands are one segment."""
    in_bands = [plan for plan in plans if plan.in_bands]
    made = [_bands(in_bands)] if in_bands else []
    for plan in plans:
        if not plan.in_bands:
            items, tables = _lowered(plan)
            made.append((Segment(VERTEX, items, spread(len(items), plan.threads)), tables))
    return made


def _bands(plans: Sequence[FewPlan]) -> tuple[Segment, list[Array]]:
    """Phases that all take a band of an image before the next."""
    made = [_lowered(plan) for plan in plans]
    items = np.concatenate([items for items, _ in made])
    places = np.concatenate([_places(plan)[items["first"]] for plan, (items, _) in zip(plans, made, strict=True)])
    items = items[np.argsort(places, kind="stable")]
    threads = max(plan.threads for plan in plans)
    return Segment(VERTEX, items, spread(len(items), threads)), [table for _, tables in made for table in tables]


def _places(plan: FewPlan) -> Array:
    """The band that each box is in, of all images; small images are in one."""
    bands: Array = np.array([box.first[0] // plan.band for box in plan.boxes])
    images: Array = np.arange(plan.outer[0])[:, None] // max(1, plan.band // max(1, plan.dims[0].positions))
    places: Array = images * (bands.max(initial=0) + 1) + bands
    return places.ravel()


def _lowered(plan: FewPlan) -> tuple[Array, list[Array]]:
    """A plan's items and tables."""
    spec, tables = _spec(plan)
    boxes = np.zeros(max(1, len(plan.boxes)), BOX)
    for record, box in zip(boxes, plan.boxes, strict=False):
        n = len(box.first)
        record["first"][:n], record["count"][:n] = box.first, box.count
        record["in_place"], record["empty"] = box.in_place, box.empty
    spec["box"], spec["boxes"] = boxes.ctypes.data, len(plan.boxes)
    items = _items(plan)
    items["spec"] = spec.ctypes.data
    return items, [spec, boxes, *tables]


def _items(plan: FewPlan) -> Array:
    call = plan.call
    first = np.arange(0, plan.all_blocks, plan.blocks)
    ends = _ends(plan, 1 if plan.shares_positions else len(first))
    items = np.zeros((len(first), len(ends) - 1), ITEM)
    items["first"], items["count"] = ends[:-1], np.diff(ends)
    groups = (first * plan.together)[:, None]
    items["first_block"] = first[:, None]
    items["blocks"] = np.minimum(plan.blocks, plan.all_blocks - first)[:, None]
    items["x"] = groups * call.x.group + call.x.offset + sum(part.x for part in plan.parts)
    weights = call.weights.offset + sum(part.weights for part in plan.parts)
    items["w"] = groups * call.weights.group + weights if plan.run is None else (weights - plan.run[0]) * plan.widened
    items["out"] = groups * call.out.group + call.out.offset + sum(part.out for part in plan.parts)
    if call.bias is not None:
        items["bias"] = groups * call.bias.batch[-1] + call.bias.offset
    return items.ravel("F" if plan.shares_positions else "C")


def _ends(plan: FewPlan, chunks: int) -> Array:
    """Where each item's boxes end, of all images: equal shares of the work, as many as threads want, or bands."""
    sizes = [box.size * (1 if box.empty else 1 + plan.taps) for box in plan.boxes]
    done = np.cumsum(np.tile(np.array(sizes, float), plan.outer[0]))
    shares = min(len(done), -(-plan.threads // chunks)) if plan.threads > 1 else 1
    ends = np.searchsorted(done, done[-1] * np.arange(1, shares) / shares * (1 - 1e-9)) + 1
    bands: Array | list[int] = np.flatnonzero(np.diff(_places(plan))) + 1 if plan.in_bands else []
    return np.unique(np.concatenate([[0], ends, bands, [len(done)]])).astype(int)


def _spec(plan: FewPlan) -> tuple[Array, list[Array]]:
    """The record that a plan's items share, and the tables that it points to."""
    call, p = plan.call, plan.call.params
    spec = np.zeros(1, SPEC)
    s = spec[0]
    s[plan.tile.slot] = plan.kernel.address
    for name in plan.tile.holds:
        s[name] = True
    s["reorder"] = select("conv", "reorder", "float32").kernel.address
    s["transpose"] = select("dot", "transpose", "cells").kernel.address
    tables = [_side(s["x"], plan.x, plan, "images"), _side(s["w"], plan.w, plan, "weights")]
    if plan.w_in_place:
        s["w"]["at"] = 0
    s["over_taps"], s["rank"] = plan.over_taps, len(plan.parts)
    for number, part in enumerate(plan.parts):
        dim = part.dim
        s["dims"][number] = (dim.positions, dim.taps, dim.step, dim.tap_step, dim.first, dim.end, dim.stride,
                             part.taps.stride * plan.widened, dim.out_stride)
    s["positions"], s["taps"] = plan.positions, plan.taps
    s["groups"], s["together"], s["channels"], s["vectors"] = p.groups, plan.together, p.out_channels, plan.vectors
    s["x_image"], s["w_image"], s["out_image"] = plan.outer[1], call.weights.channel, call.out.row
    s["w_lane"], s["w_inner"] = call.weights.row * plan.widened, call.weights.channel * plan.widened
    if plan.run:
        w = call.weights
        s["run_first"], s["run"], s["run_at"] = *plan.run, plan.offset("run")
        name = f"{kernel_format(w.format, w.scale != 0)}->{plan.w.compute}"
        s["run_decode"] = select("dot", "decode", name).kernel.address
        s["run_format"] = format_record(w.format, w.scale).ctypes.data
    s["w_lines"], s["look_ahead"] = plan.weights_in_line, plan.looks_ahead
    s["out_group"], s["out_channel"], s["out_inner"] = call.out.group, plan.out_channel, call.out.row
    s["compact"], s["direct"], s["streams"] = plan.compact, plan.direct, plan.streams
    s["turned"], s["tile_out"] = plan.turned, FORMAT_NUMBERS[call.out.format.name if plan.narrow else FP32.name]
    order = plan.order
    if order is not None:
        s["order"] = order.ctypes.data
        tables.append(order)
    s["capacity"], s["sums_at"] = plan.capacity, plan.offset("sums")
    s["sums_pitch"] = 4 * LANES * plan.blocks * plan.vectors
    s["tables_at"], s["room_at"], s["bias_at"] = plan.offset("tables"), plan.offset("room"), plan.offset("bias")
    _finish(s, plan)
    return spec, tables


def _side(record: Any, side: Side, plan: FewPlan, part: str) -> Array:
    """Fill in an operand; return the order of a block's numbers in scratch, where groups run fastest."""
    fill_decoding(record, side.format, side.scale, side.compute, side.scale != 0)
    record["item"], record["joined"], record["cell"] = side.item, side.joined, side.cell
    record["group"], record["inner_step"], record["inner"] = side.group, side.inner_step, side.inner
    record["padded"], record["in_line"] = side.padded, side.in_line
    record["at"], record["pitch"] = plan.offset(part), side.pitch(plan.blocks)
    order = by_columns(side.together, side.inner)
    if side.ordered:
        record["order"] = order.ctypes.data
    return order


def _finish(s: Any, plan: FewPlan) -> None:
    """Fill in the epilogue."""
    out, bias = plan.call.out, plan.call.bias
    fill_finish(s, out.format, out.scale, plan.epilogue, bias, WORDS)
    name, plain = kernel_format(out.format, out.scale != 0), plan.epilogue.activation in (None, "relu")
    beside = plan.turned or plan.out_channel == out.format.itemsize
    if name != "any" and plain and plan.epilogue.plain and beside:
        s["epilogue"] = select("conv", "finish", f"{FP32}->{name}").kernel.address
    if bias is not None:
        s["bias_group"], s["bias_channel"] = bias.batch[-1], bias.column
