"""The grid of tiles and turns that a plan makes of its convolution: what of each axis a tile holds, and how much."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...formats import Array
from .axis import input_range
from .params import ConvParams
from .plan import Partition, tile_ranges


@dataclass(frozen=True, eq=False)
class Amounts:
    """What each tile holds and does in each turn, over the grid.

    Attributes
    ----------
    inputs, weights, sums : numpy.ndarray of int
        Elements of the input, of weights, of partial sums.
    macs : numpy.ndarray of int
        Multiply-accumulates, those with zeros of padding and dilation among them.
    """

    inputs: Array
    weights: Array
    sums: Array
    macs: Array


@dataclass(frozen=True)
class Group:
    """What a combined group is made of.

    Attributes
    ----------
    count : int
        Groups of the convolution, in all.
    factor : int
        Of them in a combined one; they sit side by side along both channel axes.
    ins, outs : int
        Input and output channels that the plan sees in each of them.
    """

    count: int
    factor: int
    ins: int
    outs: int


def of_groups(ranges: Array, factor: int, extent: int) -> Array:
    """What ranges of the channels of combined groups hold of each of the groups in them: [factor, ranges, 2]."""
    return np.clip(ranges[None] - extent * np.arange(factor)[:, None, None], 0, extent)


@dataclass(frozen=True, eq=False)
class Grid:
    """The axes of a plan shared out to tiles and turns.

    Attributes
    ----------
    partition : Partition
        Into how many ranges.
    view : ConvParams
        The convolution after all of the plan's transforms, whose axes they are.
    of_group : Group
        How its groups are combined.
    """

    partition: Partition
    view: ConvParams
    of_group: Group

    # Ranges [begin, end) of each axis, arrays of [cells, 2] in the order in which tiles hold them -----

    @cached_property
    def groups(self) -> Array:
        """Of combined groups."""
        return self._ranges(self.view.groups, self.partition.conv_group_split, self.partition.conv_group_grain)

    @cached_property
    def batch(self) -> Array:
        """Of the batch."""
        return self._ranges(self.view.batch, self.partition.batch_split)

    @cached_property
    def field(self) -> tuple[Array, ...]:
        """Of outputs along each dimension."""
        p = self.partition
        return tuple(map(self._ranges, self.view.output_shape, p.field_split, p.field_grain))

    @cached_property
    def kernel(self) -> tuple[Array, ...]:
        """Of kernel elements along each dimension."""
        return tuple(map(self._ranges, self.view.kernel_shape, self.partition.kernel_split))

    @cached_property
    def ins(self) -> Array:
        """Of input channels, those of one turn after those of another."""
        p = self.partition
        return self._ranges(self.view.in_channels, p.in_chan_split.serial * p.in_chan_split.parallel, p.in_chan_grain)

    @cached_property
    def outs(self) -> Array:
        """Of output channels, those of one turn after those of another."""
        p = self.partition
        return self._ranges(self.view.out_channels, p.out_chan_split.serial * p.out_chan_split.parallel,
                            p.out_chan_grain)

    @staticmethod
    def _ranges(extent: int, split: int, grain: int = 1) -> Array:
        return np.array(tile_ranges(extent, split, grain), np.int64)

    # Tiles and turns ---------------------------------------------------------------------------------

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Turns over output and input channels; then tiles: groups, batch, field, kernel, input, output channels."""
        p = self.partition
        return (p.out_chan_split.serial, p.in_chan_split.serial, p.conv_group_split, p.batch_split, *p.field_split,
                *p.kernel_split, p.in_chan_split.parallel, p.out_chan_split.parallel)

    def table(self, tiles: Array) -> Array:
        """Every tile's share of every turn, sorted by turn and tile: the part of the sums, and its range of each axis.

        Shares without a partial sum are left out.
        """
        shape, nd = self.shape, self.view.ndim
        at = np.indices(shape, np.int64).reshape(len(shape), -1)
        fields: list[Any] = [(name, np.int64) for name in ("turn", "tile", "part")]
        fields += [(name, np.int64, 2) for name in ("groups", "batch", "ins", "outs")]
        fields += [(name, np.int64, (nd, 2)) for name in ("field", "kernel")]
        table = np.zeros(at.shape[1], fields)
        table["turn"] = at[0] * shape[1] + at[1]
        table["tile"] = np.broadcast_to(tiles, (shape[0] * shape[1], tiles.size)).ravel()
        table["part"] = np.ravel_multi_index(tuple(at[4 + nd : -1]), shape[4 + nd : -1])
        table["groups"], table["batch"] = self.groups[at[2]], self.batch[at[3]]
        table["ins"] = self.ins[at[1] * shape[-2] + at[-2]]
        table["outs"] = self.outs[at[0] * shape[-1] + at[-1]]
        for d in range(nd):
            table["field"][:, d] = self.field[d][at[4 + d]]
            table["kernel"][:, d] = self.kernel[d][at[4 + nd + d]]
        table = table[self.amounts.sums.ravel() > 0]
        return table[np.lexsort((table["tile"], table["turn"]))]

    @cached_property
    def amounts(self) -> Amounts:
        """What tiles hold and do, everywhere on the grid."""
        shape, nd, g = self.shape, self.view.ndim, self.of_group

        def over(array: Array, *axes: int) -> Array:
            along = np.ones(len(shape), int)
            along[list(axes)] = array.shape
            return array.reshape(along)

        there = np.maximum(0, -(-(g.count - np.arange(g.factor)) // g.factor))[:, None, None]
        groups = np.diff(np.minimum(self.groups, there))[..., 0]
        outs = np.diff(of_groups(self.outs, g.factor, g.outs)).reshape(g.factor, shape[0], -1)
        ins = np.diff(of_groups(self.ins, g.factor, g.ins)).reshape(g.factor, shape[1], -1)

        def channels(made: Array, summed: Array) -> Array:
            of_all = np.einsum("jg,jto,jsi->tsgio", groups, made.astype(np.int64), summed.astype(np.int64))
            return over(of_all, 0, 1, 2, len(shape) - 2, len(shape) - 1)

        rows = inputs = over(np.diff(self.batch)[:, 0], 3)
        taps = np.ones((1,) * len(shape), np.int64)
        for d in range(nd):
            rows = rows * over(np.diff(self.field[d])[:, 0], 4 + d)
            inputs = inputs * over(self._input_extents(d), 4 + d, 4 + nd + d)
            taps = taps * over(np.diff(self.kernel[d])[:, 0], 4 + nd + d)
        weights, summed = taps * channels(outs, ins), (ins > 0) | (g.ins == 0)
        all_of = inputs * channels(outs > 0, ins), weights, rows * channels(outs, summed), rows * weights
        return Amounts(*(np.broadcast_to(x, shape) for x in all_of))

    def _input_extents(self, d: int) -> Array:
        """Elements of the input along a dimension that each pair of ranges, of outputs and of the kernel, needs."""
        axis, kernels = self.view.axes[d], self.kernel[d].tolist()
        if axis.kernel == 1 and axis.out == axis.field:
            return np.repeat(np.diff(self.field[d]), len(kernels), axis=1)
        needed = [[input_range(axis, (f0, f1), (k0, k1)) for k0, k1 in kernels] for f0, f1 in self.field[d].tolist()]
        extents: Array = np.diff(np.array(needed, np.int64))[..., 0]
        return extents
