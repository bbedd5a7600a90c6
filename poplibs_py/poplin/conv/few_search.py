"""Planning a convolution with few channels in a group: which kernel, how many groups at once, and which boxes."""

from __future__ import annotations

import math
from dataclasses import replace

from ...formats import BF16, FP16, FP32
from ...kernels import Selection, select
from ...target import Target
from ..gemm.model import threads_of
from ..gemm.options import GemmOptions
from ..gemm.plan import Epilogue
from ..gemm.search import FEW, on_units
from ._boxes import Box, around, banded, cut, halves, inside, span
from ._conv import AT_ONCE
from ._side import LANES
from .few import CACHE_SHARE, FewPlan, in_pairs, readable
from .model import Part
from .params import ConvCall

_WIDEST = 4 * LANES  # output channels of a group: with more a product of matrices does as well
_USED, _USED_OVER_TAPS = 0.75, 0.25  # share of the lanes from which one group is done so
_LONG = 12  # steps that pay for decoding: with fewer, x is read where it lies
_INSIDE = 0.6  # of the positions must meet no padding for that
_LEAST_DOT = 512  # products of a result that pay for adding its lanes
_ROW_BOXES = 4  # boxes of a thread, so that all end at about the same time


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
    elif not over_taps and in_pairs(call, options):
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
    budget = int(CACHE_SHARE * target.bytes_per_tile) if limit is None else limit
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
    in_place = readable(x.format, x.scale, x.aligned) and side_by_side and share >= _INSIDE and steps < _LONG
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
