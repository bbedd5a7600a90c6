"""From the plan of a sampled product to a program that serves every pattern of its kind."""

from __future__ import annotations

import numpy as np

from ...formats import format_of
from ...kernels.records import FORMAT_NUMBERS, dtype_of, infinite_overflow
from ...kernels.registry import select
from ...log import tell
from ...memo import remembered
from ...program import Executable, Segment, host_program, spread
from ..spmm.lower import PANEL
from ..spmm.params import itemsize_of
from .model import row_bytes
from .plan import SddmmPlan

SAMPLE = dtype_of("pop_sample_item")
"""One part of the block rows of one group: the stored blocks of ``dY X'``."""


@remembered()
def lower(plan: SddmmPlan) -> Executable:
    """Return the executable; its operands are row offsets, column indices, dY, X, values."""
    tell("popsparse", plan)
    p = plan.params
    shares = 1 if p.groups >= plan.threads else plan.threads
    items = np.zeros((shares, p.groups), SAMPLE)
    groups = np.arange(p.groups)
    items["inner"], items["y"], items["x"], items["to"] = range(1, 5)
    items["n_rows"] = -(-p.shape[0] // p.block_shape[0])
    items["origin"] = groups * items["n_rows"]
    items["part"], items["parts"] = np.arange(shares)[:, None], shares
    items["rows"], items["depth"] = p.shape
    items["columns"], items["chunk"] = p.columns, max(1, plan.chunk)
    items["block_rows"], items["block_depth"] = p.block_shape
    items["panel_rows"] = plan.panel_rows
    items["y_pack"], items["x_pack"] = plan.y_pack, plan.x_pack
    for name, operand in (("y", p.y), ("x", p.x)):
        items[f"{name}_offset"] = groups * operand.strides[0]
        items[f"{name}_row"], items[f"{name}_column"] = operand.strides[1:]
        items[f"{name}_format"], items[f"{name}_scale"] = FORMAT_NUMBERS[operand.format], operand.scale
    decoding: tuple[Segment, ...] = ()
    if plan.workspace_bytes:
        line = row_bytes(p.columns, plan.compute_format)
        decoding = (_decoding(plan, line),)
        items["x"], items["x_offset"] = 5, groups * p.shape[1] * line
        items["x_row"], items["x_column"] = line, itemsize_of(plan.compute_format)
    items["to_format"], items["to_scale"] = FORMAT_NUMBERS[p.to_format], p.to_scale
    items["overflow"] = infinite_overflow(format_of(p.to_format))
    flat = items.reshape(-1)
    product = Segment(plan.kernel.address, flat, spread(flat.size, plan.threads))
    return host_program(decoding, (product,), operands=5, threads=plan.threads, arena_bytes=plan.scratch_bytes,
                        workspace_bytes=plan.workspace_bytes)


def _decoding(plan: SddmmPlan, line: int) -> Segment:
    # All of X, decoded.
    p = plan.params
    operand, rows = p.x, p.shape[1]
    items = np.zeros((plan.threads, p.groups), PANEL)
    groups = np.arange(p.groups)
    items["from"], items["to"] = 3, 5
    items["from_offset"] = groups * operand.strides[0]
    items["to_offset"] = groups * rows * line
    items["row"], items["column"], items["to_row"] = *operand.strides[1:], line
    items["rows"], items["columns"] = rows, p.columns
    items["part"], items["parts"] = np.arange(plan.threads)[:, None], plan.threads
    items["format"], items["scale"] = FORMAT_NUMBERS[operand.format], operand.scale
    address = select("sparse", "panel", f"{operand.format}->{plan.compute_format}").kernel.address
    flat = items.reshape(-1)
    return Segment(address, flat, np.arange(flat.size) // p.groups)
