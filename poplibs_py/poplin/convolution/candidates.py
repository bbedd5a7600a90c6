"""Every candidate plan of a convolution, in PopLibs' order, and the search for the best of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from ...errors import PlanError
from ...planner.deadline import deadline
from ...planner.objective import UNLIMITED, Objective
from ...target import TYPE_SIZES, Target
from . import transforms as tf
from .joint import joint_setups
from .model import (
    PassSetup,
    conv_types,
    forward_bounds,
    make_model,
    method_allows,
)
from .options import ConvOptions
from .params import ConvParams
from .plan import ConvPlan, Partition, Split
from .start_tile import start_tile
from .transforms import ConvTransform, TransformedParams
from .vertices import VertexType, max_macs_per_cycle, vertex_candidates

__all__ = ["Candidate", "Reference", "best_plan", "candidates", "search_candidate"]


@dataclasses.dataclass(frozen=True)
class Reference:
    """Another plan whose serial loop this one must match, and whose steps it should not exceed."""

    plan: ConvPlan
    costs: list[dict[str, int]]  # per pass

    def splits(self) -> dict[str, int]:
        """What must be equal."""
        p = self.plan.partition
        return {
            "in": p.in_chan_split.serial,
            "out": p.out_chan_split.serial,
            "broadcast": int(self.plan.broadcast_input_before_loop),
        }


@dataclasses.dataclass(frozen=True)
class Candidate:
    """Transforms and a vertex; the splits are still open."""

    system: ConvTransform
    tile: ConvTransform
    vertex: VertexType
    view: ConvParams  # after the swap
    grouped: ConvParams  # after every system-level transform
    final: ConvParams  # as the vertex sees it


def candidates(
    target: Target, params: ConvParams, options: ConvOptions, joint: bool
) -> Iterator[Candidate]:
    """Candidates in the order in which PopLibs tries them; among equals the first wins."""
    check_constraints(params, options)
    extra = max(0, 2 - params.ndim)
    wide = tf.with_extra_dims(params, extra)
    dims = [] if options.disable_transformations else reversed(list(enumerate(wide.axes)))
    dilated = tuple(d for d, a in dims if a.input.dilation != 1 and tf.can_defer_dilation(a))
    deferred = tf.defer_dilation(wide, dilated)
    for swap in _swaps(options, joint):
        swapped = deferred.swapped() if swap else deferred
        for expand in _expansions(0, swapped, options):
            expanded = tf.expand_dims(swapped, expand)
            for out_flat in _out_flattenings(expanded, options):
                flattened, flat = tf.flatten(tf.flatten_into_out_channels(expanded, out_flat))
                for factor in _combinations(target, flattened, options, joint):
                    grouped = tf.combine_groups(flattened, factor)
                    system = ConvTransform(extra, dilated, swap, expand, out_flat, flat, factor)
                    yield from _on_tile(target, swapped, grouped, system, options, joint)


def _on_tile(
    target: Target,
    view: ConvParams,
    params: ConvParams,
    system: ConvTransform,
    options: ConvOptions,
    joint: bool,
) -> Iterator[Candidate]:
    """Expansion on the tile, and the vertices for each."""
    choices: list[tuple[int, ...]] = [()]
    if not system.expand_dims and _can_expand_on_tile(params):
        choices = _expansions(1, params, options)
    for expand in choices:
        final = tf.expand_dims(params, expand)
        tile = ConvTransform(expand_dims=expand)
        for vertex in vertex_candidates(target, final, options, joint=joint, tile_expand=bool(expand)):
            wpc = target.weights_per_unit(params.input_type)
            if 0 in expand and wpc // vertex.in_chans != 1:
                continue  # the vertex would need the kernel rows that the expansion takes away
            yield Candidate(system, tile, vertex, view, params, final)


def check_constraints(params: ConvParams, options: ConvOptions) -> None:
    """Refuse constraints that name levels or dimensions that are not there."""
    constraints = options.plan_constraints
    for level in constraints.indices:
        if level >= 2:
            raise PlanError(f"planConstraints.{level}: got level {level}; allowed: 0 (system) or 1 (tile)")
        for path in ("transform.expandDims", "transform.outChanFlattenDims"):
            for dim in constraints.get(f"{level}.{path}") or ():
                if int(dim) >= params.ndim:
                    raise PlanError(
                        f"planConstraints.{level}.{path}: got {dim}; allowed: a dimension below {params.ndim}"
                    )
        for path in ("partition.fieldSplit", "partition.kernelSplit"):
            for dim in constraints.get(f"{level}.{path}") or ():
                if int(dim) >= max(2, params.ndim):
                    raise PlanError(
                        f"planConstraints.{level}.{path}: got {dim}; allowed: below {max(2, params.ndim)}"
                    )


def _swaps(options: ConvOptions, joint: bool) -> list[bool]:
    if joint:
        choices = [True]
    elif options.disable_transformations:
        choices = [False]
    elif options.fully_connected or options.pass_ == "NONE_MATMUL":
        choices = [True, False]
    else:
        choices = [False, True]
    wanted = options.plan_constraints.get("0.transform.swapOperands")
    if wanted is None:
        return choices
    if wanted not in choices:
        raise PlanError(f"planConstraints.0.transform.swapOperands: got {wanted}; allowed: {choices[0]} here")
    return [wanted]


def _constrained_dims(options: ConvOptions, path: str) -> tuple[int, ...] | None:
    dims = options.plan_constraints.get(path)
    return None if dims is None else tuple(sorted({int(d) for d in dims}, reverse=True))


def _subsets(dims: list[int]) -> list[tuple[int, ...]]:
    """Every subset, counted in binary, innermost dimension first in each."""
    return [
        tuple(d for i, d in reversed(list(enumerate(dims))) if mask >> i & 1) for mask in range(1 << len(dims))
    ]


def _expansions(level: int, params: ConvParams, options: ConvOptions) -> list[tuple[int, ...]]:
    wanted = _constrained_dims(options, f"{level}.transform.expandDims")
    if wanted is not None:
        return [wanted]
    if options.disable_transformations or (level == 1 and not options.enable_tile_level_expand_dims):
        return [()]
    return _subsets([d for d, a in enumerate(params.axes) if a.field >= a.kernel and a.expanded() != a])


def _out_flattenings(params: ConvParams, options: ConvOptions) -> list[tuple[int, ...]]:
    wanted = _constrained_dims(options, "0.transform.outChanFlattenDims")
    if wanted is not None:
        return [wanted]
    if options.disable_transformations:
        return [()]
    return _subsets([d for d, a in enumerate(params.axes) if a.out != 1 and a.field <= a.kernel])


def _combinations(target: Target, params: ConvParams, options: ConvOptions, joint: bool) -> list[int]:
    chans, given = params.in_channels, params.input_type
    factors = [1]
    fits = (given == "float" and chans == 1) or (given == "half" and chans in (1, 2))
    if fits and params.groups > 1 and not joint and not options.disable_transformations:
        factor, most = target.load_elements(given) // chans, (16 if given == "half" else 8) // chans
        while 0 < factor <= most:
            factors.append(factor)
            factor *= 2
    wanted = options.plan_constraints.get("0.transform.combineConvGroupsFactor")
    if wanted is None:
        return factors
    allowed = {int(f) for f in wanted}
    if allowed - {1}:
        for other in ("expandDims", "outChanFlattenDims"):
            if options.plan_constraints.get(f"0.transform.{other}"):
                raise PlanError(
                    f"planConstraints.0.transform.combineConvGroupsFactor: got {sorted(allowed)} together with "
                    f"{other}; allowed: one of them"
                )
    return [f for f in factors if f in allowed]


def _can_expand_on_tile(params: ConvParams) -> bool:
    """Inputs must be aligned to 64 bits, and need no padding or dilation."""
    if params.in_channels * TYPE_SIZES[params.input_type] < 8:
        return False
    return all(a.input.padding_lower == a.input.padding_upper == 0 and a.input.dilation == 1 for a in params.axes)


# Searching -----------------------------------------------------------------------------------------


def setup_of(params: ConvParams, options: ConvOptions, joint: bool, c: Candidate) -> PassSetup:
    """The forward pass of a candidate."""
    v = c.vertex
    field_grain = [1] * c.final.ndim
    if joint:
        field_grain[-1] = v.in_chans  # the backward pass' input grouping
    elif params.output_type == "half" and v.partial_chans % 2 and c.final.axes[-1].out % 2 == 0:
        field_grain[-1] = 2  # an even number of halves per tile
    grains = (v.conv_groups, v.in_chans, v.partial_chans)
    stages = TransformedParams(c.view, c.grouped, tf.pad_channels(c.grouped, *grains))
    types = conv_types(v.partial_type, params.output_type, options)
    return PassSetup(stages, (c.system, c.tile), v, types, options, tuple(field_grain), grains, joint)


def search_candidate(
    target: Target,
    params: ConvParams,
    options: ConvOptions,
    joint: bool,
    c: Candidate,
    objective: Objective,
    best: tuple[int, ...],
    reference: Reference | None = None,
) -> tuple[tuple[int, ...], ConvPlan] | None:
    """The best splits of one candidate, if they beat `best`."""
    setup = setup_of(params, options, joint, c)
    if not method_allows(setup):
        return None
    work = setup.stages.padded.macs() // max_macs_per_cycle(target, c.vertex)
    cycles = min(objective.cycles_limit, best[0] if objective.kind == "cycles" else UNLIMITED)
    if work > cycles * target.tiles:
        return None
    bounds = forward_bounds(target, setup, reference.splits() if reference else None)
    setups: list[PassSetup | None] = [setup]
    if joint:
        setups = joint_setups(target, params, setup)
    model = make_model(target, setups, bounds, reference.costs if reference else None)
    found = model.search(objective.keys, objective.limits, best, deadline())
    if found is None:
        return None
    keys, splits, _ = found
    costs = model.costs(splits)
    assert costs is not None
    return keys, _make_plan(target, params, options, setup, splits, costs)


def _make_plan(
    target: Target,
    params: ConvParams,
    options: ConvOptions,
    setup: PassSetup,
    splits: tuple[Any, ...],
    costs: list[dict[str, int]],
) -> ConvPlan:
    v = setup.vertex
    batch, group, *fields, out, inner, broadcast = splits
    ndim = len(fields) // 2
    partition = Partition(
        tuple(parallel for parallel, _ in fields[ndim:]),
        batch[0],
        Split(parallel=out[0], serial=out[1]),
        tuple(parallel for parallel, _ in fields[:ndim]),
        Split(parallel=inner[0], serial=inner[1]),
        group[0],
        setup.field_grain,
        *setup.grains,
    )
    itemised = [{name: n for name, n in c.items() if n} for c in costs]
    start, direction = start_tile(target, params, options)
    return ConvPlan(
        v.method,
        v.conv_groups,
        v.in_chans,
        v.partial_chans,
        setup.transforms,
        (partition,),
        setup.types,
        itemised[0],
        0,
        params.macs(),
        max_macs_per_cycle(target, v),
        target.tiles,
        start,
        direction,
        joint=setup.joint,
        broadcast_input_before_loop=bool(broadcast),
        backward_costs=itemised[1] if setup.joint else None,
        weight_update_costs=itemised[2] if setup.joint else None,
    )


class Space(NamedTuple):
    """Every candidate of a problem, in PopLibs' order, and what is known of each before it is searched."""

    ordered: list[Candidate]
    likely: list[int]  # fast ones first: a good plan found early rules the others out
    least: list[tuple[int, int]]  # cycles and bytes of any split

    def of_use(self, i: int, objective: Objective, best: tuple[int, ...]) -> bool:
        """Whether a candidate may be as good as `best`."""
        cycles, temp = self.least[i]
        if cycles > objective.cycles_limit or temp > objective.temp_limit:
            return False
        return {"cycles": cycles, "temp_bytes": temp}.get(objective.kind, 0) <= best[0]


