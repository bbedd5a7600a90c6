"""Every candidate plan of a convolution, in PopLibs' order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...errors import PlanError
from ...target import TYPE_SIZES, Target
from . import transforms as tf
from .options import ConvOptions
from .params import ConvParams
from .transforms import ConvTransform
from .vertices import VertexType, vertex_candidates


class Transformed(NamedTuple):
    """A problem transformed in one of the ways that there are."""

    system: ConvTransform
    tile: ConvTransform
    view: ConvParams  # after the swap
    grouped: ConvParams  # after every system-level transform
    final: ConvParams  # as the vertex sees it


class Candidate(NamedTuple):
    """Transforms and a vertex; the splits are still open."""

    transformed: Transformed
    vertex: VertexType


def candidates(target: Target, params: ConvParams, options: ConvOptions, joint: bool) -> Iterator[Candidate]:
    """Candidates in the order in which PopLibs tries them; among equals the first wins."""
    for way, vertices in candidates_by_way(target, params, options, joint):
        for _, vertex in vertices:
            yield Candidate(way, vertex)


def candidates_by_way(target: Target, params: ConvParams, options: ConvOptions,
                      joint: bool) -> Iterator[tuple[Transformed, list[tuple[float, VertexType]]]]:
    """Every way to transform a problem, with the rated vertices for each."""
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


def _on_tile(target: Target, view: ConvParams, params: ConvParams, system: ConvTransform, options: ConvOptions,
             joint: bool) -> Iterator[tuple[Transformed, list[tuple[float, VertexType]]]]:
    """Expansion on the tile, and the vertices for each."""
    choices: list[tuple[int, ...]] = [()]
    if not system.expand_dims and _can_expand_on_tile(params):
        choices = _expansions(1, params, options)
    for expand in choices:
        final = tf.expand_dims(params, expand)
        vertices = vertex_candidates(target, final, options, joint=joint, tile_expand=bool(expand))
        if 0 in expand:  # a narrow vertex would need the kernel rows that the expansion takes away
            wpc = target.weights_per_unit(params.input_type)
            vertices = [(rate, v) for rate, v in vertices if wpc // v.in_chans == 1]
        yield Transformed(system, ConvTransform(expand_dims=expand), view, params, final), vertices


def check_constraints(params: ConvParams, options: ConvOptions) -> None:
    """Refuse constraints that name levels or dimensions that are not there."""
    constraints, ndim = options.plan_constraints, params.ndim
    for level in constraints.indices:
        if level >= 2:
            raise PlanError(f"planConstraints.{level}: got level {level}; allowed: 0 (system) or 1 (tile)")
        for path, most in (("transform.expandDims", ndim), ("transform.outChanFlattenDims", ndim),
                           ("partition.fieldSplit", max(2, ndim)), ("partition.kernelSplit", max(2, ndim))):
            for dim in constraints.get(f"{level}.{path}") or ():
                if int(dim) >= most:
                    raise PlanError(f"planConstraints.{level}.{path}: got {dim}; allowed: a dimension below {most}")


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


def _sets_of(dims: list[int], options: ConvOptions, path: str) -> list[tuple[int, ...]]:
    """Every subset, counted in binary, innermost dimension first in each; or the one that is wanted."""
    wanted = options.plan_constraints.get(path)
    if wanted is not None:
        return [tuple(sorted({int(d) for d in wanted}, reverse=True))]
    return [tuple(d for i, d in reversed(list(enumerate(dims))) if mask >> i & 1) for mask in range(1 << len(dims))]


def _expansions(level: int, params: ConvParams, options: ConvOptions) -> list[tuple[int, ...]]:
    free = not options.disable_transformations and (level == 0 or options.enable_tile_level_expand_dims)
    dims = [d for d, a in enumerate(params.axes) if free and a.field >= a.kernel and a.expanded() != a]
    return _sets_of(dims, options, f"{level}.transform.expandDims")


def _out_flattenings(params: ConvParams, options: ConvOptions) -> list[tuple[int, ...]]:
    free = not options.disable_transformations
    dims = [d for d, a in enumerate(params.axes) if free and a.out != 1 and a.field <= a.kernel]
    return _sets_of(dims, options, "0.transform.outChanFlattenDims")


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
