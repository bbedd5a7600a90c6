"""The cost model's inputs: one candidate's passes and bounds, in the numbers the compiled search takes.

The formulas themselves are in ``src_cython/planner/conv`` (``costs.pxi``, ``cycles.pxi``); here a problem, its
transforms and a vertex are turned into the constants they read.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from ...memo import tabled
from ...planner.partitions import least_splits
from ...target import TYPE_SIZES, Target, scaled_exchange_rate
from ._model import Model
from .axis import Axis, input_range
from .options import FC_PASSES, ConvOptions
from .transforms import ConvTransform, TransformedParams
from .vertices import VertexType, max_macs_per_cycle, unit_input_type


class ConvTypes(NamedTuple):
    """Types of partial sums as computed and as handed on, at one level."""

    partial: str
    result: str

    def __str__(self) -> str:
        return f"{self.partial}/{self.result}"


def conv_types(vertex_partial: str, output_type: str, options: ConvOptions) -> tuple[ConvTypes, ConvTypes]:
    """Types at the system level and on the tile. Corresponds to PopLibs' ``getConvTypes``."""
    between = options.inter_tile_partials_type
    if TYPE_SIZES[between] > TYPE_SIZES[vertex_partial]:
        between = vertex_partial
    return ConvTypes(options.partials_type, output_type), ConvTypes(vertex_partial, between)


class PassSetup(NamedTuple):
    """One pass of a candidate."""

    stages: TransformedParams
    transforms: tuple[ConvTransform, ConvTransform]
    vertex: VertexType
    types: tuple[ConvTypes, ConvTypes]
    options: ConvOptions
    field_grain: tuple[int, ...]
    grains: tuple[int, int, int]  # groups, input channels, output channels
    joint: bool = False
    derived: bool = False  # backward or weight update of a joint plan: no transforms of its own

    @property
    def moved(self) -> tuple[frozenset[int], frozenset[int]]:
        """Dimensions that are transformed, of the whole and on the tile."""
        system, tile = (ConvTransform(), ConvTransform()) if self.derived else self.transforms
        return system.dims(), frozenset(tile.expand_dims)


