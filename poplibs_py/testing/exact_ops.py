"""Ops in exact fractions: slow, and beyond doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import bad_argument
from ..popsparse import BlockSparseMatrix
from ..popsparse.reference import dense_of
from .exact import exact_values, values_of

__all__ = ["EXACT"]

Array = NDArray[Any]


def _matmul(a: Any, b: Any, *, alpha: float = 1.0, bias: Any = None, activation: str | None = None,
            **how: Any) -> Array:
    return _finished(exact_values(a) @ exact_values(b) * exact_values(np.float32(alpha))[()], bias, activation)


def _matmul_acc(c: Any, a: Any, b: Any, *, alpha: float = 1.0, beta: float = 1.0, bias: Any = None,
                activation: str | None = None, **how: Any) -> Array:
    sums = exact_values(a) @ exact_values(b) * exact_values(np.float32(alpha))[()]
    return _finished(sums + exact_values(c) * exact_values(np.float32(beta))[()], bias, activation)


def _sparse_dense_matmul(w: BlockSparseMatrix, x: Any, *, bias: Any = None, activation: str | None = None,
                         **how: Any) -> Array:
    dense, kept = stored_values(w)
    numbers = exact_values(x)
    grouped = numbers if numbers.ndim == 3 else numbers[None]
    sums = np.empty((*dense.shape[:2], grouped.shape[2]), object)
    for g, row, column in np.ndindex(*sums.shape):
        places = kept[g, row]
        sums[g, row, column] = sum(exact_values(dense[g, row, places]) * grouped[g, places, column], start=0)
    sums = sums if numbers.ndim == 3 else sums[0]
    return _finished(sums, None if bias is None else np.asarray(bias, np.float32)[..., None], activation)


def stored_values(w: BlockSparseMatrix) -> tuple[Array, Array]:
    """Return the values as dense float64 matrices, and where they are stored, each of shape (groups, rows, columns)."""
    exponents = np.asarray(w.scale, np.int64).reshape(-1, 1, 1)
    blocks = np.ldexp(values_of(w.blocks), exponents)
    pattern = w.pattern
    parts = [dense_of(pattern.shape, pattern.block_shape, pattern.row_offsets, pattern.column_indices, b, w.groups)
             for b in (blocks, np.ones_like(blocks))]
    dense, kept = (p.swapaxes(1, 2) for p in parts) if w.is_transposed else parts
    return dense, kept.astype(bool)


def _dense_sparse_matmul(x: Any, w: BlockSparseMatrix, **keywords: Any) -> Array:
    return _sparse_dense_matmul(w.T, np.swapaxes(x, -1, -2), **keywords).swapaxes(-1, -2)


def _cast(x: Any, format: Any, **how: Any) -> Array:
    return exact_values(values_of(x))


def _finished(sums: Array, bias: Any, activation: str | None) -> Array:
    if activation not in (None, "relu"):
        raise bad_argument("activation", activation, "None or 'relu', whose values are fractions")
    sums = sums if bias is None else sums + exact_values(bias)
    return np.maximum(sums, 0) if activation == "relu" else sums


EXACT: dict[str, Callable[..., Array]] = {
    "cast": _cast,
    "dense_sparse_matmul": _dense_sparse_matmul,
    "matmul": _matmul,
    "matmul_acc": _matmul_acc,
    "sparse_dense_matmul": _sparse_dense_matmul,
}
"""Each op in fractions, by the name it has in `poplibs_py.testing.OPS`."""
