"""Operands of a product that are gathered from a field while they are packed: the matrices that convolutions multiply.

A field's matrix has a row for each position and a column for each number of the depth, channels innermost within taps.
It is never made: `pop_field` (records/gemm.def) says where its elements lie, and the frame copies what it packs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...kernels.records import record_of


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

    @classmethod
    def depth(cls, taps: int, stride: int) -> FieldDim:
        """Taps that meet an element each, whatever the position is."""
        return cls(1, taps, 0, 1, 0, taps, 1, stride)

    @property
    def plain(self) -> bool:
        """Whether it is what `rows` makes, wherever the first element lies."""
        last = self.first + (self.positions - 1) * self.step
        return (self.taps == 1 and self.dilation == 1 and self.first_valid <= 0 and self.end_valid >= self.positions
                and min(self.first, last) >= 0 and max(self.first, last) < self.end)

    @property
    def taps_alone(self) -> bool:
        """Whether it is what `depth` makes, wherever the first element lies."""
        last = self.first + (self.taps - 1) * self.tap_step
        return (self.positions == 1 and self.dilation == 1 and self.first_valid <= 0 and self.end_valid >= 1
                and min(self.first, last) >= 0 and max(self.first, last) < self.end)

    def joined(self, inner: FieldDim) -> FieldDim | None:
        """The one dimension that this and an inner one of its kind make where they lie in line; else None."""
        if self.plain and inner.plain and self.stride == inner.positions * inner.stride:
            return FieldDim.rows(self.positions * inner.positions, inner.stride)
        if self.taps_alone and inner.taps_alone and self.stride == inner.taps * inner.stride:
            return FieldDim.depth(self.taps * inner.taps, inner.stride)
        return None

    def phases(self) -> Iterator[Phase]:
        """Tell apart positions that meet elements with different taps: one phase, unless the elements are dilated."""
        every, tap_every = (self.dilation // math.gcd(s, self.dilation) for s in (self.step, self.tap_step))
        for p0 in range(max(1, min(every, self.positions))):
            met = [t for t in range(min(tap_every, self.taps))
                   if (self.first + p0 * self.step + t * self.tap_step) % self.dilation == 0]
            t0 = met[0] if met else 0  # at most one: tap_every is the order of the step
            taps = -(-(self.taps - t0) // tap_every) if met else 0
            first = self.first + p0 * self.step + t0 * self.tap_step if met else 0
            dim = FieldDim(
                -(-(self.positions - p0) // every), taps, self.step * every // self.dilation,
                self.tap_step * tap_every // self.dilation, first // self.dilation, -(-self.end // self.dilation), 1,
                self.stride, -(-(self.first_valid - p0) // every), -(-(self.end_valid - p0) // every),
                self.out_stride * every,
            )  # fmt: skip
            yield Phase(dim, p0, t0, tap_every)


class Phase(NamedTuple):
    """The positions of a dimension from `position` on that meet elements with the taps from `tap` on.

    Attributes
    ----------
    dim : FieldDim
        Those positions and taps alone, without dilation.
    position, tap : int
        The first of them.
    tap_every : int
        Taps from one to the next.
    """

    dim: FieldDim
    position: int
    tap: int
    tap_every: int


_LONG = 32  # positions that are a run worth decoding where it lies (drivers/field.h)
_FEW = 8  # channels that the frame gathers one after another and weaves (drivers/field.h)
_WEAVING = 0.5  # cycles or so for an element of theirs
_RUNS = 128  # of the depth that the frame keeps track of (drivers/taps.h)
_UNIT = 16  # rows that a matrix unit takes at once (drivers/taps.h)
_FILLED = 1 / 3  # of them, from which it pays not to pack those of several images
_LINE = 64  # bytes apart, from where on each element is in a cache line of its own


def _gathering(extents: Sequence[tuple[int, int]], item: int) -> float:
    """Cycles or so to copy an element along extents (numbers, bytes from one to the next), the innermost last.

    A run of elements costs as much as a dozen that are apart, and one in a cache line of its own as two of those.
    """
    extents = [(size, stride) for size, stride in extents if size > 1] or [(1, 0)]
    run, stride = extents[-1]
    if len(extents) > 1 and extents[-2][1] == run * stride:
        run *= extents[-2][0]
    return 12 / run + (item / 16 if stride == item else 1 if abs(stride) < _LINE else 2)


@dataclass(frozen=True)
class Field:
    """A matrix of positions by depth, (taps, channels).

    Attributes
    ----------
    dims : tuple of FieldDim
        Outermost first.
    channels, channel : int
        Numbers of a tap, and bytes from one to the next: of the depth, innermost.
    part : (int, int, int)
        Where a product takes a part of the columns: so many, of each run of so many, after the first so many of it.
        Zeros where it takes all.
    """

    dims: tuple[FieldDim, ...]
    channels: int
    channel: int
    part: tuple[int, int, int] = (0, 0, 0)

    @classmethod
    def of_results(cls, extents: Iterable[tuple[int, int]]) -> Field:
        """Return where results lie: positions along each dimension, and bytes from one to the next.

        Those that lie in line are one dimension; a field of one dimension says no more than its `out_stride`.
        """
        dims: list[FieldDim] = []
        for positions, stride in extents:
            if positions == 1:
                continue
            if dims and dims[-1].out_stride == positions * stride:
                positions *= dims.pop().positions
            dims.append(FieldDim.rows(positions, 0, stride))
        return cls(tuple(dims) or (FieldDim.rows(1, 0),), 1, 0)

    @property
    def positions(self) -> int:
        """Rows of the matrix."""
        return math.prod(dim.positions for dim in self.dims)

    @property
    def taps(self) -> int:
        """Those of all dimensions together."""
        return math.prod(dim.taps for dim in self.dims)

    @property
    def depth(self) -> int:
        """Columns of the matrix."""
        return self.channels * self.taps

    def merged(self) -> tuple[Field, int]:
        """Return the same matrix in fewer dimensions, and bytes to its first element.

        What lies in line is one: dimensions whose positions meet one tap, those of taps that one position meets, and
        the last of these with the channels.
        """
        dims: list[FieldDim] = []
        offset = 0
        for dim in self.dims:
            if not (dim.plain or dim.taps_alone):
                dims.append(dim)
                continue
            offset += dim.first * dim.stride
            if dim.positions * dim.taps == 1:
                continue
            dim = (FieldDim.rows(dim.positions, dim.step * dim.stride) if dim.plain
                   else FieldDim.depth(dim.taps, dim.tap_step * dim.stride))
            before = next((n for n in reversed(range(len(dims))) if (dims[n].positions > 1 and dim.plain)
                           or (dims[n].taps > 1 and not dim.plain)), None)
            joined = None if before is None else dims[before].joined(dim)
            if joined is None or before is None:
                dims.append(dim)
            else:
                dims[before] = joined
        channels, channel = self.channels, self.channel
        last = next((n for n in reversed(range(len(dims))) if dims[n].taps > 1), None)
        if last is not None and dims[last].taps_alone and (channels == 1 or dims[last].stride == channels * channel):
            channel = channel if channels > 1 else dims[last].stride
            channels *= dims.pop(last).taps
        return Field(tuple(dims) or (FieldDim.rows(1, 0),), channels, channel, self.part), offset

    @property
    def lines(self) -> tuple[int, int] | None:
        """Bytes from a row to the next and from a column to the next, if strides say all; else None."""
        if len(self.dims) > 1 or not self.dims[0].plain or self.part[0]:
            return None
        return self.dims[0].step * self.dims[0].stride, self.channel

    def along_depth(self, item: int) -> bool:
        """Whether elements of so many bytes are gathered better along the depth than along the positions."""
        taps = [(dim.taps, dim.tap_step * dim.stride) for dim in self.dims if dim.taps > 1]
        positions = [(dim.positions, dim.step * dim.stride) for dim in self.dims if dim.positions > 1]
        depth = _gathering([*taps, (self.channels, self.channel)], item)
        if taps and 1 < self.channels <= min(_FEW, taps[-1][0]) and self.channel != item:
            depth = min(depth, _gathering(taps, item) + _WEAVING)
        return depth <= _gathering(positions, item)

    def run(self, item: int) -> int:
        """Numbers of the depth that lie one after another for each position, whose neighbours lie evenly; or 0.

        The frame may read such a field where it lies, tap by tap.
        """
        last = self.dims[-1]
        if self.part[0] or any(dim.dilation != 1 or dim.first_valid > 0 or dim.end_valid < dim.positions
                               for dim in self.dims):
            return 0
        if (self.channels > 1 and self.channel != item) or last.positions < 2 * last.taps:
            return 0
        return self.channels * (last.taps if last.tap_step * last.stride == self.channels * item else 1)

    def even(self, item: int) -> bool:
        """Whether what positions meet may be copied with the zeros around it: all of them have all taps there."""
        plain = all(dim.dilation == 1 and dim.step > 0 and dim.first_valid <= 0 and dim.end_valid >= dim.positions
                    for dim in self.dims)
        few = 1 < self.taps <= _RUNS
        return plain and few and self._filled >= _FILLED and not self.part[0] and self.channel == item

    @property
    def _filled(self) -> float:
        """Share of a matrix unit's rows that are positions of an image: units end with lines, or go on over them."""
        outer, last = self.dims[-2] if len(self.dims) > 1 else FieldDim(1), self.dims[-1]
        positions = outer.positions * last.positions
        units = outer.positions * -(-last.positions // _UNIT)
        if last.step == outer.step == 1:
            width = last.positions + (last.taps - 1) * abs(last.tap_step)
            units = min(units, -(-((outer.positions - 1) * width + last.positions) // _UNIT))
        return positions / (_UNIT * units) if positions else 0.0

    def room(self, lines: int) -> int:
        """Numbers that so many lines of positions of the last dimension meet, with the zeros around them."""
        size = self.channels
        for number, dim in enumerate(reversed(self.dims)):
            positions = dim.positions if number == 0 else min(lines, dim.positions) if number == 1 else 1
            size *= 1 + (positions - 1) * dim.step + (dim.taps - 1) * abs(dim.tap_step)
        return size

    def neighbours(self, item: int) -> Neighbours | None:
        """How lines of elements of so many bytes serve all taps of the last dimension, if they do."""
        *others, last = self.dims
        in_line = last.step == 1 and last.stride == item and last.positions >= _LONG
        valid = last.first_valid <= 0 and last.end_valid >= last.positions
        if self.part[0] or last.taps < 2 or not (in_line and valid) or any(dim.dilation != 1 for dim in self.dims):
            return None
        reach = (last.taps - 1) * last.tap_step
        width = last.positions + abs(reach)
        met = FieldDim(width, 1, 1, 0, last.first + min(0, reach), last.end, 1, item, 0, width)
        return Neighbours(replace(self, dims=(*others, met)), last.taps, last.tap_step, last.positions)

    @property
    def laps(self) -> list[int]:
        """Depths after which the tap of a dimension changes: all, then from the outermost dimension inwards."""
        found = [self.depth]
        for dim in self.dims:
            if dim.taps > 1:
                found.append(found[-1] // dim.taps)
        return found

    def window(self, lines: int) -> int:
        """Numbers that so many lines of positions of the last dimension meet, and those between them."""
        *_, last = self.dims
        size = self.channels
        for number, dim in enumerate(self.dims):
            positions = dim.positions if dim is last else lines if number == len(self.dims) - 2 else 1
            met = 1 + (min(positions, dim.positions) - 1) * abs(dim.step) + (dim.taps - 1) * abs(dim.tap_step)
            size *= min(met, dim.end)
        return size

    @property
    def record(self) -> np.ndarray[Any, Any]:
        """The frame's record (`pop_field`)."""
        made = record_of("pop_field", rank=len(self.dims), channels=max(1, self.channels), channel=self.channel,
                         **dict(zip(("lap", "run", "skip"), self.part, strict=True)))
        for number, dim in enumerate(self.dims):
            made["dims"][number] = tuple(dim._replace(taps=max(1, dim.taps)))  # the frame divides by them
        return made


class Neighbours(NamedTuple):
    """Lines of a field across its positions, which neighbours read with all taps of the last dimension.

    Attributes
    ----------
    lines : Field
        Each element that positions meet in that dimension is a position there, of one tap.
    taps, apart, width : int
        Taps of the dimension, elements from one's to the next's, and positions that there really are.
    """

    lines: Field
    taps: int
    apart: int
    width: int

    @property
    def lap(self) -> int:
        """Numbers of the depth that one set of lines serves."""
        return self.taps * self.lines.channels

    def pitch(self, cols: int) -> int:
        """Bytes from a line to the next, of so many columns wherever they begin: an odd number of cache lines."""
        more = self.lines.dims[-1].positions - self.width
        return (4 * (cols + (cols // self.width + 2) * more) // 64 + 1 | 1) * 64
