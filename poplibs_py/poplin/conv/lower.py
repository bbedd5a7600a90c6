"""A convolution's plan to a program: a table of what lowers each way, and each kind of phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...memo import remembered
from ...program import Executable, Segment, Sequence, host_program, segment_by_work, spread
from ..gemm import _gemm
from ..gemm.lower import items_of
from ..gemm.plan import GemmPlan, prepared_bytes
from . import _overlap
from .few import FewPlan
from .few_lower import few_segments
from .overlap import Overlap, overlap_items
from .params import WORDS
from .plan import HostConvPlan
from .rearranged import in_chunks
from .ways import Phase, Phases, Way
from .window import WindowPlan
from .window_lower import window_segment
from .winograd import Winograd
from .winograd_lower import winograd_sets

WHOLE = 6
"""Operand that holds weights as they lie where they come prepared in parts."""


_Segments = list[tuple[Segment, list[Any]]]
_Sets = tuple[list[tuple[Segment, ...]], list[Any]]


@dataclass(frozen=True, eq=False)
class LoweredConv:
    """A convolution lowered; its executable takes images, weights, the result, then bias and residual if there are."""

    plan: HostConvPlan
    executable: Executable | Sequence

    def told(self) -> tuple[str, str, HostConvPlan]:
        """Return what runs, for a reader, its kernel, and the plan."""
        return self.plan.call.words, self.plan.kernel.label, self.plan


@remembered()
def lower(plan: HostConvPlan) -> LoweredConv:
    """Lower a plan to a program."""
    if plan.rearranged:
        some = lower(replace(plan, call=plan.rearranged.call, rearranged=None)).executable
        assert isinstance(some, Executable)
        return LoweredConv(plan, in_chunks(plan.rearranged, plan.call, plan.residual, some))
    sets, tables = _SETS[type(plan.way)](plan, plan.way)
    operands = plan.call.behind + plan.residual + plan.epilogue.takes_words
    if plan.prepared and plan.falls_back:
        operands = WHOLE + 1
    return LoweredConv(plan, host_program(*sets, operands=operands, threads=plan.threads,
                                          arena_bytes=plan.scratch_bytes, workspace_bytes=plan.workspace_bytes,
                                          tables=tuple(tables)))


def _transformed(plan: HostConvPlan, way: Winograd) -> _Sets:
    return winograd_sets(way, plan.call, plan.epilogue, plan.residual, plan.prepared)


def _overlapped(plan: HostConvPlan, way: Overlap) -> _Sets:
    items, tables = overlap_items(way, plan.call)
    return [(Segment(_overlap.VERTEX, items, spread(len(items), plan.threads)),)], tables


def _in_phases(plan: HostConvPlan, way: Phases) -> _Sets:
    """All phases in one compute set, those of a kind after another's."""
    segments: list[Segment] = []
    tables: list[Any] = []
    for kind, lowered in _SEGMENTS.items():
        some = [phase for phase in way.products if isinstance(phase, kind)]
        for segment, held in lowered(plan, some) if some else ():
            segments.append(segment)
            tables += held
    return [tuple(segments)], tables


def _matrices(plan: HostConvPlan, products: list[GemmPlan]) -> _Segments:
    """One segment of the rectangles of all products."""
    old = plan.call.behind if plan.residual else 0
    made = [items_of(product, *((1, 0) if product.swapped else (0, 1)), old, WORDS) for product in products]
    panels, groups = 0, plan.call.params.groups
    for product, (items, _) in zip(products, made, strict=True):
        if plan.prepared:
            entry = np.arange(len(items)) * product.params.entries // len(items)
            items["b_panels"] = panels + entry % groups * prepared_bytes(product)
            panels += groups * prepared_bytes(product)
    kinds = [(items, product.flops) for product, (items, _) in zip(products, made, strict=True)]
    return [(segment_by_work(_gemm.VERTEX, kinds, plan.threads), [table for _, held in made for table in held])]


_SEGMENTS: dict[type[Phase], Callable[[HostConvPlan, Any], _Segments]] = {
    GemmPlan: _matrices, FewPlan: lambda _, some: few_segments(some),
    WindowPlan: lambda _, some: [window_segment(phase) for phase in some]}
_SETS: dict[type[Way], Callable[[HostConvPlan, Any], _Sets]] = {
    Phases: _in_phases, Overlap: _overlapped, Winograd: _transformed}
