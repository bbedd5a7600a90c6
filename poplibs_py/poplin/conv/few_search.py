"""Planning a convolution with few channels in a group: which tiles, how many groups at once, and which boxes."""

from __future__ import annotations

import math
from dataclasses import replace

from ...formats import BF16, FP16, FP32, Format
from ...kernels import select
from ...target import Target
from ..gemm.field import FieldDim
from ..gemm.model import threads_of
from ..gemm.options import GemmOptions
from ..gemm.plan import Epilogue
from ..gemm.search import FEW, on_units
from . import few
from ._boxes import Box, around, banded, cut, halves, inside, span
from ._conv import AT_ONCE
from ._side import LANES
from .few import CACHE_SHARE, Dots, FewPlan, OverTaps, Tile
from .model import Part
from .params import ConvCall

_WIDEST = 4 * LANES  # output channels of a group: with more a product of matrices does as well
_USED, _USED_OVER_TAPS = 0.75, 0.25  # share of the lanes from which one group is done so
_INSIDE = 0.6  # of the positions must meet no padding for boxes to read x where it lies
_LEAST_DOT = 512  # products of a result that pay for adding its lanes
_MOST_STEPS = 2  # taps from a result to the next that tiles are made for
_ROW_BOXES = 4  # boxes of a thread, so that all end at about the same time
_VOLUME = 3  # dimensions
_SLOWER = 4  # times as long as in a product of many channels an operation takes, about


def plan_few(call: ConvCall, parts: tuple[Part, ...], options: GemmOptions, epilogue: Epilogue, target: Target,
             dots: Format | None = None) -> FewPlan | None:
    """Plan a convolution, or a phase of one; None where channels are many, or the scratch would pass the limit.

    Where lanes are those of input channels `dots` is what these are multiplied in (`dots_format`).
    """
    limit = options.memory.limit(target)
    draft = FewPlan(call, parts, options, epilogue, target, select("conv", few.PLAIN.op, FP32.name), memory_limit=limit)
    draft = replace(draft, threads=threads_of(_SLOWER * call.params.flops(), target))
    tiled = _over_taps(draft) if _sums_stay(draft) else _over_positions(draft, dots)
    if tiled is None:
        return None
    budget = int(CACHE_SHARE * target.bytes_per_tile) if limit is None else limit
    best, least = None, math.inf
    for blocks in halves(tiled.all_blocks):
        plan = _boxed(replace(tiled, blocks=blocks), budget)
        if plan is None:
            continue
        cost = sum(plan.window(box) for box in plan.boxes if not box.in_place) * _pieces(plan)
        if cost < least:
            best, least = plan, cost
    return best and _shared(_in_pairs_of_taps(best))


def _sums_stay(draft: FewPlan) -> bool:
    """Whether a convolution is one of many taps and few positions, all of which meet numbers: a gradient of weights."""
    p, valid = draft.call.params, all(dim.first_valid <= 0 and dim.end_valid >= dim.positions for dim in draft.dims)
    return valid and draft.taps > draft.positions and draft.taps * p.in_channels > draft.positions * p.batch


