"""Planning a gradient of weights on this CPU: windows of images, decoded once for all kernel elements.

A product of matrices packs every element of the images as often as there are kernel elements. Here a box of deltas
passes by with the window that it meets; kernel elements read that at places of their own, and lines that meet padding
alone are left out. Sums of some channels by some columns stay in scratch: a chain over images, then deltas in the order
of their field, whatever the boxes are, so that threads and sizes of caches have no part in the bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...formats import BF16, Format
from ...kernels import Selection, select
from ...planner.explain import Explanation, considered_kernels
from ...program import rounded
from ...target import Target
from ..gemm.field import FieldDim
from ..gemm.model import kernel_cycles, threads_of
from ..gemm.options import GemmOptions
from ..gemm.plan import Epilogue, on_lines
from ..gemm.search import compute_format_of
from ..gemm.search import parts as parts_of
from ._boxes import Box, cut
from ._side import LANES, ROOM
from .model import Part, PhasePlan, product
from .params import ConvCall

_CACHE_SHARE = 0.65  # of the second-level cache, that a box's operands and the sums fill where no limit is named
_SUMS_SHARE = 0.45  # of it, that sums do
_FEWEST_COLUMNS, _FEWEST_ROWS = 2 * LANES, 6  # with fewer, most of a kernel's block is empty
_POSITIONS = 5  # kernel elements that make up for keeping the sums: fewer are packed as fast
_DEPTH, _DEPTH_ACROSS = 256, 1024  # deltas of all images from which it pays, and where channels are not in line
_ROWS_ACROSS = 80  # sums of a column that pay for turning deltas so that channels are in line
_RUN = 7  # cells of a line of deltas
_MERGED = LANES  # channels up to which kernel elements of a line are rows in line with them
_MOST_SPLITS = 64
_STEP = 16  # most cells of a step of tiles
_SHORTEST_STEP = 12  # of which a step takes as long


@dataclass(frozen=True)
class WindowPlan(PhasePlan):
    """How the gradient of weights runs, a convolution of few positions and many taps.

    Attributes
    ----------
    call : ConvCall
    parts : tuple of Part
        Its one phase of each dimension.
    options, epilogue, target
        How it is wanted, and on which machine.
    compute_format : Format
        What operands are decoded to and multiplied in.
    selection : Selection
        The kernel.
    channels, columns : int
        Of the sums that an item has.
    boxes : tuple of Box
        Of taps, in order.
    threads : int
    memory_limit : int or None
        Bytes of scratch that a thread may take.
    """

    call: ConvCall
    parts: tuple[Part, ...]
    options: GemmOptions
    epilogue: Epilogue
    target: Target
    compute_format: Format
    selection: Selection
    channels: int
    columns: int
    boxes: tuple[Box, ...]
    threads: int
    memory_limit: int | None = None

    def __hash__(self) -> int:
        return hash(self.call)

    @property
    def method(self) -> str:
        """What it is, in words."""
        return "windows of the images, decoded once for all kernel elements"

    @property
    def elements(self) -> int:
        """Numbers of a 4-byte cell."""
        return 4 // self.compute_format.itemsize

    @property
    def tiles(self) -> bool:
        """Whether a matrix unit multiplies: rows are channels of the deltas, and lines fill its steps."""
        return self.kernel.takes_tiles

    @property
    def merged(self) -> bool:
        """Whether kernel elements of the last dimension are rows of the kernel, in line with the channels."""
        return not self.tiles and self.call.params.batch <= _MERGED and self.dims[-1].step == 1

    @property
    def padded(self) -> int:
        """Cells of an element in the window: whole lines of 16, unless they are written one after another."""
        return self.channels if self.channels <= LANES and not self.tiles else rounded(self.channels, LANES)

    @property
    def padded_columns(self) -> int:
        """Numbers of a line of deltas in scratch."""
        return rounded(self.columns, LANES)

    @property
    def plain_deltas(self) -> bool:
        """Whether deltas are numbers of the compute format, in line and where such may lie."""
        w = self.call.weights
        return w.format == self.compute_format and w.scale == 0 and w.aligned and w.row == w.format.itemsize

    @property
    def in_place(self) -> bool:
        """Whether the kernel reads deltas where they lie."""
        return self.plain_deltas and self.elements == 1

    @property
    def sums_row(self) -> int:
        """Sums from a row of them to the next."""
        return self.padded + LANES if self.tiles else self.padded_columns

    @property
    def lines(self) -> int:
        """Lines of taps of the largest box."""
        return max((math.prod(box.count[:-1]) for box in self.boxes), default=1)

    @property
    def layout(self) -> tuple[tuple[str, int], ...]:
        """Bytes of each part of a thread's scratch, in order."""
        last, room = self.dims[-1], ROOM
        extents = [window(self.dims, box) for box in self.boxes] or [(1,)]
        if self.elements == 2:
            longest = max(extent[-1] for extent in extents)
            square = _STEP * self.pitch if self.tiles else 0
            room = max(2 * self.padded * (2 * longest + last.tap_step), 4 * self.padded_columns + square)
        deltas = max((self.deltas(box) for box in self.boxes), default=0)
        return on_lines(
            tables=16 * self.lines, room=room,
            sums=4 * self.positions * self.sums_row * (self.columns if self.tiles else self.channels),
            weights=0 if self.in_place else deltas,
            images=max(4 * self.padded * math.prod(extent) for extent in extents) + 64)

    def deltas(self, box: Box) -> int:
        """Bytes of a box's deltas as the kernel reads them."""
        lines, cells = math.prod(box.count[:-1]), -(-box.count[-1] // self.elements)
        if self.tiles:
            return rounded(self.columns, LANES) * (4 * lines * cells + 64)
        return lines * cells * self.pitch

    @property
    def pitch(self) -> int:
        """Bytes from a cell of deltas in scratch to the next along the depth."""
        return 4 * self.padded_columns + 64

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""
        p = self.call.params
        shares = -(-p.batch // self.channels), -(-p.out_channels // self.columns)
        decisions = {
            "kernel": f"{self.kernel.label}, compute format {self.compute_format}",
            "rows": "channels of deltas, for each kernel element" if self.tiles
                    else "channels of all kernel elements of a line" if self.merged else "channels of a kernel element",
            "boxes": f"{len(self.boxes)} of deltas, {'as they lie' if self.in_place else 'decoded first'}",
            "threads": f"{self.threads}, {p.groups} x {shares[0]} x {shares[1]} shares of {self.channels} by "
                       f"{self.columns} channels",
            **self.scratch_decisions,
        }
        return Explanation("", decisions, considered_kernels(self.selection))


def window(dims: tuple[FieldDim, ...], box: Box) -> tuple[int, ...]:
    """Elements of x from the first to the last that a box meets, in each dimension."""
    return tuple(1 + (taps - 1) * dim.tap_step + (dim.positions - 1) * dim.step
                 for dim, taps in zip(dims, box.count, strict=True))


def step_of(taps: int) -> int:
    """Return the cells of a step of tiles, the most that a line of so many deltas is a multiple of; 0 if pairs are not.

    Examples
    --------
    >>> from poplibs_py.poplin.conv.window import step_of
    >>> step_of(56), step_of(28), step_of(64), step_of(38), step_of(7)
    (14, 14, 16, 0, 0)
    """
    cells = taps // 2
    steps = -(-cells // _STEP)
    return cells // steps if cells and taps % 2 == 0 and cells % steps == 0 else 0


def plan_window(call: ConvCall, parts: tuple[Part, ...], options: GemmOptions, epilogue: Epilogue,
                target: Target) -> WindowPlan | None:
    """Plan a gradient of weights so; None for other convolutions, or where a product of matrices does as well."""
    dims, p = tuple(part.dim for part in parts), call.params
    positions, taps = math.prod(dim.positions for dim in dims), math.prod(dim.taps for dim in dims)
    if not dims or not _POSITIONS <= positions < taps or p.out_channels < _FEWEST_COLUMNS or call.bias is not None or (
            epilogue.activation is not None or not all(_forwards(dim) for dim in dims)):
        return None
    params = product(call, parts)
    compute = compute_format_of(params, options)
    x_in_line, in_line = (side.row == side.format.itemsize for side in (call.x, call.weights))
    if compute == BF16 and (not (x_in_line and in_line) or parts_of(params) != (1, 1)):
        return None
    if p.in_channels * taps < (_DEPTH if x_in_line and in_line else _DEPTH_ACROSS) or (
            dims[-1].taps * compute.itemsize < 4 * _RUN):
        return None
    rows = p.batch * (dims[-1].positions if p.batch <= _MERGED and dims[-1].step == 1 else 1)
    selection = select("dot", "multiply", compute.name, consistent=options.reproducible,
                       cost=lambda kernel: kernel_cycles(kernel, rows, p.out_channels))
    if rows < _FEWEST_ROWS or (selection.kernel.takes_tiles and step_of(dims[-1].taps) < _SHORTEST_STEP):
        return None
    limit = options.memory.limit(target)
    draft = WindowPlan(call, parts, options, epilogue, target, compute, selection, p.batch, p.out_channels, (), 1,
                       limit)
    threads = threads_of(draft.flops, target)
    best = None
    for plan in _split(draft):
        shares = p.groups * -(-p.batch // plan.channels) * -(-p.out_channels // plan.columns)
        sums = 4 * positions * plan.channels * plan.padded_columns
        if sums > _SUMS_SHARE * (target.bytes_per_tile if limit is None else limit) or (
                not in_line and positions * plan.channels < _ROWS_ACROSS):
            continue
        made = _boxed(plan, int(_CACHE_SHARE * target.bytes_per_tile) if limit is None else limit)
        if made:
            best = replace(made, threads=min(threads, shares))
            if shares >= threads:
                break
    return best


def _forwards(dim: FieldDim) -> bool:
    """Whether a dimension is one of a plain gradient: neither turned nor dilated, nor with zeros of its own."""
    return (dim.dilation == 1 and dim.step > 0 and dim.tap_step > 0 and dim.first_valid <= 0
            and dim.end_valid >= dim.positions)


def _split(plan: WindowPlan) -> Iterator[WindowPlan]:
    """The plan with its sums in ever more shares, those that decode least first."""
    rows, columns = plan.channels, plan.columns
    splits = 1
    while splits <= _MOST_SPLITS:
        shares = [(i, splits // i) for i in (1 << n for n in range(splits.bit_length())) if splits % i == 0]
        for by_rows, by_columns in sorted(shares, key=lambda s: s[0] * columns + s[1] * rows):
            some = rows if by_rows == 1 else rounded(-(-rows // by_rows), LANES)
            wide = columns if by_columns == 1 else rounded(-(-columns // by_columns), _FEWEST_COLUMNS)
            if (by_rows == 1 or some * (by_rows - 1) < rows) and (by_columns == 1 or wide * (by_columns - 1) < columns):
                yield replace(plan, channels=some, columns=wide)
        splits *= 2


def _boxed(plan: WindowPlan, budget: int) -> WindowPlan | None:
    """The plan with the largest boxes that fit the budget, deltas with them; None if the smallest do not."""
    taps = [dim.taps for dim in plan.dims]
    even = taps[-1] if plan.elements == 1 or taps[-1] == 1 else taps[-1] // 2 * 2  # what is left has no neighbour
    count = (*taps[:-1], even)
    while True:
        box = Box((0,) * len(count), count)
        trial = replace(plan, boxes=(box,))
        if trial.scratch_bytes + (trial.deltas(box) if plan.in_place else 0) <= budget:
            break
        least = count[-1] if plan.tiles else plan.elements  # steps divide a whole line
        d = next((d for d, n in enumerate(count) if n > (least if d == len(count) - 1 else 1)), None)
        if d is None:
            break
        half = -(-count[d] // 2)
        count = (*count[:d], half if d < len(count) - 1 else rounded(half, least), *count[d + 1:])
    boxes = cut(Box((0,) * len(count), (*taps[:-1], even)), count)
    if even < taps[-1]:
        boxes += cut(Box((*(0 for _ in taps[:-1]), even), (*taps[:-1], 1)), count)
    made = replace(plan, boxes=tuple(boxes))
    return made if made.scratch_bytes <= budget else None
