"""Ops in exact fractions: slow, and beyond doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import bad_argument
from ..formats import Array
from ..poplin.product.reference import as_matrices
from ..popops.elementwise.table import ELEMENTWISE
from ..popsparse import BlockSparseMatrix
from ..popsparse.reference import by_group, dense_of, sampled, transposed
from .exact import exact_values, values_of
from .exact_conv import CONVOLUTIONS


def _matmul(a: Any, b: Any, *, alpha: float = 1.0, bias: Any = None, activation: str | None = None, c: Any = None,
            beta: float = 1.0, **how: Any) -> Array:
    left, right, added = as_matrices(exact_values(a), exact_values(b))
    sums = left @ right * exact_values(np.float32(alpha))[()]
    if c is not None:
        sums = sums + np.expand_dims(exact_values(c), added) * exact_values(np.float32(beta))[()]
    return _finished(sums, bias, activation).squeeze(added)


def _matmul_acc(c: Any, a: Any, b: Any, **keywords: Any) -> Array:
    return _matmul(a, b, c=c, **keywords)


def _sparse_dense_matmul(w: BlockSparseMatrix, x: Any, *, bias: Any = None, activation: str | None = None,
                         **how: Any) -> Array:
    dense, kept = stored_values(w)
    numbers = exact_values(x)
    added = (-1,) if numbers.ndim == 1 else ()
    numbers = np.expand_dims(numbers, added)
    grouped = numbers if numbers.ndim == 3 else numbers[None]
    sums = np.empty((*dense.shape[:2], grouped.shape[2]), object)
    for g, row, column in np.ndindex(*sums.shape):
        places = kept[g, row]
        sums[g, row, column] = sum(exact_values(dense[g, row, places]) * grouped[g, places, column], start=0)
    sums = sums if numbers.ndim == 3 else sums[0]
    column = None if bias is None else np.asarray(bias, np.float32)[..., None]
    return _finished(sums, column, activation).squeeze(added)


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
    made: Array = transposed(_sparse_dense_matmul(w.T, transposed(x), **keywords))
    return made


def _cast(x: Any, format: Any, **how: Any) -> Array:
    return exact_values(values_of(x))


def _dynamic_sparse_dense_matmul(w: BlockSparseMatrix, x: Any, *, transpose_lhs: bool = False,
                                 transpose_rhs: bool = False, **keywords: Any) -> Array:
    right = transposed(x) if transpose_rhs else x
    return _sparse_dense_matmul(w.T if transpose_lhs else w, right, **keywords)


def _dynamic_dense_sparse_matmul(x: Any, w: BlockSparseMatrix, *, transpose_lhs: bool = False,
                                 transpose_rhs: bool = False, **keywords: Any) -> Array:
    left = transposed(x) if transpose_lhs else x
    return _dense_sparse_matmul(left, w.T if transpose_rhs else w, **keywords)


def _fully_connected_fwd(w: BlockSparseMatrix, acts: Array, *, bias: Any = None, **keywords: Any) -> Array:
    sums = _sparse_dense_matmul(w, by_group(acts, w.groups), bias=bias, **keywords)
    return sums.transpose(2, 0, 1).reshape(len(acts), w.groups * w.shape[0])


def _fully_connected_grad_a(w: BlockSparseMatrix, grads: Array, **keywords: Any) -> Array:
    return _fully_connected_fwd(w.T, grads, **keywords)


def _fully_connected_sparse_grad_w(w: BlockSparseMatrix, grads: Array, acts: Array, **how: Any) -> Array:
    return _sparse_grad_w(w, by_group(grads, w.groups), by_group(acts, w.groups))


def _sparse_grad_w(w: BlockSparseMatrix, grads: Array, x: Array, **how: Any) -> Array:
    left, right = (exact_values(a).reshape(w.groups, *a.shape[-2:]) for a in (grads, x))
    full = left @ right.swapaxes(1, 2)
    return _at_blocks(full.swapaxes(1, 2) if w.is_transposed else full, w)


def _bs_matmul_sampled(w: BlockSparseMatrix, a: Array, b: Array, *, mask: Any = "none", **how: Any) -> Array:
    if mask != "none" and set(mask) != {"none"}:
        raise bad_argument("mask", mask, "'none'")
    return _sparse_grad_w(w.copy() if w.is_transposed else w, a, np.swapaxes(b, -1, -2))


def _bs_softmax_grad(y: BlockSparseMatrix, grad: BlockSparseMatrix, **how: Any) -> Array:
    outputs, grads = (w.copy() if w.is_transposed else w for w in (y, grad))
    left, right = exact_values(stored_values(outputs)[0]), exact_values(stored_values(grads)[0])
    return _at_blocks(left * (right - (left * right).sum(axis=2, keepdims=True)), outputs)


def _at_blocks(full: Array, w: BlockSparseMatrix) -> Array:
    """The stored blocks of dense matrices (groups, rows, columns) of fractions; zeros outside the matrix."""
    return sampled(full, w.pattern.block_shape, w.pattern.row_offsets, w.pattern.column_indices)


def _finished(sums: Array, bias: Any, activation: str | None) -> Array:
    if activation not in (None, "relu"):
        raise bad_argument("activation", activation, "None or 'relu', whose values are fractions")
    sums = sums if bias is None else sums + exact_values(bias)
    return np.maximum(sums, 0) if activation == "relu" else sums


def _unary(reference: Callable[..., Any]) -> Callable[..., Array]:
    """A rational function in fractions: its reference takes them as it takes float64."""
    def fractions(x: Any, **how: Any) -> Array:
        made: Array = reference(exact_values(values_of(x)))
        return made

    return fractions


def _reduction(function: Callable[..., Any], squares: bool = False) -> Callable[..., Array]:
    """A reduction in fractions: NumPy's takes them too."""
    def fractions(x: Any, axes: Any = None, *, keepdims: bool = False, **how: Any) -> Array:
        values = exact_values(values_of(x))
        return np.asarray(function(values * values if squares else values, axis=axes, keepdims=keepdims), object)

    return fractions


