"""How functions of rows are lowered: their plans to a program of the rows family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...formats import BF16, FP16, FP32, Format
from ...kernels.records import dtype_of
from ...ops.one_kernel import OneKernel, fill_cast, shared
from ...program import ComputeSet, Program, whole_lines
from .params import EACH_SEGMENT, MODES, RowOperand
from .plan import RowsPlan

_SPEC, _ITEM = dtype_of("pop_rows"), dtype_of("pop_rows_item")


def lower(plans: Sequence[RowsPlan], workspace: int = 0) -> OneKernel:
    """Return the program of functions of rows, one after another; the workspace is the operand after the last.

    What is told of it is told of the function that takes rows as they come; others are of a number for each channel.
    """
    made = [_lowered(plan) for plan in plans]
    most, arena = max(plan.threads for plan in plans), max(arena for _, arena, _ in made)
    program = Program(tuple(step for step, *_ in made), plans[0].params.arrays, most, arena, workspace,
                      tables=tuple(spec for *_, spec in made))
    main = next((plan for plan in plans if plan.params.op.wide), plans[0])
    decided = {"rows": main.words}
    if len(plans) > 1:
        decided["steps"] = ", then ".join(plan.selection.kernel.label for plan in plans)
    return OneKernel(main.params, program.executable(most), main.selection, (lower, (plans, workspace)), decided)


def _lowered(plan: RowsPlan) -> tuple[ComputeSet, int, Any]:
    """The vertices of one function, a thread's arena in bytes, the record."""
    p, spec = plan.params, np.zeros(1, _SPEC)
    for name in ("scale", "factor", "epsilon", "raw"):
        spec[name] = getattr(p, name)
    brief = p.op.brief and p.operands[0] is not None and p.operands[0].element in (FP16, BF16)
    spec["mode"] = MODES["brief" if brief else p.mode]
    spec["n"], spec["segments"] = plan.n, plan.segments
    for name in ("unit", "sharing", "interval") if plan.columns else ():
        spec[name] = getattr(plan.columns, name)
    for name, axes in (("kept", plan.kept), ("reduced", plan.reduced)):
        spec[f"{name}_count"] = len(axes)
        spec[name][0, :len(axes)] = [extent for extent, _ in axes]
    spec["codes"] = arena = _fill_operands(spec["operands"][0], plan)
    kernel = plan.selection.kernel
    return shared(kernel, _ITEM, spec, plan.units, plan.threads), arena + kernel.block[2], spec


def _fill_operands(slots: Any, plan: RowsPlan) -> int:
    """Fill in how operands are read and written; return how many bytes of the arena are taken then."""
    slots["operand"] = -1
    arena = plan.room
    for k, x in enumerate(plan.params.operands):
        if x is None:
            continue
        slot, at_once = slots[k], plan.at_once(k, x)
        _fill_layout(slot, x)
        for name, axes in (("kept", plan.kept), ("reduced", plan.reduced)):
            slot[name][:len(axes)] = [strides[k] for _, strides in axes]
        slot["constant"] = not x.written and not any(strides[k] for _, strides in plan.kept)
        slot["direct"], slot["turned"], slot["room"] = at_once, plan.turned(k, x), arena
        if at_once != 1:
            singles = plan.segments if x.single == EACH_SEGMENT else 1
            arena += whole_lines(4 * singles if x.single else 4 * plan.n * max(1, at_once))
    return arena


def _fill_layout(slot: Any, x: RowOperand) -> None:
    """How one operand is read or written, but for its strides."""
    element = x.element
    slot["operand"], slot["written"], slot["single"], slot["offset"] = x.operand, x.written, x.single, x.offset
    slot["code_bytes"] = element.itemsize
    if not isinstance(element, Format):
        slot["truths"] = element == np.bool_
    elif element != FP32 or x.exponent:
        fill_cast(slot, element, x.exponent, x.written)