def _few(draft: FewPlan) -> bool:
    """Whether channels are so few that lanes of output channels do as well as a product of matrices.

    How many are few is measured: a product of matrices is as fast beyond 16 input channels, and where there is one
    group that leaves lanes empty or has one tap; on BF16 units it is faster from 64 output channels on, or 32 of 16.
    """
    call, p, inner = draft.call, draft.call.params, draft.inner[0]
    if inner > LANES or p.out_channels > _WIDEST:
        return False
    if p.groups != 1:
        return True
    full = p.out_channels >= (_WIDEST if inner < LANES else _WIDEST // 2)
    if full and on_units(call.x.format, call.weights.format, draft.options):
        return False
    if draft.over_taps:
        return draft.used >= _USED_OVER_TAPS and draft.positions * inner >= AT_ONCE // 2
    return draft.used >= _USED and draft.taps > 1


def _with(draft: FewPlan, tile: Tile, taken: Format) -> FewPlan:
    """The draft with tiles of a kernel of this format."""
    return replace(draft, tile=tile, selection=select("conv", tile.op, taken.name))


def _over_positions(draft: FewPlan, dots: Format | None) -> FewPlan | None:
    """The draft with its tiles of positions: dots, of neighbours, of words, or plain."""
    call, x, p = draft.call, draft.call.x, draft.call.params
    if dots:
        return _with(Dots(**vars(draft)), few.DOTS._replace(x=dots, w=dots), dots)
    if not _few(draft):
        return None
    units = on_units(x.format, call.weights.format, draft.options)
    pairs = units and x.channel == x.format.itemsize and p.in_channels % 2 == 0
    beside = x.group == p.in_channels * x.format.itemsize and draft.together * p.in_channels <= 2 * LANES
    words = pairs and beside and draft.vectors == 1 and draft.compact
    depthwise = p.in_channels == 1 and draft.together == LANES
    if not (depthwise or words) or not _neighbours(draft):
        return _with(draft, few.WORDS, BF16) if pairs else draft
    if words:
        return _with(draft, few.WORD_SLIDES, BF16)
    if units and x.group == x.format.itemsize:
        return _with(draft, few.ROW_PAIRS if len(draft.dims) > 1 else few.LINE_PAIRS, BF16)
    return _with(draft, few.SLIDES, x.format if replace(draft, tile=few.SLIDES).all_in_place else FP32)


def _neighbours(draft: FewPlan) -> bool:
    """Whether taps are neighbours where results are."""
    rows, columns = ([1] + [_steps(dim) for dim in draft.dims])[-2:]
    return draft.taps > 0 and rows > 0 and 0 < columns <= _MOST_STEPS


def _steps(dim: FieldDim) -> int:
    """Taps from a position to the next: 0 where that is no whole number of them."""
    if dim.positions == 1 or (dim.taps == 1 and dim.step):
        return 1
    return 0 if dim.step % dim.tap_step else abs(dim.step // dim.tap_step)


def _over_taps(draft: FewPlan) -> FewPlan | None:
    """The draft with its tiles of sums over taps: of neighbours, of four numbers, or plain."""
    draft = OverTaps(**vars(draft))
    if not _few(draft):
        return None
    x, w, n, out = draft.call.x, draft.call.weights, draft.call.params.batch, draft.call.params.out_channels
    if _neighbouring_deltas(draft):
        beside = all(side.group == side.format.itemsize for side in (x, w))
        if beside and on_units(x.format, w.format, draft.options):
            return _with(draft, few.TAP_SLIDES._replace(x=BF16, w=BF16), BF16)
        narrow = _with(draft, few.TAP_SLIDES, FP16)
        return narrow if narrow.all_in_place else _with(draft, few.TAP_SLIDES, FP32)
    beside = (x.row, x.group) == (x.format.itemsize, n * x.format.itemsize)
    beside = beside and (w.row, w.group) == (w.format.itemsize, out * w.format.itemsize)
    fours = beside and out == draft.wide >= 4 and draft.together * n <= LANES
    return _with(draft, few.QUADS, FP32) if fours else draft


def _neighbouring_deltas(draft: FewPlan) -> bool:
    """Whether neighbouring deltas share what they read: depthwise ones, not turned."""
    p, dims = draft.call.params, draft.dims
    if draft.together < LANES or p.batch > 1 or not dims or not all(
            dim.tap_step > 0 and (dim.step > 0 or dim.positions == 1) for dim in dims):
        return False
    unit = dims[-1].step if dims[-1].positions > 1 else dims[-1].tap_step
    return dims[-1].tap_step % unit == 0 and dims[-1].tap_step // unit <= _MOST_STEPS


def _in_pairs_of_taps(plan: FewPlan) -> FewPlan:
    """The plan with two BF16 numbers of neighbouring taps at once, if it may be: every box has an even number of them.

    Joining them costs more than it gains where a number has one product for each kernel element.
    """
    formats = plan.call.x.format, plan.call.weights.format
    if not plan.over_taps or plan.together == LANES or not on_units(*formats, plan.options):
        return plan
    even = plan.dims[-1].tap_step > 0 and all(box.count[-1] % 2 == 0 and not box.in_place for box in plan.boxes)
    return _with(plan, plan.tile._replace(holds=(*plan.tile.holds, "pairs")), BF16) if even else plan


def dots_format(call: ConvCall, options: GemmOptions) -> Format | str:
    """What lanes of input channels are multiplied in; where those are not filled, or do not pay, why, in words."""
    x, w, p = call.x, call.weights, call.params
    compute = BF16 if on_units(x.format, w.format, options) else FP32
    lanes, taps = LANES * FP32.itemsize // compute.itemsize, math.prod(p.kernel_shape)
    if p.out_channels > FEW:
        return f"{p.out_channels} output channels are not few"
    if x.channel != x.format.itemsize:
        return "input channels do not lie side by side"
    if p.in_channels % lanes:
        return f"{p.in_channels} input channels are no multiple of {lanes}"
    if taps <= 1 or p.in_channels * taps < _LEAST_DOT:
        return f"sums of {p.in_channels * taps} products are short" if taps > 1 else "kernels have one element"
    return compute


def _pieces(plan: FewPlan) -> float:
    """How much longer images take to read in pieces than in whole lines."""
    x = plan.x
    if not (x.in_line and x.inner) or plan.blocks == plan.all_blocks:
        return 1.0
    return 1 + 64 / (plan.blocks * plan.together * x.inner * x.item)


def _shared(plan: FewPlan) -> FewPlan:
    """The same with work for all threads; where sums are kept, boxes stay as they are: they say the sums' order."""
    if plan.threads == 1:
        return plan
    if plan.over_taps:
        blocks = min(plan.blocks, -(-plan.all_blocks // plan.threads))
        threads = min(plan.threads, -(-plan.all_blocks // blocks))
        return replace(plan, blocks=blocks, threads=threads)
    items = plan.outer[0] * (1 if plan.shares_positions else -(-plan.all_blocks // plan.blocks))
    decoded = not all(box.in_place or box.empty for box in plan.boxes)  # with what lies beside a box
    wanted = -(-plan.threads * (1 if decoded else _ROW_BOXES) // max(1, items))
    boxes = banded(plan.boxes, -(-plan.dims[0].positions // wanted))
    return replace(plan, boxes=tuple(boxes), threads=max(1, min(plan.threads, items * len(boxes))))


def _boxed(plan: FewPlan, budget: int) -> FewPlan | None:
    """The plan with the largest boxes whose scratch fits the budget; None if the smallest do not."""
    boxes: list[Box] = []
    for box in _regions(plan):
        count = box.count
        while replace(plan, boxes=(replace(box, count=count),)).scratch_bytes > budget:
            d = next((d for d, n in enumerate(count) if n > 1), None)
            if d is None:
                return None
            half = -(-count[d] // 2)
            if plan.over_taps and plan.tile.shares and half > 1:
                half += half % 2  # rows of BF16 are joined
            count = (*count[:d], half, *count[d + 1:])
        boxes += cut(box, count)
    if plan.in_bands:
        boxes = banded(boxes, plan.band)
    made = replace(plan, boxes=tuple(boxes))
    return made if made.scratch_bytes <= budget else None


def _regions(plan: FewPlan) -> list[Box]:
    """Boxes that together are all positions, or taps: read where they lie, decoded, and those that meet zeros alone."""
    within = [inside(dim, plan.over_taps) for dim in plan.dims]
    whole = valid = [(0, n) for n, _ in plan.swept]
    if not plan.over_taps:
        valid = [(low := min(n, max(0, dim.first_valid)), max(low, min(n, dim.end_valid))) if plan.taps else (0, 0)
                 for dim, (_, n) in zip(plan.dims, whole, strict=True)]
    share = math.prod(b - a for a, b in within) / max(1, math.prod(b - a for a, b in valid))
    inner, in_place = valid, plan.all_in_place
    if plan.in_place and share >= _INSIDE and not in_place:
        inner, in_place = within, True
    elif len(valid) >= _VOLUME and within[0][0] < within[0][1] and not (in_place or plan.over_taps):
        inner = [within[0], *valid[1:]]  # planes apart that miss taps, which are left out there
    found = [Box(*span(inner), in_place=in_place), *around(inner, valid, False), *around(valid, whole, True)]
    return [box for box in found if box.size]
