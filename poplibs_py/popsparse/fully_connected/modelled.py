"""Dynamic sparse products on a modelled machine: a call planned, partitioned and described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import bad_argument
from ...ops import RESULT, Operand, Request
from ...target import Target
from ...target.types import type_of
from ..matrix import BlockSparseMatrix
from ..operands import Form, dense_operand, layout_of, receive_result, shape_of, sparse_operand
from ..partitioner import Partitioner, SparsityData
from ..static_matmul.modelled import interpret
from ..tiles import multiply_kernel, product_lacks
from .api import plan_fully_connected
from .lower import lower, tile_blocks
from .params import FullyConnectedParams
from .plan import FullyConnectedPlan

Forms = tuple[Form, Form, Form]

__all__ = ["dynamic_request", "interpret_dynamic", "lacks", "plan_of_call"]

Array = np.ndarray[Any, Any]


def lacks(w: Any, x: Any, out: Any, out_dtype: Any, bias: Any, activation: Any) -> str:
    """Return what of a dynamic product no vertex of PopLibs does: see `product_lacks`."""
    return product_lacks(w, x, out, out_dtype, bias, activation, lambda side: side == 1 or side % 4 == 0,
                         "1 or a multiple of 4")


def plan_of_call(w: BlockSparseMatrix, n: int, blocks: int, target: Target,
                 options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> FullyConnectedPlan:
    """Return the plan of W by n columns with room for so many blocks, at least one."""
    (rows, depth), side = w.shape, w.block_shape[0]
    ratio = min(1.0, max(1, blocks) * side**2 / (rows * depth))
    params = FullyConnectedParams(rows, depth, n, ratio, side, type_of(w.format))
    return plan_fully_connected(params, target=target, options=options, **more)


def dynamic_request(w: BlockSparseMatrix, x: Any, out: Any, out_dtype: Any, target: Target,
                    options: Mapping[str, Any] | None, more: Mapping[str, Any], forms: Forms, blocks: int,
                    x_name: str = "x", backward: bool = False) -> Request:
    """Describe a product on a modelled machine: planned for so many blocks, its pattern put into buckets.

    Where it does not fit them, it is planned anew with a `CapacityWarning`. With `backward` it is the gradient of a
    layer's activations, of the layer's own plan and buckets.
    """
    matrix = w.T if forms[0] == "swapped" and not backward else w
    taken = dense_operand(x_name, x)
    vector, (rows, depth) = taken.array.ndim == 1 and forms[1] != "layer", matrix.shape[::-1 if backward else 1]
    taken = taken.seen(lambda array: array[:, None] if vector else _oriented(array, forms[1]))
    if taken.array.ndim != 2 or taken.shape[0] != depth:
        raise bad_argument(x_name, f"shape {np.shape(x)}", f"{depth} along the depth, and columns")
    columns = taken.shape[1]
    shape = (rows,) if vector else shape_of(forms[2], 1, rows, columns)
    receiver = receive_result(out, shape, out_dtype, w.format, (taken,))
    y = receiver.operand.seen(lambda array: array[:, None] if vector else _oriented(array, forms[2]))
    if 0 in (rows, depth, columns):
        if receiver.array.size:
            receiver.array[...] = 0
        return Request(None, (), receiver, lambda: ("an empty product", "none", None), lacking="", keep=False)
    data = Partitioner(plan_of_call(matrix, columns, blocks, target, options, more)).create_sparsity_data(
        matrix, capacity="grow")
    work, values = tile_blocks(data, backward)
    program = lower(work, layout_of(taken), layout_of(y))

    def told() -> tuple[str, str, FullyConnectedPlan | None]:
        return str(data.plan.params) if data.plan else "", multiply_kernel().label, data.plan

    return Request(program, (Operand(values, w.format), taken, RESULT), receiver, told, lacking="", keep=False,
                   measure=lambda: {**sparse_operand("w", matrix, False).measured(columns),
                                    "tile_bytes": work.tile_bytes(), "tile_macs": work.tile_macs(),
                                    "exchanged_bytes": program.program.exchanged_bytes})


def _oriented(array: Array, form: Form) -> Array:
    """A matrix of one group as the product has it: a layer's lie as transposes do."""
    return array if form == "plain" else array.T


def interpret_dynamic(data: SparsityData, x: Array, backward: bool = False) -> Array:
    """Make the product of buckets and X in plain NumPy: slow, obvious, and of the same bits as the compiled program.

    Parameters
    ----------
    data : SparsityData
        Of a partitioner of a plan.
    x : numpy.ndarray, shape (k, n), or (m, n)
        Of the plan's type.
    backward : bool, optional
        Whether it is the gradient of the activations.
    """
    work, values = tile_blocks(data, backward)
    return interpret(work, np.asarray(values, np.float32), np.asarray(x, np.float32))
