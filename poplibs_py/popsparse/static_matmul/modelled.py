"""Static sparse products on a modelled machine: a call described, and its contract written plainly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import bad_argument
from ...formats import Array
from ...memo import remembered
from ...ops import RESULT, Request
from ...poplin.tile_conv.interpreter import fused_multiply_add, rounded_to
from ...target import Target
from ...target.types import type_of
from ..matrix import BlockSparseMatrix
from ..modelled import TileBlocks, empty_request, product_lacks, tiles_request
from ..operands import Form, dense_operand, layout_of, receive_result, seen, shape_of, sparse_operand
from .api import planned
from .lower import lower, tile_blocks
from .options import StaticOptions
from .params import BLOCKS, StaticParams
from .plan import StaticPlan


def lacks(w: Any, x: Any, out: Any, out_dtype: Any, bias: Any, activation: Any) -> str:
    """Return what of a static product no vertex of PopLibs does: see `product_lacks`."""
    return product_lacks(w, (x,), out, out_dtype, bias, activation, lambda side: side in BLOCKS, "1, 4, 8 or 16")


_planned = remembered(weight=16)(planned)


def plan_of_call(w: BlockSparseMatrix, n: int, target: Target, options: Mapping[str, Any] | None,
                 proportion: float | None, transpose: bool = False) -> StaticPlan:
    """Return the plan of op(W) by n columns, kept for the next call of its kind."""
    pattern = w.pattern.transposed()[0] if w.is_transposed != transpose else w.pattern
    how = StaticOptions.parse(options, available_memory_proportion=proportion)
    return _planned(StaticParams(pattern, n, type_of(w.format)), how, target)


def static_request(w: BlockSparseMatrix, x: Any, out: Any, out_dtype: Any, target: Target,
                   options: Mapping[str, Any] | None, proportion: float | None, form: Form = "plain") -> Request:
    """Describe a product on a modelled machine; swapped, it is that of the transposes."""
    operand = sparse_operand("w", w, form == "swapped")
    taken = dense_operand("x", x)
    if taken.array.ndim == 0:
        raise bad_argument("x", "a number", "a vector or a matrix")
    vector, (rows, depth) = taken.array.ndim == 1, operand.shape
    taken = taken.seen(lambda array: array[:, None]) if vector else taken.seen(lambda array: seen(array, form, 1))
    if taken.shape[0] != depth:
        raise bad_argument("x", f"{taken.shape[0]} of the depth", f"{depth} of it")
    columns = taken.shape[1]
    shape = (rows,) if vector else shape_of(form, 1, rows, columns)
    receiver = receive_result(out, shape, out_dtype, w.format)
    y = receiver.seen(lambda array: array[:, None] if vector else seen(array, form, 1))
    if 0 in (rows, depth, columns):
        return empty_request(receiver)
    plan = plan_of_call(w, columns, target, options, proportion, form == "swapped")
    work = tile_blocks(plan)
    program = lower(plan, operand.transposed, layout_of(taken), layout_of(y))
    return tiles_request(program, (operand.values, taken, RESULT), receiver, plan, str(plan.params),
                         lambda: (work.tile_bytes(), work.tile_macs()), lambda: operand.measured(columns))


def interpret_static(plan: StaticPlan, w: BlockSparseMatrix, x: Array) -> Array:
    """Make a plan's product in plain NumPy: slow, obvious, and of the same bits as the compiled program.

    Parameters
    ----------
    plan : StaticPlan
    w : BlockSparseMatrix
        Of the plan's pattern, not transposed.
    x : numpy.ndarray, shape (k, n)
        Of the plan's type.
    """
    work = tile_blocks(plan)
    return interpret(work, np.asarray(w.blocks, np.float32), np.asarray(x, np.float32))


def interpret(work: TileBlocks, blocks: Array, x: Array) -> Array:
    """Return what tiles make of FP32 values: one tile, one block, one product at a time."""
    m, _, n = work.shape
    side = work.side
    result = np.zeros((m, n), np.float32)
    for part in work.parts:
        split, columns = work.splits[part.split], slice(part.first, part.first + part.columns)
        totals: dict[int, Array] = {}
        for begin, end in zip(split.starts[:-1], split.starts[1:], strict=True):
            sums: dict[int, Array] = {}
            for i in range(begin, end):
                row, depth, block = int(work.rows[i]), int(work.columns[i]) * side, blocks[work.blocks[i]]
                block = block.T if work.transposed else block
                total = sums.get(row, np.zeros((side, part.columns), np.float32))
                for cell in range(side):
                    total = fused_multiply_add(block[:, cell, None], x[depth + cell, None, columns], total)
                sums[row] = rounded_to(total, work.partial)
            for row, total in sums.items():
                totals[row] = totals[row] + total if row in totals else total
        for row, total in totals.items():
            result[row * side:(row + 1) * side, columns] = rounded_to(total, work.partial)
    made: Array = rounded_to(result, work.kind).astype(work.kind.dtype)
    return made
