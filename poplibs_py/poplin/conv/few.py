"""Planning a convolution with few channels in a group on this CPU: boxes of positions, what is decoded to scratch.

Positions are output elements, the depth is (kernel elements, input channels), a sum is one chain of fused
multiply-adds in that order, or of products of pairs where the CPU multiplies BF16. Where the depth is long and
positions few, as in weight gradients, sums are kept instead, and boxes of taps pass by: image by image, box by box,
taps in order within one. Threads and instruction sets have no part in which boxes there are, so the sums' bits do not
depend on threads, nor on instruction sets but where pairs are multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...formats import BF16, FP16, FP32, Format
from ...kernels import Selection, select
from ...kernels.records import STREAM_BYTES
from ...planner.explain import Explanation, considered_kernels
from ...target import Target
from ..gemm.field import FieldDim
from ..gemm.model import rounded, threads_of
from ..gemm.options import GemmOptions
from ..gemm.plan import Epilogue
from ..gemm.search import FEW, on_units
from ._boxes import Box, around, banded, cut, inside, span
from ._side import LANES, Side
from .model import Part, PhasePlan
from .params import ConvCall

AT_ONCE = 14
"""Positions that it does at once."""

_CACHE_SHARE = 0.45  # of the second-level cache, that a thread's scratch fills where no limit is named
_LINE = 64  # numbers that are decoded at once
_SUMS = 1 << 14  # bytes of sums in scratch
_WIDEST = 4 * LANES  # output channels of a group: with more a product of matrices does as well
_USED, _USED_OVER_TAPS = 0.75, 0.25  # share of the lanes from which one group is done so
_POSITIONS = 8 * AT_ONCE  # done between two epilogues
_LONG = 12  # steps that pay for decoding: with fewer, x is read where it lies
_INSIDE = 0.6  # of the positions must meet no padding for that
_MOST_STEPS = 2  # taps from a result to the next that tiles are made for
_LEAST_DOT = 512  # products of a result that pay for adding its lanes
_SPARSE = 4  # codes for each weight up to which all are decoded in one go
_ROW_BOXES = 4  # boxes of a thread, so that all end at about the same time


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
        return max(1, int(_CACHE_SHARE * self.target.bytes_per_tile) // (line * max(1, abs(self.dims[0].step))))

    @property
    def deltas(self) -> Side:
        """The weights as they are decoded where taps are many, or lanes are input channels."""
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
        """Whether a gradient of weights has input channels one after another: sums of all lanes are lines of them."""
        out, n = self.call.out, self.call.params.batch
        return self.over_taps and n > 1 and self.vectors == 1 and self.compact and out.row == out.format.itemsize

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
        return beside and self.vectors == 1 and self.compact and _in_pairs(self.call, self.options)

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
        return self.narrow or (self._plain and _readable(out.format, out.scale, out.aligned) and self.out_channel == 4)

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
        return self.over_taps and _readable(w.format, w.scale, w.aligned) and along and self.full

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
        lanes, x, w = self.blocks * self.vectors, self.x, self.deltas
        if self.over_taps:
            n = self.positions * x.inner
            tables, sums, fixed = 3 * n + 2 * self.capacity, 64 * n * lanes, 0
            if not self.deltas_in_place:
                fixed = max((box.size for box in self.boxes), default=0) * w.pitch(self.blocks) + 64
        else:
            number = x.cell * self.call.params.out_channels if self.dots else 64
            tables, fixed = 3 * self.capacity + 2 * self.taps, number * lanes * self.taps * x.inner
            sums = 0 if self.direct and not self.streams else self.capacity * 64 * lanes
        room = 4 * LANES * _LINE + 4 * _LINE
        for side in (x, w):
            room = max(room, 4 * self.blocks * side.padded * side.together + 128)
        staged = max((self.window(box) for box in self.boxes if not (box.in_place or box.empty)), default=0)
        parts = (("tables", 8 * tables), ("sums", sums), ("bias", 64 * lanes if self.call.bias else 0), ("room", room),
                 ("weights", fixed), ("run", self.run[1] * w.item if self.run else 0),
                 ("images", staged * x.pitch(self.blocks) + 64 if self.taps else 0))
        return tuple((name, rounded(size, 64)) for name, size in parts)

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
        """Whether operands outgrow a thread's memory, or of tiles a quarter of the last cache: asking early pays."""
        p, call = self.call.params, self.call
        if self.slides or self.slides_over_taps:
            sides = ((call.x, p.batch * p.in_channels, p.field_shape),
                     (call.weights, p.in_channels * p.out_channels, p.kernel_shape),
                     (call.out, p.batch * p.out_channels, p.output_shape))
            size = sum(side.format.itemsize * p.groups * n * math.prod(field) for side, n, field in sides)
            return size > STREAM_BYTES["tiles"] // 2
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


