"""Weights of a convolution packed once, for many images: panels of the products, or numbers at Winograd's points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...formats import Array
from ...memo import remembered
from ...ops import Operand, run_told
from ...program import Executable, Segment, host_program, result_array, spread
from ...program.operands import aligned_bytes
from ..gemm import _gemm
from ..gemm.lower import prepare_items
from ..gemm.plan import Epilogue, prepared_bytes
from ..gemm.search import plan_gemm
from .lower import WHOLE, lower
from .plan import HostConvPlan
from .search import plan_call
from .ways import Phases, Way
from .winograd import Winograd
from .winograd_lower import prepare_segment

_Packing = tuple[Segment, list[Any], int, int]
"""What packs, its tables, bytes that a thread takes, and bytes that it writes."""


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """Weights ready for a plan's program.

    Attributes
    ----------
    plan : HostConvPlan
        The plan that reads them.
    packed : numpy.ndarray
        What it reads.
    whole : numpy.ndarray or None
        The weights as they were, for operands that are not finite where numbers are packed in parts.
    """

    plan: HostConvPlan
    packed: Array
    whole: Array | None = None

    def arrange(self, x: Operand, result: Any, bias: Operand | None) -> tuple[Any, ...]:
        """Return operands in the order of the plan's program."""
        some = (x, self.packed, result, *(() if bias is None else (bias,)))
        return some if self.whole is None else (*some, *(x,) * (WHOLE - len(some)), self.whole)


def packed_weights(plan: HostConvPlan, weights: Operand) -> PackedWeights:
    """Pack weights that lie as a plan has them; where packing is no part of its work, keep a copy as they lie."""
    ready = plan_call(plan.call, plan.options, plan.epilogue, plan.target, winograd=plan.winograd is not None,
                      prepared=True)
    ready = replace(ready, layout=plan.layout)
    whole = result_array(weights.shape, weights.array.dtype)
    whole[...] = weights.array
    if not ready.prepared:
        return PackedWeights(ready, whole)
    program, size = _packing(ready)
    packed = aligned_bytes(size)
    run_told("poplin.prepare", lambda: (f"weights of {ready.problem}", *lower(ready).told()[1:]), program, whole, whole,
             packed, written=packed)
    return PackedWeights(ready, packed, whole if ready.falls_back else None)


@remembered(weight=4)
def _packing(plan: HostConvPlan) -> tuple[Executable, int]:
    """The program that packs a plan's weights, and the bytes that it writes."""
    segment, tables, scratch, size = _PACKINGS[type(plan.way)](plan, plan.way)
    return host_program((segment,), operands=3, threads=plan.threads, arena_bytes=scratch, tables=tuple(tables)), size


def _transforming(plan: HostConvPlan, way: Winograd) -> _Packing:
    segment, tables = prepare_segment(way, plan.call)
    return segment, tables, way.scratch_bytes, way.workspace_bytes


def _panels(plan: HostConvPlan, _: Phases) -> _Packing:
    found, held, size, scratch = [], [], 0, 0
    for product in plan.dense:
        unlimited = replace(product.options, available_memory_proportion=None)
        packing = plan_gemm(product.product, unlimited, Epilogue(), plan.target, packing=True)
        items, tables = prepare_items(packing, plan.call.params.groups, size)
        found.append(items)
        held += tables
        size += plan.call.params.groups * prepared_bytes(packing)
        scratch = max(scratch, packing.scratch_bytes)
    items = np.concatenate(found)
    return Segment(_gemm.PREPARE_VERTEX, items, spread(len(items), plan.threads)), held, scratch, size


_PACKINGS: dict[type[Way], Callable[[HostConvPlan, Any], _Packing]] = {Phases: _panels, Winograd: _transforming}
"""What packs weights, for each way that reads them packed."""
