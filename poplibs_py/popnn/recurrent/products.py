"""Products of a recurrent layer: weights as one matrix, packed once a call, and products of steps within a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...formats import FP32, Format
from ...ops import Array
from ...poplin.gemm import _gemm
from ...poplin.gemm.lower import Lowered, items_of, lower, lower_prepare
from ...poplin.gemm.options import GemmOptions
from ...poplin.gemm.params import GemmParams, MatrixLayout, contiguous
from ...poplin.gemm.plan import Epilogue, GemmPlan, prepared_bytes
from ...poplin.gemm.search import parts, plan_gemm
from ...program import Executable, Segment, spread, temporary
from ...target import Target

__all__ = ["StepProduct", "lying", "matrix_of", "multiply", "step_product"]


def matrix_of(weights: Array, gates: Sequence[int], by_columns: bool) -> Array:
    """Return weights [gates, rows, columns] as one matrix, [rows, gates * columns], of these gates in this order.

    It is in C order, or the transpose of one that is where columns of the weights lie so.
    """
    count, (rows, columns) = len(gates), weights.shape[1:]
    whole = list(gates) == list(range(len(weights)))
    if by_columns:
        lines = weights.transpose(0, 2, 1)
        return (lines if whole else lines[list(gates)]).reshape(count * columns, rows).T
    picked = weights if whole else weights[list(gates)]
    return np.ascontiguousarray(picked.transpose(1, 0, 2)).reshape(rows, count * columns)


def lying(dtype: Format, rows: int, columns: int, transposed: bool) -> MatrixLayout:
    """Return how a matrix lies that is in C order, or the transpose of one."""
    return contiguous(dtype, columns, rows).transposed if transposed else contiguous(dtype, rows, columns)


@lru_cache(maxsize=256)
def multiply(m: int, k: int, n: int, a: MatrixLayout, b: MatrixLayout, out: MatrixLayout, target: Target) -> Lowered:
    """Return a product of matrices that lie so, lowered."""
    params = GemmParams(m, n, k, a, b, out)
    return lower(plan_gemm(params, GemmOptions(), Epilogue(), target))


@dataclass(frozen=True, eq=False)
class StepProduct:
    """A product of every step with weights that are packed before the first one.

    Attributes
    ----------
    plan : GemmPlan
        Of the product.
    pack : Executable
    nbytes : int
        That packed weights take.
    weights : Format
        What they are to be before they are packed.
    """

    plan: GemmPlan
    packing: Executable
    nbytes: int
    weights: Format

    def pack(self, matrix: Array) -> Array:
        """Return a matrix packed."""
        assert self.weights.dtype is not None
        matrix = matrix if matrix.dtype == self.weights.dtype else matrix.astype(self.weights.dtype, order="K")
        room = temporary((self.nbytes + 64,), np.uint8)
        packed = room[-room.ctypes.data % 64:]
        self.packing(matrix, matrix, packed)
        return packed

    def segment(self, a: int, b: int, out: int, turns: int = 1, turn: int = 0) -> tuple[Segment, list[Any]]:
        """Return the work of a product in a loop, and the tables that it points to.

        Parameters
        ----------
        a, b, out : int
            Operands of the program.
        turns, turn : int, optional
            Turns of the loop, and bytes from the first operand of one turn to that of the next, if it moves.
        """
        items, tables = items_of(self.plan, a, b)
        tables[0]["out_skip"] = out - 2
        tiles = spread(len(items), self.plan.threads)
        if not turn:
            return Segment(_gemm.VERTEX, items, tiles), tables
        numbers = np.repeat(np.arange(turns), len(items))
        items, tiles = np.tile(items, turns), np.tile(tiles, turns)
        items["a"] += numbers * turn
        return Segment(_gemm.VERTEX, items, tiles, numbers), tables


@lru_cache(maxsize=256)
def step_product(m: int, k: int, n: int, a: MatrixLayout, b: Format, transposed: bool, target: Target) -> StepProduct:
    """Plan a step's product, of m rows that lie like `a`, with a matrix that is packed beforehand; results are FP32."""
    options, out = GemmOptions(), contiguous(FP32, m, n)
    params = GemmParams(m, n, k, a, lying(b, k, n, transposed), out)
    if parts(params, options) != (1, 1):  # else the frame would want the matrix whole too, for what is not finite
        b = FP32
        params = GemmParams(m, n, k, a, lying(b, k, n, transposed), out)
    packed = plan_gemm(params, options, Epilogue(), target, packing=True)
    plan = plan_gemm(params, options, Epilogue(), target, fixed=packed)
    return StepProduct(plan, lower_prepare(packed).executable, prepared_bytes(packed), b)
