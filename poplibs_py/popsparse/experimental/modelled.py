"""Experimental block-sparse products on a modelled machine: calls described, and their contract written plainly."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import bad_argument
from ...formats import Array
from ...memo import remembered
from ...ops import RESULT, Request
from ...target import Target
from ...target.types import type_of
from ..matrix import BlockSparseMatrix
from ..modelled import TileBlocks, product_lacks, tiles_request
from ..operands import dense_operand, in_groups, layout_of, matrices, receive_result, shape_of, sparse_operand
from ..pattern import BlockPattern
from ..samples_modelled import TileSamples, interpret_samples
from ..softmax.modelled import wholly_masked
from ..spmm.api import Epilogue
from ..static_matmul.modelled import interpret
from .lower import lower
from .options import BsMatmulOptions
from .params import GRAIN, BsMatmulParams
from .plan import BsMatmulPlan, plan_product


def lacks(w: Any, operands: tuple[Any, ...], how: Epilogue, masks: tuple[str, ...] = ()) -> str:
    """Return what of a product no vertex of PopLibs does, in words; an empty string if they do it all."""
    if not isinstance(w, BlockSparseMatrix):
        return ""  # refused further on
    grain = GRAIN.get(type_of(w.format) or "", 16)
    said = product_lacks(w, operands, how.out, how.out_dtype, None, None, lambda side: side % grain == 0,
                         f"that is a multiple of {grain}", groups=True)
    if said:
        return said
    dense = dense_operand("x", operands[0])
    if dense.array.ndim > 1:
        extent = dense.shape[-2] if len(operands) == 1 else dense.shape[-1]
        if extent % grain or not extent:
            return f"but of dense extents that are multiples of {grain}"
    pattern = w.pattern.transposed()[0] if w.is_transposed else w.pattern
    return "with blocks that lie wholly in the masked triangle" if wholly_masked(pattern, masks) else ""


_planned = remembered(weight=16)(plan_product)


def product_request(w: BlockSparseMatrix, pattern: BlockPattern, x: Any, how: Epilogue, options: BsMatmulOptions,
                    target: Target) -> Request:
    """Describe ``X W``: the transposed product of the machine's tiles."""
    taken, (depth, columns), groups = dense_operand("x", x), w.shape, w.groups
    if taken.array.ndim < 2:
        raise bad_argument("x", f"{taken.array.ndim} axes", "a matrix, or one for each group")
    found = in_groups(matrices("x", taken, "swapped", groups, depth))
    rows = found.shape[2]
    receiver = receive_result(how.out, shape_of("swapped", groups, columns, rows), how.out_dtype, w.format)
    y = in_groups(receiver.seen(lambda array: array.swapaxes(-1, -2)))
    operand = sparse_operand("w", w)
    plan = _planned(BsMatmulParams(pattern, rows, type_of(w.format), False), options, target)
    return _request(plan, (operand.values, found, RESULT), receiver, (w.is_transposed, layout_of(found), layout_of(y)),
                    operand.measured(rows))


def samples_request(w: BlockSparseMatrix, a: Any, b: Any, how: Epilogue, options: BsMatmulOptions,
                    target: Target) -> Request:
    """Describe ``A B`` at the pattern of a matrix that is not transposed."""
    left = in_groups(matrices("a", dense_operand("a", a), "plain", w.groups, w.shape[0]))
    right = in_groups(matrices("b", dense_operand("b", b), "swapped", w.groups, w.shape[1]))
    depth = left.shape[2]
    if right.shape[2] != depth:
        raise bad_argument("b", f"{right.shape[2]} rows", f"as many as a has columns, {depth}")
    receiver = receive_result(how.out, w._blocks.shape, how.out_dtype, w.format, contiguous=True)
    plan = _planned(BsMatmulParams(w.pattern, depth, type_of(w.format), True), options, target)
    return _request(plan, (left, right, RESULT), receiver, (False, layout_of(left), layout_of(right)),
                    sparse_operand("w", w).measured(depth))


def _request(plan: BsMatmulPlan, operands: tuple[Any, ...], receiver: Any, laid: tuple[Any, ...],
             measured: dict[str, Any]) -> Request:
    return tiles_request(lower(plan, *laid), operands, receiver, plan, str(plan.params), plan.tile_loads,
                         lambda: measured)


def interpret_product(plan: BsMatmulPlan, w: BlockSparseMatrix, x: Array) -> Array:
    """Make ``X W`` in plain NumPy: slow, obvious, and of the same bits as the compiled program.

    Parameters
    ----------
    plan : BsMatmulPlan
    w : BlockSparseMatrix
        Of the plan's pattern, not transposed.
    x : numpy.ndarray, shape (groups, m, k)
        Of the plan's type.
    """
    work, (groups, rows, _) = plan.work, x.shape
    assert isinstance(work, TileBlocks)
    across = np.asarray(x, np.float32).swapaxes(1, 2).reshape(-1, rows)
    made = interpret(work, np.asarray(w.blocks, np.float32), across)
    return made.reshape(groups, -1, rows).swapaxes(1, 2)


def interpret_sampled(plan: BsMatmulPlan, a: Array, b: Array) -> Array:
    """Make the stored blocks of ``A B`` in plain NumPy, A of shape (groups, m, k), B (groups, k, n)."""
    work = plan.work
    assert isinstance(work, TileSamples)
    left, right = np.asarray(a, np.float32), np.asarray(b, np.float32).swapaxes(1, 2)
    return interpret_samples(work, left.reshape(-1, left.shape[2]), right.reshape(-1, right.shape[2]))
