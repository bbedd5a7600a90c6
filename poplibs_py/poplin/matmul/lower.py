"""A host plan to a program: one record for all work items, and a table of rectangles over batch entries."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ...formats import FORMATS, FP32, Format
from ...kernels import select
from ...program import Executable
from ...target import Target
from . import _matmul
from ._matmul import ITEM, SPEC, Mode
from .options import ACTIVATIONS, MatmulOptions
from .params import MatmulParams, Operand
from .plan import Epilogue, HostPlan, plan_host, prepared_columns, row_pitch, sums_pitch

__all__ = ["Program", "format_record", "lower", "lower_prepare", "program_of"]

Array = np.ndarray[Any, Any]

_SPECIALS = {"ieee": 0, "nan_only": 1, "negative_zero": 2}
_OVERFLOW_NAN, _OVERFLOW_INFINITY = 1, 2  # as in convert.h


@cache
def format_record(f: Format, scale: int = 0) -> Array:
    """Return the kernels' record of a format (`pop_format` in convert.h), values scaled by 2^scale."""
    return np.array([f.exponent_bits, f.mantissa_bits, f.bias - scale, _SPECIALS[f.specials], f.subnormals], np.int32)


def _named(f: Format) -> str:
    return f.name if f in FORMATS else "custom"


class Program:
    """A lowered product: the executable, and the tables that its items point to.

    Attributes
    ----------
    plan : HostPlan
        What it follows.
    call : callable
        Runs on a, b, out and the bias where there is one.
    """

    __slots__ = ("_spec", "call", "plan")

    def __init__(self, plan: HostPlan, spec: Array, items: Array, vertex: int) -> None:
        self.plan = plan
        self._spec = spec  # the items hold its address
        tiles = np.arange(len(items)) * plan.threads // max(1, len(items))
        executable = Executable([[(vertex, items, tiles)]], 3 + (plan.params.bias is not None), plan.threads,
                                plan.scratch_bytes, 0, plan.threads)
        self.call: Callable[..., None] = executable
        if plan.exchanged:
            self.call = lambda a, b, *rest: executable(b, a, *rest)

    def run(self, a: Array, b: Array, out: Array, bias: Array | None) -> None:
        """Run on arrays that lie as planned."""
        if bias is None:
            self.call(a, b, out)
        else:
            self.call(a, b, out, bias)


@lru_cache(maxsize=1024)
def program_of(params: MatmulParams, options: MatmulOptions, epilogue: Epilogue, target: Target,
               fixed: HostPlan | None = None) -> Program:
    """Return the program of a product, planned and lowered the first time."""
    return lower(plan_host(params, options, epilogue, target, fixed))


def lower(plan: HostPlan) -> Program:
    """Lower a plan to a program."""
    spec = _spec(plan)
    return Program(plan, spec, _items(plan, spec), _matmul.VERTEX)


def lower_prepare(plan: HostPlan) -> Program:
    """Lower the packing of a plan's operand b; the program takes b, b again and the packed bytes."""
    spec = _spec(plan)
    items = np.zeros(1, ITEM)
    items["spec"], items["n"] = spec.ctypes.data, plan.params.n
    return Program(plan, spec, items, _matmul.PREPARE_VERTEX)


def _side(record: Any, plan: HostPlan, operand: Operand, mode: int, line: int, step: int, at: int) -> None:
    decode = select("dot", "decode", f"{_named(operand.format)}->{plan.panel}").kernel
    record["mode"] = mode
    record["decode"] = decode.address
    record["format"] = format_record(operand.format).ctypes.data
    record["item"] = operand.format.itemsize
    record["line"], record["step"], record["at"] = line, step, at