def _reduce(x: Any, axes: Any = None, op: str = "ADD", **how: Any) -> Array:
    functions: dict[str, Any] = {"ADD": np.sum, "SQUARE_ADD": np.sum, "MUL": np.prod, "MIN": np.min, "MAX": np.max}
    if op not in functions or how.get("scale") is not None or how.get("update"):
        allowed = "ADD, SQUARE_ADD, MUL, MIN or MAX without scale and update, whose values are fractions"
        raise bad_argument("op", op, allowed)
    return _reduction(functions[op], op == "SQUARE_ADD")(x, axes, **how)


EXACT: dict[str, Callable[..., Array]] = {
    "popsparse.bs_softmax_grad": _bs_softmax_grad, "popops.cast": _cast,
    **{f"popops.{name}": _unary(ELEMENTWISE[name].reference) for name in ("abs", "neg", "relu", "square", "cube")},
    "popops.sum": _reduction(np.sum), "popops.square_sum": _reduction(np.sum, squares=True),
    "popops.prod": _reduction(np.prod), "popops.max": _reduction(np.max), "popops.min": _reduction(np.min),
    "popops.reduce": _reduce, "popsparse.static.dense_sparse_matmul": _dense_sparse_matmul,
    "testing.prepared.dense_sparse_matmul_prepared": _dense_sparse_matmul,
    "popsparse.dynamic.dense_sparse_matmul": _dynamic_dense_sparse_matmul,
    "popsparse.dynamic.sparse_dense_matmul": _dynamic_sparse_dense_matmul,
    "popsparse.dynamic.fully_connected_fwd": _fully_connected_fwd,
    "popsparse.dynamic.fully_connected_grad_a": _fully_connected_grad_a,
    "popsparse.dynamic.fully_connected_sparse_grad_w": _fully_connected_sparse_grad_w, "poplin.matmul": _matmul,
    "poplin.matmul_acc": _matmul_acc, "poplin.matmul_grouped": _matmul, "poplin.matmul_grouped_acc": _matmul_acc,
    "testing.prepared.matmul_prepared": _matmul, "testing.prepared.matmul_prepared_left": _matmul,
    "popsparse.static.sparse_dense_matmul": _sparse_dense_matmul,
    "testing.prepared.sparse_dense_matmul_prepared": _sparse_dense_matmul,
    "popsparse.static.sparse_grad_w": _sparse_grad_w, "popsparse.experimental.bs_matmul": _dense_sparse_matmul,
    "popsparse.experimental.bs_matmul_sampled": _bs_matmul_sampled, **CONVOLUTIONS}
"""Ops in fractions, by their names in the catalogue: none of irrational results, nor of rounded ones."""
