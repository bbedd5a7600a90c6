"""``dY X'`` at a pattern, described: operands taken and checked, planned, and where each array goes."""

from __future__ import annotations

from typing import Any

from ...errors import bad_argument
from ...ops import RESULT, Operand, Request, host_target
from ...planner import Memory
from ..matrix import BlockSparseMatrix
from ..operands import (
    check_rows,
    dense_operand,
    format_in,
    layer_operand,
    layout_of,
    product_format,
    receive_result,
    sparse_operand,
)
from ..pattern import room_for
from .lower import program
from .params import SddmmParams
from .plan import plan_sddmm

__all__ = ["sddmm_request"]


def sddmm_request(w: BlockSparseMatrix, dy: Any, x: Any, out: Any, out_dtype: Any, memory: Memory, *,
                  x_name: str = "x", layer: bool = False) -> Request:
    """Describe ``dY X'`` at the pattern of a matrix; the operands of a layer come as (batch, groups * features)."""
    grads = _dense("grads", dy, w.groups, w.shape[0], layer)
    acts = _dense(x_name, x, w.groups, w.shape[1], layer)
    columns, others = grads.shape[-1], acts.shape[-1]
    if layer and columns != others:
        raise bad_argument(x_name, f"a batch of {others}", f"that of grads, {columns}")
    if columns != others or grads.array.ndim != acts.array.ndim:
        raise bad_argument(x_name, f"shape {acts.shape}", f"as many columns as grads, {columns}")
    stored = sparse_operand("w", w, w.is_transposed)  # in the order that the values are stored in
    left, right = (acts, grads) if w.is_transposed else (grads, acts)
    default = product_format(format_in(dy, grads), format_in(x, acts))
    receiver = receive_result(out, w._blocks.shape, out_dtype, default, (left, right),
                              contiguous=True)
    p = stored.pattern
    params = SddmmParams(p.shape, p.block_shape, p.groups, columns, room_for(p.n_blocks),
                         layout_of(left), layout_of(right), receiver.format.name, receiver.scale)
    plan = plan_sddmm(params, memory, host_target(None, "sparse products"))

    def tell() -> tuple[str, str, Any]:
        what = (f"[{p.shape[0]}, {columns}] {params.y.format} x [{columns}, {p.shape[1]}] {params.x.format} at "
                f"{p.n_blocks} blocks {p.block_shape}")
        return what, f"{plan.kernel.name} ({plan.kernel.level})", plan

    operands = stored.offsets, stored.columns, left, right, RESULT
    return Request(program(plan) if receiver.array.size else None, operands, receiver, tell, like=stored.values,
                   keep=plan.fits)


def _dense(name: str, value: Any, groups: int, extent: int, layer: bool) -> Operand:
    taken = dense_operand(name, value)
    if layer:
        return layer_operand(name, taken, groups, extent)
    check_rows(name, taken.array, extent, groups)
    return taken
