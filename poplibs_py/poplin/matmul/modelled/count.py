"""A modelled product only counted: what its tiles would hold, multiply and exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .work import TileWork

__all__ = ["Count", "count"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Count:
    """What a modelled product takes.

    Attributes
    ----------
    compute_sets : int
        Compute sets of the program, those of reductions among them.
    vertices : int
        Partial products in all of them.
    tile_macs : numpy.ndarray of int, [tiles]
        Multiply-accumulates of each tile.
    tile_bytes : numpy.ndarray of int, [tiles]
        Bytes laid out on each tile at once, at most, in FP32.
    operand_bytes : int
        Bytes of operands that tiles receive, in the operands' own format.
    partial_bytes : int
        Bytes of partial sums that tiles send to be reduced, stage after stage, in the format that travels.
    additions : int
        Additions of reductions and of loops that add in place.
    cycles : int
        The plan's modelled cycles.
    """

    compute_sets: int
    vertices: int
    tile_macs: Array
    tile_bytes: Array
    operand_bytes: int
    partial_bytes: int
    additions: int
    cycles: int

    @property
    def exchanged_bytes(self) -> int:
        """Operands and partial sums together."""
        return self.operand_bytes + self.partial_bytes


def count(work: TileWork, item_bytes: int) -> Count:
    """Count a product's work and do none of it.

    Parameters
    ----------
    work : TileWork
        What the tiles do.
    item_bytes : int
        Bytes of an element of the operands.
    """
    p = work.pieces
    sums, left, partials, additions = work.groups * work.m * work.n, work.parts, 0, 0
    for fan_in in work.stages:
        made = -(-left // fan_in)
        partials += left
        additions += left - made
        left = made
    in_place = work.depth_turns - 1
    reductions = 0 if work.direct else max(1, len(work.stages)) * work.depth_turns
    return Count(
        compute_sets=work.turns + reductions + (not work.direct),
        vertices=len(p),
        tile_macs=work.tile_macs(),
        tile_bytes=work.tile_bytes(),
        operand_bytes=int(((p["rows"] + p["cols"]) * p["depth"]).sum()) * item_bytes,
        partial_bytes=partials * work.depth_turns * sums * work.between.itemsize,
        additions=(additions * work.depth_turns + in_place) * sums,
        cycles=work.plan.cycles,
    )
