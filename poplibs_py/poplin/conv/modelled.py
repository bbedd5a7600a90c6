"""Convolutions on a modelled machine, as the faces describe them: planned as PopLibs plans them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...formats import Array, Format
from ...ops import Operand, Receiver
from ...popops.maps.modelled import Mapped, ScaledSum, plan_scaled
from ...target import Target
from ...target.types import data_type
from ..product.modelled import operands_lack
from ..tile_conv import ConvParams, ConvPlan, MultiPlan
from ..tile_conv import plan_convolution as plan_modelled
from .params import Described

_TYPES = ("float", "half", "quarter")


@dataclass(frozen=True)
class Asked:
    """What a call asks of a modelled machine.

    Attributes
    ----------
    target : Target
    options : mapping or None
        PopLibs' convolution options.
    keywords : mapping
        Those that were given by keyword, in Python's spelling.
    seed : object
        For stochastic roundings, or None.
    """

    target: Target
    options: Mapping[str, Any] | None
    keywords: Mapping[str, Any]
    seed: Any = None

    def plan(self, params: ConvParams, dtype: Format | None, out: Format) -> ConvPlan:
        """Return the machine's plan of a convolution of operands of one type."""
        return plan_modelled(typed(params, dtype, out), target=self.target, options=self.options, **self.keywords)


def typed(params: ConvParams, dtype: Format | None, out: Format) -> ConvParams:
    """Return params with data types."""
    kind = data_type("x", dtype, _TYPES)
    return params.replace(input_type=kind, output_type=data_type("out_dtype", out, _TYPES))


def lacks(operands: tuple[Operand, ...], out: Format, bias: Operand | None = None, updates: bool = False) -> str:
    """Return what of a convolution no vertex of PopLibs does, in words; an empty string if they do it all.

    Where it `updates` weights, `out` is theirs.
    """
    said = operands_lack(operands, out, bias)
    if not said and updates and out != operands[0].format:  # PopLibs makes a gradient of the operands' type
        return f"of {operands[0].format} that updates weights of {out}"
    return said


def with_updates(plan: MultiPlan, target: Target, receivers: Sequence[Receiver], scales: Sequence[float]) -> MultiPlan:
    """Return a plan of convolutions with that of each result's addition to what its receiver holds, in place."""
    made = []
    for receiver, scale in zip(receivers, scales, strict=True):
        shape, dtype = receiver.array.shape, receiver.format
        arrays = Mapped((), (dtype, dtype), (shape, shape), (dtype,))
        made.append(plan_scaled(ScaledSum("scaled_add", scale, None, False, True), arrays, target))
    return replace(plan, updates=tuple(made))


def channels_second(x: Array, how: Described) -> Array:
    """Return images [N, C, field...], a view."""
    return np.moveaxis(x, -1, 1) if how.channels_last else x


def grouped(w: Array, how: Described, groups: int, ndim: int) -> Array:
    """Return weights [G, Co, Ci, kernel...], a view."""
    if w.ndim == ndim + 3:
        return np.moveaxis(w, (-1, -2), (1, 2)) if how.channels_last else w
    if how.channels_last:
        w = np.moveaxis(w, (-1, -2), (0, 1))
    return w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
