"""From the plan of a softmax to a program that serves every pattern of its kind."""

from __future__ import annotations

import numpy as np

from ...kernels.records import dtype_of, format_facts
from ...log import tell
from ...memo import remembered
from ...program import Executable, Segment, host_program, spread
from .params import MASKS
from .plan import SoftmaxPlan

_ITEM = dtype_of("pop_softmax_item")


@remembered()
def lower(plan: SoftmaxPlan) -> Executable:
    """Return the executable; its operands are row offsets, column indices, the operands' values, the result's."""
    tell("popsparse", plan)
    p, groups = plan.params, len(plan.params.masks)
    parts = 1 if groups >= plan.threads else plan.threads
    items = np.zeros((groups, parts), _ITEM)
    n_rows = -(-p.shape[0] // p.block_shape[0])
    items["origin"], items["n_rows"] = np.arange(groups)[:, None] * n_rows, n_rows
    items["part"], items["parts"] = np.arange(parts), parts
    items["high"], items["wide"] = p.block_shape
    items["rows"], items["columns"] = p.shape
    items["lanes"] = plan.lanes
    items["mask"] = np.array([MASKS.index(mask) for mask in p.masks])[:, None]
    for i, (format, scale) in enumerate(p.formats):
        items["formats"][..., i] = format_facts(format, scale)
    table = (items.T if parts > 1 else items).reshape(-1)
    rows = Segment(plan.kernel.address, table, spread(len(table), plan.threads))
    return host_program((rows,), operands=2 + len(p.formats), threads=plan.threads, arena_bytes=plan.scratch_bytes)