def _spec(plan: HostPlan) -> Array:
    p = plan.params
    spec = np.zeros(1, SPEC)
    s = spec[0]
    a_lines = (p.a.column, p.a.row) if plan.a_mode == Mode.TURNED else (p.a.row, p.a.column)
    b_lines = (p.b.column, p.b.row) if plan.b_mode in (Mode.TURNED, Mode.ALONG) else (p.b.row, p.b.column)
    _side(s["a"], plan, p.a, plan.a_mode, *a_lines, plan.offset("a"))
    _side(s["b"], plan, p.b, plan.b_mode, *b_lines, plan.offset("b"))
    s["multiply"] = plan.kernel.address
    s["transpose"] = select("dot", "transpose", "cells").kernel.address
    s["interleave"] = select("dot", "interleave", "bfloat16").kernel.address
    s["epilogue"] = select("dot", "epilogue", f"float32->{_named(p.out.format)}").kernel.address
    if plan.options.partials_type == "half":
        s["round_sums"] = select("dot", "round", "float16").kernel.address
    s["elements"], s["depth"], s["depth_grain"] = plan.elements, p.k, plan.kernel.grain[2]
    s["row_grain"] = plan.kernel.grain[0]
    s["rows_at_once"], s["cols_at_once"], _ = plan.kernel.block
    s["mc"], s["nc"], s["kc"] = plan.mc, plan.nc, plan.kc
    s["sums"], s["sums_at"], s["sums_row"] = plan.sums, plan.offset("sums"), sums_pitch(plan, plan.nc)
    s["stage_at"], s["bias_at"] = plan.offset("stage"), plan.offset("bias")
    s["pitch"], s["prepared_cols"] = row_pitch(plan, plan.mc), prepared_columns(plan)
    s["finish"] = p.bias is not None or plan.epilogue.activation is not None
    s["out_row"], s["out_col"] = p.out.row, p.out.column
    s["out_format"] = format_record(p.out.format).ctypes.data
    s["overflow"] = _OVERFLOW_INFINITY if p.out.format.has_infinity else _OVERFLOW_NAN
    s["activation"] = ACTIVATIONS.index(plan.epilogue.activation)
    s["alpha"], s["beta"] = plan.epilogue.alpha, plan.epilogue.beta
    if p.bias is not None:
        s["bias_decode"] = select("dot", "decode", f"{_named(p.bias)}->{FP32}").kernel.address
        s["bias_item"], s["bias_step"] = p.bias.itemsize, p.bias_step
        s["bias_format"], s["bias_per_row"] = format_record(p.bias).ctypes.data, p.bias_per_row
    return spec


def _shares(extent: int, parts: int, grain: int) -> list[tuple[int, int]]:
    """First and end of `parts` shares of an extent, whole grains where there are enough of them."""
    units = -(-extent // grain)
    ends = [min(extent, units * i // parts * grain) for i in range(parts + 1)]
    return [(first, end) for first, end in zip(ends, ends[1:], strict=False) if end > first]


def _offsets(batch: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Byte offset of each batch entry, entries in C order."""
    offsets = np.zeros(1, np.int64)
    for size, stride in zip(batch, strides, strict=True):
        offsets = (offsets[:, None] + np.arange(size, dtype=np.int64) * stride).ravel()
    return offsets


def _items(plan: HostPlan, spec: Array) -> Array:
    p = plan.params
    rows = _shares(p.m, plan.grid[0], plan.kernel.grain[0])
    cols = _shares(p.n, plan.grid[1], plan.kernel.block[1])
    rectangles = [(r, c) for r in rows for c in cols]
    items = np.zeros((p.entries, len(rectangles)), ITEM)
    items["spec"] = spec.ctypes.data
    entry = {"a": _offsets(p.batch, p.a.batch), "b": _offsets(p.batch, p.b.batch), "out": _offsets(p.batch, p.out.batch)}
    if p.bias is not None:
        entry["bias"] = _offsets(p.batch, p.bias_batch)
    for i, ((r0, r1), (c0, c1)) in enumerate(rectangles):
        column = 0 if plan.b_mode == Mode.PREPARED else c0 * p.b.column
        within = {"a": r0 * p.a.row, "b": column, "out": r0 * p.out.row + c0 * p.out.column, "bias": (r0 if p.bias_per_row else c0) * p.bias_step}
        for name, offsets in entry.items():
            items[name][:, i] = offsets + within[name]
        items["m"][:, i], items["n"][:, i], items["first_col"][:, i] = r1 - r0, c1 - c0, c0
    return items.ravel()
