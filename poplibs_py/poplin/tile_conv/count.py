"""A plan's work only counted: what its tiles would hold, multiply and exchange."""

from __future__ import annotations

from dataclasses import dataclass

from ...formats import Array
from .work import ConvWork


@dataclass(frozen=True, eq=False)
class Count:
    """What a plan's work takes on a modelled machine.

    Attributes
    ----------
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


def count(work: ConvWork) -> Count:
    """Count a plan's work and do none of it."""
    return Count(vertices=len(work.pieces), tile_macs=work.tile_macs(), tile_bytes=work.tile_bytes(),
                 operand_bytes=work.operand_bytes, partial_bytes=work.partial_bytes, additions=work.additions,
                 cycles=work.plan.cycles)
