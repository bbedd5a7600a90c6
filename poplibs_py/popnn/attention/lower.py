"""How attention is lowered: a plan to a program of the attention family, which calls the kernels of dense products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...formats import BF16, FP32, Format
from ...kernels import select
from ...kernels.records import dtype_of, format_facts, kernel_format
from ...log import tell
from ...memo import remembered
from ...ops.one_kernel import fill_cast, shared
from ...program import Executable, Program
from .params import HeadsLayout
from .plan import AttentionPlan

_SPEC, _ITEM = dtype_of("pop_attention"), dtype_of("pop_attention_item")
_FIELDS = ("q", "k", "v", "mask", "y", "lse", "grad", "q_grad", "k_grad", "v_grad")


def _fill(slot: Any, x: HeadsLayout, compute: Format) -> None:
    """How one operand is read or written."""
    slot["operand"], slot["width"], slot["bytes"] = x.operand, x.width, x.bytes
    slot["batch"], slot["head"], slot["token"] = x.batch, x.head, x.token
    if x.format is None:
        return
    fmt, name = x.format, kernel_format(x.format)
    slot["format"] = format_facts(fmt, x.exponent)
    if not x.written:
        slot["copied"] = fmt == compute and not x.exponent
        if compute == FP32 or fmt == BF16:
            slot["decode"] = select("dot", "decode", f"{name}->{compute.name}").kernel.address
    if fmt != FP32 or x.exponent:
        fill_cast(slot, fmt, x.exponent, x.written)


@dataclass(frozen=True, eq=False)
class LoweredAttention:
    """A call of attention lowered."""

    plan: AttentionPlan
    executable: Executable

    def told(self) -> tuple[str, str, AttentionPlan]:
        """Return what runs, for a reader, its kernel, and the plan."""
        return str(self.plan.params), self.plan.kernel.label, self.plan


@remembered()
def lower(plan: AttentionPlan) -> LoweredAttention:
    """Lower a plan to a program."""
    p, kernel, compute = plan.params, plan.product.kernel, plan.compute_format
    spec = np.zeros(1, _SPEC)
    for name, value in (*plan.places.items(), *plan.lines.items(), *plan.walk._asdict().items()):
        spec[name] = value
    spec["multiply"], spec["elements"] = kernel.address, plan.elements
    spec["transpose"] = select("dot", "transpose", "cells").kernel.address
    spec["interleave"] = select("dot", "interleave", "bfloat16").kernel.address
    if kernel.takes_tiles:
        spec["begin"], spec["end"] = (select("dot", op, compute.name).kernel.address for op in ("begin", "end"))
    spec["rows_at_once"], spec["cols_at_once"] = kernel.block[:2]
    spec["row_grain"], spec["depth_grain"] = kernel.grain[0], kernel.grain[2]
    spec["panel"], spec["panel_rows"] = plan.panel, plan.panel_rows
    for name in ("heads", "shares", "queries", "keys", "causal", "scale", "patterns"):
        spec[name] = getattr(p, name)
    spec["origin"], spec["kept"] = p.query_offset, plan.kept
    spec["offsets"], spec["columns"] = (-1, -1) if p.block_shape is None else (p.arrays - 2, p.arrays - 1)
    for name in _FIELDS:
        spec[name]["operand"] = -1
        x = p.lies(name)
        if x is not None:
            _fill(spec[name][0], x, compute if name in ("q", "k", "v", "grad") else FP32)
    spec["in_place"] = plan.values_in_place
    for name, own in plan.in_place.items():
        spec[name] = own.address
    mask = p.lies("mask")
    spec["truths"] = mask is not None and mask.format is None
    step = shared(plan.kernel, _ITEM, spec, plan.units, plan.threads)
    program = Program((step,), p.arrays, plan.threads, plan.scratch_bytes, tables=(spec,))
    made = LoweredAttention(plan, program.executable(plan.threads))
    tell("popnn", made)
    return made
