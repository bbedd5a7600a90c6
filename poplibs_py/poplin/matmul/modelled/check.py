"""Whether a plan is one that a product can run by: kernels trust every number that is lowered from it."""

from __future__ import annotations

from math import prod
from typing import Any

from ....errors import bad_argument, bad_type
from ...convolution import ConvParams, ConvPlan, matmul_params
from ...convolution.model import ConvTypes
from ...convolution.plan import DIRECTIONS, Partition
from ...convolution.problem import ConvProblem
from ...convolution.transforms import ConvTransform

__all__ = ["check_plan", "product_of"]

_TYPES = ("float", "half")


def product_of(plan: Any) -> ConvParams:
    """Return the product that a plan is for.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If it is no plan of a product.
    """
    if not isinstance(plan, ConvPlan) or not isinstance(plan.problem, ConvProblem):
        raise bad_type("plan", type(plan).__name__, "a product's plan from plan_matmul")
    p = plan.problem.params
    if not isinstance(p, ConvParams) or len(p.axes) != 1 or p.axes != matmul_params(1, 1, 1, 1, "half").axes:
        raise bad_argument("plan", "one of a convolution", "a product's plan from plan_matmul")
    if p.output_type not in _TYPES:
        raise bad_argument("plan", f"results of type {p.output_type}", " or ".join(_TYPES))
    return p


def check_plan(plan: ConvPlan, groups: int, m: int, n: int, k: int) -> None:
    """Refuse a plan whose parts contradict each other or that the product [g, m, k] x [g, k, n] cannot run by."""
    if not (isinstance(plan.partitions, tuple) and plan.partitions and isinstance(plan.partition, Partition)):
        raise bad_type("plan.partitions", plan.partitions, "a tuple of one Partition")
    p = plan.partition
    try:
        splits = [*p.field_split, p.batch_split, *p.kernel_split, p.conv_group_split, p.out_chan_split.serial,
                  p.out_chan_split.parallel, p.in_chan_split.serial, p.in_chan_split.parallel]
        grains = [*p.field_grain, p.conv_group_grain, p.in_chan_grain, p.out_chan_grain, plan.in_chans_per_group]
        whole = all(type(x) is int and 1 <= x < 2**31 for x in (*splits, *grains))
        shape = bool(p.field_split) and len(p.field_split) == len(p.field_grain) == len(p.kernel_split)
    except (AttributeError, TypeError):
        whole = shape = False
    if not (whole and shape):
        raise bad_argument("plan.partition", p, "splits and grains of 1 or more for each axis")
    if prod((p.batch_split, *p.kernel_split, *p.field_split[:-1])) != 1:
        raise bad_argument("plan.partition", p, "a split of a product: of its last field axis, channels and groups")
    if min(p.in_chan_split.serial, p.out_chan_split.serial) != 1:
        raise bad_argument("plan.partition", p, "a loop over input channels or over output channels, not both")
    if not (type(plan.target_tiles) is int and 1 <= p.total_parallel <= plan.target_tiles):
        raise bad_argument("plan.partition", f"{p.total_parallel} tiles", f"at most {plan.target_tiles}")
    if type(plan.start_tile) is not int or not 0 <= plan.start_tile < plan.target_tiles:
        raise bad_argument("plan.start_tile", plan.start_tile, f"from 0, below {plan.target_tiles}")
    if plan.direction not in DIRECTIONS:
        raise bad_argument("plan.direction", plan.direction, " or ".join(DIRECTIONS))
    _check_types(plan)
    _check_extents(plan, groups, m, n, k)


def _check_extents(plan: ConvPlan, groups: int, m: int, n: int, k: int) -> None:
    """Refuse more parts than an axis has grains."""
    p, t = plan.partition, plan.transforms[0]
    factor = t.combine_conv_groups_factor
    field, channels = (n, m) if t.swap_operands else (m, n)
    axes = (
        ("groups", -(-groups // factor), p.conv_group_grain, p.conv_group_split),
        ("field", field, p.field_grain[-1], p.field_split[-1]),
        ("output channels", channels * factor, p.out_chan_grain, p.out_chan_split.serial * p.out_chan_split.parallel),
        ("input channels", k * factor, p.in_chan_grain, p.in_chan_split.serial * p.in_chan_split.parallel),
    )
    for name, extent, grain, parts in axes:
        if parts > max(1, -(-extent // grain)):
            raise bad_argument("plan.partition", f"{parts} parts of {extent} {name}", f"at most one for each {grain}")


def _check_types(plan: ConvPlan) -> None:
    for name, kind in (("types", ConvTypes), ("transforms", ConvTransform)):
        pair = getattr(plan, name)
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(x, kind) for x in pair)):
            raise bad_type(f"plan.{name}", pair, f"two {kind.__name__}")
    if any(word not in _TYPES for level in plan.types for word in level):
        raise bad_argument("plan.types", plan.types, " or ".join(_TYPES))
    system, tile = plan.transforms
    if system.expand_dims or system.out_chan_flatten_dims or tile.expand_dims:
        raise bad_argument("plan.transforms", "dimensions expanded or flattened", "none in a plan of a product")
    factor = system.combine_conv_groups_factor
    if type(factor) is not int or not 1 <= factor < 2**31:
        raise bad_argument("plan.transforms", f"groups combined {factor} at a time", "1 or more")
