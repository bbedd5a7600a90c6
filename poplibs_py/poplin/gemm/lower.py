"""A host plan to a program: one record for all work items, and a table of rectangles over batch entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...formats import FP32, Array, Format
from ...kernels import select
from ...kernels.records import ACTIVATIONS, dtype_of, format_facts, infinite_overflow, kernel_format
from ...memo import remembered
from ...ops import VALUES, OwnNumber
from ...program import Executable, Segment, host_program, spread
from . import _gemm
from ._gemm import ITEM, SPEC, Mode, Sums
from .params import MatrixLayout
from .plan import (
    HALF_PARTIALS_DEPTH,
    Epilogue,
    GemmPlan,
    panel_bytes,
    prepared_bytes,
    prepared_cells,
    row_pitch,
    stage_of,
    sums_pitch,
)

_records: dict[tuple[Format, int], Array] = {}
_A, _B, _OUT, _BIAS, _A_SCALES, _B_SCALES, _WHOLE, _WORDS = range(8)  # a program's operands, in order


def format_record(f: Format, scale: int = 0) -> Array:
    """Return the kernels' record of a format (`pop_format`), values scaled by 2^scale.

    There is one for each format and scale, and it stays: programs hold its address.
    """
    record = _records.get((f, scale))
    if record is None:
        record = np.array(format_facts(f, scale), dtype_of("pop_format"))
        record = _records.setdefault((f, scale), record)  # the same for threads that meet here
    return record


def fill_decoding(record: Any, f: Format, scale: int, compute: Format, scaled: bool) -> None:
    """Fill in how an operand is decoded, `scaled` by 2^scale or by scales of blocks."""
    record["decode"] = select("dot", "decode", f"{kernel_format(f, scaled)}->{compute}").kernel.address
    record["format"], record["item"] = format_record(f, scale).ctypes.data, f.itemsize


def fill_finish(record: Any, out: Format, scale: int, epilogue: Epilogue, bias: MatrixLayout | None = None,
                words: int = 0) -> None:
    """Fill in what happens to sums on their way out, and how a bias is decoded if there is one.

    `words` is the operand of the words that each call has of its own, where the epilogue takes them.
    """
    record["epilogue"] = select("dot", "epilogue", f"{FP32}->{kernel_format(out, scale != 0)}").kernel.address
    record["out_format"], record["overflow"] = format_record(out, scale).ctypes.data, infinite_overflow(out)
    record["activation"] = ACTIVATIONS.index(epilogue.activation)
    for name, by in (("alpha", epilogue.alpha), ("beta", epilogue.beta)):
        record[name] = (0.0, words, *by) if isinstance(by, OwnNumber) else (by, 0, 0, 0)
    if bias is not None:
        record["bias_decode"] = select("dot", "decode", f"{bias.format}->{FP32}").kernel.address
        record["bias_item"], record["bias_format"] = bias.format.itemsize, format_record(bias.format).ctypes.data


@dataclass(frozen=True, eq=False)
class Lowered:
    """A product lowered.

    Attributes
    ----------
    plan : GemmPlan
        What it follows.
    executable : Executable
        Its operands are those of `arrange`.
    """

    plan: GemmPlan
    executable: Executable

    def arrange(self, a: Any, b: Any, out: Any, bias: Any = None, a_scales: Any = None, b_scales: Any = None,
                whole: Any = None) -> tuple[Any, ...]:
        """Return operands in the executable's order; `whole` is the operand that was prepared, as it was before.

        Where the epilogue takes the call's words, these are the last.
        """
        if self.plan.swapped:
            a, b, a_scales, b_scales = b, a, b_scales, a_scales
        words = self.plan.epilogue.takes_words
        if a_scales is None and b_scales is None and whole is None and not words:
            return (a, b, out) if bias is None else (a, b, out, bias)
        held = (x if x is not None else a for x in (bias, a_scales, b_scales, whole))
        return (a, b, out, *held, *(VALUES,) * words)

    def told(self) -> tuple[str, str, GemmPlan]:
        """Return what runs, for a reader, its kernel, and the plan."""
        p, kernel = self.plan.product, self.plan.kernel
        entries = f"{p.entries} x " if p.batch else ""
        what = f"{entries}[{p.m}, {p.k}] x [{p.k}, {p.n}] {p.a.format} x {p.b.format}"
        return what, kernel.label, self.plan


def _lowered(plan: GemmPlan, specs: list[Array], items: Array, vertex: int, operands: int) -> Lowered:
    rectangles = Segment(vertex, items, spread(len(items), plan.threads))  # they hold addresses of the specs
    return Lowered(plan, host_program((rectangles,), operands=operands, threads=plan.threads,
                                      arena_bytes=plan.scratch_bytes, tables=tuple(specs)))


@remembered()
def lower(plan: GemmPlan) -> Lowered:
    """Lower a plan to a program."""
    p = plan.params
    extra = bool(p.a.scales or p.b.scales or (plan.b_mode == Mode.PREPARED and plan.fallback))
    words = _WORDS if plan.epilogue.takes_words else 0
    operands = words + 1 if words else _WHOLE + 1 if extra else _BIAS + 1 if p.bias is not None else _BIAS
    items, tables = items_of(plan, words=words)
    return _lowered(plan, tables, items, _gemm.VERTEX, operands)


def items_of(plan: GemmPlan, a_operand: int = _A, b_operand: int = _B, old: int = 0,
             words: int = 0) -> tuple[Array, list[Array]]:
    """Return a plan's rectangles, and the tables that they point to; the program has A and B as those operands.

    `old` is the operand that beta multiplies: 0 for the result itself; `words` that of the call's words.
    """
    spec = kernel_record(plan, a_operand, b_operand, old, words)
    tables = [spec]
    if plan.fallback:
        b_whole = _WHOLE if plan.b_mode == Mode.PREPARED else b_operand
        whole = kernel_record(plan.fallback, a_operand, b_whole, old, words)
        tables.append(whole)
        spec["fallback"] = whole.ctypes.data
    fields = _fields(plan)
    items = _items(plan, spec)
    for name, record in fields.items():
        items[f"{name}_field"] = record.ctypes.data
    return items, [*tables, *fields.values()]


def lower_prepare(plan: GemmPlan) -> Lowered:
    """Lower the packing of a plan's operand b; the program takes that operand, the same again and the packed bytes."""
    items, tables = prepare_items(plan)
    operands = _WHOLE + 1 if plan.params.b.scales else _BIAS
    return _lowered(plan, tables, items, _gemm.PREPARE_VERTEX, operands)


