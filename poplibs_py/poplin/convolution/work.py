"""What a plan says about numbers: which tile makes which partial sums in which turn, and how they become the result.

Executors only follow it. Convolutions of one field element, which dense products are, run so far.

A tile's partial sum over its share of the depth is one chain of FP32 fused multiply-adds in ascending depth. Where the
plan's partials are half, the running sum is rounded to FP16 after each group of `in_chans_per_group` of the depth, for
every vertex method (AMP and SLIC feed their units such groups, HMAC takes dot products of them, VMAC and outer products
have groups of one). The partial is then rounded to the type that travels between tiles. A stage of the reduction adds
runs of neighbouring partials in ascending depth, in FP32, and rounds once. Turns of a loop over the depth add in place,
rounding each time. The result is rounded once to the output's format. A bias and an activation are vertices of their
own: each rounds to that format again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...errors import bad_argument
from ...formats import FP16, FP32, Format
from ...target import TYPE_SIZES
from ._model import reduction_stages
from .plan import ConvPlan, tile_ranges

__all__ = ["WORK", "TileWork", "work_of"]

Array = np.ndarray[Any, Any]
Range = tuple[int, int]

WORK = np.dtype(
    [(name, np.int64) for name in (
        "turn", "tile", "group", "row", "rows", "col", "cols", "from_depth", "depth", "part",
    )]
)  # fmt: skip
"""A piece of work: in this turn of the serial loop this tile multiplies rows x cols over a part of the depth."""


@dataclass(frozen=True, eq=False)
class TileWork:
    """What the tiles of a modelled machine do for one convolution.

    Attributes
    ----------
    plan : ConvPlan
        Where it comes from.
    groups, m, n, k : int
        Sizes of the product [groups, m, k] x [groups, k, n] that it is.
    pieces : numpy.ndarray of WORK
        Partial products, sorted by turn and tile.
    parts : int
        Shares of the depth that are made side by side in one turn and reduced.
    stages : tuple of int
        Partials that each stage of the reduction adds to one.
    depth_turns : int
        Turns of the loop that add to the same sums: all, or one where the loop is over output channels.
    chunk : int
        Depth between two roundings of a half partial.
    partial, between, out : Format
        Of the sums on a tile, of what tiles exchange, of the result.
    """

    plan: ConvPlan
    groups: int
    m: int
    n: int
    k: int
    pieces: Array
    parts: int
    stages: tuple[int, ...]
    depth_turns: int
    chunk: int
    partial: Format
    between: Format
    out: Format

    @property
    def turns(self) -> int:
        """Turns of the serial loop."""
        return self.plan.serial_splits

    @property
    def sums(self) -> int:
        """Elements of the result."""
        return self.groups * self.m * self.n

    @property
    def shapes(self) -> dict[str, tuple[int, int, int]]:
        """Of the operands and the result, with their groups."""
        g, m, n, k = self.groups, self.m, self.n, self.k
        return {"a": (g, m, k), "b": (g, k, n), "out": (g, m, n)}

    @property
    def direct(self) -> bool:
        """Whether partial sums are the result: nothing is reduced or added in place."""
        return self.parts == 1 and self.depth_turns == 1

    @property
    def reductions(self) -> Iterator[tuple[int, int]]:
        """How many partials of a sum each stage of a reduction reads and writes: one stage at least."""
        left = self.parts
        for fan_in in self.stages or (1,):
            made = -(-left // fan_in)
            yield left, made
            left = made

    def of_turn(self, turn: int) -> Array:
        """The pieces of one turn."""
        first, end = np.searchsorted(self.pieces["turn"], (turn, turn + 1))
        return self.pieces[first:end]

    # Counts ----------------------------------------------------------------------------------------

    @property
    def operand_bytes(self) -> int:
        """Bytes of operands that tiles receive, in all turns, in the operands' own format."""
        p, problem = self.pieces, self.plan.problem
        assert problem is not None
        return int(((p["rows"] + p["cols"]) * p["depth"]).sum()) * TYPE_SIZES[problem.params.input_type]

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
        p = self.pieces
        held = 4 * (p["rows"] * p["depth"] + p["depth"] * p["cols"] + p["rows"] * p["cols"])
        most = np.zeros(self.plan.target_tiles, np.int64)
        np.maximum.at(most, p["tile"], held)
        return most

    def tile_macs(self) -> Array:
        """Multiply-accumulates of each tile."""
        p = self.pieces
        done = np.zeros(self.plan.target_tiles, np.int64)
        np.add.at(done, p["tile"], p["rows"] * p["cols"] * p["depth"])
        return done


