"""The products of matrices that a plan's tiles make, put together where they are parts of one.

Every output's chain is its own, so tiles that hold the same share of the depth make one matrix of partial sums: rows
are images and outputs along dimensions in which the input slides, columns outputs along the others and output channels.
Where the input is dilated, outputs that meet zeros of dilation with a kernel element are told apart, and each phase
multiplies what is there alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...formats import Array, Format
from ..gemm.field import Field, FieldDim, Phase
from ..gemm.params import MatrixLayout
from .axis import Range
from .grid import of_groups
from .work import ConvWork, Dim


class ArrayLayout(NamedTuple):
    """How an operand of a convolution lies, in the axes of `ConvWork.shapes`.

    Attributes
    ----------
    format : Format
    strides : tuple of int
        Bytes from an element to the next, along each axis.
    offset : int
        Bytes from the operand's first element to this view's.
    aligned : bool
        Whether every element's address is a multiple of its size.
    scale : int
        Exponent s of the scale 2^s that all elements have.
    """

    format: Format
    strides: tuple[int, ...]
    offset: int = 0
    aligned: bool = True
    scale: int = 0


@dataclass(frozen=True)
class TileProduct:
    """One product, made for several groups.

    Attributes
    ----------
    turn, part : int
        Of the loop, and of the sums.
    rows, cols, depth : int
        Sizes.
    lap : int
        Depth after which groups of channels begin anew.
    groups : range
        For which it is made.
    a, b, out : MatrixLayout
        How the operands and the sums of group 0 lie; where columns of the sums are 0 bytes apart, they are a field's.
    swapped : bool
        Whether weights and input have changed places: rows are what columns were.
    """

    turn: int
    part: int
    rows: int
    cols: int
    depth: int
    lap: int
    groups: range
    a: MatrixLayout
    b: MatrixLayout
    out: MatrixLayout
    swapped: bool = False

    def swap(self) -> TileProduct:
        """Return the same product with its operands swapped, of the same bits: its few columns become rows."""
        a, b, out = (replace(x, row=x.column, column=x.row) for x in (self.b, self.a, self.out))
        out = replace(out, column=0) if out.field is not None else out
        return replace(self, rows=self.cols, cols=self.rows, a=a, b=b, out=out, swapped=not self.swapped)


class _Part(NamedTuple):
    """A phase of one dimension: positions of what slides, elements of what does not, and bytes to the first of each."""

    slides: FieldDim
    slides_at: int
    stays: FieldDim
    stays_at: int
    out_at: int


class _Cell(NamedTuple):
    """A share of the depth of one turn, of one of the groups in a combined one."""

    turn: int
    part: int
    kernel: tuple[Range, ...]
    ins: Range
    outs: Range
    groups: range


def tile_products(work: ConvWork, x: ArrayLayout, w: ArrayLayout, out: ArrayLayout) -> Iterator[TileProduct]:
    """Put a plan's pieces together to products of matrices.

    Parameters
    ----------
    work : ConvWork
        What the tiles do.
    x, w, out : ArrayLayout
        How the operands lie, and the sums of the first part.
    """
    for cell in _cells(work):
        for own, outputs in _boxes(cell.outs, work.channels_out):
            ranges = [(0, dim.outputs) for dim in work.dims]
            for d, outs in zip(work.flattened_out, outputs, strict=True):
                ranges[d] = outs
            batch, channels = (own, (0, work.params.out_channels)) if work.swapped else ((0, work.params.batch), own)
            parts = [
                list(_phases(dim, ranges[d], dim.kept(cell.kernel[d]) if d in work.taps else dim.elements, *strides))
                for d, (dim, *strides) in enumerate(zip(work.dims, x.strides[3:], w.strides[3:], out.strides[3:],
                                                        strict=True))
            ]
            for chosen in itertools.product(*parts):
                yield from _products(work, cell, chosen, batch, channels, (x, w, out))


def _cells(work: ConvWork) -> Iterator[_Cell]:
    grid, factor = work.grid, work.factor
    slow, fast, *_ = grid.shape
    shared_in, shared_out = grid.shape[-2:]
    depth = math.prod(work.channels_in)
    ins = [_ranges(x) for x in of_groups(grid.ins, factor, depth)]
    ends = grid.outs.reshape(slow, shared_out, 2)[:, (0, -1), (0, 1)]  # what the tiles of a turn hold together
    outs = [_ranges(x) for x in of_groups(ends, factor, math.prod(work.channels_out))]
    kernels = [_ranges(x) for x in grid.kernel]
    for turn in range(slow * fast):
        for part, (kernel, share) in enumerate(itertools.product(itertools.product(*kernels), range(shared_in))):
            for j in range(min(factor, work.params.groups)):
                made = outs[j][turn // fast]
                summed = ins[j][turn % fast * shared_in + share]
                if made[0] < made[1] and (summed[0] < summed[1] or not depth):
                    yield _Cell(turn, part, kernel, summed, made, range(j, work.params.groups, factor))


def _ranges(x: Array) -> list[Range]:
    return [(int(first), int(end)) for first, end in x]


def _boxes(flat: Range, extents: tuple[int, ...]) -> Iterator[tuple[Range, tuple[Range, ...]]]:
    """A range of numbers in mixed radix as boxes: of the last extent, then of those before it."""
    first, end = flat
    if len(extents) == 1:
        yield (first, end), ()
        return
    size = math.prod(extents[1:])
    while first < end:
        at, within = divmod(first, size)
        count = (end - first) // size if within == 0 else 0
        if count:  # whole ones
            yield (0, extents[-1]), ((at, at + count), *((0, extent) for extent in extents[1:-1]))
            first += count * size
            continue
        stop = min(end - at * size, size)
        for own, others in _boxes((within, stop), extents[1:]):
            yield own, ((at, at + 1), *others)
        first = at * size + stop


def _phases(dim: Dim, outs: Range, elements: Range, x_stride: int, w_stride: int, out_stride: int) -> Iterator[_Part]:
    """A range of outputs of a dimension and one of the elements that its sums run over, in phases of the dilation."""
    axis, o = dim.axis, dim.axis.output
    own, other = (axis.input, axis.weights) if dim.weights_slide else (axis.weights, axis.input)
    own_size, other_size = (axis.field, axis.kernel) if dim.weights_slide else (axis.kernel, axis.field)
    own_stride, stride = (x_stride, w_stride) if dim.weights_slide else (w_stride, x_stride)
    sign = -1 if dim.weights_slide else 1
    # where element 0 of the range lies, and how far it is to the next
    place, tap_step = own.padding_lower + (elements[0] - own.truncation_lower) * own.dilation, own.dilation
    if own.flip:
        place, tap_step = own.transformed(own_size) - 1 - place, -tap_step
    # what output 0 of the range meets there
    first, step = place + sign * (o.truncation_lower + (outs[0] - o.padding_lower) * o.stride), sign * o.stride
    if other.flip:
        first, step, tap_step = other.transformed(other_size) - 1 - first, -step, -tap_step
    first -= other.padding_lower
    left = other.truncated(other_size)
    end = 1 + (left - 1) * other.dilation if left > 0 else 0
    count, taps = outs[1] - outs[0], elements[1] - elements[0]
    valid = o.padding_lower - outs[0], axis.out - o.padding_upper - outs[0]
    made, out_stride = (dim.first + outs[0] * dim.step) * out_stride, out_stride * dim.step
    slides = FieldDim(count, taps, step, tap_step, first, end, other.dilation, stride, *valid, out_stride)
    for phase in (Phase(slides, 0, 0, 1),) if dim.fills else slides.phases():
        stays = FieldDim.depth(phase.dim.taps, own_stride * phase.tap_every)
        yield _Part(phase.dim, other.truncation_lower * stride, stays, (elements[0] + phase.tap) * own_stride,
                    made + phase.position * out_stride)


def _products(work: ConvWork, cell: _Cell, parts: tuple[_Part, ...], batch: Range, channels: Range,
              layouts: tuple[ArrayLayout, ArrayLayout, ArrayLayout]) -> Iterator[TileProduct]:
    """The products of one phase: one, or one for each output along dimensions whose columns do not lie in line."""
    x, w, out = layouts
    order = (*work.taps, *work.inner)
    columns = [d for d in order if work.dims[d].weights_slide]
    loops = [] if _in_line(parts, columns, channels, out.strides[2]) else columns
    for at in itertools.product(*(range(parts[d].slides.positions) for d in loops)):
        chosen = list(parts)
        for d, position in zip(loops, at, strict=True):
            chosen[d] = _one(parts[d], position)
        yield _product(work, cell, chosen, batch, channels, (x, w, out))


def _in_line(parts: tuple[_Part, ...], columns: list[int], channels: Range, step: int) -> bool:
    """Whether results of columns (outputs along these dimensions, then channels) lie one step apart."""
    size = channels[1] - channels[0]
    for d in reversed(columns):
        dim = parts[d].slides
        if dim.positions > 1 and dim.out_stride != size * step:
            return False
        size *= dim.positions
    return True


def _one(part: _Part, position: int) -> _Part:
    """A part of one position."""
    d = part.slides
    slides = d._replace(positions=1, first=d.first + position * d.step, first_valid=d.first_valid - position,
                        end_valid=d.end_valid - position)
    return part._replace(slides=slides, out_at=part.out_at + position * d.out_stride)


def _product(work: ConvWork, cell: _Cell, parts: list[_Part], batch: Range, channels: Range,
             layouts: tuple[ArrayLayout, ArrayLayout, ArrayLayout]) -> TileProduct:
    x, w, out = layouts
    order = (*work.taps, *work.inner)
    parts, ins = _narrowed(work, parts, cell.ins)
    a_dims = [FieldDim.rows(batch[1] - batch[0], x.strides[0], out.strides[0])]
    b_dims = []
    a_at, b_at = x.offset + batch[0] * x.strides[0], w.offset + channels[0] * w.strides[1]
    for d in order:
        part = parts[d]
        slides, stays = (part.slides, part.slides_at), (part.stays, part.stays_at)
        (a_dim, at), (b_dim, b_offset) = (stays, slides) if work.dims[d].weights_slide else (slides, stays)
        a_dims.append(a_dim)
        b_dims.append(b_dim)
        a_at, b_at = a_at + at, b_at + b_offset
    b_dims.append(FieldDim.rows(channels[1] - channels[0], w.strides[1], out.strides[2]))
    taps, run = (math.prod(parts[d].slides.taps for d in dims) for dims in (work.taps, work.inner))
    (first, end), count, lap = ins, work.params.in_channels, (0, 0, 0)
    size = end - first
    if size < run * count and run > 1:
        lap = size, run * count, first
    else:
        count = size // max(1, run)
        a_at, b_at = a_at + first * x.strides[2], b_at + first * w.strides[2]
    a = Field(tuple(a_dims), count, x.strides[2], lap)
    b = Field(tuple(b_dims), count, w.strides[2], lap)
    out_at = out.offset + batch[0] * out.strides[0] + channels[0] * out.strides[2] + sum(p.out_at for p in parts)
    return TileProduct(
        cell.turn, cell.part, a.positions, b.positions, taps * size,
        size * math.prod(parts[d].slides.taps for d in work.joined_taps), cell.groups,
        MatrixLayout.of_field(x, a, a_at), MatrixLayout.of_field(w, b, b_at).transposed,
        MatrixLayout.of_results(out, ((dim.positions, dim.out_stride) for dim in a.dims), out.strides[2], out_at),
    )  # fmt: skip


def _narrowed(work: ConvWork, parts: list[_Part], ins: Range) -> tuple[list[_Part], Range]:
    """Parts of a share of the plan's input channels alone, and its own channels, where it is a box; else the same."""
    boxes = list(_boxes(ins, work.channels_in))
    if len(boxes) != 1:
        return parts, ins
    (own, ranges), parts = boxes[0], list(parts)
    for d, (first, end) in zip(work.inner, ranges, strict=True):
        part, slides = parts[d], parts[d].slides
        stays = FieldDim.depth(end - first, part.stays.stride)
        slides = slides._replace(taps=end - first, first=slides.first + first * slides.tap_step)
        parts[d] = part._replace(slides=slides, stays=stays, stays_at=part.stays_at + first * part.stays.stride)
    size = math.prod(end - first for first, end in ranges) * (own[1] - own[0])
    return parts, (own[0], own[0] + size)
