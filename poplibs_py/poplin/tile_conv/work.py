"""What a plan says about numbers: which tile makes which partial sums in which turn, and how they become the result.

Executors only follow it. A plan transforms its convolution, and its tiles share out the axes of what comes of that.

A tile's partial sum of an output is one chain of FP32 fused multiply-adds, in this order: kernel elements outermost, in
the order of their indices, dimension by dimension; then what the plan has made into input channels (elements of
dimensions flattened into output channels, then of expanded dimensions), and the input channels themselves, ascending.
Where operands are swapped, or a dimension is flattened into output channels, the sum runs over elements of the other
operand along a dimension, ascending too. A coordinate that padding fills, or dilation where kernel elements have become
channels, is a zero that is multiplied like any number; elements that are truncated, and kernel elements that meet a
zero of dilation, are no part of the chain. Where the plan's partials are half, the running sum is rounded to FP16 after
each group of `in_chans_per_group` channels of each kernel element, for every vertex method (AMP and SLIC feed their
units such groups, HMAC takes dot products of them, VMAC and outer products have groups of one). The partial is then
rounded to the type that travels between tiles. A stage of the reduction adds runs of neighbouring partials in FP32,
kernel elements outermost, channels ascending, and rounds once. Turns of a loop over the channels add in place, rounding
each time. Outputs that no tile makes (dilation put off until after the convolution) are zero. The result is rounded
once to the output's format. A bias and an activation are vertices of their own: each rounds to that format again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from ...errors import bad_argument
from ...formats import FP16, FP32, Array, Format
from ...memo import remembered, tabled
from ...target import TYPE_SIZES
from ._model import reduction_stages
from .axis import Axis, Range
from .grid import Grid, Group, of_groups
from .params import ConvParams
from .plan import ConvPlan
from .problem import ConvProblem
from .transforms import defer_dilation, expand_dims, transformed, with_extra_dims

_FORMATS = {"float": FP32, "half": FP16}


@dataclass(frozen=True)
class Dim:
    """A dimension of the field, as a plan's tiles go about it.

    Attributes
    ----------
    axis : Axis
        Sizes and transforms; without an input dilation that is put off until after the convolution.
    weights_slide : bool
        Whether sums run over elements of the input, the weights sliding along with the output; else over elements of
        the kernel, the input sliding.
    elements : tuple of int
        First and end of those elements.
    inner : bool
        Whether the plan has made them into input channels; else they are kernel elements to it.
    fills : bool
        Whether they are channels to the tile, then or there: zeros of dilation are filled in and multiplied.
    made_channels : bool
        Whether outputs along it are output channels to the plan.
    first, step : int
        Where output 0 of the axis lies in the result, and how far from one to the next.
    """

    axis: Axis
    weights_slide: bool
    elements: Range
    inner: bool
    fills: bool
    made_channels: bool
    first: int
    step: int

    @property
    def outputs(self) -> int:
        """Outputs that are made."""
        return self.axis.out

    @property
    def extent(self) -> int:
        """Elements of a sum."""
        return self.elements[1] - self.elements[0]

    def meet(self, outs: Array, element: int) -> tuple[Array, Array]:
        """Elements of the input and of the kernel that meet in outputs at an element of a sum.

        -1 stands for a zero, -2 for one of those between dilated elements that are no terms of a sum.
        """
        met = _met(self, element)[outs]
        own = np.full_like(met, element)
        return (own, met) if self.weights_slide else (met, own)

    def kept(self, elements: Range) -> Range:
        """Those elements of a range that no truncation drops."""
        by, size = (self.axis.input, self.axis.field) if self.weights_slide else (self.axis.weights, self.axis.kernel)
        first, end = max(elements[0], by.truncation_lower), min(elements[1], size - by.truncation_upper)
        return first, max(first, end)


@tabled(4096)
def _met(dim: Dim, element: int) -> Array:
    """What an element of a sum meets in each output."""
    axis = dim.axis
    index = axis.kernel_index if dim.weights_slide else axis.input_index
    met = [index(out, element) for out in range(dim.outputs)]
    by, size = (axis.weights, axis.kernel) if dim.weights_slide else (axis.input, axis.field)
    own, own_size = (axis.input, axis.field) if dim.weights_slide else (axis.weights, axis.kernel)
    made = []
    for out, other in enumerate(met):
        raw = (out - axis.output.padding_lower) * axis.output.stride + axis.output.truncation_lower
        place = (own.apply(element, own_size) or 0) + (-raw if dim.weights_slide else raw)
        place = by.transformed(size) - 1 - place if by.flip else place
        between = (place - by.padding_lower) % by.dilation and not dim.fills
        made.append(other if other is not None else -2 if between else -1)
    return np.array(made, np.int64)


@dataclass(frozen=True, eq=False)
class ConvWork:
    """What the tiles of a modelled machine do for one convolution.

    Attributes
    ----------
    plan : ConvPlan
        Where it comes from.
    params : ConvParams
        The convolution, with the leading dimensions that the plan adds.
    view : ConvParams
        What the tiles share out: the convolution after all of the plan's transforms.
    dims : tuple of Dim
        One per dimension of the field.
    taps, inner : tuple of int
        Dimensions in the order in which a chain runs over their elements, outermost first: those that are kernel
        elements to the plan, then those that are input channels to it. Channels come last.
    joined : int
        How many of the first kind, the last of them, a tile makes into channels: groups of channels run across them.
    swapped : bool
        Whether the weights take the input's place.
    factor : int
        Groups that the plan has combined to one.
    parts : int
        Shares of a sum that are made side by side in one turn and reduced.
    stages : tuple of int
        Partials that each stage of the reduction adds to one.
    depth_turns : int
        Turns of the loop that add to the same sums: all, or one where the loop is over output channels.
    chunk : int
        Channels between two roundings of a half partial.
    partial, between, out : Format
        Of the sums on a tile, of what tiles exchange, of the result.
    """

    plan: ConvPlan
    params: ConvParams
    view: ConvParams
    dims: tuple[Dim, ...]
    taps: tuple[int, ...]
    inner: tuple[int, ...]
    joined: int
    swapped: bool
    factor: int
    parts: int
    stages: tuple[int, ...]
    depth_turns: int
    chunk: int
    partial: Format
    between: Format
    out: Format

    @property
    def problem(self) -> ConvProblem:
        """What was planned."""
        assert self.plan.problem is not None
        return self.plan.problem

    @property
    def turns(self) -> int:
        """Turns of the serial loop."""
        return self.plan.serial_splits

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the operands and the result, groups along an axis of their own."""
        p = self.params
        return {"x": (p.batch, p.groups, p.in_channels, *p.field_shape),
                "w": (p.groups, p.out_channels, p.in_channels, *p.kernel_shape),
                "out": (p.batch, p.groups, p.out_channels, *self.output_shape)}

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Of the result, along the dimensions of the field."""
        p = self.problem.params
        return (1,) * (len(self.dims) - p.ndim) + p.output_shape

    @property
    def sums(self) -> int:
        """Elements of the result."""
        return prod(self.shapes["out"])

    @property
    def depth(self) -> int:
        """Terms of a sum, at most: zeros of padding and dilation among them."""
        return self.params.in_channels * prod(dim.extent for dim in self.dims)

    @property
    def chunks(self) -> int:
        """Groups of channels in a tile's sum, at most."""
        ins = of_groups(self.grid.ins, self.factor, prod(self.channels_in))
        taps = [int(np.diff(ranges).max(initial=0)) for ranges in self.grid.kernel]
        lap = int(np.diff(ins).max(initial=0)) * prod(taps[d] for d in self.joined_taps)
        return prod(taps[d] for d in self.taps if d not in self.joined_taps) * -(-lap // self.chunk)

    @property
    def joined_taps(self) -> tuple[int, ...]:
        """Dimensions across which groups of channels run."""
        return self.taps[len(self.taps) - self.joined :]

    @property
    def direct(self) -> bool:
        """Whether partial sums are the result: nothing is reduced or added in place."""
        return self.parts == 1 and self.depth_turns == 1

    @property
    def whole(self) -> bool:
        """Whether tiles make every output."""
        return all(dim.outputs == size for dim, size in zip(self.dims, self.output_shape, strict=True))

    @property
    def reductions(self) -> Iterator[tuple[int, int]]:
        """How many partials of a sum each stage of a reduction reads and writes: one stage at least."""
        left = self.parts
        for fan_in in self.stages or (1,):
            made = -(-left // fan_in)
            yield left, made
            left = made

    # The axes that tiles share out ------------------------------------------------------------------

    @property
    def channels_out(self) -> tuple[int, ...]:
        """Extents that an output channel of the plan is made of, outermost first: dimensions, then own channels."""
        own = self.params.batch if self.swapped else self.params.out_channels
        return (*(self.dims[d].outputs for d in self.flattened_out), own)

    @property
    def channels_in(self) -> tuple[int, ...]:
        """The same for an input channel of the plan."""
        return (*(self.dims[d].extent for d in self.inner), self.params.in_channels)

    @property
    def flattened_out(self) -> tuple[int, ...]:
        """Dimensions whose outputs are output channels to the plan, outermost first."""
        return tuple(reversed(self.plan.transforms[0].out_chan_flatten_dims))

    @property
    def positions(self) -> tuple[tuple[int, ...], ...]:
        """What the plan's batch and each dimension are made of, outermost first: 0 the batch, d + 1 a dimension.

        Where dimensions are merged, the last of them holds them all.
        """
        merged = self.plan.transforms[0].flatten_dims
        axes: list[tuple[int, ...]] = [(i,) for i in range(len(self.dims) + 1)]
        for i in merged[:-1]:
            axes[i] = ()
        if merged:
            axes[merged[-1]] = tuple(merged)
        return tuple(axes)

    def position_extent(self, i: int) -> int:
        """Extent of the plan's batch (0) or of one of its dimensions, before any are merged."""
        if i == 0:
            return self.params.out_channels if self.swapped else self.params.batch
        return 1 if self.dims[i - 1].made_channels else self.dims[i - 1].outputs

    @cached_property
    def grid(self) -> Grid:
        """Ranges of the plan's axes that tiles and turns hold."""
        group = Group(self.params.groups, self.factor, prod(self.channels_in), prod(self.channels_out))
        return Grid(self.plan.partition, self.view, group)

    @cached_property
    def pieces(self) -> Array:
        """Every tile's share of every turn, sorted by turn and tile: see `Grid.table`."""
        return self.grid.table(np.fromiter(self.plan.tile_indices(), np.int64))

    def of_turn(self, turn: int) -> Array:
        """The pieces of one turn."""
        first, end = np.searchsorted(self.pieces["turn"], (turn, turn + 1))
        return self.pieces[first:end]

    # Counts ----------------------------------------------------------------------------------------

    @property
    def operand_bytes(self) -> int:
        """Bytes of operands that tiles receive, in all turns, in the operands' own format."""
        received = self.grid.amounts.inputs + self.grid.amounts.weights
        return int(received.sum()) * TYPE_SIZES[self.problem.params.input_type]

    @property
    def partial_bytes(self) -> int:
        """Bytes of partial sums that tiles send to be reduced, stage after stage, in the format that travels."""
        read = sum(left for left, made in self.reductions if left > made)
        return read * self.depth_turns * self.sums * self.between.itemsize

    @property
    def additions(self) -> int:
        """Additions of reductions and of loops that add in place."""
        added = sum(left - made for left, made in self.reductions)
        return (added * self.depth_turns + self.depth_turns - 1) * self.sums

    def tile_bytes(self) -> Array:
        """Bytes that each tile holds at once, at most: its operands and partial sums, all laid out as FP32.

        The model counts operands in their own formats and so comes to about half as many for half operands.
        """
        return self._tile_bytes

    def tile_macs(self) -> Array:
        """Multiply-accumulates of each tile, those with zeros of padding and dilation among them."""
        return self._tile_macs

    @cached_property
    def _tile_bytes(self) -> Array:
        a = self.grid.amounts
        return self.on_tiles((4 * (a.inputs + a.weights + a.sums)).max(axis=(0, 1)))

    @cached_property
    def _tile_macs(self) -> Array:
        return self.on_tiles(self.grid.amounts.macs.sum(axis=(0, 1)))

    def on_tiles(self, amounts: Array) -> Array:
        """Return numbers of the grid's tiles by the numbers of the machine's; those that are not used have 0."""
        tiles = np.zeros(max(1, self.plan.target_tiles), np.int64)
        tiles[np.fromiter(self.plan.tile_indices(), np.int64)] = amounts.ravel()
        tiles.flags.writeable = False
        return tiles


@remembered(weight=4)
def work_of(plan: ConvPlan) -> ConvWork:
    """Lay out a plan's work on its tiles.

    Parameters
    ----------
    plan : ConvPlan
        As the planner makes it. Constraints can ask for a dimension to be expanded and then flattened into output
        channels, which is not done here: such a plan is refused.
    """
    problem, split = plan.problem, plan.partition
    assert problem is not None
    system_types, tile_types = plan.types
    params = with_extra_dims(problem.params, plan.transforms[0].extra_field_dims)
    dims = _dims(plan, params)
    system = plan.transforms[0]
    on_tile = tuple(d for d in reversed(plan.transforms[1].expand_dims) if not dims[d].inner)
    taps = tuple(d for d, dim in enumerate(dims) if not dim.inner and d not in on_tile)
    inner = (*reversed(system.out_chan_flatten_dims), *reversed(system.expand_dims))
    parts = split.in_chan_split.parallel * prod(split.kernel_split)
    return ConvWork(
        plan, params, transformed(problem.params, system), dims, (*taps, *on_tile), inner, len(on_tile),
        system.swap_operands, system.combine_conv_groups_factor, parts,
        tuple(reduction_stages(parts, problem.options.enable_multi_stage_reduce)), split.in_chan_split.serial,
        plan.in_chans_per_group, _FORMATS[tile_types.partial], _FORMATS[tile_types.result],
        _FORMATS[system_types.result],
    )  # fmt: skip


def _dims(plan: ConvPlan, params: ConvParams) -> tuple[Dim, ...]:
    """What the plan's transforms make of each dimension."""
    system = plan.transforms[0]
    twice = set(system.expand_dims) & set(system.out_chan_flatten_dims)
    if twice:
        raise bad_argument("plan.transforms", f"dimensions {sorted(twice)} expanded and flattened", "one of the two")
    undilated = defer_dilation(params, system.dilate_post_conv)
    seen = undilated.swapped() if system.swap_operands else undilated
    turned = expand_dims(seen, system.expand_dims).swapped()
    dims = []
    for d, axis in enumerate(undilated.axes):
        flattened, expanded = d in system.out_chan_flatten_dims, d in system.expand_dims
        summed = (turned if flattened else seen).axes[d]
        by, size = summed.weights, summed.kernel
        elements = (by.truncation_lower, size - by.truncation_upper) if flattened or expanded else (0, size)
        late = d in system.dilate_post_conv
        first, step = (params.axes[d].output.padding_lower, params.axes[d].input.dilation) if late else (0, 1)
        slides = system.swap_operands != flattened
        inner = flattened or expanded
        fills = inner or d in plan.transforms[1].expand_dims
        dims.append(Dim(axis, slides, elements, inner, fills, flattened, first, step))
    return tuple(dims)
