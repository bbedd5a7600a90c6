"""A convolution's plan in figures and words: see `poplibs_py.planner.summary`.

A plan of a product speaks of M, K and N; one of a convolution of batch, field, kernel and channels, as they are after
the plan's transforms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from math import prod
from typing import Any

from ...errors import bad_argument
from ...planner.summary import AxisShare, Phase, PlanSummary, summarised
from ...target import TYPE_SIZES, Target
from .options import ConvOptions
from .params import ConvParams, matmul_params
from .plan import PHASES, ConvPlan, Costs, tile_ranges
from .problem import ConvProblem
from .transforms import ConvTransform, transformed

_EXCHANGES = ("broadcastInputBeforeLoopExchangeCycles", "totalTransformExchangeCycles", "totalExchangeCycles")
_OUTSIDE_LOOP = {"broadcast input before the loop", "rearrange weights before slicing", "cast output"}
_LATER = "backward", "weight update"
_PRODUCT_AXES = matmul_params(1, 1, 1, 1, "half").axes


@summarised.register
def summary_of(plan: ConvPlan) -> PlanSummary:
    """Summarise a plan of `plan_convolution` or of a product."""
    problem = plan.problem
    if problem is None:
        raise bad_argument("plan", "a plan without its problem", "a plan made by plan_convolution")
    target, params = problem.target, problem.params
    passes = {name: _phases(costs, plan.serial_splits) for name, costs in _passes(plan) if costs is not None}
    seconds = plan.cycles / target.clock_hz
    flops = 2 * plan.total_macs * len(passes)
    exchange = sum(costs.get(name, 0) * (1 if name == _EXCHANGES[0] else plan.serial_splits)
                   for _, costs in _passes(plan) if costs is not None for name in _EXCHANGES)
    size, out_size = TYPE_SIZES[params.input_type], TYPE_SIZES[params.output_type]
    inputs = params.batch * params.in_channels * prod(params.field_shape)
    weights = params.in_channels * params.out_channels * prod(a.kernel for a in params.axes)
    results = params.batch * params.out_channels * prod(params.output_shape)
    operand_bytes = -(-params.groups * (inputs + weights) * size // target.tiles)
    result_bytes = -(-params.groups * results * out_size // target.tiles)
    axes, most, least = _axes(plan, params)
    return PlanSummary(
        _problem_in_words(params), params.input_type, machine_in_words(target), _options_in_words(problem),
        dict(decisions_of(plan)), tuple(axes), passes, plan.cycles, seconds, flops / seconds / 1e12 if seconds else 0.0,
        2e-12 * target.tiles * target.clock_hz * peak_macs(target, params.input_type), exchange,
        operand_bytes, result_bytes, plan.temporaries, operand_bytes + result_bytes + plan.temp_bytes,
        target.bytes_per_tile, most, least,
    )  # fmt: skip


def decisions_of(plan: ConvPlan) -> Iterator[tuple[str, str]]:
    """What a plan decided beside its splits: a word for each decision, and the decision in words."""
    product = plan.problem is not None and is_product(plan.problem.params)
    yield "method", str(plan.method)
    inputs, outputs = ("K", _rows_and_columns(plan.transforms[0])[1]) if product else ("input", "output channels")
    yield "groupings", (f"{plan.conv_groups_per_group} groups x {plan.in_chans_per_group} {inputs} x "
                        f"{plan.partial_chans_per_group} {outputs}")
    system, tile = plan.types
    yield "types", f"{tile.partial} on the tile, {tile.result} between tiles, {system.result} out"
    moved, on_tile = (transforms_in_words(t, product) for t in plan.transforms)
    yield "transforms", f"{moved}; on the tile: {on_tile}"
    yield "tiles", f"{plan.tiles_used:,} of {plan.target_tiles:,}, from {plan.start_tile} {plan.direction.lower()}"
    if plan.additional:
        apart = " and ".join(f"{name} {other.cycles:,}" for name, other in zip(_LATER, plan.additional, strict=True))
        yield "apart", f"{apart} cycles, in plans of their own"
    yield "turns", f"{plan.serial_splits} of a serial loop" if plan.serial_splits > 1 else "one"


def _rows_and_columns(t: ConvTransform) -> tuple[str, str]:
    """What a product's vertices have as field elements and as output channels."""
    return ("N", "M") if t.swap_operands else ("M", "N")


def transforms_in_words(t: ConvTransform, product: bool) -> str:
    """One level's transforms; a product's as they move M, K and N: what moves fields of one element moves nothing."""
    if not product:
        return str(t)
    parts = ["A and B swapped"] if t.swap_operands else []
    if 0 in t.flatten_dims:
        parts.append(f"{_rows_and_columns(t)[0]} in a line")
    if t.combine_conv_groups_factor > 1:
        parts.append(f"combine {t.combine_conv_groups_factor} groups")
    return ", ".join(parts) or "none"


