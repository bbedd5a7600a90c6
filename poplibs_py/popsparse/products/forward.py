"""``Y = op(W) X`` for checked operands: find the program, bind the arrays, run."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ...config import settings
from ...errors import bad_type
from ...formats import FP32
from ..matrix import BlockSparseMatrix
from ..pattern import BlockPattern
from .multiply import Product, program
from .operands import check_out, dense_operand, empty

__all__ = ["multiply"]

Array = np.ndarray[Any, Any]

_FP32 = np.dtype(np.float32)
_WORK_FOR_A_THREAD = 1 << 20
"""Multiplications below which a second thread costs more than it gains."""

_transposes: dict[int, tuple[weakref.ref[BlockPattern], BlockPattern, Array]] = {}


def transpose_of(pattern: BlockPattern) -> tuple[BlockPattern, Array]:
    """Return the pattern of the transpose and the stored place of each of its blocks, built once for each pattern."""
    kept = _transposes.get(id(pattern))
    if kept is None or kept[0]() is not pattern:
        key = id(pattern)
        reference = weakref.ref(pattern, lambda _: _transposes.pop(key, None))
        transposed, order = pattern.transposed()
        kept = _transposes[key] = (reference, transposed, order.astype(np.int32))
    return kept[1], kept[2]


def multiply(w: BlockSparseMatrix, x: object, name: str, out: object | None) -> Array:
    """Multiply: `w` is checked, the rest is not."""
    rows, depth = w.shape
    dense = dense_operand(name, x, depth, w.groups)
    if w.format is not FP32 or dense.dtype != np.float32:
        raise bad_type(name, dense.dtype, "float32, with a float32 matrix")
    shape = (*dense.shape[:-2], rows, dense.shape[-1])
    y = empty(shape, _FP32) if out is None else check_out(out, shape, _FP32, dense, w.blocks)
    if not y.size:
        return y
    xs = dense if dense.strides[-1] == dense.itemsize else np.ascontiguousarray(dense)
    ys = y if y.strides[-1] == y.itemsize else empty(shape, _FP32)
    run(w, xs, ys)
    if ys is not y:
        y[...] = ys
    return y


def run(w: BlockSparseMatrix, x: Array, y: Array) -> None:
    """Run on operands whose rows are contiguous."""
    n = x.shape[-1]
    threads = max(1, min(settings.num_threads, w.nnz * n // _WORK_FOR_A_THREAD))
    product = Product(w.shape, w.pattern.block_shape, w.groups, w.is_transposed, n, "float32",
                      (x.strides[0] if x.ndim == 3 else 0, x.strides[-2]),
                      (y.strides[0] if y.ndim == 3 else 0, y.strides[-2]), threads)
    if w.is_transposed:
        pattern, order = transpose_of(w.pattern)
        program(product)(pattern.row_offsets, pattern.column_indices, w.blocks, x, y, order)
    else:
        program(product)(w.row_offsets, w.column_indices, w.blocks, x, y)
