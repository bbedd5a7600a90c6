"""Operands of a product that are gathered from a field while they are packed: the matrices that convolutions multiply.

A field's matrix has a row for each position and a column for each number of the depth, channels innermost within taps.
It is never made: `pop_field` (records/gemm.def) says where its elements lie, and the frame copies what it packs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...kernels.records import record_of

__all__ = ["MAX_RANK", "Field", "FieldDim"]

MAX_RANK = 9
"""Dimensions of a field, at most: `pop_field` has so many."""


class FieldDim(NamedTuple):
    """One dimension of a field: which element position p and tap t meet, and where it lies.

    Attributes
    ----------
    positions, taps : int
        Extents.
    step, tap_step, first : int
        Position p meets tap t at coordinate ``first + p * step + t * tap_step``.
    end, dilation : int
        Coordinates in [0, end) that `dilation` divides hold elements; at others there are zeros.
    stride : int
        Bytes from an element to the next.
    first_valid, end_valid : int
        Positions outside of these meet zeros alone.
    out_stride : int
        Bytes from a position's result to the next's.
    """

    positions: int
    taps: int = 1
    step: int = 1
    tap_step: int = 0
    first: int = 0
    end: int = 1
    dilation: int = 1
    stride: int = 0
    first_valid: int = 0
    end_valid: int = 1
    out_stride: int = 0

    @classmethod
    def rows(cls, positions: int, stride: int, out_stride: int = 0) -> FieldDim:
        """Positions that each meet an element of their own: images of a batch, channels of weights."""
        return cls(positions, end=positions, stride=stride, end_valid=positions, out_stride=out_stride)

    @property
    def plain(self) -> bool:
        """Whether it is what `rows` makes, wherever the first element lies."""
        last = self.first + (self.positions - 1) * self.step
        return (self.taps == 1 and self.dilation == 1 and self.first_valid <= 0 and self.end_valid >= self.positions
                and min(self.first, last) >= 0 and max(self.first, last) < self.end)


@dataclass(frozen=True)
class Field:
    """A matrix of positions by depth, (taps, channels).

    Attributes
    ----------
    dims : tuple of FieldDim
        Outermost first.
    channels, channel : int
        Numbers of a tap, and bytes from one to the next.
    part : (int, int, int)
        Where a product takes a part of the columns: so many, of each run of so many, after the first so many of it.
        Zeros where it takes all.
    """

    dims: tuple[FieldDim, ...]
    channels: int
    channel: int
    part: tuple[int, int, int] = (0, 0, 0)

    @property
    def positions(self) -> int:
        """Rows of the matrix."""
        return math.prod(dim.positions for dim in self.dims)

    @property
    def depth(self) -> int:
        """Columns of the matrix."""
        return self.channels * math.prod(dim.taps for dim in self.dims)

    def merged(self) -> tuple[Field, int]:
        """Return the same matrix with plain dimensions that lie in line made one, and bytes to its first element."""
        dims: list[FieldDim] = []
        offset = 0
        for dim in self.dims:
            if dim.plain:
                offset += dim.first * dim.stride
                dim = FieldDim.rows(dim.positions, dim.step * dim.stride, dim.out_stride)
                if dim.positions == 1 and (dims or len(self.dims) > 1):
                    continue
                last = dims[-1] if dims else None
                size = dim.positions
                if (last is not None and last.plain and last.stride == size * dim.stride
                        and last.out_stride == size * dim.out_stride):
                    dims[-1] = FieldDim.rows(last.positions * size, dim.stride, dim.out_stride)
                    continue
            dims.append(dim)
        return replace(self, dims=tuple(dims) or (FieldDim.rows(1, 0),)), offset

    @property
    def lines(self) -> tuple[int, int] | None:
        """Bytes from a row to the next and from a column to the next, if strides say all; else None."""
        if len(self.dims) > 1 or not self.dims[0].plain or self.part[0]:
            return None
        return self.dims[0].stride, self.channel

    @property
    def record(self) -> np.ndarray[Any, Any]:
        """The frame's record (`pop_field`)."""
        made = record_of("pop_field", rank=len(self.dims), channels=max(1, self.channels), channel=self.channel,
                         **dict(zip(("lap", "run", "skip"), self.part, strict=True)))
        for number, dim in enumerate(self.dims):
            made["dims"][number] = tuple(dim._replace(taps=max(1, dim.taps)))  # the frame divides by them
        return made