def plan_few(call: ConvCall, parts: tuple[Part, ...], options: GemmOptions, epilogue: Epilogue,
             target: Target) -> FewPlan | None:
    """Plan a convolution, or a phase of one; None where channels are many, or the scratch would pass the limit.

    How many are few is measured: a product of matrices is as fast beyond 16 input channels, and where there is one
    group that leaves lanes empty or has one tap; on BF16 units it is faster from 64 output channels on, or 32 of 16.
    """
    limit, p = options.memory.limit(target), call.params
    draft = FewPlan(call, parts, options, epilogue, target, select("conv", "convolve", "float32"), False, 1, (), 1,
                    limit)
    positions, taps = draft.positions, draft.taps
    valid = all(dim.first_valid <= 0 and dim.end_valid >= dim.positions for dim in draft.dims)
    over_taps = valid and taps > positions and taps * p.in_channels > positions * p.batch
    inner = p.batch if over_taps else p.in_channels
    dots = None if over_taps else dots_kernel(call, options)
    if not dots and (inner > LANES or p.out_channels > _WIDEST):
        return None
    draft = replace(draft, over_taps=over_taps, threads=threads_of(draft.flops, target))
    if dots:
        draft = replace(draft, selection=dots)
    elif draft.slides:
        joined = "slide_pairs" if len(draft.dims) > 1 else "slide_line"
        op = "slide_words" if draft.in_words else joined if _in_row_pairs(draft, options) else "slide"
        taken = call.x.format if draft.slides_in_place else FP32
        draft = replace(draft, selection=select("conv", op, str(taken) if op == "slide" else BF16.name))
    elif not over_taps and _in_pairs(call, options):
        draft = replace(draft, selection=select("conv", "convolve", BF16.name))
    if p.groups == 1 and not dots:
        full = p.out_channels >= (_WIDEST if inner < LANES else _WIDEST // 2)
        if full and on_units(call.x.format, call.weights.format, options):
            return None
        least, enough = (_USED_OVER_TAPS, positions * inner >= AT_ONCE // 2) if over_taps else (_USED, taps > 1)
        if draft.used < least or not enough:
            return None
    if draft.slides_over_taps:
        draft = replace(draft, selection=_over_taps(draft))
    budget = int(_CACHE_SHARE * target.bytes_per_tile) if limit is None else limit
    best, least = None, math.inf
    for blocks in halves(draft.all_blocks):
        plan = _boxed(replace(draft, blocks=blocks), budget)
        if plan is None:
            continue
        cost = sum(plan.window(box) for box in plan.boxes if not box.in_place) * _pieces(plan)
        if cost < least:
            best, least = plan, cost
    if best and best.over_taps and not best.slides_over_taps:
        op, taken = "quads" if best.quads else "convolve", BF16 if _in_tap_pairs(best) else FP32
        best = replace(best, selection=select("conv", op, taken.name))
    return best and _shared(best)


def _over_taps(draft: FewPlan) -> Selection:
    """The kernel of tiles of deltas: of BF16 where the CPU multiplies it and channels lie side by side."""
    x, w = draft.call.x, draft.call.weights
    beside = all(side.group == side.format.itemsize for side in (x, w))
    if beside and on_units(x.format, w.format, draft.options):
        return select("conv", "slide_taps", BF16.name)
    narrow = select("conv", "slide_taps", FP16.name)
    return narrow if replace(draft, selection=narrow).both_in_place else select("conv", "slide_taps", FP32.name)


def dots_kernel(call: ConvCall, options: GemmOptions) -> Selection | None:
    """The kernel whose lanes are input channels, where those fill them and results have few channels."""
    x, w, p = call.x, call.weights, call.params
    compute = BF16 if on_units(x.format, w.format, options) else FP32
    lies_so = x.channel == x.format.itemsize and p.in_channels * compute.itemsize % (LANES * FP32.itemsize) == 0
    enough = math.prod(p.kernel_shape) > 1 and p.in_channels * math.prod(p.kernel_shape) >= _LEAST_DOT
    return select("conv", "dots", compute.name) if lies_so and enough and p.out_channels <= FEW else None


def _pieces(plan: FewPlan) -> float:
    """How much longer images take to read in pieces than in whole lines."""
    x = plan.x
    if not x.in_line or plan.blocks == plan.all_blocks:
        return 1.0
    return 1 + 64 / (plan.blocks * plan.together * x.inner * x.item)


def _shared(plan: FewPlan) -> FewPlan:
    """The same with work for all threads; where sums are kept, boxes stay as they are: they say the sums' order."""
    if plan.threads == 1:
        return plan
    p = plan.call.params
    if plan.over_taps:
        blocks = min(plan.blocks, -(-plan.all_blocks // plan.threads))
        threads = min(plan.threads, -(-plan.all_blocks // blocks))
        return replace(plan, blocks=blocks, threads=threads)
    items = p.batch * -(-plan.all_blocks // plan.blocks)
    wanted = -(-plan.threads * _ROW_BOXES // max(1, items))
    boxes = [part for box in plan.boxes for part in cut(box, tuple(
        max(1, -(-n // wanted)) if d == 0 else n for d, n in enumerate(box.count)))]
    return replace(plan, boxes=tuple(boxes), threads=max(1, min(plan.threads, items * len(boxes))))


def _in_pairs(call: ConvCall, options: GemmOptions) -> bool:
    """Whether numbers of two input channels may be multiplied as BF16 at once here."""
    lies_so = call.x.channel == call.x.format.itemsize and call.params.in_channels % 2 == 0
    return lies_so and on_units(call.x.format, call.weights.format, options)


def _in_tap_pairs(plan: FewPlan) -> bool:
    """Whether numbers of neighbouring taps may be multiplied as BF16 here: every box has an even number of them.

    Joining them costs more than it gains where a number has one product for each kernel element.
    """
    formats = plan.call.x.format, plan.call.weights.format
    if not plan.over_taps or plan.together == LANES or not on_units(*formats, plan.options):
        return False
    return plan.dims[-1].tap_step > 0 and all(box.count[-1] % 2 == 0 and not box.in_place for box in plan.boxes)


def _in_row_pairs(draft: FewPlan, options: GemmOptions) -> bool:
    """Whether numbers of two rows of taps, or two neighbours along one dimension, may be multiplied as BF16 here."""
    x = draft.call.x
    return x.group == x.format.itemsize and on_units(x.format, draft.call.weights.format, options)


def _steps(dim: FieldDim) -> int:
    """Taps from a position to the next: 0 where that is no whole number of them."""
    if dim.positions == 1 or (dim.taps == 1 and dim.step):
        return 1
    return 0 if dim.step % dim.tap_step else abs(dim.step // dim.tap_step)


def _readable(f: Format, scale: int, aligned: bool) -> bool:
    """Whether numbers are read where they lie."""
    return f == FP32 and scale == 0 and aligned


def halves(n: int) -> Iterator[int]:
    """Return a number, half of it and so on down to 1."""
    while n > 1:
        yield n
        n = -(-n // 2)
    yield 1


def _boxed(plan: FewPlan, budget: int) -> FewPlan | None:
    """The plan with the largest boxes whose scratch fits the budget; None if the smallest do not."""
    boxes: list[Box] = []
    for box in _regions(plan):
        count = box.count
        while not (box.in_place or box.empty) or plan.over_taps:
            if replace(plan, boxes=(replace(box, count=count),)).scratch_bytes <= budget:
                break
            d = next((d for d, n in enumerate(count) if n > 1), None)
            if d is None:
                return None
            half = -(-count[d] // 2)
            if plan.slides_over_taps and half > 1:
                half += half % 2  # rows of BF16 are joined
            count = (*count[:d], half, *count[d + 1:])
        boxes += cut(box, count)
    if plan.in_bands:
        boxes = banded(boxes, plan.band)
    made = replace(plan, boxes=tuple(boxes))
    return made if made.scratch_bytes <= budget else None


def _regions(plan: FewPlan) -> list[Box]:
    """Boxes that together are all positions, or taps: read where they lie, decoded, and those that meet zeros alone."""
    whole = [dim.taps if plan.over_taps else dim.positions for dim in plan.dims]
    within = [inside(dim, plan.over_taps) for dim in plan.dims]
    if plan.over_taps:
        valid = [(0, n) for n in whole]
    else:
        valid = [(low := min(n, max(0, dim.first_valid)), max(low, min(n, dim.end_valid)))
                 for n, dim in zip(whole, plan.dims, strict=True)]
    if not plan.taps:
        valid = [(0, 0) for _ in whole]
    steps = plan.x.inner * (plan.positions if plan.over_taps else plan.taps)
    share = math.prod(b - a for a, b in within) / max(1, math.prod(b - a for a, b in valid))
    x = plan.call.x
    side_by_side = plan.together == 1 or (x.group == 4 and plan.call.params.groups % plan.together == 0)
    in_place = _readable(x.format, x.scale, x.aligned) and side_by_side and share >= _INSIDE and steps < _LONG
    in_place = in_place and not plan.quads
    if plan.dots:
        in_place = x.format == plan.x.compute and x.scale == 0 and x.aligned and share >= _INSIDE
    found = []
    if plan.slides_in_place or plan.both_in_place:
        found += [Box(*span(valid), in_place=True)]
    elif in_place and not plan.slides:
        found += [Box(*span(within), in_place=True), *around(within, valid, False)]
    else:
        found += [Box(*span(valid))]
    found += around(valid, [(0, n) for n in whole], True)
    return [box for box in found if box.size]
