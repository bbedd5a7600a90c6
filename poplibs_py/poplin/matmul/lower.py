"""A host plan to a program: one record for all work items, and a table of rectangles over batch entries."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...errors import bad_argument
from ...formats import FORMATS, FP32, Format
from ...kernels import select
from ...program import Executable
from . import _matmul
from ._matmul import ITEM, SPEC, Mode, Sums
from .options import ACTIVATIONS
from .params import Operand
from .plan import HostPlan, row_pitch, sums_pitch

__all__ = ["Program", "format_record", "lower"]

_SPECIALS = {"ieee": 0, "nan_only": 1, "negative_zero": 2}
_LARGEST = 1 << 62


@cache
def format_record(f: Format, scale: int = 0) -> np.ndarray[Any, Any]:
    """Return the kernels' record of a format (`pop_format` in convert.h), values scaled by 2^scale."""
    return np.array([f.exponent_bits, f.mantissa_bits, f.bias - scale, _SPECIALS[f.specials], f.subnormals], np.int32)


def _named(f: Format) -> str:
    return f.name if f in FORMATS else "custom"


class Program:
    """A lowered product: the executable, and the tables that its items point to."""

    def __init__(self, plan: HostPlan, spec: np.ndarray[Any, Any], items: np.ndarray[Any, Any], vertex: int,
                 operands: int) -> None:
        self.plan = plan
        self._spec = spec
        tiles = np.arange(len(items)) * plan.threads // max(1, len(items))
        self.executable = Executable([[(vertex, items, tiles)]], operands, plan.threads, plan.scratch_bytes, 0,
                                     plan.threads)


def lower(plan: HostPlan) -> Program:
    """Lower a plan; the program's operands are a, b, out and the bias where there is one."""
    spec = _spec(plan)
    items = _items(plan, spec)
    return Program(plan, spec, items, _matmul.VERTEX, 3 + (plan.params.bias is not None))


def _side(record: Any, plan: HostPlan, operand: Operand, mode: int, line: int, step: int, at: int) -> None:
    decode = select("dot", "decode", f"{_named(operand.format)}->{plan.panel}").kernel
    record["mode"] = mode
    record["decode"] = decode.address
    record["format"] = format_record(operand.format).ctypes.data
    record["item"] = operand.format.itemsize
    record["line"], record["step"], record["at"] = line, step, at


def _spec(plan: HostPlan) -> np.ndarray[Any, Any]:
    p = plan.params
    spec = np.zeros(1, SPEC)
    s = spec[0]
    a_lines = (p.a.column, p.a.row) if plan.a_mode == Mode.TURNED else (p.a.row, p.a.column)
    b_lines = (p.b.column, p.b.row) if plan.b_mode == Mode.TURNED else (p.b.row, p.b.column)
    _side(s["a"], plan, p.a, plan.a_mode, *a_lines, plan.offset("a"))
    _side(s["b"], plan, p.b, plan.b_mode, *b_lines, plan.offset("b"))
    s["multiply"] = plan.kernel.address
    s["transpose"] = select("dot", "transpose", "cells").kernel.address
    s["interleave"] = select("dot", "interleave", "bfloat16").kernel.address
    s["epilogue"] = select("dot", "epilogue", f"float32->{_named(p.out.format)}").kernel.address
    s["elements"], s["depth"], s["depth_grain"] = plan.elements, p.k, plan.kernel.grain[2]
    s["row_grain"] = plan.kernel.grain[0]
    s["rows_at_once"], s["cols_at_once"], _ = plan.kernel.block
    s["mc"], s["nc"], s["kc"] = plan.mc, plan.nc, plan.kc
    s["sums"], s["sums_at"], s["sums_row"] = plan.sums, plan.offset("sums"), sums_pitch(plan, plan.nc)
    s["stage_at"], s["bias_at"] = plan.offset("stage"), plan.offset("bias")
    s["pitch"] = row_pitch(plan, plan.mc)
    s["finish"] = p.bias is not None or plan.epilogue.activation is not None
    s["out_row"], s["out_col"] = p.out.row, p.out.column
    s["out_format"] = format_record(p.out.format).ctypes.data
    s["overflow"] = 2 if p.out.format.has_infinity else 0
    s["activation"] = ACTIVATIONS.index(plan.epilogue.activation)
    s["alpha"], s["beta"] = plan.epilogue.alpha, plan.epilogue.beta
    if p.bias is not None:
        s["bias_decode"] = select("dot", "decode", f"{_named(p.bias)}->{FP32}").kernel.address
        s["bias_item"], s["bias_step"] = p.bias.itemsize, p.bias_step
        s["bias_format"] = format_record(p.bias).ctypes.data
    return spec


def _shares(extent: int, parts: int, grain: int) -> list[tuple[int, int]]:
    """First and end of `parts` shares of an extent, whole grains where there are enough of them."""
    units = -(-extent // grain)
    ends = [min(extent, units * i // parts * grain) for i in range(parts + 1)]
    return [(first, end) for first, end in zip(ends, ends[1:], strict=False) if end > first]


def _offsets(batch: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Byte offset of each batch entry, entries in C order."""
    offsets = np.zeros(1, np.int64)
    for size, stride in zip(batch, strides, strict=True):
        offsets = (offsets[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return offsets


def _items(plan: HostPlan, spec: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    p = plan.params
    rows = _shares(p.m, plan.grid[0], plan.kernel.grain[0])
    cols = _shares(p.n, plan.grid[1], plan.kernel.block[1])
    rectangles = [(r, c) for r in rows for c in cols]
    if p.entries * len(rectangles) > _LARGEST:
        raise bad_argument("batch", p.batch, "fewer entries")
    items = np.zeros((p.entries, len(rectangles)), ITEM)
    items["spec"] = spec.ctypes.data
    entry = {"a": _offsets(p.batch, p.a.batch), "b": _offsets(p.batch, p.b.batch), "out": _offsets(p.batch, p.out.batch)}
    if p.bias is not None:
        entry["bias"] = _offsets(p.batch, p.bias_batch)
    for i, ((r0, r1), (c0, c1)) in enumerate(rectangles):
        column = 0 if plan.b_mode == Mode.PREPARED else c0 * p.b.column
        within = {"a": r0 * p.a.row, "b": column, "out": r0 * p.out.row + c0 * p.out.column, "bias": c0 * p.bias_step}
        for name, offsets in entry.items():
            items[name][:, i] = offsets + within[name]
        items["m"][:, i], items["n"][:, i], items["first_col"][:, i] = r1 - r0, c1 - c0, c0
    return items.ravel()