@tabled(64)
def machine_fields(target: Target, options: ConvOptions) -> dict[str, Any]:
    """What the cost model reads of a target."""
    load = target.conv_coeff_load_bytes
    return {"tiles": target.tiles, "workers": target.workers, "exchange_rate": scaled_exchange_rate(target),
            "exchange_bytes": max(1, int(target.exchange_bytes_per_cycle)),
            "tiles_per_bus": target.tiles_per_exchange_bus, "data_path_bits": target.data_path_bits,
            "memcpy_bytes": target.memcpy_bytes_per_cycle,
            "coeff_load_bytes": load if options.use_128_bit_conv_unit_load else max(1, load // 2),
            "repeat_count_max": target.repeat_count_max, "memory_element": target.memory_element_bytes,
            "tile_bytes": target.bytes_per_tile, "bus_sharing": target.exchange_bus_sharing}


def _grains(size: int, grain: int) -> int:
    return max(1, -(-size // grain))


def _extent(axis: Axis, out: int, kernel: int) -> int:
    """Most inputs that `out` outputs and `kernel` kernel elements read, as the compiled model has it."""
    begin, end = input_range(axis, (0, axis.out))
    if out == axis.out and kernel == axis.kernel:
        return end - begin
    reach = (out - 1) * axis.output.stride + (kernel - 1) * axis.weights.dilation
    return min(reach // axis.input.dilation + 1, end - begin)


def pass_fields(target: Target, setup: PassSetup) -> dict[str, Any]:
    """Everything the compiled model needs to know of one pass."""
    p, vertex, options = setup.stages.padded, setup.vertex, setup.options
    fields: dict[str, Any] = {
        "machine": machine_fields(target, options), "dims": _dims(setup), "kernel0": [max(1, a.kernel) for a in p.axes],
        "grains": setup.grains, "sizes": (vertex.conv_groups, vertex.in_chans, vertex.partial_chans),
        "input": TYPE_SIZES[p.input_type], "output": TYPE_SIZES[p.output_type],
        "partial": TYPE_SIZES[setup.types[1].partial], "tile_result": TYPE_SIZES[setup.types[1].result],
        "result": TYPE_SIZES[setup.types[0].result], "fast_reduce": options.enable_fast_reduce,
        "multi_stage": options.enable_multi_stage_reduce, "standard_order": not setup.derived,
        "macs_over_rate": p.macs() // max_macs_per_cycle(target, vertex),
        "inputs_total": prod(p.field_shape) * p.batch * p.in_channels * p.groups,
        "weights_total": prod(p.kernel_shape) * p.in_channels * p.out_channels * p.groups,
        "slices_rearranged": options.pass_ in FC_PASSES and not setup.joint, "absent": False,
        "corrected": options.fidelity == "corrected"}
    return fields | _vertex_fields(target, setup) | _transform_fields(target, setup)


def _dims(setup: PassSetup) -> list[dict[str, Any]]:
    p = setup.stages.padded
    casts = p.input_type != setup.vertex.input_type
    return _dims_of(p.axes, setup.field_grain, *setup.moved, casts, setup.options.fidelity == "corrected")


@tabled(1024)
def _dims_of(axes: tuple[Axis, ...], grains: tuple[int, ...], moved: frozenset[int], on_tile: frozenset[int],
             casts: bool, corrected: bool) -> list[dict[str, Any]]:
    dims = []
    for d, axis in enumerate(axes):
        transformed = d in moved or d in on_tile
        dims.append(
            {"grain": grains[d], "out": axis.out, "whole_input": _extent(axis, axis.out, axis.kernel),
             "kernel": axis.kernel, "stride": axis.output.stride, "dilation": axis.input.dilation,
             "kernel_dilation": axis.weights.dilation, "padding": axis.input.padding_lower + axis.input.padding_upper,
             "compute_dilation": 1 if transformed else axis.input.dilation,
             "compute_stride": 1 if transformed else axis.output.stride, "moved": d in moved,
             "expanded_on_tile": d in on_tile, "cast_end": _cast_ends(axis, grains[d], corrected) if casts else None}
        )
    return dims


def _cast_ends(axis: Axis, grain: int, corrected: bool) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For the first n outputs, the end of the inputs they read, wherever a tile may hold n."""
    ends = np.zeros(axis.out + 1, np.int64)
    grains = _grains(axis.out, grain)
    for n in np.minimum(-(-grains // least_splits(grains, grains)) * grain, axis.out).tolist():
        begin, end = input_range(axis, (0, n))
        ends[n] = end - begin if corrected else end
    return ends


def _vertex_fields(target: Target, setup: PassSetup) -> dict[str, Any]:
    p, vertex, method = setup.stages.padded, setup.vertex, setup.vertex.method
    acts, (moved, on_tile) = unit_input_type(target, p.input_type, setup.types[1].partial), setup.moved
    same_steps = all(d in moved | on_tile or a.input.dilation == a.output.stride for d, a in enumerate(p.axes))
    unpadded = all(a.output.padding_lower == a.output.padding_upper == 0 for a in p.axes)
    return {"method": method.type, "conv_units": method.conv_units, "chains": method.chains,
            "window": method.window_width, "unit_weights": target.weights_per_unit(acts),
            "loaded_weights": target.conv_pipeline_depth * method.input_load_elems,
            "tile_pad_multiple": _tile_pad_multiple(target, setup), "acts": TYPE_SIZES[acts],
            "casts_inputs": p.input_type != vertex.input_type,
            "plain_1x1": p.in_channels != 0 and p.batch == 1 and same_steps and unpadded}


def _tile_pad_multiple(target: Target, setup: PassSetup) -> int:
    """What a kernel dimension is padded to on the tile."""
    vertex, method, p = setup.vertex, setup.vertex.method, setup.stages.padded
    if method.type == "SLIC":
        return method.window_width
    if method.type != "AMP":
        return 1
    if setup.options.fidelity == "corrected":
        return target.conv_pipeline_depth * method.input_load_elems // vertex.in_chans
    # PopLibs scales by the units in use where the grouping is not the largest; the vertex does not
    weights = target.weights_per_unit(p.input_type)
    if vertex.in_chans != weights:
        pair = ("float", "float") if p.input_type == "float" else ("half", setup.types[1].partial)
        weights //= max(1, target.units(*pair) // method.conv_units)
    return max(1, weights // vertex.in_chans)


def _transform_fields(target: Target, setup: PassSetup) -> dict[str, Any]:
    p, unpadded, view = setup.stages.padded, setup.stages.unpadded, setup.stages.view
    vertex = setup.vertex
    grains = setup.grains
    outs = [_grains(a.out, g) * g for a, g in zip(p.axes, setup.field_grain, strict=True)]
    ins = [_extent(a, out, max(1, a.kernel)) for a, out in zip(p.axes, outs, strict=True)]
    groups = _grains(p.groups, grains[0]) * grains[0]
    in_chans = _grains(p.in_channels, grains[1]) * grains[1]
    out_chans = _grains(p.out_channels, grains[2]) * grains[2]
    batch, kernel = max(1, p.batch), prod(max(1, a.kernel) for a in p.axes)
    flags = _rearrangements(target, setup)
    regressed = setup.options.experimental_conv_transforms_estimates
    return {
        "rearrange": flags[:3],
        "regroup": flags[3:],
        "regressed": regressed and setup.transforms[0].extra_field_dims == 0,
        "transform_elements": (prod(ins) * batch * in_chans * groups, kernel * in_chans * out_chans * groups,
                               prod(outs) * batch * out_chans * groups),
        "in_factor": _factor(unpadded.input_type, unpadded.in_channels * unpadded.out_channels),
        "regroup_factor": _factor(unpadded.input_type, unpadded.out_channels),
        "out_factor": _factor(unpadded.output_type, unpadded.out_channels),
        "view": (view.in_channels, view.out_channels, gcd(vertex.conv_groups, view.groups)),
    }


def _factor(data_type: str, size: int) -> tuple[int, int]:
    """Cycles per move of PopLibs' fudge factor, as a fraction."""
    return (5, 4) if size % (2 if data_type == "float" else 4) == 0 else (5, 3)


def _rearrangements(target: Target, setup: PassSetup) -> tuple[bool, bool, bool, bool, bool]:
    """Whether input, weights, output are rearranged, and weights and output regrouped."""
    t, unpadded, vertex = setup.transforms[0], setup.stages.unpadded, setup.vertex
    pass_ = setup.options.pass_
    update = pass_ == "TRAINING_WU"
    fc = pass_ in FC_PASSES
    matmul = fc or pass_ == "NONE_MATMUL"
    expand, combine = bool(t.expand_dims), t.combine_conv_groups_factor > 1
    flatten = bool(t.out_chan_flatten_dims)
    pad_in = unpadded.in_channels % vertex.in_chans != 0
    pad_out = unpadded.out_channels % vertex.partial_chans != 0
    alone = not setup.joint
    moved = update or expand or t.swap_operands != matmul or combine or pad_in
    given = moved or pass_ == "FC_TRAINING_WU" or (pass_ == "FC_TRAINING_BWD" and alone)
    weights = moved or flatten or pad_out
    made = t.swap_operands != (update or matmul) or flatten or combine or pad_out
    made = made or (pass_ == "FC_TRAINING_WU" and alone)
    wpc = target.weights_per_unit(setup.stages.padded.input_type)
    regroup_out = not fc and vertex.partial_chans != wpc
    regroup_weights = pass_ == "TRAINING_FWD" and vertex.partial_chans % wpc != 0
    return given, weights, made, regroup_weights, regroup_out


# Bounds --------------------------------------------------------------------------------------------


def method_allows(setup: PassSetup) -> bool:
    """Whether the vertex can do this problem at all, however it is split."""
    method = setup.vertex.method.type
    axes = setup.stages.padded.axes
    if method == "SLIC":
        plain = all(
            not a.input.flip and a.weights._replace(truncation_lower=0, truncation_upper=0) == (0, 0, 1, 0, 0, False)
            for a in axes
        )
        return plain and axes[-1].output.stride <= 2
    if method == "OUTER_PRODUCT":
        return all(a.output == (0, 0, 1, 0, 0) and a.input.dilation == 1 and not a.input.flip for a in axes)
    return True


def forward_bounds(target: Target, setup: PassSetup, reference: dict[str, int] | None) -> dict[str, Any]:
    """Domains of the splits, as constraints and a reference plan leave them."""
    p, view, tiles = setup.stages.padded, setup.stages.view, target.tiles
    method, constraints = setup.vertex.method.type, setup.options.plan_constraints
    outer = method == "OUTER_PRODUCT"
    free = not constraints

    def domain(path: str, most: int) -> tuple[int, int]:
        wanted = None if free else constraints.get("0.partition." + path)
        return (1, most) if wanted is None else (int(wanted), min(most, int(wanted)))

    axes = [(max(1, p.batch), *domain("batchSplit", tiles), 1 if outer else 0)]
    axes.append((_grains(p.groups, setup.grains[0]), *domain("convGroupSplit", tiles), 0))
    last = p.ndim - 1
    for d, a in enumerate(p.axes):
        most = 1 if d == last else tiles  # the innermost kernel dimension is never split
        axes.append((max(1, a.kernel), *domain(f"kernelSplit.{d}", most), 1 if outer else 0))
    for d, a in enumerate(p.axes):
        one_row = outer and d != last
        axes.append((_grains(a.out, setup.field_grain[d]), *domain(f"fieldSplit.{d}", tiles), int(one_row)))
    bounds: dict[str, Any] = {"axes": axes, "broadcast": -1}
    for side, size, chans, grain in (("out", p.out_channels, view.out_channels, setup.grains[2]),
                                     ("in", p.in_channels, view.in_channels, setup.grains[1])):
        whole = setup.joint and side == "out"
        parallel = domain(f"{side}ChanSplit.parallel", 1 if whole else tiles)
        most = 1 if setup.joint and side == "in" else min(tiles, _grains(chans, grain))
        serial = domain(f"{side}ChanSplit.serial", most)
        wanted = None if free else constraints.get(f"0.partition.{side}ChanSplit.serial")
        if wanted is not None and not (setup.joint and side == "in"):
            # a constrained serial split is not limited by the tiles
            serial = (int(wanted), min(int(wanted), _grains(chans, grain)))
        if reference is not None:
            serial = (max(serial[0], reference[side]), min(serial[1], reference[side]))
        alone = method == "SLIC" or (method == "VMAC" and side == "out") or (outer and side == "in")
        bounds[side] = (_grains(size, grain), *parallel, *serial, 1 if alone else 0)
    if reference is not None:
        bounds["broadcast"] = reference["broadcast"]
    return bounds


def make_model(target: Target, setups: list[PassSetup | None], bounds: dict[str, Any],
               reference: list[dict[str, int]] | None = None) -> Model:
    """The compiled model of one candidate; a pass that is None costs nothing."""
    first = pass_fields(target, setups[0])  # type: ignore[arg-type]
    passes = [first] + [pass_fields(target, s) if s else {**first, "absent": True} for s in setups[1:]]
    return Model(passes, bounds, reference)