def prepare_items(plan: GemmPlan, matrices: int = 1, panels: int = 0) -> tuple[Array, list[Array]]:
    """Return the items that pack a plan's operand b, and the tables that they point to.

    There may be several matrices, along the last batch axis; their panels begin `panels` bytes from the result's start.
    """
    spec = kernel_record(plan)
    if plan.parts[1] > 1:
        spec["b"]["low"] = _prepared_part(plan)
    items = np.zeros(matrices, ITEM)
    items["spec"], items["n"] = spec.ctypes.data, plan.params.n
    items["b_panels"] = panels + np.arange(matrices) * prepared_bytes(plan)
    items["b"] = plan.params.b.offset
    if matrices > 1:
        items["b"] += np.arange(matrices) * plan.params.b.batch[-1]
    fields = _fields(plan)
    if "b" in fields:
        items["b_field"] = fields["b"].ctypes.data
    return items, [spec, *fields.values()]


def _fields(plan: GemmPlan) -> dict[str, Array]:
    """The frame's records of fields."""
    p = plan.params
    return {name: x.field.record for name, x in (("a", p.a), ("b", p.b), ("out", p.out)) if x.field is not None}


def _side(record: Any, plan: GemmPlan, side: int, operand_number: int) -> None:
    """Fill in one operand: how it is decoded, how it lies, where its panels and stages are."""
    operand = (plan.params.a, plan.params.b)[side]
    mode = (plan.a_mode, plan.b_mode)[side]
    by_columns = mode in (Mode.TRANSPOSED, Mode.ALONG)
    fill_decoding(record, operand.format, operand.scale, plan.compute_format, not operand.plain)
    record["mode"], record["operand"] = mode, operand_number
    bytes_to_cells = plan.elements == 2 and operand.format.itemsize == 1
    if not operand.scales:
        name = f"{kernel_format(operand.format, not operand.plain)}->{plan.compute_format}"
        for op, known in (("pair", bytes_to_cells), ("lines", bytes_to_cells or plan.elements == 1)):
            record[op] = select("dot", op, name).kernel.address if known else 0
    record["copied"] = operand.format == plan.compute_format and operand.plain
    record["line"], record["step"] = operand.row, operand.column
    record["at"] = plan.offset("ab"[side])
    low, gather, _ = stage_of(plan, side)
    record["stage_low"], record["gather_at"] = low, gather
    if plan.parts[side] > 1:
        record["low"] = _prepared_part(plan) if mode == Mode.PREPARED else panel_bytes(plan, side)
    record["scales"] = -1
    if operand.scales:
        s = operand.scales
        record["scales"] = (_A_SCALES, _B_SCALES)[side]
        record["scale_line"], record["scale_step"] = s.row, s.column
        record["block_lines"], record["block_steps"] = s.block_rows, s.block_columns
    if by_columns:
        for one, other in (("line", "step"), ("scale_line", "scale_step"), ("block_lines", "block_steps")):
            record[one], record[other] = record[other], record[one]


def _prepared_part(plan: GemmPlan) -> int:
    return prepared_bytes(plan) // plan.parts[1]


