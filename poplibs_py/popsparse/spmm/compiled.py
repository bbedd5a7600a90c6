"""Sparse products planned and compiled ahead of their calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import bad_argument, bad_type, flag
from ...formats import FORMATS, FP32, Format, format_of
from ...log import tell
from ...ops import Operand, Request, compiled, host_target
from ..items import FORMAT_NUMBERS
from ..matrix import BlockSparseMatrix
from ..operands import (
    SparseOperand,
    check_activation,
    check_matrix,
    dense_operand,
    product_format,
    receive_result,
    sparse_operand,
    swapped_axes,
)
from ..options import memory_of
from ..pattern import as_extent, room_for
from .params import contiguous_params
from .plan import SparsePlan, checked_plan, plan_spmm
from .request import bias_operand, request_of
from .slices import longest_row

__all__ = ["compile_product", "plan_product"]

def plan_product(w: BlockSparseMatrix, n: int, dtype: Any, out_dtype: Any, bias: Any, activation: Any, swapped: bool,
                 proportion: Any, strict: Any, options: Mapping[str, Any] | None) -> SparsePlan:
    """Return the plan of a product whose dense operands are C-contiguous."""
    memory = memory_of(proportion, strict, options)
    matrix, p = check_matrix("w", w), check_matrix("w", w).pattern
    columns = as_extent("n", n, 0)
    x_format = matrix.format if dtype is None else _served("dtype", dtype)
    y_format = product_format(matrix.format, x_format) if out_dtype is None else _served("out_dtype", out_dtype)
    transposed = matrix.is_transposed != swapped
    scale = matrix.scale if isinstance(matrix.scale, int) else None
    params = contiguous_params(p.shape[::-1] if transposed else p.shape, p.block_shape, p.groups, columns,
                               room_for(p.n_blocks), transposed, matrix.format.name, scale, x_format, y_format,
                               flag("bias", bias), check_activation(activation), swapped)
    plan = plan_spmm(params, memory, host_target(None, "sparse products"),
                     lambda: longest_row(sparse_operand("w", matrix, swapped)))
    tell("popsparse", plan)
    return plan


def _served(name: str, dtype: Any) -> Format:
    fmt = format_of(dtype, name)
    if fmt not in FORMATS:
        raise bad_type(name, fmt.name, ", ".join(FORMAT_NUMBERS))
    return fmt


def compile_product(plan: SparsePlan, op: Any) -> Callable[..., Any]:
    """Return a planned product as a function, whose runs are named by an op's record."""
    planned = checked_plan(plan)
    p = planned.params

    def run(w: Any, x: Any, *, out: Any = None, bias: Any = None) -> Request:
        """Multiply: `w` and `x` in the plan's shapes and formats, `x` in any strides."""
        operand = _as_planned(planned, w)
        dense = _dense_as_planned(planned, x)
        added = _bias_as_planned(planned, bias)
        receiver = receive_result(out, _shape(planned, p.shape[0]), None, planned.out_format,
                                  (dense, operand.values, added))
        if receiver.format != planned.out_format:
            raise bad_argument("out", receiver.format, f"{planned.out_format}, as planned")
        if not receiver.array.flags.carray:
            raise bad_argument("out", f"strides {receiver.array.strides}", "a C-contiguous array, aligned")
        runs = planned
        if planned.slice_blocks and longest_row(operand) > planned.slice_blocks:  # another pattern's
            runs = plan_spmm(p, planned.memory, planned.target, lambda: longest_row(operand))
        if receiver.scale:
            runs = replace(runs, params=replace(p, y=replace(p.y, scale=receiver.scale)))
        y = swapped_axes(receiver.array) if p.swapped else receiver.array
        return request_of(runs, operand, dense, added, receiver, y)

    return compiled(planned, op, run, planned.explain().problem)


def _as_planned(plan: SparsePlan, w: Any) -> SparseOperand:
    p, found = plan.params, sparse_operand("w", w, plan.params.swapped)
    q = found.pattern
    got = (found.shape, q.block_shape, q.groups, found.transposed, found.format.name, found.scale)
    planned = (p.shape, p.block_shape, p.groups, p.transposed, p.w_format, p.w_scale)
    if got != planned or room_for(q.n_blocks) > p.room:
        raise bad_argument("w", repr(w), f"one as planned for, of {p.room} blocks at most")
    return found


def _dense_as_planned(plan: SparsePlan, x: Any) -> Operand:
    taken, p = dense_operand("x", x), plan.params
    shape = _shape(plan, p.shape[1])
    assert taken.format is not None
    if taken.shape != shape or taken.format.name != p.x.format or taken.scale != p.x.scale:
        raise bad_argument("x", f"{taken.format} of shape {taken.shape}",
                           f"{p.x.format} of shape {shape} without a scale")
    return taken if taken.array.flags.c_contiguous and taken.array.flags.aligned else taken.copied()


def _bias_as_planned(plan: SparsePlan, bias: Any) -> Operand | None:
    p = plan.params
    if (bias is not None) != (p.bias is not None):
        raise bad_argument("bias", "an array" if bias is not None else None, "as the plan has it")
    found, layout = bias_operand(bias, p.shape[0], p.groups)
    if found is None or layout == p.bias:
        return found
    numbers = np.broadcast_to(found.array.astype(np.float32), (p.groups, p.shape[0]))
    return Operand(np.ascontiguousarray(numbers), FP32)


def _shape(plan: SparsePlan, extent: int) -> tuple[int, ...]:
    p = plan.params
    inner = (p.columns, extent) if p.swapped else (extent, p.columns)
    return (p.groups, *inner) if p.groups > 1 else inner
