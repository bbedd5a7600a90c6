"""How a convolution with few channels in a group runs on this CPU: boxes of positions, what is decoded to scratch.

Positions are output elements, the depth is (kernel elements, input channels), a sum is one chain of fused
multiply-adds in that order, or of products of pairs where the CPU multiplies BF16. Where the depth is long and
positions few, as in weight gradients, sums are kept instead, and boxes of taps pass by: image by image, box by box,
taps in order within one. Threads and instruction sets have no part in which boxes there are, so the sums' bits do not
depend on threads, nor on instruction sets but where pairs are multiplied.

What kernels do at once, and how they take operands, is data: a `Tile` each. `Dots` and `OverTaps` are plans of other
lanes, and of other boxes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...formats import BF16, FP16, FP32, Array, Format
from ...kernels import Selection
from ...kernels.records import STREAM_BYTES
from ...planner.explain import Explanation, considered_kernels
from ...target import Target
from ..gemm.options import GemmOptions
from ..gemm.plan import Epilogue, on_lines
from ._boxes import Box
from ._conv import AT_ONCE
from ._side import LANES, ROOM, Side, by_columns
from .model import Part, PhasePlan
from .params import ConvCall, FieldLayout

CACHE_SHARE = 0.45
"""Of the second-level cache: what a thread's scratch fills where no limit is named."""

_SUMS = 1 << 14  # bytes of sums in scratch
_POSITIONS = 8 * AT_ONCE  # done between two epilogues
_FAR = 4  # times the second-level cache, that tiles read and write, from which asking for it early pays
_SPARSE = 4  # codes for each weight up to which all are decoded in one go


class Tile(NamedTuple):
    """What a kernel does at once, and how it takes its operands."""

    op: str = "convolve"  # the kernel's
    slot: str = "convolve"  # the field of pop_conv_spec where the driver finds it
    holds: tuple[str, ...] = ()  # and those that hold of it
    x: Format = FP32  # what images are decoded to
    w: Format = FP32  # what weights, or deltas, are
    joined: int = 1  # how many numbers of the images are one: two in words of BF16
    in_order: bool = False  # whether a block's numbers stay in their order in scratch
    shares: bool = False  # whether neighbours share what they read
    steps: float = 12  # that pay for decoding: of fewer, numbers in the format of x are read where they lie


PLAIN = Tile()  # sums of positions, or over taps
WORDS = Tile(holds=("pairs",), x=BF16, w=BF16, joined=2, steps=0)  # of two input channels
DOTS = Tile("dots", holds=("dots",), steps=math.inf)  # of FP32, or of BF16
SLIDES = Tile("slide", "slide", shares=True, steps=0)  # neighbouring results, depthwise
ROW_PAIRS = SLIDES._replace(op="slide_pairs", holds=("row_pairs",), x=BF16)  # of two rows of taps at once
LINE_PAIRS = ROW_PAIRS._replace(op="slide_line")  # of two taps of one dimension
WORD_SLIDES = SLIDES._replace(op="slide_words", holds=("pairs",), x=BF16, w=BF16, joined=2, in_order=True)
QUADS = Tile("quads", holds=("quads",), in_order=True, steps=0)  # sums over taps of four numbers of a group
TAP_SLIDES = Tile("slide_taps", "slide_taps", shares=True)  # neighbouring deltas, depthwise; of FP32, or of BF16