@lru_cache(maxsize=4)
def _space(target: Target, params: ConvParams, options: ConvOptions, joint: bool) -> Space:
    ordered = list(candidates(target, params, options, joint))
    likely = sorted(range(len(ordered)), key=lambda i: _likely_order(target, ordered[i]))
    least = [(0, 0)] * len(ordered)
    families: dict[tuple[int, int], list[int]] = {}
    for i, c in enumerate(ordered):
        if c.vertex.method.type == "HMAC" and not options.plan_constraints and c.final.in_channels:
            families.setdefault((id(c.system), id(c.tile)), []).append(i)
    for members in families.values():
        if len(members) > _FEW:
            bounds = _least_of(target, params, options, joint, [ordered[i] for i in members])
            for i, bound in zip(members, bounds, strict=True):
                least[i] = bound
    return Space(ordered, likely, least)


_FEW = 8  # candidates that are as soon searched as bounded together


def _least_of(
    target: Target, params: ConvParams, options: ConvOptions, joint: bool, family: list[Candidate]
) -> list[tuple[int, int]]:
    """The least cycles and bytes of candidates that differ in the input channels that a tile takes at a time alone.

    Of a joint plan, those of its forward pass with the finest cut of the field, and what the others take at least.
    """
    one = dataclasses.replace(family[0], vertex=family[0].vertex._replace(in_chans=1))
    setup = setup_of(params, options, joint, one)
    chans, rate = one.final.in_channels, max_macs_per_cycle(target, one.vertex)
    each = setup.stages.padded.macs() // chans
    grains = [c.vertex.in_chans for c in family]
    works = [each * (-(-chans // grain) * grain) // rate for grain in grains]
    bounds = forward_bounds(target, setup, None)
    least = make_model(target, [setup], bounds).least(grains, works)
    if not joint:
        return least
    # the other passes round up to the same grains, and those of a multiple move and do no less
    first = next(c for c in family if c.vertex.in_chans > 1)
    try:
        passes = joint_setups(target, params, setup_of(params, options, joint, first))
    except PlanError:
        return least  # where the search comes to them, it says so
    beside = make_model(target, passes, bounds).beside
    multiple = [grain % first.vertex.in_chans == 0 for grain in grains]
    return [(cycles + beside * m, temp) for (cycles, temp), m in zip(least, multiple, strict=True)]


def best_plan(
    target: Target,
    params: ConvParams,
    options: ConvOptions,
    objective: Objective,
    *,
    joint: bool = False,
    reference: Reference | None = None,
) -> ConvPlan | None:
    """The best plan over all candidates, the first among equals; None if there is none."""
    if joint and params.input_type != params.output_type:
        return None
    space = _space(target, params, options, joint)
    ordered = space.ordered
    best: tuple[int, ...] = (UNLIMITED, UNLIMITED)
    plan: ConvPlan | None = None
    winner = len(ordered)
    for i in space.likely:
        # PopLibs keeps the first candidate, in its order, that costs least: an earlier one need only be as good
        beaten = (best[0], best[1] + 1) if plan and i < winner else best
        if not space.of_use(i, objective, beaten):
            continue
        found = search_candidate(target, params, options, joint, ordered[i], objective, beaten, reference)
        if found is not None:
            best, plan = found
            winner = i
    return plan


def _likely_order(target: Target, c: Candidate) -> tuple[float, int]:
    """The higher the rate at which a candidate does useful work, the sooner."""
    v, p = c.vertex, c.final
    padded = (-(-p.in_channels // v.in_chans) * v.in_chans) * (-(-p.out_channels // v.partial_chans) * v.partial_chans)
    useful = p.in_channels * p.out_channels / padded if padded else 0.0
    return -max_macs_per_cycle(target, v) * useful, -v.in_chans