_FORMATS = {"float": FP32, "half": FP16}


@lru_cache(maxsize=256)
def work_of(plan: ConvPlan) -> TileWork:
    """Lay out a plan's work on its tiles.

    Parameters
    ----------
    plan : ConvPlan
        As the planner makes it, of a problem of one field element. Constraints can ask for transforms that tiles here
        do not make: such a plan is refused.
    """
    problem, split = plan.problem, plan.partition
    assert problem is not None
    (system, tile), (system_types, tile_types) = plan.transforms, plan.types
    if system.expand_dims or system.out_chan_flatten_dims or tile.expand_dims:
        raise bad_argument("plan.transforms", "dimensions expanded or flattened", "none in a plan of a product")
    params = problem.params
    groups, m, n, k = params.groups, params.batch, params.out_channels, params.in_channels
    table = np.array([piece for piece in _pieces(plan, groups, m, n, k) if min(piece[4], piece[6]) > 0], WORK)
    parts, turns = split.in_chan_split.parallel, split.in_chan_split.serial
    stages = tuple(reduction_stages(parts, problem.options.enable_multi_stage_reduce))
    return TileWork(
        plan, groups, m, n, k, table[np.lexsort((table["tile"], table["turn"]))], parts, stages, turns,
        plan.in_chans_per_group, _FORMATS[tile_types.partial], _FORMATS[tile_types.result],
        _FORMATS[system_types.result],
    )  # fmt: skip


def _pieces(plan: ConvPlan, groups: int, m: int, n: int, k: int) -> Iterator[tuple[int, ...]]:
    """Every partial product, one a tile, turn and group.

    The field of the convolution holds the rows of the product, or its columns where operands are swapped; output
    channels hold the other. Combined groups sit side by side along both channel axes.
    """
    split, transform = plan.partition, plan.transforms[0]
    factor = transform.combine_conv_groups_factor
    field, channels = (n, m) if transform.swap_operands else (m, n)
    serial_in, serial_out = split.in_chan_split.serial, split.out_chan_split.serial
    group_ranges = tile_ranges(-(-groups // factor), split.conv_group_split, split.conv_group_grain)
    field_ranges = tile_ranges(field, split.field_split[-1], split.field_grain[-1])
    out_ranges = tile_ranges(channels * factor, serial_out * split.out_chan_split.parallel, split.out_chan_grain)
    in_ranges = tile_ranges(k * factor, serial_in * split.in_chan_split.parallel, split.in_chan_grain)
    order = [(g, f, c, d)
             for g in range(split.conv_group_split) for f in range(split.field_split[-1])
             for d in range(split.in_chan_split.parallel) for c in range(split.out_chan_split.parallel)]
    tiles = list(plan.tile_indices())
    for turn in range(serial_in * serial_out):
        slow, fast = turn // serial_in, turn % serial_in
        for tile, (g, f, c, d) in zip(tiles, order, strict=True):
            outs = out_ranges[slow * split.out_chan_split.parallel + c]
            depth = in_ranges[fast * split.in_chan_split.parallel + d]
            for group, (c0, c1), (d0, d1) in _of_groups(group_ranges[g], outs, depth, factor, groups, channels, k):
                f0, f1 = field_ranges[f]
                row, col = ((c0, c1), (f0, f1)) if transform.swap_operands else ((f0, f1), (c0, c1))
                yield turn, tile, group, row[0], row[1] - row[0], col[0], col[1] - col[0], d0, d1 - d0, d


def _of_groups(combined: Range, outs: Range, depth: Range, factor: int, groups: int, channels: int,
               k: int) -> Iterator[tuple[int, Range, Range]]:
    """The groups that combined ranges of channels hold, each with its own ranges; zero weights are not multiplied."""
    for big in range(*combined):
        for j in range(factor):
            group = big * factor + j
            c = max(outs[0] - j * channels, 0), min(outs[1] - j * channels, channels)
            d = max(depth[0] - j * k, 0), min(depth[1] - j * k, k)
            if group < groups and c[0] < c[1] and (d[0] < d[1] or k == 0):
                yield group, c, d