def kernel_record(plan: GemmPlan, a_operand: int = _A, b_operand: int = _B, old: int = 0, words: int = 0) -> Array:
    """Return the record that a plan's work items share; the operands' numbers are as for `items_of`."""
    p = plan.params
    assert plan.even or p.out.parts == (0, 0), "only sums of windows are written in parts"
    spec = np.zeros(1, SPEC)
    s = spec[0]
    _side(s["a"], plan, 0, a_operand)
    _side(s["b"], plan, 1, b_operand)
    kernel, s["panels"] = plan.call
    s["multiply"] = kernel.address
    if plan.kernel.takes_tiles:
        s["begin"], s["end"] = (select("dot", op, plan.compute_format.name).kernel.address for op in ("begin", "end"))
    s["skip_lows"] = plan.options.half_passes == 3
    s["transpose"] = select("dot", "transpose", "cells").kernel.address
    s["interleave"] = select("dot", "interleave", "bfloat16").kernel.address
    if plan.options.partials_type == "half":
        s["round_sums"] = select("dot", "round", "float16").kernel.address
    s["elements"], s["depth"], s["depth_grain"] = plan.elements, p.k, plan.kernel.grain[2]
    s["row_grain"] = plan.kernel.grain[0]
    s["rows_at_once"], s["cols_at_once"], _ = plan.kernel.block
    if plan.kernel.op == "multiply_dots" and plan.a_mode == Mode.DIRECT and plan.sums == Sums.IN_PLACE:
        s["rows_at_once"] = plan.mc  # sums along the depth are a row's alone: one call of the kernel for a block
    s["mc"], s["nc"], s["kc"], s["packed_rows"] = plan.mc, plan.nc, plan.kc, plan.packed_rows
    s["round_depth"], s["round_lap"] = HALF_PARTIALS_DEPTH, max(1, p.k)
    s["sums"], s["sums_at"], s["sums_row"] = plan.sums, plan.offset("sums"), sums_pitch(plan, plan.nc)
    s["other_sums"] = plan.tiles_of_sums // 2 * plan.kernel.block[0] * sums_pitch(plan, plan.nc)
    s["stage_at"], s["bias_at"] = plan.offset("stage"), plan.offset("bias")
    s["pitch"], s["prepared_cells"] = row_pitch(plan), prepared_cells(plan)
    if plan.neighbours:
        _, s["taps"], s["taps_apart"], s["width"] = plan.neighbours
        s["line_pitch"] = plan.neighbours.pitch(plan.nc)
    _finish(s, plan, words)
    s["old"] = old
    return spec


def _finish(s: Any, plan: GemmPlan, words: int) -> None:
    """Fill in the epilogue."""
    p = plan.params
    s["look_ahead"], s["panels_ahead"] = plan.looks_ahead, plan.panels_ahead
    s["finish"] = p.bias is not None or plan.epilogue.activation is not None
    s["narrow"] = plan.narrow
    s["out_cols"], s["out_part"] = p.out.parts
    s["out_row"], s["out_col"] = 0 if p.out.field and p.out.column else p.out.row, p.out.column
    fill_finish(s, p.out.format, p.out.scale, plan.epilogue, p.bias, words)
    if p.bias is not None:
        s["bias_step"], s["bias_per_row"] = p.bias.row or p.bias.column, p.bias_per_row


def shares(extent: int, parts: int, grain: int) -> list[tuple[int, int]]:
    """Return first and end of `parts` shares of an extent, whole grains where there are enough of them."""
    units = -(-extent // grain)
    ends = [min(extent, units * i // parts * grain) for i in range(parts + 1)]
    return [(first, end) for first, end in pairwise(ends) if end > first]


def offsets(extents: Sequence[int], strides: Sequence[int]) -> Array:
    """Return the byte offset of each entry of an array, entries in C order."""
    found = np.zeros(1, np.int64)
    for size, stride in zip(extents, strides, strict=True):
        found = (found[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return found


def _items(plan: GemmPlan, spec: Array) -> Array:
    p = plan.params
    rows = shares(p.m, plan.grid[0], plan.kernel.grain[0])
    cols = shares(p.n, plan.grid[1], plan.kernel.block[1])
    rectangles = [(r, c) for r in rows for c in cols]
    items = np.zeros((p.entries, len(rectangles)), ITEM)
    items["spec"] = spec.ctypes.data
    entry = {"a": p.a, "b": p.b, "out": p.out, **({} if p.bias is None else {"bias": p.bias})}
    starts = {name: x.offset + offsets(p.batch, x.batch) for name, x in entry.items()}
    for name, operand in (("a_scale", p.a), ("b_scale", p.b)):
        if operand.scales:
            items[name] = offsets(p.batch, operand.scales.batch)[:, None]
    for i, ((r0, r1), (c0, c1)) in enumerate(rectangles):
        within = {  # a field's positions are counted from first_row and first_col
            "a": 0 if p.a.field else r0 * p.a.row,
            "b": 0 if p.b.field else c0 * p.b.column,
            "out": (0 if p.out.field else r0 * p.out.row) + c0 * p.out.column,
            "bias": r0 * p.bias.row + c0 * p.bias.column if p.bias else 0,
        }
        for name, start in starts.items():
            items[name][:, i] = start + within[name]
        for name, value in (("m", r1 - r0), ("n", c1 - c0), ("first_row", r0), ("first_col", c0)):
            items[name][:, i] = value
    return items.ravel()
