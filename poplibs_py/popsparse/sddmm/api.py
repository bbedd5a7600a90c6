"""``dY X'`` at a pattern: described for the road, planned ahead, compiled.

`static` and `dynamic` are its public faces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...checks import check_shape
from ...errors import bad_argument
from ...ops import RESULT, Operand, Placed, Receiver, Request, own_host
from ...ops.road import Told
from ...planner import Memory
from ..matrix import BlockSparseMatrix
from ..operands import (
    Form,
    SparseOperand,
    check_matrix,
    checked_format,
    dense_operand,
    format_in,
    layout_of,
    matrices,
    planned_operand,
    planned_result,
    product_format,
    receive_result,
    sparse_operand,
)
from ..options import memory_of
from ..pattern import as_extent, room_for
from .lower import lower
from .params import SddmmParams, contiguous_params
from .plan import SddmmPlan, plan_sddmm

RUN_SAMPLED = "run(w, grads, x, *, out=None)"


def sddmm_request(op: str, w: BlockSparseMatrix, dy: Any, x: Any, out: Any, out_dtype: Any, memory: Memory, *,
                  y_name: str = "grads", x_name: str = "x", form: Form = "plain",
                  x_form: Form | None = None, placed: Placed[Any] | None = None) -> Request:
    """Describe ``dY X'`` at the pattern of a matrix; X may be in a form of its own."""
    grads = matrices(y_name, dense_operand(y_name, dy), form, w.groups, w.shape[0])
    acts = matrices(x_name, dense_operand(x_name, x), x_form or form, w.groups, w.shape[1])
    columns, others = grads.shape[-1], acts.shape[-1]
    if form == "layer" and columns != others:
        raise bad_argument(x_name, f"a batch of {others}", f"that of grads, {columns}")
    check_shape(x_name, acts, columns == others and grads.array.ndim == acts.array.ndim,
                f"as long sums as {y_name} has, of {columns}")
    stored, swapped = _stored(w), w.is_transposed
    left, right = (acts, grads) if swapped else (grads, acts)
    default = product_format(format_in(dy, grads), format_in(x, acts))
    receiver = receive_result(out, w._blocks.shape, out_dtype, default, contiguous=True)
    p = stored.pattern
    params = SddmmParams(p.shape, p.block_shape, p.groups, columns, room_for(p.n_blocks), layout_of(left),
                         layout_of(right), receiver.format.name, receiver.scale, form, swapped)
    plan = plan_sddmm(op, params, memory, own_host())
    return _request(plan, stored, left, right, receiver, temporaries=plan.temporaries, placed=placed)


def plan_sampled(op: str, w: Any, n: Any, form: Form = "plain", *, dtype: Any = None, x_dtype: Any = None,
                 out_dtype: Any = None, **memory: Any) -> SddmmPlan:
    """Return the plan of a sampled product whose operands are C-contiguous."""
    limit = memory_of(**memory)
    matrix, columns = check_matrix("w", w), as_extent("n", n, 0)
    p, swapped = matrix.pattern, matrix.is_transposed
    grads = checked_format("dtype", dtype, matrix.format)
    acts = checked_format("x_dtype", x_dtype, grads)
    made = checked_format("out_dtype", out_dtype, product_format(grads, acts))
    left, right = (acts, grads) if swapped else (grads, acts)
    params = contiguous_params(p.shape, p.block_shape, p.groups, columns, room_for(p.n_blocks), left, right, made, form,
                               swapped)
    return plan_sddmm(op, params, limit, own_host())


def run_sampled(planned: SddmmPlan) -> Callable[..., Request]:
    """Return what describes the calls of a planned sampled product."""
    p = planned.params
    layouts = tuple(zip(("x", "grads") if p.swapped else ("grads", "x"), (p.y, p.x), p.shape, strict=True))

    def run(w: Any, grads: Any, x: Any, *, out: Any = None) -> Request:
        """Multiply at the pattern of `w`: `grads` and `x` in the plan's shapes and formats, in any strides."""
        matrix = check_matrix("w", w)
        q, given = matrix.pattern, {"grads": grads, "x": x}
        if (q.shape, q.block_shape, q.groups, matrix.is_transposed) != (p.shape, p.block_shape, p.groups, p.swapped):
            raise bad_argument("w", repr(w), "one as planned for")
        left, right = (planned_operand(name, given[name], layout, p.form, p.groups, extent, p.columns)
                       for name, layout, extent in layouts)
        receiver = planned_result(out, matrix._blocks.shape, p.to_format)
        runs = planned
        if receiver.scale:
            runs = replace(planned, params=replace(p, to_scale=receiver.scale))
        return _request(runs, _stored(matrix), left, right, receiver)

    return run


def _stored(w: BlockSparseMatrix) -> SparseOperand:
    """Return a matrix in the order that its values are stored in."""
    return sparse_operand("w", w, w.is_transposed)


def _request(plan: SddmmPlan, /, w: SparseOperand, left: Operand, right: Operand, receiver: Receiver,
             **more: Any) -> Request:
    """Return the request of a planned product; the operands are as what is stored has them."""
    p = plan.params

    def told() -> Told:
        what = (f"[{p.shape[0]}, {p.columns}] {p.y.format} x [{p.columns}, {p.shape[1]}] {p.x.format} at "
                f"{w.pattern.n_blocks} blocks {p.block_shape}")
        return what, plan.kernel.label, plan

    return Request(lower(plan) if receiver.array.size else None, (w.offsets, w.columns, left, right, RESULT),
                   receiver, told, like=w.values, measure=lambda: w.measured(p.columns), **more)