@dataclass(frozen=True)
class FewPlan(PhasePlan):
    """How a convolution, or a phase of one, runs with few channels in a group: lanes are output channels.

    Attributes
    ----------
    call : ConvCall
    parts : tuple of Part
        Its phase of each dimension.
    options, epilogue, target
        How it is wanted, and on which machine.
    selection : Selection
        The kernel.
    tile : Tile
        What that does at once.
    threads : int
    memory_limit : int or None
        Bytes of scratch that a thread may take.
    blocks : int
        Blocks of groups that an item has.
    boxes : tuple of Box
    over_taps, wording : bool and str
        Of a class: whether boxes are of taps, and sums kept; what it is, in words.
    """

    call: ConvCall
    parts: tuple[Part, ...]
    options: GemmOptions
    epilogue: Epilogue
    target: Target
    selection: Selection
    tile: Tile = PLAIN
    threads: int = 1
    memory_limit: int | None = None
    blocks: int = 1
    boxes: tuple[Box, ...] = ()
    over_taps: ClassVar[bool] = False
    wording: ClassVar[str] = "lanes side by side: {} to {} channels in a group are few for a product of matrices"

    def __hash__(self) -> int:
        return hash(self.call)

    @property
    def compute_format(self) -> Format:
        """What numbers are multiplied as: BF16 where two are at once."""
        return BF16 if self.tile.x == BF16 or "pairs" in self.tile.holds else FP32

    @property
    def method(self) -> str:
        """What it is, in words."""
        return self.wording.format(self.call.params.in_channels, self.call.params.out_channels)

    @property
    def lanes(self) -> str:
        """What lanes are, in words."""
        p, n = self.call.params, min(self.together, self.call.params.groups)
        return f"{self.used:.0%} used: {n} group{'s' * (n > 1)} of {p.out_channels}"

    @property
    def wide(self) -> int:
        """Lanes of a group in a vector."""
        return min(LANES, 1 << max(0, self.call.params.out_channels - 1).bit_length())

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
    def used(self) -> float:
        """The share of the lanes that are output channels."""
        p = self.call.params
        return p.groups * p.out_channels / (LANES * self.all_blocks * self.vectors)

    @property
    def full(self) -> bool:
        """Whether every lane of every block is an output channel."""
        p = self.call.params
        return p.groups % self.together == 0 and p.out_channels == self.wide * self.vectors

    @property
    def order(self) -> Array | None:
        """Which lane each of a block comes from where they change places; of words, where those of its group begin."""
        if self.tile.in_order:
            return np.arange(LANES, dtype=np.int32) // self.wide * self.x.inner if self.tile.joined > 1 else None
        return by_columns(self.wide, self.together) if 1 < self.together < LANES else None

    @property
    def swept(self) -> list[tuple[int, int]]:
        """What boxes cut in each dimension, positions, and elements from one to the next."""
        return [(dim.positions, dim.step) for dim in self.dims]

    @property
    def met(self) -> list[tuple[int, int]]:
        """What each of those meets, taps, and elements from one to the next."""
        return [(dim.taps, dim.tap_step) for dim in self.dims]

    @property
    def outer(self) -> tuple[int, int]:
        """How often boxes pass by, for each image anew, and bytes from one to the next."""
        return self.call.params.batch, self.call.x.row

    @property
    def inner(self) -> tuple[int, int]:
        """How many numbers an element of a group has, its input channels, and bytes from one to the next."""
        return self.call.params.in_channels, self.call.x.channel

    @property
    def x(self) -> Side:
        """The images as they are decoded."""
        x, tile, (numbers, step) = self.call.x, self.tile, self.inner
        n = numbers // tile.joined
        return Side(x.format, x.scale, x.group, step * tile.joined, n, n, self.together, tile.x, tile.joined,
                    tile.in_order)

    @property
    def in_place(self) -> bool:
        """Whether boxes that nothing leaves read x where it lies: lanes side by side, or of one group."""
        x, steps = self.call.x, self.inner[0] * math.prod(n for n, _ in self.met)
        beside = self.together == 1 or (x.group == 4 and self.call.params.groups % self.together == 0)
        return readable(x, self.tile.x) and beside and steps < self.tile.steps

    @property
    def all_in_place(self) -> bool:
        """Whether tiles read x where it lies, whatever leaves it."""
        x, n = self.call.x, self.call.params.in_channels
        known = readable(x, *((FP32, FP16, BF16) if n == 1 else (BF16,)))
        return self.tile.shares and known and x.group == n * x.format.itemsize and self.full

    @property
    def shares_positions(self) -> bool:
        """Whether threads share boxes rather than blocks of groups: images are read where they lie, by whole lines."""
        return not self.over_taps and any(box.in_place for box in self.boxes)

    @property
    def in_bands(self) -> bool:
        """Whether all phases of a stride take a band of an image before the next."""
        return self.tile.shares and any(axis.input.dilation > 1 for axis in self.call.params.axes)

    @property
    def band(self) -> int:
        """Positions of the first dimension whose images a core's cache holds."""
        x, p = self.call.x, self.call.params
        line = p.groups * p.in_channels * x.format.itemsize * math.prod(p.field_shape[1:])
        return max(1, int(CACHE_SHARE * self.target.bytes_per_tile) // (line * max(1, abs(self.dims[0].step))))

    @property
    def w(self) -> Side:
        """The weights as they are decoded, or packed where taps are few; of a gradient of weights the deltas."""
        w, n, compute = self.call.weights, self.call.params.out_channels, self.tile.w
        sizes = n, self.wide * self.vectors, self.together, compute
        if self.run:
            return Side(compute, 0, w.group * self.widened, 0, *sizes)
        return Side(w.format, w.scale, w.group, w.row, *sizes, as_they_lie=self.tile.in_order)

    @property
    def w_in_place(self) -> bool:
        """Whether weights, which are deltas then, are read where they lie."""
        return False

    @property
    def run(self) -> tuple[int, int] | None:
        """Where weights that are decoded in one go, before they are packed, begin, and how many codes those are."""
        w, p, compute = self.call.weights, self.call.params, self.tile.w
        kept = (w.scale == 0 and w.format == compute) or not w.aligned
        lines = self.weights_in_line == 1 and compute == FP32 and self.taps * p.in_channels > LANES  # long as they lie
        if kept or lines or self.blocks < self.all_blocks:
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
        return self.tile.w.itemsize // self.call.weights.format.itemsize if self.run else 1

    @property
    def weights_in_line(self) -> int:
        """Whether weights lie one after another: 1 along the depth of an output channel, 2 along lanes, 0 neither."""
        w, p, size = self.call.weights, self.call.params, self.call.weights.format.itemsize
        lanes = w.row == size and (self.together == 1 or (self.tile.in_order and p.out_channels > 1))
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
    def out_channel(self) -> int:
        """Bytes from a result to the next channel's."""
        return self.call.out.group if self.call.params.out_channels == 1 else self.call.out.channel

    @property
    def compact(self) -> bool:
        """Whether the results of all lanes lie one `out_channel` apart."""
        n, groups = self.call.params.out_channels, self.call.params.groups
        return groups == 1 or (n == self.wide * self.vectors and self.call.out.group == n * self.out_channel)

    @property
    def plain(self) -> bool:
        """Whether sums of all lanes are results as they are."""
        return self.compact and self.full and self.epilogue == Epilogue() and self.call.bias is None

    @property
    def narrow(self) -> bool:
        """Whether tiles write results of 16 bits: in the format of x, or where they multiply BF16 in either."""
        out = self.call.out
        known = self.tile.shares and self.tile.x == BF16
        known = known or (self.all_in_place and out.format == self.call.x.format)
        along = out.scale == 0 and self.out_channel == out.format.itemsize
        return known and out.format in (FP16, BF16) and along and self.plain

    @property
    def direct(self) -> bool:
        """Whether sums are the results, written where those belong."""
        return self.narrow or (self.plain and readable(self.call.out, FP32) and self.out_channel == 4)

    @property
    def streams(self) -> bool:
        """Whether results pass the caches: tiles of them, where they and the images are more than those hold.

        A phase's results lie among those of the others.
        """
        p = self.call.params
        read = p.groups * math.prod(p.field_shape) * self.call.x.format.itemsize
        among = max((dim.positions * abs(dim.out_stride) for dim in self.dims), default=0)
        large = p.batch * (read + among) > STREAM_BYTES["tiles"]
        return self.tile.shares and self.direct and not self.narrow and large

    @property
    def turned(self) -> bool:
        """Whether input channels of results, not lanes, lie one after another."""
        return False

    @property
    def capacity(self) -> int:
        """Positions of the sums in scratch; where sums are kept, lines of a box."""
        if self.streams:
            return AT_ONCE
        most = _POSITIONS if self.direct else _SUMS // (64 * self.blocks * self.vectors)
        return AT_ONCE * max(1, min(_POSITIONS, most) // AT_ONCE)

    @property
    def held(self) -> tuple[int, int, int]:
        """Numbers of the tables in scratch, and bytes of sums and of weights there."""
        x, w, lanes = self.x, self.w, 64 * self.blocks * self.vectors
        sums = 0 if self.direct and not self.streams else self.capacity * lanes
        weights = self.blocks * self.taps * x.inner * x.joined * w.cell * w.padded * w.together
        return 3 * self.capacity + 2 * self.taps, sums, weights

    @property
    def layout(self) -> tuple[tuple[str, int], ...]:
        """Bytes of each part of a thread's scratch, in order."""
        x, w, (tables, sums, weights) = self.x, self.w, self.held
        room = max(ROOM, *(4 * self.blocks * side.padded * side.together + 128 for side in (x, w)))
        staged = max((self.window(box) for box in self.boxes if not (box.in_place or box.empty)), default=0)
        return on_lines(
            tables=8 * tables, sums=sums, bias=64 * self.blocks * self.vectors if self.call.bias else 0, room=room,
            weights=weights, run=self.run[1] * w.item if self.run else 0,
            images=staged * x.pitch(self.blocks) + 64 if self.taps else 0)

    def window(self, box: Box) -> int:
        """Elements of x that a box meets, and those between them."""
        sizes = zip(box.count, self.swept, self.met, strict=True)
        return math.prod(1 + (n - 1) * abs(step) + max(0, met - 1) * abs(by) for n, (_, step), (met, by) in sizes)

    @property
    def looks_ahead(self) -> bool:
        """Whether operands outgrow a thread's memory, or of tiles several times that: asking early pays."""
        p, call = self.call.params, self.call
        if self.tile.shares:
            sides = ((call.x, p.batch * p.in_channels, p.field_shape),
                     (call.weights, p.in_channels * p.out_channels, p.kernel_shape),
                     (call.out, p.batch * p.out_channels, p.output_shape))
            size = sum(side.format.itemsize * p.groups * n * math.prod(field) for side, n, field in sides)
            return size > _FAR * self.target.bytes_per_tile
        elements = math.prod(n for n, _ in self.swept) * self.outer[0]
        return 4 * p.groups * elements * (self.x.inner + p.out_channels) > self.target.bytes_per_tile

    @property
    def _taken(self) -> str:
        """How boxes take the images, in words; those that meet padding alone take none."""
        met = [box for box in self.boxes if not box.empty]
        share = sum(box.size for box in met if box.in_place) / max(1, sum(box.size for box in met))
        if share in (0, 1):
            return "read where they lie" if share else "decoded first"
        return f"read where they lie for {share:.0%}, decoded first for others"

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""
        what = "taps, sums kept over all of them" if self.over_taps else "output positions"
        decisions = {
            "kernel": self.kernel.label,
            "lanes": f"{LANES}, {self.lanes}",
            "boxes": f"{len(self.boxes)} of {what}; images {self._taken}",
            "results": "written as they are" if self.direct else "through the epilogue",
            "threads": f"{self.threads}, {-(-self.all_blocks // self.blocks)} x {self.blocks} blocks of groups",
            **self.scratch_decisions,
        }
        return Explanation("", decisions, considered_kernels(self.selection))


class Dots(FewPlan):
    """The same whose lanes are input channels."""

    wording = "dots of input channels, in lanes side by side: {} to {} channels in a group"
    lanes, wide = "of input channels", LANES
    in_bands, run = True, None

    @property
    def w(self) -> Side:
        """The weights as they are decoded: lines of input channels."""
        return super().w._replace(padded=self.call.params.out_channels)


class OverTaps(FewPlan):
    """The same of a gradient of weights: boxes are of taps, the deltas are weights, and sums are kept."""

    over_taps, in_bands, plain, run = True, False, False, None
    swept, met = FewPlan.met, FewPlan.swept

    @property
    def outer(self) -> tuple[int, int]:
        """How often boxes pass by, for each input channel anew, and bytes from one to the next."""
        return self.call.params.in_channels, self.call.x.channel

    @property
    def inner(self) -> tuple[int, int]:
        """How many numbers an element of a group has, those of all images, and bytes from one to the next."""
        return self.call.params.batch, self.call.x.row

    @property
    def all_in_place(self) -> bool:
        """Whether tiles of deltas read both operands where they lie, whatever leaves x."""
        x, w = self.call.x, self.call.weights
        lie_so = all(readable(side, x.format) and side.group == side.format.itemsize for side in (x, w))
        return self.tile.shares and x.format.name == self.kernel.formats and lie_so and self.full

    @property
    def w_in_place(self) -> bool:
        """Whether deltas are read where they lie: by tiles with x, else lanes side by side."""
        w, n = self.call.weights, self.call.params.out_channels
        along = w.group == 4 if n == 1 else w.row == 4 and (self.together == 1 or self.tile.in_order)
        return self.all_in_place if self.tile.shares else readable(w, FP32) and along and self.full

    @property
    def turned(self) -> bool:
        """Whether input channels of results lie one after another: sums of all lanes are lines of them.

        A bias is of columns, which these lines have none of.
        """
        out, n = self.call.out, self.call.params.batch
        lines = n > 1 and self.vectors == 1 and self.compact and out.row == out.format.itemsize
        return lines and self.call.bias is None

    @property
    def capacity(self) -> int:
        """Lines of a box."""
        return max((box.size // max(1, box.count[-1]) for box in self.boxes), default=1)

    @property
    def held(self) -> tuple[int, int, int]:
        """Numbers of the tables in scratch, and bytes of sums and of deltas there."""
        n, largest = self.positions * self.x.inner, max((box.size for box in self.boxes), default=0)
        deltas = 0 if self.w_in_place else largest * self.w.pitch(self.blocks) + 64
        return 3 * n + 2 * self.capacity, 64 * n * self.blocks * self.vectors, deltas


def readable(x: FieldLayout, *formats: Format) -> bool:
    """Whether numbers in one of these formats are read, or written, where they lie."""
    return x.format in formats and x.scale == 0 and x.aligned
