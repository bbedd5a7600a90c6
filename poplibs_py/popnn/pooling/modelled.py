"""Poolings on modelled machines: which have vertices, and the plans of those that have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...formats import Format
from ...ops import Operand, Receiver, modelled_target
from ...popops.model import vector_of
from ...popops.plan import planned as planned_elementwise
from ...popops.tile_plan import TilePlan, joined
from ...target import Target
from ...target.types import type_of
from .field import Window, is_whole
from .params import PoolParams
from .plan import planned
from .request import Images

__all__ = ["planned_on"]


def planned_on(target: Target | str | None, op: str, kind: str, shape: Images, windows: Sequence[Window], include: bool,
               operands: Sequence[Operand], receiver: Receiver, *, scaled: bool = False) -> tuple[TilePlan | None, str]:
    """Return the plan on the modelled machine that a call runs on, None for this CPU; and what that machine lacks.

    Parameters
    ----------
    target : Target or str or None
        As the op takes it.
    op : str
        Its name.
    kind : {"max", "avg", "sum"}
    shape : Images
        Of the field.
    windows : sequence of Window
    include : bool
        Whether averages count padding.
    operands : sequence of Operand
    receiver : Receiver
    scaled : bool, optional
        Whether elements that are equal share a gradient.
    """
    word = type_of(receiver.format if isinstance(receiver.format, Format) else None)

    def missing(machine: Target) -> str:
        if word not in ("float", "half") or any(x.format != receiver.format or x.scale for x in operands):
            return f"of {', '.join(dict.fromkeys(str(x.format) for x in operands))} to {receiver.format}"
        if any(w.dilation != 1 or not w.kernel or _passes(w) for w in windows):
            return "of dilated windows, of those that pass the end, or that share a field out unevenly"
        if kind == "avg" and include and any(w.lower > 0 or w.upper > 0 for w in windows):
            return "of averages that count padding"
        if is_whole(windows):
            return "of windows that are the whole field, which are reductions"
        if 0 in shape.shape or 0 in shape.of(tuple(windows)).shape:
            return "of nothing"
        every = shape.channels * (shape.batch if op == "pool" else 1)
        return "" if every >= vector_of(machine, word) else f"of {every} channels"

    machine, lacking = modelled_target(target, f"popnn.{op}", missing)
    if machine is None:
        return None, lacking
    sides: dict[str, Any] = {"field": shape.field, "kernel": tuple(w.kernel for w in windows),
                             "stride": tuple(w.stride for w in windows),
                             "lower": tuple(w.lower for w in windows), "upper": tuple(w.upper for w in windows),
                             "channels": shape.channels, "batch": shape.batch, "data_type": word}
    if op == "pool":
        return planned(PoolParams(kind, "fwd", **sides), machine), ""
    plan = planned(PoolParams(kind, "bwd", **sides), machine)
    if not scaled and kind != "avg":
        return plan, ""
    before = [("scale", planned(PoolParams(kind, "scale", **sides), machine))] if scaled else []
    made = planned_elementwise("mul", "MULTIPLY", shape.of(tuple(windows)).shape, word, word, not scaled, machine,
                               (False, False))
    plans = [*before, ("multiply", made), ("compute", plan)]
    return joined(f"popnn.{op}", plan.problem, plans, plan.memory, plan.decisions), ""


def _passes(window: Window) -> bool:
    """Whether the last window passes the end of the padded field."""
    return (window.outputs - 1) * window.stride + window.span > window.inputs + window.lower + window.upper
