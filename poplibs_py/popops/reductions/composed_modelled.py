"""Reductions that are several of PopLibs' operations, on a modelled machine: each of them planned, one after another.

What runs is this CPU's function, in one pass, with its numbers.
"""

from __future__ import annotations

from math import prod

from ...memo import remembered
from ...planner.tile_plan import TilePlan
from ...target import Target
from .compose import StepsBuilder, kept_shape
from .stages_modelled import Types

COMPOSED = {("moments", "spread"): "SQUARE_ADD", ("moments", "deviation"): "SQUARE_ADD",
            ("square_sum", "sqrt"): "SQUARE_ADD", ("abs_sum", "plain"): "ADD", ("abs_max", "plain"): "MAX"}
"""What the kernels reduce and what becomes of it, and PopLibs' name of the reduction that makes the results."""


@remembered(weight=2)
def plan_composed(op: str, kernel: str, finish: str, shape: tuple[int, ...], axes: tuple[int, ...], types: Types,
                  target: Target) -> TilePlan:
    """Return the plan of a variance, a standard deviation or a norm.

    A variance is poplin's of a stable norm: the mean, what lies apart from it, the mean of the squares of that.

    Parameters
    ----------
    op, shape, axes, types, target
        As for `plan_reduction`.
    kernel, finish : str
        A key of `COMPOSED`.
    """
    made = StepsBuilder(target, *types)
    rows = kept_shape(shape, axes)
    if prod(shape):
        spread = kernel == "moments"
        if spread:
            made.reduce("mean", "ADD", shape, axes, scaled=True)
            made.broadcast("difference", "SUBTRACT", shape, rows)
        elif kernel.startswith("abs"):
            made.elementwise("magnitude", "ABSOLUTE", prod(shape))
        reduction = COMPOSED[kernel, finish]
        names = {"ADD": "sum", "MAX": "maximum", "SQUARE_ADD": "squares"}
        made.reduce(names[reduction], reduction, shape, axes, types[1], scaled=spread)
        if finish in ("sqrt", "deviation"):
            made.elementwise("root", "SQRT", prod(rows), types[1], in_place=True)
    words = f"{op} {shape} over {axes}, {types[0]} to {types[1]}"
    return made.plan(words, reads=prod(shape), writes=prod(rows) if prod(shape) else 0)
