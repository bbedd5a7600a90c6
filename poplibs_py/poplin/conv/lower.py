"""A convolution's plan to a program: the work of all its products in one compute set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...memo import remembered
from ...program import Executable, Segment, Sequence, host_program, spread
from ..gemm import _gemm
from ..gemm.lower import items_of
from ..gemm.plan import prepared_bytes
from . import _overlap
from .few import FewPlan
from .few_lower import bands_segment, few_segment
from .overlap import overlap_items
from .params import WORDS
from .plan import HostConvPlan
from .rearranged import in_chunks
from .window import WindowPlan
from .window_lower import window_segment
from .winograd_lower import winograd_sets

WHOLE = 6
"""Operand that holds weights as they lie where they come prepared in parts."""


_SEGMENTS: dict[type, Callable[[Any], tuple[Segment, list[Any]]]] = {
    FewPlan: few_segment, WindowPlan: window_segment}  # those of matrices share a segment


@dataclass(frozen=True, eq=False)
class LoweredConv:
    """A convolution lowered; its executable takes images, weights, the result, then bias and residual if there are."""

    plan: HostConvPlan
    executable: Executable | Sequence

    def told(self) -> tuple[str, str, HostConvPlan]:
        """Return what runs, for a reader, its kernel, and the plan."""
        return self.plan.problem.removeprefix("convolution of "), self.plan.kernel.label, self.plan


@remembered()
def lower(plan: HostConvPlan) -> LoweredConv:
    """Lower a plan to a program."""
    if plan.rearranged:
        some = lower(replace(plan, call=plan.rearranged.call, rearranged=None)).executable
        assert isinstance(some, Executable)
        return LoweredConv(plan, in_chunks(plan.rearranged, plan.call, plan.residual, some))
    segments: list[Segment] = []
    tables: list[Any] = []
    operands = 3 + (plan.call.bias is not None) + plan.residual + plan.epilogue.takes_words
    if plan.transformed:
        sets, tables = winograd_sets(plan.transformed, plan.call, plan.epilogue, plan.residual, plan.prepared)
        return LoweredConv(plan, host_program(*sets, operands=operands, threads=plan.threads,
                                              arena_bytes=plan.scratch_bytes, workspace_bytes=plan.workspace_bytes,
                                              tables=tuple(tables)))
    if plan.overlap:
        items, held = overlap_items(plan.overlap, plan.call)
        segments.append(Segment(_overlap.VERTEX, items, spread(len(items), plan.threads)))
        tables += held
    elif plan.dense:
        items, held = _products(plan)
        segments.append(Segment(_gemm.VERTEX, items, spread(len(items), plan.threads)))
        tables += held
    in_bands = [product for product in plan.products if isinstance(product, FewPlan) and product.in_bands]
    if in_bands:
        segment, held = bands_segment(in_bands)
        segments.append(segment)
        tables += held
    for product in plan.products:
        if isinstance(product, FewPlan) and product.in_bands:
            continue
        if lowered := _SEGMENTS.get(type(product)):
            segment, held = lowered(product)
            segments.append(segment)
            tables += held
    if plan.prepared and plan.falls_back:
        operands = WHOLE + 1
    return LoweredConv(plan, host_program(tuple(segments), operands=operands, threads=plan.threads,
                                          arena_bytes=plan.scratch_bytes, tables=tuple(tables)))


def _products(plan: HostConvPlan) -> tuple[np.ndarray[Any, Any], list[Any]]:
    """Rectangles of all products of matrices, and their tables."""
    old = 3 + (plan.call.bias is not None) if plan.residual else 0
    made = [items_of(product, *((1, 0) if product.swapped else (0, 1)), old, WORDS) for product in plan.dense]
    panels, groups = 0, plan.call.params.groups
    for product, (items, _) in zip(plan.dense, made, strict=True):
        if plan.prepared:
            entry = np.arange(len(items)) * product.params.entries // len(items)
            items["b_panels"] = panels + entry % groups * prepared_bytes(product)
            panels += groups * prepared_bytes(product)
    return np.concatenate([items for items, _ in made]), [table for _, held in made for table in held]
