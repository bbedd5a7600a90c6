"""How a convolution with few channels in a group runs on this CPU: boxes of positions, what is decoded to scratch.

Positions are output elements, the depth is (kernel elements, input channels), a sum is one chain of fused
multiply-adds in that order, or of products of pairs where the CPU multiplies BF16. Where the depth is long and
positions few, as in weight gradients, sums are kept instead, and boxes of taps pass by: image by image, box by box,
taps in order within one. Threads and instruction sets have no part in which boxes there are, so the sums' bits do not
depend on threads, nor on instruction sets but where pairs are multiplied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...formats import BF16, FP16, FP32, Format
from ...kernels import Selection
from ...kernels.records import STREAM_BYTES
from ...planner.explain import Explanation, considered_kernels
from ...target import Target
from ..gemm.field import FieldDim
from ..gemm.options import GemmOptions
from ..gemm.plan import Epilogue, on_lines
from ..gemm.search import on_units
from ._boxes import Box
from ._conv import AT_ONCE
from ._side import LANES, ROOM, Side
from .model import Part, PhasePlan
from .params import ConvCall

CACHE_SHARE = 0.45
"""Of the second-level cache: what a thread's scratch fills where no limit is named."""

_SUMS = 1 << 14  # bytes of sums in scratch
_POSITIONS = 8 * AT_ONCE  # done between two epilogues
_MOST_STEPS = 2  # taps from a result to the next that tiles are made for
_FAR = 4  # times the second-level cache, that tiles read and write, from which asking for it early pays
_SPARSE = 4  # codes for each weight up to which all are decoded in one go


