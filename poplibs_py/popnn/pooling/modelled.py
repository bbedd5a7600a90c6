"""Poolings on modelled machines: which have vertices, and the plans of those that have."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...formats import Format
from ...ops import Operand, Placed, Receiver, place_of
from ...planner.tile_plan import TilePlan
from ...popops.reductions.compose import StepsBuilder
from ...popops.reductions.modelled import plan_reduction
from ...target import Target, TargetLike
from ...target.types import type_of, vector_of
from .field import Window, is_whole
from .kinds import KINDS
from .params import PoolParams
from .plan import planned
from .request import Images


def place_of_pooling(op: str, target: TargetLike, kind: str, shape: Images, windows: tuple[Window, ...], include: bool,
                     operands: Sequence[Operand], receiver: Receiver, *, scaled: bool = False) -> Placed[TilePlan]:
    """Return where a call runs.

    Parameters
    ----------
    op : str
        Its name.
    target : Target or str or None
        As the op takes it.
    kind : {"max", "avg", "sum"}
    shape : Images
        Of the field.
    windows : tuple of Window
    include : bool
        Whether averages count padding.
    operands : sequence of Operand
    receiver : Receiver
    scaled : bool, optional
        Whether elements that are equal share a gradient.
    """
    word = type_of(receiver.format if isinstance(receiver.format, Format) else None)

    def plan_on(machine: Target) -> TilePlan | str:
        lacking = _lacks(op, kind, shape, windows, include, word, machine)
        if word not in ("float", "half") or any(x.format != receiver.format or x.scale for x in operands):
            lacking = f"of {', '.join(dict.fromkeys(str(x.format) for x in operands))} to {receiver.format}"
        if lacking:
            return lacking
        if is_whole(windows):
            return _whole(op, kind, shape, word, machine)
        return _pooled(op, kind, shape, windows, word, scaled, machine)

    return place_of(f"popnn.{op}", target, plan_on)


def _lacks(op: str, kind: str, shape: Images, windows: tuple[Window, ...], include: bool, word: str,
           machine: Target) -> str:
    """What no vertex does, in words."""
    if any(w.dilation != 1 for w in windows):
        return "of dilated windows"
    if not all(w.kernel for w in windows):
        return "of windows that share a field out unevenly"
    if any(_passes(w) for w in windows):
        return "of windows that pass the end"
    if KINDS[kind].divides and include and any(w.lower > 0 or w.upper > 0 for w in windows):
        return "of averages that count padding"
    if is_whole(windows) and op == "pool_input_gradient" and KINDS[kind].chooses:
        return "for the gradient of windows that are the whole field"
    if 0 in shape.shape or 0 in shape.of(windows).shape:
        return "of nothing"
    every = shape.channels * (shape.batch if op == "pool" else 1)
    return "" if is_whole(windows) or not word or every >= vector_of(machine, word) else f"of {every} channels"


def _passes(window: Window) -> bool:
    """Whether the last window passes the end of the padded field."""
    return (window.outputs - 1) * window.stride + window.span > window.inputs + window.lower + window.upper


def _whole(op: str, kind: str, shape: Images, word: str, machine: Target) -> TilePlan:
    """A window that is the whole field: a reduction, and its gradient a copy to all of the field."""
    own = KINDS[kind]
    if op == "pool":
        return plan_reduction("popnn.pool", own.vertex, shape.shape, shape.field_axes, (word, word), machine,
                              scaled=own.divides)
    made, rows = StepsBuilder(machine, word), shape.batch * shape.channels
    if own.divides:
        made.elementwise("multiply", "MULTIPLY", rows, operands=2, number=True)
    made.copy("spread", rows * shape.elements)
    return made.plan(f"{kind} pooling gradient of a whole field {shape.shape}, {word}", reads=rows,
                     writes=rows * shape.elements)


def _pooled(op: str, kind: str, shape: Images, windows: tuple[Window, ...], word: str, scaled: bool,
            machine: Target) -> TilePlan:
    sides: dict[str, Any] = {"field": shape.field, "kernel": tuple(w.kernel for w in windows),
                             "stride": tuple(w.stride for w in windows), "lower": tuple(w.lower for w in windows),
                             "upper": tuple(w.upper for w in windows), "channels": shape.channels,
                             "batch": shape.batch, "data_type": word}
    if op == "pool":
        return planned(PoolParams(kind, "fwd", **sides), machine)
    plan = planned(PoolParams(kind, "bwd", **sides), machine)
    if not scaled and not KINDS[kind].divides:
        return plan
    made = StepsBuilder(machine, word)
    if scaled:
        made.take(planned(PoolParams(kind, "scale", **sides), machine).steps, "scale")
    made.elementwise("multiply", "MULTIPLY", prod(shape.of(windows).shape), operands=2, in_place=not scaled)
    return plan.with_steps((*made.steps, *plan.steps))