def _passes(plan: ConvPlan) -> tuple[tuple[str, Costs | None], ...]:
    later = zip(_LATER, (plan.backward_costs, plan.weight_update_costs), strict=True)
    return ("forward" if plan.backward_costs else "", plan.costs), *later


def _phases(costs: Costs, serial: int) -> tuple[Phase, ...]:
    made = (Phase(label, sum(costs.get(name, 0) for name in names), 1 if label in _OUTSIDE_LOOP else serial,
                  costs.get(temp, 0) if temp else 0) for label, names, temp in PHASES)
    return tuple(phase for phase in made if phase.cycles or phase.bytes)


def peak_macs(target: Target, data_type: str) -> int:
    """Multiply-accumulates for each cycle of a tile's fastest vertex for a type."""
    units = [count * target.load_elements(given) for given, _, count in target.conv_units if given == data_type]
    return max([target.vector_width(data_type), *units])


def is_product(params: ConvParams) -> bool:
    """Whether a convolution is a dense product: one field element, one kernel element."""
    return params.axes == _PRODUCT_AXES


def _problem_in_words(p: ConvParams) -> str:
    groups, types = f"{p.groups} x " if p.groups > 1 else "", f"{p.input_type} to {p.output_type}"
    if is_product(p):
        return f"matmul {groups}[{p.batch}, {p.in_channels}] x [{p.in_channels}, {p.out_channels}], {types}"
    field, kernel = (" x ".join(map(str, sizes)) for sizes in (p.field_shape, [a.kernel for a in p.axes]))
    return (f"convolution of batch {p.batch}, field {field}, kernel {kernel}, {groups}{p.in_channels} to "
            f"{p.out_channels} channels, {types}")


def machine_in_words(t: Target) -> str:
    """Name, tiles, their memory and clock."""
    return f"{t.name}: {t.tiles:,} tiles of {t.bytes_per_tile:,} bytes at {t.clock_hz / 1e9:g} GHz"


def _options_in_words(problem: ConvProblem) -> dict[str, str]:
    """The proportion of memory, and whatever else is not at its default."""
    said = {"proportion": f"{problem.options.available_memory_proportion:g}"}
    for field in dataclasses.fields(ConvOptions):
        value = getattr(problem.options, field.name)
        if value != field.default and field.name != "available_memory_proportion":
            said[field.name.rstrip("_")] = getattr(value, "text", str(value))
    return said


def _axes(plan: ConvPlan, params: ConvParams) -> tuple[list[AxisShare], int, int]:
    """Every axis that can be cut, and the multiply-accumulates of the fullest and of the emptiest tile in use."""
    p, t = plan.partition, plan.transforms[0]
    whole = transformed(params, t)
    cuts = [("batch", whole.batch, p.batch_split, 1, 1)]
    cuts += [(f"field {i}", axis.out, n, 1, grain)
             for i, (axis, n, grain) in enumerate(zip(whole.axes, p.field_split, p.field_grain, strict=True))]
    cuts += [(f"kernel {i}", axis.kernel, n, 1, 1)
             for i, (axis, n) in enumerate(zip(whole.axes, p.kernel_split, strict=True))]
    cuts += [
        ("input channels", whole.in_channels, p.in_chan_split.parallel, p.in_chan_split.serial, p.in_chan_grain),
        ("output channels", whole.out_channels, p.out_chan_split.parallel, p.out_chan_split.serial, p.out_chan_grain),
        ("groups", whole.groups, p.conv_group_split, 1, p.conv_group_grain)]
    if is_product(params):
        field = f"field {len(whole.axes) - 1}"
        rows, columns = _rows_and_columns(t)
        names = {field: rows, "input channels": "K", "output channels": columns, "groups": "groups"}
        cuts = sorted(((names[cut[0]], *cut[1:]) for cut in cuts if cut[0] in names), key=_order)
    else:
        names = _merged(t)
        cuts = [(names.get(cut[0], cut[0]), *cut[1:]) for cut in cuts]
    shares, most, least = [], 1, 1
    for name, size, tiles, turns, grain in cuts:
        sizes = [end - begin for begin, end in tile_ranges(size, tiles * turns, grain)]
        totals = [sum(sizes[i::tiles]) for i in range(tiles)]
        most, least = most * max(totals), least * min(totals)
        shares.append(AxisShare(name, size, tiles, turns, max(sizes), min(sizes)))
    return [s for s in shares if s.size > 1 or s.name in ("M", "K", "N")], most, least


def _order(cut: tuple[Any, ...]) -> int:
    return "MKN".find(cut[0])


def _merged(t: ConvTransform) -> dict[str, str]:
    """What axes are called that transforms have merged others into."""
    flat = ["batch" if d == 0 else f"field {d - 1}" for d in t.flatten_dims]
    names = {flat[-1]: " x ".join(flat)} if flat else {}
    for axis, kind, dims in (("input", "kernel", t.expand_dims), ("output", "field", t.out_chan_flatten_dims)):
        if dims:
            names[f"{axis} channels"] = " x ".join([f"{axis} channels", *(f"{kind} {d}" for d in dims)])
    return names