@dataclass(frozen=True)
class FewPlan(PhasePlan):
    """How a convolution, or a phase of one, runs with few channels in a group.

    Attributes
    ----------
    call : ConvCall
    parts : tuple of Part
        Its phase of each dimension.
    options, epilogue, target
        How it is wanted, and on which machine.
    selection : Selection
        The kernel.
    over_taps : bool
        Whether boxes are of taps, and sums kept.
    blocks : int
        Blocks of groups that an item has.
    boxes : tuple of Box
    layout : tuple of (str, int)
        Bytes of each part of a thread's scratch, in order.
    threads : int
    memory_limit : int or None
        Bytes of scratch that a thread may take.
    """

    call: ConvCall
    parts: tuple[Part, ...]
    options: GemmOptions
    epilogue: Epilogue
    target: Target
    selection: Selection
    over_taps: bool
    blocks: int
    boxes: tuple[Box, ...]
    threads: int
    memory_limit: int | None = None

    def __hash__(self) -> int:
        return hash(self.call)

    @property
    def compute_format(self) -> Format:
        """What operands are decoded to and sums are kept in."""
        return FP32

    @property
    def method(self) -> str:
        """What it is, in words."""
        p = self.call.params
        channels = f"{p.in_channels} to {p.out_channels} channels"
        if self.dots:
            return f"dots of input channels, in lanes side by side: {channels} in a group"
        return f"lanes side by side: {channels} in a group are few for a product of matrices"

    @property
    def wide(self) -> int:
        """Lanes of a group in a vector."""
        return LANES if self.dots else min(LANES, 1 << max(0, self.call.params.out_channels - 1).bit_length())

    @property
    def together(self) -> int:
        """Groups of a block."""
        return LANES // self.wide

    @property
    def vectors(self) -> int:
        """Vectors of a block."""
        return -(-self.call.params.out_channels // LANES)

    @property
    def all_blocks(self) -> int:
        """Blocks of all groups."""
        return -(-self.call.params.groups // self.together)

    @property
    def x(self) -> Side:
        """The images as they are decoded."""
        x, p = self.call.x, self.call.params
        if self.pairs and not self.over_taps:  # words of two channels
            words, step = p.in_channels // 2, 2 * x.format.itemsize
            return Side(x.format, x.scale, x.group, step, words, words, self.together, BF16, 2, self.slides)
        if self.row_pairs:
            return Side(x.format, x.scale, x.group, 0, 1, 1, self.together, BF16)
        if self.dots:
            n = p.in_channels
            return Side(x.format, x.scale, x.group, x.format.itemsize, n, n, 1, self._taken)
        if self.slides_over_taps:
            return Side(x.format, x.scale, x.group, x.row, 1, 1, self.together, self._taken)
        inner, step = (p.batch, x.row) if self.over_taps else (p.in_channels, x.channel)
        lie_so = self.quads
        return Side(x.format, x.scale, x.group, step, inner, inner, self.together, as_they_lie=lie_so)

    @property
    def pairs(self) -> bool:
        """Whether BF16 numbers are multiplied as such, two at once: of neighbouring taps where those are many, else of
        two input channels."""
        return self.kernel.op in ("convolve", "slide_words", "quads") and self.kernel.formats == BF16.name

    @property
    def row_pairs(self) -> bool:
        """Whether tiles multiply BF16 numbers of two rows of taps at once, or of two neighbours along one dimension."""
        return self.kernel.op in ("slide_pairs", "slide_line")

    @property
    def dots(self) -> bool:
        """Whether lanes are input channels."""
        return self.kernel.op == "dots"

    @property
    def _taken(self) -> Format:
        """What the kernel takes of operands that are decoded."""
        return BF16 if self.kernel.formats == BF16.name else FP32

    @property
    def in_bands(self) -> bool:
        """Whether all phases of a stride take a band of an image before the next."""
        return self.dots or (self.slides and any(axis.input.dilation > 1 for axis in self.call.params.axes))

    @property
    def band(self) -> int:
        """Positions of the first dimension whose images a core's cache holds."""
        x, p = self.call.x, self.call.params
        line = p.groups * p.in_channels * x.format.itemsize * math.prod(p.field_shape[1:])
        return max(1, int(CACHE_SHARE * self.target.bytes_per_tile) // (line * max(1, abs(self.dims[0].step))))

    @property
    def w(self) -> Side:
        """The weights as they are decoded, or packed where taps are few; of a gradient of weights the deltas."""
        w, n = self.call.weights, self.call.params.out_channels
        if self.dots:
            return Side(w.format, w.scale, w.group, w.row, n, n, 1, self._taken)
        if self.slides_over_taps:
            return Side(w.format, w.scale, w.group, w.row, 1, 1, self.together, self._taken)
        compute = BF16 if self.pairs and not self.over_taps else FP32
        if self.run:
            return Side(compute, 0, w.group * self.widened, 0, n, self.wide * self.vectors, self.together, compute)
        return Side(w.format, w.scale, w.group, w.row, n, self.wide * self.vectors, self.together, compute,
                    as_they_lie=self.quads)

    @property
    def run(self) -> tuple[int, int] | None:
        """Where weights that are decoded in one go, before they are packed, begin, and how many codes those are."""
        w, p = self.call.weights, self.call.params
        kept = (w.scale == 0 and w.format == (BF16 if self.pairs else FP32)) or not w.aligned
        lines = self.weights_in_line == 1 and not self.pairs and self.taps * p.in_channels > LANES  # long as they lie
        if self.over_taps or self.dots or kept or lines or self.blocks < self.all_blocks:
            return None
        axes = ((w.group, p.groups), (w.row, p.out_channels), (w.channel, p.in_channels),
                *((part.taps.stride, part.taps.taps) for part in self.parts))
        reach = [step * (n - 1) // w.format.itemsize for step, n in axes]
        codes = 1 + sum(map(abs, reach))
        first = w.offset + sum(part.weights for part in self.parts) + w.format.itemsize * sum(min(0, r) for r in reach)
        return (first, codes) if codes <= _SPARSE * math.prod(n for _, n in axes) else None

    @property
    def widened(self) -> int:
        """Bytes of weights as they are packed for each byte where they lie."""
        return (BF16 if self.pairs else FP32).itemsize // self.call.weights.format.itemsize if self.run else 1

    @property
    def out_channel(self) -> int:
        """Bytes from a result to the next channel's."""
        return self.call.out.group if self.call.params.out_channels == 1 else self.call.out.channel

    @property
    def compact(self) -> bool:
        """Whether the results of all lanes lie one `out_channel` apart."""
        n, groups = self.call.params.out_channels, self.call.params.groups
        return groups == 1 or (n == self.wide * self.vectors and self.call.out.group == n * self.out_channel)

    @property
    def turned(self) -> bool:
        """Whether a gradient of weights has input channels one after another: sums of all lanes are lines of them.

        A bias is of columns, which these lines have none of.
        """
        out, n = self.call.out, self.call.params.batch
        lines = self.over_taps and n > 1 and self.vectors == 1 and self.compact and out.row == out.format.itemsize
        return lines and self.call.bias is None

    @property
    def full(self) -> bool:
        """Whether every lane of every block is an output channel."""
        p = self.call.params
        return p.groups % self.together == 0 and p.out_channels == self.wide * self.vectors

    @property
    def slides(self) -> bool:
        """Whether tiles of results share what they read: depthwise, or of words of two channels of groups that a vector
        has, with taps that are neighbours where results are."""
        depthwise = self.call.params.in_channels == 1 and self.together == LANES
        if self.dots or self.over_taps or not self.taps or not (depthwise or self.in_words):
            return False
        rows, columns = ([1] + [_steps(dim) for dim in self.dims])[-2:]
        return rows > 0 and 0 < columns <= _MOST_STEPS

    @property
    def slides_over_taps(self) -> bool:
        """Whether sums over taps are of tiles of deltas that share what they read: depthwise, and not turned."""
        p, dims = self.call.params, self.dims
        if not self.over_taps or self.together < LANES or p.batch > 1 or not dims or not all(
                dim.tap_step > 0 and (dim.step > 0 or dim.positions == 1) for dim in dims):
            return False
        unit = dims[-1].step if dims[-1].positions > 1 else dims[-1].tap_step
        return dims[-1].tap_step % unit == 0 and dims[-1].tap_step // unit <= _MOST_STEPS

    @property
    def both_in_place(self) -> bool:
        """Whether tiles of deltas read both operands where they lie, whatever leaves x."""
        x, w, size = self.call.x, self.call.weights, self.call.x.format.itemsize
        known = x.format == w.format and x.format.name == self.kernel.formats
        lie_so = all(side.scale == 0 and side.aligned and side.group == size for side in (x, w))
        return self.slides_over_taps and known and lie_so and self.full

    @property
    def in_words(self) -> bool:
        """Whether tiles may multiply BF16 words of two channels, of a block's groups side by side."""
        x, n = self.call.x, self.call.params.in_channels
        beside = x.group == n * x.format.itemsize and self.together * n <= 2 * LANES
        return beside and self.vectors == 1 and self.compact and in_pairs(self.call, self.options)

    @property
    def quads(self) -> bool:
        """Whether sums over taps are of four numbers of a group at once, lanes channels in their order."""
        x, w, n, out = self.call.x, self.call.weights, self.call.params.batch, self.call.params.out_channels
        beside = (x.row, x.group) == (x.format.itemsize, n * x.format.itemsize)
        beside = beside and (w.row, w.group) == (w.format.itemsize, out * w.format.itemsize)
        return self.over_taps and beside and out == self.wide >= 4 and self.together * n <= LANES

    @property
    def slides_in_place(self) -> bool:
        """Whether tiles read x where it lies, whatever leaves it."""
        x, n = self.call.x, self.call.params.in_channels
        lies_so = x.scale == 0 and x.aligned and x.group == n * x.format.itemsize and self.full
        return self.slides and x.format in ((FP32, FP16, BF16) if n == 1 else (BF16,)) and lies_so

    @property
    def narrow(self) -> bool:
        """Whether tiles write results of 16 bits: in the format of x, or where they multiply BF16 in either."""
        out = self.call.out
        known = self.row_pairs or (self.slides and self.pairs)
        known = known or (self.slides_in_place and out.format == self.call.x.format)
        along = out.scale == 0 and self.out_channel == out.format.itemsize
        return known and out.format in (FP16, BF16) and along and self._plain

    @property
    def _plain(self) -> bool:
        """Whether sums of all lanes are results as they are."""
        plain = self.epilogue == Epilogue() and self.call.bias is None
        return not self.over_taps and self.compact and self.full and plain

    @property
    def direct(self) -> bool:
        """Whether sums are the results, written where those belong."""
        out = self.call.out
        return self.narrow or (self._plain and readable(out.format, out.scale, out.aligned) and self.out_channel == 4)

    @property
    def streams(self) -> bool:
        """Whether results pass the caches: tiles of them, where they and the images are more than those hold.

        A phase's results lie among those of the others.
        """
        p = self.call.params
        read = p.groups * math.prod(p.field_shape) * self.call.x.format.itemsize
        among = max((dim.positions * abs(dim.out_stride) for dim in self.dims), default=0)
        return self.slides and self.direct and not self.narrow and p.batch * (read + among) > STREAM_BYTES["tiles"]

    @property
    def deltas_in_place(self) -> bool:
        """Whether deltas are read where they lie: lanes side by side."""
        w, n = self.call.weights, self.call.params.out_channels
        if self.slides_over_taps:
            return self.both_in_place
        along = w.group == 4 if n == 1 else w.row == 4 and (self.together == 1 or self.quads)
        return self.over_taps and readable(w.format, w.scale, w.aligned) and along and self.full

    @property
    def weights_in_line(self) -> int:
        """Whether weights lie one after another: 1 along the depth of an output channel, 2 along lanes, 0 neither."""
        w, p, size = self.call.weights, self.call.params, self.call.weights.format.itemsize
        lanes = w.row == size and (self.together == 1 or (self.slides and p.out_channels > 1))
        if lanes or (p.out_channels == 1 and w.group == size):
            return 2
        along = p.in_channels == 1 or w.channel == size
        step = p.in_channels * size
        for part in reversed(self.parts):
            if part.taps.taps > 1:
                along = along and part.taps.stride == step
                step *= part.taps.taps
        return int(along)

    @property
    def capacity(self) -> int:
        """Positions of the sums in scratch; where sums are kept, lines of a box."""
        if self.over_taps:
            return max((box.size // max(1, box.count[-1]) for box in self.boxes), default=1)
        if self.streams:
            return AT_ONCE
        most = _POSITIONS if self.direct else _SUMS // (64 * self.blocks * self.vectors)
        return AT_ONCE * max(1, min(_POSITIONS, most) // AT_ONCE)

    @property
    def layout(self) -> tuple[tuple[str, int], ...]:
        """Bytes of each part of a thread's scratch, in order."""
        lanes, x, w = self.blocks * self.vectors, self.x, self.w
        if self.over_taps:
            n = self.positions * x.inner
            tables, sums, fixed = 3 * n + 2 * self.capacity, 64 * n * lanes, 0
            if not self.deltas_in_place:
                fixed = max((box.size for box in self.boxes), default=0) * w.pitch(self.blocks) + 64
        else:
            number = x.cell * self.call.params.out_channels if self.dots else 64
            tables, fixed = 3 * self.capacity + 2 * self.taps, number * lanes * self.taps * x.inner
            sums = 0 if self.direct and not self.streams else self.capacity * 64 * lanes
        room = max(ROOM, *(4 * self.blocks * side.padded * side.together + 128 for side in (x, w)))
        staged = max((self.window(box) for box in self.boxes if not (box.in_place or box.empty)), default=0)
        return on_lines(
            tables=8 * tables, sums=sums, bias=64 * lanes if self.call.bias else 0, room=room, weights=fixed,
            run=self.run[1] * w.item if self.run else 0,
            images=staged * x.pitch(self.blocks) + 64 if self.taps else 0)

    def window(self, box: Box) -> int:
        """Elements of x that a box meets, and those between them."""
        return math.prod(
            1 + (positions - 1) * abs(dim.step) + max(0, taps - 1) * abs(dim.tap_step)
            for dim, positions, taps in (
                (dim, dim.positions, n) if self.over_taps else (dim, n, dim.taps)
                for dim, n in zip(self.dims, box.count, strict=True)
            )
        )

    @property
    def looks_ahead(self) -> bool:
        """Whether operands outgrow a thread's memory, or of tiles several times that: asking early pays."""
        p, call = self.call.params, self.call
        if self.slides or self.slides_over_taps:
            sides = ((call.x, p.batch * p.in_channels, p.field_shape),
                     (call.weights, p.in_channels * p.out_channels, p.kernel_shape),
                     (call.out, p.batch * p.out_channels, p.output_shape))
            size = sum(side.format.itemsize * p.groups * n * math.prod(field) for side, n, field in sides)
            return size > _FAR * self.target.bytes_per_tile
        elements = self.taps * p.in_channels if self.over_taps else self.positions * p.batch
        return 4 * p.groups * elements * (self.x.inner + p.out_channels) > self.target.bytes_per_tile

    @property
    def used(self) -> float:
        """The share of the lanes that are output channels."""
        p = self.call.params
        return p.groups * p.out_channels / (LANES * self.all_blocks * self.vectors)

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""
        p = self.call.params
        in_place = sum(box.size for box in self.boxes if box.in_place) / max(1, sum(box.size for box in self.boxes))
        what = "taps, sums kept over all of them" if self.over_taps else "output positions"
        decisions = {
            "kernel": self.kernel.label,
            "lanes": f"{LANES}, of input channels" if self.dots else
                     f"{LANES}, {self.used:.0%} used: {min(self.together, p.groups)} groups of {p.out_channels}",
            "boxes": f"{len(self.boxes)} of {what}; {in_place:.0%} read where they lie, others decoded first",
            "results": "written as they are" if self.direct else "through the epilogue",
            "threads": f"{self.threads}, {-(-self.all_blocks // self.blocks)} x {self.blocks} blocks of groups",
            "scratch": self.scratch_words,
        }
        return Explanation("", decisions, considered_kernels(self.selection))


def in_pairs(call: ConvCall, options: GemmOptions) -> bool:
    """Whether numbers of two input channels may be multiplied as BF16 at once here."""
    lies_so = call.x.channel == call.x.format.itemsize and call.params.in_channels % 2 == 0
    return lies_so and on_units(call.x.format, call.weights.format, options)


def _steps(dim: FieldDim) -> int:
    """Taps from a position to the next: 0 where that is no whole number of them."""
    if dim.positions == 1 or (dim.taps == 1 and dim.step):
        return 1
    return 0 if dim.step % dim.tap_step else abs(dim.step // dim.tap_step)


def readable(f: Format, scale: int, aligned: bool) -> bool:
    """Whether numbers are read where they lie."""
    return f == FP32 and scale == 0 and aligned
