"""Dynamic sparse products on a modelled machine: a call planned, partitioned and described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...checks import check_shape
from ...formats import Array
from ...ops import RESULT, Operand, Request
from ...target import Target
from ...target.types import type_of
from ..matrix import BlockSparseMatrix
from ..modelled import empty_request, lower_tiles, product_lacks, tiles_request
from ..operands import (
    Form,
    dense_operand,
    in_groups,
    layout_of,
    matrices,
    receive_result,
    seen,
    shape_of,
    sparse_operand,
)
from ..partitioner import Partitioner, SparsityData
from ..partitioner.api import BucketOverflowError
from ..static_matmul.modelled import interpret
from .api import plan_fully_connected
from .lower import tile_blocks
from .params import FullyConnectedParams
from .plan import FullyConnectedPlan

Forms = tuple[Form, Form, Form]


def lacks(w: Any, operands: tuple[Any, ...], out: Any, out_dtype: Any, bias: Any = None, activation: Any = None) -> str:
    """Return what of a dynamic product no vertex of PopLibs does: see `product_lacks`."""
    return product_lacks(w, operands, out, out_dtype, bias, activation, lambda side: side == 1 or side % 4 == 0,
                         "1 or a multiple of 4", groups=True)


def plan_of_call(w: BlockSparseMatrix, n: int, blocks: int, target: Target,
                 options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> FullyConnectedPlan:
    """Return the plan of W by n columns with room for so many blocks of all groups, at least one of each."""
    (rows, depth), side = w.shape, w.block_shape[0]
    ratio = min(1.0, max(w.groups, blocks) * side**2 / (w.groups * rows * depth))
    params = FullyConnectedParams(rows, depth, n, ratio, side, type_of(w.format), w.groups)
    return plan_fully_connected(params, target=target, options=options, **more)


def partitioned(w: BlockSparseMatrix, plan: FullyConnectedPlan) -> tuple[SparsityData, ...]:
    """Return the buckets of each group, all of one plan: where a group does not fit, of one with room for it."""
    while True:
        try:
            return tuple(Partitioner(plan).create_sparsity_data(w.group(g), capacity="fixed") for g in range(w.groups))
        except BucketOverflowError:
            before = plan.options.meta_info_bucket_oversize_proportion
            plan = max((Partitioner(plan).create_sparsity_data(w.group(g), capacity="grow").plan
                        for g in range(w.groups)), key=lambda p: p.options.meta_info_bucket_oversize_proportion)
            if plan.options.meta_info_bucket_oversize_proportion <= before:
                raise


def grouped(name: str, value: Operand, form: Form, groups: int, rows: int) -> Operand:
    """Return a dense operand in a form as matrices of so many rows, groups in front, or raise."""
    return in_groups(matrices(name, value, form, groups, rows))


def dynamic_request(w: BlockSparseMatrix, x: Any, out: Any, out_dtype: Any, target: Target,
                    options: Mapping[str, Any] | None, more: Mapping[str, Any], forms: Forms, blocks: int,
                    x_name: str = "x", backward: bool = False) -> Request:
    """Describe a product on a modelled machine: planned for so many blocks, its pattern put into buckets.

    Where it does not fit them, it is planned anew with a `CapacityWarning`. With `backward` it is the gradient of a
    layer's activations, of the layer's own plan and buckets.
    """
    matrix = w.T if forms[0] == "swapped" and not backward else w
    taken, (rows, depth) = dense_operand(x_name, x), matrix.shape[:: -1 if backward else 1]
    vector = taken.array.ndim == 1 and forms[1] != "layer" and w.groups == 1
    check_shape(x_name, np.shape(x), not vector or taken.shape[0] == depth, f"{depth} along the depth")
    taken = (taken.seen(lambda array: array[None, :, None]) if vector else
             grouped(x_name, taken, forms[1], w.groups, depth))
    columns = taken.shape[2]
    shape = (rows,) if vector else shape_of(forms[2], w.groups, rows, columns)
    receiver = receive_result(out, shape, out_dtype, w.format)
    y = in_groups(receiver.seen(lambda array: array[None, :, None] if vector else seen(array, forms[2], w.groups)))
    if 0 in (rows, depth, columns):
        return empty_request(receiver)
    data = partitioned(matrix, plan_of_call(matrix, columns, blocks, target, options, more))
    work, values = tile_blocks(data, backward)
    program, plan = lower_tiles(work, layout_of(taken), layout_of(y)), data[0].plan
    return tiles_request(program, (Operand(values, w.format), taken, RESULT), receiver,
                         plan.of_pass("GradA" if backward else "Fwd"), str(plan.params),
                         lambda: (work.tile_bytes(), work.tile_macs()),
                         lambda: sparse_operand("w", matrix, False).measured(columns))


def interpret_dynamic(groups: Sequence[SparsityData], x: Array, backward: bool = False) -> Array:
    """Make the product of buckets and X in plain NumPy: slow, obvious, and of the same bits as the compiled program.

    Parameters
    ----------
    groups : sequence of SparsityData
        Of a plan: the buckets of each group.
    x : numpy.ndarray, shape (groups * k, n), or (groups * m, n)
        Of the plan's type.
    backward : bool, optional
        Whether it is the gradient of the activations.
    """
    work, values = tile_blocks(groups, backward)
    return interpret(work, np.asarray(values, np.float32), np.asarray(x, np.float32))
