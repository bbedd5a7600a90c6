"""A convolution's plan to a program: the rectangles of all its products in one compute set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...program import Executable, Segment, host_program, spread
from ..gemm import _gemm
from ..gemm.lower import items_of
from . import _overlap
from .overlap import overlap_items
from .plan import HostConvPlan

__all__ = ["LoweredConv", "lower"]


@dataclass(frozen=True, eq=False)
class LoweredConv:
    """A convolution lowered; its executable takes images, weights, the result, then bias and residual if there are."""

    plan: HostConvPlan
    executable: Executable

    def told(self) -> tuple[str, str, HostConvPlan]:
        """Return what runs, for a reader, its kernel, and the plan."""
        return self.plan.problem, self.plan.kernel.label, self.plan


@lru_cache(maxsize=1024)
def lower(plan: HostConvPlan) -> LoweredConv:
    """Lower a plan to a program."""
    if plan.overlap:
        items, tables = overlap_items(plan.overlap, plan.call)
        vertex = _overlap.VERTEX
    else:
        items, tables = _products(plan)
        vertex = _gemm.VERTEX
    segment = Segment(vertex, items, spread(len(items), plan.threads))
    operands = 3 + (plan.call.bias is not None) + plan.residual
    return LoweredConv(plan, host_program((segment,), operands=operands, threads=plan.threads,
                                          arena_bytes=plan.scratch_bytes, tables=tuple(tables)))


def _products(plan: HostConvPlan) -> tuple[np.ndarray[Any, Any], list[Any]]:
    """Rectangles of all products, and their tables."""
    old = 3 + (plan.call.bias is not None) if plan.residual else 0
    made = [items_of(product, *((1, 0) if product.swapped else (0, 1)), old) for product in plan.products]
    items = np.concatenate([items for items, _ in made])
    return items, [table for _, held in made for table in held]
